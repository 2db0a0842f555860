/* mistral3: llama, with YaRN whose magnitude a key takes back, and queries that grow with the position beyond
 * the context before it was stretched. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_ATTENTION,   PARTS_DENSE(SHAPE_DENSE_LAYERS), PARTS_DENSE_BIASES(SHAPE_DENSE_LAYERS), PARTS_EXPERTS,
    PARTS_OUTPUT_BIAS,
};

static const struct shape_place global[] = {PARTS_ENDS, PARTS_ROPE_FREQS, PARTS_LONGROPE};

/* The growth is in the angles of q, so all of its dimensions must have one. */
static stator_status read_growth(const struct gguf *g, struct shape *s, stator_error *e) {
    static const char key[] = "mistral3.attention.temperature_scale";
    enum { MOST = 100 };
    stator_status st = gguf_read_f32_or(g, key, 0, &s->query_growth, e);
    if (st != STATOR_OK || s->query_growth == 0)
        return st;
    if (!(s->query_growth > 0 && s->query_growth <= MOST))
        return gguf_error(g, e, "key '%s' is %g, expected 0 (none) to %d", key, (double)s->query_growth,
                          MOST);
    if (s->rope_original == 0)
        return gguf_error(
            g, e, "key '%s' is %g, but no RoPE scaling says 'mistral3.rope.scaling.original_context_length'",
            key, (double)s->query_growth);
    if (s->n_rot != s->head_dim_k)
        return gguf_error(
            g, e,
            "key 'mistral3.rope.dimension_count' is %u, expected all %u dimensions of a head, as "
            "%s is there",
            s->n_rot, s->head_dim_k, key);
    return STATOR_OK;
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = true;
    s->rope_multiplied = true;
    stator_status st = shape_read_experts(g, s, e);
    return st == STATOR_OK ? read_growth(g, s, e) : st;
}

const struct arch arch_mistral3 = {.name = "mistral3",
                                   .models = "Ministral 3, Devstral 2",
                                   .tensors = {SHAPE_TABLE(layer, global)},
                                   .read = read,
                                   .build = parts_dense};
