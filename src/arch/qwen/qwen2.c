/* qwen2, and qwen2vl, whose tokens have places in time, rows and columns: (most) biases on q, k and v, pairs
 * of RoPE as neox has them. */
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

static stator_status read_vl(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = parts_read_neox(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_sections(g, s, e);
    s->rope_in_order = s->rope_sections[0] + s->rope_sections[1] + s->rope_sections[2] > 0;
    return st;
}

const struct arch arch_qwen2vl = {.name = "qwen2vl",
                                  .models = "Qwen2.5-VL (3B to 72B)",
                                  .tensors = {SHAPE_TABLE(layer, global)},
                                  .read = read_vl,
                                  .build = parts_dense,
                                  .layer = PARTS_PICTURES_BOUNDS};
