/* Where a layer of a delta-net or of Mamba-2 has its states. */
#ifndef STATOR_KERNELS_OPENCL_CL_STATES_H
#define STATOR_KERNELS_OPENCL_CL_STATES_H

#include "kernels/opencl/cl_heads.h"
#include "kernels/shared/delta.h"

/* A layer's states: the sequence's block begins at base + block * block_bytes. */
struct states {
    global uchar *base;
    uint block_bytes;
    uint cache;
    uint window; /* bytes of a state before the rows that the convolution keeps */
};

static inline global float *state_of(const struct states *s, cl_bytes step,
                                     global const struct step_chunk *c) {
    return (global float *)(s->base + cl_table(step, s->cache, c->slot)[0] * s->block_bytes);
}

#endif
