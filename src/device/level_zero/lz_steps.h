/* The steps of a GPU, recorded: closed command lists that are made before the seal and only submitted after
 * it.
 *
 * Per slot and bucket of token counts one list with the body (descriptor, landing, ops, sending), per slot
 * and bucket of row counts one with the tail (ops, results), and per slot one that copies only the
 * descriptor, for steps without a body. A step is one submit of one or two of them, followed by the slot's
 * fence. A list in flight may not be submitted again, hence one of each per slot.
 *
 * Every kernel launch and every copy is followed by a barrier: ops of a step depend on one another. With
 * trace, every launch signals an event that holds its times. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_STEPS_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_STEPS_H

#include "device/level_zero/lz_parts.h"

/* Takes the tables out of c (carve_count() to measure). */
void lz_steps_lay_out(struct lz_steps *s, struct carve *c, const struct device_model *m, bool trace);
/* Builds the modules and records all lists. Needs all slices, setup and pinned. */
stator_status lz_steps_record(struct lz_device *d, stator_error *e);
/* Launches that a list has at most: as many as steps.launches has room for. */
uint32_t lz_steps_room(const struct device_model *m);
/* While lists are recorded: the first n of steps.launches as the whole of another list, without times. */
stator_status lz_steps_append(struct lz_device *d, struct lz_list *list, uint32_t n, stator_error *e);
stator_status lz_steps_submit(struct lz_device *d, uint32_t slot, stator_error *e);
stator_status lz_steps_wait(struct lz_device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                            stator_error *e);
uint32_t lz_steps_spans(struct lz_device *d, uint32_t slot, struct device_span *out, uint32_t max);
/* Until no step runs, or d->queue.hangs. */
void lz_steps_settle(struct lz_device *d);
void lz_steps_close(struct lz_device *d);

#endif
