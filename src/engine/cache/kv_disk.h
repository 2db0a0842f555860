/* What leaves the caches goes to files, and comes back for a request that begins with the same tokens
 * (cache.kv_dir). kv_jobs.h has the thread that reads and writes.
 *
 * Out. A block of the pool is copied into a buffer just before it is taken for other tokens, with the
 * checkpoint at its end; a checkpoint also before another one replaces it. A loop that ends copies all that
 * is left. If no buffer is free while steps run, what leaves is lost, so no step waits.
 *
 * In. A sequence that is admitted asks which blocks behind those in memory there are. It takes part in no
 * step until they are read. Each goes into a block of the sequence, which the pool then keeps; at last a
 * checkpoint goes into a slot, and the sequence goes on from there as from one that never left. Whatever is
 * absent or damaged is computed.
 *
 * A block's bytes are those of the caches in the order cache, layer, head: no split, batch or number of
 * sequences changes them. A block is copied only when no step under way writes it.
 *
 * Nothing happens without cache.kv_dir. Thread: the engine's. */
#ifndef STATOR_ENGINE_KV_DISK_H
#define STATOR_ENGINE_KV_DISK_H

#include "engine/engine.h"

void kv_disk_lay_out(struct stator *s, struct carve *c);

/* q's k-th block is kept now: its name. */
void kv_disk_name(struct stator *s, const struct engine_sequence *q, uint32_t k);
/* Before a block is taken from the pool. */
void kv_disk_before_take(struct stator *s);
/* Before a slot in use gets another checkpoint. */
void kv_disk_before_replace(struct stator *s, uint32_t slot);

/* q is admitted, and has taken what there is in memory. */
void kv_disk_begin(struct stator *s, struct engine_sequence *q);
/* Whether q waits for files. */
static inline bool kv_disk_waits(const struct engine_sequence *q) {
    return q->restore.state != RESTORE_NOT;
}
/* Whether the disk's thread uses something of q, which therefore can't end. */
static inline bool kv_disk_holds(const struct engine_sequence *q) {
    return q->restore.jobs > 0;
}
/* Whether blocks should be read: false if reading has taken longer than computing. read_ns for `read` files,
 * computed_ns for `computed` tokens; of few of them nothing follows. */
bool kv_disk_is_worth(uint64_t read_ns, uint64_t read, uint64_t computed_ns, uint64_t computed);
/* Goes on with everybody's restoring. True: something has changed. */
bool kv_disk_turn(struct stator *s);
/* q ends. */
void kv_disk_leave(struct stator *s, struct engine_sequence *q);
/* Waits for all jobs and forgets what they were for: a device has failed. */
void kv_disk_settle(struct stator *s);
/* The loop ends: all that the caches keep goes to files. Steps below `whole` had ended on every device. */
void kv_disk_flush(struct stator *s, uint64_t whole);

#endif
