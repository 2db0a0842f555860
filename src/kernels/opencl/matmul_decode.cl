/* Products of few tokens, bound by memory: a work item has one row of a panel, so that 16 of them read whole
 * lines; k is split in segments over slots of 16 items, whose totals meet in local memory and are added in
 * order. Compiled once per set of weight types (CL_TYPES, CL_NAME), for one token (CL_TOKENS=1) and for a few. */
#define CL_ACT       global
#define CL_SUB_GROUP 0
#define CL_TILES     0
#define CL_ROWS      1
#include "kernels/opencl/cl_types.h"
#include "kernels/shared/opencl.h"
/* As many as fit into registers on every GPU without spilling (tools/ocloc_table). */
#ifndef CL_TOKENS
#if CL_OF_ALL || CL_OF_ALL_K
#define CL_TOKENS OPENCL_DECODE_MIXED
#else
#define CL_TOKENS OPENCL_DECODE_TOKENS
#endif
#endif
/* Blocks of an item that are loaded before the first is used (cl_ahead.h), of 32-value types and of K types. */
#if CL_TOKENS > 1 || CL_OF_ALL || CL_OF_ALL_K
#define CL_AHEAD 1
#elif defined(CL_WIDE)
#if CL_TYPES == 1ul << CL_IQ4_NL /* the look-ups of more would not overlap */
#define CL_AHEAD 4
#else
#define CL_AHEAD 8
#endif
#define CL_K_AHEAD 8
/* With two scales for each block eight of them would spill: the next two are loaded while two are used. */
#define CL_K_NEXT (CL_TYPES == 1ul << CL_Q6_K || CL_TYPES == 1ul << CL_Q3_K)
#elif CL_TYPES == 1ul << CL_Q4_0 || CL_TYPES == 1ul << CL_Q8_0
#define CL_AHEAD   4
#define CL_K_AHEAD 2
#else
#define CL_AHEAD   2
#define CL_K_AHEAD 2
#endif
#include "kernels/opencl/cl_source.h"

/* Local work: a float per item for each of nt tokens. */
static inline void cl_sums(const struct cl_source *src, const struct cl_unit *u, uint split, uint t0, uint nt,
                           local float *tile, uint R, local uchar *work) {
    local float *totals = (local float *)work;
    uint me = get_local_id(0), items = get_local_size(0);
    uint r = me % 16, slot = me / 16;
    uint segments = cl_ceil_div(src->cols, CL_SEGMENT);
    uint at_once = items / 16 / split;
    for (uint v0 = 0; v0 < u->all; v0 += at_once) {
        uint v = v0 + slot / split;
        uint panel = u->panel + v % u->half_of;
        bool there = v < u->all && panel < u->panels;
        for (uint first = 0; first < segments; first += split) {
            uint segment = first + slot % split;
            float acc[CL_TOKENS];
            if (there && segment < segments) {
                struct cl_weight w;
                if (v < u->half_of)
                    w = u->w0;
                else
                    w = u->w1;
                struct cl_act a;
                uint at = segment * CL_SEGMENT, cols = src->cols, wide = src->stride;
                bool k = cl_by_256(w.type);
                uint of_d = k ? 256 : 32, of_s = k ? 16 : 32;
                bool f = CL_ANY_FLOAT && cl_is_float(w.type);
                a.q = src->base + (f ? src->f32 : k ? src->q256 : src->q32) + (t0 * wide + at) * (f ? 4 : 1);
                a.d = (cl_floats)(src->base + (k ? src->d256 : src->d32)) + (t0 * wide + at) / of_d;
                a.s = (cl_shorts)(src->base + (k ? src->s256 : src->s32)) + (t0 * wide + at) / of_s;
                a.stride = wide;
                a.d_stride = wide / of_d;
                a.s_stride = wide / of_s;
                a.last = nt - 1;
                cl_bytes from = cl_panel_at(&w, panel, cl_type_bytes(w.type, cols));
                cl_segment(w.type, w.file, &from, cols, r, segment, &a, acc);
#pragma unroll
                for (uint t = 0; t < CL_TOKENS; t++)
                    if (CL_TOKENS == 1 || t < nt)
                        totals[t * items + me] = acc[t];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            /* The slots that have the panel's segments share the tokens. */
            uint together = min(split, segments - first), base = 16 * (slot / split * split) + r;
            for (uint t = slot % split; there && t < nt; t += split) {
                local float *to = tile + t * R + 16 * v + r;
                float total = first == 0 ? 0.0f : *to;
                for (uint j = 0; j < together; j++)
                    total += totals[t * items + base + 16 * j];
                *to = total;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#include "kernels/opencl/cl_matmul.h"
