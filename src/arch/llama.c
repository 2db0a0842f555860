/* llama: decoders with pairs (2j, 2j + 1) of RoPE, dense or (Mixtral) with experts in place of the
 * feed-forward.
 */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_ATTENTION,
    PARTS_DENSE(SHAPE_DENSE_LAYERS),
    PARTS_EXPERTS,
    {SHAPE_LAYER(q_bias), .name = "attn_q.bias", .cols = SHAPE_HEADS_K, .optional = true},
    {SHAPE_LAYER(k_bias), .name = "attn_k.bias", .cols = SHAPE_KV_K, .optional = true},
    {SHAPE_LAYER(v_bias), .name = "attn_v.bias", .cols = SHAPE_KV_V, .optional = true},
    {SHAPE_LAYER(attn_output_bias), .name = "attn_output.bias", .cols = SHAPE_EMBD, .optional = true},
};

static const struct shape_place global[] = {
    PARTS_ENDS,
    {SHAPE_GLOBAL(rope_freqs), .name = "rope_freqs.weight", .cols = SHAPE_HALF_ROT, .optional = true},
};

/* Old files carry the plain inverse frequencies, which rope.freq_base says again: nothing to compute from. */
static const char *const redundant[] = {"blk.N.attn_rot_embd", "blk.N.attn_rot_embd.weight", "rope.freqs",
                                        NULL};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = true;
    return shape_read_experts(g, s, e);
}

const struct arch arch_llama = {.name = "llama",
                                .tensors = {SHAPE_TABLE(layer, global), .redundant = redundant},
                                .read = read,
                                .build = parts_dense};
