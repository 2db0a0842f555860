/* AVX-512: attention and the f16 stores into the KV cache (those of quantised types are the AVX2 tier's).
 * Scores: lanes are tokens, a tile of rows shares each K vector; output: lanes are dims, a tile of rows
 * shares each V vector. The tiles are inlined with constant row counts, so that their accumulators are
 * registers. No state; any thread. */
#include "kernels/cpu/avx512/avx512_kv.h"
#include "kernels/cpu/avx512/avx512_num.h"
#include "kernels/cpu/prefetch.h"

#define TILE   8
#define UNROLL AVX512_UNROLL
#define INLINE static inline __attribute__((always_inline))

INLINE void prefetch(const char *p, const size_t bytes) {
    UNROLL
    for (size_t i = 0; i < bytes; i += 64)
        prefetch_line(p, i);
}

INLINE __m512 load16(bool f16, const void *p, size_t i) {
    if (f16)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)((const uint16_t *)p + i)));
    return _mm512_loadu_ps((const float *)p + i);
}

INLINE __m512 load16_masked(bool f16, __mmask16 m, const void *p, size_t i) {
    if (f16)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, (const uint16_t *)p + i));
    return _mm512_maskz_loadu_ps(m, (const float *)p + i);
}

/* q: [dim][rows]. A sum's segment would be added to +0, which but makes +0 of -0: no e changes by that. */
INLINE void qk_rows(const uint32_t rows, const bool f16, const float *q, const void *k, const void *next,
                    uint32_t dim, float scale, float *score) {
    __m512 low[TILE], high[TILE];
    UNROLL
    for (uint32_t r = 0; r < rows; r++)
        low[r] = high[r] = _mm512_setzero_ps();
    for (size_t d = 0; d < dim; d++, q += rows) {
        prefetch((const char *)next + d * (f16 ? 64 : 128), f16 ? 64 : 128);
        __m512 k_low = load16(f16, k, 32 * d), k_high = load16(f16, k, 32 * d + 16);
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            __m512 x = _mm512_set1_ps(q[r]);
            low[r] = _mm512_fmadd_ps(x, k_low, low[r]);
            high[r] = _mm512_fmadd_ps(x, k_high, high[r]);
        }
    }
    const __m512 factor = _mm512_set1_ps(scale);
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        _mm512_storeu_ps(score + r * KERNELS_SPLIT, _mm512_mul_ps(low[r], factor));
        _mm512_storeu_ps(score + r * KERNELS_SPLIT + 16, _mm512_mul_ps(high[r], factor));
    }
}

INLINE void qk(bool f16, uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
               float scale, float *score) {
    switch (rows) {
    case 8:
        qk_rows(8, f16, q, k, next, dim, scale, score);
        break;
    case 7:
        qk_rows(7, f16, q, k, next, dim, scale, score);
        break;
    case 6:
        qk_rows(6, f16, q, k, next, dim, scale, score);
        break;
    case 5:
        qk_rows(5, f16, q, k, next, dim, scale, score);
        break;
    case 4:
        qk_rows(4, f16, q, k, next, dim, scale, score);
        break;
    case 3:
        qk_rows(3, f16, q, k, next, dim, scale, score);
        break;
    case 2:
        qk_rows(2, f16, q, k, next, dim, scale, score);
        break;
    default:
        qk_rows(1, f16, q, k, next, dim, scale, score);
    }
}

/* 16 * width dims from `at`; with a mask (width 1) those of the mask. o has room for whole vectors. */
INLINE void pv_dims(const uint32_t rows, const uint32_t width, const bool f16, const bool masked, __mmask16 m,
                    const struct attention_pv *p, uint32_t at) {
    __m512 acc[TILE][8];
    const size_t element = f16 ? sizeof(uint16_t) : sizeof(float);
    const float *e = p->e;
    float *o = p->o + at;
    size_t i = p->begin * p->v_stride + at;
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        UNROLL
        for (uint32_t w = 0; w < width; w++)
            acc[r][w] = p->fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(o + r * p->o_stride + 16 * w);
    }
    for (size_t t = p->begin; t < p->end; t++, i += p->v_stride) {
        prefetch((const char *)p->next + i * element, 16 * width * element);
        __m512 x[8];
        UNROLL
        for (uint32_t w = 0; w < width; w++)
            x[w] = masked ? load16_masked(f16, m, p->v, i) : load16(f16, p->v, i + 16 * (size_t)w);
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            __m512 weight = _mm512_set1_ps(e[r * KERNELS_SPLIT + t]);
            UNROLL
            for (uint32_t w = 0; w < width; w++)
                acc[r][w] = _mm512_fmadd_ps(weight, x[w], acc[r][w]);
        }
    }
    if (p->old != NULL) {
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            UNROLL
            for (uint32_t w = 0; w < width; w++) {
                __m512 before = _mm512_loadu_ps(o + r * p->o_stride + 16 * w);
                before = _mm512_mul_ps(before, _mm512_set1_ps(p->old[r]));
                acc[r][w] = _mm512_fmadd_ps(acc[r][w], _mm512_set1_ps(p->now[r]), before);
            }
        }
    }
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        UNROLL
        for (uint32_t w = 0; w < width; w++)
            _mm512_storeu_ps(o + r * p->o_stride + 16 * w, acc[r][w]);
    }
}

INLINE void pv_rows(const uint32_t rows, const uint32_t width, bool f16, const struct attention_pv *p) {
    uint32_t at = 0;
    for (; p->dims - at >= 16 * width; at += 16 * width)
        pv_dims(rows, width, f16, false, 0, p, at);
    for (; width > 2 && p->dims - at >= 32; at += 32)
        pv_dims(rows, 2, f16, false, 0, p, at);
    for (; p->dims - at >= 16; at += 16)
        pv_dims(rows, 1, f16, false, 0, p, at);
    if (at < p->dims)
        pv_dims(rows, 1, f16, true, avx512_first(p->dims - at), p, at);
}

INLINE void pv(bool f16, const struct attention_pv *p) {
    switch (p->rows) {
    case 8:
        pv_rows(8, 2, f16, p);
        break;
    case 7:
        pv_rows(7, 2, f16, p);
        break;
    case 6:
        pv_rows(6, 2, f16, p);
        break;
    case 5:
        pv_rows(5, 2, f16, p);
        break;
    case 4:
        pv_rows(4, 4, f16, p);
        break;
    case 3:
        pv_rows(3, 4, f16, p);
        break;
    case 2:
        pv_rows(2, 4, f16, p);
        break;
    default:
        pv_rows(1, 4, f16, p);
    }
}

static void qk_f32(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                   float *score) {
    qk(false, rows, q, k, next, dim, scale, score);
}

static void qk_f16(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                   float *score) {
    qk(true, rows, q, k, next, dim, scale, score);
}

static void pv_f32(const struct attention_pv *p) {
    pv(false, p);
}

static void pv_f16(const struct attention_pv *p) {
    pv(true, p);
}

static void plain_k(const void *k, uint32_t dim, float *to) {
    for (size_t i = 0; i < (size_t)dim * KERNELS_KV_BLOCK; i += 32) {
        _mm512_storeu_ps(to + i, load16(true, k, i));
        _mm512_storeu_ps(to + i + 16, load16(true, k, i + 16));
    }
}

INLINE void plain_v(const bool f16, const void *v, uint32_t dim, float *to) {
    for (uint32_t d = 0; d < dim; d += 16) {
        const __mmask16 m = avx512_first(dim - d);
        float *at = to + d / ATTENTION_WALK_WIDTH * ATTENTION_WALK_PANEL + d % ATTENTION_WALK_WIDTH;
        for (size_t t = 0; t < KERNELS_KV_BLOCK; t++)
            _mm512_storeu_ps(at + t * ATTENTION_WALK_WIDTH, load16_masked(f16, m, v, t * dim + d));
    }
}

static void plain_f32(const void *v, uint32_t dim, float *to) {
    plain_v(false, v, dim, to);
}

static void plain_f16(const void *v, uint32_t dim, float *to) {
    plain_v(true, v, dim, to);
}

/* Where across() leaves row r's. */
static const uint32_t across_lane[TILE] = {0, 2, 8, 10, 4, 6, 12, 14};

/* The largest lane of each v, or the tree of its sum, lane[j] += lane[j + 8], then 4, 2, 1. */
INLINE __m512 across(const bool sum, const __m512 v[TILE]) {
#define JOIN(a, b) (sum ? _mm512_add_ps(a, b) : _mm512_max_ps(a, b))
    __m512 x[4], y[2];
    UNROLL
    for (int i = 0; i < 4; i++)
        x[i] = JOIN(_mm512_shuffle_f32x4(v[i], v[i + 4], 0x44), _mm512_shuffle_f32x4(v[i], v[i + 4], 0xEE));
    UNROLL
    for (int i = 0; i < 2; i++)
        y[i] = JOIN(_mm512_shuffle_f32x4(x[i], x[i + 2], 0x88), _mm512_shuffle_f32x4(x[i], x[i + 2], 0xDD));
    __m512 z = JOIN(_mm512_shuffle_ps(y[0], y[1], 0x44), _mm512_shuffle_ps(y[0], y[1], 0xEE));
    return JOIN(z, _mm512_permute_ps(z, 0xB1));
#undef JOIN
}

/* All rows see the whole split. One step for all rows at a time: none waits for another's last lanes. */
static void soften_whole(uint32_t rows, float *score, float *max, float *sum) {
    __m512 v[TILE];
    _Alignas(64) float lanes[16];
    UNROLL
    for (uint32_t r = 0; r < TILE; r++) {
        const float *from = score + (r < rows ? r : 0) * KERNELS_SPLIT;
        __m512 most[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            most[i] = _mm512_max_ps(
                _mm512_max_ps(_mm512_loadu_ps(from + 16 * i), _mm512_loadu_ps(from + 64 + 16 * i)),
                _mm512_max_ps(_mm512_loadu_ps(from + 128 + 16 * i), _mm512_loadu_ps(from + 192 + 16 * i)));
        v[r] = _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]));
    }
    _mm512_store_ps(lanes, across(false, v));
    UNROLL
    for (uint32_t r = 0; r < TILE; r++)
        v[r] = _mm512_setzero_ps();
    for (uint32_t r = 0; r < rows; r++, score += KERNELS_SPLIT) {
        max[r] = lanes[across_lane[r]];
        const __m512 top = _mm512_set1_ps(max[r]);
        __m512 lane[8];
        UNROLL
        for (int i = 0; i < 8; i += 2) {
            float *at = score + 16 * i;
            __m512 x[4] = {_mm512_loadu_ps(at), _mm512_loadu_ps(at + 16), _mm512_loadu_ps(at + 128),
                           _mm512_loadu_ps(at + 144)};
            UNROLL
            for (int j = 0; j < 4; j++)
                x[j] = _mm512_sub_ps(x[j], top);
            avx512_exp_below(4, x);
            UNROLL
            for (int j = 0; j < 4; j++)
                _mm512_storeu_ps(at + 128 * (j / 2) + 16 * (j % 2), x[j]);
            lane[i] = _mm512_add_ps(x[0], x[2]);
            lane[i + 1] = _mm512_add_ps(x[1], x[3]);
        }
        v[r] = avx512_sum16(lane);
    }
    _mm512_store_ps(lanes, across(true, v));
    for (uint32_t r = 0; r < rows; r++)
        sum[r] = lanes[across_lane[r]];
}

static void soften_row(float *score, uint32_t n, float *max, float *sum) {
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (uint32_t t = 0; t < n; t += 16)
        most = _mm512_mask_max_ps(most, avx512_first(n - t), most, _mm512_loadu_ps(score + t));
    *max = _mm512_reduce_max_ps(most);
    const __m512 top = _mm512_set1_ps(*max);
    /* Nothing but zeros beyond: then each lane of sum128 is the sum of two at most. */
    __m512 lane[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        lane[i] = _mm512_setzero_ps();
    for (uint32_t t = 0; t < n; t += 16) {
        __m512 e = _mm512_sub_ps(_mm512_loadu_ps(score + t), top);
        avx512_exp_below(1, &e);
        e = _mm512_maskz_mov_ps(avx512_first(n - t), e);
        _mm512_storeu_ps(score + t, e);
        lane[t / 16 % 8] = _mm512_add_ps(lane[t / 16 % 8], e);
    }
    *sum = avx512_sum128(lane);
}

static void soften(uint32_t rows, float *score, const uint32_t *n, float *max, float *sum) {
    if (n[0] == KERNELS_SPLIT) { /* then all later rows see as much */
        soften_whole(rows, score, max, sum);
        return;
    }
    for (uint32_t r = 0; r < rows; r++)
        soften_row(score + (size_t)r * KERNELS_SPLIT, n[r], &max[r], &sum[r]);
}

static void exp_all(float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        __m512 e = _mm512_loadu_ps(x + i);
        avx512_exp_below(1, &e);
        _mm512_storeu_ps(x + i, e);
    }
}

static void merge(float *all, const float *part, uint32_t dim, float a, float b) {
    for (uint32_t d = 0; d < dim; d += 16) {
        __mmask16 m = avx512_first(dim - d);
        __m512 old = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, all + d), _mm512_set1_ps(a));
        __m512 sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, part + d), _mm512_set1_ps(b), old);
        _mm512_mask_storeu_ps(all + d, m, sum);
    }
}

static void scale(float *out, const float *o, uint32_t dim, float factor) {
    for (uint32_t d = 0; d < dim; d += 16) {
        __mmask16 m = avx512_first(dim - d);
        _mm512_mask_storeu_ps(out + d, m,
                              _mm512_mul_ps(_mm512_maskz_loadu_ps(m, o + d), _mm512_set1_ps(factor)));
    }
}

static const struct attention_tier tier = {
    .tile = TILE,
    .qk = {qk_f32, qk_f16, avx512_qk_q8_0, avx512_qk_q4_0},
    .quantise_query = avx512_quantise_query,
    .pv = {pv_f32, pv_f16},
    .plain_k = plain_k,
    .plain_v = {plain_f32, plain_f16, avx512_plain_q8_0, avx512_plain_q4_0},
    .weigh = avx512_weigh,
    .pv_small = {[KERNELS_KV_Q8_0] = avx512_pv_q8_0, [KERNELS_KV_Q4_0] = avx512_pv_q4_0},
    .tile_small = AVX512_KV_TILE,
    .exp = exp_all,
    .soften = soften,
    .merge = merge,
    .scale = scale};

static void attention(const struct kernels_attention *a) {
    attention_walk(a, &tier);
}

static void attention_merge(const struct kernels_attention *a) {
    attention_walk_join(a, &tier);
}

static void store_k_f16(void *k, const float *x, uint32_t dim, uint32_t slot) {
    uint16_t *to = (uint16_t *)k + slot;
    for (uint32_t d = 0; d < dim; d += 16, to += 16 * KERNELS_KV_BLOCK) {
        uint32_t n = dim - d < 16 ? dim - d : 16;
        uint16_t h[16];
        __m512 v = _mm512_maskz_loadu_ps(avx512_first(n), x + d);
        _mm256_storeu_si256((__m256i *)h, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        for (uint32_t i = 0; i < n; i++)
            to[i * KERNELS_KV_BLOCK] = h[i];
    }
}

static void store_v_f16(void *v, const float *x, uint32_t dim, uint32_t slot) {
    uint16_t *to = (uint16_t *)v + (size_t)slot * dim;
    for (uint32_t d = 0; d < dim; d += 16) {
        __mmask16 m = avx512_first(dim - d);
        __m512 f = _mm512_maskz_loadu_ps(m, x + d);
        _mm256_mask_storeu_epi16(to + d, m,
                                 _mm512_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
}

void avx512_attention_init(struct kernels *k) {
    k->attention = attention;
    k->attention_merge = attention_merge;
    k->store_k[KERNELS_KV_F16] = store_k_f16;
    k->store_v[KERNELS_KV_F16] = store_v_f16;
}
