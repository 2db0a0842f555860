/* Chooses the tokens of the next step. Thread: the engine's. */
#ifndef STATOR_ENGINE_STEP_FILL_H
#define STATOR_ENGINE_STEP_FILL_H

#include "engine/engine.h"

/* Fills step and its descriptor `slot`. False: no sequence has anything for a step, or (step->failed) those
 * that had have failed. */
bool step_fill(struct stator *s, struct engine_step *step, uint8_t *slot);
/* Whether q may have tokens in a step. */
bool step_fill_runs(const struct engine_sequence *q, stator_request_kind kind);
/* Whether a sequence other than q has something to compute, or will have when its step has ended. */
bool step_fill_others(const struct stator *s, const struct engine_sequence *q);
/* Rows of logits that q's reader has room for. */
uint32_t step_fill_reader_room(const struct engine_sequence *q);

/* The number of draft tokens that the next step has room for, per sequence that may have some. */
uint32_t step_fill_share(const struct stator *s);
/* Tokens and rows of the next step that no sequence's next token needs, so that draft tokens may have them.
 * *n_guessing sequences share them: the k-th from next_sequence on gets the (n_guessing - k)-th part of what
 * is left. */
uint32_t step_fill_spare(const struct stator *s, uint32_t *n_guessing);

/* Whether the request was cancelled. */
static inline bool step_fill_cancelled(const struct engine_request *r) {
    return atomic_load(&r->cancelled) == atomic_load_explicit(&r->id, memory_order_relaxed);
}

#endif
