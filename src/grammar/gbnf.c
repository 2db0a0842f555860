#include "grammar/gbnf.h"

#include "base/carve.h"
#include "grammar/regex_nodes.h"

#include <string.h>

#define MAX_GROUPS 200u /* deep */
#define MAX_RANGES 500u /* of a character class */

/* A rule by its name, from its first mention on. Its number is that of the rule in the expression. */
struct rule {
    size_t at, length; /* of its name where it is mentioned first, then where it is defined */
    uint32_t node;
    bool defined;
};

struct gbnf {
    struct regex *r;
    const char *text;
    size_t length, at;
    struct rule *rules;
    uint32_t n_rules, max_rules;
    uint32_t *index; /* numbers of rules + 1, by the hash of the name; 0: free */
    uint32_t index_mask;
    uint32_t groups;
    uint32_t ranges[2 * MAX_RANGES];
    uint32_t n_ranges;
    stator_error *e;
    stator_status status;
};

static uint32_t parse_alternatives(struct gbnf *g);

/* Ends compiling with an error at a byte. Columns count characters from 1. */
__attribute__((format(printf, 3, 4))) static void wrong(struct gbnf *g, size_t at, const char *fmt, ...) {
    size_t line = 1, column = 1;
    if (g->status != STATOR_OK)
        return;
    for (size_t i = 0; i < at && i < g->length; i++) {
        bool ends = g->text[i] == '\n';
        line += ends;
        column = ends ? 1 : column + ((g->text[i] & 0xC0) != 0x80);
    }
    va_list ap;
    va_start(ap, fmt);
    g->status = error_vset(g->e, STATOR_USAGE, fmt, ap);
    va_end(ap);
    error_prefix(g->e, "GBNF, line %zu, column %zu", line, column);
}

static bool going(const struct gbnf *g) {
    return g->status == STATOR_OK && g->r->result == REGEX_OK;
}

static int peek(const struct gbnf *g, size_t ahead) {
    return g->length - g->at > ahead ? (uint8_t)g->text[g->at + ahead] : -1;
}

static bool eat(struct gbnf *g, char c) {
    if (peek(g, 0) != (uint8_t)c)
        return false;
    g->at++;
    return true;
}

static void skip_space(struct gbnf *g, bool lines) {
    for (int c; (c = peek(g, 0)) == ' ' || c == '\t' || c == '#' || (lines && (c == '\n' || c == '\r'));) {
        if (c != '#')
            g->at++;
        else
            while (peek(g, 0) >= 0 && peek(g, 0) != '\n' && peek(g, 0) != '\r')
                g->at++;
    }
}

/* Between the parts of a rule: lines may end inside of a group. */
static void skip_inside(struct gbnf *g) {
    skip_space(g, g->groups > 0);
}

static bool is_digit(int c) {
    return c >= '0' && c <= '9';
}

static bool is_name(int c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

/* A name at `at`, as the number of its rule. */
static uint32_t read_name(struct gbnf *g) {
    size_t from = g->at;
    uint32_t h = 0x811C9DC5u;
    for (; is_name(peek(g, 0)); g->at++)
        h = (h ^ (uint8_t)g->text[g->at]) * 0x01000193u;
    size_t n = g->at - from;
    if (n == 0)
        wrong(g, from, "the name of a rule is expected (letters, digits, - and _)");
    uint32_t place = (h ^ h >> 15) & g->index_mask;
    for (; g->index[place] != 0; place = (place + 1) & g->index_mask) {
        const struct rule *x = &g->rules[g->index[place] - 1];
        if (x->length == n && memcmp(g->text + x->at, g->text + from, n) == 0)
            return g->index[place] - 1;
        if (!regex_spend(g->r, 1))
            return 0;
    }
    uint32_t number = 0, node = regex_make_rule(g->r, &number);
    if (!going(g))
        return 0;
    CHECK(number == g->n_rules && number < g->max_rules);
    g->rules[g->n_rules++] = (struct rule){.at = from, .length = n, .node = node};
    g->index[place] = g->n_rules;
    return number;
}

static uint32_t read_hex(struct gbnf *g, size_t from, uint32_t digits) {
    uint32_t v = 0;
    for (uint32_t i = 0; i < digits; i++, g->at++) {
        int d = regex_hex_digit(peek(g, 0));
        if (d < 0) {
            wrong(g, from, "\\%c needs %u hexadecimal digits", g->text[from + 1], digits);
            return 0;
        }
        v = v << 4 | (uint32_t)d;
    }
    if (v > REGEX_LAST_POINT)
        wrong(g, from, "a character is at most 10FFFF");
    return v;
}

/* One character of a literal or a class, which the text has at `at`. */
static uint32_t read_point(struct gbnf *g) {
    size_t from = g->at;
    uint32_t point = 0;
    if (!eat(g, '\\')) {
        uint32_t n = regex_read_point((const uint8_t *)g->text + from, g->length - from, &point);
        if (n == 0)
            wrong(g, from, "not UTF-8");
        g->at += n;
        return point;
    }
    int c = peek(g, 0);
    g->at += c >= 0;
    switch (c) {
    case 'x':
        return read_hex(g, from, 2);
    case 'u':
        return read_hex(g, from, 4);
    case 'U':
        return read_hex(g, from, 8);
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'n':
        return '\n';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
        return (uint32_t)c;
    default:
        wrong(g, from,
              "an unknown escape: \\x, \\u, \\U, \\t, \\r, \\n, \\\\, \\\", \\[, \\] and \\- are known");
        return 0;
    }
}

/* After a quote. */
static uint32_t parse_literal(struct gbnf *g) {
    size_t from = g->at - 1;
    uint32_t mark = g->r->n_stack;
    while (going(g) && !eat(g, '"')) {
        size_t at = g->at;
        if (at == g->length) {
            wrong(g, from, "a literal without its second quote");
            break;
        }
        uint32_t point = read_point(g);
        if (point >= 0xD800 && point < 0xE000)
            wrong(g, at, "half of a surrogate pair is no character: write \\U and eight digits");
        uint32_t range[2] = {point, point};
        regex_push(g->r, going(g) ? regex_make_points(g->r, range, 1, REGEX_RAW) : REGEX_DEAD);
    }
    return regex_take_concat(g->r, mark);
}

static void add_range(struct gbnf *g, size_t at, uint32_t first, uint32_t last) {
    if (first > last)
        wrong(g, at, "the range ends before it begins");
    else if (g->n_ranges == MAX_RANGES)
        wrong(g, at, "a character class has more than %u ranges", MAX_RANGES);
    else {
        g->ranges[2 * g->n_ranges] = first;
        g->ranges[2 * g->n_ranges++ + 1] = last;
    }
}

/* After [. */
static uint32_t parse_class(struct gbnf *g) {
    size_t from = g->at - 1;
    bool others = eat(g, '^');
    g->n_ranges = 0;
    while (going(g) && !eat(g, ']')) {
        size_t at = g->at;
        if (at == g->length) {
            wrong(g, from, "[ without ]");
            break;
        }
        uint32_t first = read_point(g), last = first;
        if (going(g) && peek(g, 0) == '-' && peek(g, 1) >= 0 && peek(g, 1) != ']') {
            g->at++;
            last = read_point(g);
        }
        if (going(g))
            add_range(g, at, first, last);
    }
    if (g->n_ranges == 0)
        wrong(g, from, "an empty character class");
    if (!going(g))
        return REGEX_DEAD;
    return (others ? regex_make_other_points : regex_make_points)(g->r, g->ranges, g->n_ranges, REGEX_RAW);
}

/* After (. */
static uint32_t parse_group(struct gbnf *g) {
    size_t from = g->at - 1;
    if (g->groups == MAX_GROUPS) {
        wrong(g, from, "groups are nested deeper than %u", MAX_GROUPS);
        return REGEX_DEAD;
    }
    g->groups++;
    skip_inside(g);
    uint32_t node = parse_alternatives(g);
    g->groups--;
    if (going(g) && !eat(g, ')'))
        wrong(g, from, "( without )");
    return node;
}

static uint32_t read_count(struct gbnf *g) {
    uint32_t v = 0;
    size_t from = g->at;
    for (int c; is_digit(c = peek(g, 0)); g->at++)
        v = v > GBNF_MAX_COUNT ? v : v * 10 + (uint32_t)(c - '0');
    if (g->at == from)
        wrong(g, from, "a count is expected: {m}, {m,} or {m,n}");
    if (v > GBNF_MAX_COUNT)
        wrong(g, from, "a count is above %u", GBNF_MAX_COUNT);
    skip_inside(g);
    return v;
}

/* *, +, ?, {m}, {m,} or {m,n}; false: there is none. */
static bool eat_counts(struct gbnf *g, uint32_t *lo, uint32_t *hi) {
    size_t from = g->at;
    *lo = 0;
    *hi = REGEX_FOREVER;
    if (eat(g, '*'))
        return true;
    if (eat(g, '+'))
        return *lo = 1, true;
    if (eat(g, '?'))
        return *hi = 1, true;
    if (!eat(g, '{'))
        return false;
    skip_inside(g);
    *lo = *hi = read_count(g);
    if (eat(g, ',')) {
        skip_inside(g);
        *hi = is_digit(peek(g, 0)) ? read_count(g) : REGEX_FOREVER;
    }
    if (!eat(g, '}'))
        wrong(g, from, "{ without }: {m}, {m,} or {m,n} is expected");
    if (*lo > *hi)
        wrong(g, from, "the counts are in the wrong order");
    return true;
}

/* What a term begins with; false: nothing that can. */
static bool parse_atom(struct gbnf *g, uint32_t *node) {
    static const uint32_t all[2] = {0, REGEX_LAST_POINT};
    size_t from = g->at;
    int c = peek(g, 0);
    *node = REGEX_DEAD;
    if (eat(g, '"'))
        *node = parse_literal(g);
    else if (eat(g, '['))
        *node = parse_class(g);
    else if (eat(g, '('))
        *node = parse_group(g);
    else if (eat(g, '.'))
        *node = regex_make_points(g->r, all, 1, REGEX_RAW);
    else if (is_name(c)) {
        uint32_t number = read_name(g);
        *node = going(g) ? g->rules[number].node : REGEX_DEAD;
    } else if (c == '<' || c == '!')
        wrong(g, from, "tokens (<..>) are not supported: write their characters");
    else if (c == '*' || c == '+' || c == '?' || c == '{')
        wrong(g, from, "%c repeats nothing", c);
    else
        return false;
    return true;
}

static uint32_t parse_sequence(struct gbnf *g) {
    uint32_t mark = g->r->n_stack, node, lo, hi;
    while (going(g) && parse_atom(g, &node)) {
        skip_inside(g);
        while (going(g) && eat_counts(g, &lo, &hi)) {
            node = going(g) ? regex_make_repeat(g->r, node, lo, hi) : REGEX_DEAD;
            skip_inside(g);
        }
        regex_push(g->r, node);
    }
    return regex_take_concat(g->r, mark);
}

static uint32_t parse_alternatives(struct gbnf *g) {
    uint32_t mark = g->r->n_stack, node;
    do {
        skip_space(g, true);
        node = parse_sequence(g);
        regex_push(g->r, node);
    } while (going(g) && eat(g, '|'));
    return regex_take_or(g->r, mark);
}

static void parse_rule(struct gbnf *g) {
    size_t from = g->at;
    if (peek(g, 0) == '|')
        wrong(g, from, "| begins a line: outside of ( ) it must end the line before");
    uint32_t number = read_name(g);
    if (!going(g))
        return;
    g->rules[number].at = from;
    g->rules[number].defined = true;
    skip_space(g, false);
    if (peek(g, 0) != ':' || peek(g, 1) != ':' || peek(g, 2) != '=')
        wrong(g, g->at, "::= is expected behind the name of a rule");
    else
        g->at += 3;
    uint32_t body = going(g) ? parse_alternatives(g) : REGEX_DEAD;
    if (going(g) && peek(g, 0) >= 0 && !eat(g, '\n') && !eat(g, '\r'))
        wrong(g, g->at, "a part of a rule or the end of the line is expected");
    if (going(g))
        regex_set_rule(g->r, number, body);
    skip_space(g, true);
}

static bool is_root(const struct gbnf *g, const struct rule *x) {
    return x->length == 4 && memcmp(g->text + x->at, "root", 4) == 0;
}

/* The node of `root`, where all rules are defined. */
static uint32_t find_root(struct gbnf *g) {
    uint32_t root = REGEX_DEAD;
    for (uint32_t i = 0; i < g->n_rules; i++) {
        const struct rule *x = &g->rules[i];
        if (!x->defined)
            wrong(g, x->at, "the rule %.*s is not defined", (int)ARITH_MIN(x->length, 100u), g->text + x->at);
        if (is_root(g, x))
            root = x->node;
    }
    if (going(g) && root == REGEX_DEAD)
        wrong(g, g->length, "a rule with the name root is missing: the whole text must match it");
    return root;
}

static stator_status compile(struct gbnf *g) {
    uint32_t left = 0;
    skip_space(g, true);
    while (going(g) && g->at < g->length)
        parse_rule(g);
    uint32_t root = going(g) ? find_root(g) : REGEX_DEAD;
    if (g->status != STATOR_OK)
        return g->status;
    if (!regex_seal(g->r, root, &left) && g->r->result == REGEX_OK) {
        const struct rule *x = &g->rules[left];
        wrong(g, x->at, "the rule %.*s is left-recursive: it can begin with itself",
              (int)ARITH_MIN(x->length, 100u), g->text + x->at);
    } else if (g->r->result != REGEX_OK) {
        return regex_ran_out(g->r, "GBNF", g->e);
    } else if (regex_start(g->r) == REGEX_DEAD) {
        wrong(g, 0, "no text matches this grammar: each one would go on for ever");
    }
    return g->status;
}

static struct regex *lay_out(struct carve *c, uint32_t nodes, struct gbnf *g) {
    g->max_rules = nodes / 4;
    g->index_mask = nodes - 1;
    g->rules = carve_take(c, g->max_rules, sizeof *g->rules);
    g->index = carve_take(c, nodes, sizeof *g->index);
    return carve_take(c, 1, regex_bytes(nodes));
}

uint64_t gbnf_bytes(uint32_t nodes) {
    struct carve c = carve_count();
    struct gbnf unused;
    lay_out(&c, nodes, &unused);
    return c.used;
}

stator_status gbnf_compile(void *memory, uint32_t nodes, const char *text, size_t length, struct regex **r,
                           stator_error *e) {
    struct gbnf g = {.text = text, .length = length, .e = e, .status = STATOR_OK};
    struct carve c = carve_in(memory, gbnf_bytes(nodes));
    if (length > GBNF_TEXT_LIMIT)
        return error_set(e, STATOR_USAGE, "GBNF: %zu bytes, at most %u are allowed", length, GBNF_TEXT_LIMIT);
    g.r = regex_lay_out(lay_out(&c, nodes, &g), nodes);
    memset(g.index, 0, (g.index_mask + (size_t)1) * sizeof *g.index);
    stator_status st = compile(&g);
    if (st == STATOR_OK)
        *r = g.r;
    return st;
}
