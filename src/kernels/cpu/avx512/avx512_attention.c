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

/* q: [dim][rows] */
INLINE void qk_rows(const uint32_t rows, const bool f16, const float *q, const void *k, const void *next,
                    uint32_t dim, float *score) {
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
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        _mm512_storeu_ps(score + r * KERNELS_SPLIT, _mm512_add_ps(_mm512_setzero_ps(), low[r]));
        _mm512_storeu_ps(score + r * KERNELS_SPLIT + 16, _mm512_add_ps(_mm512_setzero_ps(), high[r]));
    }
}

INLINE void qk(bool f16, uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
               float *score) {
    switch (rows) {
    case 8:
        qk_rows(8, f16, q, k, next, dim, score);
        break;
    case 7:
        qk_rows(7, f16, q, k, next, dim, score);
        break;
    case 6:
        qk_rows(6, f16, q, k, next, dim, score);
        break;
    case 5:
        qk_rows(5, f16, q, k, next, dim, score);
        break;
    case 4:
        qk_rows(4, f16, q, k, next, dim, score);
        break;
    case 3:
        qk_rows(3, f16, q, k, next, dim, score);
        break;
    case 2:
        qk_rows(2, f16, q, k, next, dim, score);
        break;
    default:
        qk_rows(1, f16, q, k, next, dim, score);
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
            acc[r][w] = _mm512_loadu_ps(o + r * p->o_stride + 16 * w);
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

static void qk_f32(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
                   float *score) {
    qk(false, rows, q, k, next, dim, score);
}

static void qk_f16(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
                   float *score) {
    qk(true, rows, q, k, next, dim, score);
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

/* num_exp of x <= 0: no upper bound is needed, and scaling by a power of two is one instruction. */
INLINE __m512 exp_below(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(NUM_LOG2E), _mm512_set1_ps(NUM_ROUND));
    __m512 n = _mm512_sub_ps(t, _mm512_set1_ps(NUM_ROUND));
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(NUM_LN2_HIGH), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(NUM_LN2_LOW), r);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(NUM_EXP_C6), r, _mm512_set1_ps(NUM_EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(NUM_EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(NUM_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(NUM_EXP_C2));
    p = _mm512_fmadd_ps(p, r, one);
    p = _mm512_fmadd_ps(p, r, one);
    __mmask16 in = _mm512_cmp_ps_mask(x, _mm512_set1_ps(NUM_EXP_MIN), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(in, p, n);
}

/* A whole split is 16 vectors: it stays in registers. */
static void soften_whole(float *score, float scale, float *max, float *sum) {
    const __m512 factor = _mm512_set1_ps(scale);
    __m512 x[16], most[4];
    UNROLL
    for (int i = 0; i < 16; i++)
        x[i] = _mm512_mul_ps(_mm512_loadu_ps(score + 16 * i), factor);
    UNROLL
    for (int i = 0; i < 4; i++)
        most[i] = _mm512_max_ps(_mm512_max_ps(x[i], x[i + 4]), _mm512_max_ps(x[i + 8], x[i + 12]));
    *max =
        _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3])));
    const __m512 top = _mm512_set1_ps(*max);
    UNROLL
    for (int i = 0; i < 16; i++) {
        x[i] = exp_below(_mm512_sub_ps(x[i], top));
        _mm512_storeu_ps(score + 16 * i, x[i]);
    }
    __m512 lane[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        lane[i] = _mm512_add_ps(x[i], x[i + 8]);
    *sum = avx512_sum128(lane);
}

static void soften(float *score, uint32_t n, float scale, float *max, float *sum) {
    if (n == KERNELS_SPLIT) {
        soften_whole(score, scale, max, sum);
        return;
    }
    const __m512 factor = _mm512_set1_ps(scale);
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (uint32_t t = 0; t < n; t += 16) {
        __m512 s = _mm512_mul_ps(_mm512_loadu_ps(score + t), factor);
        _mm512_storeu_ps(score + t, s);
        most = _mm512_mask_max_ps(most, avx512_first(n - t), most, s);
    }
    *max = _mm512_reduce_max_ps(most);
    const __m512 top = _mm512_set1_ps(*max);
    /* Nothing but zeros beyond: then each lane of sum128 is the sum of two at most. */
    __m512 lane[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        lane[i] = _mm512_setzero_ps();
    for (uint32_t t = 0; t < n; t += 16) {
        __m512 e = exp_below(_mm512_sub_ps(_mm512_loadu_ps(score + t), top));
        e = _mm512_maskz_mov_ps(avx512_first(n - t), e);
        _mm512_storeu_ps(score + t, e);
        lane[t / 16 % 8] = _mm512_add_ps(lane[t / 16 % 8], e);
    }
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
