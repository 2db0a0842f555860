#include "base/json_reader.h"

#include "base/arith.h"

#include <stdio.h>
#include <string.h>

struct reader {
    const char *at;
    const char *end;
    const char *begin;
    bool (*visit)(void *context, const struct json_value *v);
    void *context;
    stator_error *e;
    int depth;
    size_t path_length;
    char path[JSON_READER_PATH];
    char text[JSON_READER_TEXT];
};

static stator_status fail(const struct reader *r, const char *what) {
    size_t line = 1;
    for (const char *c = r->begin; c < r->at; c++)
        line += *c == '\n';
    return error_set(r->e, STATOR_USAGE, "line %zu: %s", line, what);
}

static void skip_blanks(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool next_is(struct reader *r, char c) {
    skip_blanks(r);
    return r->at < r->end && *r->at == c;
}

static bool take(struct reader *r, char c) {
    if (!next_is(r, c))
        return false;
    r->at++;
    return true;
}

static bool take_hex(struct reader *r, uint32_t *v) {
    *v = 0;
    for (int i = 0; i < 4; i++) {
        if (r->at == r->end)
            return false;
        char c = *r->at++;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        *v = *v * 16 + digit;
    }
    return true;
}

/* Decodes the escape after a backslash to UTF-8 and returns its length, or 0 if it is malformed. A surrogate
 * without its other half becomes U+FFFD. */
static size_t take_escape(struct reader *r, char out[4]) {
    static const char letters[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end)
        return 0;
    char c = *r->at++;
    const char *simple = c != '\0' ? strchr(letters, c) : NULL;
    if (simple != NULL) {
        out[0] = meant[simple - letters];
        return 1;
    }
    uint32_t v = 0;
    if (c != 'u' || !take_hex(r, &v))
        return 0;
    if (v >= 0xD800 && v < 0xDC00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        uint32_t low = 0;
        const char *before = r->at;
        r->at += 2;
        if (!take_hex(r, &low))
            return 0;
        if (low >= 0xDC00 && low < 0xE000)
            v = 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
        else
            r->at = before;
    }
    if (v >= 0xD800 && v < 0xE000)
        v = 0xFFFD;
    if (v < 0x80) {
        out[0] = (char)v;
        return 1;
    }
    size_t n = v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--, v >>= 6)
        out[i] = (char)(0x80 | (v & 0x3F));
    out[0] = (char)(lead[n] | v);
    return n;
}

/* A string into r->text, cut at a whole character where it is too long. */
static stator_status take_string(struct reader *r) {
    size_t n = 0;
    bool cut = false;
    if (!take(r, '"'))
        return fail(r, "a string in double quotes is expected");
    while (r->at < r->end && *r->at != '"') {
        char piece[4];
        size_t length = 1;
        piece[0] = *r->at++;
        if ((unsigned char)piece[0] < 0x20)
            return fail(r, "a control character inside a string");
        if (piece[0] == '\\' && (length = take_escape(r, piece)) == 0)
            return fail(r, "an escape that JSON does not have");
        cut = cut || n + length >= JSON_READER_TEXT;
        if (cut)
            continue;
        memcpy(r->text + n, piece, length);
        n += length;
    }
    if (cut)
        while (n > 0 && ((unsigned char)r->text[n - 1] & 0xC0) == 0x80)
            n--;
    if (cut && n > 0 && (unsigned char)r->text[n - 1] >= 0xC0)
        n--;
    r->text[n] = '\0';
    if (r->at == r->end)
        return fail(r, "the text ends inside a string");
    r->at++;
    return STATOR_OK;
}

static bool is_digit(const struct reader *r) {
    return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

static bool digits(struct reader *r) {
    bool some = is_digit(r);
    while (is_digit(r))
        r->at++;
    return some;
}

static stator_status take_number(struct reader *r, struct json_value *v) {
    const char *from = r->at;
    bool whole = *r->at != '-';
    r->at += !whole;
    const char *first = r->at;
    bool ok = digits(r) && (*first != '0' || r->at == first + 1);
    uint64_t number = 0;
    for (const char *c = first; whole && c < r->at; c++)
        whole = arith_mul(number, 10, &number) && arith_add(number, (uint64_t)(*c - '0'), &number);
    if (ok && r->at < r->end && *r->at == '.') {
        r->at++;
        ok = digits(r);
        whole = false;
    }
    if (ok && r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-'))
            r->at++;
        ok = digits(r);
        whole = false;
    }
    if (!ok)
        return fail(r, "a value that JSON does not have");
    v->kind = JSON_NUMBER;
    v->is_u64 = whole;
    v->number = number;
    snprintf(r->text, sizeof r->text, "%.*s", (int)ARITH_MIN(r->at - from, JSON_READER_TEXT - 1), from);
    return STATOR_OK;
}

static bool take_word(struct reader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static stator_status take_scalar(struct reader *r) {
    struct json_value v = {.kind = JSON_NULL, .path = r->path, .text = r->text};
    stator_status st = STATOR_OK;
    skip_blanks(r);
    if (r->at == r->end)
        return fail(r, "the text ends where a value is expected");
    if (*r->at == '"') {
        v.kind = JSON_STRING;
        st = take_string(r);
    } else if (take_word(r, "true") || take_word(r, "false")) {
        v.kind = JSON_BOOL;
        v.truth = r->at[-2] == 'u';
    } else if (!take_word(r, "null")) {
        st = take_number(r, &v);
    }
    if (st != STATOR_OK)
        return st;
    if (r->visit(r->context, &v))
        return STATOR_OK;
    return error_set(r->e, STATOR_USAGE, "unexpected value at %s", r->path);
}

static stator_status take_value(struct reader *r);

/* The members of an object or the items of an array, after the opening bracket. */
static stator_status take_items(struct reader *r, bool object) {
    char close = object ? '}' : ']';
    size_t above = r->path_length;
    if (++r->depth > JSON_READER_DEPTH)
        return fail(r, "objects and arrays are nested too deep");
    if (take(r, close)) {
        r->depth--;
        return STATOR_OK;
    }
    for (size_t i = 0;; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        stator_status st = object ? take_string(r) : STATOR_OK;
        if (st != STATOR_OK)
            return st;
        const char *name = object ? r->text : index;
        int n = snprintf(r->path + above, sizeof r->path - above, "%s%s", above > 0 ? "/" : "", name);
        if (n < 0 || (size_t)n >= sizeof r->path - above)
            return fail(r, "names are too long");
        r->path_length = above + (size_t)n;
        if (object && !take(r, ':'))
            return fail(r, "a colon is expected after a member's name");
        st = take_value(r);
        if (st != STATOR_OK)
            return st;
        if (take(r, ','))
            continue;
        if (!take(r, close))
            return fail(r, object ? "a comma or } is expected" : "a comma or ] is expected");
        r->path_length = above;
        r->path[above] = '\0';
        r->depth--;
        return STATOR_OK;
    }
}

static stator_status take_value(struct reader *r) {
    if (take(r, '{'))
        return take_items(r, true);
    if (take(r, '['))
        return take_items(r, false);
    return take_scalar(r);
}

stator_status json_reader_walk(const char *text, size_t n,
                               bool (*visit)(void *context, const struct json_value *v), void *context,
                               stator_error *e) {
    struct reader r = {
        .at = text, .end = text + n, .begin = text, .visit = visit, .context = context, .e = e};
    stator_status st = take_value(&r);
    if (st != STATOR_OK)
        return st;
    skip_blanks(&r);
    return r.at == r.end ? STATOR_OK : fail(&r, "more text after the value");
}
