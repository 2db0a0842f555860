/* What stands behind a dot or in square brackets: attributes, items, and methods of strings, dicts and lists.
 */
#include "chat/jinja/jinja_parse.h"

#include "base/check.h"

#include <ctype.h>
#include <string.h>

static const char *const string_methods[] = {
    "strip",      "lstrip",       "rstrip",       "split",   "rsplit",  "upper",   "lower",   "title",
    "capitalize", "startswith",   "endswith",     "replace", "join",    "find",    "count",   "isdigit",
    "splitlines", "removeprefix", "removesuffix", "isspace", "isalpha", "isupper", "islower", "format",
    NULL};
static const char *const dict_methods[] = {"get", "items", "keys", "values", "copy", NULL};
static const char *const list_methods[] = {"index", "count", "copy", NULL};
/* They would change what others see. */
static const char *const changing[] = {"append", "extend", "insert",  "pop",        "remove",  "clear",
                                       "sort",   "update", "reverse", "setdefault", "popitem", NULL};

static bool listed(const char *const *names, struct jinja_string name) {
    for (; *names != NULL; names++)
        if (jinja_is(name, *names))
            return true;
    return false;
}

bool jinja_has_method(const struct jinja_value *self, struct jinja_string name) {
    if (self->kind == JINJA_LIST &&
        (self->list->view != JINJA_NO_VIEW || (self->list->tuple && jinja_is(name, "copy"))))
        return false;
    return listed(self->kind == JINJA_STRING ? string_methods
                  : self->kind == JINJA_DICT ? dict_methods
                                             : list_methods,
                  name) &&
           (self->kind == JINJA_STRING || self->kind == JINJA_DICT || self->kind == JINJA_LIST);
}

static struct jinja_value method_of(struct jinja *j, const struct jinja_value *v, struct jinja_string name) {
    struct jinja_bound *b = jinja_take(j, 1, sizeof *b);
    b->object.kind = JINJA_OF_BOUND;
    b->self = *v;
    return (struct jinja_value){.kind = JINJA_METHOD, .bound = b, .s = name};
}

static struct jinja_value loop_attribute(struct jinja *j, const struct jinja_value *v,
                                         struct jinja_string name) {
    const struct jinja_list *items = v->loop->items;
    const size_t i = v->loop->i;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"index", (int64_t)i + 1},
        {"index0", (int64_t)i},
        {"length", (int64_t)items->n},
        {"revindex", (int64_t)(items->n - i)},
        {"revindex0", (int64_t)(items->n - i - 1)},
        {"depth", (int64_t)v->loop->depth + 1},
        {"depth0", v->loop->depth},
    };
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        if (jinja_is(name, numbers[k].name))
            return jinja_int(numbers[k].value);
    if (jinja_is(name, "first"))
        return jinja_bool(i == 0);
    if (jinja_is(name, "last"))
        return jinja_bool(i + 1 == items->n);
    if (jinja_is(name, "previtem") && i > 0)
        return items->items[i - 1];
    if (jinja_is(name, "nextitem") && i + 1 < items->n)
        return items->items[i + 1];
    return jinja_is(name, "cycle") ? method_of(j, v, name) : jinja_undefined(name);
}

struct jinja_value jinja_attribute(struct jinja *j, const struct jinja_value *v, struct jinja_string name) {
    if (v->kind == JINJA_LOOP)
        return loop_attribute(j, v, name);
    if (v->kind == JINJA_LIST && v->list->group && (jinja_is(name, "grouper") || jinja_is(name, "list")))
        return v->list->items[jinja_is(name, "list")];
    if (jinja_has_method(v, name))
        return method_of(j, v, name);
    if (((jinja_is_view(v, JINJA_NO_VIEW) && !v->list->tuple) || v->kind == JINJA_DICT) &&
        listed(changing, name) &&
        (v->kind == JINJA_LIST || jinja_dict_find(j, v->dict, jinja_of_string(name.p, name.n)) == NULL))
        jinja_fail(j, "'%.*s' would change a %s, which templates may not", (int)name.n, name.p,
                   jinja_kind_name(v));
    if (v->kind == JINJA_DICT || v->kind == JINJA_NAMESPACE) {
        const struct jinja_value *found = jinja_dict_find(j, v->dict, jinja_of_string(name.p, name.n));
        if (found != NULL)
            return *found;
    }
    return jinja_undefined(name);
}

struct jinja_value jinja_item(struct jinja *j, const struct jinja_value *v, const struct jinja_value *key) {
    if (v->kind == JINJA_DICT || v->kind == JINJA_NAMESPACE) {
        const struct jinja_value *found = jinja_dict_find(j, v->dict, *key);
        if (found != NULL)
            return *found;
    } else if ((jinja_is_view(v, JINJA_NO_VIEW) || jinja_is_view(v, JINJA_RANGE)) &&
               (key->kind == JINJA_INT || key->kind == JINJA_BOOL)) {
        const struct jinja_list *items = v->list;
        const int64_t k = key->kind == JINJA_INT ? key->i : (int64_t)key->b;
        int64_t at = k < 0 ? k + (int64_t)items->n : k;
        if (at >= 0 && at < (int64_t)items->n)
            return items->items[at];
        return jinja_undefined((struct jinja_string){"an item beyond the last", 23});
    } else if (v->kind == JINJA_STRING && (key->kind == JINJA_INT || key->kind == JINJA_BOOL)) {
        const int64_t k = key->kind == JINJA_INT ? key->i : (int64_t)key->b;
        jinja_step(j, 1 + v->s.n / 8);
        int64_t at = k < 0 ? k + (int64_t)jinja_length_of(v->s) : k;
        size_t from = 0;
        for (; at > 0 && from < v->s.n; at--)
            from += jinja_char(v->s.p + from, v->s.n - from);
        if (at == 0 && from < v->s.n)
            return jinja_of_string(v->s.p + from, jinja_char(v->s.p + from, v->s.n - from));
        return jinja_undefined((struct jinja_string){"an item beyond the last", 23});
    }
    if (key->kind == JINJA_STRING)
        return jinja_attribute(j, v, key->s);
    return jinja_undefined((struct jinja_string){"an item", 7});
}

static const char *search(struct jinja *j, struct jinja_string in, size_t from, struct jinja_string what) {
    jinja_step(j, 1 + (in.n - from) / 16);
    if (what.n == 0)
        return in.p + from;
    return in.n - from < what.n ? NULL : memmem(in.p + from, in.n - from, what.p, what.n);
}

bool jinja_in(struct jinja *j, const struct jinja_value *item, const struct jinja_value *in) {
    if (in->kind == JINJA_STRING) {
        if (item->kind != JINJA_STRING)
            jinja_fail(j, "'in' a string: a string is expected before it, found a %s", jinja_kind_name(item));
        return search(j, in->s, 0, item->s) != NULL;
    }
    if (in->kind == JINJA_DICT) {
        jinja_need_key(j, item);
        return jinja_dict_find(j, in->dict, *item) != NULL;
    }
    if (jinja_is_view(in, JINJA_GENERATOR)) { /* what was looked at is gone */
        for (bool found = false; in->list->n > 0;) {
            found = jinja_equal(j, &in->list->items[0], item);
            in->list->items++;
            in->list->n--;
            in->list->capacity--;
            if (found)
                return true;
        }
        return false;
    }
    const struct jinja_list *items = jinja_items(j, in);
    for (size_t i = 0; i < items->n; i++)
        if (jinja_equal(j, &items->items[i], item))
            return true;
    return false;
}

/* --- strings */

static struct jinja_string need_string(struct jinja *j, const struct jinja_value *v,
                                       struct jinja_string who) {
    if (v == NULL || v->kind != JINJA_STRING)
        jinja_fail(j, "%.*s: a string is expected, found %s%s", (int)who.n, who.p,
                   v == NULL ? "nothing" : "a ", v == NULL ? "" : jinja_kind_name(v));
    return v->s;
}

/* Bytes of the character at p if it is white space to Python. */
size_t jinja_space(const char *p, size_t n) {
    static const char *const wide[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\xA8",
                                       "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
    unsigned char c = (unsigned char)p[0];
    if ((c >= 9 && c <= 13) || (c >= 28 && c <= 32))
        return 1;
    if (c < 0x80 || n < 2)
        return 0;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (n >= strlen(wide[i]) && memcmp(p, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    /* U+2000 to U+200A */
    return n > 2 && memcmp(p, "\xE2\x80", 2) == 0 && (unsigned char)p[2] <= 0x8A ? 3 : 0;
}

/* Bytes of the character at p if it is one of chars (p NULL: white space). */
static size_t among(const char *p, size_t n, struct jinja_string chars) {
    if (chars.p == NULL)
        return jinja_space(p, n);
    size_t length = jinja_char(p, n);
    for (size_t at = 0, k; at < chars.n; at += k) {
        k = jinja_char(chars.p + at, chars.n - at);
        if (k == length && memcmp(chars.p + at, p, k) == 0)
            return length;
    }
    return 0;
}

static struct jinja_string stripped(struct jinja *j, struct jinja_string s, struct jinja_string chars,
                                    bool left, bool right) {
    const uint64_t cost = chars.n / 16; /* of a look through chars, for every character */
    jinja_step(j, 1 + s.n / 32);
    for (size_t k = 1; left && s.n > 0 && (k = among(s.p, s.n, chars)) > 0;) {
        jinja_step(j, cost);
        s.p += k;
        s.n -= k;
    }
    while (right && s.n > 0) {
        size_t back = 1;
        while (back < s.n && back < 4 && ((unsigned char)s.p[s.n - back] & 0xC0) == 0x80)
            back++;
        jinja_step(j, cost);
        if (among(s.p + s.n - back, back, chars) != back)
            break;
        s.n -= back;
    }
    return s;
}

struct jinja_string jinja_strip(struct jinja *j, struct jinja_string s) {
    return stripped(j, s, (struct jinja_string){0}, true, true);
}

static struct jinja_value split_spaces(struct jinja *j, struct jinja_string s, int64_t most) {
    struct jinja_value v = jinja_new_list(j, 0);
    for (;;) {
        s = stripped(j, s, (struct jinja_string){0}, true, false);
        if (s.n == 0)
            return v;
        size_t at = 0;
        while (at < s.n && jinja_space(s.p + at, s.n - at) == 0)
            at++;
        if (most == 0) {
            struct jinja_string rest = stripped(j, s, (struct jinja_string){0}, false, true);
            jinja_list_add(j, v.list, jinja_of_string(rest.p, rest.n));
            return v;
        }
        most--;
        jinja_list_add(j, v.list, jinja_of_string(s.p, at));
        s.p += at;
        s.n -= at;
    }
}

static struct jinja_value split(struct jinja *j, struct jinja_string s, const struct jinja_args *a,
                                bool right) {
    const struct jinja_value *by = jinja_arg(j, a, 0, "sep"), *limit = jinja_arg(j, a, 1, "maxsplit");
    int64_t most = limit != NULL && limit->kind == JINJA_INT ? limit->i : -1;
    if (by == NULL || by->kind == JINJA_NONE) {
        if (right && most >= 0)
            jinja_fail(j, "rsplit without a separator and with a limit is not supported");
        return split_spaces(j, s, most);
    }
    struct jinja_string mark = need_string(j, by, (struct jinja_string){"split", 5});
    if (mark.n == 0)
        jinja_fail(j, "split: the separator is empty");
    struct jinja_value v = jinja_new_list(j, 0);
    size_t from = 0, skip = 0;
    if (right && most >= 0) { /* the first pieces stay together */
        int64_t pieces = 0;
        for (const char *p = s.p; (p = search(j, s, (size_t)(p - s.p), mark)) != NULL; p += mark.n)
            pieces++;
        skip = pieces > most ? (size_t)(pieces - most) : 0;
        most = -1;
    }
    for (size_t at = 0;;) {
        const char *p = most == 0 ? NULL : search(j, s, at, mark);
        if (p == NULL)
            break;
        at = (size_t)(p - s.p) + mark.n;
        if (skip > 0) {
            skip--;
            continue;
        }
        most -= most > 0;
        jinja_list_add(j, v.list, jinja_of_string(s.p + from, at - mark.n - from));
        from = at;
    }
    jinja_list_add(j, v.list, jinja_of_string(s.p + from, s.n - from));
    return v;
}

/* Bytes of the end of a line at p, or 0. */
static size_t line_end(const char *p, size_t n) {
    const unsigned char c = (unsigned char)p[0];
    if (c == '\r')
        return n > 1 && p[1] == '\n' ? 2 : 1;
    if ((c >= 10 && c <= 12) || (c >= 28 && c <= 30))
        return 1;
    if (n > 1 && memcmp(p, "\xC2\x85", 2) == 0)
        return 2;
    return n > 2 && (memcmp(p, "\xE2\x80\xA8", 3) == 0 || memcmp(p, "\xE2\x80\xA9", 3) == 0) ? 3 : 0;
}

struct jinja_value jinja_split_lines(struct jinja *j, struct jinja_string s, bool keep_ends) {
    struct jinja_value v = jinja_new_list(j, 0);
    jinja_step(j, 1 + s.n / 16);
    for (size_t at = 0; at < s.n;) {
        size_t end = at, mark = 0;
        while (end < s.n && (mark = line_end(s.p + end, s.n - end)) == 0)
            end++;
        jinja_list_add(j, v.list, jinja_of_string(s.p + at, end - at + (keep_ends ? mark : 0)));
        at = end + mark;
    }
    return v;
}

static struct jinja_value replace(struct jinja *j, struct jinja_string s, const struct jinja_args *a) {
    const struct jinja_string who = {"replace", 7};
    struct jinja_string from = need_string(j, jinja_arg(j, a, 0, "old"), who);
    struct jinja_string to = need_string(j, jinja_arg(j, a, 1, "new"), who);
    const struct jinja_value *limit = jinja_arg(j, a, 2, "count");
    int64_t most = limit != NULL && limit->kind == JINJA_INT && limit->i >= 0 ? limit->i : INT64_MAX;
    struct jinja_text t = {0};
    size_t at = 0;
    for (; most > 0; most--) {
        const char *p = at <= s.n ? search(j, s, at, from) : NULL;
        if (p == NULL)
            break;
        size_t end = (size_t)(p - s.p);
        jinja_text_put(j, &t, s.p + at, end - at);
        jinja_text_put(j, &t, to.p, to.n);
        at = end + from.n;
        if (from.n == 0) { /* between all characters */
            size_t k = at < s.n ? jinja_char(s.p + at, s.n - at) : 0;
            jinja_text_put(j, &t, s.p + at, k);
            at += k > 0 ? k : 1;
        }
    }
    if (at < s.n)
        jinja_text_put(j, &t, s.p + at, s.n - at);
    return jinja_text_value(&t);
}

/* ASCII letters and those of Latin-1; others stay as they are. */
static struct jinja_value change_case(struct jinja *j, struct jinja_string s, struct jinja_string how) {
    char *out = jinja_take(j, s.n + 1, 1);
    bool begins = true;
    const bool title = jinja_is(how, "title"), capital = jinja_is(how, "capitalize");
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool up = title || capital ? begins : jinja_is(how, "upper");
        bool latin =
            i > 0 && (unsigned char)s.p[i - 1] == 0xC3 && c != 0x97 && c != 0xB7 && c != 0x9F && c != 0xBF;
        if (latin)
            out[i] = (char)(up && c >= 0xA0 ? c - 0x20 : !up && c < 0xA0 ? c + 0x20 : c);
        else
            out[i] = (char)(up ? toupper(c) : tolower(c));
        if (title)
            begins = !(isalpha(c) || c >= 0x80);
        else if (c < 0x80 || latin)
            begins = false;
    }
    return jinja_of_string(out, s.n);
}

static bool has_end(struct jinja *j, struct jinja_string s, const struct jinja_value *v,
                    struct jinja_string how) {
    jinja_step(j, 1);
    if (v != NULL && v->kind == JINJA_LIST && v->list->tuple) {
        bool found = false;
        jinja_deeper(j);
        for (size_t i = 0; i < v->list->n && !found; i++)
            found = has_end(j, s, &v->list->items[i], how);
        j->depth--;
        return found;
    }
    struct jinja_string end = need_string(j, v, how);
    if (end.n > s.n)
        return false;
    jinja_step(j, end.n / 64);
    return end.n == 0 || memcmp(how.p[0] == 's' || jinja_is(how, "removeprefix") ? s.p : s.p + s.n - end.n,
                                end.p, end.n) == 0;
}

static bool all_are(struct jinja_string s, struct jinja_string how) {
    bool any = false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (jinja_is(how, "isupper") || jinja_is(how, "islower")) {
            if (isalpha(c) && !(jinja_is(how, "isupper") ? isupper(c) : islower(c)))
                return false;
            any = any || isalpha(c);
        } else {
            bool good = jinja_is(how, "isdigit")   ? isdigit(c)
                        : jinja_is(how, "isspace") ? isspace(c)
                                                   : isalpha(c);
            if (!good)
                return false;
            any = true;
        }
    }
    return any;
}

static int64_t count(struct jinja *j, struct jinja_string s, struct jinja_string what) {
    int64_t n = 0;
    if (what.n == 0)
        return (int64_t)jinja_length_of(s) + 1;
    for (const char *p = s.p; (p = search(j, s, (size_t)(p - s.p), what)) != NULL; p += what.n)
        n++;
    return n;
}

/* Narrows s to the characters between a method's arguments start and end; before: how many lie in front of
 * it. false: it begins behind the end of s, where not even an empty text is. */
static bool part_of(struct jinja *j, struct jinja_string *s, const struct jinja_args *a, size_t *before) {
    const int64_t length = (int64_t)jinja_length_of(*s);
    int64_t at[2] = {0, length};
    jinja_step(j, 1 + s->n / 8);
    for (size_t i = 0; i < 2 && i + 1 < a->n; i++) {
        const struct jinja_value *v = &a->at[i + 1];
        if (v->kind == JINJA_NONE)
            continue;
        if (v->kind != JINJA_INT)
            jinja_fail(j, "a start or end is a %s, an integer is expected", jinja_kind_name(v));
        at[i] = v->i < 0 ? v->i + length : v->i;
        at[i] = at[i] < 0 ? 0 : at[i];
    }
    if (at[0] > length || at[1] < at[0])
        return false;
    size_t from = 0, to;
    for (int64_t k = 0; k < at[0]; k++)
        from += jinja_char(s->p + from, s->n - from);
    to = from;
    for (int64_t k = at[0]; k < at[1] && to < s->n; k++)
        to += jinja_char(s->p + to, s->n - to);
    *s = (struct jinja_string){s->p + from, to - from};
    *before = (size_t)at[0];
    return true;
}

static struct jinja_value string_method(struct jinja *j, struct jinja_string s, struct jinja_string name,
                                        const struct jinja_args *a) {
    if (jinja_is(name, "format"))
        return jinja_format(j, s, a);
    static const char *const splits[] = {"sep", "maxsplit", NULL}, *const lines[] = {"keepends", NULL},
                             *const replaces[] = {"old", "new", "count", NULL};
    const bool ranged = jinja_is(name, "startswith") || jinja_is(name, "endswith") ||
                        jinja_is(name, "find") || jinja_is(name, "count");
    const bool splitting = jinja_is(name, "split") || jinja_is(name, "rsplit");
    const bool replacing = jinja_is(name, "replace"), by_line = jinja_is(name, "splitlines");
    jinja_args_check(j, a, name,
                     ranged || replacing ? 3
                     : splitting         ? 2
                                         : 1,
                     splitting   ? splits
                     : replacing ? replaces /* by place in Python; the filter's names */
                     : by_line   ? lines
                                 : NULL);
    const struct jinja_value *first = jinja_arg(j, a, 0, NULL);
    jinja_step(j, 1 + s.n / 64);
    size_t before = 0;
    if (ranged && a->n > 1 && !part_of(j, &s, a, &before))
        return jinja_is(name, "find")    ? jinja_int(-1)
               : jinja_is(name, "count") ? jinja_int(0)
                                         : jinja_bool(false);
    if (jinja_is(name, "strip") || jinja_is(name, "lstrip") || jinja_is(name, "rstrip")) {
        struct jinja_string chars = {0};
        if (first != NULL && first->kind != JINJA_NONE)
            chars = need_string(j, first, name);
        s = stripped(j, s, chars, name.p[0] != 'r', name.p[0] != 'l');
        return jinja_of_string(s.p, s.n);
    }
    if (jinja_is(name, "split") || jinja_is(name, "rsplit"))
        return split(j, s, a, name.p[0] == 'r');
    if (jinja_is(name, "splitlines"))
        return jinja_split_lines(j, s,
                                 (first = jinja_arg(j, a, 0, "keepends")) != NULL && jinja_true(j, first));
    if (jinja_is(name, "upper") || jinja_is(name, "lower") || jinja_is(name, "title") ||
        jinja_is(name, "capitalize"))
        return change_case(j, s, name);
    if (jinja_is(name, "startswith") || jinja_is(name, "endswith"))
        return jinja_bool(has_end(j, s, first, name));
    if (jinja_is(name, "removeprefix") || jinja_is(name, "removesuffix")) {
        const struct jinja_string end = need_string(j, first, name); /* no tuple of them, as in Python */
        size_t n = has_end(j, s, first, name) ? end.n : 0;
        return jinja_of_string(s.p + (jinja_is(name, "removeprefix") ? n : 0), s.n - n);
    }
    if (jinja_is(name, "replace"))
        return replace(j, s, a);
    if (jinja_is(name, "find")) {
        const char *p = search(j, s, 0, need_string(j, first, name));
        return jinja_int(
            p == NULL ? -1
                      : (int64_t)(before + jinja_length_of((struct jinja_string){s.p, (size_t)(p - s.p)})));
    }
    if (jinja_is(name, "count"))
        return jinja_int(count(j, s, need_string(j, first, name)));
    if (jinja_is(name, "join")) {
        if (first == NULL)
            jinja_fail(j, "join: a list is expected");
        struct jinja_text t = {0};
        const struct jinja_list *items = jinja_items(j, first);
        for (size_t i = 0; i < items->n; i++) {
            struct jinja_string item = need_string(j, &items->items[i], name);
            if (i > 0)
                jinja_text_put(j, &t, s.p, s.n);
            jinja_text_put(j, &t, item.p, item.n);
        }
        return jinja_text_value(&t);
    }
    return jinja_bool(all_are(s, name));
}

/* --- dicts and lists */

static struct jinja_value dict_method(struct jinja *j, const struct jinja_dict *d, struct jinja_string name,
                                      const struct jinja_args *a) {
    jinja_args_check(j, a, name, 2, NULL);
    if (jinja_is(name, "get")) {
        if (a->n == 0)
            jinja_fail(j, "get: a key is expected");
        jinja_need_key(j, &a->at[0]);
        const struct jinja_value *found = jinja_dict_find(j, d, a->at[0]);
        return found != NULL ? *found : a->n > 1 ? a->at[1] : jinja_none();
    }
    if (jinja_is(name, "copy")) {
        struct jinja_value v = jinja_new_dict(j, d->n);
        for (size_t i = 0; i < d->n; i++)
            v.dict->entries[v.dict->n++] = d->entries[i];
        return v;
    }
    struct jinja_value v = jinja_new_list(j, d->n);
    v.list->view = jinja_is(name, "keys")     ? JINJA_KEYS
                   : jinja_is(name, "values") ? JINJA_VALUES
                                              : JINJA_ITEMS;
    for (size_t i = 0; i < d->n; i++) {
        if (jinja_is(name, "keys")) {
            jinja_list_add(j, v.list, d->entries[i].key);
        } else if (jinja_is(name, "values")) {
            jinja_list_add(j, v.list, d->entries[i].value);
        } else {
            struct jinja_value pair = jinja_new_list(j, 2);
            pair.list->tuple = true;
            jinja_list_add(j, pair.list, d->entries[i].key);
            jinja_list_add(j, pair.list, d->entries[i].value);
            jinja_list_add(j, v.list, pair);
        }
    }
    return v;
}

static struct jinja_value list_method(struct jinja *j, const struct jinja_value *self,
                                      struct jinja_string name, const struct jinja_args *a) {
    const struct jinja_list *l = self->list;
    int64_t n = 0;
    jinja_args_check(j, a, name, 1, NULL);
    if (jinja_is(name, "copy")) {
        struct jinja_value v = jinja_new_list(j, l->n);
        v.list->tuple = l->tuple;
        for (size_t i = 0; i < l->n; i++)
            jinja_list_add(j, v.list, l->items[i]);
        return v;
    }
    if (a->n == 0)
        jinja_fail(j, "%.*s: a value is expected", (int)name.n, name.p);
    for (size_t i = 0; i < l->n; i++) {
        if (!jinja_equal(j, &l->items[i], &a->at[0]))
            continue;
        if (jinja_is(name, "index"))
            return jinja_int((int64_t)i);
        n++;
    }
    if (jinja_is(name, "index"))
        jinja_fail(j, "index: the value is not in the list");
    return jinja_int(n);
}

struct jinja_value jinja_method(struct jinja *j, const struct jinja_value *self, struct jinja_string name,
                                const struct jinja_args *a) {
    if (self->kind == JINJA_STRING)
        return string_method(j, self->s, name, a);
    if (self->kind == JINJA_DICT)
        return dict_method(j, self->dict, name, a);
    if (self->kind == JINJA_LIST)
        return list_method(j, self, name, a);
    CHECK(self->kind == JINJA_LOOP); /* loop.cycle(..) */
    if (a->n == 0)
        jinja_fail(j, "cycle: values are expected");
    return a->at[self->loop->i % a->n];
}
