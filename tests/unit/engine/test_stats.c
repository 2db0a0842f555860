/* What an engine says of itself while it works, and the log probabilities of tokens. */
#include "engine_harness.h"

#include <math.h>

#define DEMO  "configs/demo.gguf"
#define VOCAB 2048

static const int32_t prompt[] = {0, 658, 737, 260, 444};
#define N_PROMPT (sizeof prompt / sizeof prompt[0])

static void must_come(stator *s, stator_event *ev) {
    int have = 0;
    *ev = (stator_event){.size = sizeof *ev};
    while (!have)
        assert_int_equal(stator_poll(s, UINT64_MAX, ev, &have, NULL), STATOR_OK);
}

static stator_stats stats_of(stator *s) {
    stator_stats t = {.size = sizeof t};
    assert_int_equal(stator_get_stats(s, &t, NULL), STATOR_OK);
    return t;
}

static stator_request_stats request_of(stator *s, uint64_t id) {
    stator_request_stats t = {.size = sizeof t};
    assert_int_equal(stator_get_request(s, id, &t, NULL), STATOR_OK);
    return t;
}

/* What the map of the blocks shows as held is what the figures say, once both are of one moment. */
static void taken_is_what_the_map_shows(stator *s) {
    static stator_block list[64];
    stator_stats before, after;
    size_t n = 0, held = 0;
    do {
        before = stats_of(s);
        assert_int_equal(stator_get_blocks(s, 0, 0, list, 64, &n, NULL), STATOR_OK);
        after = stats_of(s);
    } while (before.steps != after.steps || before.blocks_taken != after.blocks_taken);
    for (size_t i = 0; i < n; i++)
        held += list[i].state == STATOR_BLOCK_HELD;
    assert_true(held == after.blocks_taken && held > 0 && held < after.blocks_held);
}

/* Two run and are held, so that they stand still where they are full; two wait. */
static void counted(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=256", "memory.batch=32",    "memory.sequences=2",
                          "cpu.threads=1",      "server.max_queue=3", NULL};
    stator_options o = {.size = sizeof o, .config = DEMO, .set = sets, .n_set = 5};
    stator *s = NULL;
    stator_error e = {0};
    stator_stats t = {.size = sizeof t};
    stator_request_stats r = {.size = sizeof r};
    assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
    assert_int_equal(stator_get_stats(s, &t, &e), STATOR_USAGE);
    assert_int_equal(stator_get_request(s, 1, &r, &e), STATOR_USAGE);
    assert_int_equal(stator_start(s, NULL), STATOR_OK);
    t = stats_of(s);
    assert_int_equal(t.capacity, 5);
    assert_int_equal(t.block_tokens, 32);
    assert_int_equal(t.blocks, 16);
    assert_int_equal(t.blocks_free, 16);
    assert_int_equal(t.running + t.waiting + t.ended + t.requests + t.steps + t.tokens_in + t.stuck_ns, 0);
    uint64_t id[4];
    for (uint32_t i = 0; i < 4; i++) {
        id[i] = harness_submit(s, prompt, N_PROMPT, 150, 0, 0);
        assert_int_equal(stator_hold(s, id[i], 1, NULL), STATOR_OK);
    }
    /* An event of before the hold would be polled here: none is. */
    do {
        t = stats_of(s);
        assert_int_equal(t.running + t.waiting, 4);
    } while (t.running < 2 || request_of(s, id[0]).events < 63 || request_of(s, id[1]).events < 63);
    t = stats_of(s);
    assert_int_equal(t.waiting, 2);
    assert_int_equal(t.blocks_held, 10);
    taken_is_what_the_map_shows(s);
    assert_int_equal(t.blocks_free, 6);
    assert_int_equal(t.blocks_peak, 10);
    assert_int_equal(t.tokens_in, 2 * N_PROMPT);
    r = request_of(s, id[0]);
    assert_int_equal(r.state, STATOR_RUNNING);
    assert_int_equal(r.kind, STATOR_GENERATE);
    assert_int_equal(r.held, 1);
    assert_int_equal(r.blocks, 5);
    assert_true(r.blocks_taken >= 2 && r.blocks_taken < 5);
    assert_int_equal(r.n_prompt, N_PROMPT);
    assert_int_equal(r.n_computed, N_PROMPT);
    assert_int_equal(r.n_generated, r.events);
    assert_int_equal(r.max_new, 150);
    assert_true(r.steps >= r.n_generated - 1 && r.step_ns >= r.last_step_ns && r.last_step_ns > 0);
    assert_true(r.prompt_ns > 0 && r.generate_ns > 0);
    r = request_of(s, id[3]);
    assert_int_equal(r.state, STATOR_WAITING);
    assert_int_equal(r.blocks + r.n_computed + r.n_generated + r.events, 0);
    assert_true(r.queue_ns > 0);
    assert_true(r.prompt_ns == 0 && r.generate_ns == 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(stator_hold(s, id[i], 0, NULL), STATOR_OK);
    uint32_t done = 0;
    stator_event ev;
    for (must_come(s, &ev); done < 4; done < 4 ? must_come(s, &ev) : (void)0) {
        if (ev.kind != STATOR_EVENT_DONE)
            continue;
        done++;
        assert_int_equal(stator_get_request(s, ev.request, &r, &e), STATOR_USAGE);
        assert_non_null(strstr(e.text, "there is no request"));
        if (ev.request == id[3])
            assert_true(ev.queue_ns > 0);
    }
    uint64_t last = harness_submit(s, prompt, N_PROMPT, 0, 0, 0);
    stator_cancel(s, last);
    while (request_of(s, last).state != STATOR_ENDED)
        ;
    t = stats_of(s);
    assert_int_equal(t.ended, 1);
    assert_int_equal(t.running + t.waiting, 0);
    assert_int_equal(t.blocks_free, 16);
    assert_int_equal(t.blocks_taken, 0);
    do
        must_come(s, &ev);
    while (ev.kind != STATOR_EVENT_DONE);
    t = stats_of(s);
    assert_int_equal(t.ended, 0);
    assert_int_equal(t.requests, 5);
    assert_int_equal(t.cancelled, 1);
    assert_int_equal(t.failed, 0);
    assert_true(t.tokens_out >= 600);
    assert_true(t.steps >= 300 && t.step_ns >= t.longest_step_ns && t.longest_step_ns >= t.last_step_ns);
    assert_true(t.queue_ns > 0);
    assert_int_equal(t.fault, STATOR_OK);
    stator_close(s);
}

/* A reader that waits is no device that hangs. */
static void reader_is_not_stuck(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=64", "memory.batch=32", "cpu.threads=1", NULL};
    stator *s = harness_start(DEMO, sets);
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = prompt, .n_tokens = N_PROMPT};
    uint64_t id = 0;
    assert_int_equal(stator_submit(s, &q, &id, NULL), STATOR_OK);
    while (request_of(s, id).events < 2 || stats_of(s).stuck_ns != 0)
        ;
    stator_cancel(s, id);
    stator_close(s);
}

struct told {
    int32_t token;
    float logprob;
    uint32_t n_top;
    stator_logprob top[STATOR_TOP_LOGPROBS];
};

enum { TOKENS = 24 };

static void tell(stator *s, float temperature, uint32_t top, struct told *out) {
    stator_request q = {.size = sizeof q,
                        .tokens = prompt,
                        .n_tokens = N_PROMPT,
                        .max_new = TOKENS,
                        .ignore_eos = 1,
                        .logprobs = 1,
                        .top_logprobs = top};
    q.sampling =
        (stator_sampling){.has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED | STATOR_HAS_REPEAT_PENALTY,
                          .temperature = temperature,
                          .repeat_penalty = 1.3f,
                          .seed = 3};
    uint64_t id = 0;
    uint64_t beside = harness_submit(s, prompt + 1, 3, 10, 0.7f, 9);
    assert_int_equal(stator_submit(s, &q, &id, NULL), STATOR_OK);
    uint32_t n = 0;
    for (uint32_t done = 0; done < 2;) {
        stator_event ev;
        must_come(s, &ev);
        done += ev.kind == STATOR_EVENT_DONE;
        if (ev.kind == STATOR_EVENT_TOKEN && ev.request == beside)
            assert_true(ev.n_top == 0 && ev.logprob == 0);
        if (ev.kind != STATOR_EVENT_TOKEN || ev.request != id)
            continue;
        memset(&out[n], 0, sizeof out[n]);
        out[n].token = ev.token;
        out[n].logprob = ev.logprob;
        out[n].n_top = ev.n_top;
        memcpy(out[n++].top, ev.top, sizeof ev.top);
    }
    assert_int_equal(n, TOKENS);
}

/* As the definition says, computed another way from the rows of a logits request; the same bits in every tier
 * and batch. */
static void logprobs(void **state) {
    (void)state;
    const char *tiers[] = {"cpu.tier=auto", "cpu.tier=scalar"};
    const char *batches[] = {"memory.batch=64", "memory.batch=3"};
    struct told first[TOKENS];
    struct told told[TOKENS];
    for (int i = 0; i < 4; i++) {
        const char *sets[] = {"memory.context=64", "memory.sequences=2", "cpu.threads=1",
                              tiers[i % 2],        batches[i / 2],       NULL};
        stator *s = harness_start(DEMO, sets);
        tell(s, 0.8f, STATOR_TOP_LOGPROBS, told);
        if (i == 0)
            memcpy(first, told, sizeof told);
        assert_memory_equal(told, first, sizeof told);
        if (i > 0) {
            stator_close(s);
            continue;
        }
        int32_t ids[N_PROMPT + TOKENS];
        memcpy(ids, prompt, sizeof prompt);
        for (uint32_t k = 0; k < TOKENS; k++)
            ids[N_PROMPT + k] = told[k].token;
        float *rows = harness_logits(s, ids, N_PROMPT + TOKENS);
        double worst = 0;
        for (uint32_t k = 0; k < TOKENS; k++) {
            const float *row = rows + (N_PROMPT - 1 + k) * VOCAB;
            long double sum = 0;
            for (uint32_t v = 0; v < VOCAB; v++)
                sum += expl(row[v]);
            double off = fabs((double)(row[told[k].token] - logl(sum)) - (double)told[k].logprob);
            worst = off > worst ? off : worst;
            assert_int_equal(told[k].n_top, STATOR_TOP_LOGPROBS);
            for (uint32_t j = 0; j < STATOR_TOP_LOGPROBS; j++) {
                off = fabs((double)(row[told[k].top[j].token] - logl(sum)) - (double)told[k].top[j].logprob);
                worst = off > worst ? off : worst;
                uint32_t better = 0;
                for (uint32_t v = 0; v < VOCAB; v++)
                    better += row[v] > row[told[k].top[j].token] ||
                              (row[v] == row[told[k].top[j].token] && (int32_t)v < told[k].top[j].token);
                assert_int_equal(better, j);
            }
        }
        print_message("log probabilities are off by %.2g at most\n", worst);
        assert_true(worst < 2e-6);
        free(rows);
        /* Few, none, greedy: the same figures. */
        tell(s, 0.8f, 3, told);
        for (uint32_t k = 0; k < TOKENS; k++) {
            assert_int_equal(told[k].n_top, 3);
            assert_true(told[k].logprob == first[k].logprob);
            assert_memory_equal(told[k].top, first[k].top, 3 * sizeof(stator_logprob));
        }
        tell(s, 0, 0, told);
        for (uint32_t k = 0; k < TOKENS; k++)
            assert_true(told[k].n_top == 0 && told[k].logprob < 0);
        assert_true(told[0].logprob == first[0].logprob || told[0].token != first[0].token);
        stator_request q = {.size = sizeof q, .tokens = prompt, .n_tokens = N_PROMPT, .top_logprobs = 1};
        stator_error e = {0};
        assert_int_equal(stator_check(s, &q, &e), STATOR_USAGE);
        assert_non_null(strstr(e.text, "request.top_logprobs 1"));
        q.logprobs = 1;
        assert_int_equal(stator_check(s, &q, &e), STATOR_OK);
        q.top_logprobs = STATOR_TOP_LOGPROBS + 1;
        assert_int_equal(stator_check(s, &q, &e), STATOR_USAGE);
        q.top_logprobs = 0;
        q.kind = STATOR_LOGITS;
        assert_int_equal(stator_check(s, &q, &e), STATOR_USAGE);
        stator_close(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counted), cmocka_unit_test(reader_is_not_stuck),
                                       cmocka_unit_test(logprobs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
