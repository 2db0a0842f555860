#include "chat/chat_write.h"

#include "base/check.h"
#include "chat/chat_json.h"

#include <string.h>

struct writer {
    const struct chat_tags *tags;
    void (*put)(void *context, const char *p, size_t n);
    void *context;
};

static void puts_of(const struct writer *w, const char *text) {
    w->put(w->context, text, strlen(text));
}

/* A value as JSON, or as it is where it is a text between tags. */
static void put_value(const struct writer *w, const json_t *v, bool bare) {
    if (bare && chat_json_is_text(v))
        w->put(w->context, json_string_value(v), json_string_length(v));
    else
        chat_json_write(v, w->put, w->context);
}

static void put_keyed(const struct writer *w, const json_t *function) {
    const struct chat_tags *t = w->tags;
    const char *key;
    json_t *value;
    puts_of(w, t->section_open);
    puts_of(w, t->section_open[0] != '\0' ? "\n" : "");
    puts_of(w, t->call_open);
    puts_of(w, json_string_value(json_object_get(function, "name")));
    puts_of(w, t->name_end);
    puts_of(w, "\n");
    json_object_foreach(json_object_get(function, "arguments"), key, value) {
        puts_of(w, t->key_open);
        puts_of(w, key);
        puts_of(w, t->key_close);
        puts_of(w, t->value_lines ? "\n" : "");
        puts_of(w, t->value_open);
        put_value(w, value, true);
        puts_of(w, t->value_lines ? "\n" : "");
        puts_of(w, t->value_close);
        puts_of(w, "\n");
    }
    puts_of(w, t->call_close);
    puts_of(w, t->section_close[0] != '\0' ? "\n" : "");
    puts_of(w, t->section_close);
}

/* The arguments as the client wrote them. */
static void put_arguments(const struct writer *w, const json_t *function) {
    const json_t *arguments = json_object_get(function, "arguments");
    put_value(w, arguments, true);
}

static void put_object(const struct writer *w, const json_t *function) {
    puts_of(w, "{\"name\": ");
    put_value(w, json_object_get(function, "name"), false);
    puts_of(w, ", \"arguments\": ");
    put_arguments(w, function);
    puts_of(w, "}");
}

static void put_named(const struct writer *w, const json_t *function) {
    puts_of(w, w->tags->call_open);
    puts_of(w, json_string_value(json_object_get(function, "name")));
    puts_of(w, w->tags->name_end);
    put_arguments(w, function);
    puts_of(w, w->tags->call_close);
}

bool chat_write_can(const struct chat_form *form) {
    return form->tags.syntax == CHAT_JSON || form->tags.syntax == CHAT_KEYED ||
           form->tags.syntax == CHAT_NAMED;
}

void chat_write_calls(const struct chat_form *form, const json_t *objects, const json_t *texts,
                      void (*put)(void *context, const char *p, size_t n), void *context) {
    CHECK(chat_write_can(form) && json_array_size(objects) == json_array_size(texts));
    const struct writer w = {&form->tags, put, context};
    const struct chat_tags *t = &form->tags;
    const bool list = t->syntax == CHAT_JSON && t->section_close[0] == '\0'; /* one tag, a list behind it */
    const size_t n = json_array_size(texts);
    if (list || t->syntax == CHAT_NAMED)
        puts_of(&w, t->section_open);
    puts_of(&w, list ? "[" : "");
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_object_get(json_array_get(texts, i), "function");
        puts_of(&w, i == 0 ? "" : list ? ", " : t->syntax == CHAT_NAMED ? "" : "\n");
        if (t->syntax == CHAT_KEYED) {
            put_keyed(&w, json_object_get(json_array_get(objects, i), "function"));
        } else if (t->syntax == CHAT_NAMED) {
            put_named(&w, text);
        } else if (list) {
            put_object(&w, text);
        } else {
            puts_of(&w, t->section_open);
            puts_of(&w, "\n");
            put_object(&w, text);
            puts_of(&w, "\n");
            puts_of(&w, t->section_close);
        }
    }
    puts_of(&w, list ? "]" : "");
    if (t->syntax == CHAT_NAMED)
        puts_of(&w, t->section_close);
}
