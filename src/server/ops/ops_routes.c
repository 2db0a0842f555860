/* The table of what operators ask, and how texts about the server are made. */
#include "server/ops/ops.h"

#include "base/check.h"
#include "server/http/edge_pool.h"
#include "server/ops/ops_inside.h"

#include <stdarg.h>
#include <stdio.h>

static const struct http_route routes[] = {
    {"GET", "/health", ops_health, HTTP_OPEN}, {"GET", "/metrics", ops_metrics, 0},
    {"GET", "/slots", ops_slots, 0},           {"GET", "/memory", ops_memory, HTTP_QUIET},
    {"GET", "/props", ops_props, 0},           {"GET", "/plan", ops_plan, 0},
    {"GET", "/report", ops_report, 0},         {"GET", "/v1/models", ops_models, 0},
    {"GET", OPS_MODEL, ops_model, 0},
};

void ops_add_routes(struct server *s) {
    http_add_routes(s->http, routes, sizeof routes / sizeof routes[0], s);
}

void ops_no_memory(struct http_exchange *x) {
    http_reply_error(x, 503, NULL, NULL, "the server has no memory for this answer now; try again");
}

void ops_put(struct ops_text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const size_t room = t->out != NULL ? t->capacity - t->n : 0;
    const int n = vsnprintf(room > 0 ? t->out + t->n : NULL, room, fmt, ap);
    va_end(ap);
    CHECK(n >= 0);
    t->n += (size_t)n;
}

void ops_reply_text(struct http_exchange *x, const char *type,
                    void (*write)(const void *from, struct ops_text *t), const void *from) {
    struct ops_text count = {0};
    write(from, &count);
    struct ops_text t = {.out = edge_pool_alloc(count.n + 1), .capacity = count.n + 1};
    if (t.out == NULL) {
        ops_no_memory(x);
        return;
    }
    write(from, &t);
    CHECK(t.n == count.n);
    http_reply(x, 200, type, t.out, t.n);
    edge_pool_free(t.out);
}

void ops_reply_json(struct http_exchange *x, int status, void (*write)(const void *from, struct json *j),
                    const void *from) {
    struct json j;
    json_to_buffer(&j, NULL, 0, false);
    write(from, &j);
    (void)json_end(&j);
    const size_t n = j.length;
    char *out = edge_pool_alloc(n + 1);
    if (out == NULL) {
        ops_no_memory(x);
        return;
    }
    json_to_buffer(&j, out, n + 1, false);
    write(from, &j);
    CHECK(json_end(&j) && j.length == n);
    http_reply(x, status, "application/json", out, n);
    edge_pool_free(out);
}
