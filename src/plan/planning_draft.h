/* The second model of a run, which guesses (speculation.mode = "draft"): its file, shape, tables and device,
 * in struct planning_draft. Inside the opening of a planning and the planner. */
#ifndef STATOR_PLAN_PLANNING_DRAFT_H
#define STATOR_PLAN_PLANNING_DRAFT_H

#include "plan/planning.h"

/* With mode "draft", after the model's file and devices, before its tables; nothing otherwise. STATOR_USAGE:
 * its vocabulary is another. planning_draft_close also after an error. */
stator_status planning_draft_open(struct planning *s, const struct device_options *o, stator_error *e);
void planning_draft_close(struct planning *s);
/* Its device behind those of the model, whenever these have changed. */
void planning_draft_place(struct planning *s);
/* Its sizes in a plan for *want. */
struct planning_want planning_draft_want(const struct planning *s, const struct planning_want *want);
/* Blocks of the plan that it has at most. */
uint32_t planning_draft_blocks(const struct planning *s);

#endif
