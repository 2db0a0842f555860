/* The public API as its users meet it: wrong arguments, calls in the wrong order, a full queue, cancel,
 * time-outs, failing starts, and a hundred engines one after the other. */
#include "engine_harness.h"

#include "kernels/kernels.h"
#include "tiny_model.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

#define DEMO "configs/demo.gguf"
#if defined(__SANITIZE_THREAD__) /* under which a step takes a second */
#define CYCLES  15
#define CANCELS 8
#else
#define CYCLES  100
#define CANCELS 40
#endif
static const char *const small[] = {"memory.context=256", "memory.batch=32", "cpu.threads=2", NULL};

/* The call fails with this code and says something that has this part. */
#define REFUSED(wanted, part, call)                                                                          \
    do {                                                                                                     \
        stator_error refused_e = {.code = STATOR_OK, .text = ""};                                            \
        stator_error *e = &refused_e;                                                                        \
        assert_int_equal(call, wanted);                                                                      \
        assert_int_equal(refused_e.code, wanted);                                                            \
        if (strstr(refused_e.text, part) == NULL)                                                            \
            fail_msg("the error has no \"%s\": %s", part, refused_e.text);                                   \
    } while (0)

static stator *open_model(const char *path, const char *const *sets) {
    size_t n = 0;
    while (sets[n] != NULL)
        n++;
    stator_options o = {.size = sizeof o, .config = path, .set = sets, .n_set = n};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK)
        fail_msg("%s: %s", path, e.text);
    return s;
}

static stator_request generate_of(const int32_t *ids, size_t n, uint32_t max_new) {
    return (stator_request){.size = sizeof(stator_request),
                            .kind = STATOR_GENERATE,
                            .tokens = ids,
                            .n_tokens = n,
                            .max_new = max_new,
                            .ignore_eos = 1,
                            .sampling = {.has = STATOR_HAS_TEMPERATURE}};
}

static const int32_t prompt[] = {0, 658, 737, 260, 444};
#define N_PROMPT (sizeof prompt / sizeof prompt[0])

static void open_arguments(void **state) {
    (void)state;
    stator *s = (stator *)&s;
    REFUSED(STATOR_USAGE, "options is NULL", stator_open(NULL, &s, e));
    stator_options o = {.size = sizeof o - 1, .config = DEMO};
    REFUSED(STATOR_USAGE, "options.size", stator_open(&o, &s, e));
    o.size = sizeof o;
    REFUSED(STATOR_USAGE, "out is NULL", stator_open(&o, NULL, e));
    o.config = NULL;
    REFUSED(STATOR_USAGE, "options.config is NULL", stator_open(&o, &s, e));
    o.config = "no/such.gguf";
    s = (stator *)&s;
    REFUSED(STATOR_USAGE, "no/such.gguf", stator_open(&o, &s, e));
    assert_null(s);
    o.config = DEMO;
    o.set = (const char *const[]){"memory.batch=0"};
    o.n_set = 1;
    REFUSED(STATOR_USAGE, "memory.batch", stator_open(&o, &s, e));
    assert_int_equal(stator_open(&o, &s, NULL), STATOR_USAGE); /* e may be NULL */
    stator_close(NULL);
    assert_int_equal(stator_api_version(), STATOR_API_VERSION);
}

static void wrong_order(void **state) {
    (void)state;
    stator *s = open_model(DEMO, small);
    stator_event ev = {.size = sizeof ev};
    int have = 1;
    uint64_t id = 0;
    size_t n = 0;
    char text[64];
    int32_t ids[8];
    stator_decoder d = {.size = sizeof d};
    stator_request q = generate_of(prompt, N_PROMPT, 1);
    REFUSED(STATOR_USAGE, "stator_start", stator_submit(s, &q, &id, e));
    REFUSED(STATOR_USAGE, "stator_start", stator_poll(s, 0, &ev, &have, e));
    assert_int_equal(have, 0);
    REFUSED(STATOR_USAGE, "stator_prepare", stator_check(s, &q, e));
    REFUSED(STATOR_USAGE, "stator_start", stator_tokenize(s, "a", 1, 1, 1, ids, 8, &n, e));
    REFUSED(STATOR_USAGE, "stator_start", stator_decode(s, &d, 1, 0, text, sizeof text, &n, e));
    REFUSED(STATOR_USAGE, "stator_plan", stator_plan_json(s, text, sizeof text, &n, e));
    stator_memory_row row = {.size = sizeof row};
    assert_int_equal(stator_get_memory(s, 0, &row, &have, NULL), STATOR_OK);
    assert_int_equal(have, 0);
    assert_int_equal(stator_plan(s, NULL), STATOR_OK);
    assert_int_equal(stator_plan(s, NULL), STATOR_OK); /* again is fine */
    void *edge = NULL;
    uint64_t edge_bytes = 0;
    REFUSED(STATOR_USAGE, "stator_prepare", stator_edge_memory(s, &edge, &edge_bytes, e));
    assert_int_equal(stator_prepare(s, NULL), STATOR_OK);
    assert_int_equal(stator_prepare(s, NULL), STATOR_OK);
    REFUSED(STATOR_USAGE, "options.serve", stator_edge_memory(s, &edge, &edge_bytes, e));
    REFUSED(STATOR_USAGE, "prepared", stator_plan(s, e));
    assert_int_equal(stator_tokenize(s, "a", 1, 1, 1, ids, 8, &n, NULL), STATOR_OK);
    assert_int_equal(stator_check(s, &q, NULL), STATOR_OK);
    q.sampling = (stator_sampling){.has = STATOR_HAS_TOP_P, .top_p = -1};
    REFUSED(STATOR_USAGE, "top_p", stator_check(s, &q, e));
    REFUSED(STATOR_USAGE, "stator_start", stator_submit(s, &q, &id, e));
    assert_int_equal(stator_start(s, NULL), STATOR_OK);
    REFUSED(STATOR_USAGE, "started", stator_start(s, e));
    REFUSED(STATOR_USAGE, "started", stator_plan(s, e));
    struct harness_text t = {.id = harness_submit(s, prompt, N_PROMPT, 8, 0, 0)};
    harness_collect(s, &t, 1);
    assert_int_equal(t.n, 8);
    stator_close(s);
    stator_close(open_model(DEMO, small)); /* without plan and start */
}

static void wrong_sizes(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    stator_info info = {.size = sizeof info + 1};
    REFUSED(STATOR_USAGE, "info.size", stator_get_info(s, &info, e));
    stator_memory_row row = {.size = 0};
    int have = 0;
    REFUSED(STATOR_USAGE, "row.size", stator_get_memory(s, 0, &row, &have, e));
    stator_request q = generate_of(prompt, N_PROMPT, 1);
    uint64_t id = 0;
    q.size--;
    REFUSED(STATOR_USAGE, "request.size", stator_submit(s, &q, &id, e));
    stator_decoder d = {.size = 1};
    char out[4096];
    size_t n = 0;
    REFUSED(STATOR_USAGE, "decoder.size", stator_decode(s, &d, 1, 0, out, sizeof out, &n, e));
    d = (stator_decoder){.size = sizeof d, .n_pending = 99};
    REFUSED(STATOR_USAGE, "decoder", stator_decode(s, &d, 1, 0, out, sizeof out, &n, e));
    stator_close(s);
}

static void invalid_requests(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    int32_t many[300] = {0};
    uint64_t id = 77;
    stator_request q = generate_of(prompt, 0, 1);
    REFUSED(STATOR_USAGE, "empty", stator_submit(s, &q, &id, e));
    q = generate_of(NULL, 3, 1);
    REFUSED(STATOR_USAGE, "tokens", stator_submit(s, &q, &id, e));
    q = generate_of(many, 257, 1);
    REFUSED(STATOR_USAGE, "257 tokens, memory.context is 256", stator_submit(s, &q, &id, e));
    q = generate_of((const int32_t[]){1, 2048}, 2, 1);
    REFUSED(STATOR_USAGE, "token 1 of the prompt is 2048", stator_submit(s, &q, &id, e));
    q = generate_of((const int32_t[]){-1}, 1, 1);
    REFUSED(STATOR_USAGE, "-1", stator_submit(s, &q, &id, e));
    q = generate_of(prompt, N_PROMPT, 1);
    q.kind = (stator_request_kind)7;
    REFUSED(STATOR_USAGE, "kind", stator_submit(s, &q, &id, e));
    const struct {
        stator_sampling sampling;
        const char *part;
    } bad[] = {
        {{.has = STATOR_HAS_TEMPERATURE, .temperature = -0.1f}, "temperature"},
        {{.has = STATOR_HAS_TEMPERATURE, .temperature = NAN}, "temperature"},
        {{.has = STATOR_HAS_TEMPERATURE, .temperature = INFINITY}, "temperature"},
        {{.has = STATOR_HAS_TOP_P, .top_p = -0.01f}, "top_p"},
        {{.has = STATOR_HAS_TOP_P, .top_p = 1.01f}, "top_p"},
        {{.has = STATOR_HAS_MIN_P, .min_p = -1}, "min_p"},
        {{.has = STATOR_HAS_MIN_P, .min_p = NAN}, "min_p"},
        {{.has = STATOR_HAS_REPEAT_PENALTY, .repeat_penalty = 0}, "repeat_penalty"},
        {{.has = STATOR_HAS_PRESENCE_PENALTY, .presence_penalty = 11}, "presence_penalty"},
        {{.has = STATOR_HAS_PRESENCE_PENALTY, .presence_penalty = NAN}, "presence_penalty"},
        {{.has = STATOR_HAS_FREQUENCY_PENALTY, .frequency_penalty = -11}, "frequency_penalty"},
        {{.budget = &(stator_budget){.size = 8}}, "budget.size is 8"},
        {{.budget = &(stator_budget){.size = sizeof(stator_budget)}}, "budget.queue is empty"},
        {{.budget = &(stator_budget){.size = sizeof(stator_budget), .n_queue = 1}}, "budget.queue is NULL"},
        {{.budget = &(stator_budget){.size = sizeof(stator_budget), .n_open = 257}}, "budget.open has 257"},
        {{.budget =
              &(stator_budget){.size = sizeof(stator_budget), .close = (int32_t[]){2048}, .n_close = 1}},
         "budget.close names token 2048"},
        {{.budget = &(stator_budget){.size = sizeof(stator_budget),
                                     .close = many,
                                     .n_close = 200,
                                     .queue = many,
                                     .n_queue = 57}},
         "budget has 257 tokens"},
        {{.n_logit_bias = 1}, "logit_bias is NULL"},
        {{.n_logit_bias = 1, .logit_bias = &(stator_logit_bias){2048, 1}}, "token 2048"},
        {{.n_logit_bias = 1, .logit_bias = &(stator_logit_bias){-1, 1}}, "token -1"},
        {{.n_logit_bias = 1, .logit_bias = &(stator_logit_bias){5, INFINITY}}, "token 5 is inf"},
        {{.n_logit_bias = 1, .logit_bias = &(stator_logit_bias){5, NAN}}, "token 5 is"},
        {{.n_logit_bias = STATOR_LOGIT_BIASES + 1, .logit_bias = &(stator_logit_bias){5, 1}},
         "has 301 tokens"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        q = generate_of(prompt, N_PROMPT, 1);
        q.sampling = bad[i].sampling;
        REFUSED(STATOR_USAGE, bad[i].part, stator_submit(s, &q, &id, e));
    }
    assert_int_equal(id, 77);
    /* Exactly the context is fine: its last token predicts one more. */
    struct harness_text t = {.id = harness_submit(s, many, 256, 0, 0, 0)};
    harness_collect(s, &t, 1);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.reason, STATOR_REASON_LENGTH);
    stator_close(s);
}

/* A request's own biases, which submit has copied, and no neighbour's. */
static void biased(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=64", "memory.batch=32", "memory.sequences=2", "cpu.threads=1",
                          NULL};
    stator *s = harness_start(DEMO, sets);
    stator_logit_bias bias[] = {{7, 1000}, {9, 1000.5f}, {11, 1e6f}, {11, -1e6f}};
    stator_request q = generate_of(prompt, N_PROMPT, 8);
    q.ignore_eos = 1;
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE, .logit_bias = bias, .n_logit_bias = 4};
    struct harness_text t[2];
    memset(t, 0, sizeof t);
    assert_int_equal(stator_submit(s, &q, &t[0].id, NULL), STATOR_OK);
    memset(bias, 0, sizeof bias);
    t[1].id = harness_submit(s, prompt, N_PROMPT, 8, 0, 0);
    harness_collect(s, t, 2);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(t[0].ids[i] == 9 || t[0].ids[i] == 7);
    assert_int_equal(t[0].n, 8);
    assert_int_not_equal(t[1].ids[0], 9);
    stator_close(s);
}

static void queue_full(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=64", "memory.batch=32",    "memory.sequences=2",
                          "cpu.threads=1",     "server.max_queue=4", NULL};
    stator *s = harness_start(DEMO, sets);
    struct harness_text t[6];
    memset(t, 0, sizeof t);
    for (int i = 0; i < 6; i++) /* two run, four wait; slots are freed by polling only */
        t[i].id = harness_submit(s, prompt, N_PROMPT, 10, 0.9f, (uint64_t)i);
    stator_request q = generate_of(prompt, N_PROMPT, 1);
    uint64_t id = 0;
    REFUSED(STATOR_BUSY, "queue is full", stator_submit(s, &q, &id, e));
    harness_collect(s, t, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(t[i].n, 10);
    struct harness_text again = {.id = harness_submit(s, prompt, N_PROMPT, 10, 0.9f, 3)};
    harness_collect(s, &again, 1);
    assert_memory_equal(again.ids, t[3].ids, 10 * sizeof(int32_t));
    stator_close(s);
}

/* More than the rings hold of other things, submitted faster than they are taken. */
static void many_sequences(void **state) {
    (void)state;
    enum { N = 104 };
    const char *sets[] = {"memory.context=32",     "memory.batch=100", "memory.sequences=100",
                          "memory.logits_rows=16", "cpu.threads=1",    NULL};
    stator *s = harness_start(DEMO, sets);
    struct harness_text *t = calloc(N, sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < N; i++)
        t[i].id = harness_submit(s, prompt, 1, 2, 0, 0);
    harness_collect(s, t, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(t[i].n, 2);
        assert_memory_equal(t[i].ids, t[0].ids, 2 * sizeof(int32_t));
    }
    free(t);
    stator_close(s);
}

/* One of several is cancelled: the others' texts stay as they are. */
static void cancel_one(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=1024", "memory.sequences=3", "memory.batch=32", NULL};
    stator *s = harness_start(DEMO, sets);
    struct harness_text alone = {.id = harness_submit(s, prompt, N_PROMPT, 100, 0.8f, 9)};
    harness_collect(s, &alone, 1);
    struct harness_text t[4];
    memset(t, 0, sizeof t);
    for (int i = 0; i < 4; i++) /* the fourth waits */
        t[i].id = harness_submit(s, prompt, N_PROMPT, i == 1 ? 1000 : i == 3 ? 50 : 100, 0.8f, 9);
    stator_cancel(s, t[1].id);
    stator_cancel(s, t[3].id);
    stator_cancel(s, 999999); /* nobody's */
    harness_collect(s, t, 4);
    assert_int_equal(t[1].reason, STATOR_REASON_CANCELLED);
    assert_int_equal(t[3].reason, STATOR_REASON_CANCELLED);
    assert_true(t[1].n < 1000);
    assert_memory_equal(t[1].ids, alone.ids, (t[1].n < alone.n ? t[1].n : alone.n) * sizeof(int32_t));
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(t[i].reason, STATOR_REASON_LENGTH);
        assert_int_equal(t[i].n, 100);
        assert_memory_equal(t[i].ids, alone.ids, 100 * sizeof(int32_t));
    }
    for (int i = 0; i < 4; i++)
        t[i] = (struct harness_text){.id = harness_submit(s, prompt, N_PROMPT, 1000, 0.8f, 9)};
    stator_cancel(s, 0);
    harness_collect(s, t, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(t[i].reason, STATOR_REASON_CANCELLED);
    stator_close(s);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void poll_timeouts(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    stator_event ev = {.size = sizeof ev};
    int have = 1;
    double before = now_s();
    assert_int_equal(stator_poll(s, 0, &ev, &have, NULL), STATOR_OK);
    assert_int_equal(have, 0);
    assert_true(now_s() - before < 60); /* the machine may be busy */
    before = now_s();
    assert_int_equal(stator_poll(s, 60000000, &ev, &have, NULL), STATOR_OK);
    assert_int_equal(have, 0);
    assert_true(now_s() - before >= 0.059);
    stator_close(s);
}

/* More positions than rows are planned, rows that do not divide them, and a batch below them: the same bits.
 */
static void logits_in_pieces(void **state) {
    (void)state;
    int32_t ids[50];
    for (int i = 0; i < 50; i++)
        ids[i] = (i * 37) % 2048;
    const char *whole[] = {"memory.context=64", "memory.batch=64", "memory.logits_rows=64", NULL};
    const char *pieces[] = {"memory.context=64", "memory.batch=20", "memory.logits_rows=7",
                            "memory.sequences=2", NULL};
    stator *s = harness_start(DEMO, whole);
    float *a = harness_logits(s, ids, 50);
    stator_close(s);
    s = harness_start(DEMO, pieces);
    float *b = harness_logits(s, ids, 50);
    assert_memory_equal(a, b, 50 * 2048 * sizeof *a);
    free(b);
    /* Next to a text that is being generated. */
    struct harness_text alone = {.id = harness_submit(s, prompt, N_PROMPT, 20, 0, 0)};
    harness_collect(s, &alone, 1);
    uint64_t text = harness_submit(s, prompt, N_PROMPT, 20, 0, 0);
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = 50};
    uint64_t rows = 0;
    assert_int_equal(stator_submit(s, &q, &rows, NULL), STATOR_OK);
    size_t n_rows = 0;
    size_t n_ids = 0;
    for (int done = 0; done < 2;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (!have)
            continue;
        assert_true(ev.request == text || ev.request == rows);
        done += ev.kind == STATOR_EVENT_DONE;
        if (ev.kind == STATOR_EVENT_LOGITS) {
            assert_int_equal(ev.position, n_rows);
            assert_memory_equal(ev.logits, a + n_rows++ * 2048, 2048 * sizeof *a);
        } else if (ev.kind == STATOR_EVENT_TOKEN) {
            assert_int_equal(ev.position, N_PROMPT + n_ids);
            assert_int_equal(ev.token, alone.ids[n_ids++]);
        }
    }
    assert_int_equal(n_rows, 50);
    assert_int_equal(n_ids, 20);
    free(a);
    /* Cancelled between two rows. */
    assert_int_equal(stator_submit(s, &q, &rows, NULL), STATOR_OK);
    n_rows = 0;
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (!have)
            continue;
        if (ev.kind == STATOR_EVENT_DONE) {
            assert_int_equal(ev.reason, STATOR_REASON_CANCELLED);
            break;
        }
        if (n_rows++ == 3)
            stator_cancel(s, rows);
    }
    assert_true(n_rows >= 4 && n_rows <= 14); /* at most one more group of seven */
    stator_close(s);
}

static void close_while_running(void **state) {
    (void)state;
    const char *sets[] = {"memory.sequences=3", "memory.context=512", "memory.batch=32", NULL};
    for (int i = 0; i < 6; i++) {
        stator *s = harness_start(DEMO, sets);
        harness_submit(s, prompt, N_PROMPT, 0, 0.8f, 1);
        harness_submit(s, prompt, N_PROMPT, 500, 0.8f, 2);
        stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = prompt, .n_tokens = N_PROMPT};
        uint64_t id = 0;
        if (i % 2)
            assert_int_equal(stator_submit(s, &q, &id, NULL), STATOR_OK);
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        for (int k = 0; k < 10 * i; k++)
            assert_int_equal(stator_poll(s, 1000000, &ev, &have, NULL), STATOR_OK);
        stator_close(s); /* the events' ring may be full of what nobody reads */
    }
}

static uint64_t private_kb(void) {
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    char line[256];
    uint64_t kb = 0;
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0)
            kb = strtoull(line + 8, NULL, 10);
    fclose(f);
    return kb;
}

static int open_files(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static int mappings(void) {
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    for (int c = fgetc(f); c != EOF; c = fgetc(f))
        n += c == '\n';
    fclose(f);
    return n;
}

static void cycle(int i) {
    stator *s = harness_start(DEMO, small);
    struct harness_text t = {.id = harness_submit(s, prompt, N_PROMPT, 2, 0, 0)};
    if (i % 2)
        harness_collect(s, &t, 1);
    stator_close(s);
    s = open_model(DEMO, small); /* and a start that is refused, twice */
    stator_options o = {.size = sizeof o, .config = DEMO, .expect_plan = "00000000000000000000000000000000"};
    stator_close(s);
    assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
    assert_int_equal(stator_start(s, NULL), STATOR_DOES_NOT_FIT);
    assert_int_equal(stator_start(s, NULL), STATOR_DOES_NOT_FIT);
    stator_close(s);
}

static void no_leak(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++)
        cycle(i);
    uint64_t kb = private_kb();
    int files = open_files();
    int maps = mappings();
    for (int i = 0; i < CYCLES - 5; i++)
        cycle(i);
    print_message("RssAnon %llu kB after 5 cycles, %llu kB after %d\n", (unsigned long long)kb,
                  (unsigned long long)private_kb(), CYCLES);
    assert_int_equal(open_files(), files);
    assert_true(mappings() <= maps + 8); /* the allocator's arenas; a leak would be one for each cycle */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which keep what is freed for a while  \
                                                                     */
    assert_true(private_kb() <= kb + 512);
#endif
}

/* The length that a call asks for holds for the next one, whatever has been counted meanwhile. */
static void report_grows(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    for (int round = 0; round < 3; round++) {
        size_t need = 0;
        REFUSED(STATOR_USAGE, "the report may take", stator_report_json(s, NULL, 0, &need, e));
        struct harness_text t = {.id = harness_submit(s, prompt, N_PROMPT, 120, 0, 0)};
        harness_collect(s, &t, 1);
        char *text = malloc(need + 1);
        assert_non_null(text);
        size_t n = 0;
        stator_error e = {0};
        if (stator_report_json(s, text, need + 1, &n, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        assert_true(n <= need);
        assert_int_equal(strlen(text), n);
        /* Exactly as long as it is, unless a figure of the audit has got a digit more. */
        stator_status st = stator_report_json(s, text, n + 1, &n, &e);
        assert_true(st == STATOR_OK || (st == STATOR_USAGE && n == need));
        free(text);
    }
    stator_close(s);
}

static void expected_plan(void **state) {
    (void)state;
    stator *s = open_model(DEMO, small);
    assert_int_equal(stator_plan(s, NULL), STATOR_OK);
    stator_info info = {.size = sizeof info};
    assert_int_equal(stator_get_info(s, &info, NULL), STATOR_OK);
    stator_close(s);
    char longer[64];
    snprintf(longer, sizeof longer, "%s0", info.plan_hash);
    char shorter[64];
    snprintf(shorter, sizeof shorter, "%.31s", info.plan_hash);
    const char *wrong[] = {"00000000000000000000000000000000", "", longer, shorter};
    stator_options o = {.size = sizeof o, .config = DEMO, .set = small, .n_set = 3};
    for (size_t i = 0; i < 4; i++) {
        o.expect_plan = wrong[i];
        assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
        REFUSED(STATOR_DOES_NOT_FIT, info.plan_hash, stator_start(s, e));
        stator_close(s);
    }
    o.expect_plan = info.plan_hash;
    assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
    assert_int_equal(stator_start(s, NULL), STATOR_OK);
    stator_close(s);
}

static void cancel_from_progress(void *context, uint64_t done, uint64_t total) {
    (void)total;
    stator **s = context;
    if (done > 0)
        stator_cancel(*s, 0);
}

/* A cancel before the start has nothing to end; one during it ends it; one that comes too late harms nothing.
 */
static void cancel_start(void **state) {
    (void)state;
    stator *s = open_model(DEMO, small);
    stator_cancel(s, 0);
    stator_cancel(s, 5);
    stator_cancel(NULL, 0);
    assert_int_equal(stator_prepare(s, NULL), STATOR_OK);
    stator_cancel(s, 0);
    stator_error why = {0};
    if (stator_start(s, &why) != STATOR_OK)
        fail_msg("%s", why.text);
    struct harness_text t = {.id = harness_submit(s, prompt, N_PROMPT, 3, 0, 0)};
    harness_collect(s, &t, 1);
    assert_int_equal(t.reason, STATOR_REASON_LENGTH);
    stator_close(s);
    /* Heard while it loads, the first report ends the start; where this thread heard nothing until all was
     * loaded, the start has succeeded, and is tried again. */
    const char *sets[] = {"memory.staging=64KiB", "cpu.threads=1", "memory.context=256"};
    stator_options o = {.size = sizeof o,
                        .config = DEMO,
                        .set = sets,
                        .n_set = 3,
                        .progress = cancel_from_progress,
                        .context = (void *)&s};
    stator_status st = STATOR_OK;
    for (int i = 0; i < 50 && st == STATOR_OK; i++) {
        why = (stator_error){0};
        assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
        st = stator_start(s, &why);
        REFUSED(STATOR_USAGE, "started", stator_start(s, e));
        stator_close(s);
    }
    assert_true(st == STATOR_FAILED && why.code == st);
    assert_non_null(strstr(why.text, "stopped"));
}

struct canceller {
    stator *engine;
    long after_ns;
};

static void *cancel_soon(void *context) {
    const struct canceller *c = context;
    struct timespec pause = {.tv_nsec = c->after_ns};
    nanosleep(&pause, NULL);
    stator_cancel(c->engine, 0);
    return NULL;
}

static void cancel_at_any_time(void **state) {
    (void)state;
    int stopped = 0;
    int ran = 0;
    for (int i = 0; i < CANCELS; i++) {
        struct canceller c = {.engine = open_model(DEMO, small), .after_ns = 40000000L / CANCELS * i};
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, cancel_soon, &c), 0);
        stator_error e;
        stator_status st = stator_start(c.engine, &e);
        if (st == STATOR_OK) {
            struct harness_text text = {.id = harness_submit(c.engine, prompt, N_PROMPT, 20, 0, 0)};
            harness_collect(c.engine, &text, 1); /* would wait for ever if the engine had stopped */
            assert_true(text.reason == STATOR_REASON_CANCELLED || text.n == 20);
            ran++;
        } else {
            assert_int_equal(st, STATOR_FAILED);
            assert_non_null(strstr(e.text, "stopped"));
            stopped++;
        }
        pthread_join(t, NULL);
        stator_close(c.engine);
    }
    print_message("%d starts stopped, %d engines ran\n", stopped, ran);
}

/* The first value of one tensor replaced. */
static void patch(uint8_t *data, const char *path, const char *tensor, const void *bytes, size_t n) {
    struct gguf *g = NULL;
    assert_int_equal(gguf_open(path, &g, NULL), STATOR_OK);
    bool found = false;
    for (uint64_t i = 0; i < gguf_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        if (t->name.length != strlen(tensor) || memcmp(t->name.data, tensor, t->name.length) != 0)
            continue;
        assert_true(n <= t->bytes);
        memcpy(data + t->offset, bytes, n);
        found = true;
    }
    assert_true(found);
    gguf_close(g);
}

/* Requests of both kinds fail with a text; the engine goes on living. */
static void both_fail(const char *path, const char *tensor, const char *tier, const int32_t *ids, size_t n) {
    const char *sets[] = {"memory.batch=32", "memory.context=64", "cpu.threads=1", tier, NULL};
    stator *s = harness_start(path, sets);
    for (int round = 0; round < 4; round++) {
        stator_request q = generate_of(ids, n, 20);
        q.kind = round % 2 ? STATOR_LOGITS : STATOR_GENERATE;
        uint64_t id = 0;
        assert_int_equal(stator_submit(s, &q, &id, NULL), STATOR_OK);
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        do
            assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        while (!have || ev.kind != STATOR_EVENT_DONE);
        if (ev.reason != STATOR_REASON_FAILED)
            fail_msg("%s: a number that is not finite went unseen", tensor);
        assert_int_equal(ev.status, STATOR_FAILED);
        assert_non_null(strstr(ev.text, "not finite"));
        assert_int_equal(ev.request, id);
    }
    stator_close(s);
}

static void damaged_weights(void **state) {
    (void)state;
    static const char *const tensors[] = {
        "token_embd.weight",   "output_norm.weight",    "blk.0.attn_norm.weight",
        "blk.1.attn_q.weight", "blk.1.attn_v.weight",   "blk.0.attn_output.weight",
        "blk.0.ffn_up.weight", "blk.1.ffn_gate.weight", "blk.1.ffn_down.weight"};
    struct gguf_writer w = gguf_writer_new();
    tiny_model_write(&w, tiny_model_of("llama"));
    gguf_writer_finish(&w);
    char path[GGUF_WRITER_PATH];
    uint8_t *whole = malloc(w.out_bytes);
    assert_non_null(whole);
    memcpy(whole, w.out, w.out_bytes);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        const float nan_value = NAN;
        const uint16_t half_nan = 0x7e00;
        bool norm = strstr(tensors[i], "norm") != NULL;
        memcpy(w.out, whole, w.out_bytes);
        gguf_writer_memory_path(&w, path);
        patch(w.out, path, tensors[i], norm ? (const void *)&nan_value : &half_nan, norm ? 4 : 2);
        gguf_writer_memory_path(&w, path);
        both_fail(path, tensors[i], "cpu.tier=auto", (const int32_t[]){0, 1, 2, 3, 4}, 5);
    }
    free(whole);
    gguf_writer_free(&w);
}

/* The same through int8 activations, in every tier: a norm's weight, or the first block's scale, that is no
 * number. */
static void damaged_quantised_weights(void **state) {
    (void)state;
    static const char *const tensors[] = {
        "output_norm.weight",  "blk.0.attn_norm.weight", "blk.3.ffn_norm.weight",
        "blk.2.attn_q.weight", "blk.1.attn_k.weight",    "blk.4.attn_v.weight",
        "blk.5.ffn_up.weight", "blk.0.ffn_down.weight",  "token_embd.weight"};
    static const char *const tiers[] = {"cpu.tier=scalar", "cpu.tier=avx2", "cpu.tier=avx512",
                                        "cpu.tier=amx"};
    const float broken[2] = {NAN, INFINITY};
    const uint16_t broken_half[2] = {0x7e00, 0x7c00};
    size_t size = 0;
    uint8_t *whole = testing_read_file(DEMO, &size);
    uint8_t *data = malloc(size);
    assert_non_null(data);
    for (size_t i = 0; i < 2 * sizeof tensors / sizeof tensors[0]; i++) {
        const char *tensor = tensors[i / 2];
        bool norm = strstr(tensor, "norm") != NULL;
        memcpy(data, whole, size);
        patch(data, DEMO, tensor, norm ? (const void *)&broken[i % 2] : &broken_half[i % 2], norm ? 4 : 2);
        char path[] = "/tmp/stator-test-XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0 && write(fd, data, size) == (ssize_t)size);
        close(fd);
        enum kernels_tier tier = (enum kernels_tier)(i % (kernels_best_tier() + 1u));
        both_fail(path, tensor, tiers[tier], (const int32_t[]){0, 301, 302, 303, 304}, 5);
        unlink(path);
    }
    free(data);
    free(whole);
}

/* A plan that slices can't hold says what would fit, as one that memory can't hold does. */
static void beyond_slices(void **state) {
    (void)state;
    struct tiny_model m = tiny_model_of("llama");
    m.n_ff = 40000;
    m.n_layers = 1;
    struct gguf_writer w = gguf_writer_new();
    tiny_model_write(&w, m);
    gguf_writer_finish(&w);
    char path[GGUF_WRITER_PATH];
    gguf_writer_memory_path(&w, path);
    const char *sets[] = {"memory.batch=65536", "memory.host_limit=64GiB", NULL};
    stator *s = open_model(path, sets);
    REFUSED(STATOR_DOES_NOT_FIT, "batch", stator_plan(s, e));
    static char text[1 << 20];
    size_t n = 0;
    assert_int_equal(stator_plan_json(s, text, sizeof text, &n, NULL), STATOR_OK);
    assert_non_null(strstr(text, "\"fits\": false"));
    assert_non_null(strstr(text, "\"where\": \"cpu:0: scratch\""));
    assert_non_null(strstr(text, "\"slice_limit\": 4294901760,"));
    assert_non_null(strstr(text, "\"name\": \"kv\"")); /* the arenas are listed all the same */
    const char *at = strstr(text, "\"largest_batch\": ");
    assert_non_null(at);
    unsigned long largest = strtoul(at + strlen("\"largest_batch\": "), NULL, 10);
    print_message("largest batch %lu\n", largest);
    assert_true(largest > 0 && largest < 65536);
    REFUSED(STATOR_DOES_NOT_FIT, "batch", stator_start(s, e));
    stator_close(s);
    for (int more = 0; more < 2; more++) {
        char set[64];
        snprintf(set, sizeof set, "memory.batch=%lu", largest + (unsigned)more);
        const char *again[] = {set, "memory.host_limit=64GiB", NULL};
        s = open_model(path, again);
        assert_int_equal(stator_plan(s, NULL), more ? STATOR_DOES_NOT_FIT : STATOR_OK);
        stator_close(s);
    }
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(open_arguments),
                                       cmocka_unit_test(wrong_order),
                                       cmocka_unit_test(wrong_sizes),
                                       cmocka_unit_test(invalid_requests),
                                       cmocka_unit_test(biased),
                                       cmocka_unit_test(queue_full),
                                       cmocka_unit_test(many_sequences),
                                       cmocka_unit_test(cancel_one),
                                       cmocka_unit_test(poll_timeouts),
                                       cmocka_unit_test(logits_in_pieces),
                                       cmocka_unit_test(close_while_running),
                                       cmocka_unit_test(no_leak),
                                       cmocka_unit_test(report_grows),
                                       cmocka_unit_test(expected_plan),
                                       cmocka_unit_test(cancel_start),
                                       cmocka_unit_test(cancel_at_any_time),
                                       cmocka_unit_test(damaged_weights),
                                       cmocka_unit_test(damaged_quantised_weights),
                                       cmocka_unit_test(beyond_slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
