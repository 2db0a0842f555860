/* memory/pack's solvers of parts, each alone. */
#include "testing.h"

#include "base/clock.h"
#include "pack/pack_part.h"
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

/* The search that lets blocks overlap, alone: from piles to good packings, whole and in windows (many blocks,
 * many pairs), on a grain, with lives longer than any window and sizes for which it is no use; the same
 * twice. */
static void overlaps_are_resolved(void **state) {
    (void)state;
    static const struct {
        uint32_t n, sections, life;
        uint64_t grain, unit, steps;
        double most; /* times the bound */
    } cases[] = {
        {16, 8, 4, 1, 1, 10000000, 1.1},          {300, 300, 40, 1, 1, 100000000, 1.02},
        {300, 300, 40, 4096, 1, 100000000, 1.02}, {1500, 1500, 8, 64, 1, 100000000, 1.02},
        {6000, 6000, 20, 1, 1, 400000000, 1.02},  {2000, 2000, 2000, 1, 1, 100000000, 2.5},
        {40, 20, 10, 1, 1ull << 36, 100000, 1.2}, {5000, 5000, 5000, 1, 1, 50000000, 4},
    };
    uint64_t rng = 11;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t n = cases[c].n;
        struct pack_item *items = calloc(n, sizeof *items);
        uint64_t *offsets = calloc(n, sizeof *offsets), *first = calloc(n, sizeof *first);
        struct pack_block *b = calloc(n, sizeof *b);
        uint64_t grain = cases[c].grain * cases[c].unit, pile_peak = 0;
        uint64_t bound = pile(items, offsets, n, cases[c].sections, cases[c].life, cases[c].grain, &rng);
        for (uint32_t i = 0; i < n; i++) {
            items[i].size *= cases[c].unit;
            offsets[i] *= cases[c].unit;
            pile_peak = offsets[i] + items[i].size; /* the last one's is the highest */
        }
        bound *= cases[c].unit;
        memcpy(first, offsets, n * sizeof *first);
        uint64_t bytes = pack_overlap_bytes(n);
        void *work = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(work);
        uint64_t peaks[2];
        for (int again = 0; again < 2; again++) {
            memset(work, 0xA5 + again, bytes);
            memcpy(offsets, first, n * sizeof *first);
            struct pack_part p = {.items = items,
                                  .n = n,
                                  .sections = cases[c].sections,
                                  .target = bound,
                                  .offsets = offsets,
                                  .peak = pile_peak,
                                  .proven = bound,
                                  .grain = grain};
            struct pack_budget budget = {.steps = cases[c].steps};
            pack_overlap(&p, &budget, carve_in(work, bytes));
            peaks[again] = p.peak;
            assert_true(budget.steps <= cases[c].steps);
            assert_true(p.peak <= pile_peak && p.peak >= bound / 100 * 99);
            assert_true((double)p.peak <= cases[c].most * (double)bound);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(offsets[i] % grain, 0);
                b[i] = (struct pack_block){.bytes = items[i].size,
                                           .align = 1,
                                           .first = items[i].lo,
                                           .end = items[i].hi,
                                           .offset = offsets[i]};
            }
            assert_null(pack_instances_check(b, n, p.peak));
        }
        assert_int_equal(peaks[0], peaks[1]);
        print_message("# %u blocks: %.3f of the bound\n", n, (double)peaks[0] / (double)bound);
        free(work);
        free(items);
        free(offsets);
        free(first);
        free(b);
    }
}

enum shape { TENTH_LASTS, PEAKS, THIRD_LASTS };

/* Blocks in the order of their begins: some live long, or all live up to 100 sections and grow large around
 * two of them. The last section cuts lives, but not their lengths. */
static uint64_t shaped(struct pack_item *items, uint32_t n, enum shape shape, uint64_t grain, uint64_t *rng) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t life = shape == PEAKS         ? 100
                        : shape == TENTH_LASTS ? (i % 10 == 0 ? n / 4 : 4)
                                               : (i % 3 == 0 ? n / 10 : 4);
        uint32_t hi = i + 1 + (uint32_t)pack_instances_below(rng, life);
        uint64_t size = 1 + pack_instances_below(rng, 1 << 20);
        if (shape == PEAKS && (i % (n / 2)) / 100 == n / 400)
            size *= 3;
        items[i] = (struct pack_item){
            .size = size, .align = grain, .lo = i, .hi = hi < n ? hi : n, .length = hi - i};
    }
    return largest_live_sum(items, n, n, grain);
}

static const char *check_part(const struct pack_part *p) {
    struct pack_block *b = calloc(p->n, sizeof *b);
    for (uint32_t i = 0; i < p->n; i++) {
        const struct pack_item *it = &p->items[i];
        b[i] = (struct pack_block){
            .bytes = it->size, .align = p->grain, .first = it->lo, .end = it->hi, .offset = p->offsets[i]};
    }
    const char *wrong = pack_instances_check(b, p->n, p->peak);
    free(b);
    return wrong;
}

/* What builds a packing of a large part anew. */
struct builder_of {
    const char *name;
    bool (*solve)(struct pack_part *p, struct pack_budget *budget, struct carve work);
    uint64_t (*bytes)(uint32_t n);
};
static const struct builder_of tiers = {"tiers", pack_tiers, pack_tiers_bytes};
static bool stream_all(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    return pack_race(p, UINT32_MAX, budget, work);
}
static const struct builder_of stream = {"stream", stream_all, pack_race_bytes};

static bool build(const struct builder_of *with, struct pack_part *p, struct pack_budget *budget, int fill) {
    uint64_t bytes = with->bytes(p->n);
    void *work = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(work);
    memset(work, fill, bytes);
    bool better = with->solve(p, budget, carve_in(work, bytes));
    free(work);
    return better;
}

/* Each alone: good ones of the parts that it is for, the same twice; none where steps do not do, and then all
 * is as it was. */
static void large_parts_are_built(void **state) {
    (void)state;
    enum { N = 9000 };
    static struct pack_item items[N];
    static uint64_t offsets[N], first[N];
    static const struct {
        const struct builder_of *with;
        enum shape shape;
        uint64_t few; /* steps that do not do */
    } cases[] = {{&tiers, TENTH_LASTS, 3000000},
                 {&tiers, THIRD_LASTS, 3000000},
                 {&stream, TENTH_LASTS, 1000000},
                 {&stream, THIRD_LASTS, 1000000},
                 {&stream, PEAKS, 1000000}};
    uint64_t rng = 12;
    for (size_t k = 0; k < 2 * sizeof cases / sizeof cases[0]; k++) {
        const struct builder_of *with = cases[k / 2].with;
        uint64_t grain = k % 2 == 0 ? 1 : 4096;
        struct pack_part p = {.items = items, .n = N, .sections = N, .offsets = offsets, .grain = grain};
        p.target = shaped(items, N, cases[k / 2].shape, grain, &rng);
        for (int again = 0; again < 3; again++) {
            memset(offsets, 0x5A, sizeof offsets);
            p.peak = 4 * p.target; /* of a packing that nobody looks at */
            p.attempts = p.races = 0;
            struct pack_budget budget = {.steps = again == 2 ? cases[k / 2].few : 400000000};
            bool better = build(with, &p, &budget, 0xA5 + again);
            if (again == 2) {
                assert_false(better);
                assert_int_equal(p.peak, 4 * p.target);
                assert_int_equal(offsets[N / 2], 0x5A5A5A5A5A5A5A5A);
                continue;
            }
            assert_true(better);
            assert_null(check_part(&p));
            print_message("# %s: %.4f of the bound\n", with->name, (double)p.peak / (double)p.target);
            assert_true((double)p.peak <= 1.1 * (double)p.target);
            if (again == 0)
                memcpy(first, offsets, sizeof first);
            assert_memory_equal(offsets, first, sizeof first);
        }
    }
}

/* A time limit comes with steps without end: a peak that can't be reached must not take them all. */
static void a_stream_ends(void **state) {
    (void)state;
    enum { N = 6000 };
    static struct pack_item items[N];
    static uint64_t offsets[N];
    uint64_t rng = 13;
    struct pack_part p = {.items = items, .n = N, .sections = N, .offsets = offsets, .grain = 1};
    uint64_t bound = shaped(items, N, PEAKS, 1, &rng);
    p.target = bound - bound / 200;
    p.peak = 4 * bound;
    struct pack_budget budget = {.steps = UINT64_MAX, .deadline = clock_ns() + 120000000000};
    assert_true(build(&stream, &p, &budget, 0xA5));
    assert_false(budget.expired);
    assert_null(check_part(&p));
}

/* What no window can move is given up: a block that lives longer than any, above all others. */
static void overlap_gives_up(void **state) {
    (void)state;
    enum { N = 6000 };
    static struct pack_item items[N];
    static uint64_t offsets[N];
    for (uint32_t i = 0; i < N; i++) {
        items[i] = (struct pack_item){.size = 50, .align = 1, .lo = i, .hi = i + 1, .length = 1};
        offsets[i] = 0;
    }
    items[0] = (struct pack_item){.size = 10, .align = 1, .lo = 0, .hi = N, .length = N};
    offsets[0] = 100;
    struct pack_part p = {
        .items = items, .n = N, .sections = N, .target = 60, .offsets = offsets, .peak = 110, .grain = 1};
    uint64_t bytes = pack_overlap_bytes(N);
    void *work = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(work);
    struct pack_budget budget = {.steps = 100000000};
    pack_overlap(&p, &budget, carve_in(work, bytes)); /* had gone on for good */
    free(work);
    assert_int_equal(p.peak, 110);
    assert_int_equal(offsets[0], 100);
}

/* A pile on a grain sinks: no block rises, all lie where their own alignment lets them, on something. */
static void blocks_sink(void **state) {
    (void)state;
    enum { N = 700, GRAIN = 4096 };
    static struct pack_item items[N];
    static uint64_t offsets[N], before[N];
    static struct pack_block b[N];
    uint64_t rng = 21;
    for (uint32_t n = 1; n <= N; n += n < 20 ? 1 : 137) {
        pile(items, offsets, n, n, 1 + n / 4, GRAIN, &rng);
        for (uint32_t i = 0; i < n; i++)
            items[i].align = 1ull << pack_instances_below(&rng, 13);
        memcpy(before, offsets, n * sizeof *before);
        struct pack_part p = {.items = items, .n = n, .sections = n, .offsets = offsets, .grain = GRAIN};
        uint64_t bytes = pack_sink_bytes(n), peak = 0;
        void *work = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(work);
        memset(work, 0xA5, bytes);
        pack_sink(&p, carve_in(work, bytes));
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
        cmocka_unit_test(overlaps_are_resolved), cmocka_unit_test(large_parts_are_built),
        cmocka_unit_test(a_stream_ends),         cmocka_unit_test(overlap_gives_up),
        cmocka_unit_test(blocks_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
