/* Strings: lengths, patterns, formats; and constants of any type. */
#include "grammar/json_schema_parts.h"

#include "base/check.h"

#include <string.h>

#define EMAIL_ATOM "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
#define LABEL      "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOST       LABEL "(\\." LABEL ")*"
#define BYTE       "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4       BYTE "(\\." BYTE "){3}"
#define DATE                                                                                                 \
    "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-" \
    "9]|"                                                                                                    \
    "2[0-8]))|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)"
#define TIME      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([zZ]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define HEX4      "[0-9a-fA-F]{1,4}"
#define URI_CHAR  "([a-zA-Z0-9._~!$&'()*+,;=:@/-]|%[0-9a-fA-F]{2})"
#define URI_QUERY "(\\?(" URI_CHAR "|\\?)*)?(#(" URI_CHAR "|\\?)*)?"
#define URI_PLAIN "([a-zA-Z0-9._~!$&'()*+,;=-]|%[0-9a-fA-F]{2})"
#define URI_HIER  "//" URI_PLAIN "*(:[0-9]*)?(/" URI_CHAR "*)?"

/* Texts of each format by the standards that JSON Schema names (RFC 3339, 5321, 1123, 2673, 4291, 3986,
 * 4122). A row may have fewer texts than the standard, never more. */
static const struct {
    const char *name, *expression;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "[tT]" TIME},
    {"duration",
     "P([0-9]+W|([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)(T([0-9]+H([0-9]+M([0-9]+S)?)?|"
     "[0-9]+M([0-9]+S)?|[0-9]+S))?|T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))"},
    {"email", EMAIL_ATOM "(\\." EMAIL_ATOM ")*@" HOST},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", "(" HEX4 ":){7}" HEX4 "|(" HEX4 ":){1,7}:|(" HEX4 ":){1,6}:" HEX4 "|(" HEX4 ":){1,5}(:" HEX4
             "){1,2}|(" HEX4 ":){1,4}(:" HEX4 "){1,3}|(" HEX4 ":){1,3}(:" HEX4 "){1,4}|(" HEX4
             ":){1,2}(:" HEX4 "){1,5}|" HEX4 ":(:" HEX4 "){1,6}|:(:" HEX4 "){1,7}|::|::([fF]{4}:)?" IPV4},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"uri", "[a-zA-Z][a-zA-Z0-9+.-]*:(" URI_HIER "|/?(" URI_PLAIN "|[:@])" URI_CHAR "*)" URI_QUERY},
    {"uri-reference", "(([a-zA-Z][a-zA-Z0-9+.-]*:)?" URI_HIER "|[a-zA-Z][a-zA-Z0-9+.-]*:/?" URI_PLAIN URI_CHAR
                      "*|/?(" URI_PLAIN "(" URI_PLAIN "|@)*(/" URI_CHAR "*)?)?)" URI_QUERY},
    {"json-pointer", "(/([^~/\\x00-\\x1f]|~[01])*)*"},
};

/* Formats that the standard has, but not the table: to ignore them would let invalid texts pass. */
static const char *const unsupported[] = {"idn-email",    "idn-hostname",          "iri",  "iri-reference",
                                          "uri-template", "relative-json-pointer", "regex"};

static uint32_t format_node(struct json_schema *c, const json_t *s, const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0)
            return json_schema_expression(c, formats[i].expression, c->spelling);
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (strcmp(name, unsupported[i]) == 0)
            return json_schema_refuse(c, s, "format", "\"%s\" is not supported", name);
    return regex_make_not(c->r, REGEX_DEAD); /* a name of the author's own says nothing */
}

static uint32_t pattern_node(struct json_schema *c, const json_t *s, const json_t *pattern) {
    uint32_t node = REGEX_DEAD;
    stator_error e = {0};
    if (!json_is_string(pattern))
        return json_schema_refuse(c, s, "pattern", "a string is expected");
    if (regex_parse(c->r, json_string_value(pattern), json_string_length(pattern), REGEX_SEARCH, c->spelling,
                    &node, &e) != STATOR_OK)
        return json_schema_refuse(c, s, "pattern", "%s", e.text);
    return node;
}

uint32_t json_schema_characters(struct json_schema *c, json_t *s, bool one) {
    uint32_t lo = json_schema_count(c, s, "minLength", 0),
             hi = json_schema_count(c, s, "maxLength", REGEX_FOREVER);
    uint32_t all = regex_make_not(c->r, REGEX_DEAD), node = all;
    size_t i;
    json_t *x;
    if (lo > hi)
        return REGEX_DEAD;
    json_array_foreach(json_object_get(s, "$patterns"), i, x) node =
        regex_make_and(c->r, node, pattern_node(c, s, x));
    json_array_foreach(json_object_get(s, "$formats"), i, x) {
        if (!json_is_string(x))
            return json_schema_refuse(c, s, "format", "a string is expected");
        node = regex_make_and(c->r, node, format_node(c, s, json_string_value(x)));
    }
    if (node != all && lo == 0 && hi == REGEX_FOREVER)
        return node;
    uint32_t length = regex_make_repeat(
        c->r, one || node != all || c->spelling == REGEX_RAW ? c->any_char : c->free_char, lo, hi);
    return regex_make_and(c->r, node, length);
}

uint32_t json_schema_string(struct json_schema *c, json_t *s) {
    uint32_t quote = json_schema_text(c, "\"");
    return json_schema_list(c, quote, json_schema_characters(c, s, false), quote);
}

/* A character at a time, so that there is one spelling of each in the program. */
uint32_t json_schema_quoted(struct json_schema *c, const char *text, size_t n) {
    uint32_t mark = c->r->n_stack;
    for (size_t from = 0; from < n && json_schema_going(c);) {
        size_t to = from;
        while (to < n && (uint8_t)text[to] >= ' ' && text[to] != '"' && text[to] != '\\')
            to++;
        uint32_t point[2] = {(uint8_t)text[from], (uint8_t)text[from]};
        regex_push(c->r, to > from ? regex_make_text(c->r, text + from, (uint32_t)(to - from))
                                   : regex_make_points(c->r, point, 1, REGEX_QUOTED));
        from = to > from ? to : from + 1;
    }
    return regex_take_concat(c->r, mark);
}

bool json_schema_equal(const json_t *a, const json_t *b) {
    size_t i;
    const char *key;
    json_t *x;
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_array(a)) {
        bool equal = json_array_size(a) == json_array_size(b);
        for (i = 0; equal && i < json_array_size(a); i++)
            equal = json_schema_equal(json_array_get(a, i), json_array_get(b, i));
        return equal;
    }
    if (json_is_object(a)) {
        bool equal = json_object_size(a) == json_object_size(b);
        json_object_foreach((json_t *)a, key, x) {
            json_t *y = json_object_get(b, key);
            equal = equal && y != NULL && json_schema_equal(x, y);
        }
        return equal;
    }
    return json_equal(a, b) == 1;
}

static uint32_t constant_list(struct json_schema *c, const json_t *v) {
    uint32_t mark = c->r->n_stack;
    bool object = json_is_object(v), first = true;
    const char *key;
    json_t *x;
    size_t i;
    regex_push(c->r, json_schema_mark(c, object ? "{" : "["));
    json_object_foreach((json_t *)v, key, x) {
        if (!first)
            regex_push(c->r, json_schema_mark(c, ","));
        uint32_t quote = json_schema_text(c, "\"");
        regex_push(c->r, json_schema_list(c, quote, json_schema_quoted(c, key, strlen(key)), quote));
        regex_push(c->r, json_schema_mark(c, ":"));
        regex_push(c->r, json_schema_constant(c, x));
        first = false;
    }
    json_array_foreach(v, i, x) {
        if (!first)
            regex_push(c->r, json_schema_mark(c, ","));
        regex_push(c->r, json_schema_constant(c, x));
        first = false;
    }
    regex_push(c->r, json_schema_mark(c, object ? "}" : "]"));
    return regex_take_concat(c->r, mark);
}

uint32_t json_schema_constant(struct json_schema *c, const json_t *v) {
    uint32_t quote = json_schema_text(c, "\"");
    switch (json_typeof(v)) {
    case JSON_NULL:
        return json_schema_text(c, "null");
    case JSON_TRUE:
        return json_schema_text(c, "true");
    case JSON_FALSE:
        return json_schema_text(c, "false");
    case JSON_STRING:
        return json_schema_list(c, quote, json_schema_quoted(c, json_string_value(v), json_string_length(v)),
                                quote);
    case JSON_OBJECT:
    case JSON_ARRAY:
        return constant_list(c, v);
    default:
        break;
    }
    json_t *s = json_schema_wrap(c, "minimum", json_copy((json_t *)v));
    json_object_set(s, "maximum", (json_t *)v);
    return json_schema_number(c, s, false);
}
