/* The commands. Each gets argv[0] = its own name and returns the exit code; main.c holds the table of those
 * that are linked in. */
#ifndef STATOR_APP_COMMANDS_H
#define STATOR_APP_COMMANDS_H

#include <stddef.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* one line */
};

int plan_command(int argc, char **argv);
int run_command(int argc, char **argv);
int logits_command(int argc, char **argv);
int tokenize_command(int argc, char **argv);
int inspect_command(int argc, char **argv);
int config_command(int argc, char **argv);
int help_command(int argc, char **argv);
int version_command(int argc, char **argv);

/* In main.c, for `stator help`. */
extern const struct command command_table[];
extern const size_t command_table_size;

#endif
