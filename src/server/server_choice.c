#include "server/server_choice.h"

#include "chat/json_scan.h"
#include "server/http/http.h"
#include "server/openai/api.h"

#include <stdio.h>
#include <string.h>

#define NAME 256 /* bytes of a name that is looked for, with its end */

/* Behind the value at p, however deep it is: at the ',' or '}' that ends it, or at n. Its JSON is not
 * checked; whoever reads the body does that. */
static size_t behind_value(const char *p, size_t n) {
    size_t depth = 0, i = 0;
    while (i < n) {
        const size_t text = p[i] == '"' ? json_scan_string(p + i, n - i) : 0;
        if (p[i] == '"' && text == 0)
            return n;
        if (text == 0 && depth == 0 && (p[i] == ',' || p[i] == '}'))
            return i;
        depth += text == 0 && (p[i] == '{' || p[i] == '[');
        depth -= text == 0 && depth > 0 && (p[i] == '}' || p[i] == ']');
        i += text > 0 ? text : 1;
    }
    return n;
}

/* The text between the quotes; of escapes only \/ is needed, as no name has a character with another one. */
static void copy_text(const char *p, size_t n, char *out, size_t capacity) {
    size_t have = 0;
    for (size_t i = 0; i < n && have + 1 < capacity; i++) {
        i += p[i] == '\\' && i + 1 < n && p[i + 1] == '/';
        out[have++] = p[i];
    }
    out[have] = '\0';
}

bool server_choice_member(const char *body, size_t n, const char *name, char *out, size_t capacity) {
    const size_t length = strlen(name);
    size_t at = json_scan_blank(body, n);
    if (at == n || body[at] != '{')
        return false;
    for (at++; at < n; at++) { /* behind a '{' or a ',' */
        at += json_scan_blank(body + at, n - at);
        const size_t key = json_scan_string(body + at, n - at);
        if (key == 0)
            return false;
        const bool found = key == length + 2 && memcmp(body + at + 1, name, length) == 0;
        at += key;
        at += json_scan_blank(body + at, n - at);
        if (at == n || body[at] != ':')
            return false;
        at++;
        at += json_scan_blank(body + at, n - at);
        const size_t text = found ? json_scan_string(body + at, n - at) : 0;
        if (text > 0)
            copy_text(body + at + 1, text - 2, out, capacity);
        if (found)
            return text > 0;
        at += behind_value(body + at, n - at);
        if (at == n || body[at] != ',')
            return false;
    }
    return false;
}

/* The parameter of the query, with %XX decoded. */
static bool query_member(const char *query, const char *name, char *out, size_t capacity) {
    const size_t length = strlen(name);
    for (const char *at = query; *at != '\0'; at += strspn(at, "&")) {
        const size_t n = strcspn(at, "&");
        if (n > length && strncmp(at, name, length) == 0 && at[length] == '=') {
            size_t have = 0;
            for (size_t i = length + 1; i < n && have + 1 < capacity; i++) {
                unsigned code = 0;
                const bool escaped = at[i] == '%' && i + 2 < n && sscanf(at + i + 1, "%2x", &code) == 1;
                out[have++] = escaped ? (char)code : at[i];
                i += escaped ? 2 : 0;
            }
            out[have] = '\0';
            return true;
        }
        at += n;
    }
    return false;
}

/* Ollama's clients put a tag behind a name. */
static void drop_tag(char *name) {
    static const char tag[] = ":latest";
    const size_t n = strlen(name), end = sizeof tag - 1;
    if (n > end && strcmp(name + n - end, tag) == 0)
        name[n - end] = '\0';
}

static uint32_t find(const struct server *any, const char *name) {
    const struct server *s;
    for (uint32_t i = 0; (s = server_at(any, i)) != NULL; i++)
        if (strcmp(server_model(s), name) == 0)
            return i;
    for (uint32_t i = 0; (s = server_at(any, i)) != NULL; i++)
        if (api_names_model(s, name)) /* by the file's own name, or by none */
            return i;
    return HTTP_ANSWERED;
}

const char *server_choice_names(const struct server *any, char *out, size_t capacity) {
    const struct server *s;
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; (s = server_at(any, i)) != NULL && n < capacity; i++) {
        const char *before = i == 0 ? "" : server_at(any, i + 1) == NULL ? " and " : ", ";
        n += (size_t)snprintf(out + n, capacity - n, "%s\"%s\"", before, server_model(s));
    }
    return out;
}

uint32_t server_choose(void *context, struct http_exchange *x) {
    const struct server *any = context;
    char name[NAME] = "", names[SERVER_MODELS * 72];
    size_t n = 0;
    const char *body = http_body(x, &n);
    const bool ollama = strncmp(http_path(x), "/api/", 5) == 0;
    if (!server_choice_member(body, n, "model", name, sizeof name) &&
        !(ollama && server_choice_member(body, n, "name", name, sizeof name)))
        (void)query_member(http_query(x), "model", name, sizeof name);
    uint32_t i = find(any, name);
    if (i == HTTP_ANSWERED && ollama) {
        drop_tag(name);
        i = find(any, name);
    }
    if (i == HTTP_ANSWERED)
        http_reply_error(x, 404, NULL, "model", "there is no model \"%.100s\" here: this server runs %s",
                         name, server_choice_names(any, names, sizeof names));
    else
        snprintf(http_account(x)->model, sizeof http_account(x)->model, "%.63s",
                 server_model(server_at(any, i)));
    return i;
}
