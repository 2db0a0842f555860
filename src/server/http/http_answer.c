/* Answers: heads, whole and streamed bodies, and the bytes that wait for their reader. */
#include "server/http/http_inside.h"

#include "base/arith.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "server/http/edge_pool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define ERROR_TEXT        2048 /* bytes of an error's body */
#define PREFLIGHT_HEADERS 900  /* bytes of the headers that a preflight asks for */

static const struct {
    int status;
    const char *phrase;
    const char *type; /* that OpenAI's API has for it; NULL: by its class */
} statuses[] = {
    {200, "OK", NULL},
    {204, "No Content", NULL},
    {304, "Not Modified", NULL},
    {400, "Bad Request", NULL},
    {401, "Unauthorized", "authentication_error"},
    {403, "Forbidden", "permission_error"},
    {404, "Not Found", "not_found_error"},
    {405, "Method Not Allowed", NULL},
    {408, "Request Timeout", NULL},
    {409, "Conflict", NULL},
    {413, "Content Too Large", NULL},
    {414, "URI Too Long", NULL},
    {415, "Unsupported Media Type", NULL},
    {417, "Expectation Failed", NULL},
    {422, "Unprocessable Content", NULL},
    {429, "Too Many Requests", "rate_limit_error"},
    {431, "Request Header Fields Too Large", NULL},
    {500, "Internal Server Error", NULL},
    {501, "Not Implemented", NULL},
    {503, "Service Unavailable", NULL},
    {504, "Gateway Timeout", NULL},
    {505, "HTTP Version Not Supported", NULL},
};

static const char *phrase_of(int status) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i].phrase;
    return "Status";
}

static const char *type_of(int status) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status && statuses[i].type != NULL)
            return statuses[i].type;
    return status >= 500 ? "server_error" : "invalid_request_error";
}

/* --- bytes out */

static size_t pending(const struct http_connection *c) {
    return c->out_have - c->out_at;
}

static void drop_output(struct http_connection *c) {
    edge_pool_free(c->out);
    c->out = NULL;
    c->out_at = c->out_have = c->out_capacity = 0;
}

/* What the socket takes of it at once; 0 where it takes nothing or is gone. more: comes right behind it. */
static size_t send_some(struct http_connection *c, const char *bytes, size_t n, bool more) {
    size_t sent = 0;
    while (sent < n && !c->broken) {
        ssize_t did = send(c->fd, bytes + sent, n - sent, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
        if (did > 0)
            sent += (size_t)did;
        else if (did < 0 && errno == EINTR)
            continue;
        else if (did < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        else
            c->broken = true;
    }
    c->x.sent += sent;
    c->http->figures.bytes_out += sent;
    return sent;
}

void http_answer_send(struct http_connection *c) {
    const size_t sent = pending(c) > 0 ? send_some(c, c->out + c->out_at, pending(c), false) : 0;
    if (sent == 0)
        return;
    c->out_at += sent;
    c->out_since_ns = clock_ns();
    if (pending(c) > 0)
        return;
    if (c->state == HTTP_IN_ANSWER)
        c->out_at = c->out_have = 0; /* the stream's, for more */
    else
        drop_output(c);
}

/* The loop goes on with the connection, soon, unless it is doing so now. */
static void wake(struct http_connection *c) {
    if (!c->inside)
        event_active(&c->io, EV_WRITE, 0);
}

/* Behind what waits; false: there is no memory. What the socket takes at once is never copied. */
static bool put(struct http_connection *c, const char *bytes, size_t n, bool more_comes) {
    if (pending(c) == 0) {
        const size_t sent = send_some(c, bytes, n, more_comes);
        bytes += sent;
        n -= sent;
    }
    if (n == 0 || c->broken)
        return true;
    if (c->out_have + n > c->out_capacity && c->out_at > 0) {
        memmove(c->out, c->out + c->out_at, pending(c));
        c->out_have -= c->out_at;
        c->out_at = 0;
    }
    if (c->out_have + n > c->out_capacity) {
        char *more = edge_pool_resize(c->out, c->out_have + n);
        if (more == NULL)
            return false;
        c->out = more;
        c->out_capacity = c->out_have + n;
    }
    if (pending(c) == 0)
        c->out_since_ns = clock_ns();
    memcpy(c->out + c->out_have, bytes, n);
    c->out_have += n;
    return true;
}

/* --- heads */

static void append(char *out, size_t *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t *n, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const int did = vsnprintf(out + *n, HTTP_HEAD_LINES - *n, fmt, ap);
    va_end(ap);
    CHECK(did >= 0 && *n + (size_t)did < HTTP_HEAD_LINES);
    *n += (size_t)did;
}

static void append_date(char *out, size_t *n) {
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm t;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &t) == NULL)
        return;
    append(out, n, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n", days + 3 * t.tm_wday, t.tm_mday,
           months + 3 * t.tm_mon, t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

/* "Allow: GET, HEAD": what may be asked of the path. */
static void append_allow(const struct http_connection *c, char *out, size_t *n) {
    const struct http *h = c->http;
    const char *before = "Allow: ";
    for (uint32_t t = 0; t < h->n_tables; t++)
        for (size_t i = 0; i < h->tables[t].n; i++) {
            const struct http_route *r = &h->tables[t].routes[i];
            if (strcmp(r->path, c->head.path) != 0)
                continue;
            append(out, n, "%s%s%s", before, r->method, strcmp(r->method, "GET") == 0 ? ", HEAD" : "");
            before = ", ";
        }
    append(out, n, "\r\n");
}

/* Of an answer of n bytes, or (streams) of unknown length. */
static size_t write_head(struct http_connection *c, int status, const char *type, size_t n, char *out) {
    size_t at = 0;
    if (c->http->closing || !c->head.keep_alive)
        c->closes = true;
    append(out, &at, "HTTP/1.1 %d %s\r\n", status, phrase_of(status));
    append_date(out, &at);
    if (type != NULL)
        append(out, &at, "Content-Type: %.128s\r\n", type);
    if (c->x.chunked)
        append(out, &at, "Transfer-Encoding: chunked\r\n");
    else if (!c->x.streams && status != 204 && status != 304)
        append(out, &at, "Content-Length: %zu\r\n", n);
    if (c->closes)
        append(out, &at, "Connection: close\r\n");
    else if (c->head.http10)
        append(out, &at, "Connection: keep-alive\r\n");
    if (c->x.fixed != NULL)
        append(out, &at, "Cache-Control: no-cache\r\nETag: \"%.64s\"\r\n%.700s", c->x.fixed->tag,
               c->x.fixed->headers);
    else
        append(out, &at, "Cache-Control: no-store\r\n");
    append(out, &at, "X-Content-Type-Options: nosniff\r\n");
    if (c->x.streams)
        append(out, &at, "X-Accel-Buffering: no\r\n"); /* proxies would hold events back */
    if (status == 429 || status == 503)
        append(out, &at, "Retry-After: %d\r\n", HTTP_RETRY_AFTER);
    if (status == 405)
        append_allow(c, out, &at);
    if (status == 401)
        append(out, &at, "WWW-Authenticate: Bearer\r\n");
    if (c->x.account.ignored[0] != '\0')
        append(out, &at, "X-Stator-Ignored: %s\r\n", c->x.account.ignored);
    if (c->cross_origin != NULL)
        append(out, &at,
               "Access-Control-Allow-Origin: %.300s\r\nVary: Origin\r\n"
               "Access-Control-Expose-Headers: X-Stator-Ignored\r\n",
               c->cross_origin);
    return at;
}

static void end_head(char *out, size_t *n) {
    append(out, n, "\r\n");
}

static void count(struct http_connection *c, int status) {
    c->x.status = status;
    c->http->figures.by_class[status / 100]++;
}

/* A whole answer. Where there is no memory for what its reader does not take at once, the connection ends. */
static void answer(struct http_connection *c, const char *head, size_t head_bytes, const char *bytes,
                   size_t n) {
    const bool body = n > 0 && !c->x.head_only;
    bool fits = put(c, head, head_bytes, body);
    if (fits && body)
        fits = put(c, bytes, n, false);
    if (!fits) {
        c->http->figures.out_of_memory++;
        c->abort = true;
    }
    c->state = HTTP_IN_FLUSH;
    c->since_ns = clock_ns();
    wake(c);
}

static bool may_answer(const struct http_exchange *x) {
    return x->connection->state == HTTP_IN_ANSWER && !x->streams;
}

void http_reply(struct http_exchange *x, int status, const char *content_type, const void *bytes, size_t n) {
    struct http_connection *c = x->connection;
    char head[HTTP_HEAD_LINES];
    CHECK(may_answer(x) && status >= 200 && status < 600);
    count(c, status);
    size_t at = write_head(c, status, content_type, n, head);
    end_head(head, &at);
    answer(c, head, at, bytes, n);
}

void http_reply_fixed(struct http_exchange *x, const struct http_fixed *what) {
    char tag[68];
    const char *asked = http_header(x, "If-None-Match");
    snprintf(tag, sizeof tag, "\"%.64s\"", what->tag);
    x->fixed = what;
    if (asked != NULL && strstr(asked, tag) != NULL)
        http_reply(x, 304, NULL, NULL, 0);
    else
        http_reply(x, 200, what->content_type, what->bytes, what->n);
    x->fixed = NULL;
}

static void put_error(struct json *j, int status, const char *type, const char *param, const char *message) {
    json_open_object(j, NULL);
    json_open_object(j, "error");
    json_put_string(j, "message", message);
    json_put_string(j, "type", type != NULL ? type : type_of(status));
    if (param != NULL)
        json_put_string(j, "param", param);
    else
        json_put_null(j, "param");
    json_put_u64(j, "code", (uint64_t)status);
    json_close(j);
    json_close(j);
}

void http_set_error_form(struct http *h, const char *prefix, http_error_form *form) {
    CHECK(h->n_forms < HTTP_FORMS);
    h->forms[h->n_forms].prefix = prefix;
    h->forms[h->n_forms++].form = form;
}

/* The form of the path's API; NULL: OpenAI's. */
static http_error_form *form_of(const struct http_connection *c) {
    const char *path = c->head.path;
    for (uint32_t i = 0; i < c->http->n_forms && path != NULL; i++) {
        const char *prefix = c->http->forms[i].prefix;
        const size_t n = strlen(prefix);
        if (strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/'))
            return c->http->forms[i].form;
    }
    return NULL;
}

/* JSON of an error into text; its length. */
static size_t write_error(const struct http_connection *c, char text[ERROR_TEXT], int status,
                          const char *type, const char *param, const char *message) {
    http_error_form *form = form_of(c);
    struct json j;
    json_to_buffer(&j, text, ERROR_TEXT, false);
    if (form != NULL)
        form(&j, status, message);
    else
        put_error(&j, status, type, param, message);
    CHECK(json_end(&j));
    return j.length;
}

void http_reply_error(struct http_exchange *x, int status, const char *type, const char *param,
                      const char *fmt, ...) {
    char message[600]; /* as JSON up to six times as long, in which case it is cut */
    char cut_param[64];
    char text[ERROR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    /* Every byte may become six ("\u0001"). */
    size_t room = ERROR_TEXT - 512;
    for (size_t i = 0; message[i] != '\0'; i++) {
        const unsigned char b = (unsigned char)message[i];
        const size_t needs = b < 0x20 || b >= 0x7F || b == '"' || b == '\\' ? 6 : 1;
        if (needs > room) {
            message[i] = '\0';
            break;
        }
        room -= needs;
    }
    if (param != NULL)
        snprintf(cut_param, sizeof cut_param, "%s", param);
    const size_t n =
        write_error(x->connection, text, status, type, param != NULL ? cut_param : NULL, message);
    http_reply(x, status, "application/json", text, n);
}

void http_answer_refuse(struct http_connection *c, int status, bool closes, const char *fmt, ...) {
    char message[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    c->state = HTTP_IN_ANSWER;
    c->closes = c->closes || closes;
    http_reply_error(&c->x, status, NULL, NULL, "%s", message);
}

void http_answer_preflight(struct http_connection *c) {
    char head[HTTP_HEAD_LINES];
    c->state = HTTP_IN_ANSWER;
    count(c, 204);
    size_t at = write_head(c, 204, NULL, 0, head);
    /* The origin may ask: so it may send what headers it likes. */
    const char *asked = http_parse_field(&c->head, "Access-Control-Request-Headers");
    const bool echo = asked != NULL && asked[0] != '\0' && strlen(asked) <= PREFLIGHT_HEADERS;
    append(head, &at,
           "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
           "Access-Control-Allow-Headers: %s\r\nAccess-Control-Max-Age: 600\r\n",
           echo ? asked : "Authorization, Content-Type, X-Api-Key");
    end_head(head, &at);
    answer(c, head, at, NULL, 0);
}

/* --- streams */

bool http_stream_begin(struct http_exchange *x, const char *content_type) {
    struct http_connection *c = x->connection;
    char head[HTTP_HEAD_LINES];
    CHECK(may_answer(x) && c->out == NULL);
    c->out = edge_pool_alloc(HTTP_STREAM);
    if (c->out == NULL) {
        c->http->figures.out_of_memory++;
        http_reply_error(x, 503, NULL, NULL, "the server has no memory for one more stream; try again");
        return false;
    }
    c->out_capacity = HTTP_STREAM;
    x->streams = true;
    x->chunked = !c->head.http10;
    c->closes = c->closes || c->head.http10;
    count(c, 200);
    size_t at = write_head(c, 200, content_type, 0, head);
    end_head(head, &at);
    CHECK(put(c, head, at, false));
    if (c->broken || pending(c) > 0)
        wake(c);
    return true;
}

size_t http_stream_pending(const struct http_exchange *x) {
    return pending(x->connection);
}

/* Bytes around those of a write: its size and two line ends. */
#define CHUNK_FRAME 20

size_t http_stream_room(const struct http_exchange *x) {
    const size_t used = pending(x->connection) + CHUNK_FRAME;
    return used < HTTP_STREAM ? HTTP_STREAM - used : 0;
}

bool http_stream_write(struct http_exchange *x, const void *bytes, size_t n) {
    struct http_connection *c = x->connection;
    char frame[CHUNK_FRAME];
    CHECK(x->streams && c->state == HTTP_IN_ANSWER);
    if (n == 0 || c->broken || x->head_only)
        return true;
    if (n > http_stream_room(x))
        return false;
    /* One send for a piece: an event is one packet. */
    const bool was_empty = pending(c) == 0;
    const int length = x->chunked ? snprintf(frame, sizeof frame, "%zx\r\n", n) : 0;
    if (c->out_have + n + CHUNK_FRAME > c->out_capacity) {
        memmove(c->out, c->out + c->out_at, pending(c));
        c->out_have -= c->out_at;
        c->out_at = 0;
    }
    memcpy(c->out + c->out_have, frame, (size_t)length);
    memcpy(c->out + c->out_have + length, bytes, n);
    c->out_have += (size_t)length + n;
    if (x->chunked) {
        memcpy(c->out + c->out_have, "\r\n", 2);
        c->out_have += 2;
    }
    if (was_empty) {
        c->out_since_ns = clock_ns();
        http_answer_send(c);
    }
    if (c->broken || pending(c) > 0)
        wake(c);
    return true;
}

static void end_stream(struct http_exchange *x, bool whole) {
    struct http_connection *c = x->connection;
    CHECK(x->streams && c->state == HTTP_IN_ANSWER);
    if (whole && x->chunked && !c->broken && !x->head_only)
        CHECK(put(c, "0\r\n\r\n", 5, false)); /* CHUNK_FRAME keeps room for it */
    c->closes = c->closes || !whole;
    c->state = HTTP_IN_FLUSH;
    c->since_ns = clock_ns();
    if (pending(c) == 0)
        drop_output(c);
    wake(c);
}

void http_stream_end(struct http_exchange *x) {
    end_stream(x, true);
}

void http_stream_cut(struct http_exchange *x) {
    end_stream(x, false);
}

/* --- the rest of an exchange */

void http_watch(struct http_exchange *x, const struct http_watcher *watcher, void *context) {
    x->watcher = watcher;
    x->watcher_context = context;
}

struct http_account *http_account(struct http_exchange *x) {
    return &x->account;
}

void http_answer_over(struct http_exchange *x, bool gone) {
    struct http_connection *c = x->connection;
    if (x->logged || x->began_ns == 0)
        return;
    x->logged = true;
    c->http->figures.gone += gone;
    if (c->http->log == NULL || (x->quiet && x->status == 200 && !gone))
        return;
    const struct http_log_line line = {.peer = c->peer,
                                       .method = c->head.method != NULL ? c->head.method : "-",
                                       .path = c->head.path != NULL ? c->head.path : "-",
                                       .status = x->status,
                                       .gone = gone,
                                       .bytes = x->sent,
                                       .duration_ns = clock_ns() - x->began_ns,
                                       .account = &x->account};
    c->http->log(c->http->log_context, &line);
}
