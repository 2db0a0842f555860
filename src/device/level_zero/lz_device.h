/* The Level Zero back end: a GPU as device.h wants it, for device_list.c. What it consists of is in
 * lz_parts.h.
 *
 * Arenas are zeMemAllocDevice slices that belong to this GPU alone (no residency elsewhere: that mirrors them
 * in host memory); what the host writes and reads lies in `staging`, allocated once by zeMemAllocHost. Before
 * the seal everything is recorded (lz_steps.h); after it a step is one submit and one wait.
 *
 * The engine's thread owns it; upload may be called by others, one at a time. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_DEVICE_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_DEVICE_H

#include "device/device.h"

/* As in device.h, but o->threads is a number. "auto" gives n = 0 where there is no GPU,
 * and no error. */
stator_status lz_device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                               uint32_t max, uint32_t *n, stator_error *e);
stator_status lz_device_takes(const struct device_choice *c, const struct device_model *m, stator_error *e);
uint64_t lz_device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace);
stator_status lz_device_open(const struct device_choice *c, const struct device_model *m, bool trace,
                             const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                             stator_error *e);

#endif
