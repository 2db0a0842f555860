/* Compiled grammars in planned memory (the host's row "grammars"), and the vocabulary as trees of bytes,
 * which are built at the start (start/token_trees.h).
 *
 * A caller's thread compiles a grammar. Then only the engine's thread matches with it: all of its requests
 * have states of one struct regex. A grammar stays while it has references, and afterwards until its memory
 * is needed, so that equal texts are compiled once.
 *
 * Invariant: no grammar is compiled in the place of one with references. Threads: callers use the table under
 * `lock`. The engine's thread owns the content of a grammar while a request uses it. The rest does not change
 * after the start. */
#ifndef STATOR_ENGINE_GRAMMAR_SLOTS_H
#define STATOR_ENGINE_GRAMMAR_SLOTS_H

#include "base/carve.h"
#include "base/hash.h"
#include "grammar/mask_cache.h"
#include "stator.h"

#include <pthread.h>

struct planning_want;
struct tokenizer;

struct stator_grammar {
    void *memory;
    struct regex *regex;     /* NULL: the slot is empty, or the grammar is being compiled */
    struct mask_cache masks; /* in the memory after the regex */
    char key[HASH_TEXT];     /* hash of its text */
    uint32_t references;     /* from callers and requests */
    uint64_t used;           /* number of the last use, among all uses */
};

struct grammar_slots {
    void *memory; /* planning.grammars_bytes bytes; NULL before the start */
    uint32_t n;   /* grammars that are planned */
    uint64_t slot_bytes;
    stator_error error; /* why there are no grammars; STATOR_OK if there are */
    pthread_mutex_t lock;
    struct stator_grammar *slots; /* [n] */
    uint64_t uses;
    const struct token_trie *trie;
    uint64_t *ends; /* a bit per token: it ends an answer */
    uint64_t *mask; /* for the token that is chosen now */
    uint32_t n_words;
    uint32_t *places,
        *states; /* of the run's state: those of token_trie_mask, and of all requests of a grammar */
};

/* Lays out the row of the plan: grammars, trees of trie_bytes, masks of a vocabulary. *trie gets the place of
 * the trees. */
void grammar_slots_lay_out(struct grammar_slots *g, struct carve *c, uint64_t trie_bytes, uint32_t vocab,
                           void **trie);
/* Lays out what masks need in the run's state. */
void grammar_slots_lay_out_run(struct grammar_slots *g, struct carve *c, const struct planning_want *want);

/* Writes the bytes of a token as grammars see it: its text, or JSON_PARTS_MARK and the name of a control
 * token. Returns their number, of which at most capacity are written; 0: no grammar can have the token. */
uint64_t grammar_slots_piece(const struct tokenizer *t, int32_t id, char *out, uint64_t capacity);

/* Whether this is a grammar of the table with references. */
bool grammar_slots_have(struct grammar_slots *g, const struct stator_grammar *grammar);
void grammar_slots_hold(struct grammar_slots *g, struct stator_grammar *grammar);
void grammar_slots_drop(struct grammar_slots *g, struct stator_grammar *grammar);

#endif
