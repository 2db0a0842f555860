/* Merging neighbours best first, over a linked list with a heap of candidate pairs: O(n log n), whatever the
 * text. Both kinds of BPE use it; they differ in which pairs merge and at which rank.
 *
 * Invariant: symbol i spans from position i to position `next` of the initial list; a pair in the heap is
 * current exactly if its rank is still that of its left symbol (a rank and a left symbol name one pair). */
#ifndef STATOR_TOKENIZER_MERGER_H
#define STATOR_TOKENIZER_MERGER_H

#include <stdbool.h>
#include <stdint.h>

#define MERGER_END  UINT32_MAX /* no next or previous symbol */
#define MERGER_NONE UINT32_MAX /* rank of a pair that does not merge */

struct merger_symbol {
    uint32_t next, prev;
    int32_t id;     /* -1: no token */
    int32_t merged; /* the token that this symbol and the next one merge into */
    uint32_t rank;  /* rank of that merge, lower ranks first; MERGER_NONE: they don't merge */
};

struct merger {
    struct merger_symbol *symbols;
    uint64_t *heap; /* rank, then left symbol */
    uint32_t n, heap_n;
    /* Sets rank and merged of symbols[left], which has a next. */
    void (*pair)(const void *context, struct merger *m, uint32_t left);
    const void *context;
};

/* Bytes per symbol of the two arrays: at most two pairs per symbol are in the heap. */
#define MERGER_BYTES (sizeof(struct merger_symbol) + 2 * sizeof(uint64_t))

/* n > 0 symbols whose ids are set. Afterwards the list from symbol 0 is the result. */
void merger_run(struct merger *m, uint32_t n);

#endif
