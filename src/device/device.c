/* What device.h promises of all back ends alike: names of arenas, where caches lie, the layout of pinned
 * parts, workspaces of graphs. */
#include "device/device.h"
#include "kernels/kernels.h"
#include "kernels/shared/opencl.h"

const char *device_arena_name(enum device_arena a) {
    static const char *const names[DEVICE_ARENAS] = {"weights", "kv", "scratch", "exchange", "window"};
    CHECK(a < DEVICE_ARENAS);
    return names[a];
}

static uint32_t units_of(const struct device_model *m, uint32_t cache, bool spilled) {
    const struct graph_cache *g = &m->graph->caches[cache];
    uint32_t rest = m->caches[cache].spilled_layers;
    CHECK(rest <= g->n_layers);
    return (spilled ? rest : g->n_layers - rest) * g->units;
}

static uint32_t slices_before(const struct device_model *m, uint32_t cache, bool spilled) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < cache; i++)
        sum += (uint32_t)arith_ceil_div(units_of(m, i, spilled), m->caches[i].units_per_slice);
    return sum;
}

uint32_t device_cache_slices(const struct device_model *m, bool spilled_too) {
    uint32_t n = m->graph->n_caches;
    return slices_before(m, n, false) + (spilled_too ? slices_before(m, n, true) : 0);
}

struct device_cache_part device_cache_part(const struct device_model *m, uint32_t cache, bool spilled) {
    CHECK(cache < m->graph->n_caches);
    struct device_cache_part p = {.units = units_of(m, cache, spilled)};
    p.first = slices_before(m, cache, spilled) + (spilled ? device_cache_slices(m, false) : 0);
    p.end = p.first + (uint32_t)arith_ceil_div(p.units, m->caches[cache].units_per_slice);
    return p;
}

void device_pinned_lay_out(const struct device_facts *f, const struct device_model *m,
                           struct device_pinned *p) {
    *p = (struct device_pinned){0};
    for (int k = 0; k < 2; k++)
        p->logits[k] = p->picks[k] = UINT64_MAX;
    if (f->host_memory)
        return;
    const struct graph *g = m->graph;
    struct carve c = carve_count();
    CHECK((g->logits == GRAPH_NONE) == (g->picks == GRAPH_NONE));
    for (int k = 0; k < 2; k++) {
        p->step[k] = c.used;
        carve_take(&c, m->step_bytes, 1);
    }
    for (int k = 0; k < 2 && g->logits != GRAPH_NONE; k++) {
        p->logits[k] = c.used;
        carve_take(&c, g->values[g->logits].half_bytes, 1);
        p->picks[k] = c.used;
        carve_take(&c, g->values[g->picks].half_bytes, 1);
    }
    p->bytes = c.used;
}

/* Cells beyond what tokens that are generated need, for the few last tokens of a prompt: cells are scratch
 * that grows with the context, so there are not many. */
#define CELLS_TO_SPARE 1024

uint32_t device_cells(const struct device_facts *f, uint32_t context, uint32_t sequences, uint32_t guesses,
                      uint32_t batch) {
    uint64_t splits = arith_ceil_div(context, KERNELS_SPLIT);
    CHECK(sequences > 0 && batch > 0);
    uint64_t each = ARITH_MIN((uint64_t)guesses + 1, (uint64_t)OPENCL_SPLIT_QUERIES);
    uint64_t least = ARITH_MIN(sequences * each, (uint64_t)batch) * splits;
    uint64_t most = ARITH_MIN((uint64_t)sequences * OPENCL_SPLIT_QUERIES, (uint64_t)batch) * splits;
    if (f->host_memory || splits <= 1)
        return 0;
    uint64_t cells = ARITH_MAX(least, ARITH_MIN(most, (uint64_t)CELLS_TO_SPARE));
    return (uint32_t)ARITH_MIN(cells, (uint64_t)UINT32_MAX);
}
