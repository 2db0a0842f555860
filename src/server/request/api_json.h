/* Bounds on what clients send, before anything is built of it. Pure. */
#ifndef STATOR_SERVER_API_JSON_H
#define STATOR_SERVER_API_JSON_H

#include "chat/json_scan.h"

#include <stdint.h>

/* How deep a JSON text is, and how many values and names it can have. A text that is no JSON gives some
 * numbers too. */
void api_json_measure(const char *p, size_t n, uint32_t *depth, uint64_t *values);

#endif
