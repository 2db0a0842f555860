/* Where the quantised K and V of a block lie (kernels.h says what they mean): the bytes, then the scales as
 * f16 [dim / 32][32 tokens]. A group is 32 values of one token. No byte has values of two tokens, so a store
 * rewrites no neighbour. */
#ifndef STATOR_KERNELS_CPU_KV_LAYOUT_H
#define STATOR_KERNELS_CPU_KV_LAYOUT_H

#include "kernels/kernels.h"

#define KV_LAYOUT_STEP 128 /* bytes of four dims of all tokens of a K block */

/* Bytes of a group in one token: 32 or 16; a q4_0 byte has value i low and i + 16 high, each + 8. */
static inline uint32_t kv_layout_group(enum kernels_kv type) {
    return type == KERNELS_KV_Q8_0 ? 32 : 16;
}

static inline size_t kv_layout_scales(enum kernels_kv type, uint32_t dim) {
    return (size_t)dim / KERNELS_KV_GROUP * kv_layout_group(type) * KERNELS_KV_BLOCK;
}

/* Byte i of group g of the token in this slot. K: [dim/4][32 tokens][4], V: [32 tokens/4][dim][4 tokens];
 * q4_0 has half as many. */
static inline size_t kv_layout_k(enum kernels_kv type, uint32_t g, uint32_t i, uint32_t slot) {
    size_t at = (size_t)g * kv_layout_group(type) + i;
    return at / 4 * KV_LAYOUT_STEP + (size_t)slot * 4 + at % 4;
}

static inline size_t kv_layout_v(enum kernels_kv type, uint32_t dim, uint32_t g, uint32_t i, uint32_t slot) {
    size_t bytes = (size_t)dim / KERNELS_KV_GROUP * kv_layout_group(type);
    return slot / 4 * 4 * bytes + ((size_t)g * kv_layout_group(type) + i) * 4 + slot % 4;
}

static inline uint16_t *kv_layout_scale(void *block, enum kernels_kv type, uint32_t dim, uint32_t g,
                                        uint32_t slot) {
    uint8_t *scales = (uint8_t *)block + kv_layout_scales(type, dim);
    return (uint16_t *)(void *)scales + (size_t)g * KERNELS_KV_BLOCK + slot;
}

#endif
