#include "engine/run/speculation.h"

#include "engine/engine.h"
#include "stator_bench.h"

#define PATIENCE    2 /* misses in a row without a rest */
#define LAST_DOUBLE 6 /* a rest has at most 2^6 steps */

void speculation_lay_out(struct stator *s, const struct planning_want *want, struct carve *c) {
    for (uint32_t i = 0; i < want->sequences && want->guesses > 0; i++) {
        struct ngram g;
        ngram_lay_out(&g, c, want->context);
        if (c->base != NULL)
            s->sequences[i].speculation.ngram = g;
    }
}

void speculation_pace_begin(struct speculation_pace *p, uint32_t tokens) {
    *p = (struct speculation_pace){.most = tokens};
}

void speculation_pace_step(struct speculation_pace *p, uint32_t tokens, uint32_t n, uint32_t kept) {
    if (n == 0) {
        p->rest -= p->rest > 0;
    } else if (kept > 0) {
        p->misses = 0;
        p->most = ARITH_MIN(tokens, 2 * ARITH_MAX(kept, p->most));
    } else {
        p->misses += p->misses < PATIENCE + LAST_DOUBLE;
        p->most = ARITH_MAX(p->most / 2, 1u);
        p->rest = p->misses > PATIENCE ? 1u << (p->misses - PATIENCE) : 0;
    }
}

void speculation_begin(struct engine_sequence *q) {
    q->speculation.n = 0;
    q->speculation.pace = (struct speculation_pace){0};
    if (q->speculation.ngram.newest != NULL)
        ngram_clear(&q->speculation.ngram);
}

/* What a lap of a benchmark had before, for a share of the guesses. */
static uint32_t replay(const struct stator *s, const struct engine_request *r, int32_t *out, uint32_t most) {
    const uint32_t known = r->n_replayed > r->n_tokens ? r->n_replayed - r->n_tokens : 0;
    const uint32_t n = ARITH_MIN(most, known);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t token = r->tokens[r->n_tokens + i];
        const bool right = sampler_random(r->laps, r->n_tokens + i) < r->accept;
        out[i] = right ? token : (token + 1) % (int32_t)s->planning.shape->vocab;
    }
    return n;
}

uint32_t speculation_guess(struct stator *s, struct engine_sequence *q, uint32_t most) {
    const struct engine_request *r = q->request;
    struct speculation *g = &q->speculation;
    g->n = 0;
    if (g->pace.most == 0)
        speculation_pace_begin(&g->pace, s->planning.want.guesses);
    /* Of n + 1 tokens that may come the last is not computed with. */
    const uint32_t left = r->n_prompt + r->max_new - r->n_tokens;
    most = ARITH_MIN(ARITH_MIN(most, g->pace.most), ARITH_MIN(left - 1, q->capacity - r->n_tokens));
    if (g->pace.rest > 0 || r->guesses == STATOR_BENCH_NO_GUESSES)
        return 0;
    if (r->guesses == STATOR_BENCH_REPLAY)
        g->n = replay(s, r, g->tokens, most);
    else
        g->n = ngram_guess(&g->ngram, r->tokens, r->n_tokens, g->tokens, most);
    return g->n;
}

void speculation_test(struct stator *s, struct engine_sequence *q) {
    struct speculation_shown *shown = &s->shown.speculation;
    CHECK(q->speculation.n <= s->planning.want.guesses);
    for (uint32_t i = 0; i < q->speculation.n; i++)
        atomic_fetch_add(&shown->guessed[i], 1);
    atomic_fetch_add(&shown->turns, q->done > q->request->n_prompt);
    atomic_fetch_add(&q->request->shown.n_guessed, q->speculation.n);
}

void speculation_keep(struct stator *s, struct engine_sequence *q, uint32_t k) {
    atomic_fetch_add(&s->shown.speculation.kept[k - 1], 1);
    atomic_fetch_add(&q->request->shown.n_kept, 1);
}

void speculation_learn(struct stator *s, struct engine_sequence *q, uint32_t n, uint32_t kept) {
    CHECK(kept <= n);
    speculation_pace_step(&q->speculation.pace, s->planning.want.guesses, n, kept);
}
