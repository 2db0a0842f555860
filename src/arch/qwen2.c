/* qwen2: biases on q, k and v, pairs of RoPE as neox has them. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_DENSE_LAYER,
    {SHAPE_LAYER(q_bias), .name = "attn_q.bias", .cols = SHAPE_HEADS_K},
    {SHAPE_LAYER(k_bias), .name = "attn_k.bias", .cols = SHAPE_KV_K},
    {SHAPE_LAYER(v_bias), .name = "attn_v.bias", .cols = SHAPE_KV_V},
};

static const struct shape_place global[] = {PARTS_ENDS};

const struct arch arch_qwen2 = {
    .name = "qwen2", .tensors = {SHAPE_TABLE(layer, global)}, .read = parts_read_neox, .build = parts_dense};
