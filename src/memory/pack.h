/* The packer: blocks with sizes and lifetimes go to offsets in one arena. Knows bytes and steps, neither
 * tensors nor devices. Deterministic: the answer depends on the input only, never on a clock.
 *
 * How: the time line is cut where nothing lives across; each part gets greedy packings (pack_greedy.c) and,
 * when those miss the bound and the part is small, a search over canonical packings with a fixed budget
 * (pack_search.c). Parts of at most PACK_QUADRATIC blocks cost a multiple of n^2 steps, larger ones n log n
 * plus n times the gaps in the arena. */
#ifndef STATOR_MEMORY_PACK_H
#define STATOR_MEMORY_PACK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_QUADRATIC 4096

struct pack_block {
    uint64_t bytes; /* 0 is legal: it gets offset 0 */
    uint64_t align; /* a power of two */
    uint32_t first; /* lifetime [first, end) in steps; an empty one is legal and conflicts with nothing */
    uint32_t end;
    uint64_t offset; /* the answer */
};

/* Sizes count rounded up to the smallest alignment of a block that lives (every offset is a multiple of it).
 */
struct pack_result {
    uint64_t peak;        /* largest offset + rounded size of a live block: the bytes the arena needs */
    uint64_t lower_bound; /* the largest live sum of rounded sizes: no packing is below it */
    bool optimal;         /* peak == lower_bound, or the search has proven that nothing is below peak */
};

/* Bytes of work memory for n blocks (at most 2^31); the memory must be aligned to 64. */
uint64_t pack_work_bytes(size_t n);
/* Fills the offsets and *r. STATOR_DOES_NOT_FIT when all sizes, each with its alignment, add up to 2^63 or
 * more; then nothing is filled. */
stator_status pack_solve(struct pack_block *blocks, size_t n, void *work, uint64_t work_bytes,
                         struct pack_result *r, stator_error *e);

#endif
