/* The vector of the AVX2 tier under the names that the tiers' templates use (kernels/cpu/.._tmpl.h). */
#ifndef STATOR_KERNELS_CPU_AVX2_VEC_H
#define STATOR_KERNELS_CPU_AVX2_VEC_H

#include "kernels/cpu/avx2/avx2_num.h"

#include <stdbool.h>

#include <string.h>

#define TIER(name)  avx2_##name
#define TIER_NAME   "avx2"
#define VEC         8 /* lanes */
#define VEC_REPEAT  UNROLL
#define VEC_INLINE  static inline __attribute__((always_inline))
#define VEC_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

typedef __m256 vec;
typedef __m256i vec_int;
typedef __m256 vec_mask; /* all bits of a lane, or none */

/* --- memory; with n, the first n lanes where they are fewer than all: the rest is not touched, and 0 */

VEC_INLINE vec_int vec_lanes(void) {
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}

VEC_INLINE vec_mask vec_first(uint32_t n) {
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < VEC ? n : VEC)), vec_lanes()));
}

VEC_INLINE vec vec_zero(void) {
    return _mm256_setzero_ps();
}

VEC_INLINE vec vec_set(float x) {
    return _mm256_set1_ps(x);
}

VEC_INLINE vec vec_load(const float *p) {
    return _mm256_loadu_ps(p);
}

VEC_INLINE void vec_store(float *p, vec x) {
    _mm256_storeu_ps(p, x);
}

VEC_INLINE vec vec_load_n(const float *p, uint32_t n) {
    return n >= VEC ? vec_load(p) : _mm256_maskload_ps(p, _mm256_castps_si256(vec_first(n)));
}

VEC_INLINE void vec_store_n(float *p, uint32_t n, vec x) {
    if (n >= VEC)
        vec_store(p, x);
    else
        _mm256_maskstore_ps(p, _mm256_castps_si256(vec_first(n)), x);
}

VEC_INLINE vec vec_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

VEC_INLINE vec vec_load_f16_n(const uint16_t *p, uint32_t n) {
    uint16_t h[VEC] = {0};
    if (n >= VEC)
        return vec_load_f16(p);
    memcpy(h, p, n * sizeof *p);
    return vec_load_f16(h);
}

VEC_INLINE void vec_store_f16(uint16_t *p, vec x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, VEC_NEAREST));
}

VEC_INLINE vec_int vec_load_int(const void *p) {
    return _mm256_loadu_si256(p);
}

VEC_INLINE void vec_store_int(void *p, vec_int x) {
    _mm256_storeu_si256(p, x);
}

/* --- lane by lane */

VEC_INLINE vec vec_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}

VEC_INLINE vec vec_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
}

/* a * b + c, a * b - c */
VEC_INLINE vec vec_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}

VEC_INLINE vec vec_fms(vec a, vec b, vec c) {
    return _mm256_fmsub_ps(a, b, c);
}

VEC_INLINE vec vec_abs(vec x) {
    return avx2_abs(x);
}

VEC_INLINE vec vec_rcp(vec x) {
    return avx2_rcp(x);
}

VEC_INLINE vec vec_sigmoid(vec x) {
    return avx2_sigmoid(x);
}

VEC_INLINE vec vec_softcap(vec x, vec cap, vec inverse) {
    return avx2_softcap(x, cap, inverse);
}

VEC_INLINE vec vec_silu(vec x) {
    return avx2_silu(x);
}

VEC_INLINE vec vec_of_bits(vec_int x) {
    return _mm256_castsi256_ps(x);
}

VEC_INLINE vec_int vec_bits(vec x) {
    return _mm256_castps_si256(x);
}

VEC_INLINE vec_int vec_int_set(int x) {
    return _mm256_set1_epi32(x);
}

VEC_INLINE vec_int vec_int_add(vec_int a, vec_int b) {
    return _mm256_add_epi32(a, b);
}

VEC_INLINE vec_int vec_int_max(vec_int a, vec_int b) {
    return _mm256_max_epi32(a, b);
}

/* --- masks; a NaN is above nothing, not below anything and not equal to anything */

VEC_INLINE vec_mask vec_none(void) {
    return _mm256_setzero_ps();
}

VEC_INLINE vec_mask vec_above(vec a, vec b) {
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

VEC_INLINE vec_mask vec_not_below(vec a, vec b) {
    return _mm256_cmp_ps(a, b, _CMP_NLT_UQ);
}

VEC_INLINE vec_mask vec_unequal(vec a, vec b) {
    return _mm256_cmp_ps(a, b, _CMP_NEQ_OQ);
}

VEC_INLINE vec_mask vec_both(vec_mask a, vec_mask b) {
    return _mm256_and_ps(a, b);
}

VEC_INLINE vec_mask vec_either(vec_mask a, vec_mask b) {
    return _mm256_or_ps(a, b);
}

VEC_INLINE bool vec_any(vec_mask m) {
    return _mm256_movemask_ps(m) != 0;
}

/* a where the mask is, else b */
VEC_INLINE vec vec_select(vec_mask m, vec a, vec b) {
    return _mm256_blendv_ps(b, a, m);
}

VEC_INLINE vec_int vec_int_select(vec_mask m, vec_int a, vec_int b) {
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m));
}

/* x where the mask is, else +0 */
VEC_INLINE vec vec_keep(vec_mask m, vec x) {
    return _mm256_and_ps(m, x);
}

/* --- across lanes */

VEC_INLINE float vec_lane0(vec x) {
    return _mm256_cvtss_f32(x);
}

/* The largest lane, in all lanes. */
VEC_INLINE vec_int vec_int_largest(vec_int x) {
    x = _mm256_max_epi32(x, _mm256_permute2x128_si256(x, x, 1));
    x = _mm256_max_epi32(x, _mm256_shuffle_epi32(x, 0x4e));
    return _mm256_max_epi32(x, _mm256_shuffle_epi32(x, 0xb1));
}

/* The tree of sum128; v is used up. */
VEC_INLINE float vec_sum128(vec v[128 / VEC]) {
    for (int reach = 8; reach > 0; reach /= 2) {
        VEC_REPEAT
        for (int i = 0; i < reach; i++)
            v[i] = vec_add(v[i], v[i + reach]);
    }
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v[0]), _mm256_extractf128_ps(v[0], 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Of pairs in a, then b, the first numbers and the second ones. */
VEC_INLINE void vec_unzip(vec a, vec b, vec *first, vec *second) {
    const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
    *first = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(a, b, 0x88), order);
    *second = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(a, b, 0xdd), order);
}

/* Pairs (a, b) rotated by pairs (c, s): (a c - b s, a s + b c), the inner products rounded. */
VEC_INLINE vec vec_rotate_pairs(vec x, vec cos_sin) {
    vec inner = vec_mul(_mm256_movehdup_ps(x), _mm256_permute_ps(cos_sin, 0xb1)); /* b s, b c */
    return _mm256_fmaddsub_ps(_mm256_moveldup_ps(x), cos_sin, inner);
}

#endif
