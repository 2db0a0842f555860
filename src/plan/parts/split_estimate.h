/* An estimate of how fast a model generates on several GPUs: divided by layers, by tensor, or both. It
 * follows from stated bandwidths and latencies: a token takes as long as its bytes need, and nothing else
 * takes time. No plan depends on it but one with devices.split = "auto", which follows from the choice
 * (split_choice.h).
 */
#ifndef STATOR_PLAN_SPLIT_ESTIMATE_H
#define STATOR_PLAN_SPLIT_ESTIMATE_H

#include "plan/planning.h"

/* Of a GPU whose facts do not say them. A hop is what a push of 8 KiB over NVLink took on an H200. */
#define SPLIT_ESTIMATE_HOP_NS 12000u
#define SPLIT_ESTIMATE_LINK   15750000000u /* PCIe 4.0, 8 lanes */

/* For one sequence of s->want.context tokens, without speculation. known = false and `why`: there is none.
 * Maps memory for as long as it runs. An error: no memory. */
stator_status split_estimate(struct planning *s, struct plan_rates *r, stator_error *e);

#endif
