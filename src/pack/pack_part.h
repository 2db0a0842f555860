/* Inside the packer: one part of the time line, cut off from the others, in the form that its solvers share.
 */
#ifndef STATOR_PACK_PACK_PART_H
#define STATOR_PACK_PACK_PART_H

#include "base/carve.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A block that lives. Steps are renumbered: a section is a largest set of blocks that live at one step, so
 * two blocks share a step exactly if they share a section, and no more is live in a step than in a section.
 */
struct pack_item {
    uint64_t size; /* > 0, a multiple of the smallest alignment */
    uint64_t align;
    uint32_t lo; /* sections [lo, hi), not empty */
    uint32_t hi;
    uint32_t length; /* of its life in steps */
};

/* A place that is taken in sections [lo, hi). Those at a part's edges reach to one: lo == 0 or hi ==
 * sections.
 */
struct pack_obstacle {
    uint64_t bottom;
    uint64_t top;
    uint32_t lo;
    uint32_t hi;
};

/* The first of obstacles sorted by bottom that lies at `height` or above. */
static inline uint32_t pack_obstacles_from(const struct pack_obstacle *o, uint32_t n, uint64_t height) {
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (o[middle].bottom < height)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Invariants: items are sorted by first step, length and size; offsets[] hold a valid packing whose peak is
 * `peak`, or peak is UINT64_MAX. The sum of all sizes and alignments is below 2^63, so no sum of them
 * overflows.
 */
struct pack_part {
    const struct pack_item *items;
    uint32_t n;
    uint32_t sections;
    uint64_t target;     /* nothing is gained below this peak */
    uint64_t *offsets;   /* [n] the best packing so far */
    uint64_t peak;       /* of it */
    uint64_t proven;     /* no packing has a lower peak */
    bool uniform;        /* one alignment, and all sizes are multiples of it */
    uint64_t grain;      /* the largest alignment; 0: sizes rounded up to it add up to more than 2^63 */
    uint64_t attempts;   /* of pack_valley so far: no two are alike */
    uint32_t guesses;    /* ... of pack_tiling */
    uint32_t repairs;    /* ... of its slow kind */
    bool looks_tiled;    /* one of those left little */
    uint32_t sweeps;     /* ... of pack_sweep */
    uint32_t sweep_kind; /* the most promising kind of those, and its bits for a border */
    float sweep_bits;
    uint32_t races; /* of pack_race */
};

/* What searches may still spend: inner steps (a few nanoseconds each), and time only where a person said so.
 */
struct pack_budget {
    uint64_t steps;
    uint64_t deadline; /* clock_ns, or 0 */
    const atomic_int *stop;
    uint32_t until_clock;
    bool expired;             /* the deadline has passed, or somebody stops us, or the race is lost */
    uint64_t used;            /* steps so far */
    _Atomic uint64_t *fewest; /* in a race, else NULL: steps of the best who has arrived */
};

/* Some of the steps, for one solver; what it leaves goes back. */
struct pack_budget pack_budget_share(struct pack_budget *all, uint64_t steps);
void pack_budget_return(struct pack_budget *all, const struct pack_budget *share);

/* Takes *steps and clears it; false when nothing is left. */
bool pack_budget_take(struct pack_budget *b, uint64_t *steps);

static inline bool pack_part_conflict(const struct pack_item *a, const struct pack_item *b) {
    return a->lo < b->hi && b->lo < a->hi;
}

/* v rounded up to a power of two; see the invariant for why it can't overflow. */
static inline uint64_t pack_part_align(uint64_t v, uint64_t align) {
    return (v + align - 1) & ~(align - 1);
}

static inline uint64_t pack_part_rounded(const struct pack_part *p, uint32_t i) {
    return pack_part_align(p->items[i].size, p->grain);
}

/* The peak of the offsets that there are. */
static inline void pack_part_measure(struct pack_part *p) {
    p->peak = 0;
    for (uint32_t i = 0; i < p->n; i++)
        p->peak = ARITH_MAX(p->peak, p->offsets[i] + p->items[i].size);
}

/* SplitMix64: restarts differ, and are the same again. */
static inline uint64_t pack_part_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Sorting without allocation: by a, then b, then index, all ascending. */
struct pack_key {
    uint64_t a;
    uint64_t b;
    uint32_t index;
};
/* spare: n more keys. */
void pack_part_sort(struct pack_key *keys, struct pack_key *spare, uint32_t n);

/* For a part made of some of another's items: marks[sections + 1], 0 at first, gets where those begin and
 * end; then it becomes the new number of each section, where those between which nothing of them ends are
 * one. Returns how many there are. */
enum { PACK_MARK_BEGIN = 1, PACK_MARK_END = 2 };
static inline void pack_part_mark(uint32_t *marks, uint32_t lo, uint32_t hi) {
    marks[lo] |= PACK_MARK_BEGIN;
    marks[hi] |= PACK_MARK_END;
}
uint32_t pack_part_number(uint32_t *marks, uint32_t sections);
static inline void pack_part_renumber(const uint32_t *marks, uint32_t *lo, uint32_t *hi) {
    *lo = marks[*lo];
    *hi = marks[*hi - 1] + 1;
}

/* The solvers. Each carves its work memory out of *work (which stays as it was) and puts better packings into
 * the part, until peak <= target. */
void pack_greedy(struct pack_part *p, struct carve work);
void pack_search(struct pack_part *p, struct pack_budget *budget, struct carve work);
/* Looks for a packing with no end above the limit and puts it into the part, which must be uniform. */
#define PACK_VALLEY_LARGEST 1024 /* items: the lists of sections may be quadratic */
enum pack_outcome { PACK_FOUND, PACK_IMPOSSIBLE, PACK_GAVE_UP };
enum pack_outcome pack_valley(struct pack_part *p, uint64_t limit, struct pack_budget *budget,
                              struct carve work);
bool pack_search_can(const struct pack_part *p);
/* Only where grain is not 0. attempts: at most so many. */
void pack_skyline(struct pack_part *p, uint32_t attempts, struct pack_budget *budget, struct carve work);
#define PACK_MEND_WHOLE 30000                  /* items; larger parts are mended window by window */
bool pack_mend_can(const struct pack_part *p); /* the packing there is lies on the grain */
void pack_mend(struct pack_part *p, struct pack_budget *budget, struct carve work);
/* Last of all: afterwards nothing lies on the grain. */
void pack_sink(struct pack_part *p, struct carve work);
void pack_overlap(struct pack_part *p, struct pack_budget *budget, struct carve work); /* as pack_mend */
enum pack_outcome pack_tiling(struct pack_part *p, uint64_t limit, struct pack_budget *budget,
                              struct carve work);
enum pack_outcome pack_sweep(struct pack_part *p, uint64_t limit, struct pack_budget *budget,
                             struct carve work);
/* For parts of more than so many items whose grain is not 0; true if they found a better packing. limits: so
 * many are tried at most, the first a little below 2% above the bound where there is no packing yet. */
#define PACK_RACE_MORE 1024
bool pack_race(struct pack_part *p, uint32_t limits, struct pack_budget *budget, struct carve work);
#define PACK_MANY 4096
bool pack_tiers(struct pack_part *p, struct pack_budget *budget, struct carve work);
/* What they carve for parts of at most n items. */
uint64_t pack_greedy_bytes(uint32_t n);
uint64_t pack_search_bytes(uint32_t n);
uint64_t pack_valley_bytes(uint32_t n);
uint64_t pack_skyline_bytes(uint32_t n);
uint64_t pack_mend_bytes(uint32_t n);
uint64_t pack_overlap_bytes(uint32_t n);
uint64_t pack_sink_bytes(uint32_t n);
uint64_t pack_tiling_bytes(uint32_t n);
uint64_t pack_sweep_bytes(uint32_t n);
uint64_t pack_race_bytes(uint32_t n);
uint64_t pack_tiers_bytes(uint32_t n);

#endif
