/* qwen2: (most) biases on q, k and v, pairs of RoPE as neox has them. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_DENSE_LAYER,
};

static const struct shape_place global[] = {PARTS_ENDS};

const struct arch arch_qwen2 = {.name = "qwen2",
                                .models = "Qwen2, Qwen2.5, Qwen2.5-Coder, QwQ, DeepSeek-R1-Distill-Qwen",
                                .tensors = {SHAPE_TABLE(layer, global)},
                                .read = parts_read_neox,
                                .build = parts_dense};
