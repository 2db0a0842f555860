/* A back end: what a folder of src/device gives besides the contract of device.h. device_list.c has the table
 * of them. */
#ifndef STATOR_DEVICE_BACKEND_H
#define STATOR_DEVICE_BACKEND_H

#include "device/device_info.h"

struct device_backend {
    const char *name; /* devices.use names its devices NAME or NAME:.. */
    bool (*owns)(const struct device_facts *f);
    /* As device_choose, for its own names and "auto"; *n is 0 before. `cores` are those of the cpuset, which
     * threads = 0 stands for. STATOR_OK and *n = 0: "auto" finds none here, or the name is none of its. NULL:
     * its devices are not chosen by name.
     */
    stator_status (*choose)(const char *name, const struct device_options *o, uint32_t cores,
                            struct device_choice *c, uint32_t max, uint32_t *n, stator_error *e);
    /* NULL: it takes every model that the engine can run. */
    stator_status (*takes)(const struct device_choice *c, const struct device_model *m, stator_error *e);
    uint64_t (*host_bytes)(const struct device_choice *c, const struct device_model *m, bool trace);
    stator_status (*open)(const struct device_opening *o, struct device **out, stator_error *e);
    /* Fills at most max; returns how many, and says in *s what it knows of the way to them. NULL: none of its
     * devices are of this machine. */
    uint32_t (*info)(struct device_info *out, uint32_t max, struct device_info_stack *s);
    /* As device_info_probe; NULL: it makes no copies between its devices. */
    stator_status (*probe)(uint32_t from, uint32_t to, uint64_t bytes, struct device_info_pair *out,
                           stator_error *e);
};

#endif
