/* The engine over devices that work on their own: the same bytes as the CPU alone in whatever order things
 * finish, steps that really overlap, uploads, both routes, a trace; and what happens when a device fails. The
 * fake devices stop the test when the engine touches what is in use (fake_device.h). */
#include "fake_device.h"

#include "engine_harness.h"

#include "base/json_reader.h"
#include "engine/engine.h"
#include "stator_bench.h"

#define MODEL "configs/demo.gguf"
#define N_IDS 150

static const char *const uses[] = {"devices.use=fake:0",
                                   "devices.use=fake:0,fake:1",
                                   "devices.use=fake:0,fake:1,fake:2",
                                   "devices.use=fake:0,fake:1,fake:2,fake:3",
                                   "devices.use=cpu:0,fake:0",
                                   "devices.use=fake:0,cpu:0,fake:1",
                                   "devices.use=fake:1,fake:0,cpu:0"};
#define N_USES (sizeof uses / sizeof uses[0])

static int reset(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    return 0;
}

static void make_ids(int32_t *ids, size_t n) {
    uint64_t random = 5;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)testing_below(&random, 512);
}

static void logits(void **state) {
    (void)state;
    static const char *const batches[] = {"memory.batch=16", "memory.batch=50", "memory.batch=512"};
    static const char *const rows[] = {"memory.logits_rows=3", "memory.logits_rows=16"};
    static const char *const modes[] = {"transfer.mode=auto", "transfer.mode=staged"};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    const char *plain[] = {"devices.use=cpu:0", "cpu.threads=1", NULL};
    stator *s = harness_start(MODEL, plain);
    size_t bytes = N_IDS * harness_vocab(s) * sizeof(float);
    float *expected = harness_logits(s, ids, N_IDS);
    stator_close(s);
    for (size_t i = 0; i < 3 * N_USES; i++) {
        fake.delay_us = i % 3 * 300;
        const char *sets[] = {uses[i % N_USES], batches[i % 3],          rows[i % 2], modes[i / N_USES % 2],
                              "cpu.threads=1",  "memory.staging=384KiB", NULL};
        s = harness_start(MODEL, sets);
        float *got = harness_logits(s, ids, N_IDS);
        stator_close(s);
        assert_int_equal(fake.opened, 0);
        if (memcmp(got, expected, bytes) != 0)
            fail_msg("logits differ with %s %s %s %s", sets[0], sets[1], sets[2], sets[3]);
        free(got);
    }
    free(expected);
}

/* Requests of all kinds at once; each gets what it gets alone. */
static void texts(void **state) {
    (void)state;
    enum { REQUESTS = 7 };
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    struct harness_text expected[REQUESTS];
    for (size_t u = 0; u <= N_USES; u++) {
        fake.delay_us = u % 2 * 200;
        const char *sets[] = {u == 0 ? "devices.use=cpu:0" : uses[u - 1],
                              "memory.context=256",
                              "memory.sequences=5",
                              "memory.batch=16",
                              "memory.logits_rows=4",
                              "cpu.threads=1",
                              u % 3 == 0 ? "transfer.mode=auto" : "transfer.mode=staged",
                              NULL};
        struct harness_text got[REQUESTS];
        memset(got, 0, sizeof got);
        stator *s = harness_start(MODEL, sets);
        for (uint32_t i = 0; i < REQUESTS; i++)
            got[i].id =
                harness_submit(s, ids + i, 3 + 20 * i, i == 3 ? 100 : 20 + i, i % 2 ? 0.9f : 0.0f, 100 + i);
        stator_cancel(s, got[3].id); /* more tokens than may wait: it has not ended before */
        harness_collect(s, got, REQUESTS);
        stator_close(s);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            if (i == 3) {
                assert_int_equal(got[i].reason, STATOR_REASON_CANCELLED);
                continue;
            }
            assert_int_equal(got[i].n, 20 + i);
            if (u == 0)
                expected[i] = got[i];
            if (memcmp(got[i].ids, expected[i].ids, got[i].n * sizeof(int32_t)) != 0)
                fail_msg("text %u differs with %s", i, sets[0]);
        }
    }
}

/* Cancels at any moment leave an engine that still computes right. */
static void cancels(void **state) {
    (void)state;
    uint64_t random = testing_seed("cancels");
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    const char *sets[] = {
        uses[2], "memory.sequences=3", "memory.batch=16", "memory.context=256", "cpu.threads=1", NULL};
    fake.delay_us = 100;
    stator *s = harness_start(MODEL, sets);
    struct harness_text alone = {0};
    alone.id = harness_submit(s, ids, 40, 12, 0, 0);
    harness_collect(s, &alone, 1);
    for (int round = 0; round < 30; round++) {
        struct harness_text t[4];
        memset(t, 0, sizeof t);
        for (uint32_t i = 0; i < 3; i++)
            t[i].id = harness_submit(s, ids + 3 * i, 10 + testing_below(&random, 100), 30, 0.7f, i);
        t[3].id = harness_submit(s, ids, 40, 12, 0, 0);
        fake_sleep(testing_below(&random, 3000000));
        for (uint32_t i = 0; i < 3; i++)
            stator_cancel(s, t[i].id);
        harness_collect(s, t, 4);
        assert_int_equal(t[3].n, alone.n);
        assert_memory_equal(t[3].ids, alone.ids, alone.n * sizeof(int32_t));
    }
    stator_close(s);
    assert_int_equal(fake.opened, 0);
}

/* A prompt of several chunks, and three sequences, keep all devices at work at once: steps of all three wait
 * for one another, and everything ends. No clock is asked. */
static void overlap(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    for (uint32_t kind = 0; kind < 2; kind++) {
        const char *sets[] = {
            uses[2], "memory.sequences=3", "memory.batch=16", "memory.context=256", "cpu.threads=1", NULL};
        reset(NULL);
        /* Ten chunks; or 3 prompts and 14 times 3 tokens, of which the first and last steps may be alone. */
        fake.meet_first = kind == 0 ? 0 : 6;
        fake.meet_end = kind == 0 ? 9 : 36;
        atomic_store(&fake.closed, true);
        stator *s = harness_start(MODEL, sets);
        struct harness_text t[3];
        memset(t, 0, sizeof t);
        size_t n = kind == 0 ? 1 : 3;
        for (uint32_t i = 0; i < n; i++)
            t[i].id = harness_submit(s, ids, kind == 0 ? N_IDS : 2, kind == 0 ? 1 : 15, 0, 0);
        atomic_store(&fake.closed, false);
        harness_collect(s, t, n);
        stator_close(s);
        assert_false(atomic_load(&fake.alone));
        assert_in_range(atomic_load(&fake.begun[2]), kind == 0 ? 10 : 43, kind == 0 ? 10 : 45);
        assert_int_equal(atomic_load(&fake.most_running), 3);
    }
    reset(NULL);
    /* One sequence that generates has nothing to overlap. */
    const char *sets[] = {uses[2], "memory.context=256", "cpu.threads=1", NULL};
    atomic_store(&fake.most_running, 0);
    fake.delay_us = 500;
    stator *s = harness_start(MODEL, sets);
    struct harness_text t = {.id = harness_submit(s, ids, 2, 15, 0, 0)};
    harness_collect(s, &t, 1);
    stator_close(s);
    assert_int_equal(atomic_load(&fake.most_running), 1);
}

/* Sequences that began one after the other generate in one step together where there is one device: a step
 * costs it about the same, whatever the number of sequences in it. */
static void together(void **state) {
    (void)state;
    enum { SEQUENCES = 3, TOKENS = 30 };
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    const char *sets[] = {uses[0], "memory.sequences=3", "memory.context=256", "cpu.threads=1", NULL};
    fake.delay_us = 500;
    atomic_store(&fake.closed, true);
    stator *s = harness_start(MODEL, sets);
    struct harness_text t[SEQUENCES];
    memset(t, 0, sizeof t);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        t[i].id = harness_submit(s, ids, 2, TOKENS, 0, 0);
        fake_sleep(20000000); /* a step begins without those to come */
    }
    atomic_store(&fake.closed, false);
    harness_collect(s, t, SEQUENCES);
    stator_close(s);
    assert_in_range(atomic_load(&fake.begun[0]), TOKENS, TOKENS - 1 + SEQUENCES);
}

/* Steps of one slot are seen late to have ended, so that the one behind is seen first: it must not overtake.
 */
static void late(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    const char *plain[] = {"devices.use=cpu:0", "cpu.threads=1", NULL};
    stator *s = harness_start(MODEL, plain);
    struct harness_text alone = {.id = harness_submit(s, ids, N_IDS, 20, 0, 0)};
    harness_collect(s, &alone, 1);
    stator_close(s);
    for (size_t i = 1; i < 4; i++) {
        const char *sets[] = {uses[i], "memory.batch=16", "cpu.threads=1", NULL};
        fake.late = 100;
        s = harness_start(MODEL, sets);
        struct harness_text t = {.id = harness_submit(s, ids, N_IDS, 20, 0, 0)};
        harness_collect(s, &t, 1);
        stator_close(s);
        assert_int_equal(t.n, alone.n);
        assert_memory_equal(t.ids, alone.ids, t.n * sizeof t.ids[0]);
    }
}

/* Rounds of the same with laps and depth. */
static void laps(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    const char *sets[] = {uses[1], "memory.batch=16", "memory.context=256", "cpu.threads=1", NULL};
    fake.delay_us = 100;
    stator *s = harness_start(MODEL, sets);
    stator_request q = {.size = sizeof q,
                        .kind = STATOR_GENERATE,
                        .tokens = ids,
                        .n_tokens = 100,
                        .max_new = 8,
                        .ignore_eos = 1};
    stator_bench b = {.size = sizeof b, .n_depth = 50, .laps = 3};
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE};
    uint64_t id = 0;
    assert_int_equal(stator_bench_submit(s, &q, &b, &id, NULL), STATOR_OK);
    int32_t lap[3][8];
    uint32_t at = 0;
    uint32_t n = 0;
    for (bool done = false; !done;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (!have)
            continue;
        if (ev.kind == STATOR_EVENT_TOKEN) {
            assert_true(at < 3 && n < 8);
            lap[at][n++] = ev.token;
            continue;
        }
        assert_int_equal(n, 8);
        assert_int_equal(ev.n_prompt, 50);
        assert_true(ev.prompt_ns > 0);
        at++;
        n = 0;
        done = ev.kind == STATOR_EVENT_DONE;
    }
    assert_int_equal(at, 3);
    assert_memory_equal(lap[0], lap[1], sizeof lap[0]);
    assert_memory_equal(lap[0], lap[2], sizeof lap[0]);
    stator_close(s);
}

static char *report_of(const stator *s) {
    size_t n = 0;
    char *json = malloc(1 << 20);
    assert_non_null(json);
    assert_int_equal(stator_report_json(s, json, 1 << 20, &n, NULL), STATOR_OK);
    return json;
}

static uint64_t number_after(const char *json, const char *device, const char *key) {
    char text[64];
    snprintf(text, sizeof text, "\"name\": \"%s\"", device);
    const char *at = strstr(json, text);
    assert_non_null(at);
    snprintf(text, sizeof text, "\"%s\": ", key);
    at = strstr(at, text);
    assert_non_null(at);
    return strtoull(at + strlen(text), NULL, 10);
}

/* The report's bytes are what the steps carried: 40 tokens and then one by one, 64 floats each. */
static void routes(void **state) {
    (void)state;
    int32_t ids[40];
    make_ids(ids, 40);
    for (int mode = 0; mode < 4; mode++) {
        /* 0: direct, 1: staged on demand, 2: staged because of the probe, 3: direct demanded and impossible
         */
        fake.corrupt = mode >= 2;
        const char *sets[] = {uses[1], "cpu.threads=1",
                              mode == 1   ? "transfer.mode=staged"
                              : mode == 3 ? "transfer.mode=direct"
                                          : "transfer.mode=auto"};
        stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 3};
        stator *s = NULL;
        stator_error e = {0};
        assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
        stator_status st = stator_start(s, &e);
        if (mode == 3) {
            assert_int_equal(st, STATOR_DEVICE);
            assert_non_null(strstr(e.text, "fake:0 to fake:1"));
            assert_non_null(strstr(e.text, "arrived changed"));
            stator_close(s);
            continue;
        }
        assert_int_equal(st, STATOR_OK);
        struct harness_text t = {.id = harness_submit(s, ids, 40, 11, 0, 0)};
        harness_collect(s, &t, 1);
        char *json = report_of(s);
        uint64_t bytes = (40 + 10) * (uint64_t)s->planning.shape->n_embd * sizeof(float);
        assert_int_equal(number_after(json, "fake:0", "direct_bytes"), mode == 0 ? bytes : 0);
        assert_int_equal(number_after(json, "fake:0", "staged_bytes"), mode == 0 ? 0 : bytes);
        assert_int_equal(number_after(json, "fake:1", "direct_bytes"), 0);
        assert_int_equal(number_after(json, "fake:0", "layers"), 4);
        assert_non_null(strstr(json, mode == 0 ? "\"route\": \"direct\"" : "\"route\": \"staged\""));
        assert_non_null(strstr(json, mode == 2   ? "arrived changed"
                                     : mode == 1 ? "transfer.mode"
                                                 : "\"why\""));
        free(json);
        stator_close(s);
        assert_int_equal(fake.opened, 0);
    }
}

/* What was planned for staging and pinned parts is what is there. */
static void memory_rows(void **state) {
    (void)state;
    const char *sets[] = {uses[5], "cpu.threads=1", "memory.batch=64", NULL};
    stator *s = harness_start(MODEL, sets);
    uint32_t rows = 0;
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        assert_int_equal(stator_get_memory(s, i, &row, &have, NULL), STATOR_OK);
        if (!have)
            break;
        if (strcmp(row.arena, "driver") != 0) /* reserved, not ours to allocate */
            assert_int_equal(row.allocated, row.planned);
        rows++;
    }
    assert_int_equal(rows, 5 + 4 + 5 + 3);
    uint32_t a = 0;
    uint32_t b = 0;
    assert_true(plan_blocks_apart(&s->planning.plan, &a, &b));
    uint32_t pinned = 0;
    uint32_t windows = 0;
    for (uint32_t i = 0; i < s->planning.plan.n_blocks; i++) {
        pinned += strncmp(s->planning.plan.blocks[i].name, "steps and results of fake:", 26) == 0;
        windows += strncmp(s->planning.plan.blocks[i].name, "window ", 7) == 0;
    }
    assert_int_equal(pinned, 2);
    assert_int_equal(windows, 4);
    stator_close(s);
}

static bool count_value(void *context, const struct json_value *v) {
    (void)v;
    ++*(uint64_t *)context;
    return true;
}

/* A trace is JSON, has a process per device, and steps of different devices that overlap in time. */
static void trace(void **state) {
    (void)state;
    char path[] = "/tmp/stator-trace-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    const char *sets[] = {uses[1], "memory.batch=16", "memory.context=256", "cpu.threads=1"};
    stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 4, .trace = path};
    stator *s = NULL;
    stator_error e = {0};
    fake.delay_us = 2000;
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_start(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    struct harness_text t = {.id = harness_submit(s, ids, N_IDS, 5, 0, 0)};
    harness_collect(s, &t, 1);
    stator_close(s);
    size_t n = 0;
    char *json = testing_read_file(path, &n);
    unlink(path);
    assert_non_null(strstr(json, "\"fake:0, layers 0 to 3\""));
    assert_non_null(strstr(json, "\"fake:1, layers 4 to 7\""));
    assert_non_null(strstr(json, "\"step 0: 16 tokens\""));
    assert_non_null(strstr(json, "\"blk.7 attention\""));
    uint64_t values = 0;
    void *memory = malloc(json_reader_bytes(n));
    assert_non_null(memory);
    stator_status st = json_reader_walk(json, n, memory, json_reader_bytes(n), count_value, &values, &e);
    free(memory);
    if (st != STATOR_OK)
        fail_msg("%s", e.text);
    assert_true(values > 1000);
    enum { STEPS = 16 };
    double begin[2][STEPS] = {{0}};
    double end[2][STEPS] = {{0}};
    uint32_t found = 0;
    for (const char *at = json; (at = strstr(at, "\"name\":\"step ")) != NULL; at += 5) {
        unsigned step = 0;
        unsigned device = 0;
        double ts = 0;
        double took = 0;
        assert_int_equal(sscanf(at, "\"name\":\"step %u: ", &step), 1);
        const char *pid = strstr(at, "\"pid\":");
        assert_int_equal(sscanf(pid, "\"pid\":%u,\"tid\":0,\"ts\":%lf,\"dur\":%lf", &device, &ts, &took), 3);
        assert_true(step < STEPS && device < 2);
        begin[device][step] = ts;
        end[device][step] = ts + took;
        found++;
    }
    assert_int_equal(found, 2 * 14); /* ten chunks of the prompt, four tokens */
    uint32_t together = 0;
    for (uint32_t i = 0; i < 14; i++) {
        assert_true(end[0][i] <= begin[1][i]); /* a step goes from device to device */
        for (uint32_t d = 0; d < 2; d++)
            assert_true(i == 0 || end[d][i - 1] <= begin[d][i]); /* a device runs one at a time */
        together += i > 0 && begin[0][i] < end[1][i - 1];
    }
    print_message("%u of 9 chunks began on the first device before the second had ended the one before\n",
                  together);
    assert_in_range(together, 1, 9);
    free(json);
}

struct failure {
    enum fake_fault fault;
    uint32_t nth;
    stator_status status;
    const char *text;
};

/* Faults at the start: an error that names device and call, and nothing left over. */
static void faults_at_start(void **state) {
    (void)state;
    static const struct failure cases[] = {
        {FAKE_SLICE, 1, STATOR_DOES_NOT_FIT, "slice_create"},
        {FAKE_SLICE, 4, STATOR_DOES_NOT_FIT, "exchange"},
        {FAKE_UPLOAD, 1, STATOR_DEVICE, "upload"},
        {FAKE_UPLOAD, 9, STATOR_DEVICE, "upload"},
        {FAKE_PREPARE, 1, STATOR_DEVICE, "prepare"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t device = 0; device < 2; device++) {
            memset(&fake, 0, sizeof fake);
            fake.fault = cases[i].fault;
            fake.nth = cases[i].nth;
            fake.device = device;
            const char *sets[] = {uses[1], "cpu.threads=1"};
            stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 2};
            stator *s = NULL;
            stator_error e = {0};
            assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
            stator_status st = stator_start(s, &e);
            if (st != cases[i].status || e.code != st || strstr(e.text, cases[i].text) == NULL ||
                strstr(e.text, device == 0 ? "fake:0" : "fake:1") == NULL)
                fail_msg("fault %zu on %u: %d, %s", i, device, (int)st, e.text);
            stator_close(s);
            assert_int_equal(fake.opened, 0);
        }
    }
    memset(&fake, 0, sizeof fake);
    fake.fault = FAKE_HOST;
    fake.nth = 1;
    const char *sets[] = {uses[1], "cpu.threads=1"};
    stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 2};
    stator *s = NULL;
    stator_error e = {0};
    assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
    assert_int_equal(stator_start(s, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(e.text, "host_create"));
    stator_close(s);
    assert_int_equal(fake.opened, 0);
}

struct warned {
    uint32_t warnings;
    char plans[8][40];
    uint32_t n_plans;
};

static void hear(void *context, stator_log_level level, const char *line) {
    struct warned *w = context;
    w->warnings += level == STATOR_LOG_WARN && strstr(line, "refuses a slice") != NULL;
    const char *plan = strstr(line, "plan ");
    if (level == STATOR_LOG_INFO && plan != NULL && w->n_plans < 8)
        snprintf(w->plans[w->n_plans++], sizeof w->plans[0], "%.32s", plan + 5);
}

/* A driver that gives less at once than it said: smaller slices, another plan, the same numbers. */
static void smaller_slices(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    const char *plain[] = {"devices.use=cpu:0", "cpu.threads=1", NULL};
    stator *s = harness_start(MODEL, plain);
    size_t bytes = N_IDS * harness_vocab(s) * sizeof(float);
    float *expected = harness_logits(s, ids, N_IDS);
    stator_close(s);
    const char *sets[] = {uses[1], "cpu.threads=1", "memory.batch=32"};
    for (int round = 0; round < 3; round++) {
        /* 0: half of the slices is enough; 1: the same with --expect-plan; 2: nothing is */
        struct warned w = {0};
        fake.largest = round < 2 ? 1700000 : 65536;
        stator_options o = {
            .size = sizeof o, .config = MODEL, .set = sets, .n_set = 3, .log = hear, .context = &w};
        stator_error e = {0};
        assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
        assert_int_equal(stator_plan(s, &e), STATOR_OK);
        char hash[40];
        snprintf(hash, sizeof hash, "%s", s->planning.plan.hash);
        if (round == 1) {
            stator_close(s);
            o.expect_plan = hash;
            assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
        }
        stator_status st = stator_start(s, &e);
        assert_true(w.warnings > 0);
        if (round > 0) {
            assert_int_equal(st, STATOR_DOES_NOT_FIT);
            assert_non_null(strstr(e.text, round == 1 ? "--expect-plan" : "slice"));
            stator_close(s);
            assert_int_equal(fake.opened, 0);
            continue;
        }
        if (st != STATOR_OK)
            fail_msg("%s", e.text);
        assert_true(w.n_plans > 1);
        assert_string_not_equal(w.plans[w.n_plans - 1], hash);
        assert_string_equal(w.plans[w.n_plans - 1], s->planning.plan.hash);
        assert_true(plan_arena_find(&s->planning.plan.places[0], "weights")->n_slices > 1);
        float *got = harness_logits(s, ids, N_IDS);
        assert_memory_equal(got, expected, bytes);
        free(got);
        stator_close(s);
        assert_int_equal(fake.opened, 0);
    }
    free(expected);
}

/* Faults of a running engine, in the prompt and later: every request ends, failed, with the device's name and
 * the call; later requests fail at once; the engine closes. */
static void faults_in_steps(void **state) {
    (void)state;
    static const struct failure cases[] = {
        {FAKE_SUBMIT, 2, STATOR_DEVICE, "submit"}, {FAKE_SUBMIT, 14, STATOR_DEVICE, "submit"},
        {FAKE_LOST, 1, STATOR_DEVICE, "lost"},     {FAKE_LOST, 15, STATOR_DEVICE, "lost"},
        {FAKE_HANG, 3, STATOR_DEVICE, "hangs"},    {FAKE_HANG, 16, STATOR_DEVICE, "hangs"},
    };
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    for (size_t i = 0; i < 3 * sizeof cases / sizeof cases[0]; i++) {
        const struct failure *f = &cases[i / 3];
        memset(&fake, 0, sizeof fake);
        fake.fault = f->fault;
        fake.nth = f->nth;
        fake.device = (uint32_t)(i % 3);
        fake.delay_us = 100;
        const char *sets[] = {uses[2],
                              "cpu.threads=1",
                              "memory.sequences=2",
                              "memory.batch=16",
                              "memory.context=256",
                              f->fault == FAKE_HANG ? "devices.deadline=3" : "devices.deadline=300",
                              NULL};
        stator *s = harness_start(MODEL, sets);
        uint64_t id[4];
        for (uint32_t k = 0; k < 4; k++)
            id[k] = harness_submit(s, ids, N_IDS, 30, 0, 0);
        for (uint32_t done = 0; done < 4;) {
            stator_event ev = {.size = sizeof ev};
            int have = 0;
            assert_int_equal(stator_poll(s, FAKE_PATIENCE, &ev, &have, NULL), STATOR_OK);
            assert_true(have);
            if (ev.kind == STATOR_EVENT_TOKEN)
                continue;
            char name[8];
            snprintf(name, sizeof name, "fake:%u", fake.device);
            assert_int_equal(ev.kind, STATOR_EVENT_DONE);
            if (ev.reason != STATOR_REASON_FAILED || ev.status != STATOR_DEVICE ||
                strstr(ev.text, name) == NULL || strstr(ev.text, f->text) == NULL)
                fail_msg("fault %zu: reason %d, status %d, '%s'", i, (int)ev.reason, (int)ev.status, ev.text);
            done++;
        }
        (void)id;
        (void)harness_submit(s, ids, 3, 3, 0, 0);
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, FAKE_PATIENCE, &ev, &have, NULL), STATOR_OK);
        assert_true(have && ev.kind == STATOR_EVENT_DONE && ev.status == STATOR_DEVICE);
        stator_close(s);
        assert_int_equal(fake.opened, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(logits, reset),
                                       cmocka_unit_test_setup(texts, reset),
                                       cmocka_unit_test_setup(cancels, reset),
                                       cmocka_unit_test_setup(overlap, reset),
                                       cmocka_unit_test_setup(together, reset),
                                       cmocka_unit_test_setup(late, reset),
                                       cmocka_unit_test_setup(laps, reset),
                                       cmocka_unit_test_setup(routes, reset),
                                       cmocka_unit_test_setup(memory_rows, reset),
                                       cmocka_unit_test_setup(trace, reset),
                                       cmocka_unit_test_setup(faults_at_start, reset),
                                       cmocka_unit_test_setup(faults_in_steps, reset),
                                       cmocka_unit_test_setup(smaller_slices, reset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
