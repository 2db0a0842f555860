/* What clients of Ollama's API ask about the model: /api/tags, /api/ps, /api/show, /api/version. */
#include "server/adapters/ollama.h"

#include "base/json_writer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The Ollama whose API this follows; some clients want at least a certain one. */
#define OLLAMA_VERSION "0.12.6"

void ollama_time(int64_t seconds, long ns, char out[OLLAMA_TIME]) {
    const time_t t = (time_t)seconds;
    struct tm tm;
    const size_t n = strftime(out, OLLAMA_TIME, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t, &tm));
    snprintf(out + n, OLLAMA_TIME - n, ".%09ldZ", ns);
}

void ollama_reply(struct http_exchange *x, void (*build)(struct json *j, const void *of), const void *of) {
    struct api_text out = {0};
    api_text_json(&out, build, of);
    if (out.failed)
        http_reply_error(x, 503, NULL, NULL,
                         "the server's memory (server.memory) has no room for the answer");
    else
        http_reply(x, 200, "application/json", out.p, out.n);
    api_text_free(&out);
}

static void put_details(struct json *j, const stator_info *i) {
    const double n = (double)i->parameters;
    const char unit = n >= 1e9 ? 'B' : n >= 1e6 ? 'M' : 'K';
    char size[32];
    snprintf(size, sizeof size, "%.1f%c", n / (unit == 'B' ? 1e9 : unit == 'M' ? 1e6 : 1e3), unit);
    json_open_object(j, "details");
    json_put_string(j, "parent_model", "");
    json_put_string(j, "format", "gguf");
    json_put_string(j, "family", i->architecture);
    json_open_array(j, "families");
    json_put_string(j, NULL, i->architecture);
    json_close(j);
    json_put_string(j, "parameter_size", size);
    json_put_string(j, "quantization_level", i->weight_type);
    json_close(j);
}

struct list {
    const struct server *s;
    bool running; /* /api/ps */
};

static void put_listed(struct json *j, const struct server *s, bool running, const char *name, size_t n) {
    const stator_info *i = &s->info;
    char when[OLLAMA_TIME];
    json_open_object(j, NULL);
    json_put_string_n(j, "name", name, n);
    json_put_string_n(j, "model", name, n);
    ollama_time(s->created, 0, when);
    if (!running)
        json_put_string(j, "modified_at", when);
    json_put_u64(j, "size", i->model_bytes);
    json_put_string(j, "digest", i->plan_hash);
    put_details(j, i);
    if (running) {
        json_put_string(j, "expires_at", "2318-01-01T00:00:00Z"); /* it stays */
        json_put_u64(j, "size_vram", 0);                          /* Ollama's: not said here */
        json_put_u64(j, "context_length", i->context);
    }
    json_close(j);
}

/* By the names of each model, or its own. */
static void build_list(struct json *j, const void *of) {
    const struct list *l = of;
    const struct server *s;
    json_open_object(j, NULL);
    json_open_array(j, "models");
    for (uint32_t i = 0; (s = server_at(l->s, i)) != NULL; i++) {
        const char *rest = s->settings.alias, *name = NULL;
        size_t n = 0;
        if (s->settings.name[0] == '\0')
            put_listed(j, s, l->running, server_model(s), strlen(server_model(s)));
        while (server_settings_next_name(&rest, &name, &n))
            put_listed(j, s, l->running, name, n);
    }
    json_close(j);
    json_close(j);
}

void ollama_tags(void *context, struct http_exchange *x) {
    ollama_reply(x, build_list, &(struct list){((const struct api *)context)->server, false});
}

void ollama_ps(void *context, struct http_exchange *x) {
    ollama_reply(x, build_list, &(struct list){((const struct api *)context)->server, true});
}

static void put_capabilities(struct json *j, const struct api *api) {
    const struct api_model *m = &api->model;
    const struct chat_form *form = &m->form;
    json_open_array(j, "capabilities");
    if (strcmp(api->server->info.pooling, "none") != 0) {
        json_put_string(j, NULL, "embedding");
        json_close(j);
        return;
    }
    json_put_string(j, NULL, "completion");
    if (m->source != NULL && form->uses_tools && form->tags.syntax != CHAT_UNKNOWN)
        json_put_string(j, NULL, "tools");
    if (m->source != NULL && (form->think_open[0] != '\0' || form->tags.syntax == CHAT_CHANNELS))
        json_put_string(j, NULL, "thinking");
    if (m->infills)
        json_put_string(j, NULL, "insert");
    if (m->pictures > 0)
        json_put_string(j, NULL, "vision");
    json_close(j);
}

static void build_show(struct json *j, const void *of) {
    const struct api *api = of;
    const struct api_model *m = &api->model;
    const stator_info *i = &api->server->info;
    char name[64], when[OLLAMA_TIME];
    ollama_time(api->server->created, 0, when);
    json_open_object(j, NULL);
    json_put_string(j, "modelfile", "");
    json_put_string(j, "parameters", "");
    json_put_string_n(j, "template", m->source != NULL ? m->source : "", m->source_length);
    put_details(j, i);
    json_open_object(j, "model_info");
    json_put_string(j, "general.architecture", i->architecture);
    json_put_string(j, "general.basename", i->model_name);
    json_put_u64(j, "general.parameter_count", i->parameters);
    snprintf(name, sizeof name, "%s.context_length", i->architecture);
    json_put_u64(j, name, i->context);
    snprintf(name, sizeof name, "%s.vocab_size", i->architecture);
    json_put_u64(j, name, i->vocab);
    json_close(j);
    put_capabilities(j, api);
    json_put_string(j, "modified_at", when);
    json_close(j);
}

/* The body's model, or name; false: it is none of the model's, and the client was told. */
static bool names_it(const struct api *api, struct http_exchange *x) {
    static const char *const members[] = {"model", "name"};
    struct api_failure why;
    json_t *kept = NULL;
    size_t n = 0;
    const char *body = http_body(x, &n);
    if (!api_request_load(body, n, &api->model, NULL, NULL, &kept, &why)) {
        http_reply_error(x, why.status, NULL, NULL, "%s", why.text);
        return false;
    }
    bool known = true;
    for (size_t i = 0; i < sizeof members / sizeof members[0] && known; i++) {
        const char *name = json_string_value(json_object_get(json_array_get(kept, 0), members[i]));
        known = name == NULL || ollama_names(&api->model, name);
        if (!known)
            http_reply_error(x, 404, NULL, NULL, "there is no model \"%.100s\" here: this server runs \"%s\"",
                             name, server_model(api->server));
    }
    json_decref(kept);
    return known;
}

void ollama_show(void *context, struct http_exchange *x) {
    if (names_it(context, x))
        ollama_reply(x, build_show, context);
}

static void build_version(struct json *j, const void *of) {
    (void)of;
    json_open_object(j, NULL);
    json_put_string(j, "version", OLLAMA_VERSION);
    json_close(j);
}

void ollama_version(void *context, struct http_exchange *x) {
    (void)context;
    ollama_reply(x, build_version, NULL);
}
