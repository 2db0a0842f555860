/* NUMA nodes: what sysfs says of them, and where the kernel puts memory. By system calls, without libnuma. */
#ifndef STATOR_OS_NUMA_H
#define STATOR_OS_NUMA_H

#include <stdbool.h>
#include <stdint.h>

#define NUMA_NODES 64 /* more than that are not told apart */

/* What is below root ("": the real system). A set of nodes is a bit mask. */
uint64_t numa_online(const char *root);                    /* 0: sysfs does not say */
uint64_t numa_node_of_cpu(const char *root, unsigned cpu); /* its node; 0: not said */
int numa_node_of_pci(const char *root, const char *pci);   /* of "0000:03:00.0"; -1: not said */

/* Parses "0-3,8,10-11", numbers below 64 (others are passed over). False: it is no such list. */
bool numa_parse_list(const char *text, uint64_t *set);

/* The policy of this thread's allocations from now on: pages come from `node` while it has room; -1: as the
 * process began. False: errno says why. */
bool numa_prefer(int node);
/* Whether nobody (numactl) has given this thread a policy. */
bool numa_is_free(void);
/* The policy of pages that are not touched yet: of one node preferably, or of several in turn. False: errno.
 */
bool numa_place(void *memory, uint64_t bytes, uint64_t nodes);
/* The node that the page is on (it is touched if it was not); -1: the kernel does not say. */
int numa_node_of(void *page);

#endif
