/* The walk over splits, blocks and rows that the vector tiers of attention share; a tier brings the
 * arithmetic.
 *
 * A row is one head of one query. Rows of consecutive queries lie in query order, so the rows that see a
 * token are a suffix. A pass takes some queries; for each split each tile of rows computes its scores,
 * takes their softmax, multiplies with V and merges, all in the nearest cache.
 *
 * Where a pass has several tiles, f16 keys and all V of a split are first converted to floats ("plain"), once
 * for all tiles; the tiles read them from a near cache, and while they work the next split's bytes are
 * fetched there. A single tile reads K and V as they lie, each block from memory once, and prefetches some
 * blocks ahead. Scores of tokens beyond a row's query, and before its window, are computed with the block's
 * other tokens and dropped: never read. Windows of later rows begin later, so the rows whose first split it
 * is are a suffix of a tile, and so are those that see nothing of it any more. */
#ifndef STATOR_KERNELS_CPU_ATTENTION_WALK_H
#define STATOR_KERNELS_CPU_ATTENTION_WALK_H

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/shared/kv_layout.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/shared/num.h"

#include <math.h>
#include <string.h>

#define ATTENTION_WALK_ROWS   256  /* rows of a pass, where it has several queries */
#define ATTENTION_WALK_NEAR   4096 /* bytes that are on their way from memory; twice as many of quantised V */
#define ATTENTION_WALK_LANE   16   /* rows of o are padded to this */
#define ATTENTION_WALK_TILE   8    /* the largest tile */
#define ATTENTION_WALK_BLOCKS (KERNELS_SPLIT / KERNELS_KV_BLOCK)
#define ATTENTION_WALK_WIDTH                                                                                 \
    KERNELS_KV_GROUP /* dims of a panel of plain V: [dims / 32][KERNELS_SPLIT][32]                           \
                      */
#define ATTENTION_WALK_PANEL ((size_t)KERNELS_SPLIT * ATTENTION_WALK_WIDTH)

/* Calls f(rows, ..) with a constant for rows; `most`, a constant, is at most ATTENTION_WALK_TILE. */
#define ATTENTION_WALK_DISPATCH(most, rows, f, ...)                                                          \
    do {                                                                                                     \
        CHECK((rows) >= 1 && (rows) <= (most));                                                              \
        switch (rows) {                                                                                      \
            ATTENTION_WALK_CASE(8, most, f, __VA_ARGS__);                                                    \
            ATTENTION_WALK_CASE(7, most, f, __VA_ARGS__);                                                    \
            ATTENTION_WALK_CASE(6, most, f, __VA_ARGS__);                                                    \
            ATTENTION_WALK_CASE(5, most, f, __VA_ARGS__);                                                    \
            ATTENTION_WALK_CASE(4, most, f, __VA_ARGS__);                                                    \
            ATTENTION_WALK_CASE(3, most, f, __VA_ARGS__);                                                    \
            ATTENTION_WALK_CASE(2, most, f, __VA_ARGS__);                                                    \
            ATTENTION_WALK_CASE(1, most, f, __VA_ARGS__);                                                    \
        }                                                                                                    \
    } while (0)
#define ATTENTION_WALK_CASE(n, most, f, ...)                                                                 \
    case n:                                                                                                  \
        if ((n) <= (most))                                                                                   \
            f((n) <= (most) ? (n) : (most), __VA_ARGS__); /* no row too many for readers of dead code */     \
        break

/* Of a group of a query against quantised keys; behind the 2 * dim bytes of its integers, whose order is the
 * tier's. */
struct attention_query {
    float d;
    int32_t offset; /* what is taken off the sum of a group, as the tier's unsigned keys add it */
};

/* Some rows times V of some tokens. */
struct attention_pv {
    uint32_t rows;
    const float *e;   /* row r, token t: e[r * KERNELS_SPLIT + t] */
    const void *v;    /* token t, dim d: v[t * v_stride + d] */
    const void *next; /* what is read after this block: to be prefetched, as blocks lie anywhere */
    size_t v_stride;
    uint32_t dims;
    uint32_t begin; /* tokens */
    uint32_t end;
    float *o; /* has room for whole vectors: o[r * o_stride + d] = fmaf(e, v, o), token after token */
    size_t o_stride;
    bool fresh; /* these sums begin at +0, not at o */
    /* NULL, or what the sums of row r and o before are merged with: o = fmaf(sum, now[r], o * old[r]) */
    const float *old;
    const float *now;
};

/* Some rows times one group of quantised V, in integers: exact, so that tokens come in any order. */
struct attention_integers {
    uint32_t rows;
    const int16_t *weights; /* row r, token t: weights[r * KERNELS_SPLIT + t]; 0 where the row sees nothing */
    const void *const *v;   /* blocks */
    const void *const *next; /* of each, what is read after it: to be prefetched */
    uint32_t blocks;
    uint32_t tokens; /* of them all; the last block may have fewer than 32 */
    uint32_t dim;
    uint32_t group;
    int32_t *sums; /* of row 0: += weights * v, two for each dim, of different tokens */
    size_t sums_stride;
    bool fresh; /* they begin at 0 */
};

struct attention_tier {
    uint32_t tile; /* most rows that qk and pv take; of quantised keys and values, tile_small */
    uint32_t tile_small;
    /* score[r * KERNELS_SPLIT + t] = q[r] . K[.][t] * scale for the 32 tokens of the block. Float keys: q is
     * [dim][rows]; quantised: row r is what quantise_query made at q + r * attention_walk_query(dim). */
    void (*qk[KERNELS_KV_TYPES])(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
                                 float scale, float *score);
    void (*quantise_query)(const float *x, uint32_t dim, bool four, void *row);
    void (*pv[2])(const struct attention_pv *p);                /* f32, f16 */
    void (*plain_k)(const void *k, uint32_t dim, float *to);    /* dim * 32 of f16, as they lie */
    void (*plain_v[2])(const void *v, uint32_t dim, float *to); /* 32 tokens of the panels of plain V */
    /* Of a group of quantised V: factors[t] = scale of token t times NUM_QUANT_WEIGHT / the largest, for
     * tokens begin .. end of the split, else 0; 32 scales of a block at `scales`, those of the next `stride`
     * on. What a sum of integers is multiplied with is returned. */
    float (*factors)(const float *scales, size_t stride, uint32_t begin, uint32_t end, float *factors);
    /* weights[t] = e[t] * factors[t], rounded; whole blocks. */
    void (*weigh)(const float *e, const float *factors, uint32_t from, uint32_t to, int16_t *weights);
    void (*pv_integers[KERNELS_KV_TYPES])(const struct attention_integers *p);
    /* A group's dims of a row: o = sum * unit; or merged, if old is not NULL: o = fmaf(that, *now, o * *old)
     */
    void (*put_integers)(const int32_t *sums, float unit, float *o, const float *old, const float *now);
    void (*cap)(float *score, uint32_t n, float cap, float inverse); /* of whole blocks of tokens */
    void (*exp)(float *x, uint32_t n); /* of each; n is a multiple of ATTENTION_WALK_LANE */
    /* Of each row the scores of its first n[row] >= 1 tokens of a split become e, what lies behind them
     * anything; the maximum and the sum are returned. */
    void (*softmax)(uint32_t rows, float *score, const uint32_t *n, float *max, float *sum);
    /* all = fmaf(part, b, all * a) */
    void (*merge)(float *all, const float *part, uint32_t dim, float a, float b);
    void (*scale)(float *out, const float *o, uint32_t dim, float factor);
};

struct attention_pass {
    const struct kernels_attention *a;
    const struct attention_tier *tier;
    uint32_t position; /* of the pass's first query */
    uint32_t queries;
    uint32_t rows;
    bool plain_k;                      /* f16 keys are converted to floats */
    bool plain_v;                      /* so are values */
    uint32_t ahead;                    /* tokens between what is computed and what is prefetched */
    size_t row_floats;                 /* of q */
    float *q;                          /* tile after tile, as qk wants them */
    uint32_t end[ATTENTION_WALK_ROWS]; /* tokens that the row sees */
    float max[ATTENTION_WALK_ROWS];
    float sum[ATTENTION_WALK_ROWS];
    float *all;   /* [rows][stride] */
    float *part;  /* [tile][stride], of one split */
    float *score; /* [tile][KERNELS_SPLIT] */
    size_t stride;
    float *keys; /* plain: blocks, [dim][32] each */
    float *values;
    /* Of quantised V, where plain V would be: */
    float *scales;   /* blocks, [dim / 32][32] each */
    uint8_t *turned; /* blocks, of V that is the beginning of K */
    float *factors;  /* [dim / 32][KERNELS_SPLIT], */
    float *units;    /* [dim / 32]: of rows that see the tokens seen_begin .. seen_end of the split */
    uint32_t seen_begin;
    uint32_t seen_end;
    int16_t *weights; /* [dim / 32][tile][KERNELS_SPLIT] */
    int32_t *sums;    /* [tile][dim][2] */
    /* What is fetched while a split is computed: the next one's K and V, block by block. */
    uint32_t fetch_unit; /* 2 * block, + 1: V */
    uint32_t fetch_end;
    size_t fetch_at;
    size_t fetch_step;    /* bytes per block of a tile */
    size_t fetch_size[2]; /* of a block's K, V */
};

/* Tokens of a split and where their K lies. */
struct attention_split {
    uint32_t begin;
    uint32_t from; /* the block of the first token that a row of the pass sees */
    uint32_t end;
    enum kernels_kv type_k;
    const void *k[ATTENTION_WALK_BLOCKS];
    const void *v[ATTENTION_WALK_BLOCKS]; /* quantised */
};

static inline uint32_t attention_walk_queries(uint32_t queries, uint32_t group) {
    uint32_t fit = kernels_attention_queries(group);
    return queries < fit ? queries : fit;
}

static inline size_t attention_walk_stride(uint32_t dim) {
    return (dim + (size_t)ATTENTION_WALK_LANE - 1) / ATTENTION_WALK_LANE * ATTENTION_WALK_LANE;
}

/* Floats of a quantised query: two bytes per value, then struct attention_query of each group. */
static inline size_t attention_walk_query(uint32_t dim) {
    return attention_walk_stride(dim / 2) + attention_walk_stride(dim / KERNELS_KV_GROUP * 2);
}

static inline size_t attention_walk_panels(uint32_t dim) {
    return (dim + (size_t)ATTENTION_WALK_WIDTH - 1) / ATTENTION_WALK_WIDTH * ATTENTION_WALK_PANEL;
}

static inline size_t attention_walk_row_floats(uint32_t dim) {
    size_t quantised = attention_walk_query(dim), plain = attention_walk_stride(dim);
    return quantised > plain ? quantised : plain;
}

static inline size_t attention_walk_floats(uint32_t max_queries, uint32_t group, uint32_t head_dim_k,
                                           uint32_t head_dim_v) {
    size_t rows = (size_t)attention_walk_queries(max_queries, group) * group;
    size_t tile = (KERNELS_SPLIT + attention_walk_stride(head_dim_v)) * ATTENTION_WALK_TILE;
    return rows * (attention_walk_row_floats(head_dim_k) + attention_walk_stride(head_dim_v)) + tile +
           (size_t)KERNELS_SPLIT * head_dim_k + attention_walk_panels(head_dim_v);
}

static inline struct attention_query *attention_walk_query_groups(void *row, uint32_t dim) {
    return (struct attention_query *)(void *)((float *)row + attention_walk_stride(dim / 2));
}

/* Tokens from `token` on that row r sees, at most `most`. */
static inline uint32_t attention_walk_seen(const struct attention_pass *p, uint32_t r, uint32_t token,
                                           uint32_t most) {
    uint32_t end = p->end[r];
    return end <= token ? 0 : end - token < most ? end - token : most;
}

/* The first token that row r sees. */
static inline uint32_t attention_walk_start(const struct attention_pass *p, uint32_t r) {
    return kernels_attention_start(p->a, p->end[r] - 1);
}

/* Tokens from `token` on, at most `most`, that are before what row r sees. */
static inline uint32_t attention_walk_hidden(const struct attention_pass *p, uint32_t r, uint32_t token,
                                             uint32_t most) {
    uint32_t start = attention_walk_start(p, r);
    return start <= token ? 0 : start - token < most ? start - token : most;
}

/* Where a part has its maxima, and its sums. */
static inline float *attention_walk_maxima(const struct kernels_attention *a, float *part) {
    return part + a->group * attention_walk_stride(a->head_dim_v);
}

static inline float *attention_walk_sums(const struct kernels_attention *a, float *part) {
    return attention_walk_maxima(a, part) + attention_walk_stride(a->group);
}

/* The block of the token in the K or V that begins at `base`. */
static inline const uint8_t *attention_walk_block(const struct kernels_attention *a, const uint8_t *base,
                                                  uint32_t token) {
    uint32_t block = token / KERNELS_KV_BLOCK;
    return base + a->blocks[a->ring != 0 ? block % a->ring : block] * a->block_stride;
}

/* Prefetches the scales of a quantised block of `bytes` bytes. */
static inline void attention_walk_ask_scales(enum kernels_kv type, const uint8_t *block, uint32_t dim,
                                             size_t bytes) {
    for (size_t i = kv_layout_scales(type, dim); i < bytes; i += 64)
        prefetch_line(block, i);
}

/* The block of K, or V, some blocks after the token's: K and V of a split, then those of the next. Who asks
 * for its lines ahead asks for those of its numbers; K's scales behind them are asked for here (V's, which
 * are all read at once, by attention_walk_scores). */
static inline const uint8_t *attention_walk_next(const struct attention_pass *p, bool key,
                                                 const struct attention_split *s, uint32_t token) {
    const struct kernels_attention *a = p->a;
    uint32_t then = token + p->ahead, last = p->position + p->queries;
    if (then >= s->end && key) {
        key = false;
        then = s->from + (then - s->end < s->end - s->from ? then - s->end : 0);
    } else if (then >= s->end) {
        key = true;
        then = then < last ? then : token;
    }
    const uint8_t *next = attention_walk_block(a, key ? a->k : a->v, then);
    const enum kernels_kv type = key ? a->type_k : a->type_v;
    if (key && kv_layout_quantised(type))
        attention_walk_ask_scales(type, next, a->head_dim_k, p->fetch_size[0]);
    return next;
}

/* --- fetching the next split of a pass of several tiles */

static inline void attention_walk_fetch_begin(struct attention_pass *p, const struct attention_split *s) {
    uint32_t last = p->position + p->queries;
    uint32_t end = last - s->end < KERNELS_SPLIT ? last : s->end + KERNELS_SPLIT;
    p->fetch_unit = 2 * (s->end / KERNELS_KV_BLOCK);
    p->fetch_end = s->end < last ? 2 * ((end + KERNELS_KV_BLOCK - 1) / KERNELS_KV_BLOCK) : 0;
    p->fetch_at = 0;
    uint32_t tiles = (p->rows + p->tier->tile - 1) / p->tier->tile;
    p->fetch_step = ((p->fetch_size[0] + p->fetch_size[1]) / tiles + 64) / 64 * 64;
}

static inline void attention_walk_fetch(struct attention_pass *p) {
    const struct kernels_attention *a = p->a;
    if (p->fetch_unit >= p->fetch_end)
        return;
    uint32_t v = p->fetch_unit % 2;
    if (v && a->v == NULL) {
        p->fetch_unit++;
        return;
    }
    const uint8_t *base = attention_walk_block(a, v ? a->v : a->k, p->fetch_unit / 2 * KERNELS_KV_BLOCK);
    size_t end =
        p->fetch_at + p->fetch_step < p->fetch_size[v] ? p->fetch_at + p->fetch_step : p->fetch_size[v];
    for (size_t at = p->fetch_at; at < end; at += 64)
        prefetch_line(base, at);
    p->fetch_at = end;
    if (end == p->fetch_size[v]) {
        p->fetch_at = 0;
        p->fetch_unit++;
    }
}

/* --- one tile of rows in one split */

/* Rows from `first` on over the tokens 0 .. end - 1 (from `token` on in the sequence) that they see, of what
 * `b` describes, which is used up. Tokens that only earlier rows see, and then those that only later rows
 * see, come row by row. */
static inline void attention_walk_add(const struct attention_pass *p, struct attention_pv *b, bool f16,
                                      uint32_t first, uint32_t token) {
    const uint32_t rows = b->rows, most = b->end;
    const struct attention_pv all = *b;
    const uint32_t all_end = attention_walk_seen(p, first, token, most);
    const uint32_t latest = attention_walk_hidden(p, first + rows - 1, token, most);
    const uint32_t all_begin = latest < all_end ? latest : all_end;
    b->rows = 1;
    for (uint32_t i = 0; i < rows && all_begin > 0; i++) {
        b->begin = attention_walk_hidden(p, first + i, token, most);
        b->end = all_begin;
        if (b->end > b->begin)
            p->tier->pv[f16](b);
        b->e += KERNELS_SPLIT;
        b->o += b->o_stride;
    }
    *b = all;
    b->begin = all_begin;
    b->end = all_end;
    if (b->end > b->begin)
        p->tier->pv[f16](b);
    b->rows = 1;
    for (uint32_t i = 1; i < rows; i++) {
        b->e += KERNELS_SPLIT;
        b->o += b->o_stride;
        uint32_t hidden = attention_walk_hidden(p, first + i, token, most);
        b->begin = hidden > all_end ? hidden : all_end;
        b->end = attention_walk_seen(p, first + i, token, most);
        if (b->end > b->begin)
            p->tier->pv[f16](b);
    }
}

/* Some rows of a tile in a split. */
struct attention_rows {
    uint32_t first;
    uint32_t n;
    uint32_t from;  /* the block of the first token that the first of them sees */
    uint32_t end;   /* of the tokens that the last of them sees */
    const float *e; /* of the first */
    float *o;
    bool whole;       /* all of them see all these tokens: the sums are made at once, */
    const float *old; /* and merged, if this is not NULL, into o (see struct attention_pv) */
    const float *now;
};

static inline void attention_walk_pv_plain(const struct attention_pass *p, const struct attention_split *s,
                                           const struct attention_rows *r) {
    const struct kernels_attention *a = p->a;
    for (uint32_t d = 0; d < a->head_dim_v; d += ATTENTION_WALK_WIDTH) {
        const float *panel = p->values + d / ATTENTION_WALK_WIDTH * ATTENTION_WALK_PANEL;
        uint32_t rest = a->head_dim_v - d;
        struct attention_pv pv = {.rows = r->n,
                                  .e = r->e,
                                  .v = panel,
                                  .next = panel,
                                  .v_stride = ATTENTION_WALK_WIDTH,
                                  .dims = rest < ATTENTION_WALK_WIDTH ? rest : ATTENTION_WALK_WIDTH,
                                  .begin = attention_walk_hidden(p, r->first, s->begin, KERNELS_SPLIT),
                                  .end = r->end - s->begin,
                                  .o = r->o + d,
                                  .o_stride = p->stride,
                                  .fresh = r->whole,
                                  .old = r->old,
                                  .now = r->now};
        if (r->whole)
            p->tier->pv[false](&pv);
        else
            attention_walk_add(p, &pv, false, r->first, s->begin);
    }
}

static inline void attention_walk_pv_direct(const struct attention_pass *p, const struct attention_split *s,
                                            const struct attention_rows *r) {
    const struct kernels_attention *a = p->a;
    const float *e = r->e + (r->from - s->begin);
    for (uint32_t t = r->from; t < r->end; t += KERNELS_KV_BLOCK, e += KERNELS_KV_BLOCK) {
        const uint8_t *v = attention_walk_block(a, a->v, t), *next = attention_walk_next(p, false, s, t);
        uint32_t tokens = r->end - t < KERNELS_KV_BLOCK ? r->end - t : KERNELS_KV_BLOCK;
        struct attention_pv pv = {.rows = r->n,
                                  .e = e,
                                  .v = v,
                                  .next = next,
                                  .v_stride = a->head_dim_v,
                                  .dims = a->head_dim_v,
                                  .end = tokens,
                                  .o = r->o,
                                  .o_stride = p->stride};
        attention_walk_add(p, &pv, a->type_v == KERNELS_KV_F16, r->first, t);
    }
}

/* All scales of the split's V as floats. */
static inline void attention_walk_scales(const struct attention_pass *p, const struct attention_split *s) {
    const struct kernels_attention *a = p->a;
    for (uint32_t t = s->from, b = (s->from - s->begin) / KERNELS_KV_BLOCK; t < s->end;
         t += KERNELS_KV_BLOCK, b++) {
        const uint8_t *scales = a->v != NULL
                                    ? (const uint8_t *)s->v[b] + kv_layout_scales(a->type_v, a->head_dim_v)
                                    : (const uint8_t *)s->k[b] + kv_layout_scales(a->type_k, a->head_dim_k);
        p->tier->plain_k(scales, a->head_dim_v / KERNELS_KV_GROUP, p->scales + (size_t)b * a->head_dim_v);
    }
}

/* The factors and units of rows that see the tokens begin .. end of the split. */
static inline void attention_walk_factors(struct attention_pass *p, const struct attention_split *s,
                                          uint32_t begin, uint32_t end) {
    const uint32_t dim = p->a->head_dim_v;
    if (p->seen_begin == begin && p->seen_end == end)
        return;
    if (p->seen_end == 0)
        attention_walk_scales(p, s);
    for (uint32_t g = 0; g < dim / KERNELS_KV_GROUP; g++)
        p->units[g] = p->tier->factors(p->scales + (size_t)g * KERNELS_KV_BLOCK, dim, begin, end,
                                       p->factors + (size_t)g * KERNELS_SPLIT);
    p->seen_begin = begin;
    p->seen_end = end;
}

/* The rows' sums of blocks from .. to of the split, of all groups: group by group where the blocks are near,
 * else block by block, as they lie in memory. */
static inline void attention_walk_integers(struct attention_pass *p, const struct attention_split *s,
                                           const struct attention_rows *r, uint32_t from, uint32_t to) {
    const struct kernels_attention *a = p->a;
    const uint32_t step = p->plain_v ? to - from : 1;
    const void *next[ATTENTION_WALK_BLOCKS];
    for (uint32_t b = from; b < to; b++)
        next[b] = p->plain_v ? s->v[b] : attention_walk_next(p, false, s, s->begin + b * KERNELS_KV_BLOCK);
    for (uint32_t b = from; b < to; b += step)
        for (uint32_t g = 0; g < a->head_dim_v / KERNELS_KV_GROUP; g++)
            for (uint32_t i = 0; i < r->n; i += p->tier->tile_small) {
                const size_t row = (size_t)g * ATTENTION_WALK_TILE + i;
                struct attention_integers x = {
                    .rows = r->n - i < p->tier->tile_small ? r->n - i : p->tier->tile_small,
                    .weights = p->weights + row * KERNELS_SPLIT + (size_t)b * KERNELS_KV_BLOCK,
                    .v = s->v + b,
                    .next = next + b,
                    .blocks = step,
                    .tokens = r->end - s->begin - b * KERNELS_KV_BLOCK,
                    .dim = a->head_dim_v,
                    .group = g,
                    .sums = p->sums + 2 * ((size_t)i * a->head_dim_v + (size_t)g * KERNELS_KV_GROUP),
                    .sums_stride = 2 * (size_t)a->head_dim_v,
                    .fresh = b == from};
                p->tier->pv_integers[a->type_v](&x);
            }
}

/* Rows of e (which gets zeros behind what a row sees) times quantised V, to o; merged, if old is not NULL. */
static inline void attention_walk_pv_quantised(struct attention_pass *p, const struct attention_split *s,
                                               const struct attention_rows *r, float *e) {
    const struct kernels_attention *a = p->a;
    const uint32_t groups = a->head_dim_v / KERNELS_KV_GROUP;
    const uint32_t from = (r->from - s->begin) / KERNELS_KV_BLOCK;
    const uint32_t to = (r->end - s->begin + KERNELS_KV_BLOCK - 1) / KERNELS_KV_BLOCK;
    float units[ATTENTION_WALK_TILE][KERNELS_MAX_HEAD / KERNELS_KV_GROUP];
    for (uint32_t i = 0; i < r->n; i++, e += KERNELS_SPLIT) {
        const uint32_t end = attention_walk_seen(p, r->first + i, s->begin, KERNELS_SPLIT);
        for (uint32_t t = end; t < to * KERNELS_KV_BLOCK; t++)
            e[t] = 0.0f;
        attention_walk_factors(p, s, attention_walk_hidden(p, r->first + i, s->begin, KERNELS_SPLIT), end);
        memcpy(units[i], p->units, groups * sizeof *p->units);
        for (uint32_t g = 0; g < groups; g++)
            p->tier->weigh(e, p->factors + (size_t)g * KERNELS_SPLIT, from * KERNELS_KV_BLOCK,
                           to * KERNELS_KV_BLOCK,
                           p->weights + ((size_t)g * ATTENTION_WALK_TILE + i) * KERNELS_SPLIT);
    }
    attention_walk_integers(p, s, r, from, to);
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t g = 0; g < groups; g++)
            p->tier->put_integers(p->sums + 2 * ((size_t)i * a->head_dim_v + (size_t)g * KERNELS_KV_GROUP),
                                  units[i][g], r->o + i * p->stride + (size_t)g * KERNELS_KV_GROUP,
                                  r->old != NULL ? r->old + i : NULL, r->old != NULL ? r->now + i : NULL);
}

/* What the sums so far of rows first .. first + n - 1, and those of this split, are multiplied with when they
 * are merged; of the rows' maxima and sums of e this is done. */
struct attention_shares {
    float both[ATTENTION_WALK_LANE]; /* the former, and from ATTENTION_WALK_TILE on the latter */
};

static inline void attention_walk_share(struct attention_pass *p, uint32_t first, uint32_t n,
                                        const float *max, const float *sum, struct attention_shares *s) {
    _Static_assert(2 * ATTENTION_WALK_TILE == ATTENTION_WALK_LANE, "one vector of the widest tier");
    // cppcheck-suppress ctuuninitvar ; it is written below
    float *old = s->both, *now = s->both + ATTENTION_WALK_TILE;
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < n; i++) {
        float top = max[i] > p->max[first + i] ? max[i] : p->max[first + i];
        old[i] = p->max[first + i] - top;
        now[i] = max[i] - top;
        p->max[first + i] = top;
    }
    p->tier->exp(s->both, ATTENTION_WALK_LANE);
    for (uint32_t i = 0; i < n; i++) {
        float scaled = p->sum[first + i] * old[i];
        p->sum[first + i] = fmaf(sum[i], now[i], scaled);
    }
}

static inline void attention_walk_merge(struct attention_pass *p, uint32_t first, uint32_t n,
                                        const struct attention_shares *s, const float *o) {
    for (uint32_t i = 0; i < n; i++)
        p->tier->merge(p->all + (first + i) * p->stride, o + i * p->stride, p->a->head_dim_v, s->both[i],
                       s->both[ATTENTION_WALK_TILE + i]);
}

/* The scores of n rows from `first` on, whose tokens lie in the block at `from` to `end`. */
static inline void attention_walk_scores(struct attention_pass *p, const struct attention_split *s,
                                         uint32_t first, uint32_t n, uint32_t from, uint32_t end) {
    const struct kernels_attention *a = p->a;
    const uint32_t most = kv_layout_quantised(s->type_k) ? p->tier->tile_small : n;
    for (uint32_t t = from, b = (from - s->begin) / KERNELS_KV_BLOCK; t < end; t += KERNELS_KV_BLOCK, b++) {
        const void *next = p->plain_v ? s->k[b] : attention_walk_next(p, true, s, t);
        if (!p->plain_v && kv_layout_quantised(a->type_v))
            attention_walk_ask_scales(a->type_v, s->v[b], a->head_dim_v, p->fetch_size[1]);
        for (uint32_t r = 0; r < n; r += most)
            p->tier->qk[s->type_k](n - r < most ? n - r : most, p->q + (first + r) * p->row_floats, s->k[b],
                                   next, a->head_dim_k, a->scale,
                                   p->score + (size_t)r * KERNELS_SPLIT + (size_t)b * KERNELS_KV_BLOCK);
        attention_walk_fetch(p);
    }
    const uint32_t blocks = (end - from + KERNELS_KV_BLOCK - 1) / KERNELS_KV_BLOCK;
    for (uint32_t r = 0; r < n && a->cap != 0; r++)
        p->tier->cap(p->score + (size_t)r * KERNELS_SPLIT + (from - s->begin), blocks * KERNELS_KV_BLOCK,
                     a->cap, a->cap_inverse);
}

/* The first token of the block where row r's view of the split begins. */
static inline uint32_t attention_walk_from(const struct attention_pass *p, const struct attention_split *s,
                                           uint32_t r) {
    uint32_t hidden = attention_walk_hidden(p, r, s->begin, KERNELS_SPLIT);
    return s->begin + hidden / KERNELS_KV_BLOCK * KERNELS_KV_BLOCK;
}

/* Rows first .. first + n - 1 of a tile with their scores: softmax, V and merge. fresh: it is the first split
 * of all of them, else of none. All see something of it. */
static inline void attention_walk_rest(struct attention_pass *p, const struct attention_split *s,
                                       uint32_t first, uint32_t n, bool fresh, float *e) {
    const struct kernels_attention *a = p->a;
    uint32_t seen[ATTENTION_WALK_TILE], hidden = 0;
    float max[ATTENTION_WALK_TILE], sum[ATTENTION_WALK_TILE];
    for (uint32_t i = 0; i < n; i++) {
        seen[i] = attention_walk_seen(p, first + i, s->begin, KERNELS_SPLIT);
        hidden = attention_walk_hidden(p, first + i, s->begin, KERNELS_SPLIT);
        for (uint32_t t = 0; t < hidden; t++) /* their e is 0 */
            e[i * KERNELS_SPLIT + t] = -INFINITY;
    }
    p->tier->softmax(n, e, seen, max, sum);
    bool alone = a->parts != NULL;
    float *part = p->all;
    if (alone)
        part = a->parts + (s->begin / KERNELS_SPLIT - kernels_attention_first(a->first_position, a->window)) *
                              kernels_attention_part(a->group, a->head_dim_v);
    struct attention_shares shares;
    struct attention_rows r = {.first = first,
                               .n = n,
                               .from = attention_walk_from(p, s, first),
                               .end = s->begin + seen[n - 1],
                               .e = e,
                               .o = part + first * p->stride};
    const bool quantised = kv_layout_quantised(a->type_v);
    r.whole = quantised || (p->plain_v && seen[0] == seen[n - 1] &&
                            attention_walk_hidden(p, first, s->begin, KERNELS_SPLIT) == hidden);
    bool merged = false;
    if (alone) {
        memcpy(attention_walk_maxima(a, part) + first, max, n * sizeof *max);
        memcpy(attention_walk_sums(a, part) + first, sum, n * sizeof *sum);
    } else if (fresh) {
        memcpy(p->max + first, max, n * sizeof *max);
        memcpy(p->sum + first, sum, n * sizeof *sum);
    } else {
        attention_walk_share(p, first, n, max, sum, &shares);
        merged = true;
    }
    if (merged && r.whole) {
        r.old = shares.both;
        r.now = shares.both + ATTENTION_WALK_TILE;
    } else if (merged) {
        r.o = p->part;
    }
    if (!r.whole)
        memset(r.o, 0, n * p->stride * sizeof *r.o);
    if (quantised)
        attention_walk_pv_quantised(p, s, &r, e);
    else if (p->plain_v)
        attention_walk_pv_plain(p, s, &r);
    else
        attention_walk_pv_direct(p, s, &r);
    if (merged && !r.whole)
        attention_walk_merge(p, first, n, &shares, p->part);
}

/* The tile that begins at row `first`. */
static inline void attention_walk_tile(struct attention_pass *p, const struct attention_split *s,
                                       uint32_t first) {
    uint32_t n = p->rows - first < p->tier->tile ? p->rows - first : p->tier->tile;
    uint32_t end = s->begin + attention_walk_seen(p, first + n - 1, s->begin, s->end - s->begin);
    if (end == s->begin || attention_walk_hidden(p, first, s->begin, KERNELS_SPLIT) == KERNELS_SPLIT)
        return;
    attention_walk_scores(p, s, first, n, attention_walk_from(p, s, first), end);
    uint32_t skip = 0, fresh,
             last = n; /* rows that see nothing of this split are before skip and from last on */
    while (attention_walk_seen(p, first + skip, s->begin, 1) == 0)
        skip++;
    while (attention_walk_hidden(p, first + last - 1, s->begin, KERNELS_SPLIT) == KERNELS_SPLIT)
        last--;
    for (fresh = skip; fresh < last && attention_walk_start(p, first + fresh) < s->begin;)
        fresh++; /* these have seen others */
    float *e = p->score;
    if (fresh > skip)
        attention_walk_rest(p, s, first + skip, fresh - skip, false, e + (size_t)skip * KERNELS_SPLIT);
    if (last > fresh)
        attention_walk_rest(p, s, first + fresh, last - fresh, true, e + (size_t)fresh * KERNELS_SPLIT);
}

/* --- a pass */

/* Dims 32 * g .. of a block of K as a block of V of 32 dims. */
static inline void attention_walk_turn(enum kernels_kv type, const uint8_t *k, uint32_t g, uint8_t *v) {
    const size_t size = type == KERNELS_KV_F32 ? sizeof(float) : sizeof(uint16_t);
    for (uint32_t i = 0; i < KERNELS_KV_GROUP; i++)
        for (uint32_t t = 0; t < KERNELS_KV_BLOCK; t++)
            memcpy(v + size * kv_layout_plain_v(KERNELS_KV_GROUP, i, t),
                   k + size * kv_layout_plain_k(g * KERNELS_KV_GROUP + i, t), size);
}

/* The beginning of a block of K as a block of V, without the scales. */
static inline void attention_walk_turn_integers(const struct kernels_attention *a, const uint8_t *k,
                                                uint8_t *v) {
    for (uint32_t g = 0; g < a->head_dim_v / KERNELS_KV_GROUP; g++)
        for (uint32_t i = 0; i < kv_layout_group(a->type_k); i++)
            for (uint32_t t = 0; t < KERNELS_KV_BLOCK; t++)
                v[kv_layout_v(a->type_k, a->head_dim_v, g, i, t)] = k[kv_layout_k(a->type_k, g, i, t)];
}

/* Floats: the panels of plain V of the token's block. */
static inline void attention_walk_plain_v(const struct attention_pass *p, uint32_t token, float *values) {
    const struct kernels_attention *a = p->a;
    if (a->v != NULL) {
        p->tier->plain_v[a->type_v](attention_walk_block(a, a->v, token), a->head_dim_v, values);
        return;
    }
    const uint8_t *k = attention_walk_block(a, a->k, token);
    _Alignas(64) uint8_t part[KERNELS_KV_BLOCK * KERNELS_KV_GROUP * sizeof(float)];
    for (uint32_t g = 0; g < a->head_dim_v / KERNELS_KV_GROUP; g++) {
        attention_walk_turn(a->type_k, k, g, part);
        p->tier->plain_v[a->type_k](part, KERNELS_KV_GROUP, values + g * ATTENTION_WALK_PANEL);
    }
}

/* Quantised: V of the token's block, block b of the split. */
static inline const void *attention_walk_values(const struct attention_pass *p, uint32_t token, uint32_t b) {
    const struct kernels_attention *a = p->a;
    if (a->v != NULL)
        return attention_walk_block(a, a->v, token);
    uint8_t *turned = p->turned + (size_t)b * KERNELS_KV_BLOCK * a->head_dim_v;
    attention_walk_turn_integers(a, attention_walk_block(a, a->k, token), turned);
    return turned;
}

static inline void attention_walk_split(struct attention_pass *p, uint32_t begin) {
    const struct kernels_attention *a = p->a;
    uint32_t last = p->position + p->queries;
    struct attention_split s = {.begin = begin,
                                .end = last - begin < KERNELS_SPLIT ? last : begin + KERNELS_SPLIT,
                                .type_k = p->plain_k ? KERNELS_KV_F32 : a->type_k};
    s.from = attention_walk_from(p, &s, 0);
    for (uint32_t t = s.from, b = (s.from - begin) / KERNELS_KV_BLOCK; t < s.end;
         t += KERNELS_KV_BLOCK, b++) {
        float *keys = p->keys + (size_t)b * KERNELS_KV_BLOCK * a->head_dim_k;
        s.k[b] = attention_walk_block(a, a->k, t);
        if (p->plain_k) {
            p->tier->plain_k(s.k[b], a->head_dim_k, keys);
            s.k[b] = keys;
        }
        if (kv_layout_quantised(a->type_v))
            s.v[b] = attention_walk_values(p, t, b);
        else if (p->plain_v)
            attention_walk_plain_v(p, t, p->values + (size_t)b * KERNELS_KV_BLOCK * ATTENTION_WALK_WIDTH);
    }
    p->seen_begin = p->seen_end = 0; /* there are no factors yet */
    if (p->plain_v)
        attention_walk_fetch_begin(p, &s);
    for (uint32_t r = 0; r < p->rows; r += p->tier->tile)
        attention_walk_tile(p, &s, r);
}

/* n rows of floats as [dim][n]. */
static inline void attention_walk_pack(const float *const *x, uint32_t n, uint32_t dim, float *q) {
    uint32_t r = 0;
    for (; n - r >= 4; r += 4)
        for (uint32_t d = 0; d < dim; d++) {
            float *to = q + (size_t)d * n + r;
            to[0] = x[r][d];
            to[1] = x[r + 1][d];
            to[2] = x[r + 2][d];
            to[3] = x[r + 3][d];
        }
    for (; r < n; r++)
        for (uint32_t d = 0; d < dim; d++)
            q[(size_t)d * n + r] = x[r][d];
}

/* Packs the rows of the queries from query i on. */
static inline void attention_walk_rows(struct attention_pass *p, uint32_t i) {
    const struct kernels_attention *a = p->a;
    const float *x[ATTENTION_WALK_TILE] = {0};
    for (uint32_t first = 0, n; first < p->rows; first += n) {
        n = p->rows - first < p->tier->tile ? p->rows - first : p->tier->tile;
        float *q = p->q + first * p->row_floats;
        for (uint32_t r = 0; r < n; r++) {
            uint32_t query = (first + r) / a->group, head = (first + r) % a->group;
            x[r] = a->q + (i + query) * a->q_stride + (size_t)head * a->head_dim_k;
            p->end[first + r] = p->position + query + 1;
        }
        if (kv_layout_quantised(a->type_k)) {
            for (uint32_t r = 0; r < n; r++)
                p->tier->quantise_query(x[r], a->head_dim_k, a->type_k == KERNELS_KV_Q4_0,
                                        q + r * p->row_floats);
            continue;
        }
        attention_walk_pack(x, n, a->head_dim_k, q);
    }
}

/* The sinks are one more split, without a value. */
static inline void attention_walk_sink(struct attention_pass *p) {
    const struct kernels_attention *a = p->a;
    for (uint32_t r = 0; r < p->rows; r++) {
        float sink = a->sinks[r % a->group], max = sink > p->max[r] ? sink : p->max[r];
        float old = num_exp(p->max[r] - max), scaled = p->sum[r] * old;
        p->sum[r] = scaled + num_exp(sink - max);
        p->tier->scale(p->all + r * p->stride, p->all + r * p->stride, a->head_dim_v, old);
    }
}

static inline void attention_walk_scale(struct attention_pass *p, uint32_t i) {
    const struct kernels_attention *a = p->a;
    if (a->sinks != NULL)
        attention_walk_sink(p);
    for (uint32_t r = 0; r < p->rows; r++)
        p->tier->scale(a->out + (i + r / a->group) * a->out_stride + (size_t)(r % a->group) * a->head_dim_v,
                       p->all + r * p->stride, a->head_dim_v, num_rcp(p->sum[r]));
}

static inline void attention_walk_pass(struct attention_pass *p, uint32_t i) {
    const struct kernels_attention *a = p->a;
    const struct attention_tier *tier = p->tier;
    p->position = a->first_position + i;
    p->rows = p->queries * a->group;
    bool several = p->rows > tier->tile;
    p->plain_k = several && a->type_k == KERNELS_KV_F16;
    p->plain_v = several || a->v == NULL;
    attention_walk_rows(p, i);
    uint32_t begin = kernels_attention_first(p->position, a->window) * KERNELS_SPLIT;
    uint32_t end = p->position + p->queries;
    if (a->parts != NULL) {
        begin = a->first_split * KERNELS_SPLIT;
        end = a->end_split * KERNELS_SPLIT < end ? a->end_split * KERNELS_SPLIT : end;
    }
    for (uint32_t split = begin; split < end; split += KERNELS_SPLIT)
        attention_walk_split(p, split);
    if (a->parts == NULL)
        attention_walk_scale(p, i);
}

static inline struct attention_pass attention_walk_begin(const struct kernels_attention *a,
                                                         const struct attention_tier *tier) {
    CHECK(a->n_queries >= 1 && a->group >= 1 && a->group <= KERNELS_MAX_GROUP);
    CHECK(kernels_attention_fits(a));
    CHECK(a->head_dim_k % kernels_kv_group(a->type_k) == 0 &&
          a->head_dim_v % kernels_kv_group(a->type_v) == 0);
    CHECK(a->parts == NULL || a->n_queries == 1);
    struct attention_pass p = {.a = a, .tier = tier, .stride = attention_walk_stride(a->head_dim_v)};
    p.fetch_size[0] = kernels_kv_bytes(a->type_k, a->head_dim_k);
    p.fetch_size[1] = a->v != NULL ? kernels_kv_bytes(a->type_v, a->head_dim_v) : 0;
    uint32_t block = (uint32_t)p.fetch_size[0];
    const uint32_t near = ATTENTION_WALK_NEAR << kv_layout_quantised(a->type_v);
    p.ahead = KERNELS_KV_BLOCK * (block < near ? (near + block / 2) / block : 1);
    p.row_floats = kv_layout_quantised(a->type_k) ? attention_walk_query(a->head_dim_k)
                                                  : attention_walk_stride(a->head_dim_k);
    size_t rows = (size_t)attention_walk_queries(a->n_queries, a->group) * a->group;
    p.score = a->work;
    p.part = p.score + (size_t)ATTENTION_WALK_TILE * KERNELS_SPLIT;
    p.all = p.part + ATTENTION_WALK_TILE * p.stride;
    p.q = p.all + rows * p.stride;
    p.keys = p.q + rows * attention_walk_row_floats(a->head_dim_k);
    p.values = p.keys + (size_t)KERNELS_SPLIT * a->head_dim_k;
    const size_t dim = a->head_dim_v, groups = dim / KERNELS_KV_GROUP;
    p.scales = p.values;
    p.factors = p.scales + groups * KERNELS_SPLIT;
    p.weights = (int16_t *)(p.factors + groups * KERNELS_SPLIT);
    p.sums = (int32_t *)(void *)(p.weights + groups * ATTENTION_WALK_TILE * KERNELS_SPLIT);
    p.turned = (uint8_t *)(p.sums + 2 * dim * ATTENTION_WALK_TILE);
    p.units = (float *)(void *)(p.turned + dim * KERNELS_SPLIT);
    _Static_assert(2 * KERNELS_SPLIT * sizeof(float) + ATTENTION_WALK_TILE * KERNELS_SPLIT * sizeof(int16_t) +
                           2 * KERNELS_KV_GROUP * ATTENTION_WALK_TILE * sizeof(int32_t) +
                           KERNELS_KV_GROUP * KERNELS_SPLIT + sizeof(float) <=
                       ATTENTION_WALK_PANEL * sizeof(float),
                   "all of a group of quantised V has room where its panel would be");
    return p;
}

static inline void attention_walk(const struct kernels_attention *a, const struct attention_tier *tier) {
    struct attention_pass p = attention_walk_begin(a, tier);
    CHECK(a->parts == NULL ||
          (a->first_split < a->end_split && (a->end_split - 1) * KERNELS_SPLIT <= a->first_position));
    uint32_t step = attention_walk_queries(a->n_queries, a->group);
    for (uint32_t i = 0; i < a->n_queries; i += step) {
        p.queries = a->n_queries - i < step ? a->n_queries - i : step;
        attention_walk_pass(&p, i);
    }
}

/* out from the parts of all splits. */
static inline void attention_walk_join(const struct kernels_attention *a, const struct attention_tier *tier) {
    struct attention_pass p = attention_walk_begin(a, tier);
    size_t floats = kernels_attention_part(a->group, a->head_dim_v);
    CHECK(a->parts != NULL);
    p.queries = 1;
    p.rows = a->group;
    memcpy(p.all, a->parts, p.rows * p.stride * sizeof *p.all);
    memcpy(p.max, attention_walk_maxima(a, a->parts), p.rows * sizeof *p.max);
    memcpy(p.sum, attention_walk_sums(a, a->parts), p.rows * sizeof *p.sum);
    uint32_t splits =
        a->first_position / KERNELS_SPLIT + 1 - kernels_attention_first(a->first_position, a->window);
    for (uint32_t i = 1; i < splits; i++) {
        float *part = a->parts + i * floats;
        for (uint32_t r = 0, n; r < p.rows; r += n) {
            n = p.rows - r < ATTENTION_WALK_TILE ? p.rows - r : ATTENTION_WALK_TILE;
            struct attention_shares shares;
            attention_walk_share(&p, r, n, attention_walk_maxima(a, part) + r,
                                 attention_walk_sums(a, part) + r, &shares);
            attention_walk_merge(&p, r, n, &shares, part + r * p.stride);
        }
    }
    attention_walk_scale(&p, 0);
}

#endif
