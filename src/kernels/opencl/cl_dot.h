/* One segment of a sum over k: a row of CL_ROWS panels times up to CL_TOKENS rows of activations. The
 * includer sets, before this file:
 * - CL_TOKENS: rows of activations that a work item has sums for
 * - CL_ROWS: rows of weights, each of another panel, that it has them for: sum [row * CL_TOKENS + token]
 * - CL_ACT: global or local: where the activations are
 * - CL_SUB_GROUP: 0, or the sub-group size of the matrix engine's instructions (8 or 16; CL_TOKENS: n * 8)
 * - CL_FEW: 1: few tokens, as cl_few.h does it, or with the matrix engine matmul_dealt.cl
 * - CL_AHEAD: 1; or 2, 4 or 8: how many 32-blocks of a row are loaded at once (CL_TOKENS is 1)
 * - CL_TYPES: which weight types: a mask, bit enum block_type
 * Types become constants in a switch, so that each has its own loop; a kernel for one type has no switch. */
#ifndef STATOR_KERNELS_OPENCL_CL_DOT_H
#define STATOR_KERNELS_OPENCL_CL_DOT_H

#include "kernels/opencl/cl_panel.h"

#define CL_SUMS (CL_ROWS * CL_TOKENS)
#if CL_SUB_GROUP
#define CL_ACCS (CL_SUMS / 8 * 16 / CL_SUB_GROUP)
typedef float8 cl_acc;
#else
#define CL_ACCS CL_SUMS
typedef float cl_acc;
#define CL_EACH(F)                                                                                           \
    _Pragma("unroll") for (uint n = 0; n < CL_ACCS; n++) {                                                   \
        F(n)                                                                                                 \
    }
#endif
#define CL_SEGMENT 512
/* Columns that a group stages at a time. */
#define CL_STAGED     (CL_SUB_GROUP == 16 ? OPENCL_WIDE_STEP : CL_SEGMENT)
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
 * groups, sums of values. Row t of the values is at t * stride (in elements), beginning with the segment's
 * first. Scale or sum i of row t is at t * d_stride + i; in local memory (CL_TILES) at i * d_stride + t, so
 * that those of several rows are loaded at once. For the matrix engine with sub-groups of 16 `stride` is from
 * one 32-block to the next, and sums of K types lie like the values, in a block for each 256. */
struct cl_act {
    CL_ACT const uchar *q; /* or floats */
    CL_ACT const float *d;
    CL_ACT const short *s;
    uint stride, d_stride, s_stride;
    uint last; /* rows after this one are not there: it is read in their place */
};

/* Bytes between 32-blocks of a row; tiles lie block by block. */
#define CL_ACT_BLOCK (CL_TILES ? 32 * CL_TILE_TOKENS : 32)
#if !CL_TILES
#define CL_TILE_TOKENS 1
#endif

#define CL_ROW(a, t) (CL_TOKENS == 1 ? 0 : min((uint)(t), (a)->last))

#if CL_SUB_GROUP
#include "kernels/opencl/cl_dpas.h"
#else

/* Rows that go together through what is made of a block's integer sums, and F(first row) for each such part,
 * with constants: left to the compiler, the loop may stay one. */
#if !CL_TILES && CL_TOKENS == 8
/* Of few tokens, those that are not there are left out, in pairs: a step that tests 4 draft tokens has 5 of
 * one sequence. */
#define CL_PART 2
#define CL_EACH_PART(F)                                                                                      \
    F(0)                                                                                                     \
    if (a->last > 1) {                                                                                       \
        F(2)                                                                                                 \
    }                                                                                                        \
    if (a->last > 3) {                                                                                       \
        F(4)                                                                                                 \
        if (a->last > 5) {                                                                                   \
            F(6)                                                                                             \
        }                                                                                                    \
    }
#else
#define CL_PART         CL_TOKENS
#define CL_EACH_PART(F) F(0)
#endif

/* Scale number `here` of row t; sum. Where few registers are left they are loaded one by one, where they are
 * used; else several at once, by cl_scales and cl_totals, beforehand. */
#if !CL_TILES
#define CL_SCALE(a, here, t) (a)->d[CL_ROW(a, t) * (a)->d_stride + (here)]
#define CL_TOTAL(a, here, t) (a)->s[CL_ROW(a, t) * (a)->s_stride + (here)]
#else
#define CL_SCALE(a, here, t) (a)->d[(here) * (a)->d_stride + (t)]
#define CL_TOTAL(a, here, t) (a)->s[(here) * (a)->s_stride + (t)]
#endif
#define CL_MANY_AT_ONCE (CL_TILES && CL_PART % 8 == 0 && CL_TYPES != 1ul << CL_Q5_0)
#if CL_MANY_AT_ONCE
#define CL_D(d, a, here, t, k) d[k]
#define CL_S(s, a, here, t, k) s[k]
#else
#define CL_D(d, a, here, t, k) CL_SCALE(a, here, (t) + (k))
#define CL_S(s, a, here, t, k) CL_TOTAL(a, here, (t) + (k))
#endif

static inline void cl_scales(const struct cl_act *a, uint here, uint t, float *d) {
    (void)a, (void)here, (void)t, (void)d;
#if CL_MANY_AT_ONCE
#pragma unroll
    for (uint k = 0; k < CL_PART; k += 4) {
        float4 four = *(CL_ACT const float4 *)&CL_SCALE(a, here, t + k);
        d[k] = four.x, d[k + 1] = four.y, d[k + 2] = four.z, d[k + 3] = four.w;
    }
#endif
}

static inline void cl_totals(const struct cl_act *a, uint here, uint t, int *s) {
    (void)a, (void)here, (void)t, (void)s;
#if CL_MANY_AT_ONCE
#pragma unroll
    for (uint k = 0; k < CL_PART; k += 4) {
        short4 four = *(CL_ACT const short4 *)&CL_TOTAL(a, here, t + k);
        s[k] = four.x, s[k + 1] = four.y, s[k + 2] = four.z, s[k + 3] = four.w;
    }
#endif
}

/* i[row * CL_PART + k] = sum over 32 values (or half of them: first or last 16) of w * the activations of row
 * first + k at q; w: eight words of each row of weights. */
static inline void cl_dots(int *i, const uint *w, const struct cl_act *act, CL_ACT const uchar *q, uint first,
                           uint begin, uint end) {
#pragma unroll
    for (uint t = 0; t < CL_PART; t++) {
        CL_ACT const uint4 *a = (CL_ACT const uint4 *)(q + CL_ROW(act, first + t) * act->stride);
        uint4 x = 0, y = 0;
        if (begin == 0)
            x = a[0];
        if (end == 8)
            y = a[1];
#pragma unroll
        for (uint row = 0; row < CL_ROWS; row++) {
            const uint *words = w + 8 * row;
            int sum = 0;
            if (begin == 0)
                sum += dot(as_char4(words[0]), as_char4(x.x)) + dot(as_char4(words[1]), as_char4(x.y)) +
                       dot(as_char4(words[2]), as_char4(x.z)) + dot(as_char4(words[3]), as_char4(x.w));
            if (end == 8)
                sum += dot(as_char4(words[4]), as_char4(y.x)) + dot(as_char4(words[5]), as_char4(y.y)) +
                       dot(as_char4(words[6]), as_char4(y.z)) + dot(as_char4(words[7]), as_char4(y.w));
            i[row * CL_PART + t] = sum;
        }
    }
}

static inline float cl_weight(uint type, cl_bytes panel, uint r, uint col) {
    struct cl_planes none; /* has no planes */
    return cl_decode(type, &none, panel, r, col);
}

#ifdef CL_FEW
#include "kernels/opencl/cl_few.h"
#elif CL_AHEAD > 1
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

/* acc of rows t .. t + CL_PART of activations, block `block`, which is number `here` of the segment. */
static inline void cl_add32(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r, uint block,
                            const uint *w, uint here, uint t, const struct cl_act *a, float *acc) {
    int i[CL_ROWS * CL_PART], s[CL_PART];
    float d[CL_PART];
    cl_dots(i, w, a, a->q + here * CL_ACT_BLOCK, t, 0, 8);
    cl_scales(a, here, t, d);
    cl_totals(a, here, t, s);
#pragma unroll
    for (uint row = 0; row < CL_ROWS; row++) {
        float dw = cl_scale32(type, panel[row] + p->d, block, r);
        float mw = cl_has_m(type) ? cl_half(panel[row] + p->m + (block * 16 + r) * 2) : 0.0f;
#pragma unroll
        for (uint k = 0; k < CL_PART; k++) {
            float *to = acc + row * CL_TOKENS + t + k;
            float by = CL_D(d, a, here, t, k);
            int sum = CL_S(s, a, here, t, k);
            float scale = dw * by;
            *to = fma((float)(i[row * CL_PART + k] - cl_offset(type) * sum), scale, *to);
            if (cl_has_m(type)) {
                float least = mw * by;
                *to = fma((float)sum, least, *to);
            }
        }
    }
}

/* acc of blocks first .. end of a 32-value type. */
static inline void cl_segment32(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r,
                                uint first, uint end, const struct cl_act *a, float *acc) {
    for (uint block = first; block < end; block++) {
        uint w[8 * CL_ROWS];
#pragma unroll
        for (uint row = 0; row < CL_ROWS; row++)
            cl_words(type, p, panel[row], r, block, w + 8 * row);
#define CL_ADD(t) cl_add32(type, p, panel, r, block, w, block - first, t, a, acc);
        CL_EACH_PART(CL_ADD)
#undef CL_ADD
    }
}

/* i += of rows t .. t + CL_PART of activations, block `block`, which is number `here` of the segment. */
static inline void cl_add256(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r, uint block,
                             const uint *w, uint here, uint t, const struct cl_act *a, int *i) {
    const uint halves = cl_subs(type) / 8;
#pragma unroll
    for (uint h = 0; h < halves; h++) {
        int part[CL_ROWS * CL_PART], s[CL_PART];
        cl_dots(part, w, a, a->q + here * CL_ACT_BLOCK, t, 4 * h, halves == 2 ? 4 * h + 4 : 8);
        if (cl_offset(type) != 0)
            cl_totals(a, here * 2 + h, t, s);
#pragma unroll
        for (uint row = 0; row < CL_ROWS; row++) {
            int scale = cl_sub(type, p, panel[row], block * halves + h, r);
#pragma unroll
            for (uint k = 0; k < CL_PART; k++) {
                int sum = part[row * CL_PART + k];
                if (cl_offset(type) != 0)
                    sum -= cl_offset(type) * CL_S(s, a, here * 2 + h, t, k);
                i[row * CL_TOKENS + t + k] += scale * sum;
            }
        }
    }
}

/* i += of minima number j of the rows, by[..]; by 16 or by 32 values. */
static inline void cl_add_least(const int *by, uint here, uint j, bool by_16, uint t, const struct cl_act *a,
                                int *i) {
    int s[CL_PART], more[CL_PART];
    uint at = here * 16 + (by_16 ? j : j * 2);
    cl_totals(a, at, t, s);
    if (!by_16)
        cl_totals(a, at + 1, t, more);
#pragma unroll
    for (uint n = 0; n < CL_ROWS * CL_PART; n++) {
        int sum = CL_S(s, a, at, t, n % CL_PART);
        if (!by_16)
            sum += CL_S(more, a, at + 1, t, n % CL_PART);
        i[n / CL_PART * CL_TOKENS + t + n % CL_PART] += by[n / CL_PART] * sum;
    }
}

/* acc = fma(i, w * the activations' scale, acc); minus: -i. */
static inline void cl_add_scaled(const int *i, const float *w, bool minus, uint here, uint t,
                                 const struct cl_act *a, float *acc) {
    float d[CL_PART];
    cl_scales(a, here, t, d);
#pragma unroll
    for (uint n = 0; n < CL_ROWS * CL_PART; n++) {
        uint at = n / CL_PART * CL_TOKENS + t + n % CL_PART;
        float scale = w[n / CL_PART] * CL_D(d, a, here, t, n % CL_PART);
        acc[at] = fma(minus ? -(float)i[at] : (float)i[at], scale, acc[at]);
    }
}

/* i = of all blocks of super block `super`, which is number `here` of the segment. */
static inline void cl_super256(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r,
                               uint super, uint here, const struct cl_act *a, int *i) {
#pragma unroll
    for (uint t = 0; t < CL_SUMS; t++)
        i[t] = 0;
    uint blocks = 8;
#if CL_TILES && CL_TYPES == 1ul << CL_Q5_K
    blocks = super < 1u << 21 ? 8 : 0; /* always 8; if IGC knew, it would unroll the loop and spill */
#endif
    for (uint j = 0; j < blocks; j++) {
        uint block = super * 8 + j, w[8 * CL_ROWS];
#pragma unroll
        for (uint row = 0; row < CL_ROWS; row++)
            cl_words(type, p, panel[row], r, block, w + 8 * row);
#define CL_ADD(t) cl_add256(type, p, panel, r, block, w, here * 8 + j, t, a, i);
        CL_EACH_PART(CL_ADD)
#undef CL_ADD
    }
}

/* i = of all its minima. */
static inline void cl_least256(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r,
                               uint super, uint here, const struct cl_act *a, int *i) {
    /* In a kernel for all types 16 by 16, as Q2_K has them: with both loops it spills on acm-g10. */
    const uint all_types = CL_OF_ALL;
    bool by_16 = (type == CL_Q2_K) | all_types;
#pragma unroll
    for (uint t = 0; t < CL_SUMS; t++)
        i[t] = 0;
    for (uint j = 0; j < (by_16 ? 16 : 8); j++) {
        int by[CL_ROWS];
#pragma unroll
        for (uint row = 0; row < CL_ROWS; row++)
            by[row] = type == CL_Q2_K ? panel[row][p->sub + (super * 16 + j) * 16 + r] >> 4
                                      : panel[row][p->submin + (super * 8 + (by_16 ? j / 2 : j)) * 16 + r];
#define CL_ADD(t) cl_add_least(by, here, j, by_16, t, a, i);
        CL_EACH_PART(CL_ADD)
#undef CL_ADD
    }
}

/* acc of super blocks first .. end of a K type. */
static inline void cl_segment256(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r,
                                 uint first, uint end, const struct cl_act *a, float *acc) {
    for (uint super = first; super < end; super++) {
        uint here = super - first;
        int i[CL_SUMS];
        float w[CL_ROWS];
        cl_super256(type, p, panel, r, super, here, a, i);
#pragma unroll
        for (uint row = 0; row < CL_ROWS; row++)
            w[row] = cl_scale256(type, p, panel[row], super, r);
#define CL_ADD(t) cl_add_scaled(i, w, false, here, t, a, acc);
        CL_EACH_PART(CL_ADD)
#undef CL_ADD
        if (!cl_has_m(type))
            continue;
        /* Separate from the loop above: together they would not fit into the registers. */
        cl_least256(type, p, panel, r, super, here, a, i);
#pragma unroll
        for (uint row = 0; row < CL_ROWS; row++)
            w[row] = cl_half(panel[row] + p->m + (super * 16 + r) * 2);
#define CL_ADD(t) cl_add_scaled(i, w, true, here, t, a, acc);
        CL_EACH_PART(CL_ADD)
#undef CL_ADD
    }
}

/* acc of rows t .. t + CL_PART of activations: of four columns, the first of which is `at` of the segment. */
static inline void cl_add_floats(float4 w, uint at, uint t, const struct cl_act *a, float *acc) {
#pragma unroll
    for (uint k = 0; k < CL_PART; k++) {
        CL_ACT const float *x = (CL_ACT const float *)a->q + CL_ROW(a, t + k) * a->stride + at;
        float sum = fma(w.x, x[0], acc[t + k]);
        sum = fma(w.y, x[1], sum);
        sum = fma(w.z, x[2], sum);
        acc[t + k] = fma(w.w, x[3], sum);
    }
}

/* Weights of columns col .. + 4. */
static inline float4 cl_four_weights(uint type, cl_bytes panel, uint r, uint col) {
    if (type == CL_BF16) {
        uint low = cl_word(panel + (col / 2 * 16 + r) * 4),
             high = cl_word(panel + (col / 2 * 16 + 16 + r) * 4);
        return (float4)(as_float(low << 16), as_float(low & 0xffff0000u), as_float(high << 16),
                        as_float(high & 0xffff0000u));
    }
    return (float4)(cl_weight(type, panel, r, col), cl_weight(type, panel, r, col + 1),
                    cl_weight(type, panel, r, col + 2), cl_weight(type, panel, r, col + 3));
}

/* acc[t] of columns first .. end (CL_ROWS is 1). Four at a time where there are four: fewer and wider loads.
 * Of tiles the loads of 16 come before the first is used: a router is small, and all waiting. */
static inline void cl_segment_float(uint type, cl_bytes panel, uint r, uint first, uint end,
                                    const struct cl_act *a, float *acc) {
    uint col = first;
#define CL_ADD(t) cl_add_floats(w, col - first, t, a, acc);
#if CL_TILES && (CL_TYPES & (CL_TYPES - 1ul)) == 0
    while (col + 16 <= end) {
        float4 w0 = cl_four_weights(type, panel, r, col), w1 = cl_four_weights(type, panel, r, col + 4);
        float4 w2 = cl_four_weights(type, panel, r, col + 8), w3 = cl_four_weights(type, panel, r, col + 12);
#define CL_FOUR(four)                                                                                        \
    {                                                                                                        \
        float4 w = four;                                                                                     \
        CL_EACH_PART(CL_ADD)                                                                                 \
        col += 4;                                                                                            \
    }
        CL_FOUR(w0)
        CL_FOUR(w1)
        CL_FOUR(w2)
        CL_FOUR(w3)
#undef CL_FOUR
    }
#endif
    for (; col + 4 <= end; col += 4) {
        float4 w = cl_four_weights(type, panel, r, col);
        CL_EACH_PART(CL_ADD)
    }
#undef CL_ADD
    for (; col < end; col++) {
        float w = cl_weight(type, panel, r, col);
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++)
            acc[t] = fma(w, ((CL_ACT const float *)a->q)[CL_ROW(a, t) * a->stride + (col - first)], acc[t]);
    }
}

#endif
#endif

#if !defined CL_FEW && (CL_AHEAD > 1 || CL_SUB_GROUP == 8) /* one row */
#define CL_PANEL(panel) (panel)[0]
#else
#define CL_PANEL(panel) (panel)
#endif

/* What a segment is given: its first 32-block or super block, and the end; for the matrix engine with
 * sub-groups of 16 how many, in terms that IGC sees to be one number for all items. */
#if CL_SUB_GROUP == 16
#define CL_BLOCKS(n) step *(CL_STAGED / (n)), min((uint)CL_STAGED / (n), cols / (n)-step * (CL_STAGED / (n)))
#else
#define CL_BLOCKS(n) first / (n), end / (n)
#endif

#define CL_CASE32(T)                                                                                         \
    if (CL_HAS(T) && (CL_TYPES == 1ul << (T) || type == (T))) {                                              \
        struct cl_planes p = cl_planes(T, file, cols);                                                       \
        cl_segment32(T, &p, CL_PANEL(panel), r, CL_BLOCKS(32), a, acc);                                      \
    }
#define CL_CASE256(T)                                                                                        \
    if (CL_HAS(T) && (CL_TYPES == 1ul << (T) || type == (T))) {                                              \
        struct cl_planes p = cl_planes(T, file, cols);                                                       \
        cl_segment256(T, &p, CL_PANEL(panel), r, CL_BLOCKS(256), a, acc);                                    \
    }
#ifdef CL_FEW /* no floats */
#define CL_CASE_FLOAT(T)
#else
#define CL_CASE_FLOAT(T)                                                                                     \
    if (CL_HAS(T) && (CL_TYPES == 1ul << (T) || type == (T)))                                                \
        cl_segment_float(T, panel[0], r, first, end, a, acc);
#endif

/* acc = the sums of segment number `segment` of row r of the panels (cols columns). For the matrix engine
 * with sub-groups of 16, acc += those of step number `step`, of which a segment has two. */
#if CL_SUB_GROUP == 16
static inline void cl_step(uint type, uint file, const cl_bytes *panel, uint cols, uint r, uint step,
                           const struct cl_act *a, cl_acc *acc) {
#else
static inline void cl_segment(uint type, uint file, const cl_bytes *panel, uint cols, uint r, uint segment,
                              const struct cl_act *a, cl_acc *acc) {
    uint first = segment * CL_SEGMENT;
    uint end = min(first + CL_SEGMENT, cols);
#endif
#if CL_TILES && CL_OF_ALL
    /* Always cols: a panel is below 4 GiB. But if the compiler knew, it would find the planes of all types
     * before the first segment, and spill them. */
    cols = segment < 1u << 21 ? cols : 0;
#endif
#if CL_SUB_GROUP != 16
#define CL_ZERO(n) acc[n] = 0.0f;
    CL_EACH(CL_ZERO)
#undef CL_ZERO
#endif
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
#if !CL_SUB_GROUP
    CL_CASE_FLOAT(CL_F32)
    CL_CASE_FLOAT(CL_F16)
    CL_CASE_FLOAT(CL_BF16)
#endif
}

#endif
