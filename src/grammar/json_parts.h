/* Texts made of parts that stand behind each other, such as a call of a tool in a model's own syntax around
 * arguments that a JSON Schema allows. The parts are JSON:
 *
 *   "text"             this text
 *   {"token": "NAME"}  the control token of this name
 *   {"schema": S}      a JSON value that schema S allows
 *                      "root": R: references are places in R
 *   {"raw": S, "end": "TEXT", "close": P}  a string that schema S allows, as it is, without TEXT in it, and
 * P, which is TEXT or a control token of this name. "root": as above; "never": ["TEXT", ..]: nor with these
 * texts in it
 *   {"regex": "R"}     a text that the expression matches
 *   [P, ..]            parts in this order
 *   {"any": [P, ..]}   one of these
 *   {"repeat": P}      one or more of these
 *   {"until": {"TEXT": P, ..}}  any text up to the first of these texts, and what follows it; null: this text
 *                      may not come. With "may_end": true, also any text without them
 *
 * A control token stands in the grammar as the byte JSON_PARTS_MARK, which no UTF-8 has, and its name. */
#ifndef STATOR_GRAMMAR_JSON_PARTS_H
#define STATOR_GRAMMAR_JSON_PARTS_H

#include "grammar/json_schema.h"

#define JSON_PARTS_MARK  0xFF
#define JSON_PARTS_DEPTH 32 /* parts inside each other */

/* As json_schema_compile, with a block of json_schema_bytes(nodes) bytes. STATOR_USAGE also: a part is none
 * of these. */
stator_status json_parts_compile(void *memory, uint32_t nodes, const char *text, size_t length,
                                 enum json_schema_space space, struct regex **r, stator_error *e);

#endif
