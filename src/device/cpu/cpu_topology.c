/* Which processors to use: one per physical core of the cpuset. Hyper-threads of one core share its vector
 * units. */
#include "device/cpu/cpu_device.h"

#include <sched.h>
#include <stdio.h>

/* The first processor of the core that `cpu` belongs to, or cpu itself when the kernel does not say. */
static int first_sibling(int cpu) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return cpu;
    int first = cpu;
    if (fscanf(f, "%d", &first) != 1 || first < 0)
        first = cpu;
    fclose(f);
    return first;
}

void cpu_topology_cores(int *cpus, uint32_t max, uint32_t *n) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    *n = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    cpu_set_t seen;
    CPU_ZERO(&seen);
    for (int cpu = 0; cpu < CPU_SETSIZE && *n < max; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        int core = first_sibling(cpu);
        if (core < CPU_SETSIZE && CPU_ISSET(core, &seen))
            continue;
        if (core < CPU_SETSIZE)
            CPU_SET(core, &seen);
        cpus[(*n)++] = cpu;
    }
}
