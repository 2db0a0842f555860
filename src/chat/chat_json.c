/* See chat_json.h. */
#include "chat/chat_json.h"

#include "chat/json_scan.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER 400 /* a longer number fits nowhere in any case */

static const char mark[] = "\"\\u0000", unknown[] = "\\ufffd";

struct rewriter {
    const char *p, *end;
    char *out; /* NULL: bytes are only counted */
    size_t n;
    bool differs;
};

static void put(struct rewriter *w, const char *p, size_t n) {
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
            put(w, w->p, (size_t)(p - w->p));
            put(w, unknown, 6);
            w->p = p += 6;
            w->differs = true;
        } else {
            p += 6;
        }
    }
    p += p < w->end;
    put(w, w->p, (size_t)(p - w->p));
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
        put(w, mark, sizeof mark - 1);
    put(w, w->p, n);
    if (marks)
        put(w, "\"", 1);
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
            put(w, w->p, 1);
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

bool chat_json_is_text(const json_t *v) {
    size_t n = 0;
    return json_is_string(v) && chat_json_long_number(v, &n) == NULL;
}
