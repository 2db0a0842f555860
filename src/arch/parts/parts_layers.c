/* What a layer does to the residual stream: attention, the dense feed-forward. */
#include "arch/parts/parts.h"

#include <stdio.h>

static void set_cache(struct parts *p, struct graph_op *op, uint32_t from) {
    if (from == op->layer)
        graph_op_cache(p->g, op, p->kv);
    else
        graph_op_cache_of(p->g, op, p->kv, from);
}

/* q, k and v; q alone where the layer reads an earlier one's K and V. */
static void add_qkv(struct parts *p, uint32_t i, uint32_t normed, uint32_t qkv) {
    const struct shape *s = p->s;
    const struct shape_layer *l = &s->layers[i];
    const uint32_t from = shape_kv_layer(s, i);
    struct shape_heads h = shape_heads_of(s, i);
    if (from != i)
        h.n_kv = 0;
    uint32_t q_width = s->n_heads * h.dim_k;
    uint32_t k_width = h.n_kv * h.dim_k;
    uint32_t v_width = h.n_kv * h.dim_v, all = q_width + k_width + v_width;
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, normed, qkv);
    if (l->qkv != NULL) {
        const struct gguf_tensor *biases[] = {l->q_bias, l->k_bias, l->v_bias};
        const struct graph_runs runs[] = {
            {0, q_width, all, 0, 0}, {q_width, k_width, all, 0, 0}, {q_width + k_width, v_width, all, 0, 0}};
        for (uint32_t k = 0; k < 3; k++) {
            graph_op_runs(p->g, op, l->qkv, runs[k], runs[k].first);
            if (l->qkv_bias != NULL)
                op->bias[k] = graph_add_plain_run(p->g, l->qkv_bias, runs[k].first, runs[k].run);
            else if (biases[k] != NULL)
                op->bias[k] = graph_add_plain(p->g, biases[k]);
        }
    } else {
        const struct graph_runs q = {.run = h.dim_k, .stride = 2 * h.dim_k};
        if (s->gated)
            graph_op_runs(p->g, op, l->q, q, 0);
        else
            graph_op_weight(p->g, op, l->q, l->q_bias, 0);
        if (from == i) {
            graph_op_weight(p->g, op, l->k, l->k_bias, q_width);
            graph_op_weight(p->g, op, l->v != NULL ? l->v : l->k, l->v_bias, q_width + k_width);
        }
    }

    op = graph_add_op(p->g, GRAPH_ROPE_STORE, i, qkv, qkv);
    op->rope = (struct graph_rope){.heads = s->n_heads,
                                   .kv_heads = h.n_kv,
                                   .dim_k = h.dim_k,
                                   .dim_v = h.dim_v,
                                   .n_rot = s->no_rope || p->no_rope ? 0 : h.n_rot,
                                   .neox = s->rope_neox,
                                   .angles = p->angles,
                                   .angles_q = p->angles_q,
                                   .norm = parts_norm_of(s, p->wide_norms ? q_width : h.dim_k),
                                   .wide = p->wide_norms,
                                   .norm_k = parts_norm_of(s, p->wide_norms ? k_width : h.dim_k),
                                   .norm_v = p->norm_v,
                                   .late = p->late_norms};
    set_cache(p, op, from);
    if (l->q_norm != NULL) {
        graph_op_weight(p->g, op, l->q_norm, NULL, 0);
        if (from == i)
            graph_op_weight(p->g, op, l->k_norm, NULL, q_width);
    }
}

uint32_t parts_gate(struct parts *p, uint32_t i, uint32_t in, uint32_t gates, const struct graph_gate *gate,
                    const struct gguf_tensor *norm, const struct gguf_tensor *next) {
    uint32_t out = parts_value(p, i, "gated", gate->heads * gate->dim, GRAPH_F32 | graph_form_for(next));
    struct graph_op *op = graph_add_op(p->g, GRAPH_GATE, i, in, out);
    op->work = gates;
    op->gate = *gate;
    if (norm != NULL)
        graph_op_weight(p->g, op, norm, NULL, 0);
    return out;
}

/* The output of heads times what the gates beside q say. */
static uint32_t add_attention_gate(struct parts *p, uint32_t i, uint32_t normed, uint32_t heads) {
    const struct shape *s = p->s;
    const struct graph_gate gate = {.heads = s->n_heads, .dim = s->head_dim_v};
    uint32_t gates = parts_value(p, i, "attn_gate", s->n_heads * s->head_dim_v, GRAPH_F32);
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, normed, gates);
    graph_op_runs(
        p->g, op, s->layers[i].q,
        (struct graph_runs){.first = s->head_dim_k, .run = s->head_dim_k, .stride = 2 * s->head_dim_k}, 0);
    return parts_gate(p, i, heads, gates, &gate, NULL, s->layers[i].attn_output);
}

uint32_t parts_heads(struct parts *p, uint32_t i, uint32_t normed) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const struct shape_layer *l = &s->layers[i];
    const struct shape_heads h = shape_heads_of(s, i);
    const uint32_t from = shape_kv_layer(s, i);
    uint32_t width = s->n_heads * h.dim_k + (from == i ? h.n_kv * (h.dim_k + h.dim_v) : 0);
    uint32_t qkv = parts_value(p, i, "qkv", width, GRAPH_F32);
    const bool indexed = shape_has_index(s, i);
    const uint32_t chosen = indexed ? parts_index(p, i, normed) : GRAPH_NONE;
    add_qkv(p, i, normed, qkv);

    /* The kernel writes floats first, whatever the consumer wants. */
    uint32_t heads = parts_value(p, i, "attn", s->n_heads * h.dim_v,
                                 GRAPH_F32 | (s->gated ? 0 : graph_form_for(l->attn_output)));
    struct graph_op *op = graph_add_op(g, GRAPH_ATTENTION, i, qkv, heads);
    op->attention = (struct graph_attention){.heads = s->n_heads,
                                             .kv_heads = h.n_kv,
                                             .dim_k = h.dim_k,
                                             .dim_v = h.dim_v,
                                             .scale = s->attention_scale,
                                             .cap = s->attention_cap,
                                             .skip = p->nextn,
                                             .both = s->sees_ahead,
                                             .pictures = p->pictures && g->want.whole_pictures,
                                             .ratio = indexed ? s->index.ratio : 0,
                                             .keep = indexed ? s->index.top_k / s->index.ratio : 0,
                                             .chosen = chosen,
                                             .arrivals = p->arrivals};
    set_cache(p, op, from);
    if (l->sinks != NULL)
        graph_op_weight(g, op, l->sinks, NULL, 0);
    if (g->want.cells != 0 && !s->sees_ahead) /* else splits are never side by side */
        op->work = parts_cells(p, i, s->n_heads * (h.dim_v + 2));
    return s->gated ? add_attention_gate(p, i, normed, heads) : heads;
}

void parts_attention(struct parts *p, uint32_t i, uint32_t normed) {
    const struct shape_layer *l = &p->s->layers[i];
    parts_add_product(p, i, parts_heads(p, i, normed), p->x, l->attn_output, l->attn_output_bias);
}

uint32_t parts_gated(struct parts *p, uint32_t i, uint32_t normed, enum graph_epilogue gate) {
    struct graph *g = p->g;
    uint32_t ff = shape_ff_of(p->s, i);
    const struct shape_layer *l = &p->s->layers[i];
    uint32_t h = parts_value(p, i, "ffn_h", ff, GRAPH_F32 | graph_form_for(l->down));
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, i, normed, h);
    op->epilogue = gate;
    if (gate == GRAPH_RELU2) {
        graph_op_weight(g, op, l->up, l->up_bias, 0);
    } else if (l->gate != NULL) {
        graph_op_weight(g, op, l->gate, l->gate_bias, 0);
        graph_op_weight(g, op, l->up, l->up_bias, 0);
    } else {
        graph_op_runs(g, op, l->up, (struct graph_runs){.run = ff, .stride = 2 * ff}, 0);
        graph_op_runs(g, op, l->up, (struct graph_runs){.first = ff, .run = ff, .stride = 2 * ff}, 0);
    }
    return h;
}

uint32_t parts_gated_forms(const struct shape_layer *l) {
    return l->gate != NULL ? parts_forms(l->gate, l->up, NULL) : graph_form_for(l->up);
}

/* What a layer's part works on: the residual stream, normed if the layer has a norm for it. */
static uint32_t input_of(struct parts *p, uint32_t i, const char *name, const struct gguf_tensor *norm,
                         uint32_t forms) {
    return norm != NULL ? parts_norm(p, i, name, norm, forms) : parts_stream(p, i, name, forms);
}

void parts_layer_normed_behind(struct parts *p, uint32_t i, enum graph_epilogue gate) {
    const struct shape_layer *l = &p->s->layers[i];
    uint32_t in = input_of(p, i, "attn_in", l->attn_norm, parts_qkv_forms(l));
    uint32_t out = parts_product(p, i, "attn_out", parts_heads(p, i, in), l->attn_output);
    parts_add_norm(p, i, out, l->own[PARTS_BEHIND_ATTENTION], NULL);
    in = input_of(p, i, "ffn_in", l->ffn_norm, parts_gated_forms(l));
    out = parts_product(p, i, "ffn_out", parts_gated(p, i, in, gate), l->down);
    if (l->own[PARTS_BEHIND_EXPERTS] != NULL)
        out = parts_experts_beside(p, i, out, gate);
    const bool embeds = p->layer_in != GRAPH_NONE;
    parts_add_norm(p, i, out, l->own[PARTS_BEHIND_FFN], embeds ? NULL : l->own[PARTS_LAYER_SCALE]);
    if (embeds)
        parts_layer_embd(p, i, l->own[PARTS_LAYER_SCALE]);
}

void parts_swiglu(struct parts *p, uint32_t i, uint32_t normed) {
    const struct shape_layer *l = &p->s->layers[i];
    parts_add_product(p, i, parts_gated(p, i, normed, GRAPH_SWIGLU), p->x, l->down, l->down_bias);
}

void parts_ungated(struct parts *p, uint32_t i, const char *name, const struct gguf_tensor *norm) {
    const struct shape_layer *l = &p->s->layers[i];
    if (shape_has_experts(p->s, i)) {
        parts_experts(p, i, parts_norm(p, i, name, norm, parts_experts_forms(p->s, i)), GRAPH_RELU2);
        return;
    }
    const uint32_t normed = parts_norm(p, i, name, norm, parts_gated_forms(l));
    parts_add_product(p, i, parts_gated(p, i, normed, GRAPH_RELU2), p->x, l->down, l->down_bias);
}

void parts_feed_forward(struct parts *p, uint32_t i) {
    const struct shape_layer *l = &p->s->layers[i];
    if (shape_has_experts(p->s, i))
        parts_experts(p, i, parts_norm(p, i, "ffn_norm", l->ffn_norm, parts_experts_forms(p->s, i)),
                      GRAPH_SWIGLU);
    else
        parts_swiglu(p, i, parts_norm(p, i, "ffn_norm", l->ffn_norm, parts_gated_forms(l)));
}
