#include "server/server_settings.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEY_FILE 16384 /* bytes at most */

static stator_status read_address(const struct config *c, struct server_settings *out, stator_error *e) {
    const char *host = strcmp(c->server.host, "localhost") == 0 ? "127.0.0.1" : c->server.host;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)c->server.port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)c->server.port)};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(&out->address, &v4, sizeof v4);
        out->address_length = sizeof v4;
        out->loopback = ntohl(v4.sin_addr.s_addr) >> 24 == 127;
        inet_ntop(AF_INET, &v4.sin_addr, out->address_text, sizeof out->address_text);
        return STATOR_OK;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        char text[INET6_ADDRSTRLEN];
        memcpy(&out->address, &v6, sizeof v6);
        out->address_length = sizeof v6;
        out->loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
        inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
        snprintf(out->address_text, sizeof out->address_text, "[%s]", text);
        return STATOR_OK;
    }
    return error_set(
        e, STATOR_USAGE,
        "server.host = \"%s\" is no address: a number such as \"127.0.0.1\", \"0.0.0.0\" or \"::1\" is "
        "expected, or \"localhost\"",
        c->server.host);
}

static stator_status take_key(struct server_settings *out, const char *path, const char *line, size_t n,
                              stator_error *e) {
    while (n > 0 && isspace((unsigned char)*line)) {
        line++;
        n--;
    }
    while (n > 0 && isspace((unsigned char)line[n - 1]))
        n--;
    if (n == 0 || *line == '#')
        return STATOR_OK;
    for (size_t i = 0; i < n; i++)
        if (line[i] <= ' ' || line[i] > '~')
            return error_set(
                e, STATOR_USAGE,
                "server.api_key_file = \"%.300s\": key %u has a character that is not printable ASCII", path,
                out->n_keys + 1);
    if (n >= SERVER_KEY || out->n_keys == SERVER_MAX_KEYS)
        return error_set(e, STATOR_USAGE,
                         "server.api_key_file = \"%.300s\": at most %d keys of at most %d bytes", path,
                         SERVER_MAX_KEYS, SERVER_KEY - 1);
    memcpy(out->keys[out->n_keys++], line, n);
    return STATOR_OK;
}

static stator_status read_keys(const char *path, struct server_settings *out, stator_error *e) {
    char text[KEY_FILE + 1];
    size_t have = 0;
    ssize_t got = 0;
    if (path[0] == '\0')
        return STATOR_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        while (have < sizeof text && (got = read(fd, text + have, sizeof text - have)) > 0)
            have += (size_t)got;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    if (fd < 0 || got < 0)
        return error_set(e, STATOR_USAGE, "server.api_key_file = \"%.300s\" can't be read: %s", path,
                         strerror(why));
    if (have > KEY_FILE)
        return error_set(e, STATOR_USAGE, "server.api_key_file = \"%.300s\" is longer than %d bytes", path,
                         KEY_FILE);
    stator_status st = STATOR_OK;
    for (size_t at = 0; at < have && st == STATOR_OK;) {
        const char *end = memchr(text + at, '\n', have - at);
        const size_t n = end != NULL ? (size_t)(end - (text + at)) : have - at;
        st = take_key(out, path, text + at, n, e);
        at += n + 1;
    }
    explicit_bzero(text, sizeof text);
    if (st == STATOR_OK && out->n_keys == 0)
        st = error_set(e, STATOR_USAGE,
                       "server.api_key_file = \"%.300s\" has no key: one per line is expected", path);
    return st;
}

bool server_settings_next_name(const char **list, const char **name, size_t *n) {
    *name = *list + strspn(*list, " ,");
    *n = strcspn(*name, ",");
    *list = *name + *n;
    while (*n > 0 && (*name)[*n - 1] == ' ')
        --*n;
    return *n > 0;
}

stator_status server_settings_read(const struct config *c, struct server_settings *out, stator_error *e) {
    *out = (struct server_settings){
        .max_connections = (uint32_t)c->server.max_connections,
        .max_body = c->server.max_body,
        .request_timeout_ns = (uint64_t)llround(c->server.request_timeout * 1e9),
        .default_max_tokens = (uint32_t)c->server.default_max_tokens,
        .clamp_tokens = c->server.max_tokens == CONFIG_BEYOND_CLAMP,
        .json_spaces = c->server.json_whitespace == CONFIG_JSON_FREE,
        .refuse_unknown = c->server.unknown_fields == CONFIG_UNKNOWN_REFUSE,
        .strict_model = c->server.strict_model,
        .limits_reasoning = c->server.reasoning_budget != CONFIG_BUDGET_NONE,
        .reasoning_budget = (uint32_t)c->server.reasoning_budget,
        .sampling = c->sampling,
        .stay_on_fault = c->server.on_fault == CONFIG_FAULT_STAY,
        .deadline_ns = (uint64_t)llround(c->devices.deadline * 1e9),
        .page = c->server.page,
        .log_requests = c->server.log_requests && c->log.level >= STATOR_LOG_INFO,
        .log_json = c->log.format == CONFIG_LOG_JSON,
    };
    memcpy(out->cors, c->server.cors, sizeof out->cors);
    memcpy(out->hosts, c->server.hosts, sizeof out->hosts);
    /* model.name stands in front of the further names. */
    const char *name = c->model.name, *comma = name[0] != '\0' && c->server.alias[0] != '\0' ? ", " : "";
    if ((size_t)snprintf(out->alias, sizeof out->alias, "%s%s%s", name, comma, c->server.alias) >=
        sizeof out->alias)
        return error_set(e, STATOR_USAGE, "model.name and server.alias together are longer than %d bytes",
                         CONFIG_LIST - 1);
    memcpy(out->reasoning_message, c->server.reasoning_message, sizeof out->reasoning_message);
    const char *aliases = out->alias, *first = NULL;
    size_t n = 0;
    if (server_settings_next_name(&aliases, &first, &n))
        memcpy(out->name, first, n);
    memcpy(out->model, c->model.path, sizeof out->model);
    memcpy(out->log_file, c->log.file, sizeof out->log_file);
    stator_status st = read_address(c, out, e);
    if (st == STATOR_OK)
        st = http_fetch_read_hosts(c->server.image_hosts, &out->image_hosts, e);
    if (st == STATOR_OK)
        st = read_keys(c->server.api_key_file, out, e);
    if (st == STATOR_OK && !out->loopback && out->n_keys == 0 && !c->server.open)
        st = error_set(
            e, STATOR_USAGE,
            "server.host = \"%s\" can be reached from other machines: set server.api_key_file, so that they "
            "need a key, or server.open = true, to let all in",
            c->server.host);
    return st;
}
