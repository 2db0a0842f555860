/* seed_oss: biases on q, k and v, pairs of RoPE as neox has them; its post_attention_norm is what others call
 * ffn_norm. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_PROJECTIONS,
    {SHAPE_LAYER(ffn_norm), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DENSE(SHAPE_ALL_LAYERS),
};

static const struct shape_place global[] = {PARTS_ENDS};

const struct arch arch_seed_oss = {.name = "seed_oss",
                                   .models = "Seed-OSS 36B",
                                   .tensors = {SHAPE_TABLE(layer, global)},
                                   .read = parts_read_neox,
                                   .build = parts_dense};
