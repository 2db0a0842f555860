/* The soak: random requests of several threads, cancelled, held, read slowly or at once, for
 * STATOR_SOAK_SECONDS (a few in `make test`, ten minutes in `make check-soak`). Every answer is compared with
 * that of a quiet engine; in the end nothing is left behind. */
#include "engine_harness.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define DEMO     "configs/demo.gguf"
#define KINDS    20
#define READERS  4  /* of these, logits requests */
#define MOST     80 /* tokens of a prompt, or of an answer */
#define THREADS  3
#define RECORDS  512 /* more than are there at a time */
#define VOCAB    2048
#define SLACK_NS 600000000000ull /* that no answer takes */

/* A kind of request, and what a quiet engine answers. */
struct kind {
    int32_t prompt[MOST];
    stator_request q;
    uint32_t n;
    int32_t token[MOST];
    float logprob[MOST];
    uint64_t top[MOST]; /* a hash of the likeliest, or of the row of logits */
};

static struct kind kinds[KINDS];

/* A request that is there. Who submits writes kind and cancelled, who polls the rest. */
struct record {
    _Atomic uint64_t id;
    _Atomic uint32_t kind; /* + 1, once it is known */
    _Atomic bool cancelled;
    uint32_t n;
    uint32_t wrong;
    int32_t token[MOST];
    float logprob[MOST];
    uint64_t top[MOST];
};

struct soak {
    stator *s;
    _Atomic bool stop;
    _Atomic uint64_t submitted, busy, cancels, holds, asked;
    uint64_t done, cancelled, rows, tokens;
    struct record records[RECORDS];
};

struct submitter {
    struct soak *soak;
    uint64_t random;
    const char *problem;
};

static uint64_t hash_of(const void *data, size_t n) {
    const uint32_t *word = data;
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < n / sizeof *word; i++)
        h = (h ^ word[i]) * 1099511628211ull;
    return h;
}

static void nap(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&t, NULL);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void note(const stator_event *ev, uint32_t *n, int32_t *token, float *logprob, uint64_t *top) {
    assert_true(*n < MOST);
    token[*n] = ev->kind == STATOR_EVENT_LOGITS ? (int32_t)ev->position : ev->token;
    logprob[*n] = ev->logprob;
    top[*n] = ev->kind == STATOR_EVENT_LOGITS ? hash_of(ev->logits, VOCAB * sizeof(float))
                                              : hash_of(ev->top, ev->n_top * sizeof ev->top[0]);
    ++*n;
}

static void make_kinds(uint64_t *random) {
    memset(kinds, 0, sizeof kinds);
    for (uint32_t i = 0; i < KINDS; i++) {
        struct kind *k = &kinds[i];
        size_t n = 1 + testing_below(random, i % 5 == 4 ? MOST : 12);
        for (size_t t = 0; t < n; t++)
            k->prompt[t] = (int32_t)testing_below(random, VOCAB);
        k->q = (stator_request){.size = sizeof k->q,
                                .kind = i < READERS ? STATOR_LOGITS : STATOR_GENERATE,
                                .tokens = k->prompt,
                                .n_tokens = n,
                                .max_new = 1 + (uint32_t)testing_below(random, i % 7 == 6 ? MOST : 16),
                                .ignore_eos = i % 2,
                                .logprobs = i >= READERS && i % 3 == 0,
                                .top_logprobs = i >= READERS && i % 3 == 0 ? i : 0};
        k->q.sampling = (stator_sampling){
            .has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED, .temperature = i % 4 == 0 ? 0 : 0.9f, .seed = i};
    }
}

static stator *start(bool two_devices) {
    const char *sets[] = {"memory.context=192",
                          "memory.sequences=4",
                          "memory.batch=24",
                          "memory.logits_rows=5",
                          "server.max_queue=5",
                          "cpu.threads=1",
                          two_devices ? "devices.use=cpu:0,cpu:1" : "devices.use=cpu:0",
                          NULL};
    return harness_start(DEMO, sets);
}

static void ask_quietly(stator *s) {
    for (uint32_t i = 0; i < KINDS; i++) {
        struct kind *k = &kinds[i];
        uint64_t id = 0;
        assert_int_equal(stator_submit(s, &k->q, &id, NULL), STATOR_OK);
        for (;;) {
            stator_event ev = {.size = sizeof ev};
            int have = 0;
            assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
            if (have && ev.kind == STATOR_EVENT_DONE)
                break;
            if (have)
                note(&ev, &k->n, k->token, k->logprob, k->top);
        }
    }
}

/* The calls that only look. */
static const char *look(stator *s, uint64_t id, uint64_t *random) {
    static const char text[] = "Tom had a red ball. \xC3\xA4 He ran to the tree.";
    stator_error e = {0};
    stator_stats t = {.size = sizeof t};
    stator_request_stats r = {.size = sizeof r};
    int32_t ids[128];
    size_t n = 0;
    char out[8192];
    size_t length = 0;
    stator_decoder d = {.size = sizeof d};
    switch (testing_below(random, 5)) {
    case 0:
        if (stator_get_stats(s, &t, &e) != STATOR_OK || t.blocks_free + t.blocks_held != t.blocks ||
            t.running + t.waiting + t.ended > t.capacity)
            return "stator_get_stats";
        break;
    case 1:
        if (stator_get_request(s, id, &r, &e) == STATOR_OK &&
            (r.n_computed > r.n_prompt || r.n_generated > r.max_new))
            return "stator_get_request";
        break;
    case 2:
        if (stator_tokenize(s, text, sizeof text - 1, 1, 1, ids, 128, &n, &e) != STATOR_OK)
            return "stator_tokenize";
        for (size_t i = 0; i < n; i++)
            if (stator_decode(s, &d, ids[i], 0, out, sizeof out, &length, &e) != STATOR_OK)
                return "stator_decode";
        break;
    case 3:
        if (stator_report_json(s, out, sizeof out, &n, &e) != STATOR_OK)
            return "stator_report_json";
        break;
    default:
        if (stator_hold(s, id + 1000000, 1, &e) != STATOR_USAGE)
            return "stator_hold";
        break;
    }
    return NULL;
}

static void *submit_all(void *context) {
    struct submitter *u = context;
    struct soak *k = u->soak;
    while (!atomic_load(&k->stop) && u->problem == NULL) {
        uint32_t kind = (uint32_t)testing_below(&u->random, KINDS);
        uint64_t id = 0;
        stator_error e = {0};
        stator_status st = stator_submit(k->s, &kinds[kind].q, &id, &e);
        if (st == STATOR_BUSY) {
            atomic_fetch_add(&k->busy, 1);
            nap(200000 + testing_below(&u->random, 2000000));
            continue;
        }
        if (st != STATOR_OK) {
            u->problem = "stator_submit";
            break;
        }
        atomic_fetch_add(&k->submitted, 1);
        struct record *r = &k->records[id % RECORDS];
        uint64_t what = testing_below(&u->random, 8);
        if (what < 2)
            atomic_store(&r->cancelled, true);
        atomic_store(&r->kind, kind + 1);
        if (what >= 1 && what < 4) {
            atomic_fetch_add(&k->holds, 1);
            (void)stator_hold(k->s, id, 1, NULL); /* it may have ended */
            nap(testing_below(&u->random, 20000000));
        }
        if (what < 2) {
            nap(testing_below(&u->random, 10000000));
            atomic_fetch_add(&k->cancels, 1);
            stator_cancel(k->s, id);
        } else if (what < 4) {
            (void)stator_hold(k->s, id, 0, NULL);
        }
        const char *wrong = look(k->s, id, &u->random);
        atomic_fetch_add(&k->asked, 1);
        u->problem = u->problem != NULL ? u->problem : wrong;
    }
    return NULL;
}

static void compare(struct soak *k, const struct record *r, const stator_event *ev) {
    const struct kind *kind = &kinds[atomic_load(&r->kind) - 1];
    bool cut = ev->reason == STATOR_REASON_CANCELLED;
    if (ev->reason == STATOR_REASON_FAILED)
        fail_msg("a request has failed: %s", ev->text);
    if (cut && !atomic_load(&r->cancelled))
        fail_msg("a request has ended that nobody has cancelled");
    if (cut ? r->n > kind->n : r->n != kind->n)
        fail_msg("%u events, not %u", r->n, kind->n);
    if (memcmp(r->token, kind->token, r->n * sizeof r->token[0]) != 0 ||
        memcmp(r->logprob, kind->logprob, r->n * sizeof r->logprob[0]) != 0 ||
        memcmp(r->top, kind->top, r->n * sizeof r->top[0]) != 0)
        fail_msg("kind %u says something else beside others", atomic_load(&r->kind) - 1);
    k->cancelled += cut;
}

static void take(struct soak *k, const stator_event *ev) {
    struct record *r = &k->records[ev->request % RECORDS];
    if (ev->kind != STATOR_EVENT_DONE) {
        note(ev, &r->n, r->token, r->logprob, r->top);
        k->rows += ev->kind == STATOR_EVENT_LOGITS;
        k->tokens += ev->kind == STATOR_EVENT_TOKEN;
        return;
    }
    while (atomic_load(&r->kind) == 0) /* the submit has not returned yet */
        nap(10000);
    compare(k, r, ev);
    k->done++;
    r->n = 0;
    atomic_store(&r->cancelled, false);
    atomic_store(&r->kind, 0);
}

static void run(bool two_devices, double seconds, uint64_t seed) {
    static struct soak k;
    memset(&k, 0, sizeof k);
    k.s = start(two_devices);
    int fd = stator_event_fd(k.s);
    struct submitter u[THREADS];
    pthread_t thread[THREADS];
    uint64_t random = seed;
    for (uint32_t i = 0; i < THREADS; i++) {
        u[i] = (struct submitter){.soak = &k, .random = testing_random(&random)};
        assert_int_equal(pthread_create(&thread[i], NULL, submit_all, &u[i]), 0);
    }
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    uint64_t last = now_ns();
    bool joined = false;
    while (!joined || k.done < atomic_load(&k.submitted)) {
        if (!joined && now_ns() >= end && k.done > 0) {
            atomic_store(&k.stop, true);
            joined = true; /* they end by themselves: none waits for an event */
            for (uint32_t i = 0; i < THREADS; i++)
                assert_int_equal(pthread_join(thread[i], NULL), 0);
        }
        bool wait_fd = testing_below(&random, 2);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (wait_fd)
            (void)poll(&p, 1, 20);
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        stator_error e = {0};
        if (stator_poll(k.s, wait_fd ? 0 : 20000000, &ev, &have, &e) != STATOR_OK)
            fail_msg("stator_poll: %s", e.text);
        if (have) {
            last = now_ns();
            if (testing_below(&random, 200) == 0)
                nap(testing_below(&random, 20000000)); /* with a row in hand, perhaps */
            take(&k, &ev);
        }
        if (now_ns() - last > SLACK_NS)
            fail_msg("no event has come for ten minutes: %llu submitted, %llu done",
                     (unsigned long long)atomic_load(&k.submitted), (unsigned long long)k.done);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        if (u[i].problem != NULL)
            fail_msg("%s went wrong", u[i].problem);
    stator_stats t = {.size = sizeof t};
    assert_int_equal(stator_get_stats(k.s, &t, NULL), STATOR_OK);
    assert_int_equal(t.running + t.waiting + t.ended, 0);
    assert_int_equal(t.blocks_free, t.blocks);
    assert_int_equal(t.requests, k.done);
    assert_int_equal(t.cancelled, k.cancelled);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    stator_event ev = {.size = sizeof ev};
    int have = 0;
    do { /* who rang last may come to the descriptor late */
        assert_int_equal(stator_poll(k.s, 0, &ev, &have, NULL), STATOR_OK);
        assert_int_equal(have, 0);
    } while (poll(&p, 1, 0) > 0);
    stator_close(k.s);
    print_message(
        "%d devices: %llu requests, %llu tokens, %llu rows; %llu of %llu cancels in time, %llu holds, "
        "%llu times busy, %llu questions\n",
        two_devices ? 2 : 1, (unsigned long long)k.done, (unsigned long long)k.tokens,
        (unsigned long long)k.rows, (unsigned long long)k.cancelled,
        (unsigned long long)atomic_load(&k.cancels), (unsigned long long)atomic_load(&k.holds),
        (unsigned long long)atomic_load(&k.busy), (unsigned long long)atomic_load(&k.asked));
    assert_true(k.done > 0);
}

static void soak(void **state) {
    (void)state;
    uint64_t random = testing_seed("soak");
    const char *text = getenv("STATOR_SOAK_SECONDS");
    double seconds = text != NULL ? strtod(text, NULL) : 4;
    make_kinds(&random);
    stator *s = start(false);
    ask_quietly(s);
    stator_close(s);
    run(false, seconds / 2, testing_random(&random));
    run(true, seconds / 2, testing_random(&random));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(soak)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
