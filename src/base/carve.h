/* Carving structures out of given memory: run the same layout code twice, first to count, then to place
 * (zstd's "estimate, then init in given memory").
 *
 * Invariants: with base == NULL every take returns NULL and only `used` grows; with a base, used <= capacity,
 * and both runs of one layout code see the same `used`. The owner of the memory is the caller. */
#ifndef STATOR_BASE_CARVE_H
#define STATOR_BASE_CARVE_H

#include "base/arith.h"

#define CARVE_ALIGN 64 /* a cache line; the base must be aligned to it */

struct carve {
    uint8_t *base; /* NULL: only count */
    uint64_t used;
    uint64_t capacity;
};

static inline struct carve carve_count(void) {
    return (struct carve){.base = NULL, .used = 0, .capacity = UINT64_MAX};
}

static inline struct carve carve_in(void *memory, uint64_t bytes) {
    CHECK(memory != NULL && (uintptr_t)memory % CARVE_ALIGN == 0);
    return (struct carve){.base = memory, .used = 0, .capacity = bytes};
}

/* n objects of size bytes each, aligned to a cache line. Memory is not cleared. Overflow or overrun is a bug
 * of ours: sizes from outside are checked before they come here. */
static inline void *carve_take(struct carve *c, uint64_t n, uint64_t size) {
    uint64_t bytes = arith_round_up(arith_must_mul(n, size), CARVE_ALIGN);
    uint64_t at = c->used;
    c->used = arith_must_add(at, bytes);
    if (c->base == NULL)
        return NULL;
    CHECK(c->used <= c->capacity);
    return c->base + at;
}

#endif
