/* The kernel for products of experts that each matmul module but those for few tokens has: NAME_experts. It
 * walks items of routes (kernels/shared/experts.h), some rows of one expert, times units of that expert's
 * panels. */
#ifndef STATOR_KERNELS_OPENCL_CL_EXPERTS_H
#define STATOR_KERNELS_OPENCL_CL_EXPERTS_H

#include "kernels/shared/experts.h"

/* Experts first .. end of the weights, whose matrices have `rows` rows. gather: rows of `in` are tokens.
 * gated: OPENCL_SWIGLU, OPENCL_GEGLU, or 0. together, arrivals: as of NAME, a count for each unit of a row.
 * Local as of NAME. */
CL_KERNEL void CL_JOIN(CL_NAME, _experts)(CL_ARGUMENTS(EXPERTS)) {
    struct cl_source src = CL_SOURCE(in);
    struct cl_forms forms = CL_FORMS(out);
#if CL_TILES || CL_OF_ALL
    together = 1;
#endif
    uint mine = unit / together;
    struct cl_unit u = {CL_WEIGHT(w0), CL_WEIGHT(w1), 0, 0, mine, gated ? 2 * mine : mine, 0};
    uint R = 16 * (CL_TILES ? mine : u.all), panels = cl_ceil_div(rows, 16),
         units = cl_ceil_div(panels, unit) * together;
    uint n = routes[0] * units;
    (void)step, (void)arrivals;
    for (uint i = get_group_id(0); i < n; i += get_num_groups(0)) {
        global const uint *item = routes + EXPERTS_ITEMS(slots) + i / units * EXPERTS_ITEM;
        uint expert = item[EXPERTS_EXPERT];
        if (expert < first || expert >= end) /* of the whole group */
            continue;
        uint row = i % units * mine * 16, here = min(16 * mine, rows - row);
        u.panel = expert * panels + i % units * mine;
        u.panels = (expert + 1) * panels;
        for (uint part = 0; part < (CL_TILES ? item[EXPERTS_ROWS] : 1); part += CL_AT_ONCE) {
            uint t0 = item[EXPERTS_ROW] + part, nt = min(item[EXPERTS_ROWS] - part, (uint)CL_AT_ONCE);
            global const uint *token = routes + EXPERTS_TOKEN(slots) + t0;
#if !CL_TILES
            cl_sums(&src, &u, split, gather ? token[0] : t0, 1, tile, R, work);
#endif
            struct cl_gate gate = {gated,
                                   biased,
                                   {factor0 + expert, factor1 + expert},
                                   {bias0 + expert * rows + row, bias1 + expert * rows + row},
                                   here - 1,
                                   clamped != 0,
                                   alpha,
                                   limit};
#if CL_TILES
            u.gate = &gate;
            src.row = gather ? token : 0;
            cl_sums(&src, &u, split, gather ? 0 : t0, nt, tile, R, work);
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
            if (gated) {
#if CL_TILES
                cl_finish_gated(&forms, &gate, 0, tile, R, 16 * mine, row, here, t0, nt, (local uint *)work);
#else
                struct cl_forms floats = forms;
                floats.has = together > 1 ? OPENCL_F32 : forms.has & OPENCL_F32;
                cl_gate_rows(&floats, &gate, 0, tile, R, 16 * mine, row, here, t0, 1);
                uint wide = here, stride = R, at = row;
                barrier(CLK_LOCAL_MEM_FENCE);
                if (together > 1) {
                    uint of = t0 * (units / together) + row / 256;
                    if (!cl_last_of_all(arrivals + of, together, (local uint *)work))
                        continue;
                    wide = stride = 256;
                    at = row / 256 * 256;
                    cl_take_floats(&forms, t0, at, tile);
                }
                cl_quantise_rows(&forms, t0, 1, at, tile, stride, wide, false, (local uint *)work);
#endif
            } else {
                global float *y = (global float *)(forms.base + forms.f32) + row;
                for (uint j = get_local_id(0); j < nt * here; j += get_local_size(0)) {
                    float sum = cl_scaled(biased, 0, gate.factor[0], tile[j / here * R + j % here]);
                    y[(t0 + j / here) * forms.width + j % here] =
                        biased & OPENCL_BIAS(0) ? sum + gate.bias[0][j % here] : sum;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#endif
