/* The cases of attention: heads rotated and stored, an indexer, latent attention. No state. */
#include "app/selftest/op_cases_made.h"

#include "kernels/kernels.h"

#include <math.h>

static uint32_t add_kv_cache(struct op_graph *b) {
    const struct op_shape *z = b->sizes;
    struct graph_cache c = {.name = "kv",
                            .kind = z->window > 0 ? GRAPH_RING : GRAPH_PAGED,
                            .window = z->window,
                            .units = z->kv_heads,
                            .k_bytes = kernels_kv_bytes((enum kernels_kv)b->type, z->dim),
                            .type_k = b->type,
                            .type_v = b->type};
    c.bytes = 2 * c.k_bytes;
    return graph_add_cache(&b->graph, &c);
}

/* z->dim of n_rot values, as a gemma 4 tower has them where no kernel takes its heads: zeros behind them,
 * rotated by halves, v normed. */
static void add_rope_store(struct op_graph *b, uint32_t cache, uint32_t qkv, uint32_t n_rot) {
    const struct op_shape *z = b->sizes;
    struct graph_op *op = add_op(b, GRAPH_ROPE_STORE, qkv, qkv);
    const struct graph_angles angles = {.n_rot = n_rot, .base = 10000, .scale = 1, .magnitude = 1};
    const bool padded = n_rot < z->dim;
    op->rope = (struct graph_rope){.heads = z->heads,
                                   .kv_heads = z->kv_heads,
                                   .dim_k = z->dim,
                                   .dim_v = z->dim,
                                   .n_rot = n_rot,
                                   .neox = true,
                                   .halves = padded,
                                   .angles = graph_add_angles(&b->graph, &angles),
                                   .angles_q = GRAPH_NONE,
                                   .norm = norm_of(n_rot),
                                   .norm_v = padded};
    graph_op_cache(&b->graph, op, cache);
    for (int i = 0; i < 2; i++)
        op->weight[op->n_weights++] =
            graph_add_plain_padded(&b->graph, add_vector(b, n_rot, 1, 0.25f), z->dim);
}

static void add_heads(struct op_graph *b, uint32_t cache, uint32_t qkv) {
    const struct op_shape *z = b->sizes;
    const uint32_t q = z->heads * z->dim, k = z->kv_heads * z->dim;
    const uint32_t in = add_input(b, z->in, GRAPH_I8_32), rows[] = {q, k, k};
    struct graph_op *op = add_op(b, GRAPH_MATMUL, in, qkv);
    for (uint32_t i = 0, column = 0; i < 3; column += rows[i++])
        graph_op_weight(&b->graph, op, add_tensor(b, BLOCK_Q8_0, z->in, rows[i], 0), NULL, column);
    add_rope_store(b, cache, qkv, z->dim);
}

/* Heads of z->out values, which no product makes in the width that attention takes. */
static void add_spread_heads(struct op_graph *b, uint32_t cache, uint32_t qkv) {
    const struct op_shape *z = b->sizes;
    const uint32_t in = add_input(b, (z->heads + 2 * z->kv_heads) * z->out, GRAPH_F32);
    add_op(b, GRAPH_SPREAD, in, qkv)->spread = (struct graph_spread){.from = z->out, .to = z->dim};
    add_rope_store(b, cache, qkv, z->out);
}

/* An indexer's keys and its choice of so many tokens; the value of lists. */
static uint32_t add_index(struct op_graph *b, const struct graph_index *x) {
    const uint32_t type = b->type == KERNELS_KV_F32 ? KV_LAYOUT_F32 : KV_LAYOUT_F16;
    const uint64_t bytes = index_bytes(type, x->dim, x->ratio, x->n_rot);
    const struct graph_cache c = {.name = "index",
                                  .kind = GRAPH_PAGED,
                                  .units = 1,
                                  .bytes = bytes,
                                  .k_bytes = bytes,
                                  .type_k = type,
                                  .type_v = type};
    struct graph *g = &b->graph;
    const uint32_t cache = graph_add_cache(g, &c);
    const uint32_t qk = add_input(b, (x->heads + 1) * x->dim, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_INDEX, qk, qk);
    op->index = *x;
    for (uint32_t i = 0; i < 2; i++)
        graph_op_weight(g, op, add_vector(b, x->dim, 1, 0.25f), NULL, 0);
    graph_op_cache(g, op, cache);
    const uint32_t list = add_value(b, "blocks", OP_CASES_BATCH, INDEX_WORDS(x->keep), GRAPH_F32);
    op = add_op(b, GRAPH_CHOOSE, qk, list);
    op->index = *x;
    graph_op_cache(g, op, cache);
    if (g->want.counted)
        op->work =
            add_value(b, "scores", OP_CASES_BATCH,
                      (uint32_t)arith_round_up(g->want.context, KERNELS_KV_BLOCK) / x->ratio, GRAPH_F32);
    return list;
}

/* Products, norms and rotation of heads, stores and attention: the GPU's kernels store heads where a product
 * makes them. */
static void add_attention(struct op_graph *b, bool whole) {
    const struct op_shape *z = b->sizes;
    struct graph *g = &b->graph;
    const uint32_t cache = add_kv_cache(b);
    uint32_t arrivals = GRAPH_NONE;
    if (g->want.counted)
        arrivals = graph_add_value(g, "arrivals", GRAPH_EXCHANGE, OP_CASES_BATCH, z->kv_heads, GRAPH_F32);
    add_op(b, GRAPH_FILL, GRAPH_NONE, GRAPH_NONE)->layer = GRAPH_NONE;
    const uint32_t qkv =
        add_value(b, "qkv", OP_CASES_BATCH, (z->heads + 2 * z->kv_heads) * z->dim, GRAPH_F32);
    if (z->out > 0)
        add_spread_heads(b, cache, qkv);
    else
        add_heads(b, cache, qkv);
    const uint32_t index_dim = z->dim / 2 < 64 ? 64 : z->dim / 2;
    const struct graph_index x = {.heads = z->taps,
                                  .dim = index_dim,
                                  .ratio = z->used,
                                  .keep = z->used > 0 ? z->experts / z->used : 0,
                                  .n_rot = z->dim / 4,
                                  .neox = true,
                                  .angles = 0,
                                  .norm = norm_of(index_dim)};
    const uint32_t chosen = x.ratio > 0 ? add_index(b, &x) : GRAPH_NONE;
    struct graph_op *op = add_op(b, GRAPH_ATTENTION, qkv, add_output(b, z->heads * z->dim));
    op->attention = (struct graph_attention){.heads = z->heads,
                                             .kv_heads = z->kv_heads,
                                             .dim_k = z->dim,
                                             .dim_v = z->dim,
                                             .scale = 1.0f / sqrtf((float)z->dim),
                                             .both = whole,
                                             .ratio = x.ratio,
                                             .keep = x.keep,
                                             .chosen = chosen,
                                             .arrivals = arrivals};
    graph_op_cache(g, op, cache);
    if (!whole)
        graph_op_weight(g, op, add_vector(b, z->heads, 0, 1), NULL, 0);
    if (g->want.cells > 0)
        op->work = add_value(b, "cells", g->want.cells, z->heads * (z->dim + 2), GRAPH_F32);
}

void op_cases_attention(struct op_graph *b) {
    add_attention(b, false);
}

void op_cases_whole_attention(struct op_graph *b) {
    add_attention(b, true);
}

static uint32_t add_matrices_of_heads(struct op_graph *b, uint32_t in, uint32_t out, uint32_t cols,
                                      uint32_t rows, struct graph_heads heads) {
    struct graph_op *op = add_op(b, GRAPH_HEADS, in, out);
    op->heads = heads;
    graph_op_weight(&b->graph, op, add_tensor(b, BLOCK_Q8_0, cols, rows, b->sizes->heads), NULL, 0);
    return out;
}

/* Latent attention: q of heads times a matrix of each, attention over the rows of a cache whose beginnings
 * are V, times a matrix of each again. */
void op_cases_latent(struct op_graph *b) {
    enum { NOPE = 64, ROT = 32 };
    const struct op_shape *z = b->sizes;
    struct graph *g = &b->graph;
    const uint32_t rank = z->dim, dim = rank + ROT, head = NOPE + ROT;
    struct graph_cache c = {.name = "kv",
                            .kind = GRAPH_PAGED,
                            .units = 1,
                            .bytes = kernels_kv_bytes((enum kernels_kv)b->type, dim),
                            .type_k = b->type,
                            .type_v = b->type};
    c.k_bytes = c.bytes;
    const uint32_t cache = graph_add_cache(g, &c);
    uint32_t arrivals = GRAPH_NONE;
    if (g->want.counted)
        arrivals = graph_add_value(g, "arrivals", GRAPH_EXCHANGE, OP_CASES_BATCH, z->heads, GRAPH_F32);
    add_op(b, GRAPH_FILL, GRAPH_NONE, GRAPH_NONE)->layer = GRAPH_NONE;
    const uint32_t q = add_input(b, z->heads * head, GRAPH_F32), in = add_input(b, z->in, GRAPH_I8_32);
    const uint32_t q_in = add_value(b, "q_in", OP_CASES_BATCH, z->heads * head, GRAPH_I8_32);
    add_op(b, GRAPH_FORMS, q, q_in);
    const uint32_t qk = add_value(b, "qk", OP_CASES_BATCH, (z->heads + 1) * dim, GRAPH_F32);
    add_matrices_of_heads(b, q_in, qk, NOPE, rank,
                          (struct graph_heads){.in_stride = head, .out_stride = dim});
    struct graph_op *op = add_op(b, GRAPH_MATMUL, in, qk);
    graph_op_weight(g, op, add_tensor(b, BLOCK_Q8_0, z->in, dim, 0), NULL, z->heads * dim);
    op = add_op(b, GRAPH_ROPE_STORE, qk, qk);
    const struct graph_angles angles = {.n_rot = ROT, .base = 10000, .scale = 1, .magnitude = 1};
    op->work = q;
    op->rope = (struct graph_rope){.heads = z->heads,
                                   .kv_heads = 1,
                                   .dim_k = dim,
                                   .dim_v = rank,
                                   .n_rot = ROT,
                                   .angles = graph_add_angles(g, &angles),
                                   .angles_q = GRAPH_NONE,
                                   .norm_k = norm_of(rank),
                                   .latent = rank};
    graph_op_weight(g, op, add_vector(b, rank, 1, 0.25f), NULL, 0);
    graph_op_cache(g, op, cache);
    const uint32_t heads = add_value(b, "heads", OP_CASES_BATCH, z->heads * rank, GRAPH_F32 | GRAPH_I8_32);
    op = add_op(b, GRAPH_ATTENTION, qk, heads);
    op->attention = (struct graph_attention){.heads = z->heads,
                                             .kv_heads = z->kv_heads,
                                             .dim_k = dim,
                                             .dim_v = rank,
                                             .scale = 1.0f / sqrtf((float)head),
                                             .latent = true,
                                             .arrivals = arrivals};
    graph_op_cache(g, op, cache);
    if (g->want.cells > 0)
        op->work = add_value(b, "cells", g->want.cells, z->heads * (rank + 2), GRAPH_F32);
    add_matrices_of_heads(b, heads, add_output(b, z->heads * z->out), rank, z->out,
                          (struct graph_heads){.in_stride = rank, .out_stride = z->out});
}
