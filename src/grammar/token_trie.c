/* The tree as an array in the order of a walk: a node is followed by what begins with it. */
#include "grammar/token_trie.h"

#include "base/arith.h"
#include "base/carve.h"
#include "grammar/regex_nodes.h"

#include <string.h>

#define NONE UINT32_MAX

struct trie_node {
    uint32_t end;   /* the first node that does not begin with this one */
    uint32_t token; /* the first token that ends here, or NONE */
    uint16_t depth; /* from 1 */
    uint8_t byte;
};

struct token_trie {
    struct trie_node *nodes;
    uint32_t *same; /* of a token: the next one with the same bytes, or NONE */
    uint32_t n_nodes, n_tokens, longest;
};

static int compare(const struct token_bytes *tokens, uint32_t a, uint32_t b) {
    uint32_t n = ARITH_MIN(tokens[a].n, tokens[b].n);
    int c = n == 0 ? 0 : memcmp(tokens[a].bytes, tokens[b].bytes, n);
    if (c == 0 && tokens[a].n != tokens[b].n)
        c = tokens[a].n < tokens[b].n ? -1 : 1;
    return c != 0 ? c : a < b ? -1 : a > b;
}

static void sift(const struct token_bytes *tokens, uint32_t *order, uint32_t at, uint32_t n) {
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(tokens, order[child], order[child + 1]) < 0)
            child++;
        if (compare(tokens, order[at], order[child]) >= 0)
            return;
        uint32_t x = order[at];
        order[at] = order[child];
        order[child] = x;
    }
}

static uint32_t common(const struct token_bytes *a, const struct token_bytes *b) {
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

static uint32_t count_nodes(const struct token_bytes *tokens, uint32_t n, const uint32_t *order) {
    uint32_t nodes = 0; /* at most 2^24 x 4096: checked in 64 bits by the caller */
    for (uint32_t i = 0; i < n; i++)
        nodes += tokens[order[i]].n - (i == 0 ? 0 : common(&tokens[order[i - 1]], &tokens[order[i]]));
    return nodes;
}

static struct token_trie *lay_out(struct carve *c, uint32_t nodes, uint32_t tokens, struct token_trie *made) {
    struct token_trie *t = carve_take(c, 1, sizeof *t);
    made->n_nodes = nodes;
    made->n_tokens = tokens;
    made->nodes = carve_take(c, nodes, sizeof *made->nodes);
    made->same = carve_take(c, tokens, sizeof *made->same);
    return t;
}

stator_status token_trie_order(const struct token_bytes *tokens, uint32_t n, uint32_t *order, uint64_t *bytes,
                               stator_error *e) {
    uint64_t all = 0;
    if (n > TOKEN_TRIE_MAX_TOKENS)
        return error_set(e, STATOR_DOES_NOT_FIT, "vocabulary: %u tokens, at most %u are supported", n,
                         TOKEN_TRIE_MAX_TOKENS);
    for (uint32_t i = 0; i < n; i++) {
        if (tokens[i].n > TOKEN_TRIE_MAX_LENGTH)
            return error_set(e, STATOR_DOES_NOT_FIT,
                             "vocabulary: token %u has %u bytes, at most %u are supported", i, tokens[i].n,
                             TOKEN_TRIE_MAX_LENGTH);
        all += tokens[i].n;
        order[i] = i;
    }
    if (all >= NONE)
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "vocabulary: %llu bytes of tokens, fewer than %u are supported",
                         (unsigned long long)all, NONE);
    for (uint32_t i = n / 2; i-- > 0;)
        sift(tokens, order, i, n);
    for (uint32_t end = n; end > 1;) {
        uint32_t x = order[--end];
        order[end] = order[0];
        order[0] = x;
        sift(tokens, order, 0, end);
    }
    struct carve c = carve_count();
    struct token_trie made = {0};
    lay_out(&c, count_nodes(tokens, n, order), n, &made);
    *bytes = c.used;
    return STATOR_OK;
}

/* Ends all nodes that are open and deeper than depth. path: the open node of each depth. */
static void close_nodes(struct token_trie *t, const uint32_t *path, uint32_t from, uint32_t depth,
                        uint32_t end) {
    for (uint32_t d = from; d > depth; d--)
        t->nodes[path[d]].end = end;
}

const struct token_trie *token_trie_build(void *memory, const struct token_bytes *tokens, uint32_t n,
                                          const uint32_t *order) {
    uint32_t path[TOKEN_TRIE_MAX_LENGTH + 1], at = 0, open = 0, nodes = count_nodes(tokens, n, order);
    struct token_trie made = {0};
    struct carve counted = carve_count();
    lay_out(&counted, nodes, n, &made);
    struct carve c = carve_in(memory, counted.used);
    struct token_trie *t = lay_out(&c, nodes, n, &made);
    *t = made;
    for (uint32_t i = 0; i < n; i++) {
        const struct token_bytes *x = &tokens[order[i]];
        uint32_t shared = i == 0 ? 0 : common(&tokens[order[i - 1]], x);
        t->same[order[i]] = NONE;
        close_nodes(t, path, open, shared, at);
        for (open = shared; open < x->n; at++) {
            t->nodes[at] = (struct trie_node){.token = NONE, .byte = x->bytes[open]};
            path[++open] = at;
            t->nodes[at].depth = (uint16_t)open;
        }
        t->longest = ARITH_MAX(t->longest, x->n);
        if (x->n == 0)
            continue;
        t->same[order[i]] = t->nodes[path[open]].token;
        t->nodes[path[open]].token = order[i];
    }
    close_nodes(t, path, open, 0, at);
    CHECK(at == nodes);
    return t;
}

uint32_t token_trie_tokens(const struct token_trie *t) {
    return t->n_tokens;
}

uint32_t token_trie_depth(const struct token_trie *t) {
    return t->longest + 1;
}

enum regex_result token_trie_mask(const struct token_trie *t, struct regex *r, uint32_t *state,
                                  uint32_t *states, uint64_t max_steps, uint64_t *mask) {
    uint64_t steps = 0;
    memset(mask, 0, (t->n_tokens + 63) / 64 * sizeof *mask);
    states[0] = *state;
    for (uint32_t i = 0; i < t->n_nodes;) {
        const struct trie_node *x = &t->nodes[i];
        uint32_t next = REGEX_DEAD;
        r->steps = 0;
        enum regex_result result = regex_step(r, states[x->depth - 1], x->byte, &next);
        if (result == REGEX_FULL) {
            regex_collect(r, states, x->depth);
            *state = states[0];
            steps += regex_nodes_used(r);
            result = regex_step(r, states[x->depth - 1], x->byte, &next);
        }
        steps += r->steps;
        if (result != REGEX_OK)
            return result;
        if (steps > max_steps)
            return REGEX_STEPS;
        states[x->depth] = next;
        for (uint32_t k = x->token; next != REGEX_DEAD && k != NONE; k = t->same[k])
            mask[k / 64] |= 1ull << k % 64;
        i = next == REGEX_DEAD ? x->end : i + 1;
    }
    return REGEX_OK;
}
