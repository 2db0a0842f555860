#include "server/openai/api_reply.h"

#include "base/json_writer.h"

#include <stdio.h>
#include <string.h>

#define TOKEN_NAME 256 /* bytes of a token's name in completions, with the end */

struct piece {
    struct api_choice *choice;
    enum api_piece kind;
    const char *p;
    size_t n;
    size_t entries; /* bytes of log probabilities that go with it */
};

const char *api_reply_finish(enum api_finish finish) {
    static const char *const names[] = {"", "stop", "length", "tool_calls"};
    return names[finish];
}

void api_reply_call_id(const struct api_choice *c, uint32_t call, char out[48]) {
    const struct api_voice *v = c->job->voice;
    snprintf(out, 48, "%s%.20s_%u_%u", v->call_id, c->job->id + strlen(v->id), c->index, call);
}

void api_reply_count(const struct api_job_state *job, uint64_t *prompt, uint64_t *cached,
                     uint64_t *generated) {
    *prompt = *cached = *generated = 0;
    for (uint32_t i = 0; i < job->n_choices; i++) {
        const struct api_choice *c = &job->choices[i];
        *prompt += i % job->n == 0 ? c->end.n_prompt : 0;
        *cached += i % job->n == 0 ? c->end.n_cached : 0;
        *generated += c->answer.n_tokens;
    }
}

static void put_usage(struct json *j, const struct api_job_state *job) {
    uint64_t prompt, cached, generated;
    api_reply_count(job, &prompt, &cached, &generated);
    json_open_object(j, "usage");
    json_put_u64(j, "prompt_tokens", prompt);
    json_put_u64(j, "completion_tokens", generated);
    json_put_u64(j, "total_tokens", prompt + generated);
    json_open_object(j, "prompt_tokens_details");
    json_put_u64(j, "cached_tokens", cached);
    json_close(j);
    json_close(j);
}

static double per_second(uint64_t n, uint64_t ns) {
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

void api_reply_timings(struct json *j, const struct api_choice *first, uint32_t n) {
    uint64_t cached = 0, computed = 0, predicted = 0, prompt_ns = 0, predicted_ns = 0;
    uint64_t guessed = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const stator_event *e = &first[i].end;
        cached += e->n_cached;
        computed += e->n_prompt - e->n_cached;
        predicted += first[i].answer.n_tokens;
        prompt_ns += e->prompt_ns;
        predicted_ns += e->generate_ns;
        guessed += e->n_guessed;
        kept += e->n_kept;
    }
    json_open_object(j, "timings");
    json_put_u64(j, "cache_n", cached);
    json_put_u64(j, "prompt_n", computed);
    json_put_double(j, "prompt_ms", (double)prompt_ns / 1e6);
    json_put_double(j, "prompt_per_second", per_second(computed, prompt_ns));
    json_put_u64(j, "predicted_n", predicted);
    json_put_double(j, "predicted_ms", (double)predicted_ns / 1e6);
    json_put_double(j, "predicted_per_second", per_second(predicted, predicted_ns));
    if (guessed > 0) {
        json_put_u64(j, "draft_n", guessed);
        json_put_u64(j, "draft_n_accepted", kept);
    }
    json_close(j);
}

static void put_head(struct json *j, const struct api_job_state *job, const char *object) {
    json_put_string(j, "id", job->id);
    json_put_string(j, "object", object);
    json_put_i64(j, "created", job->created);
    json_put_string(j, "model", job->api->model.name);
    json_put_string(j, "system_fingerprint", job->api->server->info.plan_hash);
}

static void put_logprob(struct json *j, struct api_tokens *t, stator_logprob l, bool ids) {
    size_t n = 0;
    const unsigned char *bytes = api_token_bytes(t, l.token, &n);
    if (ids)
        json_put_i64(j, "id", l.token);
    json_put_string_n(j, "token", (const char *)bytes, n);
    json_put_float(j, "logprob", l.logprob);
    json_open_array(j, "bytes");
    for (size_t i = 0; i < n; i++)
        json_put_u64(j, NULL, bytes[i]);
    json_close(j);
}

void api_reply_logprobs(struct json *j, const char *name, const struct api_choice *c, size_t entries,
                        bool ids) {
    struct api_tokens *t = &c->job->api->tokens;
    stator_logprob top[STATOR_TOP_LOGPROBS];
    json_open_array(j, name);
    for (size_t at = 0; at < entries;) {
        const struct api_entry entry = api_answer_entry(c->answer.entries.p, &at, top);
        json_open_object(j, NULL);
        put_logprob(j, t, entry.is, ids);
        json_open_array(j, "top_logprobs");
        for (uint32_t i = 0; i < entry.n_top; i++) {
            json_open_object(j, NULL);
            put_logprob(j, t, top[i], ids);
            json_close(j);
        }
        json_close(j);
        json_close(j);
    }
    json_close(j);
}

static void put_chat_logprobs(struct json *j, const struct api_choice *c, size_t entries) {
    json_open_object(j, "logprobs");
    api_reply_logprobs(j, "content", c, entries, false);
    json_put_null(j, "refusal");
    json_close(j);
}

/* How completions name a token: its text, or "bytes:\\xe4.." where that is a part of a character. In
 * name[TOKEN_NAME]; what is longer is cut. */
static size_t token_name(struct api_tokens *t, int32_t token, char name[TOKEN_NAME]) {
    size_t n = 0, at = 0;
    const char *bytes = (const char *)api_token_bytes(t, token, &n);
    if (json_is_utf8(bytes, n) && memchr(bytes, '\0', n) == NULL) {
        at = n < TOKEN_NAME ? n : TOKEN_NAME - 1;
        while (at < n && at > 0 && ((unsigned char)bytes[at] & 0xC0) == 0x80)
            at--; /* not inside of a character */
        memcpy(name, bytes, at);
    } else {
        at = (size_t)snprintf(name, TOKEN_NAME, "bytes:");
        for (size_t k = 0; k < n && at + 5 < TOKEN_NAME; k++)
            at += (size_t)snprintf(name + at, TOKEN_NAME - at, "\\x%02x", (unsigned char)bytes[k]);
    }
    name[at] = '\0';
    return at;
}

/* {"name": log probability}: of tokens of the same name (long ones) the likelier one. */
static void put_top(struct json *j, struct api_tokens *t, const stator_logprob *top, uint32_t n) {
    char seen[STATOR_TOP_LOGPROBS][TOKEN_NAME];
    json_open_object(j, NULL);
    for (uint32_t i = 0; i < n; i++) {
        (void)token_name(t, top[i].token, seen[i]);
        bool again = false;
        for (uint32_t k = 0; k < i; k++)
            again = again || strcmp(seen[k], seen[i]) == 0;
        if (!again)
            json_put_float(j, seen[i], top[i].logprob);
    }
    json_close(j);
}

static void put_text_logprobs(struct json *j, const struct api_choice *c, size_t entries) {
    struct api_tokens *t = &c->job->api->tokens;
    const char *p = c->answer.entries.p;
    stator_logprob top[STATOR_TOP_LOGPROBS];
    json_open_object(j, "logprobs");
    json_open_array(j, "tokens");
    for (size_t at = 0; at < entries;) {
        char name[TOKEN_NAME];
        const size_t n = token_name(t, api_answer_entry(p, &at, top).is.token, name);
        json_put_string_n(j, NULL, name, n);
    }
    json_close(j);
    json_open_array(j, "token_logprobs");
    for (size_t at = 0; at < entries;)
        json_put_float(j, NULL, api_answer_entry(p, &at, top).is.logprob);
    json_close(j);
    json_open_array(j, "top_logprobs");
    for (size_t at = 0; at < entries;) {
        const struct api_entry entry = api_answer_entry(p, &at, top);
        put_top(j, t, top, entry.n_top);
    }
    json_close(j);
    json_open_array(j, "text_offset");
    for (size_t at = 0; at < entries;)
        json_put_u64(j, NULL, api_answer_entry(p, &at, top).characters);
    json_close(j);
    json_close(j);
}

static void put_logprobs(struct json *j, const struct api_choice *c, size_t entries) {
    if (!c->job->logprobs || entries == 0)
        json_put_null(j, "logprobs");
    else if (c->job->endpoint == API_CHAT)
        put_chat_logprobs(j, c, entries);
    else
        put_text_logprobs(j, c, entries);
}

static void put_finish(struct json *j, enum api_finish finish) {
    if (finish == API_FINISH_NONE)
        json_put_null(j, "finish_reason");
    else
        json_put_string(j, "finish_reason", api_reply_finish(finish));
}

static void put_call_delta(struct json *j, const struct piece *e) {
    const bool begins = e->kind == API_PIECE_CALL;
    json_open_array(j, "tool_calls");
    json_open_object(j, NULL);
    json_put_u64(j, "index", e->choice->n_calls - 1);
    if (begins) {
        char id[48];
        api_reply_call_id(e->choice, e->choice->n_calls - 1, id);
        json_put_string(j, "id", id);
        json_put_string(j, "type", "function");
    }
    json_open_object(j, "function");
    if (begins)
        json_put_string_n(j, "name", e->p, e->n);
    json_put_string_n(j, "arguments", begins ? "" : e->p, begins ? 0 : e->n);
    json_close(j);
    json_close(j);
    json_close(j);
}

static void put_delta(struct json *j, const struct piece *e) {
    json_open_object(j, "delta");
    switch (e->kind) {
    case API_PIECE_BEGIN:
        json_put_string(j, "role", "assistant");
        json_put_string(j, "content", "");
        break;
    case API_PIECE_CONTENT:
        json_put_string_n(j, "content", e->p, e->n);
        break;
    case API_PIECE_REASONING:
        json_put_string_n(j, "reasoning_content", e->p, e->n);
        break;
    case API_PIECE_CALL:
    case API_PIECE_ARGUMENTS:
        put_call_delta(j, e);
        break;
    case API_PIECE_END:
        break;
    }
    json_close(j);
}

static void build_event(struct json *j, const void *of) {
    const struct piece *e = of;
    const struct api_job_state *job = e->choice->job;
    const bool chat = job->endpoint == API_CHAT, end = e->kind == API_PIECE_END;
    json_open_object(j, NULL);
    put_head(j, job, chat ? "chat.completion.chunk" : "text_completion");
    json_open_array(j, "choices");
    json_open_object(j, NULL);
    json_put_u64(j, "index", e->choice->index);
    if (chat)
        put_delta(j, e);
    else
        json_put_string_n(j, "text", e->n > 0 ? e->p : "", e->n);
    put_logprobs(j, e->choice, e->entries);
    put_finish(j, end ? e->choice->finish : API_FINISH_NONE);
    json_close(j);
    json_close(j);
    if (job->include_usage)
        json_put_null(j, "usage");
    if (end)
        api_reply_timings(j, e->choice, 1);
    json_close(j);
}

static void put_event(struct api_text *out, void (*build)(struct json *j, const void *of), const void *of) {
    api_text_puts(out, "data: ");
    api_text_json(out, build, of);
    api_text_puts(out, "\n\n");
}

static void tell(struct api_text *out, struct api_choice *c, enum api_piece piece, const char *p, size_t n) {
    if (piece == API_PIECE_BEGIN && c->job->endpoint != API_CHAT)
        return; /* there is no role to tell */
    struct piece e = {.choice = c, .kind = piece, .p = p, .n = n};
    if (piece != API_PIECE_BEGIN)
        e.entries = api_answer_told(&c->answer, piece == API_PIECE_END);
    put_event(out, build_event, &e);
    api_text_drop(&c->answer.entries, e.entries);
}

static void build_usage(struct json *j, const void *of) {
    const struct api_job_state *job = of;
    json_open_object(j, NULL);
    put_head(j, job, job->endpoint == API_CHAT ? "chat.completion.chunk" : "text_completion");
    json_open_array(j, "choices");
    json_close(j);
    put_usage(j, job);
    json_close(j);
}

static void tell_end(struct api_text *out, struct api_job_state *job) {
    if (job->include_usage)
        put_event(out, build_usage, job);
    api_text_puts(out, "data: [DONE]\n\n");
}

/* A comment. */
static void ping(struct api_text *out, struct api_job_state *job, const char *note) {
    (void)job;
    api_text_puts(out, ": ");
    api_text_puts(out, note[0] != '\0' ? note : "ping");
    api_text_puts(out, "\n\n");
}

struct error {
    int status;
    const char *message;
};

static void build_error(struct json *j, const void *of) {
    const struct error *e = of;
    json_open_object(j, NULL);
    json_open_object(j, "error");
    json_put_string(j, "message", e->message);
    json_put_string(j, "type", "server_error");
    json_put_null(j, "param");
    json_put_i64(j, "code", e->status);
    json_close(j);
    json_close(j);
}

/* Without [DONE]. */
static void tell_error(struct api_text *out, struct api_job_state *job, int status, const char *message) {
    (void)job;
    put_event(out, build_error, &(struct error){status, message});
}

static void put_message(struct json *j, const struct api_choice *c) {
    json_open_object(j, "message");
    json_put_string(j, "role", "assistant");
    if (c->content.n == 0 && c->n_calls > 0)
        json_put_null(j, "content");
    else
        json_put_string_n(j, "content", c->content.n > 0 ? c->content.p : "", c->content.n);
    if (c->reasoning.n > 0)
        json_put_string_n(j, "reasoning_content", c->reasoning.p, c->reasoning.n);
    json_put_null(j, "refusal");
    if (c->n_calls > 0) {
        json_open_array(j, "tool_calls");
        for (uint32_t i = 0; i < c->n_calls; i++) {
            const struct api_call call = api_jobs_call(c, i);
            char id[48];
            api_reply_call_id(c, i, id);
            json_open_object(j, NULL);
            json_put_string(j, "id", id);
            json_put_string(j, "type", "function");
            json_open_object(j, "function");
            json_put_string_n(j, "name", c->call_texts.p + call.name, call.name_length);
            json_put_string_n(j, "arguments", c->call_texts.p + call.arguments, call.arguments_length);
            json_close(j);
            json_close(j);
        }
        json_close(j);
    }
    json_close(j);
}

static void build_whole(struct json *j, const void *of) {
    const struct api_job_state *job = of;
    const bool chat = job->endpoint == API_CHAT;
    json_open_object(j, NULL);
    put_head(j, job, chat ? "chat.completion" : "text_completion");
    json_open_array(j, "choices");
    for (uint32_t i = 0; i < job->n_choices; i++) {
        const struct api_choice *c = &job->choices[i];
        json_open_object(j, NULL);
        json_put_u64(j, "index", c->index);
        if (chat)
            put_message(j, c);
        else
            json_put_string_n(j, "text", c->content.n > 0 ? c->content.p : "", c->content.n);
        put_logprobs(j, c, api_answer_told(&c->answer, true));
        put_finish(j, c->finish);
        json_close(j);
    }
    json_close(j);
    put_usage(j, job);
    api_reply_timings(j, job->choices, job->n_choices);
    json_close(j);
}

static void tell_whole(struct api_text *out, struct api_job_state *job) {
    api_text_json(out, build_whole, job);
}

const struct api_voice api_reply_chat = {.id = "chatcmpl-",
                                         .call_id = "call_",
                                         .event = tell,
                                         .end = tell_end,
                                         .error = tell_error,
                                         .ping = ping,
                                         .whole = tell_whole};
const struct api_voice api_reply_completion = {.id = "cmpl-",
                                               .call_id = "call_",
                                               .event = tell,
                                               .end = tell_end,
                                               .error = tell_error,
                                               .ping = ping,
                                               .whole = tell_whole};
