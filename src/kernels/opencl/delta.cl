/* Gated convolutions (kernels.h, struct kernels_gated_conv), those of n-gram embeddings (graph.h), convolutions of
 * delta-nets and of Mamba-2 (struct kernels_conv; a work group per (token, head)), gates of heads, and what
 * squares values above 0. */
#include "kernels/opencl/cl_states.h"

/* ssd: heads of v lie before those of k and q, and nothing is normed. weights: F32 panels. Local: tile dim_k
 * floats, lane 128 floats. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void delta_conv(CL_ARGUMENTS(CONV)) {
    struct states states = {state, block_bytes, cache, window};
    uint me = get_local_id(0), items = get_local_size(0);
    uint heads = 2 * key_heads + value_heads;
    uint channels = 2 * key_heads * dim_k + value_heads * dim_v;
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * heads; item += get_num_groups(0)) {
        uint t = item / heads, head = item % heads;
        bool key = ssd ? head >= value_heads : head < 2 * key_heads, normed = key && !ssd;
        uint others = ssd ? value_heads : 2 * key_heads; /* that lie first */
        uint n = key ? dim_k : dim_v, theirs = key ? dim_v : dim_k;
        uint first = head < others ? head * n : others * theirs + (head - others) * n;
        global const struct step_chunk *chunk = cl_chunk_of(step, false, t);
        global const float *before = state_of(&states, step, chunk) + window / 4 + first;
        uint at = t - chunk->first;
        for (uint i = me; i < n; i += items) {
            uint channel = first + i;
            global const float *w = weights + channel / 16 * panel + channel % 16;
            float sum = 0.0f;
            for (uint j = 0; j < taps; j++) {
                float x = at + j + 1 < taps ? before[(at + j) * channels + i]
                                            : in[(t + j + 1 - taps) * in_width + channel];
                sum = fma(w[16 * j], x, sum);
            }
            if (biased)
                sum = sum + bias[channel];
            float y = num_silu(sum);
            if (normed)
                tile[i] = y;
            else
                out[t * out_width + channel] = y;
        }
        if (!normed) /* the same for the whole group */
            continue;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = me; j < 128; j += items) {
            float sum = 0.0f;
            for (uint i = j; i < n; i += 128)
                sum = fma(tile[i], tile[i], sum);
            lane[j] = sum;
        }
        cl_sum128(lane, 1);
        float r = num_rsqrt(lane[0] + eps);
        for (uint i = me; i < n; i += items)
            out[t * out_width + first + i] = tile[i] * r;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* The product that a gated convolution sees of token `t`, channel `channel`. */
static inline float gated_product(global const float *in, uint width, uint t, uint channel) {
    global const float *row = in + t * 3 * width + channel;
    return row[0] * row[2 * width];
}

/* A group has OPENCL_CONV_PART channels of a token; of a chunk's first tokens, which see what is kept, that
 * of the first has all, and then keeps what the next step sees. weights: F32 panels. Local: tile
 * OPENCL_CONV_PART floats, work OPENCL_QUANTISE_WORDS of the tile. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void gated_conv(CL_ARGUMENTS(GATED_CONV)) {
    struct cl_forms o = CL_FORMS(out);
    uint width = out_width, parts = cl_ceil_div(width, (uint)OPENCL_CONV_PART);
    uint me = get_local_id(0), items = get_local_size(0);
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * parts; item += get_num_groups(0)) {
        uint t = item / parts, first = item % parts * OPENCL_CONV_PART;
        uint n = min((uint)OPENCL_CONV_PART, width - first);
        global const struct step_chunk *chunk = cl_chunk_of(step, false, t);
        global float *kept = (global float *)(state + cl_table(step, cache, chunk->slot)[0] * block_bytes);
        bool begins = t == chunk->first; /* the same for the whole group */
        if (!begins && t - chunk->first + 1 < taps)
            continue;
        uint end = begins ? chunk->first + min(chunk->n, max(taps, 2u) - 1) : t + 1;
        for (; t < end; t++) {
            uint at = t - chunk->first;
            for (uint i = me; i < n; i += items) {
                uint channel = first + i;
                global const float *w = weights + channel / 16 * panel + channel % 16;
                float sum = 0.0f;
                for (uint j = 0; j < taps; j++) {
                    float p = at + j + 1 < taps ? kept[(at + j) * width + channel]
                                                : gated_product(in, width, t + j + 1 - taps, channel);
                    sum = fma(w[16 * j], p, sum);
                }
                float y = in[t * 3 * width + width + channel] * sum;
                tile[i] = y;
                ((global float *)(out + out_f32))[t * width + channel] = y;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, t, first, tile, n, false, work);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (!begins)
            continue;
        uint keep = chunk->n - chunk->tested;
        for (uint i = me; i < n; i += items)
            for (uint j = 0; j + 1 < taps; j++) {
                uint from = j + keep, channel = first + i;
                kept[j * width + channel] =
                    from + 1 < taps ? kept[from * width + channel]
                                    : gated_product(in, width, chunk->first + from + 1 - taps, channel);
            }
    }
}

/* x += the value times its factor, and the convolution, of n-gram embeddings (graph.h). A group has
 * OPENCL_CONV_PART channels of a token, as that of gated_conv does. in: what ngram_gate left. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void ngram_conv(CL_ARGUMENTS(NGRAM_CONV)) {
    uint width = streams * dim, stride = width + dim + streams, back = (taps - 1) * apart;
    uint parts = cl_ceil_div(width, (uint)OPENCL_CONV_PART);
    uint me = get_local_id(0), items = get_local_size(0);
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * parts; item += get_num_groups(0)) {
        uint t = item / parts, first = item % parts * OPENCL_CONV_PART;
        uint end_channel = min(first + (uint)OPENCL_CONV_PART, width);
        global const struct step_chunk *chunk = cl_chunk_of(step, false, t);
        global float *kept = (global float *)(state + cl_table(step, cache, chunk->slot)[0] * block_bytes);
        global const float *rows = in + chunk->first * stride;
        bool begins = t == chunk->first;
        if (!begins && t - chunk->first < back)
            continue;
        uint end = begins ? chunk->first + min(chunk->n, max(back, 1u)) : t + 1;
        for (uint channel = first + me; channel < end_channel; channel += items) {
            global const float *w = weights + channel / 16 * panel + channel % 16;
            uint h = channel / dim;
            for (uint token = t; token < end; token++) {
                uint at = token - chunk->first;
                float sum = 0.0f;
                for (uint j = 0; j < taps; j++) {
                    uint from = at + j * apart; /* among those kept, and then the chunk's */
                    float p = from < back ? kept[from * width + channel] : rows[(from - back) * stride + channel];
                    sum = fma(w[16 * j], p, sum);
                }
                global const float *row = rows + at * stride;
                float value = row[width + channel - h * dim] * row[width + dim + h];
                global float *x = out + token * width + channel;
                *x = *x + (value + num_silu(sum));
            }
            for (uint i = 0; begins && i < back; i++) {
                uint from = i + chunk->n - chunk->tested;
                kept[i * width + channel] =
                    from < back ? kept[from * width + channel] : rows[(from - back) * stride + channel];
            }
        }
    }
}

/* how: OPENCL_GATE_SIGMOID .. Tokens have `each` rows. A group has `together` heads of a token, so that
 * groups of int8 are whole. Local: tile together * dim floats, lane 128 for each of CL_HEADS_AT_ONCE, work
 * OPENCL_QUANTISE_WORDS of the tile. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void gate(CL_ARGUMENTS(GATE)) {
    uint width = out_width;
    uint me = get_local_id(0), items = get_local_size(0);
    uint parts = heads / together, n = together * dim;
    struct cl_forms o = CL_FORMS(out);
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * each * parts;
         item += get_num_groups(0)) {
        uint t = item / parts, at = item % parts * n;
        global const float *mine = gates + t * gates_width + column + at;
        for (uint i = me; i < n; i += items) {
            float x = in[t * width + at + i];
            tile[i] = how == OPENCL_GATE_EARLY ? num_silu(mine[i]) * x : x;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (how == OPENCL_GATE_NORMED || how == OPENCL_GATE_BOTH || how == OPENCL_GATE_EARLY)
            cl_norm_heads(tile, together, dim, how == OPENCL_GATE_EARLY ? 0 : weight, inv_n, eps, lane);
        for (uint i = me; i < n; i += items) {
            float x = tile[i], above = x > 0.0f ? x : 0.0f, y;
            if (how == OPENCL_GATE_RELU2)
                y = above * above;
            else if (how == OPENCL_GATE_EARLY)
                y = x * weight[at + i];
            else if (how == OPENCL_GATE_GELU)
                y = num_gelu(x) * mine[i];
            else
                y = (how == OPENCL_GATE_NORMED ? num_silu(mine[i]) : num_sigmoid(mine[i])) * x;
            tile[i] = y;
            ((global float *)(out + out_f32))[t * width + at + i] = y;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        cl_quantise_forms(&o, t, at, tile, n, false, work);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
