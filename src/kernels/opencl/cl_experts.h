/* The kernel for products of experts that each matmul module but those for few tokens has: NAME_experts. It
 * walks items of routes (kernels/shared/experts.h), at most CL_TOKENS rows of one expert, times units of that
 * expert's panels. */
#ifndef STATOR_KERNELS_OPENCL_CL_EXPERTS_H
#define STATOR_KERNELS_OPENCL_CL_EXPERTS_H

#include "kernels/shared/experts.h"

struct cl_glu {
    struct cl_forms out;
    global const float *bias[2]; /* of the expert's row `row` */
    uint biased;                 /* bits 0, 1 */
    bool gated, clamped;
    float alpha, limit;
};

/* Rows row .. row + rows of the panels, for rows t0 .. t0 + nt of out. Gated: the gate is at tile[t][0..], up
 * at tile[t][up..]. */
static inline void cl_finish_experts(const struct cl_glu *p, local float *tile, uint R, uint up, uint row,
                                     uint rows, uint t0, uint nt, local uint *work) {
    uint me = get_local_id(0), items = get_local_size(0);
    global float *y = (global float *)(p->out.base + p->out.f32) + row;
    for (uint t = 0; t < nt; t++) {
        for (uint i = me; i < rows; i += items) {
            float h = tile[t * R + i];
            if (p->biased & 1)
                h = h + p->bias[0][i];
            if (p->gated) {
                float u = tile[t * R + up + i];
                if (p->biased & 2)
                    u = u + p->bias[1][i];
                if (p->clamped) {
                    float g = h < p->limit ? h : p->limit;
                    float below = u < p->limit ? u : p->limit;
                    u = below > -p->limit ? below : -p->limit;
                    float s = num_sigmoid(g * p->alpha) * g, one = u + 1.0f;
                    h = s * one;
                } else {
                    h = num_silu(h) * u;
                }
                tile[t * R + i] = h;
            }
            if (p->out.has & OPENCL_F32)
                y[(t0 + t) * p->out.width + i] = h;
        }
    }
    for (uint t = 0; t < nt && (p->out.has & ~OPENCL_F32) != 0; t++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        cl_quantise_forms(&p->out, t0 + t, row, tile + t * R, rows, false, work);
    }
}

/* Experts first .. end of the weights, whose matrices have `rows` rows. gather: rows of `in` are tokens.
 * Local as of NAME. */
CL_KERNEL void CL_JOIN(CL_NAME, _experts)(CL_ARGUMENTS(EXPERTS)) {
    struct cl_source src = CL_SOURCE(in);
    struct cl_unit u = {CL_WEIGHT(w0), CL_WEIGHT(w1), 0, 0, unit, gated ? 2 * unit : unit};
    uint R = 16 * u.all, panels = cl_ceil_div(rows, 16), units = cl_ceil_div(panels, unit);
    uint n = routes[0] * units;
    (void)step;
    for (uint i = get_group_id(0); i < n; i += get_num_groups(0)) {
        global const uint *item = routes + EXPERTS_ITEMS(slots) + i / units * EXPERTS_ITEM;
        uint expert = item[EXPERTS_EXPERT], t0 = item[EXPERTS_ROW], nt = item[EXPERTS_ROWS];
        if (expert < first || expert >= end) /* of the whole group */
            continue;
        uint row = i % units * unit * 16;
        u.panel = expert * panels + i % units * unit;
        u.panels = (expert + 1) * panels;
        global const uint *token = routes + EXPERTS_TOKEN(slots) + t0;
#if CL_TILES
        src.row = gather ? token : 0;
        cl_sums(&src, &u, split, gather ? 0 : t0, nt, tile, R, work);
#else
        cl_sums(&src, &u, split, gather ? token[0] : t0, 1, tile, R, work);
#endif
        struct cl_glu glu = {CL_FORMS(out), {bias0 + expert * rows + row, bias1 + expert * rows + row},
                             biased,        gated != 0,
                             clamped != 0,  alpha,
                             limit};
        barrier(CLK_LOCAL_MEM_FENCE);
        cl_finish_experts(&glu, tile, R, 16 * unit, row, min(16 * unit, rows - row), t0, nt,
                          (local uint *)work);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
