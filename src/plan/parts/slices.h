/* What of a device's weights and caches lies in which slice of an arena: the device's own, and those in host
 * memory of what it is too small for. */
#ifndef STATOR_PLAN_SLICES_H
#define STATOR_PLAN_SLICES_H

#include "device/device.h"
#include "plan/plan.h"

/* Whole pages of the device. */
uint64_t slices_rounded(const struct device_facts *f, uint64_t bytes);
/* Blocks of what lies in the slices [first, end) of the weights, and of the caches of the kept or the spilled
 * layers, in the newest arena's slices from `at` on. */
void slices_weight_blocks(const struct graph *g, uint32_t first, uint32_t end, uint32_t at, struct plan *p);
void slices_cache_blocks(const struct device_model *m, bool spilled, uint32_t at, struct plan *p);
/* The slices of those layers' caches into an arena, and their bytes. */
void slices_add_caches(const struct device_facts *f, const struct device_model *m, bool spilled,
                       struct plan_place *place, struct plan_arena *a);
uint64_t slices_cache_bytes(const struct device_model *m, bool spilled);

#endif
