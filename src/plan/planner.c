/* The memory plan: shape and config in, arenas out. Touches no device and reads no tensor data.
 *
 * Invariant: planner_make for the same model, sizes and device facts gives the same plan, byte for byte. */
#include "engine/engine.h"

#include "os/pages.h"
#include "plan/plan_device.h"
#include "engine/start/routes.h"
#include "plan/spill.h"
#include "engine/report/trace.h"
#include "kernels/kernels.h"

#include <string.h>

#define PLANNER_VERSION 9

/* Of a device that was only described nothing is known but that, unless it is this machine's processor. */
static uint64_t host_bytes(const struct stator *s, const struct engine_device *d) {
    return s->imagined && !d->facts.host_memory ? 0 : device_host_bytes(&d->choice, &d->model, s->traces);
}

static void lay_out_steps(struct stator *s, const struct engine_want *want, struct carve *c) {
    s->max_steps = s->n_devices * s->devices[0].model.slots;
    s->steps = carve_take(c, s->max_steps, sizeof *s->steps);
    struct engine_sequence **rows =
        carve_take(c, (uint64_t)s->max_steps * want->logits_rows, sizeof(struct engine_sequence *));
    struct engine_sequence **carried =
        carve_take(c, (uint64_t)s->max_steps * want->sequences, sizeof(struct engine_sequence *));
    for (uint32_t i = 0; i < s->max_steps && c->base != NULL; i++) {
        s->steps[i].of_row = rows + (size_t)i * want->logits_rows;
        s->steps[i].carried = carried + (size_t)i * want->sequences;
    }
}

void planner_lay_out_run(struct stator *s, const struct engine_want *want, struct carve *c) {
    const struct device_model *m = &s->devices[0].model;
    s->n_requests = want->sequences + (uint32_t)s->config.server.max_queue;
    s->requests = carve_take(c, s->n_requests, sizeof *s->requests);
    int32_t *tokens = carve_take(c, (uint64_t)s->n_requests * (want->context + 1), sizeof *tokens);
    s->sequences = carve_take(c, want->sequences, sizeof *s->sequences);
    uint32_t n_caches = m->graph->n_caches;
    uint32_t *tables[GRAPH_MAX_CACHES];
    for (uint32_t i = 0; i < n_caches; i++)
        tables[i] = carve_take(c, m->caches[i].n_blocks, sizeof *tables[i]);
    lay_out_steps(s, want, c);
    for (uint32_t i = 0; i < n_caches; i++)
        s->caches[i].free = carve_take(c, m->caches[i].n_blocks, sizeof *s->caches[i].free);
    s->waiting = carve_take(c, s->n_requests, sizeof *s->waiting);
    s->rope_frequency =
        carve_take(c, graph_angles_stride(&s->devices[0].graph) / 2, sizeof *s->rope_frequency);
    sampler_layout(&s->sampler, c, s->shape->vocab);
    struct outbox_event *told =
        carve_take(c, (uint64_t)s->n_requests * OUTBOX_EVENTS, sizeof(struct outbox_event));
    s->n_rows = ARITH_MIN(want->sequences, want->logits_rows);
    s->rows = carve_take(c, s->n_rows, sizeof *s->rows);
    float *rows = carve_take(c, (uint64_t)s->n_rows * ENGINE_READER_ROWS, s->shape->vocab * sizeof(float));
    bell_lay_out(&s->bell, c, s->n_requests);
    uint32_t places = 2; /* a submit of every slot; one place of a ring stays free */
    while (places < s->n_requests + 1)
        places *= 2;
    uint64_t commands = ring_bytes(places, sizeof(struct engine_command));
    uint64_t events = ring_bytes(ENGINE_EVENTS, sizeof(struct engine_event));
    void *command_memory = carve_take(c, commands, 1);
    void *event_memory = carve_take(c, events, 1);
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct engine_device *d = &s->devices[i];
        d->memory_bytes = host_bytes(s, d);
        d->memory = carve_take(c, d->memory_bytes, 1);
    }
    trace_lay_out(s, c);
    s->engine_stack = carve_take(c, ENGINE_STACK + 2 * PAGES_SIZE, 1); /* its guard page, and room to align */
    s->edge_work_bytes = ENGINE_EDGE_BASE + (uint64_t)want->context * ENGINE_EDGE_PER_TOKEN;
    s->edge_work = carve_take(c, s->edge_work_bytes, 1);
    if (c->base == NULL)
        return;
    s->commands = ring_init(command_memory, commands, places, sizeof(struct engine_command));
    s->events = ring_init(event_memory, events, ENGINE_EVENTS, sizeof(struct engine_event));
    for (uint32_t i = 0; i < s->n_requests; i++) {
        s->requests[i].tokens = tokens + (size_t)i * (want->context + 1);
        s->requests[i].out.events = told + (size_t)i * OUTBOX_EVENTS;
    }
    for (uint32_t i = 0; i < s->n_rows * ENGINE_READER_ROWS; i++)
        s->rows[i / ENGINE_READER_ROWS].row[i % ENGINE_READER_ROWS] = rows + (size_t)i * s->shape->vocab;
    s->shown.blocks = 0;
    for (uint32_t k = 0; k < n_caches; k++) {
        const struct device_cache *d = &m->caches[k];
        for (uint32_t i = 0; i < want->sequences; i++)
            s->sequences[i].caches[k].table = tables[k] + (size_t)i * d->per_sequence;
        s->caches[k].n_free = d->n_blocks;
        s->shown.blocks += d->n_blocks;
        for (uint32_t i = 0; i < d->n_blocks; i++)
            s->caches[k].free[i] = d->n_blocks - 1 - i;
    }
    atomic_store(&s->shown.free_blocks, s->shown.blocks);
}

static void add_engine_slice(struct plan *p, struct plan_arena *a, const char *name, uint64_t bytes) {
    if (bytes == 0)
        return;
    plan_add_slice(&p->places[p->n_places - 1], a, pages_rounded(bytes));
    plan_add_block(p, name, strlen(name), a->n_slices - 1, 0, bytes, 0, 0);
}

static uint64_t sum_of_bounds(const struct plan_place *place) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < place->n_arenas; i++)
        sum = arith_must_add(sum, place->arenas[i].lower_bound);
    return sum;
}

static stator_status add_host(struct stator *s, const struct engine_want *want, struct plan *p,
                              stator_error *e) {
    struct plan_place *host = plan_add_place(p, "host", true, s->host_limit);
    plan_add_arena(host, "staging", s->staging_bytes, s->staging_bytes);
    staging_add_blocks(s, p);
    struct carve c = carve_count();
    planner_lay_out_run(
        s, want, &c); /* writes NULLs, there is no state yet; a copy of *s would race with stator_cancel */
    struct plan_arena *a = plan_add_arena(host, "engine", 0, 0);
    add_engine_slice(p, a, "engine's struct", sizeof(struct stator));
    add_engine_slice(p, a, "model's directory", gguf_host_bytes(s->gguf));
    add_engine_slice(p, a, "shape, graph, plan", s->front_bytes);
    add_engine_slice(p, a, "tokenizer", s->tokenizer_bytes);
    add_engine_slice(p, a, "run's state", c.used);
    a->lower_bound = a->bytes;
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].facts.host_memory)
            plan_add_arena(host, p->places[i].name, p->places[i].total, sum_of_bounds(&p->places[i]));
    return spill_add_arenas(s, p, e);
}

static const struct plan_arena *largest_arena(const struct plan_place *place) {
    const struct plan_arena *largest = &place->arenas[0];
    for (uint32_t k = 1; k < place->n_arenas; k++)
        if (place->arenas[k].bytes > largest->bytes)
            largest = &place->arenas[k];
    return largest;
}

/* The place that is over its budget and its largest arena, which says most. A device in host memory is a part
 * of the host, whose figure is the one to act on. */
static void find_short(const struct stator *s, struct plan *p) {
    for (uint32_t i = 0; i < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        if (place->total <= place->budget || (!place->is_host && s->devices[i].facts.host_memory))
            continue;
        const struct plan_arena *largest = largest_arena(place);
        const struct plan_place *inside = place->is_host ? plan_find(p, largest->name) : NULL;
        p->fits = false;
        p->missing.bytes = place->total - place->budget;
        if (inside != NULL)
            snprintf(p->missing.where, sizeof p->missing.where, "%.20s: %.20s %.31s", place->name,
                     inside->name, largest_arena(inside)->name);
        else
            snprintf(p->missing.where, sizeof p->missing.where, "%.31s: %.31s", place->name, largest->name);
        return;
    }
}

/* The devices' places on these ends of layers. */
static stator_status add_devices(struct stator *s, const struct engine_want *want, const uint32_t *ends,
                                 struct plan *p, stator_error *e) {
    plan_init(p);
    if (p == &s->plan)
        plan_keep_blocks(p, s->plan_blocks, s->max_plan_blocks);
    for (uint32_t i = 0; i < s->n_devices; i++) {
        stator_status st = plan_device_add(s, want, i, i == 0 ? 0 : ends[i - 1], ends[i], p, e);
        if (st != STATOR_OK)
            return st;
    }
    return STATOR_OK;
}

/* A first look decides the split; where it was too kind to a device, it is told by how much, and the plan is
 * made again. */
static stator_status add_split(struct stator *s, const struct engine_want *want, uint32_t *ends,
                               struct plan *p, stator_error *e) {
    uint64_t spare[PLAN_MAX_PLACES] = {0};
    uint64_t guess[PLAN_MAX_PLACES] = {0};
    p->missing = (struct plan_short){0};
    for (uint32_t round = 0;; round++) {
        bool fit = false;
        stator_status st = plan_device_split(s, want, spare, ends, guess, &fit, &p->missing, e);
        if (st == STATOR_OK)
            st = add_devices(s, want, ends, p, e);
        if (st != STATOR_OK || !fit || round == 2 * s->n_devices)
            return st;
        bool over = false;
        for (uint32_t i = 0; i < s->n_devices; i++) {
            if (p->places[i].total <= p->places[i].budget || s->devices[i].facts.memory == 0)
                continue;
            spare[i] += p->places[i].total - guess[i];
            over = true;
        }
        if (!over)
            return STATOR_OK;
    }
}

static bool gpu_over(const struct stator *s, const struct plan *p) {
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (!s->devices[i].facts.host_memory && p->places[i].total > p->places[i].budget)
            return true;
    return false;
}

/* Nothing is spilled that another split would find room for. */
static stator_status add_places(struct stator *s, const struct engine_want *want, struct plan *p,
                                stator_error *e) {
    struct engine_want kept = *want;
    kept.spill = false;
    uint32_t ends[PLAN_MAX_PLACES] = {s->shape->n_layers};
    stator_status st =
        s->n_devices == 1 ? add_devices(s, &kept, ends, p, e) : add_split(s, &kept, ends, p, e);
    if (st == STATOR_OK && want->spill && gpu_over(s, p))
        st = add_devices(s, want, ends, p, e);
    return st;
}

stator_status planner_make(struct stator *s, const struct engine_want *want, struct plan *p,
                           stator_error *e) {
    stator_status st = add_places(s, want, p, e);
    if (st != STATOR_OK)
        return st;
    uint64_t least = 0;
    for (uint32_t i = 0; i < s->n_devices; i++)
        least = ARITH_MAX(least, loader_least_window(&s->devices[i]));
    if (s->load_window < least)
        return error_set(
            e, STATOR_USAGE,
            "memory.staging is %llu bytes; this model needs at least %llu (16 rows of its widest matrix)",
            (unsigned long long)s->load_window, (unsigned long long)least);
    p->kv_tokens = arith_round_up(want->context, KERNELS_KV_BLOCK) * want->sequences;
    for (uint32_t i = 0; i + 1 < s->n_devices; i++) {
        const char *why = "";
        struct plan_place *place = &p->places[i];
        snprintf(place->route, sizeof place->route, "%s", routes_planned(s, i, &why));
        snprintf(place->route_why, sizeof place->route_why, "%s", why);
    }
    staging_lay_out(s);
    st = add_host(s, want, p, e);
    if (st != STATOR_OK)
        return st;
    spill_estimate(s, p);
    plan_check(p);
    find_short(s, p);
    if (p == &s->plan)
        planner_inputs(s, want, p);
    return STATOR_OK;
}

static void hash_directory(const struct gguf *g, struct hash *h) {
    for (uint64_t i = 0; i < gguf_keys(g); i++) {
        struct gguf_value v;
        struct gguf_text key = gguf_key(g, i, &v);
        hash_u64(h, key.length);
        hash_bytes(h, key.data, key.length);
        hash_u64(h, v.kind);
        hash_u64(h, v.kind == GGUF_ARRAY ? v.item : 0);
        hash_u64(h, v.count);
        hash_u64(h, v.bytes);
        hash_bytes(h, v.data, v.bytes);
    }
    for (uint64_t i = 0; i < gguf_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        hash_u64(h, t->name.length);
        hash_bytes(h, t->name.data, t->name.length);
        hash_u64(h, t->type);
        for (int k = 0; k < 4; k++)
            hash_u64(h, t->ne[k]);
        hash_u64(h, t->offset);
        hash_u64(h, t->shard);
    }
}

static void directory_hash(const struct gguf *g, char out[HASH_TEXT]) {
    struct hash h;
    hash_init(&h);
    hash_directory(g, &h);
    hash_final(&h, out);
}

static void add_facts(struct plan *p, const struct device_facts *f) {
    const struct {
        const char *name;
        uint64_t v;
    } numbers[] = {{"memory", f->memory},
                   {"max_alloc", f->max_alloc},
                   {"bandwidth", f->bandwidth},
                   {"alignment", f->alignment}};
    char name[48];
    snprintf(name, sizeof name, "%.31s.kind", f->name);
    plan_add_text(p, name, f->kind);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(name, sizeof name, "%.31s.%s", f->name, numbers[i].name);
        plan_add_number(p, name, numbers[i].v);
    }
}

/* No paths, thread counts, tiers, live free memory. The host's limit decides whether a plan fits, not what it
 * is. */
void planner_inputs(const struct stator *s, const struct engine_want *want, struct plan *p) {
    char directory[HASH_TEXT];
    directory_hash(s->gguf, directory);
    snprintf(p->model, sizeof p->model, "%s", s->shape->model_name);
    p->n_inputs = 0;
    plan_add_number(p, "planner", PLANNER_VERSION);
    plan_add_text(p, "model", directory);
    plan_add_number(p, "context", want->context);
    plan_add_number(p, "sequences", want->sequences);
    plan_add_number(p, "batch", want->batch);
    plan_add_number(p, "logits_rows", want->logits_rows);
    plan_add_number(p, "max_queue", s->config.server.max_queue);
    char kv_type[32];
    bool same = want->kv_type_k == want->kv_type_v;
    snprintf(kv_type, sizeof kv_type, same ? "%s" : "%s/%s", kernels_kv_name(want->kv_type_k),
             kernels_kv_name(want->kv_type_v));
    plan_add_text(p, "kv_type", kv_type); /* "f16", or K/V: "q8_0/f16" */
    plan_add_number(p, "staging", s->load_window);
    bool gpu = false;
    for (uint32_t i = 0; i < s->n_devices; i++)
        gpu = gpu || !s->devices[i].facts.host_memory;
    if (gpu)
        plan_add_number(p, "driver_reserve", s->config.memory.driver_reserve);
    if (gpu && want->spill)
        plan_add_text(p, "on_oom", "spill");
    if (s->n_devices > 1) {
        char split[64] = "auto";
        for (uint32_t i = 0, n = 0; i < s->config.devices.n_shares; i++)
            n += (uint32_t)snprintf(split + n, sizeof split - n, "%s%u", i > 0 ? "," : "",
                                    s->config.devices.share[i]);
        plan_add_text(p, "split", split);
        plan_add_text(p, "transfer", config_enum_name(CONFIG_TRANSFER_MODE, (int)s->config.transfer.mode));
    }
    for (uint32_t i = 0; i < s->n_devices; i++)
        add_facts(p, &s->devices[i].facts);
    plan_hash_inputs(p);
}

uint32_t planner_max_blocks(const struct graph *g, uint32_t n_devices) {
    /* Per device: its own residual and boundary values, the tied matrix twice, cuts at the ends of slices of
     * weights and KV, the cut of what is spilled, and the parts of the step descriptor. */
    return g->max_values + g->max_weights + g->max_cached +
           n_devices * (2 * PLAN_MAX_SLICES + 26 + 4 * (GRAPH_MAX_CACHES - 1)) + 16;
}
