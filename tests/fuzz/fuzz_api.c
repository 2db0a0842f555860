/* Any bytes as the body of a request: an error with a reason or a struct, within the pool, and all of it
 * given back. The first byte chooses the endpoint. */
#include "chat_families.h"
#include "fuzz.h"

#include "server/adapters/anthropic.h"
#include "server/adapters/llama_server.h"
#include "server/adapters/ollama.h"
#include "server/adapters/responses.h"
#include "server/request/api_vectors.h"
#include "server/http/edge_pool.h"
#include "server/http/http_fetch.h"
#include "server/server_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"chat",   "completion", "template", "anthropic",  "responses",
                                  "ollama", "generate",   "infill",   "embeddings", "embed",
                                  "prompt", "scores",     NULL};

#define BYTES (4u << 20)

static const char source[] = CHAT_FAMILIES_HERMES "{# reasoning_effort #}";
static struct http_fetch_hosts image_hosts = {.n = 1, .at = {{.name = "a.example", .port = 80}}};
static struct api_model model = {.name = "m",
                                 .source = source,
                                 .source_length = sizeof source - 1,
                                 .context = 512,
                                 .vocab = 1000,
                                 .infills = true,
                                 .marker = "[IMG]",
                                 .marker_length = 5,
                                 .pictures = 4,
                                 .image_hosts = &image_hosts,
                                 .default_max_tokens = 16};

static const struct kind {
    char first;
    const char *name;
    enum api_endpoint endpoint;
    api_translate *translate;
} kinds[] = {{'c', "chat", API_CHAT, NULL}, /* and every other byte */
             {'p', "completion", API_COMPLETION, NULL},
             {'a', "template", API_TEMPLATE, NULL},
             {'m', "anthropic", API_CHAT, anthropic_translate},
             {'r', "responses", API_CHAT, responses_translate},
             {'o', "ollama", API_CHAT, ollama_translate_chat},
             {'g', "generate", API_CHAT, ollama_translate_generate},
             {'i', "infill", API_CHAT, llama_translate_infill}};

/* Requests for vectors. */
static const struct {
    char first;
    const char *name;
    enum api_vectors_kind kind;
} vectors[] = {{'e', "embeddings", API_EMBEDDINGS},
               {'b', "embed", API_OLLAMA_EMBEDDINGS},
               {'q', "prompt", API_OLLAMA_PROMPT},
               {'s', "scores", API_SCORES}};

static const struct kind *kind_of(char first) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].first == first)
            return &kinds[i];
    return &kinds[0];
}

static void fail(const char *what) {
    fprintf(stderr, "fuzz_api: %s\n", what);
    abort();
}

static size_t used(void) {
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    return f.used;
}

static void check_refusal(const struct api_failure *why) {
    if ((why->status != 400 && why->status != 404 && why->status != 503) || why->text[0] == '\0')
        fail("refused without a reason");
}

/* False: the first byte is none of theirs. */
static bool try_vectors(const char *data, size_t size) {
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
        struct api_vectors_request r;
        struct api_failure why;
        if (vectors[v].first != data[0])
            continue;
        if (!api_vectors_read(vectors[v].kind, data + 1, size - 1, &model, api_request_names_model, &r,
                              &why)) {
            check_refusal(&why);
            return true;
        }
        if (r.n == 0 || r.n > API_INPUTS || r.top_n == 0 || r.top_n > r.n)
            fail("wrong counts");
        for (uint32_t i = 0; i < r.n; i++) {
            const char *text = NULL;
            size_t n = 0;
            if (!json_is_array(api_vectors_item(&r, i, &text, &n)) && text == NULL)
                fail("no text");
        }
        fuzz_accepted(vectors[v].name);
        api_vectors_free(&r);
        return true;
    }
    return false;
}

struct member {
    const char *body;
    size_t n;
    bool whole, equal; /* the body is an object; its model is what server_choice_member found */
};

static void compare_member(void *context) {
    struct member *m = context;
    char found[65536] = "";
    const bool have = server_choice_member(m->body, m->n, "model", found, sizeof found);
    json_t *all = json_loadb(m->body, m->n, JSON_REJECT_DUPLICATES, NULL);
    const char *name = json_string_value(json_object_get(all, "model"));
    m->whole = json_is_object(all);
    m->equal = have == (name != NULL) && (name == NULL || strcmp(name, found) == 0);
    json_decref(all);
}

/* Which model a body names is found without building its JSON; names have no escapes. */
static void check_choice(const char *body, size_t n) {
    struct member m = {.body = body, .n = n};
    char small[4];
    (void)server_choice_member(body, n, "model", small, sizeof small);
    if (edge_pool_try_json(compare_member, &m) && m.whole && memchr(body, '\\', n) == NULL && !m.equal)
        fail("another model is found than the body names");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void *memory;
    if (memory == NULL) {
        memory = aligned_alloc(4096, BYTES);
        if (memory == NULL)
            abort();
        edge_pool_init(memory, BYTES);
        edge_pool_serve_libraries();
        if (api_form_find(&model, NULL) != STATOR_OK)
            fail("no form");
    }
    if (size == 0 || size > 65536)
        return 0;
    const size_t before = used();
    check_choice((const char *)data + 1, size - 1);
    if (try_vectors((const char *)data, size)) {
        if (used() != before)
            fail("memory is not given back");
        return 0;
    }
    struct api_request r;
    struct api_failure why;
    const char *body = (const char *)data + 1;
    const struct kind *k = kind_of((char)data[0]);
    if (k->translate != NULL ? api_request_read_other(k->translate, body, size - 1, &model, &r, &why)
                             : api_request_read(k->endpoint, body, size - 1, &model, &r, &why)) {
        if (r.endpoint == API_COMPLETION)
            for (uint32_t i = 0; i < api_request_prompts(&r); i++) {
                const char *text;
                size_t n;
                if (api_request_prompt(&r, i, &text, &n) == NULL)
                    fail("no prompt");
            }
        else if (r.variables[0] == NULL)
            fail("no variables");
        fuzz_accepted(k->name);
        api_request_free(&r);
    } else {
        check_refusal(&why);
    }
    if (used() != before)
        fail("memory is not given back");
    return 0;
}
