/* /v1/chat/completions and /v1/completions: from a body to requests of the engine. */
#include "server/openai/api_jobs.h"
#include "server/openai/api_slots.h"
#include "server/request/api_pictures.h"
#include "server/request/api_prompt.h"
#include "server/openai/api_reply.h"
#include "server/openai/api_vector_jobs.h"

#include "base/clock.h"
#include "base/hash.h"
#include "server/http/edge_pool.h"

#include <stdio.h>
#include <string.h>

static void refuse(struct http_exchange *x, const struct api_failure *why) {
    http_reply_error(x, why->status, NULL, why->param[0] != '\0' ? why->param : NULL, "%s", why->text);
}

/* The ids of a completion's prompt into api->ids; *n may be more than fits. Its text, where that is to be
 * echoed, into echo. */
static bool take_prompt(struct api *api, const struct api_request *r, uint32_t prompt, struct api_text *echo,
                        size_t *n, struct api_failure *why) {
    const char *text = NULL;
    size_t length = 0;
    const json_t *one = api_request_prompt(r, prompt, &text, &length);
    if (text != NULL && r->echo)
        api_text_put(echo, text, length);
    if (r->infill)
        return api_prompt_infill(api->engine, &api->infill, r, prompt, api->ids, api->model.context, n, why);
    if (text != NULL) {
        return api_prompt_ids(api->engine, text, length, true, api->ids, api->model.context, n, why);
    }
    *n = length;
    for (size_t i = 0; i < length && length <= api->model.context; i++)
        api->ids[i] = (int32_t)json_integer_value(json_array_get(one, i));
    stator_decoder decoder = {.size = sizeof decoder};
    for (size_t i = 0; r->echo && i <= length && length <= api->model.context; i++) {
        size_t bytes = 0;
        const char *piece = api_token_next(&api->tokens, &decoder, i < length ? api->ids[i] : -1, &bytes);
        api_text_put(echo, piece, bytes);
    }
    return true;
}

/* The seed of answer `i` to a prompt. Without one in the request the config's counts; several answers to a
 * prompt must have different ones. A request's -1 is a random one, whatever the config has. */
static void set_seed(struct api *api, const struct api_job_state *job, stator_sampling *s, uint32_t i) {
    const uint64_t random[2] = {api->salt + job->started_ns, api->n_made};
    if (!(s->has & STATOR_HAS_SEED)) {
        if (job->n == 1)
            return;
        s->seed = api->server->settings.sampling.seed;
        s->has |= STATOR_HAS_SEED;
    }
    if (s->seed == CONFIG_SEED_RANDOM)
        s->seed = hash_of(random, sizeof random);
    s->seed += i;
}

static bool submit(struct api *api, struct api_choice *c, const struct api_request *r, size_t n,
                   uint32_t max_new, const struct api_text *echo, struct api_failure *why) {
    stator_request q = {.size = sizeof q,
                        .kind = STATOR_GENERATE,
                        .tokens = api->ids,
                        .n_tokens = n,
                        .max_new = max_new,
                        .ignore_eos = r->ignore_eos,
                        .logprobs = r->logprobs,
                        .top_logprobs = r->top_logprobs,
                        .sampling = r->sampling,
                        .slot = r->slot <= api->server->info.slots ? r->slot : 0};
    q.n_pictures = r->n_pictures;
    q.loaded = r->loaded;
    uint64_t id = 0;
    stator_error e = {0};
    stator_budget budget;
    if (r->limits_reasoning && api_budget_of(&api->budget, r->reasoning_budget, c->job->thinks, &budget))
        q.sampling.budget = &budget;
    set_seed(api, c->job, &q.sampling, c->index % r->n);
    if (!api_structure_set(&api->structure_start, &r->structure, c->job->grammar, c->job->thinks, &q.sampling,
                           why))
        return false;
    stator_status st = stator_submit(api->engine, &q, &id, &e);
    if (st == STATOR_OK) {
        c->max_new = max_new;
        c->slot = q.slot > 0 ? q.slot - 1 : 0;
        api_jobs_begin(c);
        api_jobs_submitted(c, id);
        api_jobs_put(c, echo->p, echo->n);
        return true;
    }
    if (st == STATOR_DEVICE)
        server_look_for_fault(api->server);
    return api_failure_set(why, st == STATOR_BUSY ? 429 : st == STATOR_USAGE ? 400 : 500, NULL, "%s", e.text);
}

/* All requests of the job, or none that goes on and an error for the client. chat: the rendered template;
 * NULL: of a completion. */
static void submit_prompts(struct api_job_state *job, const struct api_request *r,
                           const struct api_text *chat) {
    struct api *api = job->api;
    struct api_failure why = {0};
    for (uint32_t p = 0; p < job->n_choices / job->n; p++) {
        struct api_text echo = {0};
        uint32_t max_new = 0;
        size_t n = 0;
        bool ok = chat != NULL ? api_prompt_ids(api->engine, chat->p, chat->n, false, api->ids,
                                                api->model.context, &n, &why)
                               : take_prompt(api, r, p, &echo, &n, &why);
        const uint64_t all = n + api_pictures_more(r);
        if (n <= api->model.context && all > api->model.context)
            max_new = 1; /* submit says how many tokens are the text's and how many the pictures' */
        else
            ok = ok && api_prompt_fits(&api->model, all, r->max_tokens, &max_new, &why);
        if (ok && echo.failed)
            ok =
                api_failure_set(&why, 503, NULL, "the server's memory has no room for the prompt's text now");
        for (uint32_t i = 0; i < job->n && ok; i++)
            ok = submit(api, &job->choices[p * job->n + i], r, n, max_new, &echo, &why);
        api_text_free(&echo);
        if (!ok) {
            api_jobs_fail(job, why.status, why.param[0] != '\0' ? why.param : NULL, "%s", why.text);
            return;
        }
    }
}

static void submit_all(struct api_job_state *job, const struct api_request *r, const struct api_text *chat) {
    submit_prompts(job, r, chat);
    stator_grammar_release(job->api->engine, job->grammar); /* the requests hold it themselves */
    job->grammar = NULL;
}

/* Room in the queue for so many; false: the client was told. */
static bool has_room(struct api *api, struct http_exchange *x, uint64_t n) {
    stator_stats stats = {.size = sizeof stats};
    if (stator_get_stats(api->engine, &stats, NULL) != STATOR_OK)
        return true; /* the submit will say what is wrong */
    const uint32_t there = stats.running + stats.waiting + stats.ended;
    if (n > stats.capacity)
        http_reply_error(
            x, 400, NULL, "n",
            "%llu answers are asked for (n for each prompt), but %u requests can be there at a time "
            "(memory.sequences and server.max_queue)",
            (unsigned long long)n, stats.capacity);
    else if (there + n > stats.capacity)
        http_reply_error(
            x, 429, NULL, NULL,
            "the queue is full: %u of %u requests run or wait (memory.sequences and server.max_queue), "
            "this one has %llu",
            there, stats.capacity, (unsigned long long)n);
    else
        return true;
    return false;
}

static void submit_chat(struct api_job_state *job, const struct api_text *text) {
    job->thinks = job->goes_on != API_NEW_MESSAGE ? job->goes_on == API_ON_REASONING
                                                  : chat_form_thinks(&job->api->model.form, text->p, text->n);
    submit_all(job, &job->request, text);
}

/* The body, read; it is given back. False: the client was told. */
static bool read_body(struct api *api, struct http_exchange *x, const struct api_way *way,
                      struct api_request *r) {
    struct api_failure why;
    size_t n = 0;
    if (!server_takes(api->server, x))
        return false;
    const char *body = http_body(x, &n);
    bool ok = way->translate != NULL ? api_request_read_other(way->translate, body, n, &api->model, r, &why)
                                     : api_request_read(way->endpoint, body, n, &api->model, r, &why);
    const bool many = ok && way->voice->single && r->n != 1;
    if (many || (ok && way->voice->no_logprobs && r->logprobs)) {
        api_request_free(r);
        ok = api_failure_set(&why, 400, many ? "n" : "logprobs", "%s",
                             many ? "this API has one answer to a request"
                                  : "this API's answers have no log probabilities");
    }
    if (!ok) {
        refuse(x, &why);
        return false;
    }
    r->stream = r->stream && way->rendered == NULL;
    r->loads_pictures = way->rendered == NULL;
    http_drop_body(x);
    snprintf(http_account(x)->ignored, sizeof http_account(x)->ignored, "%s", r->ignored);
    return true;
}

/* A request that was read and that the queue has room for. */
static void begin(struct api *api, struct http_exchange *x, const struct api_way *way, struct api_request *r,
                  uint32_t choices) {
    static const struct http_watcher watcher = {api_jobs_drained, api_jobs_gone};
    struct api_failure why;
    stator_grammar *grammar = NULL;
    if (!api_structure_compile(api->engine, api->server->settings.json_spaces, r, &grammar, &why)) {
        refuse(x, &why);
        return;
    }
    struct api_job_state *job = api_jobs_make(api, x, way, r, choices);
    if (job == NULL) {
        stator_grammar_release(api->engine, grammar);
        http_reply_error(x, 503, NULL, NULL,
                         "the server's memory (server.memory) has no room for the request now");
        return;
    }
    job->grammar = grammar;
    http_watch(x, &watcher, job);
    if (r->endpoint == API_COMPLETION)
        submit_all(job, r, NULL);
    else
        api_jobs_render(job, r, way->rendered != NULL ? way->rendered : submit_chat);
    api_jobs_settle(job);
}

void api_routes_answer(struct api *api, struct http_exchange *x, const struct api_way *way) {
    struct api_request r;
    if (!read_body(api, x, way, &r))
        return;
    const uint64_t choices = (uint64_t)api_request_prompts(&r) * r.n;
    if (way->rendered != NULL || has_room(api, x, choices))
        begin(api, x, way, &r, (uint32_t)choices);
    api_request_free(&r);
}

static void chat(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/v1/chat/completions", API_CHAT, &api_reply_chat, NULL, NULL};
    api_routes_answer(context, x, &way);
}

static void completion(void *context, struct http_exchange *x) {
    static const struct api_way way = {"/v1/completions", API_COMPLETION, &api_reply_completion, NULL, NULL};
    api_routes_answer(context, x, &way);
}

void api_routes_add(struct api *api) {
    static const struct http_route routes[] = {
        {"POST", "/v1/chat/completions", chat, 0},
        {"POST", "/v1/completions", completion, 0},
        {"POST", "/v1/embeddings", api_vectors_openai, 0},
        {"POST", "/v1/rerank", api_vectors_scores, 0},
        {"POST", "/chat/completions", chat, 0}, /* llama-server has these without /v1 too */
        {"POST", "/completions", completion, 0},
        {"POST", "/embedding", api_vectors_llama, 0},
        {"POST", "/embeddings", api_vectors_llama, 0},
        {"POST", "/rerank", api_vectors_scores, 0},
        {"POST", "/v1/reranking", api_vectors_scores, 0},
        {"POST", "/tokenize", api_texts_tokenize, 0},
        {"POST", "/detokenize", api_texts_detokenize, 0},
        {"POST", "/apply-template", api_texts_template, 0},
        {"POST", "/slots/", api_slots_answer, 0},
    };
    http_add_routes(api->server->http, routes, sizeof routes / sizeof routes[0], api);
}
