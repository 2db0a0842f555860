/* Attention of few queries: up to ROWS rows against a split, whose K and V are read once. Includer:
 * attention.cl. */
#ifndef STATOR_KERNELS_OPENCL_CL_SPLITS_H
#define STATOR_KERNELS_OPENCL_CL_SPLITS_H

#if 2 * ITEMS != SPLIT
#error "an item has two tokens of a split"
#endif

/* What an item has in flight: four dims of its two tokens of K, so many times; four tokens of its two columns
 * of V. Lists, not loops: IGC keeps an array that a loop goes through in memory. More would spill, on dg1 and
 * acm-g10 with sub-groups of 8, on pvc with 16. With all types in one kernel nothing is loaded ahead: LATE.
 * A head's dims are a multiple of 32, and so of what is ahead. One token waits for its keys more than for
 * anything else, so of F16 32 dims are ahead, although pvc then spills 8 registers. */
#ifdef CL_KV
#define EARLY(...) __VA_ARGS__
#define LATE(...)
#else
#define EARLY(...)
#define LATE(...) __VA_ARGS__
#endif
#if !defined(CL_KV)
#define KEYS(X)   X(0)
#define VALUES(X) X(0)
#elif defined(CL_CHOSEN) /* what follows four tokens lies anywhere */
#define KEYS(X)   X(0) X(1)
#define VALUES(X) X(0)
#elif CL_KV == KV_LAYOUT_F32 && defined(CL_LATENT)
#define KEYS(X)   X(0)
#define VALUES(X) X(0) X(1)
#elif CL_KV == KV_LAYOUT_F16 && defined(CL_LATENT)
#define KEYS(X)   X(0) X(1)
#define VALUES(X) X(0) X(1)
#elif CL_KV == KV_LAYOUT_F32 || (CL_KV == KV_LAYOUT_Q8_0 && defined(CL_BOTH))
#define KEYS(X)   X(0) X(1)
#define VALUES(X) X(0) X(1)
#elif CL_KV == KV_LAYOUT_F16 && CL_SUB_GROUP == 16 && !defined(CL_BOTH)
#define KEYS(X)   X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define VALUES(X) X(0) X(1) X(2) X(3)
#elif CL_SUB_GROUP == 8 || CL_KV == KV_LAYOUT_F16
#define KEYS(X)   X(0) X(1)
#define VALUES(X) X(0) X(1) X(2) X(3)
#else
#define KEYS(X)   X(0) X(1) X(2) X(3)
#define VALUES(X) X(0) X(1) X(2) X(3)
#endif
#define ONE(i)       +1
#define DIMS_AHEAD   (4 * (0 KEYS(ONE)))
#define TOKENS_AHEAD (4 * (0 VALUES(ONE)))

static inline struct scratch scratch_in(local float *memory, uint head_k, uint head_v) {
    struct scratch m;
    m.score = memory;
    m.part = m.score + ROWS * SPLIT;
    m.block = (local uint *)(m.part + ROWS * PARTS);
    m.end = (local int *)(m.block + SPLIT / SPOT);
    m.to = (local uint *)(m.end + ROWS);
#ifdef CL_BOTH
    m.from = (local int *)(m.to + ROWS);
#endif
    m.max = m.score + ROWS * (SPLIT + 128);
    m.sum = m.max + ROWS;
    m.before = m.sum + ROWS;
    m.now = m.before + ROWS;
    m.q = m.now + ROWS;
    m.o = m.q + ROWS * head_k;
    m.top = m.o + ROWS * head_v;
    m.largest = m.top + ROWS * OPENCL_TOPS(head_v);
    m.weights = (local uint2 *)m.largest;
    return m;
}

/* Two neighbouring numbers, as stored where the type is known. */
#if defined(CL_KV) && CL_KV == KV_LAYOUT_F16
typedef half2 two;
#else
typedef float2 two;
#endif

/* Numbers 2 * at and 2 * at + 1. */
static inline two load_two(bool f16, global const uchar *from, uint at) {
#if defined(CL_KV) && CL_KV == KV_LAYOUT_F16
    (void)f16;
    return ((global const half2 *)from)[at];
#else
    if (!f16)
        return ((global const float2 *)from)[at];
    half2 x = ((global const half2 *)from)[at];
    return (float2)((float)x.x, (float)x.y);
#endif
}

struct twos {
    two a, b, c, d;
};

static inline struct twos load_twos(bool f16, global const uchar *from, uint at, uint stride) {
    struct twos r;
    r.a = load_two(f16, from, at);
    r.b = load_two(f16, from, at + stride);
    r.c = load_two(f16, from, at + 2 * stride);
    r.d = load_two(f16, from, at + 3 * stride);
    return r;
}

static inline float4 first_of(const struct twos *x) {
    return (float4)((float)x->a.x, (float)x->b.x, (float)x->c.x, (float)x->d.x);
}

static inline float4 second_of(const struct twos *x) {
    return (float4)((float)x->a.y, (float)x->b.y, (float)x->c.y, (float)x->d.y);
}

/* What is in flight of K: numbers, or words and scales of 32 quantised dims. */
#define TWOS(i) struct twos of##i;
struct keys {
    KEYS(TWOS)
    uint2 word0, word1, word2, word3, word4, word5, word6, word7;
    half2 scale;
};

#define KEYS_OF_DIM(d)                                                                                       \
    load_twos(type == KV_LAYOUT_F16, k, ((d)*KV_LAYOUT_BLOCK + slot) / 2, KV_LAYOUT_BLOCK / 2)

static inline void load_words(uint type, global const uchar *k, uint slot, uint dim, uint g, struct keys *x) {
    uint stride = KV_LAYOUT_BLOCK / 2;
    global const uint2 *at = (global const uint2 *)k + g * kv_layout_group(type) / 4 * stride + slot / 2;
    x->word0 = at[0], x->word1 = at[stride], x->word2 = at[2 * stride], x->word3 = at[3 * stride];
    if (type == KV_LAYOUT_Q8_0) {
        x->word4 = at[4 * stride], x->word5 = at[5 * stride];
        x->word6 = at[6 * stride], x->word7 = at[7 * stride];
    }
    x->scale = ((global const half2 *)(k + kv_layout_scales(type, dim)))[g * stride + slot / 2];
}

#ifdef CL_KV
static inline void load_keys(uint type, global const uchar *k, uint slot, uint dim, struct keys *x) {
    if (kv_layout_quantised(type)) {
        load_words(type, k, slot, dim, 0, x);
    } else {
#define START(i) x->of##i = KEYS_OF_DIM(4 * i);
        KEYS(START)
    }
}
#endif

#define FEW 4 /* rows whose sums an item has at a time; some may not be there */

static inline float add_products(float4 q, float4 x, float sum) {
    sum = fma(q.x, x.x, sum);
    sum = fma(q.y, x.y, sum);
    sum = fma(q.z, x.z, sum);
    return fma(q.w, x.w, sum);
}

/* Four dims of four rows, the first at q, with two tokens. */
static inline void four_dots(local const float *q, uint dim, float4 x, float4 y, float4 *first,
                             float4 *second) {
    float4 a = *(local const float4 *)q, b = *(local const float4 *)(q + dim);
    float4 c = *(local const float4 *)(q + 2 * dim), d = *(local const float4 *)(q + 3 * dim);
    first->x = add_products(a, x, first->x);
    second->x = add_products(a, y, second->x);
    first->y = add_products(b, x, first->y);
    second->y = add_products(b, y, second->y);
    first->z = add_products(c, x, first->z);
    second->z = add_products(c, y, second->z);
    first->w = add_products(d, x, first->w);
    second->w = add_products(d, y, second->w);
}

/* first and second += q of FEW rows times the item's two tokens, dim by dim. What is loaded is replaced at
 * once by what comes DIMS_AHEAD dims later; after the last by the first, which further rows need. */
static inline void dots(uint type, global const uchar *k, uint slot, uint dim, local const float *q,
                        struct keys *x, float4 *first, float4 *second) {
    for (uint d = 0; d < dim; d += DIMS_AHEAD) {
        EARLY(uint then = d + DIMS_AHEAD < dim ? d + DIMS_AHEAD : 0;)
#define DOTS(i)                                                                                              \
    {                                                                                                        \
        LATE(x->of##i = KEYS_OF_DIM(d + 4 * i);)                                                             \
        float4 a = first_of(&x->of##i), b = second_of(&x->of##i);                                            \
        EARLY(x->of##i = KEYS_OF_DIM(then + 4 * i);)                                                         \
        four_dots(q + d + 4 * i, dim, a, b, first, second);                                                  \
    }
        KEYS(DOTS)
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

static inline int dot_words(uint4 a, uint4 b, int sum) {
    return sum + dot(as_char4(a.x), as_char4(b.x)) + dot(as_char4(a.y), as_char4(b.y)) +
           dot(as_char4(a.z), as_char4(b.z)) + dot(as_char4(a.w), as_char4(b.w));
}

/* 32 dims of a row and a token. */
static inline float add_integers(const struct query_words *q, uint row, uint dim, uint g, uint4 a, uint4 b,
                                 float d, float sum) {
    local const uint4 *high = (local const uint4 *)(q->high + row * (dim / 4) + g * 8);
    local const uint4 *low = (local const uint4 *)(q->low + row * (dim / 4) + g * 8);
    int i = dot_words(high[1], b, dot_words(high[0], a, 0)) * 128;
    float scale = q->d[row * (dim / 32) + g] * d;
    return fma((float)dot_words(low[1], b, dot_words(low[0], a, i)), scale, sum);
}

static inline float4 four_integers(const struct query_words *q, uint row, uint dim, uint g, uint4 a, uint4 b,
                                   float d, float4 sum) {
    return (float4)(add_integers(q, row, dim, g, a, b, d, sum.x),
                    add_integers(q, row + 1, dim, g, a, b, d, sum.y),
                    add_integers(q, row + 2, dim, g, a, b, d, sum.z),
                    add_integers(q, row + 3, dim, g, a, b, d, sum.w));
}

static inline uint4 low_codes(uint4 x) {
    x &= 0x0F0F0F0Fu;
    return (uint4)(less_eight(x.x), less_eight(x.y), less_eight(x.z), less_eight(x.w));
}

static inline void dots_quantised(uint type, global const uchar *k, uint slot, uint dim, uint row,
                                  const struct scratch *m, struct keys *x, float4 *first, float4 *second) {
    struct query_words q = words_of(m, dim);
    for (uint g = 0; g < dim / 32; g++) {
        LATE(load_words(type, k, slot, dim, g, x);)
        uint4 a0 = {x->word0.x, x->word1.x, x->word2.x, x->word3.x};
        uint4 b0 = {x->word0.y, x->word1.y, x->word2.y, x->word3.y};
        uint4 a1, b1;
        if (type == KV_LAYOUT_Q8_0) {
            a1 = (uint4)(x->word4.x, x->word5.x, x->word6.x, x->word7.x);
            b1 = (uint4)(x->word4.y, x->word5.y, x->word6.y, x->word7.y);
        } else {
            a1 = low_codes(a0 >> 4), b1 = low_codes(b0 >> 4);
            a0 = low_codes(a0), b0 = low_codes(b0);
        }
        float da = (float)x->scale.x, db = (float)x->scale.y;
        EARLY(load_words(type, k, slot, dim, g + 1 < dim / 32 ? g + 1 : 0, x);)
        *first = four_integers(&q, row, dim, g, a0, a1, da, *first);
        *second = four_integers(&q, row, dim, g, b0, b1, db, *second);
    }
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

/* What becomes of a row's sums over the split: it sees nothing; they are the first, or merged into what is
 * there; else the index in cells of their first. */
#define ROW_NONE  0xffffffffu
#define ROW_FIRST 0xfffffffeu
#define ROW_MERGE 0xfffffffdu

/* Item row < ROWS: m->end and m->to of the row; cells: splits are side by side. */
static inline void plan_row(const struct look *l, const struct scratch *m, const struct rows *r, uint row,
                            uint begin, const struct cells *cells) {
    m->end[row] = seen(l, r, row, begin);
#ifdef CL_BOTH
    m->from[row] = hidden(l, r, row, begin);
#endif
    uint to = ROW_NONE;
    if (row < r->n && sees_some(l, r, row, begin)) {
        to = begin == first_split(l, r, row) * SPLIT ? ROW_FIRST : ROW_MERGE;
        if (cells->splits != 0)
            to = (cell_of(l, cells, r, row) + begin / SPLIT * cells->n_heads) * l->head_v;
    }
    m->to[row] = to;
}

/* Group: the rows' q to local memory, as what the keys are. */
static inline void load_q(const struct look *l, const struct scratch *m, const struct rows *r) {
    uint dim = l->head_k;
    if (kv_layout_quantised(TYPE_K(l))) {
        struct query_words w = words_of(m, dim);
        for (uint i = get_local_id(0); i < r->n * (dim / 32); i += ITEMS)
            quantise_query(query_of(l, r, i / (dim / 32)) + i % (dim / 32) * 32, w.high + 8 * i,
                           w.low + 8 * i, w.d + i);
    } else {
        for (uint i = get_local_id(0); i < r->n * dim; i += ITEMS)
            m->q[i] = query_of(l, r, i / dim)[i % dim];
    }
}

/* Of the split at `begin`, where what row i sees begins. */
static inline int from_of(const struct look *l, const struct scratch *m, uint row, uint begin) {
#ifdef CL_BOTH
    (void)l, (void)begin;
    return m->from[row];
#else
    return hidden_of(l, m->end[row], begin);
#endif
}

static inline float finished(const struct look *l, float dot) {
    float s = (kv_layout_quantised(TYPE_K(l)) ? dot : 0.0f + dot) * l->scale;
    return l->cap != 0.0f ? num_softcap(s, l->cap, l->cap_inverse) : s;
}

/* The item's two scores of a row. */
static inline void put_scores(const struct look *l, const struct scratch *m, const struct rows *r, uint row,
                              uint begin, float first, float second) {
    if (row >= r->n)
        return;
    int t = (int)(2 * get_local_id(0)), end = m->end[row], before = from_of(l, m, row, begin);
    float a = t < end && t >= before ? finished(l, first) : -INFINITY;
    float b = t + 1 < end && t + 1 >= before ? finished(l, second) : -INFINITY;
    *(local float2 *)(m->score + row * SPLIT + t) = (float2)(a, b);
}

#include "kernels/opencl/attention/cl_values.h"

/* Group: the scores of each row and token to score, what V's sums need to block and end; fresh: q first. An
 * item has tokens 2 * me and 2 * me + 1. */
static inline void score_split(const struct look *l, const struct scratch *m, const struct rows *r,
                               global const uint *table, uint begin, bool fresh, const struct cells *cells) {
    uint me = get_local_id(0);
    int from = max(hidden(l, r, 0, begin), 0), to = min(seen(l, r, r->n - 1, begin), SPLIT);
    bool some = (int)(2 * me) < to && (int)(2 * me + 1) >= from;
    uint token = some ? token_at(l, begin + 2 * me) : 0, slot = token % KV_LAYOUT_BLOCK;
    global const uchar *k = cl_unit_at(&l->cache, unit_of(r));
    struct keys x;
    if (some) {
        k += block_of(l, table, token);
        EARLY(load_keys(TYPE_K(l), k, slot, l->head_k, &x);)
    }
    if (me < SPLIT / SPOT)
        m->block[me] = spot_of(l, table, begin + (uint)clamp((int)(me * SPOT), from, to - 1));
    if (me < ROWS)
        plan_row(l, m, r, me, begin, cells);
    if (fresh)
        load_q(l, m, r);
    if (kv_layout_quantised(TYPE_V(l)))
        put_largest(l, m, r, table, begin);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (kv_layout_quantised(TYPE_V(l)))
        put_factors(l, m, r);
    for (uint row = 0; row < r->n; row += FEW) {
        float4 first = 0.0f, second = 0.0f;
        if (some && kv_layout_quantised(TYPE_K(l)))
            dots_quantised(TYPE_K(l), k, slot, l->head_k, row, m, &x, &first, &second);
        else if (some)
            dots(TYPE_K(l), k, slot, l->head_k, m->q + row * l->head_k, &x, &first, &second);
        put_scores(l, m, r, row, begin, first.x, second.x);
        put_scores(l, m, r, row + 1, begin, first.y, second.y);
        put_scores(l, m, r, row + 2, begin, first.z, second.z);
        put_scores(l, m, r, row + 3, begin, first.w, second.w);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline float larger(float a, float b) {
    return b > a ? b : a;
}

static inline float largest(local const float4 *x, uint stride) {
    float most = -INFINITY;
#pragma unroll
    for (uint k = 0; k < 4; k++) {
        float4 v = x[k * stride];
        most = larger(most, larger(larger(v.x, v.y), larger(v.z, v.w)));
    }
    return most;
}

/* Of 16 numbers, `stride` apart, what the tree makes: x[i] += x[i + 8], + 4, + 2, + 1. */
static inline float tree16(local const float *x, uint stride) {
    float v[4];
#pragma unroll
    for (uint k = 0; k < 4; k++) {
        float even = x[k * stride] + x[(k + 8) * stride], odd = x[(k + 4) * stride] + x[(k + 12) * stride];
        v[k] = even + odd;
    }
    float even = v[0] + v[2], odd = v[1] + v[3];
    return even + odd;
}

/* Group: scores become e; each row's next merge to before and now. */
static inline void weigh_scores(const struct look *l, const struct scratch *m, const struct rows *r,
                                const struct cells *cells) {
    uint me = get_local_id(0);
    for (uint i = me; i < r->n * PARTS; i += ITEMS)
        m->part[i] = largest((local const float4 *)(m->score + i / PARTS * SPLIT) + i % PARTS, PARTS);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < r->n)
        m->now[me] = largest((local const float4 *)(m->part + me * PARTS), 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < r->n * (SPLIT / 2); i += ITEMS) {
        local float2 *at = (local float2 *)m->score + i;
        float most = m->now[i / (SPLIT / 2)];
        float2 x = *at;
        *at = (float2)(x.x == -INFINITY ? 0.0f : num_exp(x.x - most),
                       x.y == -INFINITY ? 0.0f : num_exp(x.y - most));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < r->n * PARTS; i += ITEMS)
        m->part[i] = tree16(m->score + i / PARTS * SPLIT + i % PARTS, PARTS);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < r->n) {
        uint to = m->to[me];
        m->before[me] = tree16(m->part + me * PARTS, 1);
        if (to != ROW_NONE)
            plan_merge(m, me, to != ROW_MERGE);
        if (to < ROW_MERGE) {
            cells->ends[to / l->head_v * 2] = m->max[me];
            cells->ends[to / l->head_v * 2 + 1] = m->sum[me];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* What an item has summed, its row i. */
static inline void put_sums(const struct look *l, const struct scratch *m, const struct cells *cells,
                            const struct column *c, uint i, float a, float b, int high_a, int high_b) {
    uint row = c->row + i, to = i < c->n ? m->to[row] : ROW_NONE;
    if (to == ROW_NONE)
        return;
    float2 sum = {a, b};
    if (kv_layout_quantised(TYPE_V(l))) {
        float unit = factor_of(l, m, row, c->d / 32)[1];
        sum = (float2)((float)(as_int(a) + 256 * high_a) * unit, (float)(as_int(b) + 256 * high_b) * unit);
    }
    if (to < ROW_MERGE) {
        *(global float2 *)(cells->o + to + c->d) = sum;
        return;
    }
    local float2 *merged = (local float2 *)(m->o + row * l->head_v + c->d);
    if (to == ROW_MERGE) {
        float2 scaled = *merged * m->before[row];
        sum = (float2)(fma(sum.x, m->now[row], scaled.x), fma(sum.y, m->now[row], scaled.y));
    }
    *merged = sum;
}

/* Group: one split of the rows: side by side, to its cell, or merged into max, sum and o, of which nothing is
 * there at a row's first split. fresh: q is not in local memory yet. */
static inline void add_split(const struct look *l, const struct scratch *m, const struct rows *r,
                             global const uint *table, uint begin, bool fresh, const struct cells *cells) {
    uint me = get_local_id(0);
    score_split(l, m, r, table, begin, fresh, cells);
    uint pairs = l->head_v / 2, all = cl_ceil_div(r->n, FEW) * pairs;
    uint at = me;
    struct column c = column_of(l, m, r, at);
    struct all_values x;
    if (at < all) /* on the way while the scores are weighed */
        start_column(l, m, r, begin, &c, &x);
    weigh_scores(l, m, r, cells);
#if !defined(CL_LATENT) && (!defined(CL_KV) || CL_KV > KV_LAYOUT_F16)
    if (kv_layout_quantised(TYPE_V(l)))
        put_weights(l, m, r, begin, &c, at < all);
#endif
    for (uint from = 0; from < all; from += ITEMS) {
        if (at < all) {
            struct sums o;
            clear_sums(&o);
            weigh_split(l, m, r, begin, &c, &x, &o);
            put_sums(l, m, cells, &c, 0, o.a0, o.b0, o.high_a0, o.high_b0);
            put_sums(l, m, cells, &c, 1, o.a1, o.b1, o.high_a1, o.high_b1);
            put_sums(l, m, cells, &c, 2, o.a2, o.b2, o.high_a2, o.high_b2);
            put_sums(l, m, cells, &c, 3, o.a3, o.b3, o.high_a3, o.high_b3);
        }
        at += ITEMS;
        if (at < all) {
            c = column_of(l, m, r, at);
            start_column(l, m, r, begin, &c, &x);
        }
#if !defined(CL_LATENT) && (!defined(CL_KV) || CL_KV > KV_LAYOUT_F16)
        if (kv_layout_quantised(TYPE_V(l)) && from + ITEMS < all) {
            barrier(CLK_LOCAL_MEM_FENCE);
            put_weights(l, m, r, begin, &c, at < all);
        }
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
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

/* Group: the rows' finished output, which stays in m->o. */
static inline void put_rows(const struct look *l, const struct scratch *m, const struct rows *r) {
    if (l->has_sinks)
        add_sinks(l, m, r);
    for (uint i = get_local_id(0); i < r->n * l->head_v; i += ITEMS) {
        float o = m->o[i] * num_rcp(m->sum[i / l->head_v]);
        m->o[i] = o;
        out_of(l, r, i / l->head_v)[i % l->head_v] = o;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Splits that a row merges at a time, and loads of one item in flight at a time. */
#define MERGED  128
#define IN_HAND 4

/* A row's factors of merging splits, ROWS apart: of what is before each, and of it; and its sum. */
struct factors {
    local float *before, *now, *sum; /* [MERGED][ROWS] */
};

static inline struct factors factors_in(const struct scratch *m) {
    struct factors f = {m->score, m->score + MERGED * ROWS, m->score + 2 * MERGED * ROWS};
    return f;
}

/* Group: the factors of merging splits from .. from + n. m's max is that of the splits before, if these are
 * not the first, then of these too; a split that a row doesn't see has a maximum of -INFINITY. */
static inline void plan_merges(const struct look *l, const struct scratch *m, const struct rows *r,
                               const struct cells *c, uint from, uint n, bool first) {
    uint me = get_local_id(0);
    struct factors f = factors_in(m);
    for (uint i = me; i < n * r->n; i += ITEMS) {
        uint row = i % r->n, split = from + i / r->n, at = i / r->n * ROWS + row;
        bool is = sees_some(l, r, row, split * SPLIT);
        global const float2 *ends = (global const float2 *)c->ends;
        float2 x = ends[is ? cell_of(l, c, r, row) + split * c->n_heads : 0];
        f.now[at] = is ? x.x : -INFINITY;
        f.sum[at] = x.y;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < r->n) { /* what is before each */
        float max = first ? -INFINITY : m->max[me];
        for (uint i = 0; i < n; i += IN_HAND) {
            float x[IN_HAND];
#pragma unroll
            for (uint k = 0; k < IN_HAND; k++)
                x[k] = f.now[min(i + k, n - 1) * ROWS + me];
#pragma unroll
            for (uint k = 0; k < IN_HAND; k++) {
                if (i + k < n)
                    f.before[(i + k) * ROWS + me] = max;
                max = x[k] > max ? x[k] : max;
            }
        }
        m->max[me] = max;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < n * r->n; i += ITEMS) {
        uint at = i / r->n * ROWS + i % r->n;
        float before = f.before[at], now = f.now[at];
        float all = now > before ? now : before;
        f.before[at] = num_exp(before - all);
        f.now[at] = num_exp(now - all);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Item me < n: merged, or the first split of all, and then the sums of the n splits that follow. */
static inline float merge_sums(float merged, bool first, uint n, const struct factors *f, uint at) {
    for (uint s = 0; s < n; s++, at += ROWS) {
        float scaled = merged * f->before[at];
        float sum = fma(f->sum[at], f->now[at], scaled);
        merged = first && s == 0 ? f->sum[at] : sum;
    }
    return merged;
}

/* The same of four columns; the first split's at `at`, `stride` from split to split. */
static inline float4 merge_columns(float4 merged, bool first, global const float4 *at, uint stride, uint n,
                                   const struct factors *f, uint factor) {
    float4 x[IN_HAND];
#pragma unroll
    for (uint k = 0; k < IN_HAND; k++)
        x[k] = at[min(k, n - 1) * stride];
    for (uint s = 0; s < n; s += IN_HAND) {
#pragma unroll
        for (uint k = 0; k < IN_HAND; k++) {
            float4 v = x[k];
            x[k] = at[min(s + IN_HAND + k, n - 1) * stride];
            if (s + k < n) {
                float before = f->before[factor + (s + k) * ROWS], now = f->now[factor + (s + k) * ROWS];
                float4 scaled = merged * before;
                float4 sum = {fma(v.x, now, scaled.x), fma(v.y, now, scaled.y), fma(v.z, now, scaled.z),
                              fma(v.w, now, scaled.w)};
                merged = first && s + k == 0 ? v : sum;
            }
        }
    }
    return merged;
}

/* Group: the rows' output out of all their cells. */
static inline void merge_rows(const struct look *l, const struct scratch *m, const struct rows *r,
                              const struct cells *c) {
    uint me = get_local_id(0);
    struct factors f = factors_in(m);
    uint splits = cl_ceil_div((uint)seen(l, r, r->n - 1, 0), SPLIT);
    uint begin = first_split(l, r, 0), fours = l->head_v / 4;
    for (uint from = begin; from < splits; from += MERGED) {
        uint n = min(splits - from, (uint)MERGED);
        plan_merges(l, m, r, c, from, n, from == begin);
        for (uint i = me; i < r->n * (fours + 1); i += ITEMS) {
            bool is_sum = i >= r->n * fours;
            uint row = is_sum ? i - r->n * fours : i / fours, four = i % fours;
            int here = min((int)n, (int)cl_ceil_div((uint)seen(l, r, row, 0), SPLIT) - (int)from);
            uint own = first_split(l, r, row);
            uint skip = own > from ? own - from : 0; /* splits that are before what the row sees */
            if (here <= (int)skip)
                continue;
            uint at = cell_of(l, c, r, row) + (from + skip) * c->n_heads;
            if (is_sum) {
                m->sum[row] = merge_sums(m->sum[row], own >= from, (uint)here - skip, &f, skip * ROWS + row);
            } else {
                local float4 *o = (local float4 *)(m->o + row * l->head_v) + four;
                *o = merge_columns(*o, own >= from, (global const float4 *)(c->o + at * l->head_v) + four,
                                   c->n_heads * fours, (uint)here - skip, &f, skip * ROWS + row);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
