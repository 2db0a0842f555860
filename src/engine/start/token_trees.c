#include "engine/start/token_trees.h"

#include "engine/engine.h"
#include "os/pages.h"

#include <string.h>

/* The bytes of a token as a grammar has them; 0: no mask allows it. */
static uint32_t bytes_of(const struct tokenizer *t, uint32_t id, char *out, uint64_t capacity) {
    if (id >= tokenizer_vocab(t) || tokenizer_is_end(t, (int32_t)id))
        return 0;
    const uint64_t n = grammar_slots_piece(t, (int32_t)id, out, capacity);
    return n <= TOKEN_TRIE_MAX_LENGTH ? (uint32_t)n : 0;
}

static stator_status list_tokens(struct token_trees *t, const struct tokenizer *from, stator_error *e) {
    uint64_t texts = 0;
    for (uint32_t i = 0; i < t->vocab; i++)
        texts = arith_must_add(texts, bytes_of(from, i, NULL, 0));
    char *text = NULL;
    for (int pass = 0; pass < 2; pass++) {
        struct carve c = pass == 0 ? carve_count() : carve_in(t->memory, t->memory_bytes);
        t->tokens = carve_take(&c, t->vocab, sizeof *t->tokens);
        t->order = carve_take(&c, 2 * (uint64_t)t->vocab, sizeof *t->order);
        text = carve_take(&c, texts, 1);
        t->memory_bytes = c.used;
        stator_status st =
            pass == 0 ? pages_map(t->memory_bytes, "the vocabulary's texts", &t->memory, e) : STATOR_OK;
        if (st != STATOR_OK)
            return st;
    }
    for (uint32_t i = 0; i < t->vocab; i++) {
        const uint32_t n = bytes_of(from, i, text, texts);
        t->tokens[i] = (struct token_bytes){(const uint8_t *)text, n};
        text += n;
        texts -= n;
    }
    return STATOR_OK;
}

static uint64_t lay_out(struct stator *s, struct carve *c, void **trie) {
    const struct token_trees *t = &s->start.trees;
    grammar_slots_lay_out(&s->front.grammars, c, t->trie_bytes, t->vocab, trie);
    return c->used;
}

/* Without a tokenizer it is not an error. */
static stator_status measure(struct stator *s, stator_error *e) {
    struct token_trees *t = &s->start.trees;
    CHECK(t->memory == NULL && s->planning.tokenizer_bytes > 0);
    struct tokenizer *from = NULL;
    void *memory = NULL;
    stator_status st = pages_map(s->planning.tokenizer_bytes, "the tokenizer", &memory, e);
    if (st != STATOR_OK)
        return st;
    s->front.grammars.error.code = tokenizer_create(s->planning.gguf, memory, s->planning.tokenizer_bytes,
                                                    &from, &s->front.grammars.error);
    t->vocab = s->planning.shape->vocab;
    if (from != NULL)
        st = list_tokens(t, from, e);
    pages_unmap(memory, s->planning.tokenizer_bytes);
    if (from != NULL && st == STATOR_OK)
        s->front.grammars.error.code =
            token_trie_order(t->tokens, t->vocab, t->order, &t->trie_bytes, &s->front.grammars.error);
    return st;
}

stator_status token_trees_measure(struct stator *s, uint32_t grammars, stator_error *e) {
    s->front.grammars.n = grammars;
    s->front.grammars.slot_bytes = s->planning.config.server.grammar_bytes;
    if (grammars == 0)
        return STATOR_OK;
    s->front.grammars.error = s->tokenizer_error;
    stator_status st = s->planning.tokenizer_bytes > 0 ? measure(s, e) : STATOR_OK;
    if (st != STATOR_OK || s->front.grammars.error.code != STATOR_OK) {
        s->front.grammars.n = 0;
        token_trees_drop(&s->start.trees);
        return st;
    }
    struct carve c = carve_count();
    void *trie = NULL;
    s->planning.grammars_bytes = pages_rounded(lay_out(s, &c, &trie));
    return STATOR_OK;
}

stator_status token_trees_make(struct stator *s, stator_error *e) {
    const struct token_trees *t = &s->start.trees;
    struct grammar_slots *g = &s->front.grammars;
    const uint64_t bytes = s->planning.grammars_bytes;
    if (bytes == 0)
        return STATOR_OK;
    if (g->memory == NULL) {
        stator_status st = pages_map(bytes, "the grammars", &g->memory, e);
        if (st != STATOR_OK)
            return st;
        struct carve c = carve_in(g->memory, bytes);
        void *trie = NULL;
        lay_out(s, &c, &trie);
        g->trie = token_trie_build(trie, t->tokens, t->vocab, t->order);
        for (uint32_t i = 0; i < t->vocab && i < tokenizer_vocab(s->tokenizer); i++)
            if (tokenizer_is_end(s->tokenizer, (int32_t)i))
                g->ends[i / 64] |= 1ull << i % 64;
        token_trees_drop(&s->start.trees);
    }
    plan_arena_find(plan_find(&s->planning.plan, "host"), "grammars")->allocated = bytes;
    return STATOR_OK;
}

void token_trees_drop(struct token_trees *t) {
    pages_unmap(t->memory, t->memory_bytes);
    *t = (struct token_trees){.memory = NULL};
}
