/* What the kernels share: access to bytes, the tree of sum128, activations to int8. All functions that say
 * "group" are to be called by every work item of the group, with the same arguments. */
#ifndef STATOR_KERNELS_OPENCL_CL_COMMON_H
#define STATOR_KERNELS_OPENCL_CL_COMMON_H

#include "kernels/num.h"
#include "kernels/opencl.h"
#include "kernels/step.h"

typedef global const uchar *cl_bytes;
typedef global const float *cl_floats;
typedef global const short *cl_shorts;

#define CL_STEP(step) ((global const struct step_header *)(step))

static inline uint cl_ceil_div(uint a, uint b) {
    return (a + b - 1) / b;
}

/* A value's forms: byte offsets from base (struct graph_value). */
struct cl_forms {
    global uchar *base;
    uint has; /* OPENCL_F32.. */
    uint width;
    uint f32, q32, d32, s32, q256, d256, s256;
};

/* Group: the trees of `sums` sums of 128 lanes each, lane[sum][128]; ends with a barrier. */
static inline void cl_sum128(local float *lane, uint sums) {
    for (uint bits = 7; bits-- > 0;) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = get_local_id(0); i < sums << bits; i += get_local_size(0)) {
            uint at = (i >> bits) * 128 + (i & ((1u << bits) - 1));
            lane[at] += lane[at + (1u << bits)];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline int cl_rounded(float x, float inverse) {
    float r = x * inverse + NUM_ROUND;
    int v = (int)(NUM_BITS(r) & 0x7fffffffu) - (int)NUM_ROUND_BITS;
    return clamp(v, -127, 127);
}

static inline float cl_inverse(float d) {
    return d == 0.0f ? 0.0f : num_rcp(d);
}

static inline float cl_scale(float amax, float by) {
    return amax < NUM_QUANT_MIN ? 0.0f : amax * by;
}

/* n values (a multiple of 4) with scale d to bytes; gives their sum. rest: x becomes what is left. */
static inline int cl_quantise(local float *x, uint n, float d, bool rest, global uchar *q) {
    float inverse = cl_inverse(d);
    int sum = 0;
    for (uint i = 0; i < n; i += 4) {
        uint word = 0;
        for (uint b = 0; b < 4; b++) {
            float y = x[i + b];
            int v = cl_rounded(y, inverse);
            sum += v;
            word |= ((uint)v & 255u) << (8 * b);
            if (rest)
                x[i + b] = fma(-d, (float)v, y);
        }
        *(global uint *)(q + i) = word;
    }
    return sum;
}

static inline uint cl_largest(local const float *x, uint n) {
    uint most = 0;
    for (uint i = 0; i < n; i++)
        most = max(most, NUM_BITS(x[i]) & 0x7fffffffu);
    return most;
}

/* Squared error of 32 values with scale d. */
static inline float cl_error32(local const float *x, float d) {
    float inverse = cl_inverse(d);
    float lane[16];
    for (uint j = 0; j < 16; j++) {
        float a = x[j], b = x[j + 16];
        float low = fma(-d, (float)cl_rounded(a, inverse), a);
        float high = fma(-d, (float)cl_rounded(b, inverse), b);
        float square = low * low;
        lane[j] = fma(high, high, square);
    }
    for (uint half_way = 8; half_way > 0; half_way /= 2)
        for (uint j = 0; j < half_way; j++)
            lane[j] += lane[j + half_way];
    return lane[0];
}

/* Group: n values of x (a multiple of 32) to int8 per 32. */
static inline void cl_quantise32(local float *x, uint n, bool rest, global uchar *q, global float *d,
                                 global short *s) {
    for (uint g = get_local_id(0); g < n / 32; g += get_local_size(0)) {
        float amax = NUM_FLOAT(cl_largest(x + 32 * g, 32));
        float first = cl_scale(amax, NUM_QUANT_INVERSE);
        float second = cl_scale(amax, NUM_QUANT_SECOND);
        float scale = cl_error32(x + 32 * g, second) < cl_error32(x + 32 * g, first) ? second : first;
        d[g] = scale;
        s[g] = (short)cl_quantise(x + 32 * g, 32, scale, rest, q + 32 * g);
    }
}

/* Group: n values of x (a multiple of 256) to int8 per 256; part: n / 16 words. */
static inline void cl_quantise256(local float *x, uint n, bool rest, local uint *part, global uchar *q,
                                  global float *d, global short *s) {
    for (uint p = get_local_id(0); p < n / 16; p += get_local_size(0))
        part[p] = cl_largest(x + 16 * p, 16);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint p = get_local_id(0); p < n / 16; p += get_local_size(0)) {
        uint most = 0;
        for (uint i = 0; i < 16; i++)
            most = max(most, part[p / 16 * 16 + i]);
        float scale = cl_scale(NUM_FLOAT(most), NUM_QUANT_INVERSE);
        if (p % 16 == 0)
            d[p / 16] = scale;
        s[p] = (short)cl_quantise(x + 16 * p, 16, scale, rest, q + 16 * p);
    }
}

/* Group: values at .. at + n of row `row` of o, in x, to the int8 forms that o has; part: n / 16 words of
 * local memory. x is ready (a barrier before). With rest (one form only) x becomes what is left. */
static inline void cl_quantise_forms(const struct cl_forms *o, uint row, uint at, local float *x, uint n,
                                     bool rest, local uint *part) {
    uint first = row * o->width + at;
    if (o->has & OPENCL_I8_32)
        cl_quantise32(x, n, rest, o->base + o->q32 + first, (global float *)(o->base + o->d32) + first / 32,
                      (global short *)(o->base + o->s32) + first / 32);
    if (o->has & OPENCL_I8_256)
        cl_quantise256(x, n, rest, part, o->base + o->q256 + first,
                       (global float *)(o->base + o->d256) + first / 256,
                       (global short *)(o->base + o->s256) + first / 16);
}

#endif
