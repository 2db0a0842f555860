/* A request of the Responses API as a body of chat completions. The items of an assistant's turn (reasoning,
 * messages, calls) become one message. */
#include "server/adapters/responses.h"

#include "chat/chat_json.h"
#include "server/adapters/adapter_chat.h"

#include <stdio.h>
#include <string.h>

/* The text of a part that has one; NULL: it is of another kind. */
static json_t *part_text(const json_t *part) {
    static const char *const kinds[][2] = {{"input_text", "text"},   {"output_text", "text"},
                                           {"text", "text"},         {"refusal", "refusal"},
                                           {"summary_text", "text"}, {"reasoning_text", "text"}};
    const char *type = adapter_text_of(part, "type");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (adapter_is(type, kinds[i][0]))
            return json_object_get(part, kinds[i][1]);
    return NULL;
}

/* A text, or an array of parts with texts, into content. */
static bool read_parts(struct adapter_chat *c, const char *param, json_t *v, json_t *content) {
    if (chat_json_is_text(v)) {
        adapter_part(content, v);
        return true;
    }
    if (!json_is_array(v))
        return adapter_wrong(c->r, param, v, "a text, or an array of parts,");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *part = json_array_get(v, i);
        const char *type = adapter_text_of(part, "type");
        json_t *text = part_text(part);
        char at[ADAPTER_PARAM];
        if (adapter_is(type, "input_image") && c->r->model->pictures > 0) {
            json_array_append(content, (json_t *)part);
            continue;
        }
        snprintf(at, sizeof at, "%.60s[%zu]", param, i);
        if (type == NULL)
            return adapter_wrong(c->r, at, part, "a part {\"type\": .., \"text\": ..}");
        if (text == NULL)
            return api_failure_set(c->r->why, 400, at, "%s is of the type \"%.40s\": only texts can be read",
                                   at, type);
        if (!chat_json_is_text(text))
            return adapter_wrong(c->r, at, text, "a text");
        adapter_part(content, text);
    }
    return true;
}

static bool read_message(struct adapter_chat *c, const char *param, const json_t *item) {
    const char *role = adapter_text_of(item, "role");
    json_t *content = json_object_get(item, "content");
    char at[ADAPTER_PARAM];
    if (adapter_is(role, "assistant")) {
        snprintf(at, sizeof at, "%.60s.content", param);
        return read_parts(c, at, content, adapter_turn(c));
    }
    if (!adapter_is(role, "user") && !adapter_is(role, "system") && !adapter_is(role, "developer")) {
        snprintf(at, sizeof at, "%.60s.role", param);
        return adapter_wrong(c->r, at, json_object_get(item, "role"),
                             "\"user\", \"assistant\", \"system\" or \"developer\"");
    }
    json_t *parts = json_array();
    adapter_message(c, role, parts);
    snprintf(at, sizeof at, "%.60s.content", param);
    return read_parts(c, at, content, parts);
}

static bool read_call(struct adapter_chat *c, const char *param, const json_t *item) {
    json_t *name = json_object_get(item, "name"), *arguments = json_object_get(item, "arguments");
    if (!chat_json_is_text(name) || !chat_json_is_text(arguments))
        return adapter_wrong(c->r, param, item, "a call with texts as \"name\" and \"arguments\"");
    adapter_call(c, json_object_get(item, "call_id"), name, arguments);
    return true;
}

/* A call of a tool that takes a text: it becomes the argument "input". */
static bool read_custom_call(struct adapter_chat *c, const char *param, const json_t *item) {
    json_t *name = json_object_get(item, "name"), *input = json_object_get(item, "input");
    if (!chat_json_is_text(name) || !chat_json_is_text(input))
        return adapter_wrong(c->r, param, item, "a call with texts as \"name\" and \"input\"");
    json_t *object = json_object();
    json_object_set(object, "input", input);
    json_t *arguments = adapter_json_text(c->r, object);
    json_decref(object);
    if (arguments == NULL)
        return false;
    adapter_call(c, json_object_get(item, "call_id"), name, arguments);
    json_decref(arguments);
    return true;
}

static bool read_output(struct adapter_chat *c, const char *param, const json_t *item) {
    json_t *parts = json_array(), *output = json_object_get(item, "output");
    char at[ADAPTER_PARAM];
    adapter_result(c, json_object_get(item, "call_id"), parts);
    snprintf(at, sizeof at, "%.60s.output", param);
    return read_parts(c, at, output, parts);
}

/* Its text, or where there is none what this server gave as encrypted_content, or the summary. */
static bool read_reasoning(struct adapter_chat *c, const char *param, const json_t *item) {
    json_t *parts = json_object_get(item, "content");
    const char *sealed = adapter_text_of(item, "encrypted_content");
    const size_t mark = sizeof RESPONSES_MARK - 1;
    (void)param;
    if (json_array_size(parts) == 0 && sealed != NULL && strncmp(sealed, RESPONSES_MARK, mark) == 0) {
        json_t *text = json_stringn(sealed + mark,
                                    json_string_length(json_object_get(item, "encrypted_content")) - mark);
        adapter_thought(c, text);
        json_decref(text);
        return true;
    }
    if (json_array_size(parts) == 0)
        parts = json_object_get(item, "summary");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *text = part_text(json_array_get(parts, i));
        if (chat_json_is_text(text))
            adapter_thought(c, text);
    }
    return true;
}

static bool read_item(struct adapter_chat *c, const char *param, const json_t *item);

/* An item of an earlier response of this server, while it is kept. */
static bool read_reference(struct adapter_chat *c, const char *param, const json_t *item) {
    const char *id = adapter_text_of(item, "id");
    size_t n = 0;
    json_error_t ignored;
    const char *text = id != NULL ? kept_get(c->r->model->kept, id, &n) : NULL;
    json_t *kept = text != NULL ? chat_json_load(text, n, 0, &ignored) : NULL;
    if (kept == NULL)
        return api_failure_set(c->r->why, 400, param,
                               "%s refers to an item that is not kept here, or no more: send the item itself",
                               param);
    json_array_append_new(c->parked, kept);
    /* The arguments of a call are kept too, and a model may write anything: no chain of references. */
    if (adapter_is(adapter_text_of(kept, "type"), "item_reference"))
        return api_failure_set(c->r->why, 400, param, "%s refers to another reference", param);
    return read_item(c, param, kept);
}

static bool read_item(struct adapter_chat *c, const char *param, const json_t *item) {
    static const struct {
        const char *type;
        bool (*read)(struct adapter_chat *c, const char *param, const json_t *item);
    } kinds[] = {{"message", read_message},
                 {"function_call", read_call},
                 {"custom_tool_call", read_custom_call},
                 {"function_call_output", read_output},
                 {"custom_tool_call_output", read_output},
                 {"reasoning", read_reasoning},
                 {"item_reference", read_reference}};
    const char *type = adapter_text_of(item, "type");
    char name[64];
    if (!json_is_object(item) || (type == NULL && adapter_text_of(item, "role") == NULL))
        return adapter_wrong(c->r, param, item, "an item {\"type\": .., ..}");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (adapter_is(type != NULL ? type : "message", kinds[i].type))
            return kinds[i].read(c, param, item);
    /* What a hosted tool did, which no local model has asked for. */
    snprintf(name, sizeof name, "input.%s", type);
    api_request_ignore(c->r->out->ignored, name);
    return true;
}

static bool read_input(struct adapter_chat *c, const json_t *body) {
    json_t *instructions = json_object_get(body, "instructions"), *input = json_object_get(body, "input");
    if (adapter_given(instructions)) {
        json_t *parts = json_array();
        adapter_message(c, "system", parts);
        if (!read_parts(c, "instructions", instructions, parts))
            return false;
    }
    if (!adapter_given(input) || chat_json_is_text(input) ||
        (json_is_array(input) && json_array_size(input) == 0)) {
        /* Codex asks with an empty input whether anybody is there. */
        json_t *parts = json_array();
        adapter_message(c, "user", parts);
        return !chat_json_is_text(input) || read_parts(c, "input", input, parts);
    }
    return adapter_each(c, "input", input, "a text, or an array of items,", read_item);
}

/* Functions are the client's own; tools of other types are run by a hosted service, or write a grammar of
 * their own ("custom"). */
static bool read_tool(struct adapter_chat *c, const char *param, const json_t *tool) {
    const char *type = adapter_text_of(tool, "type");
    json_t *name = json_object_get(tool, "name");
    if (type == NULL)
        return adapter_wrong(c->r, param, tool,
                             "a tool {\"type\": \"function\", \"name\": .., \"parameters\": ..}");
    if (!adapter_is(type, "function")) {
        adapter_drop_tool(c, type);
        return true;
    }
    if (adapter_text_of(tool, "name") == NULL)
        return adapter_wrong(c->r, param, name, "a member \"name\"");
    adapter_tool(c, tool, name, json_object_get(tool, "parameters"));
    return true;
}

static bool read_tools(struct adapter_chat *c, const json_t *tools) {
    return !adapter_given(tools) || adapter_each(c, "tools", tools, "an array", read_tool);
}

/* A text as in chat completions; a function's name stands flat. */
static void read_choice(struct adapter_chat *c, json_t *choice) {
    if (!adapter_given(choice))
        return;
    if (!adapter_is(adapter_text_of(choice, "type"), "function") || adapter_text_of(choice, "name") == NULL)
        json_object_set(c->body, "tool_choice", choice);
    else
        adapter_choose(c, json_object_get(choice, "name"));
}

static bool read_text(struct adapter_chat *c, const json_t *text) {
    if (!adapter_given(text))
        return true;
    if (!json_is_object(text))
        return adapter_wrong(c->r, "text", text, "an object");
    if (adapter_given(json_object_get(text, "verbosity")))
        api_request_ignore(c->r->out->ignored, "text.verbosity");
    return adapter_format(c, "text.format", json_object_get(text, "format"));
}

static bool read_thinking(struct adapter_chat *c, const json_t *reasoning) {
    json_t *effort = json_object_get(reasoning, "effort");
    if (!adapter_given(reasoning))
        return true;
    if (!json_is_object(reasoning))
        return adapter_wrong(c->r, "reasoning", reasoning, "an object");
    if (adapter_given(effort))
        json_object_set(c->body, "reasoning_effort", effort);
    return true;
}

static bool refuse_stored(struct api_reader *r, const json_t *body) {
    static const struct {
        const char *name, *why;
    } fields[] = {
        {"previous_response_id", "no response is stored here: send the whole conversation as input"},
        {"conversation", "no conversation is stored here: send all of it as input"},
        {"prompt", "no prompt is stored here: send it as instructions and input"},
        {"background", "no response is stored here: the answer can't be asked for later"}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *v = json_object_get(body, fields[i].name);
        if (adapter_given(v) && !json_is_false(v))
            return api_failure_set(r->why, 400, fields[i].name, "%s can't be honoured: %s", fields[i].name,
                                   fields[i].why);
    }
    return true;
}

static void note_included(struct api_reader *r, const char *name) {
    r->out->returns_reasoning = r->out->returns_reasoning || adapter_is(name, "reasoning.encrypted_content");
    if (adapter_is(name, "message.output_text.logprobs"))
        api_request_ignore(r->out->ignored, "include.message.output_text.logprobs");
}

/* What is to be added to the answer; what is left out is noted. */
static void read_include(struct api_reader *r, const json_t *body) {
    const json_t *include = json_object_get(body, "include");
    for (size_t i = 0; i < json_array_size(include); i++)
        note_included(r, json_string_value(json_array_get(include, i)));
    if (adapter_is(adapter_text_of(body, "truncation"), "auto"))
        api_request_ignore(r->out->ignored, "truncation");
}

const struct responses_member responses_repeated[RESPONSES_REPEATED] = {
    {"instructions", "null"},
    {"max_output_tokens", "null"},
    {"max_tool_calls", "null"},
    {"metadata", "{}"},
    {"prompt_cache_key", "null"},
    {"reasoning", "{\"effort\": null, \"summary\": null}"},
    {"safety_identifier", "null"},
    {"text", "{\"format\": {\"type\": \"text\"}}"},
    {"tool_choice", "\"auto\""},
    {"tools", "[]"},
    {"user", "null"},
};

static void put_repeated(void *context, const char *p, size_t n) {
    api_text_put(context, p, n);
}

/* The tools that the model has: those of other types were left out. */
static json_t *functions_of(const json_t *tools) {
    json_t *functions = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (adapter_is(adapter_text_of(json_array_get(tools, i), "type"), "function"))
            json_array_append(functions, json_array_get(tools, i));
    return functions;
}

static bool repeat_settings(struct adapter_chat *c, const json_t *body) {
    struct api_text *to = &c->r->out->repeated;
    json_t *functions = functions_of(json_object_get(body, "tools"));
    json_array_append_new(c->parked, functions);
    for (size_t i = 0; i < RESPONSES_REPEATED; i++) {
        const char *name = responses_repeated[i].name;
        const json_t *v = adapter_is(name, "tools") ? functions : json_object_get(body, name);
        if (adapter_given(v))
            chat_json_write(v, put_repeated, to);
        api_text_put(to, "\n", 1);
    }
    return !to->failed || api_failure_set(c->r->why, 503, NULL,
                                          "the server's memory has no room for the request's settings now");
}

const json_t *responses_translate(struct api_reader *r, const json_t *body, json_t *kept) {
    static const char *const ours[] = {"input",
                                       "instructions",
                                       "max_output_tokens",
                                       "tools",
                                       "tool_choice",
                                       "text",
                                       "reasoning",
                                       "include",
                                       "previous_response_id",
                                       "conversation",
                                       "prompt",
                                       "background",
                                       "truncation",
                                       "max_tool_calls",
                                       "stream_options",
                                       "client_metadata",
                                       NULL};
    json_t *most = json_object_get(body, "max_output_tokens");
    struct adapter_chat c;
    adapter_begin(&c, r, kept);
    adapter_hand_on(&c, body, ours);
    if (adapter_given(most))
        json_object_set(c.body, "max_tokens", most);
    read_include(r, body);
    read_choice(&c, json_object_get(body, "tool_choice"));
    return refuse_stored(r, body) && read_input(&c, body) && read_tools(&c, json_object_get(body, "tools")) &&
                   read_text(&c, json_object_get(body, "text")) &&
                   read_thinking(&c, json_object_get(body, "reasoning")) && repeat_settings(&c, body) &&
                   adapter_end(&c)
               ? c.body
               : NULL;
}
