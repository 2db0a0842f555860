/* JSON of clients, and of models' calls, as jansson can read it. Beyond what jansson takes:
 *
 * - a number that has no place in its integers and reals (12345678901234567890, 1e400) becomes a string that
 *   begins with a NUL, behind which the number stands as it was written;
 * - \u0000 and half a surrogate pair become U+FFFD. So no string of the text itself begins with a NUL. */
#ifndef STATOR_CHAT_CHAT_JSON_H
#define STATOR_CHAT_CHAT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* json_loadb with these differences; flags as there. Takes memory for a copy of the text, where one is
 * needed, from jansson's allocator. Columns in *e may be a few too large behind such a number. NULL: no JSON,
 * or no memory; *e says which. */
json_t *chat_json_load(const char *text, size_t n, size_t flags, json_error_t *e);

/* The value as JSON through `put`: numbers beyond jansson's as they were written, other numbers in the fewest
 * digits that read back to them (1.0 keeps its fraction), a blank behind ':' and ','. What lies deeper than
 * JSON_SCAN_DEPTH becomes null; chat_json_load takes more. Takes nothing from jansson but names of members.
 */
void chat_json_write(const json_t *v, void (*put)(void *context, const char *p, size_t n), void *context);

/* A string that is no number. */
bool chat_json_is_text(const json_t *v);
/* The same value, however a client writes it anew: members in any order, and numbers as doubles (1.0 for 1,
 * 12345678901234567000 for 12345678901234567890), as JavaScript has no others. */
bool chat_json_same(const json_t *a, const json_t *b);
/* A number beyond jansson's, as it was written (ends with NUL, *n bytes); NULL: v is something else. */
const char *chat_json_long_number(const json_t *v, size_t *n);

#endif
