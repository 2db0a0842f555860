/* RMS norm of rows, and the norm's rows to the int8 forms that their readers want: one group per row, or,
 * where rows are few, for each part of a row, all of which make the row's sum. */
#include "kernels/opencl/cl_norm.h"
#include "kernels/shared/experts.h"
#include "kernels/shared/ngram_gate.h"

/* x: rows as wide as out. gather: OPENCL_ROWS_ALL .. pairs: row r
 * goes to row 2r of out, what quantising left to row 2r + 1 (int8 only, one form). adds: to floats that are
 * there. weighs: `weight` is there, else it is 1. scaled: the floats are then multiplied by scale[0]. apart: a token has so many rows (floats alone).
 * part: values of a row that a group writes, a multiple of 256; fewer than the row only if x is elsewhere
 * than out. Local: tile OPENCL_NORM_CHUNK floats, lane 128 floats, work
 * OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) words.
 */
kernel __attribute__((intel_reqd_sub_group_size(16))) void norm(CL_ARGUMENTS(NORM)) {
    uint width = out_width / apart;
    uint me = get_local_id(0), items = get_local_size(0);
    global const uint *rows = (global const uint *)(step + CL_STEP(step)->at_rows);
    uint n = gather != OPENCL_ROWS_ALL ? CL_STEP(step)->n_rows : CL_STEP(step)->n_tokens * apart;
    struct cl_forms o = CL_FORMS(out);
    uint parts = cl_ceil_div(width, part);
    for (uint item = get_group_id(0); item < n * parts; item += get_num_groups(0)) {
        uint row = item / parts, begin = item % parts * part, end = min(begin + part, width);
        global const float *from = x + (gather == OPENCL_ROWS_GATHER ? rows[row] : row) * width;
        /* An item's first value and weight come while the row is added up. */
        uint first = min(begin + me, width - 1);
        float value = from[first], by = weighs ? weight[first] : 1.0f;
        float r = cl_norm_factor(from, width, lane, inv_n, eps);
        for (uint at = begin; at < end; at += OPENCL_NORM_CHUNK) {
            uint here = min(end - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = me; i < here; i += items) {
                if (at + i != first) {
                    value = from[at + i];
                    by = weighs ? weight[at + i] : 1.0f;
                }
                float y = value * r * by;
                tile[i] = y;
                global float *to = (global float *)(out + out_f32) + row * width + at + i;
                if (out_has & OPENCL_F32) {
                    float sum = adds ? *to + y : y;
                    *to = scaled ? sum * scale[0] : sum;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, pairs ? 2 * row : row, at, tile, here, pairs, work);
            if (pairs) {
                barrier(CLK_LOCAL_MEM_FENCE);
                cl_quantise_forms(&o, 2 * row + 1, at, tile, here, false, work);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Of an n-gram embedding (graph.h), a group per stream of a token. in: rows of the streams' keys, the value, and a
 * factor of each stream. Local: lane 128 floats. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void ngram_gate(CL_ARGUMENTS(NGRAM_GATE)) {
    uint me = get_local_id(0), items = get_local_size(0), keys = streams * dim;
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * streams; item += get_num_groups(0)) {
        uint t = item / streams, h = item % streams, first = h * dim;
        global float *row = in + t * (keys + dim + streams), *key = row + first;
        global const float *value = row + keys, *x = stream + t * keys + first;
        float of_key = cl_norm_factor(key, dim, lane, inv_n, eps);
        barrier(CLK_LOCAL_MEM_FENCE);
        float of_x = cl_norm_factor(x, dim, lane, inv_n, eps);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = me; j < 128; j += items) {
            float sum = 0.0f;
            for (uint i = j; i < dim; i += 128) {
                float a = key[i] * of_key * key_weight[first + i];
                float b = x[i] * of_x * stream_weight[first + i];
                sum = fma(a, b, sum);
            }
            lane[j] = sum;
        }
        cl_sum128(lane, 1);
        float factor = ngram_gate_of(lane[0], scale);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = me; j < 128; j += items) {
            float sum = 0.0f;
            for (uint i = j; i < dim; i += 128) {
                float v = value[i] * factor;
                sum = fma(v, v, sum);
            }
            lane[j] = sum;
        }
        cl_sum128(lane, 1);
        float r = num_rsqrt(lane[0] * inv_n + eps);
        for (uint i = me; i < dim; i += items)
            key[i] = value[i] * factor * r * conv_weight[first + i];
        if (me == 0)
            row[keys + dim + h] = factor;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Rows of x minus their means, a group per row. Local: lane 128 floats. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void center(CL_ARGUMENTS(CENTER)) {
    uint me = get_local_id(0), items = get_local_size(0);
    for (uint row = get_group_id(0); row < CL_STEP(step)->n_tokens; row += get_num_groups(0)) {
        global float *at = x + row * width;
        for (uint j = me; j < 128; j += items) {
            float sum = 0.0f;
            for (uint i = j; i < width; i += 128)
                sum += at[i];
            lane[j] = sum;
        }
        cl_sum128(lane, 1);
        float mean = lane[0] * inv_n;
        for (uint i = me; i < width; i += items)
            at[i] = at[i] - mean;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Pairs of a token's embedding, which is in the floats of out already, and the state before it, both normed.
 * A group per half of a row. The state is columns states_first .. of a row of states_width. Local memory as
 * above. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void norm_pair(CL_ARGUMENTS(PAIR)) {
    uint width = out_width / 2;
    uint me = get_local_id(0), items = get_local_size(0);
    struct cl_forms o = CL_FORMS(out);
    for (uint item = get_group_id(0); item < 2 * CL_STEP(step)->n_tokens; item += get_num_groups(0)) {
        uint t = item / 2, first = item % 2 * width;
        global const struct step_chunk *c = cl_chunk_of(step, false, t);
        global float *to = (global float *)(out + out_f32) + t * out_width + first;
        global const float *from = to, *weight = embedding_weight;
        if (first > 0) {
            weight = state_weight;
            if (t > c->first)
                from = states + (t - 1) * states_width;
            else if (c->hidden == 0)
                from = (global const float *)(state + cl_table(step, cache, c->slot)[0] * block_bytes);
            else
                from = kept + (c->slot * kept_rows + c->hidden - 1) * states_width;
            from += states_first;
        }
        float r = cl_norm_factor(from, width, lane, inv_n, eps);
        for (uint at = 0; at < width; at += OPENCL_NORM_CHUNK) {
            uint here = min(width - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = me; i < here; i += items) {
                float y = from[at + i] * r * weight[at + i];
                tile[i] = y;
                to[at + i] = y;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, t, first + at, tile, here, false, work);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Rows as they are, in the forms of out. part: as above. Local: tile OPENCL_NORM_CHUNK floats, work
 * OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) words. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void forms(CL_ARGUMENTS(FORMS)) {
    uint width = out_width;
    struct cl_forms o = CL_FORMS(out);
    uint parts = cl_ceil_div(width, part);
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * parts; item += get_num_groups(0)) {
        uint row = item / parts, begin = item % parts * part, end = min(begin + part, width);
        for (uint at = begin; at < end; at += OPENCL_NORM_CHUNK) {
            uint here = min(end - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = get_local_id(0); i < here; i += get_local_size(0)) {
                float y = x[row * width + at + i];
                tile[i] = y;
                if (out_has & OPENCL_F32)
                    ((global float *)(out + out_f32))[row * width + at + i] = y;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, row, at, tile, here, false, work);
        }
    }
}

/* Column c of row `row` of what several sources give (below). By its arguments' names: an array of them would lie in memory. */
#define LATER(k, begin_k)                                                                                    \
    from = c_ >= begin_k ? from##k : from;                                                                   \
    first = c_ >= begin_k ? begin_k : first;                                                                 \
    last = c_ >= begin_k ? end##k : last;
#define SOURCE(type, column)                                                                                 \
    uint c_ = column, first = 0, last = end0;                                                                \
    global const type *from = from0;                                                                         \
    LATER(1, end0)                                                                                           \
    LATER(2, end1)                                                                                           \
    LATER(3, end2)                                                                                           \
    LATER(4, end3)                                                                                           \
    LATER(5, end4)                                                                                           \
    LATER(6, end5)                                                                                           \
    LATER(7, end6)
#define JOINED(value, column)                                                                                \
    {                                                                                                        \
        SOURCE(float, column)                                                                                \
        value = from[row * (last - first) + (c_ - first)];                                                   \
    }

/* Rows of columns that several devices have made (below), added to those of x, to y; and the norm of the sums
 * to out. part, local memory: as of norm. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void exchange_norm(CL_ARGUMENTS(EXCHANGE_NORM)) {
    uint width = out_width, parts = cl_ceil_div(width, part), me = get_local_id(0), items = get_local_size(0);
    struct cl_forms o = CL_FORMS(out);
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_tokens * parts; item += get_num_groups(0)) {
        uint row = item / parts, begin = item % parts * part, end = min(begin + part, width);
        for (uint at = 0; at < width; at += OPENCL_NORM_CHUNK) {
            uint here = min(width - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = me; i < here; i += items) {
                float given;
                JOINED(given, at + i)
                tile[i] = x[row * width + at + i] + given;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint j = me; j < 128; j += items) {
                float sum = at == 0 ? 0.0f : lane[j];
                for (uint i = j; i < here; i += 128)
                    sum = fma(tile[i], tile[i], sum);
                lane[j] = sum;
            }
        }
        cl_sum128(lane, 1);
        float mean = lane[0] * inv_n, r = num_rsqrt(mean + eps);
        for (uint at = begin; at < end; at += OPENCL_NORM_CHUNK) {
            uint here = min(end - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = me; i < here; i += items) {
                uint to = row * width + at + i;
                float given;
                JOINED(given, at + i)
                float sum = x[to] + given, normed = sum * r * weight[at + i];
                y[to] = sum;
                tile[i] = normed;
                if (out_has & OPENCL_F32)
                    ((global float *)(out + out_f32))[to] = normed;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, row, at, tile, here, false, work);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Rows of columns that several devices have made: source i has columns from end(i - 1) to end(i) - 1, each in
 * rows of its own columns. They go to columns `column`.. of out; adds: to floats that are there. used: the
 * rows are those of the step's slots, so many of a token. wanted: they are its rows of logits.
 * owned: rows are whole, of so many columns, and that of a token is of the source whose ends hold the token;
 * pictures: that of a picture's token is of source 0. Int8 forms only of whole rows of out. part, local
 * memory: as above. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void exchange(CL_ARGUMENTS(EXCHANGE)) {
    global const float *const froms[8] = {from0, from1, from2, from3, from4, from5, from6, from7};
    const uint ends[8] = {end0, end1, end2, end3, end4, end5, end6, end7};
    uint width = owned ? owned : end7, parts = cl_ceil_div(width, part);
    global const int *tokens = (global const int *)(step + CL_STEP(step)->at_tokens);
    uint n = wanted ? CL_STEP(step)->n_rows : CL_STEP(step)->n_tokens * max(used, 1u);
    struct cl_forms o = CL_FORMS(out);
    for (uint item = get_group_id(0); item < n * parts; item += get_num_groups(0)) {
        uint begin = item % parts * part, end = min(begin + part, width), row = item / parts;
        row = used > 0 ? routes[EXPERTS_PLACE(slots) + row] : row;
        for (uint at = begin; at < end; at += OPENCL_NORM_CHUNK) {
            uint here = min(end - at, (uint)OPENCL_NORM_CHUNK);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = get_local_id(0); i < here; i += get_local_size(0)) {
                uint c = at + i, first = 0, last = end0, key = c;
                if (owned && tokens[row] < 0) /* graph_is_picture */
                    key = pictures ? 0 : (uint)(-1 - tokens[row]);
                else if (owned)
                    key = (uint)tokens[row];
                global const float *from = froms[0];
#pragma unroll
                for (uint k = 1; k < 8; k++) {
                    bool later = key >= ends[k - 1];
                    from = later ? froms[k] : from;
                    first = later ? ends[k - 1] : first;
                    last = later ? ends[k] : last;
                }
                float y = owned ? from[row * width + c] : from[row * (last - first) + (c - first)];
                tile[i] = y;
                global float *to = (global float *)(out + out_f32) + row * out_width + column + c;
                if (out_has & OPENCL_F32)
                    *to = adds ? *to + y : y;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&o, row, at, tile, here, false, work);
        }
    }
}

/* The same of rows that come in the one int8 form of out, those of a source as OPENCL_SCALES says; whole rows of
 * out, and no groups with one scale are cut. rows: that a source has room for. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void exchange_int8(CL_ARGUMENTS(EXCHANGE_INT8)) {
    struct cl_forms o = CL_FORMS(out);
    bool k = o.has & OPENCL_I8_256;
    uint width = o.width, parts = cl_ceil_div(width, part), me = get_local_id(0), items = get_local_size(0);
    uint n = CL_STEP(step)->n_tokens * max(used, 1u), scaled = k ? 256 : 32, summed = k ? 16 : 32;
    global uchar *quants = o.base + (k ? o.q256 : o.q32);
    global float *scales = (global float *)(o.base + (k ? o.d256 : o.d32));
    global short *sums = (global short *)(o.base + (k ? o.s256 : o.s32));
    for (uint item = get_group_id(0); item < n * parts; item += get_num_groups(0)) {
        uint begin = item % parts * part, end = min(begin + part, width), row = item / parts;
        row = used > 0 ? routes[EXPERTS_PLACE(slots) + row] : row;
        for (uint i = begin + 16 * me; i < end; i += 16 * items) {
            SOURCE(uchar, i)
            *(global uint4 *)(quants + row * width + i) =
                *(global const uint4 *)(from + row * (last - first) + (i - first));
        }
        for (uint i = begin + scaled * me; i < end; i += scaled * items) {
            SOURCE(uchar, i)
            uint here = last - first, at = (row * here + i - first) / scaled;
            scales[(row * width + i) / scaled] =
                ((global const float *)(from + OPENCL_SCALES(rows, here)))[at];
        }
        for (uint i = begin + summed * me; i < end; i += summed * items) {
            SOURCE(uchar, i)
            uint here = last - first, at = (row * here + i - first) / summed;
            sums[(row * width + i) / summed] =
                ((global const short *)(from + OPENCL_SUMS(rows, here, scaled)))[at];
        }
    }
}

/* Rotates heads as cl_rotate_heads, pairs as neox has them in each half of n_rot. */
static inline void rotate_halves(local float *x, uint heads, uint dim, uint n_rot, global const float *cos_sin) {
    uint pairs = n_rot / 2, apart = pairs / 2;
    for (uint i = get_local_id(0); i < heads * pairs; i += get_local_size(0)) {
        uint j = i % pairs;
        local float *a = x + i / pairs * dim + (j < apart ? j : j + apart);
        local float *b = a + apart;
        float va = *a, vb = *b, c = cos_sin[2 * j], s = cos_sin[2 * j + 1];
        float bs = vb * s, bc = vb * c;
        *a = fma(va, c, -bs);
        *b = fma(va, s, bc);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Rows of q, k and v: all heads of q normed together, and all of k, then rotated; or (late) rotated, then
 * each head normed; or (late: OPENCL_WIDE_PLAIN) rotated alone; or (OPENCL_WIDE_HEADS) each head normed, of v
 * (normed_v) without weights, then rotated (halves: rotate_halves); k and v go to the cache. A group has q, k or v of a token. Local:
 * tile OPENCL_NORM_CHUNK floats, lane 128 floats for each of CL_HEADS_AT_ONCE. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void norm_wide(CL_ARGUMENTS(WIDE)) {
    uint me = get_local_id(0), items = get_local_size(0);
    struct cl_cache cache = CL_CACHE(kv);
    global const float *angles = (global const float *)(step + CL_STEP(step)->at_rope) + rotation / 2;
    for (uint item = get_group_id(0); item < 3 * CL_STEP(step)->n_tokens; item += get_num_groups(0)) {
        uint t = item / 3, which = item % 3; /* CL_Q .. */
        uint heads = which == CL_Q ? n_heads : n_kv_heads, dim = which == CL_V ? head_v : head_k;
        uint column = which == CL_Q ? 0 : (which == CL_K ? n_heads : n_heads + n_kv_heads) * head_k;
        global float *row = x + t * width + column;
        global const float *weight = which == CL_Q ? q_norm : k_norm;
        float r = 1.0f;
        if (which != CL_V && late == OPENCL_WIDE_EARLY)
            r = cl_norm_factor(row, heads * dim, lane, which == CL_Q ? inv_q : inv_k, eps);
        uint most = OPENCL_NORM_CHUNK / dim;
        for (uint first = 0; first < heads; first += most) {
            uint here = min(heads - first, most);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = me; i < here * dim; i += items) {
                float v = row[first * dim + i];
                tile[i] = which == CL_V || late != OPENCL_WIDE_EARLY ? v : v * r * weight[first * dim + i];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (late == OPENCL_WIDE_HEADS && (which != CL_V || normed_v))
                cl_norm_heads(tile, here, dim, which == CL_V ? 0 : weight, which == CL_Q ? inv_q : inv_k, eps, lane);
            if (which != CL_V && halves)
                rotate_halves(tile, here, dim, n_rot, angles + t * CL_STEP(step)->rope_stride);
            else if (which != CL_V)
                cl_rotate_heads(tile, here, dim, n_rot, rotation, angles + t * CL_STEP(step)->rope_stride);
            if (which != CL_V && late == OPENCL_WIDE_LATE)
                cl_norm_heads(tile, here, dim, weight, which == CL_Q ? inv_q : inv_k, eps, lane);
            if (which == CL_Q) {
                for (uint i = me; i < here * dim; i += items)
                    row[first * dim + i] = tile[i];
            } else {
                cl_store(&cache, step, t, which == CL_K, cl_all_of(first, here, dim), tile);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
