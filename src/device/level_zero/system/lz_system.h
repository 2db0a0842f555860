/* The drivers and GPUs of this process.
 *
 * Level Zero initialises a process once (zeInit), so there is one struct lz_system per process; it is made by
 * the first lz_system_get and never changes after that, except for `hangs` and the contexts: one per driver,
 * made for its first user and destroyed with its last. Thread: any. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_SYSTEM_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_SYSTEM_H

#include "device/level_zero/system/lz_calls.h"

#include <stdbool.h>

#define LZ_SYSTEM_MAX_DRIVERS  8
#define LZ_SYSTEM_MAX_GPUS     16
#define LZ_SYSTEM_MAX_SUBGROUP 8
#define LZ_NO_QUEUE            UINT32_MAX

struct lz_driver {
    ze_driver_handle_t handle;
    uint32_t version; /* as the driver counts; Intel: major << 24 | minor << 16 | build */
    ze_api_version_t api;
    bool usable_memory, dot_product, memory_bandwidth; /* extensions that it names */
    ze_context_handle_t context;                       /* NULL: not in use */
    uint32_t users;
};

/* Where the figure of free memory comes from. */
enum lz_free { LZ_FREE_USABLE, LZ_FREE_SYSMAN, LZ_FREE_GUESS };

/* What a GPU reports. Sizes are bytes. */
struct lz_gpu {
    struct lz_driver *driver;
    ze_device_handle_t handle;
    char name[32];                  /* "level_zero:0" */
    char model[ZE_MAX_DEVICE_NAME]; /* "Intel(R) Arc(TM) A770 Graphics" */
    char pci[16];                   /* "0000:03:00.0", "" when the driver does not say */
    uint32_t vendor, device;
    bool integrated;
    uint32_t eus, threads_per_eu;
    uint64_t total; /* of device memory */
    uint64_t max_alloc;
    uint64_t bandwidth; /* bytes per second, 0: not said */
    uint64_t bus;       /* of its PCIe link, likewise */
    uint32_t sub_groups[LZ_SYSTEM_MAX_SUBGROUP];
    uint32_t n_sub_groups;
    uint32_t max_group;    /* work-items */
    uint32_t local_memory; /* per work-group */
    bool dp4a, dpas;
    double tick_ns;          /* of its timestamps */
    uint64_t timestamp_mask; /* the bits of a kernel timestamp */
    uint32_t compute_queue;  /* ordinal of the first queue group that computes, */
    uint32_t copy_queue;     /* and of the first that only copies; LZ_NO_QUEUE */
    uint64_t fill_pattern;   /* bytes of the largest pattern that this group fills with */
};

struct lz_system {
    struct lz_calls ze;
    struct lz_driver drivers[LZ_SYSTEM_MAX_DRIVERS];
    uint32_t n_drivers;
    struct lz_gpu gpus[LZ_SYSTEM_MAX_GPUS];
    uint32_t n_gpus;
    _Atomic bool hangs; /* something may run for ever on a GPU: memory that it may touch is no longer freed */
};

/* The system. STATOR_DEVICE: no loader, no driver or no GPU; the text says which. */
stator_status lz_system_get(struct lz_system **out, stator_error *e);

/* The loader's version if it was found, even after lz_system_get has failed; else "". */
void lz_system_loader(char out[32]);

/* The GPU that a name of devices.use means: an index ("level_zero:1"), a PCI address ("level_zero:03:00.0",
 * "0000:03:00.0") or a part of the model's name in any case ("A770", when only one GPU has it). STATOR_DEVICE
 * with a list of those that are there. */
stator_status lz_system_find(struct lz_system *s, const char *name, struct lz_gpu **out, stator_error *e);

/* Free memory of the device now, and where the figure comes from. LZ_FREE_GUESS: the total less a margin of
 * 1/16. */
uint64_t lz_system_free(struct lz_system *s, const struct lz_gpu *g, enum lz_free *source);

/* The context of the GPU's driver; every acquire needs a release. */
stator_status lz_system_context_acquire(struct lz_system *s, const struct lz_gpu *g, ze_context_handle_t *out,
                                        stator_error *e);
void lz_system_context_release(struct lz_system *s, const struct lz_gpu *g);

/* "1.3.24595" */
const char *lz_system_driver_version(const struct lz_driver *d, char out[24]);

#endif
