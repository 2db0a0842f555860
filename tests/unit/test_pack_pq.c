/* memory/pack_pq: trees allow the orders that plain lists of orders do. */
#include "testing.h"

#include "pack/pack_pq.h"

#include <stdbool.h>

enum { LEAVES = 7, MOST = 5040 * 2, TOKENS = 2 * LEAVES + 8 };

/* Orders of leaves, a name (from 1) per byte, from the lowest on. */
struct orders {
    uint64_t at[MOST];
    size_t n;
    unsigned length;
};

static int by_value(const void *x, const void *y) {
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

static void sort(struct orders *o) {
    qsort(o->at, o->n, sizeof *o->at, by_value);
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++)
        if (i == 0 || o->at[i] != o->at[i - 1])
            o->at[n++] = o->at[i];
    o->n = n;
}

static void add(struct orders *o, uint64_t order) {
    assert_true(o->n < MOST);
    o->at[o->n++] = order;
}

struct rest { /* what is still to be written, as a stack of nodes */
    uint32_t node[TOKENS];
    size_t n;
};

/* All that a tree allows, appended to what is written. */
static void spell_rest(const struct pq_token *t, struct rest r, uint64_t text, unsigned length,
                       struct orders *out) {
    if (r.n == 0) {
        add(out, text);
        out->length = length;
        return;
    }
    uint32_t at = r.node[--r.n];
    if (pack_pq_is_leaf(&t[at])) {
        spell_rest(t, r, text | (uint64_t)t[at].name << 8 * length, length + 1, out);
        return;
    }
    uint32_t kids[TOKENS], n = 0;
    for (uint32_t c = at + 1; c < at + t[at].span; c += t[c].span)
        kids[n++] = c;
    assert_true(n >= 2);
    if (t[at].kind == PQ_Q) {
        struct rest forth = r, back = r;
        for (uint32_t k = 0; k < n; k++) {
            forth.node[forth.n++] = kids[n - 1 - k];
            back.node[back.n++] = kids[k];
        }
        spell_rest(t, forth, text, length, out);
        spell_rest(t, back, text, length, out);
        return;
    }
    uint32_t order[TOKENS], used[TOKENS] = {0};
    for (uint32_t depth = 0, next = 0;;) { /* all permutations */
        while (next < n && used[next])
            next++;
        if (depth == n) {
            struct rest all = r;
            for (uint32_t k = 0; k < n; k++)
                all.node[all.n++] = kids[order[k]];
            spell_rest(t, all, text, length, out);
        }
        if (next == n || depth == n) {
            if (depth == 0)
                return;
            next = order[--depth];
            used[next++] = 0;
            continue;
        }
        order[depth++] = next;
        used[next] = 1;
        next = 0;
    }
}

/* Orders in which the marked names lie side by side, with the others in their place, in any order. */
static void reduce(const struct orders *from, uint64_t marked, const uint32_t *put, uint32_t n_put,
                   struct orders *to) {
    to->n = 0;
    for (size_t i = 0; i < from->n; i++) {
        unsigned begin = 0, end = 0, count = 0;
        for (unsigned k = 0; k < from->length; k++)
            if (marked >> (from->at[i] >> 8 * k & 255) & 1) {
                begin = count++ == 0 ? k : begin;
                end = k + 1;
            }
        if (end - begin != count)
            continue;
        uint64_t low = from->at[i] & (((uint64_t)1 << 8 * begin) - 1), high = from->at[i] >> 8 * end;
        for (uint32_t turn = 0; turn < n_put; turn++) { /* one or two */
            uint64_t text = low;
            for (uint32_t k = 0; k < n_put; k++)
                text |= (uint64_t)put[(k + turn) % n_put] << 8 * (begin + k);
            add(to, text | high << 8 * (begin + n_put));
        }
        to->length = from->length - count + n_put;
    }
    sort(to);
}

static void trees_are_lists_of_orders(void **state) {
    (void)state;
    static struct orders now, next, tree_orders;
    static uint8_t memory[1 << 16] __attribute__((aligned(64)));
    struct carve c = carve_in(memory, sizeof memory);
    struct pq q = pack_pq_layout(&c, TOKENS);
    pack_pq_prepare(&q);
    struct pq_token room[2][TOKENS];
    uint64_t rng = testing_seed("trees_are_lists_of_orders"), reduced = 0, refused = 0;
    for (int round = 0; round < 300; round++) {
        struct pq_tree a = {room[0], 0}, b = {room[1], 0};
        a.at[a.n++] = (struct pq_token){.kind = PQ_P, .span = LEAVES + 1};
        for (uint32_t i = 1; i <= LEAVES; i++)
            a.at[a.n++] = (struct pq_token){.kind = PQ_HOLE, .name = i, .span = 1};
        uint32_t name = LEAVES + 1;
        now.n = 0;
        spell_rest(a.at, (struct rest){{0}, 1}, 0, 0, &now);
        assert_int_equal(now.n, 5040);
        for (int step = 0; step < 12; step++) {
            uint64_t marked = 0;
            uint32_t count = 0, n_put;
            for (uint32_t i = 0; i < a.n; i++) {
                q.mark[i] = pack_pq_is_leaf(&a.at[i]) && testing_below(&rng, 3) == 0;
                marked |= q.mark[i] ? (uint64_t)1 << a.at[i].name : 0;
                count += q.mark[i];
            }
            if (count == 0)
                continue;
            n_put = count == 1 || testing_below(&rng, 8) == 0 ? 1 : 2;
            struct pq_put put = {.n = n_put};
            uint32_t names[2] = {name, name + 1};
            for (uint32_t k = 0; k < n_put; k++)
                put.leaf[k] = (struct pq_token){.kind = PQ_HOLE, .name = name++, .span = 1};
            reduce(&now, marked, names, n_put, &next);
            double lost;
            bool ok = pack_pq_reduce(&q, &a, &put, &b, &lost);
            assert_int_equal(ok, next.n > 0);
            if (!ok) {
                refused++;
                continue;
            }
            reduced++;
            tree_orders.n = 0;
            spell_rest(b.at, (struct rest){{0}, 1}, 0, 0, &tree_orders);
            sort(&tree_orders);
            assert_int_equal(tree_orders.n, next.n);
            assert_memory_equal(tree_orders.at, next.at, next.n * sizeof *next.at);
            now = next;
            struct pq_tree swap = a;
            a = b;
            b = swap;
        }
    }
    print_message("# %llu reductions, %llu of sets that can't lie side by side\n",
                  (unsigned long long)reduced, (unsigned long long)refused);
    assert_true(reduced > 500 && refused > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(trees_are_lists_of_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
