/* ernie4_5: llama without experts. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {PARTS_DENSE_LAYER, PARTS_OUTPUT_BIAS};

static const struct shape_place global[] = {PARTS_ENDS};

const struct arch arch_ernie4_5 = {.name = "ernie4_5",
                                   .models = "ERNIE 4.5 (dense: 0.3B)",
                                   .tensors = {SHAPE_TABLE(layer, global)},
                                   .read = shape_read_dense,
                                   .build = parts_dense};
