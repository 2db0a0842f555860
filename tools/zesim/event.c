/* Event pools, events and fences. */
#include "sim.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- time */
uint64_t sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sim_deadline(uint64_t timeout) {
    uint64_t now = sim_now();
    return timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
}

/* A futex, not a condition variable: that of glibc before 2.41 can lose a wakeup where many threads wait with
 * timeouts (its bug 25847), and then all of them hang. Called with the lock, which it gives up meanwhile. */
bool sim_wait(uint64_t deadline) {
    const bool forever = deadline == UINT64_MAX;
    if (!forever && sim_now() >= deadline)
        return false;
    struct timespec t = {(time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u)};
    const uint32_t seen = __atomic_load_n(&sim.changes, __ATOMIC_ACQUIRE);
    pthread_mutex_unlock(&sim.lock);
    syscall(SYS_futex, &sim.changes, FUTEX_WAIT_BITSET_PRIVATE, seen, forever ? NULL : &t, NULL,
            FUTEX_BITSET_MATCH_ANY);
    pthread_mutex_lock(&sim.lock);
    return true;
}

void sim_changed(void) {
    __atomic_add_fetch(&sim.changes, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &sim.changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

uint64_t device_ticks(const struct device *d, uint64_t ns) {
    return (uint64_t)((unsigned __int128)ns * d->timer_hz / 1000000000u);
}

/* ---- pools */
ze_result_t ZE_APICALL zeEventPoolCreate(ze_context_handle_t context, const ze_event_pool_desc_t *desc,
                                         uint32_t n, ze_device_handle_t *devices,
                                         ze_event_pool_handle_t *handle) {
    ENTER(zeEventPoolCreate);
    GET(struct context, c, KIND_CONTEXT, context);
    if (desc == NULL || handle == NULL || (devices == NULL && n != 0))
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (desc->count == 0)
        return ZE_RESULT_ERROR_INVALID_SIZE;
    for (uint32_t i = 0; i < n; i++) {
        GET(struct device, d, KIND_DEVICE, devices[i]);
        (void)d;
    }
    struct pool *p = objects_new(KIND_POOL, sizeof *p);
    p->context = c;
    p->count = desc->count;
    p->host_visible = (desc->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE) != 0;
    p->timestamps = (desc->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) != 0;
    p->taken = calloc(p->count, sizeof *p->taken);
    if (p->taken == NULL)
        fatal("out of memory for an event pool");
    *handle = (ze_event_pool_handle_t)p;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeEventPoolDestroy(ze_event_pool_handle_t handle) {
    ENTER(zeEventPoolDestroy);
    GET(struct pool, p, KIND_POOL, handle);
    if (p->live != 0)
        violation("%s is destroyed while %u of its events live", objects_name(p), p->live);
    objects_kill(p);
    return ZE_RESULT_SUCCESS;
}

/* ---- events */
ze_result_t ZE_APICALL zeEventCreate(ze_event_pool_handle_t pool, const ze_event_desc_t *desc,
                                     ze_event_handle_t *handle) {
    ENTER(zeEventCreate);
    GET(struct pool, p, KIND_POOL, pool);
    if (desc == NULL || handle == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (desc->index >= p->count)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (p->taken[desc->index]) {
        violation("%s: index %u already has a live event", objects_name(p), desc->index);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    struct event *e = objects_new(KIND_EVENT, sizeof *e);
    e->pool = p;
    e->index = desc->index;
    p->taken[e->index] = true;
    p->live++;
    *handle = (ze_event_handle_t)e;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeEventDestroy(ze_event_handle_t handle) {
    ENTER(zeEventDestroy);
    GET(struct event, e, KIND_EVENT, handle);
    if (e->in_flight != 0) {
        violation("%s is destroyed while commands in flight use it", objects_name(e));
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    }
    e->pool->taken[e->index] = false;
    e->pool->live--;
    objects_kill(e);
    return ZE_RESULT_SUCCESS;
}

void event_signal(struct event *e, const struct device *by, uint64_t start, uint64_t end) {
    e->by = by;
    e->start = start, e->end = end;
    e->signalled = true;
    sim_changed();
}

ze_result_t ZE_APICALL zeEventHostSignal(ze_event_handle_t handle) {
    ENTER(zeEventHostSignal);
    GET(struct event, e, KIND_EVENT, handle);
    uint64_t now = sim_now();
    event_signal(e, NULL, now, now);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeEventHostReset(ze_event_handle_t handle) {
    ENTER(zeEventHostReset);
    GET(struct event, e, KIND_EVENT, handle);
    e->signalled = false;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t ask(const struct event *e) {
    if (!e->pool->host_visible) {
        violation("the host asks %s, whose pool is not host-visible", objects_name(e));
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (e->signalled)
        return ZE_RESULT_SUCCESS;
    return queue_lost(e->pool->context) ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_NOT_READY;
}

ze_result_t ZE_APICALL zeEventQueryStatus(ze_event_handle_t handle) {
    ENTER(zeEventQueryStatus);
    GET(struct event, e, KIND_EVENT, handle);
    return ask(e);
}

ze_result_t ZE_APICALL zeEventHostSynchronize(ze_event_handle_t handle, uint64_t timeout) {
    ENTER(zeEventHostSynchronize);
    GET(struct event, e, KIND_EVENT, handle);
    uint64_t deadline = sim_deadline(timeout);
    ze_result_t r;
    while ((r = ask(e)) == ZE_RESULT_NOT_READY)
        if (!sim_wait(deadline))
            return r;
    return r;
}

ze_kernel_timestamp_result_t event_timestamps(const struct event *e) {
    const struct device *d = e->by != NULL ? e->by : &sim.device[0];
    uint64_t mask = d->timestamp_bits == 64 ? UINT64_MAX : (1ull << d->timestamp_bits) - 1;
    ze_kernel_timestamp_data_t t = {device_ticks(d, e->start) & mask, device_ticks(d, e->end) & mask};
    return (ze_kernel_timestamp_result_t){.global = t, .context = t};
}

ze_result_t ZE_APICALL zeEventQueryKernelTimestamp(ze_event_handle_t handle,
                                                   ze_kernel_timestamp_result_t *result) {
    ENTER(zeEventQueryKernelTimestamp);
    GET(struct event, e, KIND_EVENT, handle);
    if (result == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!e->pool->timestamps) {
        violation("%s: its pool was made without ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP", objects_name(e));
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (!e->signalled)
        return ZE_RESULT_NOT_READY;
    *result = event_timestamps(e);
    return ZE_RESULT_SUCCESS;
}

/* ---- fences */
ze_result_t ZE_APICALL zeFenceCreate(ze_command_queue_handle_t queue, const ze_fence_desc_t *desc,
                                     ze_fence_handle_t *handle) {
    ENTER(zeFenceCreate);
    GET(struct queue, q, KIND_QUEUE, queue);
    if (desc == NULL || handle == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    struct fence *f = objects_new(KIND_FENCE, sizeof *f);
    f->queue = q;
    f->signalled = (desc->flags & ZE_FENCE_FLAG_SIGNALED) != 0;
    *handle = (ze_fence_handle_t)f;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t in_use(const struct fence *f, const char *what) {
    violation("%s is %s while a submission that signals it is in flight", objects_name(f), what);
    return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
}

ze_result_t ZE_APICALL zeFenceDestroy(ze_fence_handle_t handle) {
    ENTER(zeFenceDestroy);
    GET(struct fence, f, KIND_FENCE, handle);
    if (f->in_flight)
        return in_use(f, "destroyed");
    objects_kill(f);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t fence_state(const struct fence *f) {
    if (f->signalled)
        return ZE_RESULT_SUCCESS;
    return !f->in_flight && f->queue->device->lost ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_NOT_READY;
}

ze_result_t ZE_APICALL zeFenceQueryStatus(ze_fence_handle_t handle) {
    ENTER(zeFenceQueryStatus);
    GET(struct fence, f, KIND_FENCE, handle);
    return fence_state(f);
}

ze_result_t ZE_APICALL zeFenceHostSynchronize(ze_fence_handle_t handle, uint64_t timeout) {
    ENTER(zeFenceHostSynchronize);
    GET(struct fence, f, KIND_FENCE, handle);
    uint64_t deadline = sim_deadline(timeout);
    ze_result_t r;
    while ((r = fence_state(f)) == ZE_RESULT_NOT_READY)
        if (!sim_wait(deadline))
            return r;
    return r;
}

ze_result_t ZE_APICALL zeFenceReset(ze_fence_handle_t handle) {
    ENTER(zeFenceReset);
    GET(struct fence, f, KIND_FENCE, handle);
    if (f->in_flight)
        return in_use(f, "reset");
    f->signalled = false;
    return ZE_RESULT_SUCCESS;
}
