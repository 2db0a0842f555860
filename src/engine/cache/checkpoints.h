/* What a sequence's RING and STATE caches hold at the end of a block, kept for requests that begin with the
 * same tokens: PAGED blocks of a prefix are of use only where such a copy is.
 *
 * A checkpoint belongs to a kept block of the pool, its place in a text and its tokens are that block's; with
 * the block it goes. Copies are data of steps (step.h), in which a device copies before it computes; so they
 * come in the order of the steps, on every device of a split, and nobody waits for them.
 *
 * A checkpoint is taken by the step with which a sequence goes on from a block's end: near the end of its
 * prompt, where another prompt has branched off from it, and, always into the same one, while it generates.
 * Prompts are cut there. Who can go on from one that another is about to take waits for it. The one
 * that was used longest ago goes first; none goes while a sequence is to begin from it, or a step copies it.
 *
 * Invariant: a block's mark and a slot's block name each other, or the slot is free. Thread: the engine's. */
#ifndef STATOR_ENGINE_CHECKPOINTS_H
#define STATOR_ENGINE_CHECKPOINTS_H

#include "engine/engine.h"

void checkpoints_lay_out(struct stator *s, struct carve *c);

/* The checkpoint of a kept block, or CHECKPOINTS_NONE. */
uint32_t checkpoints_of(const struct stator *s, uint32_t block);

/* q is admitted. */
void checkpoints_begin(struct engine_sequence *q);
/* Where q is to take checkpoints in its prompt, of which the first `common` tokens lie in kept blocks. */
void checkpoints_aim(const struct stator *s, struct engine_sequence *q, uint32_t common);
/* From here on q goes on from this checkpoint, at q->done; the next step with it copies. */
void checkpoints_resume(struct stator *s, struct engine_sequence *q, uint32_t slot);
/* Blocks that a slot has of a cache, and the first of them; block k of a text is in the k-th modulo these. */
uint32_t checkpoints_blocks(const struct stator *s, uint32_t cache, uint32_t slot, uint32_t *first);
/* A slot that no step under way uses, for a checkpoint at the end of q's kept blocks, which is to be written
 * now. CHECKPOINTS_NONE: there is none; *later: there will be one when steps have ended. */
uint32_t checkpoints_put(struct stator *s, const struct engine_sequence *q, bool *later);
/* Tokens that may go into a step with q before it is to take a checkpoint. */
uint32_t checkpoints_room(const struct engine_sequence *q);
/* Whether q should wait for one that another sequence is about to take. */
bool checkpoints_wait(const struct stator *s, const struct engine_sequence *q);
/* Into the step `number`, whose chunk of q begins at q->done: what q resumes from, and the checkpoint that it
 * is to take there. */
void checkpoints_fill(struct stator *s, struct step_header *h, uint64_t number, struct engine_sequence *q);
/* q ends. */
void checkpoints_leave(struct stator *s, struct engine_sequence *q);
/* Slots whose block has gone are shown as free. */
void checkpoints_show(struct stator *s);
/* The invariant, for debug builds. */
bool checkpoints_are_whole(const struct stator *s);

#endif
