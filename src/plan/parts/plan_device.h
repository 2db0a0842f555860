/* The places of the devices in the plan: one part of the model each. Inside the planner. */
#ifndef STATOR_PLAN_PLAN_DEVICE_H
#define STATOR_PLAN_PLAN_DEVICE_H

#include "plan/planning.h"

/* Both: STATOR_DOES_NOT_FIT fills what is known of a plan_short, p->missing or *missing. */

/* Layers [first, end) on device `index`, after the devices before it: builds and places its graph, fills its
 * model, appends a place with its arenas and blocks. Errors as planner_make's. */
stator_status plan_device_add(struct planning *s, const struct planning_want *want, uint32_t index,
                              uint32_t first, uint32_t end, struct plan *p, stator_error *e);

/* Divides the layers among the stages; leaves the first device's graph as something else. ends[k] is the
 * first layer after stage k's. spare[i]: bytes to leave free on device i beside what the first look says.
 * *fit: whether that first look puts every device inside its memory; then guess[i] is what it takes device
 * i's total for, spare[i] included. */
stator_status plan_device_split(struct planning *s, const struct planning_want *want, const uint64_t *spare,
                                uint32_t *ends, uint64_t *guess, bool *fit, struct plan_short *missing,
                                stator_error *e);

#endif
