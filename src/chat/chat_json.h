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

/* A string that is no number. */
bool chat_json_is_text(const json_t *v);
/* A number beyond jansson's, as it was written (ends with NUL, *n bytes); NULL: v is something else. */
const char *chat_json_long_number(const json_t *v, size_t *n);

#endif
