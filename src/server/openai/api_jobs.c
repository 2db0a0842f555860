#include "server/openai/api_jobs.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "server/openai/api_reply.h"
#include "server/openai/api_slots.h"
#include "server/openai/api_vector_jobs.h"
#include "server/http/edge_pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SECOND      1000000000ull
#define PING_FIRST  SECOND       /* a stream without a token says how far its prompt is, this often */
#define PING_LATER  (5 * SECOND) /* and with tokens of which nothing could be told yet, that it lives */
#define PIECE_BYTES 4096         /* of text in an event */

static struct api_choice **bucket(struct api *api, uint64_t request) {
    return &api->buckets[request % API_BUCKETS];
}

void api_jobs_submitted(struct api_choice *c, uint64_t request) {
    CHECK(request != 0 && c->request == 0);
    struct api_choice **b = bucket(c->job->api, request);
    c->request = request;
    c->next = *b;
    *b = c;
}

static struct api_choice *find(struct api *api, uint64_t request) {
    struct api_choice *c = *bucket(api, request);
    while (c != NULL && c->request != request)
        c = c->next;
    return c;
}

static void forget(struct api_choice *c) {
    struct api_choice **b = bucket(c->job->api, c->request);
    CHECK(c->request != 0);
    while (*b != c)
        b = &(*b)->next;
    *b = c->next;
    c->request = 0;
}

struct api_job_state *api_jobs_make(struct api *api, struct http_exchange *x, const struct api_way *way,
                                    struct api_request *r, uint32_t n_choices) {
    struct api_job_state *job = edge_pool_zeroed(1, sizeof *job + n_choices * sizeof job->choices[0]);
    if (job == NULL)
        return NULL;
    job->api = api;
    job->x = x;
    job->endpoint = r->endpoint;
    job->voice = way->voice;
    job->path = way->path;
    job->created = time(NULL);
    job->started_ns = job->wrote_ns = clock_ns();
    job->stream = r->stream;
    job->include_usage = r->include_usage;
    job->one_call = r->one_call;
    job->tagged_calls = r->tagged_calls;
    job->tools = r->tools;
    job->returns_reasoning = r->returns_reasoning;
    job->ignore_eos = r->ignore_eos;
    job->logprobs = r->logprobs;
    job->return_tokens = r->return_tokens;
    job->top_logprobs = r->top_logprobs;
    job->sampling = r->sampling;
    job->sampling.logit_bias = NULL; /* the request's */
    job->sampling.n_logit_bias = 0;
    job->goes_on = r->goes_on;
    job->stops = r->stops;
    job->repeated = r->repeated;
    job->type_rows = r->types;
    job->types = (struct chat_types){.rows = r->types.p, .n = r->types.n};
    job->stop_ids = r->stop_ids;
    job->n_stop_ids = r->n_stop_ids;
    r->stops = NULL;
    r->stop_ids = NULL;
    r->types = r->repeated = (struct api_text){0};
    job->n = r->n;
    job->n_choices = n_choices;
    const uint64_t seeds[2] = {api->salt, ++api->n_made};
    snprintf(job->id, sizeof job->id, "%s%016llx", way->voice->id,
             (unsigned long long)hash_of(seeds, sizeof seeds));
    for (uint32_t i = 0; i < n_choices; i++) {
        struct api_choice *c = &job->choices[i];
        *c = (struct api_choice){.job = job, .index = i, .prompt = i / r->n};
        c->answer.keeps_tokens = r->logprobs || r->return_tokens || (r->stream && way->voice->streams_tokens);
    }
    job->previous = api->last;
    *(api->last != NULL ? &api->last->next : &api->first) = job;
    api->last = job;
    snprintf(http_account(x)->id, sizeof http_account(x)->id, "%s", job->id);
    return job;
}

static void free_choice(struct api_choice *c) {
    api_answer_free(&c->answer);
    api_text_free(&c->content);
    api_text_free(&c->reasoning);
    api_text_free(&c->calls);
    api_text_free(&c->call_texts);
    api_text_free(&c->parts);
    api_text_free(&c->arguments);
}

/* Jobs are in one list, and each request that an answer waits for is found by its number. */
__attribute__((unused)) static bool jobs_are_whole(const struct api *api) { /* DCHECK */
    const struct api_job_state *previous = NULL;
    uint64_t waiting = 0, found = 0;
    for (const struct api_job_state *job = api->first; job != NULL; previous = job, job = job->next) {
        if (job->previous != previous || job->api != api)
            return false;
        for (uint32_t i = 0; i < job->n_choices; i++)
            waiting += job->choices[i].request != 0;
    }
    for (uint32_t k = 0; k < API_BUCKETS; k++)
        for (const struct api_choice *c = api->buckets[k]; c != NULL; c = c->next, found++)
            if (c->request % API_BUCKETS != k || c->job->api != api || found > waiting)
                return false;
    return api->last == previous && found == waiting;
}

void api_jobs_settle(struct api_job_state *job) {
    DCHECK(jobs_are_whole(job->api));
    if (job->x != NULL || job->render == API_RENDER_RUNS)
        return;
    CHECK(job->render == API_RENDER_NONE);
    for (uint32_t i = 0; i < job->n_choices; i++)
        if (job->choices[i].request != 0)
            return;
    struct api *api = job->api;
    *(job->previous != NULL ? &job->previous->next : &api->first) = job->next;
    *(job->next != NULL ? &job->next->previous : &api->last) = job->previous;
    for (uint32_t i = 0; i < job->n_choices; i++)
        free_choice(&job->choices[i]);
    api_request_free(&job->request);
    stator_grammar_release(api->engine, job->grammar);
    edge_pool_free(job->stops);
    api_text_free(&job->repeated);
    api_text_free(&job->type_rows);
    edge_pool_free(job->stop_ids);
    api_text_free(&job->out);
    edge_pool_free(job);
}

/* The exchange is over: what is still running for it ends. */
static void leave(struct api_job_state *job) {
    job->x = NULL;
    api_render_drop(job);
    for (uint32_t i = 0; i < job->n_choices; i++)
        if (job->choices[i].request != 0)
            stator_cancel(job->api->engine, job->choices[i].request);
}

/* How far an answer is that ends before its time. */
static void note_unfinished(struct api_choice *c) {
    stator_request_stats r = {.size = sizeof r};
    if (c->request == 0 || stator_get_request(c->job->api->engine, c->request, &r, NULL) != STATOR_OK)
        return;
    c->end.n_prompt = r.n_prompt;
    c->end.n_cached = r.n_cached;
    c->end.queue_ns = r.queue_ns;
    c->end.prompt_ns = r.prompt_ns;
    c->end.generate_ns = r.generate_ns;
}

static void account(struct api_job_state *job, const char *reason) {
    struct http_account *a = http_account(job->x);
    uint64_t prompt, cached, generated;
    for (uint32_t i = 0; i < job->n_choices; i++)
        if (!job->choices[i].done)
            note_unfinished(&job->choices[i]);
    api_reply_count(job, &prompt, &cached, &generated);
    a->n_prompt = (uint32_t)prompt;
    a->n_cached = (uint32_t)cached;
    a->n_generated = (uint32_t)generated;
    for (uint32_t i = 0; i < job->n_choices; i++) {
        const stator_event *e = &job->choices[i].end;
        a->queue_ns = e->queue_ns > a->queue_ns ? e->queue_ns : a->queue_ns;
        a->prompt_ns = e->prompt_ns > a->prompt_ns ? e->prompt_ns : a->prompt_ns;
        a->generate_ns = e->generate_ns > a->generate_ns ? e->generate_ns : a->generate_ns;
    }
    snprintf(a->reason, sizeof a->reason, "%s", reason);
}

void api_jobs_fail(struct api_job_state *job, int status, const char *param, const char *fmt, ...) {
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (job->x == NULL)
        return;
    account(job, status == 504 ? "timeout" : "error");
    if (job->begun) {
        /* The status is out already: the stream says it. Without room for that it must not look whole. */
        job->out.n = 0;
        job->out.failed = false;
        job->voice->error(&job->out, job, status, text);
        if (!job->out.failed && http_stream_write(job->x, job->out.p, job->out.n))
            http_stream_end(job->x);
        else
            http_stream_cut(job->x);
    } else {
        http_reply_error(job->x, status, NULL, param, "%s", text);
    }
    leave(job);
}

void api_jobs_reply(struct api_job_state *job, const struct api_text *json) {
    if (json->failed) {
        api_jobs_fail(job, 503, NULL, "the server's memory (server.memory) has no room for the answer");
        return;
    }
    http_reply(job->x, 200, "application/json", json->p, json->n);
    leave(job);
}

void api_jobs_render(struct api_job_state *job, struct api_request *r,
                     void (*rendered)(struct api_job_state *job, const struct api_text *text)) {
    job->request = *r;
    job->rendered = rendered;
    *r = (struct api_request){0};
    api_render_begin(job);
}

static void hold(struct api_job_state *job, bool on) {
    if (job->held == on)
        return;
    job->held = on;
    for (uint32_t i = 0; i < job->n_choices; i++)
        if (job->choices[i].request != 0)
            (void)stator_hold(job->api->engine, job->choices[i].request, on, NULL);
}

/* Bytes of out that go now: whole events or lines, unless one is longer than the whole room. */
static size_t portion(const struct api_job_state *job) {
    const size_t room = http_stream_room(job->x);
    if (job->out.n <= room)
        return job->out.n;
    for (size_t n = room; n >= 2; n--)
        if (job->out.p[n - 1] == '\n' && (job->voice->lines || job->out.p[n - 2] == '\n'))
            return n;
    return http_stream_pending(job->x) == 0 ? room : 0;
}

static void flush(struct api_job_state *job) {
    if (job->x == NULL || (job->out.n == 0 && !job->complete))
        return;
    if (!job->begun) {
        job->begun = true;
        if (!http_stream_begin(job->x, job->voice->lines ? "application/x-ndjson" : "text/event-stream")) {
            leave(job);
            return;
        }
    }
    const size_t n = portion(job);
    if (n > 0 && http_stream_write(job->x, job->out.p, n)) {
        api_text_drop(&job->out, n);
        job->wrote_ns = clock_ns();
    }
    hold(job, job->out.n > 0);
    if (job->complete && job->out.n == 0) {
        http_stream_end(job->x);
        job->x = NULL;
    }
}

bool api_jobs_lack(const struct api_choice *c) {
    return api_answer_failed(&c->answer) || c->content.failed || c->reasoning.failed || c->calls.failed ||
           c->call_texts.failed || c->parts.failed || c->arguments.failed;
}

/* No memory for an answer: the job ends. Otherwise the stream goes on. */
static void carry_on(struct api_job_state *job, const struct api_choice *c) {
    if (job->x == NULL)
        return;
    if (job->out.failed || api_jobs_lack(c))
        api_jobs_fail(job, 503, NULL, "the server's memory (server.memory) has no room for the answer");
    else
        flush(job);
}

/* Text as events, none of which is long. */
static void put_events(struct api_choice *c, enum api_piece piece, const char *p, size_t n) {
    while (n > 0) {
        size_t part = n < PIECE_BYTES ? n : PIECE_BYTES;
        while (part < n && part > 0 && ((unsigned char)p[part] & 0xC0) == 0x80)
            part--; /* between characters */
        part = part == 0 ? n : part;
        c->job->voice->event(&c->job->out, c, piece, p, part);
        p += part;
        n -= part;
    }
}

/* What came of a call's arguments, in small pieces, becomes an event. */
static void tell_arguments(struct api_choice *c) {
    put_events(c, API_PIECE_ARGUMENTS, c->arguments.p, c->arguments.n);
    c->arguments.n = 0;
}

static bool keeps(const struct api_job_state *job) {
    return !job->stream || job->voice->keeps;
}

struct api_part api_jobs_part(const struct api_choice *c, size_t i) {
    struct api_part part;
    CHECK((i + 1) * sizeof part <= c->parts.n);
    memcpy(&part, c->parts.p + i * sizeof part, sizeof part);
    return part;
}

struct api_call api_jobs_call(const struct api_choice *c, size_t i) {
    struct api_call call;
    CHECK((i + 1) * sizeof call <= c->calls.n);
    memcpy(&call, c->calls.p + i * sizeof call, sizeof call);
    return call;
}

/* What is kept becomes a part of its own, or more of the last one. */
static void keep_part(struct api_choice *c, enum api_piece kind, size_t at, size_t n) {
    if (c->last == kind && kind != API_PIECE_CALL && c->parts.n > 0) {
        char *last = c->parts.p + c->parts.n - sizeof(struct api_part);
        struct api_part part;
        memcpy(&part, last, sizeof part);
        part.n += n;
        memcpy(last, &part, sizeof part);
        return;
    }
    const struct api_part part = {kind, at, n};
    api_text_put(&c->parts, (const char *)&part, sizeof part);
}

/* Pieces of an answer: into the stream as events, and kept. */
static void put_piece(struct api_choice *c, enum api_piece piece, const char *p, size_t n) {
    if (keeps(c->job)) {
        struct api_text *to = piece == API_PIECE_REASONING ? &c->reasoning : &c->content;
        keep_part(c, piece, to->n, n);
        api_text_put(to, p, n);
    }
    c->last = piece;
    if (c->job->stream)
        put_events(c, piece, p, n);
}

static void put_content(void *context, const char *p, size_t n) {
    put_piece(context, API_PIECE_CONTENT, p, n);
}

static void put_reasoning(void *context, const char *p, size_t n) {
    put_piece(context, API_PIECE_REASONING, p, n);
}

static void put_call(void *context, const char *name, size_t n) {
    struct api_choice *c = context;
    if (c->calls_over)
        return;
    c->n_calls++;
    const struct api_call call = {
        .name = c->call_texts.n, .name_length = n, .arguments = c->call_texts.n + n};
    if (keeps(c->job))
        keep_part(c, API_PIECE_CALL, c->n_calls - 1, 0);
    api_text_put(&c->call_texts, name, n);
    api_text_put(&c->calls, (const char *)&call, sizeof call);
    c->last = API_PIECE_CALL;
    if (c->job->stream)
        c->job->voice->event(&c->job->out, c, API_PIECE_CALL, name, n);
}

static void put_arguments(void *context, const char *p, size_t n) {
    struct api_choice *c = context;
    if (c->calls_over)
        return;
    if (c->job->stream)
        api_text_put(&c->arguments, p, n);
    if (c->calls.failed)
        return;
    char *last = c->calls.p + c->calls.n - sizeof(struct api_call);
    struct api_call call;
    memcpy(&call, last, sizeof call);
    call.arguments_length += n;
    memcpy(last, &call, sizeof call);
    api_text_put(&c->call_texts, p, n);
}

static void end_call(void *context) {
    struct api_choice *c = context;
    if (c->calls_over)
        return;
    if (c->job->stream)
        tell_arguments(c);
    c->calls_over = c->job->one_call;
}

void api_jobs_begin(struct api_choice *c) {
    const struct api_job_state *job = c->job;
    c->sink = (struct chat_sink){put_content, put_reasoning, put_call, put_arguments, end_call, c};
    api_answer_begin(&c->answer, job->endpoint == API_CHAT ? &job->api->model.form : NULL, job->thinks,
                     job->tools, &job->types, &c->sink, c->answer.keeps_tokens);
    c->answer.parse.tagged = job->tagged_calls;
    if (job->goes_on != API_NEW_MESSAGE)
        chat_parse_go_on(&c->answer.parse, job->thinks);
}

void api_jobs_put(struct api_choice *c, const char *p, size_t n) {
    if (n > 0)
        put_content(c, p, n);
}

/* The text is complete; the request ends in its own time. */
static void stop(struct api_choice *c) {
    c->stopped = true;
    stator_cancel(c->job->api->engine, c->request);
}

static void tell_begin(struct api_choice *c) {
    if (!c->job->stream || c->begun)
        return;
    c->begun = true;
    c->job->voice->event(&c->job->out, c, API_PIECE_BEGIN, NULL, 0);
}

static bool is_stop_id(const struct api_job_state *job, int32_t token) {
    for (uint32_t i = 0; i < job->n_stop_ids; i++)
        if (job->stop_ids[i] == token)
            return true;
    return false;
}

static void on_token(struct api_choice *c, const stator_event *ev) {
    struct api_job_state *job = c->job;
    if (job->x == NULL || c->stopped)
        return;
    tell_begin(c);
    if (is_stop_id(job, ev->token)) {
        api_answer_end(&c->answer, &job->api->tokens, job->stops);
        stop(c);
    } else if (!api_answer_token(&c->answer, &job->api->tokens, job->stops, ev) || c->calls_over)
        stop(c);
    c->n_reasoning += c->last == API_PIECE_REASONING;
    tell_arguments(c);
    carry_on(job, c);
}

static void complete(struct api_job_state *job) {
    account(job, api_reply_finish(job->choices[0].finish));
    if (job->stream) {
        if (job->voice->end != NULL)
            job->voice->end(&job->out, job);
        job->complete = true;
        carry_on(job, &job->choices[0]);
        return;
    }
    struct api_text whole = {0};
    job->voice->whole(&whole, job);
    api_jobs_reply(job, &whole);
    api_text_free(&whole);
}

/* A history that has them can be rendered as the model wrote it (api_messages.c). */
static void keep_calls(const struct api_choice *c) {
    for (uint32_t i = 0; i < c->n_calls; i++) {
        char id[48];
        const struct api_call call = api_jobs_call(c, i);
        api_reply_call_id(c, i, id);
        kept_put(&c->job->api->kept, id, c->call_texts.p + call.arguments, call.arguments_length);
    }
}

static void finish(struct api_choice *c, const stator_event *ev) {
    struct api_job_state *job = c->job;
    if (!c->stopped) {
        tell_begin(c);
        api_answer_end(&c->answer, &job->api->tokens, job->stops);
    }
    c->finish = ev->reason == STATOR_REASON_LENGTH && !c->stopped && !c->answer.stop.hit ? API_FINISH_LENGTH
                                                                                         : API_FINISH_STOP;
    if (c->n_calls > 0 && c->finish == API_FINISH_STOP)
        c->finish = API_FINISH_CALLS;
    if (!api_jobs_lack(c))
        keep_calls(c);
    if (job->stream)
        job->voice->event(&job->out, c, API_PIECE_END, NULL, 0);
    job->n_done++;
    if (job->n_done == job->n_choices && !job->out.failed && !api_jobs_lack(c))
        complete(job);
    else
        carry_on(job, c);
}

static void on_done(struct api_choice *c, const stator_event *ev) {
    struct api_job_state *job = c->job;
    forget(c);
    c->done = true;
    c->end = *ev;
    c->slot = ev->slot;
    if (ev->reason == STATOR_REASON_FAILED) {
        if (ev->status == STATOR_DEVICE)
            server_look_for_fault(job->api->server);
        api_jobs_fail(job, 500, NULL, "%s", ev->text);
    } else if (ev->reason == STATOR_REASON_CANCELLED && !c->stopped) {
        api_jobs_fail(job, 503, NULL, "the request was cancelled");
    } else if (job->x != NULL) {
        finish(c, ev);
    }
    api_jobs_settle(job);
}

void api_poll(struct server *s) {
    struct api *api = s->api;
    if (api->renderer != NULL)
        api_render_poll(api);
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        if (stator_poll(api->engine, 0, &ev, &have, NULL) != STATOR_OK || !have)
            return;
        struct api_choice *c = find(api, ev.request);
        if (c == NULL) {
            if (!api_vector_jobs_event(api, &ev))
                (void)api_slots_event(api, &ev);
            continue;
        }
        if (ev.kind == STATOR_EVENT_TOKEN)
            on_token(c, &ev);
        else if (ev.kind == STATOR_EVENT_DONE)
            on_done(c, &ev);
    }
}

/* For a client that waits. */
static void ping(struct api_job_state *job) {
    stator_request_stats r = {.size = sizeof r};
    char note[96] = "";
    const struct api_choice *c = &job->choices[0];
    if (c->request != 0 && stator_get_request(job->api->engine, c->request, &r, NULL) == STATOR_OK) {
        if (r.state == STATOR_WAITING)
            snprintf(note, sizeof note, "waiting for a free place");
        else if (r.n_generated == 0)
            snprintf(note, sizeof note, "prompt %u of %u tokens", r.n_computed, r.n_prompt);
    }
    if (job->voice->single)
        tell_begin(&job->choices[0]);
    job->voice->ping(&job->out, job, note);
    carry_on(job, c);
}

void api_tick(struct server *s, uint64_t now_ns) {
    const uint64_t longest = s->settings.request_timeout_ns;
    if (s->api->renderer != NULL && s->signal != NULL && atomic_load(s->signal) != 0)
        api_render_stop(s->api);
    for (struct api_job_state *job = s->api->first, *next; job != NULL; job = next) {
        next = job->next;
        if (job->x == NULL)
            continue;
        const uint64_t pause = job->choices[0].answer.n_tokens == 0 ? PING_FIRST : PING_LATER;
        if (longest > 0 && now_ns - job->started_ns > longest && now_ns > job->started_ns)
            api_jobs_fail(job, 504, NULL,
                          "the request took longer than %.0f seconds (server.request_timeout)",
                          (double)longest / SECOND);
        else if (job->stream && job->render == API_RENDER_NONE && job->out.n == 0 &&
                 now_ns > job->wrote_ns + pause)
            ping(job);
        api_jobs_settle(job);
    }
    api_vector_jobs_tick(s->api, now_ns, longest);
    api_slots_tick(s->api, now_ns, longest);
}

void api_cancel_all(struct server *s, const char *why) {
    for (struct api_job_state *job = s->api->first, *next; job != NULL; job = next) {
        next = job->next;
        api_jobs_fail(job, 503, NULL, "%s", why);
        api_jobs_settle(job);
    }
    api_vector_jobs_cancel_all(s->api, why);
    api_slots_cancel_all(s->api, why);
}

uint32_t api_jobs(const struct server *s) {
    uint32_t n = api_vector_jobs_count(s->api) + api_slots_count(s->api);
    for (const struct api_job_state *job = s->api->first; job != NULL; job = job->next)
        n += job->x != NULL;
    return n;
}

bool api_get_job(const struct server *s, uint32_t index, struct api_job *out) {
    for (const struct api_job_state *job = s->api->first; job != NULL; job = job->next)
        for (uint32_t i = 0; i < job->n_choices; i++)
            if (job->choices[i].request != 0 && index-- == 0) {
                *out = (struct api_job){.request = job->choices[i].request,
                                        .id = job->id,
                                        .path = job->path,
                                        .stream = job->stream};
                return true;
            }
    const uint32_t left = index;
    uint32_t vectors = 0;
    if (api_vector_jobs_get(s->api, left, out))
        return true;
    for (struct api_job job; vectors < left && api_vector_jobs_get(s->api, vectors, &job);)
        vectors++;
    return api_slots_get(s->api, left - vectors, out);
}

void api_jobs_drained(void *context, struct http_exchange *x) {
    struct api_job_state *job = context;
    (void)x;
    flush(job);
    api_jobs_settle(job);
}

void api_jobs_gone(void *context, struct http_exchange *x) {
    struct api_job_state *job = context;
    (void)x;
    account(job, "cancelled");
    leave(job);
    api_jobs_settle(job);
}
