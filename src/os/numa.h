/* NUMA nodes: what sysfs says of them, and where the kernel puts memory. By system calls, without libnuma. */
#ifndef STATOR_OS_NUMA_H
#define STATOR_OS_NUMA_H

#include <stdbool.h>
#include <stdint.h>

#define NUMA_NODES 64 /* nodes with higher numbers are ignored */

/* What sysfs below root says ("" is the real system). A set of nodes is a bit mask. */
uint64_t numa_online(const char *root);                    /* 0: sysfs does not say */
uint64_t numa_node_of_cpu(const char *root, unsigned cpu); /* its node; 0: not said */
int numa_node_of_pci(const char *root, const char *pci);   /* of "0000:03:00.0"; -1: not said */

/* Parses "0-3,8,10-11", numbers below 64 (others are ignored). False: it is not such a list. */
bool numa_parse_list(const char *text, uint64_t *set);

/* Sets the policy of this thread's allocations: pages come from `node` while it has room; -1 goes back to the
 * policy that the process began with. False: errno says why. */
bool numa_prefer(int node);
/* True if this thread has no policy, that is, none was set by numactl or the like. */
bool numa_is_free(void);
/* Sets the policy of pages that have not been touched yet: preferably one node, or several in turn. False:
 * errno.
 */
bool numa_place(void *memory, uint64_t bytes, uint64_t nodes);
/* The node that the page is on (it is touched if it was not); -1: the kernel does not say. */
int numa_node_of(void *page);

#endif
