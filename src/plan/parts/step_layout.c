#include "plan/parts/step_layout.h"

static uint32_t take(uint64_t *at, uint64_t n, uint64_t size) {
    uint64_t here = *at;
    *at = arith_round_up(arith_must_add(here, arith_must_mul(n, size)), CARVE_ALIGN);
    CHECK(here <= UINT32_MAX);
    return (uint32_t)here;
}

void step_layout(const struct device_model *m, const struct planning_want *want, struct step_header *h,
                 uint64_t *bytes) {
    const struct graph *g = m->graph;
    uint64_t at = arith_round_up(step_header_bytes(g->n_caches), CARVE_ALIGN);
    *h = (struct step_header){.rope_stride = graph_angles_stride(g), .n_caches = g->n_caches};
    h->at_tokens = take(&at, want->batch, sizeof(int32_t));
    h->at_chunks = take(&at, want->sequences, sizeof(struct step_chunk));
    h->at_rows = take(&at, want->logits_rows, sizeof(uint32_t));
    for (uint32_t i = 0; i < g->n_caches; i++) {
        const struct device_cache *c = &m->caches[i];
        h->cache[i].table_stride = c->per_sequence;
        h->cache[i].at_fill = take(&at, c->n_blocks, sizeof(struct step_fill));
        h->cache[i].at_tables = take(&at, (uint64_t)want->sequences * c->per_sequence, sizeof(uint32_t));
    }
    h->at_rope = take(&at, (uint64_t)want->batch * h->rope_stride, sizeof(float));
    CHECK(h->at_tokens >= step_header_bytes(g->n_caches) && at >= h->at_rope);
    *bytes = at;
}
