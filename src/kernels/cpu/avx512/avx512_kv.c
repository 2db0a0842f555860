/* AVX-512 VNNI: quantised K and V. A query's integers have 15 bits; two planes of bytes meet the keys, lanes
 * are tokens. No state; any thread. */
#include "kernels/cpu/avx512/avx512_vec.h"
#include "kernels/cpu/kv_tier.h"

/* q = 128 * high + low: bytes high[dim], then low[dim]; keys are unsigned, 128 (q4_0: 8) above. */
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
VEC_INLINE __m512i four_of(const int8_t *q) {
    int x;
    memcpy(&x, q, sizeof x);
    return _mm512_set1_epi32(x);
}

struct sums {
    __m512i high[TIER_KV_TILE][2];
    __m512i low[TIER_KV_TILE][2];
};

/* Adds four dims of 32 tokens times four of each query. */
VEC_INLINE void multiply(const int rows, const __m512i k[2], const int8_t *const *q, uint32_t dim, size_t at,
                         struct sums *s) {
    VEC_REPEAT
    for (int r = 0; r < rows; r++) {
        const __m512i high = four_of(q[r] + at), low = four_of(q[r] + dim + at);
        VEC_REPEAT
        for (int i = 0; i < 2; i++) {
            s->high[r][i] = _mm512_dpbusd_epi32(s->high[r][i], k[i], high);
            s->low[r][i] = _mm512_dpbusd_epi32(s->low[r][i], k[i], low);
        }
    }
}

VEC_INLINE void qk_group(const int rows, const bool four, const int8_t *const *q,
                         const struct attention_query *const *groups, const uint8_t *k, const uint8_t *next,
                         uint32_t dim, size_t g, struct sums *s) {
    VEC_REPEAT
    for (int r = 0; r < rows; r++) {
        VEC_REPEAT
        for (int i = 0; i < 2; i++) {
            s->high[r][i] = _mm512_setzero_si512();
            s->low[r][i] = _mm512_set1_epi32(-groups[r][g].offset);
        }
    }
    const size_t dims = g * KERNELS_KV_GROUP;
    const __m512i nibble = _mm512_set1_epi8(15), top = _mm512_set1_epi8(-128);
    const size_t steps = four ? 4 : 8;
    VEC_REPEAT
    for (size_t step = 0; step < steps; step++) { /* as a loop, gcc would copy every sum in every step */
        const uint8_t *at = k + (g * steps + step) * KV_LAYOUT_STEP;
        prefetch_line(next, (g * steps + step) * KV_LAYOUT_STEP);
        prefetch_line(next, (g * steps + step) * KV_LAYOUT_STEP + 64);
        __m512i x[2] = {_mm512_loadu_si512(at), _mm512_loadu_si512(at + 64)};
        __m512i y[2];
        VEC_REPEAT
        for (int i = 0; i < 2; i++)
            y[i] = four ? _mm512_and_si512(x[i], nibble) : _mm512_xor_si512(x[i], top);
        multiply(rows, y, q, dim, dims + 4 * step, s);
        if (four) {
            VEC_REPEAT
            for (int i = 0; i < 2; i++)
                y[i] = _mm512_and_si512(_mm512_srli_epi16(x[i], 4), nibble);
            multiply(rows, y, q, dim, dims + 4 * step + 16, s);
        }
    }
}

/* Rows of `rows_q` lie attention_walk_query(dim) apart. */
VEC_INLINE void kv_qk_rows(const int rows, const bool four, const float *rows_q, const uint8_t *k,
                           const uint8_t *next, uint32_t dim, float scale, float *score) {
    const enum kernels_kv type = four ? KERNELS_KV_Q4_0 : KERNELS_KV_Q8_0;
    const uint16_t *scales = (const uint16_t *)(const void *)(k + kv_layout_scales(type, dim));
    const int8_t *q[TIER_KV_TILE];
    const struct attention_query *groups[TIER_KV_TILE];
    __m512 sum[TIER_KV_TILE][2];
    VEC_REPEAT
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
        VEC_REPEAT
        for (int r = 0; r < rows; r++) {
            const __m512 d_q = _mm512_set1_ps(groups[r][g].d);
            VEC_REPEAT
            for (int i = 0; i < 2; i++) {
                __m512i n = _mm512_add_epi32(_mm512_slli_epi32(s.high[r][i], 7), s.low[r][i]);
                sum[r][i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(n), _mm512_mul_ps(d_q, d[i]), sum[r][i]);
            }
        }
    }
    VEC_REPEAT
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(score + r * KERNELS_SPLIT, _mm512_mul_ps(sum[r][0], _mm512_set1_ps(scale)));
        _mm512_storeu_ps(score + r * KERNELS_SPLIT + 16, _mm512_mul_ps(sum[r][1], _mm512_set1_ps(scale)));
    }
}

/* --- values: numbers of 16 bits meet weights of as many, in pairs of tokens */

#define KV_WIDE 4

VEC_INLINE __m512i kv_wide(const bool four, const void *p) {
    const __m256i x = _mm256_loadu_si256(p);
    return four ? _mm512_cvtepu8_epi16(x) : _mm512_cvtepi8_epi16(x);
}

VEC_INLINE void kv_wide_nibbles(__m512i *low, __m512i *high) {
    const __m512i eight = _mm512_set1_epi16(8);
    *high = _mm512_sub_epi16(_mm512_srli_epi16(*low, 4), eight);
    *low = _mm512_sub_epi16(_mm512_and_si512(*low, _mm512_set1_epi16(15)), eight);
}

VEC_INLINE __m512i kv_four(const int16_t *p) {
    long long x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi64(x);
}

VEC_INLINE __m512i kv_add_pairs(__m512i sum, __m512i a, __m512i b) {
    return _mm512_dpwssd_epi32(sum, a, b);
}

VEC_INLINE __m512 kv_of_pairs(__m512i a, __m512i b) {
    a = _mm512_add_epi32(a, _mm512_srli_epi64(a, 32));
    b = _mm512_add_epi32(b, _mm512_srli_epi64(b, 32));
    __m512i all = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(a));
    return _mm512_cvtepi32_ps(_mm512_inserti64x4(all, _mm512_cvtepi64_epi32(b), 1));
}

VEC_INLINE void kv_store_low(int16_t *p, __m512i a, __m512i b) {
    _Alignas(64) static const int16_t even[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                  22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42,
                                                  44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    _mm512_storeu_si512(p, _mm512_permutex2var_epi16(a, _mm512_load_si512(even), b));
}

#include "kernels/cpu/kv_tmpl.h"
