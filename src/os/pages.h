/* Whole pages from the kernel, start-up only: the one way in which stator takes host memory for itself. */
#ifndef STATOR_OS_PAGES_H
#define STATOR_OS_PAGES_H

#include "base/error.h"

#include <stdint.h>

#define PAGES_SIZE 4096

/* *out = zeroed, private, page-aligned memory of `bytes` rounded up to pages (bytes > 0). what: names it in
 * errors. STATOR_DOES_NOT_FIT when the kernel refuses. Owner: the caller, who gives it back with the same
 * bytes. */
stator_status pages_map(uint64_t bytes, const char *what, void **out, stator_error *e);
void pages_unmap(void *memory, uint64_t bytes); /* NULL is allowed */

/* Bytes that pages_map really takes for `bytes`. */
uint64_t pages_rounded(uint64_t bytes);

#endif
