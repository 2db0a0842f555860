#include "plan/plan_device.h"

#include "os/pages.h"
#include "plan/layer_split.h"
#include "plan/spill.h"
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

static uint64_t slice_limit(const struct engine_want *want, const struct device_facts *f) {
    uint64_t limit = DEVICE_SLICE_LIMIT;
    if (want->any_slice)
        return ANY_SLICE;
    if (f->max_alloc != 0 && f->max_alloc < limit)
        limit = f->max_alloc / SLICE_STEP * SLICE_STEP;
    return limit;
}

uint64_t plan_device_rounded(const struct device_facts *f, uint64_t bytes) {
    return arith_round_up(bytes, ARITH_MAX(f->alignment, (uint64_t)PAGES_SIZE));
}

/* What a slice of the device can't hold. */
static void set_slice_short(struct plan_short *missing, const struct device_facts *f, const char *arena,
                            uint64_t bytes, uint64_t limit) {
    snprintf(missing->where, sizeof missing->where, "%.31s: %s", f->name, arena);
    missing->bytes = bytes > limit ? bytes - limit : 0;
    missing->slice_bytes = bytes;
    missing->slice_limit = limit;
}

static stator_status lay_out_kv(const struct stator *s, const struct engine_want *want,
                                const struct device_facts *f, struct device_kv *kv,
                                struct plan_short *missing, stator_error *e) {
    const struct shape *shape = s->shape;
    *kv =
        (struct device_kv){.type_k = want->kv_type_k, .type_v = want->kv_type_v, .heads = shape->n_kv_heads};
    kv->blocks_per_sequence = (uint32_t)arith_ceil_div(want->context, KERNELS_KV_BLOCK);
    uint64_t blocks = (uint64_t)kv->blocks_per_sequence * want->sequences;
    kv->k_bytes = kernels_kv_bytes(kv->type_k, shape->head_dim_k);
    kv->block_stride = kv->k_bytes + kernels_kv_bytes(kv->type_v, shape->head_dim_v);
    uint64_t limit = slice_limit(want, f);
    if (!arith_mul(blocks, kv->block_stride, &kv->unit_bytes))
        kv->unit_bytes = UINT64_MAX;
    if (blocks > UINT32_MAX || kv->unit_bytes > limit) {
        set_slice_short(missing, f, "kv", kv->unit_bytes, limit);
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "the KV cache of one layer and head for %u sequences of %u tokens is above the "
                         "slice limit of %" PRIu64 " bytes of %s: lower memory.context or memory.sequences",
                         want->sequences, want->context, limit, f->name);
    }
    kv->n_blocks = (uint32_t)blocks;
    kv->units_per_slice = (uint32_t)ARITH_MIN(limit / kv->unit_bytes, (uint64_t)UINT32_MAX);
    return STATOR_OK;
}

/* What a layer has in a slice is a block. */
void plan_device_kv_blocks(const struct stator *s, uint32_t index, bool spilled, uint32_t at,
                           struct plan *p) {
    const struct graph *g = &s->devices[index].graph;
    const struct device_kv *kv = &s->devices[index].model.kv;
    uint64_t heads = kv->heads;
    uint32_t cut = g->want.end_layer - kv->spilled_layers;
    uint32_t first = spilled ? cut : g->want.first_layer;
    uint32_t end = spilled ? g->want.end_layer : cut;
    for (uint32_t l = first; l < end; l++) {
        uint64_t unit = (l - first) * heads;
        uint64_t last = unit + heads;
        while (unit < last) {
            uint64_t slice = unit / kv->units_per_slice;
            uint64_t n = ARITH_MIN(last, (slice + 1) * kv->units_per_slice) - unit;
            char name[32];
            int length = snprintf(name, sizeof name, "blk.%u.kv", l);
            plan_add_block(p, name, (size_t)length, at + (uint32_t)slice,
                           unit % kv->units_per_slice * kv->unit_bytes, n * kv->unit_bytes, 0, 0);
            unit += n;
        }
    }
}

static stator_status add_kv(const struct stator *s, uint32_t index, struct plan *p, stator_error *e) {
    const struct device_facts *f = &s->devices[index].facts;
    const struct device_kv *kv = &s->devices[index].model.kv;
    const struct graph *g = &s->devices[index].graph;
    struct plan_place *place = &p->places[p->n_places - 1];
    struct device_kv_part own = device_kv_part(kv, g, false);
    struct device_kv_part spilled = device_kv_part(kv, g, true);
    uint64_t units = own.units + spilled.units;
    if (spilled.end > PLAN_MAX_SLICES) {
        set_slice_short(&p->missing, f, "kv", units * kv->unit_bytes,
                        PLAN_MAX_SLICES * kv->units_per_slice * kv->unit_bytes);
        return error_set(
            e, STATOR_DOES_NOT_FIT,
            "the KV cache needs more than %d slices on %s: lower memory.context or memory.sequences",
            PLAN_MAX_SLICES, f->name);
    }
    struct plan_arena *a = plan_add_arena(place, "kv", 0, 0);
    for (uint64_t left = own.units; left > 0;) {
        uint64_t n = ARITH_MIN(left, (uint64_t)kv->units_per_slice);
        plan_add_slice(place, a, plan_device_rounded(f, n * kv->unit_bytes));
        left -= n;
    }
    a->lower_bound = own.units * kv->unit_bytes;
    place->kv_per_token = units * (kv->block_stride / KERNELS_KV_BLOCK);
    plan_device_kv_blocks(s, index, false, 0, p);
    return STATOR_OK;
}

void plan_device_weight_blocks(const struct graph *g, uint32_t first, uint32_t end, uint32_t at,
                               struct plan *p) {
    for (uint32_t i = 0; i < g->n_weights; i++) {
        const struct graph_weight *w = &g->weights[i];
        for (uint32_t k = 0; k < w->n_pieces; k++) {
            const struct graph_piece *piece = &w->pieces[k];
            uint64_t bytes = w->packed ? (uint64_t)piece->panels * w->layout.panel_bytes : w->bytes;
            if (piece->slice >= first && piece->slice < end)
                plan_add_block(p, w->tensor->name.data, w->tensor->name.length, piece->slice - first + at,
                               piece->offset, bytes, 0, 0);
        }
    }
}

static void add_weights(const struct graph *g, const struct device_facts *f, const uint64_t *slices,
                        struct plan *p) {
    struct plan_place *place = &p->places[p->n_places - 1];
    struct plan_arena *a = plan_add_arena(place, "weights", 0, 0);
    uint32_t own = g->weight_slices - g->spilled_slices;
    for (uint32_t i = 0; i < own; i++) {
        plan_add_slice(place, a, plan_device_rounded(f, slices[i]));
        a->lower_bound += slices[i];
    }
    for (uint32_t i = 0; i < g->n_weights; i++) {
        const struct graph_weight *w = &g->weights[i];
        place->weights_in_file += w->tensor->bytes;
        place->weights_packed += w->bytes;
        if (w->packed)
            place->weights_padding += (uint64_t)(w->layout.panels * PANEL_ROWS - w->layout.rows) *
                                      (w->layout.panel_bytes / PANEL_ROWS);
        else
            place->weights_padding += w->bytes - w->tensor->bytes;
    }
    plan_device_weight_blocks(g, 0, own, 0, p);
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
    plan_add_arena(&p->places[p->n_places - 1], "exchange", plan_device_rounded(f, g->exchange_bytes),
                   g->exchange_bytes);
    const struct step_header *h = &m->step;
    const struct {
        const char *name;
        uint64_t at;
    } parts[] = {{"step header", 0},
                 {"step token ids", h->at_tokens},
                 {"step chunks", h->at_chunks},
                 {"step rows wanted", h->at_rows},
                 {"step blocks to clear", h->at_zero},
                 {"step block tables", h->at_tables},
                 {"step angles", h->at_rope},
                 {NULL, m->step_bytes}};
    uint32_t copies = f->host_memory ? m->slots : 1;
    for (uint32_t k = 0; k < copies; k++)
        for (uint32_t i = 0; parts[i].name != NULL; i++)
            plan_add_block(p, parts[i].name, strlen(parts[i].name), 0, k * m->step_bytes + parts[i].at,
                           parts[i + 1].at - parts[i].at, 0, 0);
    add_values(g, GRAPH_EXCHANGE, p);
}

stator_status plan_device_add(struct stator *s, const struct engine_want *want, uint32_t index,
                              uint32_t first, uint32_t end, struct plan *p, stator_error *e) {
    const struct device_facts *f = &s->devices[index].facts;
    struct graph *g = &s->devices[index].graph;
    struct device_model *m = &s->devices[index].model;
    if (index > 0)
        graph_layout_rest(g, &s->devices[index - 1].graph);
    memset(m, 0, sizeof *m);
    m->graph = g;
    m->sequences = want->sequences;
    /* One CPU device alone runs a step inside submit, and its results are read before the next. */
    m->slots = s->n_devices == 1 && f->host_memory ? 1 : 2;
    stator_status st = lay_out_kv(s, want, f, &m->kv, &p->missing, e);
    if (st != STATOR_OK)
        return st;
    struct graph_want gw = {.batch = want->batch,
                            .logits_rows = want->logits_rows,
                            .first_layer = first,
                            .end_layer = end,
                            .result_halves = f->host_memory ? m->slots : 1,
                            .cells = device_cells(f, &m->kv, want->sequences, want->batch),
                            .tiled = f->host_memory};
    st = graph_build(g, s->shape, &gw, e);
    if (st != STATOR_OK)
        return st;
    step_writer_layout(g, want, &m->kv, &m->step, &m->step_bytes);
    uint64_t slices[GRAPH_MAX_SLICES];
    /* In host memory the slots are in exchange; other devices copy the one that they run to there. */
    uint64_t steps = arith_must_mul(m->step_bytes, f->host_memory ? m->slots : 1);
    st = graph_place(g, slice_limit(want, f), steps, s->place_work, s->place_work_bytes, slices, e);
    if (st == STATOR_OK && want->spill && !f->host_memory)
        st = spill_choose(s, index, slice_limit(want, f), slices, e);
    if (st == STATOR_DOES_NOT_FIT)
        set_slice_short(&p->missing, f, g->short_arena, g->short_bytes, g->short_limit);
    if (st != STATOR_OK)
        return st;
    struct plan_place *place = plan_add_place(p, f->name, false, f->memory != 0 ? f->memory : s->host_limit);
    place->first_layer = first;
    place->n_layers = end - first;
    add_weights(g, f, slices, p);
    st = add_kv(s, index, p, e);
    if (st != STATOR_OK)
        return st;
    spill_fill(s, want, index, place);
    plan_add_arena(place, "scratch", plan_device_rounded(f, g->scratch_bytes), g->scratch_bound);
    add_values(g, GRAPH_SCRATCH, p);
    add_exchange(g, f, m, p);
    if (!f->host_memory) {
        plan_add_arena(place, "driver", s->config.memory.driver_reserve, s->config.memory.driver_reserve);
        plan_add_block(p, "reserved for the driver", 23, 0, 0, s->config.memory.driver_reserve, 0, 0);
    }
    return STATOR_OK;
}

/* Bytes of each layer's weights, and of what is before and after the layers. */
static void sum_weights(const struct graph *g, uint64_t *layers, uint64_t *head, uint64_t *tail) {
    *head = *tail = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        uint64_t *sum = op->layer != GRAPH_NONE ? &layers[op->layer] : i < g->tail ? head : tail;
        for (uint32_t k = 0; k < op->n_weights; k++) {
            *sum += g->weights[op->weight[k]].bytes;
            if (op->bias[k] != GRAPH_NONE)
                *sum += g->weights[op->bias[k]].bytes;
        }
    }
}

/* Beside layers: scratch as one layer needs it, exchange, the driver's reserve, and the rounding of slices.
 */
static stator_status overheads(struct stator *s, const struct engine_want *want, const struct device_facts *f,
                               bool last, uint64_t *bytes, struct plan_short *missing, stator_error *e) {
    struct graph *g = &s->devices[0].graph;
    struct device_kv kv;
    struct step_header step;
    uint64_t step_bytes = 0;
    stator_status st = lay_out_kv(s, want, f, &kv, missing, e);
    if (st != STATOR_OK)
        return st;
    struct graph_want gw = {.batch = want->batch,
                            .logits_rows = want->logits_rows,
                            .end_layer = 1,
                            .cells = device_cells(f, &kv, want->sequences, want->batch),
                            .tiled = f->host_memory};
    uint64_t slices[GRAPH_MAX_SLICES];
    st = graph_build(g, s->shape, &gw, e);
    if (st == STATOR_OK)
        step_writer_layout(g, want, &kv, &step, &step_bytes);
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
        *bytes += arith_must_mul((uint64_t)want->logits_rows * s->shape->vocab, 4);
    if (!f->host_memory)
        *bytes = arith_must_add(*bytes, s->config.memory.driver_reserve);
    return STATOR_OK;
}

stator_status plan_device_split(struct stator *s, const struct engine_want *want, const uint64_t *spare,
                                uint32_t *ends, uint64_t *guess, bool *fit, struct plan_short *missing,
                                stator_error *e) {
    uint32_t n = s->n_devices;
    uint32_t n_layers = s->shape->n_layers;
    *fit = false;
    if (n > n_layers)
        return error_set(e, STATOR_USAGE, "%u devices are too many for the %u layers of this model", n,
                         n_layers);
    if (s->config.devices.n_shares != 0) {
        layer_split_shares(s->config.devices.share, n, n_layers, ends);
        return STATOR_OK;
    }
    struct layer_split_device devices[LAYER_SPLIT_MAX_DEVICES];
    bool timed = true;
    for (uint32_t i = 0; i < n; i++)
        timed = timed && (s->devices[i].facts.bandwidth != 0 || s->devices[i].facts.memory == 0);
    uint64_t slowest = (uint64_t)1 << 40;
    for (uint32_t i = 0; i < n; i++)
        if (s->devices[i].facts.memory != 0)
            slowest = ARITH_MIN(slowest, timed ? s->devices[i].facts.bandwidth : s->devices[i].facts.memory);
    for (uint32_t i = 0; i < n; i++) {
        const struct device_facts *f = &s->devices[i].facts;
        uint64_t memory = f->memory != 0 ? f->memory : ANY_MEMORY;
        uint64_t speed = f->memory == 0 ? slowest / HOST_SPEED : timed ? f->bandwidth : memory;
        stator_status st = overheads(s, want, f, i + 1 == n, &guess[i], missing, e);
        if (st != STATOR_OK)
            return st;
        uint64_t taken = guess[i] = arith_must_add(guess[i], spare[i]);
        devices[i] = (struct layer_split_device){.room = memory > taken ? memory - taken : 0, .speed = speed};
    }
    struct graph_want gw = {.batch = want->batch, .logits_rows = want->logits_rows};
    stator_status st = graph_build(&s->devices[0].graph, s->shape, &gw, e);
    if (st != STATOR_OK)
        return st;
    uint64_t layers[LAYER_SPLIT_MAX_LAYERS] = {0};
    struct device_kv kv;
    st = lay_out_kv(s, want, &s->devices[0].facts, &kv, missing, e);
    if (st != STATOR_OK)
        return st;
    sum_weights(&s->devices[0].graph, layers, &devices[0].held, &devices[n - 1].output);
    for (uint32_t i = 0; i < n_layers; i++)
        layers[i] += kv.heads * kv.unit_bytes;
    *fit = layer_split_auto(devices, n, layers, n_layers, ends);
    for (uint32_t i = 0, l = 0; i < n; i++)
        for (guess[i] += devices[i].held + devices[i].output; l < ends[i]; l++)
            guess[i] += layers[l];
    return STATOR_OK;
}
