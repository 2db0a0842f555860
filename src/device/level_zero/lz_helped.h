/* Exchanges of a step with the device's helper (device_helper.h): recorded with the step's lists, and served
 * by the engine's thread while it waits for the step.
 *
 * At a gated op of experts the list copies the chosen experts and the rows to the pinned part and signals
 * `asked`; before the launch that mixes the helper's rows it waits for `answered`. Between the two it runs
 * whatever the graph has there, which is the shared expert, and the experts that have slots; it also copies
 * experts to slots. Device and helper know by the step's table which experts these are (expert_cache.h). The
 * host resets `asked` before it answers, and the list resets `answered` before it asks again. The queue runs
 * lists in order, so the two events and one place in pinned memory serve all layers of both slots. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_HELPED_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_HELPED_H

#include "device/level_zero/lz_parts.h"

void lz_helped_lay_out(struct lz_helped *h, struct carve *c, const struct device_model *m);
/* The events, if the model is hosted. */
stator_status lz_helped_open(struct lz_device *d, stator_error *e);

/* While a list for `rows` tokens is recorded that copies no experts to the window, at an op of experts,
 * before its launches: what it exchanges there. Nothing where the model is not hosted. */
stator_status lz_helped_record(struct lz_device *d, struct lz_list *list, uint32_t op, uint32_t rows,
                               stator_error *e);

/* Before a launch that reads what the helper gives: until it has answered. */
stator_status lz_helped_record_answer(struct lz_device *d, struct lz_list *list, stator_error *e);

/* The slot's step will ask as often as the list does, for so many tokens. */
void lz_helped_submit(struct lz_device *d, const struct lz_list *list, uint32_t slot, uint32_t tokens);
/* Answers until the slot's step has no more to ask. *ended = false: timeout_ns passed without a question. */
stator_status lz_helped_serve(struct lz_device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                              stator_error *e);
/* Lets steps that run come to their end without answers, within the queue's deadline. */
void lz_helped_settle(struct lz_device *d);
void lz_helped_close(struct lz_device *d);

#endif
