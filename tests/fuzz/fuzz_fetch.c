/* Any bytes as the URL of a picture that a client wants fetched, and as what a host answers: a host of the
 * list and the parts of the URL, or a head with its length, or a reason. The first byte chooses. */
#include "fuzz.h"

#include "server/http/http_fetch.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"URL", "head", NULL};

static struct http_fetch_hosts hosts;

static void play_url(const char *p, size_t n) {
    struct http_fetch_url url;
    char why[HTTP_FETCH_WHY] = "";
    const struct http_fetch_host *h = http_fetch_find(&hosts, p, n, &url, why);
    if (h == NULL) {
        CHECK(why[0] != '\0');
        return;
    }
    CHECK(http_fetch_is_url(p, n) && h >= hosts.at && h < hosts.at + hosts.n && h->port == url.port);
    CHECK(url.host >= p && url.host + url.host_length <= url.path && url.path + url.path_length <= p + n);
    CHECK(strlen(h->name) == url.host_length && url.path_length < HTTP_FETCH_PATH);
    for (size_t i = 0; i < url.path_length; i++) /* no line of a request is made of it */
        CHECK(url.path[i] > ' ' && url.path[i] <= '~');
    fuzz_accepted("URL");
}

/* A head that has come whole is the same however much has come behind it. */
static void play_head(const char *p, size_t n) {
    struct http_fetch_head head, again;
    char why[HTTP_FETCH_WHY] = "", other[HTTP_FETCH_WHY] = "";
    if (!http_fetch_read_head(p, n, &head, why)) {
        CHECK(why[0] != '\0');
        return;
    }
    if (head.bytes == 0)
        return;
    CHECK(head.bytes <= n && head.status >= 0 && head.status <= 999 && (head.has_length || head.length == 0));
    CHECK(http_fetch_read_head(p, head.bytes, &again, other) && memcmp(&head, &again, sizeof head) == 0);
    if (head.bytes <= HTTP_FETCH_HEAD)
        CHECK(http_fetch_read_head(p, head.bytes - 1, &again, other) && again.bytes == 0);
    fuzz_accepted("head");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    stator_error e;
    if (hosts.n == 0)
        CHECK(http_fetch_read_hosts("127.0.0.1, localhost:8080, [::1]:81", &hosts, &e) == STATOR_OK);
    if (size == 0)
        return 0;
    char *copy = malloc(size); /* exactly, so that a sanitizer sees what lies beyond */
    CHECK(copy != NULL);
    memcpy(copy, data, size);
    if (copy[0] == 'u')
        play_url(copy + 1, size - 1);
    else
        play_head(copy + 1, size - 1);
    free(copy);
    return 0;
}
