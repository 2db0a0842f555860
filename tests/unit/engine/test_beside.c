/* Several engines in one process (options.beside): each is planned with what those before it leave, their
 * answers are those of each alone, and none counts another's memory as growth. */
#include "engine_harness.h"

#include "engine/engine.h"
#include "interpose.h"

#include <string.h>

#define DEMO "configs/demo.gguf"
/* The shadow memory of sanitizers grows as it likes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#define ROUNDS    3
#else
#define SANITIZED 0
#define ROUNDS    20
#endif

static const char *const chat[] = {"memory.context=256", "memory.batch=32", "cpu.threads=2",
                                   "memory.host_limit=400MiB", NULL};
static const char *const embed[] = {"memory.context=128",       "memory.batch=32",    "cpu.threads=2",
                                    "memory.host_limit=400MiB", "model.pooling=last", NULL};
static const int32_t prompt[] = {0, 658, 737, 260, 444};
#define N_PROMPT (sizeof prompt / sizeof prompt[0])

static stator *open_beside(const char *const *sets, stator *beside, const char *const *devices, size_t n) {
    size_t n_set = 0;
    while (sets[n_set] != NULL)
        n_set++;
    stator_options o = {.size = sizeof o,
                        .config = DEMO,
                        .set = sets,
                        .n_set = n_set,
                        .beside = beside,
                        .devices = devices,
                        .n_devices = n};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return s;
}

/* The budget and the total of a place of the plan. */
static uint64_t budget_of(const stator *s, const char *place, uint64_t *total) {
    uint64_t budget = 0;
    *total = 0;
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        assert_int_equal(stator_get_memory(s, i, &row, &have, NULL), STATOR_OK);
        if (!have)
            return budget;
        if (strcmp(row.place, place) != 0)
            continue;
        budget = row.budget;
        *total += row.planned;
    }
}

static void plans_what_is_left(void **state) {
    (void)state;
    uint64_t a = 0, b = 0, c = 0;
    stator *first = open_beside(chat, NULL, NULL, 0);
    stator *second = open_beside(embed, first, NULL, 0);
    stator_error e;
    assert_int_equal(stator_plan(second, &e), STATOR_USAGE); /* the first has no plan yet */
    assert_non_null(strstr(e.text, "options.beside has no plan"));
    assert_int_equal(stator_plan(first, &e), STATOR_OK);
    assert_int_equal(stator_plan(second, &e), STATOR_OK);
    stator *third = open_beside(embed, second, NULL, 0);
    assert_int_equal(stator_plan(third, &e), STATOR_OK);
    assert_int_equal(budget_of(first, "host", &a), 400 << 20);
    assert_int_equal(budget_of(second, "host", &b), (400 << 20) - a);
    assert_int_equal(budget_of(third, "host", &c), (400 << 20) - a - b);
    assert_true(a > 0 && b > 0 && c == b);
    stator_options o = {.size = sizeof o, .config = DEMO, .beside = first};
    stator *none = NULL;
    assert_int_equal(stator_open(&o, &none, &e), STATOR_USAGE); /* another one is beside it */
    assert_null(none);
    stator_close(second); /* from the middle of the row */
    stator_close(third);
    stator_close(first);
}

/* On one GPU: the reserve of each engine's driver is in its plan. */
static void shares_a_gpu(void **state) {
    (void)state;
    static const char *const sets[] = {"memory.driver_reserve=16MiB", "memory.context=256", NULL};
    static const char *const gpu[] = {"gpu0=64MiB"};
    uint64_t a = 0, b = 0;
    stator_error e;
    stator *first = open_beside(sets, NULL, gpu, 1);
    assert_int_equal(stator_plan(first, &e), STATOR_OK);
    stator *second = open_beside(sets, first, gpu, 1);
    assert_int_equal(stator_plan(second, &e), STATOR_OK);
    assert_int_equal(budget_of(first, "gpu0", &a), 64 << 20);
    assert_int_equal(budget_of(second, "gpu0", &b), (64 << 20) - a);
    assert_true(a > 16 << 20 && a == b);
    stator *third = open_beside(sets, second, gpu, 1);
    assert_int_equal(stator_plan(third, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(e.text, "gpu0"));
    stator_close(third);
    stator_close(second);
    stator_close(first);
}

/* What the first model takes is named where the second does not fit. */
static void names_what_is_taken(void **state) {
    (void)state;
    static const char *const sets[] = {"memory.host_limit=40MiB", "memory.context=256", "cpu.threads=2",
                                       NULL};
    stator_error e;
    stator *first = open_beside(sets, NULL, NULL, 0);
    assert_int_equal(stator_plan(first, &e), STATOR_OK);
    stator *second = open_beside(sets, first, NULL, 0);
    assert_int_equal(stator_plan(second, &e), STATOR_DOES_NOT_FIT);
    uint64_t a = 0, b = 0;
    char least[64];
    (void)budget_of(first, "host", &a);
    (void)budget_of(second, "host", &b);
    snprintf(least, sizeof least, "at least %llu bytes", (unsigned long long)(a + b));
    if (strstr(e.text, least) == NULL || strstr(e.text, "takes") == NULL)
        fail_msg("%s", e.text);
    stator_close(second);
    stator_close(first);
}

/* A driver has refused memory to the first, which has more on the host then than the second was planned with.
 */
static void grown_before_the_start(void **state) {
    (void)state;
    stator_error e;
    stator *first = open_beside(chat, NULL, NULL, 0);
    assert_int_equal(stator_plan(first, &e), STATOR_OK);
    stator *second = open_beside(embed, first, NULL, 0);
    assert_int_equal(stator_plan(second, &e), STATOR_OK);
    plan_find(&first->planning.plan, "host")->total += (uint64_t)390 << 20;
    assert_int_equal(stator_start(second, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(e.text, "does not fit any more: host needs"));
    plan_find(&first->planning.plan, "host")->total -= (uint64_t)390 << 20;
    assert_int_equal(stator_start(second, &e), STATOR_OK);
    stator_close(second);
    stator_close(first);
}

struct answer {
    struct harness_text text;
    float *vector; /* of the embedding */
    uint32_t width;
};

static void embed_text(stator *s, struct answer *a) {
    stator_info info = {.size = sizeof info};
    assert_int_equal(stator_get_info(s, &info, NULL), STATOR_OK);
    const stator_request q = {.size = sizeof q, .kind = STATOR_EMBED, .tokens = prompt, .n_tokens = N_PROMPT};
    uint64_t id = 0;
    stator_error e;
    if (stator_submit(s, &q, &id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    a->width = info.vector;
    a->vector = calloc(info.vector, sizeof(float));
    for (bool done = false; !done;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_VECTOR)
            memcpy(a->vector, ev.logits, info.vector * sizeof(float));
        done = have && ev.kind == STATOR_EVENT_DONE;
    }
}

static void generate(stator *s, struct answer *a) {
    a->text = (struct harness_text){.n = 0};
    a->text.id = harness_submit(s, prompt, N_PROMPT, 48, 0.9f, 7);
    harness_collect(s, &a->text, 1);
}

static void start(stator *s) {
    stator_error e;
    if (stator_start(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
}

static void no_growth(const stator *s) {
    stator_audit a = {.size = sizeof a};
    stator_error e;
    if (SANITIZED)
        return;
    if (stator_get_audit(s, &a, &e) != STATOR_OK || a.text[0] != '\0')
        fail_msg("%s", a.text);
    assert_true(a.grown < 1 << 20);
}

/* Both work at the same time; the bits are those of each alone. */
static void answers_are_each_ones_own(void **state) {
    (void)state;
    struct answer alone = {.vector = NULL}, of_embed = {.vector = NULL};
    stator *s = harness_start(DEMO, chat);
    generate(s, &alone);
    stator_close(s);
    s = harness_start(DEMO, embed);
    embed_text(s, &alone);
    stator_close(s);

    stator_error e;
    stator *first = open_beside(chat, NULL, NULL, 0);
    assert_int_equal(stator_plan(first, &e), STATOR_OK);
    stator *second = open_beside(embed, first, NULL, 0);
    interpose_reset(INTERPOSE_ABORT); /* no engine's thread allocates while the other one starts or works */
    start(first);
    start(second);
    stator_audit before = {.size = sizeof before}, after = {.size = sizeof after};
    assert_int_equal(stator_get_audit(first, &before, NULL), STATOR_OK);
    assert_true(before.beside > 1 << 20);
    for (int round = 0; round < ROUNDS; round++) {
        struct harness_text long_one = {.n = 0};
        long_one.id = harness_submit(first, prompt, N_PROMPT, 48, 0.9f, 7);
        embed_text(second, &of_embed); /* while the first generates */
        harness_collect(first, &long_one, 1);
        assert_int_equal(of_embed.width, alone.width);
        assert_memory_equal(of_embed.vector, alone.vector, alone.width * sizeof(float));
        assert_int_equal(long_one.n, alone.text.n);
        assert_memory_equal(long_one.ids, alone.text.ids, alone.text.n * sizeof alone.text.ids[0]);
        free(of_embed.vector);
    }
    assert_int_equal(interpose_violations(), 0);
    no_growth(first);
    no_growth(second);
    assert_int_equal(stator_get_audit(second, &after, NULL), STATOR_OK);
    assert_true(SANITIZED || after.kernel < before.kernel + (1 << 20));
    assert_int_equal(after.before, before.before);
    free(alone.vector);
    stator_close(second);
    stator_close(first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_what_is_left),        cmocka_unit_test(shares_a_gpu),
        cmocka_unit_test(names_what_is_taken),       cmocka_unit_test(grown_before_the_start),
        cmocka_unit_test(answers_are_each_ones_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
