/* ernie4_5: llama without experts. ernie4_5-moe: dense layers first, then experts weighed by a softmax and
 * chosen by it and a bias, and a shared one. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {PARTS_DENSE_LAYER, PARTS_OUTPUT_BIAS};

static const struct shape_place expert_layer[] = {
    PARTS_ATTENTION, PARTS_OUTPUT_BIAS, PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,   PARTS_CHOICE_BIAS, PARTS_SHARED_EXPERT,
};

static const struct shape_place global[] = {PARTS_ENDS};

const struct arch arch_ernie4_5 = {.name = "ernie4_5",
                                   .models = "ERNIE 4.5 (dense: 0.3B)",
                                   .tensors = {SHAPE_TABLE(layer, global)},
                                   .read = shape_read_dense,
                                   .build = parts_dense};

static stator_status read_experts(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = true;
    return shape_read_experts(g, s, e);
}

const struct arch arch_ernie4_5_moe = {.name = "ernie4_5-moe",
                                       .models = "ERNIE 4.5 (21B-A3B, 300B-A47B)",
                                       .tensors = {SHAPE_TABLE(expert_layer, global)},
                                       .read = read_experts,
                                       .build = parts_dense};
