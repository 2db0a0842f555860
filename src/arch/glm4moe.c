/* glm4moe: experts weighed by sigmoids, chosen with a bias, a shared one without a gate, dense layers first;
 * partial RoPE; the larger models norm heads of q and k. Its post_attention_norm is what others call
 * ffn_norm. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_PROJECTIONS,
    {SHAPE_LAYER(q_norm), .name = "attn_q_norm.weight", .cols = SHAPE_HEAD_K, .optional = true},
    {SHAPE_LAYER(k_norm), .name = "attn_k_norm.weight", .cols = SHAPE_HEAD_K, .optional = true},
    {SHAPE_LAYER(ffn_norm), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    PARTS_CHOICE_BIAS,
    PARTS_SHARED_EXPERT,
};

static const struct shape_place nextn[] = {PARTS_NEXTN};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.sigmoid = true;
    s->rope_neox = true;
    stator_status st = shape_read_experts(g, s, e);
    return st == STATOR_OK ? shape_read_nextn(g, s, e) : st;
}

const struct arch arch_glm4moe = {
    .name = "glm4moe",
    .models = "GLM-4.5, GLM-4.5-Air, GLM-4.6",
    .tensors = {SHAPE_TABLE(layer, global), .nextn = nextn, .n_nextn = sizeof nextn / sizeof nextn[0]},
    .read = read,
    .build = parts_dense};
