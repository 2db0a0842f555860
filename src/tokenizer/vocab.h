/* The tokens of a vocabulary: texts (in the memory of the gguf), scores, kinds, and the way from a text to
 * its id.
 *
 * Invariants after vocab_fill: texts are unique (empty ones are in no table); every text lies inside the
 * gguf's memory; no score is NaN. Read-only after that: any thread. */
#ifndef STATOR_TOKENIZER_VOCAB_H
#define STATOR_TOKENIZER_VOCAB_H

#include "base/carve.h"
#include "model/gguf.h"

/* A set of bits per token. A token of kind "undefined" has none of the first six. */
#define VOCAB_NORMAL  1
#define VOCAB_UNKNOWN 2
#define VOCAB_CONTROL 4
#define VOCAB_USER    8
#define VOCAB_UNUSED  16
#define VOCAB_BYTE    32
#define VOCAB_END     64  /* generation ends with it */
#define VOCAB_STRIP   128 /* blanks that follow it in a text are dropped (phi-3) */
#define VOCAB_SPECIAL (VOCAB_UNKNOWN | VOCAB_CONTROL | VOCAB_USER)

#define VOCAB_TOKENS_MAX (1u << 24)
#define VOCAB_TEXT_MAX   65535 /* bytes of one token */

struct vocab_slot {
    uint32_t tag; /* other bits of the text's hash than those that chose the slot */
    int32_t id;   /* -1: empty */
};

/* The arrays of the file, checked against each other. */
struct vocab_file {
    struct gguf_value tokens, scores, types;
    bool has_scores, has_types;
    uint64_t n_special; /* tokens whose kind in the file makes them special */
};

struct vocab {
    uint32_t n;
    uint32_t n_slots;
    uint32_t longest; /* bytes of the longest text */
    const char *base; /* where the offsets in `at` begin */
    uint32_t *at;     /* [n] */
    uint16_t *length; /* [n] */
    uint8_t *bits;    /* [n] */
    struct vocab_slot *slots;
    struct gguf_value scores;
    bool has_scores;
};

stator_status vocab_read(const struct gguf *g, struct vocab_file *f, stator_error *e);
/* Takes the tables out of c; the same calls count and place. */
void vocab_carve(struct vocab *v, const struct vocab_file *f, struct carve *c);
stator_status vocab_fill(struct vocab *v, const struct vocab_file *f, const struct gguf *g, stator_error *e);

int32_t vocab_find(const struct vocab *v, const char *text, uint64_t n); /* -1: no token */
int32_t vocab_find_name(const struct vocab *v, const char *name);
/* The id of that key, or `fallback` (-1: none) where the file does not have the key. STATOR_BAD_MODEL: it is
 * no id of the vocabulary. */
stator_status vocab_read_id(const struct gguf *g, const struct vocab *v, const char *key, int32_t fallback,
                            int32_t *id, stator_error *e);
float vocab_score(const struct vocab *v, int32_t id);

static inline struct gguf_text vocab_text(const struct vocab *v, int32_t id) {
    return (struct gguf_text){v->base + v->at[id], v->length[id]};
}

#endif
