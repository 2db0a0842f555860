/* qwen3next: qwen35moe, whose delta-net layers have the value heads of one key head side by side, and their
 * betas and alphas in one tensor. Older files have all that a key head multiplies with in one tensor, too. */
#include "arch/parts/parts.h"

#include "formats/panel.h"

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DELTA_ROW(PARTS_QKV, "attn_qkv.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DELTA_QKV,
                    .optional = true),
    PARTS_DELTA_ROW(PARTS_Z, "attn_gate.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DELTA_V, .optional = true),
    PARTS_DELTA_ROW(PARTS_QKVZ, "ssm_in.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DELTA_QKVZ,
                    .optional = true),
    PARTS_DELTA_REST,
    PARTS_DELTA_ROW(PARTS_BETA, "ssm_ba.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DELTA_TWO_HEADS),
    PARTS_GATED_ATTENTION,
    {SHAPE_LAYER(ffn_norm), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    PARTS_SHARED_EXPERT,
    PARTS_SHARED_ROUTER,
};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = true;
    s->delta.grouped = true;
    stator_status st = shape_read_experts(g, s, e);
    return st == STATOR_OK ? parts_read_hybrid(g, s, e) : st;
}

/* A key head's rows are whole panels, unless it is the only one. */
static bool in_panels(const struct shape_delta *d) {
    return d->key_heads == 1 ||
           (d->dim_k % PANEL_ROWS == 0 && d->value_heads / d->key_heads * d->dim_v % PANEL_ROWS == 0);
}

static stator_status check(const struct gguf *g, const struct shape *s, stator_error *e) {
    for (uint32_t i = 0; i < s->n_layers; i++) {
        const struct gguf_tensor *const *own = s->layers[i].own;
        if (!shape_is_delta(s, i))
            continue;
        if (own[PARTS_QKVZ] == NULL && (own[PARTS_QKV] == NULL || own[PARTS_Z] == NULL))
            return gguf_error(g, e,
                              "tensor 'blk.%u.%s' is missing, and there is no 'blk.%u.ssm_in.weight' either",
                              i, own[PARTS_QKV] == NULL ? "attn_qkv.weight" : "attn_gate.weight", i);
        if (own[PARTS_QKVZ] != NULL && (own[PARTS_QKV] != NULL || own[PARTS_Z] != NULL))
            return gguf_error(g, e,
                              "tensors 'blk.%u.%s' and 'blk.%u.ssm_in.weight' are both there, expected one",
                              i, own[PARTS_QKV] != NULL ? "attn_qkv.weight" : "attn_gate.weight", i);
        if (own[PARTS_QKVZ] != NULL && !in_panels(&s->delta))
            return gguf_error(
                g, e,
                "tensor 'blk.%u.ssm_in.weight' has %u rows of q and k and %u of values for each of %u "
                "key heads: only multiples of %d are supported in one tensor",
                i, s->delta.dim_k, s->delta.value_heads / s->delta.key_heads * s->delta.dim_v,
                s->delta.key_heads, PANEL_ROWS);
    }
    return STATOR_OK;
}

const struct arch arch_qwen3next = {.name = "qwen3next",
                                    .models = "Qwen3-Next, Qwen3-Coder-Next",
                                    .tensors = {SHAPE_TABLE(layer, global)},
                                    .read = read,
                                    .check = check,
                                    .build = parts_hybrid,
                                    .layer = PARTS_HYBRID_BOUNDS};
