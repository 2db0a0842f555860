#include "server/openai/api_token.h"

#include "base/check.h"
#include "base/error.h"
#include "server/http/edge_pool.h"

#include <string.h>

#define PIECE_MOST (16u << 20)

static stator_status make_piece(struct api_tokens *t, stator_error *e) {
    for (size_t capacity = 1024;; capacity *= 2) {
        char *piece = edge_pool_resize(t->piece, capacity);
        if (piece == NULL)
            return error_set(e, STATOR_DOES_NOT_FIT,
                             "server.memory has no room for the text of a token; raise it");
        t->piece = piece;
        t->piece_capacity = capacity;
        size_t n = 0;
        stator_decoder probe = {.size = sizeof probe};
        stator_status st = stator_decode(t->engine, &probe, -1, 0, piece, capacity, &n, e);
        if (st != STATOR_USAGE || capacity >= PIECE_MOST)
            return st;
    }
}

stator_status api_token_open(struct api_tokens *t, stator *engine, const struct chat_form *form,
                             stator_error *e) {
    const char *names[CHAT_FORM_MARKS];
    const size_t n_names = chat_form_marks(form, names);
    *t = (struct api_tokens){.engine = engine};
    stator_status st = make_piece(t, e);
    for (size_t i = 0; i < n_names && st == STATOR_OK; i++) {
        int32_t id = -1;
        size_t n = 0;
        /* More than one token: the name is spelt, and needs no help. */
        if (stator_tokenize(engine, names[i], strlen(names[i]), 0, 1, &id, 1, &n, NULL) == STATOR_OK &&
            n == 1)
            t->markers[t->n_markers++] = id;
    }
    return st;
}

const char *api_token_next(struct api_tokens *t, stator_decoder *decoder, int32_t id, size_t *n) {
    bool marker = false;
    for (uint32_t i = 0; i < t->n_markers && id >= 0; i++)
        marker = marker || t->markers[i] == id;
    stator_status st = stator_decode(t->engine, decoder, id, marker, t->piece, t->piece_capacity, n, NULL);
    CHECK(st == STATOR_OK); /* the engine's own token, and room was measured */
    return t->piece;
}

const unsigned char *api_token_bytes(struct api_tokens *t, int32_t id, size_t *n) {
    stator_status st = stator_token_bytes(t->engine, id, t->piece, t->piece_capacity, n, NULL);
    CHECK(st == STATOR_OK);
    return (const unsigned char *)t->piece;
}
