/* Devices that are not here, as a person describes them: "gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s". */
#ifndef STATOR_ENGINE_DEVICE_SPEC_H
#define STATOR_ENGINE_DEVICE_SPEC_H

#include "device/device.h"

/* STATOR_USAGE says what is wrong with the text. */
stator_status device_spec_parse(const char *text, struct device_facts *f, stator_error *e);

#endif
