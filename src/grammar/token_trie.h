/* A vocabulary as trees of bytes, so that a mask tries each common beginning of tokens once, and skips all
 * tokens with a beginning that is forbidden. It knows tokens as bytes only. Ids that have no bytes (end
 * tokens, say) are never allowed by a mask; the caller allows them where the text may end.
 *
 * Tokens of plain text (plain_text.h) are also kept as ready masks, and the others in trees of their own.
 * Inside of a free string a mask is a copy of one and a walk of the other.
 *
 * Memory is one block of the caller, whose size is known once the tokens are in order. A built tree does not
 * change and may be read by any number of threads. */
#ifndef STATOR_GRAMMAR_TOKEN_TRIE_H
#define STATOR_GRAMMAR_TOKEN_TRIE_H

#include "grammar/regex.h"

#define TOKEN_TRIE_MAX_LENGTH 4096u /* bytes of a token */
#define TOKEN_TRIE_MAX_TOKENS (1u << 22)
#define TOKEN_TRIE_MAX_NODES  (1u << 24)

struct token_bytes {
    const uint8_t *bytes;
    uint32_t n;
};

struct token_trie;

/* Fills order, which has 2 n places, with what token_trie_build needs, and *bytes with the size of the trees.
 * STATOR_DOES_NOT_FIT: too many tokens or bytes, or a token is too long. */
stator_status token_trie_order(const struct token_bytes *tokens, uint32_t n, uint32_t *order, uint64_t *bytes,
                               stator_error *e);
/* memory: of that size, aligned to 64. It keeps no pointer to tokens and order. */
const struct token_trie *token_trie_build(void *memory, const struct token_bytes *tokens, uint32_t n,
                                          const uint32_t *order);

uint32_t token_trie_tokens(const struct token_trie *t);
/* The longest token that the text begins with, or -1: there is none, or several are spelled so. *beyond: a
 * token begins with the whole text and goes on. */
int32_t token_trie_longest(const struct token_trie *t, const uint8_t *text, uint32_t n, bool *beyond);
/* Places that token_trie_mask needs for the mask of one state: 3 for each byte of the longest token, and 3
 * more. Each further state needs another. */
uint32_t token_trie_places(const struct token_trie *t);

/* Sets in mask (a bit per token, (tokens + 63) / 64 words) exactly the tokens after which a match can still
 * be reached from states[0]. It may collect, which gives the n states (n >= 1) their new numbers; other
 * states of r are then no longer valid. places: token_trie_places + n - 1 of them. max_steps: of all bytes
 * together; beyond it REGEX_STEPS. On an error the states are still valid, and the mask is not. */
enum regex_result token_trie_mask(const struct token_trie *t, struct regex *r, uint32_t *states, uint32_t n,
                                  uint32_t *places, uint64_t max_steps, uint64_t *mask);

#endif
