/* Estimates of a model whose experts the processors compute (memory.experts): bytes by stated bandwidths,
 * nothing else takes time. Of the plan only the window depends on them: steps of so many tokens that it takes
 * the processors longer to compute the experts than it takes to copy all of them to the GPU.
 *
 * Generation. In a layer the GPU first reads what is not experts. Then the processors read the experts that
 * have no slot while the GPU reads those that have one. Experts that are copied to slots are read from the
 * same memory, too. */
#ifndef STATOR_PLAN_HOSTED_ESTIMATE_H
#define STATOR_PLAN_HOSTED_ESTIMATE_H

#include "plan/planning.h"

/* Bytes per second that processors read, unless devices.facts says the bandwidth of cpu:0. */
#define HOSTED_ESTIMATE_RAM 60000000000u

/* Tokens of a step with which processors multiply an expert in the time in which they read it from RAM: a
 * round figure. With as many threads as read at the RAM's full speed, llama 1B in Q4_K_M and Q8_0 has from 6
 * to 24 (the prompt's rate by that of generation in README.md). */
#define HOSTED_ESTIMATE_TOKENS 16

/* The fewest tokens of a step that copies a GPU's experts to the window (memory.expert_window); 0: no step of
 * at most want->batch does. */
uint32_t hosted_window(const struct planning *s, const struct device_facts *f,
                       const struct planning_want *want);

/* Fills p->hosted, for one sequence at the full context, and the seconds of steps that have a window. Nothing
 * is known where a bandwidth is not. */
void hosted_estimate(const struct planning *s, struct plan *p);

#endif
