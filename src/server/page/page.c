#include "server/page/page.h"

#include "base/check.h"
#include "base/hash.h"
#include "server/http/http.h"
#include "server/page/page_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The browser runs only what these files are, asks only this server, and lets no other page frame it. Nothing
 * can be made a script or markup of: scripts have no way to write HTML. */
#define HEADERS                                                                                              \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "      \
    "data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "               \
    "require-trusted-types-for 'script'; trusted-types 'none'\r\n"                                           \
    "Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"                                              \
    "Cross-Origin-Resource-Policy: same-origin\r\n"                                                          \
    "Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n"

static const struct {
    const char *path, *name, *type;
} files[] = {
    {"/", "html", "text/html; charset=utf-8"},
    {"/page.css", "css", "text/css; charset=utf-8"},
    {"/page.js", "js", "text/javascript; charset=utf-8"},
    {"/page_text.js", "text", "text/javascript; charset=utf-8"},
    {"/page_code.js", "code", "text/javascript; charset=utf-8"},
    {"/page_store.js", "store", "text/javascript; charset=utf-8"},
    {"/page_map.js", "map", "text/javascript; charset=utf-8"},
    {"/page_pictures.js", "pictures", "text/javascript; charset=utf-8"},
    {"/page.svg", "icon", "image/svg+xml"},
};

static void serve(void *context, struct http_exchange *x) {
    char tag[20];
    (void)context;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        for (size_t k = 0; k < page_n_files && strcmp(files[i].path, http_path(x)) == 0; k++) {
            if (strcmp(page_files[k].name, files[i].name) != 0)
                continue;
            const char *text = page_files[k].text;
            const size_t n = strlen(text);
            snprintf(tag, sizeof tag, "%016" PRIx64, hash_of(text, n));
            http_reply_fixed(x, &(struct http_fixed){files[i].type, tag, HEADERS, text, n});
            return;
        }
    CHECK(!"a route without a file");
}

void page_add_routes(struct server *s) {
    static const struct http_route routes[] = {
        {"GET", "/", serve, HTTP_OPEN},
        {"GET", "/page.css", serve, HTTP_OPEN},
        {"GET", "/page.js", serve, HTTP_OPEN},
        {"GET", "/page_text.js", serve, HTTP_OPEN},
        {"GET", "/page_code.js", serve, HTTP_OPEN},
        {"GET", "/page_store.js", serve, HTTP_OPEN},
        {"GET", "/page_map.js", serve, HTTP_OPEN},
        {"GET", "/page_pictures.js", serve, HTTP_OPEN},
        {"GET", "/page.svg", serve, HTTP_OPEN},
    };
    http_add_routes(s->http, routes, sizeof routes / sizeof routes[0], s);
}
