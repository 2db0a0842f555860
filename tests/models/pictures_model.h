/* A small text model whose vocabulary has the tokens of pixtral's pictures, and a tower that goes with it,
 * for tests. */
#ifndef STATOR_TESTS_PICTURES_MODEL_H
#define STATOR_TESTS_PICTURES_MODEL_H

#include "tiny_model.h"
#include "tiny_vocab.h"
#include "tower_model.h"

enum { PICTURES_MODEL_WIDTH = 48 };

/* Everything; call gguf_writer_finish afterwards. Returns the id of [IMG]; [IMG_BREAK] and [IMG_END] follow.
 */
static inline int32_t pictures_model_text(struct gguf_writer *w) {
    static struct tiny_vocab v; /* large */
    static const char *const words[] = {"▁", "a", "b", "c", "▁a", "ab"};
    memset(&v, 0, sizeof v);
    tiny_vocab_add(&v, "<unk>", 2, 0);
    tiny_vocab_add(&v, "<s>", 3, 0);
    tiny_vocab_add(&v, "</s>", 3, 0);
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        tiny_vocab_add(&v, name, 6, 0);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        tiny_vocab_add(&v, words[i], 1, -1.0f - (float)i);
    const int32_t marker = tiny_vocab_add(&v, "[IMG]", 3, 0);
    tiny_vocab_add(&v, "[IMG_BREAK]", 3, 0);
    tiny_vocab_add(&v, "[IMG_END]", 3, 0);
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

#endif
