/* memory.on_oom = "spill": what of a GPU's weights and KV lies in host memory because the GPU is too small.
 * Inside the planner; it is decided with the plan, and nothing moves later. */
#ifndef STATOR_PLAN_SPILL_H
#define STATOR_PLAN_SPILL_H

#include "plan/planning.h"

/* Marks all matrices of experts, and what is added to or multiplies their products, as spilled: the
 * processors will compute them. False: the graph has none. */
bool spill_host_experts(struct graph *g);
/* For device `index`, whose graph is placed (`slices`: bytes of the slices of its weights) and whose KV is
 * laid out: spills as little as brings its arenas inside its memory, or all that can be spilled where that is
 * not enough. Without `others` only
 * what spill_host_experts has marked. Changes `spilled` and the places of its weights, the caches'
 * spilled_layers, and slices. Errors as graph_place's. */
stator_status spill_choose(struct planning *s, uint32_t index, bool others, uint64_t slice_limit,
                           uint64_t *slices, stator_error *e);

/* What the device's spill is and costs, into its place. */
void spill_fill(const struct planning *s, const struct planning_want *want, uint32_t index,
                struct plan_place *p);

/* For every device that spills, an arena of the host (p's newest place): first its slices of KV, then those
 * of weights. Their number is at most PLAN_MAX_SLICES, or STATOR_DOES_NOT_FIT. */
stator_status spill_add_arenas(struct planning *s, struct plan *p, stator_error *e);

/* Fills p->slowdown. */
void spill_estimate(const struct planning *s, struct plan *p);

/* Bytes of a device that lie in host memory because it is too small, of one and of all; and what all devices
 * have there, with experts that the processors compute, in whole pages. */
uint64_t spill_bytes(const struct plan_place *p);
uint64_t spill_forced(const struct plan *p);
uint64_t spill_all(const struct plan *p);

/* The device's arena of spill; NULL: it has none. Bytes of it that were allocated. */
struct plan_arena *spill_arena(struct plan *p, uint32_t index);
uint64_t spill_allocated(const struct plan *p, uint32_t index);

/* One line per device that spills, as a warning. */
void spill_log(const struct planning *s);

#endif
