/* The blocks that sequences hold of the caches. Admission reserves all blocks that a request can ever need,
 * so a running request never fails for lack of memory. Blocks of PAGED caches are taken from the pool
 * (kv_pool.h) when they are needed. Until then they may hold cached prefixes.
 *
 * Sharing. A block is kept as soon as all of its tokens have gone into steps. A request looks for kept blocks
 * of its prompt when it is admitted, and again at every block of the prompt. So requests that begin together
 * with the same prompt compute it once. This holds even within a step, because a step stores all K and V of a
 * layer before it reads any, and devices run steps in the order of their submission.
 *
 * Invariants: all reservations together are at most all blocks, and a sequence holds at most what it has
 * reserved, so a block is always available. In caches that are not PAGED, every block is either free or held
 * by one running sequence. Thread: the engine's. */
#ifndef STATOR_ENGINE_SEQUENCES_H
#define STATOR_ENGINE_SEQUENCES_H

#include "engine/engine.h"

/* Blocks of a prompt that others' may be: its last token's logits are wanted, but not by an action. */
static inline uint32_t sequences_last_shared(const struct engine_request *r) {
    return (r->slots.action != ACTION_NOT ? r->n_prompt : r->n_prompt - 1) / KV_LAYOUT_BLOCK;
}
/* Tells other threads of the pool, after blocks were forgotten. */
void sequences_show_pool(struct stator *s);
bool sequences_admit(struct stator *s, uint32_t slot); /* false: no room now */
/* Gives a logits request its rows. False: all rows are in use. */
bool sequences_take_rows(struct stator *s, uint32_t slot);
/* If kept blocks continue q's prompt, q continues after them. No step in flight may have a part of q's chunk.
 */
void sequences_reuse(struct stator *s, struct engine_sequence *q);
/* Holds q's next block, if the pool keeps it; false: it does not. */
bool sequences_hold_next(struct stator *s, struct engine_sequence *q);
/* Takes a block for q's next one. The caller writes its content, then calls sequences_keep_next. No step in
 * flight may have q. KV_POOL_NONE: steps in flight may still write all free blocks. */
uint32_t sequences_take_next(struct stator *s, struct engine_sequence *q);
void sequences_keep_next(struct stator *s, struct engine_sequence *q);
/* q continues after its first `blocks` kept blocks, which it has not computed itself since `done`, and drops
 * the others. */
void sequences_go_on(struct stator *s, struct engine_sequence *q, uint32_t blocks);
/* Takes the blocks for q's first `tokens` tokens. */
void sequences_take_blocks(struct stator *s, struct engine_sequence *q, uint32_t tokens);
/* The same for a pass of the last device alone, which runs ahead of steps that the devices before it still
 * have: takes only blocks that no such step uses. False: there are not enough of these now. */
bool sequences_take_idle(struct stator *s, struct engine_sequence *q, uint32_t tokens);
/* Keeps the full blocks, after q's `done` has grown. */
void sequences_keep(struct stator *s, struct engine_sequence *q);
void sequences_release(struct stator *s, struct engine_sequence *q);
/* Whether q can continue after its first `to` tokens, because its caches still hold what these tokens left.
 */
bool sequences_can_rewind(const struct stator *s, const struct engine_sequence *q, uint32_t to);
/* Goes back to q's first `to` tokens. Later positions are written again before they are read. If a cache
 * cannot go back, q begins anew, and its first `to` tokens are computed again. No step in flight may have q.
 */
void sequences_rewind(struct stator *s, struct engine_sequence *q, uint32_t to);
/* For debug builds: blocks and reservations of all caches add up, and each sequence's figures are consistent.
 */
bool sequences_are_balanced(const struct stator *s);

#endif
