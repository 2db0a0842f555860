/* The public calls up to start and close: config and model in, a sealed engine out. Requests are in
 * requests.c, texts about the engine in report.c. */
#include "engine/engine.h"

#include "base/clock.h"
#include "engine/arguments.h"
#include "engine/report/audit.h"
#include "engine/run/trace.h"
#include "engine/start/routes.h"
#include "engine/start/run_state.h"
#include "engine/start/thread.h"
#include "os/host_memory.h"
#include "os/pages.h"
#include "plan/parts/edge.h"
#include "plan/planner.h"
#include "plan/planning_beside.h"
#include "plan/planning_open.h"
#include "plan/refusal.h"
#include "plan/shortage.h"
#include "plan/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

uint32_t stator_api_version(void) {
    return STATOR_API_VERSION;
}

static stator_status open_parts(struct stator *s, const stator_options *o, stator_error *e) {
    struct planning *p = &s->planning;
    p->log = &s->log;
    p->beside = s->beside != NULL ? &s->beside->planning : NULL;
    p->engine = (struct planning_engine){sizeof *s, run_state_bytes, s};
    stator_status st = planning_load_config(p, o, e);
    if (st == STATOR_OK)
        st = log_sink_open(&s->sink, &p->config, &s->log, e);
    if (st != STATOR_OK)
        return st;
    if (p->config.models.n > 1)
        s->log.name = p->config.model.name;
    const bool serves = o->serve != 0 || edge_is_server(&p->config);
    p->purpose = serves ? PLAN_TO_SERVE : o->reuse != 0 ? PLAN_TO_CHAT : PLAN_TO_RUN;
    s->run.deadline_ns = planning_deadline_ns(&p->config);
    st = planning_open(p, e);
    /* A model without a tokenizer of ours still runs on token ids. */
    if (st == STATOR_OK && tokenizer_measure(p->gguf, &p->tokenizer_bytes, &s->tokenizer_error) != STATOR_OK)
        p->tokenizer_bytes = 0;
    const uint64_t grammars = serves ? p->config.server.grammars : 0;
    return st == STATOR_OK ? token_trees_measure(s, (uint32_t)ARITH_MAX(grammars, o->grammars), e) : st;
}

/* No element of a list of texts is NULL. */
static stator_status check_list(const char *const *list, size_t n, const char *name, stator_error *e) {
    for (size_t i = 0; i < n; i++)
        if (list == NULL || list[i] == NULL)
            return error_set(e, STATOR_USAGE, "stator_open: options.%s%s is NULL, and options.n_%s %zu", name,
                             list != NULL ? "[]" : "", name, n);
    return STATOR_OK;
}

static stator_status check_options(const stator_options *o, stator_error *e) {
    if (o->config == NULL)
        return error_set(e, STATOR_USAGE,
                         "stator_open: options.config is NULL: the path of a config file or "
                         "of a model is expected");
    stator_status st = check_list(o->set, o->n_set, "set", e);
    if (st == STATOR_OK)
        st = check_list(o->devices, o->n_devices, "devices", e);
    if (st == STATOR_OK && o->beside != NULL && (o->beside->start.start_tried || o->beside->later != NULL))
        st = error_set(e, STATOR_USAGE,
                       "stator_open: the engine of options.beside was started before, or has another one "
                       "beside it: open all, each beside the one before, then start them");
    return st;
}

/* s stands behind `beside` in the row of engines; the process is as it was before the first of them. */
static void stand_beside(struct stator *s, struct stator *beside) {
    if (beside == NULL)
        return;
    s->beside = beside;
    beside->later = s;
    s->report.private_before = beside->report.private_before;
}

/* Out of the row; those behind are planned and sealed already. */
static void step_out(struct stator *s) {
    if (s->beside != NULL)
        s->beside->later = s->later;
    CHECK(s->beside == NULL || s->beside->later == s->later);
    if (s->later != NULL) {
        s->later->beside = s->beside;
        s->later->planning.beside = s->planning.beside;
    }
}

stator_status stator_open(const stator_options *options, stator **out, stator_error *e) {
    ARGUMENTS_NEED(out);
    *out = NULL;
    ARGUMENTS_SIZED(options, config);
    stator_options all;
    ARGUMENTS_READ(&all, options);
    const stator_options *o = &all;
    stator_status st = check_options(o, e);
    if (st != STATOR_OK)
        return st;
    uint64_t before = host_memory_private();
    void *memory = NULL;
    st = pages_map(sizeof(struct stator), "the engine", &memory, e);
    if (st != STATOR_OK)
        return st;
    struct stator *s = memory;
    s->report.private_before = before;
    s->root = "";
    s->log = (struct log){.write = o->log, .context = o->context, .level = STATOR_LOG_INFO};
    s->start.progress = o->progress;
    s->start.context = o->context;
    s->start.traces = o->trace != NULL;
    s->start.only_plans = o->described != 0;
    if (s->start.traces && (size_t)snprintf(s->start.trace_path, sizeof s->start.trace_path, "%s",
                                            o->trace) >= sizeof s->start.trace_path) {
        pages_unmap(s, sizeof *s);
        return error_set(e, STATOR_USAGE, "stator_open: options.trace is longer than a path can be");
    }
    s->start.expects_plan = o->expect_plan != NULL;
    if (s->start.expects_plan)
        snprintf(s->start.expect_plan, sizeof s->start.expect_plan, "%s", o->expect_plan);
    stand_beside(s, o->beside);
    phase_init(&s->phase);
    pthread_mutex_init(&s->front.submit_lock, NULL);
    pthread_mutex_init(&s->front.edge_lock, NULL);
    pthread_mutex_init(&s->run.pictures.lock, NULL);
    pthread_mutex_init(&s->run.pictures.decoding, NULL);
    pthread_mutex_init(&s->front.grammars.lock, NULL);
    st = open_parts(s, o, e);
    if (st != STATOR_OK) {
        stator_close(s);
        return st;
    }
    *out = s;
    return STATOR_OK;
}

stator_status stator_plan(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (s->start.prepare_tried)
        return error_set(e, STATOR_USAGE, "stator_plan: this engine was prepared or started before");
    struct planning *p = &s->planning;
    stator_status st = planning_narrow(p, e);
    if (st == STATOR_OK)
        st = planning_make(p, e);
    if (st != STATOR_OK)
        return st;
    const struct shape *shape = s->planning.shape;
    if (shape->vision_tensors > 0)
        log_write(&s->log, STATOR_LOG_INFO,
                  "%u tensors of a vision tower are skipped: the model runs as text", shape->vision_tensors);
    log_write(&s->log, STATOR_LOG_INFO, "stator %s, plan %s", STATOR_VERSION, s->planning.plan.hash);
    for (uint32_t i = 0; i < s->planning.n_devices && !s->planning.imagined; i++)
        if (s->planning.devices[i].choice.about[0] != '\0')
            log_write(&s->log, STATOR_LOG_INFO, "%s: %s", s->planning.devices[i].facts.name,
                      s->planning.devices[i].choice.about);
    st = s->start.only_plans ? run_state_try_tokenizer(s, e) : STATOR_OK;
    if (st != STATOR_OK)
        return st;
    if (s->planning.plan.fits) {
        spill_log(p);
        return log_sink_result(&s->sink, &s->planning.config, e);
    }
    st = shortage_refuse(p, e);
    planning_beside_explain(p, e);
    struct plan made; /* the search has left the graphs at another size */
    (void)planner_make(p, &p->want, &made, NULL);
    return st;
}

/* Passes progress on until the engine thread says how its start went. */
static stator_status wait_for_start(struct stator *s, stator_error *e) {
    for (;;) {
        struct engine_event ev;
        ring_wait(s->start.events, UINT64_MAX);
        if (!ring_pop(s->start.events, &ev))
            continue;
        if (ev.kind == ENGINE_PROGRESS && s->start.progress != NULL)
            s->start.progress(s->start.context, ev.done, ev.total);
        if (ev.kind == ENGINE_STARTED)
            return STATOR_OK;
        if (ev.kind == ENGINE_START_FAILED) {
            if (e != NULL)
                *e = s->start.start_error;
            return ev.status;
        }
    }
}

static stator_status start_thread(struct stator *s, stator_error *e) {
    CHECK(s->start.prepared && !s->start.thread_runs && s->start.engine_stack != NULL);
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    CHECK(rc == 0);
    /* The lowest page is a guard: what overflows the stack stops there. */
    uint8_t *stack = (uint8_t *)arith_round_up((uintptr_t)s->start.engine_stack, PAGES_SIZE);
    rc = mprotect(stack, PAGES_SIZE, PROT_NONE) == 0 ? 0 : errno;
    if (rc == 0)
        rc = pthread_attr_setstack(&attr, stack + PAGES_SIZE, ENGINE_STACK);
    if (rc == 0)
        rc = pthread_create(&s->start.thread, &attr, thread_main, s);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        return error_set(e, STATOR_FAILED, "the engine's thread can't be started: %s", strerror(rc));
    s->start.thread_runs = true;
    return STATOR_OK;
}

/* What the audit found is an error or a warning, as memory.strict says. */
static stator_status audit_verdict(struct stator *s, const struct audit *a, stator_error *e) {
    char text[AUDIT_TEXT];
    const bool wrong = audit_judge(s, a, text, sizeof text);
    if (text[0] == '\0')
        return STATOR_OK;
    if (wrong && s->planning.config.memory.strict && s->planning.stage == 0) /* rank 0 asks the others */
        return error_set(e, STATOR_DOES_NOT_FIT, "%s; memory.strict is set", text);
    log_write(&s->log, STATOR_LOG_WARN, "%s", text);
    return STATOR_OK;
}

static stator_status open_bell(struct stator *s, stator_error *e) {
    if (s->front.bell.fd > 0)
        return STATOR_OK; /* of a start before this */
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return error_set(e, STATOR_FAILED, "eventfd, for stator_event_fd: %s", strerror(errno));
    if (fd == 0) { /* of a program without standard input: 0 means that there is none */
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 1);
        close(0);
        if (fd < 0)
            return error_set(e, STATOR_FAILED, "eventfd, for stator_event_fd: %s", strerror(errno));
    }
    s->front.bell.fd = fd;
    return STATOR_OK;
}

static stator_status start_once(struct stator *s, stator_error *e) {
    stator_status st = open_bell(s, e);
    if (st == STATOR_OK)
        st = run_state_fill_angles(s, e);
    if (st == STATOR_OK)
        st = start_thread(s, e);
    if (st == STATOR_OK)
        st = wait_for_start(s, e);
    return st;
}

static void join_thread(struct stator *s) {
    if (!s->start.thread_runs)
        return;
    int rc = pthread_join(s->start.thread, NULL);
    CHECK(rc == 0);
    s->start.thread_runs = false;
}

/* Gives back what a start and the run's state took; NULL where there is nothing. */
static void undo_start(struct stator *s) {
    join_thread(s);
    pages_unmap(s->start.staging, s->planning.staging_bytes); /* NULL when it was a device's */
    pages_unmap(s->start.tokenizer_memory, s->planning.tokenizer_bytes);
    pages_unmap(s->start.run, s->start.run_bytes);
    pages_unmap(s->start.kv_buffers, s->planning.kv_disk.bytes);
    pages_unmap(s->start.pictures, s->planning.pictures.bytes);
    s->start.pictures = NULL;
    s->start.staging = s->start.tokenizer_memory = s->start.run = s->start.kv_buffers = NULL;
    s->run.kv_disk.keys = NULL;
    s->tokenizer = NULL;
    s->trace = NULL;
    s->start.prepared = false;
    atomic_store(&s->start.loaded_bytes, 0);
}

static stator_status expect_plan(const struct stator *s, stator_error *e) {
    if (s->start.expects_plan && strcmp(s->start.expect_plan, s->planning.plan.hash) != 0)
        return error_set(
            e, STATOR_DOES_NOT_FIT,
            "the plan's hash is %s, --expect-plan wants %s: the model, the config or the devices differ",
            s->planning.plan.hash, s->start.expect_plan);
    return STATOR_OK;
}

stator_status stator_prepare(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (s->start.prepare_tried)
        return s->start.prepared
                   ? STATOR_OK
                   : error_set(e, STATOR_USAGE, "stator_prepare: it failed before: close the engine");
    stator_status st = planning_need_ranks(&s->planning.config, e);
    if (st != STATOR_OK)
        return st;
    if (s->planning.imagined)
        return error_set(e, STATOR_DEVICE,
                         "stator_start: %s is not here, it was only described; this engine can plan",
                         s->planning.devices[0].facts.name);
    st = s->planning.planned && s->planning.plan.fits ? STATOR_OK : stator_plan(s, e);
    if (st != STATOR_OK)
        return st;
    st = expect_plan(s, e);
    if (st != STATOR_OK)
        return st;
    s->start.prepare_tried = true;
    st = run_state_make(s, e);
    s->start.prepared = st == STATOR_OK;
    return st;
}

stator_status stator_edge_memory(stator *s, void **memory, uint64_t *bytes, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(memory);
    ARGUMENTS_NEED(bytes);
    if (s->start.edge == NULL)
        return error_set(e, STATOR_USAGE,
                         "stator_edge_memory: there is none before stator_prepare, or without options.serve");
    *memory = s->start.edge;
    *bytes = s->planning.edge_bytes;
    return STATOR_OK;
}

/* Of this host. */
static const struct planning_device *first_own(const struct stator *s) {
    const struct planning_device *d = s->planning.devices;
    while (d->facts.remote)
        d++;
    return d;
}

/* A page that is read before it is written is the kernel's page of zeros: in RAM, but not private, so that
 * the process would seem to shrink. */
static void touch(void *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 4096) {
        volatile char *byte = (volatile char *)memory + at;
        *byte = *byte; // cppcheck-suppress selfAssignment
    }
}

stator_status stator_start(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (s->start.start_tried)
        return error_set(e, STATOR_USAGE, "stator_start: this engine was started before");
    s->report.take_note = audit_to_note;
    atomic_store(&s->start.cancel_start, 0); /* what came before this call had nothing to end */
    stator_status st = stator_prepare(s, e);
    if (st == STATOR_OK)
        st = planning_beside_check(&s->planning, e);
    if (st != STATOR_OK)
        return st;
    s->start.start_tried = true;
    stator_error own = {0};
    e = e != NULL ? e : &own;
    st = start_once(s, e);
    /* Over several hosts nobody plans again: the others have this plan too. */
    while (st == STATOR_DOES_NOT_FIT && refusal_pending(&s->planning) && s->planning.config.cluster.n < 2) {
        undo_start(s);
        st = refusal_plan(&s->planning, e);
        if (st == STATOR_OK)
            st = expect_plan(s, e);
        if (st == STATOR_OK)
            st = run_state_make(s, e);
        s->start.prepared = st == STATOR_OK;
        if (st == STATOR_OK)
            st = start_once(s, e);
    }
    if (st != STATOR_OK)
        return st;
    atomic_store(&s->front.started, 1);
    touch(s, sizeof *s);
    for (struct stator *one = s; one != NULL; one = one->beside) /* what this start took is no growth */
        audit_take(one, &one->report.sealed);
    st = audit_verdict(s, &s->report.sealed, e);
    if (st == STATOR_OK && s->planning.config.memory.strict)
        st = stator_audit_ranks(s, e);
    if (st != STATOR_OK)
        return st;
    routes_log(s);
    placement_log(&s->start.placement, &s->log);
    const struct device_choice *first = &first_own(s)->choice;
    log_write(&s->log, STATOR_LOG_INFO, "sealed after %.2f s: %s, %u threads",
              (double)s->start.load_ns * 1e-9, first->tier, first->threads);
    return log_sink_result(&s->sink, &s->planning.config, e);
}

/* Until rank 0 has ended, which a stage above it serves. */
static void await_served(struct stator *s) {
    struct engine_event ev = {.kind = ENGINE_STARTED};
    while (ev.kind != ENGINE_SERVED) {
        ring_wait(s->start.events, UINT64_MAX);
        (void)ring_pop(s->start.events, &ev);
    }
    audit_log(s);
}

stator_status stator_stop(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (s->start.thread_runs && s->planning.stage > 0 && atomic_load(&s->front.started))
        await_served(s);
    if (s->start.thread_runs) {
        atomic_store(&s->front.stop, 1);
        ring_wake(s->front.commands);
    }
    join_thread(s);
    stator_status st = s->planning.stage > 0 && s->run.broken
                           ? error_set(e, s->run.broken_why.code, "%s", s->run.broken_why.text)
                           : trace_result(s, e);
    return st == STATOR_OK ? log_sink_result(&s->sink, &s->planning.config, e) : st;
}

void stator_close(stator *s) {
    if (s == NULL)
        return;
    (void)stator_stop(s, NULL);
    step_out(s);
    undo_start(s);
    if (s->front.bell.fd > 0)
        close(s->front.bell.fd);
    CHECK(!s->start.thread_runs && s->start.run == NULL && s->start.staging == NULL);
    pthread_mutex_destroy(&s->front.submit_lock);
    pthread_mutex_destroy(&s->front.edge_lock);
    pthread_mutex_destroy(&s->run.pictures.lock);
    pthread_mutex_destroy(&s->run.pictures.decoding);
    pthread_mutex_destroy(&s->front.grammars.lock);
    pages_unmap(s->start.edge, s->planning.edge_bytes);
    pages_unmap(s->front.grammars.memory, s->planning.grammars_bytes);
    token_trees_drop(&s->start.trees);
    planning_close(&s->planning);
    log_sink_close(&s->sink);
    pages_unmap(s, sizeof *s);
}
