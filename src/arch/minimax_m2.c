/* minimax-m2: experts weighed by sigmoids and chosen with a bias in all layers; norms of all heads of q
 * together, and of all of k; partial RoPE. feed_forward_length says how wide experts are, too. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_ATTENTION, PARTS_WIDE_NORMS, PARTS_DENSE(SHAPE_DENSE_LAYERS), PARTS_EXPERTS, PARTS_CHOICE_BIAS,
};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.sigmoid = true;
    s->experts.norm = true;
    s->rope_neox = true;
    return shape_read_experts(g, s, e);
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    p.wide_norms = true;
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        parts_feed_forward(&p, i);
    }
    parts_end(&p);
}

const struct arch arch_minimax_m2 = {.name = "minimax-m2",
                                     .models = "MiniMax-M2, MiniMax-M2.1",
                                     .tensors = {SHAPE_TABLE(layer, global)},
                                     .read = read,
                                     .build = build};
