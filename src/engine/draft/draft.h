/* Draft tokens of a second, smaller model (speculation.mode = "draft"). Before a step of the main model is
 * filled, the draft model continues the texts of the step's sequences greedily, in steps of its own.
 *
 * Its caches have blocks of their own for each sequence and remember the tokens that they hold. The common
 * prefix with the next text is kept, whether that is the same text after a rejected draft token, a
 * benchmark's next round or another request. The rest is computed when it is needed, at most one batch per
 * turn. States cannot go back, so a sequence has two of each: one after tokens of its text, and a copy that
 * the draft tokens change.
 *
 * Invariants: the caches of a sequence hold K and V of held[0 .. n_held); no byte of an answer depends on
 * them. Thread: the engine's. */
#ifndef STATOR_ENGINE_DRAFT_H
#define STATOR_ENGINE_DRAFT_H

#include "base/carve.h"
#include "base/error.h"
#include "config/config.h"

#include <stdint.h>

struct stator;
struct draft_turn;
struct planning_want;

/* A sequence's part. */
struct draft_cache {
    int32_t *held; /* [context] */
    uint32_t n_held;
    uint32_t agreed;  /* how many of the first ones are known to be the request's */
    uint32_t reached; /* the largest position to which the caches were written since they were empty */
    uint32_t known;   /* tokens that the sequence's states include */
    uint32_t at;      /* the draft tokens follow so many tokens of the request; 0: there are none */
    uint32_t n;
    int32_t tokens[CONFIG_MOST_GUESSES];
};

struct draft {
    double *rope_frequency;   /* of RoPE, as for the main model */
    struct draft_turn *turns; /* [sequences]: for the present step */
    uint64_t step;            /* number of the next step */
};

void draft_lay_out(struct stator *s, const struct planning_want *want, struct carve *c);
/* Another text may begin: the caches are compared with it again. */
void draft_begin(struct draft_cache *d);
/* Makes draft tokens for all sequences whose next token is computed in the next step. Returns when the draft
 * model's steps have ended. STATOR_DEVICE: as device_vtable's wait. */
stator_status draft_run(struct stator *s, stator_error *e);
/* Writes the draft tokens that follow n_tokens of the text; returns how many. */
uint32_t draft_guess(const struct draft_cache *d, uint32_t n_tokens, int32_t *out, uint32_t most);

#endif
