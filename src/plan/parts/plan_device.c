#include "plan/parts/plan_device.h"

#include "arch/arch.h"
#include "graph/share.h"
#include "plan/experts/expert_slots.h"
#include "plan/experts/expert_stream.h"
#include "plan/experts/hosted_estimate.h"
#include "plan/parts/layer_split.h"
#include "plan/parts/slices.h"
#include "plan/spill.h"
#include "plan/parts/step_layout.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLICE_STEP (64 << 10) /* a device's largest allocation is rounded down to it */

#define ANY_SLICE ((uint64_t)1 << 50) /* with want.any_slice; sums of such do not overflow */

/* What is free in host memory differs from day to day, so a plan does not depend on it: in an automatic split
 * a device without memory as a fact, a CPU of this machine, has any room, and an eighth of the slowest
 * other's speed. */
#define ANY_MEMORY ((uint64_t)1 << 60)
#define HOST_SPEED 8

static uint64_t slice_limit(const struct planning_want *want, const struct device_facts *f) {
    uint64_t limit = DEVICE_SLICE_LIMIT;
    if (want->any_slice)
        return ANY_SLICE;
    if (f->max_alloc != 0 && f->max_alloc < limit)
        limit = f->max_alloc / SLICE_STEP * SLICE_STEP;
    return limit;
}

/* What a slice of the device can't hold. */
static void set_slice_short(struct plan_short *missing, const struct device_facts *f, const char *arena,
                            uint64_t bytes, uint64_t limit) {
    snprintf(missing->where, sizeof missing->where, "%.31s: %s", f->name, arena);
    missing->bytes = bytes > limit ? bytes - limit : 0;
    missing->slice_bytes = bytes;
    missing->slice_limit = limit;
}

static stator_status cache_too_large(const struct graph_cache *g, const struct planning_want *want,
                                     const struct device_facts *f, uint64_t limit, stator_error *e) {
    if (g->kind == GRAPH_PAGED)
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "the KV cache of one layer and head for %u sequences of %u tokens is above the "
                         "slice limit of %" PRIu64 " bytes of %s: lower memory.context or memory.sequences",
                         want->sequences, want->context, limit, f->name);
    return error_set(e, STATOR_DOES_NOT_FIT,
                     "what one layer keeps of %u sequences ('%s') is above the slice limit of %" PRIu64
                     " bytes of %s: lower memory.sequences%s",
                     want->sequences, g->name, limit, f->name,
                     g->kind == GRAPH_RING ? " or memory.batch" : "");
}

/* The caches of the built graph: how large, and how many units a slice has. */
static stator_status lay_out_caches(const struct planning_want *want, const struct device_facts *f,
                                    struct device_model *m, struct plan_short *missing, stator_error *e) {
    uint64_t limit = slice_limit(want, f);
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        const struct graph_cache *g = &m->graph->caches[i];
        struct device_cache *c = &m->caches[i];
        *c = (struct device_cache){.per_sequence = graph_cache_blocks(g, want->context, want->batch)};
        uint64_t blocks = (uint64_t)c->per_sequence * want->sequences;
        c->of_sequences = (uint32_t)ARITH_MIN(blocks, (uint64_t)UINT32_MAX);
        blocks += (uint64_t)graph_cache_kept(g, c->per_sequence) * want->checkpoints;
        if (!arith_mul(blocks, g->bytes, &c->unit_bytes))
            c->unit_bytes = UINT64_MAX;
        if (blocks > UINT32_MAX || c->unit_bytes > limit) {
            set_slice_short(missing, f, "kv", c->unit_bytes, limit);
            return cache_too_large(g, want, f, limit, e);
        }
        c->n_blocks = (uint32_t)blocks;
        CHECK(c->of_sequences <= c->n_blocks && c->per_sequence > 0);
        c->units_per_slice = (uint32_t)ARITH_MIN(limit / c->unit_bytes, (uint64_t)UINT32_MAX);
    }
    return STATOR_OK;
}

static uint64_t slices_hold(const struct device_model *m) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->graph->n_caches; i++)
        most = ARITH_MAX(most, PLAN_MAX_SLICES * m->caches[i].units_per_slice * m->caches[i].unit_bytes);
    return most;
}

static stator_status add_caches(const struct device_facts *f, const struct device_model *m, struct plan *p,
                                stator_error *e) {
    struct plan_place *place = &p->places[p->n_places - 1];
    uint64_t own = slices_cache_bytes(m, false), spilled = slices_cache_bytes(m, true);
    if (device_cache_slices(m, true) > PLAN_MAX_SLICES) {
        set_slice_short(&p->missing, f, "kv", own + spilled, slices_hold(m));
        return error_set(
            e, STATOR_DOES_NOT_FIT,
            "the KV cache needs more than %d slices on %s: lower memory.context or memory.sequences",
            PLAN_MAX_SLICES, f->name);
    }
    struct plan_arena *a = plan_add_arena(place, "kv", 0, 0);
    slices_add_caches(f, m, false, place, a);
    a->lower_bound = own;
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        const struct graph_cache *g = &m->graph->caches[i];
        uint64_t units = (uint64_t)g->n_layers * g->units;
        if (g->kind == GRAPH_PAGED)
            place->kv_per_token += units * (g->bytes / KERNELS_KV_BLOCK);
        else
            place->kv_per_sequence += units * g->bytes * m->caches[i].per_sequence;
        place->kv_per_checkpoint += units * g->bytes * graph_cache_kept(g, m->caches[i].per_sequence);
    }
    slices_cache_blocks(m, false, 0, p);
    return STATOR_OK;
}

static void add_weights(const struct graph *g, const struct device_facts *f, const uint64_t *slices,
                        struct plan *p) {
    struct plan_place *place = &p->places[p->n_places - 1];
    struct plan_arena *a = plan_add_arena(place, "weights", 0, 0);
    uint32_t own = g->weight_slices - g->spilled_slices;
    for (uint32_t i = 0; i < own; i++) {
        plan_add_slice(place, a, slices_rounded(f, slices[i]));
        a->lower_bound += slices[i];
    }
    for (uint32_t i = 0; i < g->n_weights; i++) {
        const struct graph_weight *w = &g->weights[i];
        place->weights_in_file += graph_weight_file_bytes(w);
        place->weights_packed += w->bytes;
        if (w->packed)
            place->weights_padding += (uint64_t)w->matrices *
                                      (w->layout.panels * PANEL_ROWS - w->layout.rows) *
                                      (w->layout.panel_bytes / PANEL_ROWS);
        else
            place->weights_padding += w->bytes - graph_weight_file_bytes(w);
    }
    slices_weight_blocks(g, 0, own, 0, p);
}

static void add_values(const struct graph *g, enum graph_arena arena, struct plan *p) {
    for (uint32_t i = 0; i < g->n_values; i++) {
        const struct graph_value *v = &g->values[i];
        bool always = arena == GRAPH_EXCHANGE; /* each has its own bytes */
        if (v->arena == arena)
            plan_add_block(p, v->name, strlen(v->name), 0, v->offset, v->bytes, always ? 0 : v->first,
                           always ? 0 : v->end);
    }
}

static void add_exchange(const struct graph *g, const struct device_facts *f, const struct device_model *m,
                         struct plan *p) {
    plan_add_arena(&p->places[p->n_places - 1], "exchange", slices_rounded(f, g->exchange_bytes),
                   g->exchange_bytes);
    const struct step_header *h = &m->step;
    struct {
        const char *name;
        uint64_t at;
    } parts[6 + 2 * STEP_CACHES] = {{"step header", 0},
                                    {"step token ids", h->at_tokens},
                                    {"step chunks", h->at_chunks},
                                    {"step rows wanted", h->at_rows}};
    uint32_t n = 4;
    for (uint32_t i = 0; i < h->n_caches; i++) {
        parts[n].name = "step blocks to set";
        parts[n++].at = h->cache[i].at_fill;
        parts[n].name = "step block tables";
        parts[n++].at = h->cache[i].at_tables;
    }
    parts[n].name = "step angles";
    parts[n++].at = h->at_rope;
    parts[n].at = m->step_bytes;
    uint32_t copies = f->host_memory ? m->slots : 1;
    for (uint32_t k = 0; k < copies; k++)
        for (uint32_t i = 0; i < n; i++)
            plan_add_block(p, parts[i].name, strlen(parts[i].name), 0, k * m->step_bytes + parts[i].at,
                           parts[i + 1].at - parts[i].at, 0, 0);
    add_values(g, GRAPH_EXCHANGE, p);
}

/* struct graph_want.guess_rows. */
static uint32_t guess_rows(const struct planning_want *want) {
    return want->nextn ? want->guesses + 1 : 0;
}

/* Of device `index` in its group. */
static struct graph_share share_of(const struct planning *s, uint32_t index) {
    const uint32_t first = planning_stage_first(s, index);
    struct graph_share share = {.index = index - first, .count = planning_group(s, index)};
    for (uint32_t i = 0; i < share.count; i++)
        share.parts[i] = s->config.devices.n_shares > 0 ? s->config.devices.share[first + i] : 1;
    return share;
}

/* Where a picture's tokens see each other, one step holds them beside the next token of all other sequences.
 */
static stator_status check_whole_pictures(const struct planning *s, const struct planning_want *want,
                                          stator_error *e) {
    if (!tower_sees_both(s->vision.tower))
        return STATOR_OK;
    const uint32_t together = s->pictures.rows, least = together + want->sequences - 1;
    if (want->batch < least)
        return error_set(
            e, STATOR_USAGE,
            "model.vision: memory.batch is %u, but the %u tokens of a picture go into one step with "
            "those of the other %u sequences (memory.sequences): set it to %u at least",
            want->batch, together, want->sequences - 1, least);
    return STATOR_OK;
}

stator_status plan_device_add(struct planning *s, const struct planning_want *want, uint32_t index,
                              uint32_t first, uint32_t end, struct plan *p, stator_error *e) {
    const struct device_facts *f = &s->devices[index].facts;
    const struct planning_second *second = planning_second_of(s, index);
    CHECK(first < end && index < planning_parts(s));
    struct graph *g = &s->devices[index].graph;
    struct device_model *m = &s->devices[index].model;
    if (index > 0 && second == NULL)
        graph_layout_rest(g, &s->devices[index - 1].graph);
    memset(m, 0, sizeof *m);
    m->graph = g;
    m->sequences = want->sequences;
    /* One CPU device alone, or a group of them, runs a step inside submit, and its results are read before
     * the next. So are a tower's. */
    const bool alone = (planning_stages(s) == 1 || second != NULL) && f->host_memory;
    m->slots = alone || second == &s->vision ? 1 : 2;
    const bool hosted = want->hosted && !f->host_memory && second == NULL;
    const uint32_t streams = hosted ? hosted_window(s, f, want) : 0;
    struct graph_want gw = {
        .batch = want->batch,
        .logits_rows = want->logits_rows,
        .first_layer = first,
        .end_layer = end,
        .kv_type_k = want->kv_type_k,
        .kv_type_v = want->kv_type_v,
        .guess_rows = guess_rows(want),
        .guess_sequences = want->sequences,
        .result_halves = f->host_memory ? m->slots : 1,
        .cells = device_cells(f, want->context, want->sequences, want->guesses, want->batch),
        .counted = !f->host_memory,
        .context = want->context,
        .tiled = f->host_memory,
        .pictures =
            s->vision.tower != NULL && second == NULL && first == 0 ? 1 + s->vision.tower->deepstacks : 0,
        .whole_pictures = s->vision.tower != NULL && second == NULL && tower_sees_both(s->vision.tower),
        .experts_apart = !f->host_memory && (!hosted || streams > 0 || s->config.memory.expert_slots > 0),
        .experts_near = hosted && s->config.memory.expert_slots > 0};
    if (s->vision.tower != NULL && second == NULL) {
        stator_status whole = check_whole_pictures(s, want, e);
        if (whole != STATOR_OK)
            return whole;
    }
    if (gw.pictures > 1 + end)
        return error_set(
            e, STATOR_USAGE,
            "model.vision: the first %u layers add features of pictures and must be on one device, "
            "%s has the first %u: give it more (devices.split)",
            gw.pictures - 1, f->name, end);
    if (second == NULL && planning_group(s, index) > 1) {
        gw.share = share_of(s, index);
        gw.lands = !f->host_memory;
    }
    stator_status st = arch_build(g, planning_shape(s, index), &gw, e);
    if (st == STATOR_OK)
        st = lay_out_caches(want, f, m, &p->missing, e);
    if (st != STATOR_OK)
        return st;
    /* Sequences hold the same blocks everywhere. */
    CHECK(second != NULL || g->n_caches == s->devices[0].graph.n_caches);
    step_layout(m, want, &m->step, &m->step_bytes);
    uint64_t slices[GRAPH_MAX_SLICES];
    /* In host memory the slots are in exchange; other devices copy the one that they run to there. */
    uint64_t steps = arith_must_mul(m->step_bytes, f->host_memory ? m->slots : 1);
    st = graph_place(g, slice_limit(want, f), steps, second != NULL ? second->place_work : s->place_work,
                     second != NULL ? second->place_work_bytes : s->place_work_bytes, slices, e);
    m->hosted = st == STATOR_OK && hosted && spill_host_experts(g);
    if (st == STATOR_OK && m->hosted && streams > 0)
        m->stream = (struct device_stream){.tokens = streams, .half_bytes = expert_stream_half(g)};
    if (st == STATOR_OK && m->hosted)
        st = expert_slots_plan(s, index, slice_limit(want, f), e);
    if (st == STATOR_OK && (want->spill || m->hosted) && !f->host_memory)
        st = spill_choose(s, index, want->spill, slice_limit(want, f), slices, e);
    if (st == STATOR_DOES_NOT_FIT)
        set_slice_short(&p->missing, f, g->short_arena, g->short_bytes, g->short_limit);
    if (st != STATOR_OK)
        return st;
    struct plan_place *place =
        plan_add_place(p, f->name, false, f->memory != 0 ? planning_memory(s, index) : s->host_limit);
    place->in_host = f->host_memory;
    place->is_draft = second == &s->draft;
    place->is_vision = second == &s->vision;
    place->first_layer = first;
    place->n_layers = end - first;
    place->share = gw.share.index;
    place->n_shares = gw.share.count;
    place->received_per_token = share_received(g);
    place->given_per_token = share_given_each(g);
    place->received_per_row = share_received_row(g);
    place->given_per_row = share_given_row(g);
    place->exchanges = share_exchanges(g, g->n_ops) + (share_head(g) != NULL);
    add_weights(g, f, slices, p);
    st = add_caches(f, m, p, e);
    if (st != STATOR_OK)
        return st;
    if (place->is_vision) /* the next picture takes its place */
        place->kv_per_token = 0;
    if (second != NULL) { /* its copies are its sequences' */
        place->kv_per_sequence += want->checkpoints > 0 ? place->kv_per_checkpoint : 0;
        place->kv_per_checkpoint = 0;
    }
    spill_fill(s, want, index, place);
    plan_add_arena(place, "scratch", slices_rounded(f, g->scratch_bytes), g->scratch_bound);
    add_values(g, GRAPH_SCRATCH, p);
    add_exchange(g, f, m, p);
    if (m->stream.tokens > 0) {
        const uint64_t window = 2 * m->stream.half_bytes;
        plan_add_arena(place, "window", slices_rounded(f, window), window);
        plan_add_block(p, "spilled experts, two halves", 27, 0, 0, window, 0, 0);
    }
    expert_slots_add(f, m, place, p);
    if (!f->host_memory && planning_owner(s, index) == index) { /* there is one reserve of a GPU */
        plan_add_arena(place, "driver", s->config.memory.driver_reserve, s->config.memory.driver_reserve);
        plan_add_block(p, "reserved for the driver", 23, 0, 0, s->config.memory.driver_reserve, 0, 0);
    }
    return STATOR_OK;
}

/* Bytes of each layer's weights, and of what is before and after the layers. hosted: of experts as many as
 * have slots. */
static void sum_weights(const struct graph *g, bool hosted, uint64_t slots, uint64_t *layers, uint64_t *head,
                        uint64_t *tail) {
    *head = *tail = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        if (hosted && op->kind == GRAPH_EXPERTS) {
            for (uint32_t k = 0; k < op->n_weights; k++)
                layers[op->layer] += g->weights[op->weight[k]].bytes / op->experts.experts *
                                     ARITH_MIN(slots, (uint64_t)op->experts.experts);
            continue;
        }
        uint64_t *sum = op->layer != GRAPH_NONE ? &layers[op->layer] : i < g->tail ? head : tail;
        for (uint32_t k = 0; k < op->n_weights; k++) {
            *sum += g->weights[op->weight[k]].bytes;
            if (op->bias[k] != GRAPH_NONE)
                *sum += g->weights[op->bias[k]].bytes;
            if (op->factor[k] != GRAPH_NONE)
                *sum += g->weights[op->factor[k]].bytes;
        }
    }
}

/* Beside layers: scratch as one layer needs it, exchange, the driver's reserve, and the rounding of slices.
 */
static stator_status overheads(struct planning *s, const struct planning_want *want,
                               const struct device_facts *f, bool last, uint64_t *bytes,
                               struct plan_short *missing, stator_error *e) {
    struct graph *g = &s->devices[0].graph;
    struct device_model m = {.graph = g};
    uint64_t step_bytes = 0;
    struct graph_want gw = {
        .batch = want->batch,
        .logits_rows = want->logits_rows,
        .end_layer = 1,
        .kv_type_k = want->kv_type_k,
        .kv_type_v = want->kv_type_v,
        .guess_rows = guess_rows(want),
        .guess_sequences = want->sequences,
        .cells = device_cells(f, want->context, want->sequences, want->guesses, want->batch),
        .counted = !f->host_memory,
        .context = want->context,
        .tiled = f->host_memory,
        .experts_apart = !f->host_memory && (!want->hosted || hosted_window(s, f, want) > 0 ||
                                             s->config.memory.expert_slots > 0),
        .experts_near = !f->host_memory && want->hosted && s->config.memory.expert_slots > 0};
    uint64_t slices[GRAPH_MAX_SLICES];
    stator_status st = arch_build(g, s->shape, &gw, e);
    if (st == STATOR_OK)
        st = lay_out_caches(want, f, &m, missing, e);
    if (st == STATOR_OK)
        step_layout(&m, want, &m.step, &step_bytes);
    if (st == STATOR_OK)
        st = graph_place(g, want->any_slice ? ANY_SLICE : DEVICE_SLICE_LIMIT, step_bytes, s->place_work,
                         s->place_work_bytes, slices, e);
    if (st == STATOR_DOES_NOT_FIT)
        set_slice_short(missing, f, g->short_arena, g->short_bytes, g->short_limit);
    if (st != STATOR_OK)
        return st;
    *bytes = g->scratch_bytes + g->exchange_bytes;
    if (f->host_memory && s->n_devices > 1)
        *bytes += step_bytes;
    if (last)
        *bytes +=
            arith_must_mul((uint64_t)want->logits_rows * shape_row_width(s->shape), 4) +
            arith_must_mul((uint64_t)guess_rows(want) * want->sequences * shape_stream_width(s->shape), 4);
    if (!f->host_memory)
        *bytes = arith_must_add(*bytes, s->config.memory.driver_reserve);
    return STATOR_OK;
}

static uint64_t all_parts(const struct graph_share *share) {
    uint64_t all = 0;
    for (uint32_t k = 0; k < share->count; k++)
        all += share->parts[k];
    return all;
}

/* Of bytes that the devices of a group divide, those of device i. */
static uint64_t part_of(const struct planning *s, uint32_t i, uint64_t bytes) {
    const struct graph_share share = share_of(s, i);
    return (uint64_t)((unsigned __int128)bytes * share.parts[share.index] / all_parts(&share));
}

/* What a group can hold, or read in a second, when device i can do so much with its part. */
static uint64_t whole_of(const struct planning *s, uint32_t i, uint64_t part) {
    const struct graph_share share = share_of(s, i);
    const unsigned __int128 whole = (unsigned __int128)part * all_parts(&share) / share.parts[share.index];
    return whole < ANY_MEMORY ? (uint64_t)whole : ANY_MEMORY;
}

/* Budget and speed of each stage, without what lies before and behind the layers; of a group as its slowest
 * and its fullest device allow. guess gets the bytes of each device beside layers. */
static stator_status measure_stages(struct planning *s, const struct planning_want *want,
                                    const uint64_t *spare, uint64_t *guess, struct layer_split_device *stages,
                                    struct plan_short *missing, stator_error *e) {
    bool timed = true;
    for (uint32_t i = 0; i < s->n_devices; i++)
        timed = timed && (s->devices[i].facts.bandwidth != 0 || s->devices[i].facts.memory == 0);
    uint64_t slowest = (uint64_t)1 << 40;
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].facts.memory != 0)
            slowest = ARITH_MIN(slowest, timed ? s->devices[i].facts.bandwidth : planning_memory(s, i));
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct device_facts *f = &s->devices[i].facts;
        const uint32_t stage = planning_stage(s, i);
        uint64_t memory = f->memory != 0 ? planning_memory(s, i) : ANY_MEMORY;
        uint64_t speed = f->memory == 0 ? slowest / HOST_SPEED : timed ? f->bandwidth : memory;
        stator_status st = overheads(s, want, f, stage + 1 == planning_stages(s), &guess[i], missing, e);
        if (st != STATOR_OK)
            return st;
        uint64_t taken = guess[i] = arith_must_add(guess[i], spare[i]);
        const struct layer_split_device one = {.budget = whole_of(s, i, memory > taken ? memory - taken : 0),
                                               .speed = whole_of(s, i, speed)};
        if (i == planning_stage_first(s, i))
            stages[stage] = one;
        stages[stage].budget = ARITH_MIN(stages[stage].budget, one.budget);
        stages[stage].speed = ARITH_MIN(stages[stage].speed, one.speed);
    }
    return STATOR_OK;
}

stator_status plan_device_split(struct planning *s, const struct planning_want *want, const uint64_t *spare,
                                uint32_t *ends, uint64_t *guess, bool *fit, struct plan_short *missing,
                                stator_error *e) {
    const uint32_t n = planning_stages(s);
    const struct config *c = &s->config;
    uint32_t n_layers = s->shape->n_layers;
    const uint32_t joined = shape_joined_from(s->shape);
    const char *what = c->devices.tensor ? "groups of devices" : "devices";
    *fit = false;
    if (n > n_layers)
        return error_set(e, STATOR_USAGE, "%u %s are too many for the %u layers of this model", n, what,
                         n_layers);
    if (n > joined + 1)
        return error_set(e, STATOR_USAGE,
                         "%u %s are too many for this model: its last %u layers read K and V of layers from "
                         "layer %u on, so all of these must be together: at most %u are possible",
                         n, what, s->shape->shared_kv, joined, joined + 1);
    if (c->devices.tensor ? c->devices.n_group_layers > 0 : c->devices.n_shares > 0) {
        layer_split_shares(c->devices.tensor ? c->devices.group_layers : c->devices.share, n, n_layers, ends);
        layer_split_join(ends, n, joined);
        return STATOR_OK;
    }
    struct layer_split_device stages[LAYER_SPLIT_MAX_DEVICES];
    stator_status st = measure_stages(s, want, spare, guess, stages, missing, e);
    if (st != STATOR_OK)
        return st;
    struct graph_want gw = {.batch = want->batch,
                            .logits_rows = want->logits_rows,
                            .kv_type_k = want->kv_type_k,
                            .kv_type_v = want->kv_type_v,
                            .guess_rows = guess_rows(want),
                            .guess_sequences = want->sequences};
    st = arch_build(&s->devices[0].graph, s->shape, &gw, e);
    if (st != STATOR_OK)
        return st;
    uint64_t layers[LAYER_SPLIT_MAX_LAYERS] = {0};
    struct device_model m = {.graph = &s->devices[0].graph};
    st = lay_out_caches(want, &s->devices[0].facts, &m, missing, e);
    if (st != STATOR_OK)
        return st;
    const uint64_t slots = c->memory.expert_slots;
    sum_weights(&s->devices[0].graph, want->hosted, slots != CONFIG_SLOTS_AUTO ? slots : 0, layers,
                &stages[0].held, &stages[n - 1].output);
    for (uint32_t i = 0; i < m.graph->n_cached; i++) {
        const struct graph_cached *l = &m.graph->cached[i];
        layers[l->layer] += m.graph->caches[l->cache].units * m.caches[l->cache].unit_bytes;
    }
    for (uint32_t i = 1; i < n && s->shape->layer_embd > 0; i++) { /* all look embeddings up */
        const uint64_t again = i + 1 == n && s->shape->tied ? stages[i].output : 0;
        stages[i].held = stages[0].held - ARITH_MIN(stages[0].held, again);
    }
    stages[n - 1].output += want->nextn ? layers[n_layers] : 0;
    for (uint32_t l = joined + 1; l < n_layers; l++) { /* they count as one */
        layers[joined] += layers[l];
        layers[l] = 0;
    }
    *fit = layer_split_auto(stages, n, layers, joined + 1, ends);
    ends[n - 1] = n_layers;
    for (uint32_t i = 0, l = 0; i < n; i++) {
        uint64_t bytes = stages[i].held + stages[i].output;
        for (; l < ends[i]; l++)
            bytes += layers[l];
        for (uint32_t k = 0; k < s->n_devices; k++)
            guess[k] += planning_stage(s, k) == i ? part_of(s, k, bytes) : 0;
    }
    return STATOR_OK;
}
