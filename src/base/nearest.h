/* "Did you mean": the known name closest to what a person typed. */
#ifndef STATOR_BASE_NEAREST_H
#define STATOR_BASE_NEAREST_H

#include <stddef.h>

/* The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours; case does not
 * count) if it is at most a third of the longer length (at least 1), else NULL. The first of equals wins. */
const char *nearest_name(const char *typed, const char *const *candidates, size_t n);

#endif
