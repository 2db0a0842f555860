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
    made->max_stack = 4 * nodes;
    made->index_mask = 2 * nodes - 1;
    made->memo_mask = nodes - 1;
    made->nodes = carve_take(c, nodes, sizeof *made->nodes);
    made->members = carve_take(c, made->max_members, sizeof *made->members);
    made->stack = carve_take(c, made->max_stack, sizeof *made->stack);
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
    memset(memory, 0, bytes);
    *r = made;
    r->nodes[REGEX_EMPTY] = (struct regex_node){.kind = REGEX_KIND_EMPTY, .accepts = true, .depth = 1};
    r->nodes[REGEX_DEAD].depth = 1;
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
    if (n.depth > REGEX_MAX_DEPTH)
        fail(r, REGEX_DEPTH);
    else if (r->n_nodes == r->max_nodes)
        fail(r, REGEX_FULL);
    if (r->result != REGEX_OK)
        return REGEX_DEAD;
    r->nodes[r->n_nodes] = n;
    *place = r->n_nodes;
    return r->n_nodes++;
}

uint32_t regex_make_bytes(struct regex *r, const struct regex_set *set) {
    if ((set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3]) == 0)
        return REGEX_DEAD;
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
    return intern(r, (struct regex_node){.kind = REGEX_KIND_BYTES, .a = i, .depth = 1});
}

uint32_t regex_make_anchor(struct regex *r, enum regex_kind kind) {
    CHECK(kind == REGEX_KIND_BEGIN || kind == REGEX_KIND_END);
    return intern(r, (struct regex_node){.kind = (uint8_t)kind, .anchored = true, .depth = 1});
}

uint32_t regex_make_concat(struct regex *r, uint32_t a, uint32_t b) {
    if (a == REGEX_DEAD || b == REGEX_DEAD)
        return REGEX_DEAD;
    if (a == REGEX_EMPTY || b == REGEX_EMPTY)
        return a == REGEX_EMPTY ? b : a;
    const struct regex_node *x = &r->nodes[a], *y = &r->nodes[b];
    uint32_t depth = x->accepts && y->depth > x->depth ? y->depth : x->depth;
    return intern(r, (struct regex_node){.kind = REGEX_KIND_CONCAT,
                                         .accepts = x->accepts && y->accepts,
                                         .anchored = x->anchored || y->anchored,
                                         .depth = depth + 1,
                                         .a = a,
                                         .b = b});
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
                                         .depth = x->depth + 1,
                                         .a = a,
                                         .lo = lo,
                                         .hi = hi});
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
    struct regex_node made = {.kind = REGEX_KIND_OR, .a = r->n_members, .b = n, .depth = 1};
    memcpy(r->members + r->n_members, list, n * sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        const struct regex_node *m = &r->nodes[list[i]];
        made.accepts |= m->accepts;
        made.anchored |= m->anchored;
        made.depth = ARITH_MAX(made.depth, m->depth + 1);
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

/* Balanced, so that the depth is the logarithm of the length. */
static uint32_t concat_range(struct regex *r, const uint32_t *list, uint32_t n) {
    if (n <= 1)
        return n == 0 ? REGEX_EMPTY : list[0];
    uint32_t a = concat_range(r, list, n / 2);
    return regex_make_concat(r, a, concat_range(r, list + n / 2, n - n / 2));
}

uint32_t regex_take_concat(struct regex *r, uint32_t mark) {
    uint32_t node = concat_range(r, r->stack + mark, r->n_stack - mark);
    r->n_stack = mark;
    return node;
}

static void find_classes(struct regex *r) {
    r->n_classes = 0;
    for (int byte = 0; byte < 256; byte++) {
        uint32_t c = 0;
        for (; c < r->n_classes; c++) {
            int other = r->first_of[c];
            uint32_t i = 0;
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

void regex_seal(struct regex *r, uint32_t start) {
    CHECK(r->result == REGEX_OK && !r->nodes[start].anchored);
    r->start = start;
    find_classes(r);
    r->max_rows = 4 * r->max_nodes / r->n_classes;
    r->n_rows = 1;
    CHECK(r->max_rows >= 2);
    r->kept_nodes = 2;
    r->kept_members = 0;
    regex_collect(r, NULL, 0);
    r->kept_nodes = r->n_nodes;
    r->kept_members = r->n_members;
}

uint32_t regex_start(const struct regex *r) {
    return r->start;
}

bool regex_accepts(const struct regex *r, uint32_t state) {
    CHECK(state < r->n_nodes);
    return r->nodes[state].accepts;
}

uint32_t regex_nodes_used(const struct regex *r) {
    return r->n_nodes;
}

static void forget_transitions(struct regex *r) {
    for (uint32_t i = 0; i < r->n_nodes; i++)
        r->nodes[i].row = 0;
    r->n_rows = 1;
}

/* Nodes are made after what they consist of, so one pass downwards marks all, and moving them down in order
 * keeps the order of numbers, which alternatives are sorted by. */
static void mark_needed(struct regex *r, const uint32_t *states, size_t n) {
    for (uint32_t i = 0; i < r->n_nodes; i++)
        r->nodes[i].needed = i < r->kept_nodes;
    r->nodes[r->start].needed = true;
    for (size_t i = 0; i < n; i++) {
        CHECK(states[i] < r->n_nodes);
        r->nodes[states[i]].needed = true;
    }
    for (uint32_t i = r->n_nodes; i-- > 2;) {
        const struct regex_node *x = &r->nodes[i];
        if (!x->needed)
            continue;
        if (x->kind == REGEX_KIND_CONCAT)
            r->nodes[x->a].needed = r->nodes[x->b].needed = true;
        else if (x->kind == REGEX_KIND_REPEAT)
            r->nodes[x->a].needed = true;
        for (uint32_t k = 0; x->kind == REGEX_KIND_OR && k < x->b; k++)
            r->nodes[r->members[x->a + k]].needed = true;
    }
}

void regex_collect(struct regex *r, uint32_t *states, size_t n) {
    uint32_t *moved = r->stack; /* the new number of each node */
    CHECK(r->n_stack == 0 && r->max_stack >= r->n_nodes);
    forget_transitions(r);
    mark_needed(r, states, n);
    memset(r->index, 0, (r->index_mask + (size_t)1) * sizeof *r->index);
    memset(r->memo, 0, (r->memo_mask + (size_t)1) * sizeof *r->memo);
    uint32_t n_nodes = 0, n_members = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        struct regex_node x = r->nodes[i];
        if (!x.needed)
            continue;
        if (x.kind == REGEX_KIND_CONCAT)
            x.b = moved[x.b];
        if (x.kind == REGEX_KIND_CONCAT || x.kind == REGEX_KIND_REPEAT)
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
    for (size_t i = 0; i < n; i++)
        states[i] = moved[states[i]];
    r->result = REGEX_OK;
}
