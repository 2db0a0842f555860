/* From options to a plan: fills struct planning in this order: config, file, devices, tables, sizes; and
 * makes the engine's own plan. */
#ifndef STATOR_PLAN_PLANNING_OPEN_H
#define STATOR_PLAN_PLANNING_OPEN_H

#include "plan/planning.h"
#include "stator.h"

/* The config, and where o->devices or devices.facts describe devices, those. s is zero, but for log and
 * engine. */
stator_status planning_load_config(struct planning *s, const stator_options *o, stator_error *e);
/* The model's file, its shape and tables, the devices and the wanted sizes, after planning_load_config. What
 * it took, planning_close gives back, also after an error. */
stator_status planning_open(struct planning *s, stator_error *e);
void planning_close(struct planning *s);

/* With devices.use = "auto" and before the first plan: chooses how many of the GPUs here take part, or the
 * CPU where they do not hold the model. */
stator_status planning_narrow(struct planning *s, stator_error *e);
/* The plan for s->want into s->plan, with "auto" context resolved; it may not fit (s->plan.fits, and
 * shortage.h). STATOR_DOES_NOT_FIT: it can't be made, because slices are too small; s->plan is then as
 * shortage_refuse_unmade leaves it. */
stator_status planning_make(struct planning *s, stator_error *e);

/* STATOR_USAGE: the config has stages, and no ranks of MPI stand behind them. */
stator_status planning_need_ranks(const struct config *c, stator_error *e);

/* devices.deadline. */
uint64_t planning_deadline_ns(const struct config *c);

#endif
