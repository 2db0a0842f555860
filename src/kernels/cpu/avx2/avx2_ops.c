/* AVX2: norm, quantisation, silu, add, rope, argmax. Tails are the scalar code of num.h. No state; any
 * thread. */
#include "kernels/cpu/avx2/avx2_num.h"
#include "kernels/cpu/quantise_walk.h"
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

/* 8 values as integers. */
static inline __m256i quantise8(__m256 x, __m256 factor) {
    __m256i v = _mm256_cvtps_epi32(_mm256_mul_ps(x, factor));
    return _mm256_max_epi32(_mm256_min_epi32(v, _mm256_set1_epi32(127)), _mm256_set1_epi32(-127));
}

/* 32 values as bytes. */
static inline __m256i quantise_group(const float *x, __m256 factor) {
    __m256i v[4];
    AVX2_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = quantise8(_mm256_loadu_ps(x + 8 * i), factor);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i low = _mm256_packs_epi32(v[0], v[1]), high = _mm256_packs_epi32(v[2], v[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}

/* Squared errors of 32 values, to be added up. */
static inline __m256 group_errors(const float *x, __m256 d, __m256 factor) {
    __m256 r[4];
    AVX2_UNROLL
    for (int i = 0; i < 4; i++) {
        __m256 v = _mm256_loadu_ps(x + 8 * i);
        r[i] = _mm256_fnmadd_ps(d, _mm256_cvtepi32_ps(quantise8(v, factor)), v);
    }
    __m256 low = _mm256_fmadd_ps(r[2], r[2], _mm256_mul_ps(r[0], r[0]));
    __m256 high = _mm256_fmadd_ps(r[3], r[3], _mm256_mul_ps(r[1], r[1]));
    return _mm256_add_ps(low, high);
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

static inline __m256 join(bool sum, __m256 a, __m256 b) {
    return sum ? _mm256_add_ps(a, b)
               : _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

/* Lane g: the sum, or the largest bits, of the 8 lanes of v[g]; those 4 apart first, then 2, 1. */
static inline __m256 across(bool sum, const __m256 v[QUANTISE_GROUPS]) {
    __m256 four[4], two[2];
    AVX2_UNROLL
    for (int i = 0; i < 4; i++) /* of vectors i and i + 4 */
        four[i] = join(sum, _mm256_permute2f128_ps(v[i], v[i + 4], 0x20),
                       _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    AVX2_UNROLL
    for (int i = 0; i < 2; i++) { /* of 2i, 2i + 1 and those 4 further on */
        __m256d a = _mm256_castps_pd(four[2 * i]), b = _mm256_castps_pd(four[2 * i + 1]);
        two[i] =
            join(sum, _mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return join(sum, _mm256_shuffle_ps(two[0], two[1], 0x88), _mm256_shuffle_ps(two[0], two[1], 0xdd));
}

static void quantise_groups(const float *x, int8_t *q, float *d, int16_t *s) {
    __m256 v[QUANTISE_GROUPS], scale[2], factor[2], error[2];
    AVX2_UNROLL
    for (int g = 0; g < QUANTISE_GROUPS; g++)
        v[g] = _mm256_castsi256_ps(amax32(x + 32 * g));
    const __m256 amax = across(false, v);
    float scales[QUANTISE_GROUPS], factors[QUANTISE_GROUPS];
    for (int which = 0; which < 2; which++) {
        scale[which] = group_scale(amax, which == 0 ? NUM_QUANT_INVERSE : NUM_QUANT_SECOND);
        factor[which] = group_factor(scale[which]);
        _mm256_storeu_ps(scales, scale[which]);
        _mm256_storeu_ps(factors, factor[which]);
        for (int g = 0; g < QUANTISE_GROUPS; g++)
            v[g] = group_errors(x + 32 * g, _mm256_set1_ps(scales[g]), _mm256_set1_ps(factors[g]));
        error[which] = across(true, v);
    }
    const __m256 second = _mm256_cmp_ps(error[1], error[0], _CMP_LT_OQ);
    _mm256_storeu_ps(d, _mm256_blendv_ps(scale[0], scale[1], second));
    _mm256_storeu_ps(factors, _mm256_blendv_ps(factor[0], factor[1], second));
    for (int g = 0; g < QUANTISE_GROUPS; g++) {
        const __m256i bytes = quantise_group(x + 32 * g, _mm256_set1_ps(factors[g]));
        _mm256_storeu_si256((__m256i *)(q + 32 * g), bytes);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
        v[g] = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    const __m256i sums = _mm256_cvtps_epi32(across(true, v)); /* exact */
    _mm_storeu_si128((__m128i *)s,
                     _mm_packs_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)));
}

static void quantise32(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    quantise_walk(quantise_groups, x, n, q, d, s);
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
            __m256i bytes = quantise_group(x, factor);
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
