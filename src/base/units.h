/* Sizes as people write them: "2GiB", "512 MiB", "24GB", "1024". */
#ifndef STATOR_BASE_UNITS_H
#define STATOR_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_TEXT 32

/* Bytes of `text`: a decimal number (a fraction is allowed) and an optional unit B, KiB, MiB, GiB, TiB (1024)
 * or KB, MB, GB, TB (1000), any case, K/M/G/T alone = 1024; blanks between. False: malformed, negative or
 * above 2^63-1. */
bool units_parse_size(const char *text, uint64_t *bytes);

/* "1.25 GiB" style, into out[UNITS_TEXT]; returns out. Exact bytes below 1024. */
const char *units_format_size(uint64_t bytes, char *out);

#endif
