/* /memory: the plan's arenas, who holds which block of the caches, and the audit. */
#include "server/http/edge_pool.h"
#include "server/ops/ops_inside.h"

#include "base/arith.h"
#include "base/clock.h"

#include <string.h>

#define PIECE 256 /* blocks that are looked at at a time */
/* An audit takes at most this share of the thread's time, and is not older than that without need. */
#define AUDIT_SHARE  100
#define AUDIT_MIN_NS ((uint64_t)1000000000)

/* Neighbours of a cache in the same state. */
struct run {
    stator_block of;
    uint32_t n;
};

struct cache {
    stator_cache is;
    uint32_t first_run, n_runs;
    uint32_t blocks[3]; /* by stator_block_state */
};

struct memory {
    const struct server *server;
    stator_memory_row *rows;
    struct cache *caches;
    struct run *runs;
    struct ops_slot *slots;
    uint32_t n_rows, n_caches, n_runs, n_slots;
    stator_stats stats;
    struct edge_pool_figures pool;
    uint64_t now_ns;
};

/* list with room for one more than n, which grows by doubling; NULL: no memory, and list is freed. */
static void *grow(void *list, uint32_t n, size_t size) {
    if (n >= 8 && (n & (n - 1)) != 0)
        return list;
    if (n > 0 && n < 8)
        return list;
    void *more = edge_pool_resize(list, ARITH_MAX((size_t)n * 2, (size_t)8) * size);
    if (more == NULL)
        edge_pool_free(list);
    return more;
}

static bool same(const stator_block *a, const stator_block *b) {
    return a->state == b->state && a->request == b->request && a->holders == b->holders;
}

static bool take_runs(struct memory *m, struct cache *c, size_t cache) {
    stator_block piece[PIECE];
    size_t n = 0;
    c->first_run = m->n_runs;
    for (size_t at = 0; at < c->is.blocks; at += n) {
        if (stator_get_blocks(m->server->engine, cache, at, piece, PIECE, &n, NULL) != STATOR_OK || n == 0)
            break;
        for (size_t i = 0; i < n; i++) {
            c->blocks[piece[i].state]++;
            if (m->n_runs > c->first_run && same(&m->runs[m->n_runs - 1].of, &piece[i])) {
                m->runs[m->n_runs - 1].n++;
                continue;
            }
            if ((m->runs = grow(m->runs, m->n_runs, sizeof *m->runs)) == NULL)
                return false;
            m->runs[m->n_runs++] = (struct run){piece[i], 1};
        }
    }
    c->n_runs = m->n_runs - c->first_run;
    return true;
}

static bool take_caches(struct memory *m) {
    for (;;) {
        int have = 0;
        struct cache c = {.is = {.size = sizeof c.is}};
        if (stator_get_cache(m->server->engine, m->n_caches, &c.is, &have, NULL) != STATOR_OK || !have)
            return true;
        if (!take_runs(m, &c, m->n_caches) ||
            (m->caches = grow(m->caches, m->n_caches, sizeof *m->caches)) == NULL)
            return false;
        m->caches[m->n_caches++] = c;
    }
}

static bool take_rows(struct memory *m) {
    for (;;) {
        int have = 0;
        stator_memory_row row = {.size = sizeof row};
        if (stator_get_memory(m->server->engine, m->n_rows, &row, &have, NULL) != STATOR_OK || !have)
            return true;
        if ((m->rows = grow(m->rows, m->n_rows, sizeof *m->rows)) == NULL)
            return false;
        m->rows[m->n_rows++] = row;
    }
}

/* For all who ask. */
static void take_audit(struct server *s) {
    struct server_audit *a = &s->audit;
    const uint64_t now = clock_ns();
    if (a->taken_ns != 0 && now - a->taken_ns < ARITH_MAX(AUDIT_MIN_NS, a->cost_ns * AUDIT_SHARE))
        return;
    a->host = (stator_audit){.size = sizeof a->host};
    (void)stator_get_audit(s->engine, &a->host, NULL);
    int have = 1;
    for (a->n_gpus = 0; a->n_gpus < SERVER_GPUS && have; a->n_gpus += have != 0) {
        stator_device_audit *g = &a->gpus[a->n_gpus];
        *g = (stator_device_audit){.size = sizeof *g};
        if (stator_get_device_audit(s->engine, a->n_gpus, g, &have, NULL) != STATOR_OK)
            have = 0;
    }
    a->taken_ns = clock_ns();
    a->cost_ns = a->taken_ns - now;
}

/* --- JSON */

static void write_row(const stator_memory_row *r, struct json *j) {
    json_open_object(j, NULL);
    json_put_string(j, "place", r->place);
    json_put_string(j, "arena", r->arena);
    json_put_u64(j, "planned", r->planned);
    json_put_u64(j, "lower_bound", r->lower_bound);
    json_put_u64(j, "allocated", r->allocated);
    json_put_u64(j, "used", r->used);
    json_put_u64(j, "budget", r->budget);
    json_close(j);
}

/* [number of blocks, "free"], [.., "cached"] or [.., "held", request, holders]. */
static void write_run(const struct run *r, struct json *j) {
    static const char *const states[] = {
        [STATOR_BLOCK_FREE] = "free", [STATOR_BLOCK_CACHED] = "cached", [STATOR_BLOCK_HELD] = "held"};
    json_open_array(j, NULL);
    json_put_u64(j, NULL, r->n);
    json_put_string(j, NULL, states[r->of.state]);
    if (r->of.state == STATOR_BLOCK_HELD) {
        json_put_u64(j, NULL, r->of.request);
        json_put_u64(j, NULL, r->of.holders);
    }
    json_close(j);
}

static void write_cache(const struct memory *m, const struct cache *c, struct json *j) {
    json_open_object(j, NULL);
    json_put_string(j, "name", c->is.name);
    json_put_string(j, "kind", c->is.kind);
    json_put_u64(j, "blocks", c->is.blocks);
    json_put_u64(j, "block_tokens", c->is.block_tokens);
    json_put_u64(j, "block_bytes", c->is.block_bytes);
    json_put_u64(j, "free", c->blocks[STATOR_BLOCK_FREE]);
    json_put_u64(j, "cached", c->blocks[STATOR_BLOCK_CACHED]);
    json_put_u64(j, "held", c->blocks[STATOR_BLOCK_HELD]);
    json_open_array(j, "runs");
    for (uint32_t i = 0; i < c->n_runs; i++)
        write_run(&m->runs[c->first_run + i], j);
    json_close(j);
    json_close(j);
}

static void write_gpu(const stator_device_audit *g, struct json *j) {
    json_open_object(j, NULL);
    json_put_string(j, "name", g->name);
    json_put_u64(j, "planned", g->planned);
    json_put_u64(j, "reserve", g->reserve);
    json_put_u64(j, "driver", g->driver);
    if (g->kernel_told)
        json_put_u64(j, "kernel", g->kernel);
    else
        json_put_null(j, "kernel");
    json_put_u64(j, "pinned_host", g->host);
    json_put_i64(j, "grown", g->grown);
    json_close(j);
}

static void write_audit(const struct memory *m, struct json *j) {
    const struct server_audit *a = &m->server->audit;
    json_open_object(j, "audit");
    json_put_u64(j, "age_ms", (m->now_ns - a->taken_ns) / 1000000);
    json_put_u64(j, "planned", a->host.planned);
    json_put_u64(j, "not_in_ram", a->host.not_in_ram);
    json_put_u64(j, "before", a->host.before);
    json_put_i64(j, "others", a->host.others);
    json_put_u64(j, "kernel", a->host.kernel);
    json_put_u64(j, "pinned", a->host.pinned);
    json_put_u64(j, "spilled", a->host.spilled);
    json_put_i64(j, "grown", a->host.grown);
    json_put_u64(j, "available", a->host.available);
    json_put_u64(j, "available_sealed", a->host.available_sealed);
    json_put_i64(j, "unnamed_grown", a->host.unnamed_grown);
    json_put_string(j, "wrong", a->host.text);
    json_open_array(j, "gpus");
    for (uint32_t i = 0; i < a->n_gpus; i++)
        write_gpu(&a->gpus[i], j);
    json_close(j);
    json_close(j);
}

static void write_memory(const void *from, struct json *j) {
    const struct memory *m = from;
    json_open_object(j, NULL);
    json_put_string(j, "plan", m->server->info.plan_hash);
    json_put_u64(j, "running", m->stats.running);
    json_put_u64(j, "waiting", m->stats.waiting);
    json_put_u64(j, "evicted", m->stats.blocks_evicted);
    json_put_u64(j, "prefix_hits", m->stats.prefix_hits);
    json_put_u64(j, "prefix_tokens", m->stats.tokens_cached);
    json_open_array(j, "arenas");
    for (uint32_t i = 0; i < m->n_rows; i++)
        write_row(&m->rows[i], j);
    json_close(j);
    json_open_array(j, "caches");
    for (uint32_t i = 0; i < m->n_caches; i++)
        write_cache(m, &m->caches[i], j);
    json_close(j);
    ops_write_slots(m->slots, m->n_slots, j, "requests");
    json_open_object(j, "edge_pool");
    json_put_u64(j, "bytes", m->pool.bytes);
    json_put_u64(j, "used", m->pool.used);
    json_put_u64(j, "peak", m->pool.peak);
    json_put_u64(j, "failures", m->pool.failures);
    json_close(j);
    write_audit(m, j);
    json_close(j);
}

void ops_memory(void *context, struct http_exchange *x) {
    struct server *s = context;
    struct memory m = {.server = s, .stats = {.size = sizeof m.stats}};
    if (s->phase == SERVER_LOADING) { /* the engine is the main thread's until then */
        http_reply_error(x, 503, NULL, NULL, "the model is being loaded; try again");
        return;
    }
    (void)stator_get_stats(s->engine, &m.stats, NULL);
    take_audit(s);
    m.slots = ops_take_slots(s, &m.n_slots);
    const bool all = m.slots != NULL && take_rows(&m) && take_caches(&m);
    edge_pool_get_figures(&m.pool);
    m.now_ns = clock_ns();
    if (all)
        ops_reply_json(x, 200, write_memory, &m);
    else
        ops_no_memory(x);
    edge_pool_free(m.slots);
    edge_pool_free(m.rows);
    edge_pool_free(m.caches);
    edge_pool_free(m.runs);
}
