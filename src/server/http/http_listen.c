/* The listener, the table of routes, and what is asked of requests. */
#include "server/http/http_inside.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/http/edge_pool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128
#define AT_ONCE 64 /* connections taken before others have their turn */

/* --- connections */

/* A free connection; where there is none, that of the client that has been idle longest. */
static struct http_connection *find_free(struct http *h) {
    struct http_connection *idle = NULL;
    for (uint32_t i = 0; i < h->n_connections; i++) {
        struct http_connection *c = &h->connections[i];
        if (c->state == HTTP_FREE)
            return c;
        if (c->state == HTTP_IN_HEAD && c->have == 0 && (idle == NULL || c->since_ns < idle->since_ns))
            idle = c;
    }
    if (idle != NULL)
        http_connection_close(idle);
    return idle;
}

#define FULL                                                                                                 \
    "{\"error\":{\"message\":\"all connections of the server are in use; try "                               \
    "again\",\"type\":\"server_error\","                                                                     \
    "\"param\":null,\"code\":503}}"

static void turn_away(int fd) {
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                                 "Content-Length: 121\r\nConnection: close\r\nRetry-After: 1\r\n\r\n" FULL;
    _Static_assert(sizeof FULL - 1 == 121, "Content-Length");
    char dropped[4096];
    (void)!recv(fd, dropped, sizeof dropped, MSG_DONTWAIT); /* so that the end is no reset */
    (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    close(fd);
}

static void on_listener(evutil_socket_t fd, short what, void *context) {
    struct http *h = context;
    (void)what;
    for (int i = 0; i < AT_ONCE; i++) {
        const int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) {
            const bool none_left = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
            if (none_left && event_del(&h->listener) == 0)
                h->listener_rests = true;
            if (none_left || errno == EAGAIN || errno == EWOULDBLOCK)
                return;
            continue; /* a client that has left again */
        }
        struct http_connection *c = find_free(h);
        if (c == NULL) {
            h->figures.refused++;
            turn_away(client);
            continue;
        }
        h->figures.accepted++;
        http_connection_begin(c, client);
    }
}

static stator_status no_socket(const struct server_settings *s, const char *what, stator_error *e) {
    const int why = errno;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&s->address; /* the port is there in both */
    const unsigned port = ntohs(v4->sin_port);
    const char *hint = why == EADDRINUSE ? ": another program has it; choose another server.port"
                       : why == EACCES ? ": ports below 1024 are the superuser's; choose another server.port"
                       : why == EADDRNOTAVAIL ? ": this machine does not have that address"
                                              : "";
    return error_set(e, STATOR_FAILED, "can't listen on %s port %u: %s: %s%s", s->address_text, port, what,
                     strerror(why), hint);
}

static stator_status listen_on(struct http *h, stator_error *e) {
    const struct server_settings *s = h->settings;
    const int on = 1, off = 0;
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    h->fd = socket(s->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (h->fd < 0)
        return no_socket(s, "socket", e);
    (void)setsockopt(h->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (s->address.ss_family == AF_INET6)
        (void)setsockopt(h->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(h->fd, (const struct sockaddr *)&s->address, s->address_length) != 0)
        return no_socket(s, "bind", e);
    if (listen(h->fd, BACKLOG) != 0)
        return no_socket(s, "listen", e);
    if (getsockname(h->fd, (struct sockaddr *)&a, &n) != 0)
        return no_socket(s, "getsockname", e);
    h->port = ntohs(((struct sockaddr_in *)&a)->sin_port);
    return STATOR_OK;
}

stator_status http_open(struct event_base *base, const struct server_settings *settings, struct http **out,
                        stator_error *e) {
    struct http *h = edge_pool_zeroed(1, sizeof *h);
    *out = NULL;
    if (h == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "server.memory is too small for the server: raise it");
    h->base = base;
    h->settings = settings;
    h->fd = -1;
    h->n_connections = settings->max_connections;
    h->figures.connections_most = h->n_connections;
    h->connections = edge_pool_zeroed(h->n_connections, sizeof *h->connections);
    if (h->connections == NULL) {
        edge_pool_free(h);
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "server.memory is too small for %u connections of %zu bytes: raise it, or lower "
                         "server.max_connections",
                         settings->max_connections, sizeof *h->connections);
    }
    for (uint32_t i = 0; i < h->n_connections; i++)
        h->connections[i].http = h;
    stator_status st = listen_on(h, e);
    if (st == STATOR_OK &&
        (event_assign(&h->listener, base, h->fd, EV_READ | EV_PERSIST, on_listener, h) != 0 ||
         event_add(&h->listener, NULL) != 0))
        st = error_set(e, STATOR_FAILED, "libevent does not take the socket");
    if (st == STATOR_OK)
        *out = h;
    else {
        if (h->fd >= 0)
            close(h->fd);
        edge_pool_free(h->connections);
        edge_pool_free(h);
    }
    return st;
}

void http_measure_pool(struct http *h) {
    h->spare = edge_pool_largest() / 4;
}

uint16_t http_port(const struct http *h) {
    return h->port;
}

void http_add_routes(struct http *h, const struct http_route *routes, size_t n, void *context) {
    uint32_t i = 0;
    while (i < h->n_tables && h->tables[i].routes != routes)
        i++;
    CHECK(i < HTTP_TABLES);
    struct http_table *t = &h->tables[i];
    h->n_tables = i == h->n_tables ? i + 1 : h->n_tables;
    t->routes = routes;
    t->n = n;
    CHECK(t->n_contexts < HTTP_CONTEXTS);
    t->contexts[t->n_contexts++] = context;
}

void http_set_choice(struct http *h, uint32_t (*choose)(void *context, struct http_exchange *x),
                     void *context) {
    h->choose = choose;
    h->choose_context = context;
}

void http_set_log(struct http *h, void (*log)(void *context, const struct http_log_line *line),
                  void *context) {
    h->log = log;
    h->log_context = context;
}

void http_tick(struct http *h) {
    const uint64_t now = clock_ns();
    if (h->listener_rests && h->fd >= 0 && event_add(&h->listener, NULL) == 0)
        h->listener_rests = false;
    for (uint32_t i = 0; i < h->n_connections; i++)
        http_connection_tick(&h->connections[i], now);
}

void http_close_soon(struct http *h) {
    h->closing = true;
}

uint32_t http_exchanges(const struct http *h) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n_connections; i++) {
        const enum http_state s = h->connections[i].state;
        n += s == HTTP_IN_BODY || s == HTTP_IN_ANSWER || s == HTTP_IN_FLUSH;
    }
    return n;
}

void http_get_figures(const struct http *h, struct http_figures *out) {
    *out = h->figures;
}

void http_close(struct http *h) {
    if (h == NULL)
        return;
    event_del(&h->listener);
    close(h->fd);
    for (uint32_t i = 0; i < h->n_connections; i++)
        http_connection_close(&h->connections[i]);
    edge_pool_free(h->connections);
    edge_pool_free(h);
}

/* --- the request */

const char *http_path(const struct http_exchange *x) {
    return x->connection->head.path;
}

const char *http_query(const struct http_exchange *x) {
    return x->connection->head.query;
}

const char *http_header(const struct http_exchange *x, const char *name) {
    return http_parse_field(&x->connection->head, name);
}

const char *http_body(const struct http_exchange *x, size_t *n) {
    const struct http_connection *c = x->connection;
    *n = c->body != NULL ? c->body_have : 0;
    return c->body != NULL ? c->body : "";
}

void http_drop_body(struct http_exchange *x) {
    struct http_connection *c = x->connection;
    edge_pool_free(c->body);
    c->body = NULL;
    c->body_have = c->body_capacity = 0;
}
