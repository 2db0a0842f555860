/* qwen3, and qwen3vl as a model of text (its three kinds of positions are one): norms on the heads of q and
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

const struct arch arch_qwen3vl = {.name = "qwen3vl",
                                  .models = "Qwen3-VL (2B to 32B; text)",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = parts_read_neox,
                                  .build = parts_dense};
