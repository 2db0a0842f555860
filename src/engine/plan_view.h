/* The whole plan of an engine, for `stator plan`. */
#ifndef STATOR_ENGINE_PLAN_VIEW_H
#define STATOR_ENGINE_PLAN_VIEW_H

#include "plan/plan.h"

/* After stator_plan and before stator_start: the plan, where it fits with what its free bytes would hold (a
 * search over plans). It lives as long as the engine. */
const struct plan *plan_view(stator *s);

/* The name of the host of a stage of cluster.stages; NULL: there is no such stage. */
const char *plan_view_host(const stator *s, uint32_t stage);

#endif
