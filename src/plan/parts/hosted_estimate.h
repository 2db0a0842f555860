/* An estimate of how fast a model generates whose experts the processors compute (memory.experts): bytes by
 * stated bandwidths, nothing else takes time. No plan depends on it.
 *
 * In a layer the GPU first reads what is not experts. Then the processors read the experts that have no slot
 * while the GPU reads those that have one. Experts that are copied to slots are read from the same memory,
 * too. */
#ifndef STATOR_PLAN_HOSTED_ESTIMATE_H
#define STATOR_PLAN_HOSTED_ESTIMATE_H

#include "plan/planning.h"

/* Bytes per second that processors read, unless devices.facts says the bandwidth of cpu:0. */
#define HOSTED_ESTIMATE_RAM 60000000000u

/* Fills p->hosted, for one sequence at the full context. Nothing is known where a bandwidth is not. */
void hosted_estimate(const struct planning *s, struct plan *p);

#endif
