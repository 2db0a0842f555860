#include "plan/parts/slices.h"

#include "base/arith.h"
#include "os/pages.h"

#include <stdio.h>

uint64_t slices_rounded(const struct device_facts *f, uint64_t bytes) {
    return arith_round_up(bytes, ARITH_MAX(f->alignment, (uint64_t)PAGES_SIZE));
}

/* What a layer has of a cache in a slice is a block. */
static void add_cached_blocks(const struct device_model *m, const struct graph_cached *l, bool spilled,
                              uint32_t at, struct plan *p) {
    const struct graph_cache *g = &m->graph->caches[l->cache];
    const struct device_cache *c = &m->caches[l->cache];
    uint32_t kept = g->n_layers - c->spilled_layers;
    if (spilled != (l->at >= kept))
        return;
    uint64_t unit = (uint64_t)(l->at - (spilled ? kept : 0)) * g->units;
    uint64_t last = unit + g->units;
    CHECK(unit < last && c->units_per_slice > 0);
    at += device_cache_part(m, l->cache, spilled).first - (spilled ? device_cache_slices(m, false) : 0);
    while (unit < last) {
        uint64_t slice = unit / c->units_per_slice;
        uint64_t n = ARITH_MIN(last, (slice + 1) * c->units_per_slice) - unit;
        char name[48];
        int length = snprintf(name, sizeof name, "blk.%u.%s", l->layer, g->name);
        plan_add_block(p, name, (size_t)length, at + (uint32_t)slice,
                       unit % c->units_per_slice * c->unit_bytes, n * c->unit_bytes, 0, 0);
        unit += n;
    }
}

void slices_cache_blocks(const struct device_model *m, bool spilled, uint32_t at, struct plan *p) {
    for (uint32_t i = 0; i < m->graph->n_cached; i++)
        add_cached_blocks(m, &m->graph->cached[i], spilled, at, p);
}

void slices_add_caches(const struct device_facts *f, const struct device_model *m, bool spilled,
                       struct plan_place *place, struct plan_arena *a) {
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        const struct device_cache *c = &m->caches[i];
        for (uint64_t left = device_cache_part(m, i, spilled).units; left > 0;) {
            uint64_t n = ARITH_MIN(left, (uint64_t)c->units_per_slice);
            CHECK(n > 0);
            plan_add_slice(place, a, slices_rounded(f, n * c->unit_bytes));
            left -= n;
        }
    }
}

uint64_t slices_cache_bytes(const struct device_model *m, bool spilled) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m->graph->n_caches; i++)
        sum = arith_must_add(sum,
                             arith_must_mul(device_cache_part(m, i, spilled).units, m->caches[i].unit_bytes));
    return sum;
}

void slices_weight_blocks(const struct graph *g, uint32_t first, uint32_t end, uint32_t at, struct plan *p) {
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
