/* AVX2: attention and the stores into the KV cache. Scores: lanes are tokens, half a block at a time, a tile
 * of rows shares each K vector; output: lanes are dims, a tile of rows shares each V vector. The tiles are
 * inlined with constant row counts, so that their accumulators are registers. No state; any thread. */
#include "kernels/cpu/attention_walk.h"
#include "kernels/cpu/avx2/avx2_num.h"

#define TILE 4
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE __m256 load8(bool f16, const void *p, size_t i) {
    if (f16)
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)p + i)));
    return _mm256_loadu_ps((const float *)p + i);
}

INLINE float load1(bool f16, const void *p, size_t i) {
    return f16 ? _cvtsh_ss(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

INLINE void prefetch(const void *p, size_t bytes) {
    _mm_prefetch((const char *)p + bytes, _MM_HINT_T0);
}

INLINE void qk_rows(const int rows, const bool f16, const float *const *q, const void *k, const void *next,
                    uint32_t dim, float *score) {
    for (size_t half = 0; half < KERNELS_KV_BLOCK; half += 16) {
        __m256 low[TILE], high[TILE];
        UNROLL
        for (int r = 0; r < rows; r++)
            low[r] = high[r] = _mm256_setzero_ps();
        for (size_t d = 0; d < dim; d++) {
            size_t i = KERNELS_KV_BLOCK * d + half;
            prefetch(next, i * (f16 ? sizeof(uint16_t) : sizeof(float)));
            __m256 k_low = load8(f16, k, i), k_high = load8(f16, k, i + 8);
            UNROLL
            for (int r = 0; r < rows; r++) {
                __m256 x = _mm256_set1_ps(q[r][d]);
                low[r] = _mm256_fmadd_ps(x, k_low, low[r]);
                high[r] = _mm256_fmadd_ps(x, k_high, high[r]);
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            float *to = score + r * KERNELS_SPLIT + half;
            _mm256_storeu_ps(to, _mm256_add_ps(_mm256_setzero_ps(), low[r]));
            _mm256_storeu_ps(to + 8, _mm256_add_ps(_mm256_setzero_ps(), high[r]));
        }
    }
}

INLINE void qk(bool f16, uint32_t rows, const float *const *q, const void *k, const void *next, uint32_t dim,
               float *score) {
    uint32_t r = 0;
    for (; rows - r >= 4; r += 4)
        qk_rows(4, f16, q + r, k, next, dim, score + r * KERNELS_SPLIT);
    if ((rows & 2) != 0) {
        qk_rows(2, f16, q + r, k, next, dim, score + r * KERNELS_SPLIT);
        r += 2;
    }
    if ((rows & 1) != 0)
        qk_rows(1, f16, q + r, k, next, dim, score + r * KERNELS_SPLIT);
}

/* 8 * width dims from `at`. */
INLINE void pv_dims(const int rows, const int width, const bool f16, const float *e, const void *v,
                    const void *next, uint32_t dim, uint32_t at, uint32_t begin, uint32_t end, float *o,
                    size_t stride) {
    __m256 acc[TILE][8];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int w = 0; w < width; w++)
            acc[r][w] = _mm256_loadu_ps(o + r * stride + at + 8 * w);
    }
    for (size_t t = begin; t < end; t++) {
        __m256 x[8];
        size_t i = t * dim + at;
        prefetch(next, i * (f16 ? sizeof(uint16_t) : sizeof(float)));
        UNROLL
        for (int w = 0; w < width; w++)
            x[w] = load8(f16, v, i + 8 * (size_t)w);
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m256 weight = _mm256_set1_ps(e[r * KERNELS_SPLIT + t]);
            UNROLL
            for (int w = 0; w < width; w++)
                acc[r][w] = _mm256_fmadd_ps(weight, x[w], acc[r][w]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int w = 0; w < width; w++)
            _mm256_storeu_ps(o + r * stride + at + 8 * w, acc[r][w]);
    }
}

INLINE void pv_rows(const int rows, const int width, bool f16, const float *e, const void *v,
                    const void *next, uint32_t dim, uint32_t begin, uint32_t end, float *o, size_t stride) {
    uint32_t at = 0;
    for (; dim - at >= 8 * (uint32_t)width; at += 8 * (uint32_t)width)
        pv_dims(rows, width, f16, e, v, next, dim, at, begin, end, o, stride);
    for (; dim - at >= 8; at += 8)
        pv_dims(rows, 1, f16, e, v, next, dim, at, begin, end, o, stride);
    for (; at < dim; at++)
        for (int r = 0; r < rows; r++)
            for (size_t t = begin; t < end; t++)
                o[r * stride + at] =
                    fmaf(e[r * KERNELS_SPLIT + t], load1(f16, v, t * dim + at), o[r * stride + at]);
}

INLINE void pv(bool f16, uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim,
               uint32_t begin, uint32_t end, float *o, size_t stride) {
    uint32_t r = 0;
    for (; rows - r >= 4; r += 4)
        pv_rows(4, 2, f16, e + r * KERNELS_SPLIT, v, next, dim, begin, end, o + r * stride, stride);
    if ((rows & 2) != 0) {
        pv_rows(2, 4, f16, e + r * KERNELS_SPLIT, v, next, dim, begin, end, o + r * stride, stride);
        r += 2;
    }
    if ((rows & 1) != 0)
        pv_rows(1, 8, f16, e + r * KERNELS_SPLIT, v, next, dim, begin, end, o + r * stride, stride);
}

static void qk_f32(uint32_t rows, const float *const *q, const void *k, const void *next, uint32_t dim,
                   float *score) {
    qk(false, rows, q, k, next, dim, score);
}

static void qk_f16(uint32_t rows, const float *const *q, const void *k, const void *next, uint32_t dim,
                   float *score) {
    qk(true, rows, q, k, next, dim, score);
}

static void pv_f32(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim,
                   uint32_t begin, uint32_t end, float *o, size_t stride) {
    pv(false, rows, e, v, next, dim, begin, end, o, stride);
}

static void pv_f16(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim,
                   uint32_t begin, uint32_t end, float *o, size_t stride) {
    pv(true, rows, e, v, next, dim, begin, end, o, stride);
}

/* All bits set in the lanes below n. */
static inline __m256 first(uint32_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane));
}

static void soften(float *score, uint32_t n, float scale, float *max, float *sum) {
    const __m256 factor = _mm256_set1_ps(scale);
    __m256 most = _mm256_set1_ps(-INFINITY);
    for (uint32_t t = 0; t < n; t += 8) {
        __m256 s = _mm256_mul_ps(_mm256_loadu_ps(score + t), factor);
        _mm256_storeu_ps(score + t, s);
        most = _mm256_max_ps(most, _mm256_blendv_ps(most, s, first(n - t)));
    }
    most = avx2_largest(most);
    *max = _mm256_cvtss_f32(most);
    float lane[128] = {0};
    for (uint32_t t = 0; t < n; t += 8) {
        __m256 e = _mm256_and_ps(first(n - t), avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(score + t), most)));
        _mm256_storeu_ps(score + t, e);
        _mm256_storeu_ps(lane + t % 128, _mm256_add_ps(_mm256_loadu_ps(lane + t % 128), e));
    }
    *sum = num_sum128(lane);
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

static void attention_f32(const struct kernels_attention *a) {
    static const struct attention_tier tier = {
        .tile = TILE, .qk = qk_f32, .pv = pv_f32, .soften = soften, .merge = merge, .scale = scale};
    attention_walk(a, &tier);
}

static void attention_f16(const struct kernels_attention *a) {
    static const struct attention_tier tier = {
        .tile = TILE, .qk = qk_f16, .pv = pv_f16, .soften = soften, .merge = merge, .scale = scale};
    attention_walk(a, &tier);
}

static uint16_t to_f16(float x) {
    return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static void store_k_f16(void *k, const float *x, uint32_t dim, uint32_t slot) {
    for (size_t d = 0; d < dim; d++)
        ((uint16_t *)k)[d * KERNELS_KV_BLOCK + slot] = to_f16(x[d]);
}

static void store_v_f16(void *v, const float *x, uint32_t dim, uint32_t slot) {
    uint16_t *to = (uint16_t *)v + (size_t)slot * dim;
    uint32_t d = 0;
    for (; dim - d >= 8; d += 8)
        _mm_storeu_si128((__m128i *)(to + d), _mm256_cvtps_ph(_mm256_loadu_ps(x + d),
                                                              _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    for (; d < dim; d++)
        to[d] = to_f16(x[d]);
}

void avx2_attention_init(struct kernels *k) {
    k->attention[KERNELS_KV_F32] = attention_f32;
    k->attention[KERNELS_KV_F16] = attention_f16;
    k->store_k[KERNELS_KV_F16] = store_k_f16;
    k->store_v[KERNELS_KV_F16] = store_v_f16;
}
