/* The places of the devices in the plan: one part of the model each. Inside the planner. */
#ifndef STATOR_PLAN_PLAN_DEVICE_H
#define STATOR_PLAN_PLAN_DEVICE_H

#include "engine/engine.h"

/* Both: STATOR_DOES_NOT_FIT fills what is known of a plan_short, p->missing or *missing. */

/* Layers [first, end) on device `index`, after the devices before it: builds and places its graph, fills its
 * model, appends a place with its arenas and blocks. Errors as planner_make's. */
stator_status plan_device_add(struct stator *s, const struct engine_want *want, uint32_t index,
                              uint32_t first, uint32_t end, struct plan *p, stator_error *e);

/* Whole pages of the device. */
uint64_t plan_device_rounded(const struct device_facts *f, uint64_t bytes);
/* Blocks of what lies in the slices [first, end) of the weights, and of the caches of the kept or the spilled
 * layers, in the newest arena's slices from `at` on. */
void plan_device_weight_blocks(const struct graph *g, uint32_t first, uint32_t end, uint32_t at,
                               struct plan *p);
void plan_device_cache_blocks(const struct device_model *m, bool spilled, uint32_t at, struct plan *p);
/* The slices of those layers' caches into an arena, and their bytes. */
void plan_device_cache_slices(const struct device_facts *f, const struct device_model *m, bool spilled,
                              struct plan_place *place, struct plan_arena *a);
uint64_t plan_device_cache_bytes(const struct device_model *m, bool spilled);

/* Divides the layers among the devices; leaves the first device's graph as something else. ends[i] is the
 * first layer after device i's. spare[i]: bytes to leave free on device i beside what the first look says.
 * *fit: whether that first look puts every device inside its memory; then guess[i] is what it takes device
 * i's total for, spare[i] included. */
stator_status plan_device_split(struct stator *s, const struct engine_want *want, const uint64_t *spare,
                                uint32_t *ends, uint64_t *guess, bool *fit, struct plan_short *missing,
                                stator_error *e);

#endif
