/* The step descriptor: the data of one step. The host writes it and the device reads it, at the start of the
 * exchange arena. This file compiles as C and as OpenCL C.
 *
 * Layout: struct step_header, then arrays at the byte offsets that the header names. The offsets are set once
 * and never change. */
#ifndef STATOR_KERNELS_SHARED_STEP_H
#define STATOR_KERNELS_SHARED_STEP_H

#ifdef __OPENCL_C_VERSION__
typedef uint step_u32;
typedef int step_i32;
#else
#include <stddef.h>
#include <stdint.h>
typedef uint32_t step_u32;
typedef int32_t step_i32;
#endif

/* A chunk: consecutive tokens of one sequence. Tokens [first, first + n) of the step have the positions
 * position, position + 1, .. of the sequence. */
struct step_chunk {
    step_u32 slot; /* the sequence's row in the block table */
    step_u32 first;
    step_u32 n;
    step_u32 position;
    step_u32 tested; /* number of draft tokens at the end of the chunk. Recurrent states stay as the tokens
                        before them left them */
    step_u32 hidden; /* MTP head: the row kept for the sequence (GRAPH_KEEP) that holds the hidden state
                        before the chunk's first token; 0: the state in its cache */
    /* How attention is divided on a GPU (launch.h), written by the device. The host writes 0. */
    step_u32 item;    /* first entry of the chunk in the work list (n_items entries). An entry serves all KV
                         heads of an op */
    step_u32 queries; /* of a tile */
    step_u32 splits;  /* of every tile, computed in parallel; 0: one group computes them in turn */
    step_u32 cell;    /* first of its n * splits partial results */
    step_u32 tiled;   /* 1: tiles of many rows (cl_tiles.h), if the kernel has them */
};

/* A block that a step clears, or copies from another block, before it does anything else. In a step no block
 * is written twice, and none is both written and read, so the order does not matter. */
struct step_fill {
    step_u32 block;
    step_u32 from; /* the block to copy, or STEP_ZEROS */
};

#define STEP_ZEROS 0xFFFFFFFFu

/* The data of one cache of the graph, for all sequences. */
struct step_cache {
    step_u32 n_fill;       /* blocks to clear or copy first */
    step_u32 table_stride; /* entries of a slot's block table: blocks of a sequence */
    step_u32 at_fill;      /* struct step_fill [all blocks] */
    step_u32 at_tables; /* u32 [sequences][table_stride]: the block of each 32 tokens (the index in a ring is
                           modulo table_stride), or the block of the state */
};

#define STEP_CACHES 6

/* Beside steps: blocks of a device's caches that are copied to a buffer of the host, or from it. The header
 * is followed by an array of struct step_move. */
struct step_move {
    step_u32 block;
    step_u32 at; /* in the buffer, in STEP_MOVE_UNIT: the block of the device's first unit of the cache */
};

struct step_moves {
    step_u32 out; /* 1: from the caches to the buffer */
    struct step_moved {
        step_u32 n;     /* blocks of the cache, */
        step_u32 first; /* from this one of the array on */
        step_u32 apart; /* in the buffer, from the units of a layer to those of the next, in STEP_MOVE_UNIT */
    } cache[STEP_CACHES];
};

#define STEP_MOVE_UNIT 16 /* bytes */

/* What a step runs. */
#define STEP_TAIL  0 /* only the tail, on the residual stream of the last body */
#define STEP_BODY  1 /* the layers, and the tail if rows are wanted */
#define STEP_GUESS 2 /* the MTP head and its own tail, on the last device, one token of each chunk */

struct step_header {
    step_u32 run_body;
    step_u32 n_tokens;
    step_u32 n_chunks;
    step_u32 n_rows;      /* of logits; 0: no tail */
    step_u32 want_logits; /* 1: the host reads the rows of logits; 0: it needs only their argmax */
    step_u32 rope_stride; /* floats per token in rope */
    step_u32 n_items;     /* of attention, on a GPU; written by the device */
    step_u32 at_tokens;   /* i32 [batch]: ids */
    step_u32 at_chunks;   /* struct step_chunk [sequences] */
    step_u32 at_rows;     /* u32 [logits_rows]: the index in the step of the token that the row belongs to */
    step_u32 at_rope;     /* f32 [batch][rope_stride]: cos, sin of each pair at the token's position */
    step_u32 n_caches;
    struct step_cache cache[STEP_CACHES]; /* n_caches are used; the arrays may begin behind these */
};

#ifndef __OPENCL_C_VERSION__
static inline uint32_t step_header_bytes(uint32_t n_caches) {
    return (uint32_t)(offsetof(struct step_header, cache) + n_caches * sizeof(struct step_cache));
}
#endif

/* Of a patch: the rows of the table of positions that it gets, and how much of each. */
struct step_blend {
    step_u32 row[4];
    float factor[4];
};

/* Of a patch: the window that it is in, by its first patch and its number of patches, which see each other.
 * In entry k also the first patch of window k, and how many windows there are. */
struct step_window {
    step_u32 first, n;
    step_u32 kth, all;
};

/* Result of the tail for one row: the argmax. */
struct step_pick {
    step_i32 token;  /* of the largest logit */
    step_u32 finite; /* 0: a logit of this row is not finite */
};

#endif
