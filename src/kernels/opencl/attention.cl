/* Attention over the cache. A group has one query group's heads (all heads of one KV head) of a few queries,
 * or several KV heads one after the other where the int8 forms of the output want them together. Rows are
 * (query, head) pairs, up to OPENCL_ATTENTION_ROWS at a time; splits of 256 tokens one after the other, each
 * as kernels.h says: item t has the scores of token t of the split, then item d of the output the column d.
 * Local memory does not grow with the context. Compiled once per type of K and V (CL_KV, CL_NAME), and once
 * for all of them. */
#include "kernels/opencl/cl_kv.h"

#ifdef CL_KV /* compiled for one type of K and V */
#define TYPE_K(l) CL_KV
#define TYPE_V(l) CL_KV
#else
#define TYPE_K(l) ((l)->cache.type_k)
#define TYPE_V(l) ((l)->cache.type_v)
#endif

#define ROWS  OPENCL_ATTENTION_ROWS
#define SPLIT 256
#define ITEMS OPENCL_GROUP

/* What all rows of a group's work share. */
struct look {
    struct cl_cache cache;
    global const float *q;
    uint q_width;
    struct cl_forms out;
    uint group, head_k, head_v;
    float scale;
};

/* Local memory. */
struct room {
    local float *q;                        /* [ROWS][head_k] */
    local float *o;                        /* [ROWS][head_v], merged so far */
    local float *score;                    /* [ROWS][SPLIT] */
    local float *lane;                     /* [ROWS][128] */
    local float *max, *sum, *before, *now; /* [ROWS] each: of the splits so far; factors of the next merge */
};

static inline struct room room_in(local float *memory, uint head_k) {
    struct room m;
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

static inline float load_kv(global const uchar *at, bool f16, uint i) {
    return f16 ? (float)((global const half *)at)[i] : ((global const float *)at)[i];
}

static inline void dots(bool f16, global const uchar *k, uint slot, uint dim, local const float *q,
                        float *acc) {
    for (uint d = 0; d < dim; d++) {
        float x = load_kv(k, f16, d * CL_KV_BLOCK + slot);
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
            acc[i] = fma(q[i * dim + d], x, acc[i]);
    }
}

/* The integers of quantised keys meet those of the query (15 bits, q = 128 h + l): word s of row i at
 * high[i * dim / 4 + s] and low[..], the scales at d[i * dim / 32 + group]. */
struct query_words {
    local uint *high, *low;
    local float *d;
};

static inline struct query_words words_of(const struct room *m, uint dim) {
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

static inline void dots_quantised(bool eight, global const uchar *k, uint slot, uint dim,
                                  const struct room *m, float *acc) {
    struct query_words q = words_of(m, dim);
    global const half *scales = (global const half *)(k + cl_kv_scales(eight ? CL_KV_Q8_0 : CL_KV_Q4_0, dim));
    for (uint g = 0; g < dim / 32; g++) {
        int high[ROWS], low[ROWS];
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
            high[i] = low[i] = 0;
        for (uint s = 0; s < 8; s++) {
            uint word;
            if (eight) {
                word = ((global const uint *)k)[(g * 8 + s) * CL_KV_BLOCK + slot];
            } else {
                uint both = ((global const uint *)k)[(g * 4 + s % 4) * CL_KV_BLOCK + slot];
                word = less_eight((s < 4 ? both : both >> 4) & 0x0F0F0F0Fu);
            }
#pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                high[i] += dot(as_char4(q.high[i * (dim / 4) + g * 8 + s]), as_char4(word));
                low[i] += dot(as_char4(q.low[i * (dim / 4) + g * 8 + s]), as_char4(word));
            }
        }
        float d = (float)scales[g * CL_KV_BLOCK + slot];
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            float scale = q.d[i * (dim / 32) + g] * d;
            acc[i] = fma((float)(high[i] * 128 + low[i]), scale, acc[i]);
        }
    }
}

/* 32 values of a query to words and their scale. */
static inline void quantise_query(global const float *x, local uint *high, local uint *low, local float *d) {
    float amax = 0.0f;
    for (uint i = 0; i < 32; i++)
        amax = fabs(x[i]) > amax ? fabs(x[i]) : amax;
    *d = cl_scale(amax, NUM_QUANT_QUERY_INVERSE);
    float inverse = cl_inverse(*d);
    for (uint s = 0; s < 8; s++) {
        uint h = 0, l = 0;
        for (uint b = 0; b < 4; b++) {
            float v = cl_between(x[4 * s + b] * inverse, -NUM_QUANT_QUERY, NUM_QUANT_QUERY) + NUM_ROUND;
            int q = (int)(NUM_BITS(v) - NUM_ROUND_BITS);
            int top = (q + 64) >> 7;
            h |= ((uint)top & 255u) << (8 * b);
            l |= ((uint)(q - 128 * top) & 255u) << (8 * b);
        }
        high[s] = h;
        low[s] = l;
    }
}

/* Group: e of each row and token to score, each row's maximum and sum (of this split) to now and before. */
static inline void score_split(const struct look *l, const struct room *m, const struct rows *r,
                               global const uint *table, uint begin) {
    uint me = get_local_id(0);
    float acc[ROWS];
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
        acc[i] = 0.0f;
    if ((int)me < seen(l, r, r->n - 1, begin)) {
        uint token = begin + me;
        global const uchar *k =
            cl_unit_at(&l->cache, r->head) + table[token / CL_KV_BLOCK] * l->cache.block_stride;
        uint slot = token % CL_KV_BLOCK;
        if (TYPE_K(l) == CL_KV_F16)
            dots(true, k, slot, l->head_k, m->q, acc);
        else if (TYPE_K(l) == CL_KV_F32)
            dots(false, k, slot, l->head_k, m->q, acc);
        else if (TYPE_K(l) == CL_KV_Q8_0)
            dots_quantised(true, k, slot, l->head_k, m, acc);
        else
            dots_quantised(false, k, slot, l->head_k, m, acc);
    }
    bool exact = cl_kv_quantised(TYPE_K(l));
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        float s = (exact ? acc[i] : 0.0f + acc[i]) * l->scale;
        acc[i] = (int)me < seen(l, r, i, begin) ? s : -INFINITY;
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
static inline void plan_merge(const struct room *m, uint me, bool first) {
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

/* o[i] += e * v over tokens 0 .. n of the split, for rows row, row + step, ..: column d. */
static inline void weigh(bool f16, const struct look *l, const struct room *m, const struct rows *r,
                         global const uint *table, uint begin, uint n, uint d, uint row, uint step,
                         float *o) {
    global const uchar *unit = cl_unit_at(&l->cache, r->head) + l->cache.k_bytes;
    for (uint t = 0; t < n; t++) {
        uint token = begin + t;
        global const uchar *v = unit + table[token / CL_KV_BLOCK] * l->cache.block_stride;
        float x = load_kv(v, f16, token % CL_KV_BLOCK * l->head_v + d);
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            uint at = row + i * step;
            if (at < r->n) {
                float sum = fma(m->score[at * SPLIT + t], x, o[i]);
                o[i] = (int)t < seen(l, r, at, begin) ? sum : o[i];
            }
        }
    }
}

/* The same with quantised V: four tokens lie in a word. */
static inline void weigh_quantised(bool eight, const struct look *l, const struct room *m,
                                   const struct rows *r, global const uint *table, uint begin, uint n, uint d,
                                   uint row, uint step, float *o) {
    uint type = eight ? CL_KV_Q8_0 : CL_KV_Q4_0;
    uint line = l->head_v / 32 * cl_kv_group(type); /* bytes of a token */
    uint at_byte = eight ? d : d / 32 * 16 + d % 16;
    uint shift = !eight && d % 32 >= 16 ? 4 : 0;
    global const uchar *unit = cl_unit_at(&l->cache, r->head) + l->cache.k_bytes;
    for (uint t0 = 0; t0 < n; t0 += 4) {
        uint slot = t0 % CL_KV_BLOCK;
        global const uchar *v = unit + table[(begin + t0) / CL_KV_BLOCK] * l->cache.block_stride;
        uint word = ((global const uint *)v)[slot / 4 * line + at_byte];
        global const half *scales =
            (global const half *)(v + cl_kv_scales(type, l->head_v)) + d / 32 * CL_KV_BLOCK + slot;
        for (uint c = 0; c < min(n - t0, 4u); c++) {
            uint bits = word >> 8 * c;
            float x = eight ? (float)(char)(bits & 255u) : (float)((int)(bits >> shift & 15u) - 8);
            float scale = (float)scales[c];
#pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                uint at = row + i * step;
                if (at < r->n) {
                    float weight = m->score[at * SPLIT + t0 + c] * scale;
                    float sum = fma(weight, x, o[i]);
                    o[i] = (int)(t0 + c) < seen(l, r, at, begin) ? sum : o[i];
                }
            }
        }
    }
}

/* Group: one split of the rows, merged into max, sum and o. first: nothing is there yet. */
static inline void add_split(const struct look *l, const struct room *m, const struct rows *r,
                             global const uint *table, uint begin, bool first) {
    uint me = get_local_id(0);
    score_split(l, m, r, table, begin);
    if (me < r->n && seen(l, r, me, begin) > 0)
        plan_merge(m, me, first);
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
        if (TYPE_V(l) == CL_KV_F16)
            weigh(true, l, m, r, table, begin, n, d, row, step, o);
        else if (TYPE_V(l) == CL_KV_F32)
            weigh(false, l, m, r, table, begin, n, d, row, step, o);
        else if (TYPE_V(l) == CL_KV_Q8_0)
            weigh_quantised(true, l, m, r, table, begin, n, d, row, step, o);
        else
            weigh_quantised(false, l, m, r, table, begin, n, d, row, step, o);
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            uint at = row + i * step;
            if (at < r->n && seen(l, r, at, begin) > 0) {
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
static inline void load_q(const struct look *l, const struct room *m, const struct rows *r) {
    uint dim = l->head_k;
    for (uint i = get_local_id(0); i < ROWS * dim; i += ITEMS)
        m->q[i] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (cl_kv_quantised(TYPE_K(l))) {
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

/* Group: the int8 forms of columns column .. + n of the output of tokens token .. + tokens, whose floats this
 * group has written. */
static inline void quantise_out(const struct look *l, local float *memory, uint token, uint tokens,
                                uint column, uint n) {
    if (l->out.has == OPENCL_F32)
        return;
    local uint *part = (local uint *)(memory + ROWS * SPLIT);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (uint t = token; t < token + tokens; t++) {
        for (uint at = 0; at < n; at += ROWS * SPLIT) {
            uint here = min(n - at, (uint)(ROWS * SPLIT));
            global const float *from =
                (global const float *)(l->out.base + l->out.f32) + t * l->out.width + column + at;
            for (uint i = get_local_id(0); i < here; i += ITEMS)
                memory[i] = from[i];
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_forms(&l->out, t, column + at, memory, here, false, part);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#define LOOK_PARAMETERS                                                                                      \
    global const uchar *step, global const float *q, uint q_width, global uchar *out, uint has, uint width,  \
        uint f32, uint q32, uint d32, uint s32, uint q256, uint d256, uint s256, uint group, uint head_k,    \
        uint head_v, float scale, global uchar *kv0, global uchar *kv1, global uchar *kv2,                   \
        global uchar *kv3, uint kv_unit, uint units_per_slice, uint unit_bytes, uint block_stride,           \
        uint k_bytes, uint type_k, uint type_v, uint n_kv_heads, uint heads
#define LOOK                                                                                                 \
    {                                                                                                        \
        {kv0, kv1, kv2, kv3, kv_unit, units_per_slice, unit_bytes, block_stride, k_bytes, type_k, type_v},   \
            q, q_width, {out, has, width, f32, q32, d32, s32, q256, d256, s256}, group, head_k, head_v,      \
            scale                                                                                            \
    }

/* Work: (chunk, `queries` queries, `heads` KV heads). Local memory: struct room. */
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(16))) void
CL_NAME(LOOK_PARAMETERS, uint queries, local float *memory) {
    struct look l = LOOK;
    struct room m = room_in(memory, head_k);
    global const struct step_chunk *chunks =
        (global const struct step_chunk *)(step + CL_STEP(step)->at_chunks);
    uint n_chunks = CL_STEP(step)->n_chunks;
    uint units = n_kv_heads / heads;
    uint chunk = 0, before = 0; /* items of the chunks before */
    for (uint item = get_group_id(0);; item += get_num_groups(0)) {
        while (chunk < n_chunks && item - before >= cl_ceil_div(chunks[chunk].n, queries) * units) {
            before += cl_ceil_div(chunks[chunk].n, queries) * units;
            chunk++;
        }
        if (chunk == n_chunks)
            return;
        uint query = (item - before) / units * queries, unit = (item - before) % units;
        uint n_queries = min(chunks[chunk].n - query, queries);
        uint position = chunks[chunk].position + query, token = chunks[chunk].first + query;
        global const uint *table = cl_table(step, chunks[chunk].slot);
        for (uint head = unit * heads; head < (unit + 1) * heads; head++) {
            for (uint first = 0; first < n_queries * group; first += ROWS) {
                struct rows r = {first, min(n_queries * group - first, (uint)ROWS), position, token, head};
                load_q(&l, &m, &r);
                for (uint begin = 0; seen(&l, &r, r.n - 1, begin) > 0; begin += SPLIT)
                    add_split(&l, &m, &r, table, begin, begin == 0);
                for (uint i = get_local_id(0); i < r.n * head_v; i += ITEMS)
                    out_of(&l, &r, i / head_v)[i % head_v] = m.o[i] * num_rcp(m.sum[i / head_v]);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        }
        quantise_out(&l, memory, token, n_queries, unit * heads * group * head_v, heads * group * head_v);
    }
}
