/* /metrics: counters and gauges in the text format of Prometheus. */
#include "server/http/edge_pool.h"
#include "server/ops/ops_inside.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of a model. */
struct of_model {
    char label[2 * 64 + 16]; /* model="NAME" where there are several; else "" */
    stator_info info;
    stator_stats stats;
};

struct metrics {
    struct of_model models[SERVER_MODELS];
    uint32_t n;
    uint64_t planned; /* host memory of all */
    stator_audit audit;
    struct http_figures http;
    struct edge_pool_figures pool;
    uint64_t log_lost;
    bool ready; /* the server serves */
    bool has_stats, has_audit;
};

static void put(struct ops_text *t, const char *name, const char *type, const char *help) {
    ops_put(t, "# HELP stator_%s %s\n# TYPE stator_%s %s\n", name, help, name, type);
}

static void put_u64(struct ops_text *t, const char *name, const char *type, const char *help, uint64_t v) {
    put(t, name, type, help);
    ops_put(t, "stator_%s %" PRIu64 "\n", name, v);
}

/* A name as the value of a label, with its quotes escaped. */
static const char *escaped(const char *text, char *out, size_t capacity) {
    size_t n = 0;
    for (const char *c = text; *c != '\0' && n + 2 < capacity; c++) {
        if (*c == '"' || *c == '\\')
            out[n++] = '\\';
        out[n++] = *c == '\n' ? ' ' : *c;
    }
    out[n] = '\0';
    return out;
}

static void put_info(struct ops_text *t, const struct metrics *m) {
    put(t, "info", "gauge", "Version, plan, model and CPU tier of the server");
    for (uint32_t i = 0; i < m->n; i++) {
        const stator_info *info = &m->models[i].info;
        char name[2 * sizeof info->model_name + 16];
        snprintf(name, sizeof name, "%s", m->models[i].label);
        if (m->n == 1) {
            char own[2 * sizeof info->model_name];
            snprintf(name, sizeof name, "model=\"%s\"", escaped(info->model_name, own, sizeof own));
        }
        ops_put(t, "stator_info{version=\"%s\",plan=\"%s\",%s,tier=\"%s\"} 1\n", STATOR_VERSION,
                info->plan_hash, name, info->tier);
    }
}

/* Blocks that running requests have reserved and do not have yet. */
static uint64_t reserved(const stator_stats *s) {
    return s->blocks_held > s->blocks_taken ? s->blocks_held - s->blocks_taken : 0;
}

static uint64_t has_fault(const stator_stats *s) {
    return s->fault != STATOR_OK;
}

/* A figure of stator_stats: a member, or what `of` says. */
struct figure {
    const char *name, *type, *help;
    size_t offset, size;
    bool seconds;
    uint64_t (*of)(const stator_stats *s);
};

#define NUMBER(member)      offsetof(stator_stats, member), sizeof(((stator_stats *)0)->member), false, NULL
#define NANOSECONDS(member) offsetof(stator_stats, member), sizeof(((stator_stats *)0)->member), true, NULL

static const struct figure figures[] = {
    {"requests_running", "gauge", "Requests with a place in the KV cache", NUMBER(running)},
    {"requests_waiting", "gauge", "Requests that wait for a place", NUMBER(waiting)},
    {"requests_capacity", "gauge", "Requests that may run or wait at a time; further requests are refused",
     NUMBER(capacity)},
    {"requests_ended_total", "counter", "Requests that have ended", NUMBER(requests)},
    {"requests_cancelled_total", "counter", "Requests that were cancelled", NUMBER(cancelled)},
    {"requests_failed_total", "counter", "Requests that failed", NUMBER(failed)},
    {"prompt_tokens_total", "counter", "Prompt tokens that were computed", NUMBER(tokens_in)},
    {"generated_tokens_total", "counter", "Tokens generated", NUMBER(tokens_out)},
    {"queue_seconds_total", "counter", "Time that admitted requests waited in the queue",
     NANOSECONDS(queue_ns)},
    {"steps_total", "counter", "Steps that have ended", NUMBER(steps)},
    {"step_seconds_total", "counter", "Time of all steps, from begin to results", NANOSECONDS(step_ns)},
    {"step_last_seconds", "gauge", "Time of the last step", NANOSECONDS(last_step_ns)},
    {"step_longest_seconds", "gauge", "Time of the longest step", NANOSECONDS(longest_step_ns)},
    {"step_stuck_seconds", "gauge", "Time since the last step ended, while a step is in flight",
     NANOSECONDS(stuck_ns)},
    {"kv_block_tokens", "gauge", "Tokens per block of the KV cache", NUMBER(block_tokens)},
    {"kv_blocks", "gauge", "Blocks of the KV cache", NUMBER(blocks)},
    {"kv_blocks_free", "gauge", "Blocks that are free", NUMBER(blocks_free)},
    {"kv_blocks_held", "gauge", "Blocks that running requests have now", NUMBER(blocks_taken)},
    {"kv_blocks_reserved", "gauge", "Blocks reserved for running requests that do not have them yet",
     .of = reserved},
    {"kv_blocks_peak", "gauge", "Largest number of blocks held or reserved at a time", NUMBER(blocks_peak)},
    {"kv_blocks_cached", "gauge", "Blocks of the prefix cache that no request holds", NUMBER(blocks_cached)},
    {"kv_blocks_evicted_total", "counter", "Blocks evicted from the prefix cache", NUMBER(blocks_evicted)},
    {"prefix_hits_total", "counter", "Requests that reused a prefix from the prefix cache",
     NUMBER(prefix_hits)},
    {"prefix_tokens_total", "counter", "Prompt tokens taken from the prefix cache", NUMBER(tokens_cached)},
    {"checkpoints", "gauge", "Checkpoints in the plan (copies of windows and recurrent states)",
     NUMBER(checkpoints)},
    {"checkpoints_used", "gauge", "Checkpoints in use", NUMBER(checkpoints_used)},
    {"checkpoints_taken_total", "counter", "Checkpoints taken", NUMBER(checkpoints_taken)},
    {"checkpoints_resumed_total", "counter", "Times that a request continued from a checkpoint",
     NUMBER(checkpoints_resumed)},
    {"kv_files", "gauge", "Files of cache.kv_dir that this process keeps", NUMBER(kv_files)},
    {"kv_file_bytes", "gauge", "Bytes of these files", NUMBER(kv_file_bytes)},
    {"kv_files_read_total", "counter", "Files read", NUMBER(kv_files_read)},
    {"kv_read_bytes_total", "counter", "Bytes of caches read from files", NUMBER(kv_bytes_read)},
    {"kv_read_seconds_total", "counter", "Time of reading", NANOSECONDS(kv_read_ns)},
    {"kv_files_written_total", "counter", "Files written", NUMBER(kv_files_written)},
    {"kv_written_bytes_total", "counter", "Bytes of caches written to files", NUMBER(kv_bytes_written)},
    {"kv_write_seconds_total", "counter", "Time of writing", NANOSECONDS(kv_write_ns)},
    {"kv_files_lost_total", "counter", "Blocks not written because every buffer was in use",
     NUMBER(kv_files_lost)},
    {"kv_hits_total", "counter", "Requests that continued from files", NUMBER(kv_hits)},
    {"kv_tokens_total", "counter", "Prompt tokens taken from files", NUMBER(kv_tokens)},
    {"kv_wait_seconds_total", "counter", "Time that requests waited for files", NANOSECONDS(kv_wait_ns)},
    {"kv_saved_seconds", "gauge",
     "Time that computing these prompt tokens would have taken, by the mean of this run, less the time of "
     "waiting",
     NANOSECONDS(kv_saved_ns)},
    {"slots_saved_total", "counter", "Slots saved under a name", NUMBER(slots_saved)},
    {"slots_restored_total", "counter", "Slots restored from a name", NUMBER(slots_restored)},
    {"helped_rows_total", "counter", "Rows of experts that the CPU has computed for GPUs (memory.experts)",
     NUMBER(helped_rows)},
    {"helped_seconds_total", "counter", "Time of that", NANOSECONDS(helped_ns)},
    {"expert_slot_hits_total", "counter",
     "Rows of experts that GPUs have computed out of slots (memory.expert_slots); misses are helped_rows",
     NUMBER(slot_rows)},
    {"expert_slot_copies_total", "counter", "Experts that were copied to slots", NUMBER(slot_copies)},
    {"expert_window_bytes_total", "counter",
     "Bytes of experts in host memory that long steps have copied to GPUs (memory.expert_window)",
     NUMBER(streamed_bytes)},
    {"speculation_turns_total", "counter",
     "Times that a generating request took part in a step, with or without draft tokens", NUMBER(turns)},
    {"fault", "gauge", "1: a device has failed", .of = has_fault},
};

static uint64_t value_of(const struct figure *f, const stator_stats *s) {
    uint32_t narrow = 0;
    uint64_t wide = 0;
    if (f->of != NULL)
        return f->of(s);
    CHECK(f->size == sizeof narrow || f->size == sizeof wide);
    if (f->size == sizeof wide)
        memcpy(&wide, (const char *)s + f->offset, sizeof wide);
    else
        memcpy(&narrow, (const char *)s + f->offset, sizeof narrow);
    return f->size == sizeof wide ? wide : narrow;
}

static void put_figure(struct ops_text *t, const struct metrics *m, const struct figure *f) {
    put(t, f->name, f->type, f->help);
    for (uint32_t i = 0; i < m->n; i++) {
        const struct of_model *model = &m->models[i];
        const bool labelled = model->label[0] != '\0';
        const uint64_t v = value_of(f, &model->stats);
        ops_put(t, "stator_%s%s%s%s ", f->name, labelled ? "{" : "", model->label, labelled ? "}" : "");
        if (f->seconds)
            ops_put(t, "%.9g\n", (double)v * 1e-9);
        else
            ops_put(t, "%" PRIu64 "\n", v);
    }
}

/* By the place of a draft token. kept: of those that were accepted. */
static void put_places(struct ops_text *t, const struct metrics *m, bool kept) {
    for (uint32_t k = 0; k < m->n; k++) {
        const struct of_model *model = &m->models[k];
        const uint64_t *by_place = kept ? model->stats.kept : model->stats.guessed;
        for (int i = 0; i < STATOR_GUESSES; i++)
            ops_put(t, "stator_speculation_%s_total{%s%splace=\"%d\"} %" PRIu64 "\n",
                    kept ? "kept" : "guessed", model->label, model->label[0] != '\0' ? "," : "", i + 1,
                    by_place[i]);
    }
}

static void put_engines(struct ops_text *t, const struct metrics *m) {
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        put_figure(t, m, &figures[i]);
    put(t, "speculation_guessed_total", "counter", "Draft tokens by their place behind the known token");
    put_places(t, m, false);
    put(t, "speculation_kept_total", "counter", "Draft tokens that were accepted, by place");
    put_places(t, m, true);
}

static void put_http(struct ops_text *t, const struct http_figures *f) {
    put_u64(t, "http_connections", "gauge", "Open connections", f->connections);
    put_u64(t, "http_connections_peak", "gauge", "Largest number of open connections so far",
            f->connections_peak);
    put_u64(t, "http_connections_max", "gauge", "Limit of open connections (server.max_connections)",
            f->connections_most);
    put_u64(t, "http_accepted_total", "counter", "Connections accepted", f->accepted);
    put_u64(t, "http_refused_total", "counter", "Connections refused at the limit", f->refused);
    put_u64(t, "http_requests_total", "counter", "Requests received, including malformed ones", f->requests);
    put(t, "http_answers_total", "counter", "Answers by the class of their status");
    for (int i = 2; i < 6; i++)
        ops_put(t, "stator_http_answers_total{class=\"%dxx\"} %" PRIu64 "\n", i, f->by_class[i]);
    put_u64(t, "http_clients_gone_total", "counter", "Clients that left before their answer was complete",
            f->gone);
    put_u64(t, "http_clients_cut_total", "counter", "Connections closed because the client was too slow",
            f->cut);
    put_u64(t, "http_no_memory_total", "counter", "Answers that failed because the edge pool was full",
            f->out_of_memory);
    put_u64(t, "http_received_bytes_total", "counter", "Bytes received", f->bytes_in);
    put_u64(t, "http_sent_bytes_total", "counter", "Bytes sent", f->bytes_out);
}

static void write_metrics(const void *from, struct ops_text *t) {
    const struct metrics *m = from;
    put_info(t, m);
    put_u64(t, "ready", "gauge", "1: requests are served", m->ready);
    if (m->has_stats)
        put_engines(t, m);
    put_http(t, &m->http);
    put_u64(t, "edge_pool_bytes", "gauge", "Planned memory of the server", m->pool.bytes);
    put_u64(t, "edge_pool_used_bytes", "gauge", "Memory of the server in use", m->pool.used);
    put_u64(t, "edge_pool_peak_bytes", "gauge",
            "Largest memory of the server in use so far, without the room lent to a chat template while it "
            "renders",
            m->pool.peak);
    put_u64(t, "edge_pool_failures_total", "counter", "Allocations from the server's memory that failed",
            m->pool.failures);
    put_u64(t, "log_lost_total", "counter", "Log lines of requests that could not be written", m->log_lost);
    if (m->has_audit) {
        put_u64(t, "host_private_bytes", "gauge", "Private memory of the process, as the kernel counts it",
                m->audit.kernel);
        put_u64(t, "host_planned_bytes", "gauge", "Planned host memory", m->planned);
        put(t, "host_grown_bytes", "gauge", "Growth outside the plan since the engine was sealed");
        ops_put(t, "stator_host_grown_bytes %" PRId64 "\n", m->audit.grown);
        put_u64(t, "machine_available_bytes", "gauge", "Available memory of the machine (MemAvailable)",
                m->audit.available);
        put(t, "machine_unnamed_grown_bytes", "gauge",
            "Growth of the machine's memory that belongs to no process and no cache, since the engine was "
            "sealed");
        ops_put(t, "stator_machine_unnamed_grown_bytes %" PRId64 "\n", m->audit.unnamed_grown);
    }
}

/* What a plan has on the host. */
static uint64_t host_planned(const stator *engine) {
    uint64_t sum = 0;
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        if (stator_get_memory(engine, i, &row, &have, NULL) != STATOR_OK || !have)
            return sum;
        sum += strcmp(row.place, "host") == 0 ? row.planned : 0;
    }
}

static void take_model(const struct server *s, bool several, struct metrics *m) {
    struct of_model *model = &m->models[m->n++];
    char name[2 * 64];
    *model = (struct of_model){.info = s->info, .stats = {.size = sizeof model->stats}};
    if (several)
        snprintf(model->label, sizeof model->label, "model=\"%s\"",
                 escaped(server_model(s), name, sizeof name));
    m->ready = m->ready && s->phase == SERVER_READY;
    m->has_stats = m->has_stats && s->phase != SERVER_LOADING &&
                   stator_get_stats(s->engine, &model->stats, NULL) == STATOR_OK;
}

void ops_metrics(void *context, struct http_exchange *x) {
    const struct server *all = context, *s;
    struct metrics m = {.audit = {.size = sizeof m.audit},
                        .log_lost = server_log_lost(all),
                        .ready = true,
                        .has_stats = true};
    while ((s = server_at(all, m.n)) != NULL)
        take_model(s, server_at(all, 1) != NULL, &m);
    if (all->phase != SERVER_LOADING) {
        const stator_status st = stator_get_audit(all->engine, &m.audit, NULL);
        m.has_audit = st == STATOR_OK || st == STATOR_DOES_NOT_FIT;
        m.planned = m.audit.planned;
        for (uint32_t i = 0; (s = server_at(all, i)) != NULL; i++)
            m.planned += s != all ? host_planned(s->engine) : 0;
    }
    http_get_figures(all->http, &m.http);
    edge_pool_get_figures(&m.pool);
    ops_reply_text(x, "text/plain; version=0.0.4; charset=utf-8", write_metrics, &m);
}
