#include "engine/start/run_state.h"

#include "device/cluster.h"
#include "device/device_helper.h"
#include "engine/cache/checkpoints.h"
#include "engine/cache/kv_disk.h"
#include "engine/cache/kv_slots.h"
#include "engine/run/trace.h"
#include "kernels/kernels.h"
#include "os/pages.h"

#include <math.h>
#include <string.h>

/* Of a device that was only described nothing is known but that, unless it is this machine's processor. */
static uint64_t host_bytes(const struct stator *s, uint32_t device) {
    const struct planning_device *d = &s->planning.devices[device];
    return (s->planning.imagined && !d->facts.host_memory) || (d->facts.remote && s->planning.stage > 0)
               ? 0
               : device_host_bytes(&d->choice, &d->model, s->start.traces);
}

static void lay_out_steps(struct stator *s, const struct planning_want *want, struct carve *c) {
    s->run.max_steps = planning_stages(&s->planning) * s->planning.devices[0].model.slots;
    CHECK(s->run.max_steps > 0);
    s->run.steps = carve_take(c, s->run.max_steps, sizeof *s->run.steps);
    struct engine_sequence **rows =
        carve_take(c, (uint64_t)s->run.max_steps * want->logits_rows, sizeof(struct engine_sequence *));
    struct engine_sequence **carried =
        carve_take(c, (uint64_t)s->run.max_steps * want->sequences, sizeof(struct engine_sequence *));
    for (uint32_t i = 0; i < s->run.max_steps && c->base != NULL; i++) {
        s->run.steps[i].of_row = rows + (size_t)i * want->logits_rows;
        s->run.steps[i].carried = carried + (size_t)i * want->sequences;
    }
}

/* Whether any layer of the model has something in the cache. */
static bool has_layers(const struct stator *s, uint32_t cache) {
    bool has = false;
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        has = has || s->planning.devices[i].graph.caches[cache].n_layers > 0;
    return has;
}

/* All PAGED caches have as many blocks, and a sequence has the same ones of each. */
static void lay_out_pool(struct stator *s, const struct planning_want *want, struct carve *c) {
    const struct device_model *m = &s->planning.devices[0].model;
    uint32_t per_sequence = 0;
    s->run.reuses = s->planning.config.server.prefix_cache;
    checkpoints_lay_out(s, c);
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        bool paged = m->graph->caches[i].kind == GRAPH_PAGED;
        CHECK(!paged || per_sequence == 0 || per_sequence == m->caches[i].per_sequence);
        per_sequence = paged ? m->caches[i].per_sequence : per_sequence;
        s->run.reuses = s->run.reuses && (paged || s->run.n_checkpoints > 0 || !has_layers(s, i));
        s->run.has_states = s->run.has_states || m->graph->caches[i].kind == GRAPH_STATE;
    }
    kv_pool_lay_out(&s->run.pool, c, want->sequences * per_sequence);
    uint32_t *blocks = carve_take(c, s->run.pool.n_blocks, sizeof *blocks);
    for (uint32_t i = 0; i < want->sequences && c->base != NULL; i++)
        s->run.sequences[i].blocks = blocks + (size_t)i * per_sequence;
}

/* Of this host's stage. */
static uint32_t stage_devices(const struct stator *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        n += !s->planning.devices[i].facts.remote;
    return n;
}

static void lay_out_cache(struct stator *s, uint32_t cache, struct carve *c) {
    const struct device_model *m = &s->planning.devices[0].model;
    const uint32_t n_blocks = m->caches[cache].n_blocks;
    s->run.caches[cache].shown = s->run.pool.shown;
    if (m->graph->caches[cache].kind == GRAPH_PAGED)
        return;
    s->run.caches[cache].free =
        carve_take(c, m->caches[cache].of_sequences, sizeof *s->run.caches[cache].free);
    s->run.caches[cache].shown = carve_take(c, n_blocks, sizeof *s->run.caches[cache].shown);
    for (uint32_t i = 0; i < n_blocks && c->base != NULL; i++)
        atomic_init(&s->run.caches[cache].shown[i], 0);
}

static void lay_out(struct stator *s, const struct planning_want *want, struct carve *c) {
    const struct device_model *m = &s->planning.devices[0].model;
    s->front.n_requests = want->sequences + (uint32_t)s->planning.config.server.max_queue;
    s->front.requests = carve_take(c, s->front.n_requests, sizeof *s->front.requests);
    int32_t *tokens = carve_take(c, (uint64_t)s->front.n_requests * (want->context + 1), sizeof *tokens);
    stator_logit_bias *biases =
        carve_take(c, (uint64_t)s->front.n_requests * STATOR_LOGIT_BIASES, sizeof *biases);
    int32_t *forced = carve_take(c, (uint64_t)s->front.n_requests * STATOR_FORCED, sizeof *forced);
    int32_t *after = carve_take(
        c, s->front.grammars.n > 0 ? (uint64_t)s->front.n_requests * STATOR_GRAMMAR_AFTER : 0, sizeof *after);
    grammar_slots_lay_out_run(&s->front.grammars, c, want);
    pictures_lay_out(s, c);
    s->run.sequences = carve_take(c, want->sequences, sizeof *s->run.sequences);
    uint32_t n_caches = m->graph->n_caches;
    uint32_t *tables[GRAPH_MAX_CACHES];
    for (uint32_t i = 0; i < n_caches; i++)
        tables[i] = carve_take(c, (uint64_t)want->sequences * m->caches[i].per_sequence, sizeof *tables[i]);
    speculation_lay_out(s, want, c);
    lay_out_steps(s, want, c);
    ngram_rows_lay_out(s, want, c);
    lay_out_pool(s, want, c);
    kv_disk_lay_out(s, c);
    kv_slots_lay_out(s, c);
    for (uint32_t i = 0; i < n_caches; i++)
        lay_out_cache(s, i, c);
    s->run.waiting = carve_take(c, s->front.n_requests, sizeof *s->run.waiting);
    s->run.rope_frequency =
        carve_take(c, graph_angles_stride(&s->planning.devices[0].graph) / 2, sizeof *s->run.rope_frequency);
    sampler_layout(&s->run.sampler, c, s->planning.shape->vocab, want->context + 1);
    struct outbox_event *told =
        carve_take(c, (uint64_t)s->front.n_requests * OUTBOX_EVENTS, sizeof(struct outbox_event));
    s->front.n_rows = ARITH_MIN(want->sequences, want->logits_rows);
    s->front.rows = carve_take(c, s->front.n_rows, sizeof *s->front.rows);
    float *rows = carve_take(c, (uint64_t)s->front.n_rows * ENGINE_READER_ROWS,
                             shape_row_width(s->planning.shape) * sizeof(float));
    bell_lay_out(&s->front.bell, c, s->front.n_requests);
    uint32_t places = 2; /* a submit of every slot; one place of a ring stays free */
    while (places < s->front.n_requests + 1)
        places *= 2;
    uint64_t commands = ring_bytes(places, sizeof(struct engine_command));
    uint64_t events = ring_bytes(ENGINE_EVENTS, sizeof(struct engine_event));
    void *command_memory = carve_take(c, commands, 1);
    void *event_memory = carve_take(c, events, 1);
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++) {
        struct engine_device *d = &s->devices[i];
        d->memory_bytes = host_bytes(s, i);
        d->memory = carve_take(c, d->memory_bytes, 1);
    }
    bool joins = false;
    for (uint32_t i = 0; i < s->planning.n_devices; i++) {
        struct engine_device *d = &s->devices[i];
        const struct device_model *of = &s->planning.devices[i].model;
        d->helper_bytes = of->hosted ? device_helper_bytes(&s->planning.helper, of, joins) : 0;
        d->helper_memory = carve_take(c, d->helper_bytes, 1);
        joins = joins || of->hosted;
    }
    s->serve_bytes = s->planning.stage > 0 ? device_cluster_serve_bytes(m, stage_devices(s)) : 0;
    s->serve_memory = carve_take(c, s->serve_bytes, 1);
    trace_lay_out(s, c);
    s->start.engine_stack =
        carve_take(c, ENGINE_STACK + 2 * PAGES_SIZE, 1); /* its guard page, and room to align */
    s->front.edge_work_bytes = ENGINE_EDGE_BASE + (uint64_t)want->context * ENGINE_EDGE_PER_TOKEN;
    s->front.edge_work = carve_take(c, s->front.edge_work_bytes, 1);
    if (c->base == NULL)
        return;
    s->front.commands = ring_init(command_memory, commands, places, sizeof(struct engine_command));
    s->start.events = ring_init(event_memory, events, ENGINE_EVENTS, sizeof(struct engine_event));
    for (uint32_t i = 0; i < s->front.n_requests; i++) {
        s->front.requests[i].tokens = tokens + (size_t)i * (want->context + 1);
        s->front.requests[i].bias = biases + (size_t)i * STATOR_LOGIT_BIASES;
        s->front.requests[i].forced.tokens = forced + (size_t)i * STATOR_FORCED;
        s->front.requests[i].constraint.after =
            after + (s->front.grammars.n > 0 ? (size_t)i * STATOR_GRAMMAR_AFTER : 0);
        s->front.requests[i].out.events = told + (size_t)i * OUTBOX_EVENTS;
    }
    for (uint32_t i = 0; i < s->front.n_rows * ENGINE_READER_ROWS; i++)
        s->front.rows[i / ENGINE_READER_ROWS].row[i % ENGINE_READER_ROWS] =
            rows + (size_t)i * shape_row_width(s->planning.shape);
    s->shown.blocks = 0;
    for (uint32_t k = 0; k < n_caches; k++) {
        const struct device_cache *d = &m->caches[k];
        for (uint32_t i = 0; i < want->sequences; i++)
            s->run.sequences[i].caches[k].table = tables[k] + (size_t)i * d->per_sequence;
        s->shown.blocks += d->of_sequences;
        if (m->graph->caches[k].kind == GRAPH_PAGED)
            continue;
        s->run.caches[k].n_free = d->of_sequences;
        for (uint32_t i = 0; i < d->of_sequences; i++)
            s->run.caches[k].free[i] = d->of_sequences - 1 - i;
    }
    atomic_store(&s->shown.free_blocks, s->shown.blocks);
}

/* Writes NULLs into *engine, which has no state yet; a copy of it would race with stator_cancel. */
uint64_t run_state_bytes(void *engine, const struct planning_want *want) {
    struct carve c = carve_count();
    lay_out(engine, want, &c);
    return c.used;
}

static void warn_of_tokenizer(struct stator *s) {
    log_write(&s->log, STATOR_LOG_WARN, "no texts with this model, only token ids (--tokens): %s",
              s->tokenizer_error.text);
}

stator_status run_state_try_tokenizer(struct stator *s, stator_error *e) {
    struct tokenizer *t = NULL;
    void *memory = NULL;
    if (s->planning.tokenizer_bytes > 0) {
        stator_status st = pages_map(s->planning.tokenizer_bytes, "the tokenizer", &memory, e);
        if (st != STATOR_OK)
            return st;
        if (tokenizer_create(s->planning.gguf, memory, s->planning.tokenizer_bytes, &t,
                             &s->tokenizer_error) != STATOR_OK)
            t = NULL;
        pages_unmap(memory, s->planning.tokenizer_bytes);
    }
    if (t == NULL)
        warn_of_tokenizer(s);
    return STATOR_OK;
}

static void mark_tokens(struct stator *s) {
    const uint32_t n = ARITH_MIN(s->planning.shape->vocab, tokenizer_vocab(s->tokenizer));
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = (int32_t)i;
        const uint64_t bytes =
            tokenizer_piece(s->tokenizer, id, true, s->front.edge_work, s->front.edge_work_bytes);
        sampler_mark(&s->run.sampler, id, tokenizer_is_end(s->tokenizer, id), s->front.edge_work,
                     ARITH_MIN(bytes, s->front.edge_work_bytes));
    }
}

/* It stays as it is when a start is planned again. */
static stator_status make_edge(struct stator *s, stator_error *e) {
    const uint64_t bytes = s->planning.edge_bytes;
    if (bytes == 0)
        return STATOR_OK;
    stator_status st =
        s->start.edge == NULL ? pages_map(bytes, "the edge pool", &s->start.edge, e) : STATOR_OK;
    if (st == STATOR_OK)
        plan_arena_find(plan_find(&s->planning.plan, "host"), "edge")->allocated = bytes;
    return st;
}

/* Between the caches and the files of cache.kv_dir. */
static stator_status make_kv_buffers(struct stator *s, stator_error *e) {
    const struct planning_kv_disk *p = &s->planning.kv_disk;
    if (p->bytes == 0 || p->staged) /* kv_open gives those of staging */
        return STATOR_OK;
    stator_status st = pages_map(p->bytes, "kv_disk", &s->start.kv_buffers, e);
    if (st != STATOR_OK)
        return st;
    plan_arena_find(plan_find(&s->planning.plan, "host"), "kv_disk")->allocated = p->bytes;
    return STATOR_OK;
}

/* Between pictures' files and steps. */
static stator_status make_pictures(struct stator *s, stator_error *e) {
    const uint64_t bytes = s->planning.pictures.bytes;
    if (bytes == 0)
        return STATOR_OK;
    stator_status st = pages_map(bytes, "pictures", &s->start.pictures, e);
    if (st != STATOR_OK)
        return st;
    plan_arena_find(plan_find(&s->planning.plan, "host"), "pictures")->allocated = bytes;
    return pictures_open(s, s->start.pictures, e);
}

stator_status run_state_make(struct stator *s, stator_error *e) {
    struct carve count = carve_count();
    lay_out(s, &s->planning.want, &count);
    s->start.run_bytes = count.used;
    stator_status st = pages_map(s->start.run_bytes, "engine: the run's state", &s->start.run, e);
    if (st != STATOR_OK)
        return st;
    struct carve c = carve_in(s->start.run, s->start.run_bytes);
    lay_out(s, &s->planning.want, &c);
    uint64_t engine = pages_rounded(sizeof *s) + pages_rounded(gguf_host_bytes(s->planning.gguf)) +
                      pages_rounded(s->planning.tables_bytes) + pages_rounded(s->start.run_bytes);
    for (uint32_t i = s->planning.n_devices; i < planning_parts(&s->planning); i++) {
        const struct planning_second *second = planning_second_of(&s->planning, i);
        engine += pages_rounded(gguf_host_bytes(second->gguf)) + pages_rounded(second->tables_bytes);
    }
    if (s->planning.tokenizer_bytes > 0) {
        st = pages_map(s->planning.tokenizer_bytes, "the tokenizer", &s->start.tokenizer_memory, e);
        if (st != STATOR_OK)
            return st;
        engine += pages_rounded(s->planning.tokenizer_bytes);
        if (tokenizer_create(s->planning.gguf, s->start.tokenizer_memory, s->planning.tokenizer_bytes,
                             &s->tokenizer, &s->tokenizer_error) != STATOR_OK)
            s->tokenizer = NULL;
    }
    if (s->tokenizer == NULL)
        warn_of_tokenizer(s);
    else
        mark_tokens(s);
    struct plan_arena *a = plan_arena_find(plan_find(&s->planning.plan, "host"), "engine");
    a->allocated = engine;
    CHECK(a->allocated == a->bytes);
    st = make_edge(s, e);
    if (st == STATOR_OK)
        st = make_kv_buffers(s, e);
    if (st == STATOR_OK)
        st = make_pictures(s, e);
    return st == STATOR_OK ? token_trees_make(s, e) : st;
}

/* Pair j's share of its frequency. */
static double scale_of(const struct graph_angles *a, uint32_t j) {
    double scaled = 1 / (double)a->scale;
    if (a->yarn.share == 0)
        return scaled;
    double ramp = ((double)j - (double)a->yarn.low) / (double)a->yarn.width;
    double kept = (1 - fmin(fmax(ramp, 0), 1)) * (double)a->yarn.share;
    return scaled * (1 - kept) + kept;
}

static stator_status fill_angles(struct stator *s, const struct gguf *g, const struct graph_angles *a,
                                 double *frequency, stator_error *e) {
    const bool is_long = a->divisors_long != NULL && s->planning.want.context > a->original;
    const struct gguf_tensor *t = is_long ? a->divisors_long : a->divisors;
    for (uint32_t j = 0; j < a->n_rot / 2; j++)
        frequency[j] = pow((double)a->base, -2.0 * j / a->n_rot) * scale_of(a, j);
    if (t == NULL)
        return STATOR_OK;
    float divisor[KERNELS_MAX_HEAD / 2];
    uint64_t bytes = a->n_rot / 2 * sizeof(float);
    CHECK(t->bytes == bytes && bytes <= sizeof divisor);
    stator_status st = gguf_load(g, t, 0, bytes, divisor, e);
    if (st != STATOR_OK)
        return st;
    for (uint32_t j = 0; j < a->n_rot / 2; j++) {
        if (!isfinite(divisor[j]) || divisor[j] <= 0)
            return error_set(
                e, STATOR_BAD_MODEL, "%s: tensor '%.*s': value %u is %g, a positive number is expected",
                gguf_path(g, t->shard), (int)t->name.length, t->name.data, j, (double)divisor[j]);
        frequency[j] /= (double)divisor[j];
    }
    return STATOR_OK;
}

stator_status run_state_fill_angles(struct stator *s, stator_error *e) {
    const struct graph *g = &s->planning.devices[0].graph; /* all have the same angles */
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < g->n_angles && st == STATOR_OK; i++)
        st = fill_angles(s, s->planning.gguf, &g->angles[i], s->run.rope_frequency + g->angles[i].first / 2,
                         e);
    const bool guesses = s->planning.draft.gguf != NULL;
    g = guesses ? &s->planning.devices[planning_draft_at(&s->planning)].graph : NULL;
    for (uint32_t i = 0; g != NULL && i < g->n_angles && st == STATOR_OK; i++)
        st = fill_angles(s, s->planning.draft.gguf, &g->angles[i],
                         s->run.draft.rope_frequency + g->angles[i].first / 2, e);
    return st;
}
