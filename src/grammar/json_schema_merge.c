/* Schemas without $ref and allOf: what several schemas demand together, as one. */
#include "grammar/json_schema_parts.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static bool merge(struct json_schema *c, json_t *into, json_t *s, uint32_t depth);

json_t *json_schema_wrap(struct json_schema *c, const char *key, json_t *value) {
    json_t *made = json_object();
    json_array_append_new(c->kept, made);
    json_object_set_new(made, key, value);
    return made;
}

/* A pointer of RFC 6901 behind #. */
static json_t *follow(struct json_schema *c, const char *pointer) {
    json_t *at = c->root;
    while (*pointer == '/' && at != NULL) {
        char key[256];
        size_t n = 0;
        for (pointer++; *pointer != '\0' && *pointer != '/' && n < sizeof key - 1; n++) {
            if (pointer[0] == '~' && (pointer[1] == '0' || pointer[1] == '1')) {
                key[n] = pointer[1] == '0' ? '~' : '/';
                pointer += 2;
            } else if (pointer[0] == '%' && strlen(pointer) > 2) {
                const char hex[3] = {pointer[1], pointer[2], '\0'};
                key[n] = (char)strtoul(hex, NULL, 16);
                pointer += 3;
            } else {
                key[n] = *pointer++;
            }
        }
        key[n] = '\0';
        at = json_is_array(at) ? json_array_get(at, strtoul(key, NULL, 10)) : json_object_get(at, key);
    }
    return *pointer == '\0' ? at : NULL;
}

static json_t *target_of(struct json_schema *c, json_t *s, json_t *ref) {
    const char *text = json_string_value(ref);
    json_t *target =
        text != NULL && text[0] == '#' && (text[1] == '\0' || text[1] == '/') ? follow(c, text + 1) : NULL;
    if (target == NULL)
        json_schema_refuse(c, s, "$ref", "\"%s\" is no place in this schema", text != NULL ? text : "");
    return target;
}

static json_t *list_of(json_t *into, const char *key) {
    json_t *list = json_object_get(into, key);
    if (list == NULL) {
        list = json_array();
        json_object_set_new(into, key, list);
    }
    return list;
}

static bool has_type(const json_t *types, const char *name) {
    size_t i;
    json_t *x;
    json_array_foreach(types, i,
                       x) if (json_is_string(x) && strcmp(json_string_value(x), name) == 0) return true;
    return false;
}

static void merge_type(struct json_schema *c, json_t *into, json_t *s, json_t *v) {
    json_t *had = json_object_get(into, "type"), *list = json_array(), *x;
    json_t *theirs = json_is_array(v) ? json_incref(v) : json_pack("[O]", v);
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    size_t i;
    json_array_foreach(theirs, i, x) {
        size_t k = 0;
        while (k < 7 && (!json_is_string(x) || strcmp(json_string_value(x), names[k]) != 0))
            k++;
        if (k == 7)
            json_schema_refuse(c, s, "type", "\"%s\" is no type",
                               json_is_string(x) ? json_string_value(x) : "");
        else if (had == NULL || has_type(had, names[k]) || (k == 2 && has_type(had, "number")))
            json_array_append(list, x);
        else if (k == 3 && has_type(had, "integer"))
            json_array_append_new(list, json_string("integer"));
    }
    json_decref(theirs);
    json_object_set_new(into, "type", list);
}

static void merge_enum(struct json_schema *c, json_t *into, json_t *s, json_t *v) {
    json_t *had = json_object_get(into, "enum"), *list = json_array(), *x, *y;
    size_t i, k;
    if (!json_is_array(v))
        json_schema_refuse(c, s, "enum", "an array is expected");
    if (!regex_spend(c->r, json_array_size(v) * (1 + json_array_size(had) / 4)))
        v = NULL;
    json_array_foreach(v, i, x) {
        bool is = had == NULL;
        json_array_foreach(had, k, y) is = is || json_schema_equal(x, y);
        if (is)
            json_array_append(list, x);
    }
    json_object_set_new(into, "enum", list);
}

/* The larger one of numbers, or the smaller one. */
static void merge_bound(struct json_schema *c, json_t *into, json_t *s, const char *key, json_t *v,
                        bool larger) {
    json_t *had = json_object_get(into, key);
    if (!json_is_number(v))
        json_schema_refuse(c, s, key, "a number is expected");
    else if (had == NULL || (json_number_value(v) > json_number_value(had)) == larger)
        json_object_set(into, key, v);
}

static json_t *both(struct json_schema *c, json_t *a, json_t *b) {
    if (a == NULL || b == NULL || a == b)
        return a != NULL ? a : b;
    return json_schema_wrap(c, "allOf", json_pack("[OO]", a, b));
}

/* What an object schema demands of a property: NULL: nothing. */
static json_t *demand(struct json_schema *c, json_t *s, const char *key) {
    json_t *schema = json_object_get(json_object_get(s, "properties"), key), *x;
    bool named = schema != NULL;
    const char *pattern;
    json_object_foreach(json_object_get(s, "patternProperties"), pattern, x) {
        if (!json_schema_found(c, s, pattern, key, strlen(key)))
            continue;
        schema = both(c, schema, x);
        named = true;
    }
    return named ? schema : json_object_get(s, "additionalProperties");
}

static bool is_open(const json_t *additional) {
    return additional == NULL || json_is_true(additional) ||
           (json_is_object(additional) && json_object_size(additional) == 0);
}

/* properties, patternProperties and additionalProperties belong together. */
static void merge_properties(struct json_schema *c, json_t *into, json_t *s) {
    static const char *const keys[] = {"properties", "patternProperties", "additionalProperties"};
    bool has = false, had = false;
    for (int i = 0; i < 3; i++) {
        has |= json_object_get(s, keys[i]) != NULL;
        had |= json_object_get(into, keys[i]) != NULL;
        if (i < 2 && json_object_get(s, keys[i]) != NULL && !json_is_object(json_object_get(s, keys[i])))
            json_schema_refuse(c, s, keys[i], "an object is expected");
    }
    if (!has || c->status != STATOR_OK)
        return;
    for (int i = 0; i < 3 && !had; i++)
        if (json_object_get(s, keys[i]) != NULL)
            json_object_set(into, keys[i], json_object_get(s, keys[i]));
    if (!had)
        return;
    json_t *a = json_object_get(into, "additionalProperties"),
           *b = json_object_get(s, "additionalProperties");
    json_t *p = json_object_get(into, "patternProperties"), *q = json_object_get(s, "patternProperties"), *x;
    if ((json_object_size(p) > 0 && !is_open(b)) || (json_object_size(q) > 0 && !is_open(a))) {
        json_schema_refuse(c, s, "patternProperties",
                           "not supported beside another schema with additionalProperties");
        return;
    }
    json_t *properties = json_object(), *patterns = json_object();
    json_t *lists[2] = {json_object_get(into, "properties"), json_object_get(s, "properties")};
    const char *key;
    for (int i = 0; i < 2; i++)
        json_object_foreach(lists[i], key, x) {
            json_t *all = both(c, demand(c, into, key), demand(c, s, key));
            if (json_object_get(properties, key) == NULL)
                json_object_set(properties, key, all);
        }
    json_object_foreach(p, key, x) json_object_set(patterns, key, both(c, x, json_object_get(q, key)));
    json_object_foreach(q, key, x) if (json_object_get(patterns, key) == NULL)
        json_object_set(patterns, key, x);
    json_t *more = both(c, a, b);
    if (more != NULL)
        json_object_set(into, "additionalProperties", more);
    json_object_set_new(into, "properties", properties);
    json_object_set_new(into, "patternProperties", patterns);
}

/* prefixItems and items, which drafts up to 7 call items and additionalItems. */
static void merge_items(struct json_schema *c, json_t *into, json_t *s) {
    json_t *items = json_object_get(s, "items"), *prefix = json_object_get(s, "prefixItems");
    if (json_is_array(items)) {
        prefix = items;
        items = json_object_get(s, "additionalItems");
    }
    if (prefix != NULL && !json_is_array(prefix))
        json_schema_refuse(c, s, "prefixItems", "an array is expected");
    if (items == NULL && prefix == NULL)
        return;
    json_t *had_items = json_object_get(into, "items"), *had = json_object_get(into, "prefixItems");
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(had) || i < json_array_size(prefix); i++) {
        json_t *x = i < json_array_size(had) ? json_array_get(had, i) : had_items;
        json_t *y = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        json_t *all = both(c, x, y);
        json_array_append(list, all);
    }
    items = both(c, had_items, items);
    if (items != NULL)
        json_object_set(into, "items", items);
    json_object_set_new(into, "prefixItems", list);
}

static void add_alternatives(json_t *into, const char *kind, json_t *options) {
    json_array_append_new(list_of(into, "$alternatives"), json_pack("{sO}", kind, options));
}

/* Without the property, or with what it brings along. */
static void merge_dependencies(struct json_schema *c, json_t *into, json_t *s, const char *keyword,
                               json_t *v) {
    const char *key;
    json_t *x;
    if (!json_is_object(v))
        json_schema_refuse(c, s, keyword, "an object is expected");
    json_object_foreach(v, key, x) {
        json_t *brings = json_is_array(x) ? json_pack("{sO}", "required", x) : json_incref(x);
        json_t *options =
            json_pack("[{s{sb}}{s[{s[s]}o]}]", "properties", key, 0, "allOf", "required", key, brings);
        add_alternatives(into, "anyOf", options);
        json_decref(options);
    }
}

static bool names_any(const char *key, const char *const *names) {
    while (*names != NULL && strcmp(key, *names) != 0)
        names++;
    return *names != NULL;
}

static void merge_keyword(struct json_schema *c, json_t *into, json_t *s, const char *key, json_t *v) {
    static const char *const larger[] = {"minimum",  "exclusiveMinimum", "minLength",
                                         "minItems", "minProperties",    NULL};
    static const char *const smaller[] = {"maximum",  "exclusiveMaximum", "maxLength",
                                          "maxItems", "maxProperties",    NULL};
    static const char *const lists[] = {"pattern",    "$patterns",     "format", "$formats", "multipleOf",
                                        "$multiples", "propertyNames", "$names", NULL};
    static const char *const refused[] = {
        "not", "if", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", NULL};
    json_t *x;
    size_t i;
    if (strcmp(key, "type") == 0)
        merge_type(c, into, s, v);
    else if (strcmp(key, "enum") == 0)
        merge_enum(c, into, s, v);
    else if (strcmp(key, "const") == 0) {
        json_t *one = json_pack("[O]", v);
        merge_enum(c, into, s, one);
        json_decref(one);
    } else if (names_any(key, larger) && !json_is_boolean(v))
        merge_bound(c, into, s, key, v, true);
    else if (names_any(key, smaller) && !json_is_boolean(v))
        merge_bound(c, into, s, key, v, false);
    else if (json_is_true(v) && strcmp(key, "exclusiveMinimum") == 0)
        merge_bound(c, into, s, key, json_object_get(s, "minimum"), true); /* draft 4 */
    else if (json_is_true(v) && strcmp(key, "exclusiveMaximum") == 0)
        merge_bound(c, into, s, key, json_object_get(s, "maximum"), false);
    else if (names_any(key, lists)) {
        const char *to = strcmp(key, "pattern") == 0         ? "$patterns"
                         : strcmp(key, "format") == 0        ? "$formats"
                         : strcmp(key, "multipleOf") == 0    ? "$multiples"
                         : strcmp(key, "propertyNames") == 0 ? "$names"
                                                             : key;
        if (to != key)
            json_array_append(list_of(into, to), v);
        else
            json_array_extend(list_of(into, to), v);
    } else if (strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0) {
        if (!json_is_array(v) || json_array_size(v) == 0)
            json_schema_refuse(c, s, key, "an array with a schema or more is expected");
        add_alternatives(into, key, v);
    } else if (strcmp(key, "$alternatives") == 0)
        json_array_extend(list_of(into, key), v);
    else if (strcmp(key, "required") == 0) {
        if (!json_is_array(v) && !json_is_boolean(v))
            json_schema_refuse(c, s, key, "an array of names is expected");
        json_array_foreach(v, i, x) {
            if (!regex_spend(c->r, 1 + json_array_size(json_object_get(into, key)) / 16))
                return;
            if (!json_is_string(x))
                json_schema_refuse(c, s, key, "an array of names is expected");
            else if (!has_type(json_object_get(into, key), json_string_value(x)))
                json_array_append(list_of(into, key), x);
        }
    } else if (strcmp(key, "dependentRequired") == 0 || strcmp(key, "dependentSchemas") == 0 ||
               strcmp(key, "dependencies") == 0)
        merge_dependencies(c, into, s, key, v);
    else if (strcmp(key, "contains") == 0 || strcmp(key, "uniqueItems") == 0)
        json_object_set(into, key, v);
    else if (names_any(key, refused))
        json_schema_refuse(c, s, key, "not supported");
}

static bool merge(struct json_schema *c, json_t *into, json_t *s, uint32_t depth) {
    const char *key;
    json_t *v, *x;
    size_t i;
    if (json_is_boolean(s))
        return json_is_true(s);
    /* References in several places, or to each other, may be far more than their text. */
    if (!regex_spend(c->r, 16 + json_object_size(s) + json_object_size(json_object_get(into, "properties")) +
                               json_object_size(json_object_get(s, "properties"))))
        return false;
    if (!json_is_object(s) || depth == JSON_SCHEMA_DEPTH) {
        json_schema_refuse(c, s, "schema",
                           !json_is_object(s) ? "an object, true or false is expected"
                                              : "$ref and allOf lead on without end");
        return false;
    }
    json_t *ref = json_object_get(s, "$ref");
    if (ref != NULL) {
        json_t *target = target_of(c, s, ref);
        if (target == NULL || !merge(c, into, target, depth + 1))
            return false;
        if (c->lone_ref)
            return true;
    }
    if (s != c->root &&
        (json_is_string(json_object_get(s, "$id")) || json_object_get(s, "$dynamicAnchor") != NULL)) {
        json_schema_refuse(c, s, "$id",
                           "a schema with an address of its own is not supported inside of another");
        return false;
    }
    merge_properties(c, into, s);
    merge_items(c, into, s);
    json_object_foreach(s, key, v) merge_keyword(c, into, s, key, v);
    json_array_foreach(json_object_get(s, "allOf"), i, x) if (!merge(c, into, x, depth + 1)) return false;
    return json_schema_going(c);
}

json_t *json_schema_merged(struct json_schema *c, json_t *s) {
    json_t *into = json_object();
    json_array_append_new(c->kept, into);
    return merge(c, into, s, 0) ? into : NULL;
}
