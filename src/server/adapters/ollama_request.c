/* A request of Ollama's API as a body of chat completions, or of completions. */
#include "server/adapters/ollama.h"

#include "chat/chat_json.h"
#include "server/adapters/adapter_chat.h"

#include <stdio.h>
#include <string.h>

/* Options whose name differs, and those that say how Ollama runs a model (NULL), not what it answers. All
 * others are fields of the same name. */
static const struct option {
    const char *name, *field;
} options[] = {{"num_predict", "n_predict"},
               {"num_ctx", NULL},
               {"num_batch", NULL},
               {"num_gpu", NULL},
               {"num_keep", NULL},
               {"num_thread", NULL},
               {"main_gpu", NULL},
               {"low_vram", NULL},
               {"f16_kv", NULL},
               {"use_mmap", NULL},
               {"use_mlock", NULL},
               {"numa", NULL},
               {"penalize_newline", NULL}};

/* The options that are fields here; another member of a body is none. */
static bool is_field(const char *name) {
    static const char *const fields[] = {
#define SAMPLING_NUMBER(name, ...) #name,
#define SAMPLING_COUNT(name, ...)  #name,
#define SAMPLING_WINDOW(name, ...) #name,
#define SAMPLING_SEED(name, ...)   #name,
#include "config/sampling.def"
        "repeat_last_n", "stop", "mirostat", "mirostat_tau", "mirostat_eta", "tfs_z", NULL};
    for (const char *const *at = fields; *at != NULL; at++)
        if (strcmp(*at, name) == 0)
            return true;
    return false;
}

static bool read_option(struct adapter_chat *c, const char *name, json_t *value) {
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(options[i].name, name) == 0) {
            if (options[i].field != NULL)
                json_object_set(c->body, options[i].field, value);
            return true;
        }
    if (is_field(name)) {
        json_object_set(c->body, name, value);
        return true;
    }
    char param[ADAPTER_PARAM];
    snprintf(param, sizeof param, "options.%.60s", name);
    return api_request_unknown(c->r, param);
}

static bool read_options(struct adapter_chat *c, const json_t *given) {
    const char *name;
    json_t *value;
    if (adapter_given(given) && !json_is_object(given))
        return adapter_wrong(c->r, "options", given, "an object");
    json_object_foreach((json_t *)given, name, value) if (!read_option(c, name, value)) return false;
    return true;
}

/* "json", or a schema. */
static bool read_format(struct adapter_chat *c, json_t *format) {
    if (!adapter_given(format) || (chat_json_is_text(format) && json_string_length(format) == 0))
        return true;
    json_t *to = json_object();
    json_object_set_new(c->body, "response_format", to);
    if (adapter_is(json_string_value(format), "json")) {
        json_object_set_new(to, "type", json_string("json_object"));
        return true;
    }
    if (!json_is_object(format))
        return adapter_wrong(c->r, "format", format, "\"json\", or a JSON schema,");
    json_t *schema = json_object();
    json_object_set_new(to, "type", json_string("json_schema"));
    json_object_set_new(to, "json_schema", schema);
    json_object_set_new(schema, "name", json_string("answer"));
    json_object_set(schema, "schema", format);
    return true;
}

/* true, false, or an effort. */
static bool read_think(struct adapter_chat *c, json_t *think) {
    if (!adapter_given(think))
        return true;
    if (chat_json_is_text(think)) {
        json_object_set(c->body, "reasoning_effort", think);
        return true;
    }
    if (!json_is_boolean(think))
        return adapter_wrong(c->r, "think", think, "true, false, or \"low\", \"medium\" or \"high\",");
    json_t *thinking = json_object();
    json_object_set_new(c->body, "thinking", thinking);
    json_object_set_new(thinking, "type", json_string(json_is_true(think) ? "enabled" : "disabled"));
    return true;
}

/* The name without the tag that Ollama's clients may put behind it. */
static void without_tag(const char *name, char out[256]) {
    static const char tag[] = ":latest";
    const size_t n = strlen(name), end = sizeof tag - 1;
    const bool has = n > end && strcmp(name + n - end, tag) == 0;
    snprintf(out, 256, "%.*s", (int)(has && n < 256 ? n - end : 255), name);
}

bool ollama_names(const struct api_model *m, const char *name) {
    char plain[256];
    without_tag(name, plain);
    return !m->strict_model || api_request_names_model(m, name) || api_request_names_model(m, plain);
}

static void read_model(struct adapter_chat *c, json_t *model) {
    char plain[256];
    const char *name = chat_json_is_text(model) ? json_string_value(model) : "";
    without_tag(name, plain);
    if (!api_request_names_model(c->r->model, name) && api_request_names_model(c->r->model, plain))
        json_object_set_new(c->body, "model", json_string(plain));
    else if (adapter_given(model))
        json_object_set(c->body, "model", model);
}

/* Pictures as parts of a message's content: base64, without a type. */
static bool add_images(struct adapter_chat *c, const char *param, const json_t *images, json_t *content) {
    for (size_t i = 0; i < json_array_size(images); i++) {
        json_t *data = json_array_get(images, i), *part = json_object(), *source = json_object();
        json_array_append_new(content, part);
        json_object_set_new(part, "source", source);
        json_object_set_new(part, "type", json_string("image"));
        json_object_set_new(source, "type", json_string("base64"));
        if (!chat_json_is_text(data))
            return adapter_wrong(c->r, param, data, "an array of pictures in base64");
        json_object_set(source, "data", data);
    }
    return true;
}

static bool no_images(struct adapter_chat *c, const char *param, const json_t *images, const char *why) {
    return json_array_size(images) == 0 ||
           api_failure_set(c->r->why, 400, param, "%s can't be honoured: %s", param, why);
}

/* Copies of the calls: their numbers say nothing. */
static json_t *copy_calls(const json_t *calls) {
    json_t *to = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_copy(json_array_get(calls, i));
        json_t *function = json_copy(json_object_get(call, "function"));
        json_object_del(function, "index");
        if (function != NULL)
            json_object_set_new(call, "function", function);
        json_array_append_new(to, call);
    }
    return to;
}

static bool read_message(struct adapter_chat *c, const char *param, const json_t *message) {
    char at[ADAPTER_PARAM];
    snprintf(at, sizeof at, "%.60s.images", param);
    if (!json_is_object(message))
        return adapter_wrong(c->r, param, message, "an object {\"role\": .., \"content\": ..}");
    const json_t *images = json_object_get(message, "images");
    if (c->r->model->pictures == 0 &&
        !no_images(c, at, images, "the server has no vision tower (model.vision), it reads texts only"))
        return false;
    json_t *copy = json_copy((json_t *)message);
    json_t *name = json_object_get(copy, "tool_name"), *calls = json_object_get(copy, "tool_calls");
    json_array_append_new(c->messages, copy);
    if (adapter_given(name))
        json_object_set(copy, "name", name);
    json_object_del(copy, "tool_name");
    json_object_del(copy, "images");
    if (json_array_size(images) > 0) {
        json_t *content = json_array(), *text = json_object_get(message, "content");
        json_array_append_new(c->parked, content);
        if (!add_images(c, at, images, content))
            return false;
        if (chat_json_is_text(text))
            adapter_part(content, text);
        json_object_set(copy, "content", content);
    }
    if (json_is_array(calls))
        json_object_set_new(copy, "tool_calls", copy_calls(calls));
    return true;
}

/* What both have. Streams are the default. */
static bool read_common(struct adapter_chat *c, const json_t *body) {
    const json_t *stream = json_object_get(body, "stream");
    if (!adapter_given(stream))
        json_object_set_new(c->body, "stream", json_true());
    read_model(c, json_object_get(body, "model"));
    return read_options(c, json_object_get(body, "options")) &&
           read_format(c, json_object_get(body, "format"));
}

const json_t *ollama_translate_chat(struct api_reader *r, const json_t *body, json_t *kept) {
    static const char *const ours[] = {"model", "messages",   "tools",    "options", "format",
                                       "think", "keep_alive", "truncate", "shift",   NULL};
    struct adapter_chat c;
    adapter_begin(&c, r, kept);
    adapter_hand_on(&c, body, ours);
    json_t *tools = json_object_get(body, "tools");
    if (adapter_given(tools))
        json_object_set(c.body, "tools", tools);
    return read_common(&c, body) && read_think(&c, json_object_get(body, "think")) &&
                   adapter_each(&c, "messages", json_object_get(body, "messages"), "an array of messages",
                                read_message) &&
                   adapter_end(&c)
               ? c.body
               : NULL;
}

/* A field that would change the answer, and is not known here. */
static bool refuse(struct adapter_chat *c, const json_t *body, const char *name, const char *why) {
    const json_t *v = json_object_get(body, name);
    const bool nothing = !adapter_given(v) || (json_is_string(v) && json_string_length(v) == 0) ||
                         (json_is_array(v) && json_array_size(v) == 0);
    return nothing || api_failure_set(c->r->why, 400, name, "%s can't be honoured: %s", name, why);
}

static void add_message(struct adapter_chat *c, const char *role, json_t *text) {
    adapter_message(c, role, json_incref(text));
}

const json_t *ollama_translate_generate(struct api_reader *r, const json_t *body, json_t *kept) {
    static const char *const ours[] = {"model",      "prompt",   "system",  "raw",      "images",
                                       "options",    "format",   "context", "template", "think",
                                       "keep_alive", "truncate", "shift",   NULL};
    struct adapter_chat c;
    json_t *prompt = json_object_get(body, "prompt"), *system = json_object_get(body, "system");
    const json_t *raw = json_object_get(body, "raw"), *suffix = json_object_get(body, "suffix");
    adapter_begin(&c, r, kept);
    adapter_hand_on(&c, body, ours);
    const bool ok = read_common(&c, body) &&
                    no_images(&c, "images", json_object_get(body, "images"), "send pictures to /api/chat") &&
                    refuse(&c, body, "context", "send the conversation to /api/chat") &&
                    refuse(&c, body, "template", "the model's own is used, or none (raw)");
    if (!ok)
        return NULL;
    if (!chat_json_is_text(prompt))
        return adapter_wrong(r, "prompt", prompt, "a text"), NULL;
    if (json_is_true(raw) || r->model->source == NULL || json_string_length(suffix) > 0) {
        r->out->endpoint = API_COMPLETION;
        json_object_set(c.body, "prompt", prompt);
        return json_is_true(raw) ||
                       refuse(&c, body, "system", "the prompt is not rendered by a chat template")
                   ? c.body
                   : NULL;
    }
    if (adapter_given(system) && !chat_json_is_text(system))
        return adapter_wrong(r, "system", system, "a text"), NULL;
    if (json_string_length(system) > 0)
        add_message(&c, "system", system);
    add_message(&c, "user", prompt);
    return read_think(&c, json_object_get(body, "think")) && adapter_end(&c) ? c.body : NULL;
}
