/* Rules, intersections and complements: what the front ends build grammars of. */
#include "testing.h"

#include "grammar/regex_nodes.h"

#define NODES 1024u

static struct regex *lay_out(void **memory, uint32_t nodes) {
    *memory = aligned_alloc(64, regex_bytes(nodes));
    assert_non_null(*memory);
    memset(*memory, 0xA5, regex_bytes(nodes)); /* nothing relies on cleared memory */
    return regex_lay_out(*memory, nodes);
}

static uint32_t text(struct regex *r, const char *s) {
    return regex_make_text(r, s, (uint32_t)strlen(s));
}

static uint32_t expression(struct regex *r, const char *s) {
    uint32_t node = REGEX_DEAD;
    stator_error e = {0};
    if (regex_parse(r, s, strlen(s), REGEX_WHOLE, REGEX_RAW, &node, &e) != STATOR_OK)
        fail_msg("%s: %s", s, e.text);
    return node;
}

static uint32_t either(struct regex *r, uint32_t a, uint32_t b) {
    uint32_t mark = r->n_stack;
    regex_push(r, a);
    regex_push(r, b);
    return regex_take_or(r, mark);
}

static uint32_t list(struct regex *r, uint32_t a, uint32_t b, uint32_t c) {
    return regex_make_concat(r, a, regex_make_concat(r, b, c));
}

static void seal(struct regex *r, uint32_t start) {
    uint32_t left;
    assert_true(regex_seal(r, start, &left));
}

static bool matches(struct regex *r, const char *s) {
    bool m = false;
    assert_int_equal(regex_matches(r, s, strlen(s), &m), REGEX_OK);
    return m;
}

/* s = a s b | c: the depth of a text is bounded by the nodes alone. */
static void recursion(void **state) {
    (void)state;
    void *memory;
    struct regex *r = lay_out(&memory, NODES);
    uint32_t rule, s = regex_make_rule(r, &rule);
    regex_set_rule(r, rule, either(r, list(r, text(r, "a"), s, text(r, "b")), text(r, "c")));
    seal(r, s);
    assert_true(matches(r, "c") && matches(r, "acb") && matches(r, "aaaacbbbb"));
    assert_false(matches(r, "") || matches(r, "acbb") || matches(r, "aacb") || matches(r, "ab"));
    char deep[602];
    memset(deep, 'a', 300);
    deep[300] = 'c';
    memset(deep + 301, 'b', 300);
    deep[601] = '\0';
    assert_true(matches(r, deep));
    deep[600] = '\0';
    assert_false(matches(r, deep));
    char *long_text = malloc(5001);
    assert_non_null(long_text);
    memset(long_text, 'a', 5000);
    bool m;
    assert_int_equal(regex_matches(r, long_text, 5000, &m), REGEX_FULL);
    assert_true(matches(r, "acb"));
    free(long_text);
    free(memory);
}

/* s = t x, t = (a s b)?: a rule that accepts the empty text although that was not known at first. */
static void empty_rules(void **state) {
    (void)state;
    void *memory;
    struct regex *r = lay_out(&memory, NODES);
    uint32_t rule_s, rule_t, s = regex_make_rule(r, &rule_s), t = regex_make_rule(r, &rule_t);
    regex_set_rule(r, rule_s, regex_make_concat(r, t, text(r, "x")));
    regex_set_rule(r, rule_t, either(r, list(r, text(r, "a"), s, text(r, "b")), REGEX_EMPTY));
    seal(r, s);
    assert_true(matches(r, "x") && matches(r, "axbx") && matches(r, "aaxbxbx"));
    assert_false(matches(r, "") || matches(r, "axb") || matches(r, "xx"));
    free(memory);
}

static void left_recursion(void **state) {
    (void)state;
    /* 0: s = s a. 1: s = t a, t = (b)? s. 2: reached only from behind: s = a t, t = t b */
    for (int i = 0; i < 3; i++) {
        void *memory;
        struct regex *r = lay_out(&memory, NODES);
        uint32_t rule_s, rule_t, left, s = regex_make_rule(r, &rule_s), t = regex_make_rule(r, &rule_t);
        uint32_t a = text(r, "a"), b = text(r, "b");
        regex_set_rule(r, rule_s,
                       i == 2 ? regex_make_concat(r, a, t) : regex_make_concat(r, i == 0 ? s : t, a));
        regex_set_rule(r, rule_t,
                       i == 2 ? either(r, regex_make_concat(r, t, b), b)
                              : regex_make_concat(r, regex_make_repeat(r, b, 0, 1), s));
        assert_false(regex_seal(r, s, &left));
        assert_int_equal(r->result, REGEX_OK);
        assert_true(left == rule_s || (i > 0 && left == rule_t));
        free(memory);
    }
}

/* s = a | b t, t = c t: t matches nothing, so b begins no match. */
static void endless(void **state) {
    (void)state;
    void *memory;
    struct regex *r = lay_out(&memory, NODES);
    uint32_t rule, next = 1, t = regex_make_rule(r, &rule), a = text(r, "a");
    regex_set_rule(r, rule, regex_make_concat(r, text(r, "c"), t));
    seal(r, either(r, a, regex_make_concat(r, text(r, "b"), t)));
    assert_int_equal(regex_step(r, regex_start(r), 'b', &next), REGEX_OK);
    assert_int_equal(next, REGEX_DEAD);
    assert_true(matches(r, "a"));
    free(memory);
    r = lay_out(&memory, NODES);
    t = regex_make_rule(r, &rule);
    regex_set_rule(r, rule, regex_make_concat(r, text(r, "c"), t));
    seal(r, t);
    assert_int_equal(regex_start(r), REGEX_DEAD);
    free(memory);
}

/* Verdicts of x & y and x & ~y on all short words follow from those of x and y, and no state is a dead end.
 */
static void booleans(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"[abc]*", "ab|ca|abc"}, {"[abc]{2,4}", "a*b*c*"},       {"(ab|c)*", "[^a]*a[^a]*"},
        {"[abc]*", "[abc]*a"},   {"(a|b)*c", "(aa|b)*c|a*bc"},   {"a*", "b+"},
        {"[abc]{3}", "[abc]*"},  {"(abc){1,3}", "[abc]{4,100}"},
    };
    size_t alive = 0, dead = 0;
    for (size_t row = 0; row < 2 * sizeof rows / sizeof *rows; row++) {
        void *memory[3];
        bool not = row % 2;
        struct regex *x = lay_out(&memory[0], NODES), *y = lay_out(&memory[1], NODES),
                     *both = lay_out(&memory[2], NODES);
        seal(x, expression(x, rows[row / 2][0]));
        seal(y, expression(y, rows[row / 2][1]));
        uint32_t a = expression(both, rows[row / 2][0]), b = expression(both, rows[row / 2][1]);
        seal(both, regex_make_and(both, a, not ? regex_make_not(both, b) : b));
        bool begins[1 + 3 + 9 + 27] = {false}; /* a match among the longer words */
        for (uint32_t length = 7; length-- > 0;) {
            uint32_t words = 1;
            for (uint32_t i = 0; i < length; i++)
                words *= 3;
            for (uint32_t w = 0; w < words; w++) {
                char s[8] = {0};
                uint32_t at = regex_start(both), v = w, prefix = 0;
                for (uint32_t i = 0; i < length; i++, v /= 3)
                    s[i] = (char)('a' + v % 3);
                bool expected = matches(x, s) && matches(y, s) != not ;
                if (matches(both, s) != expected)
                    fail_msg("%s, %s%s: '%s'", rows[row / 2][0], not ? "not " : "", rows[row / 2][1], s);
                for (uint32_t i = 0; i < length && at != REGEX_DEAD; i++)
                    assert_int_equal(regex_step(both, at, (uint8_t)s[i], &at), REGEX_OK);
                for (uint32_t n = 0, base = 0, power = 1; n <= length && n <= 3;
                     n++, base += power, power *= 3) {
                    prefix = base + w % power;
                    begins[prefix] |= expected;
                }
                if (length <= 3 && at != REGEX_DEAD && row < 14 && !begins[prefix])
                    fail_msg("%s, %s%s: nothing matches after '%s'", rows[row / 2][0], not ? "not " : "",
                             rows[row / 2][1], s);
                alive += at != REGEX_DEAD;
                dead += at == REGEX_DEAD;
            }
        }
        for (int i = 0; i < 3; i++)
            free(memory[i]);
    }
    assert_true(alive > 1000 && dead > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursion), cmocka_unit_test(empty_rules), cmocka_unit_test(left_recursion),
        cmocka_unit_test(endless),   cmocka_unit_test(booleans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
