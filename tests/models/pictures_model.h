/* Small text models whose vocabularies have the tokens of pictures, and towers that go with them, for tests.
 */
#ifndef STATOR_TESTS_PICTURES_MODEL_H
#define STATOR_TESTS_PICTURES_MODEL_H

#include "hybrid_model.h"
#include "tiny_model.h"
#include "tiny_vocab.h"
#include "tower_model.h"

enum { PICTURES_MODEL_WIDTH = 48 };

/* A vocabulary of bytes, a few words and these three special tokens; the id of the first. */
static inline int32_t pictures_model_vocab(struct tiny_vocab *v, const char *const special[3]) {
    static const char *const words[] = {"▁", "a", "b", "c", "▁a", "ab"};
    memset(v, 0, sizeof *v);
    tiny_vocab_add(v, "<unk>", 2, 0);
    tiny_vocab_add(v, "<s>", 3, 0);
    tiny_vocab_add(v, "</s>", 3, 0);
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        tiny_vocab_add(v, name, 6, 0);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        tiny_vocab_add(v, words[i], 1, -1.0f - (float)i);
    const int32_t marker = tiny_vocab_add(v, special[0], 3, 0);
    tiny_vocab_add(v, special[1], 3, 0);
    tiny_vocab_add(v, special[2], 3, 0);
    return marker;
}

/* Everything; call gguf_writer_finish afterwards. Returns the id of [IMG]; [IMG_BREAK] and [IMG_END] follow.
 */
static inline int32_t pictures_model_text(struct gguf_writer *w) {
    static struct tiny_vocab v; /* large */
    const int32_t marker =
        pictures_model_vocab(&v, (const char *const[3]){"[IMG]", "[IMG_BREAK]", "[IMG_END]"});
    struct tiny_model m = tiny_model_of("llama");
    m.n_embd = PICTURES_MODEL_WIDTH;
    m.n_ff = 40;
    m.vocab = v.n;
    tiny_model_write(w, m);
    tiny_vocab_write(&v, w, "llama");
    return marker;
}

/* Heads of 32, odd numbers of patches, a projector with biases. */
static inline struct tower_model_pixtral pictures_model_tower(uint32_t type) {
    return (struct tower_model_pixtral){.width = 64,
                                        .ff = 40,
                                        .layers = 2,
                                        .heads = 2,
                                        .text = PICTURES_MODEL_WIDTH,
                                        .patch = 3,
                                        .merge = 2,
                                        .image_size = 40,
                                        .type = type,
                                        .biased = true};
}

enum { PICTURES_MODEL_DEEP = 2 }; /* layers of the qwen3vl model that add features of pictures */

/* A text model of the architecture qwen3vl or (without norms of heads and deepstack, with biases) qwen2vl,
 * with random weights of the type F32. Everything; call gguf_writer_finish afterwards. Returns the id of
 * <|image_pad|>; the tokens around it follow. */
static inline int32_t pictures_model_qwen_of(struct gguf_writer *w, uint64_t random, const char *arch) {
    static struct tiny_vocab v; /* large */
    enum { LAYERS = 3, WIDTH = PICTURES_MODEL_WIDTH, FF = 40, HEADS = 3, HEAD = 32 };
    const bool deep = strcmp(arch, "qwen3vl") == 0;
    const struct {
        const char *name;
        uint64_t cols, rows;
        bool there;
    } rows[] = {{"attn_norm", WIDTH, 0, true},
                {"attn_q", WIDTH, HEADS * HEAD, true},
                {"attn_k", WIDTH, HEAD, true},
                {"attn_v", WIDTH, HEAD, true},
                {"attn_q_norm", HEAD, 0, deep},
                {"attn_k_norm", HEAD, 0, deep},
                {"attn_output", HEADS * HEAD, WIDTH, true},
                {"ffn_norm", WIDTH, 0, true},
                {"ffn_gate", WIDTH, FF, true},
                {"ffn_up", WIDTH, FF, true},
                {"ffn_down", FF, WIDTH, true}};
    const int32_t marker = pictures_model_vocab(
        &v, (const char *const[3]){"<|image_pad|>", "<|vision_start|>", "<|vision_end|>"});
    const struct tiny_model keys = {.arch = arch,
                                    .n_layers = LAYERS,
                                    .n_embd = WIDTH,
                                    .n_ff = FF,
                                    .n_heads = HEADS,
                                    .n_kv_heads = 1,
                                    .head_dim = HEAD,
                                    .vocab = v.n};
    char name[96];
    tiny_model_keys(w, &keys);
    snprintf(name, sizeof name, "%s.rope.dimension_sections", arch);
    gguf_writer_array(w, name, GGUF_I32, 4, (int32_t[]){6, 5, 5, 0}, 16);
    snprintf(name, sizeof name, "%s.n_deepstack_layers", arch);
    if (deep)
        gguf_writer_u32(w, name, PICTURES_MODEL_DEEP);
    tower_model_random(w, &random, "token_embd.weight", BLOCK_F32, 2, (uint64_t[]){WIDTH, v.n}, 0, 1);
    tower_model_random(w, &random, "output_norm.weight", BLOCK_F32, 1, (uint64_t[]){WIDTH}, 1, 0.25f);
    for (uint32_t i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            const bool norm = rows[k].rows == 0;
            snprintf(name, sizeof name, "blk.%u.%s.weight", i, rows[k].name);
            if (rows[k].there)
                tower_model_random(w, &random, name, BLOCK_F32, norm ? 1 : 2,
                                   (uint64_t[]){rows[k].cols, rows[k].rows}, norm ? 1 : 0, 0.25f);
            snprintf(name, sizeof name, "blk.%u.%s.bias", i, rows[k].name);
            if (!deep && k >= 1 && k <= 3)
                tower_model_random(w, &random, name, BLOCK_F32, 1, &rows[k].rows, 0, 0.25f);
        }
    tiny_vocab_write(&v, w, "llama");
    return marker;
}

static inline int32_t pictures_model_qwen_text(struct gguf_writer *w, uint64_t random) {
    return pictures_model_qwen_of(w, random, "qwen3vl");
}

/* The same of the architecture qwen35: layers with states, gated attention that rotates a part of its
 * dimensions, no deepstack. nextn: MTP heads, which mostly say the token again. */
static inline int32_t pictures_model_hybrid_text(struct gguf_writer *w, uint64_t random, uint32_t nextn) {
    static struct tiny_vocab v; /* large */
    struct hybrid_model m = hybrid_model_usual();
    const int32_t marker = pictures_model_vocab(
        &v, (const char *const[3]){"<|image_pad|>", "<|vision_start|>", "<|vision_end|>"});
    m.embd = PICTURES_MODEL_WIDTH;
    m.vocab = v.n;
    m.type = BLOCK_F32;
    m.seed = random;
    m.blocks += nextn;
    m.nextn = nextn;
    m.echoes = nextn > 0;
    hybrid_model_write(w, m);
    gguf_writer_array(w, "qwen35.rope.dimension_sections", GGUF_I32, 4, (int32_t[]){4, 2, 2, 0}, 16);
    tiny_vocab_write(&v, w, "llama");
    return marker;
}

/* A text model of the architecture gemma3 with random weights of the type F32: five layers with a window (0:
 * none), one that sees all tokens. Everything; call gguf_writer_finish afterwards. Returns the id of
 * <start_of_image>; <end_of_image> follows. */
static inline int32_t pictures_model_gemma_long(struct gguf_writer *w, uint64_t random, uint32_t window,
                                                uint32_t context) {
    static struct tiny_vocab v; /* large */
    enum { LAYERS = 6, WIDTH = PICTURES_MODEL_WIDTH, FF = 40, HEADS = 3, HEAD = 32 };
    static const struct {
        const char *name;
        uint64_t cols, rows;
    } rows[] = {{"attn_norm", WIDTH, 0},
                {"attn_q", WIDTH, HEADS * HEAD},
                {"attn_k", WIDTH, HEAD},
                {"attn_v", WIDTH, HEAD},
                {"attn_q_norm", HEAD, 0},
                {"attn_k_norm", HEAD, 0},
                {"attn_output", HEADS * HEAD, WIDTH},
                {"post_attention_norm", WIDTH, 0},
                {"ffn_norm", WIDTH, 0},
                {"ffn_gate", WIDTH, FF},
                {"ffn_up", WIDTH, FF},
                {"ffn_down", FF, WIDTH},
                {"post_ffw_norm", WIDTH, 0}};
    const int32_t marker =
        pictures_model_vocab(&v, (const char *const[3]){"<start_of_image>", "<end_of_image>", "<unused>"});
    const struct tiny_model keys = {.arch = "gemma3",
                                    .n_layers = LAYERS,
                                    .n_embd = WIDTH,
                                    .n_ff = FF,
                                    .n_heads = HEADS,
                                    .n_kv_heads = 1,
                                    .head_dim = HEAD,
                                    .vocab = v.n};
    w->drop[0] = "gemma3.context_length";
    tiny_model_keys(w, &keys);
    w->drop[0] = NULL;
    gguf_writer_u32(w, "gemma3.context_length", context);
    if (window > 0)
        gguf_writer_u32(w, "gemma3.attention.sliding_window", window);
    tower_model_random(w, &random, "token_embd.weight", BLOCK_F32, 2, (uint64_t[]){WIDTH, v.n}, 0, 1);
    tower_model_random(w, &random, "output_norm.weight", BLOCK_F32, 1, (uint64_t[]){WIDTH}, 1, 0.25f);
    for (uint32_t i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            char name[96];
            const bool norm = rows[k].rows == 0;
            snprintf(name, sizeof name, "blk.%u.%s.weight", i, rows[k].name);
            tower_model_random(w, &random, name, BLOCK_F32, norm ? 1 : 2,
                               (uint64_t[]){rows[k].cols, rows[k].rows}, norm ? 1 : 0, 0.25f);
        }
    tiny_vocab_write(&v, w, "llama");
    return marker;
}

static inline int32_t pictures_model_gemma_text(struct gguf_writer *w, uint64_t random, uint32_t window) {
    return pictures_model_gemma_long(w, random, window, 160);
}

/* The same of the architecture gemma4: heads of 32 in the layers with the window and of 64 in the one that
 * sees all tokens, which has no attn_v. Returns the id of <|image|>; <|image> and <image|> follow. */
static inline int32_t pictures_model_gemma4_text(struct gguf_writer *w, uint64_t random, uint32_t window) {
    static struct tiny_vocab v; /* large */
    enum { LAYERS = 6, WIDTH = PICTURES_MODEL_WIDTH, FF = 40, HEADS = 3, HEAD = 32, WIDE = 64 };
    const int32_t marker =
        pictures_model_vocab(&v, (const char *const[3]){"<|image|>", "<|image>", "<image|>"});
    const struct tiny_model keys = {.arch = "gemma4",
                                    .n_layers = LAYERS,
                                    .n_embd = WIDTH,
                                    .n_ff = FF,
                                    .n_heads = HEADS,
                                    .n_kv_heads = 1,
                                    .head_dim = WIDE,
                                    .vocab = v.n};
    static const char *const small[] = {"attention.key_length_swa", "attention.value_length_swa",
                                        "rope.dimension_count_swa"};
    w->drop[0] = "gemma4.context_length";
    tiny_model_keys(w, &keys);
    w->drop[0] = NULL;
    gguf_writer_u32(w, "gemma4.context_length", 160);
    gguf_writer_u32(w, "gemma4.attention.sliding_window", window);
    gguf_writer_array(w, "gemma4.attention.sliding_window_pattern", GGUF_BOOL, LAYERS, "\1\1\1\1\1\0",
                      LAYERS);
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "gemma4.%s", small[i]);
        gguf_writer_u32(w, key, HEAD);
    }
    tower_model_random(w, &random, "token_embd.weight", BLOCK_F32, 2, (uint64_t[]){WIDTH, v.n}, 0, 1);
    tower_model_random(w, &random, "output_norm.weight", BLOCK_F32, 1, (uint64_t[]){WIDTH}, 1, 0.25f);
    tower_model_random(w, &random, "rope_freqs.weight", BLOCK_F32, 1, (uint64_t[]){WIDE / 2}, 2, 1);
    for (uint32_t i = 0; i < LAYERS; i++) {
        const bool far = i == LAYERS - 1;
        const uint64_t head = far ? WIDE : HEAD;
        const struct {
            const char *name;
            uint64_t cols, rows;
        } rows[] = {{"attn_norm", WIDTH, 0},
                    {"attn_q", WIDTH, HEADS * head},
                    {"attn_k", WIDTH, head},
                    {"attn_v", WIDTH, head},
                    {"attn_q_norm", head, 0},
                    {"attn_k_norm", head, 0},
                    {"attn_output", HEADS * head, WIDTH},
                    {"post_attention_norm", WIDTH, 0},
                    {"ffn_norm", WIDTH, 0},
                    {"ffn_gate", WIDTH, FF},
                    {"ffn_up", WIDTH, FF},
                    {"ffn_down", FF, WIDTH},
                    {"post_ffw_norm", WIDTH, 0},
                    {"layer_output_scale", 1, 0}};
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            char name[96];
            const bool norm = rows[k].rows == 0;
            snprintf(name, sizeof name, "blk.%u.%s.weight", i, rows[k].name);
            if (!far || strcmp(rows[k].name, "attn_v") != 0)
                tower_model_random(w, &random, name, BLOCK_F32, norm ? 1 : 2,
                                   (uint64_t[]){rows[k].cols, rows[k].rows},
                                   !norm                  ? 0
                                   : rows[k].cols == head ? 0.5f /* scores are not scaled */
                                                          : 1,
                                   0.25f);
        }
    }
    tiny_vocab_write(&v, w, "llama");
    return marker;
}

/* Heads of 36, 3 x 3 patches of 2 pixels for a token, at most 15 tokens. */
static inline struct tower_model_gemma4 pictures_model_gemma4_tower(uint32_t type) {
    return (struct tower_model_gemma4){.width = 72,
                                       .ff = 40,
                                       .layers = 2,
                                       .heads = 2,
                                       .text = PICTURES_MODEL_WIDTH,
                                       .patch = 2,
                                       .merge = 3,
                                       .positions = 101,
                                       .max_pixels = 15 * 36,
                                       .type = type,
                                       .scaled = true};
}

/* Heads of 36, pictures of 24 x 24 pixels, 8 x 8 patches and 16 tokens. */
static inline struct tower_model_gemma pictures_model_gemma_tower(uint32_t type) {
    return (struct tower_model_gemma){.width = 72,
                                      .ff = 40,
                                      .layers = 2,
                                      .heads = 2,
                                      .text = PICTURES_MODEL_WIDTH,
                                      .patch = 3,
                                      .merge = 2,
                                      .image_size = 24,
                                      .type = type};
}

/* Heads of 36, windows of 2 x 2 tokens but in layer 1 of 3. */
static inline struct tower_model_qwen pictures_model_windowed_tower(uint32_t type) {
    return (struct tower_model_qwen){.width = 72,
                                     .ff = 40,
                                     .layers = 3,
                                     .heads = 2,
                                     .text = PICTURES_MODEL_WIDTH,
                                     .patch = 3,
                                     .merge = 2,
                                     .image_size = 12,
                                     .min_pixels = 36,
                                     .max_pixels = 4096,
                                     .window = 12,
                                     .type = type};
}

/* Heads of 36, so that they need room, a square of 4 x 4 positions, deepstack in layers 0 and 2 of 3. */
static inline struct tower_model_qwen pictures_model_qwen_tower(uint32_t type) {
    return (struct tower_model_qwen){.width = 72,
                                     .ff = 40,
                                     .layers = 3,
                                     .heads = 2,
                                     .text = PICTURES_MODEL_WIDTH,
                                     .patch = 3,
                                     .merge = 2,
                                     .image_size = 12,
                                     .min_pixels = 36,
                                     .max_pixels = 4096,
                                     .deep = 1 | 4,
                                     .type = type};
}

#endif
