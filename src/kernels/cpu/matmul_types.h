/* What a weight type is made of, as the vector tiers' matmuls ask for it: known at compile time, so that one
 * body serves all types. And how such bodies are inlined. */
#ifndef STATOR_KERNELS_CPU_MATMUL_TYPES_H
#define STATOR_KERNELS_CPU_MATMUL_TYPES_H

#include "formats/block_parts.h"
#include "kernels/cpu/unroll.h"
#include "kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define MATMUL_INLINE static inline __attribute__((always_inline))

MATMUL_INLINE bool matmul_is_k(uint32_t type) {
    return type == BLOCK_Q2_K || type == BLOCK_Q3_K || type == BLOCK_Q4_K || type == BLOCK_Q5_K ||
           type == BLOCK_Q6_K || type == BLOCK_IQ2_S || type == BLOCK_IQ4_XS;
}

MATMUL_INLINE bool matmul_is_float(uint32_t type) {
    return type == BLOCK_F32 || type == BLOCK_F16 || type == BLOCK_BF16;
}

/* The type has a plane m (of K types: and minima). */
MATMUL_INLINE bool matmul_has_m(uint32_t type) {
    return type == BLOCK_Q4_1 || type == BLOCK_Q5_1 || type == BLOCK_Q2_K || type == BLOCK_Q4_K ||
           type == BLOCK_Q5_K;
}

/* Bits of a quant in the plane quants. */
MATMUL_INLINE uint32_t matmul_low_bits(uint32_t type) {
    return type == BLOCK_Q8_0 ? 8 : type == BLOCK_Q2_K || type == BLOCK_Q3_K || type == BLOCK_IQ2_S ? 2 : 4;
}

/* Bits of a quant in the plane high. */
MATMUL_INLINE uint32_t matmul_high_bits(uint32_t type) {
    return type == BLOCK_Q6_K ? 2
           : type == BLOCK_Q5_0 || type == BLOCK_Q5_1 || type == BLOCK_Q5_K || type == BLOCK_Q3_K ||
                   type == BLOCK_IQ2_S
               ? 1
               : 0;
}

/* Scales of a K type's super block. */
MATMUL_INLINE uint32_t matmul_subs(uint32_t type) {
    return type == BLOCK_Q4_K || type == BLOCK_Q5_K || type == BLOCK_IQ4_XS ? 8 : 16;
}

/* Bytes of a super block in the plane sub. */
MATMUL_INLINE uint32_t matmul_sub_bytes(uint32_t type) {
    return (type == BLOCK_IQ2_S ? 8 : matmul_subs(type)) * PANEL_ROWS;
}

/* Scales have a sign. */
MATMUL_INLINE bool matmul_signed_subs(uint32_t type) {
    return !matmul_has_m(type);
}

/* The stored bits are an index into block_table. */
MATMUL_INLINE bool matmul_is_table(uint32_t type) {
    return type == BLOCK_IQ4_NL || type == BLOCK_MXFP4 || type == BLOCK_IQ4_XS || type == BLOCK_IQ2_S;
}

/* Quants are signed bytes, up to 127 in size (Q8_0: 128): their products don't fit int16 together. */
MATMUL_INLINE bool matmul_is_wide(uint32_t type) {
    return type == BLOCK_Q8_0 || type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS || type == BLOCK_IQ2_S;
}

/* Bytes of a block's scales of 16 rows in the plane d. */
MATMUL_INLINE size_t matmul_scale_bytes(uint32_t type) {
    return type == BLOCK_MXFP4 ? PANEL_ROWS : 2 * PANEL_ROWS;
}

/* What indices stand for, as the tiers multiply it: of MXFP4 unsigned, the integer + matmul_offset; of the
 * others signed. Where several types of files have the same panels, that depends on the file's. */
MATMUL_INLINE __m128i matmul_table(uint32_t type, const struct panel_layout *l) {
    if (type == BLOCK_IQ4_NL)
        return _mm_loadu_si128((const __m128i *)(const void *)block_iq4_values);
    if (type == BLOCK_MXFP4)
        return _mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)block_mxfp4_values),
                            _mm_set1_epi8(12));
    return _mm_loadu_si128((const __m128i *)(const void *)l->table);
}

/* Bytes of a 32-block in the plane quants. */
MATMUL_INLINE size_t matmul_block_bytes(uint32_t type) {
    return (size_t)64 * matmul_low_bits(type);
}

/* What the unsigned bytes that are multiplied exceed the integer by: a power of two for K types. */
MATMUL_INLINE int32_t matmul_offset(uint32_t type) {
    return type == BLOCK_Q3_K    ? 4
           : type == BLOCK_Q4_0  ? 8
           : type == BLOCK_Q5_0  ? 16
           : type == BLOCK_Q6_K  ? 32
           : type == BLOCK_MXFP4 ? 12
                                 : 0;
}

MATMUL_INLINE int32_t matmul_load32(const void *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
