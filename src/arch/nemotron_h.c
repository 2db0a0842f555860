/* nemotron_h and nemotron_h_moe: each layer is one part behind one norm: a mixer of Mamba-2, attention
 * without RoPE, or a feed-forward without gates, whose middle is squared above 0. attention.head_count_kv and
 * feed_forward_length say which. Experts are weighed by sigmoids and chosen with a bias, and a shared one has
 * no gate either; the larger models multiply by ffn_latent_down before the chosen ones, and by ffn_latent_up
 * behind them. The MTP head is attention and experts in one layer, each behind a norm: llama.cpp's converter
 * folds mtp.layers.0 and mtp.layers.1 into it. */
#include "arch/parts/parts.h"

enum { MAX_LATENT = 1 << 20 };

#define FULL_BIAS(field, text, c) PARTS_BIAS(field, text, c, .layers = SHAPE_FULL_LAYERS)

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_SSD,
    PARTS_FULL_ROW(q, "attn_q.weight", SHAPE_EMBD, SHAPE_HEADS_K),
    PARTS_FULL_ROW(k, "attn_k.weight", SHAPE_EMBD, SHAPE_KV_K),
    PARTS_FULL_ROW(v, "attn_v.weight", SHAPE_EMBD, SHAPE_KV_V),
    PARTS_FULL_ROW(attn_output, "attn_output.weight", SHAPE_HEADS_V, SHAPE_EMBD),
    FULL_BIAS(q_bias, "attn_q.bias", SHAPE_HEADS_K),
    FULL_BIAS(k_bias, "attn_k.bias", SHAPE_KV_K),
    FULL_BIAS(v_bias, "attn_v.bias", SHAPE_KV_V),
    FULL_BIAS(attn_output_bias, "attn_output.bias", SHAPE_EMBD),
    {SHAPE_LAYER(up), .name = "ffn_up.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF,
     .layers = SHAPE_DENSE_LAYERS},
    {SHAPE_LAYER(down), .name = "ffn_down.weight", .cols = SHAPE_FF, .rows = SHAPE_EMBD,
     .layers = SHAPE_DENSE_LAYERS},
    PARTS_DENSE_BIAS(up_bias, "ffn_up.bias", SHAPE_FF, SHAPE_DENSE_LAYERS),
    PARTS_DENSE_BIAS(down_bias, "ffn_down.bias", SHAPE_EMBD, SHAPE_DENSE_LAYERS),
    PARTS_UNGATED_EXPERTS,
    PARTS_CHOICE_BIAS,
};

/* llama.cpp norms what the head gives with LayerNorm; vLLM and MLX, whose RMS norm this is, do not. */
static const struct shape_place nextn[] = {
    PARTS_NEXTN,
    {SHAPE_LAYER(ffn_norm), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status check_parts(const struct gguf *g, const struct shape *s, stator_error *e) {
    bool attention = false;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        attention = attention || !s->no_attention[i];
        if (!s->no_attention[i] && s->ffs[i] > 0)
            return gguf_error(
                g, e,
                "layer %u has attention by key '%s.attention.head_count_kv' and a feed-forward by "
                "key '%s.feed_forward_length', expected one of them to be 0",
                i, s->arch_name, s->arch_name);
    }
    return attention
               ? STATOR_OK
               : gguf_error(g, e,
                            "key '%s.attention.head_count_kv' is 0 in every layer, expected at least one "
                            "layer with attention",
                            s->arch_name);
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->attention_optional = s->delta.ssd = s->ff_by_layer = s->one_part = s->no_rope = true;
    s->experts.sigmoid = true;
    stator_status st = shape_read_experts(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_nextn(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_delta(g, s, e);
    if (st == STATOR_OK && s->experts.count > 0)
        st = shape_read_u32_or(g, s, "moe_latent_size", 0, MAX_LATENT, 0, &s->experts.latent, e);
    return st == STATOR_OK ? check_parts(g, s, e) : st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_delta_begin(&p);
    parts_nextn_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        if (shape_is_delta(s, i))
            parts_ssd(&p, i, parts_norm(&p, i, "norm", l->attn_norm, graph_form_for(l->own[PARTS_QKVZ])));
        else if (shape_has_attention(s, i))
            parts_attention(&p, i, parts_norm(&p, i, "norm", l->attn_norm, parts_qkv_forms(l)));
        else
            parts_ungated(&p, i, "norm", l->attn_norm);
    }
    parts_end(&p);
}

const struct arch arch_nemotron_h = {.name = "nemotron_h",
                                     .models = "Nemotron-H, Nemotron Nano 2 (9B, 12B)",
                                     .tensors = {SHAPE_TABLE(layer, global)},
                                     .read = read,
                                     .build = build,
                                     .layer = PARTS_HYBRID_BOUNDS};

const struct arch arch_nemotron_h_moe = {
    .name = "nemotron_h_moe",
    .models = "Nemotron 3 Nano 30B-A3B, Super, Nemotron 3.5 Lightning",
    .tensors = {SHAPE_TABLE(layer, global), .nextn = nextn, .n_nextn = sizeof nextn / sizeof nextn[0]},
    .read = read,
    .build = build,
    .layer = PARTS_HYBRID_BOUNDS};
