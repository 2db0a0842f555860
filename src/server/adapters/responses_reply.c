/* Answers of the Responses API. Each part of an answer is an item; a stream's items follow each other: each
 * is opened by the first piece of its kind and closed, with its whole text, in front of the next one. */
#include "server/adapters/responses.h"

#include "base/check.h"
#include "base/json_writer.h"
#include "server/adapters/adapter_reply.h"
#include "server/openai/api_reply.h"
#include "server/openai/api_settings.h"

#include <stdio.h>
#include <string.h>

static const char in_progress[] = "in_progress", completed[] = "completed", incomplete[] = "incomplete";

/* Kinds of items. */
static const struct kind {
    const char *id, *part, *delta, *done; /* what ids begin with, the type of the part, of events */
} kinds[] = {
    [API_PIECE_CONTENT] = {"msg_", "output_text", "response.output_text.delta", "response.output_text.done"},
    [API_PIECE_REASONING] = {"rs_", "reasoning_text", "response.reasoning_text.delta",
                             "response.reasoning_text.done"},
    [API_PIECE_CALL] = {"fc_", NULL, "response.function_call_arguments.delta",
                        "response.function_call_arguments.done"},
};

struct event {
    const char *type;
    uint64_t number;
    const struct api_choice *c;
    struct api_part part; /* of the item */
    const char *status;
    const char *p; /* of a delta, or a name */
    size_t n;
    const char *error; /* of a response that has failed; NULL: it has not */
    bool brief;        /* the response does not repeat the request */
};

static void put_nothing(struct json *j, const char *name) {
    json_open_array(j, name);
    json_close(j);
}

static void put_part(struct json *j, const char *name, enum api_piece kind, const char *p, size_t n) {
    json_open_object(j, name);
    json_put_string(j, "type", kinds[kind].part);
    json_put_string_n(j, "text", p, n);
    if (kind == API_PIECE_CONTENT) {
        put_nothing(j, "annotations");
        put_nothing(j, "logprobs");
    }
    json_close(j);
}

/* Item number i of the output. empty: as it is when it begins. */
static void put_item(struct json *j, const char *name, const struct api_choice *c, uint32_t i,
                     const struct api_part *part, const char *status, bool empty) {
    char id[48];
    json_open_object(j, name);
    adapter_id(c, kinds[part->kind].id, i, id);
    json_put_string(j, "id", id);
    if (part->kind == API_PIECE_CALL) {
        const struct api_call call = api_jobs_call(c, part->at);
        json_put_string(j, "type", "function_call");
        json_put_string(j, "status", status);
        api_reply_call_id(c, (uint32_t)part->at, id);
        json_put_string(j, "call_id", id);
        json_put_string_n(j, "name", c->call_texts.p + call.name, call.name_length);
        json_put_string_n(j, "arguments", c->call_texts.p + call.arguments,
                          empty ? 0 : call.arguments_length);
        json_close(j);
        return;
    }
    const bool reasoning = part->kind == API_PIECE_REASONING;
    json_put_string(j, "type", reasoning ? "reasoning" : "message");
    json_put_string(j, "status", status);
    if (reasoning)
        put_nothing(j, "summary");
    else
        json_put_string(j, "role", "assistant");
    json_open_array(j, "content");
    if (!empty)
        put_part(j, NULL, part->kind, adapter_text(c, part), part->n);
    json_close(j);
    if (reasoning && c->job->returns_reasoning && !empty)
        json_put_joined(j, "encrypted_content", RESPONSES_MARK, sizeof RESPONSES_MARK - 1,
                        adapter_text(c, part), part->n);
    json_close(j);
}

static void put_usage(struct json *j, const struct api_choice *c) {
    uint64_t prompt = 0, cached = 0;
    adapter_count(c, &prompt, &cached);
    json_open_object(j, "usage");
    json_put_u64(j, "input_tokens", prompt);
    json_open_object(j, "input_tokens_details");
    json_put_u64(j, "cached_tokens", cached);
    json_close(j);
    json_put_u64(j, "output_tokens", c->answer.n_tokens);
    json_open_object(j, "output_tokens_details");
    json_put_u64(j, "reasoning_tokens", c->n_reasoning);
    json_close(j);
    json_put_u64(j, "total_tokens", prompt + c->answer.n_tokens);
    json_close(j);
}

/* The items that are told, while the response is in progress none. */
static void put_output(struct json *j, const struct api_choice *c, const char *status) {
    const size_t n = status == completed || status == incomplete ? c->parts.n / sizeof(struct api_part) : 0;
    json_open_array(j, "output");
    for (size_t i = 0; i < n; i++) {
        const struct api_part part = api_jobs_part(c, i);
        put_item(j, NULL, c, (uint32_t)i, &part, i + 1 == n ? status : completed, false);
    }
    json_close(j);
}

/* What the response was asked for with. brief: without the request's texts. */
static void put_settings(struct json *j, const struct api_job_state *job, bool brief) {
    const char *p = job->repeated.p, *end = p + job->repeated.n;
    for (size_t i = 0; i < RESPONSES_REPEATED; i++) {
        const struct responses_member *m = &responses_repeated[i];
        const char *line = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        const size_t n = line != NULL && !brief ? (size_t)(line - p) : 0;
        json_put_raw(j, m->name, n > 0 ? p : m->otherwise, n > 0 ? n : strlen(m->otherwise));
        p = line != NULL ? line + 1 : end;
    }
    api_settings_put_sampling(j, &job->api->server->settings.sampling, &job->sampling,
                              STATOR_HAS_TEMPERATURE | STATOR_HAS_TOP_P);
    json_put_bool(j, "background", false);
    json_put_bool(j, "parallel_tool_calls", !job->one_call);
    json_put_null(j, "previous_response_id");
    json_put_bool(j, "store", false);
    json_put_u64(j, "top_logprobs", 0);
    json_put_string(j, "truncation", "disabled");
}

/* name: NULL at the top. */
static void put_response(struct json *j, const char *name, const struct api_choice *c, const char *status,
                         const char *error, bool brief) {
    const struct api_job_state *job = c->job;
    json_open_object(j, name);
    json_put_string(j, "id", job->id);
    json_put_string(j, "object", "response");
    json_put_i64(j, "created_at", job->created);
    json_put_string(j, "status", status);
    json_put_string(j, "model", job->api->model.name);
    put_output(j, c, status);
    if (error != NULL) {
        json_open_object(j, "error");
        json_put_string(j, "code", "server_error");
        json_put_string(j, "message", error);
        json_close(j);
    } else {
        json_put_null(j, "error");
    }
    if (status == incomplete) {
        json_open_object(j, "incomplete_details");
        json_put_string(j, "reason", "max_output_tokens");
        json_close(j);
    } else {
        json_put_null(j, "incomplete_details");
    }
    if (status == in_progress)
        json_put_null(j, "usage");
    else
        put_usage(j, c);
    put_settings(j, job, brief);
    json_close(j);
}

static const char *status_of(const struct api_choice *c) {
    return c->finish == API_FINISH_LENGTH ? incomplete : completed;
}

static void build_whole(struct json *j, const void *of) {
    const struct api_job_state *job = of;
    put_response(j, NULL, &job->choices[0], status_of(&job->choices[0]), NULL, false);
}

struct numbered {
    const struct api_choice *c;
    uint32_t i;
};

static void build_kept(struct json *j, const void *of) {
    const struct numbered *item = of;
    const struct api_part part = api_jobs_part(item->c, item->i);
    put_item(j, NULL, item->c, item->i, &part, completed, false);
}

/* The items can be referred to: `ai` does so by default. */
static void keep_items(const struct api_choice *c) {
    struct api_text text = {0};
    for (uint32_t i = 0; i < c->parts.n / sizeof(struct api_part); i++) {
        char id[48];
        text.n = 0;
        api_text_json(&text, build_kept, &(struct numbered){c, i});
        adapter_id(c, kinds[api_jobs_part(c, i).kind].id, i, id);
        if (!text.failed)
            kept_put(&c->job->api->kept, id, text.p, text.n);
    }
    api_text_free(&text);
}

static void tell_whole(struct api_text *out, struct api_job_state *job) {
    api_text_json(out, build_whole, job);
    keep_items(&job->choices[0]);
}

/* --- events */

static void open_event(struct json *j, const struct event *e) {
    json_open_object(j, NULL);
    json_put_string(j, "type", e->type);
    json_put_u64(j, "sequence_number", e->number);
}

static void build_response(struct json *j, const void *of) {
    const struct event *e = of;
    open_event(j, e);
    put_response(j, "response", e->c, e->status, e->error, e->brief);
    json_close(j);
}

static void build_item(struct json *j, const void *of) {
    const struct event *e = of;
    const uint32_t i = e->c->n_items - 1;
    open_event(j, e);
    json_put_u64(j, "output_index", i);
    put_item(j, "item", e->c, i, &e->part, e->status, e->status == in_progress);
    json_close(j);
}

/* An event of a piece of the item. */
static void open_piece(struct json *j, const struct event *e) {
    char id[48];
    open_event(j, e);
    adapter_id(e->c, kinds[e->part.kind].id, e->c->n_items - 1, id);
    json_put_string(j, "item_id", id);
    json_put_u64(j, "output_index", e->c->n_items - 1);
    if (e->part.kind != API_PIECE_CALL)
        json_put_u64(j, "content_index", 0);
}

static void build_part(struct json *j, const void *of) {
    const struct event *e = of;
    open_piece(j, e);
    put_part(j, "part", e->part.kind, e->p, e->n);
    json_close(j);
}

static void build_delta(struct json *j, const void *of) {
    const struct event *e = of;
    open_piece(j, e);
    json_put_string_n(j, "delta", e->p, e->n);
    if (e->part.kind == API_PIECE_CONTENT)
        put_nothing(j, "logprobs");
    json_close(j);
}

static void build_done(struct json *j, const void *of) {
    const struct event *e = of;
    open_piece(j, e);
    if (e->part.kind == API_PIECE_CALL) {
        const struct api_call call = api_jobs_call(e->c, e->part.at);
        json_put_string_n(j, "name", e->c->call_texts.p + call.name, call.name_length);
    }
    json_put_string_n(j, e->part.kind == API_PIECE_CALL ? "arguments" : "text", e->p, e->n);
    if (e->part.kind == API_PIECE_CONTENT)
        put_nothing(j, "logprobs");
    json_close(j);
}

static void tell_one(struct api_text *out, struct api_job_state *job, struct event e,
                     void (*build)(struct json *j, const void *of)) {
    e.number = job->n_events++;
    adapter_event(out, e.type, build, &e);
}

/* The item that is open; its text is complete where it is to be closed. */
static struct event item_event(const struct api_choice *c, const char *type) {
    return (struct event){.type = type, .c = c, .part = api_jobs_part(c, c->n_items - 1)};
}

static void close_item(struct api_text *out, struct api_choice *c, const char *status) {
    if (c->open == API_PIECE_BEGIN)
        return;
    struct event e = item_event(c, kinds[c->open].done);
    e.p = adapter_text(c, &e.part);
    e.n = e.part.n;
    if (c->open == API_PIECE_CALL) {
        const struct api_call call = api_jobs_call(c, e.part.at);
        e.p = c->call_texts.p + call.arguments;
        e.n = call.arguments_length;
    }
    tell_one(out, c->job, e, build_done);
    e.type = "response.content_part.done";
    if (c->open != API_PIECE_CALL)
        tell_one(out, c->job, e, build_part);
    e.type = "response.output_item.done";
    e.status = status;
    tell_one(out, c->job, e, build_item);
    c->open = API_PIECE_BEGIN;
}

static void open_item(struct api_text *out, struct api_choice *c, enum api_piece kind) {
    close_item(out, c, completed);
    c->n_items++;
    c->open = kind;
    struct event e = item_event(c, "response.output_item.added");
    e.status = in_progress;
    tell_one(out, c->job, e, build_item);
    e.type = "response.content_part.added";
    e.p = "";
    if (kind != API_PIECE_CALL)
        tell_one(out, c->job, e, build_part);
}

static void tell_response(struct api_text *out, struct api_choice *c, const char *type, const char *status,
                          const char *error) {
    tell_one(out, c->job, (struct event){.type = type, .c = c, .status = status, .error = error},
             build_response);
}

static void tell(struct api_text *out, struct api_choice *c, enum api_piece piece, const char *p, size_t n) {
    if (api_jobs_lack(c)) /* the job is about to fail */
        return;
    switch (piece) {
    case API_PIECE_BEGIN:
        tell_response(out, c, "response.created", in_progress, NULL);
        tell_response(out, c, "response.in_progress", in_progress, NULL);
        return;
    case API_PIECE_CALL:
        open_item(out, c, piece);
        return;
    case API_PIECE_CONTENT:
    case API_PIECE_REASONING:
    case API_PIECE_ARGUMENTS:
        if (piece != API_PIECE_ARGUMENTS && c->open != piece)
            open_item(out, c, piece);
        CHECK(c->open != API_PIECE_BEGIN);
        struct event e = item_event(c, kinds[c->open].delta);
        e.p = p;
        e.n = n;
        tell_one(out, c->job, e, build_delta);
        return;
    case API_PIECE_END:
        close_item(out, c, status_of(c));
        keep_items(c);
        tell_response(out, c, status_of(c) == incomplete ? "response.incomplete" : "response.completed",
                      status_of(c), NULL);
        return;
    }
}

/* Once more: clients that wait only so long for an event go on waiting. */
static void ping(struct api_text *out, struct api_job_state *job, const char *note) {
    (void)note;
    tell_one(out, job,
             (struct event){
                 .type = "response.in_progress", .c = &job->choices[0], .status = in_progress, .brief = true},
             build_response);
}

static void tell_error(struct api_text *out, struct api_job_state *job, int status, const char *message) {
    (void)status;
    tell_response(out, &job->choices[0], "response.failed", "failed", message);
}

const struct api_voice responses_voice = {.id = "resp_",
                                          .call_id = "call_",
                                          .single = true,
                                          .no_logprobs = true,
                                          .keeps = true,
                                          .event = tell,
                                          .error = tell_error,
                                          .ping = ping,
                                          .whole = tell_whole};

void responses_create(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/v1/responses", API_CHAT, &responses_voice, responses_translate,
                                       NULL};
    api_routes_answer(context, x, &way);
}
