/* granite and granitemoe: like llama, with numbers that embedding, attention, what layers add, and logits are
 * multiplied or divided by; experts have an ungated shared one. */
#include "arch/parts/parts.h"

#include <stdio.h>

static const struct shape_place layer[] = {
    PARTS_ATTENTION,
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_DENSE_BIASES(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    PARTS_SHARED_EXPERT,
    PARTS_OUTPUT_BIAS,
};

static const struct shape_place global[] = {PARTS_ENDS, PARTS_ROPE_FREQS, PARTS_LONGROPE};

/* What squares of are far from the ends of float. */
#define LEAST 1e-6f
#define MOST  1e6f

/* 0, like a missing key, means 1. */
static stator_status read_scale(const struct gguf *g, const struct shape *s, const char *name, float *v,
                                stator_error *e) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", s->arch_name, name);
    stator_status st = gguf_read_f32_or(g, key, 0, v, e);
    if (st == STATOR_OK && *v != 0 && !(*v >= LEAST && *v <= MOST))
        st = gguf_error(g, e, "key '%s' is %g, expected 0 (none), or %g to %g", key, (double)*v,
                        (double)LEAST, (double)MOST);
    return st;
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    bool rope = true;
    char key[96];
    s->experts.norm = true;
    stator_status st = shape_read_experts(g, s, e);
    if (st == STATOR_OK)
        st = read_scale(g, s, "embedding_scale", &s->embed_scale, e);
    if (st == STATOR_OK)
        st = read_scale(g, s, "residual_scale", &s->residual_scale, e);
    if (st == STATOR_OK)
        st = read_scale(g, s, "logit_scale", &s->logit_scale, e);
    snprintf(key, sizeof key, "%s.rope.scaling.finetuned", s->arch_name);
    if (st == STATOR_OK)
        st = gguf_read_bool_or(g, key, true, &rope, e);
    s->no_rope = !rope;
    return st;
}

/* Layers of Mamba-2 in the place of most attention. */
static const struct shape_place hybrid_layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_SSD,
    PARTS_FULL_ROW(q, "attn_q.weight", SHAPE_EMBD, SHAPE_HEADS_K),
    PARTS_FULL_ROW(k, "attn_k.weight", SHAPE_EMBD, SHAPE_KV_K),
    PARTS_FULL_ROW(v, "attn_v.weight", SHAPE_EMBD, SHAPE_KV_V),
    PARTS_FULL_ROW(attn_output, "attn_output.weight", SHAPE_HEADS_V, SHAPE_EMBD),
    {SHAPE_LAYER(ffn_norm), .name = "ffn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    PARTS_SHARED_EXPERT,
};

static const struct shape_place hybrid_global[] = {PARTS_ENDS};

static stator_status read_hybrid(const struct gguf *g, struct shape *s, stator_error *e) {
    s->attention_optional = s->delta.ssd = true;
    stator_status st = read(g, s, e);
    return st == STATOR_OK ? shape_read_delta(g, s, e) : st;
}

static void build_hybrid(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_delta_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        const bool mamba = shape_is_delta(s, i);
        const uint32_t normed = parts_norm(&p, i, "attn_norm", l->attn_norm,
                                           mamba ? graph_form_for(l->own[PARTS_QKVZ]) : parts_qkv_forms(l));
        if (mamba)
            parts_ssd(&p, i, normed);
        else
            parts_attention(&p, i, normed);
        parts_feed_forward(&p, i);
    }
    parts_end(&p);
}

const struct arch arch_granitehybrid = {.name = "granitehybrid",
                                        .models = "Granite 4.0 H (350M to Small)",
                                        .tensors = {SHAPE_TABLE(hybrid_layer, hybrid_global)},
                                        .read = read_hybrid,
                                        .build = build_hybrid,
                                        .layer = PARTS_HYBRID_BOUNDS};

const struct arch arch_granite = {.name = "granite",
                                  .models = "Granite 3 (dense), Granite 4.0 Micro",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = read,
                                  .build = parts_dense};

const struct arch arch_granitemoe = {.name = "granitemoe",
                                     .models = "Granite 3 (1B-A400M, 3B-A800M)",
                                     .tensors = {SHAPE_TABLE(layer, global)},
                                     .read = read,
                                     .build = parts_dense};
