/* The packer: blocks with sizes and lifetimes go to offsets in one arena. Knows bytes and steps, neither tensors nor
 * devices. Deterministic: the answer depends on the input only. */
#ifndef STATOR_MEMORY_PACK_H
#define STATOR_MEMORY_PACK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack_block {
    uint64_t bytes;  /* 0 is legal: it gets offset 0 */
    uint64_t align;  /* a power of two */
    uint32_t first;  /* lifetime [first, end) in steps; an empty one is legal and conflicts with nothing */
    uint32_t end;
    uint64_t offset; /* the answer */
};

struct pack_result {
    uint64_t peak;        /* largest offset + bytes of a live block */
    uint64_t lower_bound; /* the largest live sum: no packing is below it */
    bool optimal;         /* peak == lower_bound, or proven otherwise */
};

/* Bytes of work memory for n blocks (aligned to 64). */
uint64_t pack_work_bytes(size_t n);
/* Fills the offsets and *r. STATOR_DOES_NOT_FIT when sums overflow 2^63. */
stator_status pack_solve(struct pack_block *blocks, size_t n, void *work, uint64_t work_bytes, struct pack_result *r,
                         stator_error *e);

#endif
