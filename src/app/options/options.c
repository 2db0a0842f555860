#include "app/options/options.h"

#include "app/options/foreign_options.h"
#include "app/out.h"
#include "base/arith.h"
#include "base/nearest.h"
#include "base/units.h"
#include "config/config_table.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROWS  48
#define MAX_NAME  64
#define HELP_LEFT 28 /* columns of the options' names */

static bool help_is_roff; /* of this process: `stator help --man` */

/* "--name" or "-n", for messages. */
static const char *row_name(const struct options_row *row, char *out) {
    if (row->name != NULL)
        snprintf(out, MAX_NAME, "--%s", row->name);
    else
        snprintf(out, MAX_NAME, "-%c", row->letter);
    return out;
}

static void print_row(const char *left, const char *help) {
    printf("  %-*s%s%s\n", HELP_LEFT, left, strlen(left) >= HELP_LEFT ? " " : "", help);
}

void options_print_roff(const char *text) {
    bool first = true;
    for (; *text != '\0'; text++) {
        if (first && (*text == '.' || *text == '\''))
            printf("\\&");
        first = *text == '\n';
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else if (*text == '`')
            printf("\\(ga");
        else if (*text == '^')
            printf("\\(ha");
        else if (*text == '~')
            printf("\\(ti");
        else
            putchar(*text);
    }
}

static void print_roff(const struct options *o) {
    printf(".SS stator ");
    options_print_roff(o->command);
    printf("\n.B stator ");
    options_print_roff(o->command);
    printf("\n");
    if (o->usage[0] != '\0') {
        options_print_roff(o->usage);
        printf("\n");
    }
    printf("%s.PP\n", o->n_rows > 0 ? "[OPTION]...\n" : "");
    options_print_roff(o->summary);
    printf("\n");
    for (size_t i = 0; i < o->n_rows; i++) {
        const struct options_row *row = &o->rows[i];
        printf(".TP\n\\fB");
        if (row->letter != 0)
            printf("\\-%c%s", row->letter, row->name != NULL ? ", " : "");
        if (row->name != NULL) {
            options_print_roff("--");
            options_print_roff(row->name);
        }
        printf("\\fR");
        if (row->value != NULL) {
            putchar(' ');
            options_print_roff(row->value);
        }
        printf("\n");
        options_print_roff(row->help);
        printf("\n");
    }
}

bool options_parse_one(struct options *o, int argc, char **argv, const char **argument, int *code) {
    o->min_arguments = o->max_arguments = 1;
    const bool goes_on = options_parse(o, argc, argv, code);
    *argument = goes_on ? o->arguments[0] : NULL;
    return goes_on;
}

void options_help_is_roff(void) {
    help_is_roff = true;
}

static void print_help(const struct options *o) {
    if (help_is_roff) {
        print_roff(o);
        return;
    }
    printf("usage: stator %s%s%s%s\n\n%s\n\noptions:\n", o->command, o->usage[0] != '\0' ? " " : "", o->usage,
           o->n_rows > 0 ? " [OPTION]..." : "", o->summary);
    for (size_t i = 0; i < o->n_rows; i++) {
        const struct options_row *row = &o->rows[i];
        char letter[8] = "";
        char left[MAX_NAME * 2];
        if (row->letter != 0)
            snprintf(letter, sizeof letter, "-%c%s", row->letter, row->name != NULL ? ", " : "");
        snprintf(left, sizeof left, "%s%s%s%s%s", letter, row->name != NULL ? "--" : "",
                 row->name != NULL ? row->name : "", row->value != NULL ? " " : "",
                 row->value != NULL ? row->value : "");
        print_row(left, row->help);
    }
    print_row("-h, --help", "this text");
}

/* The row that text names exactly ("--set", "-n"); value: what follows the = or the letter, or NULL. */
static const struct options_row *find(const struct options *o, const char *text, const char **value) {
    *value = NULL;
    if (text[0] != '-' || text[1] == '\0')
        return NULL;
    if (text[1] != '-') {
        for (size_t i = 0; i < o->n_rows; i++) {
            if (o->rows[i].letter == 0 || o->rows[i].letter != text[1])
                continue;
            *value = text[2] != '\0' ? text + 2 : NULL;
            return &o->rows[i];
        }
        return NULL;
    }
    const char *name = text + 2;
    size_t n = strcspn(name, "=");
    for (size_t i = 0; i < o->n_rows; i++) {
        if (o->rows[i].name == NULL || strlen(o->rows[i].name) != n || strncmp(o->rows[i].name, name, n) != 0)
            continue;
        *value = name[n] == '=' ? name + n + 1 : NULL;
        return &o->rows[i];
    }
    return NULL;
}

static bool is_help(const char *text) {
    return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

static bool has_row(const struct options *o, const char *name) {
    for (size_t i = 0; i < o->n_rows; i++)
        if (o->rows[i].name != NULL && strcmp(o->rows[i].name, name) == 0)
            return true;
    return false;
}

/* Says what stator has in place of another program's option; `next` is the argument behind it, or NULL.
 * False: it is none. */
static bool told_foreign(const struct options *o, const char *text, const char *next) {
    const struct foreign_option *f = foreign_option_find(text);
    if (f == NULL || (f->key != NULL && !has_row(o, "set")))
        return false;
    const char *value = strchr(text, '=');
    value = value != NULL ? value + 1 : next != NULL && next[0] != '-' ? next : "VALUE";
    const char *more = f->hint != NULL ? f->hint : "";
    if (f->own != NULL && has_row(o, f->own))
        out_fail(o->command, STATOR_USAGE, "unknown option %.100s; stator has --%s", text, f->own);
    else if (f->key != NULL && f->hint != NULL)
        out_fail(o->command, STATOR_USAGE, "unknown option %.100s; stator has the key %s, %s: --set %s=VALUE",
                 text, f->key, more, f->key);
    else if (f->key != NULL)
        out_fail(o->command, STATOR_USAGE, "unknown option %.100s; stator has the key %s: --set %s=%.100s",
                 text, f->key, f->key, value);
    else
        out_fail(o->command, STATOR_USAGE, "unknown option %.100s: %s", text, more);
    return true;
}

static bool unknown(const struct options *o, const char *text, const char *next) {
    if (told_foreign(o, text, next))
        return false;
    const char *names[MAX_ROWS + 1];
    char typed[MAX_NAME];
    size_t n = 0;
    CHECK(o->n_rows <= MAX_ROWS);
    for (size_t i = 0; i < o->n_rows; i++)
        if (o->rows[i].name != NULL)
            names[n++] = o->rows[i].name;
    names[n++] = "help";
    const char *start = text + strspn(text, "-");
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(start, "="), start);
    const char *near = nearest_name(typed, names, n);
    if (near != NULL)
        out_fail(o->command, STATOR_USAGE, "unknown option %s; did you mean --%s?", text, near);
    else
        out_fail(o->command, STATOR_USAGE, "unknown option %s (`stator %s --help` lists them)", text,
                 o->command);
    return false;
}

static bool bad(const struct options *o, const struct options_row *row, const char *found,
                const char *expected) {
    char name[MAX_NAME];
    out_fail(o->command, STATOR_USAGE, "%s is \"%.100s\"; expected %s", row_name(row, name), found, expected);
    return false;
}

/* The key that has the bounds of this option; NULL: the row has them. */
static const struct config_row *key_of(const struct options_row *row) {
    if (row->key == NULL)
        return NULL;
    enum config_key key = config_table_find(row->key);
    CHECK(key < CONFIG_KEYS);
    return &config_table[key];
}

static bool take_u64(const struct options *o, const struct options_row *row, const char *text) {
    uint64_t v = 0;
    const struct config_row *key = key_of(row);
    uint64_t min = key != NULL ? key->min : row->min;
    uint64_t max = key != NULL ? key->max : row->max != 0 ? row->max : UINT64_MAX;
    char expected[96];
    bool ok = text[0] != '\0';
    snprintf(expected, sizeof expected, "a %s from %" PRIu64 " to %" PRIu64,
             row->kind == OPTIONS_SIZE ? "size such as 2GiB" : "whole number", min, max);
    if (row->kind == OPTIONS_SIZE)
        ok = units_parse_size(text, &v);
    else
        for (const char *s = text; ok && *s != '\0'; s++)
            ok = isdigit((unsigned char)*s) && arith_mul(v, 10, &v) && arith_add(v, (uint64_t)(*s - '0'), &v);
    if (!ok || v < min || v > max)
        return bad(o, row, text, expected);
    *(uint64_t *)row->target = v;
    return true;
}

static bool take_number(const struct options *o, const struct options_row *row, const char *text) {
    char *end = NULL;
    double v = strtod(text, &end);
    const struct config_row *key = key_of(row);
    double min = key != NULL ? key->number_min : row->number_min;
    double max = key != NULL ? key->number_max : row->number_max;
    bool bounded = min != 0 || max != 0;
    char expected[96] = "a number";
    if (bounded)
        snprintf(expected, sizeof expected, "a number from %g to %g", min, max);
    bool form = text[0] != '\0' && strspn(text, "0123456789+-.eE") == strlen(text) && *end == '\0';
    if (!form || !isfinite(v) || (bounded && (v < min || v > max)))
        return bad(o, row, text, expected);
    *(double *)row->target = v;
    return true;
}

static bool take_value(const struct options *o, const struct options_row *row, const char *text) {
    struct options_list *list = row->target;
    char name[MAX_NAME];
    if (row->given != NULL)
        *row->given = true;
    switch (row->kind) {
    case OPTIONS_FLAG:
        *(bool *)row->target = true;
        return true;
    case OPTIONS_TEXT:
        *(const char **)row->target = text;
        return true;
    case OPTIONS_U64:
    case OPTIONS_SIZE:
        return take_u64(o, row, text);
    case OPTIONS_NUMBER:
        return take_number(o, row, text);
    case OPTIONS_LIST:
        break;
    }
    if (list->n == OPTIONS_MAX_LIST) {
        out_fail(o->command, STATOR_USAGE, "%s is given more than %d times", row_name(row, name),
                 OPTIONS_MAX_LIST);
        return false;
    }
    list->items[list->n++] = text;
    return true;
}

/* One option at argv[*i]; moves *i over its value. */
static bool take_option(const struct options *o, int argc, char **argv, int *i) {
    const char *value = NULL;
    const char *ignored = NULL;
    char name[MAX_NAME];
    const struct options_row *row = find(o, argv[*i], &value);
    if (row == NULL || foreign_option_is_word(argv[*i]))
        return unknown(o, argv[*i], *i + 1 < argc ? argv[*i + 1] : NULL);
    if (row->kind == OPTIONS_FLAG) {
        if (value == NULL)
            return take_value(o, row, NULL);
        out_fail(o->command, STATOR_USAGE, "%s takes no value: %s", row_name(row, name), argv[*i]);
        return false;
    }
    if (value != NULL)
        return take_value(o, row, value);
    row_name(row, name);
    if (*i + 1 >= argc) {
        out_fail(o->command, STATOR_USAGE, "%s needs a value: %s %s", name, name, row->value);
        return false;
    }
    value = argv[++*i];
    bool exact = value[0] == '-' && (value[1] == '-' || (value[1] != '\0' && value[2] == '\0'));
    if (exact && find(o, value, &ignored) != NULL) {
        out_fail(o->command, STATOR_USAGE, "%s needs a value and is followed by the option %s", name, value);
        return false;
    }
    return take_value(o, row, value);
}

static bool take_all(struct options *o, int argc, char **argv) {
    bool ended = false;
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        bool option = !ended && text[0] == '-' && text[1] != '\0' && !isdigit((unsigned char)text[1]);
        if (option && strcmp(text, "--") == 0) {
            ended = true;
        } else if (option) {
            if (!take_option(o, argc, argv, &i))
                return false;
        } else if (o->n_arguments == o->max_arguments) {
            out_fail(o->command, STATOR_USAGE, "one argument too many: \"%.100s\"; usage: stator %s %s", text,
                     o->command, o->usage);
            return false;
        } else {
            o->arguments[o->n_arguments++] = text;
        }
    }
    if (o->n_arguments >= o->min_arguments)
        return true;
    out_fail(o->command, STATOR_USAGE, "an argument is missing; usage: stator %s %s", o->command, o->usage);
    return false;
}

/* --help wins over every error, except where it is the text after --. */
static bool wants_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

bool options_parse(struct options *o, int argc, char **argv, int *code) {
    CHECK(o->max_arguments <= sizeof o->arguments / sizeof o->arguments[0]);
    o->n_arguments = 0;
    if (wants_help(argc, argv)) {
        print_help(o);
        *code = out_finish(o->command, STATOR_OK);
        return false;
    }
    *code = STATOR_USAGE;
    return take_all(o, argc, argv);
}
