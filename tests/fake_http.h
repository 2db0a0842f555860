/* A stand-in for server/http/http.h's functions and the rest of the server, for tests of what works on them:
 * an exchange is a struct of the test, so that its reader can be as slow, and go away, at any step. */
#ifndef STATOR_TESTS_FAKE_HTTP_H
#define STATOR_TESTS_FAKE_HTTP_H

#include "testing.h"

#include "server/http/http.h"
#include "server/server.h"

struct http_exchange {
    const char *path, *body;
    int status; /* 0: not answered */
    bool streams, over;
    char *text; /* what the client has got */
    size_t n, capacity;
    size_t pending, window; /* of the stream; window: bytes that may wait */
    const struct http_watcher *watcher;
    void *context;
    struct http_account account;
};

#define FAKE_TABLES 4

static struct {
    const struct http_route *routes;
    size_t n;
    void *context;
} fake_tables[FAKE_TABLES];
static size_t fake_n_tables;

void http_add_routes(struct http *h, const struct http_route *r, size_t n, void *context) {
    (void)h;
    /* A server that is opened again has the same tables. */
    size_t i = 0;
    while (i < fake_n_tables && fake_tables[i].routes != r)
        i++;
    assert_true(i < FAKE_TABLES);
    fake_tables[i].routes = r;
    fake_tables[i].n = n;
    fake_tables[i].context = context;
    fake_n_tables = i == fake_n_tables ? i + 1 : fake_n_tables;
}

void http_set_error_form(struct http *h, const char *prefix, http_error_form *form) {
    (void)h;
    (void)prefix;
    (void)form;
}

const char *http_path(const struct http_exchange *x) {
    return x->path;
}

const char *http_query(const struct http_exchange *x) {
    (void)x;
    return "";
}

const char *http_body(const struct http_exchange *x, size_t *n) {
    *n = strlen(x->body);
    return x->body;
}

void http_drop_body(struct http_exchange *x) {
    x->body = "";
}

static void fake_get(struct http_exchange *x, const void *bytes, size_t n) {
    if (x->n + n + 1 > x->capacity) {
        x->capacity = 2 * (x->n + n) + 1024;
        x->text = realloc(x->text, x->capacity);
        assert_non_null(x->text);
    }
    memcpy(x->text + x->n, bytes, n);
    x->n += n;
    x->text[x->n] = '\0';
}

void http_reply(struct http_exchange *x, int status, const char *type, const void *bytes, size_t n) {
    assert_false(x->over);
    assert_string_equal(type, "application/json");
    x->status = status;
    x->over = true;
    fake_get(x, bytes, n);
}

void http_reply_error(struct http_exchange *x, int status, const char *type, const char *param,
                      const char *fmt, ...) {
    char text[1024];
    va_list ap;
    assert_false(x->over || x->streams);
    (void)type;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    x->status = status;
    x->over = true;
    fake_get(x, param != NULL ? param : "", param != NULL ? strlen(param) : 0);
    fake_get(x, ": ", 2);
    fake_get(x, text, strlen(text));
}

bool http_stream_begin(struct http_exchange *x, const char *type) {
    assert_false(x->over || x->streams);
    assert_true(strcmp(type, "text/event-stream") == 0 || strcmp(type, "application/json") == 0);
    x->streams = true;
    x->status = 200;
    return true;
}

size_t http_stream_pending(const struct http_exchange *x) {
    return x->pending;
}

size_t http_stream_room(const struct http_exchange *x) {
    return x->window - x->pending;
}

bool http_stream_write(struct http_exchange *x, const void *bytes, size_t n) {
    assert_true(x->streams && !x->over);
    if (n > http_stream_room(x))
        return false;
    fake_get(x, bytes, n);
    x->pending += n;
    return true;
}

void http_stream_end(struct http_exchange *x) {
    assert_true(x->streams && !x->over);
    x->over = true;
}

void http_stream_cut(struct http_exchange *x) {
    http_stream_end(x);
}

void http_watch(struct http_exchange *x, const struct http_watcher *watcher, void *context) {
    x->watcher = watcher;
    x->context = context;
}

struct http_account *http_account(struct http_exchange *x) {
    return &x->account;
}

bool server_takes(struct server *s, struct http_exchange *x) {
    (void)s;
    (void)x;
    return true;
}

const char *server_model(const struct server *s) {
    return s->info.model_name;
}

struct server *server_at(const struct server *any, uint32_t index) {
    return index == 0 ? (struct server *)any : NULL;
}

void server_wake(struct server *s) { /* tests poll */
    (void)s;
}

void server_look_for_fault(struct server *s) {
    (void)s;
}

static inline void fake_start(struct http_exchange *x, const char *path, const char *body) {
    *x = (struct http_exchange){.path = path, .body = body, .window = HTTP_STREAM};
    for (size_t t = 0; t < fake_n_tables; t++)
        for (size_t i = 0; i < fake_tables[t].n; i++)
            if (strcmp(fake_tables[t].routes[i].path, path) == 0) {
                fake_tables[t].routes[i].run(fake_tables[t].context, x);
                return;
            }
    fail_msg("no route %s", path);
}

/* The reader takes up to `eat` of the bytes that wait. */
static inline void fake_read(struct http_exchange *x, size_t eat) {
    if (x->pending == 0)
        return;
    x->pending -= x->pending < eat ? x->pending : eat;
    if (x->pending == 0 && !x->over && x->watcher != NULL)
        x->watcher->drained(x->context, x);
}

/* The client is gone, unless its answer is complete. */
static inline void fake_leave(struct http_exchange *x) {
    if (x->over)
        return;
    x->over = true;
    if (x->watcher != NULL)
        x->watcher->gone(x->context, x);
}

#endif
