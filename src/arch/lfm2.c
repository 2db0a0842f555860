/* lfm2 and lfm2moe: layers of a gated convolution over few tokens, and some of attention with norms of heads,
 * told apart by attention.head_count_kv; the norm before the output matrix is called token_embd_norm. Experts
 * are weighed by sigmoids and chosen with a bias, dense layers first. */
#include "arch/parts/parts.h"

enum { MAX_TAPS = 16 }; /* KERNELS_MAX_TAPS */

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_GATED_CONV,
    PARTS_FULL_ATTENTION,
    {SHAPE_LAYER(ffn_norm), .name = "ffn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    PARTS_CHOICE_BIAS,
};

static const struct shape_place global[] = {
    {SHAPE_GLOBAL(token_embd), .name = "token_embd.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB},
    {SHAPE_GLOBAL(output_norm), .name = "token_embd_norm.weight", .cols = SHAPE_EMBD},
    {SHAPE_GLOBAL(output), .name = "output.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB,
     .optional = true},
};

static stator_status read_layers(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = shape_read_u32(g, s, "shortconv.l_cache", 1, MAX_TAPS, &s->conv_taps, e);
    return st == STATOR_OK ? shape_read_window(g, s, true, 0, e) : st;
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->attention_optional = s->rope_neox = true;
    stator_status st = shape_read_dense(g, s, e);
    return st == STATOR_OK ? read_layers(g, s, e) : st;
}

static stator_status read_experts(const struct gguf *g, struct shape *s, stator_error *e) {
    s->attention_optional = s->rope_neox = true;
    s->experts.sigmoid = s->experts.norm = true;
    stator_status st = shape_read_experts(g, s, e);
    return st == STATOR_OK ? read_layers(g, s, e) : st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_conv_begin(&p);
    if (s->window > 0)
        p.kv = parts_window(&p, s->window);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        if (shape_has_attention(s, i))
            parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        else
            parts_conv(&p, i,
                       parts_norm(&p, i, "conv_norm", l->attn_norm, graph_form_for(l->own[PARTS_SHORT_IN])));
        parts_feed_forward(&p, i);
    }
    parts_end(&p);
}

const struct arch arch_lfm2 = {.name = "lfm2",
                               .models = "LFM2, LFM2.5 (350M to 2.6B)",
                               .tensors = {SHAPE_TABLE(layer, global)},
                               .read = read,
                               .build = build};

const struct arch arch_lfm2moe = {.name = "lfm2moe",
                                  .models = "LFM2-8B-A1B, LFM2.5-8B-A1B, LFM2-24B-A2B",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = read_experts,
                                  .build = build};
