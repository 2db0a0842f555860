/* Regular expressions as ECMA 262 writes them with the flag u, and the leniences of its annex B that patterns
 * in the wild need ({ as itself where it begins no count, escapes of any punctuation).
 *
 * Refused, by name: assertions but ^ and $, back references, \p, inline flags, and ^ and $ where something
 * must come before or after them. Lazy quantifiers match the same texts as greedy ones. */
#include "base/arith.h"
#include "grammar/regex_nodes.h"

#include <string.h>

#define MAX_GROUPS 200u /* deep */
#define MAX_COUNT  1000000u

struct range {
    uint32_t first, last;
};

/* Code points in any order; ranges may overlap until they are tidied. */
struct points {
    struct range ranges[REGEX_MAX_RANGES];
    uint32_t n;
};

struct parser {
    struct regex *r;
    const uint8_t *text;
    size_t length, at;
    uint32_t groups;
    struct points *points;
    enum regex_spelling spelling;
    stator_error *e;
    stator_status status;
};

static uint32_t parse_alternatives(struct parser *p);

__attribute__((format(printf, 3, 4))) static void wrong(struct parser *p, size_t at, const char *fmt, ...) {
    if (p->status != STATOR_OK)
        return;
    va_list ap;
    va_start(ap, fmt);
    p->status = error_vset(p->e, STATOR_USAGE, fmt, ap);
    va_end(ap);
    error_prefix(p->e, "regular expression, byte %zu", at);
}

static bool going(const struct parser *p) {
    return p->status == STATOR_OK && p->r->result == REGEX_OK;
}

static int peek(const struct parser *p, size_t ahead) {
    return p->length - p->at > ahead ? p->text[p->at + ahead] : -1;
}

static bool eat(struct parser *p, const char *what) {
    size_t n = strlen(what);
    if (p->length - p->at < n || memcmp(p->text + p->at, what, n) != 0)
        return false;
    p->at += n;
    return true;
}

uint32_t regex_read_point(const uint8_t *text, size_t length, uint32_t *point) {
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t c = text[0];
    uint32_t n = c < 0x80                ? 1
                 : c >= 0xC2 && c < 0xE0 ? 2
                 : c >= 0xE0 && c < 0xF0 ? 3
                 : c >= 0xF0 && c < 0xF5 ? 4
                                         : 0;
    uint32_t v = n <= 1 ? c : c & (0x7Fu >> n);
    bool good = n != 0 && length >= n;
    for (uint32_t i = 1; good && i < n; i++) {
        good = (text[i] & 0xC0) == 0x80;
        v = v << 6 | (text[i] & 0x3F);
    }
    *point = v;
    return good && v >= smallest[n] && v <= REGEX_LAST_POINT && (v < 0xD800 || v >= 0xE000) ? n : 0;
}

/* The code point at `at`, which is before the end. */
static uint32_t read_point(struct parser *p) {
    uint32_t v, n = regex_read_point(p->text + p->at, p->length - p->at, &v);
    if (n == 0)
        wrong(p, p->at, "not UTF-8");
    p->at += n == 0 ? 1 : n;
    return v;
}

static void add(struct parser *p, uint32_t first, uint32_t last) {
    if (p->points->n == REGEX_MAX_RANGES)
        wrong(p, p->at, "a character class has more than %u ranges", REGEX_MAX_RANGES);
    else
        p->points->ranges[p->points->n++] = (struct range){first, last};
}

/* Ascending and apart. */
static void tidy(struct points *s) {
    for (uint32_t i = 1; i < s->n; i++) {
        struct range x = s->ranges[i];
        uint32_t at = i;
        for (; at > 0 && s->ranges[at - 1].first > x.first; at--)
            s->ranges[at] = s->ranges[at - 1];
        s->ranges[at] = x;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (n > 0 && s->ranges[i].first <= s->ranges[n - 1].last + 1)
            s->ranges[n - 1].last = ARITH_MAX(s->ranges[n - 1].last, s->ranges[i].last);
        else
            s->ranges[n++] = s->ranges[i];
    }
    s->n = n;
}

/* Adds all that is not in the n ascending ranges. */
static void add_others(struct parser *p, const struct range *ranges, uint32_t n) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ranges[i].first > next)
            add(p, next, ranges[i].first - 1);
        next = ranges[i].last + 1;
    }
    if (next <= REGEX_LAST_POINT)
        add(p, next, REGEX_LAST_POINT);
}

static void negate(struct parser *p) {
    struct points *s = p->points;
    tidy(s);
    struct range copy[REGEX_MAX_RANGES];
    uint32_t n = s->n;
    memcpy(copy, s->ranges, n * sizeof *copy);
    s->n = 0;
    add_others(p, copy, n);
}

/* \d, \w, \s and their opposites. */
static bool add_named(struct parser *p, int letter) {
    static const struct range digits[] = {{'0', '9'}};
    static const struct range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct range space[] = {
        {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const struct range *ranges;
    uint32_t n;
    if (letter == 'd' || letter == 'D')
        ranges = digits, n = 1;
    else if (letter == 'w' || letter == 'W')
        ranges = word, n = 4;
    else if (letter == 's' || letter == 'S')
        ranges = space, n = 10;
    else
        return false;
    if (letter < 'a')
        add_others(p, ranges, n);
    else
        for (uint32_t i = 0; i < n; i++)
            add(p, ranges[i].first, ranges[i].last);
    return true;
}

/* The bytes from lo to hi as one set. */
static uint32_t byte_range(struct parser *p, uint32_t lo, uint32_t hi) {
    struct regex_set set = {{0}};
    for (uint32_t b = lo; b <= hi; b++)
        set.bits[b / 64] |= 1ull << b % 64;
    return regex_make_bytes(p->r, &set);
}

/* Pushes the UTF-8 of [first, last], which needs n bytes throughout: cut where the continuation bytes of the
 * ends are not the lowest and the highest, until each piece is a product of byte ranges. */
static void push_utf8(struct parser *p, uint32_t first, uint32_t last, uint32_t n) {
    static const uint32_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (uint32_t i = 1; i < n; i++) {
        uint32_t low = (1u << 6 * i) - 1;
        if ((first & ~low) == (last & ~low))
            continue;
        if ((first & low) != 0) {
            push_utf8(p, first, first | low, n);
            push_utf8(p, (first | low) + 1, last, n);
            return;
        }
        if ((last & low) != low) {
            push_utf8(p, first, (last & ~low) - 1, n);
            push_utf8(p, last & ~low, last, n);
            return;
        }
    }
    uint32_t mark = p->r->n_stack;
    for (uint32_t i = n; i-- > 0;) {
        uint32_t head = i == n - 1 ? lead[n] : 0x80, mask = i == n - 1 ? 0xFF : 0x3F;
        regex_push(p->r, byte_range(p, head | (first >> 6 * i & mask), head | (last >> 6 * i & mask)));
    }
    uint32_t node = regex_take_concat(p->r, mark);
    regex_push(p->r, node);
}

/* Pushes the escape that a JSON string needs for c. */
static void push_escaped(struct regex *r, uint32_t c) {
    static const char digits[] = "0123456789abcdef";
    static const char letters[32] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char text[6] = {'\\', 'u', '0', '0', digits[c >> 4 & 15], digits[c & 15]};
    char letter = c >= ' ' ? (char)c : letters[c];
    if (letter != '\0')
        text[1] = letter;
    uint32_t node = regex_make_text(r, text, letter != '\0' ? 2 : 6);
    regex_push(r, node);
}

static void push_ascii(struct parser *p, const struct range *x, struct regex_set *raw) {
    for (uint32_t b = x->first; b <= x->last && b < 0x80; b++) {
        if (p->spelling == REGEX_QUOTED && (b < ' ' || b == '"' || b == '\\'))
            push_escaped(p->r, b);
        else
            raw->bits[b / 64] |= 1ull << b % 64;
    }
}

/* One of p->points. Surrogates are no characters. */
static uint32_t make_class(struct parser *p) {
    static const struct {
        uint32_t first, last, bytes;
    } parts[] = {{0x80, 0x7FF, 2}, {0x800, 0xD7FF, 3}, {0xE000, 0xFFFF, 3}, {0x10000, REGEX_LAST_POINT, 4}};
    struct regex_set ascii = {{0}};
    uint32_t mark = p->r->n_stack;
    tidy(p->points);
    for (uint32_t i = 0; i < p->points->n && going(p); i++) {
        struct range x = p->points->ranges[i];
        push_ascii(p, &x, &ascii);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            uint32_t first = ARITH_MAX(x.first, parts[k].first), last = ARITH_MIN(x.last, parts[k].last);
            if (first <= last)
                push_utf8(p, first, last, parts[k].bytes);
        }
    }
    regex_push(p->r, regex_make_bytes(p->r, &ascii));
    return regex_take_or(p->r, mark);
}

static uint32_t make_points(struct regex *r, const uint32_t *ranges, uint32_t n, bool others,
                            enum regex_spelling spelling) {
    struct points points = {.n = n};
    struct parser p = {.r = r, .points = &points, .spelling = spelling, .status = STATOR_OK};
    CHECK(n < REGEX_MAX_RANGES);
    for (uint32_t i = 0; i < n; i++)
        points.ranges[i] = (struct range){ranges[2 * i], ranges[2 * i + 1]};
    if (others)
        negate(&p);
    return make_class(&p);
}

uint32_t regex_make_points(struct regex *r, const uint32_t *ranges, uint32_t n,
                           enum regex_spelling spelling) {
    return make_points(r, ranges, n, false, spelling);
}

uint32_t regex_make_other_points(struct regex *r, const uint32_t *ranges, uint32_t n,
                                 enum regex_spelling spelling) {
    return make_points(r, ranges, n, true, spelling);
}

int regex_hex_digit(int c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool read_hex(struct parser *p, uint32_t digits, uint32_t *v) {
    *v = 0;
    for (uint32_t i = 0; i < digits; i++) {
        int d = regex_hex_digit(peek(p, i));
        if (d < 0)
            return false;
        *v = *v << 4 | (uint32_t)d;
    }
    p->at += digits;
    return true;
}

/* After \u. Two halves of a pair are one character. */
static uint32_t read_unicode(struct parser *p, size_t from) {
    uint32_t v = 0, low;
    if (eat(p, "{")) {
        int d;
        size_t digits = p->at;
        for (; (d = regex_hex_digit(peek(p, 0))) >= 0 && v <= REGEX_LAST_POINT; p->at++)
            v = v << 4 | (uint32_t)d;
        if (p->at == digits || v > REGEX_LAST_POINT || !eat(p, "}"))
            wrong(p, from, "\\u{...} needs hexadecimal digits of a number up to 10FFFF");
    } else if (!read_hex(p, 4, &v)) {
        wrong(p, from, "\\u needs four hexadecimal digits");
    } else if (v >= 0xD800 && v < 0xDC00 && eat(p, "\\u")) {
        if (!read_hex(p, 4, &low) || low < 0xDC00 || low > 0xDFFF)
            wrong(p, from, "the first half of a surrogate pair without the second");
        else
            v = 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
    }
    if (v >= 0xD800 && v < 0xE000)
        wrong(p, from, "half of a surrogate pair is no character");
    return v;
}

/* After a backslash: one character. */
static uint32_t read_escape(struct parser *p, bool in_class) {
    size_t from = p->at - 1;
    uint32_t v;
    int c = peek(p, 0);
    if (c < 0) {
        wrong(p, from, "a backslash at the end");
        return 0;
    }
    if (c >= 0x80)
        return read_point(p);
    p->at++;
    switch (c) {
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'v':
        return '\v';
    case 'f':
        return '\f';
    case 'r':
        return '\r';
    case 'u':
        return read_unicode(p, from);
    case 'x':
        if (!read_hex(p, 2, &v))
            wrong(p, from, "\\x needs two hexadecimal digits");
        return v;
    case 'c':
        c = peek(p, 0);
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
            wrong(p, from, "\\c needs a letter");
        else
            p->at++;
        return (uint32_t)c & 31;
    case '0':
        if (peek(p, 0) >= '0' && peek(p, 0) <= '9')
            wrong(p, from, "octal escapes are not supported");
        return 0;
    case 'b':
        if (in_class)
            return '\b';
        break;
    default:
        break;
    }
    if (c >= '1' && c <= '9')
        wrong(p, from, "back references are not supported");
    else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        wrong(p, from, "\\%c is not supported", c);
    return (uint32_t)c;
}

/* A member of a class: true and *v for one character, false for a set, which has been added. */
static bool class_member(struct parser *p, uint32_t *v) {
    if (!eat(p, "\\")) {
        *v = read_point(p);
        return true;
    }
    int c = peek(p, 0);
    if (c >= 0 && add_named(p, c)) {
        p->at++;
        return false;
    }
    *v = read_escape(p, true);
    return true;
}

/* After [. */
static uint32_t parse_class(struct parser *p) {
    size_t from = p->at - 1;
    bool not = eat(p, "^");
    p->points->n = 0;
    while (going(p) && !eat(p, "]")) {
        uint32_t first = 0, last = 0;
        if (p->at == p->length) {
            wrong(p, from, "[ without ]");
            break;
        }
        bool single = class_member(p, &first);
        if (going(p) && peek(p, 0) == '-' && peek(p, 1) >= 0 && peek(p, 1) != ']') {
            size_t dash = p->at++;
            bool single_last = class_member(p, &last);
            if (single && single_last && first > last)
                wrong(p, dash, "the range ends before it begins");
            if (single && single_last) {
                add(p, first, last);
                continue;
            }
            add(p, '-', '-');
            if (single_last)
                add(p, last, last);
        }
        if (single)
            add(p, first, first);
    }
    if (not &&going(p))
        negate(p);
    return going(p) ? make_class(p) : REGEX_DEAD;
}

static uint32_t one_point(struct parser *p, uint32_t v) {
    p->points->n = 0;
    add(p, v, v);
    return make_class(p);
}

/* After (. */
static uint32_t parse_group(struct parser *p) {
    size_t from = p->at - 1;
    if (eat(p, "?<") && peek(p, 0) != '=' && peek(p, 0) != '!') {
        size_t name = p->at;
        while (peek(p, 0) >= 0 && peek(p, 0) != '>' && peek(p, 0) != ')')
            p->at++;
        if (p->at == name || !eat(p, ">"))
            wrong(p, from, "the name of a group needs > at its end");
    } else if (p->text[p->at - 1] == '<' || (peek(p, 0) == '?' && (peek(p, 1) == '=' || peek(p, 1) == '!'))) {
        wrong(p, from, "assertions that look ahead or behind are not supported");
    } else if (!eat(p, "?:") && peek(p, 0) == '?') {
        wrong(p, from, "inline flags are not supported");
    }
    if (p->groups == MAX_GROUPS)
        wrong(p, from, "groups are nested deeper than %u", MAX_GROUPS);
    if (!going(p))
        return REGEX_DEAD;
    p->groups++;
    uint32_t node = parse_alternatives(p);
    p->groups--;
    if (going(p) && !eat(p, ")"))
        wrong(p, from, "( without )");
    return node;
}

static bool read_count(struct parser *p, uint32_t *v) {
    size_t from = p->at;
    *v = 0;
    for (int c; (c = peek(p, 0)) >= '0' && c <= '9'; p->at++)
        *v = *v > MAX_COUNT ? *v : *v * 10 + (uint32_t)(c - '0');
    return p->at > from;
}

/* {n}, {n,} or {n,m}; else nothing is eaten. */
static bool eat_counts(struct parser *p, uint32_t *lo, uint32_t *hi) {
    size_t from = p->at;
    if (!eat(p, "{") || !read_count(p, lo)) {
        p->at = from;
        return false;
    }
    *hi = *lo;
    if (eat(p, ",") && !read_count(p, hi))
        *hi = REGEX_FOREVER;
    if (!eat(p, "}")) {
        p->at = from;
        return false;
    }
    if (*lo > MAX_COUNT || (*hi > MAX_COUNT && *hi != REGEX_FOREVER))
        wrong(p, from, "a count is above %u", MAX_COUNT);
    else if (*lo > *hi)
        wrong(p, from, "the counts are in the wrong order");
    return true;
}

static uint32_t parse_atom(struct parser *p) {
    static const struct range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    const int c = peek(p, 0);
    const size_t from = p->at;
    uint32_t lo, hi;
    if (eat(p, "("))
        return parse_group(p);
    if (eat(p, "["))
        return parse_class(p);
    if (eat(p, "^"))
        return regex_make_anchor(p->r, REGEX_KIND_BEGIN, (uint32_t)p->at - 1);
    if (eat(p, "$"))
        return regex_make_anchor(p->r, REGEX_KIND_END, (uint32_t)p->at - 1);
    if (eat(p, ".")) {
        p->points->n = 0;
        add_others(p, line_ends, 3);
        return make_class(p);
    }
    /* A brace that is no count is itself. */
    if (c == '*' || c == '+' || c == '?' || (c == '{' && eat_counts(p, &lo, &hi))) {
        wrong(p, from, "%c repeats nothing", c);
        return REGEX_DEAD;
    }
    if (eat(p, "\\")) {
        p->points->n = 0;
        if (peek(p, 0) >= 0 && add_named(p, peek(p, 0))) {
            p->at++;
            return make_class(p);
        }
        if (peek(p, 0) == 'b' || peek(p, 0) == 'B')
            wrong(p, p->at - 1, "borders of words (\\%c) are not supported", peek(p, 0));
        return one_point(p, read_escape(p, false));
    }
    return one_point(p, read_point(p));
}

static uint32_t parse_term(struct parser *p) {
    size_t from = p->at;
    uint32_t node = parse_atom(p), lo = 0, hi = REGEX_FOREVER;
    if (!going(p))
        return REGEX_DEAD;
    if (eat(p, "?"))
        hi = 1;
    else if (eat(p, "+"))
        lo = 1;
    else if (!eat(p, "*") && !eat_counts(p, &lo, &hi))
        return node;
    eat(p, "?");
    if (!going(p))
        return REGEX_DEAD;
    if (p->r->nodes[node].anchored) {
        wrong(p, from, "^ and $ in something that is repeated are not supported");
        return REGEX_DEAD;
    }
    return regex_make_repeat(p->r, node, lo, hi);
}

static uint32_t parse_alternatives(struct parser *p) {
    uint32_t all = p->r->n_stack;
    do {
        uint32_t mark = p->r->n_stack;
        while (going(p) && p->at < p->length && peek(p, 0) != '|' && peek(p, 0) != ')') {
            uint32_t term = parse_term(p);
            regex_push(p->r, term);
        }
        uint32_t node = regex_take_concat(p->r, mark);
        regex_push(p->r, node);
    } while (going(p) && eat(p, "|"));
    return regex_take_or(p->r, all);
}

/* The expression without ^ and $, for a text that it must match as a whole. begins, ends: nothing that the
 * text has before or after this part is in another part. `any` is what may be there where no anchor forbids
 * it. */
static uint32_t anchor(struct parser *p, uint32_t node, uint32_t any, bool begins, bool ends) {
    struct regex *r = p->r;
    const struct regex_node *x = &r->nodes[node];
    uint32_t mark = r->n_stack;
    if (!regex_spend(r, 1))
        return REGEX_DEAD;
    if ((x->kind == REGEX_KIND_BEGIN && !begins) || (x->kind == REGEX_KIND_END && !ends)) {
        wrong(p, x->a, "%s is not supported",
              x->kind == REGEX_KIND_BEGIN ? "^ behind something else" : "$ before something else");
        return REGEX_DEAD;
    }
    if (x->kind == REGEX_KIND_BEGIN)
        return ends ? any : REGEX_EMPTY;
    if (x->kind == REGEX_KIND_END)
        return begins ? any : REGEX_EMPTY;
    if (x->anchored && x->kind == REGEX_KIND_OR) {
        for (uint32_t i = 0; i < x->b && going(p); i++) {
            uint32_t member = anchor(p, r->members[x->a + i], any, begins, ends);
            regex_push(r, member);
        }
        return regex_take_or(r, mark);
    }
    if (x->anchored) {
        CHECK(x->kind == REGEX_KIND_CONCAT);
        for (; r->nodes[node].kind == REGEX_KIND_CONCAT && going(p);
             node = r->nodes[node].b, begins = false) {
            uint32_t part = anchor(p, r->nodes[node].a, any, begins, false);
            regex_push(r, part);
        }
        if (!going(p))
            return REGEX_DEAD;
        uint32_t last = anchor(p, node, any, false, ends);
        regex_push(r, last);
        return regex_take_concat(r, mark);
    }
    regex_push(r, begins ? any : REGEX_EMPTY);
    regex_push(r, node);
    regex_push(r, ends ? any : REGEX_EMPTY);
    return regex_take_concat(r, mark);
}

stator_status regex_ran_out(const struct regex *r, const char *what, stator_error *e) {
    switch (r->result) {
    case REGEX_FULL:
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: it needs more than %u nodes or %u sets of bytes", what,
                         r->max_nodes, REGEX_MAX_SETS);
    case REGEX_STEPS:
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: it needs more than %llu steps to compile", what,
                         (unsigned long long)r->max_steps);
    case REGEX_DEPTH:
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: it is nested deeper than %u", what, REGEX_MAX_DEPTH);
    case REGEX_OK:
        break;
    }
    CHECK(!"something has run out");
    return STATOR_USAGE;
}

stator_status regex_parse(struct regex *r, const char *text, size_t length, enum regex_anchoring anchoring,
                          enum regex_spelling spelling, uint32_t *node, stator_error *e) {
    struct points points = {.n = 0};
    struct parser p = {.r = r,
                       .text = (const uint8_t *)text,
                       .length = length,
                       .points = &points,
                       .spelling = spelling,
                       .e = e,
                       .status = STATOR_OK};
    if (length > REGEX_TEXT_LIMIT)
        return error_set(e, STATOR_USAGE, "regular expression: %zu bytes, at most %u are allowed", length,
                         REGEX_TEXT_LIMIT);
    uint32_t any = REGEX_EMPTY;
    if (anchoring == REGEX_SEARCH) {
        add(&p, 0, REGEX_LAST_POINT);
        any = regex_make_repeat(p.r, make_class(&p), 0, REGEX_FOREVER);
    }
    *node = parse_alternatives(&p);
    if (going(&p) && p.at < length)
        wrong(&p, p.at, ") without (");
    if (going(&p))
        *node = anchor(&p, *node, any, true, true);
    return p.status;
}

stator_status regex_compile(void *memory, uint32_t nodes, const char *text, size_t length,
                            enum regex_anchoring anchoring, struct regex **r, stator_error *e) {
    struct regex *made = regex_lay_out(memory, nodes);
    uint32_t node = REGEX_DEAD, left;
    stator_status st = regex_parse(made, text, length, anchoring, REGEX_RAW, &node, e);
    if (st != STATOR_OK)
        return st;
    if (!regex_seal(made, node, &left))
        return regex_ran_out(made, "regular expression", e);
    *r = made;
    return STATOR_OK;
}
