/* Numbers: any, or without an exponent between bounds, compared digit by digit. */
#include "grammar/json_schema_parts.h"

#include "base/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS  400u
#define MAX_DIVISOR 256

/* A bound: digits before and behind the point, without needless zeros. */
struct decimal {
    char whole[MAX_DIGITS], fraction[MAX_DIGITS];
    bool negative, strict;
};

static uint32_t digits(struct json_schema *c, char first, char last, uint32_t lo, uint32_t hi) {
    if (first > last)
        return lo == 0 ? REGEX_EMPTY : REGEX_DEAD;
    uint32_t range[2] = {(uint8_t)first, (uint8_t)last};
    return regex_make_repeat(c->r, regex_make_points(c->r, range, 1, REGEX_RAW), lo, hi);
}

static bool read_decimal(struct json_schema *c, const json_t *s, const char *key, struct decimal *d) {
    char text[MAX_DIGITS];
    const json_t *v = json_object_get(s, key);
    int n = 0;
    if (json_is_integer(v)) {
        n = snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    } else if (json_is_real(v)) {
        double x = json_real_value(v);
        for (int precision = 0; precision <= 30; precision++) {
            n = snprintf(text, sizeof text, "%.*f", precision, x);
            if (n > 0 && (size_t)n < sizeof text && strtod(text, NULL) == x)
                break;
            n = 0;
        }
    }
    if (n <= 0) {
        json_schema_refuse(c, s, key, "a number is expected, with at most 30 digits behind the point");
        return false;
    }
    char *at = text;
    d->negative = *at == '-';
    at += d->negative;
    char *point = strchr(at, '.');
    snprintf(d->fraction, sizeof d->fraction, "%s", point != NULL ? point + 1 : "");
    if (point != NULL)
        *point = '\0';
    snprintf(d->whole, sizeof d->whole, "%s", at);
    for (size_t k = strlen(d->fraction); k > 0 && d->fraction[k - 1] == '0'; k--)
        d->fraction[k - 1] = '\0';
    return true;
}

/* Digits behind the point that are above (or below) those of f, or equal if that does. After the point. */
static uint32_t fraction(struct json_schema *c, const char *f, bool above, bool strict) {
    if (*f == '\0') {
        if (above)
            return strict ? json_schema_list(c, digits(c, '0', '9', 0, REGEX_FOREVER),
                                             digits(c, '1', '9', 1, 1), digits(c, '0', '9', 0, REGEX_FOREVER))
                          : digits(c, '0', '9', 0, REGEX_FOREVER);
        return strict ? REGEX_DEAD : digits(c, '0', '0', 0, REGEX_FOREVER);
    }
    uint32_t others = above ? digits(c, (char)(*f + 1), '9', 1, 1) : digits(c, '0', (char)(*f - 1), 1, 1);
    uint32_t rest = regex_make_concat(c->r, others, digits(c, '0', '9', 0, REGEX_FOREVER));
    uint32_t same = regex_make_concat(c->r, digits(c, *f, *f, 1, 1), fraction(c, f + 1, above, strict));
    uint32_t node = json_schema_or(c, rest, same);
    return above ? node : json_schema_or(c, node, REGEX_EMPTY);
}

/* The part from the point on, behind a whole part that is equal to that of the bound. */
static uint32_t behind_point(struct json_schema *c, const struct decimal *d, bool above, bool integer) {
    const char *f = d->fraction;
    bool may_be_whole = above ? *f == '\0' && !d->strict : *f != '\0' || !d->strict;
    if (integer)
        return !may_be_whole ? REGEX_DEAD : json_schema_or(c, json_schema_text(c, ".0"), REGEX_EMPTY);
    /* At least one digit follows a point. */
    uint32_t some =
        regex_make_and(c->r, fraction(c, f, above, d->strict), digits(c, '0', '9', 1, REGEX_FOREVER));
    uint32_t node = regex_make_concat(c->r, json_schema_text(c, "."), some);
    return may_be_whole ? json_schema_or(c, node, REGEX_EMPTY) : node;
}

/* Whole parts of as many digits as w that are above or below it. */
static uint32_t same_length(struct json_schema *c, const char *w, bool above, bool first) {
    if (*w == '\0')
        return REGEX_DEAD;
    uint32_t n = (uint32_t)strlen(w) - 1;
    uint32_t others = above ? digits(c, (char)(*w + 1), '9', 1, 1)
                            : digits(c, first && n > 0 ? '1' : '0', (char)(*w - 1), 1, 1);
    uint32_t rest = regex_make_concat(c->r, others, digits(c, '0', '9', n, n));
    return json_schema_or(
        c, rest, regex_make_concat(c->r, digits(c, *w, *w, 1, 1), same_length(c, w + 1, above, false)));
}

static uint32_t any_behind(struct json_schema *c, bool integer) {
    uint32_t more =
        integer ? json_schema_text(c, ".0")
                : regex_make_concat(c->r, json_schema_text(c, "."), digits(c, '0', '9', 1, REGEX_FOREVER));
    return json_schema_or(c, more, REGEX_EMPTY);
}

/* Numbers of 0 and more that are above (or below) the bound, without a sign. */
static uint32_t beyond(struct json_schema *c, const struct decimal *d, bool above, bool integer) {
    uint32_t n = (uint32_t)strlen(d->whole);
    uint32_t wholes = same_length(c, d->whole, above, true);
    uint32_t longer =
        regex_make_concat(c->r, digits(c, '1', '9', 1, 1), digits(c, '0', '9', n, REGEX_FOREVER));
    uint32_t shorter = n < 2 ? REGEX_DEAD
                             : json_schema_or(c, json_schema_text(c, "0"),
                                              n == 2 ? digits(c, '1', '9', 1, 1)
                                                     : regex_make_concat(c->r, digits(c, '1', '9', 1, 1),
                                                                         digits(c, '0', '9', 0, n - 2)));
    wholes = json_schema_or(c, wholes, above ? longer : shorter);
    uint32_t node = regex_make_concat(c->r, wholes, any_behind(c, integer));
    return json_schema_or(
        c, node, regex_make_concat(c->r, json_schema_text(c, d->whole), behind_point(c, d, above, integer)));
}

static bool is_zero(const struct decimal *d) {
    return strcmp(d->whole, "0") == 0 && d->fraction[0] == '\0';
}

static uint32_t without_sign(struct json_schema *c, bool integer) {
    uint32_t whole = json_schema_or(
        c, json_schema_text(c, "0"),
        regex_make_concat(c->r, digits(c, '1', '9', 1, 1), digits(c, '0', '9', 0, REGEX_FOREVER)));
    return regex_make_concat(c->r, whole, any_behind(c, integer));
}

/* The side of 0 where low is the bound towards 0 and high the other one; NULL: none. */
static uint32_t side(struct json_schema *c, const struct decimal *low, const struct decimal *high,
                     bool integer) {
    uint32_t node = without_sign(c, integer);
    if (low != NULL && !(is_zero(low) && !low->strict))
        node = beyond(c, low, true, integer);
    if (high != NULL)
        node = regex_make_and(c->r, node, beyond(c, high, false, integer));
    return node;
}

static uint32_t bounded(struct json_schema *c, const struct decimal *low, const struct decimal *high,
                        bool integer) {
    uint32_t positive = REGEX_DEAD, negative = REGEX_DEAD;
    if (high == NULL || !high->negative)
        positive = side(c, low != NULL && !low->negative ? low : NULL, high, integer);
    if (low == NULL || low->negative || is_zero(low))
        negative = side(c, high != NULL && (high->negative || is_zero(high)) ? high : NULL, low, integer);
    return json_schema_or(c, positive, regex_make_concat(c->r, json_schema_text(c, "-"), negative));
}

/* Whole numbers that m divides, without a sign: a rule for each remainder of what came before. */
static uint32_t multiples(struct json_schema *c, json_int_t m) {
    uint32_t rules[MAX_DIVISOR], nodes[MAX_DIVISOR] = {0};
    CHECK(m > 0 && m <= MAX_DIVISOR);
    for (json_int_t i = 0; i < m; i++)
        nodes[i] = regex_make_rule(c->r, &rules[i]);
    for (json_int_t i = 0; i < m && json_schema_going(c); i++) {
        uint32_t mark = c->r->n_stack;
        for (int digit = 0; digit <= 9; digit++) {
            const char text = (char)('0' + digit);
            regex_push(c->r,
                       regex_make_concat(c->r, digits(c, text, text, 1, 1), nodes[(i * 10 + digit) % m]));
        }
        if (i == 0)
            regex_push(c->r, json_schema_or(c, json_schema_text(c, ".0"), REGEX_EMPTY));
        regex_set_rule(c->r, rules[i], regex_take_or(c->r, mark));
    }
    return nodes[0];
}

uint32_t json_schema_number(struct json_schema *c, json_t *s, bool integer) {
    static const char *const keys[] = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"};
    uint32_t node = REGEX_DEAD;
    bool any_bound = false;
    size_t at;
    json_t *x;
    for (int i = 0; i < 4; i++)
        any_bound |= json_object_get(s, keys[i]) != NULL;
    bool multiple = json_array_size(json_object_get(s, "$multiples")) > 0;
    if (!any_bound && !multiple && !integer)
        return json_schema_expression(c, "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?", REGEX_RAW);
    node = any_bound ? regex_make_not(c->r, REGEX_DEAD) : bounded(c, NULL, NULL, integer);
    for (int i = 0; i < 4; i++) {
        struct decimal d = {.strict = i % 2 == 1};
        if (json_object_get(s, keys[i]) == NULL)
            continue;
        if (!read_decimal(c, s, keys[i], &d))
            return REGEX_DEAD;
        node = regex_make_and(c->r, node, bounded(c, i < 2 ? &d : NULL, i < 2 ? NULL : &d, integer));
    }
    json_array_foreach(json_object_get(s, "$multiples"), at, x) {
        double m = json_number_value(x);
        if (!(m >= 1 && m <= MAX_DIVISOR && m == floor(m)))
            return json_schema_refuse(c, s, "multipleOf", "only whole numbers from 1 to %d are supported",
                                      MAX_DIVISOR);
        uint32_t sign = json_schema_or(c, json_schema_text(c, "-"), REGEX_EMPTY);
        node = regex_make_and(c->r, node, regex_make_concat(c->r, sign, multiples(c, (json_int_t)m)));
    }
    return node;
}
