/* Numbers of the Jinja as Python reads, rounds and writes them. An integer beyond 64 bits is a FLOAT with its
 * digits (jinja_value.h). */
#include "chat/jinja/jinja_parse.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 400 /* of a number in a text, at most */

struct jinja_value jinja_whole(struct jinja *j, double f) {
    if (fabs(f) < 9e18)
        return jinja_int((int64_t)f);
    const int n = snprintf(NULL, 0, "%.0f", f);
    char *text = jinja_take(j, (size_t)n + 1, 1);
    snprintf(text, (size_t)n + 1, "%.0f", f);
    return (struct jinja_value){.kind = JINJA_FLOAT, .f = f, .s = {text, (size_t)n}};
}

static int digit_of(char c) {
    return isdigit((unsigned char)c) ? c - '0' : isalpha((unsigned char)c) ? (c | 32) - 'a' + 10 : 99;
}

/* A sign and what follows it, without underscores; each of these stands between two digits. out: DIGITS + 2
 * bytes; returns its length, 0: not a number's text. */
static size_t plain(struct jinja_string s, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (n > DIGITS)
            return 0;
        if (s.p[i] != '_')
            out[n++] = s.p[i];
        else if (i == 0 || i + 1 == s.n || digit_of(s.p[i - 1]) == 99 || digit_of(s.p[i + 1]) == 99)
            return 0;
    }
    out[n] = '\0';
    return n;
}

bool jinja_read_int(struct jinja *j, struct jinja_string s, unsigned base, struct jinja_value *v) {
    static const char letters[] = "bBoOxX";
    char text[DIGITS + 2];
    const size_t n = plain(jinja_strip(j, s), text);
    const bool negative = n > 0 && text[0] == '-';
    size_t at = n > 0 && (text[0] == '-' || text[0] == '+');
    if (n - at > 2 && text[at] == '0' && strchr(letters, text[at + 1]) != NULL) {
        const char c = (char)(text[at + 1] | 32);
        const unsigned meant = c == 'b' ? 2 : c == 'o' ? 8 : 16;
        if (base == meant || base == 0) {
            base = meant;
            at += 2;
        }
    }
    base = base == 0 ? 10 : base;
    if (at == n)
        return false;
    while (at + 1 < n && text[at] == '0')
        at++;
    uint64_t sum = 0;
    bool fits = true;
    for (size_t i = at; i < n; i++) {
        const int d = digit_of(text[i]);
        if (d >= (int)base)
            return false;
        fits = fits && !__builtin_mul_overflow(sum, (uint64_t)base, &sum) &&
               !__builtin_add_overflow(sum, (uint64_t)d, &sum);
    }
    if (fits && sum <= (uint64_t)INT64_MAX + negative) {
        *v = jinja_int(negative ? (int64_t)(0 - sum) : (int64_t)sum);
        return true;
    }
    if (base != 10)
        jinja_fail(j, "a number is too large");
    char *digits = jinja_take(j, n - at + 2, 1);
    digits[0] = '-';
    memcpy(digits + negative, text + at, n - at);
    *v = (struct jinja_value){
        .kind = JINJA_FLOAT, .f = strtod(digits, NULL), .s = {digits, n - at + negative}};
    return true;
}

bool jinja_read_float(struct jinja *j, struct jinja_string s, double *f) {
    static const char *const names[] = {"inf", "infinity", "nan"};
    char text[DIGITS + 2];
    const size_t n = plain(jinja_strip(j, s), text);
    size_t at = n > 0 && (text[0] == '-' || text[0] == '+'), digits = 0;
    if (n == 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == n - at) {
            size_t k = 0;
            while (k < n - at && tolower((unsigned char)text[at + k]) == names[i][k])
                k++;
            if (k == n - at) {
                *f = strtod(text, NULL);
                return true;
            }
        }
    for (bool point = false; at < n && (isdigit((unsigned char)text[at]) || (text[at] == '.' && !point));
         at++) {
        point |= text[at] == '.';
        digits += text[at] != '.';
    }
    if (digits > 0 && at < n && (text[at] | 32) == 'e') {
        at += 1 + (at + 1 < n && (text[at + 1] == '-' || text[at + 1] == '+'));
        if (at == n)
            return false;
        while (at < n && isdigit((unsigned char)text[at]))
            at++;
    }
    if (digits == 0 || at < n)
        return false;
    *f = strtod(text, NULL);
    return true;
}

double jinja_round(double f, int64_t digits) {
    char text[400 + 20];
    if (!isfinite(f) || digits > 17 + 308)
        return f;
    if (digits < -308)
        return 0;
    if (digits < 0)
        return rint(f / pow(10, (double)-digits)) * pow(10, (double)-digits);
    const int n = snprintf(text, sizeof text, "%.*f", digits > 60 ? 60 : (int)digits, f);
    return digits > 60 || n < 0 || (size_t)n >= sizeof text ? f : strtod(text, NULL);
}

struct jinja_value jinja_round_int(struct jinja *j, int64_t i, int64_t digits) {
    if (digits >= 0)
        return jinja_int(i);
    if (digits < -19)
        return jinja_int(0);
    __int128 by = 1;
    for (; digits < 0; digits++)
        by *= 10;
    const __int128 size = i < 0 ? -(__int128)i : i, rest = size % by, down = size - rest;
    const bool up = 2 * rest > by || (2 * rest == by && down / by % 2 != 0);
    const __int128 rounded = down + (up ? by : 0);
    if (rounded <= INT64_MAX)
        return jinja_int(i < 0 ? -(int64_t)rounded : (int64_t)rounded);
    char digit[40], *p = digit + sizeof digit;
    for (__int128 left = rounded; left > 0; left /= 10)
        *--p = (char)('0' + (int)(left % 10));
    if (i < 0)
        *--p = '-';
    const size_t n = (size_t)(digit + sizeof digit - p);
    char *text = jinja_take(j, n + 1, 1);
    memcpy(text, p, n);
    return (struct jinja_value){.kind = JINJA_FLOAT, .f = strtod(text, NULL), .s = {text, n}};
}

struct jinja_value jinja_power(struct jinja *j, double x, double y) {
    if (x == 0 && y < 0)
        jinja_fail(j, "0 has no negative power");
    const double f = pow(x, y);
    if (isfinite(x) && isfinite(y) && !isfinite(f))
        jinja_fail(j, isnan(f) ? "a negative number has no real power like this" : "a number is too large");
    return jinja_float(f);
}

struct jinja_value jinja_calculate(struct jinja *j, enum jinja_operator op, double x, double y) {
    if (op == JINJA_OP_ADD)
        return jinja_float(x + y);
    if (op == JINJA_OP_SUBTRACT)
        return jinja_float(x - y);
    if (op == JINJA_OP_MULTIPLY)
        return jinja_float(x * y);
    if (op == JINJA_OP_POWER)
        return jinja_power(j, x, y);
    if (y == 0)
        jinja_fail(j, "a division by zero");
    if (op == JINJA_OP_DIVIDE)
        return jinja_float(x / y);
    /* As Python: the rest has the divisor's sign, and the quotient is what belongs to it. */
    double rest = fmod(x, y);
    const double quotient = (x - rest) / y - (rest != 0 && (y < 0) != (rest < 0));
    rest = rest == 0 ? copysign(0, y) : (y < 0) != (rest < 0) ? rest + y : rest;
    if (op == JINJA_OP_MODULO)
        return jinja_float(rest);
    double whole = floor(quotient);
    whole += quotient - whole > 0.5;
    return jinja_float(quotient != 0 ? whole : copysign(0, x / y));
}
