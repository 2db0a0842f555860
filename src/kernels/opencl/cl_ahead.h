/* cl_dot.h's segments for one token, with the loads of several blocks in flight at once: with one token few
 * work items have work, and each waits for memory most of the time. CL_AHEAD: how many blocks, 2 or 4 (K
 * types 2). */
#ifndef STATOR_KERNELS_OPENCL_CL_AHEAD_H
#define STATOR_KERNELS_OPENCL_CL_AHEAD_H

#include "kernels/opencl/cl_block.h"

/* acc[t] of the block that is number `here` of the segment. */
static inline void cl_add32(uint type, struct cl_block *b, uint here, const struct cl_act *a, float *acc) {
    int i[CL_TOKENS];
    cl_words(type, 0, b->w);
    cl_dots(i, b->w, a, a->q + here * 32, 0, 0, 8);
#pragma unroll
    for (uint t = 0; t < CL_TOKENS; t++) {
        float d = a->d[CL_ROW(a, t) * a->d_stride + here];
        int s = a->s[CL_ROW(a, t) * a->s_stride + here];
        float scale = b->d * d;
        acc[t] = fma((float)(i[t] - cl_offset(type) * s), scale, acc[t]);
        if (cl_has_m(type)) {
            float least = b->m * d;
            acc[t] = fma((float)s, least, acc[t]);
        }
    }
}

/* The blocks that are in flight, in variables of their own: of an array IGC makes a loop. */
#define CL_BLOCKS_2(X)   X(0) X(1)
#define CL_BLOCKS_4(X)   CL_BLOCKS_2(X) X(2) X(3)
#define CL_BLOCKS_8(X)   CL_BLOCKS_4(X) X(4) X(5) X(6) X(7)
#define CL_BLOCKS_OF_(n) CL_BLOCKS_##n
#define CL_BLOCKS_OF(n)  CL_BLOCKS_OF_(n)

/* acc[t] of blocks first .. end of a 32-value type. */
static inline void cl_segment32(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint first,
                                uint end, const struct cl_act *a, float *acc) {
    uint block = first;
    for (; block + CL_AHEAD <= end; block += CL_AHEAD) {
#define CL_LOAD(n)                                                                                           \
    struct cl_block b##n;                                                                                    \
    cl_load32(type, p, panel, r, block + n, &b##n);
#define CL_ADD(n) cl_add32(type, &b##n, block - first + n, a, acc);
        CL_BLOCKS_OF(CL_AHEAD)(CL_LOAD) CL_BLOCKS_OF(CL_AHEAD)(CL_ADD)
#undef CL_LOAD
#undef CL_ADD
    }
    for (; block < end; block++) {
        struct cl_block b;
        cl_load32(type, p, panel, r, block, &b);
        cl_add32(type, &b, block - first, a, acc);
    }
}

/* The block that is number `here` of the segment, to the integers of its super block. */
static inline void cl_add256(uint type, uint file, struct cl_block *b, uint here, const struct cl_act *a,
                             int *i, int *least) {
    CL_ACT const uchar *q = a->q + here * 32;
    CL_ACT const short *s = a->s + here * 2;
    int part[CL_TOKENS];
    cl_words(type, file, b->w);
    if (cl_subs(type) == 16) {
#pragma unroll
        for (uint h = 0; h < 2; h++) {
            int both = h == 0 ? b->scale : b->other, scale = cl_has_m(type) ? both & 15 : both;
            cl_dots(part, b->w, a, q, 0, 4 * h, 4 * h + 4);
#pragma unroll
            for (uint t = 0; t < CL_TOKENS; t++) {
                int sum = s[CL_ROW(a, t) * a->s_stride + h];
                i[t] += scale * (part[t] - cl_offset(type) * sum);
                if (cl_has_m(type))
                    least[t] += (both >> 4) * sum;
            }
        }
    } else {
        cl_dots(part, b->w, a, q, 0, 0, 8);
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            i[t] += b->scale * part[t];
            if (cl_has_m(type))
                least[t] += b->other * (s[CL_ROW(a, t) * a->s_stride] + s[CL_ROW(a, t) * a->s_stride + 1]);
        }
    }
}

/* acc[t] of super blocks first .. end of a K type. */
static inline void cl_segment256(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint first,
                                 uint end, const struct cl_act *a, float *acc) {
    for (uint super = first; super < end; super++) {
        uint here = super - first;
        int i[CL_TOKENS], least[CL_TOKENS];
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++)
            i[t] = least[t] = 0;
        float dw = cl_scale256(type, p, panel, super, r);
        float mw = cl_has_m(type) ? cl_half(panel + p->m + (super * 16 + r) * 2) : 0.0f;
#if CL_K_NEXT
        struct cl_block b0, b1;
        cl_load256(type, p, panel, r, super * 8, &b0);
        cl_load256(type, p, panel, r, super * 8 + 1, &b1);
        for (uint j = 0; j < 8; j += 2) {
            uint next = super * 8 + min(j + 2, 6u), at = here * 8 + j;
            struct cl_block n0, n1;
            cl_load256(type, p, panel, r, next, &n0);
            cl_load256(type, p, panel, r, next + 1, &n1);
            cl_add256(type, p->file, &b0, at, a, i, least);
            cl_add256(type, p->file, &b1, at + 1, a, i, least);
            b0 = n0, b1 = n1;
        }
#else
        for (uint j = 0; j < 8; j += CL_K_AHEAD) {
            uint block = super * 8 + j, at = here * 8 + j;
#define CL_LOAD(n)                                                                                           \
    struct cl_block b##n;                                                                                    \
    cl_load256(type, p, panel, r, block + n, &b##n);
#define CL_ADD(n) cl_add256(type, p->file, &b##n, at + n, a, i, least);
            CL_BLOCKS_OF(CL_K_AHEAD)(CL_LOAD) CL_BLOCKS_OF(CL_K_AHEAD)(CL_ADD)
#undef CL_LOAD
#undef CL_ADD
        }
#endif
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            float d = a->d[CL_ROW(a, t) * a->d_stride + here];
            float scale = dw * d;
            acc[t] = fma((float)i[t], scale, acc[t]);
            if (cl_has_m(type)) {
                float minimum = mw * d;
                acc[t] = fma(-(float)least[t], minimum, acc[t]);
            }
        }
    }
}

/* Columns whose weights are loaded before the first is used. A small matrix, such as a router, is all
 * waiting. */
#if defined(CL_WIDE)
#define CL_COLUMNS 64
#elif (CL_TYPES & (CL_TYPES - 1ul)) == 0
#define CL_COLUMNS 32
#else
#define CL_COLUMNS 16
#endif

/* acc[t] of columns first .. end. */
static inline void cl_segment_float(uint type, cl_bytes panel, uint r, uint first, uint end,
                                    const struct cl_act *a, float *acc) {
    uint col = first;
    for (; col + CL_COLUMNS <= end; col += CL_COLUMNS) {
        float w[CL_COLUMNS];
        if (type == CL_BF16) {
#pragma unroll
            for (uint c = 0; c < CL_COLUMNS; c += 2) {
                uint both = cl_word(panel + ((col + c) / 2 * 16 + r) * 4);
                w[c] = as_float(both << 16);
                w[c + 1] = as_float(both & 0xffff0000u);
            }
        } else {
#pragma unroll
            for (uint c = 0; c < CL_COLUMNS; c++)
                w[c] = cl_weight(type, panel, r, col + c);
        }
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            CL_ACT const float *x = (CL_ACT const float *)a->q + CL_ROW(a, t) * a->stride + (col - first);
#pragma unroll
            for (uint c = 0; c < CL_COLUMNS; c++)
                acc[t] = fma(w[c], x[c], acc[t]);
        }
    }
    for (; col < end; col++) {
        float w = cl_weight(type, panel, r, col);
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++)
            acc[t] = fma(w, ((CL_ACT const float *)a->q)[CL_ROW(a, t) * a->stride + (col - first)], acc[t]);
    }
}

#endif
