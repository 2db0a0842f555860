/* qwen2moe: qwen2 with experts in place of the feed-forward, their weights a softmax over all of them, and a
 * gated shared one. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_ATTENTION, PARTS_DENSE(SHAPE_DENSE_LAYERS), PARTS_EXPERTS, PARTS_SHARED_EXPERT, PARTS_SHARED_ROUTER,
};

static const struct shape_place global[] = {PARTS_ENDS};

/* A shared expert is as wide as feed_forward_length where no key of its own says how wide. */
static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->rope_neox = true;
    stator_status st = shape_read_experts(g, s, e);
    if (st == STATOR_OK && s->experts.count > 0)
        st = shape_read_u32(g, s, "expert_feed_forward_length", 1, UINT32_MAX, &s->experts.ff, e);
    if (st == STATOR_OK && s->experts.count > 0 && s->experts.shared_ff == 0)
        s->experts.shared_ff = s->n_ff;
    return st;
}

const struct arch arch_qwen2moe = {.name = "qwen2moe",
                                   .models = "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
                                   .tensors = {SHAPE_TABLE(layer, global)},
                                   .read = read,
                                   .build = parts_dense};
