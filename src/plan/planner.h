/* The memory plan: shape and config in, arenas out. Touches no device and reads no tensor data. */
#ifndef STATOR_PLAN_PLANNER_H
#define STATOR_PLAN_PLANNER_H

#include "base/hash.h"
#include "plan/planning.h"

/* The plan for `want`. Fills the devices' graphs and models, what staging.c says, and *p (p->fits says
 * whether it fits). An error is a plan that can't even be made (a slice too small, numbers beyond 2^63). */
stator_status planner_make(struct planning *s, const struct planning_want *want, struct plan *p,
                           stator_error *e);
/* The inputs that a plan follows from, and their hash, into p. */
void planner_inputs(const struct planning *s, const struct planning_want *want, struct plan *p);
/* A hash of all keys and of the tensor directory, but of no tensor's data. */
void planner_directory(const struct gguf *g, char out[HASH_TEXT]);
/* The most blocks that a plan for these devices has. */
uint32_t planner_max_blocks(const struct graph *g, uint32_t n_devices);

#endif
