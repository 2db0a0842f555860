/* AVX2: norm, quantisation, silu, add, rope, argmax. No state; any thread. */
#include "kernels/cpu/avx2/avx2_vec.h"
#include "kernels/cpu/quantise_tmpl.h"

/* 8 values as integers. */
static inline __m256i quantise8(__m256 x, __m256 factor) {
    __m256i v = _mm256_cvtps_epi32(_mm256_mul_ps(x, factor));
    return _mm256_max_epi32(_mm256_min_epi32(v, _mm256_set1_epi32(127)), _mm256_set1_epi32(-127));
}

/* 32 values as bytes. */
static inline __m256i quantise_group(const float *x, __m256 factor) {
    __m256i v[4];
    VEC_REPEAT
    for (int i = 0; i < 4; i++)
        v[i] = quantise8(_mm256_loadu_ps(x + 8 * i), factor);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i low = _mm256_packs_epi32(v[0], v[1]), high = _mm256_packs_epi32(v[2], v[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}

/* Squared errors of 32 values, to be added up. */
static inline __m256 group_errors(const float *x, __m256 d, __m256 factor) {
    __m256 r[4];
    VEC_REPEAT
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

static inline __m256i amax32(const float *x) {
    __m256i a = _mm256_max_epi32(quantise_size(x), quantise_size(x + 8));
    return _mm256_max_epi32(a, _mm256_max_epi32(quantise_size(x + 16), quantise_size(x + 24)));
}

static inline __m256 join(bool sum, __m256 a, __m256 b) {
    return sum ? _mm256_add_ps(a, b)
               : _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

/* Lane g: the sum, or the largest bits, of the 8 lanes of v[g]; those 4 apart first, then 2, 1. */
static inline __m256 across(bool sum, const __m256 v[QUANTISE_GROUPS]) {
    __m256 four[4], two[2];
    VEC_REPEAT
    for (int i = 0; i < 4; i++) /* of vectors i and i + 4 */
        four[i] = join(sum, _mm256_permute2f128_ps(v[i], v[i + 4], 0x20),
                       _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    VEC_REPEAT
    for (int i = 0; i < 2; i++) { /* of 2i, 2i + 1 and those 4 further on */
        __m256d a = _mm256_castps_pd(four[2 * i]), b = _mm256_castps_pd(four[2 * i + 1]);
        two[i] =
            join(sum, _mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return join(sum, _mm256_shuffle_ps(two[0], two[1], 0x88), _mm256_shuffle_ps(two[0], two[1], 0xdd));
}

static void ops_quantise_groups(const float *x, int8_t *q, float *d, int16_t *s) {
    __m256 v[QUANTISE_GROUPS], scale[2], factor[2], error[2];
    VEC_REPEAT
    for (int g = 0; g < QUANTISE_GROUPS; g++)
        v[g] = _mm256_castsi256_ps(amax32(x + 32 * g));
    const __m256 amax = across(false, v);
    float scales[QUANTISE_GROUPS], factors[QUANTISE_GROUPS];
    for (int which = 0; which < 2; which++) {
        scale[which] = quantise_scale(amax, vec_set(which == 0 ? NUM_QUANT_INVERSE : NUM_QUANT_SECOND));
        factor[which] = quantise_factor(scale[which]);
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

#define OPS_QUANTISE_STEP 32

static inline void ops_quantise_step(const float *x, __m256 factor, int8_t *q, int16_t *s) {
    __m256i bytes = quantise_group(x, factor);
    _mm256_storeu_si256((__m256i *)q, bytes);
    __m256i sums = sums8(bytes);
    s[0] = (int16_t)(_mm256_extract_epi32(sums, 0) + _mm256_extract_epi32(sums, 2));
    s[1] = (int16_t)(_mm256_extract_epi32(sums, 4) + _mm256_extract_epi32(sums, 6));
}

#include "kernels/cpu/ops_tmpl.h"
