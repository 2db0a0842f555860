/* The packer's strategies, each alone, and the budget that they share. */
#include "testing.h"

#include "pack/pack_strategy.h"
#include "pack_instances.h"

#include <stdbool.h>

static uint64_t largest_live_sum(const struct pack_item *items, uint32_t n, uint32_t sections,
                                 uint64_t grain) {
    uint64_t *live = calloc(sections, sizeof *live), most = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = items[i].lo; k < items[i].hi; k++)
            live[k] += (items[i].size + grain - 1) / grain * grain;
    for (uint32_t k = 0; k < sections; k++)
        most = live[k] > most ? live[k] : most;
    free(live);
    return most;
}

/* Blocks with random lives in sections [0, sections), one on top of another: a packing, if a bad one. Returns
 * the bound. */
static uint64_t pile(struct pack_item *items, uint64_t *offsets, uint32_t n, uint32_t sections, uint32_t life,
                     uint64_t grain, uint64_t *rng) {
    uint64_t top = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t lo = (uint32_t)((uint64_t)i * sections / n);
        uint32_t hi = lo + 1 + (uint32_t)pack_instances_below(rng, life);
        hi = hi < sections ? hi : sections;
        uint64_t size = 1 + pack_instances_below(rng, 1 << 20);
        items[i] = (struct pack_item){.size = size, .align = grain, .lo = lo, .hi = hi, .length = hi - lo};
        offsets[i] = top;
        top += (size + grain - 1) / grain * grain;
    }
    return largest_live_sum(items, n, sections, grain);
}

/* What a strategy takes beyond its share is charged to the whole, and no more than there is. */
static void overspending_is_charged(void **state) {
    (void)state;
    struct pack_budget all = {.steps = 1000};
    struct pack_budget share = pack_budget_share(&all, 100);
    assert_int_equal(all.steps, 900);
    uint64_t steps = 60;
    assert_true(pack_budget_spend(&share, &steps));
    assert_int_equal(steps, 0);
    pack_budget_return(&all, &share);
    assert_int_equal(all.steps, 940);
    share = pack_budget_share(&all, 100);
    steps = 400;
    assert_false(pack_budget_spend(&share, &steps));
    pack_budget_return(&all, &share);
    assert_int_equal(all.steps, 540);
    share = pack_budget_share(&all, UINT64_MAX);
    steps = UINT64_MAX;
    assert_false(pack_budget_spend(&share, &steps));
    pack_budget_return(&all, &share);
    assert_int_equal(all.steps, 0);
    share = pack_budget_share(&all, 5);
    assert_int_equal(share.steps, 0);
}

static const struct pack_strategy strategies[] = {
    {"greedy", pack_greedy_can, pack_greedy_bytes, pack_greedy_run},
    {"skyline", pack_skyline_can, pack_skyline_bytes, pack_skyline_run},
    {"valley", pack_valley_can, pack_valley_bytes, pack_valley_run},
};

/* Each with few steps for a target that can't be reached: it ends soon, in memory of the size that it said,
 * with a packing that is no worse, and the same twice. */
static void strategies_keep_their_budget(void **state) {
    (void)state;
    enum { N = 1000 };
    static struct pack_item items[N];
    static uint64_t offsets[N], first[N];
    static struct pack_block b[N];
    static const uint32_t sizes[] = {1, 2, 17, 300, 512, N};
    uint64_t rng = 31;
    for (size_t c = 0; c < sizeof sizes / sizeof sizes[0]; c++)
        for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
            const uint32_t n = sizes[c];
            const struct pack_strategy *x = &strategies[k];
            uint64_t bound = pile(items, offsets, n, n, 1 + n / 10, 64, &rng), pile_peak = 0;
            for (uint32_t i = 0; i < n; i++)
                items[i].size = (items[i].size + 63) / 64 * 64;
            pile_peak = offsets[n - 1] + items[n - 1].size;
            memcpy(first, offsets, sizeof first);
            uint64_t bytes = x->bytes(n), peaks[2];
            void *work = aligned_alloc(64, (bytes + 127) / 64 * 64);
            assert_non_null(work);
            for (int again = 0; again < 2; again++) {
                memset(work, 0xA5 + again, bytes);
                memcpy(offsets, first, sizeof first);
                struct pack_part p = {.items = items,
                                      .n = n,
                                      .sections = n,
                                      .target = bound / 2,
                                      .offsets = offsets,
                                      .peak = pile_peak,
                                      .uniform = true,
                                      .max_align = 64};
                struct pack_budget budget = {.steps = 200000};
                if (x->can(&p))
                    x->run(&p, &budget, carve_in(work, bytes));
                assert_true(budget.overspent <= 4000000);
                assert_true(p.peak <= pile_peak && p.proven <= p.peak);
                for (uint32_t i = 0; i < n; i++)
                    b[i] = (struct pack_block){.bytes = items[i].size,
                                               .align = 64,
                                               .first = items[i].lo,
                                               .end = items[i].hi,
                                               .offset = offsets[i]};
                assert_null(pack_instances_check(b, n, p.peak));
                peaks[again] = p.peak;
            }
            assert_int_equal(peaks[0], peaks[1]);
            free(work);
        }
}

/* A pile on a grain sinks: no block rises, all lie where their own alignment lets them, on something. */
static void blocks_are_lowered(void **state) {
    (void)state;
    enum { N = 700, ALIGN = 4096 };
    static struct pack_item items[N];
    static uint64_t offsets[N], before[N];
    static struct pack_block b[N];
    uint64_t rng = 21;
    for (uint32_t n = 1; n <= N; n += n < 20 ? 1 : 137) {
        pile(items, offsets, n, n, 1 + n / 4, ALIGN, &rng);
        for (uint32_t i = 0; i < n; i++)
            items[i].align = 1ull << pack_instances_below(&rng, 13);
        memcpy(before, offsets, n * sizeof *before);
        struct pack_part p = {.items = items, .n = n, .sections = n, .offsets = offsets, .max_align = ALIGN};
        uint64_t bytes = pack_compact_bytes(n), peak = 0;
        void *work = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(work);
        memset(work, 0xA5, bytes);
        pack_compact(&p, carve_in(work, bytes));
        free(work);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t ground = 0;
            for (uint32_t k = 0; k < n; k++)
                if (before[k] < before[i] && pack_part_conflict(&items[k], &items[i]))
                    ground = ARITH_MAX(ground, offsets[k] + items[k].size);
            assert_true(offsets[i] <= before[i]);
            assert_int_equal(offsets[i], pack_part_align(ground, items[i].align));
            peak = ARITH_MAX(peak, offsets[i] + items[i].size);
            b[i] = (struct pack_block){.bytes = items[i].size,
                                       .align = items[i].align,
                                       .first = items[i].lo,
                                       .end = items[i].hi,
                                       .offset = offsets[i]};
        }
        assert_int_equal(p.peak, peak);
        assert_null(pack_instances_check(b, n, p.peak));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overspending_is_charged),
        cmocka_unit_test(strategies_keep_their_budget),
        cmocka_unit_test(blocks_are_lowered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
