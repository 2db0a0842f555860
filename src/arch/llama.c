/* llama: decoders with pairs (2j, 2j + 1) of RoPE, dense or (Mixtral) with experts in place of the
 * feed-forward.
 */
#include "arch/parts/parts.h"

static const struct shape_place layer[] = {
    PARTS_ATTENTION,   PARTS_DENSE(SHAPE_DENSE_LAYERS), PARTS_DENSE_BIASES(SHAPE_DENSE_LAYERS), PARTS_EXPERTS,
    PARTS_OUTPUT_BIAS,
};

static const struct shape_place global[] = {
    PARTS_ENDS,
    PARTS_ROPE_FREQS,
    PARTS_LONGROPE,
};

/* Old files carry the plain inverse frequencies, which rope.freq_base says again: nothing to compute from. */
static const char *const redundant[] = {"blk.N.attn_rot_embd", "blk.N.attn_rot_embd.weight", "rope.freqs",
                                        NULL};

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = true;
    return shape_read_experts(g, s, e);
}

const struct arch arch_llama = {
    .name = "llama",
    .models = "Llama 2, Llama 3.x, Mistral 7B, Mistral Nemo, Mistral Small 3.x, Magistral Small, Devstral "
              "Small, Mixtral, SmolLM2, Falcon 3, Hermes, DeepSeek-R1-Distill-Llama",
    .tensors = {SHAPE_TABLE(layer, global), .redundant = redundant},
    .read = read,
    .build = parts_dense};
