/* What goes into the next step. Thread: the engine's. */
#ifndef STATOR_ENGINE_STEP_FILL_H
#define STATOR_ENGINE_STEP_FILL_H

#include "engine/engine.h"

/* Fills st and its descriptor `slot`. False: nothing can go into it. */
bool step_fill(struct stator *s, struct engine_step *st, uint8_t *slot);
/* Whether anything of q may go into a step. */
bool step_fill_runs(const struct engine_sequence *q, stator_request_kind kind);
/* Whether a sequence other than q has something to compute, or will have when its step has ended. */
bool step_fill_others(const struct stator *s, const struct engine_sequence *q);
/* Rows of logits that q's reader has room for. */
uint32_t step_fill_reader_room(const struct engine_sequence *q);

/* The guesses that the next step has room for, of each sequence that may have some. */
uint32_t step_fill_share(const struct stator *s);
/* Tokens and rows that guesses may have in the next step: those that nobody else's next token needs. Of
 * *n_guessing sequences, the k-th from next_sequence on has the (n_guessing - k)-th part of what is left. */
uint32_t step_fill_spare(const struct stator *s, uint32_t *n_guessing);

/* Whether somebody wants the request ended. */
static inline bool step_fill_cancelled(const struct engine_request *r) {
    return atomic_load(&r->cancelled) == atomic_load_explicit(&r->id, memory_order_relaxed);
}

#endif
