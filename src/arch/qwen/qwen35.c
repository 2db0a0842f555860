/* qwen35: three gated delta-net layers, then one of attention whose output is gated, with RoPE on a part of
 * its dimensions; and so on. */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},
    PARTS_DELTA,
    PARTS_DELTA_FACTORS,
    PARTS_GATED_ATTENTION,
    {SHAPE_LAYER(ffn_norm), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD},
    {SHAPE_LAYER(gate), .name = "ffn_gate.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF},
    {SHAPE_LAYER(up), .name = "ffn_up.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF},
    {SHAPE_LAYER(down), .name = "ffn_down.weight", .cols = SHAPE_FF, .rows = SHAPE_EMBD},
};

static const struct shape_place nextn[] = {PARTS_NEXTN};

static const struct shape_place global[] = {PARTS_ENDS};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = shape_read_dense(g, s, e);
    if (st == STATOR_OK)
        st = parts_read_hybrid(g, s, e);
    return st == STATOR_OK ? shape_read_sections(g, s, e) : st;
}

const struct arch arch_qwen35 = {
    .name = "qwen35",
    .models = "Qwen3.5, Qwen3.6 and Qwen3.8 (dense: 27B and so on)",
    .tensors = {SHAPE_TABLE(layer, global), .nextn = nextn, .n_nextn = sizeof nextn / sizeof nextn[0]},
    .read = read,
    .build = parts_hybrid,
    .layer = PARTS_HYBRID_BOUNDS};
