/* Vision towers of a few kilobytes as mmproj files, for tests. Leave keys or tensors out with writer.drop. */
#ifndef STATOR_TESTS_TOWER_MODEL_H
#define STATOR_TESTS_TOWER_MODEL_H

#include "model/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOWER_MODEL_WIDTH = 8,
    TOWER_MODEL_FF = 6,
    TOWER_MODEL_LAYERS = 2,
    TOWER_MODEL_TEXT = 4,
    TOWER_MODEL_PATCH = 2,
    TOWER_MODEL_MERGED = 4 * TOWER_MODEL_WIDTH
};

static inline void tower_model_pair(struct gguf_writer *w, const char *prefix, const char *name,
                                    uint64_t cols, uint64_t rows) {
    char full[96];
    snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    gguf_writer_tensor(w, full, rows != 0 ? BLOCK_F16 : BLOCK_F32, rows != 0 ? 2 : 1,
                       (uint64_t[]){cols, rows != 0 ? rows : 1}, NULL);
    snprintf(full, sizeof full, "%s%s.bias", prefix, name);
    gguf_writer_tensor(w, full, BLOCK_F32, 1, (uint64_t[]){rows != 0 ? rows : cols}, NULL);
}

static inline void tower_model_keys(struct gguf_writer *w, const char *projector) {
    static const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"embedding_length", TOWER_MODEL_WIDTH},
                   {"feed_forward_length", TOWER_MODEL_FF},
                   {"block_count", TOWER_MODEL_LAYERS},
                   {"attention.head_count", 2},
                   {"projection_dim", TOWER_MODEL_TEXT},
                   {"patch_size", TOWER_MODEL_PATCH},
                   {"image_size", 8}};
    const float half[3] = {0.5f, 0.5f, 0.5f};
    gguf_writer_text(w, "general.architecture", "clip");
    gguf_writer_text(w, "clip.projector_type", projector);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "clip.vision.%s", numbers[i].name);
        gguf_writer_u32(w, key, numbers[i].v);
    }
    gguf_writer_f32(w, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    gguf_writer_array(w, "clip.vision.image_mean", GGUF_F32, 3, half, sizeof half);
    gguf_writer_array(w, "clip.vision.image_std", GGUF_F32, 3, half, sizeof half);
}

static inline void tower_model_layer(struct gguf_writer *w, bool qwen, uint32_t i, bool swapped) {
    const uint64_t width = TOWER_MODEL_WIDTH;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "v.blk.%u.", i);
    tower_model_pair(w, prefix, "ln1", width, 0);
    if (qwen)
        tower_model_pair(w, prefix, "attn_qkv", width, 3 * width);
    for (uint32_t k = 0; k < 3 && !qwen; k++)
        tower_model_pair(w, prefix, (const char *[]){"attn_q", "attn_k", "attn_v"}[k], width, width);
    tower_model_pair(w, prefix, "attn_out", width, width);
    tower_model_pair(w, prefix, "ln2", width, 0);
    tower_model_pair(w, prefix, swapped ? "ffn_down" : "ffn_up", width, TOWER_MODEL_FF);
    tower_model_pair(w, prefix, swapped ? "ffn_up" : "ffn_down", TOWER_MODEL_FF, width);
}

/* Everything; call gguf_writer_finish afterwards. "qwen3vl_merger" has deepstack in layer 1. */
static inline void tower_model_write(struct gguf_writer *w, const char *projector, bool swapped) {
    const bool qwen = strcmp(projector, "qwen3vl_merger") == 0;
    const uint64_t patch[4] = {TOWER_MODEL_PATCH, TOWER_MODEL_PATCH, 3, TOWER_MODEL_WIDTH};
    tower_model_keys(w, projector);
    gguf_writer_tensor(w, "v.patch_embd.weight", BLOCK_F16, 4, patch, NULL);
    gguf_writer_tensor(w, "v.patch_embd.bias", BLOCK_F32, 1, (uint64_t[]){TOWER_MODEL_WIDTH}, NULL);
    gguf_writer_tensor(w, "v.position_embd.weight", BLOCK_F32, 2, (uint64_t[]){TOWER_MODEL_WIDTH, 16}, NULL);
    tower_model_pair(w, "", "v.post_ln", TOWER_MODEL_WIDTH, 0);
    for (uint32_t i = 0; i < TOWER_MODEL_LAYERS; i++)
        tower_model_layer(w, qwen, i, swapped);
    if (!qwen) {
        gguf_writer_u32(w, "clip.vision.projector.scale_factor", 2);
        gguf_writer_tensor(w, "mm.soft_emb_norm.weight", BLOCK_F32, 1, (uint64_t[]){TOWER_MODEL_WIDTH}, NULL);
        gguf_writer_tensor(w, "mm.input_projection.weight", BLOCK_F16, 2,
                           (uint64_t[]){TOWER_MODEL_TEXT, TOWER_MODEL_WIDTH}, NULL);
        return;
    }
    gguf_writer_tensor(w, "v.patch_embd.weight.1", BLOCK_F16, 4, patch, NULL);
    tower_model_pair(w, "", "mm.0", TOWER_MODEL_MERGED, TOWER_MODEL_MERGED);
    tower_model_pair(w, "", "mm.2", TOWER_MODEL_MERGED, TOWER_MODEL_TEXT);
    gguf_writer_array(w, "clip.vision.is_deepstack_layers", GGUF_BOOL, 2, "\0\1", 2);
    tower_model_pair(w, "v.deepstack.1.", "norm", TOWER_MODEL_MERGED, 0);
    tower_model_pair(w, "v.deepstack.1.", "fc1", TOWER_MODEL_MERGED, TOWER_MODEL_MERGED);
    tower_model_pair(w, "v.deepstack.1.", "fc2", TOWER_MODEL_MERGED, TOWER_MODEL_TEXT);
}

/* A qwen3vl_merger tower with random weights, F32 or another type of matrices; with a window one of
 * qwen2.5vl_merger, whose every second layer has none. */
struct tower_model_qwen {
    uint32_t width, ff, layers, heads, text, patch, merge, image_size;
    uint32_t min_pixels, max_pixels;
    uint32_t deep;   /* bit i: layer i has deepstack */
    uint32_t window; /* pixels a side; 0: none */
    uint32_t type;
};

static inline void tower_model_random(struct gguf_writer *w, uint64_t *random, const char *name,
                                      uint32_t type, uint32_t n_dims, const uint64_t *ne, float middle,
                                      float spread);

/* A matrix (rows 0: a norm) and its bias. */
static inline void tower_model_random_pair(struct gguf_writer *w, uint64_t *random, const char *prefix,
                                           const char *name, uint32_t type, uint64_t cols, uint64_t rows) {
    char full[96];
    const uint64_t ne[2] = {cols, rows}, bias = rows != 0 ? rows : cols;
    snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    tower_model_random(w, random, full, rows != 0 ? type : (uint32_t)BLOCK_F32, rows != 0 ? 2 : 1, ne,
                       rows != 0 ? 0 : 1, 0.25f);
    snprintf(full, sizeof full, "%s%s.bias", prefix, name);
    tower_model_random(w, random, full, BLOCK_F32, 1, &bias, 0, 0.25f);
}

static inline void tower_model_qwen_layer(struct gguf_writer *w, const struct tower_model_qwen *m,
                                          uint64_t *random, uint32_t i) {
    const uint64_t W = m->width, F = m->ff, M = W * m->merge * m->merge;
    const struct {
        const char *name;
        uint64_t cols, rows;
        bool windows, others; /* who has it */
    } rows[] = {{"ln1", W, 0, false, true},    {"attn_qkv", W, 3 * W, false, true},
                {"attn_q", W, W, true, false}, {"attn_k", W, W, true, false},
                {"attn_v", W, W, true, false}, {"attn_out", W, W, true, true},
                {"ln2", W, 0, false, true},    {"ffn_gate", W, F, true, false},
                {"ffn_up", W, F, true, true},  {"ffn_down", F, W, true, true}};
    const struct {
        const char *name;
        uint64_t cols, rows;
    } deep[] = {{"norm", M, 0}, {"fc1", M, M}, {"fc2", M, m->text}};
    char prefix[32], name[64];
    snprintf(prefix, sizeof prefix, "v.blk.%u.", i);
    for (uint32_t k = 1; k <= 2 && m->window > 0; k++) { /* RMS norms */
        snprintf(name, sizeof name, "%sln%u.weight", prefix, k);
        tower_model_random(w, random, name, BLOCK_F32, 1, &W, 1, 0.25f);
    }
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (m->window > 0 ? rows[k].windows : rows[k].others)
            tower_model_random_pair(w, random, prefix, rows[k].name, m->type, rows[k].cols, rows[k].rows);
    snprintf(prefix, sizeof prefix, "v.deepstack.%u.", i);
    for (size_t k = 0; k < 3 && (m->deep >> i & 1) != 0; k++)
        tower_model_random_pair(w, random, prefix, deep[k].name, m->type, deep[k].cols, deep[k].rows);
}

/* Everything; call gguf_writer_finish afterwards. */
static inline void tower_model_write_qwen(struct gguf_writer *w, const struct tower_model_qwen *m,
                                          uint64_t random) {
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"embedding_length", m->width},      {"feed_forward_length", m->ff},
                   {"block_count", m->layers},          {"attention.head_count", m->heads},
                   {"projection_dim", m->text},         {"patch_size", m->patch},
                   {"image_size", m->image_size},       {"spatial_merge_size", m->merge},
                   {"image_min_pixels", m->min_pixels}, {"image_max_pixels", m->max_pixels}};
    const float mean[3] = {0.5f, 0.25f, 0.375f}, spread[3] = {0.25f, 0.5f, 0.375f};
    const uint64_t W = m->width, P = m->patch, M = W * m->merge * m->merge, side = m->image_size / P;
    const uint64_t patch[4] = {P, P, 3, W}, places[2] = {W, side * side};
    uint8_t deep[32];
    gguf_writer_text(w, "general.architecture", "clip");
    gguf_writer_text(w, "clip.projector_type", m->window > 0 ? "qwen2.5vl_merger" : "qwen3vl_merger");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "clip.vision.%s", numbers[i].name);
        gguf_writer_u32(w, key, numbers[i].v);
    }
    for (uint32_t i = 0; i < m->layers && i < 32; i++)
        deep[i] = m->deep >> i & 1;
    if (m->window > 0) {
        gguf_writer_bool(w, "clip.use_silu", 1);
        gguf_writer_u32(w, "clip.vision.n_wa_pattern", 2);
        gguf_writer_u32(w, "clip.vision.window_size", m->window);
    } else {
        gguf_writer_array(w, "clip.vision.is_deepstack_layers", GGUF_BOOL, m->layers, deep, m->layers);
    }
    gguf_writer_f32(w, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    gguf_writer_array(w, "clip.vision.image_mean", GGUF_F32, 3, mean, sizeof mean);
    gguf_writer_array(w, "clip.vision.image_std", GGUF_F32, 3, spread, sizeof spread);
    tower_model_random(w, &random, "v.patch_embd.weight", m->type, 4, patch, 0, 0.125f);
    tower_model_random(w, &random, "v.patch_embd.weight.1", m->type, 4, patch, 0, 0.125f);
    if (m->window == 0) {
        tower_model_random(w, &random, "v.patch_embd.bias", BLOCK_F32, 1, &W, 0, 0.25f);
        tower_model_random(w, &random, "v.position_embd.weight", m->type, 2, places, 0, 1);
    }
    for (uint32_t i = 0; i < m->layers; i++)
        tower_model_qwen_layer(w, m, &random, i);
    if (m->window > 0)
        tower_model_random(w, &random, "v.post_ln.weight", BLOCK_F32, 1, &W, 1, 0.25f);
    else
        tower_model_random_pair(w, &random, "v.", "post_ln", m->type, W, 0);
    tower_model_random_pair(w, &random, "mm.", "0", m->type, M, M);
    tower_model_random_pair(w, &random, "mm.", "2", m->type, M, m->text);
}

/* A gemma3 tower with random weights, F32 or another type of matrices. */
struct tower_model_gemma {
    uint32_t width, ff, layers, heads, text, patch, merge, image_size;
    uint32_t type;
};

/* Everything; call gguf_writer_finish afterwards. */
static inline void tower_model_write_gemma(struct gguf_writer *w, const struct tower_model_gemma *m,
                                           uint64_t random) {
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"embedding_length", m->width}, {"feed_forward_length", m->ff},
                   {"block_count", m->layers},     {"attention.head_count", m->heads},
                   {"projection_dim", m->text},    {"patch_size", m->patch},
                   {"image_size", m->image_size},  {"projector.scale_factor", m->merge}};
    const float mean[3] = {0.5f, 0.25f, 0.375f}, spread[3] = {0.25f, 0.5f, 0.375f};
    const uint64_t W = m->width, F = m->ff, P = m->patch, side = m->image_size / P;
    const struct {
        const char *name;
        uint64_t cols, rows;
    } rows[] = {{"ln1", W, 0},      {"attn_q", W, W}, {"attn_k", W, W}, {"attn_v", W, W},
                {"attn_out", W, W}, {"ln2", W, 0},    {"ffn_up", W, F}, {"ffn_down", F, W}};
    gguf_writer_text(w, "general.architecture", "clip");
    gguf_writer_text(w, "clip.projector_type", "gemma3");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "clip.vision.%s", numbers[i].name);
        gguf_writer_u32(w, key, numbers[i].v);
    }
    gguf_writer_f32(w, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    gguf_writer_array(w, "clip.vision.image_mean", GGUF_F32, 3, mean, sizeof mean);
    gguf_writer_array(w, "clip.vision.image_std", GGUF_F32, 3, spread, sizeof spread);
    tower_model_random(w, &random, "v.patch_embd.weight", m->type, 4, (uint64_t[]){P, P, 3, W}, 0, 0.125f);
    tower_model_random(w, &random, "v.patch_embd.bias", BLOCK_F32, 1, &W, 0, 0.25f);
    tower_model_random(w, &random, "v.position_embd.weight", m->type, 2, (uint64_t[]){W, side * side}, 0, 1);
    for (uint32_t i = 0; i < m->layers; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "v.blk.%u.", i);
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            tower_model_random_pair(w, &random, prefix, rows[k].name, m->type, rows[k].cols, rows[k].rows);
    }
    tower_model_random_pair(w, &random, "v.", "post_ln", m->type, W, 0);
    tower_model_random(w, &random, "mm.soft_emb_norm.weight", BLOCK_F32, 1, &W, 1, 0.25f);
    tower_model_random(w, &random, "mm.input_projection.weight", m->type, 2, (uint64_t[]){m->text, W}, 0,
                       0.25f);
}

/* A gemma4v tower with random weights, F32 or another type of matrices. */
struct tower_model_gemma4 {
    uint32_t width, ff, layers, heads, text, patch, merge, positions, max_pixels;
    uint32_t type;
    bool scaled; /* has v.std_bias and v.std_scale */
};

/* Everything; call gguf_writer_finish afterwards. */
static inline void tower_model_write_gemma4(struct gguf_writer *w, const struct tower_model_gemma4 *m,
                                            uint64_t random) {
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"embedding_length", m->width},
                   {"feed_forward_length", m->ff},
                   {"block_count", m->layers},
                   {"attention.head_count", m->heads},
                   {"projection_dim", m->text},
                   {"patch_size", m->patch},
                   {"image_size", 224},
                   {"projector.scale_factor", m->merge},
                   {"image_max_pixels", m->max_pixels}};
    const float mean[3] = {0.0f, 0.25f, 0.125f}, spread[3] = {1.0f, 0.5f, 0.75f};
    const uint64_t W = m->width, F = m->ff, P = m->patch, H = m->width / m->heads;
    const struct {
        const char *name;
        uint64_t cols, rows;
    } rows[] = {{"ln1", W, 0},          {"attn_q", W, W},      {"attn_k", W, W},   {"attn_v", W, W},
                {"attn_q_norm", H, 0},  {"attn_k_norm", H, 0}, {"attn_out", W, W}, {"attn_post_norm", W, 0},
                {"ln2", W, 0},          {"ffn_gate", W, F},    {"ffn_up", W, F},   {"ffn_down", F, W},
                {"ffn_post_norm", W, 0}};
    gguf_writer_text(w, "general.architecture", "clip");
    gguf_writer_text(w, "clip.vision.projector_type", "gemma4v");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "clip.vision.%s", numbers[i].name);
        if (numbers[i].v > 0)
            gguf_writer_u32(w, key, numbers[i].v);
    }
    gguf_writer_f32(w, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    gguf_writer_array(w, "clip.vision.image_mean", GGUF_F32, 3, mean, sizeof mean);
    gguf_writer_array(w, "clip.vision.image_std", GGUF_F32, 3, spread, sizeof spread);
    tower_model_random(w, &random, "v.patch_embd.weight", m->type, 4, (uint64_t[]){P, P, 3, W}, 0, 0.25f);
    tower_model_random(w, &random, "v.position_embd.weight", BLOCK_F32, 3, (uint64_t[]){W, m->positions, 2},
                       0, 1);
    for (uint32_t i = 0; i < m->layers; i++)
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            char name[96];
            const bool norm = rows[k].rows == 0;
            snprintf(name, sizeof name, "v.blk.%u.%s.weight", i, rows[k].name);
            tower_model_random(w, &random, name, norm ? BLOCK_F32 : m->type, norm ? 1 : 2,
                               (uint64_t[]){rows[k].cols, rows[k].rows}, norm ? 1 : 0, 0.25f);
        }
    for (int i = 0; i < 2 && m->scaled; i++)
        tower_model_random(w, &random, i == 0 ? "v.std_bias" : "v.std_scale", BLOCK_F32, 1, &W, i, 0.5f);
    tower_model_random(w, &random, "mm.input_projection.weight", m->type, 2, (uint64_t[]){W, m->text}, 0,
                       0.25f);
}

/* A pixtral tower with random weights, F32 or another type of matrices. */
struct tower_model_pixtral {
    uint32_t width, ff, layers, heads, text, patch, merge, image_size;
    uint32_t type;
    bool biased; /* mm.1 and mm.2 */
};

static inline void tower_model_random(struct gguf_writer *w, uint64_t *random, const char *name,
                                      uint32_t type, uint32_t n_dims, const uint64_t *ne, float middle,
                                      float spread) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < n_dims; i++)
        n *= ne[i];
    float *values = (float *)malloc(n * sizeof *values);
    for (uint64_t i = 0; values != NULL && i < n; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        /* Of 8 bits, so that F16 holds it too. */
        values[i] = middle + spread * ((float)(int32_t)(*random >> 56) - 127.5f) / 128.0f;
        if (type == BLOCK_F16) {
            const _Float16 half = (_Float16)values[i];
            memcpy((_Float16 *)(void *)values + i, &half, sizeof half);
        }
    }
    gguf_writer_tensor(w, name, type, n_dims, ne, values);
    free(values);
}

/* Everything; call gguf_writer_finish afterwards. */
static inline void tower_model_write_pixtral(struct gguf_writer *w, const struct tower_model_pixtral *m,
                                             uint64_t random) {
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"embedding_length", m->width}, {"feed_forward_length", m->ff},
                   {"block_count", m->layers},     {"attention.head_count", m->heads},
                   {"projection_dim", m->text},    {"patch_size", m->patch},
                   {"image_size", m->image_size},  {"spatial_merge_size", m->merge}};
    const float mean[3] = {0.5f, 0.25f, 0.375f}, spread[3] = {0.25f, 0.5f, 0.375f};
    const uint64_t W = m->width, F = m->ff, T = m->text, P = m->patch, M = W * m->merge * m->merge;
    gguf_writer_text(w, "general.architecture", "clip");
    gguf_writer_text(w, "clip.projector_type", "pixtral");
    gguf_writer_bool(w, "clip.use_silu", 1);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "clip.vision.%s", numbers[i].name);
        gguf_writer_u32(w, key, numbers[i].v);
    }
    gguf_writer_f32(w, "clip.vision.attention.layer_norm_epsilon", 1e-5f);
    gguf_writer_array(w, "clip.vision.image_mean", GGUF_F32, 3, mean, sizeof mean);
    gguf_writer_array(w, "clip.vision.image_std", GGUF_F32, 3, spread, sizeof spread);
    tower_model_random(w, &random, "v.patch_embd.weight", m->type, 4, (uint64_t[]){P, P, 3, W}, 0, 0.25f);
    tower_model_random(w, &random, "v.pre_ln.weight", BLOCK_F32, 1, &W, 1, 0.25f);
    for (uint32_t i = 0; i < m->layers; i++) {
        const struct {
            const char *name;
            uint64_t cols, rows;
        } rows[] = {{"ln1", W, 0},      {"attn_q", W, W},   {"attn_k", W, W},
                    {"attn_v", W, W},   {"attn_out", W, W}, {"ln2", W, 0},
                    {"ffn_gate", W, F}, {"ffn_up", W, F},   {"ffn_down", F, W}};
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            char name[96];
            const bool norm = rows[k].rows == 0;
            snprintf(name, sizeof name, "v.blk.%u.%s.weight", i, rows[k].name);
            tower_model_random(w, &random, name, norm ? BLOCK_F32 : m->type, norm ? 1 : 2,
                               (uint64_t[]){rows[k].cols, rows[k].rows}, norm ? 1 : 0, 0.25f);
        }
    }
    if (m->merge > 1) {
        tower_model_random(w, &random, "mm.input_norm.weight", BLOCK_F32, 1, &W, 1, 0.25f);
        tower_model_random(w, &random, "mm.patch_merger.weight", m->type, 2, (uint64_t[]){M, W}, 0, 0.25f);
    }
    for (uint32_t i = 1; i <= 2; i++) {
        const uint64_t ne[2] = {i == 1 ? W : T, T};
        char name[32];
        snprintf(name, sizeof name, "mm.%u.weight", i);
        tower_model_random(w, &random, name, m->type, 2, ne, 0, 0.25f);
        snprintf(name, sizeof name, "mm.%u.bias", i);
        if (m->biased)
            tower_model_random(w, &random, name, BLOCK_F32, 1, &T, 0, 0.25f);
    }
    tower_model_random(w, &random, "v.token_embd.img_break", BLOCK_F32, 1, &T, 0, 0.25f);
}

#endif
