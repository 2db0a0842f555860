/* Attention over the cache. A group has one query group's heads (all heads of one KV head) of a few queries,
 * a tile. Rows are (query, head) pairs, up to OPENCL_ATTENTION_ROWS at a time; splits of 256 tokens each as
 * kernels.h says: item t has the scores of token t of the split, then item d of the output the column d.
 *
 * For a chunk of few queries that sees several splits, the splits run in parallel (launch_cut): every (tile,
 * KV head, split) is an item of its own that leaves its result in a cell, and the last group to do so merges
 * all cells in the order of the splits. Otherwise a group goes through the splits of its tile one after the
 * other, for several KV heads if the int8 forms of the output need them together.
 *
 * Local memory does not grow with the context. Compiled once per type of K and V (CL_KV, CL_NAME), and once
 * for all of them; and with TILE_ROWS, for lists of many tokens: chunks whose tiles have many rows go
 * cl_tiles.h's way. */
#include "kernels/opencl/cl_kv.h"

#ifdef CL_KV /* compiled for one type of K and V */
#define TYPE_K(l) CL_KV
#define TYPE_V(l) CL_KV
#else
#define TYPE_K(l) OPENCL_CACHE_K((l)->cache.what)
#define TYPE_V(l) OPENCL_CACHE_V((l)->cache.what)
#endif

#define ROWS  OPENCL_ATTENTION_ROWS
#define SPLIT OPENCL_SPLIT
#define ITEMS OPENCL_GROUP

/* Values of K (dims of a token) or V (tokens of a column) that an item loads before it uses the first. With
 * all types in one kernel more would spill on dg1. */
#ifdef CL_KV
#define AHEAD 16
#else
#define AHEAD 4
#endif

#define ALL 0x7fffff00 /* more than any difference of positions; and a split less stays in an int */

/* What all rows of a group's work share. */
struct look {
    struct cl_cache cache;
    global const float *q;
    uint q_width;
    struct cl_forms out;
    uint group, head_k, head_v;
    float scale;
    float cap, cap_inverse; /* of scores; 0: none */
    int window;             /* tokens that a query sees, or ALL */
    int skip;               /* the first tokens, of which a query sees none but its own */
    uint ring;              /* blocks of a table that goes round; 0: it does not */
    bool has_sinks;
    global const float *sinks; /* of all heads */
};

/* Local memory. */
struct scratch {
    local float *q;                        /* [ROWS][head_k] */
    local float *o;                        /* [ROWS][head_v], merged so far */
    local float *score;                    /* [ROWS][SPLIT] */
    local float *lane;                     /* [ROWS][128] */
    local float *max, *sum, *before, *now; /* [ROWS] each: of the splits so far; factors of the next merge */
};

static inline struct scratch scratch_in(local float *memory, uint head_k) {
    struct scratch m;
    m.score = memory;
    m.lane = m.score + ROWS * SPLIT;
    m.max = m.lane + ROWS * 128;
    m.sum = m.max + ROWS;
    m.before = m.sum + ROWS;
    m.now = m.before + ROWS;
    m.q = m.now + ROWS;
    m.o = m.q + ROWS * head_k;
    return m;
}

/* Rows `first` .. first + rows of (query, head) pairs. */
struct rows {
    uint first, n;
    uint position; /* of query 0 */
    uint token;    /* of query 0, in the step */
    uint head;     /* KV head */
};

/* Tokens of the split at `begin` that row i sees; 0 or less: none. */
static inline int seen(const struct look *l, const struct rows *r, uint i, uint begin) {
    return (int)(r->position + (r->first + i) / l->group + 1) - (int)begin;
}

/* Tokens of the split at `begin` that are before what row i sees; 0 or less: none. */
static inline int hidden(const struct look *l, const struct rows *r, uint i, uint begin) {
    int end = seen(l, r, i, begin);
    return max(end - l->window, min(l->skip - (int)begin, end - 1));
}

static inline bool sees_some(const struct look *l, const struct rows *r, uint i, uint begin) {
    return seen(l, r, i, begin) > 0 && hidden(l, r, i, begin) < SPLIT;
}

/* The same of any row. */
static inline bool any_sees(const struct look *l, const struct rows *r, uint begin) {
    return seen(l, r, r->n - 1, begin) > 0 && hidden(l, r, 0, begin) < SPLIT;
}

/* The first split of which row i sees something. */
static inline uint first_split(const struct look *l, const struct rows *r, uint i) {
    int before = hidden(l, r, i, 0);
    return before > 0 ? (uint)before / SPLIT : 0;
}

/* Where the token's block begins in a unit. */
static inline uint block_of(const struct look *l, global const uint *table, uint token) {
    uint block = token / KV_LAYOUT_BLOCK;
    return table[l->ring != 0 ? block % l->ring : block] * l->cache.block_stride;
}

/* x[j] = number first + j * stride of F16 or F32. */
static inline void load_floats(bool f16, global const uchar *at, uint first, uint stride, float *x) {
    if (f16) {
#pragma unroll
        for (uint j = 0; j < AHEAD; j++)
            x[j] = (float)((global const half *)at)[first + j * stride];
    } else {
#pragma unroll
        for (uint j = 0; j < AHEAD; j++)
            x[j] = ((global const float *)at)[first + j * stride];
    }
}

/* sum + w[0] * x[0] + .., in this order. */
static inline float add_products(local const float4 *w, const float *x, float sum) {
#pragma unroll
    for (uint j = 0; j < AHEAD / 4; j++) {
        float4 four = w[j];
        sum = fma(four.x, x[4 * j], sum);
        sum = fma(four.y, x[4 * j + 1], sum);
        sum = fma(four.z, x[4 * j + 2], sum);
        sum = fma(four.w, x[4 * j + 3], sum);
    }
    return sum;
}

static inline void dots(bool f16, global const uchar *k, uint slot, uint dim, uint n, local const float *q,
                        float *acc) {
    for (uint d = 0; d < dim; d += AHEAD) {
        float x[AHEAD];
        load_floats(f16, k, d * KV_LAYOUT_BLOCK + slot, KV_LAYOUT_BLOCK, x);
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
            if (i < n)
                acc[i] = add_products((local const float4 *)(q + i * dim + d), x, acc[i]);
    }
}

/* The integers of quantised keys meet those of the query (15 bits, q = 128 h + l): word s of row i at
 * high[i * dim / 4 + s] and low[..], the scales at d[i * dim / 32 + group]. */
struct query_words {
    local uint *high, *low;
    local float *d;
};

static inline struct query_words words_of(const struct scratch *m, uint dim) {
    struct query_words w;
    w.high = (local uint *)m->q;
    w.low = w.high + ROWS * (dim / 4);
    w.d = (local float *)(w.low + ROWS * (dim / 4));
    return w;
}

/* Four values of q4_0, each + 8 in a byte, as signed bytes. */
static inline uint less_eight(uint word) {
    return ((word | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
}

/* Eight words of 4 products each. */
static inline int dot8(local const uint4 *a, const uint *b) {
    uint4 x = a[0], y = a[1];
    return dot(as_char4(x.x), as_char4(b[0])) + dot(as_char4(x.y), as_char4(b[1])) +
           dot(as_char4(x.z), as_char4(b[2])) + dot(as_char4(x.w), as_char4(b[3])) +
           dot(as_char4(y.x), as_char4(b[4])) + dot(as_char4(y.y), as_char4(b[5])) +
           dot(as_char4(y.z), as_char4(b[6])) + dot(as_char4(y.w), as_char4(b[7]));
}

static inline void dots_quantised(bool eight, global const uchar *k, uint slot, uint dim, uint n,
                                  const struct scratch *m, float *acc) {
    struct query_words q = words_of(m, dim);
    global const half *scales =
        (global const half *)(k + kv_layout_scales(eight ? KV_LAYOUT_Q8_0 : KV_LAYOUT_Q4_0, dim));
    for (uint g = 0; g < dim / 32; g++) {
        uint word[8];
        global const uint *at = (global const uint *)k + g * (eight ? 8 : 4) * KV_LAYOUT_BLOCK + slot;
        float d = (float)scales[g * KV_LAYOUT_BLOCK + slot];
#pragma unroll
        for (uint s = 0; s < (eight ? 8 : 4); s++)
            word[s] = at[s * KV_LAYOUT_BLOCK];
        if (!eight) {
#pragma unroll
            for (uint s = 0; s < 4; s++) {
                word[s + 4] = less_eight(word[s] >> 4 & 0x0F0F0F0Fu);
                word[s] = less_eight(word[s] & 0x0F0F0F0Fu);
            }
        }
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            if (i < n) {
                uint from = i * (dim / 4) + g * 8;
                int high = dot8((local const uint4 *)(q.high + from), word);
                int low = dot8((local const uint4 *)(q.low + from), word);
                float scale = q.d[i * (dim / 32) + g] * d;
                acc[i] = fma((float)(high * 128 + low), scale, acc[i]);
            }
        }
    }
}

/* The scale of 32 values of a query. */
static inline float query_scale(global const float *x) {
    float amax = 0.0f;
    for (uint i = 0; i < 32; i++)
        amax = fabs(x[i]) > amax ? fabs(x[i]) : amax;
    return cl_scale(amax, NUM_QUANT_QUERY_INVERSE);
}

/* Four of them as words. */
static inline void query_word(global const float *x, float inverse, uint *high, uint *low) {
    uint h = 0, l = 0;
    for (uint b = 0; b < 4; b++) {
        float v = cl_between(x[b] * inverse, -NUM_QUANT_QUERY, NUM_QUANT_QUERY) + NUM_ROUND;
        int q = (int)(NUM_BITS(v) - NUM_ROUND_BITS);
        int top = (q + 64) >> 7;
        h |= ((uint)top & 255u) << (8 * b);
        l |= ((uint)(q - 128 * top) & 255u) << (8 * b);
    }
    *high = h;
    *low = l;
}

static inline void quantise_query(global const float *x, local uint *high, local uint *low, local float *d) {
    *d = query_scale(x);
    float inverse = cl_inverse(*d);
    for (uint s = 0; s < 8; s++) {
        uint h, l;
        query_word(x + 4 * s, inverse, &h, &l);
        high[s] = h;
        low[s] = l;
    }
}

/* Group: e of each row and token to score, each row's maximum and sum (of this split) to now and before. */
static inline void score_split(const struct look *l, const struct scratch *m, const struct rows *r,
                               global const uint *table, uint begin) {
    uint me = get_local_id(0);
    float acc[ROWS];
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
        acc[i] = 0.0f;
    if ((int)me < seen(l, r, r->n - 1, begin) && (int)me >= hidden(l, r, 0, begin)) {
        uint token = begin + me;
        global const uchar *k = cl_unit_at(&l->cache, r->head) + block_of(l, table, token);
        uint slot = token % KV_LAYOUT_BLOCK;
        if (kv_layout_quantised(TYPE_K(l)))
            dots_quantised(TYPE_K(l) == KV_LAYOUT_Q8_0, k, slot, l->head_k, r->n, m, acc);
        else
            dots(TYPE_K(l) == KV_LAYOUT_F16, k, slot, l->head_k, r->n, m->q, acc);
    }
    bool exact = kv_layout_quantised(TYPE_K(l));
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
        acc[i] = (exact ? acc[i] : 0.0f + acc[i]) * l->scale;
    if (l->cap != 0.0f) {
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
            acc[i] = num_softcap(acc[i], l->cap, l->cap_inverse);
    }
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        bool sees = (int)me < seen(l, r, i, begin) && (int)me >= hidden(l, r, i, begin);
        acc[i] = sees ? acc[i] : -INFINITY;
        m->score[i * SPLIT + me] = acc[i];
    }
    for (uint bits = 8; bits-- > 0;) { /* SPLIT / 2 = 2^7 */
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = me; i < r->n << bits; i += ITEMS) {
            uint at = (i >> bits) * SPLIT + (i & ((1u << bits) - 1));
            float other = m->score[at + (1u << bits)];
            m->score[at] = other > m->score[at] ? other : m->score[at];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < r->n)
        m->now[me] = m->score[me * SPLIT];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
        m->score[i * SPLIT + me] = acc[i] == -INFINITY ? 0.0f : num_exp(acc[i] - m->now[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < r->n * 128; i += ITEMS) {
        uint at = i / 128 * SPLIT + i % 128;
        m->lane[i] = m->score[at] + m->score[at + 128];
    }
    cl_sum128(m->lane, r->n);
    if (me < r->n)
        m->before[me] = m->lane[me * 128];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Item me < n: row me's next merge: max and sum of all splits so far, the factors of what was and what is
 * new. */
static inline void plan_merge(const struct scratch *m, uint me, bool first) {
    float max_new = m->now[me], sum_new = m->before[me];
    if (first) {
        m->max[me] = max_new;
        m->sum[me] = sum_new;
        return;
    }
    float all = max_new > m->max[me] ? max_new : m->max[me];
    float a = num_exp(m->max[me] - all), b = num_exp(max_new - all);
    float scaled = m->sum[me] * a;
    m->sum[me] = fma(sum_new, b, scaled);
    m->max[me] = all;
    m->before[me] = a;
    m->now[me] = b;
}

/* What an item sums: column d of rows row, row + step, .., n in all. */
struct column {
    uint d, row, step, n;
};

/* o[i] += e * x over tokens t .. t + 4 of the split, the last `window` of those before sees[i]; scaled: e *
 * scale for e. whole: all rows see all four. Of a first token that is skipped (look.skip) the score is 0, and
 * so is the sum before it: no look at it is needed, nor are there registers for one. */
static inline void add_four(bool whole, bool scaled, local const float *score, const struct column *c, uint t,
                            const int *sees, int window, float4 x, float4 scale, float *o) {
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        if (i >= c->n)
            break;
        float4 e = *(local const float4 *)(score + (c->row + i * c->step) * SPLIT + t);
        if (scaled)
            e *= scale;
        int end = sees[i] - (int)t, begin = end - window; /* from t on */
        float sum = fma(e.x, x.x, o[i]);
        o[i] = whole || (0 < end && 0 >= begin) ? sum : o[i];
        sum = fma(e.y, x.y, o[i]);
        o[i] = whole || (1 < end && 1 >= begin) ? sum : o[i];
        sum = fma(e.z, x.z, o[i]);
        o[i] = whole || (2 < end && 2 >= begin) ? sum : o[i];
        sum = fma(e.w, x.w, o[i]);
        o[i] = whole || (3 < end && 3 >= begin) ? sum : o[i];
    }
}

/* AHEAD tokens of the split from t on, which lie in one block; v: of its slot 0. */
static inline void weigh(bool whole, bool f16, const struct look *l, local const float *score,
                         global const uchar *v, const struct column *c, uint t, const int *sees, float *o) {
    float x[AHEAD];
    load_floats(f16, v, t % KV_LAYOUT_BLOCK * l->head_v + c->d, l->head_v, x);
#pragma unroll
    for (uint j = 0; j < AHEAD; j += 4)
        add_four(whole, false, score, c, t + j, sees, l->window, (float4)(x[j], x[j + 1], x[j + 2], x[j + 3]),
                 0.0f, o);
}

/* The same with quantised V: four tokens lie in a word. */
static inline void weigh_quantised(bool whole, bool eight, const struct look *l, local const float *score,
                                   global const uchar *v, const struct column *c, uint t, const int *sees,
                                   float *o) {
    uint type = eight ? KV_LAYOUT_Q8_0 : KV_LAYOUT_Q4_0;
    uint line = l->head_v / 32 * kv_layout_group(type); /* bytes of a token */
    uint four = t % KV_LAYOUT_BLOCK / 4;
    global const uint *words =
        (global const uint *)v + four * line + (eight ? c->d : c->d / 32 * 16 + c->d % 16);
    global const half4 *scales = (global const half4 *)(v + kv_layout_scales(type, l->head_v)) +
                                 c->d / 32 * (KV_LAYOUT_BLOCK / 4) + four;
    uint shift = !eight && c->d % 32 >= 16 ? 4 : 0;
    uint word[AHEAD / 4];
    half4 scale[AHEAD / 4];
#pragma unroll
    for (uint j = 0; j < AHEAD / 4; j++) {
        word[j] = words[j * line];
        scale[j] = scales[j];
    }
#pragma unroll
    for (uint j = 0; j < AHEAD / 4; j++) {
        float x[4];
#pragma unroll
        for (uint k = 0; k < 4; k++) {
            uint bits = word[j] >> 8 * k;
            x[k] = eight ? (float)(char)(bits & 255u) : (float)((int)(bits >> shift & 15u) - 8);
        }
        float4 by = {(float)scale[j].x, (float)scale[j].y, (float)scale[j].z, (float)scale[j].w};
        add_four(whole, true, score, c, t + 4 * j, sees, l->window, (float4)(x[0], x[1], x[2], x[3]), by, o);
    }
}

/* o[i] += e * v over the tokens before n of the split that the rows see. All bytes of a block exist, whether
 * the row sees them or not. */
static inline void weigh_split(const struct look *l, const struct scratch *m, const struct rows *r,
                               global const uint *table, uint begin, uint n, const struct column *c,
                               float *o) {
    global const uchar *unit = cl_unit_at(&l->cache, r->head) + l->cache.k_bytes;
    int sees[ROWS];
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
        sees[i] = seen(l, r, c->row + i * c->step, begin);
    int latest = hidden(l, r, c->row + (c->n - 1) * c->step, begin);
    int before = hidden(l, r, 0, begin);
    for (uint t = before > 0 ? (uint)before / AHEAD * AHEAD : 0; t < n; t += AHEAD) {
        global const uchar *v = unit + block_of(l, table, begin + t);
        bool whole = (int)(t + AHEAD) <= sees[0] && (int)t >= latest;
        if (kv_layout_quantised(TYPE_V(l))) {
            if (whole)
                weigh_quantised(true, TYPE_V(l) == KV_LAYOUT_Q8_0, l, m->score, v, c, t, sees, o);
            else
                weigh_quantised(false, TYPE_V(l) == KV_LAYOUT_Q8_0, l, m->score, v, c, t, sees, o);
        } else {
            if (whole)
                weigh(true, TYPE_V(l) == KV_LAYOUT_F16, l, m->score, v, c, t, sees, o);
            else
                weigh(false, TYPE_V(l) == KV_LAYOUT_F16, l, m->score, v, c, t, sees, o);
        }
    }
}

/* Group: one split of the rows, merged into max, sum and o; of a row's first split, and if it is alone,
 * nothing is there yet. */
static inline void add_split(const struct look *l, const struct scratch *m, const struct rows *r,
                             global const uint *table, uint begin, bool alone) {
    uint me = get_local_id(0);
    score_split(l, m, r, table, begin);
    if (me < r->n && sees_some(l, r, me, begin))
        plan_merge(m, me, alone || begin == first_split(l, r, me) * SPLIT);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint n = min((uint)seen(l, r, r->n - 1, begin), (uint)SPLIT);
    uint wide = min(l->head_v, (uint)ITEMS);
    uint step = ITEMS / wide;
    uint row = me / wide;
    for (uint d = me % wide; d < l->head_v && row < step; d += wide) {
        float o[ROWS];
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
            o[i] = 0.0f;
        struct column c = {d, row, step, row < r->n ? cl_ceil_div(r->n - row, step) : 0};
        weigh_split(l, m, r, table, begin, n, &c, o);
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            uint at = row + i * step;
            if (at < r->n && sees_some(l, r, at, begin)) {
                bool first = alone || begin == first_split(l, r, at) * SPLIT;
                local float *merged = m->o + at * l->head_v + d;
                float scaled = *merged * m->before[at];
                *merged = first ? o[i] : fma(o[i], m->now[at], scaled);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline global const float *query_of(const struct look *l, const struct rows *r, uint row) {
    uint at = r->first + row;
    return l->q + (r->token + at / l->group) * l->q_width + (r->head * l->group + at % l->group) * l->head_k;
}

/* Group: the rows' q to local memory, as what the keys are; rows that are not there become zero. */
static inline void load_q(const struct look *l, const struct scratch *m, const struct rows *r) {
    uint dim = l->head_k;
    for (uint i = get_local_id(0); i < ROWS * dim; i += ITEMS)
        m->q[i] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (kv_layout_quantised(TYPE_K(l))) {
        struct query_words w = words_of(m, dim);
        for (uint i = get_local_id(0); i < r->n * (dim / 32); i += ITEMS)
            quantise_query(query_of(l, r, i / (dim / 32)) + i % (dim / 32) * 32, w.high + 8 * i,
                           w.low + 8 * i, w.d + i);
    } else {
        for (uint i = get_local_id(0); i < r->n * dim; i += ITEMS)
            m->q[i] = query_of(l, r, i / dim)[i % dim];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline global float *out_of(const struct look *l, const struct rows *r, uint i) {
    uint at = r->first + i;
    return (global float *)(l->out.base + l->out.f32) + (r->token + at / l->group) * l->out.width +
           (r->head * l->group + at % l->group) * l->head_v;
}

/* Item me < n: a sink is one more split, without a value: what that makes of the sum, and of o in `before`.
 */
static inline void plan_sink(const struct look *l, const struct scratch *m, const struct rows *r, uint me) {
    float sink = l->sinks[r->head * l->group + (r->first + me) % l->group];
    float all = sink > m->max[me] ? sink : m->max[me];
    float a = num_exp(m->max[me] - all), scaled = m->sum[me] * a;
    m->sum[me] = scaled + num_exp(sink - all);
    m->before[me] = a;
}

static inline void add_sinks(const struct look *l, const struct scratch *m, const struct rows *r) {
    uint me = get_local_id(0);
    if (me < r->n)
        plan_sink(l, m, r, me);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < r->n * l->head_v; i += ITEMS)
        m->o[i] = m->o[i] * m->before[i / l->head_v];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Group: the rows' finished output. */
static inline void put_rows(const struct look *l, const struct scratch *m, const struct rows *r) {
    if (l->has_sinks)
        add_sinks(l, m, r);
    for (uint i = get_local_id(0); i < r->n * l->head_v; i += ITEMS)
        out_of(l, r, i / l->head_v)[i % l->head_v] = m->o[i] * num_rcp(m->sum[i / l->head_v]);
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* What splits side by side leave: a cell per (query, split), with the output of all heads before it is
 * divided, and with their maxima and sums. */
struct cells {
    global float *o;    /* [cells][heads][head_v] */
    global float *ends; /* [cells][heads][2] */
    uint n_heads;
    uint first;  /* of the tile's query 0 and split 0 */
    uint splits; /* cells of a query */
};

/* The first split's cell of row i, times heads, plus the row's head; a split further: + n_heads. */
static inline uint cell_of(const struct look *l, const struct cells *c, const struct rows *r, uint i) {
    uint at = r->first + i;
    return (c->first + at / l->group * c->splits) * c->n_heads + r->head * l->group + at % l->group;
}

/* Group: the split that add_split has left in m, to its cells. */
static inline void keep_rows(const struct look *l, const struct scratch *m, const struct rows *r,
                             const struct cells *c, uint split) {
    uint me = get_local_id(0);
    for (uint i = me; i < r->n * l->head_v; i += ITEMS) {
        uint row = i / l->head_v;
        if (sees_some(l, r, row, split * SPLIT))
            c->o[(cell_of(l, c, r, row) + split * c->n_heads) * l->head_v + i % l->head_v] = m->o[i];
    }
    if (me < r->n && sees_some(l, r, me, split * SPLIT)) {
        global float *ends = c->ends + (cell_of(l, c, r, me) + split * c->n_heads) * 2;
        ends[0] = m->max[me];
        ends[1] = m->sum[me];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Splits that a row merges at a time, and loads of one item under way at a time. */
#define MERGED  (SPLIT / 2)
#define IN_HAND 8

/* Group: the factors of merging splits from .. from + n: before them, and of them; [split][ROWS] each. m's
 * max and sum are those of the splits before, if these are not the first, then of these too. */
static inline void plan_merges(const struct look *l, const struct scratch *m, const struct rows *r,
                               const struct cells *c, uint from, uint n, bool first) {
    uint me = get_local_id(0);
    local float *before = m->score, *now = m->score + MERGED * ROWS;
    for (uint i = me; i < n * ROWS; i += ITEMS) {
        uint row = i % ROWS, split = from + i / ROWS;
        if (row >= r->n)
            continue;
        bool is = sees_some(l, r, row, split * SPLIT);
        now[i] = is ? c->ends[(cell_of(l, c, r, row) + split * c->n_heads) * 2] : -INFINITY;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < r->n) { /* what is before each */
        float max = first ? -INFINITY : m->max[me];
        for (uint i = 0; i < n; i++) {
            before[i * ROWS + me] = max;
            max = now[i * ROWS + me] > max ? now[i * ROWS + me] : max;
        }
        m->max[me] = max;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < n * ROWS; i += ITEMS) {
        if (i % ROWS >= r->n)
            continue;
        float all = now[i] > before[i] ? now[i] : before[i];
        before[i] = num_exp(before[i] - all);
        now[i] = num_exp(now[i] - all);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* merged, or the first split of all, and then the splits that follow, n in all, with their factors in local
 * memory, ROWS apart; `at` of split 0, `stride` from split to split. */
static inline float merge(float merged, bool first, global const float *at, uint stride, uint n,
                          local const float *before, local const float *now) {
    for (uint s = 0; s < n; s += IN_HAND) {
        float x[IN_HAND];
#pragma unroll
        for (uint k = 0; k < IN_HAND; k++)
            x[k] = at[min(s + k, n - 1) * stride];
#pragma unroll
        for (uint k = 0; k < IN_HAND; k++) {
            if (s + k < n) {
                float scaled = merged * before[(s + k) * ROWS];
                float sum = fma(x[k], now[(s + k) * ROWS], scaled);
                merged = first && s + k == 0 ? x[k] : sum;
            }
        }
    }
    return merged;
}

/* Group: the rows' output out of all their cells. */
static inline void merge_rows(const struct look *l, const struct scratch *m, const struct rows *r,
                              const struct cells *c) {
    uint me = get_local_id(0);
    local const float *before = m->score, *now = m->score + MERGED * ROWS;
    uint splits = cl_ceil_div((uint)seen(l, r, r->n - 1, 0), SPLIT);
    uint begin = first_split(l, r, 0);
    for (uint from = begin; from < splits; from += MERGED) {
        uint n = min(splits - from, (uint)MERGED);
        plan_merges(l, m, r, c, from, n, from == begin);
        for (uint i = me; i < r->n * (l->head_v + 1); i += ITEMS) {
            bool is_sum = i < r->n; /* then the columns */
            uint row = is_sum ? i : (i - r->n) / l->head_v, d = is_sum ? 0 : (i - r->n) % l->head_v;
            int here = min((int)n, (int)cl_ceil_div((uint)seen(l, r, row, 0), SPLIT) - (int)from);
            uint own = first_split(l, r, row);
            uint skip = own > from ? own - from : 0; /* splits that are before what the row sees */
            uint at = cell_of(l, c, r, row) + (from + skip) * c->n_heads;
            local float *merged = is_sum ? m->sum + row : m->o + row * l->head_v + d;
            if (here > (int)skip)
                *merged =
                    merge(*merged, own >= from, is_sum ? c->ends + at * 2 + 1 : c->o + at * l->head_v + d,
                          c->n_heads * (is_sum ? 2 : l->head_v), (uint)here - skip,
                          before + skip * ROWS + row, now + skip * ROWS + row);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Group: the int8 forms of columns column .. + n of the output of tokens token .. + tokens, whose floats this
 * group has written. */
static inline void quantise_out(const struct look *l, local float *memory, uint token, uint tokens,
                                uint column, uint n) {
    if (l->out.has == OPENCL_F32)
        return;
    local uint *part = (local uint *)(memory + ROWS * SPLIT);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    uint width = min(n, (uint)(ROWS * SPLIT)), rows = ROWS * SPLIT / width;
    for (uint t = token; t < token + tokens; t += rows) {
        uint some = min(rows, token + tokens - t);
        for (uint at = 0; at < n; at += width) {
            uint here = min(n - at, width);
            global const float *from =
                (global const float *)(l->out.base + l->out.f32) + t * l->out.width + column + at;
            for (uint i = get_local_id(0); i < some * here; i += ITEMS)
                memory[i] = from[i / here * l->out.width + i % here];
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_rows(&l->out, t, some, column + at, memory, here, here, false, part);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#ifdef TILE_ROWS
#if CL_KV == KV_LAYOUT_Q8_0
#include "kernels/opencl/cl_tiles_q8.h"
#else
#include "kernels/opencl/cl_tiles.h"
#endif
#endif

#define LOOK                                                                                                 \
    {                                                                                                        \
        CL_CACHE(kv), q, q_width, CL_FORMS(out), group, head_k, head_v, scale, cap, cap_inverse,             \
            window != 0 ? (int)window : ALL, (int)skip,                                                      \
            window != 0 ? CL_STEP(step)->cache[OPENCL_CACHE_NUMBER(kv_what)].table_stride : 0, has_sinks,    \
            sinks                                                                                            \
    }

#ifndef CL_SUB_GROUP /* tiles need all registers of a thread: 8 items have twice as many as 16 */
#define CL_SUB_GROUP 16
#endif
#define ATTENTION_KERNEL                                                                                     \
    kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(CL_SUB_GROUP)))

/* Work: items of the chunks, cut as the step says. Local memory: struct scratch. cells: of n_cells cells,
 * struct cells; arrivals: per token of the step and unit of `heads` KV heads, 0 before and after. */
ATTENTION_KERNEL void CL_NAME(CL_ARGUMENTS(ATTENTION)) {
    struct look l = LOOK;
#ifdef TILE_ROWS /* all registers are taken: attention with a cap does without tiles (launch.c) */
    l.cap = 0.0f;
#endif
    local float *memory = (local float *)whole;
    struct scratch m = scratch_in(memory, head_k);
    uint units = n_kv_heads / heads;
    struct cells c = {cells, cells + n_cells * n_kv_heads * group * head_v, n_kv_heads * group, 0, 0};
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_items; item += get_num_groups(0)) {
        global const struct step_chunk *chunk = cl_chunk_of(step, true, item);
        uint tiles = cl_ceil_div(chunk->n, chunk->queries);
        bool parallel = chunk->splits > 0;
        uint at = item - chunk->item;
        uint head = at % n_kv_heads, n_heads = parallel ? 1 : heads;
        uint tile = at / n_kv_heads % tiles, split = at / n_kv_heads / tiles;
        uint query = tile * chunk->queries;
        uint n_queries = min(chunk->n - query, chunk->queries);
        uint position = chunk->position + query, token = chunk->first + query;
        uint unit = head / heads;
        if (head % n_heads != 0 || split * SPLIT >= position + n_queries)
            continue; /* the unit's first head has it; other tiles of the chunk see one split more */
        global const uint *table = cl_table(step, OPENCL_CACHE_NUMBER(kv_what), chunk->slot);
        c.first = chunk->cell + query * chunk->splits;
        c.splits = chunk->splits;
#ifdef TILE_ROWS
        if (chunk->tiled) {
            for (uint h = head; h < head + n_heads; h++) {
                for (uint first = 0; first < n_queries * group; first += TILE_ROWS) {
                    struct rows r = {first, min(n_queries * group - first, (uint)TILE_ROWS), position, token,
                                     h};
                    tile_rows(&l, memory, &r, table);
                }
            }
            quantise_out(&l, memory, token, n_queries, unit * heads * group * head_v, heads * group * head_v);
            continue;
        }
#endif
        for (uint h = head; h < head + n_heads; h++) {
            for (uint first = 0; first < n_queries * group; first += ROWS) {
                struct rows r = {first, min(n_queries * group - first, (uint)ROWS), position, token, h};
                uint begin = parallel ? split * SPLIT : first_split(&l, &r, 0) * SPLIT;
                if (!any_sees(&l, &r, begin))
                    continue;
                load_q(&l, &m, &r);
                do {
                    if (any_sees(&l, &r, begin))
                        add_split(&l, &m, &r, table, begin, parallel);
                    begin += SPLIT;
                } while (!parallel && seen(&l, &r, r.n - 1, begin) > 0);
                if (parallel)
                    keep_rows(&l, &m, &r, &c, split);
                else
                    put_rows(&l, &m, &r);
            }
        }
        if (parallel) {
            uint all = cl_ceil_div(position + n_queries, SPLIT) * heads;
            if (!cl_last_of_all(arrivals + token * units + unit, all, (local uint *)m.now))
                continue;
            for (uint h = unit * heads; h < (unit + 1) * heads; h++) {
                for (uint first = 0; first < n_queries * group; first += ROWS) {
                    struct rows r = {first, min(n_queries * group - first, (uint)ROWS), position, token, h};
                    merge_rows(&l, &m, &r, &c);
                    put_rows(&l, &m, &r);
                }
            }
        }
        quantise_out(&l, memory, token, n_queries, unit * heads * group * head_v, heads * group * head_v);
    }
}
