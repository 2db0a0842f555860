/* The KV cache as kernels see it (device.h, struct device_kv; kernels.h, store_k and store_v): units of one
 * (layer, KV head), each of blocks of 32 tokens, K [dim][32] then V [32][dim]. */
#ifndef STATOR_KERNELS_OPENCL_CL_KV_H
#define STATOR_KERNELS_OPENCL_CL_KV_H

#include "kernels/opencl/cl_panel.h"

/* enum kernels_kv */
#define CL_KV_F32 0
#define CL_KV_F16 1

#define CL_KV_BLOCK 32

/* The units of one layer: head h is unit (unit + h) % units_per_slice of slice (unit + h) / units_per_slice
 * of those given. */
struct cl_cache {
    global uchar *slice0, *slice1, *slice2, *slice3;
    uint unit, units_per_slice, unit_bytes;
    uint block_stride, k_bytes;
    uint type_k, type_v;
};

static inline global uchar *cl_unit_at(const struct cl_cache *c, uint head) {
    uint unit = c->unit + head;
    uint slice = unit / c->units_per_slice;
    global uchar *at = slice == 0 ? c->slice0 : slice == 1 ? c->slice1 : slice == 2 ? c->slice2 : c->slice3;
    return at + unit % c->units_per_slice * c->unit_bytes;
}

/* The chunk that the token is in. */
static inline global const struct step_chunk *cl_chunk_of(cl_bytes step, uint token) {
    global const struct step_chunk *c = (global const struct step_chunk *)(step + CL_STEP(step)->at_chunks);
    while (token >= c->first + c->n)
        c++;
    return c;
}

static inline global const uint *cl_table(cl_bytes step, uint slot) {
    return (global const uint *)(step + CL_STEP(step)->at_tables) + slot * CL_STEP(step)->table_stride;
}

static inline void cl_put(global uchar *at, uint type, uint i, float x) {
    if (type == CL_KV_F32)
        ((global float *)at)[i] = x;
    else
        ((global half *)at)[i] = (half)x;
}

/* Group: heads first .. first + heads of one token, x[head][dim], to their places. */
static inline void cl_store(const struct cl_cache *c, cl_bytes step, uint token, bool is_k, uint first,
                            uint heads, uint dim, local const float *x) {
    global const struct step_chunk *chunk = cl_chunk_of(step, token);
    uint position = chunk->position + (token - chunk->first);
    uint block = cl_table(step, chunk->slot)[position / CL_KV_BLOCK];
    uint slot = position % CL_KV_BLOCK;
    for (uint i = get_local_id(0); i < heads * dim; i += get_local_size(0)) {
        uint d = i % dim;
        global uchar *at = cl_unit_at(c, first + i / dim) + block * c->block_stride;
        if (is_k)
            cl_put(at, c->type_k, d * CL_KV_BLOCK + slot, x[i]);
        else
            cl_put(at + c->k_bytes, c->type_v, slot * dim + d, x[i]);
    }
}

#endif
