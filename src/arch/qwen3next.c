/* qwen3next: qwen35moe, whose delta-net layers have the value heads of one key head side by side, and their
 * betas and alphas in one tensor. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DELTA,
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
    stator_status rc = shape_read_experts(g, s, e);
    return rc == STATOR_OK ? parts_read_hybrid(g, s, e) : rc;
}

const struct arch arch_qwen3next = {.name = "qwen3next",
                                    .tensors = {SHAPE_TABLE(layer, global)},
                                    .read = read,
                                    .build = parts_hybrid,
                                    .layer = PARTS_HYBRID_BOUNDS};
