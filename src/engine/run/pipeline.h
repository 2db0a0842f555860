/* The steps under way over the devices of the model: while device i + 1 works on step s, device i works on
 * step s + 1. Written for devices whose submit returns at once; those that run inside submit fit in.
 *
 * Invariants. A step goes through the devices in order, and no step overtakes another. Step s enters device
 * i + 1 after its end on device i was seen; it enters device i when device i + 1 has ended step s - slots,
 * or, on the last device, when the results of that were read: until then its slot's halves are in use. While
 * a logits request's tails run, no body enters the last device (it would overwrite their residual stream).
 * Hence which steps exist, and what is in them, may depend on time; what they compute does not.
 *
 * Thread: the engine's. Every error is a device failure: call nothing but pipeline_drain then. */
#ifndef STATOR_ENGINE_PIPELINE_H
#define STATOR_ENGINE_PIPELINE_H

#include "engine/engine.h"

/* Whether another step can begin now. */
bool pipeline_has_room(const struct stator *s);
/* The step that would be next, blank, and its descriptor on the first device. */
struct engine_step *pipeline_next(struct stator *s, uint8_t **slot);
/* Begins it, filled. */
stator_status pipeline_begin(struct stator *s, stator_error *e);
/* Looks at all steps under way and moves to the next device what can move. *moved: something has changed. */
stator_status pipeline_advance(struct stator *s, bool *moved, stator_error *e);
/* The oldest step, if it has ended on the last device; NULL: it has not, or there is none. */
struct engine_step *pipeline_ended(struct stator *s);
/* Its tail again, for `rows` tokens of the step from `first` on. */
stator_status pipeline_again(struct stator *s, struct engine_step *st, uint32_t first, uint32_t rows,
                             stator_error *e);
/* Its results were read: it is no longer under way, and its sequences are rid of it. */
void pipeline_finish(struct stator *s, struct engine_step *st);
/* Sleeps until a step may have ended, a millisecond at most. STATOR_DEVICE when a device is over its
 * deadline. */
stator_status pipeline_wait(struct stator *s, stator_error *e);
/* Each sequence is carried by as many steps in flight as it says, each device runs as many as it says. */
bool pipeline_is_balanced(const struct stator *s);
bool pipeline_is_empty(const struct stator *s);
/* Whether a device works on a step. */
bool pipeline_works(const struct stator *s);
/* Waits, within the deadline, until no device works any more, so that none pushes into a closed one; forgets
 * all steps. */
void pipeline_drain(struct stator *s);

#endif
