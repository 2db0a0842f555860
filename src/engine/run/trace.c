#include "engine/run/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BUFFER 65536
#define EVENT  320 /* bytes of one event at most */

struct trace {
    int fd;     /* -1: not open */
    int failed; /* errno of the first write that did */
    uint32_t n; /* bytes in buffer */
    bool comma;
    uint64_t origin_ns; /* of the first event */
    uint32_t max_spans;
    struct device_span *spans;
    char buffer[BUFFER];
};

void trace_lay_out(struct stator *s, struct carve *c) {
    if (!s->start.traces)
        return;
    uint32_t most = 0;
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        most = ARITH_MAX(most, s->planning.devices[i].graph.n_ops);
    struct trace *t = carve_take(c, 1, sizeof *t);
    struct device_span *spans = carve_take(c, most, sizeof *spans);
    s->trace = t;
    if (t == NULL)
        return;
    t->fd = -1;
    t->max_spans = most;
    t->spans = spans;
}

static void flush(struct trace *t) {
    for (uint32_t done = 0; done < t->n && t->failed == 0;) {
        ssize_t n = write(t->fd, t->buffer + done, t->n - done);
        if (n > 0)
            done += (uint32_t)n;
        else if (n == 0 || errno != EINTR)
            t->failed = n == 0 ? EIO : errno;
    }
    t->n = 0;
}

static void put(struct trace *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct trace *t, const char *format, ...) {
    if (t->n + EVENT > BUFFER)
        flush(t);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->buffer + t->n, EVENT, format, args);
    va_end(args);
    CHECK(n > 0 && n < EVENT);
    t->n += (uint32_t)n;
}

stator_status trace_open(struct stator *s, stator_error *e) {
    struct trace *t = s->trace;
    if (t == NULL)
        return STATOR_OK;
    t->fd = open(s->start.trace_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (t->fd < 0)
        return error_set(e, errno == ENAMETOOLONG ? STATOR_USAGE : STATOR_FAILED,
                         "the trace can't be written to %s: %s", s->start.trace_path, strerror(errno));
    put(t, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++) {
        const struct graph_want *w = &s->planning.devices[i].graph.want;
        char share[48] = "";
        if (w->share.count > 0)
            snprintf(share, sizeof share, "share %u of %u of ", w->share.index + 1, w->share.count);
        put(t,
            "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"%s, %slayers %u to "
            "%u\"}}",
            i > 0 ? "," : "", i, s->planning.devices[i].facts.name, share, w->first_layer, w->end_layer - 1);
        put(t,
            ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":0,\"args\":{\"name\":\"steps\"}}",
            i);
        put(t, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":1,\"args\":{\"name\":\"ops\"}}",
            i);
    }
    flush(t); /* a full disk is known before weights are read */
    return trace_result(s, e);
}

void trace_routes(struct stator *s) {
    struct trace *t = s->trace;
    if (t == NULL || t->fd < 0)
        return;
    for (uint32_t i = 0; i < s->planning.n_devices; i++) {
        const char *before = "";
        if (planning_group(&s->planning, i) == 1 || s->planning.devices[i].facts.remote)
            continue;
        put(t, ",\n{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":%u,\"args\":{\"labels\":\"", i);
        const uint32_t last = planning_stage_last(&s->planning, i);
        for (uint32_t k = planning_stage_first(&s->planning, i); k <= last; k++) {
            if (k == i)
                continue;
            put(t, "%s%s to %s", before, s->pairs[i][k].direct ? "direct" : "staged",
                s->planning.devices[k].facts.name);
            before = ", ";
        }
        put(t, "\"}}");
    }
}

static void put_event(struct trace *t, const char *name, uint32_t device, uint32_t thread, uint64_t begin,
                      uint64_t end) {
    if (t->origin_ns == 0)
        t->origin_ns = begin; /* the first step's, which begins before all others */
    uint64_t at = begin > t->origin_ns ? begin - t->origin_ns : 0;
    uint64_t took = end > begin ? end - begin : 0;
    put(t,
        ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64
        ".%03u}",
        name, device, thread, at / 1000, (unsigned)(at % 1000), took / 1000, (unsigned)(took % 1000));
}

/* The spans of the slot of step, in its device; returns how many. */
static uint32_t take_spans(struct stator *s, const struct engine_step *step) {
    struct trace *t = s->trace;
    if (t == NULL || t->fd < 0 || t->failed != 0)
        return 0;
    struct device *device = s->devices[step->at].device;
    uint32_t slot = (uint32_t)(step->number % s->planning.devices[step->at].model.slots);
    return device->vtable->spans(device, slot, t->spans, t->max_spans);
}

static void put_spans(struct stator *s, const struct engine_step *step, const char *what, uint32_t n) {
    struct trace *t = s->trace;
    const struct planning_device *d = &s->planning.devices[step->at];
    char name[64];
    put_event(t, what, step->at, 0, t->spans[0].begin_ns, t->spans[n - 1].end_ns);
    for (uint32_t i = 0; i < n && !d->facts.remote; i++) { /* another host tells of whole steps */
        const struct graph_op *op = &d->graph.ops[t->spans[i].op];
        if (op->layer == GRAPH_NONE)
            snprintf(name, sizeof name, "%s", graph_op_name(op));
        else
            snprintf(name, sizeof name, "blk.%u %s", op->layer, graph_op_name(op));
        put_event(t, name, step->at, 1, t->spans[i].begin_ns, t->spans[i].end_ns);
    }
}

void trace_step(struct stator *s, const struct engine_step *step) {
    const uint32_t n = take_spans(s, step);
    if (n == 0)
        return;
    char name[64];
    const bool tail = s->trace->spans[0].op >= s->planning.devices[step->at].graph.tail;
    snprintf(name, sizeof name, tail ? "step %" PRIu64 ": %u rows" : "step %" PRIu64 ": %u tokens",
             step->number, tail ? step->n_rows : step->n_tokens);
    put_spans(s, step, name, n);
}

void trace_guess(struct stator *s, const struct engine_step *step, uint32_t number,
                 const struct step_header *h, const struct step_pick *picks) {
    const uint32_t n = take_spans(s, step);
    if (n == 0)
        return;
    const struct step_chunk *chunks = (const struct step_chunk *)((const uint8_t *)h + h->at_chunks);
    char name[128];
    int at = snprintf(name, sizeof name, "guess %u:", number);
    for (uint32_t i = 0; i < h->n_chunks && at < (int)sizeof name - 40; i++)
        at += snprintf(name + at, sizeof name - (size_t)at, "%s %" PRId32 " behind %u", i > 0 ? "," : "",
                       picks[i].token, chunks[i].position);
    put_spans(s, step, name, n);
}

void trace_close(struct stator *s) {
    struct trace *t = s->trace;
    if (t == NULL || t->fd < 0)
        return;
    put(t, "\n]}\n");
    flush(t);
    if (close(t->fd) != 0 && t->failed == 0)
        t->failed = errno;
    t->fd = -1;
}

stator_status trace_result(const struct stator *s, stator_error *e) {
    if (s->trace == NULL || s->trace->failed == 0)
        return STATOR_OK;
    return error_set(e, STATOR_FAILED, "the trace in %s is not whole: %s", s->start.trace_path,
                     strerror(s->trace->failed));
}
