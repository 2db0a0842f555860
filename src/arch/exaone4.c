/* exaone4: norms of heads, none before attention and feed-forward, but one behind each. Where the model has
 * windows, of every four layers the last one sees all tokens, and its heads are not rotated. */
#include "arch/parts/parts.h"

/* The model with windows, whose first files do not say so. */
enum { LAYERS_OF_WINDOWS = 64, WINDOW = 4096, PATTERN = 4 };

static const struct shape_place layer[] = {
    {SHAPE_LAYER(q), .name = "attn_q.weight", .cols = SHAPE_EMBD, .rows = SHAPE_HEADS_K},
    {SHAPE_LAYER(k), .name = "attn_k.weight", .cols = SHAPE_EMBD, .rows = SHAPE_KV_K},
    {SHAPE_LAYER(v), .name = "attn_v.weight", .cols = SHAPE_EMBD, .rows = SHAPE_KV_V},
    PARTS_HEAD_NORMS,
    {SHAPE_LAYER(attn_output), .name = "attn_output.weight", .cols = SHAPE_HEADS_V, .rows = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_ALL_LAYERS),
    PARTS_NORMS_BEHIND,
};

static const struct shape_place global[] = {PARTS_ENDS, PARTS_ROPE_FREQS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = parts_read_neox(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_nextn(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_window(g, s, true, PATTERN, e);
    if (st == STATOR_OK && s->n_layers == LAYERS_OF_WINDOWS &&
        !gguf_find(g, "exaone4.attention.sliding_window", NULL)) {
        s->window = WINDOW;
        for (uint32_t i = 0; i < s->n_layers; i++)
            s->windowed[i] = (i + 1) % PATTERN != 0;
    }
    if (st == STATOR_OK && s->window > 0) { /* layers that rotate have windows */
        st = shape_read_local_base(g, s, s->rope_base, e);
        s->rope_base = s->rope_local_base;
    }
    return st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    const uint32_t all = p.kv, window = s->window > 0 ? parts_window(&p, s->window) : all;
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const bool far = !shape_has_window(s, i);
        p.kv = far ? all : window;
        p.no_rope = far && s->window > 0;
        parts_layer_normed_behind(&p, i, GRAPH_SWIGLU);
    }
    parts_end(&p);
}

const struct arch arch_exaone4 = {.name = "exaone4",
                                  .models = "EXAONE 4.0 (1.2B, 32B)",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = read,
                                  .build = build,
                                  .layer = {.ops = 10, .values = 10, .weights = 16}};
