/* What the files of HTTP share: the connection and its states. Nobody else includes this.
 *
 * A connection goes HEAD -> (BODY) -> ANSWER -> FLUSH -> HEAD .., and at its end LINGER -> FREE. Only
 * http_connection_go moves it on, from the loop; what the rest of the server calls during ANSWER
 * (http_answer.c) changes state and output, sends what the socket takes, and leaves the rest to the loop. So
 * no function of a route is ever called, and no connection closed, from inside a call of http.h. */
#ifndef STATOR_SERVER_HTTP_INSIDE_H
#define STATOR_SERVER_HTTP_INSIDE_H

#include "server/http/http.h"
#include "server/http/http_parse.h"
#include "server/server_settings.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#define HTTP_TABLES     8    /* of routes */
#define HTTP_ROOM       4096 /* bytes of the head's buffer that are a body's, at least */
#define HTTP_HEAD_LINES 2048 /* bytes of an answer's head */

enum http_state {
    HTTP_FREE,
    HTTP_IN_HEAD, /* waits for, or reads, a request's head */
    HTTP_IN_BODY,
    HTTP_IN_ANSWER, /* the route's function was called; the answer is not complete */
    HTTP_IN_FLUSH,  /* it is; its bytes wait for their reader */
    HTTP_IN_LINGER  /* all is sent; reads and drops what still comes, so that no reset overtakes the answer */
};

struct http_exchange {
    struct http_connection *connection;
    const struct http_watcher *watcher;
    void *watcher_context;
    struct http_account account;
    uint64_t began_ns; /* its head was there */
    uint64_t sent;     /* bytes of its answer given to the socket */
    int status;        /* of the answer; 0: none yet */
    bool streams, chunked, head_only;
    bool logged, quiet;
    const struct http_fixed *fixed; /* during http_reply_fixed */
};

struct http_connection {
    struct http *http;
    int fd;
    enum http_state state;
    struct event io;
    short io_events; /* that are waited for */
    bool inside;     /* http_connection_go is running */
    bool broken;     /* the socket gave an error: the client is gone */
    bool at_end;     /* the client sends no more */
    bool half;       /* ... but may still wait for the answer */
    bool closes;     /* after this answer */
    bool abort;
    uint64_t since_ns; /* the state began, or (output) bytes were taken last */
    char peer[48];
    /* Input: buffer[0..have), of which the head is head.bytes, and at is the next byte of the body. */
    size_t have, at, seen;
    struct http_head head;
    const char *cross_origin; /* that the answer must allow */
    http_function *run;
    const struct http_table *run_table;
    char *body; /* the pool's; body_have bytes and a NUL */
    size_t body_have, body_capacity;
    struct http_chunks chunks;
    /* Output: out[out_at..out_have) waits for the reader; the pool's. */
    char *out;
    size_t out_at, out_have, out_capacity;
    uint64_t out_since_ns; /* bytes wait since then, or were taken last */
    struct http_exchange x;
    char buffer[HTTP_HEAD + HTTP_ROOM + 1];
};

struct http_table {
    const struct http_route *routes;
    size_t n;
    void *contexts[HTTP_CONTEXTS];
    uint32_t n_contexts;
};

struct http {
    struct event_base *base;
    const struct server_settings *settings;
    int fd; /* -1: no longer listening */
    uint16_t port;
    struct event listener;
    bool listener_rests; /* no descriptors were left: until the next tick */
    bool closing;
    struct http_table tables[HTTP_TABLES];
    uint32_t n_tables;
    uint32_t (*choose)(void *context, struct http_exchange *x); /* of a table's contexts */
    void *choose_context;
    struct {
        const char *prefix;
        http_error_form *form;
    } forms[HTTP_FORMS]; /* of errors that have not OpenAI's form */
    uint32_t n_forms;
    struct http_figures figures;
    size_t spare; /* bytes of the pool that long bodies leave to small requests */
    void (*log)(void *context, const struct http_log_line *line);
    void *log_context;
    uint32_t n_connections;
    struct http_connection *connections; /* [n_connections] */
};

/* http_connection.c */
void http_connection_begin(struct http_connection *c, int fd); /* a free one takes a client's socket */
void http_connection_go(struct http_connection *c);            /* as far as it goes without waiting */
void http_connection_tick(struct http_connection *c, uint64_t now_ns);
void http_connection_close(struct http_connection *c); /* calls nobody but the log */

/* http_answer.c */
/* Sends what waits, as far as the socket takes it; broken is set when it is gone. */
void http_answer_send(struct http_connection *c);
/* The answer of a request that no function got. The connection closes behind it if `closes`. */
void http_answer_refuse(struct http_connection *c, int status, bool closes, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void http_answer_preflight(struct http_connection *c);
/* The exchange is over: counted and logged. */
void http_answer_over(struct http_exchange *x, bool gone);

#endif
