/* Two files whose vocabularies differ in one thing: it is named, with both files. */
#include "testing.h"

#include "model/gguf_writer.h"
#include "model/same_vocabulary.h"

#include <string.h>

enum { TOKENS = 5 };

/* What one file says. */
struct vocabulary {
    uint32_t n;
    const char *texts[TOKENS];
    int32_t types[TOKENS];
    int64_t bos, eot; /* -1: not there */
    bool no_tokens, no_types;
};

static const struct vocabulary usual = {
    .n = 4, .texts = {"<s>", "a", "b", "ab", "c"}, .types = {3, 1, 1, 1, 1}, .bos = 0, .eot = -1};

static struct gguf *file_of(struct gguf_writer *w, char path[GGUF_WRITER_PATH], const struct vocabulary *v) {
    struct gguf *g = NULL;
    stator_error e = {0};
    *w = gguf_writer_new();
    gguf_writer_text(w, "general.architecture", "llama");
    if (!v->no_tokens)
        gguf_writer_texts(w, "tokenizer.ggml.tokens", v->n, v->texts);
    if (!v->no_types)
        gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, v->n, v->types, v->n * sizeof(int32_t));
    if (v->bos >= 0)
        gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)v->bos);
    if (v->eot >= 0)
        gguf_writer_u32(w, "tokenizer.ggml.eot_token_id", (uint32_t)v->eot);
    gguf_writer_finish(w);
    if (gguf_open(gguf_writer_memory_path(w, path), &g, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return g;
}

static void differences(void **state) {
    (void)state;
    struct vocabulary v[9];
    const char *words[] = {
        NULL,
        "4 and 5 tokens, and those beyond are not all unused ones: token 4 has another type",
        "token 2 is \"b\" and \"B\"",
        "token 3 has the type 1 and 6",
        "bos_token_id is 0 and 1",
        "only the first has tokenizer.ggml.bos_token_id",
        "only the second has tokenizer.ggml.eot_token_id",
        "only the first has tokenizer.ggml.token_type",
        "only the first has tokenizer.ggml.tokens"};
    for (size_t i = 0; i < 9; i++)
        v[i] = usual;
    v[1].n = 5;
    v[2].texts[2] = "B";
    v[3].types[3] = 6;
    v[4].bos = 1;
    v[5].bos = -1;
    v[6].eot = 2;
    v[7].no_types = true;
    v[8].no_tokens = true;
    struct gguf_writer wa, wb;
    char path_a[GGUF_WRITER_PATH], path_b[GGUF_WRITER_PATH];
    struct gguf *a = file_of(&wa, path_a, &usual);
    for (size_t i = 0; i < 9; i++) {
        struct gguf *b = file_of(&wb, path_b, &v[i]);
        stator_error e = {0};
        const stator_status st = same_vocabulary(a, b, &e);
        assert_int_equal(st, words[i] == NULL ? STATOR_OK : STATOR_USAGE);
        if (words[i] != NULL && (strstr(e.text, words[i]) == NULL || strstr(e.text, path_a) == NULL ||
                                 strstr(e.text, path_b) == NULL))
            fail_msg("no \"%s\" in: %s", words[i], e.text);
        gguf_close(b);
        gguf_writer_free(&wb);
    }
    gguf_close(a);
    gguf_writer_free(&wa);
}

/* A vocabulary that another one continues with padding is the same, whichever is first. */
static void padding(void **state) {
    (void)state;
    struct vocabulary padded = usual, untyped = usual;
    padded.n = untyped.n = 5;
    padded.types[4] = 5;
    untyped.no_types = true;
    struct vocabulary short_untyped = usual;
    short_untyped.no_types = true;
    const struct {
        const struct vocabulary *a, *b;
        const char *words;
    } pairs[] = {{&usual, &padded, NULL},
                 {&padded, &usual, NULL},
                 {&short_untyped, &untyped,
                  "4 and 5 tokens, and those beyond are not all unused ones: token 4 "
                  "has no type"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct gguf_writer wa, wb;
        char path_a[GGUF_WRITER_PATH], path_b[GGUF_WRITER_PATH];
        struct gguf *a = file_of(&wa, path_a, pairs[i].a), *b = file_of(&wb, path_b, pairs[i].b);
        stator_error e = {0};
        const stator_status st = same_vocabulary(a, b, &e);
        assert_int_equal(st, pairs[i].words == NULL ? STATOR_OK : STATOR_USAGE);
        if (pairs[i].words != NULL && strstr(e.text, pairs[i].words) == NULL)
            fail_msg("no \"%s\" in: %s", pairs[i].words, e.text);
        gguf_close(a);
        gguf_close(b);
        gguf_writer_free(&wa);
        gguf_writer_free(&wb);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(differences), cmocka_unit_test(padding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
