/* On which NUMA nodes the host memory of a run lies (cpu.numa): staging on the node of the GPUs that copy
 * from and to it, what a GPU spills on its own, arenas of a CPU device on the nodes of its threads. Thread:
 * the engine's, at the start. */
#ifndef STATOR_ENGINE_PLACEMENT_H
#define STATOR_ENGINE_PLACEMENT_H

#include "base/json_writer.h"

#include <stdbool.h>
#include <stdint.h>

struct stator;

struct placement {
    bool on;           /* there are several nodes, and the config lets us choose */
    uint32_t n_nodes;  /* online; 0: not known */
    int staging;       /* its node; -1: any */
    int staging_is_on; /* the node that the kernel has put its first page on; -1: not asked, or not told */
    uint32_t n_far;    /* GPUs on other nodes than staging's */
    uint64_t refused;  /* bytes that the kernel would not place */
    char why[160];     /* for people: what was done, or why nothing */
};

/* Reads sysfs below s->root. */
void placement_decide(struct stator *s);
/* Around the call that makes staging: the thread's policy is that of staging in between. */
void placement_begin_staging(struct stator *s);
void placement_end_staging(struct stator *s);
/* Around the calls that make the spill of device i: likewise, that of the GPU's node. */
void placement_begin_spill(struct stator *s, uint32_t i);
void placement_end_spill(struct stator *s);
/* A slice of device i that nothing has been written to. */
void placement_slice(struct stator *s, uint32_t i, void *memory, uint64_t bytes);
/* Log lines, on the driver thread; and the report's. */
void placement_log(const struct stator *s);
void placement_to_json(const struct placement *p, struct json *j);

#endif
