/* Compiled grammars in the plan's memory (the host's row "grammars"), beside the vocabulary as trees of
 * bytes. The trees are built at the start (start/token_trees.h).
 *
 * A grammar is compiled by a caller, and then matched by the engine's thread alone: the states of all
 * requests that use it are states of one struct regex. It stays as long as somebody uses it, and longer where
 * its memory is not needed, so that equal texts are compiled once.
 *
 * Invariant: a grammar with references is not compiled into. Threads: the table is the callers', under
 * `lock`; what a grammar holds is the engine's thread's while a request uses it; the rest does not change
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
    struct regex *regex;     /* NULL: there is none here, or it is being compiled */
    struct mask_cache masks; /* behind the regex in memory */
    char key[HASH_TEXT];     /* of its text */
    uint32_t references;     /* of callers and requests */
    uint64_t used;           /* when, among all uses */
};

struct grammar_slots {
    void *memory; /* planning.grammars_bytes of it; NULL before the start */
    uint32_t n;   /* grammars that are planned */
    uint64_t slot_bytes;
    stator_error error; /* why there are none; its code is STATOR_OK where there are */
    pthread_mutex_t lock;
    struct stator_grammar *slots; /* [n] */
    uint64_t uses;
    const struct token_trie *trie;
    uint64_t *ends; /* a bit per token: it ends an answer */
    uint64_t *mask; /* of the token that is chosen now */
    uint32_t n_words;
    uint32_t *places,
        *states; /* of the run's state: those of token_trie_mask, and of all requests of a grammar */
};

/* The plan's row: grammars, trees of trie_bytes, masks of a vocabulary. *trie: where the trees are to be
 * built. */
void grammar_slots_lay_out(struct grammar_slots *g, struct carve *c, uint64_t trie_bytes, uint32_t vocab,
                           void **trie);
/* What masks need in the run's state. */
void grammar_slots_lay_out_run(struct grammar_slots *g, struct carve *c, const struct planning_want *want);

/* The bytes of a token as a grammar has them: those of its text; of a control token JSON_PARTS_MARK and its
 * name. 0: no grammar has it. Returns their number; writes at most capacity of them. */
uint64_t grammar_slots_piece(const struct tokenizer *t, int32_t id, char *out, uint64_t capacity);

/* It is one of these, and in use. */
bool grammar_slots_have(struct grammar_slots *g, const struct stator_grammar *grammar);
void grammar_slots_hold(struct grammar_slots *g, struct stator_grammar *grammar);
void grammar_slots_drop(struct grammar_slots *g, struct stator_grammar *grammar);

#endif
