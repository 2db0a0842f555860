/* The builder of dense decoders with RMS norm, RoPE, grouped-query attention and SwiGLU: llama, qwen2 (biases
 * on q, k, v), qwen3 (norms on the heads of q and k). Eight ops per layer. */
#include "graph/graph.h"

#include <stdio.h>

static uint32_t forms_of(const struct gguf_tensor *a, const struct gguf_tensor *b,
                         const struct gguf_tensor *c) {
    uint32_t forms = graph_form_for(a);
    if (b != NULL)
        forms |= graph_form_for(b);
    if (c != NULL)
        forms |= graph_form_for(c);
    return forms;
}

static uint32_t layer_value(struct graph *g, const char *name, uint32_t layer, uint32_t width,
                            uint32_t forms) {
    char text[32];
    snprintf(text, sizeof text, "blk.%u.%s", layer, name);
    return graph_add_value(g, text, GRAPH_SCRATCH, g->want.batch, width, forms);
}

static void add_norm(struct graph *g, enum graph_kind kind, uint32_t layer, uint32_t in, uint32_t out,
                     const struct gguf_tensor *weight) {
    struct graph_op *op = graph_add_op(g, kind, layer, in, out);
    graph_op_weight(g, op, weight, NULL, 0);
}

static void add_attention(struct graph *g, uint32_t i, uint32_t x) {
    const struct shape *s = g->shape;
    const struct shape_layer *l = &s->layers[i];
    uint32_t q_width = s->n_heads * s->head_dim_k;
    uint32_t k_width = s->n_kv_heads * s->head_dim_k;
    uint32_t v_width = s->n_kv_heads * s->head_dim_v;

    uint32_t normed = layer_value(g, "attn_norm", i, s->n_embd, forms_of(l->q, l->k, l->v));
    add_norm(g, GRAPH_NORM, i, x, normed, l->attn_norm);

    uint32_t qkv = layer_value(g, "qkv", i, q_width + k_width + v_width, GRAPH_F32);
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, i, normed, qkv);
    graph_op_weight(g, op, l->q, l->q_bias, 0);
    graph_op_weight(g, op, l->k, l->k_bias, q_width);
    graph_op_weight(g, op, l->v, l->v_bias, q_width + k_width);

    op = graph_add_op(g, GRAPH_ROPE_STORE, i, qkv, qkv);
    if (l->q_norm != NULL) {
        graph_op_weight(g, op, l->q_norm, NULL, 0);
        graph_op_weight(g, op, l->k_norm, NULL, q_width);
    }

    /* The kernel writes floats first, whatever the consumer wants. */
    uint32_t heads =
        layer_value(g, "attn", i, s->n_heads * s->head_dim_v, GRAPH_F32 | graph_form_for(l->attn_output));
    op = graph_add_op(g, GRAPH_ATTENTION, i, qkv, heads);
    if (g->want.cells != 0) {
        char text[32];
        snprintf(text, sizeof text, "blk.%u.attn_cells", i);
        op->work = graph_add_value(g, text, GRAPH_SCRATCH, g->want.cells, s->n_heads * (s->head_dim_v + 2),
                                   GRAPH_F32);
    }

    op = graph_add_op(g, GRAPH_MATMUL, i, heads, x);
    op->epilogue = GRAPH_RESIDUAL;
    graph_op_weight(g, op, l->attn_output, l->attn_output_bias, 0);
}

static void add_ffn(struct graph *g, uint32_t i, uint32_t x) {
    const struct shape *s = g->shape;
    const struct shape_layer *l = &s->layers[i];
    uint32_t normed = layer_value(g, "ffn_norm", i, s->n_embd, forms_of(l->gate, l->up, NULL));
    add_norm(g, GRAPH_NORM, i, x, normed, l->ffn_norm);

    uint32_t h = layer_value(g, "ffn_h", i, s->n_ff, GRAPH_F32 | graph_form_for(l->down));
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, i, normed, h);
    op->epilogue = GRAPH_SWIGLU;
    graph_op_weight(g, op, l->gate, NULL, 0);
    graph_op_weight(g, op, l->up, NULL, 0);

    op = graph_add_op(g, GRAPH_MATMUL, i, h, x);
    op->epilogue = GRAPH_RESIDUAL;
    graph_op_weight(g, op, l->down, NULL, 0);
}

static void add_tail(struct graph *g, uint32_t x) {
    const struct shape *s = g->shape;
    /* The output matrix sees its activations at twice the bits: this one rounding would weigh as much as any
     * in the layers, and a second row of a memory-bound product is almost free. */
    uint32_t rows = g->want.logits_rows;
    uint32_t form = graph_form_for(s->output);
    uint32_t normed = graph_add_value(g, "output_norm", GRAPH_SCRATCH, form == GRAPH_F32 ? rows : 2 * rows,
                                      s->n_embd, form);
    add_norm(g, GRAPH_GATHER_NORM, GRAPH_NONE, x, normed, s->output_norm);
    g->logits = graph_add_value(g, "logits", GRAPH_EXCHANGE, rows, s->vocab, GRAPH_F32);
    graph_value_halves(g, g->logits, g->want.result_halves);
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, GRAPH_NONE, normed, g->logits);
    op->epilogue = form == GRAPH_F32 ? GRAPH_STORE : GRAPH_PAIRS;
    graph_op_weight(g, op, s->output, NULL, 0);
    g->picks = graph_add_value(g, "picks", GRAPH_EXCHANGE, rows, 2, GRAPH_F32);
    graph_value_halves(g, g->picks, g->want.result_halves);
    graph_add_op(g, GRAPH_ARGMAX, GRAPH_NONE, g->logits, g->picks);
}

/* Two residual streams, so that one is under way while the next is computed. */
static uint32_t boundary_value(struct graph *g, const char *name) {
    uint32_t v = graph_add_value(g, name, GRAPH_EXCHANGE, g->want.batch, g->shape->n_embd, GRAPH_F32);
    graph_value_halves(g, v, 2);
    return v;
}

void graph_dense_build(struct graph *g) {
    const struct shape *s = g->shape;
    uint32_t x = graph_add_value(g, "residual", GRAPH_SCRATCH, g->want.batch, s->n_embd, GRAPH_F32);
    if (g->want.cells != 0)
        g->arrivals =
            graph_add_value(g, "attn_arrivals", GRAPH_EXCHANGE, g->want.batch, s->n_kv_heads, GRAPH_F32);
    graph_add_op(g, GRAPH_ZERO_KV, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);
    if (g->want.first_layer == 0) {
        struct graph_op *op = graph_add_op(g, GRAPH_EMBED, GRAPH_NONE, GRAPH_NONE, x);
        graph_op_weight(g, op, s->token_embd, NULL, 0);
    } else {
        g->landing = boundary_value(g, "landing");
        graph_add_op(g, GRAPH_LAND, GRAPH_NONE, g->landing, x);
    }
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        add_attention(g, i, x);
        add_ffn(g, i, x);
    }
    if (g->want.end_layer < s->n_layers) {
        g->outgoing = boundary_value(g, "outgoing");
        graph_add_op(g, GRAPH_SEND, GRAPH_NONE, x, g->outgoing);
    }

    g->tail = g->n_ops;
    if (g->want.end_layer == s->n_layers)
        add_tail(g, x);
}
