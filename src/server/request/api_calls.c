/* Calls of tools as a grammar: in the model's own syntax, around arguments that the function's schema allows.
 *
 * tool_choice "required", or a function by its name: the answer is calls. "auto" with strict tools: any text
 * up to the tag that opens a call, and then calls. "auto" with a schema for the answer: what matches the
 * schema, or calls. */
#include "server/request/api_calls.h"

#include "chat/chat_json.h"

#include <string.h>

/* Calls stand in no tags, at the beginning of an answer; the tag is only another spelling. */
static bool stands_alone(const struct chat_tags *t) {
    return t->syntax == CHAT_JSON && strcmp(t->section_open, "<|python_tag|>") == 0;
}

json_t *api_calls_tag(const struct api_model *m, const char *text) {
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

/* The schema of a function's arguments, which are always an object. */
static json_t *arguments(const struct api_calls *c, const json_t *function) {
    json_t *parameters = json_object_get(function, "parameters");
    if (api_calls_lax(c, function))
        return json_pack("{s:{s:s}}", "schema", "type", "object");
    json_t *schema = json_object_size(parameters) > 0 ? json_copy(parameters)
                                                      : json_pack("{s:b}", "additionalProperties", 0);
    if (json_object_get(schema, "type") == NULL)
        json_object_set_new(schema, "type", json_string("object"));
    return json_pack("{s:o}", "schema", schema);
}

/* {"name": .., "arguments": ..} as models are trained to write it. Llama's calls, which stand alone, may have
 * "parameters". */
static json_t *object(const struct api_calls *c, const json_t *function) {
    json_t *name = json_object_get(function, "name"), *key = json_string("\", \"arguments\": ");
    if (stands_alone(&c->m->form.tags))
        key = api_calls_any(key, json_string("\", \"parameters\": "));
    return json_pack("[s, O, o, o, s]", "{\"name\": \"", name, key, arguments(c, function), "}");
}

/* Behind the tag that opens a call. Kimi writes functions.NAME:0. */
static json_t *named(const struct api_calls *c, const json_t *function) {
    const struct chat_tags *t = &c->m->form.tags;
    json_t *name = json_object_get(function, "name");
    json_t *names = api_calls_any(json_incref(name),
                                  json_pack("[s, O, {s:s}]", "functions.", name, "regex", ":[0-9]{1,3}"));
    return json_pack("[o, o, o, o]", names, api_calls_tag(c->m, t->name_end), arguments(c, function),
                     api_calls_tag(c->m, t->call_close));
}

/* One call of any of the functions, without the tag that opens a call; NULL: *r->why. */
static json_t *call(struct api_reader *r, const struct api_calls *c) {
    json_t *functions = json_array();
    for (size_t i = 0; i < json_array_size(c->tools); i++) {
        const json_t *function = json_object_get(json_array_get(c->tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        if (strpbrk(name, "\"\\\n") != NULL) {
            json_decref(functions);
            api_failure_set(r->why, 400, "tools",
                            "tools[%zu].function.name has characters that a constrained call can't have", i);
            return NULL;
        }
        const size_t n = json_array_size(functions);
        if (c->only == NULL || strcmp(name, c->only) == 0)
            json_array_append_new(functions, c->m->form.tags.syntax == CHAT_CHANNELS
                                                 ? api_calls_channel(c->m, function, arguments(c, function))
                                             : c->m->form.tags.syntax == CHAT_NAMED ? named(c, function)
                                             : c->m->form.tags.syntax == CHAT_KEYED
                                                 ? api_calls_keyed(r, c, function)
                                                 : object(c, function));
        else
            continue;
        if (json_array_size(functions) == n) {
            json_decref(functions);
            return NULL;
        }
    }
    if (json_array_size(functions) > 0)
        return json_pack("{s:o}", "any", functions);
    json_decref(functions);
    if (c->only == NULL)
        api_failure_set(r->why, 400, "tool_choice", "tool_choice is \"required\", but tools are missing");
    else
        api_failure_set(r->why, 400, "tool_choice",
                        "tool_choice names the function \"%.64s\", which is none of tools", c->only);
    return NULL;
}

/* More of the same behind the first; nothing where only one call is wanted. */
static json_t *more(const struct api_calls *c, json_t *next) {
    if (!c->one)
        return api_calls_or_nothing(json_pack("{s:o}", "repeat", next));
    json_decref(next);
    return json_string("");
}

/* Calls behind a tag that opens them: the section's, or where there is none, that of a call. */
static json_t *opened(const struct api_calls *c, json_t *one) {
    const struct chat_tags *t = &c->m->form.tags;
    const bool section = t->section_open[0] != '\0', keyed = t->syntax == CHAT_KEYED;
    if (t->syntax == CHAT_NAMED || (keyed && !section)) {
        json_t *between = keyed ? api_calls_maybe_line() : json_string("");
        json_t *next = json_pack("[o, o, O]", between, api_calls_tag(c->m, t->call_open), one);
        return json_pack("[o, O, o, o]", section ? api_calls_tag(c->m, t->call_open) : json_array(), one,
                         more(c, next), api_calls_tag(c->m, t->section_close));
    }
    if (t->section_close[0] == '\0') /* one tag, a list behind it */
        return json_pack("[s, O, o, s]", "[", one, more(c, json_pack("[s, O]", ", ", one)), "]");
    json_t *inner;
    if (keyed) {
        json_t *call = json_pack("[o, O]", api_calls_tag(c->m, t->call_open), one);
        json_t *next = json_pack("[o, O]", api_calls_maybe_line(), call);
        inner = json_pack("[o, o]", call, more(c, next));
    } else {
        inner = api_calls_any(json_incref(one), json_pack("[s, O, s]", "[", one, "]"));
    }
    json_t *whole = json_pack("[o, o, o, o]", api_calls_maybe_line(), inner, api_calls_maybe_line(),
                              api_calls_tag(c->m, t->section_close));
    json_t *next =
        json_pack("[o, o, O]", api_calls_maybe_line(), api_calls_tag(c->m, t->section_open), whole);
    return json_pack("[o, o]", whole, more(c, next));
}

static const char *opener(const struct chat_tags *t) {
    return t->section_open[0] != '\0' ? t->section_open : t->call_open;
}

/* The answer is calls. */
static json_t *calls(const struct api_calls *c, json_t *one) {
    const struct chat_tags *t = &c->m->form.tags;
    if (t->syntax == CHAT_CHANNELS)
        return api_calls_channels(c->m, one);
    return stands_alone(t) ? json_incref(one)
                           : json_pack("[o, o]", api_calls_tag(c->m, opener(t)), opened(c, one));
}

/* A call whose section was not opened, as models with tags for arguments write it now and then. */
static json_t *alone(const struct api_calls *c, json_t *one) {
    json_t *close =
        json_pack("[o, o]", api_calls_maybe_line(), api_calls_tag(c->m, c->m->form.tags.section_close));
    return json_pack("[O, o]", one, api_calls_or_nothing(close));
}

/* Any text, and calls behind the tag that opens them. The tag of a single call without that of its section
 * may not come where models do not write it so. An object at the beginning is a call where calls stand alone.
 */
static json_t *text_or_calls(const struct api_calls *c, json_t *one) {
    const struct chat_tags *t = &c->m->form.tags;
    if (t->syntax == CHAT_CHANNELS)
        return api_calls_channels_or_text(one);
    if (stands_alone(t)) {
        json_t *rest = json_pack("{s:{s:n}, s:b}", "until", opener(t), "may_end", 1);
        json_t *text = json_pack("[{s:s}, o]", "regex", "[ \\t\\n\\r]*[^ \\t\\n\\r{[<]", rest);
        return api_calls_any(json_incref(one), api_calls_or_nothing(text));
    }
    json_t *texts = json_pack("{s:o}", opener(t), opened(c, one));
    if (t->call_open[0] != '\0' && strcmp(opener(t), t->call_open) != 0)
        json_object_set_new(texts, t->call_open, t->syntax == CHAT_KEYED ? alone(c, one) : json_null());
    return json_pack("{s:o, s:b}", "until", texts, "may_end", 1);
}

static void put(void *context, const char *p, size_t n) {
    api_text_put(context, p, n);
}

/* What matches the schema that the answer was to match, or calls. */
static json_t *answer_or_calls(const struct api_reader *r, const struct api_calls *c, json_t *one) {
    const struct api_text *schema = &r->out->structure.text;
    json_error_t wrong;
    json_t *s = chat_json_load(schema->n > 0 ? schema->p : "", schema->n, JSON_DECODE_ANY, &wrong);
    if (s != NULL && c->m->form.tags.syntax == CHAT_CHANNELS)
        return api_calls_channels_or_schema(c->m, one, s);
    return s == NULL ? NULL : api_calls_any(json_pack("{s:o}", "schema", s), calls(c, one));
}

static bool together(struct api_reader *r) {
    const char *field = r->out->structure.field;
    return api_failure_set(r->why, 400, field,
                           "%s can't be honoured together with tools: leave one of them out, or say "
                           "tool_choice: \"none\"",
                           field);
}

static bool some_strict(const json_t *tools) {
    bool some = false;
    for (size_t i = 0; i < json_array_size(tools); i++)
        some = some ||
               json_is_true(json_object_get(json_object_get(json_array_get(tools, i), "function"), "strict"));
    return some;
}

/* The grammar of calls, and of what else the answer may be. demanded: nothing else. */
static bool constrain(struct api_reader *r, const struct api_calls *c, bool demanded) {
    struct api_structure *s = &r->out->structure;
    const bool formatted = !demanded && s->field != NULL;
    if (formatted && (s->kind != STATOR_GRAMMAR_JSON_SCHEMA || stands_alone(&c->m->form.tags)))
        return together(r);
    json_t *one = call(r, c);
    if (one == NULL)
        return false;
    json_t *all = demanded ? calls(c, one) : formatted ? answer_or_calls(r, c, one) : text_or_calls(c, one);
    if (all != NULL) {
        s->kind = STATOR_GRAMMAR_PARTS;
        s->field = demanded ? "tool_choice" : formatted ? s->field : "tools";
        s->text.n = 0;
        chat_json_write(all, put, &s->text);
        r->out->tagged_calls = !stands_alone(&c->m->form.tags);
        s->whole = c->m->form.tags.syntax == CHAT_CHANNELS;
    }
    json_decref(all);
    json_decref(one);
    return all != NULL ||
           api_failure_set(r->why, 400, s->field, "%s can't be honoured: it is not JSON", s->field);
}

bool api_calls_read(struct api_reader *r, const json_t *body) {
    const json_t *choice = json_object_get(body, "tool_choice"), *tools = json_object_get(body, "tools");
    const char *text = json_string_value(choice), *field = r->out->structure.field;
    const char *only = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    const bool is_auto =
        choice == NULL || json_is_null(choice) || (text != NULL && strcmp(text, "auto") == 0);
    const enum chat_syntax syntax = r->model->form.tags.syntax;
    if (text != NULL && strcmp(text, "none") == 0)
        return true;
    if (!is_auto && only == NULL && (text == NULL || strcmp(text, "required") != 0))
        return api_failure_set(
            r->why, 400, "tool_choice",
            "tool_choice can't be honoured unless it is \"auto\", \"none\", \"required\" or {\"type\": "
            "\"function\", \"function\": {\"name\": ..}}");
    if (is_auto && (!r->out->tools || (field == NULL && !some_strict(tools))))
        return true;
    const bool goes_on = syntax == CHAT_CHANNELS && r->out->goes_on != API_NEW_MESSAGE;
    if (json_array_size(tools) > 0 && (syntax == CHAT_GEMMA || syntax == CHAT_PYTHON || goes_on)) {
        if (is_auto)
            return field != NULL ? together(r) : api_request_unknown(r, "tools.function.strict");
        return api_failure_set(
            r->why, 400, "tool_choice",
            "tool_choice can't be honoured unless it is \"auto\" or \"none\": calls in the way "
            "of this model, which writes them as code, can't be constrained, nor gpt-oss's where the answer "
            "goes on with the last message");
    }
    const struct api_calls c = {.m = r->model,
                                .tools = tools,
                                .only = only,
                                .one = only != NULL ||
                                       json_is_false(json_object_get(body, "parallel_tool_calls")),
                                .only_strict = is_auto};
    return constrain(r, &c, !is_auto);
}
