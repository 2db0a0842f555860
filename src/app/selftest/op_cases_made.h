/* What the cases of ops are made of: tensors, values and ops of one layer. Includers: op_cases.c,
 * op_cases_attention.c. */
#ifndef STATOR_APP_OP_CASES_MADE_H
#define STATOR_APP_OP_CASES_MADE_H

#include "app/selftest/op_cases.h"

#include <stdio.h>

static inline const struct gguf_tensor *add_tensor(struct op_graph *b, uint32_t type, uint32_t cols,
                                                   uint32_t rows, uint32_t matrices) {
    CHECK(b->n_tensors < OP_CASES_TENSOR);
    const uint32_t i = b->n_tensors++;
    struct gguf_tensor *t = &b->tensors[i];
    *t = (struct gguf_tensor){.name = {"case", 4},
                              .type = type,
                              .n_dims = matrices > 0 ? 3
                                        : rows > 0   ? 2
                                                     : 1,
                              .ne = {cols, ARITH_MAX(rows, 1u), ARITH_MAX(matrices, 1u), 1}};
    uint64_t row = 0;
    bool ok = block_row_bytes(type, cols, &row);
    CHECK(ok);
    t->bytes = row * t->ne[1] * t->ne[2];
    b->spread[i] = 0.1f;
    return t;
}

static inline const struct gguf_tensor *add_matrix(struct op_graph *b, uint32_t cols, uint32_t rows) {
    return add_tensor(b, b->type, cols, rows, 0);
}

static inline const struct gguf_tensor *add_vector(struct op_graph *b, uint32_t n, float middle,
                                                   float spread) {
    const struct gguf_tensor *t = add_tensor(b, BLOCK_F32, n, 0, 0);
    b->middle[b->n_tensors - 1] = middle;
    b->spread[b->n_tensors - 1] = spread;
    return t;
}

static inline uint32_t add_value(struct op_graph *b, const char *name, uint32_t rows, uint32_t width,
                                 uint32_t forms) {
    return graph_add_value(&b->graph, name, GRAPH_SCRATCH, rows, width, forms);
}

static inline struct graph_op *add_op(struct op_graph *b, enum graph_kind kind, uint32_t in, uint32_t out) {
    return graph_add_op(&b->graph, kind, 0, in, out);
}

/* Random rows by the tokens' ids into a value that has floats. */
static inline void fill_value(struct op_graph *b, uint32_t value) {
    const uint32_t width = b->graph.values[value].width;
    const struct gguf_tensor *t = add_tensor(b, BLOCK_F32, width, OP_CASES_IDS, 0);
    b->spread[b->n_tensors - 1] = 1.0f;
    struct graph_op *op = add_op(b, GRAPH_EMBED, GRAPH_NONE, value);
    op->scale = 1;
    graph_op_weight(&b->graph, op, t, NULL, 0);
    b->first_op = b->graph.n_ops;
}

/* A value of such rows in these number formats. */
static inline uint32_t add_input(struct op_graph *b, uint32_t width, uint32_t forms) {
    char name[32];
    snprintf(name, sizeof name, "input %u", b->graph.n_values);
    const uint32_t floats = add_value(b, name, OP_CASES_BATCH, width, GRAPH_F32);
    fill_value(b, floats);
    if (forms == GRAPH_F32)
        return floats;
    const uint32_t v = add_value(b, "input's forms", OP_CASES_BATCH, width, forms);
    add_op(b, GRAPH_FORMS, floats, v);
    b->first_op = b->graph.n_ops;
    return v;
}

static inline uint32_t add_output(struct op_graph *b, uint32_t width) {
    struct graph *g = &b->graph;
    g->logits = graph_add_value(g, "output", GRAPH_EXCHANGE, OP_CASES_BATCH, width, GRAPH_F32);
    graph_value_halves(g, g->logits, g->want.result_halves);
    return g->logits;
}

/* An output that the op finds filled: it adds to it, or works in place. */
static inline uint32_t add_filled_output(struct op_graph *b, uint32_t width) {
    const uint32_t v = add_output(b, width);
    fill_value(b, v);
    return v;
}

static inline struct graph_norm norm_of(uint32_t width) {
    return (struct graph_norm){.eps = 1e-5f, .inv_width = 1.0f / (float)width};
}

/* What follows works on the rows whose logits are wanted. */
static inline void begin_tail(struct op_graph *b) {
    b->graph.tail = b->graph.n_ops;
}

/* op_cases_attention.c */
void op_cases_attention(struct op_graph *b);
void op_cases_whole_attention(struct op_graph *b);
void op_cases_latent(struct op_graph *b);

#endif
