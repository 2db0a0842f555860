#include "app/selftest/selftest_model.h"

#include "app/selftest/random_weights.h"
#include "base/arith.h"
#include "formats/block.h"
#include "model/gguf_writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct making {
    const struct selftest_model *m;
    struct gguf_writer *w;
    uint64_t random;
};

/* rows 0: one dimension; matrices 0: two. */
static void add_matrices(struct making *w, const char *name, uint32_t type, uint64_t cols, uint64_t rows,
                         uint64_t matrices) {
    const struct block_info *info = block_info(type);
    const uint32_t dims = matrices != 0 ? 3 : rows != 0 ? 2 : 1;
    uint8_t *to = gguf_writer_tensor(w->w, name, type, dims, (uint64_t[]){cols, rows, matrices}, NULL);
    const uint64_t values = cols * ARITH_MAX(rows, 1u) * ARITH_MAX(matrices, 1u);
    bool norm = rows == 0 && strstr(name, "norm") != NULL;
    bool decay = rows == 0 && strstr(name, "ssm_a") != NULL;
    for (uint64_t i = 0; to != NULL && i < values / info->values; i++) {
        if (info->values == 1) {
            float v = random_weights_float(&w->random);
            to = random_weights_put(to, type, norm ? 1.0f + 0.25f * v : decay ? 0.4f * v - 0.5f : 0.1f * v);
        } else {
            random_weights_block(&w->random, type, to, info->bytes);
            to += info->bytes;
        }
    }
}

static void add(struct making *w, const char *name, uint32_t type, uint64_t cols, uint64_t rows) {
    add_matrices(w, name, type, cols, rows, 0);
}

struct part {
    const char *name;
    uint64_t cols, rows;
    bool there;
};

/* Another type than that of what is multiplied with it. */
static bool is_second(const char *name) {
    static const char *const names[] = {"attn_v.weight", "ffn_up.weight", "ffn_up_exps.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static uint32_t type_of(const struct selftest_model *m, const char *name) {
    return m->other != 0 && is_second(name) ? m->other : m->type;
}

static void add_parts(struct making *w, uint32_t layer, const struct part *parts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i].name);
        bool plain =
            parts[i].rows == 0 || strstr(name, "conv1d") != NULL || strstr(name, "shortconv.conv") != NULL;
        if (parts[i].there)
            add(w, name, plain ? (uint32_t)BLOCK_F32 : type_of(w->m, parts[i].name), parts[i].cols,
                parts[i].rows);
    }
}

/* Has an expert that every token uses. */
static bool shares(const struct selftest_model *m) {
    static const char *const names[] = {"glm4moe", "qwen35moe", "qwen3next", "ernie4_5-moe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(m->architecture, names[i]) == 0)
            return true;
    return false;
}

static bool is_lfm(const struct selftest_model *m) {
    return strncmp(m->architecture, "lfm2", 4) == 0;
}

static bool has_conv(const struct selftest_model *m, uint32_t layer) {
    return is_lfm(m) && layer % 2 == 0;
}

static void add_experts(struct making *w, uint32_t layer) {
    const struct selftest_model *m = w->m;
    const bool biases = strcmp(m->architecture, "gpt-oss") == 0;
    const bool gated = strncmp(m->architecture, "qwen3", 5) == 0, shared = shares(m); /* the shared one */
    const bool choice = (shared && !gated) || is_lfm(m);
    const struct {
        const char *name;
        uint32_t type;
        uint64_t cols, rows, matrices;
        bool there;
    } parts[] = {
        {"ffn_gate_inp.weight", BLOCK_F32, m->n_embd, m->experts, 0, true},
        {"ffn_gate_inp.bias", BLOCK_F32, m->experts, 0, 0, biases},
        {"ffn_gate_exps.weight", m->type, m->n_embd, m->n_ff, m->experts, true},
        {"ffn_gate_exps.bias", BLOCK_F32, m->n_ff, m->experts, 0, biases},
        {"ffn_up_exps.weight", type_of(m, "ffn_up_exps.weight"), m->n_embd, m->n_ff, m->experts, true},
        {"ffn_up_exps.bias", BLOCK_F32, m->n_ff, m->experts, 0, biases},
        {"ffn_down_exps.weight", m->type, m->n_ff, m->n_embd, m->experts, true},
        {"ffn_down_exps.bias", BLOCK_F32, m->n_embd, m->experts, 0, biases},
        {"exp_probs_b.bias", BLOCK_F32, m->experts, 0, 0, choice},
        {"ffn_gate_shexp.weight", m->type, m->n_embd, m->n_ff, 0, shared},
        {"ffn_up_shexp.weight", m->type, m->n_embd, m->n_ff, 0, shared},
        {"ffn_down_shexp.weight", m->type, m->n_ff, m->n_embd, 0, shared},
        {"ffn_gate_inp_shexp.weight", BLOCK_F32, m->n_embd, 0, 0, shared && gated}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i].name);
        if (parts[i].there)
            add_matrices(w, name, parts[i].type, parts[i].cols, parts[i].rows, parts[i].matrices);
    }
}

/* What an MTP head begins with: nearly the sum of an embedding and a hidden state, so that some of its
 * draft tokens are right. */
static void add_pair(struct making *w, uint32_t layer) {
    const uint64_t n = w->m->n_embd;
    char name[48];
    snprintf(name, sizeof name, "blk.%u.nextn.eh_proj.weight", layer);
    uint8_t *to = gguf_writer_tensor(w->w, name, BLOCK_F16, 2, (uint64_t[]){2 * n, n}, NULL);
    for (uint64_t i = 0; to != NULL && i < 2 * n * n; i++)
        to = random_weights_put(
            to, BLOCK_F16, (i % n == i / (2 * n) ? 1.0f : 0.0f) + 0.01f * random_weights_float(&w->random));
}

static void add_hybrid_layer(struct making *w, uint32_t layer) {
    const struct selftest_model *m = w->m;
    const uint64_t q = (uint64_t)m->n_heads * m->head_dim, kv = (uint64_t)m->n_kv_heads * m->head_dim;
    const uint64_t inner = (uint64_t)m->value_heads * m->dim_v;
    const uint64_t channels = (uint64_t)2 * m->key_heads * m->dim_k + inner;
    const bool nextn = layer == m->n_layers, full = nextn || layer % 2 == 1;
    const bool grouped = strcmp(m->architecture, "qwen3next") == 0;
    const struct part parts[] = {{"attn_norm.weight", m->n_embd, 0, true},
                                 {"attn_q.weight", m->n_embd, 2 * q, full},
                                 {"attn_k.weight", m->n_embd, kv, full},
                                 {"attn_v.weight", m->n_embd, kv, full},
                                 {"attn_q_norm.weight", m->head_dim, 0, full},
                                 {"attn_k_norm.weight", m->head_dim, 0, full},
                                 {"attn_output.weight", q, m->n_embd, full},
                                 {"attn_qkv.weight", m->n_embd, channels, !full && !m->one_in},
                                 {"attn_gate.weight", m->n_embd, inner, !full && !m->one_in},
                                 {"ssm_in.weight", m->n_embd, channels + inner, !full && m->one_in},
                                 {"ssm_ba.weight", m->n_embd, 2 * m->value_heads, !full && grouped},
                                 {"ssm_beta.weight", m->n_embd, m->value_heads, !full && !grouped},
                                 {"ssm_alpha.weight", m->n_embd, m->value_heads, !full && !grouped},
                                 {"ssm_conv1d.weight", m->taps, channels, !full},
                                 {"ssm_dt.bias", m->value_heads, 0, !full},
                                 {"ssm_a", m->value_heads, 0, !full},
                                 {"ssm_norm.weight", m->dim_v, 0, !full},
                                 {"ssm_out.weight", inner, m->n_embd, !full},
                                 {"post_attention_norm.weight", m->n_embd, 0, true},
                                 {"ffn_gate.weight", m->n_embd, m->n_ff, m->experts == 0},
                                 {"ffn_up.weight", m->n_embd, m->n_ff, m->experts == 0},
                                 {"ffn_down.weight", m->n_ff, m->n_embd, m->experts == 0},
                                 {"nextn.enorm.weight", m->n_embd, 0, nextn},
                                 {"nextn.hnorm.weight", m->n_embd, 0, nextn},
                                 {"nextn.shared_head_norm.weight", m->n_embd, 0, nextn}};
    add_parts(w, layer, parts, sizeof parts / sizeof parts[0]);
    if (nextn)
        add_pair(w, layer);
    if (m->experts > 0)
        add_experts(w, layer);
}

static void add_layer(struct making *w, uint32_t layer) {
    const struct selftest_model *m = w->m;
    uint64_t q = (uint64_t)m->n_heads * m->head_dim;
    uint64_t kv = (uint64_t)m->n_kv_heads * m->head_dim;
    uint64_t values = m->value_dim != 0 ? m->value_dim : m->head_dim;
    uint64_t v = m->n_kv_heads * values, heads = m->n_heads * values;
    bool experts = m->experts > 0, oss = strcmp(m->architecture, "gpt-oss") == 0;
    bool biases = oss || strcmp(m->architecture, "qwen2") == 0;
    bool glm = strcmp(m->architecture, "glm4moe") == 0;
    bool wide = strcmp(m->architecture, "olmo2") == 0;
    bool two = strcmp(m->architecture, "gemma2") == 0;
    bool behind = two || wide || strcmp(m->architecture, "gemma3") == 0, post = behind || oss || glm;
    bool conv = has_conv(m, layer), cohere = strcmp(m->architecture, "cohere2") == 0;
    bool norms = (behind && !two) || strncmp(m->architecture, "qwen3", 5) == 0 || (is_lfm(m) && !conv) ||
                 strcmp(m->architecture, "hunyuan-dense") == 0;
    bool fused = strcmp(m->architecture, "phi3") == 0;
    bool ff_biases = !experts && strcmp(m->architecture, "mistral3") == 0;
    const struct part parts[] = {{"attn_norm.weight", m->n_embd, 0, !wide},
                                 {"attn_qkv.weight", m->n_embd, q + kv + v, fused},
                                 {"attn_q.weight", m->n_embd, q, !fused && !conv},
                                 {"attn_q.bias", q, 0, biases},
                                 {"attn_k.weight", m->n_embd, kv, !fused && !conv},
                                 {"attn_k.bias", kv, 0, biases},
                                 {"attn_v.weight", m->n_embd, v, !fused && !conv},
                                 {"attn_v.bias", v, 0, biases},
                                 {"attn_q_norm.weight", wide ? q : m->head_dim, 0, norms},
                                 {"attn_k_norm.weight", wide ? kv : m->head_dim, 0, norms},
                                 {"attn_output.weight", heads, m->n_embd, !conv},
                                 {"shortconv.in_proj.weight", m->n_embd, 3 * (uint64_t)m->n_embd, conv},
                                 {"shortconv.conv.weight", m->taps, m->n_embd, conv},
                                 {"shortconv.out_proj.weight", m->n_embd, m->n_embd, conv},
                                 {"attn_output.bias", m->n_embd, 0, oss},
                                 {"attn_sinks.weight", m->n_heads, 0, oss},
                                 {"post_attention_norm.weight", m->n_embd, 0, post},
                                 {"ffn_norm.weight", m->n_embd, 0, !oss && !glm && !wide && !cohere},
                                 {"ffn_gate.weight", m->n_embd, m->n_ff, !fused && !experts},
                                 {"ffn_up.weight", m->n_embd, fused ? 2 * m->n_ff : m->n_ff, !experts},
                                 {"post_ffw_norm.weight", m->n_embd, 0, behind},
                                 {"ffn_down.weight", m->n_ff, m->n_embd, !experts},
                                 {"ffn_gate.bias", m->n_ff, 0, ff_biases},
                                 {"ffn_up.bias", m->n_ff, 0, ff_biases},
                                 {"ffn_down.bias", m->n_embd, 0, ff_biases}};
    add_parts(w, layer, parts, sizeof parts / sizeof parts[0]);
    if (experts)
        add_experts(w, layer);
}

/* One number, or 0 in layers of convolutions. */
static void add_kv_heads(struct making *w) {
    const struct selftest_model *m = w->m;
    uint32_t each[16] = {0};
    char key[96];
    CHECK(m->n_layers <= sizeof each / sizeof each[0]);
    snprintf(key, sizeof key, "%s.attention.head_count_kv", m->architecture);
    for (uint32_t i = 0; i < m->n_layers; i++)
        each[i] = has_conv(m, i) ? 0 : m->n_kv_heads;
    if (!is_lfm(m)) {
        gguf_writer_u32(w->w, key, m->n_kv_heads);
        return;
    }
    gguf_writer_array(w->w, key, GGUF_U32, m->n_layers, each, m->n_layers * sizeof each[0]);
    snprintf(key, sizeof key, "%s.shortconv.l_cache", m->architecture);
    gguf_writer_u32(w->w, key, m->taps);
}

static void add_keys(struct making *w) {
    const struct selftest_model *m = w->m;
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"block_count", m->n_layers + m->nextn},
                   {"embedding_length", m->n_embd},
                   {"feed_forward_length", m->n_ff},
                   {"context_length", m->context},
                   {"attention.head_count", m->n_heads},
                   {"attention.key_length", m->head_dim},
                   {"attention.value_length", m->value_dim != 0 ? m->value_dim : m->head_dim},
                   {"rope.dimension_count", m->n_rot != 0 ? m->n_rot : m->head_dim},
                   {"vocab_size", m->vocab},
                   {"attention.sliding_window", m->window},
                   {"attention.sliding_window_pattern", 2}};
    const size_t n = sizeof numbers / sizeof numbers[0] - (m->window == 0 ? 2 : 0);
    gguf_writer_text(w->w, "general.architecture", m->architecture);
    char key[96];
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%s.%s", m->architecture, numbers[i].name);
        gguf_writer_u32(w->w, key, numbers[i].v);
    }
    const struct {
        const char *name;
        uint32_t v;
    } states[] = {{"ssm.conv_kernel", m->taps},
                  {"ssm.state_size", m->dim_k},
                  {"ssm.group_count", m->key_heads},
                  {"ssm.time_step_rank", m->value_heads},
                  {"ssm.inner_size", m->value_heads * m->dim_v},
                  {"full_attention_interval", 2}};
    if (m->rope_factor > 0) {
        snprintf(key, sizeof key, "%s.rope.scaling.factor", m->architecture);
        gguf_writer_f32(w->w, key, m->rope_factor);
    }
    if (m->longrope) {
        snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", m->architecture);
        gguf_writer_u32(w->w, key, 512);
        snprintf(key, sizeof key, "%s.rope.scaling.attn_factor", m->architecture);
        gguf_writer_f32(w->w, key, 1);
    }
    const bool mistral = strcmp(m->architecture, "mistral3") == 0;
    if (mistral || strcmp(m->architecture, "gpt-oss") == 0) {
        snprintf(key, sizeof key, "%s.rope.scaling.type", m->architecture);
        gguf_writer_text(w->w, key, "yarn");
        snprintf(key, sizeof key, "%s.rope.scaling.factor", m->architecture);
        gguf_writer_f32(w->w, key, 4);
    }
    if (mistral) {
        gguf_writer_u32(w->w, "mistral3.rope.scaling.original_context_length", 24);
        gguf_writer_f32(w->w, "mistral3.attention.temperature_scale", 0.1f);
    }
    if (m->nextn) {
        snprintf(key, sizeof key, "%s.nextn_predict_layers", m->architecture);
        gguf_writer_u32(w->w, key, 1);
    }
    for (size_t i = 0; m->key_heads > 0 && i < sizeof states / sizeof states[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", m->architecture, states[i].name);
        gguf_writer_u32(w->w, key, states[i].v);
    }
    const struct {
        const char *name;
        uint32_t v;
    } experts[] = {{"expert_count", m->experts},
                   {"expert_used_count", m->used},
                   {"expert_feed_forward_length", m->n_ff},
                   {"expert_shared_count", shares(m)}};
    for (size_t i = 0; m->experts > 0 && i < sizeof experts / sizeof experts[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", m->architecture, experts[i].name);
        gguf_writer_u32(w->w, key, experts[i].v);
    }
    const bool cohere = strcmp(m->architecture, "cohere2") == 0;
    snprintf(key, sizeof key, "%s.attention.layer_norm%s_epsilon", m->architecture, cohere ? "" : "_rms");
    gguf_writer_f32(w->w, key, 1e-5f);
    if (cohere)
        gguf_writer_f32(w->w, "cohere2.logit_scale", 0.25f);
    add_kv_heads(w);
    snprintf(key, sizeof key, "%s.rope.freq_base", m->architecture);
    gguf_writer_f32(w->w, key, 10000.0f);
}

static void add_divisors(struct making *w) {
    for (int i = 0; i < 2; i++) {
        const uint64_t n = w->m->head_dim / 2;
        uint8_t *to =
            gguf_writer_tensor(w->w, i == 0 ? "rope_factors_short.weight" : "rope_factors_long.weight",
                               BLOCK_F32, 1, (uint64_t[]){n}, NULL);
        for (uint64_t k = 0; to != NULL && k < n; k++)
            to = random_weights_put(to, BLOCK_F32, (float)(1 + i));
    }
}

stator_status selftest_model_make(const struct selftest_model *m, int *fd, char path[SELFTEST_MODEL_PATH],
                                  stator_error *e) {
    struct gguf_writer writer = gguf_writer_new();
    struct making w = {.m = m, .w = &writer, .random = m->seed};
    add_keys(&w);
    add(&w, "token_embd.weight", m->type, m->n_embd, m->vocab);
    add(&w, is_lfm(m) ? "token_embd_norm.weight" : "output_norm.weight", BLOCK_F32, m->n_embd, 0);
    if (m->untied)
        add(&w, "output.weight", m->type, m->n_embd, m->vocab);
    if (m->longrope)
        add_divisors(&w);
    for (uint32_t i = 0; i < m->n_layers + m->nextn; i++)
        (m->key_heads > 0 ? add_hybrid_layer : add_layer)(&w, i);
    stator_status st = STATOR_OK;
    errno = ENOMEM;
    if (!gguf_writer_finish(&writer) || gguf_writer_memory_path(&writer, path) == NULL)
        st = error_set(e, STATOR_FAILED, "selftest: a model can't be written to memory: %s", strerror(errno));
    *fd = writer.fd; /* now the caller's */
    writer.fd = -1;
    gguf_writer_free(&writer);
    return st;
}
