/* The head of a request, and the pieces of a chunked body, from bytes: strictly, so that nothing in front of
 * this server can read them in another way (RFC 9112; what it allows and clients do not need is refused: bare
 * LF, folded lines, blanks before a colon, Content-Length twice or beside Transfer-Encoding).
 *
 * Pure functions on the caller's memory; any thread. Texts in struct http_head lie in the caller's buffer. */
#ifndef STATOR_SERVER_HTTP_PARSE_H
#define STATOR_SERVER_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_FIELDS 64   /* header lines of a request */
#define HTTP_URL    4096 /* bytes of its target */

struct http_field {
    const char *name;
    const char *value; /* without outer blanks */
};

struct http_head {
    size_t bytes; /* of the head, with the empty line */
    const char *method;
    const char *path;  /* %XX decoded */
    const char *query; /* as it came; "": none */
    bool http10;
    bool keep_alive;
    bool chunked;
    bool has_length;
    uint64_t length; /* of the body; 0 when chunked */
    bool expects;    /* 100-continue */
    uint32_t n_fields;
    struct http_field fields[HTTP_FIELDS];
};

struct http_refusal {
    int status;
    const char *why;
};

/* buffer[0..n) is what came so far; *seen: bytes that earlier calls have looked at, 0 at first. True: *out is
 * the request's head, in the buffer, which is changed. False with refusal->status 0: more is needed; else the
 * answer that the client gets. capacity: what the buffer can hold; full without an end is 431 or 414. */
bool http_parse_head(char *buffer, size_t n, size_t capacity, size_t *seen, struct http_head *out,
                     struct http_refusal *refusal);
/* The value of the first field of that name, in any case; NULL: there is none. */
const char *http_parse_field(const struct http_head *head, const char *name);
/* ASCII, without case. */
bool http_parse_same(const char *a, const char *b);

/* A chunked body. All 0 at first. */
struct http_chunks {
    int state;
    uint32_t digits, extras; /* of a size; bytes of extensions and trailers */
    uint64_t left;           /* of the chunk */
};
enum http_chunk { HTTP_CHUNK_MORE, HTTP_CHUNK_DATA, HTTP_CHUNK_END, HTTP_CHUNK_BAD };
/* Takes *used bytes of in[0..n). DATA: in[*used .. *used + *data) is part of the body, to be skipped by the
 * caller before the next call. END: the body is complete. MORE: all was taken. */
enum http_chunk http_parse_chunk(struct http_chunks *c, const char *in, size_t n, size_t *used, size_t *data);

#endif
