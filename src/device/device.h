/* The contract of a device: where arenas lie and steps run. device_list.c is the only place that names back
 * ends.
 *
 * Life: open -> slices created -> weights written -> prepare -> (write the step slot, submit, wait, read
 * results)* -> close. prepare validates everything and may fail; submit only checks invariants. One thread,
 * the engine's, calls all of it. Nothing is allocated after prepare. */
#ifndef STATOR_DEVICE_DEVICE_H
#define STATOR_DEVICE_DEVICE_H

#include "base/log.h"
#include "base/phase.h"
#include "graph/graph.h"
#include "kernels/step.h"

struct device;

enum device_arena { DEVICE_WEIGHTS, DEVICE_KV, DEVICE_SCRATCH, DEVICE_EXCHANGE, DEVICE_ARENAS };

/* A slice is at most this, or less where the device's largest allocation is smaller. */
#define DEVICE_SLICE_LIMIT ((4ull << 30) - (64 << 10))

/* What the plan may know of a device. */
struct device_facts {
    char name[32];      /* "cpu:0" */
    char kind[16];      /* "cpu" */
    bool host_memory;   /* its arenas are host memory and count against the host's limit */
    uint64_t memory;    /* bytes; 0 with host_memory: the host's limit */
    uint64_t max_alloc; /* largest single allocation; 0: no limit */
    uint64_t bandwidth; /* bytes per second; 0: not known */
    uint64_t alignment; /* of slices */
};

/* What a person chose. */
struct device_options {
    uint32_t threads; /* 0: physical cores of the cpuset */
    char tier[16];    /* "auto" or a tier's name */
};

/* Where a layer's KV lies: units of one (layer, KV head), each n_blocks blocks of K then V, in slices of
 * units_per_slice units. Unit of layer l, head h: l * n_kv_heads + h. */
struct device_kv {
    uint32_t type_k; /* enum kernels_kv */
    uint32_t type_v;
    uint32_t n_blocks;
    uint32_t blocks_per_sequence; /* entries of a block table */
    uint64_t k_bytes;             /* of one block; V follows it */
    uint64_t block_stride;        /* of one block, K and V */
    uint64_t unit_bytes;
    uint32_t units_per_slice;
};

/* A graph with all its places. */
struct device_model {
    const struct graph *graph;
    struct device_kv kv;
    uint32_t sequences;
    struct step_header step; /* the offsets in the step descriptor; its counts are 0 */
    uint64_t step_bytes;
};

struct device_counters {
    uint64_t submits;
    uint64_t kernels_executed; /* ops run */
};

struct device_vtable {
    void (*facts)(const struct device *d, struct device_facts *f);
    /* Slice `slice` of an arena, zeroed. */
    stator_status (*slice_create)(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                  stator_error *e);
    /* Its host address, or NULL when the host can't touch it. */
    void *(*map)(struct device *d, enum device_arena a, uint32_t slice);
    /* Runs f on all host threads of the device at once (member 0 is the caller); for loading. */
    void (*parallel)(struct device *d, void (*f)(void *context, uint32_t member, uint32_t n), void *context);
    stator_status (*prepare)(struct device *d, const struct device_model *m, stator_error *e);
    /* Host memory of m->step_bytes in which the next step is described; free to write between wait and
     * submit. */
    void *(*step_slot)(struct device *d);
    stator_status (*submit)(struct device *d, stator_error *e);
    stator_status (*wait)(struct device *d, stator_error *e);
    /* Of the last step, valid until the next submit: [rows][vocab], [rows]. */
    const float *(*logits)(struct device *d);
    const struct step_pick *(*picks)(struct device *d);
    void (*counters)(const struct device *d, struct device_counters *c);
    void (*describe)(const struct device *d, char tier[16], uint32_t *threads);
    void (*close)(struct device *d);
};

/* Every back end's device begins with this. */
struct device {
    const struct device_vtable *vtable;
};

/* A device chosen by devices.use, before it is opened: all that the planner needs. */
struct device_choice {
    struct device_facts facts;
    uint32_t threads; /* host threads it will run */
    char tier[16];
    int cpus[256]; /* processors that they are pinned to */
    bool pinned;
};

/* Resolves one name of devices.use ("auto", "cpu", "cpu:0"). STATOR_USAGE: no such name; STATOR_DEVICE: named
 * but not here; STATOR_USAGE: options that this machine can't do. */
stator_status device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                            stator_error *e);
/* Host bytes that the opened device keeps for itself (threads' stacks, tables, workspaces). */
uint64_t device_host_bytes(const struct device_choice *c, const struct device_model *m);
/* memory: host bytes as said by device_host_bytes, aligned to 64, outlives the device. */
stator_status device_open(const struct device_choice *c, const struct device_model *m,
                          const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                          stator_error *e);

#endif
