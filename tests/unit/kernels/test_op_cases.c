/* Every op of the table of op cases: each tier of the CPU against the scalar one, bit by bit, on threads that
 * share the work; and the table itself. */
#include "testing.h"

#include "app/selftest/op_run.h"
#include "kernels/kernels.h"

#define BIT(kind) (UINT64_C(1) << (kind))

static void each_tier(void **state) {
    (void)state;
    struct device_choice tiers[KERNELS_TIERS];
    const uint32_t n = (uint32_t)kernels_best_tier();
    stator_error e = {0};
    for (uint32_t t = 0; t < n; t++)
        if (op_run_cpu(kernels_tier_name((enum kernels_tier)(t + 1)), 3, &tiers[t], &e) != STATOR_OK)
            fail_msg("%s", e.text);
    for (uint32_t i = 0; i < op_cases_count(); i++) {
        char name[OP_CASES_NAME], difference[256];
        op_cases_name(i, name);
        if (op_run_compare(i, tiers, n, difference, &e) != STATOR_OK)
            fail_msg("%s: %s", name, e.text);
        if (difference[0] != '\0')
            fail_msg("%s: %s", name, difference);
    }
}

/* An indexer: texts cut into other steps. */
static void each_cut(void **state) {
    (void)state;
    static const uint32_t cuts[] = {1, 3, 29, 64, OP_CASES_BATCH};
    struct device_choice best;
    stator_error e = {0};
    if (op_run_cpu(kernels_tier_name(kernels_best_tier()), 2, &best, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    for (uint32_t i = 0; i < op_cases_count(); i++) {
        char name[OP_CASES_NAME], difference[256];
        uint64_t kinds = 0;
        op_cases_name(i, name);
        if (op_run_kinds(i, &kinds, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        for (size_t k = 0; (kinds & BIT(GRAPH_CHOOSE)) != 0 && k < sizeof cuts / sizeof cuts[0]; k++) {
            if (op_run_cut(i, &best, cuts[k], difference, &e) != STATOR_OK)
                fail_msg("%s: %s", name, e.text);
            if (difference[0] != '\0')
                fail_msg("%s, steps of %u tokens: %s", name, cuts[k], difference);
        }
    }
}

static void names_are_unique(void **state) {
    (void)state;
    for (uint32_t i = 0; i < op_cases_count(); i++)
        for (uint32_t k = 0; k < i; k++) {
            char a[OP_CASES_NAME], b[OP_CASES_NAME];
            op_cases_name(i, a);
            op_cases_name(k, b);
            assert_string_not_equal(a, b);
        }
}

/* But those of MTP heads and between devices, and that of rows of pictures (test_pictures_qwen): a new kind
 * of op needs a row. */
static void every_kind_has_a_case(void **state) {
    (void)state;
    uint64_t all = BIT(GRAPH_FEATURES) | BIT(GRAPH_PAIR) | BIT(GRAPH_KEEP) | BIT(GRAPH_LAND) |
                   BIT(GRAPH_SEND) | BIT(GRAPH_EXCHANGED);
    for (uint32_t i = 0; i < op_cases_count(); i++) {
        uint64_t kinds = 0;
        stator_error e = {0};
        if (op_run_kinds(i, &kinds, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        all |= kinds;
    }
    for (uint32_t k = 0; k < GRAPH_KINDS; k++)
        if ((all & BIT(k)) == 0)
            fail_msg("no case has an op '%s'", graph_kind_info((enum graph_kind)k)->name);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_unique),
                                       cmocka_unit_test(every_kind_has_a_case), cmocka_unit_test(each_tier),
                                       cmocka_unit_test(each_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
