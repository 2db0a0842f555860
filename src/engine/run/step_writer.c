#include "engine/run/step_writer.h"

#include <math.h>
#include <string.h>

/* By which of a token's places a pair turns. */
static uint32_t section_of(const struct graph_angles *a, uint32_t pair) {
    const uint32_t k = pair % 3;
    if (a->in_order)
        return (pair >= a->sections[0]) + (pair >= a->sections[0] + a->sections[1]);
    return k > 0 && pair < 3 * a->sections[k] ? k : 0;
}

/* Angles in double precision, so that far positions keep their digits; the device never computes one. */
void step_writer_angles(const struct graph *g, const double *frequency, const struct step_header *h,
                        uint8_t *slot, uint32_t token, struct step_place place) {
    float *out = (float *)(void *)(slot + h->at_rope) + (size_t)token * h->rope_stride;
    for (uint32_t i = 0; i < g->n_angles; i++) {
        const struct graph_angles *a = &g->angles[i];
        double magnitude = (double)a->magnitude;
        if (a->growth != 0)
            magnitude *= 1 + (double)a->growth * log(1 + floor((double)place.at[0] / a->original));
        for (uint32_t j = a->first / 2; j < (a->first + a->n_rot) / 2; j++) {
            double angle = (double)place.at[section_of(a, j - a->first / 2)] * frequency[j];
            out[2 * j] = (float)(cos(angle) * magnitude);
            out[2 * j + 1] = (float)(sin(angle) * magnitude);
        }
    }
}

float *step_writer_value(const struct stator *s, uint32_t device, uint32_t value, uint64_t half) {
    struct device *d = s->devices[device].device;
    const struct planning_device *p = &s->planning.devices[device];
    const struct graph_value *v = &p->graph.values[value];
    if (!p->facts.host_memory) { /* the device copies it at the step's begin */
        const uint64_t *at = value == p->graph.pictures  ? p->pinned.pictures
                             : value == p->graph.ngrams  ? p->pinned.ngrams
                             : value == p->graph.blends  ? p->pinned.blends
                             : value == p->graph.windows ? p->pinned.windows
                                                         : NULL;
        CHECK(at != NULL && at[half] != UINT64_MAX);
        return (float *)(void *)((uint8_t *)s->start.staging + p->at_pinned + at[half]);
    }
    uint8_t *exchange = d->vtable->map(d, DEVICE_EXCHANGE, 0);
    CHECK(exchange != NULL && v->arena == GRAPH_EXCHANGE);
    return (float *)(void *)(exchange + v->offset + v->f32 + (v->halves > 1 ? half * v->half_bytes : 0));
}

void step_writer_rope(const struct stator *s, const struct step_header *h, uint8_t *slot, uint32_t token,
                      struct step_place place) {
    /* All devices of the model have the same angles. */
    step_writer_angles(&s->planning.devices[0].graph, s->run.rope_frequency, h, slot, token, place);
}

void step_writer_fill(struct step_header *h, uint8_t *slot, uint32_t cache, uint32_t block, uint32_t from) {
    CHECK(cache < h->n_caches && block != from);
    struct step_cache *c = &h->cache[cache];
    struct step_fill *fill = (struct step_fill *)(slot + c->at_fill) + c->n_fill++;
    *fill = (struct step_fill){.block = block, .from = from};
}

void step_writer_copy(uint8_t *to, const uint8_t *from) {
    const struct step_header *h = (const struct step_header *)from;
    const struct step_chunk *chunks = (const struct step_chunk *)(from + h->at_chunks);
    CHECK(h->n_chunks > 0 && h->n_chunks <= h->n_tokens && h->n_caches <= STEP_CACHES);
    memcpy(to, from, step_header_bytes(h->n_caches));
    memcpy(to + h->at_tokens, from + h->at_tokens, h->n_tokens * sizeof(int32_t));
    memcpy(to + h->at_chunks, chunks, h->n_chunks * sizeof *chunks);
    memcpy(to + h->at_rows, from + h->at_rows, h->n_rows * sizeof(uint32_t));
    memcpy(to + h->at_rope, from + h->at_rope, (size_t)h->n_tokens * h->rope_stride * sizeof(float));
    for (uint32_t c = 0; c < h->n_caches; c++) {
        const struct step_cache *k = &h->cache[c];
        memcpy(to + k->at_fill, from + k->at_fill, k->n_fill * sizeof(struct step_fill));
        for (uint32_t i = 0; i < h->n_chunks; i++) {
            size_t at = k->at_tables + (size_t)chunks[i].slot * k->table_stride * sizeof(uint32_t);
            memcpy(to + at, from + at, k->table_stride * sizeof(uint32_t));
        }
    }
}
