/* What is told to people when a plan does not fit: what is short, by how much, and what would fit instead. */
#ifndef STATOR_PLAN_SHORTAGE_H
#define STATOR_PLAN_SHORTAGE_H

#include "plan/planning.h"

/* s->plan was made and does not fit: STATOR_DOES_NOT_FIT with its arithmetic. Leaves the devices' graphs at
 * another size. */
stator_status shortage_refuse(struct planning *s, stator_error *e);
/* A plan that can't even be made, because slices are too small for it (`why`): s->plan becomes what it would
 * be if they were not, and what would fit is still searched. STATOR_DOES_NOT_FIT. */
stator_status shortage_refuse_unmade(struct planning *s, const stator_error *why, stator_error *e);

#endif
