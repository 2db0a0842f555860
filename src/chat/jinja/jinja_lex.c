/* Tokens of a template. What the signs - and + and the settings trim_blocks and lstrip_blocks take away of
 * the text around a tag is taken here. */
#include "chat/jinja/jinja_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    struct jinja *j;
    const char *p, *end;
    struct jinja_token *tokens;
    size_t n, capacity;
    bool trim_all; /* the tag before ended with -: white space goes */
    bool at_line;  /* what comes begins a line */
    char brackets[JINJA_DEPTH];
    uint32_t n_brackets;
};

static void add(struct lexer *x, struct jinja_token t) {
    jinja_step(x->j, 1);
    if (x->n == x->capacity) {
        size_t capacity = 2 * x->capacity + 64;
        struct jinja_token *wider = jinja_take(x->j, capacity, sizeof *wider);
        if (x->n > 0)
            memcpy(wider, x->tokens, x->n * sizeof *wider);
        x->tokens = wider;
        x->capacity = capacity;
    }
    t.line = x->j->line;
    x->tokens[x->n++] = t;
}

static bool starts(const struct lexer *x, const char *s) {
    size_t n = strlen(s);
    return (size_t)(x->end - x->p) >= n && memcmp(x->p, s, n) == 0;
}

static void count_lines(struct lexer *x, const char *from, const char *to) {
    for (; from < to; from++)
        x->j->line += *from == '\n';
}

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

/* The text up to the next tag. */
static void lex_text(struct lexer *x) {
    const char *from = x->p, *to = from;
    while (to < x->end &&
           !(to + 1 < x->end && to[0] == '{' && (to[1] == '{' || to[1] == '%' || to[1] == '#')))
        to++;
    const char *keep = from, *until = to;
    if (x->trim_all)
        while (keep < until && blank(*keep))
            keep++;
    if (to < x->end) {
        char sign = to + 2 < x->end ? to[2] : ' ';
        if (sign == '-') {
            while (until > keep && blank(until[-1]))
                until--;
        } else if (sign != '+' && to[1] != '{') { /* lstrip_blocks: what is blank from the line's start on */
            const char *line = to;
            while (line > from && line[-1] != '\n' && blank(line[-1]))
                line--;
            bool begins = line > from ? line[-1] == '\n' : x->at_line;
            if (begins && line < until)
                until = line > keep ? line : keep;
        }
    }
    count_lines(x, from, keep);
    if (until > keep)
        add(x, (struct jinja_token){.kind = JINJA_T_TEXT, .s = {keep, (size_t)(until - keep)}});
    count_lines(x, keep, to);
    x->trim_all = false;
    x->p = to;
}

/* Behind the end of a tag. block: trim_blocks takes a newline. */
static void after_tag(struct lexer *x, char sign, bool block) {
    x->at_line = false;
    x->trim_all = sign == '-';
    if (block && sign != '+' && sign != '-' && x->p < x->end && *x->p == '\n') {
        x->p++;
        x->j->line++;
        x->at_line = true;
    }
}

static void lex_comment(struct lexer *x) {
    const char *from = x->p;
    for (const char *p = from + 2; p + 1 < x->end; p++) {
        if (p[0] != '#' || p[1] != '}')
            continue;
        char sign = p > from + 2 && (p[-1] == '-' || p[-1] == '+') ? p[-1] : ' ';
        count_lines(x, from, p);
        x->p = p + 2;
        after_tag(x, sign, true);
        return;
    }
    jinja_fail(x->j, "a comment {# has no end #}");
}

static uint32_t hex_digits(struct lexer *x, const char *p, const char *end, int n) {
    uint32_t v = 0;
    for (int i = 0; i < n; i++) {
        if (p + i >= end || !isxdigit((unsigned char)p[i]))
            jinja_fail(x->j, "an escape in a string needs %d hexadecimal digits", n);
        v = v << 4 | (uint32_t)(isdigit((unsigned char)p[i]) ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
    }
    return v;
}

/* Texts hold no NUL: what comes of them is written as C strings too. */
static void put_character(struct jinja *j, struct jinja_text *t, uint32_t c) {
    if (c == 0)
        jinja_fail(j, "a string has a NUL in it");
    char out[4];
    size_t n = 0;
    if (c < 0x80) {
        out[n++] = (char)c;
    } else if (c < 0x800) {
        out[n++] = (char)(0xC0 | c >> 6);
        out[n++] = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        out[n++] = (char)(0xE0 | c >> 12);
        out[n++] = (char)(0x80 | (c >> 6 & 63));
        out[n++] = (char)(0x80 | (c & 63));
    } else {
        out[n++] = (char)(0xF0 | c >> 18);
        out[n++] = (char)(0x80 | (c >> 12 & 63));
        out[n++] = (char)(0x80 | (c >> 6 & 63));
        out[n++] = (char)(0x80 | (c & 63));
    }
    jinja_text_put(j, t, out, n);
}

/* One escape at p (behind the backslash); returns what is behind it. */
static const char *lex_escape(struct lexer *x, struct jinja_text *t, const char *p, const char *end) {
    static const char letters[] = "nrtbfav\\'\"", meant[] = "\n\r\t\b\f\a\v\\'\"";
    const char *known = strchr(letters, *p);
    if (known != NULL && *p != '\0') {
        jinja_text_put(x->j, t, &meant[known - letters], 1);
        return p + 1;
    }
    if (*p == '\n')
        return p + 1;
    if (*p == 'x' || *p == 'u' || *p == 'U') {
        int n = *p == 'x' ? 2 : *p == 'u' ? 4 : 8;
        uint32_t c = hex_digits(x, p + 1, end, n);
        if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
            jinja_fail(x->j, "an escape in a string stands for no character");
        put_character(x->j, t, c);
        return p + 1 + n;
    }
    if (*p >= '0' && *p <= '7') {
        uint32_t c = 0;
        for (int n = 0; n < 3 && p < end && *p >= '0' && *p <= '7'; n++)
            c = 8 * c + (uint32_t)(*p++ - '0');
        put_character(x->j, t, c);
        return p;
    }
    jinja_text_puts(x->j, t, "\\");
    return p;
}

static void lex_string(struct lexer *x) {
    char quote = *x->p;
    const char *from = x->p + 1, *to = from;
    while (to < x->end && *to != quote)
        to += *to == '\\' && to + 1 < x->end ? 2 : 1;
    if (to >= x->end)
        jinja_fail(x->j, "a string has no closing %c", quote);
    struct jinja_token token = {.kind = JINJA_T_STRING, .s = {from, (size_t)(to - from)}};
    if (memchr(from, '\\', token.s.n) == NULL) {
        token.v = jinja_of_string(from, token.s.n);
    } else {
        struct jinja_text t = {0};
        for (const char *p = from; p < to;) {
            const char *plain = p;
            while (p < to && *p != '\\')
                p++;
            jinja_text_put(x->j, &t, plain, (size_t)(p - plain));
            if (p < to)
                p = lex_escape(x, &t, p + 1, to);
        }
        token.v = jinja_text_value(&t);
    }
    add(x, token);
    count_lines(x, from, to);
    x->p = to + 1;
}

static bool exponent_at(const struct lexer *x, const char *p) {
    if (p + 1 >= x->end || (*p | 32) != 'e')
        return false;
    p += 1 + (p[1] == '-' || p[1] == '+');
    return p < x->end && isdigit((unsigned char)*p);
}

static void lex_number(struct lexer *x) {
    const char *p = x->p;
    const bool item = p > x->j->in->source && p[-1] == '.'; /* a.0.0: two items */
    const bool based = *p == '0' && p + 1 < x->end && strchr("bBoOxX", p[1]) != NULL && p[1] != '\0';
    bool real = false, power = false;
    if (based)
        for (p += 2; p < x->end && (isalnum((unsigned char)*p) || *p == '_');)
            p++;
    for (; !based && p < x->end; p++) {
        if (!item && !real && *p == '.' && p + 1 < x->end && isdigit((unsigned char)p[1])) {
            real = true;
        } else if (!item && !power && exponent_at(x, p)) {
            real = power = true;
            p++; /* a sign, or a digit */
        } else if (!isdigit((unsigned char)*p) && *p != '_') {
            break;
        }
    }
    struct jinja_token token = {.kind = real ? JINJA_T_FLOAT : JINJA_T_INT, .s = {x->p, (size_t)(p - x->p)}};
    double f = 0;
    if (real ? !jinja_read_float(x->j, token.s, &f)
             : !jinja_read_int(x->j, token.s, based ? 0 : 10, &token.v))
        jinja_fail(x->j, "'%.*s' is no number", (int)(token.s.n < 60 ? token.s.n : 60), token.s.p);
    if (real)
        token.v = jinja_float(f);
    add(x, token);
    x->p = p;
}

static void lex_operator(struct lexer *x) {
    static const char *const two[] = {"**", "//", "==", "!=", "<=", ">="};
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (starts(x, two[i]))
            n = 2;
    char c = *x->p;
    if (n == 1 && strchr("+-*/%~[](){}<>=.:|,", c) == NULL)
        jinja_fail(x->j, "'%c' has no meaning in an expression", c >= 32 && c < 127 ? c : '?');
    if (c == '(' || c == '[' || c == '{') {
        if (x->n_brackets == JINJA_DEPTH)
            jinja_fail(x->j, "brackets are nested more than %d deep", JINJA_DEPTH);
        x->brackets[x->n_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (x->n_brackets == 0 || x->brackets[--x->n_brackets] != c)
            jinja_fail(x->j, "'%c' closes nothing", c);
    }
    add(x, (struct jinja_token){.kind = JINJA_T_OPERATOR, .s = {x->p, n}});
    x->p += n;
}

/* {% raw %}: all up to endraw is text. p: behind the word raw and its %}. */
static void lex_raw(struct lexer *x) {
    const char *from = x->p;
    for (const char *p = from; p + 1 < x->end; p++) {
        if (p[0] != '{' || p[1] != '%')
            continue;
        const char *q = p + 2;
        bool strip = q < x->end && *q == '-';
        q += q < x->end && (*q == '-' || *q == '+');
        while (q < x->end && blank(*q))
            q++;
        if (x->end - q < 6 || memcmp(q, "endraw", 6) != 0)
            continue;
        q += 6;
        while (q < x->end && blank(*q))
            q++;
        char sign = q < x->end && (*q == '-' || *q == '+') ? *q++ : ' ';
        if (x->end - q < 2 || q[0] != '%' || q[1] != '}')
            continue;
        const char *keep = from, *until = p;
        while (x->trim_all && keep < until && blank(*keep))
            keep++;
        while (strip && until > keep && blank(until[-1]))
            until--;
        if (until > keep)
            add(x, (struct jinja_token){.kind = JINJA_T_TEXT, .s = {keep, (size_t)(until - keep)}});
        count_lines(x, from, q);
        x->p = q + 2;
        after_tag(x, sign, true);
        return;
    }
    jinja_fail(x->j, "a block {%% raw %%} has no {%% endraw %%}");
}

/* A tag from its {{ or {% to its end. */
static void lex_tag(struct lexer *x) {
    const bool block = x->p[1] == '%';
    const size_t first = x->n;
    x->p += 2;
    if (x->p < x->end && (*x->p == '-' || *x->p == '+'))
        x->p++;
    add(x, (struct jinja_token){.kind = block ? JINJA_T_BLOCK : JINJA_T_OUTPUT});
    const char *ends[] = {block ? "-%}" : "-}}", block ? "+%}" : "+}}", block ? "%}" : "}}"};
    for (x->n_brackets = 0; x->p < x->end;) {
        for (int i = 0; i < 3 && x->n_brackets == 0; i++) {
            if (!starts(x, ends[i]))
                continue;
            x->p += strlen(ends[i]);
            after_tag(x, ends[i][0], block);
            if (block && x->n == first + 2 && jinja_is(x->tokens[first + 1].s, "raw")) {
                x->n = first;
                lex_raw(x);
                return;
            }
            add(x, (struct jinja_token){.kind = block ? JINJA_T_BLOCK_END : JINJA_T_OUTPUT_END});
            return;
        }
        unsigned char c = (unsigned char)*x->p;
        if (blank(*x->p)) {
            x->j->line += c == '\n';
            x->p++;
        } else if (isalpha(c) || c == '_' || c >= 0x80) {
            const char *from = x->p;
            while (x->p < x->end &&
                   (isalnum((unsigned char)*x->p) || *x->p == '_' || (unsigned char)*x->p >= 0x80))
                x->p++;
            add(x, (struct jinja_token){.kind = JINJA_T_NAME, .s = {from, (size_t)(x->p - from)}});
        } else if (isdigit(c)) {
            lex_number(x);
        } else if (c == '"' || c == '\'') {
            lex_string(x);
        } else {
            lex_operator(x);
        }
    }
    jinja_fail(x->j, "a tag %s has no end", block ? "{%" : "{{");
}

struct jinja_token *jinja_lex(struct jinja *j, size_t *n) {
    struct lexer x = {.j = j, .p = j->in->source, .end = j->in->source + j->in->length, .at_line = true};
    /* Newlines are \n, and one at the end is no part of the text. */
    if (j->in->length > 0 && memchr(x.p, '\r', j->in->length) != NULL) {
        char *copy = jinja_take(j, j->in->length, 1);
        size_t to = 0;
        for (const char *p = x.p; p < x.end; p++)
            if (*p != '\r' || p + 1 == x.end || p[1] != '\n')
                copy[to++] = *p == '\r' ? '\n' : *p;
        x.p = copy;
        x.end = copy + to;
    }
    if (x.end > x.p && x.end[-1] == '\n')
        x.end--;
    j->line = 1;
    while (x.p < x.end) {
        lex_text(&x);
        if (x.p == x.end)
            break;
        if (x.p[1] == '#')
            lex_comment(&x);
        else
            lex_tag(&x);
    }
    add(&x, (struct jinja_token){.kind = JINJA_T_END});
    *n = x.n;
    return x.tokens;
}
