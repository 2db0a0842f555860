#include "server/openai/api_slots.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/json_writer.h"
#include "chat/chat_json.h"
#include "server/http/edge_pool.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH "/slots/"

struct api_slot_job {
    struct api_slot_job *next;
    struct api *api;
    struct http_exchange *x; /* NULL: the exchange is over */
    uint64_t request;        /* 0: it has ended */
    stator_slot_action action;
    uint32_t slot;
    char id[48];
    char *filename; /* the pool's; NULL: of an erase */
    uint64_t started_ns;
    const stator_event *end; /* while the answer is written */
};

static const char *const names[] = {
    [STATOR_SLOT_SAVE] = "save", [STATOR_SLOT_RESTORE] = "restore", [STATOR_SLOT_ERASE] = "erase"};

/* Frees the jobs that are over. */
static void sweep(struct api *api) {
    for (struct api_slot_job **at = &api->slot_jobs; *at != NULL;) {
        struct api_slot_job *job = *at;
        if (job->x != NULL || job->request != 0) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        edge_pool_free(job->filename);
        edge_pool_free(job);
    }
}

/* The exchange is over; what still runs for it ends. */
static void leave(struct api_slot_job *job) {
    job->x = NULL;
    if (job->request != 0)
        stator_cancel(job->api->engine, job->request);
}

__attribute__((format(printf, 3, 4))) static void fail(struct api_slot_job *job, int status, const char *fmt,
                                                       ...) {
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (job->x == NULL)
        return;
    http_reply_error(job->x, status, NULL, NULL, "%s", text);
    leave(job);
}

static void build(struct json *j, const void *of) {
    static const char *const tokens[] = {"n_saved", "n_restored", "n_erased"};
    static const char *const bytes[] = {"n_written", "n_read"};
    static const char *const times[] = {"save_ms", "restore_ms"};
    const struct api_slot_job *job = of;
    json_open_object(j, NULL);
    json_put_u64(j, "id_slot", job->slot);
    if (job->filename != NULL)
        json_put_string(j, "filename", job->filename);
    json_put_u64(j, tokens[job->action], job->end->n_cached);
    if (job->filename != NULL) {
        json_put_u64(j, bytes[job->action], job->end->n_bytes);
        json_put_u64(j, "n_text", job->end->n_prompt); /* of the text; the others are computed again */
        json_open_object(j, "timings");
        json_put_double(j, times[job->action], (double)((clock_ns() - job->started_ns) / 1000) * 1e-3);
        json_close(j);
    }
    json_close(j);
}

static void end(struct api_slot_job *job, const stator_event *ev) {
    struct api_text out = {0};
    if (ev->reason == STATOR_REASON_FAILED) {
        if (ev->status == STATOR_DEVICE)
            server_look_for_fault(job->api->server);
        fail(job, job->action == STATOR_SLOT_SAVE && ev->n_prompt == 0 ? 400 : 500, "%s", ev->text);
        return;
    }
    if (ev->reason == STATOR_REASON_CANCELLED) {
        fail(job, 503, "the request was cancelled");
        return;
    }
    if (job->x == NULL)
        return;
    job->end = ev;
    api_text_json(&out, build, job);
    if (out.failed)
        fail(job, 503, "the server's memory (server.memory) has no room for the answer now");
    else
        http_reply(job->x, 200, "application/json", out.p, out.n);
    job->x = NULL;
    api_text_free(&out);
}

bool api_slots_event(struct api *api, const stator_event *ev) {
    for (struct api_slot_job *job = api->slot_jobs; job != NULL; job = job->next) {
        if (job->request != ev->request)
            continue;
        job->request = 0; /* it has one event */
        end(job, ev);
        sweep(api);
        return true;
    }
    return false;
}

void api_slots_tick(struct api *api, uint64_t now_ns, uint64_t longest_ns) {
    for (struct api_slot_job *job = api->slot_jobs; job != NULL; job = job->next)
        if (longest_ns > 0 && now_ns > job->started_ns && now_ns - job->started_ns > longest_ns)
            fail(job, 504, "the request took longer than %.0f seconds (server.request_timeout)",
                 (double)longest_ns / 1e9);
    sweep(api);
}

void api_slots_cancel_all(struct api *api, const char *why) {
    for (struct api_slot_job *job = api->slot_jobs; job != NULL; job = job->next)
        fail(job, 503, "%s", why);
    sweep(api);
}

uint32_t api_slots_count(const struct api *api) {
    uint32_t n = 0;
    for (const struct api_slot_job *job = api->slot_jobs; job != NULL; job = job->next)
        n += job->x != NULL;
    return n;
}

bool api_slots_get(const struct api *api, uint32_t index, struct api_job *out) {
    for (const struct api_slot_job *job = api->slot_jobs; job != NULL; job = job->next)
        if (job->request != 0 && index-- == 0) {
            *out = (struct api_job){.request = job->request, .id = job->id, .path = PATH};
            return true;
        }
    return false;
}

static void on_gone(void *context, struct http_exchange *x) {
    struct api_slot_job *job = context;
    struct api *api = job->api;
    (void)x;
    leave(job);
    sweep(api);
}

/* The slot's number at the end of the path. */
static bool read_slot(struct api *api, const char *path, uint32_t *slot, struct api_failure *why) {
    const char *digits = path + strlen(PATH);
    const size_t n = strspn(digits, "0123456789");
    const uint64_t number = n > 0 && n < 10 ? strtoull(digits, NULL, 10) : UINT64_MAX;
    if (n == 0 || digits[n] != '\0' || number >= api->server->info.slots)
        return api_failure_set(why, 400, "id_slot",
                               "there is no slot \"%.40s\": memory.sequences is %" PRIu32
                               ", so slots are 0 to %" PRIu32,
                               digits, api->server->info.slots, api->server->info.slots - 1);
    *slot = (uint32_t)number;
    return true;
}

static bool read_action(const char *query, stator_slot_action *action, struct api_failure *why) {
    for (const char *at = query; *at != '\0'; at += strcspn(at, "&"), at += *at == '&') {
        const size_t n = strcspn(at, "&");
        for (int i = STATOR_SLOT_SAVE; i <= STATOR_SLOT_ERASE; i++) {
            char wanted[16];
            const int length = snprintf(wanted, sizeof wanted, "action=%s", names[i]);
            if ((size_t)length == n && memcmp(at, wanted, n) == 0) {
                *action = (stator_slot_action)i;
                return true;
            }
        }
    }
    return api_failure_set(why, 400, "action",
                           "no action: POST " PATH
                           "ID?action=save, ?action=restore or ?action=erase is expected");
}

/* *filename is the pool's. */
static bool read_filename(struct api *api, struct http_exchange *x, char **filename,
                          struct api_failure *why) {
    json_t *kept = NULL;
    size_t n = 0;
    const char *body = http_body(x, &n);
    if (!api_request_load(body, n, &api->model, NULL, NULL, &kept, why))
        return false;
    const json_t *v = json_object_get(json_array_get(kept, 0), "filename");
    const size_t length = v != NULL && chat_json_is_text(v) ? json_string_length(v) : 0;
    bool ok = length > 0 && strlen(json_string_value(v)) == length;
    if (!ok)
        (void)api_failure_set(
            why, 400, "filename",
            "filename is missing: {\"filename\": \"NAME\"} is expected, the name of a file");
    *filename = ok ? edge_pool_alloc(length + 1) : NULL;
    if (ok && *filename == NULL)
        ok = api_failure_set(why, 503, NULL, "the server has no memory for this request now; try again");
    if (ok)
        memcpy(*filename, json_string_value(v), length + 1);
    json_decref(kept);
    return ok;
}

static bool submit(struct api_slot_job *job, struct api_failure *why) {
    const stator_slot q = {.size = sizeof q, .action = job->action, .slot = job->slot, .name = job->filename};
    stator_error e = {0};
    const stator_status st = stator_slot_submit(job->api->engine, &q, &job->request, &e);
    return st == STATOR_OK || api_failure_set(why,
                                              st == STATOR_BUSY    ? 429
                                              : st == STATOR_USAGE ? 400
                                                                   : 500,
                                              st == STATOR_USAGE ? "filename" : NULL, "%s", e.text);
}

static bool begin(struct api *api, struct http_exchange *x, struct api_slot_job *job,
                  struct api_failure *why) {
    const uint64_t seeds[2] = {api->salt, ++api->n_made};
    if (!read_slot(api, http_path(x), &job->slot, why) || !read_action(http_query(x), &job->action, why) ||
        (job->action != STATOR_SLOT_ERASE && !read_filename(api, x, &job->filename, why)) ||
        !submit(job, why))
        return false;
    snprintf(job->id, sizeof job->id, "slot-%016llx", (unsigned long long)hash_of(seeds, sizeof seeds));
    snprintf(http_account(x)->id, sizeof http_account(x)->id, "%s", job->id);
    return true;
}

void api_slots_answer(void *context, struct http_exchange *x) {
    static const struct http_watcher watcher = {NULL, on_gone};
    struct api *api = context;
    struct api_failure why = {0};
    if (api->server->info.slots == 0) {
        http_reply_error(
            x, 501, NULL, NULL,
            "slots can't be saved here: that needs a folder, and the config has none. Set cache.kv_dir "
            "and start the server again");
        return;
    }
    if (!server_takes(api->server, x))
        return;
    struct api_slot_job *job = edge_pool_zeroed(1, sizeof *job);
    if (job == NULL) {
        http_reply_error(x, 503, NULL, NULL, "the server has no memory for this request now; try again");
        return;
    }
    *job = (struct api_slot_job){.api = api, .x = x, .started_ns = clock_ns()};
    job->next = api->slot_jobs;
    api->slot_jobs = job;
    if (begin(api, x, job, &why)) {
        http_watch(x, &watcher, job);
        return;
    }
    http_reply_error(x, why.status, NULL, why.param[0] != '\0' ? why.param : NULL, "%s", why.text);
    job->x = NULL;
    sweep(api);
}
