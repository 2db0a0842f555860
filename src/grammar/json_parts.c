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

/* Its own root, and its own rules: what they are called in one schema is something else in another. */
static void enter(struct json_schema *c, json_t *p, json_t *s) {
    json_t *root = json_object_get(p, "root");
    json_schema_enter(c, root != NULL ? root : s);
}

static void leave(struct json_schema *c, const struct json_schema *outer) {
    json_decref(c->nodes);
    c->root = outer->root;
    c->nodes = outer->nodes;
    c->lone_ref = outer->lone_ref;
}

/* A schema that stands in several places is made once. */
static uint32_t schema(struct json_schema *c, json_t *p, json_t *s) {
    const struct json_schema outer = *c;
    json_t *made;
    size_t i;
    json_array_foreach(c->parts, i, made) if (json_equal(json_array_get(made, 0), p) ==
                                              1) return (uint32_t)json_integer_value(json_array_get(made, 1));
    enter(c, p, s);
    const uint32_t node = json_schema_node(c, s);
    leave(c, &outer);
    json_array_append_new(c->parts, json_pack("[O, i]", p, (int)node));
    return node;
}

/* Adds a text of an "until"; false: refused. */
static bool add_text(struct json_schema *c, struct until *u, const json_t *text, uint32_t behind) {
    size_t bytes = json_string_length(text);
    for (uint32_t i = 0; i < u->n; i++)
        bytes += u->texts[i].n;
    if (json_string_length(text) == 0 || bytes > UNTIL_BYTES || u->n == UNTIL_TEXTS) {
        refuse(c, "texts that end others are missing, empty, too many or too long");
        return false;
    }
    u->texts[u->n].text = json_string_value(text);
    u->texts[u->n].n = json_string_length(text);
    u->texts[u->n++].behind = behind;
    return true;
}

static uint32_t raw(struct json_schema *c, json_t *p, json_t *s, uint32_t depth) {
    const struct json_schema outer = *c;
    const json_t *end = json_object_get(p, "end"), *never = json_object_get(p, "never");
    json_t *close = json_object_get(p, "close");
    bool any = false;
    struct until u = {.n = 0};
    if (close == NULL)
        return refuse(c, "\"raw\" needs \"close\"");
    enter(c, p, s);
    const uint32_t texts = json_schema_raw(c, s, &any);
    leave(c, &outer);
    if (!add_text(c, &u, end, any ? REGEX_EMPTY : REGEX_DEAD))
        return REGEX_DEAD;
    for (size_t i = 0; i < json_array_size(never); i++)
        if (!add_text(c, &u, json_array_get(never, i), REGEX_DEAD))
            return REGEX_DEAD;
    if (!json_schema_going(c))
        return REGEX_DEAD;
    if (any)
        return until_make(c->r, &u);
    u.may_end = true;
    const uint32_t closes = part(c, close, depth + 1);
    return regex_make_concat(c->r, regex_make_and(c->r, texts, until_make(c->r, &u)), closes);
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
    const char *text;
    json_t *behind;
    if (json_object_size(texts) == 0)
        return refuse(c, "\"until\" needs an object of texts");
    json_object_foreach((json_t *)texts, text, behind) {
        json_t *one = json_string(text);
        json_array_append_new(c->kept, one);
        if (!add_text(c, &u, one, json_is_null(behind) ? REGEX_DEAD : part(c, behind, depth)))
            return REGEX_DEAD;
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
        return schema(c, p, of);
    if ((of = json_object_get(p, "raw")) != NULL)
        return raw(c, p, of, depth);
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
