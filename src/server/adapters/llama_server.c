/* llama-server's /completion and /infill: the fields of completions, and answers in its own form. */
#include "server/adapters/llama_server.h"

#include "base/json_writer.h"
#include "chat/chat_json.h"
#include "server/adapters/adapter_chat.h"
#include "server/adapters/adapter_reply.h"
#include "server/openai/api_reply.h"
#include "server/openai/api_settings.h"

#include <string.h>

struct piece {
    const struct api_choice *c;
    const char *p;
    size_t n;
    size_t entries; /* bytes of the choice's entries, whose tokens belong to it */
    bool end;
};

/* What the answer was generated with. */
static void put_settings(struct json *j, const struct api_choice *c) {
    static const char *const samplers[] = {"penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                                           "top_p",     "min_p", "xtc",         "temperature"};
    const struct api_job_state *job = c->job;
    const struct api_stops *stops = job->stops;
    json_open_object(j, "generation_settings");
    json_put_string(j, "model", job->api->model.name);
    json_put_u64(j, "n_ctx", job->api->model.context);
    api_settings_put_sampling(j, &job->api->server->settings.sampling, &job->sampling, UINT32_MAX);
    json_put_u64(j, "n_predict", c->max_new);
    json_put_u64(j, "max_tokens", c->max_new);
    json_put_u64(j, "n_keep", 0);
    json_open_array(j, "stop");
    for (uint32_t i = 0; stops != NULL && i < stops->n; i++)
        json_put_string_n(j, NULL, stops->at[i].p, stops->at[i].n);
    json_close(j);
    json_put_bool(j, "ignore_eos", job->ignore_eos);
    json_put_bool(j, "stream", job->stream);
    json_put_u64(j, "n_probs", job->top_logprobs);
    json_open_array(j, "samplers");
    for (size_t i = 0; i < sizeof samplers / sizeof samplers[0]; i++)
        json_put_string(j, NULL, samplers[i]);
    json_close(j);
    json_close(j);
}

static void put_end(struct json *j, const struct api_choice *c) {
    const bool hit = c->answer.stop.hit && c->finish == API_FINISH_STOP;
    const struct api_stop_text *by = hit ? &c->job->stops->at[c->answer.stop.which] : NULL;
    json_put_string(j, "model", c->job->api->model.name);
    json_put_string(j, "stop_type", hit ? "word" : c->finish == API_FINISH_LENGTH ? "limit" : "eos");
    json_put_string_n(j, "stopping_word", hit ? by->p : "", hit ? by->n : 0);
    json_put_bool(j, "truncated", false);
    json_put_u64(j, "tokens_cached", c->end.n_prompt + c->answer.n_tokens);
    put_settings(j, c);
    api_reply_timings(j, c, 1);
}

/* Of a whole answer only if the request asks for them. */
static void put_tokens(struct json *j, const struct piece *e) {
    stator_logprob top[STATOR_TOP_LOGPROBS];
    json_open_array(j, "tokens");
    for (size_t at = 0; (e->c->job->stream || e->c->job->return_tokens) && at < e->entries;)
        json_put_i64(j, NULL, api_answer_entry(e->c->answer.entries.p, &at, top).is.token);
    json_close(j);
}

static void put_piece(struct json *j, const struct piece *e) {
    const struct api_choice *c = e->c;
    uint64_t prompt = 0, cached = 0;
    adapter_count(c, &prompt, &cached);
    json_open_object(j, NULL);
    json_put_u64(j, "index", c->index);
    json_put_string_n(j, "content", e->n > 0 ? e->p : "", e->n);
    put_tokens(j, e);
    json_put_bool(j, "stop", e->end);
    json_put_u64(j, "id_slot", c->slot);
    json_put_u64(j, "tokens_predicted", c->answer.n_tokens);
    json_put_u64(j, "tokens_evaluated", prompt);
    if (c->job->logprobs && (e->entries > 0 || !c->job->stream))
        api_reply_logprobs(j, "completion_probabilities", c, e->entries, true);
    if (e->end)
        put_end(j, c);
    json_close(j);
}

static void build_piece(struct json *j, const void *of) {
    put_piece(j, of);
}

static void tell(struct api_text *out, struct api_choice *c, enum api_piece piece, const char *p, size_t n) {
    if (piece == API_PIECE_BEGIN)
        return;
    const bool end = piece == API_PIECE_END;
    const struct piece e = {c, p, n, api_answer_told(&c->answer, end), end};
    api_text_puts(out, "data: ");
    api_text_json(out, build_piece, &e);
    api_text_puts(out, "\n\n");
    api_text_drop(&c->answer.entries, e.entries);
}

/* One object, or an array of one for each prompt. */
static void build_whole(struct json *j, const void *of) {
    const struct api_job_state *job = of;
    if (job->n_choices > 1)
        json_open_array(j, NULL);
    for (uint32_t i = 0; i < job->n_choices; i++) {
        const struct api_choice *c = &job->choices[i];
        put_piece(j, &(struct piece){c, c->content.p, c->content.n, api_answer_told(&c->answer, true), true});
    }
    if (job->n_choices > 1)
        json_close(j);
}

static void tell_whole(struct api_text *out, struct api_job_state *job) {
    api_text_json(out, build_whole, job);
}

/* Errors and pings are those of completions; a stream ends with the answers. */
static void tell_error(struct api_text *out, struct api_job_state *job, int status, const char *message) {
    api_reply_completion.error(out, job, status, message);
}

static void ping(struct api_text *out, struct api_job_state *job, const char *note) {
    api_reply_completion.ping(out, job, note);
}

static const struct api_voice voice = {.id = "cmpl-",
                                       .call_id = "call_",
                                       .single = true,
                                       .streams_tokens = true,
                                       .event = tell,
                                       .error = tell_error,
                                       .ping = ping,
                                       .whole = tell_whole};

/* Editors ask for no token, so that the prompt is cached when they ask again. The engine tells one at least.
 */
static void at_least_one(json_t *body) {
    const json_t *most = json_object_get(body, "n_predict");
    if (json_is_number(most) && json_number_value(most) == 0)
        json_object_set_new(body, "n_predict", json_integer(1));
}

const json_t *llama_translate_completion(struct api_reader *r, const json_t *body, json_t *kept) {
    json_t *copy = json_copy((json_t *)body);
    json_array_append_new(kept, copy);
    at_least_one(copy);
    r->out->endpoint = API_COMPLETION;
    return copy;
}

const json_t *llama_translate_infill(struct api_reader *r, const json_t *body, json_t *kept) {
    static const char *const ours[] = {"input_prefix", "input_suffix", "prompt", NULL};
    json_t *prefix = json_object_get(body, "input_prefix"), *suffix = json_object_get(body, "input_suffix");
    json_t *prompt = json_object_get(body, "prompt");
    struct adapter_chat c;
    adapter_begin(&c, r, kept);
    adapter_hand_on(&c, body, ours);
    at_least_one(c.body);
    r->out->endpoint = API_COMPLETION;
    r->out->infill = true;
    if (!r->model->infills)
        return api_failure_set(r->why, 400, NULL,
                               "the model has no tokens for filling in: ask /completion with a prompt"),
               NULL;
    for (size_t i = 0; i < 3; i++)
        if (!chat_json_is_text(json_object_get(body, ours[i])) && (i < 2 || adapter_given(prompt)))
            return adapter_wrong(r, ours[i], json_object_get(body, ours[i]), "a text"), NULL;
    r->scratch.n = 0;
    api_text_put(&r->scratch, json_string_value(prefix), json_string_length(prefix));
    api_text_put(&r->scratch, json_string_value(prompt), json_string_length(prompt));
    if (r->scratch.failed)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the prompt now"), NULL;
    json_object_set_new(c.body, "prompt", json_stringn(r->scratch.n > 0 ? r->scratch.p : "", r->scratch.n));
    json_object_set(c.body, "suffix", suffix);
    return c.body;
}

void llama_completion(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/completion", API_COMPLETION, &voice, llama_translate_completion,
                                       NULL};
    api_routes_answer(context, x, &way);
}

void llama_infill(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/infill", API_COMPLETION, &voice, llama_translate_infill, NULL};
    api_routes_answer(context, x, &way);
}
