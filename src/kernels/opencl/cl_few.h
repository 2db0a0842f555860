/* cl_dot.h's segments for few tokens (weights of integers, not of all types): two rows meet each load of
 * activations, and the next block's weights are in flight while one is multiplied. What is done for each row
 * and token is written out: of loops and arrays IGC makes loops and memory. */
#ifndef STATOR_KERNELS_OPENCL_CL_FEW_H
#define STATOR_KERNELS_OPENCL_CL_FEW_H

#include "kernels/opencl/cl_block.h"

#if CL_ROWS != 2 || CL_TOKENS != 4
#error "two rows, four tokens"
#endif

/* Of K types, whose blocks have more of their own, Q4_K lost 4 to 11% by it on an H100, and Q6_K spills on
 * pvc. */
#define CL_FEW_AHEAD (!CL_ANY_K)

struct cl_two {
    struct cl_block a, b;
};

/* 32 values of a token: words, and of 32-value types the scale, and the sum where the type needs it. */
struct cl_values {
    uint4 x, y;
    float d;
    int s;
};

static inline struct cl_values cl_values_of(uint type, const struct cl_act *a, uint here, uint t) {
    struct cl_values v = {0, 0, 0.0f, 0};
    CL_ACT const uint4 *q = (CL_ACT const uint4 *)(a->q + CL_ROW(a, t) * a->stride + here * 32);
    v.x = q[0];
    v.y = q[1];
    if (!cl_is_k(type))
        v.d = CL_SCALE(a, here, t);
    if (!cl_is_k(type) && (cl_offset(type) != 0 || cl_has_m(type)))
        v.s = CL_TOTAL(a, here, t);
    return v;
}

/* F(token's component, token). A step that tests 4 draft tokens has 5 tokens: the last one's neighbours are
 * left out. */
#define CL_EACH_TOKEN(F)                                                                                     \
    F(x, 0) F(y, 1) if (a->last > 1) {                                                                       \
        F(z, 2) F(w, 3)                                                                                      \
    }

/* One block of both rows, F(token's component, token, values). Where there are registers for it, two tokens'
 * values have been loaded, two others' are in flight while those are multiplied, and then the next block's of
 * the first two: as v0 .. v3. */
#if CL_FEW_AHEAD
#define CL_BLOCK(F, type, a, here, next_here)                                                                \
    v2 = cl_values_of(type, a, here, 2);                                                                     \
    v3 = cl_values_of(type, a, here, 3);                                                                     \
    F(x, 0, v0) F(y, 1, v1) v0 = cl_values_of(type, a, next_here, 0);                                        \
    v1 = cl_values_of(type, a, next_here, 1);                                                                \
    if ((a)->last > 1) {                                                                                     \
        F(z, 2, v2) F(w, 3, v3)                                                                              \
    }
#else
#define CL_BLOCK(F, type, a, here, next_here)                                                                \
    v0 = cl_values_of(type, a, here, 0);                                                                     \
    F(x, 0, v0) v1 = cl_values_of(type, a, here, 1);                                                         \
    F(y, 1, v1) if ((a)->last > 1) {                                                                         \
        v2 = cl_values_of(type, a, here, 2);                                                                 \
        F(z, 2, v2) v3 = cl_values_of(type, a, here, 3);                                                     \
        F(w, 3, v3)                                                                                          \
    }
#endif

/* sum + four words of weights times sixteen activations. The sums never come near what would be cut off: of
 * this built-in IGC makes dp4a with its sum. (In cl_dot.h it then leaves loops, and spills on acm-g10.) */
static inline int cl_dot16(const uint *w, uint4 x, int sum) {
    sum = dot_acc_sat(as_char4(w[0]), as_char4(x.x), sum);
    sum = dot_acc_sat(as_char4(w[1]), as_char4(x.y), sum);
    sum = dot_acc_sat(as_char4(w[2]), as_char4(x.z), sum);
    return dot_acc_sat(as_char4(w[3]), as_char4(x.w), sum);
}

/* acc + the block b of a row times activations x, y of 32, whose scale is `by` and whose sum is `sum`. */
static inline float cl_add32(uint type, const struct cl_block *b, uint4 x, uint4 y, float by, int sum,
                             float acc) {
    int i = cl_dot16(b->w + 4, y, cl_dot16(b->w, x, -cl_offset(type) * sum));
    float scale = b->d * by;
    acc = fma((float)i, scale, acc);
    if (cl_has_m(type)) {
        float least = b->m * by;
        acc = fma((float)sum, least, acc);
    }
    return acc;
}

/* i + the same, without the scale of 256; low, high: what the offset makes of either 16. */
static inline int cl_add256(uint type, const struct cl_block *b, uint4 x, uint4 y, int low, int high, int i) {
    int sum = cl_dot16(b->w, x, low);
    if (cl_subs(type) == 8)
        return i + b->scale * cl_dot16(b->w + 4, y, sum);
    const int mask = cl_has_m(type) ? 15 : -1;
    i += (b->scale & mask) * sum;
    return i + (b->other & mask) * cl_dot16(b->w + 4, y, high);
}

static inline void cl_take(uint type, uint file, const struct cl_two *next, struct cl_two *b) {
    *b = *next;
    cl_words(type, file, b->a.w);
    cl_words(type, file, b->b.w);
}

/* acc of blocks first .. end of a 32-value type. */
static inline void cl_segment32(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r,
                                uint first, uint end, const struct cl_act *a, float *acc) {
    struct cl_two next, b;
    float4 ya = 0, yb = 0;
    cl_load32(type, p, panel[0], r, first, &next.a);
    cl_load32(type, p, panel[1], r, first, &next.b);
    struct cl_values v0 = cl_values_of(type, a, 0, 0), v1 = cl_values_of(type, a, 0, 1), v2, v3;
    for (uint block = first; block < end; block++) {
        uint here = block - first, then = min(block + 1, end - 1); /* the last again: no branch */
        cl_take(type, p->file, &next, &b);
        cl_load32(type, p, panel[0], r, then, &next.a);
        cl_load32(type, p, panel[1], r, then, &next.b);
#define CL_ADD(c, t, v)                                                                                      \
    ya.c = cl_add32(type, &b.a, v.x, v.y, v.d, v.s, ya.c);                                                   \
    yb.c = cl_add32(type, &b.b, v.x, v.y, v.d, v.s, yb.c);
        CL_BLOCK(CL_ADD, type, a, here, then - first)
#undef CL_ADD
    }
    acc[0] = ya.x, acc[1] = ya.y, acc[2] = ya.z, acc[3] = ya.w;
    acc[4] = yb.x, acc[5] = yb.y, acc[6] = yb.z, acc[7] = yb.w;
}

/* i += of four minima times sums of 32 values, or of eight (by_16) of 16. */
static inline int cl_least4(bool by_16, cl_bytes at, short8 s, int i) {
    if (by_16) {
        i += (at[0] >> 4) * s.s0 + (at[16] >> 4) * s.s1;
        i += (at[32] >> 4) * s.s2 + (at[48] >> 4) * s.s3;
        i += (at[64] >> 4) * s.s4 + (at[80] >> 4) * s.s5;
        return i + (at[96] >> 4) * s.s6 + (at[112] >> 4) * s.s7;
    }
    i += at[0] * (s.s0 + s.s1) + at[16] * (s.s2 + s.s3);
    return i + at[32] * (s.s4 + s.s5) + at[48] * (s.s6 + s.s7);
}

/* acc of super blocks first .. end of a K type. */
static inline void cl_segment256(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r,
                                 uint first, uint end, const struct cl_act *a, float *acc) {
    struct cl_two next, b;
    float4 ya = 0, yb = 0;
    cl_load256(type, p, panel[0], r, first * 8, &next.a);
    cl_load256(type, p, panel[1], r, first * 8, &next.b);
    struct cl_values v0 = cl_values_of(type, a, 0, 0), v1 = cl_values_of(type, a, 0, 1), v2, v3;
    for (uint super = first; super < end; super++) {
        uint of = (super - first) * 8;
        int4 ia = 0, ib = 0;
        for (uint j = 0; j < 8; j++) {
            uint here = of + j, then = min(super * 8 + j + 1, end * 8 - 1); /* the last again: no branch */
            cl_take(type, p->file, &next, &b);
            cl_load256(type, p, panel[0], r, then, &next.a);
            cl_load256(type, p, panel[1], r, then, &next.b);
#define CL_ADD(c, t, v)                                                                                      \
    {                                                                                                        \
        int low = 0, high = 0;                                                                               \
        if (cl_offset(type) != 0) {                                                                          \
            low = -cl_offset(type) * CL_TOTAL(a, here * 2, t);                                               \
            high = -cl_offset(type) * CL_TOTAL(a, here * 2 + 1, t);                                          \
        }                                                                                                    \
        ia.c = cl_add256(type, &b.a, v.x, v.y, low, high, ia.c);                                             \
        ib.c = cl_add256(type, &b.b, v.x, v.y, low, high, ib.c);                                             \
    }
            CL_BLOCK(CL_ADD, type, a, here, then - first * 8)
#undef CL_ADD
        }
        float wa = cl_scale256(type, p, panel[0], super, r), wb = cl_scale256(type, p, panel[1], super, r);
#define CL_ADD(c, t)                                                                                         \
    {                                                                                                        \
        float by = CL_SCALE(a, super - first, t), sa = wa * by, sb = wb * by;                                \
        ya.c = fma((float)ia.c, sa, ya.c);                                                                   \
        yb.c = fma((float)ib.c, sb, yb.c);                                                                   \
    }
        CL_EACH_TOKEN(CL_ADD)
        if (!cl_has_m(type))
            continue;
        ia = ib = 0;
        bool by_16 = type == CL_Q2_K;
        for (uint j = 0; j < 8; j += 4) {
            uint at = by_16 ? p->sub + (super * 8 + j) * 32 + r : p->submin + (super * 8 + j) * 16 + r;
#define CL_LEAST(c, t)                                                                                       \
    {                                                                                                        \
        short8 s = *(CL_ACT const short8 *)&CL_TOTAL(a, (of + j) * 2, t);                                    \
        ia.c = cl_least4(by_16, panel[0] + at, s, ia.c);                                                     \
        ib.c = cl_least4(by_16, panel[1] + at, s, ib.c);                                                     \
    }
            CL_EACH_TOKEN(CL_LEAST)
#undef CL_LEAST
        }
        wa = -cl_half(panel[0] + p->m + (super * 16 + r) * 2);
        wb = -cl_half(panel[1] + p->m + (super * 16 + r) * 2);
        CL_EACH_TOKEN(CL_ADD)
#undef CL_ADD
    }
    acc[0] = ya.x, acc[1] = ya.y, acc[2] = ya.z, acc[3] = ya.w;
    acc[4] = yb.x, acc[5] = yb.y, acc[6] = yb.z, acc[7] = yb.w;
}

#endif
