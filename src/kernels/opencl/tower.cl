/* What vision towers do beside products and attention. Rows of int8 forms are made as in norm.cl. */
#include "kernels/opencl/cl_heads.h"
#include "kernels/opencl/cl_panel.h"
#include "kernels/shared/num_erf.h"

/* Value i of a row of out. x: the first of `in` for it. */
static inline float mapped(global const float *x, uint i, uint how, uint from, uint to, float factor) {
    if (how == OPENCL_MAP_GELU)
        return num_gelu(x[i]);
    if (how == OPENCL_MAP_GELU_ERF)
        return num_gelu_erf(x[i]);
    if (how == OPENCL_MAP_SILU)
        return num_silu(x[i] * factor);
    if (how == OPENCL_MAP_WEAVE) /* of `to` rows of `from` values, one value each */
        return x[i % to * from + i / to];
    if (how == OPENCL_MAP_SPREAD) /* heads of `from` values become heads of `to` */
        return i % to < from ? x[i / to * from + i % to] : 0.0f;
    if (how == OPENCL_MAP_COPY)
        return x[i];
    float sum = 0.0f; /* OPENCL_MAP_MEAN, of `to` rows of `from` values */
    for (uint k = 0; k < to; k++)
        sum = fma(x[k * from + i], factor, sum);
    return sum;
}

/* Rows of `in`, in_width values for each row of out, through `mapped`. in may be out's floats where i is the
 * only value that is read. weighs: then less `shift`, times `scale`. wanted: the rows are those that the step wants logits of. part: values of a row that
 * a group writes, a multiple of 256. Local: tile OPENCL_NORM_CHUNK floats, work
 * OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) words. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void tower_map(CL_ARGUMENTS(MAP)) {
    uint width = out_width, parts = cl_ceil_div(width, part);
    uint n = wanted ? CL_STEP(step)->n_rows : CL_STEP(step)->n_tokens;
    struct cl_forms o = CL_FORMS(out);
    for (uint item = get_group_id(0); item < n * parts; item += get_num_groups(0)) {
        uint row = item / parts, begin = item % parts * part, end = min(begin + part, width);
        for (uint at = begin; at < end; at += OPENCL_NORM_CHUNK) {
            uint here = min(end - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = get_local_id(0); i < here; i += get_local_size(0)) {
                float y = mapped(in + row * in_width, at + i, how, from, to, factor);
                if (weighs)
                    y = (y - shift[at + i]) * scale[at + i];
                tile[i] = y;
                if (out_has & OPENCL_F32)
                    ((global float *)(out + out_f32))[row * width + at + i] = y;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, row, at, tile, here, false, work);
        }
    }
}

/* Group: the sum of a row's values, less `mean`, or of their squares, as sum128. */
static inline float row_sum(global const float *x, uint width, float mean, bool squares, local float *lane) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = get_local_id(0); j < 128; j += get_local_size(0)) {
        float sum = 0.0f;
        for (uint i = j; i < width; i += 128) {
            float v = x[i] - mean;
            sum = squares ? fma(v, v, sum) : sum + x[i];
        }
        lane[j] = sum;
    }
    cl_sum128(lane, 1);
    return lane[0];
}

/* Layer norm of rows: without their means, normed, with weights and biases. A group per row. x is elsewhere
 * than out. Local: as above, lane 128 floats. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void layer_norm(CL_ARGUMENTS(LAYER_NORM)) {
    uint width = out_width;
    uint n = wanted ? CL_STEP(step)->n_rows : CL_STEP(step)->n_tokens;
    struct cl_forms o = CL_FORMS(out);
    for (uint row = get_group_id(0); row < n; row += get_num_groups(0)) {
        global const float *from = x + row * width;
        float mean = row_sum(from, width, 0.0f, false, lane) * inv_n;
        float square = row_sum(from, width, mean, true, lane) * inv_n;
        float r = num_rsqrt(square + eps);
        for (uint at = 0; at < width; at += OPENCL_NORM_CHUNK) {
            uint here = min(width - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = get_local_id(0); i < here; i += get_local_size(0)) {
                float v = from[at + i] - mean;
                float y = v * r * weight[at + i];
                y = y + bias[at + i];
                tile[i] = y;
                if (out_has & OPENCL_F32)
                    ((global float *)(out + out_f32))[row * width + at + i] = y;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, row, at, tile, here, false, work);
        }
    }
}

/* x[token] += the rows of a table that the token's blend names, by their factors, one after the other. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void tower_blend(CL_ARGUMENTS(BLEND)) {
    struct cl_planes p = cl_planes(type, file, width);
    for (uint t = get_group_id(0); t < CL_STEP(step)->n_tokens; t += get_num_groups(0)) {
        global const struct step_blend *b = (global const struct step_blend *)blends + t;
        for (uint c = get_local_id(0); c < width; c += get_local_size(0)) {
            float y = x[t * width + c];
            for (uint k = 0; k < 4; k++)
                y = fma(cl_decode(type, &p, piece + b->row[k] / 16 * p.panel_bytes, b->row[k] % 16, c), b->factor[k],
                        y);
            x[t * width + c] = y;
        }
    }
}

/* out[row] = sum over k of in[row][k] * row k of the matrix, which has `cols` columns. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void tower_project(CL_ARGUMENTS(PROJECT)) {
    struct cl_planes p = cl_planes(type, file, cols);
    uint n = CL_STEP(step)->n_rows * cols;
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        uint row = i / cols, c = i % cols;
        float sum = 0.0f;
        for (uint k = 0; k < in_width; k++)
            sum = fma(cl_decode(type, &p, piece + k / 16 * p.panel_bytes, k % 16, c), in[row * in_width + k], sum);
        out[row * out_width + column + c] = sum;
    }
}

/* Adds columns first .. of `in` to the rows of pictures' tokens (graph_is_picture). */
kernel __attribute__((intel_reqd_sub_group_size(16))) void tower_features(CL_ARGUMENTS(FEATURES)) {
    global const int *tokens = (global const int *)(step + CL_STEP(step)->at_tokens);
    for (uint t = get_group_id(0); t < CL_STEP(step)->n_tokens; t += get_num_groups(0)) {
        if (tokens[t] >= 0)
            continue;
        for (uint c = get_local_id(0); c < width; c += get_local_size(0))
            x[t * width + c] = x[t * width + c] + in[t * stride + first + c];
    }
}
