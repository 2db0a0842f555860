/* The walk over splits, blocks and rows that the vector tiers of attention share; a tier brings the
 * arithmetic.
 *
 * A row is one head of one query. Rows of consecutive queries lie in query order, so the rows that see a
 * token are a suffix. A pass takes some queries; for each split it computes all scores, softens each row,
 * multiplies with V and merges. Blocks are the outer loop and tiles of rows the inner one: a block's K and V
 * are read from memory once in a pass, and each vector loaded serves all rows of a tile. Scores of tokens
 * beyond a row's query are computed with the block's other tokens and dropped: never read. */
#ifndef STATOR_KERNELS_CPU_ATTENTION_WALK_H
#define STATOR_KERNELS_CPU_ATTENTION_WALK_H

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/num.h"

#include <string.h>

#define ATTENTION_WALK_ROWS 32 /* rows of a pass, where it has several queries */
#define ATTENTION_WALK_LANE 16 /* rows of o are padded to this */

struct attention_tier {
    uint32_t tile; /* most rows that qk and pv take */
    /* score[r * KERNELS_SPLIT + t] = q[r] . K[.][t] for the 32 tokens of the block. `next` is what is read
     * after this block: to be prefetched, as blocks lie anywhere. */
    void (*qk)(uint32_t rows, const float *const *q, const void *k, const void *next, uint32_t dim,
               float *score);
    /* o[r * stride + d] = fmaf(e[r * KERNELS_SPLIT + t], V[t][d], o[..]) for t = begin .. end - 1 of the
     * block. */
    void (*pv)(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim, uint32_t begin,
               uint32_t end, float *o, size_t stride);
    /* Scores of n tokens of a split become e; the maximum and the sum are returned. */
    void (*soften)(float *score, uint32_t n, float scale, float *max, float *sum);
    /* all = fmaf(part, b, all * a) */
    void (*merge)(float *all, const float *part, uint32_t dim, float a, float b);
    void (*scale)(float *out, const float *o, uint32_t dim, float factor);
};

struct attention_pass {
    const struct kernels_attention *a;
    uint32_t position; /* of the pass's first query */
    uint32_t queries;
    uint32_t rows;
    const float *q[KERNELS_MAX_GROUP];
    uint32_t end[KERNELS_MAX_GROUP]; /* tokens that the row sees */
    float max[KERNELS_MAX_GROUP];
    float sum[KERNELS_MAX_GROUP];
    float *score; /* [rows][KERNELS_SPLIT] */
    float *all;   /* [rows][stride] */
    float *part;  /* likewise, of one split */
    size_t stride;
};

static inline uint32_t attention_walk_queries(uint32_t queries, uint32_t group) {
    uint32_t fit = group < ATTENTION_WALK_ROWS ? ATTENTION_WALK_ROWS / group : 1;
    return queries < fit ? queries : fit;
}

static inline size_t attention_walk_stride(uint32_t dim) {
    return (dim + (size_t)ATTENTION_WALK_LANE - 1) / ATTENTION_WALK_LANE * ATTENTION_WALK_LANE;
}

static inline size_t attention_walk_floats(uint32_t max_queries, uint32_t group, uint32_t head_dim_v) {
    size_t rows = (size_t)attention_walk_queries(max_queries, group) * group;
    return rows * (KERNELS_SPLIT + 2 * attention_walk_stride(head_dim_v));
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

static inline void attention_walk_pv(const struct attention_pass *p, const struct attention_tier *tier,
                                     uint32_t split, uint32_t token, const uint8_t *next, float *o) {
    const struct kernels_attention *a = p->a;
    const uint8_t *v = attention_walk_block(a, a->v, token);
    for (uint32_t r = attention_walk_first(p, token), n; r < p->rows; r += n) {
        n = p->rows - r < tier->tile ? p->rows - r : tier->tile;
        const float *e = p->score + (size_t)r * KERNELS_SPLIT + (token - split);
        uint32_t common = attention_walk_seen(p, r, token, KERNELS_KV_BLOCK);
        tier->pv(n, e, v, next, a->head_dim_v, 0, common, o + r * p->stride, p->stride);
        for (uint32_t i = 1; i < n; i++) {
            uint32_t seen = attention_walk_seen(p, r + i, token, KERNELS_KV_BLOCK);
            if (seen > common)
                tier->pv(1, e + (size_t)i * KERNELS_SPLIT, v, next, a->head_dim_v, common, seen,
                         o + (r + i) * p->stride, p->stride);
        }
    }
}

static inline void attention_walk_split(struct attention_pass *p, const struct attention_tier *tier,
                                        uint32_t split) {
    const struct kernels_attention *a = p->a;
    uint32_t last = p->position + p->queries;
    uint32_t end = last - split < KERNELS_SPLIT ? last : split + KERNELS_SPLIT;
    uint32_t first = attention_walk_first(p, split);
    float *o = split == 0 ? p->all : p->part;
    for (uint32_t token = split; token < end; token += KERNELS_KV_BLOCK) {
        uint32_t then = token + KERNELS_KV_BLOCK;
        const uint8_t *k = attention_walk_block(a, a->k, token);
        const uint8_t *next =
            then < end ? attention_walk_block(a, a->k, then) : attention_walk_block(a, a->v, split);
        for (uint32_t r = attention_walk_first(p, token), n; r < p->rows; r += n) {
            n = p->rows - r < tier->tile ? p->rows - r : tier->tile;
            tier->qk(n, p->q + r, k, next, a->head_dim_k,
                     p->score + (size_t)r * KERNELS_SPLIT + (token - split));
        }
    }
    float max[KERNELS_MAX_GROUP], sum[KERNELS_MAX_GROUP];
    for (uint32_t r = first; r < p->rows; r++)
        tier->soften(p->score + (size_t)r * KERNELS_SPLIT, attention_walk_seen(p, r, split, KERNELS_SPLIT),
                     a->scale, &max[r], &sum[r]);
    memset(o + first * p->stride, 0, (p->rows - first) * p->stride * sizeof *o);
    for (uint32_t token = split; token < end; token += KERNELS_KV_BLOCK) {
        uint32_t then = token + KERNELS_KV_BLOCK;
        const uint8_t *next = attention_walk_block(a, then < end ? a->v : a->k, then < last ? then : token);
        attention_walk_pv(p, tier, split, token, next, o);
    }
    for (uint32_t r = first; r < p->rows; r++) {
        if (split == 0) {
            p->max[r] = max[r];
            p->sum[r] = sum[r];
            continue;
        }
        float top = max[r] > p->max[r] ? max[r] : p->max[r];
        float x = num_exp(p->max[r] - top), y = num_exp(max[r] - top);
        tier->merge(&p->sum[r], &sum[r], 1, x, y);
        tier->merge(p->all + r * p->stride, p->part + r * p->stride, a->head_dim_v, x, y);
        p->max[r] = top;
    }
}

static inline void attention_walk(const struct kernels_attention *a, const struct attention_tier *tier) {
    CHECK(a->n_queries >= 1 && a->group >= 1 && a->group <= KERNELS_MAX_GROUP);
    CHECK(a->head_dim_k <= KERNELS_MAX_HEAD && a->head_dim_v <= KERNELS_MAX_HEAD);
    struct attention_pass p;
    p.a = a;
    p.stride = attention_walk_stride(a->head_dim_v);
    uint32_t step = attention_walk_queries(a->n_queries, a->group);
    size_t rows = (size_t)step * a->group;
    p.score = a->work;
    p.all = p.score + rows * KERNELS_SPLIT;
    p.part = p.all + rows * p.stride;
    for (uint32_t i = 0; i < a->n_queries; i += step) {
        p.position = a->first_position + i;
        p.queries = a->n_queries - i < step ? a->n_queries - i : step;
        p.rows = p.queries * a->group;
        for (uint32_t n = 0, r = 0; n < p.queries; n++) {
            for (uint32_t h = 0; h < a->group; h++, r++) {
                p.q[r] = a->q + (i + n) * a->q_stride + (size_t)h * a->head_dim_k;
                p.end[r] = p.position + n + 1;
            }
        }
        for (uint32_t split = 0; split < p.position + p.queries; split += KERNELS_SPLIT)
            attention_walk_split(&p, tier, split);
        for (uint32_t n = 0, r = 0; n < p.queries; n++)
            for (uint32_t h = 0; h < a->group; h++, r++)
                tier->scale(a->out + (i + n) * a->out_stride + (size_t)h * a->head_dim_v,
                            p.all + r * p.stride, a->head_dim_v, num_rcp(p.sum[r]));
    }
}

#endif
