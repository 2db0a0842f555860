/* Errors for people: one code (it is also the exit code) and one text that says what, where, expected, found.
 *
 * The struct is the caller's (include/stator.h); functions fill it once, callers on the way up may add
 * context in front. Thread: any; an error belongs to one thread at a time. */
#ifndef STATOR_BASE_ERROR_H
#define STATOR_BASE_ERROR_H

#include "stator.h"

#include <stdarg.h>

/* Fills *e (may be NULL) and returns code, so that callers can write `return error_set(...)`. code !=
 * STATOR_OK. */
__attribute__((format(printf, 3, 4))) stator_status error_set(stator_error *e, stator_status code,
                                                              const char *fmt, ...);
stator_status error_vset(stator_error *e, stator_status code, const char *fmt, va_list ap);

/* Puts "context: " in front of the text already there; the code stays. The end is cut if it does not fit. */
__attribute__((format(printf, 2, 3))) void error_prefix(stator_error *e, const char *fmt, ...);

#endif
