/* HTTP/1.1 on one thread: a listener, a fixed number of connections, and the exchanges that they carry: one
 * request of a client and its answer. Requests are parsed strictly (http_parse.h), checked (http_guard.h) and
 * handed to the function of their route.
 *
 * Memory: everything comes from the edge pool (edge_pool.h): the connections once, at http_open; bodies and
 * answers while they live. Where the pool is exhausted the client gets 503 with Retry-After.
 * Thread: all calls on the thread of the event loop.
 *
 * An exchange's life. It begins with the call of its route's function, which answers now or keeps `x` and
 * answers later. It ends, and `x` must not be used any more, with
 *   http_reply, http_reply_error, http_stream_end or _cut, which the function or a later event calls;
 * or watcher->gone: the client has disappeared, or was cut off because it does not read. Nothing else is
 * called for this exchange then. It is never called from inside a call of this header. */
#ifndef STATOR_SERVER_HTTP_H
#define STATOR_SERVER_HTTP_H

#include "stator.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD        16384 /* bytes of a request's first line and headers */
#define HTTP_STREAM      65536 /* bytes of a streamed answer that may wait for their reader */
#define HTTP_RETRY_AFTER 1     /* seconds: of a 503 or 429 */

struct http;
struct http_exchange;
struct server_settings;

typedef void http_function(void *context, struct http_exchange *x);

/* A route's flags. */
#define HTTP_OPEN  1u /* no API key is asked for */
#define HTTP_QUIET 2u /* asked again and again: 200 is not logged */

struct http_route {
    const char *method; /* "GET": HEAD is answered too */
    const char *path;   /* exact, without query; one that ends with '/': all paths below it */
    http_function *run;
    uint32_t flags;
};

/* The table must stay; context goes to its functions. The path is known and the method is not: 405. A table
 * that is added again has one more context, of the next model: which of them a request goes to is what
 * http_set_choice says. */
void http_add_routes(struct http *h, const struct http_route *routes, size_t n, void *context);
#define HTTP_CONTEXTS 8
/* choose: the number of the context for a request whose body is there; HTTP_ANSWERED: there is none, and the
 * client was told so. */
#define HTTP_ANSWERED UINT32_MAX
void http_set_choice(struct http *h, uint32_t (*choose)(void *context, struct http_exchange *x),
                     void *context);

/* The request. Texts are valid as long as the exchange. */
const char *http_path(const struct http_exchange *x);  /* without the query, %XX decoded */
const char *http_query(const struct http_exchange *x); /* as it came, behind the '?'; "": none */
const char *http_header(const struct http_exchange *x, const char *name); /* in any case; NULL: not there */
const char *http_body(const struct http_exchange *x, size_t *n); /* a NUL behind the n bytes; never NULL */
/* Gives the body's memory back before the exchange ends: http_body is "" then. */
void http_drop_body(struct http_exchange *x);

/* The whole answer; bytes are copied. */
void http_reply(struct http_exchange *x, int status, const char *content_type, const void *bytes, size_t n);
/* A text that stays the same while the program runs. Browsers keep it and ask with its tag (at most 64
 * characters) whether it is still the one: 304. headers: lines of the answer's head, each with its end; at
 * most 700 bytes. */
struct http_fixed {
    const char *content_type, *tag, *headers;
    const char *bytes;
    size_t n;
};
void http_reply_fixed(struct http_exchange *x, const struct http_fixed *what);
/* {"error": {"message", "type", "param", "code"}}. type NULL: the one that OpenAI's API has for the status
 * (400 "invalid_request_error", 429 "rate_limit_error", 5xx "server_error", ..); param may be NULL. 429 and
 * 503 get Retry-After. */
__attribute__((format(printf, 5, 6))) void http_reply_error(struct http_exchange *x, int status,
                                                            const char *type, const char *param,
                                                            const char *fmt, ...);

struct json;
/* Writes an error's body, an object. */
typedef void http_error_form(struct json *j, int status, const char *message);
#define HTTP_FORMS 4
/* Errors of `prefix` and of paths below it have this form. At most HTTP_FORMS prefixes, which must stay. */
void http_set_error_form(struct http *h, const char *prefix, http_error_form *form);

/* A streamed answer, status 200 (chunked; for HTTP/1.0 until the connection closes). False: there is no
 * memory for its buffer; the client got 503 and the exchange is over. */
bool http_stream_begin(struct http_exchange *x, const char *content_type);
/* All n bytes or (false) none: less than n bytes of the buffer are free. */
bool http_stream_write(struct http_exchange *x, const void *bytes, size_t n);
size_t http_stream_pending(const struct http_exchange *x); /* bytes that wait for their reader */
size_t http_stream_room(const struct http_exchange *x);    /* bytes that http_stream_write takes now */
void http_stream_end(struct http_exchange *x);
/* Ends the stream without its last chunk and closes the connection behind what is pending: the client sees
 * that the answer is not whole. */
void http_stream_cut(struct http_exchange *x);

/* Callbacks of an exchange that is answered later; each may be NULL. */
struct http_watcher {
    void (*drained)(void *context, struct http_exchange *x); /* pending has fallen to 0; may write or end */
    void (*gone)(void *context, struct http_exchange *x);
};
void http_watch(struct http_exchange *x, const struct http_watcher *watcher, void *context);

/* What the log's line of this exchange says beside method, path, status and time; all 0 and "" at first. */
struct http_account {
    char id[48]; /* "chatcmpl-.." */
    uint32_t n_prompt, n_cached, n_generated;
    uint64_t queue_ns, prompt_ns, generate_ns;
    char model[64];    /* where the server has several */
    char reason[24];   /* "stop", "length", "cancelled", .. */
    char ignored[256]; /* fields of the request that were not known; also the header X-Stator-Ignored */
};
struct http_account *http_account(struct http_exchange *x);

/* What follows is for server.c. */

struct http_figures {
    uint32_t connections, connections_peak, connections_most;
    uint64_t accepted, refused; /* refused: more than connections_most at a time */
    uint64_t requests;
    uint64_t by_class[6];   /* answers 1xx .. 5xx in [1] .. [5] */
    uint64_t gone;          /* clients that disappeared before their answer was complete */
    uint64_t cut;           /* connections that were closed for being too slow */
    uint64_t out_of_memory; /* 503 because the pool was exhausted */
    uint64_t bytes_in, bytes_out;
};

/* A line of the log: an exchange that is over. Texts are valid during the call. */
struct http_log_line {
    const char *peer, *method, *path;
    int status; /* 0: the client was gone before there was one */
    bool gone;  /* before the answer was complete */
    uint64_t bytes, duration_ns;
    const struct http_account *account;
};
void http_set_log(struct http *h, void (*log)(void *context, const struct http_log_line *line),
                  void *context);

struct event_base;
/* Listens on settings->host and port; STATOR_USAGE or STATOR_FAILED: the address can't be had. Its memory is
 * the pool's. */
stator_status http_open(struct event_base *base, const struct server_settings *settings, struct http **out,
                        stator_error *e);
/* When all that stays has been taken from the pool: long bodies leave a quarter of what is free now. */
void http_measure_pool(struct http *h);
uint16_t http_port(const struct http *h); /* that it really listens on */
void http_get_figures(const struct http *h, struct http_figures *out);
void http_tick(struct http *h); /* a few times a second: cuts what is too slow */
/* The server ends soon: every answer closes its connection, and requests with a body get 503 instead of being
 * read, so that those which have begun can end. */
void http_close_soon(struct http *h);
uint32_t http_exchanges(const struct http *h); /* that are not answered completely, or whose bytes wait */
void http_close(struct http *h);               /* closes all, calls nobody; NULL is allowed */

#endif
