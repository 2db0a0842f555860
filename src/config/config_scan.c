#include "config/config_scan.h"

#include "base/check.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST  8    /* brackets in brackets: a config needs two */
#define SETTINGS 2000 /* libconfig compares each new name with all before */

struct scan {
    const char *at;
    const char *end;
    char *out;
    const char *name;
    stator_error *e;
    unsigned line;
    unsigned depth;
    unsigned settings;
};

static bool failed(struct scan *s, unsigned line, const char *what) {
    error_set(s->e, STATOR_USAGE, "%s:%u: %s", s->name, line, what);
    return false;
}

static char peek(const struct scan *s, size_t ahead) {
    return (size_t)(s->end - s->at) > ahead ? s->at[ahead] : '\0';
}

static void take(struct scan *s) {
    if (*s->at == '\n')
        s->line++;
    *s->out++ = *s->at++;
}

static bool take_string(struct scan *s) {
    unsigned line = s->line;
    take(s);
    while (s->at < s->end) {
        char c = *s->at;
        if (c == '\\' && peek(s, 1) == 'x' && peek(s, 2) == '0' && peek(s, 3) == '0')
            return failed(s, s->line, "a zero character (\\x00) can't be part of a text");
        take(s);
        if (c == '\\' && s->at < s->end)
            take(s);
        if (c == '"')
            return true;
    }
    return failed(s, line, "the text that begins here has no closing quote");
}

static bool take_block_comment(struct scan *s) {
    unsigned line = s->line;
    take(s);
    take(s);
    while (s->at < s->end) {
        if (*s->at == '*' && peek(s, 1) == '/') {
            take(s);
            take(s);
            return true;
        }
        take(s);
    }
    return failed(s, line, "the comment that begins here has no closing */");
}

static void take_line(struct scan *s) {
    while (s->at < s->end && *s->at != '\n')
        take(s);
}

/* A number: integers get the L that makes them 64 bits wide for libconfig. */
static bool take_number(struct scan *s) {
    char digits[40];
    size_t n = 0;
    const char *start = s->at;
    bool hex = false;
    if (*s->at == '+' || *s->at == '-')
        take(s);
    if (peek(s, 0) == '0' && (peek(s, 1) == 'x' || peek(s, 1) == 'X')) {
        hex = true;
        take(s);
        take(s);
    }
    while (s->at < s->end && (hex ? isxdigit((unsigned char)*s->at) : isdigit((unsigned char)*s->at)))
        take(s);
    if (!hex && (peek(s, 0) == '.' || peek(s, 0) == 'e' || peek(s, 0) == 'E')) {
        while (s->at < s->end && (isalnum((unsigned char)*s->at) || strchr(".+-", *s->at) != NULL))
            take(s);
        return true;
    }
    n = (size_t)(s->at - start);
    bool fits = n < sizeof digits;
    long long v = 0;
    if (fits) {
        memcpy(digits, start, n);
        digits[n] = '\0';
        errno = 0;
        v = strtoll(digits, NULL, hex ? 16 : 10);
        fits = errno == 0;
    }
    if (!fits)
        return failed(s, s->line, "a number beyond 64 bits; write a seed above 2^63-1 as text, in quotes");
    if (peek(s, 0) == 'L')
        while (peek(s, 0) == 'L')
            take(s);
    else if (v > INT_MAX || v < INT_MIN)
        *s->out++ = 'L';
    return true;
}

static void take_name(struct scan *s) {
    while (s->at < s->end &&
           (isalnum((unsigned char)*s->at) || *s->at == '_' || *s->at == '-' || *s->at == '*'))
        take(s);
}

static bool take_punctuation(struct scan *s) {
    char c = *s->at;
    if (c == '@')
        return failed(s, s->line, "@include and the like are not read; put every key into one file");
    if (strchr("{[(", c) != NULL && ++s->depth > DEEPEST)
        return failed(s, s->line, "brackets are nested too deep; a config is sections = { key = value; .. }");
    if (strchr("}])", c) != NULL && s->depth > 0)
        s->depth--;
    if (strchr("=:,", c) != NULL && ++s->settings > SETTINGS)
        return failed(s, s->line, "more settings than a config can have");
    take(s);
    return true;
}

static bool take_token(struct scan *s) {
    unsigned char c = (unsigned char)*s->at;
    char next = peek(s, 1);
    if (c == '"')
        return take_string(s);
    if (c == '/' && next == '*')
        return take_block_comment(s);
    if (c == '#' || (c == '/' && next == '/')) {
        take_line(s);
        return true;
    }
    if (isdigit(c) || ((c == '-' || c == '+') && isdigit((unsigned char)next)))
        return take_number(s);
    if (isalpha(c) || c == '*') {
        take_name(s);
        return true;
    }
    if (isspace(c) || c == ';') {
        take(s);
        return true;
    }
    return take_punctuation(s);
}

stator_status config_scan(const char *text, size_t n, const char *name, char *out, stator_error *e) {
    struct scan s = {.at = text, .end = text + n, .out = out, .name = name, .e = e, .line = 1};
    const char *zero = memchr(text, '\0', n);
    if (zero != NULL)
        return error_set(e, STATOR_USAGE, "%s: not a config file: the byte at %zu is zero", name,
                         (size_t)(zero - text));
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        s.at += 3; /* a byte order mark */
    while (s.at < s.end) {
        if (!take_token(&s))
            return STATOR_USAGE;
        CHECK((size_t)(s.out - out) + 2 <= CONFIG_SCAN_BYTES(n));
    }
    *s.out++ = '\n'; /* libconfig wants one behind a comment in the last line */
    *s.out = '\0';
    return STATOR_OK;
}
