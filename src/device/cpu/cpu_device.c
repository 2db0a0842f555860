/* Opening and closing the CPU device, its arenas, its place in the contract of device.h.
 *
 * Invariants: slices never move; the team's member 0 is the engine thread; nothing is allocated after open
 * but slices, and those only at start-up. */
#include "device/cpu/cpu_device.h"

#include "base/clock.h"
#include "graph/share.h"
#include "os/pages.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifdef STATOR_DEBUG
#define SLICE_GUARD PAGES_SIZE /* before and behind a slice: touching it ends the process */
#else
#define SLICE_GUARD 0
#endif

static struct cpu_device *self(struct device *d) {
    return (struct cpu_device *)d;
}

static const struct cpu_device *const_self(const struct device *d) {
    return (const struct cpu_device *)d;
}

static stator_status choose_tier(const char *name, char out[16], stator_error *e) {
    enum kernels_tier best = kernels_best_tier();
    if (strcmp(name, "auto") == 0) {
        snprintf(out, 16, "%s", kernels_tier_name(best));
        return STATOR_OK;
    }
    for (int t = 0; t < KERNELS_TIERS; t++) {
        if (strcmp(name, kernels_tier_name((enum kernels_tier)t)) != 0)
            continue;
        if (t > (int)best)
            return error_set(e, STATOR_USAGE,
                             "cpu.tier = \"%s\": this processor does not have it; the best here is \"%s\"",
                             name, kernels_tier_name(best));
        snprintf(out, 16, "%s", name);
        return STATOR_OK;
    }
    return error_set(e, STATOR_USAGE,
                     "cpu.tier = \"%s\": this build has no such tier; the best here is \"%s\"", name,
                     kernels_tier_name(best));
}

stator_status cpu_device_choose(uint32_t index, const struct device_options *o, struct device_choice *c,
                                stator_error *e) {
    memset(c, 0, sizeof *c);
    snprintf(c->facts.name, sizeof c->facts.name, "cpu:%u", index);
    snprintf(c->facts.kind, sizeof c->facts.kind, "cpu");
    c->facts.host_memory = true;
    c->facts.alignment = PANEL_ALIGN;
    stator_status st = choose_tier(o->tier, c->tier, e);
    if (st != STATOR_OK)
        return st;
    uint32_t cores = 0;
    cpu_topology_cores(c->cpus, TEAM_MAX, &cores);
    c->threads = o->threads != 0 ? o->threads : ARITH_MAX(cores, 1u);
    if (c->threads > TEAM_MAX)
        return error_set(e, STATOR_USAGE, "cpu.threads = %u: at most %d", c->threads, TEAM_MAX);
    /* CPU devices run one after the other, so each has all processors. More threads than cores would sit on
     * one another if they were pinned. */
    c->alone = o->cpu_devices <= 1;
    c->pinned = c->alone && c->threads <= cores;
    return STATOR_OK;
}

static size_t attention_work(const struct device_model *m) {
    size_t most = 0;
    for (uint32_t i = 0; i < m->graph->n_ops; i++) {
        const struct graph_attention *a = &m->graph->ops[i].attention;
        if (m->graph->ops[i].kind != GRAPH_ATTENTION)
            continue;
        uint32_t group = a->heads / a->kv_heads;
        if (a->both) /* a group of queries, and room for them and their results */
            most = ARITH_MAX(most, kernels_attention_work(1, KERNELS_MAX_GROUP, a->dim_k, a->dim_v) +
                                       (size_t)KERNELS_MAX_GROUP * (a->dim_k + a->dim_v));
        most = ARITH_MAX(most,
                         kernels_attention_work(kernels_attention_queries(group), group, a->dim_k, a->dim_v));
    }
    return arith_round_up(most, CARVE_ALIGN / sizeof(float));
}

/* Floats for the parts of one token of every sequence, each as deep as the cache allows. */
static size_t attention_parts(const struct device_choice *c, const struct device_model *m) {
    size_t most = 0;
    for (uint32_t i = 0; i < m->graph->n_ops; i++) {
        const struct graph_op *op = &m->graph->ops[i];
        const struct graph_attention *a = &op->attention;
        if (op->kind != GRAPH_ATTENTION || a->both || a->kv_heads % c->threads == 0)
            continue;
        /* A window may begin and end inside of a split. */
        const size_t ends = m->graph->caches[op->cache].kind == GRAPH_RING ? 2 : 1;
        size_t splits =
            m->caches[op->cache].n_blocks / (KERNELS_SPLIT / KERNELS_KV_BLOCK) + ends * m->sequences;
        most =
            ARITH_MAX(most, splits * a->kv_heads * kernels_attention_part(a->heads / a->kv_heads, a->dim_v));
    }
    return most;
}

struct parts {
    struct cpu_device *device;
    void *team;
    float *work;
    float *attention_parts;
    uint8_t *matmul_work;
    float *norm_rows, *ones;
    uint8_t *experts_work, *index_work;
    struct device_span *spans;
};

static size_t norm_stride(const struct device_model *m) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < m->graph->n_ops; i++) {
        const struct graph_op *op = &m->graph->ops[i];
        if (op->kind == GRAPH_NORM || op->kind == GRAPH_GATHER_NORM || op->kind == GRAPH_PAIR)
            most = ARITH_MAX(most, m->graph->values[op->out].width /
                                       (op->norm.apart ? 1 : ARITH_MAX(op->norm.parts, 1u)));
        if (op->kind == GRAPH_EXCHANGED || op->kind == GRAPH_GELU || op->kind == GRAPH_SILU ||
            op->kind == GRAPH_MIX || op->kind == GRAPH_MERGE || op->kind == GRAPH_BLEND ||
            op->kind == GRAPH_SPREAD || op->kind == GRAPH_PROJECT)
            most = ARITH_MAX(most, m->graph->values[op->out].width);
        if (op->kind == GRAPH_NGRAM_GATE)
            most = ARITH_MAX(most, op->ngram.dim);
    }
    return arith_round_up(most, CARVE_ALIGN / sizeof(float));
}

/* The widest norm without weights, in floats. */
static size_t ones_width(const struct device_model *m) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < m->graph->n_ops; i++) {
        const struct graph_op *op = &m->graph->ops[i];
        if ((op->kind == GRAPH_NORM || op->kind == GRAPH_GATHER_NORM) && op->n_weights == 0)
            most = ARITH_MAX(most, m->graph->values[op->out].width);
    }
    return most;
}

/* Tokens of one kernel call: no more than a step has; the tail multiplies two rows per row of logits. */
static uint32_t tile_tokens(const struct device_model *m) {
    const struct graph_want *w = &m->graph->want;
    uint64_t most = ARITH_MAX((uint64_t)w->batch, 2 * (uint64_t)w->logits_rows);
    return (uint32_t)ARITH_MIN(most, (uint64_t)CPU_TILE_TOKENS);
}

/* Floats from a panel's sums to the next one's: powers of two would fill few sets of the near cache. */
static size_t sums_panel(const struct device_model *m) {
    return (size_t)tile_tokens(m) * PANEL_ROWS + PANEL_ROWS;
}

static size_t matmul_stride(const struct device_model *m) {
    return arith_round_up(2 * CPU_TILE_PANELS * sums_panel(m) * sizeof(float) +
                              kernels_matmul_work(tile_tokens(m)),
                          CARVE_ALIGN);
}

static struct parts lay_out(struct carve *c, const struct device_choice *choice, const struct device_model *m,
                            bool trace) {
    struct parts p;
    p.device = carve_take(c, 1, sizeof *p.device);
    p.work = carve_take(c, choice->threads, attention_work(m) * sizeof(float));
    p.attention_parts = carve_take(c, attention_parts(choice, m), sizeof(float));
    p.matmul_work = carve_take(c, choice->threads, matmul_stride(m));
    p.norm_rows = carve_take(c, choice->threads, norm_stride(m) * sizeof(float));
    p.ones = carve_take(c, ones_width(m), sizeof(float));
    p.experts_work = carve_take(c, choice->threads, cpu_experts_bytes(m->graph));
    p.index_work = carve_take(c, choice->threads, cpu_index_sizes(m).all);
    p.spans = carve_take(c, trace ? (uint64_t)m->slots * m->graph->n_ops : 0, sizeof *p.spans);
    p.team = carve_take(c, choice->joins ? 0 : team_bytes(choice->threads), 1);
    return p;
}

uint64_t cpu_device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace) {
    struct carve count = carve_count();
    lay_out(&count, c, m, trace);
    return count.used;
}

static stator_status cpu_slice_create(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                      stator_error *e) {
    CHECK(slice < GRAPH_MAX_SLICES && bytes > 0 && bytes <= DEVICE_SLICE_LIMIT);
    struct cpu_slice *s = &self(d)->slices[a][slice];
    CHECK(s->memory == NULL);
    char what[80];
    snprintf(what, sizeof what, "%s: arena %s, slice %u", self(d)->name, device_arena_name(a), slice);
    void *memory = NULL;
    stator_status st = pages_map(bytes + 2 * SLICE_GUARD, what, &memory, e);
    if (st != STATOR_OK)
        return st;
    (void)madvise(memory, bytes + 2 * SLICE_GUARD,
                  MADV_HUGEPAGE); /* where the kernel has none, it is no harm */
    s->memory = (uint8_t *)memory + SLICE_GUARD;
    s->bytes = bytes;
    if (SLICE_GUARD != 0) {
        bool guarded = mprotect(memory, SLICE_GUARD, PROT_NONE) == 0 &&
                       mprotect(s->memory + pages_rounded(bytes), SLICE_GUARD, PROT_NONE) == 0;
        CHECK(guarded);
    }
    return STATOR_OK;
}

static void *cpu_map(struct device *d, enum device_arena a, uint32_t slice) {
    CHECK(slice < GRAPH_MAX_SLICES);
    return self(d)->slices[a][slice].memory;
}

static void cpu_parallel(struct device *d, void (*f)(void *context, uint32_t member, uint32_t n),
                         void *context) {
    team_run(self(d)->team, f, context);
}

/* What lies between two devices on one processor: their exchanges are plain memory, so a push is a memcpy. It
 * is checked and timed all the same, as the others are. */
static stator_status cpu_peer_probe(struct device *d, struct device *to, bool verify, void *work,
                                    uint64_t bytes, struct device_route *r, stator_error *e) {
    (void)work;
    (void)bytes;
    (void)e;
    const struct cpu_device *from = self(d);
    const struct cpu_device *peer = self(to);
    const struct graph_value *landing = &peer->model.graph->values[peer->model.graph->landing];
    uint8_t *source = (uint8_t *)cpu_step_value(from, from->model.graph->outgoing, 0);
    uint8_t *target = (uint8_t *)cpu_step_value(peer, peer->model.graph->landing, 0);
    *r = (struct device_route){.direct = true};
    uint64_t size = ARITH_MIN((uint64_t)64, landing->bytes);
    for (uint32_t round = 0; r->direct; round++) {
        for (uint64_t i = 0; i < size; i++)
            source[i] = (uint8_t)(i * 167 + round);
        uint64_t began = clock_ns();
        memcpy(target, source, size);
        uint64_t took = ARITH_MAX(clock_ns() - began, (uint64_t)1);
        if (round == 0)
            r->latency_ns = took;
        if (verify && memcmp(target, source, size) != 0) {
            r->direct = false;
            snprintf(r->why, sizeof r->why, "a copy of %llu bytes arrived changed", (unsigned long long)size);
        }
        if (size == landing->bytes) {
            r->bytes_per_second = (uint64_t)((double)size * 1e9 / (double)took);
            break;
        }
        size = ARITH_MIN(size * 16, landing->bytes);
    }
    memset(source, 0, landing->bytes);
    memset(target, 0, landing->bytes);
    return STATOR_OK;
}

static const struct device_vtable vtable;

static stator_status cpu_prepare(struct device *d, const struct device_setup *s, stator_error *e) {
    struct cpu_device *c = self(d);
    const struct device_model *m = &c->model;
    const struct graph *g = m->graph;
    CHECK((s->in == NULL) == (g->landing == GRAPH_NONE) && (s->out == NULL) == (g->outgoing == GRAPH_NONE));
    c->in = s->in;
    c->out = s->out;
    c->group = s->group;
    CHECK((c->group != NULL) == (g->want.share.count > 0));
    for (uint32_t i = 0; c->group != NULL && i < c->group->count; i++)
        CHECK(c->group->devices[i]->vtable == &vtable && self(c->group->devices[i])->team == c->team);
    for (uint32_t i = 0; i < g->n_weights; i++) {
        const struct graph_weight *w = &g->weights[i];
        if (w->packed && c->kernels.matmul[w->layout.type] == NULL)
            return error_set(e, STATOR_BAD_MODEL, "tensor '%.*s': no kernel multiplies type %s",
                             (int)w->tensor->name.length, w->tensor->name.data,
                             block_info(w->layout.file)->name);
    }
    CHECK(c->slices[DEVICE_EXCHANGE][0].memory != NULL && c->slices[DEVICE_SCRATCH][0].memory != NULL);
    for (uint32_t k = 0; k < m->slots; k++)
        memcpy(cpu_step_slot(c, k), &m->step, step_header_bytes(g->n_caches));
    return STATOR_OK;
}

static void *cpu_slot(struct device *d, uint32_t slot) {
    return cpu_step_slot(self(d), slot);
}

struct cpu_run {
    struct cpu_device *device;
    uint32_t slot;
};

/* A step of a group runs when its last device gets it. */
static bool waits_for_others(const struct cpu_device *d) {
    return d->group != NULL && &d->device != d->group->devices[d->group->count - 1];
}

static void run_member(void *context, uint32_t member, uint32_t n) {
    const struct cpu_run *r = context;
    if (r->device->group != NULL)
        cpu_step_run_group(r->device->group, r->slot, member, n);
    else
        cpu_step_run(r->device, r->slot, member, n);
}

static stator_status cpu_submit(struct device *d, uint32_t slot, stator_error *e) {
    (void)e;
    struct cpu_device *c = self(d);
    const struct step_header *h = cpu_slot(d, slot);
    const struct graph *g = c->model.graph;
    CHECK(device_step_flaw(&c->model, h) == NULL);
    DCHECK(device_tables_flaw(&c->model, h) == NULL);
    c->counters.submits++;
    c->counters.kernels_executed += cpu_step_ops(g, h);
    if (h->run_body == STEP_BODY && c->out != NULL) {
        uint64_t sent = (uint64_t)h->n_tokens * g->width * sizeof(float);
        *(c->out->direct ? &c->counters.direct_bytes : &c->counters.staged_bytes) += sent;
    }
    if (h->run_body == STEP_BODY && c->group != NULL)
        c->counters.direct_bytes += h->n_tokens * share_received(g);
    c->counters.direct_bytes += h->n_rows * share_received_row(g);
    c->n_spans[slot] = 0;
    if (waits_for_others(c))
        return STATOR_OK;
    struct cpu_run run = {.device = c, .slot = slot};
    team_run(c->team, run_member, &run);
    return STATOR_OK;
}

static stator_status cpu_wait(struct device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                              stator_error *e) {
    (void)d;
    (void)slot;
    (void)timeout_ns;
    (void)e;
    *ended = true; /* the step ran inside submit */
    return STATOR_OK;
}

static const float *cpu_logits(struct device *d, uint32_t slot) {
    return cpu_step_value(self(d), self(d)->model.graph->logits, slot);
}

static const struct step_pick *cpu_picks(struct device *d, uint32_t slot) {
    return (const struct step_pick *)(const void *)cpu_step_value(self(d), self(d)->model.graph->picks, slot);
}

static uint32_t cpu_spans(struct device *d, uint32_t slot, struct device_span *out, uint32_t max) {
    const struct cpu_device *c = self(d);
    CHECK(c->spans != NULL && slot < c->model.slots);
    uint32_t n = ARITH_MIN(c->n_spans[slot], max);
    memcpy(out, c->spans + (size_t)slot * c->model.graph->n_ops, n * sizeof *out);
    return n;
}

static void cpu_counters(const struct device *d, struct device_counters *c) {
    *c = const_self(d)->counters;
}

static uint64_t cpu_taken_bytes(const struct device *d) {
    (void)d;
    return 0;
}

static void cpu_close(struct device *d) {
    struct cpu_device *c = self(d);
    if (!c->joins)
        team_destroy(c->team);
    for (int a = 0; a < DEVICE_ARENAS; a++)
        for (int s = 0; s < GRAPH_MAX_SLICES; s++)
            if (c->slices[a][s].memory != NULL)
                pages_unmap(c->slices[a][s].memory - SLICE_GUARD, c->slices[a][s].bytes + 2 * SLICE_GUARD);
}

static const struct device_vtable vtable = {
    .slice_create = cpu_slice_create,
    .map = cpu_map,
    .parallel = cpu_parallel,
    .peer_probe = cpu_peer_probe,
    .prepare = cpu_prepare,
    .step_slot = cpu_slot,
    .submit = cpu_submit,
    .wait = cpu_wait,
    .logits = cpu_logits,
    .picks = cpu_picks,
    .spans = cpu_spans,
    .counters = cpu_counters,
    .taken_bytes = cpu_taken_bytes,
    .close = cpu_close,
};

static enum kernels_tier tier_by_name(const char *name) {
    for (int t = 0; t < KERNELS_TIERS; t++)
        if (strcmp(name, kernels_tier_name((enum kernels_tier)t)) == 0)
            return (enum kernels_tier)t;
    CHECK(!"a tier that cpu_device_choose let through");
    return KERNELS_TIER_SCALAR;
}

stator_status cpu_device_open(const struct device_opening *o, struct device **out, stator_error *e) {
    const struct device_choice *c = o->choice;
    const struct device_model *m = o->model;
    *out = NULL;
    struct carve carve = carve_in(o->memory, o->bytes);
    struct parts p = lay_out(&carve, c, m, o->trace);
    memset(p.device, 0, sizeof *p.device);
    p.device->device.vtable = &vtable;
    snprintf(p.device->name, sizeof p.device->name, "%s", c->facts.name);
    p.device->phase = o->phase;
    p.device->threads = c->threads;
    p.device->model = *m;
    for (uint32_t i = 0; i < m->graph->n_caches; i++)
        p.device->cache_slice[i] = device_cache_part(m, i, false).first;
    p.device->attention_work = p.work;
    p.device->work_floats = attention_work(m);
    p.device->attention_parts = p.attention_parts;
    p.device->parts_floats = attention_parts(c, m);
    p.device->matmul_work = p.matmul_work;
    p.device->matmul_stride = matmul_stride(m);
    p.device->sums_panel = sums_panel(m);
    p.device->norm_rows = p.norm_rows;
    p.device->norm_stride = norm_stride(m);
    p.device->ones = p.ones;
    for (size_t i = 0; i < ones_width(m); i++)
        p.ones[i] = 1.0f;
    p.device->experts_work = p.experts_work;
    p.device->experts_stride = cpu_experts_bytes(m->graph);
    p.device->index_work = p.index_work;
    p.device->index_sizes = cpu_index_sizes(m);
    p.device->spans = o->trace ? p.spans : NULL;
    kernels_init(&p.device->kernels, tier_by_name(c->tier));
    p.device->joins = c->joins;
    if (c->joins) {
        CHECK(c->with != NULL && c->with->vtable == &vtable && self(c->with)->threads == c->threads);
        p.device->team = self(c->with)->team;
        *out = &p.device->device;
        return STATOR_OK;
    }
    const enum team_company company = c->turns ? TEAM_TURNS : c->alone ? TEAM_ALONE : TEAM_CROWDED;
    stator_status st = team_create(c->threads, c->pinned ? c->cpus : NULL, company, o->phase, p.team,
                                   team_bytes(c->threads), &p.device->team, e);
    if (st != STATOR_OK)
        return st;
    *out = &p.device->device;
    return STATOR_OK;
}
