/* The second models of a run: one that guesses (speculation.mode = "draft") and the vision tower
 * (model.vision). Their files, shapes, tables and devices, in struct planning_second. Inside the opening of a
 * planning and the planner. */
#ifndef STATOR_PLAN_PLANNING_SECOND_H
#define STATOR_PLAN_PLANNING_SECOND_H

#include "plan/planning.h"

/* After the model's file and devices, before its tables. Nothing happens where the config names no second
 * model. STATOR_USAGE: what does not go with the model. planning_second_close also after an error. */
stator_status planning_second_open(struct planning *s, const struct device_options *o, stator_error *e);
void planning_second_close(struct planning *s);
/* Their devices behind those of the model, whenever these have changed. */
void planning_second_place(struct planning *s);
/* vision.device = "auto" beside a model on a GPU, before the plan is made: the tower goes there if both fit.
 */
void planning_second_settle(struct planning *s);
/* The sizes of device `index`, which is a second model's, in a plan for *want. */
struct planning_want planning_second_want(const struct planning *s, uint32_t index,
                                          const struct planning_want *want);
/* Blocks of the plan that they have at most. */
uint32_t planning_second_blocks(const struct planning *s);

#endif
