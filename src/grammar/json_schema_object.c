/* Objects and arrays. */
#include "grammar/json_schema_parts.h"

#include "base/arith.h"

#include <string.h>

#define MAX_COUNTED  64u /* properties, where their number is bounded */
#define MAX_PATTERNS 4u
#define MAX_MEMBERS  2000u

struct object {
    json_t *schema, *required, *members; /* members: an object of names and what is demanded of them */
    uint32_t extra;                      /* a member of another name; REGEX_DEAD: there is none */
    uint32_t min, max, cap;              /* cap: a number of members that stands for all above too */
};

/* What propertyNames allow, without quotes. */
static uint32_t allowed_names(struct json_schema *c, const struct object *o) {
    uint32_t names = regex_make_not(c->r, REGEX_DEAD);
    size_t i;
    json_t *x;
    json_array_foreach(json_object_get(o->schema, "$names"), i, x) {
        json_t *s = json_schema_merged(c, x), *types = json_object_get(s, "type");
        bool strings = types == NULL;
        if (s == NULL)
            return REGEX_DEAD;
        if (json_object_get(s, "$alternatives") != NULL || json_object_get(s, "enum") != NULL)
            return json_schema_refuse(c, o->schema, "propertyNames",
                                      "enum and alternatives are not supported");
        for (size_t k = 0; k < json_array_size(types); k++)
            strings |= strcmp(json_string_value(json_array_get(types, k)), "string") == 0;
        names = strings ? regex_make_and(c->r, names, json_schema_characters(c, s, true)) : REGEX_DEAD;
    }
    return names;
}

static uint32_t member(struct json_schema *c, const struct object *o, const char *name, uint32_t value) {
    uint32_t quote = json_schema_text(c, "\"");
    uint32_t key = regex_make_and(c->r, json_schema_quoted(c, name, strlen(name)), allowed_names(c, o));
    key = json_schema_list(c, quote, key, quote);
    return json_schema_list(c, key, json_schema_mark(c, ":"), value);
}

static bool is_required(const json_t *required, const char *name) {
    size_t i;
    json_t *x;
    json_array_foreach(required, i, x) if (strcmp(json_string_value(x), name) == 0) return true;
    return false;
}

/* What is demanded of a name; NULL: nothing. */
static json_t *demand(struct json_schema *c, const json_t *s, const char *name) {
    json_t *all = json_array(), *x = json_object_get(json_object_get(s, "properties"), name);
    const char *pattern;
    bool named = x != NULL;
    if (named)
        json_array_append(all, x);
    json_object_foreach(json_object_get(s, "patternProperties"), pattern, x) {
        if (!json_schema_found(c, s, pattern, name, strlen(name)))
            continue;
        json_array_append(all, x);
        named = true;
    }
    x = json_object_get(s, "additionalProperties");
    if (!named && x != NULL)
        json_array_append(all, x);
    json_t *only = json_array_size(all) == 1 ? json_array_get(all, 0) : NULL;
    if (only != NULL) {
        json_array_append(c->kept, only);
        json_decref(all);
        return only;
    }
    return json_schema_wrap(c, "allOf", all);
}

/* Names of extra members, without quotes: those in the patterns of `in`, and in no other one, and none of the
 * members. */
static uint32_t extra_names(struct json_schema *c, const struct object *o, uint32_t in, bool *one) {
    uint32_t mark = c->r->n_stack, bit = 0, names = regex_make_not(c->r, REGEX_DEAD);
    const char *key;
    json_t *x;
    json_object_foreach(o->members, key, x) regex_push(c->r, json_schema_quoted(c, key, strlen(key)));
    json_object_foreach(json_object_get(o->schema, "patternProperties"), key, x) {
        uint32_t node = REGEX_DEAD;
        stator_error e = {0};
        if (regex_parse(c->r, key, strlen(key), REGEX_SEARCH, REGEX_QUOTED, &node, &e) != STATOR_OK)
            return json_schema_refuse(c, o->schema, "patternProperties", "\"%s\": %s", key, e.text);
        if (in >> bit++ & 1)
            names = regex_make_and(c->r, names, node);
        else
            regex_push(c->r, node);
    }
    uint32_t others = regex_take_or(c->r, mark);
    names = regex_make_and(c->r, names, regex_make_not(c->r, others));
    names = regex_make_and(c->r, names, allowed_names(c, o));
    *one = names != regex_make_not(c->r, REGEX_DEAD);
    uint32_t all = regex_make_repeat(c->r, *one ? c->any_char : c->free_char, 0, REGEX_FOREVER);
    return regex_make_and(c->r, all, names);
}

static uint32_t extra_member(struct json_schema *c, const struct object *o) {
    json_t *patterns = json_object_get(o->schema, "patternProperties"), *x;
    uint32_t n = (uint32_t)json_object_size(patterns), mark = c->r->n_stack,
             quote = json_schema_text(c, "\"");
    const char *key;
    if (n > MAX_PATTERNS)
        return json_schema_refuse(c, o->schema, "patternProperties", "more than %u patterns", MAX_PATTERNS);
    for (uint32_t in = 0; in < 1u << n && json_schema_going(c); in++) {
        json_t *all = json_array();
        uint32_t bit = 0;
        bool one;
        json_object_foreach(patterns, key, x) if (in >> bit++ & 1) json_array_append(all, x);
        x = json_object_get(o->schema, "additionalProperties");
        if (in == 0 && x != NULL)
            json_array_append(all, x);
        json_t *schema = json_array_size(all) == 1 ? json_array_get(all, 0) : NULL;
        uint32_t value;
        if (schema != NULL) {
            json_array_append(c->kept, schema);
            json_decref(all);
        } else {
            schema = json_schema_wrap(c, "allOf", all);
        }
        value = json_schema_node(c, schema);
        uint32_t names = value == REGEX_DEAD ? REGEX_DEAD : extra_names(c, o, in, &one);
        uint32_t whole = json_schema_list(c, quote, names, quote);
        regex_push(c->r, json_schema_list(c, whole, json_schema_mark(c, ":"), value));
    }
    return regex_take_or(c->r, mark);
}

/* The end of an object that has n members: extra ones, and the bracket. */
static uint32_t object_end(struct json_schema *c, const struct object *o, uint32_t n) {
    uint32_t end = json_schema_mark(c, "}"), lo = o->min > n ? o->min - n : 0;
    uint32_t hi = o->max == REGEX_FOREVER ? REGEX_FOREVER : o->max - n;
    if (lo > 1 && o->extra != REGEX_DEAD) /* two of them may have one name, and count once */
        return json_schema_refuse(c, o->schema, "minProperties",
                                  "not supported where more than one name is free");
    uint32_t node = lo == 0 ? end : REGEX_DEAD;
    if (hi == 0 || o->extra == REGEX_DEAD)
        return node;
    uint32_t next = regex_make_concat(c->r, json_schema_mark(c, ","), o->extra);
    uint32_t more = regex_make_concat(
        c->r, regex_make_repeat(c->r, next, 0, hi == REGEX_FOREVER ? REGEX_FOREVER : hi - 1), end);
    return json_schema_or(c, node, regex_make_concat(c->r, n > 0 ? next : o->extra, more));
}

/* From the last member to the first: what may follow where n members are there. */
static uint32_t object_members(struct json_schema *c, const struct object *o) {
    uint32_t after[MAX_COUNTED + 1], now[MAX_COUNTED + 1];
    size_t n_members = json_object_size(o->members);
    json_t *list = json_array(), *x;
    const char *key;
    json_array_append_new(c->kept, list);
    json_object_foreach(o->members, key, x) json_array_append_new(list, json_pack("[sO]", key, x));
    for (uint32_t n = 0; n <= o->cap; n++)
        after[n] = o->max != REGEX_FOREVER && n > o->max ? REGEX_DEAD : object_end(c, o, n);
    for (size_t i = n_members; i-- > 0 && json_schema_going(c);) {
        key = json_string_value(json_array_get(json_array_get(list, i), 0));
        x = json_array_get(json_array_get(list, i), 1);
        bool required = is_required(o->required, key);
        if (!regex_spend(c->r, 1 + json_array_size(o->required) / 16))
            return REGEX_DEAD;
        uint32_t value = json_schema_node(c, x);
        uint32_t first = value == REGEX_DEAD ? REGEX_DEAD : member(c, o, key, value);
        uint32_t next = regex_make_concat(c->r, json_schema_mark(c, ","), first);
        for (uint32_t n = 0; n <= o->cap; n++) {
            uint32_t then = after[n < o->cap ? n + 1 : n], rule;
            uint32_t with = regex_make_concat(c->r, n > 0 ? next : first, then);
            uint32_t body = required ? with : json_schema_or(c, with, after[n]);
            now[n] = body;
            if (body != REGEX_DEAD && i > 0) {
                now[n] = regex_make_rule(c->r, &rule);
                regex_set_rule(c->r, rule, body);
            }
        }
        memcpy(after, now, sizeof after);
    }
    return regex_make_concat(c->r, json_schema_mark(c, "{"), after[0]);
}

uint32_t json_schema_object(struct json_schema *c, json_t *s) {
    struct object o = {.schema = s, .required = json_object_get(s, "required"), .cap = 1};
    const char *key;
    json_t *x;
    size_t i;
    o.min = json_schema_count(c, s, "minProperties", 0);
    o.max = json_schema_count(c, s, "maxProperties", REGEX_FOREVER);
    o.members = json_object();
    json_array_append_new(c->kept, o.members);
    json_object_foreach(json_object_get(s, "properties"), key, x)
        json_object_set(o.members, key, demand(c, s, key));
    json_array_foreach(o.required, i, x) if (json_object_get(o.members, json_string_value(x)) == NULL)
        json_object_set(o.members, json_string_value(x), demand(c, s, json_string_value(x)));
    if (json_object_size(o.members) > MAX_MEMBERS)
        return json_schema_refuse(c, s, "properties", "more than %u", MAX_MEMBERS);
    if (o.min <= json_array_size(o.required) || o.min == 1)
        o.min = ARITH_MIN(o.min, 1);
    if (o.max != REGEX_FOREVER || o.min > 1)
        o.cap = ARITH_MAX(o.max == REGEX_FOREVER ? 0 : o.max + 1, o.min);
    if (o.min > o.max)
        return REGEX_DEAD;
    if (o.cap > MAX_COUNTED)
        return json_schema_refuse(c, s, o.min > MAX_COUNTED ? "minProperties" : "maxProperties",
                                  "counts above %u are not supported", MAX_COUNTED - 1);
    o.extra = extra_member(c, &o);
    return json_schema_going(c) ? object_members(c, &o) : REGEX_DEAD;
}

uint32_t json_schema_array(struct json_schema *c, json_t *s) {
    uint32_t min = json_schema_count(c, s, "minItems", 0),
             max = json_schema_count(c, s, "maxItems", REGEX_FOREVER);
    json_t *prefix = json_object_get(s, "prefixItems"), *items = json_object_get(s, "items");
    uint32_t n = (uint32_t)json_array_size(prefix), end = json_schema_mark(c, "]"),
             comma = json_schema_mark(c, ",");
    if (min > max)
        return REGEX_DEAD;
    if (json_is_true(json_object_get(s, "uniqueItems")) && max > 1)
        return json_schema_refuse(c, s, "uniqueItems", "not supported where an array may have several items");
    if (json_object_get(s, "contains") != NULL)
        return json_schema_refuse(c, s, "contains", "not supported");
    uint32_t item = items != NULL ? json_schema_node(c, items) : json_schema_any(c);
    uint32_t first = ARITH_MAX(n, 1); /* items that the repetition does not count */
    uint32_t tail = REGEX_DEAD;
    if (max >= first)
        tail = regex_make_concat(c->r,
                                 regex_make_repeat(c->r, regex_make_concat(c->r, comma, item),
                                                   min > first ? min - first : 0,
                                                   max == REGEX_FOREVER ? REGEX_FOREVER : max - first),
                                 end);
    for (uint32_t i = first; i-- > 0 && json_schema_going(c);) {
        /* tail: what follows i + 1 items */
        uint32_t value = i < n ? json_schema_node(c, json_array_get(prefix, i)) : item;
        uint32_t with = i >= max ? REGEX_DEAD : json_schema_list(c, i > 0 ? comma : REGEX_EMPTY, value, tail);
        tail = i >= min ? json_schema_or(c, with, end) : with;
    }
    return regex_make_concat(c->r, json_schema_mark(c, "["), tail);
}
