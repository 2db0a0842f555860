/* kernels/shared/num.h in 16 lanes: the same operations in the same order. */
#ifndef STATOR_KERNELS_AVX512_NUM_H
#define STATOR_KERNELS_AVX512_NUM_H

#include "kernels/cpu/unroll.h"
#include "kernels/shared/num.h"

#include <immintrin.h>

static inline __m512 avx512_rcp(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 y =
        _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32((int)NUM_RCP_SEED), _mm512_castps_si512(x)));
    y = _mm512_fmadd_ps(y, _mm512_fnmadd_ps(x, y, one), y);
    y = _mm512_fmadd_ps(y, _mm512_fnmadd_ps(x, y, one), y);
    return _mm512_fmadd_ps(y, _mm512_fnmadd_ps(x, y, one), y);
}

/* num_exp of n vectors of x <= 0: no upper bound is needed, and scaling by a power of two is one instruction.
 * Step by step for all, as one alone waits for each of its steps. */
static inline __attribute__((always_inline)) void avx512_exp_below(const int n, __m512 *x) {
    static const float c[] = {NUM_EXP_C5, NUM_EXP_C4, NUM_EXP_C3, NUM_EXP_C2, 1.0f, 1.0f};
    __m512 k[4], r[4], p[4];
    UNROLL
    for (int i = 0; i < n; i++) {
        k[i] = _mm512_fmadd_ps(x[i], _mm512_set1_ps(NUM_LOG2E), _mm512_set1_ps(NUM_ROUND));
        k[i] = _mm512_sub_ps(k[i], _mm512_set1_ps(NUM_ROUND));
    }
    UNROLL
    for (int i = 0; i < n; i++)
        r[i] = _mm512_fnmadd_ps(k[i], _mm512_set1_ps(NUM_LN2_HIGH), x[i]);
    UNROLL
    for (int i = 0; i < n; i++) {
        r[i] = _mm512_fnmadd_ps(k[i], _mm512_set1_ps(NUM_LN2_LOW), r[i]);
        p[i] = _mm512_set1_ps(NUM_EXP_C6);
    }
    UNROLL
    for (int step = 0; step < 6; step++) {
        UNROLL
        for (int i = 0; i < n; i++)
            p[i] = _mm512_fmadd_ps(p[i], r[i], _mm512_set1_ps(c[step]));
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        __mmask16 in = _mm512_cmp_ps_mask(x[i], _mm512_set1_ps(NUM_EXP_MIN), _CMP_NLT_UQ);
        x[i] = _mm512_maskz_scalef_ps(in, p[i], k[i]);
    }
}

static inline __m512 avx512_sigmoid(__m512 x) {
    __m512 e = _mm512_or_ps(x, _mm512_set1_ps(-0.0f));
    avx512_exp_below(1, &e);
    __m512 r = avx512_rcp(_mm512_add_ps(_mm512_set1_ps(1.0f), e));
    __mmask16 below = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mask_mul_ps(r, below, e, r);
}

static inline __m512 avx512_softcap(__m512 x, __m512 cap, __m512 inverse) {
    const __m512 one = _mm512_set1_ps(1.0f), sign = _mm512_set1_ps(-0.0f);
    const __m512 t = _mm512_mul_ps(x, inverse);
    __m512 e = _mm512_mul_ps(_mm512_set1_ps(-2.0f), _mm512_abs_ps(t));
    avx512_exp_below(1, &e);
    const __m512 h = _mm512_mul_ps(_mm512_sub_ps(one, e), avx512_rcp(_mm512_add_ps(one, e)));
    return _mm512_fmadd_ps(cap, _mm512_or_ps(h, _mm512_and_ps(t, sign)), _mm512_sub_ps(x, x));
}

static inline __m512 avx512_silu(__m512 x) {
    return _mm512_mul_ps(x, avx512_sigmoid(x));
}

/* The tree of sum128 over 128 lanes in 8 vectors, down to 16 lanes. */
static inline __m512 avx512_sum16(const __m512 lane[8]) {
    __m512 a = _mm512_add_ps(_mm512_add_ps(lane[0], lane[4]), _mm512_add_ps(lane[2], lane[6]));
    __m512 b = _mm512_add_ps(_mm512_add_ps(lane[1], lane[5]), _mm512_add_ps(lane[3], lane[7]));
    return _mm512_add_ps(a, b);
}

static inline float avx512_sum128(const __m512 lane[8]) {
    __m512 v = avx512_sum16(lane);
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* The first n < 16 lanes, all of them from 16. */
static inline __mmask16 avx512_first(uint32_t n) {
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1);
}

#endif
