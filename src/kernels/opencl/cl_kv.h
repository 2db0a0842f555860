/* The KV cache as kernels see it (device.h, struct device_cache; kernels.h, store_k and store_v): units of
 * one (layer, KV head), each of blocks of 32 tokens, K then V (kv_layout.h). */
#ifndef STATOR_KERNELS_OPENCL_CL_KV_H
#define STATOR_KERNELS_OPENCL_CL_KV_H

#include "kernels/opencl/cl_panel.h"
#include "kernels/shared/kv_layout.h"

/* The units of one layer: head h is unit (unit + h) % units_per_slice of slice (unit + h) / units_per_slice
 * of those given. */
struct cl_cache {
    global uchar *slice0, *slice1, *slice2, *slice3;
    uint unit, units_per_slice, unit_bytes;
    uint block_stride, k_bytes;
    uint what; /* OPENCL_CACHE */
};

static inline global uchar *cl_unit_at(const struct cl_cache *c, uint head) {
    uint unit = c->unit + head;
    uint slice = unit / c->units_per_slice;
    global uchar *at = slice == 0 ? c->slice0 : slice == 1 ? c->slice1 : slice == 2 ? c->slice2 : c->slice3;
    return at + unit % c->units_per_slice * c->unit_bytes;
}

/* The chunk that a token of the step is in; by_item: that a work item of attention is in. */
static inline global const struct step_chunk *cl_chunk_of(cl_bytes step, bool by_item, uint at) {
    global const struct step_chunk *c = (global const struct step_chunk *)(step + CL_STEP(step)->at_chunks);
    uint n = CL_STEP(step)->n_chunks;
    while (n > 1) { /* one of n from c on */
        uint below = n / 2;
        bool above = at >= (by_item ? c[below].item : c[below].first);
        c += above ? below : 0;
        n = above ? n - below : below;
    }
    return c;
}

static inline global const uint *cl_table(cl_bytes step, uint cache, uint slot) {
    global const struct step_cache *c = &CL_STEP(step)->cache[cache];
    return (global const uint *)(step + c->at_tables) + slot * c->table_stride;
}

static inline float cl_between(float x, float low, float high) {
    float above = x > low ? x : low;
    return above < high ? above : high;
}

/* A group's scale as it is stored. */
static inline half cl_kv_scale(float d) {
    half h = (half)cl_between(d, -NUM_F16_MAX, NUM_F16_MAX);
    return (float)h == 0.0f ? (half)0.0f : h; /* no -0 */
}

static inline int cl_kv_rounded(float x, float inverse, bool eight) {
    float v = cl_between(x * inverse, eight ? -127.0f : -8.0f, eight ? 127.0f : 7.0f) + NUM_ROUND;
    return (int)(NUM_BITS(v) - NUM_ROUND_BITS);
}

static inline float cl_kv_error(local const float *x, float d, bool eight) {
    float inverse = cl_inverse(d);
    float lane[16];
#ifdef CL_FEW /* there IGC unrolls these loops only if it is told; else it keeps their array in memory */
#pragma unroll
#endif
    for (uint j = 0; j < 16; j++) {
        float a = fma(-d, (float)cl_kv_rounded(x[j], inverse, eight), x[j]);
        float b = fma(-d, (float)cl_kv_rounded(x[j + 16], inverse, eight), x[j + 16]);
        float square = a * a;
        lane[j] = fma(b, b, square);
    }
#ifdef CL_FEW
#pragma unroll
#endif
    for (uint half_way = 8; half_way > 0; half_way /= 2)
#ifdef CL_FEW
#pragma unroll
#endif
        for (uint j = 0; j < half_way; j++)
            lane[j] += lane[j + half_way];
    return lane[0];
}

/* The scale that 32 values are stored with. */
static inline half cl_kv_choose(local const float *x, bool eight) {
    float most = x[0], least = x[0];
    for (uint i = 1; i < 32; i++) {
        most = x[i] > most ? x[i] : most;
        least = x[i] < least ? x[i] : least;
    }
    float amax = most >= -least ? most : -least;
    float end = most >= -least ? most : least;
    half first = cl_kv_scale(eight ? amax * NUM_QUANT_INVERSE : end * NUM_QUANT4_INVERSE);
    half second = cl_kv_scale(eight ? amax * NUM_QUANT_SECOND : end * NUM_QUANT4_SECOND);
    return cl_kv_error(x, (float)second, eight) < cl_kv_error(x, (float)first, eight) ? second : first;
}

/* Group g of a head's vector of one token, 32 values at x, to the K (is_k) or V that begins at `at`. */
static inline void cl_put_group(global uchar *at, uint type, bool is_k, uint dim, uint g, uint slot,
                                local const float *x) {
    bool eight = type == KV_LAYOUT_Q8_0;
    half d = cl_kv_choose(x, eight);
    float inverse = cl_inverse((float)d);
    uint bytes = kv_layout_group(type);
    ((global half *)(at + kv_layout_scales(type, dim)))[kv_layout_scale(g, slot)] = d;
    for (uint i = 0; i < bytes; i++) {
        int q = cl_kv_rounded(x[i], inverse, eight);
        if (!eight)
            q = (q + 8) | (cl_kv_rounded(x[i + 16], inverse, false) + 8) << 4;
        at[is_k ? kv_layout_k(type, g, i, slot) : kv_layout_v(type, dim, g, i, slot)] = (uchar)q;
    }
}

static inline void cl_put(global uchar *at, uint type, uint i, float x) {
    if (type == KV_LAYOUT_F32)
        ((global float *)at)[i] = x;
    else
        ((global half *)at)[i] = (half)x;
}

/* Heads first .. first + heads of `dim` values, or of one head a part: values from .. from + wide. */
struct cl_part {
    uint first, heads, dim;
    uint from, wide;
};

static inline struct cl_part cl_all_of(uint first, uint heads, uint dim) {
    struct cl_part p = {first, heads, dim, 0, dim};
    return p;
}

/* Group: heads of one token, x[head][p.wide], to their places. */
static inline void cl_store(const struct cl_cache *c, cl_bytes step, uint token, bool is_k, struct cl_part p,
                            local const float *x) {
    global const struct step_chunk *chunk = cl_chunk_of(step, false, token);
    uint position = chunk->position + (token - chunk->first);
    uint cache = OPENCL_CACHE_NUMBER(c->what);
    uint block = cl_table(step, cache, chunk->slot)[position / KV_LAYOUT_BLOCK % /* a ring goes round */
                                                    CL_STEP(step)->cache[cache].table_stride];
    uint slot = position % KV_LAYOUT_BLOCK;
    uint type = is_k ? OPENCL_CACHE_K(c->what) : OPENCL_CACHE_V(c->what);
    uint begin = block * c->block_stride + (is_k ? 0 : c->k_bytes);
    if (kv_layout_quantised(type)) {
        uint groups = p.wide / 32;
        for (uint i = get_local_id(0); i < p.heads * groups; i += get_local_size(0))
            cl_put_group(cl_unit_at(c, p.first + i / groups) + begin, type, is_k, p.dim,
                         p.from / 32 + i % groups, slot, x + 32 * i);
        return;
    }
    for (uint i = get_local_id(0); i < p.heads * p.wide; i += get_local_size(0)) {
        uint d = p.from + i % p.wide;
        cl_put(cl_unit_at(c, p.first + i / p.wide) + begin, type,
               is_k ? kv_layout_plain_k(d, slot) : kv_layout_plain_v(p.dim, d, slot), x[i]);
    }
}

#endif
