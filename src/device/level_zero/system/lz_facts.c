#include "device/level_zero/system/lz_facts.h"

#include <stdio.h>
#include <string.h>

#define MARGIN 32

void lz_facts_of(const struct lz_gpu *g, struct device_facts *f) {
    memset(f, 0, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", g->name);
    snprintf(f->kind, sizeof f->kind, "gpu");
    f->memory = (g->total - g->total / MARGIN) / LZ_FACTS_ALIGNMENT * LZ_FACTS_ALIGNMENT;
    f->max_alloc = g->max_alloc / LZ_FACTS_ALIGNMENT * LZ_FACTS_ALIGNMENT;
    f->bandwidth = g->bandwidth;
    f->bus = g->bus;
    f->alignment = LZ_FACTS_ALIGNMENT;
}

struct launch_traits lz_facts_traits(const struct lz_gpu *g) {
    struct launch_traits t = {.max_group = g->max_group,
                              .local_bytes = g->local_memory,
                              .threads = ARITH_MAX(g->eus * g->threads_per_eu, 1u),
                              .dpas = g->dpas};
    for (uint32_t i = 0; i < g->n_sub_groups; i++)
        for (uint32_t bit = 0; bit < 8; bit++)
            if (g->sub_groups[i] == 1u << bit)
                t.sub_group_sizes |= 1u << bit;
    return t;
}
