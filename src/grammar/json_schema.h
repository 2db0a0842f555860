/* JSON Schema (2020-12, and what is sent of drafts 4 to 7) as an expression: the texts of the instances that
 * are valid, with the properties of objects in the order of the schema and others behind them.
 *
 * Every text that matches is a valid instance. A keyword that cannot be honoured is refused by name and
 * place. Unknown keywords are ignored, as the standard says. Memory: the caller's block, and jansson's heap
 * while compiling. */
#ifndef STATOR_GRAMMAR_JSON_SCHEMA_H
#define STATOR_GRAMMAR_JSON_SCHEMA_H

#include "grammar/regex.h"

#define JSON_SCHEMA_TEXT_LIMIT (1u << 20) /* bytes of a schema */

enum json_schema_space {
    JSON_SCHEMA_COMPACT, /* no white space between tokens */
    JSON_SCHEMA_FREE,    /* up to 16 characters of white space wherever JSON allows it */
};

uint64_t json_schema_bytes(uint32_t nodes);

/* *r then lies in memory, which has json_schema_bytes(nodes) bytes and is aligned to 64. STATOR_USAGE: no
 * JSON, no schema, or a keyword that is not supported. STATOR_DOES_NOT_FIT: see regex_compile. */
stator_status json_schema_compile(void *memory, uint32_t nodes, const char *text, size_t length,
                                  enum json_schema_space space, struct regex **r, stator_error *e);

#endif
