#include "os/numa.h"

#include <ctype.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH 512

bool numa_parse_list(const char *text, uint64_t *set) {
    *set = 0;
    const char *at = text;
    while (isdigit((unsigned char)*at)) {
        char *end = NULL;
        unsigned long first = strtoul(at, &end, 10);
        unsigned long last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (last < first)
            return false;
        for (unsigned long n = first; n <= last && n < NUMA_NODES; n++)
            *set |= (uint64_t)1 << n;
        at = *end == ',' ? end + 1 : end;
        if (*end != ',')
            break;
    }
    return at != text && (*at == '\0' || *at == '\n') && at[-1] != ',';
}

static bool read_line(const char *path, char *out, int n) {
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool ok = fgets(out, n, f) != NULL;
    fclose(f);
    return ok;
}

uint64_t numa_online(const char *root) {
    char path[PATH];
    char line[256];
    uint64_t set = 0;
    snprintf(path, sizeof path, "%s/sys/devices/system/node/online", root);
    return read_line(path, line, sizeof line) && numa_parse_list(line, &set) ? set : 0;
}

/* A processor's folder has a link "nodeN". */
uint64_t numa_node_of_cpu(const char *root, unsigned cpu) {
    char path[PATH];
    for (unsigned n = 0; n < NUMA_NODES; n++) {
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/node%u", root, cpu, n);
        if (access(path, F_OK) == 0)
            return (uint64_t)1 << n;
    }
    return 0;
}

int numa_node_of_pci(const char *root, const char *pci) {
    char path[PATH];
    char line[32];
    char *end = NULL;
    if (pci[0] == '\0' || strchr(pci, '/') != NULL)
        return -1;
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/numa_node", root, pci);
    if (!read_line(path, line, sizeof line))
        return -1;
    long node = strtol(line, &end, 10);
    return end != line && (*end == '\n' || *end == '\0') && node >= 0 && node < NUMA_NODES ? (int)node : -1;
}

bool numa_prefer(int node) {
    unsigned long mask = node >= 0 ? 1ul << node : 0;
    return syscall(SYS_set_mempolicy, node >= 0 ? MPOL_PREFERRED : MPOL_DEFAULT, node >= 0 ? &mask : NULL,
                   node >= 0 ? NUMA_NODES + 1ul : 0ul) == 0;
}

bool numa_is_free(void) {
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0ul, NULL, 0ul) == 0 && mode == MPOL_DEFAULT;
}

bool numa_place(void *memory, uint64_t bytes, uint64_t nodes) {
    unsigned long mask = nodes;
    bool one = (nodes & (nodes - 1)) == 0;
    return syscall(SYS_mbind, memory, bytes, one ? MPOL_PREFERRED : MPOL_INTERLEAVE, &mask, NUMA_NODES + 1ul,
                   0ul) == 0;
}

int numa_node_of(void *page) {
    int node = -1;
    return syscall(SYS_get_mempolicy, &node, NULL, 0ul, page, (unsigned long)(MPOL_F_NODE | MPOL_F_ADDR)) == 0
               ? node
               : -1;
}
