/* Reading the config: defaults, the file (through libconfig), --set, cross-checks. */
#include "config/config.h"

#include "base/arith.h"
#include "base/nearest.h"
#include "base/units.h"
#include "config/config_check.h"
#include "config/config_scan.h"
#include "config/config_table.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libconfig.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE 256 /* bytes of "FILE:LINE" in errors */
#define SHOWN 64  /* bytes of a value in errors */

_Static_assert(sizeof(enum config_kv) == sizeof(int) && sizeof(stator_log_level) == sizeof(int),
               "enum fields are written as int");

struct parse {
    struct config *c;
    stator_error *e;
    const char *name;   /* of the file, as shown in errors */
    const char *folder; /* relative paths of the source being read are relative to it */
    const char *wanted; /* of `models`: the name of --set model.name; NULL: none is named */
};

/* The start of text without control characters: errors go to terminals. */
static const char *shown(const char *text, char *out) {
    size_t n = 0;
    for (; text[n] != '\0' && n + 4 < SHOWN; n++)
        out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7F ? '?' : text[n];
    snprintf(out + n, SHOWN - n, "%s", text[n] != '\0' ? "..." : "");
    return out;
}

static stator_status bad_value(struct parse *p, const char *where, const struct config_row *row,
                               const char *found, const char *type) {
    char expected[CONFIG_EXPECTED];
    char value[SHOWN];
    const char *near = NULL;
    if (row->kind == CONFIG_KIND_ENUM) {
        size_t n = 0;
        while (n < CONFIG_MAX_NAMES && row->names[n] != NULL)
            n++;
        near = nearest_name(found, row->names, n);
    }
    config_table_expected(row, expected);
    return error_set(p->e, STATOR_USAGE, "%s: %s.%s is %s%s%s%s; expected %s%s%s%s", where, row->section,
                     row->name, type, type[0] != '\0' ? " " : "", shown(found, value),
                     found[0] == '\0' ? "\"\"" : "", expected, near != NULL ? "; did you mean \"" : "",
                     near != NULL ? near : "", near != NULL ? "\"?" : "");
}

/* --- values as text
 * ------------------------------------------------------------------------------------------------ */

static bool integer_of(const struct config_row *row, const char *text, uint64_t *value) {
    if (config_table_word(row, text, value))
        return true;
    uint64_t v = 0;
    const char *s = text + (*text == '+');
    if (*s == '\0')
        return false;
    for (; isdigit((unsigned char)*s); s++)
        if (!arith_mul(v, 10, &v) || !arith_add(v, (uint64_t)(*s - '0'), &v))
            return false;
    if (*s != '\0' || v < row->min || v > row->max)
        return false;
    *value = v;
    return true;
}

static bool size_of(const struct config_row *row, const char *text, uint64_t *value) {
    uint64_t v = 0;
    if (config_table_word(row, text, value))
        return true;
    if (!units_parse_size(text, &v) || v < row->min || v > row->max)
        return false;
    *value = v;
    return true;
}

static bool number_of(const struct config_row *row, const char *text, double *value) {
    if (text[0] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text))
        return false;
    char *end = NULL;
    double v = strtod(text, &end);
    if (*end != '\0' || !(v >= row->number_min && v <= row->number_max))
        return false;
    *value = v + 0.0; /* -0 is 0 */
    return true;
}

static bool bool_of(const char *text, bool *value) {
    static const char *const yes[] = {"true", "yes", "on"};
    static const char *const no[] = {"false", "no", "off"};
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(text, yes[i]) != 0 && strcmp(text, no[i]) != 0)
            continue;
        *value = strcmp(text, yes[i]) == 0;
        return true;
    }
    return false;
}

static bool enum_of(const struct config_row *row, const char *text, int *value) {
    for (int i = 0; i < CONFIG_MAX_NAMES && row->names[i] != NULL; i++) {
        if (strcmp(row->names[i], text) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static bool path_of(const struct config_row *row, const char *folder, const char *text, char *out) {
    while (text[0] == '.' && text[1] == '/') {
        text += 2;
        while (*text == '/')
            text++;
    }
    int n = text[0] == '\0' || text[0] == '/'
                ? snprintf(out, row->capacity, "%s", text)
                : snprintf(out, row->capacity, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, text);
    return n >= 0 && (size_t)n < row->capacity;
}

/* Puts a value given as text into its field. */
static stator_status put_text(struct parse *p, enum config_key key, const char *where, const char *text) {
    const struct config_row *row = &config_table[key];
    char *field = (char *)p->c + row->offset;
    uint64_t v = 0;
    double number = 0;
    int index = 0;
    bool ok = false;
    switch (row->kind) {
    case CONFIG_KIND_INTEGER:
    case CONFIG_KIND_SIZE:
        ok = row->kind == CONFIG_KIND_SIZE ? size_of(row, text, &v) : integer_of(row, text, &v);
        if (ok)
            memcpy(field, &v, sizeof v);
        break;
    case CONFIG_KIND_NUMBER:
        ok = number_of(row, text, &number);
        if (ok)
            memcpy(field, &number, sizeof number);
        break;
    case CONFIG_KIND_BOOL:
        ok = bool_of(text, (bool *)field);
        break;
    case CONFIG_KIND_ENUM:
        ok = enum_of(row, text, &index);
        if (ok)
            memcpy(field, &index, sizeof index);
        break;
    case CONFIG_KIND_PATH:
        ok = path_of(row, p->folder, text, field);
        break;
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_LIST:
        ok = strlen(text) < row->capacity;
        if (ok)
            memcpy(field, text, strlen(text) + 1);
        break;
    }
    return ok ? STATOR_OK : bad_value(p, where, row, text, "");
}

/* kv_type stands for both; one that is given later wins over what an earlier source said about k or v. */
static void record(struct config *c, enum config_key key, struct config_origin origin) {
    c->origin[key] = origin;
    if (key != CONFIG_MEMORY_KV_TYPE || origin.source == CONFIG_FROM_DEFAULT)
        return;
    static const enum config_key both[] = {CONFIG_MEMORY_KV_TYPE_K, CONFIG_MEMORY_KV_TYPE_V};
    for (size_t i = 0; i < 2; i++)
        if (c->origin[both[i]].source != origin.source)
            c->origin[both[i]] = (struct config_origin){.source = CONFIG_FROM_DERIVED};
}

/* --- names
 * ---------------------------------------------------------------------------------------------------------
 */

static size_t section_names(const char *names[CONFIG_KEYS]) {
    size_t n = 0;
    for (size_t i = 0; i < CONFIG_KEYS; i++)
        if (i == 0 || strcmp(config_table[i - 1].section, config_table[i].section) != 0)
            names[n++] = config_table[i].section;
    return n;
}

static bool section_known(const char *section) {
    const char *names[CONFIG_KEYS];
    size_t n = section_names(names);
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], section) == 0)
            return true;
    return false;
}

static stator_status unknown_section(struct parse *p, const char *where, const char *section) {
    const char *names[CONFIG_KEYS];
    size_t n = section_names(names);
    char text[SHOWN];
    for (size_t i = 0; i < CONFIG_KEYS; i++)
        if (strcmp(config_table[i].name, section) == 0)
            return error_set(
                p->e, STATOR_USAGE,
                "%s: key \"%s\" stands outside its section: it is %s.%s (in a file: %s = { %s = .. })", where,
                section, config_table[i].section, section, config_table[i].section, section);
    const char *near = nearest_name(section, names, n);
    if (near != NULL)
        return error_set(p->e, STATOR_USAGE, "%s: unknown section \"%s\"; did you mean \"%s\"?", where,
                         shown(section, text), near);
    return error_set(p->e, STATOR_USAGE, "%s: unknown section \"%s\" (`stator help config` lists every key)",
                     where, shown(section, text));
}

/* The key section.name, or an error that names the nearest one. The section is known. */
static stator_status find_key(struct parse *p, const char *where, const char *section, const char *name,
                              enum config_key *key) {
    const char *names[CONFIG_KEYS];
    char text[SHOWN];
    size_t n = 0;
    const char *elsewhere = NULL;
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        bool same = strcmp(config_table[i].name, name) == 0;
        if (strcmp(config_table[i].section, section) != 0) {
            elsewhere = same ? config_table[i].section : elsewhere;
            continue;
        }
        names[n++] = config_table[i].name;
        if (same) {
            *key = (enum config_key)i;
            return STATOR_OK;
        }
    }
    const char *near = nearest_name(name, names, n);
    if (elsewhere != NULL && near == NULL)
        return error_set(p->e, STATOR_USAGE, "%s: unknown key \"%s\" in section %s; did you mean %s.%s?",
                         where, shown(name, text), section, elsewhere, name);
    if (near != NULL)
        return error_set(p->e, STATOR_USAGE, "%s: unknown key \"%s\" in section %s; did you mean \"%s\"?",
                         where, shown(name, text), section, near);
    return error_set(p->e, STATOR_USAGE,
                     "%s: unknown key \"%s\" in section %s (`stator help config` lists every key)", where,
                     shown(name, text), section);
}

/* --- the file
 * ------------------------------------------------------------------------------------------------------ */

static const char *type_name(const config_setting_t *s) {
    switch (config_setting_type(s)) {
    case CONFIG_TYPE_GROUP:
        return "a group { }";
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
    case CONFIG_TYPE_FLOAT:
        return "the number";
    case CONFIG_TYPE_STRING:
        return "the text";
    case CONFIG_TYPE_BOOL:
        return "the truth value";
    default:
        return "a list";
    }
}

/* A scalar as the text that --set takes; false if it is none or too long. */
static bool scalar_text(const config_setting_t *s, char *out, size_t capacity) {
    int n = -1;
    switch (config_setting_type(s)) {
    case CONFIG_TYPE_INT:
        n = snprintf(out, capacity, "%d", config_setting_get_int(s));
        break;
    case CONFIG_TYPE_INT64:
        n = snprintf(out, capacity, "%lld", config_setting_get_int64(s));
        break;
    case CONFIG_TYPE_FLOAT:
        n = snprintf(out, capacity, "%.17g", config_setting_get_float(s));
        break;
    case CONFIG_TYPE_BOOL:
        n = snprintf(out, capacity, "%s", config_setting_get_bool(s) ? "true" : "false");
        break;
    case CONFIG_TYPE_STRING:
        n = snprintf(out, capacity, "%s", config_setting_get_string(s));
        break;
    default:
        break;
    }
    return n >= 0 && (size_t)n < capacity;
}

static bool type_fits(const struct config_row *row, const config_setting_t *s) {
    uint64_t ignored = 0;
    int type = config_setting_type(s);
    bool whole = type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64;
    bool text = type == CONFIG_TYPE_STRING;
    switch (row->kind) {
    case CONFIG_KIND_INTEGER: /* text: its words, and what libconfig's integers can't hold */
        return whole || (text && (row->max > INT64_MAX ||
                                  config_table_word(row, config_setting_get_string(s), &ignored)));
    case CONFIG_KIND_SIZE:
        return whole || text;
    case CONFIG_KIND_NUMBER:
        return whole || type == CONFIG_TYPE_FLOAT;
    case CONFIG_KIND_BOOL:
        return type == CONFIG_TYPE_BOOL;
    case CONFIG_KIND_LIST:
        return text || type == CONFIG_TYPE_LIST || (whole && row->default_text[0] == '1');
    case CONFIG_KIND_ENUM:
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_PATH:
        break;
    }
    return text;
}

/* ( { host = "a"; devices = "cpu:0" }, .. ) as "a = cpu:0; ..". False: it is something else, or too long. */
static bool stages_text(const config_setting_t *s, char *out, size_t capacity) {
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < config_setting_length(s); i++) {
        const config_setting_t *stage = config_setting_get_elem(s, (unsigned)i);
        const char *host = NULL, *devices = NULL;
        if (!config_setting_is_group(stage) || config_setting_length(stage) != 2 ||
            config_setting_lookup_string(stage, "host", &host) != CONFIG_TRUE ||
            config_setting_lookup_string(stage, "devices", &devices) != CONFIG_TRUE ||
            strpbrk(host, "=;,") != NULL || strpbrk(devices, "=;") != NULL)
            return false;
        int w = snprintf(out + n, capacity - n, "%s%s = %s", i == 0 ? "" : "; ", host, devices);
        if (w < 0 || (n += (size_t)w) >= capacity)
            return false;
    }
    return true;
}

/* The items of ["cpu:0", "cpu:1"] or [3, 1] as one text. */
static bool joined_text(const config_setting_t *s, char *out, size_t capacity) {
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < config_setting_length(s); i++) {
        int w = snprintf(out + n, capacity - n, "%s", i == 0 ? "" : ", ");
        if (w < 0 || (n += (size_t)w) >= capacity ||
            !scalar_text(config_setting_get_elem(s, (unsigned)i), out + n, capacity - n))
            return false;
        n = strlen(out);
    }
    return true;
}

static stator_status put_setting(struct parse *p, const char *section, const config_setting_t *s) {
    char where[WHERE];
    char text[CONFIG_PATH + SHOWN];
    enum config_key key = CONFIG_KEYS;
    unsigned line = config_setting_source_line(s);
    snprintf(where, sizeof where, "%s:%u", p->name, line);
    stator_status st = find_key(p, where, section, config_setting_name(s), &key);
    if (st != STATOR_OK)
        return st;
    const struct config_row *row = &config_table[key];
    bool have = config_setting_is_scalar(s) ? scalar_text(s, text, sizeof text) : false;
    if (!type_fits(row, s))
        return bad_value(p, where, row, have ? text : " ", type_name(s));
    if (key == CONFIG_CLUSTER_STAGES && !config_setting_is_scalar(s) && !stages_text(s, text, sizeof text))
        return error_set(p->e, STATOR_USAGE,
                         "%s: cluster.stages is a list of groups with a host and its devices: ( { host = "
                         "\"a\"; devices = \"cpu:0\" }, .. )",
                         where);
    if (!config_setting_is_scalar(s))
        have = key == CONFIG_CLUSTER_STAGES || joined_text(s, text, sizeof text);
    if (!have)
        return bad_value(p, where, row, "too long, or a list inside a list", "");
    st = put_text(p, key, where, text);
    if (st == STATOR_OK)
        record(p->c, key, (struct config_origin){.source = CONFIG_FROM_FILE, .line = line});
    return st;
}

/* "FILE:LINE" of a setting. */
static const char *where_of(const struct parse *p, const config_setting_t *s, char out[WHERE]) {
    snprintf(out, WHERE, "%s:%u", p->name, (unsigned)config_setting_source_line(s));
    return out;
}

static stator_status put_section(struct parse *p, const config_setting_t *section) {
    const char *name = config_setting_name(section);
    char where[WHERE];
    where_of(p, section, where);
    if (!section_known(name))
        return unknown_section(p, where, name);
    if (!config_setting_is_group(section))
        return error_set(p->e, STATOR_USAGE, "%s: %s is a section: write %s = { key = value; .. }", where,
                         name, name);
    stator_status st = STATOR_OK;
    for (int k = 0; k < config_setting_length(section) && st == STATOR_OK; k++)
        st = put_setting(p, name, config_setting_get_elem(section, (unsigned)k));
    return st;
}

/* --- models = ( { name = "a"; path = ..; memory = { .. } }, .. ) */

/* A name that clients can give, and that --set model.name=NAME can choose. */
static stator_status take_name(struct parse *p, const config_setting_t *model) {
    const char *name = NULL;
    char where[WHERE], text[SHOWN];
    struct config *c = p->c;
    where_of(p, model, where);
    if (!config_setting_is_group(model) || config_setting_lookup_string(model, "name", &name) != CONFIG_TRUE)
        return error_set(p->e, STATOR_USAGE,
                         "%s: models[%u] has no name: expected models = ( { name = \"chat\"; path = "
                         "\"FILE.gguf\" }, .. )",
                         where, c->models.n);
    const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@+-");
    if (n == 0 || name[n] != '\0' || n >= sizeof c->models.name[0])
        return error_set(p->e, STATOR_USAGE,
                         "%s: models[%u].name is \"%s\"; expected at most %zu letters, digits and ._:/@+-",
                         where, c->models.n, shown(name, text), sizeof c->models.name[0] - 1);
    for (uint32_t i = 0; i < c->models.n; i++)
        if (strcmp(c->models.name[i], name) == 0)
            return error_set(p->e, STATOR_USAGE, "%s: models[%u] and models[%u] have the same name, \"%s\"",
                             where, i, c->models.n, name);
    memcpy(c->models.name[c->models.n++], name, n + 1);
    return STATOR_OK;
}

/* What belongs to the process, or (shared) can't be the same for two models. */
static stator_status check_place(struct parse *p, const config_setting_t *section) {
    static const char *const of_all[] = {"server", "log", "cluster", "model", "models"};
    const config_setting_t *limit = config_setting_get_member(section, "host_limit");
    const char *name = config_setting_name(section);
    char where[WHERE];
    for (size_t i = 0; i < sizeof of_all / sizeof of_all[0]; i++)
        if (strcmp(name, of_all[i]) == 0)
            return error_set(p->e, STATOR_USAGE, "%s: %s can't stand in a group of models: %s",
                             where_of(p, section, where), name,
                             i < 3 ? "it is of all models, so write it outside"
                                   : "write the keys of model themselves, such as path = \"FILE.gguf\"");
    if (strcmp(name, "memory") == 0 && limit != NULL)
        return error_set(
            p->e, STATOR_USAGE,
            "%s: memory.host_limit can't stand in a group of models: it is of all models, so write "
            "it outside",
            where_of(p, limit, where));
    return STATOR_OK;
}

static stator_status put_model(struct parse *p, const config_setting_t *model) {
    stator_status st = STATOR_OK;
    for (int i = 0; i < config_setting_length(model) && st == STATOR_OK; i++) {
        const config_setting_t *s = config_setting_get_elem(model, (unsigned)i);
        if (!config_setting_is_group(s)) {
            st = put_setting(p, "model", s);
            continue;
        }
        st = check_place(p, s);
        if (st == STATOR_OK)
            st = put_section(p, s);
    }
    return st;
}

/* The names of all, and the settings of the one that is wanted; of one alone, those. */
static stator_status put_models(struct parse *p, const config_setting_t *models) {
    struct config *c = p->c;
    char where[WHERE];
    where_of(p, models, where);
    const int n = config_setting_length(models);
    if (!config_setting_is_list(models) || n < 1 || n > CONFIG_MAX_MODELS)
        return error_set(p->e, STATOR_USAGE,
                         "%s: models is a list of 1 to %d groups: models = ( { name = \"chat\"; path = "
                         "\"FILE.gguf\" }, .. )",
                         where, CONFIG_MAX_MODELS);
    stator_status st = STATOR_OK;
    for (int i = 0; i < n && st == STATOR_OK; i++)
        st = take_name(p, config_setting_get_elem(models, (unsigned)i));
    const bool shared = c->cache.kv_dir[0] != '\0' && n > 1;
    for (int i = 0; i < n && st == STATOR_OK; i++) {
        if (n > 1 && (p->wanted == NULL || strcmp(c->models.name[i], p->wanted) != 0))
            continue;
        c->models.index = (uint32_t)i;
        st = put_model(p, config_setting_get_elem(models, (unsigned)i));
    }
    if (st == STATOR_OK && shared)
        st = error_set(p->e, STATOR_USAGE,
                       "%s: cache.kv_dir can't be the same for several models: write it in their groups, "
                       "cache = { kv_dir = .. }, each with a folder of its own",
                       where);
    return st;
}

static stator_status put_settings(struct parse *p, const config_t *file) {
    const config_setting_t *root = config_root_setting(file);
    const config_setting_t *models = NULL;
    stator_status st = STATOR_OK;
    for (int i = 0; i < config_setting_length(root) && st == STATOR_OK; i++) {
        const config_setting_t *section = config_setting_get_elem(root, (unsigned)i);
        if (strcmp(config_setting_name(section), "models") == 0)
            models = section;
        else
            st = put_section(p, section);
    }
    if (st != STATOR_OK || models == NULL)
        return st;
    const config_setting_t *one = config_lookup(file, "model");
    char where[WHERE];
    if (one != NULL)
        return error_set(
            p->e, STATOR_USAGE,
            "%s: model and models are both given: with models = ( .. ), the keys of model stand in "
            "its groups",
            where_of(p, one, where));
    return put_models(p, models); /* last: what a model says counts over what is said for all */
}

static stator_status parse_file(struct parse *p, const char *text, size_t n) {
    char *copy = malloc(CONFIG_SCAN_BYTES(n));
    if (copy == NULL)
        return error_set(p->e, STATOR_DOES_NOT_FIT, "%s: no memory to read the config file", p->name);
    stator_status st = config_scan(text, n, p->name, copy, p->e);
    if (st != STATOR_OK) {
        free(copy);
        return st;
    }
    config_t file;
    config_init(&file);
    config_set_include_dir(&file, "/dev/null"); /* a file, so nothing can ever be included */
    if (config_read_string(&file, copy) == CONFIG_TRUE) {
        st = put_settings(p, &file);
    } else {
        bool twice = strstr(config_error_text(&file), "duplicate") != NULL;
        st = error_set(p->e, STATOR_USAGE, "%s:%d: libconfig: %s%s", p->name, config_error_line(&file),
                       config_error_text(&file), twice ? "; give every section and key once" : "");
    }
    config_destroy(&file);
    free(copy);
    return st;
}

/* --- --set
 * ---------------------------------------------------------------------------------------------------------
 */

static stator_status put_set(struct parse *p, const char *set) {
    char name[SHOWN];
    char value[CONFIG_PATH + SHOWN];
    char text[SHOWN];
    static const char where[] = "--set";
    const char *equals = strchr(set, '=');
    enum config_key key = CONFIG_KEYS;
    if (equals == NULL || !config_check_trim(set, (size_t)(equals - set), name, sizeof name) ||
        name[0] == '\0')
        return error_set(p->e, STATOR_USAGE,
                         "--set %s: expected section.key=value, such as memory.context=8192",
                         shown(set, text));
    char *dot = strchr(name, '.');
    if (dot != NULL)
        *dot = '\0';
    if (dot == NULL && section_known(name))
        return error_set(p->e, STATOR_USAGE, "--set %s: %s is a section: write %s.key=value",
                         shown(set, text), name, name);
    if (dot == NULL || !section_known(name))
        return unknown_section(p, where, name);
    stator_status st = find_key(p, where, name, dot + 1, &key);
    if (st != STATOR_OK)
        return st;
    if (!config_check_trim(equals + 1, strlen(equals + 1), value, sizeof value))
        return bad_value(p, where, &config_table[key], "too long", "");
    size_t n = strlen(value);
    char *start = value;
    if (n >= 2 && value[0] == '"' && value[n - 1] == '"') {
        value[n - 1] = '\0';
        start++;
    }
    st = put_text(p, key, where, start);
    if (st == STATOR_OK)
        record(p->c, key, (struct config_origin){.source = CONFIG_FROM_SET});
    return st;
}

/* --- entry points
 * -------------------------------------------------------------------------------------------------- */

/* The value of the last --set model.name=, which chooses of `models`, into out; NULL: there is none. */
static const char *wanted_model(const char *const *set, size_t n_set, char out[CONFIG_NAME + 2]) {
    for (size_t i = n_set; i > 0; i--) {
        const char *equals = strchr(set[i - 1], '=');
        char key[SHOWN];
        if (equals == NULL ||
            !config_check_trim(set[i - 1], (size_t)(equals - set[i - 1]), key, sizeof key) ||
            strcmp(key, "model.name") != 0 ||
            !config_check_trim(equals + 1, strlen(equals + 1), out, CONFIG_NAME + 2))
            continue;
        const size_t n = strlen(out);
        const bool quoted = n >= 2 && out[0] == '"' && out[n - 1] == '"';
        out[n - quoted] = '\0';
        return out + quoted;
    }
    return NULL;
}

/* After --set: whether one of `models` is meant, and its file is the list's. */
static stator_status check_choice(struct parse *p) {
    struct config *c = p->c;
    char names[256] = "";
    if (c->models.n == 0)
        return STATOR_OK;
    if (c->origin[CONFIG_MODEL_PATH].source == CONFIG_FROM_SET)
        return error_set(p->e, STATOR_USAGE,
                         "--set model.path: the files of %s stand in its list of models: change them there",
                         p->name);
    if (p->wanted != NULL && strcmp(p->wanted, c->models.name[c->models.index]) == 0)
        return STATOR_OK;
    if (p->wanted == NULL && c->models.n == 1)
        return STATOR_OK;
    for (uint32_t i = 0; i < c->models.n; i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", c->models.name[i]);
    }
    if (p->wanted != NULL)
        return error_set(p->e, STATOR_USAGE, "--set model.name=%.63s: %s has no such model; it has %s",
                         p->wanted, p->name, names);
    c->models.none_chosen = true;
    return error_set(p->e, STATOR_USAGE,
                     "%s has %u models (%s), and this command runs one: choose it with --set model.name=%s",
                     p->name, c->models.n, names, c->models.name[0]);
}

/* Defaults, file (text may be NULL), --set, cross-checks. model: NULL, or the path that stands for a whole
 * config. */
static stator_status resolve(struct parse *p, const char *text, size_t n, const char *model,
                             const char *const *set, size_t n_set) {
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        stator_status st = put_text(p, (enum config_key)i, "default", config_table[i].default_text);
        CHECK(st == STATOR_OK);
    }
    stator_status st = STATOR_OK;
    char wanted[CONFIG_NAME + 2];
    p->wanted = wanted_model(set, n_set, wanted);
    if (model != NULL) {
        st = put_text(p, CONFIG_MODEL_PATH, p->name, model);
        p->c->origin[CONFIG_MODEL_PATH] = (struct config_origin){.source = CONFIG_FROM_FILE};
    } else if (text != NULL) {
        st = parse_file(p, text, n);
    }
    char cwd[CONFIG_PATH];
    if (st == STATOR_OK && n_set > 0 && getcwd(cwd, sizeof cwd) == NULL)
        st = error_set(p->e, STATOR_FAILED, "can't tell the current folder: %s", strerror(errno));
    p->folder = cwd;
    for (size_t i = 0; i < n_set && st == STATOR_OK; i++)
        st = put_set(p, set[i]);
    if (st == STATOR_OK)
        st = check_choice(p);
    return st == STATOR_OK ? config_check(p->c, p->name, p->e) : st;
}

/* Errors show at most the end of a long name. */
static const char *short_name(const char *name, char *out) {
    size_t n = strlen(name);
    char tail[WHERE];
    snprintf(tail, sizeof tail, "%s%s", n > 100 ? "..." : "", n > 100 ? name + n - 100 : name);
    for (size_t i = 0; (out[i] = tail[i]) != '\0'; i++)
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7F)
            out[i] = '?';
    return out;
}

stator_status config_parse(const char *text, size_t n, const char *name, const char *folder,
                           const char *const *set, size_t n_set, struct config *out, stator_error *e) {
    char shown_name[WHERE];
    struct parse p = {.c = out, .e = e, .name = short_name(name, shown_name), .folder = folder};
    memset(out, 0, sizeof *out);
    if (strlen(name) >= sizeof out->file)
        return error_set(e, STATOR_USAGE, "%s: the path is longer than %d bytes", p.name, CONFIG_PATH - 1);
    memcpy(out->file, name, strlen(name) + 1);
    return resolve(&p, text, n, NULL, set, n_set);
}

/* The absolute folder that path is in; for a pipe (no regular file) the current one. */
static bool folder_of(const char *path, bool regular, char *out) {
    char part[CONFIG_PATH];
    char real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!regular || slash == NULL)
        snprintf(part, sizeof part, ".");
    else
        snprintf(part, sizeof part, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (realpath(part, real) == NULL || strlen(real) >= CONFIG_PATH)
        return false;
    memcpy(out, real, strlen(real) + 1);
    return true;
}

static bool read_all(int fd, char *out, size_t capacity, size_t *n) {
    *n = 0;
    while (*n < capacity) {
        ssize_t got = read(fd, out + *n, capacity - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            return true;
        *n += (size_t)got;
    }
    return true;
}

static bool is_model(const char *path, const char *text, size_t n) {
    size_t length = strlen(path);
    return (n >= 4 && memcmp(text, "GGUF", 4) == 0) ||
           (length > 5 && strcmp(path + length - 5, ".gguf") == 0);
}

/* Files that people take for models: the start of JSON, and of safetensors (8 bytes of length, then JSON). */
static const char *other_format(const char *path, const char *text, size_t n) {
    const size_t length = strlen(path);
    if (n > 9 && text[8] == '{' && memchr(text, 0, 8) != NULL)
        return "a safetensors file";
    if (length > 5 && strcmp(path + length - 5, ".json") == 0)
        return "a JSON file";
    return NULL;
}

static stator_status load(const char *path, int fd, char *buffer, const char *const *set, size_t n_set,
                          struct config *out, stator_error *e) {
    char name[WHERE];
    char folder[CONFIG_PATH];
    size_t n = 0;
    struct stat status;
    short_name(path, name);
    if (fstat(fd, &status) != 0 || S_ISDIR(status.st_mode))
        return error_set(e, STATOR_USAGE, "%s is a folder; expected a config file or a .gguf file", name);
    if (!folder_of(path, S_ISREG(status.st_mode), folder))
        return error_set(e, STATOR_USAGE, "%s: can't tell its folder: %s", name, strerror(errno));
    if (!read_all(fd, buffer, CONFIG_MAX_FILE + 1, &n))
        return error_set(e, STATOR_USAGE, "can't read %s: %s", name, strerror(errno));
    if (!is_model(path, buffer, n)) {
        if (n > CONFIG_MAX_FILE)
            return error_set(e, STATOR_USAGE, "%s is larger than 1 MiB and no GGUF file: not a config file",
                             name);
        const char *other = other_format(path, buffer, n);
        if (other != NULL)
            return error_set(e, STATOR_USAGE,
                             "%s is %s, not GGUF; expected a config file or a .gguf file (llama.cpp's "
                             "convert_hf_to_gguf.py makes one of a model's folder)",
                             name, other);
        return config_parse(buffer, n, path, folder, set, n_set, out, e);
    }
    memset(out, 0, sizeof *out);
    memcpy(out->file, path, strlen(path) + 1);
    struct parse p = {.c = out, .e = e, .name = name, .folder = folder};
    const char *slash = strrchr(path, '/');
    return resolve(&p, NULL, 0, slash != NULL ? slash + 1 : path, set, n_set);
}

/* What a name that is no file may have meant, for the end of an error. */
static const char *meant(const char *path) {
    const char *slash = strchr(path, '/');
    const bool tag = slash == NULL && strchr(path, ':') != NULL;
    const bool hub = slash != NULL && slash != path && path[0] != '.' && strchr(slash + 1, '/') == NULL;
    const size_t n = strlen(path);
    if ((n > 4 && strcmp(path + n - 4, ".cfg") == 0) || (n > 5 && strcmp(path + n - 5, ".gguf") == 0))
        return "";
    return tag || hub ? ". If this is a name on Hugging Face or ollama: stator downloads nothing; get the "
                        "model's .gguf "
                        "file and give its path"
                      : "";
}

stator_status config_load(const char *path, const char *const *set, size_t n_set, struct config *out,
                          stator_error *e) {
    char name[WHERE];
    short_name(path, name);
    if (path[0] == '\0' || strlen(path) >= sizeof out->file)
        return error_set(e, STATOR_USAGE, "\"%s\" is not a path; expected a config file or a .gguf file",
                         name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(e, STATOR_USAGE, "can't open %s: %s; expected a config file or a .gguf file%s", name,
                         strerror(errno), errno == ENOENT ? meant(path) : "");
    char *buffer = malloc(CONFIG_MAX_FILE + 1);
    stator_status st = buffer == NULL
                           ? error_set(e, STATOR_DOES_NOT_FIT, "%s: no memory to read the config file", name)
                           : load(path, fd, buffer, set, n_set, out, e);
    free(buffer);
    close(fd);
    return st;
}

stator_status config_choices(const char *path, const char *const *set, size_t n_set,
                             struct config_choices *out, stator_error *e) {
    stator_error why = {0};
    struct config *c = malloc(sizeof *c);
    out->n = 0;
    if (c == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "no memory to read the config file");
    memset(c, 0, sizeof *c);
    /* Any other error comes from whoever loads the config next. */
    if (config_load(path, set, n_set, c, &why) != STATOR_OK && c->models.none_chosen)
        for (; out->n < c->models.n; out->n++)
            snprintf(out->set[out->n], sizeof out->set[0], "model.name=%s", c->models.name[out->n]);
    free(c);
    return STATOR_OK;
}

uint64_t config_max_body(uint64_t max_body, uint32_t context) {
    /* A token of English has about 4 bytes; JSON, ids and calls take the rest. */
    const uint64_t least = 4u << 20, by_context = (uint64_t)context * 8;
    if (max_body != 0)
        return max_body;
    return by_context > least ? by_context : least;
}

void config_derive(struct config *c, enum config_key key, uint64_t value) {
    CHECK(key < CONFIG_KEYS);
    const struct config_row *row = &config_table[key];
    CHECK(row->kind == CONFIG_KIND_INTEGER || row->kind == CONFIG_KIND_SIZE);
    char *field = (char *)c + row->offset;
    uint64_t before = 0;
    memcpy(&before, field, sizeof before);
    if (before == value)
        return;
    memcpy(field, &value, sizeof value);
    c->origin[key] = (struct config_origin){.source = CONFIG_FROM_DERIVED};
}

const char *config_origin_text(const struct config *c, enum config_key key, char *out, size_t n) {
    const struct config_origin o = c->origin[key];
    char name[WHERE];
    short_name(c->file, name);
    if (o.source == CONFIG_FROM_FILE && o.line != 0)
        snprintf(out, n, "%s:%u", name, (unsigned)o.line);
    else if (o.source == CONFIG_FROM_FILE)
        snprintf(out, n, "%s", name);
    else
        snprintf(out, n, "%s",
                 o.source == CONFIG_FROM_SET       ? "--set"
                 : o.source == CONFIG_FROM_DERIVED ? "derived"
                                                   : "default");
    return out;
}

const char *config_enum_name(enum config_key key, int value) {
    CHECK(key < CONFIG_KEYS && config_table[key].kind == CONFIG_KIND_ENUM);
    CHECK(value >= 0 && value < CONFIG_MAX_NAMES && config_table[key].names[value] != NULL);
    return config_table[key].names[value];
}
