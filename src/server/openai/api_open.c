#include "server/openai/api_jobs.h"

#include "base/arith.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/http/edge_pool.h"
#include "server/request/api_prompt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEMPLATE_MOST (1u << 20) /* bytes of a template's file */

/* The template that the config names, in place of the model's. */
static stator_status read_file(struct api *api, const char *path, stator_error *e) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return error_set(e, STATOR_USAGE, "chat.template: %s can't be opened: %s", path, strerror(errno));
    stator_status st = STATOR_OK;
    api->file = edge_pool_alloc(TEMPLATE_MOST);
    size_t n = api->file != NULL ? fread(api->file, 1, TEMPLATE_MOST, f) : 0;
    if (api->file == NULL)
        st = error_set(e, STATOR_DOES_NOT_FIT, "server.memory has no room for chat.template: raise it");
    else if (ferror(f))
        st = error_set(e, STATOR_USAGE, "chat.template: %s can't be read: %s", path, strerror(errno));
    else if (n == TEMPLATE_MOST)
        st = error_set(e, STATOR_USAGE, "chat.template: %s is longer than %u bytes", path, TEMPLATE_MOST - 1);
    (void)fclose(f);
    if (st != STATOR_OK)
        return st;
    char *smaller = edge_pool_resize(api->file, n + 1);
    api->file = smaller != NULL ? smaller : api->file;
    api->model.source = api->file;
    api->model.source_length = n;
    return STATOR_OK;
}

static stator_status read_model(struct api *api, stator_error *e) {
    stator_chat_template t = {.size = sizeof t};
    struct api_model *m = &api->model;
    stator_status st = stator_get_chat_template(api->engine, &t, e);
    if (st != STATOR_OK)
        return st;
    api->rerank = t.rerank;
    api->rerank_length = t.rerank_length;
    *m = (struct api_model){.name = server_model(api->server),
                            .own_name = api->server->info.model_name,
                            .source = t.length > 0 ? t.text : NULL,
                            .source_length = t.length,
                            .bos = t.bos_length > 0 ? t.bos : NULL,
                            .bos_length = t.bos_length,
                            .eos = t.eos_length > 0 ? t.eos : NULL,
                            .eos_length = t.eos_length,
                            .context = api->server->info.context,
                            .vocab = api->server->info.vocab,
                            .stop = api->server->signal,
                            .default_max_tokens = api->server->settings.default_max_tokens,
                            .clamp_tokens = api->server->settings.clamp_tokens,
                            .refuse_unknown = api->server->settings.refuse_unknown,
                            .strict_model = api->server->settings.strict_model,
                            .limits_reasoning = api->server->settings.limits_reasoning,
                            .reasoning_budget = api->server->settings.reasoning_budget,
                            .alias = api->server->settings.alias};
    if (t.file[0] != '\0')
        st = read_file(api, t.file, e);
    if (st == STATOR_OK && m->source != NULL)
        st = api_form_find(m, e);
    return st;
}

/* The token that is the whole text; -1: there is none. */
static int32_t token_of(const struct api *api, const char *text) {
    int32_t id = -1;
    size_t n = 0;
    const stator_status st = stator_tokenize(api->engine, text, strlen(text), 0, 0, &id, 1, &n, NULL);
    return st == STATOR_OK && n == 1 ? id : -1;
}

static void find_vision(struct api *api) {
    stator_vision vision = {.size = sizeof vision};
    if (stator_get_vision(api->engine, &vision, NULL) != STATOR_OK || vision.pictures == 0)
        return;
    _Static_assert(sizeof api->marker == sizeof vision.text, "one text");
    memcpy(api->marker, vision.text, sizeof vision.text);
    api->model.marker = api->marker;
    api->model.marker_length = strlen(api->marker);
    api->model.pictures = vision.pictures;
    api->model.image_hosts = &api->server->settings.image_hosts;
}

static void find_infill(struct api *api) {
    api->infill.size = sizeof api->infill;
    api->model.infills = stator_get_infill_tokens(api->engine, &api->infill, NULL) == STATOR_OK &&
                         api->infill.prefix >= 0 && api->infill.suffix >= 0 && api->infill.middle >= 0;
}

const char *api_template(const struct server *s, size_t *n) {
    *n = s->api->model.source_length;
    return s->api->model.source;
}

bool api_names_model(const struct server *s, const char *name) {
    return api_request_names_model(&s->api->model, name);
}

void api_close(struct server *s) {
    if (s->api != NULL)
        api_render_close(s->api);
}

stator_status api_open(struct server *s, stator_error *e) {
    struct api *api = edge_pool_zeroed(1, sizeof *api);
    if (api == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "server.memory is too small for the server: raise it");
    s->api = api;
    api->server = s;
    api->engine = s->engine;
    const uint64_t now[3] = {clock_ns(), (uint64_t)time(NULL), (uint64_t)getpid()};
    api->salt = now[0] ^ now[1] << 32 ^ now[2] << 16;
    /* Reads the time zone's file now, which allocates. */
    const time_t seconds = time(NULL);
    struct tm local;
    (void)localtime_r(&seconds, &local);
    stator_status st = read_model(api, e);
    if (st == STATOR_OK)
        st = api_token_open(&api->tokens, s->engine, &api->model.form, e);
    if (st == STATOR_OK)
        st = api_budget_open(&api->budget, s->engine, &api->model.form, s->settings.reasoning_message, e);
    if (st == STATOR_OK && api->model.source != NULL)
        st = api_render_open(api, e);
    if (st == STATOR_OK)
        find_infill(api);
    const bool ranks = strcmp(s->info.pooling, "rank") == 0;
    api->yes = ranks ? token_of(api, "yes") : -1;
    api->no = ranks ? token_of(api, "no") : -1;
    find_vision(api);
    api_structure_open(&api->structure_start, &api->model.marks, s->engine, &api->model.form);
    api->ids = edge_pool_zeroed(api->model.context, sizeof *api->ids);
    if (st == STATOR_OK && api->ids == NULL)
        st = error_set(e, STATOR_DOES_NOT_FIT, "server.memory has no room for the ids of a prompt: raise it");
    /* A small pool may have no room; then no texts are kept. */
    (void)kept_open(&api->kept, ARITH_MIN((size_t)KEPT_BYTES, edge_pool_largest() / 16));
    api->model.kept = &api->kept;
    api->model.idle = api_prompt_room();
    if (st == STATOR_OK)
        api_routes_add(api);
    return st;
}
