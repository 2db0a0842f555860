/* A request of the Messages API as a body of chat completions. */
#include "server/adapters/anthropic.h"

#include "chat/chat_json.h"
#include "server/adapters/adapter_chat.h"

#include <stdio.h>

static bool cannot(struct api_reader *r, const char *param, const char *type) {
    return api_failure_set(r->why, 400, param, "%s is of the type \"%.40s\", which can't be read here", param,
                           type != NULL ? type : "");
}

/* A text, or an array of text blocks, into content. What no local model reads is refused by its type. */
static bool read_texts(struct adapter_chat *c, const char *param, json_t *v, json_t *content) {
    if (chat_json_is_text(v)) {
        adapter_block(c, content, v);
        return true;
    }
    if (!json_is_array(v))
        return adapter_wrong(c->r, param, v, "a text, or an array of text blocks,");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *block = json_array_get(v, i);
        json_t *text = json_object_get(block, "text");
        char at[ADAPTER_PARAM];
        snprintf(at, sizeof at, "%.60s[%zu]", param, i);
        if (!adapter_is(adapter_text_of(block, "type"), "text"))
            return cannot(c->r, at, adapter_text_of(block, "type"));
        if (!chat_json_is_text(text))
            return adapter_wrong(c->r, at, text, "a member \"text\"");
        adapter_block(c, content, text);
    }
    return true;
}

static bool read_result(struct adapter_chat *c, const char *param, const json_t *block) {
    json_t *content = json_array(), *given = json_object_get(block, "content");
    adapter_result(c, json_object_get(block, "tool_use_id"), content);
    if (adapter_text_of(block, "tool_use_id") == NULL)
        return adapter_wrong(c->r, param, json_object_get(block, "tool_use_id"), "a member \"tool_use_id\"");
    if (json_is_true(json_object_get(block, "is_error"))) {
        json_t *error = json_string("Error:");
        adapter_part(content, error);
        json_decref(error);
    }
    return !adapter_given(given) || read_texts(c, param, given, content);
}

/* A block of the user's turn. *user: the content of the message that texts go to; NULL: none is open. */
static bool read_user_block(struct adapter_chat *c, const char *param, const json_t *block, json_t **user) {
    const char *type = adapter_text_of(block, "type");
    json_t *text = json_object_get(block, "text");
    if (adapter_is(type, "tool_result")) {
        *user = NULL;
        return read_result(c, param, block);
    }
    const bool picture = adapter_is(type, "image") && c->r->model->pictures > 0;
    if (!picture && !adapter_is(type, "text"))
        return cannot(c->r, param, type);
    if (!picture && !chat_json_is_text(text))
        return adapter_wrong(c->r, param, text, "a member \"text\"");
    json_t *alone = json_array();
    json_array_append_new(c->parked, alone);
    if (picture)
        json_array_append(*user != NULL ? *user : alone, (json_t *)block);
    else
        adapter_block(c, *user != NULL ? *user : alone, text);
    /* A message only of what was removed is none. */
    if (*user == NULL && json_array_size(alone) > 0) {
        *user = alone;
        adapter_message(c, "user", json_incref(alone));
    }
    return true;
}

static bool read_call(struct adapter_chat *c, const char *param, const json_t *block) {
    json_t *input = json_object_get(block, "input"), *name = json_object_get(block, "name");
    if (!chat_json_is_text(name))
        return adapter_wrong(c->r, param, name, "a member \"name\"");
    if (adapter_given(input) && !json_is_object(input))
        return adapter_wrong(c->r, param, input, "an object as \"input\"");
    json_t *arguments = adapter_given(input) ? adapter_json_text(c->r, input) : json_string("{}");
    if (arguments == NULL)
        return false;
    adapter_call(c, json_object_get(block, "id"), name, arguments);
    json_decref(arguments);
    return true;
}

static bool read_assistant_block(struct adapter_chat *c, const char *param, const json_t *block) {
    const char *type = adapter_text_of(block, "type");
    const char *name = adapter_is(type, "thinking") ? "thinking" : "text";
    json_t *text = json_object_get(block, name);
    if (adapter_is(type, "redacted_thinking"))
        return true;
    if (adapter_is(type, "tool_use"))
        return read_call(c, param, block);
    if (!adapter_is(type, "text") && !adapter_is(type, "thinking"))
        return cannot(c->r, param, type);
    if (!chat_json_is_text(text))
        return adapter_wrong(c->r, param, text,
                             adapter_is(type, "text") ? "a member \"text\"" : "a member \"thinking\"");
    if (adapter_is(type, "thinking"))
        adapter_thought(c, text);
    else
        adapter_part(adapter_turn(c), text);
    return true;
}

/* A message whose content is one text, or (system) text blocks. */
static bool read_plain(struct adapter_chat *c, const char *param, const char *role, json_t *given) {
    json_t *content = json_array();
    json_array_append_new(c->parked, content);
    if (!read_texts(c, param, given, content))
        return false;
    const bool was_empty = json_string_length(given) == 0 && json_array_size(given) == 0;
    if (json_array_size(content) > 0 || was_empty)
        adapter_message(c, role, json_incref(content));
    return true;
}

static bool read_message(struct adapter_chat *c, const char *place, const json_t *message) {
    const char *role = adapter_text_of(message, "role");
    const bool assistant = adapter_is(role, "assistant");
    json_t *content = json_object_get(message, "content"), *user = NULL;
    char param[ADAPTER_PARAM];
    snprintf(param, sizeof param, "%.60s.content", place);
    if (!assistant && !adapter_is(role, "user") && !adapter_is(role, "system")) {
        snprintf(param, sizeof param, "%.60s.role", place);
        return adapter_wrong(c->r, param, json_object_get(message, "role"), "\"user\" or \"assistant\"");
    }
    if (assistant && chat_json_is_text(content)) {
        adapter_part(adapter_turn(c), content);
        return true;
    }
    if (adapter_is(role, "system") || chat_json_is_text(content))
        return read_plain(c, param, role, content);
    if (!json_is_array(content))
        return adapter_wrong(c->r, param, content, "a text, or an array of blocks,");
    if (json_array_size(content) == 0 && !assistant)
        return read_plain(c, param, role, content);
    for (size_t i = 0; i < json_array_size(content); i++) {
        char at[ADAPTER_PARAM];
        snprintf(at, sizeof at, "%.60s[%zu]", param, i);
        const json_t *block = json_array_get(content, i);
        if (!json_is_object(block))
            return adapter_wrong(c->r, at, block, "a block {\"type\": .., ..}");
        if (!(assistant ? read_assistant_block(c, at, block) : read_user_block(c, at, block, &user)))
            return false;
    }
    return true;
}

static bool read_messages(struct adapter_chat *c, const json_t *body) {
    json_t *system = json_object_get(body, "system"), *messages = json_object_get(body, "messages");
    if (adapter_given(system) && !read_plain(c, "system", "system", system))
        return false;
    return adapter_each(c, "messages", messages, "an array of messages", read_message);
}

/* Tools without a type, or of the type "custom", are the client's own; the others ("web_search_20250305", ..)
 * are run by a hosted service. */
static bool read_tool(struct adapter_chat *c, const char *param, const json_t *tool) {
    const char *type = adapter_text_of(tool, "type");
    json_t *name = json_object_get(tool, "name"), *schema = json_object_get(tool, "input_schema");
    if (type != NULL && !adapter_is(type, "custom")) {
        adapter_drop_tool(c, type);
        return true;
    }
    if (adapter_text_of(tool, "name") == NULL)
        return adapter_wrong(c->r, param, json_is_object(tool) ? name : tool,
                             "a tool {\"name\": .., \"input_schema\": ..}");
    if (adapter_given(schema) && !json_is_object(schema))
        return adapter_wrong(c->r, param, schema, "a JSON schema as \"input_schema\"");
    adapter_tool(c, tool, name, schema);
    return true;
}

static bool read_tools(struct adapter_chat *c, const json_t *tools) {
    return !adapter_given(tools) || adapter_each(c, "tools", tools, "an array", read_tool);
}

static bool read_choice(struct adapter_chat *c, const json_t *choice) {
    static const char *const names[][2] = {
        {"auto", "auto"}, {"none", "none"}, {"any", "required"}, {"tool", ""}};
    const char *type = adapter_text_of(choice, "type"), *to = NULL;
    if (!adapter_given(choice))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        to = adapter_is(type, names[i][0]) ? names[i][1] : to;
    if (to == NULL)
        return adapter_wrong(c->r, "tool_choice", choice,
                             "{\"type\": ..} with \"auto\", \"any\", \"tool\" or \"none\"");
    if (json_is_true(json_object_get(choice, "disable_parallel_tool_use")))
        json_object_set_new(c->body, "parallel_tool_calls", json_false());
    if (to[0] != '\0') {
        json_object_set_new(c->body, "tool_choice", json_string(to));
        return true;
    }
    if (adapter_text_of(choice, "name") == NULL)
        return adapter_wrong(c->r, "tool_choice.name", json_object_get(choice, "name"), "a tool's name");
    adapter_choose(c, json_object_get(choice, "name"));
    return true;
}

/* {"effort": .., "format": {"type": "json_schema", "schema": ..}} */
static bool read_output(struct adapter_chat *c, const json_t *output) {
    json_t *effort = json_object_get(output, "effort");
    if (!adapter_given(output))
        return true;
    if (!json_is_object(output))
        return adapter_wrong(c->r, "output_config", output, "an object");
    if (adapter_given(effort))
        json_object_set(c->body, "reasoning_effort", effort);
    return adapter_format(c, "output_config.format", json_object_get(output, "format"));
}

/* {"type": "enabled", "budget_tokens": ..} */
static void read_thinking(struct adapter_chat *c, const json_t *thinking) {
    json_t *budget = json_object_get(thinking, "budget_tokens");
    if (adapter_is(adapter_text_of(thinking, "type"), "enabled") && adapter_given(budget))
        json_object_set(c->body, "reasoning_budget_tokens", budget);
}

const json_t *anthropic_translate(struct api_reader *r, const json_t *body, json_t *kept) {
    static const char *const ours[] = {"messages",       "system",        "tools",         "tool_choice",
                                       "stop_sequences", "output_config", "output_format", NULL};
    const json_t *stop = json_object_get(body, "stop_sequences");
    struct adapter_chat c;
    adapter_begin(&c, r, kept);
    adapter_hand_on(&c, body, ours);
    read_thinking(&c, json_object_get(body, "thinking"));
    if (adapter_given(stop)) {
        if (!json_is_array(stop))
            return adapter_wrong(r, "stop_sequences", stop, "an array of texts"), NULL;
        json_object_set(c.body, "stop", (json_t *)stop);
    }
    return read_messages(&c, body) && read_tools(&c, json_object_get(body, "tools")) &&
                   read_choice(&c, json_object_get(body, "tool_choice")) &&
                   read_output(&c, json_object_get(body, "output_config")) &&
                   adapter_format(&c, "output_format", json_object_get(body, "output_format")) &&
                   adapter_end(&c)
               ? c.body
               : NULL;
}
