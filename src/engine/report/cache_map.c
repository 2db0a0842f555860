/* Who holds which blocks of the caches, for any thread: read from what the engine's thread shows of each. */
#include "engine/engine.h"

#include "engine/arguments.h"
#include "kernels/kernels.h"

#include <stdio.h>

static stator_status need_started(const struct stator *s, const char *call, stator_error *e) {
    return s->front.started ? STATOR_OK : error_set(e, STATOR_USAGE, "%s: call stator_start first", call);
}

stator_status stator_get_cache(const stator *s, size_t index, stator_cache *cache, int *have,
                               stator_error *e) {
    static const char *const kinds[] = {
        [GRAPH_PAGED] = "paged", [GRAPH_RING] = "ring", [GRAPH_STATE] = "state"};
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(have);
    *have = 0;
    ARGUMENTS_SIZED(cache, size);
    stator_status st = need_started(s, "stator_get_cache", e);
    if (st != STATOR_OK || index >= s->planning.devices[0].graph.n_caches)
        return st;
    const struct graph_cache *g = &s->planning.devices[0].graph.caches[index];
    stator_cache all = {.blocks = s->planning.devices[0].model.caches[index].n_blocks,
                        .block_tokens = g->kind == GRAPH_STATE ? 0 : KERNELS_KV_BLOCK};
    snprintf(all.name, sizeof all.name, "%s", g->name);
    snprintf(all.kind, sizeof all.kind, "%s", kinds[g->kind]);
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        all.block_bytes += g->bytes * g->units * s->planning.devices[i].graph.caches[index].n_layers;
    ARGUMENTS_WRITE(cache, &all);
    *have = 1;
    return STATOR_OK;
}

stator_status stator_get_blocks(stator *s, size_t cache, size_t first, stator_block *out, size_t capacity,
                                size_t *n, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(n);
    *n = 0;
    if (capacity > 0)
        ARGUMENTS_NEED(out);
    stator_status st = need_started(s, "stator_get_blocks", e);
    if (st != STATOR_OK)
        return st;
    if (cache >= s->planning.devices[0].graph.n_caches)
        return error_set(e, STATOR_USAGE, "stator_get_blocks: there is no cache %zu, the model has %u", cache,
                         s->planning.devices[0].graph.n_caches);
    const _Atomic uint64_t *shown = s->run.caches[cache].shown;
    for (size_t i = first; i < s->planning.devices[0].model.caches[cache].n_blocks && *n < capacity; i++) {
        uint64_t v = atomic_load_explicit(&shown[i], memory_order_relaxed);
        uint32_t holders = v & UINT16_MAX;
        out[(*n)++] = (stator_block){.request = holders > 0 ? v >> 16 : 0,
                                     .holders = holders,
                                     .state = holders > 0           ? STATOR_BLOCK_HELD
                                              : v == KV_POOL_CACHED ? STATOR_BLOCK_CACHED
                                                                    : STATOR_BLOCK_FREE};
    }
    return STATOR_OK;
}
