/* Calls in notations that are no JSON, told as JSON while they come: gemma's call:f{k:<|"|>v<|"|>,n:1} and
 * Python's [f(k="v", n=1)]. */
#include "chat/chat_inside.h"

#include "base/arith.h"

#include <string.h>

#define GEMMA_QUOTE "<|\"|>"

enum phase { KEY, VALUE, NEXT, IN_TEXT };

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '+' || (unsigned char)c >= 0x80;
}

static size_t word_length(const char *p, size_t n) {
    size_t i = 0;
    while (i < n && is_word(p[i]))
        i++;
    return i;
}

/* NAME and the bracket behind it, with `prefix` in front. */
static bool head(struct chat_parse *s, bool ended, const char *prefix, char bracket) {
    const struct chat_tags *t = &s->form->tags;
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    size_t at = s->look + json_scan_blank(p + s->look, n - s->look);
    const enum chat_is open = chat_tag_at(p + at, n - at, t->call_open, ended);
    if (open == CHAT_YES)
        at += strlen(t->call_open);
    at += json_scan_blank(p + at, n - at);
    if (bracket == '(' && at < n && p[at] == '[')
        at += 1 + json_scan_blank(p + at + 1, n - at - 1);
    const enum chat_is is = prefix[0] == '\0' ? CHAT_YES : chat_tag_at(p + at, n - at, prefix, ended);
    if (at == n || open == CHAT_MAYBE || is == CHAT_MAYBE)
        return ended && chat_no_call(s);
    const size_t from = at + (is == CHAT_YES ? strlen(prefix) : 0), length = word_length(p + from, n - from);
    if (from + length == n && !ended && length < CHAT_NAME_MOST)
        return false;
    if (is == CHAT_NO || length == 0 || from + length == n || p[from + length] != bracket) {
        s->look = at;
        return chat_no_call(s);
    }
    chat_tell_call(s, p + from, length);
    chat_drop(s, from + length + 1);
    s->look = 0;
    s->scan = (struct chat_scan){.depth = 1, .objects = 1};
    s->phase = KEY;
    s->any = false;
    chat_tell(s, "{", 1);
    return true;
}

static bool end_call(struct chat_parse *s) {
    if (s->phase == IN_TEXT)
        chat_tell(s, "\"", 1);
    chat_scan_close(s);
    chat_tell_end(s, CHAT_BETWEEN);
    return true;
}

static void push(struct chat_parse *s, bool object) {
    chat_tell(s, object ? "{" : "[", 1);
    s->scan.objects = s->scan.objects << 1 | object;
    s->scan.depth++;
    s->phase = object ? KEY : VALUE;
}

/* False: the outermost bracket was closed. */
static bool pop(struct chat_parse *s) {
    chat_tell(s, (s->scan.objects & 1) != 0 ? "}" : "]", 1);
    s->scan.objects >>= 1;
    s->phase = NEXT;
    return --s->scan.depth > 0;
}

static bool closes(char c) {
    return c == '}' || c == ']' || c == ')';
}

/* A comma; true: it was taken. */
static bool separator(struct chat_parse *s) {
    const bool object = (s->scan.objects & 1) != 0;
    chat_tell(s, ", ", 2);
    s->phase = object ? KEY : VALUE;
    chat_drop(s, 1);
    return true;
}

/* A number or word of n bytes. Words that JSON does not know are texts. */
static void tell_word(struct chat_parse *s, const char *p, size_t n) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (int i = 0; i < 3; i++)
        if (n == strlen(words[i][0]) && memcmp(p, words[i][0], n) == 0) {
            chat_tell(s, words[i][1], strlen(words[i][1]));
            return;
        }
    const bool json = chat_is_json(p, n);
    if (!json)
        chat_tell(s, "\"", 1);
    (json ? chat_tell : chat_tell_text)(s, p, n);
    if (!json)
        chat_tell(s, "\"", 1);
}

/* The next piece of structure; `assign` stands between key and value. *waits: more text is needed. */
static bool structure(struct chat_parse *s, bool ended, char assign, bool *waits) {
    chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    *waits = n == 0;
    if (n == 0)
        return false;
    if (closes(*p)) {
        chat_drop(s, 1);
        if (!pop(s))
            return end_call(s);
        return true;
    }
    if (s->phase == NEXT)
        return *p == ',' ? separator(s) : end_call(s);
    if (s->phase == VALUE && (*p == '{' || *p == '[' || *p == '(')) {
        const bool object = *p == '{';
        chat_drop(s, 1);
        push(s, object);
        return true;
    }
    const size_t length = word_length(p, n);
    const bool is_key = s->phase == KEY;
    if (length == n && !ended && n < 65536) {
        *waits = true;
        return false;
    }
    if (length == 0)
        return end_call(s);
    if (!is_key) {
        tell_word(s, p, length);
        chat_drop(s, length);
        s->phase = NEXT;
        return true;
    }
    const size_t blank = json_scan_blank(p + length, n - length);
    const char is = length + blank < n ? p[length + blank] : '\0';
    if (is == '\0' && !ended) {
        *waits = true;
        return false;
    }
    if (is != assign && is != ':' && is != '=')
        return end_call(s);
    chat_tell(s, "\"", 1);
    chat_tell_text(s, p, length);
    chat_tell(s, "\": ", 3);
    chat_drop(s, length + blank + 1);
    s->phase = VALUE;
    return true;
}

/* Behind a text that was a key: its colon. */
static bool behind_text(struct chat_parse *s) {
    chat_tell(s, "\"", 1);
    if (s->list) { /* it was a key */
        chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
        if (chat_left(s) > 0 && (*chat_held(s) == ':' || *chat_held(s) == '='))
            chat_drop(s, 1);
        chat_tell(s, ": ", 2);
    }
    s->phase = s->list ? VALUE : NEXT;
    s->list = false;
    return true;
}

static void begin_text(struct chat_parse *s, size_t quotes) {
    s->list = s->phase == KEY;
    chat_tell(s, "\"", 1);
    chat_drop(s, quotes);
    s->phase = IN_TEXT;
}

bool chat_gemma_head(struct chat_parse *s, bool ended) {
    return head(s, ended, "call:", '{');
}

bool chat_gemma_call(struct chat_parse *s, bool ended) {
    static const char *const tags[] = {GEMMA_QUOTE};
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    size_t which = 0;
    bool waits = false;
    if (s->phase == IN_TEXT) {
        const size_t at = chat_find(p, n, 0, tags, 1, &which);
        /* A key's colon is needed to go on: it is waited for with the quote. */
        if (at < n && s->list && at + strlen(tags[0]) == n && !ended)
            return false;
        const size_t take = at < n ? at : n - (ended ? 0 : chat_tail(p, n, tags, 1));
        chat_tell_text(s, p, take);
        chat_drop(s, at < n ? at + strlen(tags[0]) : take);
        return at < n ? behind_text(s) : ended && end_call(s);
    }
    const size_t blank = json_scan_blank(p, n);
    const enum chat_is text = chat_tag_at(p + blank, n - blank, GEMMA_QUOTE, ended);
    if (text == CHAT_MAYBE && blank < n)
        return false;
    if (text == CHAT_YES && s->phase != NEXT) {
        begin_text(s, blank + strlen(GEMMA_QUOTE));
        return true;
    }
    return structure(s, ended, ':', &waits) || (waits && ended && end_call(s));
}

bool chat_python_head(struct chat_parse *s, bool ended) {
    return head(s, ended, "", '(');
}

/* The escape at p; its bytes, or 0: more text is needed. */
static size_t python_escape(struct chat_parse *s, const char *p, size_t n, bool ended) {
    static const char from[] = "nrtabfv0", to[] = "\n\r\t\a\b\f\v";
    const size_t want = n < 2 ? 2 : p[1] == 'x' ? 4 : p[1] == 'u' ? 6 : 2;
    if (n < want && !ended)
        return 0;
    if (n < want) {
        chat_tell_text(s, p, n);
        return n;
    }
    char json[12] = "\\u00";
    if (want > 2) {
        memcpy(json + 6 - (want - 2), p + 2, want - 2);
        const size_t length = chat_unescape(json, 6);
        chat_tell_text(s, json, length);
        return want;
    }
    const char *at = p[1] != '\0' && p[1] != '0' ? strchr(from, p[1]) : NULL;
    if (p[1] != '\n')
        chat_tell_text(s, at != NULL ? to + (at - from) : p + 1, 1);
    return want;
}

static bool python_text(struct chat_parse *s, bool ended) {
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    size_t i = 0, plain = 0;
    for (; i < n; i++) {
        if (p[i] != s->quote && p[i] != '\\')
            continue;
        if (p[i] == s->quote && s->list && i + 1 == n && !ended)
            break; /* a key's colon is waited for with the quote */
        chat_tell_text(s, p + plain, i - plain);
        if (p[i] == s->quote) {
            chat_drop(s, i + 1);
            return behind_text(s);
        }
        const size_t escape = python_escape(s, p + i, n - i, ended);
        plain = i;
        if (escape == 0)
            break;
        i += escape - 1;
        plain = i + 1;
    }
    if (i > plain)
        chat_tell_text(s, p + plain, i - plain);
    chat_drop(s, i);
    return ended && end_call(s);
}

bool chat_python_call(struct chat_parse *s, bool ended) {
    bool waits = false;
    if (s->phase == IN_TEXT)
        return python_text(s, ended);
    const char *p = chat_held(s);
    const size_t n = chat_left(s), blank = json_scan_blank(p, n);
    if (blank < n && (p[blank] == '"' || p[blank] == '\'') && s->phase != NEXT) {
        s->quote = p[blank];
        begin_text(s, blank + 1);
        return true;
    }
    return structure(s, ended, '=', &waits) || (waits && ended && end_call(s));
}
