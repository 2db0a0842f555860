/* Small models with experts, for tests: random weights in the types that they have. */
#ifndef STATOR_TESTS_EXPERTS_MODEL_H
#define STATOR_TESTS_EXPERTS_MODEL_H

#include "tiny_model.h"

struct experts_model {
    const char *arch; /* "llama", "qwen3moe" */
    uint32_t n_layers, n_embd, n_ff, expert_ff, experts, used, leading, n_heads, n_kv_heads, head_dim, vocab;
    uint32_t type, down; /* of matrices, and of ffn_down(_exps) */
    int alike; /* all experts of a layer have the same weights; experts 0: so has its feed-forward */
    uint64_t seed;
};

static inline void experts_model_block(uint8_t *b, uint32_t type, uint32_t bytes, uint64_t *seed) {
    static const uint8_t small[2] = {0x00, 0x04}, least[2] = {0x00, 0x10}; /* 2^-14, 2^-11 */
    for (uint32_t i = 0; i < bytes; i++)
        b[i] = (uint8_t)tiny_model_random(seed);
    if (type == BLOCK_F32) {
        float f = (float)(int32_t)tiny_model_random(seed) * 0x1p-35f;
        memcpy(b, &f, 4);
    } else if (type == BLOCK_F16) { /* +-2^-5 .. 2^-4 */
        uint16_t h = (uint16_t)(0x2800 | (tiny_model_random(seed) & 0x83FF));
        memcpy(b, &h, 2);
    } else if (type == BLOCK_Q8_0) {
        memcpy(b, small, 2);
        b[1] = 0x0C;
    } else if (type == BLOCK_Q4_K) {
        memcpy(b, small, 2);
        memcpy(b + 2, least, 2);
    } else if (type == BLOCK_Q6_K) {
        memcpy(b + 208, small, 2);
    } else {
        abort();
    }
}

/* The label, not the name, says what values a tensor has. */
static inline void experts_model_tensor(struct gguf_writer *w, const struct experts_model *m, uint32_t layer,
                                        const char *name, const char *label, uint32_t type, uint64_t cols,
                                        uint64_t rows, uint64_t matrices) {
    const struct block_info *info = block_info(type);
    char full[96];
    uint64_t ne[3] = {cols, rows != 0 ? rows : 1, matrices != 0 ? matrices : 1};
    uint64_t blocks = cols / info->values * ne[1], seed = m->seed * 77 + layer;
    for (const char *c = label; *c != '\0'; c++)
        seed = seed * 131 + (uint8_t)*c;
    uint8_t *bytes = malloc((size_t)(blocks * ne[2] * info->bytes));
    for (uint64_t i = 0; bytes != NULL && i < blocks * ne[2]; i++) {
        uint8_t *b = bytes + i * info->bytes;
        if (m->alike && i >= blocks)
            memcpy(b, bytes + i % blocks * info->bytes, info->bytes);
        else if (rows == 0) {
            float one = 1.0f + (float)(i % 7) * 0.01f;
            memcpy(b, &one, 4);
        } else
            experts_model_block(b, type, info->bytes, &seed);
    }
    if (layer == UINT32_MAX)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    gguf_writer_tensor(w, full, type, matrices != 0 ? 3 : rows != 0 ? 2 : 1, ne, bytes);
    free(bytes);
}

static inline void experts_model_layer(struct gguf_writer *w, const struct experts_model *m, uint32_t i) {
    uint64_t q = (uint64_t)m->n_heads * m->head_dim, kv = (uint64_t)m->n_kv_heads * m->head_dim;
    const uint32_t e = m->n_embd, norms = strcmp(m->arch, "qwen3moe") == 0;
    experts_model_tensor(w, m, i, "attn_norm.weight", "n", BLOCK_F32, e, 0, 0);
    experts_model_tensor(w, m, i, "attn_q.weight", "q", m->type, e, q, 0);
    experts_model_tensor(w, m, i, "attn_k.weight", "k", m->type, e, kv, 0);
    experts_model_tensor(w, m, i, "attn_v.weight", "v", m->type, e, kv, 0);
    experts_model_tensor(w, m, i, "attn_output.weight", "o", q % 256 == 0 ? m->type : BLOCK_F16, q, e, 0);
    if (norms) {
        experts_model_tensor(w, m, i, "attn_q_norm.weight", "n", BLOCK_F32, m->head_dim, 0, 0);
        experts_model_tensor(w, m, i, "attn_k_norm.weight", "n", BLOCK_F32, m->head_dim, 0, 0);
    }
    experts_model_tensor(w, m, i, "ffn_norm.weight", "n", BLOCK_F32, e, 0, 0);
    if (m->experts == 0 || i < m->leading) {
        experts_model_tensor(w, m, i, "ffn_gate.weight", "gate", m->type, e, m->n_ff, 0);
        experts_model_tensor(w, m, i, "ffn_up.weight", "up", m->type, e, m->n_ff, 0);
        experts_model_tensor(w, m, i, "ffn_down.weight", "down", m->down, m->n_ff, e, 0);
        return;
    }
    experts_model_tensor(w, m, i, "ffn_gate_inp.weight", "router", BLOCK_F32, e, m->experts, 0);
    experts_model_tensor(w, m, i, "ffn_gate_exps.weight", "gate", m->type, e, m->expert_ff, m->experts);
    experts_model_tensor(w, m, i, "ffn_up_exps.weight", "up", m->type, e, m->expert_ff, m->experts);
    experts_model_tensor(w, m, i, "ffn_down_exps.weight", "down", m->down, m->expert_ff, e, m->experts);
}

/* Everything; call gguf_writer_finish afterwards. */
static inline void experts_model_write(struct gguf_writer *w, struct experts_model m) {
    struct tiny_model t = {.arch = m.arch,
                           .n_layers = m.n_layers,
                           .n_embd = m.n_embd,
                           .n_ff = m.n_ff,
                           .n_heads = m.n_heads,
                           .n_kv_heads = m.n_kv_heads,
                           .head_dim = m.head_dim,
                           .vocab = m.vocab};
    char context[96];
    snprintf(context, sizeof context, "%s.context_length", m.arch);
    w->drop[3] = context;
    tiny_model_keys(w, &t);
    w->drop[3] = NULL;
    gguf_writer_u32(w, context, 1 << 20);
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"expert_count", m.experts},
                   {"expert_used_count", m.used},
                   {"expert_feed_forward_length", m.expert_ff},
                   {"leading_dense_block_count", m.leading}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && m.experts > 0; i++) {
        char key[96];
        snprintf(key, sizeof key, "%s.%s", m.arch, numbers[i].name);
        gguf_writer_u32(w, key, numbers[i].v);
    }
    experts_model_tensor(w, &m, UINT32_MAX, "token_embd.weight", "embd", m.type, m.n_embd, m.vocab, 0);
    experts_model_tensor(w, &m, UINT32_MAX, "output_norm.weight", "n", BLOCK_F32, m.n_embd, 0, 0);
    for (uint32_t i = 0; i < m.n_layers; i++)
        experts_model_layer(w, &m, i);
}

/* Quick to compute: for tests of what runs around it. */
static inline struct experts_model experts_model_small(void) {
    return (struct experts_model){.arch = "qwen3moe",
                                  .n_layers = 2,
                                  .n_embd = 64,
                                  .n_ff = 64,
                                  .expert_ff = 32,
                                  .experts = 8,
                                  .used = 3,
                                  .n_heads = 2,
                                  .n_kv_heads = 1,
                                  .head_dim = 32,
                                  .vocab = 96,
                                  .type = BLOCK_F16,
                                  .down = BLOCK_F16,
                                  .seed = 5};
}

/* 10 experts of which 3 are used, 5 heads on one, widths that are no multiple of 256, a dense layer first. */
static inline struct experts_model experts_model_odd(uint32_t type) {
    return (struct experts_model){.arch = "llama",
                                  .n_layers = 3,
                                  .n_embd = 160,
                                  .n_ff = 96,
                                  .expert_ff = 96,
                                  .experts = 10,
                                  .used = 3,
                                  .leading = 1,
                                  .n_heads = 5,
                                  .n_kv_heads = 1,
                                  .head_dim = 32,
                                  .vocab = 512,
                                  .type = type,
                                  .down = type,
                                  .seed = 3};
}

/* As files of Q4_K_M have it. */
static inline struct experts_model experts_model_k(void) {
    return (struct experts_model){.arch = "qwen3moe",
                                  .n_layers = 3,
                                  .n_embd = 512,
                                  .n_ff = 256,
                                  .expert_ff = 256,
                                  .experts = 20,
                                  .used = 4,
                                  .n_heads = 8,
                                  .n_kv_heads = 2,
                                  .head_dim = 32,
                                  .vocab = 512,
                                  .type = BLOCK_Q4_K,
                                  .down = BLOCK_Q6_K,
                                  .seed = 5};
}

#endif
