/* See chat_json.h. */
#include "chat/chat_json.h"

#include "base/check.h"
#include "base/json_writer.h"
#include "chat/json_scan.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PORTION 256 /* bytes of a string that are written at a time */
#define NUMBER  400 /* a longer number fits nowhere in any case */

static const char mark[] = "\"\\u0000", unknown[] = "\\ufffd";

struct rewriter {
    const char *p, *end;
    char *out; /* NULL: bytes are only counted */
    size_t n;
    bool differs;
};

static void keep(struct rewriter *w, const char *p, size_t n) {
    if (w->out != NULL)
        memcpy(w->out + w->n, p, n);
    w->n += n;
}

/* The code unit of \uXXXX at p; -1: there is none. */
static long code_unit(const char *p, const char *end) {
    char digits[5] = {0}, *stop = NULL;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    memcpy(digits, p + 2, 4);
    if (strspn(digits, "0123456789abcdefABCDEF") != 4)
        return -1;
    return strtol(digits, &stop, 16);
}

/* The string at w->p, with its quotes as far as they are there. */
static void take_string(struct rewriter *w) {
    const char *p = w->p + 1;
    while (p < w->end && *p != '"') {
        const long unit = code_unit(p, w->end);
        if (unit < 0) {
            p += *p == '\\' && w->end - p > 1 ? 2 : 1;
            continue;
        }
        const bool high = unit >= 0xD800 && unit < 0xDC00, low = unit >= 0xDC00 && unit < 0xE000;
        const long second = high ? code_unit(p + 6, w->end) : -1;
        if (high && second >= 0xDC00 && second < 0xE000) {
            p += 12;
        } else if (high || low || unit == 0) {
            keep(w, w->p, (size_t)(p - w->p));
            keep(w, unknown, 6);
            w->p = p += 6;
            w->differs = true;
        } else {
            p += 6;
        }
    }
    p += p < w->end;
    keep(w, w->p, (size_t)(p - w->p));
    w->p = p;
}

/* Whether jansson has a place for the number. */
static bool has_place(const char *p, size_t n) {
    char text[NUMBER + 1];
    if (n > NUMBER)
        return false;
    memcpy(text, p, n);
    text[n] = '\0';
    errno = 0;
    if (strpbrk(text, ".eE") == NULL) {
        (void)strtoll(text, NULL, 10);
        return errno != ERANGE;
    }
    const double d = strtod(text, NULL);
    return !(errno == ERANGE && fabs(d) == HUGE_VAL);
}

static void take_number(struct rewriter *w) {
    const char *p = w->p;
    while (p < w->end && *p != '\0' && strchr("0123456789+-.eE", *p) != NULL)
        p++;
    const size_t n = (size_t)(p - w->p);
    const bool marks = json_scan_number(w->p, n) == n && !has_place(w->p, n);
    if (marks)
        keep(w, mark, sizeof mark - 1);
    keep(w, w->p, n);
    if (marks)
        keep(w, "\"", 1);
    w->differs |= marks;
    w->p = p;
}

static void rewrite(struct rewriter *w) {
    while (w->p < w->end) {
        if (*w->p == '"') {
            take_string(w);
        } else if (*w->p == '-' || (*w->p >= '0' && *w->p <= '9')) {
            take_number(w);
        } else {
            keep(w, w->p, 1);
            w->p++;
        }
    }
}

json_t *chat_json_load(const char *text, size_t n, size_t flags, json_error_t *e) {
    struct rewriter count = {.p = text, .end = text + n};
    json_malloc_t take;
    json_free_t give;
    rewrite(&count);
    flags |= JSON_ALLOW_NUL;
    if (!count.differs)
        return json_loadb(text, n, flags, e);
    json_get_alloc_funcs(&take, &give);
    struct rewriter w = {.p = text, .end = text + n, .out = take(count.n)};
    if (w.out == NULL) {
        *e = (json_error_t){.line = 1, .text = "no memory"};
        return NULL;
    }
    rewrite(&w);
    json_t *v = json_loadb(w.out, w.n, flags, e);
    give(w.out);
    return v;
}

const char *chat_json_long_number(const json_t *v, size_t *n) {
    if (!json_is_string(v) || json_string_length(v) == 0 || json_string_value(v)[0] != '\0')
        return NULL;
    *n = json_string_length(v) - 1;
    return json_string_value(v) + 1;
}

/* --- writing */

struct sink {
    void (*put)(void *context, const char *p, size_t n);
    void *context;
};

static void puts_to(const struct sink *s, const char *text) {
    s->put(s->context, text, strlen(text));
}

/* With its quotes, in portions that end between characters. */
static void write_string(const struct sink *s, const char *p, size_t n) {
    char text[8 * PORTION];
    struct json j;
    puts_to(s, "\"");
    while (n > 0) {
        size_t part = n < PORTION ? n : PORTION;
        while (part < n && part > PORTION - 4 && ((unsigned char)p[part] & 0xC0) == 0x80)
            part--;
        json_to_buffer(&j, text, sizeof text, false);
        json_put_string_n(&j, NULL, p, part);
        const bool whole = json_end(&j);
        CHECK(whole && j.length >= 2);
        s->put(s->context, text + 1, j.length - 2);
        p += part;
        n -= part;
    }
    puts_to(s, "\"");
}

static void write_number(const struct sink *s, const json_t *v) {
    char text[64];
    struct json j;
    json_to_buffer(&j, text, sizeof text, false);
    if (json_is_integer(v))
        json_put_i64(&j, NULL, json_integer_value(v));
    else
        json_put_double(&j, NULL, json_real_value(v));
    const bool whole = json_end(&j);
    CHECK(whole);
    s->put(s->context, text, j.length);
    if (json_is_real(v) && memchr(text, '.', j.length) == NULL && memchr(text, 'e', j.length) == NULL)
        puts_to(s, ".0");
}

static void write_value(const struct sink *s, const json_t *v, int depth) {
    size_t n = 0;
    const char *number = chat_json_long_number(v, &n), *name;
    const bool deep = (json_is_object(v) || json_is_array(v)) && depth == JSON_SCAN_DEPTH;
    json_t *value;
    if (number != NULL) {
        s->put(s->context, number, n);
    } else if (json_is_string(v)) {
        write_string(s, json_string_value(v), json_string_length(v));
    } else if (json_is_number(v)) {
        write_number(s, v);
    } else if (json_is_array(v) && !deep) {
        puts_to(s, "[");
        for (size_t i = 0; i < json_array_size(v); i++) {
            puts_to(s, i > 0 ? ", " : "");
            write_value(s, json_array_get(v, i), depth + 1);
        }
        puts_to(s, "]");
    } else if (json_is_object(v) && !deep) {
        bool first = true;
        puts_to(s, "{");
        json_object_foreach((json_t *)v, name, value) {
            puts_to(s, first ? "" : ", ");
            write_string(s, name, strlen(name));
            puts_to(s, ": ");
            write_value(s, value, depth + 1);
            first = false;
        }
        puts_to(s, "}");
    } else {
        puts_to(s, json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null");
    }
}

void chat_json_write(const json_t *v, void (*put)(void *context, const char *p, size_t n), void *context) {
    write_value(&(struct sink){put, context}, v, 0);
}

/* --- comparing */

static bool read_number(const json_t *v, double *d) {
    size_t n = 0;
    const char *number = chat_json_long_number(v, &n);
    *d = number != NULL ? strtod(number, NULL) : json_number_value(v);
    return number != NULL || json_is_number(v);
}

bool chat_json_same(const json_t *a, const json_t *b) {
    const char *name;
    json_t *value;
    double x = 0, y = 0;
    if (read_number(a, &x) && read_number(b, &y) && isfinite(x))
        return x == y;
    if (json_typeof(a) != json_typeof(b) || json_object_size(a) != json_object_size(b) ||
        json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!chat_json_same(json_array_get(a, i), json_array_get(b, i)))
            return false;
    json_object_foreach((json_t *)a, name, value) {
        const json_t *other = json_object_get(b, name);
        if (other == NULL || !chat_json_same(value, other))
            return false;
    }
    return json_is_object(a) || json_is_array(a) || json_equal(a, b);
}

bool chat_json_is_text(const json_t *v) {
    size_t n = 0;
    return json_is_string(v) && chat_json_long_number(v, &n) == NULL;
}
