/* Who plans hears what who runs would: that a model's tokenizer can't be used, and why. */
#include "engine_harness.h"

#include "tiny_model.h"
#include "tiny_vocab.h"

static char log_text[8192];

static void keep(void *context, stator_log_level level, const char *line) {
    (void)context;
    if (level == STATOR_LOG_WARN)
        snprintf(log_text + strlen(log_text), sizeof log_text - strlen(log_text), "%s\n", line);
}

/* Warnings of planning (described: to plan only) or starting a tiny model with the tokenizer that v is. */
static void warnings_of(struct tiny_vocab *v, bool described) {
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    struct tiny_model m = tiny_model_of("llama");
    if (v != NULL) {
        m.vocab = v->n;
        tiny_vocab_write(v, &w, "llama");
    }
    tiny_model_write(&w, m);
    gguf_writer_finish(&w);
    stator_options o = {.size = sizeof o,
                        .config = gguf_writer_memory_path(&w, path),
                        .set =
                            (const char *const[]){"memory.context=32", "memory.batch=16", "devices.use=cpu"},
                        .n_set = 3,
                        .log = keep,
                        .described = described};
    stator *s = NULL;
    stator_error e = {0};
    log_text[0] = '\0';
    if (stator_open(&o, &s, &e) != STATOR_OK || (described ? stator_plan : stator_start)(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    stator_close(s);
    gguf_writer_free(&w);
}

static struct tiny_vocab good(void) {
    static struct tiny_vocab v;
    struct gguf_writer unused = gguf_writer_new();
    tiny_vocab_spm(&v, &unused);
    gguf_writer_free(&unused);
    return v;
}

static void plan_and_run_agree(void **state) {
    (void)state;
    struct tiny_vocab v = good();
    for (int described = 0; described <= 1; described++) {
        warnings_of(&v, described);
        assert_string_equal(log_text, "");
        warnings_of(NULL, described);
        assert_non_null(strstr(log_text, "only token ids"));
        assert_non_null(strstr(log_text, "tokenizer.ggml.model"));
        /* What only shows when the tables are filled. */
        struct tiny_vocab twice = good();
        memcpy(twice.texts[270], twice.texts[271], sizeof twice.texts[0]);
        warnings_of(&twice, described);
        assert_non_null(strstr(log_text, "only token ids"));
        assert_non_null(strstr(log_text, "tokens 270 and 271 have the same text"));
    }
}

/* A vocabulary without byte tokens: nothing of a text vanishes silently. */
static void unknown_is_told(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    struct tiny_vocab v = {.n = 0};
    tiny_vocab_add(&v, "<unk>", 2, 0);
    tiny_vocab_add(&v, "<s>", 3, 0);
    tiny_vocab_add(&v, "</s>", 3, 0);
    tiny_vocab_add(&v, "▁", 1, -1);
    tiny_vocab_add(&v, "a", 1, -2);
    tiny_vocab_write(&v, &w, "llama");
    tiny_model_write(&w, tiny_model_of("llama"));
    gguf_writer_finish(&w);
    stator_options o = {.size = sizeof o, .config = gguf_writer_memory_path(&w, path), .log = keep};
    o.set = (const char *const[]){"memory.context=32", "memory.batch=16", "devices.use=cpu"};
    o.n_set = 3;
    stator *s = NULL;
    stator_error e = {0};
    int32_t ids[16];
    size_t n = 0;
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_prepare(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    log_text[0] = '\0';
    assert_int_equal(stator_tokenize(s, "aa", 2, 1, 1, ids, 16, &n, &e), STATOR_OK);
    assert_string_equal(log_text, "");
    assert_int_equal(stator_tokenize(s, "aqqa", 4, 1, 1, ids, 16, &n, &e), STATOR_OK);
    assert_int_equal(n, 6); /* BOS, the blank, a, two unknown ones, a */
    assert_non_null(strstr(log_text, "the unknown token stands 2 times"));
    stator_close(s);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plan_and_run_agree),
                                       cmocka_unit_test(unknown_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
