#include "engine/start/thread.h"

#include "base/clock.h"
#include "device/cluster.h"
#include "engine/run/loop.h"
#include "engine/start/enforce.h"
#include "engine/start/kv_open.h"
#include "engine/start/start.h"
#include "plan/planned_route.h"

#include <time.h>

/* Of the start: who called stator_start reads it. */
static void emit(struct stator *s, const struct engine_event *ev) {
    while (!ring_push(s->start.events, ev) &&
           atomic_load_explicit(&s->front.stop, memory_order_acquire) == 0) {
        struct timespec pause = {.tv_nsec = 100000};
        nanosleep(&pause, NULL);
    }
}

/* The audit, for rank 0. */
static void take_note(void *context, struct device_note *out) {
    const struct stator *s = context;
    s->report.take_note(s, out);
}

stator_status thread_serve(struct stator *s, stator_error *e) {
    struct device_stage stages[DEVICE_MAX] = {0};
    const struct device_notes notes = {take_note, s};
    struct device_serving serving = {.stages = stages,
                                     .first = DEVICE_MAX,
                                     .all = s->planning.n_devices,
                                     .deadline_ns = s->run.deadline_ns,
                                     .notes = &notes,
                                     .memory = s->serve_memory,
                                     .bytes = s->serve_bytes};
    for (uint32_t i = 0; i < s->planning.n_devices; i++) {
        struct engine_device *d = &s->devices[i];
        if (d->device == NULL)
            continue;
        stages[i] = (struct device_stage){d->device, &s->planning.devices[i].model, &d->in, &d->out};
        serving.first = ARITH_MIN(serving.first, i);
        serving.end = i + 1;
    }
    serving.together = planning_group(&s->planning, serving.first) > 1;
    return device_cluster_serve(&serving, e);
}

/* A host of a stage above 0. */
static void serve_stage(struct stator *s) {
    s->run.broken = thread_serve(s, &s->run.broken_why) != STATOR_OK;
    struct engine_event ev = {.kind = ENGINE_SERVED};
    emit(s, &ev);
    while (atomic_load_explicit(&s->front.stop, memory_order_acquire) == 0)
        ring_wait(s->front.commands, UINT64_MAX); /* stator_stop audits what is there */
}

/* The ways to the stages before and behind this one. */
static stator_status probe_boundaries(struct stator *s, stator_error *e) {
    const struct device_link *in = NULL, *out = NULL;
    const struct planning *p = &s->planning;
    uint32_t last = 0;
    uint64_t bytes = (uint64_t)p->want.batch * p->devices[0].graph.width * sizeof(float);
    for (uint32_t i = 0; i < p->n_devices; i++) {
        if (p->devices[i].facts.remote)
            continue;
        if (i > 0 && planned_route_crosses(p, i - 1))
            in = &s->devices[i].in;
        if (planned_route_crosses(p, i))
            out = &s->devices[i].out;
        last = i;
    }
    return device_cluster_probe(in, out, bytes, p->config.transfer.verify, s->run.deadline_ns,
                                &s->devices[last].route, e);
}

void *thread_main(void *context) {
    struct stator *s = context;
    uint64_t began = clock_ns();
    phase_thread_set(&s->phase, PHASE_THREAD_ENGINE);
    stator_status st = start_devices(s, &s->start.start_error);
    stator_error lost;
    stator_status others = device_cluster_ready(st, &s->start.start_error, &lost);
    if (others != STATOR_OK) {
        s->start.start_error = lost;
        st = others;
    }
    if (st == STATOR_OK && s->planning.config.cluster.n > 1)
        st = probe_boundaries(s, &s->start.start_error);
    if (st == STATOR_OK)
        st = kv_open(s, &s->start.start_error);
    struct engine_event ev = {.kind = st == STATOR_OK ? ENGINE_STARTED : ENGINE_START_FAILED, .status = st};
    if (st == STATOR_OK) {
        s->start.load_ns = clock_ns() - began;
        phase_advance(&s->phase, PHASE_SEALED);
        emit(s, &ev);
        if (s->planning.stage > 0)
            serve_stage(s);
        else
            loop_run(s);
        phase_advance(&s->phase, PHASE_SHUTDOWN);
        if (!s->run.broken)
            (void)enforce_check(s); /* it has logged */
    } else {
        emit(s, &ev);
    }
    kv_jobs_stop(&s->run.kv_disk.jobs);
    start_close_devices(s);
    return NULL;
}
