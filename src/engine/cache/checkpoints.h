/* Checkpoints: copies of a sequence's RING and STATE caches at the end of a block, for requests that begin
 * with the same tokens. Without such a copy a model with these caches cannot use the PAGED blocks of a
 * prefix.
 *
 * A checkpoint belongs to a kept block of the pool: the block says its text and its position, and they are
 * dropped together. Copies are data of steps (step.h), and a device copies before it computes. So copies
 * follow the order of the steps on every device of a split, and nothing waits for them.
 *
 * A step takes a checkpoint when its sequence continues from a block's end: near the end of the prompt, where
 * the cached blocks of another prompt end, and, always in the same slot, while it generates. Prompts are cut
 * at these places. A sequence that can continue from a checkpoint which another one is about to take waits
 * for it. The least useful checkpoint is replaced first (goes_before in checkpoints.c), but never one that a
 * sequence will begin from or that a step copies.
 *
 * Invariant: a block's mark names its slot, and the slot its block; or the slot is free. Thread: the
 * engine's. */
#ifndef STATOR_ENGINE_CHECKPOINTS_H
#define STATOR_ENGINE_CHECKPOINTS_H

#include "engine/engine.h"

void checkpoints_lay_out(struct stator *s, struct carve *c);

/* The checkpoint of a kept block, or CHECKPOINTS_NONE. */
uint32_t checkpoints_of(const struct stator *s, uint32_t block);

/* Sets up q when it is admitted. */
void checkpoints_begin(struct engine_sequence *q);
/* Decides where q takes checkpoints in its prompt. The first `common` tokens of the prompt lie in kept
 * blocks. */
void checkpoints_aim(const struct stator *s, struct engine_sequence *q, uint32_t common);
/* q continues from this checkpoint, at q->done. Its next step copies. */
void checkpoints_resume(struct stator *s, struct engine_sequence *q, uint32_t slot);
/* The number of blocks that a slot has of a cache; *first is the first one. Block k of a text is in the k-th,
 * modulo this number. */
uint32_t checkpoints_blocks(const struct stator *s, uint32_t cache, uint32_t slot, uint32_t *first);
/* Takes a slot that no step in flight uses, for a checkpoint at the end of q's kept blocks that is written
 * now. CHECKPOINTS_NONE: there is none; *later: there will be one when steps have ended. */
uint32_t checkpoints_put(struct stator *s, const struct engine_sequence *q, bool *later);
/* Tokens of q that may go into steps before its next checkpoint. */
uint32_t checkpoints_room(const struct engine_sequence *q);
/* Whether q should wait for a checkpoint that another sequence is about to take. */
bool checkpoints_wait(const struct stator *s, const struct engine_sequence *q);
/* Adds q's copies to step `number`, in which q's chunk begins at q->done: from the checkpoint that q resumes,
 * and to the one that it takes there. */
void checkpoints_fill(struct stator *s, struct step_header *h, uint64_t number, struct engine_sequence *q);
/* Forgets q, which ends. */
void checkpoints_leave(struct stator *s, struct engine_sequence *q);
/* Shows slots as free that no longer have a block. */
void checkpoints_show(struct stator *s);
/* The invariant, for debug builds. */
bool checkpoints_are_whole(const struct stator *s);

#endif
