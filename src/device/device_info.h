/* What people ask about the devices of this machine: `stator devices`, `stator doctor`, `stator selftest`. */
#ifndef STATOR_DEVICE_DEVICE_INFO_H
#define STATOR_DEVICE_DEVICE_INFO_H

#include "device/device.h"

#define DEVICE_INFO_MAX 17 /* sixteen GPUs and the CPU */

struct device_info {
    struct device_facts facts; /* as the planner gets them */
    bool gpu;
    char model[96];  /* "Intel(R) Arc(TM) A770 Graphics"; a CPU: the best tier of its kernels */
    char pci[16];    /* "0000:03:00.0" or "" */
    char driver[24]; /* its version, or "" */
    uint32_t vendor; /* PCI ids, 0 for a CPU */
    uint32_t device;
    bool integrated;
    uint32_t units;            /* EUs; cores */
    uint32_t threads_per_unit; /* hardware threads */
    uint64_t total;            /* bytes of memory */
    uint64_t free;             /* now */
    const char *free_source;   /* who says so */
    uint32_t sub_groups[8];
    uint32_t n_sub_groups;
    uint32_t max_group;    /* work-items of a work-group */
    uint32_t local_memory; /* bytes of a work-group */
    bool dp4a, dpas;       /* the driver reports them */
};

/* What lies between us and the GPUs. */
struct device_info_stack {
    bool built_in;        /* this binary has the back end */
    char loader[32];      /* version of libze_loader, "" when it was not found */
    stator_error no_gpus; /* why no GPU is listed; text "" when one is */
};

/* The GPUs, then the CPU: at most DEVICE_INFO_MAX; returns how many. */
uint32_t device_info_list(struct device_info *out, struct device_info_stack *s);

#define DEVICE_INFO_COPIES 5
/* 4 KiB, 64 KiB, 1 MiB, 16 MiB, 64 MiB */
extern const uint64_t device_info_copy_bytes[DEVICE_INFO_COPIES];

/* The fastest of several copies of one size. */
struct device_info_copy {
    uint64_t direct_ns; /* pushed by the source; 0: not measured, since the pair is not direct */
    uint64_t
        staged_ns; /* to pinned memory of the host, then from there, as the engine does it; 0: not measured */
};

/* One ordered pair of GPUs. */
struct device_info_pair {
    struct device_route route;
    struct device_info_copy copies[DEVICE_INFO_COPIES];
};

/* Copies of all sizes up to `bytes` from GPU `from` to GPU `to` (indices of the list), compared and timed.
 * Where a GPU has no memory for the largest, it is left out. Allocates and frees what it needs.
 * STATOR_DEVICE: a GPU is lost; STATOR_DOES_NOT_FIT: no memory for it. */
stator_status device_info_probe(uint32_t from, uint32_t to, uint64_t bytes, struct device_info_pair *out,
                                stator_error *e);

#endif
