/* Derivatives of expressions by bytes, and the table of transitions that remembers them. */
#include "base/check.h"
#include "grammar/regex_nodes.h"

static uint32_t derive_or(struct regex *r, const struct regex_node *x, uint32_t class) {
    uint32_t mark = r->n_stack;
    for (uint32_t i = 0; i < x->b && r->result == REGEX_OK; i++) {
        uint32_t member = regex_derive(r, r->members[x->a + i], class);
        if (member != REGEX_DEAD)
            regex_push(r, member);
    }
    return regex_take_or(r, mark);
}

static uint32_t derive_concat(struct regex *r, const struct regex_node *x, uint32_t class) {
    uint32_t first = regex_make_concat(r, regex_derive(r, x->a, class), x->b);
    if (!r->nodes[x->a].accepts)
        return first;
    uint32_t mark = r->n_stack;
    regex_push(r, first);
    uint32_t second = regex_derive(r, x->b, class);
    regex_push(r, second);
    return regex_take_or(r, mark);
}

static uint32_t derive_repeat(struct regex *r, const struct regex_node *x, uint32_t class) {
    uint32_t lo = x->lo == 0 ? 0 : x->lo - 1;
    uint32_t hi = x->hi == REGEX_FOREVER ? REGEX_FOREVER : x->hi - 1;
    uint32_t first = regex_derive(r, x->a, class);
    return first == REGEX_DEAD ? REGEX_DEAD : regex_make_concat(r, first, regex_make_repeat(r, x->a, lo, hi));
}

static uint32_t derive_and(struct regex *r, const struct regex_node *x, uint32_t class) {
    uint32_t a = regex_derive(r, x->a, class);
    return a == REGEX_DEAD ? REGEX_DEAD : regex_make_and(r, a, regex_derive(r, x->b, class));
}

static uint32_t derive_kind(struct regex *r, const struct regex_node *x, uint32_t class) {
    switch ((enum regex_kind)x->kind) {
    case REGEX_KIND_OR:
        return derive_or(r, x, class);
    case REGEX_KIND_CONCAT:
        return derive_concat(r, x, class);
    case REGEX_KIND_REPEAT:
        return derive_repeat(r, x, class);
    case REGEX_KIND_RULE:
        return regex_derive(r, r->rules[x->a].body, class);
    case REGEX_KIND_AND:
        return derive_and(r, x, class);
    case REGEX_KIND_NOT:
        return regex_make_not(r, regex_derive(r, x->a, class));
    default:
        break;
    }
    CHECK(!"a node that has a derivative");
    return REGEX_DEAD;
}

/* A node stays where it is while others are made. What is made while searching may match no text, so it is
 * not remembered. */
uint32_t regex_derive(struct regex *r, uint32_t node, uint32_t class) {
    const struct regex_node *x = &r->nodes[node];
    uint8_t byte = r->first_of[class];
    if (!regex_spend(r, 1) || x->kind == REGEX_KIND_NONE || x->kind == REGEX_KIND_EMPTY)
        return REGEX_DEAD;
    if (x->kind == REGEX_KIND_TEXT)
        return r->texts[x->a] == byte ? regex_make_tail(r, x) : REGEX_DEAD;
    if (x->kind == REGEX_KIND_BYTES)
        return r->sets[x->a].bits[byte / 64] >> byte % 64 & 1 ? REGEX_EMPTY : REGEX_DEAD;
    struct regex_memo *memo = &r->memo[(node * 0x9E3779B1u + class * 0x85EBCA6Bu) >> 7 & r->memo_mask];
    if (memo->node == node && memo->class_plus_1 == class + 1)
        return memo->derivative;
    if (r->depth == REGEX_MAX_DEPTH) {
        r->result = REGEX_DEPTH;
        return REGEX_DEAD;
    }
    r->depth++;
    uint32_t made = derive_kind(r, x, class);
    r->depth--;
    if (r->result == REGEX_OK && !(r->searching && x->boolean))
        *memo = (struct regex_memo){.node = node, .class_plus_1 = class + 1, .derivative = made};
    return made;
}

static void forget_rows(struct regex *r) {
    for (uint32_t i = 0; i < r->n_nodes; i++)
        r->nodes[i].row = 0;
    r->n_rows = 1;
}

static uint32_t *row_of(struct regex *r, uint32_t state) {
    struct regex_node *x = &r->nodes[state];
    if (x->row == 0) {
        if (r->n_rows == r->max_rows)
            forget_rows(r);
        x->row = r->n_rows++;
        for (uint32_t c = 0; c < r->n_classes; c++)
            r->cells[x->row * r->n_classes + c] = 0;
    }
    return r->cells + x->row * r->n_classes;
}

enum regex_result regex_step(struct regex *r, uint32_t state, uint8_t byte, uint32_t *next) {
    CHECK(state < r->n_nodes);
    uint32_t class = r->class_of[byte];
    uint32_t *cell = row_of(r, state) + class;
    if (*cell == 0) {
        uint32_t mark = r->n_stack;
        r->steps = 0;
        r->result = REGEX_OK;
        uint32_t made = regex_derive(r, state, class);
        r->n_stack = mark;
        if (r->result != REGEX_OK)
            return r->result;
        *cell = made + 1;
    }
    *next = *cell - 1;
    return REGEX_OK;
}

static bool stands_alone(const struct regex *r, uint32_t class) {
    uint32_t n = 0;
    for (uint32_t byte = 0; byte < 256; byte++)
        n += r->class_of[byte] == class;
    return n == 1;
}

enum regex_result regex_only_step(struct regex *r, uint32_t state, int *byte, uint32_t *next) {
    *byte = -1;
    if (regex_accepts(r, state))
        return REGEX_OK;
    int only = -1;
    for (uint32_t class = 0; class < r->n_classes; class ++) {
        uint32_t to = REGEX_DEAD;
        const enum regex_result result = regex_step(r, state, r->first_of[class], &to);
        if (result != REGEX_OK)
            return result;
        if (to == REGEX_DEAD)
            continue;
        if (only >= 0 || !stands_alone(r, class))
            return REGEX_OK;
        only = r->first_of[class];
        *next = to;
    }
    *byte = only;
    return REGEX_OK;
}

enum regex_result regex_matches(struct regex *r, const void *text, size_t length, bool *matches) {
    const uint8_t *bytes = text;
    uint32_t state = r->start;
    for (size_t i = 0; i < length && state != REGEX_DEAD; i++) {
        enum regex_result result = regex_step(r, state, bytes[i], &state);
        if (result == REGEX_FULL) {
            regex_collect(r, &state, 1);
            result = regex_step(r, state, bytes[i], &state);
        }
        if (result != REGEX_OK)
            return result;
    }
    *matches = regex_accepts(r, state);
    return REGEX_OK;
}
