/* model/shape: the three architectures read back with llama.cpp's defaults; contradictions are refused by
 * name. */
#include "testing.h"

#include "arch/arch.h"
#include "experts_model.h"
#include "peer_models.h"

#include <math.h>

static struct shape shape; /* large; every test fills it anew */

static stator_status read_model(struct gguf_writer *w, stator_error *e) {
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    gguf_writer_finish(w);
    if (gguf_open(gguf_writer_memory_path(w, path), &g, e) != STATOR_OK)
        fail_msg("%s", e->text);
    stator_status st = arch_read(g, &shape, e);
    gguf_close(g); /* the tensors of the shape are gone: tests look at numbers only */
    gguf_writer_free(w);
    return st;
}

static void accepted(struct gguf_writer *w) {
    stator_error e = {0};
    if (read_model(w, &e) != STATOR_OK)
        fail_msg("%s", e.text);
}

static void refused(struct gguf_writer *w, const char *part) {
    stator_error e = {0};
    stator_status st = read_model(w, &e);
    if (st != STATOR_BAD_MODEL || strstr(e.text, part) == NULL || strstr(e.text, "/proc/self/fd/") != e.text)
        fail_msg("status %d, expected \"%s\": \"%s\"", (int)st, part, e.text);
}

/* A tiny model without the named key or tensor; NULL: whole. */
static struct gguf_writer tiny(const char *arch, const char *without) {
    struct gguf_writer w = gguf_writer_new();
    w.drop[0] = without;
    tiny_model_write(&w, tiny_model_of(arch));
    w.drop[0] = NULL;
    return w;
}

/* A vision tower in a text model's file is left out; names that only look like one are not. */
static void vision_towers(void **state) {
    (void)state;
    static const char *const names[] = {"v.blk.0.attn_q.weight", "v.patch_embd.weight", "mm.0.weight"};
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    stator_error e = {0};
    struct gguf_writer w = tiny("llama", NULL);
    for (size_t i = 0; i < 3; i++)
        gguf_writer_tensor(&w, names[i], BLOCK_F32, 2, (const uint64_t[]){8, 2}, NULL);
    gguf_writer_finish(&w);
    assert_int_equal(gguf_open(gguf_writer_memory_path(&w, path), &g, &e), STATOR_OK);
    assert_int_equal(arch_read(g, &shape, &e), STATOR_OK);
    assert_int_equal(shape.vision_tensors, 3);
    assert_int_equal(shape.vision_bytes, 3 * 16 * 4);
    const uint64_t bytes = shape.tensor_bytes;
    gguf_close(g);
    gguf_writer_free(&w);
    w = tiny("llama", NULL);
    gguf_writer_finish(&w);
    assert_int_equal(gguf_open(gguf_writer_memory_path(&w, path), &g, &e), STATOR_OK);
    assert_int_equal(arch_read(g, &shape, &e), STATOR_OK);
    assert_true(shape.tensor_bytes == bytes && shape.vision_tensors == 0);
    gguf_close(g);
    gguf_writer_free(&w);
    w = tiny("llama", NULL);
    gguf_writer_tensor(&w, "blk.0.v.weight", BLOCK_F32, 2, (const uint64_t[]){8, 2}, NULL);
    refused(&w, "tensor 'blk.0.v.weight' is not known");
}

static void every_architecture(void **state) {
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    for (int i = 0; i < 3; i++) {
        for (int untied = 0; untied < 2; untied++) {
            struct gguf_writer w = gguf_writer_new();
            struct tiny_model m = tiny_model_of(archs[i]);
            char path[GGUF_WRITER_PATH];
            struct gguf *g = NULL;
            stator_error e = {0};
            m.untied = untied;
            tiny_model_write(&w, m);
            gguf_writer_text(&w, "general.name", "A name");
            gguf_writer_finish(&w);
            assert_int_equal(gguf_open(gguf_writer_memory_path(&w, path), &g, &e), STATOR_OK);
            if (arch_read(g, &shape, &e) != STATOR_OK)
                fail_msg("%s", e.text);
            assert_ptr_equal(shape.arch, arch_list[i]);
            assert_string_equal(shape.arch_name, archs[i]);
            assert_string_equal(shape.model_name, "A name");
            assert_true(shape.n_layers == 2 && shape.n_embd == 8 && shape.n_ff == 12 && shape.n_heads == 2);
            assert_true(shape.n_kv_heads == 1 && shape.head_dim_k == 32 && shape.head_dim_v == 32 &&
                        shape.n_rot == 32);
            assert_true(shape.vocab == 5 && shape.context_trained == 64 && shape.rope_base == 10000 &&
                        shape.rope_scale == 1);
            assert_true(shape.norm_eps == 1e-5f && shape.attention_scale == (float)(1 / sqrt(32.0)));
            assert_int_equal(shape.rope_neox, i != 0);
            assert_int_equal(shape.tied, !untied);
            assert_ptr_equal(shape.output,
                             gguf_find_tensor(g, untied ? "output.weight" : "token_embd.weight"));
            assert_ptr_equal(shape.layers[1].down, gguf_find_tensor(g, "blk.1.ffn_down.weight"));
            assert_ptr_equal(shape.layers[0].q_norm, gguf_find_tensor(g, "blk.0.attn_q_norm.weight"));
            assert_ptr_equal(shape.layers[0].k_bias, gguf_find_tensor(g, "blk.0.attn_k.bias"));
            assert_int_equal(shape.layers[0].q_bias != NULL, i == 1);
            assert_int_equal(shape.layers[0].q_norm != NULL, i == 2);
            assert_null(shape.layers[2].q);
            assert_null(shape.rope_freqs);
            uint64_t bytes = 0, values = 0;
            for (uint64_t t = 0; t < gguf_tensors(g); t++) {
                bytes += gguf_tensor(g, t)->bytes;
                values += gguf_tensor(g, t)->ne[0] * gguf_tensor(g, t)->ne[1];
            }
            assert_int_equal(shape.tensor_bytes, bytes);
            assert_int_equal(shape.parameters, values);
            gguf_close(g);
            gguf_writer_free(&w);
        }
    }
}

static void defaults(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    struct tiny_model m = tiny_model_of("llama");
    m.n_embd = 96;
    m.n_heads = 3;
    m.n_kv_heads = 3;
    static const char *const dropped[] = {"llama.attention.head_count_kv", "llama.attention.key_length",
                                          "llama.attention.value_length", "llama.rope.dimension_count"};
    memcpy(w.drop, dropped, sizeof dropped);
    tiny_model_write(&w, m);
    accepted(&w);
    assert_true(shape.n_kv_heads == 3 && shape.head_dim_k == 32 && shape.head_dim_v == 32 &&
                shape.n_rot == 32);

    w = gguf_writer_new();
    w.drop[0] = "llama.rope.freq_base";
    w.drop[1] = "llama.vocab_size";
    tiny_model_write(&w, tiny_model_of("llama"));
    accepted(&w);
    assert_true(shape.rope_base == 10000 && shape.vocab == 5);
    assert_int_equal(strlen(shape.model_name) > 0 && strchr(shape.model_name, '/') == NULL, 1);

    w = tiny("llama", "llama.rope.dimension_count");
    gguf_writer_u32(&w, "llama.rope.dimension_count", 16);
    gguf_writer_f32(&w, "llama.attention.scale", 0.5f);
    accepted(&w);
    assert_true(shape.n_rot == 16 && shape.attention_scale == 0.5f);
}

static void rope_scaling(void **state) {
    (void)state;
    struct gguf_writer w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "linear");
    gguf_writer_f32(&w, "llama.rope.scaling.factor", 4);
    accepted(&w);
    assert_true(shape.rope_scale == 4);
    w = tiny("llama", NULL);
    gguf_writer_f32(&w, "llama.rope.scale_linear", 2);
    accepted(&w);
    assert_true(shape.rope_scale == 2);
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "none");
    gguf_writer_f32(&w, "llama.rope.scaling.factor", 4);
    accepted(&w);
    assert_true(shape.rope_scale == 1);
    w = tiny("llama", NULL);
    gguf_writer_f32(&w, "llama.rope.scaling.factor", 0);
    accepted(&w);
    assert_true(shape.rope_scale == 1);
    w = tiny("llama", NULL);
    gguf_writer_f32(&w, "llama.rope.scaling.factor", -1);
    refused(&w, "key 'llama.rope.scaling.factor' is -1");
    w = tiny("qwen2", NULL);
    gguf_writer_text(&w, "qwen2.rope.scaling.type", "dynamic");
    refused(&w, "key 'qwen2.rope.scaling.type': RoPE scaling 'dynamic' is not supported");
    w = tiny("llama", NULL);
    gguf_writer_tensor(&w, "rope_freqs.weight", BLOCK_F32, 1, (uint64_t[]){16}, NULL);
    accepted(&w);
    w = tiny("llama", NULL);
    gguf_writer_tensor(&w, "rope_freqs.weight", BLOCK_F32, 1, (uint64_t[]){32}, NULL);
    refused(&w, "tensor 'rope_freqs.weight' has shape [32, 1, 1, 1], but the metadata says [16, 1, 1, 1]");
    w = tiny("qwen3", NULL);
    gguf_writer_tensor(&w, "rope_freqs.weight", BLOCK_F32, 1, (uint64_t[]){16}, NULL);
    refused(&w, "tensor 'rope_freqs.weight' is not known for the architecture qwen3");
}

/* Numbers by hand: 32 dimensions, base 10000, 16 tokens stretched to 64: pair 0 turns 2.5 times, pair 1 once
 * and a half. */
static void rope_stretched(void **state) {
    (void)state;
    struct gguf_writer w = tiny("qwen2", NULL);
    gguf_writer_text(&w, "qwen2.rope.scaling.type", "yarn");
    gguf_writer_f32(&w, "qwen2.rope.scaling.factor", 4);
    gguf_writer_u32(&w, "qwen2.rope.scaling.original_context_length", 16);
    accepted(&w);
    assert_true(shape.rope_scale == 4 && shape.rope_yarn.share == 1 && shape.rope_yarn.low == 0 &&
                shape.rope_yarn.width == 2);
    assert_true(shape.rope_magnitude > 1.13862f && shape.rope_magnitude < 1.13864f); /* 1 + ln 4 / 10 */
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "yarn");
    gguf_writer_f32(&w, "llama.rope.scaling.factor", 4);
    gguf_writer_f32(&w, "llama.rope.scaling.attn_factor", 2);
    gguf_writer_f32(&w, "llama.rope.scaling.yarn_ext_factor", 0);
    accepted(&w);
    assert_true(shape.rope_yarn.share == 0 && shape.rope_magnitude == 2 && shape.rope_original == 64);
    w = tiny("llama", NULL); /* the whole magnitude, in place of 1 + ln 4 / 10 */
    gguf_writer_text(&w, "llama.rope.scaling.type", "yarn");
    gguf_writer_f32(&w, "llama.rope.scaling.factor", 4);
    gguf_writer_f32(&w, "llama.rope.scaling.yarn_attn_factor", 0.75f);
    accepted(&w);
    assert_true(shape.rope_magnitude == 0.75f);
    w = tiny("llama", NULL); /* only OLMo's older files have it as attn_factor */
    gguf_writer_text(&w, "llama.rope.scaling.type", "yarn");
    gguf_writer_f32(&w, "llama.rope.scaling.factor", 4);
    gguf_writer_f32(&w, "llama.rope.scaling.attn_factor", 1.1386294f);
    accepted(&w);
    assert_true(shape.rope_magnitude > 1.296f && shape.rope_magnitude < 1.297f);
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "yarn");
    gguf_writer_f32(&w, "llama.rope.scaling.yarn_log_multiplier", 0.1f);
    refused(&w, "key 'llama.rope.scaling.yarn_log_multiplier' is 0.1");
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "yarn");
    gguf_writer_f32(&w, "llama.rope.scaling.yarn_beta_slow", 0);
    refused(&w, "key 'llama.rope.scaling.yarn_beta_slow' is 0, expected a number above 0");
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "llama3");
    refused(&w, "key 'llama.rope.scaling.type' is llama3, but tensor 'rope_freqs.weight' is missing");
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "llama3");
    gguf_writer_tensor(&w, "rope_freqs.weight", BLOCK_F32, 1, (uint64_t[]){16}, NULL);
    accepted(&w);
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "longrope");
    refused(&w, "RoPE scaling longrope: tensor 'rope_factors_long.weight' is missing");
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "llama.rope.scaling.type", "linear");
    gguf_writer_u32(&w, "llama.rope.scaling.original_context_length", 0);
    refused(&w, "key 'llama.rope.scaling.original_context_length' is 0");
}

/* The keys come before the tensors. */
static void windows(void **state) {
    (void)state;
    struct gguf_writer w = tiny("gemma3", NULL);
    gguf_writer_u32(&w, "gemma3.attention.sliding_window", 0);
    refused(&w, "key 'gemma3.attention.sliding_window' is 0");
    w = tiny("gemma3", NULL);
    gguf_writer_u32(&w, "gemma3.attention.sliding_window", 16);
    gguf_writer_u32(&w, "gemma3.attention.sliding_window_pattern", 0);
    refused(&w, "key 'gemma3.attention.sliding_window_pattern' is 0");
    w = tiny("gpt-oss", NULL);
    gguf_writer_u32(&w, "gpt-oss.attention.sliding_window", 16);
    refused(&w, "key 'gpt-oss.expert_count' is 0 or missing");
    w = tiny("gemma3", NULL);
    gguf_writer_f32(&w, "gemma3.final_logit_softcapping", -30);
    refused(&w, "key 'gemma3.final_logit_softcapping' is -30, expected 0 (none), or 1e-06 to 1e+06");
    w = tiny("gemma3", NULL);
    gguf_writer_f32(&w, "gemma3.rope.freq_base_swa", -1);
    gguf_writer_u32(&w, "gemma3.attention.sliding_window", 16);
    refused(&w, "key 'gemma3.rope.freq_base_swa' is -1");
}

/* The other way round than the pattern that gemma3 has without the key. */
static void windows_by_layer(void **state) {
    (void)state;
    struct gguf_writer w = tiny("gemma3", NULL);
    gguf_writer_u32(&w, "gemma3.attention.sliding_window", 16);
    gguf_writer_array(&w, "gemma3.attention.sliding_window_pattern", GGUF_BOOL, 2, (uint8_t[]){0, 1}, 2);
    stator_error e = {0};
    assert_int_equal(read_model(&w, &e), STATOR_BAD_MODEL); /* the keys come before the tensors */
    assert_true(!shape_has_window(&shape, 0) && shape_has_window(&shape, 1));
    w = tiny("gemma3", NULL);
    gguf_writer_u32(&w, "gemma3.attention.sliding_window", 16);
    gguf_writer_array(&w, "gemma3.attention.sliding_window_pattern", GGUF_F32, 2, (float[]){0, 1}, 8);
    refused(&w, "key 'gemma3.attention.sliding_window_pattern' has type array of f32");
}

static void missing_keys(void **state) {
    (void)state;
    static const char *const keys[] = {"general.architecture",
                                       "llama.block_count",
                                       "llama.embedding_length",
                                       "llama.feed_forward_length",
                                       "llama.context_length",
                                       "llama.attention.head_count",
                                       "llama.attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char part[96];
        struct gguf_writer w = tiny("llama", keys[i]);
        snprintf(part, sizeof part, "key '%s' is missing", keys[i]);
        refused(&w, part);
        w = tiny("llama", keys[i]);
        gguf_writer_bool(&w, keys[i], 1);
        snprintf(part, sizeof part, "key '%s' has type bool, expected", keys[i]);
        refused(&w, part);
    }
    struct gguf_writer w = tiny("llama", "llama.attention.key_length");
    refused(
        &w,
        "the head dimension of K (attention.key_length) is 4; the KV cache and the attention kernels need a "
        "multiple of 32, at most 512");
}

static void bad_numbers(void **state) {
    (void)state;
    static const struct {
        const char *key;
        uint32_t v;
        const char *part;
    } cases[] = {
        {"llama.block_count", 0, "key 'llama.block_count' is 0, expected 1 to 512"},
        {"llama.block_count", 513, "key 'llama.block_count' is 513, expected 1 to 512"},
        {"llama.block_count", UINT32_MAX, "expected 1 to 512"},
        {"llama.block_count", 1,
         "tensor 'blk.1.attn_norm.weight' belongs to layer 1, but llama.block_count is 1"},
        {"llama.block_count", 3, "tensor 'blk.2.attn_norm.weight' is missing"},
        {"llama.embedding_length", 16,
         "tensor 'token_embd.weight' has shape [8, 5, 1, 1], but the metadata says [16, 5, 1, 1]"},
        {"llama.embedding_length", 1u << 21, "expected 1 to 1048576"},
        {"llama.feed_forward_length", 16,
         "tensor 'blk.0.ffn_gate.weight' has shape [8, 12, 1, 1], but the metadata says [8, 16"},
        {"llama.feed_forward_length", 0, "key 'llama.feed_forward_length' is 0"},
        {"llama.context_length", 0, "key 'llama.context_length' is 0"},
        {"llama.attention.head_count", 0, "key 'llama.attention.head_count' is 0"},
        {"llama.attention.head_count", 4, "tensor 'blk.0.attn_q.weight' has shape [8, 64, 1, 1]"},
        {"llama.attention.head_count_kv", 3, "do not share 3 KV heads"},
        {"llama.attention.head_count_kv", 4, "do not share 4 KV heads"},
        {"llama.attention.head_count_kv", 2, "tensor 'blk.0.attn_k.weight' has shape"},
        {"llama.attention.head_count", 4096, "do not share 1 KV heads"},
        {"llama.attention.key_length", 48, "the head dimension of K (attention.key_length) is 48"},
        {"llama.attention.key_length", 544, "the head dimension of K (attention.key_length) is 544"},
        {"llama.attention.value_length", 33, "the head dimension of V (attention.value_length) is 33"},
        {"llama.attention.value_length", 64, "tensor 'blk.0.attn_v.weight' has shape [8, 32, 1, 1]"},
        {"llama.rope.dimension_count", 34, "key 'llama.rope.dimension_count' is 34, expected 2 to 32"},
        {"llama.rope.dimension_count", 31, "expected an even number"},
        {"llama.rope.dimension_count", 0, "expected 2 to 32"},
        {"llama.vocab_size", 6, "key 'llama.vocab_size' is 6, but tensor 'token_embd.weight' has 5 rows"},
        {"llama.expert_count", 8, "key 'llama.expert_used_count' is missing"},
        {"llama.expert_count", 1025, "key 'llama.expert_count' is 1025, expected 0 to 1024"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_writer w = tiny("llama", cases[i].key);
        gguf_writer_u32(&w, cases[i].key, cases[i].v);
        refused(&w, cases[i].part);
    }
    struct gguf_writer w = tiny("llama", NULL);
    gguf_writer_texts(&w, "tokenizer.ggml.tokens", 3, (const char *const[]){"a", "b", "c"});
    refused(&w, "key 'tokenizer.ggml.tokens' has 3 items, but tensor 'token_embd.weight' has 5 rows");
    w = tiny("llama", "llama.attention.layer_norm_rms_epsilon");
    gguf_writer_f32(&w, "llama.attention.layer_norm_rms_epsilon", 0);
    refused(&w, "expected a number between 0 and 1");
    w = tiny("llama", "llama.rope.freq_base");
    gguf_writer_f32(&w, "llama.rope.freq_base", 0);
    refused(&w, "key 'llama.rope.freq_base' is 0, expected a number above 0");
    w = tiny("llama", NULL);
    gguf_writer_bool(&w, "llama.attention.causal", 0);
    refused(&w, "key 'llama.attention.causal' is false");
    w = tiny("llama", NULL);
    gguf_writer_u32(&w, "llama.expert_count", 0);
    gguf_writer_bool(&w, "llama.attention.causal", 1);
    accepted(&w);
}

static void numbers_per_layer(void **state) {
    (void)state;
    static const char key[] = "llama.attention.head_count_kv";
    struct gguf_writer w = tiny("llama", key);
    gguf_writer_array(&w, key, GGUF_I32, 2, (int32_t[]){1, 1}, 8);
    accepted(&w);
    assert_int_equal(shape.n_kv_heads, 1);
    w = tiny("llama", key);
    gguf_writer_array(&w, key, GGUF_I32, 2, (int32_t[]){1, 2}, 8);
    refused(&w, "key 'llama.attention.head_count_kv' differs between layers (1 in layer 0, 2 in layer 1)");
    w = tiny("llama", key);
    gguf_writer_array(&w, key, GGUF_I32, 1, (int32_t[]){1}, 4);
    refused(&w, "key 'llama.attention.head_count_kv' has 1 items, expected one for each of the 2 layers");
    w = tiny("llama", key);
    gguf_writer_array(&w, key, GGUF_I32, 0, NULL, 0);
    refused(&w, "has 0 items");
    w = tiny("llama", key);
    gguf_writer_array(&w, key, GGUF_I32, 2, (int32_t[]){-1, -1}, 8);
    refused(&w, "key 'llama.attention.head_count_kv' is -1");
    w = tiny("llama", key);
    gguf_writer_array(&w, key, GGUF_F32, 2, (float[]){1, 1}, 8);
    refused(&w, "has type array of f32");
}

static void bad_tensors(void **state) {
    (void)state;
    static const struct {
        const char *arch, *name;
    } required[] = {{"llama", "token_embd.weight"},        {"llama", "output_norm.weight"},
                    {"llama", "blk.1.attn_v.weight"},      {"llama", "blk.0.ffn_norm.weight"},
                    {"llama", "blk.0.attn_output.weight"}, {"qwen2", "blk.0.attn_k.weight"},
                    {"qwen3", "blk.1.attn_q_norm.weight"}, {"qwen3", "blk.1.attn_k_norm.weight"}};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        char part[96];
        struct gguf_writer w = tiny(required[i].arch, required[i].name);
        snprintf(part, sizeof part, "tensor '%s' is missing", required[i].name);
        refused(&w, part);
    }
    static const struct {
        const char *arch, *name;
    } unknown[] = {{"llama", "output.bias"},
                   {"llama", "blk.0.attn_q_norm.weight"},
                   {"qwen2", "blk.0.ffn_gate.bias"},
                   {"qwen3", "blk.1.attn_output.bias"},
                   {"qwen2", "blk.1.attn_output.bias"},
                   {"llama", "blk.00.attn_output.bias"},
                   {"llama", "blk.attn_q.weight"},
                   {"llama", "blk.0"},
                   {"llama", "blk.0."},
                   {"llama", "weird"},
                   {"qwen2", "rope.freqs"}};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        char part[128];
        struct gguf_writer w = tiny(unknown[i].arch, NULL);
        gguf_writer_tensor(&w, unknown[i].name, BLOCK_F32, 1, (uint64_t[]){8}, NULL);
        snprintf(part, sizeof part, "tensor '%s' is not known for the architecture %s", unknown[i].name,
                 unknown[i].arch);
        refused(&w, part);
    }
    struct gguf_writer w = tiny("llama", NULL);
    gguf_writer_tensor(&w, "blk.4294967296.attn_q.weight", BLOCK_F32, 1, (uint64_t[]){8}, NULL);
    refused(&w, "tensor 'blk.4294967296.attn_q.weight' is not known");
    w = tiny("llama", "blk.0.attn_norm.weight");
    gguf_writer_tensor(&w, "blk.0.attn_norm.weight", BLOCK_F16, 1, (uint64_t[]){8}, NULL);
    refused(&w, "tensor 'blk.0.attn_norm.weight' has type f16, expected f32 for a vector");
    w = tiny("llama", "blk.0.attn_q.weight");
    gguf_writer_tensor(&w, "blk.0.attn_q.weight", BLOCK_F16, 3, (uint64_t[]){8, 32, 2}, NULL);
    refused(&w, "tensor 'blk.0.attn_q.weight' has shape [8, 32, 2, 1], but the metadata says [8, 64, 1, 1]");
    w = tiny("llama", NULL);
    gguf_writer_tensor(&w, "blk.0.attn_q.bias", BLOCK_F32, 1, (uint64_t[]){64}, NULL);
    gguf_writer_tensor(&w, "blk.1.attn_output.bias", BLOCK_F32, 1, (uint64_t[]){8}, NULL);
    gguf_writer_tensor(&w, "blk.0.attn_rot_embd.weight", BLOCK_F32, 1, (uint64_t[]){16}, NULL);
    gguf_writer_tensor(&w, "rope.freqs", BLOCK_F32, 1, (uint64_t[]){16}, NULL);
    accepted(&w);
}

static void architectures(void **state) {
    (void)state;
    struct gguf_writer w = tiny("llama", "general.architecture");
    gguf_writer_text(&w, "general.architecture", "mamba");
    refused(&w, "the architecture 'mamba' is not supported (`stator help models` names the models that are); "
                "known ones: llama, qwen2, qwen3");
    w = tiny("llama", "general.architecture");
    gguf_writer_text(&w, "general.architecture", "granite_with_eyes");
    refused(
        &w,
        "'granite_with_eyes' is not supported (its nearest relative that is: granite; `stator help models`");
    w = tiny("llama", "general.architecture");
    gguf_writer_text(&w, "general.architecture", "llama\033[2J");
    refused(&w, "the architecture 'llama?[2J' is not supported");
    w = tiny("llama", NULL);
    gguf_writer_text(&w, "general.name", "");
    accepted(&w);
    w = tiny("llama", NULL);
    char name[200];
    memset(name, 'n', sizeof name);
    memcpy(name + 126, "\xe4\xb8\xad", 3);
    gguf_writer_text_n(&w, "general.name", name, sizeof name);
    accepted(&w);
    assert_int_equal(strlen(shape.model_name), 126);
    w = gguf_writer_new();
    tiny_model_keys(&w, &(struct tiny_model){.arch = "llama",
                                             .n_layers = 1,
                                             .n_embd = 32,
                                             .n_ff = 1,
                                             .n_heads = 1,
                                             .n_kv_heads = 1,
                                             .head_dim = 32,
                                             .vocab = 1});
    refused(&w, "tensor 'token_embd.weight' is missing (the file has no tensors: a vocabulary only)");
}

static void reference_models(void **state) {
    (void)state;
    TESTING_NEED_SHARED("oracles/models/llama-tied.gguf");
    static const char *const models[] = {
        "llama-tied", "llama-untied", "qwen2",       "qwen3",        "quant-q8_0",   "quant-q4_0",
        "quant-q4_1", "quant-q5_0",   "quant-q5_1",  "quant-q4_k",   "quant-q5_k",   "quant-q6_k",
        "quant-q2_k", "quant-q3_k",   "quant-iq3_s", "quant-iq4_nl", "quant-iq4_xs", "gemma3",
        "phi3",       "gpt-oss",      "qwen35",      "qwen35moe",    "qwen3moe",     "mixtral"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char relative[64];
        struct gguf *g = NULL;
        stator_error e = {0};
        snprintf(relative, sizeof relative, "oracles/models/%s.gguf", models[i]);
        assert_int_equal(gguf_open(testing_shared(relative), &g, &e), STATOR_OK);
        stator_status st = arch_read(g, &shape, &e);
        if (st != STATOR_OK)
            fail_msg("%s: %d \"%s\"", models[i], (int)st, e.text);
        if (i == 0) {
            assert_true(shape.tied && shape.rope_freqs != NULL && shape.rope_freqs->ne[0] == 16 &&
                        shape.rope_base == 500000);
            assert_true(shape.n_heads == 8 && shape.n_kv_heads == 2 && shape.vocab == 512 &&
                        !shape.rope_neox);
        }
        gguf_close(g);
    }
}

static struct gguf_writer of_peer(const char *name, const char *without) {
    struct gguf_writer w = gguf_writer_new();
    w.drop[0] = without;
    for (size_t i = 0; i < PEER_MODELS; i++)
        if (strcmp(peer_models[i].name, name) == 0)
            peer_model_write(&w, &peer_models[i], BLOCK_F32);
    w.drop[0] = NULL;
    return w;
}

static void later_architectures(void **state) {
    (void)state;
    struct gguf_writer w = of_peer("glm4moe-norms", "blk.1.attn_k_norm.weight");
    refused(&w, "tensor 'blk.1.attn_k_norm.weight' is missing, but attn_q_norm.weight is there");
    w = of_peer("glm4moe-norms", "blk.0.attn_q_norm.weight");
    refused(&w, "tensor 'blk.0.attn_q_norm.weight' is missing, but attn_k_norm.weight is there");
    w = of_peer("glm4moe-norms", "glm4moe.leading_dense_block_count");
    refused(&w, "tensor 'blk.0.ffn_gate.weight' does not belong to this layer");
    w = of_peer("granite-odd", "granite.residual_scale");
    gguf_writer_f32(&w, "granite.residual_scale", -1);
    refused(&w, "key 'granite.residual_scale' is -1, expected 0 (none), or 1e-06 to 1e+06");
    w = of_peer("granite-odd", "granite.logit_scale");
    gguf_writer_f32(&w, "granite.logit_scale", 1e30f);
    refused(&w, "key 'granite.logit_scale' is 1e+30, expected");
    w = of_peer("granite-odd", NULL);
    gguf_writer_bool(&w, "granite.rope.scaling.finetuned", false);
    accepted(&w);
    assert_true(shape.no_rope && shape.logit_scale == 3 && shape.embed_scale == 12);
}

/* rope.scaling.attn_factor of YaRN multiplies 1 + ln(factor) / 10, but a file of OLMo 3 by an older converter
 * means the whole magnitude by that very number. */
static void whole_attn_factor(void **state) {
    (void)state;
    const float whole = 1.13862944f; /* 1 + ln(4) / 10 */
    static const struct {
        const char *model;
        float factor, magnitude;
    } cases[] = {{"olmo2-windows", 1.13862944f, 1.13862944f},
                 {"olmo2-windows", 1.5f, 1.5f * 1.13862944f},
                 {"llama-yarn", 1.13862944f, 1.13862944f * 1.13862944f}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_writer w = of_peer(cases[i].model, NULL);
        gguf_writer_f32(&w, i < 2 ? "olmo2.rope.scaling.attn_factor" : "llama.rope.scaling.attn_factor",
                        cases[i].factor);
        accepted(&w);
        assert_true(fabsf(shape.rope_magnitude - cases[i].magnitude) < 1e-5f * whole);
    }
}

/* The last block is the MTP head only if it has nextn tensors, or no tensors at all: qwen3next and glm4moe
 * (test_hybrid.c has qwen35). */
static void nextn_blocks(void **state) {
    (void)state;
    static const struct {
        const char *model, *arch;
        uint32_t blocks; /* that have tensors; none of nextn */
    } cases[] = {{"qwen3next-odd", "qwen3next", 5}, {"glm4moe-odd", "glm4moe", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char nextn[64], count[64];
        snprintf(nextn, sizeof nextn, "%s.nextn_predict_layers", cases[i].arch);
        snprintf(count, sizeof count, "%s.block_count", cases[i].arch);
        struct gguf_writer w = of_peer(cases[i].model, nextn);
        gguf_writer_u32(&w, nextn, 1);
        accepted(&w);
        assert_true(shape.n_layers == cases[i].blocks && shape.n_nextn == 0);
        w = of_peer(cases[i].model, count);
        gguf_writer_u32(&w, count, cases[i].blocks + 1);
        gguf_writer_u32(&w, nextn, 1);
        accepted(&w);
        assert_true(shape.n_layers == cases[i].blocks && shape.n_nextn == 1 && shape.nextn_tensors == 0);
        w = of_peer(cases[i].model, count);
        gguf_writer_u32(&w, count, cases[i].blocks + 1);
        refused(&w, "is missing");
    }
}

/* A model with experts without the named key or tensor. */
static struct gguf_writer with_experts(const char *without, struct experts_model m) {
    struct gguf_writer w = gguf_writer_new();
    w.drop[0] = without;
    experts_model_write(&w, m);
    w.drop[0] = NULL;
    return w;
}

/* 10 experts, 3 used, and a dense layer first. */
static void experts(void **state) {
    (void)state;
    const struct experts_model odd = experts_model_odd(BLOCK_F16);
    struct gguf_writer w = with_experts(NULL, odd);
    accepted(&w);
    assert_true(shape.experts.count == 10 && shape.experts.used == 3 && shape.experts.ff == 96 &&
                shape.experts.leading_dense == 1 && shape.experts.norm && !shape.experts.sigmoid &&
                shape.experts.scale == 1 && shape.experts.shared_ff == 0);
    static const struct {
        const char *key;
        uint32_t v;
        const char *part;
    } cases[] = {
        {"llama.expert_used_count", 11,
         "key 'llama.expert_used_count' is 11, but llama.expert_count is only 10"},
        {"llama.expert_used_count", 0, "key 'llama.expert_used_count' is 0"},
        {"llama.expert_used_count", 65, "key 'llama.expert_used_count' is 65, expected 1 to 64"},
        {"llama.expert_count", 12,
         "tensor 'blk.1.ffn_gate_inp.weight' has shape [160, 10, 1, 1], but the metadata says [160, 12"},
        {"llama.expert_count", 0, "tensor 'blk.1.ffn_gate.weight' is missing"},
        {"llama.expert_feed_forward_length", 64,
         "tensor 'blk.1.ffn_gate_exps.weight' has shape [160, 96, 10, 1], but the metadata says [160, 64, "
         "10, 1]"},
        {"llama.leading_dense_block_count", 0,
         "tensor 'blk.0.ffn_gate.weight' does not belong to this layer"},
        {"llama.leading_dense_block_count", 2, "tensor 'blk.1.ffn_gate.weight' is missing"},
        {"llama.leading_dense_block_count", 4, "key 'llama.leading_dense_block_count' is 4, expected 0 to 3"},
        {"llama.expert_gating_func", 4, "key 'llama.expert_gating_func' is 4, expected 0 to 3"},
        {"llama.expert_group_count", 8, "key 'llama.expert_group_count' is 8"},
        {"llama.interleave_moe_layer_step", 2, "key 'llama.interleave_moe_layer_step' is 2"},
        {"llama.expert_shared_feed_forward_length", UINT32_MAX, "expected 0 to 1048576"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        w = with_experts(cases[i].key, odd);
        gguf_writer_u32(&w, cases[i].key, cases[i].v);
        refused(&w, cases[i].part);
    }
    static const char *const missing[] = {"blk.2.ffn_down_exps.weight", "blk.1.ffn_gate_inp.weight",
                                          "blk.0.ffn_up.weight"};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        char part[96];
        w = with_experts(missing[i], odd);
        snprintf(part, sizeof part, "tensor '%s' is missing", missing[i]);
        refused(&w, part);
    }
    w = with_experts("blk.1.ffn_up_exps.weight", odd);
    gguf_writer_tensor(&w, "blk.1.ffn_up_exps.weight", BLOCK_F16, 3, (uint64_t[]){160, 96, 9}, NULL);
    refused(
        &w,
        "tensor 'blk.1.ffn_up_exps.weight' has shape [160, 96, 9, 1], but the metadata says [160, 96, 10");
    w = with_experts(NULL, odd);
    gguf_writer_tensor(&w, "blk.1.ffn_gate_shexp.weight", BLOCK_F16, 2, (uint64_t[]){160, 96}, NULL);
    refused(&w, "tensor 'blk.1.ffn_gate_shexp.weight' is not known for the architecture llama");
    static const struct {
        uint32_t function;
        bool norm, sigmoid, normed;
    } ways[] = {{0, true, false, true},
                {1, false, false, false},
                {2, false, true, false},
                {2, true, true, true},
                {3, false, false, true}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        w = with_experts(NULL, odd);
        gguf_writer_u32(&w, "llama.expert_gating_func", ways[i].function);
        gguf_writer_bool(&w, "llama.expert_weights_norm", ways[i].norm);
        gguf_writer_f32(&w, "llama.expert_weights_scale", 2.5f);
        accepted(&w);
        assert_true(shape.experts.sigmoid == ways[i].sigmoid && shape.experts.norm == ways[i].normed &&
                    shape.experts.scale == 2.5f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture),
        cmocka_unit_test(vision_towers),
        cmocka_unit_test(defaults),
        cmocka_unit_test(rope_stretched),
        cmocka_unit_test(windows),
        cmocka_unit_test(windows_by_layer),
        cmocka_unit_test(later_architectures),
        cmocka_unit_test(whole_attn_factor),
        cmocka_unit_test(nextn_blocks),
        cmocka_unit_test(rope_scaling),
        cmocka_unit_test(missing_keys),
        cmocka_unit_test(bad_numbers),
        cmocka_unit_test(numbers_per_layer),
        cmocka_unit_test(bad_tensors),
        cmocka_unit_test(architectures),
        cmocka_unit_test(reference_models),
        cmocka_unit_test(experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
