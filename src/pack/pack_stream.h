/* Packs a part below a limit, from stacks at its peaks; see pack_stream.c. For pack_race.c, which knows what
 * limit, and which peaks. */
#ifndef STATOR_PACK_PACK_STREAM_H
#define STATOR_PACK_PACK_STREAM_H

#include "pack/pack_flow.h"

#define STREAM_PEAKS 32 /* at most */

struct stream_peak {
    uint64_t live;
    uint32_t at;    /* section */
    uint32_t after; /* the one after the valley before it, or 0 */
    uint32_t failed;
};

struct stream_edge;
struct stream_life;
struct stream_hole;

/* Those of a valley that don't live at the peak after it, the last to end first. */
struct stream_border {
    struct stream_edge *edges; /* [n] */
    uint32_t n;
    uint64_t sum;
};

struct pack_stream {
    const struct pack_part *part;
    uint64_t *live;   /* [sections + 1] sums */
    uint64_t highest; /* of those */
    uint32_t most;    /* blocks that live there */
    uint64_t order;   /* steps to put those in order, about */
    double span;      /* sections in the life of a byte, on average */
    struct stream_peak peaks[STREAM_PEAKS];
    uint32_t n_peaks;
    uint32_t from;               /* section where the present stack is */
    uint32_t *stack;             /* [n] those that live there without a place yet, in the part */
    uint32_t *stacks;            /* [n] where that begins */
    struct stream_life *lives;   /* [n] theirs */
    struct stream_border before; /* of the valley before the present peak, and after it */
    struct stream_border after;
    uint64_t *offsets;     /* [n] or FLOW_NOWHERE */
    struct pack_key *keys; /* [n] the flow's */
    struct pack_key *spare;
    struct stream_hole *holes; /* [n] in a stack */
    struct pack_flow flow;     /* with the limit */
    uint64_t large;            /* size from which on every other attempt spares places ahead */
};

/* Room for n blocks, carved. */
struct pack_stream pack_stream_layout(struct carve *c, uint32_t n);

/* For a part whose grain is not 0. */
void pack_stream_begin(struct pack_stream *s, const struct pack_part *p);

/* The size of the smallest of the largest blocks; UINT64_MAX if too many are as large for that many steps. */
uint64_t pack_stream_large(struct pack_stream *s, uint64_t steps);

/* Where to begin, below that limit: from peaks of at least so high a live sum. Way 0 is all of them, 1 the
 * highest alone, 2 the second, and so on; counted modulo how many ways there are. Returns the way. */
uint32_t pack_stream_start(struct pack_stream *s, uint64_t limit, uint64_t least, uint32_t way);

/* The live sum of the lowest of the peaks it begins from: those that it failed at are left out. */
uint64_t pack_stream_lowest(const struct pack_stream *s);

/* Fills `offsets`, until the budget ends; false if that comes first. */
bool pack_stream_build(struct pack_stream *s, struct pack_budget *budget);

#endif
