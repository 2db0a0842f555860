/* Caches of made-up graphs: how many blocks a sequence has, and where layers lie in slices. */
#include "testing.h"

#include "device/device.h"

static void blocks(void **state) {
    (void)state;
    static const struct {
        enum graph_cache_kind kind;
        uint32_t window, context, batch, all, tokens, need;
    } cases[] = {
        {GRAPH_PAGED, 0, 1, 1, 1, 1, 1},
        {GRAPH_PAGED, 0, 33, 64, 2, 32, 1},
        {GRAPH_PAGED, 0, 1024, 64, 32, 1000, 32},
        /* round up (window + batch - 1) to 32, and 32 more; never more than the context. */
        {GRAPH_RING, 1, 1024, 1, 2, 1000, 2},
        {GRAPH_RING, 512, 4096, 64, 19, 4096, 19},
        {GRAPH_RING, 512, 4096, 65, 19, 33, 2},
        {GRAPH_RING, 512, 4096, 66, 20, 4096, 20},
        {GRAPH_RING, 512, 64, 64, 2, 64, 2},
        {GRAPH_RING, UINT32_MAX, 64, UINT32_MAX, 2, 1, 1},
        {GRAPH_STATE, 0, 4096, 64, 1, 4096, 1},
        {GRAPH_STATE, 0, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct graph_cache c = {.kind = cases[i].kind, .window = cases[i].window};
        assert_int_equal(graph_cache_blocks(&c, cases[i].context, cases[i].batch), cases[i].all);
        assert_int_equal(graph_cache_need(&c, cases[i].all, cases[i].tokens), cases[i].need);
    }
}

/* Two caches over interleaved layers, one with spilled layers: every part has slices of its own, kept ones
 * first, and no unit is left out. */
static void parts(void **state) {
    (void)state;
    struct graph g = {.n_caches = 3};
    struct device_model m = {.graph = &g};
    g.caches[0] = (struct graph_cache){.kind = GRAPH_PAGED, .units = 3, .n_layers = 4};
    g.caches[1] = (struct graph_cache){.kind = GRAPH_STATE, .units = 1, .n_layers = 5};
    g.caches[2] = (struct graph_cache){.kind = GRAPH_RING, .units = 2, .n_layers = 0};
    m.caches[0] = (struct device_cache){.units_per_slice = 4, .spilled_layers = 1};
    m.caches[1] = (struct device_cache){.units_per_slice = 2, .spilled_layers = 5};
    m.caches[2] = (struct device_cache){.units_per_slice = 1};
    static const struct device_cache_part want[2][3] = {{{0, 3, 9}, {3, 3, 0}, {3, 3, 0}},
                                                        {{3, 4, 3}, {4, 7, 5}, {7, 7, 0}}};
    for (uint32_t spilled = 0; spilled < 2; spilled++)
        for (uint32_t i = 0; i < 3; i++) {
            struct device_cache_part p = device_cache_part(&m, i, spilled);
            assert_memory_equal(&p, &want[spilled][i], sizeof p);
        }
    assert_int_equal(device_cache_slices(&m, false), 3);
    assert_int_equal(device_cache_slices(&m, true), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks), cmocka_unit_test(parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
