/* gemma: like llama, with GELU and a scaled embedding; pairs of RoPE as neox has them. */
#include "arch/parts/parts.h"

#include <math.h>

static const struct shape_place layer[] = {PARTS_DENSE_LAYER};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = parts_read_neox(g, s, e);
    s->embed_scale = (float)sqrt((double)s->n_embd);
    return st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        const uint32_t normed = parts_norm(&p, i, "ffn_norm", l->ffn_norm, parts_gated_forms(l));
        parts_add_product(&p, i, parts_gated(&p, i, normed, GRAPH_GEGLU), p.x, l->down, NULL);
    }
    parts_end(&p);
}

const struct arch arch_gemma = {.name = "gemma",
                                .models = "Gemma (2B, 7B), CodeGemma",
                                .tensors = {SHAPE_TABLE(layer, global)},
                                .read = read,
                                .build = build};
