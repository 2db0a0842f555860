/* Reading JSON (RFC 8259) from memory, as a walk over its values, for files that stator wrote itself.
 * Everything is checked: text that is not JSON ends the walk with an error. No allocation; the depth is
 * bounded. */
#ifndef STATOR_BASE_JSON_READER_H
#define STATOR_BASE_JSON_READER_H

#include "base/error.h"

#include <stdbool.h>

#define JSON_READER_DEPTH 32
#define JSON_READER_PATH  512
#define JSON_READER_TEXT  256 /* strings are cut to this with their NUL, at a whole character */

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING };

struct json_value {
    enum json_kind kind;
    const char *path; /* "devices/0/name": member names and array indices */
    const char *text; /* STRING: UTF-8, "\0" is cut off; NUMBER: as written */
    bool is_u64;      /* NUMBER: a whole number that fits */
    uint64_t number;
    bool truth; /* BOOL */
};

/* Calls visit for every value that is not an object or array, in order. When visit returns false the walk
 * ends with STATOR_USAGE and no text, since visit knows the reason. Errors: STATOR_USAGE, with the line. */
stator_status json_reader_walk(const char *text, size_t n,
                               bool (*visit)(void *context, const struct json_value *v), void *context,
                               stator_error *e);

#endif
