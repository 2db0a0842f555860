#include "grammar/json_schema_parts.h"

#include "base/carve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRATCH_NODES 2048u
#define SPACE_MAX     16u

/* A text of json_dumps: jansson's allocator may be another one than malloc. */
static void give_back(char *text) {
    json_free_t give;
    json_get_alloc_funcs(NULL, &give);
    give(text);
}

uint32_t json_schema_refuse(struct json_schema *c, const json_t *s, const char *keyword, const char *fmt,
                            ...) {
    if (c->status != STATOR_OK)
        return REGEX_DEAD;
    va_list ap;
    va_start(ap, fmt);
    c->status = error_vset(c->e, STATOR_USAGE, fmt, ap);
    va_end(ap);
    char *place = json_dumps(s, JSON_COMPACT | JSON_ENCODE_ANY);
    error_prefix(c->e, "JSON Schema: keyword \"%s\" of %.120s%s", keyword, place != NULL ? place : "",
                 place != NULL && strlen(place) > 120 ? ".." : "");
    give_back(place);
    return REGEX_DEAD;
}

uint32_t json_schema_text(struct json_schema *c, const char *text) {
    return regex_make_text(c->r, text, (uint32_t)strlen(text));
}

uint32_t json_schema_expression(struct json_schema *c, const char *text, enum regex_spelling spelling) {
    uint32_t node = REGEX_DEAD;
    stator_error e = {0};
    stator_status st = regex_parse(c->r, text, strlen(text), REGEX_WHOLE, spelling, &node, &e);
    CHECK(st == STATOR_OK);
    return node;
}

uint32_t json_schema_or(struct json_schema *c, uint32_t a, uint32_t b) {
    uint32_t mark = c->r->n_stack;
    regex_push(c->r, a);
    regex_push(c->r, b);
    return regex_take_or(c->r, mark);
}

uint32_t json_schema_list(struct json_schema *c, uint32_t a, uint32_t b, uint32_t d) {
    uint32_t mark = c->r->n_stack;
    regex_push(c->r, a);
    regex_push(c->r, b);
    regex_push(c->r, d);
    return regex_take_concat(c->r, mark);
}

uint32_t json_schema_mark(struct json_schema *c, const char *text) {
    uint32_t behind = *text == '}' || *text == ']' ? REGEX_EMPTY : c->space;
    return json_schema_list(c, *text == '{' || *text == '[' ? REGEX_EMPTY : c->space,
                            json_schema_text(c, text), behind);
}

uint32_t json_schema_count(struct json_schema *c, const json_t *s, const char *key, uint32_t otherwise) {
    const json_t *v = json_object_get(s, key);
    double x = json_number_value(v);
    if (v == NULL)
        return otherwise;
    if (!json_is_number(v) || x < 0 || x != (double)(int64_t)x) {
        json_schema_refuse(c, s, key, "a whole number of at least 0 is expected");
        return otherwise;
    }
    return x >= (double)(REGEX_FOREVER - 1) ? REGEX_FOREVER - 1 : (uint32_t)x;
}

bool json_schema_found(struct json_schema *c, const json_t *s, const char *pattern, const char *text,
                       size_t n) {
    struct regex *r = NULL;
    stator_error e = {0};
    bool found = false;
    if (!regex_spend(c->r, 128)) /* the work before the first step */
        return false;
    if (regex_compile(c->scratch, SCRATCH_NODES, pattern, strlen(pattern), REGEX_SEARCH, &r, &e) != STATOR_OK)
        json_schema_refuse(c, s, "patternProperties", "\"%s\": %s", pattern, e.text);
    else if (regex_matches(r, text, n, &found) != REGEX_OK)
        json_schema_refuse(c, s, "patternProperties", "\"%s\" takes too many steps", pattern);
    if (r != NULL)
        regex_spend(c->r, r->steps);
    return found;
}

/* One value of any kind, as a rule: it is nested in itself. */
uint32_t json_schema_any(struct json_schema *c) {
    if (c->value != REGEX_DEAD)
        return c->value;
    c->value = regex_make_rule(c->r, &c->value_rule);
    json_t *nothing = json_object();
    json_array_append_new(c->kept, nothing);
    uint32_t mark = c->r->n_stack;
    regex_push(c->r, json_schema_text(c, "null"));
    regex_push(c->r, json_schema_text(c, "true"));
    regex_push(c->r, json_schema_text(c, "false"));
    regex_push(c->r, json_schema_number(c, nothing, false));
    regex_push(c->r, json_schema_string(c, nothing));
    regex_push(c->r, json_schema_array(c, nothing));
    regex_push(c->r, json_schema_object(c, nothing));
    regex_set_rule(c->r, c->value_rule, regex_take_or(c->r, mark));
    return c->value;
}

static const char *const types[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

static bool may_be(const json_t *s, size_t type) {
    const json_t *list = json_object_get(s, "type");
    bool is = list == NULL && type != 2;
    for (size_t i = 0; i < json_array_size(list); i++)
        is |= strcmp(json_string_value(json_array_get(list, i)), types[type]) == 0;
    return is;
}

/* A merged schema without alternatives, for one type. */
static uint32_t node_of_type(struct json_schema *c, json_t *s, size_t type) {
    switch (type) {
    case 0:
        return json_schema_text(c, "null");
    case 1:
        return json_schema_or(c, json_schema_text(c, "true"), json_schema_text(c, "false"));
    case 2:
        return json_schema_number(c, s, true);
    case 3:
        return json_schema_number(c, s, false);
    case 4:
        return json_schema_string(c, s);
    case 5:
        return json_schema_array(c, s);
    default:
        return json_schema_object(c, s);
    }
}

static size_t type_of(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_NULL:
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        return 1;
    case JSON_INTEGER:
    case JSON_REAL:
        return 3;
    case JSON_STRING:
        return 4;
    case JSON_ARRAY:
        return 5;
    default:
        return 6;
    }
}

/* The value is valid: asked of a node by an intersection, which scalars allow; others have few keywords. */
static uint32_t enum_member(struct json_schema *c, json_t *s, json_t *v) {
    size_t type = type_of(v);
    uint32_t node = json_schema_constant(c, v);
    if (type == 3 && !may_be(s, 3))
        return may_be(s, 2) ? regex_make_and(c->r, node, json_schema_number(c, s, true)) : REGEX_DEAD;
    if (!may_be(s, type))
        return REGEX_DEAD;
    if (type < 5 && json_object_size(s) > 1 + (json_object_get(s, "type") != NULL))
        return regex_make_and(c->r, node, node_of_type(c, s, type));
    static const char *const about[2][7] = {
        {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", NULL},
        {"properties", "patternProperties", "additionalProperties", "required", "minProperties",
         "maxProperties", "$names"}};
    for (size_t i = 0; type >= 5 && i < 7 && about[type - 5][i] != NULL; i++)
        if (json_object_get(s, about[type - 5][i]) != NULL)
            return json_schema_refuse(c, s, "enum",
                                      "objects and arrays beside keywords about them are not supported");
    return node;
}

static uint32_t enum_node(struct json_schema *c, json_t *s) {
    uint32_t mark = c->r->n_stack;
    size_t i;
    json_t *x;
    json_array_foreach(json_object_get(s, "enum"), i, x) {
        uint32_t node = json_schema_going(c) ? enum_member(c, s, x) : REGEX_DEAD;
        regex_push(c->r, node);
    }
    return regex_take_or(c->r, mark);
}

static bool no_common_type(const json_t *a, const json_t *b) {
    for (size_t i = 0; i < 7; i++) {
        bool x = may_be(a, i) || (i == 2 && may_be(a, 3)), y = may_be(b, i) || (i == 2 && may_be(b, 3));
        if (x && y)
            return false;
    }
    return true;
}

static bool no_common_value(struct json_schema *c, json_t *a, json_t *b, uint32_t depth);

/* A property that one demands and that the other forbids or wants to be different. */
static bool told_apart(struct json_schema *c, json_t *a, json_t *b, uint32_t depth) {
    json_t *required = json_object_get(a, "required"), *x;
    size_t i;
    json_array_foreach(required, i, x) {
        const char *name = json_string_value(x);
        json_t *p = json_object_get(json_object_get(a, "properties"), name);
        json_t *q = json_object_get(json_object_get(b, "properties"), name);
        if (json_is_false(q) || (q == NULL && json_is_false(json_object_get(b, "additionalProperties")) &&
                                 json_object_size(json_object_get(b, "patternProperties")) == 0))
            return true;
        if (p == NULL || q == NULL || depth == 3)
            continue;
        p = json_schema_merged(c, p);
        q = json_schema_merged(c, q);
        if (c->status == STATOR_OK && (p == NULL || q == NULL || no_common_value(c, p, q, depth + 1)))
            return true;
    }
    return false;
}

static bool only(const json_t *s, size_t type) {
    return json_array_size(json_object_get(s, "type")) == 1 && may_be(s, type);
}

/* Surely no value is valid for both merged schemas. */
static bool no_common_value(struct json_schema *c, json_t *a, json_t *b, uint32_t depth) {
    json_t *x = json_object_get(a, "enum"), *y = json_object_get(b, "enum"), *v, *w;
    size_t i, k;
    bool common = false;
    if (!regex_spend(c->r, 8 + (1 + json_array_size(x)) * (1 + json_array_size(y)) / 4) ||
        no_common_type(a, b))
        return true;
    if (x != NULL && y != NULL) {
        json_array_foreach(x, i, v) json_array_foreach(y, k, w) common |= json_schema_equal(v, w);
        return !common;
    }
    if (x != NULL || y != NULL) {
        json_array_foreach(x != NULL ? x : y, i, v) {
            size_t type = type_of(v);
            common |= may_be(x != NULL ? b : a, type) || (type == 3 && may_be(x != NULL ? b : a, 2));
        }
        return !common;
    }
    bool objects = only(a, 6) || only(b, 6);
    return objects && (told_apart(c, a, b, depth) || told_apart(c, b, a, depth));
}

static void check_exclusive(struct json_schema *c, json_t *s, json_t *options) {
    json_t *merged = json_array(), *x;
    size_t i;
    json_array_append_new(c->kept, merged);
    json_array_foreach(options, i, x) {
        json_t *m = json_schema_merged(c, x);
        if (c->status != STATOR_OK)
            return;
        if (m != NULL)
            json_array_append(merged, m);
    }
    for (i = 0; i < json_array_size(merged) && json_schema_going(c); i++)
        for (size_t k = 0; k < i && json_schema_going(c); k++)
            if (!no_common_value(c, json_array_get(merged, i), json_array_get(merged, k), 0))
                json_schema_refuse(c, s, "oneOf", "alternatives %zu and %zu may both be valid for one value",
                                   k, i);
}

/* Members keep the order in which the keywords were read. */
static bool comes_first(json_t *s, const char *first, const char *second) {
    const char *key;
    json_t *x;
    json_object_foreach(s, key, x) {
        if (strcmp(key, first) == 0 || strcmp(key, second) == 0)
            return strcmp(key, first) == 0;
    }
    return false;
}

/* s is merged. Its first list of alternatives goes to each of them, together with all else; node: of one. */
static uint32_t alternatives_node(struct json_schema *c, json_t *s,
                                  uint32_t (*of)(struct json_schema *c, json_t *s)) {
    json_t *lists = json_object_get(s, "$alternatives"), *rest = json_copy(s), *x;
    json_t *kind = json_array_get(lists, 0), *options = json_object_get(kind, "anyOf");
    uint32_t mark = c->r->n_stack;
    bool first = comes_first(s, "$alternatives", "properties");
    size_t i;
    json_array_append_new(c->kept, rest);
    json_object_del(rest, "$alternatives");
    if (json_array_size(lists) > 1) {
        json_t *others = json_copy(lists);
        json_array_remove(others, 0);
        json_object_set_new(rest, "$alternatives", others);
    }
    if (options == NULL) {
        options = json_object_get(kind, "oneOf");
        check_exclusive(c, s, options);
    }
    json_array_foreach(options, i, x) {
        uint32_t node = REGEX_DEAD;
        if (json_schema_going(c))
            node = of(
                c, json_object_size(rest) == 0
                       ? x
                       : json_schema_wrap(c, "allOf", json_pack("[OO]", first ? x : rest, first ? rest : x)));
        regex_push(c->r, node);
    }
    return regex_take_or(c->r, mark);
}

static uint32_t make_node(struct json_schema *c, json_t *given) {
    json_t *s = json_schema_merged(c, given);
    if (s == NULL || c->status != STATOR_OK)
        return REGEX_DEAD;
    if (json_object_size(s) == 0)
        return json_schema_any(c);
    if (json_object_get(s, "$alternatives") != NULL)
        return alternatives_node(c, s, json_schema_node);
    if (json_object_get(s, "enum") != NULL)
        return enum_node(c, s);
    uint32_t mark = c->r->n_stack;
    for (size_t type = 0; type < 7 && json_schema_going(c); type++) {
        if (!may_be(s, type) || (type == 2 && may_be(s, 3)))
            continue;
        uint32_t node = node_of_type(c, s, type);
        regex_push(c->r, node);
    }
    return regex_take_or(c->r, mark);
}

/* Equal schemas are one rule, so a schema that is inside of itself ends there. */
uint32_t json_schema_node(struct json_schema *c, json_t *s) {
    if (json_is_boolean(s))
        return json_is_true(s) ? json_schema_any(c) : REGEX_DEAD;
    char *key = json_dumps(s, JSON_COMPACT | JSON_ENCODE_ANY);
    if (key == NULL || c->depth == JSON_SCHEMA_DEPTH || !regex_spend(c->r, 1 + strlen(key) / 64)) {
        give_back(key);
        return c->r->result != REGEX_OK
                   ? REGEX_DEAD
                   : json_schema_refuse(c, s, "schema", "schemas are nested deeper than %u",
                                        JSON_SCHEMA_DEPTH);
    }
    json_t *known = json_object_get(c->nodes, key);
    uint32_t node, rule = 0, body;
    if (known != NULL) {
        give_back(key);
        return (uint32_t)json_integer_value(known);
    }
    node = regex_make_rule(c->r, &rule);
    json_object_set_new(c->nodes, key, json_integer(node));
    c->depth++;
    body = make_node(c, s);
    c->depth--;
    regex_set_rule(c->r, rule, body);
    /* What matches nothing is to be seen by those who ask for it. */
    const struct regex_node *x = &c->r->nodes[body];
    if (body == REGEX_DEAD || x->kind == REGEX_KIND_TEXT || x->kind == REGEX_KIND_RULE)
        node = body;
    json_object_set_new(c->nodes, key, json_integer(node));
    give_back(key);
    return node;
}

/* Strings of a schema, raw. */
static uint32_t raw_node(struct json_schema *c, json_t *given) {
    json_t *s = json_schema_merged(c, given), *x;
    const uint32_t mark = c->r->n_stack;
    size_t i;
    if (s == NULL || !json_schema_going(c))
        return REGEX_DEAD;
    if (c->depth == JSON_SCHEMA_DEPTH)
        return json_schema_refuse(c, s, "schema", "schemas are nested deeper than %u", JSON_SCHEMA_DEPTH);
    if (json_object_get(s, "$alternatives") != NULL) {
        c->depth++;
        const uint32_t node = alternatives_node(c, s, raw_node);
        c->depth--;
        return node;
    }
    if (!may_be(s, 4))
        return REGEX_DEAD;
    const uint32_t all = json_schema_characters(c, s, false);
    if (json_object_get(s, "enum") == NULL)
        return all;
    json_array_foreach(json_object_get(s, "enum"), i, x) if (json_is_string(x) && json_schema_going(c)) {
        const uint32_t text = regex_make_text(c->r, json_string_value(x), (uint32_t)json_string_length(x));
        const uint32_t node = regex_make_and(c->r, text, all);
        regex_push(c->r, node);
    }
    return regex_take_or(c->r, mark);
}

uint32_t json_schema_raw(struct json_schema *c, json_t *s, bool *any) {
    const uint32_t points[2] = {0, REGEX_LAST_POINT}, quoted = c->any_char;
    c->spelling = REGEX_RAW;
    c->any_char = regex_make_points(c->r, points, 1, REGEX_RAW);
    const uint32_t node = raw_node(c, s);
    *any = node == regex_make_repeat(c->r, c->any_char, 0, REGEX_FOREVER);
    c->spelling = REGEX_QUOTED;
    c->any_char = quoted;
    return node;
}

static bool old_draft(const json_t *root) {
    const char *name = json_string_value(json_object_get(root, "$schema"));
    return name != NULL && strstr(name, "/draft-0") != NULL;
}

static uint32_t free_char(struct json_schema *c) {
    return json_schema_expression(
        c,
        "[^\\x00-\\x1f\"\\\\]|\\\\([\"\\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
        "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))",
        REGEX_RAW);
}

stator_status json_schema_finish(struct json_schema *c, uint32_t node, struct regex **r) {
    uint32_t left = 0;
    if (c->status != STATOR_OK)
        return c->status;
    c->r->plain_char = c->free_char;
    if (!regex_seal(c->r, node, &left)) {
        if (c->r->result != REGEX_OK)
            return regex_ran_out(c->r, "JSON Schema", c->e);
        return error_set(c->e, STATOR_USAGE,
                         "JSON Schema: a $ref leads back to itself without a property or item");
    }
    if (regex_start(c->r) == REGEX_DEAD)
        return error_set(c->e, STATOR_USAGE, "JSON Schema: no value is valid for this schema");
    *r = c->r;
    return STATOR_OK;
}

static void lay_out(struct carve *carve, uint32_t nodes, void **main, void **scratch) {
    *main = carve_take(carve, 1, regex_bytes(nodes));
    *scratch = carve_take(carve, 1, regex_bytes(SCRATCH_NODES));
}

uint64_t json_schema_bytes(uint32_t nodes) {
    struct carve carve = carve_count();
    void *unused[2];
    lay_out(&carve, nodes, &unused[0], &unused[1]);
    return carve.used;
}

void json_schema_enter(struct json_schema *c, json_t *root) {
    c->root = root;
    c->nodes = json_object();
    c->lone_ref = old_draft(root);
}

stator_status json_schema_begin(struct json_schema *c, void *memory, uint32_t nodes, const char *text,
                                size_t length, enum json_schema_space space, stator_error *e) {
    struct carve carve = carve_in(memory, json_schema_bytes(nodes));
    const uint32_t all[2] = {0, 0x10FFFF};
    void *main;
    json_error_t wrong;
    *c = (struct json_schema){.e = e, .status = STATOR_OK, .spelling = REGEX_QUOTED};
    if (length > JSON_SCHEMA_TEXT_LIMIT)
        return error_set(e, STATOR_USAGE, "JSON Schema: %zu bytes, at most %u are allowed", length,
                         JSON_SCHEMA_TEXT_LIMIT);
    lay_out(&carve, nodes, &main, &c->scratch);
    c->r = regex_lay_out(main, nodes);
    json_t *root = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &wrong);
    if (root == NULL)
        return error_set(e, STATOR_USAGE, "JSON Schema: line %d: %s", wrong.line, wrong.text);
    json_schema_enter(c, root);
    c->kept = json_array();
    c->space = REGEX_EMPTY;
    if (space == JSON_SCHEMA_FREE)
        c->space =
            regex_make_repeat(c->r, json_schema_expression(c, "[ \\t\\n\\r]", REGEX_RAW), 0, SPACE_MAX);
    c->any_char = regex_make_points(c->r, all, 1, REGEX_QUOTED);
    c->free_char = free_char(c);
    return STATOR_OK;
}

void json_schema_end(struct json_schema *c) {
    json_decref(c->nodes);
    json_decref(c->kept);
    json_decref(c->parts);
    json_decref(c->root);
}

stator_status json_schema_compile(void *memory, uint32_t nodes, const char *text, size_t length,
                                  enum json_schema_space space, struct regex **r, stator_error *e) {
    struct json_schema c;
    stator_status st = json_schema_begin(&c, memory, nodes, text, length, space, e);
    if (st != STATOR_OK)
        return st;
    st = json_schema_finish(&c, json_schema_node(&c, c.root), r);
    json_schema_end(&c);
    return st;
}
