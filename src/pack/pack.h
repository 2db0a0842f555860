/* The packer: blocks with sizes and lifetimes go to offsets in one arena. Knows bytes and steps, neither
 * tensors nor devices. Deterministic: the answer depends on the input and the given steps only; a clock is
 * looked at only when a deadline is given, and then a result that is `finished` is the same as without. More
 * than 1024 blocks may take a second thread, which is gone when the call returns; the answer is the same
 * where there is none to be had.
 *
 * How: the time line is cut where nothing lives across; each part gets quick packings (pack_greedy.c for few
 * blocks, pack_skyline.c for any number) and, when those miss the bound and the part is small enough,
 * searches that can also prove that nothing is lower (pack_valley.c where all alignments are the same, else
 * pack_search.c). Parts of any size may be tilings that can be put together again (pack_tiling.c), and small
 * ones may interlock so tightly that the order of time tells how (pack_sweep.c); else large ones spend the
 * steps on being packed anew in tiers or from their peaks on (pack_tiers.c, pack_race.c), on mending
 * (pack_mend.c) and on letting blocks overlap until they find places (pack_overlap.c). Where alignments
 * differ, all sink as far as their own allow at the end (pack_sink.c). */
#ifndef STATOR_PACK_PACK_H
#define STATOR_PACK_PACK_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Inner steps (a few nanoseconds each) of all searches together, where nobody says otherwise. */
#define PACK_STEPS 50000000

struct pack_block {
    uint64_t bytes; /* 0 is legal: it gets offset 0 */
    uint64_t align; /* a power of two */
    uint32_t first; /* lifetime [first, end) in steps; an empty one is legal and conflicts with nothing */
    uint32_t end;
    uint64_t offset; /* the answer */
};

struct pack_options {
    uint64_t capacity; /* a peak of at most this will do; 0: the lowest is wanted */
    uint64_t steps;    /* of searches, of two threads' at once those of one; UINT64_MAX: no end */
    uint64_t deadline; /* clock_ns at which searches end; 0: none. One quick packing is made in any case */
    const atomic_int *stop; /* ... as when this is not 0 any more (a signal); NULL: nobody asks */
};

/* Sizes count rounded up to the smallest alignment of a block that lives (every offset is a multiple of it).
 */
struct pack_result {
    uint64_t peak;        /* largest offset + rounded size of a live block: the bytes the arena needs */
    uint64_t lower_bound; /* the largest live sum of rounded sizes: no packing is below it */
    uint64_t proven;      /* no packing is below this: lower_bound, or what searches have proven beyond */
    bool optimal;         /* peak == proven */
    bool finished; /* searches reached `proven` or the capacity: no more steps would change the answer */
};

/* Bytes of work memory for n blocks (at most 2^31); the memory must be aligned to 64. */
uint64_t pack_work_bytes(size_t n);
/* Steps for a person who waits: two to four seconds, with two processors, where all of them are needed. */
uint64_t pack_many_steps(size_t n);
/* Fills the offsets and *r. STATOR_DOES_NOT_FIT when all sizes, each with its alignment, add up to 2^63 or
 * more; then nothing is filled. options: NULL means PACK_STEPS and nothing else. */
stator_status pack_solve_with(struct pack_block *blocks, size_t n, const struct pack_options *options,
                              void *work, uint64_t work_bytes, struct pack_result *r, stator_error *e);
stator_status pack_solve(struct pack_block *blocks, size_t n, void *work, uint64_t work_bytes,
                         struct pack_result *r, stator_error *e);

#endif
