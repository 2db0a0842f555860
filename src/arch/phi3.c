/* phi3: q, k and v are one tensor, gate and up are one; longrope; where the file has a window, all layers do.
 */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_ATTENTION,
    PARTS_DENSE_FUSED,
};

static const struct shape_place global[] = {
    PARTS_ENDS,
    PARTS_LONGROPE,
};

/* A window of 0 tells Phi-4 from Phi-3: it has none. */
static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = parts_read_neox(g, s, e);
    return st == STATOR_OK ? shape_read_window(g, s, true, 0, e) : st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    if (s->window > 0)
        p.kv = parts_window(&p, s->window);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        parts_feed_forward(&p, i);
    }
    parts_end(&p);
}

const struct arch arch_phi3 = {.name = "phi3",
                               .models = "Phi-3, Phi-3.5, Phi-4, Phi-4-mini",
                               .tensors = {SHAPE_TABLE(layer, global)},
                               .read = read,
                               .build = build};
