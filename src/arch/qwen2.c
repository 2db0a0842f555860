/* qwen2: (most) biases on q, k and v, pairs of RoPE as neox has them. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_DENSE_LAYER,
};

static const struct shape_place global[] = {PARTS_ENDS};

const struct arch arch_qwen2 = {
    .name = "qwen2", .tensors = {SHAPE_TABLE(layer, global)}, .read = parts_read_neox, .build = parts_dense};
