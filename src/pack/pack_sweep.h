/* Inside the packer: the ways to place blocks at a border, for pack_sweep.c. */
#ifndef STATOR_PACK_PACK_SWEEP_H
#define STATOR_PACK_PACK_SWEEP_H

#include "pack/pack_pq.h"

#define SWEEP_HOLES  24 /* in a tree that is kept */
#define SWEEP_EVENTS 31 /* blocks that begin at one border (but the first), or end there */
#define SWEEP_OLDS   3  /* other holes that are used together */
#define SWEEP_TRIED  64 /* ways of placing one block that are looked at */

/* One way to place some blocks. */
struct placing {
    double score;
    uint32_t blocks; /* bits: which of those that begin here */
    uint32_t n_holes;
    uint64_t part;                             /* bytes that are used of the last hole; 0: all */
    uint16_t holes[SWEEP_EVENTS + SWEEP_OLDS]; /* tokens, distinct */
};

struct placings {
    struct placing at[SWEEP_TRIED]; /* the best first */
    uint32_t n;
};

/* How they are weighed. */
struct sweep_scale {
    double tolerance; /* of sums, as a share */
    double noise;     /* bits */
    uint64_t unit;    /* divides all sizes */
    uint64_t random;
};

/* Lists ways to place the largest of some blocks (bits of `sizes`, which sink) into holes of a tree, alone or
 * with others. Takes the steps of q. */
void pack_sweep_list(struct pq *q, struct sweep_scale *scale, const struct pq_tree *t, const uint64_t *sizes,
                     uint32_t blocks, struct placings *c);

#endif
