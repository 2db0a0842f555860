/* The steps in flight over the model's devices: while device i + 1 works on step s, device i works on step s
 * + 1. Devices that run a step inside submit work too. The devices of a group (tensor split) work on a step
 * together and count as one below.
 *
 * Invariants. A step goes through the devices in order, and no step overtakes another. Step s enters device
 * i + 1 after its end on device i was seen; it enters device i when device i + 1 has ended step s - slots. On
 * the last device it enters when the results of step s - slots were read. Until then the slot's halves are in
 * use. While the tails of a logits request run, no body enters the last device, because it would overwrite
 * their residual stream. So timing decides which steps exist, but never what they compute.
 *
 * Thread: the engine's. Every error means that a device has failed. Only pipeline_drain may be called then.
 */
#ifndef STATOR_ENGINE_PIPELINE_H
#define STATOR_ENGINE_PIPELINE_H

#include "engine/engine.h"

/* Whether another step can begin now. */
bool pipeline_has_room(const struct stator *s);
/* The next step, still empty, and its descriptor on the first device. */
struct engine_step *pipeline_next(struct stator *s, uint8_t **slot);
/* Begins that step after it was filled. */
stator_status pipeline_begin(struct stator *s, stator_error *e);
/* Looks at all steps in flight and moves those that can move to their next device. *moved: something has
 * changed. */
stator_status pipeline_advance(struct stator *s, bool *moved, stator_error *e);
/* The oldest step, if it has ended on the last device; else NULL. */
struct engine_step *pipeline_ended(struct stator *s);
/* Runs the step's tail again, for `rows` of its tokens from `first` on. */
stator_status pipeline_again(struct stator *s, struct engine_step *step, uint32_t first, uint32_t rows,
                             stator_error *e);
/* The step's results were read: it leaves the pipeline and its sequences. */
void pipeline_finish(struct stator *s, struct engine_step *step);
/* Sleeps until a step may have ended, a millisecond at most. STATOR_DEVICE when a device is over its
 * deadline. */
stator_status pipeline_wait(struct stator *s, stator_error *e);
/* For debug builds: the counts of steps in each sequence and device are right. */
bool pipeline_is_balanced(const struct stator *s);
bool pipeline_is_empty(const struct stator *s);
/* Whether a device works on a step. */
bool pipeline_works(const struct stator *s);
/* Waits, within the deadline, until no device works, so that none writes into a closed one. Then forgets all
 * steps. */
void pipeline_drain(struct stator *s);

#endif
