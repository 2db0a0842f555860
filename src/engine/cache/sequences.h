/* Who holds which blocks of the caches. Admission reserves all blocks that a request can ever need, so that a
 * running request never fails for memory; those of PAGED caches are taken from the pool (kv_pool.h) as they
 * are needed, and until then are others' cached ones.
 *
 * Sharing. A block whose tokens have gone into a step is kept at once. A request finds those with its
 * beginning when it is admitted, and others that came meanwhile at every block of its prompt: so requests
 * with one prompt that begin together compute it once, even in one step, which stores all K and V of a layer
 * before it reads any. Devices run steps in the order of their submits, so a block that an earlier step, or
 * this one, writes is there.
 *
 * Invariants: the sequences' reservations are no more than all blocks, and a sequence holds no more than it
 * has reserved: so there is always one to take. Of the caches that are not PAGED, free blocks and those of
 * the running sequences are disjoint and together all. Thread: the engine's. */
#ifndef STATOR_ENGINE_SEQUENCES_H
#define STATOR_ENGINE_SEQUENCES_H

#include "engine/engine.h"

bool sequences_admit(struct stator *s, uint32_t slot); /* false: no room now */
/* Gives a logits request its rows. False: all are in use. */
bool sequences_take_rows(struct stator *s, uint32_t slot);
/* Where kept blocks go on with its prompt, it goes on behind them. No chunk of it may be half in a step. */
void sequences_reuse(struct stator *s, struct engine_sequence *q);
/* Its next block behind those that it has kept, if the pool keeps that: false if not. */
bool sequences_hold_next(struct stator *s, struct engine_sequence *q);
/* A block for the next one, whose content the caller writes before it is kept. No step may carry q. */
uint32_t sequences_take_next(struct stator *s, struct engine_sequence *q);
void sequences_keep_next(struct stator *s, struct engine_sequence *q);
/* It goes on behind its first `blocks` kept blocks, of which it has computed none since its `done`, and drops
 * others. */
void sequences_go_on(struct stator *s, struct engine_sequence *q, uint32_t blocks);
/* Blocks for its first `tokens` tokens. */
void sequences_take_blocks(struct stator *s, struct engine_sequence *q, uint32_t tokens);
/* Its `done` has grown: full blocks are kept. */
void sequences_keep(struct stator *s, struct engine_sequence *q);
void sequences_release(struct stator *s, struct engine_sequence *q);
/* Whether its caches still have what its first `to` tokens left, so that it can go on from there. */
bool sequences_can_rewind(const struct stator *s, const struct engine_sequence *q, uint32_t to);
/* Back to its first `to` tokens, of which what lies behind is written again before it is read; or, where a
 * cache can't, to its begin: the tokens before `to` are then computed once more. No step may carry it. */
void sequences_rewind(struct stator *s, struct engine_sequence *q, uint32_t to);
/* Blocks and reservations of all caches add up; a sequence's figures are in their order. */
bool sequences_are_balanced(const struct stator *s);

#endif
