/* The Level Zero back end: a GPU as device.h wants it. For use inside the room only, except for the functions
 * that device_list.c calls.
 *
 * Arenas are zeMemAllocDevice slices that belong to this GPU alone (no residency elsewhere: that mirrors them
 * in host memory); what the host writes and reads lies in `staging`, allocated once by zeMemAllocHost. Before
 * the seal everything is recorded (lz_steps.h); after it a step is one submit and one wait.
 *
 * The engine's thread owns it; upload may be called by others, one at a time. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_DEVICE_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_DEVICE_H

#include "device/device.h"
#include "device/level_zero/lz_queue.h"
#include "device/level_zero/lz_steps.h"

/* For device_list.c, as in device.h, but o->threads is a number. "auto" gives n = 0 where there is no GPU,
 * and no error. */
stator_status lz_device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                               uint32_t max, uint32_t *n, stator_error *e);
stator_status lz_device_takes(const struct device_choice *c, const struct device_model *m, stator_error *e);
uint64_t lz_device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace);
stator_status lz_device_open(const struct device_choice *c, const struct device_model *m, bool trace,
                             const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                             stator_error *e);

struct launch_traits lz_device_traits(const struct lz_gpu *g);

struct lz_slice {
    uint8_t *memory;
    uint64_t bytes;
    bool spilled; /* in host memory */
};

struct lz_device {
    struct device device; /* first */
    const struct phase *phase;
    struct lz_system *system;
    const struct lz_gpu *gpu;
    uint32_t threads; /* threads of the host, for loading */
    ze_context_handle_t context;
    struct lz_queue queue;
    const struct device_model *model;
    struct lz_slice slices[DEVICE_ARENAS][GRAPH_MAX_SLICES];
    void *host; /* zeMemAllocHost's, of all devices; NULL when another device has it */
    struct device_setup setup;
    struct device_pinned pinned;
    struct lz_steps steps;
    struct device_counters counters;
    uint64_t free_before; /* device memory, before the first slice; 0: not known */
    uint64_t slice_bytes;
};

#endif
