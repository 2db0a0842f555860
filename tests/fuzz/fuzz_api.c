/* Any bytes as the body of a request, and as an answer to be taken apart: an error with a reason or a struct,
 * within the pool, and all of it given back. The first byte chooses. */
#include "fuzz.h"

#include "server/openai/api_request.h"
#include "server/openai/api_split.h"
#include "server/http/edge_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"chat", "completion", "template", NULL};

#define BYTES (4u << 20)

static const char source[] =
    "{% if tools %}<tool_call></tool_call>{% endif %}{{ messages }} {{ reasoning_effort }} </think>";
static struct api_model model = {.name = "m",
                                 .source = source,
                                 .source_length = sizeof source - 1,
                                 .context = 512,
                                 .vocab = 1000,
                                 .default_max_tokens = 16};

static void fail(const char *what) {
    fprintf(stderr, "fuzz_api: %s\n", what);
    abort();
}

static size_t used(void) {
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    return f.used;
}

static void ignore(void *context, const char *p, size_t n) {
    *(size_t *)context += n;
    if (n == 0 || p == NULL)
        fail("an empty piece");
}

static void call(void *context, const struct api_call *c) {
    (void)context;
    if (c->name.n == 0 || json_scan_value(c->arguments.p, c->arguments.n) != c->arguments.n)
        fail("arguments that are no JSON");
}

/* In one piece and byte by byte: the same amounts. */
static void split(const uint8_t *data, size_t size, bool thinks, const char *style_source) {
    size_t got[2][2] = {{0}};
    struct api_style style;
    api_style_find(style_source, strlen(style_source), &style);
    for (int how = 0; how < 2; how++) {
        struct api_split s;
        struct api_split_sink content = {ignore, ignore, call, &got[how][0]};
        api_split_begin(&s, &style, thinks && style.think_open[0] != '\0', true, NULL);
        for (size_t i = 0; i < size; i += how == 0 ? size : 1)
            api_split_feed(&s, &content, (const char *)data + i, how == 0 ? size : 1);
        api_split_end(&s, &content);
        got[how][1] = s.n_calls;
        if (s.failed)
            fail("no memory");
        api_split_free(&s);
    }
    if (memcmp(got[0], got[1], sizeof got[0]) != 0)
        fail("the cut changes the answer");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void *memory;
    if (memory == NULL) {
        memory = aligned_alloc(4096, BYTES);
        if (memory == NULL)
            abort();
        edge_pool_init(memory, BYTES);
        edge_pool_serve_libraries();
        api_style_find(source, sizeof source - 1, &model.style);
    }
    if (size == 0 || size > 65536)
        return 0;
    const size_t before = used();
    struct api_request r;
    struct api_failure why;
    const char *body = (const char *)data + 1;
    if (data[0] == 's' || data[0] == 't') {
        split(data + 1, size - 1, data[0] == 't', source);
        split(data + 1, size - 1, false, "tools \"parameters\" {\"name\"");
    } else if (api_request_read(data[0] == 'p'   ? API_COMPLETION
                                : data[0] == 'a' ? API_TEMPLATE
                                                 : API_CHAT,
                                body, size - 1, &model, &r, &why)) {
        if (data[0] == 'p')
            for (uint32_t i = 0; i < api_request_prompts(&r); i++) {
                const char *text;
                size_t n;
                if (api_request_prompt(&r, i, &text, &n) == NULL)
                    fail("no prompt");
            }
        else if (r.variables[0] == NULL)
            fail("no variables");
        fuzz_accepted(data[0] == 'p' ? "completion" : data[0] == 'a' ? "template" : "chat");
        api_request_free(&r);
    } else if ((why.status != 400 && why.status != 404 && why.status != 503) || why.text[0] == '\0') {
        fail("refused without a reason");
    }
    if (used() != before)
        fail("memory is not given back");
    return 0;
}
