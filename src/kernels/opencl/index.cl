/* An indexer: its queries and keys, the scores of index blocks, and the choice of the best ones.
 * kernels/shared/index.h says where keys lie, kernels/kernels.h what all of it gives. */
#include "kernels/opencl/cl_heads.h"
#include "kernels/shared/index.h"

/* A token of the step: its place in its sequence, and its block of the cache. */
struct token {
    uint position, slot;
    global uchar *block;
};

static inline struct token token_of(const struct cl_cache *c, cl_bytes step, uint t) {
    global const struct step_chunk *chunk = cl_chunk_of(step, false, t);
    struct token r;
    r.position = chunk->position + (t - chunk->first);
    r.slot = r.position % KV_LAYOUT_BLOCK;
    r.block = cl_unit_at(c, 0) + cl_table(step, OPENCL_CACHE_NUMBER(c->what),
                                          chunk->slot)[r.position / KV_LAYOUT_BLOCK] *
                                     c->block_stride;
    return r;
}

static inline float value_at(uint type, global const uchar *at, uint i) {
    return type == KV_LAYOUT_F32 ? ((global const float *)at)[i] : (float)((global const half *)at)[i];
}

/* x: rows of n_heads heads of q, then the key. Norms and rotates the heads; the key goes to the cache as it
 * is, and the angles of an index block's first token. Local: tile CL_HEADS_AT_ONCE * dim floats, lane 128 for
 * each of these heads. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void index_store(CL_ARGUMENTS(INDEX)) {
    uint me = get_local_id(0), items = get_local_size(0);
    struct cl_cache cache = CL_CACHE(kv);
    const uint type = OPENCL_CACHE_K(kv_what);
    (void)k_norm, (void)share;
    for (uint t = get_group_id(0); t < CL_STEP(step)->n_tokens; t += get_num_groups(0)) {
        struct token at = token_of(&cache, step, t);
        global const float *angles = (global const float *)(step + CL_STEP(step)->at_rope) +
                                     t * CL_STEP(step)->rope_stride + rotation / 2;
        global float *row = x + t * width;
        for (uint h = 0; h < n_heads; h += CL_HEADS_AT_ONCE) {
            uint here = min(n_heads - h, (uint)CL_HEADS_AT_ONCE);
            for (uint i = me; i < here * dim; i += items)
                tile[i] = row[h * dim + i];
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_norm_heads(tile, here, dim, q_norm, inv_n, eps, lane);
            cl_rotate_heads(tile, here, dim, n_rot, rotation, angles);
            for (uint i = me; i < here * dim; i += items)
                row[h * dim + i] = tile[i];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint d = me; d < dim; d += items)
            cl_put(at.block, type, index_raw(dim, d, at.slot), row[n_heads * dim + d]);
        if (at.slot % ratio != 0)
            continue; /* of the whole group */
        global float *first = (global float *)(at.block + index_angles(type, dim, ratio));
        for (uint i = me; i < n_rot; i += items)
            first[at.slot / ratio * n_rot + i] = angles[i];
    }
}

/* Behind it: the key of each index block whose last token is in the step. Local: as there, of one head. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void index_keys_of_blocks(CL_ARGUMENTS(INDEX)) {
    uint me = get_local_id(0), items = get_local_size(0);
    struct cl_cache cache = CL_CACHE(kv);
    const uint type = OPENCL_CACHE_K(kv_what);
    (void)x, (void)width, (void)n_heads, (void)q_norm;
    for (uint t = get_group_id(0); t < CL_STEP(step)->n_tokens; t += get_num_groups(0)) {
        struct token at = token_of(&cache, step, t);
        if ((at.position + 1) % ratio != 0)
            continue; /* of the whole group */
        uint first = at.slot / ratio * ratio;
        for (uint d = me; d < dim; d += items) {
            float sum = value_at(type, at.block, index_raw(dim, d, first));
            for (uint i = 1; i < ratio; i++)
                sum += value_at(type, at.block, index_raw(dim, d, first + i));
            tile[d] = sum * share;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        cl_norm_heads(tile, 1, dim, k_norm, inv_n, eps, lane);
        cl_rotate_heads(tile, 1, dim, n_rot, rotation,
                        (global const float *)(at.block + index_angles(type, dim, ratio)) +
                            at.slot / ratio * n_rot);
        for (uint d = me; d < dim; d += items)
            cl_put(at.block + index_keys(type, dim), type, index_key(ratio, d, at.slot / ratio), tile[d]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Whole index blocks that the token sees, if some are left out; else 0. */
static inline uint crowd_of(cl_bytes step, uint t, uint ratio, uint keep) {
    global const struct step_chunk *chunk = cl_chunk_of(step, false, t);
    uint whole = (chunk->position + (t - chunk->first) + 1) / ratio;
    return whole > keep ? whole : 0;
}

static inline float add_above(float sum, float4 dot) {
    sum += dot.x > 0.0f ? dot.x : 0.0f;
    sum += dot.y > 0.0f ? dot.y : 0.0f;
    sum += dot.z > 0.0f ? dot.z : 0.0f;
    return sum + (dot.w > 0.0f ? dot.w : 0.0f);
}

/* Scores of index blocks, [tokens][stride]. A group has a token and as many blocks as items. Local: the
 * token's q, [heads / 4, rounded up][dim][4], with zeros for heads that are not there. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void index_scores(CL_ARGUMENTS(SCORES)) {
    uint me = get_local_id(0), items = get_local_size(0), pieces = cl_ceil_div(stride, items);
    struct cl_cache cache = CL_CACHE(kv);
    const uint type = OPENCL_CACHE_K(kv_what), each = KV_LAYOUT_BLOCK / ratio;
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * pieces; item += get_num_groups(0)) {
        uint t = item / pieces, block = item % pieces * items + me;
        uint whole = crowd_of(step, t, ratio, keep);
        if (item % pieces * items >= whole)
            continue; /* of the whole group */
        for (uint i = me; i < cl_ceil_div(n_heads, 4u) * dim * 4; i += items) {
            uint h = i / (dim * 4) * 4 + i % 4, d = i / 4 % dim;
            tile[i] = h < n_heads ? x[t * width + h * dim + d] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (block < whole) {
            global const uint *table =
                cl_table(step, OPENCL_CACHE_NUMBER(kv_what), cl_chunk_of(step, false, t)->slot);
            global const uchar *keys =
                cl_unit_at(&cache, 0) + table[block / each] * kv_block_stride + index_keys(type, dim);
            float sum = 0.0f;
            for (uint h = 0; h < n_heads; h += 4) {
                local const float4 *q = (local const float4 *)tile + h / 4 * dim;
                float4 dot = 0.0f;
                for (uint d = 0; d < dim; d++) {
                    float k = value_at(type, keys, index_key(ratio, d, block % each));
                    dot = fma(q[d], (float4)k, dot);
                }
                sum = add_above(sum, dot);
            }
            scores[t * stride + block] = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#define DIGITS 16 /* of four bits */
#if OPENCL_GROUP != DIGITS * DIGITS
#error "DIGITS items have a digit, and each as many counts"
#endif

/* Group: how many of `whole` keys that begin like `last`, above the digit at `shift`, have each value of this
 * digit: in count[0 .. DIGITS - 1]. Local: count [DIGITS][OPENCL_GROUP]. */
static inline void count_digits(global const uint *key, uint whole, uint last, uint shift, local uint *count) {
    uint me = get_local_id(0);
    for (uint i = 0; i < DIGITS; i++)
        count[i * OPENCL_GROUP + me] = 0;
    for (uint i = me; i < whole; i += OPENCL_GROUP) {
        uint k = key[i];
        if (shift == 28 || k >> (shift + 4) == last >> (shift + 4))
            count[(k >> shift & (DIGITS - 1)) * OPENCL_GROUP + me]++;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint part = 0; /* of its digit's OPENCL_GROUP counts: DIGITS items have a digit */
    for (uint i = 0; i < DIGITS; i++)
        part += count[me / DIGITS * OPENCL_GROUP + me % DIGITS * DIGITS + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    count[OPENCL_GROUP + me] = part;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < DIGITS) {
        uint sum = 0;
        for (uint i = 0; i < DIGITS; i++)
            sum += count[OPENCL_GROUP + me * DIGITS + i];
        count[me] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* The lists of tokens. Scores are not below +0, so their bits as whole numbers have their order. Local: count
 * DIGITS * OPENCL_GROUP words. */
kernel __attribute__((reqd_work_group_size(OPENCL_GROUP, 1, 1), intel_reqd_sub_group_size(16))) void
index_choose(CL_ARGUMENTS(CHOOSE)) {
    uint me = get_local_id(0);
    for (uint t = get_group_id(0); t < CL_STEP(step)->n_tokens; t += get_num_groups(0)) {
        uint whole = crowd_of(step, t, ratio, keep);
        global uint *row = list + t * list_width;
        global const uint *key = scores + t * stride;
        if (me == 0)
            row[0] = whole > 0 ? keep : 0;
        if (whole == 0)
            continue; /* of the whole group */
        if (me == 0)
            row[1 + keep] = whole;
        uint last = 0, left = keep; /* of those that begin like `last`, so many are taken */
        for (uint digit = 8; digit-- > 0;) {
            uint shift = 4 * digit, d = DIGITS - 1;
            count_digits(key, whole, last, shift, count);
            for (; count[d] < left; d--)
                left -= count[d];
            last |= d << shift;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        /* Each item has some in a row, and finds how many are taken before its own. */
        uint each = cl_ceil_div(whole, (uint)OPENCL_GROUP), first = min(me * each, whole);
        uint end = min(first + each, whole), above = 0, equal = 0;
        for (uint i = first; i < end; i++) {
            uint k = key[i];
            above += k > last, equal += k == last;
        }
        count[me] = above;
        count[OPENCL_GROUP + me] = equal;
        barrier(CLK_LOCAL_MEM_FENCE);
        above = equal = 0;
        for (uint i = 0; i < me; i++)
            above += count[i], equal += count[OPENCL_GROUP + i];
        for (uint i = first; i < end; i++) {
            uint k = key[i];
            if (k > last || (k == last && equal < left))
                row[1 + above + min(equal, left)] = i;
            above += k > last, equal += k == last;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
