#include "plan/spill.h"

#include "base/units.h"
#include "plan/plan_device.h"
#include "kernels/kernels.h"

#include <stdio.h>

#define CUT_PANELS 16 /* a matrix is cut at multiples of so many: whole units of most kernels */

/* The device whose spill is being chosen. */
struct spilling {
    const struct stator *s;
    const struct device_facts *facts;
    struct graph *graph;
    struct device_kv *kv;
    uint64_t slice_limit;
    uint64_t *slices;
    stator_error *e;
};

static uint64_t kv_part_bytes(const struct spilling *x) {
    struct device_kv_part part = device_kv_part(x->kv, x->graph, false);
    uint32_t per_slice = x->kv->units_per_slice;
    uint64_t whole = plan_device_rounded(x->facts, per_slice * x->kv->unit_bytes);
    uint64_t last = plan_device_rounded(x->facts, part.units % per_slice * x->kv->unit_bytes);
    return arith_must_add(arith_must_mul(part.units / per_slice, whole), last);
}

/* What the device has to hold itself, as the plan counts it. */
static uint64_t own_bytes(const struct spilling *x) {
    uint64_t sum = x->s->config.memory.driver_reserve;
    sum = arith_must_add(sum, plan_device_rounded(x->facts, x->graph->scratch_bytes));
    sum = arith_must_add(sum, plan_device_rounded(x->facts, x->graph->exchange_bytes));
    sum = arith_must_add(sum, kv_part_bytes(x));
    for (uint32_t i = 0; i < x->graph->weight_slices - x->graph->spilled_slices; i++)
        sum = arith_must_add(sum, plan_device_rounded(x->facts, x->slices[i]));
    return sum;
}

static bool inside(const struct spilling *x) {
    return own_bytes(x) <= x->facts->memory;
}

static stator_status spill_panels(const struct spilling *x, struct graph_weight *w, uint32_t panels) {
    w->spilled = panels;
    return graph_place_weights(x->graph, x->slice_limit, x->slices, x->e);
}

/* The whole matrix, and back on the device what of it fits. One that is larger than a slice stays whole: its
 * cuts and this one could come too close for the kernels. */
static stator_status spill_matrix(const struct spilling *x, struct graph_weight *w) {
    stator_status st = spill_panels(x, w, w->layout.panels);
    if (st != STATOR_OK || !inside(x) || w->bytes > x->slice_limit)
        return st;
    uint32_t good = 0; /* in CUT_PANELS, that the device keeps */
    uint32_t bad = (uint32_t)arith_ceil_div(w->layout.panels, CUT_PANELS);
    while (bad - good > 1 && st == STATOR_OK) {
        uint32_t middle = good + (bad - good) / 2;
        st = spill_panels(x, w, w->layout.panels - middle * CUT_PANELS);
        if (st == STATOR_OK && inside(x))
            good = middle;
        else
            bad = middle;
    }
    return st == STATOR_OK ? spill_panels(x, w, w->layout.panels - good * CUT_PANELS) : st;
}

/* A token reads only a row of it: the embedding, where it is not the output matrix too. */
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

static stator_status spill_matrices(const struct spilling *x) {
    stator_status st = STATOR_OK;
    for (uint32_t i = x->graph->n_ops; i-- > 0;) {
        const struct graph_op *op = &x->graph->ops[i];
        for (uint32_t k = op->n_weights; k-- > 0 && st == STATOR_OK && !inside(x);) {
            struct graph_weight *w = &x->graph->weights[op->weight[k]];
            if (w->packed && w->spilled < w->layout.panels)
                st = spill_matrix(x, w);
        }
    }
    return st;
}

stator_status spill_choose(struct stator *s, uint32_t index, uint64_t slice_limit, uint64_t *slices,
                           stator_error *e) {
    struct engine_device *d = &s->devices[index];
    struct spilling x = {.s = s,
                         .facts = &d->facts,
                         .graph = &d->graph,
                         .kv = &d->model.kv,
                         .slice_limit = slice_limit,
                         .slices = slices,
                         .e = e};
    CHECK(!d->facts.host_memory);
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < x.graph->n_weights && st == STATOR_OK && !inside(&x); i++)
        if (x.graph->weights[i].packed && only_looked_up(x.graph, i))
            st = spill_matrix(&x, &x.graph->weights[i]);
    uint32_t layers = x.graph->want.end_layer - x.graph->want.first_layer;
    while (st == STATOR_OK && !inside(&x) && x.kv->spilled_layers < layers)
        x.kv->spilled_layers++;
    if (st == STATOR_OK)
        st = spill_matrices(&x);
    for (uint32_t i = 0; i < x.graph->spilled_slices && st == STATOR_OK; i++)
        d->spilled_weights[i] = slices[x.graph->weight_slices - x.graph->spilled_slices + i];
    return st;
}

void spill_fill(const struct stator *s, const struct engine_want *want, uint32_t index,
                struct plan_place *p) {
    const struct engine_device *d = &s->devices[index];
    const struct graph *g = &d->graph;
    const struct device_kv *kv = &d->model.kv;
    struct plan_spill *out = &p->spill;
    uint64_t near = 0;
    for (uint32_t i = 0; i < g->n_weights; i++)
        out->weights += g->weights[i].spilled * g->weights[i].layout.panel_bytes;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        for (uint32_t k = 0; k < g->ops[i].n_weights; k++) {
            const struct graph_weight *w = &g->weights[g->ops[i].weight[k]];
            uint64_t far = w->spilled * w->layout.panel_bytes;
            if (graph_kind_info(g->ops[i].kind)->use == GRAPH_LOOKUP) {
                out->per_token += far > 0 ? w->layout.panel_bytes / PANEL_ROWS : 0;
                continue;
            }
            out->per_step += far;
            near += w->bytes - far;
        }
    }
    uint64_t unit = kv->block_stride / KERNELS_KV_BLOCK; /* bytes of a token, one layer and head */
    out->kv_layers = kv->spilled_layers;
    out->kv = device_kv_part(kv, g, true).units * kv->unit_bytes;
    out->kv_per_token = device_kv_part(kv, g, true).units * unit;
    out->far = out->per_step + out->per_token + want->context * out->kv_per_token;
    out->near = near + want->context * (device_kv_part(kv, g, false).units * unit);
}

stator_status spill_add_arenas(struct stator *s, struct plan *p, stator_error *e) {
    struct plan_place *host = &p->places[p->n_places - 1];
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct engine_device *d = &s->devices[i];
        const struct graph *g = &d->graph;
        struct device_kv_part kv = device_kv_part(&d->model.kv, g, true);
        if (kv.units == 0 && g->spilled_slices == 0)
            continue;
        if (kv.end - kv.first + g->spilled_slices > PLAN_MAX_SLICES)
            return error_set(e, STATOR_DOES_NOT_FIT,
                             "what %s spills to host memory needs more than %d slices: lower memory.context, "
                             "memory.sequences or memory.batch",
                             d->facts.name, PLAN_MAX_SLICES);
        char name[64];
        snprintf(name, sizeof name, "spill %s", d->facts.name);
        p->places[i].spill.arena = host->n_arenas;
        struct plan_arena *a = plan_add_arena(host, name, 0, 0);
        for (uint32_t left = kv.units; left > 0;) {
            uint32_t n = ARITH_MIN(left, d->model.kv.units_per_slice);
            plan_add_slice(host, a, plan_device_rounded(&d->facts, n * d->model.kv.unit_bytes));
            left -= n;
        }
        plan_device_kv_blocks(s, i, true, 0, p);
        uint32_t own = g->weight_slices - g->spilled_slices;
        plan_device_weight_blocks(g, own, g->weight_slices, a->n_slices, p);
        for (uint32_t k = 0; k < g->spilled_slices; k++)
            plan_add_slice(host, a, plan_device_rounded(&d->facts, d->spilled_weights[k]));
        a->lower_bound = p->places[i].spill.weights + p->places[i].spill.kv;
    }
    return STATOR_OK;
}

void spill_estimate(const struct stator *s, struct plan *p) {
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
    p->slowdown = spill_all(p) > 0 && without > 0 ? with / without : 0;
}

uint64_t spill_bytes(const struct plan_place *p) {
    return p->spill.weights + p->spill.kv;
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

void spill_log(const struct stator *s) {
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct plan_place *p = &s->plan.places[i];
        char all[UNITS_TEXT], size[UNITS_TEXT], kv[64] = "", weights[48] = "";
        if (spill_bytes(p) == 0)
            continue;
        if (p->spill.kv > 0)
            snprintf(kv, sizeof kv, ", KV of its last %u layers %s", p->spill.kv_layers,
                     units_format_size(p->spill.kv, size));
        if (p->spill.weights > 0)
            snprintf(weights, sizeof weights, ", weights %s", units_format_size(p->spill.weights, size));
        log_write(
            &s->log, STATOR_LOG_WARN,
            "%s is too small: %s lie in host memory (memory.on_oom = \"spill\")%s%s; a token at the full "
            "context brings %s over the bus",
            p->name, units_format_size(spill_bytes(p), all), kv, weights,
            units_format_size(p->spill.far, size));
    }
}
