/* Whether a text is one JSON value, for values that models write between tags. */
#include "chat/chat_inside.h"

#include <string.h>

#define DEPTH 64

static size_t string_length(const char *p, size_t n) {
    for (size_t i = 1; i < n; i++) {
        if (p[i] == '"')
            return i + 1;
        if ((unsigned char)p[i] < 0x20)
            return 0;
        if (p[i] != '\\')
            continue;
        i++;
        if (i == n || p[i] == '\0' || strchr("\"\\/bfnrtu", p[i]) == NULL)
            return 0;
        for (size_t k = 1; p[i] == 'u' && k <= 4; k++)
            if (i + k >= n || p[i + k] == '\0' || strchr("0123456789abcdefABCDEF", p[i + k]) == NULL)
                return 0;
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
    size_t i = n > 0 && p[0] == '-';
    const size_t whole = digits(p + i, n - i);
    if (whole == 0 || (whole > 1 && p[i] == '0'))
        return 0;
    i += whole;
    if (i < n && p[i] == '.') {
        const size_t part = digits(p + i + 1, n - i - 1);
        if (part == 0)
            return 0;
        i += 1 + part;
    }
    if (i < n && (p[i] == 'e' || p[i] == 'E')) {
        const size_t sign = i + 1 < n && (p[i + 1] == '+' || p[i + 1] == '-');
        const size_t part = digits(p + i + 1 + sign, n - i - 1 - sign);
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

bool chat_is_json(const char *p, size_t n) {
    char open[DEPTH];
    size_t depth = 0, i = 0;
    enum { FIRST, ITEM, NEXT } place = ITEM; /* an item or the end; an item; a comma or the end */
    for (;;) {
        i += chat_blank(p + i, n - i);
        if (depth == 0 && place == NEXT)
            return i == n;
        if (i == n)
            return false;
        if (depth > 0 && place != ITEM && p[i] == (open[depth - 1] == '{' ? '}' : ']')) {
            i++;
            depth--;
            place = NEXT;
            continue;
        }
        if (place == NEXT) {
            if (p[i++] != ',')
                return false;
            place = ITEM;
            continue;
        }
        if (depth > 0 && open[depth - 1] == '{') {
            const size_t key = p[i] == '"' ? string_length(p + i, n - i) : 0;
            i += key;
            i += chat_blank(p + i, n - i);
            if (key == 0 || i == n || p[i++] != ':')
                return false;
            i += chat_blank(p + i, n - i);
        }
        if (i < n && (p[i] == '{' || p[i] == '[')) {
            if (depth == DEPTH)
                return false;
            open[depth++] = p[i++];
            place = FIRST;
            continue;
        }
        const size_t scalar = scalar_length(p + i, n - i);
        if (scalar == 0)
            return false;
        i += scalar;
        place = NEXT;
    }
}
