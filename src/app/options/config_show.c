/* `stator config`: every key with its resolved value and where it came from. The output is a config file that
 * resolves to the same values. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "base/json_writer.h"
#include "config/config_table.h"
#include "engine/resolved_config.h"

#include <string.h>

#define ORIGIN 256

static bool given(const struct config *c, enum config_key key) {
    return c->origin[key].source == CONFIG_FROM_FILE || c->origin[key].source == CONFIG_FROM_SET;
}

/* kv_type, or kv_type_k and kv_type_v: a file may have only one of the two forms. */
static bool is_comment(const struct config *c, enum config_key key) {
    bool apart = given(c, CONFIG_MEMORY_KV_TYPE_K) || given(c, CONFIG_MEMORY_KV_TYPE_V);
    if (key == CONFIG_MEMORY_KV_TYPE)
        return apart;
    return (key == CONFIG_MEMORY_KV_TYPE_K || key == CONFIG_MEMORY_KV_TYPE_V) && !apart;
}

static bool section_begins(size_t key) {
    return key == 0 || strcmp(config_table[key - 1].section, config_table[key].section) != 0;
}

static void print_text(const struct config *c) {
    char value[CONFIG_VALUE];
    char origin[ORIGIN];
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        enum config_key key = (enum config_key)i;
        if (section_begins(i))
            printf("%s%s = {\n", i == 0 ? "" : "}\n", config_table[i].section);
        config_table_value(c, key, value);
        const char *mark = is_comment(c, key) ? "# " : "";
        size_t n = strlen(mark) + strlen(config_table[i].name) + strlen(value);
        printf("    %s%s = %s;%*s # %s\n", mark, config_table[i].name, value, n < 40 ? (int)(40 - n) : 0, "",
               config_origin_text(c, key, origin, sizeof origin));
    }
    printf("}\n");
}

static void json_value(struct json *j, const struct config *c, enum config_key key) {
    const struct config_row *row = &config_table[key];
    const char *field = (const char *)c + row->offset;
    uint64_t v = 0;
    double number = 0;
    int index = 0;
    switch (row->kind) {
    case CONFIG_KIND_INTEGER:
    case CONFIG_KIND_SIZE:
        memcpy(&v, field, sizeof v);
        if (config_table_word_of(row, v) != NULL)
            json_put_string(j, "value", config_table_word_of(row, v));
        else
            json_put_u64(j, "value", v);
        break;
    case CONFIG_KIND_NUMBER:
        memcpy(&number, field, sizeof number);
        json_put_double(j, "value", number);
        break;
    case CONFIG_KIND_BOOL:
        json_put_bool(j, "value", *(const bool *)field);
        break;
    case CONFIG_KIND_ENUM:
        memcpy(&index, field, sizeof index);
        json_put_string(j, "value", config_enum_name(key, index));
        break;
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_PATH:
    case CONFIG_KIND_LIST:
        json_put_string(j, "value", field);
        break;
    }
}

static void print_json(const struct config *c) {
    char origin[ORIGIN];
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        enum config_key key = (enum config_key)i;
        if (section_begins(i)) {
            if (i > 0)
                json_close(&j);
            json_open_object(&j, config_table[i].section);
        }
        json_open_object(&j, config_table[i].name);
        json_value(&j, c, key);
        json_put_string(&j, "from", config_origin_text(c, key, origin, sizeof origin));
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    (void)json_end(&j); /* out_finish reports what could not be written */
}

int config_command(int argc, char **argv) {
    bool json = false;
    struct options_list set = {.n = 0};
    const struct options_row rows[] = {OPTIONS_SET(&set), OPTIONS_JSON(&json)};
    struct options o = {
        .command = "config",
        .usage = "CONFIG",
        .summary = "Prints every key with its resolved value and where it came from. The output is itself\n"
                   "a config file. `stator help config` says what each key means.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    const char *argument = NULL;
    if (!options_parse_one(&o, argc, argv, &argument, &code))
        return code;
    stator_error e;
    struct config c;
    if (config_load(argument, set.items, set.n, &c, &e) != STATOR_OK)
        return out_error("config", &e);
    struct config resolved;
    if (resolved_config_load(argument, set.items, set.n, &resolved, &e) == STATOR_OK)
        c = resolved;
    else
        fprintf(stderr, "stator config: warning: what follows from the model is not resolved: %s\n", e.text);
    if (json)
        print_json(&c);
    else
        print_text(&c);
    return out_finish("config", STATOR_OK);
}
