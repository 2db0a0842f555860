/* hunyuan-dense: heads of q and k are normed after RoPE, whose pairs are as neox has them. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {PARTS_DENSE_LAYER, PARTS_HEAD_NORMS};

static const struct shape_place global[] = {PARTS_ENDS};

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    p.late_norms = true;
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        parts_feed_forward(&p, i);
    }
    parts_end(&p);
}

const struct arch arch_hunyuan_dense = {.name = "hunyuan-dense",
                                        .models = "Hunyuan dense (0.5B to 7B)",
                                        .tensors = {SHAPE_TABLE(layer, global)},
                                        .read = parts_read_neox,
                                        .build = build};
