/* The vector of the AVX-512 tier under the names that the tiers' templates use (kernels/cpu/.._tmpl.h). */
#ifndef STATOR_KERNELS_CPU_AVX512_VEC_H
#define STATOR_KERNELS_CPU_AVX512_VEC_H

#include "kernels/cpu/avx512/avx512_num.h"

#include <stdbool.h>

#define TIER(name)  avx512_##name
#define TIER_NAME   "avx512"
#define VEC         16 /* lanes */
#define VEC_REPEAT  UNROLL
#define VEC_INLINE  static inline __attribute__((always_inline))
#define VEC_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

typedef __m512 vec;
typedef __m512i vec_int;
typedef __mmask16 vec_mask;

/* --- memory; with n, the first n lanes where they are fewer than all: the rest is not touched, and 0 */

VEC_INLINE vec_int vec_lanes(void) {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

VEC_INLINE vec_mask vec_first(uint32_t n) {
    return avx512_first(n);
}

VEC_INLINE vec vec_zero(void) {
    return _mm512_setzero_ps();
}

VEC_INLINE vec vec_set(float x) {
    return _mm512_set1_ps(x);
}

VEC_INLINE vec vec_load(const float *p) {
    return _mm512_loadu_ps(p);
}

VEC_INLINE void vec_store(float *p, vec x) {
    _mm512_storeu_ps(p, x);
}

VEC_INLINE vec vec_load_n(const float *p, uint32_t n) {
    return n >= VEC ? vec_load(p) : _mm512_maskz_loadu_ps(vec_first(n), p);
}

VEC_INLINE void vec_store_n(float *p, uint32_t n, vec x) {
    if (n >= VEC)
        vec_store(p, x);
    else
        _mm512_mask_storeu_ps(p, vec_first(n), x);
}

VEC_INLINE vec vec_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

VEC_INLINE vec vec_load_f16_n(const uint16_t *p, uint32_t n) {
    return n >= VEC ? vec_load_f16(p) : _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vec_first(n), p));
}

VEC_INLINE void vec_store_f16(uint16_t *p, vec x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, VEC_NEAREST));
}

VEC_INLINE vec_int vec_load_int(const void *p) {
    return _mm512_loadu_si512(p);
}

VEC_INLINE void vec_store_int(void *p, vec_int x) {
    _mm512_storeu_si512(p, x);
}

/* --- lane by lane */

VEC_INLINE vec vec_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}

VEC_INLINE vec vec_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}

/* a * b + c, a * b - c */
VEC_INLINE vec vec_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}

VEC_INLINE vec vec_fms(vec a, vec b, vec c) {
    return _mm512_fmsub_ps(a, b, c);
}

VEC_INLINE vec vec_abs(vec x) {
    return _mm512_abs_ps(x);
}

VEC_INLINE vec vec_rcp(vec x) {
    return avx512_rcp(x);
}

VEC_INLINE vec vec_sigmoid(vec x) {
    return avx512_sigmoid(x);
}

VEC_INLINE vec vec_softcap(vec x, vec cap, vec inverse) {
    return avx512_softcap(x, cap, inverse);
}

VEC_INLINE vec vec_silu(vec x) {
    return avx512_silu(x);
}

VEC_INLINE vec vec_of_bits(vec_int x) {
    return _mm512_castsi512_ps(x);
}

VEC_INLINE vec_int vec_bits(vec x) {
    return _mm512_castps_si512(x);
}

VEC_INLINE vec_int vec_int_set(int x) {
    return _mm512_set1_epi32(x);
}

VEC_INLINE vec_int vec_int_add(vec_int a, vec_int b) {
    return _mm512_add_epi32(a, b);
}

VEC_INLINE vec_int vec_int_max(vec_int a, vec_int b) {
    return _mm512_max_epi32(a, b);
}

/* --- masks; a NaN is above nothing, not below anything and not equal to anything */

VEC_INLINE vec_mask vec_none(void) {
    return 0;
}

VEC_INLINE vec_mask vec_above(vec a, vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

VEC_INLINE vec_mask vec_not_below(vec a, vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}

VEC_INLINE vec_mask vec_unequal(vec a, vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_OQ);
}

VEC_INLINE vec_mask vec_both(vec_mask a, vec_mask b) {
    return a & b;
}

VEC_INLINE vec_mask vec_either(vec_mask a, vec_mask b) {
    return a | b;
}

VEC_INLINE bool vec_any(vec_mask m) {
    return m != 0;
}

/* a where the mask is, else b */
VEC_INLINE vec vec_select(vec_mask m, vec a, vec b) {
    return _mm512_mask_mov_ps(b, m, a);
}

VEC_INLINE vec_int vec_int_select(vec_mask m, vec_int a, vec_int b) {
    return _mm512_mask_mov_epi32(b, m, a);
}

/* x where the mask is, else +0 */
VEC_INLINE vec vec_keep(vec_mask m, vec x) {
    return _mm512_maskz_mov_ps(m, x);
}

/* --- across lanes */

VEC_INLINE float vec_lane0(vec x) {
    return _mm512_cvtss_f32(x);
}

/* The largest lane, in all lanes. */
VEC_INLINE vec_int vec_int_largest(vec_int x) {
    x = _mm512_max_epi32(x, _mm512_shuffle_i32x4(x, x, 0x4e));
    x = _mm512_max_epi32(x, _mm512_shuffle_i32x4(x, x, 0xb1));
    x = _mm512_max_epi32(x, _mm512_shuffle_epi32(x, 0x4e));
    return _mm512_max_epi32(x, _mm512_shuffle_epi32(x, 0xb1));
}

/* The tree of sum128. */
VEC_INLINE float vec_sum128(vec v[128 / VEC]) {
    return avx512_sum128(v);
}

/* Of pairs in a, then b, the first numbers and the second ones. */
VEC_INLINE void vec_unzip(vec a, vec b, vec *first, vec *second) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *first = _mm512_permutex2var_ps(a, even, b);
    *second = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}

/* Pairs (a, b) rotated by pairs (c, s): (a c - b s, a s + b c), the inner products rounded. */
VEC_INLINE vec vec_rotate_pairs(vec x, vec cos_sin) {
    vec inner = vec_mul(_mm512_movehdup_ps(x), _mm512_permute_ps(cos_sin, 0xb1)); /* b s, b c */
    return _mm512_fmaddsub_ps(_mm512_moveldup_ps(x), cos_sin, inner);
}

#endif
