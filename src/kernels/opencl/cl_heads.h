/* The epilogue of a product that gives q, k and v: heads are normed (optional) and rotated, q goes to the
 * value, k and v go to the cache. All functions are for the whole group. */
#ifndef STATOR_KERNELS_OPENCL_CL_HEADS_H
#define STATOR_KERNELS_OPENCL_CL_HEADS_H

#include "kernels/opencl/cl_kv.h"

struct cl_heads {
    cl_bytes step;
    global float *q; /* rows of `width` floats */
    uint width;
    uint head_k, head_v;
    uint n_rot;
    uint rotation; /* bit 0: pairs as neox has them; above it: the first of a token's angles in its row */
    uint normed;   /* OPENCL_NORMED_QK | OPENCL_NORMED_V */
    global const float *q_norm, *k_norm;
    float inv_head, eps;
    struct cl_cache cache;
};

#define CL_Q 0
#define CL_K 1
#define CL_V 2

/* Norms `heads` heads of one token, x[head][dim]; weight 0: without weights; lane: 128 floats for each of
 * CL_HEADS_AT_ONCE. */
#define CL_HEADS_AT_ONCE 8
static inline void cl_norm_heads(local float *x, uint heads, uint dim, global const float *weight,
                                 float inv_n, float eps, local float *lane) {
    uint me = get_local_id(0), items = get_local_size(0);
    for (uint first = 0; first < heads; first += CL_HEADS_AT_ONCE) {
        uint here = min(heads - first, (uint)CL_HEADS_AT_ONCE);
        local float *at = x + first * dim;
        for (uint i = me; i < here * 128; i += items) {
            float sum = 0.0f;
            for (uint d = i % 128; d < dim; d += 128) {
                float v = at[i / 128 * dim + d];
                sum = fma(v, v, sum);
            }
            lane[i] = sum;
        }
        cl_sum128(lane, here);
        for (uint i = me; i < here * dim; i += items) {
            float mean = lane[i / dim * 128] * inv_n;
            float y = at[i] * num_rsqrt(mean + eps);
            at[i] = weight != 0 ? y * weight[i % dim] : y;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Rotates `heads` heads of one token, x[head][dim]; rotation: as in struct cl_heads. */
static inline void cl_rotate_heads(local float *x, uint heads, uint dim, uint n_rot, uint rotation,
                                   global const float *cos_sin) {
    uint pairs = n_rot / 2;
    for (uint i = get_local_id(0); i < heads * pairs; i += get_local_size(0)) {
        uint j = i % pairs;
        local float *a = x + i / pairs * dim + (rotation & 1 ? j : 2 * j);
        local float *b = a + (rotation & 1 ? pairs : 1);
        float va = *a, vb = *b, c = cos_sin[2 * j], s = cos_sin[2 * j + 1];
        float bs = vb * s, bc = vb * c;
        *a = fma(va, c, -bs);
        *b = fma(va, s, bc);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Heads of q, k or v, of tokens t0 .. t0 + nt; of a part only if heads are not normed and pairs lie side by
 * side. biased: bits of weight 0. */
static inline void cl_finish_heads(const struct cl_heads *h, uint which, struct cl_part p,
                                   global const float *bias, uint biased, global const float *factor,
                                   local float *tile, uint R, uint t0, uint nt, local float *lane) {
    uint me = get_local_id(0), items = get_local_size(0);
    uint rows = p.heads * p.wide, begin = p.first * p.dim + p.from;
    uint n_rot = h->n_rot - min(h->n_rot, p.from);
    global const float *angles =
        (global const float *)(h->step + CL_STEP(h->step)->at_rope) + h->rotation / 2;
    uint angles_stride = CL_STEP(h->step)->rope_stride;
    for (uint t = 0; t < nt; t++) {
        local float *x = tile + t * R;
        if (biased & (OPENCL_BIAS(0) | OPENCL_FACTOR(0))) {
            for (uint i = me; i < rows; i += items) {
                float sum = cl_scaled(biased, 0, factor, x[i]);
                x[i] = biased & OPENCL_BIAS(0) ? sum + bias[begin + i] : sum;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (h->normed & (which == CL_V ? OPENCL_NORMED_V : OPENCL_NORMED_QK))
            cl_norm_heads(x, p.heads, p.dim,
                          which == CL_V   ? 0
                          : which == CL_Q ? h->q_norm
                                          : h->k_norm,
                          h->inv_head, h->eps, lane);
        if (which != CL_V)
            cl_rotate_heads(x, p.heads, p.wide, min(n_rot, p.wide), h->rotation,
                            angles + (t0 + t) * angles_stride + p.from);
        if (which == CL_Q) {
            for (uint i = me; i < rows; i += items)
                h->q[(t0 + t) * h->width + begin + i] = x[i];
        } else {
            cl_store(&h->cache, h->step, t0 + t, which == CL_K, p, x);
        }
    }
}

#endif
