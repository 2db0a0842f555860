/* The CPU back end: arenas are pages, a step runs on the worker team. */
#ifndef STATOR_DEVICE_CPU_CPU_DEVICE_H
#define STATOR_DEVICE_CPU_CPU_DEVICE_H

#include "device/cpu/team.h"
#include "device/device.h"
#include "kernels/kernels.h"

stator_status cpu_device_choose(const struct device_options *o, struct device_choice *c, stator_error *e);
uint64_t cpu_device_host_bytes(const struct device_choice *c, const struct device_model *m);
stator_status cpu_device_open(const struct device_choice *c, const struct device_model *m, const struct phase *phase,
                              void *memory, uint64_t bytes, struct device **out, stator_error *e);

/* Inside the room. */

#define CPU_QUERY_TILE 8  /* queries of one attention work item */
#define CPU_TOKEN_TILE 64 /* tokens of one matmul kernel call */

struct cpu_slice {
    uint8_t *memory;
    uint64_t bytes;
};

struct cpu_device {
    struct device device; /* first */
    const struct phase *phase;
    uint32_t threads;
    struct kernels kernels;
    struct team *team;
    struct device_model model;
    struct cpu_slice slices[DEVICE_ARENAS][GRAPH_MAX_SLICES];
    float *attention_work; /* work_floats per member */
    size_t work_floats;
    float *norm_rows; /* norm_stride floats per member: a normed row that is only wanted as int8 */
    size_t norm_stride;
    float inv_embd;        /* 1 / n_embd, 1 / head_dim_k: no division in kernels */
    float inv_head;
    struct device_counters counters;
};

/* Runs the step in the slot on the calling member; all members call it together (cpu_step.c). */
void cpu_step_run(struct cpu_device *d, uint32_t member, uint32_t n);

/* Physical cores that this process may run on: *n processors (one per core, ascending), at most max (cpu_topology.c). */
void cpu_topology_cores(int *cpus, uint32_t max, uint32_t *n);

#endif
