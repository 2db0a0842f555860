/* Guesses of a second, smaller model (speculation.mode = "draft"): before a step of the model is filled, the
 * draft model goes on with the texts of those who will be in it, greedily and in steps of its own.
 *
 * Its caches have blocks of their own for each sequence, and remember which tokens they hold: what a text has
 * alike from its begin on is gone on from, whether it was a wrong guess that ended that, a lap or another
 * request. What is missing is computed when a sequence first guesses, at most a batch in a turn. States can't
 * go back: a sequence has two of each, one behind tokens of its text, and a copy that its guesses go on with.
 *
 * Invariants: the caches of a sequence hold K and V of held[0 .. n_held); nobody else's bytes depend on them.
 * Thread: the engine's. */
#ifndef STATOR_ENGINE_DRAFT_H
#define STATOR_ENGINE_DRAFT_H

#include "base/carve.h"
#include "base/error.h"
#include "config/config.h"

#include <stdint.h>

struct stator;
struct draft_turn;
struct planning_want;

/* Of a sequence. */
struct draft_cache {
    int32_t *held; /* [context] */
    uint32_t n_held;
    uint32_t agreed;  /* of them, the first ones that are known to be the request's */
    uint32_t reached; /* the most that the caches were written to since they were empty */
    uint32_t known;   /* tokens that the sequence's states stand behind */
    uint32_t at;      /* tokens of the request that the guesses come after; 0: there are none */
    uint32_t n;
    int32_t tokens[CONFIG_MOST_GUESSES];
};

struct draft {
    double *rope_frequency;   /* as the model's */
    struct draft_turn *turns; /* [sequences]: of the step in hand */
    uint64_t step;            /* the next one's number */
};

void draft_lay_out(struct stator *s, const struct planning_want *want, struct carve *c);
/* Another text may begin: what the caches hold is compared again. */
void draft_begin(struct draft_cache *d);
/* Guesses for all whose next token is to be computed now; returns when the draft model's steps have ended.
 * STATOR_DEVICE as device_vtable's wait. */
stator_status draft_run(struct stator *s, stator_error *e);
/* Those that come after n_tokens of its text; returns how many. */
uint32_t draft_guess(const struct draft_cache *d, uint32_t n_tokens, int32_t *out, uint32_t most);

#endif
