/* Devices that are not here, as a person or `stator devices --save` describes them:
 * "gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s", or by the name of a card: "gpu0=b60". */
#ifndef STATOR_PLAN_DEVICE_SPEC_H
#define STATOR_PLAN_DEVICE_SPEC_H

#include "device/device.h"

/* One device. what: names the source in errors. STATOR_USAGE says what is wrong with the text. */
stator_status device_spec_parse(const char *text, const char *what, struct device_facts *f, stator_error *e);
/* Several, separated by ';': *n of them, at most DEVICE_SPEC_MAX. */
#define DEVICE_SPEC_MAX 16
stator_status device_spec_parse_list(const char *text, const char *what, struct device_facts *f, uint32_t *n,
                                     stator_error *e);
/* The one with that name, with or without its index 0 ("cpu" is "cpu:0"); NULL: none. */
const struct device_facts *device_spec_find(const struct device_facts *f, uint32_t n, const char *name);

#endif
