#include "device/remote/remote_wire.h"

#include "base/arith.h"
#include "base/check.h"

#include <string.h>

static uint64_t padded(uint64_t bytes) {
    return arith_round_up(bytes, 8);
}

/* The header and its arrays, whole. */
uint64_t remote_wire_most(const struct device_model *m) {
    return m->step_bytes + 8ull * (5 + 2 * m->step.n_caches + m->sequences);
}

/* Calls visit for each run of bytes of the step in the slot, in one order on both sides; false: one was
 * refused. The header is there already, with its counts in bounds. */
static bool walk(uint8_t *slot, bool (*visit)(void *context, uint8_t *at, uint64_t bytes), void *context) {
    const struct step_header *h = (const struct step_header *)slot;
    const struct step_chunk *chunks = (const struct step_chunk *)(slot + h->at_chunks);
    bool ok = visit(context, slot + h->at_tokens, h->n_tokens * sizeof(int32_t)) &&
              visit(context, slot + h->at_chunks, h->n_chunks * sizeof *chunks) &&
              visit(context, slot + h->at_rows, h->n_rows * sizeof(uint32_t)) &&
              visit(context, slot + h->at_rope, (uint64_t)h->n_tokens * h->rope_stride * sizeof(float));
    for (uint32_t c = 0; c < h->n_caches && ok; c++) {
        const struct step_cache *k = &h->cache[c];
        ok = visit(context, slot + k->at_fill, k->n_fill * sizeof(struct step_fill));
        for (uint32_t i = 0; i < h->n_chunks && ok; i++)
            ok = visit(context,
                       slot + k->at_tables + (uint64_t)chunks[i].slot * k->table_stride * sizeof(uint32_t),
                       k->table_stride * sizeof(uint32_t));
    }
    return ok;
}

struct packing {
    uint8_t *wire;
    uint64_t used, bytes;
};

static bool pack(void *context, uint8_t *at, uint64_t bytes) {
    struct packing *p = context;
    CHECK(p->used + padded(bytes) <= p->bytes);
    memcpy(p->wire + p->used, at, bytes);
    p->used += padded(bytes);
    return true;
}

uint32_t remote_wire_pack(const struct device_model *m, const uint8_t *slot, uint8_t *out) {
    struct packing p = {.wire = out, .bytes = remote_wire_most(m)};
    pack(&p, (uint8_t *)slot, step_header_bytes(m->step.n_caches));
    bool ok = walk((uint8_t *)slot, pack, &p);
    CHECK(ok && p.used <= UINT32_MAX);
    return (uint32_t)p.used;
}

struct copying {
    const uint8_t *from;
    uint8_t *to;
};

static bool copy(void *context, uint8_t *at, uint64_t bytes) {
    const struct copying *c = context;
    memcpy(c->to + (at - c->from), at, bytes);
    return true;
}

void remote_wire_copy(const struct device_model *m, const uint8_t *from, uint8_t *to) {
    struct copying c = {from, to};
    copy(&c, (uint8_t *)from, step_header_bytes(m->step.n_caches));
    const bool ok = walk((uint8_t *)from, copy, &c);
    CHECK(ok);
}

static bool unpack(void *context, uint8_t *at, uint64_t bytes) {
    struct packing *p = context;
    if (padded(bytes) > p->bytes - p->used)
        return false;
    memcpy(at, p->wire + p->used, bytes);
    p->used += padded(bytes);
    return true;
}

/* Everything that walk follows, against the slot's own layout. */
static bool header_fits(const struct device_model *m, const struct step_header *h) {
    const struct step_header *own = &m->step;
    const struct graph_want *want = &m->graph->want;
    bool ok = h->n_tokens <= want->batch && h->n_chunks <= m->sequences && h->n_rows <= want->logits_rows &&
              h->rope_stride == own->rope_stride && h->at_tokens == own->at_tokens &&
              h->at_chunks == own->at_chunks && h->at_rows == own->at_rows && h->at_rope == own->at_rope &&
              h->n_caches == own->n_caches;
    for (uint32_t i = 0; i < own->n_caches && ok; i++)
        ok = h->cache[i].n_fill <= m->caches[i].n_blocks &&
             h->cache[i].table_stride == own->cache[i].table_stride &&
             h->cache[i].at_fill == own->cache[i].at_fill && h->cache[i].at_tables == own->cache[i].at_tables;
    return ok;
}

static bool chunks_fit(const struct device_model *m, const uint8_t *wire, uint64_t bytes,
                       const struct step_header *h) {
    uint64_t at = padded(step_header_bytes(h->n_caches)) + padded(h->n_tokens * sizeof(int32_t));
    if (at + h->n_chunks * sizeof(struct step_chunk) > bytes)
        return false;
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        struct step_chunk c;
        memcpy(&c, wire + at + i * sizeof c, sizeof c);
        if (c.slot >= m->sequences)
            return false;
    }
    return true;
}

bool remote_wire_unpack(const struct device_model *m, const uint8_t *in, uint32_t bytes, uint8_t *slot) {
    struct step_header h = {0};
    uint32_t head = step_header_bytes(m->step.n_caches);
    if (bytes < head)
        return false;
    memcpy(&h, in, head);
    if (!header_fits(m, &h) || !chunks_fit(m, in, bytes, &h))
        return false;
    struct packing p = {.wire = (uint8_t *)in, .bytes = bytes, .used = padded(head)};
    memcpy(slot, &h, head);
    return walk(slot, unpack, &p) && p.used == bytes;
}
