#include "device/level_zero/lz_facts.h"

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
