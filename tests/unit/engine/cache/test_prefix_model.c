/* Reuse of prefixes against a model of a device (hash_device.h): branches, equal prompts, cancels at any
 * time, the context's end, draft tokens, evictions, a device that is lost in any step. */
#include "hash_device.h"

#include "engine_harness.h"
#include "hybrid_model.h"
#include "window_model.h"

#include "engine/engine.h"
#include "engine/cache/checkpoints.h"

enum { CONTEXT = 256, TEXTS = 10 };

struct request {
    uint64_t id; /* 0: none */
    uint32_t n, n_prompt, max_new;
    int32_t tokens[CONTEXT + 1];
    uint64_t hash;
};

struct play {
    uint64_t random;
    struct {
        uint32_t n;
        int32_t tokens[CONTEXT + 1];
    } texts[TEXTS];
    struct request r[RUNNING];
    uint32_t running, ended, cancelled, failed;
    uint64_t cached;
    bool twice; /* it begins with one prompt twice */
};

static uint32_t below(struct play *p, uint32_t n) {
    return (uint32_t)testing_below(&p->random, n);
}

/* A text there was, whole or in part, and something more; or what another has just asked. */
static void make_prompt(struct play *p, struct request *r) {
    const struct request *other = &p->r[below(p, RUNNING)];
    const uint32_t text = below(p, TEXTS + 2);
    uint32_t n = 0;
    if (other->id != 0 && below(p, 4) == 0) {
        r->n_prompt = r->n = other->n_prompt;
        memcpy(r->tokens, other->tokens, sizeof r->tokens);
        return;
    }
    if (text < TEXTS) {
        n = p->texts[text].n;
        n = n > 0 && below(p, 3) == 0 ? below(p, n) : n;
        memcpy(r->tokens, p->texts[text].tokens, n * sizeof *r->tokens);
    }
    uint32_t more = 1 + below(p, below(p, 2) ? 3 : 90);
    n = ARITH_MIN(n, (uint32_t)CONTEXT - 1);
    for (; more > 0 && n < CONTEXT - below(p, 2); more--)
        r->tokens[n++] = (int32_t)below(p, 4);
    r->n_prompt = r->n = n;
}

static void begin(stator *s, struct play *p, struct request *r) {
    r->hash = NO_TEXT;
    for (uint32_t i = 0; i < r->n; i++)
        r->hash = mix(r->hash, r->tokens[i]);
    stator_request q = {.size = sizeof q, .tokens = r->tokens, .n_tokens = r->n, .max_new = r->max_new};
    q.ignore_eos = 1;
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE, .temperature = 0};
    stator_error e = {0};
    if (stator_submit(s, &q, &r->id, &e) != STATOR_OK)
        fail_msg("submit: %s", e.text);
    p->running++;
}

static void submit(stator *s, struct play *p) {
    struct request *r = p->r;
    while (r->id != 0)
        r++;
    make_prompt(p, r);
    r->max_new = 1 + below(p, below(p, 4) ? 40 : CONTEXT);
    begin(s, p, r);
    if (below(p, 12) == 0)
        stator_cancel(s, r->id);
}

static void end(struct play *p, struct request *r, const stator_event *ev) {
    const uint32_t to = below(p, TEXTS);
    if (ev->reason == STATOR_REASON_LENGTH)
        assert_true(r->n - r->n_prompt == r->max_new || r->n == CONTEXT + 1);
    else if (ev->reason == STATOR_REASON_FAILED)
        assert_int_equal(ev->status, STATOR_DEVICE);
    else
        assert_int_equal(ev->reason, STATOR_REASON_CANCELLED);
    assert_true(ev->n_cached < r->n_prompt);
    p->cancelled += ev->reason == STATOR_REASON_CANCELLED;
    p->failed += ev->reason == STATOR_REASON_FAILED;
    p->cached += ev->n_cached;
    p->ended++;
    p->running--;
    p->texts[to].n = ARITH_MIN(r->n, (uint32_t)CONTEXT);
    memcpy(p->texts[to].tokens, r->tokens, sizeof r->tokens);
    r->id = 0;
}

static void take_event(stator *s, struct play *p) {
    stator_event ev = {.size = sizeof ev};
    int have = 0;
    assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
    if (!have)
        return;
    struct request *r = p->r;
    while (r < p->r + RUNNING && r->id != ev.request)
        r++;
    assert_true(r < p->r + RUNNING);
    if (ev.kind == STATOR_EVENT_DONE) {
        end(p, r, &ev);
        return;
    }
    assert_int_equal(ev.kind, STATOR_EVENT_TOKEN);
    assert_true(ev.position == r->n && r->n <= CONTEXT);
    if (ev.token != next_of(r->hash, r->tokens[r->n - 1]))
        fail_msg("request %llu says something else at %u", (unsigned long long)r->id, r->n);
    r->tokens[r->n++] = ev.token;
    r->hash = mix(r->hash, ev.token);
    if (below(p, 150) == 0)
        stator_cancel(s, r->id);
}

/* All ended: nobody holds or has reserved anything, each block is free or kept, each checkpoint that is used
 * belongs to a block that is kept. */
static void check_rest(stator *s) {
    const struct kv_pool *pool = &s->run.pool;
    assert_int_equal(s->run.reserved, 0);
    assert_true(kv_pool_is_whole(pool) && checkpoints_are_whole(s));
    assert_int_equal(pool->n_free + pool->n_cached, pool->n_blocks);
    for (uint32_t i = 0; i < pool->n_blocks; i++)
        assert_int_equal(pool->blocks[i].holders, 0);
    for (uint32_t i = 0; i < s->run.n_checkpoints; i++)
        assert_int_equal(s->run.checkpoints[i].holders, 0);
    for (uint32_t c = 0; c < s->planning.devices[0].graph.n_caches; c++)
        if (s->planning.devices[0].graph.caches[c].kind != GRAPH_PAGED)
            assert_int_equal(s->run.caches[c].n_free, s->planning.devices[0].model.caches[c].of_sequences);
}

/* One prompt twice, each alone: a hit, whoever meets whom in the rest of the play. */
static void ask_twice(stator *s, struct play *p) {
    struct request *r = p->r;
    for (uint32_t i = 0; i < 150; i++)
        r->tokens[i] = (int32_t)below(p, 4);
    for (uint32_t i = 0; i < 2 && p->failed == 0; i++) {
        r->n = r->n_prompt = 150;
        r->max_new = 3;
        begin(s, p, r);
        while (p->running > 0)
            take_event(s, p);
    }
}

/* `requests` of them, at most RUNNING at a time. */
static stator_stats play(const char *model, const char *const *sets, uint32_t requests, uint64_t seed,
                         struct play *p) {
    const bool twice = p->twice;
    memset(p, 0, sizeof *p);
    p->random = seed;
    fake.play = hash_device_step;
    stator *s = harness_start(model, sets);
    if (twice)
        ask_twice(s, p);
    for (uint32_t begun = 0; p->ended < requests && p->failed == 0;)
        if (begun < requests && p->running < RUNNING && below(p, 3) == 0) {
            submit(s, p);
            begun++;
        } else if (p->running > 0) {
            take_event(s, p);
        }
    while (p->running > 0)
        take_event(s, p);
    stator_stats t = {.size = sizeof t};
    assert_int_equal(stator_get_stats(s, &t, NULL), STATOR_OK);
    assert_int_equal(t.blocks_free, t.blocks);
    assert_int_equal(t.tokens_cached, p->cached);
    assert_int_equal(stator_stop(s, NULL), STATOR_OK);
    check_rest(s);
    stator_close(s);
    hash_device_forget();
    return t;
}

static int reset(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    return 0;
}

static const char *const uses[] = {"devices.use=fake:0", "devices.use=fake:0,fake:1",
                                   "devices.use=fake:0,fake:1,fake:2"};

/* Few and many blocks and checkpoints, chunks of all sizes, with guesses and without. */
static void play_all(const char *what, const char *model, uint32_t requests, bool copies) {
    static const char *const cases[][4] = {
        {"memory.batch=512", "memory.sequences=3", "server.checkpoints=auto", "speculation.mode=off"},
        {"memory.batch=40", "memory.sequences=6", "server.checkpoints=1", "speculation.mode=off"},
        {"memory.batch=33", "memory.sequences=1", "server.checkpoints=3", "speculation.mode=ngram"},
        {"memory.batch=90", "memory.sequences=4", "server.checkpoints=7", "speculation.mode=ngram"},
        {"memory.batch=64", "memory.sequences=5", "server.checkpoints=40", "speculation.mode=ngram"}};
    struct play *p = calloc(1, sizeof *p);
    uint64_t hits = 0, taken = 0, resumed = 0, evicted = 0, cancelled = 0;
    assert_non_null(p);
    for (size_t i = 0; i < 15; i++) {
        const char *const *c = cases[i % 5];
        const char *sets[] = {uses[i / 5],
                              c[0],
                              c[1],
                              c[2],
                              c[3],
                              "memory.context=256",
                              "cpu.threads=1",
                              "speculation.tokens=5",
                              NULL};
        const stator_stats t = play(model, sets, requests, i + 1, p);
        hits += t.prefix_hits;
        taken += t.checkpoints_taken;
        resumed += t.checkpoints_resumed;
        evicted += t.blocks_evicted;
        cancelled += p->cancelled;
    }
    /* How many depends on what meets whom. */
    const uint64_t all = 15ull * requests;
    if (hits * 60 < all || cancelled * 40 < all || evicted * 8 < all ||
        (copies && (taken * 8 < all || resumed < hits)))
        fail_msg("%s: of %llu %llu hits, %llu cancelled; %llu evicted, %llu taken, %llu resumed", what,
                 (unsigned long long)all, (unsigned long long)hits, (unsigned long long)cancelled,
                 (unsigned long long)evicted, (unsigned long long)taken, (unsigned long long)resumed);
    free(p);
}

static struct gguf_writer hybrid(uint32_t interval, char path[GGUF_WRITER_PATH]) {
    struct hybrid_model m = hybrid_model_usual();
    m.interval = interval;
    return hybrid_model_in_memory(m, path);
}

static void attention_alone(void **state) {
    (void)state;
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(1, path);
    play_all("attention", path, 30, false);
    gguf_writer_free(&w);
}

static void states(void **state) {
    (void)state;
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(2, path);
    play_all("states", path, 60, true);
    gguf_writer_free(&w);
}

static void windows(void **state) {
    (void)state;
    static const uint32_t cases[] = {1, 33, 200};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[SELFTEST_MODEL_PATH], what[32];
        snprintf(what, sizeof what, "window of %u", cases[i]);
        const int fd = window_model_make("gemma3", 4096, cases[i], path);
        play_all(what, path, 30, true);
        close(fd);
    }
}

/* In whatever step a device is lost, also in one that copies to or from a checkpoint: every request ends with
 * the error, and nothing is held any more. */
static void lost(void **state) {
    (void)state;
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(2, path);
    struct play *p = malloc(sizeof *p);
    uint64_t resumed = 0;
    assert_non_null(p);
    for (uint32_t i = 0; i < 40; i++) {
        const char *sets[] = {uses[i % 3],
                              "memory.batch=64",
                              "memory.sequences=4",
                              "memory.context=256",
                              "cpu.threads=1",
                              i % 2 ? "speculation.mode=ngram" : "speculation.mode=off",
                              NULL};
        fake.fault = FAKE_LOST;
        fake.device = i % 3;
        fake.nth = 6 * i + 1;
        p->twice = true;
        const stator_stats t = play(path, sets, 100000, 5, p);
        assert_true(p->failed > 0);
        resumed += t.checkpoints_resumed;
    }
    assert_true(resumed > 0);
    free(p);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(attention_alone, reset), cmocka_unit_test_setup(states, reset),
        cmocka_unit_test_setup(windows, reset), cmocka_unit_test_setup(lost, reset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
