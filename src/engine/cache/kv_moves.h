/* Blocks between the devices' caches and the buffers of kv_jobs.h. From and to caches in host memory they are
 * copied at once. A GPU copies them in the order of its steps: a block that is moved out is whole when later
 * steps write it, and one that is moved in is there for them. So no step waits for a move, and a job with
 * moves in flight is only held back until they have ended.
 *
 * A move that fails is a device that fails: the run ends as for a step.
 *
 * Thread: the engine's. */
#ifndef STATOR_ENGINE_KV_MOVES_H
#define STATOR_ENGINE_KV_MOVES_H

#include "engine/engine.h"

void kv_moves_lay_out(struct stator *s, struct carve *c);

/* What the caches have in a block, for all layers of all devices: between the caches and the job's buffer at
 * *at, which it moves on. GPUs begin with kv_moves_begin. */
void kv_moves_add(struct stator *s, uint32_t cache, uint32_t block, const struct kv_job *job, uint8_t **at,
                  bool out);
void kv_moves_begin(struct stator *s, struct kv_job *job, bool out);
/* When the job's moves have ended: pushes it, or gives it back. */
void kv_moves_push(struct stator *s, struct kv_job *job);
void kv_moves_give_back(struct stator *s, struct kv_job *job);

/* Whether jobs are held back. */
static inline bool kv_moves_wait(const struct stator *s) {
    return s->run.kv_disk.moves.n_held > 0;
}
/* Pushes and gives back the jobs whose moves have ended. */
void kv_moves_turn(struct stator *s);
/* STATOR_DEVICE: a move has failed. The run ends before its next step, which may read the block. */
stator_status kv_moves_failed(const struct stator *s, stator_error *e);
/* Until no job is held back. What has not ended after the deadline of steps, or ends when a device has
 * failed, is dropped. */
void kv_moves_settle(struct stator *s);

#endif
