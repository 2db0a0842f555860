/* Offsets for everything: scratch values by lifetime, exchange values in a row, weights in slices. */
#include "graph/graph.h"
#include "memory/pack.h"

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

/* One weight into the slices from *slice on: whole panels, cut where a slice is full. */
static stator_status place_weight(struct graph_weight *w, uint64_t slice_limit, uint32_t *slice,
                                  uint64_t *slice_bytes, stator_error *e) {
    uint64_t unit = w->packed ? w->layout.panel_bytes : w->bytes;
    uint32_t left = w->packed ? w->layout.panels : 1;
    uint32_t first = 0;
    w->n_pieces = 0;
    if (unit > slice_limit)
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "tensor '%.*s': one panel of %llu bytes is above the slice limit of %llu",
                         (int)w->tensor->name.length, w->tensor->name.data, (unsigned long long)unit,
                         (unsigned long long)slice_limit);
    /* A tensor that fits into a fresh slice is not cut for the rest of this one. */
    if (w->bytes <= slice_limit && slice_bytes[*slice] + w->bytes > slice_limit) {
        if (++*slice == GRAPH_MAX_SLICES)
            goto too_many;
        slice_bytes[*slice] = 0;
    }
    while (left > 0) {
        uint64_t room = (slice_limit - slice_bytes[*slice]) / unit;
        if (room == 0) {
            if (++*slice == GRAPH_MAX_SLICES)
                goto too_many;
            slice_bytes[*slice] = 0;
            continue;
        }
        if (w->n_pieces == GRAPH_MAX_PIECES)
            goto too_many;
        uint32_t n = (uint32_t)ARITH_MIN(room, (uint64_t)left);
        w->pieces[w->n_pieces++] = (struct graph_piece){
            .slice = *slice, .first_panel = first, .panels = n, .offset = slice_bytes[*slice]};
        slice_bytes[*slice] += n * unit;
        first += n;
        left -= n;
    }
    return STATOR_OK;
too_many:
    return error_set(e, STATOR_DOES_NOT_FIT,
                     "tensor '%.*s': slices of %llu bytes are too small for this model",
                     (int)w->tensor->name.length, w->tensor->name.data, (unsigned long long)slice_limit);
}

/* Either one panel is too large for any slice, or all slices together are too small. */
static void set_weight_short(struct graph *g, const struct graph_weight *w, uint64_t slice_limit) {
    uint64_t unit = w->packed ? w->layout.panel_bytes : w->bytes, all = 0;
    for (uint32_t i = 0; i < g->n_weights; i++)
        all = arith_must_add(all, g->weights[i].bytes);
    if (unit > slice_limit)
        set_short(g, "weights", unit, slice_limit);
    else
        set_short(g, "weights", all, arith_must_mul(slice_limit, GRAPH_MAX_SLICES));
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
    uint32_t slice = 0;
    slice_bytes[0] = 0;
    g->weights_bytes = 0;
    for (uint32_t i = 0; i < g->n_weights; i++) {
        st = place_weight(&g->weights[i], slice_limit, &slice, slice_bytes, e);
        if (st != STATOR_OK) {
            set_weight_short(g, &g->weights[i], slice_limit);
            return st;
        }
    }
    g->weight_slices = slice + 1;
    for (uint32_t i = 0; i < g->weight_slices; i++)
        g->weights_bytes += slice_bytes[i];
    return STATOR_OK;
}
