/* Whole models of a few kilobytes, for tests: the keys and tensors of an architecture with small random
 * weights. Leave keys or tensors out with writer.drop and add your own instead. */
#ifndef STATOR_TESTS_TINY_MODEL_H
#define STATOR_TESTS_TINY_MODEL_H

#include "model/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tiny_model {
    const char *arch; /* "llama", "qwen2", "qwen3", "qwen3vl" */
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, vocab;
    uint32_t type; /* of the matrices: BLOCK_F32 or BLOCK_F16 for random values, others are zeros */
    int untied;
    uint64_t seed;
};

static inline struct tiny_model tiny_model_of(const char *arch) {
    return (struct tiny_model){.arch = arch,
                               .n_layers = 2,
                               .n_embd = 8,
                               .n_ff = 12,
                               .n_heads = 2,
                               .n_kv_heads = 1,
                               .head_dim = 32,
                               .vocab = 5,
                               .type = BLOCK_F16,
                               .seed = 1};
}

static inline uint32_t tiny_model_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static inline void tiny_model_tensor(struct gguf_writer *w, struct tiny_model *m, const char *name,
                                     uint32_t type, uint64_t cols, uint64_t rows) {
    uint64_t ne[2] = {cols, rows != 0 ? rows : 1}, n = ne[0] * ne[1];
    uint8_t *values = calloc(n, 4);
    for (uint64_t i = 0; values != NULL && i < n; i++) {
        uint32_t r = tiny_model_random(&m->seed);
        if (type == BLOCK_F32) { /* 0.5 .. 1.5 */
            float f = 0.5f + (float)(r % 1024) / 1024.0f;
            memcpy(values + 4 * i, &f, 4);
        } else if (type == BLOCK_F16) { /* +-0.125 .. +-0.25 */
            uint16_t h = (uint16_t)(0x3000 | (r & 0x83FF));
            memcpy(values + 2 * i, &h, 2);
        }
    }
    gguf_writer_tensor(w, name, type, rows != 0 ? 2 : 1, ne,
                       type == BLOCK_F32 || type == BLOCK_F16 ? values : NULL);
    free(values);
}

static inline void tiny_model_keys(struct gguf_writer *w, const struct tiny_model *m) {
    char key[96];
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"block_count", m->n_layers},          {"embedding_length", m->n_embd},
                   {"feed_forward_length", m->n_ff},      {"context_length", 64},
                   {"attention.head_count", m->n_heads},  {"attention.head_count_kv", m->n_kv_heads},
                   {"attention.key_length", m->head_dim}, {"attention.value_length", m->head_dim},
                   {"rope.dimension_count", m->head_dim}, {"vocab_size", m->vocab}};
    gguf_writer_text(w, "general.architecture", m->arch);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", m->arch, numbers[i].name);
        gguf_writer_u32(w, key, numbers[i].v);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", m->arch);
    gguf_writer_f32(w, key, 1e-5f);
    snprintf(key, sizeof key, "%s.rope.freq_base", m->arch);
    gguf_writer_f32(w, key, 10000.0f);
}

static inline void tiny_model_layer(struct gguf_writer *w, struct tiny_model *m, uint32_t layer) {
    uint64_t q = (uint64_t)m->n_heads * m->head_dim, kv = (uint64_t)m->n_kv_heads * m->head_dim;
    int biases = strncmp(m->arch, "qwen2", 5) == 0, norms = strncmp(m->arch, "qwen3", 5) == 0;
    const struct {
        const char *name;
        uint64_t cols, rows;
        int there;
    } tensors[] = {{"attn_norm.weight", m->n_embd, 0, 1},
                   {"attn_q.weight", m->n_embd, q, 1},
                   {"attn_q.bias", q, 0, biases},
                   {"attn_k.weight", m->n_embd, kv, 1},
                   {"attn_k.bias", kv, 0, biases},
                   {"attn_v.weight", m->n_embd, kv, 1},
                   {"attn_v.bias", kv, 0, biases},
                   {"attn_q_norm.weight", m->head_dim, 0, norms},
                   {"attn_k_norm.weight", m->head_dim, 0, norms},
                   {"attn_output.weight", q, m->n_embd, 1},
                   {"ffn_norm.weight", m->n_embd, 0, 1},
                   {"ffn_gate.weight", m->n_embd, m->n_ff, 1},
                   {"ffn_up.weight", m->n_embd, m->n_ff, 1},
                   {"ffn_down.weight", m->n_ff, m->n_embd, 1}};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "blk.%u.%s", layer, tensors[i].name);
        if (tensors[i].there)
            tiny_model_tensor(w, m, name, tensors[i].rows != 0 ? m->type : (uint32_t)BLOCK_F32,
                              tensors[i].cols, tensors[i].rows);
    }
}

/* Everything; call gguf_writer_finish afterwards. */
static inline void tiny_model_write(struct gguf_writer *w, struct tiny_model m) {
    tiny_model_keys(w, &m);
    tiny_model_tensor(w, &m, "token_embd.weight", m.type, m.n_embd, m.vocab);
    tiny_model_tensor(w, &m, "output_norm.weight", BLOCK_F32, m.n_embd, 0);
    if (m.untied)
        tiny_model_tensor(w, &m, "output.weight", m.type, m.n_embd, m.vocab);
    for (uint32_t i = 0; i < m.n_layers; i++)
        tiny_model_layer(w, &m, i);
}

#endif
