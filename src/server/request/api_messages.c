/* Messages and tools: checked, and brought into the form that templates expect. All of it runs where jansson
 * may allocate (api_request_load); texts of the pool are the reader's, so that nothing is lost where that
 * ends. */
#include "server/request/api_request.h"

#include "chat/chat_json.h"
#include "chat/chat_types.h"
#include "server/request/api_json.h"
#include "server/request/api_pictures.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PARAM 96

/* "messages[2].content": what is wrong; a long one is cut. */
__attribute__((format(printf, 2, 3))) static void name_place(char out[PARAM], const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out, PARAM, fmt, ap);
    va_end(ap);
}

static bool fail(struct api_reader *r, const char *param, const json_t *v, const char *expected) {
    return api_failure_set(r->why, 400, param, "%s is %s: %s is expected", param,
                           v != NULL ? api_request_kind(v) : "missing", expected);
}

static bool given(const json_t *v) {
    return v != NULL && !json_is_null(v);
}

static bool is_one_of(const char *text, const char *const *names) {
    for (; *names != NULL; names++)
        if (strcmp(text, *names) == 0)
            return true;
    return false;
}

/* Members of `object` that are not among the names are noted, or refused. */
static bool only(struct api_reader *r, const char *param, const json_t *object, const char *const *names) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) {
        if (is_one_of(name, names))
            continue;
        char at[PARAM];
        name_place(at, "%s.%s", param, name);
        if (!api_request_unknown(r, at))
            return false;
    }
    return true;
}

/* One text of an array of parts: they stand behind each other, as templates that know parts write them. */
static bool join_parts(struct api_reader *r, const char *param, const json_t *parts) {
    static const char *const names[] = {"type", "text", "cache_control", "annotations", NULL};
    static const char *const pictures[] = {"type", "image_url", "source", "detail", "cache_control", NULL};
    static const char *const types[] = {"text", "input_text", "output_text", NULL};
    r->scratch.n = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        char at[PARAM];
        name_place(at, "%s[%zu]", param, i);
        if (!json_is_object(part) || type == NULL)
            return fail(r, at, part, "an object {\"type\": \"text\", \"text\": ..}");
        if (api_pictures_is(type)) {
            if (!only(r, at, part, pictures) || !api_pictures_take(r, at, part, &r->scratch))
                return false;
            continue;
        }
        if (!is_one_of(type, types))
            return api_failure_set(r->why, 400, at,
                                   "%s is of the type \"%.32s\": only \"text\" and \"image_url\" can be read",
                                   at, type);
        if (!chat_json_is_text(text))
            return fail(r, at, text, "a member \"text\"");
        if (!only(r, at, part, names))
            return false;
        api_text_put(&r->scratch, json_string_value(text), json_string_length(text));
    }
    return true;
}

/* The message's content for templates: a text, or (of one with calls) null. */
static bool read_content(struct api_reader *r, const char *param, const json_t *message, bool needed,
                         json_t *to) {
    const json_t *content = json_object_get(message, "content");
    const bool has_calls = json_array_size(json_object_get(message, "tool_calls")) > 0;
    char at[PARAM];
    name_place(at, "%s.content", param);
    if (json_is_array(content)) {
        if (!join_parts(r, at, content))
            return false;
        if (r->scratch.failed)
            return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the messages now");
        json_object_set_new(to, "content", json_stringn(r->scratch.n > 0 ? r->scratch.p : "", r->scratch.n));
        return true;
    }
    if (chat_json_is_text(content)) {
        json_object_set(to, "content", (json_t *)content);
        return true;
    }
    if (given(content) || needed)
        return fail(r, at, content, "a text, or an array of parts of the type text,");
    json_object_set_new(to, "content", has_calls ? json_null() : json_string(""));
    return true;
}

/* The arguments of a call that this server has told, as the model wrote them, where the client means the
 * same: clients write them anew, and the prompt would begin with other tokens than those that are cached.
 * *object becomes theirs. NULL: the client's count. */
static json_t *as_written(struct api_reader *r, const json_t *call, json_t **object) {
    const char *id = json_string_value(json_object_get(call, "id"));
    size_t n = 0;
    json_error_t ignored;
    const char *text = id != NULL ? kept_get(r->model->kept, id, &n) : NULL;
    json_t *was = text != NULL ? chat_json_load(text, n, 0, &ignored) : NULL;
    if (was == NULL || !chat_json_same(*object, was)) {
        json_decref(was);
        return NULL;
    }
    json_decref(*object);
    *object = was;
    return json_stringn(text, n);
}

/* A call of an assistant's message: {id, type, function {name, arguments}}, arguments as an object in
 * `as_object` and as text in `as_text`. */
static bool read_call(struct api_reader *r, const char *param, const json_t *call, json_t *as_object,
                      json_t *as_text) {
    static const char *const names[] = {"id", "type", "function", "index", "cache_control", NULL};
    static const char *const inner[] = {"name", "arguments", NULL};
    const json_t *function = json_object_get(call, "function"), *name = json_object_get(function, "name");
    json_t *arguments = json_object_get(function, "arguments");
    if (!json_is_object(call) || !json_is_object(function) || !chat_json_is_text(name))
        return fail(r, param, json_is_object(call) ? function : call,
                    "{\"id\": .., \"type\": \"function\", \"function\": {\"name\": .., \"arguments\": ..}}");
    char inside[PARAM];
    name_place(inside, "%s.function", param);
    if (!only(r, param, call, names) || !only(r, inside, function, inner))
        return false;
    /* A call without arguments: clients send what they got, which may be "". */
    const bool none =
        !given(arguments) || (chat_json_is_text(arguments) && json_string_length(arguments) == 0);
    if (!none && !chat_json_is_text(arguments) && !json_is_object(arguments))
        return fail(r, param, arguments, "a text of JSON as function.arguments");
    json_error_t ignored;
    json_t *object = none                        ? json_object()
                     : json_is_object(arguments) ? json_incref(arguments)
                                                 : chat_json_load(json_string_value(arguments),
                                                                  json_string_length(arguments), 0, &ignored);
    if (!json_is_object(object)) { /* an answer that was cut off, sent back: the text as it is */
        json_decref(object);
        object = json_object();
        json_object_set(object, "arguments", arguments);
    }
    json_t *written = none ? NULL : as_written(r, call, &object);
    const struct {
        json_t *to;
        json_t *arguments;
    } both[] = {{as_object, json_incref(object)},
                {as_text, written != NULL                ? written
                          : none                         ? json_string("{}")
                          : chat_json_is_text(arguments) ? json_incref(arguments)
                                                         : json_incref(object)}};
    json_decref(object);
    for (int i = 0; i < 2; i++) {
        json_t *one = json_object(), *f = json_object();
        if (given(json_object_get(call, "id")))
            json_object_set(one, "id", json_object_get(call, "id"));
        json_object_set_new(one, "type", json_string("function"));
        json_object_set(f, "name", (json_t *)name);
        json_object_set_new(f, "arguments", both[i].arguments);
        json_object_set_new(one, "function", f);
        json_array_append_new(both[i].to, one);
    }
    return true;
}

/* The messages as templates may want them. */
struct lists {
    json_t *at[API_VARIANTS];
    bool calls; /* there are some: the lists differ */
};

static bool read_calls(struct api_reader *r, const char *param, const json_t *calls,
                       json_t *const to[API_VARIANTS]) {
    json_t *objects = json_array(), *texts = json_array();
    json_object_set_new(to[0], "tool_calls", objects);
    json_object_set_new(to[1], "tool_calls", texts);
    json_object_set(to[2], "tool_calls", objects);
    /* Trial renderings of the form had "" beside calls (chat_form.h). */
    if (!r->model->form.null_content && json_is_null(json_object_get(to[0], "content")))
        for (int i = 0; i < 2; i++)
            json_object_set_new(to[i], "content", json_string(""));
    if (json_array_size(calls) > API_TOOLS)
        return api_failure_set(r->why, 400, param, "%s.tool_calls has %zu calls, at most %d are read", param,
                               json_array_size(calls), API_TOOLS);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        char at[PARAM];
        name_place(at, "%.40s.tool_calls[%zu]", param, i);
        if (!read_call(r, at, json_array_get(calls, i), objects, texts))
            return false;
    }
    return true;
}

/* What the assistant thought, by the name that the template has for it. gpt-oss's template refuses a message
 * with calls that has both a thought and a text: the text follows the thought there. */
static bool read_reasoning(struct api_reader *r, const char *param, const json_t *message, bool has_calls,
                           json_t *one) {
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};
    const struct chat_form *form = &r->model->form;
    const char *to = form->reasoning_name[0] != '\0' ? form->reasoning_name : names[0];
    const json_t *thought = NULL, *content = json_object_get(one, "content");
    const char *name = names[0];
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !given(thought); i++) {
        name = names[i];
        thought = json_object_get(message, name);
    }
    if (!given(thought))
        return true;
    if (!chat_json_is_text(thought)) /* other members of these names are for the client itself */
        return strcmp(name, names[0]) != 0 ||
               api_failure_set(r->why, 400, param, "%s.%s is %s: a text is expected", param, name,
                               api_request_kind(thought));
    if (!has_calls || form->tags.syntax != CHAT_CHANNELS || json_string_length(content) == 0) {
        json_object_set(one, to, (json_t *)thought);
        return true;
    }
    r->scratch.n = 0;
    api_text_put(&r->scratch, json_string_value(thought), json_string_length(thought));
    api_text_puts(&r->scratch, "\n\n");
    api_text_put(&r->scratch, json_string_value(content), json_string_length(content));
    if (r->scratch.failed)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the messages now");
    json_object_set_new(one, to, json_stringn(r->scratch.p, r->scratch.n));
    json_object_set_new(one, "content", json_string(""));
    return true;
}

/* One message into all lists. */
static bool read_message(struct api_reader *r, size_t index, const json_t *message, struct lists *l) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", NULL};
    /* Clients send back what they got, with members that are empty. */
    static const char *const names[] = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal",
                                        "annotations", "function_call", "audio", "reasoning_content",
                                        /* for the client itself */
                                        "id", "reasoning", "thinking", "reasoning_details", "prefix",
                                        "cache_control", NULL};
    static const char *const texts[] = {"name", "tool_call_id"};
    static const char *const empty[] = {"function_call", "audio"};
    char param[PARAM];
    name_place(param, "messages[%zu]", index);
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!json_is_object(message))
        return fail(r, param, message, "an object {\"role\": .., \"content\": ..}");
    if (role == NULL || !is_one_of(role, roles))
        return api_failure_set(
            r->why, 400, param,
            "%s.role is %s%.32s: \"system\", \"developer\", \"user\", \"assistant\" or \"tool\" is "
            "expected",
            param, role != NULL ? "" : "no text", role != NULL ? role : "");
    if (!only(r, param, message, names))
        return false;
    const json_t *calls = json_object_get(message, "tool_calls");
    const bool assistant = strcmp(role, "assistant") == 0, has_calls = json_array_size(calls) > 0;
    if (given(calls) && (!json_is_array(calls) || (has_calls && !assistant)))
        return api_failure_set(r->why, 400, param,
                               "%s.tool_calls: an array is expected, in messages of the assistant", param);
    json_t *one = json_object();
    json_array_append_new(l->at[0], one);
    json_object_set_new(one, "role", json_string(strcmp(role, "developer") == 0 ? "system" : role));
    /* An answer without a text may have consisted of reasoning, or a tool's of nothing. */
    const bool needed = !assistant && strcmp(role, "tool") != 0;
    if (!read_content(r, param, message, needed, one))
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_t *v = json_object_get(message, texts[i]);
        if (!given(v))
            continue;
        if (!chat_json_is_text(v))
            return api_failure_set(r->why, 400, param, "%s.%s is %s: a text is expected", param, texts[i],
                                   api_request_kind(v));
        json_object_set(one, texts[i], v);
    }
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        const json_t *v = json_object_get(message, empty[i]);
        if (given(v) && !(json_is_array(v) && json_array_size(v) == 0))
            return api_failure_set(r->why, 400, param, "%s.%s can't be honoured", param, empty[i]);
    }
    if (assistant && !read_reasoning(r, param, message, has_calls, one))
        return false;
    json_t *all[API_VARIANTS] = {one};
    for (int i = 1; i < API_VARIANTS; i++) {
        all[i] = json_copy(one);
        json_array_append_new(l->at[i], all[i]);
    }
    l->calls = l->calls || has_calls;
    return !has_calls || read_calls(r, param, calls, all);
}

static bool read_messages(struct api_reader *r, const json_t *messages, struct lists *l) {
    if (!json_is_array(messages))
        return fail(r, "messages", messages, "an array of messages");
    const size_t n = json_array_size(messages);
    if (n == 0 || n > API_MESSAGES)
        return api_failure_set(r->why, 400, "messages", "messages has %zu messages: 1 to %d are possible", n,
                               API_MESSAGES);
    for (size_t i = 0; i < n; i++)
        if (!read_message(r, i, json_array_get(messages, i), l))
            return false;
    return true;
}

static bool read_tool(struct api_reader *r, size_t index, const json_t *tool) {
    static const char *const names[] = {"type", "function", "cache_control", NULL};
    static const char *const inner[] = {"name", "description", "parameters", "strict", NULL};
    char param[PARAM];
    name_place(param, "tools[%zu]", index);
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *function = json_object_get(tool, "function"),
                 *parameters = json_object_get(function, "parameters");
    const char *name = json_string_value(json_object_get(function, "name"));
    if (type == NULL || strcmp(type, "function") != 0 || !json_is_object(function))
        return fail(r, param, tool,
                    "{\"type\": \"function\", \"function\": {\"name\": .., \"parameters\": ..}}");
    if (name == NULL || name[0] == '\0' || strlen(name) > 128)
        return api_failure_set(r->why, 400, param, "%s.function.name: a text of 1 to 128 bytes is expected",
                               param);
    char inside[PARAM];
    name_place(inside, "%s.function", param);
    if (!only(r, param, tool, names) || !only(r, inside, function, inner))
        return false;
    if (given(parameters) && !json_is_object(parameters))
        return api_failure_set(r->why, 400, param, "%s.function.parameters is %s: a JSON schema is expected",
                               param, api_request_kind(parameters));
    /* gpt-oss's template reads a description of every tool. */
    if (r->model->form.tags.syntax == CHAT_CHANNELS && !given(json_object_get(function, "description")))
        json_object_set_new((json_t *)function, "description", json_string(""));
    return true;
}

static void put_types(void *context, const char *p, size_t n) {
    api_text_put(context, p, n);
}

/* Tools for the template; *use: there are some, and the model may call them. */
static bool read_tools(struct api_reader *r, const json_t *body, const json_t *tools, bool *use) {
    const char *choice = json_string_value(json_object_get(body, "tool_choice"));
    *use = false;
    if (!given(tools))
        return true;
    if (!json_is_array(tools))
        return fail(r, "tools", tools, "an array");
    if (json_array_size(tools) > API_TOOLS)
        return api_failure_set(r->why, 400, "tools", "tools has %zu tools, at most %d are read",
                               json_array_size(tools), API_TOOLS);
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (!read_tool(r, i, json_array_get(tools, i)))
            return false;
    chat_types_write(tools, put_types, &r->out->types);
    if (r->out->types.failed)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the tools now");
    *use = json_array_size(tools) > 0 && (choice == NULL || strcmp(choice, "none") != 0);
    if (*use && !r->model->form.uses_tools)
        return api_failure_set(r->why, 400, "tools",
                               "tools can't be honoured: the model's chat template has none");
    if (*use && r->out->endpoint == API_CHAT && r->model->form.tags.syntax == CHAT_UNKNOWN)
        return api_failure_set(
            r->why, 400, "tools",
            "tools can't be honoured: how the model's chat template writes calls is not known here");
    return true;
}

static bool says(const json_t *text, const char *what) {
    return json_is_string(text) && strcmp(json_string_value(text), what) == 0;
}

/* Anthropic's {"type": "enabled" | "disabled" | "adaptive"}, which others took over, and an effort of "none":
 * the template's own switch. "adaptive" leaves it to the model. What the template has no switch for is noted.
 */
static void read_thinking(struct api_reader *r, const json_t *body, json_t *variables) {
    const json_t *thinking = json_object_get(body, "thinking"), *type = json_object_get(thinking, "type");
    const char *to = r->model->form.thinking_name;
    const bool on = says(type, "enabled"), off = says(type, "disabled");
    const bool none = says(json_object_get(body, "reasoning_effort"), "none") && !r->model->form.uses_effort;
    if (to[0] != '\0' && (on || off || none))
        json_object_set_new(variables, to, json_boolean(on));
    if (given(thinking) && (to[0] == '\0' || !(on || off || says(type, "adaptive"))))
        api_request_ignore(r->out->ignored, "thinking");
}

static bool read_kwargs(struct api_reader *r, const json_t *body, json_t *variables) {
    static const char *const ours[] = {
        "messages",  "tools",     "xml_tools", "documents", "add_generation_prompt",
        "bos_token", "eos_token", NULL};
    const json_t *kwargs = json_object_get(body, "chat_template_kwargs");
    json_t *thinking = json_object_get(body, "enable_thinking"),
           *effort = json_object_get(body, "reasoning_effort");
    if (given(kwargs) && !json_is_object(kwargs))
        return fail(r, "chat_template_kwargs", kwargs, "an object");
    read_thinking(r, body, variables);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)kwargs, name, value) {
        if (is_one_of(name, ours))
            return api_failure_set(r->why, 400, "chat_template_kwargs",
                                   "chat_template_kwargs has \"%s\", which is not for it to say", name);
        json_object_set(variables, name, value);
    }
    if (given(thinking)) {
        if (!json_is_boolean(thinking))
            return fail(r, "enable_thinking", thinking, "true or false");
        json_object_set(variables, "enable_thinking", thinking);
    }
    if (given(effort)) {
        if (!chat_json_is_text(effort))
            return fail(r, "reasoning_effort", effort, "a text");
        if (r->model->form.uses_effort)
            json_object_set(variables, "reasoning_effort", effort);
        else if (!says(effort, "none") || r->model->form.thinking_name[0] == '\0')
            api_request_ignore(r->out->ignored, "reasoning_effort");
    }
    return true;
}

bool api_messages_build(struct api_reader *r, const json_t *body, json_t *kept) {
    const struct api_model *m = r->model;
    json_t *variables = json_object();
    json_t *tools = json_object_get(body, "tools");
    struct lists l = {.calls = false};
    bool use = false, prompt = true;
    json_array_append_new(kept, variables);
    for (int i = 0; i < API_VARIANTS; i++) {
        l.at[i] = json_array();
        json_array_append_new(kept, l.at[i]);
    }
    if (m->bos != NULL)
        json_object_set_new(variables, "bos_token", json_stringn(m->bos, m->bos_length));
    if (m->eos != NULL)
        json_object_set_new(variables, "eos_token", json_stringn(m->eos, m->eos_length));
    if (!read_messages(r, json_object_get(body, "messages"), &l) || !read_tools(r, body, tools, &use) ||
        !read_kwargs(r, body, variables))
        return false;
    if (use)
        json_object_set(variables, m->form.tools_name, tools);
    r->out->tools = use;
    if (!api_history_fit(r, l.at) || !api_history_continue(r, body, l.at, &prompt))
        return false;
    json_object_set_new(variables, "add_generation_prompt", json_boolean(prompt));
    /* Templates that render objects and want texts don't fail: the form's way is the first one. */
    const int first = m->form.arguments == CHAT_ARGUMENTS_TEXT ? 1 : 0;
    for (int i = 0; i < (l.calls ? API_VARIANTS : 1); i++) {
        json_t *one = json_copy(variables);
        json_array_append_new(kept, one);
        json_object_set(one, "messages", l.at[i < 2 ? i ^ first : i]);
        r->out->variables[i] = one;
    }
    return true;
}
