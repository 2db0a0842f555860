/* Random conversations on an engine that reuses prefixes, and each request again, alone, on one that does
 * not: the same tokens and log probabilities, bit by bit. */
#ifndef STATOR_TESTS_PREFIX_PLAY_H
#define STATOR_TESTS_PREFIX_PLAY_H

#include "engine_harness.h"

enum { PREFIX_PLAY_TOKENS = 256, PREFIX_PLAY_MOST = 160, PREFIX_PLAY_TEXTS = 12, PREFIX_PLAY_TOP = 3 };

/* Texts that are remembered; if there are fewer than usual, each is a long one from the begin, so that a
 * short play has something in common too, and answers are short. */
static uint32_t prefix_play_texts = PREFIX_PLAY_TEXTS;

struct prefix_play_token {
    int32_t token;
    float logprob;
    stator_logprob top[PREFIX_PLAY_TOP];
};

struct prefix_play_request {
    uint32_t n_prompt, max_new;
    int32_t prompt[PREFIX_PLAY_TOKENS];
    uint64_t seed;
    uint32_t cancel_at; /* tokens; 0: never */
    uint64_t id;
    uint32_t n, n_cached;
    bool done;
    stator_reason reason;
    struct prefix_play_token told[PREFIX_PLAY_TOKENS];
};

struct prefix_play {
    uint32_t vocab;
    uint64_t random;
    struct {
        uint32_t n;
        int32_t tokens[PREFIX_PLAY_TOKENS];
    } texts[PREFIX_PLAY_TEXTS];
    struct prefix_play_request *requests;
    uint32_t n;
    stator_stats stats; /* at the end of the play */
};

static inline void prefix_play_submit(stator *s, struct prefix_play_request *r) {
    stator_request q = {.size = sizeof q,
                        .tokens = r->prompt,
                        .n_tokens = r->n_prompt,
                        .max_new = r->max_new,
                        .ignore_eos = 1,
                        .logprobs = 1,
                        .top_logprobs = PREFIX_PLAY_TOP};
    q.sampling = (stator_sampling){
        .has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED, .temperature = 0.8f, .seed = r->seed};
    stator_error e = {0};
    if (stator_submit(s, &q, &r->id, &e) != STATOR_OK)
        fail_msg("submit: %s", e.text);
    r->n = 0;
    r->done = false;
}

static inline void prefix_play_collect(stator *s, struct prefix_play_request *r, uint32_t n) {
    for (uint32_t left = n; left > 0;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (!have)
            continue;
        struct prefix_play_request *x = r;
        while (x < r + n && x->id != ev.request)
            x++;
        assert_true(x < r + n && !x->done);
        if (ev.kind == STATOR_EVENT_TOKEN) {
            assert_true(x->n < PREFIX_PLAY_TOKENS);
            assert_int_equal(ev.position, x->n_prompt + x->n);
            struct prefix_play_token *t = &x->told[x->n++];
            memset(t, 0, sizeof *t);
            t->token = ev.token;
            t->logprob = ev.logprob;
            memcpy(t->top, ev.top, sizeof t->top);
            if (x->n == x->cancel_at)
                stator_cancel(s, x->id);
            continue;
        }
        x->done = true;
        x->reason = ev.reason;
        x->n_cached = ev.n_cached;
        if (ev.reason == STATOR_REASON_FAILED)
            fail_msg("%s", ev.text);
        assert_true(ev.n_cached < ev.n_prompt);
        left--;
    }
}

/* Of a text there is, or none, and a few tokens more. */
static inline void prefix_play_prompt(struct prefix_play *p, struct prefix_play_request *r) {
    uint32_t from = (uint32_t)testing_below(&p->random, prefix_play_texts + 2);
    uint32_t n = 0;
    if (from < prefix_play_texts && p->texts[from].n > 0) {
        n = p->texts[from].n;
        if (testing_below(&p->random, 3) == 0)
            n = (uint32_t)testing_below(&p->random, n + 1); /* a branch */
        memcpy(r->prompt, p->texts[from].tokens, n * sizeof *r->prompt);
    }
    uint32_t more = 1 + (uint32_t)testing_below(&p->random, testing_below(&p->random, 2) ? 3 : 60);
    n = n < PREFIX_PLAY_MOST ? n : PREFIX_PLAY_MOST;
    for (uint32_t i = 0; i < more; i++)
        r->prompt[n++] = (int32_t)testing_below(&p->random, p->vocab);
    r->n_prompt = n;
}

/* Up to 5 requests at a time; some with one prompt. */
static inline void prefix_play_round(stator *s, struct prefix_play *p) {
    uint32_t n = 1 + (uint32_t)testing_below(&p->random, 5);
    struct prefix_play_request *r = &p->requests[p->n];
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && testing_below(&p->random, 3) == 0) {
            r[i].n_prompt = r[i - 1].n_prompt;
            memcpy(r[i].prompt, r[i - 1].prompt, sizeof r[i].prompt);
        } else {
            prefix_play_prompt(p, &r[i]);
        }
        r[i].max_new =
            1 + (uint32_t)testing_below(&p->random, prefix_play_texts < PREFIX_PLAY_TEXTS ? 9 : 36);
        r[i].seed = testing_below(&p->random, 4);
        r[i].cancel_at =
            testing_below(&p->random, 5) == 0 ? 1 + (uint32_t)testing_below(&p->random, r[i].max_new) : 0;
        prefix_play_submit(s, &r[i]);
        if (testing_below(&p->random, 20) == 0) /* in its prompt, perhaps */
            stator_cancel(s, r[i].id);
    }
    prefix_play_collect(s, r, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t to = (uint32_t)testing_below(&p->random, prefix_play_texts);
        memcpy(p->texts[to].tokens, r[i].prompt, r[i].n_prompt * sizeof(int32_t));
        for (uint32_t k = 0; k < r[i].n; k++)
            p->texts[to].tokens[r[i].n_prompt + k] = r[i].told[k].token;
        p->texts[to].n = r[i].n_prompt + r[i].n;
    }
    p->n += n;
}

/* One prompt twice, each alone: a hit however the rounds went, whose hits depend on what is in flight with
 * what. The answer ends in its prompt's last block, so that a single checkpoint stays where the prompt has
 * it. */
static inline void prefix_play_again(stator *s, struct prefix_play *p) {
    struct prefix_play_request *r = &p->requests[p->n];
    for (uint32_t i = 0; i < PREFIX_PLAY_MOST - 10; i++)
        r->prompt[r->n_prompt++] = (int32_t)testing_below(&p->random, p->vocab);
    r->max_new = 3;
    r[1] = r[0];
    for (uint32_t i = 0; i < 2; i++) {
        prefix_play_submit(s, &r[i]);
        prefix_play_collect(s, &r[i], 1);
    }
    assert_true(r[1].n_cached > 0);
    p->n += 2;
}

/* The play on an engine with `sets`, the same alone on one with `plain`, which must say the same. Returns
 * the tokens that were not computed. */
static inline uint64_t prefix_play(const char *what, const char *model, const char *const *sets,
                                   const char *const *plain, uint32_t rounds, struct prefix_play *p) {
    stator *s = harness_start(model, sets);
    memset(p, 0, sizeof *p);
    p->random = 11;
    p->vocab = harness_vocab(s);
    p->requests = calloc(5 * (size_t)rounds + 2, sizeof *p->requests);
    assert_non_null(p->requests);
    for (uint32_t i = 0; prefix_play_texts < PREFIX_PLAY_TEXTS && i < prefix_play_texts; i++)
        while (p->texts[i].n < 110)
            p->texts[i].tokens[p->texts[i].n++] = (int32_t)testing_below(&p->random, p->vocab);
    while (rounds-- > 0)
        prefix_play_round(s, p);
    prefix_play_again(s, p);
    p->stats = (stator_stats){.size = sizeof p->stats};
    assert_int_equal(stator_get_stats(s, &p->stats, NULL), STATOR_OK);
    assert_int_equal(p->stats.blocks_free, p->stats.blocks);
    stator_close(s);
    s = harness_start(model, plain);
    uint64_t cached = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        struct prefix_play_request *r = &p->requests[i], again = *r;
        again.cancel_at = 0;
        prefix_play_submit(s, &again);
        prefix_play_collect(s, &again, 1);
        assert_int_equal(again.n_cached, 0);
        assert_true(r->n == again.n || (r->n < again.n && r->reason == STATOR_REASON_CANCELLED));
        if (memcmp(r->told, again.told, r->n * sizeof *r->told) != 0)
            fail_msg("%s: request %u of %u (%u tokens, %u of them cached) says something else", what, i, p->n,
                     r->n_prompt, r->n_cached);
        cached += r->n_cached;
    }
    stator_close(s);
    free(p->requests);
    assert_int_equal(cached, p->stats.tokens_cached);
    return cached;
}

#endif
