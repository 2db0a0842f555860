#include "chat/chat_types.h"

#include <string.h>

#define DEPTH 24 /* of references and combinations */
#define STEPS 4096

static unsigned type_by_name(const char *name) {
    static const struct {
        const char *name;
        unsigned type;
    } names[] = {{"string", CHAT_TYPE_STRING},   {"number", CHAT_TYPE_NUMBER}, {"integer", CHAT_TYPE_NUMBER},
                 {"boolean", CHAT_TYPE_BOOLEAN}, {"null", CHAT_TYPE_NULL},     {"object", CHAT_TYPE_OBJECT},
                 {"array", CHAT_TYPE_ARRAY}};
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].type;
    return 0;
}

static unsigned type_of_value(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_STRING:
        return CHAT_TYPE_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return CHAT_TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return CHAT_TYPE_BOOLEAN;
    case JSON_NULL:
        return CHAT_TYPE_NULL;
    case JSON_OBJECT:
        return CHAT_TYPE_OBJECT;
    case JSON_ARRAY:
        return CHAT_TYPE_ARRAY;
    }
    return CHAT_TYPE_ANY;
}

/* A step of a JSON pointer, of n bytes; a key is at most 127 bytes long. */
static const json_t *step(const json_t *at, const char *p, size_t n) {
    char key[128];
    size_t k = 0;
    for (size_t i = 0; i < n && k + 1 < sizeof key; i++) {
        const bool escaped = p[i] == '~' && i + 1 < n;
        key[k++] = !escaped ? p[i] : p[i + 1] == '1' ? '/' : '~';
        i += escaped;
    }
    key[k] = '\0';
    if (!json_is_array(at))
        return json_object_get(at, key);
    size_t index = 0;
    for (size_t i = 0; i < k; i++) {
        if (key[i] < '0' || key[i] > '9' || index > 100000)
            return NULL;
        index = index * 10 + (size_t)(key[i] - '0');
    }
    return json_array_get(at, index);
}

/* A reference into the same schema: "#/$defs/name". NULL: elsewhere, or nowhere. */
static const json_t *resolve(const char *ref, const json_t *root) {
    if (ref == NULL || ref[0] != '#')
        return NULL;
    const json_t *at = root;
    for (const char *p = ref + 1; *p == '/' && at != NULL;) {
        const char *end = strchrnul(++p, '/');
        at = step(at, p, (size_t)(end - p));
        p = end;
    }
    return at;
}

static unsigned types_at(const json_t *schema, const json_t *root, int depth, int *steps);

/* Of the schemas in an array: what any of them allows, or (all) what each of them allows. */
static unsigned combine(const json_t *schemas, const json_t *root, bool all, int depth, int *steps) {
    unsigned types = all ? CHAT_TYPE_ANY : 0;
    for (size_t i = 0; i < json_array_size(schemas); i++) {
        const unsigned one = types_at(json_array_get(schemas, i), root, depth + 1, steps);
        types = all ? types & one : types | one;
    }
    return types != 0 ? types : CHAT_TYPE_ANY;
}

static unsigned listed(const json_t *type) {
    if (json_is_string(type))
        return type_by_name(json_string_value(type));
    unsigned types = 0;
    for (size_t i = 0; i < json_array_size(type); i++)
        types |= type_by_name(json_string_value(json_array_get(type, i)));
    return types;
}

static unsigned types_at(const json_t *schema, const json_t *root, int depth, int *steps) {
    if (!json_is_object(schema) || depth > DEPTH || ++*steps > STEPS)
        return CHAT_TYPE_ANY;
    static const char *const unions[] = {"anyOf", "oneOf"};
    unsigned types = CHAT_TYPE_ANY;
    const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum"),
                 *value = json_object_get(schema, "const"), *all = json_object_get(schema, "allOf");
    const unsigned by_name = listed(type);
    types &= by_name != 0 ? by_name : CHAT_TYPE_ANY;
    if (json_is_true(json_object_get(schema, "nullable")) && by_name != 0)
        types |= CHAT_TYPE_NULL;
    const json_t *target = resolve(json_string_value(json_object_get(schema, "$ref")), root);
    if (target != NULL)
        types &= types_at(target, root, depth + 1, steps);
    for (int i = 0; i < 2; i++) {
        const json_t *one = json_object_get(schema, unions[i]);
        if (json_array_size(one) > 0)
            types &= combine(one, root, false, depth, steps);
    }
    if (json_array_size(all) > 0)
        types &= combine(all, root, true, depth, steps);
    if (value != NULL)
        types &= type_of_value(value);
    unsigned listed_values = 0;
    for (size_t i = 0; i < json_array_size(values); i++)
        listed_values |= type_of_value(json_array_get(values, i));
    types &= listed_values != 0 ? listed_values : CHAT_TYPE_ANY;
    return types != 0 ? types : CHAT_TYPE_ANY; /* a schema that nothing fulfils says nothing */
}

unsigned chat_types_of(const json_t *schema, const json_t *root) {
    int steps = 0;
    return types_at(schema, root, 0, &steps);
}

static void put_row(const char *function, const char *param, unsigned types,
                    void (*put)(void *context, const char *p, size_t n), void *context) {
    const char byte = (char)(types + 64);
    put(context, function, strlen(function) + 1);
    put(context, param, strlen(param) + 1);
    put(context, &byte, 1);
}

void chat_types_write(const json_t *tools, void (*put)(void *context, const char *p, size_t n),
                      void *context) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const json_t *parameters = json_object_get(function, "parameters");
        const char *name = json_string_value(json_object_get(function, "name")), *key;
        json_t *schema;
        if (name == NULL)
            continue;
        put_row(name, "", 0, put, context);
        const json_t *target = resolve(json_string_value(json_object_get(parameters, "$ref")), parameters);
        const json_t *at = target != NULL ? target : parameters;
        json_object_foreach(json_object_get(at, "properties"), key, schema) if (key[0] != '\0')
            put_row(name, key, chat_types_of(schema, parameters), put, context);
    }
}

struct row {
    const char *function, *param;
    size_t function_length, param_length;
    unsigned types;
};

/* The row at *at, which moves on; false: there is none. */
static bool next_row(const struct chat_types *t, size_t *at, struct row *r) {
    if (t == NULL || *at >= t->n)
        return false;
    const char *p = t->rows + *at;
    *r = (struct row){.function = p, .function_length = strlen(p)};
    r->param = p + r->function_length + 1;
    r->param_length = strlen(r->param);
    r->types = (unsigned)(unsigned char)r->param[r->param_length + 1] - 64;
    *at += r->function_length + r->param_length + 3;
    return true;
}

unsigned chat_types_find(const struct chat_types *t, const char *function, const char *param, size_t n) {
    struct row r;
    for (size_t at = 0; next_row(t, &at, &r);)
        if (r.param_length > 0 && r.param_length == n && memcmp(r.param, param, n) == 0 &&
            strcmp(r.function, function) == 0)
            return r.types;
    return 0;
}

bool chat_types_has(const struct chat_types *t, const char *function, size_t n) {
    struct row r;
    for (size_t at = 0; next_row(t, &at, &r);)
        if (r.param_length == 0 && r.function_length == n && memcmp(r.function, function, n) == 0)
            return true;
    return false;
}

bool chat_types_begins(const struct chat_types *t, const char *p, size_t n, size_t *whole) {
    struct row r;
    bool may = false;
    *whole = 0;
    for (size_t at = 0; next_row(t, &at, &r);) {
        if (r.param_length > 0)
            continue;
        const size_t both = r.function_length < n ? r.function_length : n;
        if (memcmp(r.function, p, both) != 0)
            continue;
        may = may || n < r.function_length;
        if (n >= r.function_length && r.function_length > *whole)
            *whole = r.function_length;
    }
    return may || *whole > 0;
}
