/* Writing JSON, by hand and in order, into a FILE or a fixed buffer. Strings that are not UTF-8 are repaired
 * with U+FFFD.
 *
 * Invariants (checked): names only inside objects, values without names only inside arrays or as the one top
 * value, depth <= JSON_DEPTH, everything closed at json_end. No allocation. */
#ifndef STATOR_BASE_JSON_WRITER_H
#define STATOR_BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH 16

struct json {
    FILE *file;   /* or */
    char *buffer; /* NULL with file == NULL: only count */
    size_t capacity;
    size_t length; /* bytes written, also those that did not fit */
    bool failed;   /* a write to file failed */
    int depth;
    char kind[JSON_DEPTH]; /* '{' or '[' */
    bool first[JSON_DEPTH];
    bool pretty;
    bool widest; /* every number as long as its kind can be */
};

void json_to_file(struct json *j, FILE *file, bool pretty);
void json_to_buffer(struct json *j, char *buffer, size_t capacity,
                    bool pretty); /* NUL-terminated at the end if it fits */
/* Counts the longest that the text can be, whatever its numbers are. */
void json_to_measure(struct json *j, bool pretty);

/* name: NULL inside arrays and at the top. */
void json_open_object(struct json *j, const char *name);
void json_open_array(struct json *j, const char *name);
void json_close(struct json *j); /* the innermost object or array */
void json_put_string(struct json *j, const char *name, const char *value);
void json_put_string_n(struct json *j, const char *name, const char *value, size_t n);
/* Two texts behind each other as one string. */
void json_put_joined(struct json *j, const char *name, const char *first, size_t n_first, const char *second,
                     size_t n_second);
/* What a string may have without being repaired. */
bool json_is_utf8(const char *value, size_t n);
void json_put_u64(struct json *j, const char *name, uint64_t v);
void json_put_i64(struct json *j, const char *name, int64_t v);
void json_put_double(struct json *j, const char *name,
                     double v); /* shortest text that reads back equal; null if not finite */
void json_put_float(struct json *j, const char *name, float v); /* likewise, as a float */
void json_put_bool(struct json *j, const char *name, bool v);
void json_put_null(struct json *j, const char *name);
/* n bytes that are one value of JSON already. */
void json_put_raw(struct json *j, const char *name, const char *value, size_t n);

/* Ends the text (a newline for files). True if everything was written: nothing failed and the buffer was
 * enough. */
bool json_end(struct json *j);

#endif
