/* Command queues: a worker thread each, which executes batches in order. */
#include "sim.h"

#include <immintrin.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct queue *all;

void command_free(struct command *c) {
    free(c->waits);
    free(c->queried);
    free(c->offsets);
    free(c->launch.values);
    free(c->launch.local_size);
    memset(c, 0, sizeof *c);
}

/* ---- what is in flight */
static void pin(const struct command *c, uint32_t by) {
    if (c->signal != NULL)
        c->signal->in_flight += by;
    for (uint32_t i = 0; i < c->n_waits; i++)
        c->waits[i]->in_flight += by;
    for (uint32_t i = 0; i < c->n_queried; i++)
        c->queried[i]->in_flight += by;
    if (c->launch.kernel != NULL)
        c->launch.kernel->in_flight += by;
}

static void pin_batch(const struct batch *b, uint32_t by) {
    if (b->list == NULL) {
        pin(&b->own, by);
        return;
    }
    b->list->in_flight += by;
    for (size_t i = 0; i < b->list->n; i++)
        pin(&b->list->command[i], by);
}

static bool within(const void *p, const struct allocation *a) {
    return (const char *)p >= a->at && (const char *)p < a->at + a->size;
}

bool command_uses(const struct command *c, const struct allocation *a) {
    if (within(c->target, a) || within(c->source, a) || within(c->launch.indirect, a))
        return true;
    const struct kernel *k = c->launch.kernel;
    for (uint32_t i = 0; k != NULL && i < k->code->n_args; i++)
        if (k->code->args[i].kind == CODE_BUFFER) {
            const void *p;
            memcpy(&p, c->launch.values + (size_t)i * MODULE_ARG_SLOT, sizeof p);
            if (within(p, a))
                return true;
        }
    return false;
}

bool queue_uses(const struct allocation *a) {
    for (const struct queue *q = all; q != NULL; q = q->next)
        for (const struct batch *b = q->head; b != NULL && !q->device->lost; b = b->next) {
            if (b->list == NULL && command_uses(&b->own, a))
                return true;
            for (size_t i = 0; b->list != NULL && i < b->list->n; i++)
                if (command_uses(&b->list->command[i], a))
                    return true;
        }
    return false;
}

bool queue_lost(const struct context *c) {
    bool lost = false;
    for (const struct queue *q = all; q != NULL; q = q->next)
        if (q->context == c && q->device->lost) {
            if (q->pending != 0)
                return false;
            lost = true;
        }
    return lost;
}

/* ---- the worker */
static bool run(struct queue *q, struct batch *b, struct ending *last) {
    if (b->fault == ACTION_LOST)
        q->device->lost = true;
    while (b->fault == ACTION_HANG && !q->stop && !q->device->lost)
        sim_wait(UINT64_MAX);
    if (q->stop || q->device->lost)
        return false;
    sim_unlock();
    bool done = b->list != NULL ? execute_commands(q, b->list->command, b->list->n, last)
                                : execute_commands(q, &b->own, 1, last);
    sim_lock();
    return done;
}

/* Whoever sees the last command's event, or the fence, finds nothing of the batch in flight. */
static void finish(struct queue *q, struct batch *b, bool done, const struct ending *last) {
    pin_batch(b, (uint32_t)-1);
    if (last->event != NULL)
        event_signal(last->event, q->device, last->start, last->end);
    if (b->fence != NULL) {
        b->fence->in_flight = false;
        b->fence->signalled = done;
    }
    q->head = b->next;
    if (q->head == NULL)
        q->tail = &q->head;
    q->pending--;
    command_free(&b->own);
    free(b);
    if (!sim.executing)
        memory_close();
    sim_changed();
}

static void *work(void *argument) {
    struct queue *q = argument;
    static __thread char alternate[32768]; /* for the crash line when a fiber's stack ran over */
    _mm_setcsr(0x1F80); /* round to nearest, subnormals kept, whatever the creating thread had */
    stack_t had;        /* sanitizers give threads one, and want it back */
    if (sigaltstack(NULL, &had) == 0 && (had.ss_flags & SS_DISABLE) != 0)
        sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL);
    sim_lock();
    for (;;) {
        if (q->head != NULL) {
            struct ending last = {0};
            bool done = run(q, q->head, &last);
            finish(q, q->head, done, &last);
        } else if (q->stop)
            break;
        else
            sim_wait(UINT64_MAX);
    }
    sim_unlock();
    return NULL;
}

/* ---- for the entry points, under the lock */
ze_result_t queue_create(struct context *c, struct device *d, const ze_command_queue_desc_t *desc,
                         struct queue **made) {
    uint32_t groups = d->copy_engines != 0 ? 2 : 1;
    if (desc->ordinal >= groups || desc->index >= (desc->ordinal == 0 ? 1 : d->copy_engines)) {
        violation("%s: a queue of ordinal %u, index %u does not exist", device_name(d), desc->ordinal,
                  desc->index);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (d->lost)
        return ZE_RESULT_ERROR_DEVICE_LOST;
    struct queue *q = objects_new(KIND_QUEUE, sizeof *q);
    q->context = c, q->device = d, q->ordinal = desc->ordinal;
    q->synchronous = desc->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
    q->tail = &q->head;
    /* Signals are for the program's own threads. */
    sigset_t none, old;
    sigfillset(&none);
    sigdelset(&none, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &none, &old);
    if (pthread_create(&q->worker, NULL, work, q) != 0)
        fatal("can't start a worker thread");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    q->next = all;
    all = q;
    *made = q;
    return ZE_RESULT_SUCCESS;
}

void queue_destroy(struct queue *q) {
    if (q->pending != 0 && !q->device->lost)
        violation("%s is destroyed with %llu submissions in flight", objects_name(q),
                  (unsigned long long)q->pending);
    q->stop = true;
    sim_changed();
    sim_unlock();
    pthread_join(q->worker, NULL);
    sim_lock();
    objects_kill(q);
}

void queue_push(struct queue *q, struct list *list, const struct command *own, struct fence *fence,
                enum action fault) {
    struct batch *b = calloc(1, sizeof *b);
    if (b == NULL)
        fatal("out of memory for a submission");
    b->list = list, b->fence = fence, b->fault = fault;
    if (own != NULL)
        b->own = *own;
    pin_batch(b, 1);
    if (fence != NULL)
        fence->in_flight = true;
    *q->tail = b;
    q->tail = &b->next;
    q->pending++;
    sim_changed();
}

/* A lost device's workers drop what is left at once, so that nothing is in flight any more when the caller
 * hears of it. */
ze_result_t queue_wait(struct queue *q, uint64_t timeout) {
    uint64_t deadline = sim_deadline(timeout);
    while (q->pending != 0)
        if (!sim_wait(deadline))
            return ZE_RESULT_NOT_READY;
    return q->device->lost ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

/* ---- entry points */
ze_result_t ZE_APICALL zeCommandQueueCreate(ze_context_handle_t context, ze_device_handle_t device,
                                            const ze_command_queue_desc_t *desc,
                                            ze_command_queue_handle_t *handle) {
    ENTER(zeCommandQueueCreate);
    GET(struct context, c, KIND_CONTEXT, context);
    GET(struct device, d, KIND_DEVICE, device);
    if (desc == NULL || handle == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return queue_create(c, d, desc, (struct queue **)handle);
}

ze_result_t ZE_APICALL zeCommandQueueDestroy(ze_command_queue_handle_t handle) {
    ENTER(zeCommandQueueDestroy);
    GET(struct queue, q, KIND_QUEUE, handle);
    queue_destroy(q);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t check_list(const struct queue *q, const struct list *l) {
    const char *why = l->immediate != NULL       ? "is immediate"
                      : !l->closed               ? "is not closed"
                      : l->in_flight != 0        ? "is still in flight"
                      : l->device != q->device   ? "belongs to another device"
                      : l->context != q->context ? "belongs to another context"
                      : l->ordinal != q->ordinal ? "was made for another queue ordinal"
                                                 : NULL;
    if (why == NULL)
        return ZE_RESULT_SUCCESS;
    violation("%s executes %s, which %s", objects_name(q), objects_name(l), why);
    return l->in_flight != 0 ? ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

ze_result_t ZE_APICALL zeCommandQueueExecuteCommandLists(ze_command_queue_handle_t queue, uint32_t n,
                                                         ze_command_list_handle_t *lists,
                                                         ze_fence_handle_t fence) {
    enum action fault = ACTION_RETURN;
    ENTER_ACTION(zeCommandQueueExecuteCommandLists, &fault);
    GET(struct queue, q, KIND_QUEUE, queue);
    if (lists == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (n == 0)
        return ZE_RESULT_ERROR_INVALID_SIZE;
    struct fence *f = NULL;
    if (fence != NULL) {
        GET(struct fence, given, KIND_FENCE, fence);
        if (given->queue != q || given->in_flight || given->signalled) {
            violation("%s is given to a submission while it is %s", objects_name(given),
                      given->queue != q  ? "another queue's"
                      : given->in_flight ? "in flight"
                                         : "signalled");
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
        }
        f = given;
    }
    if (q->device->lost)
        return ZE_RESULT_ERROR_DEVICE_LOST;
    for (uint32_t i = 0; i < n; i++) {
        GET(struct list, l, KIND_LIST, lists[i]);
        ze_result_t r = check_list(q, l);
        for (uint32_t j = 0; j < i && r == ZE_RESULT_SUCCESS; j++)
            if (lists[j] == lists[i]) {
                violation("%s is twice in one submission", objects_name(l));
                r = ZE_RESULT_ERROR_INVALID_ARGUMENT;
            }
        if (r != ZE_RESULT_SUCCESS)
            return r;
    }
    for (uint32_t i = 0; i < n; i++)
        queue_push(q, (struct list *)lists[i], NULL, i == n - 1 ? f : NULL, i == 0 ? fault : ACTION_RETURN);
    return q->synchronous ? queue_wait(q, UINT64_MAX) : ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeCommandQueueSynchronize(ze_command_queue_handle_t handle, uint64_t timeout) {
    ENTER(zeCommandQueueSynchronize);
    GET(struct queue, q, KIND_QUEUE, handle);
    return queue_wait(q, timeout);
}
