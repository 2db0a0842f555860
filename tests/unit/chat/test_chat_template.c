/* What the engine tells of a model's chat template. */
#include "testing.h"
#include "tiny_model.h"
#include "tiny_vocab.h"

#include "stator.h"

static stator *open_set(const char *config, const char *set) {
    stator_options o = {.size = sizeof o, .config = config, .set = &set, .n_set = set != NULL};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return s;
}

static void none(void **state) {
    (void)state;
    stator *s = open_set("configs/demo.gguf", NULL);
    stator_chat_template t = {.size = sizeof t};
    assert_int_equal(stator_get_chat_template(s, &t, NULL), STATOR_OK);
    assert_null(t.text);
    assert_int_equal(t.length, 0);
    assert_string_equal(t.file, "");
    assert_int_equal(t.bos_length, 3);
    assert_memory_equal(t.bos, "<s>", 3);
    assert_int_equal(t.eos_length, 4);
    assert_memory_equal(t.eos, "</s>", 4);
    stator_close(s);
}

static void of_a_model(void **state) {
    (void)state;
    const char *const bodies[] = {"{{ messages[0].content }}", ""};
    for (int i = 0; i < 2; i++) {
        struct gguf_writer w = gguf_writer_new();
        struct tiny_vocab *v = malloc(sizeof *v);
        assert_non_null(v);
        struct tiny_model m = tiny_model_of("llama");
        tiny_vocab_spm(v, &w);
        m.vocab = v->n;
        gguf_writer_text(&w, "tokenizer.chat_template", bodies[i]);
        gguf_writer_u32(&w, "tokenizer.ggml.eos_token_id", 2);
        tiny_model_write(&w, m);
        char path[GGUF_WRITER_PATH];
        assert_true(gguf_writer_finish(&w));
        assert_non_null(gguf_writer_memory_path(&w, path));
        stator *s = open_set(path, "chat.template=/nowhere/t.jinja");
        stator_chat_template t = {.size = sizeof t};
        assert_int_equal(stator_get_chat_template(s, &t, NULL), STATOR_OK);
        assert_non_null(t.text);
        assert_int_equal(t.length, strlen(bodies[i]));
        assert_memory_equal(t.text, bodies[i], t.length);
        assert_string_equal(t.file, "/nowhere/t.jinja");
        assert_int_equal(t.bos_length, 0);
        assert_int_equal(t.eos_length, 4);
        assert_memory_equal(t.eos, "</s>", 4);
        stator_close(s);
        gguf_writer_free(&w);
        free(v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(none), cmocka_unit_test(of_a_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
