/* What to plan for after a driver has refused a slice that its own figures have room for. */
#ifndef STATOR_PLAN_REFUSAL_H
#define STATOR_PLAN_REFUSAL_H

#include "plan/planning.h"

/* Whether the start that just failed was refused a slice. */
bool refusal_pending(const struct planning *s);

/* After the failed start was undone: changes what is known of the device that refused and plans again. First
 * with slices of half the size; where that is no way and memory.on_oom is "spill", with the memory that the
 * device has really given, so that the rest is host memory. Every answer but STATOR_OK is
 * STATOR_DOES_NOT_FIT, with *e (the refusal, when called) extended by what was tried. */
stator_status refusal_plan(struct planning *s, stator_error *e);

#endif
