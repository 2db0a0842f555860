/* Panels to registers with AVX-512: quants as unsigned bytes in the order in which VNNI and AMX multiply,
 * scales as floats and integers, a lane per row. Used by both matmuls of the tier and by the tile tier. */
#ifndef STATOR_KERNELS_CPU_AVX512_UNPACK_H
#define STATOR_KERNELS_CPU_AVX512_UNPACK_H

#include "kernels/cpu/matmul_types.h"

/* What unpack_steps' bytes exceed the integer by. */
MATMUL_INLINE int32_t unpack_offset(uint32_t type) {
    return matmul_is_wide(type) ? 128 : matmul_offset(type);
}

/* unpack_steps of two bits, and perhaps a third one. */
MATMUL_INLINE void unpack_pairs(uint32_t type, const uint8_t *quants, const uint8_t *high, __m512i w[8]) {
    UNROLL
    for (int s = 0; s < 8; s++) {
        const __m512i four = _mm512_load_si512(quants + 64 * (s / 4));
        w[s] = _mm512_and_si512(_mm512_srli_epi32(four, 2 * (s % 4)), _mm512_set1_epi8(3));
    }
    if (matmul_high_bits(type) == 0)
        return;
    const __m512i h = _mm512_load_si512(high);
    UNROLL
    for (int s = 0; s < 8; s++) { /* bit s of each byte to bit 2; 0xF8: a | (b & c) */
        const __m512i at2 = s < 2 ? _mm512_slli_epi32(h, 2 - s) : _mm512_srli_epi32(h, s - 2);
        w[s] = _mm512_ternarylogic_epi32(w[s], at2, _mm512_set1_epi8(4), 0xF8);
    }
}

/* Indices become the bytes that they stand for. */
MATMUL_INLINE void unpack_look_up(uint32_t type, const struct panel_layout *l, __m512i w[8]) {
    __m128i table = matmul_table(type, l);
    if (matmul_is_wide(type))
        table = _mm_xor_si128(table, _mm_set1_epi8((char)0x80));
    UNROLL
    for (int s = 0; s < 8; s++)
        w[s] = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), w[s]);
}

/* The eight steps of a 32-block, four unsigned bytes per row. */
MATMUL_INLINE void unpack_steps(uint32_t type, const struct panel_layout *l, const uint8_t *quants,
                                const uint8_t *high, __m512i w[8]) {
    if (type == BLOCK_Q8_0) {
        UNROLL
        for (int s = 0; s < 8; s++)
            w[s] = _mm512_xor_si512(_mm512_load_si512(quants + 64 * s), _mm512_set1_epi8((char)0x80));
        return;
    }
    if (matmul_low_bits(type) == 2) {
        unpack_pairs(type, quants, high, w);
        if (matmul_is_table(type))
            unpack_look_up(type, l, w);
        return;
    }
    const __m512i low = _mm512_set1_epi8(15);
    UNROLL
    for (int s = 0; s < 4; s++) {
        __m512i both = _mm512_load_si512(quants + 64 * s);
        w[s] = _mm512_and_si512(both, low);
        w[s + 4] = _mm512_and_si512(_mm512_srli_epi32(both, 4), low);
    }
    if (matmul_is_table(type))
        unpack_look_up(type, l, w);
    if (matmul_high_bits(type) == 1) {
        __m512i h = _mm512_load_si512(high);
        UNROLL
        for (int s = 0; s < 8; s++) { /* bit s of each byte to bit 4 */
            __m512i at4 = s < 4 ? _mm512_slli_epi32(h, 4 - s) : _mm512_srli_epi32(h, s - 4);
            w[s] = _mm512_ternarylogic_epi32(w[s], at4, _mm512_set1_epi8(0x10), 0xF8);
        }
    } else if (matmul_high_bits(type) == 2) {
        UNROLL
        for (int s = 0; s < 8; s++) { /* bits 2f, 2f + 1 to bits 4, 5 */
            __m512i h = _mm512_load_si512(high + 64 * (s / 4));
            int f = s % 4;
            __m512i at4 = f < 2 ? _mm512_slli_epi32(h, 4 - 2 * f) : _mm512_srli_epi32(h, 2 * f - 4);
            w[s] = _mm512_ternarylogic_epi32(w[s], at4, _mm512_set1_epi8(0x30), 0xF8);
        }
    }
}

MATMUL_INLINE __m512 unpack_f16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

/* The scales of block b. */
MATMUL_INLINE __m512 unpack_scale(uint32_t type, const uint8_t *plane, size_t b) {
    const uint8_t *p = plane + b * matmul_scale_bytes(type);
    if (type != BLOCK_MXFP4)
        return unpack_f16(p);
    /* block_from_e8m0_half: an exponent of 0 stands for one below the least. */
    __m512i e = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)p));
    e = _mm512_max_epi32(_mm512_slli_epi32(e, 23), _mm512_set1_epi32(0x400000));
    return _mm512_mul_ps(_mm512_castsi512_ps(e), _mm512_set1_ps(0.5f));
}

/* The scales of a super block. */
MATMUL_INLINE __m512 unpack_scale256(uint32_t type, const struct panel_layout *l, const uint8_t *panel,
                                     size_t super) {
    const __m512 d = unpack_f16(panel + l->d + super * 32);
    return matmul_is_table(type) ? _mm512_mul_ps(d, _mm512_set1_ps(l->factor)) : d;
}

/* Scale number j of the super block whose scales begin at p. */
MATMUL_INLINE __m512i unpack_sub(uint32_t type, const uint8_t *p, uint32_t j) {
    if (type == BLOCK_IQ2_S) { /* two to a byte */
        const __m512i both = _mm512_cvtepu8_epi32(
            _mm_load_si128((const __m128i *)(const void *)(p + (size_t)PANEL_ROWS * (j / 2))));
        const __m512i n =
            j % 2 == 0 ? _mm512_and_si512(both, _mm512_set1_epi32(15)) : _mm512_srli_epi32(both, 4);
        return _mm512_add_epi32(_mm512_add_epi32(n, n), _mm512_set1_epi32(1));
    }
    __m128i bytes = _mm_load_si128((const __m128i *)(const void *)(p + (size_t)PANEL_ROWS * j));
    if (type == BLOCK_Q2_K)
        bytes = _mm_and_si128(bytes, _mm_set1_epi8(15));
    return matmul_signed_subs(type) ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
}

/* Minimum number j of a super block. */
MATMUL_INLINE __m512i unpack_min(uint32_t type, const struct panel_layout *l, const uint8_t *panel,
                                 uint32_t super, uint32_t j) {
    if (type == BLOCK_Q2_K)
        return _mm512_srli_epi32(
            _mm512_cvtepu8_epi32(_mm_load_si128(
                (const __m128i *)(const void *)(panel + l->sub + (size_t)super * 256 + (size_t)16 * j))),
            4);
    return _mm512_cvtepu8_epi32(_mm_load_si128(
        (const __m128i *)(const void *)(panel + l->submin + (size_t)super * 128 + (size_t)16 * j)));
}

/* Two numbers that fit int16 in each lane. */
MATMUL_INLINE __m512i unpack_join(__m512i low, __m512i high) {
    return _mm512_mask_blend_epi16(0xAAAAAAAA, low, _mm512_slli_epi32(high, 16));
}

/* The 16 weights of one of the pair of columns at p; of BF16 the two lie side by side. */
MATMUL_INLINE __m512 unpack_column(uint32_t type, const uint8_t *p, uint32_t odd) {
    if (type == BLOCK_F32)
        return _mm512_load_ps(p + (size_t)64 * odd);
    if (type == BLOCK_F16)
        return unpack_f16(p + (size_t)32 * odd);
    __m512i both = _mm512_load_si512(p);
    return _mm512_castsi512_ps(odd == 0 ? _mm512_slli_epi32(both, 16)
                                        : _mm512_and_si512(both, _mm512_set1_epi32((int32_t)0xFFFF0000)));
}

#endif
