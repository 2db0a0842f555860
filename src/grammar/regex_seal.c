/* From an expression under construction to one that is matched: which rules accept the empty text, which
 * match no text at all, which call themselves without end, and which bytes no part tells apart. */
#include "grammar/regex_nodes.h"

#include "base/check.h"

#include <string.h>

/* Whether the node has the property, given that of its parts. */
typedef bool property(const struct regex *r, const struct regex_node *x);

static bool accepts_now(const struct regex *r, const struct regex_node *x) {
    const struct regex_node *a = &r->nodes[x->a];
    bool any = false;
    switch ((enum regex_kind)x->kind) {
    case REGEX_KIND_CONCAT:
    case REGEX_KIND_AND:
        return a->accepts && r->nodes[x->b].accepts;
    case REGEX_KIND_OR:
        for (uint32_t i = 0; i < x->b; i++)
            any |= r->nodes[r->members[x->a + i]].accepts;
        return any;
    case REGEX_KIND_REPEAT:
        return x->lo == 0 || a->accepts;
    case REGEX_KIND_RULE:
        return r->nodes[r->rules[x->a].body].accepts;
    default:
        return x->accepts; /* NOT is never made of rules that accept the empty text: see find_accepting */
    }
}

/* Rules were taken as not accepting the empty text while nodes were made. What is below a NOT has no rules
 * that do, or the answer of the NOT would have to turn. */
static bool find_accepting(struct regex *r) {
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 2; i < r->n_nodes; i++) {
            struct regex_node *x = &r->nodes[i];
            if (!x->accepts && accepts_now(r, x))
                x->accepts = again = true;
        }
        if (!regex_spend(r, r->n_nodes / 16))
            return false;
    }
    for (uint32_t i = 2; i < r->n_nodes; i++)
        CHECK(r->nodes[i].kind != REGEX_KIND_NOT || r->nodes[i].accepts != r->nodes[r->nodes[i].a].accepts);
    return true;
}

enum { WHITE, GREY, BLACK };

static bool rule_recurs(struct regex *r, uint32_t rule, uint32_t depth, uint32_t *left);

/* Follows what can be at the beginning of a node. True: the rule *left comes back to itself there. */
static bool recurs(struct regex *r, uint32_t node, uint32_t depth, uint32_t *left) {
    const struct regex_node *x = &r->nodes[node];
    if (depth == REGEX_MAX_DEPTH || !regex_spend(r, 1)) {
        r->result = r->result == REGEX_OK ? REGEX_DEPTH : r->result;
        return false;
    }
    switch ((enum regex_kind)x->kind) {
    case REGEX_KIND_CONCAT:
        for (; r->nodes[node].kind == REGEX_KIND_CONCAT; node = r->nodes[node].b) {
            if (recurs(r, r->nodes[node].a, depth + 1, left))
                return true;
            if (!r->nodes[r->nodes[node].a].accepts)
                return false;
        }
        return recurs(r, node, depth + 1, left);
    case REGEX_KIND_OR:
        for (uint32_t i = 0; i < x->b; i++)
            if (recurs(r, r->members[x->a + i], depth + 1, left))
                return true;
        return false;
    case REGEX_KIND_AND:
        return recurs(r, x->a, depth + 1, left) || recurs(r, x->b, depth + 1, left);
    case REGEX_KIND_REPEAT:
    case REGEX_KIND_NOT:
        return recurs(r, x->a, depth + 1, left);
    case REGEX_KIND_RULE:
        break;
    default:
        return false;
    }
    return rule_recurs(r, x->a, depth + 1, left);
}

static bool rule_recurs(struct regex *r, uint32_t rule, uint32_t depth, uint32_t *left) {
    if (r->rules[rule].color == BLACK)
        return false;
    *left = rule;
    if (r->rules[rule].color == GREY)
        return true;
    r->rules[rule].color = GREY;
    if (recurs(r, r->rules[rule].body, depth, left))
        return true;
    r->rules[rule].color = BLACK;
    return false;
}

static void find_classes(struct regex *r) {
    bool alone[256] = {false}; /* bytes of texts */
    for (uint32_t i = 0; i < r->n_texts; i++)
        alone[r->texts[i]] = true;
    r->n_classes = 0;
    for (int byte = 0; byte < 256; byte++) {
        uint32_t c = alone[byte] ? r->n_classes : 0;
        for (; c < r->n_classes; c++) {
            int other = r->first_of[c];
            uint32_t i = alone[other] ? UINT32_MAX : 0;
            while (i < r->n_sets && (r->sets[i].bits[byte / 64] >> byte % 64 & 1) ==
                                        (r->sets[i].bits[other / 64] >> other % 64 & 1))
                i++;
            if (i == r->n_sets)
                break;
        }
        if (c == r->n_classes)
            r->first_of[r->n_classes++] = (uint8_t)byte;
        r->class_of[byte] = (uint8_t)c;
    }
}

static void finish_search(struct regex *r, uint32_t mark, enum regex_known answer) {
    for (uint32_t i = mark; i < r->n_stack; i += 2)
        if (r->nodes[r->stack[i]].alive == REGEX_ASKED)
            r->nodes[r->stack[i]].alive = answer;
    r->n_stack = mark;
    r->searching = false;
}

/* Breadth first over derivatives, until one accepts or is known to be alive. The list has pairs of a node and
 * the place of the node that it was derived from. */
bool regex_is_alive(struct regex *r, uint32_t node) {
    const struct regex_node *x = &r->nodes[node];
    if (x->alive == REGEX_YES || x->alive == REGEX_NO || !x->boolean || x->accepts)
        return node != REGEX_DEAD && x->alive != REGEX_NO;
    CHECK(!r->searching);
    r->searching = true;
    uint32_t mark = r->n_stack;
    regex_push(r, node);
    regex_push(r, mark);
    r->nodes[node].alive = REGEX_ASKED;
    for (uint32_t i = mark; i < r->n_stack && r->result == REGEX_OK; i += 2) {
        for (uint32_t class = 0; class < r->n_classes && r->result == REGEX_OK; class ++) {
            uint32_t d = regex_derive(r, r->stack[i], class);
            struct regex_node *y = &r->nodes[d];
            if (d == REGEX_DEAD || y->alive == REGEX_NO || y->alive == REGEX_ASKED || r->result != REGEX_OK)
                continue;
            if (!y->boolean || y->accepts || y->alive == REGEX_YES) {
                for (uint32_t at = i;; at = r->stack[at + 1]) {
                    r->nodes[r->stack[at]].alive = REGEX_YES;
                    if (at == mark)
                        break;
                }
                finish_search(r, mark, REGEX_UNKNOWN);
                return true;
            }
            y->alive = REGEX_ASKED;
            regex_push(r, d);
            regex_push(r, i);
            if (r->result != REGEX_OK)
                y->alive = REGEX_UNKNOWN;
        }
    }
    finish_search(r, mark, r->result == REGEX_OK ? REGEX_NO : REGEX_UNKNOWN);
    return false;
}

static bool productive_now(const struct regex *r, const struct regex_node *x) {
    bool any = false;
    switch ((enum regex_kind)x->kind) {
    case REGEX_KIND_NONE:
        return false;
    case REGEX_KIND_CONCAT:
        return r->nodes[x->a].needed && r->nodes[x->b].needed;
    case REGEX_KIND_OR:
        for (uint32_t i = 0; i < x->b; i++)
            any |= r->nodes[r->members[x->a + i]].needed;
        return any;
    case REGEX_KIND_REPEAT:
        return x->lo == 0 || r->nodes[x->a].needed;
    case REGEX_KIND_RULE:
        return r->nodes[r->rules[x->a].body].needed;
    case REGEX_KIND_AND:
        return x->alive != REGEX_NO;
    default:
        return true;
    }
}

/* Which nodes match some text, in `needed`. True: all do but node 0. */
static bool find_productive(struct regex *r) {
    for (uint32_t i = 0; i < r->n_nodes; i++)
        r->nodes[i].needed = false;
    for (bool again = true; again && regex_spend(r, r->n_nodes / 16);) {
        again = false;
        for (uint32_t i = 0; i < r->n_nodes; i++)
            if (!r->nodes[i].needed && productive_now(r, &r->nodes[i]))
                r->nodes[i].needed = again = true;
    }
    bool all = true;
    for (uint32_t i = 1; i < r->n_nodes; i++)
        all = all && r->nodes[i].needed;
    return all;
}

/* Makes all nodes again, without what matches no text. */
static void drop_unproductive(struct regex *r) {
    uint32_t n = r->n_nodes, moved_at = r->n_stack;
    for (uint32_t i = 0; i < n; i++)
        regex_push(r, i);
    for (uint32_t i = 2; i < n && r->result == REGEX_OK; i++) {
        struct regex_node x = r->nodes[i];
        const uint32_t *moved = r->stack + moved_at;
        uint32_t mark = r->n_stack, made = i;
        if (!x.needed)
            made = REGEX_DEAD;
        else if (x.kind == REGEX_KIND_OR) {
            for (uint32_t k = 0; k < x.b; k++)
                regex_push(r, moved[r->members[x.a + k]]);
            made = regex_make_like(r, &x, 0, 0, mark);
        } else if (x.kind == REGEX_KIND_CONCAT || x.kind == REGEX_KIND_AND)
            made = regex_make_like(r, &x, moved[x.a], moved[x.b], mark);
        else if (x.kind == REGEX_KIND_REPEAT || x.kind == REGEX_KIND_NOT)
            made = regex_make_like(r, &x, moved[x.a], 0, mark);
        r->stack[moved_at + i] = made;
    }
    if (r->result == REGEX_OK) {
        const uint32_t *moved = r->stack + moved_at;
        for (uint32_t i = 0; i < r->n_rules; i++)
            r->rules[i].body = moved[r->rules[i].body];
        r->start = moved[r->start];
        r->plain_char = moved[r->plain_char];
    }
    r->n_stack = moved_at;
}

bool regex_seal(struct regex *r, uint32_t start, uint32_t *left) {
    r->start = start;
    if (r->result != REGEX_OK || !find_accepting(r))
        return false;
    for (uint32_t i = 0; i < r->n_rules; i++)
        r->rules[i].color = WHITE;
    for (uint32_t i = 0; i < r->n_rules; i++)
        if (rule_recurs(r, i, 0, left))
            return false;
    if (r->result != REGEX_OK)
        return false;
    CHECK(!r->nodes[start].anchored);
    find_classes(r);
    r->max_rows = 4 * r->max_nodes / r->n_classes;
    r->n_rows = 1;
    CHECK(r->max_rows >= 2);
    r->kept_nodes = 2;
    r->kept_members = 0;
    regex_collect(r, NULL, 0);
    for (uint32_t i = 2, n = r->n_nodes; i < n && r->result == REGEX_OK; i++)
        if (r->nodes[i].kind == REGEX_KIND_AND)
            regex_is_alive(r, i);
    if (r->result == REGEX_OK && !find_productive(r))
        drop_unproductive(r);
    if (r->result != REGEX_OK)
        return false;
    regex_collect(r, NULL, 0);
    r->kept_nodes = r->n_nodes;
    r->kept_members = r->n_members;
    r->sealed = true;
    return true;
}
