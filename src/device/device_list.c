/* The back ends by name. */
#include "device/device_backend.h"
#include "device/cpu/cpu_device.h"
#include "kernels/shared/opencl.h"
#ifdef STATOR_LEVEL_ZERO
#include "device/level_zero/lz_device.h"
#endif
#ifdef STATOR_MPI
#include "device/remote/remote_device.h"
#endif

#include <string.h>

/* "auto" takes devices of the first that has any, and a device is of the first that owns it. */
static const struct device_backend *const backends[] = {
#ifdef STATOR_MPI
    &remote_device_backend,
#endif
#ifdef STATOR_LEVEL_ZERO
    &lz_device_backend,
#endif
    &cpu_device_backend,
};
#define BACKENDS (sizeof backends / sizeof backends[0])

/* Whether a name of devices.use is of the back end so called. */
static bool is_of(const char *name, const char *backend) {
    const size_t n = strlen(backend);
    return strncmp(name, backend, n) == 0 && (name[n] == '\0' || name[n] == ':');
}

stator_status device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                            uint32_t max, uint32_t *n, stator_error *e) {
    CHECK(max > 0);
    int cpus[TEAM_MAX];
    uint32_t cores = 0;
    cpu_topology_cores(cpus, TEAM_MAX, &cores);
    *n = 0;
    for (size_t i = 0; i < BACKENDS; i++) {
        const struct device_backend *b = backends[i];
        if (b->choose == NULL || (strcmp(name, "auto") != 0 && !is_of(name, b->name)))
            continue;
        stator_status st = b->choose(name, o, cores, c, max, n, e);
        if (st != STATOR_OK || *n > 0)
            return st;
    }
    if (is_of(name, "level_zero"))
        return error_set(
            e, STATOR_DEVICE,
            "devices.use = \"%s\": this build has no Level Zero back end (%s); use \"cpu\" or \"auto\"", name,
            opencl_missing);
    return error_set(e, STATOR_USAGE, "devices.use = \"%s\": no such device; known: auto, cpu:0 to cpu:%d",
                     name, DEVICE_MAX - 1);
}

/* NULL: this build has none for the device, which is one of another host in a build without MPI. */
static const struct device_backend *backend_of(const struct device_choice *c) {
    for (size_t i = 0; i < BACKENDS; i++)
        if (backends[i]->owns(&c->facts))
            return backends[i];
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

stator_status device_open(const struct device_opening *o, struct device **out, stator_error *e) {
    const struct device_backend *b = backend_of(o->choice);
    CHECK(b != NULL);
    return b->open(o, out, e);
}

uint32_t device_info_list(struct device_info *out, struct device_info_stack *s) {
    memset(s, 0, sizeof *s);
    uint32_t n = 0;
    for (size_t i = 0; i < BACKENDS; i++)
        if (backends[i]->info != NULL)
            n += backends[i]->info(out + n, DEVICE_INFO_MAX - n - (i + 1 < BACKENDS), s);
    if (!s->built_in)
        error_set(&s->no_gpus, STATOR_DEVICE, "this build has no Level Zero back end: %s", opencl_missing);
    return n;
}

const uint64_t device_info_copy_bytes[DEVICE_INFO_COPIES] = {4096, 65536, 1 << 20, 16 << 20, 64 << 20};

stator_status device_info_probe(uint32_t from, uint32_t to, uint64_t bytes, struct device_info_pair *out,
                                stator_error *e) {
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < BACKENDS; i++)
        if (backends[i]->probe != NULL)
            return backends[i]->probe(from, to, bytes, out, e);
    return error_set(e, STATOR_DEVICE, "this build has no Level Zero back end: %s", opencl_missing);
}
