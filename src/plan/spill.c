#include "plan/spill.h"

#include "base/units.h"
#include "plan/experts/expert_slots.h"
#include "plan/experts/expert_stream.h"
#include "plan/parts/slices.h"
#include "kernels/kernels.h"

#include <stdio.h>

#define CUT_PANELS                                                                                           \
    16 /* matrices are cut at multiples of this many panels: a multiple of the unit of most kernels */

/* The device that spill_choose works on. */
struct spilling {
    const struct planning *s;
    uint32_t index;
    bool others; /* than experts that the processors compute */
    const struct device_facts *facts;
    struct graph *graph;
    struct device_model *model;
    uint64_t slice_limit;
    uint64_t *slices;
    stator_error *e;
};

static uint64_t cache_bytes(const struct spilling *x, uint32_t cache) {
    struct device_cache_part part = device_cache_part(x->model, cache, false);
    const struct device_cache *c = &x->model->caches[cache];
    uint64_t whole = slices_rounded(x->facts, c->units_per_slice * c->unit_bytes);
    uint64_t last = slices_rounded(x->facts, part.units % c->units_per_slice * c->unit_bytes);
    return arith_must_add(arith_must_mul(part.units / c->units_per_slice, whole), last);
}

/* Bytes that stay on the device, as the plan counts them. */
static uint64_t own_bytes(const struct spilling *x) {
    uint64_t sum = x->s->config.memory.driver_reserve;
    sum = arith_must_add(sum, slices_rounded(x->facts, x->graph->scratch_bytes));
    sum = arith_must_add(sum, slices_rounded(x->facts, x->graph->exchange_bytes));
    if (x->model->stream.tokens > 0)
        sum = arith_must_add(sum, slices_rounded(x->facts, 2 * x->model->stream.half_bytes));
    sum = arith_must_add(sum, expert_slots_bytes(x->facts, x->model));
    for (uint32_t i = 0; i < x->graph->n_caches; i++)
        sum = arith_must_add(sum, cache_bytes(x, i));
    for (uint32_t i = 0; i < x->graph->weight_slices - x->graph->spilled_slices; i++)
        sum = arith_must_add(sum, slices_rounded(x->facts, x->slices[i]));
    return sum;
}

/* Of the plain ones, which have one panel, all bytes. */
static uint64_t far_bytes(const struct graph_weight *w) {
    return w->packed ? w->spilled * w->layout.panel_bytes : w->spilled * w->bytes;
}

static void host_weight(struct graph *g, uint32_t weight) {
    if (weight != GRAPH_NONE)
        g->weights[weight].spilled = graph_weight_panels(&g->weights[weight]);
}

bool spill_host_experts(struct graph *g) {
    bool any = false;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        if (op->kind != GRAPH_EXPERTS)
            continue;
        any = true;
        for (uint32_t k = 0; k < op->n_weights; k++) {
            host_weight(g, op->weight[k]);
            host_weight(g, op->bias[k]);
            host_weight(g, op->factor[k]);
        }
    }
    return any;
}

static bool inside(const struct spilling *x) {
    return own_bytes(x) <= planning_memory(x->s, x->index);
}

static stator_status spill_panels(const struct spilling *x, struct graph_weight *w, uint32_t panels) {
    CHECK(w->packed && panels <= graph_weight_panels(w));
    w->spilled = panels;
    return graph_place_weights(x->graph, x->slice_limit, x->slices, x->e);
}

/* Spills the smallest part of the matrix that brings the device inside its memory, found by bisection. If the
 * whole matrix is not enough, it is spilled whole. So is a matrix larger than a slice: its cut at the slice
 * and this cut could be too close for the kernels. */
static stator_status spill_matrix(const struct spilling *x, struct graph_weight *w) {
    const uint32_t panels = graph_weight_panels(w);
    const uint32_t cut = w->matrices > 1 ? w->layout.panels : CUT_PANELS;
    stator_status st = spill_panels(x, w, panels);
    if (st != STATOR_OK || !inside(x) || w->bytes > x->slice_limit)
        return st;
    uint32_t good = 0; /* in units of `cut`: the part that the device keeps */
    uint32_t bad = (uint32_t)arith_ceil_div(panels, cut);
    while (bad - good > 1 && st == STATOR_OK) {
        uint32_t middle = good + (bad - good) / 2;
        st = spill_panels(x, w, panels - middle * cut);
        if (st == STATOR_OK && inside(x))
            good = middle;
        else
            bad = middle;
    }
    return st == STATOR_OK ? spill_panels(x, w, panels - good * cut) : st;
}

/* Whether a token reads only one row of the weight: an embedding that is not also the output matrix. */
static bool only_looked_up(const struct graph *g, uint32_t weight) {
    bool embeds = false;
    for (uint32_t i = 0; i < g->n_ops; i++)
        for (uint32_t k = 0; k < g->ops[i].n_weights; k++) {
            if (g->ops[i].weight[k] != weight)
                continue;
            if (graph_kind_info(g->ops[i].kind)->use != GRAPH_LOOKUP)
                return false;
            embeds = true;
        }
    return embeds;
}

/* Spills matrices from the end of the model until the device is inside its memory. experts: only those of
 * experts, because a token reads few of them. */
static stator_status spill_matrices(const struct spilling *x, bool experts) {
    stator_status st = STATOR_OK;
    for (uint32_t i = x->graph->n_ops; i-- > 0;) {
        const struct graph_op *op = &x->graph->ops[i];
        if (experts && graph_kind_info(op->kind)->use != GRAPH_CHOSEN)
            continue;
        for (uint32_t k = op->n_weights; k-- > 0 && st == STATOR_OK && !inside(x);) {
            struct graph_weight *w = &x->graph->weights[op->weight[k]];
            if (graph_kind_info(op->kind)->multiplies && w->packed && w->spilled < graph_weight_panels(w))
                st = spill_matrix(x, w);
        }
    }
    return st;
}

static bool is_spilled(const struct device_model *m, const struct graph_cached *l) {
    return l->at >= m->graph->caches[l->cache].n_layers - m->caches[l->cache].spilled_layers;
}

/* Spills all caches of the last layer that has caches on the device. False: no layer has any. */
static bool spill_last_layer(const struct spilling *x) {
    uint32_t layer = GRAPH_NONE;
    for (uint32_t i = x->graph->n_cached; i-- > 0;) {
        const struct graph_cached *l = &x->graph->cached[i];
        if (is_spilled(x->model, l))
            continue;
        if (layer != GRAPH_NONE && l->layer != layer)
            break;
        layer = l->layer;
        x->model->caches[l->cache].spilled_layers++;
        CHECK(x->model->caches[l->cache].spilled_layers <= x->graph->caches[l->cache].n_layers);
    }
    return layer != GRAPH_NONE;
}

static uint32_t spilled_layers(const struct device_model *m) {
    uint32_t n = 0, before = GRAPH_NONE;
    for (uint32_t i = 0; i < m->graph->n_cached; i++) {
        const struct graph_cached *l = &m->graph->cached[i];
        if (!is_spilled(m, l) || l->layer == before)
            continue;
        before = l->layer;
        n++;
    }
    return n;
}

/* Cache bytes that one token of a sequence moves: per token of its context, and as a fixed amount. */
static void token_bytes(const struct device_model *m, bool spilled, uint64_t *per_token,
                        uint64_t *per_sequence) {
    *per_token = *per_sequence = 0;
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        const struct graph_cache *g = &m->graph->caches[i];
        uint64_t units = device_cache_part(m, i, spilled).units;
        uint64_t token = g->bytes / KERNELS_KV_BLOCK;
        if (g->kind == GRAPH_PAGED)
            *per_token += units * token;
        else if (g->kind == GRAPH_RING)
            *per_sequence += units * token * g->window;
        else
            *per_sequence += 2 * units * g->bytes;
    }
}

/* Starts with nothing spilled and spills as little as brings the device inside its memory. */
static stator_status choose(const struct spilling *x) {
    for (uint32_t i = 0; i < x->graph->n_weights; i++)
        x->graph->weights[i].spilled = 0;
    for (uint32_t i = 0; i < x->graph->n_caches; i++)
        x->model->caches[i].spilled_layers = 0;
    if (x->model->hosted)
        spill_host_experts(x->graph);
    stator_status st = graph_place_weights(x->graph, x->slice_limit, x->slices, x->e);
    if (!x->others)
        return st;
    for (uint32_t i = 0; i < x->graph->n_weights && st == STATOR_OK && !inside(x); i++)
        if (x->graph->weights[i].packed && only_looked_up(x->graph, i))
            st = spill_matrix(x, &x->graph->weights[i]);
    if (st == STATOR_OK)
        st = spill_matrices(x, true);
    while (st == STATOR_OK && !inside(x) && spill_last_layer(x))
        ;
    return st == STATOR_OK ? spill_matrices(x, false) : st;
}

/* Spilled bytes that do not belong to experts. */
static double others(const struct spilling *x) {
    uint64_t sum = slices_cache_bytes(x->model, true);
    for (uint32_t i = 0; i < x->graph->n_weights; i++)
        sum += x->graph->weights[i].spilled * x->graph->weights[i].layout.panel_bytes;
    CHECK(sum >= expert_stream_spilled(x->graph));
    return (double)(sum - expert_stream_spilled(x->graph));
}

/* Adds a window if it pays: a step of the largest batch must then bring fewer bytes over the bus than without
 * one. The window itself takes room, so more is spilled with it. Otherwise there is no window. */
static stator_status choose_window(const struct spilling *x) {
    const uint32_t batch = x->graph->want.batch;
    const double reads = expert_stream_reads(x->graph, batch) + others(x);
    struct device_stream *stream = &x->model->stream;
    *stream = (struct device_stream){.tokens = expert_stream_least(x->graph, batch),
                                     .half_bytes = expert_stream_half(x->graph)};
    if (stream->tokens == 0)
        return STATOR_OK;
    stator_status st = choose(x);
    if (st == STATOR_OK)
        stream->tokens = expert_stream_least(x->graph, batch);
    if (st == STATOR_OK && inside(x) && stream->tokens > 0 &&
        (double)expert_stream_spilled(x->graph) + others(x) < reads)
        return STATOR_OK;
    stream->tokens = 0;
    return choose(x);
}

stator_status spill_choose(struct planning *s, uint32_t index, bool others, uint64_t slice_limit,
                           uint64_t *slices, stator_error *e) {
    struct planning_device *d = &s->devices[index];
    struct spilling x = {.s = s,
                         .index = index,
                         .others = others,
                         .facts = &d->facts,
                         .graph = &d->graph,
                         .model = &d->model,
                         .slice_limit = slice_limit,
                         .slices = slices,
                         .e = e};
    CHECK(!d->facts.host_memory);
    stator_status st = choose(&x);
    if (st == STATOR_OK && inside(&x) && !x.model->hosted)
        st = choose_window(&x);
    else if (st == STATOR_OK && inside(&x) && s->config.memory.expert_slots == CONFIG_SLOTS_AUTO)
        expert_slots_fill(x.facts, x.model, planning_memory(s, index) - own_bytes(&x));
    for (uint32_t i = 0; i < x.graph->spilled_slices && st == STATOR_OK; i++)
        d->spilled_weights[i] = slices[x.graph->weight_slices - x.graph->spilled_slices + i];
    return st;
}

static void fill_slots(const struct device_model *m, struct plan_spill *out) {
    uint32_t chosen = 0, layers = 0;
    for (uint32_t i = 0; i < m->graph->n_ops; i++) {
        if (!graph_op_opens_experts(&m->graph->ops[i]))
            continue;
        chosen += m->graph->ops[i].experts.used;
        layers++;
    }
    out->slots = m->cached.n;
    out->slot_copies = chosen > 0 ? out->hosted_ram / chosen * device_slot_copies(layers, chosen) : 0;
}

/* What the processors compute, taken off what is spilled. */
static void fill_hosted(const struct device_model *m, struct plan_spill *out) {
    const struct graph *g = m->graph;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        if (op->kind != GRAPH_EXPERTS)
            continue;
        for (uint32_t k = 0; k < op->n_weights; k++) {
            const uint32_t all[] = {op->weight[k], op->bias[k], op->factor[k]};
            for (uint32_t n = 0; n < sizeof all / sizeof all[0]; n++)
                out->hosted += all[n] != GRAPH_NONE ? far_bytes(&g->weights[all[n]]) : 0;
            out->hosted_ram += g->weights[op->weight[k]].bytes / op->experts.experts * op->experts.used;
        }
        if (graph_op_opens_experts(op))
            out->hosted_bus += device_hosted_row_bytes(g, i) + op->experts.used * sizeof(uint32_t);
        else
            out->hosted_bus += (uint64_t)op->experts.used * g->values[op->out].width * sizeof(float);
    }
    if (m->cached.n > 0)
        fill_slots(m, out);
    if (m->stream.tokens > 0)
        out->window_bytes = expert_stream_spilled(g);
    CHECK(out->weights >= out->hosted);
    out->weights -= out->hosted;
}

/* Bytes that a step of the largest batch brings of weights that it does not read whole: rows of the
 * embedding, and experts. */
static uint64_t batch_bytes(const struct planning_device *d) {
    const struct graph *g = &d->graph;
    const uint32_t batch = g->want.batch, stream = d->model.stream.tokens;
    uint64_t sum = d->model.hosted                 ? 0
                   : stream > 0 && batch >= stream ? expert_stream_spilled(g)
                                                   : (uint64_t)expert_stream_reads(g, batch);
    for (uint32_t i = 0; i < g->n_ops; i++) {
        if (graph_kind_info(g->ops[i].kind)->use != GRAPH_LOOKUP)
            continue;
        const struct graph_weight *w = &g->weights[g->ops[i].weight[0]];
        sum += w->spilled > 0 ? batch * (w->layout.panel_bytes / PANEL_ROWS) : 0;
    }
    return sum;
}

void spill_fill(const struct planning *s, const struct planning_want *want, uint32_t index,
                struct plan_place *p) {
    const struct planning_device *d = &s->devices[index];
    const struct graph *g = &d->graph;
    struct plan_spill *out = &p->spill;
    uint64_t near = 0;
    for (uint32_t i = 0; i < g->n_weights; i++)
        out->weights += far_bytes(&g->weights[i]);
    if (d->model.hosted)
        fill_hosted(&d->model, out);
    for (uint32_t i = 0; i < g->n_ops; i++) {
        for (uint32_t k = 0; k < g->ops[i].n_weights; k++) {
            const struct graph_weight *w = &g->weights[g->ops[i].weight[k]];
            uint64_t far = w->spilled * w->layout.panel_bytes;
            if (d->model.hosted && g->ops[i].kind == GRAPH_EXPERTS)
                continue;
            if (graph_kind_info(g->ops[i].kind)->use == GRAPH_LOOKUP) {
                out->per_token += far > 0 ? w->layout.panel_bytes / PANEL_ROWS : 0;
                out->per_token_most += far > 0 ? w->layout.panel_bytes / PANEL_ROWS : 0;
                continue;
            }
            uint64_t kept = w->bytes - far;
            if (graph_kind_info(g->ops[i].kind)->use == GRAPH_CHOSEN) { /* expected per token */
                const struct graph_experts *e = &g->ops[i].experts;
                const uint64_t one = w->bytes / e->experts;
                out->per_token += far / e->experts * e->used;
                out->per_token_most += ARITH_MIN(far, one * e->used);
                near += kept / e->experts * e->used;
                continue;
            }
            out->per_step += far;
            near += kept;
        }
    }
    uint64_t near_token = 0;
    uint64_t near_sequence = 0;
    token_bytes(&d->model, false, &near_token, &near_sequence);
    token_bytes(&d->model, true, &out->kv_per_token, &out->kv_per_sequence);
    out->kv_layers = spilled_layers(&d->model);
    out->stream_tokens = d->model.stream.tokens;
    out->per_batch = out->per_step + batch_bytes(d);
    out->kv = slices_cache_bytes(&d->model, true);
    out->far = out->per_step + out->per_token + want->context * out->kv_per_token + out->kv_per_sequence;
    out->near = near + want->context * near_token + near_sequence;
}

stator_status spill_add_arenas(struct planning *s, struct plan *p, stator_error *e) {
    struct plan_place *host = &p->places[p->n_places - 1];
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct planning_device *d = &s->devices[i];
        const struct graph *g = &d->graph;
        uint32_t n_kv = device_cache_slices(&d->model, true) - device_cache_slices(&d->model, false);
        if (n_kv + g->spilled_slices == 0)
            continue;
        if (n_kv + g->spilled_slices > PLAN_MAX_SLICES)
            return error_set(e, STATOR_DOES_NOT_FIT,
                             "what %s spills to host memory needs more than %d slices: lower memory.context, "
                             "memory.sequences or memory.batch",
                             d->facts.name, PLAN_MAX_SLICES);
        char name[64];
        snprintf(name, sizeof name, "spill %s", d->facts.name);
        CHECK(host->is_host && host->n_arenas > 0);
        p->places[i].spill.arena = host->n_arenas;
        struct plan_arena *a = plan_add_arena(host, name, 0, 0);
        slices_add_caches(&d->facts, &d->model, true, host, a);
        slices_cache_blocks(&d->model, true, 0, p);
        uint32_t own = g->weight_slices - g->spilled_slices;
        slices_weight_blocks(g, own, g->weight_slices, a->n_slices, p);
        for (uint32_t k = 0; k < g->spilled_slices; k++)
            plan_add_slice(host, a, slices_rounded(&d->facts, d->spilled_weights[k]));
        const struct plan_spill *x = &p->places[i].spill;
        a->lower_bound = x->weights + x->hosted + x->kv;
    }
    return STATOR_OK;
}

void spill_estimate(const struct planning *s, struct plan *p) {
    double with = 0;
    double without = 0;
    p->slowdown = 0;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct device_facts *f = &s->devices[i].facts;
        const struct plan_spill *x = &p->places[i].spill;
        if (f->bandwidth == 0 || (f->bus == 0 && x->far > 0))
            return;
        with += (double)x->near / (double)f->bandwidth;
        with += x->far > 0 ? (double)x->far / (double)f->bus : 0;
        without += ((double)x->near + (double)x->far) / (double)f->bandwidth;
    }
    p->slowdown = spill_forced(p) > 0 && without > 0 ? with / without : 0;
}

uint64_t spill_bytes(const struct plan_place *p) {
    return p->spill.weights + p->spill.kv;
}

uint64_t spill_forced(const struct plan *p) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i + 1 < p->n_places; i++)
        sum += spill_bytes(&p->places[i]);
    return sum;
}

uint64_t spill_all(const struct plan *p) {
    const struct plan_place *host = &p->places[p->n_places - 1];
    uint64_t sum = 0;
    for (uint32_t i = 0; i + 1 < p->n_places; i++)
        sum += p->places[i].spill.arena > 0 ? host->arenas[p->places[i].spill.arena].bytes : 0;
    return sum;
}

struct plan_arena *spill_arena(struct plan *p, uint32_t index) {
    uint32_t arena = p->places[index].spill.arena;
    return arena > 0 ? &p->places[p->n_places - 1].arenas[arena] : NULL;
}

uint64_t spill_allocated(const struct plan *p, uint32_t index) {
    uint32_t arena = p->places[index].spill.arena;
    return arena > 0 ? p->places[p->n_places - 1].arenas[arena].allocated : 0;
}

void spill_log(const struct planning *s) {
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct plan_place *p = &s->plan.places[i];
        char all[UNITS_TEXT], size[UNITS_TEXT], kv[64] = "", weights[48] = "";
        if (p->spill.hosted > 0)
            log_write(s->log, STATOR_LOG_INFO,
                      "%s: the processors compute the experts (memory.experts), %s in host memory, with %u "
                      "threads",
                      p->name, units_format_size(p->spill.hosted, all), s->helper.threads);
        if (spill_bytes(p) == 0)
            continue;
        if (p->spill.kv > 0)
            snprintf(kv, sizeof kv, ", KV of its last %u layers %s", p->spill.kv_layers,
                     units_format_size(p->spill.kv, size));
        if (p->spill.weights > 0)
            snprintf(weights, sizeof weights, ", weights %s", units_format_size(p->spill.weights, size));
        log_write(
            s->log, STATOR_LOG_WARN,
            "%s is too small: %s lie in host memory (memory.on_oom = \"spill\")%s%s; a token at the full "
            "context brings %s over the bus",
            p->name, units_format_size(spill_bytes(p), all), kv, weights,
            units_format_size(p->spill.far, size));
    }
}
