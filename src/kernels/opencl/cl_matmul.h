/* The two kernels that each matmul module has: NAME for plain epilogues and NAME_heads for q, k and v. The
 * includer says how the sums are made:
 *   void cl_sums(const struct cl_source *src, const struct cl_unit *u, uint split, uint t0, uint nt,
 *                local float *tile, uint R, local uchar *work)
 * group: tile[t][16 * v + row] for all virtual panels v of the unit; ends without a barrier.
 *   CL_TILES: tiles of tokens are dealt out to groups (1) or walked by the group that has the unit (0). */
#ifndef STATOR_KERNELS_OPENCL_CL_MATMUL_H
#define STATOR_KERNELS_OPENCL_CL_MATMUL_H

#include "kernels/opencl/cl_finish.h"
#include "kernels/opencl/cl_heads.h"

#define CL_JOIN2(a, b) a##b
#define CL_JOIN(a, b)  CL_JOIN2(a, b)

/* Without the matrix engine there is no sub-group operation: 16 is asked for because the compiler would take
 * 8, which reads half lines and doubles the instructions (README.md). For decoding several tokens of mixed
 * types the compiler may choose: with 16 it spills on acm-g10. */
#if CL_SUB_GROUP
#define CL_KERNEL kernel __attribute__((intel_reqd_sub_group_size(CL_SUB_GROUP)))
#elif CL_TILES || CL_TOKENS == 1 || !CL_ANY_K || !CL_ANY_32
#define CL_KERNEL kernel __attribute__((intel_reqd_sub_group_size(16)))
#else
#define CL_KERNEL kernel
#endif

#define CL_SOURCE_PARAMETERS                                                                                 \
    global const uchar *step, global const uchar *in, uint in_f32, uint in_q32, uint in_d32, uint in_s32,    \
        uint in_q256, uint in_d256, uint in_s256, uint cols
#define CL_SOURCE                                                                                            \
    { in, in_f32, in_q32, in_d32, in_s32, in_q256, in_d256, in_s256, cols, 0 }
#define CL_WEIGHT_PARAMETERS(n)                                                                              \
    global const uchar *w##n##a, global const uchar *w##n##b, uint w##n##first, uint w##n##cut,              \
        uint w##n##type
#define CL_WEIGHT(n)                                                                                         \
    { w##n##a, w##n##b, w##n##first, w##n##cut, w##n##type }

/* Units first_unit .. + units of the work, each of `unit` panels; split: how many segments of k are under way
 * at once (decode). rows: of the weight (of both). Local: tile CL_TOKENS x R floats, R = 16 * unit, twice
 * that for SWIGLU and GEGLU; work as the family says. */
CL_KERNEL void CL_NAME(CL_SOURCE_PARAMETERS, CL_WEIGHT_PARAMETERS(0), CL_WEIGHT_PARAMETERS(1), uint rows,
                       uint unit, uint first_unit, uint units, uint split, uint tail, uint epilogue,
                       global uchar *out, uint has, uint width, uint f32, uint q32, uint d32, uint s32,
                       uint q256, uint d256, uint s256, uint column, global const float *bias, uint biased,
                       local float *tile, local uchar *work) {
    struct cl_source src = CL_SOURCE;
    struct cl_plain plain = {
        {out, has, width, f32, q32, d32, s32, q256, d256, s256}, epilogue, column, bias, biased};
    bool two = OPENCL_GATED(epilogue);
    struct cl_unit u = {CL_WEIGHT(0), CL_WEIGHT(1), 0, cl_ceil_div(rows, 16), unit, two ? 2 * unit : unit};
    uint R = 16 * u.all;
    uint tokens = tail ? CL_STEP(step)->n_rows : CL_STEP(step)->n_tokens;
    if (epilogue == OPENCL_PAIRS)
        tokens *= 2;
    uint tiles = cl_ceil_div(tokens, CL_TOKENS);
    for (uint item = get_group_id(0); item < units * (CL_TILES ? tiles : 1); item += get_num_groups(0)) {
        uint i = first_unit + (CL_TILES ? item / tiles : item);
        u.panel = i * unit;
        uint row = 16 * u.panel, here = min(16 * unit, rows - row);
        for (uint tile_at = CL_TILES ? item % tiles : 0; tile_at < tiles; tile_at += CL_TILES ? tiles : 1) {
            uint t0 = tile_at * CL_TOKENS, nt = min(tokens - t0, (uint)CL_TOKENS);
            cl_sums(&src, &u, split, t0, nt, tile, R, work);
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_finish_plain(&plain, tile, R, 16 * unit, row, here, t0, nt, (local uint *)work);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

/* Units are of `heads` heads: those of q come first, then k's, then v's. Biased: bits 0, 1, 2 for q, k, v.
 * normed: q_norm and k_norm are there. Work also holds 128 floats for each of CL_HEADS_AT_ONCE heads. */
CL_KERNEL void CL_JOIN(CL_NAME, _heads)(
    CL_SOURCE_PARAMETERS, CL_WEIGHT_PARAMETERS(0), CL_WEIGHT_PARAMETERS(1), CL_WEIGHT_PARAMETERS(2),
    uint heads, uint first_unit, uint units, uint split, global float *q, uint width, uint n_heads,
    uint n_kv_heads, uint head_k, uint head_v, uint n_rot, uint rotation, uint biased,
    global const float *bias0, global const float *bias1, global const float *bias2, uint normed,
    global const float *q_norm, global const float *k_norm, float inv_head, float eps, global uchar *kv0,
    global uchar *kv1, global uchar *kv2, global uchar *kv3, uint kv_unit, uint units_per_slice,
    uint unit_bytes, uint block_stride, uint k_bytes, uint what, local float *tile, local uchar *work) {
    struct cl_source src = CL_SOURCE;
    struct cl_heads h = {
        step,
        q,
        width,
        head_k,
        head_v,
        n_rot,
        rotation,
        normed,
        q_norm,
        k_norm,
        inv_head,
        eps,
        {kv0, kv1, kv2, kv3, kv_unit, units_per_slice, unit_bytes, block_stride, k_bytes, what}};
    uint q_units = cl_ceil_div(n_heads, heads), kv_units = cl_ceil_div(n_kv_heads, heads);
    uint tokens = CL_STEP(step)->n_tokens;
    uint tiles = cl_ceil_div(tokens, CL_TOKENS);
    for (uint item = get_group_id(0); item < units * (CL_TILES ? tiles : 1); item += get_num_groups(0)) {
        uint i = first_unit + (CL_TILES ? item / tiles : item);
        uint which = i < q_units ? CL_Q : i < q_units + kv_units ? CL_K : CL_V;
        uint head = (which == CL_Q ? i : i - q_units - (which == CL_V ? kv_units : 0)) * heads;
        uint all = which == CL_Q ? n_heads : n_kv_heads;
        uint dim = which == CL_V ? head_v : head_k;
        struct cl_weight w0 = CL_WEIGHT(0), w1 = CL_WEIGHT(1), w2 = CL_WEIGHT(2);
        struct cl_unit u;
        u.w0 = which == CL_Q ? w0 : which == CL_K ? w1 : w2;
        u.w1 = u.w0;
        u.panel = head * dim / 16;
        u.panels = all * dim / 16;
        u.half_of = u.all = heads * dim / 16;
        for (uint tile_at = CL_TILES ? item % tiles : 0; tile_at < tiles; tile_at += CL_TILES ? tiles : 1) {
            uint t0 = tile_at * CL_TOKENS, nt = min(tokens - t0, (uint)CL_TOKENS);
            uint R = heads * dim;
            cl_sums(&src, &u, split, t0, nt, tile, R, work);
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_finish_heads(&h, which, head, min(heads, all - head),
                            which == CL_Q   ? bias0
                            : which == CL_K ? bias1
                                            : bias2,
                            biased >> which & 1, tile, R, t0, nt, (local float *)work);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#if CL_TILES || CL_TOKENS == 1
#include "kernels/opencl/cl_experts.h"
#endif

#endif
