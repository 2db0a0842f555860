/* AVX-512 VNNI: quantised K and V. A query's integers have 15 bits; two planes of bytes meet the keys, lanes
 * are tokens. No state; any thread. */
#include "kernels/cpu/avx512/avx512_kv.h"
#include "kernels/cpu/avx512/avx512_num.h"
#include "kernels/cpu/prefetch.h"

#define TILE   AVX512_KV_TILE
#define UNROLL AVX512_UNROLL
#define INLINE static inline __attribute__((always_inline))

void avx512_quantise_query(const float *x, uint32_t dim, bool four, void *row) {
    int8_t *high = row, *low = high + dim;
    struct attention_query *groups = attention_walk_query_groups(row, dim);
    const __m512 limit = _mm512_set1_ps(NUM_QUANT_QUERY);
    for (uint32_t g = 0; g < dim / KERNELS_KV_GROUP; g++) {
        __m512 v[2];
        for (int i = 0; i < 2; i++)
            v[i] = _mm512_loadu_ps(x + g * KERNELS_KV_GROUP + 16 * i);
        float amax = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1])));
        float d = amax < NUM_QUANT_MIN ? 0.0f : amax * NUM_QUANT_QUERY_INVERSE;
        const __m512 inverse = _mm512_set1_ps(d == 0.0f ? 0.0f : num_rcp(d));
        int sum = 0;
        for (int i = 0; i < 2; i++) {
            __m512 y = _mm512_mul_ps(v[i], inverse);
            y = _mm512_min_ps(_mm512_max_ps(y, _mm512_sub_ps(_mm512_setzero_ps(), limit)), limit);
            __m512i q = _mm512_cvtps_epi32(y);
            sum += _mm512_reduce_add_epi32(q);
            __m512i h = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(64)), 7);
            __m512i l = _mm512_sub_epi32(q, _mm512_slli_epi32(h, 7));
            size_t at = g * KERNELS_KV_GROUP + 16 * (size_t)i;
            _mm_storeu_si128((__m128i *)(high + at), _mm512_cvtepi32_epi8(h));
            _mm_storeu_si128((__m128i *)(low + at), _mm512_cvtepi32_epi8(l));
        }
        groups[g].d = d;
        groups[g].offset = (four ? 8 : 128) * sum;
    }
}

/* Four bytes of a row for all lanes. */
INLINE __m512i four_of(const int8_t *q) {
    int x;
    memcpy(&x, q, sizeof x);
    return _mm512_set1_epi32(x);
}

struct sums {
    __m512i high[TILE][2];
    __m512i low[TILE][2];
};

/* Adds four dims of 32 tokens times four of each query. */
INLINE void multiply(const int rows, const __m512i k[2], const int8_t *const *q, uint32_t dim, size_t at,
                     struct sums *s) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        const __m512i high = four_of(q[r] + at), low = four_of(q[r] + dim + at);
        UNROLL
        for (int i = 0; i < 2; i++) {
            s->high[r][i] = _mm512_dpbusd_epi32(s->high[r][i], k[i], high);
            s->low[r][i] = _mm512_dpbusd_epi32(s->low[r][i], k[i], low);
        }
    }
}

INLINE void qk_group(const int rows, const bool four, const int8_t *const *q,
                     const struct attention_query *const *groups, const uint8_t *k, const uint8_t *next,
                     uint32_t dim, size_t g, struct sums *s) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < 2; i++) {
            s->high[r][i] = _mm512_setzero_si512();
            s->low[r][i] = _mm512_set1_epi32(-groups[r][g].offset);
        }
    }
    const size_t dims = g * KERNELS_KV_GROUP;
    const __m512i nibble = _mm512_set1_epi8(15), top = _mm512_set1_epi8(-128);
    const size_t steps = four ? 4 : 8;
    UNROLL
    for (size_t step = 0; step < steps; step++) { /* as a loop, gcc would copy every sum in every step */
        const uint8_t *at = k + (g * steps + step) * KV_LAYOUT_STEP;
        prefetch_line(next, (g * steps + step) * KV_LAYOUT_STEP);
        prefetch_line(next, (g * steps + step) * KV_LAYOUT_STEP + 64);
        __m512i x[2] = {_mm512_loadu_si512(at), _mm512_loadu_si512(at + 64)};
        __m512i y[2];
        UNROLL
        for (int i = 0; i < 2; i++)
            y[i] = four ? _mm512_and_si512(x[i], nibble) : _mm512_xor_si512(x[i], top);
        multiply(rows, y, q, dim, dims + 4 * step, s);
        if (four) {
            UNROLL
            for (int i = 0; i < 2; i++)
                y[i] = _mm512_and_si512(_mm512_srli_epi16(x[i], 4), nibble);
            multiply(rows, y, q, dim, dims + 4 * step + 16, s);
        }
    }
}

/* Rows of `rows_q` lie attention_walk_query(dim) apart. */
INLINE void qk_rows(const int rows, const bool four, const float *rows_q, const uint8_t *k,
                    const uint8_t *next, uint32_t dim, float scale, float *score) {
    const enum kernels_kv type = four ? KERNELS_KV_Q4_0 : KERNELS_KV_Q8_0;
    const uint16_t *scales = (const uint16_t *)(const void *)(k + kv_layout_scales(type, dim));
    const int8_t *q[TILE];
    const struct attention_query *groups[TILE];
    __m512 sum[TILE][2];
    UNROLL
    for (int r = 0; r < rows; r++, rows_q += attention_walk_query(dim)) {
        q[r] = (const int8_t *)rows_q;
        groups[r] = attention_walk_query_groups((void *)(uintptr_t)rows_q, dim);
        sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    }
    for (size_t g = 0; g < dim / KERNELS_KV_GROUP; g++) {
        struct sums s;
        qk_group(rows, four, q, groups, k, next, dim, g, &s);
        const __m256i *half = (const __m256i *)(const void *)(scales + g * KERNELS_KV_BLOCK);
        const __m512 d[2] = {_mm512_cvtph_ps(_mm256_loadu_si256(half)),
                             _mm512_cvtph_ps(_mm256_loadu_si256(half + 1))};
        UNROLL
        for (int r = 0; r < rows; r++) {
            const __m512 d_q = _mm512_set1_ps(groups[r][g].d);
            UNROLL
            for (int i = 0; i < 2; i++) {
                __m512i n = _mm512_add_epi32(_mm512_slli_epi32(s.high[r][i], 7), s.low[r][i]);
                sum[r][i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(n), _mm512_mul_ps(d_q, d[i]), sum[r][i]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(score + r * KERNELS_SPLIT, _mm512_mul_ps(sum[r][0], _mm512_set1_ps(scale)));
        _mm512_storeu_ps(score + r * KERNELS_SPLIT + 16, _mm512_mul_ps(sum[r][1], _mm512_set1_ps(scale)));
    }
}

INLINE void qk(const bool four, uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
               float scale, float *score) {
    switch (rows) {
    case 4:
        qk_rows(4, four, q, k, next, dim, scale, score);
        break;
    case 3:
        qk_rows(3, four, q, k, next, dim, scale, score);
        break;
    case 2:
        qk_rows(2, four, q, k, next, dim, scale, score);
        break;
    default:
        qk_rows(1, four, q, k, next, dim, scale, score);
    }
}

void avx512_qk_q8_0(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                    float *score) {
    qk(false, rows, q, k, next, dim, scale, score);
}

void avx512_qk_q4_0(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                    float *score) {
    qk(true, rows, q, k, next, dim, scale, score);
}

/* --- values */

/* Signed byte `token` of each lane as a float: a product with 1 takes it out, one instruction where shifts
 * are two. */
INLINE __m512 byte_of(__m512i x, const unsigned token) {
    const __m512i one = _mm512_set1_epi32((int)(1u << (8 * token)));
    return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), one, x));
}

void avx512_plain_q8_0(const void *v, uint32_t dim, float *to) {
    const int8_t *from = v;
    for (size_t t = 0; t < KERNELS_KV_BLOCK; t += 4) {
        for (size_t d = 0; d < dim; d += 16) {
            __m512i x = _mm512_loadu_si512(from + t * dim + 4 * d);
            float *at = to + d / KERNELS_KV_GROUP * ATTENTION_WALK_PANEL + d % KERNELS_KV_GROUP;
            UNROLL
            for (unsigned i = 0; i < 4; i++)
                _mm512_storeu_ps(at + (t + i) * ATTENTION_WALK_WIDTH, byte_of(x, i));
        }
    }
}

void avx512_plain_q4_0(const void *v, uint32_t dim, float *to) {
    const uint8_t *from = v;
    const __m512i nibble = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8);
    for (size_t t = 0; t < KERNELS_KV_BLOCK; t += 4) {
        for (size_t d = 0; d < dim; d += KERNELS_KV_GROUP) {
            __m512i x = _mm512_loadu_si512(from + t * dim / 2 + 2 * d);
            __m512i low = _mm512_sub_epi8(_mm512_and_si512(x, nibble), eight);
            __m512i high = _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(x, 4), nibble), eight);
            float *at = to + d / KERNELS_KV_GROUP * ATTENTION_WALK_PANEL;
            UNROLL
            for (unsigned i = 0; i < 4; i++) {
                _mm512_storeu_ps(at + (t + i) * ATTENTION_WALK_WIDTH, byte_of(low, i));
                _mm512_storeu_ps(at + (t + i) * ATTENTION_WALK_WIDTH + 16, byte_of(high, i));
            }
        }
    }
}

void avx512_weigh(uint32_t rows, uint32_t blocks, const float *e, const float *scales, size_t stride,
                  float *w) {
    for (uint32_t b = 0; b < blocks; b++, e += 32, w += 32, scales += stride) {
        const __m512 low = _mm512_loadu_ps(scales), high = _mm512_loadu_ps(scales + 16);
        for (size_t at = 0; at < (size_t)rows * KERNELS_SPLIT; at += KERNELS_SPLIT) {
            _mm512_storeu_ps(w + at, _mm512_mul_ps(_mm512_loadu_ps(e + at), low));
            _mm512_storeu_ps(w + at + 16, _mm512_mul_ps(_mm512_loadu_ps(e + at + 16), high));
        }
    }
}

/* Four tokens of a group: the integers of dims 0 .. 15 and 16 .. 31 as bytes of lanes. */
INLINE void load_group(const bool four, const uint8_t *v, __m512i x[2]) {
    if (!four) {
        x[0] = _mm512_loadu_si512(v);
        x[1] = _mm512_loadu_si512(v + 64);
        return;
    }
    const __m512i nibble = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8);
    __m512i both = _mm512_loadu_si512(v);
    x[0] = _mm512_sub_epi8(_mm512_and_si512(both, nibble), eight);
    x[1] = _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), eight);
}

INLINE void add_token(const int rows, const __m512i x[2], const unsigned token, const float *w,
                      __m512 acc[TILE][2]) {
    const __m512 low = byte_of(x[0], token), high = byte_of(x[1], token);
    UNROLL
    for (int r = 0; r < rows; r++) {
        const __m512 weight = _mm512_set1_ps(w[r * KERNELS_KV_BLOCK + token]);
        acc[r][0] = _mm512_fmadd_ps(weight, low, acc[r][0]);
        acc[r][1] = _mm512_fmadd_ps(weight, high, acc[r][1]);
    }
}

INLINE void pv_rows(const int rows, const bool four, const float *e, const uint8_t *v, const uint8_t *next,
                    uint32_t dim, uint32_t end, float *o, size_t o_stride) {
    const enum kernels_kv type = four ? KERNELS_KV_Q4_0 : KERNELS_KV_Q8_0;
    const size_t row = 4 * (size_t)kv_layout_group(type); /* bytes of a group in four tokens */
    const size_t quad = dim / KERNELS_KV_GROUP * row;
    const uint16_t *scales = (const uint16_t *)(const void *)(v + kv_layout_scales(type, dim));
    for (size_t g = 0; g < dim / KERNELS_KV_GROUP; g++, o += KERNELS_KV_GROUP) {
        _Alignas(64) float w[TILE * KERNELS_KV_BLOCK];
        const __m256i *half = (const __m256i *)(const void *)(scales + g * KERNELS_KV_BLOCK);
        const __m512 d[2] = {_mm512_cvtph_ps(_mm256_loadu_si256(half)),
                             _mm512_cvtph_ps(_mm256_loadu_si256(half + 1))};
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int i = 0; i < 2; i++)
                _mm512_store_ps(w + r * KERNELS_KV_BLOCK + 16 * i,
                                _mm512_mul_ps(_mm512_loadu_ps(e + r * KERNELS_SPLIT + 16 * i), d[i]));
        }
        __m512 acc[TILE][2];
        UNROLL
        for (int r = 0; r < rows; r++) {
            acc[r][0] = _mm512_loadu_ps(o + r * o_stride);
            acc[r][1] = _mm512_loadu_ps(o + r * o_stride + 16);
        }
        for (uint32_t t = 0; t < end; t += 4) {
            const size_t at = t / 4 * quad + g * row;
            prefetch_line(next, at);
            if (!four)
                prefetch_line(next, at + 64);
            __m512i x[2];
            load_group(four, v + at, x);
            add_token(rows, x, 0, w + t, acc);
            if (t + 1 < end)
                add_token(rows, x, 1, w + t, acc);
            if (t + 2 < end)
                add_token(rows, x, 2, w + t, acc);
            if (t + 3 < end)
                add_token(rows, x, 3, w + t, acc);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            _mm512_storeu_ps(o + r * o_stride, acc[r][0]);
            _mm512_storeu_ps(o + r * o_stride + 16, acc[r][1]);
        }
    }
}

INLINE void pv(const bool four, uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim,
               uint32_t end, float *o, size_t o_stride) {
    switch (rows) {
    case 4:
        pv_rows(4, four, e, v, next, dim, end, o, o_stride);
        break;
    case 3:
        pv_rows(3, four, e, v, next, dim, end, o, o_stride);
        break;
    case 2:
        pv_rows(2, four, e, v, next, dim, end, o, o_stride);
        break;
    default:
        pv_rows(1, four, e, v, next, dim, end, o, o_stride);
    }
}

void avx512_pv_q8_0(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim,
                    uint32_t end, float *o, size_t o_stride) {
    pv(false, rows, e, v, next, dim, end, o, o_stride);
}

void avx512_pv_q4_0(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim,
                    uint32_t end, float *o, size_t o_stride) {
    pv(true, rows, e, v, next, dim, end, o, o_stride);
}
