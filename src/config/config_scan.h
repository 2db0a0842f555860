/* A look over the text of a config file before libconfig gets it, for what libconfig 1.5 would do silently:
 * cut large integers to 32 bits, accept a comment that never ends, follow @include, recurse and compare names
 * without bound. */
#ifndef STATOR_CONFIG_CONFIG_SCAN_H
#define STATOR_CONFIG_CONFIG_SCAN_H

#include "base/error.h"

#include <stddef.h>

/* Bytes of `out` that are enough for n bytes of text. */
#define CONFIG_SCAN_BYTES(n) (2 * (n) + 4)

/* Writes the text to out, NUL-terminated, with an L behind every integer that needs 64 bits and a newline at
 * the end; lines keep their numbers. STATOR_USAGE (the text starts with "name:line: "): what no config file
 * may contain. */
stator_status config_scan(const char *text, size_t n, const char *name, char *out, stator_error *e);

#endif
