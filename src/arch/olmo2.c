/* olmo2: like llama without norms before attention and feed-forward, but with one of all heads of q together,
 * one of all of k, and norms of what both add. OLMo 3 has windows in three of four layers, whose angles are
 * not scaled. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    {SHAPE_LAYER(q), .name = "attn_q.weight", .cols = SHAPE_EMBD, .rows = SHAPE_HEADS_K},
    {SHAPE_LAYER(k), .name = "attn_k.weight", .cols = SHAPE_EMBD, .rows = SHAPE_KV_K},
    {SHAPE_LAYER(v), .name = "attn_v.weight", .cols = SHAPE_EMBD, .rows = SHAPE_KV_V},
    PARTS_WIDE_NORMS,
    {SHAPE_LAYER(attn_output), .name = "attn_output.weight", .cols = SHAPE_HEADS_V, .rows = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_ALL_LAYERS),
    PARTS_NORMS_BEHIND,
};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->rope_attn_factor_whole = true;
    stator_status st = parts_read_neox(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_window(g, s, true, 4, e);
    return st == STATOR_OK ? shape_read_local_base(g, s, s->rope_base, e) : st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    p.wide_norms = true;
    const uint32_t all = p.kv, angles = p.angles;
    const uint32_t window = s->window > 0 ? parts_window(&p, s->window) : all;
    const struct graph_angles plain = {
        .n_rot = s->n_rot, .base = s->rope_local_base, .scale = 1, .magnitude = 1};
    const uint32_t local = s->window > 0 ? graph_add_angles(g, &plain) : angles;
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        p.kv = shape_has_window(s, i) ? window : all;
        p.angles = shape_has_window(s, i) ? local : angles;
        parts_layer_normed_behind(&p, i, GRAPH_SWIGLU);
    }
    parts_end(&p);
}

const struct arch arch_olmo2 = {.name = "olmo2",
                                .models = "OLMo 2, OLMo 3",
                                .tensors = {SHAPE_TABLE(layer, global)},
                                .read = read,
                                .build = build,
                                .layer = {.ops = 10, .values = 10, .weights = 16}};
