/* The commands. Each gets argv[0] = its own name and returns the exit code (enum stator_status). */
#ifndef STATOR_APP_COMMANDS_H
#define STATOR_APP_COMMANDS_H

#include <stddef.h>
#include <stdio.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* one line */
};

extern const struct command commands_table[];
extern const size_t commands_table_size;

/* What `stator` and `stator help` print. */
void commands_print_list(FILE *f);

int plan_command(int argc, char **argv);
int run_command(int argc, char **argv);
int chat_command(int argc, char **argv);
int serve_command(int argc, char **argv);
int logits_command(int argc, char **argv);
int embed_command(int argc, char **argv);
int bench_command(int argc, char **argv);
int perplexity_command(int argc, char **argv);
int quantize_command(int argc, char **argv);
int tokenize_command(int argc, char **argv);
int inspect_command(int argc, char **argv);
int template_command(int argc, char **argv);
int grammar_command(int argc, char **argv);
int config_command(int argc, char **argv);
int pack_command(int argc, char **argv);
int devices_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int selftest_command(int argc, char **argv);
int help_command(int argc, char **argv);
int version_command(int argc, char **argv);

#endif
