/* qwen3, and qwen3vl, whose tokens have places in time, rows and columns: norms on the heads of q and
 * k, pairs of RoPE as neox has them. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_DENSE_LAYER,
    {SHAPE_LAYER(q_norm), .name = "attn_q_norm.weight", .cols = SHAPE_HEAD_K},
    {SHAPE_LAYER(k_norm), .name = "attn_k_norm.weight", .cols = SHAPE_HEAD_K},
};

static const struct shape_place global[] = {PARTS_ENDS};

const struct arch arch_qwen3 = {.name = "qwen3",
                                .models = "Qwen3 (0.6B to 32B)",
                                .tensors = {SHAPE_TABLE(layer, global)},
                                .read = parts_read_neox,
                                .build = parts_dense};

static stator_status read_vl(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = parts_read_neox(g, s, e);
    return st == STATOR_OK ? shape_read_sections(g, s, e) : st;
}

const struct arch arch_qwen3vl = {.name = "qwen3vl",
                                  .models = "Qwen3-VL (2B to 32B)",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = read_vl,
                                  .build = parts_dense,
                                  .layer = PARTS_PICTURES_BOUNDS};
