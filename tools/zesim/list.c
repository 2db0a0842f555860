/* Command lists: what is appended is checked and copied at once. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* Aligned for any kernel's argument. */
static void *copy_of(const void *data, size_t size) {
    void *p = aligned_alloc(64, size / 64 * 64 + 64);
    if (p == NULL)
        fatal("out of memory for a command");
    return size != 0 ? memcpy(p, data, size) : p;
}

static ze_result_t copy_events(ze_event_handle_t *handles, uint32_t n, struct event ***events) {
    if (n != 0 && handles == NULL)
        return ZE_RESULT_ERROR_INVALID_SIZE;
    for (uint32_t i = 0; i < n; i++) {
        GET(struct event, e, KIND_EVENT, handles[i]);
        (void)e;
    }
    *events = n != 0 ? copy_of(handles, n * sizeof *handles) : NULL;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t add(struct list *l, struct command *c) {
    if (l->immediate != NULL) {
        if (l->device->lost)
            return ZE_RESULT_ERROR_DEVICE_LOST;
        queue_push(l->immediate, NULL, c, NULL, ACTION_RETURN);
        memset(c, 0, sizeof *c);
        return l->immediate->synchronous ? queue_wait(l->immediate, UINT64_MAX) : ZE_RESULT_SUCCESS;
    }
    if (l->n == l->capacity) {
        l->capacity = l->capacity * 2 + 16;
        l->command = realloc(l->command, l->capacity * sizeof *c);
        if (l->command == NULL)
            fatal("out of memory for a command list");
    }
    l->command[l->n++] = *c;
    memset(c, 0, sizeof *c);
    return ZE_RESULT_SUCCESS;
}

/* Takes over what *c owns, also when it fails. */
static ze_result_t append(struct list *l, struct command *c, ze_event_handle_t signal, uint32_t n_waits,
                          ze_event_handle_t *waits) {
    ze_result_t r = ZE_RESULT_SUCCESS;
    if (l->closed) {
        violation("append to %s, which is closed", objects_name(l));
        r = ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (r == ZE_RESULT_SUCCESS && signal != NULL)
        c->signal = objects_get(signal, KIND_EVENT, &r);
    if (r == ZE_RESULT_SUCCESS)
        r = copy_events(waits, n_waits, &c->waits);
    c->n_waits = r == ZE_RESULT_SUCCESS ? n_waits : 0;
    if (r == ZE_RESULT_SUCCESS)
        r = add(l, c);
    command_free(c);
    return r;
}

/* ---- life of a list */
static struct list *new_list(struct context *c, struct device *d, uint32_t ordinal) {
    struct list *l = objects_new(KIND_LIST, sizeof *l);
    l->context = c, l->device = d, l->ordinal = ordinal;
    return l;
}

ze_result_t ZE_APICALL zeCommandListCreate(ze_context_handle_t context, ze_device_handle_t device,
                                           const ze_command_list_desc_t *desc,
                                           ze_command_list_handle_t *handle) {
    ENTER(zeCommandListCreate);
    GET(struct context, c, KIND_CONTEXT, context);
    GET(struct device, d, KIND_DEVICE, device);
    if (desc == NULL || handle == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (desc->commandQueueGroupOrdinal >= (d->copy_engines != 0 ? 2u : 1u))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    *handle = (ze_command_list_handle_t)new_list(c, d, desc->commandQueueGroupOrdinal);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeCommandListCreateImmediate(ze_context_handle_t context, ze_device_handle_t device,
                                                    const ze_command_queue_desc_t *desc,
                                                    ze_command_list_handle_t *handle) {
    ENTER(zeCommandListCreateImmediate);
    GET(struct context, c, KIND_CONTEXT, context);
    GET(struct device, d, KIND_DEVICE, device);
    if (desc == NULL || handle == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    struct queue *q;
    ze_result_t r = queue_create(c, d, desc, &q);
    if (r != ZE_RESULT_SUCCESS)
        return r;
    struct list *l = new_list(c, d, desc->ordinal);
    l->immediate = q;
    *handle = (ze_command_list_handle_t)l;
    return ZE_RESULT_SUCCESS;
}

static void clear(struct list *l) {
    for (size_t i = 0; i < l->n; i++)
        command_free(&l->command[i]);
    l->n = 0;
}

static ze_result_t in_flight(const struct list *l, const char *what) {
    violation("%s is %s while in flight", objects_name(l), what);
    return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
}

ze_result_t ZE_APICALL zeCommandListDestroy(ze_command_list_handle_t handle) {
    ENTER(zeCommandListDestroy);
    GET(struct list, l, KIND_LIST, handle);
    if (l->in_flight != 0)
        return in_flight(l, "destroyed");
    if (l->immediate != NULL)
        queue_destroy(l->immediate);
    clear(l);
    free(l->command);
    l->command = NULL;
    objects_kill(l);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeCommandListClose(ze_command_list_handle_t handle) {
    ENTER(zeCommandListClose);
    GET(struct list, l, KIND_LIST, handle);
    if (l->closed)
        violation("%s is closed for the second time", objects_name(l));
    l->closed = l->immediate == NULL;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeCommandListReset(ze_command_list_handle_t handle) {
    ENTER(zeCommandListReset);
    GET(struct list, l, KIND_LIST, handle);
    if (l->in_flight != 0)
        return in_flight(l, "reset");
    clear(l);
    l->closed = false;
    return ZE_RESULT_SUCCESS;
}

/* ---- copies */
static bool accessible(const struct list *l, const void *target, size_t n, const void *source, size_t m) {
    struct allocation *a;
    return memory_check(l->device, target, n, "the target", &a) &&
           memory_check(l->device, source, m, "the source", &a);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryCopy(ze_command_list_handle_t list, void *target,
                                                     const void *source, size_t size,
                                                     ze_event_handle_t signal, uint32_t n_waits,
                                                     ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendMemoryCopy);
    GET(struct list, l, KIND_LIST, list);
    if (target == NULL || source == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!accessible(l, target, size, source, size))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    struct command c = {.op = OP_COPY, .target = target, .source = source, .size = size};
    return append(l, &c, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryCopyFromContext(ze_command_list_handle_t list, void *target,
                                                                ze_context_handle_t context,
                                                                const void *source, size_t size,
                                                                ze_event_handle_t signal, uint32_t n_waits,
                                                                ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendMemoryCopyFromContext);
    GET(struct list, l, KIND_LIST, list);
    GET(struct context, from, KIND_CONTEXT, context);
    (void)from;
    if (target == NULL || source == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!accessible(l, target, size, source, size))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    struct command c = {.op = OP_COPY, .target = target, .source = source, .size = size};
    return append(l, &c, signal, n_waits, waits);
}

/* Bytes from a region's buffer to the end of its last row. */
static size_t region_extent(const ze_copy_region_t *r, uint32_t pitch, uint32_t slice) {
    uint32_t depth = r->depth != 0 ? r->depth : 1;
    if (r->width == 0 || r->height == 0)
        return 0;
    return (size_t)(r->originZ + depth - 1) * slice + (size_t)(r->originY + r->height - 1) * pitch +
           r->originX + r->width;
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryCopyRegion(ze_command_list_handle_t list, void *target,
                                                           const ze_copy_region_t *to, uint32_t to_pitch,
                                                           uint32_t to_slice, const void *source,
                                                           const ze_copy_region_t *from, uint32_t from_pitch,
                                                           uint32_t from_slice, ze_event_handle_t signal,
                                                           uint32_t n_waits, ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendMemoryCopyRegion);
    GET(struct list, l, KIND_LIST, list);
    if (target == NULL || source == NULL || to == NULL || from == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (to->width != from->width || to->height != from->height || to->depth != from->depth)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (!accessible(l, target, region_extent(to, to_pitch, to_slice), source,
                    region_extent(from, from_pitch, from_slice)))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    struct command c = {.op = OP_COPY, .target = target, .source = source, .to = *to, .from = *from};
    c.to.depth = c.from.depth = to->depth != 0 ? to->depth : 1;
    c.size = (size_t)c.to.width * c.to.height * c.to.depth;
    c.to_pitch = to_pitch, c.to_slice = to_slice, c.from_pitch = from_pitch, c.from_slice = from_slice;
    return append(l, &c, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryFill(ze_command_list_handle_t list, void *target,
                                                     const void *pattern, size_t pattern_size, size_t size,
                                                     ze_event_handle_t signal, uint32_t n_waits,
                                                     ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendMemoryFill);
    GET(struct list, l, KIND_LIST, list);
    if (target == NULL || pattern == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    size_t most = l->ordinal == 0 ? SIM_MAX_PATTERN : 16;
    if (pattern_size == 0 || pattern_size > most)
        return ZE_RESULT_ERROR_INVALID_SIZE;
    if (!accessible(l, target, size, NULL, 0))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    struct command c = {.op = OP_FILL, .target = target, .size = size, .pattern_size = pattern_size};
    memcpy(c.pattern, pattern, pattern_size);
    return append(l, &c, signal, n_waits, waits);
}

/* Hints: they do nothing here, but what they name must be there. */
ze_result_t ZE_APICALL zeCommandListAppendMemoryPrefetch(ze_command_list_handle_t list, const void *p,
                                                         size_t size) {
    ENTER(zeCommandListAppendMemoryPrefetch);
    GET(struct list, l, KIND_LIST, list);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return accessible(l, p, size, NULL, 0) ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

ze_result_t ZE_APICALL zeCommandListAppendMemAdvise(ze_command_list_handle_t list, ze_device_handle_t device,
                                                    const void *p, size_t size, ze_memory_advice_t advice) {
    ENTER(zeCommandListAppendMemAdvise);
    GET(struct list, l, KIND_LIST, list);
    GET(struct device, d, KIND_DEVICE, device);
    (void)d, (void)advice;
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return accessible(l, p, size, NULL, 0) ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

/* ---- barriers, events, time */
ze_result_t ZE_APICALL zeCommandListAppendBarrier(ze_command_list_handle_t list, ze_event_handle_t signal,
                                                  uint32_t n_waits, ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendBarrier);
    GET(struct list, l, KIND_LIST, list);
    struct command c = {.op = OP_BARRIER};
    return append(l, &c, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryRangesBarrier(ze_command_list_handle_t list, uint32_t n,
                                                              const size_t *sizes, const void **ranges,
                                                              ze_event_handle_t signal, uint32_t n_waits,
                                                              ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendMemoryRangesBarrier);
    GET(struct list, l, KIND_LIST, list);
    if (sizes == NULL || ranges == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    for (uint32_t i = 0; i < n; i++)
        if (!accessible(l, ranges[i], sizes[i], NULL, 0))
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    struct command c = {.op = OP_BARRIER};
    return append(l, &c, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendSignalEvent(ze_command_list_handle_t list,
                                                      ze_event_handle_t event) {
    ENTER(zeCommandListAppendSignalEvent);
    GET(struct list, l, KIND_LIST, list);
    GET(struct event, e, KIND_EVENT, event);
    (void)e;
    struct command c = {.op = OP_NONE};
    return append(l, &c, event, 0, NULL);
}

ze_result_t ZE_APICALL zeCommandListAppendWaitOnEvents(ze_command_list_handle_t list, uint32_t n,
                                                       ze_event_handle_t *events) {
    ENTER(zeCommandListAppendWaitOnEvents);
    GET(struct list, l, KIND_LIST, list);
    if (events == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    struct command c = {.op = OP_NONE};
    return append(l, &c, NULL, n, events);
}

ze_result_t ZE_APICALL zeCommandListAppendEventReset(ze_command_list_handle_t list, ze_event_handle_t event) {
    ENTER(zeCommandListAppendEventReset);
    GET(struct list, l, KIND_LIST, list);
    GET(struct event, e, KIND_EVENT, event);
    (void)e;
    struct command c = {.op = OP_RESET};
    return append(l, &c, event, 0, NULL);
}

ze_result_t ZE_APICALL zeCommandListAppendWriteGlobalTimestamp(ze_command_list_handle_t list,
                                                               uint64_t *target, ze_event_handle_t signal,
                                                               uint32_t n_waits, ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendWriteGlobalTimestamp);
    GET(struct list, l, KIND_LIST, list);
    if (target == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!accessible(l, target, sizeof *target, NULL, 0))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    struct command c = {.op = OP_WRITE_TIME, .target = target, .size = sizeof *target};
    return append(l, &c, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendQueryKernelTimestamps(ze_command_list_handle_t list, uint32_t n,
                                                                ze_event_handle_t *events, void *target,
                                                                const size_t *offsets,
                                                                ze_event_handle_t signal, uint32_t n_waits,
                                                                ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendQueryKernelTimestamps);
    GET(struct list, l, KIND_LIST, list);
    if (events == NULL || target == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    struct command c = {.op = OP_QUERY_TIMES, .target = target};
    for (uint32_t i = 0; i < n; i++) {
        size_t end = (offsets != NULL ? offsets[i] : i * sizeof(ze_kernel_timestamp_result_t)) +
                     sizeof(ze_kernel_timestamp_result_t);
        c.size = end > c.size ? end : c.size;
    }
    if (!accessible(l, target, c.size, NULL, 0))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    ze_result_t r = copy_events(events, n, &c.queried);
    if (r != ZE_RESULT_SUCCESS)
        return r;
    c.n_queried = n;
    c.offsets = offsets != NULL ? copy_of(offsets, n * sizeof *offsets) : NULL;
    return append(l, &c, signal, n_waits, waits);
}

/* ---- kernels */
static bool check_buffer(const struct list *l, const struct kernel *k, uint32_t i) {
    const void *p;
    memcpy(&p, k->values + (size_t)i * MODULE_ARG_SLOT, sizeof p);
    if (p == NULL)
        return true;
    const struct allocation *a = memory_find(p, 1);
    const char *why = a == NULL || a->freed ? "points to no live allocation"
                      : a->type == ZE_MEMORY_TYPE_DEVICE && a->owner != l->device &&
                              l->device->peer[a->owner->index].kind == PEER_NONE
                          ? "points to another device's memory without a peer route"
                      : a->size > UINT32_MAX && !k->module->large_buffers
                          ? "points to an allocation above 4 GiB, but the module was built without "
                            "-ze-opt-greater-than-4GB-buffer-required"
                          : NULL;
    if (why != NULL)
        violation("kernel %s: argument %u %s", k->code->name, i, why);
    return why == NULL;
}

static ze_result_t check_launch(const struct list *l, const struct kernel *k) {
    const char *why = l->ordinal != 0                  ? "is launched on a copy engine"
                      : k->module->device != l->device ? "was built for another device"
                      : k->module->object.dead         ? "belongs to a module that was destroyed"
                                                       : NULL;
    if (why != NULL) {
        violation("kernel %s %s", k->code->name, why);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (!k->group_set) /* Intel's driver takes 1 x 1 x 1 */
        violation("kernel %s has no group size", k->code->name);
    uint64_t local = 0;
    for (uint32_t i = 0; i < k->code->n_locals; i++)
        local += k->code->locals[i].size;
    for (uint32_t i = 0; i < k->code->n_args; i++) {
        if (!k->set[i]) {
            violation("kernel %s: argument %u is not set", k->code->name, i);
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
        }
        if (k->code->args[i].kind == CODE_BUFFER && !check_buffer(l, k, i))
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
        local += k->local_size[i];
    }
    if (local > l->device->local_memory) {
        violation("kernel %s needs %llu bytes of local memory, %s has %llu", k->code->name,
                  (unsigned long long)local, device_name(l->device),
                  (unsigned long long)l->device->local_memory);
        return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    return ZE_RESULT_SUCCESS;
}

static struct launch snapshot(struct kernel *k) {
    struct launch s = {.kernel = k};
    memcpy(s.group, k->group, sizeof s.group);
    memcpy(s.offset, k->offset, sizeof s.offset);
    s.values = copy_of(k->values, (size_t)k->code->n_args * MODULE_ARG_SLOT);
    s.local_size = copy_of(k->local_size, k->code->n_args * sizeof *k->local_size);
    return s;
}

ze_result_t ZE_APICALL zeCommandListAppendLaunchKernel(ze_command_list_handle_t list,
                                                       ze_kernel_handle_t kernel,
                                                       const ze_group_count_t *groups,
                                                       ze_event_handle_t signal, uint32_t n_waits,
                                                       ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendLaunchKernel);
    GET(struct list, l, KIND_LIST, list);
    GET(struct kernel, k, KIND_KERNEL, kernel);
    if (groups == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    ze_result_t r = check_launch(l, k);
    if (r != ZE_RESULT_SUCCESS)
        return r;
    struct command c = {.op = OP_KERNEL, .launch = snapshot(k)};
    c.launch.groups = *groups;
    return append(l, &c, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendLaunchKernelIndirect(ze_command_list_handle_t list,
                                                               ze_kernel_handle_t kernel,
                                                               const ze_group_count_t *groups,
                                                               ze_event_handle_t signal, uint32_t n_waits,
                                                               ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendLaunchKernelIndirect);
    GET(struct list, l, KIND_LIST, list);
    GET(struct kernel, k, KIND_KERNEL, kernel);
    if (groups == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    ze_result_t r = check_launch(l, k);
    if (r != ZE_RESULT_SUCCESS)
        return r;
    if (memory_find(groups, sizeof *groups) == NULL) {
        violation("the group counts of an indirect launch must lie in an allocation of the driver");
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (!accessible(l, groups, sizeof *groups, NULL, 0))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    struct command c = {.op = OP_KERNEL, .launch = snapshot(k)};
    c.launch.indirect = groups;
    return append(l, &c, signal, n_waits, waits);
}

/* The launches become one command each; the first waits for the events and the last signals. */
ze_result_t ZE_APICALL zeCommandListAppendLaunchMultipleKernelsIndirect(
    ze_command_list_handle_t list, uint32_t n, ze_kernel_handle_t *kernels, const uint32_t *count,
    const ze_group_count_t *groups, ze_event_handle_t signal, uint32_t n_waits, ze_event_handle_t *waits) {
    ENTER(zeCommandListAppendLaunchMultipleKernelsIndirect);
    GET(struct list, l, KIND_LIST, list);
    if (kernels == NULL || count == NULL || groups == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!accessible(l, groups, n * sizeof *groups, count, sizeof *count))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < n; i++) {
        GET(struct kernel, k, KIND_KERNEL, kernels[i]);
        ze_result_t r = check_launch(l, k);
        if (r != ZE_RESULT_SUCCESS)
            return r;
    }
    ze_result_t r = ZE_RESULT_SUCCESS;
    for (uint32_t i = 0; i < n && r == ZE_RESULT_SUCCESS; i++) {
        struct command c = {.op = OP_KERNEL, .launch = snapshot((struct kernel *)kernels[i])};
        c.launch.indirect = &groups[i];
        c.launch.indirect_count = count;
        c.launch.indirect_index = i;
        r = append(l, &c, i == n - 1 ? signal : NULL, i == 0 ? n_waits : 0, waits);
    }
    return r;
}
