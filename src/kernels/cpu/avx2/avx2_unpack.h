/* Panels to registers with AVX2, a half of 8 rows at a time: quants as the bytes that vpmaddubsw multiplies,
 * scales as floats and integers, a lane per row. Used by both matmuls of the tier. */
#ifndef STATOR_KERNELS_CPU_AVX2_UNPACK_H
#define STATOR_KERNELS_CPU_AVX2_UNPACK_H

#include "kernels/cpu/matmul_types.h"

#define AVX2_HALF_ROWS 8

/* Steps whose products fit int16 together: a step is a pair of products, at most 2 * 127 * the largest quant.
 */
MATMUL_INLINE int avx2_steps_in_int16(uint32_t type) {
    if (matmul_is_wide(type)) /* 2 * 127 * 128 = 32512 */
        return 1;
    if (type == BLOCK_MXFP4) /* 8 * 127 * 24 */
        return 4;
    if (matmul_low_bits(type) == 2) /* half a block, which has a scale: 4 * 2 * 127 * 7 */
        return 4;
    return matmul_high_bits(type) == 2 ? 2 : matmul_high_bits(type) == 1 ? 4 : 8;
}

/* Step s (constant) of two bits, and perhaps a third one. */
MATMUL_INLINE __m256i avx2_load_pairs(uint32_t type, const uint8_t *quants, const uint8_t *high, int s) {
    __m256i w = _mm256_load_si256((const __m256i *)(const void *)(quants + 64 * (s / 4)));
    w = _mm256_and_si256(_mm256_srli_epi32(w, 2 * (s % 4)), _mm256_set1_epi8(3));
    if (matmul_high_bits(type) == 0)
        return w;
    __m256i h = _mm256_load_si256((const __m256i *)(const void *)high); /* bit s of each byte to bit 2 */
    h = s < 2 ? _mm256_slli_epi32(h, 2 - s) : _mm256_srli_epi32(h, s - 2);
    return _mm256_or_si256(w, _mm256_and_si256(h, _mm256_set1_epi8(4)));
}

/* Step s (constant) of a 32-block, four bytes for each of 8 rows; quants and high point to the half's first
 * row. */
MATMUL_INLINE __m256i avx2_load_step(uint32_t type, const struct panel_layout *l, const uint8_t *quants,
                                     const uint8_t *high, int s) {
    if (type == BLOCK_Q8_0)
        return _mm256_load_si256((const __m256i *)(const void *)(quants + 64 * s));
    if (matmul_low_bits(type) == 2) {
        const __m256i w = avx2_load_pairs(type, quants, high, s);
        return matmul_is_table(type)
                   ? _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(matmul_table(type, l)), w)
                   : w;
    }
    __m256i w = _mm256_load_si256((const __m256i *)(const void *)(quants + 64 * (s % 4)));
    w = _mm256_and_si256(s < 4 ? w : _mm256_srli_epi32(w, 4), _mm256_set1_epi8(15));
    if (matmul_high_bits(type) == 1) { /* bit s of each byte to bit 4 */
        __m256i h = _mm256_load_si256((const __m256i *)(const void *)high);
        h = s < 4 ? _mm256_slli_epi32(h, 4 - s) : _mm256_srli_epi32(h, s - 4);
        w = _mm256_or_si256(w, _mm256_and_si256(h, _mm256_set1_epi8(0x10)));
    } else if (matmul_is_table(type)) {
        w = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(matmul_table(type, l)), w);
    } else if (matmul_high_bits(type) == 2) { /* bits 2f, 2f + 1 to bits 4, 5 */
        __m256i h = _mm256_load_si256((const __m256i *)(const void *)(high + 64 * (s / 4)));
        int f = s % 4;
        h = f < 2 ? _mm256_slli_epi32(h, 4 - 2 * f) : _mm256_srli_epi32(h, 2 * f - 4);
        w = _mm256_or_si256(w, _mm256_and_si256(h, _mm256_set1_epi8(0x30)));
    }
    return w;
}

MATMUL_INLINE __m256 avx2_load_f16(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

/* The scales of block b, of one half. */
MATMUL_INLINE __m256 avx2_load_scale(uint32_t type, const uint8_t *plane, size_t b, size_t half) {
    const uint8_t *p = plane + b * matmul_scale_bytes(type) + half * (matmul_scale_bytes(type) / 2);
    if (type != BLOCK_MXFP4)
        return avx2_load_f16(p);
    /* block_from_e8m0_half: an exponent of 0 stands for one below the least. */
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    e = _mm256_max_epi32(_mm256_slli_epi32(e, 23), _mm256_set1_epi32(0x400000));
    return _mm256_mul_ps(_mm256_castsi256_ps(e), _mm256_set1_ps(0.5f));
}

/* The scales of a super block, of one half. */
MATMUL_INLINE __m256 avx2_load_scale256(uint32_t type, const struct panel_layout *l, const uint8_t *panel,
                                        size_t super, size_t half) {
    const __m256 d = avx2_load_f16(panel + l->d + super * 32 + half * 16);
    return matmul_is_table(type) ? _mm256_mul_ps(d, _mm256_set1_ps(l->factor)) : d;
}

/* Scale number j of the super block whose scales of this half begin at p, an int32 each. */
MATMUL_INLINE __m256i avx2_load_sub(uint32_t type, const uint8_t *p, uint32_t j) {
    if (type == BLOCK_IQ2_S) { /* two to a byte */
        const __m256i both = _mm256_cvtepu8_epi32(
            _mm_loadl_epi64((const __m128i *)(const void *)(p + (size_t)PANEL_ROWS * (j / 2))));
        const __m256i n =
            j % 2 == 0 ? _mm256_and_si256(both, _mm256_set1_epi32(15)) : _mm256_srli_epi32(both, 4);
        return _mm256_add_epi32(_mm256_add_epi32(n, n), _mm256_set1_epi32(1));
    }
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(p + (size_t)PANEL_ROWS * j));
    if (type == BLOCK_Q2_K)
        bytes = _mm_and_si128(bytes, _mm_set1_epi8(15));
    return matmul_signed_subs(type) ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
}

/* Minimum number j of a super block, of one half. */
MATMUL_INLINE __m256i avx2_load_min(uint32_t type, const struct panel_layout *l, const uint8_t *panel,
                                    size_t super, uint32_t j, size_t half) {
    const size_t at = (type == BLOCK_Q2_K ? l->sub + super * 256 : l->submin + super * 128) +
                      (size_t)PANEL_ROWS * j + AVX2_HALF_ROWS * half;
    const __m256i least = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(panel + at)));
    return type == BLOCK_Q2_K ? _mm256_srli_epi32(least, 4) : least;
}

/* Two numbers that fit int16 in each lane. */
MATMUL_INLINE __m256i avx2_pair(__m256i low, __m256i high) {
    return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xAA);
}

#endif
