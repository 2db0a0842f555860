/* On which NUMA nodes the host memory of a run lies (cpu.numa): staging on the node of the GPUs that copy
 * from and to it, what a GPU spills on its own, arenas of a CPU device on the nodes of its threads. Thread:
 * the engine's, at the start. */
#ifndef STATOR_ENGINE_PLACEMENT_H
#define STATOR_ENGINE_PLACEMENT_H

#include "plan/planning.h"

struct placement {
    const char *root;  /* as in placement_decide */
    bool on;           /* there are several nodes, and the config lets us choose */
    uint32_t n_nodes;  /* online; 0: not known */
    int staging;       /* its node; -1: any */
    int staging_is_on; /* the node that the kernel has put its first page on; -1: not asked, or not told */
    uint32_t n_far;    /* GPUs on other nodes than staging's */
    uint64_t refused;  /* bytes that the kernel would not place */
    char why[160];     /* for people: what was done, or why nothing */
};

/* Reads sysfs below `root` ("": the machine's). */
void placement_decide(struct placement *p, const struct planning *planning, const char *root);
/* Around the call that makes staging: the thread's policy is that of staging in between. ours: pages of ours,
 * which nothing has touched; else a driver's. memory is NULL where it could not be made. */
void placement_begin_staging(struct placement *p);
void placement_end_staging(struct placement *p, void *memory, uint64_t bytes, bool ours);
/* Around the calls that make a GPU's spill: likewise, that of the GPU's node. */
void placement_begin_spill(const struct placement *p, const struct planning_device *d);
void placement_end_spill(const struct placement *p);
/* A slice of the device that nothing has been written to. */
void placement_slice(struct placement *p, const struct planning_device *d, void *memory, uint64_t bytes);
/* Log lines, on the driver thread; and the report's. */
void placement_log(const struct placement *p, const struct log *log);
void placement_to_json(const struct placement *p, struct json *j);

#endif
