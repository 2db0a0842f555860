/* An item's sums of weights and values (cl_tiles.h), for 64 rows in sub-groups of 16: each has a name, as IGC
 * keeps an array of them in memory. Includer: cl_tiles.h. */
#ifndef STATOR_KERNELS_OPENCL_CL_TILE_NAMED_H
#define STATOR_KERNELS_OPENCL_CL_TILE_NAMED_H

static inline float4 tile_float4(tile_four v) {
    return (float4)((float)v.x, (float)v.y, (float)v.z, (float)v.w);
}

/* Four columns of four rows of the output, and which tokens of a block these rows see. IGC keeps an array of
 * these in memory, so each has its name. */
struct tile_sums4 {
    float4 a, b, c, d;
};
struct tile_span4 {
    int4 first, end;
};

static inline struct tile_span4 tile_span4(const struct look *l, local const int *end, uint t) {
    struct tile_span4 s;
    s.end = *(local const int4 *)end - (int)t;
    s.first.x = hidden_of(l, s.end.x, t);
    s.first.y = hidden_of(l, s.end.y, t);
    s.first.z = hidden_of(l, s.end.z, t);
    s.first.w = hidden_of(l, s.end.w, t);
    return s;
}

/* o += e * v of a token j of a block; whole: all rows see it. */
static inline void tile_add4(const bool whole, local const float *rows, float4 v, int j,
                             const struct tile_span4 *s, struct tile_sums4 *o) {
    float4 e = *(local const float4 *)rows;
#define ROW(row, at)                                                                                         \
    {                                                                                                        \
        bool sees = whole || (j < s->end.at && j >= s->first.at);                                            \
        float4 sum = fma((float4)(e.at), v, o->row);                                                         \
        o->row = sees ? sum : o->row;                                                                        \
    }
    ROW(a, x)
    ROW(b, y)
    ROW(c, z)
    ROW(d, w)
#undef ROW
}

/* Four columns of eight tokens. An array of one, so that a function changes its argument. */
typedef struct {
    tile_four t0, t1, t2, t3, t4, t5, t6, t7;
} tile_eight[1];
#define TILE_EACH_AHEAD(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

static inline void tile_eight_at(global const tile_four *v, uint lanes, tile_eight x) {
#define LOAD(n) x->t##n = v[n * lanes];
    TILE_EACH_AHEAD(LOAD)
#undef LOAD
}

/* What an item has of the output: its first four rows and, if it has eight, the next. */
typedef struct {
    struct tile_sums4 low, high;
} tile_output[1];
struct tile_span {
    struct tile_span4 low, high;
};

/* o += e * v of tokens j .. + 8 of a block (e: of its token 0, row 0); s: what the rows see of the block,
 * unless whole. */
static inline void tile_add(const uint each, const bool whole, local const float *e, uint row, uint j,
                            const tile_eight v, const struct tile_span *s, tile_output o) {
    /* Tokens four in a row are shifted alike. */
    local const float *low0 = e + tile_weight(j, row), *low4 = e + tile_weight(j + 4, row);
    local const float *high0 = e + tile_weight(j, row + 4), *high4 = e + tile_weight(j + 4, row + 4);
#define ADD(n)                                                                                               \
    {                                                                                                        \
        float4 x = tile_float4(v->t##n);                                                                     \
        tile_add4(whole, (n < 4 ? low0 : low4) + n % 4 * TILE_ROWS, x, (int)(j + n), &s->low, &o->low);      \
        if (each > 4)                                                                                        \
            tile_add4(whole, (n < 4 ? high0 : high4) + n % 4 * TILE_ROWS, x, (int)(j + n), &s->high,         \
                      &o->high);                                                                             \
    }
    TILE_EACH_AHEAD(ADD)
#undef ADD
}

/* o += e * v over a block of tokens from t on; v, after: the item's columns of token 0 of this block and of
 * the next, whose first are left in next; whole: the rows see all of it. Tokens go in pairs of eight, so that
 * what is in flight is not moved when its turn comes. */
static inline void tile_block(const uint each, const bool whole, const struct look *l,
                              const struct tile_memory *m, local const float *e, const struct output *at,
                              global const tile_four *v, global const tile_four *after, uint t,
                              tile_eight next, tile_output o) {
    struct tile_span s = {{0, 0}, {0, 0}};
    if (!whole) {
        s.low = tile_span4(l, m->of.end + at->row, t);
        if (each > 4)
            s.high = tile_span4(l, m->of.end + at->row + 4, t);
    }
#pragma unroll 1
    for (uint j = 0; j < KV_LAYOUT_BLOCK; j += 16) {
        tile_eight odd;
        tile_eight_at(v + 8 * at->lanes, at->lanes, odd);
        tile_add(each, whole, e, at->row, j, next, &s, o);
        v = j + 16 == KV_LAYOUT_BLOCK ? after : v + 16 * at->lanes;
        tile_eight_at(v, at->lanes, next);
        tile_add(each, whole, e, at->row, j + 8, odd, &s, o);
    }
}

/* Item: a row's columns of this split into the output. */
static inline void tile_merge_row(const struct look *l, const struct tile_memory *m, const struct rows *r,
                                  const struct output *at, uint row, uint begin, float4 sum) {
    if (at->mine && row < r->n && tile_sees(l, m->of.end[row], begin))
        tile_merge(l, &m->of, row, begin, sum, tile_out(l, &m->of, row) + at->lane);
}

static inline void tile_merge_rows(const struct look *l, const struct tile_memory *m, const struct rows *r,
                                   const struct output *at, uint row, uint begin,
                                   const struct tile_sums4 *o) {
    tile_merge_row(l, m, r, at, row, begin, o->a);
    tile_merge_row(l, m, r, at, row + 1, begin, o->b);
    tile_merge_row(l, m, r, at, row + 2, begin, o->c);
    tile_merge_row(l, m, r, at, row + 3, begin, o->d);
}

static inline void tile_output_merge(const uint each, const struct look *l, const struct tile_memory *m,
                                     const struct rows *r, const struct output *at, uint begin,
                                     const tile_output o) {
    tile_merge_rows(l, m, r, at, at->row, begin, &o->low);
    if (each > 4)
        tile_merge_rows(l, m, r, at, at->row + 4, begin, &o->high);
}

static inline void tile_output_zero(tile_output o) {
    o->low.a = o->low.b = o->low.c = o->low.d = 0.0f;
    o->high.a = o->high.b = o->high.c = o->high.d = 0.0f;
}

#endif
