/* What server.image_hosts may say, which URLs are fetched from them, and which answers are read. */
#include "testing.h"

#include "server/http/http_fetch.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In place of the C library's: names below "test" are their own addresses, "10-0-0-1.test",
 * "v6-fd00--1.test". */
int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out) {
    struct {
        struct addrinfo info;
        struct sockaddr_storage address;
    } *found = calloc(1, sizeof *found);
    char text[64] = "";
    const char *end = strstr(node, ".test");
    (void)service;
    (void)hints;
    assert_non_null(found);
    const bool v6 = strncmp(node, "v6-", 3) == 0;
    const char *from = node + (v6 ? 3 : 0);
    for (size_t i = 0; end != NULL && from + i < end; i++)
        text[i] = from[i] != '-' ? from[i] : v6 ? ':' : '.';
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&found->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&found->address;
    found->address.ss_family = v6 ? AF_INET6 : AF_INET;
    found->info.ai_addr = (struct sockaddr *)(void *)&found->address;
    found->info.ai_addrlen = v6 ? sizeof *six : sizeof *v4;
    if (inet_pton(v6 ? AF_INET6 : AF_INET, text, v6 ? (void *)&six->sin6_addr : (void *)&v4->sin_addr) == 1) {
        *out = &found->info;
        return 0;
    }
    free(found);
    return EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list) {
    free(list);
}

static void hosts_are_read(void **state) {
    (void)state;
    struct http_fetch_hosts h;
    stator_error e = {0};
    assert_int_equal(http_fetch_read_hosts("", &h, &e), STATOR_OK);
    assert_int_equal(h.n, 0);
    assert_int_equal(http_fetch_read_hosts(" 10.0.0.5:8080, LOCALHOST ,[::1]:81,192.0.2.7", &h, &e),
                     STATOR_OK);
    assert_int_equal(h.n, 4);
    assert_true(strcmp(h.at[0].name, "10.0.0.5") == 0 && h.at[0].port == 8080);
    assert_true(strcmp(h.at[1].name, "localhost") == 0 && h.at[1].port == 80);
    assert_true(strcmp(h.at[2].name, "::1") == 0 && h.at[2].port == 81 &&
                h.at[2].address.ss_family == AF_INET6);
    static const struct {
        const char *list, *what;
    } wrong[] = {
        {"http://a/", "\"http://a/\" is no host"},
        {"a:0", "is no host"},
        {"a:99999", "is no host"},
        {"a:", "is no host"},
        {"[::1", "is no host"},
        {"[::1]x", "is no host"},
        {"*.example.org", "is no host"},
        {"user@a", "is no host"},
        {"no-such-host.invalid", "is not found"},
        {"10-0-0-1.test", "\"10-0-0-1.test\" is a machine of a private network: list its address"},
        {"1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,"
         "1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1",
         "more than 16 hosts"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(http_fetch_read_hosts(wrong[i].list, &h, &e), STATOR_USAGE);
        if (strstr(e.text, wrong[i].what) == NULL)
            fail_msg("expected \"%s\" in: %s", wrong[i].what, e.text);
    }
}

/* Names of machines that only this one or its network reaches. */
static void names_of_private_machines(void **state) {
    (void)state;
    static const char *const private[] =
        {"127-0-0-1",  "10-255-255-255", "172-16-0-1", "172-31-255-255",  "192-168-1-1",      "169-254-1-1",
         "100-64-0-1", "0-0-0-0",        "224-0-0-1",  "255-255-255-255", "v6-fd00--1",       "v6-fe80--1",
         "v6---1",     "v6---",          "v6-ff02--1", "v6---ffff-a00-1", "v6-64-ff9b--a00-1"},
                             *const public[] = {"8-8-8-8",     "172-32-0-1",     "192-167-0-1",
                                                "100-128-0-1", "v6-2001-db8--1", "v6---ffff-808-808"};
    struct http_fetch_hosts h;
    stator_error e;
    char name[64];
    for (size_t i = 0; i < sizeof private / sizeof private[0]; i++) {
        snprintf(name, sizeof name, "%s.test", private[i]);
        if (http_fetch_read_hosts(name, &h, &e) != STATOR_USAGE || strstr(e.text, "private network") == NULL)
            fail_msg("%s: %s", name, e.text);
    }
    for (size_t i = 0; i < sizeof public / sizeof public[0]; i++) {
        snprintf(name, sizeof name, "%s.test:8000", public[i]);
        if (http_fetch_read_hosts(name, &h, &e) != STATOR_OK)
            fail_msg("%s: %s", name, e.text);
        assert_true(h.n == 1 && h.at[0].port == 8000);
    }
}

static void urls_are_judged(void **state) {
    (void)state;
    static const struct {
        const char *url, *path, *why; /* why NULL: it is fetched */
        uint32_t host;
    } rows[] = {{"http://10.0.0.5:8080/a/b.png?x=1#part", "/a/b.png?x=1", NULL, 0},
                {"HTTP://LocalHost", "", NULL, 1},
                {"http://localhost?x", "?x", NULL, 1},
                {"http://localhost:80/", "/", NULL, 1},
                {"http://[::1]:81/a", "/a", NULL, 2},
                {"https://localhost/a", NULL, "does not speak https", 0},
                {"http://10.0.0.5/a", NULL, "no pictures from 10.0.0.5, port 80", 0},
                {"http://localhost.evil.example/", NULL, "no pictures from localhost.evil.example", 0},
                {"http://localhost@evil.example/", NULL, "this is no URL", 0},
                {"http://evil.example#@localhost/", NULL, "no pictures from evil.example", 0},
                {"http://localhost\\@evil.example/", NULL, "this is no URL", 0},
                {"http://localhost:80:80/", NULL, "this is no URL", 0},
                {"http:///a", NULL, "this is no URL", 0},
                {"http://localhost/a b", NULL, "this is no URL", 0},
                {"http://localhost/a\r\nX: y", NULL, "this is no URL", 0},
                {"http://0177.0.0.1/", NULL, "no pictures from 0177.0.0.1", 0},
                {"file:///etc/passwd", NULL, "this is no URL", 0}};
    struct http_fetch_hosts h;
    struct http_fetch_url url;
    stator_error e;
    char why[HTTP_FETCH_WHY], large[HTTP_FETCH_PATH + 32] = "http://localhost/";
    assert_int_equal(http_fetch_read_hosts("10.0.0.5:8080, localhost, [::1]:81", &h, &e), STATOR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct http_fetch_host *found =
            http_fetch_find(&h, rows[i].url, strlen(rows[i].url), &url, why);
        if ((found != NULL) != (rows[i].why == NULL))
            fail_msg("%s: %s", rows[i].url, found != NULL ? found->name : why);
        if (found == NULL && strstr(why, rows[i].why) == NULL)
            fail_msg("%s: expected \"%s\" in: %s", rows[i].url, rows[i].why, why);
        if (found == NULL)
            continue;
        assert_ptr_equal(found, &h.at[rows[i].host]);
        assert_true(url.path_length == strlen(rows[i].path) &&
                    memcmp(url.path, rows[i].path, url.path_length) == 0);
    }
    memset(large + strlen(large), 'a', HTTP_FETCH_PATH);
    assert_null(http_fetch_find(&h, large, strlen("http://localhost/") + HTTP_FETCH_PATH, &url, why));
    h.n = 0;
    assert_null(http_fetch_find(&h, "http://localhost/", 17, &url, why));
    assert_non_null(strstr(why, "the server fetches no pictures (server.image_hosts is empty)"));
    assert_true(http_fetch_is_url("HTTPS://x", 9) && !http_fetch_is_url("data:x", 6) &&
                !http_fetch_is_url("", 0));
}

/* Whole, and cut at every place. */
static void heads_are_read(void **state) {
    (void)state;
    static const struct {
        const char *head, *why;
        int status;
        uint64_t length;
        bool has_length;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX: y\r\n\r\n", NULL, 200, 12, true},
        {"HTTP/1.0 404 Not Found\r\n\r\n", NULL, 404, 0, false},
        {"HTTP/1.1 302\nLOCATION: /\ncontent-length:0\n\n", NULL, 302, 0, true},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n\r\n", NULL, 200, 0, false},
        {"HTTP/2 200\r\n\r\n", "does not speak HTTP/1", 0, 0, false},
        {"SSH-2.0-x\r\n", "does not speak HTTP/1", 0, 0, false},
        {"HTTP/1.1 2x0 OK\r\n\r\n", "has no status", 0, 0, false},
        {"HTTP/1.1\r\n\r\n", "has no status", 0, 0, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no number", 0, 0, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "no number", 0, 0, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n", "no number", 0, 0, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "in chunks", 0, 0, false},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", "compressed", 0, 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct http_fetch_head head;
        char why[HTTP_FETCH_WHY] = "";
        const size_t n = strlen(rows[i].head);
        const bool good = http_fetch_read_head(rows[i].head, n, &head, why);
        if (good != (rows[i].why == NULL) || (!good && strstr(why, rows[i].why) == NULL))
            fail_msg("%s: %s", rows[i].head, why);
        if (!good)
            continue;
        assert_true(head.bytes == n && head.status == rows[i].status);
        assert_true(head.has_length == rows[i].has_length && head.length == rows[i].length);
        for (size_t k = 0; k < n; k++)
            assert_true(http_fetch_read_head(rows[i].head, k, &head, why) && head.bytes == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hosts_are_read),
                                       cmocka_unit_test(names_of_private_machines),
                                       cmocka_unit_test(urls_are_judged), cmocka_unit_test(heads_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
