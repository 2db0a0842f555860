/* The queue of forced tokens, on answers made by hand. */
#include "testing.h"

#include "engine/sampling/forced.h"

static int32_t memory[STATOR_FORCED];
static const int32_t opens[] = {7, 8}, closes[] = {9}, queued[] = {100, 101, 9};

/* Plays an answer: `free_tokens` are the tokens that a sampler takes where nothing is forced. Compares with
 * `want`.
 */
static void play(const stator_budget *b, const int32_t *free_tokens, const int32_t *want, uint32_t n) {
    struct forced f = {.tokens = memory};
    int32_t answer[32];
    uint32_t used = 0;
    forced_set(&f, b);
    forced_begin(&f);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t next = forced_next(&f);
        assert_int_equal(forced_next(&f), next); /* asking changes nothing */
        answer[i] = next >= 0 ? next : free_tokens[used++];
        assert_int_equal(answer[i], want[i]);
        forced_took(&f, answer, i + 1);
    }
}

static stator_budget budget_of(uint32_t tokens, uint32_t begun) {
    return (stator_budget){.size = sizeof(stator_budget),
                           .tokens = tokens,
                           .begun = begun,
                           .open = opens,
                           .n_open = 2,
                           .close = closes,
                           .n_close = 1,
                           .queue = queued,
                           .n_queue = 3};
}

static void budgets(void **state) {
    (void)state;
    stator_budget b = budget_of(2, 1);
    play(NULL, (int32_t[]){7, 8, 1, 1}, (int32_t[]){7, 8, 1, 1}, 4);
    play(&b, (int32_t[]){1, 2, 3, 4}, (int32_t[]){1, 2, 100, 101, 9, 3, 4}, 7);
    play(&b, (int32_t[]){1, 9, 3, 4}, (int32_t[]){1, 9, 3, 4}, 4); /* it has ended by itself */
    /* It opens again, and has nothing left. */
    play(&b, (int32_t[]){1, 9, 7, 8, 3}, (int32_t[]){1, 9, 7, 8, 100, 101, 9, 3}, 8);
    b = budget_of(0, 1);
    play(&b, (int32_t[]){1, 2}, (int32_t[]){100, 101, 9, 1, 2}, 5);
    b = budget_of(1, 0);
    play(&b, (int32_t[]){8, 7, 8, 5, 6}, (int32_t[]){8, 7, 8, 5, 100, 101, 9, 6}, 8);
    b.n_open = 0; /* never opens */
    play(&b, (int32_t[]){7, 8, 5, 6, 7}, (int32_t[]){7, 8, 5, 6, 7}, 5);
    b = budget_of(2, 1);
    b.n_close = 0; /* never closes by itself */
    play(&b, (int32_t[]){9, 9, 9}, (int32_t[]){9, 9, 100, 101, 9, 9}, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
