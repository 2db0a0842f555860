/* The latest masks of a grammar, by their states: free text, or a string with a pattern, comes back to the
 * same states over and over, whose masks are walks over the whole vocabulary.
 *
 * Invariant: a mask from here is the one that token_trie_mask would make. States that a collection has given
 * new numbers are forgotten. Memory is the caller's; thread: as struct regex. */
#ifndef STATOR_GRAMMAR_MASK_CACHE_H
#define STATOR_GRAMMAR_MASK_CACHE_H

#include "grammar/token_trie.h"

#define MASK_CACHE_MOST 32u

struct mask_cache {
    uint64_t *masks;     /* n of n_words words each */
    uint32_t n, n_words; /* n: at most MASK_CACHE_MOST; 0: nothing is remembered */
    uint32_t n_used;     /* masks that are there */
    uint32_t collection; /* of the regex, when they were made */
    uint32_t states[MASK_CACHE_MOST];
    uint64_t used[MASK_CACHE_MOST]; /* when, among all uses */
    uint64_t uses;
};

/* An empty one in memory of so many bytes (any number), aligned to 8; tokens: of the vocabulary. */
void mask_cache_open(struct mask_cache *c, void *memory, uint64_t bytes, uint32_t tokens);
/* As token_trie_mask. c is always asked with the same trie and regex. */
enum regex_result mask_cache_mask(struct mask_cache *c, const struct token_trie *t, struct regex *r,
                                  uint32_t *states, uint32_t n, uint32_t *places, uint64_t max_steps,
                                  uint64_t *mask);

#endif
