/* app/options: every kind of option, bounds, typos, what looks like an option and is not one. Messages go to
 * stderr. */
#include "testing.h"

#include "app/options/options.h"
#include "stator.h"

struct target {
    bool json, given_seed;
    const char *prompt;
    uint64_t n, seed, size;
    double temperature;
    struct options_list set;
    int code;
    struct options o;
};

static struct target t;

/* Parses argv (up to NULL) with fresh targets. */
static bool parse(const char *const *argv) {
    memset(&t, 0, sizeof t);
    static char copies[16][64];
    char *args[16];
    int argc = 0;
    const struct options_row rows[] = {
        OPTIONS_SET(&t.set),
        OPTIONS_JSON(&t.json),
        {.name = "prompt",
         .letter = 'p',
         .kind = OPTIONS_TEXT,
         .target = &t.prompt,
         .value = "TEXT",
         .help = "text"},
        {.letter = 'n', .kind = OPTIONS_U64, .target = &t.n, .value = "N", .help = "tokens", .max = 100},
        {.name = "seed",
         .kind = OPTIONS_U64,
         .target = &t.seed,
         .value = "S",
         .help = "seed",
         .given = &t.given_seed},
        {.name = "temp",
         .kind = OPTIONS_NUMBER,
         .target = &t.temperature,
         .value = "T",
         .help = "heat",
         .number_max = 2},
        {.name = "size",
         .kind = OPTIONS_SIZE,
         .target = &t.size,
         .value = "SIZE",
         .help = "size",
         .min = 1024},
    };
    t.o = (struct options){.command = "test",
                           .usage = "CONFIG [MORE]",
                           .summary = "Test.",
                           .rows = rows,
                           .n_rows = sizeof rows / sizeof rows[0],
                           .min_arguments = 1,
                           .max_arguments = 2};
    args[argc++] = strcpy(copies[0], "test");
    for (; *argv != NULL; argv++, argc++)
        args[argc] = strcpy(copies[argc], *argv);
    return options_parse(&t.o, argc, args, &t.code);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void every_kind(void **state) {
    (void)state;
    assert_true(PARSE("a.cfg", "--set", "x.y=1", "--json", "-p", "hello", "--set=z.w=--2", "-n7", "--seed",
                      "18446744073709551615", "--temp=0.5", "--size", "2GiB", "more"));
    assert_int_equal(t.o.n_arguments, 2);
    assert_string_equal(t.o.arguments[0], "a.cfg");
    assert_string_equal(t.o.arguments[1], "more");
    assert_int_equal(t.set.n, 2);
    assert_string_equal(t.set.items[0], "x.y=1");
    assert_string_equal(t.set.items[1], "z.w=--2");
    assert_true(t.json && t.given_seed && t.seed == UINT64_MAX && t.n == 7 && t.temperature == 0.5);
    assert_true(t.size == 2ull << 30);
    assert_string_equal(t.prompt, "hello");
    assert_true(PARSE("a"));
    assert_false(t.given_seed);
}

static void dashes_that_are_no_options(void **state) {
    (void)state;
    assert_true(PARSE("a", "-p", "-hello there"));
    assert_string_equal(t.prompt, "-hello there");
    assert_true(PARSE("a", "-p", "- item"));
    assert_true(PARSE("a", "-p", "-never")); /* -n is an option, this is not exactly it */
    assert_string_equal(t.prompt, "-never");
    assert_true(PARSE("a", "-p", "--set x"));
    assert_true(PARSE("-5", "-"));
    assert_string_equal(t.o.arguments[0], "-5");
    assert_string_equal(t.o.arguments[1], "-");
    assert_true(PARSE("--", "--json", "-n"));
    assert_string_equal(t.o.arguments[0], "--json");
    assert_false(t.json);
    assert_true(PARSE("a", "-p", ""));
    assert_string_equal(t.prompt, "");
    assert_true(PARSE("", "--prompt=--json"));
    assert_string_equal(t.prompt, "--json");
}

static void refused(void **state) {
    (void)state;
    static const char *const bad[][4] = {
        {"a", "--sed", "1"},
        {"a", "--zzzzzz"},
        {"a", "-x"},
        {"a", "--json=1"},
        {"a", "-p"},
        {"a", "--prompt"},
        {"a", "-p", "--json"},
        {"a", "-p", "-n"},
        {"a", "-n", "101"},
        {"a", "-n", "-1"},
        {"a", "-n", ""},
        {"a", "-n", "1x"},
        {"a", "-n=1"},
        {"a", "--n", "1"},
        {"a", "--temp", "2.1"},
        {"a", "--temp", "-1"},
        {"a", "--temp", "nan"},
        {"a", "--temp", ""},
        {"a", "--temp=1e"},
        {"a", "--size", "5"},
        {"a", "--size=1XB"},
        {"a", "b", "c"},
        {"--json"},
        {"--"},
        {"a", "--seed", "18446744073709551616"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (parse(bad[i]))
            fail_msg("accepted: %s %s", bad[i][0], bad[i][1]);
        assert_int_equal(t.code, STATOR_USAGE);
    }
}

static void too_many_repeats(void **state) {
    (void)state;
    struct options_list list = {.n = 0};
    const struct options_row rows[] = {OPTIONS_SET(&list)};
    struct options o = {.command = "test", .usage = "", .summary = "", .rows = rows, .n_rows = 1};
    static char text[] = "--set=a.b=c";
    char *args[OPTIONS_MAX_LIST + 2];
    for (size_t i = 0; i < OPTIONS_MAX_LIST + 2; i++)
        args[i] = text;
    int code = 0;
    assert_true(options_parse(&o, OPTIONS_MAX_LIST + 1, args, &code));
    assert_int_equal(list.n, OPTIONS_MAX_LIST);
    list.n = 0;
    assert_false(options_parse(&o, OPTIONS_MAX_LIST + 2, args, &code));
    assert_int_equal(code, STATOR_USAGE);
}

static void one_argument(void **state) {
    (void)state;
    static char test[] = "test", config[] = "a.cfg", more[] = "b.cfg";
    char *one[] = {test, config, NULL}, *two[] = {test, config, more, NULL}, *none[] = {test, NULL};
    struct options o = {.command = "test", .usage = "CONFIG", .summary = "Test."};
    const char *argument = NULL;
    int code = 7;
    assert_true(options_parse_one(&o, 2, one, &argument, &code));
    assert_ptr_equal(argument, config);
    assert_false(options_parse_one(&o, 3, two, &argument, &code));
    assert_int_equal(code, STATOR_USAGE);
    assert_null(argument);
    code = 7;
    assert_false(options_parse_one(&o, 1, none, &argument, &code));
    assert_int_equal(code, STATOR_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_argument),
        cmocka_unit_test(every_kind),
        cmocka_unit_test(dashes_that_are_no_options),
        cmocka_unit_test(refused),
        cmocka_unit_test(too_many_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
