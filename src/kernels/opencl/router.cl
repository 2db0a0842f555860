#include "kernels/opencl/cl_common.h"

/* Rows of a router for one token (F32 panels, each `panel` floats), in two matrices of one value: of rows0 rows,
 * to out from column0 on, and (rows1 > 0) of rows1, from column1. biased: OPENCL_BIAS of either.
 *   So few rows would be a few groups that wait for one load after the other. So 64 items have a segment of 512
 * columns of a panel: all of them load, by 16 bytes, the next 256 columns ahead, and 16 of them, one for each
 * row, add up what has come to local memory. Local: stage ROUTER_SLOTS * 128 columns of a panel, x as many
 * segments of the token, totals a float per segment and row. */
#define ROUTER_SLOTS   (OPENCL_GROUP / 64)
#define ROUTER_COLUMNS 128
#define ROUTER_SEGMENT 512 /* KERNELS_SEGMENT */
kernel __attribute__((reqd_work_group_size(OPENCL_GROUP, 1, 1), intel_reqd_sub_group_size(CL_SUB_GROUP))) void CL_NAME(CL_ARGUMENTS(ROUTER)) {
    uint me = get_local_id(0), slot = me / 64, sub = me % 64, segments = cl_ceil_div(cols, ROUTER_SEGMENT);
    uint units = cl_ceil_div(rows0, 16), all = units + cl_ceil_div(rows1, 16);
    local float4 *mine = stage + slot * (4 * ROUTER_COLUMNS);
    local float *my_x = x + slot * ROUTER_SEGMENT;
    for (uint item = get_group_id(0); item < (CL_STEP(step)->n_tokens > 0 ? all : 0); item += get_num_groups(0)) {
        bool second = item >= units;
        uint row = 16 * (second ? item - units : item);
        global const float *from = (second ? w1 : w0) + row / 16 * panel;
        float total = 0.0f;
        for (uint first = 0; first < segments; first += ROUTER_SLOTS) {
            uint begin = min((first + slot) * ROUTER_SEGMENT, cols), columns = min(cols - begin, (uint)ROUTER_SEGMENT);
            global const float4 *w = (global const float4 *)(from + 16 * begin);
            uint have = 4 * columns, last = max(have, 1u) - 1;
            if (have == 0) /* of a slot without columns any that are there */
                w = (global const float4 *)from;
            float4 now[8], next[8];
#pragma unroll
            for (uint m = 0; m < 8; m++)
                now[m] = w[min(sub + 64 * m, last)];
#pragma unroll
            for (uint m = 0; m < 8; m++)
                next[m] = w[min(512 + sub + 64 * m, last)];
            for (uint i = sub; i < columns; i += 64)
                my_x[i] = in[begin + i];
            float sum = 0.0f;
            for (uint at = 0; at < ROUTER_SEGMENT; at += ROUTER_COLUMNS) {
                barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
                for (uint m = 0; m < 8; m++) {
                    mine[sub + 64 * m] = now[m];
                    now[m] = next[m];
                }
                barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
                for (uint m = 0; m < 8; m++)
                    next[m] = w[min(4 * at + 1024 + sub + 64 * m, last)];
                uint here = min(max(columns, at) - at, (uint)ROUTER_COLUMNS);
                if (sub < 16) {
                    local const float *weights = (local const float *)mine + sub;
#pragma unroll 16
                    for (uint c = 0; c < here; c++)
                        sum = fma(weights[16 * c], my_x[at + c], sum);
                }
            }
            if (sub < 16)
                totals[16 * slot + sub] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint j = 0; j < min(segments - first, (uint)ROUTER_SLOTS); j++)
                total += totals[16 * j + me % 16];
        }
        if (me < 16 && row + me < (second ? rows1 : rows0)) {
            if (biased & OPENCL_BIAS(second))
                total = total + (second ? bias1 : bias0)[row + me];
            out[(second ? column1 : column0) + row + me] = total;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
