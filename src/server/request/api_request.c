#include "server/request/api_request.h"

#include "base/check.h"
#include "chat/chat_json.h"
#include "server/request/api_json.h"
#include "server/http/edge_pool.h"
#include "server/server_settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define VALUES 16384 /* of a body, beside two for each token of the context */
#define BESIDE 65536 /* bytes of a connection and of what else comes and goes */

bool api_failure_set(struct api_failure *why, int status, const char *param, const char *fmt, ...) {
    va_list ap;
    why->status = status;
    snprintf(why->param, sizeof why->param, "%s", param != NULL ? param : "");
    va_start(ap, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, ap);
    va_end(ap);
    return false;
}

const char *api_request_kind(const json_t *v) {
    static const char *const names[] = {[JSON_OBJECT] = "an object",
                                        [JSON_ARRAY] = "an array",
                                        [JSON_STRING] = "a text",
                                        [JSON_INTEGER] = "a number",
                                        [JSON_REAL] = "a number with a fraction or exponent",
                                        [JSON_TRUE] = "true",
                                        [JSON_FALSE] = "false",
                                        [JSON_NULL] = "null"};
    return json_is_string(v) && !chat_json_is_text(v) ? "a number beyond 64 bits" : names[json_typeof(v)];
}

void api_request_ignore(char list[API_IGNORED], const char *name) {
    static const char more[] = ", ..";
    char clean[64];
    size_t n = 0, have = strlen(list);
    bool index = false;
    for (; *name != '\0' && n + 1 < sizeof clean; name++) {
        index = (index || *name == '[') && *name != ']';
        if (!index && *name != ']')
            clean[n++] = (*name >= '0' && *name <= '9') || (*name >= 'A' && *name <= 'Z') ||
                                 (*name >= 'a' && *name <= 'z') || *name == '_' || *name == '.' ||
                                 *name == '-'
                             ? *name
                             : '?';
    }
    clean[n] = '\0';
    for (const char *at = list; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, ",") == n && memcmp(at, clean, n) == 0)
            return;
    if (have + 2 + n + sizeof more <= API_IGNORED)
        snprintf(list + have, API_IGNORED - have, "%s%s", have > 0 ? ", " : "", clean);
    else if (have < sizeof more - 1 || strcmp(list + have - (sizeof more - 1), more) != 0)
        snprintf(list + have, API_IGNORED - have, "%s", more);
}

bool api_request_unknown(struct api_reader *r, const char *param) {
    if (r->model->refuse_unknown)
        return api_failure_set(r->why, 400, param,
                               "the field \"%.64s\" is not known here (server.unknown_fields = \"refuse\")",
                               param);
    api_request_ignore(r->out->ignored, param);
    return true;
}

bool api_request_names_model(const struct api_model *m, const char *name) {
    const size_t n = strlen(name);
    if (n == 0 || strcmp(name, "default") == 0 || strcmp(name, m->name) == 0 ||
        (m->own_name != NULL && strcmp(name, m->own_name) == 0))
        return true;
    const char *rest = m->alias != NULL ? m->alias : "", *alias = NULL;
    size_t length = 0;
    while (server_settings_next_name(&rest, &alias, &length))
        if (length == n && memcmp(alias, name, n) == 0)
            return true;
    return false;
}

struct load {
    const char *text;
    size_t n;
    bool (*build)(void *context, const json_t *body, json_t *kept);
    void *context;
    json_t *kept;
    struct api_failure *why;
    bool ok;
};

static void load_body(void *context) {
    struct load *l = context;
    json_error_t error;
    l->kept = json_array();
    json_t *body = chat_json_load(l->text, l->n, JSON_REJECT_DUPLICATES, &error);
    if (body == NULL)
        l->ok = api_failure_set(l->why, 400, NULL, "the body is no JSON: line %d, column %d: %s", error.line,
                                error.column, error.text);
    else if (json_array_append_new(l->kept, body) != 0)
        l->ok = api_failure_set(l->why, 503, NULL, "no memory");
    else if (!json_is_object(body))
        l->ok = api_failure_set(l->why, 400, NULL, "the body is %s: a JSON object is expected",
                                api_request_kind(body));
    else
        l->ok = l->build == NULL || l->build(l->context, body, l->kept);
}

bool api_request_load(const char *body, size_t n, const struct api_model *model,
                      bool (*build)(void *context, const json_t *body, json_t *kept), void *context,
                      json_t **kept, struct api_failure *why) {
    uint32_t depth = 0;
    uint64_t values = 0;
    const uint64_t most = VALUES + 2 * (uint64_t)model->context;
    *kept = NULL;
    if (n == 0)
        return api_failure_set(why, 400, NULL, "the body is empty: a JSON object is expected");
    api_json_measure(body, n, &depth, &values);
    if (depth > JSON_SCAN_DEPTH)
        return api_failure_set(why, 400, NULL, "the body is nested %u levels deep, at most %d are read",
                               depth, JSON_SCAN_DEPTH);
    if (values > most)
        return api_failure_set(
            why, 400, NULL,
            "the body has about %llu values, at most %llu are read (with a context of %u tokens)",
            (unsigned long long)values, (unsigned long long)most, model->context);
    struct load l = {.text = body, .n = n, .build = build, .context = context, .why = why};
    if (!edge_pool_try_json(load_body, &l)) {
        /* Nothing but the body itself was there beside what a server without requests has. */
        if (model->idle > 0 && edge_pool_largest() + 3 * n + BESIDE >= model->idle / 3 * 4)
            return api_failure_set(
                why, 413, NULL,
                "the values of the body need more memory than the server has (server.memory)");
        return api_failure_set(why, 503, NULL,
                               "the server's memory (server.memory) has no room for this request now");
    }
    if (!l.ok) {
        json_decref(l.kept);
        return false;
    }
    *kept = l.kept;
    return true;
}

static bool build(void *context, const json_t *body, json_t *kept) {
    struct api_reader *r = context;
    r->out->body = r->translate != NULL ? r->translate(r, body, kept) : body;
    if (r->out->body == NULL)
        return false;
    if (r->out->endpoint == API_COMPLETION)
        return api_structure_read(r, r->out->body);
    if (r->model->source == NULL)
        return api_failure_set(
            r->why, 400, NULL,
            "the model has no chat template: use /v1/completions, or name a template in the "
            "config (chat.template)");
    return api_messages_build(r, r->out->body, kept) &&
           (r->out->endpoint == API_TEMPLATE || api_structure_read(r, r->out->body));
}

static bool read(enum api_endpoint endpoint, api_translate *translate, const char *body, size_t n,
                 const struct api_model *model, struct api_request *out, struct api_failure *why) {
    *out = (struct api_request){.endpoint = endpoint,
                                .n = 1,
                                .limits_reasoning = model->limits_reasoning,
                                .reasoning_budget = model->reasoning_budget};
    *why = (struct api_failure){0};
    struct api_reader r = {.model = model, .out = out, .why = why, .translate = translate};
    bool ok = api_request_load(body, n, model, build, &r, &out->kept, why);
    api_text_free(&r.scratch);
    if (!ok || !api_fields_read(&r)) {
        api_request_free(out);
        return false;
    }
    return true;
}

bool api_request_read(enum api_endpoint endpoint, const char *body, size_t n, const struct api_model *model,
                      struct api_request *out, struct api_failure *why) {
    return read(endpoint, NULL, body, n, model, out, why);
}

bool api_request_read_other(api_translate *translate, const char *body, size_t n,
                            const struct api_model *model, struct api_request *out, struct api_failure *why) {
    return read(API_CHAT, translate, body, n, model, out, why);
}

void api_request_drop_json(struct api_request *r) {
    json_decref(r->kept);
    r->kept = NULL;
    r->body = r->prompt = r->suffix = r->extra = NULL;
    memset(r->variables, 0, sizeof r->variables);
}

void api_request_free(struct api_request *r) {
    api_request_drop_json(r);
    edge_pool_free(r->stops);
    edge_pool_free(r->stop_ids);
    edge_pool_free(r->bias);
    api_text_free(&r->structure.text);
    api_text_free(&r->types);
    api_text_free(&r->pictures);
    api_text_free(&r->repeated);
    *r = (struct api_request){0};
}

/* An array of ids, not of prompts. */
static bool is_ids(const json_t *array) {
    return json_is_integer(json_array_get(array, 0));
}

uint32_t api_request_prompts(const struct api_request *r) {
    return r->endpoint == API_COMPLETION && json_is_array(r->prompt) && !is_ids(r->prompt)
               ? (uint32_t)json_array_size(r->prompt)
               : 1;
}

const json_t *api_request_prompt(const struct api_request *r, uint32_t i, const char **text, size_t *n) {
    const json_t *one =
        json_is_array(r->prompt) && !is_ids(r->prompt) ? json_array_get(r->prompt, i) : r->prompt;
    *text = json_string_value(one); /* NULL: an array */
    *n = chat_json_is_text(one) ? json_string_length(one) : json_array_size(one);
    return one;
}
