/* Inside the packer: the landscape that pack_skyline.c fills from below, for it and for pack_repair.c, which
 * fills windows of it again. */
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

/* How far an attempt has come. */
struct skyline_state {
    uint32_t left;     /* items to come */
    uint64_t *offsets; /* [n] of those placed */
    uint32_t *least;   /* [2 * leaves] the smallest hi below a node, of items to come; leaf i: item i */
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
    uint32_t leaves;     /* of the tree of items to come: a power of two */
    uint32_t block_log2; /* of the sections with a common prefix sum */
    uint64_t max_align;  /* the largest alignment */
    uint64_t limit;      /* slack is what is left below it */
    uint32_t candidates; /* looked at in one valley */
    uint64_t steps;      /* taken since the budget was asked */
    struct pack_budget *budget;
    bool in_a_hurry; /* the budget is spent: the first block that fits is taken, without a choice */

    double *favour;       /* [n] of an item: its size and chance */
    uint32_t *first_item; /* [sections + 1] the first item that begins there or later */
    uint64_t *live;       /* [sections + 1] */
    double *blame;        /* [sections] */
    double *weight;       /* [sections] */
    double *inner;        /* [sections + 1] sum of weights from the begin of its block */
    double *outer;        /* [blocks + 1] sum of weights of all blocks before */
    double *block;        /* [blocks] of its own */

    /* What is there before an attempt begins. */
    const struct pack_obstacle *left, *right; /* at the two edges, sorted by bottom */
    uint32_t n_left, n_right;

    struct skyline_state now;
};

/* How an attempt weighs. */
struct skyline_taste {
    double softness; /* a slack of this share of the limit halves a weight */
    bool squared;
    double size;   /* 0: size does not matter, 1: its square root, 0.5: the root of that */
    double wall;   /* worth of lying against a wall */
    double fit;    /* ... and ending level with it */
    double thrift; /* what a loss beside it counts */
    double shake;  /* chance */
};

/* Room for n items in so many sections; items, n and sections are then the caller's to set. */
struct skyline pack_skyline_layout(struct carve *c, uint32_t n, uint32_t sections);
struct skyline_state pack_skyline_state(struct carve *c, uint32_t n, uint32_t sections);
void pack_skyline_copy(const struct skyline *s, struct skyline_state *to, const struct skyline_state *from);
/* From items and sections: what all attempts share. Clears the blame. */
void pack_skyline_prepare(struct skyline *s);
/* An attempt: begin, taste, fill (the two again and again, if one likes, each time to a higher level). */
void pack_skyline_begin(struct skyline *s);
void pack_skyline_taste(struct skyline *s, const struct skyline_taste *t, uint64_t seed);
/* Until all items are placed, or no section is lower than `level`. */
void pack_skyline_fill(struct skyline *s, const struct skyline_taste *t, uint64_t level);

#endif
