/* Grammars of parts: which texts they allow, and which parts are refused. */
#include "testing.h"

#include "grammar/json_parts.h"

#define NODES 4096u

static stator_status compile(const char *parts, enum json_schema_space space, struct regex **r,
                             stator_error *e) {
    static void *memory;
    free(memory);
    memory = aligned_alloc(64, json_schema_bytes(NODES));
    assert_non_null(memory);
    return json_parts_compile(memory, NODES, parts, strlen(parts), space, r, e);
}

static void texts_match(void **state) {
    (void)state;
    static const struct {
        const char *parts, *text;
        bool matches;
        enum json_schema_space space;
    } all[] = {
        {"[\"a\", {\"any\": [\"b\", [\"c\", \"d\"], \"\"]}, \"e\"]", "acde", true, JSON_SCHEMA_COMPACT},
        {"[\"a\", {\"any\": [\"b\", [\"c\", \"d\"], \"\"]}, \"e\"]", "ae", true, JSON_SCHEMA_COMPACT},
        {"[\"a\", {\"any\": [\"b\", [\"c\", \"d\"], \"\"]}, \"e\"]", "ace", false, JSON_SCHEMA_COMPACT},
        {"{\"repeat\": [\"x\", {\"schema\": {\"type\": \"integer\"}}]}", "x1x22", true, JSON_SCHEMA_COMPACT},
        {"{\"repeat\": [\"x\", {\"schema\": {\"type\": \"integer\"}}]}", "", false, JSON_SCHEMA_COMPACT},
        {"[{\"token\": \"<|call|>\"}, \"(\", {\"schema\": true}, \")\"]", "\xFF<|call|>({\"a\":[1]})", true,
         JSON_SCHEMA_COMPACT},
        {"[{\"token\": \"<|call|>\"}, \"(\", {\"schema\": true}, \")\"]", "<|call|>(1)", false,
         JSON_SCHEMA_COMPACT},
        {"[{\"token\": \"<|call|>\"}, \"(\", {\"schema\": true}, \")\"]", "\xFF<|call|>([1, 2])", true,
         JSON_SCHEMA_FREE},
        /* Each schema has its own root. */
        {"[{\"schema\": {\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"const\": 1}}}}, {\"schema\": "
         "{\"$ref\": "
         "\"#/$defs/a\", \"$defs\": {\"a\": {\"const\": 2}}}}]",
         "12", true, JSON_SCHEMA_COMPACT},
        {"[{\"schema\": {\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"const\": 1}}}}, {\"schema\": "
         "{\"$ref\": "
         "\"#/$defs/a\", \"$defs\": {\"a\": {\"const\": 2}}}}]",
         "11", false, JSON_SCHEMA_COMPACT},
        /* The first place of a text counts, also where a beginning of it stands in front of it. */
        {"{\"until\": {\"<a>\": \"x\"}}", "so <<a <a>x", true, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"<a>\": \"x\"}}", "\xFF<a>x", true, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"<a>\": \"x\"}}", "so <a>y<a>x", false, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"<a>\": \"x\"}}", "so <a", false, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"<a>\": \"x\"}, \"may_end\": true}", "so <a", true, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"<a>\": \"x\"}, \"may_end\": true}", "", true, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"<a>\": \"x\"}, \"may_end\": true}", "so <a>", false, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"aab\": \"x\", \"ac\": \"y\", \"b\": null}}", "aaaabx", true, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"aab\": \"x\", \"ac\": \"y\", \"bb\": null}}", "aaaabx", true, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"aab\": \"x\", \"ac\": \"y\", \"b\": null}}", "aaaacy", true, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"aab\": \"x\", \"ac\": \"y\", \"b\": null}, \"may_end\": true}", "cb", false,
         JSON_SCHEMA_COMPACT},
        /* Strings as they are: any, with a length, a pattern, of a list, in another root. */
        {"{\"raw\": {\"type\": \"string\"}, \"end\": \"</v>\", \"close\": \"</v>\", \"never\": [\"<k\"]}",
         "a\"\n\\<</v>", true, JSON_SCHEMA_COMPACT},
        {"{\"raw\": {\"type\": \"string\"}, \"end\": \"</v>\", \"close\": \"</v>\", \"never\": [\"<k\"]}",
         "a<k</v>", false, JSON_SCHEMA_COMPACT},
        {"{\"raw\": {\"maxLength\": 3}, \"end\": \"</v>\", \"close\": \"</v>\"}", "\"\xC3\xA9\n</v>", true,
         JSON_SCHEMA_COMPACT},
        {"{\"raw\": {\"maxLength\": 3}, \"end\": \"</v>\", \"close\": \"</v>\"}", "abcd</v>", false,
         JSON_SCHEMA_COMPACT},
        {"{\"raw\": {\"maxLength\": 30}, \"end\": \"</v>\", \"close\": \"</v>\"}", "ab</v></v>", false,
         JSON_SCHEMA_COMPACT},
        {"{\"raw\": {\"pattern\": \"^\\\"+$\"}, \"end\": \"\\n.\", \"close\": \"\\n.\"}", "\"\"\n.", true,
         JSON_SCHEMA_COMPACT},
        {"{\"raw\": {\"$ref\": \"#/a\"}, \"root\": {\"a\": {\"enum\": [\"x\\n\", 1, \"y\"]}}, \"end\": "
         "\".\", "
         "\"close\": {\"token\": \".\"}}",
         "x\n\xFF.", true, JSON_SCHEMA_COMPACT},
        {"{\"raw\": {\"anyOf\": [{\"const\": \"x\"}, {\"type\": \"null\"}, {\"type\": \"string\", "
         "\"minLength\": "
         "3}]}, \"end\": \".\", \"close\": \".\"}",
         "xy.", false, JSON_SCHEMA_COMPACT},
        {"{\"raw\": {\"anyOf\": [{\"const\": \"x\"}, {\"type\": \"null\"}, {\"type\": \"string\", "
         "\"minLength\": "
         "3}]}, \"end\": \".\", \"close\": \".\"}",
         "xyz.", true, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"abab\": \"x\"}}", "ababab", false, JSON_SCHEMA_COMPACT},
        {"{\"until\": {\"abac\": \"x\"}}", "ababacx", true, JSON_SCHEMA_COMPACT},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct regex *r = NULL;
        stator_error e = {0};
        bool matches = false;
        if (compile(all[i].parts, all[i].space, &r, &e) != STATOR_OK)
            fail_msg("%s: %s", all[i].parts, e.text);
        assert_int_equal(regex_matches(r, all[i].text, strlen(all[i].text), &matches), REGEX_OK);
        if (matches != all[i].matches)
            fail_msg("%s: %s", all[i].parts, all[i].text);
    }
}

static void others_are_refused(void **state) {
    (void)state;
    static const char *const all[][2] = {
        {"[", "line 1"},
        {"1", "is expected"},
        {"{\"any\": 1}", "is expected"},
        {"[{\"token\": \"\"}]", "a name"},
        {"[{\"schema\": {\"not\": {}}}]", "\"not\""},
        {"{\"any\": []}", "no value"},
        {"{\"until\": {}}", "an object of texts"},
        {"{\"until\": {\"\": \"a\"}}", "empty, too many or too long"},
        {"{\"raw\": true}", "close"},
        {"{\"raw\": true, \"close\": \"a\"}", "empty, too many"},
        {"{\"raw\": {\"pattern\": \"(\"}, \"end\": \"a\", \"close\": \"a\"}", "pattern"},
        {"{\"until\": {\"a\": 1}}", "is expected"},
        {"{\"until\": {\"a\": null}}", "no value"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"a\"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "too deep"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct regex *r = NULL;
        stator_error e = {0};
        assert_int_equal(compile(all[i][0], JSON_SCHEMA_COMPACT, &r, &e), STATOR_USAGE);
        if (strstr(e.text, all[i][1]) == NULL)
            fail_msg("%s: %s", all[i][0], e.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_match), cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
