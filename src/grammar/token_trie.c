/* A tree is an array in the order of a walk: a node is followed by what begins with it. */
#include "grammar/token_trie.h"

#include "base/arith.h"
#include "base/carve.h"
#include "grammar/plain_text.h"
#include "grammar/regex_nodes.h"

#include <string.h>

#define NONE UINT32_MAX
#define LIST 0x80000000u /* of a node: the rest is a place in `lists`; in a list: the last token */

struct trie_node {
    uint32_t end_byte; /* the first node that does not begin with this one, << 8, and the byte */
    uint32_t token;    /* that ends here; LIST and a place if there are several; or NONE */
};

struct tree {
    struct trie_node *nodes;
    uint32_t *lists; /* tokens with the same bytes */
    uint32_t n_nodes, n_lists;
};

/* What a tree has of a vocabulary. */
enum part {
    PART_ALL,      /* every token */
    PART_REST,     /* those that are not plain */
    PART_NO_SHORT, /* those that are not plain, or longer than PLAIN_TEXT_SHORT characters */
    PART_BEHIND,   /* of those that are not plain: what is behind the plain beginning */
    N_PARTS,
};

struct token_trie {
    struct tree trees[N_PARTS];
    uint64_t *plain;  /* the mask of plain tokens */
    uint64_t *shorts; /* PLAIN_TEXT_SHORT masks: those of at most 1, 2, .. characters */
    uint32_t n_tokens, n_words, longest;
};

/* Tokens in an order, as a part sees them. */
struct view {
    const struct token_bytes *tokens;
    const uint32_t *order;
    uint32_t n;
    enum part part;
};

/* False: the part does not have the token. */
static bool see(const struct token_bytes *token, enum part part, struct token_bytes *seen) {
    uint32_t characters, plain;
    *seen = *token;
    if (token->n == 0 || part == PART_ALL)
        return token->n > 0;
    plain = plain_text_length(token->bytes, token->n, &characters);
    if (part == PART_BEHIND) {
        seen->bytes += plain;
        seen->n -= plain;
    }
    return plain < token->n || (part == PART_NO_SHORT && characters > PLAIN_TEXT_SHORT);
}

static int compare(const struct token_bytes *tokens, enum part part, uint32_t a, uint32_t b) {
    struct token_bytes x, y;
    bool has_a = see(&tokens[a], part, &x), has_b = see(&tokens[b], part, &y);
    if (has_a != has_b)
        return has_a ? -1 : 1;
    uint32_t n = ARITH_MIN(x.n, y.n);
    int c = n == 0 ? 0 : memcmp(x.bytes, y.bytes, n);
    if (c == 0 && x.n != y.n)
        c = x.n < y.n ? -1 : 1;
    return c != 0 ? c : a < b ? -1 : a > b;
}

static void sift(const struct token_bytes *tokens, enum part part, uint32_t *order, uint32_t at, uint32_t n) {
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(tokens, part, order[child], order[child + 1]) < 0)
            child++;
        if (compare(tokens, part, order[at], order[child]) >= 0)
            return;
        uint32_t x = order[at];
        order[at] = order[child];
        order[child] = x;
    }
}

/* In place and without a call of libc, which may allocate. */
static void sort(const struct token_bytes *tokens, enum part part, uint32_t *order, uint32_t n) {
    for (uint32_t i = n / 2; i-- > 0;)
        sift(tokens, part, order, i, n);
    for (uint32_t end = n; end > 1;) {
        uint32_t x = order[--end];
        order[end] = order[0];
        order[0] = x;
        sift(tokens, part, order, 0, end);
    }
}

static uint32_t common(const struct token_bytes *a, const struct token_bytes *b) {
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Nodes and places in lists of a tree. */
static void count(const struct view *v, uint64_t *n_nodes, uint64_t *n_lists) {
    struct token_bytes last = {NULL, 0}, x;
    bool doubled = false;
    *n_nodes = *n_lists = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (!see(&v->tokens[v->order[i]], v->part, &x))
            continue;
        uint32_t shared = common(&last, &x);
        bool same = shared == x.n && shared == last.n;
        *n_nodes += x.n - shared;
        *n_lists += same ? doubled ? 1 : 2 : 0;
        doubled = same;
        last = x;
    }
}

static struct view view_of(const struct token_bytes *tokens, uint32_t n, const uint32_t *order,
                           enum part part) {
    return (struct view){tokens, part == PART_BEHIND ? order + n : order, n, part};
}

static struct token_trie *lay_out(struct carve *c, struct token_trie *made) {
    struct token_trie *t = carve_take(c, 1, sizeof *t);
    made->n_words = (made->n_tokens + 63) / 64;
    for (int i = 0; i < N_PARTS; i++) {
        made->trees[i].nodes = carve_take(c, made->trees[i].n_nodes, sizeof *made->trees[i].nodes);
        made->trees[i].lists = carve_take(c, made->trees[i].n_lists, sizeof *made->trees[i].lists);
    }
    made->plain = carve_take(c, made->n_words, sizeof *made->plain);
    made->shorts = carve_take(c, (uint64_t)made->n_words * PLAIN_TEXT_SHORT, sizeof *made->shorts);
    return t;
}

/* The sizes of all parts in *made. False: too many nodes. */
static bool measure(const struct token_bytes *tokens, uint32_t n, const uint32_t *order,
                    struct token_trie *made) {
    *made = (struct token_trie){.n_tokens = n};
    for (enum part part = 0; part < N_PARTS; part++) {
        uint64_t n_nodes, n_lists;
        struct view v = view_of(tokens, n, order, part);
        count(&v, &n_nodes, &n_lists);
        if (n_nodes >= TOKEN_TRIE_MAX_NODES)
            return false;
        made->trees[part].n_nodes = (uint32_t)n_nodes;
        made->trees[part].n_lists = (uint32_t)n_lists;
    }
    return true;
}

stator_status token_trie_order(const struct token_bytes *tokens, uint32_t n, uint32_t *order, uint64_t *bytes,
                               stator_error *e) {
    if (n > TOKEN_TRIE_MAX_TOKENS)
        return error_set(e, STATOR_DOES_NOT_FIT, "vocabulary: %u tokens, at most %u are supported", n,
                         TOKEN_TRIE_MAX_TOKENS);
    for (uint32_t i = 0; i < n; i++) {
        if (tokens[i].n > TOKEN_TRIE_MAX_LENGTH)
            return error_set(e, STATOR_DOES_NOT_FIT,
                             "vocabulary: token %u has %u bytes, at most %u are supported", i, tokens[i].n,
                             TOKEN_TRIE_MAX_LENGTH);
        order[i] = order[n + i] = i;
    }
    sort(tokens, PART_ALL, order, n);
    sort(tokens, PART_BEHIND, order + n, n);
    struct carve c = carve_count();
    struct token_trie made;
    if (!measure(tokens, n, order, &made))
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "vocabulary: its tokens differ in too many bytes, fewer than %u are supported",
                         TOKEN_TRIE_MAX_NODES);
    lay_out(&c, &made);
    *bytes = c.used;
    return STATOR_OK;
}

static void add_token(struct tree *tree, struct trie_node *node, uint32_t token, uint32_t *n_lists) {
    if (node->token == NONE) {
        node->token = token;
        return;
    }
    if ((node->token & LIST) == 0) {
        tree->lists[*n_lists] = node->token;
        node->token = LIST | *n_lists;
        ++*n_lists;
    } else {
        tree->lists[*n_lists - 1] &= ~LIST;
    }
    tree->lists[*n_lists] = LIST | token;
    ++*n_lists;
}

static void build(struct tree *tree, const struct view *v, uint32_t *longest) {
    uint32_t path[TOKEN_TRIE_MAX_LENGTH + 1] = {0}; /* the open node of each depth */
    uint32_t at = 0, open = 0, n_lists = 0;
    struct token_bytes last = {NULL, 0}, x;
    for (uint32_t i = 0; i < v->n; i++) {
        if (!see(&v->tokens[v->order[i]], v->part, &x))
            continue;
        uint32_t shared = common(&last, &x);
        for (; open > shared; open--)
            tree->nodes[path[open]].end_byte |= at << 8;
        for (; open < x.n; at++) {
            tree->nodes[at] = (struct trie_node){.token = NONE, .end_byte = x.bytes[open]};
            path[++open] = at;
        }
        CHECK(open > 0); /* a token has bytes */
        add_token(tree, &tree->nodes[path[open]], v->order[i], &n_lists);
        *longest = ARITH_MAX(*longest, x.n);
        last = x;
    }
    for (; open > 0; open--)
        tree->nodes[path[open]].end_byte |= at << 8;
    CHECK(at == tree->n_nodes && n_lists == tree->n_lists);
}

/* The mask of plain tokens of at most `most` characters. */
static uint64_t *shorts_of(const struct token_trie *t, uint32_t most) {
    CHECK(most > 0 && most <= PLAIN_TEXT_SHORT);
    return t->shorts + (size_t)(most - 1) * t->n_words;
}

static void mark_plain(struct token_trie *t, const struct token_bytes *tokens) {
    memset(t->plain, 0, t->n_words * sizeof *t->plain);
    memset(t->shorts, 0, (size_t)t->n_words * PLAIN_TEXT_SHORT * sizeof *t->shorts);
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        uint32_t characters;
        if (tokens[i].n == 0 || plain_text_length(tokens[i].bytes, tokens[i].n, &characters) < tokens[i].n)
            continue;
        t->plain[i / 64] |= 1ull << i % 64;
        for (uint32_t most = characters; most <= PLAIN_TEXT_SHORT; most++)
            shorts_of(t, most)[i / 64] |= 1ull << i % 64;
    }
}

const struct token_trie *token_trie_build(void *memory, const struct token_bytes *tokens, uint32_t n,
                                          const uint32_t *order) {
    struct token_trie made;
    CHECK(measure(tokens, n, order, &made));
    struct carve counted = carve_count();
    lay_out(&counted, &made);
    struct carve c = carve_in(memory, counted.used);
    struct token_trie *t = lay_out(&c, &made);
    *t = made;
    for (enum part part = 0; part < N_PARTS; part++) {
        struct view v = view_of(tokens, n, order, part);
        build(&t->trees[part], &v, &t->longest);
    }
    mark_plain(t, tokens);
    return t;
}

uint32_t token_trie_tokens(const struct token_trie *t) {
    return t->n_tokens;
}

uint32_t token_trie_places(const struct token_trie *t) {
    return 3 * (t->longest + 1);
}

int32_t token_trie_longest(const struct token_trie *t, const uint8_t *text, uint32_t n, bool *beyond) {
    const struct tree *tree = &t->trees[PART_ALL];
    uint32_t i = 0, end = tree->n_nodes, token = NONE, at = 0;
    while (at < n && i < end) {
        const struct trie_node *x = &tree->nodes[i];
        if ((uint8_t)x->end_byte != text[at]) {
            i = x->end_byte >> 8;
            continue;
        }
        token = x->token != NONE ? x->token : token;
        end = x->end_byte >> 8;
        i++;
        at++;
    }
    *beyond = at == n && i < end;
    return token == NONE || (token & LIST) != 0 ? -1 : (int32_t)token;
}

static void allow(const struct tree *tree, uint32_t token, uint64_t *mask) {
    if ((token & LIST) == 0) {
        mask[token / 64] |= 1ull << token % 64;
        return;
    }
    for (const uint32_t *x = tree->lists + (token & ~LIST);; x++) {
        mask[(*x & ~LIST) / 64] |= 1ull << *x % 64;
        if (*x & LIST)
            return;
    }
}

/* The states of a mask: the one that it is of, with those at each depth of the walk, and others. */
struct walked {
    struct regex *r;
    uint32_t *states; /* of the caller, n of them; the mask is of the first */
    uint32_t n;
    uint32_t *places; /* pairs of the state at a depth and the first node that is not below it */
    uint32_t *held;   /* while collecting: room for all of these states */
};

static void collect(const struct walked *w, uint32_t depth) {
    const uint32_t n = depth + 1;
    for (uint32_t k = 0; k < n; k++)
        w->held[k] = w->places[2 * k];
    memcpy(w->held + n, w->states + 1, (w->n - 1) * sizeof *w->held);
    regex_collect(w->r, w->held, n + w->n - 1);
    for (uint32_t k = 0; k < n; k++)
        w->places[2 * k] = w->held[k];
    w->states[0] = w->held[0];
    memcpy(w->states + 1, w->held + n, (w->n - 1) * sizeof *w->held);
}

static enum regex_result walk(const struct tree *tree, const struct walked *w, uint64_t max_steps,
                              uint64_t *mask) {
    struct regex *r = w->r;
    uint64_t steps = 0;
    uint32_t n = tree->n_nodes, *states = w->places, *ends = w->places + 1;
    states[0] = w->states[0];
    ends[0] = n;
    for (uint32_t i = 0, depth = 0; i < n;) {
        const struct trie_node *x = &tree->nodes[i];
        uint32_t next = REGEX_DEAD;
        while (i == ends[2 * depth])
            depth--;
        r->steps = 0;
        enum regex_result result = regex_step(r, states[2 * depth], (uint8_t)x->end_byte, &next);
        if (result == REGEX_FULL) {
            collect(w, depth);
            steps += regex_nodes_used(r);
            result = regex_step(r, states[2 * depth], (uint8_t)x->end_byte, &next);
        }
        steps += r->steps;
        if (result != REGEX_OK)
            return result;
        if (steps > max_steps)
            return REGEX_STEPS;
        if (next == REGEX_DEAD) {
            i = x->end_byte >> 8;
            continue;
        }
        if (x->token != NONE)
            allow(tree, x->token, mask);
        states[2 * ++depth] = next;
        ends[2 * depth] = x->end_byte >> 8;
        i++;
    }
    return REGEX_OK;
}

enum regex_result token_trie_mask(const struct token_trie *t, struct regex *r, uint32_t *states, uint32_t n,
                                  uint32_t *places, uint64_t max_steps, uint64_t *mask) {
    enum part part = PART_ALL;
    const uint64_t *known = NULL;
    uint32_t most = 0;
    switch (plain_text_of(r, states[0], &most)) {
    case PLAIN_TEXT_UNKNOWN:
        break;
    case PLAIN_TEXT_COUNTED:
        part = PART_REST;
        known = shorts_of(t, most);
        break;
    case PLAIN_TEXT_SHORTS:
        part = PART_NO_SHORT;
        known = shorts_of(t, PLAIN_TEXT_SHORT);
        break;
    case PLAIN_TEXT_ALL:
        part = PART_REST;
        known = t->plain;
        break;
    case PLAIN_TEXT_SELF:
        part = PART_BEHIND;
        known = t->plain;
        break;
    }
    if (known != NULL)
        memcpy(mask, known, t->n_words * sizeof *mask);
    else
        memset(mask, 0, t->n_words * sizeof *mask);
    const struct walked w = {r, states, n, places, places + 2 * (t->longest + 1)};
    CHECK(n > 0);
    return walk(&t->trees[part], &w, max_steps, mask);
}
