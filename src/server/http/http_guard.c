#include "server/http/http_guard.h"

#include "server/http/http_parse.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME 256 /* bytes of a host's name, with the end */

/* An item of a list separated by commas is the text. */
static bool in_list(const char *list, const char *text) {
    char item[CONFIG_LIST];
    while (*list != '\0') {
        list += strspn(list, " ,");
        size_t n = strcspn(list, " ,");
        memcpy(item, list, n); /* a list is no longer than this */
        item[n] = '\0';
        if (n > 0 && http_parse_same(item, text))
            return true;
        list += n;
    }
    return false;
}

/* The name or address of "name:port" or "[address]:port", without brackets. */
static bool split_host(const char *host, char name[NAME]) {
    const bool bracket = *host == '[';
    const char *begin = host + bracket;
    const char *end = bracket ? strchr(begin, ']') : begin + strcspn(begin, ":");
    if (end == NULL || end == begin || end - begin >= NAME)
        return false;
    const char *port = end + bracket;
    if (*port != '\0' && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1)))
        return false;
    snprintf(name, NAME, "%.*s", (int)(end - begin), begin);
    return true;
}

bool http_guard_host(const struct server_settings *s, const char *host) {
    char name[NAME];
    char mine[HOST_NAME_MAX + 1] = "";
    struct in6_addr address;
    if (!split_host(host, name))
        return false;
    if (inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1)
        return true;
    const size_t n = strlen(name);
    static const char local[] = ".localhost";
    if (http_parse_same(name, "localhost") ||
        (n > sizeof local - 1 && http_parse_same(name + n - (sizeof local - 1), local)))
        return true;
    if (gethostname(mine, sizeof mine - 1) == 0 && mine[0] != '\0' && http_parse_same(name, mine))
        return true;
    return in_list(s->hosts, name) || in_list(s->hosts, host);
}

bool http_guard_origin(const struct server_settings *s, const char *origin, const char *host, bool *cross) {
    const char *behind = strstr(origin, "://");
    *cross = true;
    if (behind != NULL && host != NULL && http_parse_same(behind + 3, host)) {
        *cross = false;
        return true;
    }
    return strcmp(s->cors, "*") == 0 || in_list(s->cors, origin);
}

/* 1 where they are equal, looking at every byte of the array whatever is in it. */
static unsigned same_key(const char key[SERVER_KEY], const char given[SERVER_KEY]) {
    unsigned different = 0;
    for (size_t i = 0; i < SERVER_KEY; i++)
        different |= (unsigned char)(key[i] ^ given[i]);
    return (different - 1) >> 31;
}

bool http_guard_plain_key(const struct server_settings *s, const char *key) {
    char given[SERVER_KEY] = "";
    const size_t n = key != NULL ? strlen(key) : 0;
    if (s->n_keys == 0)
        return true;
    if (n == 0 || n >= SERVER_KEY)
        return false;
    memcpy(given, key, n);
    unsigned right = 0;
    for (uint32_t i = 0; i < s->n_keys; i++)
        right |= same_key(s->keys[i], given);
    explicit_bzero(given, sizeof given);
    return right != 0;
}

bool http_guard_key(const struct server_settings *s, const char *authorization) {
    if (s->n_keys == 0)
        return true;
    if (authorization == NULL || strlen(authorization) < 7)
        return false;
    char scheme[8];
    snprintf(scheme, sizeof scheme, "%.7s", authorization);
    return http_parse_same(scheme, "bearer ") &&
           http_guard_plain_key(s, authorization + 7 + strspn(authorization + 7, " "));
}
