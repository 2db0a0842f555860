/* The back ends by name. */
#include "device/device.h"
#include "device/device_info.h"
#include "device/cpu/cpu_device.h"
#include "kernels/shared/opencl.h"
#ifdef STATOR_LEVEL_ZERO
#include "device/level_zero/lz_device.h"
#include "device/level_zero/lz_info.h"
#endif
#ifdef STATOR_MPI
#include "device/remote/remote_device.h"
#endif
#include "os/host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "cpu:3" is a CPU device with the index 3; false: it is no CPU device's name. */
static bool cpu_index(const char *name, unsigned long *index) {
    *index = 0;
    if (strcmp(name, "cpu") == 0)
        return true;
    if (strncmp(name, "cpu:", 4) != 0 || name[4] < '0' || name[4] > '9')
        return false;
    char *end = NULL;
    *index = strtoul(name + 4, &end, 10);
    return *end == '\0';
}

static bool is_gpu(const char *name) {
    return strncmp(name, "level_zero", 10) == 0;
}

stator_status device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                            uint32_t max, uint32_t *n, stator_error *e) {
    CHECK(max > 0);
    unsigned long index = 0;
#ifdef STATOR_LEVEL_ZERO
    if (strcmp(name, "auto") == 0 || is_gpu(name)) {
        int cpus[TEAM_MAX];
        struct device_options counted = *o;
        if (o->threads == 0)
            cpu_topology_cores(cpus, TEAM_MAX, &counted.threads);
        stator_status st = lz_device_choose(name, &counted, c, max, n, e);
        if (st != STATOR_OK || *n > 0)
            return st;
    }
#endif
    *n = 1;
    if (strcmp(name, "auto") == 0) {
        stator_status st = cpu_device_choose(0, o, c, e);
        if (st == STATOR_OK)
            snprintf(c->about, sizeof c->about, "no GPU here can be used (`stator doctor` says why)");
        return st;
    }
    if (cpu_index(name, &index)) {
        if (index < DEVICE_MAX)
            return cpu_device_choose((uint32_t)index, o, c, e);
        return error_set(e, STATOR_USAGE,
                         "devices.use = \"%s\": no such device; CPU devices are cpu:0 to cpu:%d", name,
                         DEVICE_MAX - 1);
    }
    if (is_gpu(name))
        return error_set(
            e, STATOR_DEVICE,
            "devices.use = \"%s\": this build has no Level Zero back end (%s); use \"cpu\" or \"auto\"", name,
            opencl_missing);
    return error_set(e, STATOR_USAGE, "devices.use = \"%s\": no such device; known: auto, cpu:0 to cpu:%d",
                     name, DEVICE_MAX - 1);
}

/* What a back end does with a device that was chosen. */
struct device_backend {
    bool (*owns)(const struct device_facts *f);
    /* NULL: it takes every model that the engine can run. */
    stator_status (*takes)(const struct device_choice *c, const struct device_model *m, stator_error *e);
    uint64_t (*host_bytes)(const struct device_choice *c, const struct device_model *m, bool trace);
    stator_status (*open)(const struct device_choice *c, const struct device_model *m, bool trace,
                          const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                          stator_error *e);
};

/* The last row's: what no row above owns. A build without Level Zero plans described GPUs as if they were
 * this. */
static bool is_here(const struct device_facts *f) {
    return !f->remote;
}

#ifdef STATOR_LEVEL_ZERO
static bool is_level_zero(const struct device_facts *f) {
    return !f->remote && !f->host_memory;
}
#endif

#ifdef STATOR_MPI
static bool is_remote(const struct device_facts *f) {
    return f->remote;
}

static uint64_t remote_bytes(const struct device_choice *c, const struct device_model *m, bool trace) {
    (void)c;
    (void)trace;
    return remote_device_host_bytes(m);
}

static stator_status remote_open(const struct device_choice *c, const struct device_model *m, bool trace,
                                 const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                                 stator_error *e) {
    (void)trace;
    (void)phase;
    return remote_device_open(c, m, memory, bytes, out, e);
}
#endif

static const struct device_backend backends[] = {
#ifdef STATOR_MPI
    {is_remote, NULL, remote_bytes, remote_open},
#endif
#ifdef STATOR_LEVEL_ZERO
    {is_level_zero, lz_device_takes, lz_device_host_bytes, lz_device_open},
#endif
    {is_here, NULL, cpu_device_host_bytes, cpu_device_open},
};

/* NULL: this build has none for the device, which is one of another host in a build without MPI. */
static const struct device_backend *backend_of(const struct device_choice *c) {
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (backends[i].owns(&c->facts))
            return &backends[i];
    return NULL;
}

stator_status device_takes(const struct device_choice *c, const struct device_model *m, stator_error *e) {
    const struct device_backend *b = backend_of(c);
    return b != NULL && b->takes != NULL ? b->takes(c, m, e) : STATOR_OK;
}

uint64_t device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace) {
    const struct device_backend *b = backend_of(c);
    return b != NULL ? b->host_bytes(c, m, trace) : 0;
}

stator_status device_open(const struct device_choice *c, const struct device_model *m, bool trace,
                          const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                          stator_error *e) {
    const struct device_backend *b = backend_of(c);
    CHECK(b != NULL && (b->open != cpu_device_open || strcmp(c->facts.kind, "cpu") == 0));
    return b->open(c, m, trace, phase, memory, bytes, out, e);
}

static void cpu_info(struct device_info *i) {
    struct device_options o = {.tier = "auto", .cpu_devices = 1};
    struct device_choice c;
    memset(i, 0, sizeof *i);
    stator_status st = cpu_device_choose(0, &o, &c, NULL);
    CHECK(st == STATOR_OK);
    i->facts = c.facts;
    snprintf(i->model, sizeof i->model, "kernels for %s", c.tier);
    i->units = c.threads;
    i->threads_per_unit = 1;
    i->free = i->total = host_memory_available();
    i->free_source = "memory that this process may still take";
}

uint32_t device_info_list(struct device_info *out, struct device_info_stack *s) {
    memset(s, 0, sizeof *s);
    uint32_t n = 0;
#ifdef STATOR_LEVEL_ZERO
    s->built_in = true;
    n = lz_info_list(out, DEVICE_INFO_MAX - 1, s);
#else
    error_set(&s->no_gpus, STATOR_DEVICE, "this build has no Level Zero back end: %s", opencl_missing);
#endif
    cpu_info(&out[n]);
    return n + 1;
}

const uint64_t device_info_copy_bytes[DEVICE_INFO_COPIES] = {4096, 65536, 1 << 20, 16 << 20, 64 << 20};

stator_status device_info_probe(uint32_t from, uint32_t to, uint64_t bytes, struct device_info_pair *out,
                                stator_error *e) {
    memset(out, 0, sizeof *out);
#ifdef STATOR_LEVEL_ZERO
    return lz_info_probe(from, to, bytes, out, e);
#else
    (void)from;
    (void)to;
    (void)bytes;
    return error_set(e, STATOR_DEVICE, "this build has no Level Zero back end: %s", opencl_missing);
#endif
}
