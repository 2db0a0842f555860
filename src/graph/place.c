/* Offsets for everything: scratch values by lifetime, exchange values in a row, weights in slices. */
#include "graph/graph.h"
#include "pack/pack.h"

#include <string.h>

uint64_t graph_place_work_bytes(const struct graph *g) {
    struct carve c = carve_count();
    carve_take(&c, g->max_values, sizeof(struct pack_block));
    carve_take(&c, pack_work_bytes(g->max_values), 1);
    return c.used;
}

static void set_short(struct graph *g, const char *arena, uint64_t bytes, uint64_t limit) {
    g->short_arena = arena;
    g->short_bytes = bytes;
    g->short_limit = limit;
}

static stator_status place_scratch(struct graph *g, uint64_t slice_limit, void *work, uint64_t work_bytes,
                                   stator_error *e) {
    struct carve c = carve_in(work, work_bytes);
    struct pack_block *blocks = carve_take(&c, g->max_values, sizeof *blocks);
    uint64_t pack_bytes = pack_work_bytes(g->max_values);
    void *pack_work = carve_take(&c, pack_bytes, 1);
    size_t n = 0;
    for (uint32_t i = 0; i < g->n_values; i++) {
        const struct graph_value *v = &g->values[i];
        if (v->arena == GRAPH_SCRATCH)
            blocks[n++] = (struct pack_block){
                .bytes = v->bytes, .align = PANEL_ALIGN, .first = v->first, .end = v->end};
    }
    struct pack_result r;
    set_short(g, "scratch", UINT64_MAX, slice_limit); /* pack_solve refuses sums that no memory can hold */
    stator_status st = pack_solve(blocks, n, pack_work, pack_bytes, &r, e);
    if (st != STATOR_OK)
        return st;
    n = 0;
    for (uint32_t i = 0; i < g->n_values; i++)
        if (g->values[i].arena == GRAPH_SCRATCH)
            g->values[i].offset = blocks[n++].offset;
    g->scratch_bytes = arith_round_up(r.peak, PANEL_ALIGN);
    g->scratch_bound = arith_round_up(r.lower_bound, PANEL_ALIGN);
    g->scratch_optimal = r.optimal;
    set_short(g, "scratch", g->scratch_bytes, slice_limit);
    if (g->scratch_bytes > slice_limit)
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "scratch needs %llu bytes in one slice, a slice holds at most %llu: lower "
                         "memory.batch, memory.logits_rows or, on a GPU, memory.context",
                         (unsigned long long)g->scratch_bytes, (unsigned long long)slice_limit);
    return STATOR_OK;
}

static void place_exchange(struct graph *g, uint64_t base) {
    uint64_t at = arith_round_up(base, PANEL_ALIGN);
    for (uint32_t i = 0; i < g->n_values; i++) {
        struct graph_value *v = &g->values[i];
        if (v->arena != GRAPH_EXCHANGE)
            continue;
        v->offset = at;
        at = arith_must_add(at, v->bytes);
    }
    g->exchange_bytes = at;
}

/* The slices that weights are placed into. */
struct slices {
    uint64_t limit;
    uint32_t at; /* the one that is being filled */
    uint64_t *bytes;
};

static bool next_slice(struct slices *s) {
    if (++s->at == GRAPH_MAX_SLICES)
        return false;
    s->bytes[s->at] = 0;
    return true;
}

/* Panels that are never apart: those of a matrix, where the tensor has several. */
static uint32_t panels_together(const struct graph_weight *w) {
    return w->matrices > 1 ? w->layout.panels : 1;
}

static uint64_t unit_bytes(const struct graph_weight *w) {
    return w->packed ? arith_must_mul(w->layout.panel_bytes, panels_together(w)) : w->bytes;
}

static stator_status too_many(const struct graph_weight *w, uint64_t slice_limit, stator_error *e) {
    return error_set(e, STATOR_DOES_NOT_FIT,
                     "tensor '%.*s': slices of %llu bytes are too small for this model",
                     (int)w->tensor->name.length, w->tensor->name.data, (unsigned long long)slice_limit);
}

/* Panels [first, end) of a weight into the slices from s->at on: whole panels (or matrices), cut where a
 * slice is full. */
static stator_status place_panels(struct graph_weight *w, uint32_t first, uint32_t end, struct slices *s,
                                  stator_error *e) {
    const uint32_t together = panels_together(w);
    const uint64_t unit = unit_bytes(w);
    CHECK(first % together == 0 && end % together == 0);
    uint64_t bytes = (end - first) / together * unit;
    if (unit > s->limit)
        return error_set(
            e, STATOR_DOES_NOT_FIT, "tensor '%.*s': one %s of %llu bytes is above the slice limit of %llu",
            (int)w->tensor->name.length, w->tensor->name.data, w->matrices > 1 ? "matrix" : "panel",
            (unsigned long long)unit, (unsigned long long)s->limit);
    /* What fits into a fresh slice is not cut for the rest of this one. */
    if (bytes <= s->limit && s->bytes[s->at] + bytes > s->limit && !next_slice(s))
        return too_many(w, s->limit, e);
    while (first < end) {
        uint64_t fit = (s->limit - s->bytes[s->at]) / unit;
        if (fit == 0) {
            if (!next_slice(s))
                return too_many(w, s->limit, e);
            continue;
        }
        if (w->n_pieces == GRAPH_MAX_PIECES)
            return too_many(w, s->limit, e);
        uint32_t n = (uint32_t)ARITH_MIN(fit, (uint64_t)(end - first) / together);
        w->pieces[w->n_pieces++] = (struct graph_piece){
            .slice = s->at, .first_panel = first, .panels = n * together, .offset = s->bytes[s->at]};
        s->bytes[s->at] += n * unit;
        first += n * together;
    }
    return STATOR_OK;
}

/* Either one panel is too large for any slice, or all slices together are too small. */
static void set_weight_short(struct graph *g, const struct graph_weight *w, uint64_t slice_limit) {
    uint64_t unit = unit_bytes(w), all = 0;
    for (uint32_t i = 0; i < g->n_weights; i++)
        all = arith_must_add(all, g->weights[i].bytes);
    if (unit > slice_limit)
        set_short(g, "weights", unit, slice_limit);
    else
        set_short(g, "weights", all, arith_must_mul(slice_limit, GRAPH_MAX_SLICES));
}

stator_status graph_place_weights(struct graph *g, uint64_t slice_limit, uint64_t *slice_bytes,
                                  stator_error *e) {
    struct slices s = {.limit = slice_limit, .bytes = slice_bytes};
    stator_status st = STATOR_OK;
    uint64_t spilled = 0;
    uint32_t i = 0;
    slice_bytes[0] = 0;
    for (; i < g->n_weights && st == STATOR_OK; i++) {
        struct graph_weight *w = &g->weights[i];
        CHECK(w->spilled <= graph_weight_panels(w));
        w->n_pieces = 0;
        spilled += w->spilled;
        st = place_panels(w, 0, graph_weight_panels(w) - w->spilled, &s, e);
    }
    uint32_t own = s.at + 1;
    if (st == STATOR_OK && spilled > 0 && !next_slice(&s))
        st = too_many(&g->weights[i - 1], slice_limit, e);
    if (st == STATOR_OK && spilled > 0)
        for (i = 0; i < g->n_weights && st == STATOR_OK; i++)
            st = place_panels(&g->weights[i], graph_weight_panels(&g->weights[i]) - g->weights[i].spilled,
                              graph_weight_panels(&g->weights[i]), &s, e);
    if (st != STATOR_OK) {
        set_weight_short(g, &g->weights[i - 1], slice_limit);
        return st;
    }
    g->weight_slices = s.at + 1;
    g->spilled_slices = g->weight_slices - own;
    g->weights_bytes = 0;
    for (i = 0; i < g->weight_slices; i++)
        g->weights_bytes += slice_bytes[i];
    return STATOR_OK;
}

stator_status graph_place(struct graph *g, uint64_t slice_limit, uint64_t exchange_base, void *work,
                          uint64_t work_bytes, uint64_t *slice_bytes, stator_error *e) {
    CHECK(slice_limit % PANEL_ALIGN == 0);
    stator_status st = place_scratch(g, slice_limit, work, work_bytes, e);
    if (st != STATOR_OK)
        return st;
    place_exchange(g, exchange_base);
    set_short(g, "exchange", g->exchange_bytes, slice_limit);
    if (g->exchange_bytes > slice_limit)
        return error_set(
            e, STATOR_DOES_NOT_FIT,
            "exchange needs %llu bytes in one slice, a slice holds at most %llu: lower memory.logits_rows",
            (unsigned long long)g->exchange_bytes, (unsigned long long)slice_limit);
    return graph_place_weights(g, slice_limit, slice_bytes, e);
}
