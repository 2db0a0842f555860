/* cl_dot.h's segments for the matrix engine (dpas): integer sums of 8 rows of activations by the rows of a
 * panel, which a sub-group has together: item i row i, in sub-groups of 8 also row i + 8 (its half 1). What
 * the engine multiplies is loaded by the sub-group as one block (cl_intel_subgroups), so that it lies in
 * registers as the engine reads it: activations are staged 32-block by 32-block, in each row by row, and the
 * words of a panel lie that way anyway. An item has two vectors of 8 sums: of 16 rows of activations, or of 8
 * by two rows of weights. They are named one by one, as compilers make memory of what loops go through. */
#ifndef STATOR_KERNELS_OPENCL_CL_DPAS_H
#define STATOR_KERNELS_OPENCL_CL_DPAS_H

#define CL_GIVEN __attribute__((overloadable))
CL_GIVEN uint intel_sub_group_block_read(const global uint *);
CL_GIVEN uint2 intel_sub_group_block_read2(const global uint *);
CL_GIVEN uint4 intel_sub_group_block_read4(const global uint *);
CL_GIVEN uint8 intel_sub_group_block_read8(const global uint *);

/* F(n) for each vector of sums, 8 rows of activations (part), half of the weights' rows; which those of
 * vector n are. */
#define CL_ONCE(F)  F(0)
#define CL_TWICE(F) F(0) F(1)
#define CL_FOUR(F)  F(0) F(1) F(2) F(3)
#define CL_EIGHT(F) CL_FOUR(F) F(4) F(5) F(6) F(7)
#if CL_ACCS == 8
#define CL_EACH CL_EIGHT
#elif CL_ACCS == 4
#define CL_EACH CL_FOUR
#elif CL_ACCS == 2
#define CL_EACH CL_TWICE
#else
#define CL_EACH CL_ONCE
#endif
#if CL_SUB_GROUP == 8
typedef int8 cl_rows8; /* 8 rows of 32 bytes over the sub-group: item i has bytes 4i .. 4i + 3 of each */
CL_GIVEN uint8 intel_sub_group_block_read8(const local uint *);
CL_GIVEN ushort2 intel_sub_group_block_read_us2(const global ushort *);
#define CL_ROWS8(q)  as_int8(intel_sub_group_block_read8((local const uint *)(q)))
#define CL_PART(n)   0
#define CL_EACH_PART CL_ONCE
#define CL_HALF(n)   n
#define CL_EACH_HALF CL_TWICE
/* Of words that lie half by half in turn those of half h. */
#define CL_WORDS(x, h) ((h) ? (x).odd : (x).even)
#else
typedef short8 cl_rows8; /* item i has bytes 2i, 2i + 1 of each */
CL_GIVEN ushort8 intel_sub_group_block_read_us8(const local ushort *);
CL_GIVEN ushort intel_sub_group_block_read_us(const global ushort *);
CL_GIVEN uchar8 intel_sub_group_block_read_uc8(const global uchar *);
#define CL_ROWS8(q) as_short8(intel_sub_group_block_read_us8((local const ushort *)(q)))
#define CL_PARTS    (CL_TOKENS / 8)
#if CL_PARTS == 8
#define CL_EACH_PART CL_EIGHT
#elif CL_PARTS == 4
#define CL_EACH_PART CL_FOUR
#else
#define CL_EACH_PART CL_TWICE
#endif
#if CL_ROWS == 2
#define CL_EACH_ROW CL_TWICE
#else
#define CL_EACH_ROW CL_ONCE
#endif
#define CL_WORDS(x, h) ((x).lo)
#endif
CL_GIVEN int8 intel_sub_group_i8_i8_matrix_mad_k32(cl_rows8, int8, int8);

/* Sums of activations, as parts that are bytes: high << CL_PLANE + low (cl_stage_planes). Q2_K's are of 16
 * values, the others' of 32. */
#define CL_PLANE(type) ((type) == CL_Q2_K ? 4 : 6)

/* 0 that compilers don't know to be 0. */
#define CL_ZERO_OF(p) ((p)->file & 0xffff8000u)

/* Words of a 32-block as they lie: of low bits (Q8_0 all), of high bits; those of two halves in turn. */
struct cl_raw {
    uint8 low, more;
    uint4 high;
};

static inline struct cl_raw cl_load(uint type, const struct cl_planes *p, cl_bytes panel, uint block) {
    struct cl_raw w;
    global const uint *low = (global const uint *)(panel + block * (64 * cl_low_bits(type)));
    global const uint *high = (global const uint *)(panel + p->high + block * (64 * cl_high_bits(type)));
    if (type == CL_Q8_0) {
        w.low = intel_sub_group_block_read8(low);
#if CL_SUB_GROUP == 8
        w.more = intel_sub_group_block_read8(low + 64);
#endif
        return w;
    }
#if CL_SUB_GROUP == 8
    if (cl_low_bits(type) == 2)
        w.low.lo = intel_sub_group_block_read4(low);
    else
        w.low = intel_sub_group_block_read8(low);
    if (cl_high_bits(type) == 1)
        w.high.lo = intel_sub_group_block_read2(high);
    else if (cl_high_bits(type) == 2)
        w.high = intel_sub_group_block_read4(high);
#else
    if (cl_low_bits(type) == 2)
        w.low.s01 = intel_sub_group_block_read2(low);
    else
        w.low.lo = intel_sub_group_block_read4(low);
    if (cl_high_bits(type) == 1)
        w.high.x = intel_sub_group_block_read(high);
    else if (cl_high_bits(type) == 2)
        w.high.lo = intel_sub_group_block_read2(high);
#endif
    return w;
}

/* Of K types whose integers are bytes less an offset, the bytes multiplied here are the integers times a
 * power of 2, by which their sums are divided: no sum of activations is needed then. */
static inline uint cl_shift(uint type) {
    return type == CL_Q6_K ? 2 : type == CL_Q3_K ? 5 : 0;
}

/* Byte `at` of a word, four times; of four pairs of them the bytes that bit 0 of the indices says. */
static inline uint cl_same(uint word, uint at) {
    return (word >> 8 * at & 255) * 0x01010101u;
}
static inline uint cl_choose(uint a, uint b, uint second) {
    return a ^ ((a ^ b) & second);
}

/* cl_look_up, four bytes at once: bit by bit of the indices, of which masks are made. */
static inline uint cl_look_up4(uint type, uint4 table, uint w) {
    uint m0 = (w & 0x01010101u) * 255, m1 = (w >> 1 & 0x01010101u) * 255, m2 = (w >> 2 & 0x01010101u) * 255;
#define CL_PAIR(word, at) cl_choose(cl_same(word, at), cl_same(word, (at) + 1), m0)
#define CL_OF_FOUR(word)  cl_choose(CL_PAIR(word, 0), CL_PAIR(word, 2), m1)
    uint low = cl_choose(CL_OF_FOUR(table.x), CL_OF_FOUR(table.y), m2);
    if (type == CL_IQ2_S)
        return low;
    uint high = cl_choose(CL_OF_FOUR(table.z), CL_OF_FOUR(table.w), m2);
    return cl_choose(low, high, (w >> 3 & 0x01010101u) * 255);
#undef CL_PAIR
#undef CL_OF_FOUR
}

/* cl_look_up of MXFP4 for eight indices in each word, as long as they are in four bits each: what goes with a
 * value in the low half of a byte, then in the high half. The size is below 16; of a negative value, whose
 * sign has 15 here, it becomes 15 less the size. */
static inline uint8 cl_mxfp4(uint4 w) {
    uint4 x = w & 0x77777777u, above = w & 0x44444444u, sign = w & 0x88888888u;
    uint4 y = x & (above - (above >> 2)), both = y & y >> 1;
    uint4 size = x + y + (both << 1), signs = (sign << 1) - (sign >> 3);
    size ^= signs;
    uint8 out;
    out.lo = (size & 0x0F0F0F0Fu) + 0x0C0C0C0Cu - (signs & 0x0F0F0F0Fu);
    out.hi = (size >> 4 & 0x0F0F0F0Fu) + 0x0C0C0C0Cu - (signs >> 4 & 0x0F0F0F0Fu);
    return out;
}

/* The bytes of half h's row that are multiplied. */
static inline int8 cl_words(uint type, uint file, const struct cl_raw *raw, uint h) {
    (void)file, (void)h;
#if CL_SUB_GROUP == 8
    if (type == CL_Q8_0)
        return h ? (int8)(raw->low.s1, raw->low.s3, raw->low.s5, raw->low.s7, raw->more.s1, raw->more.s3,
                          raw->more.s5, raw->more.s7)
                 : (int8)(raw->low.s0, raw->low.s2, raw->low.s4, raw->low.s6, raw->more.s0, raw->more.s2,
                          raw->more.s4, raw->more.s6);
#else
    if (type == CL_Q8_0)
        return as_int8(raw->low);
#endif
    uint8 w;
    if (type == CL_MXFP4)
        return as_int8(cl_mxfp4(CL_WORDS(raw->low, h)));
    if (type == CL_Q6_K) {
        uint4 x = CL_WORDS(raw->low, h);
        uint2 y = CL_WORDS(raw->high, h) ^ 0xAAAAAAAAu;
        w.lo = x << 2 & 0x3C3C3C3Cu;
        w.hi = x >> 2 & 0x3C3C3C3Cu;
        w.s0 |= y.x << 6 & 0xC0C0C0C0u, w.s4 |= y.y << 6 & 0xC0C0C0C0u;
        w.s1 |= y.x << 4 & 0xC0C0C0C0u, w.s5 |= y.y << 4 & 0xC0C0C0C0u;
        w.s2 |= y.x << 2 & 0xC0C0C0C0u, w.s6 |= y.y << 2 & 0xC0C0C0C0u;
        w.s3 |= y.x & 0xC0C0C0C0u, w.s7 |= y.y & 0xC0C0C0C0u;
        return as_int8(w);
    }
    if (type == CL_Q3_K) {
        uint2 x = CL_WORDS(raw->low.lo, h);
        uint y = ~(CL_WORDS(raw->high.lo, h));
        w.s0 = (x.x << 5 & 0x60606060u) | (y << 7 & 0x80808080u);
        w.s1 = (x.x << 3 & 0x60606060u) | (y << 6 & 0x80808080u);
        w.s2 = (x.x << 1 & 0x60606060u) | (y << 5 & 0x80808080u);
        w.s3 = (x.x >> 1 & 0x60606060u) | (y << 4 & 0x80808080u);
        w.s4 = (x.y << 5 & 0x60606060u) | (y << 3 & 0x80808080u);
        w.s5 = (x.y << 3 & 0x60606060u) | (y << 2 & 0x80808080u);
        w.s6 = (x.y << 1 & 0x60606060u) | (y << 1 & 0x80808080u);
        w.s7 = (x.y >> 1 & 0x60606060u) | (y & 0x80808080u);
        return as_int8(w);
    }
    if (cl_low_bits(type) == 2) {
        uint2 x = CL_WORDS(raw->low.lo, h);
        w.lo = (uint4)(x.x) >> (uint4)(0, 2, 4, 6) & 0x03030303u;
        w.hi = (uint4)(x.y) >> (uint4)(0, 2, 4, 6) & 0x03030303u;
    } else {
        uint4 x = CL_WORDS(raw->low, h);
        w.lo = x & 0x0F0F0F0Fu;
        w.hi = x >> 4 & 0x0F0F0F0Fu;
    }
    if (cl_high_bits(type) == 1) {
        uint x = CL_WORDS(raw->high.lo, h);
        w |= ((uint8)(x) >> (uint8)(0, 1, 2, 3, 4, 5, 6, 7) & 0x01010101u) << cl_low_bits(type);
    }
    if (cl_high_bits(type) == 2) {
        uint2 x = CL_WORDS(raw->high, h);
        w.lo |= ((uint4)(x.x) >> (uint4)(0, 2, 4, 6) & 0x03030303u) << 4;
        w.hi |= ((uint4)(x.y) >> (uint4)(0, 2, 4, 6) & 0x03030303u) << 4;
    }
#if CL_ANY_TABLE
    if (cl_is_table(type)) {
        uint4 table = cl_integers(type, file);
        w.s0 = cl_look_up4(type, table, w.s0), w.s1 = cl_look_up4(type, table, w.s1);
        w.s2 = cl_look_up4(type, table, w.s2), w.s3 = cl_look_up4(type, table, w.s3);
        w.s4 = cl_look_up4(type, table, w.s4), w.s5 = cl_look_up4(type, table, w.s5);
        w.s6 = cl_look_up4(type, table, w.s6), w.s7 = cl_look_up4(type, table, w.s7);
    }
#endif
    return as_int8(w);
}

/* Numbers `here` of the 8 rows `part`. */
static inline float8 cl_scales(const struct cl_act *a, uint here, uint part) {
    return *(local const float8 *)(a->d + here * a->d_stride + 8 * part);
}

static inline short8 cl_totals(const struct cl_act *a, uint here, uint part) {
    return *(local const short8 *)(a->s + here * a->s_stride + 8 * part);
}

/* Number `at` of a plane of floats of 16 bits, of half h's row. */
static inline float cl_number(cl_bytes plane, uint at, uint h) {
#if CL_SUB_GROUP == 8
    ushort2 both = intel_sub_group_block_read_us2((global const ushort *)(plane + at * 32));
    return (float)as_half((ushort)(h ? both.y : both.x));
#else
    (void)h;
    return (float)as_half(intel_sub_group_block_read_us((global const ushort *)(plane + at * 32)));
#endif
}

/* Of a 32-block: 8 rows of activations, and a row of weights of a 32-value type. */
struct cl_part32 {
    cl_rows8 rows;
    float8 d;
    int8 less; /* the sums of their bytes * -cl_offset, by the engine too: no number of theirs is needed */
    short8 s;
};
struct cl_row32 {
    int8 w;
    float d, m;
};

static inline struct cl_part32 cl_part32(uint type, const struct cl_act *a, uint here, uint part,
                                         int8 minus) {
    struct cl_part32 x;
    x.rows = CL_ROWS8(a->q + here * CL_ACT_BLOCK + part * 256);
    x.d = cl_scales(a, here, part);
    x.less = 0;
    if (cl_offset(type) != 0)
        x.less = intel_sub_group_i8_i8_matrix_mad_k32(x.rows, minus, x.less);
    x.s = 0;
    if (cl_has_m(type))
        x.s = cl_totals(a, here, part);
    return x;
}

static inline struct cl_row32 cl_row32(uint type, const struct cl_planes *p, cl_bytes panel, uint r,
                                       uint block, const struct cl_raw *raw, uint h) {
    struct cl_row32 x;
    x.w = cl_words(type, p->file, raw, h);
    x.d = type == CL_MXFP4 ? cl_scale32(type, panel + p->d, block, r + 8 * h)
                           : cl_number(panel + p->d, block, h);
    x.m = cl_has_m(type) ? cl_number(panel + p->m, block, h) : 0.0f;
    return x;
}

static inline float8 cl_add32(uint type, const struct cl_part32 *part, const struct cl_row32 *row,
                              float8 acc) {
    float8 scale = row->d * part->d;
    int8 i = intel_sub_group_i8_i8_matrix_mad_k32(part->rows, row->w, part->less);
    acc = fma(convert_float8(i), scale, acc);
    if (cl_has_m(type)) {
        float8 least = row->m * part->d;
        acc = fma(convert_float8(part->s), least, acc);
    }
    return acc;
}

/* Byte r of 16, as a number of 16 bits, of which compilers don't know that it has 8: IGC then multiplies by
 * it in one instruction, not two, and on acm-g10 adds in the same. */
static inline short cl_byte(const struct cl_planes *p, cl_bytes at, uint r, bool is_signed) {
    int x = is_signed ? (int)(char)at[r] : (int)at[r];
    return (short)(x | (int)(p->file & 0x8000u));
}

/* cl_sub */
static inline short cl_sub16(uint type, const struct cl_planes *p, cl_bytes panel, uint at, uint r) {
    if (type == CL_IQ2_S) {
        short both = cl_byte(p, panel + p->sub + at / 2 * 16, r, false);
        return (short)(((at % 2 == 0 ? both << 1 : both >> 3) & 30) | 1);
    }
    short sub = cl_byte(p, panel + p->sub + at * 16, r, !cl_has_m(type));
    return type == CL_Q2_K ? (short)(sub & 15) : sub;
}

/* Of a 32-block a row of weights of a K type: two scales where each is of 16 values. */
struct cl_row256 {
    int8 w;
    short scale, more;
};

static inline int8 cl_add256(uint type, cl_rows8 rows, const struct cl_row256 *row, int8 i) {
    int8 sum;
    if (cl_subs(type) == 8) {
        sum = intel_sub_group_i8_i8_matrix_mad_k32(rows, row->w, (int8)(0));
        return i + sum * (int)row->scale;
    }
    sum = intel_sub_group_i8_i8_matrix_mad_k32(rows, (int8)(row->w.lo, (int4)(0)), (int8)(0));
    i += sum * (int)row->scale;
    sum = intel_sub_group_i8_i8_matrix_mad_k32(rows, (int8)((int4)(0), row->w.hi), (int8)(0));
    return i + sum * (int)row->more;
}

#if CL_SUB_GROUP == 8
#include "kernels/opencl/cl_narrow.h"
#else
#include "kernels/opencl/cl_wide.h"
#endif

#endif
