#include "grammar/mask_cache.h"

#include "base/arith.h"
#include "grammar/regex_nodes.h"

#include <string.h>

void mask_cache_open(struct mask_cache *c, void *memory, uint64_t bytes, uint32_t tokens) {
    *c = (struct mask_cache){.masks = memory, .n_words = (tokens + 63) / 64};
    if (c->n_words > 0)
        c->n = (uint32_t)ARITH_MIN(bytes / (c->n_words * sizeof *c->masks), (uint64_t)MASK_CACHE_MOST);
}

static uint64_t *mask_of(const struct mask_cache *c, uint32_t i) {
    return c->masks + (size_t)i * c->n_words;
}

static void keep(struct mask_cache *c, uint32_t state, const uint64_t *mask) {
    uint32_t to = 0;
    if (c->n_used < c->n)
        to = c->n_used++;
    else
        for (uint32_t i = 1; i < c->n; i++)
            to = c->used[i] < c->used[to] ? i : to;
    c->states[to] = state;
    c->used[to] = ++c->uses;
    memcpy(mask_of(c, to), mask, c->n_words * sizeof *mask);
}

enum regex_result mask_cache_mask(struct mask_cache *c, const struct token_trie *t, struct regex *r,
                                  uint32_t *states, uint32_t n, uint32_t *places, uint64_t max_steps,
                                  uint64_t *mask) {
    if (c->collection != r->collections)
        c->n_used = 0;
    c->collection = r->collections;
    for (uint32_t i = 0; i < c->n_used; i++)
        if (c->states[i] == states[0]) {
            c->used[i] = ++c->uses;
            memcpy(mask, mask_of(c, i), c->n_words * sizeof *mask);
            return REGEX_OK;
        }
    const enum regex_result result = token_trie_mask(t, r, states, n, places, max_steps, mask);
    if (c->collection != r->collections)
        c->n_used = 0;
    c->collection = r->collections;
    if (result == REGEX_OK && c->n > 0)
        keep(c, states[0], mask);
    return result;
}
