/* The factor of an RMS norm. */
#ifndef STATOR_KERNELS_OPENCL_CL_NORM_H
#define STATOR_KERNELS_OPENCL_CL_NORM_H

#include "kernels/opencl/cl_heads.h"

/* Group: what a row's values are multiplied by, before their weights. */
static inline float cl_norm_factor(global const float *from, uint width, local float *lane, float inv_n,
                                   float eps) {
    uint me = get_local_id(0), items = get_local_size(0);
    for (uint j = me; j < 128; j += items) {
        float sum = 0.0f;
        uint i = j;
        for (; i + 15 * 128 < width; i += 16 * 128) { /* 16 loads in flight at once */
            float v[16];
#pragma unroll
            for (uint m = 0; m < 16; m++)
                v[m] = from[i + 128 * m];
#pragma unroll
            for (uint m = 0; m < 16; m++)
                sum = fma(v[m], v[m], sum);
        }
        for (; i < width; i += 128)
            sum = fma(from[i], from[i], sum);
        lane[j] = sum;
    }
    cl_sum128(lane, 1);
    float mean = lane[0] * inv_n;
    return num_rsqrt(mean + eps);
}

#endif
