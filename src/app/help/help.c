/* `stator help`: the commands; one command; every key of the config, from config_table; a topic, from the
 * README files that are carried in the binary. */
#include "app/commands.h"
#include "app/help_topics.h"
#include "app/help/man.h"
#include "app/options/options.h"
#include "app/out.h"
#include "arch/arch.h"
#include "base/json_writer.h"
#include "base/nearest.h"
#include "config/config_table.h"

#include <string.h>

#define WIDTH     100
#define MAX_NAMES 64

/* Text in lines of at most WIDTH columns, indented by four. */
static void print_wrapped(const char *text) {
    while (*text != '\0') {
        size_t n = strlen(text);
        if (n > WIDTH - 4) {
            n = WIDTH - 4;
            while (n > 0 && text[n] != ' ')
                n--;
        }
        printf("    %.*s\n", (int)n, text);
        text += n;
        text += strspn(text, " ");
    }
}

const char *help_quote(const struct config_row *row) {
    uint64_t ignored = 0;
    return row->kind >= CONFIG_KIND_ENUM || row->kind == CONFIG_KIND_SIZE ||
                   config_table_word(row, row->default_text, &ignored)
               ? "\""
               : "";
}

static void print_keys(void) {
    printf("A config file (libconfig syntax) has sections of keys; --set section.key=value wins over it:\n\n"
           "    model  = { path = \"model.gguf\" }\n    memory = { context = 8192; kv_type = \"f16\" }\n");
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const struct config_row *row = &config_table[i];
        char expected[CONFIG_EXPECTED];
        const char *quote = help_quote(row);
        printf("\n%s.%s  (%s%s%s)  default %s%s%s\n", row->section, row->name, config_table_kind(row),
               row->unit[0] != '\0' ? ", " : "", row->unit, quote, row->default_text, quote);
        print_wrapped(config_table_expected(row, expected));
        print_wrapped(row->help);
    }
}

static void json_bounds(struct json *j, const struct config_row *row) {
    if (row->kind == CONFIG_KIND_INTEGER || row->kind == CONFIG_KIND_SIZE) {
        json_put_u64(j, "min", row->min);
        json_put_u64(j, "max", row->max);
    } else if (row->kind == CONFIG_KIND_NUMBER) {
        json_put_double(j, "min", row->number_min);
        json_put_double(j, "max", row->number_max);
    }
    if (row->names[0] == NULL && row->words[0].word == NULL)
        return;
    json_open_array(j, "values");
    for (size_t i = 0; i < CONFIG_MAX_NAMES && row->names[i] != NULL; i++)
        json_put_string(j, NULL, row->names[i]);
    for (size_t i = 0; i < CONFIG_MAX_WORDS && row->words[i].word != NULL; i++)
        json_put_string(j, NULL, row->words[i].word);
    json_close(j);
}

static void print_keys_json(void) {
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_array(&j, NULL);
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const struct config_row *row = &config_table[i];
        json_open_object(&j, NULL);
        json_put_string(&j, "section", row->section);
        json_put_string(&j, "key", row->name);
        json_put_string(&j, "type", config_table_kind(row));
        json_bounds(&j, row);
        json_put_string(&j, "default", row->default_text);
        json_put_string(&j, "unit", row->unit);
        json_put_string(&j, "help", row->help);
        json_close(&j);
    }
    json_close(&j);
    (void)json_end(&j); /* out_finish reports what could not be written */
}

/* Architectures in the order of arch_list. */
static void print_models(void) {
    printf("Any GGUF file of one of these architectures runs (general.architecture; `stator inspect FILE` "
           "shows it):\n");
    for (size_t i = 0; arch_list[i] != NULL; i++) {
        printf("\n%s\n", arch_list[i]->name);
        print_wrapped(arch_list[i]->models);
    }
}

static void print_models_json(void) {
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_array(&j, NULL);
    for (size_t i = 0; arch_list[i] != NULL; i++) {
        json_open_object(&j, NULL);
        json_put_string(&j, "architecture", arch_list[i]->name);
        json_put_string(&j, "models", arch_list[i]->models);
        json_close(&j);
    }
    json_close(&j);
    (void)json_end(&j);
}

static void print_commands_json(void) {
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_array(&j, NULL);
    for (size_t i = 0; i < commands_table_size; i++) {
        json_open_object(&j, NULL);
        json_put_string(&j, "command", commands_table[i].name);
        json_put_string(&j, "help", commands_table[i].help);
        json_close(&j);
    }
    json_close(&j);
    (void)json_end(&j);
}

static void print_topic(const struct help_topic *t, bool as_json) {
    if (as_json) {
        struct json j;
        json_to_file(&j, stdout, true);
        json_open_object(&j, NULL);
        json_put_string(&j, "topic", t->name);
        json_put_string(&j, "file", t->file);
        json_put_string(&j, "text", t->text);
        json_close(&j);
        (void)json_end(&j);
        return;
    }
    fputs(t->text, stdout);
    for (size_t i = 0; i < commands_table_size; i++)
        if (strcmp(commands_table[i].name, t->name) == 0)
            printf("\n`stator %s --help` lists the options of the command of this name.\n", t->name);
}

/* `help NAME`: a topic, else a command. */
static int help_of(const char *name, bool as_json) {
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (size_t i = 0; i < help_n_topics && n < MAX_NAMES; i++) {
        names[n++] = help_topics[i].name;
        if (strcmp(help_topics[i].name, name) != 0)
            continue;
        print_topic(&help_topics[i], as_json);
        return out_finish("help", STATOR_OK);
    }
    for (size_t i = 0; i < commands_table_size && n < MAX_NAMES; i++) {
        names[n++] = commands_table[i].name;
        if (strcmp(commands_table[i].name, name) != 0)
            continue;
        char command[32];
        char help[] = "--help";
        snprintf(command, sizeof command, "%s", name);
        return commands_table[i].run(2, (char *[]){command, help, NULL});
    }
    const char *near = nearest_name(name, names, n);
    if (near != NULL)
        return out_fail("help", STATOR_USAGE,
                        "\"%.100s\" is neither a command nor a topic; did you mean \"%s\"?", name, near);
    return out_fail("help", STATOR_USAGE,
                    "\"%.100s\" is neither a command nor a topic (`stator help` lists them)", name);
}

int help_command(int argc, char **argv) {
    bool json = false;
    bool man = false;
    const struct options_row rows[] = {
        OPTIONS_JSON(&json),
        {.name = "man", .kind = OPTIONS_FLAG, .target = &man, .help = "print the manual page (roff)"}};
    struct options o = {
        .command = "help",
        .usage = "[COMMAND | TOPIC]",
        .summary = "Lists the commands and topics, the options of a command, every key of the config "
                   "(`config`), the supported models (`models`), or prints a topic.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0],
        .max_arguments = 1};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code))
        return code;
    if (man && (json || o.n_arguments > 0))
        return out_fail("help", STATOR_USAGE, "--man is the whole page: without --json and arguments");
    if (man)
        return man_print();
    if (o.n_arguments == 0 && json)
        print_commands_json();
    else if (o.n_arguments == 0)
        commands_print_list(stdout);
    else if (strcmp(o.arguments[0], "models") == 0 && json)
        print_models_json();
    else if (strcmp(o.arguments[0], "models") == 0)
        print_models();
    else if (strcmp(o.arguments[0], "config") != 0)
        return help_of(o.arguments[0], json);
    else if (json)
        print_keys_json();
    else
        print_keys();
    return out_finish("help", STATOR_OK);
}
