#include "server/http/http_parse.h"

#include <string.h>

#define MAX_METHOD  16
#define MAX_EXTRAS  4096 /* bytes of all extensions and trailers of a chunked body */
#define MAX_DIGITS  15   /* of a chunk's size */
#define EMPTY_LINES 8    /* bytes of empty lines before a request */

static bool refuse(struct http_refusal *r, int status, const char *why) {
    *r = (struct http_refusal){status, why};
    return false;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool http_parse_same(const char *a, const char *b) {
    while (*a != '\0' && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool is_token(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static int hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX in place. False: not two hex digits, or a control character. */
static bool decode(char *path) {
    char *to = path;
    for (const char *s = path; *s != '\0'; s++) {
        int c = (unsigned char)*s;
        if (c == '%') {
            int high = hex(s[1]);
            int low = high >= 0 ? hex(s[2]) : -1;
            if (low < 0)
                return false;
            c = high * 16 + low;
            s += 2;
        }
        if (c < 0x20 || c == 0x7F)
            return false;
        *to++ = (char)c;
    }
    *to = '\0';
    return true;
}

/* "http://host:port/path" becomes "/path", and *authority "host:port"; NULL where the target has none. */
static bool origin_form(char **target, const char **authority) {
    static const char *const schemes[] = {"http://", "https://"};
    *authority = NULL;
    for (size_t i = 0; i < 2; i++) {
        const size_t n = strlen(schemes[i]);
        if (strncmp(*target, schemes[i], n) != 0)
            continue;
        char *host = *target + n;
        char *path = strchr(host, '/');
        if (path == NULL || path == host)
            return false;
        memmove(host - 1, host, (size_t)(path - host)); /* for the NUL */
        path[-1] = '\0';
        *authority = host - 1;
        *target = path;
    }
    return true;
}

/* A line of the head: it has an end, which becomes a NUL. */
static char *take_line(char **at) {
    char *line = *at;
    char *end = strchr(line, '\r');
    *end = '\0';
    *at = end + 2;
    return line;
}

static bool parse_first(char *line, struct http_head *out, const char **authority, struct http_refusal *r) {
    char *at = line;
    while (is_token(*at))
        at++;
    if (at == line || at - line > MAX_METHOD || *at != ' ')
        return refuse(r, 400, "the first line is not METHOD TARGET HTTP/1.1");
    *at++ = '\0';
    out->method = line;
    char *target = at;
    while (*at > ' ' && *at < 0x7F)
        at++;
    if (at - target > HTTP_URL)
        return refuse(r, 414, "the URL is longer than 4096 bytes");
    if (at == target || *at != ' ')
        return refuse(r, 400, "the first line is not METHOD TARGET HTTP/1.1");
    *at++ = '\0';
    if (strcmp(at, "HTTP/1.1") != 0 && strcmp(at, "HTTP/1.0") != 0)
        return strncmp(at, "HTTP/", 5) == 0 ? refuse(r, 505, "HTTP/1.1 and HTTP/1.0 are spoken here")
                                            : refuse(r, 400, "the first line does not end with HTTP/1.1");
    out->http10 = at[7] == '0';
    if (!origin_form(&target, authority))
        return refuse(r, 400, "the URL has no path");
    char *query = strchr(target, '?');
    out->query = query != NULL ? query + 1 : "";
    if (query != NULL)
        *query = '\0';
    const bool star = strcmp(target, "*") == 0 && strcmp(out->method, "OPTIONS") == 0;
    if ((*target != '/' && !star) || strchr(target, '#') != NULL || !decode(target))
        return refuse(r, 400, "the URL's path is malformed");
    out->path = target;
    return true;
}

static bool parse_field(char *line, struct http_head *out, struct http_refusal *r) {
    char *at = line;
    while (is_token(*at))
        at++;
    if (at == line || *at != ':')
        return refuse(r, 400, "a header line is not NAME: VALUE");
    *at++ = '\0';
    while (*at == ' ' || *at == '\t')
        at++;
    size_t n = 0;
    for (; at[n] != '\0'; n++)
        if (((unsigned char)at[n] < 0x20 && at[n] != '\t') || at[n] == 0x7F)
            return refuse(r, 400, "a header's value has a control character");
    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    at[n] = '\0';
    if (out->n_fields == HTTP_FIELDS)
        return refuse(r, 431, "more than 64 header lines");
    out->fields[out->n_fields++] = (struct http_field){line, at};
    return true;
}

const char *http_parse_field(const struct http_head *head, const char *name) {
    for (uint32_t i = 0; i < head->n_fields; i++)
        if (http_parse_same(head->fields[i].name, name))
            return head->fields[i].value;
    return NULL;
}

/* What a request may say only once: everything that decides who it is for, who asks, and where it ends. */
static bool check_twice(const struct http_head *head, struct http_refusal *r) {
    static const char *const once[] = {
        "Host", "Content-Length", "Transfer-Encoding", "Authorization", "Origin", "Content-Type", "Expect"};
    for (size_t k = 0; k < sizeof once / sizeof once[0]; k++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < head->n_fields; i++)
            n += http_parse_same(head->fields[i].name, once[k]);
        if (n > 1)
            return refuse(r, 400, "a header that may be there once is there twice");
    }
    return true;
}

/* A comma-separated list has that item. */
static bool has_item(const char *list, const char *item) {
    while (list != NULL) {
        list += strspn(list, " \t,");
        size_t n = strcspn(list, " \t,");
        size_t i = 0;
        while (i < n && item[i] != '\0' && lower(list[i]) == lower(item[i]))
            i++;
        if (n > 0 && i == n && item[i] == '\0')
            return true;
        list = strchr(list, ',');
    }
    return false;
}

static bool parse_length(struct http_head *out, struct http_refusal *r) {
    const char *length = http_parse_field(out, "Content-Length");
    const char *encoding = http_parse_field(out, "Transfer-Encoding");
    if (length != NULL && encoding != NULL)
        return refuse(r, 400, "Content-Length and Transfer-Encoding are both there");
    if (encoding != NULL) {
        if (out->http10)
            return refuse(r, 400, "Transfer-Encoding in HTTP/1.0");
        if (!http_parse_same(encoding, "chunked"))
            return refuse(r, 501, "Transfer-Encoding may only be chunked");
        out->chunked = true;
    }
    if (length != NULL) {
        const size_t n = strlen(length);
        if (n == 0 || n > 18 || strspn(length, "0123456789") != n)
            return refuse(r, 400, "Content-Length is not a number");
        for (const char *c = length; *c != '\0'; c++)
            out->length = out->length * 10 + (uint64_t)(*c - '0');
        out->has_length = true;
    }
    return true;
}

static bool parse_rest(struct http_head *out, const char *authority, struct http_refusal *r) {
    if (!check_twice(out, r) || !parse_length(out, r))
        return false;
    const char *host = http_parse_field(out, "Host");
    if (host == NULL && !out->http10)
        return refuse(r, 400, "the Host header is missing");
    if (authority != NULL && (host == NULL || !http_parse_same(host, authority)))
        return refuse(r, 400, "the URL and the Host header name different hosts");
    const char *expect = http_parse_field(out, "Expect");
    if (expect != NULL && !http_parse_same(expect, "100-continue"))
        return refuse(r, 417, "Expect may only be 100-continue");
    out->expects = expect != NULL && !out->http10;
    bool closes = false, keeps = false;
    for (uint32_t i = 0; i < out->n_fields; i++) {
        if (!http_parse_same(out->fields[i].name, "Connection"))
            continue;
        closes = closes || has_item(out->fields[i].value, "close");
        keeps = keeps || has_item(out->fields[i].value, "keep-alive");
    }
    out->keep_alive = !closes && (!out->http10 || keeps);
    return true;
}

/* Bytes of the head, with its empty line; 0: it is not complete, or (status) refused. */
static size_t find_end(const char *buffer, size_t n, size_t *seen, struct http_refusal *r) {
    while (*seen < n) {
        const size_t i = *seen;
        if (buffer[i] == '\0' || buffer[i] == '\n') {
            refuse(r, 400, buffer[i] == '\0' ? "a NUL in the head" : "lines must end with CR LF");
            return 0;
        }
        if (buffer[i] != '\r') {
            ++*seen;
            continue;
        }
        if (i + 1 == n)
            return 0; /* what follows it is not there yet */
        if (buffer[i + 1] != '\n') {
            refuse(r, 400, "lines must end with CR LF");
            return 0;
        }
        if (i >= 2 && buffer[i - 1] == '\n')
            return i + 2;
        *seen += 2;
    }
    return 0;
}

bool http_parse_head(char *buffer, size_t n, size_t capacity, size_t *seen, struct http_head *out,
                     struct http_refusal *r) {
    *r = (struct http_refusal){0, NULL};
    size_t skip = 0; /* empty lines before a request */
    while (skip + 2 <= n && skip < EMPTY_LINES && buffer[skip] == '\r' && buffer[skip + 1] == '\n')
        skip += 2;
    if (*seen < skip)
        *seen = skip;
    if (skip + 1 == n && buffer[skip] == '\r')
        return false;
    size_t end = find_end(buffer, n, seen, r);
    if (r->status != 0)
        return false;
    if (end == 0 && n >= capacity)
        return memchr(buffer, '\n', n) == NULL ? refuse(r, 414, "the first line is too long")
                                               : refuse(r, 431, "the headers are longer than 16 KiB");
    if (end == 0)
        return false;
    *out = (struct http_head){.bytes = end};
    if (end <= skip + 2)
        return refuse(r, 400, "the first line is empty");
    buffer[end - 2] = '\0'; /* the empty line's CR: no line is behind it */
    char *at = buffer + skip;
    const char *authority = NULL;
    if (!parse_first(take_line(&at), out, &authority, r))
        return false;
    while (*at != '\0')
        if (!parse_field(take_line(&at), out, r))
            return false;
    return parse_rest(out, authority, r);
}

enum {
    SIZE,
    BLANK,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    TRAILER_LINE,
    TRAILER_LF,
    END_LF,
    END
};

static int next_state(struct http_chunks *c, char b) {
    switch (c->state) {
    case SIZE: {
        const int digit = hex(b);
        if (digit >= 0) {
            c->left = c->left * 16 + (uint64_t)digit;
            return ++c->digits <= MAX_DIGITS ? SIZE : -1;
        }
        if (c->digits == 0)
            return -1;
        return b == '\r' ? SIZE_LF : b == ';' ? EXTENSION : b == ' ' || b == '\t' ? BLANK : -1;
    }
    case BLANK: /* only in front of an extension */
        return b == ';' ? EXTENSION : (b == ' ' || b == '\t') && ++c->extras <= MAX_EXTRAS ? BLANK : -1;
    case EXTENSION:
        if (b == '\r')
            return SIZE_LF;
        return (unsigned char)b >= 0x20 || b == '\t' ? (++c->extras <= MAX_EXTRAS ? EXTENSION : -1) : -1;
    case SIZE_LF:
        c->digits = 0;
        return b == '\n' ? (c->left > 0 ? DATA : TRAILER) : -1;
    case DATA_CR:
        return b == '\r' ? DATA_LF : -1;
    case DATA_LF:
        return b == '\n' ? SIZE : -1;
    case TRAILER:
        if (b == '\r')
            return END_LF;
        /* fall through */
    case TRAILER_LINE:
        if (b == '\r')
            return TRAILER_LF;
        return (unsigned char)b >= 0x20 || b == '\t' ? (++c->extras <= MAX_EXTRAS ? TRAILER_LINE : -1) : -1;
    case TRAILER_LF:
        return b == '\n' ? TRAILER : -1;
    case END_LF:
        return b == '\n' ? END : -1;
    default:
        return -1;
    }
}

enum http_chunk http_parse_chunk(struct http_chunks *c, const char *in, size_t n, size_t *used,
                                 size_t *data) {
    *data = 0;
    for (*used = 0; *used < n;) {
        if (c->state == DATA) {
            *data = c->left < n - *used ? (size_t)c->left : n - *used;
            c->left -= *data;
            if (c->left == 0)
                c->state = DATA_CR;
            return HTTP_CHUNK_DATA;
        }
        c->state = next_state(c, in[(*used)++]);
        if (c->state < 0)
            return HTTP_CHUNK_BAD;
        if (c->state == END)
            return HTTP_CHUNK_END;
    }
    return HTTP_CHUNK_MORE;
}
