/* GBNF: the constructs that llama.cpp's guide names, with verdicts that follow from them, and refusals with
 * their line and column. */
#include "testing.h"

#include "grammar/gbnf.h"

#define NODES 4096u

static stator_status compile(const char *text, void **memory, struct regex **r, stator_error *e) {
    *memory = aligned_alloc(64, (gbnf_bytes(NODES) + 63) / 64 * 64);
    assert_non_null(*memory);
    memset(*memory, 0xA5, gbnf_bytes(NODES)); /* nothing relies on cleared memory */
    *r = NULL;
    return gbnf_compile(*memory, NODES, text, strlen(text), r, e);
}

/* texts: "+TEXT" matches, "-TEXT" does not; NULL ends the list. */
static void verdicts(const char *grammar, const char *const *texts) {
    void *memory;
    struct regex *r;
    stator_error e = {0};
    if (compile(grammar, &memory, &r, &e) != STATOR_OK)
        fail_msg("%s: %s", grammar, e.text);
    for (; *texts != NULL; texts++) {
        bool m = false;
        assert_int_equal(regex_matches(r, *texts + 1, strlen(*texts + 1), &m), REGEX_OK);
        if (m != (**texts == '+'))
            fail_msg("%s: the verdict on '%s' is wrong", grammar, *texts + 1);
    }
    free(memory);
}

static void constructs(void **state) {
    (void)state;
    static const struct {
        const char *grammar;
        const char *texts[10];
    } rows[] = {
        {"root ::= \"yes\" | \"no\"", {"+yes", "+no", "-", "-yesno"}},
        {"# c\r\n\nroot ::= a-1 B_2 # behind\r\na-1 ::= \"x\"\nB_2 ::= [0-9]", {"+x7", "-x", "-7"}},
        {"root ::=\n  \"a\" |\n  # c\n  \"b\"\n", {"+a", "+b", "-ab"}},
        {"root ::= (\n \"a\"\n\n  # c\n \"b\"\n | \"c\" ) \"d\"", {"+abd", "+cd", "-ab", "-abcd"}},
        {"root ::= \"a\"?\"b\"* \"c\" +", {"+c", "+abbcc", "-ab", "-aac"}},
        {"root ::= \"ab\"{2} \"c\"{1,} \"d\" { 0 , 2 }",
         {"+ababc", "+ababccdd", "-abc", "-abab", "-ababcddd"}},
        {"root ::= (\"a\" | \"b\" \"c\"){2,3}", {"+aa", "+bca", "+bcbcbc", "-a", "-aaaa", "-bc"}},
        {"root ::= \"a\"{2}{2}", {"+aaaa", "-aaa", "-aa"}},
        {"root ::= \"x\"{3000}\n", {"-xxx"}},
        {"root ::= .", {"+a", "+\n", "+\xC3\xA9", "-", "-ab", "-\xC3"}},
        {"root ::= [^a-c\\n] [-a] [a-] [\\]\\\\^]",
         {"+d-a]",
          "+\xE2\x82\xAC"
          "a-^",
          "+xa-\\", "-b-a]", "-\n-a]"}},
        {"root ::= [\\x41-\\x43\\u00e9\\U0001F600]+", {"+AC", "+\xC3\xA9\xF0\x9F\x98\x80", "-D"}},
        {"root ::= \"\\x41\\t\\n\\r\\\"\\\\\\[\\]\\-\\u20ac\"", {"+A\t\n\r\"\\[]-\xE2\x82\xAC", "-A"}},
        {"root ::= [\xE3\x81\x81-\xE3\x82\x9F]", {"+\xE3\x81\x82", "-a"}},
        {"root ::= \"a\" nothing \"b\"\nnothing ::= | \"c\"", {"+ab", "+acb", "-a", "-c"}},
        {"root ::= \"\" \"a\"", {"+a", "-"}},
        {"root ::= \"a\"\nroot ::= \"b\"", {"+b", "-a"}}, /* the last definition counts */
        {"root ::= \"(\" root \")\" | \"x\"", {"+x", "+((x))", "-((x)", "-x)"}},
        {"root ::= \"a\" | \"b\" endless\nendless ::= \"c\" endless", {"+a", "-b", "-bc"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        verdicts(rows[i].grammar, rows[i].texts);
}

/* Arithmetic, lists and JSON with optional space behind each token, as users of llama.cpp write them. */
static void whole_grammars(void **state) {
    (void)state;
    static const char *const sums[] = {"+a1*(b+2)=3\n", "+1 = x \n1=1\n", "-1=\n", "-(1=1\n", "-", NULL};
    verdicts("root ::= (sum \"=\" space one \"\\n\")+\n"
             "sum ::= one ([-+*/] one)*\n"
             "one ::= name | digits | \"(\" space sum \")\" space\n"
             "name ::= [a-z] [a-z0-9_]* space\n"
             "digits ::= [0-9]+ space\n"
             "space ::= ([ \\t\\n] space)?\n",
             sums);
    static const char *const lists[] = {"+- a\n- b c\n", "-- \n", "-- a", "-a\n", NULL};
    verdicts("root ::= (\"- \" item)+\nitem ::= [^\\n]+ \"\\n\"", lists);
    static const char *const json[] = {
        "+{}",         "+{ \"a\": [1, -2.5e+3, \"\\u00e9\\n\"],\n \"b\": null}",
        "+[[], true]", "-{\"a\"}",
        "-[1,]",       "-01",
        "-\"\n\"",     NULL};
    verdicts("root ::= map | list\n"
             "value ::= map | list | text | number | (\"true\" | \"false\" | \"null\") ws\n"
             "map ::= \"{\" ws (pair (\",\" ws pair)*)? \"}\" ws\n"
             "pair ::= text \":\" ws value\n"
             "list ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
             "text ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "
             "[0-9a-fA-F]{4}))* \"\\\"\" ws\n"
             "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)? ws\n"
             "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
             json);
}

static void refusals(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"", "line 1, column 1: a rule with the name root is missing"},
        {"a ::= \"b\"", "the name root"},
        {"root ::= a\nb ::= \"x\"", "line 1, column 10: the rule a is not defined"},
        {"root ::= \"x\"\n# \xC3\xA9\n  bad = 1", "line 3, column 7: ::= is expected"},
        {"root ::= \"\xC3\xA9\" )", "line 1, column 14: a part of a rule"},
        {"root ::= \"a\"\n | \"b\"", "line 2, column 2: | begins a line"},
        {"root ::= (\"a\"", "column 10: ( without )"},
        {"root ::= \"a", "column 10: a literal without its second quote"},
        {"root ::= [a", "column 10: [ without ]"},
        {"root ::= []", "an empty character class"},
        {"root ::= [z-a]", "the range ends before it begins"},
        {"root ::= \"\\q\"", "column 11: an unknown escape"},
        {"root ::= \"\\u12\"", "\\u needs 4 hexadecimal digits"},
        {"root ::= \"\\U00110000\"", "at most 10FFFF"},
        {"root ::= \"\\ud83d\"", "half of a surrogate pair"},
        {"root ::= \"\xFF\"", "not UTF-8"},
        {"root ::= * \"a\"", "* repeats nothing"},
        {"root ::= \"a\"{2,1}", "wrong order"},
        {"root ::= \"a\"{x}", "a count is expected"},
        {"root ::= \"a\"{1", "{ without }"},
        {"root ::= \"a\"{1000001}", "above 1000000"},
        {"root ::= <think> \"a\"", "column 10: tokens (<..>) are not supported"},
        {"root ::= !<[7]>", "tokens (<..>) are not supported"},
        {"root ::= sum\nsum ::= sum \"+\" [0-9] | [0-9]", "line 2, column 1: the rule sum is left-recursive"},
        {"root ::= \"a\" root", "no text matches this grammar"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *memory;
        struct regex *r;
        stator_error e = {0};
        assert_int_equal(compile(rows[i][0], &memory, &r, &e), STATOR_USAGE);
        if (strstr(e.text, rows[i][1]) == NULL)
            fail_msg("%s: %s", rows[i][0], e.text);
        assert_null(r);
        free(memory);
    }
}

/* What exceeds a bound is refused. */
static void bounds(void **state) {
    (void)state;
    void *memory;
    struct regex *r;
    stator_error e = {0};
    size_t room = 200000, n = 0;
    char *text = malloc(room);
    assert_non_null(text);
    n += (size_t)sprintf(text, "root ::= ");
    memset(text + n, '(', 300);
    text[n + 300] = '\0';
    assert_int_equal(compile(text, &memory, &r, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "deeper than 200"));
    free(memory);
    for (uint32_t i = 0; i < 5000; i++) /* names */
        n += (size_t)sprintf(text + n, "r%u ", i);
    assert_true(n < room);
    assert_int_equal(compile(text, &memory, &r, &e), STATOR_DOES_NOT_FIT);
    free(memory);
    n = 0;
    for (uint32_t i = 0; i < 1010; i++) /* a chain that is deeper than a derivative may go */
        n += (size_t)sprintf(text + n, i == 0 ? "root ::= r1\n" : "r%u ::= r%u | \"a\"\n", i, i + 1);
    sprintf(text + n, "r1010 ::= \"b\"\n");
    assert_int_equal(compile(text, &memory, &r, &e), STATOR_DOES_NOT_FIT);
    free(memory);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructs),
        cmocka_unit_test(whole_grammars),
        cmocka_unit_test(refusals),
        cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
