/* Which types a tool's schema allows for each parameter: calls in tags do not tell texts from numbers.
 * Source of the meaning: JSON Schema 2020-12 (type, enum, const, anyOf, oneOf, allOf, $ref into the same
 * schema), and OpenAPI's nullable. */
#ifndef STATOR_CHAT_CHAT_TYPES_H
#define STATOR_CHAT_CHAT_TYPES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum chat_type {
    CHAT_TYPE_STRING = 1,
    CHAT_TYPE_NUMBER = 2,
    CHAT_TYPE_BOOLEAN = 4,
    CHAT_TYPE_NULL = 8,
    CHAT_TYPE_OBJECT = 16,
    CHAT_TYPE_ARRAY = 32,
    CHAT_TYPE_ANY = 63
};

/* One row after the other: function, NUL, parameter, NUL, a byte with the types + 64 (never NUL). A row with
 * an empty parameter stands for the function itself. */
struct chat_types {
    const char *rows;
    size_t n;
};

/* Types of a schema within its root. */
unsigned chat_types_of(const json_t *schema, const json_t *root);
/* Writes the rows of tools ([{"function": {"name", "parameters"}}]) through `put`. */
void chat_types_write(const json_t *tools, void (*put)(void *context, const char *p, size_t n),
                      void *context);

/* The types of a parameter; 0: it is not declared. */
unsigned chat_types_find(const struct chat_types *t, const char *function, const char *param, size_t n);
/* A function of that name was declared. */
bool chat_types_has(const struct chat_types *t, const char *function, size_t n);
/* What the text begins with may become the name of a function; *whole: it is one. */
bool chat_types_begins(const struct chat_types *t, const char *p, size_t n, size_t *whole);

#endif
