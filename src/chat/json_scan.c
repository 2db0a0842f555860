/* See json_scan.h. */
#include "chat/json_scan.h"

#include <stdbool.h>
#include <string.h>

size_t json_scan_blank(const char *p, size_t n) {
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\t' || p[i] == '\n' || p[i] == '\r'))
        i++;
    return i;
}

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

size_t json_scan_string(const char *p, size_t n) {
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

size_t json_scan_number(const char *p, size_t n) {
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
    return n > 0 && p[0] == '"' ? json_scan_string(p, n) : json_scan_number(p, n);
}

/* What may come at a place of an object or array. */
enum place { AT_FIRST, AT_ITEM, AT_NEXT }; /* first item or end; item; comma or end */

size_t json_scan_value(const char *p, size_t n) {
    char open[JSON_SCAN_DEPTH];
    size_t depth = 0;
    size_t i = 0;
    enum place place = AT_ITEM;
    for (;;) {
        i += depth > 0 ? json_scan_blank(p + i, n - i) : 0;
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
            size_t name = json_scan_string(p + i, n - i);
            i += name;
            i += json_scan_blank(p + i, n - i);
            if (name == 0 || i == n || p[i++] != ':')
                return 0;
            i += json_scan_blank(p + i, n - i);
        }
        if (i < n && (p[i] == '{' || p[i] == '[')) {
            if (depth == JSON_SCAN_DEPTH)
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
