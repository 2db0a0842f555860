#include "server/http/http_fetch.h"

#include "base/arith.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define SLICE_MS 100 /* between looks at *stop */

__attribute__((format(printf, 2, 3))) static bool fail(char why[HTTP_FETCH_WHY], const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why, HTTP_FETCH_WHY, format, args);
    va_end(args);
    return false;
}

/* --- hosts */

/* A port behind a colon; 80 without one. False: it is none. */
static bool read_port(const char *p, size_t n, uint16_t *port) {
    uint32_t v = 0;
    *port = 80;
    if (n == 0)
        return true;
    if (p[0] != ':' || n < 2 || n > 6)
        return false;
    for (size_t i = 1; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        v = v * 10 + (uint32_t)(p[i] - '0');
    }
    *port = (uint16_t)v;
    return v > 0 && v <= UINT16_MAX;
}

static bool is_name(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)p[i]) && p[i] != '-' && p[i] != '.' && p[i] != '_')
            return false;
    return n > 0 && n < HTTP_FETCH_NAME;
}

/* "name:port", "1.2.3.4:port", "[::1]:port". False: it is none of them. */
static bool read_authority(const char *p, size_t n, const char **host, size_t *length, uint16_t *port) {
    if (n > 0 && p[0] == '[') {
        const char *end = memchr(p, ']', n);
        if (end == NULL)
            return false;
        *host = p + 1;
        *length = (size_t)(end - p) - 1;
        for (size_t i = 0; i < *length; i++)
            if (!isxdigit((unsigned char)(*host)[i]) && (*host)[i] != ':' && (*host)[i] != '.')
                return false;
        return *length > 0 && *length < INET6_ADDRSTRLEN && read_port(end + 1, n - *length - 2, port);
    }
    const char *colon = memchr(p, ':', n);
    *host = p;
    *length = colon != NULL ? (size_t)(colon - p) : n;
    return is_name(p, *length) && read_port(p + *length, n - *length, port);
}

/* Addresses that only this machine or its own network has: private, loopback, link-local, shared, multicast.
 */
static bool is_private_v4(uint32_t a) {
    return a >> 24 == 0 || a >> 24 == 10 || a >> 24 == 127 || a >> 20 == 0xac1 || a >> 16 == 0xc0a8 ||
           a >> 16 == 0xa9fe || a >> 22 == 0x191 || a >> 28 >= 14;
}

static bool is_private(const struct sockaddr_storage *s) {
    static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};
    if (s->ss_family == AF_INET)
        return is_private_v4(ntohl(((const struct sockaddr_in *)(const void *)s)->sin_addr.s_addr));
    const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)s)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(a) || IN6_IS_ADDR_V4COMPAT(a)) {
        uint32_t v4 = 0;
        memcpy(&v4, &a->s6_addr[12], sizeof v4);
        return is_private_v4(ntohl(v4));
    }
    return (a->s6_addr[0] & 0xfe) == 0xfc || IN6_IS_ADDR_LOOPBACK(a) || IN6_IS_ADDR_UNSPECIFIED(a) ||
           memcmp(a, nat64, sizeof nat64) == 0 || IN6_IS_ADDR_LINKLOCAL(a) || IN6_IS_ADDR_SITELOCAL(a) ||
           IN6_IS_ADDR_MULTICAST(a);
}

/* An address as it stands in the list. */
static bool read_number(struct http_fetch_host *h) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(h->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(h->port)};
    const char *text = strcmp(h->name, "localhost") == 0 ? "127.0.0.1" : h->name;
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(&h->address, &v4, sizeof v4);
        h->length = sizeof v4;
    } else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(&h->address, &v6, sizeof v6);
        h->length = sizeof v6;
    }
    return h->length > 0;
}

static stator_status look_up(struct http_fetch_host *h, stator_error *e) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    if (read_number(h))
        return STATOR_OK;
    snprintf(port, sizeof port, "%u", h->port);
    if (getaddrinfo(h->name, port, &hints, &found) != 0 || found == NULL)
        return error_set(
            e, STATOR_USAGE,
            "server.image_hosts: the host \"%s\" is not found: correct it, list its address, or leave it "
            "out",
            h->name);
    memcpy(&h->address, found->ai_addr, found->ai_addrlen);
    h->length = found->ai_addrlen;
    freeaddrinfo(found);
    if (is_private(&h->address))
        return error_set(
            e, STATOR_USAGE,
            "server.image_hosts: \"%s\" is a machine of a private network: list its address in place of "
            "its name if clients may have pictures fetched from there",
            h->name);
    return STATOR_OK;
}

stator_status http_fetch_read_hosts(const char *list, struct http_fetch_hosts *out, stator_error *e) {
    *out = (struct http_fetch_hosts){.n = 0};
    for (const char *p = list + strspn(list, " ,"); *p != '\0'; p += strspn(p, " ,")) {
        const size_t n = strcspn(p, " ,");
        struct http_fetch_host *h = &out->at[out->n];
        const char *host = NULL;
        size_t length = 0;
        if (out->n == HTTP_FETCH_HOSTS)
            return error_set(e, STATOR_USAGE, "server.image_hosts names more than %d hosts",
                             HTTP_FETCH_HOSTS);
        *h = (struct http_fetch_host){.port = 0};
        if (!read_authority(p, n, &host, &length, &h->port))
            return error_set(
                e, STATOR_USAGE,
                "server.image_hosts: \"%.*s\" is no host; expected one such as \"cdn.example.org\", "
                "\"10.0.0.5:8080\" or \"[fd00::5]\"",
                (int)ARITH_MIN(n, (size_t)100), p);
        for (size_t i = 0; i < length; i++)
            h->name[i] = (char)tolower((unsigned char)host[i]);
        stator_status st = look_up(h, e);
        if (st != STATOR_OK)
            return st;
        out->n++;
        p += n;
    }
    return STATOR_OK;
}

/* --- URLs */

static bool has_scheme(const char *url, size_t n, const char *scheme) {
    const size_t length = strlen(scheme);
    return n >= length && strncasecmp(url, scheme, length) == 0;
}

bool http_fetch_is_url(const char *url, size_t n) {
    return has_scheme(url, n, "http://") || has_scheme(url, n, "https://");
}

/* "http://host:port/path?query#fragment". */
static bool read_url(const char *url, size_t n, struct http_fetch_url *out) {
    const size_t scheme = sizeof "http://" - 1;
    for (size_t i = 0; i < n; i++)
        if (url[i] <= ' ' || url[i] > '~')
            return false;
    if (!has_scheme(url, n, "http://"))
        return false;
    const char *p = url + scheme;
    size_t left = n - scheme, authority = 0;
    while (authority < left && p[authority] != '/' && p[authority] != '?' && p[authority] != '#')
        authority++;
    if (!read_authority(p, authority, &out->host, &out->host_length, &out->port))
        return false;
    out->path = p + authority;
    left -= authority;
    const char *fragment = memchr(out->path, '#', left);
    out->path_length = fragment != NULL ? (size_t)(fragment - out->path) : left;
    return out->path_length < HTTP_FETCH_PATH;
}

const struct http_fetch_host *http_fetch_find(const struct http_fetch_hosts *hosts, const char *url, size_t n,
                                              struct http_fetch_url *out, char why[HTTP_FETCH_WHY]) {
    if (hosts == NULL || hosts->n == 0) {
        fail(why, "only data: URLs of base64 are read: the server fetches no pictures (server.image_hosts is "
                  "empty)");
        return NULL;
    }
    if (has_scheme(url, n, "https://")) {
        fail(why,
             "the server does not speak https: send the picture as a data: URL, or give the URL of a host of "
             "server.image_hosts that serves it by http");
        return NULL;
    }
    if (!read_url(url, n, out)) {
        fail(
            why,
            "this is no URL that the server reads: http://HOST/PATH is expected, without blanks and a user's "
            "name, with a path below %d bytes",
            HTTP_FETCH_PATH);
        return NULL;
    }
    for (uint32_t i = 0; i < hosts->n; i++) {
        const struct http_fetch_host *h = &hosts->at[i];
        if (h->port == out->port && strlen(h->name) == out->host_length &&
            strncasecmp(h->name, out->host, out->host_length) == 0)
            return h;
    }
    fail(why,
         "the server fetches no pictures from %.*s, port %u: send it as a data: URL, or have the host listed "
         "in "
         "server.image_hosts",
         (int)ARITH_MIN(out->host_length, (size_t)100), out->host, out->port);
    return NULL;
}

/* --- answers */

/* The value of a header field in a line, without blanks at its ends; NULL: it is another. */
static const char *value_of(const char *line, size_t n, const char *name, size_t *length) {
    const size_t own = strlen(name);
    if (n <= own || line[own] != ':' || strncasecmp(line, name, own) != 0)
        return NULL;
    const char *p = line + own + 1, *end = line + n;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *length = (size_t)(end - p);
    return p;
}

static bool read_length(const char *p, size_t n, uint64_t *out) {
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9' || n > 18)
            return false;
        *out = *out * 10 + (uint64_t)(p[i] - '0');
    }
    return n > 0;
}

static bool read_field(const char *line, size_t n, struct http_fetch_head *out, char why[HTTP_FETCH_WHY]) {
    size_t length = 0;
    const char *value = value_of(line, n, "Content-Length", &length);
    if (value != NULL) {
        uint64_t bytes = 0;
        if (!read_length(value, length, &bytes) || (out->has_length && bytes != out->length))
            return fail(why, "its Content-Length is no number");
        out->length = bytes;
        out->has_length = true;
    }
    if (value_of(line, n, "Transfer-Encoding", &length) != NULL)
        return fail(why, "it sends the file in chunks (Transfer-Encoding), which the server does not read");
    value = value_of(line, n, "Content-Encoding", &length);
    if (value != NULL && !(length == 8 && strncasecmp(value, "identity", 8) == 0))
        return fail(why, "it sends the file compressed (Content-Encoding), which the server does not read");
    return true;
}

bool http_fetch_read_head(const char *p, size_t n, struct http_fetch_head *out, char why[HTTP_FETCH_WHY]) {
    static const char version[] = "HTTP/1.";
    const size_t first = ARITH_MIN(n, sizeof version - 1);
    size_t at = 0, line = 0;
    *out = (struct http_fetch_head){.bytes = 0};
    if (memcmp(p, version, first) != 0)
        return fail(why, "it does not speak HTTP/1");
    for (; at < n; at++) {
        if (p[at] != '\n')
            continue;
        const size_t end = at > line && p[at - 1] == '\r' ? at - 1 : at;
        if (line == 0) {
            if (end < 12 || p[8] != ' ' || !isdigit((unsigned char)p[9]) || !isdigit((unsigned char)p[10]) ||
                !isdigit((unsigned char)p[11]))
                return fail(why, "its answer has no status");
            out->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
        } else if (end == line) {
            out->bytes = at + 1;
            return true;
        } else if (!read_field(p + line, end - line, out, why)) {
            return false;
        }
        line = at + 1;
    }
    return n < HTTP_FETCH_HEAD ||
           fail(why, "the head of its answer is longer than %d bytes", HTTP_FETCH_HEAD);
}

/* --- the connection */

struct connection {
    int fd;
    uint64_t until_ns;
    const atomic_int *stop;
    char *why;
};

/* Until the socket can do what `events` says. */
static bool wait_for(struct connection *c, short events) {
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = events};
        if (atomic_load(c->stop) != 0)
            return fail(c->why, "the server ends");
        if (clock_ns() > c->until_ns)
            return fail(c->why, "it takes longer than %u s", (unsigned)(HTTP_FETCH_NS / 1000000000u));
        const int n = poll(&p, 1, SLICE_MS);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return fail(c->why, "%s", strerror(errno));
    }
}

static bool dial(struct connection *c, const struct http_fetch_host *h) {
    int error = 0;
    socklen_t size = sizeof error;
    c->fd = socket(h->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return fail(c->why, "there is no socket: %s", strerror(errno));
    if (connect(c->fd, (const struct sockaddr *)(const void *)&h->address, h->length) == 0)
        return true;
    if (errno != EINPROGRESS)
        return fail(c->why, "%s", strerror(errno));
    if (!wait_for(c, POLLOUT))
        return false;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
        return fail(c->why, "%s", strerror(error != 0 ? error : errno));
    return true;
}

static bool send_all(struct connection *c, const char *p, size_t n) {
    while (n > 0) {
        if (!wait_for(c, POLLOUT))
            return false;
        const ssize_t sent = send(c->fd, p, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return fail(c->why, "%s", strerror(errno));
        p += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

/* At most n bytes; *got 0: the other side has closed. */
static bool receive(struct connection *c, char *p, size_t n, size_t *got) {
    for (;;) {
        if (!wait_for(c, POLLIN))
            return false;
        const ssize_t here = recv(c->fd, p, n, 0);
        if (here < 0 && errno != EAGAIN && errno != EINTR)
            return fail(c->why, "%s", strerror(errno));
        *got = here > 0 ? (size_t)here : 0;
        if (here >= 0)
            return true;
    }
}

static bool ask(struct connection *c, const struct http_fetch_host *h, const struct http_fetch_url *url) {
    char text[HTTP_FETCH_PATH + HTTP_FETCH_NAME + 200], port[8] = "";
    const bool v6 = strchr(h->name, ':') != NULL;
    if (h->port != 80)
        snprintf(port, sizeof port, ":%u", h->port);
    const int n =
        snprintf(text, sizeof text,
                 "GET %s%.*s HTTP/1.0\r\nHost: %s%s%s%s\r\nAccept: image/png, image/jpeg, image/webp\r\n"
                 "User-Agent: stator\r\nConnection: close\r\n\r\n",
                 url->path_length > 0 && url->path[0] == '/' ? "" : "/", (int)url->path_length, url->path,
                 v6 ? "[" : "", h->name, v6 ? "]" : "", port);
    return n > 0 && (size_t)n < sizeof text ? send_all(c, text, (size_t)n)
                                            : fail(c->why, "its URL is too long");
}

/* The head is read to where the file goes, and what has come of that is moved over it. */
static bool read_answer(struct connection *c, char *to, size_t room, size_t *n) {
    struct http_fetch_head head = {.bytes = 0};
    size_t have = 0, got = 1;
    while (head.bytes == 0) {
        if (have == ARITH_MIN(room, (size_t)HTTP_FETCH_HEAD))
            return fail(c->why, "the head of its answer is too long");
        if (!receive(c, to + have, ARITH_MIN(room, (size_t)HTTP_FETCH_HEAD) - have, &got))
            return false;
        if (got == 0)
            return fail(c->why, "it closes the connection without an answer");
        have += got;
        if (!http_fetch_read_head(to, have, &head, c->why))
            return false;
    }
    if (head.status >= 300 && head.status < 400)
        return fail(c->why, "it answers %d, that the picture is elsewhere: give the URL where it is",
                    head.status);
    if (head.status != 200)
        return fail(c->why, "it answers %d", head.status);
    if (head.has_length && head.length > room)
        return fail(c->why, "the file has %llu bytes, at most %zu are read", (unsigned long long)head.length,
                    room);
    have -= head.bytes;
    memmove(to, to + head.bytes, have);
    while (got > 0 && !(head.has_length && have >= head.length)) {
        char beyond = 0;
        if (!receive(c, have < room ? to + have : &beyond, have < room ? room - have : 1, &got))
            return false;
        if (have == room && got > 0)
            return fail(c->why, "the file has more than %zu bytes, which are the most that are read", room);
        have += got;
    }
    if (head.has_length && have < head.length)
        return fail(c->why, "it closes the connection after %zu of %llu bytes", have,
                    (unsigned long long)head.length);
    *n = head.has_length ? (size_t)head.length : have;
    return true;
}

bool http_fetch(const struct http_fetch_host *host, const struct http_fetch_url *url, void *to, size_t room,
                size_t *n, uint64_t until_ns, const atomic_int *stop, char why[HTTP_FETCH_WHY]) {
    struct connection c = {.fd = -1, .until_ns = until_ns, .stop = stop, .why = why};
    *n = 0;
    const bool good = dial(&c, host) && ask(&c, host, url) && read_answer(&c, to, room, n);
    if (c.fd >= 0)
        close(c.fd);
    return good;
}
