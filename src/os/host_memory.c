#include "os/host_memory.h"

#include "base/arith.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH 1024

/* NULL: it can't be opened. */
static FILE *open_below(const char *root, const char *path) {
    char whole[PATH];
    int n = snprintf(whole, sizeof whole, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof whole ? fopen(whole, "re") : NULL;
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
    FILE *f = open_below(root, path);
    if (f == NULL)
        return 0;
    char line[256];
    uint64_t kb = 0;
    size_t n = strlen(name);
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ':' && sscanf(line + n + 1, "%" SCNu64, &kb) == 1)
            break;
    fclose(f);
    return bytes_of_kb(kb);
}

/* A file that holds one number, or "max" (then UINT64_MAX, as when it is absent). */
static uint64_t one_number(const char *root, const char *path) {
    FILE *f = open_below(root, path);
    if (f == NULL)
        return UINT64_MAX;
    uint64_t v = UINT64_MAX;
    if (fscanf(f, "%" SCNu64, &v) != 1)
        v = UINT64_MAX;
    fclose(f);
    return v;
}

/* The lowest limit of this process's cgroup and its ancestors (v2), or the v1 memory controller's. */
static uint64_t cgroup_limit(const char *root) {
    uint64_t limit = one_number(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    uint64_t top = one_number(root, "/sys/fs/cgroup/memory.max");
    if (top < limit)
        limit = top;
    FILE *f = open_below(root, "/proc/self/cgroup");
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
            uint64_t v = one_number(root, path);
            if (v < limit)
                limit = v;
            *strrchr(group, '/') = '\0';
        }
    }
    fclose(f);
    return limit;
}

uint64_t host_memory_available_below(const char *root) {
    uint64_t available = field_kb(root, "/proc/meminfo", "MemAvailable");
    uint64_t limit = cgroup_limit(root);
    if (available == 0)
        return limit == UINT64_MAX ? 0 : limit;
    return available < limit ? available : limit;
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
    FILE *f = open_below(root, "/proc/self/smaps");
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
            sum = sum_of(sum, bytes_of_kb(kb));
    }
    fclose(f);
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
