/* The tests of the Jinja, as a table, and its global functions. */
#include "chat/jinja/jinja_parse.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static int64_t need_int(struct jinja *j, const struct jinja_value *v, const char *who) {
    if (v->kind == JINJA_BOOL)
        return v->b;
    if (v->kind != JINJA_INT)
        jinja_fail(j, "%s: an integer is expected, found a %s", who, jinja_kind_name(v));
    return v->i;
}

/* --- tests */

enum test_number {
    TEST_BOOLEAN,
    TEST_CALLABLE,
    TEST_DEFINED,
    TEST_DIVISIBLEBY,
    TEST_EQ,
    TEST_EVEN,
    TEST_FALSE,
    TEST_FLOAT,
    TEST_GE,
    TEST_GT,
    TEST_IN,
    TEST_INTEGER,
    TEST_ITERABLE,
    TEST_LE,
    TEST_LOWER,
    TEST_LT,
    TEST_MAPPING,
    TEST_NE,
    TEST_NONE,
    TEST_NUMBER,
    TEST_ODD,
    TEST_SAMEAS,
    TEST_SEQUENCE,
    TEST_STRING,
    TEST_TRUE,
    TEST_UNDEFINED,
    TEST_UPPER
};
static const struct {
    const char *name;
    enum test_number number;
    size_t arguments;
} tests[] = {{"!=", TEST_NE, 1},
             {"<", TEST_LT, 1},
             {"<=", TEST_LE, 1},
             {"==", TEST_EQ, 1},
             {">", TEST_GT, 1},
             {">=", TEST_GE, 1},
             {"boolean", TEST_BOOLEAN, 0},
             {"callable", TEST_CALLABLE, 0},
             {"defined", TEST_DEFINED, 0},
             {"divisibleby", TEST_DIVISIBLEBY, 1},
             {"eq", TEST_EQ, 1},
             {"equalto", TEST_EQ, 1},
             {"even", TEST_EVEN, 0},
             {"false", TEST_FALSE, 0},
             {"float", TEST_FLOAT, 0},
             {"ge", TEST_GE, 1},
             {"greaterthan", TEST_GT, 1},
             {"gt", TEST_GT, 1},
             {"in", TEST_IN, 1},
             {"integer", TEST_INTEGER, 0},
             {"iterable", TEST_ITERABLE, 0},
             {"le", TEST_LE, 1},
             {"lessthan", TEST_LT, 1},
             {"lower", TEST_LOWER, 0},
             {"lt", TEST_LT, 1},
             {"mapping", TEST_MAPPING, 0},
             {"ne", TEST_NE, 1},
             {"none", TEST_NONE, 0},
             {"number", TEST_NUMBER, 0},
             {"odd", TEST_ODD, 0},
             {"sameas", TEST_SAMEAS, 1},
             {"sequence", TEST_SEQUENCE, 0},
             {"string", TEST_STRING, 0},
             {"true", TEST_TRUE, 0},
             {"undefined", TEST_UNDEFINED, 0},
             {"upper", TEST_UPPER, 0}};

static size_t test_number_of(struct jinja_string name) {
    size_t i = 0;
    while (i < sizeof tests / sizeof tests[0] && !jinja_is(name, tests[i].name))
        i++;
    return i;
}

static bool letters_are(struct jinja *j, const struct jinja_value *v, const char *other) {
    const struct jinja_args none = {.named = jinja_new_dict(j, 0).dict};
    struct jinja_value s = jinja_str(j, v), changed = jinja_method(j, &s, jinja_of_text(other).s, &none);
    bool any = false;
    for (size_t i = 0; i < s.s.n; i++)
        any = any || isalpha((unsigned char)s.s.p[i]);
    return any && jinja_equal(j, &s, &changed);
}

/* An integer of Python beyond 64 bits. */
static bool is_long_integer(const struct jinja_value *v) {
    for (size_t i = 0; v->kind == JINJA_FLOAT && i < v->s.n; i++)
        if (!isdigit((unsigned char)v->s.p[i]) && !(i == 0 && v->s.p[i] == '-'))
            return false;
    return v->kind == JINJA_FLOAT && v->s.n > 0;
}

/* v % by == rest, as Python has it for integers, booleans and floats; by NULL: 2. */
static bool divisible(struct jinja *j, const struct jinja_value *v, const struct jinja_value *by, bool rest,
                      const char *name) {
    double x = 0, y = 2;
    if (!jinja_number(v, &x) || (by != NULL && !jinja_number(by, &y)) || y == 0)
        jinja_fail(j, "the test '%s' is for numbers, and not for 0 as divisor", name);
    if (v->kind == JINJA_INT && (by == NULL || by->kind == JINJA_INT)) {
        const int64_t i = by == NULL ? 2 : by->i;
        return (i == -1 || v->i % i == 0) != rest;
    }
    const double left = fabs(fmod(x, y));
    return rest ? left == 1 : left == 0;
}

/* Python's `is`, as far as a template can rely on it: what is shared, and small values of the same type. */
static bool same(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b) {
    if (a->kind != b->kind)
        return false;
    return a->kind == JINJA_LIST                                 ? a->list == b->list
           : a->kind == JINJA_DICT || a->kind == JINJA_NAMESPACE ? a->dict == b->dict
                                                                 : jinja_equal(j, a, b);
}

bool jinja_test(struct jinja *j, struct jinja_string name, const struct jinja_value *v,
                const struct jinja_args *a) {
    size_t i = test_number_of(name);
    if (i == sizeof tests / sizeof tests[0])
        jinja_fail(j, "the test '%.*s' is not supported", (int)(name.n < 60 ? name.n : 60), name.p);
    if (a->n != tests[i].arguments || a->named->n > 0)
        jinja_fail(j, "the test '%s' takes %zu arguments, found %zu", tests[i].name, tests[i].arguments,
                   a->n + a->named->n);
    jinja_step(j, 1 + (v->kind == JINJA_STRING ? v->s.n / 64 : 0));
    const bool whole = v->kind == JINJA_INT;
    switch (tests[i].number) {
    case TEST_BOOLEAN:
        return v->kind == JINJA_BOOL;
    case TEST_CALLABLE: /* of an undefined value too: calling it is what fails */
        return v->kind >= JINJA_FUNCTION || v->kind == JINJA_UNDEFINED;
    case TEST_DEFINED:
        return v->kind != JINJA_UNDEFINED;
    case TEST_UNDEFINED:
        return v->kind == JINJA_UNDEFINED;
    case TEST_DIVISIBLEBY:
    case TEST_EVEN:
    case TEST_ODD:
        return divisible(j, v, tests[i].number == TEST_DIVISIBLEBY ? &a->at[0] : NULL,
                         tests[i].number == TEST_ODD, tests[i].name);
    case TEST_EQ:
        return jinja_equal(j, v, &a->at[0]);
    case TEST_NE:
        return !jinja_equal(j, v, &a->at[0]);
    case TEST_FALSE:
        return v->kind == JINJA_BOOL && !v->b;
    case TEST_TRUE:
        return v->kind == JINJA_BOOL && v->b;
    case TEST_FLOAT:
        return v->kind == JINJA_FLOAT && !is_long_integer(v);
    case TEST_INTEGER:
        return whole || is_long_integer(v);
    case TEST_NUMBER:
        return whole || v->kind == JINJA_FLOAT || v->kind == JINJA_BOOL;
    case TEST_GE:
        return jinja_order(j, v, &a->at[0]) >= 0;
    case TEST_GT:
        return jinja_order(j, v, &a->at[0]) > 0;
    case TEST_LE:
        return jinja_order(j, v, &a->at[0]) <= 0;
    case TEST_LT:
        return jinja_order(j, v, &a->at[0]) < 0;
    case TEST_IN:
        return jinja_in(j, v, &a->at[0]);
    case TEST_SAMEAS:
        return same(j, v, &a->at[0]);
    case TEST_SEQUENCE:
        if (v->kind == JINJA_LIST)
            return v->list->view == JINJA_NO_VIEW || v->list->view == JINJA_RANGE;
        return v->kind == JINJA_STRING || v->kind == JINJA_DICT || v->kind == JINJA_UNDEFINED;
    case TEST_ITERABLE:
        return v->kind == JINJA_LIST || v->kind == JINJA_STRING || v->kind == JINJA_DICT ||
               v->kind == JINJA_UNDEFINED;
    case TEST_LOWER:
        return letters_are(j, v, "lower");
    case TEST_UPPER:
        return letters_are(j, v, "upper");
    case TEST_MAPPING:
        return v->kind == JINJA_DICT;
    case TEST_NONE:
        return v->kind == JINJA_NONE;
    default:
        return v->kind == JINJA_STRING;
    }
}

/* --- functions */

static struct jinja_value range(struct jinja *j, const struct jinja_args *a) {
    int64_t at[3] = {0, 0, 1};
    if (a->n == 0 || a->n > 3)
        jinja_fail(j, "range takes one to three integers");
    for (size_t i = 0; i < a->n; i++)
        at[a->n == 1 ? 1 : i] = need_int(j, &a->at[i], "range");
    if (at[2] == 0)
        jinja_fail(j, "range: the step is 0");
    struct jinja_value v = jinja_new_list(j, 0);
    v.list->view = JINJA_RANGE;
    for (int64_t i = at[0]; at[2] > 0 ? i < at[1] : i > at[1];) {
        jinja_list_add(j, v.list, jinja_int(i));
        if (__builtin_add_overflow(i, at[2], &i))
            break;
    }
    return v;
}

static struct jinja_value make_dict(struct jinja *j, const struct jinja_args *a) {
    struct jinja_value v = jinja_new_dict(j, 0);
    if (a->n > 1 || (a->n == 1 && a->at[0].kind != JINJA_DICT))
        jinja_fail(j, "namespace and dict take one dict, and named values");
    for (size_t i = 0; a->n == 1 && i < a->at[0].dict->n; i++)
        jinja_dict_put(j, v.dict, a->at[0].dict->entries[i].key, a->at[0].dict->entries[i].value);
    for (size_t i = 0; i < a->named->n; i++)
        jinja_dict_put(j, v.dict, a->named->entries[i].key, a->named->entries[i].value);
    return v;
}

static struct jinja_value now(struct jinja *j, const struct jinja_args *a) {
    char format[100], out[400];
    if (a->n != 1 || a->at[0].kind != JINJA_STRING || a->at[0].s.n >= sizeof format)
        jinja_fail(j, "strftime_now takes one format of less than %zu bytes", sizeof format);
    memcpy(format, a->at[0].s.p, a->at[0].s.n);
    format[a->at[0].s.n] = '\0';
    size_t n = strftime(out, sizeof out, format, j->in->now);
    char *copy = jinja_take(j, n + 1, 1);
    memcpy(copy, out, n);
    return jinja_of_string(copy, n);
}

static const char *const functions[] = {"range",           "namespace",    "dict",
                                        "raise_exception", "strftime_now", "joiner"};

bool jinja_has_function(struct jinja_string name) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (jinja_is(name, functions[i]))
            return true;
    return false;
}

struct jinja_value jinja_function(struct jinja *j, struct jinja_string name, const struct jinja_args *a) {
    if (jinja_is(name, "range"))
        return range(j, a);
    if (jinja_is(name, "dict"))
        return make_dict(j, a);
    if (jinja_is(name, "namespace")) {
        struct jinja_value v = make_dict(j, a);
        v.kind = JINJA_NAMESPACE;
        return v;
    }
    if (jinja_is(name, "strftime_now"))
        return now(j, a);
    if (jinja_is(name, "joiner")) {
        struct jinja_bound *b = jinja_take(j, 1, sizeof *b);
        b->object.kind = JINJA_OF_BOUND;
        b->self = a->n > 0 ? a->at[0] : jinja_of_text(", ");
        return (struct jinja_value){.kind = JINJA_METHOD, .bound = b, .s = {"joiner", 6}};
    }
    struct jinja_value what = a->n > 0 ? jinja_str(j, &a->at[0]) : jinja_of_text("(without a reason)");
    jinja_fail(j, "it refuses this conversation: %.*s", (int)(what.s.n < 300 ? what.s.n : 300), what.s.p);
}
