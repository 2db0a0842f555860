/* What both families of matmul kernels start from: activations, weights that may be cut in two, units of
 * work. CL_ACT and the rest of cl_dot.h's names are set by the includer. */
#ifndef STATOR_KERNELS_OPENCL_CL_SOURCE_H
#define STATOR_KERNELS_OPENCL_CL_SOURCE_H

#include "kernels/opencl/cl_dot.h"

/* The value that is multiplied: rows of cols values in the forms that the weights need. */
struct cl_source {
    cl_bytes base;
    uint f32, q32, d32, s32, q256, d256, s256;
    uint cols;
    uint stride; /* values of a row: more than cols where they are a part of it */
    /* Tiles of experts: rows that are not one after the other; else 0. */
    global const uint *row;
};

/* Whether weights of this type multiply values in groups of 256, not 32. */
static inline bool cl_by_256(uint type) {
    return CL_ANY_K ? (CL_ANY_32 ? cl_is_k(type) : true) : false;
}

/* Panels first .. cut - 1 at a, those from cut on at b. */
struct cl_weight {
    cl_bytes a, b;
    uint first, cut;
    uint type;
    uint file; /* the type in the file */
};

static inline cl_bytes cl_panel_at(const struct cl_weight *w, uint panel, uint panel_bytes) {
    return panel < w->cut ? w->a + (panel - w->first) * panel_bytes : w->b + (panel - w->cut) * panel_bytes;
}

/* What two finished sums of one output become: OPENCL_SWIGLU or OPENCL_GEGLU, of experts perhaps the clamped
 * SwiGLU. Biases are those of the unit's rows, 0 to `last`. */
struct cl_gate {
    uint epilogue;
    uint biased;
    global const float *factor[2]; /* before the biases */
    global const float *bias[2];
    uint last;
    bool clamped;
    float alpha, limit;
};

/* Of row i of the unit. Rows that do not exist are computed with the last one's biases, and dropped. */
static inline float cl_gated(const struct cl_gate *g, uint i, float gate, float up) {
    gate = cl_scaled(g->biased, 0, g->factor[0], gate);
    up = cl_scaled(g->biased, 1, g->factor[1], up);
    if (g->biased & OPENCL_BIAS(0))
        gate = gate + g->bias[0][min(i, g->last)];
    if (g->biased & OPENCL_BIAS(1))
        up = up + g->bias[1][min(i, g->last)];
    if (g->clamped) {
        float least = gate < g->limit ? gate : g->limit;
        float below = up < g->limit ? up : g->limit;
        up = below > -g->limit ? below : -g->limit;
        float s = num_sigmoid(least * g->alpha) * least, one = up + 1.0f;
        return s * one;
    }
    float y = g->epilogue == OPENCL_GEGLU ? num_gelu(gate) : num_silu(gate);
    return y * up;
}

/* What a unit of work computes: `half` panels of w0 from `panel` on, then (swiglu) as many of w1; panels
 * beyond the weight's `panels` are computed and dropped. With CL_TILES the two become one in the sums. */
struct cl_unit {
    struct cl_weight w0, w1;
    uint panel, panels, half_of, all;
    const struct cl_gate *gate; /* if all is twice half_of */
};

static inline uint cl_type_bytes(uint type, uint cols) {
    uint bytes = 0;
#define CL_SIZE(T)                                                                                           \
    if (CL_HAS(T) && (CL_TYPES == 1ul << (T) || type == (T)))                                                \
        bytes = cl_planes(T, 0, cols).panel_bytes;
    CL_SIZE(CL_Q4_0)
    CL_SIZE(CL_Q4_1)
    CL_SIZE(CL_Q5_0)
    CL_SIZE(CL_Q5_1)
    CL_SIZE(CL_Q8_0)
    CL_SIZE(CL_IQ4_NL)
    CL_SIZE(CL_MXFP4)
    CL_SIZE(CL_Q2_K)
    CL_SIZE(CL_Q3_K)
    CL_SIZE(CL_IQ2_S)
    CL_SIZE(CL_IQ4_XS)
    CL_SIZE(CL_Q4_K)
    CL_SIZE(CL_Q5_K)
    CL_SIZE(CL_Q6_K)
    CL_SIZE(CL_F32)
    CL_SIZE(CL_F16)
    CL_SIZE(CL_BF16)
    return bytes;
}

#endif
