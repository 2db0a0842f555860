/* AVX2: attention. Scores: lanes are tokens, half a block at a time, a tile
 * of rows shares each K vector; output: lanes are dims, a tile of rows shares each V vector. The tiles are
 * inlined with constant row counts, so that their accumulators are registers. No state; any thread. */
#include "kernels/cpu/avx2/avx2_kv.h"
#include "kernels/cpu/avx2/avx2_num.h"
#include "kernels/cpu/prefetch.h"

#define TILE   6
#define UNROLL AVX2_UNROLL
#define INLINE static inline __attribute__((always_inline))

INLINE __m256 load8(bool f16, const void *p, size_t i) {
    if (f16)
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)p + i)));
    return _mm256_loadu_ps((const float *)p + i);
}

INLINE float load1(bool f16, const void *p, size_t i) {
    return f16 ? _cvtsh_ss(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

/* q: [dim][rows]. A sum's segment would be added to +0, which but makes +0 of -0: no e changes by that. The
 * next block's lines are asked for evenly, a part in each pass. */
INLINE void qk_rows(const uint32_t rows, const bool f16, const float *q, const void *k, const void *next,
                    uint32_t dim, float scale, float *score) {
    for (size_t half = 0; half < KERNELS_KV_BLOCK; half += 16) {
        __m256 low[TILE], high[TILE];
        UNROLL
        for (uint32_t r = 0; r < rows; r++)
            low[r] = high[r] = _mm256_setzero_ps();
        const float *at = q;
        for (size_t d = 0; d < dim; d++, at += rows) {
            size_t i = KERNELS_KV_BLOCK * d + half;
            prefetch_line(next, (half * dim + 16 * d) * (f16 ? sizeof(uint16_t) : sizeof(float)));
            __m256 k_low = load8(f16, k, i), k_high = load8(f16, k, i + 8);
            UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                __m256 x = _mm256_set1_ps(at[r]);
                low[r] = _mm256_fmadd_ps(x, k_low, low[r]);
                high[r] = _mm256_fmadd_ps(x, k_high, high[r]);
            }
        }
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            float *to = score + r * KERNELS_SPLIT + half;
            _mm256_storeu_ps(to, _mm256_mul_ps(low[r], _mm256_set1_ps(scale)));
            _mm256_storeu_ps(to + 8, _mm256_mul_ps(high[r], _mm256_set1_ps(scale)));
        }
    }
}

INLINE void qk(bool f16, uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
               float scale, float *score) {
    switch (rows) {
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

/* 8 * width dims from `at`; the next block's lines are asked for evenly, a part in each such pass. */
INLINE void pv_dims(const int rows, const int width, const bool f16, const struct attention_pv *p,
                    uint32_t at) {
    __m256 acc[TILE][8];
    const float *e = p->e;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int w = 0; w < width; w++)
            acc[r][w] = p->fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(p->o + r * p->o_stride + at + 8 * w);
    }
    for (size_t t = p->begin; t < p->end; t++) {
        __m256 x[8];
        size_t i = t * p->v_stride + at;
        prefetch_line(p->next, ((size_t)at * KERNELS_KV_BLOCK + t * 8 * (size_t)width) *
                                   (f16 ? sizeof(uint16_t) : sizeof(float)));
        UNROLL
        for (int w = 0; w < width; w++)
            x[w] = load8(f16, p->v, i + 8 * (size_t)w);
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m256 weight = _mm256_set1_ps(e[r * KERNELS_SPLIT + (int)t]);
            UNROLL
            for (int w = 0; w < width; w++)
                acc[r][w] = _mm256_fmadd_ps(weight, x[w], acc[r][w]);
        }
    }
    if (p->old != NULL) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int w = 0; w < width; w++) {
                __m256 before = _mm256_loadu_ps(p->o + r * p->o_stride + at + 8 * w);
                before = _mm256_mul_ps(before, _mm256_set1_ps(p->old[r]));
                acc[r][w] = _mm256_fmadd_ps(acc[r][w], _mm256_set1_ps(p->now[r]), before);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int w = 0; w < width; w++)
            _mm256_storeu_ps(p->o + r * p->o_stride + at + 8 * w, acc[r][w]);
    }
}

INLINE void pv_rows(const int rows, const int width, bool f16, const struct attention_pv *p) {
    uint32_t at = 0;
    for (; p->dims - at >= 8 * (uint32_t)width; at += 8 * (uint32_t)width)
        pv_dims(rows, width, f16, p, at);
    for (; p->dims - at >= 8; at += 8)
        pv_dims(rows, 1, f16, p, at);
    for (; at < p->dims; at++) {
        for (int r = 0; r < rows; r++) {
            float *o = p->o + r * p->o_stride + at, sum = p->fresh ? 0.0f : *o;
            for (size_t t = p->begin; t < p->end; t++)
                sum = fmaf(p->e[(size_t)r * KERNELS_SPLIT + t], load1(f16, p->v, t * p->v_stride + at), sum);
            float before = p->old != NULL ? *o * p->old[r] : 0.0f;
            *o = p->old != NULL ? fmaf(sum, p->now[r], before) : sum;
        }
    }
}

INLINE void pv(bool f16, const struct attention_pv *p) {
    switch (p->rows) {
    case 6:
        pv_rows(6, 2, f16, p);
        break;
    case 5:
        pv_rows(5, 2, f16, p);
        break;
    case 4:
        pv_rows(4, 2, f16, p);
        break;
    case 3:
        pv_rows(3, 2, f16, p);
        break;
    case 2:
        pv_rows(2, 4, f16, p);
        break;
    default:
        pv_rows(1, 8, f16, p);
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

/* All bits set in the lanes below n. */
static inline __m256 first(uint32_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane));
}

/* sum128 of a split's e, zeros behind its tokens: the lanes have at most two each. */
static float sum_of(const float *e) {
    __m256 v[16];
    UNROLL
    for (int i = 0; i < 16; i++)
        v[i] = _mm256_add_ps(_mm256_loadu_ps(e + 8 * i), _mm256_loadu_ps(e + 128 + 8 * i));
    for (int reach = 8; reach > 0; reach /= 2) {
        UNROLL
        for (int i = 0; i < reach; i++)
            v[i] = _mm256_add_ps(v[i], v[i + reach]);
    }
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v[0]), _mm256_extractf128_ps(v[0], 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static __m256 largest_of(const float *score, uint32_t n) {
    __m256 most[4];
    for (int i = 0; i < 4; i++)
        most[i] = _mm256_set1_ps(-INFINITY);
    uint32_t t = 0;
    for (; n - t >= 32; t += 32) {
        UNROLL
        for (int i = 0; i < 4; i++)
            most[i] = _mm256_max_ps(most[i], _mm256_loadu_ps(score + t + 8 * i));
    }
    for (; t < n; t += 8) {
        __m256 s = _mm256_blendv_ps(most[0], _mm256_loadu_ps(score + t), first(n - t));
        most[0] = _mm256_max_ps(most[0], s);
    }
    return avx2_largest(_mm256_max_ps(_mm256_max_ps(most[0], most[1]), _mm256_max_ps(most[2], most[3])));
}

/* One step for all rows at a time: none waits for another's last lanes. */
static void soften(uint32_t rows, float *score, const uint32_t *n, float *max, float *sum) {
    for (uint32_t r = 0; r < rows; r++)
        max[r] = _mm256_cvtss_f32(largest_of(score + (size_t)r * KERNELS_SPLIT, n[r]));
    for (uint32_t r = 0; r < rows; r++) {
        float *e = score + (size_t)r * KERNELS_SPLIT;
        const __m256 top = _mm256_set1_ps(max[r]);
        for (uint32_t t = 0; t < n[r]; t += 8)
            _mm256_storeu_ps(e + t, avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(e + t), top)));
    }
    for (uint32_t r = 0; r < rows; r++) {
        float *e = score + (size_t)r * KERNELS_SPLIT;
        memset(e + n[r], 0, (KERNELS_SPLIT - n[r]) * sizeof *e);
        sum[r] = sum_of(e);
    }
}

static void exp_all(float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, avx2_exp(_mm256_loadu_ps(x + i)));
}

static void merge(float *all, const float *part, uint32_t dim, float a, float b) {
    uint32_t d = 0;
    for (; dim - d >= 8; d += 8) {
        __m256 old = _mm256_mul_ps(_mm256_loadu_ps(all + d), _mm256_set1_ps(a));
        _mm256_storeu_ps(all + d, _mm256_fmadd_ps(_mm256_loadu_ps(part + d), _mm256_set1_ps(b), old));
    }
    for (; d < dim; d++) {
        float old = all[d] * a;
        all[d] = fmaf(part[d], b, old);
    }
}

static void scale(float *out, const float *o, uint32_t dim, float factor) {
    uint32_t d = 0;
    for (; dim - d >= 8; d += 8)
        _mm256_storeu_ps(out + d, _mm256_mul_ps(_mm256_loadu_ps(o + d), _mm256_set1_ps(factor)));
    for (; d < dim; d++)
        out[d] = o[d] * factor;
}

static void plain_k(const void *k, uint32_t dim, float *to) {
    for (size_t i = 0; i < (size_t)dim * KERNELS_KV_BLOCK; i += 8)
        _mm256_storeu_ps(to + i, load8(true, k, i));
}

INLINE void plain_v(const bool f16, const void *v, uint32_t dim, float *to) {
    for (size_t t = 0; t < KERNELS_KV_BLOCK; t++) {
        for (uint32_t d = 0; d < dim;) {
            float *at = to + d / ATTENTION_WALK_WIDTH * ATTENTION_WALK_PANEL + t * ATTENTION_WALK_WIDTH +
                        d % ATTENTION_WALK_WIDTH;
            if (dim - d >= 8) {
                _mm256_storeu_ps(at, load8(f16, v, t * dim + d));
                d += 8;
            } else {
                *at = load1(f16, v, t * dim + d);
                d++;
            }
        }
    }
}

static void plain_f32(const void *v, uint32_t dim, float *to) {
    plain_v(false, v, dim, to);
}

static void plain_f16(const void *v, uint32_t dim, float *to) {
    plain_v(true, v, dim, to);
}

static const struct attention_tier tier = {
    .tile = TILE,
    .qk = {qk_f32, qk_f16, avx2_qk_q8_0, avx2_qk_q4_0},
    .quantise_query = avx2_quantise_query,
    .pv = {pv_f32, pv_f16},
    .plain_k = plain_k,
    .plain_v = {plain_f32, plain_f16, avx2_plain_q8_0, avx2_plain_q4_0},
    .weigh = avx2_weigh,
    .pv_small = {[KERNELS_KV_Q8_0] = avx2_pv_q8_0, [KERNELS_KV_Q4_0] = avx2_pv_q4_0},
    .tile_small = AVX2_KV_TILE,
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

void avx2_attention_init(struct kernels *k) {
    k->attention = attention;
    k->attention_merge = attention_merge;
    avx2_kv_init(k);
}
