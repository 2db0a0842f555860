#include "grammar/json_parts.h"

#include "grammar/json_schema_parts.h"
#include "grammar/until.h"

#include <string.h>

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

/* Its own root, and its own rules: what they are called in one schema is something else in another. A schema
 * that stands in several places is made once. */
static uint32_t schema(struct json_schema *c, json_t *s) {
    const struct json_schema outer = *c;
    json_t *made;
    size_t i;
    json_array_foreach(c->parts, i, made) if (json_equal(json_array_get(made, 0), s) ==
                                              1) return (uint32_t)json_integer_value(json_array_get(made, 1));
    json_schema_enter(c, s);
    const uint32_t node = json_schema_node(c, s);
    json_decref(c->nodes);
    c->root = outer.root;
    c->nodes = outer.nodes;
    c->lone_ref = outer.lone_ref;
    json_array_append_new(c->parts, json_pack("[O, i]", s, (int)node));
    return node;
}

static uint32_t expression(struct json_schema *c, const json_t *text) {
    uint32_t node = REGEX_DEAD;
    if (!json_is_string(text))
        return refuse(c, "\"regex\" needs a text");
    if (c->status == STATOR_OK)
        c->status = regex_parse(c->r, json_string_value(text), json_string_length(text), REGEX_WHOLE,
                                REGEX_RAW, &node, c->e);
    return node;
}

/* All parts of a list, on the stack. */
static void push(struct json_schema *c, const json_t *list, uint32_t depth) {
    for (size_t i = 0; i < json_array_size(list) && json_schema_going(c); i++) {
        const uint32_t node = part(c, json_array_get(list, i), depth);
        regex_push(c->r, node);
    }
}

static uint32_t until(struct json_schema *c, const json_t *texts, bool may_end, uint32_t depth) {
    struct until u = {.may_end = may_end};
    size_t bytes = 0;
    const char *text;
    json_t *behind;
    if (!json_is_object(texts) || json_object_size(texts) == 0 || json_object_size(texts) > UNTIL_TEXTS)
        return refuse(c, "\"until\" needs an object of 1 to 8 texts");
    json_object_foreach((json_t *)texts, text, behind) {
        const size_t n = strlen(text);
        bytes += n;
        if (n == 0 || bytes > UNTIL_BYTES)
            return refuse(c, "the texts of \"until\" are empty or too long");
        u.texts[u.n].text = text;
        u.texts[u.n].n = n;
        u.texts[u.n++].behind = json_is_null(behind) ? REGEX_DEAD : part(c, behind, depth);
    }
    return json_schema_going(c) ? until_make(c->r, &u) : REGEX_DEAD;
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
    if ((of = json_object_get(p, "regex")) != NULL)
        return expression(c, of);
    if ((of = json_object_get(p, "repeat")) != NULL)
        return regex_make_repeat(c->r, part(c, of, depth + 1), 1, REGEX_FOREVER);
    if ((of = json_object_get(p, "until")) != NULL)
        return until(c, of, json_is_true(json_object_get(p, "may_end")), depth + 1);
    of = json_object_get(p, "any");
    if (!json_is_array(of))
        return refuse(c, "a text, an array, or an object with \"token\", \"schema\", \"any\", \"repeat\" or "
                         "\"until\" is expected");
    push(c, of, depth + 1);
    return regex_take_or(c->r, mark);
}

stator_status json_parts_compile(void *memory, uint32_t nodes, const char *text, size_t length,
                                 enum json_schema_space space, struct regex **r, stator_error *e) {
    struct json_schema c;
    stator_status st = json_schema_begin(&c, memory, nodes, text, length, space, e);
    if (st != STATOR_OK)
        return st;
    c.parts = json_array();
    st = json_schema_finish(&c, part(&c, c.root, 0), r);
    json_schema_end(&c);
    return st;
}
