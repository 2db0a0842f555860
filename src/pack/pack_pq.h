/* Inside the packer: PQ-trees for pack_sweep.c. A tree stands for all orders in which its leaves may lie: the
 * children of a P-node in any order, those of a Q-node in the one that is written or its mirror image. */
#ifndef STATOR_PACK_PACK_PQ_H
#define STATOR_PACK_PACK_PQ_H

#include "base/carve.h"

#include <stdbool.h>
#include <stdint.h>

enum pq_kind { PQ_BLOCK, PQ_HOLE, PQ_P, PQ_Q };

/* A tree is written as its nodes in prefix order. Inner nodes have two children at least. */
struct pq_token {
    uint64_t slot;  /* bytes of a leaf */
    uint32_t name;  /* of a leaf */
    uint16_t span;  /* tokens of the subtree */
    uint8_t kind;   /* enum pq_kind */
    bool fresh : 1; /* a hole of what ends at the present border */
    bool loose : 1; /* a hole that may lie in pieces between its siblings in a P-node */
};

struct pq_tree {
    struct pq_token *at; /* [most] */
    uint32_t n;
};

#define PQ_PUT        32 /* leaves that take the place of others */
#define PQ_FACTORIALS 256

/* What takes the place of the marked leaves: the children of a P-node, or one leaf. */
struct pq_put {
    struct pq_token leaf[PQ_PUT];
    uint32_t n;
};

struct pq {
    uint32_t most;                       /* tokens of a tree */
    bool *mark;                          /* [most] leaves to be replaced; the caller's to set */
    uint16_t *count, *leaves;            /* [most] of subtrees: those marked, and all */
    uint64_t steps;                      /* inner steps; the caller's to take */
    double log_factorial[PQ_FACTORIALS]; /* to base 2 */

    /* The marked leaves of the last reduction, if they are wanted: in an order in which they may lie. */
    bool wants_run;
    uint32_t *run; /* [most] names */
    uint32_t n_run;
    uint32_t witness; /* a leaf beside the run; UINT32_MAX: the run may lie in either direction */
    bool before;      /* ... before it */
};

struct pq pack_pq_layout(struct carve *c, uint32_t most);
void pack_pq_prepare(struct pq *q);
/* Of x > 0. The C library's may round otherwise on another processor, and so lead to another packing. */
double pack_pq_log2(double x);
double pack_pq_log_factorial(const struct pq *q, uint32_t n);
/* Room for one leaf more at the end of what is written; false if there is none. */
bool pack_pq_append(const struct pq *q, struct pq_tree *t, struct pq_token leaf);
/* Writes the orders in which the marked leaves lie side by side, with others in their place; false if there
 * are none. *lost: bits of freedom. */
bool pack_pq_reduce(struct pq *q, const struct pq_tree *from, const struct pq_put *put, struct pq_tree *to,
                    double *lost);
/* Makes two of a hole, the latter of `part` bytes (fewer than it has); returns where that is. There must be
 * room for two tokens more. */
uint32_t pack_pq_split(struct pq_tree *t, uint32_t at, uint64_t part, uint32_t name);
/* The same for trees that allow the same. */
uint64_t pack_pq_hash(const struct pq_tree *t);

static inline bool pack_pq_is_leaf(const struct pq_token *t) {
    return t->kind <= PQ_HOLE;
}

#endif
