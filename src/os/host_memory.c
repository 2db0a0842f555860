#include "os/host_memory.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The number behind "name:" in a file of "name: number kB" lines, in bytes; 0: not there. */
static uint64_t field_kb(const char *path, const char *name) {
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    char line[256];
    uint64_t kb = 0;
    size_t n = strlen(name);
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ':' && sscanf(line + n + 1, "%" SCNu64, &kb) == 1)
            break;
    fclose(f);
    return kb * 1024;
}

/* A file that holds one number, or "max" (then UINT64_MAX, as when it is absent). */
static uint64_t one_number(const char *path) {
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return UINT64_MAX;
    uint64_t v = UINT64_MAX;
    if (fscanf(f, "%" SCNu64, &v) != 1)
        v = UINT64_MAX;
    fclose(f);
    return v;
}

/* The lowest limit of this process's cgroup and its ancestors (v2), or the v1 memory controller's. */
static uint64_t cgroup_limit(void) {
    uint64_t limit = one_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    uint64_t top = one_number("/sys/fs/cgroup/memory.max");
    if (top < limit)
        limit = top;
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (f == NULL)
        return limit;
    char line[512];
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        char *group = line + 3;
        while (strlen(group) > 1) {
            char path[600];
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
            uint64_t v = one_number(path);
            if (v < limit)
                limit = v;
            *strrchr(group, '/') = '\0';
        }
    }
    fclose(f);
    return limit;
}

uint64_t host_memory_available(void) {
    uint64_t available = field_kb("/proc/meminfo", "MemAvailable");
    uint64_t limit = cgroup_limit();
    if (available == 0)
        return limit == UINT64_MAX ? 0 : limit;
    return available < limit ? available : limit;
}

uint64_t host_memory_private(void) {
    return field_kb("/proc/self/status", "RssAnon") + field_kb("/proc/self/status", "RssShmem");
}

uint64_t host_memory_peak(void) {
    return field_kb("/proc/self/status", "VmHWM");
}

/* Adds up the areas of /proc/self/smaps that lie inside; a driver's allocations are areas of their own. */
uint64_t host_memory_resident(const void *memory, uint64_t bytes) {
    FILE *f = fopen("/proc/self/smaps", "r");
    if (f == NULL)
        return 0;
    char line[512];
    uint64_t from = (uintptr_t)memory;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t kb = 0;
    uint64_t sum = 0;
    bool inside = false;
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2 &&
            strchr(line, '-') < strchr(line, ' '))
            inside = begin < from + bytes && end > from;
        else if (inside && sscanf(line, "Rss: %" SCNu64, &kb) == 1)
            sum += kb * 1024;
    }
    fclose(f);
    return sum < bytes ? sum : bytes;
}

uint64_t host_memory_heap(void) {
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}
