/* Answers of Ollama's API: one object, or one line of JSON for each piece. A call is told whole, when it has
 * ended. */
#include "server/adapters/ollama.h"

#include "base/clock.h"
#include "base/json_writer.h"
#include "server/adapters/adapter_reply.h"
#include "server/openai/api_reply.h"

#include <string.h>
#include <time.h>

struct line {
    const struct api_choice *c;
    enum api_piece kind;
    const char *p;
    size_t n;
    uint32_t calls; /* CALL: c->n_items to this */
    uint64_t total_ns;
    char now[OLLAMA_TIME];
};

static void put_calls(struct json *j, const struct api_choice *c, uint32_t first, uint32_t end) {
    json_open_array(j, "tool_calls");
    for (uint32_t i = first; i < end; i++) {
        const struct api_call call = api_jobs_call(c, i);
        char id[48];
        api_reply_call_id(c, i, id);
        json_open_object(j, NULL);
        json_put_string(j, "id", id);
        json_open_object(j, "function");
        json_put_u64(j, "index", i);
        json_put_string_n(j, "name", c->call_texts.p + call.name, call.name_length);
        adapter_put_arguments(j, "arguments", c->call_texts.p + call.arguments, call.arguments_length);
        json_close(j);
        json_close(j);
    }
    json_close(j);
}

static void put_begin(struct json *j, const struct line *l) {
    json_open_object(j, NULL);
    json_put_string(j, "model", l->c->job->api->model.name);
    json_put_string(j, "created_at", l->now);
}

/* A piece's members: of the message, or of /api/generate's object. */
static void put_piece(struct json *j, const struct line *l, const char *content) {
    const bool thinks = l->kind == API_PIECE_REASONING;
    json_put_string_n(j, content, thinks ? "" : l->p, thinks ? 0 : l->n);
    if (thinks)
        json_put_string_n(j, "thinking", l->p, l->n);
    if (l->kind == API_PIECE_CALL)
        put_calls(j, l->c, l->c->n_items, l->calls);
}

static void put_end(struct json *j, const struct line *l) {
    const struct api_choice *c = l->c;
    json_put_bool(j, "done", true);
    json_put_string(j, "done_reason", c->finish == API_FINISH_LENGTH ? "length" : "stop");
    json_put_u64(j, "total_duration", l->total_ns);
    json_put_u64(j, "load_duration", 0);
    json_put_u64(j, "prompt_eval_count", c->end.n_prompt);
    json_put_u64(j, "prompt_eval_duration", c->end.prompt_ns);
    json_put_u64(j, "eval_count", c->answer.n_tokens);
    json_put_u64(j, "eval_duration", c->end.generate_ns);
}

static bool is_chat(const struct api_choice *c) {
    return c->job->voice == &ollama_chat_voice;
}

static void open_message(struct json *j) {
    json_open_object(j, "message");
    json_put_string(j, "role", "assistant");
}

static void build_line(struct json *j, const void *of) {
    const struct line *l = of;
    put_begin(j, l);
    if (is_chat(l->c)) {
        open_message(j);
        put_piece(j, l, "content");
        json_close(j);
    } else {
        put_piece(j, l, "response");
    }
    if (l->kind == API_PIECE_END)
        put_end(j, l);
    else
        json_put_bool(j, "done", false);
    json_close(j);
}

static void put_whole(struct json *j, const struct api_choice *c, const char *content) {
    json_put_string_n(j, content, c->content.n > 0 ? c->content.p : "", c->content.n);
    if (c->reasoning.n > 0)
        json_put_string_n(j, "thinking", c->reasoning.p, c->reasoning.n);
    if (c->n_calls > 0)
        put_calls(j, c, 0, c->n_calls);
}

static void build_whole(struct json *j, const void *of) {
    const struct line *l = of;
    put_begin(j, l);
    if (is_chat(l->c)) {
        open_message(j);
        put_whole(j, l->c, "content");
        json_close(j);
    } else {
        put_whole(j, l->c, "response");
    }
    put_end(j, l);
    json_close(j);
}

static struct line line_of(const struct api_choice *c, enum api_piece kind, const char *p, size_t n) {
    struct line l = {.c = c, .kind = kind, .p = n > 0 ? p : "", .n = n};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    ollama_time(now.tv_sec, now.tv_nsec, l.now);
    l.total_ns = clock_ns() - c->job->started_ns;
    return l;
}

static void put_line(struct api_text *out, const struct line *l) {
    api_text_json(out, build_line, l);
    api_text_puts(out, "\n");
}

/* Calls up to this number have ended. */
static void tell_calls(struct api_text *out, struct api_choice *c, uint32_t end) {
    if (c->n_items >= end || api_jobs_lack(c))
        return;
    struct line l = line_of(c, API_PIECE_CALL, NULL, 0);
    l.calls = end;
    put_line(out, &l);
    c->n_items = end;
}

static void tell(struct api_text *out, struct api_choice *c, enum api_piece piece, const char *p, size_t n) {
    if (piece == API_PIECE_BEGIN || piece == API_PIECE_ARGUMENTS)
        return;
    tell_calls(out, c, piece == API_PIECE_CALL ? c->n_calls - 1 : c->n_calls);
    if (piece == API_PIECE_CALL)
        return;
    const struct line l = line_of(c, piece, p, n);
    put_line(out, &l);
}

static void tell_whole(struct api_text *out, struct api_job_state *job) {
    const struct line l = line_of(&job->choices[0], API_PIECE_END, NULL, 0);
    api_text_json(out, build_whole, &l);
}

/* Lines have no comments: a piece without a text. */
static void ping(struct api_text *out, struct api_job_state *job, const char *note) {
    (void)note;
    const struct line l = line_of(&job->choices[0], API_PIECE_CONTENT, NULL, 0);
    put_line(out, &l);
}

static void build_error(struct json *j, const void *of) {
    ollama_error(j, 0, of);
}

void ollama_error(struct json *j, int status, const char *message) {
    (void)status;
    json_open_object(j, NULL);
    json_put_string(j, "error", message);
    json_close(j);
}

static void tell_error(struct api_text *out, struct api_job_state *job, int status, const char *message) {
    (void)job;
    (void)status;
    api_text_json(out, build_error, message);
    api_text_puts(out, "\n");
}

const struct api_voice ollama_chat_voice = {.id = "ollama-",
                                            .call_id = "call_",
                                            .single = true,
                                            .no_logprobs = true,
                                            .lines = true,
                                            .event = tell,
                                            .error = tell_error,
                                            .ping = ping,
                                            .whole = tell_whole};
const struct api_voice ollama_generate_voice = {.id = "ollama-",
                                                .call_id = "call_",
                                                .single = true,
                                                .no_logprobs = true,
                                                .lines = true,
                                                .event = tell,
                                                .error = tell_error,
                                                .ping = ping,
                                                .whole = tell_whole};

/* --- chats and texts */

/* A request without a prompt asks that the model be loaded, or (keep_alive 0) be unloaded. */
struct load {
    const struct api *api;
    bool chat, unload;
    char now[OLLAMA_TIME];
};

static void build_load(struct json *j, const void *of) {
    const struct load *l = of;
    json_open_object(j, NULL);
    json_put_string(j, "model", l->api->model.name);
    json_put_string(j, "created_at", l->now);
    if (l->chat)
        open_message(j);
    json_put_string(j, l->chat ? "content" : "response", "");
    if (l->chat)
        json_close(j);
    json_put_bool(j, "done", true);
    json_put_string(j, "done_reason", l->unload ? "unload" : "load");
    json_close(j);
}

#define LOAD_MOST 1024 /* bytes of a body that may have no prompt */

static bool is_empty(const json_t *v) {
    return v == NULL || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0);
}

/* The model is always loaded. False: there is a prompt, or the body is to be refused. */
static bool only_loads(const struct api *api, struct http_exchange *x, bool chat) {
    struct api_failure why;
    json_t *kept = NULL;
    size_t n = 0;
    const char *body = http_body(x, &n);
    if (n > LOAD_MOST || api->server->phase != SERVER_READY ||
        !api_request_load(body, n, &api->model, NULL, NULL, &kept, &why))
        return false;
    const json_t *root = json_array_get(kept, 0), *alive = json_object_get(root, "keep_alive");
    const bool loads =
        chat ? is_empty(json_object_get(root, "messages"))
             : is_empty(json_object_get(root, "prompt")) && is_empty(json_object_get(root, "suffix"));
    struct load l = {.api = api, .chat = chat};
    l.unload = (json_is_number(alive) && json_number_value(alive) == 0) ||
               (json_is_string(alive) && strspn(json_string_value(alive), "0") == 1);
    json_decref(kept);
    if (!loads)
        return false;
    ollama_time((int64_t)time(NULL), 0, l.now);
    ollama_reply(x, build_load, &l);
    return true;
}

void ollama_chat(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/api/chat", API_CHAT, &ollama_chat_voice, ollama_translate_chat,
                                       NULL};
    if (!only_loads(context, x, true))
        api_routes_answer(context, x, &way);
}

void ollama_generate(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/api/generate", API_CHAT, &ollama_generate_voice,
                                       ollama_translate_generate, NULL};
    if (!only_loads(context, x, false))
        api_routes_answer(context, x, &way);
}
