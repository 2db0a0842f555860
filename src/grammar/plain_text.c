#include "grammar/plain_text.h"

#include "grammar/regex_nodes.h"

#define MAX_STATES 2048u /* that are looked at for one answer */

/* The first bytes of characters, and what may be their second byte (Unicode, table 3-7). */
static const struct {
    uint8_t first, last, length, second_first, second_last;
} leads[] = {
    {0x20, 0x21, 1, 0, 0},       {0x23, 0x5B, 1, 0, 0},       {0x5D, 0x7F, 1, 0, 0},
    {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF}, {0xE1, 0xEC, 3, 0x80, 0xBF},
    {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF}, {0xF0, 0xF0, 4, 0x90, 0xBF},
    {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
};
#define N_LEADS (sizeof leads / sizeof *leads)

uint32_t plain_text_length(const uint8_t *text, uint32_t n, uint32_t *characters) {
    uint32_t at = 0;
    for (*characters = 0; at < n; ++*characters) {
        size_t lead = 0;
        while (lead < N_LEADS && !(text[at] >= leads[lead].first && text[at] <= leads[lead].last))
            lead++;
        if (lead == N_LEADS)
            return at;
        for (uint32_t i = 1; i < leads[lead].length && i < n - at; i++) {
            uint8_t first = i == 1 ? leads[lead].second_first : 0x80;
            uint8_t last = i == 1 ? leads[lead].second_last : 0xBF;
            if (text[at + i] < first || text[at + i] > last)
                return at;
        }
        at = n - at < leads[lead].length ? n : at + leads[lead].length;
    }
    return at;
}

struct closure {
    struct regex *r;
    uint32_t mark; /* the states are on r->stack from here on */
    bool self;     /* so far all characters lead to the state itself */
};

/* A state after a whole character. */
static bool add(struct closure *c, uint32_t from, uint32_t state) {
    struct regex *r = c->r;
    c->self = c->self && state == from;
    if (r->nodes[state].plain == REGEX_YES || r->nodes[state].plain == REGEX_ASKED)
        return true;
    if (r->nodes[state].plain == REGEX_NO || r->n_stack - c->mark == MAX_STATES || r->n_stack == r->max_stack)
        return false;
    r->nodes[state].plain = REGEX_ASKED;
    r->stack[r->n_stack++] = state;
    return true;
}

/* All ways through the bytes first to last, and `more` continuation bytes behind. */
static bool follow(struct closure *c, uint32_t from, uint32_t state, uint8_t first, uint8_t last,
                   uint32_t more) {
    for (uint32_t b = first; b <= last; b++) {
        uint32_t next;
        if (b > first && c->r->class_of[b] == c->r->class_of[b - 1])
            continue;
        if (regex_step(c->r, state, (uint8_t)b, &next) != REGEX_OK || next == REGEX_DEAD)
            return false;
        if (more > 0 ? !follow(c, from, next, 0x80, 0xBF, more - 1) : !add(c, from, next))
            return false;
    }
    return true;
}

static bool follow_all(struct closure *c, uint32_t state) {
    for (size_t i = 0; i < N_LEADS; i++)
        for (uint32_t b = leads[i].first; b <= leads[i].last; b++) {
            uint32_t next;
            if (b > leads[i].first && c->r->class_of[b] == c->r->class_of[b - 1])
                continue;
            if (regex_step(c->r, state, (uint8_t)b, &next) != REGEX_OK || next == REGEX_DEAD)
                return false;
            if (leads[i].length == 1 ? !add(c, state, next)
                                     : !follow(c, state, next, leads[i].second_first, leads[i].second_last,
                                               leads[i].length - 2u))
                return false;
        }
    return true;
}

/* Every plain text goes on from the state, if each character leads to a state of which that is true too. */
static bool find_all(struct regex *r, uint32_t state) {
    struct closure c = {.r = r, .mark = r->n_stack};
    r->nodes[state].plain = REGEX_UNKNOWN;
    bool all = add(&c, state, state);
    for (uint32_t i = c.mark; all && i < r->n_stack; i++) {
        uint32_t from = r->stack[i];
        c.self = true;
        all = follow_all(&c, from);
        r->nodes[from].plain_self = c.self;
    }
    for (uint32_t i = c.mark; i < r->n_stack; i++)
        r->nodes[r->stack[i]].plain = all ? REGEX_YES : REGEX_UNKNOWN;
    r->n_stack = c.mark;
    if (!all && r->result == REGEX_OK)
        r->nodes[state].plain = REGEX_NO;
    return all;
}

static bool counts_characters(const struct regex *r, uint32_t state) {
    const struct regex_node *x = &r->nodes[state];
    if (x->kind == REGEX_KIND_CONCAT)
        x = &r->nodes[x->a];
    return x->kind == REGEX_KIND_REPEAT && x->a == r->plain_char && x->hi >= PLAIN_TEXT_SHORT;
}

enum plain_text plain_text_of(struct regex *r, uint32_t state) {
    const struct regex_node *x = &r->nodes[state];
    r->result = REGEX_OK;
    if (r->plain_char != REGEX_DEAD && counts_characters(r, state) && x->plain == REGEX_UNKNOWN) {
        const struct regex_node *repeat = x->kind == REGEX_KIND_CONCAT ? &r->nodes[x->a] : x;
        if (repeat->hi != REGEX_FOREVER)
            return PLAIN_TEXT_SHORTS;
    }
    if (x->plain == REGEX_YES || (x->plain == REGEX_UNKNOWN && find_all(r, state)))
        return x->plain_self ? PLAIN_TEXT_SELF : PLAIN_TEXT_ALL;
    return PLAIN_TEXT_UNKNOWN;
}
