/* JSON that jansson alone does not take: numbers beyond its own, halves of surrogate pairs, \u0000; and all
 * other JSON as jansson reads it. */
#include "testing.h"

#include "chat/chat_json.h"
#include "chat/jinja.h"

static json_t *load(const char *text) {
    json_error_t e;
    return chat_json_load(text, strlen(text), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e);
}

static void long_numbers_stay_as_written(void **state) {
    (void)state;
    static const char *const long_ones[] = {"9223372036854775808",
                                            "-9223372036854775809",
                                            "12345678901234567890",
                                            "18446744073709551615",
                                            "1e400",
                                            "-1.5E+999",
                                            "1e99999999999"};
    for (size_t i = 0; i < sizeof long_ones / sizeof long_ones[0]; i++) {
        size_t n = 0;
        json_t *v = load(long_ones[i]);
        const char *text = chat_json_long_number(v, &n);
        assert_non_null(text);
        assert_int_equal(n, strlen(long_ones[i]));
        assert_string_equal(text, long_ones[i]);
        assert_false(chat_json_is_text(v));
        json_decref(v);
    }
    char digits[5000];
    memset(digits, '7', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    json_t *v = load(digits);
    size_t n = 0;
    assert_string_equal(chat_json_long_number(v, &n), digits);
    json_decref(v);
    static const char *const usual[] = {
        "9223372036854775807", "-9223372036854775808", "1e308", "1e-400", "0", "-0.0"};
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        v = load(usual[i]);
        json_t *same = json_loads(usual[i], JSON_DECODE_ANY, NULL);
        assert_true(json_is_number(v) && json_equal(v, same));
        json_decref(v);
        json_decref(same);
    }
}

static void halves_and_nul_become_the_unknown_character(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {{"\"a\\ud800b\"", "a\xEF\xBF\xBD"
                                   "b"},
                 {"\"\\udfff\"", "\xEF\xBF\xBD"},
                 {"\"\\ud83e\\udd99\"", "\xF0\x9F\xA6\x99"},
                 {"\"\\ud800\\ud83e\\udd99\"", "\xEF\xBF\xBD\xF0\x9F\xA6\x99"},
                 {"\"x\\u0000y\"", "x\xEF\xBF\xBDy"},
                 {"\"\\u0000\"", "\xEF\xBF\xBD"},
                 {"\"\\\\u0000\"", "\\u0000"},
                 {"\"\\\\\\u0000\"", "\\\xEF\xBF\xBD"},
                 {"\"\\\"\\u0041 1e400\"", "\"A 1e400"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *v = load(cases[i].text);
        assert_true(chat_json_is_text(v));
        assert_string_equal(json_string_value(v), cases[i].says);
        assert_int_equal(json_string_length(v), strlen(cases[i].says));
        json_decref(v);
    }
}

static void what_is_no_json_stays_none(void **state) {
    (void)state;
    static const char *const cases[] = {"01234567890123456789012",
                                        "12345678901234567890.",
                                        "1e",
                                        "--1",
                                        "+1e400",
                                        "\"\\u00",
                                        "\"\\ud8",
                                        "\"\\",
                                        "\"",
                                        "{\"a\":1,\"a\":2}",
                                        "[1e400",
                                        "",
                                        "99999999999999999999x",
                                        "1e400e1",
                                        "\"\\uD800\\u\"",
                                        "\"\x01\""};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_error_t e;
        assert_null(chat_json_load(cases[i], strlen(cases[i]), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e));
        assert_true(e.text[0] != '\0');
    }
}

/* Templates print them as they were written. */
static void templates_print_long_numbers(void **state) {
    (void)state;
    static const char source[] =
        "{{ x|tojson }} {{ x.a }} {{ x.a is integer }} {{ x.b is integer }} {{ x.a is number }}";
    static const char given[] = "{\"x\": {\"a\": 12345678901234567890, \"b\": 1e400, \"c\": \"\\u0000\"}}";
    json_t *v = load(given);
    void *memory = aligned_alloc(64, 1 << 16);
    const char *text = NULL;
    size_t n = 0;
    stator_error e = {0};
    const struct jinja_input in = {.source = source, .length = sizeof source - 1, .variables = v};
    assert_int_equal(jinja_render(&in, memory, 1 << 16, &text, &n, &e), STATOR_OK);
    static const char expected[] = "{\"a\": 12345678901234567890, \"b\": 1e400, \"c\": \"\xEF\xBF\xBD\"} "
                                   "12345678901234567890 True False True";
    assert_int_equal(n, sizeof expected - 1);
    assert_memory_equal(text, expected, n);
    free(memory);
    json_decref(v);
}

static void collect(void *context, const char *p, size_t n) {
    strncat(context, p, n);
}

static void values_are_written(void **state) {
    (void)state;
    static const char *const same[] = {
        "{\"a\": [1, 1.0, 0.1, -2.5e-300, 12345678901234567890, 1e400], \"b\": {}}",
        "[true, false, null, \"\", [], \"\\n\\u0001\\\"\\\\\"]", "\"x\""};
    char out[8192];
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        json_t *v = load(same[i]);
        assert_non_null(v);
        out[0] = '\0';
        chat_json_write(v, collect, out);
        assert_string_equal(out, same[i]);
        json_decref(v);
    }
    /* Long texts of characters of every length, at every offset. */
    for (size_t offset = 0; offset < 4; offset++) {
        char text[4096];
        size_t n = offset;
        memset(text, 'x', n);
        while (n < 2000)
            n += (size_t)sprintf(text + n, "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
        json_t *v = json_stringn(text, n);
        assert_non_null(v);
        out[0] = '\0';
        chat_json_write(v, collect, out);
        json_t *again = load(out);
        assert_true(json_equal(v, again));
        json_decref(again);
        json_decref(v);
    }
    /* Depth is bounded. */
    memset(out, 0, sizeof out);
    memset(out, '[', 500);
    memset(out + 500, ']', 500);
    json_t *deep = load(out);
    assert_non_null(deep);
    out[0] = '\0';
    chat_json_write(deep, collect, out);
    assert_non_null(strstr(out, "[null]"));
    json_decref(deep);
}

static void values_are_compared(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } all[] = {{"{\"a\": 1, \"b\": [1.0, \"x\"]}", "{\"b\": [1, \"x\"], \"a\": 1}", true},
               {"12345678901234567890", "12345678901234567000", true},
               {"1e400", "1e400", true},
               {"1e400", "1e401", false},
               {"[1, 2]", "[2, 1]", false},
               {"{\"a\": 1}", "{\"a\": 1, \"b\": 1}", false},
               {"{\"a\": 1}", "{\"b\": 1}", false},
               {"1", "\"1\"", false},
               {"true", "false", false}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        json_t *a = load(all[i].a), *b = load(all[i].b);
        assert_int_equal(chat_json_same(a, b), all[i].same);
        assert_int_equal(chat_json_same(b, a), all[i].same);
        json_decref(a);
        json_decref(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_numbers_stay_as_written),
        cmocka_unit_test(halves_and_nul_become_the_unknown_character),
        cmocka_unit_test(what_is_no_json_stays_none),
        cmocka_unit_test(templates_print_long_numbers),
        cmocka_unit_test(values_are_written),
        cmocka_unit_test(values_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
