/* AVX-512: attention and the f16 stores into the KV cache (those of quantised types are the AVX2 tier's).
 * Scores: lanes are tokens, a tile of rows shares each K vector; output: lanes are dims, a tile of rows
 * shares each V vector. The tiles are inlined with constant row counts, so that their accumulators are
 * registers. No state; any thread. */
#include "kernels/cpu/avx512/avx512_kv.h"
#include "kernels/cpu/avx512/avx512_num.h"

#define TILE 8
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE void prefetch(const char *p, const size_t bytes) {
    UNROLL
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch(p + i, _MM_HINT_T0);
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

INLINE void qk_rows(const int rows, const bool f16, const float *const *q, const void *k, const void *next,
                    uint32_t dim, float *score) {
    __m512 low[TILE], high[TILE];
    UNROLL
    for (int r = 0; r < rows; r++)
        low[r] = high[r] = _mm512_setzero_ps();
    for (size_t d = 0; d < dim; d++) {
        prefetch((const char *)next + d * (f16 ? 64 : 128), f16 ? 64 : 128);
        __m512 k_low = load16(f16, k, 32 * d), k_high = load16(f16, k, 32 * d + 16);
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m512 x = _mm512_set1_ps(q[r][d]);
            low[r] = _mm512_fmadd_ps(x, k_low, low[r]);
            high[r] = _mm512_fmadd_ps(x, k_high, high[r]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(score + r * KERNELS_SPLIT, _mm512_add_ps(_mm512_setzero_ps(), low[r]));
        _mm512_storeu_ps(score + r * KERNELS_SPLIT + 16, _mm512_add_ps(_mm512_setzero_ps(), high[r]));
    }
}

INLINE void qk(bool f16, uint32_t rows, const void *const *rows_q, const void *k, const void *next,
               uint32_t dim, float *score) {
    const float *q[TILE];
    for (uint32_t i = 0; i < rows; i++)
        q[i] = rows_q[i];
    uint32_t r = 0;
    for (; rows - r >= 8; r += 8)
        qk_rows(8, f16, q + r, k, next, dim, score + r * KERNELS_SPLIT);
    if ((rows & 4) != 0) {
        qk_rows(4, f16, q + r, k, next, dim, score + r * KERNELS_SPLIT);
        r += 4;
    }
    if ((rows & 2) != 0) {
        qk_rows(2, f16, q + r, k, next, dim, score + r * KERNELS_SPLIT);
        r += 2;
    }
    if ((rows & 1) != 0)
        qk_rows(1, f16, q + r, k, next, dim, score + r * KERNELS_SPLIT);
}

/* 16 * width dims from `at`; with a mask (width 1) those of the mask. o has room for whole vectors. */
INLINE void pv_dims(const int rows, const int width, const bool f16, const bool masked, __mmask16 m,
                    const struct attention_pv *p, uint32_t first, uint32_t at) {
    __m512 acc[TILE][8];
    const size_t element = f16 ? sizeof(uint16_t) : sizeof(float);
    float *o = p->o + first * p->o_stride + at;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int w = 0; w < width; w++)
            acc[r][w] = _mm512_loadu_ps(o + r * p->o_stride + 16 * w);
    }
    for (size_t t = p->begin; t < p->end; t++) {
        prefetch((const char *)p->next + (t * p->v_stride + at) * element, 16 * (size_t)width * element);
        __m512 x[8];
        UNROLL
        for (int w = 0; w < width; w++) {
            size_t i = t * p->v_stride + at + 16 * (size_t)w;
            x[w] = masked ? load16_masked(f16, m, p->v, i) : load16(f16, p->v, i);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m512 weight = _mm512_set1_ps(p->e[(first + (size_t)r) * p->e_stride + t]);
            UNROLL
            for (int w = 0; w < width; w++)
                acc[r][w] = _mm512_fmadd_ps(weight, x[w], acc[r][w]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int w = 0; w < width; w++)
            _mm512_storeu_ps(o + r * p->o_stride + 16 * w, acc[r][w]);
    }
}

INLINE void pv_rows(const int rows, const int width, bool f16, const struct attention_pv *p, uint32_t first) {
    uint32_t at = 0;
    for (; p->dims - at >= 16 * (uint32_t)width; at += 16 * (uint32_t)width)
        pv_dims(rows, width, f16, false, 0, p, first, at);
    for (; width > 2 && p->dims - at >= 32; at += 32)
        pv_dims(rows, 2, f16, false, 0, p, first, at);
    for (; p->dims - at >= 16; at += 16)
        pv_dims(rows, 1, f16, false, 0, p, first, at);
    if (at < p->dims)
        pv_dims(rows, 1, f16, true, avx512_first(p->dims - at), p, first, at);
}

INLINE void pv(bool f16, const struct attention_pv *p) {
    uint32_t r = 0;
    for (; p->rows - r >= 8; r += 8)
        pv_rows(8, 2, f16, p, r);
    if ((p->rows & 4) != 0) {
        pv_rows(4, 4, f16, p, r);
        r += 4;
    }
    if ((p->rows & 2) != 0) {
        pv_rows(2, 4, f16, p, r);
        r += 2;
    }
    if ((p->rows & 1) != 0)
        pv_rows(1, 4, f16, p, r);
}

static void qk_f32(uint32_t rows, const void *const *q, const void *k, const void *next, uint32_t dim,
                   float *score) {
    qk(false, rows, q, k, next, dim, score);
}

static void qk_f16(uint32_t rows, const void *const *q, const void *k, const void *next, uint32_t dim,
                   float *score) {
    qk(true, rows, q, k, next, dim, score);
}

static void pv_f32(const struct attention_pv *p) {
    pv(false, p);
}

static void pv_f16(const struct attention_pv *p) {
    pv(true, p);
}

static void plain_f16(const void *from, const void *next, size_t n, float *to) {
    for (size_t i = 0; i < n; i += 32) {
        prefetch((const char *)next + i * sizeof(uint16_t), 64);
        _mm512_storeu_ps(to + i, load16(true, from, i));
        _mm512_storeu_ps(to + i + 16, load16(true, from, i + 16));
    }
}

static void soften(float *score, uint32_t n, float scale, float *max, float *sum) {
    const __m512 factor = _mm512_set1_ps(scale);
    __m512 most[4];
    for (int i = 0; i < 4; i++)
        most[i] = _mm512_set1_ps(-INFINITY);
    uint32_t t = 0;
    for (; n - t >= 64; t += 64) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m512 s = _mm512_mul_ps(_mm512_loadu_ps(score + t + 16 * i), factor);
            _mm512_storeu_ps(score + t + 16 * i, s);
            most[i] = _mm512_max_ps(most[i], s);
        }
    }
    for (; t < n; t += 16) {
        __m512 s = _mm512_mul_ps(_mm512_loadu_ps(score + t), factor);
        _mm512_storeu_ps(score + t, s);
        most[0] = _mm512_mask_max_ps(most[0], avx512_first(n - t), most[0], s);
    }
    *max =
        _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3])));
    const __m512 top = _mm512_set1_ps(*max);
    for (t = 0; t < n; t += 16)
        _mm512_storeu_ps(score + t, avx512_exp(_mm512_sub_ps(_mm512_loadu_ps(score + t), top)));
    /* Zeros behind the tokens: then each lane of sum128 is the sum of two. */
    memset(score + n, 0, (KERNELS_SPLIT - n) * sizeof *score);
    __m512 lane[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        lane[i] = _mm512_add_ps(_mm512_loadu_ps(score + 16 * i), _mm512_loadu_ps(score + 128 + 16 * i));
    *sum = avx512_sum128(lane);
}

static void exp_all(float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16)
        _mm512_storeu_ps(x + i, avx512_exp(_mm512_loadu_ps(x + i)));
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

static void attention(const struct kernels_attention *a) {
    static const struct attention_tier tier = {
        .tile = TILE,
        .qk = {qk_f32, qk_f16, avx512_qk_q8_0, avx512_qk_q4_0},
        .quantise_query = avx512_quantise_query,
        .pv = {pv_f32, pv_f16},
        .plain_f16 = plain_f16,
        .plain_v = {[KERNELS_KV_Q8_0] = avx512_plain_q8_0, [KERNELS_KV_Q4_0] = avx512_plain_q4_0},
        .weigh = avx512_weigh,
        .pv_small = {[KERNELS_KV_Q8_0] = avx512_pv_q8_0, [KERNELS_KV_Q4_0] = avx512_pv_q4_0},
        .tile_small = AVX512_KV_TILE,
        .exp = exp_all,
        .soften = soften,
        .merge = merge,
        .scale = scale};
    attention_walk(a, &tier);
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
    k->store_k[KERNELS_KV_F16] = store_k_f16;
    k->store_v[KERNELS_KV_F16] = store_v_f16;
}
