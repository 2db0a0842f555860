/* gemma3: norms also behind attention and feed-forward, GELU, a scaled embedding; of every six layers the
 * last sees all tokens, the others a window, with a base of RoPE of their own and no scaling. */
#include "arch/parts/parts.h"

#include <math.h>

enum { POST_ATTENTION_NORM, POST_FFN_NORM }; /* of own[] */

static const struct shape_place layer[] = {
    PARTS_DENSE_LAYER,
    {SHAPE_LAYER(q_norm), .name = "attn_q_norm.weight", .cols = SHAPE_HEAD_K},
    {SHAPE_LAYER(k_norm), .name = "attn_k_norm.weight", .cols = SHAPE_HEAD_K},
    {SHAPE_LAYER(own[POST_ATTENTION_NORM]), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
    {SHAPE_LAYER(own[POST_FFN_NORM]), .name = "post_ffw_norm.weight", .cols = SHAPE_EMBD},
};

static const struct shape_place global[] = {PARTS_ENDS};

/* Files of gemma2 have it. */
static stator_status refuse_softcap(const struct gguf *g, stator_error *e) {
    static const char *const keys[] = {"gemma3.attn_logit_softcapping", "gemma3.final_logit_softcapping"};
    for (int i = 0; i < 2; i++) {
        float cap = 0;
        stator_status rc = gguf_read_f32_or(g, keys[i], 0, &cap, e);
        if (rc != STATOR_OK)
            return rc;
        if (cap != 0)
            return gguf_error(g, e, "key '%s' is %g: capped logits are not supported", keys[i], (double)cap);
    }
    return STATOR_OK;
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status rc = parts_read_neox(g, s, e);
    if (rc == STATOR_OK)
        rc = shape_read_window(g, s, false, 6, e);
    if (rc == STATOR_OK)
        rc = shape_read_local_base(g, s, 10000, e);
    if (rc != STATOR_OK)
        return rc;
    s->embed_scale = (float)sqrt((double)s->n_embd);
    /* The largest, of 62 layers, scales by another width than its heads'; no key says so. */
    if (s->n_layers == 62 && !gguf_find(g, "gemma3.attention.scale", NULL))
        s->attention_scale = (float)(1 / sqrt((double)s->n_embd / s->n_heads));
    return refuse_softcap(g, e);
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    const uint32_t all = p.kv, angles = p.angles;
    const uint32_t window = s->window > 0 ? parts_window(&p, s->window) : all;
    const struct graph_angles base = {
        .n_rot = s->n_rot, .base = s->rope_local_base, .scale = 1, .magnitude = 1};
    const uint32_t local = s->window > 0 ? graph_add_angles(g, &base) : angles;
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        const bool far = !shape_has_window(s, i);
        p.kv = far ? all : window;
        p.angles = far ? angles : local;
        uint32_t normed = parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l));
        uint32_t out = parts_product(&p, i, "attn_out", parts_heads(&p, i, normed), l->attn_output);
        parts_add_norm(&p, i, out, l->own[POST_ATTENTION_NORM]);
        normed = parts_norm(&p, i, "ffn_norm", l->ffn_norm, parts_forms(l->gate, l->up, NULL));
        out = parts_product(&p, i, "ffn_out", parts_gated(&p, i, normed, GRAPH_GEGLU), l->down);
        parts_add_norm(&p, i, out, l->own[POST_FFN_NORM]);
    }
    parts_end(&p);
}

const struct arch arch_gemma3 = {.name = "gemma3",
                                 .tensors = {SHAPE_TABLE(layer, global)},
                                 .read = read,
                                 .build = build,
                                 .layer = {.ops = 10, .values = 10, .weights = 16}};
