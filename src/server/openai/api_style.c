#include "server/openai/api_style.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *find(const char *p, size_t n, const char *text) {
    return memmem(p, n, text, strlen(text));
}

static bool has(const char *p, size_t n, const char *text) {
    return find(p, n, text) != NULL;
}

/* As a whole word: `tools`, not `builtin_tools`. */
static bool has_word(const char *p, size_t n, const char *word) {
    const size_t length = strlen(word);
    const char *end = p + n;
    for (const char *at = p; (at = find(at, (size_t)(end - at), word)) != NULL; at++) {
        const bool before = at > p && (isalnum((unsigned char)at[-1]) || at[-1] == '_');
        const char *next = at + length;
        const bool after = next < end && (isalnum((unsigned char)*next) || *next == '_');
        if (!before && !after)
            return true;
    }
    return false;
}

/* "</think>" at p, of at most n bytes: a closing tag whose name speaks of thinking. */
static bool is_closing(const char *p, size_t n, char close, char *name) {
    size_t length = 0;
    while (length < n && length < 40 && (isalnum((unsigned char)p[length]) || strchr("_:-", p[length])) &&
           p[length] != '\0')
        length++;
    if (length == 0 || length == n || p[length] != close)
        return false;
    snprintf(name, API_TAG, "%.*s", (int)length, p);
    char lower[API_TAG];
    for (size_t i = 0; i <= length; i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    return strstr(lower, "think") != NULL || strstr(lower, "thought") != NULL ||
           strstr(lower, "reason") != NULL;
}

static void find_thinking(const char *p, size_t n, struct api_style *out) {
    char name[API_TAG];
    for (size_t i = 0; i + 2 < n; i++) {
        const bool angle = p[i] == '<';
        if ((angle || p[i] == '[') && p[i + 1] == '/' &&
            is_closing(p + i + 2, n - i - 2, angle ? '>' : ']', name)) {
            snprintf(out->think_open, API_TAG, angle ? "<%.40s>" : "[%.40s]", name);
            snprintf(out->think_close, API_TAG, angle ? "</%.40s>" : "[/%.40s]", name);
            return;
        }
    }
}

static void set_calls(struct api_style *out, enum api_calls_kind kind, const char *open, const char *close) {
    out->calls = kind;
    snprintf(out->calls_open, API_TAG, "%s", open);
    snprintf(out->calls_close, API_TAG, "%s", close);
}

void api_style_find(const char *source, size_t n, struct api_style *out) {
    *out = (struct api_style){0};
    find_thinking(source, n, out);
    out->uses_tools = has_word(source, n, "tools");
    out->uses_effort = has_word(source, n, "reasoning_effort");
    if (!out->uses_tools)
        return;
    if (has(source, n, "<tool_call>") && has(source, n, "</tool_call>"))
        set_calls(out, API_CALLS_TAGGED, "<tool_call>", "</tool_call>");
    else if (has(source, n, "<|tool_call|>"))
        set_calls(out, API_CALLS_LISTED, "<|tool_call|>", "");
    else if (has(source, n, "[TOOL_CALLS]") && !has(source, n, "[ARGS]"))
        set_calls(out, API_CALLS_LISTED, "[TOOL_CALLS]", "");
    else if (has(source, n, "\"parameters\"") && has(source, n, "{\"name\""))
        set_calls(out, API_CALLS_JSON, "<|python_tag|>", "");
}

bool api_style_thinks(const struct api_style *style, const char *prompt, size_t n) {
    const size_t tag = strlen(style->think_open);
    while (n > 0 && strchr(" \t\r\n", prompt[n - 1]) != NULL && prompt[n - 1] != '\0')
        n--;
    return tag > 0 && n >= tag && memcmp(prompt + n - tag, style->think_open, tag) == 0;
}
