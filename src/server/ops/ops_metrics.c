/* /metrics: counters and gauges in the text format of Prometheus. */
#include "server/http/edge_pool.h"
#include "server/ops/ops_inside.h"

#include <inttypes.h>

struct metrics {
    stator_info info;
    stator_stats stats;
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

static void put_seconds(struct ops_text *t, const char *name, const char *type, const char *help,
                        uint64_t ns) {
    put(t, name, type, help);
    ops_put(t, "stator_%s %.9g\n", name, (double)ns * 1e-9);
}

/* Writes the model's name as a label value, with its quotes escaped. */
static void put_info(struct ops_text *t, const stator_info *info) {
    char name[2 * sizeof info->model_name];
    size_t n = 0;
    for (const char *c = info->model_name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            name[n++] = '\\';
        name[n++] = *c == '\n' ? ' ' : *c;
    }
    name[n] = '\0';
    put(t, "info", "gauge", "Version, plan, model and CPU tier of the server");
    ops_put(t, "stator_info{version=\"%s\",plan=\"%s\",model=\"%s\",tier=\"%s\"} 1\n", STATOR_VERSION,
            info->plan_hash, name, info->tier);
}

/* Of cache.kv_dir. */
static void put_kv_files(struct ops_text *t, const stator_stats *s) {
    put_u64(t, "kv_files", "gauge", "Files of cache.kv_dir that this process keeps", s->kv_files);
    put_u64(t, "kv_file_bytes", "gauge", "Bytes of these files", s->kv_file_bytes);
    put_u64(t, "kv_files_read_total", "counter", "Files read", s->kv_files_read);
    put_u64(t, "kv_read_bytes_total", "counter", "Bytes of caches read from files", s->kv_bytes_read);
    put_seconds(t, "kv_read_seconds_total", "counter", "Time of reading", s->kv_read_ns);
    put_u64(t, "kv_files_written_total", "counter", "Files written", s->kv_files_written);
    put_u64(t, "kv_written_bytes_total", "counter", "Bytes of caches written to files", s->kv_bytes_written);
    put_seconds(t, "kv_write_seconds_total", "counter", "Time of writing", s->kv_write_ns);
    put_u64(t, "kv_files_lost_total", "counter", "Blocks not written because every buffer was in use",
            s->kv_files_lost);
    put_u64(t, "kv_hits_total", "counter", "Requests that continued from files", s->kv_hits);
    put_u64(t, "kv_tokens_total", "counter", "Prompt tokens taken from files", s->kv_tokens);
    put_seconds(t, "kv_wait_seconds_total", "counter", "Time that requests waited for files", s->kv_wait_ns);
    put_seconds(t, "kv_saved_seconds", "gauge",
                "Time that computing these prompt tokens would have taken, by the mean of this run, less the "
                "time of waiting",
                s->kv_saved_ns);
    put_u64(t, "slots_saved_total", "counter", "Slots saved under a name", s->slots_saved);
    put_u64(t, "slots_restored_total", "counter", "Slots restored from a name", s->slots_restored);
}

static void put_engine(struct ops_text *t, const stator_stats *s) {
    put_u64(t, "requests_running", "gauge", "Requests with a place in the KV cache", s->running);
    put_u64(t, "requests_waiting", "gauge", "Requests that wait for a place", s->waiting);
    put_u64(t, "requests_capacity", "gauge",
            "Requests that may run or wait at a time; further requests are refused", s->capacity);
    put_u64(t, "requests_ended_total", "counter", "Requests that have ended", s->requests);
    put_u64(t, "requests_cancelled_total", "counter", "Requests that were cancelled", s->cancelled);
    put_u64(t, "requests_failed_total", "counter", "Requests that failed", s->failed);
    put_u64(t, "prompt_tokens_total", "counter", "Prompt tokens that were computed", s->tokens_in);
    put_u64(t, "generated_tokens_total", "counter", "Tokens generated", s->tokens_out);
    put_seconds(t, "queue_seconds_total", "counter", "Time that admitted requests waited in the queue",
                s->queue_ns);
    put_u64(t, "steps_total", "counter", "Steps that have ended", s->steps);
    put_seconds(t, "step_seconds_total", "counter", "Time of all steps, from begin to results", s->step_ns);
    put_seconds(t, "step_last_seconds", "gauge", "Time of the last step", s->last_step_ns);
    put_seconds(t, "step_longest_seconds", "gauge", "Time of the longest step", s->longest_step_ns);
    put_seconds(t, "step_stuck_seconds", "gauge", "Time since the last step ended, while a step is in flight",
                s->stuck_ns);
    put_u64(t, "kv_block_tokens", "gauge", "Tokens per block of the KV cache", s->block_tokens);
    put_u64(t, "kv_blocks", "gauge", "Blocks of the KV cache", s->blocks);
    put_u64(t, "kv_blocks_free", "gauge", "Blocks that are free", s->blocks_free);
    put_u64(t, "kv_blocks_held", "gauge", "Blocks that running requests have now", s->blocks_taken);
    put_u64(t, "kv_blocks_reserved", "gauge",
            "Blocks reserved for running requests that do not have them yet",
            s->blocks_held > s->blocks_taken ? s->blocks_held - s->blocks_taken : 0);
    put_u64(t, "kv_blocks_peak", "gauge", "Largest number of blocks held or reserved at a time",
            s->blocks_peak);
    put_u64(t, "kv_blocks_cached", "gauge", "Blocks of the prefix cache that no request holds",
            s->blocks_cached);
    put_u64(t, "kv_blocks_evicted_total", "counter", "Blocks evicted from the prefix cache",
            s->blocks_evicted);
    put_u64(t, "prefix_hits_total", "counter", "Requests that reused a prefix from the prefix cache",
            s->prefix_hits);
    put_u64(t, "prefix_tokens_total", "counter", "Prompt tokens taken from the prefix cache",
            s->tokens_cached);
    put_u64(t, "checkpoints", "gauge", "Checkpoints in the plan (copies of windows and recurrent states)",
            s->checkpoints);
    put_u64(t, "checkpoints_used", "gauge", "Checkpoints in use", s->checkpoints_used);
    put_u64(t, "checkpoints_taken_total", "counter", "Checkpoints taken", s->checkpoints_taken);
    put_u64(t, "checkpoints_resumed_total", "counter", "Times that a request continued from a checkpoint",
            s->checkpoints_resumed);
    put_kv_files(t, s);
    put_u64(t, "helped_rows_total", "counter",
            "Rows of experts that the CPU has computed for GPUs (memory.experts)", s->helped_rows);
    put_seconds(t, "helped_seconds_total", "counter", "Time of that", s->helped_ns);
    put_u64(t, "speculation_turns_total", "counter",
            "Times that a generating request took part in a step, with or without draft tokens", s->turns);
    put(t, "speculation_guessed_total", "counter", "Draft tokens by their place behind the known token");
    for (int i = 0; i < STATOR_GUESSES; i++)
        ops_put(t, "stator_speculation_guessed_total{place=\"%d\"} %" PRIu64 "\n", i + 1, s->guessed[i]);
    put(t, "speculation_kept_total", "counter", "Draft tokens that were accepted, by place");
    for (int i = 0; i < STATOR_GUESSES; i++)
        ops_put(t, "stator_speculation_kept_total{place=\"%d\"} %" PRIu64 "\n", i + 1, s->kept[i]);
    put_u64(t, "fault", "gauge", "1: a device has failed", s->fault != STATOR_OK);
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
    put_info(t, &m->info);
    put_u64(t, "ready", "gauge", "1: requests are served", m->ready);
    if (m->has_stats)
        put_engine(t, &m->stats);
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
        put_u64(t, "host_planned_bytes", "gauge", "Planned host memory", m->audit.planned);
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

void ops_metrics(void *context, struct http_exchange *x) {
    struct server *s = context;
    struct metrics m = {.info = s->info,
                        .stats = {.size = sizeof m.stats},
                        .audit = {.size = sizeof m.audit},
                        .log_lost = server_log_lost(s),
                        .ready = s->phase == SERVER_READY};
    if (s->phase != SERVER_LOADING) {
        m.has_stats = stator_get_stats(s->engine, &m.stats, NULL) == STATOR_OK;
        const stator_status st = stator_get_audit(s->engine, &m.audit, NULL);
        m.has_audit = st == STATOR_OK || st == STATOR_DOES_NOT_FIT;
    }
    http_get_figures(s->http, &m.http);
    edge_pool_get_figures(&m.pool);
    ops_reply_text(x, "text/plain; version=0.0.4; charset=utf-8", write_metrics, &m);
}
