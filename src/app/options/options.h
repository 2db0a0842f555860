/* Command-line options: a command declares a table, the parser fills the targets, and --help comes from the
 * same table.
 *
 * `--name value`, `--name=value`, `-n value`, `-nvalue`; `--` ends the options; what looks like a negative
 * number is never taken for an option. An option's value may begin with a minus unless it is itself the name
 * of an option of this command. --help (-h) is everywhere. Nothing is allocated: texts point into argv. */
#ifndef STATOR_APP_OPTIONS_H
#define STATOR_APP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTIONS_MAX_LIST 64 /* repeats of one option */

enum options_kind {
    OPTIONS_FLAG,   /* bool */
    OPTIONS_TEXT,   /* const char * */
    OPTIONS_U64,    /* uint64_t, from min to max */
    OPTIONS_NUMBER, /* double, from number_min to number_max */
    OPTIONS_SIZE,   /* uint64_t bytes, from min to max: "2GiB" */
    OPTIONS_LIST    /* struct options_list: may be repeated */
};

struct options_list {
    const char *items[OPTIONS_MAX_LIST];
    size_t n;
};

struct options_row {
    const char *name; /* without dashes, or NULL */
    char letter;      /* or 0 */
    enum options_kind kind;
    void *target;      /* its value when the option is absent is the default */
    const char *value; /* what --help calls the value: "N"; NULL for flags */
    const char *help;
    uint64_t min, max;             /* max 0: no bound */
    double number_min, number_max; /* both 0: no bound */
    const char *key; /* of the config, "sampling.top_p", whose bounds these are (U64, NUMBER); or NULL */
    bool *given;     /* NULL, or set to true when the option is there */
};

struct options {
    const char *command;
    const char *usage;   /* what follows the name: "CONFIG [-p TEXT]", without the options below */
    const char *summary; /* sentences for --help */
    const struct options_row *rows;
    size_t n_rows;
    size_t min_arguments; /* arguments that are not options */
    size_t max_arguments;
    const char *arguments[4]; /* filled; max_arguments <= 4 */
    size_t n_arguments;
};

/* Rows that several commands have: `--set section.key=value`, `--json`, `--report FILE`, `--expect-plan
 * HASH`. */
#define OPTIONS_SET(list)                                                                                    \
    {                                                                                                        \
        .name = "set", .kind = OPTIONS_LIST, .target = (list), .value = "KEY=VALUE",                         \
        .help = "a key of the config, such as memory.context=8192 (may be repeated)"                         \
    }
#define OPTIONS_REPORT(path)                                                                                 \
    {                                                                                                        \
        .name = "report", .kind = OPTIONS_TEXT, .target = (path), .value = "FILE",                           \
        .help = "write the closing report as JSON"                                                           \
    }
#define OPTIONS_EXPECT_PLAN(hash)                                                                            \
    {                                                                                                        \
        .name = "expect-plan", .kind = OPTIONS_TEXT, .target = (hash), .value = "HASH",                      \
        .help = "exit 3 unless the plan has this hash"                                                       \
    }
#define OPTIONS_JSON(flag)                                                                                   \
    { .name = "json", .kind = OPTIONS_FLAG, .target = (flag), .help = "print JSON" }

/* True: go on. False: return *code (0 after --help, which is on stdout then; 2 after an error, told on
 * stderr). */
bool options_parse(struct options *o, int argc, char **argv, int *code);
/* The same for a command with exactly one argument, such as CONFIG, which goes to *argument. */
bool options_parse_one(struct options *o, int argc, char **argv, const char **argument, int *code);

/* From here on --help prints a section of the manual page instead (roff). */
void options_help_is_roff(void);

/* Text that roff takes as it stands: escapes, and no line that begins like a request. */
void options_print_roff(const char *text);

#endif
