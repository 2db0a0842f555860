/* The CPU as a back end of device_list.c: its devices by name, and what people are told of it. */
#include "device/cpu/cpu_device.h"

#include "os/host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "cpu:3" is a CPU device with the index 3; false: it is no CPU device's name. */
static bool index_of(const char *name, unsigned long *index) {
    *index = 0;
    if (strcmp(name, "cpu") == 0)
        return true;
    if (strncmp(name, "cpu:", 4) != 0 || name[4] < '0' || name[4] > '9')
        return false;
    char *end = NULL;
    *index = strtoul(name + 4, &end, 10);
    return *end == '\0';
}

static stator_status choose(const char *name, const struct device_options *o, uint32_t cores,
                            struct device_choice *c, uint32_t max, uint32_t *n, stator_error *e) {
    (void)cores;
    CHECK(max > 0);
    unsigned long index = 0;
    const bool automatic = strcmp(name, "auto") == 0;
    if (!automatic && !index_of(name, &index))
        return STATOR_OK;
    if (index >= DEVICE_MAX)
        return error_set(e, STATOR_USAGE,
                         "devices.use = \"%s\": no such device; CPU devices are cpu:0 to cpu:%d", name,
                         DEVICE_MAX - 1);
    *n = 1;
    stator_status st = cpu_device_choose((uint32_t)index, o, c, e);
    if (st == STATOR_OK && automatic)
        snprintf(c->about, sizeof c->about, "no GPU here can be used (`stator doctor` says why)");
    return st;
}

/* Also described GPUs, in a build without Level Zero: these are planned as if they were this. */
static bool owns(const struct device_facts *f) {
    return !f->remote;
}

static stator_status open_cpu(const struct device_opening *o, struct device **out, stator_error *e) {
    CHECK(strcmp(o->choice->facts.kind, "cpu") == 0);
    return cpu_device_open(o, out, e);
}

static uint32_t info(struct device_info *out, uint32_t max, struct device_info_stack *s) {
    (void)s;
    CHECK(max > 0);
    struct device_options o = {.tier = "auto", .cpu_devices = 1};
    struct device_choice c;
    memset(out, 0, sizeof *out);
    stator_status st = cpu_device_choose(0, &o, &c, NULL);
    CHECK(st == STATOR_OK);
    out->facts = c.facts;
    snprintf(out->model, sizeof out->model, "kernels for %s", c.tier);
    out->units = c.threads;
    out->threads_per_unit = 1;
    out->free = out->total = host_memory_available();
    out->free_source = "memory that this process may still take";
    return 1;
}

const struct device_backend cpu_device_backend = {
    .name = "cpu",
    .owns = owns,
    .choose = choose,
    .host_bytes = cpu_device_host_bytes,
    .open = open_cpu,
    .info = info,
};
