/* Reading JSON (RFC 8259) from memory with jansson, as a walk over the values, for files that stator wrote
 * itself. Everything is checked: a text that is no JSON ends the walk with an error. All memory is the
 * caller's; the depth is bounded. Any thread. */
#ifndef STATOR_BASE_JSON_READER_H
#define STATOR_BASE_JSON_READER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define JSON_READER_DEPTH 32  /* objects and arrays inside each other */
#define JSON_READER_PATH  512 /* bytes of a path with its NUL */

enum json_kind { JSON_READER_NULL, JSON_READER_BOOL, JSON_READER_NUMBER, JSON_READER_STRING };

struct json_value {
    enum json_kind kind;
    const char *path; /* "devices/0/name": member names and array indices */
    const char *text; /* STRING: UTF-8 without NUL inside; else "" */
    bool is_u64;      /* NUMBER: a whole number, 0 or more */
    uint64_t number;  /* then */
    bool truth;       /* BOOL */
};

/* Bytes of memory that read any text of n bytes as stator writes it. Others may need more: of each `{}` there
 * may be 400 bytes. */
size_t json_reader_bytes(size_t n);

/* Calls visit for every value that is no object or array, in order; a visit that returns false ends the walk
 * (STATOR_USAGE without a text of its own: visit knows). memory is aligned as malloc's; nothing in it is left
 * afterwards. Errors: STATOR_USAGE, with the line or the path; also where the bytes of memory do not do. */
stator_status json_reader_walk(const char *text, size_t n, void *memory, size_t bytes,
                               bool (*visit)(void *context, const struct json_value *v), void *context,
                               stator_error *e);

#endif
