#include "engine/draft/speculation.h"

#include "engine/engine.h"
#include "engine/draft/nextn.h"
#include "stator_bench.h"

#include <string.h>

#define PATIENCE    2 /* misses in a row without a rest */
#define LAST_DOUBLE 6 /* a rest has at most 2^6 steps */

void speculation_lay_out(struct stator *s, const struct planning_want *want, struct carve *c) {
    const enum config_speculation mode = s->planning.config.speculation.mode;
    if (want->guesses > 0 && mode == CONFIG_SPECULATION_DRAFT)
        draft_lay_out(s, want, c);
    const bool ngrams = want->guesses > 0 && mode == CONFIG_SPECULATION_NGRAM;
    for (uint32_t i = 0; i < want->sequences && ngrams; i++) {
        struct ngram g;
        ngram_lay_out(&g, c, want->context);
        if (c->base != NULL)
            s->run.sequences[i].speculation.ngram = g;
    }
}

void speculation_pace_begin(struct speculation_pace *p, uint32_t tokens) {
    *p = (struct speculation_pace){.most = tokens};
}

void speculation_pace_step(struct speculation_pace *p, uint32_t tokens, uint32_t n, uint32_t kept) {
    CHECK(kept <= n);
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

static void begin_ngram(struct engine_sequence *q) {
    ngram_clear(&q->speculation.ngram);
}

static uint32_t guess_ngram(struct stator *s, struct engine_sequence *q, int32_t *out, uint32_t most) {
    (void)s;
    return ngram_guess(&q->speculation.ngram, q->request->tokens, q->request->n_tokens, out, most);
}

static void begin_ahead(struct engine_sequence *q) {
    q->speculation.n_ahead = 0;
}

static uint32_t guess_ahead(struct stator *s, struct engine_sequence *q, int32_t *out, uint32_t most) {
    (void)s;
    const struct speculation *g = &q->speculation;
    const uint32_t n = g->ahead_of == q->request->n_tokens ? ARITH_MIN(g->n_ahead, most) : 0;
    CHECK(n <= CONFIG_MOST_GUESSES);
    memcpy(out, g->ahead, n * sizeof *out);
    return n;
}

static void begin_draft(struct engine_sequence *q) {
    draft_begin(&q->speculation.draft);
}

static uint32_t guess_draft(struct stator *s, struct engine_sequence *q, int32_t *out, uint32_t most) {
    (void)s;
    return draft_guess(&q->speculation.draft, q->request->n_tokens, out, most);
}

static const struct speculation_guesser guessers[] = {
    [CONFIG_SPECULATION_NGRAM] = {.begin = begin_ngram, .guess = guess_ngram},
    [CONFIG_SPECULATION_MTP] = {.begin = begin_ahead, .follow = nextn_follow, .guess = guess_ahead},
    [CONFIG_SPECULATION_DRAFT] = {.begin = begin_draft,
                                  .ready = draft_run,
                                  .replays = true,
                                  .guess = guess_draft},
};

/* NULL: there are no draft tokens. */
static const struct speculation_guesser *guesser_of(const struct stator *s) {
    const enum config_speculation mode = s->planning.config.speculation.mode;
    if (s->planning.want.guesses == 0)
        return NULL;
    CHECK((uint32_t)mode < sizeof guessers / sizeof guessers[0] && guessers[mode].guess != NULL);
    return &guessers[mode];
}

void speculation_begin(const struct stator *s, struct engine_sequence *q) {
    const struct speculation_guesser *g = guesser_of(s);
    q->speculation.n = q->speculation.kept = q->speculation.unseen = 0;
    q->speculation.pace = (struct speculation_pace){0};
    if (g != NULL)
        speculation_pace_begin(&q->speculation.pace, s->planning.want.guesses);
    if (g != NULL && g->begin != NULL)
        g->begin(q);
}

stator_status speculation_follow(struct stator *s, struct engine_step *step, stator_error *e) {
    const struct speculation_guesser *g = guesser_of(s);
    return g != NULL && g->follow != NULL ? g->follow(s, step, e) : STATOR_OK;
}

stator_status speculation_ready(struct stator *s, stator_error *e) {
    const struct speculation_guesser *g = guesser_of(s);
    return g != NULL && g->ready != NULL ? g->ready(s, e) : STATOR_OK;
}

uint32_t speculation_replay(const struct stator *s, const struct engine_request *r, int32_t *out,
                            uint32_t most) {
    const uint32_t known = r->n_replayed > r->n_tokens ? r->n_replayed - r->n_tokens : 0;
    const uint32_t n = ARITH_MIN(most, known);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t token = r->tokens[r->n_tokens + i];
        const bool right = sampler_random(r->laps, r->n_tokens + i) < r->accept;
        out[i] = right ? token : (token + 1) % (int32_t)s->planning.shape->vocab;
    }
    return n;
}

/* Place of speculation_loads.of. */
static uint32_t load_at(uint32_t sequences) {
    return ARITH_MIN(ARITH_MAX(sequences, 1u), (uint32_t)SPECULATION_LOADS) - 1;
}

/* One sequence alone has its pace instead. */
static bool load_allows(const struct stator *s, uint32_t sequences) {
    return sequences <= 1 || speculation_load_drafts(&s->run.loads.of[load_at(sequences)]);
}

bool speculation_may_draft(struct stator *s, uint32_t sequences) {
    s->run.loads.now = sequences;
    return load_allows(s, sequences);
}

/* Time counts from the delivery before, if that step was of the same kind. */
void speculation_time(struct stator *s, const struct engine_step *step, uint64_t tokens) {
    struct speculation_loads *l = &s->run.loads;
    const bool same = step->generating == l->generating && step->drafts == l->drafts;
    if (s->planning.want.guesses > 0 && step->generating > 1 && same &&
        step->drafts == load_allows(s, step->generating))
        speculation_load_step(&l->of[load_at(step->generating)], tokens, s->run.step_ns - l->at_ns);
    l->generating = step->generating;
    l->drafts = step->drafts;
    l->at_ns = s->run.step_ns;
}

uint32_t speculation_most(const struct stator *s, const struct engine_sequence *q) {
    const struct engine_request *r = q->request;
    const struct speculation_pace *p = &q->speculation.pace;
    if (s->planning.want.guesses == 0 || p->rest > 0 || r->guesses == STATOR_BENCH_NO_GUESSES)
        return 0;
    if (r->guesses != STATOR_BENCH_REPLAY && !load_allows(s, s->run.loads.now))
        return 0;
    /* Of n + 1 tokens that may come the last is not computed with. */
    const uint32_t left = r->n_prompt + r->max_new - r->n_tokens;
    CHECK(left > 0 && q->capacity >= r->n_tokens);
    return ARITH_MIN(p->most, ARITH_MIN(left - 1, q->capacity - r->n_tokens));
}

uint32_t speculation_guess(struct stator *s, struct engine_sequence *q, uint32_t most) {
    const struct engine_request *r = q->request;
    struct speculation *g = &q->speculation;
    most = ARITH_MIN(most, speculation_most(s, q));
    if (most == 0)
        g->n = 0;
    else if (r->guesses == STATOR_BENCH_REPLAY && !guesser_of(s)->replays)
        g->n = speculation_replay(s, r, g->tokens, most);
    else
        g->n = guesser_of(s)->guess(s, q, g->tokens, most);
    CHECK(g->n <= most);
    g->n = constraint_drafts(s, r, g->tokens, g->n);
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
    CHECK(k > 0 && k <= q->speculation.n);
    atomic_fetch_add(&s->shown.speculation.kept[k - 1], 1);
    atomic_fetch_add(&q->request->shown.n_kept, 1);
}

void speculation_learn(struct stator *s, struct engine_sequence *q, uint32_t n, uint32_t kept) {
    CHECK(kept <= n);
    q->speculation.kept = kept;
    speculation_pace_step(&q->speculation.pace, s->planning.want.guesses, n, kept);
}
