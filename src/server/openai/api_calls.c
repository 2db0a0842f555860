/* tool_choice "required", or a function by its name: the answer is calls in the model's own syntax, around
 * arguments that the function's schema allows. */
#include "server/openai/api_request.h"

#include "chat/chat_json.h"

#include <string.h>

/* The parts of a grammar (json_parts.h) for a text of the syntax: its control tokens apart. */
static json_t *tag(const struct api_model *m, const char *text) {
    json_t *out = json_array();
    while (*text != '\0') {
        const char *mark = NULL;
        size_t n = 0;
        for (; mark == NULL && text[n] != '\0'; n += mark == NULL)
            mark = api_structure_mark(&m->marks, text + n);
        if (n > 0)
            json_array_append_new(out, json_stringn(text, n));
        text += n;
        if (mark != NULL) {
            json_array_append_new(out, json_pack("{s:s}", "token", mark));
            text += strlen(mark);
        }
    }
    return out;
}

static json_t *any(json_t *a, json_t *b) {
    return json_pack("{s:[o, o]}", "any", a, b);
}

static json_t *maybe_line(void) {
    return any(json_string("\n"), json_string(""));
}

/* The schema of a function's arguments, which are always an object. */
static json_t *arguments(const json_t *function) {
    json_t *parameters = json_object_get(function, "parameters");
    json_t *schema = json_object_size(parameters) > 0 ? json_copy(parameters)
                                                      : json_pack("{s:b}", "additionalProperties", 0);
    if (json_object_get(schema, "type") == NULL)
        json_object_set_new(schema, "type", json_string("object"));
    return json_pack("{s:o}", "schema", schema);
}

/* {"name": .., "arguments": ..} as models are trained to write it. Llama's calls, which have no tags, may
 * have "parameters". */
static json_t *object(const struct chat_tags *t, const json_t *function) {
    json_t *name = json_object_get(function, "name"), *key = json_string("\", \"arguments\": ");
    if (t->section_open[0] == '\0')
        key = any(key, json_string("\", \"parameters\": "));
    return json_pack("[s, O, o, o, s]", "{\"name\": \"", name, key, arguments(function), "}");
}

/* Kimi writes functions.NAME:0. */
static json_t *named(const struct api_model *m, const json_t *function) {
    const struct chat_tags *t = &m->form.tags;
    json_t *name = json_object_get(function, "name");
    json_t *names = any(json_incref(name), json_pack("[s, O, s]", "functions.", name, ":0"));
    return json_pack("[o, o, o, o, o]", tag(m, t->call_open), names, tag(m, t->name_end), arguments(function),
                     tag(m, t->call_close));
}

/* One call of one of the functions, or more of them. */
static json_t *calls(const struct api_model *m, json_t *functions, bool one) {
    const struct chat_tags *t = &m->form.tags;
    json_t *call = json_pack("{s:o}", "any", functions), *section = tag(m, t->section_open);
    if (t->syntax == CHAT_NAMED)
        return json_pack("[o, o, o]", section, one ? call : json_pack("{s:o}", "repeat", call),
                         tag(m, t->section_close));
    if (t->section_open[0] == '\0') {
        json_decref(section);
        return call;
    }
    if (t->section_close[0] == '\0') /* one tag, a list behind it */
        return json_pack("[o, s, o, s]", section, "[", call, "]");
    json_t *list = json_pack("[s, O, s]", "[", call, "]");
    json_t *whole = json_pack("[o, o, o, o, o]", section, maybe_line(), any(call, list), maybe_line(),
                              tag(m, t->section_close));
    return one ? whole : json_pack("{s:[o, o]}", "repeat", whole, maybe_line());
}

static void put(void *context, const char *p, size_t n) {
    api_text_put(context, p, n);
}

static bool write_calls(struct api_reader *r, const json_t *tools, const char *only, bool one) {
    const bool is_named = r->model->form.tags.syntax == CHAT_NAMED;
    json_t *functions = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        if (strpbrk(name, "\"\\\n") != NULL) {
            json_decref(functions);
            return api_failure_set(r->why, 400, "tools",
                                   "tools[%zu].function.name has characters that a forced call "
                                   "can't have",
                                   i);
        }
        if (only == NULL || strcmp(name, only) == 0)
            json_array_append_new(functions, is_named ? named(r->model, function)
                                                      : object(&r->model->form.tags, function));
    }
    const bool found = json_array_size(functions) > 0;
    json_t *all = calls(r->model, functions, one);
    if (found)
        chat_json_write(all, put, &r->out->structure.text);
    json_decref(all);
    if (found)
        return true;
    if (only == NULL)
        return api_failure_set(r->why, 400, "tool_choice",
                               "tool_choice is \"required\", but tools are missing");
    return api_failure_set(r->why, 400, "tool_choice",
                           "tool_choice names the function \"%.64s\", which is none of "
                           "tools",
                           only);
}

bool api_calls_read(struct api_reader *r, const json_t *body) {
    const json_t *choice = json_object_get(body, "tool_choice"), *tools = json_object_get(body, "tools");
    const char *text = json_string_value(choice);
    const char *only = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (choice == NULL || json_is_null(choice) ||
        (text != NULL && (strcmp(text, "auto") == 0 || strcmp(text, "none") == 0)))
        return true;
    if (only == NULL && (text == NULL || strcmp(text, "required") != 0))
        return api_failure_set(
            r->why, 400, "tool_choice",
            "tool_choice can't be honoured unless it is \"auto\", \"none\", \"required\" or {\"type\": "
            "\"function\", \"function\": {\"name\": ..}}");
    const enum chat_syntax syntax = r->model->form.tags.syntax;
    if (json_array_size(tools) > 0 && syntax != CHAT_JSON && syntax != CHAT_NAMED)
        return api_failure_set(
            r->why, 400, "tool_choice",
            "tool_choice can't be honoured unless it is \"auto\" or \"none\": calls in the way "
            "of this model, whose arguments are not JSON or stand in channels, can't be "
            "constrained");
    r->out->structure.field = "tool_choice";
    r->out->structure.kind = STATOR_GRAMMAR_PARTS;
    return write_calls(r, tools, only,
                       only != NULL || json_is_false(json_object_get(body, "parallel_tool_calls")));
}
