/* Where the parts of a step descriptor (kernels/shared/step.h) lie. */
#ifndef STATOR_PLAN_STEP_LAYOUT_H
#define STATOR_PLAN_STEP_LAYOUT_H

#include "plan/planning.h"

/* For the model's caches and the largest step of these sizes; *bytes: of the descriptor. */
void step_layout(const struct device_model *m, const struct planning_want *want, struct step_header *h,
                 uint64_t *bytes);

#endif
