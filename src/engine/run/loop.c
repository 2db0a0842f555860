/* The engine's main loop. It keeps the pipeline full (pipeline.c) and hands each step's results to its
 * requests.
 *
 * Invariants: between seal and shutdown nothing here allocates or waits for a reader. A request slot is
 * touched only between its submit command and its end. A sequence ends only when no step in flight carries
 * it. */
#include "engine/run/loop.h"

#include "base/clock.h"
#include "engine/run/balance.h"
#include "engine/cache/kv_disk.h"
#include "engine/cache/kv_moves.h"
#include "engine/cache/kv_slots.h"
#include "engine/run/pipeline.h"
#include "engine/run/pooling.h"
#include "engine/cache/sequences.h"
#include "engine/run/step_fill.h"
#include "kernels/kernels.h"
#include "stator_bench.h"

#include <stdio.h>
#include <string.h>

#define ASK_NS   1000000ull   /* longest sleep while the other ranks are asked for their audits */
#define MOVE_NS  50000ull     /* while a GPU copies blocks beside steps */
#define PULSE_NS 500000000ull /* longest sleep of an idle run over several hosts */

static bool stopping(const struct stator *s) {
    /* acquire: the caller's reads of our devices come before the devices are closed. */
    return atomic_load_explicit(&s->front.stop, memory_order_acquire) != 0;
}

static void tell(struct stator *s, struct engine_request *r, const struct outbox_event *ev) {
    CHECK(r >= s->front.requests && r < s->front.requests + s->front.n_requests);
    outbox_push(&r->out, ev);
    bell_ring(&s->front.bell, (uint32_t)(r - s->front.requests));
}

/* The fields that the events LAP and DONE share. Also adds to the totals of the report. */
static struct outbox_event figures(struct stator *s, const struct engine_request *r, stator_event_kind kind,
                                   stator_reason reason, uint64_t prompt_ns, uint64_t generate_ns) {
    CHECK(r->n_depth <= r->n_prompt && r->n_tokens >= r->n_prompt);
    uint64_t queued_until = atomic_load(&r->shown.admitted_ns);
    if (queued_until == 0)
        queued_until = clock_ns();
    struct outbox_event ev = {.kind = kind,
                              .reason = reason,
                              .queue_ns = queued_until - r->submitted_ns,
                              .prompt_ns = prompt_ns,
                              .generate_ns = generate_ns,
                              .n_prompt = r->n_prompt - r->n_depth,
                              .n_generated = r->n_tokens - r->n_prompt,
                              .n_cached = atomic_load(&r->shown.n_cached),
                              .n_guessed = atomic_load(&r->shown.n_guessed),
                              .n_kept = atomic_load(&r->shown.n_kept),
                              .slot = r->slot};
    if (r->slots.action != ACTION_NOT) { /* nothing was computed */
        ev.n_cached = r->slots.tokens;
        ev.n_bytes = r->slots.bytes;
        return ev;
    }
    atomic_fetch_add(&s->served.prompt_tokens, ev.n_prompt - ev.n_cached);
    atomic_fetch_add(&s->served.prompt_ns, prompt_ns);
    atomic_fetch_add(&s->served.generated_tokens, ev.n_generated);
    atomic_fetch_add(&s->served.generate_ns, generate_ns);
    return ev;
}

/* Copies the devices' counters to where the report reads them. */
static void publish_counters(struct stator *s) {
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++) {
        struct engine_device *d = &s->devices[i];
        struct device_counters c;
        d->device->vtable->counters(d->device, &c);
        atomic_store(&d->submits, c.submits);
        atomic_store(&d->kernels_executed, c.kernels_executed);
        atomic_store(&d->direct_bytes, c.direct_bytes);
        atomic_store(&d->staged_bytes, c.staged_bytes);
        atomic_store(&d->copied_bytes, c.copied_bytes);
        atomic_store(&d->away_ns, c.away_ns);
        atomic_store(&d->streamed_bytes, c.streamed_bytes);
        atomic_store(&d->helped_rows, c.helped_rows);
        atomic_store(&d->helped_ns, c.helped_ns);
        atomic_store(&d->slot_rows, c.slot_rows);
        atomic_store(&d->slot_copies, c.slot_copies);
    }
}

static void emit_done(struct stator *s, struct engine_request *r, uint64_t prompt_ns, uint64_t generate_ns,
                      stator_reason reason, stator_status status, const char *text) {
    CHECK(atomic_load(&r->id) != 0); /* a free slot has no request that could end */
    struct outbox_event ev = figures(s, r, STATOR_EVENT_DONE, reason, prompt_ns, generate_ns);
    ev.status = status;
    atomic_fetch_add(&s->served.requests, 1);
    atomic_fetch_add(&s->shown.cancelled, reason == STATOR_REASON_CANCELLED);
    atomic_fetch_add(&s->shown.failed, reason == STATOR_REASON_FAILED);
    atomic_store(&r->shown.ended_ns, clock_ns());
    publish_counters(s);
    outbox_end(&r->out, &ev, text);
    bell_ring(&s->front.bell, (uint32_t)(r - s->front.requests));
}

static void finish(struct stator *s, struct engine_sequence *q, stator_reason reason, stator_status status,
                   const char *text) {
    uint64_t now = clock_ns();
    struct engine_request *r = q->request;
    uint64_t prompt_end = q->prompt_done_ns != 0 ? q->prompt_done_ns : now;
    uint64_t prompt_ns = q->began_ns != 0 ? prompt_end - q->began_ns : 0;
    uint64_t generate_ns = q->prompt_done_ns != 0 ? now - q->prompt_done_ns : 0;
    kv_slots_note(s, q);
    sequences_release(s, q);
    emit_done(s, r, prompt_ns, generate_ns, reason, status, text);
}

/* The sequence has reached its end. If a benchmark wants more rounds, the sequence goes back to its depth and
 * begins the next round. */
static void end_lap(struct stator *s, struct engine_sequence *q, stator_reason reason) {
    struct engine_request *r = q->request;
    if (r->laps <= 1) {
        finish(s, q, reason, STATOR_OK, "");
        return;
    }
    CHECK(q->prompt_done_ns != 0);
    struct outbox_event ev = figures(s, r, STATOR_EVENT_LAP, reason, q->prompt_done_ns - q->began_ns,
                                     clock_ns() - q->prompt_done_ns);
    r->laps--;
    r->n_replayed = r->n_tokens;
    r->n_tokens = r->n_prompt;
    sequences_rewind(s, q, r->n_depth);
    q->began_ns = q->prompt_done_ns = 0;
    atomic_store(&r->shown.prompt_done_ns, 0);
    atomic_store(&r->shown.n_tokens, r->n_tokens);
    tell(s, r, &ev);
}

/* An action with a slot has ended. */
static stator_reason end_of(const struct engine_request *r, stator_status *status) {
    const bool good = r->slots.failure[0] == '\0';
    *status = good ? STATOR_OK : STATOR_FAILED;
    return good ? STATOR_REASON_LENGTH : STATOR_REASON_FAILED;
}

static void take_commands(struct stator *s) {
    struct engine_command c;
    stator_status status;
    while (ring_pop(s->front.commands, &c)) {
        CHECK(s->run.n_waiting < s->front.n_requests && c.submit < s->front.n_requests);
        struct engine_request *r = &s->front.requests[c.submit];
        CHECK(atomic_load(&r->id) != 0); /* the request was submitted and has not ended */
        if (r->slots.action == ACTION_NOT || !kv_slots_take(s, r)) {
            s->run.waiting[s->run.n_waiting++] = c.submit;
            continue;
        }
        const stator_reason reason = end_of(r, &status);
        emit_done(s, r, 0, 0, reason, status, r->slots.failure);
    }
}

/* Ends sequences that were cancelled or have failed, once no step in flight carries them. */
static void drop_ended(struct stator *s) {
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        struct engine_sequence *q = &s->run.sequences[i];
        if (q->request == NULL || q->flights > 0 || kv_disk_holds(q))
            continue;
        stator_status status = STATOR_FAILED;
        if (q->request->slots.ended) {
            const stator_reason reason = end_of(q->request, &status);
            finish(s, q, reason, status, q->request->slots.failure);
        } else if (q->failed)
            finish(s, q, STATOR_REASON_FAILED, STATOR_FAILED, q->failure);
        else if (step_fill_cancelled(q->request))
            finish(s, q, STATOR_REASON_CANCELLED, STATOR_OK, "");
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->run.n_waiting; i++) {
        struct engine_request *r = &s->front.requests[s->run.waiting[i]];
        if (step_fill_cancelled(r))
            emit_done(s, r, 0, 0, STATOR_REASON_CANCELLED, STATOR_OK, "");
        else
            s->run.waiting[kept++] = s->run.waiting[i];
    }
    s->run.n_waiting = kept;
}

static void admit_waiting(struct stator *s) {
    for (uint32_t i = 0; i < s->run.n_waiting && s->run.broken; i++)
        emit_done(s, &s->front.requests[s->run.waiting[i]], 0, 0, STATOR_REASON_FAILED,
                  s->run.broken_why.code, s->run.broken_why.text);
    if (s->run.broken)
        s->run.n_waiting = 0;
    uint32_t kept = 0;
    bool full = false;
    for (uint32_t i = 0; i < s->run.n_waiting; i++) {
        uint32_t slot = s->run.waiting[i];
        /* Requests are admitted in the order of arrival. One that waits for rows of a reader does not block
         * later ones. */
        bool rows = s->front.requests[slot].kind == STATOR_GENERATE || sequences_take_rows(s, slot);
        if (!full && rows && sequences_admit(s, slot))
            continue;
        full = full || rows;
        s->run.waiting[kept++] = slot;
    }
    s->run.n_waiting = kept;
}

static void fail(struct engine_sequence *q, const char *why) {
    CHECK(q->request != NULL && why != NULL);
    q->failed = true;
    snprintf(q->failure, sizeof q->failure, "%s", why);
}

/* A device has failed. Steps in flight never end, no further step begins, and all requests fail. */
static void fail_all(struct stator *s, const stator_error *e) {
    CHECK(e->code != STATOR_OK);
    s->run.broken = true;
    s->run.broken_why = *e;
    atomic_store(&s->shown.fault, 1);
    pipeline_drain(s);
    kv_disk_settle(s);
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        s->run.sequences[i].flights = 0;
        if (s->run.sequences[i].request != NULL)
            finish(s, &s->run.sequences[i], STATOR_REASON_FAILED, e->code, e->text);
    }
}

/* Chooses the next token by this row of logits. *token is -1 at the end of the answer. *allowed is the mask
 * of allowed tokens, or NULL if all are allowed. Returns false if q has failed. */
static bool choose(struct stator *s, struct engine_sequence *q, const float *logits,
                   const struct step_pick *pick, const uint64_t **allowed, int32_t *token) {
    struct engine_request *r = q->request;
    const struct sampler_settings *set = &r->sampling;
    *allowed = NULL;
    *token = constraint_leaves_forced(&r->constraint) ? forced_next(&r->forced) : -1;
    if (*token >= 0)
        return true;
    const int32_t only = constraint_only(s, r);
    if (only >= 0 && !r->logprobs) {
        *token = only;
        return true;
    }
    /* The likeliest token, if it is allowed, needs no mask. */
    const bool plain = sampler_is_plain(set) && constraint_allows(s, r, pick->token);
    const char *why = plain && !r->logprobs ? NULL : constraint_mask(s, r, allowed);
    if (why != NULL) {
        fail(q, why);
        return false;
    }
    if (only >= 0)
        *token = only;
    else if (plain)
        *token = pick->token;
    else if (*allowed == NULL || !constraint_is_empty(s, *allowed))
        *token = sampler_pick(&s->run.sampler, set, logits, *allowed, r->tokens, r->n_tokens,
                              r->n_tokens - r->n_prompt, r->n_tokens);
    return true;
}

/* Updates forced tokens and grammar for the last token of r. NULL, or why the request fails. */
static const char *follow(struct stator *s, struct engine_request *r) {
    if (constraint_leaves_forced(&r->constraint) || constraint_may_open(&r->constraint))
        forced_took(&r->forced, r->tokens + r->n_prompt, r->n_tokens - r->n_prompt);
    return constraint_took(s, r, forced_next(&r->forced) >= 0);
}

/* Adds the next token of q and tells it to the request. Returns what take_row returns. */
static bool put_token(struct stator *s, struct engine_sequence *q, const struct outbox_event *ev) {
    struct engine_request *r = q->request;
    CHECK(r->n_tokens <= s->planning.want.context); /* `tokens` has context + 1 places */
    r->tokens[r->n_tokens++] = ev->token;
    const char *why = follow(s, r);
    atomic_store(&r->shown.n_tokens, r->n_tokens);
    atomic_fetch_add(&s->shown.tokens_out, 1);
    tell(s, r, ev);
    if (why != NULL) {
        fail(q, why);
        return false;
    }
    if (constraint_ended(&r->constraint)) {
        end_lap(s, q, STATOR_REASON_EOS);
        return false;
    }
    /* A request can get a token at position `context`, but the caches have no room to continue after it. */
    if (r->n_tokens - r->n_prompt < r->max_new && r->n_tokens <= s->planning.want.context)
        return true;
    end_lap(s, q, STATOR_REASON_LENGTH);
    return false;
}

/* Samples one token from this row and tells it to the request. *taken is the token. Returns false if no
 * further row may be used; the sequence may then have ended. */
static bool take_row(struct stator *s, struct engine_sequence *q, const float *logits,
                     const struct step_pick *pick, int32_t *taken) {
    struct engine_request *r = q->request;
    if (q->prompt_done_ns == 0) {
        q->prompt_done_ns = s->run.step_ns;
        atomic_store(&r->shown.prompt_done_ns, s->run.step_ns);
    }
    if (!pick->finite) {
        fail(q,
             "the model's logits are not finite numbers: the file's weights are damaged, or values overflow");
        return false;
    }
    if (r->n_tokens == r->n_prompt) {
        forced_begin(&r->forced);
        constraint_begin(&r->constraint);
    }
    int32_t token;
    const uint64_t *allowed;
    if (!choose(s, q, logits, pick, &allowed, &token))
        return false;
    if (token < 0 || (!r->ignore_eos && s->tokenizer != NULL && tokenizer_is_end(s->tokenizer, token))) {
        end_lap(s, q, STATOR_REASON_EOS);
        return false;
    }
    struct outbox_event ev = {
        .kind = STATOR_EVENT_TOKEN, .token = token, .position = r->n_tokens, .time_ns = s->run.step_ns};
    if (r->logprobs)
        ev.n_top =
            sampler_logprobs(&s->run.sampler, logits, allowed, token, r->top_logprobs, &ev.logprob, ev.top);
    *taken = token;
    return put_token(s, q, &ev);
}

/* Takes tokens while the grammar allows only one. Such tokens need no row of logits, and the next step
 * computes them together. Requests with log probabilities need the rows. */
static void take_only(struct stator *s, struct engine_sequence *q) {
    struct engine_request *r = q->request;
    for (bool goes_on = !r->logprobs; goes_on && outbox_spare(&r->out) > 0;) {
        const struct outbox_event ev = {.kind = STATOR_EVENT_TOKEN,
                                        .token = constraint_only(s, r),
                                        .position = r->n_tokens,
                                        .time_ns = s->run.step_ns};
        if (ev.token < 0)
            return;
        q->speculation.unseen++;
        goes_on = put_token(s, q, &ev);
    }
}

/* Takes a row of an EMBED request. With the last row the request gets its vector and ends. */
static void take_vector(struct stator *s, struct engine_sequence *q, const float *row,
                        const struct step_pick *pick) {
    struct engine_request *r = q->request;
    if (!pick->finite)
        fail(q, pooling_not_finite);
    if (q->failed || step_fill_cancelled(r) || !pooling_take(s, r, row))
        return;
    q->prompt_done_ns = s->run.step_ns;
    const struct outbox_event ev = {
        .kind = STATOR_EVENT_VECTOR, .logits = r->rows->row[0], .n_values = pooling_end(s, r)};
    tell(s, r, &ev);
    finish(s, q, STATOR_REASON_LENGTH, STATOR_OK, "");
}

/* Takes tokens from the rows of q in a step. The row of a draft token is valid only if that draft token was
 * accepted, so the first rejected one ends the loop. Returns the number of rows that q has in the step. */
static uint32_t take_rows(struct stator *s, struct engine_sequence *q, const float *logits,
                          const struct step_pick *picks) {
    if (q->request->kind == STATOR_EMBED) {
        take_vector(s, q, logits, picks);
        return 1;
    }
    const uint32_t n = q->speculation.n;
    uint32_t kept = 0;
    int32_t token = 0;
    bool goes_on = false;
    q->speculation.unseen = 0;
    speculation_test(s, q);
    while (take_row(s, q, logits + (size_t)kept * shape_row_width(s->planning.shape), &picks[kept], &token)) {
        if (kept == n || token != q->speculation.tokens[kept]) {
            speculation_learn(s, q, n, kept);
            goes_on = true;
            break;
        }
        kept++;
        if (!s->run.has_states) { /* K and V of the accepted token are stored already */
            q->done++;
            atomic_store(&q->request->shown.done, q->done);
            sequences_keep(s, q);
        }
        speculation_keep(s, q, kept);
    }
    CHECK(kept <= n);
    if (goes_on)
        take_only(s, q);
    return n + 1;
}

/* Hands the tail's rows of logits to the reader. False: the reader has no room for the next row. */
static bool hand_out_rows(struct stator *s, struct engine_step *step, const float *logits) {
    struct engine_sequence *q = step->reader;
    struct engine_request *r = q->request;
    const uint32_t width = shape_row_width(s->planning.shape);
    CHECK(r->rows != NULL && step->row <= step->n_rows && step->rows_done + step->n_rows <= step->n_tokens);
    for (; step->row < step->n_rows; step->row++) {
        if (step_fill_reader_room(q) == 0)
            return false;
        float *row = r->rows->row[r->rows_told % ENGINE_READER_ROWS];
        memcpy(row, logits + (size_t)step->row * width, width * sizeof *row);
        r->rows_told++;
        struct outbox_event ev = {.kind = STATOR_EVENT_LOGITS,
                                  .position = step->position + step->rows_done + step->row,
                                  .logits = row};
        tell(s, r, &ev);
    }
    step->rows_done += step->n_rows;
    step->row = 0;
    return true;
}

static void check_rows(struct engine_step *step, const struct step_pick *picks) {
    for (uint32_t i = step->row; i < step->n_rows && !step->reader->failed; i++) {
        char text[128];
        snprintf(text, sizeof text, "the logits of position %u are not finite numbers",
                 step->position + step->rows_done + i);
        if (!picks[i].finite)
            fail(step->reader, text);
    }
}

/* Hands out the rows of one tail of a logits request's chunk, then starts the next tail, until all rows of
 * the chunk were read. If other requests have work, the rest of the chunk is discarded and computed again
 * later, so that no request waits for a reader. Where a cache cannot go back (a state, or a ring that has
 * wrapped around), the other requests wait. *stalls: the reader has no room, and the step keeps its slot. */
static stator_status read_rows(struct stator *s, struct engine_step *step, const float *logits,
                               const struct step_pick *picks, bool *stalls, stator_error *e) {
    struct engine_sequence *q = step->reader;
    if (step->round != q->round) { /* discarded while it was in flight */
        pipeline_finish(s, step);
        return STATOR_OK;
    }
    check_rows(step, picks);
    bool ended = q->failed || step_fill_cancelled(q->request);
    bool told = !ended && hand_out_rows(s, step, logits);
    const uint32_t reached = step->rows_done + step->row; /* including the rows handed out just now */
    CHECK(reached <= step->n_tokens);
    bool others = !ended && step_fill_others(s, q) &&
                  (reached == step->n_tokens || sequences_can_rewind(s, q, step->position + reached));
    *stalls = !ended && !told && !others;
    if (*stalls) {
        /* A waiting reader does not count as a device that hangs. */
        atomic_store(&s->shown.moved_ns, 0);
        return STATOR_OK;
    }
    const uint32_t done = reached;
    if (told && !others && done < step->n_tokens)
        return pipeline_again(s, step, done, ARITH_MIN(step->n_tokens - done, s->planning.want.logits_rows),
                              e);
    if (!ended && done < step->n_tokens) {
        /* Later positions of the cache are written again, with the same bytes. */
        q->done = step->position + done;
        q->round++;
    }
    pipeline_finish(s, step);
    if (!ended && q->done == q->request->n_tokens && q->flights == 0) {
        q->prompt_done_ns = clock_ns();
        finish(s, q, STATOR_REASON_LENGTH, STATOR_OK, "");
    }
    return STATOR_OK;
}

/* Hands the results of a step to its requests. *stalls: as in read_rows. */
static stator_status deliver(struct stator *s, struct engine_step *step, bool *stalls, stator_error *e) {
    CHECK(!step->running && step->at + 1 == s->planning.n_devices);
    struct device *d = s->devices[step->at].device;
    uint32_t slot = (uint32_t)(step->number % s->planning.devices[step->at].model.slots);
    s->run.step_ns = clock_ns();
    if (step->ended_ns == 0)
        step->ended_ns = s->run.step_ns;
    const float *logits = d->vtable->logits(d, slot);
    const struct step_pick *picks = d->vtable->picks(d, slot);
    if (step->reader != NULL)
        return read_rows(s, step, logits, picks, stalls, e);
    /* The rows stay valid until this function returns, because no step begins before. */
    pipeline_finish(s, step);
    const uint64_t before = atomic_load(&s->shown.tokens_out);
    for (uint32_t i = 0; i < step->n_rows;)
        i +=
            take_rows(s, step->of_row[i], logits + (size_t)i * shape_row_width(s->planning.shape), &picks[i]);
    speculation_time(s, step, atomic_load(&s->shown.tokens_out) - before);
    return speculation_follow(s, step, e);
}

/* One round over all devices: delivers steps that have ended and begins the next. False: nothing changed. */
static bool work(struct stator *s, stator_error *e, stator_status *st) {
    bool moved = false;
    bool stalls = false;
    *st = pipeline_advance(s, &moved, e);
    for (struct engine_step *step;
         *st == STATOR_OK && !stalls && !stopping(s) && (step = pipeline_ended(s)) != NULL;) {
        *st = deliver(s, step, &stalls, e);
        moved = moved || !stalls;
    }
    if (*st != STATOR_OK || stopping(s) || !pipeline_has_room(s))
        return moved;
    *st = speculation_ready(s, e);
    if (*st == STATOR_OK)
        *st = pictures_ready(s, e);
    if (*st != STATOR_OK || stopping(s))
        return moved;
    uint8_t *slot = NULL;
    struct engine_step *next = pipeline_next(s, &slot);
    if (!step_fill(s, next, slot))
        return moved || next->failed;
    *st = pipeline_begin(s, e);
    return true;
}

/* Whether other hosts have devices of the run, and hear that this one is alive. */
static bool has_others(const struct stator *s) {
    return s->planning.config.cluster.n > 1 && !s->run.broken;
}

/* Tells the other ranks that this one is alive, and hears the same of them; asks: also for their notes, for
 * question number `asked`. */
static stator_status tell_others(struct stator *s, bool asks, uint32_t asked, stator_error *e) {
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < s->planning.n_devices && st == STATOR_OK; i++) {
        struct engine_device *d = &s->devices[i];
        struct device_note note;
        bool noted = false;
        if (d->device->vtable->alive != NULL)
            st = d->device->vtable->alive(d->device, s->run.deadline_ns,
                                          asks && d->noted != asked ? &note : NULL, &noted, e);
        if (!noted)
            continue;
        CHECK(s->report.n_notes < DEVICE_MAX);
        d->noted = asked;
        s->report.notes[s->report.n_notes++] = note;
    }
    return st;
}

/* Waits for a command. */
static stator_status idle(struct stator *s, stator_error *e) {
    const bool others = has_others(s);
    const uint32_t asked = atomic_load(&s->report.asked);
    const bool asks = others && asked != atomic_load(&s->report.told);
    if (asks && s->report.collecting != asked)
        s->report.n_notes = 0;
    s->report.collecting = asked;
    ring_wait(s->front.commands, kv_moves_wait(s) ? MOVE_NS
                                 : asks           ? ASK_NS
                                 : others         ? ARITH_MIN(s->run.deadline_ns / 8, PULSE_NS)
                                                  : UINT64_MAX);
    const stator_status st = others ? tell_others(s, asks, asked, e) : STATOR_OK;
    if (asks && s->report.n_notes + 1 == s->planning.config.cluster.n)
        atomic_store(&s->report.told, asked);
    return st;
}

enum loop_next loop_round(struct stator *s) {
    stator_error e = {0};
    take_commands(s);
    stator_status st = kv_disk_turn(s, &e);
    if (st != STATOR_OK)
        fail_all(s, &e);
    st = STATOR_OK;
    drop_ended(s);
    admit_waiting(s);
    const bool moved = !s->run.broken && work(s, &e, &st);
    if (st != STATOR_OK)
        fail_all(s, &e);
#ifdef STATOR_DEBUG
    balance_check(s);
#endif
    if (st != STATOR_OK || moved)
        return LOOP_AGAIN;
    if (s->run.broken)
        return LOOP_COMMANDS;
    return pipeline_works(s) ? LOOP_DEVICES : kv_moves_wait(s) ? LOOP_SOON : LOOP_COMMANDS;
}

void loop_wait(struct stator *s, enum loop_next next) {
    stator_error e = {0};
    stator_status st = STATOR_OK;
    if (next == LOOP_DEVICES && !stopping(s)) {
        st = pipeline_wait(s, &e);
        /* While a stage computes its last part again and again, for rows of logits, others get no command. */
        if (st == STATOR_OK && has_others(s))
            st = tell_others(s, false, 0, &e);
    } else if (next != LOOP_AGAIN && !stopping(s)) {
        st = idle(s, &e);
    }
    if (st != STATOR_OK)
        fail_all(s, &e);
}

void loop_run(struct stator *s) {
    while (!stopping(s))
        loop_wait(s, loop_round(s));
    const uint64_t whole = s->run.first_step;
    pipeline_drain(s);
    if (!s->run.broken)
        kv_disk_flush(s, whole);
}
