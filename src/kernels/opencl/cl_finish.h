/* What becomes of finished sums, tile[token][R]: the epilogues. All functions are for the whole group; the
 * tile is ready (a barrier before), and may be written again after a barrier, which is the caller's.
 */
#ifndef STATOR_KERNELS_OPENCL_CL_FINISH_H
#define STATOR_KERNELS_OPENCL_CL_FINISH_H

#include "kernels/opencl/cl_source.h"

struct cl_plain {
    struct cl_forms out;
    uint epilogue;
    uint column; /* of out, where the weight's row 0 goes */
    global const float *bias;
    uint biased;
    global const float *factor; /* before the bias */
};

/* Rows row .. row + rows of tokens t0 .. t0 + nt, of two sums of one output: the gate is at tile[t][0..], the
 * other at tile[t][up..], unless they are one already (CL_TILES). To tile[t][0..], and to the floats that out
 * has. */
static inline void cl_gate_rows(const struct cl_forms *out, const struct cl_gate *gate, uint column,
                                local float *tile, uint R, uint up, uint row, uint rows, uint t0, uint nt) {
    uint me = get_local_id(0), items = get_local_size(0);
    global float *y = (global float *)(out->base + out->f32) + column + row;
    bool floats = out->has & OPENCL_F32;
    for (uint t = 0; t < (CL_TILES && !floats ? 0 : nt); t++) {
        for (uint i = me; i < rows; i += items) {
            float h = tile[t * R + i];
            if (!CL_TILES) {
                h = cl_gated(gate, i, h, tile[t * R + up + i]);
                tile[t * R + i] = h;
            }
            if (floats)
                y[(t0 + t) * out->width + i] = h;
        }
    }
}

/* The same, and to the int8 forms. work: cl_quantise_rows. */
static inline void cl_finish_gated(const struct cl_forms *out, const struct cl_gate *gate, uint column,
                                   local float *tile, uint R, uint up, uint row, uint rows, uint t0, uint nt,
                                   local uint *work) {
    cl_gate_rows(out, gate, column, tile, R, up, row, rows, t0, nt);
    if ((out->has & ~OPENCL_F32) == 0)
        return;
    barrier(CLK_LOCAL_MEM_FENCE);
    cl_quantise_rows(out, t0, nt, column + row, tile, R, rows, false, work);
}

/* 256 floats of row t, from column `at` on, to tile; ends with a barrier. */
static inline void cl_take_floats(const struct cl_forms *forms, uint t, uint at, local float *tile) {
    global const float *y = (global const float *)(forms->base + forms->f32) + t * forms->width + at;
    for (uint k = get_local_id(0); k < 256; k += get_local_size(0))
        tile[k] = y[k];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Without CL_TILES the int8 forms are the caller's. */
static inline void cl_finish_plain(const struct cl_plain *p, const struct cl_gate *gate, local float *tile,
                                   uint R, uint up, uint row, uint rows, uint t0, uint nt, local uint *work) {
    uint me = get_local_id(0), items = get_local_size(0);
    global float *y = (global float *)(p->out.base + p->out.f32) + p->column + row;
    if (p->epilogue == OPENCL_PAIRS) {
        for (uint t = 0; t < nt; t += 2)
            for (uint i = me; i < rows; i += items)
                y[(t0 + t) / 2 * p->out.width + i] =
                    cl_scaled(p->biased, 0, p->factor, tile[t * R + i]) +
                    cl_scaled(p->biased, 0, p->factor, tile[(t + 1) * R + i]);
        return;
    }
    if (OPENCL_GATED(p->epilogue)) {
#if CL_TILES
        cl_finish_gated(&p->out, gate, p->column, tile, R, up, row, rows, t0, nt, work);
#else
        cl_gate_rows(&p->out, gate, p->column, tile, R, up, row, rows, t0, nt);
        (void)work;
#endif
        return;
    }
    for (uint j = me; j < nt * rows; j += items) {
        uint t = j / rows, i = j % rows;
        global float *at = y + (t0 + t) * p->out.width + i;
        float sum = cl_scaled(p->biased, 0, p->factor, tile[t * R + i]);
        if (p->biased & OPENCL_BIAS(0))
            sum = sum + p->bias[row + i];
        *at = p->epilogue == OPENCL_RESIDUAL ? *at + sum : sum;
    }
}

#endif
