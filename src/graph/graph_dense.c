/* The builder of dense decoders with RMS norm, RoPE, grouped-query attention and SwiGLU: llama, qwen2 (biases
 * on q, k, v), qwen3 (norms on the heads of q and k). Eight ops per layer. */
#include "graph/graph.h"

#include "kernels/shared/kv_layout.h"

#include <stdio.h>

/* What is being built, and what its layers share. */
struct building {
    struct graph *g;
    const struct shape *s;
    uint32_t x;        /* value: the residual stream */
    uint32_t arrivals; /* value of all attention, or GRAPH_NONE */
    uint32_t angles;
    uint32_t kv; /* cache of all attention */
};

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

static struct graph_norm norm_of(const struct shape *s, uint32_t width) {
    return (struct graph_norm){.eps = s->norm_eps, .inv_width = 1.0f / (float)width};
}

static void add_norm(const struct building *b, enum graph_kind kind, uint32_t layer, uint32_t out,
                     const struct gguf_tensor *weight) {
    struct graph_op *op = graph_add_op(b->g, kind, layer, b->x, out);
    op->norm = norm_of(b->s, b->s->n_embd);
    graph_op_weight(b->g, op, weight, NULL, 0);
}

static void add_qkv(const struct building *b, uint32_t i, uint32_t normed, uint32_t qkv) {
    const struct shape *s = b->s;
    const struct shape_layer *l = &s->layers[i];
    uint32_t q_width = s->n_heads * s->head_dim_k;
    uint32_t k_width = s->n_kv_heads * s->head_dim_k;
    struct graph_op *op = graph_add_op(b->g, GRAPH_MATMUL, i, normed, qkv);
    graph_op_weight(b->g, op, l->q, l->q_bias, 0);
    graph_op_weight(b->g, op, l->k, l->k_bias, q_width);
    graph_op_weight(b->g, op, l->v, l->v_bias, q_width + k_width);

    op = graph_add_op(b->g, GRAPH_ROPE_STORE, i, qkv, qkv);
    op->rope = (struct graph_rope){.heads = s->n_heads,
                                   .kv_heads = s->n_kv_heads,
                                   .dim_k = s->head_dim_k,
                                   .dim_v = s->head_dim_v,
                                   .n_rot = s->n_rot,
                                   .neox = s->rope_neox,
                                   .angles = b->angles,
                                   .norm = norm_of(s, s->head_dim_k)};
    graph_op_cache(b->g, op, b->kv);
    if (l->q_norm != NULL) {
        graph_op_weight(b->g, op, l->q_norm, NULL, 0);
        graph_op_weight(b->g, op, l->k_norm, NULL, q_width);
    }
}

static void add_attention(const struct building *b, uint32_t i) {
    struct graph *g = b->g;
    const struct shape *s = b->s;
    const struct shape_layer *l = &s->layers[i];
    uint32_t normed = layer_value(g, "attn_norm", i, s->n_embd, forms_of(l->q, l->k, l->v));
    add_norm(b, GRAPH_NORM, i, normed, l->attn_norm);
    uint32_t qkv_width =
        s->n_heads * s->head_dim_k + s->n_kv_heads * s->head_dim_k + s->n_kv_heads * s->head_dim_v;
    uint32_t qkv = layer_value(g, "qkv", i, qkv_width, GRAPH_F32);
    add_qkv(b, i, normed, qkv);

    /* The kernel writes floats first, whatever the consumer wants. */
    uint32_t heads =
        layer_value(g, "attn", i, s->n_heads * s->head_dim_v, GRAPH_F32 | graph_form_for(l->attn_output));
    struct graph_op *op = graph_add_op(g, GRAPH_ATTENTION, i, qkv, heads);
    op->attention = (struct graph_attention){.heads = s->n_heads,
                                             .kv_heads = s->n_kv_heads,
                                             .dim_k = s->head_dim_k,
                                             .dim_v = s->head_dim_v,
                                             .scale = s->attention_scale,
                                             .arrivals = b->arrivals};
    graph_op_cache(g, op, b->kv);
    if (g->want.cells != 0) {
        char text[32];
        snprintf(text, sizeof text, "blk.%u.attn_cells", i);
        op->work = graph_add_value(g, text, GRAPH_SCRATCH, g->want.cells, s->n_heads * (s->head_dim_v + 2),
                                   GRAPH_F32);
    }

    op = graph_add_op(g, GRAPH_MATMUL, i, heads, b->x);
    op->epilogue = GRAPH_RESIDUAL;
    graph_op_weight(g, op, l->attn_output, l->attn_output_bias, 0);
}

static void add_ffn(const struct building *b, uint32_t i) {
    struct graph *g = b->g;
    const struct shape_layer *l = &b->s->layers[i];
    uint32_t normed = layer_value(g, "ffn_norm", i, b->s->n_embd, forms_of(l->gate, l->up, NULL));
    add_norm(b, GRAPH_NORM, i, normed, l->ffn_norm);

    uint32_t h = layer_value(g, "ffn_h", i, b->s->n_ff, GRAPH_F32 | graph_form_for(l->down));
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, i, normed, h);
    op->epilogue = GRAPH_SWIGLU;
    graph_op_weight(g, op, l->gate, NULL, 0);
    graph_op_weight(g, op, l->up, NULL, 0);

    op = graph_add_op(g, GRAPH_MATMUL, i, h, b->x);
    op->epilogue = GRAPH_RESIDUAL;
    graph_op_weight(g, op, l->down, NULL, 0);
}

static void add_tail(const struct building *b) {
    struct graph *g = b->g;
    const struct shape *s = b->s;
    /* The output matrix sees its activations at twice the bits: this one rounding would weigh as much as any
     * in the layers, and a second row of a memory-bound product is almost free. */
    uint32_t rows = g->want.logits_rows;
    uint32_t form = graph_form_for(s->output);
    uint32_t normed = graph_add_value(g, "output_norm", GRAPH_SCRATCH, form == GRAPH_F32 ? rows : 2 * rows,
                                      s->n_embd, form);
    add_norm(b, GRAPH_GATHER_NORM, GRAPH_NONE, normed, s->output_norm);
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
    uint32_t v = graph_add_value(g, name, GRAPH_EXCHANGE, g->want.batch, g->width, GRAPH_F32);
    graph_value_halves(g, v, 2);
    return v;
}

static uint32_t add_kv_cache(struct graph *g, const struct shape *s) {
    const struct graph_want *w = &g->want;
    struct graph_cache c = {.name = "kv",
                            .kind = GRAPH_PAGED,
                            .units = s->n_kv_heads,
                            .k_bytes = kv_layout_bytes(w->kv_type_k, s->head_dim_k),
                            .type_k = w->kv_type_k,
                            .type_v = w->kv_type_v};
    c.bytes = c.k_bytes + kv_layout_bytes(w->kv_type_v, s->head_dim_v);
    return graph_add_cache(g, &c);
}

void graph_dense_build(struct graph *g, const struct shape *s) {
    struct building b = {.g = g, .s = s, .arrivals = GRAPH_NONE};
    b.angles = graph_add_angles(
        g, &(struct graph_angles){
               .n_rot = s->n_rot, .base = s->rope_base, .scale = s->rope_scale, .divisors = s->rope_freqs});
    b.kv = add_kv_cache(g, s);
    b.x = graph_add_value(g, "residual", GRAPH_SCRATCH, g->want.batch, s->n_embd, GRAPH_F32);
    if (g->want.cells != 0)
        b.arrivals =
            graph_add_value(g, "attn_arrivals", GRAPH_EXCHANGE, g->want.batch, s->n_kv_heads, GRAPH_F32);
    graph_add_op(g, GRAPH_ZERO_KV, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);
    if (g->want.first_layer == 0) {
        struct graph_op *op = graph_add_op(g, GRAPH_EMBED, GRAPH_NONE, GRAPH_NONE, b.x);
        graph_op_weight(g, op, s->token_embd, NULL, 0);
    } else {
        g->landing = boundary_value(g, "landing");
        graph_add_op(g, GRAPH_LAND, GRAPH_NONE, g->landing, b.x);
    }
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        add_attention(&b, i);
        add_ffn(&b, i);
    }
    if (g->want.end_layer < s->n_layers) {
        g->outgoing = boundary_value(g, "outgoing");
        graph_add_op(g, GRAPH_SEND, GRAPH_NONE, b.x, g->outgoing);
    }

    g->tail = g->n_ops;
    if (g->want.end_layer == s->n_layers)
        add_tail(&b);
}
