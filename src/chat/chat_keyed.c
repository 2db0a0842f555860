/* Calls in tags, a pair of them for each argument: <function=F> <parameter=K> V </parameter> .. </function>,
 * <invoke name="F"> <parameter name="K">V</parameter> .. </invoke>, F <arg_key>K</arg_key> <arg_value>V
 * </arg_value> ...
 *
 * A value ends at its closing tag if what follows can follow a value: another argument, the end of the call,
 * the end of the text. Otherwise the tag belongs to the value. It also ends where another argument begins
 * that the tool declares, and at the end of the call if that is followed by the end of the section. */
#include "chat/chat_inside.h"

#include "base/arith.h"

#include <string.h>

enum phase { KEY, BEFORE_VALUE, VALUE };

/* A name in a tag, of n bytes: <invoke name="N" x="y"> has it in quotes. */
static void unquote(const char **p, size_t *n) {
    while (*n > 0 && chat_is_blank(**p)) {
        ++*p;
        --*n;
    }
    while (*n > 0 && chat_is_blank((*p)[*n - 1]))
        --*n;
    if (*n < 2 || (**p != '"' && **p != '\''))
        return;
    const char *end = memchr(*p + 1, **p, *n - 1);
    if (end == NULL)
        return;
    *n = (size_t)(end - *p) - 1;
    ++*p;
}

/* Where the name that begins at `from` ends; n: not yet. It ends at the tag, or, without one, at a line's end
 * or at another tag. */
static size_t name_end(const char *p, size_t n, size_t from, const char *end) {
    for (size_t i = from; i < n; i++)
        if (end[0] != '\0' ? chat_tag_at(p + i, n - i, end, true) == CHAT_YES : p[i] == '\n' || p[i] == '<')
            return i;
    return n;
}

bool chat_keyed_head(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    const char *p = chat_held(s);
    const size_t n = chat_left(s), at = s->look + json_scan_blank(p + s->look, n - s->look);
    const bool bare = s->quote == 'b';
    const enum chat_is is = bare ? CHAT_YES : chat_tag_at(p + at, n - at, t->call_open, ended);
    if (at == n || is == CHAT_MAYBE)
        return ended && chat_no_call(s);
    if (is == CHAT_NO)
        return chat_no_call(s);
    const size_t from = at + (bare ? 0 : strlen(t->call_open));
    size_t end = name_end(p, n, from, t->name_end);
    if (t->name_end[0] == '\0' && end < n && p[end] == '\n' && end == from) /* a line of its own */
        end = name_end(p, n, from + 1, t->name_end);
    if (end == n && !ended && n - from < CHAT_NAME_MOST)
        return false;
    const char *name = p + from;
    size_t length = end - from;
    unquote(&name, &length);
    if (end == n || length == 0 || length > CHAT_NAME_MOST || memchr(name, '<', length) != NULL) {
        s->look = from;
        return chat_no_call(s);
    }
    chat_tell_call(s, name, length);
    chat_drop(s, end + strlen(t->name_end));
    s->look = 0;
    s->phase = KEY;
    chat_tell(s, "{", 1);
    return true;
}

static bool end_call(struct chat_parse *s, size_t drop) {
    chat_drop(s, drop);
    chat_tell(s, "}", 1);
    chat_tell_end(s, CHAT_BETWEEN);
    return true;
}

/* A key, and the beginning of its value. */
static bool take_key(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    const char *p = chat_held(s);
    const size_t n = chat_left(s), from = strlen(t->key_open), end = name_end(p, n, from, t->key_close);
    if (end == n)
        return ended || n - from > CHAT_NAME_MOST ? end_call(s, 0) : false;
    const char *key = p + from;
    size_t length = end - from;
    unquote(&key, &length);
    const unsigned types = chat_types_find(s->types, s->function, key, length);
    /* DeepSeek says beside the key whether the value is a text. */
    const char *told = memmem(p + from, end - from, "string=\"", 8);
    const bool says_text = told != NULL && told[8] == 't', says_json = told != NULL && told[8] == 'f';
    chat_tell(s, s->any ? ", \"" : "\"", s->any ? 3 : 1);
    chat_tell_text(s, key, length);
    chat_tell(s, "\": ", 3);
    s->any = true;
    s->is_string = says_text || types == CHAT_TYPE_STRING;
    s->mark[0] = says_json ? CHAT_TYPE_ANY & ~(size_t)CHAT_TYPE_STRING : types != 0 ? types : CHAT_TYPE_ANY;
    chat_drop(s, end + strlen(t->key_close));
    s->phase = BEFORE_VALUE;
    return true;
}

static bool in_keys(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    if (n == 0)
        return ended && end_call(s, 0);
    const char *const tags[] = {t->key_open, t->call_close, t->value_close};
    bool waits = false;
    for (size_t i = 0; i < 3; i++) {
        const enum chat_is is = chat_tag_at(p, n, tags[i], ended);
        waits = waits || is == CHAT_MAYBE;
        if (is == CHAT_YES && i == 0)
            return take_key(s, ended);
        if (is == CHAT_YES && i == 1)
            return end_call(s, strlen(tags[i]));
        if (is == CHAT_YES) {
            chat_drop(s, strlen(tags[i]));
            return true;
        }
    }
    /* The end of the section, another call, or text: the closing tag is lost. */
    return waits ? false : end_call(s, 0);
}

/* Whether one of the tags, or the end, follows behind blanks. */
static enum chat_is followed(const char *p, size_t n, const char *const *tags, size_t n_tags, bool ended) {
    const size_t blank = json_scan_blank(p, ARITH_MIN(n, CHAT_BLANK_MOST));
    if (blank == CHAT_BLANK_MOST)
        return CHAT_NO;
    if (blank == n)
        return ended ? CHAT_YES : CHAT_MAYBE;
    enum chat_is is = CHAT_NO;
    for (size_t i = 0; i < n_tags; i++) {
        const enum chat_is one = chat_tag_at(p + blank, n - blank, tags[i], ended);
        if (one == CHAT_YES)
            return one;
        is = one == CHAT_MAYBE ? one : is;
    }
    return is;
}

/* Another argument begins at p: a key that the tool declares. */
static enum chat_is key_here(const struct chat_parse *s, const char *p, size_t n, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    const enum chat_is is = chat_tag_at(p, n, t->key_open, ended);
    if (is != CHAT_YES)
        return is;
    const size_t from = strlen(t->key_open), end = name_end(p, n, from, t->key_close);
    if (end == n)
        return ended || n - from > CHAT_NAME_MOST ? CHAT_NO : CHAT_MAYBE;
    const char *key = p + from;
    size_t length = end - from;
    unquote(&key, &length);
    return chat_types_find(s->types, s->function, key, length) != 0 ? CHAT_YES : CHAT_NO;
}

/* A value ends at p[i]; *drop: bytes of its closing tag. */
static enum chat_is ends_here(const struct chat_parse *s, const char *p, size_t i, size_t n, bool ended,
                              size_t *drop) {
    const struct chat_tags *t = &s->form->tags;
    const char *const behind[] = {t->key_open, t->call_close, t->section_close, t->call_open,
                                  t->section_open};
    const enum chat_is close = chat_tag_at(p + i, n - i, t->value_close, ended),
                       call = chat_tag_at(p + i, n - i, t->call_close, ended),
                       section = chat_tag_at(p + i, n - i, t->section_close, ended),
                       key = key_here(s, p + i, n - i, ended);
    enum chat_is is = CHAT_NO;
    *drop = 0;
    if (close == CHAT_YES) {
        *drop = strlen(t->value_close);
        is = followed(p + i + *drop, n - i - *drop, behind, 5, ended);
    } else if (call == CHAT_YES) {
        const size_t length = strlen(t->call_close);
        is = followed(p + i + length, n - i - length, behind + 2, 3, ended);
    } else if (section == CHAT_YES) {
        const size_t length = strlen(t->section_close);
        is = followed(p + i + length, n - i - length, behind + 3, 2, ended);
    } else if (key == CHAT_YES) {
        is = CHAT_YES;
    }
    if (is == CHAT_NO &&
        (close == CHAT_MAYBE || call == CHAT_MAYBE || section == CHAT_MAYBE || key == CHAT_MAYBE))
        is = CHAT_MAYBE;
    return is;
}

/* JSON that models write as Python does. */
static const char *python_word(const char *p, size_t n, size_t types) {
    if (n == 4 && memcmp(p, "True", 4) == 0 && (types & CHAT_TYPE_BOOLEAN))
        return "true";
    if (n == 5 && memcmp(p, "False", 5) == 0 && (types & CHAT_TYPE_BOOLEAN))
        return "false";
    return n == 4 && memcmp(p, "None", 4) == 0 && (types & CHAT_TYPE_NULL) ? "null" : NULL;
}

static unsigned type_of_text(char c) {
    switch (c) {
    case '{':
        return CHAT_TYPE_OBJECT;
    case '[':
        return CHAT_TYPE_ARRAY;
    case 't':
    case 'f':
        return CHAT_TYPE_BOOLEAN;
    case 'n':
        return CHAT_TYPE_NULL;
    case '"':
        return CHAT_TYPE_STRING;
    default:
        return CHAT_TYPE_NUMBER;
    }
}

/* A whole value that is not known to be a text. */
static void tell_value(struct chat_parse *s, const char *p, size_t n) {
    const size_t types = s->mark[0], blank = json_scan_blank(p, n);
    const char *v = p + blank;
    size_t length = n - blank;
    while (length > 0 && chat_is_blank(v[length - 1]))
        length--;
    const bool text = (types & CHAT_TYPE_STRING) != 0;
    const char *word = types != CHAT_TYPE_ANY ? python_word(v, length, types) : NULL;
    if (word != NULL) {
        chat_tell(s, word, strlen(word));
        return;
    }
    const bool json = length > 0 && chat_is_json(v, length);
    const unsigned type = json ? type_of_text(*v) : 0;
    if (json && (text ? type != CHAT_TYPE_STRING && (type & types) != 0 : true)) {
        chat_tell(s, v, length);
        return;
    }
    chat_tell(s, "\"", 1);
    chat_tell_text(s, p, n);
    chat_tell(s, "\"", 1);
}

/* The value is p[0 .. n) of what is held; `drop` more bytes are its closing tag. */
static bool end_value(struct chat_parse *s, size_t n, size_t drop) {
    const size_t all = n + drop;
    if (s->form->tags.value_lines && n > 0 && chat_held(s)[n - 1] == '\n')
        n--;
    if (s->is_string) {
        chat_tell_text(s, chat_held(s), n);
        chat_tell(s, "\"", 1);
    } else {
        tell_value(s, chat_held(s), n);
    }
    chat_drop(s, all);
    s->look = s->dubious = 0;
    s->phase = KEY;
    return true;
}

static bool before_value(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    if (t->value_open[0] != '\0') {
        const size_t blank = json_scan_blank(p, n);
        const enum chat_is is = chat_tag_at(p + blank, n - blank, t->value_open, ended);
        if (is == CHAT_MAYBE || (blank == n && !ended))
            return false;
        chat_drop(s, is == CHAT_YES ? blank + strlen(t->value_open) : blank);
    } else if (t->value_lines) {
        if (n == 0 && !ended)
            return false;
        chat_drop(s, n > 0 && *p == '\n');
    }
    if (s->is_string)
        chat_tell(s, "\"", 1);
    s->phase = VALUE;
    s->look = s->dubious = 0;
    return true;
}

static bool in_value(struct chat_parse *s, bool ended) {
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    size_t i = s->look, drop = 0;
    bool waits = false;
    for (; i < n && !waits; i++) {
        if (p[i] != '<')
            continue;
        const enum chat_is is = ends_here(s, p, i, n, ended, &drop);
        if (is == CHAT_YES)
            return end_value(s, i, drop);
        if (is == CHAT_NO && drop > 0 && s->dubious == 0)
            s->dubious = i + 1;
        waits = is == CHAT_MAYBE;
        i -= waits;
    }
    s->look = i;
    if (ended)
        return s->dubious > 0 ? end_value(s, s->dubious - 1, strlen(s->form->tags.value_close))
                              : end_value(s, n, 0);
    /* A line's end may be the one in front of the closing tag. */
    const size_t sure = i - (i > 0 && p[i - 1] == '\n');
    if (s->is_string && s->dubious == 0 && sure > 0) {
        chat_tell_text(s, p, sure);
        chat_drop(s, sure);
        s->look = i - sure;
    }
    return false;
}

bool chat_keyed_call(struct chat_parse *s, bool ended) {
    switch ((enum phase)s->phase) {
    case KEY:
        return in_keys(s, ended);
    case BEFORE_VALUE:
        return before_value(s, ended);
    case VALUE:
        return in_value(s, ended);
    }
    return false;
}
