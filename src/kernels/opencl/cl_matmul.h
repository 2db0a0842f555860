/* The two kernels that each matmul module has: NAME for plain epilogues and NAME_heads for q, k and v; or
 * with CL_HEADS one, NAME. The includer says how the sums are made:
 *   void cl_sums(const struct cl_source *src, const struct cl_unit *u, uint split, uint t0, uint nt,
 *                local float *tile, uint R, local uchar *work)
 * group: tile[t][16 * v + row] for all virtual panels v of the unit; ends without a barrier.
 *   CL_TILES: `split` is how many tokens a tile has, and two sums of one output have become one (struct
 * cl_gate). Tiles of tokens are dealt out to groups, and so are passes of CL_FEW, unless several groups share
 * a unit: then each walks all, as in decode. */
#ifndef STATOR_KERNELS_OPENCL_CL_MATMUL_H
#define STATOR_KERNELS_OPENCL_CL_MATMUL_H

#include "kernels/opencl/cl_finish.h"
#include "kernels/opencl/cl_heads.h"

#ifdef CL_FEW
#define CL_DEALT 1
#else
#define CL_DEALT CL_TILES
#endif

/* Whether a launch may have two products: of one type, where there are registers for it. (With it `few` took
 * 210 us for the output matrix of 8B on an H200, and 155 without.) */
#if defined(CL_WIDE) || (CL_SUB_GROUP == 16 && !defined(CL_FEW)) ||                                          \
    (CL_TILES && !CL_SUB_GROUP && !defined(CL_ASKED))
#define CL_PAIRS ((CL_TYPES & (CL_TYPES - 1ul)) == 0)
#else
#define CL_PAIRS 0
#endif

#if CL_DEALT /* tokens of a tile, or of a pass */
#define CL_AT_ONCE split
#else
#define CL_AT_ONCE CL_TOKENS
#endif

/* Without the matrix engine there is no sub-group operation. For decoding 16 is asked for because the
 * compiler would take 8, which reads half lines and doubles the instructions (README.md); for several tokens
 * of mixed types (all, or all K types: Q2_K and Q6_K among them) it may choose: with 16 it spills on acm-g10.
 * Products of many tokens need 8 where there are few registers (CL_ASKED). */
#if CL_SUB_GROUP
#define CL_KERNEL kernel __attribute__((intel_reqd_sub_group_size(CL_SUB_GROUP)))
#elif defined(CL_ASKED)
#define CL_KERNEL kernel __attribute__((intel_reqd_sub_group_size(CL_ASKED)))
#elif CL_TILES || CL_TOKENS == 1 || !CL_ANY_K || (!CL_ANY_32 && !CL_OF_ALL_K)
#define CL_KERNEL kernel __attribute__((intel_reqd_sub_group_size(16)))
#else
#define CL_KERNEL kernel
#endif

#ifdef CL_HEADS
/* Products of a matrix per head, each with columns of its own of a token's row. Matrices first .. end of the
 * weight, each of `rows` rows; from one to the next in_stride columns of `in`, whose rows have in_width, and
 * out_stride columns of out. biased: OPENCL_FACTOR(0). Local: tile and work as of a plain product. */
CL_KERNEL void CL_NAME(CL_ARGUMENTS(EACH)) {
    uint panels = cl_ceil_div(rows, 16), units = cl_ceil_div(panels, unit), R = 16 * unit;
    uint tokens = CL_STEP(step)->n_tokens, tiles = cl_ceil_div(tokens, CL_AT_ONCE);
    for (uint item = get_group_id(0); item < (end - first) * units * tiles; item += get_num_groups(0)) {
        uint matrix = first + item / tiles / units, at = item / tiles % units * unit;
        uint t0 = item % tiles * CL_AT_ONCE, nt = min(tokens - t0, (uint)CL_AT_ONCE);
        uint column = matrix * in_stride, row = 16 * at, here = min(16 * unit, rows - row);
        struct cl_source src = CL_SOURCE(in);
        struct cl_unit u = {
            CL_WEIGHT(w0), CL_WEIGHT(w0), matrix * panels + at, (matrix + 1) * panels, unit, unit, 0};
        src.stride = in_width;
        src.f32 += 4 * column;
        src.q32 += column, src.d32 += column / 32 * 4, src.s32 += column / 32 * 2;
        src.q256 += column, src.d256 += column / 256 * 4, src.s256 += column / 16 * 2;
        cl_sums(&src, &u, split, t0, nt, tile, R, work);
        barrier(CLK_LOCAL_MEM_FENCE);
        global float *y = out + t0 * out_width + matrix * out_stride + row;
        for (uint j = get_local_id(0); j < nt * here; j += get_local_size(0))
            y[j / here * out_width + j % here] =
                cl_scaled(biased, 0, factor0 + matrix, tile[j / here * R + j % here]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#else

/* Units first_unit .. + units of the work, each of `unit` panels, which `together` groups share: if there are
 * several (decode), outputs are 256 of int8 forms, and the last group makes these; arrivals: for each unit, 0
 * before and after. split: how many segments of k are in flight at once (decode), or tokens of a pass or
 * tile. rows: of the weight (of both). rows1 > 0: behind the units of w0 come those of w1, another matrix of
 * so many rows, whose products go to out1 from column1 on; neither has a bias or a factor then. Local: tile
 * CL_AT_ONCE x R floats, R = 16 * panels of a group, without CL_TILES twice that for SWIGLU and GEGLU, and at
 * least 256 for several groups; work as the family says. */
CL_KERNEL void CL_NAME(CL_ARGUMENTS(MATMUL)) {
    struct cl_source src = CL_SOURCE(in);
    struct cl_plain plain = {CL_FORMS(out), epilogue, column, bias0, biased, factor0};
#if !CL_TILES
#if CL_OF_ALL
    together = 1; /* of all types: sharing takes registers that acm-g10 has not */
#endif
    struct cl_forms forms = plain.out;
    plain.out.has = together > 1 ? OPENCL_F32 : plain.out.has & OPENCL_F32;
    bool quantised = OPENCL_GATED(epilogue) && (forms.has & ~OPENCL_F32) != 0;
#endif
    bool two = OPENCL_GATED(epilogue);
    uint mine = unit / together;
    struct cl_gate gate = {epilogue, biased, {factor0, factor1}, {bias0, bias1}, 0, false, 0, 0};
    struct cl_unit u = {CL_WEIGHT(w0), CL_WEIGHT(w1),         0,    cl_ceil_div(rows, 16),
                        mine,          two ? 2 * mine : mine, &gate};
    uint R = 16 * (CL_TILES ? mine : u.all);
    uint tokens = tail ? CL_STEP(step)->n_rows : CL_STEP(step)->n_tokens;
    if (epilogue == OPENCL_PAIRS)
        tokens *= 2;
    uint tiles = cl_ceil_div(tokens, CL_AT_ONCE), dealt = CL_DEALT ? tiles : 1;
#ifdef CL_FEW
    dealt = together == 1 ? tiles : 1;
#endif
    uint units0 = cl_ceil_div(u.panels, mine);
    for (uint item = get_group_id(0); item < units * together * dealt; item += get_num_groups(0)) {
        uint i = first_unit * together + item / dealt;
        u.panel = i * mine;
        uint end = rows;
        if (CL_PAIRS && rows1 > 0) {
            struct cl_weight a = CL_WEIGHT(w0), b = CL_WEIGHT(w1);
            bool second = i >= units0;
            u.w0 = second ? b : a;
            u.panel = (second ? i - units0 : i) * mine;
            end = second ? rows1 : rows;
            u.panels = cl_ceil_div(end, 16);
            plain.out.base = second ? (global uchar *)out1 : out;
            plain.out.f32 = second ? 0 : out_f32;
            plain.out.width = second ? out1_width : out_width;
            plain.column = second ? column1 : column;
        }
        uint row = 16 * u.panel, here = min(16 * mine, end - row);
        gate.bias[0] = bias0 + row;
        gate.bias[1] = bias1 + row;
        gate.last = here - 1;
        for (uint tile_at = item % dealt; tile_at < tiles; tile_at += dealt) {
            uint t0 = tile_at * CL_AT_ONCE, nt = min(tokens - t0, (uint)CL_AT_ONCE);
            cl_sums(&src, &u, split, t0, nt, tile, R, work);
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_finish_plain(&plain, &gate, tile, R, 16 * mine, row, here, t0, nt, (local uint *)work);
            barrier(CLK_LOCAL_MEM_FENCE);
#if !CL_TILES
            /* Rows that are ready: the tile's, or in the end all, out of the floats, 256 values of one at a
             * time. One call makes both int8: two would be two thirds of the kernel, and spill. */
            uint n = quantised ? 1 : 0, wide = here, stride = R, at = column + row;
            if (together > 1) {
                n = tile_at + 1 == tiles &&
                            cl_last_of_all(arrivals + i / together, together, (local uint *)work)
                        ? tokens
                        : 0;
                t0 = 0;
                nt = 1;
                wide = stride = 256;
                at = column + row / 256 * 256;
            }
            for (uint t = t0; t < t0 + n; t++) {
                if (together > 1)
                    cl_take_floats(&forms, t, at, tile);
                cl_quantise_rows(&forms, t, nt, at, tile, stride, wide, false, (local uint *)work);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
#else
            (void)arrivals;
#endif
        }
    }
}

/* Units are of `heads` heads: those of q come first, then k's, then v's; of one token perhaps halves of
 * heads. normed: OPENCL_NORMED_QK, OPENCL_NORMED_V, OPENCL_HALVES. Work also holds 128 floats for each of
 * CL_HEADS_AT_ONCE heads. */
CL_KERNEL void CL_JOIN(CL_NAME, _heads)(CL_ARGUMENTS(HEADS)) {
    struct cl_source src = CL_SOURCE(in);
    struct cl_heads h = {step,   q,      width,  head_k,   head_v, n_rot,       rotation,
                         normed, q_norm, k_norm, inv_head, eps,    CL_CACHE(kv)};
    uint q_units = cl_ceil_div(n_heads, heads), kv_units = cl_ceil_div(n_kv_heads, heads);
    uint tokens = CL_STEP(step)->n_tokens;
    uint tiles = cl_ceil_div(tokens, CL_AT_ONCE);
    for (uint item = get_group_id(0); item < units * (CL_DEALT ? tiles : 1); item += get_num_groups(0)) {
        uint i = first_unit + (CL_DEALT ? item / tiles : item);
#if CL_TOKENS == 1 && !CL_TILES
        uint parts = normed & OPENCL_HALVES ? 2 : 1, part = i % parts;
        i /= parts;
#else
        const uint parts = 1, part = 0;
#endif
        uint which = i < q_units ? CL_Q : i < q_units + kv_units ? CL_K : CL_V;
        uint head = (which == CL_Q ? i : i - q_units - (which == CL_V ? kv_units : 0)) * heads;
        uint all = which == CL_Q ? n_heads : n_kv_heads;
        uint dim = which == CL_V ? head_v : head_k, wide = dim / parts;
        struct cl_part p = {head, min(heads, all - head), dim, part * wide, wide};
        struct cl_weight wq = CL_WEIGHT(w0), wk = CL_WEIGHT(w1), wv = CL_WEIGHT(w2);
        struct cl_unit u;
        u.w0 = which == CL_Q ? wq : which == CL_K ? wk : wv;
        u.w1 = u.w0;
        u.panel = (head * dim + p.from) / 16;
        u.panels = all * dim / 16;
        u.half_of = u.all = heads * wide / 16;
        for (uint tile_at = CL_DEALT ? item % tiles : 0; tile_at < tiles; tile_at += CL_DEALT ? tiles : 1) {
            uint t0 = tile_at * CL_AT_ONCE, nt = min(tokens - t0, (uint)CL_AT_ONCE);
            uint R = heads * wide;
            cl_sums(&src, &u, split, t0, nt, tile, R, work);
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_finish_heads(&h, which, p,
                            which == CL_Q   ? bias0
                            : which == CL_K ? bias1
                                            : bias2,
                            biased >> which,
                            which == CL_Q   ? factor0
                            : which == CL_K ? factor1
                                            : factor2,
                            tile, R, t0, nt, (local float *)work);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#if CL_TILES || CL_TOKENS == 1
#include "kernels/opencl/cl_experts.h"
#endif

#endif
#endif
