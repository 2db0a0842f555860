/* The delta rule of delta-nets, and the state space of Mamba-2 (kernels.h, struct kernels_delta): a work group
 * per 32 columns of the state of a head and sequence. CL_SUB_GROUP: 16, or 8 where registers are few.
 * The kernels' names begin with the module's: rule_delta. */
#include "kernels/opencl/cl_states.h"

/* Items of a group: those of a column have a quarter of its rows each, every fourth. */
#define LANES 4
#define ITEMS (DELTA_BLOCK * LANES)

/* The last taps - 1 rows of what was convolved by so many tokens, for the next step; a channel per item. */
static inline void keep_window(global float *kept, global const float *rows, uint channels, uint channel,
                               uint taps, uint tokens) {
    if (channel >= channels)
        return;
    for (uint i = 0; i + 1 < taps; i++) {
        uint from = i + tokens;
        kept[i * channels + channel] =
            from + 1 < taps ? kept[from * channels + channel] : rows[(from + 1 - taps) * channels + channel];
    }
}

static inline float sum4(local const float *part, uint column) {
    float even = part[column] + part[column + 2 * DELTA_BLOCK];
    float odd = part[column + DELTA_BLOCK] + part[column + 3 * DELTA_BLOCK];
    return even + odd;
}

/* Columns of a token's row, and of its state. */
struct rule {
    uint channels, q_at, k_at, v_at;
    uint blocks; /* of DELTA_BLOCK columns */
    uint rules;  /* of a sequence */
};

static inline struct rule rule_of(uint key_heads, uint value_heads, uint dim_k, uint dim_v, bool ssd) {
    uint keys = key_heads * dim_k, values = value_heads * dim_v;
    struct rule r;
    r.channels = 2 * keys + values;
    r.q_at = ssd ? values + keys : 0;
    r.k_at = ssd ? values : keys;
    r.v_at = ssd ? 0 : 2 * keys;
    r.blocks = cl_ceil_div(dim_v, (uint)DELTA_BLOCK);
    r.rules = value_heads * r.blocks;
    return r;
}

/* What a state is multiplied by before a token, and the token's factor; x: alpha and beta of the token. */
static inline void rule_factors(bool ssd, float alpha, float beta, float bias, float a, local float *decay,
                                local float *factor) {
    float dt = num_softplus(alpha + bias);
    dt = ssd ? delta_factor(dt) : dt;
    *decay = delta_factor(num_exp(dt * a));
    *factor = ssd ? dt : delta_factor(num_sigmoid(beta));
}

/* Rows of an item. In local memory a vector of k or of q lies by lanes, so that an item loads four of its rows
 * at once; ALL: dim_k is ROWS * LANES. */
#define ROWS   (DELTA_TESTED_STATE / LANES)
#define APART  (ROWS + 4)
#define VECTOR (LANES * APART)

/* The item's rows of s times those of x. */
static inline float rows_dot(bool all, const float *s, local const float *x, uint lane, uint dim_k) {
    local const float4 *four = (local const float4 *)(x + lane * APART);
    float sum = 0.0f;
#pragma unroll
    for (uint i = 0; i < ROWS / 4; i++) {
        float4 v = four[i];
        if (all || LANES * (4 * i) + lane < dim_k)
            sum = fma(s[4 * i], v.x, sum);
        if (all || LANES * (4 * i + 1) + lane < dim_k)
            sum = fma(s[4 * i + 1], v.y, sum);
        if (all || LANES * (4 * i + 2) + lane < dim_k)
            sum = fma(s[4 * i + 2], v.z, sum);
        if (all || LANES * (4 * i + 3) + lane < dim_k)
            sum = fma(s[4 * i + 3], v.w, sum);
    }
    return sum;
}

/* The item's rows of s after a token; gives the sum of them times q's. */
static inline float rows_update(bool all, float *s, local const float *k, local const float *q, uint lane,
                                uint dim_k, float decay, float e) {
    local const float4 *of_k = (local const float4 *)(k + lane * APART);
    local const float4 *of_q = (local const float4 *)(q + lane * APART);
    float sum = 0.0f;
#define UPDATE(n, c)                                                                                         \
    if (all || LANES * (4 * i + n) + lane < dim_k) {                                                         \
        float kept = s[4 * i + n] * decay;                                                                   \
        s[4 * i + n] = fma(vk.c, e, kept);                                                                   \
        sum = fma(s[4 * i + n], vq.c, sum);                                                                  \
    }
#pragma unroll
    for (uint i = 0; i < ROWS / 4; i++) {
        float4 vk = of_k[i], vq = of_q[i];
        UPDATE(0, x)
        UPDATE(1, y)
        UPDATE(2, z)
        UPDATE(3, w)
    }
#undef UPDATE
    return sum;
}

/* in: rows of q, k, v, .., beta, alpha, or (SSD) of v, k, q, .., alpha; raw: what was convolved. The state
 * stays in registers: keys have at most DELTA_TESTED_STATE values.
 *   A token costs one barrier. Its k and q are in local memory when it begins, the next token's in registers,
 * from which they go to local memory, and those after it are loaded. Its output is added up behind the next
 * token's barrier. Local: k and q of three tokens, two of all else: 6 * VECTOR + 8 * ITEMS floats. */
#define DELTA_RULE(NAME, ALL, SSD)                                                                           \
    kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(CL_SUB_GROUP))) void NAME(      \
        CL_ARGUMENTS(DELTA)) {                                                                               \
        struct states states = {state, block_bytes, cache, window};                                          \
        const struct rule r = rule_of(key_heads, value_heads, dim_k, dim_v, SSD);                            \
        uint me = get_local_id(0), column = me % DELTA_BLOCK, lane = me / DELTA_BLOCK;                       \
        local float *vectors = (local float *)memory, *part = vectors + 6 * VECTOR;                          \
        local float *part_out = part + 2 * ITEMS, *decays = part_out + 2 * ITEMS;                            \
        local float *betas = decays + 2 * ITEMS, *mine = vectors + me % LANES * APART + me / LANES;          \
        uint each = r.rules + cl_ceil_div(r.channels, (uint)ITEMS);                                          \
        for (uint item = get_group_id(0); item < CL_STEP(step)->n_chunks * each;                             \
             item += get_num_groups(0)) {                                                                    \
            global const struct step_chunk *chunk =                                                          \
                (global const struct step_chunk *)(step + CL_STEP(step)->at_chunks) + item / each;           \
            global float *all = state_of(&states, step, chunk);                                              \
            uint at = item % each, first = chunk->first, tokens = chunk->n;                                  \
            uint keep = tokens - chunk->tested; /* the state is stored behind these */                       \
            if (at >= r.rules) {                                                                             \
                keep_window(all + window / 4, raw + first * r.channels, r.channels,                          \
                            (at - r.rules) * ITEMS + me, taps, keep);                                        \
                continue;                                                                                    \
            }                                                                                                \
            uint head = at / r.blocks, block = at % r.blocks, columns = dim_v - block * DELTA_BLOCK;         \
            bool loads = me < dim_k, writes = lane == 0 && column < columns;                                 \
            global float *rows = all + at * dim_k * DELTA_BLOCK + column;                                    \
            uint to = head * dim_v + block * DELTA_BLOCK + column,                                           \
                 factor = SSD ? head : delta_column(head, grouped);                                          \
            /* What the item loads of each token; where it has none, the first of its row. */                \
            global const float *row = in + first * in_width;                                                 \
            uint key = delta_key(head, key_heads, grouped) * dim_k + (loads ? me : 0);                       \
            uint q_from = r.q_at + key, k_from = r.k_at + key;                                               \
            uint v_from = column < columns ? r.v_at + to : 0;                                                \
            float s[ROWS];                                                                                   \
            _Pragma("unroll") for (uint i = 0; i < ROWS; i++) s[i] =                                         \
                ALL || LANES * i + lane < dim_k ? rows[(LANES * i + lane) * DELTA_BLOCK] : 0.0f;             \
            if (loads) {                                                                                     \
                mine[0] = row[k_from];                                                                       \
                mine[VECTOR] = row[q_from];                                                                  \
            }                                                                                                \
            float v = row[v_from], before = 0.0f;                                                            \
            global const float *next = row + (tokens > 1 ? in_width : 0);                                    \
            float next_k = next[k_from], next_q = next[q_from], next_v = next[v_from];                       \
            float skipped = SSD ? skip[head] : 0.0f, bias_of = bias[head], a_of = a[head];                   \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
            uint place = 0; /* of this token's k and q */                                                    \
            for (uint t = 0; t < tokens; t++) {                                                              \
                uint odd = t % 2 * ITEMS, then = place < 2 ? place + 1 : 0;                                  \
                uint factors = t / ITEMS % 2 * ITEMS;                                                        \
                local const float *k = vectors + place * 2 * VECTOR, *q = k + VECTOR;                        \
                if (t % ITEMS == 0 && t + me < tokens) {                                                     \
                    global const float *x = row + (t + me) * in_width;                                       \
                    rule_factors(SSD, x[alpha_at + factor], SSD ? 0.0f : x[beta_at + factor], bias_of, a_of, \
                                 decays + factors + me, betas + factors + me);                               \
                }                                                                                            \
                if (loads) { /* of the last token once more, which nobody sees */                            \
                    mine[then * 2 * VECTOR] = next_k;                                                        \
                    mine[then * 2 * VECTOR + VECTOR] = next_q;                                               \
                }                                                                                            \
                float v_of = column < columns ? v : 0.0f;                                                    \
                v = next_v;                                                                                  \
                next = row + min(t + 2, tokens - 1) * in_width;                                              \
                next_k = next[k_from], next_q = next[q_from], next_v = next[v_from];                         \
                if (!SSD)                                                                                    \
                    part[odd + me] = rows_dot(ALL, s, k, lane, dim_k);                                       \
                barrier(CLK_LOCAL_MEM_FENCE);                                                                \
                float decay = decays[factors + t % ITEMS], beta = betas[factors + t % ITEMS];                \
                float e = SSD ? v_of * beta : fma(-decay, sum4(part + odd, column), v_of) * beta;            \
                if (writes && t > 0) {                                                                       \
                    float y = sum4(part_out + (ITEMS - odd), column);                                        \
                    out[(first + t - 1) * out_width + to] = SSD ? fma(skipped, before, y) : y * scale;       \
                }                                                                                            \
                before = v_of;                                                                               \
                part_out[odd + me] = rows_update(ALL, s, k, q, lane, dim_k, decay, e);                       \
                place = then;                                                                                \
                if (t + 1 != keep)                                                                           \
                    continue;                                                                                \
                _Pragma("unroll") for (uint i = 0; i < ROWS; i++) if (ALL || LANES * i + lane < dim_k)       \
                    rows[(LANES * i + lane) * DELTA_BLOCK] = s[i];                                           \
            }                                                                                                \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
            if (writes) {                                                                                    \
                float y = sum4(part_out + (tokens - 1) % 2 * ITEMS, column);                                 \
                out[(first + tokens - 1) * out_width + to] = SSD ? fma(skipped, before, y) : y * scale;      \
            }                                                                                                \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
        }                                                                                                    \
    }

DELTA_RULE(CL_JOIN(CL_NAME, _delta), true, false)
DELTA_RULE(CL_JOIN(CL_NAME, _delta_small), false, false)
DELTA_RULE(CL_JOIN(CL_NAME, _states), false, true) /* with ALL it spills on pvc */

/* The same of longer keys, whose state stays in memory, and which know no guesses (planning refuses them).
 * Local: 2 * dim_k + 4 * ITEMS floats. */
#define DELTA_WIDE(NAME, SSD)                                                                                \
    kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(CL_SUB_GROUP))) void NAME(      \
        CL_ARGUMENTS(DELTA)) {                                                                               \
        struct states states = {state, block_bytes, cache, window};                                          \
        const struct rule r = rule_of(key_heads, value_heads, dim_k, dim_v, SSD);                            \
        uint me = get_local_id(0), column = me % DELTA_BLOCK, lane = me / DELTA_BLOCK;                       \
        local float *k = (local float *)memory, *q = k + dim_k, *part = q + dim_k, *part_out = part + ITEMS; \
        local float *decays = part_out + ITEMS, *betas = decays + ITEMS;                                     \
        uint each = r.rules + cl_ceil_div(r.channels, (uint)ITEMS);                                          \
        for (uint item = get_group_id(0); item < CL_STEP(step)->n_chunks * each;                             \
             item += get_num_groups(0)) {                                                                    \
            global const struct step_chunk *chunk =                                                          \
                (global const struct step_chunk *)(step + CL_STEP(step)->at_chunks) + item / each;           \
            global float *all = state_of(&states, step, chunk);                                              \
            uint at = item % each, first = chunk->first, tokens = chunk->n;                                  \
            if (at >= r.rules) {                                                                             \
                keep_window(all + window / 4, raw + first * r.channels, r.channels,                          \
                            (at - r.rules) * ITEMS + me, taps, tokens);                                      \
                continue;                                                                                    \
            }                                                                                                \
            uint head = at / r.blocks, block = at % r.blocks, columns = dim_v - block * DELTA_BLOCK;         \
            global float *rows = all + at * dim_k * DELTA_BLOCK + column;                                    \
            uint key = delta_key(head, key_heads, grouped) * dim_k;                                          \
            uint to = head * dim_v + block * DELTA_BLOCK + column,                                           \
                 factor = SSD ? head : delta_column(head, grouped);                                          \
            uint most = cl_ceil_div(dim_k, (uint)LANES);                                                     \
            for (uint t = 0; t < tokens; t++) {                                                              \
                global const float *x = in + (first + t) * in_width;                                         \
                if (t % ITEMS == 0 && t + me < tokens) {                                                     \
                    global const float *mine = x + me * in_width;                                            \
                    rule_factors(SSD, mine[alpha_at + factor], SSD ? 0.0f : mine[beta_at + factor],          \
                                 bias[head], a[head], decays + me, betas + me);                              \
                }                                                                                            \
                for (uint i = me; i < dim_k; i += ITEMS) {                                                   \
                    q[i] = x[r.q_at + key + i];                                                              \
                    k[i] = x[r.k_at + key + i];                                                              \
                }                                                                                            \
                barrier(CLK_LOCAL_MEM_FENCE);                                                                \
                float decay = decays[t % ITEMS], beta = betas[t % ITEMS], sum = 0.0f;                        \
                float v = column < columns ? x[r.v_at + to] : 0.0f, e = v * beta;                            \
                if (!SSD) {                                                                                  \
                    for (uint i = 0; i < most; i++) {                                                        \
                        uint row = LANES * i + lane;                                                         \
                        if (row < dim_k)                                                                     \
                            sum = fma(rows[row * DELTA_BLOCK], k[row], sum);                                 \
                    }                                                                                        \
                    part[me] = sum;                                                                          \
                    barrier(CLK_LOCAL_MEM_FENCE);                                                            \
                    e = fma(-decay, sum4(part, column), v) * beta;                                           \
                }                                                                                            \
                sum = 0.0f;                                                                                  \
                for (uint i = 0; i < most; i++) {                                                            \
                    uint row = LANES * i + lane;                                                             \
                    if (row < dim_k) {                                                                       \
                        float kept = rows[row * DELTA_BLOCK] * decay;                                        \
                        float now = fma(k[row], e, kept);                                                    \
                        rows[row * DELTA_BLOCK] = now;                                                       \
                        sum = fma(now, q[row], sum);                                                         \
                    }                                                                                        \
                }                                                                                            \
                part_out[me] = sum;                                                                          \
                barrier(CLK_LOCAL_MEM_FENCE);                                                                \
                if (lane == 0 && column < columns) {                                                         \
                    float y = sum4(part_out, column);                                                        \
                    out[(first + t) * out_width + to] = SSD ? fma(skip[head], v, y) : y * scale;             \
                }                                                                                            \
            }                                                                                                \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
        }                                                                                                    \
    }

DELTA_WIDE(CL_JOIN(CL_NAME, _delta_wide), false)
DELTA_WIDE(CL_JOIN(CL_NAME, _states_wide), true)
