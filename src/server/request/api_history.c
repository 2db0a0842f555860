/* A conversation, written as the model's template takes it. What the template would drop or refuse (calls,
 * results, late system messages) becomes text that it takes, or the request is refused. Runs where jansson
 * may allocate. */
#include "server/request/api_request.h"

#include "base/check.h"
#include "base/hash.h"
#include "chat/chat_json.h"
#include "chat/chat_write.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_role(const json_t *message, const char *role) {
    const char *v = json_string_value(json_object_get(message, "role"));
    return v != NULL && strcmp(v, role) == 0;
}

static size_t calls_of(const json_t *message) {
    return json_array_size(json_object_get(message, "tool_calls"));
}

static void put(void *context, const char *p, size_t n) {
    api_text_put(context, p, n);
}

/* The calls become a part of the content, as the model wrote them. */
static bool write_calls(struct api_reader *r, json_t *const lists[API_VARIANTS], size_t i) {
    json_t *as_objects = json_array_get(lists[0], i), *as_texts = json_array_get(lists[1], i);
    const json_t *content = json_object_get(as_objects, "content");
    r->scratch.n = 0;
    if (json_string_length(content) > 0) {
        api_text_put(&r->scratch, json_string_value(content), json_string_length(content));
        api_text_puts(&r->scratch, "\n");
    }
    chat_write_calls(&r->model->form, json_object_get(as_objects, "tool_calls"),
                     json_object_get(as_texts, "tool_calls"), put, &r->scratch);
    if (r->scratch.failed)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the messages now");
    json_t *text = json_stringn(r->scratch.p, r->scratch.n);
    for (int k = 0; k < API_VARIANTS; k++) {
        json_object_set(json_array_get(lists[k], i), "content", text);
        json_object_del(json_array_get(lists[k], i), "tool_calls");
    }
    json_decref(text);
    return true;
}

/* Calls that the template does not render become text; false: they, or results, can't be kept. */
static bool keep_all(struct api_reader *r, json_t *const lists[API_VARIANTS]) {
    const struct chat_form *form = &r->model->form;
    for (size_t i = 0; i < json_array_size(lists[0]); i++) {
        const json_t *message = json_array_get(lists[0], i);
        char at[48];
        if (calls_of(message) > 0 && !form->calls_rendered) {
            snprintf(at, sizeof at, "messages[%zu].tool_calls", i);
            if (!chat_write_can(form))
                return api_failure_set(
                    r->why, 400, at,
                    "%s can't be honoured: the model's chat template writes no calls of tools", at);
            if (!write_calls(r, lists, i))
                return false;
        }
        if (is_role(message, "tool") && !form->results_rendered) {
            snprintf(at, sizeof at, "messages[%zu]", i);
            return api_failure_set(r->why, 400, at,
                                   "%s.role is \"tool\", which can't be honoured: the model's chat template "
                                   "writes no results of tools",
                                   at);
        }
    }
    return true;
}

/* An id of CHAT_SHORT_ID letters and digits: the id itself if it is one, else one made from its hash. */
static json_t *short_id(const json_t *id) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    const char *p = json_string_value(id);
    const size_t n = json_string_length(id);
    char out[CHAT_SHORT_ID + 1];
    bool fits = n == CHAT_SHORT_ID;
    for (size_t i = 0; i < n && fits; i++)
        fits = isalnum((unsigned char)p[i]) != 0;
    uint64_t hash = hash_of(p, n);
    for (int i = 0; i < CHAT_SHORT_ID; i++, hash /= 36)
        out[i] = digits[hash % 36];
    return fits ? json_stringn(p, n) : json_stringn(out, CHAT_SHORT_ID);
}

static void shorten(json_t *of, const char *member) {
    const json_t *id = json_object_get(of, member);
    if (json_is_string(id))
        json_object_set_new(of, member, short_id(id));
}

static void shorten_ids(json_t *list) {
    size_t i, k;
    json_t *message, *call;
    json_array_foreach(list, i, message) {
        shorten(message, "tool_call_id");
        json_array_foreach(json_object_get(message, "tool_calls"), k, call) shorten(call, "id");
    }
}

/* Whether the result is the call's: by id, or, where one has none, by its place behind the message. */
static bool answers(const json_t *result, const json_t *call, size_t place, size_t index) {
    const json_t *a = json_object_get(result, "tool_call_id"), *b = json_object_get(call, "id");
    return a != NULL && b != NULL ? json_equal(a, b) : place == index;
}

/* Some templates write the name of a result's function, which few clients send. */
static void name_results(json_t *list) {
    const json_t *calls = NULL;
    size_t i, k, place = 0;
    json_t *message, *call;
    json_array_foreach(list, i, message) {
        if (!is_role(message, "tool")) {
            calls = json_object_get(message, "tool_calls");
            place = 0;
            continue;
        }
        json_array_foreach(calls, k, call) if (json_object_get(message, "name") == NULL &&
                                               answers(message, call, place, k))
            json_object_set(message, "name", json_object_get(json_object_get(call, "function"), "name"));
        place++;
    }
}

/* The assistant's message with call number k alone. Content and reasoning stay with the first call. */
static json_t *part(const json_t *message, size_t k, bool null_content) {
    json_t *one = json_copy((json_t *)message), *calls = json_array();
    json_array_append(calls, json_array_get(json_object_get(message, "tool_calls"), k));
    json_object_set_new(one, "tool_calls", calls);
    if (k > 0) {
        json_object_set_new(one, "content", null_content ? json_null() : json_string(""));
        json_object_del(one, "reasoning_content");
        json_object_del(one, "reasoning");
        json_object_del(one, "thinking");
    }
    return one;
}

/* For a template that takes one call per message: appends a message for each call, and the call's result
 * behind it. Returns how many messages of the list were used: the message and its results. */
static size_t split(const json_t *list, size_t at, bool null_content, json_t *to) {
    const json_t *message = json_array_get(list, at), *calls = json_object_get(message, "tool_calls");
    size_t n = 1;
    while (is_role(json_array_get(list, at + n), "tool"))
        n++;
    uint8_t taken[API_MESSAGES] = {0};
    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_array_append_new(to, part(message, k, null_content));
        for (size_t i = 1; i < n; i++)
            if (taken[i - 1] == 0 &&
                answers(json_array_get(list, at + i), json_array_get(calls, k), i - 1, k)) {
                taken[i - 1] = 1;
                json_array_append(to, json_array_get(list, at + i));
            }
    }
    for (size_t i = 1; i < n; i++)
        if (taken[i - 1] == 0)
            json_array_append(to, json_array_get(list, at + i));
    return n;
}

/* Splits messages for templates that render only one call of a message, or calls only without content. */
static void split_messages(const struct chat_form *form, json_t *list) {
    json_t *to = json_array();
    for (size_t i = 0; i < json_array_size(list);) {
        json_t *message = json_array_get(list, i);
        const size_t calls = calls_of(message);
        if (calls > 0 && form->null_content && !json_is_null(json_object_get(message, "content"))) {
            json_t *said = json_copy(message);
            json_object_del(said, "tool_calls");
            if (json_string_length(json_object_get(said, "content")) > 0)
                json_array_append(to, said);
            json_decref(said);
            json_object_set_new(message, "content", json_null());
        }
        if (calls > 1 && form->one_call) {
            i += split(list, i, form->null_content, to);
            continue;
        }
        json_array_append(to, message);
        i++;
    }
    json_array_clear(list);
    json_array_extend(list, to);
    json_decref(to);
}

/* The texts of all system messages of a list, with blank lines between them, into r->scratch. Returns how
 * many messages are to be taken out: none if the template takes them where they are. */
static size_t join_system(struct api_reader *r, const json_t *list) {
    const enum chat_system form = r->model->form.system;
    size_t i, n = 0;
    const json_t *message;
    r->scratch.n = 0;
    json_array_foreach(list, i, message) {
        const json_t *content = json_object_get(message, "content");
        if (!is_role(message, "system"))
            continue;
        if (n++ > 0)
            api_text_puts(&r->scratch, "\n\n");
        api_text_put(&r->scratch, json_string_value(content), json_string_length(content));
    }
    const bool fits = form == CHAT_SYSTEM_ANYWHERE || n == 0 ||
                      (form == CHAT_SYSTEM_FIRST && n == 1 && is_role(json_array_get(list, 0), "system"));
    return fits ? 0 : n;
}

/* The list with `text` in front: as its system message, or (CHAT_SYSTEM_NOWHERE) as the beginning of the
 * user's first message, which `text` ends with already. */
static void put_system(const struct chat_form *form, json_t *list, json_t *text, size_t first_user) {
    json_t *to = json_array(), *message;
    size_t i;
    const bool alone = form->system == CHAT_SYSTEM_FIRST || first_user == json_array_size(list);
    if (alone)
        json_array_append_new(to, json_pack("{s:s, s:O}", "role",
                                            form->system == CHAT_SYSTEM_FIRST ? "system" : "user", "content",
                                            text));
    json_array_foreach(list, i, message) {
        if (is_role(message, "system"))
            continue;
        if (!alone && i == first_user)
            json_object_set(message, "content", text);
        json_array_append(to, message);
    }
    json_array_clear(list);
    json_array_extend(list, to);
    json_decref(to);
}

/* System messages where the template refuses or drops them become one at the beginning. */
static bool merge_system(struct api_reader *r, json_t *const lists[API_VARIANTS]) {
    const struct chat_form *form = &r->model->form;
    if (join_system(r, lists[0]) == 0)
        return true;
    size_t first_user = 0;
    while (first_user < json_array_size(lists[0]) && !is_role(json_array_get(lists[0], first_user), "user"))
        first_user++;
    if (form->system == CHAT_SYSTEM_NOWHERE && first_user < json_array_size(lists[0])) {
        const json_t *content = json_object_get(json_array_get(lists[0], first_user), "content");
        api_text_puts(&r->scratch, "\n\n");
        api_text_put(&r->scratch, json_string_value(content), json_string_length(content));
    }
    if (r->scratch.failed)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the messages now");
    json_t *text = json_stringn(r->scratch.n > 0 ? r->scratch.p : "", r->scratch.n);
    for (int k = 0; k < API_VARIANTS; k++)
        put_system(form, lists[k], text, first_user);
    json_decref(text);
    return true;
}

/* true, false; -1: the body does not say. False: it is something else. */
static bool read_choice(struct api_reader *r, const json_t *body, const char *name, int *out) {
    const json_t *v = json_object_get(body, name);
    *out = v == NULL || json_is_null(v) ? -1 : json_is_true(v);
    return *out == -1 || json_is_boolean(v) ||
           api_failure_set(r->why, 400, name, "%s is %s: true or false is expected", name,
                           api_request_kind(v));
}

/* A content has opened the model's reasoning and not closed it. */
static bool opens_thinking(const struct chat_form *form, const char *p, size_t n) {
    const char *const tags[2] = {form->think_open, form->think_close};
    const char *last[2] = {NULL, NULL};
    for (int i = 0; i < 2 && tags[0][0] != '\0'; i++)
        for (const char *at = p; (at = memmem(at, n - (size_t)(at - p), tags[i], strlen(tags[i]))) != NULL;
             at++)
            last[i] = at;
    return last[0] != NULL && (last[1] == NULL || last[1] < last[0]);
}

/* The last message of all lists gets `text`, behind `tag`, and API_PLACE as this member. */
static bool put_place(struct api_reader *r, json_t *const lists[API_VARIANTS], const char *member,
                      const char *tag, const json_t *text) {
    const size_t last = json_array_size(lists[0]) - 1;
    r->scratch.n = 0;
    api_text_puts(&r->scratch, tag);
    api_text_puts(&r->scratch, tag[0] != '\0' ? "\n" : "");
    api_text_put(&r->scratch, json_string_value(text), json_string_length(text));
    api_text_puts(&r->scratch, API_PLACE);
    if (r->scratch.failed)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the messages now");
    json_t *with = json_stringn(r->scratch.p, r->scratch.n);
    for (int k = 0; k < API_VARIANTS; k++)
        json_object_set(json_array_get(lists[k], last), member, with);
    json_decref(with);
    return true;
}

bool api_history_continue(struct api_reader *r, const json_t *body, json_t *const lists[API_VARIANTS],
                          bool *prompt) {
    const struct chat_form *form = &r->model->form;
    const size_t n = json_array_size(lists[0]);
    const json_t *last = json_array_get(lists[0], n - 1), *content = json_object_get(last, "content");
    const bool named = form->reasoning_name[0] != '\0';
    const json_t *thought = json_object_get(last, named ? form->reasoning_name : "reasoning_content");
    const bool can = is_role(last, "assistant") && calls_of(last) == 0;
    int asked, begins;
    if (!read_choice(r, body, "continue_final_message", &asked) ||
        !read_choice(r, body, "add_generation_prompt", &begins))
        return false;
    if (asked == 1 && (!can || begins == 1))
        return api_failure_set(r->why, 400, "continue_final_message",
                               "continue_final_message can't be honoured: %s",
                               can ? "add_generation_prompt asks for a new message"
                                   : "the last message is none of the assistant without tool_calls");
    /* A prompt that is shown and not answered may also end with a whole message. */
    const bool shown = r->out->endpoint == API_TEMPLATE && begins == 0;
    *prompt = begins != 0;
    if (!can || asked == 0 || (asked == -1 && (begins == 1 || shown)))
        return true;
    *prompt = false;
    if (json_string_length(content) > 0) {
        const bool thinks = opens_thinking(form, json_string_value(content), json_string_length(content));
        r->out->goes_on = thinks ? API_ON_REASONING : API_ON_CONTENT;
        return put_place(r, lists, "content", "", content);
    }
    if (json_string_length(thought) > 0 && (named || form->think_open[0] != '\0')) {
        r->out->goes_on = API_ON_REASONING;
        return put_place(r, lists, named ? form->reasoning_name : "content", named ? "" : form->think_open,
                         thought);
    }
    /* There is nothing to go on with: the answer is that message. */
    *prompt = true;
    for (int k = 0; k < API_VARIANTS && n > 1; k++)
        json_array_remove(lists[k], n - 1);
    return true;
}

bool api_history_fit(struct api_reader *r, json_t *const lists[API_VARIANTS]) {
    const struct chat_form *form = &r->model->form;
    for (int k = 0; k < API_VARIANTS; k++)
        name_results(lists[k]); /* as long as the calls are there */
    if (!keep_all(r, lists) || !merge_system(r, lists))
        return false;
    for (int k = 0; k < API_VARIANTS; k++) {
        if (form->short_ids)
            shorten_ids(lists[k]);
        if (form->calls_rendered && (form->one_call || form->null_content))
            split_messages(form, lists[k]);
    }
    return true;
}
