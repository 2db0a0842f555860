/* Opening and closing a GPU, its arenas and uploads, its place in the contract of device.h. */
#include "device/level_zero/lz_device.h"

#include "device/level_zero/lz_cache.h"
#include "device/level_zero/lz_exchange.h"
#include "device/level_zero/system/lz_facts.h"
#include "device/level_zero/lz_helped.h"
#include "device/level_zero/system/lz_info.h"
#include "device/level_zero/lz_moves.h"
#include "device/level_zero/lz_peer.h"
#include "device/level_zero/lz_steps.h"
#include "device/level_zero/lz_stream.h"
#include "kernels/shared/opencl.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MAX_HELPERS  16 /* threads that load */
#define HELPER_STACK (512 * 1024)

static struct lz_device *self(struct device *d) {
    return (struct lz_device *)d;
}

static const struct lz_device *const_self(const struct device *d) {
    return (const struct lz_device *)d;
}

static void fill_choice(const struct lz_system *s, uint32_t index, const struct device_options *o,
                        uint32_t cores, struct device_choice *c) {
    const struct lz_gpu *g = &s->gpus[index];
    char version[24];
    memset(c, 0, sizeof *c);
    lz_facts_of(g, &c->facts);
    const uint32_t threads = o->threads != 0 ? o->threads : cores;
    c->threads = ARITH_MIN(ARITH_MAX(threads, 1u), (uint32_t)MAX_HELPERS);
    snprintf(c->tier, sizeof c->tier, "level_zero");
    snprintf(c->about, sizeof c->about, "%.80s %s, driver %s, loader %s", g->model, g->pci,
             lz_system_driver_version(g->driver, version), s->ze.loader);
    c->deadline_ns = o->deadline_ns != 0 ? o->deadline_ns : DEVICE_DEADLINE;
    snprintf(c->pci, sizeof c->pci, "%s", g->pci);
    c->where[0] = index;
}

static stator_status choose(const char *name, const struct device_options *o, uint32_t cores,
                            struct device_choice *c, uint32_t max, uint32_t *n, stator_error *e) {
    struct lz_system *s = NULL;
    bool automatic = strcmp(name, "auto") == 0;
    if (opencl_n_modules == 0)
        return automatic
                   ? STATOR_OK
                   : error_set(e, STATOR_DEVICE, "devices.use = \"%.60s\": this build has no GPU kernels: %s",
                               name, opencl_missing);
    stator_status st = lz_system_get(&s, e);
    if (automatic && st != STATOR_OK)
        return STATOR_OK;
    struct lz_gpu *g = NULL;
    if (st == STATOR_OK && !automatic)
        st = lz_system_find(s, name, &g, e);
    else if (st != STATOR_OK)
        error_prefix(e, "devices.use = \"%.60s\"", name);
    if (st != STATOR_OK)
        return st;
    for (uint32_t i = 0; i < s->n_gpus && *n < max; i++)
        if (g == NULL ? !s->gpus[i].integrated : g == &s->gpus[i])
            fill_choice(s, i, o, cores, &c[(*n)++]);
    return STATOR_OK;
}

static stator_status takes(const struct device_choice *c, const struct device_model *m, stator_error *e) {
    struct lz_system *s = NULL;
    stator_status st = lz_system_get(&s, e);
    if (st != STATOR_OK)
        return st;
    CHECK(c->where[0] < s->n_gpus);
    struct launch_traits t = lz_facts_traits(&s->gpus[c->where[0]]);
    const struct graph *g = m->graph;
    uint32_t bounds[LAUNCH_BUCKETS];
    for (int part = LAUNCH_BODY; part <= LAUNCH_GUESS; part++) {
        uint32_t n = part == LAUNCH_BODY ? launch_buckets(g->want.batch, m->stream.tokens, bounds)
                                         : launch_buckets(g->want.logits_rows, 0, bounds);
        for (uint32_t i = 0, launches = 0; i < n && st == STATOR_OK; i++)
            st = launch_build(m, &t, (enum launch_part)part, bounds[i], NULL, &launches, e);
    }
    return st;
}

static struct lz_device *lay_out(struct carve *c, const struct device_model *m, bool trace,
                                 struct lz_steps *steps, struct lz_helped *helped) {
    struct lz_device *d = carve_take(c, 1, sizeof *d);
    lz_steps_lay_out(steps, c, m, trace);
    lz_helped_lay_out(helped, c, m);
    struct lz_move *moves = lz_moves_lay_out(c, m);
    if (d != NULL)
        d->moves = moves;
    return d;
}

static uint64_t host_bytes(const struct device_choice *c, const struct device_model *m, bool trace) {
    (void)c;
    struct carve count = carve_count();
    struct lz_steps steps;
    struct lz_helped helped;
    lay_out(&count, m, trace, &steps, &helped);
    return count.used;
}

/* Free device memory, if the driver or sysman really counts it. */
static uint64_t known_free(const struct lz_device *d) {
    enum lz_free source = LZ_FREE_GUESS;
    uint64_t bytes = lz_system_free(d->system, d->gpu, &source);
    return source == LZ_FREE_GUESS ? 0 : bytes;
}

static stator_status refuse_slice(const struct lz_device *d, const char *what, uint64_t bytes,
                                  stator_error *e) {
    error_prefix(e, "%s: %s, %" PRIu64 " bytes of %" PRIu64 " that the plan has for this GPU so far",
                 d->gpu->name, what, bytes, d->slice_bytes + bytes);
    return STATOR_DOES_NOT_FIT;
}

static stator_status lz_slice_create(struct device *device, enum device_arena a, uint32_t slice,
                                     uint64_t bytes, stator_error *e) {
    struct lz_device *d = self(device);
    CHECK(slice < GRAPH_MAX_SLICES && bytes > 0 && bytes % sizeof(uint32_t) == 0);
    struct lz_slice *s = &d->slices[a][slice];
    CHECK(s->memory == NULL);
    char what[64];
    snprintf(what, sizeof what, "arena %s, slice %u", device_arena_name(a), slice);
    uint64_t left = known_free(d);
    if (left != 0 && left < bytes) {
        error_set(e, STATOR_DOES_NOT_FIT,
                  "only %" PRIu64
                  " bytes of the GPU are free now: something else uses it, or the plan is too large",
                  left);
        return refuse_slice(d, what, bytes, e);
    }
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void *memory = NULL;
    ze_result_t r =
        d->system->ze.zeMemAllocDevice(d->context, &desc, bytes, LZ_FACTS_ALIGNMENT, d->gpu->handle, &memory);
    if (r != ZE_RESULT_SUCCESS) {
        stator_status st = lz_queue_error(&d->queue, "zeMemAllocDevice", r, e);
        return st == STATOR_DOES_NOT_FIT ? refuse_slice(d, what, bytes, e) : st;
    }
    s->memory = memory;
    s->bytes = bytes;
    d->slice_bytes += bytes;
    stator_status st = lz_queue_fill(&d->queue, memory, bytes, e);
    return st == STATOR_OK ? lz_queue_wait(&d->queue, e) : st;
}

static stator_status lz_slice_spill(struct device *device, enum device_arena a, uint32_t slice,
                                    uint64_t bytes, stator_error *e) {
    struct lz_device *d = self(device);
    CHECK(slice < GRAPH_MAX_SLICES && bytes > 0);
    struct lz_slice *s = &d->slices[a][slice];
    CHECK(s->memory == NULL);
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *memory = NULL;
    ze_result_t r = d->system->ze.zeMemAllocHost(d->context, &desc, bytes, 4096, &memory);
    if (r != ZE_RESULT_SUCCESS) {
        char what[96];
        snprintf(what, sizeof what, "zeMemAllocHost(spill of %s, slice %u, %" PRIu64 " bytes)",
                 device_arena_name(a), slice, bytes);
        return lz_queue_error(&d->queue, what, r, e);
    }
    memset(memory, 0, bytes);
    *s = (struct lz_slice){.memory = memory, .bytes = bytes, .spilled = true};
    return STATOR_OK;
}

static const void *lz_spilled(const struct device *device, enum device_arena a, uint32_t slice,
                              uint64_t *bytes) {
    const struct lz_slice *s = &const_self(device)->slices[a][slice];
    *bytes = s->bytes;
    return s->spilled ? s->memory : NULL;
}

static uint64_t lz_free_bytes(struct device *device) {
    return known_free(self(device));
}

static void *lz_map(struct device *d, enum device_arena a, uint32_t slice) {
    (void)d;
    (void)a;
    (void)slice;
    return NULL;
}

static stator_status lz_host_create(struct device *device, uint64_t bytes, void **out, stator_error *e) {
    struct lz_device *d = self(device);
    CHECK(d->host == NULL && bytes > 0);
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_result_t r = d->system->ze.zeMemAllocHost(d->context, &desc, bytes, 4096, &d->host);
    if (r != ZE_RESULT_SUCCESS) {
        char what[64];
        snprintf(what, sizeof what, "zeMemAllocHost(staging, %" PRIu64 " bytes)", bytes);
        d->host = NULL;
        return lz_queue_error(&d->queue, what, r, e);
    }
    memset(d->host, 0, bytes);
    *out = d->host;
    return STATOR_OK;
}

static stator_status lz_upload(struct device *device, enum device_arena a, uint32_t slice, uint64_t offset,
                               const void *src, uint64_t bytes, stator_error *e) {
    struct lz_device *d = self(device);
    const struct lz_slice *s = &d->slices[a][slice];
    CHECK(s->memory != NULL && bytes <= s->bytes && offset <= s->bytes - bytes);
    return lz_queue_copy(&d->queue, s->memory + offset, src, bytes, e);
}

static stator_status lz_upload_wait(struct device *d, stator_error *e) {
    return lz_queue_wait(&self(d)->queue, e);
}

/* A member of lz_parallel. */
struct helper {
    void (*f)(void *context, uint32_t member, uint32_t n);
    void *context;
    uint32_t member, n;
    pthread_t thread;
};

static void *help(void *argument) {
    struct helper *h = argument;
    h->f(h->context, h->member, h->n);
    return NULL;
}

/* Only while loading, so the threads end with the call. Fewer threads than wanted will do. */
static void lz_parallel(struct device *device, void (*f)(void *context, uint32_t member, uint32_t n),
                        void *context) {
    struct helper helpers[MAX_HELPERS];
    uint32_t n = ARITH_MIN(self(device)->threads, (uint32_t)MAX_HELPERS);
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    CHECK(rc == 0);
    rc = pthread_attr_setstacksize(&attr, HELPER_STACK);
    CHECK(rc == 0);
    bool started[MAX_HELPERS] = {false};
    for (uint32_t i = 1; i < n; i++) {
        helpers[i] = (struct helper){.f = f, .context = context, .member = i, .n = n};
        started[i] = pthread_create(&helpers[i].thread, &attr, help, &helpers[i]) == 0;
    }
    f(context, 0, n);
    for (uint32_t i = 1; i < n; i++) {
        if (started[i])
            pthread_join(helpers[i].thread, NULL);
        else
            f(context, i, n); /* its part has to be done by another thread */
    }
    pthread_attr_destroy(&attr);
}

/* A value of exchange and its bytes, both halves. */
static uint8_t *exchange_value(struct lz_device *d, uint32_t value, uint64_t *bytes) {
    const struct graph_value *v = &d->model->graph->values[value];
    CHECK(v->arena == GRAPH_EXCHANGE);
    *bytes = v->bytes;
    return d->slices[DEVICE_EXCHANGE][0].memory + v->offset;
}

static stator_status lz_peer_probe_pair(struct device *device, struct device *to, bool verify, void *work,
                                        uint64_t bytes, struct device_route *r, stator_error *e) {
    struct lz_device *d = self(device);
    struct lz_device *t = self(to);
    uint64_t source = 0;
    uint64_t target = 0;
    struct lz_peer p = {.from = &d->queue, .to = &t->queue, .work = work, .verify = verify};
    const struct graph *from = d->model->graph, *at = t->model->graph;
    p.source = exchange_value(d, from->zone != GRAPH_NONE ? from->zone : from->outgoing, &source);
    p.target = exchange_value(t, at->zone != GRAPH_NONE ? at->zone : at->landing, &target);
    p.bytes = ARITH_MIN(ARITH_MIN(source, target), bytes / 2) / 64 * 64;
    if (p.bytes < LZ_PEER_LEAST) {
        *r = (struct device_route){.direct = false};
        snprintf(r->why, sizeof r->why,
                 "the residual stream has less than %d bytes, too few to probe a pair with", LZ_PEER_LEAST);
        return STATOR_OK;
    }
    stator_status st = lz_peer_probe(&p, r, e);
    if (p.hangs)
        d->system->hangs = true;
    return st;
}

static stator_status lz_prepare(struct device *device, const struct device_setup *setup, stator_error *e) {
    struct lz_device *d = self(device);
    CHECK(d->slices[DEVICE_EXCHANGE][0].memory != NULL && setup->pinned != NULL);
    d->setup = *setup;
    const char *kept = setup->kernel_cache;
    if (kept != NULL && kept[0] != '\0' && !lz_cache_trusted(kept, setup->log))
        d->setup.kernel_cache = NULL;
    for (uint32_t k = 0; k < d->model->slots; k++)
        memcpy((uint8_t *)setup->pinned + d->pinned.step[k], &d->model->step,
               step_header_bytes(d->model->graph->n_caches));
    stator_status st = lz_queue_wait(&d->queue, e);
    if (st == STATOR_OK)
        st = lz_stream_open(d, e);
    if (st == STATOR_OK)
        st = lz_helped_open(d, e);
    if (st == STATOR_OK)
        st = lz_exchange_open(d, e);
    if (st == STATOR_OK)
        st = lz_steps_record(d, e);
    return st;
}

static void *lz_step_slot(struct device *d, uint32_t slot) {
    return (uint8_t *)self(d)->setup.pinned + self(d)->pinned.step[slot];
}

static stator_status lz_submit(struct device *d, uint32_t slot, stator_error *e) {
    return lz_steps_submit(self(d), slot, e);
}

static stator_status lz_wait(struct device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                             stator_error *e) {
    return lz_steps_wait(self(d), slot, timeout_ns, ended, e);
}

static stator_status lz_move(struct device *d, uint32_t buffer, bool out, const struct device_piece *pieces,
                             uint32_t n, stator_error *e) {
    return lz_moves_begin(self(d), buffer, out, pieces, n, e);
}

static stator_status lz_moved(struct device *d, uint32_t buffer, uint64_t timeout_ns, bool *ended,
                              stator_error *e) {
    return lz_moves_wait(self(d), buffer, timeout_ns, ended, e);
}

static const float *lz_logits(struct device *d, uint32_t slot) {
    return (const float *)(void *)((uint8_t *)self(d)->setup.pinned + self(d)->pinned.logits[slot]);
}

static const struct step_pick *lz_picks(struct device *d, uint32_t slot) {
    return (const struct step_pick *)((uint8_t *)self(d)->setup.pinned + self(d)->pinned.picks[slot]);
}

static uint32_t lz_spans(struct device *d, uint32_t slot, struct device_span *out, uint32_t max) {
    return lz_steps_spans(self(d), slot, out, max);
}

static void lz_counters(const struct device *d, struct device_counters *c) {
    *c = const_self(d)->counters;
}

static uint64_t lz_taken_bytes(const struct device *device) {
    const struct lz_device *d = const_self(device);
    uint64_t left = known_free(d);
    return left != 0 && d->free_before > left ? d->free_before - left : 0;
}

static void lz_settle(struct device *device) {
    struct lz_device *d = self(device);
    lz_helped_settle(d);
    lz_steps_settle(d);
    lz_moves_settle(d);
    lz_stream_settle(d);
    lz_queue_settle_transfers(&d->queue);
    if (d->queue.hangs)
        d->system->hangs = true;
}

static void lz_close(struct device *device) {
    struct lz_device *d = self(device);
    const struct lz_calls *ze = &d->system->ze;
    lz_settle(device);
    lz_moves_close(d);
    lz_steps_close(d);
    lz_stream_close(d);
    lz_helped_close(d);
    lz_exchange_close(d);
    lz_queue_close(&d->queue);
    if (d->system->hangs)
        return;
    for (int a = 0; a < DEVICE_ARENAS; a++)
        for (int s = 0; s < GRAPH_MAX_SLICES; s++)
            if (d->slices[a][s].memory != NULL)
                (void)ze->zeMemFree(d->context, d->slices[a][s].memory);
    if (d->host != NULL)
        (void)ze->zeMemFree(d->context, d->host);
    lz_system_context_release(d->system, d->gpu);
}

static const struct device_vtable vtable = {
    .slice_create = lz_slice_create,
    .slice_spill = lz_slice_spill,
    .spilled = lz_spilled,
    .free_bytes = lz_free_bytes,
    .map = lz_map,
    .host_create = lz_host_create,
    .upload = lz_upload,
    .upload_wait = lz_upload_wait,
    .parallel = lz_parallel,
    .peer_probe = lz_peer_probe_pair,
    .prepare = lz_prepare,
    .step_slot = lz_step_slot,
    .submit = lz_submit,
    .wait = lz_wait,
    .move = lz_move,
    .moved = lz_moved,
    .logits = lz_logits,
    .picks = lz_picks,
    .spans = lz_spans,
    .counters = lz_counters,
    .taken_bytes = lz_taken_bytes,
    .settle = lz_settle,
    .close = lz_close,
};

static stator_status open_gpu(const struct device_opening *o, struct device **out, stator_error *e) {
    const struct device_choice *c = o->choice;
    *out = NULL;
    struct lz_system *s = NULL;
    stator_status st = lz_system_get(&s, e);
    if (st != STATOR_OK)
        return st;
    CHECK(c->where[0] < s->n_gpus);
    memset(o->memory, 0, o->bytes);
    struct carve carve = carve_in(o->memory, o->bytes);
    struct lz_steps steps;
    struct lz_helped helped;
    struct lz_device *d = lay_out(&carve, o->model, o->trace, &steps, &helped);
    d->device.vtable = &vtable;
    d->phase = o->phase;
    d->system = s;
    d->gpu = &s->gpus[c->where[0]];
    d->threads = c->threads;
    d->model = o->model;
    d->steps = steps;
    d->helped = helped;
    device_pinned_lay_out(&c->facts, o->model, &d->pinned);
    st = lz_system_context_acquire(s, d->gpu, &d->context, e);
    if (st != STATOR_OK)
        return st;
    st = lz_queue_open(&d->queue, &s->ze, d->gpu, d->context, c->deadline_ns, e);
    if (st != STATOR_OK) {
        lz_queue_close(&d->queue);
        lz_system_context_release(s, d->gpu);
        return st;
    }
    d->free_before = known_free(d);
    *out = &d->device;
    return STATOR_OK;
}

static bool owns(const struct device_facts *f) {
    return !f->remote && !f->host_memory;
}

const struct device_backend lz_device_backend = {
    .name = "level_zero",
    .owns = owns,
    .choose = choose,
    .takes = takes,
    .host_bytes = host_bytes,
    .open = open_gpu,
    .info = lz_info_list,
    .probe = lz_info_probe,
};
