/* What followed in a text the last time: a table of all pairs of tokens by where they ended, in constant
 * memory.
 *
 * Thread: the engine's. Works in memory given once; allocates nothing. */
#ifndef STATOR_ENGINE_NGRAM_H
#define STATOR_ENGINE_NGRAM_H

#include "base/carve.h"

#include <stdint.h>

struct ngram {
    uint32_t n_buckets; /* a power of two */
    uint32_t *newest;   /* [n_buckets]: the place behind the last pair of tokens with this hash; 0: none */
    uint32_t *older;    /* [context + 1]: of a place, the one before it with the same hash */
    uint32_t n;         /* tokens of the text that are in the table */
};

/* For texts of at most context + 1 tokens; empty. */
void ngram_lay_out(struct ngram *g, struct carve *c, uint32_t context);
/* For another text, or less of this one. */
void ngram_clear(struct ngram *g);
/* Takes in what has come to the text since the last call, then guesses what follows its n tokens: as it went
 * on behind the longest ending that it had before, of equal ones the last. Fills `out` with at most `most`,
 * all of them if any; returns how many. */
uint32_t ngram_guess(struct ngram *g, const int32_t *tokens, uint32_t n, int32_t *out, uint32_t most);

#endif
