/* deepseek2: latent attention in its absorbed form; experts by sigmoids with a choice bias, or by a softmax
 * over all, of the best groups, a shared one, dense layers first; an MTP head of the same kind. Files of
 * older converters have attn_kv_b in one piece: parts_split_kv_b. */
#include "arch/parts/parts.h"

#include <stdio.h>

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_MLA,
    {SHAPE_LAYER(ffn_norm), .name = "ffn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    PARTS_CHOICE_BIAS,
    PARTS_SHARED_EXPERT,
};

static const struct shape_place nextn[] = {PARTS_NEXTN};

static const struct shape_place global[] = {PARTS_ENDS};

/* Files of DeepSeek V2 have no gating function: theirs is a softmax. Only sigmoids have a choice bias. */
static bool has_choice_bias(const struct gguf *g) {
    for (uint64_t i = 0; i < gguf_tensors(g); i++)
        if (gguf_text_ends(gguf_tensor(g, i)->name, ".exp_probs_b.bias", &(struct gguf_text){0}))
            return true;
    return false;
}

static stator_status refuse_growth(const struct gguf *g, stator_error *e) {
    float growth = 0;
    stator_status st = gguf_read_f32_or(g, "deepseek2.attention.temperature_scale", 0, &growth, e);
    if (st == STATOR_OK && growth != 0)
        st = gguf_error(
            g, e,
            "key 'deepseek2.attention.temperature_scale' is %g: queries of latent attention that grow with "
            "the position are not supported",
            (double)growth);
    return st;
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->latent = s->rope_multiplied = s->experts.may_group = true;
    s->experts.sigmoid = has_choice_bias(g);
    stator_status st = shape_read_experts(g, s, e);
    if (st == STATOR_OK)
        st = refuse_growth(g, e);
    return st == STATOR_OK ? shape_read_nextn(g, s, e) : st;
}

/* Heads of q are quantised in one row, so each must begin at a group. */
static stator_status check(const struct gguf *g, const struct shape *s, stator_error *e) {
    const uint32_t head = s->mla.nope + s->n_rot;
    for (uint32_t i = 0; i < s->n_layers + (s->n_nextn > 0); i++) {
        const struct gguf_tensor *t = s->layers[i].own[PARTS_K_B];
        if (t == NULL) /* an MTP head that the file leaves out */
            continue;
        const uint32_t form = graph_form_for(t), group = form == GRAPH_I8_256  ? 256
                                                         : form == GRAPH_I8_32 ? 32
                                                                               : 1;
        if (head % group != 0)
            return gguf_error(
                g, e,
                "tensor 'blk.%u.attn_k_b.weight' has type %s (its values come in groups of %u), but "
                "key 'deepseek2.attention.key_length_mla' is %u, expected a multiple",
                i, block_info(t->type)->name, group, head);
    }
    return STATOR_OK;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_nextn_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_mla(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_mla_forms(l)));
        parts_feed_forward(&p, i);
    }
    parts_end(&p);
}

const struct arch arch_deepseek2 = {.name = "deepseek2",
                                    .models =
                                        "GLM-4.7-Flash, DeepSeek V2-Lite to V3.1, R1, Kimi-K2, Moonlight",
                                    .tensors = {SHAPE_TABLE(layer, global), .derive = parts_split_kv_b,
                                                .nextn = nextn, .n_nextn = sizeof nextn / sizeof nextn[0]},
                                    .read = read,
                                    .check = check,
                                    .build = build,
                                    .layer = {.ops = 16, .values = 16, .weights = 20}};
