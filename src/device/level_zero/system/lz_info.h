/* The functions of device_info.h for GPUs. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_INFO_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_INFO_H

#include "device/device_info.h"

uint32_t lz_info_list(struct device_info *out, uint32_t max, struct device_info_stack *s);
stator_status lz_info_probe(uint32_t from, uint32_t to, uint64_t bytes, struct device_info_pair *out,
                            stator_error *e);

#endif
