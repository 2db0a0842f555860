#include "engine/draft/draft.h"

#include "base/clock.h"
#include "engine/run/step_fill.h"
#include "engine/run/step_writer.h"
#include "engine/run/trace.h"
#include "stator_bench.h"

#include <string.h>

#define LOOK_NS 1000000

/* A sequence's part of a step. */
struct draft_turn {
    struct engine_sequence *q;
    uint32_t n;    /* tokens */
    uint32_t want; /* draft tokens in all */
    bool row;      /* the last of them gives one */
    bool guess;    /* its one token is a draft, not of the text */
};

static const struct planning_device *part_of(const struct stator *s) {
    return &s->planning.devices[planning_draft_at(&s->planning)];
}

/* Tokens that a cache has room for. */
static uint32_t context_of(const struct stator *s, const struct planning_want *want) {
    return ARITH_MIN(want->context, s->planning.draft.shape->context_trained);
}

void draft_lay_out(struct stator *s, const struct planning_want *want, struct carve *c) {
    const uint32_t context = context_of(s, want);
    s->run.draft.rope_frequency =
        carve_take(c, graph_angles_stride(&part_of(s)->graph) / 2, sizeof *s->run.draft.rope_frequency);
    s->run.draft.turns = carve_take(c, want->sequences, sizeof *s->run.draft.turns);
    int32_t *held = carve_take(c, (uint64_t)want->sequences * context, sizeof *held);
    for (uint32_t i = 0; i < want->sequences && c->base != NULL; i++)
        s->run.sequences[i].speculation.draft = (struct draft_cache){.held = held + (size_t)i * context};
}

void draft_begin(struct draft_cache *d) {
    d->agreed = 0;
    d->at = d->n = 0;
}

uint32_t draft_guess(const struct draft_cache *d, uint32_t n_tokens, int32_t *out, uint32_t most) {
    const uint32_t n = d->at == n_tokens ? ARITH_MIN(most, d->n) : 0;
    memcpy(out, d->tokens, n * sizeof *out);
    return n;
}

/* Whether its next token is to be computed now, as step_fill_spare counts. */
static bool generates(const struct engine_sequence *q) {
    return step_fill_runs(q, STATOR_GENERATE) && q->done >= q->request->n_prompt &&
           q->done != q->request->n_tokens;
}

/* Whether the draft model has all tokens of the text that it is yet to see: its vocabulary may have less
 * padding than the model's. */
static bool knows_text(const struct stator *s, const struct engine_sequence *q) {
    const struct engine_request *r = q->request;
    for (uint32_t i = q->speculation.draft.agreed; i < r->n_tokens; i++)
        if ((uint32_t)r->tokens[i] >= s->planning.draft.shape->vocab)
            return false;
    return true;
}

/* Guesses that q is to have now; 0: none. */
static uint32_t wanted(const struct stator *s, struct engine_sequence *q, uint32_t share) {
    const struct draft_cache *d = &q->speculation.draft;
    const uint32_t n_tokens = q->request->n_tokens;
    const uint32_t context = context_of(s, &s->planning.want);
    const bool tried = d->at == n_tokens && (d->n > 0 || d->n_held >= n_tokens);
    if (tried || n_tokens > context || !knows_text(s, q))
        return 0;
    uint32_t most = ARITH_MIN(share, speculation_most(s, q));
    most = ARITH_MIN(most, outbox_spare(&q->request->out));
    most = ARITH_MIN(most, context + 1 - n_tokens); /* the last one is not computed with */
    if (q->request->guesses == STATOR_BENCH_REPLAY) {
        int32_t known[CONFIG_MOST_GUESSES];
        most = speculation_replay(s, q->request, known, most);
    }
    return most;
}

/* Takes the caches back to where q's text is another, or begins anew where they can't go back. Returns the
 * tokens of the text that they lack; the last one is computed again where they have all. */
static uint32_t go_back(const struct stator *s, struct engine_sequence *q) {
    const struct device_model *m = &part_of(s)->model;
    const struct engine_request *r = q->request;
    struct draft_cache *d = &q->speculation.draft;
    const uint32_t most = ARITH_MIN(d->n_held, r->n_tokens);
    while (d->agreed < most && d->held[d->agreed] == r->tokens[d->agreed])
        d->agreed++;
    uint32_t from = ARITH_MIN(ARITH_MIN(d->agreed, most), r->n_tokens - 1);
    if (s->planning.draft.has_states)
        from = d->known <= from ? d->known : 0;
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        const struct graph_cache *c = &m->graph->caches[i];
        if (c->kind != GRAPH_STATE && !graph_cache_rewinds(c, m->caches[i].per_sequence, d->reached, from))
            from = d->reached = 0;
    }
    d->n_held = d->agreed = d->known = from;
    d->at = r->n_tokens;
    d->n = 0;
    return r->n_tokens - from;
}

/* Who goes into the first step, with the shares that step_fill gives them: those that lack few tokens first.
 */
static uint32_t choose(struct stator *s) {
    const uint32_t all = s->planning.want.sequences;
    struct draft_turn *turns = s->run.draft.turns;
    uint32_t n_guessing = 0, n = 0, n_short = 0, taken = 0;
    uint32_t spare = step_fill_spare(s, &n_guessing);
    for (uint32_t k = 0; k < all && spare > 0; k++) {
        struct engine_sequence *q = &s->run.sequences[(s->run.next_sequence + k) % all];
        if (!generates(q))
            continue;
        CHECK(n_guessing > 0);
        const uint32_t want = wanted(s, q, spare / n_guessing--);
        if (want == 0)
            continue;
        spare -= want;
        turns[n] = (struct draft_turn){.q = q, .n = go_back(s, q), .want = want};
        if (turns[n].n <= CONFIG_MOST_GUESSES + 1) {
            const struct draft_turn one = turns[n];
            turns[n] = turns[n_short];
            turns[n_short++] = one;
        }
        n++;
    }
    for (uint32_t i = 0, room = s->planning.want.batch; i < n && room > 0; i++, taken++) {
        const uint32_t lacks = turns[i].n;
        turns[i].n = ARITH_MIN(lacks, room);
        turns[i].row = turns[i].n == lacks;
        room -= turns[i].n;
    }
    return taken;
}

/* A sequence's states, as its turn needs them: none behind the begin of a text, and a copy for drafts, which
 * the first of them makes. Returns the block. */
static uint32_t take_state(const struct stator *s, struct step_header *h, uint8_t *slot, uint32_t cache,
                           const struct draft_turn *t) {
    const struct draft_cache *d = &t->q->speculation.draft;
    const uint32_t own = (uint32_t)(t->q - s->run.sequences);
    const uint32_t copy = part_of(s)->model.caches[cache].of_sequences + own;
    CHECK(copy < part_of(s)->model.caches[cache].n_blocks);
    if (d->n_held == 0)
        step_writer_fill(h, slot, cache, own, STEP_ZEROS);
    else if (t->guess && d->n == 1)
        step_writer_fill(h, slot, cache, copy, own);
    return t->guess ? copy : own;
}

static void add_tables(const struct stator *s, struct step_header *h, uint8_t *slot,
                       const struct draft_turn *t) {
    const uint32_t sequence = (uint32_t)(t->q - s->run.sequences);
    for (uint32_t i = 0; i < h->n_caches; i++) {
        const uint32_t per_sequence = part_of(s)->model.caches[i].per_sequence;
        uint32_t *table =
            (uint32_t *)(void *)(slot + h->cache[i].at_tables) + (size_t)sequence * per_sequence;
        CHECK(h->cache[i].table_stride == per_sequence);
        for (uint32_t k = 0; k < per_sequence; k++)
            table[k] = sequence * per_sequence + k;
        if (s->planning.draft.has_states && part_of(s)->graph.caches[i].kind == GRAPH_STATE)
            table[0] = take_state(s, h, slot, i, t);
    }
}

static void add_turn(const struct stator *s, struct step_header *h, uint8_t *slot,
                     const struct draft_turn *t) {
    struct draft_cache *d = &t->q->speculation.draft;
    const struct engine_request *r = t->q->request;
    const uint32_t sequence = (uint32_t)(t->q - s->run.sequences);
    int32_t *tokens = (int32_t *)(void *)(slot + h->at_tokens) + h->n_tokens;
    struct step_chunk *chunks = (struct step_chunk *)(void *)(slot + h->at_chunks);
    CHECK(h->n_tokens + t->n <= s->planning.want.batch);
    CHECK(d->n_held + t->n <= context_of(s, &s->planning.want));
    CHECK(t->guess == (d->n > 0) && (!t->guess || t->n == 1));
    chunks[h->n_chunks++] =
        (struct step_chunk){.slot = sequence, .first = h->n_tokens, .n = t->n, .position = d->n_held};
    for (uint32_t i = 0; i < t->n; i++) {
        const uint32_t place = d->n_held + i;
        tokens[i] = place < r->n_tokens ? r->tokens[place] : d->tokens[place - r->n_tokens];
        d->held[place] = tokens[i];
        step_writer_angles(&part_of(s)->graph, s->run.draft.rope_frequency, h, slot, h->n_tokens + i,
                           step_writer_text(place));
    }
    add_tables(s, h, slot, t);
    h->n_tokens += t->n;
    d->n_held += t->n;
    d->known += t->guess ? 0 : t->n;
    d->reached = ARITH_MAX(d->reached, d->n_held);
    if (t->row)
        ((uint32_t *)(void *)(slot + h->at_rows))[h->n_rows++] = h->n_tokens - 1;
}

static stator_status wait(struct stator *s, struct device *device, uint32_t slot, uint64_t began,
                          stator_error *e) {
    for (bool ended = false; !ended;) {
        stator_status st = device->vtable->wait(device, slot, LOOK_NS, &ended, e);
        if (st != STATOR_OK)
            return st;
        if (!ended && clock_ns() - began > s->run.deadline_ns)
            return error_set(e, STATOR_DEVICE,
                             "%s: wait: a step of the draft model has not ended after %.1f s: the device or "
                             "its driver hangs",
                             part_of(s)->facts.name, (double)s->run.deadline_ns * 1e-9);
    }
    return STATOR_OK;
}

/* A step of n turns; *picks: of its rows. */
static stator_status run_step(struct stator *s, uint32_t n, const struct step_pick **picks, stator_error *e) {
    struct speculation_shown *shown = &s->shown.speculation;
    struct device *device = s->devices[planning_draft_at(&s->planning)].device;
    const uint32_t number = (uint32_t)(s->run.draft.step % part_of(s)->model.slots);
    uint8_t *slot = device->vtable->step_slot(device, number);
    struct step_header *h = (struct step_header *)(void *)slot;
    h->run_body = 1;
    h->n_tokens = h->n_chunks = h->n_rows = h->want_logits = 0;
    for (uint32_t i = 0; i < h->n_caches; i++)
        h->cache[i].n_fill = 0;
    for (uint32_t i = 0; i < n; i++)
        add_turn(s, h, slot, &s->run.draft.turns[i]);
    const struct engine_step step = {.number = s->run.draft.step,
                                     .at = planning_draft_at(&s->planning),
                                     .n_tokens = h->n_tokens,
                                     .n_rows = h->n_rows};
    const uint64_t began = clock_ns();
    stator_status st = device->vtable->submit(device, number, e);
    if (st == STATOR_OK)
        st = wait(s, device, number, began, e);
    if (st != STATOR_OK)
        return st;
    trace_step(s, &step);
    s->run.draft.step++;
    atomic_fetch_add(&shown->draft_steps, 1);
    atomic_fetch_add(&shown->draft_tokens, step.n_tokens);
    atomic_fetch_add(&shown->draft_ns, clock_ns() - began);
    *picks = device->vtable->picks(device, number);
    return STATOR_OK;
}

/* A draft token from a row. False: it is the last. */
static bool take(const struct stator *s, const struct draft_turn *t, const struct step_pick *pick) {
    struct draft_cache *d = &t->q->speculation.draft;
    const struct engine_request *r = t->q->request;
    int32_t token = pick->token;
    if (!pick->finite)
        return false;
    if (r->guesses == STATOR_BENCH_REPLAY) { /* at the cost of a draft token of its own */
        int32_t known[CONFIG_MOST_GUESSES];
        const uint32_t n = speculation_replay(s, r, known, d->n + 1);
        CHECK(n == d->n + 1);
        token = known[d->n];
    }
    if ((uint32_t)token >= s->planning.shape->vocab)
        return false;
    d->tokens[d->n++] = token;
    const bool ends = (!r->ignore_eos && s->tokenizer != NULL && tokenizer_is_end(s->tokenizer, token)) ||
                      (uint32_t)token >= s->planning.draft.shape->vocab;
    return d->n < t->want && !ends;
}

stator_status draft_run(struct stator *s, stator_error *e) {
    uint32_t n = choose(s);
    while (n > 0 && atomic_load_explicit(&s->front.stop, memory_order_acquire) == 0) {
        const struct step_pick *picks = NULL;
        stator_status st = run_step(s, n, &picks, e);
        if (st != STATOR_OK)
            return st;
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n; i++) {
            struct draft_turn t = s->run.draft.turns[i];
            if (!t.row || !take(s, &t, picks++))
                continue;
            t.n = 1;
            t.guess = true;
            s->run.draft.turns[kept++] = t;
        }
        n = kept;
    }
    return STATOR_OK;
}
