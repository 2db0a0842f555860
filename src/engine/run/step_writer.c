/* The step descriptor's layout, and the angles of RoPE. */
#include "engine/engine.h"

#include <math.h>
#include <string.h>

static uint32_t take(uint64_t *at, uint64_t n, uint64_t size) {
    uint64_t here = *at;
    *at = arith_round_up(arith_must_add(here, arith_must_mul(n, size)), CARVE_ALIGN);
    CHECK(here <= UINT32_MAX);
    return (uint32_t)here;
}

void step_writer_layout(const struct device_model *m, const struct engine_want *want, struct step_header *h,
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
        h->cache[i].at_zero = take(&at, c->n_blocks, sizeof(uint32_t));
        h->cache[i].at_tables = take(&at, (uint64_t)want->sequences * c->per_sequence, sizeof(uint32_t));
    }
    h->at_rope = take(&at, (uint64_t)want->batch * h->rope_stride, sizeof(float));
    *bytes = at;
}

/* Angles in double precision, so that far positions keep their digits; the device never computes one. */
void step_writer_rope(const struct stator *s, const struct step_header *h, uint8_t *slot, uint32_t token,
                      uint32_t position) {
    float *out = (float *)(void *)(slot + h->at_rope) + (size_t)token * h->rope_stride;
    for (uint32_t j = 0; j < h->rope_stride / 2; j++) {
        double angle = (double)position * s->rope_frequency[j];
        out[2 * j] = (float)cos(angle);
        out[2 * j + 1] = (float)sin(angle);
    }
}

void step_writer_copy(uint8_t *to, const uint8_t *from) {
    const struct step_header *h = (const struct step_header *)from;
    const struct step_chunk *chunks = (const struct step_chunk *)(from + h->at_chunks);
    memcpy(to, from, step_header_bytes(h->n_caches));
    memcpy(to + h->at_tokens, from + h->at_tokens, h->n_tokens * sizeof(int32_t));
    memcpy(to + h->at_chunks, chunks, h->n_chunks * sizeof *chunks);
    memcpy(to + h->at_rows, from + h->at_rows, h->n_rows * sizeof(uint32_t));
    memcpy(to + h->at_rope, from + h->at_rope, (size_t)h->n_tokens * h->rope_stride * sizeof(float));
    for (uint32_t c = 0; c < h->n_caches; c++) {
        const struct step_cache *k = &h->cache[c];
        memcpy(to + k->at_zero, from + k->at_zero, k->n_zero * sizeof(uint32_t));
        for (uint32_t i = 0; i < h->n_chunks; i++) {
            size_t at = k->at_tables + (size_t)chunks[i].slot * k->table_stride * sizeof(uint32_t);
            memcpy(to + at, from + at, k->table_stride * sizeof(uint32_t));
        }
    }
}
