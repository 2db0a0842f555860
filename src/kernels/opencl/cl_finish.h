/* What becomes of finished sums, tile[token][R]: the epilogues. All functions are for the whole group; the
 * tile is ready (a barrier before), and may be written again after a barrier, which is the caller's.
 */
#ifndef STATOR_KERNELS_OPENCL_CL_FINISH_H
#define STATOR_KERNELS_OPENCL_CL_FINISH_H

#include "kernels/opencl/cl_panel.h"

struct cl_plain {
    struct cl_forms out;
    uint epilogue;
    uint column; /* of out, where the weight's row 0 goes */
    global const float *bias;
    bool biased;
};

/* Rows row .. row + rows of tokens t0 .. t0 + nt. Of SWIGLU and GEGLU the gate is at tile[t][0..], up at
 * tile[t][up..]. work: OPENCL_QUANTISE_WORDS(rows) words. */
static inline void cl_finish_plain(const struct cl_plain *p, local float *tile, uint R, uint up, uint row,
                                   uint rows, uint t0, uint nt, local uint *work) {
    uint me = get_local_id(0), items = get_local_size(0);
    global float *y = (global float *)(p->out.base + p->out.f32) + p->column + row;
    if (p->epilogue == OPENCL_PAIRS) {
        for (uint t = 0; t < nt; t += 2)
            for (uint i = me; i < rows; i += items)
                y[(t0 + t) / 2 * p->out.width + i] = tile[t * R + i] + tile[(t + 1) * R + i];
        return;
    }
    if (!OPENCL_GATED(p->epilogue)) {
        for (uint t = 0; t < nt; t++) {
            for (uint i = me; i < rows; i += items) {
                global float *at = y + (t0 + t) * p->out.width + i;
                float sum = tile[t * R + i];
                if (p->biased)
                    sum = sum + p->bias[row + i];
                *at = p->epilogue == OPENCL_RESIDUAL ? *at + sum : sum;
            }
        }
        return;
    }
    for (uint t = 0; t < nt; t++) {
        for (uint i = me; i < rows; i += items) {
            float gate = tile[t * R + i];
            gate = p->epilogue == OPENCL_SWIGLU ? num_silu(gate) : num_gelu(gate);
            float h = gate * tile[t * R + up + i];
            tile[t * R + i] = h;
            if (p->out.has & OPENCL_F32)
                y[(t0 + t) * p->out.width + i] = h;
        }
    }
    for (uint t = 0; t < nt; t++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        cl_quantise_forms(&p->out, t0 + t, p->column + row, tile + t * R, rows, false, work);
    }
}

#endif
