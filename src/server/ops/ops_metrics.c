/* /metrics: figures in the text format of Prometheus. */
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

/* A name as a label's value. */
static void put_info(struct ops_text *t, const stator_info *info) {
    char name[2 * sizeof info->model_name];
    size_t n = 0;
    for (const char *c = info->model_name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            name[n++] = '\\';
        name[n++] = *c == '\n' ? ' ' : *c;
    }
    name[n] = '\0';
    put(t, "info", "gauge", "What is served");
    ops_put(t, "stator_info{version=\"%s\",plan=\"%s\",model=\"%s\",tier=\"%s\"} 1\n", STATOR_VERSION,
            info->plan_hash, name, info->tier);
}

static void put_engine(struct ops_text *t, const stator_stats *s) {
    put_u64(t, "requests_running", "gauge", "Requests with a place in the KV cache", s->running);
    put_u64(t, "requests_waiting", "gauge", "Requests that wait for a place", s->waiting);
    put_u64(t, "requests_capacity", "gauge", "Requests that may run or wait; one more is refused",
            s->capacity);
    put_u64(t, "requests_ended_total", "counter", "Requests of the engine that have ended", s->requests);
    put_u64(t, "requests_cancelled_total", "counter", "Of these, cancelled", s->cancelled);
    put_u64(t, "requests_failed_total", "counter", "Of these, failed", s->failed);
    put_u64(t, "prompt_tokens_total", "counter", "Tokens of prompts that went into steps", s->tokens_in);
    put_u64(t, "generated_tokens_total", "counter", "Tokens generated", s->tokens_out);
    put_seconds(t, "queue_seconds_total", "counter", "Time that admitted requests have waited", s->queue_ns);
    put_u64(t, "steps_total", "counter", "Steps that have ended", s->steps);
    put_seconds(t, "step_seconds_total", "counter", "Time of steps, from begin to results", s->step_ns);
    put_seconds(t, "step_last_seconds", "gauge", "Time of the last step", s->last_step_ns);
    put_seconds(t, "step_longest_seconds", "gauge", "Time of the longest step", s->longest_step_ns);
    put_seconds(t, "step_stuck_seconds", "gauge", "Time since a step ended, while one is under way",
                s->stuck_ns);
    put_u64(t, "kv_block_tokens", "gauge", "Tokens of a block of the KV cache", s->block_tokens);
    put_u64(t, "kv_blocks", "gauge", "Blocks of the KV cache", s->blocks);
    put_u64(t, "kv_blocks_free", "gauge", "Of these, free", s->blocks_free);
    put_u64(t, "kv_blocks_held", "gauge", "Of these, held by running requests", s->blocks_held);
    put_u64(t, "kv_blocks_peak", "gauge", "The most that were held at a time", s->blocks_peak);
    put_u64(t, "kv_blocks_cached", "gauge", "Blocks that keep a prefix and that no request holds",
            s->blocks_cached);
    put_u64(t, "kv_blocks_evicted_total", "counter", "Blocks of prefixes that had to go", s->blocks_evicted);
    put_u64(t, "prefix_hits_total", "counter", "Requests that began behind a prefix", s->prefix_hits);
    put_u64(t, "prefix_tokens_total", "counter", "Tokens of prompts that were not computed therefore",
            s->tokens_cached);
    put_u64(t, "checkpoints", "gauge", "Planned copies of windows and recurrent states", s->checkpoints);
    put_u64(t, "checkpoints_used", "gauge", "Of these, taken and not free", s->checkpoints_used);
    put_u64(t, "checkpoints_taken_total", "counter", "Copies of windows and states that were taken",
            s->checkpoints_taken);
    put_u64(t, "checkpoints_resumed_total", "counter", "Times that a request went on from one",
            s->checkpoints_resumed);
    put_u64(t, "speculation_turns_total", "counter",
            "Times that a generating request had a token in a step, guesses beside it or not", s->turns);
    put(t, "speculation_guessed_total", "counter",
        "Guesses by place: of the next token, the one after it, ..");
    for (int i = 0; i < STATOR_GUESSES; i++)
        ops_put(t, "stator_speculation_guessed_total{place=\"%d\"} %" PRIu64 "\n", i + 1, s->guessed[i]);
    put(t, "speculation_kept_total", "counter", "Of these, the ones that were right");
    for (int i = 0; i < STATOR_GUESSES; i++)
        ops_put(t, "stator_speculation_kept_total{place=\"%d\"} %" PRIu64 "\n", i + 1, s->kept[i]);
    put_u64(t, "fault", "gauge", "1: a device has failed", s->fault != STATOR_OK);
}

static void put_http(struct ops_text *t, const struct http_figures *f) {
    put_u64(t, "http_connections", "gauge", "Connections of clients", f->connections);
    put_u64(t, "http_connections_peak", "gauge", "The most that there were", f->connections_peak);
    put_u64(t, "http_connections_max", "gauge", "The most that there may be", f->connections_most);
    put_u64(t, "http_accepted_total", "counter", "Connections taken", f->accepted);
    put_u64(t, "http_refused_total", "counter", "Connections turned away, all being in use", f->refused);
    put_u64(t, "http_requests_total", "counter", "Requests, malformed ones included", f->requests);
    put(t, "http_answers_total", "counter", "Answers by the class of their status");
    for (int i = 2; i < 6; i++)
        ops_put(t, "stator_http_answers_total{class=\"%dxx\"} %" PRIu64 "\n", i, f->by_class[i]);
    put_u64(t, "http_clients_gone_total", "counter", "Clients that left before their answer was complete",
            f->gone);
    put_u64(t, "http_clients_cut_total", "counter", "Connections closed for being too slow", f->cut);
    put_u64(t, "http_no_memory_total", "counter", "Answers that the edge pool had no memory for",
            f->out_of_memory);
    put_u64(t, "http_received_bytes_total", "counter", "Bytes of requests", f->bytes_in);
    put_u64(t, "http_sent_bytes_total", "counter", "Bytes of answers", f->bytes_out);
}

static void write_metrics(const void *from, struct ops_text *t) {
    const struct metrics *m = from;
    put_info(t, &m->info);
    put_u64(t, "ready", "gauge", "1: requests are served", m->ready);
    if (m->has_stats)
        put_engine(t, &m->stats);
    put_http(t, &m->http);
    put_u64(t, "edge_pool_bytes", "gauge", "The server's memory", m->pool.bytes);
    put_u64(t, "edge_pool_used_bytes", "gauge", "Of that, in use", m->pool.used);
    put_u64(t, "edge_pool_peak_bytes", "gauge",
            "The most that was in use, besides the room lent to a chat template while it renders",
            m->pool.peak);
    put_u64(t, "edge_pool_failures_total", "counter", "Times that it was exhausted", m->pool.failures);
    put_u64(t, "log_lost_total", "counter", "Log lines of requests that could not be written", m->log_lost);
    if (m->has_audit) {
        put_u64(t, "host_private_bytes", "gauge", "Private memory of the process by the kernel",
                m->audit.kernel);
        put_u64(t, "host_planned_bytes", "gauge", "Host memory by the plan", m->audit.planned);
        put(t, "host_grown_bytes", "gauge", "Growth outside the plan since the engine was sealed");
        ops_put(t, "stator_host_grown_bytes %" PRId64 "\n", m->audit.grown);
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
