/* What the kernels share: access to bytes, the tree of sum128, activations to int8. Functions whose comments
 * begin with "Group" must be called by every work item of the group, with the same arguments. */
#ifndef STATOR_KERNELS_OPENCL_CL_COMMON_H
#define STATOR_KERNELS_OPENCL_CL_COMMON_H

#include "kernels/opencl/cl_arguments.h"
#include "kernels/shared/num.h"
#include "kernels/shared/opencl.h"
#include "kernels/shared/step.h"

typedef global const uchar *cl_bytes;
typedef global const float *cl_floats;
typedef global const short *cl_shorts;

#define CL_STEP(step) ((global const struct step_header *)(step))

#define CL_JOIN2(a, b) a##b
#define CL_JOIN(a, b)  CL_JOIN2(a, b)

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

/* The tree of eight lanes that lie `apart`. */
static inline float cl_sum8(local const float *lane, uint apart) {
    float a = lane[0] + lane[4 * apart], b = lane[apart] + lane[5 * apart];
    float c = lane[2 * apart] + lane[6 * apart], d = lane[3 * apart] + lane[7 * apart];
    float even = a + c, odd = b + d;
    return even + odd;
}

/* Group: the trees of `sums` sums of 128 lanes each, lane[sum][128]; ends with a barrier. An item adds up
 * eight lanes, then sixteen, since a barrier takes longer than that. */
static inline void cl_sum128(local float *lane, uint sums) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < 16 * sums; i += get_local_size(0)) {
        local float *at = lane + i / 16 * 128 + i % 16;
        *at = cl_sum8(at, 16);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < sums; i += get_local_size(0)) {
        local float *at = lane + i * 128;
        float even = cl_sum8(at, 2), odd = cl_sum8(at + 1, 2);
        *at = even + odd;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Group: whether it is the last of `all` to come here with what they wrote to global memory; it then sees
 * what the others wrote, and the count is zero again. flag: a word of local memory. */
static inline bool cl_last_of_all(global uint *arrivals, uint all, local uint *flag) {
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, memory_scope_device);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        volatile global atomic_uint *count = (volatile global atomic_uint *)arrivals;
        *flag = atomic_fetch_add_explicit(count, 1u, memory_order_acq_rel, memory_scope_device) + 1 == all;
        if (*flag)
            atomic_store_explicit(count, 0u, memory_order_relaxed, memory_scope_device);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    bool last = *flag;
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, memory_scope_device);
    barrier(CLK_LOCAL_MEM_FENCE);
    return last;
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

/* Of the squared error of 32 values with scale d, the sum that four items make together, one of them: of
 * lanes j, j + 4, j + 8, j + 12, whose values are v[0..3] and, 16 further on, v[4..7]. */
static inline float cl_error8(const float *v, float d) {
    float inverse = cl_inverse(d);
    float lane[4];
#pragma unroll
    for (uint m = 0; m < 4; m++) {
        float low = fma(-d, (float)cl_rounded(v[m], inverse), v[m]);
        float high = fma(-d, (float)cl_rounded(v[m + 4], inverse), v[m + 4]);
        float square = low * low;
        lane[m] = fma(high, high, square);
    }
    float even = lane[0] + lane[2], odd = lane[1] + lane[3];
    return even + odd;
}

/* Group: n values (a multiple of 32) of each of `rows` rows of x, `stride` apart, to int8 per 32, by four
 * items each; rows of q, d and s are of `width` values. work: three words for each item that has work. */
static inline void cl_quantise32(local float *x, uint rows, uint stride, uint n, uint width, bool rest,
                                 local uint *work, global uchar *q, global float *d, global short *s) {
    uint eighths = n / 8, all = rows * eighths, at_once = min((uint)get_local_size(0), all);
    local float *first_error = (local float *)(work + at_once), *second_error = first_error + at_once;
    for (uint base = 0; base < all; base += at_once) {
        uint me = get_local_id(0), row = (base + me) / eighths, i = (base + me) % eighths;
        bool mine = me < at_once && base + me < all;
        uint quarter = me % 4, others = me - quarter;
        local float *from = x + row * stride + i / 4 * 32;
        float v[8];
        float first = 0, second = 0;
        if (mine) {
            uint most = 0;
#pragma unroll
            for (uint m = 0; m < 8; m++) {
                v[m] = from[quarter + 4 * m];
                most = max(most, NUM_BITS(v[m]) & 0x7fffffffu);
            }
            work[me] = most;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (mine) {
            float amax =
                NUM_FLOAT(max(max(work[others], work[others + 1]), max(work[others + 2], work[others + 3])));
            first = cl_scale(amax, NUM_QUANT_INVERSE);
            second = cl_scale(amax, NUM_QUANT_SECOND);
            first_error[me] = cl_error8(v, first);
            second_error[me] = cl_error8(v, second);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (mine) {
            local float *a = first_error + others, *b = second_error + others;
            float error = (a[0] + a[2]) + (a[1] + a[3]), other = (b[0] + b[2]) + (b[1] + b[3]);
            float scale = other < error ? second : first;
            work[me] = (uint)cl_quantise(from + 8 * quarter, 8, scale, rest, q + row * width + 8 * i);
            if (quarter == 0)
                d[row * (width / 32) + i / 4] = scale;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (mine && quarter == 0)
            s[row * (width / 32) + i / 4] =
                (short)(int)(work[me] + work[me + 1] + work[me + 2] + work[me + 3]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Group: the same per 256 (n a multiple of 256); part: n / 16 words for each row. */
static inline void cl_quantise256(local float *x, uint rows, uint stride, uint n, uint width, bool rest,
                                  local uint *part, global uchar *q, global float *d, global short *s) {
    uint parts = n / 16;
    for (uint p = get_local_id(0); p < rows * parts; p += get_local_size(0))
        part[p] = cl_largest(x + p / parts * stride + p % parts * 16, 16);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint p = get_local_id(0); p < rows * parts; p += get_local_size(0)) {
        uint row = p / parts, i = p % parts, most = 0;
        for (uint j = 0; j < 16; j++)
            most = max(most, part[p / 16 * 16 + j]);
        float scale = cl_scale(NUM_FLOAT(most), NUM_QUANT_INVERSE);
        if (i % 16 == 0)
            d[row * (width / 256) + i / 16] = scale;
        s[row * (width / 16) + i] =
            (short)cl_quantise(x + row * stride + 16 * i, 16, scale, rest, q + row * width + 16 * i);
    }
}

/* Group: values at .. at + n of rows row .. row + rows of o, which are in x, `stride` apart, to the int8
 * forms that o has; work: OPENCL_QUANTISE_WORDS(n) words of local memory for each row, or three for each item
 * if that is less. x is ready (a barrier before). With rest (one form only) x becomes what is left. */
static inline void cl_quantise_rows(const struct cl_forms *o, uint row, uint rows, uint at, local float *x,
                                    uint stride, uint n, bool rest, local uint *work) {
    uint first = row * o->width + at;
    if (o->has & OPENCL_I8_32)
        cl_quantise32(x, rows, stride, n, o->width, rest, work, o->base + o->q32 + first,
                      (global float *)(o->base + o->d32) + first / 32,
                      (global short *)(o->base + o->s32) + first / 32);
    if (o->has & OPENCL_I8_256)
        cl_quantise256(x, rows, stride, n, o->width, rest, work, o->base + o->q256 + first,
                       (global float *)(o->base + o->d256) + first / 256,
                       (global short *)(o->base + o->s256) + first / 16);
}

static inline void cl_quantise_forms(const struct cl_forms *o, uint row, uint at, local float *x, uint n,
                                     bool rest, local uint *work) {
    cl_quantise_rows(o, row, 1, at, x, n, n, rest, work);
}

/* A finished sum of weight i times its factor, if it has one. */
static inline float cl_scaled(uint biased, uint i, global const float *factor, float sum) {
    return biased & OPENCL_FACTOR(i) ? sum * *factor : sum;
}

#endif
