/* The table of op cases: one row is one op of graph.h, on random numbers, with its shapes. An op is proven by
 * one row, which gives three checks:
 *
 *   each tier of the CPU's kernels against the scalar tier, bit by bit (tests/unit/kernels/test_op_cases.c);
 *   the kernels of a GPU against the CPU's scalar tier, bit by bit (`stator selftest`);
 *   the op's time on any device (`make bench-kernels ARGS="--ops matmul"`).
 *
 * A case is a graph of few ops: rows of random tables as inputs, the op (with those that it can't run
 * without), and its output in the place of the logits, where every device hands it out. A row is one case, or
 * one for every block format, or one for every type of K and V. Ops of an MTP head and of boundaries between
 * devices have no row: the selftest's models and tests/unit/engine/test_split.c run them.
 *
 * Errors: STATOR_DEVICE and others of the device; STATOR_FAILED: no memory. Thread: any, one case at a time.
 */
#ifndef STATOR_APP_OP_CASES_H
#define STATOR_APP_OP_CASES_H

#include "device/device.h"

#define OP_CASES_NAME   64
#define OP_CASES_BATCH  128 /* tokens of a step */
#define OP_CASES_IDS    64  /* rows of a table of inputs: ids of tokens are below it */
#define OP_CASES_TENSOR 16  /* tensors of a case */

/* Sizes of a case; an op's builder says which it uses. */
struct op_shape {
    uint32_t in, out; /* values of a row */
    uint32_t heads, kv_heads, dim;
    uint32_t window;        /* tokens; 0: all */
    uint32_t experts, used; /* of experts; of attention with an indexer, tokens that it chooses and those of
                               a block, */
    uint32_t taps;          /* and its heads */
    bool woven;
    uint32_t before; /* of what is timed: tokens of the text before the step's; their bytes in caches are 0 */
};

/* Which cases a row is. */
enum op_cases_over { OP_CASES_ONE, OP_CASES_BLOCKS, OP_CASES_KV };

struct op_graph;

struct op_case {
    const char *name;
    void (*build)(struct op_graph *b); /* adds inputs, the op and its output to b->graph */
    enum op_cases_over over;
    uint64_t seed;
    struct op_shape proof; /* for the comparisons: small, with tails */
    struct op_shape timed; /* for times: of a real model's size. All 0: no times are taken */
};

/* A case being built, or built. The shape comes first: graph_build's builder gets its address. */
struct op_graph {
    struct shape shape;
    const struct op_case *row;
    const struct op_shape *sizes; /* row->proof or row->timed */
    uint32_t type;                /* of the op's matrices; of K and V with OP_CASES_KV */
    struct graph graph;
    uint32_t first_op; /* the first that is not an input */
    uint32_t n_tensors;
    struct gguf_tensor tensors[OP_CASES_TENSOR];
    float middle[OP_CASES_TENSOR]; /* numbers of a tensor of floats are middle +- spread */
    float spread[OP_CASES_TENSOR];
};

uint32_t op_cases_count(void);
/* "op matmul, q4_k" */
void op_cases_name(uint32_t i, char out[OP_CASES_NAME]);
/* The row of the table, and the type that is case i. */
const struct op_case *op_cases_get(uint32_t i, uint32_t *type);
/* Fills b->graph (whose tables are laid out) for a device: the builder of graph_build. */
void op_cases_build(struct graph *g, const struct shape *s);

#endif
