/* gemma4: like gemma3, with heads of their own in layers with the window, scores that are not scaled, heads
 * of V normed without weights, V from K's product in layers with neither window nor attn_v, and a number that
 * each layer's output is multiplied by. rope_freqs has the divisors of the layers without a window. E-models
 * have an embedding of each layer, last layers that read the K and V of earlier ones, and a wider
 * feed-forward in those. Experts lie beside the dense feed-forward, and their router reads the residual
 * stream. In layers with the window tokens of a picture see each other, on both sides (transformers; not in
 * E-models). */
#include "arch/parts/parts.h"

#include <math.h>

enum { PATTERN = 6 };

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    {SHAPE_LAYER(q), .name = "attn_q.weight", .cols = SHAPE_EMBD, .rows = SHAPE_HEADS_K},
    {SHAPE_LAYER(k), .name = "attn_k.weight", .cols = SHAPE_EMBD, .rows = SHAPE_KV_K, .optional = true},
    {SHAPE_LAYER(v), .name = "attn_v.weight", .cols = SHAPE_EMBD, .rows = SHAPE_KV_V, .optional = true},
    {SHAPE_LAYER(attn_output), .name = "attn_output.weight", .cols = SHAPE_HEADS_V, .rows = SHAPE_EMBD},
    {SHAPE_LAYER(ffn_norm), .name = "ffn_norm.weight", .cols = SHAPE_EMBD},
    {SHAPE_LAYER(own[PARTS_LAYER_SCALE]), .name = "layer_output_scale.weight", .cols = SHAPE_NONE,
     .optional = true},
    {SHAPE_LAYER(q_norm), .name = "attn_q_norm.weight", .cols = SHAPE_HEAD_K},
    {SHAPE_LAYER(k_norm), .name = "attn_k_norm.weight", .cols = SHAPE_HEAD_K, .optional = true},
    PARTS_LAYER_EMBD,
    PARTS_EXPERTS_BESIDE,
    PARTS_NORMS_BEHIND,
    PARTS_DENSE(SHAPE_ALL_LAYERS)};

static const struct shape_place global[] = {
    PARTS_ENDS,
    PARTS_LAYER_EMBD_GLOBALS,
    {SHAPE_GLOBAL(rope_freqs), .name = "rope_freqs.weight", .cols = SHAPE_HALF_ROT},
};

/* V is normed by the numbers of K's norm. */
static stator_status check_heads(const struct gguf *g, struct shape_heads h, const char *suffix,
                                 stator_error *e) {
    if (h.dim_k == h.dim_v)
        return STATOR_OK;
    return gguf_error(g, e,
                      "key 'gemma4.attention.value_length%s' is %u, expected %u as attention.key_length%s",
                      suffix, h.dim_v, h.dim_k, suffix);
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    uint32_t window = 0;
    float scale = 0;
    s->heads_by_kind = true;
    s->ff_by_layer = s->rope_neox = s->experts.norm = true;
    s->window_pattern = PATTERN;
    stator_status st = shape_read_u32(g, s, "attention.sliding_window", 1, INT32_MAX, &window, e);
    if (st == STATOR_OK)
        st = shape_read_experts(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_shared_kv(g, s, e);
    if (st == STATOR_OK)
        st = parts_read_layer_embd(g, s, e);
    if (st == STATOR_OK)
        st = check_heads(g, shape_heads_of(s, UINT32_MAX), "", e);
    if (st == STATOR_OK)
        st = check_heads(g, s->window_heads, "_swa", e);
    if (st == STATOR_OK)
        st = shape_read_local_base(g, s, 10000, e);
    if (st == STATOR_OK)
        st = shape_read_caps(g, s, 0, 0, e);
    if (st == STATOR_OK)
        st = gguf_read_f32_or(g, "gemma4.attention.scale", 0, &scale, e);
    if (scale == 0)
        s->attention_scale = 1;
    s->embed_scale = (float)sqrt((double)s->n_embd);
    return st;
}

/* Layers that read an earlier layer's cache need no K and V. Of the others only those without the window may
 * take K's product for V. */
static stator_status check(const struct gguf *g, const struct shape *s, stator_error *e) {
    for (uint32_t i = 0; i < s->n_layers - s->shared_kv; i++) {
        const struct shape_layer *l = &s->layers[i];
        if (l->k == NULL || l->k_norm == NULL)
            return gguf_error(g, e, "tensor 'blk.%u.attn_k%s.weight' is missing", i,
                              l->k == NULL ? "" : "_norm");
        if (l->v == NULL && shape_has_window(s, i))
            return gguf_error(g, e,
                              "tensor 'blk.%u.attn_v.weight' is missing: this layer has a window, and only "
                              "layers without one may take the product of attn_k for V",
                              i);
    }
    return parts_check_layer_embd(g, s, e);
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    const uint32_t all = p.kv, window = parts_window(&p, s->window), angles = p.angles;
    const struct graph_angles base = {
        .n_rot = s->window_heads.n_rot, .base = s->rope_local_base, .scale = 1, .magnitude = 1};
    const uint32_t local = graph_add_angles(g, &base);
    p.norm_v = true;
    parts_layer_embd_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const bool far = !shape_has_window(s, i);
        p.kv = far ? all : window;
        p.angles = far ? angles : local;
        p.pictures = !far && s->layer_embd == 0;
        parts_layer_normed_behind(&p, i, GRAPH_GEGLU);
    }
    parts_end(&p);
}

const struct arch arch_gemma4 = {.name = "gemma4",
                                 .models = "gemma 4 (E2B, E4B, 12B, 26B-A4B, 31B; pictures: 26B-A4B and 31B)",
                                 .tensors = {SHAPE_TABLE(layer, global)},
                                 .read = read,
                                 .check = check,
                                 .build = build,
                                 .layer = {.ops = 20, .values = 20, .weights = 24}};
