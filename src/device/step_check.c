/* What must be true of a step descriptor when a device gets it. */
#include "device/device.h"
#include "kernels/shared/kv_layout.h"

static const char *header_flaw(const struct device_model *m, const struct step_header *h) {
    const struct step_header *planned = &m->step;
    const struct graph *g = m->graph;
    if (h->n_tokens == 0 || h->n_tokens > g->want.batch)
        return "tokens are not 1 to batch";
    if (h->run_body == STEP_GUESS && (g->guess == g->n_ops || h->n_rows == 0 || h->n_tokens != h->n_chunks))
        return "drafts where no MTP head makes them, or of no single tokens";
    if (h->n_rows > g->want.logits_rows)
        return "more rows of logits than planned";
    if (h->n_chunks == 0 || h->n_chunks > m->sequences || h->n_chunks > h->n_tokens)
        return "chunks are not 1 to sequences, each with a token";
    if (h->n_caches != g->n_caches || h->rope_stride != planned->rope_stride)
        return "caches or angles are not the graph's";
    if (h->at_tokens != planned->at_tokens || h->at_chunks != planned->at_chunks ||
        h->at_rows != planned->at_rows || h->at_rope != planned->at_rope)
        return "arrays are not where they were planned";
    for (uint32_t i = 0; i < h->n_caches; i++) {
        const struct step_cache *c = &h->cache[i], *p = &planned->cache[i];
        if (c->at_fill != p->at_fill || c->at_tables != p->at_tables || c->table_stride != p->table_stride)
            return "a cache's tables are not where they were planned";
        if (c->n_fill > m->caches[i].n_blocks)
            return "more blocks to set than there are";
    }
    return NULL;
}

const char *device_step_flaw(const struct device_model *m, const void *slot) {
    const uint8_t *at = slot;
    const struct step_header *h = slot;
    const char *flaw = header_flaw(m, h);
    if (flaw != NULL)
        return flaw;
    const struct step_chunk *chunks = (const struct step_chunk *)(at + h->at_chunks);
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        if (chunks[i].slot >= m->sequences)
            return "a chunk of no sequence";
        if (chunks[i].n == 0 || chunks[i].first != tokens || chunks[i].n > h->n_tokens - tokens)
            return "chunks do not follow one another";
        if (chunks[i].tested >= chunks[i].n)
            return "a chunk of draft tokens only";
        const uint32_t kept = m->graph->want.guess_rows;
        if (chunks[i].hidden > kept || (kept > 0 && chunks[i].tested >= kept))
            return "a chunk goes on from a row that it does not keep, or has more draft tokens";
        tokens += chunks[i].n;
    }
    if (tokens != h->n_tokens)
        return "tokens of no chunk";
    const uint32_t *rows = (const uint32_t *)(at + h->at_rows);
    for (uint32_t i = 0; i < h->n_rows; i++)
        if (rows[i] >= h->n_tokens)
            return "logits of no token are wanted";
    return NULL;
}

static const char *cache_flaw(const struct device_model *m, const uint8_t *at, uint32_t cache) {
    const struct step_header *h = (const struct step_header *)at;
    const struct step_cache *c = &h->cache[cache];
    const struct step_chunk *chunks = (const struct step_chunk *)(at + h->at_chunks);
    const struct step_fill *fill = (const struct step_fill *)(at + c->at_fill);
    const uint32_t *tables = (const uint32_t *)(at + c->at_tables);
    uint32_t n_blocks = m->caches[cache].n_blocks;
    for (uint32_t i = 0; i < c->n_fill; i++) {
        if (fill[i].block >= n_blocks || (fill[i].from >= n_blocks && fill[i].from != STEP_ZEROS))
            return "a block to set, or where from, is none of the cache";
        for (uint32_t k = 0; k < c->n_fill; k++)
            if (fill[i].from == fill[k].block || (i != k && fill[i].block == fill[k].block))
                return "a block is set twice, or set and copied";
    }
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        const struct step_chunk *k = &chunks[i];
        const uint32_t *table = tables + (size_t)k->slot * c->table_stride;
        uint32_t need = graph_cache_need(&m->graph->caches[cache], c->table_stride, k->position + k->n);
        bool paged = m->graph->caches[cache].kind == GRAPH_PAGED;
        if (paged && (uint64_t)k->position + k->n > (uint64_t)c->table_stride * KV_LAYOUT_BLOCK)
            return "a chunk lies behind the end of its block table";
        for (uint32_t b = 0; b < need; b++)
            if (table[b] >= n_blocks)
                return "a block of a chunk is none of the cache";
    }
    return NULL;
}

const char *device_tables_flaw(const struct device_model *m, const void *slot) {
    const struct step_header *h = slot;
    const struct step_chunk *chunks = (const struct step_chunk *)((const uint8_t *)slot + h->at_chunks);
    for (uint32_t i = 0; i < h->n_chunks; i++)
        for (uint32_t k = 0; k < i; k++)
            if (chunks[i].slot == chunks[k].slot)
                return "two chunks of one sequence";
    for (uint32_t i = 0; i < h->n_caches; i++) {
        const char *flaw = cache_flaw(m, slot, i);
        if (flaw != NULL)
            return flaw;
    }
    return NULL;
}
