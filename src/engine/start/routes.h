/* How the residual stream gets from each device to the next: pushed directly where that is possible and was
 * proven, else through a pinned window. Of a split by layers no other pair is probed, since nothing goes any
 * other way (all pairs: `stator devices --probe`). Thread: the engine's, at the start. */
#ifndef STATOR_ENGINE_ROUTES_H
#define STATOR_ENGINE_ROUTES_H

#include "engine/engine.h"

/* Probes every pair of neighbours (slices exist, nothing is prepared) and fills route, in and out of all
 * devices; also every pair of a group, and fills pairs and groups. STATOR_DEVICE: transfer.mode = "direct"
 * and a pair can't, with the reason; or a lost device. */
stator_status routes_decide(struct stator *s, stator_error *e);
/* One log line per route. On the driver thread. */
void routes_log(const struct stator *s);

#endif
