/* Guesses: tokens that a generating sequence's step tests beside the one that is known. A guess is kept
 * exactly if it is the token that the sampler takes from the row before it, so no byte depends on what is
 * guessed, or whether.
 *
 * Invariants: guesses go into a step only behind a sequence's last token, and only where batch, rows and
 * reader have room that nobody else's next token needs; `done` and kept blocks count no guess before its
 * verdict, and what caches hold of others is written again before it is read. Thread: the engine's. */
#ifndef STATOR_ENGINE_SPECULATION_H
#define STATOR_ENGINE_SPECULATION_H

#include "base/carve.h"
#include "base/error.h"
#include "config/config.h"
#include "engine/draft/draft.h"
#include "engine/draft/ngram.h"
#include "engine/draft/speculation_load.h"

#include <stdatomic.h>
#include <stdbool.h>

struct stator;
struct engine_request;
struct engine_sequence;
struct engine_step;
struct planning_want;

/* How guesses are made: one per speculation.mode, in speculation.c's table. */
struct speculation_guesser {
    /* A sequence begins, or goes back. */
    void (*begin)(struct engine_sequence *q);
    /* The tokens of a step's rows were taken, and nothing begins on its devices before this returns: passes
     * of a model, for the sequences of the rows that go on, at most speculation_most for each. NULL: none. An
     * error is a device's failure. */
    stator_status (*follow)(struct stator *s, struct engine_step *st, stator_error *e);
    /* A step is about to be filled: as follow, for those whose next token it is to compute. NULL: none. */
    stator_status (*ready)(struct stator *s, stator_error *e);
    bool replays; /* a benchmark's guesses too, at their cost */
    /* At most `most` guesses of what follows q's tokens; returns how many. */
    uint32_t (*guess)(struct stator *s, struct engine_sequence *q, int32_t *out, uint32_t most);
};

/* How much a sequence guesses: less after guesses that all failed, then not at all for a while, twice as long
 * each time. */
struct speculation_pace {
    uint32_t most;   /* guesses of the next step that has any */
    uint32_t misses; /* steps in a row of whose guesses none was kept */
    uint32_t rest;   /* steps without guesses before it */
};

/* Of a sequence. */
struct speculation {
    struct ngram ngram;
    struct draft_cache draft;
    struct speculation_pace pace;
    uint32_t n; /* guesses of its step that is under way */
    int32_t tokens[CONFIG_MOST_GUESSES];
    uint32_t kept;   /* of those of its last step that was delivered */
    uint32_t unseen; /* tokens behind those of its last row, which no hidden state is known of */
    /* Of `follow`: guesses that were made ahead, for when it has this many tokens. */
    uint32_t n_ahead, ahead_of;
    int32_t ahead[CONFIG_MOST_GUESSES];
};

/* Draft tokens by load (speculation_load.h). */
struct speculation_loads {
    struct speculation_load of[SPECULATION_LOADS]; /* by sequences of a step, the first of one */
    uint32_t now;                                  /* sequences that the next step generates for */
    /* The step that was delivered last: as in struct engine_step, and when. */
    uint32_t generating;
    bool drafts;
    uint64_t at_ns;
};

/* Figures of use; the engine's thread writes, any reads. */
struct speculation_shown {
    _Atomic uint64_t turns; /* times that a sequence that generates had a token in a step */
    _Atomic uint64_t guessed[CONFIG_MOST_GUESSES]; /* by place among a step's guesses */
    _Atomic uint64_t kept[CONFIG_MOST_GUESSES];
    _Atomic uint64_t draft_steps, draft_tokens, draft_ns; /* of the draft model */
};

void speculation_lay_out(struct stator *s, const struct planning_want *want, struct carve *c);
/* A sequence begins, or goes back. */
void speculation_begin(const struct stator *s, struct engine_sequence *q);
/* The most that q may guess in its next step, as far as its own end and pace say. */
uint32_t speculation_most(const struct stator *s, const struct engine_sequence *q);
/* The next step generates for so many sequences: whether it may have draft tokens. */
bool speculation_may_draft(struct stator *s, uint32_t sequences);
/* A step was delivered and brought so many tokens. */
void speculation_time(struct stator *s, const struct engine_step *st, uint64_t tokens);
/* A step of sequences that generate was delivered. */
stator_status speculation_follow(struct stator *s, struct engine_step *st, stator_error *e);
/* The next step is about to be filled. */
stator_status speculation_ready(struct stator *s, stator_error *e);
/* What a lap of a benchmark had before, for a share of the guesses: those that come next; returns how many.
 */
uint32_t speculation_replay(const struct stator *s, const struct engine_request *r, int32_t *out,
                            uint32_t most);
/* Guesses for q's next step into q->speculation, at most `most`; returns how many. */
uint32_t speculation_guess(struct stator *s, struct engine_sequence *q, uint32_t most);
/* Its step has ended: its guesses are counted, */
void speculation_test(struct stator *s, struct engine_sequence *q);
/* the k-th, from 1 on, was right, */
void speculation_keep(struct stator *s, struct engine_sequence *q, uint32_t k);
/* and of all n, `kept` were; q goes on. */
void speculation_learn(struct stator *s, struct engine_sequence *q, uint32_t n, uint32_t kept);

/* The pace of a sequence that begins with `tokens` guesses; after a step with n guesses, of which `kept` were
 * right (n 0: one without). */
void speculation_pace_begin(struct speculation_pace *p, uint32_t tokens);
void speculation_pace_step(struct speculation_pace *p, uint32_t tokens, uint32_t n, uint32_t kept);

#endif
