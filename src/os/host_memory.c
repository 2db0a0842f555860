#include "os/host_memory.h"

#include "base/arith.h"
#include "os/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define PATH 1024

/* False: it can't be opened. */
static bool open_below(struct lines *l, const char *root, const char *path) {
    char whole[PATH];
    int n = snprintf(whole, sizeof whole, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof whole && lines_open(l, whole);
}

/* Sums of what the kernel says saturate at UINT64_MAX. */
static uint64_t sum_of(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    return arith_add(a, b, &sum) ? sum : UINT64_MAX;
}

static uint64_t bytes_of_kb(uint64_t kb) {
    uint64_t bytes = 0;
    return arith_mul(kb, 1024, &bytes) ? bytes : UINT64_MAX;
}

/* The number after "name:" in a file of "name: number kB" lines, in bytes; 0: not there. */
static uint64_t field_kb(const char *root, const char *path, const char *name) {
    struct lines l;
    if (!open_below(&l, root, path))
        return 0;
    uint64_t kb = 0;
    size_t n = strlen(name);
    for (const char *line; (line = lines_next(&l)) != NULL;)
        if (strncmp(line, name, n) == 0 && line[n] == ':' && sscanf(line + n + 1, "%" SCNu64, &kb) == 1)
            break;
    lines_close(&l);
    return bytes_of_kb(kb);
}

/* A file that holds one number, or "max" (then UINT64_MAX, as when it is absent). */
static uint64_t one_number(const char *root, const char *path) {
    struct lines l;
    if (!open_below(&l, root, path))
        return UINT64_MAX;
    uint64_t v = UINT64_MAX;
    const char *line = lines_next(&l);
    if (line == NULL || sscanf(line, "%" SCNu64, &v) != 1)
        v = UINT64_MAX;
    lines_close(&l);
    return v;
}

/* The lowest limit of this process's cgroup and its ancestors (v2), or the v1 memory controller's. */
static uint64_t cgroup_limit(const char *root) {
    uint64_t limit = one_number(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    uint64_t top = one_number(root, "/sys/fs/cgroup/memory.max");
    if (top < limit)
        limit = top;
    struct lines l;
    if (!open_below(&l, root, "/proc/self/cgroup"))
        return limit;
    for (char *line; (line = lines_next(&l)) != NULL;) {
        if (strncmp(line, "0::/", 4) != 0 || strlen(line) > 511)
            continue;
        char *group = line + 3;
        while (strlen(group) > 1) {
            char path[600];
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
            uint64_t v = one_number(root, path);
            if (v < limit)
                limit = v;
            *strrchr(group, '/') = '\0';
        }
    }
    lines_close(&l);
    return limit;
}

uint64_t host_memory_available_below(const char *root) {
    uint64_t available = field_kb(root, "/proc/meminfo", "MemAvailable");
    uint64_t limit = cgroup_limit(root);
    if (available == 0)
        return limit == UINT64_MAX ? 0 : limit;
    return available < limit ? available : limit;
}

void host_memory_read_machine(const char *root, struct host_memory_machine *m) {
    static const char *const named[] = {"MemFree",    "Buffers",       "Cached", "SwapCached",
                                        "AnonPages",  "Slab",          "Percpu", "KernelStack",
                                        "PageTables", "SecPageTables", "Hugetlb"};
    uint64_t total = 0, sum = 0, kb = 0;
    char name[64];
    struct lines l;
    *m = (struct host_memory_machine){0};
    if (!open_below(&l, root, "/proc/meminfo"))
        return;
    for (const char *line; (line = lines_next(&l)) != NULL;) {
        if (sscanf(line, "%63[^:]: %" SCNu64, name, &kb) != 2)
            continue;
        if (strcmp(name, "MemTotal") == 0)
            total = bytes_of_kb(kb);
        if (strcmp(name, "MemAvailable") == 0)
            m->available = bytes_of_kb(kb);
        for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
            sum = strcmp(name, named[i]) == 0 ? sum_of(sum, bytes_of_kb(kb)) : sum;
    }
    lines_close(&l);
    m->unnamed = total > sum ? total - sum : 0;
}

uint64_t host_memory_available(void) {
    const uint64_t available = host_memory_available_below("");
    struct sysinfo s;
    if (available != 0 || sysinfo(&s) != 0)
        return available;
    uint64_t bytes = 0;
    return arith_mul(sum_of(s.freeram, s.bufferram), s.mem_unit, &bytes) ? bytes : UINT64_MAX;
}

uint64_t host_memory_private_below(const char *root) {
    return sum_of(field_kb(root, "/proc/self/status", "RssAnon"),
                  field_kb(root, "/proc/self/status", "RssShmem"));
}

uint64_t host_memory_peak(void) {
    return field_kb("", "/proc/self/status", "VmHWM");
}

/* Adds up the areas of /proc/self/smaps that lie inside; a driver's allocations are areas of their own. */
uint64_t host_memory_resident_below(const char *root, const void *memory, uint64_t bytes) {
    struct lines l;
    if (!open_below(&l, root, "/proc/self/smaps"))
        return 0;
    uint64_t from = (uintptr_t)memory;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t kb = 0;
    uint64_t sum = 0;
    bool inside = false;
    for (const char *line; (line = lines_next(&l)) != NULL;) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2 &&
            strchr(line, '-') < strchr(line, ' '))
            inside = begin < from + bytes && end > from;
        else if (inside && sscanf(line, "Rss: %" SCNu64, &kb) == 1)
            sum = sum_of(sum, bytes_of_kb(kb));
    }
    lines_close(&l);
    return sum < bytes ? sum : bytes;
}

int host_memory_unreadable(void) {
    int file[2], why = 0;
    for (int i = 0; i < 2; i++) {
        file[i] = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
        if (file[i] < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
            why = errno;
    }
    for (int i = 0; i < 2; i++)
        if (file[i] >= 0)
            close(file[i]);
    return why;
}

uint64_t host_memory_heap(void) {
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}
