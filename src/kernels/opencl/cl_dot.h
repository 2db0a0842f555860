/* One segment of a sum over k: one row of a panel times up to CL_TOKENS rows of activations. The includer
 * sets, before this file:
 *   CL_TOKENS      rows of activations that a work item has sums for
 *   CL_ACT         global or local: where the activations are
 *   CL_SUB_GROUP   0, or the sub-group size of the matrix engine's instructions (8 or 16; CL_TOKENS is 8)
 *   CL_AHEAD       1; or 2 or 4: how many 32-blocks of a row are loaded at once (CL_TOKENS is 1)
 *   CL_TYPES       which weight types: a mask, bit enum block_type
 * Types become constants in a switch, so that each has its own loop; a kernel for one type has no switch. */
#ifndef STATOR_KERNELS_OPENCL_CL_DOT_H
#define STATOR_KERNELS_OPENCL_CL_DOT_H

#include "kernels/opencl/cl_panel.h"

#define CL_HAS(type)  ((CL_TYPES >> (type)&1ul) != 0)
#define CL_SEGMENT    512
#define CL_FLOAT_BITS (1ul << CL_F32 | 1ul << CL_F16 | 1ul << CL_BF16)
#define CL_K_BITS                                                                                            \
    (1ul << CL_Q2_K | 1ul << CL_Q3_K | 1ul << CL_Q4_K | 1ul << CL_Q5_K | 1ul << CL_Q6_K | 1ul << CL_IQ2_S |  \
     1ul << CL_IQ4_XS)
#define CL_TABLE_BITS (1ul << CL_IQ4_NL | 1ul << CL_MXFP4 | 1ul << CL_IQ4_XS | 1ul << CL_IQ2_S)
#define CL_ANY_TABLE  ((CL_TYPES & CL_TABLE_BITS) != 0)
#define CL_ANY_FLOAT  ((CL_TYPES & CL_FLOAT_BITS) != 0)
#define CL_ANY_K      ((CL_TYPES & CL_K_BITS) != 0)
#define CL_ANY_32     ((CL_TYPES & ~(CL_FLOAT_BITS | CL_K_BITS)) != 0)

/* Rows of activations in the form that the weight multiplies: values (bytes, or floats), the scales of their
 * groups, sums of values. Row t at t * stride (in elements), beginning with the segment's first value. */
struct cl_act {
    CL_ACT const uchar *q; /* or floats */
    CL_ACT const float *d;
    CL_ACT const short *s;
    uint stride, d_stride, s_stride;
    uint last; /* rows after this one are not there: it is read in their place */
};

#define CL_ROW(a, t) (CL_TOKENS == 1 ? 0 : min((uint)(t), (a)->last))

#if CL_SUB_GROUP == 8
typedef int8 cl_rows8; /* 8 rows of 32 bytes over the sub-group: item i has bytes 4i .. 4i + 3 of each */
__attribute__((overloadable)) int8 intel_sub_group_i8_i8_matrix_mad_k32(int8, int8, int8);
#elif CL_SUB_GROUP == 16
typedef short8 cl_rows8; /* item i has bytes 2i, 2i + 1 of each */
__attribute__((overloadable)) int8 intel_sub_group_i8_i8_matrix_mad_k32(short8, int8, int8);
#endif

/* i[t] = sum over 32 values (or half of them: first or last 16) of w * the activations at q. */
static inline void cl_dots(int *i, const uint *w, const struct cl_act *act, CL_ACT const uchar *q, uint begin,
                           uint end) {
#if CL_SUB_GROUP
    cl_rows8 a;
    uint lane = get_sub_group_local_id();
    for (uint t = 0; t < 8; t++)
#if CL_SUB_GROUP == 8
        a[t] = ((CL_ACT const int *)(q + CL_ROW(act, t) * act->stride))[lane];
#else
        a[t] = ((CL_ACT const short *)(q + CL_ROW(act, t) * act->stride))[lane];
#endif
    int8 b;
    for (uint s = 0; s < 8; s++)
        b[s] = s >= begin && s < end ? (int)w[s] : 0;
    int8 sums = intel_sub_group_i8_i8_matrix_mad_k32(a, b, (int8)(0));
    for (uint t = 0; t < 8; t++)
        i[t] = sums[t];
#else
#pragma unroll
    for (uint t = 0; t < CL_TOKENS; t++) {
        CL_ACT const uint4 *a = (CL_ACT const uint4 *)(q + CL_ROW(act, t) * act->stride);
        int sum = 0;
        if (begin == 0) {
            uint4 x = a[0];
            sum += dot(as_char4(w[0]), as_char4(x.x)) + dot(as_char4(w[1]), as_char4(x.y)) +
                   dot(as_char4(w[2]), as_char4(x.z)) + dot(as_char4(w[3]), as_char4(x.w));
        }
        if (end == 8) {
            uint4 x = a[1];
            sum += dot(as_char4(w[4]), as_char4(x.x)) + dot(as_char4(w[5]), as_char4(x.y)) +
                   dot(as_char4(w[6]), as_char4(x.z)) + dot(as_char4(w[7]), as_char4(x.w));
        }
        i[t] = sum;
    }
#endif
}

static inline float cl_weight(uint type, cl_bytes panel, uint r, uint col) {
    struct cl_planes none; /* has no planes */
    return cl_decode(type, &none, panel, r, col);
}

#if CL_AHEAD > 1
#include "kernels/opencl/cl_ahead.h"
#else

/* The bytes of row r, 32-block `block`, that are multiplied, four to a word. */
static inline void cl_words(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint block,
                            uint *w) {
    if (type == CL_Q8_0) {
#pragma unroll
        for (uint s = 0; s < 8; s++)
            w[s] = cl_word(panel + block * 512 + s * 64 + r * 4);
        return;
    }
    if (cl_low_bits(type) == 2) {
#pragma unroll
        for (uint v = 0; v < 2; v++) {
            uint four = cl_word(panel + block * 128 + v * 64 + r * 4);
#pragma unroll
            for (uint f = 0; f < 4; f++)
                w[4 * v + f] = four >> 2 * f & 0x03030303u;
        }
    } else {
#pragma unroll
        for (uint s = 0; s < 4; s++) {
            uint both = cl_word(panel + block * 256 + s * 64 + r * 4);
            w[s] = both & 0x0F0F0F0Fu;
            w[s + 4] = both >> 4 & 0x0F0F0F0Fu;
        }
    }
    if (cl_high_bits(type) == 1) {
        uint high = cl_word(panel + p->high + block * 64 + r * 4);
#pragma unroll
        for (uint s = 0; s < 8; s++)
            w[s] |= (high >> s & 0x01010101u) << cl_low_bits(type);
    }
    if (cl_high_bits(type) == 2) {
#pragma unroll
        for (uint v = 0; v < 2; v++) {
            uint high = cl_word(panel + p->high + (block * 2 + v) * 64 + r * 4);
#pragma unroll
            for (uint f = 0; f < 4; f++)
                w[4 * v + f] |= (high >> 2 * f & 0x03030303u) << 4;
        }
    }
#if CL_ANY_TABLE
    if (cl_is_table(type)) {
        uint4 table = cl_integers(type, p->file);
#pragma unroll
        for (uint s = 0; s < 8; s++)
            w[s] = cl_look_up(type, table, w[s]);
    }
#endif
}

/* acc[t] of blocks first .. end of a 32-value type. */
static inline void cl_segment32(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint first,
                                uint end, const struct cl_act *a, float *acc) {
    for (uint block = first; block < end; block++) {
        uint here = block - first;
        uint w[8];
        cl_words(type, p, panel, r, block, w);
        float dw = cl_scale32(type, panel + p->d, block, r);
        float mw = cl_has_m(type) ? cl_half(panel + p->m + (block * 16 + r) * 2) : 0.0f;
        int i[CL_TOKENS];
        cl_dots(i, w, a, a->q + here * 32, 0, 8);
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            float d = a->d[CL_ROW(a, t) * a->d_stride + here];
            int s = a->s[CL_ROW(a, t) * a->s_stride + here];
            float scale = dw * d;
            acc[t] = fma((float)(i[t] - cl_offset(type) * s), scale, acc[t]);
            if (cl_has_m(type)) {
                float least = mw * d;
                acc[t] = fma((float)s, least, acc[t]);
            }
        }
    }
}

/* acc[t] of super blocks first .. end of a K type. */
static inline void cl_segment256(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint first,
                                 uint end, const struct cl_act *a, float *acc) {
    for (uint super = first; super < end; super++) {
        uint here = super - first;
        int i[CL_TOKENS];
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++)
            i[t] = 0;
        for (uint j = 0; j < 8; j++) {
            uint block = super * 8 + j;
            uint w[8];
            cl_words(type, p, panel, r, block, w);
            CL_ACT const uchar *q = a->q + here * 256 + j * 32;
            int part[CL_TOKENS];
            if (cl_subs(type) == 16) {
                CL_ACT const short *s = a->s + here * 16 + j * 2;
#pragma unroll
                for (uint h = 0; h < 2; h++) {
                    int scale = cl_sub(type, p, panel, block * 2 + h, r);
                    cl_dots(part, w, a, q, 4 * h, 4 * h + 4);
#pragma unroll
                    for (uint t = 0; t < CL_TOKENS; t++)
                        i[t] += scale * (part[t] - cl_offset(type) * s[CL_ROW(a, t) * a->s_stride + h]);
                }
            } else {
                int scale = cl_sub(type, p, panel, block, r);
                cl_dots(part, w, a, q, 0, 8);
#pragma unroll
                for (uint t = 0; t < CL_TOKENS; t++)
                    i[t] += scale * part[t];
            }
        }
        float dw = cl_scale256(type, p, panel, super, r);
        float mw = cl_has_m(type) ? cl_half(panel + p->m + (super * 16 + r) * 2) : 0.0f;
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            float d = a->d[CL_ROW(a, t) * a->d_stride + here];
            float scale = dw * d;
            acc[t] = fma((float)i[t], scale, acc[t]);
        }
        if (!cl_has_m(type))
            continue;
            /* Separate from the loop above: together they would not fit into the registers. */
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++)
            i[t] = 0;
        /* In a kernel for all types 16 by 16, as Q2_K has them: with both loops it spills on acm-g10. */
        const uint all_types = (CL_TYPES & 5ul) == 5ul;
        bool one_loop = (type == CL_Q2_K) | all_types;
        for (uint j = 0; one_loop && j < 16; j++) {
            int by = type == CL_Q2_K ? panel[p->sub + (super * 16 + j) * 16 + r] >> 4
                                     : panel[p->submin + (super * 8 + j / 2) * 16 + r];
            CL_ACT const short *s = a->s + here * 16 + j;
#pragma unroll
            for (uint t = 0; t < CL_TOKENS; t++)
                i[t] += by * s[CL_ROW(a, t) * a->s_stride];
        }
        for (uint j = 0; !one_loop && j < 8; j++) {
            int by = panel[p->submin + (super * 8 + j) * 16 + r];
            CL_ACT const short *s = a->s + here * 16 + j * 2;
#pragma unroll
            for (uint t = 0; t < CL_TOKENS; t++)
                i[t] += by * (s[CL_ROW(a, t) * a->s_stride] + s[CL_ROW(a, t) * a->s_stride + 1]);
        }
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            float minimum = mw * a->d[CL_ROW(a, t) * a->d_stride + here];
            acc[t] = fma(-(float)i[t], minimum, acc[t]);
        }
    }
}

/* acc[t] of columns first .. end. Four at a time where there are four: fewer and wider loads. */
static inline void cl_segment_float(uint type, cl_bytes panel, uint r, uint first, uint end,
                                    const struct cl_act *a, float *acc) {
    uint col = first;
    for (; col + 4 <= end; col += 4) {
        float w[4];
        if (type == CL_BF16) {
            uint low = cl_word(panel + (col / 2 * 16 + r) * 4),
                 high = cl_word(panel + (col / 2 * 16 + 16 + r) * 4);
            w[0] = as_float(low << 16);
            w[1] = as_float(low & 0xffff0000u);
            w[2] = as_float(high << 16);
            w[3] = as_float(high & 0xffff0000u);
        } else {
#pragma unroll
            for (uint c = 0; c < 4; c++)
                w[c] = cl_weight(type, panel, r, col + c);
        }
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            CL_ACT const float *x = (CL_ACT const float *)a->q + CL_ROW(a, t) * a->stride + (col - first);
#pragma unroll
            for (uint c = 0; c < 4; c++)
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

#define CL_CASE32(T)                                                                                         \
    if (CL_HAS(T) && (CL_TYPES == 1ul << (T) || type == (T))) {                                              \
        struct cl_planes p = cl_planes(T, file, cols);                                                       \
        cl_segment32(T, &p, panel, r, first / 32, end / 32, a, acc);                                         \
    }
#define CL_CASE256(T)                                                                                        \
    if (CL_HAS(T) && (CL_TYPES == 1ul << (T) || type == (T))) {                                              \
        struct cl_planes p = cl_planes(T, file, cols);                                                       \
        cl_segment256(T, &p, panel, r, first / 256, end / 256, a, acc);                                      \
    }
#define CL_CASE_FLOAT(T)                                                                                     \
    if (CL_HAS(T) && (CL_TYPES == 1ul << (T) || type == (T)))                                                \
        cl_segment_float(T, panel, r, first, end, a, acc);

/* acc[t] = the sum of segment number `segment` of row r of the panel (cols columns). */
static inline void cl_segment(uint type, uint file, cl_bytes panel, uint cols, uint r, uint segment,
                              const struct cl_act *a, float *acc) {
    uint first = segment * CL_SEGMENT;
    uint end = min(first + CL_SEGMENT, cols);
#if CL_TILES && (CL_TYPES & 5ul) == 5ul
    /* Always cols: a panel is below 4 GiB. But if the compiler knew, it would find the planes of all types
     * before the first segment, and spill them. */
    cols = segment < 1u << 21 ? cols : 0;
#endif
#pragma unroll
    for (uint t = 0; t < CL_TOKENS; t++)
        acc[t] = 0.0f;
    CL_CASE32(CL_Q4_0)
    CL_CASE32(CL_Q4_1)
    CL_CASE32(CL_Q5_0)
    CL_CASE32(CL_Q5_1)
    CL_CASE32(CL_Q8_0)
    CL_CASE32(CL_IQ4_NL)
    CL_CASE32(CL_MXFP4)
    CL_CASE256(CL_Q2_K)
    CL_CASE256(CL_Q3_K)
    CL_CASE256(CL_IQ2_S)
    CL_CASE256(CL_IQ4_XS)
    CL_CASE256(CL_Q4_K)
    CL_CASE256(CL_Q5_K)
    CL_CASE256(CL_Q6_K)
    CL_CASE_FLOAT(CL_F32)
    CL_CASE_FLOAT(CL_F16)
    CL_CASE_FLOAT(CL_BF16)
}

#endif
