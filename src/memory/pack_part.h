/* Inside the packer: one part of the time line, cut off from the others, in the form that its solvers share.
 */
#ifndef STATOR_MEMORY_PACK_PART_H
#define STATOR_MEMORY_PACK_PART_H

#include "base/carve.h"

#include <stdbool.h>
#include <stdint.h>

/* A block that lives. Steps are renumbered: a section begins where a block begins, so two blocks share a step
 * exactly if they share a section, and no more is live in a step than in its section. */
struct pack_item {
    uint64_t size; /* > 0, a multiple of the smallest alignment */
    uint64_t align;
    uint32_t lo; /* sections [lo, hi), not empty */
    uint32_t hi;
};

/* Invariants: items are sorted by lo; offsets[] hold a valid packing whose peak is `peak`, or peak is
 * UINT64_MAX. The sum of all sizes and alignments is below 2^63, so no sum of them overflows. */
struct pack_part {
    const struct pack_item *items;
    uint32_t n;
    uint32_t sections;
    uint64_t target;   /* nothing is gained below this peak */
    uint64_t *offsets; /* [n] the best packing so far */
    uint64_t peak;     /* of it */
    uint64_t *steps;   /* inner steps that searches of all parts may still take */
    bool proven;       /* no packing has a peak below max(peak, target) */
};

static inline bool pack_part_conflict(const struct pack_item *a, const struct pack_item *b) {
    return a->lo < b->hi && b->lo < a->hi;
}

/* v rounded up to a power of two; see the invariant for why it can't overflow. */
static inline uint64_t pack_part_align(uint64_t v, uint64_t align) {
    return (v + align - 1) & ~(align - 1);
}

/* Sorting without allocation: by a, then b, then index, all ascending. */
struct pack_key {
    uint64_t a;
    uint64_t b;
    uint32_t index;
};
/* spare: n more keys. */
void pack_part_sort(struct pack_key *keys, struct pack_key *spare, uint32_t n);

/* The solvers. Each carves its work memory out of *work (which stays as it was) and puts better packings into
 * the part, until peak <= target. */
void pack_greedy(struct pack_part *p, struct carve work);
void pack_search(struct pack_part *p, struct carve work);
/* What they carve for parts of at most n items. */
uint64_t pack_greedy_bytes(uint32_t n);
uint64_t pack_search_bytes(uint32_t n);

#endif
