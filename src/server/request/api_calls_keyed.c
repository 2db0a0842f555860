/* Calls in tags, a pair of them for each argument, as a grammar. Only properties that the schema declares are
 * written, in its order. What chat/chat_keyed.c reads from such a call is what the schema allows: texts stand
 * as they are, other values as JSON. */
#include "server/request/api_calls.h"

#include "chat/chat_types.h"

#include <string.h>

static json_t *refuse(struct api_reader *r, const json_t *function, const char *what, const char *why) {
    api_failure_set(r->why, 400, "tools",
                    "the parameters of tool \"%.64s\" can't be honoured in the way this model writes calls: "
                    "\"%.64s\" %s",
                    json_string_value(json_object_get(function, "name")), what, why);
    return NULL;
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names != NULL && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* The tags have names in quotes: <invoke name="f">. */
static const char *quote_of(const char *tag) {
    return strstr(tag, "name=") != NULL ? "\"" : "";
}

/* DeepSeek says beside a key whether its value is a text. */
static const char *attribute(const struct chat_tags *t, bool text) {
    if (strstr(t->key_open, "DSML") == NULL)
        return "";
    return text ? " string=\"true\"" : " string=\"false\"";
}

/* What closes a value, and its line. */
static json_t *close_of(const struct api_model *m) {
    const struct chat_tags *t = &m->form.tags;
    return json_pack("[s, o]", t->value_lines ? "\n" : "", api_calls_tag(m, t->value_close));
}

/* As in close_of, as a text, and texts that would end the value too. */
static void add_ends(const struct chat_tags *t, json_t *raw) {
    const char *const never[] = {t->value_close, t->key_open, t->call_close, t->section_close};
    json_t *others = json_array();
    for (int i = t->value_lines ? 0 : 1; i < 4; i++)
        if (never[i][0] != '\0')
            json_array_append_new(others, json_string(never[i]));
    json_object_set_new(raw, "end", json_sprintf("%s%s", t->value_lines ? "\n" : "", t->value_close));
    json_object_set_new(raw, "never", others);
}

static json_t *text_value(const struct api_model *m, json_t *schema, json_t *root) {
    json_t *raw = json_pack("{s:O, s:O, s:o}", "raw", schema, "root", root, "close", close_of(m));
    add_ends(&m->form.tags, raw);
    return raw;
}

static json_t *json_value(const struct api_model *m, json_t *schema, json_t *root) {
    return json_pack("[{s:O, s:O}, o]", "schema", schema, "root", root, close_of(m));
}

/* The schema says nothing but types, so every text is a valid value, whatever it is read as. */
static bool says_only_types(const json_t *schema, int depth) {
    static const char *const names[] = {"type", "title", "description", "default", "examples", "anyOf", NULL};
    const char *name;
    json_t *value;
    if (!json_is_object(schema) || depth > 8)
        return json_is_true(schema);
    json_object_foreach((json_t *)schema, name, value) if (!is_one_of(name, names)) return false;
    const json_t *options = json_object_get(schema, "anyOf");
    for (size_t i = 0; i < json_array_size(options); i++)
        if (!says_only_types(json_array_get(options, i), depth + 1))
            return false;
    return true;
}

/* Behind the tags in front of a value: the value and what closes it. NULL: *r->why. */
static json_t *value_of(struct api_reader *r, const json_t *function, const char *name, json_t *schema,
                        json_t *root) {
    const struct api_model *m = r->model;
    const unsigned types = chat_types_of(schema, root);
    if (types == CHAT_TYPE_STRING)
        return text_value(m, schema, root);
    if ((types & CHAT_TYPE_STRING) == 0)
        return json_value(m, schema, root);
    if (types == (CHAT_TYPE_STRING | CHAT_TYPE_NULL)) {
        json_t *null = json_pack("{s:[O, {s:s}]}", "allOf", schema, "type", "null");
        json_t *value = api_calls_any(text_value(m, schema, root), json_value(m, null, root));
        json_decref(null);
        return value;
    }
    if (!says_only_types(schema, 0))
        return refuse(r, function, name, "may be a text or of another type, which tags don't tell apart");
    json_t *everything = json_object();
    json_t *value = text_value(m, everything, root);
    json_decref(everything);
    return value;
}

/* The tags around a key, up to its value. Takes key over. */
static json_t *key_of(const struct api_model *m, json_t *key, bool text) {
    const struct chat_tags *t = &m->form.tags;
    const char *quote = quote_of(t->key_open);
    const bool opens = t->value_open[0] != '\0';
    return json_pack("[o, s, o, s, s, o, o, o, s]", api_calls_tag(m, t->key_open), quote, key, quote,
                     attribute(t, text), api_calls_tag(m, t->key_close),
                     opens ? api_calls_maybe_line() : json_string(""), api_calls_tag(m, t->value_open),
                     t->value_lines ? "\n" : "");
}

static bool is_required(const json_t *parameters, const char *name) {
    const json_t *required = json_object_get(parameters, "required");
    bool is = false;
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *one = json_string_value(json_array_get(required, i));
        is = is || (one != NULL && strcmp(one, name) == 0);
    }
    return is;
}

static json_t *members(struct api_reader *r, const json_t *function, json_t *parameters) {
    static const char *const known[] = {"type",        "properties",  "required", "additionalProperties",
                                        "$defs",       "definitions", "$schema",  "title",
                                        "description", "$comment",    NULL};
    json_t *all = json_array(), *schema;
    const char *name;
    json_object_foreach(parameters, name, schema) if (!is_one_of(name, known)) {
        json_decref(all);
        return refuse(r, function, name, "is not supported there");
    }
    json_object_foreach(json_object_get(parameters, "properties"), name, schema) {
        const bool text = chat_types_of(schema, parameters) == CHAT_TYPE_STRING;
        json_t *value = NULL;
        if (name[0] == '\0' || strpbrk(name, "<>\"'\n \\") != NULL)
            refuse(r, function, name, "has characters that a key in tags can't have");
        else
            value = value_of(r, function, name, schema, parameters);
        if (value == NULL) {
            json_decref(all);
            return NULL;
        }
        json_t *one =
            json_pack("[o, o, o]", key_of(r->model, json_string(name), text), value, api_calls_maybe_line());
        json_array_append_new(all, is_required(parameters, name) ? one : api_calls_or_nothing(one));
    }
    json_t *required = json_object_get(parameters, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *one = json_string_value(json_array_get(required, i));
        if (one != NULL && json_object_get(json_object_get(parameters, "properties"), one) == NULL) {
            json_decref(all);
            return refuse(r, function, one, "is required, but none of its properties");
        }
    }
    return all;
}

/* Any keys with any values. */
static json_t *lax_members(const struct api_model *m) {
    json_t *root = json_object();
    json_t *key = json_pack("{s:s}", "regex", "[a-zA-Z0-9_.:-]{1,64}");
    json_t *one =
        json_pack("[o, o, o]", key_of(m, key, true), text_value(m, root, root), api_calls_maybe_line());
    json_decref(root);
    return api_calls_or_nothing(json_pack("{s:o}", "repeat", one));
}

json_t *api_calls_keyed(struct api_reader *r, const struct api_calls *c, const json_t *function) {
    const struct chat_tags *t = &c->m->form.tags;
    json_t *parameters = json_object_get(function, "parameters");
    const char *quote = quote_of(t->call_open);
    json_t *arguments = api_calls_lax(c, function) ? lax_members(c->m) : members(r, function, parameters);
    if (arguments == NULL)
        return NULL;
    return json_pack("[s, O, s, o, o, o, o]", quote, json_object_get(function, "name"), quote,
                     api_calls_tag(c->m, t->name_end), api_calls_maybe_line(), arguments,
                     api_calls_tag(c->m, t->call_close));
}
