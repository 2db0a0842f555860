#include "server/adapters/adapters.h"

#include "server/adapters/anthropic.h"
#include "server/adapters/responses.h"
#include "server/http/http.h"

void adapters_add_routes(struct server *s) {
    static const struct http_route routes[] = {
        {"POST", "/v1/messages", anthropic_messages, 0},
        {"POST", "/v1/messages/count_tokens", anthropic_count, 0},
        {"POST", "/v1/responses", responses_create, 0},
        {"POST", "/responses", responses_create, 0},
    };
    http_add_routes(s->http, routes, sizeof routes / sizeof routes[0], s->api);
    http_set_error_form(s->http, "/v1/messages", anthropic_error);
}
