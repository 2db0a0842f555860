/* The vocabulary as trees of bytes for grammars, in the plan's row "grammars": measured when an engine is
 * opened, for the plan, and built with the run's state. */
#ifndef STATOR_ENGINE_TOKEN_TREES_H
#define STATOR_ENGINE_TOKEN_TREES_H

#include "base/error.h"

#include <stdint.h>

struct stator;
struct token_bytes;

/* Facts that the plan has measured, kept until the trees are built. */
struct token_trees {
    void *memory; /* pages; NULL: there is nothing */
    uint64_t memory_bytes;
    uint64_t trie_bytes;
    uint32_t vocab;
    struct token_bytes *tokens; /* [vocab] */
    uint32_t *order;            /* [2 * vocab] */
};

/* For so many grammars: sets s->front.grammars and planning.grammars_bytes. A vocabulary that can't be used
 * is no error: then s->front.grammars.error says why. Errors: no memory. */
stator_status token_trees_measure(struct stator *s, uint32_t grammars, stator_error *e);
/* Maps the plan's row and builds the trees, once. */
stator_status token_trees_make(struct stator *s, stator_error *e);
/* Gives back what lies between the two. */
void token_trees_drop(struct token_trees *t);

#endif
