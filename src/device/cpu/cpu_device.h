/* The CPU back end: arenas are pages, a step runs on the worker team. */
#ifndef STATOR_DEVICE_CPU_CPU_DEVICE_H
#define STATOR_DEVICE_CPU_CPU_DEVICE_H

#include "device/cpu/team.h"
#include "device/device_backend.h"
#include "kernels/kernels.h"

extern const struct device_backend cpu_device_backend;

stator_status cpu_device_choose(uint32_t index, const struct device_options *o, struct device_choice *c,
                                stator_error *e);
uint64_t cpu_device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace);
stator_status cpu_device_open(const struct device_opening *o, struct device **out, stator_error *e);

/* Inside the room. */

/* One matmul kernel call: its activations and its panels (16 of 32 KB) are read again from near caches only.
 */
#define CPU_TILE_TOKENS 256
#define CPU_TILE_PANELS 16
#define CPU_TILE_ROWS   (CPU_TILE_PANELS * PANEL_ROWS)
/* Rows of an expert that are gathered at a time, at most; a multiple of ACT_TILE_PAIR. */
#define CPU_EXPERT_ROWS 128

struct cpu_slice {
    uint8_t *memory;
    uint64_t bytes;
};

/* What a member has for attention to chosen blocks, in this order. */
struct cpu_index_sizes {
    size_t gathered; /* bytes: K and V of a split */
    size_t scores;   /* floats: of index blocks */
    size_t parts;    /* floats: of all splits of a query */
    size_t all;      /* bytes */
};

struct cpu_device {
    struct device device; /* first */
    char name[32];        /* "cpu:0" */
    const struct phase *phase;
    uint32_t threads;
    struct kernels kernels;
    struct team *team;
    bool joins; /* the team is another device's */
    struct device_model model;
    const struct device_link *in; /* NULL on the first device */
    const struct device_link *out;
    const struct device_group *group; /* NULL: no tensor split */
    struct cpu_slice slices[DEVICE_ARENAS][GRAPH_MAX_SLICES];
    uint32_t cache_slice[GRAPH_MAX_CACHES]; /* the first of each cache, of the kv arena */
    float *attention_work;                  /* work_floats per member */
    size_t work_floats;
    /* Splits of single queries that are computed apart, where KV heads do not go round evenly; parts_floats
     * is 0 where they always do. */
    float *attention_parts;
    size_t parts_floats;
    uint8_t *matmul_work; /* matmul_stride bytes per member: sums of two products, then the kernels' */
    size_t matmul_stride;
    size_t sums_panel; /* floats from the sums of a panel to the next one's */
    float *norm_rows;  /* norm_stride floats per member: a normed row that is only wanted as int8 */
    size_t norm_stride;
    float *ones;           /* weights of norms without weights */
    uint8_t *experts_work; /* experts_stride bytes per member: gathered rows, or the sums of all experts */
    size_t experts_stride;
    uint8_t *index_work; /* index_sizes.all bytes per member */
    struct cpu_index_sizes index_sizes;
    struct device_counters counters;
    struct device_span *spans; /* [slots][ops], or NULL: no trace */
    uint32_t n_spans[2];
};

/* Runs the step of a slot on the calling member; all members call it together (cpu_step.c). */
/* Ops that a step runs. */
uint32_t cpu_step_ops(const struct graph *g, const struct step_header *h);
void cpu_step_run(struct cpu_device *d, uint32_t slot, uint32_t member, uint32_t n);
/* The same for a step of all devices of a group, which have one team. */
void cpu_step_run_group(const struct device_group *group, uint32_t slot, uint32_t member, uint32_t n);
uint8_t *cpu_step_slot(const struct cpu_device *d, uint32_t slot); /* its descriptor */
/* The slot's half of a value with floats, [rows][width]. */
float *cpu_step_value(const struct cpu_device *d, uint32_t value, uint32_t slot);

/* Bytes of a member's experts_work; 0 without experts (cpu_experts.c). */
uint64_t cpu_experts_bytes(const struct graph *g);

/* Without indexers 0 (cpu_index.c). */
struct cpu_index_sizes cpu_index_sizes(const struct device_model *m);

/* Physical cores that this process may run on: *n processors (one per core, ascending), at most max
 * (cpu_topology.c). */
void cpu_topology_cores(int *cpus, uint32_t max, uint32_t *n);

#endif
