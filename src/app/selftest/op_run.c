#include "app/selftest/op_run.h"

#include "app/selftest/random_weights.h"
#include "base/clock.h"
#include "kernels/kernels.h"
#include "plan/parts/slices.h"
#include "plan/parts/step_layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT     512 /* of comparisons */
#define SLICE_LIMIT ((uint64_t)1 << 30)
#define MAX_TIMES   4096

/* Lengths of the steps of a comparison: all kinds of launches. Ops with a cache have the last four as well,
 * and so more than one split of attention, also side by side. */
static const uint32_t lengths[] = {1, 4, 7, 33, 70, OP_CASES_BATCH, 60, 4, 1};
#define LENGTHS       (sizeof lengths / sizeof lengths[0])
#define SHORT_LENGTHS (LENGTHS - 4)

struct run {
    struct op_graph *b;
    uint32_t context;
    struct device_model model;
    struct phase phase;
    uint64_t slices[GRAPH_MAX_SLICES];
    uint64_t random;
    void *tables, *device_memory, *staging;
    bool staging_is_ours;
    struct device *device;
};

static stator_status no_memory(stator_error *e) {
    return error_set(e, STATOR_FAILED, "selftest: no memory for an op's case");
}

static void *take_memory(uint64_t bytes) {
    const uint64_t size = arith_round_up(ARITH_MAX(bytes, (uint64_t)1), 4096);
    void *p = aligned_alloc(4096, size);
    if (p != NULL)
        memset(p, 0, size);
    return p;
}

/* --- the graph and its places */

static stator_status build_graph(struct run *r, const struct device_facts *f, stator_error *e) {
    static const struct graph_bounds bounds = {.ops = 24, .values = 24, .weights = 24};
    struct op_graph *b = r->b;
    b->shape.n_layers = 1;
    b->shape.n_embd = b->shape.n_ff = b->shape.vocab = 1u << 16; /* wider than any value */
    struct carve count = carve_count();
    graph_layout(&b->graph, &count, &b->shape, &bounds, 1, 0);
    r->tables = take_memory(count.used);
    if (r->tables == NULL)
        return no_memory(e);
    struct carve c = carve_in(r->tables, count.used);
    graph_layout(&b->graph, &c, &b->shape, &bounds, 1, 0);
    r->model.slots = f->host_memory ? 1 : 2;
    const struct graph_want want = {.batch = OP_CASES_BATCH,
                                    .logits_rows = OP_CASES_BATCH,
                                    .result_halves = f->host_memory ? r->model.slots : 1,
                                    .cells = device_cells(f, r->context, 1, 0, OP_CASES_BATCH),
                                    .counted = !f->host_memory,
                                    .context = r->context,
                                    .tiled = f->host_memory,
                                    .experts_apart = !f->host_memory};
    return graph_build(&b->graph, &b->shape, op_cases_build, &want, e);
}

static stator_status place_graph(struct run *r, const struct device_facts *f, stator_error *e) {
    struct graph *g = &r->b->graph;
    struct device_model *m = &r->model;
    m->graph = g;
    m->sequences = 1;
    for (uint32_t i = 0; i < g->n_caches; i++) {
        struct device_cache *c = &m->caches[i];
        c->per_sequence = graph_cache_blocks(&g->caches[i], r->context, OP_CASES_BATCH);
        c->n_blocks = c->of_sequences = c->per_sequence;
        c->unit_bytes = g->caches[i].bytes * c->n_blocks;
        c->units_per_slice = g->caches[i].units * g->caches[i].n_layers;
    }
    const struct planning_want want = {
        .batch = OP_CASES_BATCH, .sequences = 1, .logits_rows = OP_CASES_BATCH};
    step_layout(m, &want, &m->step, &m->step_bytes);
    const uint64_t work_bytes = graph_place_work_bytes(g);
    void *work = take_memory(work_bytes);
    if (work == NULL)
        return no_memory(e);
    stator_status st = graph_place(g, SLICE_LIMIT, m->step_bytes * (f->host_memory ? m->slots : 1), work,
                                   work_bytes, r->slices, e);
    free(work);
    return st;
}

/* --- the device */

static stator_status create_slices(struct run *r, const struct device_facts *f, stator_error *e) {
    const struct graph *g = &r->b->graph;
    struct device *d = r->device;
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < g->weight_slices && st == STATOR_OK; i++)
        st = d->vtable->slice_create(d, DEVICE_WEIGHTS, i, slices_rounded(f, r->slices[i]), e);
    for (uint32_t i = 0; i < g->n_caches && st == STATOR_OK; i++) {
        const struct device_cache *c = &r->model.caches[i];
        st = d->vtable->slice_create(d, DEVICE_KV, i, slices_rounded(f, c->unit_bytes * c->units_per_slice),
                                     e);
    }
    if (st == STATOR_OK)
        st = d->vtable->slice_create(d, DEVICE_SCRATCH, 0,
                                     slices_rounded(f, ARITH_MAX(g->scratch_bytes, (uint64_t)64)), e);
    if (st == STATOR_OK)
        st = d->vtable->slice_create(d, DEVICE_EXCHANGE, 0, slices_rounded(f, g->exchange_bytes), e);
    return st;
}

/* Row after row as in a file, n values each. */
static void make_rows(struct run *r, const struct graph_weight *w, uint8_t *to, uint64_t values) {
    const uint64_t at = (uint64_t)(w->tensor - r->b->tensors);
    const struct block_info *info = block_info(w->tensor->type);
    CHECK(at < r->b->n_tensors);
    for (uint64_t i = 0; i < values / info->values; i++) {
        if (info->values == 1) {
            const float v = r->b->middle[at] + r->b->spread[at] * random_weights_float(&r->random);
            to = random_weights_put(to, w->tensor->type, v);
        } else {
            random_weights_block(&r->random, w->tensor->type, to, info->bytes);
            to += info->bytes;
        }
    }
}

/* All panels of a weight, or its floats, into the image of its slice. False: no memory. */
static bool make_weight(struct run *r, const struct graph_weight *w, uint8_t *image) {
    CHECK(w->n_pieces == 1 && w->pieces[0].slice == 0);
    uint8_t *to = image + w->pieces[0].offset;
    if (!w->packed) {
        make_rows(r, w, to, w->tensor->ne[0] * w->tensor->ne[1]);
        return true;
    }
    const uint64_t row_bytes = w->tensor->bytes / w->tensor->ne[1] / w->tensor->ne[2];
    uint8_t *rows = take_memory(PANEL_ROWS * row_bytes);
    if (rows == NULL)
        return false;
    for (uint32_t p = 0; p < graph_weight_panels(w); p++) {
        const uint32_t n =
            ARITH_MIN(w->layout.rows - p % w->layout.panels * PANEL_ROWS, (uint32_t)PANEL_ROWS);
        make_rows(r, w, rows, n * w->tensor->ne[0]);
        panel_pack(&w->layout, rows, n, to + (uint64_t)p * w->layout.panel_bytes);
    }
    free(rows);
    return true;
}

/* Staging holds the weights' image first, and then what prepare gets. */
static stator_status create_staging(struct run *r, uint64_t pinned, stator_error *e) {
    const uint64_t bytes = arith_round_up(ARITH_MAX(r->slices[0], pinned), 4096);
    struct device *d = r->device;
    r->staging_is_ours = d->vtable->host_create == NULL;
    if (!r->staging_is_ours)
        return d->vtable->host_create(d, bytes, &r->staging, e);
    r->staging = take_memory(bytes);
    return r->staging != NULL ? STATOR_OK : no_memory(e);
}

static stator_status write_weights(struct run *r, stator_error *e) {
    const struct graph *g = &r->b->graph;
    struct device *d = r->device;
    CHECK(g->weight_slices == 1);
    for (uint32_t i = 0; i < g->n_weights; i++)
        if (!make_weight(r, &g->weights[i], r->staging))
            return no_memory(e);
    void *mapped = d->vtable->map(d, DEVICE_WEIGHTS, 0);
    if (mapped != NULL) {
        memcpy(mapped, r->staging, r->slices[0]);
        return STATOR_OK;
    }
    stator_status st = d->vtable->upload(d, DEVICE_WEIGHTS, 0, 0, r->staging, r->slices[0], e);
    return st == STATOR_OK ? d->vtable->upload_wait(d, e) : st;
}

static stator_status open_device(struct run *r, const struct device_choice *c, bool trace, stator_error *e) {
    stator_status st = device_takes(c, &r->model, e);
    if (st != STATOR_OK)
        return st;
    const uint64_t bytes = device_host_bytes(c, &r->model, trace);
    r->device_memory = take_memory(bytes);
    if (r->device_memory == NULL)
        return no_memory(e);
    const struct device_opening opening = {.choice = c,
                                           .model = &r->model,
                                           .phase = &r->phase,
                                           .trace = trace,
                                           .memory = r->device_memory,
                                           .bytes = bytes};
    st = device_open(&opening, &r->device, e);
    struct device_pinned pinned = {0};
    device_pinned_lay_out(&c->facts, &r->model, &pinned);
    if (st == STATOR_OK)
        st = create_slices(r, &c->facts, e);
    if (st == STATOR_OK)
        st = create_staging(r, pinned.bytes, e);
    if (st == STATOR_OK)
        st = write_weights(r, e);
    if (st != STATOR_OK)
        return st;
    memset(r->staging, 0, pinned.bytes);
    const struct device_setup setup = {.pinned = pinned.bytes > 0 ? r->staging : NULL};
    return r->device->vtable->prepare(r->device, &setup, e);
}

static void run_close(struct run *r) {
    if (r->device != NULL)
        r->device->vtable->close(r->device);
    if (r->staging_is_ours)
        free(r->staging);
    free(r->device_memory);
    free(r->tables);
    free(r->b);
}

static stator_status make_graph(struct run *r, uint32_t op, const struct device_facts *f, bool timed,
                                stator_error *e) {
    memset(r, 0, sizeof *r);
    r->b = calloc(1, sizeof *r->b);
    if (r->b == NULL)
        return no_memory(e);
    r->b->row = op_cases_get(op, &r->b->type);
    r->b->sizes = timed ? &r->b->row->timed : &r->b->row->proof;
    r->random = r->b->row->seed;
    r->context = ARITH_MAX((uint32_t)CONTEXT, r->b->sizes->before + OP_CASES_BATCH);
    return build_graph(r, f, e);
}

/* The case on the device, ready for steps. run_close is to be called on an error too. */
static stator_status run_open(struct run *r, uint32_t op, const struct device_choice *c, bool timed,
                              stator_error *e) {
    stator_status st = make_graph(r, op, &c->facts, timed, e);
    if (st == STATOR_OK)
        st = place_graph(r, &c->facts, e);
    return st == STATOR_OK ? open_device(r, c, timed, e) : st;
}

/* --- steps */

static void write_tables(const struct run *r, struct step_header *h, bool first) {
    uint8_t *slot = (uint8_t *)h;
    for (uint32_t i = 0; i < h->n_caches; i++) {
        const uint32_t n = r->model.caches[i].n_blocks;
        uint32_t *table = (uint32_t *)(void *)(slot + h->cache[i].at_tables);
        struct step_fill *fill = (struct step_fill *)(void *)(slot + h->cache[i].at_fill);
        for (uint32_t k = 0; k < n; k++) { /* backwards, so that no table is the identity */
            table[k] = n - 1 - k;
            fill[k] = (struct step_fill){k, STEP_ZEROS};
        }
        h->cache[i].n_fill = first ? n : 0;
    }
}

/* Cosine and sine of an angle per pair of the token's heads; any will do, if they are the same on all
 * devices. */
static void write_angles(struct step_header *h, uint32_t token, uint32_t position) {
    float *to = (float *)(void *)((uint8_t *)h + h->at_rope) + (size_t)token * h->rope_stride;
    for (uint32_t j = 0; j < h->rope_stride / 2; j++) {
        const double angle = (double)position * pow(0.8, (double)j);
        to[2 * j] = (float)cos(angle);
        to[2 * j + 1] = (float)sin(angle);
    }
}

/* One chunk of n tokens at the position; every token's row is wanted. */
static void write_step(struct run *r, uint32_t slot, uint32_t n, uint32_t position, bool first) {
    struct step_header *h = r->device->vtable->step_slot(r->device, slot);
    uint8_t *at = (uint8_t *)h;
    h->run_body = STEP_BODY;
    h->n_tokens = h->n_rows = n;
    h->n_chunks = h->want_logits = 1;
    *(struct step_chunk *)(void *)(at + h->at_chunks) = (struct step_chunk){.n = n, .position = position};
    for (uint32_t i = 0; i < n; i++) {
        ((int32_t *)(void *)(at + h->at_tokens))[i] = (int32_t)((position + i) * 37 % OP_CASES_IDS);
        ((uint32_t *)(void *)(at + h->at_rows))[i] = i;
        write_angles(h, i, position + i);
    }
    write_tables(r, h, first);
}

static stator_status run_step(struct run *r, uint32_t slot, stator_error *e) {
    struct device *d = r->device;
    stator_status st = d->vtable->submit(d, slot, e);
    bool ended = false;
    const uint64_t end = clock_ns() + DEVICE_DEADLINE;
    while (st == STATOR_OK && !ended) {
        st = d->vtable->wait(d, slot, 1000000000, &ended, e);
        if (st == STATOR_OK && !ended && clock_ns() > end)
            st = error_set(e, STATOR_DEVICE, "a step of one op has not ended after %.0f s",
                           (double)DEVICE_DEADLINE * 1e-9);
    }
    return st;
}

/* Of a written step: its tokens become others, drafts but for the first. */
static void make_drafts(struct run *r, uint32_t slot) {
    struct step_header *h = r->device->vtable->step_slot(r->device, slot);
    uint8_t *at = (uint8_t *)h;
    int32_t *tokens = (int32_t *)(void *)(at + h->at_tokens);
    ((struct step_chunk *)(void *)(at + h->at_chunks))->tested = h->n_tokens - 1;
    for (uint32_t i = 0; i < h->n_tokens; i++)
        tokens[i] = (tokens[i] + 11) % OP_CASES_IDS;
}

/* Output and argmax of all rows of all steps. */
struct outcome {
    uint32_t n_rows, width;
    float *rows;
    struct step_pick *picks;
};

/* Drafts behind a step's tokens. */
#define TAKEN_BACK 5

/* `each`: tokens of every step but the last one, each of which runs with other tokens first, as drafts that
 * are taken back; 0: as `lengths` says. */
static stator_status run_lengths(struct run *r, uint32_t each, struct outcome *o, stator_error *e) {
    struct device *d = r->device;
    const uint32_t steps = r->b->graph.n_caches > 0 ? LENGTHS : SHORT_LENGTHS;
    for (uint32_t i = 0; i < steps; i++)
        o->n_rows += lengths[i];
    o->width = r->b->graph.values[r->b->graph.logits].width;
    o->rows = calloc((size_t)o->n_rows * o->width, sizeof *o->rows);
    o->picks = calloc(o->n_rows, sizeof *o->picks);
    if (o->rows == NULL || o->picks == NULL)
        return no_memory(e);
    for (uint32_t i = 0, at = 0, n; at < o->n_rows; at += n, i++) {
        const uint32_t slot = i % r->model.slots;
        n = each > 0 ? ARITH_MIN(each, o->n_rows - at) : lengths[i];
        stator_status st = STATOR_OK;
        if (each > 0) {
            write_step(r, slot, ARITH_MIN(n + TAKEN_BACK, OP_CASES_BATCH), at, i == 0);
            make_drafts(r, slot);
            st = run_step(r, slot, e);
        }
        if (st == STATOR_OK) {
            write_step(r, slot, n, at, i == 0 && each == 0);
            st = run_step(r, slot, e);
        }
        if (st != STATOR_OK)
            return st;
        memcpy(o->rows + (size_t)at * o->width, d->vtable->logits(d, slot),
               (size_t)n * o->width * sizeof *o->rows);
        memcpy(o->picks + at, d->vtable->picks(d, slot), n * sizeof *o->picks);
    }
    return STATOR_OK;
}

static stator_status find_outcome(uint32_t op, const struct device_choice *c, uint32_t each,
                                  struct outcome *o, stator_error *e) {
    struct run r;
    stator_status st = run_open(&r, op, c, false, e);
    if (st == STATOR_OK)
        st = run_lengths(&r, each, o, e);
    run_close(&r);
    return st;
}

static void free_outcome(struct outcome *o) {
    free(o->rows);
    free(o->picks);
}

static void say_difference(const struct device_choice *c, const struct outcome *got,
                           const struct outcome *want, char text[256]) {
    text[0] = '\0';
    for (size_t i = 0; i < (size_t)want->n_rows * want->width; i++)
        if (memcmp(&got->rows[i], &want->rows[i], sizeof *got->rows) != 0) {
            snprintf(text, 256, "token %zu, number %zu of %u: %a on the device, %a on the CPU",
                     i / want->width, i % want->width, want->width, (double)got->rows[i],
                     (double)want->rows[i]);
            return;
        }
    for (uint32_t i = 0; i < want->n_rows; i++)
        if (got->picks[i].token != want->picks[i].token || got->picks[i].finite != want->picks[i].finite) {
            snprintf(text, 256, "token %u: argmax %d, finite %u with %s, %d, %u with scalar", i,
                     got->picks[i].token, got->picks[i].finite, c->tier, want->picks[i].token,
                     want->picks[i].finite);
            return;
        }
}

/* A case whose numbers are not finite, or all alike, would prove nothing. */
static stator_status check_meaning(uint32_t op, const struct outcome *o, stator_error *e) {
    char name[OP_CASES_NAME];
    bool differ = false;
    op_cases_name(op, name);
    for (uint32_t i = 0; i < o->n_rows; i++)
        if (!o->picks[i].finite)
            return error_set(e, STATOR_FAILED, "%s: the output of token %u is not finite", name, i);
    for (size_t i = 1; i < (size_t)o->n_rows * o->width; i++)
        differ = differ || o->rows[i] != o->rows[0];
    return differ ? STATOR_OK : error_set(e, STATOR_FAILED, "%s: all of its output is one number", name);
}

stator_status op_run_cpu(const char *tier, uint32_t threads, struct device_choice *c, stator_error *e) {
    struct device_options o = {.threads = threads, .cpu_devices = 1};
    uint32_t n = 0;
    snprintf(o.tier, sizeof o.tier, "%s", tier);
    return device_choose("cpu", &o, c, 1, &n, e);
}

static stator_status compare(uint32_t op, const struct device_choice *c, uint32_t n, uint32_t each,
                             char difference[256], stator_error *e) {
    struct outcome want = {0};
    struct device_choice scalar;
    difference[0] = '\0';
    stator_status st = op_run_cpu("scalar", 1, &scalar, e);
    if (st == STATOR_OK)
        st = find_outcome(op, &scalar, 0, &want, e);
    if (st == STATOR_OK)
        st = check_meaning(op, &want, e);
    for (uint32_t i = 0; i < n && st == STATOR_OK && difference[0] == '\0'; i++) {
        struct outcome got = {0};
        st = find_outcome(op, &c[i], each, &got, e);
        if (st == STATOR_OK)
            say_difference(&c[i], &got, &want, difference);
        free_outcome(&got);
    }
    free_outcome(&want);
    return st;
}

stator_status op_run_compare(uint32_t op, const struct device_choice *c, uint32_t n, char difference[256],
                             stator_error *e) {
    return compare(op, c, n, 0, difference, e);
}

stator_status op_run_cut(uint32_t op, const struct device_choice *c, uint32_t each, char difference[256],
                         stator_error *e) {
    CHECK(each > 0 && each <= OP_CASES_BATCH);
    return compare(op, c, 1, each, difference, e);
}

stator_status op_run_kinds(uint32_t op, uint64_t *kinds, stator_error *e) {
    const struct device_facts cpu = {.host_memory = true};
    struct run r;
    *kinds = 0;
    stator_status st = make_graph(&r, op, &cpu, false, e);
    for (uint32_t i = 0; st == STATOR_OK && i < r.b->graph.n_ops; i++)
        *kinds |= (uint64_t)1 << r.b->graph.ops[i].kind;
    run_close(&r);
    return st;
}

/* --- times */

static uint64_t op_time(struct run *r, uint32_t slot) {
    struct device_span spans[64];
    const uint32_t n = r->device->vtable->spans(r->device, slot, spans, 64);
    const uint32_t argmax = r->b->graph.n_ops - 1;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (spans[i].op >= r->b->first_op && (spans[i].op < argmax || r->b->first_op == argmax))
            sum += spans[i].end_ns - spans[i].begin_ns;
    return sum;
}

static int compare_times(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of experts, the matrices that the step reads at most. */
static void count_work(const struct run *r, uint32_t tokens, struct op_run_time *out) {
    const struct graph *g = &r->b->graph;
    for (uint32_t i = r->b->first_op; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        for (uint32_t k = 0; k < op->n_weights; k++) {
            const struct graph_weight *w = &g->weights[op->weight[k]];
            const uint32_t read =
                ARITH_MIN(w->matrices, op->kind == GRAPH_EXPERTS ? op->experts.used * tokens : 1);
            out->bytes += w->bytes / w->matrices * read;
        }
        out->macs += graph_op_macs(g, op) * tokens;
    }
}

stator_status op_run_time(uint32_t op, const struct device_choice *c, uint32_t tokens, double seconds,
                          struct op_run_time *out, stator_error *e) {
    static uint64_t times[MAX_TIMES];
    struct run r;
    CHECK(tokens > 0 && tokens <= OP_CASES_BATCH);
    *out = (struct op_run_time){0};
    stator_status st = run_open(&r, op, c, true, e);
    const uint64_t end = clock_ns() + (uint64_t)(seconds * 1e9);
    for (uint32_t i = 0; st == STATOR_OK && i < MAX_TIMES && (i < 4 || clock_ns() < end); i++) {
        const uint32_t slot = i % r.model.slots;
        write_step(&r, slot, tokens, r.b->sizes->before, true);
        st = run_step(&r, slot, e);
        if (st == STATOR_OK && i > 0) /* the first one warms up */
            times[out->steps++] = op_time(&r, slot);
    }
    if (st == STATOR_OK) {
        qsort(times, out->steps, sizeof times[0], compare_times);
        out->ns = times[out->steps / 2];
        count_work(&r, tokens, out);
        if (out->ns == 0)
            st = error_set(e, STATOR_DEVICE, "%s tells no times of ops", c->facts.name);
    }
    run_close(&r);
    return st;
}
