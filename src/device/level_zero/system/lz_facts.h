/* The facts of a GPU that a plan may depend on. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_FACTS_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_FACTS_H

#include "device/device.h"
#include "device/launch/launch.h"
#include "device/level_zero/system/lz_system.h"

#define LZ_FACTS_ALIGNMENT 65536 /* of slices: whole pages of device memory */

/* Memory is the driver's total less 1/32, which the driver and the display keep. Free memory is not a fact;
 * it is checked when slices are made. */
void lz_facts_of(const struct lz_gpu *g, struct device_facts *f);
/* And what launches are made by. */
struct launch_traits lz_facts_traits(const struct lz_gpu *g);

#endif
