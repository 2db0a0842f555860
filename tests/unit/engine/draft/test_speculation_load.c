/* Draft tokens by load: on the times of made-up steps the faster way is chosen, and chosen anew when they
 * change. */
#include "testing.h"

#include "engine/draft/speculation_load.h"

/* A device: a step takes `fixed` and `each` per token. Of `drafts` tokens behind a known one, `kept` are
 * accepted. */
struct device {
    uint64_t fixed, each;
    uint32_t sequences, drafts, kept;
};

/* Runs `steps` steps and returns how many had drafts. */
static uint32_t run(struct speculation_load *l, const struct device *d, uint32_t steps) {
    uint32_t with = 0;
    for (uint32_t i = 0; i < steps; i++) {
        const bool drafts = speculation_load_drafts(l);
        const uint64_t computed = d->sequences * (1 + (drafts ? d->drafts : 0));
        with += drafts;
        speculation_load_step(l, d->sequences * (1 + (drafts ? d->kept : 0)), d->fixed + d->each * computed);
    }
    return with;
}

static void chooses_the_faster_way(void **state) {
    (void)state;
    static const struct {
        struct device device;
        bool pays;
    } cases[] = {
        {{1000, 1, 2, 4, 2}, true},    /* reading the weights is all: tokens cost nothing */
        {{1000, 1, 8, 4, 0}, false},   /* drafts that are never right */
        {{0, 100, 8, 4, 2}, false},    /* every token costs its part: 3 of 5 are worth less than 1 of 1 */
        {{0, 100, 8, 4, 4}, true},     /* the same, and all are right */
        {{1000, 100, 2, 4, 2}, true},  /* 2000 ns for 6 tokens, 1200 ns for 2 */
        {{1000, 100, 16, 4, 2}, false} /* 9000 ns for 48 tokens, 2600 ns for 16 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct speculation_load l = {0};
        const uint32_t trials = 2 * SPECULATION_LOAD_TRIAL;
        assert_int_equal(run(&l, &cases[i].device, trials), SPECULATION_LOAD_TRIAL);
        const uint32_t kept = run(&l, &cases[i].device, SPECULATION_LOAD_KEPT);
        if (kept != (cases[i].pays ? SPECULATION_LOAD_KEPT : 0))
            fail_msg("case %zu: %u of %u steps with drafts", i, kept, SPECULATION_LOAD_KEPT);
    }
}

static void chooses_anew(void **state) {
    (void)state;
    const uint32_t period = 2 * SPECULATION_LOAD_TRIAL + SPECULATION_LOAD_KEPT;
    const struct device good = {1000, 1, 4, 4, 2}, bad = {1000, 100, 16, 4, 0};
    struct speculation_load l = {0};
    assert_int_equal(run(&l, &good, period), period - SPECULATION_LOAD_TRIAL);
    assert_int_equal(run(&l, &bad, period), SPECULATION_LOAD_TRIAL);
    assert_int_equal(run(&l, &good, period), period - SPECULATION_LOAD_TRIAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chooses_the_faster_way),
                                       cmocka_unit_test(chooses_anew)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
