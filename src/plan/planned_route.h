/* What a plan can say of the route from a device to the next before anything was probed. */
#ifndef STATOR_PLAN_PLANNED_ROUTE_H
#define STATOR_PLAN_PLANNED_ROUTE_H

#include "plan/planning.h"

#define PLANNED_ROUTE_OTHER_KIND "one device's driver can't write into memory of the other's"

/* From device i to the next: "direct", "staged", or "by probe"; and why. */
const char *planned_route(const struct planning *s, uint32_t i, const char **why);
/* Whether the next device is of another host. */
bool planned_route_crosses(const struct planning *s, uint32_t i);
/* Whether one driver has both. */
bool planned_route_same_kind(const struct planning *s, uint32_t i);

#endif
