/* What stands between tokens and the parser of chat/: stop strings in every cut, the bounds on JSON, and
 * memory that ends. */
#include "testing.h"

#include "server/request/api_json.h"
#include "server/openai/api_answer.h"
#include "server/request/api_text.h"
#include "server/request/api_stop.h"
#include "server/http/edge_pool.h"

static unsigned char *memory;
#define BYTES (4u << 20)

static int open_pool(void **state) {
    (void)state;
    memory = aligned_alloc(4096, BYTES);
    if (memory == NULL)
        return -1;
    edge_pool_init(memory, BYTES);
    edge_pool_serve_libraries();
    return 0;
}

struct stops {
    struct api_stops head;
    struct api_stop_text at[API_STOPS];
};

static void set_stops(struct stops *s, const char *const *texts) {
    s->head.n = 0;
    for (; *texts != NULL; texts++) {
        struct api_stop_text *to = &s->head.at[s->head.n++];
        to->n = (uint16_t)strlen(*texts);
        memcpy(to->p, *texts, to->n);
    }
}

/* By definition: the first byte at which any stop string is complete, and of those the longest. */
static size_t expected_end(const char *text, const char *const *stops) {
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t longest = 0;
        for (const char *const *t = stops; *t != NULL; t++) {
            const size_t n = strlen(*t);
            if (n <= end && n > longest && memcmp(text + end - n, *t, n) == 0)
                longest = n;
        }
        if (longest > 0)
            return end - longest;
    }
    return strlen(text);
}

static void stops_in_every_cut(void **state) {
    (void)state;
    static const char *const sets[][4] = {{"abc", NULL},       {"b", "abc", NULL}, {"aab", "ab", NULL},
                                          {"\n\n", "é", NULL}, {"aaaa", NULL},     {"x", "yx", NULL}};
    static const char *const texts[] = {"abc",          "zabcz", "aabab", "ababc", "a\n\nb", "caf\xC3\xA9!",
                                        "caf\xC3\xA8!", "aaaaa", "aaa",   "wyx",   "",       "ab"};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
            const size_t n = strlen(texts[k]), expected = expected_end(texts[k], sets[i]);
            struct stops set;
            set_stops(&set, sets[i]);
            for (size_t first = 0; first <= n; first++)
                for (size_t second = first; second <= n; second++) {
                    struct api_stop s = {.n_held = 0};
                    struct api_text out = {0};
                    const size_t cuts[] = {0, first, second, n};
                    bool goes = true;
                    for (int c = 0; c < 3; c++)
                        goes = api_stop_feed(&s, &set.head, texts[k] + cuts[c], cuts[c + 1] - cuts[c], &out);
                    api_stop_flush(&s, &out);
                    assert_int_equal(goes, !s.hit);
                    assert_int_equal(out.n, expected);
                    if (expected > 0)
                        assert_memory_equal(out.p, texts[k], expected);
                    api_text_free(&out);
                }
        }
}

/* Only what may become a stop string is held. */
static void stops_hold_no_more_than_needed(void **state) {
    (void)state;
    struct stops set;
    struct api_stop s = {.n_held = 0};
    struct api_text out = {0};
    set_stops(&set, (const char *const[]){"END", "stop", NULL});
    assert_true(api_stop_feed(&s, &set.head, "the E", 5, &out));
    assert_int_equal(out.n, 4);
    assert_true(api_stop_feed(&s, &set.head, "ast", 3, &out));
    assert_int_equal(out.n, 6); /* "st" may be the stop's */
    assert_false(api_stop_feed(&s, &set.head, "opped", 5, &out));
    assert_int_equal(out.n, 6);
    assert_memory_equal(out.p, "the Ea", 6);
    assert_false(api_stop_feed(&s, &set.head, "x", 1, &out));
    assert_int_equal(out.n, 6);
    api_text_free(&out);
}

static void json_values(void **state) {
    (void)state;
    static const char *const good[] = {"{}",
                                       "[]",
                                       "0",
                                       "-1.5e+3",
                                       "\"\\u00e9\\n\"",
                                       "true",
                                       "null",
                                       "[1, {\"a\": [ ]} ]",
                                       "{ \"a\" : 1 , \"b\":{}}"};
    static const char *const bad[] = {"",    "{",   "[1,]",   "{\"a\":}", "{\"a\" 1}", "{a: 1}", "01",
                                      "1.",  "-",   "\"\n\"", "\"\\x\"",  "\"\\u12\"", "[1 2]",  "{\"a\":1,}",
                                      "nul", "'a'", "]",      "[}",       "{]"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(json_scan_value(good[i], strlen(good[i])), strlen(good[i]));
        if (good[i][0] == '{' || good[i][0] == '[' || good[i][0] == '"')
            for (size_t n = 0; n < strlen(good[i]); n++)
                assert_int_equal(json_scan_value(good[i], n), 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (bad[i][0] != '\0' && json_scan_value(bad[i], strlen(bad[i])) == strlen(bad[i]))
            fail_msg("taken for JSON: %s", bad[i]);
    char deep[2 * JSON_SCAN_DEPTH + 4];
    memset(deep, '[', sizeof deep);
    memset(deep + JSON_SCAN_DEPTH, ']', JSON_SCAN_DEPTH);
    assert_int_equal(json_scan_value(deep, 2 * JSON_SCAN_DEPTH), 2 * JSON_SCAN_DEPTH);
    memset(deep, '[', JSON_SCAN_DEPTH + 1);
    memset(deep + JSON_SCAN_DEPTH + 1, ']', JSON_SCAN_DEPTH + 1);
    assert_int_equal(json_scan_value(deep, 2 * JSON_SCAN_DEPTH + 2), 0);
    uint32_t depth = 0;
    uint64_t values = 0;
    static const char measured[] = "{\"a\": [1, 2, {\"b\": \"[[[,,,\\\"\"}]}";
    api_json_measure(measured, sizeof measured - 1, &depth, &values);
    assert_int_equal(depth, 3);
    assert_true(values >= 7 && values <= 9);
}

static void refuse_piece(void *context, const char *p, size_t n) {
    (void)context;
    fail_msg("told: %.*s", (int)n, p);
}

static void refuse_end(void *context) {
    (void)context;
}

/* No memory for what is held back: said, never a crash, never a part told as the whole; and given back. */
static void memory_ends(void **state) {
    (void)state;
    static unsigned char small[8192] __attribute__((aligned(4096)));
    static const struct chat_sink sink = {refuse_piece, refuse_piece, refuse_piece,
                                          refuse_piece, refuse_end,   NULL};
    const struct chat_form form = {
        .tags = {.syntax = CHAT_JSON, .section_open = "<tool_call>", .section_close = "</tool_call>"}};
    struct edge_pool_figures before, after;
    struct api_answer a;
    edge_pool_init(small, sizeof small);
    edge_pool_get_figures(&before);
    api_answer_begin(&a, &form, false, true, NULL, &sink, false);
    chat_parse_feed(&a.parse, "<tool_call>{\"name\": \"", 22);
    for (int i = 0; i < 1000; i++)
        chat_parse_feed(&a.parse, "          ", 10);
    chat_parse_end(&a.parse);
    assert_true(api_answer_failed(&a));
    api_answer_free(&a);
    edge_pool_get_figures(&after);
    assert_int_equal(after.used, before.used);
    edge_pool_init(memory, BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_values),
        cmocka_unit_test(stops_in_every_cut),
        cmocka_unit_test(stops_hold_no_more_than_needed),
        cmocka_unit_test(memory_ends),
    };
    return cmocka_run_group_tests(tests, open_pool, NULL);
}
