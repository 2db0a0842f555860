/* The memory plan: shape and config in, arenas out. Touches no device and reads no tensor data.
 *
 * Invariant: planner_make for the same model, sizes and device facts gives the same plan, byte for byte. */
#include "engine/engine.h"

#include "base/pages.h"
#include "kernels/kernels.h"

#include <string.h>

#define PLANNER_VERSION 1

static uint64_t slice_limit(const struct stator *s)
{
    uint64_t limit = DEVICE_SLICE_LIMIT;
    const struct device_facts *f = &s->choice.facts;
    if (f->max_alloc != 0 && f->max_alloc < limit)
        limit = f->max_alloc / (64 << 10) * (64 << 10);
    return limit;
}

static stator_status plan_kv(const struct stator *s, const struct engine_want *want, struct device_kv *kv, stator_error *e)
{
    const struct shape *shape = s->shape;
    uint64_t element = want->kv_type == KERNELS_KV_F32 ? 4 : 2;
    *kv = (struct device_kv){.type_k = want->kv_type, .type_v = want->kv_type};
    kv->blocks_per_sequence = (uint32_t)arith_ceil_div(want->context, KERNELS_KV_BLOCK);
    uint64_t blocks = (uint64_t)kv->blocks_per_sequence * want->sequences;
    kv->k_bytes = element * KERNELS_KV_BLOCK * shape->head_dim_k;
    kv->block_stride = kv->k_bytes + element * KERNELS_KV_BLOCK * shape->head_dim_v;
    uint64_t limit = slice_limit(s);
    if (blocks > UINT32_MAX || !arith_mul(blocks, kv->block_stride, &kv->unit_bytes) || kv->unit_bytes > limit)
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "the KV cache of one layer and head for %u sequences of %u tokens is above the slice limit of %llu bytes: "
                         "lower memory.context or memory.sequences",
                         want->sequences, want->context, (unsigned long long)limit);
    kv->n_blocks = (uint32_t)blocks;
    kv->units_per_slice = (uint32_t)ARITH_MIN(limit / kv->unit_bytes, (uint64_t)UINT32_MAX);
    return STATOR_OK;
}

static stator_status add_kv_arena(const struct stator *s, const struct device_kv *kv, struct plan_place *place, stator_error *e)
{
    uint64_t units = (uint64_t)s->shape->n_layers * s->shape->n_kv_heads;
    struct plan_arena *a = plan_add_arena(place, "kv", 0, 0);
    for (uint64_t left = units; left > 0;) {
        uint64_t n = ARITH_MIN(left, (uint64_t)kv->units_per_slice);
        if (a->n_slices == PLAN_MAX_SLICES)
            return error_set(e, STATOR_DOES_NOT_FIT, "the KV cache needs more than %d slices: lower memory.context or memory.sequences",
                             PLAN_MAX_SLICES);
        plan_add_slice(place, a, pages_rounded(n * kv->unit_bytes));
        left -= n;
    }
    a->lower_bound = units * kv->unit_bytes;
    return STATOR_OK;
}

void planner_lay_out_run(struct stator *s, const struct engine_want *want, const struct device_model *m, struct carve *c)
{
    const struct shape *shape = s->shape;
    s->n_requests = want->sequences + ENGINE_QUEUE;
    s->requests = carve_take(c, s->n_requests, sizeof *s->requests);
    int32_t *tokens = carve_take(c, (uint64_t)s->n_requests * (want->context + 1), sizeof *tokens);
    s->sequences = carve_take(c, want->sequences, sizeof *s->sequences);
    uint32_t *tables = carve_take(c, m->kv.n_blocks, sizeof *tables);
    s->of_row = carve_take(c, want->logits_rows, sizeof *s->of_row);
    s->free_blocks = carve_take(c, m->kv.n_blocks, sizeof *s->free_blocks);
    s->waiting = carve_take(c, s->n_requests, sizeof *s->waiting);
    s->rope_frequency = carve_take(c, shape->n_rot / 2, sizeof *s->rope_frequency);
    sampler_layout(&s->sampler, c, shape->vocab);
    uint32_t places = 2; /* a submit of every slot and the rows given back; one place of a ring stays free */
    while (places < s->n_requests + 2)
        places *= 2;
    uint64_t commands = ring_bytes(places, sizeof(struct engine_command));
    uint64_t events = ring_bytes(ENGINE_EVENTS, sizeof(struct engine_event));
    void *command_memory = carve_take(c, commands, 1);
    void *event_memory = carve_take(c, events, 1);
    s->device_memory = carve_take(c, device_host_bytes(&s->choice, m), 1);
    s->engine_stack = carve_take(c, ENGINE_STACK + 2 * PAGES_SIZE, 1); /* its guard page, and room to align */
    s->edge_work_bytes = ENGINE_EDGE_BASE + (uint64_t)want->context * ENGINE_EDGE_PER_TOKEN;
    s->edge_work = carve_take(c, s->edge_work_bytes, 1);
    if (c->base == NULL)
        return;
    s->commands = ring_init(command_memory, commands, places, sizeof(struct engine_command));
    s->events = ring_init(event_memory, events, ENGINE_EVENTS, sizeof(struct engine_event));
    for (uint32_t i = 0; i < s->n_requests; i++)
        s->requests[i].tokens = tokens + (size_t)i * (want->context + 1);
    for (uint32_t i = 0; i < want->sequences; i++)
        s->sequences[i].table = tables + (size_t)i * m->kv.blocks_per_sequence;
    s->n_free_blocks = m->kv.n_blocks;
    for (uint32_t i = 0; i < m->kv.n_blocks; i++)
        s->free_blocks[i] = m->kv.n_blocks - 1 - i;
}

static void add_host(struct stator *s, const struct engine_want *want, const struct device_model *m, struct plan *p)
{
    struct plan_place *host = plan_add_place(p, "host", true, s->host_limit);
    plan_add_arena(host, "staging", s->staging_bytes, s->staging_bytes);
    struct carve c = carve_count();
    struct stator counted = *s; /* the layout writes NULLs into it */
    planner_lay_out_run(&counted, want, m, &c);
    struct plan_arena *a = plan_add_arena(host, "engine", pages_rounded(sizeof(struct stator)), 0);
    plan_add_slice(host, a, pages_rounded(gguf_host_bytes(s->gguf)));
    plan_add_slice(host, a, pages_rounded(s->front_bytes));
    if (s->tokenizer_bytes > 0)
        plan_add_slice(host, a, pages_rounded(s->tokenizer_bytes));
    plan_add_slice(host, a, pages_rounded(c.used));
    a->lower_bound = a->bytes;
    for (uint32_t i = 0; i + 1 < p->n_places; i++)
        if (!p->places[i].is_host && s->choice.facts.host_memory)
            plan_add_arena(host, p->places[i].name, p->places[i].total, p->places[i].total);
}

static const struct plan_arena *largest_arena(const struct plan_place *place)
{
    const struct plan_arena *largest = &place->arenas[0];
    for (uint32_t k = 1; k < place->n_arenas; k++)
        if (place->arenas[k].bytes > largest->bytes)
            largest = &place->arenas[k];
    return largest;
}

/* The place that is over its budget and its largest arena, which says most. A device in host memory is a part of the host,
 * whose figure is the one to act on. */
static void find_short(const struct stator *s, struct plan *p)
{
    for (uint32_t i = 0; i < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        if (place->total <= place->budget || (!place->is_host && s->choice.facts.host_memory))
            continue;
        const struct plan_arena *largest = largest_arena(place);
        const struct plan_place *inside = place->is_host ? plan_find(p, largest->name) : NULL;
        p->fits = false;
        p->missing.bytes = place->total - place->budget;
        if (inside != NULL)
            snprintf(p->missing.where, sizeof p->missing.where, "%.20s: %.20s %.31s", place->name, inside->name,
                     largest_arena(inside)->name);
        else
            snprintf(p->missing.where, sizeof p->missing.where, "%.31s: %.31s", place->name, largest->name);
        return;
    }
}

stator_status planner_make(struct stator *s, const struct engine_want *want, struct plan *p, struct device_model *m, stator_error *e)
{
    plan_init(p);
    memset(m, 0, sizeof *m);
    m->graph = &s->graph;
    m->sequences = want->sequences;
    struct graph_want gw = {.batch = want->batch, .logits_rows = want->logits_rows};
    stator_status st = graph_build(&s->graph, s->shape, &gw, e);
    if (st != STATOR_OK)
        return st;
    st = plan_kv(s, want, &m->kv, e);
    if (st != STATOR_OK)
        return st;
    step_writer_layout(s->shape, want, &m->kv, &m->step, &m->step_bytes);
    uint64_t slices[GRAPH_MAX_SLICES];
    st = graph_place(&s->graph, slice_limit(s), m->step_bytes, s->place_work, s->place_work_bytes, slices, e);
    if (st != STATOR_OK)
        return st;

    uint64_t least = loader_least_staging(&s->graph);
    if (s->staging_bytes < least)
        return error_set(e, STATOR_USAGE, "memory.staging is %llu bytes; this model needs at least %llu (16 rows of its widest matrix)",
                         (unsigned long long)s->staging_bytes, (unsigned long long)least);

    const struct device_facts *f = &s->choice.facts;
    uint64_t budget = f->memory != 0 ? f->memory : s->host_limit;
    struct plan_place *place = plan_add_place(p, f->name, false, budget);
    struct plan_arena *a = plan_add_arena(place, "weights", 0, 0);
    for (uint32_t i = 0; i < s->graph.weight_slices; i++)
        plan_add_slice(place, a, pages_rounded(slices[i]));
    a->lower_bound = s->graph.weights_bytes;
    st = add_kv_arena(s, &m->kv, place, e);
    if (st != STATOR_OK)
        return st;
    plan_add_arena(place, "scratch", pages_rounded(s->graph.scratch_bytes), s->graph.scratch_bound);
    plan_add_arena(place, "exchange", pages_rounded(s->graph.exchange_bytes), s->graph.exchange_bytes);
    add_host(s, want, m, p);
    plan_check(p);
    find_short(s, p);
    planner_hash(s, want, p->hash);
    return STATOR_OK;
}

static void hash_directory(const struct gguf *g, struct hash *h)
{
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

/* Over the plan's inputs and nothing else: no paths, thread counts, tiers, live free memory. The host's limit decides whether a
 * plan fits, not what it is. */
void planner_hash(const struct stator *s, const struct engine_want *want, char out[HASH_TEXT])
{
    struct hash h;
    hash_init(&h);
    hash_u64(&h, PLANNER_VERSION);
    hash_directory(s->gguf, &h);
    hash_u64(&h, want->context);
    hash_u64(&h, want->sequences);
    hash_u64(&h, want->batch);
    hash_u64(&h, want->logits_rows);
    hash_u64(&h, want->kv_type);
    hash_u64(&h, s->staging_bytes);
    const struct device_facts *f = &s->choice.facts;
    hash_u64(&h, 1);
    hash_text(&h, f->name);
    hash_text(&h, f->kind);
    hash_u64(&h, f->memory);
    hash_u64(&h, f->max_alloc);
    hash_u64(&h, f->bandwidth);
    hash_u64(&h, f->alignment);
    hash_final(&h, out);
}
