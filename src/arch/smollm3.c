/* smollm3: like llama; of every four layers the last has no RoPE. */
#include "arch/parts/parts.h"

enum { ROPE_PERIOD = 4 }; /* no key says so */

static const struct shape_place layer[] = {PARTS_DENSE_LAYER};

static const struct shape_place global[] = {PARTS_ENDS};

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        p.no_rope = (i + 1) % ROPE_PERIOD == 0;
        parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        parts_feed_forward(&p, i);
    }
    parts_end(&p);
}

const struct arch arch_smollm3 = {.name = "smollm3",
                                  .models = "SmolLM3",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = shape_read_dense,
                                  .build = build};
