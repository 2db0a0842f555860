/* Models of experts, delta-net layers, windows and stretched RoPE with one thing changed: refused by the name
 * of the key or tensor, with what was expected and found, or computed. */
#include "engine_harness.h"
#include "peer_models.h"

#include <math.h>

enum how { LEFT_OUT, NUMBER, SIGNED, FRACTION, TEXT, TRUTHS, NUMBERS, SHAPE, HALVES };

struct change {
    const char *model;
    const char *name; /* of a key behind the architecture's, or (SHAPE, HALVES) of a tensor */
    enum how how;
    double number; /* also: the length of arrays; of SHAPE: the first value, where it is not 0 */
    const char *text;
    uint32_t ne[3];
    const char *refusal; /* a part of the message; NULL: the model runs */
};

static const struct peer_model *find(const char *name) {
    for (size_t i = 0; i < PEER_MODELS; i++)
        if (strcmp(peer_models[i].name, name) == 0)
            return &peer_models[i];
    fail_msg("no model %s", name);
    return NULL;
}

static void add_array(struct gguf_writer *w, const char *key, const struct change *c) {
    const uint64_t n = (uint64_t)c->number;
    const uint32_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const uint8_t truths[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_true(n <= 8);
    if (c->how == TRUTHS)
        gguf_writer_array(w, key, GGUF_BOOL, n, truths, n);
    else
        gguf_writer_array(w, key, GGUF_U32, n, ones, n * sizeof ones[0]);
}

static void add_change(struct gguf_writer *w, const char *key, const struct change *c) {
    const uint64_t ne[3] = {c->ne[0], c->ne[1] != 0 ? c->ne[1] : 1, c->ne[2] != 0 ? c->ne[2] : 1};
    const uint32_t dims = c->ne[2] != 0 ? 3 : c->ne[1] != 0 ? 2 : 1;
    const float values[16] = {(float)c->number, 1};
    assert_true(c->how != SHAPE || c->number == 0 || ne[0] * ne[1] * ne[2] <= 16);
    switch (c->how) {
    case LEFT_OUT:
        break;
    case NUMBER:
        gguf_writer_u32(w, key, (uint32_t)c->number);
        break;
    case SIGNED:
        gguf_writer_i32(w, key, (int32_t)c->number);
        break;
    case FRACTION:
        gguf_writer_f32(w, key, (float)c->number);
        break;
    case TEXT:
        gguf_writer_text(w, key, c->text);
        break;
    case TRUTHS:
    case NUMBERS:
        add_array(w, key, c);
        break;
    case SHAPE:
    case HALVES:
        gguf_writer_tensor(w, key, c->how == SHAPE ? BLOCK_F32 : BLOCK_F16, dims, ne,
                           c->number != 0 ? values : NULL);
        break;
    }
}

/* The model with the change opened and started as every command does it. */
static stator_status start(struct gguf_writer *w, const struct change *c, stator **s, stator_error *e) {
    const struct peer_model *m = find(c->model);
    char key[96], path[GGUF_WRITER_PATH];
    const bool tensor = c->how == SHAPE || c->how == HALVES || strncmp(c->name, "blk.", 4) == 0;
    snprintf(key, sizeof key, "%s%s%s", tensor ? "" : m->arch, tensor ? "" : ".", c->name);
    *w = gguf_writer_new();
    w->drop[0] = key;
    peer_model_write(w, m, BLOCK_F32);
    w->drop[0] = NULL;
    add_change(w, key, c);
    assert_true(gguf_writer_finish(w));
    const char *sets[] = {"memory.kv_type=f32", "memory.context=64", "memory.batch=16"};
    stator_options o = {.size = sizeof o,
                        .config = gguf_writer_memory_path(w, path),
                        .set = sets,
                        .n_set = sizeof sets / sizeof sets[0]};
    stator_status st = stator_open(&o, s, e);
    return st == STATOR_OK ? stator_start(*s, e) : st;
}

static void check_runs(stator *s, const struct change *c) {
    const struct peer_model *m = find(c->model);
    enum { TOKENS = 40 };
    int32_t ids[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = peer_token(m, i);
    float *logits = harness_logits(s, ids, TOKENS);
    for (size_t i = 0; i < (size_t)TOKENS * m->vocab; i++)
        if (!isfinite(logits[i]))
            fail_msg("%s, %s %g: logit %zu is %g", c->model, c->name, c->number, i, (double)logits[i]);
    free(logits);
}

static void check(const struct change *c) {
    struct gguf_writer w;
    stator *s = NULL;
    stator_error e = {0};
    stator_status st = start(&w, c, &s, &e);
    if (c->refusal == NULL) {
        if (st != STATOR_OK)
            fail_msg("%s, %s %g: %s", c->model, c->name, c->number, e.text);
        check_runs(s, c);
    } else if (st != STATOR_BAD_MODEL || strstr(e.text, c->refusal) == NULL)
        fail_msg("%s, %s %g: %d \"%s\", expected \"%s\"", c->model, c->name, c->number, (int)st, e.text,
                 c->refusal);
    stator_close(s);
    gguf_writer_free(&w);
}

static const struct change changes[] = {
    /* factors of matrices */
    {"llama-scales", "blk.1.attn_q.scale", SHAPE, .ne = {2},
     .refusal =
         "tensor 'blk.1.attn_q.scale' has shape [2, 1, 1, 1], expected [1]: one number for each matrix "
         "of 'blk.1.attn_q.weight'"},
    {"qwen3moe-nvfp4", "blk.1.ffn_up_exps.scale", SHAPE, .ne = {9},
     .refusal = "tensor 'blk.1.ffn_up_exps.scale' has shape [9, 1, 1, 1], expected [10]: one number"},
    {"qwen3moe-nvfp4", "blk.1.ffn_up_exps.input_scale", SHAPE, .ne = {1},
     .refusal = "tensor 'blk.1.ffn_up_exps.input_scale' has shape [1, 1, 1, 1], expected [10]: one number"},
    {"llama-scales", "blk.2.ffn_down.scale", HALVES, .ne = {1},
     .refusal = "tensor 'blk.2.ffn_down.scale' has type f16, expected f32"},
    {"llama-mqa", "blk.0.attn_qkv.scale", SHAPE, .ne = {1},
     .refusal =
         "tensor 'blk.0.attn_qkv.scale' is there, but 'blk.0.attn_qkv.weight', which it belongs to, is not"},
    {"llama-mqa", "blk.0.attn_norm.scale", SHAPE, .ne = {1},
     .refusal =
         "tensor 'blk.0.attn_norm.scale' is not known for the architecture llama: 'blk.0.attn_norm' is "
         "no matrix that may have one"},
    {"llama-experts", "blk.0.ffn_gate_inp.scale", SHAPE, .ne = {1},
     .refusal = "tensor 'blk.0.ffn_gate_inp.scale' is not known for the architecture llama"},
    {"llama-mqa", "token_embd.scale", SHAPE, .ne = {1},
     .refusal = "tensor 'token_embd.scale' is not known for the architecture llama"},
    {"llama-mqa", "output.scale", SHAPE, .ne = {1},
     .refusal = "tensor 'output.scale' is there, but 'output.weight' has type f32: only an output matrix of "
                "nvfp4 may have one"},
    {"llama-freqs", "output.scale", SHAPE, .ne = {1},
     .refusal = "tensor 'output.scale' is there, but 'output.weight', which it belongs to, is not"},
    {"llama-mqa", "blk.0.attn_k.scale", SHAPE, NAN, .ne = {1},
     .refusal = "nan at place 0, expected a finite number"},
    {"llama-experts", "blk.2.ffn_down_exps.scale", SHAPE, INFINITY, .ne = {10},
     .refusal = "tensor 'blk.2.ffn_down_exps.scale' has inf at place 0, expected a finite number"},
    {"llama-mqa", "blk.0.attn_k.scale", SHAPE, 0.5, .ne = {1}, .refusal = NULL},
    {"llama-mqa", "blk.0.attn_k.input_scale", SHAPE, NAN, .ne = {1}, .refusal = NULL},
    /* norms behind, windows, tensors that are one */
    {"glm4-odd", "blk.1.post_ffw_norm.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.post_ffw_norm.weight' is missing"},
    {"glm4-odd", "blk.1.ffn_up.weight", SHAPE, .ne = {160, 224},
     .refusal =
         "tensor 'blk.1.ffn_up.weight' has shape [160, 224, 1, 1], but the metadata says [160, 448, 1, 1]"},
    {"glm4-odd", "rope.dimension_sections", NUMBERS, 4,
     .refusal = "key 'glm4.rope.dimension_sections' is there: only models without it"},
    {"exaone4-odd", "blk.2.attn_q_norm.weight", LEFT_OUT,
     .refusal = "tensor 'blk.2.attn_q_norm.weight' is missing"},
    {"exaone4-odd", "blk.0.attn_norm.weight", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.0.attn_norm.weight' is not known for the architecture exaone4"},
    {"exaone4-windows", "attention.sliding_window_pattern", TRUTHS, 4,
     .refusal =
         "key 'exaone4.attention.sliding_window_pattern' has 4 items, expected one for each of the 5 layers"},
    {"exaone4-windows", "rope.freq_base_swa", FRACTION, -1,
     .refusal = "key 'exaone4.rope.freq_base_swa' is -1, expected a number above 0"},
    {"exaone4-windows", "attention.sliding_window", NUMBER, 0, .refusal = NULL},
    {"seed_oss-odd", "blk.0.ffn_norm.weight", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.0.ffn_norm.weight' is not known for the architecture seed_oss"},
    {"ernie4_5-odd", "expert_count", NUMBER, 8,
     .refusal = "key 'ernie4_5.expert_count' is 8: mixture-of-experts models of this architecture are not"},
    {"gemma-odd", "blk.0.post_ffw_norm.weight", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.0.post_ffw_norm.weight' is not known for the architecture gemma"},
    {"qwen2moe-odd", "expert_feed_forward_length", LEFT_OUT,
     .refusal = "key 'qwen2moe.expert_feed_forward_length' is missing"},
    {"qwen2moe-odd", "expert_shared_feed_forward_length", LEFT_OUT,
     .refusal = "tensor 'blk.0.ffn_gate_shexp.weight' has shape [160, 64, 1, 1], but the metadata says [160, "
                "224, 1, 1]"},
    {"qwen2moe-odd", "blk.1.ffn_gate_inp_shexp.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ffn_gate_inp_shexp.weight' is missing"},
    {"minimax-m2-odd", "blk.1.attn_q_norm.weight", SHAPE, .ne = {64},
     .refusal =
         "tensor 'blk.1.attn_q_norm.weight' has shape [64, 1, 1, 1], but the metadata says [320, 1, 1, 1]"},
    {"minimax-m2-odd", "expert_gating_func", NUMBER, 1, .refusal = NULL},
    {"minimax-m2-odd", "expert_gating_func", NUMBER, 3,
     .refusal =
         "tensor 'blk.0.exp_probs_b.bias' is there, but minimax-m2.expert_gating_func is 3: expected 1 "
         "(softmax) or 2 (sigmoid) with a bias"},
    {"qwen3vl-odd", "rope.dimension_sections", NUMBERS, 4, .refusal = NULL},
    {"qwen3vlmoe-odd", "expert_used_count", LEFT_OUT,
     .refusal = "key 'qwen3vlmoe.expert_used_count' is missing"},
    /* gated convolutions */
    {"lfm2-odd", "shortconv.l_cache", LEFT_OUT, .refusal = "key 'lfm2.shortconv.l_cache' is missing"},
    {"lfm2-odd", "shortconv.l_cache", NUMBER, 0,
     .refusal = "key 'lfm2.shortconv.l_cache' is 0, expected 1 to 16"},
    {"lfm2-odd", "shortconv.l_cache", NUMBER, 4,
     .refusal = "tensor 'blk.0.shortconv.conv.weight' has shape [3, 160, 1, 1], but the metadata says [4, "
                "160, 1, 1]"},
    {"lfm2-odd", "blk.0.shortconv.conv.weight", HALVES, .ne = {3, 160},
     .refusal = "tensor 'blk.0.shortconv.conv.weight' has type f16, expected f32"},
    {"lfm2-odd", "blk.1.shortconv.in_proj.weight", SHAPE, .ne = {160, 160},
     .refusal = "tensor 'blk.1.shortconv.in_proj.weight' has shape [160, 160, 1, 1], but the metadata says "
                "[160, 480, 1, 1]"},
    {"lfm2-odd", "blk.3.shortconv.out_proj.weight", LEFT_OUT,
     .refusal = "tensor 'blk.3.shortconv.out_proj.weight' is missing: by lfm2.attention.head_count_kv, 0, "
                "this layer is a convolution one"},
    {"lfm2-odd", "blk.2.shortconv.out_proj.weight", SHAPE, .ne = {160, 160},
     .refusal = "tensor 'blk.2.shortconv.out_proj.weight' is not expected: by lfm2.attention.head_count_kv, "
                "1, this layer is a full attention one"},
    {"lfm2-odd", "attention.head_count_kv", NUMBER, 1,
     .refusal = "tensor 'blk.0.shortconv.in_proj.weight' is not expected: by lfm2.attention.head_count_kv, "
                "1, this layer is a full attention one"},
    {"lfm2-odd", "attention.head_count_kv", NUMBERS, 4,
     .refusal = "key 'lfm2.attention.head_count_kv' has 4 items, expected one for each of the 5 layers"},
    {"lfm2-odd", "attention.head_count_kv", NUMBER, 0,
     .refusal = "key 'lfm2.attention.head_count_kv' is 0, expected 1 to 4096"},
    {"lfm2-odd", "expert_count", NUMBER, 8, .refusal = "key 'lfm2.expert_count' is 8: mixture-of-experts"},
    {"lfm2-odd", "token_embd_norm.weight", SHAPE, .ne = {159},
     .refusal =
         "tensor 'token_embd_norm.weight' has shape [159, 1, 1, 1], but the metadata says [160, 1, 1, 1]"},
    {"lfm2moe-odd", "leading_dense_block_count", NUMBER, 1,
     .refusal = "tensor 'blk.1.ffn_gate.weight' does not belong to this layer: lfm2moe.expert_count is 10"},
    {"hunyuan-dense-odd", "blk.1.attn_k_norm.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_k_norm.weight' is missing"},
    /* one LayerNorm */
    {"cohere2-odd", "attention.layer_norm_epsilon", LEFT_OUT,
     .refusal = "key 'cohere2.attention.layer_norm_epsilon' is missing"},
    {"cohere2-odd", "attention.sliding_window", LEFT_OUT,
     .refusal = "key 'cohere2.attention.sliding_window' is missing"},
    {"cohere2-odd", "attention.sliding_window", NUMBER, 0,
     .refusal = "key 'cohere2.attention.sliding_window' is 0, expected 1 to 2147483647"},
    {"cohere2-odd", "logit_scale", LEFT_OUT, .refusal = "key 'cohere2.logit_scale' is missing"},
    {"cohere2-odd", "logit_scale", FRACTION, -1,
     .refusal = "key 'cohere2.logit_scale' is -1, expected 0 (none), or 1e-06 to 1e+06"},
    {"cohere2-odd", "logit_scale", FRACTION, 0, .refusal = NULL},
    {"cohere2-odd", "blk.1.ffn_norm.weight", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.1.ffn_norm.weight' is not known for the architecture cohere2"},
    {"ernie4_5-moe-odd", "blk.1.exp_probs_b.bias", SHAPE, .ne = {9},
     .refusal =
         "tensor 'blk.1.exp_probs_b.bias' has shape [9, 1, 1, 1], but the metadata says [10, 1, 1, 1]"},
    {"ernie4_5-moe-odd", "interleave_moe_layer_step", NUMBER, 2,
     .refusal = "key 'ernie4_5-moe.interleave_moe_layer_step' is 2: only leading layers"},
    /* experts */
    {"qwen3moe-odd", "expert_count", NUMBER, 9,
     .refusal = "tensor 'blk.0.ffn_gate_inp.weight' has shape [160, 10, 1, 1], but the metadata says [160, "
                "9, 1, 1]"},
    {"qwen3moe-odd", "expert_count", NUMBER, 0,
     .refusal = "tensor 'blk.0.ffn_gate.weight' is missing: qwen3moe.expert_count is 0, "
                "leading_dense_block_count 0, and the shared expert has"},
    {"qwen3moe-odd", "expert_count", LEFT_OUT,
     .refusal = "tensor 'blk.0.ffn_gate.weight' is missing: qwen3moe.expert_count is 0, "
                "leading_dense_block_count 0, and the shared expert has"},
    {"qwen3moe-odd", "expert_count", SIGNED, -1,
     .refusal = "key 'qwen3moe.expert_count' is -1, expected 0 to 1024"},
    {"qwen3moe-odd", "expert_count", NUMBER, 1025,
     .refusal = "key 'qwen3moe.expert_count' is 1025, expected 0 to 1024"},
    {"qwen3moe-odd", "expert_used_count", NUMBER, 11,
     .refusal = "key 'qwen3moe.expert_used_count' is 11, but qwen3moe.expert_count is only 10"},
    {"qwen3moe-odd", "expert_used_count", NUMBER, 10, .refusal = NULL},
    {"qwen3moe-odd", "expert_used_count", NUMBER, 0,
     .refusal = "key 'qwen3moe.expert_used_count' is 0, expected 1 to 64"},
    {"qwen3moe-odd", "expert_used_count", LEFT_OUT, .refusal = "key 'qwen3moe.expert_used_count' is missing"},
    {"qwen3moe-odd", "expert_used_count", SIGNED, -3,
     .refusal = "key 'qwen3moe.expert_used_count' is -3, expected 1 to 64"},
    {"qwen3moe-odd", "expert_feed_forward_length", NUMBER, 0,
     .refusal = "key 'qwen3moe.expert_feed_forward_length' is 0, expected 1 to 1048576"},
    {"qwen3moe-odd", "expert_feed_forward_length", NUMBER, 95,
     .refusal = "tensor 'blk.0.ffn_gate_exps.weight' has shape [160, 96, 10, 1], but the metadata says [160, "
                "95, 10, 1]"},
    {"qwen3moe-odd", "expert_feed_forward_length", NUMBER, 4e9,
     .refusal = "key 'qwen3moe.expert_feed_forward_length' is 4000000000, expected 1 to 1048576"},
    {"qwen3moe-odd", "expert_weights_scale", FRACTION, 0, .refusal = NULL},
    {"qwen3moe-odd", "expert_weights_scale", FRACTION, -1,
     .refusal = "key 'qwen3moe.expert_weights_scale' is -1, expected 0 (none) to 1000000"},
    {"qwen3moe-odd", "expert_weights_scale", FRACTION, NAN,
     .refusal = "key 'qwen3moe.expert_weights_scale' is not a finite number"},
    {"qwen3moe-odd", "expert_weights_scale", FRACTION, 3e38,
     .refusal = "key 'qwen3moe.expert_weights_scale' is 3e+38, expected 0 (none) to 1000000"},
    {"qwen3moe-odd", "expert_gating_func", NUMBER, 7,
     .refusal = "key 'qwen3moe.expert_gating_func' is 7, expected 0 to 3"},
    {"qwen3moe-odd", "leading_dense_block_count", NUMBER, 4,
     .refusal = "key 'qwen3moe.leading_dense_block_count' is 4, expected 0 to 3"},
    {"qwen3moe-odd", "leading_dense_block_count", NUMBER, 1,
     .refusal = "tensor 'blk.0.ffn_gate.weight' is missing: qwen3moe.expert_count is 10, "
                "leading_dense_block_count 1, and the shared expert ha"},
    {"qwen3moe-odd", "leading_dense_block_count", SIGNED, -1,
     .refusal = "key 'qwen3moe.leading_dense_block_count' is -1, expected 0 to 3"},
    {"qwen3moe-odd", "interleave_moe_layer_step", NUMBER, 2,
     .refusal = "key 'qwen3moe.interleave_moe_layer_step' is 2: only leading layers may be without experts"},
    {"qwen3moe-odd", "expert_group_count", NUMBER, 2,
     .refusal = "key 'qwen3moe.expert_group_count' is 2: groups of experts are not supported"},
    {"qwen3moe-odd", "expert_shared_count", NUMBER, 1,
     .refusal = "keys 'qwen3moe.expert_shared_count' and 'qwen3moe.expert_shared_feed_forward_length' say "
                "that a shared expert has 96 rows, bu"},
    {"qwen3moe-odd", "blk.1.ffn_gate_inp.weight", SHAPE, .ne = {160, 11},
     .refusal = "tensor 'blk.1.ffn_gate_inp.weight' has shape [160, 11, 1, 1], but the metadata says [160, "
                "10, 1, 1]"},
    {"qwen3moe-odd", "blk.1.ffn_gate_exps.weight", SHAPE, .ne = {160, 96, 9},
     .refusal = "tensor 'blk.1.ffn_gate_exps.weight' has shape [160, 96, 9, 1], but the metadata says [160, "
                "96, 10, 1]"},
    {"qwen3moe-odd", "blk.1.ffn_down_exps.weight", SHAPE, .ne = {160, 96, 10},
     .refusal = "tensor 'blk.1.ffn_down_exps.weight' has shape [160, 96, 10, 1], but the metadata says [96, "
                "160, 10, 1]"},
    {"qwen3moe-odd", "blk.1.ffn_up_exps.weight", SHAPE, .ne = {160, 960},
     .refusal = "tensor 'blk.1.ffn_up_exps.weight' has shape [160, 960, 1, 1], but the metadata says [160, "
                "96, 10, 1]"},
    {"qwen3moe-odd", "blk.1.ffn_gate_up_exps.weight", SHAPE, .ne = {160, 192, 10},
     .refusal = "tensor 'blk.1.ffn_gate_exps.weight' is there, but its rows are in "
                "'blk.1.ffn_gate_up_exps.weight' too"},
    {"qwen35moe-fused", "blk.1.ffn_gate_up_exps.weight", SHAPE, .ne = {160, 80, 10},
     .refusal = "tensor 'blk.1.ffn_gate_up_exps.weight' has shape [160, 80, 10, 1], but the metadata says "
                "[160, 192, 10, 1]"},
    {"qwen35moe-fused", "blk.1.ffn_gate_up_exps.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ffn_gate_exps.weight' is missing"},
    {"qwen3-fused", "blk.1.attn_k.weight", SHAPE, .ne = {96, 32},
     .refusal = "tensor 'blk.1.attn_k.weight' is there, but its rows are in 'blk.1.attn_qkv.weight' too"},
    {"qwen3-fused", "blk.0.attn_k.bias", SHAPE, .ne = {32},
     .refusal = "tensor 'blk.0.attn_k.bias' is there, but its rows are in 'blk.0.attn_qkv.bias' too"},
    {"qwen2-fused", "blk.1.attn_qkv.weight", LEFT_OUT, .refusal = "tensor 'blk.1.attn_q.weight' is missing"},
    {"llama-mqa", "blk.1.attn_qkv.bias", SHAPE, .ne = {224},
     .refusal = "tensor 'blk.1.attn_qkv.bias' is there, but 'attn_qkv.weight' is not"},
    {"llama-mlp-biases", "blk.1.ffn_gate.bias", SHAPE, .ne = {223},
     .refusal =
         "tensor 'blk.1.ffn_gate.bias' has shape [223, 1, 1, 1], but the metadata says [224, 1, 1, 1]"},
    {"llama-mlp-biases", "blk.2.ffn_down.bias", SHAPE, .ne = {160, 2},
     .refusal =
         "tensor 'blk.2.ffn_down.bias' has shape [160, 2, 1, 1], but the metadata says [160, 1, 1, 1]"},
    {"llama-mlp-biases", "blk.0.ffn_up.bias", HALVES, .ne = {224},
     .refusal = "tensor 'blk.0.ffn_up.bias' has type f16, expected f32 for a vector"},
    {"llama-mlp-biases", "blk.1.ffn_up.bias", LEFT_OUT, .refusal = NULL},
    {"llama-experts", "blk.1.ffn_down.bias", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.1.ffn_down.bias' does not belong to this layer: llama.expert_count is 10, "},
    {"qwen3moe-odd", "blk.1.ffn_gate_exps.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ffn_gate_exps.weight' is missing: qwen3moe.expert_count is 10, "
                "leading_dense_block_count 0, and the shared expe"},
    {"qwen3moe-odd", "blk.3.ffn_norm.weight", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.3.ffn_norm.weight' belongs to layer 3, but qwen3moe.block_count is 3"},
    {"glm4moe-odd", "leading_dense_block_count", NUMBER, 5,
     .refusal = "key 'glm4moe.leading_dense_block_count' is 5, expected 0 to 4"},
    {"glm4moe-odd", "leading_dense_block_count", NUMBER, 3,
     .refusal = "tensor 'blk.2.ffn_gate.weight' is missing: glm4moe.expert_count is 10, "
                "leading_dense_block_count 3, and the shared expert has"},
    {"glm4moe-odd", "leading_dense_block_count", LEFT_OUT,
     .refusal = "tensor 'blk.0.ffn_gate.weight' does not belong to this layer: glm4moe.expert_count is 10, "
                "leading_dense_block_count 0, and th"},
    {"glm4moe-odd", "feed_forward_length", NUMBER, 0,
     .refusal = "key 'glm4moe.feed_forward_length' is missing or 0, but leading_dense_block_count says that "
                "there are dense layers"},
    {"glm4moe-odd", "blk.2.exp_probs_b.bias", SHAPE, .ne = {9},
     .refusal =
         "tensor 'blk.2.exp_probs_b.bias' has shape [9, 1, 1, 1], but the metadata says [10, 1, 1, 1]"},
    {"glm4moe-odd", "blk.0.exp_probs_b.bias", SHAPE, .ne = {10},
     .refusal = "tensor 'blk.0.exp_probs_b.bias' does not belong to this layer: glm4moe.expert_count is 10, "
                "leading_dense_block_count 2, and t"},
    {"glm4moe-odd", "blk.2.exp_probs_b.bias", LEFT_OUT, .refusal = NULL},
    {"glm4moe-odd", "blk.2.ffn_up_shexp.weight", LEFT_OUT,
     .refusal = "tensor 'blk.2.ffn_up_shexp.weight' is missing: glm4moe.expert_count is 10, "
                "leading_dense_block_count 2, and the shared expert"},
    {"glm4moe-odd", "blk.2.ffn_down_shexp.weight", SHAPE, .ne = {95, 160},
     .refusal = "tensor 'blk.2.ffn_down_shexp.weight' has shape [95, 160, 1, 1], but the metadata says [96, "
                "160, 1, 1]"},
    {"glm4moe-odd", "expert_shared_feed_forward_length", NUMBER, 0,
     .refusal = "tensor 'blk.2.ffn_gate_shexp.weight' does not belong to this layer: glm4moe.expert_count is "
                "10, leading_dense_block_count 2,"},
    {"glm4moe-odd", "expert_shared_feed_forward_length", LEFT_OUT, .refusal = NULL},
    {"glm4moe-odd", "expert_shared_count", NUMBER, 1025,
     .refusal = "key 'glm4moe.expert_shared_count' is 1025, expected 0 to 1024"},
    {"glm4moe-odd", "expert_gating_func", NUMBER, 3,
     .refusal = "tensor 'blk.2.exp_probs_b.bias' is there, but glm4moe.expert_gating_func is 3: expected 1 "
                "(softmax) or 2 (sigmoid) with a bias"},
    {"glm4moe-odd", "nextn_predict_layers", NUMBER, 4,
     .refusal =
         "key 'glm4moe.nextn_predict_layers' is 4, but glm4moe.block_count, which includes them, is 4"},
    {"glm4moe-odd", "nextn_predict_layers", NUMBER, 1, .refusal = NULL},
    {"granitemoe-odd", "blk.1.ffn_gate_shexp.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ffn_gate_shexp.weight' is missing: granitemoe.expert_count is 10, "
                "leading_dense_block_count 0, and the shared e"},
    {"granitemoe-odd", "expert_shared_feed_forward_length", LEFT_OUT,
     .refusal = "tensor 'blk.0.ffn_gate_shexp.weight' does not belong to this layer: granitemoe.expert_count "
                "is 10, leading_dense_block_count"},
    {"granitemoe-odd", "embedding_scale", FRACTION, INFINITY,
     .refusal = "key 'granitemoe.embedding_scale' is not a finite number"},
    /* hyper-connections, the indexer */
    {"qwen4exp-odd", "hyper_connection.count", LEFT_OUT,
     .refusal = "key 'qwen4exp.hyper_connection.count' is missing"},
    {"qwen4exp-odd", "hyper_connection.count", NUMBER, 1,
     .refusal = "key 'qwen4exp.hyper_connection.count' is 1, expected 2 to 16"},
    {"qwen4exp-odd", "hyper_connection.count", NUMBER, 2,
     .refusal = "has shape [480, 1, 1, 1], but the metadata says [320, 1, 1, 1]"},
    {"qwen4exp-odd", "hyper_connection.low_rank", NUMBER, 95,
     .refusal =
         "tensor 'output_hc_down.weight' has shape [480, 96, 1, 1], but the metadata says [480, 95, 1, 1]"},
    {"qwen4exp-odd", "blk.1.hc_attn_inject.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.hc_attn_inject.weight' is missing"},
    {"qwen4exp-odd", "blk.2.hc_ffn_norm.weight", HALVES, .ne = {480},
     .refusal = "tensor 'blk.2.hc_ffn_norm.weight' has type f16, expected f32 for a vector"},
    {"qwen4exp-odd", "n_deepstack_layers", NUMBER, 1, .refusal = "key 'qwen4exp.n_deepstack_layers' is 1"},
    {"qwen4exp-odd", "attention.indexer.key_length", NUMBER, 48,
     .refusal = "key 'qwen4exp.attention.indexer.key_length' is 48, expected a multiple of 32"},
    {"qwen4exp-odd", "attention.indexer.key_length", NUMBER, 31,
     .refusal = "key 'qwen4exp.attention.indexer.key_length' is 31, expected 32 to 512"},
    {"qwen4exp-odd", "attention.indexer.top_k", NUMBER, 254,
     .refusal = "key 'qwen4exp.attention.indexer.top_k' is 254, expected a multiple of 4"},
    {"qwen4exp-odd", "attention.compress_ratios", NUMBERS, 4,
     .refusal =
         "key 'qwen4exp.attention.compress_ratios' has 4 items, expected one for each of the 5 layers"},
    {"qwen4exp-odd", "attention.compress_ratios", NUMBERS, 5,
     .refusal =
         "key 'qwen4exp.attention.compress_ratios' is 1 in layer 0, expected 0 (no indexer), 4, 8, 16 or 32"},
    {"qwen4exp-odd", "attention.indexer.top_k", NUMBER, 4, .refusal = NULL},
    {"qwen4exp-odd", "ple.layers", NUMBERS, 2,
     .refusal = "key 'qwen4exp.ple.layers' has 2 items: only one layer with n-gram embeddings is supported"},
    {"qwen4exp-odd", "ple.layers", LEFT_OUT,
     .refusal = "tensor 'per_layer_token_embd.weight' has shape [32, 392, 1, 1], but the metadata says [0, "
                "392, 1, 1]"},
    {"qwen4exp-blocks", "ple.layers", NUMBERS, 1,
     .refusal = "tensor 'blk.1.ple_key.weight' is missing: by qwen4exp.ple.layers, this layer has n-gram "
                "embeddings"},
    {"qwen4exp-odd", "ple.ngram_size", NUMBER, 1,
     .refusal = "key 'qwen4exp.ple.ngram_size' is 1, expected 2 to 8"},
    {"qwen4exp-odd", "ple.heads_per_ngram", NUMBER, 3,
     .refusal = "key 'qwen4exp.ple.head_vocab_sizes' has 4 items, expected 6"},
    {"qwen4exp-odd", "ple.heads_per_ngram", NUMBER, 33,
     .refusal = "key 'qwen4exp.ple.heads_per_ngram' is 33, expected 1 to 32"},
    {"qwen4exp-odd", "ple.layer_multipliers", LEFT_OUT,
     .refusal = "key 'qwen4exp.ple.layer_multipliers' is missing"},
    {"qwen4exp-odd", "ple.head_offsets", SIGNED, 5,
     .refusal = "key 'qwen4exp.ple.head_offsets' has type i32, expected an array of integers"},
    {"qwen4exp-odd", "ple.eos_token_id", NUMBER, 300,
     .refusal = "key 'qwen4exp.ple.eos_token_id' is 300, but the vocabulary has 300 tokens"},
    {"qwen4exp-odd", "blk.1.ple_conv1d.weight", HALVES, .ne = {4, 480},
     .refusal = "tensor 'blk.1.ple_conv1d.weight' has type f16, expected f32"},
    {"qwen4exp-odd", "attention.compress_ratios", TRUTHS, 5,
     .refusal =
         "key 'qwen4exp.attention.compress_ratios' has type array of bool, expected an array of integers"},
    {"qwen4exp-odd", "attention.compress_ratios", NUMBER, 4,
     .refusal = "key 'qwen4exp.attention.compress_ratios' has type u32, expected an array of integers"},
    {"qwen4exp-odd", "blk.3.indexer.k_norm.weight", LEFT_OUT,
     .refusal =
         "tensor 'blk.3.indexer.k_norm.weight' is missing: by qwen4exp.full_attention_interval, 4, this "
         "layer is a full attention one"},
    {"qwen35moe-odd", "blk.0.ffn_gate_inp_shexp.weight", LEFT_OUT,
     .refusal = "tensor 'blk.0.ffn_gate_inp_shexp.weight' is missing: qwen35moe.expert_count is 10, "
                "leading_dense_block_count 0, and the share"},
    {"qwen35moe-odd", "blk.0.ffn_gate_inp_shexp.weight", SHAPE, .ne = {160, 2},
     .refusal = "tensor 'blk.0.ffn_gate_inp_shexp.weight' has shape [160, 2, 1, 1], but the metadata says "
                "[160, 1, 1, 1]"},
    {"qwen35moe-odd", "blk.0.ffn_gate_inp_shexp.weight", HALVES, .ne = {160},
     .refusal = "tensor 'blk.0.ffn_gate_inp_shexp.weight' has type f16, expected f32 for a vector"},
    {"qwen35moe-odd", "blk.0.ffn_gate_shexp.weight", LEFT_OUT,
     .refusal = "tensor 'blk.0.ffn_gate_shexp.weight' is missing: qwen35moe.expert_count is 10, "
                "leading_dense_block_count 0, and the shared ex"},
    {"qwen35moe-odd", "expert_shared_feed_forward_length", NUMBER, 63,
     .refusal = "tensor 'blk.0.ffn_gate_shexp.weight' has shape [160, 64, 1, 1], but the metadata says [160, "
                "63, 1, 1]"},
    {"llama-experts", "expert_count", NUMBER, 0,
     .refusal = "tensor 'blk.0.ffn_gate.weight' is missing: llama.expert_count is 0, "
                "leading_dense_block_count 0, and the shared expert has 0"},
    {"llama-mqa", "expert_count", NUMBER, 4, .refusal = "key 'llama.expert_used_count' is missing"},
    {"qwen2-odd", "expert_count", NUMBER, 4,
     .refusal =
         "key 'qwen2.expert_count' is 4: mixture-of-experts models of this architecture are not supported"},
    /* delta-net layers */
    {"qwen35-odd", "ssm.conv_kernel", NUMBER, 0,
     .refusal = "key 'qwen35.ssm.conv_kernel' is 0, expected 1 to 16"},
    {"qwen35-odd", "ssm.conv_kernel", NUMBER, 1,
     .refusal =
         "tensor 'blk.0.ssm_conv1d.weight' has shape [4, 320, 1, 1], but the metadata says [1, 320, 1, 1]"},
    {"qwen35-odd", "ssm.conv_kernel", NUMBER, 17,
     .refusal = "key 'qwen35.ssm.conv_kernel' is 17, expected 1 to 16"},
    {"qwen35-odd", "ssm.group_count", NUMBER, 0,
     .refusal = "key 'qwen35.ssm.group_count' is 0, expected 1 to 4096"},
    {"qwen35-odd", "ssm.group_count", NUMBER, 4,
     .refusal = "6 value heads (qwen35.ssm.time_step_rank) do not share 4 key heads (qwen35.ssm.group_count) "
                "evenly"},
    {"qwen35-odd", "ssm.group_count", NUMBER, 3,
     .refusal =
         "tensor 'blk.0.attn_qkv.weight' has shape [160, 320, 1, 1], but the metadata says [160, 384, 1, 1]"},
    {"qwen35-odd", "ssm.group_count", LEFT_OUT, .refusal = "key 'qwen35.ssm.group_count' is missing"},
    {"qwen35-odd", "ssm.time_step_rank", NUMBER, 5,
     .refusal = "5 value heads (qwen35.ssm.time_step_rank) do not share 2 key heads (qwen35.ssm.group_count) "
                "evenly"},
    {"qwen35-odd", "ssm.time_step_rank", NUMBER, 0,
     .refusal = "key 'qwen35.ssm.time_step_rank' is 0, expected 1 to 4096"},
    {"qwen35-odd", "ssm.time_step_rank", NUMBER, 4097,
     .refusal = "key 'qwen35.ssm.time_step_rank' is 4097, expected 1 to 4096"},
    {"qwen35-odd", "ssm.inner_size", NUMBER, 191,
     .refusal = "key 'qwen35.ssm.inner_size' is 191, expected a multiple of the 6 value heads "
                "(qwen35.ssm.time_step_rank)"},
    {"qwen35-odd", "ssm.inner_size", NUMBER, 0,
     .refusal = "key 'qwen35.ssm.inner_size' is 0, expected 1 to 1048576"},
    {"qwen35-odd", "ssm.inner_size", NUMBER, 96,
     .refusal =
         "tensor 'blk.0.attn_qkv.weight' has shape [160, 320, 1, 1], but the metadata says [160, 224, 1, 1]"},
    {"qwen35-odd", "ssm.state_size", SIGNED, -1,
     .refusal = "key 'qwen35.ssm.state_size' is -1, expected 1 to 256"},
    {"qwen35-odd", "ssm.state_size", NUMBER, 16,
     .refusal =
         "tensor 'blk.0.attn_qkv.weight' has shape [160, 320, 1, 1], but the metadata says [160, 256, 1, 1]"},
    {"qwen35-odd", "ssm.state_size", FRACTION, 32,
     .refusal = "key 'qwen35.ssm.state_size' has type f32, expected an integer"},
    {"qwen35-odd", "full_attention_interval", NUMBER, 0,
     .refusal = "key 'qwen35.full_attention_interval' is 0, expected 1 to 4294967295"},
    {"qwen35-odd", "full_attention_interval", NUMBER, 1,
     .refusal = "tensor 'blk.0.attn_qkv.weight' is not expected: by qwen35.full_attention_interval, 1, this "
                "layer is a full attention one"},
    {"qwen35-odd", "full_attention_interval", NUMBER, 3,
     .refusal = "tensor 'blk.2.attn_qkv.weight' is not expected: by qwen35.full_attention_interval, 3, this "
                "layer is a full attention one"},
    {"qwen35-odd", "full_attention_interval", NUMBER, 9,
     .refusal = "tensor 'blk.3.attn_qkv.weight' is missing: by qwen35.full_attention_interval, 9, this layer "
                "is a delta-net one"},
    {"qwen35-odd", "blk.1.ssm_conv1d.weight", SHAPE, .ne = {3, 320},
     .refusal =
         "tensor 'blk.1.ssm_conv1d.weight' has shape [3, 320, 1, 1], but the metadata says [4, 320, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_conv1d.weight", SHAPE, .ne = {4, 319},
     .refusal =
         "tensor 'blk.1.ssm_conv1d.weight' has shape [4, 319, 1, 1], but the metadata says [4, 320, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_conv1d.weight", HALVES, .ne = {4, 320},
     .refusal = "tensor 'blk.1.ssm_conv1d.weight' has type f16, expected f32"},
    {"qwen35-odd", "blk.1.ssm_a", SHAPE, .ne = {5},
     .refusal = "tensor 'blk.1.ssm_a' has shape [5, 1, 1, 1], but the metadata says [6, 1, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_dt.bias", SHAPE, .ne = {6, 2},
     .refusal = "tensor 'blk.1.ssm_dt.bias' has shape [6, 2, 1, 1], but the metadata says [6, 1, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_beta.weight", SHAPE, .ne = {160, 5},
     .refusal =
         "tensor 'blk.1.ssm_beta.weight' has shape [160, 5, 1, 1], but the metadata says [160, 6, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_alpha.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ssm_alpha.weight' is missing: by qwen35.full_attention_interval, 4, this "
                "layer is a delta-net one"},
    {"qwen35-odd", "blk.1.ssm_norm.weight", SHAPE, .ne = {64},
     .refusal =
         "tensor 'blk.1.ssm_norm.weight' has shape [64, 1, 1, 1], but the metadata says [32, 1, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_out.weight", SHAPE, .ne = {160, 192},
     .refusal =
         "tensor 'blk.1.ssm_out.weight' has shape [160, 192, 1, 1], but the metadata says [192, 160, 1, 1]"},
    {"qwen35-odd", "blk.3.attn_q.weight", SHAPE, .ne = {160, 320},
     .refusal =
         "tensor 'blk.3.attn_q.weight' has shape [160, 320, 1, 1], but the metadata says [160, 640, 1, 1]"},
    {"qwen35-odd", "blk.3.ssm_a", SHAPE, .ne = {6},
     .refusal = "tensor 'blk.3.ssm_a' is not expected: by qwen35.full_attention_interval, 4, this layer is a "
                "full attention one"},
    {"qwen35-odd", "blk.1.attn_q.weight", SHAPE, .ne = {160, 640},
     .refusal = "tensor 'blk.1.attn_q.weight' is not expected: by qwen35.full_attention_interval, 4, this "
                "layer is a delta-net one"},
    {"qwen35-odd", "attention.value_length", NUMBER, 32,
     .refusal = "key 'qwen35.attention.value_length' is 32, but gates lie beside heads of q, and "
                "attention.key_length is 64: only equal ones"},
    {"qwen35-odd", "rope.dimension_count", NUMBER, 66,
     .refusal = "key 'qwen35.rope.dimension_count' is 66, expected 2 to 64"},
    {"qwen35-odd", "rope.dimension_count", NUMBER, 31,
     .refusal = "key 'qwen35.rope.dimension_count' is 31, expected an even number"},
    {"qwen35-odd", "rope.dimension_count", NUMBER, 0,
     .refusal = "key 'qwen35.rope.dimension_count' is 0, expected 2 to 64"},
    {"qwen35-odd", "attention.head_count_kv", NUMBER, 2,
     .refusal = "5 attention heads (qwen35.attention.head_count) do not share 2 KV heads "
                "(qwen35.attention.head_count_kv) evenly, at most 64 e"},
    {"qwen35-odd", "attention.head_count_kv", NUMBERS, 4,
     .refusal = "key 'qwen35.attention.head_count_kv' has 4 items, expected one for each of the 5 layers"},
    {"qwen35-odd", "nextn_predict_layers", NUMBER, 5,
     .refusal = "key 'qwen35.nextn_predict_layers' is 5, but qwen35.block_count, which includes them, is 5"},
    {"qwen3next-odd", "blk.1.ssm_ba.weight", SHAPE, .ne = {160, 6},
     .refusal =
         "tensor 'blk.1.ssm_ba.weight' has shape [160, 6, 1, 1], but the metadata says [160, 12, 1, 1]"},
    {"qwen3next-odd", "blk.1.ssm_ba.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ssm_ba.weight' is missing: by"},
    {"qwen3next-odd", "blk.1.ssm_beta.weight", SHAPE, .ne = {160, 6},
     .refusal = "tensor 'blk.1.ssm_beta.weight' is not known for the architecture qwen3next"},
    {"qwen3next-odd", "blk.1.attn_gate.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_gate.weight' is missing, and there is no 'blk.1.ssm_in.weight' either"},
    {"qwen3next-odd", "blk.1.ssm_in.weight", SHAPE, .ne = {160, 512},
     .refusal = "tensors 'blk.1.attn_qkv.weight' and 'blk.1.ssm_in.weight' are both there, expected one"},
    {"qwen3next-odd", "blk.3.ssm_in.weight", SHAPE, .ne = {160, 512},
     .refusal = "tensor 'blk.3.ssm_in.weight' is not expected: by qwen3next.full_attention_interval"},
    {"qwen3next-fused", "blk.1.ssm_in.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_qkv.weight' is missing, and there is no 'blk.1.ssm_in.weight' either"},
    {"qwen3next-fused", "blk.1.ssm_in.weight", SHAPE, .ne = {160, 384},
     .refusal =
         "tensor 'blk.1.ssm_in.weight' has shape [160, 384, 1, 1], but the metadata says [160, 576, 1, 1]"},
    {"qwen3next-odd", "ssm.group_count", NUMBER, 4,
     .refusal = "6 value heads (qwen3next.ssm.time_step_rank) do not"},
    /* windows, sinks, biases */
    {"gemma3-odd", "attention.sliding_window", NUMBER, 0,
     .refusal = "key 'gemma3.attention.sliding_window' is 0, expected 1 to 2147483647"},
    {"gemma3-odd", "attention.sliding_window", SIGNED, -24,
     .refusal = "key 'gemma3.attention.sliding_window' is -24, expected 1 to 2147483647"},
    {"gemma3-odd", "attention.sliding_window", NUMBER, 1, .refusal = NULL},
    {"gemma3-odd", "attention.sliding_window", NUMBER, INT32_MAX, .refusal = NULL},
    {"gemma3-odd", "attention.sliding_window", NUMBER, UINT32_MAX,
     .refusal = "key 'gemma3.attention.sliding_window' is 4294967295, expected 1 to 2147483647"},
    {"gemma3-odd", "attention.sliding_window", LEFT_OUT, .refusal = NULL},
    {"gemma3-odd", "attention.sliding_window_pattern", NUMBER, 0,
     .refusal = "key 'gemma3.attention.sliding_window_pattern' is 0, expected 1 to 512"},
    {"gemma3-odd", "attention.sliding_window_pattern", TRUTHS, 3,
     .refusal =
         "key 'gemma3.attention.sliding_window_pattern' has 3 items, expected one for each of the 8 layers"},
    {"gemma3-odd", "attention.sliding_window_pattern", TRUTHS, 8, .refusal = NULL},
    {"gemma3-odd", "attention.sliding_window_pattern", NUMBERS, 3,
     .refusal =
         "key 'gemma3.attention.sliding_window_pattern' has 3 items, expected one for each of the 8 layers"},
    {"gemma3-odd", "attention.sliding_window_pattern", NUMBERS, 8, .refusal = NULL},
    {"gemma3-odd", "attention.sliding_window_pattern", TEXT, .text = "LLLLG",
     .refusal = "key 'gemma3.attention.sliding_window_pattern' has type string, expected an integer"},
    {"gemma3-odd", "final_logit_softcapping", FRACTION, NAN,
     .refusal = "key 'gemma3.final_logit_softcapping' is not a finite number"},
    {"gemma3-odd", "blk.1.post_ffw_norm.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.post_ffw_norm.weight' is missing"},
    {"gemma3-odd", "blk.1.post_ffw_norm.weight", SHAPE, .ne = {161},
     .refusal = "tensor 'blk.1.post_ffw_norm.weight' has shape [161, 1, 1, 1], but the metadata says [160, "
                "1, 1, 1]"},
    /* layers of Mamba-2 */
    {"granitehybrid-odd", "blk.1.ssm_d", LEFT_OUT,
     .refusal =
         "tensor 'blk.1.ssm_d' is missing: by granitehybrid.attention.head_count_kv, 0, this layer is a "
         "Mamba-2 one"},
    {"granitehybrid-odd", "blk.1.ssm_conv1d.bias", LEFT_OUT, .refusal = NULL},
    {"granitehybrid-odd", "blk.2.ssm_d", SHAPE, .ne = {1, 6},
     .refusal =
         "tensor 'blk.2.ssm_d' is not expected: by granitehybrid.attention.head_count_kv, 1, this layer "
         "is a full attention one"},
    {"granitehybrid-odd", "blk.0.ssm_norm.weight", SHAPE, .ne = {95, 2},
     .refusal =
         "tensor 'blk.0.ssm_norm.weight' has shape [95, 2, 1, 1], but the metadata says [96, 2, 1, 1]"},
    {"granitehybrid-odd", "ssm.group_count", NUMBER, 4,
     .refusal = "6 value heads (granitehybrid.ssm.time_step_rank) do not share 4 key heads"},
    {"granitehybrid-odd", "ssm.state_size", NUMBER, 257,
     .refusal = "key 'granitehybrid.ssm.state_size' is 257, expected 1 to 256"},
    /* layers of one part */
    {"nemotron_h-odd", "feed_forward_length", NUMBERS, 4,
     .refusal = "key 'nemotron_h.feed_forward_length' has 4 items, expected one for each of the 5 layers"},
    {"nemotron_h-odd", "feed_forward_length", NUMBERS, 5,
     .refusal = "layer 2 has attention by key 'nemotron_h.attention.head_count_kv' and a feed-forward by key "
                "'nemotron_h.feed_forward_length', expected one of them to be 0"},
    {"nemotron_h-odd", "attention.head_count_kv", NUMBER, 1,
     .refusal = "layer 1 has attention by key 'nemotron_h.attention.head_count_kv' and a feed-forward"},
    {"nemotron_h-odd", "blk.1.ffn_up.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ffn_up.weight' is missing: by nemotron_h.attention.head_count_kv, 0, "
                "feed_forward_length, 224, and moe_latent_size, 0, this layer is a feed-forward one"},
    {"nemotron_h-odd", "blk.0.ffn_up.weight", SHAPE, .ne = {160, 224},
     .refusal = "tensor 'blk.0.ffn_up.weight' is not expected: by nemotron_h.attention.head_count_kv, 0, "
                "feed_forward_length, 0, and moe_latent_size, 0, this layer is a Mamba-2 one"},
    {"nemotron_h-odd", "blk.1.ffn_gate.weight", SHAPE, .ne = {160, 224},
     .refusal = "tensor 'blk.1.ffn_gate.weight' is not known"},
    {"nemotron_h-odd", "blk.2.ssm_d", SHAPE, .ne = {1, 6},
     .refusal = "tensor 'blk.2.ssm_d' is not expected: by nemotron_h.attention.head_count_kv, 1, "
                "feed_forward_length, 0, and moe_latent_size, 0, this layer is a full attention one"},
    {"nemotron_h_moe-odd", "blk.1.exp_probs_b.bias", LEFT_OUT, .refusal = NULL},
    {"nemotron_h_moe-odd", "blk.1.ffn_up_shexp.weight", LEFT_OUT,
     .refusal =
         "tensor 'blk.1.ffn_up_shexp.weight' is missing: by nemotron_h_moe.attention.head_count_kv, 0"},
    {"nemotron_h_moe-latent", "moe_latent_size", LEFT_OUT,
     .refusal =
         "tensor 'blk.0.ffn_latent_down.weight' is not expected: by "
         "nemotron_h_moe.attention.head_count_kv, 0, feed_forward_length, 128, and moe_latent_size, 0, "
         "this layer is a feed-forward one"},
    {"nemotron_h_moe-latent", "moe_latent_size", NUMBER, 64,
     .refusal =
         "tensor 'blk.0.ffn_latent_down.weight' has shape [160, 96, 1, 1], but the metadata says [160, "
         "64, 1, 1]"},
    {"nemotron_h_moe-latent", "blk.3.ffn_latent_up.weight", LEFT_OUT,
     .refusal =
         "tensor 'blk.3.ffn_latent_up.weight' is missing: by nemotron_h_moe.attention.head_count_kv, 0"},
    /* latent attention, groups of experts */
    {"deepseek2-odd", "attention.key_length_mla", LEFT_OUT,
     .refusal = "key 'deepseek2.attention.key_length_mla' is missing"},
    {"deepseek2-odd", "attention.key_length_mla", NUMBER, 32,
     .refusal = "key 'deepseek2.attention.key_length_mla' is 32, expected 33 to"},
    {"deepseek2-odd", "attention.kv_lora_rank", NUMBER, 100,
     .refusal =
         "tensor 'blk.0.attn_kv_a_mqa.weight' has shape [160, 128, 1, 1], but the metadata says [160, 132"},
    {"deepseek2-odd", "attention.kv_lora_rank", NUMBER, 544,
     .refusal = "key 'deepseek2.attention.kv_lora_rank' is 544, expected 1 to 512"},
    {"deepseek2-odd", "rope.dimension_count", NUMBER, 31,
     .refusal = "key 'deepseek2.rope.dimension_count' is 31, expected an even number"},
    {"deepseek2-odd", "attention.head_count_kv", NUMBER, 5,
     .refusal = "key 'deepseek2.attention.head_count_kv' is 5, expected 1: all heads share one row of K"},
    {"deepseek2-odd", "attention.value_length_mla", NUMBER, 33,
     .refusal =
         "tensor 'blk.0.attn_v_b.weight' has shape [96, 32, 5, 1], but the metadata says [96, 33, 5, 1]"},
    {"deepseek2-odd", "attention.q_lora_rank", LEFT_OUT, .refusal = "tensor 'blk.0.attn_q"},
    {"deepseek2-odd", "attention.temperature_scale", FRACTION, 0.5,
     .refusal = "key 'deepseek2.attention.temperature_scale' is 0.5"},
    {"deepseek2-odd", "blk.1.attn_k_b.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_k_b.weight' is missing"},
    {"deepseek2-odd", "blk.1.attn_kv_b.weight", SHAPE, .ne = {96, 480}, .refusal = NULL},
    {"deepseek2-older", "attention.key_length", NUMBER, 16,
     .refusal = "key 'deepseek2.attention.key_length' is 16, expected 17 to"},
    {"deepseek2-older", "attention.value_length", LEFT_OUT,
     .refusal = "key 'deepseek2.attention.value_length' is missing"},
    {"deepseek2-older", "blk.1.attn_kv_b.weight", SHAPE, .ne = {64, 319},
     .refusal = "tensor 'blk.1.attn_kv_b.weight' has shape [64, 319, 1, 1], but the metadata says [64, 320"},
    {"deepseek2-older", "blk.1.attn_kv_b.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_k_b.weight' is missing"},
    {"deepseek2-older", "blk.1.attn_kv_b.scale", SHAPE, .ne = {1},
     .refusal = "tensor 'blk.1.attn_kv_b.scale' is not known for the architecture deepseek2"},
    {"deepseek2-odd", "expert_group_count", NUMBER, 3,
     .refusal = "key 'deepseek2.expert_group_count' is 3, expected a divisor of the 10 experts, at most 64"},
    {"deepseek2-odd", "expert_group_used_count", NUMBER, 6,
     .refusal = "key 'deepseek2.expert_group_used_count' is 6, expected 1 to 5"},
    {"deepseek2-odd", "expert_group_used_count", NUMBER, 1,
     .refusal = "key 'deepseek2.expert_used_count' is 3, but 1 groups (deepseek2.expert_group_used_count) "
                "have only 2 "
                "experts"},
    {"deepseek2-odd", "expert_group_used_count", LEFT_OUT,
     .refusal = "key 'deepseek2.expert_group_used_count' is missing"},
    /* heads by kind of layer */
    {"gemma4-odd", "attention.key_length_swa", NUMBER, 33,
     .refusal = "the head dimension of K (attention.key_length_swa) is 33"},
    {"gemma4-odd", "attention.value_length_swa", NUMBER, 64,
     .refusal = "key 'gemma4.attention.value_length_swa' is 64, expected 32 as attention.key_length_swa"},
    {"gemma4-odd", "attention.value_length", NUMBER, 64,
     .refusal = "key 'gemma4.attention.value_length' is 64, expected 96 as attention.key_length"},
    {"gemma4-odd", "attention.head_count_kv", NUMBERS, 3,
     .refusal = "key 'gemma4.attention.head_count_kv' has 3 items, expected one for each of the 7 layers"},
    {"gemma4-odd", "attention.head_count_kv", TRUTHS, 7,
     .refusal = "key 'gemma4.attention.head_count_kv' has type array of bool, expected an integer"},
    {"gemma4-odd", "attention.head_count_kv", NUMBERS, 7,
     .refusal =
         "tensor 'blk.0.attn_k.weight' has shape [160, 64, 1, 1], but the metadata says [160, 32, 1, 1]"},
    {"gemma4-odd", "attention.head_count_kv", NUMBER, 4,
     .refusal = "6 attention heads (gemma4.attention.head_count) do not share 4 KV heads"},
    {"gemma4-odd", "attention.sliding_window_pattern", TRUTHS, 7,
     .refusal =
         "key 'gemma4.attention.head_count_kv' differs between layers with a window (2 in layer 0, 1 in "
         "layer 2)"},
    {"gemma4-odd", "attention.sliding_window", LEFT_OUT,
     .refusal = "key 'gemma4.attention.sliding_window' is missing"},
    {"gemma4-odd", "rope.dimension_count_swa", NUMBER, 31,
     .refusal = "key 'gemma4.rope.dimension_count_swa' is 31, expected an even number"},
    {"gemma4-odd", "rope.dimension_count_swa", NUMBER, 34,
     .refusal = "key 'gemma4.rope.dimension_count_swa' is 34, expected 2 to 32"},
    {"gemma4-odd", "rope_freqs.weight", SHAPE, .ne = {16},
     .refusal = "tensor 'rope_freqs.weight' has shape [16, 1, 1, 1], but the metadata says [48, 1, 1, 1]"},
    {"gemma4-odd", "attention.shared_kv_layers", NUMBER, 3, .refusal = NULL},
    {"gemma4-odd", "attention.shared_kv_layers", NUMBER, 7,
     .refusal = "key 'gemma4.attention.shared_kv_layers' is 7, expected 0 to 6"},
    {"gemma4-odd", "attention.shared_kv_layers", NUMBER, 5,
     .refusal = "key 'gemma4.attention.shared_kv_layers' is 5, but layer 2 has not a window, and none of the "
                "first 2 layers"},
    {"gemma4-shared", "attention.shared_kv_layers", NUMBER, 1,
     .refusal = "tensor 'blk.3.attn_k_norm.weight' is missing"},
    {"gemma4-shared", "blk.2.attn_k_norm.weight", LEFT_OUT,
     .refusal = "tensor 'blk.2.attn_k_norm.weight' is missing"},
    {"gemma4-shared", "blk.3.attn_k.weight", SHAPE, .ne = {96, 127},
     .refusal =
         "tensor 'blk.3.attn_k.weight' has shape [96, 127, 1, 1], but the metadata says [96, 128, 1, 1]"},
    {"gemma4-shared", "blk.3.attn_k.weight", SHAPE, .ne = {96, 128}, .refusal = NULL},
    {"gemma4-odd", "embedding_length_per_layer_input", NUMBER, 32,
     .refusal = "tensor 'per_layer_token_embd.weight' is missing, but key "
                "'gemma4.embedding_length_per_layer_input' is 32"},
    {"gemma4-odd", "embedding_length_per_layer_input", NUMBER, 200000,
     .refusal = "key 'gemma4.embedding_length_per_layer_input' is 200000: at most 1048576 for all 7 layers"},
    {"gemma4-embeddings", "embedding_length_per_layer_input", NUMBER, 64,
     .refusal = "tensor 'per_layer_token_embd.weight' has shape [288, 300, 1, 1], but the metadata says "
                "[576, 300, 1, 1]"},
    {"gemma4-embeddings", "blk.4.proj.weight", LEFT_OUT,
     .refusal = "tensor 'blk.4.proj.weight' is missing, but key "
                "'gemma4.embedding_length_per_layer_input' is 32"},
    {"gemma4-odd", "blk.4.post_norm.weight", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.4.post_norm.weight' is there, but key "
                "'gemma4.embedding_length_per_layer_input' is 0"},
    {"gemma4-embeddings", "feed_forward_length", NUMBERS, 8,
     .refusal = "key 'gemma4.feed_forward_length' has 8 items, expected one for each of the 9 layers"},
    {"gemma4-embeddings", "feed_forward_length", NUMBER, 96,
     .refusal =
         "tensor 'blk.6.ffn_gate.weight' has shape [160, 224, 1, 1], but the metadata says [160, 96, 1, 1]"},
    {"gemma4-odd", "expert_count", NUMBER, 4, .refusal = "key 'gemma4.expert_used_count' is missing"},
    {"gemma4-experts", "blk.2.ffn_gate_inp.scale", LEFT_OUT,
     .refusal = "tensor 'blk.2.ffn_gate_inp.scale' is missing"},
    {"gemma4-experts", "blk.2.ffn_gate_inp.scale", SHAPE, .ne = {159},
     .refusal =
         "tensor 'blk.2.ffn_gate_inp.scale' has shape [159, 1, 1, 1], but the metadata says [160, 1, 1, "
         "1]"},
    {"gemma4-experts", "blk.1.post_ffw_norm_2.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.post_ffw_norm_2.weight' is missing"},
    {"gemma4-odd", "blk.1.pre_ffw_norm_2.weight", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.1.pre_ffw_norm_2.weight' does not belong to this layer"},
    {"gemma4-odd", "blk.1.layer_output_scale.weight", SHAPE, .ne = {2},
     .refusal = "tensor 'blk.1.layer_output_scale.weight' has shape [2, 1, 1, 1]"},
    {"gemma4-odd", "blk.1.layer_output_scale.weight", LEFT_OUT, .refusal = NULL},
    {"gemma4-values", "blk.2.attn_v.weight", LEFT_OUT, .refusal = NULL},
    {"gemma4-odd", "blk.1.attn_v.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_v.weight' is missing: this layer has a window"},
    {"gemma4-odd", "blk.1.attn_k.weight", LEFT_OUT, .refusal = "tensor 'blk.1.attn_k.weight' is missing"},
    {"gemma2-odd", "attn_logit_softcapping", FRACTION, -1,
     .refusal = "key 'gemma2.attn_logit_softcapping' is -1, expected 0 (none), or 1e-06 to 1e+06"},
    {"gemma2-odd", "final_logit_softcapping", FRACTION, 1e30,
     .refusal = "key 'gemma2.final_logit_softcapping' is 1e+30, expected 0 (none), or 1e-06 to 1e+06"},
    {"gemma2-odd", "final_logit_softcapping", FRACTION, 0, .refusal = NULL},
    {"gemma2-odd", "attention.sliding_window", LEFT_OUT, .refusal = NULL},
    {"gemma2-odd", "rope.freq_base_swa", FRACTION, -1,
     .refusal = "key 'gemma2.rope.freq_base_swa' is -1, expected a number above 0"},
    {"gemma2-odd", "blk.1.attn_q_norm.weight", SHAPE, .ne = {32},
     .refusal = "tensor 'blk.1.attn_q_norm.weight' is not known for the architecture gemma2"},
    {"olmo2-odd", "blk.1.attn_k_norm.weight", SHAPE, .ne = {160},
     .refusal =
         "tensor 'blk.1.attn_k_norm.weight' has shape [160, 1, 1, 1], but the metadata says [32, 1, 1, 1]"},
    {"olmo2-odd", "blk.1.attn_norm.weight", SHAPE, .ne = {160},
     .refusal = "tensor 'blk.1.attn_norm.weight' is not known for the architecture olmo2"},
    {"olmo2-odd", "blk.1.post_attention_norm.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.post_attention_norm.weight' is missing"},
    {"olmo2-windows", "attention.sliding_window", NUMBER, 0, .refusal = NULL},
    {"olmo2-windows", "rope.freq_base_swa", FRACTION, -1,
     .refusal = "key 'olmo2.rope.freq_base_swa' is -1, expected a number above 0"},
    {"gpt-oss-odd", "attention.sliding_window", NUMBER, 0,
     .refusal = "key 'gpt-oss.attention.sliding_window' is 0, expected 1 to 2147483647"},
    {"gpt-oss-odd", "blk.1.attn_sinks.weight", SHAPE, .ne = {4},
     .refusal =
         "tensor 'blk.1.attn_sinks.weight' has shape [4, 1, 1, 1], but the metadata says [5, 1, 1, 1]"},
    {"gpt-oss-odd", "blk.1.attn_sinks.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_sinks.weight' is missing"},
    {"gpt-oss-odd", "blk.1.ffn_gate_inp.bias", SHAPE, .ne = {11},
     .refusal =
         "tensor 'blk.1.ffn_gate_inp.bias' has shape [11, 1, 1, 1], but the metadata says [10, 1, 1, 1]"},
    {"gpt-oss-odd", "blk.1.ffn_up_exps.bias", SHAPE, .ne = {96},
     .refusal =
         "tensor 'blk.1.ffn_up_exps.bias' has shape [96, 1, 1, 1], but the metadata says [96, 10, 1, 1]"},
    {"gpt-oss-odd", "blk.1.ffn_down_exps.bias", SHAPE, .ne = {160, 9},
     .refusal =
         "tensor 'blk.1.ffn_down_exps.bias' has shape [160, 9, 1, 1], but the metadata says [160, 10, 1, 1]"},
    {"gpt-oss-odd", "blk.1.ffn_down_exps.bias", HALVES, .ne = {160, 10},
     .refusal = "tensor 'blk.1.ffn_down_exps.bias' has type f16, expected f32"},
    {"gpt-oss-odd", "blk.1.attn_output.bias", SHAPE, .ne = {161},
     .refusal =
         "tensor 'blk.1.attn_output.bias' has shape [161, 1, 1, 1], but the metadata says [160, 1, 1, 1]"},
    {"gpt-oss-odd", "blk.1.attn_q.bias", LEFT_OUT, .refusal = NULL},
    {"phi3-odd", "blk.1.attn_qkv.weight", SHAPE, .ne = {160, 223},
     .refusal =
         "tensor 'blk.1.attn_qkv.weight' has shape [160, 223, 1, 1], but the metadata says [160, 224, 1, 1]"},
    {"phi3-odd", "blk.1.ffn_up.weight", SHAPE, .ne = {160, 224},
     .refusal =
         "tensor 'blk.1.ffn_up.weight' has shape [160, 224, 1, 1], but the metadata says [160, 448, 1, 1]"},
    {"phi3-odd", "attention.sliding_window", NUMBER, 0, .refusal = NULL},
    {"phi3-odd", "attention.sliding_window", NUMBER, 7, .refusal = NULL},
    /* RoPE */
    {"llama-yarn", "rope.scaling.type", TEXT, .text = "dynamic",
     .refusal = "key 'llama.rope.scaling.type': RoPE scaling 'dynamic' is not supported (none, linear, yarn, "
                "llama3 and longrope are)"},
    {"llama-yarn", "rope.scaling.type", NUMBER, 2,
     .refusal = "key 'llama.rope.scaling.type' has type u32, expected string"},
    {"llama-yarn", "rope.scaling.factor", FRACTION, 0, .refusal = NULL},
    {"llama-yarn", "rope.scaling.factor", FRACTION, -4,
     .refusal = "key 'llama.rope.scaling.factor' is -4, expected a number of at least 0, at most 1e+06"},
    {"llama-yarn", "rope.scaling.factor", FRACTION, NAN,
     .refusal = "key 'llama.rope.scaling.factor' is not a finite number"},
    {"llama-yarn", "rope.scaling.factor", FRACTION, 1e-38,
     .refusal = "key 'llama.rope.scaling.factor' is 1e-38, expected 0 (none), or 0.001 to 1e+06"},
    {"llama-yarn", "rope.scaling.factor", FRACTION, 3e38,
     .refusal = "key 'llama.rope.scaling.factor' is 3e+38, expected a number of at least 0, at most 1e+06"},
    {"llama-yarn", "rope.scaling.factor", NUMBER, 4,
     .refusal = "key 'llama.rope.scaling.factor' has type u32, expected f32"},
    {"llama-yarn", "rope.scaling.original_context_length", NUMBER, 0,
     .refusal = "key 'llama.rope.scaling.original_context_length' is 0, expected 1 to 2147483647"},
    {"llama-yarn", "rope.scaling.original_context_length", NUMBER, 1, .refusal = NULL},
    {"llama-yarn", "rope.scaling.yarn_ext_factor", FRACTION, -1,
     .refusal = "key 'llama.rope.scaling.yarn_ext_factor' is -1, expected a number of at least 0, at most 1"},
    {"llama-yarn", "rope.scaling.yarn_ext_factor", FRACTION, 3e38,
     .refusal =
         "key 'llama.rope.scaling.yarn_ext_factor' is 3e+38, expected a number of at least 0, at most 1"},
    {"llama-yarn", "rope.scaling.yarn_attn_factor", FRACTION, 3e38,
     .refusal = "key 'llama.rope.scaling.yarn_attn_factor' is 3e+38, expected a number above 0, at most 100"},
    {"llama-yarn", "rope.scaling.yarn_beta_fast", FRACTION, 3e38,
     .refusal = "key 'llama.rope.scaling.yarn_beta_fast' is 3e+38, expected a number above 0, at most 1e+30"},
    {"llama-yarn", "rope.scaling.yarn_beta_fast", FRACTION, 1e-38, .refusal = NULL},
    {"llama-yarn", "rope.freq_base", FRACTION, 1,
     .refusal = "key 'llama.rope.freq_base' is 1, expected more than 1 with yarn"},
    {"llama-yarn", "rope.freq_base", FRACTION, 1.0000001, .refusal = NULL},
    {"llama-yarn", "rope.freq_base", FRACTION, 3e38,
     .refusal = "key 'llama.rope.freq_base' is 3e+38, expected a number above 0, at most 1e+30"},
    {"llama-mqa", "rope.freq_base", FRACTION, -10000,
     .refusal = "key 'llama.rope.freq_base' is -10000, expected a number above 0, at most 1e+30"},
    {"llama-mqa", "rope.freq_base", FRACTION, 1e-38, .refusal = NULL},
    {"llama-linear", "rope.scaling.factor", FRACTION, 1e-38,
     .refusal = "key 'llama.rope.scaling.factor' is 1e-38, expected 0 (none), or 0.001 to 1e+06"},
    {"phi3-odd", "rope_factors_long.weight", SHAPE, .ne = {15},
     .refusal =
         "tensor 'rope_factors_long.weight' has shape [15, 1, 1, 1], but the metadata says [16, 1, 1, 1]"},
    {"phi3-odd", "rope_factors_short.weight", SHAPE, .ne = {16},
     .refusal = "tensor 'rope_factors_short.weight': value 0 is 0, a positive number is expected"},
    {"phi3-odd", "rope.scaling.attn_factor", FRACTION, 0,
     .refusal = "key 'phi3.rope.scaling.attn_factor' is 0, expected a number above 0, at most 100"},
    {"phi3-odd", "rope.scaling.attn_factor", FRACTION, 3e38,
     .refusal = "key 'phi3.rope.scaling.attn_factor' is 3e+38, expected a number above 0, at most 100"},
    {"mistral3-odd", "attention.temperature_scale", FRACTION, -0.1,
     .refusal = "key 'mistral3.attention.temperature_scale' is -0.1, expected 0 (none) to 100"},
    {"mistral3-odd", "attention.temperature_scale", FRACTION, NAN,
     .refusal = "key 'mistral3.attention.temperature_scale' is not a finite number"},
    {"mistral3-odd", "attention.temperature_scale", FRACTION, 0, .refusal = NULL},
    {"mistral3-odd", "rope.scaling.type", TEXT, .text = "none",
     .refusal = "but no RoPE scaling says 'mistral3.rope.scaling.original_context_length'"},
    {"mistral3-odd", "rope.dimension_count", NUMBER, 16,
     .refusal = "key 'mistral3.rope.dimension_count' is 16, expected all 32 dimensions of a head"},
    {"mistral3-odd", "rope.scaling.yarn_log_multiplier", FRACTION, -1,
     .refusal = "key 'mistral3.rope.scaling.yarn_log_multiplier' is -1, expected a number of at least 0"},
    {"mistral3-odd", "rope.scaling.original_context_length", NUMBER, 0,
     .refusal = "key 'mistral3.rope.scaling.original_context_length' is 0"},
    /* everywhere */
    {"llama-mqa", "attention.scale", FRACTION, -1,
     .refusal = "key 'llama.attention.scale' is -1, expected a number above 0, at most 1000000"},
    {"llama-mqa", "attention.scale", FRACTION, 3e38,
     .refusal = "key 'llama.attention.scale' is 3e+38, expected a number above 0, at most 1000000"},
    {"llama-mqa", "attention.scale", FRACTION, 1e-38, .refusal = NULL},
    {"llama-mqa", "attention.layer_norm_rms_epsilon", FRACTION, NAN,
     .refusal = "key 'llama.attention.layer_norm_rms_epsilon' is not a finite number"},
    {"llama-mqa", "attention.layer_norm_rms_epsilon", FRACTION, -1e-6,
     .refusal = "key 'llama.attention.layer_norm_rms_epsilon' is -1e-06, expected a number between 0 and 1"},
    {"llama-mqa", "attention.layer_norm_rms_epsilon", FRACTION, 1e-45, .refusal = NULL},
    {"llama-mqa", "attention.head_count", NUMBER, 0,
     .refusal = "key 'llama.attention.head_count' is 0, expected 1 to 4096"},
    {"llama-mqa", "attention.head_count", NUMBER, 4e9,
     .refusal = "key 'llama.attention.head_count' is 4000000000, expected 1 to 4096"},
    {"llama-mqa", "attention.head_count_kv", NUMBER, 0,
     .refusal = "key 'llama.attention.head_count_kv' is 0, expected 1 to 4096"},
    {"llama-mqa", "attention.head_count_kv", NUMBER, 3,
     .refusal = "5 attention heads (llama.attention.head_count) do not share 3 KV heads "
                "(llama.attention.head_count_kv) evenly, at most 64 eac"},
    {"llama-mqa", "block_count", NUMBER, 4, .refusal = "tensor 'blk.3.attn_norm.weight' is missing"},
    {"llama-mqa", "block_count", NUMBER, 513, .refusal = "key 'llama.block_count' is 513, expected 1 to 512"},
};

static void every_change(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        check(&changes[i]);
}

/* One tensor for all of a key head is cut into panels; a key head that is alone need not be whole ones. */
static void fused_widths(void **state) {
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct peer_model m = *find("qwen3next-fused");
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        m.state = 24;
        m.value_heads = alone ? 4 : 6;
        m.key_heads = alone ? 1 : 3;
        peer_model_write(&w, &m, BLOCK_F32);
        assert_true(gguf_writer_finish(&w));
        const char *sets[] = {"memory.kv_type=f32", "memory.context=64", "memory.batch=16"};
        stator_options o = {
            .size = sizeof o, .config = gguf_writer_memory_path(&w, path), .set = sets, .n_set = 3};
        stator *s = NULL;
        stator_error e = {0};
        stator_status st = stator_open(&o, &s, &e);
        if (st == STATOR_OK)
            st = stator_start(s, &e);
        if (st != (alone ? STATOR_OK : STATOR_BAD_MODEL))
            fail_msg("%d: %s", (int)st, e.text);
        if (!alone)
            assert_non_null(strstr(e.text,
                                   "'blk.0.ssm_in.weight' has 24 rows of q and k and 48 of values for each "
                                   "of 3 key heads: only multiples of 16"));
        stator_close(s);
        gguf_writer_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_change), cmocka_unit_test(fused_widths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
