/* qwen35: three gated delta-net layers, then one of attention whose output is gated, with RoPE on a part of
 * its dimensions; and so on. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DELTA,
    PARTS_GATED_ATTENTION,
    {SHAPE_LAYER(ffn_norm), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
    {SHAPE_LAYER(gate), .name = "ffn_gate.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF},
    {SHAPE_LAYER(up), .name = "ffn_up.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF},
    {SHAPE_LAYER(down), .name = "ffn_down.weight", .cols = SHAPE_FF, .rows = SHAPE_EMBD},
};

static const struct shape_place global[] = {PARTS_ENDS};

/* Keys rope.dimension_sections divide the rotated dimensions among positions in time, height and width, which
 * are one number in text. */
static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status rc = parts_read_neox(g, s, e);
    if (rc == STATOR_OK)
        rc = shape_read_nextn(g, s, e);
    if (rc == STATOR_OK)
        rc = shape_read_delta(g, s, e);
    if (rc == STATOR_OK && s->head_dim_k != s->head_dim_v)
        rc = gguf_error(g, e,
                        "key '%s.attention.value_length' is %u, but gates lie beside heads of q, whose "
                        "attention.key_length is %u: only equal ones are supported",
                        s->arch_name, s->head_dim_v, s->head_dim_k);
    s->gated = true;
    return rc;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_delta_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        if (shape_is_delta(s, i))
            parts_delta(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_delta_forms(l)));
        else
            parts_attention(&p, i,
                            parts_norm(&p, i, "attn_norm", l->attn_norm, parts_forms(l->q, l->k, l->v)));
        parts_swiglu(&p, i, parts_norm(&p, i, "ffn_norm", l->ffn_norm, parts_forms(l->gate, l->up, NULL)));
    }
    parts_end(&p);
}

const struct arch arch_qwen35 = {.name = "qwen35",
                                 .tensors = {SHAPE_TABLE(layer, global)},
                                 .read = read,
                                 .build = build,
                                 .layer = {.ops = 12, .values = 10, .weights = 16}};
