#include "engine/start/start.h"

#include "base/hash.h"
#include "device/cluster.h"
#include "device/device_helper.h"
#include "os/pages.h"
#include "engine/start/enforce.h"
#include "engine/start/loader.h"
#include "engine/start/routes.h"
#include "plan/spill.h"
#include "engine/run/trace.h"

#include <stdio.h>

static stator_status open_devices(struct stator *s, stator_error *e) {
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++) {
        struct engine_device *d = &s->devices[i];
        if (s->planning.devices[i].facts.remote && s->planning.stage > 0)
            continue; /* rank 0 drives it */
        struct device_choice choice = s->planning.devices[i].choice;
        choice.turns = s->beside != NULL || s->later != NULL;
        const uint32_t first = i < s->planning.n_devices ? planning_stage_first(&s->planning, i) : 0;
        for (uint32_t k = first; k < i && choice.joins && choice.with == NULL; k++)
            choice.with = s->planning.devices[k].facts.host_memory ? s->devices[k].device : NULL;
        const struct device_opening opening = {.choice = &choice,
                                               .model = &s->planning.devices[i].model,
                                               .phase = &s->phase,
                                               .trace = s->start.traces,
                                               .memory = d->memory,
                                               .bytes = d->memory_bytes};
        stator_status st = device_open(&opening, &d->device, e);
        if (st != STATOR_OK)
            return st;
        if (i < s->planning.n_devices && planning_group(&s->planning, i) > 1) {
            struct device_group *g = &s->groups[planning_stage(&s->planning, i)];
            g->devices[g->count++] = d->device;
        }
    }
    return STATOR_OK;
}

/* Of the GPUs whose experts the processors compute; all have the team of the first. */
static stator_status open_helpers(struct stator *s, stator_error *e) {
    struct device_helper *first = NULL;
    struct device_choice helper = s->planning.helper;
    stator_status st = STATOR_OK;
    helper.turns = s->beside != NULL || s->later != NULL;
    for (uint32_t i = 0; i < s->planning.n_devices && st == STATOR_OK; i++) {
        struct engine_device *d = &s->devices[i];
        const struct device_model *m = &s->planning.devices[i].model;
        if (!m->hosted)
            continue;
        st = device_helper_open(&helper, m, first, &s->phase, d->helper_memory, d->helper_bytes, &d->helper,
                                e);
        first = first != NULL ? first : d->helper;
    }
    return st;
}

/* Pinned by the first device that wants that. */
static stator_status create_staging(struct stator *s, stator_error *e) {
    struct device *owner = NULL;
    for (uint32_t i = 0; i < planning_parts(&s->planning) && owner == NULL; i++)
        if (s->devices[i].device != NULL && s->devices[i].device->vtable->host_create != NULL)
            owner = s->devices[i].device;
    s->start.staging_is_pages = owner == NULL;
    placement_begin_staging(&s->start.placement);
    stator_status st =
        owner != NULL ? owner->vtable->host_create(owner, s->planning.staging_bytes, &s->start.staging, e)
                      : pages_map(s->planning.staging_bytes, "staging", &s->start.staging, e);
    placement_end_staging(&s->start.placement, s->start.staging, s->planning.staging_bytes, owner == NULL);
    if (st == STATOR_OK)
        plan_arena_find(plan_find(&s->planning.plan, "host"), "staging")->allocated =
            s->planning.staging_bytes;
    return st;
}

/* The slices behind the device's own: of KV, then of weights. */
static stator_status create_spill(struct stator *s, uint32_t device, stator_error *e) {
    struct planning_device *p = &s->planning.devices[device];
    struct device *d = s->devices[device].device;
    struct plan_arena *a = spill_arena(&s->planning.plan, device);
    if (a == NULL)
        return STATOR_OK;
    uint32_t first_kv = device_cache_slices(&p->model, false);
    uint32_t n_kv = device_cache_slices(&p->model, true) - first_kv;
    uint32_t weights = p->graph.weight_slices - p->graph.spilled_slices;
    for (uint32_t k = 0; k < a->n_slices; k++) {
        stator_status st =
            d->vtable->slice_spill(d, k < n_kv ? DEVICE_KV : DEVICE_WEIGHTS,
                                   k < n_kv ? first_kv + k : weights + k - n_kv, a->slices[k], e);
        if (st == STATOR_DOES_NOT_FIT)
            p->refused = (struct planning_refusal){.bytes = a->slices[k], .in_host = true};
        if (st != STATOR_OK)
            return st;
        a->allocated += a->slices[k];
    }
    return STATOR_OK;
}

/* What the device has given so far, and what it still has. */
static void note_refusal(struct stator *s, uint32_t device, uint64_t bytes) {
    struct device *d = s->devices[device].device;
    const struct plan_place *place = &s->planning.plan.places[device];
    struct planning_refusal *r = &s->planning.devices[device].refused;
    *r = (struct planning_refusal){.bytes = bytes};
    for (uint32_t k = 0; k < place->n_arenas; k++)
        r->given += place->arenas[k].allocated;
    if (d->vtable->free_bytes != NULL)
        r->left = d->vtable->free_bytes(d);
}

static stator_status create_arenas(struct stator *s, uint32_t device, stator_error *e) {
    struct device *d = s->devices[device].device;
    if (s->planning.devices[device].facts.remote)
        return STATOR_OK;
    for (int i = 0; i < DEVICE_ARENAS; i++) {
        struct plan_arena *a =
            plan_arena_find(&s->planning.plan.places[device], device_arena_name((enum device_arena)i));
        CHECK(a != NULL || i == DEVICE_WINDOW || i == DEVICE_SLOTS);
        for (uint32_t k = 0; a != NULL && k < a->n_slices; k++) {
            stator_status st = d->vtable->slice_create(d, (enum device_arena)i, k, a->slices[k], e);
            if (st == STATOR_DOES_NOT_FIT && !s->planning.devices[device].facts.host_memory)
                note_refusal(s, device, a->slices[k]);
            if (st != STATOR_OK)
                return st;
            placement_slice(&s->start.placement, &s->planning.devices[device],
                            d->vtable->map(d, (enum device_arena)i, k), a->slices[k]);
            a->allocated += a->slices[k];
        }
    }
    placement_begin_spill(&s->start.placement, &s->planning.devices[device]);
    stator_status st = create_spill(s, device, e);
    placement_end_spill(&s->start.placement);
    return st;
}

/* What the driver took beside our slices. */
static uint64_t driver_bytes(const struct stator *s, uint32_t i) {
    const struct device *d = s->devices[i].device;
    uint64_t taken = d->vtable->taken_bytes(d);
    uint64_t ours = planning_allocated(&s->planning, i);
    return taken > ours ? taken - ours : 0;
}

static stator_status prepare(struct stator *s, uint32_t i, stator_error *e) {
    struct engine_device *d = &s->devices[i];
    const struct planning_device *p = &s->planning.devices[i];
    if (d->device == NULL)
        return STATOR_OK;
    const bool draft = i >= s->planning.n_devices;
    const bool shared = !draft && planning_group(&s->planning, i) > 1;
    if (d->helper != NULL)
        device_helper_attach(d->helper, d->device, (uint8_t *)s->start.staging + p->at_pinned, &p->pinned);
    struct device_setup setup = {.helper = d->helper,
                                 .in = p->graph.landing != GRAPH_NONE ? &d->in : NULL,
                                 .out = p->graph.outgoing != GRAPH_NONE ? &d->out : NULL,
                                 .group = shared ? &s->groups[planning_stage(&s->planning, i)] : NULL,
                                 .pinned =
                                     p->pinned.bytes > 0 ? (uint8_t *)s->start.staging + p->at_pinned : NULL,
                                 .moved = device_moves_n(&p->model.moves) > 0
                                              ? (uint8_t *)s->start.staging + s->planning.kv_disk.at_staging
                                              : NULL,
                                 .log = &s->log,
                                 .kernel_cache = s->planning.config.cache.dir};
    stator_status st = d->device->vtable->prepare(d->device, &setup, e);
    if (st == STATOR_OK)
        atomic_store(&d->driver_bytes, driver_bytes(s, i));
    return st;
}

/* The loader ends such a start, and says why. */
static bool is_stopped(const struct stator *s) {
    return atomic_load(&s->start.cancel_start) != 0 || device_cluster_lost();
}

/* Of every tensor a piece from its middle, so that files of one shape with other weights differ. */
static stator_status sample_weights(const struct stator *s, char out[HASH_TEXT], stator_error *e) {
    const struct gguf *g = s->planning.gguf;
    uint8_t piece[512];
    struct hash h;
    stator_status st = STATOR_OK;
    hash_init(&h);
    for (uint64_t i = 0; i < gguf_tensors(g) && st == STATOR_OK && !is_stopped(s); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        uint64_t n = ARITH_MIN(t->bytes, (uint64_t)sizeof piece);
        st = gguf_load(g, t, (t->bytes - n) / 2, n, piece, e);
        hash_bytes(&h, piece, n);
    }
    hash_final(&h, out);
    return st;
}

/* All hosts have the same plan: its hash, and what lies where. */
static stator_status meet(const struct stator *s, stator_error *e) {
    const struct plan *p = &s->planning.plan;
    char text[64];
    uint32_t ends = 0;
    if (s->planning.config.cluster.n == 0)
        return STATOR_OK;
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        ends = ends * 131 + p->places[i].n_layers + (uint32_t)(p->places[i].total / 64);
    snprintf(text, sizeof text, "%.40s/%08x", p->hash, ends);
    char weights[HASH_TEXT];
    stator_status st = device_cluster_meet(text, s->run.deadline_ns, e);
    if (st == STATOR_OK)
        st = device_cluster_watch(s->run.deadline_ns, e);
    if (st == STATOR_OK)
        st = sample_weights(s, weights, e);
    if (st == STATOR_OK && !is_stopped(s))
        device_cluster_weights(weights);
    return st;
}

stator_status start_devices(struct stator *s, stator_error *e) {
    placement_decide(&s->start.placement, &s->planning, s->root);
    stator_status st = trace_open(s, e);
    if (st == STATOR_OK)
        st = meet(s, e);
    if (st == STATOR_OK)
        st = open_devices(s, e);
    if (st == STATOR_OK)
        st = open_helpers(s, e);
    if (st == STATOR_OK)
        st = create_staging(s, e);
    for (uint32_t i = 0; i < planning_parts(&s->planning) && st == STATOR_OK; i++)
        st = create_arenas(s, i, e);
    if (st == STATOR_OK)
        enforce_poison(s);
    for (uint32_t i = 0; i < planning_parts(&s->planning) && st == STATOR_OK; i++)
        st = s->planning.devices[i].facts.remote ? STATOR_OK : loader_run(s, i, e);
    if (st == STATOR_OK)
        st = gguf_unchanged(s->planning.gguf, e);
    for (uint32_t i = s->planning.n_devices; i < planning_parts(&s->planning) && st == STATOR_OK; i++)
        st = gguf_unchanged(planning_gguf(&s->planning, i), e);
    if (st == STATOR_OK)
        st = routes_decide(s, e);
    if (st == STATOR_OK)
        trace_routes(s);
    for (uint32_t i = 0; i < planning_parts(&s->planning) && st == STATOR_OK; i++)
        st = prepare(s, i, e);
    return st;
}

void start_close_devices(struct stator *s) {
    trace_close(s);
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++) {
        struct device *d = s->devices[i].device;
        if (d != NULL && d->vtable->settle != NULL)
            d->vtable->settle(d);
    }
    for (uint32_t i = planning_parts(&s->planning); i-- > 0;) {
        struct engine_device *d = &s->devices[i];
        if (d->device != NULL)
            d->device->vtable->close(d->device);
        d->device = NULL;
    }
    for (uint32_t i = s->planning.n_devices; i-- > 0;) {
        device_helper_close(s->devices[i].helper);
        s->devices[i].helper = NULL;
    }
    if (!s->start.staging_is_pages)
        s->start.staging = NULL;
}
