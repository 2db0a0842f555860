/* What all back ends share: names of arenas, and the layout of their pinned parts. */
#include "device/device.h"

const char *device_arena_name(enum device_arena a) {
    static const char *const names[DEVICE_ARENAS] = {"weights", "kv", "scratch", "exchange"};
    CHECK(a < DEVICE_ARENAS);
    return names[a];
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
