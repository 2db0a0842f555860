/* qwen35moe: qwen35 with experts in place of the feed-forward, their weights a softmax over those chosen, and
 * a shared expert with a gate. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DELTA,
    PARTS_DELTA_FACTORS,
    PARTS_GATED_ATTENTION,
    {SHAPE_LAYER(ffn_norm), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    PARTS_SHARED_EXPERT,
    PARTS_SHARED_ROUTER,
};

static const struct shape_place nextn[] = {PARTS_NEXTN};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = true;
    stator_status st = shape_read_experts(g, s, e);
    if (st == STATOR_OK)
        st = parts_read_hybrid(g, s, e);
    return st == STATOR_OK ? shape_read_sections(g, s, e) : st;
}

const struct arch arch_qwen35moe = {
    .name = "qwen35moe",
    .models = "Qwen3.5 and Qwen3.6 with experts (35B-A3B and so on)",
    .tensors = {SHAPE_TABLE(layer, global), .nextn = nextn, .n_nextn = sizeof nextn / sizeof nextn[0]},
    .read = read,
    .build = parts_hybrid,
    .layer = PARTS_HYBRID_BOUNDS};
