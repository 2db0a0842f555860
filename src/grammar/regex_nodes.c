/* Nodes of expressions: equal ones are made once, and the simple identities hold, so that few states differ.
 */
#include "grammar/regex_nodes.h"

#include "base/arith.h"
#include "base/carve.h"

#include <string.h>

static struct regex *lay_out(struct carve *c, uint32_t nodes, struct regex *made) {
    struct regex *r = carve_take(c, 1, sizeof *r);
    made->max_nodes = nodes;
    made->max_members = 4 * nodes;
    made->max_stack = 2 * nodes;
    made->max_texts = 8 * nodes;
    made->max_rules = nodes / 4;
    made->index_mask = 2 * nodes - 1;
    made->memo_mask = nodes - 1;
    made->nodes = carve_take(c, nodes, sizeof *made->nodes);
    made->members = carve_take(c, made->max_members, sizeof *made->members);
    made->stack = carve_take(c, made->max_stack, sizeof *made->stack);
    made->texts = carve_take(c, made->max_texts, 1);
    made->rules = carve_take(c, made->max_rules, sizeof *made->rules);
    made->index = carve_take(c, 2 * (uint64_t)nodes, sizeof *made->index);
    made->memo = carve_take(c, nodes, sizeof *made->memo);
    made->cells = carve_take(c, 4 * (uint64_t)nodes, sizeof *made->cells);
    made->sets = carve_take(c, REGEX_MAX_SETS, sizeof *made->sets);
    return r;
}

uint64_t regex_bytes(uint32_t nodes) {
    CHECK(arith_is_pow2(nodes) && nodes >= REGEX_MIN_NODES && nodes <= REGEX_MAX_NODES);
    struct carve c = carve_count();
    struct regex made = {0};
    lay_out(&c, nodes, &made);
    return c.used;
}

struct regex *regex_lay_out(void *memory, uint32_t nodes) {
    uint64_t bytes = regex_bytes(nodes);
    struct carve c = carve_in(memory, bytes);
    struct regex made = {0};
    struct regex *r = lay_out(&c, nodes, &made);
    *r = made;
    memset(r->index, 0, (r->index_mask + (size_t)1) * sizeof *r->index);
    memset(r->memo, 0, (r->memo_mask + (size_t)1) * sizeof *r->memo);
    r->nodes[REGEX_DEAD] = (struct regex_node){.kind = REGEX_KIND_NONE};
    r->nodes[REGEX_EMPTY] = (struct regex_node){.kind = REGEX_KIND_EMPTY, .accepts = true};
    r->n_nodes = r->kept_nodes = 2;
    r->max_steps = 64 * (uint64_t)nodes;
    return r;
}

static void fail(struct regex *r, enum regex_result result) {
    if (r->result == REGEX_OK)
        r->result = result;
}

bool regex_spend(struct regex *r, uint64_t steps) {
    r->steps += steps;
    if (r->steps > r->max_steps)
        fail(r, REGEX_STEPS);
    return r->result == REGEX_OK;
}

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 29);
}

static uint64_t hash_node(const struct regex *r, const struct regex_node *n) {
    uint64_t h = mix(n->kind, n->b);
    if (n->kind == REGEX_KIND_TEXT) {
        for (uint32_t i = 0; i < n->b; i++)
            h = mix(h, r->texts[n->a + i]);
        return h;
    }
    h = mix(mix(h, n->lo), n->hi);
    if (n->kind != REGEX_KIND_OR)
        return mix(h, n->a);
    for (uint32_t i = 0; i < n->b; i++)
        h = mix(h, r->members[n->a + i]);
    return h;
}

static bool equal(const struct regex *r, const struct regex_node *x, const struct regex_node *y) {
    if (x->kind != y->kind || x->b != y->b || x->lo != y->lo || x->hi != y->hi)
        return false;
    if (x->kind == REGEX_KIND_TEXT)
        return x->a == y->a || memcmp(r->texts + x->a, r->texts + y->a, x->b) == 0;
    if (x->kind != REGEX_KIND_OR)
        return x->a == y->a;
    return memcmp(r->members + x->a, r->members + y->a, x->b * sizeof *r->members) == 0;
}

/* The place in the index of a node that equals n, or of the gap where it belongs. */
static uint32_t *find(struct regex *r, const struct regex_node *n) {
    uint32_t at = (uint32_t)hash_node(r, n) & r->index_mask;
    while (r->index[at] != 0 && !equal(r, &r->nodes[r->index[at]], n))
        at = (at + 1) & r->index_mask;
    return &r->index[at];
}

static uint32_t intern(struct regex *r, struct regex_node n) {
    if (!regex_spend(r, 1))
        return REGEX_DEAD;
    uint32_t *place = find(r, &n);
    if (*place != 0)
        return *place;
    if (r->n_nodes == r->max_nodes) {
        fail(r, REGEX_FULL);
        return REGEX_DEAD;
    }
    r->nodes[r->n_nodes] = n;
    *place = r->n_nodes;
    return r->n_nodes++;
}

static bool single(const struct regex_set *set, uint8_t *byte) {
    int n = 0;
    for (int i = 0; i < 4; i++) {
        n += __builtin_popcountll(set->bits[i]);
        if (set->bits[i] != 0)
            *byte = (uint8_t)(64 * i + __builtin_ctzll(set->bits[i]));
    }
    return n == 1;
}

uint32_t regex_make_bytes(struct regex *r, const struct regex_set *set) {
    uint8_t byte = 0;
    if ((set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3]) == 0)
        return REGEX_DEAD;
    if (single(set, &byte))
        return regex_make_text(r, &byte, 1);
    uint32_t i = 0;
    while (i < r->n_sets && memcmp(&r->sets[i], set, sizeof *set) != 0)
        i++;
    if (!regex_spend(r, 1 + i / 16))
        return REGEX_DEAD;
    if (i == REGEX_MAX_SETS) {
        fail(r, REGEX_FULL);
        return REGEX_DEAD;
    }
    if (i == r->n_sets)
        r->sets[r->n_sets++] = *set;
    return intern(r, (struct regex_node){.kind = REGEX_KIND_BYTES, .a = i});
}

uint32_t regex_make_text(struct regex *r, const void *bytes, uint32_t n) {
    CHECK(!r->sealed);
    if (n == 0)
        return REGEX_EMPTY;
    if (r->max_texts - r->n_texts < n) {
        fail(r, REGEX_FULL);
        return REGEX_DEAD;
    }
    memcpy(r->texts + r->n_texts, bytes, n);
    uint32_t before = r->n_nodes;
    uint32_t node = intern(r, (struct regex_node){.kind = REGEX_KIND_TEXT, .a = r->n_texts, .b = n});
    if (r->n_nodes > before)
        r->n_texts += n;
    regex_spend(r, n / 16);
    return node;
}

uint32_t regex_make_tail(struct regex *r, const struct regex_node *text) {
    if (text->b == 1)
        return REGEX_EMPTY;
    regex_spend(r, text->b / 16);
    return intern(r, (struct regex_node){.kind = REGEX_KIND_TEXT, .a = text->a + 1, .b = text->b - 1});
}

uint32_t regex_make_anchor(struct regex *r, enum regex_kind kind, uint32_t at) {
    CHECK(kind == REGEX_KIND_BEGIN || kind == REGEX_KIND_END);
    return intern(r, (struct regex_node){.kind = (uint8_t)kind, .anchored = true, .a = at});
}

/* a is no CONCAT. */
static uint32_t join(struct regex *r, uint32_t a, uint32_t b) {
    if (a == REGEX_DEAD || b == REGEX_DEAD)
        return REGEX_DEAD;
    if (a == REGEX_EMPTY || b == REGEX_EMPTY)
        return a == REGEX_EMPTY ? b : a;
    const struct regex_node *x = &r->nodes[a], *y = &r->nodes[b];
    return intern(r, (struct regex_node){.kind = REGEX_KIND_CONCAT,
                                         .accepts = x->accepts && y->accepts,
                                         .anchored = x->anchored || y->anchored,
                                         .boolean = x->boolean || y->boolean,
                                         .a = a,
                                         .b = b});
}

/* A list to the right, so that the rest of a text is one node however it was reached. */
uint32_t regex_make_concat(struct regex *r, uint32_t a, uint32_t b) {
    if (a == REGEX_DEAD || b == REGEX_DEAD)
        return REGEX_DEAD;
    if (b == REGEX_EMPTY)
        return a;
    uint32_t mark = r->n_stack;
    for (; r->nodes[a].kind == REGEX_KIND_CONCAT; a = r->nodes[a].b)
        regex_push(r, r->nodes[a].a);
    uint32_t made = join(r, a, b);
    while (r->n_stack > mark)
        made = join(r, r->stack[--r->n_stack], made);
    return made;
}

uint32_t regex_make_repeat(struct regex *r, uint32_t a, uint32_t lo, uint32_t hi) {
    CHECK(lo <= hi);
    const struct regex_node *x = &r->nodes[a];
    if (hi == 0 || a == REGEX_EMPTY)
        return REGEX_EMPTY;
    if (a == REGEX_DEAD)
        return lo == 0 ? REGEX_EMPTY : REGEX_DEAD;
    if (x->accepts)
        lo = 0; /* it can be repeated as the empty text */
    if ((hi == 1 && (lo == 1 || x->accepts)) ||
        (x->kind == REGEX_KIND_REPEAT && x->lo == 0 && x->hi == REGEX_FOREVER))
        return a;
    return intern(r, (struct regex_node){.kind = REGEX_KIND_REPEAT,
                                         .accepts = lo == 0,
                                         .anchored = x->anchored,
                                         .boolean = x->boolean,
                                         .a = a,
                                         .lo = lo,
                                         .hi = hi});
}

uint32_t regex_make_not(struct regex *r, uint32_t a) {
    const struct regex_node *x = &r->nodes[a];
    if (x->kind == REGEX_KIND_NOT)
        return x->a;
    return intern(
        r, (struct regex_node){.kind = REGEX_KIND_NOT, .accepts = !x->accepts, .boolean = true, .a = a});
}

static bool is_everything(const struct regex *r, uint32_t a) {
    return r->nodes[a].kind == REGEX_KIND_NOT && r->nodes[a].a == REGEX_DEAD;
}

uint32_t regex_make_and(struct regex *r, uint32_t a, uint32_t b) {
    if (a == REGEX_DEAD || b == REGEX_DEAD)
        return REGEX_DEAD;
    if (a == b || is_everything(r, b))
        return a;
    if (is_everything(r, a))
        return b;
    if (a == REGEX_EMPTY || b == REGEX_EMPTY)
        return r->nodes[a].accepts && r->nodes[b].accepts ? REGEX_EMPTY : REGEX_DEAD;
    uint32_t made = intern(r, (struct regex_node){.kind = REGEX_KIND_AND,
                                                  .accepts = r->nodes[a].accepts && r->nodes[b].accepts,
                                                  .boolean = true,
                                                  .a = ARITH_MIN(a, b),
                                                  .b = ARITH_MAX(a, b)});
    return !r->sealed || r->searching || regex_is_alive(r, made) ? made : REGEX_DEAD;
}

uint32_t regex_make_rule(struct regex *r, uint32_t *rule) {
    CHECK(!r->sealed);
    if (r->n_rules == r->max_rules) {
        fail(r, REGEX_FULL);
        return REGEX_DEAD;
    }
    *rule = r->n_rules;
    r->rules[r->n_rules] = (struct regex_rule){.body = REGEX_DEAD};
    return intern(r, (struct regex_node){.kind = REGEX_KIND_RULE, .boolean = true, .a = r->n_rules++});
}

void regex_set_rule(struct regex *r, uint32_t rule, uint32_t body) {
    if (r->result == REGEX_OK)
        r->rules[rule].body = body;
}

uint32_t regex_make_like(struct regex *r, const struct regex_node *n, uint32_t a, uint32_t b, uint32_t mark) {
    switch ((enum regex_kind)n->kind) {
    case REGEX_KIND_CONCAT:
        return regex_make_concat(r, a, b);
    case REGEX_KIND_OR:
        return regex_take_or(r, mark);
    case REGEX_KIND_REPEAT:
        return regex_make_repeat(r, a, n->lo, n->hi);
    case REGEX_KIND_AND:
        return regex_make_and(r, a, b);
    case REGEX_KIND_NOT:
        return regex_make_not(r, a);
    default:
        break;
    }
    CHECK(!"a node with parts");
    return REGEX_DEAD;
}

void regex_push(struct regex *r, uint32_t node) {
    if (r->n_stack == r->max_stack)
        fail(r, REGEX_FULL);
    else if (regex_spend(r, 1))
        r->stack[r->n_stack++] = node;
}

/* In place and without a call of libc, which may allocate. */
static void sort(uint32_t *v, uint32_t n) {
    for (uint32_t gap = n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            uint32_t x = v[i], at = i;
            for (; at >= gap && v[at - gap] > x; at -= gap)
                v[at] = v[at - gap];
            v[at] = x;
        }
}

/* Puts the members of alternatives in the place of these, so that no alternative is a member of another. */
static void flatten(struct regex *r, uint32_t mark) {
    uint32_t end = r->n_stack, kept = mark;
    for (uint32_t i = mark; i < end; i++) {
        const struct regex_node *n = &r->nodes[r->stack[i]];
        if (n->kind != REGEX_KIND_OR) {
            r->stack[kept++] = r->stack[i];
            continue;
        }
        for (uint32_t k = 0; k < n->b; k++)
            regex_push(r, r->members[n->a + k]);
    }
    memmove(r->stack + kept, r->stack + end, (r->n_stack - end) * sizeof *r->stack);
    r->n_stack -= end - kept;
}

static uint32_t intern_or(struct regex *r, const uint32_t *list, uint32_t n) {
    if (r->max_members - r->n_members < n) {
        fail(r, REGEX_FULL);
        return REGEX_DEAD;
    }
    struct regex_node made = {.kind = REGEX_KIND_OR, .a = r->n_members, .b = n};
    memcpy(r->members + r->n_members, list, n * sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        const struct regex_node *m = &r->nodes[list[i]];
        made.accepts |= m->accepts;
        made.anchored |= m->anchored;
        made.boolean |= m->boolean;
    }
    uint32_t before = r->n_nodes, node = intern(r, made);
    if (r->n_nodes > before)
        r->n_members += n;
    return node;
}

uint32_t regex_take_or(struct regex *r, uint32_t mark) {
    flatten(r, mark);
    uint32_t *list = r->stack + mark, n = r->n_stack - mark, kept = 0;
    bool accepts = false;
    sort(list, n);
    for (uint32_t i = 0; i < n; i++)
        accepts |= list[i] != REGEX_EMPTY && r->nodes[list[i]].accepts;
    for (uint32_t i = 0; i < n; i++)
        if (list[i] != REGEX_DEAD && !(list[i] == REGEX_EMPTY && accepts) &&
            (kept == 0 || list[kept - 1] != list[i]))
            list[kept++] = list[i];
    r->n_stack = mark;
    if (!regex_spend(r, 1 + n))
        return REGEX_DEAD;
    return kept == 0 ? REGEX_DEAD : kept == 1 ? list[0] : intern_or(r, list, kept);
}

/* Texts that follow each other become one. */
static void merge_texts(struct regex *r, uint32_t mark) {
    uint32_t kept = mark;
    for (uint32_t i = mark; i < r->n_stack;) {
        uint8_t bytes[256];
        uint32_t first = r->stack[i], n = 0, count = 0;
        for (; i < r->n_stack && r->nodes[r->stack[i]].kind == REGEX_KIND_TEXT &&
               r->nodes[r->stack[i]].b <= sizeof bytes - n;
             i++, count++) {
            memcpy(bytes + n, r->texts + r->nodes[r->stack[i]].a, r->nodes[r->stack[i]].b);
            n += r->nodes[r->stack[i]].b;
        }
        if (count == 0)
            i++;
        r->stack[kept++] = count <= 1 ? first : regex_make_text(r, bytes, n);
    }
    r->n_stack = kept;
}

uint32_t regex_take_concat(struct regex *r, uint32_t mark) {
    if (!r->sealed)
        merge_texts(r, mark);
    uint32_t node = REGEX_EMPTY;
    while (r->n_stack > mark) {
        uint32_t a = r->stack[--r->n_stack];
        node = regex_make_concat(r, a, node);
    }
    return node;
}

uint32_t regex_start(const struct regex *r) {
    return r->start;
}

bool regex_accepts(const struct regex *r, uint32_t state) {
    CHECK(state < r->n_nodes);
    return r->nodes[state].accepts;
}

uint32_t regex_nodes_planned(const struct regex *r) {
    return r->max_nodes;
}

uint32_t regex_nodes_used(const struct regex *r) {
    return r->n_nodes;
}

static void forget_transitions(struct regex *r) {
    for (uint32_t i = 0; i < r->n_nodes; i++)
        r->nodes[i].row = 0;
    r->n_rows = 1;
}

static bool has_b(const struct regex_node *x) {
    return x->kind == REGEX_KIND_CONCAT || x->kind == REGEX_KIND_AND;
}

static bool has_a(const struct regex_node *x) {
    return has_b(x) || x->kind == REGEX_KIND_REPEAT || x->kind == REGEX_KIND_NOT;
}

/* Nodes are made after what they consist of, so one pass downwards marks all, and moving them down in order
 * keeps the order of numbers, which alternatives are sorted by. */
static void mark_needed(struct regex *r, const uint32_t *states, size_t n) {
    for (uint32_t i = 0; i < r->n_nodes; i++)
        r->nodes[i].needed = i < r->kept_nodes;
    r->nodes[r->start].needed = r->nodes[r->plain_char].needed = true;
    for (uint32_t i = 0; i < r->n_rules; i++)
        r->nodes[r->rules[i].body].needed = true;
    for (size_t i = 0; i < n; i++) {
        CHECK(states[i] < r->n_nodes);
        r->nodes[states[i]].needed = true;
    }
    for (uint32_t i = r->n_nodes; i-- > 2;) {
        const struct regex_node *x = &r->nodes[i];
        if (!x->needed)
            continue;
        if (has_b(x))
            r->nodes[x->b].needed = true;
        if (has_a(x))
            r->nodes[x->a].needed = true;
        for (uint32_t k = 0; x->kind == REGEX_KIND_OR && k < x->b; k++)
            r->nodes[r->members[x->a + k]].needed = true;
    }
}

void regex_collect(struct regex *r, uint32_t *states, size_t n) {
    uint32_t *moved = r->stack; /* the new number of each node */
    CHECK(r->n_stack == 0 && r->max_stack >= r->n_nodes);
    r->collections++;
    forget_transitions(r);
    mark_needed(r, states, n);
    memset(r->index, 0, (r->index_mask + (size_t)1) * sizeof *r->index);
    memset(r->memo, 0, (r->memo_mask + (size_t)1) * sizeof *r->memo);
    uint32_t n_nodes = 0, n_members = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        struct regex_node x = r->nodes[i];
        if (!x.needed)
            continue;
        if (has_b(&x))
            x.b = moved[x.b];
        if (has_a(&x))
            x.a = moved[x.a];
        if (x.kind == REGEX_KIND_OR) {
            for (uint32_t k = 0; k < x.b; k++)
                r->members[n_members + k] = moved[r->members[x.a + k]];
            x.a = n_members;
            n_members += x.b;
        }
        moved[i] = n_nodes;
        r->nodes[n_nodes] = x;
        if (n_nodes >= 2)
            *find(r, &x) = n_nodes;
        n_nodes++;
    }
    r->n_nodes = n_nodes;
    r->n_members = n_members;
    r->start = moved[r->start];
    r->plain_char = moved[r->plain_char];
    for (uint32_t i = 0; i < r->n_rules; i++)
        r->rules[i].body = moved[r->rules[i].body];
    for (size_t i = 0; i < n; i++)
        states[i] = moved[states[i]];
    r->result = REGEX_OK;
}
