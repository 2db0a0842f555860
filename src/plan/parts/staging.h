/* Where everything in `staging` lies. Loading is over before a step runs, so the windows of staged boundaries
 * lie where the load window was; the devices' pinned parts are always there and lie behind. */
#ifndef STATOR_PLAN_STAGING_H
#define STATOR_PLAN_STAGING_H

#include "plan/planning.h"

/* Fills s->staging_bytes and where the devices' parts are, for the devices' models. */
void staging_lay_out(struct planning *s);
/* Its blocks, into the newest arena of p. */
void staging_add_blocks(const struct planning *s, struct plan *p);

#endif
