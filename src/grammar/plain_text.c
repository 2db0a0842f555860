#include "grammar/plain_text.h"

#include "grammar/regex_nodes.h"

#define MAX_STATES 256u   /* that are looked at for one answer */
#define MAX_STEPS  20000u /* of derivations, for one answer */
#define MAX_DEPTH  32u    /* of nodes inside each other */

/* The first bytes of characters, and what may be their second byte (Unicode, table 3-7). Without DEL, which
 * llama.cpp's grammars of JSON forbid in strings. */
static const struct {
    uint8_t first, last, length, second_first, second_last;
} leads[] = {
    {0x20, 0x21, 1, 0, 0},       {0x23, 0x5B, 1, 0, 0},       {0x5D, 0x7E, 1, 0, 0},
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
    uint64_t steps;
};

/* A step that goes on; false: none does, or the search has taken too long. */
static bool step(struct closure *c, uint32_t state, uint32_t byte, uint32_t *next) {
    c->r->steps = 0;
    enum regex_result result = regex_step(c->r, state, (uint8_t)byte, next);
    c->steps += c->r->steps;
    return result == REGEX_OK && *next != REGEX_DEAD && c->steps <= MAX_STEPS;
}

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
        if (!step(c, state, b, &next))
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
            if (!step(c, state, b, &next))
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

/* Characters of a string that may yet come: *most of them. */
static bool counts_characters(const struct regex *r, uint32_t state, uint32_t *most) {
    const struct regex_node *x = &r->nodes[state];
    if (x->kind == REGEX_KIND_CONCAT)
        x = &r->nodes[x->a];
    *most = x->hi;
    return r->plain_char != REGEX_DEAD && x->kind == REGEX_KIND_REPEAT && x->a == r->plain_char;
}

/* What follows the repetition begins with a quote. */
static bool ends_with_quote(const struct regex *r, uint32_t state) {
    const struct regex_node *x = &r->nodes[r->nodes[state].b];
    if (r->nodes[state].kind != REGEX_KIND_CONCAT)
        return false;
    if (x->kind == REGEX_KIND_CONCAT)
        x = &r->nodes[x->a];
    return x->kind == REGEX_KIND_TEXT && r->texts[x->a] == '"';
}

/* Surely only so many texts match. */
static bool is_finite(const struct regex *r, uint32_t node, uint32_t depth) {
    const struct regex_node *x = &r->nodes[node];
    if (depth == MAX_DEPTH)
        return false;
    switch ((enum regex_kind)x->kind) {
    case REGEX_KIND_NONE:
    case REGEX_KIND_EMPTY:
    case REGEX_KIND_BYTES:
    case REGEX_KIND_TEXT:
        return true;
    case REGEX_KIND_CONCAT:
        return is_finite(r, x->a, depth + 1) && is_finite(r, x->b, depth + 1);
    case REGEX_KIND_OR:
        for (uint32_t i = 0; i < x->b; i++)
            if (!is_finite(r, r->members[x->a + i], depth + 1))
                return false;
        return true;
    default:
        return false;
    }
}

/* All texts but so many match. */
static bool is_cofinite(const struct regex *r, uint32_t node, uint32_t depth) {
    const struct regex_node *x = &r->nodes[node];
    if (depth == MAX_DEPTH)
        return false;
    if (x->kind == REGEX_KIND_AND)
        return is_cofinite(r, x->a, depth + 1) && is_cofinite(r, x->b, depth + 1);
    return x->kind == REGEX_KIND_NOT && is_finite(r, x->a, depth + 1);
}

/* Every plain text can go on to a match, as the parts show: names other than some, for example. A text that
 * goes on for longer than the longest of these is none of them. */
static bool shows_all(struct regex *r, uint32_t node, uint32_t depth) {
    const struct regex_node *x = &r->nodes[node];
    if (depth == MAX_DEPTH)
        return false;
    switch ((enum regex_kind)x->kind) {
    case REGEX_KIND_CONCAT:
        return shows_all(r, x->a, depth + 1);
    case REGEX_KIND_OR:
        for (uint32_t i = 0; i < x->b; i++)
            if (shows_all(r, r->members[x->a + i], depth + 1))
                return true;
        return false;
    case REGEX_KIND_AND:
        return (is_cofinite(r, x->a, depth + 1) && shows_all(r, x->b, depth + 1)) ||
               (is_cofinite(r, x->b, depth + 1) && shows_all(r, x->a, depth + 1));
    case REGEX_KIND_REPEAT:
        return x->hi == REGEX_FOREVER &&
               (x->plain == REGEX_YES || (x->plain == REGEX_UNKNOWN && find_all(r, node)));
    default:
        return false;
    }
}

static bool has_parts(const struct regex *r, uint32_t state) {
    const struct regex_node *x = &r->nodes[state];
    if (x->kind == REGEX_KIND_CONCAT)
        x = &r->nodes[x->a];
    return x->kind == REGEX_KIND_OR || x->kind == REGEX_KIND_AND;
}

enum plain_text plain_text_of(struct regex *r, uint32_t state, uint32_t *most) {
    const struct regex_node *x = &r->nodes[state];
    r->result = REGEX_OK;
    if (counts_characters(r, state, most) && *most != REGEX_FOREVER) {
        if (*most >= PLAIN_TEXT_SHORT)
            return PLAIN_TEXT_SHORTS;
        if (ends_with_quote(r, state))
            return PLAIN_TEXT_COUNTED;
    }
    if (x->plain == REGEX_UNKNOWN && has_parts(r, state) && shows_all(r, state, 0))
        return PLAIN_TEXT_ALL;
    if (x->plain == REGEX_YES || (x->plain == REGEX_UNKNOWN && find_all(r, state)))
        return x->plain_self ? PLAIN_TEXT_SELF : PLAIN_TEXT_ALL;
    return PLAIN_TEXT_UNKNOWN;
}
