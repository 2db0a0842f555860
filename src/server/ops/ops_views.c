/* /slots, /props, /plan, /report, /v1/models: JSON about what runs and what it runs on. */
#include "server/http/edge_pool.h"
#include "server/openai/api_settings.h"
#include "server/ops/ops_inside.h"
#include "server/server_choice.h"

#include <stdio.h>
#include <string.h>

/* --- /slots */

struct slots {
    stator_info info;
    stator_stats stats;
    struct ops_slot *list;
    uint32_t n;
};

static double milliseconds(uint64_t ns) {
    return (double)(ns / 1000) * 1e-3;
}

/* The two figures may be of moments a step apart. */
static uint32_t reserved(uint32_t all, uint32_t taken) {
    return all > taken ? all - taken : 0;
}

static void write_slot(const struct ops_slot *s, struct json *j) {
    static const char *const states[] = {"waiting", "running", "ended"};
    const stator_request_stats *r = &s->stats;
    json_open_object(j, NULL);
    json_put_u64(j, "request", s->job.request);
    json_put_string(j, "id", s->job.id != NULL ? s->job.id : "");
    json_put_string(j, "path", s->job.path != NULL ? s->job.path : "");
    json_put_bool(j, "stream", s->job.stream);
    json_put_string(j, "state", states[r->state <= STATOR_ENDED ? r->state : STATOR_ENDED]);
    json_put_bool(j, "held", r->held != 0);
    json_put_u64(j, "blocks", r->blocks_taken);
    json_put_u64(j, "reserved", reserved(r->blocks, r->blocks_taken));
    json_put_u64(j, "prompt_tokens", r->n_prompt);
    json_put_u64(j, "cached_tokens", r->n_cached);
    json_put_u64(j, "computed_tokens", r->n_computed);
    json_put_u64(j, "generated_tokens", r->n_generated);
    json_put_u64(j, "max_tokens", r->max_new);
    json_put_double(j, "queue_ms", milliseconds(r->queue_ns));
    json_put_double(j, "prompt_ms", milliseconds(r->prompt_ns));
    json_put_double(j, "generate_ms", milliseconds(r->generate_ns));
    json_close(j);
}

void ops_write_slots(const struct ops_slot *list, uint32_t n, struct json *j, const char *name) {
    json_open_array(j, name);
    for (uint32_t i = 0; i < n; i++)
        write_slot(&list[i], j);
    json_close(j);
}

struct ops_slot *ops_take_slots(struct server *s, uint32_t *n) {
    struct api_job job;
    uint32_t most = 0;
    *n = 0;
    while (api_get_job(s, most, &job))
        most++;
    struct ops_slot *list = edge_pool_zeroed(most + 1, sizeof *list);
    for (uint32_t i = 0; i < most && list != NULL && api_get_job(s, i, &list[*n].job); i++) {
        struct ops_slot *to = &list[*n];
        to->stats.size = sizeof to->stats;
        if (stator_get_request(s->engine, to->job.request, &to->stats, NULL) == STATOR_OK)
            (*n)++; /* else it has just ended */
    }
    return list;
}

static void write_slots(const void *from, struct json *j) {
    const struct slots *s = from;
    json_open_object(j, NULL);
    json_put_u64(j, "sequences", s->info.sequences);
    json_put_u64(j, "running", s->stats.running);
    json_put_u64(j, "waiting", s->stats.waiting);
    json_put_u64(j, "capacity", s->stats.capacity);
    json_open_object(j, "kv");
    json_put_u64(j, "block_tokens", s->stats.block_tokens);
    json_put_u64(j, "blocks", s->stats.blocks);
    json_put_u64(j, "free", s->stats.blocks_free);
    json_put_u64(j, "held", s->stats.blocks_taken);
    json_put_u64(j, "reserved", reserved(s->stats.blocks_held, s->stats.blocks_taken));
    json_put_u64(j, "peak", s->stats.blocks_peak);
    json_put_u64(j, "cached", s->stats.blocks_cached);
    json_close(j);
    json_open_object(j, "checkpoints");
    json_put_u64(j, "all", s->stats.checkpoints);
    json_put_u64(j, "used", s->stats.checkpoints_used);
    json_put_u64(j, "free", s->stats.checkpoints - s->stats.checkpoints_used);
    json_close(j);
    ops_write_slots(s->list, s->n, j, "requests");
    json_close(j);
}

void ops_slots(void *context, struct http_exchange *x) {
    struct server *s = context;
    struct slots all = {.info = s->info, .stats = {.size = sizeof all.stats}};
    if (s->phase != SERVER_LOADING)
        (void)stator_get_stats(s->engine, &all.stats, NULL);
    all.list = ops_take_slots(s, &all.n);
    if (all.list == NULL)
        ops_no_memory(x);
    else
        ops_reply_json(x, 200, write_slots, &all);
    edge_pool_free(all.list);
}

/* --- /props */

struct props {
    const struct server *s;
    stator_chat_template template;
    stator_vision vision;
};

/* What a request gets that says nothing, under the names that llama-server has for it. */
static void write_defaults(const struct props *p, struct json *j) {
    const struct server_settings *o = &p->s->settings;
    json_open_object(j, "default_generation_settings");
    json_put_u64(j, "n_ctx", p->s->info.context);
    json_open_object(j, "params");
    api_settings_put_sampling(j, &o->sampling, NULL, UINT32_MAX);
    json_put_i64(j, "n_predict", o->default_max_tokens != 0 ? (int64_t)o->default_max_tokens : -1);
    json_close(j);
    json_close(j);
}

static void write_props(const void *from, struct json *j) {
    const struct props *p = from;
    const struct server_settings *o = &p->s->settings;
    const stator_info *i = &p->s->info;
    json_open_object(j, NULL);
    json_put_string(j, "model", server_model(p->s));
    json_put_string(j, "architecture", i->architecture);
    json_put_string(j, "version", STATOR_VERSION);
    json_put_string(j, "plan", i->plan_hash);
    json_put_string(j, "tier", i->tier);
    json_put_u64(j, "threads", i->threads);
    json_put_u64(j, "context", i->context);
    json_put_u64(j, "sequences", i->sequences);
    json_put_u64(j, "batch", i->batch);
    json_put_u64(j, "vocab", i->vocab);
    json_put_string(j, "weight_type", i->weight_type);
    json_put_u64(j, "parameters", i->parameters);
    json_put_u64(j, "model_bytes", i->model_bytes);
    if (o->default_max_tokens != 0)
        json_put_u64(j, "default_max_tokens", o->default_max_tokens);
    else
        json_put_null(j, "default_max_tokens"); /* the rest of the context */
    write_defaults(p, j);
    json_put_u64(j, "total_slots", i->sequences);
    json_put_string(j, "model_alias", server_model(p->s));
    json_put_string(j, "model_path", o->model);
    json_open_object(j, "modalities");
    json_put_bool(j, "vision", p->vision.pictures > 0);
    json_put_bool(j, "audio", false);
    json_close(j);
    json_put_string(j, "build_info", "stator " STATOR_VERSION);
    json_put_u64(j, "max_body", o->max_body);
    json_put_u64(j, "max_connections", o->max_connections);
    json_put_double(j, "request_timeout", (double)o->request_timeout_ns * 1e-9);
    size_t n = 0;
    const char *template = api_template(p->s, &n);
    if (template != NULL)
        json_put_string_n(j, "chat_template", template, n);
    else
        json_put_null(j, "chat_template");
    json_put_string_n(j, "bos_token", p->template.bos != NULL ? p->template.bos : "", p->template.bos_length);
    json_put_string_n(j, "eos_token", p->template.eos != NULL ? p->template.eos : "", p->template.eos_length);
    json_close(j);
}

void ops_props(void *context, struct http_exchange *x) {
    struct props p = {
        .s = context, .template = {.size = sizeof p.template}, .vision = {.size = sizeof p.vision}};
    if (p.s->phase != SERVER_LOADING)
        (void)stator_get_vision(p.s->engine, &p.vision, NULL);
    if (stator_get_chat_template(p.s->engine, &p.template, NULL) != STATOR_OK)
        p.template = (stator_chat_template){.size = sizeof p.template};
    ops_reply_json(x, 200, write_props, &p);
}

/* --- /plan, /report */

static void reply_engine_json(struct http_exchange *x, struct server *s,
                              stator_status (*make)(const stator *s, char *out, size_t capacity, size_t *n,
                                                    stator_error *e)) {
    stator_error e = {0};
    size_t n = 0;
    if (s->phase == SERVER_LOADING) { /* the engine is the main thread's until then */
        http_reply_error(x, 503, NULL, NULL, "the model is being loaded; try again");
        return;
    }
    (void)make(s->engine, NULL, 0, &n, NULL);
    char *text = edge_pool_alloc(n + 1);
    if (text == NULL) {
        http_reply_error(x, 503, NULL, NULL, "the server has no memory for this answer now; try again");
        return;
    }
    if (make(s->engine, text, n + 1, &n, &e) == STATOR_OK)
        http_reply(x, 200, "application/json", text, n);
    else
        http_reply_error(x, 500, NULL, NULL, "%s", e.text);
    edge_pool_free(text);
}

void ops_plan(void *context, struct http_exchange *x) {
    reply_engine_json(x, context, stator_plan_json);
}

void ops_report(void *context, struct http_exchange *x) {
    reply_engine_json(x, context, stator_report_json);
}

/* --- /v1/models */

static void write_model(const struct server *s, const char *name, size_t n, struct json *j) {
    json_open_object(j, NULL);
    json_put_string_n(j, "id", name, n);
    json_put_string(j, "object", "model");
    json_put_i64(j, "created", s->created);
    json_put_string(j, "owned_by", "stator");
    json_close(j);
}

/* The names of each model, or its own. */
static void write_models(const void *from, struct json *j) {
    const struct server *s;
    json_open_object(j, NULL);
    json_put_string(j, "object", "list");
    json_open_array(j, "data");
    for (uint32_t i = 0; (s = server_at(from, i)) != NULL; i++) {
        const char *rest = s->settings.alias, *name = NULL;
        size_t n = 0;
        if (s->settings.name[0] == '\0')
            write_model(s, server_model(s), strlen(server_model(s)), j);
        while (server_settings_next_name(&rest, &name, &n))
            write_model(s, name, n, j);
    }
    json_close(j);
    json_close(j);
}

void ops_models(void *context, struct http_exchange *x) {
    ops_reply_json(x, 200, write_models, context);
}

struct named {
    const struct server *s;
    const char *name;
};

static void write_named(const void *from, struct json *j) {
    const struct named *m = from;
    write_model(m->s, m->name, strlen(m->name), j);
}

void ops_model(void *context, struct http_exchange *x) {
    struct named m = {.name = http_path(x) + strlen(OPS_MODEL)};
    char names[SERVER_MODELS * 72];
    for (uint32_t i = 0; (m.s = server_at(context, i)) != NULL; i++)
        if (api_names_model(m.s, m.name))
            break;
    if (m.s != NULL)
        ops_reply_json(x, 200, write_named, &m);
    else
        http_reply_error(x, 404, NULL, "model", "there is no model \"%.100s\" here: this server runs %s",
                         m.name, server_choice_names(context, names, sizeof names));
}
