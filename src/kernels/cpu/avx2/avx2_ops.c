/* AVX2: norm, quantisation, silu, add, rope, argmax. Tails are the scalar code of num.h. No state; any
 * thread. */
#include "kernels/cpu/avx2/avx2_num.h"
#include "kernels/kernels.h"

#include "base/check.h"

/* Two sweeps of 64 lanes each: 8 accumulators and the value fit the registers. */
static void sum_squares(float lane[128], const float *x, uint32_t whole) {
    for (int half = 0; half < 128; half += 64) {
        __m256 sum[8];
        for (int j = 0; j < 8; j++)
            sum[j] = _mm256_setzero_ps();
        for (uint32_t i = 0; i < whole; i += 128) {
            for (int j = 0; j < 8; j++) {
                __m256 v = _mm256_loadu_ps(x + i + half + 8 * j);
                sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
            }
        }
        for (int j = 0; j < 8; j++)
            _mm256_storeu_ps(lane + half + 8 * j, sum[j]);
    }
}

static void rms_norm(float *y, const float *x, const float *w, uint32_t n, float inv_n, float eps) {
    float lane[128];
    uint32_t whole = n - n % 128;
    sum_squares(lane, x, whole);
    for (uint32_t i = whole; i < n; i++)
        lane[i - whole] = fmaf(x[i], x[i], lane[i - whole]);
    float mean = num_sum128(lane) * inv_n;
    float r = num_rsqrt(mean + eps);
    uint32_t i = 0;
    for (; n - i >= 8; i += 8)
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(r)),
                                              _mm256_loadu_ps(w + i)));
    for (; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

/* d = amax * inverse, 0 for a group that is as good as zero. */
static inline __m256 group_scale(__m256 amax, float inverse) {
    __m256 on = _mm256_cmp_ps(amax, _mm256_set1_ps(NUM_QUANT_MIN), _CMP_NLT_UQ);
    return _mm256_and_ps(on, _mm256_mul_ps(amax, _mm256_set1_ps(inverse)));
}

/* What x is multiplied by. */
static inline __m256 group_factor(__m256 d) {
    return _mm256_and_ps(_mm256_cmp_ps(d, _mm256_setzero_ps(), _CMP_NEQ_OQ), avx2_rcp(d));
}

/* 32 values as integers, 8 in a vector. */
struct group32 {
    __m256i v[4];
};

static inline struct group32 quantise_group(const float *x, __m256 factor) {
    struct group32 g;
    for (int i = 0; i < 4; i++) {
        __m256i v = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
        g.v[i] = _mm256_max_epi32(_mm256_min_epi32(v, _mm256_set1_epi32(127)), _mm256_set1_epi32(-127));
    }
    return g;
}

/* To bytes, in order. */
static inline __m256i group_bytes(const struct group32 *g) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i low = _mm256_packs_epi32(g->v[0], g->v[1]), high = _mm256_packs_epi32(g->v[2], g->v[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}

/* Squared error, in the definition's order. */
static inline float group_error(const struct group32 *g, const float *x, __m256 d) {
    __m256 r[4];
    for (int i = 0; i < 4; i++)
        r[i] = _mm256_fnmadd_ps(d, _mm256_cvtepi32_ps(g->v[i]), _mm256_loadu_ps(x + 8 * i));
    __m256 a = _mm256_fmadd_ps(r[2], r[2], _mm256_mul_ps(r[0], r[0]));
    __m256 b = _mm256_fmadd_ps(r[3], r[3], _mm256_mul_ps(r[1], r[1]));
    __m256 eight = _mm256_add_ps(a, b);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Sums of each 8 signed bytes, in four 64-bit lanes: they become unsigned by adding 128 each. */
static inline __m256i sums8(__m256i q) {
    __m256i sums = _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
    return _mm256_sub_epi64(sums, _mm256_set1_epi64x(8 * 128));
}

/* |x| compares as bits: infinities and NaNs are above all numbers. */
static inline __m256i size_bits(const float *x) {
    return _mm256_castps_si256(avx2_abs(_mm256_loadu_ps(x)));
}

static inline __m256i amax32(const float *x) {
    __m256i a = _mm256_max_epi32(size_bits(x), size_bits(x + 8));
    return _mm256_max_epi32(a, _mm256_max_epi32(size_bits(x + 16), size_bits(x + 24)));
}

/* The largest lane, in all lanes. */
static inline __m256 largest(__m256i x) {
    x = _mm256_max_epi32(x, _mm256_permute2x128_si256(x, x, 1));
    x = _mm256_max_epi32(x, _mm256_shuffle_epi32(x, 0x4e));
    return _mm256_castsi256_ps(_mm256_max_epi32(x, _mm256_shuffle_epi32(x, 0xb1)));
}

static void quantise32(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 32 == 0);
    for (uint32_t g = 0; g < n / 32; g++, x += 32, q += 32) {
        __m256 amax = largest(amax32(x));
        __m256 step = group_scale(amax, NUM_QUANT_INVERSE), other_step = group_scale(amax, NUM_QUANT_SECOND);
        struct group32 best = quantise_group(x, group_factor(step));
        struct group32 other = quantise_group(x, group_factor(other_step));
        bool take = group_error(&other, x, other_step) < group_error(&best, x, step);
        d[g] = _mm256_cvtss_f32(take ? other_step : step);
        __m256i bytes = group_bytes(take ? &other : &best);
        _mm256_storeu_si256((__m256i *)q, bytes);
        __m256i sums = sums8(bytes);
        __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        s[g] = (int16_t)(_mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 2));
    }
}

static void quantise256(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 256 == 0);
    for (uint32_t g = 0; g < n / 256; g++) {
        __m256i amax = _mm256_setzero_si256();
        for (int i = 0; i < 256; i += 32)
            amax = _mm256_max_epi32(amax, amax32(x + i));
        __m256 step = group_scale(largest(amax), NUM_QUANT_INVERSE);
        __m256 factor = group_factor(step);
        d[g] = _mm256_cvtss_f32(step);
        for (int i = 0; i < 256; i += 32, x += 32, q += 32) {
            struct group32 part = quantise_group(x, factor);
            __m256i bytes = group_bytes(&part);
            _mm256_storeu_si256((__m256i *)q, bytes);
            __m256i sums = sums8(bytes);
            *s++ = (int16_t)(_mm256_extract_epi32(sums, 0) + _mm256_extract_epi32(sums, 2));
            *s++ = (int16_t)(_mm256_extract_epi32(sums, 4) + _mm256_extract_epi32(sums, 6));
        }
    }
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= 8; i += 8)
        _mm256_storeu_ps(y + i, _mm256_mul_ps(avx2_silu(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
    for (; i < n; i++)
        y[i] = num_silu(gate[i]) * up[i];
}

static void add(float *y, const float *a, const float *b, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= 8; i += 8)
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
    for (; i < n; i++)
        y[i] = a[i] + b[i];
}

static void rotate(float *first, float *second, float c, float s) {
    float a = *first, b = *second;
    float bs = b * s, bc = b * c;
    *first = fmaf(a, c, -bs);
    *second = fmaf(a, s, bc);
}

static void rope_neox(float *x, const float *cos_sin, uint32_t n_pairs) {
    const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
    uint32_t j = 0;
    for (; n_pairs - j >= 8; j += 8) {
        __m256 low = _mm256_loadu_ps(cos_sin + 2 * (size_t)j),
               high = _mm256_loadu_ps(cos_sin + 2 * (size_t)j + 8);
        __m256 c = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(low, high, 0x88), order);
        __m256 s = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(low, high, 0xdd), order);
        __m256 a = _mm256_loadu_ps(x + j), b = _mm256_loadu_ps(x + j + n_pairs);
        _mm256_storeu_ps(x + j, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + j + n_pairs, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
    }
    for (; j < n_pairs; j++)
        rotate(x + j, x + j + n_pairs, cos_sin[2 * (size_t)j], cos_sin[2 * (size_t)j + 1]);
}

static void rope_pairs(float *x, const float *cos_sin, uint32_t n_pairs) {
    uint32_t j = 0;
    for (; n_pairs - j >= 4; j += 4, x += 8, cos_sin += 8) {
        __m256 v = _mm256_loadu_ps(x), cs = _mm256_loadu_ps(cos_sin);
        __m256 inner = _mm256_mul_ps(_mm256_movehdup_ps(v), _mm256_permute_ps(cs, 0xb1)); /* b s, b c */
        _mm256_storeu_ps(x, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cs, inner));
    }
    for (; j < n_pairs; j++, x += 2, cos_sin += 2)
        rotate(x, x + 1, cos_sin[0], cos_sin[1]);
}

static void rope(float *x, const float *cos_sin, uint32_t n_pairs, bool neox) {
    if (neox)
        rope_neox(x, cos_sin, n_pairs);
    else
        rope_pairs(x, cos_sin, n_pairs);
}

/* Each lane keeps its first largest; then the first of the largest lanes; then the tail, whose indices are
 * larger. */
static uint32_t argmax(const float *x, uint32_t n, bool *finite) {
    const __m256 infinity = _mm256_set1_ps(INFINITY);
    __m256 best = _mm256_set1_ps(-INFINITY), bad = _mm256_setzero_ps();
    __m256i at = _mm256_set1_epi32(-1), here = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    uint32_t i = 0;
    for (; n - i >= 8; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        bad = _mm256_or_ps(bad, _mm256_cmp_ps(avx2_abs(v), infinity, _CMP_NLT_UQ));
        __m256 more = _mm256_cmp_ps(v, best, _CMP_GT_OQ);
        best = _mm256_blendv_ps(best, v, more);
        at = _mm256_blendv_epi8(at, here, _mm256_castps_si256(more));
        here = _mm256_add_epi32(here, _mm256_set1_epi32(8));
    }
    float value[8];
    uint32_t index[8];
    _mm256_storeu_ps(value, best);
    _mm256_storeu_si256((__m256i *)index, at);
    uint32_t lane = 0;
    for (uint32_t l = 1; l < 8; l++)
        if (value[l] > value[lane] || (value[l] == value[lane] && index[l] < index[lane]))
            lane = l;
    float top = value[lane];
    uint32_t where = index[lane];
    *finite = _mm256_movemask_ps(bad) == 0;
    for (; i < n; i++) {
        if (!(fabsf(x[i]) < INFINITY))
            *finite = false;
        if (x[i] > top) {
            top = x[i];
            where = i;
        }
    }
    return *finite ? where : 0;
}

void avx2_init(struct kernels *k) {
    k->tier = "avx2";
    k->rms_norm = rms_norm;
    k->quantise32 = quantise32;
    k->quantise256 = quantise256;
    k->silu_mul = silu_mul;
    k->add = add;
    k->rope = rope;
    k->argmax = argmax;
    avx2_attention_init(k);
}
