/* The walk over splits, blocks and rows that the vector tiers of attention share; a tier brings the
 * arithmetic.
 *
 * A row is one head of one query. Rows of consecutive queries lie in query order, so the rows that see a
 * token are a suffix. A pass takes some queries; for each split it computes all scores, softens each row,
 * multiplies with V and merges. Blocks are the outer loop and tiles of rows the inner one: a block's K and V
 * are read from memory once in a pass, and each vector loaded serves all rows of a tile. Where several tiles
 * of rows need the same f16 block, and for quantised V always, the block is first turned to floats ("plain")
 * in near memory. Scores of tokens beyond a row's query are computed with the block's other tokens and
 * dropped: never read. */
#ifndef STATOR_KERNELS_CPU_ATTENTION_WALK_H
#define STATOR_KERNELS_CPU_ATTENTION_WALK_H

#include "base/check.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/num.h"

#include <string.h>

#define ATTENTION_WALK_ROWS 48   /* rows of a pass, where it has several queries: whole tiles of 6 and 8 */
#define ATTENTION_WALK_NEAR 4096 /* bytes that are on their way from memory */
#define ATTENTION_WALK_LANE 16   /* rows of o are padded to this */
#define ATTENTION_WALK_TILE 8    /* the largest tile */

/* Of a group of a query against quantised keys; behind the 2 * dim bytes of its integers, whose order is the
 * tier's. */
struct attention_query {
    float d;
    int32_t offset; /* what is taken off the sum of a group, as the tier's unsigned keys add it */
};

/* Some rows times V of some tokens of a block. */
struct attention_pv {
    uint32_t rows;
    const float *e; /* row r, token t: e[r * e_stride + t] */
    size_t e_stride;
    const void *v;    /* token t, dim d: v[t * v_stride + d] */
    const void *next; /* what is read after this block: to be prefetched, as blocks lie anywhere */
    size_t v_stride;
    uint32_t dims;
    uint32_t begin; /* tokens */
    uint32_t end;
    float *o; /* o[r * o_stride + d] = fmaf(e, v, o) */
    size_t o_stride;
};

struct attention_tier {
    uint32_t tile; /* most rows that qk and pv take */
    /* score[r * KERNELS_SPLIT + t] = q[r] . K[.][t] for the 32 tokens of the block. Rows of q are floats, or
     * what quantise_query made. */
    void (*qk[KERNELS_KV_TYPES])(uint32_t rows, const void *const *q, const void *k, const void *next,
                                 uint32_t dim, float *score);
    void (*quantise_query)(const float *x, uint32_t dim, bool four, void *row);
    void (*pv[2])(const struct attention_pv *p); /* f32, f16 */
    /* n elements of f16, or the integers of V of a quantised block as [32][dim] */
    void (*plain_f16)(const void *from, const void *next, size_t n, float *to);
    void (*plain_v[KERNELS_KV_TYPES])(const void *v, const void *next, uint32_t dim, float *to);
    /* The same as plain_v, weigh and pv, straight from a quantised V, for at most tile_small rows that see
     * the tokens before `end`. */
    uint32_t tile_small;
    void (*pv_small[KERNELS_KV_TYPES])(uint32_t rows, const float *e, const void *v, const void *next,
                                       uint32_t dim, uint32_t end, float *o, size_t o_stride);
    /* w[r * 32 + t] = e[r * KERNELS_SPLIT + t] * scales[t] */
    void (*weigh)(uint32_t rows, const float *e, const uint16_t *scales, float *w);
    void (*exp)(float *x, uint32_t n); /* of each; up to 15 more are read and written */
    /* Scores of n >= 1 tokens of a split become e, those behind them 0; the maximum and the sum are
     * returned. */
    void (*soften)(float *score, uint32_t n, float scale, float *max, float *sum);
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
    uint32_t ahead; /* tokens between what is computed and what is prefetched */
    const void *q[KERNELS_MAX_GROUP];
    uint32_t end[KERNELS_MAX_GROUP]; /* tokens that the row sees */
    float max[KERNELS_MAX_GROUP];
    float sum[KERNELS_MAX_GROUP];
    float *score; /* [rows][KERNELS_SPLIT] */
    float *all;   /* [rows][stride] */
    float *part;  /* likewise, of one split */
    size_t stride;
    float *plain; /* a block of K or V */
    float *small; /* rows of quantised queries */
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

static inline size_t attention_walk_floats(uint32_t max_queries, uint32_t group, uint32_t head_dim_k,
                                           uint32_t head_dim_v) {
    size_t rows = (size_t)attention_walk_queries(max_queries, group) * group;
    size_t dim = head_dim_k > head_dim_v ? head_dim_k : head_dim_v;
    return rows * (KERNELS_SPLIT + 2 * attention_walk_stride(head_dim_v) + attention_walk_query(head_dim_k)) +
           KERNELS_KV_BLOCK * dim;
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

/* The first row that sees the token. */
static inline uint32_t attention_walk_first(const struct attention_pass *p, uint32_t token) {
    return token <= p->position ? 0 : (token - p->position) * p->a->group;
}

/* The block of the token in the K or V that begins at `base`. */
static inline const uint8_t *attention_walk_block(const struct kernels_attention *a, const uint8_t *base,
                                                  uint32_t token) {
    return base + a->blocks[token / KERNELS_KV_BLOCK] * a->block_stride;
}

/* What is read some blocks after the token's K, or V: K and V of a split, then those of the next. */
static inline const uint8_t *attention_walk_next(const struct attention_pass *p, bool key, uint32_t split,
                                                 uint32_t end, uint32_t token) {
    const struct kernels_attention *a = p->a;
    uint32_t then = token + p->ahead, last = p->position + p->queries;
    if (then < end)
        return attention_walk_block(a, key ? a->k : a->v, then);
    if (key)
        return attention_walk_block(a, a->v, split + (then - end < end - split ? then - end : 0));
    return attention_walk_block(a, a->k, then < last ? then : token);
}

static inline bool attention_walk_quantised(enum kernels_kv type) {
    return type == KERNELS_KV_Q8_0 || type == KERNELS_KV_Q4_0;
}

static inline void attention_walk_qk(const struct attention_pass *p, uint32_t split, uint32_t token,
                                     const uint8_t *next) {
    const struct kernels_attention *a = p->a;
    const struct attention_tier *tier = p->tier;
    const void *k = attention_walk_block(a, a->k, token);
    uint32_t first = attention_walk_first(p, token);
    enum kernels_kv type = a->type_k;
    if (type == KERNELS_KV_F16 && p->rows - first > tier->tile) {
        tier->plain_f16(k, next, (size_t)KERNELS_KV_BLOCK * a->head_dim_k, p->plain);
        k = next = (const uint8_t *)p->plain;
        type = KERNELS_KV_F32;
    }
    for (uint32_t r = first, n; r < p->rows; r += n) {
        n = p->rows - r < tier->tile ? p->rows - r : tier->tile;
        tier->qk[type](n, p->q + r, k, next, a->head_dim_k,
                       p->score + (size_t)r * KERNELS_SPLIT + (token - split));
    }
}

/* V of one block in the form that is multiplied. */
struct attention_values {
    const void *v;
    const void *next;
    const uint16_t *scales; /* NULL: none */
    bool f16;
};

/* A few rows over tokens begin .. end - 1 of the block. */
static inline void attention_walk_add(const struct attention_pass *p, const struct attention_values *b,
                                      uint32_t rows, const float *e, uint32_t begin, uint32_t end, float *o) {
    struct attention_pv pv = {.rows = rows,
                              .e = e,
                              .e_stride = KERNELS_SPLIT,
                              .v = b->v,
                              .next = b->next,
                              .v_stride = p->a->head_dim_v,
                              .dims = p->a->head_dim_v,
                              .begin = begin,
                              .end = end,
                              .o = o,
                              .o_stride = p->stride};
    if (b->scales == NULL) {
        p->tier->pv[b->f16](&pv);
        return;
    }
    _Alignas(64) float w[ATTENTION_WALK_TILE * KERNELS_KV_BLOCK];
    pv.e = w;
    pv.e_stride = KERNELS_KV_BLOCK;
    pv.dims = KERNELS_KV_GROUP;
    for (uint32_t g = 0; g < p->a->head_dim_v / KERNELS_KV_GROUP; g++) {
        p->tier->weigh(rows, e, b->scales + (size_t)g * KERNELS_KV_BLOCK, w);
        pv.v = (const float *)b->v + (size_t)g * KERNELS_KV_GROUP;
        pv.o = o + (size_t)g * KERNELS_KV_GROUP;
        p->tier->pv[0](&pv);
    }
}

static inline void attention_walk_pv(const struct attention_pass *p, uint32_t split, uint32_t token,
                                     const uint8_t *next, float *o) {
    const struct kernels_attention *a = p->a;
    const struct attention_tier *tier = p->tier;
    uint32_t first = attention_walk_first(p, token);
    const uint8_t *v = attention_walk_block(a, a->v, token);
    struct attention_values b = {.v = v, .next = next, .f16 = a->type_v == KERNELS_KV_F16};
    if (attention_walk_quantised(a->type_v) && p->queries == 1 && p->rows <= tier->tile_small) {
        tier->pv_small[a->type_v](p->rows, p->score + (token - split), v, next, a->head_dim_v,
                                  attention_walk_seen(p, 0, token, KERNELS_KV_BLOCK), o, p->stride);
        return;
    }
    if (attention_walk_quantised(a->type_v)) {
        tier->plain_v[a->type_v](v, next, a->head_dim_v, p->plain);
        b.scales = (const uint16_t *)(const void *)(v + kv_layout_scales(a->type_v, a->head_dim_v));
        b.v = b.next = p->plain;
    } else if (b.f16 && p->rows - first > tier->tile) {
        tier->plain_f16(v, next, (size_t)KERNELS_KV_BLOCK * a->head_dim_v, p->plain);
        b = (struct attention_values){.v = p->plain, .next = p->plain};
    }
    for (uint32_t r = first, n; r < p->rows; r += n) {
        n = p->rows - r < tier->tile ? p->rows - r : tier->tile;
        const float *e = p->score + (size_t)r * KERNELS_SPLIT + (token - split);
        uint32_t common = attention_walk_seen(p, r, token, KERNELS_KV_BLOCK);
        attention_walk_add(p, &b, n, e, 0, common, o + r * p->stride);
        for (uint32_t i = 1; i < n; i++) {
            uint32_t seen = attention_walk_seen(p, r + i, token, KERNELS_KV_BLOCK);
            if (seen > common)
                attention_walk_add(p, &b, 1, e + (size_t)i * KERNELS_SPLIT, common, seen,
                                   o + (r + i) * p->stride);
        }
    }
}

static inline void attention_walk_split(struct attention_pass *p, uint32_t split) {
    const struct kernels_attention *a = p->a;
    const struct attention_tier *tier = p->tier;
    uint32_t last = p->position + p->queries;
    uint32_t end = last - split < KERNELS_SPLIT ? last : split + KERNELS_SPLIT;
    uint32_t first = attention_walk_first(p, split);
    float *o = split == 0 ? p->all : p->part;
    for (uint32_t token = split; token < end; token += KERNELS_KV_BLOCK) {
        attention_walk_qk(p, split, token, attention_walk_next(p, true, split, end, token));
    }
    float max[KERNELS_MAX_GROUP] = {0}, sum[KERNELS_MAX_GROUP] = {0};
    for (uint32_t r = first; r < p->rows; r++)
        tier->soften(p->score + (size_t)r * KERNELS_SPLIT, attention_walk_seen(p, r, split, KERNELS_SPLIT),
                     a->scale, &max[r], &sum[r]);
    memset(o + first * p->stride, 0, (p->rows - first) * p->stride * sizeof *o);
    for (uint32_t token = split; token < end; token += KERNELS_KV_BLOCK) {
        attention_walk_pv(p, split, token, attention_walk_next(p, false, split, end, token), o);
    }
    if (split == 0) {
        memcpy(p->max, max, sizeof max);
        memcpy(p->sum, sum, sizeof sum);
        return;
    }
    /* Each part's share of what is merged. */
    float old[KERNELS_MAX_GROUP + ATTENTION_WALK_LANE] = {0};
    float now[KERNELS_MAX_GROUP + ATTENTION_WALK_LANE] = {0};
    for (uint32_t r = first; r < p->rows; r++) {
        float top = max[r] > p->max[r] ? max[r] : p->max[r];
        old[r] = p->max[r] - top;
        now[r] = max[r] - top;
        p->max[r] = top;
    }
    tier->exp(old + first, p->rows - first);
    tier->exp(now + first, p->rows - first);
    for (uint32_t r = first; r < p->rows; r++) {
        float scaled = p->sum[r] * old[r];
        p->sum[r] = fmaf(sum[r], now[r], scaled);
        tier->merge(p->all + r * p->stride, p->part + r * p->stride, a->head_dim_v, old[r], now[r]);
    }
}

/* Rows of the queries from query i on. */
static inline void attention_walk_rows(struct attention_pass *p, uint32_t i) {
    const struct kernels_attention *a = p->a;
    p->position = a->first_position + i;
    p->rows = p->queries * a->group;
    for (uint32_t n = 0, r = 0; n < p->queries; n++) {
        for (uint32_t h = 0; h < a->group; h++, r++) {
            const float *x = a->q + (i + n) * a->q_stride + (size_t)h * a->head_dim_k;
            p->q[r] = x;
            p->end[r] = p->position + n + 1;
            if (!attention_walk_quantised(a->type_k))
                continue;
            float *row = p->small + r * attention_walk_query(a->head_dim_k);
            p->tier->quantise_query(x, a->head_dim_k, a->type_k == KERNELS_KV_Q4_0, row);
            p->q[r] = row;
        }
    }
}

static inline void attention_walk(const struct kernels_attention *a, const struct attention_tier *tier) {
    CHECK(a->n_queries >= 1 && a->group >= 1 && a->group <= KERNELS_MAX_GROUP);
    CHECK(a->head_dim_k <= KERNELS_MAX_HEAD && a->head_dim_v <= KERNELS_MAX_HEAD);
    CHECK(a->head_dim_k % kernels_kv_group(a->type_k) == 0 &&
          a->head_dim_v % kernels_kv_group(a->type_v) == 0);
    struct attention_pass p = {.a = a, .tier = tier, .stride = attention_walk_stride(a->head_dim_v)};
    uint32_t block = (uint32_t)kernels_kv_bytes(a->type_k, a->head_dim_k);
    p.ahead =
        KERNELS_KV_BLOCK * (block < ATTENTION_WALK_NEAR ? (ATTENTION_WALK_NEAR + block / 2) / block : 1);
    uint32_t step = attention_walk_queries(a->n_queries, a->group);
    size_t rows = (size_t)step * a->group;
    p.score = a->work;
    p.all = p.score + rows * KERNELS_SPLIT;
    p.part = p.all + rows * p.stride;
    p.small = p.part + rows * p.stride;
    p.plain = p.small + rows * attention_walk_query(a->head_dim_k);
    for (uint32_t i = 0; i < a->n_queries; i += step) {
        p.queries = a->n_queries - i < step ? a->n_queries - i : step;
        attention_walk_rows(&p, i);
        for (uint32_t split = 0; split < p.position + p.queries; split += KERNELS_SPLIT)
            attention_walk_split(&p, split);
        for (uint32_t n = 0, r = 0; n < p.queries; n++)
            for (uint32_t h = 0; h < a->group; h++, r++)
                tier->scale(a->out + (i + n) * a->out_stride + (size_t)h * a->head_dim_v,
                            p.all + r * p.stride, a->head_dim_v, num_rcp(p.sum[r]));
    }
}

#endif
