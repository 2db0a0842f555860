/* With cache.kv_dir, blocks and checkpoints that leave the caches are written to files, and read again for
 * requests that begin with the same tokens. The thread of kv_jobs.h reads and writes.
 *
 * Out. A block of the pool is copied into a buffer just before it is taken for other tokens, together with
 * its checkpoint. A checkpoint is also copied before another one replaces it. When the loop ends, it copies
 * all that is left. If no buffer is free while steps run, the block is lost, so that no step waits.
 *
 * In. An admitted sequence asks which blocks after those in memory have files. It takes part in no step until
 * they are read. Each is read into a block of the sequence, which the pool then keeps. Last, a checkpoint is
 * read into a slot, and the sequence resumes it. Whatever is absent or damaged is computed.
 *
 * A block's bytes are those of the caches in the order cache, layer, head: no device, split, batch or number
 * of sequences changes them. kv_moves.h copies them. A block is copied only when no step in flight writes it.
 *
 * Nothing happens without cache.kv_dir. Thread: the engine's. */
#ifndef STATOR_ENGINE_KV_DISK_H
#define STATOR_ENGINE_KV_DISK_H

#include "engine/engine.h"

void kv_disk_lay_out(struct stator *s, struct carve *c);

/* Names q's k-th block, which is kept now. */
void kv_disk_name(struct stator *s, const struct engine_sequence *q, uint32_t k);
/* Called before a block is taken from the pool. */
void kv_disk_before_take(struct stator *s);
/* Called before a slot in use gets another checkpoint. */
void kv_disk_before_replace(struct stator *s, uint32_t slot);

/* q is admitted, and holds its prefix that is in memory. */
void kv_disk_begin(struct stator *s, struct engine_sequence *q);
/* Whether q waits for files. */
static inline bool kv_disk_waits(const struct engine_sequence *q) {
    return q->restore.state != RESTORE_NOT;
}
/* Whether the disk's thread uses memory of q, so that q cannot end. */
static inline bool kv_disk_holds(const struct engine_sequence *q) {
    return q->restore.jobs > 0;
}
/* For a SAVE (kv_slots.h): a kept block, or a checkpoint in use, is copied and goes to its file. No step that
 * has begun writes it. False: no buffer is free now. */
bool kv_disk_write_block(struct stator *s, uint32_t block);
bool kv_disk_write_checkpoint(struct stator *s, uint32_t slot);
/* Bytes of the caches in the files of a text's first blocks, with a checkpoint at their end. */
uint64_t kv_disk_file_bytes(const struct stator *s, uint32_t blocks);
/* Whether blocks should be read: false if reading has taken longer than computing. read_ns is the time for
 * `read` files, computed_ns that for `computed` tokens. Small numbers decide nothing. */
bool kv_disk_is_worth(uint64_t read_ns, uint64_t read, uint64_t computed_ns, uint64_t computed);
/* Continues to restore all sequences. STATOR_DEVICE: a GPU could not copy a block. */
stator_status kv_disk_turn(struct stator *s, stator_error *e);
/* q ends. */
void kv_disk_leave(struct stator *s, struct engine_sequence *q);
/* Waits for all jobs and drops their results, because a device has failed. */
void kv_disk_settle(struct stator *s);
/* Writes all that the caches keep, when the loop ends. Steps below `whole` had ended on every device. */
void kv_disk_flush(struct stator *s, uint64_t whole);

#endif
