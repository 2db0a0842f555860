/* What a graph remembers between steps: caches, how many blocks a sequence has in each, and which layers. */
#include "graph/graph.h"

#include "kernels/shared/kv_layout.h"

uint32_t graph_add_cache(struct graph *g, const struct graph_cache *c) {
    CHECK(g->n_caches < GRAPH_MAX_CACHES && c->units > 0 && c->bytes > 0 &&
          c->bytes % GRAPH_CACHE_ALIGN == 0);
    CHECK(c->k_bytes <= c->bytes && (c->kind == GRAPH_RING) == (c->window > 0));
    g->caches[g->n_caches] = *c;
    g->caches[g->n_caches].n_layers = 0;
    return g->n_caches++;
}

void graph_op_cache(struct graph *g, struct graph_op *op, uint32_t cache) {
    CHECK(cache < g->n_caches && op->layer != GRAPH_NONE);
    op->cache = cache;
    for (uint32_t i = g->n_cached; i-- > 0 && g->cached[i].layer == op->layer;) {
        op->cache_layer = g->cached[i].at;
        if (g->cached[i].cache == cache)
            return;
    }
    CHECK(g->n_cached < g->max_cached);
    CHECK(g->n_cached == 0 || g->cached[g->n_cached - 1].layer <= op->layer);
    op->cache_layer = g->caches[cache].n_layers++;
    g->cached[g->n_cached++] =
        (struct graph_cached){.cache = cache, .layer = op->layer, .at = op->cache_layer};
}

void graph_op_cache_of(const struct graph *g, struct graph_op *op, uint32_t cache, uint32_t layer) {
    uint32_t i = 0;
    while (i < g->n_cached && (g->cached[i].cache != cache || g->cached[i].layer != layer))
        i++;
    CHECK(i < g->n_cached && layer < op->layer);
    op->cache = cache;
    op->cache_layer = g->cached[i].at;
}

uint32_t graph_cache_blocks(const struct graph_cache *c, uint32_t context, uint32_t batch) {
    uint64_t all = arith_ceil_div(context, KV_LAYOUT_BLOCK);
    if (c->kind == GRAPH_STATE)
        return 1;
    if (c->kind == GRAPH_PAGED)
        return (uint32_t)all;
    /* A chunk is stored before its first query reads, so both are there: the window and the chunk. */
    uint64_t ring = arith_ceil_div((uint64_t)c->window + batch - 1, KV_LAYOUT_BLOCK) + 1;
    return (uint32_t)ARITH_MIN(all, ring);
}

bool graph_cache_rewinds(const struct graph_cache *c, uint32_t per_sequence, uint32_t from, uint32_t to) {
    CHECK(to <= from);
    if (c->kind == GRAPH_STATE)
        return to == from;
    if (c->kind == GRAPH_PAGED)
        return true;
    /* A ring has the newest tokens only; the next one sees window - 1 before it. */
    uint64_t tokens = (uint64_t)per_sequence * KV_LAYOUT_BLOCK;
    return from <= tokens || to + tokens + 1 >= (uint64_t)from + c->window;
}

uint32_t graph_cache_kept(const struct graph_cache *c, uint32_t per_sequence) {
    if (c->kind != GRAPH_RING)
        return c->kind == GRAPH_STATE;
    /* The next token sees window - 1 before it. */
    return ARITH_MIN((uint32_t)arith_ceil_div(c->window - 1, KV_LAYOUT_BLOCK), per_sequence);
}

uint32_t graph_cache_need(const struct graph_cache *c, uint32_t per_sequence, uint32_t tokens) {
    uint64_t all = arith_ceil_div(tokens, KV_LAYOUT_BLOCK);
    return c->kind == GRAPH_STATE ? 1 : (uint32_t)ARITH_MIN(all, (uint64_t)per_sequence);
}
