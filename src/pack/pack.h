/* The packer: gives each block, which has a size, an alignment and a lifetime, an offset in one arena, so
 * that blocks that live at the same time do not overlap, and keeps the peak low. It knows bytes and steps,
 * neither tensors nor devices. It is deterministic: the result depends on the input and the given number of
 * steps only. The clock is read only when a deadline is given, and then a result that is `finished` is the
 * same as without one.
 *
 * How: the time line is split where no block is live on both sides. Each part first gets fast packings
 * (pack_greedy.c for few blocks, pack_skyline.c for any number). Where these miss the lower bound,
 * pack_valley.c searches in rounds; it can also prove that no lower peak exists. Where alignments differ,
 * pack_compact.c finally lowers every block as far as its own alignment allows.
 *
 * Greedy and skyline reach the lower bound on the engine's graphs. The search packs the eleven public
 * instances of MiniMalloc into their capacity, each within a second (src/plan/README.md has the figures).
 */
#ifndef STATOR_PACK_PACK_H
#define STATOR_PACK_PACK_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The default number of inner steps (a few nanoseconds each) of all searches together. */
#define PACK_STEPS 50000000
/* ... for a command that a person waits for: at most two seconds. */
#define PACK_INTERACTIVE_STEPS 400000000

struct pack_block {
    uint64_t bytes; /* 0 is legal: it gets offset 0 */
    uint64_t align; /* a power of two */
    uint32_t first; /* lifetime [first, end) in steps; an empty one is legal and conflicts with nothing */
    uint32_t end;
    uint64_t offset; /* the answer */
};

struct pack_options {
    uint64_t capacity; /* a peak of at most this will do; 0: the lowest is wanted */
    uint64_t steps;    /* of all searches together; UINT64_MAX: until the deadline or the signal */
    uint64_t deadline; /* clock_ns at which searches end; 0: none. One fast packing is made in any case */
    const atomic_int *stop; /* searches also end once this is not 0 (a signal came); NULL: never */
};

/* Sizes count rounded up to the smallest alignment of a block that lives (every offset is a multiple of it).
 */
struct pack_result {
    uint64_t peak;        /* largest offset + rounded size of a live block: the bytes the arena needs */
    uint64_t lower_bound; /* the largest live sum of rounded sizes: no packing is below it */
    uint64_t proven;      /* no packing is below this: lower_bound, or what searches have proven above it */
    bool optimal;         /* peak == proven */
    const char *found_by; /* the strategy that lowered the highest part last; NULL: nothing lives */
    bool finished; /* searches reached `proven` or the capacity: no more steps would change the answer */
};

/* Bytes of work memory for n blocks (at most 2^31); the memory must be aligned to 64. */
uint64_t pack_work_bytes(size_t n);
/* Fills the offsets and *r. STATOR_DOES_NOT_FIT when all sizes, each with its alignment, add up to 2^63 or
 * more; then nothing is filled. options: NULL means PACK_STEPS and nothing else. */
stator_status pack_solve_with(struct pack_block *blocks, size_t n, const struct pack_options *options,
                              void *work, uint64_t work_bytes, struct pack_result *r, stator_error *e);
stator_status pack_solve(struct pack_block *blocks, size_t n, void *work, uint64_t work_bytes,
                         struct pack_result *r, stator_error *e);

#endif
