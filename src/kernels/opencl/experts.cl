/* Mixture of experts but for its products: which experts a token has, slots grouped by expert, and the sum of
 * a token's. kernels/shared/experts.h has the words of routes, kernels/kernels.h the definition. */
#include "kernels/opencl/cl_common.h"
#include "kernels/shared/experts.h"

/* Group: the largest logit. */
static inline float largest_of(global const float *l, uint experts, local float *lane) {
    for (uint j = get_local_id(0); j < 128; j += get_local_size(0)) {
        float best = l[j < experts ? j : 0];
        for (uint e = j; e < experts; e += 128)
            best = experts_key(l[e]) > experts_key(best) ? l[e] : best;
        lane[j] = best;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float most = lane[0];
    for (uint j = 1; j < 128; j++)
        most = experts_key(lane[j]) > experts_key(most) ? lane[j] : most;
    barrier(CLK_LOCAL_MEM_FENCE);
    return most;
}

/* Group: the sum of the softmax of all logits, in lane[0]. */
static inline void sum_all(global const float *l, uint experts, float most, local float *lane) {
    for (uint j = get_local_id(0); j < 128; j += get_local_size(0)) {
        float sum = 0.0f;
        for (uint e = j; e < experts; e += 128)
            sum += num_exp(l[e] - most);
        lane[j] = sum;
    }
    cl_sum128(lane, 1);
}

/* The float that has this key. */
static inline float score_of(uint key) {
    return NUM_FLOAT(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* Group: experts of groups that are not chosen get the key of none. best: a word per group. */
static inline void leave_groups(local uint *key, uint experts, uint groups, uint chosen, bool sums,
                                local uint *best) {
    uint me = get_local_id(0), each = experts / groups;
    for (uint g = me; g < groups; g += OPENCL_GROUP) {
        uint first = key[g * each], second = 0;
        for (uint e = g * each + 1; e < (g + 1) * each; e++) {
            uint k = key[e];
            second = k > first ? first : max(second, k);
            first = max(first, k);
        }
        best[g] = sums && each > 1 ? experts_key(score_of(first) + score_of(second)) : first;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = me; e < experts; e += OPENCL_GROUP) {
        uint g = e / each, mine = best[g], better = 0;
        for (uint o = 0; o < groups; o++)
            better += best[o] > mine || (best[o] == mine && o < g);
        if (better >= chosen)
            key[e] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* The words of routes that group_slots makes, of the only token: each of its slots has an expert of its own.
 * Item me < used. */
static inline void group_one(global uint *routes, uint me, uint expert, uint weight, uint used, uint slots,
                             uint rows, uint align) {
    global uint *item = routes + EXPERTS_ITEMS(slots) + EXPERTS_ITEM * me;
    uint row = me * align;
    item[EXPERTS_EXPERT] = expert;
    item[EXPERTS_ROW] = row;
    item[EXPERTS_ROWS] = 1;
    routes[EXPERTS_PLACE(slots) + me] = row;
    routes[EXPERTS_TOKEN(slots) + row] = 0;
    routes[EXPERTS_FACTOR(slots, rows) + row] = weight;
    if (me == 0)
        routes[0] = used;
}

/* Per token: a group. Local: key a word per expert, flag too, weight EXPERTS_MAX_USED floats, lane 128. An
 * expert is chosen if fewer than `used` are better: keys are integers, so that as many as `used` always are.
 * align: of the rows of the only token, which needs no group_slots then; else 0. */
kernel __attribute__((reqd_work_group_size(OPENCL_GROUP, 1, 1))) void route(CL_ARGUMENTS(ROUTE)) {
    uint me = get_local_id(0), n = CL_STEP(step)->n_tokens;
    for (uint t = get_group_id(0); t < n; t += get_num_groups(0)) {
        global const float *l = logits + t * width;
        barrier(CLK_LOCAL_MEM_FENCE);
        bool shares = biased && !(how & EXPERTS_SIGMOID); /* of the softmax choose, with the bias */
        float top = 0.0f, by = 0.0f;
        if (shares) {
            top = largest_of(l, experts, lane);
            sum_all(l, experts, top, lane);
            by = num_rcp(lane[0]);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint e = me; e < experts; e += OPENCL_GROUP) {
            float score = l[e];
            if (how & EXPERTS_SIGMOID)
                score = num_sigmoid(score) + (biased ? bias[e] : 0.0f);
            if (shares) {
                float share = num_exp(score - top) * by;
                score = share + bias[e];
            }
            key[e] = experts_key(score);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (groups > 1)
            leave_groups(key, experts, groups, groups_used, (how & EXPERTS_SIGMOID) != 0, flag);
        for (uint e = me; e < experts; e += OPENCL_GROUP) { /* flag: the chosen, the best first */
            uint mine = key[e], better = 0;
#pragma unroll 8
            for (uint o = 0; o < experts; o++)
                better += key[o] > mine || (key[o] == mine && o < e);
            if (better < used)
                flag[better] = e;
            if (better == 0)
                lane[0] = l[e];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float most = how & EXPERTS_SIGMOID ? 0.0f : shares ? top : lane[0];
        if (me < used) {
            uint e = flag[me], at = 0;
            float x = l[e];
            for (uint o = 0; o < used; o++)
                at += flag[o] < e;
            routes[EXPERTS_CHOSEN(slots) + t * used + at] = e;
            weight[at] = how & EXPERTS_SIGMOID ? num_sigmoid(x) : num_exp(x - most);
            key[at] = e;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!(how & (EXPERTS_SIGMOID | EXPERTS_NORM))) {
            sum_all(l, experts, most, lane);
        }
        if (me < used) {
            float sum = 0.0f;
            by = 1.0f;
            for (uint i = 0; i < used; i++)
                sum += weight[i];
            if (how == (EXPERTS_SIGMOID | EXPERTS_NORM))
                by = num_rcp(sum > EXPERTS_LEAST ? sum : EXPERTS_LEAST);
            else if (!(how & EXPERTS_SIGMOID))
                by = num_rcp(how & EXPERTS_NORM ? sum : lane[0]);
            float w = weight[me] * by;
            uint bits = NUM_BITS(w * scale);
            routes[EXPERTS_WEIGHT(slots) + t * used + me] = bits;
            if (align > 0)
                group_one(routes, me, key[me], bits, used, slots, rows, align);
        }
    }
    if (align > 0 && n == 0 && get_group_id(0) == 0 && me == 0)
        routes[0] = 0;
}

/* One group: rows and items of the step's slots. Local: four words per expert, and one per item of the group.
 * An item has a slot, not an expert, which would wait for memory at each of its slots. */
kernel __attribute__((reqd_work_group_size(OPENCL_GROUP, 1, 1))) void group_slots(CL_ARGUMENTS(GROUP_SLOTS)) {
    uint me = get_local_id(0), n = CL_STEP(step)->n_tokens * used;
    global const uint *chosen = routes + EXPERTS_CHOSEN(slots);
    global uint *place = routes + EXPERTS_PLACE(slots);
    if (get_group_id(0) > 0)
        return;
    for (uint e = me; e < experts; e += OPENCL_GROUP)
        count[e] = 0;
    /* place: which of its expert's slots it is, until the expert's row is known. */
    for (uint first = 0; first < n; first += OPENCL_GROUP) {
        uint here = min(n - first, (uint)OPENCL_GROUP), expert = me < here ? chosen[first + me] : 0;
        uint before = 0, after = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        some[me] = expert;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < here; i++) {
            before += some[i] == expert && i < me;
            after += some[i] == expert && i > me;
        }
        uint at = count[expert] + before;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < here) {
            place[first + me] = at;
            if (after == 0)
                count[expert] = at + 1;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = me; e < experts; e += OPENCL_GROUP) {
        taken[e] = cl_ceil_div(count[e], align) * align;
        items[e] = cl_ceil_div(count[e], tile);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = me; e < experts; e += OPENCL_GROUP) {
        uint row = 0, item = 0, left = count[e];
        for (uint o = 0; o < e; o++) {
            row += taken[o];
            item += items[o];
        }
        begin[e] = row;
        if (e + 1 == experts)
            routes[0] = item + items[e];
        global uint *to = routes + EXPERTS_ITEMS(slots) + EXPERTS_ITEM * item;
        for (uint first = 0; first < left; first += tile, to += EXPERTS_ITEM) {
            to[EXPERTS_EXPERT] = e;
            to[EXPERTS_ROW] = row + first;
            to[EXPERTS_ROWS] = min(left - first, tile);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = me; s < n; s += OPENCL_GROUP) {
        uint row = begin[chosen[s]] + place[s];
        place[s] = row;
        routes[EXPERTS_TOKEN(slots) + row] = s / used;
        routes[EXPERTS_FACTOR(slots, rows) + row] = routes[EXPERTS_WEIGHT(slots) + s];
    }
}

/* One group: the routes of experts that have a slot on the device, in `near`: items name the slot in place of
 * the expert, the words of CHOSEN are the slot, or EXPERTS_FAR. Rows are those of all experts. map: of each
 * expert. Local: a word per item of the group. */
kernel __attribute__((reqd_work_group_size(OPENCL_GROUP, 1, 1))) void near_slots(CL_ARGUMENTS(NEAR)) {
    uint me = get_local_id(0), n = CL_STEP(step)->n_tokens * used, items = routes[0], found = 0;
    if (get_group_id(0) > 0)
        return;
    for (uint s = me; s < n; s += OPENCL_GROUP) {
        near[EXPERTS_CHOSEN(slots) + s] = map[routes[EXPERTS_CHOSEN(slots) + s]];
        near[EXPERTS_TOKEN(slots) + s] = routes[EXPERTS_TOKEN(slots) + s];
    }
    for (uint first = 0; first < items; first += OPENCL_GROUP) {
        uint here = min(items - first, (uint)OPENCL_GROUP), before = 0, all = 0;
        global const uint *item = routes + EXPERTS_ITEMS(slots) + EXPERTS_ITEM * (first + min(me, here - 1));
        uint slot = me < here ? map[item[EXPERTS_EXPERT]] : EXPERTS_FAR;
        barrier(CLK_LOCAL_MEM_FENCE);
        some[me] = slot != EXPERTS_FAR;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < here; i++) {
            before += i < me ? some[i] : 0;
            all += some[i];
        }
        if (slot != EXPERTS_FAR) {
            global uint *to = near + EXPERTS_ITEMS(slots) + EXPERTS_ITEM * (found + before);
            to[EXPERTS_EXPERT] = slot;
            to[EXPERTS_ROW] = item[EXPERTS_ROW];
            to[EXPERTS_ROWS] = item[EXPERTS_ROWS];
        }
        found += all;
    }
    if (me == 0)
        near[0] = found;
}

/* Copies what experts have of a weight, its bias and its factor, to their slots. list: how many, then an
 * expert and a slot of each. Only experts first .. end are in w. */
kernel void take_expert(CL_ARGUMENTS(TAKE)) {
    uint bytes = panels * panel_bytes, n = list[0];
    (void)step, (void)w_type, (void)w_file;
    for (uint c = 0; c < n; c++) {
        uint expert = list[1 + 2 * c], slot = list[2 + 2 * c], panel = expert * panels;
        if (expert < first || expert >= end)
            continue;
        global const uchar *from =
            panel < w_cut ? w_a + (panel - w_first) * panel_bytes : w_b + (panel - w_cut) * panel_bytes;
        global const uint4 *words = (global const uint4 *)from;
        global uint4 *to = (global uint4 *)(slots + slot * bytes);
        for (uint i = get_global_id(0); i < bytes / 16; i += get_global_size(0))
            to[i] = words[i];
        for (uint i = get_global_id(0); i < bias_words; i += get_global_size(0))
            slot_bias[slot * bias_words + i] = bias[expert * bias_words + i];
        if (has_factor && get_global_id(0) == 0)
            slot_factor[slot] = factor[expert];
    }
}

/* x[token] += (stores: =) the rows of its slots, times their weights, in order; then the shared row, times
 * its gate. Rows are those of y; has_near: of experts with a slot on the device they are those of `own`. */
kernel __attribute__((reqd_work_group_size(OPENCL_GROUP, 1, 1))) void mix(CL_ARGUMENTS(MIX)) {
    uint parts = cl_ceil_div(width, OPENCL_GROUP), items = CL_STEP(step)->n_tokens * parts;
    for (uint item = get_group_id(0); item < items; item += get_num_groups(0)) {
        uint t = item / parts, i = item % parts * OPENCL_GROUP + (uint)get_local_id(0);
        if (i >= width)
            continue;
        float sum = 0.0f;
        for (uint s = t * used; s < (t + 1) * used; s++) {
            global const float *row = has_near && near[EXPERTS_CHOSEN(slots) + s] != EXPERTS_FAR ? own : y;
            sum = fma(row[routes[EXPERTS_PLACE(slots) + s] * width + i],
                      NUM_FLOAT(routes[EXPERTS_WEIGHT(slots) + s]), sum);
        }
        if (has_shared) {
            float by = has_gate ? num_sigmoid(gate[t * gate_width + gate_column]) : 1.0f;
            sum = fma(shared[t * width + i], by, sum);
        }
        x[t * width + i] = stores ? sum : x[t * width + i] + sum;
    }
}
