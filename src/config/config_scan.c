#include "config/config_scan.h"

#include "base/check.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEEPEST  8    /* brackets in brackets: a config needs two */
#define SETTINGS 2000 /* libconfig compares each new name with all before */
#define SHOWN    24   /* characters of the text in errors */

enum token {
    TOKEN_NAME,
    TOKEN_EQUALS,
    TOKEN_TEXT,
    TOKEN_SCALAR,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_SEPARATOR,
    TOKEN_END
};

/* What must come next. */
enum state {
    STATE_NAME,      /* a name, or the end of the group */
    STATE_EQUALS,    /* after a name */
    STATE_VALUE,     /* after = */
    STATE_SEPARATOR, /* after a value: ; or , or as STATE_NAME */
    STATE_FIRST,     /* after [ or (: an element or the end */
    STATE_ELEMENT,   /* after a comma in a list */
    STATE_COMMA      /* after an element */
};

struct scan {
    const char *at;
    const char *end;
    char *out;
    const char *name;
    stator_error *e;
    unsigned line;
    unsigned settings;
    unsigned depth;
    char open[DEEPEST]; /* the brackets around this place */
    enum state state;
    bool after_text;   /* texts next to each other are one text */
    const char *start; /* of the token */
};

static bool failed(struct scan *s, unsigned line, const char *what) {
    error_set(s->e, STATOR_USAGE, "%s:%u: %s", s->name, line, what);
    return false;
}

/* "found X; expected .." for the token that begins at s->start. */
static bool unexpected(struct scan *s) {
    static const char *const expected[] = {
        [STATE_NAME] = "the name of a section or key",
        [STATE_EQUALS] = "= after a name",
        [STATE_VALUE] = "a value: a number, true, false, text in quotes, a list or { }",
        [STATE_SEPARATOR] = "; or the next name or }",
        [STATE_FIRST] = "a list's element or its end",
        [STATE_ELEMENT] = "a list's element",
        [STATE_COMMA] = "a comma or the list's end",
    };
    char found[SHOWN + 1];
    size_t n = 0;
    for (const char *c = s->start; n < SHOWN && c < s->end && *c != '\n' && *c != '\r'; c++)
        found[n++] = (unsigned char)*c < 0x20 || *c == 0x7F ? '?' : *c;
    found[n] = '\0';
    error_set(s->e, STATOR_USAGE, "%s:%u: syntax error: found %s%s%s; expected %s", s->name, s->line,
              n > 0 ? "`" : "", n > 0 ? found : "the end of the file", n > 0 ? "`" : "", expected[s->state]);
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

static bool take_text(struct scan *s) {
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

/* Skips blanks and comments. */
static bool take_blanks(struct scan *s) {
    while (s->at < s->end) {
        if (*s->at == '#' || (*s->at == '/' && peek(s, 1) == '/')) {
            while (s->at < s->end && *s->at != '\n')
                take(s);
        } else if (*s->at == '/' && peek(s, 1) == '*') {
            if (!take_block_comment(s))
                return false;
        } else if (strchr(" \t\f\r\n", *s->at) != NULL) {
            take(s);
        } else {
            break;
        }
    }
    return true;
}

static size_t take_digits(struct scan *s, bool hex) {
    size_t n = 0;
    for (; s->at < s->end && (hex ? isxdigit((unsigned char)*s->at) : isdigit((unsigned char)*s->at)); n++)
        take(s);
    return n;
}

/* The integer from s->start to here gets the L that makes it 64 bits wide for libconfig. */
static bool widen(struct scan *s, bool hex) {
    char digits[40];
    size_t n = (size_t)(s->at - s->start);
    bool fits = n < sizeof digits;
    long long v = 0;
    if (fits) {
        memcpy(digits, s->start, n);
        digits[n] = '\0';
        errno = 0;
        v = strtoll(digits, NULL, hex ? 16 : 10);
        fits = errno == 0;
    }
    if (!fits)
        return failed(s, s->line, "a number beyond 64 bits; write a seed above 2^63-1 as text, in quotes");
    if (peek(s, 0) == 'L') {
        take(s);
        if (peek(s, 0) == 'L')
            take(s);
    } else if (v > INT_MAX || v < INT_MIN) {
        *s->out++ = 'L';
    }
    return true;
}

static bool take_number(struct scan *s) {
    bool hex = false;
    bool whole = true;
    if (*s->at == '+' || *s->at == '-')
        take(s);
    else if (*s->at == '0' && (peek(s, 1) == 'x' || peek(s, 1) == 'X')) {
        hex = true;
        take(s);
        take(s);
    }
    size_t digits = take_digits(s, hex);
    if (!hex && peek(s, 0) == '.') {
        whole = false;
        take(s);
        digits += take_digits(s, false);
    }
    if (!hex && digits > 0 && (peek(s, 0) == 'e' || peek(s, 0) == 'E')) {
        whole = false;
        take(s);
        if (peek(s, 0) == '+' || peek(s, 0) == '-')
            take(s);
        digits = take_digits(s, false);
    }
    if (digits == 0)
        return failed(s, s->line, "syntax error: a number without digits");
    if (whole && !widen(s, hex))
        return false;
    if (isalpha((unsigned char)peek(s, 0)))
        return failed(s, s->line,
                      "a number with letters after it; sizes with a unit are text: write \"2GiB\" in quotes");
    return true;
}

static void take_name(struct scan *s, enum token *token) {
    while (s->at < s->end &&
           (isalnum((unsigned char)*s->at) || *s->at == '_' || *s->at == '-' || *s->at == '*'))
        take(s);
    size_t n = (size_t)(s->at - s->start);
    bool truth = (n == 4 && strncasecmp(s->start, "true", n) == 0) ||
                 (n == 5 && strncasecmp(s->start, "false", n) == 0);
    *token = truth ? TOKEN_SCALAR : TOKEN_NAME;
}

static bool take_bracket(struct scan *s, enum token *token) {
    char c = *s->at;
    *token = strchr("{[(", c) != NULL ? TOKEN_OPEN : TOKEN_CLOSE;
    if (*token == TOKEN_OPEN && s->depth == DEEPEST)
        return failed(s, s->line, "brackets are nested too deep; a config is sections = { key = value; .. }");
    take(s);
    if (c == '[' || c == ']')
        s->out[-1] = c == '[' ? '(' : ')';
    return true;
}

static bool take_token(struct scan *s, enum token *token) {
    if (!take_blanks(s))
        return false;
    s->start = s->at;
    if (s->at == s->end) {
        *token = TOKEN_END;
        return true;
    }
    char c = *s->at;
    if (c == '"') {
        *token = TOKEN_TEXT;
        return take_text(s);
    }
    if (c == '.' && s->state == STATE_EQUALS)
        return failed(s, s->line,
                      "syntax error: a dot after a name; a key stands in its section: write memory = "
                      "{ context = 8192 } for memory.context");
    if (isdigit((unsigned char)c) || c == '.' || c == '-' || c == '+') {
        *token = TOKEN_SCALAR;
        return take_number(s);
    }
    if (isalpha((unsigned char)c) || c == '*') {
        take_name(s, token);
        return true;
    }
    if (strchr("{[(}])", c) != NULL)
        return take_bracket(s, token);
    if (c == '@')
        return failed(s, s->line, "@include and the like are not read; put every key into one file");
    if (strchr("=:;,", c) == NULL)
        return unexpected(s);
    *token = c == '=' || c == ':' ? TOKEN_EQUALS : TOKEN_SEPARATOR;
    take(s);
    return true;
}

/* A value has ended: what follows depends on what it stands in. */
static void end_value(struct scan *s) {
    s->state = s->depth == 0 || s->open[s->depth - 1] == '{' ? STATE_SEPARATOR : STATE_COMMA;
}

static bool on_open(struct scan *s) {
    if (s->state != STATE_VALUE && s->state != STATE_FIRST && s->state != STATE_ELEMENT)
        return unexpected(s);
    s->open[s->depth++] = *s->start;
    s->state = *s->start == '{' ? STATE_NAME : STATE_FIRST;
    return true;
}

static bool on_close(struct scan *s) {
    char open = s->depth > 0 ? s->open[s->depth - 1] : '\0';
    bool match = (open == '{' && *s->start == '}') || (open == '[' && *s->start == ']') ||
                 (open == '(' && *s->start == ')');
    bool here = open == '{' ? s->state == STATE_NAME || s->state == STATE_SEPARATOR
                            : s->state == STATE_FIRST || s->state == STATE_COMMA;
    if (!match || !here)
        return unexpected(s);
    s->depth--;
    end_value(s);
    return true;
}

static bool on_separator(struct scan *s) {
    if (s->state == STATE_COMMA && *s->start == ',')
        s->state = STATE_ELEMENT;
    else if (s->state == STATE_SEPARATOR)
        s->state = STATE_NAME;
    else
        return unexpected(s);
    return true;
}

static bool on_token(struct scan *s, enum token token) {
    bool value = s->state == STATE_VALUE || s->state == STATE_FIRST || s->state == STATE_ELEMENT;
    if ((token == TOKEN_EQUALS || token == TOKEN_SEPARATOR) && ++s->settings > SETTINGS)
        return failed(s, s->line, "more settings than a config can have");
    switch (token) {
    case TOKEN_NAME:
        if (s->state != STATE_NAME && s->state != STATE_SEPARATOR)
            return unexpected(s);
        s->state = STATE_EQUALS;
        return true;
    case TOKEN_EQUALS:
        if (s->state != STATE_EQUALS)
            return unexpected(s);
        s->state = STATE_VALUE;
        return true;
    case TOKEN_TEXT:
    case TOKEN_SCALAR:
        if (!value && !(token == TOKEN_TEXT && s->after_text))
            return unexpected(s);
        end_value(s);
        return true;
    case TOKEN_OPEN:
        return on_open(s);
    case TOKEN_CLOSE:
        return on_close(s);
    case TOKEN_SEPARATOR:
        return on_separator(s);
    case TOKEN_END:
        return (s->depth == 0 && (s->state == STATE_NAME || s->state == STATE_SEPARATOR)) || unexpected(s);
    }
    return false;
}

stator_status config_scan(const char *text, size_t n, const char *name, char *out, stator_error *e) {
    struct scan s = {
        .at = text, .end = text + n, .out = out, .name = name, .e = e, .line = 1, .state = STATE_NAME};
    const char *zero = memchr(text, '\0', n);
    enum token token = TOKEN_SEPARATOR;
    if (zero != NULL)
        return error_set(e, STATOR_USAGE, "%s: not a config file: the byte at %zu is zero", name,
                         (size_t)(zero - text));
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        s.at += 3; /* a byte order mark */
    while (token != TOKEN_END) {
        if (!take_token(&s, &token) || !on_token(&s, token))
            return STATOR_USAGE;
        s.after_text = token == TOKEN_TEXT;
        CHECK((size_t)(s.out - out) + 2 <= CONFIG_SCAN_BYTES(n));
    }
    *s.out++ = '\n'; /* libconfig needs one after a comment in the last line */
    *s.out = '\0';
    return STATOR_OK;
}
