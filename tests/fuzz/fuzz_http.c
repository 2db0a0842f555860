/* Any bytes as what a client sends: the head is parsed, or refused, or wants more; what is parsed has the
 * shape that its users rely on, and comes out the same however the bytes were cut into pieces. What is behind
 * the head is read as chunks, whole and byte by byte. The Host and Origin are judged. */
#include "fuzz.h"

#include "server/http/http_guard.h"
#include "server/http/http_parse.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"head", "body in chunks", NULL};

#define CAPACITY 16384

static char whole[CAPACITY + 1], pieces[CAPACITY + 1];
static struct http_head head, again;
static struct server_settings settings;

/* Bytes of a body that chunks have, step bytes at a time; *end: how it ended. */
static size_t decode(const char *in, size_t n, size_t step, enum http_chunk *end, uint64_t *sum) {
    struct http_chunks c = {0};
    size_t body = 0;
    *end = HTTP_CHUNK_MORE;
    *sum = 0;
    for (size_t at = 0; at < n;) {
        size_t used = 0, data = 0;
        const size_t here = step < n - at ? step : n - at;
        *end = http_parse_chunk(&c, in + at, here, &used, &data);
        CHECK(used + data <= here && used + data > 0);
        CHECK(data == 0 || *end == HTTP_CHUNK_DATA);
        for (size_t i = 0; i < data; i++)
            *sum = *sum * 31 + (unsigned char)in[at + used + i];
        body += data;
        at += used + data;
        if (*end == HTTP_CHUNK_BAD || *end == HTTP_CHUNK_END)
            return body;
    }
    return body;
}

static void check_head(const struct http_head *h) {
    CHECK(h->bytes > 0 && h->n_fields <= HTTP_FIELDS && h->method[0] != '\0');
    CHECK(!(h->chunked && h->has_length) && (h->has_length || h->length == 0));
    CHECK(h->path[0] == '/' || strcmp(h->path, "*") == 0);
    CHECK(h->http10 || http_parse_field(h, "Host") != NULL);
    for (const char *c = h->path; *c != '\0'; c++)
        CHECK((unsigned char)*c >= 0x20 && *c != 0x7F);
    for (uint32_t i = 0; i < h->n_fields; i++)
        for (const char *c = h->fields[i].value; *c != '\0'; c++)
            CHECK((unsigned char)*c >= 0x20 || *c == '\t'); /* no line of an answer is made of it */
}

static void judge(const struct http_head *h) {
    const char *host = http_parse_field(h, "Host");
    const char *origin = http_parse_field(h, "Origin");
    bool cross = false;
    if (host != NULL)
        (void)http_guard_host(&settings, host);
    if (origin != NULL)
        (void)http_guard_origin(&settings, origin, host, &cross);
    CHECK(!http_guard_key(&settings, http_parse_field(h, "Authorization")) ||
          strstr(http_parse_field(h, "Authorization"), "sesame") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct http_refusal r, s = {0, NULL};
    size_t seen = 0, n = size < CAPACITY ? size : CAPACITY;
    settings.n_keys = 1;
    memcpy(settings.keys[0], "sesame", sizeof "sesame");
    memcpy(settings.hosts, "box.local, other", sizeof "box.local, other");
    memcpy(settings.cors, "https://a.example", sizeof "https://a.example");
    if (n > 0)
        memcpy(whole, data, n);
    const bool complete = http_parse_head(whole, n, CAPACITY, &seen, &head, &r);
    CHECK(!complete || r.status == 0);
    CHECK(r.status == 0 || (r.status >= 400 && r.why != NULL));
    bool came = false;
    seen = 0;
    for (size_t i = 0; i < n && !came && s.status == 0; i++) {
        pieces[i] = (char)data[i];
        came = http_parse_head(pieces, i + 1, CAPACITY, &seen, &again, &s);
    }
    CHECK(came == complete && s.status == r.status);
    if (!complete)
        return 0;
    fuzz_accepted("head");
    CHECK(again.bytes == head.bytes && again.n_fields == head.n_fields && again.length == head.length);
    CHECK(strcmp(again.path, head.path) == 0 && again.keep_alive == head.keep_alive);
    check_head(&head);
    judge(&head);
    enum http_chunk one, other;
    uint64_t sum = 0, second = 0;
    const char *body = (const char *)data + head.bytes;
    CHECK(decode(body, size - head.bytes, SIZE_MAX, &one, &sum) ==
          decode(body, size - head.bytes, 1, &other, &second));
    CHECK(sum == second && (one == HTTP_CHUNK_BAD) == (other == HTTP_CHUNK_BAD) &&
          (one == HTTP_CHUNK_END) == (other == HTTP_CHUNK_END));
    if (head.chunked && one == HTTP_CHUNK_END)
        fuzz_accepted("body in chunks");
    return 0;
}
