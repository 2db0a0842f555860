/* A strict look at JSON text (RFC 8259) without building it: members of objects, what a string says. For what
 * a model writes, whose bytes are to be kept as they are, and for bounds on what clients send. Pure. */
#ifndef STATOR_SERVER_API_JSON_H
#define STATOR_SERVER_API_JSON_H

#include "chat/json_scan.h"
#include "server/openai/api_text.h"

#include <stdint.h>

/* n bytes at p, of somebody else. */
struct api_slice {
    const char *p;
    size_t n;
};

bool api_slice_is(struct api_slice s, const char *text);
/* The member `name` of the object that is a value at p; false: there is none (the last one, if several). */
bool api_json_member(const char *p, size_t n, const char *name, struct api_slice *value);
/* What the string, a value at p, says: appended to out; false: it is no string, or \u0000 or half a surrogate
 * pair is in it. */
bool api_json_string(const char *p, size_t n, struct api_text *out);

/* Bounds before anything is built of a text: how deep it is, how many values and names it can have. Of texts
 * that are no JSON some numbers come out too. */
void api_json_measure(const char *p, size_t n, uint32_t *depth, uint64_t *values);

#endif
