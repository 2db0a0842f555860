/* Allocations. Each has pages of its own between guard pages and ends as close to the last page's end as its
 * alignment allows, so overruns crash. Freed ranges stay reserved: no address is ever used twice. Device
 * memory is inaccessible except while a device that may reach it executes. */
#include "sim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Device memory of this size and more lies in huge pages: changing the protection of small ones, and the
 * faults that follow, took most of the time of large copies. */
#define HUGE_PAGE ((size_t)2 << 20)

static struct allocation **sorted; /* by address; never removed */
static size_t n_sorted, capacity;
static uint64_t host_used, next_id;

__thread const struct device *memory_executing;
__thread const char *memory_doing;

static struct allocation *find(const char *p, size_t n) {
    size_t low = 0, high = n_sorted;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sorted[middle]->at + sorted[middle]->size <= p)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == n_sorted)
        return NULL;
    uintptr_t ahead = sorted[low]->at > p ? (uintptr_t)sorted[low]->at - (uintptr_t)p : 0;
    if (ahead >= (n != 0 ? n : 1))
        return NULL;
    return sorted[low];
}

static bool contains(const struct allocation *a, const void *p, size_t n) {
    const char *at = p;
    return at >= a->at && (size_t)(at - a->at) <= a->size && n <= a->size - (size_t)(at - a->at);
}

struct allocation *memory_find(const void *p, size_t n) {
    return find(p, n);
}

static void insert(struct allocation *a) {
    if (n_sorted == capacity) {
        capacity = capacity * 2 + 64;
        sorted = realloc(sorted, capacity * sizeof(struct allocation *));
        if (sorted == NULL)
            fatal("out of memory for allocations");
    }
    size_t i = n_sorted++;
    for (; i > 0 && sorted[i - 1]->at > a->at; i--)
        sorted[i] = sorted[i - 1];
    sorted[i] = a;
}

uint64_t memory_free_bytes(const struct device *d) {
    uint64_t gone = d->used + d->taken;
    return gone < d->memory ? d->memory - gone : 0;
}

/* ---- page protections */
static bool may_access(const struct device *d, const struct allocation *a) {
    return a->owner == d || d->peer[a->owner->index].kind != PEER_NONE;
}

static void protect(struct allocation *a, bool open) {
    if (a->open == open)
        return;
    if (mprotect(a->map, a->map_size, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        fatal("mprotect failed");
    a->open = open;
}

static void protect_all(const struct device *d) {
    for (size_t i = 0; i < n_sorted; i++)
        if (!sorted[i]->freed && sorted[i]->type == ZE_MEMORY_TYPE_DEVICE)
            protect(sorted[i], d != NULL && may_access(d, sorted[i]));
}

void memory_open(const struct device *d) {
    protect_all(d);
}

void memory_close(void) {
    protect_all(NULL);
}

bool memory_reaches(const struct device *d, const struct allocation *a) {
    return a == NULL || a->type != ZE_MEMORY_TYPE_DEVICE || may_access(d, a);
}

/* For the ends of a copy: a program's start has hundreds, and to change whole allocations for each took two
 * fifths of a short run. */
void memory_range(const struct allocation *a, const void *p, size_t n, bool open) {
    if (a == NULL || a->type != ZE_MEMORY_TYPE_DEVICE || a->open || a->freed || n == 0)
        return;
    uintptr_t from = (uintptr_t)p / a->grain * a->grain;
    uintptr_t to = ((uintptr_t)p + n + a->grain - 1) / a->grain * a->grain;
    uintptr_t end = (uintptr_t)a->map + a->map_size;
    to = to < end ? to : end;
    if (mprotect((void *)from, to - from, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        fatal("mprotect failed");
}

static struct sigaction before;

/* Explains a crash, then lets it happen as without us. Looks at the table without the lock: the thread that
 * crashed may hold it, and nothing here is ever freed. */
static void explain(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    const char *p = info->si_addr;
    char text[512];
    int n = 0;
    const struct allocation *a = find(p, 1);
    for (size_t i = 0; a == NULL && i < n_sorted; i++)
        if (p >= sorted[i]->map - SIM_PAGE && p < sorted[i]->map + sorted[i]->map_size + SIM_PAGE)
            a = sorted[i];
    const char *who = memory_executing != NULL ? device_name(memory_executing) : "the host";
    const char *doing = memory_executing != NULL && memory_doing != NULL ? memory_doing : "";
    if (a != NULL)
        n = snprintf(
            text, sizeof text,
            "zesim: violation: %s %s touched %p: byte %td of allocation %llu (%zu bytes, %s%s): %s\n", who,
            doing, (const void *)p, p - a->at, (unsigned long long)a->id, a->size, device_name(a->owner),
            a->owner != NULL && a->type == ZE_MEMORY_TYPE_DEVICE ? ", device memory" : "",
            a->freed                            ? "it was freed"
            : p < a->at || p >= a->at + a->size ? "out of bounds"
            : memory_executing == NULL          ? "the host may not touch device memory"
            : memory_executing == a->owner      ? "its pages are closed"
                                                : "no peer route");
    else if (memory_executing != NULL)
        n = snprintf(text, sizeof text,
                     "zesim: violation: %s %s touched %p, which is in no allocation (or a work-item's stack "
                     "ran over)\n",
                     who, doing, (const void *)p);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        n = 0;
    sigaction(SIGSEGV, &before, NULL); /* the access happens again and finds the old handler */
}

void memory_watch(void) {
    struct sigaction ours = {.sa_sigaction = explain, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGSEGV, &ours, &before);
}

/* ---- allocating */
static struct allocation *map(size_t size, size_t granted, size_t alignment, bool closed) {
    size_t align = alignment != 0 ? alignment : SIM_PAGE, grain = align > SIM_PAGE ? align : SIM_PAGE;
    size_t used = size + sim.slack, pages = (used + grain - 1) / grain * grain;
    bool huge = closed && pages >= HUGE_PAGE;
    size_t start = huge && grain < HUGE_PAGE ? HUGE_PAGE : grain;
    size_t reserved = pages + start + SIM_PAGE;
    char *base = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    struct allocation *a = calloc(1, sizeof *a);
    if (a == NULL)
        fatal("out of memory for an allocation");
    a->map = (char *)(((uintptr_t)base + SIM_PAGE + start - 1) / start * start);
    a->map_size = pages;
    a->grain = huge ? HUGE_PAGE : SIM_PAGE;
    if (huge)
        (void)madvise(a->map, pages, MADV_HUGEPAGE); /* without it only slower */
    /* As late in its pages as the alignment allows; with the default alignment at their start. */
    a->at = a->map + (pages - (used + align - 1) / align * align);
    a->size = size, a->granted = granted, a->open = true;
    if (mprotect(a->map, pages, PROT_READ | PROT_WRITE) != 0)
        fatal("mprotect failed");
    if (size <= sim.poison)
        memset(a->map, 0xA5, pages);
    if (closed)
        protect(a, false);
    return a;
}

static bool relaxed(const void *next) {
    for (const ze_base_desc_t *n = next; n != NULL; n = n->pNext)
        if (n->stype == ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC)
            return ((const ze_relaxed_allocation_limits_exp_desc_t *)n)->flags &
                   ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE;
    return false;
}

static ze_result_t check_size(size_t size, size_t alignment) {
    if (size == 0)
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    if ((alignment & (alignment - 1)) != 0 || alignment > 1u << 22)
        return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t check_device_size(struct device *d, size_t granted, const void *next) {
    if (++d->asked == d->taken_at)
        d->taken += d->taken_later;
    if (granted > d->max_alloc && (!relaxed(next) || granted > d->memory))
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    if (granted > memory_free_bytes(d) || granted > d->fail_above)
        return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    return ZE_RESULT_SUCCESS;
}

static const char *type_name(const struct allocation *a) {
    return a->type == ZE_MEMORY_TYPE_DEVICE ? "device" : a->type == ZE_MEMORY_TYPE_HOST ? "host" : "shared";
}

static void count(const char *event, const struct allocation *a) {
    count_formatted(1, "%s.%s.%s.count", event, type_name(a), device_name(a->owner));
    count_formatted(a->size, "%s.%s.%s.bytes", event, type_name(a), device_name(a->owner));
}

static ze_result_t allocate(struct context *c, ze_memory_type_t type, struct device *d, size_t size,
                            size_t alignment, const void *next, void **p) {
    ze_result_t r = check_size(size, alignment);
    bool on_device = type == ZE_MEMORY_TYPE_DEVICE;
    size_t granted =
        on_device ? (size + SIM_DEVICE_GRANULE - 1) / SIM_DEVICE_GRANULE * SIM_DEVICE_GRANULE : size;
    if (r == ZE_RESULT_SUCCESS && on_device)
        r = check_device_size(d, granted, next);
    else if (r == ZE_RESULT_SUCCESS && granted > sim.host_memory - host_used)
        r = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    struct allocation *a = r == ZE_RESULT_SUCCESS ? map(size, granted, alignment, on_device) : NULL;
    if (a == NULL)
        return r != ZE_RESULT_SUCCESS ? r
               : on_device            ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY
                                      : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    a->type = type, a->owner = d, a->context = c, a->id = ++next_id;
    *(on_device ? &d->used : &host_used) += granted;
    insert(a);
    count("alloc", a);
    *p = a->at;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeMemAllocDevice(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                                        size_t size, size_t alignment, ze_device_handle_t device, void **p) {
    ENTER(zeMemAllocDevice);
    GET(struct context, c, KIND_CONTEXT, context);
    GET(struct device, d, KIND_DEVICE, device);
    if (desc == NULL || p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (desc->ordinal != 0)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return allocate(c, ZE_MEMORY_TYPE_DEVICE, d, size, alignment, desc->pNext, p);
}

ze_result_t ZE_APICALL zeMemAllocHost(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc,
                                      size_t size, size_t alignment, void **p) {
    ENTER(zeMemAllocHost);
    GET(struct context, c, KIND_CONTEXT, context);
    if (desc == NULL || p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return allocate(c, ZE_MEMORY_TYPE_HOST, NULL, size, alignment, NULL, p);
}

ze_result_t ZE_APICALL zeMemAllocShared(ze_context_handle_t context,
                                        const ze_device_mem_alloc_desc_t *on_device,
                                        const ze_host_mem_alloc_desc_t *on_host, size_t size,
                                        size_t alignment, ze_device_handle_t device, void **p) {
    ENTER(zeMemAllocShared);
    GET(struct context, c, KIND_CONTEXT, context);
    if (on_device == NULL || on_host == NULL || p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    struct device *d = NULL;
    if (device != NULL) {
        GET(struct device, given, KIND_DEVICE, device);
        d = given;
        if (size > d->max_alloc && !relaxed(on_device->pNext))
            return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    }
    return allocate(c, ZE_MEMORY_TYPE_SHARED, d, size, alignment, on_device->pNext, p);
}

/* ---- freeing */
static void drop_mirror(struct allocation *a, uint32_t i) {
    if (a->mirror[i] == NULL)
        return;
    munmap(a->mirror[i], a->map_size);
    a->mirror[i] = NULL;
    count_formatted(a->map_size, "evict.mirror.%s.bytes", device_name(&sim.device[i]));
}

static ze_result_t release(struct context *c, void *p) {
    struct allocation *a = find(p, 1);
    if (a == NULL || a->at != p) {
        violation("free of %p, which is not the start of an allocation", p);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (a->freed) {
        violation("free of allocation %llu for the second time", (unsigned long long)a->id);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (a->context != c) /* Intel's driver lets it pass */
        violation("free of allocation %llu in another context than its own", (unsigned long long)a->id);
    if (queue_uses(a)) {
        violation("free of allocation %llu while commands in flight use it", (unsigned long long)a->id);
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    }
    for (uint32_t i = 0; i < sim.n_devices; i++)
        drop_mirror(a, i);
    count("free", a);
    *(a->type == ZE_MEMORY_TYPE_DEVICE ? &a->owner->used : &host_used) -= a->granted;
    a->freed = true, a->open = false;
    if (mmap(a->map, a->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        fatal("mmap failed");
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeMemFree(ze_context_handle_t context, void *p) {
    ENTER(zeMemFree);
    GET(struct context, c, KIND_CONTEXT, context);
    return p == NULL ? ZE_RESULT_ERROR_INVALID_NULL_POINTER : release(c, p);
}

ze_result_t ZE_APICALL zeMemFreeExt(ze_context_handle_t context, const ze_memory_free_ext_desc_t *desc,
                                    void *p) {
    ENTER(zeMemFreeExt);
    GET(struct context, c, KIND_CONTEXT, context);
    if (p == NULL || desc == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return release(c, p);
}

/* ---- questions */
ze_result_t ZE_APICALL zeMemGetAllocProperties(ze_context_handle_t context, const void *p,
                                               ze_memory_allocation_properties_t *properties,
                                               ze_device_handle_t *device) {
    ENTER(zeMemGetAllocProperties);
    GET(struct context, c, KIND_CONTEXT, context);
    if (p == NULL || properties == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    const struct allocation *a = find(p, 1);
    if (a != NULL && (a->freed || a->context != c))
        a = NULL;
    properties->type = a != NULL ? a->type : ZE_MEMORY_TYPE_UNKNOWN;
    properties->id = a != NULL ? a->id : 0;
    properties->pageSize = a == NULL ? 0 : a->type == ZE_MEMORY_TYPE_DEVICE ? SIM_DEVICE_GRANULE : SIM_PAGE;
    if (device != NULL)
        *device = a != NULL ? (ze_device_handle_t)a->owner : NULL;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeMemGetAddressRange(ze_context_handle_t context, const void *p, void **base,
                                            size_t *size) {
    ENTER(zeMemGetAddressRange);
    GET(struct context, c, KIND_CONTEXT, context);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    const struct allocation *a = find(p, 1);
    if (a == NULL || a->freed || a->context != c)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (base != NULL)
        *base = a->at;
    if (size != NULL)
        *size = a->size;
    return ZE_RESULT_SUCCESS;
}

/* ---- residency. On another device than the owner it costs host memory, for real, as Linux's driver does. */
static ze_result_t residency_of(struct context *c, const void *p, size_t size, struct allocation **found) {
    struct allocation *a = find(p, size);
    if (a == NULL || a->freed || a->context != c || !contains(a, p, size)) {
        violation("residency of %p, %zu bytes: no live allocation of the context has them", p, size);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    *found = a;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeContextMakeMemoryResident(ze_context_handle_t context, ze_device_handle_t device,
                                                   void *p, size_t size) {
    ENTER(zeContextMakeMemoryResident);
    GET(struct context, c, KIND_CONTEXT, context);
    GET(struct device, d, KIND_DEVICE, device);
    struct allocation *a;
    ze_result_t r = residency_of(c, p, size, &a);
    if (r != ZE_RESULT_SUCCESS || a->type != ZE_MEMORY_TYPE_DEVICE || a->owner == d ||
        a->mirror[d->index] != NULL)
        return r;
    void *m =
        mmap(NULL, a->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (m == MAP_FAILED)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    a->mirror[d->index] = m;
    count_formatted(1, "mirror.%s.count", device_name(d));
    count_formatted(a->map_size, "mirror.%s.bytes", device_name(d));
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeContextEvictMemory(ze_context_handle_t context, ze_device_handle_t device, void *p,
                                            size_t size) {
    ENTER(zeContextEvictMemory);
    GET(struct context, c, KIND_CONTEXT, context);
    GET(struct device, d, KIND_DEVICE, device);
    struct allocation *a;
    ze_result_t r = residency_of(c, p, size, &a);
    if (r == ZE_RESULT_SUCCESS)
        drop_mirror(a, d->index);
    return r;
}

/* ---- what commands ask */
bool memory_check(const struct device *d, const void *p, size_t n, const char *what,
                  struct allocation **found) {
    struct allocation *a = n != 0 ? find(p, n) : NULL;
    *found = a;
    if (a == NULL)
        return true;
    if (a->freed)
        violation("%s: %s %p lies in allocation %llu, which was freed", device_name(d), what, p,
                  (unsigned long long)a->id);
    else if (!contains(a, p, n))
        violation("%s: %s [%p, +%zu) runs out of allocation %llu [%p, +%zu)", device_name(d), what, p, n,
                  (unsigned long long)a->id, (void *)a->at, a->size);
    else
        return true;
    return false;
}
