/* JSON Schema: verdicts on instances by keyword, and refusals by name. */
#include "testing.h"

#include "grammar/json_schema.h"

#define NODES 4096u

static struct regex *compile(const char *schema, void **memory, stator_error *e) {
    struct regex *r = NULL;
    *memory = aligned_alloc(64, json_schema_bytes(NODES));
    assert_non_null(*memory);
    return json_schema_compile(*memory, NODES, schema, strlen(schema), JSON_SCHEMA_COMPACT, &r, e) ==
                   STATOR_OK
               ? r
               : NULL;
}

/* A row: schema, then instances that are valid, NULL, instances that are not, NULL. */
// NOLINTBEGIN(bugprone-suspicious-missing-comma): schemas are longer than lines
static const char *const rows[][14] = {
    {"true", "1", "null", "\"a\\u00e9\\ud83d\\ude00\"", "[1,{\"a\":[]}]", "-0.5e+3", NULL, "01", "[1,]",
     "{a:1}", "\"\\ud83d\"", NULL},
    {"{\"type\":\"integer\"}", "0", "-12", "3.0", NULL, "1.5", "\"1\"", "1e3", NULL},
    {"{\"minimum\":-3,\"maximum\":120,\"type\":\"integer\"}", "-3", "0", "99", "120", NULL, "-4", "121",
     "1000", NULL},
    {"{\"exclusiveMinimum\":0.05,\"maximum\":12.5,\"type\":\"number\"}", "0.050001", "12.5", "12.50", "1",
     "12", NULL, "0.05", "0.0500", "12.501", "13", "0", "-1", NULL},
    {"{\"maximum\":-2.5,\"type\":\"number\"}", "-2.5", "-3", "-100.1", NULL, "-2.4", "0", "2.5", "-2", NULL},
    {"{\"minimum\":3,\"exclusiveMinimum\":true,\"type\":\"integer\"}", "4", NULL, "3", NULL},
    {"{\"multipleOf\":7,\"type\":\"integer\",\"minimum\":-20}", "0", "14", "7007", "-14", NULL, "8", "-21",
     "007", NULL},
    {"{\"minLength\":2,\"maxLength\":3,\"type\":\"string\"}", "\"ab\"", "\"a\\n\\u0041\"",
     "\"\xC3\xA9\xC3\xA9\xC3\xA9\"", NULL, "\"a\"", "\"abcd\"", "\"a\nb\"", NULL},
    {"{\"pattern\":\"^[a-c\\\"]+$\",\"minLength\":2,\"type\":\"string\"}", "\"ab\"", "\"a\\\"\"", NULL,
     "\"a\"", "\"ad\"", NULL},
    {"{\"format\":\"date\",\"type\":\"string\"}", "\"2024-02-29\"", "\"2000-02-29\"", NULL, "\"2023-02-29\"",
     "\"1900-02-29\"", "\"2024-13-01\"", NULL},
    {"{\"enum\":[\"a\",1,{\"x\":[null]}]}", "\"a\"", "1", "1.0", "{\"x\":[null]}", NULL, "\"b\"", "10", "1.5",
     NULL},
    {"{\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"boolean\"}},\"required\":[\"b\"],\"type\":"
     "\"object\"}",
     "{\"b\":true}", "{\"a\":null,\"b\":false,\"c\":1}", NULL, "{}", "{\"a\":null}", "{\"b\":1}",
     "{\"b\":true,\"a\":1}", "{\"b\":true,\"\\u0061\":1}", NULL},
    {"{\"properties\":{\"a\":true},\"additionalProperties\":false,\"patternProperties\":{\"^x\":{\"type\":"
     "\"integer\"}},"
     "\"type\":\"object\"}",
     "{}", "{\"a\":\"\",\"x1\":2}", NULL, "{\"x1\":\"\"}", "{\"b\":1}", NULL},
    {"{\"minProperties\":1,\"maxProperties\":2,\"type\":\"object\"}", "{\"a\":1}", "{\"a\":1,\"b\":2}", NULL,
     "{}", "{\"a\":1,\"b\":2,\"c\":3}", NULL},
    {"{\"propertyNames\":{\"maxLength\":2},\"required\":[\"ab\"],\"type\":\"object\"}", "{\"ab\":1,\"c\":1}",
     NULL, "{}", "{\"ab\":1,\"abc\":1}", NULL},
    {"{\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"string\"},\"minItems\":1,\"maxItems\":"
     "3,"
     "\"type\":\"array\"}",
     "[1]", "[1,\"a\",\"b\"]", NULL, "[]", "[\"a\"]", "[1,2]", "[1,\"a\",\"b\",\"c\"]", NULL},
    {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#/$defs/n\"}},"
     "\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}",
     "{}", "{\"next\":{\"next\":{}}}", NULL, "{\"next\":1}", "{\"next\":{}", NULL},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":2}}},{\"properties\":{\"a\":{\"type\":\"integer\"}},"
     "\"required\":[\"a\"]}],"
     "\"type\":\"object\"}",
     "{\"a\":2}", NULL, "{\"a\":1}", "{\"a\":2.5}", "{}", NULL},
    {"{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"x\"},\"v\":{\"type\":\"null\"}},\"required\":[\"k\"],"
     "\"type\":\"object\"},"
     "{\"properties\":{\"k\":{\"const\":\"y\"}},\"required\":[\"k\"],\"type\":\"object\"}]}",
     "{\"k\":\"x\",\"v\":null}", "{\"k\":\"y\",\"v\":1}", NULL, "{\"k\":\"x\",\"v\":1}", "{\"k\":\"z\"}",
     NULL},
    {"{\"dependentRequired\":{\"a\":[\"b\"]},\"properties\":{\"a\":true,\"b\":true},\"type\":\"object\"}",
     "{}", "{\"b\":1}", "{\"a\":1,\"b\":1}", NULL, "{\"a\":1}", "{\"a\":1,\"c\":1}", NULL},
};
// NOLINTEND(bugprone-suspicious-missing-comma)

static void verdicts(void **state) {
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        void *memory;
        stator_error e = {0};
        struct regex *r = compile(rows[row][0], &memory, &e);
        if (r == NULL)
            fail_msg("%s: %s", rows[row][0], e.text);
        size_t i = 1;
        for (bool expected = true;; i++) {
            bool matches = false;
            if (rows[row][i] == NULL && !expected)
                break;
            if (rows[row][i] == NULL) {
                expected = false;
                continue;
            }
            assert_int_equal(regex_matches(r, rows[row][i], strlen(rows[row][i]), &matches), REGEX_OK);
            if (matches != expected)
                fail_msg("%s: '%s' is %s", rows[row][0], rows[row][i], expected ? "refused" : "accepted");
        }
        free(memory);
    }
}

static void refusals(void **state) {
    (void)state;
    static const char *const refused[][2] = {
        {"{", "line 1"},
        {"3", "an object, true or false"},
        {"false", "no value is valid"},
        {"{\"type\":\"text\"}", "\"text\" is no type"},
        {"{\"not\":{}}", "keyword \"not\""},
        {"{\"$ref\":\"#/nowhere\"}", "\"#/nowhere\" is no place"},
        {"{\"$ref\":\"#\"}", "without end"},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"minLength\":2}]}", "alternatives 0 and 1 may both be valid"},
        {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "look ahead"},
        {"{\"type\":\"string\",\"pattern\":\"/^[0-9]{4}$/\"}", "^ behind something else"},
        {"{\"uniqueItems\":true,\"type\":\"array\"}", "uniqueItems"},
        {"{\"minLength\":-1}", "whole number of at least 0"},
        {"{\"type\":\"number\",\"multipleOf\":0.1}", "whole numbers from 1"},
        {"{\"type\":\"string\",\"format\":\"iri\"}", "\"iri\" is not supported"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
         "no value is valid"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        void *memory;
        stator_error e = {0};
        if (compile(refused[i][0], &memory, &e) != NULL || strstr(e.text, refused[i][1]) == NULL)
            fail_msg("%s: '%s'", refused[i][0], e.text);
        free(memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(verdicts), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
