/* Speculation: a step tests draft tokens behind a generating sequence's known token. A draft token is
 * accepted exactly if it equals the token that the sampler takes from the row before it. So no byte of an
 * answer depends on the draft tokens.
 *
 * Invariants: draft tokens come last in a sequence's chunk. They get only the room in batch, rows and outbox
 * that no sequence's next token needs. `done` and kept blocks count a draft token only after it was accepted.
 * What caches hold of rejected ones is written again before it is read. Thread: the engine's. */
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

/* A source of draft tokens: one per speculation.mode, in speculation.c's table. */
struct speculation_guesser {
    /* A sequence begins, or goes back. */
    void (*begin)(struct engine_sequence *q);
    /* Called after the tokens of a step's rows were taken. No step begins before it returns. It may run
     * passes of a model for the sequences of the step that continue, at most speculation_most for each. NULL:
     * nothing to run. An error means that a device has failed. */
    stator_status (*follow)(struct stator *s, struct engine_step *step, stator_error *e);
    /* Called before a step is filled: the same for the sequences that will have a token in it. NULL: nothing
     * to run. */
    stator_status (*ready)(struct stator *s, stator_error *e);
    bool replays; /* a benchmark that replays draft tokens also runs this source, to have its cost */
    /* Writes at most `most` draft tokens that may follow q's tokens; returns how many. */
    uint32_t (*guess)(struct stator *s, struct engine_sequence *q, int32_t *out, uint32_t most);
};

/* How many draft tokens a sequence gets. A step with only rejected ones halves the number; several such steps
 * in a row pause speculation, twice as long each time. */
struct speculation_pace {
    uint32_t most;   /* draft tokens of the next step that has any */
    uint32_t misses; /* steps in a row whose draft tokens were all rejected */
    uint32_t rest;   /* steps without draft tokens before that step */
};

/* A sequence's state. */
struct speculation {
    struct ngram ngram;
    struct draft_cache draft;
    struct speculation_pace pace;
    uint32_t n; /* draft tokens of its step in flight */
    int32_t tokens[CONFIG_MOST_GUESSES];
    uint32_t kept;   /* accepted draft tokens of its last delivered step */
    uint32_t unseen; /* tokens after its last row: their hidden states are not known */
    /* Draft tokens that `follow` made. They are valid when the sequence has ahead_of tokens. */
    uint32_t n_ahead, ahead_of;
    int32_t ahead[CONFIG_MOST_GUESSES];
};

/* Draft tokens by load (speculation_load.h). */
struct speculation_loads {
    struct speculation_load of[SPECULATION_LOADS]; /* [n - 1]: for steps with n sequences */
    uint32_t now;                                  /* generating sequences of the next step */
    /* The last delivered step: its fields of struct engine_step, and its time. */
    uint32_t generating;
    bool drafts;
    uint64_t at_ns;
};

/* Counters. The engine's thread writes them, any thread reads them. */
struct speculation_shown {
    _Atomic uint64_t turns; /* times that a generating sequence had a token in a step */
    _Atomic uint64_t guessed[CONFIG_MOST_GUESSES]; /* by place behind the known token */
    _Atomic uint64_t kept[CONFIG_MOST_GUESSES];
    _Atomic uint64_t draft_steps, draft_tokens, draft_ns; /* of the draft model */
};

void speculation_lay_out(struct stator *s, const struct planning_want *want, struct carve *c);
/* A sequence begins, or goes back. */
void speculation_begin(const struct stator *s, struct engine_sequence *q);
/* The most draft tokens that q's own end and pace allow in its next step. */
uint32_t speculation_most(const struct stator *s, const struct engine_sequence *q);
/* Whether the next step, which generates for so many sequences, may have draft tokens. */
bool speculation_may_draft(struct stator *s, uint32_t sequences);
/* Measures a delivered step that brought so many tokens. */
void speculation_time(struct stator *s, const struct engine_step *step, uint64_t tokens);
/* Calls `follow` after a step of generating sequences was delivered. */
stator_status speculation_follow(struct stator *s, struct engine_step *step, stator_error *e);
/* Calls `ready` before a step is filled. */
stator_status speculation_ready(struct stator *s, stator_error *e);
/* For a benchmark that replays a text with an acceptance rate: writes its next draft tokens; returns how
 * many.
 */
uint32_t speculation_replay(const struct stator *s, const struct engine_request *r, int32_t *out,
                            uint32_t most);
/* Writes at most `most` draft tokens for q's next step into q->speculation; returns how many. */
uint32_t speculation_guess(struct stator *s, struct engine_sequence *q, uint32_t most);
/* Three calls after q's step has ended. First: counts the draft tokens. */
void speculation_test(struct stator *s, struct engine_sequence *q);
/* The k-th draft token (from 1 on) was accepted. */
void speculation_keep(struct stator *s, struct engine_sequence *q, uint32_t k);
/* Of n draft tokens `kept` were accepted, and q continues. */
void speculation_learn(struct stator *s, struct engine_sequence *q, uint32_t n, uint32_t kept);

/* The pace of a sequence that begins with `tokens` draft tokens, and after a step with n draft tokens of
 * which `kept` were accepted (n may be 0). */
void speculation_pace_begin(struct speculation_pace *p, uint32_t tokens);
void speculation_pace_step(struct speculation_pace *p, uint32_t tokens, uint32_t n, uint32_t kept);

#endif
