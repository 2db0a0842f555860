/* Loading: every weight is read with pread through the staging window, repacked into its panels and dropped
 * from the page cache. All host threads of the device share the work, each in its own part of the window.
 *
 * Invariants: a job is a run of panels of one weight; jobs are dealt out in turn, so every panel is written
 * once. */
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct loading {
    struct stator *s;
    uint32_t members; /* that have a part of the window */
    uint64_t window;  /* bytes of one part */
    _Atomic int failed;
    stator_error error; /* of the first that failed */
};

static uint64_t file_panel_bytes(const struct graph_weight *w) {
    uint64_t row = 0;
    bool ok = block_row_bytes(w->tensor->type, w->tensor->ne[0], &row);
    CHECK(ok);
    return w->packed ? row * PANEL_ROWS : row;
}

uint64_t loader_least_staging(const struct graph *g) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->n_weights; i++)
        most = ARITH_MAX(most, file_panel_bytes(&g->weights[i]));
    return most;
}

static void fail(struct loading *l, const stator_error *e) {
    int expected = 0;
    if (atomic_compare_exchange_strong(&l->failed, &expected, 1))
        l->error = *e;
}

static bool read_all(struct loading *l, const struct gguf_tensor *t, uint64_t from, uint64_t n,
                     uint8_t *out) {
    const struct gguf *g = l->s->gguf;
    stator_error e;
    int fd = gguf_fd(g, t->shard);
    for (uint64_t done = 0; done < n;) {
        ssize_t got = pread(fd, out + done, n - done, (off_t)(t->offset + from + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            if (got < 0)
                error_set(&e, STATOR_FAILED, "%s: tensor '%.*s': reading at byte %" PRIu64 " failed: %s",
                          gguf_path(g, t->shard), (int)t->name.length, t->name.data, t->offset + from + done,
                          strerror(errno));
            else
                error_set(&e, STATOR_BAD_MODEL,
                          "%s: tensor '%.*s': the file ends at byte %" PRIu64 "; it shrank while it was open",
                          gguf_path(g, t->shard), (int)t->name.length, t->name.data, t->offset + from + done);
            fail(l, &e);
            return false;
        }
        done += (uint64_t)got;
    }
    posix_fadvise(fd, (off_t)(t->offset + from), (off_t)n, POSIX_FADV_DONTNEED);
    return true;
}

static uint8_t *destination(struct device *d, const struct graph_weight *w, uint32_t panel) {
    const struct graph_piece *p = w->pieces;
    while (panel >= p->first_panel + p->panels)
        p++;
    CHECK(p < w->pieces + w->n_pieces);
    uint8_t *slice = d->vtable->map(d, DEVICE_WEIGHTS, p->slice);
    CHECK(slice != NULL);
    return slice + p->offset + (uint64_t)(panel - p->first_panel) * w->layout.panel_bytes;
}

static bool load_panels(struct loading *l, const struct graph_weight *w, uint32_t first, uint32_t n,
                        uint8_t *window) {
    uint64_t panel_bytes = file_panel_bytes(w);
    uint64_t row_bytes = panel_bytes / PANEL_ROWS;
    uint32_t rows = ARITH_MIN(n * PANEL_ROWS, w->layout.rows - first * PANEL_ROWS);
    if (!read_all(l, w->tensor, first * panel_bytes, rows * row_bytes, window))
        return false;
    for (uint32_t p = 0; p < n; p++) {
        uint32_t here = ARITH_MIN(rows - p * PANEL_ROWS, (uint32_t)PANEL_ROWS);
        panel_pack(&w->layout, window + p * panel_bytes, here, destination(l->s->device, w, first + p));
    }
    return true;
}

static bool load_plain(struct loading *l, const struct graph_weight *w) {
    struct device *d = l->s->device;
    uint8_t *slice = d->vtable->map(d, DEVICE_WEIGHTS, w->pieces[0].slice);
    CHECK(slice != NULL && w->n_pieces == 1);
    return read_all(l, w->tensor, 0, w->tensor->bytes, slice + w->pieces[0].offset);
}

static void report_progress(struct stator *s, uint64_t done) {
    struct engine_event ev = {.kind = ENGINE_PROGRESS, .a = done, .b = s->shape->tensor_bytes};
    (void)ring_push(s->events, &ev); /* a lost one is no harm */
}

static bool stopped(const struct stator *s) {
    return atomic_load_explicit(&s->stop, memory_order_relaxed) ||
           atomic_load_explicit(&s->cancel_start, memory_order_relaxed);
}

static void load_member(void *context, uint32_t member, uint32_t n) {
    struct loading *l = context;
    (void)n;
    if (member >= l->members)
        return;
    struct stator *s = l->s;
    uint8_t *window = (uint8_t *)s->staging + member * l->window;
    uint64_t job = 0;
    for (uint32_t i = 0; i < s->graph.n_weights; i++) {
        const struct graph_weight *w = &s->graph.weights[i];
        uint32_t panels = w->packed ? w->layout.panels : 1;
        uint32_t step = (uint32_t)ARITH_MIN(ARITH_MAX(l->window / file_panel_bytes(w), 1u), (uint64_t)panels);
        for (uint32_t p = 0; p < panels; p += step, job++) {
            if (job % l->members != member)
                continue;
            if (atomic_load_explicit(&l->failed, memory_order_relaxed) || stopped(s))
                return;
            uint32_t here = ARITH_MIN(step, panels - p);
            if (!(w->packed ? load_panels(l, w, p, here, window) : load_plain(l, w)))
                return;
            uint64_t bytes = w->packed ? here * file_panel_bytes(w) : w->tensor->bytes;
            uint64_t done = atomic_fetch_add(&s->loaded_bytes, bytes) + bytes;
            if (member == 0) /* the engine thread is the ring's producer */
                report_progress(s, ARITH_MIN(done, s->shape->tensor_bytes));
        }
    }
}

stator_status loader_run(struct stator *s, stator_error *e) {
    struct device *d = s->device;
    uint32_t threads = s->choice.threads;
    uint64_t least = loader_least_staging(&s->graph);
    CHECK(least > 0 && s->staging_bytes >= least); /* the planner has refused less */
    struct loading l = {.s = s};
    l.members = (uint32_t)ARITH_MIN((uint64_t)threads, s->staging_bytes / least);
    l.window = s->staging_bytes / l.members / CARVE_ALIGN * CARVE_ALIGN;
    d->vtable->parallel(d, load_member, &l);
    if (atomic_load(&l.failed)) {
        if (e != NULL)
            *e = l.error;
        return l.error.code;
    }
    if (stopped(s))
        return error_set(e, STATOR_FAILED, "stopped while loading");
    return STATOR_OK;
}
