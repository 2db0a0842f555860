/* The findings of `stator doctor`, and the probes that fill them. One thread. */
#ifndef STATOR_APP_DOCTOR_H
#define STATOR_APP_DOCTOR_H

#include <stdint.h>
#include <stdio.h>

#define DOCTOR_MAX 96

enum doctor_state { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_PROBLEM };

struct doctor_finding {
    enum doctor_state state;
    char subject[48]; /* "0000:03:00.0 render node" */
    char text[600];   /* what was found */
    char advice[256]; /* what to do; "" when there is nothing */
};

struct doctor {
    const char *root; /* prefix of /sys, /proc and /dev */
    struct doctor_finding findings[DOCTOR_MAX];
    uint32_t n;
};

__attribute__((format(printf, 5, 6))) void doctor_add(struct doctor *d, enum doctor_state state,
                                                      const char *subject, const char *advice,
                                                      const char *fmt, ...);

/* doctor_machine.c: the kernel, the GPUs on the PCI bus, their drivers, nodes, memory windows, links, IOMMU.
 */
void doctor_machine(struct doctor *d);
/* doctor_launch.c: the ranks that mpiexec has started, by rank 0. Every rank calls it;
 * hosts: "a,b", the names that are expected, or "". */
void doctor_launch(struct doctor *d, const char *hosts);
/* memlock and the cgroup's memory. */
void doctor_limits(struct doctor *d);

#endif
