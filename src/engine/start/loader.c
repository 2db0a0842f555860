/* Loading: every weight is read through the load window, repacked into its panels and dropped
 * from the page cache. All host threads of the device share the work, each in its own part of the window.
 *
 * Where the host can touch a slice, panels are packed straight into it. Else a part of the window has room
 * for what was read and twice for what was packed: while one packed half is copied to the device, the next
 * job is read and packed into the other.
 *
 * Invariants: a job is a run of panels of one weight; jobs are dealt out in turn, so every panel is written
 * once. A packed half is written only after an upload_wait that followed its upload. */
#include "engine/start/loader.h"

#include "device/cluster.h"
#include "plan/parts/load_window.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

struct loading {
    struct stator *s;
    struct device *device;
    const struct gguf *gguf;
    const struct graph *graph;
    bool mapped;
    uint32_t members;       /* that have a part of the window */
    uint64_t region;        /* bytes; a part is one of them, or (not mapped) three: read, and packed twice */
    pthread_mutex_t upload; /* one thread at a time calls the device */
    _Atomic int failed;
    stator_error error; /* of the first that failed */
};

static void fail(struct loading *l, const stator_error *e) {
    int expected = 0;
    if (atomic_compare_exchange_strong(&l->failed, &expected, 1))
        l->error = *e;
}

static bool read_all(struct loading *l, const struct gguf_tensor *t, uint64_t from, uint64_t n,
                     uint8_t *out) {
    const struct gguf *g = l->gguf;
    stator_error e;
    if (gguf_load(g, t, from, n, out, &e) != STATOR_OK) {
        fail(l, &e);
        return false;
    }
    gguf_uncache(g, t, from, n);
    return true;
}

static const struct graph_piece *piece_of(const struct graph_weight *w, uint32_t panel) {
    const struct graph_piece *p = w->pieces;
    while (w->packed && panel >= p->first_panel + p->panels)
        p++;
    CHECK(p < w->pieces + w->n_pieces);
    return p;
}

static uint8_t *destination(struct device *d, const struct graph_weight *w, uint32_t panel) {
    const struct graph_piece *p = piece_of(w, panel);
    uint8_t *slice = d->vtable->map(d, DEVICE_WEIGHTS, p->slice);
    CHECK(slice != NULL);
    return slice + p->offset + (uint64_t)(panel - p->first_panel) * load_window_packed_panel(w);
}

/* A run of panels of one matrix of a weight (or a plain weight, as its one panel), and a member's part of the
 * window. */
struct job {
    const struct graph_weight *w;
    uint32_t first;
    uint32_t n;
    uint8_t *window;
    uint32_t half; /* not mapped: of the packed ones, whose turn it is */
};

static bool all_finite(struct loading *l, const struct gguf_tensor *t, const uint8_t *bytes) {
    char shown[GGUF_SHOWN];
    stator_error e;
    for (uint64_t i = 0; i < t->bytes / sizeof(float); i++) {
        float x;
        memcpy(&x, bytes + i * sizeof x, sizeof x);
        if (isfinite(x))
            continue;
        gguf_error(l->gguf, &e, "tensor '%s' has %g at place %" PRIu64 ", expected a finite number",
                   gguf_show(t->name, shown), (double)x, i);
        fail(l, &e);
        return false;
    }
    return true;
}

/* Values as they lie in the file: all, or a part of each row, with zeros beyond the row. What is behind them
 * in the slice stays zero. */
static bool read_plain(struct loading *l, const struct graph_weight *w, uint8_t *to) {
    const uint64_t row = w->tensor->ne[0] * sizeof(float), part = w->runs.run * sizeof(float);
    if (w->runs.run == 0)
        return read_all(l, w->tensor, 0, w->tensor->bytes, to);
    const uint64_t first = w->runs.first * sizeof(float), there = ARITH_MIN(part, row - first);
    for (uint64_t r = 0; r < w->tensor->ne[1]; r++) {
        if (!read_all(l, w->tensor, r * row + first, there, to + r * part))
            return false;
        memset(to + r * part + there, 0, part - there);
    }
    return true;
}

/* Reads into `window`, and packs panel by panel to where `to` says; NULL: into the slice. */
static bool read_and_pack(struct loading *l, const struct job *j, uint8_t *to) {
    CHECK(j->n > 0 && j->first + j->n <= graph_weight_panels(j->w));
    const struct graph_weight *w = j->w;
    if (!w->packed) {
        to = to != NULL ? to : destination(l->device, w, 0);
        return read_plain(l, w, to) && (!w->factor || all_finite(l, w->tensor, to));
    }
    uint64_t panel_bytes = load_window_file_panel(w);
    uint64_t row_bytes = panel_bytes / PANEL_ROWS;
    uint64_t matrix = j->first / w->layout.panels;
    uint32_t first = j->first % w->layout.panels;
    uint32_t rows = ARITH_MIN(j->n * PANEL_ROWS, w->layout.rows - first * PANEL_ROWS);
    uint64_t together = 0;
    uint64_t from =
        (matrix * w->tensor->ne[1] + graph_weight_row(w, (uint64_t)first * PANEL_ROWS, &together)) *
        row_bytes;
    CHECK(rows <= together);
    if (!read_all(l, w->tensor, from, rows * row_bytes, j->window))
        return false;
    for (uint32_t p = 0; p < j->n; p++) {
        uint32_t here = ARITH_MIN(rows - p * PANEL_ROWS, (uint32_t)PANEL_ROWS);
        panel_pack(&w->layout, j->window + p * panel_bytes, here,
                   to != NULL ? to + p * w->layout.panel_bytes : destination(l->device, w, j->first + p));
    }
    return true;
}

/* Sends the packed panels, piece by piece, after what was sent before has arrived. */
static bool upload(struct loading *l, const struct job *j, const uint8_t *from) {
    const struct device_vtable *v = l->device->vtable;
    stator_error e;
    pthread_mutex_lock(&l->upload);
    stator_status st = v->upload_wait(l->device, &e);
    for (uint32_t p = 0; p < j->n && st == STATOR_OK;) {
        const struct graph_piece *piece = piece_of(j->w, j->first + p);
        uint32_t here = j->w->packed ? piece->first_panel + piece->panels - (j->first + p) : 1;
        here = ARITH_MIN(here, j->n - p);
        uint64_t bytes = load_window_packed_panel(j->w);
        st = v->upload(l->device, DEVICE_WEIGHTS, piece->slice,
                       piece->offset + (j->first + p - piece->first_panel) * bytes, from + p * bytes,
                       here * bytes, &e);
        p += here;
    }
    pthread_mutex_unlock(&l->upload);
    if (st != STATOR_OK)
        fail(l, &e);
    return st == STATOR_OK;
}

static bool load_job(struct loading *l, struct job *j) {
    if (l->mapped)
        return read_and_pack(l, j, NULL);
    uint8_t *to = j->window + (1 + j->half) * l->region;
    if (!j->w->packed)
        memset(to, 0, j->w->bytes);
    if (!read_and_pack(l, j, to))
        return false;
    j->half ^= 1;
    return upload(l, j, to);
}

static void report_progress(struct stator *s, uint64_t done) {
    uint64_t total = s->planning.shape->tensor_bytes;
    if (s->planning.shape->ngram_table != NULL) /* it is not loaded: ngram_rows.h */
        total -= s->planning.shape->ngram_table->bytes;
    for (uint32_t i = s->planning.n_devices; i < planning_parts(&s->planning); i++)
        total += planning_shape(&s->planning, i)->tensor_bytes;
    struct engine_event ev = {.kind = ENGINE_PROGRESS, .done = ARITH_MIN(done, total), .total = total};
    (void)ring_push(s->start.events, &ev); /* a lost one is no harm */
}

static bool stopped(const struct stator *s) {
    return atomic_load_explicit(&s->front.stop, memory_order_relaxed) ||
           atomic_load_explicit(&s->start.cancel_start, memory_order_relaxed) || device_cluster_lost();
}

static void load_member(void *context, uint32_t member, uint32_t n_members) {
    struct loading *l = context;
    uint32_t members = ARITH_MIN(l->members, n_members);
    if (member >= members)
        return;
    struct stator *s = l->s;
    struct job j = {.window =
                        (uint8_t *)s->start.staging + member * load_window_regions(l->mapped) * l->region};
    uint64_t number = 0;
    for (uint32_t i = 0; i < l->graph->n_weights; i++) {
        j.w = &l->graph->weights[i];
        uint32_t panels = graph_weight_panels(j.w);
        uint32_t of_matrix = panels / j.w->matrices;
        if (j.w->runs.run > 0 && j.w->runs.run < j.w->layout.rows)
            of_matrix = j.w->runs.run / PANEL_ROWS;
        uint32_t step = (uint32_t)ARITH_MIN(ARITH_MAX(l->region / load_window_region(j.w, l->mapped), 1u),
                                            (uint64_t)panels);
        for (uint32_t p = 0, n = 0; p < panels; p += n, number++) {
            n = ARITH_MIN(step, of_matrix - p % of_matrix);
            if (number % members != member)
                continue;
            if (atomic_load_explicit(&l->failed, memory_order_relaxed) || stopped(s))
                return;
            j.first = p;
            j.n = n;
            if (!load_job(l, &j))
                return;
            uint64_t bytes = j.w->packed ? j.n * load_window_file_panel(j.w) : graph_weight_file_bytes(j.w);
            uint64_t done = atomic_fetch_add(&s->start.loaded_bytes, bytes) + bytes;
            if (member == 0) /* the engine thread is the ring's producer */
                report_progress(s, done);
        }
    }
}

stator_status loader_run(struct stator *s, uint32_t device, stator_error *e) {
    const struct planning_device *p = &s->planning.devices[device];
    struct device *d = s->devices[device].device;
    struct loading l = {.s = s, .device = d, .graph = &p->graph};
    l.gguf = planning_gguf(&s->planning, device);
    l.mapped = d->vtable->map(d, DEVICE_WEIGHTS, 0) != NULL;
    uint64_t least = arith_round_up(load_window_least(&p->graph, l.mapped), CARVE_ALIGN);
    CHECK(least > 0 && s->planning.load_window >= least); /* the planner has refused less */
    l.members =
        (uint32_t)ARITH_MAX(ARITH_MIN((uint64_t)p->choice.threads, s->planning.load_window / least), 1u);
    l.region =
        s->planning.load_window / l.members / load_window_regions(l.mapped) / CARVE_ALIGN * CARVE_ALIGN;
    pthread_mutex_init(&l.upload, NULL);
    d->vtable->parallel(d, load_member, &l);
    pthread_mutex_destroy(&l.upload);
    if (!l.mapped && !atomic_load(&l.failed)) {
        stator_error why;
        if (d->vtable->upload_wait(d, &why) != STATOR_OK)
            fail(&l, &why);
    }
    if (atomic_load(&l.failed)) {
        if (e != NULL)
            *e = l.error;
        return l.error.code;
    }
    if (stopped(s))
        return error_set(e, STATOR_FAILED, "stopped while loading");
    return STATOR_OK;
}
