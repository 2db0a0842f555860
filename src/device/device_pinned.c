/* What all back ends share: names of arenas, where KV lies, the layout of their pinned parts, workspaces of
 * graphs. */
#include "device/device.h"
#include "kernels/kernels.h"
#include "kernels/shared/opencl.h"

const char *device_arena_name(enum device_arena a) {
    static const char *const names[DEVICE_ARENAS] = {"weights", "kv", "scratch", "exchange"};
    CHECK(a < DEVICE_ARENAS);
    return names[a];
}

struct device_kv_part device_kv_part(const struct device_kv *kv, const struct graph *g, bool spilled) {
    uint32_t layers = g->want.end_layer - g->want.first_layer;
    CHECK(kv->spilled_layers <= layers);
    uint32_t kept = (layers - kv->spilled_layers) * kv->heads;
    uint32_t rest = kv->spilled_layers * kv->heads;
    uint32_t own = (uint32_t)arith_ceil_div(kept, kv->units_per_slice);
    if (!spilled)
        return (struct device_kv_part){.end = own, .units = kept};
    uint32_t more = (uint32_t)arith_ceil_div(rest, kv->units_per_slice);
    return (struct device_kv_part){.first = own, .end = own + more, .units = rest};
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

uint32_t device_cells(const struct device_facts *f, const struct device_kv *kv, uint32_t sequences,
                      uint32_t batch) {
    uint64_t splits = arith_ceil_div((uint64_t)kv->blocks_per_sequence * KERNELS_KV_BLOCK, KERNELS_SPLIT);
    uint64_t queries = ARITH_MIN((uint64_t)sequences * OPENCL_SPLIT_QUERIES, (uint64_t)batch);
    if (f->host_memory || splits <= 1)
        return 0;
    return (uint32_t)ARITH_MIN(queries * splits, (uint64_t)UINT32_MAX);
}
