/* The engine thread: starts the devices, loads, seals, then keeps steps under way (pipeline.c) until it is
 * told to stop, and does with their results what the requests want.
 *
 * Invariants: between seal and shutdown nothing here allocates; a request slot is touched only between its
 * submit command and its DONE event; a sequence ends only when no step under way carries it. */
#include "engine/engine.h"

#include "base/clock.h"
#include "engine/start/enforce.h"
#include "engine/run/pipeline.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool stopping(const struct stator *s) {
    /* What the driver thread has read of our devices is read before they are closed. */
    return atomic_load_explicit(&s->stop, memory_order_acquire) != 0;
}

void loop_emit(struct stator *s, const struct engine_event *ev) {
    while (!ring_push(s->events, ev) && !stopping(s)) {
        struct timespec pause = {.tv_nsec = 100000};
        nanosleep(&pause, NULL);
    }
}

/* What LAP and DONE tell alike. */
static struct engine_event figures(const struct stator *s, const struct engine_request *r,
                                   enum engine_event_kind kind, uint64_t prompt_ns, uint64_t generate_ns) {
    return (struct engine_event){.kind = kind,
                                 .request = (uint32_t)(r - s->requests),
                                 .id = atomic_load_explicit(&r->id, memory_order_relaxed),
                                 .a = prompt_ns,
                                 .b = generate_ns,
                                 .n_prompt = r->n_prompt - r->n_depth,
                                 .n_generated = r->n_tokens - r->n_prompt};
}

/* For the report. */
static void publish_counters(struct stator *s) {
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct engine_device *d = &s->devices[i];
        struct device_counters c;
        d->device->vtable->counters(d->device, &c);
        atomic_store(&d->submits, c.submits);
        atomic_store(&d->kernels_executed, c.kernels_executed);
        atomic_store(&d->direct_bytes, c.direct_bytes);
        atomic_store(&d->staged_bytes, c.staged_bytes);
        atomic_store(&d->copied_bytes, c.copied_bytes);
    }
    for (uint32_t i = 0; i < GRAPH_MAX_CACHES; i++)
        atomic_store(&s->used_blocks[i], s->caches[i].peak);
}

static void emit_done(struct stator *s, struct engine_request *r, uint64_t prompt_ns, uint64_t generate_ns,
                      stator_reason reason, stator_status status, const char *text) {
    struct engine_event ev = figures(s, r, ENGINE_DONE, prompt_ns, generate_ns);
    ev.reason = reason;
    ev.status = status;
    snprintf(ev.text, sizeof ev.text, "%s", text);
    publish_counters(s);
    loop_emit(s, &ev);
}

static void finish(struct stator *s, struct engine_sequence *q, stator_reason reason, stator_status status,
                   const char *text) {
    uint64_t now = clock_ns();
    struct engine_request *r = q->request;
    uint64_t prompt_end = q->prompt_done_ns != 0 ? q->prompt_done_ns : now;
    uint64_t prompt_ns = q->began_ns != 0 ? prompt_end - q->began_ns : 0;
    uint64_t generate_ns = q->prompt_done_ns != 0 ? now - q->prompt_done_ns : 0;
    sequences_release(s, q);
    emit_done(s, r, prompt_ns, generate_ns, reason, status, text);
}

/* The sequence has ended by itself: back to its depth when laps are left. What the cache holds beyond is
 * written again before it is read. */
static void end_lap(struct stator *s, struct engine_sequence *q, stator_reason reason) {
    struct engine_request *r = q->request;
    if (r->laps <= 1) {
        finish(s, q, reason, STATOR_OK, "");
        return;
    }
    CHECK(q->prompt_done_ns != 0);
    struct engine_event ev =
        figures(s, r, ENGINE_LAP, q->prompt_done_ns - q->began_ns, clock_ns() - q->prompt_done_ns);
    ev.reason = reason;
    r->laps--;
    r->n_tokens = r->n_prompt;
    q->done = r->n_depth;
    q->began_ns = q->prompt_done_ns = 0;
    loop_emit(s, &ev);
}

static void take_command(struct stator *s, const struct engine_command *c) {
    switch (c->kind) {
    case ENGINE_SUBMIT:
        CHECK(s->n_waiting < s->n_requests);
        s->waiting[s->n_waiting++] = c->request;
        break;
    case ENGINE_ACK:
        s->acked = true;
        break;
    case ENGINE_STOP:
        atomic_store(&s->stop, 1);
        break;
    }
}

static void take_commands(struct stator *s) {
    struct engine_command c;
    while (ring_pop(s->commands, &c))
        take_command(s, &c);
}

/* Ends sequences that were cancelled or have failed, as soon as no step carries them. */
static void drop_ended(struct stator *s) {
    for (uint32_t i = 0; i < s->want.sequences; i++) {
        struct engine_sequence *q = &s->sequences[i];
        if (q->request == NULL || q->flights > 0)
            continue;
        if (q->failed)
            finish(s, q, STATOR_REASON_FAILED, STATOR_FAILED, q->failure);
        else if (atomic_load(&q->request->cancel))
            finish(s, q, STATOR_REASON_CANCELLED, STATOR_OK, "");
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n_waiting; i++) {
        struct engine_request *r = &s->requests[s->waiting[i]];
        if (atomic_load(&r->cancel))
            emit_done(s, r, 0, 0, STATOR_REASON_CANCELLED, STATOR_OK, "");
        else
            s->waiting[kept++] = s->waiting[i];
    }
    s->n_waiting = kept;
}

static void admit_waiting(struct stator *s) {
    for (uint32_t i = 0; i < s->n_waiting && s->broken; i++)
        emit_done(s, &s->requests[s->waiting[i]], 0, 0, STATOR_REASON_FAILED, s->broken_why.code,
                  s->broken_why.text);
    if (s->broken)
        s->n_waiting = 0;
    uint32_t n = 0;
    while (n < s->n_waiting && sequences_admit(s, s->waiting[n]))
        n++;
    s->n_waiting -= n;
    memmove(s->waiting, s->waiting + n, s->n_waiting * sizeof *s->waiting);
}

static void fail(struct engine_sequence *q, const char *why) {
    q->failed = true;
    snprintf(q->failure, sizeof q->failure, "%s", why);
}

/* A device has failed: no step under way comes to an end, and none begins any more. */
static void fail_all(struct stator *s, const stator_error *e) {
    s->broken = true;
    s->broken_why = *e;
    pipeline_drain(s);
    for (uint32_t i = 0; i < s->want.sequences; i++) {
        s->sequences[i].flights = 0;
        if (s->sequences[i].request != NULL)
            finish(s, &s->sequences[i], STATOR_REASON_FAILED, e->code, e->text);
    }
}

static void take_row(struct stator *s, struct engine_sequence *q, const float *logits,
                     const struct step_pick *pick) {
    struct engine_request *r = q->request;
    if (q->prompt_done_ns == 0)
        q->prompt_done_ns = s->step_ns;
    if (!pick->finite) {
        fail(q,
             "the model's logits are not finite numbers: the file's weights are damaged, or values overflow");
        return;
    }
    const struct sampler_settings *set = &r->sampling;
    bool greedy = set->temperature <= 0 && set->repeat_penalty == 1.0f;
    int32_t token =
        greedy ? pick->token : sampler_pick(&s->sampler, set, logits, r->tokens, r->n_tokens, r->n_tokens);
    if (!r->ignore_eos && s->tokenizer != NULL && tokenizer_is_end(s->tokenizer, token)) {
        end_lap(s, q, STATOR_REASON_EOS);
        return;
    }
    struct engine_event ev = {.kind = ENGINE_TOKEN,
                              .request = (uint32_t)(r - s->requests),
                              .id = atomic_load_explicit(&r->id, memory_order_relaxed),
                              .token = token,
                              .position = r->n_tokens,
                              .time_ns = s->step_ns};
    r->tokens[r->n_tokens++] = token;
    loop_emit(s, &ev);
    /* A token at position `context` can be told, but not computed with. */
    if (r->n_tokens - r->n_prompt >= r->max_new || r->n_tokens > s->want.context)
        end_lap(s, q, STATOR_REASON_LENGTH);
}

/* Hands out rows of logits and waits until the reader has given them back. False: the engine stops. */
static bool hand_out_rows(struct stator *s, const struct engine_step *st, const float *logits) {
    const struct engine_sequence *q = st->reader;
    s->acked = false;
    for (uint32_t i = 0; i < st->n_rows; i++) {
        struct engine_event ev = {.kind = ENGINE_LOGITS,
                                  .request = (uint32_t)(q->request - s->requests),
                                  .id = atomic_load_explicit(&q->request->id, memory_order_relaxed),
                                  .position = st->position + st->rows_done + i,
                                  .logits = logits + (size_t)i * s->shape->vocab,
                                  .last_row = i + 1 == st->n_rows};
        loop_emit(s, &ev);
    }
    while (!s->acked && !stopping(s)) {
        ring_wait(s->commands, 100000000);
        take_commands(s);
    }
    return s->acked;
}

/* The rows of one tail of a chunk of a logits request; then the next tail, until all its rows were read. */
static stator_status read_rows(struct stator *s, struct engine_step *st, const float *logits,
                               const struct step_pick *picks, stator_error *e) {
    struct engine_sequence *q = st->reader;
    for (uint32_t i = 0; i < st->n_rows && !q->failed; i++) {
        char text[128];
        snprintf(text, sizeof text, "the logits of position %u are not finite numbers",
                 st->position + st->rows_done + i);
        if (!picks[i].finite)
            fail(q, text);
    }
    bool ended = q->failed || atomic_load(&q->request->cancel);
    if (!ended && !hand_out_rows(s, st, logits))
        return STATOR_OK;
    st->rows_done += st->n_rows;
    ended = ended || atomic_load(&q->request->cancel);
    if (!ended && st->rows_done < st->n_tokens)
        return pipeline_again(s, st, st->rows_done,
                              ARITH_MIN(st->n_tokens - st->rows_done, s->want.logits_rows), e);
    pipeline_finish(s, st);
    if (!ended && q->done == q->request->n_tokens && q->flights == 0) {
        q->prompt_done_ns = clock_ns();
        finish(s, q, STATOR_REASON_LENGTH, STATOR_OK, "");
    }
    return STATOR_OK;
}

/* What the step found, to those who wanted it. */
static stator_status deliver(struct stator *s, struct engine_step *st, stator_error *e) {
    struct device *d = s->devices[st->at].device;
    uint32_t slot = (uint32_t)(st->number % s->devices[st->at].model.slots);
    s->step_ns = clock_ns();
    const float *logits = d->vtable->logits(d, slot);
    const struct step_pick *picks = d->vtable->picks(d, slot);
    if (st->reader != NULL)
        return read_rows(s, st, logits, picks, e);
    pipeline_finish(s, st); /* nothing begins before we return, so the rows hold */
    for (uint32_t i = 0; i < st->n_rows; i++)
        take_row(s, st->of_row[i], logits + (size_t)i * s->shape->vocab, &picks[i]);
    return STATOR_OK;
}

/* One round over all devices. False: nothing has changed. */
static bool work(struct stator *s, stator_error *e, stator_status *rc) {
    bool moved = false;
    *rc = pipeline_advance(s, &moved, e);
    for (struct engine_step *st; *rc == STATOR_OK && !stopping(s) && (st = pipeline_ended(s)) != NULL;) {
        moved = true;
        *rc = deliver(s, st, e);
    }
    if (*rc != STATOR_OK || stopping(s) || !pipeline_has_room(s))
        return moved;
    uint8_t *slot = NULL;
    struct engine_step *next = pipeline_next(s, &slot);
    if (!step_fill(s, next, slot))
        return moved;
    *rc = pipeline_begin(s, e);
    return true;
}

static void run_until_stopped(struct stator *s) {
    while (!stopping(s)) {
        take_commands(s);
        drop_ended(s);
        admit_waiting(s);
        stator_error e = {0};
        stator_status rc = STATOR_OK;
        bool moved = !s->broken && work(s, &e, &rc);
        if (rc == STATOR_OK && !moved && !stopping(s) && !pipeline_is_empty(s))
            rc = pipeline_wait(s, &e);
        else if (rc == STATOR_OK && !moved && !stopping(s))
            ring_wait(s->commands, UINT64_MAX);
        if (rc != STATOR_OK)
            fail_all(s, &e);
    }
    pipeline_drain(s);
}

void *loop_thread(void *context) {
    struct stator *s = context;
    uint64_t began = clock_ns();
    phase_thread_set(&s->phase, PHASE_THREAD_ENGINE);
    stator_status st = start_devices(s, &s->start_error);
    struct engine_event ev = {.kind = st == STATOR_OK ? ENGINE_STARTED : ENGINE_START_FAILED, .status = st};
    if (st == STATOR_OK) {
        s->load_ns = clock_ns() - began;
        phase_advance(&s->phase, PHASE_SEALED);
        loop_emit(s, &ev);
        run_until_stopped(s);
        phase_advance(&s->phase, PHASE_SHUTDOWN);
        if (!s->broken)
            (void)enforce_check(s); /* it has logged */
    } else {
        loop_emit(s, &ev);
    }
    start_close_devices(s);
    return NULL;
}
