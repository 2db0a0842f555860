/* Private to the packer: one part of the time line, which shares no live block with any other part, in the
 * form that all strategies work on; and the budget of steps and time that they spend. */
#ifndef STATOR_PACK_PACK_PART_H
#define STATOR_PACK_PACK_PART_H

#include "base/carve.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A live block. Steps are renumbered: a section is a maximal set of blocks that are live at the same step.
 * Two blocks share a step exactly if they share a section, and no step has a larger live sum than its
 * section. */
struct pack_item {
    uint64_t size; /* > 0, a multiple of the smallest alignment */
    uint64_t align;
    uint32_t lo; /* sections [lo, hi), not empty */
    uint32_t hi;
    uint32_t length; /* of its lifetime, in steps */
};

/* Invariants: items are sorted by first step, length and size; offsets[] hold a valid packing whose peak is
 * `peak`, or peak is UINT64_MAX. The sum of all sizes and alignments is below 2^63, so no sum of them
 * overflows. */
struct pack_part {
    const struct pack_item *items;
    uint32_t n;
    uint32_t sections;
    uint64_t target;      /* a lower peak gains nothing */
    uint64_t *offsets;    /* [n] the best packing so far */
    uint64_t peak;        /* of it */
    uint64_t proven;      /* no packing has a lower peak */
    bool uniform;         /* one alignment, and all sizes are multiples of it */
    bool exhausted;       /* the search has shown that it can't lower the peak any more */
    uint64_t max_align;   /* the largest alignment; 0: sizes rounded up to it add up to 2^63 or more */
    uint32_t round;       /* of the searches, from 0 */
    const char *found_by; /* the strategy whose packing this is */
    uint64_t seed;        /* of the next attempt: no two attempts are alike */
};

/* What a strategy may still spend: inner steps (a few nanoseconds each), and time where the caller set a
 * deadline. */
struct pack_budget {
    uint64_t steps;
    uint64_t overspent; /* steps that were taken beyond those */
    uint64_t deadline;  /* clock_ns, or 0 */
    const atomic_int *stop;
    uint32_t until_clock; /* calls until the clock is read again */
    bool expired;         /* the deadline has passed, or the caller wants us to stop */
};

/* Pays for *steps and clears it; false when nothing is left. */
bool pack_budget_spend(struct pack_budget *b, uint64_t *steps);
/* Takes at most so many steps out of a budget, for one strategy. pack_budget_return puts back what it left
 * and charges what it overspent, so that all strategies together end when the whole budget is spent. */
struct pack_budget pack_budget_share(struct pack_budget *all, uint64_t steps);
void pack_budget_return(struct pack_budget *all, const struct pack_budget *share);

static inline bool pack_part_conflict(const struct pack_item *a, const struct pack_item *b) {
    return a->lo < b->hi && b->lo < a->hi;
}

/* v rounded up to a power of two; see the invariant for why it can't overflow. */
static inline uint64_t pack_part_align(uint64_t v, uint64_t align) {
    return (v + align - 1) & ~(align - 1);
}

/* Sets the peak to that of the offsets. */
void pack_part_measure(struct pack_part *p);
/* live[sections + 1]: the sum of sizes, each rounded up to `align`, per section; the last one is 0. */
void pack_part_live(const struct pack_part *p, uint64_t align, uint64_t *live);

/* SplitMix64: attempts differ, and a repeated run makes the same ones. */
static inline uint64_t pack_part_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Sorts without allocating: by a, then b, then index, all ascending. spare: n more keys. */
struct pack_key {
    uint64_t a;
    uint64_t b;
    uint32_t index;
};
void pack_part_sort(struct pack_key *keys, struct pack_key *spare, uint32_t n);

#endif
