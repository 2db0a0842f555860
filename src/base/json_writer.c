#include "base/json_writer.h"

#include "base/check.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put(struct json *j, const char *s, size_t n) {
    if (j->file != NULL) {
        if (fwrite(s, 1, n, j->file) != n)
            j->failed = true;
    } else if (j->buffer != NULL && j->length < j->capacity) {
        size_t room = j->capacity - j->length;
        memcpy(j->buffer + j->length, s, n < room ? n : room);
    }
    j->length += n;
}

static void put_text(struct json *j, const char *s) {
    put(j, s, strlen(s));
}

void json_to_file(struct json *j, FILE *file, bool pretty) {
    *j = (struct json){.file = file, .pretty = pretty};
}

void json_to_buffer(struct json *j, char *buffer, size_t capacity, bool pretty) {
    *j = (struct json){.buffer = buffer, .capacity = capacity, .pretty = pretty};
}

void json_to_measure(struct json *j, bool pretty) {
    *j = (struct json){.pretty = pretty, .widest = true};
}

static void new_line(struct json *j) {
    if (!j->pretty)
        return;
    put_text(j, "\n");
    for (int i = 0; i < j->depth; i++)
        put_text(j, "  ");
}

/* Length of the valid UTF-8 character at s (n > 0 bytes are there), or 0. */
static size_t utf8_length(const unsigned char *s, size_t n) {
    if (s[0] < 0x80)
        return 1;
    size_t len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

bool json_is_utf8(const char *value, size_t n) {
    for (size_t i = 0, length; i < n; i += length) {
        length = utf8_length((const unsigned char *)value + i, n - i);
        if (length == 0)
            return false;
    }
    return true;
}

static void put_escaped(struct json *j, const char *value, size_t n) {
    const unsigned char *s = (const unsigned char *)value;
    for (size_t i = 0; i < n;) {
        size_t len = utf8_length(s + i, n - i);
        char escape[8];
        if (len == 0) {
            put_text(j, "\xEF\xBF\xBD");
            i++;
            continue;
        }
        if (s[i] == '"' || s[i] == '\\') {
            snprintf(escape, sizeof escape, "\\%c", s[i]);
            put_text(j, escape);
        } else if (s[i] == '\n') {
            put_text(j, "\\n");
        } else if (s[i] == '\t') {
            put_text(j, "\\t");
        } else if (s[i] == '\r') {
            put_text(j, "\\r");
        } else if (s[i] < 0x20 || s[i] == 0x7F) {
            snprintf(escape, sizeof escape, "\\u%04x", s[i]);
            put_text(j, escape);
        } else {
            put(j, value + i, len);
        }
        i += len;
    }
}

static void put_quoted(struct json *j, const char *value, size_t n) {
    put_text(j, "\"");
    put_escaped(j, value, n);
    put_text(j, "\"");
}

static void begin_value(struct json *j, const char *name) {
    if (j->depth == 0) {
        CHECK(name == NULL && j->length == 0);
        return;
    }
    CHECK((j->kind[j->depth - 1] == '{') == (name != NULL));
    if (!j->first[j->depth - 1])
        put_text(j, ",");
    j->first[j->depth - 1] = false;
    new_line(j);
    if (name != NULL) {
        put_quoted(j, name, strlen(name));
        put_text(j, j->pretty ? ": " : ":");
    }
}

static void open_level(struct json *j, const char *name, char kind) {
    begin_value(j, name);
    CHECK(j->depth < JSON_DEPTH);
    j->kind[j->depth] = kind;
    j->first[j->depth] = true;
    j->depth++;
    put(j, &kind, 1);
}

void json_open_object(struct json *j, const char *name) {
    open_level(j, name, '{');
}

void json_open_array(struct json *j, const char *name) {
    open_level(j, name, '[');
}

void json_close(struct json *j) {
    CHECK(j->depth > 0);
    j->depth--;
    if (!j->first[j->depth])
        new_line(j);
    put_text(j, j->kind[j->depth] == '{' ? "}" : "]");
}

void json_put_string_n(struct json *j, const char *name, const char *value, size_t n) {
    begin_value(j, name);
    put_quoted(j, value, n);
}

void json_put_joined(struct json *j, const char *name, const char *first, size_t n_first, const char *second,
                     size_t n_second) {
    begin_value(j, name);
    put_text(j, "\"");
    put_escaped(j, first, n_first);
    put_escaped(j, second, n_second);
    put_text(j, "\"");
}

void json_put_string(struct json *j, const char *name, const char *value) {
    json_put_string_n(j, name, value, strlen(value));
}

void json_put_u64(struct json *j, const char *name, uint64_t v) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, j->widest ? UINT64_MAX : v);
    begin_value(j, name);
    put_text(j, text);
}

void json_put_i64(struct json *j, const char *name, int64_t v) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, j->widest ? INT64_MIN : v);
    begin_value(j, name);
    put_text(j, text);
}

void json_put_double(struct json *j, const char *name, double v) {
    if (j->widest)
        v = -DBL_MAX;
    if (!isfinite(v)) {
        json_put_null(j, name);
        return;
    }
    char text[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    begin_value(j, name);
    put_text(j, text);
}

void json_put_float(struct json *j, const char *name, float v) {
    char text[32];
    if (j->widest || !isfinite(v)) {
        json_put_double(j, name, (double)v);
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    begin_value(j, name);
    put_text(j, text);
}

void json_put_bool(struct json *j, const char *name, bool v) {
    begin_value(j, name);
    put_text(j, v && !j->widest ? "true" : "false");
}

void json_put_null(struct json *j, const char *name) {
    begin_value(j, name);
    put_text(j, "null");
}

void json_put_raw(struct json *j, const char *name, const char *value, size_t n) {
    begin_value(j, name);
    put(j, value, n);
}

bool json_end(struct json *j) {
    CHECK(j->depth == 0);
    if (j->file != NULL) {
        put_text(j, "\n");
        return !j->failed;
    }
    if (j->buffer != NULL && j->length < j->capacity) {
        j->buffer[j->length] = '\0';
        return true;
    }
    return false;
}
