/* Private to the packer: a skyline that is filled from below, for pack_skyline.c itself and for
 * pack_repair.c, which refills windows of it. */
#ifndef STATOR_PACK_PACK_SKYLINE_H
#define STATOR_PACK_PACK_SKYLINE_H

#include "pack/pack_strategy.h"

/* Memory that is taken in sections [lo, hi) of a part, at one of its edges: lo == 0 or hi == sections. */
struct pack_obstacle {
    uint64_t bottom;
    uint64_t top;
    uint32_t lo;
    uint32_t hi;
};

/* The state of one attempt. */
struct skyline_state {
    uint32_t left;     /* items that are not placed yet */
    uint64_t *offsets; /* [n] of those that are */
    uint32_t *least;   /* [2 * leaves] the smallest hi of unplaced items below a node; leaf i is item i */
    uint64_t *wasted;  /* [sections] */
    /* Segments of equal height cover all sections; described where they begin. */
    uint64_t *height;   /* [sections] */
    uint32_t *end;      /* [sections] */
    uint32_t *begin_of; /* [sections + 1] of the segment that ends here */
};

/* Invariants: offsets, heights, bottoms and tops are multiples of the max_align; no section's height is above
 * the bottom of an obstacle that is still ahead. */
struct skyline {
    const struct pack_item *items; /* sorted by lo */
    uint32_t n;
    uint32_t sections;
    uint32_t leaves;     /* of the tree of unplaced items: a power of two */
    uint32_t group_log2; /* of the sections in a group */
    uint64_t max_align;  /* the largest alignment */
    uint64_t limit;      /* slack is counted below it */
    uint32_t candidates; /* at most so many are compared for one valley */
    uint64_t steps;      /* taken since the budget was asked */
    struct pack_budget *budget;
    bool out_of_steps; /* then the first block that fits is taken, to finish soon */

    double *value;        /* [n] factor in an item's score: its size, and noise */
    uint32_t *first_item; /* [sections + 1] the first item that begins there or later */
    uint64_t *live;       /* [sections + 1] */
    double *penalty;      /* [sections] */
    double *weight;       /* [sections] */
    double *inner;        /* [sections + 1] prefix sum of weights within a group of sections */
    double *outer;        /* [groups + 1] ... over all groups before */
    double *group;        /* [groups] of one group */

    /* Obstacles, which stay where they are. */
    const struct pack_obstacle *left, *right; /* at the two edges, sorted by bottom */
    uint32_t n_left, n_right;

    struct skyline_state now;
};

/* What an attempt prefers. */
struct skyline_style {
    double softness; /* slack, as a share of the limit, that halves a section's weight */
    bool squared;
    double size;       /* 0: size does not matter, 1: its square root, 0.5: the root of that */
    double wall;       /* factor for a block that lies against a wall */
    double fit;        /* ... and is level with its top */
    double waste_cost; /* of what can no longer be filled beside a block */
    double noise;      /* share of randomness in a score */
};

/* Carves memory for n items and so many sections; the caller sets items, n and sections. */
struct skyline pack_skyline_layout(struct carve *c, uint32_t n, uint32_t sections);
struct skyline_state pack_skyline_state(struct carve *c, uint32_t n, uint32_t sections);
void pack_skyline_copy(const struct skyline *s, struct skyline_state *to, const struct skyline_state *from);
/* Computes what all attempts share from items and sections. Clears the penalties. */
void pack_skyline_prepare(struct skyline *s);
/* An attempt: begin, then set_style and fill, once or repeatedly, each time to a higher level. */
void pack_skyline_begin(struct skyline *s);
void pack_skyline_set_style(struct skyline *s, const struct skyline_style *t, uint64_t seed);
/* Until all items are placed, or no section is lower than `level`. */
void pack_skyline_fill(struct skyline *s, const struct skyline_style *t, uint64_t level);

#endif
