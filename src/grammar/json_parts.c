#include "grammar/json_parts.h"

#include "grammar/json_schema_parts.h"

static uint32_t part(struct json_schema *c, json_t *p, uint32_t depth);

/* Ends compiling. Returns REGEX_DEAD. */
static uint32_t refuse(struct json_schema *c, const char *what) {
    if (c->status == STATOR_OK)
        c->status = error_set(c->e, STATOR_USAGE, "parts of a grammar: %s", what);
    return REGEX_DEAD;
}

static uint32_t token(struct json_schema *c, const json_t *name) {
    const uint8_t mark = JSON_PARTS_MARK;
    if (json_string_length(name) == 0)
        return refuse(c, "\"token\" needs a name");
    const uint32_t begin = regex_make_text(c->r, &mark, 1);
    return regex_make_concat(c->r, begin, json_schema_text(c, json_string_value(name)));
}

/* Its own root, and its own rules: what they are called in one schema is something else in another. */
static uint32_t schema(struct json_schema *c, json_t *s) {
    const struct json_schema outer = *c;
    json_schema_enter(c, s);
    const uint32_t node = json_schema_node(c, s);
    json_decref(c->nodes);
    c->root = outer.root;
    c->nodes = outer.nodes;
    c->lone_ref = outer.lone_ref;
    return node;
}

/* All parts of a list, on the stack. */
static void push(struct json_schema *c, const json_t *list, uint32_t depth) {
    for (size_t i = 0; i < json_array_size(list) && json_schema_going(c); i++) {
        const uint32_t node = part(c, json_array_get(list, i), depth);
        regex_push(c->r, node);
    }
}

static uint32_t part(struct json_schema *c, json_t *p, uint32_t depth) {
    const uint32_t mark = c->r->n_stack;
    json_t *of;
    if (depth > JSON_PARTS_DEPTH)
        return refuse(c, "nested too deep");
    if (json_is_string(p))
        return regex_make_text(c->r, json_string_value(p), (uint32_t)json_string_length(p));
    if (json_is_array(p)) {
        push(c, p, depth + 1);
        return regex_take_concat(c->r, mark);
    }
    if ((of = json_object_get(p, "token")) != NULL)
        return token(c, of);
    if ((of = json_object_get(p, "schema")) != NULL)
        return schema(c, of);
    if ((of = json_object_get(p, "repeat")) != NULL)
        return regex_make_repeat(c->r, part(c, of, depth + 1), 1, REGEX_FOREVER);
    of = json_object_get(p, "any");
    if (!json_is_array(of))
        return refuse(c,
                      "a text, an array, or an object with \"token\", \"schema\", \"any\" or \"repeat\" is "
                      "expected");
    push(c, of, depth + 1);
    return regex_take_or(c->r, mark);
}

stator_status json_parts_compile(void *memory, uint32_t nodes, const char *text, size_t length,
                                 enum json_schema_space space, struct regex **r, stator_error *e) {
    struct json_schema c;
    stator_status st = json_schema_begin(&c, memory, nodes, text, length, space, e);
    if (st != STATOR_OK)
        return st;
    st = json_schema_finish(&c, part(&c, c.root, 0), r);
    json_schema_end(&c);
    return st;
}
