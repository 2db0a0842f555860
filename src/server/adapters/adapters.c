#include "server/adapters/adapters.h"

#include "server/adapters/anthropic.h"
#include "server/adapters/llama_server.h"
#include "server/adapters/ollama.h"
#include "server/adapters/responses.h"
#include "server/http/http.h"

void adapters_add_routes(struct server *s) {
    static const struct http_route routes[] = {
        {"POST", "/v1/messages", anthropic_messages, 0},
        {"POST", "/v1/messages/count_tokens", anthropic_count, 0},
        {"POST", "/v1/responses", responses_create, 0},
        {"POST", "/responses", responses_create, 0},
        {"POST", "/completion", llama_completion, 0},
        {"POST", "/infill", llama_infill, 0},
        {"POST", "/api/chat", ollama_chat, 0},
        {"POST", "/api/generate", ollama_generate, 0},
        {"POST", "/api/embed", ollama_embed, 0},
        {"POST", "/api/embeddings", ollama_embeddings, 0},
        {"GET", "/api/tags", ollama_tags, 0},
        {"GET", "/api/ps", ollama_ps, 0},
        {"POST", "/api/show", ollama_show, 0},
        {"GET", "/api/version", ollama_version, 0},
    };
    http_add_routes(s->http, routes, sizeof routes / sizeof routes[0], s->api);
    http_set_error_form(s->http, "/v1/messages", anthropic_error);
    http_set_error_form(s->http, "/api", ollama_error);
}
