/* A client of HTTP for pictures, from hosts that server.image_hosts lists and from no others.
 *
 * The hosts' addresses are looked up once, at the start, so that a name cannot come to mean another machine
 * later. An address of this machine or of a private network is taken only where the list has the address
 * itself, or "localhost". No TLS, no redirects, no encodings; a connection is for one file, and all of it has
 * a deadline. RFC 9112.
 *
 * Memory: the caller's; nothing is allocated but at the start. Thread: any; a fetch blocks its thread. */
#ifndef STATOR_SERVER_HTTP_FETCH_H
#define STATOR_SERVER_HTTP_FETCH_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define HTTP_FETCH_HOSTS 16
#define HTTP_FETCH_NAME  256          /* bytes of a host's name, with the end */
#define HTTP_FETCH_PATH  2048         /* bytes of a URL behind the host */
#define HTTP_FETCH_HEAD  8192         /* of an answer */
#define HTTP_FETCH_NS    10000000000u /* for all files of a request together */
#define HTTP_FETCH_WHY   320

struct http_fetch_host {
    char name[HTTP_FETCH_NAME]; /* in lower case; of an IPv6 address without brackets */
    uint16_t port;
    struct sockaddr_storage address;
    socklen_t length;
};

struct http_fetch_hosts {
    uint32_t n;
    struct http_fetch_host at[HTTP_FETCH_HOSTS];
};

/* "cdn.example.org, 10.0.0.5:8080": names or addresses, each with a port or port 80. STATOR_USAGE: an item
 * that is none, is not found, or is a name of a private address. */
stator_status http_fetch_read_hosts(const char *list, struct http_fetch_hosts *out, stator_error *e);

/* An "http://" URL; host and path point into it. */
struct http_fetch_url {
    const char *host, *path; /* path: from the '/' (or '?') on, without a fragment; empty: "/" */
    size_t host_length, path_length;
    uint16_t port;
};

/* Whether a URL is one of http or https at all, so that its host is looked for. */
bool http_fetch_is_url(const char *url, size_t n);
/* The host that may be asked for it; NULL: `why`, a sentence for the client. */
const struct http_fetch_host *http_fetch_find(const struct http_fetch_hosts *hosts, const char *url, size_t n,
                                              struct http_fetch_url *out, char why[HTTP_FETCH_WHY]);

/* An answer's head. */
struct http_fetch_head {
    size_t bytes; /* of the head; 0: it has not come whole yet */
    int status;
    bool has_length;
    uint64_t length; /* of the body, where has_length */
};
/* False: it is no answer that can be read; `why`. */
bool http_fetch_read_head(const char *p, size_t n, struct http_fetch_head *out, char why[HTTP_FETCH_WHY]);

/* The file of a URL into `to`, at most `room` bytes; *n of them. The head needs room there, too. Ends early
 * at until_ns (clock_ns), and once *stop is not 0. False: `why`. */
bool http_fetch(const struct http_fetch_host *host, const struct http_fetch_url *url, void *to, size_t room,
                size_t *n, uint64_t until_ns, const atomic_int *stop, char why[HTTP_FETCH_WHY]);

#endif
