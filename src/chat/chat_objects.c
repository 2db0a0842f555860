/* Calls as JSON objects, {"name": .., "arguments": {..}}, alone, several, or in a list. Borne: members in any
 * order, arguments as a text of JSON or missing, lost closing brackets and tags, tags in texts. */
#include "chat/chat_inside.h"

#include "base/arith.h"

#include <string.h>

int chat_scan_byte(struct chat_scan *scan, char c) {
    if (scan->in_string) {
        if (scan->escape)
            scan->escape = false;
        else if (c == '\\')
            scan->escape = true;
        else if (c == '"')
            scan->in_string = false;
        return !scan->in_string && scan->depth == 0;
    }
    if (scan->scalar && (c == ',' || c == '}' || c == ']' || chat_is_blank(c)))
        return 2;
    if (c == '"') {
        scan->begun = scan->in_string = true;
    } else if (c == '{' || c == '[') {
        scan->begun = true;
        scan->objects = scan->objects << 1 | (c == '{');
        scan->depth++;
    } else if ((c == '}' || c == ']') && scan->depth > 0) {
        scan->objects >>= 1;
        return --scan->depth == 0;
    } else if (scan->depth == 0 && !chat_is_blank(c)) {
        scan->begun = scan->scalar = true;
    }
    return 0;
}

void chat_scan_close(struct chat_parse *s) {
    struct chat_scan *scan = &s->scan;
    if (scan->in_string)
        return; /* cut off inside of a text: what the text was to be is not known */
    for (; scan->depth > 0 && scan->depth <= 64; scan->depth--) {
        chat_tell(s, (scan->objects & 1) != 0 ? "}" : "]", 1);
        scan->objects >>= 1;
    }
}

static bool read_hex(const char *p, size_t n, uint32_t *out) {
    *out = 0;
    for (size_t i = 0; i < 4; i++) {
        const char c = i < n ? p[i] : 'x';
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static size_t put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    to[0] = (char)((0xF00 >> n & 0xFF) | c >> (6 * (n - 1)));
    for (size_t i = 1; i < n; i++)
        to[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3F));
    return n;
}

/* What is behind a backslash at p, of n bytes; *used of them. Halves of surrogates and NUL become U+FFFD. */
static size_t put_escape(const char *p, size_t n, char *to, size_t *used) {
    static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
    uint32_t c = 0, low = 0;
    *used = 1;
    if (p[0] != 'u' || !read_hex(p + 1, n - 1, &c)) {
        const char *at = p[0] != '\0' ? strchr(from, p[0]) : NULL;
        to[0] = at != NULL ? is[at - from] : p[0];
        return 1;
    }
    *used = 5;
    if (c >= 0xD800 && c < 0xDC00 && n >= 7 && p[5] == '\\' && p[6] == 'u' && read_hex(p + 7, n - 7, &low) &&
        low >= 0xDC00 && low < 0xE000) {
        *used = 11;
        return put_utf8(to, 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00));
    }
    return put_utf8(to, c == 0 || (c >= 0xD800 && c < 0xE000) ? 0xFFFD : c);
}

size_t chat_unescape(char *p, size_t n) {
    size_t to = 0;
    for (size_t i = 0; i < n;) {
        if (p[i] != '\\' || i + 1 == n) {
            p[to++] = p[i++];
            continue;
        }
        char text[4];
        size_t used = 0;
        const size_t length = put_escape(p + i + 1, n - i - 1, text, &used);
        memcpy(p + to, text, length); /* never longer than what it stands for */
        to += length;
        i += 1 + used;
    }
    return to;
}

enum phase { START, KEY, IN_KEY, COLON, VALUE, IN_NAME, IN_ARGUMENTS, IN_TEXT, IN_OTHER, NEXT };
enum { AT_KEY, AT_ARGUMENTS, AT_ARGUMENTS_END, AT_NAME };

static bool key_is(const struct chat_parse *s, const char *name) {
    const size_t n = strlen(name);
    return s->look - s->mark[AT_KEY] == n && memcmp(chat_held(s) + s->mark[AT_KEY], name, n) == 0;
}

/* Behind a key: what its value will be. */
static enum phase phase_of_key(const struct chat_parse *s) {
    if (key_is(s, "name") || key_is(s, "tool_name"))
        return IN_NAME;
    if (key_is(s, "arguments") || key_is(s, "parameters"))
        return IN_ARGUMENTS;
    return key_is(s, "function") ? START : IN_OTHER;
}

/* The text of a string that held arguments: they are told if they are an object. */
static void tell_text(struct chat_parse *s, size_t from, size_t to) {
    char *p = s->p + s->at + from;
    const size_t n = chat_unescape(p, to - from), blank = json_scan_blank(p, n);
    if (blank < n)
        chat_tell(s, p + blank, n - blank);
}

/* The name is complete, at mark[AT_NAME] .. look. False: it is no tool's, and the tag is missing. */
static bool take_name(struct chat_parse *s) {
    char *name = s->p + s->at + s->mark[AT_NAME];
    const size_t n = chat_unescape(name, s->look - s->mark[AT_NAME]);
    if (n == 0 || (s->quote == 'b' && s->types != NULL && !chat_types_has(s->types, name, n)))
        return false;
    chat_tell_call(s, name, n);
    if (s->mark[AT_ARGUMENTS_END] > 0) {
        const size_t from = s->mark[AT_ARGUMENTS], to = s->mark[AT_ARGUMENTS_END];
        if (chat_held(s)[from] == '"')
            tell_text(s, from + 1, to - 1);
        else if (memcmp(chat_held(s) + from, "null", ARITH_MIN(to - from, 4)) != 0)
            chat_tell(s, chat_held(s) + from, to - from);
    }
    return true;
}

/* The beginning of a member's value, at `look`. The byte stays to be scanned. False: it can be none. */
static bool begin_value(struct chat_parse *s, bool told) {
    const char c = chat_held(s)[s->look];
    const int kind = (int)s->mark[AT_NAME]; /* left there by the key */
    s->scan = (struct chat_scan){0};
    if (kind == IN_NAME || (kind == START && c == '"')) {
        if (c != '"' || told)
            s->phase = IN_OTHER;
        else {
            s->phase = IN_NAME;
            s->mark[AT_NAME] = ++s->look;
        }
        return true;
    }
    if (kind == START && c == '{') {
        s->wrapped++;
        s->look++;
        s->phase = KEY;
        return true;
    }
    if (kind != IN_ARGUMENTS || s->told || s->mark[AT_ARGUMENTS_END] > 0) {
        s->phase = IN_OTHER;
        return true;
    }
    s->mark[AT_ARGUMENTS] = s->look;
    s->phase = told && c == '"' ? IN_TEXT : IN_ARGUMENTS;
    return true;
}

/* A byte of structure at `look`. False: this is no call's object. */
static bool structure(struct chat_parse *s, char c, bool told) {
    switch ((enum phase)s->phase) {
    case START:
        if (c == '[' && !s->list)
            s->list = true;
        else if (c == '{')
            s->phase = KEY;
        else
            return false;
        break;
    case KEY:
        if (c != '"')
            return c == ',';
        s->phase = IN_KEY;
        s->mark[AT_KEY] = s->look + 1;
        break;
    case COLON:
        if (c != ':')
            return false;
        s->phase = VALUE;
        break;
    case VALUE:
        return begin_value(s, told);
    case NEXT:
        if (c != ',')
            return false;
        s->phase = KEY;
        break;
    case IN_KEY:
    case IN_NAME:
    case IN_ARGUMENTS:
    case IN_TEXT:
    case IN_OTHER:
        return false;
    }
    s->look++;
    return true;
}

/* Scans the string or value that begins earlier; true: it is complete, at `look`. */
static bool scan_value(struct chat_parse *s) {
    const char *p = chat_held(s);
    for (; s->look < chat_left(s); s->look++) {
        const int end = chat_scan_byte(&s->scan, p[s->look]);
        if (end != 0) {
            s->look += end == 1;
            return true;
        }
    }
    return false;
}

/* A key or name: its closing quote is at `look`. */
static bool scan_string(struct chat_parse *s) {
    const char *p = chat_held(s);
    for (; s->look < chat_left(s); s->look++) {
        if (s->scan.escape)
            s->scan.escape = false;
        else if (p[s->look] == '\\')
            s->scan.escape = true;
        else if (p[s->look] == '"')
            return true;
    }
    return false;
}

bool chat_json_head(struct chat_parse *s, bool ended) {
    while (s->look < chat_left(s)) {
        const char c = chat_held(s)[s->look];
        switch ((enum phase)s->phase) {
        case IN_KEY:
            if (!scan_string(s))
                break;
            s->mark[AT_NAME] = (size_t)phase_of_key(s);
            s->look++;
            s->phase = COLON;
            continue;
        case IN_NAME:
            if (!scan_string(s))
                break;
            if (!take_name(s))
                return chat_no_call(s);
            chat_drop(s, s->look + 1);
            s->look = 0;
            s->phase = NEXT;
            return true;
        case IN_ARGUMENTS:
        case IN_OTHER:
            if (!scan_value(s))
                break;
            if (s->phase == IN_ARGUMENTS)
                s->mark[AT_ARGUMENTS_END] = s->look;
            s->phase = NEXT;
            continue;
        case START:
        case KEY:
        case COLON:
        case VALUE:
        case NEXT:
        case IN_TEXT:
            if (chat_is_blank(c))
                s->look++;
            else if (!structure(s, c, false))
                return chat_no_call(s);
            continue;
        }
        break;
    }
    return ended && chat_no_call(s);
}

/* The closing tag of the section at `look`, where only structure can stand. */
static enum chat_is closing_here(const struct chat_parse *s, bool ended) {
    return chat_tag_at(chat_held(s) + s->look, chat_left(s) - s->look, s->form->tags.section_close, ended);
}

static bool end_call(struct chat_parse *s) {
    chat_drop(s, s->look);
    chat_tell_end(s, CHAT_BETWEEN);
    return true;
}

/* Arguments are told as they come. True: they are complete. */
static bool pass_arguments(struct chat_parse *s, bool ended, bool *waits) {
    const char *p = chat_held(s);
    const char close = s->form->tags.section_close[0];
    size_t i = s->look;
    bool done = false;
    for (; i < chat_left(s) && !done; i++) {
        if (!s->scan.in_string && close == '<' && p[i] == close) {
            s->look = i;
            const enum chat_is is = closing_here(s, ended);
            *waits = is == CHAT_MAYBE;
            done = is == CHAT_YES;
            if (is != CHAT_NO)
                break;
        }
        const int end = chat_scan_byte(&s->scan, p[i]);
        done = end != 0;
        i -= end == 2;
    }
    const size_t blank = s->any ? 0 : json_scan_blank(p, i);
    if (i > blank && !(s->scan.scalar && !done)) {
        if (!s->scan.scalar || memcmp(p + blank, "null", ARITH_MIN(i - blank, 4)) != 0)
            chat_tell(s, p + blank, i - blank);
        s->any = true;
        chat_drop(s, i);
        i = 0;
    }
    s->look = s->scan.scalar && !done ? i : 0;
    return done;
}

bool chat_json_call(struct chat_parse *s, bool ended) {
    while (s->look < chat_left(s)) {
        const char c = chat_held(s)[s->look];
        bool waits = false;
        switch ((enum phase)s->phase) {
        case IN_KEY:
            if (!scan_string(s))
                break;
            s->mark[AT_NAME] = (size_t)phase_of_key(s);
            chat_drop(s, s->look + 1);
            s->look = 0;
            s->phase = COLON;
            continue;
        case IN_ARGUMENTS:
            if (pass_arguments(s, ended, &waits)) {
                chat_scan_close(s);
                s->phase = NEXT;
            } else if (waits) {
                return false;
            }
            continue;
        case IN_TEXT:
        case IN_OTHER:
        case IN_NAME:
            if (!scan_value(s))
                break;
            if (s->phase == IN_TEXT)
                tell_text(s, 1, s->look - 1);
            chat_drop(s, s->look);
            s->look = 0;
            s->phase = NEXT;
            continue;
        case START:
        case KEY:
        case COLON:
        case VALUE:
        case NEXT:
            chat_drop(s, s->look);
            s->look = 0;
            if (chat_is_blank(c)) {
                chat_drop(s, s->look + 1);
                s->look = 0;
            } else if (c == '}' && (s->phase == NEXT || s->phase == KEY)) {
                s->look++;
                if (s->wrapped-- == 0)
                    return end_call(s);
                s->phase = NEXT;
            } else if (!structure(s, c, true)) {
                return end_call(s); /* broken: what follows is looked at as text behind the call */
            } else if (s->phase == IN_ARGUMENTS || s->phase == IN_TEXT || s->phase == IN_OTHER) {
                s->any = false;
                s->mark[AT_ARGUMENTS] = 0;
            } else if (s->phase == IN_NAME) {
                s->phase = IN_OTHER;
            }
            continue;
        }
        break;
    }
    if (!ended)
        return false;
    if (s->phase == IN_TEXT)
        tell_text(s, 1, chat_left(s));
    else if (s->phase == IN_ARGUMENTS && s->scan.scalar)
        chat_tell(s, chat_held(s), chat_left(s));
    else if (s->phase == IN_ARGUMENTS)
        chat_scan_close(s);
    s->look = chat_left(s);
    return end_call(s);
}

bool chat_json_between(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    const bool tagged = t->section_close[0] != '\0';
    chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    if (n == 0)
        return false;
    const enum chat_is close = chat_tag_at(p, n, t->section_close, ended),
                       open = chat_tag_at(p, n, t->section_open, ended);
    if (close == CHAT_YES) {
        chat_drop(s, strlen(t->section_close));
        s->state = CHAT_IN_CONTENT;
        return true;
    }
    if (open == CHAT_MAYBE || close == CHAT_MAYBE)
        return false;
    if (*p == ',' || *p == ';' || (*p == ']' && s->list) || (*p == '}' && tagged)) {
        s->list = s->list && *p != ']';
        chat_drop(s, 1);
        return true;
    }
    if (*p != '{') { /* an opening tag is found in the content */
        s->state = CHAT_IN_CONTENT;
        return true;
    }
    const bool list = s->list;
    s->look = 0;
    s->phase = START;
    s->mark[AT_ARGUMENTS_END] = 0;
    s->wrapped = 0;
    s->scan = (struct chat_scan){0};
    s->state = CHAT_IN_HEAD;
    s->list = list;
    return true;
}
