/* Where the K and V of a block lie (kernels.h says what they mean). Compiles as C and as OpenCL C.
 *
 * f32, f16: K [dim][32 tokens], V [32 tokens][dim]. Quantised: the bytes K [dim/4][32 tokens][4], V [32
 * tokens/4][dim][4 tokens], q4_0 half as many, then the scales as f16 [dim/32][32 tokens]. A group is 32
 * values of one token. No byte has values of two tokens, so a store rewrites no neighbour. */
#ifndef STATOR_KERNELS_SHARED_KV_LAYOUT_H
#define STATOR_KERNELS_SHARED_KV_LAYOUT_H

#ifdef __OPENCL_C_VERSION__
typedef uint kv_layout_u32;
typedef uint kv_layout_size; /* offsets in a slice have 32 bits */
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint32_t kv_layout_u32;
typedef size_t kv_layout_size;
#endif

/* Types: enum kernels_kv. */
#define KV_LAYOUT_F32  0
#define KV_LAYOUT_F16  1
#define KV_LAYOUT_Q8_0 2
#define KV_LAYOUT_Q4_0 3

#define KV_LAYOUT_BLOCK 32                    /* tokens of a block */
#define KV_LAYOUT_GROUP 32                    /* values that share a scale */
#define KV_LAYOUT_STEP  (4 * KV_LAYOUT_BLOCK) /* bytes of four dims of all tokens of a K block */

static inline bool kv_layout_quantised(kv_layout_u32 type) {
    return type == KV_LAYOUT_Q8_0 || type == KV_LAYOUT_Q4_0;
}

/* Bytes of a group in one token: 32 or 16; a q4_0 byte has value i low and i + 16 high, each + 8. */
static inline kv_layout_u32 kv_layout_group(kv_layout_u32 type) {
    return type == KV_LAYOUT_Q8_0 ? 32 : 16;
}

/* The scales of a quantised K or V, from its begin: also the bytes before them. */
static inline kv_layout_size kv_layout_scales(kv_layout_u32 type, kv_layout_u32 dim) {
    return (kv_layout_size)dim / KV_LAYOUT_GROUP * kv_layout_group(type) * KV_LAYOUT_BLOCK;
}

/* Index among the scales of group g of the token in this slot. */
static inline kv_layout_size kv_layout_scale(kv_layout_u32 g, kv_layout_u32 slot) {
    return (kv_layout_size)g * KV_LAYOUT_BLOCK + slot;
}

/* Byte i of group g of the token in this slot. */
static inline kv_layout_size kv_layout_k(kv_layout_u32 type, kv_layout_u32 g, kv_layout_u32 i,
                                         kv_layout_u32 slot) {
    kv_layout_size at = (kv_layout_size)g * kv_layout_group(type) + i;
    return at / 4 * KV_LAYOUT_STEP + (kv_layout_size)slot * 4 + at % 4;
}

static inline kv_layout_size kv_layout_v(kv_layout_u32 type, kv_layout_u32 dim, kv_layout_u32 g,
                                         kv_layout_u32 i, kv_layout_u32 slot) {
    kv_layout_size bytes = (kv_layout_size)dim / KV_LAYOUT_GROUP * kv_layout_group(type);
    return slot / 4 * 4 * bytes + ((kv_layout_size)g * kv_layout_group(type) + i) * 4 + slot % 4;
}

/* Index of value d of the token in this slot, f32 and f16. */
static inline kv_layout_size kv_layout_plain_k(kv_layout_u32 d, kv_layout_u32 slot) {
    return (kv_layout_size)d * KV_LAYOUT_BLOCK + slot;
}

static inline kv_layout_size kv_layout_plain_v(kv_layout_u32 dim, kv_layout_u32 d, kv_layout_u32 slot) {
    return (kv_layout_size)slot * dim + d;
}

#ifndef __OPENCL_C_VERSION__
/* A block of K, or of V, of one head. */
static inline uint64_t kv_layout_bytes(kv_layout_u32 type, kv_layout_u32 dim) {
    if (!kv_layout_quantised(type))
        return (uint64_t)dim * KV_LAYOUT_BLOCK * (type == KV_LAYOUT_F32 ? 4 : 2);
    return kv_layout_scales(type, dim) + (uint64_t)dim / KV_LAYOUT_GROUP * KV_LAYOUT_BLOCK * 2;
}

static inline uint16_t *kv_layout_scale_at(void *block, kv_layout_u32 type, kv_layout_u32 dim,
                                           kv_layout_u32 g, kv_layout_u32 slot) {
    uint8_t *scales = (uint8_t *)block + kv_layout_scales(type, dim);
    return (uint16_t *)(void *)scales + kv_layout_scale(g, slot);
}
#endif

#endif
