/* The ends of a step: setting blocks of caches, rows of the embedding, the largest logit. */
#include "kernels/opencl/cl_kv.h"

/* Sets the blocks of a cache that the step names in `units` units of one slice, beginning at kv: to zeros, or
 * to another block's content. A group has a part of a block, of OPENCL_FILL_PART bytes. */
kernel void fill(CL_ARGUMENTS(FILL)) {
    global const struct step_cache *c = &CL_STEP(step)->cache[cache];
    global const struct step_fill *list = (global const struct step_fill *)(step + c->at_fill);
    uint parts = (block_stride + OPENCL_FILL_PART - 1) / OPENCL_FILL_PART;
    uint n = c->n_fill * units * parts;
    for (uint i = get_group_id(0); i < n; i += get_num_groups(0)) {
        struct step_fill f = list[i / parts / units];
        global uchar *unit = kv + i / parts % units * unit_bytes;
        global uint4 *to = (global uint4 *)(unit + f.block * block_stride);
        uint first = i % parts * (OPENCL_FILL_PART / 16);
        uint end = min(first + OPENCL_FILL_PART / 16, block_stride / 16);
        if (f.from == STEP_ZEROS) {
            for (uint j = first + get_local_id(0); j < end; j += get_local_size(0))
                to[j] = (uint4)(0);
        } else {
            global const uint4 *from = (global const uint4 *)(unit + f.from * block_stride);
            for (uint j = first + get_local_id(0); j < end; j += get_local_size(0))
                to[j] = from[j];
        }
    }
}

/* Copies the blocks of a cache that struct step_moves names, of units first .. first + units in one slice,
 * which begins at kv, to a buffer of the host, or from it. A group has a part of a block, as in `fill`. */
kernel void move(CL_ARGUMENTS(MOVE)) {
    global const struct step_moves *moves = (global const struct step_moves *)step;
    global const struct step_move *list = (global const struct step_move *)(moves + 1) + moves->cache[cache].first;
    uint apart = moves->cache[cache].apart;
    uint parts = (block_stride + OPENCL_FILL_PART - 1) / OPENCL_FILL_PART;
    uint n = moves->cache[cache].n * units * parts;
    for (uint i = get_group_id(0); i < n; i += get_num_groups(0)) {
        uint here = i / parts % units, unit = first + here;
        uint at = list[i / parts / units].at + unit / layer_units * apart +
                  unit % layer_units * (block_stride / STEP_MOVE_UNIT);
        global uint4 *kept = (global uint4 *)(kv + here * unit_bytes + list[i / parts / units].block * block_stride);
        global uint4 *other = (global uint4 *)buffer + at;
        uint begin = i % parts * (OPENCL_FILL_PART / 16);
        uint end = min(begin + OPENCL_FILL_PART / 16, block_stride / 16);
        for (uint j = begin + get_local_id(0); j < end; j += get_local_size(0)) {
            if (moves->out)
                other[j] = kept[j];
            else
                kept[j] = other[j];
        }
    }
}

/* x[token] = scale * row of the weight, for tokens whose panel lies in this piece: panels first_panel .. +
 * panels. file: the weight's type there.
 * A picture's token takes the row in `pictures`, or, where that has no width, the marker's row. */
kernel void embed(CL_ARGUMENTS(EMBED)) {
    struct cl_planes p = cl_planes(type, file, width);
    global const int *tokens = (global const int *)(step + CL_STEP(step)->at_tokens);
    uint n = CL_STEP(step)->n_tokens;
    for (uint t = get_group_id(0); t < n; t += get_num_groups(0)) {
        int id = tokens[t];
        if (id < 0 && pictures_width > 0) { /* graph_is_picture */
            for (uint c = get_local_id(0); c < width; c += get_local_size(0))
                x[t * stride + c] = pictures[t * pictures_width + c];
            continue;
        }
        uint row = (uint)(id < 0 ? -1 - id : id);
        uint panel = row / 16 - first_panel;
        if (panel >= panels) /* also those before the first */
            continue;
        cl_bytes at = piece + panel * p.panel_bytes;
        for (uint c = get_local_id(0); c < width; c += get_local_size(0))
            x[t * stride + c] = cl_decode(type, &p, at, row % 16, c) * scale;
    }
}

/* States of the last known token of each chunk and of its guesses to the rows that the sequence keeps; of the
 * known one to its cache, too. */
kernel void keep(CL_ARGUMENTS(KEEP)) {
    global const struct step_chunk *chunks =
        (global const struct step_chunk *)(step + CL_STEP(step)->at_chunks);
    uint n = CL_STEP(step)->n_chunks * kept_rows;
    for (uint item = get_group_id(0); item < n; item += get_num_groups(0)) {
        global const struct step_chunk *c = &chunks[item / kept_rows];
        uint row = item % kept_rows;
        if (row > c->tested)
            continue;
        global const float *from = in + (c->first + c->n - c->tested - 1 + row) * width;
        global float *to = kept + (c->slot * kept_rows + row) * width;
        for (uint i = get_local_id(0); i < width; i += get_local_size(0))
            to[i] = from[i];
        if (row > 0 || !has_state)
            continue;
        to = (global float *)(state + cl_table(step, cache, c->slot)[0] * block_bytes);
        for (uint i = get_local_id(0); i < width; i += get_local_size(0))
            to[i] = from[i];
    }
}

/* Rows of logits through num_softcap. */
kernel void softcap(CL_ARGUMENTS(SOFTCAP)) {
    uint n = CL_STEP(step)->n_rows * vocab;
    for (uint i = get_global_id(0); i < n; i += get_global_size(0))
        logits[i] = num_softcap(logits[i], cap, inverse);
}

/* Loads of an item that are in flight at once. */
#define AHEAD 16

/* What is known of some logits of a row: the largest, its index (the first of equals), whether all are finite. */
struct best {
    float most;
    uint where, fine;
};

/* Group: the best of all items'; to item 0. Local: a word for each item. */
static inline struct best best_of_all(struct best mine, local float *largest, local uint *where, local uint *fine) {
    uint me = get_local_id(0);
    largest[me] = mine.most;
    where[me] = mine.where;
    fine[me] = mine.fine;
    for (uint reach = OPENCL_GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < reach) {
            float other = largest[me + reach];
            if (other > mine.most || (other == mine.most && where[me + reach] < mine.where)) {
                largest[me] = mine.most = other;
                where[me] = mine.where = where[me + reach];
            }
            fine[me] = mine.fine &= fine[me + reach];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return mine;
}

/* The best of each part of each row of logits, to three words of `parts`. */
kernel __attribute__((reqd_work_group_size(OPENCL_GROUP, 1, 1))) void argmax_parts(CL_ARGUMENTS(ARGMAX_PARTS)) {
    local float largest[OPENCL_GROUP];
    local uint where[OPENCL_GROUP], fine[OPENCL_GROUP];
    uint me = get_local_id(0), n = CL_STEP(step)->n_rows * n_parts;
    uint each = (vocab + n_parts - 1) / n_parts;
    for (uint item = get_group_id(0); item < n; item += get_num_groups(0)) {
        uint row = item / n_parts, begin = min(item % n_parts * each, vocab - 1), end = min(begin + each, vocab);
        global const float *x = logits + row * vocab;
        /* Items beyond the part repeat its first number, and parts beyond the row its last. */
        uint first = begin + me < end ? begin + me : begin;
        struct best b = {x[first], first, 1};
        for (uint i = first; i < end; i += AHEAD * OPENCL_GROUP) {
            float v[AHEAD];
#pragma unroll
            for (uint m = 0; m < AHEAD; m++) /* those that are not there repeat one that is */
                v[m] = x[i + m * OPENCL_GROUP < end ? i + m * OPENCL_GROUP : i];
#pragma unroll
            for (uint m = 0; m < AHEAD; m++) {
                b.fine &= (NUM_BITS(v[m]) & 0x7f800000u) != 0x7f800000u;
                b.where = v[m] > b.most ? i + m * OPENCL_GROUP : b.where;
                b.most = v[m] > b.most ? v[m] : b.most;
            }
        }
        b = best_of_all(b, largest, where, fine);
        if (me == 0) {
            parts[3 * item] = NUM_BITS(b.most);
            parts[3 * item + 1] = b.where;
            parts[3 * item + 2] = b.fine;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Per row of logits, from its parts: the index of the largest, the first of equals, and whether all are finite.
 * n_parts: at most as many as a group has items. */
kernel __attribute__((reqd_work_group_size(OPENCL_GROUP, 1, 1))) void argmax(CL_ARGUMENTS(ARGMAX)) {
    local float largest[OPENCL_GROUP];
    local uint where[OPENCL_GROUP], fine[OPENCL_GROUP];
    uint me = get_local_id(0), rows = CL_STEP(step)->n_rows;
    for (uint row = get_group_id(0); row < rows; row += get_num_groups(0)) {
        global const uint *from = parts + 3 * (row * n_parts + min(me, n_parts - 1));
        struct best b = {NUM_FLOAT(from[0]), from[1], from[2]};
        b = best_of_all(b, largest, where, fine);
        if (me == 0) {
            picks[row].token = (int)b.where;
            picks[row].finite = b.fine;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
