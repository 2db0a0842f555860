/* The parts of the API for benchmarks: a prompt's depth, laps, the time of a step, the least work of a
 * step. */
#include "engine_harness.h"
#include "stator_bench.h"
#include "tiny_model.h"

#define DEMO   "configs/demo.gguf"
#define N_IDS  40
#define N_NEW  5
#define N_LAPS 3

static const char *const small[] = {"memory.context=128", "memory.batch=32", "memory.sequences=2",
                                    "cpu.threads=2", NULL};

static void fill(int32_t *ids) {
    for (int i = 0; i < N_IDS; i++)
        ids[i] = 300 + i * 7;
}

static stator_request request_of(const int32_t *ids) {
    return (stator_request){.size = sizeof(stator_request),
                            .kind = STATOR_GENERATE,
                            .tokens = ids,
                            .n_tokens = N_IDS,
                            .max_new = N_NEW,
                            .ignore_eos = 1,
                            .sampling = {.has = STATOR_HAS_TEMPERATURE}};
}

static stator_event next(stator *s) {
    stator_event ev = {.size = sizeof ev};
    int have = 0;
    while (!have)
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
    return ev;
}

static uint64_t submits(const stator *s) {
    char text[16384];
    size_t n = 0;
    assert_int_equal(stator_report_json(s, text, sizeof text, &n, NULL), STATOR_OK);
    const char *at = strstr(text, "\"submits\": ");
    assert_non_null(at);
    return strtoull(at + strlen("\"submits\": "), NULL, 10);
}

/* Every lap says the tokens of a plain request, and its own figures. */
static void laps_repeat(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    fill(ids);
    stator *s = harness_start(DEMO, small);
    struct harness_text plain = {.id = harness_submit(s, ids, N_IDS, N_NEW, 0, 0)};
    harness_collect(s, &plain, 1);
    assert_int_equal(plain.n, N_NEW);
    stator_request q = request_of(ids);
    stator_bench b = {.size = sizeof b, .n_depth = 33, .laps = N_LAPS};
    uint64_t id = 0;
    assert_int_equal(stator_bench_submit(s, &q, &b, &id, NULL), STATOR_OK);
    uint64_t before = 0;
    for (int lap = 0; lap < N_LAPS; lap++) {
        for (int i = 0; i < N_NEW; i++) {
            stator_event ev = next(s);
            assert_int_equal(ev.kind, STATOR_EVENT_TOKEN);
            assert_int_equal(ev.token, plain.ids[i]);
            assert_int_equal(ev.position, N_IDS + i);
            assert_true(ev.time_ns > before);
            before = ev.time_ns;
        }
        stator_event ev = next(s);
        assert_int_equal(ev.kind, lap + 1 < N_LAPS ? STATOR_EVENT_LAP : STATOR_EVENT_DONE);
        assert_int_equal(ev.reason, STATOR_REASON_LENGTH);
        assert_int_equal(ev.n_prompt, N_IDS - 33);
        assert_int_equal(ev.n_generated, N_NEW);
        assert_true(ev.prompt_ns > 0 && ev.generate_ns > 0);
    }
    stator_close(s);
}

/* A depth ends a step; each lap goes on from it and not from the beginning. */
static void steps_counted(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    fill(ids);
    stator *s = harness_start(DEMO, small);
    static const struct {
        uint32_t depth, laps, steps;
    } cases[] = {{0, 1, 2 + N_NEW - 1},  /* 32 + 8 */
                 {10, 1, 2 + N_NEW - 1}, /* 10 + 30 */
                 {4, 1, 3 + N_NEW - 1},  /* 4 + 32 + 4 */
                 {33, 1, 3 + N_NEW - 1}, /* 32 + 1 + 7 */
                 {33, 4, 2 + 4 * (1 + N_NEW - 1)},
                 {0, 2, 2 * (2 + N_NEW - 1)}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t begin = submits(s);
        stator_request q = request_of(ids);
        stator_bench b = {.size = sizeof b, .n_depth = cases[i].depth, .laps = cases[i].laps};
        uint64_t id = 0;
        assert_int_equal(stator_bench_submit(s, &q, &b, &id, NULL), STATOR_OK);
        while (next(s).kind != STATOR_EVENT_DONE)
            ;
        assert_int_equal(submits(s) - begin, cases[i].steps);
    }
    stator_close(s);
}

/* A neighbour that runs beside laps says what it says alone; tokens of one step have one time. Both have more
 * events than a request may have waiting, so neither is over before the other has come and both are polled.
 */
static void neighbour(void **state) {
    (void)state;
    enum { LAPS = 30, MOST = LAPS * N_NEW, TOKENS = 100 };
    static uint64_t times[MOST], own[TOKENS];
    int32_t ids[N_IDS];
    fill(ids);
    stator *s = harness_start(DEMO, small);
    struct harness_text alone = {.id = harness_submit(s, ids + 5, 20, TOKENS, 0, 0)};
    harness_collect(s, &alone, 1);
    stator_request q = request_of(ids);
    stator_bench b = {.size = sizeof b, .n_depth = 30, .laps = LAPS};
    uint64_t laps_id = 0;
    assert_int_equal(stator_bench_submit(s, &q, &b, &laps_id, NULL), STATOR_OK);
    uint64_t id = harness_submit(s, ids + 5, 20, TOKENS, 0, 0);
    uint32_t n = 0, n_laps = 0, together = 0;
    for (int left = 2; left > 0;) {
        stator_event ev = next(s);
        left -= ev.kind == STATOR_EVENT_DONE;
        if (ev.kind != STATOR_EVENT_TOKEN)
            continue;
        if (ev.request == id) {
            assert_true(n < TOKENS);
            assert_int_equal(ev.token, alone.ids[n]);
            own[n++] = ev.time_ns;
        } else {
            assert_true(n_laps < MOST);
            times[n_laps++] = ev.time_ns;
        }
    }
    assert_int_equal(n, TOKENS);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n_laps; k++)
            together += own[i] == times[k];
    assert_true(together > 10);
    stator_close(s);
}

static void refused(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    fill(ids);
    stator *s = harness_start(DEMO, small);
    uint64_t id = 0;
    stator_error e = {0};
    stator_request q = request_of(ids);
    stator_bench b = {.size = sizeof b, .n_depth = N_IDS, .laps = 1};
    assert_int_equal(stator_bench_submit(s, &q, &b, &id, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "n_depth is 40"));
    b = (stator_bench){.size = sizeof b, .n_depth = 0, .laps = 2};
    q.kind = STATOR_LOGITS;
    assert_int_equal(stator_bench_submit(s, &q, &b, &id, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "n_depth and laps"));
    stator_close(s);
}

static void cancelled(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    fill(ids);
    stator *s = harness_start(DEMO, small);
    stator_request q = request_of(ids);
    stator_bench b = {.size = sizeof b, .n_depth = 33, .laps = 1000000};
    uint64_t id = 0;
    assert_int_equal(stator_bench_submit(s, &q, &b, &id, NULL), STATOR_OK);
    while (next(s).kind != STATOR_EVENT_LAP)
        ;
    stator_cancel(s, id);
    stator_event ev = next(s);
    while (ev.kind != STATOR_EVENT_DONE)
        ev = next(s);
    assert_int_equal(ev.reason, STATOR_REASON_CANCELLED);
    stator_close(s);
}

/* The least work of a step, counted by hand. */
static void least_work(void **state) {
    (void)state;
    struct tiny_model m = tiny_model_of("llama");
    struct gguf_writer w = gguf_writer_new();
    tiny_model_write(&w, m);
    gguf_writer_finish(&w);
    char path[GGUF_WRITER_PATH];
    gguf_writer_memory_path(&w, path);
    stator_options o = {.size = sizeof o, .config = path};
    stator *s = NULL;
    assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
    stator_info info = {.size = sizeof info};
    assert_int_equal(stator_get_info(s, &info, NULL), STATOR_OK);
    assert_int_equal(info.step_read_bytes, 0);
    assert_int_equal(stator_plan(s, NULL), STATOR_OK);
    assert_int_equal(stator_get_info(s, &info, NULL), STATOR_OK);
    assert_int_equal(info.context_fixed, 0);
    assert_string_equal(info.weight_type, "F16");
    /* Per layer: q 64 x 8, k and v 32 x 8, output 8 x 64, gate, up 12 x 8, down 8 x 12. */
    assert_int_equal(info.token_macs, 2 * (64 * 8 + 2 * 32 * 8 + 8 * 64 + 3 * 12 * 8));
    /* Two layers of one head: K and V of 32 values of two bytes. */
    assert_int_equal(info.context_read_bytes, 2 * (32 + 32) * 2);
    /* Matrices in panels of 16 rows (so 8, 12 and 5 rows count 16), norms as floats in multiples of 64 bytes.
     */
    assert_int_equal(info.step_read_bytes, 2 * 2 * (64 * 8 + 2 * 32 * 8 + 16 * 64 + 2 * 16 * 8 + 16 * 12) +
                                               2 * 16 * 8 + (2 * 2 + 1) * 64);
    assert_int_equal(info.step_file_bytes, 2 * 2 * (64 * 8 + 2 * 32 * 8 + 8 * 64 + 2 * 12 * 8 + 8 * 12) +
                                               2 * 5 * 8 + (2 * 2 + 1) * 8 * 4);
    assert_true(info.experts == 0 && info.experts_read_bytes == 0 && info.state_bytes == 0);
    stator_close(s);
    const char *set[] = {"memory.context=32"};
    o.set = set;
    o.n_set = 1;
    assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
    assert_int_equal(stator_get_info(s, &info, NULL), STATOR_OK);
    assert_int_equal(info.context_fixed, 1);
    stator_close(s);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(laps_repeat), cmocka_unit_test(steps_counted),
                                       cmocka_unit_test(neighbour),   cmocka_unit_test(refused),
                                       cmocka_unit_test(cancelled),   cmocka_unit_test(least_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
