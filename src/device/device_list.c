/* The back ends by name. */
#include "device/device.h"
#include "device/cpu/cpu_device.h"

#include <string.h>

stator_status device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                            stator_error *e) {
    if (strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0 || strcmp(name, "cpu:0") == 0)
        return cpu_device_choose(o, c, e);
    if (strncmp(name, "cpu:", 4) == 0)
        return error_set(e, STATOR_USAGE, "devices.use = \"%s\": this version runs one CPU device, cpu:0",
                         name);
    if (strncmp(name, "level_zero", 10) == 0)
        return error_set(
            e, STATOR_DEVICE,
            "devices.use = \"%s\": this build has no Level Zero back end; use \"cpu\" or \"auto\"", name);
    return error_set(e, STATOR_USAGE, "devices.use = \"%s\": no such device; known: auto, cpu, cpu:0", name);
}

uint64_t device_host_bytes(const struct device_choice *c, const struct device_model *m) {
    return cpu_device_host_bytes(c, m);
}

stator_status device_open(const struct device_choice *c, const struct device_model *m,
                          const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                          stator_error *e) {
    CHECK(strcmp(c->facts.kind, "cpu") == 0);
    return cpu_device_open(c, m, phase, memory, bytes, out, e);
}
