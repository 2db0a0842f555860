/* What the kernel says about memory of this process and this machine. */
#ifndef STATOR_OS_HOST_MEMORY_H
#define STATOR_OS_HOST_MEMORY_H

#include <stdint.h>

/* Functions with a root read below that folder: "" is the real system, tests pass a folder of their own. */

/* Bytes that this process may still take: min(cgroup limit, MemAvailable); 0 when unknown. */
uint64_t host_memory_available_below(const char *root);
/* What /proc/meminfo says of the machine. Bytes; 0 where it does not say. */
struct host_memory_machine {
    uint64_t available; /* MemAvailable */
    /* MemTotal less all that the kernel names: free, caches, processes, slab, page tables, stacks. Pages of
     * drivers are here: the buffers of a GPU's driver are in no process's Rss and in no cgroup. */
    uint64_t unnamed;
};
void host_memory_read_machine(const char *root, struct host_memory_machine *m);
/* RssAnon + RssShmem of this process, and the highest VmRSS so far; 0 when not known. */
uint64_t host_memory_private_below(const char *root);
uint64_t host_memory_peak(void);
/* How much of a mapping at `memory` is in RssAnon or RssShmem, at most `bytes`: memory of a driver may be
 * mapped without being in any Rss. 0 when not known. */
uint64_t host_memory_resident_below(const char *root, const void *memory, uint64_t bytes);

/* Of this machine. Where neither /proc nor the cgroup can be read (an empty root), what sysinfo(2) says is
 * free, which does not count what the kernel could give back of its caches. */
uint64_t host_memory_available(void);
static inline uint64_t host_memory_private(void) {
    return host_memory_private_below("");
}
static inline uint64_t host_memory_resident(const void *memory, uint64_t bytes) {
    return host_memory_resident_below("", memory, bytes);
}
/* 0, or the errno because of which no two more files can be opened (ulimit -n): then what is read here is not
 * to be had, and a cgroup's limit would be missed silently. */
int host_memory_unreadable(void);
/* Bytes that malloc has handed out. */
uint64_t host_memory_heap(void);

#endif
