#include "server/openai/api_vector_jobs.h"

#include "base/arith.h"
#include "base/clock.h"
#include "base/hash.h"
#include "server/http/edge_pool.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WHOLE (256u << 10) /* bytes of an answer that is sent at once */

static bool scores(const struct api_vector_job *job) {
    return job->form->kind == API_SCORES;
}

/* The exchange is over: what still runs for it ends. The list lets go of the job at the next tick or event.
 */
static void leave(struct api_vector_job *job) {
    job->x = NULL;
    for (uint32_t i = job->first; i < job->next_item; i++)
        if (job->items[i].request != 0)
            stator_cancel(job->api->engine, job->items[i].request);
}

static void account(struct api_vector_job *job, const char *reason) {
    struct http_account *a = http_account(job->x);
    a->n_prompt = (uint32_t)job->tokens;
    a->n_cached = (uint32_t)job->cached;
    a->prompt_ns = clock_ns() - job->started_ns;
    snprintf(a->reason, sizeof a->reason, "%s", reason);
}

__attribute__((format(printf, 4, 5))) static void fail(struct api_vector_job *job, int status,
                                                       const char *param, const char *fmt, ...) {
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (job->x == NULL)
        return;
    account(job, status == 504 ? "timeout" : "error");
    if (job->begun)
        http_stream_cut(job->x); /* in the middle of JSON nothing can be told any more */
    else
        http_reply_error(job->x, status, NULL, param, "%s", text);
    leave(job);
}

/* Frees the jobs that are over. */
static void sweep(struct api *api) {
    for (struct api_vector_job **at = &api->vector_jobs, *job; (job = *at) != NULL;) {
        if (job->x != NULL) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        api_vectors_free(&job->request);
        api_text_free(&job->out);
        edge_pool_free(job->values);
        edge_pool_free(job->order);
        edge_pool_free(job);
    }
}

/* The next piece of the answer into out. */
static void tell_more(struct api_vector_job *job) {
    if (job->told == 0)
        job->form->begin(&job->out, job);
    if (job->told < job->results)
        job->form->item(&job->out, job, job->told++);
    if (job->told == job->results) {
        job->form->end(&job->out, job);
        job->all_told = true;
    }
}

/* Writes what the client takes now. */
static void write_answer(struct api_vector_job *job) {
    while (job->x != NULL) {
        while (!job->all_told && !job->out.failed && job->out.n < (job->begun ? HTTP_STREAM : WHOLE))
            tell_more(job);
        if (job->out.failed) {
            fail(job, 503, NULL, "the server's memory (server.memory) has no room for the answer");
            return;
        }
        if (!job->begun && job->all_told) {
            account(job, "stop");
            http_reply(job->x, 200, "application/json", job->out.p, job->out.n);
            leave(job);
            return;
        }
        if (!job->begun && !http_stream_begin(job->x, "application/json")) {
            leave(job);
            return;
        }
        job->begun = true;
        const size_t n = ARITH_MIN(job->out.n, http_stream_room(job->x));
        if (n > 0 && http_stream_write(job->x, job->out.p, n))
            api_text_drop(&job->out, n);
        if (job->all_told && job->out.n == 0) {
            account(job, "stop");
            http_stream_end(job->x);
            leave(job);
        } else if (n == 0) {
            return; /* until it is drained */
        }
    }
}

/* By falling score, equal ones by index. */
static void sort(struct api_vector_job *job) {
    for (uint32_t i = 0; i < job->request.n; i++) {
        uint32_t at = i;
        for (; at > 0 && job->values[job->order[at - 1]] < job->values[i]; at--)
            job->order[at] = job->order[at - 1];
        job->order[at] = i;
    }
}

static void end(struct api_vector_job *job) {
    job->took_ns = clock_ns() - job->started_ns;
    job->results = scores(job) ? job->request.top_n : job->request.n;
    if (scores(job))
        sort(job);
    write_answer(job);
}

/* Query and document in the model's template: `{query}` and `{document}` stand for them. */
static void fill_template(const struct api *api, const json_t *query, const char *document, size_t n,
                          struct api_text *out) {
    static const char names[2][12] = {"{query}", "{document}"};
    const char *from = api->rerank, *last = from + api->rerank_length;
    for (const char *at = from; at < last; at++)
        for (int k = 0; k < 2; k++) {
            const size_t length = strlen(names[k]);
            if ((size_t)(last - at) < length || memcmp(at, names[k], length) != 0)
                continue;
            api_text_put(out, from, (size_t)(at - from));
            if (k == 0)
                api_text_put(out, json_string_value(query), json_string_length(query));
            else
                api_text_put(out, document, n);
            from = at + length;
            at = from - 1;
            break;
        }
    api_text_put(out, from, (size_t)(last - from));
}

/* Too many ids: the first ones and the very last, which is the end token of models that add one. */
static bool cut(struct api *api, const char *text, size_t length, size_t *n, struct api_failure *why) {
    const uint32_t most = api->model.context;
    size_t again = 0;
    int32_t *all = edge_pool_alloc(*n * sizeof *all);
    if (all == NULL)
        return api_failure_set(why, 503, NULL, "the server's memory has no room for %zu ids now", *n);
    const bool ok = api_prompt_ids(api->engine, text, length, true, all, *n, &again, why) && again == *n;
    if (ok) {
        memcpy(api->ids, all, most * sizeof *all);
        api->ids[most - 1] = all[*n - 1];
        *n = most;
    }
    edge_pool_free(all);
    return ok;
}

/* The ids of item i, in api->ids. */
static bool ids_of(struct api_vector_job *job, uint32_t i, size_t *n, struct api_failure *why) {
    struct api *api = job->api;
    const char *text = NULL;
    size_t length = 0;
    const json_t *item = api_vectors_item(&job->request, i, &text, &length);
    const uint32_t most = api->model.context;
    struct api_text filled = {0};
    bool ok = true;
    if (scores(job)) {
        fill_template(api, job->request.query, text, length, &filled);
        ok = filled.failed
                 ? api_failure_set(why, 503, NULL, "the server's memory has no room for a document now")
                 : api_prompt_ids(api->engine, filled.p, filled.n, false, api->ids, most, n, why);
    } else if (text != NULL) {
        ok = api_prompt_ids(api->engine, text, length, true, api->ids, most, n, why);
    } else {
        *n = length;
        for (size_t k = 0; k < ARITH_MIN(length, (size_t)most); k++) {
            const json_int_t id = json_integer_value(json_array_get(item, k));
            api->ids[k] = id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
        }
    }
    api_text_free(&filled);
    if (ok && *n > most && text != NULL && !scores(job) && job->request.truncates)
        ok = cut(api, text, length, n, why);
    if (ok && *n > most)
        ok = api_failure_set(
            why, 400, NULL,
            "%zu tokens are more than a sequence holds (%u, memory.context): shorten the text", *n, most);
    return ok;
}

/* Submits as many texts as may wait. */
static void submit(struct api_vector_job *job) {
    struct api *api = job->api;
    const uint32_t most = 2 * api->server->info.sequences;
    while (job->x != NULL && job->next_item < job->request.n && job->running < most) {
        struct api_failure why = {0};
        stator_error e = {0};
        size_t n = 0;
        stator_status st = STATOR_OK;
        struct api_vector_item *item = &job->items[job->next_item];
        bool ok = ids_of(job, job->next_item, &n, &why);
        if (ok) {
            const stator_request q = {.size = sizeof q,
                                      .kind = STATOR_EMBED,
                                      .tokens = api->ids,
                                      .n_tokens = n,
                                      .dimensions = job->request.dimensions};
            st = stator_submit(api->engine, &q, &item->request, &e);
            if (st == STATOR_BUSY && job->next_item > 0)
                return; /* a tick or the next end tries again */
            if (st == STATOR_DEVICE)
                server_look_for_fault(api->server);
            if (st != STATOR_OK)
                ok = api_failure_set(&why,
                                     st == STATOR_BUSY    ? 429
                                     : st == STATOR_USAGE ? 400
                                                          : 500,
                                     NULL, "%s", e.text);
        }
        if (!ok) {
            const char *name = job->request.items_name;
            if (why.status == 400)
                fail(job, 400, name, "%s[%u]: %s", name, job->next_item, why.text);
            else
                fail(job, why.status, NULL, "%s", why.text);
            return;
        }
        item->submitted = true;
        job->next_item++;
        job->running++;
    }
}

/* What a classifier, or the logits of yes and no, say of a document: from 0 to 1. The first label is the one
 * of documents that answer the query. */
static float score_of(const struct api *api, const stator_event *ev) {
    const bool classified = api->server->info.vector != api->server->info.vocab;
    const double yes = (double)ev->logits[classified ? 0 : api->yes];
    const double no =
        classified ? (ev->n_values > 1 ? (double)ev->logits[1] : 0) : (double)ev->logits[api->no];
    return (float)(1 / (1 + exp(no - yes)));
}

static void take(struct api_vector_job *job, uint32_t i, const stator_event *ev) {
    if (scores(job))
        job->values[i] = score_of(job->api, ev);
    else if (ev->n_values == job->width)
        memcpy(job->values + (size_t)i * job->width, ev->logits, job->width * sizeof *job->values);
}

static void on_done(struct api_vector_job *job, uint32_t i, const stator_event *ev) {
    job->items[i].request = 0;
    job->items[i].done = true;
    job->running--;
    job->tokens += ev->n_prompt;
    job->cached += ev->n_cached;
    while (job->first < job->next_item && job->items[job->first].done)
        job->first++;
    if (ev->reason == STATOR_REASON_FAILED && ev->status == STATOR_DEVICE)
        server_look_for_fault(job->api->server);
    if (ev->reason == STATOR_REASON_FAILED)
        fail(job, 500, NULL, "%s", ev->text);
    else if (ev->reason == STATOR_REASON_CANCELLED)
        fail(job, 503, NULL, "the request was cancelled");
    else if (job->first == job->request.n)
        end(job);
    else
        submit(job);
}

bool api_vector_jobs_event(struct api *api, const stator_event *ev) {
    for (struct api_vector_job *job = api->vector_jobs; job != NULL; job = job->next)
        for (uint32_t i = job->first; i < job->next_item; i++) {
            if (job->items[i].request != ev->request)
                continue;
            if (ev->kind == STATOR_EVENT_VECTOR)
                take(job, i, ev);
            else if (ev->kind == STATOR_EVENT_DONE && job->x != NULL)
                on_done(job, i, ev);
            sweep(api);
            return true;
        }
    return false;
}

void api_vector_jobs_tick(struct api *api, uint64_t now_ns, uint64_t longest_ns) {
    for (struct api_vector_job *job = api->vector_jobs; job != NULL; job = job->next) {
        if (longest_ns > 0 && now_ns > job->started_ns && now_ns - job->started_ns > longest_ns)
            fail(job, 504, NULL, "the request took longer than %.0f seconds (server.request_timeout)",
                 (double)longest_ns / 1e9);
        else if (job->running == 0)
            submit(job);
    }
    sweep(api);
}

void api_vector_jobs_cancel_all(struct api *api, const char *why) {
    for (struct api_vector_job *job = api->vector_jobs; job != NULL; job = job->next)
        fail(job, 503, NULL, "%s", why);
    sweep(api);
}

uint32_t api_vector_jobs_count(const struct api *api) {
    uint32_t n = 0;
    for (const struct api_vector_job *job = api->vector_jobs; job != NULL; job = job->next)
        n += job->x != NULL;
    return n;
}

bool api_vector_jobs_get(const struct api *api, uint32_t index, struct api_job *out) {
    for (const struct api_vector_job *job = api->vector_jobs; job != NULL; job = job->next)
        for (uint32_t i = job->first; i < job->next_item; i++)
            if (job->items[i].request != 0 && index-- == 0) {
                *out = (struct api_job){
                    .request = job->items[i].request, .id = job->id, .path = job->form->path};
                return true;
            }
    return false;
}

static void on_drained(void *context, struct http_exchange *x) {
    struct api_vector_job *job = context;
    struct api *api = job->api;
    (void)x;
    if (job->begun)
        write_answer(job);
    sweep(api);
}

static void on_gone(void *context, struct http_exchange *x) {
    struct api_vector_job *job = context;
    struct api *api = job->api;
    (void)x;
    account(job, "cancelled");
    leave(job);
    sweep(api);
}

/* Why the model can't answer such requests; NULL: it can. */
static const char *why_not(const struct api *api, enum api_vectors_kind kind) {
    const stator_info *info = &api->server->info;
    const bool ranks = strcmp(info->pooling, "rank") == 0, none = strcmp(info->pooling, "none") == 0;
    if (kind != API_SCORES)
        return none    ? "this model generates text: its file has no pooling_type, and model.pooling names "
                         "none, so "
                         "there are no embeddings"
               : ranks ? "this model makes scores of documents, no embeddings: use /v1/rerank"
                       : NULL;
    if (!ranks)
        return "this model makes no scores of documents: a reranker is expected (its pooling is \"rank\")";
    if (api->rerank == NULL)
        return "the model's file has no template for query and document (key tokenizer.chat_template.rerank)";
    if (info->vector == info->vocab && (api->yes < 0 || api->no < 0))
        return "the model has neither a classifier (tensor cls.output) nor the tokens \"yes\" and \"no\"";
    return NULL;
}

static struct api_vector_job *make(struct api *api, struct http_exchange *x,
                                   const struct api_vector_form *form, struct api_vectors_request *r) {
    const bool ranks = form->kind == API_SCORES;
    struct api_vector_job *job = edge_pool_zeroed(1, sizeof *job + r->n * sizeof job->items[0]);
    if (job == NULL)
        return NULL;
    job->width = ranks ? 1 : r->dimensions > 0 ? r->dimensions : api->server->info.vector;
    job->values = edge_pool_zeroed(r->n, job->width * sizeof *job->values);
    job->order = ranks ? edge_pool_zeroed(r->n, sizeof *job->order) : NULL;
    if (job->values == NULL || (ranks && job->order == NULL)) {
        edge_pool_free(job->values);
        edge_pool_free(job->order);
        edge_pool_free(job);
        return NULL;
    }
    job->api = api;
    job->x = x;
    job->form = form;
    job->request = *r;
    job->started_ns = clock_ns();
    const uint64_t seeds[2] = {api->salt, ++api->n_made};
    snprintf(job->id, sizeof job->id, "%s-%016llx", ranks ? "rerank" : "embd",
             (unsigned long long)hash_of(seeds, sizeof seeds));
    snprintf(http_account(x)->id, sizeof http_account(x)->id, "%s", job->id);
    snprintf(http_account(x)->ignored, sizeof http_account(x)->ignored, "%s", r->ignored);
    *r = (struct api_vectors_request){0};
    return job;
}

void api_vector_jobs_answer(struct api *api, struct http_exchange *x, const struct api_vector_form *form) {
    static const struct http_watcher watcher = {on_drained, on_gone};
    struct api_vectors_request r;
    struct api_failure why;
    size_t n = 0;
    const char *cannot = why_not(api, form->kind);
    if (cannot != NULL) {
        http_reply_error(x, 501, NULL, NULL, "%s", cannot);
        return;
    }
    if (!server_takes(api->server, x))
        return;
    const char *body = http_body(x, &n);
    if (!api_vectors_read(form->kind, body, n, &api->model, form->names, &r, &why)) {
        http_reply_error(x, why.status, NULL, why.param[0] != '\0' ? why.param : NULL, "%s", why.text);
        return;
    }
    if (r.dimensions > api->server->info.vector) {
        http_reply_error(x, 400, NULL, "dimensions",
                         "dimensions is %u: this model's embeddings have %u values", r.dimensions,
                         api->server->info.vector);
        api_vectors_free(&r);
        return;
    }
    http_drop_body(x);
    struct api_vector_job *job = make(api, x, form, &r);
    api_vectors_free(&r);
    if (job == NULL) {
        http_reply_error(
            x, 503, NULL, NULL,
            "the server's memory (server.memory) has no room for so many vectors now: ask for fewer "
            "texts at a time");
        return;
    }
    job->next = api->vector_jobs;
    api->vector_jobs = job;
    http_watch(x, &watcher, job);
    submit(job);
    sweep(api);
}
