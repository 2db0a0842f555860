/* The Jinja of chat templates against Jinja2 itself: tests/data/jinja.json was rendered by it (3.1.2
 * and 3.1.6, with the settings of Hugging Face transformers), ../shared/templates are real templates. And its
 * bounds. */
#include "testing.h"

#include "chat/jinja.h"

#include <math.h>

#define MEMORY (8u << 20)

static json_t *read_json(const char *path) {
    size_t n = 0;
    json_error_t why;
    char *text = testing_read_file(path, &n);
    json_t *json = json_loadb(text, n, 0, &why);
    if (json == NULL)
        fail_msg("%s, line %d: %s", path, why.line, why.text);
    free(text);
    return json;
}

/* Templates' clock: 2026-11-20, as in ../shared/templates. */
static const struct tm clock_of_templates = {
    .tm_year = 126, .tm_mon = 10, .tm_mday = 20, .tm_hour = 12, .tm_wday = 5};

/* Renders; NULL: refused, e says why. To be freed. */
static char *render(const char *source, size_t length, const json_t *variables, size_t bytes, uint64_t steps,
                    size_t *n, stator_error *e) {
    const struct jinja_input in = {.source = source,
                                   .length = length,
                                   .variables = variables,
                                   .now = &clock_of_templates,
                                   .max_steps = steps};
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    const char *text = NULL;
    char *copy = NULL;
    assert_non_null(memory);
    *e = (stator_error){0};
    if (jinja_render(&in, memory, bytes, &text, n, e) == STATOR_OK) {
        copy = malloc(*n + 1);
        assert_non_null(copy);
        memcpy(copy, text, *n);
        copy[*n] = '\0';
    } else {
        assert_true(e->code == STATOR_USAGE ||
                    (e->code == STATOR_DOES_NOT_FIT && strstr(e->text, "bytes that there are") != NULL));
        assert_non_null(strstr(e->text, "line "));
    }
    free(memory);
    return copy;
}

/* One case {expected or error}. */
static void check(const char *name, const char *source, size_t length, const json_t *variables,
                  const json_t *one) {
    size_t n = 0;
    stator_error e;
    const json_t *expected = json_object_get(one, "expected");
    char *text = render(source, length, variables, MEMORY, 0, &n, &e);
    if (expected == NULL && text != NULL)
        fail_msg("%s: rendered \"%s\", expected is %s", name, text,
                 json_string_value(json_object_get(one, "error")));
    if (expected != NULL && text == NULL)
        fail_msg("%s: %s", name, e.text);
    if (expected != NULL &&
        (n != json_string_length(expected) || memcmp(text, json_string_value(expected), n) != 0))
        fail_msg("%s:\nrendered \"%s\"\nexpected \"%s\"", name, text, json_string_value(expected));
    free(text);
}

static void small_templates_as_jinja2_renders_them(void **state) {
    (void)state;
    json_t *all = read_json("tests/data/jinja.json");
    const json_t *variables = json_object_get(all, "variables"), *cases = json_object_get(all, "cases");
    assert_true(json_array_size(cases) > 80);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const json_t *source = json_object_get(one, "template");
        check(json_string_value(source), json_string_value(source), json_string_length(source), variables,
              one);
    }
    json_decref(all);
}

static const char *const real[] = {"HuggingFaceTB-SmolLM3-3B",
                                   "Mistral-Small-3.2-24B-Instruct-2506",
                                   "Qwen-Qwen2.5-7B-Instruct",
                                   "Qwen-Qwen3-0.6B",
                                   "Qwen3.5-4B",
                                   "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
                                   "google-gemma-2-2b-it",
                                   "ibm-granite-granite-3.3-2B-Instruct",
                                   "meta-llama-Llama-3.1-8B-Instruct",
                                   "meta-llama-Llama-3.2-3B-Instruct",
                                   "microsoft-Phi-3.5-mini-instruct",
                                   "openai-gpt-oss-120b"};

static void real_templates(void **state) {
    (void)state;
    TESTING_NEED_SHARED("templates/Qwen3.5-4B.json");
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        char path[128];
        size_t length = 0;
        snprintf(path, sizeof path, "templates/%s.json", real[i]);
        json_t *cases = read_json(testing_shared(path));
        snprintf(path, sizeof path, "templates/%s.jinja", real[i]);
        char *source = testing_read_file(testing_shared(path), &length);
        assert_true(json_array_size(cases) > 0);
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *one = json_array_get(cases, k);
            snprintf(path, sizeof path, "%s, %s", real[i], json_string_value(json_object_get(one, "case")));
            check(path, source, length, json_object_get(one, "input"), one);
        }
        json_decref(cases);
        free(source);
    }
}

/* Collections change no text: each case is rendered in every amount of memory from what its values take at
 * first to what is plenty, so that collections come at every statement, at some and at none. */
static void collections_change_nothing(void **state) {
    (void)state;
    static const char *const sources[] = {
        "{% set ns = namespace(a=[], s='') %}{% for i in range(60) %}{% set ns.a = ns.a + [i, 'x' ~ i] %}"
        "{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.a }}{{ ns.s }}",
        "{% macro f(x) %}{% set y = x ~ '!' %}{% for i in range(9) %}{% set y = y ~ i %}{{ y }}{% endfor %}"
        "{{ y }}{% endmacro %}{% for k in range(20) %}{{ 'a' ~ k ~ f('b' ~ k) ~ f('c' ~ k) }}{% endfor %}",
        "{% set ns = namespace(l=namespace(x=[1])) %}{% macro g(n) %}{% for i in range(n) %}"
        "{% set ns.x = [i ~ 'k', ns.x] %}{% set j = namespace(v=i ~ 'z') %}{% set j.v = j.v ~ j.v %}{{ j.v }}"
        "{% endfor %}{% endmacro %}{% for i in range(12) %}{{ 'q' ~ i ~ g(3) ~ ns.x }}{% set ns.x = i %}"
        "{% endfor %}",
        "{% macro outer() %}<{% for i in range(7) %}{{ caller('v' ~ i) }}{% endfor %}>{% endmacro %}"
        "{% for r in range(8) %}{% set w = 'w' ~ r %}{% call(v) outer() %}{% set t = w ~ v %}{{ t ~ "
        "loop.index "
        "}}{% endcall %}{% endfor %}",
        "{% for i in range(40) if ('n' ~ i)|length > 2 %}{% set c %}{% for k in range(4) %}{{ i ~ '-' ~ k }}"
        "{% endfor %}{% endset %}{{ loop.cycle('a', 'b') }}{{ c|upper }}{{ loop.previtem }}{% endfor %}",
        "{% set ns = namespace() %}{% for i in range(5) %}{% set v = 'v' ~ i %}{% macro m(a) %}{{ a ~ v }}"
        "{% endmacro %}{% set ns.m = m %}{% set f = ('s' ~ i).upper %}{% set ns.f = f %}{% endfor %}"
        "{% for i in range(30) %}{% set u = 'u' ~ i %}{{ ns.m(u) }}{{ ns.f() }}{% endfor %}",
        "{% for i in range(30) %}{% with a = 'a' ~ i, b = {'k' ~ i: [i, 'e' ~ i]} %}{% filter upper %}"
        "{% for k, v in b|items %}{{ k ~ v }}{% endfor %}{% endfilter %}{{ b }}{% endwith %}{% endfor %}",
    };
    json_t *nothing = json_object();
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        size_t n = 0, m = 0, rendered = 0, least = 0;
        stator_error e;
        char *expected = render(sources[i], strlen(sources[i]), nothing, MEMORY, 0, &n, &e);
        if (expected == NULL)
            fail_msg("%s: %s", sources[i], e.text);
        for (size_t bytes = 4096; bytes < 400000; bytes += bytes < 65536 ? 64 : 4096) {
            char *text = render(sources[i], strlen(sources[i]), nothing, bytes, 0, &m, &e);
            if (text == NULL && strstr(e.text, "more than") == NULL)
                fail_msg("%s, %zu bytes: %s", sources[i], bytes, e.text);
            if (text != NULL && (m != n || memcmp(text, expected, n) != 0))
                fail_msg("%s, %zu bytes: \"%s\", expected is \"%s\"", sources[i], bytes, text, expected);
            rendered += text != NULL;
            least = text != NULL && least == 0 ? bytes : least;
            free(text);
        }
        print_message("# %zu bytes of text need %zu bytes\n", n, least);
        assert_true(rendered > 80);
        free(expected);
    }
    json_decref(nothing);
}

/* A conversation of so many turns; calls: every second answer calls a tool. text: arguments are a text. */
static json_t *long_chat(size_t turns, bool calls, bool text) {
    json_t *messages = json_array();
    for (size_t i = 0; i < turns; i++) {
        char words[64], id[32];
        snprintf(words, sizeof words, "What is the weather in city %zu?", i);
        snprintf(id, sizeof id, "call%05zu", i);
        json_array_append_new(messages, json_pack("{ssss}", "role", "user", "content", words));
        if (calls) {
            json_t *arguments = json_pack("{sssi}", "city", words + 8, "days", (int)i);
            char *dumped = json_dumps(arguments, 0);
            json_t *call =
                json_pack("{sssss{ssso}}", "id", id, "type", "function", "function", "name", "weather",
                          "arguments", text ? json_string(dumped) : json_incref(arguments));
            json_array_append_new(
                messages, json_pack("{sssss[o]}", "role", "assistant", "content", "", "tool_calls", call));
            json_array_append_new(messages, json_pack("{ssssssss}", "role", "tool", "name", "weather",
                                                      "tool_call_id", id, "content", "{\"sky\": \"clear\"}"));
            free(dumped);
            json_decref(arguments);
        }
        json_array_append_new(messages, json_pack("{ssss}", "role", "assistant", "content", "It is clear."));
    }
    json_array_append_new(messages, json_pack("{ssss}", "role", "user", "content", "And now?"));
    json_t *v = json_pack("{sosbssss}", "messages", messages, "add_generation_prompt", 1, "bos_token", "<s>",
                          "eos_token", "</s>");
    if (calls)
        json_object_set_new(v, "tools",
                            json_pack("[{sss{sssss{sss{s{ss}s{ss}}s[s]}}}]", "type", "function", "function",
                                      "name", "weather", "description", "Tells the weather", "parameters",
                                      "type", "object", "properties", "city", "type", "string", "days",
                                      "type", "integer", "required", "city"));
    assert_non_null(v);
    return v;
}

/* Long conversations need memory for their values and text, not for every step on the way: 400 turns render
 * in less than a server has for a conversation by default (request/api_prompt.c). */
static void long_chats(void **state) {
    (void)state;
    TESTING_NEED_SHARED("templates/Qwen3.5-4B.json");
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        char path[128];
        size_t length = 0;
        snprintf(path, sizeof path, "templates/%s.jinja", real[i]);
        char *source = testing_read_file(testing_shared(path), &length);
        for (int kind = 0; kind < 3; kind++) {
            json_t *few = long_chat(2, kind > 0, kind == 2), *many = long_chat(400, kind > 0, kind == 2);
            size_t n = 0, bytes = 64 << 10;
            stator_error e;
            char *text = render(source, length, few, MEMORY, 0, &n, &e);
            bool takes = text != NULL; /* some take no calls, or their arguments in one form only */
            free(text);
            for (text = NULL; takes && text == NULL; bytes += bytes / 4) {
                text = render(source, length, many, bytes, 0, &n, &e);
                if (text == NULL && (bytes > 3 << 20 || strstr(e.text, "bytes that there are") == NULL))
                    fail_msg("%s, kind %d, %zu bytes: %s", real[i], kind, bytes, e.text);
            }
            if (takes)
                print_message("# %-45s %s: %7zu bytes of text in %7zu\n", real[i],
                              kind == 0   ? "plain"
                              : kind == 1 ? "calls"
                                          : "calls, as text",
                              n, bytes);
            free(text);
            json_decref(few);
            json_decref(many);
        }
        free(source);
    }
}

/* What a template may take is bounded, and it ends with an error that says so. */
static void bounds_hold(void **state) {
    (void)state;
    static const struct {
        const char *source, *part;
        size_t bytes;
        uint64_t steps;
    } cases[] = {
        {"{% for i in range(1000000000) %}{% endfor %}", "bytes", MEMORY, 0},
        {"{% for i in range(1000) %}{% for j in range(1000) %}{% for k in range(1000) %}x{% endfor %}{% "
         "endfor %}{% "
         "endfor %}",
         "", MEMORY, 0},
        {"{% for i in range(1000) %}{{ i }}{% endfor %}", "more than 500 steps", MEMORY, 500},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep", MEMORY, 0},
        {"{{ 'x' * 100000000 }}", "bytes", MEMORY, 0},
        {"{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
         "bytes", MEMORY, 0},
        {"abc", "bytes", 256, 0},
        {"{{ 9223372036854775807 + 1 }}", "too large", MEMORY, 0},
        {"{{ 3 ** 99 }}", "too large", MEMORY, 0},
        {"{{ 99999999999999999999 + 1 }}", "too large", MEMORY, 0},
    };
    json_t *nothing = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = 0;
        stator_error e;
        char *text =
            render(cases[i].source, strlen(cases[i].source), nothing, cases[i].bytes, cases[i].steps, &n, &e);
        if (text != NULL || strstr(e.text, cases[i].part) == NULL)
            fail_msg("%s: \"%s\"", cases[i].source, e.text);
    }
    /* Brackets without end, and many of them. */
    char deep[4096];
    for (size_t k = 0; k < 6; k++) {
        static const char *const pieces[] = {"(", "[", "not ", "-", "{% if x %}", "{'a':"};
        size_t n = 0;
        stator_error e;
        size_t at = (size_t)snprintf(deep, sizeof deep, "%s", k == 4 ? "" : "{{ ");
        while (at + 16 < sizeof deep)
            at += (size_t)snprintf(deep + at, sizeof deep - at, "%s", pieces[k]);
        if (k == 2 || k == 3)
            at += (size_t)snprintf(deep + at, sizeof deep - at, "1 }}");
        assert_null(render(deep, at, nothing, MEMORY, 0, &n, &e));
        assert_non_null(strstr(e.text, "deep"));
    }
    json_decref(nothing);
}

/* Errors name the line. */
static void errors_name_the_line(void **state) {
    (void)state;
    static const struct {
        const char *source, *text;
    } cases[] = {
        {"a\nb\n{{ x.y }}", "line 3: 'x' is undefined"},
        {"a\n{% frob %}", "line 2: the statement 'frob' is not supported"},
        {"a\n\n{{ 'a'|frob }}", "line 3: the filter 'frob' is not supported"},
        {"{{ 1 is frob }}", "line 1: the test 'frob' is not supported"},
        {"{% if x %}\n\n", "line 2: {% endif %} is expected, but the template ends"},
        {"{{ raise_exception('roles must alternate') }}",
         "it refuses this conversation: roles must alternate"},
        {"x\n{{ 'abc }}", "line 2: a string has no closing '"},
        {"{{ [].append(1) }}", "'append' would change a list"},
        {"{{ f(**x) }}", "* and ** before arguments are not supported"},
    };
    json_t *nothing = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = 0;
        stator_error e;
        assert_null(render(cases[i].source, strlen(cases[i].source), nothing, MEMORY, 0, &n, &e));
        if (strstr(e.text, cases[i].text) == NULL)
            fail_msg("%s: \"%s\"", cases[i].source, e.text);
    }
    json_decref(nothing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_templates_as_jinja2_renders_them),
        cmocka_unit_test(real_templates),
        cmocka_unit_test(collections_change_nothing),
        cmocka_unit_test(long_chats),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(errors_name_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
