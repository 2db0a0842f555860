/* What fuzz targets say about the inputs that they accept. A target whose checks refuse everything would
 * prove nothing, so each names the kinds of valid inputs that it knows, and the replay of its corpus
 * (replay.c) fails unless one of each kind was accepted. Under libFuzzer nobody counts. */
#ifndef STATOR_TESTS_FUZZ_H
#define STATOR_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const char *const fuzz_kinds[]; /* the target's; ends with NULL */

void fuzz_note(const char *kind) __attribute__((weak)); /* replay.c's */

/* An input of this kind was accepted. */
static inline void fuzz_accepted(const char *kind) {
    if (fuzz_note != NULL)
        fuzz_note(kind);
}

#endif
