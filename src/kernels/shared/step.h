/* The step descriptor: everything about a step that is data. The host writes it, the device reads it; it lies
 * at the start of the exchange arena. Compiles as C and as OpenCL C.
 *
 * Layout: struct step_header, then the arrays at the byte offsets that the header names (set once, never
 * changed). */
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

/* Consecutive tokens of one sequence: tokens [first, first + n) of the step are its positions position,
 * position + 1, .. */
struct step_chunk {
    step_u32 slot; /* of the sequence: its row in the block table */
    step_u32 first;
    step_u32 n;
    step_u32 position;
    step_u32 tested; /* of the n, the last ones are guesses: states stay what the others left, and a
                        sequence goes on there */
    step_u32 hidden; /* of a block of nextn: the state before the chunk's first token is the hidden-th of the
                        rows that the sequence keeps; 0: that of its cache */
    /* How a GPU cuts its attention (launch.h), written by the device. The host writes 0. */
    step_u32 item;    /* first work item, of n_items */
    step_u32 queries; /* of a tile */
    step_u32 splits;  /* side by side, of every tile; 0: one after the other */
    step_u32 cell;    /* the first of its n * splits cells */
    step_u32 tiled;   /* 1: tiles of many rows (cl_tiles.h), where the kernel has that way */
};

/* A block that a step sets before it does anything else: to what `from` has, or to zeros. None is set twice
 * in a step, and none that is set is another's `from`, so they are set in any order. */
struct step_fill {
    step_u32 block;
    step_u32 from; /* or STEP_ZEROS */
};

#define STEP_ZEROS 0xFFFFFFFFu

/* What the steps of all sequences say of one cache of the graph. */
struct step_cache {
    step_u32 n_fill;       /* blocks to set first */
    step_u32 table_stride; /* entries of a slot's block table: blocks of a sequence */
    step_u32 at_fill;      /* struct step_fill [all blocks] */
    step_u32 at_tables;    /* u32 [sequences][table_stride]: the block of each 32 tokens (a ring's: modulo
                              table_stride), or of the state */
};

#define STEP_CACHES 4

/* What a step runs. */
#define STEP_TAIL  0 /* only the tail, on the residual stream of the last body */
#define STEP_BODY  1 /* and the tail, if rows are wanted */
#define STEP_GUESS 2 /* the block of nextn and its own tail, on the last device, a token of each chunk */

struct step_header {
    step_u32 run_body;
    step_u32 n_tokens;
    step_u32 n_chunks;
    step_u32 n_rows;      /* of logits; 0: no tail */
    step_u32 want_logits; /* 1: the host reads the rows themselves; 0: their picks are enough */
    step_u32 rope_stride; /* floats per token in rope */
    step_u32 n_items;     /* of attention, on a GPU; written by the device */
    step_u32 at_tokens;   /* i32 [batch]: ids */
    step_u32 at_chunks;   /* struct step_chunk [sequences] */
    step_u32 at_rows;     /* u32 [logits_rows]: the token of the step whose logits the row is */
    step_u32 at_rope;     /* f32 [batch][rope_stride]: cos, sin of each pair at the token's position */
    step_u32 n_caches;
    struct step_cache cache[STEP_CACHES]; /* n_caches of them; the arrays may begin behind those */
};

#ifndef __OPENCL_C_VERSION__
static inline uint32_t step_header_bytes(uint32_t n_caches) {
    return (uint32_t)(offsetof(struct step_header, cache) + n_caches * sizeof(struct step_cache));
}
#endif

/* What the tail finds per row. */
struct step_pick {
    step_i32 token;  /* of the largest logit */
    step_u32 finite; /* 0: a logit of this row is not finite */
};

#endif
