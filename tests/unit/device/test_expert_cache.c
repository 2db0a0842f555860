/* Which experts have slots (device/expert_cache.h), against a naive model: an expert's slot holds it alone,
 * the one that was not chosen for longest goes, copies are bounded and pause where they do not pay. */
#include "device/expert_cache.h"
#include "kernels/shared/experts.h"
#include "testing.h"

#define LAYERS  3u
#define EXPERTS 12u
#define USED    4u
#define N       5u

static struct graph_op ops[2 * LAYERS];
static struct graph graph;
static struct device_model model;

static void make_model(uint32_t n) {
    memset(ops, 0, sizeof ops);
    for (uint32_t i = 0; i < 2 * LAYERS; i++) {
        ops[i].kind = GRAPH_EXPERTS;
        ops[i].epilogue = i % 2 == 0 ? GRAPH_SWIGLU : GRAPH_RESIDUAL;
        ops[i].n_weights = i % 2 == 0 ? 2 : 1;
        ops[i].experts = (struct graph_experts){.experts = EXPERTS, .used = USED};
    }
    graph = (struct graph){.ops = ops, .n_ops = 2 * LAYERS};
    model =
        (struct device_model){.graph = &graph, .hosted = true, .cached = {.n = n, .slice_limit = 1 << 20}};
}

static struct expert_cache make_cache(uint32_t n) {
    static _Alignas(64) uint8_t memory[1 << 16];
    struct carve c = carve_in(memory, sizeof memory);
    struct expert_cache cache;
    make_model(n);
    expert_cache_lay_out(&cache, &c, &model);
    return cache;
}

/* A naive LRU: experts of a layer, the latest last. */
struct naive {
    uint32_t n, experts[N], wanted;
};

static void touch(struct naive *v, uint32_t expert) {
    uint32_t at = 0;
    while (at < v->n && v->experts[at] != expert)
        at++;
    if (at == v->n) {
        v->wanted = expert;
        return;
    }
    for (; at + 1 < v->n; at++)
        v->experts[at] = v->experts[at + 1];
    v->experts[at] = expert;
}

static void insert(struct naive *v, uint32_t expert) {
    if (v->n == N) {
        v->n--;
        memmove(v->experts, v->experts + 1, v->n * sizeof *v->experts);
    }
    v->experts[v->n++] = expert;
}

static void lru(void **state) {
    (void)state;
    struct expert_cache c = make_cache(N);
    struct naive naive[LAYERS] = {{0}};
    static uint32_t table[LAYERS * 64];
    uint64_t random = 7, copies = 0, hits = 0;
    assert_true(c.table.layers == LAYERS && c.table.experts == EXPERTS && c.table.stride <= 64);
    for (uint32_t step = 0; step < 20000; step++) {
        const uint32_t copied = expert_cache_plan(&c, 0, LAYERS, 2, table);
        uint32_t told = 0;
        for (uint32_t l = 0; l < LAYERS; l++) {
            uint32_t *map = table + l * c.table.stride, held = 0, chosen[USED];
            for (uint32_t e = 0; e < EXPERTS; e++) {
                held += map[e] != EXPERTS_FAR;
                bool has = false;
                for (uint32_t i = 0; i < naive[l].n; i++)
                    has = has || naive[l].experts[i] == e;
                assert_int_equal(has, map[e] != EXPERTS_FAR);
                for (uint32_t o = 0; o < e && map[e] != EXPERTS_FAR; o++)
                    assert_int_not_equal(map[o], map[e]);
                assert_true(map[e] == EXPERTS_FAR || map[e] < N);
            }
            assert_int_equal(held, naive[l].n);
            const uint32_t *list = map + c.table.copies;
            assert_true(list[0] <= 1);
            for (uint32_t i = 0; i < list[0]; i++) {
                assert_int_equal(map[list[1]], EXPERTS_FAR); /* it counts from the next step on */
                assert_int_equal(list[1], naive[l].wanted);
                insert(&naive[l], list[1]);
            }
            told += list[0];
            const uint32_t few = step < 10000 ? 6 : EXPERTS; /* most of few have slots */
            const uint32_t first = (uint32_t)testing_below(&random, few);
            for (uint32_t i = 0; i < USED; i++)
                chosen[i] = (first + i) % few;
            uint32_t expected = 0;
            for (uint32_t i = 0; i < USED; i++) {
                expected += map[chosen[i]] != EXPERTS_FAR;
                touch(&naive[l], chosen[i]);
            }
            const uint32_t got = expert_cache_saw(&c, l, chosen, USED, map);
            assert_int_equal(got, expected);
            hits += got;
        }
        assert_true(told == copied && copied <= 2);
        copies += copied;
    }
    assert_true(hits > 2 * copies && copies > 1000);
}

/* Every step chooses others: copies never pay. */
static void pauses(void **state) {
    (void)state;
    struct expert_cache c = make_cache(1);
    static uint32_t table[LAYERS * 64];
    uint64_t copies = 0;
    for (uint32_t step = 0; step < 10000; step++) {
        copies += expert_cache_plan(&c, 0, LAYERS, LAYERS, table);
        for (uint32_t l = 0; l < LAYERS; l++)
            (void)expert_cache_saw(&c, l, &(uint32_t){step % EXPERTS}, 1, table + l * c.table.stride);
    }
    assert_true(copies > 500 && copies < 2000);
}

/* A step with some of the layers copies only in these. */
static void some_layers(void **state) {
    (void)state;
    struct expert_cache c = make_cache(N);
    static uint32_t table[LAYERS * 64];
    (void)expert_cache_plan(&c, 0, LAYERS, 3, table);
    for (uint32_t l = 0; l < LAYERS; l++)
        (void)expert_cache_saw(&c, l, &(uint32_t){3}, 1, table + l * c.table.stride);
    assert_int_equal(expert_cache_plan(&c, 1, 1, 3, table), 1);
    assert_int_equal(table[1 * c.table.stride + c.table.copies], 1);
    assert_int_equal(expert_cache_plan(&c, 0, LAYERS, 3, table), 2);
    assert_true(table[1 * c.table.stride + 3] == 0 && table[3] == EXPERTS_FAR);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lru), cmocka_unit_test(pauses),
                                       cmocka_unit_test(some_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
