/* The whole plan of an engine, for `stator plan`. */
#ifndef STATOR_ENGINE_PLAN_VIEW_H
#define STATOR_ENGINE_PLAN_VIEW_H

#include "plan/plan.h"

/* After stator_plan and before stator_start: the plan, where it fits with what its free bytes would hold (a
 * search over plans). It lives as long as the engine. */
const struct plan *plan_view(stator *s);

#endif
