/* Opening and closing the CPU device, its arenas, its place in the contract of device.h.
 *
 * Invariants: slices never move; the team's member 0 is the engine thread; nothing is allocated after open
 * but slices, and those only at start-up. */
#include "device/cpu/cpu_device.h"

#include "base/pages.h"

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

stator_status cpu_device_choose(const struct device_options *o, struct device_choice *c, stator_error *e) {
    memset(c, 0, sizeof *c);
    snprintf(c->facts.name, sizeof c->facts.name, "cpu:0");
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
    /* More threads than cores would sit on one another if they were pinned. */
    c->pinned = c->threads <= cores;
    return STATOR_OK;
}

static size_t attention_work(const struct device_model *m) {
    const struct shape *s = m->graph->shape;
    size_t n = kernels_attention_work(CPU_QUERY_TILE, s->n_heads / s->n_kv_heads, s->head_dim_v);
    return arith_round_up(n, CARVE_ALIGN / sizeof(float));
}

struct parts {
    struct cpu_device *device;
    void *team;
    float *work;
    uint8_t *matmul_work;
    float *norm_rows;
};

static size_t norm_stride(const struct device_model *m) {
    return arith_round_up(m->graph->shape->n_embd, CARVE_ALIGN / sizeof(float));
}

/* Tokens of one kernel call: no more than a step has; the tail multiplies two rows per row of logits. */
static uint32_t tile_tokens(const struct device_model *m) {
    const struct graph_want *w = &m->graph->want;
    uint64_t most = ARITH_MAX((uint64_t)w->batch, 2 * (uint64_t)w->logits_rows);
    return (uint32_t)ARITH_MIN(most, (uint64_t)CPU_TILE_TOKENS);
}

static size_t sums_floats(const struct device_model *m) {
    return (size_t)tile_tokens(m) * CPU_TILE_ROWS;
}

static size_t matmul_stride(const struct device_model *m) {
    return arith_round_up(2 * sums_floats(m) * sizeof(float) + kernels_matmul_work(tile_tokens(m)),
                          CARVE_ALIGN);
}

static struct parts lay_out(struct carve *c, const struct device_choice *choice,
                            const struct device_model *m) {
    struct parts p;
    p.device = carve_take(c, 1, sizeof *p.device);
    p.work = carve_take(c, choice->threads, attention_work(m) * sizeof(float));
    p.matmul_work = carve_take(c, choice->threads, matmul_stride(m));
    p.norm_rows = carve_take(c, choice->threads, norm_stride(m) * sizeof(float));
    p.team = carve_take(c, team_bytes(choice->threads), 1);
    return p;
}

uint64_t cpu_device_host_bytes(const struct device_choice *c, const struct device_model *m) {
    struct carve count = carve_count();
    lay_out(&count, c, m);
    return count.used;
}

static void cpu_facts(const struct device *d, struct device_facts *f) {
    (void)d;
    memset(f, 0, sizeof *f);
    snprintf(f->name, sizeof f->name, "cpu:0");
    snprintf(f->kind, sizeof f->kind, "cpu");
    f->host_memory = true;
    f->alignment = PANEL_ALIGN;
}

static stator_status cpu_slice_create(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                      stator_error *e) {
    static const char *const names[DEVICE_ARENAS] = {"weights", "kv", "scratch", "exchange"};
    CHECK(slice < GRAPH_MAX_SLICES && bytes > 0 && bytes <= DEVICE_SLICE_LIMIT);
    struct cpu_slice *s = &self(d)->slices[a][slice];
    CHECK(s->memory == NULL);
    char what[48];
    snprintf(what, sizeof what, "cpu:0: arena %s, slice %u", names[a], slice);
    void *memory = NULL;
    stator_status st = pages_map(bytes + 2 * SLICE_GUARD, what, &memory, e);
    if (st != STATOR_OK)
        return st;
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

static stator_status cpu_prepare(struct device *d, const struct device_model *m, stator_error *e) {
    struct cpu_device *c = self(d);
    c->model = *m;
    const struct graph *g = m->graph;
    for (uint32_t i = 0; i < g->n_weights; i++) {
        const struct graph_weight *w = &g->weights[i];
        if (w->packed && c->kernels.matmul[w->layout.type] == NULL)
            return error_set(e, STATOR_BAD_MODEL, "tensor '%.*s': no kernel multiplies type %s",
                             (int)w->tensor->name.length, w->tensor->name.data,
                             block_info(w->layout.type)->name);
    }
    CHECK(c->slices[DEVICE_EXCHANGE][0].memory != NULL && c->slices[DEVICE_SCRATCH][0].memory != NULL);
    memcpy(c->slices[DEVICE_EXCHANGE][0].memory, &m->step, sizeof m->step);
    return STATOR_OK;
}

static void *cpu_step_slot(struct device *d) {
    return self(d)->slices[DEVICE_EXCHANGE][0].memory;
}

static void run_member(void *context, uint32_t member, uint32_t n) {
    cpu_step_run(context, member, n);
}

static stator_status cpu_submit(struct device *d, stator_error *e) {
    (void)e;
    struct cpu_device *c = self(d);
    const struct step_header *h = cpu_step_slot(d);
    const struct graph *g = c->model.graph;
    CHECK(h->n_tokens > 0 && h->n_tokens <= g->want.batch && h->n_rows <= g->want.logits_rows);
    CHECK(h->n_chunks > 0 && h->n_chunks <= c->model.sequences && h->n_zero <= c->model.kv.n_blocks);
    c->counters.submits++;
    c->counters.kernels_executed += (h->run_body ? g->tail : 0) + (h->n_rows > 0 ? g->n_ops - g->tail : 0);
    team_run(c->team, run_member, c);
    return STATOR_OK;
}

static stator_status cpu_wait(struct device *d, stator_error *e) {
    (void)d;
    (void)e;
    return STATOR_OK; /* the step ran inside submit */
}

static const uint8_t *exchange_value(struct device *d, uint32_t value) {
    const struct cpu_device *c = self(d);
    return c->slices[DEVICE_EXCHANGE][0].memory + c->model.graph->values[value].offset;
}

static const float *cpu_logits(struct device *d) {
    return (const float *)exchange_value(d, self(d)->model.graph->logits);
}

static const struct step_pick *cpu_picks(struct device *d) {
    return (const struct step_pick *)exchange_value(d, self(d)->model.graph->picks);
}

static void cpu_counters(const struct device *d, struct device_counters *c) {
    *c = const_self(d)->counters;
}

static void cpu_describe(const struct device *d, char tier[16], uint32_t *threads) {
    snprintf(tier, 16, "%s", const_self(d)->kernels.tier);
    *threads = const_self(d)->threads;
}

static void cpu_close(struct device *d) {
    struct cpu_device *c = self(d);
    team_destroy(c->team);
    for (int a = 0; a < DEVICE_ARENAS; a++)
        for (int s = 0; s < GRAPH_MAX_SLICES; s++)
            if (c->slices[a][s].memory != NULL)
                pages_unmap(c->slices[a][s].memory - SLICE_GUARD, c->slices[a][s].bytes + 2 * SLICE_GUARD);
}

static const struct device_vtable vtable = {
    .facts = cpu_facts,
    .slice_create = cpu_slice_create,
    .map = cpu_map,
    .parallel = cpu_parallel,
    .prepare = cpu_prepare,
    .step_slot = cpu_step_slot,
    .submit = cpu_submit,
    .wait = cpu_wait,
    .logits = cpu_logits,
    .picks = cpu_picks,
    .counters = cpu_counters,
    .describe = cpu_describe,
    .close = cpu_close,
};

static enum kernels_tier tier_by_name(const char *name) {
    for (int t = 0; t < KERNELS_TIERS; t++)
        if (strcmp(name, kernels_tier_name((enum kernels_tier)t)) == 0)
            return (enum kernels_tier)t;
    CHECK(!"a tier that cpu_device_choose let through");
    return KERNELS_TIER_SCALAR;
}

stator_status cpu_device_open(const struct device_choice *c, const struct device_model *m,
                              const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                              stator_error *e) {
    *out = NULL;
    struct carve carve = carve_in(memory, bytes);
    struct parts p = lay_out(&carve, c, m);
    memset(p.device, 0, sizeof *p.device);
    p.device->device.vtable = &vtable;
    p.device->phase = phase;
    p.device->threads = c->threads;
    p.device->model = *m;
    p.device->attention_work = p.work;
    p.device->work_floats = attention_work(m);
    p.device->matmul_work = p.matmul_work;
    p.device->matmul_stride = matmul_stride(m);
    p.device->sums_floats = sums_floats(m);
    p.device->norm_rows = p.norm_rows;
    p.device->norm_stride = norm_stride(m);
    p.device->inv_embd = 1.0f / (float)m->graph->shape->n_embd;
    p.device->inv_head = 1.0f / (float)m->graph->shape->head_dim_k;
    kernels_init(&p.device->kernels, tier_by_name(c->tier));
    stator_status st = team_create(c->threads, c->pinned ? c->cpus : NULL, phase, p.team,
                                   team_bytes(c->threads), &p.device->team, e);
    if (st != STATOR_OK)
        return st;
    *out = &p.device->device;
    return STATOR_OK;
}
