/* What would fit: searches over real plans, one size at a time, the others as wanted. All leave the devices'
 * graphs at another size. */
#ifndef STATOR_PLAN_FIT_H
#define STATOR_PLAN_FIT_H

#include "plan/planning.h"

/* Fills p->missing of a plan that does not fit. */
void fit_search(struct planning *s, const struct planning_want *want, struct plan *p);
/* 0: none. A context is never bought with spill: where nothing fits without, it is at most want->context. */
uint32_t fit_largest_context(struct planning *s, const struct planning_want *want);
/* What more the free bytes of a plan that fits would hold without spilling: fills p->room_tokens and
 * p->sequences_fit. A plan that spills has no room. */
void fit_room(struct planning *s, const struct planning_want *want, struct plan *p);

#endif
