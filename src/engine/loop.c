/* The engine thread: starts the device, loads, seals, then runs steps until it is told to stop. Each step
 * carries one token of every generating sequence and as much of the waiting prompts as the batch holds.
 *
 * Invariants: between seal and shutdown nothing here allocates; a request slot is touched only between its
 * submit command and its DONE event. */
#include "engine/engine.h"

#include "base/clock.h"
#include "engine/enforce.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* What a step is being filled with. */
struct filling {
    struct step_header *h;
    uint8_t *slot;
    struct step_chunk *chunks;
    uint32_t *rows;
    struct engine_sequence **of_row; /* [logits_rows], in the run's state */
};

static bool stopping(const struct stator *s) {
    return atomic_load_explicit(&s->stop, memory_order_relaxed) != 0;
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

static void emit_done(struct stator *s, struct engine_request *r, uint64_t prompt_ns, uint64_t generate_ns,
                      stator_reason reason, stator_status status, const char *text) {
    struct engine_event ev = figures(s, r, ENGINE_DONE, prompt_ns, generate_ns);
    ev.reason = reason;
    ev.status = status;
    snprintf(ev.text, sizeof ev.text, "%s", text);
    struct device_counters c;
    s->device->vtable->counters(s->device, &c);
    atomic_store(&s->submits, c.submits);
    atomic_store(&s->kernels_executed, c.kernels_executed);
    atomic_store(&s->used_kv_bytes, (uint64_t)s->peak_blocks * s->model.kv.block_stride * s->shape->n_layers *
                                        s->shape->n_kv_heads);
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

static void drop_cancelled(struct stator *s) {
    for (uint32_t i = 0; i < s->want.sequences; i++) {
        struct engine_sequence *q = &s->sequences[i];
        if (q->request != NULL && atomic_load(&q->request->cancel))
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
    uint32_t n = 0;
    while (n < s->n_waiting && sequences_admit(s, s->waiting[n]))
        n++;
    s->n_waiting -= n;
    memmove(s->waiting, s->waiting + n, s->n_waiting * sizeof *s->waiting);
}

static void begin_step(struct stator *s, struct filling *f) {
    f->slot = s->device->vtable->step_slot(s->device, 0);
    f->h = (struct step_header *)f->slot;
    f->of_row = s->of_row;
    f->chunks = (struct step_chunk *)(f->slot + f->h->at_chunks);
    f->rows = (uint32_t *)(f->slot + f->h->at_rows);
    f->h->run_body = 1;
    f->h->n_tokens = f->h->n_chunks = f->h->n_rows = f->h->n_zero = 0;
}

/* The next n tokens of q into the step; with_row: the logits of the last of them. */
static void add_chunk(struct stator *s, struct filling *f, struct engine_sequence *q, uint32_t n,
                      bool with_row) {
    uint32_t slot = (uint32_t)(q - s->sequences);
    const struct engine_request *r = q->request;
    CHECK(f->h->n_tokens + n <= s->want.batch && q->done + n <= r->n_tokens);
    CHECK(q->done + n <= q->n_blocks * KERNELS_KV_BLOCK);
    if (q->began_ns == 0 || q->done == r->n_depth)
        q->began_ns = clock_ns();
    uint32_t first = f->h->n_tokens;
    f->chunks[f->h->n_chunks++] =
        (struct step_chunk){.slot = slot, .first = first, .n = n, .position = q->done};
    memcpy(f->slot + f->h->at_tokens + first * sizeof(int32_t), r->tokens + q->done, n * sizeof(int32_t));
    for (uint32_t i = 0; i < n; i++)
        step_writer_rope(s, f->h, f->slot, first + i, q->done + i);
    if (q->fresh) {
        uint32_t *table = (uint32_t *)(f->slot + f->h->at_tables) + (size_t)slot * f->h->table_stride;
        memcpy(table, q->table, q->n_blocks * sizeof *table);
        memcpy(f->slot + f->h->at_zero + f->h->n_zero * sizeof(uint32_t), q->table,
               q->n_blocks * sizeof(uint32_t));
        f->h->n_zero += q->n_blocks;
        q->fresh = false;
    }
    f->h->n_tokens += n;
    if (with_row) {
        f->of_row[f->h->n_rows] = q;
        f->rows[f->h->n_rows++] = first + n - 1;
    }
    q->done += n;
}

/* Generating sequences first, one token each, then prompts. Starting at another sequence each time gives all
 * a turn when the batch or the logits rows do not hold everybody. */
static void fill_generation(struct stator *s, struct filling *f) {
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < s->want.sequences; k++) {
            struct engine_sequence *q = &s->sequences[(s->next_sequence + k) % s->want.sequences];
            if (q->request == NULL || q->request->kind != STATOR_GENERATE)
                continue;
            bool generating = q->done >= q->request->n_prompt;
            if (generating != (pass == 0))
                continue;
            uint32_t left = q->request->n_tokens - q->done;
            uint32_t n = ARITH_MIN(left, s->want.batch - f->h->n_tokens);
            if (q->done < q->request->n_depth)
                n = ARITH_MIN(n, q->request->n_depth - q->done);
            bool row = n == left;
            if (row && f->h->n_rows == s->want.logits_rows) {
                row = false;
                n--;
            }
            if (n > 0)
                add_chunk(s, f, q, n, row);
        }
    }
    CHECK(s->want.sequences > 0);
    s->next_sequence = (s->next_sequence + 1) % s->want.sequences;
}

static bool run_device(struct stator *s, stator_error *e) {
    struct device *d = s->device;
    if (d->vtable->submit(d, 0, e) != STATOR_OK)
        return false;
    for (bool ended = false; !ended;)
        if (d->vtable->wait(d, 0, 1000000000, &ended, e) != STATOR_OK)
            return false;
    return true;
}

static void fail_all(struct stator *s, const stator_error *e) {
    for (uint32_t i = 0; i < s->want.sequences; i++)
        if (s->sequences[i].request != NULL)
            finish(s, &s->sequences[i], STATOR_REASON_FAILED, e->code, e->text);
}

static void take_row(struct stator *s, struct engine_sequence *q, const float *logits,
                     const struct step_pick *pick) {
    struct engine_request *r = q->request;
    if (q->prompt_done_ns == 0)
        q->prompt_done_ns = s->step_ns;
    if (!pick->finite) {
        finish(
            s, q, STATOR_REASON_FAILED, STATOR_FAILED,
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

static bool run_generation(struct stator *s) {
    struct filling f;
    begin_step(s, &f);
    fill_generation(s, &f);
    if (f.h->n_tokens == 0)
        return false;
    stator_error e;
    if (!run_device(s, &e)) {
        fail_all(s, &e);
        return true;
    }
    s->step_ns = clock_ns();
    const float *logits = s->device->vtable->logits(s->device, 0);
    const struct step_pick *picks = s->device->vtable->picks(s->device, 0);
    for (uint32_t i = 0; i < f.h->n_rows; i++)
        take_row(s, f.of_row[i], logits + (size_t)i * s->shape->vocab, &picks[i]);
    return true;
}

/* Hands out the rows of the last step and waits until the reader has given them back. */
static bool hand_out_rows(struct stator *s, const struct engine_sequence *q, uint32_t position, uint32_t n) {
    const float *logits = s->device->vtable->logits(s->device, 0);
    s->acked = false;
    for (uint32_t i = 0; i < n; i++) {
        struct engine_event ev = {.kind = ENGINE_LOGITS,
                                  .request = (uint32_t)(q->request - s->requests),
                                  .id = atomic_load_explicit(&q->request->id, memory_order_relaxed),
                                  .position = position + i,
                                  .logits = logits + (size_t)i * s->shape->vocab,
                                  .last_row = i + 1 == n};
        loop_emit(s, &ev);
    }
    while (!s->acked && !stopping(s)) {
        ring_wait(s->commands, 100000000);
        take_commands(s);
    }
    return s->acked;
}

/* One chunk of a logits request: the body once, then the tail for so many rows at a time as are planned. */
static void run_logits(struct stator *s, struct engine_sequence *q) {
    struct filling f;
    begin_step(s, &f);
    uint32_t position = q->done;
    uint32_t n = ARITH_MIN(q->request->n_tokens - q->done, s->want.batch);
    add_chunk(s, &f, q, n, false);
    const struct step_pick *picks = s->device->vtable->picks(s->device, 0);
    for (uint32_t at = 0; at < n;) {
        uint32_t rows = ARITH_MIN(n - at, s->want.logits_rows);
        for (uint32_t i = 0; i < rows; i++)
            f.rows[i] = at + i;
        f.h->n_rows = rows;
        f.h->run_body = at == 0;
        stator_error e;
        if (!run_device(s, &e)) {
            fail_all(s, &e);
            return;
        }
        for (uint32_t i = 0; i < rows; i++) {
            if (picks[i].finite)
                continue;
            char text[128];
            snprintf(text, sizeof text, "the logits of position %u are not finite numbers",
                     position + at + i);
            finish(s, q, STATOR_REASON_FAILED, STATOR_FAILED, text);
            return;
        }
        if (!hand_out_rows(s, q, position + at, rows))
            return;
        if (atomic_load(&q->request->cancel))
            return; /* the next round drops it */
        at += rows;
    }
    if (q->done == q->request->n_tokens) {
        q->prompt_done_ns = clock_ns();
        finish(s, q, STATOR_REASON_LENGTH, STATOR_OK, "");
    }
}

static void run_until_stopped(struct stator *s) {
    while (!stopping(s)) {
        take_commands(s);
        drop_cancelled(s);
        admit_waiting(s);
        bool worked = run_generation(s);
        for (uint32_t i = 0; i < s->want.sequences && !stopping(s); i++) {
            struct engine_sequence *q = &s->sequences[i];
            if (q->request == NULL || q->request->kind != STATOR_LOGITS)
                continue;
            run_logits(s, q);
            worked = true;
        }
        if (!worked && !stopping(s))
            ring_wait(s->commands, UINT64_MAX);
    }
}

static stator_status create_arenas(struct stator *s, stator_error *e) {
    struct plan_place *place = &s->plan.places[0];
    for (int i = 0; i < DEVICE_ARENAS; i++) {
        struct plan_arena *a = plan_arena_find(place, device_arena_name((enum device_arena)i));
        CHECK(a != NULL);
        for (uint32_t k = 0; k < a->n_slices; k++) {
            stator_status st =
                s->device->vtable->slice_create(s->device, (enum device_arena)i, k, a->slices[k], e);
            if (st != STATOR_OK)
                return st;
            a->allocated += a->slices[k];
        }
    }
    return STATOR_OK;
}

static stator_status start_device(struct stator *s, stator_error *e) {
    stator_status st = device_open(&s->choice, &s->model, false, &s->phase, s->device_memory,
                                   device_host_bytes(&s->choice, &s->model, false), &s->device, e);
    if (st != STATOR_OK)
        return st;
    st = create_arenas(s, e);
    if (st != STATOR_OK)
        return st;
    enforce_poison(s);
    st = loader_run(s, e);
    if (st != STATOR_OK)
        return st;
    struct device_setup setup = {.in = NULL};
    return s->device->vtable->prepare(s->device, &setup, e);
}

void *loop_thread(void *context) {
    struct stator *s = context;
    uint64_t began = clock_ns();
    phase_thread_set(&s->phase, PHASE_THREAD_ENGINE);
    stator_status st = start_device(s, &s->start_error);
    struct engine_event ev = {.kind = st == STATOR_OK ? ENGINE_STARTED : ENGINE_START_FAILED, .status = st};
    if (st == STATOR_OK) {
        s->load_ns = clock_ns() - began;
        phase_advance(&s->phase, PHASE_SEALED);
        loop_emit(s, &ev);
        run_until_stopped(s);
        phase_advance(&s->phase, PHASE_SHUTDOWN);
        (void)enforce_check(s); /* it has logged */
    } else {
        loop_emit(s, &ev);
    }
    if (s->device != NULL)
        s->device->vtable->close(s->device);
    s->device = NULL;
    return NULL;
}
