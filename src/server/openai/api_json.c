#include "server/openai/api_json.h"

#include <string.h>

bool api_slice_is(struct api_slice s, const char *text) {
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

size_t api_json_blank(const char *p, size_t n) {
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\t' || p[i] == '\n' || p[i] == '\r'))
        i++;
    return i;
}

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Bytes of the string at p with its quotes; 0: none. */
static size_t string_length(const char *p, size_t n) {
    if (n == 0 || p[0] != '"')
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (p[i] == '"')
            return i + 1;
        if ((unsigned char)p[i] < 0x20)
            return 0;
        if (p[i] != '\\')
            continue;
        if (++i == n)
            return 0;
        if (p[i] == 'u') {
            if (n - i < 5 || !is_hex(p[i + 1]) || !is_hex(p[i + 2]) || !is_hex(p[i + 3]) || !is_hex(p[i + 4]))
                return 0;
            i += 4;
        } else if (strchr("\"\\/bfnrt", p[i]) == NULL || p[i] == '\0') {
            return 0;
        }
    }
    return 0;
}

static size_t digits(const char *p, size_t n) {
    size_t i = 0;
    while (i < n && p[i] >= '0' && p[i] <= '9')
        i++;
    return i;
}

static size_t number_length(const char *p, size_t n) {
    size_t i = n > 0 && p[0] == '-' ? 1 : 0;
    size_t whole = digits(p + i, n - i);
    if (whole == 0 || (whole > 1 && p[i] == '0'))
        return 0;
    i += whole;
    if (i < n && p[i] == '.') {
        size_t part = digits(p + i + 1, n - i - 1);
        if (part == 0)
            return 0;
        i += 1 + part;
    }
    if (i < n && (p[i] == 'e' || p[i] == 'E')) {
        size_t sign = i + 1 < n && (p[i + 1] == '+' || p[i + 1] == '-') ? 1 : 0;
        size_t part = digits(p + i + 1 + sign, n - i - 1 - sign);
        if (part == 0)
            return 0;
        i += 1 + sign + part;
    }
    return i;
}

static size_t scalar_length(const char *p, size_t n) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++)
        if (n >= strlen(words[i]) && memcmp(p, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    return n > 0 && p[0] == '"' ? string_length(p, n) : number_length(p, n);
}

/* What may come at a place of an object or array. */
enum place { AT_FIRST, AT_ITEM, AT_NEXT }; /* first item or end; item; comma or end */

size_t api_json_value(const char *p, size_t n) {
    char open[API_JSON_DEPTH];
    size_t depth = 0;
    size_t i = 0;
    enum place place = AT_ITEM;
    for (;;) {
        i += depth > 0 ? api_json_blank(p + i, n - i) : 0;
        if (i == n)
            return 0;
        if (depth > 0 && place != AT_ITEM && p[i] == (open[depth - 1] == '{' ? '}' : ']')) {
            i++;
            place = AT_NEXT;
            if (--depth == 0)
                return i;
            continue;
        }
        if (place == AT_NEXT) {
            if (p[i++] != ',')
                return 0;
            place = AT_ITEM;
            continue;
        }
        if (depth > 0 && open[depth - 1] == '{') {
            size_t name = string_length(p + i, n - i);
            i += name;
            i += api_json_blank(p + i, n - i);
            if (name == 0 || i == n || p[i++] != ':')
                return 0;
            i += api_json_blank(p + i, n - i);
        }
        if (i < n && (p[i] == '{' || p[i] == '[')) {
            if (depth == API_JSON_DEPTH)
                return 0;
            open[depth++] = p[i++];
            place = AT_FIRST;
            continue;
        }
        size_t scalar = scalar_length(p + i, n - i);
        if (scalar == 0)
            return 0;
        i += scalar;
        place = AT_NEXT;
        if (depth == 0)
            return i;
    }
}

bool api_json_member(const char *p, size_t n, const char *name, struct api_slice *value) {
    const size_t length = strlen(name);
    bool found = false;
    if (api_json_value(p, n) == 0 || p[0] != '{')
        return false;
    for (size_t i = 1 + api_json_blank(p + 1, n - 1); p[i] == '"';) {
        size_t key = string_length(p + i, n - i);
        bool is = key == length + 2 && memcmp(p + i + 1, name, length) == 0;
        i += key;
        i += api_json_blank(p + i, n - i) + 1; /* the colon */
        i += api_json_blank(p + i, n - i);
        size_t bytes = api_json_value(p + i, n - i);
        if (is) {
            *value = (struct api_slice){p + i, bytes};
            found = true;
        }
        i += bytes;
        i += api_json_blank(p + i, n - i);
        if (p[i] == ',')
            i += 1 + api_json_blank(p + i + 1, n - i - 1);
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
    if (n < 2 || string_length(p, n) != n)
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
