#include "server/adapters/adapter_chat.h"

#include "chat/chat_json.h"
#include "server/adapters/claude_markers.h"
#include "server/request/api_json.h"

#include <stdio.h>
#include <string.h>

bool adapter_wrong(struct api_reader *r, const char *param, const json_t *v, const char *expected) {
    return api_failure_set(r->why, 400, param, "%s is %s: %s is expected", param,
                           v != NULL ? api_request_kind(v) : "missing", expected);
}

const char *adapter_text_of(const json_t *object, const char *name) {
    const json_t *v = json_object_get(object, name);
    return chat_json_is_text(v) ? json_string_value(v) : NULL;
}

bool adapter_is(const char *text, const char *name) {
    return text != NULL && strcmp(text, name) == 0;
}

bool adapter_given(const json_t *v) {
    return v != NULL && !json_is_null(v);
}

bool adapter_each(struct adapter_chat *c, const char *param, const json_t *v, const char *expected,
                  bool (*read)(struct adapter_chat *c, const char *param, const json_t *item)) {
    if (!json_is_array(v))
        return adapter_wrong(c->r, param, v, expected);
    for (size_t i = 0; i < json_array_size(v); i++) {
        char at[ADAPTER_PARAM];
        snprintf(at, sizeof at, "%.60s[%zu]", param, i);
        if (!read(c, at, json_array_get(v, i)))
            return false;
    }
    return true;
}

void adapter_begin(struct adapter_chat *c, struct api_reader *r, json_t *kept) {
    *c =
        (struct adapter_chat){.r = r, .body = json_object(), .messages = json_array(), .tools = json_array()};
    json_array_append_new(kept, c->body);
    json_array_append_new(kept, c->messages);
    json_array_append_new(kept, c->tools);
    c->thoughts = json_array();
    json_array_append_new(kept, c->thoughts);
    c->parked = json_array();
    json_array_append_new(kept, c->parked);
}

void adapter_hand_on(struct adapter_chat *c, const json_t *body, const char *const *names) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)body, name, value) {
        bool ours = false;
        for (const char *const *at = names; *at != NULL; at++)
            ours = ours || strcmp(*at, name) == 0;
        if (!ours && strcmp(name, "messages") == 0)
            api_request_ignore(c->r->out->ignored, name); /* of another API */
        else if (!ours)
            json_object_set(c->body, name, value);
    }
}

bool adapter_format(struct adapter_chat *c, const char *param, json_t *format) {
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!adapter_given(format) || (type != NULL && strcmp(type, "text") == 0))
        return true;
    if (type == NULL)
        return adapter_wrong(c->r, param, format, "an object with a \"type\"");
    if (strcmp(type, "json_schema") != 0) {
        json_object_set(c->body, "response_format", format);
        return true;
    }
    json_t *to = json_object(), *schema = json_copy(format);
    json_object_set_new(c->body, "response_format", to);
    json_object_set(to, "type", json_object_get(format, "type"));
    json_object_set_new(to, "json_schema", schema);
    json_object_del(schema, "type");
    if (json_object_get(schema, "name") == NULL)
        json_object_set_new(schema, "name", json_string("answer"));
    return true;
}

/* The reasoning of the turn becomes one text: where it came in several, blank lines stand between them. */
static bool end_turn(struct adapter_chat *c) {
    struct api_text *joined = &c->r->scratch;
    joined->n = 0;
    for (size_t i = 0; i < json_array_size(c->thoughts); i++) {
        const json_t *text = json_array_get(c->thoughts, i);
        api_text_puts(joined, i > 0 ? "\n\n" : "");
        api_text_put(joined, json_string_value(text), json_string_length(text));
    }
    if (joined->failed)
        return api_failure_set(c->r->why, 503, NULL, "the server's memory has no room for the messages now");
    if (joined->n > 0 && c->turn != NULL)
        json_object_set_new(c->turn, "reasoning_content", json_stringn(joined->p, joined->n));
    json_array_clear(c->thoughts);
    c->turn = NULL;
    return true;
}

bool adapter_end(struct adapter_chat *c) {
    json_object_set(c->body, "messages", c->messages);
    if (json_array_size(c->tools) > 0)
        json_object_set(c->body, "tools", c->tools);
    return end_turn(c);
}

json_t *adapter_message(struct adapter_chat *c, const char *role, json_t *content) {
    json_t *message = json_object();
    (void)end_turn(c); /* `failed` stays set, and adapter_end tells it */
    json_array_append_new(c->messages, message);
    json_object_set_new(message, "role", json_string(role));
    json_object_set_new(message, "content", content);
    return message;
}

void adapter_part(json_t *content, json_t *text) {
    json_t *part = json_object();
    json_array_append_new(content, part);
    json_object_set_new(part, "type", json_string("text"));
    json_object_set(part, "text", text);
}

/* The text without markers; NULL: nothing is left. The caller's to json_decref. */
static json_t *clean(struct adapter_chat *c, json_t *text) {
    const char *p = json_string_value(text);
    const size_t n = json_string_length(text);
    if (!claude_markers_in(p, n))
        return json_incref(text);
    c->r->scratch.n = 0;
    char *room = api_text_room(&c->r->scratch, n);
    if (room == NULL) /* `failed` stays set, and adapter_end tells it */
        return NULL;
    const size_t left = claude_markers_remove(p, n, room);
    return left > 0 ? json_stringn(room, left) : NULL;
}

void adapter_block(struct adapter_chat *c, json_t *content, json_t *text) {
    json_t *left = clean(c, text);
    if (left == NULL)
        return;
    if (json_array_size(content) > 0) {
        json_t *end = json_string("\n");
        adapter_part(content, end);
        json_decref(end);
    }
    adapter_part(content, left);
    json_decref(left);
}

json_t *adapter_turn(struct adapter_chat *c) {
    if (c->turn == NULL)
        c->turn = adapter_message(c, "assistant", json_array());
    return json_object_get(c->turn, "content");
}

void adapter_thought(struct adapter_chat *c, json_t *text) {
    (void)adapter_turn(c);
    json_array_append(c->thoughts, text);
}

void adapter_call(struct adapter_chat *c, json_t *id, json_t *name, json_t *arguments) {
    (void)adapter_turn(c);
    json_t *calls = json_object_get(c->turn, "tool_calls");
    if (calls == NULL) {
        calls = json_array();
        json_object_set_new(c->turn, "tool_calls", calls);
    }
    json_t *call = json_object(), *function = json_object();
    json_array_append_new(calls, call);
    json_object_set_new(call, "type", json_string("function"));
    json_object_set_new(call, "function", function);
    if (adapter_given(id))
        json_object_set(call, "id", id);
    json_object_set(function, "name", name);
    json_object_set(function, "arguments", arguments);
}

void adapter_result(struct adapter_chat *c, json_t *id, json_t *content) {
    json_t *message = adapter_message(c, "tool", content);
    if (adapter_given(id))
        json_object_set(message, "tool_call_id", id);
}

void adapter_tool(struct adapter_chat *c, const json_t *from, json_t *name, json_t *parameters) {
    json_t *description = json_object_get(from, "description"), *strict = json_object_get(from, "strict");
    json_t *tool = json_object(), *function = json_object();
    json_array_append_new(c->tools, tool);
    json_object_set_new(tool, "type", json_string("function"));
    json_object_set_new(tool, "function", function);
    json_object_set(function, "name", name);
    if (adapter_given(description))
        json_object_set(function, "description", description);
    if (adapter_given(parameters))
        json_object_set(function, "parameters", parameters);
    if (adapter_given(strict))
        json_object_set(function, "strict", strict);
}

void adapter_choose(struct adapter_chat *c, json_t *name) {
    json_t *choice = json_object(), *function = json_object();
    json_object_set_new(c->body, "tool_choice", choice);
    json_object_set_new(choice, "type", json_string("function"));
    json_object_set_new(choice, "function", function);
    json_object_set(function, "name", name);
}

void adapter_drop_tool(struct adapter_chat *c, const char *type) {
    char name[64];
    snprintf(name, sizeof name, "tools.%s", type);
    api_request_ignore(c->r->out->ignored, name);
}

static void put(void *context, const char *p, size_t n) {
    api_text_put(context, p, n);
}

json_t *adapter_json_text(struct api_reader *r, const json_t *v) {
    r->scratch.n = 0;
    chat_json_write(v, put, &r->scratch);
    if (r->scratch.failed) {
        api_failure_set(r->why, 503, NULL, "the server's memory has no room for the messages now");
        return NULL;
    }
    return json_stringn(r->scratch.p, r->scratch.n);
}
