/* The tokens around a text that a model fills in. Keys of the file name them (tokenizer.ggml.fim_*_token_id
 * of the GGUF specification). Where a key is missing, they are found by the names that families have for
 * them. */
#ifndef STATOR_TOKENIZER_INFILL_H
#define STATOR_TOKENIZER_INFILL_H

#include "model/gguf.h"

struct vocab;

enum infill_role {
    INFILL_PREFIX, /* in front of the text before the gap, */
    INFILL_SUFFIX, /* of the text behind it, */
    INFILL_MIDDLE, /* and of the answer */
    INFILL_REPOSITORY,
    INFILL_FILE, /* in front of the name of another file */
    INFILL_PAD,
    INFILL_ROLES
};

struct infill {
    int32_t ids[INFILL_ROLES]; /* -1: there is none */
};

/* STATOR_BAD_MODEL: a key is no token of the vocabulary. The tokens of the last three roles that a key names
 * end an answer. */
stator_status infill_read(const struct gguf *g, struct vocab *v, struct infill *out, stator_error *e);

#endif
