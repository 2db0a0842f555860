/* Any bytes as an answer in each way of writing calls: in one piece and byte by byte the same comes out,
 * calls are begun and ended in turn, and nothing is held beyond what came. The first byte chooses the
 * template. */
#include "chat/chat_parse.h"
#include "chat_families.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"content", "reasoning", "call", NULL};

static const char *const sources[] = {
    family_hermes,   family_qwen,        family_seed, family_glm,     family_minimax, family_dsml,
    family_deepseek, family_deepseek_r1, family_kimi, family_mistral, family_nemo,    family_nemotron,
    family_llama,    family_gemma,       family_lfm,  family_harmony, family_unknown};

#define FORMS (sizeof sources / sizeof sources[0])
#define MOST  65536

static void fail(const char *what) {
    fprintf(stderr, "fuzz_chat: %s\n", what);
    abort();
}

struct heard {
    uint64_t hash; /* of all that came out, cuts left out */
    char kind;
    bool in_call;
};

static void hear(struct heard *h, char kind, const char *p, size_t n) {
    if (n == 0 || p == NULL)
        fail("an empty piece");
    if (kind != 'A')
        fuzz_accepted(kind == 'T' ? "content" : kind == 'R' ? "reasoning" : "call");
    if (kind != h->kind)
        h->hash = (h->hash ^ (unsigned char)kind) * 0x100000001B3ull;
    h->kind = kind;
    for (size_t i = 0; i < n; i++)
        h->hash = (h->hash ^ (unsigned char)p[i]) * 0x100000001B3ull;
}

static void on_content(void *context, const char *p, size_t n) {
    hear(context, 'T', p, n);
}
static void on_reasoning(void *context, const char *p, size_t n) {
    hear(context, 'R', p, n);
}
static void on_call(void *context, const char *p, size_t n) {
    struct heard *h = context;
    if (h->in_call)
        fail("a call within a call");
    h->in_call = true;
    hear(h, 'C', p, n);
}
static void on_arguments(void *context, const char *p, size_t n) {
    if (!((struct heard *)context)->in_call)
        fail("arguments of no call");
    hear(context, 'A', p, n);
}
static void on_end(void *context) {
    struct heard *h = context;
    if (!h->in_call)
        fail("the end of no call");
    h->in_call = false;
    h->kind = 'E';
}

static void *resize(void *context, void *p, size_t n) {
    (void)context;
    if (n > 4 * MOST)
        fail("more is held than came");
    if (n > 0)
        return realloc(p, n);
    free(p);
    return NULL;
}

static uint64_t parse(const struct chat_form *form, bool thinks, const char *p, size_t n, size_t step) {
    static const char rows[] = "f\0\0@w\0\0@w\0city\0A";
    const struct chat_types types = {rows, sizeof rows - 1};
    struct heard h = {0};
    const struct chat_sink sink = {on_content, on_reasoning, on_call, on_arguments, on_end, &h};
    struct chat_parse s;
    chat_parse_begin(&s, form, thinks, true, &types, &sink, resize, NULL);
    for (size_t i = 0; i < n; i += step)
        chat_parse_feed(&s, p + i, n - i < step ? n - i : step);
    chat_parse_end(&s);
    if (s.failed || h.in_call)
        fail("the end is not told");
    chat_parse_free(&s);
    return h.hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct chat_form forms[FORMS];
    static bool ready;
    if (!ready) {
        const struct tm now = {.tm_year = 126, .tm_mday = 1};
        void *memory = aligned_alloc(64, CHAT_FORM_BYTES);
        if (memory == NULL)
            abort();
        for (size_t i = 0; i < FORMS; i++) {
            const struct chat_form_input in = {
                .source = sources[i], .length = strlen(sources[i]), .now = &now, .memory = memory};
            chat_form_find(&in, &forms[i]);
            if ((forms[i].tags.syntax == CHAT_UNKNOWN) != (i + 1 == FORMS))
                fail("a form is not found");
        }
        free(memory);
        ready = true;
    }
    if (size < 2 || size > MOST)
        return 0;
    const struct chat_form *form = &forms[((data[0] & 31u) + FORMS - 1) % FORMS];
    const bool thinks = data[0] >= 'A' && data[0] <= 'Z' && form->think_open[0] != '\0';
    const char *p = (const char *)data + 1;
    if (parse(form, thinks, p, size - 1, size - 1) != parse(form, thinks, p, size - 1, 1))
        fail("the cut changes the answer");
    return 0;
}
