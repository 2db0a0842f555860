#include "base/units.h"

#include "base/arith.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit units[] = {
    {"", 1},
    {"B", 1},
    {"K", 1ull << 10},
    {"KiB", 1ull << 10},
    {"KB", 1000ull},
    {"M", 1ull << 20},
    {"MiB", 1ull << 20},
    {"MB", 1000000ull},
    {"G", 1ull << 30},
    {"GiB", 1ull << 30},
    {"GB", 1000000000ull},
    {"T", 1ull << 40},
    {"TiB", 1ull << 40},
    {"TB", 1000000000000ull},
};

static const char *skip_blanks(const char *s) {
    while (*s == ' ' || *s == '\t')
        s++;
    return s;
}

/* The fraction .ddd of factor, in integers: floating point would round large sizes. */
static const char *parse_fraction(const char *s, uint64_t factor, uint64_t *part) {
    uint64_t scale = 1;
    uint64_t digits = 0;
    for (; isdigit((unsigned char)*s); s++) {
        if (scale < 1000000) {
            digits = digits * 10 + (uint64_t)(*s - '0');
            scale *= 10;
        }
    }
    *part = factor / scale * digits + factor % scale * digits / scale;
    return s;
}

bool units_parse_size(const char *text, uint64_t *bytes) {
    const char *s = skip_blanks(text);
    if (!isdigit((unsigned char)*s))
        return false;
    uint64_t whole = 0;
    for (; isdigit((unsigned char)*s); s++)
        if (!arith_mul(whole, 10, &whole) || !arith_add(whole, (uint64_t)(*s - '0'), &whole))
            return false;
    const char *fraction = NULL;
    if (*s == '.') {
        fraction = ++s;
        if (!isdigit((unsigned char)*s))
            return false;
        while (isdigit((unsigned char)*s))
            s++;
    }
    s = skip_blanks(s);
    size_t n = strlen(s);
    while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strlen(units[i].name) != n || strncasecmp(units[i].name, s, n) != 0)
            continue;
        uint64_t part = 0;
        uint64_t v = 0;
        if (fraction != NULL)
            parse_fraction(fraction, units[i].factor, &part);
        if (!arith_mul(whole, units[i].factor, &v) || !arith_add(v, part, &v) || v > INT64_MAX)
            return false;
        *bytes = v;
        return true;
    }
    return false;
}

const char *units_format_size(uint64_t bytes, char *out) {
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(out, UNITS_TEXT, "%" PRIu64 " B", bytes);
        return out;
    }
    double v = (double)bytes / 1024;
    size_t u = 0;
    while (v >= 1023.995 && u + 1 < sizeof names / sizeof names[0]) {
        v /= 1024;
        u++;
    }
    snprintf(out, UNITS_TEXT, "%.2f %s", v, names[u]);
    return out;
}
