/* Answers of the Messages API. A stream's blocks follow each other: each is opened by the first piece of its
 * kind and closed in front of the next block. */
#include "server/adapters/anthropic.h"

#include "base/check.h"
#include "base/json_writer.h"
#include "server/adapters/adapter_reply.h"
#include "server/request/api_pictures.h"
#include "server/request/api_prompt.h"
#include "server/openai/api_reply.h"

#include <string.h>

/* Clients keep it and send it back with the block; it says nothing. */
#define SIGNATURE "stator"

struct event {
    const char *type;
    const struct api_choice *c;
    enum api_piece kind; /* of the block */
    const char *p;
    size_t n;
};

static void put_usage(struct json *j, const struct api_choice *c) {
    uint64_t prompt = 0, cached = 0;
    adapter_count(c, &prompt, &cached);
    json_open_object(j, "usage");
    json_put_u64(j, "input_tokens", prompt - cached);
    json_put_u64(j, "cache_creation_input_tokens", 0);
    json_put_u64(j, "cache_read_input_tokens", cached);
    json_put_u64(j, "output_tokens", c->answer.n_tokens);
    json_close(j);
}

static void put_stop(struct json *j, const struct api_choice *c) {
    static const char *const names[] = {[API_FINISH_NONE] = "end_turn",
                                        [API_FINISH_STOP] = "end_turn",
                                        [API_FINISH_LENGTH] = "max_tokens",
                                        [API_FINISH_CALLS] = "tool_use"};
    const bool hit = c->answer.stop.hit && c->finish == API_FINISH_STOP;
    json_put_string(j, "stop_reason", hit ? "stop_sequence" : names[c->finish]);
    if (!hit) {
        json_put_null(j, "stop_sequence");
        return;
    }
    const struct api_stop_text *by = &c->job->stops->at[c->answer.stop.which];
    json_put_string_n(j, "stop_sequence", by->p, by->n);
}

static void put_call(struct json *j, const struct api_choice *c, uint32_t i, const char *name, size_t n) {
    char id[48];
    api_reply_call_id(c, i, id);
    json_put_string(j, "type", "tool_use");
    json_put_string(j, "id", id);
    json_put_string_n(j, "name", name, n);
}

static void put_block(struct json *j, const struct api_choice *c, const struct api_part *part) {
    json_open_object(j, NULL);
    if (part->kind == API_PIECE_CALL) {
        const struct api_call call = api_jobs_call(c, part->at);
        put_call(j, c, (uint32_t)part->at, c->call_texts.p + call.name, call.name_length);
        adapter_put_arguments(j, "input", c->call_texts.p + call.arguments, call.arguments_length);
    } else {
        const char *type = part->kind == API_PIECE_REASONING ? "thinking" : "text";
        json_put_string(j, "type", type);
        json_put_string_n(j, type, adapter_text(c, part), part->n);
        if (part->kind == API_PIECE_REASONING)
            json_put_string(j, "signature", SIGNATURE);
    }
    json_close(j);
}

/* name: NULL at the top. */
static void put_message(struct json *j, const char *name, const struct api_choice *c, bool whole) {
    json_open_object(j, name);
    json_put_string(j, "id", c->job->id);
    json_put_string(j, "type", "message");
    json_put_string(j, "role", "assistant");
    json_put_string(j, "model", c->job->api->model.name);
    json_open_array(j, "content");
    for (size_t i = 0; whole && i < c->parts.n / sizeof(struct api_part); i++) {
        const struct api_part part = api_jobs_part(c, i);
        put_block(j, c, &part);
    }
    json_close(j);
    if (whole) {
        put_stop(j, c);
    } else {
        json_put_null(j, "stop_reason");
        json_put_null(j, "stop_sequence");
    }
    put_usage(j, c);
    json_close(j);
}

static void build_whole(struct json *j, const void *of) {
    const struct api_job_state *job = of;
    put_message(j, NULL, &job->choices[0], true);
}

static void tell_whole(struct api_text *out, struct api_job_state *job) {
    api_text_json(out, build_whole, job);
}

/* --- events */

static void build_start(struct json *j, const void *of) {
    const struct event *e = of;
    json_open_object(j, NULL);
    json_put_string(j, "type", e->type);
    put_message(j, "message", e->c, false);
    json_close(j);
}

static void put_index(struct json *j, const struct event *e) {
    json_open_object(j, NULL);
    json_put_string(j, "type", e->type);
    json_put_u64(j, "index", e->c->n_items - 1);
}

static void build_block_start(struct json *j, const void *of) {
    const struct event *e = of;
    put_index(j, e);
    json_open_object(j, "content_block");
    if (e->kind == API_PIECE_CALL) {
        put_call(j, e->c, e->c->n_calls - 1, e->p, e->n);
        json_open_object(j, "input");
        json_close(j);
    } else if (e->kind == API_PIECE_REASONING) {
        json_put_string(j, "type", "thinking");
        json_put_string(j, "thinking", "");
        json_put_string(j, "signature", "");
    } else {
        json_put_string(j, "type", "text");
        json_put_string(j, "text", "");
    }
    json_close(j);
    json_close(j);
}

/* kind END: the signature of a block of reasoning. */
static void build_delta(struct json *j, const void *of) {
    static const struct {
        const char *type, *name;
    } deltas[] = {[API_PIECE_CONTENT] = {"text_delta", "text"},
                  [API_PIECE_REASONING] = {"thinking_delta", "thinking"},
                  [API_PIECE_ARGUMENTS] = {"input_json_delta", "partial_json"},
                  [API_PIECE_END] = {"signature_delta", "signature"}};
    const struct event *e = of;
    put_index(j, e);
    json_open_object(j, "delta");
    json_put_string(j, "type", deltas[e->kind].type);
    json_put_string_n(j, deltas[e->kind].name, e->p, e->n);
    json_close(j);
    json_close(j);
}

static void build_index(struct json *j, const void *of) {
    put_index(j, of);
    json_close(j);
}

static void build_end(struct json *j, const void *of) {
    const struct event *e = of;
    json_open_object(j, NULL);
    json_put_string(j, "type", e->type);
    json_open_object(j, "delta");
    put_stop(j, e->c);
    json_close(j);
    put_usage(j, e->c);
    json_close(j);
}

static void build_type(struct json *j, const void *of) {
    json_open_object(j, NULL);
    json_put_string(j, "type", of);
    json_close(j);
}

static void tell_one(struct api_text *out, const struct event *e,
                     void (*build)(struct json *j, const void *of)) {
    adapter_event(out, e->type, build, e);
}

static void close_block(struct api_text *out, struct api_choice *c) {
    if (c->open == API_PIECE_BEGIN)
        return;
    if (c->open == API_PIECE_REASONING)
        tell_one(out,
                 &(struct event){"content_block_delta", c, API_PIECE_END, SIGNATURE, sizeof SIGNATURE - 1},
                 build_delta);
    tell_one(out, &(struct event){.type = "content_block_stop", .c = c}, build_index);
    c->open = API_PIECE_BEGIN;
}

static void open_block(struct api_text *out, struct api_choice *c, enum api_piece kind, const char *name,
                       size_t n) {
    close_block(out, c);
    c->n_items++;
    c->open = kind;
    tell_one(out, &(struct event){"content_block_start", c, kind, name, n}, build_block_start);
}

static void tell(struct api_text *out, struct api_choice *c, enum api_piece piece, const char *p, size_t n) {
    switch (piece) {
    case API_PIECE_BEGIN:
        tell_one(out, &(struct event){.type = "message_start", .c = c}, build_start);
        return;
    case API_PIECE_CALL:
        open_block(out, c, piece, p, n);
        return;
    case API_PIECE_CONTENT:
    case API_PIECE_REASONING:
        if (c->open != piece)
            open_block(out, c, piece, NULL, 0);
        tell_one(out, &(struct event){"content_block_delta", c, piece, p, n}, build_delta);
        return;
    case API_PIECE_ARGUMENTS:
        CHECK(c->open == API_PIECE_CALL);
        tell_one(out, &(struct event){"content_block_delta", c, piece, p, n}, build_delta);
        return;
    case API_PIECE_END:
        close_block(out, c);
        tell_one(out, &(struct event){.type = "message_delta", .c = c}, build_end);
        adapter_event(out, "message_stop", build_type, "message_stop");
        return;
    }
}

static void ping(struct api_text *out, struct api_job_state *job, const char *note) {
    (void)job;
    (void)note;
    adapter_event(out, "ping", build_type, "ping");
}

/* --- errors */

const char *anthropic_error_type(int status) {
    static const struct {
        int status;
        const char *type;
    } types[] = {{401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"}, {503, "overloaded_error"},
                 {504, "timeout_error"}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].status == status)
            return types[i].type;
    return status >= 500 ? "api_error" : "invalid_request_error";
}

struct error {
    int status;
    const char *message;
};

static void build_error(struct json *j, const void *of) {
    const struct error *e = of;
    json_open_object(j, NULL);
    json_put_string(j, "type", "error");
    json_open_object(j, "error");
    json_put_string(j, "type", anthropic_error_type(e->status));
    json_put_string(j, "message", e->message);
    json_close(j);
    json_close(j);
}

void anthropic_error(struct json *j, int status, const char *message) {
    build_error(j, &(struct error){status, message});
}

static void tell_error(struct api_text *out, struct api_job_state *job, int status, const char *message) {
    (void)job;
    adapter_event(out, "error", build_error, &(struct error){status, message});
}

const struct api_voice anthropic_voice = {.id = "msg_",
                                          .call_id = "toolu_",
                                          .single = true,
                                          .no_logprobs = true,
                                          .event = tell,
                                          .error = tell_error,
                                          .ping = ping,
                                          .whole = tell_whole};

/* --- routes */

static void build_tokens(struct json *j, const void *of) {
    const size_t *n = of;
    json_open_object(j, NULL);
    json_put_u64(j, "input_tokens", *n);
    json_close(j);
}

static void count(struct api_job_state *job, const struct api_text *text) {
    struct api *api = job->api;
    struct api_failure why;
    struct api_text out = {0};
    size_t n = 0;
    if (!api_prompt_ids(api->engine, text->p, text->n, false, api->ids, api->model.context, &n, &why)) {
        api_jobs_fail(job, why.status, NULL, "%s", why.text);
        return;
    }
    n += api_pictures_more(&job->request);
    api_text_json(&out, build_tokens, &n);
    api_jobs_reply(job, &out);
    api_text_free(&out);
}

void anthropic_messages(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/v1/messages", API_CHAT, &anthropic_voice, anthropic_translate, NULL};
    api_routes_answer(context, x, &way);
}

void anthropic_count(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/v1/messages/count_tokens", API_CHAT, &anthropic_voice,
                                       anthropic_translate, count};
    api_routes_answer(context, x, &way);
}
