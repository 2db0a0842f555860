/* Small hybrids of delta-net and attention layers (qwen35) with random weights, of any shape. */
#ifndef STATOR_TESTS_HYBRID_MODEL_H
#define STATOR_TESTS_HYBRID_MODEL_H

#include "model/gguf_writer.h"

#include "formats/block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hybrid_model {
    uint32_t blocks, interval, nextn; /* blocks: of nextn too */
    int no_pair;                      /* these without eh_proj */
    int echoes; /* layers add little, and blocks of nextn go by the token: both mostly say it again */
    uint32_t embd, ff, heads, kv_heads, head_dim, n_rot, vocab, context;
    uint32_t key_heads, value_heads, dim_k, inner, taps;
    uint32_t type; /* of the matrices: BLOCK_F32 or BLOCK_F16 */
    uint64_t seed;
};

static inline struct hybrid_model hybrid_model_usual(void) {
    return (struct hybrid_model){.blocks = 4,
                                 .interval = 4,
                                 .embd = 64,
                                 .ff = 96,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 32,
                                 .n_rot = 16,
                                 .vocab = 96,
                                 .context = 1024,
                                 .key_heads = 2,
                                 .value_heads = 4,
                                 .dim_k = 32,
                                 .inner = 128,
                                 .taps = 4,
                                 .type = BLOCK_F16,
                                 .seed = 3};
}

static inline float hybrid_model_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(uint32_t)(*seed >> 40) * 0x1p-23f - 1.0f;
}

/* rows 0: a vector, `at` +- 0.5; a matrix is of numbers around 0. */
static inline void hybrid_model_tensor(struct gguf_writer *w, struct hybrid_model *m, const char *name,
                                       uint32_t type, uint64_t cols, uint64_t rows, float at) {
    const uint64_t n = cols * (rows != 0 ? rows : 1);
    uint8_t *values = malloc(n * 4);
    for (uint64_t i = 0; values != NULL && i < n; i++) {
        float x = rows == 0 ? at + 0.5f * hybrid_model_random(&m->seed)
                            : 1.5f * hybrid_model_random(&m->seed) * (cols > 16 ? 0.125f : 0.5f);
        if (m->echoes && (strstr(name, "attn_output") || strstr(name, "ssm_out") || strstr(name, "ffn_down")))
            x *= 0.1f;
        if (m->echoes && strstr(name, "eh_proj"))
            x = x * 0.1f + (i % cols == i / cols ? 1 : 0);
        uint16_t half = block_to_f16(x);
        memcpy(values + i * (type == BLOCK_F16 ? 2 : 4), type == BLOCK_F16 ? (void *)&half : (void *)&x,
               type == BLOCK_F16 ? 2 : 4);
    }
    gguf_writer_tensor(w, name, type, rows != 0 ? 2 : 1, (uint64_t[]){cols, rows}, values);
    free(values);
}

static inline void hybrid_model_keys(struct gguf_writer *w, const struct hybrid_model *m) {
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"block_count", m->blocks},
                   {"embedding_length", m->embd},
                   {"feed_forward_length", m->ff},
                   {"context_length", m->context},
                   {"attention.head_count", m->heads},
                   {"attention.head_count_kv", m->kv_heads},
                   {"attention.key_length", m->head_dim},
                   {"attention.value_length", m->head_dim},
                   {"rope.dimension_count", m->n_rot},
                   {"vocab_size", m->vocab},
                   {"ssm.conv_kernel", m->taps},
                   {"ssm.state_size", m->dim_k},
                   {"ssm.group_count", m->key_heads},
                   {"ssm.time_step_rank", m->value_heads},
                   {"ssm.inner_size", m->inner},
                   {"full_attention_interval", m->interval},
                   {"nextn_predict_layers", m->nextn}};
    char key[96];
    gguf_writer_text(w, "general.architecture", "qwen35");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "qwen35.%s", numbers[i].name);
        gguf_writer_u32(w, key, numbers[i].v);
    }
    gguf_writer_f32(w, "qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_writer_f32(w, "qwen35.rope.freq_base", 10000.0f);
}

static inline void hybrid_model_layer(struct gguf_writer *w, struct hybrid_model *m, uint32_t layer) {
    const uint64_t q = (uint64_t)m->heads * m->head_dim, kv = (uint64_t)m->kv_heads * m->head_dim;
    const uint64_t channels = (uint64_t)2 * m->key_heads * m->dim_k + m->inner;
    const int full = (layer + 1) % m->interval == 0 || layer + m->nextn >= m->blocks;
    const struct {
        const char *name;
        uint64_t cols, rows;
        float at;
        int there, f32;
    } tensors[] = {{"attn_norm.weight", m->embd, 0, 1, 1, 1},
                   {"attn_q.weight", m->embd, 2 * q, 0, full, 0},
                   {"attn_k.weight", m->embd, kv, 0, full, 0},
                   {"attn_v.weight", m->embd, kv, 0, full, 0},
                   {"attn_q_norm.weight", m->head_dim, 0, 1, full, 1},
                   {"attn_k_norm.weight", m->head_dim, 0, 1, full, 1},
                   {"attn_output.weight", q, m->embd, 0, full, 0},
                   {"attn_qkv.weight", m->embd, channels, 0, !full, 0},
                   {"attn_gate.weight", m->embd, m->inner, 0, !full, 0},
                   {"ssm_beta.weight", m->embd, m->value_heads, 0, !full, 0},
                   {"ssm_alpha.weight", m->embd, m->value_heads, 0, !full, 0},
                   {"ssm_conv1d.weight", m->taps, channels, 0, !full, 1},
                   {"ssm_dt.bias", m->value_heads, 0, 0, !full, 1},
                   {"ssm_a", m->value_heads, 0, -0.7f, !full, 1},
                   {"ssm_norm.weight", m->value_heads > 0 ? m->inner / m->value_heads : 1, 0, 1, !full, 1},
                   {"ssm_out.weight", m->inner, m->embd, 0, !full, 0},
                   {"post_attention_norm.weight", m->embd, 0, 1, 1, 1},
                   {"ffn_gate.weight", m->embd, m->ff, 0, 1, 0},
                   {"ffn_up.weight", m->embd, m->ff, 0, 1, 0},
                   {"ffn_down.weight", m->ff, m->embd, 0, 1, 0}};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "blk.%u.%s", layer, tensors[i].name);
        if (tensors[i].there && tensors[i].cols > 0)
            hybrid_model_tensor(w, m, name, tensors[i].f32 ? (uint32_t)BLOCK_F32 : m->type, tensors[i].cols,
                                tensors[i].rows, tensors[i].at);
    }
}

/* Everything; call gguf_writer_finish afterwards. */
static inline void hybrid_model_write(struct gguf_writer *w, struct hybrid_model m) {
    hybrid_model_keys(w, &m);
    hybrid_model_tensor(w, &m, "token_embd.weight", m.type, m.embd, m.vocab, 0);
    hybrid_model_tensor(w, &m, "output_norm.weight", BLOCK_F32, m.embd, 0, 1);
    for (uint32_t i = 0; i + m.nextn < m.blocks; i++)
        hybrid_model_layer(w, &m, i);
    for (uint32_t i = m.blocks - m.nextn; i < m.blocks; i++) {
        static const char *const norms[] = {"enorm", "hnorm", "shared_head_norm"};
        char name[96];
        snprintf(name, sizeof name, "blk.%u.nextn.eh_proj.weight", i);
        if (!m.no_pair)
            hybrid_model_tensor(w, &m, name, m.type, 2 * m.embd, m.embd, 0);
        for (uint32_t k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "blk.%u.nextn.%s.weight", i, norms[k]);
            hybrid_model_tensor(w, &m, name, BLOCK_F32, m.embd, 0, 1);
        }
        hybrid_model_layer(w, &m, i);
    }
}

/* The model as a file in memory, which path names until the writer is freed. */
static inline struct gguf_writer hybrid_model_in_memory(struct hybrid_model m, char path[GGUF_WRITER_PATH]) {
    struct gguf_writer w = gguf_writer_new();
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    gguf_writer_memory_path(&w, path);
    return w;
}

#endif
