/* glm4: norms also behind attention and feed-forward; gate and up are one tensor; partial RoPE, of pairs (2j,
 * 2j + 1). */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {PARTS_ATTENTION, PARTS_DENSE_FUSED, PARTS_NORMS_BEHIND};

static const struct shape_place global[] = {PARTS_ENDS};

/* Models that see have rotations of three kinds, whose pairs lie elsewhere. */
static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    static const char key[] = "glm4.rope.dimension_sections";
    stator_status st = shape_read_dense(g, s, e);
    if (st == STATOR_OK && gguf_find(g, key, NULL))
        st = gguf_error(g, e, "key '%s' is there: only models without it (text alone) are supported", key);
    return st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++)
        parts_layer_normed_behind(&p, i, GRAPH_SWIGLU);
    parts_end(&p);
}

const struct arch arch_glm4 = {.name = "glm4",
                               .models = "GLM-4-0414 (9B, 32B), GLM-Z1",
                               .tensors = {SHAPE_TABLE(layer, global)},
                               .read = read,
                               .build = build,
                               .layer = {.ops = 10, .values = 10, .weights = 16}};
