/* Draft tokens from the text itself: a table of all pairs of its tokens and the places where they ended. The
 * memory is constant.
 *
 * Thread: the engine's. It allocates nothing. */
#ifndef STATOR_ENGINE_NGRAM_H
#define STATOR_ENGINE_NGRAM_H

#include "base/carve.h"

#include <stdint.h>

struct ngram {
    uint32_t n_buckets; /* a power of two */
    uint32_t *newest;   /* [n_buckets]: the place after the last pair of tokens with this hash; 0: none */
    uint32_t *older;    /* [context + 1]: for each place, the one before it with the same hash */
    uint32_t n;         /* tokens of the text that are in the table */
};

/* An empty table for texts of at most context + 1 tokens. */
void ngram_lay_out(struct ngram *g, struct carve *c, uint32_t context);
/* Empties the table, for another text or a shorter one. */
void ngram_clear(struct ngram *g);
/* Adds the text's new tokens to the table, then writes to `out` what followed the longest earlier occurrence
 * of the text's ending (of equally long ones, the latest). Returns `most`, or 0 if there was none. */
uint32_t ngram_guess(struct ngram *g, const int32_t *tokens, uint32_t n, int32_t *out, uint32_t most);

#endif
