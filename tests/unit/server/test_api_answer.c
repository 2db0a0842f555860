/* Answers taken apart: stop strings, reasoning, calls of tools; every text in every cut, so that what comes
 * out does not depend on how tokens divide it. And the JSON that calls are written in. */
#include "testing.h"

#include "server/openai/api_json.h"
#include "server/openai/api_split.h"
#include "server/openai/api_stop.h"
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

static size_t used(void) {
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    return f.used;
}

/* What came out, as one line: R(..) reasoning, T(..) content, C(name args); neighbours of a kind joined. */
struct out {
    char text[4096];
    size_t n;
    char kind;
};

static void put(struct out *o, char kind, const char *p, size_t n) {
    if (o->kind != kind || kind == 'C') {
        o->n +=
            (size_t)snprintf(o->text + o->n, sizeof o->text - o->n, "%s%c(", o->kind != 0 ? ")" : "", kind);
        o->kind = kind;
    }
    assert_true(o->n + n + 2 < sizeof o->text);
    memcpy(o->text + o->n, p, n);
    o->n += n;
    o->text[o->n] = '\0';
}

static void on_content(void *context, const char *p, size_t n) {
    assert_true(n > 0);
    put(context, 'T', p, n);
}

static void on_reasoning(void *context, const char *p, size_t n) {
    assert_true(n > 0);
    put(context, 'R', p, n);
}

static void on_call(void *context, const struct api_call *call) {
    char whole[2048];
    int n = snprintf(whole, sizeof whole, "%.*s %.*s", (int)call->name.n, call->name.p,
                     (int)call->arguments.n, call->arguments.p);
    put(context, 'C', whole, (size_t)n);
}

static const char hermes[] = "{% if tools %}<tool_call>{\"name\": ..}</tool_call>{% endif %}";
static const char thinking[] = "{% if tools %}<tool_call></tool_call>{% endif %} x.split('</think>')";
static const char llama[] = "{% if tools is not none %}{\"name\": \"f\", \"parameters\": {}}";
static const char granite[] = "{%- if tools %} respond with <|tool_call|> and {\"name\"";
static const char plain[] = "{{ messages }}";

struct one {
    const char *template;
    bool thinks, tools;
    const char *text, *expected;
};

static void check_cut(const struct one *c, const struct api_style *style,
                      const struct api_string_params *strings, size_t first, size_t second) {
    struct out o = {.n = 0};
    struct api_split_sink sink = {on_content, on_reasoning, on_call, &o};
    struct api_split s;
    const size_t n = strlen(c->text), before = used();
    api_split_begin(&s, style, c->thinks, c->tools, strings);
    if (first == 0) { /* byte by byte */
        for (size_t i = 0; i < n; i++)
            api_split_feed(&s, &sink, c->text + i, 1);
    } else {
        api_split_feed(&s, &sink, c->text, first);
        api_split_feed(&s, &sink, c->text + first, second - first);
        api_split_feed(&s, &sink, c->text + second, n - second);
    }
    api_split_end(&s, &sink);
    api_split_free(&s);
    assert_int_equal(used(), before);
    snprintf(o.text + o.n, sizeof o.text - o.n, "%s", o.kind != 0 ? ")" : "");
    if (strcmp(o.text, c->expected) != 0)
        fail_msg("\"%s\", cut at %zu and %zu:\n  got      %s\n  expected %s", c->text, first, second, o.text,
                 c->expected);
}

#define CALL "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 0.10, \"s\": \"}</\"}}\n</tool_call>"

static const struct one cases[] = {
    {plain, false, false, "  Hello <think> you </think>\n", "T(  Hello <think> you </think>\n)"},
    {plain, false, true, "<tool_call>{}</tool_call>", "T(<tool_call>{}</tool_call>)"},
    /* reasoning */
    {thinking, false, false, "<think>\nwhy\nnot\n</think>\n\nBecause.\n", "R(why\nnot)T(Because.\n)"},
    {thinking, true, false, "\n a b \n</think>c", "R(a b)T(c)"},
    {thinking, true, false, "never ends\n", "R(never ends\n)"},
    {thinking, true, false, "almost </thin k></think>", "R(almost </thin k>)"},
    {thinking, false, false, "<think></think>\nx </think> y", "T(x </think> y)"},
    {thinking, false, false, " \n<thin king>", "T( \n<thin king>)"},
    {thinking, false, false, "no <think>tags</think>", "T(no <think>tags</think>)"},
    {thinking, false, false, "  ", "T(  )"},
    {thinking, false, false, "<thi", "T(<thi)"},
    /* <tool_call> around JSON */
    {hermes, false, true, CALL, "C(f {\"x\": 0.10, \"s\": \"}</\"})"},
    {hermes, false, true, "Let me see.\n" CALL, "T(Let me see.)C(f {\"x\": 0.10, \"s\": \"}</\"})"},
    {hermes, false, true, CALL "\n" CALL,
     "C(f {\"x\": 0.10, \"s\": \"}</\"})C(f {\"x\": 0.10, \"s\": \"}</\"})"},
    {hermes, false, true, CALL "\nDone", "C(f {\"x\": 0.10, \"s\": \"}</\"})T(Done)"},
    {hermes, false, false, CALL, "T(" CALL ")"},
    {hermes, false, true, "<tool_call>{\"name\": \"g\", \"arguments\": \"{\\\"a\\\": [1]}\"}",
     "C(g {\"a\": [1]})"},
    {hermes, false, true, "a <tool_call>{\"name\": \"f\", \"arguments\": {\"x\": }}</tool_call> b",
     "T(a <tool_call>{\"name\": \"f\", \"arguments\": {\"x\": }}</tool_call> b)"},
    {hermes, false, true, "<tool_call>{\"name\": \"f\"", "T(<tool_call>{\"name\": \"f\")"},
    {hermes, false, true, "<tool_call>{\"name\": 3, \"arguments\": {}}</tool_call>",
     "T(<tool_call>{\"name\": 3, \"arguments\": {}}</tool_call>)"},
    {hermes, false, true, "x \n <tool_cal", "T(x \n <tool_cal)"},
    {thinking, false, true, "<think>call?</think>\n" CALL, "R(call?)C(f {\"x\": 0.10, \"s\": \"}</\"})"},
    {thinking, true, true, "<tool_call></think>ok", "R(<tool_call>)T(ok)"},
    /* and around XML */
    {hermes, false, true,
     "<tool_call>\n<function=w>\n<parameter=city>\nNew\nYork\n</parameter>\n<parameter=zip>\n10001\n</"
     "parameter>\n"
     "<parameter=n>\n 7 \n</parameter>\n<parameter=q>\n\"x\"\n</parameter>\n</function>\n</tool_call>",
     "C(w {\"city\": \"New\\nYork\", \"zip\": \"10001\", \"n\": 7, \"q\": \"\\\"x\\\"\"})"},
    {hermes, false, true, "<tool_call><function=w></function></tool_call>", "C(w {})"},
    {hermes, false, true, "<tool_call><function=w><parameter=a>1</function></tool_call>",
     "T(<tool_call><function=w><parameter=a>1</function></tool_call>)"},
    /* the whole answer is JSON */
    {llama, false, true, "{\"name\": \"f\", \"parameters\": {\"a\": \"}\"}}", "C(f {\"a\": \"}\"})"},
    {llama, false, true, " <|python_tag|>{\"name\": \"f\", \"parameters\": {}}\n", "C(f {})"},
    {llama, false, true, "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
     "C(f {})C(g {})"},
    {llama, false, true, "{\"name\": \"f\", \"parameters\": {}}\n{\"name\": \"g\", \"parameters\": {}}",
     "C(f {})C(g {})"},
    {llama, false, true, "{\"answer\": 1} and more", "T({\"answer\": 1} and more)"},
    {llama, false, true, "{\"name\": \"f\", \"parameters\": {}} is a call",
     "T({\"name\": \"f\", \"parameters\": {}} is a call)"},
    {llama, false, true, "{\"name\": \"f\", \"parameters\": {", "T({\"name\": \"f\", \"parameters\": {)"},
    {llama, false, true, "Hi {}", "T(Hi {})"},
    {llama, false, true, " \n", "T( \n)"},
    /* a list behind a tag */
    {granite, false, true,
     "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
     "C(f {})C(g {})"},
    {granite, false, true, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}},",
     "T(<|tool_call|>[{\"name\": \"f\", \"arguments\": {}},)"},
    {granite, false, true, "<|tool_call|>[]", "T(<|tool_call|>[])"},
};

static void every_cut_gives_the_same(void **state) {
    (void)state;
    struct api_string_params strings = {{0}};
    static const char names[] = "w\0city\0w\0zip\0v\0n";
    api_text_put(&strings.names, names, sizeof names);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct one *c = &cases[i];
        struct api_style style;
        api_style_find(c->template, strlen(c->template), &style);
        const size_t n = strlen(c->text);
        check_cut(c, &style, &strings, 0, 0);
        for (size_t first = 1; first <= n; first++)
            for (size_t second = first; second <= n; second += n > 60 ? 7 : 1)
                check_cut(c, &style, &strings, first, second);
    }
    api_text_free(&strings.names);
}

/* Without reasoning, and without tools, the text comes out as it is and at once. */
static void nothing_is_held_back_without_need(void **state) {
    (void)state;
    struct out o = {.n = 0};
    struct api_split_sink sink = {on_content, on_reasoning, on_call, &o};
    struct api_style style;
    struct api_split s;
    api_style_find(hermes, strlen(hermes), &style);
    api_split_begin(&s, &style, false, false, NULL);
    api_split_feed(&s, &sink, " <tool_c", 8);
    assert_string_equal(o.text, "T( <tool_c");
    api_split_begin(&s, &style, false, true, NULL);
    o = (struct out){.n = 0};
    api_split_feed(&s, &sink, "text <b> <tool", 14);
    assert_string_equal(o.text, "T(text <b>");
    api_split_free(&s);
    api_style_find(thinking, strlen(thinking), &style);
    api_split_begin(&s, &style, true, false, NULL);
    o = (struct out){.n = 0};
    api_split_feed(&s, &sink, "so far </", 9);
    assert_string_equal(o.text, "R(so far");
    api_split_free(&s);
}

static void templates_tell_their_style(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum api_calls_kind calls;
        const char *think;
        bool tools;
    } real[] = {{"Qwen-Qwen3-0.6B", API_CALLS_TAGGED, "<think>", true},
                {"Qwen-Qwen2.5-7B-Instruct", API_CALLS_TAGGED, "", true},
                {"Qwen3.5-4B", API_CALLS_TAGGED, "<think>", true},
                {"meta-llama-Llama-3.1-8B-Instruct", API_CALLS_JSON, "", true},
                {"meta-llama-Llama-3.2-3B-Instruct", API_CALLS_JSON, "", true},
                {"ibm-granite-granite-3.3-2B-Instruct", API_CALLS_LISTED, "<think>", true},
                {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", API_CALLS_UNKNOWN, "<think>", false},
                {"HuggingFaceTB-SmolLM3-3B", API_CALLS_UNKNOWN, "<think>", false},
                {"Mistral-Small-3.2-24B-Instruct-2506", API_CALLS_UNKNOWN, "", true},
                {"google-gemma-2-2b-it", API_CALLS_UNKNOWN, "", false},
                {"microsoft-Phi-3.5-mini-instruct", API_CALLS_UNKNOWN, "", false}};
    TESTING_NEED_SHARED("templates");
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        char path[256];
        size_t n = 0;
        struct api_style style;
        snprintf(path, sizeof path, "templates/%s.jinja", real[i].name);
        char *source = testing_read_file(testing_shared(path), &n);
        api_style_find(source, n, &style);
        free(source);
        if (style.calls != real[i].calls || style.uses_tools != real[i].tools ||
            strcmp(style.think_open, real[i].think) != 0)
            fail_msg("%s: calls %d, tools %d, \"%s\"", path, (int)style.calls, style.uses_tools,
                     style.think_open);
    }
    struct api_style style;
    static const char upper[] = "[THINK]..[/THINK] </b>";
    api_style_find(upper, strlen(upper), &style);
    assert_string_equal(style.think_open, "[THINK]");
    assert_string_equal(style.think_close, "[/THINK]");
    assert_true(api_style_thinks(&style, "x[THINK]\n", 9));
    assert_false(api_style_thinks(&style, "x[THINK]\n[/THINK]", 17));
    assert_false(api_style_thinks(&style, "", 0));
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
    struct api_slice v;
    static const char object[] = "{\"a\": {\"b\": 1}, \"b\": \"x,\\\"y\", \"c\": [2]}";
    assert_true(api_json_member(object, sizeof object - 1, "b", &v));
    assert_true(api_slice_is(v, "\"x,\\\"y\""));
    assert_true(api_json_member(object, sizeof object - 1, "c", &v));
    assert_false(api_json_member(object, sizeof object - 1, "d", &v));
    struct api_text out = {0};
    static const char escaped[] = "\"a\\u00e9\\ud83d\\ude00\\u4e2d\\n\\/\"";
    assert_true(api_json_string(escaped, sizeof escaped - 1, &out));
    assert_int_equal(out.n, 12);
    assert_memory_equal(out.p, "a\xC3\xA9\xF0\x9F\x98\x80\xE4\xB8\xAD\n/", 12);
    static const char *const halves[] = {"\"\\ud83d\"", "\"\\ude00\"", "\"\\u0000\"", "\"\\ud83dx\\ude00\""};
    for (size_t i = 0; i < 4; i++) {
        out.n = 0;
        assert_false(api_json_string(halves[i], strlen(halves[i]), &out));
        assert_int_equal(out.n, 0);
    }
    api_text_free(&out);
    uint32_t depth = 0;
    uint64_t values = 0;
    static const char measured[] = "{\"a\": [1, 2, {\"b\": \"[[[,,,\\\"\"}]}";
    api_json_measure(measured, sizeof measured - 1, &depth, &values);
    assert_int_equal(depth, 3);
    assert_true(values >= 7 && values <= 9);
}

/* No memory: said, never a crash, never a part told as the whole. */
static void memory_ends(void **state) {
    (void)state;
    static unsigned char small[8192] __attribute__((aligned(4096)));
    edge_pool_init(small, sizeof small);
    struct out o = {.n = 0};
    struct api_split_sink sink = {on_content, on_reasoning, on_call, &o};
    struct api_style style;
    struct api_split s;
    api_style_find(hermes, strlen(hermes), &style);
    api_split_begin(&s, &style, false, true, NULL);
    api_split_feed(&s, &sink, "<tool_call>", 11);
    for (int i = 0; i < 1000; i++)
        api_split_feed(&s, &sink, "0123456789", 10);
    api_split_end(&s, &sink);
    assert_true(s.failed);
    assert_int_equal(o.n, 0);
    api_split_free(&s);
    edge_pool_init(memory, BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_values),
        cmocka_unit_test(stops_in_every_cut),
        cmocka_unit_test(stops_hold_no_more_than_needed),
        cmocka_unit_test(every_cut_gives_the_same),
        cmocka_unit_test(nothing_is_held_back_without_need),
        cmocka_unit_test(templates_tell_their_style),
        cmocka_unit_test(memory_ends),
    };
    return cmocka_run_group_tests(tests, open_pool, NULL);
}
