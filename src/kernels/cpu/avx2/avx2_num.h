/* kernels/shared/num.h in 8 lanes: the same operations in the same order. */
#ifndef STATOR_KERNELS_AVX2_NUM_H
#define STATOR_KERNELS_AVX2_NUM_H

#include "kernels/cpu/unroll.h"
#include "kernels/shared/num.h"

#include <immintrin.h>

static inline __m256 avx2_rcp(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 y =
        _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32((int)NUM_RCP_SEED), _mm256_castps_si256(x)));
    y = _mm256_fmadd_ps(y, _mm256_fnmadd_ps(x, y, one), y);
    y = _mm256_fmadd_ps(y, _mm256_fnmadd_ps(x, y, one), y);
    return _mm256_fmadd_ps(y, _mm256_fnmadd_ps(x, y, one), y);
}

static inline __m256 avx2_exp(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 c = _mm256_min_ps(_mm256_set1_ps(NUM_EXP_MAX), x); /* of a NaN, min gives its second */
    __m256 t = _mm256_fmadd_ps(c, _mm256_set1_ps(NUM_LOG2E), _mm256_set1_ps(NUM_ROUND));
    __m256 n = _mm256_sub_ps(t, _mm256_set1_ps(NUM_ROUND));
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(NUM_LN2_HIGH), c);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(NUM_LN2_LOW), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(NUM_EXP_C6), r, _mm256_set1_ps(NUM_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(NUM_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(NUM_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(NUM_EXP_C2));
    p = _mm256_fmadd_ps(p, r, one);
    p = _mm256_fmadd_ps(p, r, one);
    __m256i power = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32((int)NUM_ROUND_BITS - 127));
    __m256 in = _mm256_cmp_ps(x, _mm256_set1_ps(NUM_EXP_MIN), _CMP_NLT_UQ);
    return _mm256_and_ps(in, _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(power, 23))));
}

static inline __m256 avx2_sigmoid(__m256 x) {
    __m256 e = avx2_exp(_mm256_or_ps(x, _mm256_set1_ps(-0.0f)));
    __m256 r = avx2_rcp(_mm256_add_ps(_mm256_set1_ps(1.0f), e));
    __m256 below = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_blendv_ps(r, _mm256_mul_ps(e, r), below);
}

static inline __m256 avx2_silu(__m256 x) {
    return _mm256_mul_ps(x, avx2_sigmoid(x));
}

static inline __m256 avx2_abs(__m256 x) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

static inline __m256 avx2_softcap(__m256 x, __m256 cap, __m256 inverse) {
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    const __m256 t = _mm256_mul_ps(x, inverse);
    const __m256 e = avx2_exp(_mm256_mul_ps(_mm256_set1_ps(-2.0f), avx2_abs(t)));
    const __m256 h = _mm256_mul_ps(_mm256_sub_ps(one, e), avx2_rcp(_mm256_add_ps(one, e)));
    return _mm256_fmadd_ps(cap, _mm256_or_ps(h, _mm256_and_ps(t, sign)), _mm256_sub_ps(x, x));
}

/* The largest lane, in all lanes. */
static inline __m256 avx2_largest(__m256 x) {
    x = _mm256_max_ps(x, _mm256_permute2f128_ps(x, x, 1));
    x = _mm256_max_ps(x, _mm256_permute_ps(x, 0x4e));
    return _mm256_max_ps(x, _mm256_permute_ps(x, 0xb1));
}

#endif
