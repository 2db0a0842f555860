#include "device/expert_cache.h"

#include "kernels/shared/experts.h"

#include <string.h>

#define TRIAL 64  /* copies after which it is looked whether they pay */
#define PAUSE 512 /* steps, where they do not */

void expert_cache_lay_out(struct expert_cache *c, struct carve *memory, const struct device_model *m) {
    const struct device_slot_table t = device_slot_table(m);
    const uint64_t layers = t.layers, n = m->cached.n;
    *c = (struct expert_cache){.table = t, .n = m->cached.n};
    c->slot_of = carve_take(memory, layers * t.experts, sizeof *c->slot_of);
    c->expert_of = carve_take(memory, layers * n, sizeof *c->expert_of);
    c->used = carve_take(memory, layers * n, sizeof *c->used);
    c->wanted = carve_take(memory, layers, sizeof *c->wanted);
    if (memory->base == NULL || n == 0)
        return;
    memset(c->slot_of, 0xff, layers * t.experts * sizeof *c->slot_of); /* EXPERTS_FAR */
    memset(c->expert_of, 0xff, layers * n * sizeof *c->expert_of);
    memset(c->used, 0, layers * n * sizeof *c->used);
    memset(c->wanted, 0xff, layers * sizeof *c->wanted);
}

/* The slot of a layer that was not used for longest; those without an expert come first. */
static uint32_t oldest(const struct expert_cache *c, uint32_t layer) {
    const uint64_t *used = c->used + (size_t)layer * c->n;
    uint32_t best = 0;
    for (uint32_t i = 1; i < c->n; i++)
        best = used[i] < used[best] ? i : best;
    return best;
}

/* The layer's missed expert gets a slot, from the next step on. */
static void take(struct expert_cache *c, uint32_t layer, uint32_t *copies) {
    uint32_t *slot_of = c->slot_of + (size_t)layer * c->table.experts;
    const uint32_t expert = c->wanted[layer], slot = oldest(c, layer);
    uint32_t *holds = &c->expert_of[(size_t)layer * c->n + slot];
    CHECK(expert < c->table.experts && copies[0] < DEVICE_SLOT_COPIES);
    if (*holds != EXPERTS_FAR)
        slot_of[*holds] = EXPERTS_FAR;
    *holds = expert;
    slot_of[expert] = slot;
    c->used[(size_t)layer * c->n + slot] = ++c->uses;
    c->wanted[layer] = EXPERTS_FAR;
    copies[1 + 2 * copies[0]] = expert;
    copies[2 + 2 * copies[0]] = slot;
    copies[0]++;
}

uint32_t expert_cache_plan(struct expert_cache *c, uint32_t first, uint32_t count, uint32_t most,
                           uint32_t *table) {
    uint32_t copied = 0;
    CHECK(c->n > 0 && count > 0 && first + count <= c->table.layers);
    for (uint32_t l = first; l < first + count; l++) {
        uint32_t *to = table + (size_t)l * c->table.stride;
        memcpy(to, c->slot_of + (size_t)l * c->table.experts, c->table.experts * sizeof *to);
        to[c->table.copies] = 0;
    }
    if (c->pause > 0) {
        c->pause--;
        c->hits = 0; /* those of now are of copies that were made before */
        return 0;
    }
    for (uint32_t i = 0; i < count && copied < most; i++) {
        const uint32_t l = first + (c->next + i) % count;
        if (c->wanted[l] == EXPERTS_FAR)
            continue;
        take(c, l, table + (size_t)l * c->table.stride + c->table.copies);
        copied++;
        if (copied == most)
            c->next = l - first + 1;
    }
    c->copies += copied;
    if (c->copies < TRIAL)
        return copied;
    c->pause = c->hits < c->copies ? PAUSE : 0;
    c->hits = c->copies = 0;
    return copied;
}

uint32_t expert_cache_saw(struct expert_cache *c, uint32_t layer, const uint32_t *chosen, uint32_t n,
                          const uint32_t *map) {
    const uint32_t *slot_of = c->slot_of + (size_t)layer * c->table.experts;
    uint32_t hits = 0;
    CHECK(layer < c->table.layers);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(chosen[i] < c->table.experts);
        hits += map[chosen[i]] != EXPERTS_FAR;
        if (slot_of[chosen[i]] != EXPERTS_FAR)
            c->used[(size_t)layer * c->n + slot_of[chosen[i]]] = ++c->uses;
        else
            c->wanted[layer] = chosen[i];
    }
    c->hits += hits;
    return hits;
}
