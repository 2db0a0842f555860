/* A run stays inside its plan: the plan is what is allocated, every arena is used up to its planned end and
 * not beyond it, and a byte written outside a block is noticed. */
#include "testing.h"

#include "engine/start/enforce.h"

#include <sys/wait.h>

#define CONFIG  "configs/demo.cfg"
#define PATTERN 0x5C

struct heard {
    uint32_t errors;
    char text[256];
};

static void hear(void *context, stator_log_level level, const char *line) {
    struct heard *h = context;
    if (level != STATOR_LOG_ERROR)
        return;
    h->errors++;
    snprintf(h->text, sizeof h->text, "%s", line);
}

static stator *start(struct heard *h) {
    static const char *const set[] = {"memory.context=96", "memory.batch=64", "memory.sequences=1",
                                      "cpu.threads=2"};
    stator *s = NULL;
    stator_error e;
    stator_options o = {
        .size = sizeof o, .config = CONFIG, .set = set, .n_set = 4, .log = hear, .context = h};
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_start(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return s;
}

/* A request that fills batch and context. */
static void run_full(stator *s) {
    int32_t tokens[64];
    for (int i = 0; i < 64; i++)
        tokens[i] = 10 + i;
    stator_request r = {
        .size = sizeof r, .kind = STATOR_GENERATE, .tokens = tokens, .n_tokens = 64, .ignore_eos = 1};
    stator_error e;
    uint64_t id = 0;
    assert_int_equal(stator_submit(s, &r, &id, &e), STATOR_OK);
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, 1000000000, &ev, &have, &e), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_DONE) {
            assert_int_equal(ev.reason, STATOR_REASON_LENGTH);
            return;
        }
    }
}

static uint8_t *memory_of(stator *s, enum device_arena a) {
    return s->devices[0].device->vtable->map(s->devices[0].device, a, 0);
}

/* The end of the last block of an arena's slice 0. */
static uint64_t blocks_end(const stator *s, const char *arena) {
    const struct plan *p = &s->planning.plan;
    uint64_t end = 0;
    for (uint32_t i = 0; i < p->n_blocks; i++)
        if (p->blocks[i].place == 0 && strcmp(p->places[0].arenas[p->blocks[i].arena].name, arena) == 0)
            end = ARITH_MAX(end, p->blocks[i].offset + p->blocks[i].bytes);
    return end;
}

static void test_rows(void **state) {
    (void)state;
    struct heard h = {0};
    stator *s = start(&h);
    run_full(s);
    uint32_t rows = 0;
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        assert_int_equal(stator_get_memory(s, i, &row, &have, NULL), STATOR_OK);
        if (!have)
            break;
        assert_int_equal(row.allocated, row.planned);
        /* The rest of a slice's last page belongs to no block. */
        assert_in_range(row.used, row.lower_bound, row.planned);
        rows++;
    }
    assert_int_equal(rows, 7);
    stator_close(s);
    assert_int_equal(h.errors, 0);
}

/* Scratch and KV, filled with a pattern before the largest step: written to their planned end, and not a byte
 * further. */
static void test_high_water(void **state) {
    (void)state;
    struct heard h = {0};
    stator *s = start(&h);
    static const enum device_arena arenas[] = {DEVICE_SCRATCH, DEVICE_KV, DEVICE_EXCHANGE};
    static const char *const names[] = {"scratch", "kv", "exchange"};
    uint64_t end[3];
    for (int i = 0; i < 3; i++) {
        end[i] = blocks_end(s, names[i]);
        assert_true(end[i] > 0 && end[i] <= plan_arena_find(&s->planning.plan.places[0], names[i])->bytes);
        if (arenas[i] != DEVICE_EXCHANGE) /* whose header is written once, at the start */
            memset(memory_of(s, arenas[i]), PATTERN, end[i]);
        else
            memset(memory_of(s, arenas[i]) + end[i] - 64, PATTERN, 64);
    }
    run_full(s);
    for (int i = 0; i < 3; i++) {
        const uint8_t *memory = memory_of(s, arenas[i]);
        uint64_t last = end[i];
        while (last > 0 && memory[last - 1] == PATTERN)
            last--;
        assert_in_range(last, end[i] - 63, end[i]); /* blocks are whole lines of 64 bytes */
    }
    stator_close(s);
    assert_int_equal(h.errors, 0);
}

static void damage_and_close(enum device_arena a, const char *name, struct heard *h) {
    stator *s = start(h);
    struct plan_arena *arena = plan_arena_find(&s->planning.plan.places[0], name);
    uint64_t begin = 0;
    uint64_t end = 0;
    assert_true(enforce_gap(&s->planning.plan, 0, (uint32_t)(arena - s->planning.plan.places[0].arenas), 0, 0,
                            &begin, &end));
    assert_true(begin < end && end <= arena->slices[0]);
    run_full(s);
    memory_of(s, a)[end - 1] ^= 1;
    stator_close(s);
}

static void test_damage_is_noticed(void **state) {
    (void)state;
    static const enum device_arena arenas[] = {DEVICE_SCRATCH, DEVICE_EXCHANGE};
    static const char *const names[] = {"scratch", "exchange"};
    for (int i = 0; i < 2; i++) {
        struct heard h = {0};
#ifdef STATOR_DEBUG
        pid_t child = fork();
        if (child == 0) {
            if (freopen("/dev/null", "w", stderr) == NULL)
                _exit(0);
            damage_and_close(arenas[i], names[i], &h);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
#else
        damage_and_close(arenas[i], names[i], &h);
        assert_int_equal(h.errors, 1);
        assert_non_null(strstr(h.text, names[i]));
        assert_non_null(strstr(h.text, "no block of the plan"));
#endif
    }
}

static void test_gaps(void **state) {
    (void)state;
    struct plan_block blocks[] = {{.offset = 100, .bytes = 50, .first = 1, .end = 2},
                                  {.offset = 120, .bytes = 80, .first = 2, .end = 3},
                                  {.offset = 0, .bytes = 64},
                                  {.offset = 300, .bytes = 100, .slice = 1}};
    struct plan p;
    plan_init(&p);
    struct plan_place *place = plan_add_place(&p, "a", false, 1000);
    struct plan_arena *a = plan_add_arena(place, "x", 256, 0);
    plan_add_slice(place, a, 400);
    plan_add_slice(place, a, 10);
    p.blocks = blocks;
    p.n_blocks = 4;
    uint64_t begin = 0;
    uint64_t end = 0;
    assert_true(enforce_gap(&p, 0, 0, 0, 0, &begin, &end));
    assert_int_equal(begin, 64);
    assert_int_equal(end, 100);
    assert_true(enforce_gap(&p, 0, 0, 0, end, &begin, &end));
    assert_int_equal(begin, 200);
    assert_int_equal(end, 256);
    assert_false(enforce_gap(&p, 0, 0, 0, end, &begin, &end));
    assert_true(enforce_gap(&p, 0, 0, 1, 0, &begin, &end));
    assert_int_equal(end, 300);
    assert_false(enforce_gap(&p, 0, 0, 1, end, &begin, &end));
    assert_true(enforce_gap(&p, 0, 0, 2, 0, &begin, &end));
    assert_int_equal(end, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_high_water),
                                       cmocka_unit_test(test_damage_is_noticed), cmocka_unit_test(test_gaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
