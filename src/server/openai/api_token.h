/* The texts of tokens, for the API: as an answer shows them, and one by one beside log probabilities. */
#ifndef STATOR_SERVER_API_TOKEN_H
#define STATOR_SERVER_API_TOKEN_H

#include "chat/chat_form.h"
#include "stator.h"

struct api_tokens {
    stator *engine;
    char *piece; /* room for any token's text */
    size_t piece_capacity;
    /* Control tokens that answers are taken apart by, whose names are shown: <think> and the like. */
    int32_t markers[CHAT_FORM_MARKS];
    uint32_t n_markers;
};

/* After stator_prepare; memory from the pool. */
stator_status api_token_open(struct api_tokens *t, stator *engine, const struct chat_form *form,
                             stator_error *e);
/* The text that `id` adds to an answer, or (id < 0) what is left at its end; valid until the next call. */
const char *api_token_next(struct api_tokens *t, stator_decoder *decoder, int32_t id, size_t *n);
/* A token's own bytes, which may be parts of characters; valid until the next call. */
const unsigned char *api_token_bytes(struct api_tokens *t, int32_t id, size_t *n);

#endif
