/* The grammar of a request: which tokens may come next in its answer. The grammar begins with the answer, or
 * behind given tokens of it.
 *
 * Invariants: the state follows from the tokens of the answer alone, so it is the same with and without
 * speculation. Before a token is taken, it is allowed. Thread: who submits until then, afterwards the
 * engine's. */
#ifndef STATOR_ENGINE_CONSTRAINT_H
#define STATOR_ENGINE_CONSTRAINT_H

#include "engine/sampling/grammar_slots.h"
#include "stator.h"

#include <stdbool.h>

struct engine_request;

enum constraint_phase {
    CONSTRAINT_BEFORE, /* the tokens that it begins behind have not come */
    CONSTRAINT_DUE,    /* they have; it begins when no token is forced any more */
    CONSTRAINT_BEGUN
};

struct constraint {
    struct stator_grammar *grammar; /* NULL: any text is allowed */
    int32_t *after;                 /* [STATOR_GRAMMAR_AFTER], n_after of them */
    uint32_t n_after;
    int32_t open;                /* -1: none */
    bool may_open;               /* it may be the next token */
    enum constraint_phase phase; /* of the answer so far, as the next */
    uint32_t state;
};

/* Takes over what was checked. The caller holds the grammar for the request. */
void constraint_set(struct constraint *c, const stator_sampling *w);
/* An answer begins. */
void constraint_begin(struct constraint *c);
/* The budget has an effect: the grammar has not begun. */
bool constraint_leaves_forced(const struct constraint *c);
/* The budget has to know the next token: it may open what has a budget. */
bool constraint_may_open(const struct constraint *c);
/* A grammar has begun, and nothing can follow: the answer has ended. */
bool constraint_ended(const struct constraint *c);

/* The token may come next; true without a grammar, and maybe false where something ran out. */
bool constraint_allows(struct stator *s, const struct engine_request *r, int32_t token);
/* The tokens that may come next, a bit each, until the next call: *mask, NULL without a grammar. It is
 * empty where nothing may come but the end, and the vocabulary has no end token. Returns NULL, or why the
 * answer can't go on. */
const char *constraint_mask(struct stator *s, const struct engine_request *r, const uint64_t **mask);
bool constraint_is_empty(const struct stator *s, const uint64_t *mask);
/* The token that comes next, whatever the logits say: the grammar allows one text only, which begins with it
 * and goes on behind it. It is the longest such token; where a longer one might go on beyond the text, none
 * is forced. -1: the sampler decides. It follows from the state alone. */
int32_t constraint_only(struct stator *s, const struct engine_request *r);
/* How many of n draft tokens are allowed, from the first on. */
uint32_t constraint_drafts(struct stator *s, const struct engine_request *r, const int32_t *tokens,
                           uint32_t n);
/* An answer's token was taken: the last one of r's. forces: more tokens are forced. Returns as
 * constraint_mask. */
const char *constraint_took(struct stator *s, struct engine_request *r, bool forces);

#endif
