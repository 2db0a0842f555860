/* What a server does to an engine: it waits on a descriptor, submits, cancels, tokenizes and asks from
 * several threads, and has readers that do not read. Everybody else goes on, with the tokens that they would
 * have alone. */
#include "engine_harness.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define DEMO  "configs/demo.gguf"
#define LIMIT 120000 /* ms that nothing here takes */

static const char *const small[] = {"memory.context=512", "memory.batch=32", "memory.sequences=3",
                                    "cpu.threads=1", NULL};
static const int32_t prompt[] = {0, 658, 737, 260, 444};
#define N_PROMPT (sizeof prompt / sizeof prompt[0])

static bool readable(int fd, int timeout_ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = poll(&p, 1, timeout_ms);
    assert_true(n >= 0);
    return n == 1;
}

static bool next(stator *s, stator_event *ev) {
    int have = 0;
    *ev = (stator_event){.size = sizeof *ev};
    stator_error e = {0};
    if (stator_poll(s, 0, ev, &have, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return have != 0;
}

/* Nothing is there. Who rang may come to the descriptor after its event was polled: one look too many. */
static void is_quiet(stator *s, int fd) {
    stator_event ev;
    do
        assert_false(next(s, &ev));
    while (readable(fd, 0));
}

static void must_come(stator *s, stator_event *ev) {
    int have = 0;
    *ev = (stator_event){.size = sizeof *ev};
    assert_int_equal(stator_poll(s, LIMIT * 1000000ull, ev, &have, NULL), STATOR_OK);
    assert_int_equal(have, 1);
}

/* The descriptor is readable as long as there is an event, however they are fetched. */
static void descriptor(void **state) {
    (void)state;
    stator_options o = {.size = sizeof o, .config = DEMO, .set = small, .n_set = 4};
    stator *s = NULL;
    assert_int_equal(stator_event_fd(NULL), -1);
    assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
    assert_int_equal(stator_event_fd(s), -1);
    assert_int_equal(stator_start(s, NULL), STATOR_OK);
    struct harness_text alone = {.id = harness_submit(s, prompt, N_PROMPT, 40, 0.8f, 4)};
    harness_collect(s, &alone, 1);
    /* Asked for when there are events already. */
    uint64_t id = harness_submit(s, prompt, N_PROMPT, 1, 0, 0);
    stator_event ev;
    must_come(s, &ev);
    int fd = stator_event_fd(s);
    assert_true(fd > 0);
    assert_int_equal(stator_event_fd(s), fd);
    do
        assert_true(readable(fd, LIMIT)); /* the end */
    while (!next(s, &ev));
    assert_true(ev.kind == STATOR_EVENT_DONE && ev.request == id);
    is_quiet(s, fd);
    /* One event for each time it is readable. */
    id = harness_submit(s, prompt, N_PROMPT, 40, 0.8f, 4);
    uint32_t n = 0;
    for (bool done = false; !done;) {
        assert_true(readable(fd, LIMIT));
        if (!next(s, &ev))
            continue;
        if (ev.kind == STATOR_EVENT_TOKEN)
            assert_int_equal(ev.token, alone.ids[n++]);
        done = ev.kind == STATOR_EVENT_DONE;
    }
    assert_int_equal(n, 40);
    /* All that are there each time. */
    id = harness_submit(s, prompt, N_PROMPT, 40, 0.8f, 4);
    n = 0;
    for (bool done = false; !done;) {
        assert_true(readable(fd, LIMIT));
        while (next(s, &ev)) {
            if (ev.kind == STATOR_EVENT_TOKEN)
                assert_int_equal(ev.token, alone.ids[n++]);
            done = ev.kind == STATOR_EVENT_DONE;
        }
    }
    assert_int_equal(n, 40);
    is_quiet(s, fd);
    stator_close(s);
}

/* A held request stops when its buffer is full, with everybody else going on; it goes on where it was. */
static void held(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    int fd = stator_event_fd(s);
    struct harness_text alone = {.id = harness_submit(s, prompt, N_PROMPT, 300, 0.8f, 4)};
    harness_collect(s, &alone, 1);
    uint64_t slow = harness_submit(s, prompt, N_PROMPT, 300, 0.8f, 4);
    stator_error e = {0};
    assert_int_equal(stator_hold(s, slow, 1, &e), STATOR_OK);
    assert_int_equal(stator_hold(s, slow + 1000, 1, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "there is no request"));
    assert_int_equal(stator_hold(s, 0, 1, &e), STATOR_USAGE);
    assert_int_equal(stator_hold(NULL, slow, 1, &e), STATOR_USAGE);
    uint32_t n = 0;
    stator_event ev;
    while (next(s, &ev)) /* what came before the hold */
        assert_int_equal(ev.token, alone.ids[n++]);
    for (int i = 0; i < 3; i++) {
        struct harness_text t = {.id = harness_submit(s, prompt, N_PROMPT, 300, 0.8f, 4)};
        harness_collect(s, &t, 1); /* fails on an event of another request */
        assert_int_equal(t.n, 300);
        assert_memory_equal(t.ids, alone.ids, sizeof(int32_t) * 300);
    }
    is_quiet(s, fd);
    assert_int_equal(stator_hold(s, slow, 0, NULL), STATOR_OK);
    assert_int_equal(stator_hold(s, slow, 0, NULL), STATOR_OK); /* it is not held any more */
    assert_true(readable(fd, LIMIT)); /* who rang before may still be about to write to it */
    /* What was buffered is there at once, and is less than all. */
    uint32_t at_once = 0;
    while (next(s, &ev)) {
        assert_int_equal(ev.token, alone.ids[n++]);
        if (++at_once == 62)
            break;
    }
    assert_int_equal(at_once, 62);
    for (must_come(s, &ev); ev.kind != STATOR_EVENT_DONE; must_come(s, &ev))
        assert_int_equal(ev.token, alone.ids[n++]);
    assert_int_equal(n, 300);
    /* A held one that is cancelled comes to its end. */
    slow = harness_submit(s, prompt, N_PROMPT, 300, 0.8f, 4);
    assert_int_equal(stator_hold(s, slow, 1, NULL), STATOR_OK);
    stator_cancel(s, slow);
    do
        must_come(s, &ev);
    while (ev.kind != STATOR_EVENT_DONE);
    assert_int_equal(ev.reason, STATOR_REASON_CANCELLED);
    assert_int_equal(stator_hold(s, slow, 1, &e), STATOR_USAGE);
    stator_close(s);
}

/* Rows of logits that nobody reads hold up neither texts nor other rows; then all of them come, with the same
 * bits, in spite of what was given up. With one device and several. */
static void slow_rows(void **state) {
    (void)state;
    const char *two[] = {"memory.context=512", "memory.batch=32",         "memory.sequences=3",
                         "cpu.threads=1",      "devices.use=cpu:0,cpu:1", NULL};
    int32_t ids[90];
    for (int i = 0; i < 90; i++)
        ids[i] = (i * 37) % 2048;
    for (int round = 0; round < 2; round++) {
        stator *s = harness_start(DEMO, round == 0 ? small : two);
        float *rows = harness_logits(s, ids, 90);
        struct harness_text alone = {.id = harness_submit(s, prompt, N_PROMPT, 100, 0.8f, 4)};
        harness_collect(s, &alone, 1);
        stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = 90};
        uint64_t slow = 0;
        assert_int_equal(stator_submit(s, &q, &slow, NULL), STATOR_OK);
        stator_event ev;
        must_come(s, &ev);
        assert_int_equal(ev.kind, STATOR_EVENT_LOGITS);
        uint32_t at = 1;
        /* Its chunk is under way and has nowhere to go: others end all the same. */
        assert_int_equal(stator_hold(s, slow, 1, NULL), STATOR_OK);
        struct harness_text t = {.id = harness_submit(s, prompt, N_PROMPT, 100, 0.8f, 4)};
        harness_collect(s, &t, 1);
        assert_memory_equal(t.ids, alone.ids, sizeof(int32_t) * 100);
        float *beside = harness_logits(s, ids, 90);
        assert_memory_equal(beside, rows, sizeof(float) * 90 * 2048);
        free(beside);
        assert_int_equal(stator_hold(s, slow, 0, NULL), STATOR_OK);
        uint64_t text = harness_submit(s, prompt, N_PROMPT, 100, 0.8f, 4);
        uint32_t n = 0;
        for (int done = 0; done < 2;) {
            must_come(s, &ev);
            done += ev.kind == STATOR_EVENT_DONE;
            if (ev.kind == STATOR_EVENT_TOKEN) {
                assert_int_equal(ev.request, text);
                assert_int_equal(ev.token, alone.ids[n++]);
            } else if (ev.kind == STATOR_EVENT_LOGITS) {
                assert_int_equal(ev.request, slow);
                assert_int_equal(ev.position, at);
                assert_memory_equal(ev.logits, rows + at++ * 2048, sizeof(float) * 2048);
            }
        }
        assert_int_equal(at, 90);
        assert_int_equal(n, 100);
        free(rows);
        stator_close(s);
    }
}

/* A row that was polled stays as it is while others are computed. */
static void row_in_hand(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    int32_t ids[40];
    for (int i = 0; i < 40; i++)
        ids[i] = (i * 37) % 2048;
    float *rows = harness_logits(s, ids, 40);
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = 40};
    uint64_t id = 0;
    assert_int_equal(stator_submit(s, &q, &id, NULL), STATOR_OK);
    harness_submit(s, prompt, N_PROMPT, 50, 0, 0);
    struct timespec pause = {.tv_nsec = 2000000};
    for (int done = 0; done < 2;) {
        stator_event ev;
        must_come(s, &ev);
        done += ev.kind == STATOR_EVENT_DONE;
        if (ev.kind != STATOR_EVENT_LOGITS)
            continue;
        nanosleep(&pause, NULL);
        assert_memory_equal(ev.logits, rows + ev.position * 2048, sizeof(float) * 2048);
    }
    free(rows);
    stator_close(s);
}

/* Several threads submit, tokenize, decode and ask; one polls. */
enum { THREADS = 4, EACH = 12 };

struct caller {
    stator *s;
    uint64_t seed;
    uint32_t answered; /* requests that were taken */
    uint32_t busy;
};

static _Atomic uint64_t ids_of[THREADS * EACH]; /* by seed */

static void *call(void *context) {
    struct caller *c = context;
    static const char text[] = "Once upon a time, there was a little fox named Pip.";
    int32_t ids[64];
    size_t n = 0;
    for (uint32_t i = 0; i < EACH; i++) {
        if (stator_tokenize(c->s, text, sizeof text - 1 - i, 0, 0, ids, 64, &n, NULL) != STATOR_OK)
            return NULL;
        char out[4096];
        char back[4096];
        size_t length = 0;
        stator_decoder d = {.size = sizeof d};
        for (size_t k = 0; k < n; k++) {
            size_t more = 0;
            if (stator_decode(c->s, &d, ids[k], 0, out, sizeof out, &more, NULL) != STATOR_OK)
                return NULL;
            memcpy(back + length, out, more);
            length += more;
        }
        if (length != sizeof text - 1 - i || memcmp(back, text, length) != 0)
            return NULL;
        char *report = malloc(65536);
        if (report == NULL || stator_report_json(c->s, report, 65536, &n, NULL) != STATOR_OK)
            return NULL;
        free(report);
        stator_request q = {.size = sizeof q,
                            .kind = STATOR_GENERATE,
                            .tokens = prompt,
                            .n_tokens = N_PROMPT,
                            .max_new = 20,
                            .ignore_eos = 1};
        uint64_t seed = c->seed + i;
        q.sampling = (stator_sampling){
            .has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED, .temperature = 0.9f, .seed = seed};
        uint64_t id = 0;
        stator_status st = STATOR_BUSY;
        while ((st = stator_submit(c->s, &q, &id, NULL)) == STATOR_BUSY) {
            struct timespec pause = {.tv_nsec = 1000000};
            nanosleep(&pause, NULL);
            c->busy++;
        }
        if (st != STATOR_OK)
            return NULL;
        atomic_store(&ids_of[seed], id);
        c->answered++;
        if (i % 4 == 3)
            stator_cancel(c->s, id);
    }
    return c;
}

static void threads(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=64", "memory.batch=32",    "memory.sequences=2",
                          "cpu.threads=1",     "server.max_queue=3", NULL};
    static int32_t expected[THREADS * EACH][20];
    static struct harness_text got[THREADS * EACH];
    memset(got, 0, sizeof got);
    stator *s = harness_start(DEMO, sets);
    for (uint64_t i = 0; i < THREADS * EACH; i++) {
        struct harness_text t = {.id = harness_submit(s, prompt, N_PROMPT, 20, 0.9f, i)};
        harness_collect(s, &t, 1);
        memcpy(expected[i], t.ids, sizeof expected[i]);
    }
    pthread_t thread[THREADS];
    struct caller c[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        c[i] = (struct caller){.s = s, .seed = i * EACH};
        assert_int_equal(pthread_create(&thread[i], NULL, call, &c[i]), 0);
    }
    uint32_t n_got = 0;
    for (uint32_t done = 0; done < THREADS * EACH;) {
        stator_event ev;
        must_come(s, &ev);
        struct harness_text *t = got;
        while (t < got + n_got && t->id != ev.request)
            t++;
        if (t == got + n_got)
            (n_got++, t->id = ev.request);
        if (ev.kind == STATOR_EVENT_TOKEN)
            t->ids[t->n++] = ev.token;
        else
            done++, t->reason = ev.reason;
    }
    uint32_t cancelled = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(thread[i], &result), 0);
        assert_ptr_equal(result, &c[i]);
        assert_int_equal(c[i].answered, EACH);
        print_message("thread %u was told %u times that the queue is full\n", i, c[i].busy);
    }
    for (uint32_t seed = 0; seed < THREADS * EACH; seed++) {
        const struct harness_text *t = got;
        while (t < got + n_got && t->id != atomic_load(&ids_of[seed]))
            t++;
        assert_true(t < got + n_got);
        assert_memory_equal(t->ids, expected[seed], sizeof(int32_t) * t->n);
        cancelled += t->reason == STATOR_REASON_CANCELLED;
        assert_true(t->reason == STATOR_REASON_CANCELLED ? seed % 4 == 3 : t->n == 20);
    }
    print_message("%u of %u were cancelled in time\n", cancelled, THREADS * EACH / 4);
    stator_close(s);
}

static void *poll_long(void *context) {
    stator_event ev = {.size = sizeof ev};
    int have = 0;
    while (stator_poll(context, UINT64_MAX, &ev, &have, NULL) != STATOR_OK)
        ; /* the other one was there first */
    return NULL;
}

static void two_pollers(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, poll_long, s), 0);
    stator_event ev = {.size = sizeof ev};
    int have = 0;
    stator_error e = {0};
    while (stator_poll(s, 1000, &ev, &have, &e) == STATOR_OK)
        ;
    assert_non_null(strstr(e.text, "another thread"));
    uint64_t id = harness_submit(s, prompt, N_PROMPT, 1, 0, 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    must_come(s, &ev);
    assert_int_equal(ev.request, id);
    assert_int_equal(ev.kind, STATOR_EVENT_DONE);
    stator_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(descriptor), cmocka_unit_test(held),
                                       cmocka_unit_test(slow_rows),  cmocka_unit_test(row_in_hand),
                                       cmocka_unit_test(threads),    cmocka_unit_test(two_pollers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
