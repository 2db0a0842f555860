/* /tokenize, /detokenize, /apply-template: answered without the engine's steps. */
#include "server/openai/api_jobs.h"
#include "chat/chat_json.h"
#include "server/request/api_pictures.h"
#include "server/request/api_prompt.h"
#include "server/openai/api_reply.h"

#include "base/json_writer.h"
#include "server/http/edge_pool.h"

#include <stdio.h>
#include <string.h>

struct ids {
    struct api *api;
    const int32_t *at;
    size_t n;
    bool pieces;
};

static void build_ids(struct json *j, const void *of) {
    const struct ids *ids = of;
    json_open_object(j, NULL);
    json_open_array(j, "tokens");
    for (size_t i = 0; i < ids->n; i++) {
        if (!ids->pieces) {
            json_put_i64(j, NULL, ids->at[i]);
            continue;
        }
        size_t n = 0;
        json_open_object(j, NULL);
        json_put_i64(j, "id", ids->at[i]);
        const char *bytes = (const char *)api_token_bytes(&ids->api->tokens, ids->at[i], &n);
        json_put_string_n(j, "piece", bytes, n);
        json_close(j);
    }
    json_close(j);
    json_close(j);
}

struct text {
    const char *name;
    const struct api_text *text;
};

static void build_text(struct json *j, const void *of) {
    const struct text *t = of;
    json_open_object(j, NULL);
    json_put_string_n(j, t->name, t->text->n > 0 ? t->text->p : "", t->text->n);
    json_close(j);
}

static void reply(struct http_exchange *x, void (*build)(struct json *j, const void *of), const void *of) {
    struct api_text out = {0};
    api_text_json(&out, build, of);
    if (out.failed)
        http_reply_error(x, 503, NULL, NULL,
                         "the server's memory (server.memory) has no room for the answer now");
    else
        http_reply(x, 200, "application/json", out.p, out.n);
    api_text_free(&out);
}

static void refuse(struct http_exchange *x, const struct api_failure *why) {
    http_reply_error(x, why->status, NULL, why->param[0] != '\0' ? why->param : NULL, "%s", why->text);
}

/* The body; members but these are noted or refused. NULL: the client was told. */
static json_t *load(struct api *api, struct http_exchange *x, const char *const *names) {
    struct api_failure why = {0};
    json_t *kept = NULL;
    size_t n = 0;
    if (!server_takes(api->server, x))
        return NULL;
    const char *body = http_body(x, &n), *name;
    json_t *value;
    if (!api_request_load(body, n, &api->model, NULL, NULL, &kept, &why)) {
        refuse(x, &why);
        return NULL;
    }
    json_object_foreach(json_array_get(kept, 0), name, value) {
        bool known = false;
        for (const char *const *at = names; *at != NULL; at++)
            known = known || strcmp(*at, name) == 0;
        if (known)
            continue;
        if (!api->model.refuse_unknown) {
            api_request_ignore(http_account(x)->ignored, name);
            continue;
        }
        http_reply_error(x, 400, NULL, name, "the field \"%.64s\" is not known here", name);
        json_decref(kept);
        return NULL;
    }
    return kept;
}

/* True or false, or what it is where it is not there; *ok: it is neither. */
static bool flag(const json_t *body, const char *name, bool otherwise, struct api_failure *why, bool *ok) {
    const json_t *v = json_object_get(body, name);
    if (v == NULL || json_is_null(v))
        return otherwise;
    if (!json_is_boolean(v))
        *ok =
            api_failure_set(why, 400, name, "%s is %s: true or false is expected", name, api_request_kind(v));
    return json_is_true(v);
}

static void tokenize(struct api *api, struct http_exchange *x, const json_t *body) {
    struct api_failure why = {0};
    bool ok = true;
    const json_t *content = json_object_get(body, "content");
    const bool add = flag(body, "add_special", false, &why, &ok),
               parse = flag(body, "parse_special", true, &why, &ok);
    struct ids ids = {.api = api, .pieces = flag(body, "with_pieces", false, &why, &ok)};
    if (ok && !chat_json_is_text(content))
        ok = api_failure_set(&why, 400, "content", "content is %s: a text is expected",
                             content != NULL ? api_request_kind(content) : "missing");
    int32_t *own = NULL;
    size_t capacity = api->model.context;
    ids.at = api->ids;
    for (int again = 0; ok && again < 2; again++) {
        stator_error e = {0};
        stator_status st =
            stator_tokenize(api->engine, json_string_value(content), json_string_length(content), add, parse,
                            own != NULL ? own : api->ids, capacity, &ids.n, &e);
        if (st == STATOR_OK)
            break;
        if (ids.n <= capacity)
            ok = api_failure_set(&why, 400, "content", "%s", e.text);
        else if ((own = edge_pool_alloc(ids.n * sizeof *own)) == NULL)
            ok = api_failure_set(&why, 503, NULL, "the server's memory has no room for %zu ids now", ids.n);
        capacity = ids.n;
        ids.at = own;
    }
    if (ok)
        reply(x, build_ids, &ids);
    else
        refuse(x, &why);
    edge_pool_free(own);
}

/* A chat's prompt: each picture is one token, its marker, of which picture_tokens says what it becomes. */
struct chat {
    const struct api_request *request;
    const int32_t *ids;
    size_t n;
};

static void build_chat(struct json *j, const void *of) {
    const struct chat *c = of;
    json_open_object(j, NULL);
    json_open_array(j, "tokens");
    for (size_t i = 0; i < c->n; i++)
        json_put_i64(j, NULL, c->ids[i]);
    json_close(j);
    json_open_array(j, "picture_tokens");
    for (uint32_t i = 0; i < c->request->n_pictures; i++)
        json_put_u64(j, NULL, c->request->picture_tokens[i]);
    json_close(j);
    json_put_u64(j, "count", c->n + api_pictures_more(c->request));
    json_close(j);
}

static void reply_chat(struct api_job_state *job, const struct api_text *text) {
    struct api *api = job->api;
    struct api_failure why = {0};
    struct api_text out = {0};
    size_t n = 0;
    bool ok = api_prompt_ids(api->engine, text->p, text->n, false, api->ids, api->model.context, &n, &why);
    if (ok && n > api->model.context)
        ok = api_failure_set(&why, 400, "messages",
                             "the prompt has %zu tokens, but a sequence holds %u (memory.context)", n,
                             api->model.context);
    if (!ok) {
        api_jobs_fail(job, why.status, why.param[0] != '\0' ? why.param : NULL, "%s", why.text);
        return;
    }
    api_text_json(&out, build_chat, &(struct chat){&job->request, api->ids, n});
    api_jobs_reply(job, &out);
    api_text_free(&out);
}

/* A chat in place of `content`. What is wrong with the body is told by who reads it next. */
static bool has_messages(struct api *api, struct http_exchange *x) {
    struct api_failure why;
    json_t *kept = NULL;
    size_t n = 0;
    const char *body = http_body(x, &n);
    if (memmem(body, n, "\"messages\"", 10) == NULL ||
        !api_request_load(body, n, &api->model, NULL, NULL, &kept, &why))
        return false;
    const bool has = json_object_get(json_array_get(kept, 0), "messages") != NULL;
    json_decref(kept);
    return has;
}

void api_texts_tokenize(void *context, struct http_exchange *x) {
    static const char *const names[] = {"content",     "add_special", "parse_special",
                                        "with_pieces", "model",       NULL};
    static const struct api_way way = {"/tokenize", API_TEMPLATE, &api_reply_chat, NULL, reply_chat};
    if (has_messages(context, x)) {
        api_routes_answer(context, x, &way);
        return;
    }
    json_t *kept = load(context, x, names);
    if (kept != NULL)
        tokenize(context, x, json_array_get(kept, 0));
    json_decref(kept);
}

static void detokenize(struct api *api, struct http_exchange *x, const json_t *body) {
    struct api_failure why = {0};
    struct api_text text = {0};
    const json_t *ids = json_object_get(body, "tokens");
    bool ok = json_is_array(ids) ||
              api_failure_set(&why, 400, "tokens", "tokens: an array of token ids is expected");
    stator_decoder decoder = {.size = sizeof decoder};
    for (size_t i = 0; ok && i <= json_array_size(ids); i++) {
        const json_t *v = json_array_get(ids, i);
        const bool last = i == json_array_size(ids);
        const json_int_t id = last ? -1 : json_integer_value(v);
        size_t n = 0;
        if (!last && (!json_is_integer(v) || id < 0 || id >= (json_int_t)api->model.vocab))
            ok = api_failure_set(&why, 400, "tokens", "tokens[%zu]: a token id from 0 to %u is expected", i,
                                 api->model.vocab - 1);
        else if (stator_decode(api->engine, &decoder, (int32_t)id, 1, api->tokens.piece,
                               api->tokens.piece_capacity, &n, NULL) == STATOR_OK)
            api_text_put(&text, api->tokens.piece, n);
    }
    if (ok && text.failed)
        ok = api_failure_set(&why, 503, NULL, "the server's memory has no room for the text now");
    if (ok)
        reply(x, build_text, &(struct text){"content", &text});
    else
        refuse(x, &why);
    api_text_free(&text);
}

void api_texts_detokenize(void *context, struct http_exchange *x) {
    static const char *const names[] = {"tokens", "model", NULL};
    json_t *kept = load(context, x, names);
    if (kept != NULL)
        detokenize(context, x, json_array_get(kept, 0));
    json_decref(kept);
}

static void reply_prompt(struct api_job_state *job, const struct api_text *text) {
    struct api_text out = {0};
    api_text_json(&out, build_text, &(struct text){"prompt", text});
    api_jobs_reply(job, &out);
    api_text_free(&out);
}

void api_texts_template(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/apply-template", API_TEMPLATE, &api_reply_chat, NULL, reply_prompt};
    api_routes_answer(context, x, &way);
}
