/* cohere2: attention and feed-forward both work on one norm of the residual stream, a LayerNorm without a
 * bias. Three of every four layers have a window and RoPE; the fourth sees all tokens and has no RoPE.
 * Logits are multiplied by a constant. */
#include "arch/parts/parts.h"

enum { PATTERN = 4 };

/* The squares of scales in this range are normal floats. */
#define LEAST 1e-6f
#define MOST  1e6f

static const struct shape_place layer[] = {PARTS_PROJECTIONS, PARTS_DENSE(SHAPE_ALL_LAYERS)};

static const struct shape_place global[] = {PARTS_ENDS, PARTS_ROPE_FREQS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    const char *key = "cohere2.logit_scale";
    uint32_t window = 0;
    float scale = 0;
    s->layer_norm = true;
    stator_status st = shape_read_dense(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "attention.sliding_window", 1, INT32_MAX, &window, e);
    if (st == STATOR_OK)
        st = shape_read_window(g, s, false, PATTERN, e);
    if (st == STATOR_OK)
        st = gguf_read_f32(g, key, &scale, e);
    if (st == STATOR_OK && scale != 0 && !(scale >= LEAST && scale <= MOST))
        st = gguf_error(g, e, "key '%s' is %g, expected 0 (none), or %g to %g", key, (double)scale,
                        (double)LEAST, (double)MOST);
    s->logit_scale = scale != 0 ? 1 / scale : 0;
    return st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    const uint32_t all = p.kv, window = parts_window(&p, s->window);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_center(&p, i);
        const uint32_t normed =
            parts_norm(&p, i, "norm", l->attn_norm, parts_qkv_forms(l) | parts_gated_forms(l));
        p.no_rope = !shape_has_window(s, i);
        p.kv = p.no_rope ? all : window;
        parts_attention(&p, i, normed);
        parts_swiglu(&p, i, normed);
    }
    parts_end(&p);
}

const struct arch arch_cohere2 = {.name = "cohere2",
                                  .models = "Command R7B, Command A, Aya (of cohere2)",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = read,
                                  .build = build};
