/* The shape of a model: what the metadata and the tensor directory say together, checked against each other.
 * Every field that a builder needs is here; builders never read metadata themselves. */
#ifndef STATOR_MODEL_SHAPE_H
#define STATOR_MODEL_SHAPE_H

#include "model/gguf.h"

enum shape_arch { SHAPE_LLAMA, SHAPE_QWEN2, SHAPE_QWEN3, SHAPE_ARCHS };

#define SHAPE_MAX_LAYERS 512

/* The tensors of one layer; NULL where the architecture or the file has none. */
struct shape_layer {
    const struct gguf_tensor *attn_norm; /* [n_embd] F32 */
    const struct gguf_tensor *q, *k, *v; /* rows = heads * head_dim, cols = n_embd */
    const struct gguf_tensor *q_bias, *k_bias, *v_bias;
    const struct gguf_tensor *q_norm, *k_norm; /* [head_dim_k] */
    const struct gguf_tensor *attn_output;     /* rows = n_embd, cols = n_head * head_dim_v */
    const struct gguf_tensor *attn_output_bias;
    const struct gguf_tensor *ffn_norm;
    const struct gguf_tensor *gate, *up; /* rows = n_ff */
    const struct gguf_tensor *down;      /* rows = n_embd */
};

struct shape {
    enum shape_arch arch;
    char arch_name[32];
    char model_name[128]; /* general.name, or the file's name; without control characters */
    uint32_t n_layers;
    uint32_t n_embd;
    uint32_t n_ff;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim_k; /* a multiple of 32 */
    uint32_t head_dim_v;
    uint32_t n_rot; /* dimensions that RoPE rotates, even, <= head_dim_k */
    bool rope_neox; /* pairs are (j, j + n_rot/2); else (2j, 2j + 1) */
    float rope_base;
    float rope_scale; /* linear scaling: angle = position / rope_scale * ...; 1 = none */
    float norm_eps;
    float attention_scale; /* 1 / sqrt(head_dim_k), or what the metadata says */
    uint32_t vocab;        /* rows of token_embd */
    uint32_t context_trained;
    bool tied; /* no output.weight: token_embd is the output matrix too */
    const struct gguf_tensor *token_embd;
    const struct gguf_tensor *output; /* == token_embd when tied */
    const struct gguf_tensor *output_norm;
    const struct gguf_tensor *rope_freqs; /* [n_rot / 2] F32 divisors of the angles, or NULL */
    uint64_t parameters;
    uint64_t tensor_bytes;
    struct shape_layer layers[SHAPE_MAX_LAYERS];
};

/* Fills *s from an open file. STATOR_BAD_MODEL: an unknown architecture (names it and lists the known ones),
 * missing or mistyped keys, missing tensors, shapes that contradict the metadata, tensor types that we can't
 * compute with, tensors that the architecture does not know (ignoring them would be a silent guess). s->arch
 * == SHAPE_ARCHS then means that the architecture is what is not supported. The gguf must outlive the
 * shape. */
stator_status shape_read(const struct gguf *g, struct shape *s, stator_error *e);

#endif
