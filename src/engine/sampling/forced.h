/* Forced tokens of a request: a part of an answer, such as reasoning, has a budget of tokens. When the budget
 * is used up, a queue of tokens comes next, whatever the logits say. Then sampling continues.
 *
 * Invariants: the state follows from the tokens of the answer alone, so it is the same with and without
 * speculation. Memory: the tokens lie in the request's part of the plan. Thread: who submits until then,
 * afterwards the engine's. */
#ifndef STATOR_ENGINE_FORCED_H
#define STATOR_ENGINE_FORCED_H

#include "base/carve.h"
#include "stator.h"

#include <stdbool.h>

struct forced {
    int32_t *tokens; /* [STATOR_FORCED]: those that open the part, those that close it, and the queue */
    uint32_t n_open, n_close;
    uint32_t n_queue; /* 0: nothing is ever forced */
    uint32_t budget;
    bool begun; /* the prompt ends inside the part */
    /* Of the answer so far. */
    bool inside;
    uint32_t used; /* tokens inside the part */
    uint32_t at;   /* the next token of the queue; n_queue: none */
};

/* Takes over a budget that was checked; NULL: none. */
void forced_set(struct forced *f, const stator_budget *b);
/* An answer begins. */
void forced_begin(struct forced *f);
/* The token that must come next; -1: the sampler decides. */
int32_t forced_next(struct forced *f);
/* An answer's token was taken: the last of the n that it has now. */
void forced_took(struct forced *f, const int32_t *answer, uint32_t n);

#endif
