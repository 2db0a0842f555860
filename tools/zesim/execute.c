/* Executing commands, on a queue's worker thread and without the lock.
 *
 * What the API leaves unordered may run in any order: between barriers, waits and other commands that keep
 * their place, copies, fills and kernels run in the order that the key `order` sets, so that a missing
 * barrier shows.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *place(const struct allocation *a) {
    return a == NULL                          ? "system"
           : a->type == ZE_MEMORY_TYPE_HOST   ? "host"
           : a->type == ZE_MEMORY_TYPE_SHARED ? "shared"
                                              : device_name(a->owner);
}

/* ---- copies */
static void copy_bytes(const struct command *c) {
    if (c->to.depth == 0) {
        memmove(c->target, c->source, c->size);
        return;
    }
    for (uint32_t z = 0; z < c->to.depth; z++)
        for (uint32_t y = 0; y < c->to.height; y++)
            memmove((char *)c->target + (size_t)(c->to.originZ + z) * c->to_slice +
                        (size_t)(c->to.originY + y) * c->to_pitch + c->to.originX,
                    (const char *)c->source + (size_t)(c->from.originZ + z) * c->from_slice +
                        (size_t)(c->from.originY + y) * c->from_pitch + c->from.originX,
                    c->to.width);
}

/* How d reaches an allocation, or NULL where no peer is involved. */
static const struct peer *route(const struct device *d, const struct allocation *a) {
    if (a == NULL || a->type != ZE_MEMORY_TYPE_DEVICE || a->owner == d)
        return NULL;
    return &d->peer[a->owner->index];
}

static void delay(const struct peer *p, uint64_t bytes) {
    if (p != NULL && p->kind == PEER_SLOW)
        usleep((useconds_t)(bytes * 1000000u / p->rate));
}

static void delay_host(const struct device *d, const struct allocation *a, uint64_t bytes) {
    if (d->host_rate != 0 && (a == NULL || a->type == ZE_MEMORY_TYPE_HOST))
        usleep((useconds_t)(bytes * 1000000u / d->host_rate));
}

static bool fails(const struct peer *p, uint64_t bytes, bool reads) {
    return p != NULL && ((p->kind == PEER_FAIL && bytes >= p->from) || (p->kind == PEER_PUSH && reads));
}

static bool corrupts(const struct peer *p, uint64_t bytes) {
    return p != NULL && p->kind == PEER_CORRUPT && bytes >= p->from && bytes != 0;
}

/* ---- kernels */
static bool buffers_live(const struct device *d, const struct launch *l) {
    for (uint32_t i = 0; i < l->kernel->code->n_args; i++) {
        if (l->kernel->code->args[i].kind != CODE_BUFFER)
            continue;
        void *p;
        struct allocation *a;
        memcpy(&p, l->values + (size_t)i * MODULE_ARG_SLOT, sizeof p);
        if (p != NULL && !memory_check(d, p, 1, "a kernel's argument", &a))
            return false;
    }
    if (l->kernel->object.dead || l->kernel->module->object.dead) {
        violation("%s executes kernel %s, which was destroyed", device_name(d), l->kernel->code->name);
        return false;
    }
    return true;
}

static bool run_kernel(const struct device *d, const struct launch *l) {
    struct launch now = *l;
    if (l->indirect_count != NULL && l->indirect_index >= *l->indirect_count)
        return true;
    if (l->indirect != NULL)
        now.groups = *l->indirect;
    return fibers_run(&now, (uint32_t)d->sub_group);
}

static void query_times(const struct command *c) {
    for (uint32_t i = 0; i < c->n_queried; i++) {
        ze_kernel_timestamp_result_t t = event_timestamps(c->queried[i]);
        memcpy((char *)c->target + (c->offsets != NULL ? c->offsets[i] : i * sizeof t), &t, sizeof t);
    }
}

/* ---- one command that moves data */
static bool obey_faults(struct queue *q, const struct command *c) {
    enum action fault = ACTION_RETURN;
    int call = c->op == OP_COPY ? CALL_exec_copy : c->op == OP_FILL ? CALL_exec_fill : CALL_exec_kernel;
    if (c->op == OP_COPY || c->op == OP_FILL || c->op == OP_KERNEL)
        calls_enter(call, &fault);
    while (fault == ACTION_HANG && !q->stop && !q->device->lost)
        sim_wait(UINT64_MAX);
    return fault == ACTION_RETURN;
}

static bool prepare(const struct device *d, const struct command *c, struct allocation **target,
                    struct allocation **source) {
    size_t extent = c->to.depth != 0 ? 1 : c->size;
    if (!memory_check(d, c->target, extent, "the target", target) ||
        !memory_check(d, c->source, c->op == OP_COPY ? extent : 0, "the source", source))
        return false;
    if (c->op == OP_KERNEL) {
        count_formatted(1, "kernel.%s.launches", c->launch.kernel->code->name);
        return buffers_live(d, &c->launch);
    }
    if (c->op != OP_COPY)
        return true;
    count_formatted(1, "copy.%s>%s.count", place(*source), place(*target));
    count_formatted(c->size, "copy.%s>%s.bytes", place(*source), place(*target));
    return !fails(route(d, *target), c->size, false) && !fails(route(d, *source), c->size, true);
}

static bool move(const struct device *d, const struct command *c) {
    switch (c->op) {
    case OP_COPY:
        copy_bytes(c);
        return true;
    case OP_FILL:
        for (size_t i = 0; i < c->size; i += c->pattern_size) {
            size_t rest = c->size - i;
            memcpy((char *)c->target + i, c->pattern, rest < c->pattern_size ? rest : c->pattern_size);
        }
        return true;
    case OP_KERNEL:
        return run_kernel(d, &c->launch);
    case OP_WRITE_TIME:
        memcpy(c->target, &(uint64_t){device_ticks(d, sim_now())}, sizeof(uint64_t));
        return true;
    case OP_QUERY_TIMES:
        query_times(c);
        return true;
    default:
        return true;
    }
}

static bool moves_data(const struct command *c) {
    return c->op != OP_BARRIER && c->op != OP_RESET && c->op != OP_NONE;
}

static void open_ends(const struct command *c, const struct allocation *target,
                      const struct allocation *source, bool open) {
    memory_range(target, c->target, c->size, open);
    memory_range(source, c->source, c->op == OP_COPY ? c->size : 0, open);
}

static bool run_data(struct queue *q, const struct command *c) {
    char doing[160];
    struct allocation *target = NULL, *source = NULL;
    struct device *d = q->device;
    snprintf(doing, sizeof doing, "%s%s",
             c->op == OP_COPY   ? "in a copy"
             : c->op == OP_FILL ? "in a fill"
                                : "in kernel ",
             c->op == OP_KERNEL ? c->launch.kernel->code->name : "");
    sim_lock();
    bool done = obey_faults(q, c);
    sim_unlock();
    if (!done)
        return false;
    pthread_mutex_lock(&sim.execute_token);
    sim_lock();
    done = prepare(d, c, &target, &source);
    sim.executing = done;
    const bool ends = done && (c->op == OP_FILL || (c->op == OP_COPY && c->to.depth == 0)) &&
                      memory_reaches(d, target) && memory_reaches(d, source);
    if (ends)
        open_ends(c, target, source, true);
    else if (done)
        memory_open(d);
    sim_unlock();
    const struct peer *out = c->op == OP_COPY ? route(d, target) : NULL;
    const struct peer *in = c->op == OP_COPY ? route(d, source) : NULL;
    if (done) {
        memory_executing = d, memory_doing = doing;
        done = move(d, c);
        if (corrupts(out, c->size) || corrupts(in, c->size))
            ((unsigned char *)c->target)[c->size / 2] ^= 0x5A;
        memory_executing = NULL, memory_doing = NULL;
    }
    sim_lock();
    if (ends)
        open_ends(c, target, source, false);
    sim.executing = false;
    sim_unlock();
    pthread_mutex_unlock(&sim.execute_token);
    delay(out, c->size);
    delay(in, c->size);
    if (c->op == OP_COPY) {
        delay_host(d, target, c->size);
        delay_host(d, source, c->size);
    }
    return done;
}

/* ---- any command */
static bool wait_for(struct queue *q, const struct command *c) {
    for (uint32_t i = 0; i < c->n_waits; i++) {
        if (c->waits[i]->object.dead) {
            violation("%s waits on %s, which was destroyed", device_name(q->device),
                      objects_name(c->waits[i]));
            return false;
        }
        while (!c->waits[i]->signalled && !q->stop && !q->device->lost) {
            if (!sim.executing)
                memory_close();
            sim_wait(UINT64_MAX);
        }
    }
    return !q->stop && !q->device->lost;
}

/* last: where the signal is kept instead of being given; NULL: it is given. */
static bool run_one(struct queue *q, const struct command *c, struct ending *last) {
    sim_lock();
    bool done = wait_for(q, c);
    if (done && c->signal != NULL && c->signal->object.dead) {
        violation("%s signals or resets %s, which was destroyed", device_name(q->device),
                  objects_name(c->signal));
        done = false;
    }
    sim_unlock();
    uint64_t start = sim_now();
    done = done && (!moves_data(c) || run_data(q, c));
    sim_lock();
    if (!done && !q->stop) {
        q->device->lost = true;
        sim_changed();
    }
    if (done && c->op == OP_RESET)
        c->signal->signalled = false;
    else if (done && c->signal != NULL) {
        uint64_t end = sim_now(), tick = 1000000000u / q->device->timer_hz + 1;
        struct ending signal = {c->signal, start, end < start + tick ? start + tick : end};
        if (last != NULL)
            *last = signal;
        else
            event_signal(signal.event, q->device, signal.start, signal.end);
    }
    sim_unlock();
    return done;
}

static bool unordered(const struct command *c) {
    return (c->op == OP_COPY || c->op == OP_FILL || c->op == OP_KERNEL) && c->n_waits == 0;
}

bool execute_commands(struct queue *q, struct command *c, size_t n, struct ending *last) {
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (unordered(&c[i]) && end < n && unordered(&c[end]))
            end++;
        for (size_t j = 0; j < end - i; j++)
            if (!run_one(q, &c[i + fibers_order(j, end - i)], i + j + 1 == n ? last : NULL))
                return false;
        i = end;
    }
    return true;
}
