/* What is thinking and what is said, however the text is cut into pieces. */
#include "testing.h"

#include "app/chat/chat_show.h"

struct seen {
    char thought[256], said[256];
};

static bool put(void *context, const char *text, size_t n, bool thinking) {
    struct seen *s = context;
    strncat(thinking ? s->thought : s->said, text, n);
    return true;
}

static void check(enum chat_show_style style, bool thinks, const char *text, const char *thought,
                  const char *said) {
    const size_t length = strlen(text);
    for (size_t piece = 1; piece <= length + 1; piece++) {
        struct seen seen = {{0}, {0}};
        struct chat_show s;
        chat_show_begin(&s, style, thinks, put, &seen);
        for (size_t at = 0; at < length; at += piece)
            assert_true(chat_show_feed(&s, text + at, length - at < piece ? length - at : piece));
        assert_true(chat_show_end(&s));
        if (strcmp(seen.thought, thought) != 0 || strcmp(seen.said, said) != 0)
            fail_msg("\"%s\" in pieces of %zu: thought \"%s\", said \"%s\"", text, piece, seen.thought,
                     seen.said);
    }
}

static void tags(void **state) {
    (void)state;
    check(CHAT_SHOW_TAGS, false, "<think>\nhm\n</think>\n\nYes <b>", "\nhm\n", "Yes <b>");
    check(CHAT_SHOW_TAGS, true, "hm</think>Yes", "hm", "Yes");
    check(CHAT_SHOW_TAGS, true, "a<</think</thin</think></think>", "a<</think</thin", "</think>");
    check(CHAT_SHOW_TAGS, false, " \n<think></think>Yes", "", "Yes");
    check(CHAT_SHOW_TAGS, false, "Say <think>no</think>", "", "Say <think>no</think>");
    check(CHAT_SHOW_TAGS, false, "<th", "", "<th");
    check(CHAT_SHOW_TAGS, false, "<<think>", "", "<<think>");
    check(CHAT_SHOW_TAGS, true, "never ends </thi", "never ends </thi", "");
    check(CHAT_SHOW_TAGS, false, "", "", "");
    check(CHAT_SHOW_PLAIN, false, "  <think>x</think>", "", "<think>x</think>");
}

static void channels(void **state) {
    (void)state;
    check(CHAT_SHOW_CHANNELS, false,
          "<|channel|>analysis<|message|>hm < <|end<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
          "hm < <|end", "Yes.");
    check(CHAT_SHOW_CHANNELS, false, "<|channel|>final<|message|>Yes", "", "Yes");
    check(CHAT_SHOW_CHANNELS, false, "<|channel|>analysis<|message|>cut", "cut", "");
    check(CHAT_SHOW_CHANNELS, false,
          "<|channel|>commentary to=functions.a_very_long_name_of_a_function_that_somebody_wrote "
          "<|constrain|>json<|message|>{}",
          "{}", "");
    check(CHAT_SHOW_CHANNELS, false, "no header at all", "", "");
}

static bool stop(void *context, const char *text, size_t n, bool thinking) {
    (void)text;
    (void)n;
    (void)thinking;
    return ++*(int *)context < 3;
}

static void stops(void **state) {
    (void)state;
    int calls = 0;
    struct chat_show s;
    chat_show_begin(&s, CHAT_SHOW_PLAIN, false, stop, &calls);
    assert_false(chat_show_feed(&s, "abcdef", 6));
    assert_int_equal(calls, 3);
}

static void styles(void **state) {
    (void)state;
    assert_int_equal(chat_show_style_of("a<think>", 8), CHAT_SHOW_TAGS);
    assert_int_equal(chat_show_style_of("a</think>", 9), CHAT_SHOW_TAGS);
    assert_int_equal(chat_show_style_of("a<think", 7), CHAT_SHOW_PLAIN);
    assert_int_equal(chat_show_style_of("<|channel|><think>", 18), CHAT_SHOW_CHANNELS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tags), cmocka_unit_test(channels),
                                       cmocka_unit_test(stops), cmocka_unit_test(styles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
