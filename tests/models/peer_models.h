/* Small models of odd shapes with random weights, for tools/check_peer and test_peer_models.c: 5 heads on
 * one, widths that are no multiple of 64, 10 experts of which 3 are used, windows shorter than the prompt.
 * Weights are small integers times a power of two, so that F32, F16 and Q8_0 hold the same ones. */
#ifndef STATOR_TESTS_PEER_MODELS_H
#define STATOR_TESTS_PEER_MODELS_H

#include "model/gguf_writer.h"
#include "tiny_vocab.h"

#include "formats/block.h"
#include "formats/encode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PEER_UNTIED = 1,
    PEER_BIAS = 2,       /* of q, k, v */
    PEER_OUT_BIAS = 4,   /* of attn_output */
    PEER_HEAD_NORMS = 8, /* of q, k */
    PEER_POST_NORMS = 16,
    PEER_FUSED = 32, /* qkv, gate and up */
    PEER_SINKS = 64,
    PEER_EXPERT_BIAS = 128,
    PEER_CHOICE_BIAS = 256,
    PEER_SHARED_ROUTER = 512,
    PEER_LATE_FFN_NORM = 1024, /* ffn_norm is called post_attention_norm */
    PEER_LONGROPE = 2048,
    PEER_ROPE_FREQS = 4096,
    PEER_NO_PRE_NORMS = 8192,
    PEER_WIDE_NORMS = 16384,    /* of all heads of q together, of all of k */
    PEER_NEXTN = 32768,         /* an MTP head behind the layers */
    PEER_ONE_FACTORS = 65536,   /* beta and alpha are one tensor */
    PEER_ONE_IN = 131072,       /* q, k, v and gates of delta-net layers, too */
    PEER_SCALES = 262144,       /* three in four matrices have a tensor "scale" beside them */
    PEER_NVFP4 = 524288,        /* matrices are NVFP4, with scales, if rows are whole blocks */
    PEER_ONE_QKV = 1048576,     /* q, k and v are one tensor; so are their biases in every other layer */
    PEER_THREE_QKV = 2097152,   /* they are not, though the architecture's are */
    PEER_ONE_GATE_UP = 4194304, /* gate and up of experts are one tensor */
    PEER_FUSED_FF = 8388608,    /* gate and up are one tensor, q, k and v are not */
    PEER_FF_BIAS = 16777216,    /* of gate, up and down of the dense feed-forward */
    PEER_ONE_NORM = 67108864,   /* of a layer, a LayerNorm */
    PEER_SHORT_CONV = 33554432, /* two of three layers have a gated convolution */
    PEER_LAYER_SCALE = 134217728,
    PEER_BESIDE = 536870912, /* experts beside the dense feed-forward */
    PEER_SSD = 1073741824,   /* two of three layers are of Mamba-2 */
    PEER_NO_V = 268435456    /* in layers without a window, if these have heads of their own */
};

enum { PEER_TOKENS = 200, PEER_CONTEXT = 256 };

struct peer_key { /* behind the architecture's name; whole numbers, unless one of the others is there */
    const char *name;
    uint32_t number;
    float fraction;
    const char *text;
    bool yes;
};

struct peer_model {
    const char *name, *arch;
    uint32_t layers, embd, ff, heads, kv_heads, dim, vocab;
    uint32_t flags;
    uint32_t rot; /* 0: dim */
    uint32_t experts, used, expert_ff, shared_ff, leading;
    uint32_t key_heads, value_heads, state,
        taps;          /* of delta-net layers, 3 of 4; taps: also of PEER_SHORT_CONV */
    uint32_t inner;    /* values of all heads of PEER_SSD */
    uint32_t original; /* context before longrope or yarn */
    /* Heads of every third layer, which has no window; wide_dim 0: layers are alike. */
    uint32_t wide_dim, wide_kv_heads;
    uint32_t layer_embd;      /* of an embedding of each layer; 0: none */
    uint32_t shared_kv;       /* so many last layers have no K and V, */
    uint32_t shared_ff_width; /* and their feed-forward is so wide; 0: as in others */
    const char *parts; /* of layers that are one part each: M Mamba-2, * attention, F feed-forward without
                          gates; of an MTP head X, attention and feed-forward; or NULL */
    uint32_t latent;   /* width that experts work on; 0: embd */
    uint32_t
        older; /* attn_kv_b is in one piece, and the numbers of heads are those before they are absorbed */
    uint32_t kv_rank, q_rank, nope, dim_v; /* of latent attention; kv_rank 0: attention is another */
    uint32_t pooling;                      /* pooling_type: the model makes embeddings; 0: it makes logits */
    uint32_t dense;         /* values between the matrices behind the layers; 0: there are none */
    uint32_t streams, rank; /* of hyper-connections; streams 0: none */
    uint32_t index_heads, index_dim, top_k, ratio; /* of the indexer of layers with attention; ratio 0: they
                                                      see all */
    struct {
        uint32_t layer, size, heads_each, dim, taps, rows, eos;
    } ngram; /* embeddings; size 0: none. Of each head so many rows */
    struct peer_key keys[11];
};

static const struct peer_model peer_models[] = {
    {"llama-mqa", "llama", 3, 160, 224, 5, 1, 32, 300, .flags = PEER_UNTIED},
    {"llama-freqs", "llama", 2, 96, 160, 6, 2, 64, 257, .flags = PEER_BIAS | PEER_ROPE_FREQS},
    {"llama-linear", "llama", 2, 96, 96, 3, 3, 96, 130,
     .keys = {{"rope.scaling.type", .text = "linear"}, {"rope.scaling.factor", .fraction = 2.5f}}},
    {"llama-yarn", "llama", 2, 96, 96, 3, 1, 64, 130,
     .keys = {{"rope.scaling.type", .text = "yarn"},
              {"rope.scaling.factor", .fraction = 4},
              {"rope.scaling.original_context_length", 64}}},
    {"llama-experts", "llama", 3, 160, 96, 5, 1, 32, 300, .flags = PEER_UNTIED, .experts = 10, .used = 3,
     .expert_ff = 96},
    {"mistral3-odd", "mistral3", 3, 160, 224, 5, 1, 32, 300, .flags = PEER_UNTIED,
     .keys = {{"rope.scaling.type", .text = "yarn"},
              {"rope.scaling.factor", .fraction = 16},
              {"rope.scaling.original_context_length", 24},
              {"rope.scaling.yarn_log_multiplier", .fraction = 1},
              {"attention.temperature_scale", .fraction = 0.1f}}},
    {"mistral3-experts", "mistral3", 2, 96, 96, 6, 2, 64, 300, .experts = 4, .used = 2, .expert_ff = 96,
     .keys = {{"rope.scaling.type", .text = "yarn"},
              {"rope.scaling.factor", .fraction = 4},
              {"rope.scaling.original_context_length", 64}}},
    {"qwen2-odd", "qwen2", 2, 160, 288, 5, 5, 32, 300, .flags = PEER_BIAS},
    {"qwen3-odd", "qwen3", 3, 96, 160, 7, 1, 96, 300, .flags = PEER_HEAD_NORMS},
    {"qwen3moe-odd", "qwen3moe", 3, 160, 96, 5, 1, 64, 300, .flags = PEER_HEAD_NORMS | PEER_UNTIED,
     .experts = 10, .used = 3, .expert_ff = 96},
    {"qwen3moe-one", "qwen3moe", 2, 96, 96, 3, 3, 32, 200, .flags = PEER_HEAD_NORMS, .experts = 3, .used = 1,
     .expert_ff = 32},
    {"qwen35-odd", "qwen35", 5, 160, 224, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM, .key_heads = 2, .value_heads = 6, .state = 32, .taps = 4},
    {"qwen35-equal", "qwen35", 8, 96, 96, 3, 3, 32, 200, .rot = 16,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_UNTIED, .key_heads = 3, .value_heads = 3,
     .state = 64, .taps = 4},
    {"qwen35moe-odd", "qwen35moe", 5, 160, 0, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_SHARED_ROUTER, .experts = 10, .used = 3,
     .expert_ff = 96, .shared_ff = 64, .key_heads = 1, .value_heads = 5, .state = 32, .taps = 4},
    {"qwen35-nextn", "qwen35", 4, 96, 160, 4, 2, 32, 200, .rot = 16,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_UNTIED | PEER_NEXTN, .key_heads = 2,
     .value_heads = 4, .state = 32, .taps = 4},
    {"qwen35moe-nextn", "qwen35moe", 4, 160, 0, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_SHARED_ROUTER | PEER_NEXTN, .experts = 10,
     .used = 3, .expert_ff = 96, .shared_ff = 64, .key_heads = 1, .value_heads = 5, .state = 32, .taps = 4},
    {"qwen3next-odd", "qwen3next", 5, 160, 0, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_SHARED_ROUTER | PEER_ONE_FACTORS | PEER_UNTIED,
     .experts = 10, .used = 3, .expert_ff = 96, .shared_ff = 64, .key_heads = 2, .value_heads = 6,
     .state = 32, .taps = 4},
    {"qwen3next-equal", "qwen3next", 4, 96, 0, 3, 3, 32, 200, .rot = 16,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_SHARED_ROUTER | PEER_ONE_FACTORS, .experts = 4,
     .used = 2, .expert_ff = 32, .shared_ff = 32, .key_heads = 3, .value_heads = 3, .state = 64, .taps = 4},
    {"qwen3next-fused", "qwen3next", 4, 160, 0, 5, 1, 32, 300, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_SHARED_ROUTER | PEER_ONE_FACTORS | PEER_ONE_IN,
     .experts = 4, .used = 2, .expert_ff = 32, .shared_ff = 32, .key_heads = 3, .value_heads = 6, .state = 32,
     .taps = 4},
    {"gemma2-odd", "gemma2", 5, 160, 224, 5, 1, 32, 300, .flags = PEER_POST_NORMS,
     .keys = {{"attention.sliding_window", 24},
              {"attn_logit_softcapping", .fraction = 1.5f},
              {"final_logit_softcapping", .fraction = 2}}},
    {"gemma2-wide", "gemma2", 2, 96, 160, 4, 2, 256, 200, .flags = PEER_POST_NORMS,
     .keys = {{"attention.sliding_window", 4096}}},
    {"gemma3-odd", "gemma3", 8, 160, 224, 5, 1, 32, 300, .flags = PEER_HEAD_NORMS | PEER_POST_NORMS,
     .keys = {{"attention.sliding_window", 24}, {"rope.freq_base", .fraction = 1e6f}}},
    {"olmo2-odd", "olmo2", 3, 160, 224, 5, 1, 32, 300,
     .flags = PEER_WIDE_NORMS | PEER_POST_NORMS | PEER_NO_PRE_NORMS | PEER_UNTIED},
    {"olmo2-windows", "olmo2", 5, 192, 160, 6, 2, 32, 200,
     .flags = PEER_WIDE_NORMS | PEER_POST_NORMS | PEER_NO_PRE_NORMS | PEER_UNTIED,
     .keys = {{"attention.sliding_window", 24},
              {"rope.scaling.type", .text = "yarn"},
              {"rope.scaling.factor", .fraction = 4},
              {"rope.scaling.original_context_length", 64}}},
    {"phi3-odd", "phi3", 3, 160, 224, 5, 1, 32, 300, .flags = PEER_FUSED | PEER_LONGROPE | PEER_UNTIED,
     .original = 64, .keys = {{"rope.scaling.attn_factor", .fraction = 1.19f}}},
    {"phi3-short", "phi3", 2, 288, 160, 3, 3, 96, 300, .rot = 64, .flags = PEER_FUSED | PEER_LONGROPE,
     .original = 512, .keys = {{"rope.scaling.attn_factor", .fraction = 1.1f}}},
    {"gpt-oss-odd", "gpt-oss", 4, 160, 96, 5, 1, 32, 300,
     .flags = PEER_BIAS | PEER_OUT_BIAS | PEER_SINKS | PEER_EXPERT_BIAS | PEER_LATE_FFN_NORM | PEER_UNTIED,
     .experts = 10, .used = 3, .expert_ff = 96,
     .keys = {{"attention.sliding_window", 24},
              {"rope.scaling.type", .text = "yarn"},
              {"rope.scaling.factor", .fraction = 32},
              {"rope.scaling.original_context_length", 64}}},
    {"smollm3-odd", "smollm3", 5, 160, 224, 5, 1, 32, 300, .keys = {{"rope.freq_base", .fraction = 5e6f}}},
    {"granite-odd", "granite", 3, 160, 224, 5, 1, 32, 300,
     .keys = {{"embedding_scale", .fraction = 12},
              {"residual_scale", .fraction = 0.22f},
              {"logit_scale", .fraction = 3},
              {"attention.scale", .fraction = 0.05f}}},
    {"granitemoe-odd", "granitemoe", 3, 160, 96, 5, 1, 32, 300, .flags = PEER_UNTIED, .experts = 10,
     .used = 3, .expert_ff = 96, .shared_ff = 64,
     .keys = {{"embedding_scale", .fraction = 2},
              {"residual_scale", .fraction = 0.5f},
              {"logit_scale", .fraction = 1.5f}}},
    {"granitemoe-plain", "granitemoe", 2, 96, 96, 3, 3, 32, 200, .experts = 4, .used = 2, .expert_ff = 96,
     .keys = {{"logit_scale", .fraction = 1}}},
    {"glm4moe-odd", "glm4moe", 4, 160, 224, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_BIAS | PEER_LATE_FFN_NORM | PEER_CHOICE_BIAS | PEER_UNTIED, .experts = 10, .used = 3,
     .expert_ff = 96, .shared_ff = 96, .leading = 2,
     .keys = {{"expert_weights_scale", .fraction = 2.5f},
              {"expert_gating_func", 2},
              {"expert_shared_count", 1},
              {"expert_weights_norm", .yes = true}}},
    {"glm4moe-norms", "glm4moe", 3, 96, 160, 6, 2, 32, 300, .rot = 16,
     .flags = PEER_BIAS | PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_CHOICE_BIAS | PEER_UNTIED, .experts = 4,
     .used = 2, .expert_ff = 32, .shared_ff = 64, .leading = 1,
     .keys = {{"expert_weights_scale", .fraction = 1},
              {"expert_gating_func", 2},
              {"expert_shared_count", 2},
              {"expert_weights_norm", .yes = true}}},
    {"llama-scales", "llama", 3, 160, 224, 5, 1, 32, 300,
     .flags = PEER_UNTIED | PEER_SCALES | PEER_BIAS | PEER_OUT_BIAS},
    {"phi3-scales", "phi3", 3, 160, 224, 5, 1, 32, 300,
     .flags = PEER_FUSED | PEER_LONGROPE | PEER_UNTIED | PEER_SCALES, .original = 64,
     .keys = {{"rope.scaling.attn_factor", .fraction = 1.19f}}},
    {"gemma3-scales", "gemma3", 7, 160, 224, 5, 1, 32, 300,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_SCALES, .keys = {{"attention.sliding_window", 24}}},
    {"gpt-oss-scales", "gpt-oss", 4, 160, 96, 5, 1, 32, 300,
     .flags = PEER_BIAS | PEER_OUT_BIAS | PEER_SINKS | PEER_EXPERT_BIAS | PEER_LATE_FFN_NORM | PEER_UNTIED |
              PEER_SCALES,
     .experts = 10, .used = 3, .expert_ff = 96,
     .keys = {{"attention.sliding_window", 24},
              {"rope.scaling.type", .text = "yarn"},
              {"rope.scaling.factor", .fraction = 32},
              {"rope.scaling.original_context_length", 64}}},
    {"qwen35moe-scales", "qwen35moe", 5, 160, 0, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_SHARED_ROUTER | PEER_SCALES, .experts = 10,
     .used = 3, .expert_ff = 96, .shared_ff = 64, .key_heads = 1, .value_heads = 5, .state = 32, .taps = 4},
    {"qwen35-scales-nextn", "qwen35", 4, 96, 160, 4, 2, 32, 200, .rot = 16,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_UNTIED | PEER_NEXTN | PEER_SCALES, .key_heads = 2,
     .value_heads = 4, .state = 32, .taps = 4},
    {"qwen2-fused", "qwen2", 3, 160, 288, 5, 1, 32, 300, .flags = PEER_BIAS | PEER_ONE_QKV},
    {"qwen2-plain", "qwen2", 2, 96, 96, 3, 1, 32, 200, .flags = PEER_UNTIED},
    {"qwen3-fused", "qwen3", 3, 96, 160, 7, 1, 32, 300,
     .flags = PEER_HEAD_NORMS | PEER_ONE_QKV | PEER_BIAS | PEER_SCALES},
    {"phi3-apart", "phi3", 2, 160, 224, 5, 5, 32, 300,
     .flags = PEER_FUSED | PEER_THREE_QKV | PEER_LONGROPE | PEER_BIAS, .original = 64,
     .keys = {{"rope.scaling.attn_factor", .fraction = 1.19f}}},
    {"granite-biases", "granite", 2, 160, 224, 5, 1, 32, 300,
     .flags = PEER_BIAS | PEER_OUT_BIAS | PEER_ROPE_FREQS,
     .keys = {{"residual_scale", .fraction = 0.22f}, {"logit_scale", .fraction = 3}}},
    {"llama-long", "llama", 2, 96, 160, 6, 2, 64, 257, .flags = PEER_LONGROPE, .original = 64,
     .keys = {{"rope.scaling.type", .text = "longrope"}, {"rope.scaling.attn_factor", .fraction = 1.19f}}},
    {"qwen35moe-fused", "qwen35moe", 5, 160, 0, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_SHARED_ROUTER | PEER_ONE_GATE_UP, .experts = 10,
     .used = 3, .expert_ff = 96, .shared_ff = 64, .key_heads = 1, .value_heads = 5, .state = 32, .taps = 4},
    {"seed_oss-odd", "seed_oss", 3, 160, 224, 5, 1, 32, 300,
     .flags = PEER_BIAS | PEER_LATE_FFN_NORM | PEER_UNTIED},
    {"exaone4-odd", "exaone4", 3, 160, 224, 5, 1, 32, 300,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_NO_PRE_NORMS | PEER_ROPE_FREQS},
    {"exaone4-windows", "exaone4", 5, 96, 160, 3, 3, 64, 200,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_NO_PRE_NORMS | PEER_UNTIED,
     .keys = {{"attention.sliding_window", 24}}},
    {"ernie4_5-odd", "ernie4_5", 3, 160, 224, 5, 1, 32, 300, .flags = PEER_OUT_BIAS},
    {"glm4-odd", "glm4", 3, 160, 224, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_BIAS | PEER_POST_NORMS | PEER_FUSED_FF | PEER_UNTIED},
    {"gemma-odd", "gemma", 3, 160, 224, 5, 1, 32, 300, .rot = 32},
    {"qwen2moe-odd", "qwen2moe", 3, 160, 224, 5, 1, 32, 300,
     .flags = PEER_BIAS | PEER_SHARED_ROUTER | PEER_UNTIED, .experts = 10, .used = 3, .expert_ff = 96,
     .shared_ff = 64},
    {"minimax-m2-odd", "minimax-m2", 3, 160, 96, 5, 1, 64, 300, .rot = 32,
     .flags = PEER_WIDE_NORMS | PEER_CHOICE_BIAS | PEER_UNTIED, .experts = 10, .used = 3, .expert_ff = 96,
     .keys = {{"expert_gating_func", 2}}},
    {"qwen2vl-odd", "qwen2vl", 2, 160, 288, 5, 5, 32, 300, .flags = PEER_BIAS},
    {"qwen3vl-odd", "qwen3vl", 3, 96, 160, 7, 1, 96, 300, .flags = PEER_HEAD_NORMS,
     .keys = {{"n_deepstack_layers", 3}}},
    {"qwen3vlmoe-odd", "qwen3vlmoe", 3, 160, 96, 5, 1, 64, 300, .flags = PEER_HEAD_NORMS | PEER_UNTIED,
     .experts = 10, .used = 3, .expert_ff = 96, .keys = {{"n_deepstack_layers", 3}}},
    {"llama-mlp-biases", "llama", 3, 160, 224, 5, 1, 32, 300,
     .flags = PEER_UNTIED | PEER_BIAS | PEER_OUT_BIAS | PEER_FF_BIAS | PEER_SCALES},
    {"lfm2-odd", "lfm2", 5, 160, 224, 5, 1, 32, 300, .flags = PEER_HEAD_NORMS | PEER_SHORT_CONV, .taps = 3},
    {"lfm2-wide", "lfm2", 4, 288, 160, 3, 3, 64, 200,
     .flags = PEER_HEAD_NORMS | PEER_SHORT_CONV | PEER_UNTIED | PEER_SCALES, .taps = 16,
     .keys = {{"attention.sliding_window", 24}}},
    {"lfm2-one", "lfm2", 3, 96, 96, 3, 1, 32, 200, .flags = PEER_HEAD_NORMS | PEER_SHORT_CONV, .taps = 1},
    {"lfm2moe-odd", "lfm2moe", 5, 160, 224, 5, 1, 32, 300,
     .flags = PEER_HEAD_NORMS | PEER_SHORT_CONV | PEER_CHOICE_BIAS, .experts = 10, .used = 3, .expert_ff = 96,
     .leading = 2, .taps = 4, .keys = {{"expert_gating_func", 2}}},
    {"cohere2-odd", "cohere2", 5, 160, 224, 5, 1, 32, 300, .flags = PEER_ONE_NORM,
     .keys = {{"attention.sliding_window", 24}, {"logit_scale", .fraction = 0.25f}}},
    {"cohere2-wide", "cohere2", 4, 288, 160, 3, 3, 64, 200, .flags = PEER_ONE_NORM | PEER_BIAS | PEER_SCALES,
     .keys = {{"attention.sliding_window", 64}, {"logit_scale", .fraction = 2}}},
    {"ernie4_5-moe-odd", "ernie4_5-moe", 4, 160, 224, 5, 1, 32, 300, .flags = PEER_CHOICE_BIAS, .experts = 10,
     .used = 3, .expert_ff = 96, .shared_ff = 64, .leading = 1},
    {"ernie4_5-moe-plain", "ernie4_5-moe", 3, 96, 96, 3, 3, 32, 200, .flags = PEER_UNTIED | PEER_OUT_BIAS,
     .experts = 4, .used = 2, .expert_ff = 32},
    {"gemma4-odd", "gemma4", 7, 160, 224, 6, 2, 32, 300, .wide_dim = 96, .wide_kv_heads = 1,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_LAYER_SCALE | PEER_NO_V,
     .keys = {{"attention.sliding_window", 24},
              {"rope.freq_base", .fraction = 1e6f},
              {"final_logit_softcapping", .fraction = 2}}},
    {"gemma4-wide", "gemma4", 4, 288, 160, 4, 1, 256, 200, .wide_dim = 512, .wide_kv_heads = 2,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_UNTIED | PEER_SCALES | PEER_NO_V,
     .keys = {{"attention.sliding_window", 64}}},
    {"gemma4-values", "gemma4", 3, 96, 96, 3, 3, 64, 200, .wide_dim = 32, .wide_kv_heads = 3, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_LAYER_SCALE,
     .keys = {{"attention.sliding_window", 5}, {"attention.scale", .fraction = 0.25f}}},
    {"gemma4-embeddings", "gemma4", 9, 160, 96, 6, 2, 32, 300, .wide_dim = 96, .wide_kv_heads = 1,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_LAYER_SCALE, .layer_embd = 32, .shared_kv = 3,
     .shared_ff_width = 224,
     .keys = {{"attention.sliding_window", 24}, {"final_logit_softcapping", .fraction = 2}}},
    {"gemma4-experts", "gemma4", 3, 160, 96, 6, 2, 32, 300, .wide_dim = 96, .wide_kv_heads = 1,
     .flags =
         PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_LAYER_SCALE | PEER_NO_V | PEER_ONE_GATE_UP | PEER_BESIDE,
     .experts = 10, .used = 3, .expert_ff = 64, .keys = {{"attention.sliding_window", 24}}},
    {"gemma4-experts-apart", "gemma4", 3, 96, 160, 3, 3, 64, 200, .wide_dim = 32, .wide_kv_heads = 3,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_UNTIED | PEER_SCALES | PEER_BESIDE, .experts = 5,
     .used = 2, .expert_ff = 96, .keys = {{"attention.sliding_window", 5}}},
    {"gemma4-shared", "gemma4", 5, 96, 96, 4, 2, 64, 200, .wide_dim = 32, .wide_kv_heads = 4,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS | PEER_UNTIED | PEER_SCALES | PEER_NO_V, .shared_kv = 2,
     .keys = {{"attention.sliding_window", 5}}},
    {"hunyuan-dense-odd", "hunyuan-dense", 3, 160, 224, 5, 1, 64, 300, .flags = PEER_HEAD_NORMS},
    {"hunyuan-dense-part", "hunyuan-dense", 2, 96, 96, 9, 3, 96, 200, .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_UNTIED},
    {"granitehybrid-odd",
     "granitehybrid",
     4,
     160,
     96,
     5,
     1,
     32,
     300,
     .flags = PEER_SSD | PEER_UNTIED,
     .experts = 10,
     .used = 3,
     .expert_ff = 96,
     .shared_ff = 64,
     .key_heads = 2,
     .value_heads = 6,
     .state = 48,
     .taps = 4,
     .inner = 192,
     .keys = {{"embedding_scale", .fraction = 2},
              {"residual_scale", .fraction = 0.5f},
              {"logit_scale", .fraction = 1.5f}}},
    {"granitehybrid-dense", "granitehybrid", 3, 96, 160, 3, 3, 64, 200, .flags = PEER_SSD, .key_heads = 1,
     .value_heads = 3, .state = 32, .taps = 2, .inner = 192, .keys = {{"logit_scale", .fraction = 1}}},
    {"nemotron_h-odd", "nemotron_h", 5, 160, 224, 5, 1, 64, 300, .parts = "MF*MF",
     .flags = PEER_SSD | PEER_UNTIED | PEER_BIAS | PEER_OUT_BIAS | PEER_FF_BIAS, .key_heads = 2,
     .value_heads = 6, .state = 48, .taps = 4, .inner = 192},
    {"nemotron_h_moe-odd",
     "nemotron_h_moe",
     5,
     160,
     96,
     5,
     1,
     32,
     300,
     .parts = "MF*FM",
     .flags = PEER_SSD | PEER_UNTIED | PEER_CHOICE_BIAS,
     .experts = 10,
     .used = 3,
     .expert_ff = 96,
     .shared_ff = 64,
     .key_heads = 2,
     .value_heads = 6,
     .state = 48,
     .taps = 4,
     .inner = 192,
     .keys = {{"expert_weights_scale", .fraction = 2.5f},
              {"expert_shared_count", 1},
              {"expert_weights_norm", .yes = true}}},
    {"nemotron_h_moe-latent",
     "nemotron_h_moe",
     4,
     160,
     128,
     3,
     3,
     64,
     200,
     .parts = "FM*F",
     .flags = PEER_SSD | PEER_UNTIED | PEER_CHOICE_BIAS,
     .experts = 4,
     .used = 2,
     .expert_ff = 128,
     .shared_ff = 64,
     .latent = 96,
     .key_heads = 1,
     .value_heads = 3,
     .state = 32,
     .taps = 2,
     .inner = 192,
     .keys = {{"expert_shared_count", 1}, {"expert_weights_norm", .yes = true}}},
    {"deepseek2-odd",
     "deepseek2",
     4,
     160,
     224,
     5,
     1,
     128,
     300,
     .rot = 32,
     .flags = PEER_CHOICE_BIAS | PEER_UNTIED,
     .experts = 10,
     .used = 3,
     .expert_ff = 96,
     .shared_ff = 96,
     .leading = 2,
     .kv_rank = 96,
     .q_rank = 64,
     .nope = 64,
     .dim_v = 32,
     .keys = {{"expert_weights_scale", .fraction = 2.5f},
              {"expert_gating_func", 2},
              {"expert_shared_count", 1},
              {"expert_weights_norm", .yes = true},
              {"expert_group_count", 5},
              {"expert_group_used_count", 2},
              {"rope.scaling.type", .text = "yarn"},
              {"rope.scaling.factor", .fraction = 4},
              {"rope.scaling.original_context_length", 64},
              {"rope.scaling.yarn_log_multiplier", .fraction = 0.1f}}},
    {"glm4moe-nextn", "glm4moe", 3, 96, 160, 6, 2, 32, 300, .rot = 16,
     .flags = PEER_BIAS | PEER_HEAD_NORMS | PEER_LATE_FFN_NORM | PEER_CHOICE_BIAS | PEER_UNTIED | PEER_NEXTN,
     .experts = 6, .used = 2, .expert_ff = 96, .shared_ff = 64, .leading = 1,
     .keys = {{"expert_weights_scale", .fraction = 2.5f},
              {"expert_gating_func", 2},
              {"expert_shared_count", 1},
              {"expert_weights_norm", .yes = true}}},
    {"nemotron_h_moe-nextn",
     "nemotron_h_moe",
     4,
     160,
     96,
     5,
     1,
     32,
     300,
     .parts = "MF*FX",
     .flags = PEER_SSD | PEER_UNTIED | PEER_CHOICE_BIAS | PEER_LATE_FFN_NORM | PEER_NEXTN,
     .experts = 10,
     .used = 3,
     .expert_ff = 96,
     .shared_ff = 64,
     .key_heads = 2,
     .value_heads = 6,
     .state = 48,
     .taps = 4,
     .inner = 192,
     .keys = {{"expert_weights_scale", .fraction = 2.5f},
              {"expert_shared_count", 1},
              {"expert_weights_norm", .yes = true}}},
    {"nemotron_h_moe-latent-nextn",
     "nemotron_h_moe",
     3,
     160,
     128,
     3,
     3,
     64,
     200,
     .parts = "FM*X",
     .flags = PEER_SSD | PEER_UNTIED | PEER_CHOICE_BIAS | PEER_LATE_FFN_NORM | PEER_NEXTN,
     .experts = 4,
     .used = 2,
     .expert_ff = 128,
     .shared_ff = 64,
     .latent = 96,
     .key_heads = 1,
     .value_heads = 3,
     .state = 32,
     .taps = 2,
     .inner = 192,
     .keys = {{"expert_shared_count", 1}, {"expert_weights_norm", .yes = true}}},
    {"deepseek2-nextn",
     "deepseek2",
     3,
     160,
     224,
     5,
     1,
     128,
     300,
     .rot = 32,
     .flags = PEER_CHOICE_BIAS | PEER_UNTIED | PEER_NEXTN,
     .experts = 8,
     .used = 3,
     .expert_ff = 96,
     .shared_ff = 96,
     .leading = 1,
     .kv_rank = 96,
     .q_rank = 64,
     .nope = 64,
     .dim_v = 32,
     .keys = {{"expert_weights_scale", .fraction = 1.8f},
              {"expert_gating_func", 2},
              {"expert_shared_count", 1},
              {"expert_weights_norm", .yes = true}}},
    {"deepseek2-lite", "deepseek2", 3, 96, 160, 3, 1, 96, 200, .rot = 64, .experts = 4, .used = 2,
     .expert_ff = 96, .shared_ff = 192, .leading = 1, .kv_rank = 32, .nope = 32, .dim_v = 64,
     .keys = {{"expert_gating_func", 1}, {"expert_shared_count", 2}}},
    {"deepseek2-dense", "deepseek2", 2, 96, 160, 66, 1, 62, 200, .rot = 14, .flags = PEER_UNTIED,
     .kv_rank = 48, .nope = 18, .dim_v = 8},
    {"deepseek2-older",
     "deepseek2",
     3,
     96,
     160,
     5,
     5,
     48,
     200,
     .rot = 16,
     .older = 1,
     .experts = 4,
     .used = 2,
     .expert_ff = 96,
     .shared_ff = 96,
     .leading = 1,
     .kv_rank = 64,
     .nope = 32,
     .dim_v = 32,
     .keys = {{"expert_gating_func", 1}, {"expert_shared_count", 1}}},
    {"llama-nvfp4", "llama", 3, 192, 320, 6, 2, 32, 300, .flags = PEER_UNTIED | PEER_NVFP4},
    {"qwen3moe-nvfp4", "qwen3moe", 3, 192, 96, 3, 1, 64, 300,
     .flags = PEER_HEAD_NORMS | PEER_UNTIED | PEER_NVFP4, .experts = 10, .used = 3, .expert_ff = 128},
    {"qwen4exp-odd",
     "qwen4exp",
     5,
     160,
     0,
     5,
     1,
     64,
     300,
     .rot = 32,
     .flags = PEER_HEAD_NORMS | PEER_NO_PRE_NORMS | PEER_SHARED_ROUTER | PEER_UNTIED,
     .experts = 10,
     .used = 3,
     .expert_ff = 96,
     .shared_ff = 64,
     .key_heads = 1,
     .value_heads = 5,
     .state = 32,
     .taps = 4,
     .streams = 3,
     .rank = 96,
     .index_heads = 3,
     .index_dim = 32,
     .top_k = 40,
     .ratio = 4,
     .ngram = {1, 3, 2, 32, 4, 97, 7}},
    {"qwen4exp-equal",
     "qwen4exp",
     4,
     96,
     0,
     4,
     2,
     32,
     200,
     .rot = 16,
     .flags = PEER_HEAD_NORMS | PEER_NO_PRE_NORMS | PEER_SHARED_ROUTER | PEER_ONE_GATE_UP,
     .experts = 4,
     .used = 2,
     .expert_ff = 32,
     .shared_ff = 32,
     .key_heads = 3,
     .value_heads = 3,
     .state = 64,
     .taps = 4,
     .streams = 4,
     .rank = 32,
     .index_heads = 1,
     .index_dim = 64,
     .top_k = 512},
    {"qwen4exp-blocks",
     "qwen4exp",
     8,
     96,
     0,
     4,
     2,
     32,
     200,
     .rot = 16,
     .flags = PEER_HEAD_NORMS | PEER_NO_PRE_NORMS | PEER_SHARED_ROUTER | PEER_UNTIED,
     .experts = 4,
     .used = 2,
     .expert_ff = 32,
     .shared_ff = 32,
     .key_heads = 3,
     .value_heads = 3,
     .state = 64,
     .taps = 4,
     .streams = 2,
     .rank = 32,
     .index_heads = 4,
     .index_dim = 64,
     .top_k = 64,
     .ratio = 16,
     .ngram = {3, 2, 3, 32, 1, 50, 3}},
    /* All that llama.cpp can have: rows as wide as the stream, before a delta-net layer. */
    {"qwen4exp-ngrams",
     "qwen4exp",
     4,
     192,
     0,
     6,
     2,
     32,
     300,
     .rot = 16,
     .flags = PEER_HEAD_NORMS | PEER_NO_PRE_NORMS | PEER_SHARED_ROUTER,
     .experts = 6,
     .used = 2,
     .expert_ff = 64,
     .shared_ff = 32,
     .key_heads = 2,
     .value_heads = 6,
     .state = 32,
     .taps = 4,
     .streams = 4,
     .rank = 64,
     .index_heads = 2,
     .index_dim = 32,
     .top_k = 40,
     .ratio = 4,
     .ngram = {1, 3, 3, 32, 4, 97, 7}},
    {"qwen4exp-nextn",
     "qwen4exp",
     4,
     96,
     0,
     4,
     2,
     32,
     200,
     .rot = 16,
     .flags = PEER_HEAD_NORMS | PEER_NO_PRE_NORMS | PEER_SHARED_ROUTER | PEER_UNTIED | PEER_NEXTN,
     .experts = 4,
     .used = 2,
     .expert_ff = 32,
     .shared_ff = 32,
     .key_heads = 2,
     .value_heads = 4,
     .state = 32,
     .taps = 4,
     .streams = 3,
     .rank = 32,
     .index_heads = 2,
     .index_dim = 32,
     .top_k = 16,
     .ratio = 4,
     .ngram = {1, 3, 2, 32, 3, 60, 5}},
    {"gemma-embedding-odd", "gemma-embedding", 8, 160, 224, 5, 1, 32, 300,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS, .pooling = 1,
     .keys = {{"attention.sliding_window", 24}, {"rope.freq_base", .fraction = 1e6f}}},
    {"gemma-embedding-dense", "gemma-embedding", 7, 96, 160, 6, 2, 64, 300,
     .flags = PEER_HEAD_NORMS | PEER_POST_NORMS, .pooling = 1, .dense = 224,
     .keys = {{"attention.sliding_window", 33}, {"rope.freq_base", .fraction = 1e6f}}},
};

/* Matrices that have no scale. */
static const char *const peer_unscaled[] = {
    "token_embd.weight",           "ffn_gate_inp.weight", "ssm_ba.weight", "per_layer_token_embd.weight",
    "per_layer_model_proj.weight", "inp_gate.weight",     "proj.weight"};

enum { PEER_MODELS = sizeof peer_models / sizeof peer_models[0] };

/* NULL: there is none. */
static inline const struct peer_model *peer_model_named(const char *name) {
    for (size_t i = 0; i < PEER_MODELS; i++)
        if (strcmp(peer_models[i].name, name) == 0)
            return &peer_models[i];
    return NULL;
}

struct peer_writer {
    struct gguf_writer *w;
    const struct peer_model *m;
    uint32_t type;  /* of matrices: BLOCK_F32, BLOCK_F16, BLOCK_Q8_0 */
    uint32_t layer; /* UINT32_MAX: outside layers */
    uint64_t seed;
};

static inline uint32_t peer_random(struct peer_writer *p) {
    p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->seed >> 33);
}

static inline void peer_put(struct peer_writer *p, const char *name, uint32_t type, uint32_t dims,
                            const uint64_t ne[3], const void *values) {
    char full[96];
    if (p->layer == UINT32_MAX)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%u.%s", p->layer, name);
    gguf_writer_tensor(p->w, full, type, dims, ne, values);
}

/* Numbers at +- spread. */
static inline void peer_floats(struct peer_writer *p, const char *name, uint32_t dims, const uint64_t ne[3],
                               float at, float spread) {
    const uint64_t n = ne[0] * ne[1] * ne[2];
    float *values = malloc(n * sizeof *values);
    for (uint64_t i = 0; values != NULL && i < n; i++)
        values[i] = at + spread * ((float)(peer_random(p) % 255) - 127) / 128;
    peer_put(p, name, BLOCK_F32, dims, ne, values);
    free(values);
}

/* As how many dimensions vectors are stored: files may give them trailing dimensions of 1. */
static uint32_t peer_vector_dims = 1;

static inline void peer_vector(struct peer_writer *p, const char *name, uint64_t n, float at) {
    peer_floats(p, name, peer_vector_dims, (uint64_t[]){n, 1, 1}, at, 0.5f);
}

/* "NAME.scale" of "NAME.weight", and sometimes the "NAME.input_scale" that nobody needs. */
static inline void peer_scales(struct peer_writer *p, const char *weight, uint64_t n, float at) {
    char name[64];
    const int stem = (int)(strlen(weight) - strlen(".weight"));
    snprintf(name, sizeof name, "%.*s.scale", stem, weight);
    peer_floats(p, name, peer_vector_dims, (uint64_t[]){n, 1, 1}, at, at / 2);
    snprintf(name, sizeof name, "%.*s.input_scale", stem, weight);
    if (peer_random(p) % 2)
        peer_floats(p, name, 1, (uint64_t[]){n, 1, 1}, 3, 1);
}

static inline int peer_may_scale(const struct peer_writer *p, const char *name) {
    for (size_t i = 0; i < sizeof peer_unscaled / sizeof peer_unscaled[0]; i++)
        if (strcmp(name, peer_unscaled[i]) == 0)
            return 0;
    return (p->m->flags & (PEER_SCALES | PEER_NVFP4)) != 0;
}

/* The same as others in size, by their scales. */
static inline void peer_nvfp4(struct peer_writer *p, const char *name, uint64_t cols, uint64_t rows,
                              uint64_t n, float gain) {
    const size_t all = (size_t)(cols / 64 * rows * n);
    uint8_t *blocks = malloc(all * 36);
    for (size_t i = 0; blocks != NULL && i < all * 36; i++) /* scales of 0.5 to 1.9 */
        blocks[i] = (uint8_t)(i % 36 < 4 ? 48 + peer_random(p) % 16 : peer_random(p));
    peer_put(p, name, BLOCK_NVFP4, n > 1 ? 3 : 2, (uint64_t[]){cols, rows, n}, blocks);
    free(blocks);
    peer_scales(p, name, n, gain / (3 * sqrtf((float)cols)));
}

/* Models for types of blocks of 256 values: every matrix has whole blocks, and two devices have whole ones of
 * heads and of the inside of the feed-forward. */
#define PEER_WIDE 2
static inline struct peer_model peer_wide(size_t i) {
    static const struct peer_model models[PEER_WIDE] = {
        {"wide", "llama", 2, 256, 1024, 8, 4, 64, 130, .flags = 0},
        {"wide-experts", "llama", 2, 256, 512, 8, 4, 64, 130, .experts = 5, .used = 2, .expert_ff = 1024}};
    return models[i];
}

/* Their standard deviation is about gain / sqrt(columns). */
static inline void peer_matrices(struct peer_writer *p, const char *name, uint64_t cols, uint64_t rows,
                                 uint64_t n, float gain) {
    const struct block_info *info = block_info(p->type);
    if (peer_may_scale(p, name) && p->m->flags & PEER_NVFP4 && cols % 64 == 0) {
        peer_nvfp4(p, name, cols, rows, n, gain);
        return;
    }
    const int power = (int)lrintf(log2f(gain / (73 * sqrtf((float)cols))));
    uint8_t *bytes = malloc((size_t)(cols / info->values * info->bytes * rows * n));
    float *row = malloc((size_t)cols * sizeof *row);
    if (bytes == NULL || row == NULL)
        abort();
    const uint16_t scale = block_to_f16(ldexpf(1, power));
    for (uint64_t i = 0; i < cols * rows * n; i++) {
        const int8_t q = (int8_t)((int)(peer_random(p) % 255) - 127);
        const float x = ldexpf((float)q, power);
        const uint16_t half = block_to_f16(x);
        if (p->type == BLOCK_F32)
            memcpy(bytes + 4 * i, &x, 4);
        else if (p->type == BLOCK_F16)
            memcpy(bytes + 2 * i, &half, 2);
        else if (p->type != BLOCK_Q8_0) {
            row[i % cols] = x;
            if (i % cols + 1 == cols)
                encode_row(p->type, row, NULL, bytes + i / cols * (cols / info->values) * info->bytes, cols);
        } else {
            memcpy(bytes + i / 32 * 34, &scale, 2);
            memcpy(bytes + i / 32 * 34 + 2 + i % 32, &q, 1);
        }
    }
    peer_put(p, name, p->type, n > 1 ? 3 : 2, (uint64_t[]){cols, rows, n}, bytes);
    free(bytes);
    free(row);
    /* An output matrix may have one if it is NVFP4. */
    if (peer_may_scale(p, name) && strcmp(name, "output.weight") != 0 && peer_random(p) % 4 != 0)
        peer_scales(p, name, n, 1);
}

static inline void peer_matrix(struct peer_writer *p, const char *name, uint64_t cols, uint64_t rows) {
    peer_matrices(p, name, cols, rows, 1, 1);
}

static inline int peer_is_delta(const struct peer_model *m, uint32_t layer) {
    return m->key_heads > 0 && m->inner == 0 && layer < m->layers && (layer + 1) % 4 != 0;
}

static inline int peer_is_conv(const struct peer_model *m, uint32_t layer) {
    return (m->flags & PEER_SHORT_CONV) != 0 && layer % 3 != 2;
}

static inline int peer_is_ssd(const struct peer_model *m, uint32_t layer) {
    return (m->flags & PEER_SSD) != 0 && (m->parts != NULL ? m->parts[layer] == 'M' : layer % 3 != 2);
}

/* Of layers of one part: nothing but a feed-forward. */
static inline int peer_is_lone_ff(const struct peer_model *m, uint32_t layer) {
    return m->parts != NULL && m->parts[layer] == 'F';
}

static inline int peer_is_both(const struct peer_model *m, uint32_t layer) {
    return m->parts != NULL && m->parts[layer] == 'X';
}

static inline uint32_t peer_nextn(const struct peer_model *m) {
    return (m->flags & PEER_NEXTN) != 0;
}

static inline void peer_ssd(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    const uint64_t channels = m->inner + (uint64_t)2 * m->key_heads * m->state;
    peer_matrix(p, "ssm_in.weight", m->embd, m->inner + channels + m->value_heads);
    peer_floats(p, "ssm_conv1d.weight", 2, (uint64_t[]){m->taps, channels, 1}, 0, 1);
    peer_vector(p, "ssm_conv1d.bias", channels, 0);
    peer_vector(p, "ssm_dt.bias", m->value_heads, 0);
    peer_floats(p, "ssm_a", 2, (uint64_t[]){1, m->value_heads, 1}, -0.7f, 0.5f);
    peer_floats(p, "ssm_d", 2, (uint64_t[]){1, m->value_heads, 1}, 1, 0.5f);
    peer_floats(p, "ssm_norm.weight", 2, (uint64_t[]){m->inner / m->key_heads, m->key_heads, 1}, 1, 0.5f);
    peer_matrix(p, "ssm_out.weight", m->inner, m->embd);
}

static inline int peer_is_wide(const struct peer_model *m, uint32_t layer) {
    return m->wide_dim > 0 && layer % 3 == 2;
}

static inline int peer_shares(const struct peer_model *m, uint32_t layer) {
    return layer < m->layers && layer + m->shared_kv >= m->layers; /* an MTP head has its own */
}

static inline uint32_t peer_ff(const struct peer_model *m, uint32_t layer) {
    return m->shared_ff_width > 0 && peer_shares(m, layer) ? m->shared_ff_width : m->ff;
}

static inline void peer_conv(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    peer_matrix(p, "shortconv.in_proj.weight", m->embd, (uint64_t)3 * m->embd);
    peer_floats(p, "shortconv.conv.weight", 2, (uint64_t[]){m->taps, m->embd, 1}, 0, 1);
    peer_matrix(p, "shortconv.out_proj.weight", m->embd, m->embd);
}

static inline void peer_mla(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    const uint64_t q = (uint64_t)m->heads * (m->nope + m->rot);
    if (m->q_rank > 0) {
        peer_matrix(p, "attn_q_a.weight", m->embd, m->q_rank);
        peer_vector(p, "attn_q_a_norm.weight", m->q_rank, 1);
    }
    peer_matrices(p, m->q_rank > 0 ? "attn_q_b.weight" : "attn_q.weight", m->q_rank > 0 ? m->q_rank : m->embd,
                  q, 1, 2);
    peer_matrices(p, "attn_kv_a_mqa.weight", m->embd, (uint64_t)m->kv_rank + m->rot, 1, 2);
    peer_vector(p, "attn_kv_a_norm.weight", m->kv_rank, 1);
    if (m->older) {
        peer_matrix(p, "attn_kv_b.weight", m->kv_rank, (uint64_t)m->heads * (m->nope + m->dim_v));
    } else {
        peer_matrices(p, "attn_k_b.weight", m->nope, m->kv_rank, m->heads, 1);
        peer_matrices(p, "attn_v_b.weight", m->kv_rank, m->dim_v, m->heads, 1);
    }
    peer_matrix(p, "attn_output.weight", (uint64_t)m->heads * m->dim_v, m->embd);
}

static inline void peer_attention(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    if (m->kv_rank > 0) {
        peer_mla(p);
        return;
    }
    const int far = peer_is_wide(m, p->layer);
    const uint64_t dim = far ? m->wide_dim : m->dim;
    const uint64_t q = m->heads * dim, kv = (far ? m->wide_kv_heads : m->kv_heads) * dim;
    const int fused = m->flags & (PEER_FUSED | PEER_ONE_QKV) && !(m->flags & PEER_THREE_QKV);
    if (fused) {
        peer_matrix(p, "attn_qkv.weight", m->embd, q + 2 * kv);
    } else {
        peer_matrices(p, "attn_q.weight", m->embd, m->key_heads > 0 && m->inner == 0 ? 2 * q : q, 1, 2);
        if (!peer_shares(m, p->layer))
            peer_matrices(p, "attn_k.weight", m->embd, kv, 1, 2);
        if (!peer_shares(m, p->layer) && (!far || !(m->flags & PEER_NO_V)))
            peer_matrix(p, "attn_v.weight", m->embd, kv);
    }
    if (m->flags & PEER_BIAS && fused && p->layer % 2 == 0) {
        peer_vector(p, "attn_qkv.bias", q + 2 * kv, 0);
    } else if (m->flags & PEER_BIAS) {
        peer_vector(p, "attn_q.bias", q, 0);
        peer_vector(p, "attn_k.bias", kv, 0);
        peer_vector(p, "attn_v.bias", kv, 0);
    }
    if (m->flags & (PEER_HEAD_NORMS | PEER_WIDE_NORMS)) {
        const int wide = (m->flags & PEER_WIDE_NORMS) != 0;
        peer_vector(p, "attn_q_norm.weight", wide ? q : dim, 1);
        if (!peer_shares(m, p->layer))
            peer_vector(p, "attn_k_norm.weight", wide ? kv : dim, 1);
    }
    peer_matrix(p, "attn_output.weight", q, m->embd);
    if (m->flags & PEER_OUT_BIAS)
        peer_vector(p, "attn_output.bias", m->embd, 0);
    if (m->flags & PEER_SINKS)
        peer_vector(p, "attn_sinks.weight", m->heads, 1);
}

static inline void peer_delta(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    const uint64_t inner = (uint64_t)m->value_heads * m->state;
    const uint64_t channels = (uint64_t)2 * m->key_heads * m->state + inner;
    if (m->flags & PEER_ONE_IN) {
        peer_matrix(p, "ssm_in.weight", m->embd, channels + inner);
    } else {
        peer_matrix(p, "attn_qkv.weight", m->embd, channels);
        peer_matrix(p, "attn_gate.weight", m->embd, inner);
    }
    if (m->flags & PEER_ONE_FACTORS) {
        peer_matrix(p, "ssm_ba.weight", m->embd, 2 * m->value_heads);
    } else {
        peer_matrix(p, "ssm_beta.weight", m->embd, m->value_heads);
        peer_matrix(p, "ssm_alpha.weight", m->embd, m->value_heads);
    }
    peer_floats(p, "ssm_conv1d.weight", 2, (uint64_t[]){m->taps, channels, 1}, 0, 1);
    peer_vector(p, "ssm_dt.bias", m->value_heads, 0);
    peer_vector(p, "ssm_a", m->value_heads, -0.7f);
    peer_vector(p, "ssm_norm.weight", m->state, 1);
    peer_matrix(p, "ssm_out.weight", inner, m->embd);
}

static inline void peer_experts(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    const uint64_t e = m->embd, ff = m->expert_ff, in = m->latent > 0 ? m->latent : e;
    const int gated = m->parts == NULL;
    peer_floats(p, "ffn_gate_inp.weight", 2, (uint64_t[]){e, m->experts, 1}, 0, 4 / sqrtf((float)e));
    if (m->flags & PEER_ONE_GATE_UP) {
        peer_matrices(p, "ffn_gate_up_exps.weight", e, 2 * ff, m->experts, 1);
    } else {
        if (gated)
            peer_matrices(p, "ffn_gate_exps.weight", in, ff, m->experts, 1);
        peer_matrices(p, "ffn_up_exps.weight", in, ff, m->experts, 1);
    }
    peer_matrices(p, "ffn_down_exps.weight", ff, in, m->experts, 1);
    if (m->latent > 0) {
        peer_matrix(p, "ffn_latent_down.weight", e, in);
        peer_matrix(p, "ffn_latent_up.weight", in, e);
    }
    if (m->flags & PEER_EXPERT_BIAS) {
        peer_vector(p, "ffn_gate_inp.bias", m->experts, 0);
        peer_floats(p, "ffn_gate_exps.bias", 2, (uint64_t[]){ff, m->experts, 1}, 0, 0.5f);
        peer_floats(p, "ffn_up_exps.bias", 2, (uint64_t[]){ff, m->experts, 1}, 0, 0.5f);
        peer_floats(p, "ffn_down_exps.bias", 2, (uint64_t[]){e, m->experts, 1}, 0, 0.5f);
    }
    if (m->flags & PEER_CHOICE_BIAS)
        peer_vector(p, "exp_probs_b.bias", m->experts, 0);
    if (m->flags & PEER_SHARED_ROUTER)
        peer_vector(p, "ffn_gate_inp_shexp.weight", e, 0);
    if (m->shared_ff > 0) {
        if (gated)
            peer_matrix(p, "ffn_gate_shexp.weight", e, m->shared_ff);
        peer_matrix(p, "ffn_up_shexp.weight", e, m->shared_ff);
        peer_matrix(p, "ffn_down_shexp.weight", m->shared_ff, e);
    }
}

/* Of a mix of streams, whose tensors' names begin like this. */
static inline void peer_mix(struct peer_writer *p, const char *stem, int injects) {
    const struct peer_model *m = p->m;
    const uint64_t all = (uint64_t)m->streams * m->embd;
    char name[64];
    snprintf(name, sizeof name, "%s_norm.weight", stem);
    peer_vector(p, name, all, 1);
    snprintf(name, sizeof name, "%s_down.weight", stem);
    peer_matrices(p, name, all, m->rank, 1, 2 * (float)m->streams);
    snprintf(name, sizeof name, "%s_up.weight", stem);
    peer_matrices(p, name, m->rank, all, 1, 2);
    snprintf(name, sizeof name, "%s_inject.weight", stem);
    if (injects)
        peer_matrices(p, name, all, m->streams, 1, 2 * (float)m->streams);
}

static inline void peer_index(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    peer_matrices(p, "indexer.q_proj.weight", m->embd, (uint64_t)m->index_heads * m->index_dim, 1, 2);
    peer_matrices(p, "indexer.k_proj.weight", m->embd, m->index_dim, 1, 2);
    peer_vector(p, "indexer.q_norm.weight", m->index_dim, 1);
    peer_vector(p, "indexer.k_norm.weight", m->index_dim, 1);
}

static inline uint32_t peer_ngram_heads(const struct peer_model *m) {
    return (m->ngram.size - 1) * m->ngram.heads_each;
}

static inline void peer_ngram(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    const uint64_t all = (uint64_t)m->streams * m->embd, in = (uint64_t)peer_ngram_heads(m) * m->ngram.dim;
    peer_matrix(p, "ple_key.weight", in, all);
    peer_matrix(p, "ple_value.weight", in, m->embd);
    peer_vector(p, "ple_norm_key.weight", all, 1);
    peer_vector(p, "ple_norm_query.weight", all, 1);
    peer_vector(p, "ple_norm_conv.weight", all, 1);
    peer_floats(p, "ple_conv1d.weight", 2, (uint64_t[]){m->ngram.taps, all, 1}, 0, 1);
}

static inline void peer_layer(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    if (m->ngram.size > 0 && p->layer == m->ngram.layer)
        peer_ngram(p);
    if (m->streams > 0) {
        peer_mix(p, "hc_attn", 1);
        peer_mix(p, "hc_ffn", 1);
        if (!peer_is_delta(m, p->layer))
            peer_index(p);
    }
    if (!(m->flags & PEER_NO_PRE_NORMS)) {
        peer_vector(p, "attn_norm.weight", m->embd, 1);
        if (!(m->flags & PEER_ONE_NORM) && (m->parts == NULL || peer_is_both(m, p->layer)))
            peer_vector(p, m->flags & PEER_LATE_FFN_NORM ? "post_attention_norm.weight" : "ffn_norm.weight",
                        m->embd, 1);
    }
    if (m->flags & PEER_POST_NORMS) {
        peer_vector(p, "post_attention_norm.weight", m->embd, 1);
        peer_vector(p, "post_ffw_norm.weight", m->embd, 1);
    }
    if (m->flags & PEER_LAYER_SCALE)
        peer_vector(p, "layer_output_scale.weight", 1, 1);
    if (m->layer_embd > 0) {
        peer_matrix(p, "inp_gate.weight", m->embd, m->layer_embd);
        peer_matrix(p, "proj.weight", m->layer_embd, m->embd);
        peer_vector(p, "post_norm.weight", m->embd, 1);
    }
    if (peer_is_delta(m, p->layer))
        peer_delta(p);
    else if (peer_is_ssd(m, p->layer))
        peer_ssd(p);
    else if (peer_is_conv(m, p->layer))
        peer_conv(p);
    else if (!peer_is_lone_ff(m, p->layer))
        peer_attention(p);
    if (m->parts != NULL && !peer_is_lone_ff(m, p->layer) && !peer_is_both(m, p->layer))
        return;
    if (m->experts > 0 && p->layer >= m->leading) {
        peer_experts(p);
        if (!(m->flags & PEER_BESIDE))
            return;
        peer_vector(p, "post_ffw_norm_1.weight", m->embd, 1);
        peer_vector(p, "pre_ffw_norm_2.weight", m->embd, 1);
        peer_vector(p, "post_ffw_norm_2.weight", m->embd, 1);
        peer_vector(p, "ffn_gate_inp.scale", m->embd, 4);
    }
    const int fused = (m->flags & (PEER_FUSED | PEER_FUSED_FF)) != 0;
    const uint32_t ff = peer_ff(m, p->layer);
    if (!fused && m->parts == NULL)
        peer_matrix(p, "ffn_gate.weight", m->embd, ff);
    peer_matrix(p, "ffn_up.weight", m->embd, fused ? 2 * ff : ff);
    peer_matrix(p, "ffn_down.weight", ff, m->embd);
    if (m->flags & PEER_FF_BIAS) {
        if (m->parts == NULL)
            peer_vector(p, "ffn_gate.bias", m->ff, 0);
        peer_vector(p, "ffn_up.bias", m->ff, 0);
        peer_vector(p, "ffn_down.bias", m->embd, 0);
    }
}

static inline void peer_number(struct peer_writer *p, const char *name, uint32_t v) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", p->m->arch, name);
    gguf_writer_u32(p->w, key, v);
}

static inline void peer_pooling(struct peer_writer *p) {
    if (p->m->pooling > 0)
        peer_number(p, "pooling_type", p->m->pooling);
    if (p->m->dense == 0)
        return;
    peer_number(p, "dense_2_feat_in", p->m->embd);
    peer_number(p, "dense_2_feat_out", p->m->dense);
    peer_number(p, "dense_3_feat_in", p->m->dense);
    peer_number(p, "dense_3_feat_out", p->m->embd);
}

static inline void peer_own_keys(struct peer_writer *p) {
    peer_pooling(p);
    for (const struct peer_key *k = p->m->keys; k->name != NULL; k++) {
        char key[96];
        snprintf(key, sizeof key, "%s.%s", p->m->arch, k->name);
        if (k->text != NULL)
            gguf_writer_text(p->w, key, k->text);
        else if (k->yes)
            gguf_writer_bool(p->w, key, true);
        else if (k->fraction != 0)
            gguf_writer_f32(p->w, key, k->fraction);
        else
            peer_number(p, k->name, k->number);
    }
}

/* Of hyper-connections and the indexer. */
static inline void peer_stream_keys(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    uint32_t ratios[16] = {0};
    char key[96];
    peer_number(p, "hyper_connection.count", m->streams);
    peer_number(p, "hyper_connection.low_rank", m->rank);
    peer_number(p, "attention.indexer.head_count", m->index_heads);
    peer_number(p, "attention.indexer.key_length", m->index_dim);
    peer_number(p, "attention.indexer.top_k", m->top_k);
    for (uint32_t i = 0; i < m->layers && i < 16; i++)
        ratios[i] = peer_is_delta(m, i) ? 0 : m->ratio;
    snprintf(key, sizeof key, "%s.attention.compress_ratios", m->arch);
    const uint32_t layers = m->layers + peer_nextn(m); /* an MTP head has no indexer */
    gguf_writer_array(p->w, key, GGUF_U32, layers, ratios, layers * sizeof ratios[0]);
}

/* Heads have sizes that differ, and a row more than these between their rows. */
static inline void peer_ngram_keys(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    const uint32_t heads = peer_ngram_heads(m);
    uint64_t sizes[16] = {0}, offsets[16] = {0};
    const uint64_t multipliers[4] = {23703753246541u, 20109073645365u, 8052911324071u, 31337133713u};
    const uint32_t layer = m->ngram.layer;
    char key[96];
    for (uint32_t i = 0; i < heads && i < 16; i++) {
        sizes[i] = m->ngram.rows - i;
        offsets[i] = (uint64_t)i * (m->ngram.rows + 1);
    }
    snprintf(key, sizeof key, "%s.ple.layers", m->arch);
    gguf_writer_array(p->w, key, GGUF_U32, 1, &layer, sizeof layer);
    peer_number(p, "ple.ngram_size", m->ngram.size);
    peer_number(p, "ple.heads_per_ngram", m->ngram.heads_each);
    peer_number(p, "ple.conv_kernel", m->ngram.taps);
    peer_number(p, "ple.eos_token_id", m->ngram.eos);
    peer_number(p, "embedding_length_per_layer_input", m->ngram.dim);
    snprintf(key, sizeof key, "%s.ple.layer_multipliers", m->arch);
    gguf_writer_array(p->w, key, GGUF_U64, m->ngram.size, multipliers, m->ngram.size * sizeof multipliers[0]);
    snprintf(key, sizeof key, "%s.ple.head_vocab_sizes", m->arch);
    gguf_writer_array(p->w, key, GGUF_U64, heads, sizes, heads * sizeof sizes[0]);
    snprintf(key, sizeof key, "%s.ple.head_offsets", m->arch);
    gguf_writer_array(p->w, key, GGUF_U64, heads, offsets, heads * sizeof offsets[0]);
}

/* Layers with a window and those without have heads of their own. */
static inline void peer_kinds(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    uint8_t window[16] = {0};
    char key[96];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", m->arch);
    for (uint32_t i = 0; i < m->layers && i < 16; i++)
        window[i] = !peer_is_wide(m, i);
    gguf_writer_array(p->w, key, GGUF_BOOL, m->layers, window, m->layers);
    peer_number(p, "attention.key_length_swa", m->dim);
    peer_number(p, "attention.value_length_swa", m->dim);
    peer_number(p, "rope.dimension_count_swa", m->rot != 0 ? m->rot : m->dim);
}

static inline void peer_ffs(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    uint32_t each[16] = {0};
    char key[96];
    if (m->shared_ff_width == 0 && m->parts == NULL) {
        peer_number(p, "feed_forward_length", m->ff);
        return;
    }
    snprintf(key, sizeof key, "%s.feed_forward_length", m->arch);
    const uint32_t layers = m->layers + peer_nextn(m);
    for (uint32_t i = 0; i < layers && i < 16; i++)
        each[i] = m->parts != NULL && !peer_is_lone_ff(m, i) && !peer_is_both(m, i) ? 0 : peer_ff(m, i);
    gguf_writer_array(p->w, key, GGUF_U32, layers, each, layers * sizeof each[0]);
}

/* 0 in layers of convolutions. */
static inline void peer_kv_heads(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    uint32_t each[16] = {0};
    char key[96];
    snprintf(key, sizeof key, "%s.attention.head_count_kv", m->arch);
    if (!(m->flags & (PEER_SHORT_CONV | PEER_SSD)) && m->wide_dim == 0) {
        gguf_writer_u32(p->w, key, m->kv_heads);
        return;
    }
    const uint32_t layers = m->layers + peer_nextn(m);
    for (uint32_t i = 0; i < layers && i < 16; i++)
        each[i] = peer_is_conv(m, i) || peer_is_ssd(m, i) || peer_is_lone_ff(m, i) ? 0
                  : peer_is_wide(m, i)                                             ? m->wide_kv_heads
                                                                                   : m->kv_heads;
    gguf_writer_array(p->w, key, GGUF_U32, layers, each, layers * sizeof each[0]);
}

/* Models that make embeddings are asked for them over HTTP, which takes a vocabulary: bytes and some words.
 */
static inline void peer_vocabulary(struct peer_writer *p) {
    static struct tiny_vocab v;
    char text[16];
    if (p->m->pooling == 0) {
        gguf_writer_text(p->w, "tokenizer.ggml.model", "no_vocab");
        return;
    }
    v.n = 0;
    tiny_vocab_add(&v, "<unk>", 2, 0);
    tiny_vocab_add(&v, "<s>", 3, 0);
    tiny_vocab_add(&v, "</s>", 3, 0);
    for (uint32_t i = 0; i < 256; i++) {
        snprintf(text, sizeof text, "<0x%02X>", i);
        tiny_vocab_add(&v, text, 6, 0);
    }
    while (v.n < p->m->vocab) {
        snprintf(text, sizeof text, "w%u", v.n);
        tiny_vocab_add(&v, text, 1, -(float)v.n);
    }
    tiny_vocab_write(&v, p->w, "llama");
}

static inline void peer_keys(struct peer_writer *p) {
    const struct peer_model *m = p->m;
    const uint32_t dim = m->wide_dim > 0 ? m->wide_dim : m->dim;
    const struct {
        const char *name;
        uint32_t v;
    } always[] = {{"block_count", m->layers + peer_nextn(m)},
                  {"embedding_length", m->embd},
                  {"context_length", 1024},
                  {"attention.head_count", m->heads},
                  {"attention.key_length", dim},
                  {"attention.value_length", m->older         ? m->dim_v
                                             : m->kv_rank > 0 ? m->kv_rank
                                                              : dim},
                  {"vocab_size", m->vocab},
                  {"rope.dimension_count", m->rot != 0 && m->wide_dim == 0 ? m->rot : dim}},
      sometimes[] = {{"nextn_predict_layers", peer_nextn(m)},
                     {"expert_count", m->experts},
                     {"expert_used_count", m->used},
                     {"expert_feed_forward_length", m->expert_ff},
                     {"expert_shared_feed_forward_length", m->shared_ff},
                     {"leading_dense_block_count", m->leading},
                     {"moe_latent_size", m->latent},
                     {"attention.kv_lora_rank", m->kv_rank},
                     {"attention.q_lora_rank", m->q_rank},
                     {"attention.key_length_mla", m->kv_rank > 0 && !m->older ? m->nope + m->rot : 0},
                     {"attention.value_length_mla", m->older ? 0 : m->dim_v},
                     {"shortconv.l_cache", m->flags & PEER_SHORT_CONV ? m->taps : 0},
                     {"ssm.conv_kernel", m->flags & PEER_SHORT_CONV ? 0 : m->taps},
                     {"ssm.state_size", m->state},
                     {"ssm.group_count", m->key_heads},
                     {"ssm.time_step_rank", m->value_heads},
                     {"ssm.inner_size", m->inner > 0 ? m->inner : m->value_heads * m->state},
                     {"embedding_length_per_layer_input", m->layer_embd},
                     {"attention.shared_kv_layers", m->shared_kv},
                     {"full_attention_interval", m->key_heads > 0 && m->inner == 0 ? 4 : 0},
                     {"rope.scaling.original_context_length", m->original}};
    char key[96];
    gguf_writer_text(p->w, "general.architecture", m->arch);
    peer_vocabulary(p);
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        peer_number(p, always[i].name, always[i].v);
    for (size_t i = 0; i < sizeof sometimes / sizeof sometimes[0]; i++)
        if (sometimes[i].v != 0)
            peer_number(p, sometimes[i].name, sometimes[i].v);
    snprintf(key, sizeof key, "%s.attention.layer_norm%s_epsilon", m->arch,
             m->flags & PEER_ONE_NORM ? "" : "_rms");
    gguf_writer_f32(p->w, key, 1e-5f);
    peer_ffs(p);
    peer_kv_heads(p);
    if (m->wide_dim > 0)
        peer_kinds(p);
    if (m->streams > 0)
        peer_stream_keys(p);
    if (m->ngram.size > 0)
        peer_ngram_keys(p);
    peer_own_keys(p);
    if (m->key_heads > 0 && m->inner == 0) { /* three kinds of positions, which are one in text */
        snprintf(key, sizeof key, "%s.rope.dimension_sections", m->arch);
        gguf_writer_array(p->w, key, GGUF_I32, 4, (int32_t[]){4, 2, 2, 0}, 16);
    }
}

/* Divisors so large that three in four pairs do not turn. */
static inline void peer_partial_rope(struct peer_writer *p, uint32_t half) {
    float divisors[256] = {0};
    for (uint32_t i = 0; i < half && i < 256; i++)
        divisors[i] = i < half / 4 ? 1 : 1e30f;
    peer_put(p, "rope_freqs.weight", BLOCK_F32, 1, (uint64_t[]){half, 1, 1}, divisors);
}

/* Everything; call gguf_writer_finish afterwards. */
static inline void peer_model_write(struct gguf_writer *w, const struct peer_model *m, uint32_t type) {
    struct peer_writer p = {.w = w, .m = m, .type = type, .layer = UINT32_MAX};
    for (const char *c = m->name; *c != '\0'; c++)
        p.seed = p.seed * 131 + (uint8_t)*c;
    const uint64_t half = (m->rot != 0 ? m->rot : m->dim) / 2;
    peer_keys(&p);
    peer_matrices(&p, "token_embd.weight", m->embd, m->vocab, 1,
                  m->flags & PEER_UNTIED ? sqrtf((float)m->embd) : 1);
    if (m->ngram.size > 0)
        peer_matrices(&p, "per_layer_token_embd.weight", m->ngram.dim,
                      (uint64_t)peer_ngram_heads(m) * (m->ngram.rows + 1), 1, sqrtf((float)m->ngram.dim));
    if (m->streams > 0)
        peer_mix(&p, "output_hc", 0);
    else
        peer_vector(&p, m->flags & PEER_SHORT_CONV ? "token_embd_norm.weight" : "output_norm.weight", m->embd,
                    1);
    if (m->flags & PEER_UNTIED)
        peer_matrix(&p, "output.weight", m->embd, m->vocab);
    if (m->dense > 0) {
        peer_matrix(&p, "dense_2.weight", m->embd, m->dense);
        peer_matrix(&p, "dense_3.weight", m->dense, m->embd);
    }
    if (m->layer_embd > 0) {
        const uint64_t all = (uint64_t)m->layer_embd * m->layers;
        peer_matrices(&p, "per_layer_token_embd.weight", all, m->vocab, 1, sqrtf((float)m->layers));
        peer_matrix(&p, "per_layer_model_proj.weight", m->embd, all);
        peer_vector(&p, "per_layer_proj_norm.weight", m->layer_embd, 1);
    }
    if (m->wide_dim > 0)
        peer_partial_rope(&p, m->wide_dim / 2);
    else if (m->flags & PEER_ROPE_FREQS)
        peer_floats(&p, "rope_freqs.weight", 1, (uint64_t[]){half, 1, 1}, 2, 1);
    if (m->flags & PEER_LONGROPE) {
        peer_floats(&p, "rope_factors_long.weight", 1, (uint64_t[]){half, 1, 1}, 3, 2);
        peer_floats(&p, "rope_factors_short.weight", 1, (uint64_t[]){half, 1, 1}, 1.2f, 0.2f);
    }
    for (p.layer = 0; p.layer < m->layers; p.layer++)
        peer_layer(&p);
    if (!peer_nextn(m))
        return;
    peer_matrix(&p, "nextn.eh_proj.weight", 2 * m->embd, m->embd);
    peer_vector(&p, "nextn.enorm.weight", m->embd, 1);
    peer_vector(&p, "nextn.hnorm.weight", (uint64_t)m->embd * (m->streams > 0 ? m->streams : 1), 1);
    if (m->streams > 0)
        peer_mix(&p, "nextn.hc_head", 0);
    else
        peer_vector(&p, "nextn.shared_head_norm.weight", m->embd, 1);
    peer_layer(&p);
}

static inline int32_t peer_token(const struct peer_model *m, uint32_t position) {
    return (int32_t)((position * 7919u + position * position * 31u + 17) % m->vocab);
}

/* The id whose logit is kept of a position. */
static inline uint32_t peer_watched(const struct peer_model *m, uint32_t position) {
    return (position * 89u + 5) % m->vocab;
}

#endif
