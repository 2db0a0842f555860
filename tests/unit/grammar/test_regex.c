/* Regular expressions over bytes: the same verdicts as libc's on random expressions, every code point in or
 * out of classes, counters, bounds, and answers that do not depend on the number of nodes. */
#include "testing.h"

#include "grammar/regex.h"

#include <regex.h>

struct compiled {
    void *memory;
    struct regex *r;
    stator_status status;
    stator_error e;
};

static struct compiled compile_n(const char *text, size_t length, enum regex_anchoring anchoring,
                                 uint32_t nodes) {
    struct compiled c = {0};
    uint64_t bytes = regex_bytes(nodes);
    c.memory = aligned_alloc(64, bytes);
    assert_non_null(c.memory);
    c.status = regex_compile(c.memory, nodes, text, length, anchoring, &c.r, &c.e);
    return c;
}

static struct compiled compile(const char *text, enum regex_anchoring anchoring, uint32_t nodes) {
    return compile_n(text, strlen(text), anchoring, nodes);
}

static struct compiled must(const char *text, enum regex_anchoring anchoring, uint32_t nodes) {
    struct compiled c = compile(text, anchoring, nodes);
    if (c.status != STATOR_OK)
        fail_msg("%s: %s", text, c.e.text);
    return c;
}

static bool matches(struct regex *r, const char *text, size_t length) {
    bool m = false;
    assert_int_equal(regex_matches(r, text, length, &m), REGEX_OK);
    return m;
}

/* A row: expression, then texts that match, NULL, texts that do not, NULL. */
static void check_row(const char *const *row, enum regex_anchoring anchoring) {
    struct compiled c = must(row[0], anchoring, 4096);
    size_t i = 1;
    for (bool expected = true;; i++) {
        if (row[i] == NULL && !expected)
            break;
        if (row[i] == NULL)
            expected = false;
        else if (matches(c.r, row[i], strlen(row[i])) != expected)
            fail_msg("%s: '%s' %s", row[0], row[i], expected ? "does not match" : "matches");
    }
    free(c.memory);
}

static void syntax(void **state) {
    (void)state;
    // NOLINTBEGIN(bugprone-suspicious-missing-comma): a hexadecimal escape ends its text
    static const char *const whole[][12] = {
        {"", "", NULL, "a", NULL},
        {"abc", "abc", NULL, "ab", "abcd", "", NULL},
        {"a|bc|", "a", "bc", "", NULL, "b", "abc", NULL},
        {"(?:ab)+?c", "abc", "ababc", NULL, "c", "aabc", NULL},
        {"(?<x>a){2,3}", "aa", "aaa", NULL, "a", "aaaa", NULL},
        {"a{2}", "aa", NULL, "a", "aaa", NULL},
        {"a{2,}", "aa", "aaaaaa", NULL, "a", NULL},
        {"a{0}b", "b", NULL, "ab", NULL},
        {"a{,2}", "a{,2}", NULL, "a", "aa", NULL},
        {"{}]", "{}]", NULL, "", NULL},
        {"^a$", "a", NULL, "", "ba", NULL},
        {"[\\w-.]+", "a-._Z9", NULL, "a b", "", NULL},
        {"[^\\d\\s]", "x", "\xC3\xA9", NULL, "1", " ", "\xC2\xA0", NULL},
        {"[]", NULL, "", "a", NULL},
        {"[^]", "\n", "\xF0\x9F\x98\x80", NULL, "", "ab", NULL},
        {".", "a", "\xC3\xA9", NULL, "\n", "\r", "\xE2\x80\xA8", "\xC3", NULL},
        {"\\uD83D\\uDE00\\u{1F600}\\x41\\cJ\\0?",
         "\xF0\x9F\x98\x80\xF0\x9F\x98\x80"
         "A\n",
         NULL, "", NULL},
        {"\\/\\-\\.\\$", "/-.$", NULL, "/-a$", NULL},
        {"[\\b]", "\b", NULL, "b", NULL},
        {"\xC3\xA9+", "\xC3\xA9\xC3\xA9", NULL, "\xC3\xA9\xA9", NULL},
    };
    // NOLINTEND(bugprone-suspicious-missing-comma)
    static const char *const search[][12] = {
        {"b", "b", "abc", "\n\nb", NULL, "", "ac", NULL},
        {"^b", "b", "bc", NULL, "ab", "\nb", NULL},
        {"b$", "b", "ab", NULL, "ba", "b\n", NULL},
        {"^b|c$", "bx", "xc", "b", NULL, "xbx", "cx", NULL},
        {"(^|,)x($|,)", "x", "a,x", "x,b", "a,x,b", NULL, "ax", "xb", NULL},
        {"^$", "", NULL, "a", NULL},
        {"^", "", "a", NULL, NULL},
        {"", "", "a", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        check_row(whole[i], REGEX_WHOLE);
    for (size_t i = 0; i < sizeof search / sizeof *search; i++)
        check_row(search[i], REGEX_SEARCH);
}

static void refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a(b", "byte 1: ( without )"},
        {"a)b", "byte 1: ) without ("},
        {"[a", "byte 0: [ without ]"},
        {"[b-a]", "ends before it begins"},
        {"*a", "* repeats nothing"},
        {"a**", "* repeats nothing"},
        {"a{1,2}{3}", "{ repeats nothing"},
        {"a?{2}", "{ repeats nothing"},
        {"{2}", "{ repeats nothing"},
        {"a{3,2}", "wrong order"},
        {"a{2000000}", "above 1000000"},
        {"a{99999999999999999999}", "above 1000000"},
        {"(?=a)", "look ahead"},
        {"(?!a)", "look ahead"},
        {"(?<=a)", "look ahead or behind"},
        {"(?<!a)", "look ahead or behind"},
        {"(?i)a", "inline flags"},
        {"(?<a", "> at its end"},
        {"(a)\\1", "back references"},
        {"\\bfoo", "borders of words"},
        {"\\p{L}", "\\p is not supported"},
        {"\\", "backslash at the end"},
        {"[\\", "backslash at the end"},
        {"\\c", "\\c needs a letter"},
        {"[\\c", "\\c needs a letter"},
        {"\\x4", "two hexadecimal"},
        {"\\u00", "four hexadecimal"},
        {"\\u{110000}", "10FFFF"},
        {"\\uD800", "surrogate"},
        {"\\uD800\\u0041", "surrogate"},
        {"a^b", "byte 1: ^ behind something else"},
        {"(a$)b", "byte 2: $ before something else"},
        {"/^[0-9]{4}$/", "byte 1: ^ behind something else"},
        {"(^a)*", "repeated"},
        {"\xC3", "not UTF-8"},
        {"\xC0\x80", "not UTF-8"},
        {"\xED\xA0\x80", "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct compiled c = compile(rows[i].text, REGEX_SEARCH, 4096);
        if (c.status != STATOR_USAGE || strstr(c.e.text, rows[i].says) == NULL)
            fail_msg("%s: %d, '%s' instead of '%s'", rows[i].text, (int)c.status, c.e.text, rows[i].says);
        free(c.memory);
    }
}

/* A random expression that ERE and ECMA 262 read alike. */
static size_t random_expression(uint64_t *seed, char *out, int depth, bool anchors) {
    static const char *const atoms[] = {"a", "b", "c", ".", "[ab]", "[^a]", "ab", "bca"};
    static const char *const repeats[] = {"*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}"};
    size_t n = 0, terms = 1 + testing_below(seed, 3);
    if (anchors && testing_below(seed, 3) == 0)
        out[n++] = '^';
    for (size_t i = 0; i < terms; i++) {
        if (i > 0 && testing_below(seed, 3) == 0)
            out[n++] = '|';
        out[n++] = '(';
        if (depth > 0 && testing_below(seed, 2) == 0)
            n += random_expression(seed, out + n, depth - 1, false);
        else
            n += (size_t)sprintf(out + n, "%s", atoms[testing_below(seed, 8)]);
        out[n++] = ')';
        if (testing_below(seed, 2) == 0)
            n += (size_t)sprintf(out + n, "%s", repeats[testing_below(seed, 7)]);
    }
    if (anchors && testing_below(seed, 3) == 0)
        out[n++] = '$';
    out[n] = '\0';
    return n;
}

static void same_as_libc(void **state) {
    (void)state;
    uint64_t seed = testing_seed("same_as_libc");
    size_t matched = 0, others = 0, refusals = 0;
    for (int i = 0; i < 400; i++) {
        char text[4096], libc_text[4200], word[16];
        bool search = i % 2 == 0;
        random_expression(&seed, text, 2, search);
        snprintf(libc_text, sizeof libc_text, search ? "%s" : "^(%s)$", text);
        regex_t libc;
        assert_int_equal(regcomp(&libc, libc_text, REG_EXTENDED | REG_NOSUB), 0);
        struct compiled big = must(text, search ? REGEX_SEARCH : REGEX_WHOLE, 65536);
        struct compiled small = compile(text, search ? REGEX_SEARCH : REGEX_WHOLE, REGEX_MIN_NODES);
        for (int k = 0; k < 200; k++) {
            size_t n = testing_below(&seed, 10);
            for (size_t c = 0; c < n; c++)
                word[c] = (char)('a' + testing_below(&seed, 3));
            word[n] = '\0';
            bool expected = regexec(&libc, word, 0, NULL, 0) == 0, m = false;
            if (matches(big.r, word, n) != expected)
                fail_msg("%s (%s): '%s' %s", text, search ? "search" : "whole", word,
                         expected ? "does not match" : "matches");
            if (expected)
                matched++;
            else
                others++;
            /* Few nodes may be too few, but never change the answer. */
            if (small.status == STATOR_OK && regex_matches(small.r, word, n, &m) == REGEX_OK)
                assert_int_equal(m, expected);
            else
                refusals++;
        }
        regfree(&libc);
        free(big.memory);
        free(small.memory);
    }
    print_message("%zu matches, %zu others, %zu refused with %u nodes\n", matched, others, refusals,
                  REGEX_MIN_NODES);
    assert_true(matched > 1000 && others > 1000 && refusals < 40000);
}

static size_t encode(uint32_t v, char *out) {
    if (v < 0x80)
        return out[0] = (char)v, 1;
    size_t n = v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; v >>= 6)
        out[i] = (char)(0x80 | (v & 0x3F));
    out[0] = (char)((0xF00u >> n & 0xF0) | v);
    if (n == 2)
        out[0] = (char)(0xC0 | v);
    return n;
}

static void every_code_point(void **state) {
    (void)state;
    struct compiled c = must("[\\u0041-\\u07ff\\u{900}-\\u{10abc}\\u{20001}]", REGEX_WHOLE, 4096);
    struct compiled others = must("[^\\u0041-\\u07ff\\u{900}-\\u{10abc}\\u{20001}]", REGEX_WHOLE, 4096);
    for (uint32_t v = 0; v <= 0x10FFFF; v++) {
        char text[4];
        size_t n = encode(v, text);
        bool character = v < 0xD800 || v > 0xDFFF;
        bool in = (v >= 0x41 && v <= 0x7FF) || (v >= 0x900 && v <= 0x10ABC) || v == 0x20001;
        if (matches(c.r, text, n) != (in && character) || matches(others.r, text, n) != (!in && character))
            fail_msg("U+%04X", v);
    }
    static const char *const wrong[] = {"\xC1\x81", "\xE0\x82\x80", "\xF4\x90\x80\x80",
                                        "\xC4",     "\x80",         "\xF8\x88\x80\x80\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(matches(c.r, wrong[i], strlen(wrong[i])) ||
                     matches(others.r, wrong[i], strlen(wrong[i])));
    free(c.memory);
    free(others.memory);
}

/* A count is two numbers, so an expression with a large one needs few nodes, and a long text few at a time.
 */
static void counters(void **state) {
    (void)state;
    struct compiled c = must("x{2,100000}", REGEX_WHOLE, REGEX_MIN_NODES);
    assert_true(regex_nodes_used(c.r) < 8);
    char *text = malloc(100001);
    assert_non_null(text);
    memset(text, 'x', 100001);
    assert_false(matches(c.r, text, 1));
    assert_true(matches(c.r, text, 2));
    assert_true(matches(c.r, text, 100000));
    assert_false(matches(c.r, text, 100001));
    free(text);
    free(c.memory);
}

/* States that a caller holds keep their meaning through a collection. */
static void collection(void **state) {
    (void)state;
    struct compiled c = must("(ab|cd){3}e|a[bx]*f", REGEX_WHOLE, 1024);
    uint32_t held[3], next;
    held[0] = held[1] = held[2] = regex_start(c.r);
    for (const char *s = "abcd"; *s != '\0'; s++)
        assert_int_equal(regex_step(c.r, held[1], (uint8_t)*s, &held[1]), REGEX_OK);
    for (const char *s = "abx"; *s != '\0'; s++)
        assert_int_equal(regex_step(c.r, held[2], (uint8_t)*s, &held[2]), REGEX_OK);
    uint32_t before = regex_nodes_used(c.r);
    regex_collect(c.r, held, 3);
    assert_true(regex_nodes_used(c.r) < before);
    assert_int_equal(held[0], regex_start(c.r));
    for (const char *s = "cde"; *s != '\0'; s++)
        assert_int_equal(regex_step(c.r, held[1], (uint8_t)*s, &held[1]), REGEX_OK);
    assert_true(regex_accepts(c.r, held[1]));
    assert_int_equal(regex_step(c.r, held[2], 'f', &next), REGEX_OK);
    assert_true(regex_accepts(c.r, next));
    assert_int_equal(regex_step(c.r, held[2], 'e', &next), REGEX_OK);
    assert_int_equal(next, REGEX_DEAD);
    free(c.memory);
}

/* Expressions that explode elsewhere: each ends in an answer or in a refusal. */
static void hostile(void **state) {
    (void)state;
    static const char *const rows[] = {
        "(a*)*b",     "((a{1,1000}){1,1000}){1,1000}", "(a?){1000}a{1000}",
        ".*a.{1000}", "(a|aa|aaa|aaaa)*(b|a)*c",       "((((((((((a+)+)+)+)+)+)+)+)+)+)+$",
        "(.*a){50}",
    };
    char text[3000];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct compiled c = must(rows[i], REGEX_SEARCH, 16384);
        bool m = false;
        enum regex_result result = regex_matches(c.r, text, sizeof text, &m);
        print_message("%s: %s\n", rows[i], result == REGEX_OK ? m ? "matches" : "does not match" : "refused");
        assert_true(result == REGEX_OK || result == REGEX_FULL || result == REGEX_STEPS ||
                    result == REGEX_DEPTH);
        if (i == 0 || i == 4)
            assert_true(result == REGEX_OK && !m);
        if (i == 5)
            assert_true(result == REGEX_OK && m);
        free(c.memory);
    }
    char *deep = malloc(70000);
    assert_non_null(deep);
    memset(deep, '(', 70000);
    for (int i = 0; i < 2; i++) {
        struct compiled c = compile_n(deep, i == 0 ? 60000 : 70000, REGEX_WHOLE, 4096);
        assert_int_equal(c.status, STATOR_USAGE);
        assert_non_null(strstr(c.e.text, i == 0 ? "deeper than" : "at most 65536"));
        free(c.memory);
    }
    for (size_t i = 0; i < 60000; i++)
        deep[i] = "abcdefg|"[i * 7 % 8];
    struct compiled c = compile_n(deep, 60000, REGEX_WHOLE, REGEX_MIN_NODES);
    assert_true(c.status == STATOR_OK || c.status == STATOR_DOES_NOT_FIT);
    free(c.memory);
    for (size_t i = 0; i < 60000; i++)
        deep[i] = (char)('a' + i % 26 * (i % 7) % 26);
    c = compile_n(deep, 60000, REGEX_WHOLE, REGEX_MIN_NODES);
    assert_int_equal(c.status, STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(c.e.text, "needs more than"));
    free(c.memory);
    deep[59999] = '$'; /* a long list with an anchor is no deep nesting */
    for (size_t i = 0; i < 59999; i++)
        deep[i] = ".a"[i % 2];
    c = compile_n(deep, 60000, REGEX_SEARCH, 1 << 17);
    assert_int_equal(c.status, STATOR_OK);
    free(c.memory);
    free(deep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syntax),           cmocka_unit_test(refused),  cmocka_unit_test(same_as_libc),
        cmocka_unit_test(every_code_point), cmocka_unit_test(counters), cmocka_unit_test(collection),
        cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
