/* What the files of the JSON Schema front end share. */
#ifndef STATOR_GRAMMAR_JSON_SCHEMA_PARTS_H
#define STATOR_GRAMMAR_JSON_SCHEMA_PARTS_H

#include "grammar/json_schema.h"
#include "grammar/regex_nodes.h"

#include <jansson.h>

#define JSON_SCHEMA_DEPTH 100u /* schemas inside each other, references counted */

struct json_schema {
    struct regex *r;
    void *scratch; /* for expressions that are only asked about one text */
    json_t *root;
    json_t *kept;                 /* an array of what was made while merging */
    json_t *parts;                /* json_parts.c: pairs of a schema and its node; NULL elsewhere */
    json_t *nodes;                /* an object: the text of a schema, and its node */
    bool lone_ref;                /* drafts 4 to 7: what stands beside $ref is ignored */
    uint32_t value_rule, value;   /* any JSON value; REGEX_DEAD until it is needed */
    uint32_t free_char;           /* a character of a string in any spelling */
    uint32_t any_char;            /* in the one spelling of `spelling` */
    enum regex_spelling spelling; /* of strings; REGEX_RAW within json_schema_raw alone */
    uint32_t space;
    uint32_t depth;
    stator_error *e;
    stator_status status;
};

static inline bool json_schema_going(const struct json_schema *c) {
    return c->status == STATOR_OK && c->r->result == REGEX_OK;
}

/* Begins compiling a JSON text, which becomes the root. STATOR_OK: json_schema_end gives back what it took.
 */
stator_status json_schema_begin(struct json_schema *c, void *memory, uint32_t nodes, const char *text,
                                size_t length, enum json_schema_space space, stator_error *e);
/* Another schema becomes the root, with rules of its own: c->nodes, which is the caller's to json_decref. */
void json_schema_enter(struct json_schema *c, json_t *root);
/* *r: the grammar of a node. Errors: what ended compiling, or what ran out. */
stator_status json_schema_finish(struct json_schema *c, uint32_t node, struct regex **r);
void json_schema_end(struct json_schema *c);

/* Ends compiling with an error about a keyword of schema s. Returns REGEX_DEAD. */
__attribute__((format(printf, 4, 5))) uint32_t json_schema_refuse(struct json_schema *c, const json_t *s,
                                                                  const char *keyword, const char *fmt, ...);

/* The node of a schema. */
uint32_t json_schema_node(struct json_schema *c, json_t *s);
uint32_t json_schema_any(struct json_schema *c);
/* s without $ref and allOf: a new object that c keeps, or NULL: nothing is valid, or an error. Keywords that
 * add up become lists: "$patterns", "$formats", "$multiples", "$names", "$alternatives". */
json_t *json_schema_merged(struct json_schema *c, json_t *s);
/* An object of c with one member; takes value over. */
json_t *json_schema_wrap(struct json_schema *c, const char *key, json_t *value);
/* Whether the expression is found in the text; false also after an error. */
bool json_schema_found(struct json_schema *c, const json_t *s, const char *pattern, const char *text,
                       size_t n);
/* A member that is a count, or `otherwise`. */
uint32_t json_schema_count(struct json_schema *c, const json_t *s, const char *key, uint32_t otherwise);

/* The node of the strings that a schema allows, as they are, without quotes and escapes. *any: it allows all.
 */
uint32_t json_schema_raw(struct json_schema *c, json_t *s, bool *any);

/* Nodes for merged schemas s, by type. */
uint32_t json_schema_object(struct json_schema *c, json_t *s);
uint32_t json_schema_array(struct json_schema *c, json_t *s);
uint32_t json_schema_number(struct json_schema *c, json_t *s, bool integer);
/* With its quotes. */
uint32_t json_schema_string(struct json_schema *c, json_t *s);
/* Without quotes; names: of a propertyNames list, NULL or schemas. Only spellings of REGEX_QUOTED, if `one`.
 */
uint32_t json_schema_characters(struct json_schema *c, json_t *s, bool one);
/* A JSON value as its compact text. */
uint32_t json_schema_constant(struct json_schema *c, const json_t *v);
/* A text inside of quotes. */
uint32_t json_schema_quoted(struct json_schema *c, const char *text, size_t n);
bool json_schema_equal(const json_t *a, const json_t *b);

/* Nodes of texts and expressions, which are right. */
uint32_t json_schema_text(struct json_schema *c, const char *text);
uint32_t json_schema_expression(struct json_schema *c, const char *text, enum regex_spelling spelling);
uint32_t json_schema_or(struct json_schema *c, uint32_t a, uint32_t b);
uint32_t json_schema_list(struct json_schema *c, uint32_t a, uint32_t b, uint32_t d);
/* A text of JSON's punctuation, with white space on both sides if that is free. */
uint32_t json_schema_mark(struct json_schema *c, const char *text);

#endif
