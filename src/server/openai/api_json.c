#include "server/openai/api_json.h"

#include <string.h>

bool api_slice_is(struct api_slice s, const char *text) {
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

bool api_json_member(const char *p, size_t n, const char *name, struct api_slice *value) {
    const size_t length = strlen(name);
    bool found = false;
    if (json_scan_value(p, n) == 0 || p[0] != '{')
        return false;
    for (size_t i = 1 + json_scan_blank(p + 1, n - 1); p[i] == '"';) {
        size_t key = json_scan_string(p + i, n - i);
        bool is = key == length + 2 && memcmp(p + i + 1, name, length) == 0;
        i += key;
        i += json_scan_blank(p + i, n - i) + 1; /* the colon */
        i += json_scan_blank(p + i, n - i);
        size_t bytes = json_scan_value(p + i, n - i);
        if (is) {
            *value = (struct api_slice){p + i, bytes};
            found = true;
        }
        i += bytes;
        i += json_scan_blank(p + i, n - i);
        if (p[i] == ',')
            i += 1 + json_scan_blank(p + i + 1, n - i - 1);
    }
    return found;
}

static uint32_t hex4(const char *p) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v = v << 4 | (uint32_t)(p[i] <= '9' ? p[i] - '0' : (p[i] & ~0x20) - 'A' + 10);
    return v;
}

static void put_character(struct api_text *out, uint32_t c) {
    char u[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (n == 1)
        u[0] = (char)c;
    else
        u[0] = (char)((0xF00 >> n & 0xFF) | c >> (6 * (n - 1)));
    for (size_t i = 1; i < n; i++)
        u[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3F));
    api_text_put(out, u, n);
}

/* The escape behind the backslash at p; returns its bytes, or 0. */
static size_t put_escape(const char *p, size_t n, struct api_text *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (p[0] != 'u') {
        api_text_put(out, &to[strchr(from, p[0]) - from], 1);
        return 1;
    }
    uint32_t c = hex4(p + 1);
    if (c == 0 || (c >= 0xDC00 && c < 0xE000))
        return 0;
    if (c < 0xD800 || c >= 0xE000) {
        put_character(out, c);
        return 5;
    }
    uint32_t low = n >= 11 && p[5] == '\\' && p[6] == 'u' ? hex4(p + 7) : 0;
    if (low < 0xDC00 || low >= 0xE000)
        return 0;
    put_character(out, 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00));
    return 11;
}

bool api_json_string(const char *p, size_t n, struct api_text *out) {
    if (n < 2 || json_scan_string(p, n) != n)
        return false;
    const size_t before = out->n;
    for (size_t i = 1; i + 1 < n;) {
        if (p[i] != '\\') {
            api_text_put(out, p + i++, 1);
            continue;
        }
        size_t escape = put_escape(p + i + 1, n - i - 2, out);
        if (escape == 0) {
            out->n = before;
            return false;
        }
        i += 1 + escape;
    }
    return true;
}

void api_json_measure(const char *p, size_t n, uint32_t *depth, uint64_t *values) {
    uint32_t now = 0;
    bool inside = false; /* of a string */
    *depth = 0;
    *values = 1;
    for (size_t i = 0; i < n; i++) {
        const char c = p[i];
        if (inside) {
            i += c == '\\';
            inside = c != '"';
        } else if (c == '"') {
            inside = true;
        } else if (c == '{' || c == '[') {
            now++;
            *depth = now > *depth ? now : *depth;
            ++*values;
        } else if (c == '}' || c == ']') {
            now -= now > 0;
        } else if (c == ',' || c == ':') {
            ++*values;
        }
    }
}
