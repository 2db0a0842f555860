/* Events. Those of a pool for times are CUDA's, around a kernel. Those of other pools order the lists of one
 * or several devices: a word in memory that a kernel of zecuda's sets, waits for and clears. CUDA's own
 * events cannot do that, because a list is recorded once and its waits must see the signal of the present
 * run. */
#include "times.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORD_BYTES  128u         /* apart: a cache line each */
#define MOST_PUSHED (128u << 10) /* bytes that one group copies faster than a copy engine begins */

struct pool {
    bool times;
    bool of_host; /* the host signals and waits, too */
    uint32_t n, count;
    struct device *device[MAX_DEVICES];
    void *host; /* the words, where not every device reaches every other one, or the host takes part */
    cuda_address words[MAX_DEVICES]; /* by index, else */
};

/* ---- pools */
static bool reach_each_other(const struct pool *p) {
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < p->n; k++)
            if (i != k && !p->device[i]->reaches[p->device[k]->index])
                return false;
    return true;
}

static bool cleared(struct device *d, cuda_address *a, size_t bytes) {
    return device_enter(d) && CUDA(cuMemAlloc_v2, a, bytes) &&
           CUDA(cuMemsetD32Async, *a, 0, bytes / sizeof(uint32_t), d->side) &&
           CUDA(cuStreamSynchronize, d->side);
}

static bool make_words(struct pool *p) {
    const size_t bytes = (size_t)p->count * WORD_BYTES;
    if (p->of_host || !reach_each_other(p)) {
        if (!device_enter(p->device[0]) || !CUDA(cuMemHostAlloc, &p->host, bytes, CUDA_HOST_PORTABLE))
            return false;
        memset(p->host, 0, bytes);
        return true;
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (!cleared(p->device[i], &p->words[p->device[i]->index], bytes))
            return false;
    return true;
}

/* The kernel, and what it adds its times to. */
static bool make_exchange(struct device *d) {
    if (d->exchange == NULL && !module_own(d, EXCHANGE_KERNEL, &d->exchange))
        return false;
    return d->exchanges != 0 || !times_wanted() || cleared(d, &d->exchanges, sizeof(struct exchange_times));
}

ze_result_t ZE_APICALL zeEventPoolDestroy(ze_event_pool_handle_t h) {
    struct pool *p = (struct pool *)h;
    if (p->host != NULL && device_enter(p->device[0]))
        (void)CUDA(cuMemFreeHost, p->host);
    for (uint32_t i = 0; i < p->n; i++)
        if (p->words[p->device[i]->index] != 0 && device_enter(p->device[i]))
            (void)CUDA(cuMemFree_v2, p->words[p->device[i]->index]);
    free(p);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeEventPoolCreate(ze_context_handle_t c, const ze_event_pool_desc_t *desc, uint32_t n,
                                         ze_device_handle_t *devices, ze_event_pool_handle_t *out) {
    (void)c;
    struct pool *p = calloc(1, sizeof *p);
    if (p == NULL || n > MAX_DEVICES) {
        free(p);
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    p->times = (desc->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) != 0;
    p->of_host = (desc->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE) != 0;
    p->count = desc->count;
    p->n = n == 0 ? driver.n : n;
    for (uint32_t i = 0; i < p->n; i++)
        p->device[i] = n == 0 ? &driver.device[i] : (struct device *)devices[i];
    bool good = p->times || make_words(p);
    for (uint32_t i = 0; i < p->n && !p->times && good; i++)
        good = make_exchange(p->device[i]);
    if (!good) {
        (void)zeEventPoolDestroy((ze_event_pool_handle_t)p);
        return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    *out = (ze_event_pool_handle_t)p;
    return ZE_RESULT_SUCCESS;
}

/* ---- events */
static void place_words(struct event *e, const struct pool *p, uint32_t index) {
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t d = p->device[i]->index;
        e->word[d] =
            (p->host != NULL ? (cuda_address)p->host : p->words[d]) + (cuda_address)index * WORD_BYTES;
    }
    e->n_words = p->host != NULL ? 1 : p->n;
}

ze_result_t ZE_APICALL zeEventCreate(ze_event_pool_handle_t h, const ze_event_desc_t *desc,
                                     ze_event_handle_t *out) {
    const struct pool *p = (const struct pool *)h;
    if (desc->index >= p->count)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    struct event *e = calloc(1, sizeof *e);
    if (e == NULL)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    e->device = p->device[0];
    e->of_host = p->of_host && !p->times;
    if (!p->times)
        place_words(e, p, desc->index);
    else if (!device_enter(e->device) || !CUDA(cuEventCreate, &e->begin, 0) ||
             !CUDA(cuEventCreate, &e->end, 0)) {
        free(e);
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    *out = (ze_event_handle_t)e;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeEventDestroy(ze_event_handle_t h) {
    struct event *e = (struct event *)h;
    if (e->n_words == 0 && device_enter(e->device)) {
        (void)CUDA(cuEventDestroy_v2, e->begin);
        (void)CUDA(cuEventDestroy_v2, e->end);
    }
    free(e);
    return ZE_RESULT_SUCCESS;
}

/* ---- launches */
static uint32_t add_words(exchange_u64 *words, uint32_t n, const struct event *e) {
    for (uint32_t i = 0, added = 0; added < e->n_words; i++)
        if (e->word[i] != 0)
            words[n++] = e->word[i], added++;
    return n;
}

/* Appends the command; false: it does not fit into this launch. */
static bool join(struct exchange *x, const struct command *c, uint32_t device) {
    switch (c->op) {
    case COMMAND_COPY:
        if (x->n_copies == EXCHANGE_COPIES || c->bytes > MOST_PUSHED || (c->to | c->from | c->bytes) % 4 != 0)
            return false;
        x->to[x->n_copies] = c->to, x->from[x->n_copies] = c->from;
        x->bytes[x->n_copies++] = (exchange_u32)c->bytes;
        return true;
    case COMMAND_SIGNAL:
        if (x->n_signals + c->event->n_words > EXCHANGE_WORDS)
            return false;
        x->n_signals = add_words(x->signal, x->n_signals, c->event);
        return true;
    case COMMAND_WAIT:
        if (x->n_waits == EXCHANGE_COPIES)
            return false;
        x->wait[x->n_waits++] = c->event->word[device];
        return true;
    case COMMAND_RESET:
        if (x->n_resets + c->event->n_words > EXCHANGE_WORDS)
            return false;
        x->n_resets = add_words(x->reset, x->n_resets, c->event);
        return true;
    }
    return false;
}

uint32_t events_join(const struct list *l, uint32_t i, struct exchange *x) {
    const uint32_t first = i;
    int op = COMMAND_COPY;
    memset(x, 0, sizeof *x);
    for (; i < l->n && l->command[i].op >= op; i++) {
        op = l->command[i].op;
        if (!join(x, &l->command[i], l->device->index))
            break;
    }
    return op == COMMAND_COPY ? 0 : i - first;
}

bool events_launch(const struct device *d, struct exchange *x, cuda_stream s) {
    x->times = d->exchanges;
    void *values[] = {x};
    return CUDA(cuLaunchKernel, d->exchange, 1, 1, 1, x->n_copies > 0 ? EXCHANGE_GROUP : 64, 1, 1, 0, s,
                values, NULL);
}

/* ---- the host's part */
/* The word of an event of a pool that the host sees; NULL: of another. */
static _Atomic uint32_t *word_of(ze_event_handle_t h) {
    const struct event *e = (const struct event *)h;
    return e->of_host ? (_Atomic uint32_t *)(uintptr_t)e->word[e->device->index] : NULL;
}

ze_result_t ZE_APICALL zeEventHostReset(ze_event_handle_t h) {
    _Atomic uint32_t *word = word_of(h);
    if (word != NULL)
        atomic_store(word, 0);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeEventHostSignal(ze_event_handle_t h) {
    _Atomic uint32_t *word = word_of(h);
    if (word == NULL)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    atomic_store(word, 1);
    return ZE_RESULT_SUCCESS;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Polls, as the signal comes by a write of the device. */
ze_result_t ZE_APICALL zeEventHostSynchronize(ze_event_handle_t h, uint64_t timeout) {
    _Atomic uint32_t *word = word_of(h);
    if (word == NULL)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    const uint64_t begin = now_ns();
    while (atomic_load(word) == 0)
        if (now_ns() - begin >= timeout)
            return ZE_RESULT_NOT_READY;
    return ZE_RESULT_SUCCESS;
}

static uint64_t time_of(const struct device *d, cuda_event e) {
    float ms = 0;
    if (!CUDA(cuEventElapsedTime, &ms, e, d->now))
        return d->now_ns;
    return d->now_ns - (uint64_t)((double)ms * 1e6);
}

ze_result_t ZE_APICALL zeEventQueryKernelTimestamp(ze_event_handle_t h, ze_kernel_timestamp_result_t *t) {
    const struct event *e = (const struct event *)h;
    if (!e->device->read || !device_enter(e->device) || cuda.cuEventQuery(e->end) != 0)
        return ZE_RESULT_NOT_READY;
    t->global.kernelStart = t->context.kernelStart = time_of(e->device, e->begin);
    t->global.kernelEnd = t->context.kernelEnd = time_of(e->device, e->end);
    return ZE_RESULT_SUCCESS;
}
