/* qwen3moe, and qwen3vlmoe, whose tokens have places in time, rows and columns: qwen3 with experts in
 * place of the feed-forward, their weights a softmax over those chosen. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_ATTENTION,
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    {SHAPE_LAYER(q_norm), .name = "attn_q_norm.weight", .cols = SHAPE_HEAD_K},
    {SHAPE_LAYER(k_norm), .name = "attn_k_norm.weight", .cols = SHAPE_HEAD_K},
};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = true;
    s->rope_neox = true;
    return shape_read_experts(g, s, e);
}

const struct arch arch_qwen3moe = {.name = "qwen3moe",
                                   .models = "Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder",
                                   .tensors = {SHAPE_TABLE(layer, global)},
                                   .read = read,
                                   .build = parts_dense};

static stator_status read_vl(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = read(g, s, e);
    return st == STATOR_OK ? shape_read_sections(g, s, e) : st;
}

const struct arch arch_qwen3vlmoe = {.name = "qwen3vlmoe",
                                     .models = "Qwen3-VL-30B-A3B, Qwen3-VL-235B-A22B",
                                     .tensors = {SHAPE_TABLE(layer, global)},
                                     .read = read_vl,
                                     .build = parts_dense,
                                     .layer = PARTS_PICTURES_BOUNDS};
