/* Gives blocks their places in the order of time, from a stack of those that live where it starts; see
 * pack_flow.c. For pack_stream.c, which knows which blocks, and which way time goes. */
#ifndef STATOR_PACK_PACK_FLOW_H
#define STATOR_PACK_PACK_FLOW_H

#include "pack/pack_part.h"

#include <string.h>

#define FLOW_NOWHERE UINT64_MAX

/* A block. Times are sections since the start. */
struct flow_node {
    uint64_t bottom; /* 0 until it has a place; of a fixed one, that place */
    uint64_t top;    /* bottom + size */
    uint64_t target; /* the nearer its bottom to that the better, or FLOW_NOWHERE */
    uint32_t begin;
    uint32_t end;    /* > 0; 0: the floor, the limit */
    uint32_t source; /* the caller's */
    bool fixed;      /* its place was given before */
    /* the flow's own: */
    uint32_t below; /* neighbours in the list */
    uint32_t above;
    uint32_t under;  /* what was below it when it got its place */
    uint32_t gap;    /* the one above it, or none */
    uint32_t places; /* the first that may reach above it */
    uint64_t spared; /* place that is spared for it, or FLOW_NOWHERE */
};

/* A place that is taken for a time. */
struct flow_place {
    uint64_t bottom;
    uint64_t top;
    uint64_t highest; /* top of this and all before it */
    uint32_t begin;
    uint32_t end;
    uint32_t node; /* it is spared for */
};

/* What is tried to get past a block. */
struct flow_effort {
    uint32_t tries;
    double far; /* how far the last ones go back at most, in lives (of bytes, on average) */
};

struct flow_gap;
struct flow_way;
struct flow_range;

struct pack_flow {
    /* the caller's, before it begins: */
    uint64_t limit;
    double life;     /* how many blocks begin in the life of a byte */
    float per_byte;  /* 1 / size of a block, on average */
    float per_place; /* cost of a byte between target and place */
    uint64_t large;  /* size from which on blocks have their places spared ahead; UINT64_MAX: none */
    uint32_t n;
    uint32_t stacked;          /* the first of them, from the floor up, all with places */
    struct flow_node *nodes;   /* [n], then the others as they begin; room for two more */
    struct flow_place *places; /* [n_places] by bottom: of fixed nodes that begin later, and beyond those */
    uint32_t n_places;
    uint64_t random;
    uint64_t steps;
    /* what became of it: */
    uint32_t done; /* nodes that have a place: all, or the next one is what found none */
    /* its own: */
    uint32_t floor; /* nodes beyond the blocks */
    uint32_t ceiling;
    uint32_t now; /* when the present block begins */
    struct flow_gap *gaps;
    uint32_t n_gaps;
    uint64_t *sizes;           /* [n_gaps] theirs, near together */
    uint32_t *by_end;          /* [n] nodes */
    uint32_t ended;            /* how many of those have */
    struct flow_place *spares; /* [n_spares] by bottom: of nodes that have no place yet */
    uint32_t n_spares;
    struct flow_place *kept; /* [n_kept] those at the farthest node that found no gap */
    uint32_t n_kept;
    struct flow_range *ranges; /* [2n + 1] */
    struct flow_way *way;      /* [n] */
    struct pack_key *keys;     /* [n] */
    struct pack_key *spare;
};

/* Room for n blocks, carved. */
struct pack_flow pack_flow_layout(struct carve *c, uint32_t n);

/* About how many steps it takes to spare places for that many blocks, of so many that live, where what is
 * free has to be listed for each; less where it is for several. */
static inline uint64_t pack_flow_steps_ahead(uint32_t blocks, uint32_t live) {
    return 10 * (uint64_t)blocks * live;
}

/* Takes the first n places, which are set but for `highest`. Those of one time don't overlap. */
void pack_flow_take_places(struct pack_flow *f, uint32_t n);

/* Whether none of them is in [bottom, top) in [begin, end). */
bool pack_flow_is_free(struct pack_flow *f, uint64_t bottom, uint64_t top, uint32_t begin, uint32_t end);

/* To the stack. */
void pack_flow_begin(struct pack_flow *f);

/* Gives all nodes a place. False if it can't get past one of them, or the budget ends. */
bool pack_flow_run(struct pack_flow *f, const struct flow_effort *effort, struct pack_budget *budget);

/* About log2(x), x >= 1, and the same on every machine. */
static inline float pack_flow_log2(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (float)(bits - 0x3F800000u) * 0x1p-23f;
}

/* Its inverse, 0 <= x < 100. */
static inline float pack_flow_exp2(float x) {
    uint32_t bits = (uint32_t)(ARITH_MIN(x, 99.0f) * 0x1p23f) + 0x3F800000u;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

#endif
