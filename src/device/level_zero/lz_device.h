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

#include "device/device_backend.h"

extern const struct device_backend lz_device_backend;

#endif
