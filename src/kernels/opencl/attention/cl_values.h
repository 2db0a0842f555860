/* V in attention of few queries: what the weights of quantised V are scaled with, and an item's columns times
 * the weights of its rows. Floats come token by token; of quantised V the sums are of integers. Includer:
 * cl_splits.h. */
#ifndef STATOR_KERNELS_OPENCL_CL_VALUES_H
#define STATOR_KERNELS_OPENCL_CL_VALUES_H

/* Where V of the group's rows begins in a block, and its scales from there. */
static inline global const uchar *values_of(const struct look *l, const struct rows *r) {
#ifdef CL_LATENT
    return cl_unit_at(&l->cache, unit_of(r));
#else
    return cl_unit_at(&l->cache, unit_of(r)) + l->cache.k_bytes;
#endif
}

static inline uint value_scales(const struct look *l) {
#ifdef CL_LATENT
    return kv_layout_scales(TYPE_V(l), l->head_k);
#else
    return kv_layout_scales(TYPE_V(l), l->head_v);
#endif
}

/* Four scales of group g, of the token t of the split, which has this place. */
static inline half4 scales_at(global const uchar *scales, uint place, uint g, uint t) {
    return (
        (global const half4 *)(scales + spot_block(place)))[(g * KV_LAYOUT_BLOCK + spot_slot(place, t)) / 4];
}

/* Group: the largest scales of quantised V, of what each row sees of the split, block by block; then, after a
 * barrier, the factor of its weights and the unit of its sums: of row i and group g two at factor_of. */
static inline void put_largest(const struct look *l, const struct scratch *m, const struct rows *r,
                               global const uint *table, uint begin) {
    const uint groups = l->head_v / 32, blocks = SPLIT / KV_LAYOUT_BLOCK;
    global const uchar *scales = values_of(l, r) + value_scales(l);
    for (uint i = get_local_id(0); i < r->n * groups * blocks; i += ITEMS) {
        uint b = i % blocks, g = i / blocks % groups, row = i / blocks / groups;
        int from = hidden(l, r, row, begin) - (int)(b * KV_LAYOUT_BLOCK);
        int end = seen(l, r, row, begin) - (int)(b * KV_LAYOUT_BLOCK);
        float most = 0.0f;
        if (end > 0 && from < KV_LAYOUT_BLOCK) {
#ifdef CL_CHOSEN
            for (int t = 0; t < min(end, KV_LAYOUT_BLOCK); t += 4) {
                uint place = spot_of(l, table, begin + b * KV_LAYOUT_BLOCK + (uint)t);
                half4 four = scales_at(scales, place, g, (uint)t);
                most = larger_scale(most, seen_scales(four, from - t, end - t));
            }
#else
            uint block = block_of(l, table, begin + b * KV_LAYOUT_BLOCK);
            for (int t = 0; t < KV_LAYOUT_BLOCK; t += 4)
                most =
                    larger_scale(most, seen_scales(scales_at(scales, block, g, (uint)t), from - t, end - t));
#endif
        }
        m->largest[i] = most;
    }
}

static inline local float *factor_of(const struct look *l, const struct scratch *m, uint row, uint g) {
    return m->top + 2 * (row * (l->head_v / 32) + g);
}

static inline void put_factors(const struct look *l, const struct scratch *m, const struct rows *r) {
    const uint groups = l->head_v / 32;
    for (uint i = get_local_id(0); i < r->n * groups; i += ITEMS) {
        local const float *of = m->largest + i * (SPLIT / KV_LAYOUT_BLOCK);
        float most = of[0];
        for (uint b = 1; b < SPLIT / KV_LAYOUT_BLOCK; b++)
            most = of[b] > most ? of[b] : most;
        local float *to = factor_of(l, m, i / groups, i % groups);
        to[0] = NUM_QUANT_WEIGHT * cl_inverse(most);
        to[1] = most * NUM_QUANT_WEIGHT_INVERSE;
    }
}

/* What an item sums: columns d and d + 1 of rows row, row + 1, .., up to FEW; of quantised V the factors of
 * these rows' weights (of rows that are not there: anything). */
struct column {
    uint d, row, n;
    float factor0, factor1, factor2, factor3;
};

static inline struct column column_of(const struct look *l, const struct scratch *m, const struct rows *r,
                                      uint at) {
    uint pairs = l->head_v / 2, row = at / pairs * FEW;
    struct column c = {at % pairs * 2, row, r->n - min(row, r->n), 0.0f, 0.0f, 0.0f, 0.0f};
    if (kv_layout_quantised(TYPE_V(l)) && row < r->n) {
        uint g = c.d / 32;
        c.factor0 = *factor_of(l, m, row, g);
        c.factor1 = *factor_of(l, m, row + 1, g);
        c.factor2 = *factor_of(l, m, row + 2, g);
        c.factor3 = *factor_of(l, m, row + 3, g);
    }
    return c;
}

#ifdef CL_LATENT
#include "kernels/opencl/attention/cl_latent.h"
#else

/* Four tokens of the two columns; and the item's next four, from pointers that go on: offsets from a block's
 * begin, which do not change, compilers would keep in registers. */
#if defined(CL_KV) && CL_KV <= KV_LAYOUT_F16
struct values {
    struct twos x;
};
struct source {
    global const two *at;
};
#else
struct values {
    uint2 word;
    half4 scale;
#ifndef CL_KV
    struct twos x;
#endif
};
struct source {
    global const uint2 *word;
    global const half4 *scale;
#ifndef CL_KV
    global const uchar *at;
#endif
};

/* Quantised: words of four tokens, in pairs. */
static inline uint value_line(const struct look *l) {
    return l->head_v / 32 * kv_layout_group(TYPE_V(l)) / 2;
}
#endif

static inline struct source source_at(const struct look *l, global const uchar *v, uint d, uint slot) {
    struct source r;
#if defined(CL_KV) && CL_KV <= KV_LAYOUT_F16
    r.at = (global const two *)v + (slot * l->head_v + d) / 2;
#else
    r.word = (global const uint2 *)v + slot / 4 * value_line(l) +
             (TYPE_V(l) == KV_LAYOUT_Q8_0 ? d : d / 32 * 16 + d % 16) / 2;
    r.scale = (global const half4 *)(v + kv_layout_scales(TYPE_V(l), l->head_v)) +
              d / 32 * (KV_LAYOUT_BLOCK / 4) + slot / 4;
#ifndef CL_KV
    r.at = v + (slot * l->head_v + d) * (TYPE_V(l) == KV_LAYOUT_F16 ? 2 : 4);
#endif
#endif
    return r;
}

static inline struct values load_values(const struct look *l, struct source *from) {
    struct values r;
#if defined(CL_KV) && CL_KV <= KV_LAYOUT_F16
    uint stride = l->head_v / 2;
    r.x.a = *from->at, from->at += stride;
    r.x.b = *from->at, from->at += stride;
    r.x.c = *from->at, from->at += stride;
    r.x.d = *from->at, from->at += stride;
#else
#ifndef CL_KV
    if (!kv_layout_quantised(TYPE_V(l))) {
        bool f16 = TYPE_V(l) == KV_LAYOUT_F16;
        r.x = load_twos(f16, from->at, 0, l->head_v / 2);
        from->at += l->head_v * (f16 ? 8 : 16);
        return r;
    }
#endif
    r.word = *from->word, from->word += value_line(l);
    r.scale = *from->scale++;
#endif
    return r;
}

#if !defined(CL_KV) || CL_KV > KV_LAYOUT_F16
/* Column d of four tokens, as bytes. */
static inline uint word_values(uint type, uint word, uint d) {
    if (type == KV_LAYOUT_Q8_0)
        return word;
    return less_eight(word >> (d % 32 >= 16 ? 4 : 0) & 0x0F0F0F0Fu);
}
#endif

#endif

/* What an item sums, of its first column and its second. Of quantised V integers, as bits: exact, in any
 * order; the products of the weights' high bytes (of latent attention all) apart. */
struct sums {
    float a0, a1, a2, a3, b0, b1, b2, b3;
    int high_a0, high_a1, high_a2, high_a3, high_b0, high_b1, high_b2, high_b3;
};

static inline void clear_sums(struct sums *o) { /* as an initialiser, IGC would keep some of it in memory */
    o->a0 = o->a1 = o->a2 = o->a3 = o->b0 = o->b1 = o->b2 = o->b3 = 0.0f;
    o->high_a0 = o->high_a1 = o->high_a2 = o->high_a3 = 0;
    o->high_b0 = o->high_b1 = o->high_b2 = o->high_b3 = 0;
}

#ifdef CL_LATENT
/* The item's columns of four tokens: floats, or of quantised V integers and scales. */
struct operands {
    float4 x, y, scale;
    short4 i, j;
};

static inline struct operands operands_of(const struct look *l, const struct column *c,
                                          const struct values *v) {
    struct operands r;
    r.x = r.y = r.scale = 0.0f, r.i = r.j = 0; /* as an initialiser, IGC would keep some of it in memory */
    (void)l, (void)c;
#if CL_KV <= KV_LAYOUT_F16
    r.x = (float4)((float)v->x.x, (float)v->x.y, (float)v->x.z, (float)v->x.w);
    r.y = (float4)((float)v->y.x, (float)v->y.y, (float)v->y.z, (float)v->y.w);
#else
    r.i = byte_values(v->word, c->d), r.j = byte_values(v->word, c->d + 1);
    r.scale = (float4)((float)v->scale.x, (float)v->scale.y, (float)v->scale.z, (float)v->scale.w);
#endif
    return r;
}

/* A weight's low 16 bits are its integer. */
static inline short weight_of(float e, float scale, float factor) {
    float by = scale * factor;
    return (short)NUM_BITS(fma(e, by, NUM_ROUND));
}

static inline int add_weights(short4 w, short4 v, int sum) {
    return sum + w.x * v.x + w.y * v.y + w.z * v.z + w.w * v.w;
}

/* += e * x of a row and four tokens, in integers; factor: of the row's weights. */
static inline void add_integers_of(const struct scratch *m, uint row, uint few, float factor, uint t,
                                   const struct operands *v, float *first, float *second, int *first_high,
                                   int *second_high) {
    float4 e = *(local const float4 *)(m->score + row * SPLIT + t);
    short4 w = {weight_of(e.x, v->scale.x, factor), weight_of(e.y, v->scale.y, factor),
                weight_of(e.z, v->scale.z, factor), weight_of(e.w, v->scale.w, factor)};
    (void)few, (void)first_high, (void)second_high;
    *first = as_float(add_weights(w, v->i, as_int(*first)));
    *second = as_float(add_weights(w, v->j, as_int(*second)));
}
#else
/* The item's columns of four tokens: floats, or of quantised V bytes. */
struct operands {
    float4 x, y;
    uint i, j;
};

static inline struct operands operands_of(const struct look *l, const struct column *c,
                                          const struct values *v) {
    struct operands r;
    r.x = r.y = 0.0f, r.i = r.j = 0; /* as an initialiser, IGC would keep some of it in memory */
#if !defined(CL_KV) || CL_KV <= KV_LAYOUT_F16
    r.x = first_of(&v->x), r.y = second_of(&v->x);
#endif
#if !defined(CL_KV) || CL_KV > KV_LAYOUT_F16
    if (kv_layout_quantised(TYPE_V(l)))
        r.i = word_values(TYPE_V(l), v->word.x, c->d), r.j = word_values(TYPE_V(l), v->word.y, c->d);
#else
    (void)l, (void)c;
#endif
    return r;
}

/* The weights of an item's row number `few`, of four tokens each. */
static inline local uint2 *weights_at(const struct scratch *m, uint few) {
    return m->weights + (get_local_id(0) / 16 * FEW + few) * (SPLIT / 4);
}

/* Group: of quantised V the weights that its items need next. 16 items have the same rows and group of dims.
 */
static inline void put_weights(const struct look *l, const struct scratch *m, const struct rows *r,
                               uint begin, const struct column *c, bool mine) {
    int first = hidden(l, r, 0, begin), end = seen(l, r, r->n - 1, begin);
    global const uchar *scales = values_of(l, r) + value_scales(l);
    if (mine) {
#pragma unroll 1
        for (uint t = get_local_id(0) % 16 * 4; t < SPLIT; t += 64) {
            half4 d = scales_at(scales, m->block[t / SPOT], c->d / 32, t);
            d = seen_scales(d, first - (int)t, end - (int)t);
            float4 scale = {(float)d.x, (float)d.y, (float)d.z, (float)d.w};
#define PUT(few, factor)                                                                                     \
    {                                                                                                        \
        float4 e = *(local const float4 *)(m->score + (c->row + few) * SPLIT + t), by = scale * c->factor;   \
        weights_at(m, few)[t / 4] =                                                                          \
            weight_bytes(NUM_BITS(fma(e.x, by.x, WEIGHT_ROUND)), NUM_BITS(fma(e.y, by.y, WEIGHT_ROUND)),     \
                         NUM_BITS(fma(e.z, by.z, WEIGHT_ROUND)), NUM_BITS(fma(e.w, by.w, WEIGHT_ROUND)));    \
    }
            PUT(0, factor0)
            PUT(1, factor1)
            PUT(2, factor2)
            PUT(3, factor3)
#undef PUT
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* += e * x of a row and four tokens, in integers. */
static inline void add_integers_of(const struct scratch *m, uint row, uint few, float factor, uint t,
                                   const struct operands *v, float *first, float *second, int *first_high,
                                   int *second_high) {
    uint2 w = weights_at(m, few)[t / 4];
    (void)row, (void)factor;
    *first_high += dot(as_char4(w.x), as_char4(v->i));
    *second_high += dot(as_char4(w.x), as_char4(v->j));
    *first = as_float(as_int(*first) + dot(as_char4(w.y), as_char4(v->i)));
    *second = as_float(as_int(*second) + dot(as_char4(w.y), as_char4(v->j)));
}
#endif

/* o += e * x over tokens t .. t + 4 of the split, token by token, or in integers. */
static inline void add_row(const struct look *l, const struct scratch *m, uint row, uint few, float factor,
                           uint t, const struct operands *v, float *first, float *second, int *first_high,
                           int *second_high) {
    if (kv_layout_quantised(TYPE_V(l))) {
        add_integers_of(m, row, few, factor, t, v, first, second, first_high, second_high);
        return;
    }
    float4 e = *(local const float4 *)(m->score + row * SPLIT + t);
    *first = add_products(e, v->x, *first);
    *second = add_products(e, v->y, *second);
}

static inline void add_values(const struct look *l, const struct scratch *m, const struct column *c, uint t,
                              const struct operands *v, struct sums *o) {
#define ADD(few)                                                                                             \
    add_row(l, m, c->row + few, few, c->factor##few, t, v, &o->a##few, &o->b##few, &o->high_a##few,          \
            &o->high_b##few);
    ADD(0)
    ADD(1)
    ADD(2)
    ADD(3)
#undef ADD
}

static inline float4 between(float4 x, int first, int end, float other) {
    return (float4)(0 >= first && 0 < end ? x.x : other, 1 >= first && 1 < end ? x.y : other,
                    2 >= first && 2 < end ? x.z : other, 3 >= first && 3 < end ? x.w : other);
}

/* Of tokens that no row sees e is 0, and what is there may be anything: -0 for it changes no sum, not even
 * one that is -0. Of quantised V only a scale may be no number. */
static inline void mask(const struct look *l, struct operands *v, int first, int end) {
#ifdef CL_LATENT
    if (kv_layout_quantised(TYPE_V(l)))
        v->scale = between(v->scale, first, end, 0.0f);
#endif
    if (!kv_layout_quantised(TYPE_V(l)))
        v->x = between(v->x, first, end, -0.0f), v->y = between(v->y, first, end, -0.0f);
}

/* What is in flight of V. */
#define VALUES_OF(i) struct values of##i;
struct all_values {
    VALUES(VALUES_OF)
};

/* The tokens of the split from t on, TOKENS_AHEAD of them, which x has; it gets those of `from`. part: all
 * rows see the same of them, those of the split from first on and before end. */
static inline void weigh(bool part, const struct look *l, const struct scratch *m, const struct column *c,
                         int first, int end, uint t, struct source from, struct all_values *x,
                         struct sums *o) {
#define WEIGH(i)                                                                                             \
    {                                                                                                        \
        LATE(x->of##i = load_values(l, &from);)                                                              \
        struct operands now = operands_of(l, c, &x->of##i);                                                  \
        EARLY(x->of##i = load_values(l, &from);)                                                             \
        if (part)                                                                                            \
            mask(l, &now, first - (int)t - 4 * i, end - (int)t - 4 * i);                                     \
        add_values(l, m, c, t + 4 * i, &now, o);                                                             \
    }
    VALUES(WEIGH)
}

static inline void add_seen(const struct look *l, const struct scratch *m, uint row, int t,
                            const struct operands *v, float *first, float *second) {
#ifdef CL_BOTH
    int end = m->end[row] - t, begin = m->from[row] - t;
    (void)l;
#else
    int end = m->end[row] - t, begin = end - l->window;
#endif
    float4 e = *(local const float4 *)(m->score + row * SPLIT + t);
    float x[4] = {v->x.x, v->x.y, v->x.z, v->x.w}, y[4] = {v->y.x, v->y.y, v->y.z, v->y.w};
    float by[4] = {e.x, e.y, e.z, e.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float a = fma(by[k], x[k], *first), b = fma(by[k], y[k], *second);
        bool sees = k < end && k >= begin;
        *first = sees ? a : *first, *second = sees ? b : *second;
    }
}

/* Where rows see different tokens: rare, so slow. Of a first token that is skipped (look.skip) e is 0, and so
 * is the sum before it: no look at it is needed. */
static inline void weigh_apart(const struct look *l, const struct scratch *m, const struct column *c, uint t,
                               struct source from, struct sums *o) {
#pragma unroll 1
    for (uint j = 0; j < TOKENS_AHEAD; j += 4) {
        struct values v = load_values(l, &from);
        struct operands now = operands_of(l, c, &v);
        add_seen(l, m, c->row, (int)(t + j), &now, &o->a0, &o->b0);
        add_seen(l, m, c->row + 1, (int)(t + j), &now, &o->a1, &o->b1);
        add_seen(l, m, c->row + 2, (int)(t + j), &now, &o->a2, &o->b2);
        add_seen(l, m, c->row + 3, (int)(t + j), &now, &o->a3, &o->b3);
    }
}

/* Where the tokens begin of which some row sees something, a multiple of TOKENS_AHEAD. */
static inline uint first_token(const struct look *l, const struct rows *r, uint begin) {
    return (uint)max(hidden(l, r, 0, begin), 0) / TOKENS_AHEAD * TOKENS_AHEAD;
}

/* The item's column of token t. */
static inline struct source column_at(const struct look *l, const struct scratch *m, const struct rows *r,
                                      const struct column *c, uint t) {
    uint place = m->block[t / SPOT];
    return source_at(l, values_of(l, r) + spot_block(place), c->d, spot_slot(place, t));
}

#define START_VALUES(i) x->of##i = load_values(l, &from);
static inline void start_column(const struct look *l, const struct scratch *m, const struct rows *r,
                                uint begin, const struct column *c, struct all_values *x) {
    EARLY(struct source from = column_at(l, m, r, c, first_token(l, r, begin)); VALUES(START_VALUES))
    LATE((void)l, (void)m, (void)r, (void)begin, (void)c, (void)x;)
}

/* o += e * v over the tokens of the split that the rows see; x: start_column. All bytes of a block exist,
 * whether the row sees them or not. */
static inline void weigh_split(const struct look *l, const struct scratch *m, const struct rows *r,
                               uint begin, const struct column *c, struct all_values *x, struct sums *o) {
    int all_from = hidden(l, r, r->n - 1, begin), all_to = seen(l, r, 0, begin);
    uint n = min((uint)seen(l, r, r->n - 1, begin), (uint)SPLIT);
    bool alike = all_to == seen(l, r, r->n - 1, begin);
    int first = all_from, end = all_to; /* of tokens that some row sees, where that is all that matters */
    if (kv_layout_quantised(TYPE_V(l)))
        first = hidden(l, r, 0, begin), end = (int)n, alike = true;
#ifdef CL_BOTH
    alike = alike && (all_from == hidden(l, r, 0, begin) || kv_layout_quantised(TYPE_V(l)));
#endif
    for (uint t = first_token(l, r, begin); t < n; t += TOKENS_AHEAD) {
        EARLY(struct source from = column_at(l, m, r, c, t + TOKENS_AHEAD < n ? t + TOKENS_AHEAD : t);)
        LATE(struct source from = column_at(l, m, r, c, t);)
        if ((int)t >= all_from && (int)(t + TOKENS_AHEAD) <= all_to) {
            weigh(false, l, m, c, 0, 0, t, from, x, o);
        } else if (alike) {
            weigh(true, l, m, c, first, end, t, from, x, o);
        } else {
            weigh_apart(l, m, c, t, column_at(l, m, r, c, t), o);
            EARLY(VALUES(START_VALUES))
        }
    }
}

#endif
