/* Hyper-connections: a token's row is several streams side by side. Rows of int8 forms are made as in norm.cl. */
#include "kernels/opencl/cl_norm.h"

/* Each of `count` parts of a row normed, with weights as wide as the row. part: values of a row that a group
 * writes, a multiple of 256. Local: factors a float for each part, tile OPENCL_NORM_CHUNK floats, lane 128
 * floats, work OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) words. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void streams_norm(CL_ARGUMENTS(STREAMS_NORM)) {
    uint width = out_width, each = width / count, parts = cl_ceil_div(width, part);
    struct cl_forms o = CL_FORMS(out);
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * parts; item += get_num_groups(0)) {
        uint row = item / parts, begin = item % parts * part, end = min(begin + part, width);
        global const float *from = x + row * width;
        for (uint h = begin / each; h <= (end - 1) / each; h++) {
            float r = cl_norm_factor(from + h * each, each, lane, inv_n, eps);
            if (get_local_id(0) == 0)
                factors[h] = r;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint at = begin; at < end; at += OPENCL_NORM_CHUNK) {
            uint here = min(end - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = get_local_id(0); i < here; i += get_local_size(0)) {
                float y = from[at + i] * factors[(at + i) / each] * weight[at + i];
                tile[i] = y;
                if (out_has & OPENCL_F32)
                    ((global float *)(out + out_f32))[row * width + at + i] = y;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, row, at, tile, here, false, work);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* The mean over `count` streams of the normed rows `in`, each value times the sigmoid of its gate. part: as
 * above. Local: tile, work as above. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void streams_mix(CL_ARGUMENTS(STREAMS_MIX)) {
    uint width = out_width, parts = cl_ceil_div(width, part);
    struct cl_forms o = CL_FORMS(out);
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * parts; item += get_num_groups(0)) {
        uint row = item / parts, begin = item % parts * part, end = min(begin + part, width);
        for (uint at = begin; at < end; at += OPENCL_NORM_CHUNK) {
            uint here = min(end - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = get_local_id(0); i < here; i += get_local_size(0)) {
                uint first = row * count * width + at + i;
                float sum = num_sigmoid(gates[first]) * in[first];
                for (uint h = 1; h < count; h++) {
                    float term = num_sigmoid(gates[first + h * width]) * in[first + h * width];
                    sum = sum + term;
                }
                float y = sum * inverse;
                tile[i] = y;
                if (out_has & OPENCL_F32)
                    ((global float *)(out + out_f32))[row * width + at + i] = y;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, row, at, tile, here, false, work);
        }
    }
}

/* Adds a part's output `in`, rows of `width` values, to each of `count` streams of x by the stream's factor,
 * which `gates` say; adds 0: each stream becomes `in`. part: values of a stream that a group writes. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void streams_add(CL_ARGUMENTS(STREAMS_ADD)) {
    uint parts = cl_ceil_div(width, part);
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * count * parts; item += get_num_groups(0)) {
        uint stream = item / parts, begin = item % parts * part, end = min(begin + part, width);
        float by = adds ? 2.0f * num_sigmoid(gates[stream] * inverse) : 0.0f;
        for (uint i = begin + get_local_id(0); i < end; i += get_local_size(0)) {
            float given = in[stream / count * width + i];
            x[stream * width + i] = adds ? fma(given, by, x[stream * width + i]) : given;
        }
    }
}
