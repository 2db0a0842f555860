/* A text model with its towers and two pictures of each kind of projector, for tests that play all of them.
 */
#ifndef STATOR_TESTS_PICTURES_FAMILIES_H
#define STATOR_TESTS_PICTURES_FAMILIES_H

#include "pictures_model.h"
#include "pictures_play.h"

#include "stator.h"

enum { PICTURES_SEED = 17, PICTURES_FAMILIES = 6 };

struct pictures_family {
    const char *name;
    const char *paths[2]; /* of pictures that have as many tokens */
    int32_t (*text)(struct gguf_writer *w);
    void (*tower)(struct gguf_writer *w, uint32_t type);
    uint32_t rows; /* of a picture */
    bool ends;     /* the token behind the marker belongs to it */
};

static inline void pictures_lengthen(struct gguf_writer *w, const char *key) {
    w->drop[0] = NULL;
    gguf_writer_u32(w, key, 160);
}

static inline int32_t pictures_llama_text(struct gguf_writer *w) {
    w->drop[0] = "llama.context_length";
    const int32_t marker = pictures_model_text(w);
    pictures_lengthen(w, "llama.context_length");
    return marker;
}

static inline int32_t pictures_qwen_text(struct gguf_writer *w) {
    w->drop[0] = "qwen3vl.context_length";
    const int32_t marker = pictures_model_qwen_text(w, PICTURES_SEED);
    pictures_lengthen(w, "qwen3vl.context_length");
    return marker;
}

static inline int32_t pictures_gemma_text(struct gguf_writer *w) {
    return pictures_model_gemma_text(w, PICTURES_SEED, 20);
}

static inline int32_t pictures_qwen2_text(struct gguf_writer *w) {
    w->drop[0] = "qwen2vl.context_length";
    const int32_t marker = pictures_model_qwen_of(w, PICTURES_SEED, "qwen2vl");
    pictures_lengthen(w, "qwen2vl.context_length");
    return marker;
}

static inline void pictures_windowed_tower(struct gguf_writer *w, uint32_t type) {
    const struct tower_model_qwen m = pictures_model_windowed_tower(type);
    tower_model_write_qwen(w, &m, PICTURES_SEED);
}

static inline int32_t pictures_hybrid_text(struct gguf_writer *w) {
    return pictures_model_hybrid_text(w, PICTURES_SEED, 0);
}

static inline void pictures_pixtral_tower(struct gguf_writer *w, uint32_t type) {
    const struct tower_model_pixtral m = pictures_model_tower(type);
    tower_model_write_pixtral(w, &m, PICTURES_SEED);
}

static inline void pictures_qwen_tower(struct gguf_writer *w, uint32_t type) {
    const struct tower_model_qwen m = pictures_model_qwen_tower(type);
    tower_model_write_qwen(w, &m, PICTURES_SEED);
}

static inline void pictures_gemma_tower(struct gguf_writer *w, uint32_t type) {
    const struct tower_model_gemma m = pictures_model_gemma_tower(type);
    tower_model_write_gemma(w, &m, PICTURES_SEED);
}

static inline int32_t pictures_gemma4_text(struct gguf_writer *w) {
    return pictures_model_gemma4_text(w, PICTURES_SEED, 20);
}

static inline void pictures_gemma4_tower(struct gguf_writer *w, uint32_t type) {
    const struct tower_model_gemma4 m = pictures_model_gemma4_tower(type);
    tower_model_write_gemma4(w, &m, PICTURES_SEED);
}

static inline void pictures_flat_tower(struct gguf_writer *w, uint32_t type) {
    struct tower_model_qwen m = pictures_model_qwen_tower(type);
    m.deep = 0;
    tower_model_write_qwen(w, &m, PICTURES_SEED);
}

static const struct pictures_family pictures_families[PICTURES_FAMILIES] = {
    {"pixtral",
     {"tests/data/pictures/tower.png", "tests/data/pictures/tower_2.png"},
     pictures_llama_text,
     pictures_pixtral_tower,
     18,
     false},
    {"qwen3vl",
     {"tests/data/pictures/tower.png", "tests/data/pictures/tower_2.png"},
     pictures_qwen_text,
     pictures_qwen_tower,
     15,
     false},
    {"gemma3",
     {"tests/data/pictures/square.png", "tests/data/pictures/square_2.png"},
     pictures_gemma_text,
     pictures_gemma_tower,
     17,
     true},
    {"qwen35",
     {"tests/data/pictures/tower.png", "tests/data/pictures/tower_2.png"},
     pictures_hybrid_text,
     pictures_flat_tower,
     15,
     false},
    {"qwen2vl",
     {"tests/data/pictures/tower.png", "tests/data/pictures/tower_2.png"},
     pictures_qwen2_text,
     pictures_windowed_tower,
     15,
     false},
    {"gemma4",
     {"tests/data/pictures/tower.png", "tests/data/pictures/tower_2.png"},
     pictures_gemma4_text,
     pictures_gemma4_tower,
     15,
     false}};

/* Its files in memory. */
struct pictures_files {
    const struct pictures_family *family;
    int32_t marker;
    struct gguf_writer writers[3];
    char text[GGUF_WRITER_PATH], towers[2][GGUF_WRITER_PATH]; /* matrices of the tower: F32, F16 */
    stator_picture pictures[2];
};

static inline void pictures_files_open(struct pictures_files *p, const struct pictures_family *family) {
    *p = (struct pictures_files){.family = family};
    for (int i = 0; i < 3; i++) {
        p->writers[i] = gguf_writer_new();
        if (i == 0)
            p->marker = family->text(&p->writers[i]);
        else
            family->tower(&p->writers[i], i == 1 ? BLOCK_F32 : BLOCK_F16);
        assert_true(gguf_writer_finish(&p->writers[i]));
        assert_non_null(gguf_writer_memory_path(&p->writers[i], i == 0 ? p->text : p->towers[i - 1]));
    }
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        p->pictures[i].data = pictures_read(family->paths[i], &n);
        p->pictures[i].length = n;
    }
}

static inline void pictures_files_close(struct pictures_files *p) {
    for (int i = 0; i < 3; i++)
        gguf_writer_free(&p->writers[i]);
    for (int i = 0; i < 2; i++)
        free((void *)(uintptr_t)p->pictures[i].data);
}

#endif
