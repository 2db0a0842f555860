#include "app/help/man.h"

#include "app/commands.h"
#include "app/help_topics.h"
#include "app/options/options.h"
#include "app/out.h"

#include <string.h>

static void print_key(const struct config_row *row) {
    char expected[CONFIG_EXPECTED];
    const char *quote = help_quote(row);
    printf(".TP\n\\fB");
    options_print_roff(row->section);
    putchar('.');
    options_print_roff(row->name);
    printf("\\fR (");
    options_print_roff(config_table_kind(row));
    if (row->unit[0] != '\0') {
        printf(", ");
        options_print_roff(row->unit);
    }
    printf(")\n");
    options_print_roff(row->help);
    printf("\n.br\nExpected: ");
    options_print_roff(config_table_expected(row, expected));
    printf(". Default: %s", quote);
    options_print_roff(row->default_text);
    printf("%s.\n", quote);
}

static void print_topics(void) {
    printf(".SH TOPICS\n.B stator help\n\\fITOPIC\\fR prints a text about it:\n");
    for (size_t i = 0; i < help_n_topics; i++) {
        const char *title = help_topics[i].text + strspn(help_topics[i].text, "# ");
        char line[128];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(title, "\n"), title);
        printf(".TP\n.B ");
        options_print_roff(help_topics[i].name);
        printf("\n");
        options_print_roff(line);
        printf("\n");
    }
}

static void print_exits(void) {
    static const char *const meaning[] = {[STATOR_OK] = "done",
                                          [STATOR_FAILED] = "another failure than those below",
                                          [STATOR_USAGE] = "wrong usage or config",
                                          [STATOR_DOES_NOT_FIT] = "the plan does not fit",
                                          [STATOR_BAD_MODEL] = "bad model file",
                                          [STATOR_DEVICE] = "a device failed"};
    printf(".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof meaning / sizeof meaning[0]; i++)
        printf(".TP\n.B %zu\n%s\n", i, meaning[i]);
}

int man_print(void) {
    /* Ragged lines, no hyphens: long names and numbers leave no other choice. */
    printf(".\\\" Made by `stator help --man`.\n"
           ".TH STATOR 1 \"\" \"stator %s\" \"User Commands\"\n.ad l\n.nh\n"
           ".SH NAME\nstator \\- large language models in memory that is planned to the byte\n"
           ".SH SYNOPSIS\n.B stator\n\\fICOMMAND\\fR [\\fIARGUMENT\\fR]...\n"
           ".SH DESCRIPTION\n"
           "stator runs large language models from GGUF files, on the CPU and on Intel GPUs.\n"
           "All memory is planned beforehand, taken once at start and never grown.\n"
           "CONFIG is a config file or a .gguf file.\n"
           "Results go to standard output, everything for people to standard error.\n"
           ".SH COMMANDS\n",
           STATOR_VERSION);
    options_help_is_roff();
    for (size_t i = 0; i < commands_table_size; i++) {
        char name[32];
        char help[] = "--help";
        snprintf(name, sizeof name, "%s", commands_table[i].name);
        int code = commands_table[i].run(2, (char *[]){name, help, NULL});
        if (code != 0)
            return code;
    }
    print_topics();
    printf(".SH CONFIG FILE\nA config file, in the syntax of libconfig, has sections of keys;\n");
    options_print_roff("--set section.key=value");
    printf("\nwins over it. Paths in it are relative to the file.\n.PP\n.nf\n"
           "model  = { path = \"model.gguf\" }\nmemory = { context = 8192; kv_type = \"f16\" }\n.fi\n");
    for (size_t i = 0; i < CONFIG_KEYS; i++)
        print_key(&config_table[i]);
    print_exits();
    return out_finish("help", STATOR_OK);
}
