/* A connection, from its socket to the functions of routes. */
#include "server/http/http_inside.h"

#include "base/arith.h"
#include "base/check.h"
#include "base/clock.h"
#include "server/http/edge_pool.h"
#include "server/http/http_guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND ((uint64_t)1000000000)
/* How long a client may take. The head of a request, and the first byte of the first one: */
#define HEAD_NS (10 * SECOND)
/* between requests: */
#define IDLE_NS        (75 * SECOND)
#define IDLE_AT_END_NS SECOND /* who has just connected may still send its request */
/* a body, and an answer that is complete: this and a second per so many bytes: */
#define TRANSFER_NS   (20 * SECOND)
#define TRANSFER_RATE 8192
/* without taking a byte of an answer that waits: */
#define STALL_NS  (30 * SECOND)
#define LINGER_NS (2 * SECOND)
/* Bytes of a body that may have all of the pool; longer ones leave some of it (http_measure_pool). */
#define SMALL_BODY 65536

enum moved { STAYS, MOVES, ENDS };

static void reset_exchange(struct http_connection *c) {
    edge_pool_free(c->body);
    edge_pool_free(c->out);
    c->body = c->out = NULL;
    c->body_have = c->body_capacity = c->out_at = c->out_have = c->out_capacity = 0;
    c->chunks = (struct http_chunks){0};
    c->head = (struct http_head){.keep_alive = true};
    c->x = (struct http_exchange){.connection = c};
    c->cross_origin = NULL;
    c->run = NULL;
    c->seen = c->at = 0;
}

static void enter(struct http_connection *c, enum http_state state) {
    c->state = state;
    c->since_ns = clock_ns();
}

static void on_io(evutil_socket_t fd, short what, void *context) {
    struct http_connection *c = context;
    (void)fd;
    if ((what & EV_CLOSED) != 0)
        c->at_end = true;
    http_connection_go(c);
}

static void name_peer(struct http_connection *c) {
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char text[INET6_ADDRSTRLEN] = "?";
    if (getpeername(c->fd, (struct sockaddr *)&a, &n) == 0) {
        const void *address = a.ss_family == AF_INET ? (const void *)&((struct sockaddr_in *)&a)->sin_addr
                                                     : (const void *)&((struct sockaddr_in6 *)&a)->sin6_addr;
        inet_ntop(a.ss_family, address, text, sizeof text);
    }
    snprintf(c->peer, sizeof c->peer, "%s", text);
}

/* Waits for these events; false: libevent has no memory. */
static bool wait_for(struct http_connection *c, short events) {
    if (c->io_events == events)
        return true;
    if (c->io_events != 0)
        event_del(&c->io);
    c->io_events = 0;
    if (events == 0)
        return true; /* until something is to be written */
    if (event_assign(&c->io, c->http->base, c->fd, (short)(events | EV_PERSIST), on_io, c) != 0 ||
        event_add(&c->io, NULL) != 0)
        return false;
    c->io_events = events;
    return true;
}

void http_connection_begin(struct http_connection *c, int fd) {
    const int on = 1;
    CHECK(c->state == HTTP_FREE);
    c->fd = fd;
    c->io_events = 0;
    c->inside = c->broken = c->at_end = c->half = c->closes = c->abort = false;
    c->have = 0;
    reset_exchange(c);
    enter(c, HTTP_IN_HEAD);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    name_peer(c);
    struct http_figures *f = &c->http->figures;
    f->connections++;
    f->connections_peak = ARITH_MAX(f->connections_peak, f->connections);
    CHECK(event_assign(&c->io, c->http->base, fd, EV_READ | EV_PERSIST, on_io, c) == 0);
    if (!wait_for(c, EV_READ))
        http_connection_close(c);
}

void http_connection_close(struct http_connection *c) {
    if (c->state == HTTP_FREE)
        return;
    http_answer_over(&c->x, c->state != HTTP_IN_LINGER && c->state != HTTP_IN_HEAD);
    event_del(&c->io);
    c->io_events = 0;
    close(c->fd);
    reset_exchange(c);
    c->state = HTTP_FREE;
    c->http->figures.connections--;
}

/* The client has left, or is made to: who answers is told. */
static void lose(struct http_connection *c) {
    const struct http_watcher *w = c->x.watcher;
    if (c->state == HTTP_IN_ANSWER && w != NULL && w->gone != NULL) {
        c->inside = true; /* nothing of this exchange may be called any more */
        w->gone(c->x.watcher_context, &c->x);
        c->inside = false;
    }
    http_connection_close(c);
}

/* Into to[0..n): the bytes that came; 0 where none are there now. */
static size_t receive(struct http_connection *c, char *to, size_t n) {
    while (n > 0 && !c->at_end && !c->broken) {
        const ssize_t got = recv(c->fd, to, n, 0);
        if (got > 0) {
            c->http->figures.bytes_in += (uint64_t)got;
            return (size_t)got;
        }
        if (got == 0)
            c->at_end = true;
        else if (errno != EINTR) {
            c->broken = errno != EAGAIN && errno != EWOULDBLOCK;
            return 0;
        }
    }
    return 0;
}

/* --- the head */

/* The route is for this path: for just this one, or for what is below it. */
static bool is_for(const struct http_route *r, const char *path) {
    const size_t n = strlen(r->path);
    const bool below = n > 1 && r->path[n - 1] == '/';
    return below ? strncmp(r->path, path, n) == 0 && path[n] != '\0' : strcmp(r->path, path) == 0;
}

static const struct http_route *find_route(struct http_connection *c, bool *path_known) {
    const struct http *h = c->http;
    const char *method = c->x.head_only ? "GET" : c->head.method;
    for (uint32_t t = 0; t < h->n_tables; t++)
        for (size_t i = 0; i < h->tables[t].n; i++) {
            const struct http_route *r = &h->tables[t].routes[i];
            if (!is_for(r, c->head.path))
                continue;
            *path_known = true;
            if (strcmp(r->method, method) != 0)
                continue;
            c->run = r->run;
            c->x.quiet = (r->flags & HTTP_QUIET) != 0;
            c->run_table = &h->tables[t];
            return r;
        }
    return NULL;
}

static bool has_body(const struct http_connection *c) {
    return c->head.chunked || c->head.length > 0;
}

/* One of the headers that clients send a key in has a right one. Else the client is told. */
static bool has_key(struct http_connection *c, bool closes) {
    const struct server_settings *s = c->http->settings;
    const char *bearer = http_parse_field(&c->head, "Authorization");
    const char *x_api_key = http_parse_field(&c->head, "X-Api-Key");
    const char *api_key = http_parse_field(&c->head, "api-key");
    if (http_guard_key(s, bearer) || http_guard_plain_key(s, x_api_key) || http_guard_plain_key(s, api_key))
        return true;
    if (bearer == NULL && x_api_key == NULL && api_key == NULL)
        http_answer_refuse(c, 401, closes,
                           "a key is needed: \"Authorization: Bearer KEY\" or \"X-Api-Key: KEY\"");
    else
        http_answer_refuse(c, 401, closes,
                           "the key is wrong: it is none of this server's (server.api_key_file)");
    return false;
}

/* True: the request may have its body. Else it is answered. */
static bool admit(struct http_connection *c) {
    const struct server_settings *s = c->http->settings;
    const char *host = http_parse_field(&c->head, "Host");
    const char *origin = http_parse_field(&c->head, "Origin");
    const bool closes = has_body(c); /* a body that nobody reads would be the next request */
    bool cross = false, path_known = false;
    if (host != NULL && !http_guard_host(s, host)) {
        http_answer_refuse(c, 403, closes,
                           "the server does not answer to the name \"%.100s\" (server.hosts in its config)",
                           host);
        return false;
    }
    if (origin != NULL && !http_guard_origin(s, origin, host, &cross)) {
        http_answer_refuse(c, 403, closes,
                           "pages of \"%.100s\" may not use this server (server.cors in its config)", origin);
        return false;
    }
    if (cross)
        c->cross_origin = origin;
    if (cross && strcmp(c->head.method, "OPTIONS") == 0 &&
        http_parse_field(&c->head, "Access-Control-Request-Method") != NULL) {
        c->closes = c->closes || closes;
        http_answer_preflight(c);
        return false;
    }
    const struct http_route *r = find_route(c, &path_known);
    if (r == NULL) {
        http_answer_refuse(c, path_known ? 405 : 404, closes, "%s %.200s is not among what this server does",
                           c->head.method, c->head.path);
        return false;
    }
    if ((r->flags & HTTP_OPEN) == 0 && !has_key(c, closes))
        return false;
    if (c->http->closing && has_body(c)) {
        http_answer_refuse(c, 503, true, "the server is shutting down (GET /health says why)");
        return false;
    }
    if (c->head.length > s->max_body) {
        http_answer_refuse(c, 413, true, "the body has %llu bytes, at most %llu are read (server.max_body)",
                           (unsigned long long)c->head.length, (unsigned long long)s->max_body);
        return false;
    }
    struct edge_pool_figures pool;
    edge_pool_get_figures(&pool);
    if (c->head.length >= pool.bytes) {
        http_answer_refuse(c, 413, true,
                           "the body has %llu bytes, but all of the server's memory has %zu (server.memory)",
                           (unsigned long long)c->head.length, pool.bytes);
        return false;
    }
    return true;
}

static bool no_memory(struct http_connection *c) {
    c->http->figures.out_of_memory++;
    http_answer_refuse(c, 503, true, "the server has no memory for this request now; try again");
    return false;
}

/* Room for n bytes and a NUL; false: answered. */
static bool grow_body(struct http_connection *c, size_t n) {
    if (n < c->body_capacity)
        return true;
    const size_t capacity =
        ARITH_MIN(ARITH_MAX(2 * c->body_capacity, n + 1), c->http->settings->max_body + 1);
    struct edge_pool_figures pool;
    edge_pool_get_figures(&pool);
    if (capacity > SMALL_BODY && pool.bytes - pool.used < c->http->spare + (capacity - c->body_capacity))
        return no_memory(c);
    char *more = edge_pool_resize(c->body, capacity);
    if (more == NULL)
        return no_memory(c);
    c->body = more;
    c->body_capacity = capacity;
    return true;
}

static void begin_body(struct http_connection *c) {
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!has_body(c))
        return;
    /* Memory is taken as the body arrives, not as it is announced. */
    if (!grow_body(c, c->head.chunked ? HTTP_ROOM : ARITH_MIN(c->head.length, (uint64_t)HTTP_ROOM)))
        return;
    if (c->head.expects && c->at == c->have)
        (void)send(c->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL); /* it fits an empty socket's buffer */
    enter(c, HTTP_IN_BODY);
}

static enum moved read_head(struct http_connection *c) {
    struct http_refusal r = {0, NULL};
    const bool idle = c->have == 0;
    bool complete = c->have > 0 && http_parse_head(c->buffer, c->have, HTTP_HEAD, &c->seen, &c->head, &r);
    if (!complete && r.status == 0) {
        const size_t got = c->have < HTTP_HEAD ? receive(c, c->buffer + c->have, HTTP_HEAD - c->have) : 0;
        if (got == 0)
            return c->at_end || c->broken ? ENDS : STAYS;
        if (idle)
            enter(c, HTTP_IN_HEAD); /* the time for a head begins with its first byte */
        c->have += got;
        return MOVES;
    }
    c->x.began_ns = clock_ns();
    c->http->figures.requests++;
    if (r.status != 0) {
        c->head.keep_alive = false;
        http_answer_refuse(c, r.status, true, "%s", r.why);
        return MOVES;
    }
    c->at = c->head.bytes;
    c->x.head_only = strcmp(c->head.method, "HEAD") == 0;
    if (!admit(c))
        return MOVES;
    c->state = HTTP_IN_ANSWER;
    begin_body(c);
    return MOVES;
}

/* --- the body */

static bool add_to_body(struct http_connection *c, const char *bytes, size_t n) {
    if (n > c->http->settings->max_body - c->body_have) {
        http_answer_refuse(c, 413, true, "the body is longer than %llu bytes (server.max_body)",
                           (unsigned long long)c->http->settings->max_body);
        return false;
    }
    if (!grow_body(c, c->body_have + n))
        return false;
    memcpy(c->body + c->body_have, bytes, n);
    c->body_have += n;
    return true;
}

/* Takes what of the buffer is the body's. */
static enum moved take_chunks(struct http_connection *c) {
    while (c->at < c->have) {
        size_t used = 0, data = 0;
        const enum http_chunk got =
            http_parse_chunk(&c->chunks, c->buffer + c->at, c->have - c->at, &used, &data);
        c->at += used;
        if (got == HTTP_CHUNK_BAD) {
            http_answer_refuse(c, 400, true, "the chunks of the body are malformed");
            return MOVES;
        }
        if (data > 0 && !add_to_body(c, c->buffer + c->at, data))
            return MOVES;
        c->at += data;
        if (got == HTTP_CHUNK_END) {
            c->state = HTTP_IN_ANSWER;
            return MOVES;
        }
    }
    c->at = c->have = c->head.bytes; /* all is taken: room for more */
    c->have += receive(c, c->buffer + c->have, sizeof c->buffer - 1 - c->have);
    if (c->have > c->at)
        return MOVES;
    return c->at_end || c->broken ? ENDS : STAYS;
}

static enum moved read_body(struct http_connection *c) {
    if (c->head.chunked)
        return take_chunks(c);
    size_t n = ARITH_MIN(c->have - c->at, c->head.length - c->body_have);
    if (!grow_body(c, ARITH_MIN(c->head.length, c->body_have + ARITH_MAX(n, (size_t)1))))
        return MOVES;
    memcpy(c->body + c->body_have, c->buffer + c->at, n);
    c->at += n;
    c->body_have += n;
    if (c->body_have < c->head.length) {
        n = receive(c, c->body + c->body_have,
                    ARITH_MIN(c->head.length, c->body_capacity - 1) - c->body_have);
        c->body_have += n;
        if (n == 0)
            return c->at_end || c->broken ? ENDS : STAYS;
    }
    if (c->body_have == c->head.length)
        c->state = HTTP_IN_ANSWER;
    return MOVES;
}

/* --- the answer */

/* The client has ended its side. One that has left answers whatever it is sent with a reset, which the next
 * tick sees; one that only sends no more waits for its answer, and has to pass over an interim response. */
static void probe(struct http_connection *c) {
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    c->half = true;
    if (c->x.status == 0 && !c->head.http10 && send(c->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL) < 0 &&
        errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        c->broken = true;
}

/* After probe(): the reset has come. */
static bool has_left(const struct http_connection *c) {
    int why = 0;
    socklen_t n = sizeof why;
    return c->half && (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &why, &n) != 0 || why != 0);
}

static enum moved answer(struct http_connection *c) {
    if (c->run != NULL) {
        http_function *run = c->run;
        c->run = NULL;
        if (c->body != NULL)
            c->body[c->body_have] = '\0';
        c->since_ns = clock_ns();
        const struct http *h = c->http;
        const bool several = c->run_table->n_contexts > 1;
        const uint32_t which = several ? h->choose(h->choose_context, &c->x) : 0;
        CHECK(which == HTTP_ANSWERED || which < c->run_table->n_contexts);
        if (which != HTTP_ANSWERED)
            run(c->run_table->contexts[which], &c->x);
        return MOVES;
    }
    const struct http_watcher *w = c->x.watcher;
    const bool waited = c->out_have > c->out_at;
    http_answer_send(c);
    if (waited && c->out_have == c->out_at && !c->broken && w != NULL && w->drained != NULL) {
        w->drained(c->x.watcher_context, &c->x);
        return MOVES;
    }
    /* What the client sends meanwhile is its next request; and its end is seen here. */
    const size_t room = HTTP_HEAD + HTTP_ROOM - c->have;
    c->have += receive(c, c->buffer + c->have, room);
    if (c->at_end && !c->half)
        probe(c);
    return c->broken ? ENDS : STAYS;
}

static enum moved flush(struct http_connection *c) {
    if (c->abort)
        return ENDS;
    http_answer_send(c);
    if (c->broken)
        return ENDS;
    if (c->out_have > c->out_at)
        return STAYS;
    http_answer_over(&c->x, false);
    if (c->closes || c->http->closing || (c->at_end && c->have == c->at)) {
        shutdown(c->fd, SHUT_WR);
        enter(c, HTTP_IN_LINGER);
        return MOVES;
    }
    const size_t rest = c->have - c->at;
    memmove(c->buffer, c->buffer + c->at, rest);
    c->have = rest;
    reset_exchange(c);
    enter(c, HTTP_IN_HEAD);
    return MOVES;
}

static enum moved linger(struct http_connection *c) {
    char dropped[4096];
    for (int i = 0; i < 16; i++)
        if (receive(c, dropped, sizeof dropped) == 0)
            return c->at_end || c->broken ? ENDS : STAYS;
    return STAYS;
}

static short events_of(const struct http_connection *c) {
    const bool waits = c->out_have > c->out_at;
    switch (c->state) {
    case HTTP_IN_ANSWER: {
        const bool room = HTTP_HEAD + HTTP_ROOM > c->have;
        if (c->half)
            return (short)(waits ? EV_WRITE : 0);
        return (short)((room ? EV_READ : EV_CLOSED) | (waits ? EV_WRITE : 0));
    }
    case HTTP_IN_FLUSH:
        return EV_WRITE;
    default:
        return EV_READ;
    }
}

void http_connection_go(struct http_connection *c) {
    enum moved moved = MOVES;
    CHECK(!c->inside && c->state != HTTP_FREE);
    c->inside = true;
    while (moved == MOVES) {
        switch (c->state) {
        case HTTP_IN_HEAD:
            moved = read_head(c);
            break;
        case HTTP_IN_BODY:
            moved = read_body(c);
            break;
        case HTTP_IN_ANSWER:
            moved = answer(c);
            break;
        case HTTP_IN_FLUSH:
            moved = flush(c);
            break;
        case HTTP_IN_LINGER:
            moved = linger(c);
            break;
        case HTTP_FREE:
            CHECK(c->state != HTTP_FREE);
        }
    }
    c->inside = false;
    if (moved == ENDS || !wait_for(c, events_of(c)))
        lose(c);
}

/* --- time */

static void cut(struct http_connection *c) {
    c->http->figures.cut++;
    lose(c);
}

/* A request that does not come: it is told, if it has begun. */
static void time_out(struct http_connection *c) {
    c->http->figures.cut++;
    if (c->state == HTTP_IN_HEAD) {
        c->head = (struct http_head){0};
        c->x.began_ns = c->since_ns;
    }
    c->inside = true;
    http_answer_refuse(c, 408, true, "the request did not come in time");
    c->inside = false;
    http_connection_go(c);
}

void http_connection_tick(struct http_connection *c, uint64_t now_ns) {
    const uint64_t limit = c->http->settings->request_timeout_ns;
    const uint64_t spent = now_ns > c->since_ns ? now_ns - c->since_ns : 0;
    const bool waits = c->out_have > c->out_at;
    switch (c->state) {
    case HTTP_FREE:
        return;
    case HTTP_IN_HEAD:
        if (c->have > 0 && spent > ARITH_MIN(HEAD_NS, limit))
            time_out(c);
        else if (c->have == 0 && spent > (c->http->closing ? IDLE_AT_END_NS : IDLE_NS))
            http_connection_close(c);
        return;
    case HTTP_IN_BODY:
        if (spent > ARITH_MIN(TRANSFER_NS + c->body_have / TRANSFER_RATE * SECOND, limit))
            time_out(c);
        return;
    case HTTP_IN_ANSWER:
        if (has_left(c))
            lose(c);
        else if (waits && now_ns > c->out_since_ns && now_ns - c->out_since_ns > ARITH_MIN(STALL_NS, limit))
            cut(c);
        return;
    case HTTP_IN_FLUSH:
        if (spent > ARITH_MIN(TRANSFER_NS + c->out_have / TRANSFER_RATE * SECOND, limit))
            cut(c);
        return;
    case HTTP_IN_LINGER:
        if (spent > LINGER_NS)
            http_connection_close(c);
        return;
    }
}
