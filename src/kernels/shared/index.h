/* A block of an indexer's cache (kernels.h says what it is for): 32 tokens, of which each `ratio` in a row
 * are an index block. Compiles as C and as OpenCL C.
 *
 *   raw keys    [32][dim]          as products made them; of type KV_LAYOUT_F32 or F16
 *   block keys  [dim][32 / ratio]  of the same type; that of an index block whose last token is not there yet
 *                                  may be anything
 *   angles      [32 / ratio][n_rot] f32: cos, sin of each pair at the first token of an index block
 *
 * A token's bytes are its raw key, and if it is the first of its index block the angles. The last one's store
 * makes the block key out of them, so a block key never depends on how a text was cut into steps. */
#ifndef STATOR_KERNELS_SHARED_INDEX_H
#define STATOR_KERNELS_SHARED_INDEX_H

#include "kernels/shared/kv_layout.h"

/* The smallest ratio, and what ratios are multiples of: attention moves so many tokens together. */
#define INDEX_LEAST_RATIO 4

static inline kv_layout_size index_value_bytes(kv_layout_u32 type) {
    return type == KV_LAYOUT_F32 ? 4 : 2;
}

/* Where the block keys begin, */
static inline kv_layout_size index_keys(kv_layout_u32 type, kv_layout_u32 dim) {
    return (kv_layout_size)dim * KV_LAYOUT_BLOCK * index_value_bytes(type);
}

/* the angles, */
static inline kv_layout_size index_angles(kv_layout_u32 type, kv_layout_u32 dim, kv_layout_u32 ratio) {
    return index_keys(type, dim) + (kv_layout_size)dim * (KV_LAYOUT_BLOCK / ratio) * index_value_bytes(type);
}

/* and where all of it ends. */
static inline kv_layout_size index_bytes(kv_layout_u32 type, kv_layout_u32 dim, kv_layout_u32 ratio,
                                         kv_layout_u32 n_rot) {
    return index_angles(type, dim, ratio) + (kv_layout_size)(KV_LAYOUT_BLOCK / ratio) * n_rot * 4;
}

/* Index of value d of raw keys, and of block keys; `at`: of an index block in the cache's block. */
static inline kv_layout_size index_raw(kv_layout_u32 dim, kv_layout_u32 d, kv_layout_u32 slot) {
    return kv_layout_plain_v(dim, d, slot);
}

static inline kv_layout_size index_key(kv_layout_u32 ratio, kv_layout_u32 d, kv_layout_u32 at) {
    return (kv_layout_size)d * (KV_LAYOUT_BLOCK / ratio) + at;
}

/* A token's list of index blocks is a row of words: how many it names, then their numbers, ascending, then
 * the number of the block behind the last whole one. 0: the token attends to all before it, and the other
 * words are anything. */
#define INDEX_WORDS(keep) ((keep) + 2)

/* Tokens that the query at this position attends to: of the best `keep` blocks, and those behind the last
 * whole block. */
static inline kv_layout_u32 index_sees(kv_layout_u32 ratio, kv_layout_u32 keep, kv_layout_u32 position) {
    kv_layout_u32 tokens = position + 1;
    return tokens / ratio > keep ? keep * ratio + tokens % ratio : tokens;
}

#endif
