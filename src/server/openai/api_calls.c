#include "server/openai/api_calls.h"

#include "base/json_writer.h"

#include <string.h>

bool api_calls_is_string(const struct api_string_params *s, struct api_slice function,
                         struct api_slice param) {
    if (s == NULL)
        return false;
    for (size_t i = 0; i < s->names.n;) {
        const char *f = s->names.p + i, *p = f + strlen(f) + 1;
        if (api_slice_is(function, f) && api_slice_is(param, p))
            return true;
        i += strlen(f) + strlen(p) + 2;
    }
    return false;
}

void api_calls_free(struct api_call *call) {
    api_text_free(&call->name);
    api_text_free(&call->arguments);
}

size_t api_calls_json(const char *p, size_t n, struct api_call *call) {
    const size_t blank = json_scan_blank(p, n);
    const char *object = p + blank;
    const size_t bytes = blank < n && *object == '{' ? json_scan_value(object, n - blank) : 0;
    struct api_slice name, arguments;
    if (bytes == 0 || !api_json_member(object, bytes, "name", &name) ||
        (!api_json_member(object, bytes, "arguments", &arguments) &&
         !api_json_member(object, bytes, "parameters", &arguments)))
        return 0;
    if (*arguments.p == '{')
        api_text_put(&call->arguments, arguments.p, arguments.n);
    else if (!api_json_string(arguments.p, arguments.n, &call->arguments) || call->arguments.n == 0 ||
             call->arguments.p[0] != '{' ||
             json_scan_value(call->arguments.p, call->arguments.n) != call->arguments.n)
        call->arguments.n = 0;
    if (!call->arguments.failed &&
        (call->arguments.n == 0 || !api_json_string(name.p, name.n, &call->name) || call->name.n == 0)) {
        api_calls_free(call);
        return 0;
    }
    return blank + bytes;
}

/* `<WORD=NAME>` at p: its bytes and NAME; 0: it is not there. */
static size_t opening(const char *p, size_t n, const char *word, struct api_slice *name) {
    const size_t length = strlen(word);
    if (n < length || memcmp(p, word, length) != 0)
        return 0;
    const char *end = memchr(p + length, '>', n - length);
    if (end == NULL || end == p + length || memchr(p, '\0', (size_t)(end - p)) != NULL)
        return 0;
    *name = (struct api_slice){p + length, (size_t)(end - p) - length};
    return (size_t)(end - p) + 1;
}

static void quote(struct json *j, const void *of) {
    const struct api_slice *s = of;
    json_put_string_n(j, NULL, s->p, s->n);
}

/* A value as JSON: texts in quotes, other things as they are where they are JSON. */
static void put_value(struct api_text *out, struct api_slice v, bool is_string) {
    if (v.n > 0 && v.p[0] == '\n')
        v = (struct api_slice){v.p + 1, v.n - 1};
    if (v.n > 0 && v.p[v.n - 1] == '\n')
        v.n--;
    const size_t blank = json_scan_blank(v.p, v.n);
    const size_t bytes = is_string || blank == v.n ? 0 : json_scan_value(v.p + blank, v.n - blank);
    if (bytes > 0 && v.p[blank] != '"' &&
        blank + bytes + json_scan_blank(v.p + blank + bytes, v.n - blank - bytes) == v.n)
        api_text_put(out, v.p + blank, bytes);
    else
        api_text_json(out, quote, &v);
}

bool api_calls_xml(const char *p, size_t n, const struct api_string_params *strings, struct api_call *call) {
    struct api_slice function, key;
    size_t i = json_scan_blank(p, n);
    size_t tag = opening(p + i, n - i, "<function=", &function);
    if (tag == 0)
        return false;
    i += tag;
    api_text_puts(&call->arguments, "{");
    for (;;) {
        i += json_scan_blank(p + i, n - i);
        tag = opening(p + i, n - i, "<parameter=", &key);
        const char *end = tag > 0 ? memmem(p + i + tag, n - i - tag, "</parameter>", 12) : NULL;
        if (end == NULL)
            break;
        if (call->arguments.n > 1)
            api_text_puts(&call->arguments, ", ");
        api_text_json(&call->arguments, quote, &key);
        api_text_puts(&call->arguments, ": ");
        put_value(&call->arguments, (struct api_slice){p + i + tag, (size_t)(end - p) - i - tag},
                  api_calls_is_string(strings, function, key));
        i = (size_t)(end - p) + 12;
    }
    static const char close[] = "</function>";
    const bool closed = n - i >= sizeof close - 1 && memcmp(p + i, close, sizeof close - 1) == 0;
    i += closed ? sizeof close - 1 : 0;
    if (!closed || i + json_scan_blank(p + i, n - i) != n) {
        api_calls_free(call);
        return false;
    }
    api_text_puts(&call->arguments, "}");
    api_text_put(&call->name, function.p, function.n);
    return true;
}
