/* Command lists, queues and fences. A closed list with kernels becomes a CUDA graph, so that running it again
 * costs one call, as on a real Level Zero driver; lists run in a queue's stream, in order. All commands of a
 * list run one after the other, whether or not a barrier stands between them. */
#include "times.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCAL_ALIGNMENT 128u

/* ---- lists */
ze_result_t ZE_APICALL zeCommandListCreate(ze_context_handle_t c, ze_device_handle_t h,
                                           const ze_command_list_desc_t *desc,
                                           ze_command_list_handle_t *out) {
    (void)c, (void)desc;
    struct list *l = calloc(1, sizeof *l);
    if (l == NULL)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    l->device = (struct device *)h;
    *out = (ze_command_list_handle_t)l;
    return ZE_RESULT_SUCCESS;
}

static void clear(struct list *l) {
    for (uint32_t i = 0; i < l->n; i++)
        free(l->command[i].launch);
    if (l->graph != NULL && device_enter(l->device))
        (void)CUDA(cuGraphExecDestroy, l->graph);
    l->graph = NULL;
    l->n = l->kernels = 0;
}

ze_result_t ZE_APICALL zeCommandListReset(ze_command_list_handle_t h) {
    clear((struct list *)h);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeCommandListDestroy(ze_command_list_handle_t h) {
    struct list *l = (struct list *)h;
    clear(l);
    free(l->command);
    free(l);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t append(ze_command_list_handle_t h, struct command c) {
    struct list *l = (struct list *)h;
    if (l->n == l->capacity) {
        l->capacity = l->capacity * 2 + 16;
        l->command = realloc(l->command, l->capacity * sizeof *l->command);
        if (l->command == NULL)
            abort();
    }
    l->command[l->n++] = c;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t append_event(ze_command_list_handle_t h, int op, ze_event_handle_t event) {
    struct event *e = (struct event *)event;
    if (e->n_words == 0) /* of a pool for times */
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    return append(h, (struct command){.op = op, .event = e});
}

ze_result_t ZE_APICALL zeCommandListAppendBarrier(ze_command_list_handle_t h, ze_event_handle_t signal,
                                                  uint32_t n_waits, ze_event_handle_t *waits) {
    ze_result_t r = ZE_RESULT_SUCCESS;
    for (uint32_t i = 0; i < n_waits && r == ZE_RESULT_SUCCESS; i++)
        r = append_event(h, COMMAND_WAIT, waits[i]);
    return r == ZE_RESULT_SUCCESS && signal != NULL ? append_event(h, COMMAND_SIGNAL, signal) : r;
}

ze_result_t ZE_APICALL zeCommandListAppendEventReset(ze_command_list_handle_t h, ze_event_handle_t event) {
    return append_event(h, COMMAND_RESET, event);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryCopy(ze_command_list_handle_t h, void *to, const void *from,
                                                     size_t bytes, ze_event_handle_t signal, uint32_t n_waits,
                                                     ze_event_handle_t *waits) {
    (void)waits;
    if (signal != NULL || n_waits != 0)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    return append(
        h, (struct command){
               .op = COMMAND_COPY, .to = (cuda_address)to, .from = (cuda_address)from, .bytes = bytes});
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryFill(ze_command_list_handle_t h, void *to,
                                                     const void *pattern, size_t pattern_bytes, size_t bytes,
                                                     ze_event_handle_t signal, uint32_t n_waits,
                                                     ze_event_handle_t *waits) {
    (void)waits;
    struct command c = {.op = COMMAND_FILL, .to = (cuda_address)to, .bytes = bytes};
    if (signal != NULL || n_waits != 0 || pattern_bytes != sizeof c.pattern || bytes % sizeof c.pattern != 0)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    memcpy(&c.pattern, pattern, sizeof c.pattern);
    return append(h, c);
}

ze_result_t ZE_APICALL zeCommandListAppendLaunchKernel(ze_command_list_handle_t h, ze_kernel_handle_t kernel,
                                                       const ze_group_count_t *groups,
                                                       ze_event_handle_t signal, uint32_t n_waits,
                                                       ze_event_handle_t *waits) {
    (void)waits;
    const struct kernel *k = (const struct kernel *)kernel;
    if (n_waits != 0 || (signal != NULL && ((struct event *)signal)->n_words != 0))
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    struct launch *l = calloc(1, sizeof *l);
    if (l == NULL)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    l->function = k->function;
    l->groups[0] = groups->groupCountX, l->groups[1] = groups->groupCountY,
    l->groups[2] = groups->groupCountZ;
    l->n_args = k->n_args;
    memcpy(l->group, k->group, sizeof l->group);
    memcpy(l->kinds, k->kinds, sizeof l->kinds);
    memcpy(l->values, k->values, sizeof l->values);
    for (uint32_t i = 0; i < l->n_args; i++) {
        if (l->kinds[i] != 'l')
            continue;
        uint32_t bytes = (uint32_t)l->values[i];
        l->values[i] = l->shared;
        l->shared += (bytes + LOCAL_ALIGNMENT - 1) / LOCAL_ALIGNMENT * LOCAL_ALIGNMENT;
    }
    ((struct list *)h)->kernels++;
    return append(h, (struct command){.op = COMMAND_KERNEL, .launch = l, .event = (struct event *)signal});
}

/* Into a stream, as work or for a capture. */
static bool play(const struct list *l, cuda_stream s) {
    for (uint32_t i = 0; i < l->n; i++) {
        const struct command *c = &l->command[i];
        struct exchange x;
        uint32_t together = events_join(l, i, &x);
        if (together > 0) {
            if (!events_launch(l->device, &x, s))
                return false;
            i += together - 1;
        } else if (c->op == COMMAND_COPY) {
            if (!CUDA(cuMemcpyAsync, c->to, c->from, c->bytes, s))
                return false;
        } else if (c->op == COMMAND_FILL) {
            if (!CUDA(cuMemsetD32Async, c->to, c->pattern, c->bytes / sizeof c->pattern, s))
                return false;
        } else {
            struct launch *k = c->launch;
            void *values[MAX_ARGS];
            for (uint32_t j = 0; j < k->n_args; j++)
                values[j] = &k->values[j];
            if ((c->event != NULL &&
                 !CUDA(cuEventRecordWithFlags, c->event->begin, s, CUDA_EVENT_RECORD_EXTERNAL)) ||
                !CUDA(cuLaunchKernel, k->function, k->groups[0], k->groups[1], k->groups[2], k->group[0],
                      k->group[1], k->group[2], k->shared, s, values, NULL) ||
                (c->event != NULL &&
                 !CUDA(cuEventRecordWithFlags, c->event->end, s, CUDA_EVENT_RECORD_EXTERNAL)))
                return false;
        }
    }
    return true;
}

ze_result_t ZE_APICALL zeCommandListClose(ze_command_list_handle_t h) {
    struct list *l = (struct list *)h;
    cuda_graph graph = NULL;
    if (l->kernels == 0)
        return ZE_RESULT_SUCCESS;
    if (!device_enter(l->device) || !CUDA(cuStreamBeginCapture_v2, l->device->side, CUDA_CAPTURE_RELAXED))
        return ZE_RESULT_ERROR_DEVICE_LOST;
    bool played = play(l, l->device->side);
    bool good = CUDA(cuStreamEndCapture, l->device->side, &graph) && played;
    good = good && CUDA(cuGraphInstantiateWithFlags, &l->graph, graph, 0) &&
           CUDA(cuGraphUpload, l->graph, l->device->side) && CUDA(cuStreamSynchronize, l->device->side);
    if (graph != NULL)
        (void)CUDA(cuGraphDestroy, graph);
    return good ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNKNOWN;
}

/* ---- queues */
ze_result_t ZE_APICALL zeCommandQueueCreate(ze_context_handle_t c, ze_device_handle_t h,
                                            const ze_command_queue_desc_t *desc,
                                            ze_command_queue_handle_t *out) {
    (void)c, (void)desc;
    struct queue *q = calloc(1, sizeof *q);
    if (q == NULL)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    q->device = (struct device *)h;
    if (!device_enter(q->device) || !CUDA(cuStreamCreate, &q->stream, CUDA_STREAM_NON_BLOCKING)) {
        free(q);
        return ZE_RESULT_ERROR_DEVICE_LOST;
    }
    q->times = times_open();
    *out = (ze_command_queue_handle_t)q;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeCommandQueueDestroy(ze_command_queue_handle_t h) {
    struct queue *q = (struct queue *)h;
    if (device_enter(q->device)) {
        (void)CUDA(cuStreamSynchronize, q->stream);
        times_close(q->times, q->device);
        (void)CUDA(cuStreamDestroy_v2, q->stream);
    }
    free(q);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeCommandQueueExecuteCommandLists(ze_command_queue_handle_t h, uint32_t n,
                                                         ze_command_list_handle_t *lists,
                                                         ze_fence_handle_t fence) {
    struct queue *q = (struct queue *)h;
    struct fence *f = (struct fence *)fence;
    bool good = device_enter(q->device);
    uint32_t kernels = 0;
    times_before(q->times, q->stream);
    for (uint32_t i = 0; i < n && good; i++) {
        const struct list *l = (const struct list *)lists[i];
        kernels += l->kernels;
        good = l->graph != NULL ? CUDA(cuGraphLaunch, l->graph, q->stream) : play(l, q->stream);
    }
    times_after(q->times, q->stream, kernels);
    if (good && f != NULL) {
        good = CUDA(cuEventRecord, f->event, q->stream);
        f->submitted = good;
    }
    return good ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_DEVICE_LOST;
}

ze_result_t ZE_APICALL zeCommandQueueSynchronize(ze_command_queue_handle_t h, uint64_t timeout) {
    struct queue *q = (struct queue *)h;
    if (timeout != UINT64_MAX)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    return device_enter(q->device) && CUDA(cuStreamSynchronize, q->stream) ? ZE_RESULT_SUCCESS
                                                                           : ZE_RESULT_ERROR_DEVICE_LOST;
}

/* ---- fences */
ze_result_t ZE_APICALL zeFenceCreate(ze_command_queue_handle_t h, const ze_fence_desc_t *desc,
                                     ze_fence_handle_t *out) {
    (void)desc;
    struct fence *f = calloc(1, sizeof *f);
    if (f == NULL)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    f->queue = (struct queue *)h;
    if (!device_enter(f->queue->device) || !CUDA(cuEventCreate, &f->event, CUDA_EVENT_DISABLE_TIMING)) {
        free(f);
        return ZE_RESULT_ERROR_DEVICE_LOST;
    }
    *out = (ze_fence_handle_t)f;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeFenceDestroy(ze_fence_handle_t h) {
    struct fence *f = (struct fence *)h;
    if (device_enter(f->queue->device))
        (void)CUDA(cuEventDestroy_v2, f->event);
    free(f);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeFenceReset(ze_fence_handle_t h) {
    ((struct fence *)h)->submitted = false;
    return ZE_RESULT_SUCCESS;
}

/* Spins: steps are short, and nothing else waits here. */
ze_result_t ZE_APICALL zeFenceHostSynchronize(ze_fence_handle_t h, uint64_t timeout) {
    struct fence *f = (struct fence *)h;
    uint64_t began = device_clock_ns();
    if (!device_enter(f->queue->device))
        return ZE_RESULT_ERROR_DEVICE_LOST;
    for (;;) {
        cuda_result r = f->submitted ? cuda.cuEventQuery(f->event) : CUDA_NOT_READY;
        if (r != CUDA_NOT_READY)
            times_waited(f->queue->times, device_clock_ns() - began);
        if (r != CUDA_NOT_READY)
            return cuda_good("cuEventQuery", r) ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_DEVICE_LOST;
        if (device_clock_ns() - began >= timeout)
            return ZE_RESULT_NOT_READY;
        sched_yield();
    }
}
