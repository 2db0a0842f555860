/* stator bench: one test. A prompt's rate is n / prompt_ns of a request, a generation's n / generate_ns: the
 * engine's own clock, on the path that every request takes. At depth the context is computed once and the
 * laps of one request follow, so its rate is what passed before the first lap; at depth 0 each repetition is
 * a request of its own. Sequences that generate together are timed from the step in which the last of them
 * began. */
#include "app/bench/bench.h"

#include "app/session.h"
#include "base/clock.h"
#include "base/error.h"
#include "stator_bench.h"

#include <stdlib.h>
#include <string.h>

#define SEED 1

/* What came of one request. */
struct lane {
    uint64_t id;
    bool done;
    uint32_t n_times;
    uint64_t *times; /* of its tokens; NULL: not wanted */
};

struct measuring {
    stator *s;
    const struct bench_test *test;
    struct bench_result *result; /* NULL: warming up */
    uint32_t vocab;
    uint32_t random;
    uint32_t depth;     /* tokens that the request's laps follow; 0: nothing to time */
    uint64_t submit_ns; /* when it was submitted */
    bool stopped;
    bool skips;  /* the first lap, which the others replay */
    bool off;    /* no draft tokens, whatever the config says */
    bool embeds; /* the model makes embeddings */
};

const char *bench_label(const struct bench_test *t, char out[BENCH_LABEL]) {
    int n = snprintf(out, BENCH_LABEL, "%s%u", t->generation ? "tg" : "pp", t->n);
    if (t->sequences > 1)
        n += snprintf(out + n, BENCH_LABEL - (size_t)n, " x%u", t->sequences);
    if (t->guesses > 0)
        n += snprintf(out + n, BENCH_LABEL - (size_t)n, " +%u a%.4g", t->guesses, t->accept);
    if (t->depth > 0)
        snprintf(out + n, BENCH_LABEL - (size_t)n, " @ d%u", t->depth);
    return out;
}

/* Steps that pass between the first and the last sequence's first token, at most: their prompts share the
 * batch with those that generate already. */
static uint64_t head_start(const struct bench_test *t, uint32_t batch) {
    if (t->sequences == 1 || (t->depth <= 1 && t->sequences <= batch))
        return 0;
    uint64_t tokens = (uint64_t)t->sequences * (t->depth > 0 ? t->depth : 1);
    return tokens / (batch > t->sequences ? batch - t->sequences : 1) + 2;
}

/* Generation at depth 0 begins after a prompt of one token. */
static uint32_t start_of(const struct bench_test *t) {
    return t->generation && t->depth == 0 ? 1 : t->depth;
}

uint64_t bench_context(const struct bench_test *t, uint32_t batch) {
    return (uint64_t)start_of(t) + t->n + head_start(t, batch);
}

bool bench_embeds(const stator_info *info) {
    return strcmp(info->pooling, "none") != 0;
}

double bench_tokens_per_turn(const struct bench_result *r) {
    const double tokens = (double)r->test.n * r->n_rates;
    return tokens > (double)r->n_kept ? tokens / (tokens - (double)r->n_kept) : 1;
}

static void random_ids(struct measuring *m, int32_t *ids, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        m->random = m->random * 1664525u + 1013904223u;
        ids[i] = (int32_t)((m->random >> 8) % m->vocab);
    }
}

static void take_figures(struct measuring *m, const stator_event *ev) {
    const struct bench_test *t = m->test;
    struct bench_result *r = m->result;
    uint64_t ns = t->generation ? ev->generate_ns : ev->prompt_ns;
    if (r == NULL || t->sequences > 1 || ns == 0)
        return;
    r->n_guessed = ev->n_guessed; /* of all rounds of the request, and only those have draft tokens */
    r->n_kept = ev->n_kept;
    if (m->depth > 0 && r->fill_rate == 0) {
        double fill_ns =
            (double)(clock_ns() - m->submit_ns) - (double)ev->prompt_ns - (double)ev->generate_ns;
        r->fill_rate = fill_ns > 0 ? m->depth / (fill_ns * 1e-9) : 0;
    }
    if (m->skips) {
        m->skips = false;
        return;
    }
    if (r->n_rates < BENCH_LAPS)
        r->rates[r->n_rates++] = t->n / ((double)ns * 1e-9);
}

/* Polls until all lanes are done. */
static stator_status collect(struct measuring *m, struct lane *lanes, uint32_t n, stator_error *e) {
    for (uint32_t left = n; left > 0;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        stator_status st = stator_poll(m->s, UINT64_MAX, &ev, &have, e);
        if (st != STATOR_OK)
            return st;
        struct lane *lane = lanes;
        while (lane < lanes + n && (!have || lane->id != ev.request))
            lane++;
        if (lane == lanes + n)
            continue;
        if (ev.kind == STATOR_EVENT_TOKEN) {
            if (lane->times != NULL)
                lane->times[lane->n_times++] = ev.time_ns;
            continue;
        }
        if (ev.kind == STATOR_EVENT_VECTOR)
            continue;
        if (ev.kind == STATOR_EVENT_DONE) {
            lane->done = true;
            left--;
        }
        if (ev.reason == STATOR_REASON_FAILED)
            return error_set(e, ev.status, "%s", ev.text);
        if (ev.reason == STATOR_REASON_CANCELLED)
            m->stopped = true;
        else
            take_figures(m, &ev);
    }
    return STATOR_OK;
}

static stator_status submit_text(struct measuring *m, const int32_t *ids, uint64_t n_ids, struct lane *lane,
                                 stator_error *e) {
    const stator_request q = {.size = sizeof q, .kind = STATOR_EMBED, .tokens = ids, .n_tokens = n_ids};
    return stator_submit(m->s, &q, &lane->id, e);
}

/* One request of the test's shape into a lane. */
static stator_status submit(struct measuring *m, const int32_t *ids, uint64_t n_ids, uint32_t depth,
                            uint32_t max_new, uint32_t laps, struct lane *lane, stator_error *e) {
    stator_request q = {
        .size = sizeof q,
        .kind = STATOR_GENERATE,
        .tokens = ids,
        .n_tokens = n_ids,
        .max_new = max_new,
        .ignore_eos = 1,
        .sampling = {.has = UINT32_MAX, .repeat_penalty = 1}, /* greedy, whatever the config says */
    };
    stator_bench b = {.size = sizeof b,
                      .n_depth = depth,
                      .laps = laps,
                      .guesses = m->skips ? STATOR_BENCH_REPLAY
                                 : m->off ? STATOR_BENCH_NO_GUESSES
                                          : STATOR_BENCH_AS_CONFIGURED,
                      .accept = (float)m->test->accept};
    stator_status st =
        m->embeds ? submit_text(m, ids, n_ids, lane, e) : stator_bench_submit(m->s, &q, &b, &lane->id, e);
    if (st == STATOR_OK && session_signal())
        stator_cancel(m->s, 0); /* it came before there was a request to cancel */
    return st;
}

/* One sequence: a request with all laps, or with one. */
static stator_status run_one(struct measuring *m, int32_t *ids, uint32_t laps, stator_error *e) {
    const struct bench_test *t = m->test;
    uint32_t start = start_of(t);
    uint32_t n_ids = t->generation ? start : start + t->n;
    /* The last token of the context is computed in every lap: out of it comes the first one that is fed back.
     */
    uint32_t depth = t->generation ? start - 1 : start;
    struct lane lane = {.id = 0};
    random_ids(m, ids, n_ids);
    m->depth = depth;
    m->submit_ns = clock_ns();
    stator_status st = submit(m, ids, n_ids, depth, t->generation ? t->n + 1 : 1, laps, &lane, e);
    return st == STATOR_OK ? collect(m, &lane, 1, e) : st;
}

/* Tokens per second from the step in which the last lane began, over n steps of that lane. */
static double shared_rate(const struct lane *lanes, uint32_t n_lanes, uint32_t n) {
    const struct lane *last = lanes;
    for (uint32_t i = 1; i < n_lanes; i++)
        if (lanes[i].times[0] > last->times[0])
            last = &lanes[i];
    uint64_t begin = last->times[0];
    uint64_t end = last->times[n];
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < n_lanes; i++)
        for (uint32_t k = 0; k < lanes[i].n_times; k++)
            tokens += lanes[i].times[k] > begin && lanes[i].times[k] <= end;
    return (double)tokens / ((double)(end - begin) * 1e-9);
}

/* All sequences at once. */
static stator_status run_shared(struct measuring *m, int32_t *ids, struct lane *lanes, uint64_t *times,
                                uint32_t batch, stator_error *e) {
    const struct bench_test *t = m->test;
    uint32_t start = start_of(t);
    uint32_t max_new = t->n + 1 + (uint32_t)head_start(t, batch);
    for (uint32_t i = 0; i < t->sequences; i++) {
        lanes[i] = (struct lane){.times = times + (uint64_t)i * max_new};
        random_ids(m, ids, start);
        stator_status st = submit(m, ids, start, 0, max_new, 1, &lanes[i], e);
        if (st != STATOR_OK)
            return st;
    }
    stator_status st = collect(m, lanes, t->sequences, e);
    if (st == STATOR_OK && !m->stopped && m->result != NULL)
        m->result->rates[m->result->n_rates++] = shared_rate(lanes, t->sequences, t->n);
    return st;
}

/* A few tokens of the same kind, so that no test pays for work that only the first step has. */
static stator_status warm_up(struct measuring *m, int32_t *ids, stator_error *e) {
    struct bench_test few = *m->test;
    struct measuring w = *m;
    if (few.generation && few.n > 8)
        few.n = 8;
    few.sequences = 1;
    few.depth = 0;
    w.test = &few;
    w.result = NULL;
    few.guesses = 0;
    few.accept = 0;
    stator_status st = run_one(&w, ids, 1, e);
    m->stopped = w.stopped;
    return st;
}

stator_status bench_run(stator *s, const struct bench_test *t, uint32_t laps, struct bench_result *r,
                        bool off, bool *stopped, stator_error *e) {
    stator_info info = {.size = sizeof info};
    stator_status st = stator_get_info(s, &info, e);
    if (st != STATOR_OK)
        return st;
    *r = (struct bench_result){.test = *t};
    struct measuring m = {.s = s,
                          .test = t,
                          .result = r,
                          .vocab = info.vocab,
                          .random = SEED,
                          .off = off,
                          .embeds = bench_embeds(&info)};
    uint64_t room = (uint64_t)t->sequences * (bench_context(t, info.batch) + 1);
    int32_t *ids = malloc((bench_context(t, info.batch) + 1) * sizeof *ids);
    struct lane *lanes = calloc(t->sequences, sizeof *lanes);
    uint64_t *times = t->sequences > 1 ? malloc(room * sizeof *times) : NULL;
    if (ids == NULL || lanes == NULL || (t->sequences > 1 && times == NULL))
        st = error_set(e, STATOR_FAILED, "no memory for the token ids of a test");
    if (st == STATOR_OK)
        st = warm_up(&m, ids, e);
    /* All rounds in one request; draft tokens are those of the round before. */
    bool once = (t->depth > 0 || t->guesses > 0) && t->sequences == 1;
    m.skips = t->guesses > 0;
    for (uint32_t i = 0; st == STATOR_OK && !m.stopped && i < (once ? 1 : laps); i++)
        st = t->sequences > 1 ? run_shared(&m, ids, lanes, times, info.batch, e)
                              : run_one(&m, ids, once ? laps + m.skips : 1, e);
    free(times);
    free(lanes);
    free(ids);
    *stopped = m.stopped;
    return st;
}
