/* gpt-oss: experts with biases and a clamped SwiGLU, weighed by a softmax over those chosen; every other
 * layer, the first one too, sees a window; heads have sinks; YaRN. Its post_attention_norm is what others
 * call ffn_norm. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_PROJECTIONS,
    {SHAPE_LAYER(attn_output_bias), .name = "attn_output.bias", .cols = SHAPE_EMBD},
    {SHAPE_LAYER(sinks), .name = "attn_sinks.weight", .cols = SHAPE_HEADS},
    {SHAPE_LAYER(ffn_norm), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
    PARTS_EXPERTS,
    PARTS_EXPERTS_BIASES,
};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = true;
    s->experts.clamped = true;
    s->experts.alpha = 1.702f;
    s->experts.limit = 7;
    s->rope_neox = true;
    s->rope_exact_bounds = true;
    stator_status st = shape_read_experts(g, s, e);
    if (st == STATOR_OK && s->experts.count == 0)
        st = gguf_error(g, e, "key 'gpt-oss.expert_count' is 0 or missing: the architecture has experts");
    return st == STATOR_OK ? shape_read_window(g, s, false, 2, e) : st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    const uint32_t all = p.kv, window = s->window > 0 ? parts_window(&p, s->window) : all;
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        p.kv = shape_has_window(s, i) ? window : all;
        parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        parts_experts(&p, i, parts_norm(&p, i, "ffn_norm", l->ffn_norm, parts_experts_forms(s, i)),
                      GRAPH_SWIGLU);
    }
    parts_end(&p);
}

const struct arch arch_gpt_oss = {.name = "gpt-oss",
                                  .models = "gpt-oss 20B and 120B",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = read,
                                  .build = build};
