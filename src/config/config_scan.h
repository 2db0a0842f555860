/* Checks the grammar of a config file before libconfig gets it. libconfig 1.5 cuts large integers to 32 bits,
 * accepts a comment that never ends, follows @include, compares names and recurses without bound, leaks
 * memory on syntax errors, and says no more than "syntax error"; after this it only builds the tree.
 *
 *   file    = settings          value = number | true | false | text.. | { settings } | list
 *   setting = name (= | :) value [; | ,]        list = [ value, .. ] | ( value, .. ) */
#ifndef STATOR_CONFIG_CONFIG_SCAN_H
#define STATOR_CONFIG_CONFIG_SCAN_H

#include "base/error.h"

#include <stddef.h>

/* Bytes of `out` that are enough for n bytes of text. */
#define CONFIG_SCAN_BYTES(n) (2 * (n) + 4)

/* Writes the text to out, NUL-terminated, for libconfig: an L after every integer that needs 64 bits, arrays
 * as lists (which may mix both widths); lines keep their numbers. STATOR_USAGE says "name:line: ", what is
 * there, what was expected. */
stator_status config_scan(const char *text, size_t n, const char *name, char *out, stator_error *e);

#endif
