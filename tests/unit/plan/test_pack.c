/* The packer: packings are valid (checked by other means than the packer's), as good as claimed, and
 * repeatable. */
#include "testing.h"

#include "base/clock.h"
#include "pack/pack.h"
#include "pack_instances.h"

#include <stdbool.h>

static void solve_with(struct pack_block *b, size_t n, const struct pack_options *o, struct pack_result *r,
                       stator_status expected) {
    uint64_t bytes = pack_work_bytes(n);
    void *work = aligned_alloc(64, bytes);
    assert_non_null(work);
    stator_error e = {0};
    stator_status st = pack_solve_with(b, n, o, work, bytes, r, &e);
    free(work);
    if (st != expected)
        fail_msg("pack_solve: %d instead of %d: %s", (int)st, (int)expected, e.text);
}

static void solve_into(struct pack_block *b, size_t n, struct pack_result *r, stator_status expected) {
    solve_with(b, n, NULL, r, expected);
}

struct event {
    uint64_t step;
    size_t block;
    bool begins;
};

/* In order of time; at one step ends come before begins. */
static int by_time(const void *x, const void *y) {
    const struct event *a = x, *b = y;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (int)a->begins - (int)b->begins;
}

static int by_offset(const void *x, const void *y) {
    const struct pack_block *a = *(const struct pack_block *const *)x,
                            *b = *(const struct pack_block *const *)y;
    return a->offset != b->offset ? (a->offset < b->offset ? -1 : 1) : 0;
}

static bool lives(const struct pack_block *b) {
    return b->bytes > 0 && b->first < b->end;
}

/* A sweep over time with the live blocks at hand; at each begin they are sorted by offset and must not
 * overlap. */
static void check(const struct pack_block *b, size_t n, const struct pack_result *r) {
    struct event *events = calloc(2 * n + 1, sizeof *events);
    const struct pack_block **live = calloc(n + 1, sizeof *live), **sorted = calloc(n + 1, sizeof *sorted);
    size_t n_events = 0, n_live = 0;
    uint64_t unit = UINT64_MAX, peak = 0, bound = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(b[i].offset % b[i].align, 0);
        if (!lives(&b[i])) {
            assert_int_equal(b[i].offset, 0);
            continue;
        }
        unit = b[i].align < unit ? b[i].align : unit;
        events[n_events++] = (struct event){b[i].first, i, true};
        events[n_events++] = (struct event){b[i].end, i, false};
    }
    qsort(events, n_events, sizeof *events, by_time);
    for (size_t k = 0; k < n_events; k++) {
        const struct pack_block *it = &b[events[k].block];
        if (!events[k].begins) {
            size_t i = 0;
            while (live[i] != it)
                i++;
            live[i] = live[--n_live];
            continue;
        }
        live[n_live++] = it;
        if (k + 1 < n_events && events[k + 1].begins && events[k + 1].step == events[k].step)
            continue; /* one look per step */
        memcpy(sorted, live, n_live * sizeof *sorted);
        qsort(sorted, n_live, sizeof *sorted, by_offset);
        uint64_t sum = 0;
        for (size_t i = 0; i < n_live; i++) {
            uint64_t rounded = (sorted[i]->bytes + unit - 1) / unit * unit;
            if (i > 0 && sorted[i - 1]->offset + sorted[i - 1]->bytes > sorted[i]->offset)
                fail_msg("blocks %zu and %zu overlap at step %llu", (size_t)(sorted[i - 1] - b),
                         (size_t)(sorted[i] - b), (unsigned long long)events[k].step);
            sum += rounded;
            if (sorted[i]->offset + rounded > peak)
                peak = sorted[i]->offset + rounded;
        }
        if (sum > bound)
            bound = sum;
    }
    assert_int_equal(r->peak, peak);
    assert_int_equal(r->lower_bound, bound);
    assert_true(r->peak >= r->lower_bound);
    if (r->peak == r->lower_bound)
        assert_true(r->optimal);
    free(events);
    free(live);
    free(sorted);
}

static struct pack_result solve(struct pack_block *b, size_t n) {
    struct pack_result r;
    for (size_t i = 0; i < n; i++)
        b[i].offset = UINT64_MAX;
    solve_into(b, n, &r, STATOR_OK);
    check(b, n, &r);
    return r;
}

static void corner_cases(void **state) {
    (void)state;
    struct pack_result r;
    solve_into(NULL, 0, &r, STATOR_OK);
    assert_int_equal(r.peak, 0);
    assert_int_equal(r.lower_bound, 0);
    assert_true(r.optimal);

    struct pack_block one[] = {{.bytes = 100, .align = 64, .first = 3, .end = 4}};
    r = solve(one, 1);
    assert_int_equal(r.peak, 128);
    assert_true(r.optimal);

    struct pack_block dead[] = {{.bytes = 0, .align = 64, .first = 0, .end = 9},
                                {.bytes = UINT64_MAX, .align = 64, .first = 4, .end = 4},
                                {.bytes = 50, .align = 1, .first = 5, .end = 4},
                                {.bytes = 7, .align = 1, .first = 0, .end = UINT32_MAX}};
    r = solve(dead, 4);
    assert_int_equal(r.peak, 7);

    struct pack_block touching[] = {{.bytes = 10, .align = 2, .first = 0, .end = 5},
                                    {.bytes = 10, .align = 2, .first = 5, .end = 6},
                                    {.bytes = 10, .align = 2, .first = UINT32_MAX - 1, .end = UINT32_MAX}};
    r = solve(touching, 3);
    assert_int_equal(r.peak, 10);

    struct pack_block equal[200];
    for (int i = 0; i < 200; i++)
        equal[i] = (struct pack_block){.bytes = 33, .align = 32, .first = 10, .end = 20};
    r = solve(equal, 200);
    assert_int_equal(r.peak, 200 * 64);

    /* 24 bytes aligned to 8 and two blocks aligned to 16: a hole of 8 is needed nowhere. */
    struct pack_block mixed[] = {{.bytes = 24, .align = 8, .first = 0, .end = 2},
                                 {.bytes = 16, .align = 16, .first = 0, .end = 2},
                                 {.bytes = 16, .align = 16, .first = 1, .end = 3}};
    r = solve(mixed, 3);
    assert_int_equal(r.peak, 56);
}

static void sums_too_large(void **state) {
    (void)state;
    struct pack_result r;
    struct pack_block b[8];
    for (uint32_t i = 0; i < 8; i++)
        b[i] = (struct pack_block){.bytes = 1ull << 60, .align = 64, .first = 0, .end = 2, .offset = 5};
    solve_into(b, 8, &r, STATOR_DOES_NOT_FIT);
    assert_int_equal(b[0].offset, 5);
    r = solve(b, 7);
    assert_int_equal(r.peak, 7ull << 60);
    b[0].bytes = UINT64_MAX;
    solve_into(b, 1, &r, STATOR_DOES_NOT_FIT);
    b[0].bytes = 1;
    b[0].align = 1ull << 63;
    solve_into(b, 1, &r, STATOR_DOES_NOT_FIT);
    b[0].align = 1ull << 61;
    b[1].align = 1ull << 60;
    r = solve(b, 3);
    assert_true(r.peak >= 1ull << 61);
}

static void random_instance(struct pack_block *b, size_t n, uint64_t *rng, bool one_align) {
    uint64_t steps = 1 + testing_below(rng, 2 * n + 2), longest = 1 + testing_below(rng, steps);
    uint64_t largest = 1ull << testing_below(rng, 40), shift = testing_below(rng, 9);
    for (size_t i = 0; i < n; i++) {
        b[i].bytes = testing_below(rng, largest + 1);
        b[i].align = 1ull << (one_align ? shift : testing_below(rng, shift + 1));
        b[i].first = (uint32_t)testing_below(rng, steps);
        b[i].end = b[i].first + (uint32_t)testing_below(rng, longest + 1);
    }
}

static void random_instances(void **state) {
    (void)state;
    uint64_t rng = testing_seed("random_instances"), reached = 0, optimal = 0, total = 3000;
    uint64_t uniform = 0; /* of the optimal ones: for these, the search can prove what is above the bound */
    for (uint64_t i = 0; i < total; i++) {
        struct pack_block b[40], again[40];
        size_t n = (size_t)testing_below(&rng, i % 10 == 0 ? 41 : 13);
        random_instance(b, n, &rng, i % 2 == 0);
        struct pack_result r = solve(b, n), r2;
        reached += r.peak == r.lower_bound;
        optimal += r.optimal;
        uniform += r.optimal && i % 2 == 0;
        assert_true(r.finished);
        if (i % 50 == 0) {
            memcpy(again, b, sizeof b);
            solve_into(again, n, &r2, STATOR_OK);
            assert_memory_equal(again, b, n * sizeof *b);
        }
    }
    print_message("# of %llu random instances %llu reach the bound, %llu are optimal\n",
                  (unsigned long long)total, (unsigned long long)reached, (unsigned long long)optimal);
    assert_int_equal(uniform, total / 2);
    assert_true(optimal * 100 >= total * 80);
}

/* All packings with offsets up to a limit, without any cleverness. */
static bool can_pack(struct pack_block *b, size_t n, size_t k, uint64_t limit) {
    if (k == n)
        return true;
    for (uint64_t at = 0; at + b[k].bytes <= limit; at += b[k].align) {
        bool clash = false;
        for (size_t i = 0; i < k && !clash; i++)
            clash = b[i].first < b[k].end && b[k].first < b[i].end && b[i].offset < at + b[k].bytes &&
                    at < b[i].offset + b[i].bytes;
        b[k].offset = at;
        if (!clash && can_pack(b, n, k + 1, limit))
            return true;
    }
    return false;
}

/* Few blocks are always decided, and as brute force says. With several alignments the search proves nothing.
 */
static void check_claim(struct pack_block *b, size_t n, bool uniform, uint64_t *gaps) {
    struct pack_result r = solve(b, n);
    assert_true(r.finished);
    assert_true(r.optimal || !uniform);
    assert_true(r.optimal == (r.proven == r.peak));
    *gaps += r.peak > r.lower_bound;
    if (r.optimal && r.peak > r.lower_bound)
        assert_false(can_pack(b, n, 0, r.peak - 1));
}

static int by_first(const void *x, const void *y) {
    const struct pack_block *a = x, *b = y;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : 0;
}

/* n random blocks, and one step long ones that fill every step up to the bound: often that is too tight. In
 * order of time, where brute force is quick. */
static size_t full_sections(struct pack_block *b, size_t n, uint64_t *rng) {
    enum { STEPS = 8 };
    uint64_t live[STEPS] = {0}, bound = 0;
    for (size_t k = 0; k < n; k++) {
        uint32_t x = (uint32_t)testing_below(rng, STEPS), y = (uint32_t)testing_below(rng, STEPS);
        b[k] = (struct pack_block){.bytes = 1 + testing_below(rng, 4),
                                   .align = 1,
                                   .first = x < y ? x : y,
                                   .end = (x < y ? y : x) + 1};
        for (uint32_t t = b[k].first; t < b[k].end; t++)
            live[t] += b[k].bytes;
    }
    for (uint32_t t = 0; t < STEPS; t++)
        bound = live[t] > bound ? live[t] : bound;
    for (uint32_t t = 0; t < STEPS; t++)
        if (live[t] < bound)
            b[n++] = (struct pack_block){.bytes = bound - live[t], .align = 1, .first = t, .end = t + 1};
    qsort(b, n, sizeof *b, by_first);
    return n;
}

static void claims_of_optimality_hold(void **state) {
    (void)state;
    uint64_t rng = testing_seed("claims_of_optimality_hold"), mixed = 0, uniform = 0;
    struct pack_block b[16];
    for (int i = 0; i < 150; i++) {
        size_t n = 3 + (size_t)testing_below(&rng, 5);
        uint64_t unit = UINT64_MAX;
        for (size_t k = 0; k < n; k++) {
            b[k].bytes = 1 + testing_below(&rng, 4);
            b[k].align = 1ull << testing_below(&rng, 2);
            b[k].first = (uint32_t)testing_below(&rng, 6);
            b[k].end = b[k].first + 1 + (uint32_t)testing_below(&rng, 4);
            unit = b[k].align < unit ? b[k].align : unit;
        }
        for (size_t k = 0; k < n; k++)
            b[k].bytes = (b[k].bytes + unit - 1) / unit * unit;
        check_claim(b, n, false, &mixed);
    }
    for (int i = 0; i < 150; i++)
        check_claim(b, full_sections(b, 5 + (size_t)testing_below(&rng, 4), &rng), true, &uniform);
    print_message("# peaks above the bound: %llu of 150 with two alignments, %llu of 150 with one\n",
                  (unsigned long long)mixed, (unsigned long long)uniform);
    assert_true(mixed > 0 && uniform > 0);
}

struct builder {
    struct pack_block b[4000];
    size_t n;
    uint32_t step;
};

/* A tensor that the present op writes and that is read for the last time `reads` ops later; 0: workspace. */
static size_t tensor(struct builder *g, uint64_t bytes, uint32_t reads) {
    g->b[g->n] =
        (struct pack_block){.bytes = bytes, .align = 64, .first = g->step, .end = g->step + reads + 1};
    return g->n++;
}

/* The ops of a transformer's step with random shapes: inputs and outputs live for one to three ops, the
 * residual for half a layer. */
static void transformer(struct builder *g, uint64_t *rng) {
    memset(g, 0, sizeof *g);
    uint64_t tokens = 1 + testing_below(rng, 512), embd = 64 * (1 + testing_below(rng, 64));
    uint64_t heads = embd * (1 + testing_below(rng, 2)), kv = embd / (1ull << testing_below(rng, 4));
    uint64_t ff = embd * (2 + testing_below(rng, 4)), layers = 1 + testing_below(rng, 40);
    bool in_place = testing_below(rng, 2) == 0, split_gate = testing_below(rng, 2) == 0;
    uint64_t workspace = testing_below(rng, 3) * 4096 * testing_below(rng, 100);
    tensor(g, tokens * embd * 4, 4); /* embed */
    size_t whole = 0;
    for (uint64_t l = 0; l < layers; l++) {
        g->step++;
        tensor(g, tokens * (embd + embd / 8), 1); /* norm, quantise */
        g->step++;
        tensor(g, tokens * heads * 4, 2); /* q, k, v */
        tensor(g, tokens * kv * 4, 1);
        tensor(g, tokens * kv * 4, 1);
        g->step++; /* rope, store: in place */
        g->step++;
        tensor(g, tokens * heads, 1); /* attention */
        tensor(g, workspace, 0);
        g->step++;
        if (!in_place) {
            g->b[whole].end = g->step + 1;
            whole = tensor(g, tokens * embd * 4, 4); /* output matmul with the residual */
        }
        g->step++;
        tensor(g, tokens * (embd + embd / 8), 1); /* norm, quantise */
        g->step++;
        tensor(g, tokens * ff * (split_gate ? 4 : 1), 1);
        if (split_gate) {
            tensor(g, tokens * ff * 4, 1);
            g->step++;
            tensor(g, tokens * (ff + ff / 8), 1);
        }
        g->step++;
        if (!in_place) {
            g->b[whole].end = g->step + 1;
            whole = tensor(g, tokens * embd * 4, 6);
        }
    }
    if (in_place)
        g->b[0].end = g->step + 2;
    g->step++;
    tensor(g, embd * 4, 1); /* norm of the wanted row, logits */
    g->step++;
    tensor(g, 4 * testing_below(rng, 150000), 1);
}

static void transformer_steps_reach_the_bound(void **state) {
    (void)state;
    uint64_t rng = testing_seed("transformer_steps_reach_the_bound"), slowest = 0;
    static struct builder g;
    size_t missed = 0, largest = 0;
    for (int i = 0; i < 300; i++) {
        transformer(&g, &rng);
        uint64_t t0 = clock_ns();
        struct pack_result r = solve(g.b, g.n);
        uint64_t t = clock_ns() - t0;
        slowest = t > slowest ? t : slowest;
        largest = g.n > largest ? g.n : largest;
        missed += r.peak != r.lower_bound;
    }
    print_message("# transformer steps: up to %zu blocks, slowest %.1f ms, %zu of 300 miss the bound\n",
                  largest, (double)slowest / 1e6, missed);
    assert_int_equal(missed, 0);
}

static void random_chains_reach_the_bound(void **state) {
    (void)state;
    uint64_t rng = testing_seed("random_chains_reach_the_bound");
    static struct builder g;
    size_t missed = 0;
    for (int i = 0; i < 300; i++) {
        memset(&g, 0, sizeof g);
        uint64_t ops = 2 + testing_below(&rng, 300);
        for (; g.step < ops; g.step++)
            for (uint64_t k = 0; k <= testing_below(&rng, 3); k++)
                tensor(&g, 1 + testing_below(&rng, 1u << 20), (uint32_t)testing_below(&rng, 3));
        struct pack_result r = solve(g.b, g.n);
        missed += r.peak != r.lower_bound;
    }
    print_message("# random chains: %zu of 300 miss the bound\n", missed);
    assert_true(missed <= 6);
}

static size_t read_csv(const char *path, struct pack_block *b, size_t most) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[256];
    size_t n = 0;
    assert_non_null(fgets(line, sizeof line, f));
    while (fgets(line, sizeof line, f) != NULL) {
        unsigned id;
        unsigned long first, end, bytes;
        assert_true(n < most);
        assert_int_equal(sscanf(line, "%u,%lu,%lu,%lu", &id, &first, &end, &bytes), 4);
        b[n++] =
            (struct pack_block){.bytes = bytes, .align = 1, .first = (uint32_t)first, .end = (uint32_t)end};
    }
    fclose(f);
    return n;
}

/* Known hard instances; all can be packed into 1,048,576. */
static void planner_instances(void **state) {
    (void)state;
    TESTING_NEED_SHARED("planner/A.1048576.csv");
    static struct pack_block b[1000], again[1000];
    for (int name = 'A'; name <= 'F'; name++) {
        char file[64];
        snprintf(file, sizeof file, "planner/%c.1048576.csv", name);
        size_t n = read_csv(testing_shared(file), b, 1000);
        struct pack_options o = {.capacity = 1048576, .steps = 100000000};
        struct pack_result r, r2;
        uint64_t t0 = clock_ns();
        solve_with(b, n, &o, &r, STATOR_OK);
        print_message("# %c: %zu blocks, peak %llu, bound %llu, %.0f ms\n", name, n,
                      (unsigned long long)r.peak, (unsigned long long)r.lower_bound,
                      (double)(clock_ns() - t0) / 1e6);
        check(b, n, &r);
        assert_true(r.peak <= 1048576);
        assert_true(r.finished);
        /* A deadline changes nothing when it is not met. */
        memcpy(again, b, sizeof b);
        o.steps = UINT64_MAX;
        o.deadline = clock_ns() + 1000000000000u;
        solve_with(again, n, &o, &r2, STATOR_OK);
        assert_memory_equal(again, b, n * sizeof *b);
        /* Without a capacity the bound is the goal; D stays above it. */
        r = solve(b, n);
        assert_true(name == 'D' ? r.peak <= 1048576 : r.optimal);
    }
}

/* A deadline in the past: greedy packings only, and no claims. */
static void deadline(void **state) {
    (void)state;
    TESTING_NEED_SHARED("planner/A.1048576.csv");
    static struct pack_block b[1000];
    size_t n = read_csv(testing_shared("planner/A.1048576.csv"), b, 1000);
    struct pack_options o = {.steps = UINT64_MAX, .deadline = 1};
    struct pack_result r;
    solve_with(b, n, &o, &r, STATOR_OK);
    check(b, n, &r);
    assert_false(r.optimal || r.finished);
}

static void many_blocks(void **state) {
    (void)state;
    uint64_t rng = testing_seed("many_blocks");
    static const struct {
        size_t n, steps, longest, aligns;
    } cases[] = {{1000, 1000, 64, 1},
                 {1000, 1000, 64, 9},
                 {4096, 4096, 64, 9},
                 {10000, 5000, 8, 1},
                 {8000, 1000, 1000, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        size_t n = cases[k].n;
        struct pack_block *b = calloc(n, sizeof *b);
        assert_non_null(b);
        for (size_t i = 0; i < n; i++) {
            b[i].bytes = 1 + testing_below(&rng, 1u << 20);
            b[i].align = 1ull << testing_below(&rng, cases[k].aligns);
            b[i].first = (uint32_t)testing_below(&rng, cases[k].steps);
            b[i].end = b[i].first + 1 + (uint32_t)testing_below(&rng, cases[k].longest);
        }
        uint64_t t0 = clock_ns();
        struct pack_result r = solve(b, n);
        print_message("# %zu blocks: %.2f%% above the bound, %.0f ms\n", n,
                      ((double)r.peak / (double)r.lower_bound - 1) * 100, (double)(clock_ns() - t0) / 1e6);
        assert_true((double)r.peak <= 1.03 * (double)r.lower_bound); /* few steps */
        free(b);
    }
}

/* How many times the bound a family's packing needs. twice: with the same result. */
static double pack_family(enum pack_family f, size_t n, uint64_t seed, uint64_t steps, bool twice) {
    struct pack_block *b = calloc(n, sizeof *b), *again = calloc(n, sizeof *again);
    assert_true(b != NULL && again != NULL);
    pack_family_fill(f, b, n, seed);
    memcpy(again, b, n * sizeof *b);
    struct pack_options o = {.steps = steps};
    struct pack_result r, r2;
    solve_with(b, n, &o, &r, STATOR_OK);
    if (n <= 1000)
        check(b, n, &r);
    assert_null(pack_instances_check(b, n, r.peak));
    assert_non_null(r.found_by);
    if (twice) {
        solve_with(again, n, &o, &r2, STATOR_OK);
        assert_memory_equal(again, b, n * sizeof *b);
    }
    double times = (double)r.peak / (double)r.lower_bound;
    print_message("# %s, %zu blocks: %.2f%% above the bound (%s)\n", pack_family_name(f), n,
                  (times - 1) * 100, r.found_by);
    free(b);
    free(again);
    return times;
}

/* Every family but cut-up rectangles, with two checkers and few steps. */
static void families(void **state) {
    (void)state;
    for (int f = 0; f < PACK_FAMILIES; f++)
        assert_true(pack_family((enum pack_family)f, 700, 5, 20000000, f % 4 == 0) <=
                    (f == PACK_TILING ? 1.25 : 1.05));
}

/* Those that need few steps for it; tools/bench_pack measures all. */
static void families_come_within_half_a_percent(void **state) {
    (void)state;
    static const struct {
        enum pack_family family;
        size_t n;
        uint64_t steps;
    } cases[] = {
        {PACK_SHORT, 10000, 30000000},    {PACK_HEAVY, 10000, 30000000},    {PACK_TRAINING, 10000, 100000000},
        {PACK_INVERSE, 10000, 100000000}, {PACK_MEDIUM, 1000, 100000000},   {PACK_CROWDED, 1000, 100000000},
        {PACK_BURSTS, 1000, 100000000},   {PACK_ALIGNED, 1000, 100000000},  {PACK_LOG, 1000, 100000000},
        {PACK_ZIPF, 1000, 100000000},     {PACK_TWO_LIVES, 1000, 100000000}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        assert_true(pack_family(cases[k].family, cases[k].n, 1, cases[k].steps, false) <= 1.005);
}

/* Solvers carve for the part, the work memory is for all: it must do for parts of any size. */
static void parts_of_any_size(void **state) {
    (void)state;
    enum { N = 2100 };
    static struct pack_block b[N];
    static const size_t sizes[] = {40, 512, 513, 1023, 1024, 1025, 1100, 1400, 2048, 2060};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        pack_family_fill(PACK_EXPONENTIAL, b, sizes[k], 3);
        pack_family_fill(PACK_EXPONENTIAL, b + sizes[k], N - sizes[k], 4);
        for (size_t i = sizes[k]; i < N; i++) {
            b[i].first += 10000;
            b[i].end += 10000;
        }
        struct pack_options o = {.steps = 20000000};
        struct pack_result r;
        solve_with(b, N, &o, &r, STATOR_OK);
        check(b, N, &r);
        assert_true((double)r.peak <= 1.08 * (double)r.lower_bound);
    }
}

/* A result is finished only if more steps give the same, also where blocks sink below the capacity at last.
 */
static void finished_is_the_same(void **state) {
    (void)state;
    enum { N = 700 };
    static struct pack_block b[N], again[N];
    unsigned unfinished = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        pack_family_fill(PACK_LONG_ALIGNED, b, N, seed);
        struct pack_result r, more;
        struct pack_options o = {.steps = 15000000};
        solve_with(b, N, &o, &r, STATOR_OK);
        for (int part = 0; part < 4; part++) { /* from what was reached to half a per cent above it */
            o = (struct pack_options){.steps = 15000000, .capacity = r.peak + r.peak / 800 * (uint64_t)part};
            struct pack_result first;
            solve_with(b, N, &o, &first, STATOR_OK);
            o.steps *= 2;
            memcpy(again, b, sizeof b);
            solve_with(again, N, &o, &more, STATOR_OK);
            if (first.finished)
                assert_memory_equal(again, b, sizeof b);
            unfinished += !first.finished && first.peak <= o.capacity;
        }
    }
    assert_true(unfinished > 0); /* or this shows nothing */
}

/* Stopped from outside, searches end soon with what they have. */
static void stop(void **state) {
    (void)state;
    enum { N = 1000 };
    static struct pack_block b[N];
    atomic_int stopped = 1;
    pack_family_fill(PACK_EXPONENTIAL, b, N, 4);
    struct pack_options o = {.steps = UINT64_MAX, .stop = &stopped};
    struct pack_result r;
    solve_with(b, N, &o, &r, STATOR_OK); /* without a stop it would not end */
    assert_null(pack_instances_check(b, N, r.peak));
    assert_false(r.finished);
}

/* The other checker finds what is wrong. */
static void checker_finds_faults(void **state) {
    (void)state;
    struct pack_block b[] = {{.bytes = 10, .align = 1, .first = 0, .end = 5, .offset = 0},
                             {.bytes = 10, .align = 2, .first = 4, .end = 9, .offset = 10},
                             {.bytes = 10, .align = 1, .first = 5, .end = 8, .offset = 0}};
    assert_null(pack_instances_check(b, 3, 20));
    assert_non_null(pack_instances_check(b, 3, 19));
    b[2].first = 4;
    assert_non_null(pack_instances_check(b, 3, 20));
    b[2].first = 5;
    b[1].offset = 9;
    assert_non_null(pack_instances_check(b, 3, 20));
}

/* Steps that are spent at once: still a packing, by the quickest way there is. */
static void spent_budget(void **state) {
    (void)state;
    enum { N = 20000 };
    static struct pack_block b[N];
    for (int f = PACK_LONG; f <= PACK_HEAVY; f++) {
        pack_family_fill((enum pack_family)f, b, N, 6);
        struct pack_options o = {.steps = 1};
        struct pack_result r;
        solve_with(b, N, &o, &r, STATOR_OK);
        assert_null(pack_instances_check(b, N, r.peak));
        assert_true(r.peak < 2 * r.lower_bound);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corner_cases),
        cmocka_unit_test(sums_too_large),
        cmocka_unit_test(random_instances),
        cmocka_unit_test(claims_of_optimality_hold),
        cmocka_unit_test(transformer_steps_reach_the_bound),
        cmocka_unit_test(random_chains_reach_the_bound),
        cmocka_unit_test(planner_instances),
        cmocka_unit_test(deadline),
        cmocka_unit_test(many_blocks),
        cmocka_unit_test(families),
        cmocka_unit_test(families_come_within_half_a_percent),
        cmocka_unit_test(parts_of_any_size),
        cmocka_unit_test(finished_is_the_same),
        cmocka_unit_test(stop),
        cmocka_unit_test(checker_finds_faults),
        cmocka_unit_test(spent_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
