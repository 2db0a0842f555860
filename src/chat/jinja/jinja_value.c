/* Values of the Jinja: making, comparing and printing them as Python does. */
#include "chat/jinja/jinja_value.h"

#include "base/arith.h"
#include "base/check.h"
#include "base/clock.h"
#include "chat/chat_json.h"
#include "chat/jinja/jinja_memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY 100000 /* steps */

void jinja_fail(struct jinja *j, const char *format, ...) {
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)error_set(j->e, STATOR_USAGE, "chat template, line %u: %s", j->line, what);
    longjmp(j->failed, 1);
}

void jinja_fail_memory(struct jinja *j) {
    (void)error_set(j->e, STATOR_DOES_NOT_FIT,
                    "chat template, line %u: it needs more than the %zu bytes that there are for it", j->line,
                    j->bytes);
    longjmp(j->failed, 1);
}

static _Noreturn void fail_stopped(struct jinja *j) {
    (void)error_set(j->e, STATOR_BUSY, "chat template, line %u: it was stopped", j->line);
    longjmp(j->failed, 1);
}

static void look_at_limits(struct jinja *j) {
    if (j->steps > j->max_steps)
        jinja_fail(j, "it takes more than %" PRIu64 " steps", j->max_steps);
    if (j->in->stop != NULL && atomic_load_explicit(j->in->stop, memory_order_relaxed) != 0)
        fail_stopped(j);
    if (clock_ns() > j->deadline)
        jinja_fail(j, "it takes more than %d s", JINJA_SECONDS);
    j->look_at = ARITH_MIN(j->steps + LOOK_EVERY, j->max_steps);
}

void jinja_step(struct jinja *j, uint64_t n) {
    j->steps += n;
    if (j->steps > j->look_at)
        look_at_limits(j);
}

void jinja_deeper(struct jinja *j) {
    if (++j->depth > JINJA_DEPTH)
        jinja_fail(j, "it is nested more than %d deep", JINJA_DEPTH);
}

void jinja_text_put(struct jinja *j, struct jinja_text *t, const char *p, size_t n) {
    jinja_step(j, 1 + n / 64);
    if (t == &j->rendered) {
        jinja_memory_write(j, p, n);
        return;
    }
    if (n > t->capacity - t->n) {
        size_t capacity = 2 * t->capacity + n + 64;
        char *wider = jinja_take(j, capacity, 1);
        if (t->n > 0)
            memcpy(wider, t->p, t->n);
        t->p = wider;
        t->capacity = capacity;
    }
    if (n > 0)
        memcpy(t->p + t->n, p, n);
    t->n += n;
}

void jinja_text_puts(struct jinja *j, struct jinja_text *t, const char *s) {
    jinja_text_put(j, t, s, strlen(s));
}

struct jinja_value jinja_text_value(const struct jinja_text *t) {
    return jinja_of_string(t->n > 0 ? t->p : "", t->n);
}

struct jinja_value jinja_none(void) {
    return (struct jinja_value){.kind = JINJA_NONE};
}

struct jinja_value jinja_bool(bool b) {
    return (struct jinja_value){.kind = JINJA_BOOL, .b = b};
}

struct jinja_value jinja_int(int64_t i) {
    return (struct jinja_value){.kind = JINJA_INT, .i = i};
}

struct jinja_value jinja_float(double f) {
    return (struct jinja_value){.kind = JINJA_FLOAT, .f = f};
}

struct jinja_value jinja_of_string(const char *p, size_t n) {
    return (struct jinja_value){.kind = JINJA_STRING, .s = {p, n}};
}

struct jinja_value jinja_of_text(const char *s) {
    return jinja_of_string(s, strlen(s));
}

struct jinja_value jinja_undefined(struct jinja_string name) {
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .s = name};
}

struct jinja_value jinja_new_list(struct jinja *j, size_t capacity) {
    struct jinja_list *l = jinja_take(j, 1, sizeof *l);
    l->object.kind = JINJA_OF_LIST;
    l->items = jinja_take(j, capacity, sizeof *l->items);
    l->capacity = capacity;
    return (struct jinja_value){.kind = JINJA_LIST, .list = l};
}

struct jinja_value jinja_new_dict(struct jinja *j, size_t capacity) {
    struct jinja_dict *d = jinja_take(j, 1, sizeof *d);
    d->object.kind = JINJA_OF_DICT;
    d->entries = jinja_take(j, capacity, sizeof *d->entries);
    d->capacity = capacity;
    return (struct jinja_value){.kind = JINJA_DICT, .dict = d};
}

void jinja_list_add(struct jinja *j, struct jinja_list *l, struct jinja_value v) {
    jinja_step(j, 1);
    if (l->n == l->capacity) {
        size_t capacity = 2 * l->capacity + 4;
        struct jinja_value *wider = jinja_take(j, capacity, sizeof *wider);
        if (l->n > 0)
            memcpy(wider, l->items, l->n * sizeof *wider);
        l->items = wider;
        l->capacity = capacity;
    }
    l->items[l->n++] = v;
}

const struct jinja_value *jinja_dict_find(struct jinja *j, const struct jinja_dict *d,
                                          struct jinja_value key) {
    jinja_step(j, 1 + d->n / 8);
    for (size_t i = 0; i < d->n; i++)
        if (jinja_equal(j, &d->entries[i].key, &key))
            return &d->entries[i].value;
    return NULL;
}

void jinja_dict_put(struct jinja *j, struct jinja_dict *d, struct jinja_value key, struct jinja_value v) {
    jinja_step(j, 1 + d->n / 8);
    for (size_t i = 0; i < d->n; i++)
        if (jinja_equal(j, &d->entries[i].key, &key)) {
            d->entries[i].value = v;
            return;
        }
    if (d->n == d->capacity) {
        size_t capacity = 2 * d->capacity + 4;
        struct jinja_entry *wider = jinja_take(j, capacity, sizeof *wider);
        if (d->n > 0)
            memcpy(wider, d->entries, d->n * sizeof *wider);
        d->entries = wider;
        d->capacity = capacity;
    }
    d->entries[d->n++] = (struct jinja_entry){key, v};
}

struct jinja_value jinja_from_json(struct jinja *j, const json_t *json) {
    jinja_step(j, 1);
    size_t length = 0;
    const char *number = NULL;
    j->given += 16 + (json_is_string(json) ? json_string_length(json) : 0);
    switch (json_typeof(json)) {
    case JSON_NULL:
        return jinja_none();
    case JSON_TRUE:
    case JSON_FALSE:
        return jinja_bool(json_is_true(json));
    case JSON_INTEGER:
        return jinja_int(json_integer_value(json));
    case JSON_REAL:
        return jinja_float(json_real_value(json));
    case JSON_STRING:
        number = chat_json_long_number(json, &length);
        if (number != NULL)
            return (struct jinja_value){
                .kind = JINJA_FLOAT, .f = strtod(number, NULL), .s = {number, length}};
        return jinja_of_string(json_string_value(json), json_string_length(json));
    case JSON_ARRAY: {
        size_t n = json_array_size(json);
        struct jinja_value v = jinja_new_list(j, n);
        jinja_deeper(j);
        for (size_t i = 0; i < n; i++)
            jinja_list_add(j, v.list, jinja_from_json(j, json_array_get(json, i)));
        j->depth--;
        return v;
    }
    default:
        break;
    }
    CHECK(json_is_object(json));
    struct jinja_value v = jinja_new_dict(j, json_object_size(json));
    jinja_deeper(j);
    json_t *object = (json_t *)(uintptr_t)json; /* its iterators are not declared for what is const */
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        /* Keys of a JSON object are unique: jansson keeps the last of equals. */
        struct jinja_entry entry = {jinja_of_text(key), jinja_from_json(j, json_object_iter_value(at))};
        CHECK(v.dict->n < v.dict->capacity);
        v.dict->entries[v.dict->n++] = entry;
    }
    j->depth--;
    return v;
}

bool jinja_is(struct jinja_string s, const char *name) {
    return strlen(name) == s.n && memcmp(s.p, name, s.n) == 0;
}

bool jinja_is_string(const struct jinja_value *v, const char *text) {
    return v->kind == JINJA_STRING && jinja_is(v->s, text);
}

bool jinja_true(struct jinja *j, const struct jinja_value *v) {
    (void)j;
    switch (v->kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v->b;
    case JINJA_INT:
        return v->i != 0;
    case JINJA_FLOAT:
        return v->f != 0;
    case JINJA_STRING:
        return v->s.n > 0;
    case JINJA_LIST:
        return v->list->n > 0 || v->list->view == JINJA_GENERATOR;
    case JINJA_DICT:
        return v->dict->n > 0;
    default:
        return true;
    }
}

bool jinja_number(const struct jinja_value *v, double *f) {
    if (v->kind == JINJA_BOOL)
        *f = v->b;
    else if (v->kind == JINJA_INT)
        *f = (double)v->i;
    else if (v->kind == JINJA_FLOAT)
        *f = v->f;
    else
        return false;
    return true;
}

static bool whole(const struct jinja_value *v, int64_t *i) {
    *i = v->kind == JINJA_BOOL ? (int64_t)v->b : v->i;
    return v->kind == JINJA_BOOL || v->kind == JINJA_INT;
}

bool jinja_equal(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b) {
    int64_t x = 0, y = 0;
    double f = 0, g = 0;
    if (whole(a, &x) && whole(b, &y))
        return x == y;
    if (jinja_number(a, &f) && jinja_number(b, &g))
        return f == g;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_STRING:
        jinja_step(j, a->s.n == b->s.n ? a->s.n / 64 : 0);
        return a->s.n == b->s.n && (a->s.n == 0 || memcmp(a->s.p, b->s.p, a->s.n) == 0);
    case JINJA_LIST:
        jinja_step(j, a->list->n + 1);
        if (a->list == b->list)
            return true;
        if (a->list->n != b->list->n || a->list->tuple != b->list->tuple || a->list->view != b->list->view ||
            a->list->view == JINJA_GENERATOR || a->list->view == JINJA_VALUES)
            return false;
        jinja_deeper(j);
        for (size_t i = 0; i < a->list->n; i++)
            if (!jinja_equal(j, &a->list->items[i], &b->list->items[i])) {
                j->depth--;
                return false;
            }
        j->depth--;
        return true;
    case JINJA_DICT:
    case JINJA_NAMESPACE:
        if (a->dict == b->dict || a->dict->n != b->dict->n)
            return a->dict == b->dict;
        jinja_step(j, a->dict->n + 1);
        jinja_deeper(j);
        for (size_t i = 0; i < a->dict->n; i++) {
            const struct jinja_value *other = jinja_dict_find(j, b->dict, a->dict->entries[i].key);
            if (other == NULL || !jinja_equal(j, &a->dict->entries[i].value, other)) {
                j->depth--;
                return false;
            }
        }
        j->depth--;
        return true;
    case JINJA_MACRO:
        return a->macro == b->macro;
    case JINJA_METHOD:
        return a->bound == b->bound;
    case JINJA_LOOP:
        return a->loop == b->loop;
    default:
        return a->s.n == b->s.n && memcmp(a->s.p, b->s.p, a->s.n) == 0;
    }
}

const char *jinja_kind_name(const struct jinja_value *v) {
    static const char *const names[] = {"undefined value", "none",  "boolean", "integer",   "float",
                                        "string",          "list",  "dict",    "namespace", "function",
                                        "method",          "macro", "loop"};
    static const char *const views[] = {"list",           "view of a dict", "view of a dict",
                                        "view of a dict", "range",          "generator"};
    if (v->kind == JINJA_LIST)
        return v->list->tuple ? "tuple" : views[v->list->view];
    return names[v->kind];
}

int jinja_order(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b) {
    int64_t x = 0, y = 0;
    double f = 0, g = 0;
    if (whole(a, &x) && whole(b, &y))
        return (x > y) - (x < y);
    if (jinja_number(a, &f) && jinja_number(b, &g))
        return (f > g) - (f < g);
    if (a->kind == JINJA_STRING && b->kind == JINJA_STRING) {
        /* The order of UTF-8's bytes is that of the characters. */
        size_t n = a->s.n < b->s.n ? a->s.n : b->s.n;
        jinja_step(j, n / 64);
        int c = n > 0 ? memcmp(a->s.p, b->s.p, n) : 0;
        return c != 0 ? c : (a->s.n > b->s.n) - (a->s.n < b->s.n);
    }
    if (a->kind == JINJA_LIST && b->kind == JINJA_LIST && a->list->tuple == b->list->tuple &&
        a->list->view == JINJA_NO_VIEW && b->list->view == JINJA_NO_VIEW) {
        for (size_t i = 0; i < a->list->n && i < b->list->n; i++) {
            jinja_step(j, 1);
            if (!jinja_equal(j, &a->list->items[i], &b->list->items[i])) {
                jinja_deeper(j);
                int c = jinja_order(j, &a->list->items[i], &b->list->items[i]);
                j->depth--;
                return c;
            }
        }
        return (a->list->n > b->list->n) - (a->list->n < b->list->n);
    }
    jinja_fail(j, "a %s and a %s have no order", jinja_kind_name(a), jinja_kind_name(b));
}

/* As Python's repr(float): the fewest digits that read back as the same number. */
static void print_float(struct jinja *j, struct jinja_text *t, double f, bool json) {
    char digits[40];
    char out[64];
    if (isnan(f) || isinf(f)) {
        jinja_text_puts(j, t,
                        isnan(f) ? (json ? "NaN" : "nan")
                        : f < 0  ? (json ? "-Infinity" : "-inf")
                                 : (json ? "Infinity" : "inf"));
        return;
    }
    int precision = 1;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, f);
    while (strtod(digits, NULL) != f && precision++ < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        snprintf(out, sizeof out, "%.*f", precision - 1 - exponent > 1 ? precision - 1 - exponent : 1, f);
    } else {
        *strchr(digits, 'e') = '\0';
        snprintf(out, sizeof out, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
    }
    jinja_text_puts(j, t, out);
}

/* Python chooses the quote that needs no escape. */
static void print_quoted(struct jinja *j, struct jinja_text *t, struct jinja_string s) {
    bool single = s.n > 0 && memchr(s.p, '\'', s.n) != NULL;
    bool twice = s.n > 0 && memchr(s.p, '"', s.n) != NULL;
    char quote = single && !twice ? '"' : '\'';
    jinja_text_put(j, t, &quote, 1);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        char out[8];
        if (c == (unsigned char)quote || c == '\\')
            snprintf(out, sizeof out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(out, sizeof out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 32 || c == 127)
            snprintf(out, sizeof out, "\\x%02x", c);
        else
            snprintf(out, sizeof out, "%c", c);
        jinja_text_puts(j, t, out);
    }
    jinja_text_put(j, t, &quote, 1);
}

static void print_int(struct jinja *j, struct jinja_text *t, int64_t i) {
    char out[32];
    snprintf(out, sizeof out, "%" PRId64, i);
    jinja_text_puts(j, t, out);
}

static void print_list(struct jinja *j, struct jinja_text *t, const struct jinja_list *l) {
    static const char *const names[] = {"", "dict_keys(", "dict_values(", "dict_items("};
    if (l->view == JINJA_RANGE || l->view == JINJA_GENERATOR)
        jinja_fail(j, "a %s can't be printed; its items can, after |list",
                   l->view == JINJA_RANGE ? "range" : "generator (of map, select or their kin)");
    jinja_text_puts(j, t, names[l->view]);
    jinja_text_puts(j, t, l->tuple ? "(" : "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i > 0)
            jinja_text_puts(j, t, ", ");
        jinja_print(j, t, &l->items[i], true);
    }
    jinja_text_puts(j, t, !l->tuple ? "]" : l->n == 1 ? ",)" : ")");
    if (l->view != JINJA_NO_VIEW)
        jinja_text_puts(j, t, ")");
}

void jinja_print(struct jinja *j, struct jinja_text *t, const struct jinja_value *v, bool repr) {
    jinja_deeper(j);
    switch (v->kind) {
    case JINJA_UNDEFINED:
        jinja_text_puts(j, t, repr ? "Undefined" : "");
        break;
    case JINJA_NONE:
        jinja_text_puts(j, t, "None");
        break;
    case JINJA_BOOL:
        jinja_text_puts(j, t, v->b ? "True" : "False");
        break;
    case JINJA_INT:
        print_int(j, t, v->i);
        break;
    case JINJA_FLOAT:
        if (v->s.n > 0)
            jinja_text_put(j, t, v->s.p, v->s.n);
        else
            print_float(j, t, v->f, false);
        break;
    case JINJA_STRING:
        if (repr)
            print_quoted(j, t, v->s);
        else
            jinja_text_put(j, t, v->s.p, v->s.n);
        break;
    case JINJA_LIST:
        print_list(j, t, v->list);
        break;
    case JINJA_DICT:
        jinja_text_puts(j, t, "{");
        for (size_t i = 0; i < v->dict->n; i++) {
            if (i > 0)
                jinja_text_puts(j, t, ", ");
            jinja_print(j, t, &v->dict->entries[i].key, true);
            jinja_text_puts(j, t, ": ");
            jinja_print(j, t, &v->dict->entries[i].value, true);
        }
        jinja_text_puts(j, t, "}");
        break;
    default:
        jinja_fail(j, "a %s can't be printed", jinja_kind_name(v));
    }
    j->depth--;
}

struct jinja_value jinja_str(struct jinja *j, const struct jinja_value *v) {
    if (v->kind == JINJA_STRING)
        return *v;
    struct jinja_text t = {0};
    jinja_print(j, &t, v, false);
    return jinja_text_value(&t);
}

/* The character at p as ASCII escapes; returns its bytes. */
static size_t json_escaped(struct jinja *j, struct jinja_text *t, const char *p, size_t n) {
    const size_t bytes = jinja_char(p, n);
    uint32_t c = (unsigned char)p[0];
    if (bytes > 1)
        c &= 0x7Fu >> bytes;
    for (size_t i = 1; i < bytes; i++)
        c = c << 6 | ((unsigned char)p[i] & 63);
    char out[16];
    if (c >= 0x10000)
        snprintf(out, sizeof out, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                 0xDC00 + ((c - 0x10000) & 0x3FF));
    else
        snprintf(out, sizeof out, "\\u%04x", c);
    jinja_text_puts(j, t, out);
    return bytes;
}

static void json_quoted(struct jinja *j, struct jinja_text *t, struct jinja_string s, bool ascii) {
    jinja_text_puts(j, t, "\"");
    size_t done = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 32 && c != '"' && c != '\\' && !(ascii && c >= 127))
            continue;
        jinja_text_put(j, t, s.p + done, i - done);
        if (c >= 127) {
            i += json_escaped(j, t, s.p + i, s.n - i) - 1;
            done = i + 1;
            continue;
        }
        done = i + 1;
        static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
        const char *known = c != 0 ? strchr(named, c) : NULL;
        char out[8];
        if (known != NULL)
            snprintf(out, sizeof out, "\\%c", letters[known - named]);
        else
            snprintf(out, sizeof out, "\\u%04x", c);
        jinja_text_puts(j, t, out);
    }
    jinja_text_put(j, t, s.p + done, s.n - done);
    jinja_text_puts(j, t, "\"");
}

static void json_line(struct jinja *j, struct jinja_text *t, const struct jinja_json_style *style,
                      int level) {
    if (!style->lines)
        return;
    jinja_text_puts(j, t, "\n");
    for (int i = 0; i < level; i++)
        jinja_text_put(j, t, style->indent.p, style->indent.n);
}

static int compare_entries(const void *a, const void *b) {
    const struct jinja_entry *x = a, *y = b;
    size_t n = x->key.s.n < y->key.s.n ? x->key.s.n : y->key.s.n;
    int c = memcmp(x->key.s.p, y->key.s.p, n);
    return c != 0 ? c : (x->key.s.n > y->key.s.n) - (x->key.s.n < y->key.s.n);
}

static void json_dict(struct jinja *j, struct jinja_text *t, const struct jinja_dict *d,
                      const struct jinja_json_style *style, int level) {
    struct jinja_entry *entries = jinja_take(j, d->n, sizeof *entries);
    for (size_t i = 0; i < d->n; i++) {
        entries[i] = d->entries[i];
        struct jinja_value *key = &entries[i].key;
        if (key->kind == JINJA_STRING)
            continue;
        if (key->kind != JINJA_NONE && key->kind != JINJA_BOOL && key->kind != JINJA_INT &&
            key->kind != JINJA_FLOAT)
            jinja_fail(j, "tojson: a key is a %s, a string is expected", jinja_kind_name(key));
        if (style->sort_keys && d->n > 1)
            jinja_fail(j, "tojson: only strings are sorted as keys, found a %s", jinja_kind_name(key));
        struct jinja_text name = {0};
        jinja_json(j, &name, key, style, 0);
        *key = jinja_text_value(&name);
    }
    if (style->sort_keys && d->n > 1)
        qsort(entries, d->n, sizeof *entries, compare_entries);
    jinja_text_puts(j, t, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i > 0)
            jinja_text_put(j, t, style->between.p, style->between.n);
        json_line(j, t, style, level + 1);
        json_quoted(j, t, entries[i].key.s, style->ensure_ascii);
        jinja_text_put(j, t, style->behind_key.p, style->behind_key.n);
        jinja_json(j, t, &entries[i].value, style, level + 1);
    }
    if (d->n > 0)
        json_line(j, t, style, level);
    jinja_text_puts(j, t, "}");
}

void jinja_json(struct jinja *j, struct jinja_text *t, const struct jinja_value *v,
                const struct jinja_json_style *style, int level) {
    jinja_deeper(j);
    switch (v->kind) {
    case JINJA_NONE:
        jinja_text_puts(j, t, "null");
        break;
    case JINJA_BOOL:
        jinja_text_puts(j, t, v->b ? "true" : "false");
        break;
    case JINJA_INT:
        print_int(j, t, v->i);
        break;
    case JINJA_FLOAT:
        if (v->s.n > 0)
            jinja_text_put(j, t, v->s.p, v->s.n);
        else
            print_float(j, t, v->f, true);
        break;
    case JINJA_STRING:
        json_quoted(j, t, v->s, style->ensure_ascii);
        break;
    case JINJA_LIST:
        if (v->list->view != JINJA_NO_VIEW)
            jinja_fail(j, "tojson: a %s can't be written as JSON; its items can, after |list",
                       jinja_kind_name(v));
        jinja_text_puts(j, t, "[");
        for (size_t i = 0; i < v->list->n; i++) {
            if (i > 0)
                jinja_text_put(j, t, style->between.p, style->between.n);
            json_line(j, t, style, level + 1);
            jinja_json(j, t, &v->list->items[i], style, level + 1);
        }
        if (v->list->n > 0)
            json_line(j, t, style, level);
        jinja_text_puts(j, t, "]");
        break;
    case JINJA_DICT:
        json_dict(j, t, v->dict, style, level);
        break;
    case JINJA_UNDEFINED:
        jinja_fail(j, "tojson: '%.*s' is undefined", (int)v->s.n, v->s.p);
    default:
        jinja_fail(j, "tojson: a %s can't be written as JSON", jinja_kind_name(v));
    }
    j->depth--;
}

size_t jinja_char(const char *p, size_t n) {
    unsigned char c = (unsigned char)p[0];
    size_t want = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    size_t have = 1;
    while (have < want && have < n && ((unsigned char)p[have] & 0xC0) == 0x80)
        have++;
    return have == want ? want : 1;
}

size_t jinja_length_of(struct jinja_string s) {
    size_t count = 0;
    for (size_t at = 0; at < s.n; at += jinja_char(s.p + at, s.n - at))
        count++;
    return count;
}

struct jinja_list *jinja_items(struct jinja *j, const struct jinja_value *v) {
    if (v->kind == JINJA_LIST && v->list->view != JINJA_GENERATOR)
        return v->list;
    struct jinja_list *l = jinja_new_list(j, 0).list;
    if (v->kind == JINJA_LIST) { /* nothing is left in it */
        for (size_t i = 0; i < v->list->n; i++)
            jinja_list_add(j, l, v->list->items[i]);
        v->list->n = 0;
        return l;
    }
    if (v->kind == JINJA_DICT) {
        for (size_t i = 0; i < v->dict->n; i++)
            jinja_list_add(j, l, v->dict->entries[i].key);
    } else if (v->kind == JINJA_STRING) {
        for (size_t at = 0, n; at < v->s.n; at += n) {
            n = jinja_char(v->s.p + at, v->s.n - at);
            jinja_list_add(j, l, jinja_of_string(v->s.p + at, n));
        }
    } else if (v->kind != JINJA_UNDEFINED) {
        jinja_fail(j, "a %s has no items to go through", jinja_kind_name(v));
    }
    return l;
}

struct jinja_value jinja_generator(struct jinja_value list) {
    list.list->view = JINJA_GENERATOR;
    return list;
}

bool jinja_is_view(const struct jinja_value *v, enum jinja_view view) {
    return v->kind == JINJA_LIST && v->list->view == view;
}

void jinja_need_key(struct jinja *j, const struct jinja_value *v) {
    if (v->kind == JINJA_DICT || (v->kind == JINJA_LIST && !v->list->tuple))
        jinja_fail(j, "a %s can't be the key of a dict", jinja_kind_name(v));
    if (v->kind != JINJA_LIST)
        return;
    jinja_deeper(j);
    for (size_t i = 0; i < v->list->n; i++) {
        jinja_step(j, 1);
        jinja_need_key(j, &v->list->items[i]);
    }
    j->depth--;
}
