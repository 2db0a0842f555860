/* Runs op cases (op_cases.h) on a device through the contract of device.h, without an engine. */
#ifndef STATOR_APP_OP_RUN_H
#define STATOR_APP_OP_RUN_H

#include "app/selftest/op_cases.h"

/* Compares n devices with the CPU's scalar tier over several steps of one sequence. difference: the first
 * number that differs, or "" where all bits are equal. STATOR_FAILED also if the case's output is not finite
 * or all alike, so that it proves nothing. */
stator_status op_run_compare(uint32_t op, const struct device_choice *c, uint32_t n, char difference[256],
                             stator_error *e);
/* The same of one device with other steps, of `each` tokens, before each of which drafts stand in its place
 * that are taken back: none of this changes a bit. */
stator_status op_run_cut(uint32_t op, const struct device_choice *c, uint32_t each, char difference[256],
                         stator_error *e);
/* The kinds of ops in the case, as bits (uint64_t)1 << GRAPH_.. */
stator_status op_run_kinds(uint32_t op, uint64_t *kinds, stator_error *e);

/* Of one step: the op and those that it can't run without, besides the inputs. */
struct op_run_time {
    uint64_t ns;    /* the median of all steps */
    uint64_t bytes; /* of the weights that it reads; of experts, the most that it may read */
    uint64_t macs;  /* multiply-adds with weights */
    uint64_t steps; /* that were timed */
};

/* Repeats one step of so many tokens (at most OP_CASES_BATCH, behind those that the row has before them) for
 * about so many seconds, and at least 3 times. The case must have a timed shape. STATOR_DEVICE: the device
 * tells no times of ops. */
stator_status op_run_time(uint32_t op, const struct device_choice *c, uint32_t tokens, double seconds,
                          struct op_run_time *out, stator_error *e);

/* The CPU with this tier and so many threads; on an error the tier is not here. */
stator_status op_run_cpu(const char *tier, uint32_t threads, struct device_choice *c, stator_error *e);

#endif
