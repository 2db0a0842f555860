/* Who holds which blocks of the caches. Admission takes all blocks that a request can ever need, so that a
 * running request never fails for memory.
 *
 * Invariant: of each cache, free blocks and those of the running sequences are disjoint and together all.
 * Thread: the engine's. */
#ifndef STATOR_ENGINE_SEQUENCES_H
#define STATOR_ENGINE_SEQUENCES_H

#include "engine/engine.h"

bool sequences_admit(struct stator *s, uint32_t slot); /* false: no room now */
/* Gives a logits request its rows. False: all are in use. */
bool sequences_take_rows(struct stator *s, uint32_t slot);
void sequences_release(struct stator *s, struct engine_sequence *q);
/* Whether its caches still have what its first `to` tokens left, so that it can go on from there. */
bool sequences_can_rewind(const struct stator *s, const struct engine_sequence *q, uint32_t to);
/* Back to its first `to` tokens, of which what lies behind is written again before it is read; or, where a
 * cache can't, to its begin: the tokens before `to` are then computed once more. No step may carry it. */
void sequences_rewind(struct stator *s, struct engine_sequence *q, uint32_t to);

#endif
