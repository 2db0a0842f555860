/* What unit tests share: cmocka, the reference data, seeded random numbers. */
#ifndef STATOR_TESTS_TESTING_H
#define STATOR_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h wants the headers above first. */
#include <cmocka.h>

/* Path of a file of the reference data, or NULL when it is absent. The tests run in the checkout's root. The
 * buffer is static: copy it before the next call. */
static inline const char *testing_shared(const char *relative) {
    static char path[1024];
    const char *root = getenv("STATOR_SHARED");
    snprintf(path, sizeof path, "%s/%s", root != NULL ? root : "../shared", relative);
    return access(path, R_OK) == 0 ? path : NULL;
}

/* Skips the running test when the reference data is absent (a failure where the runner demands it). */
#define TESTING_NEED_SHARED(relative)                                                                        \
    do {                                                                                                     \
        if (testing_shared(relative) == NULL) {                                                              \
            if (getenv("STATOR_TEST_REQUIRE") != NULL)                                                       \
                fail_msg("reference data ../shared/%s is absent", relative);                                 \
            print_message("skipped: reference data ../shared/%s is absent\n", relative);                     \
            skip();                                                                                          \
        }                                                                                                    \
    } while (0)

/* SplitMix64: small, seeded, the same everywhere. */
static inline uint64_t testing_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* In [0, n). */
static inline uint64_t testing_below(uint64_t *state, uint64_t n) {
    return testing_random(state) % n;
}

/* Uniform in [-1, 1). */
static inline float testing_uniform(uint64_t *state) {
    return (float)((double)(testing_random(state) >> 11) * 0x1p-52 - 1.0);
}

/* The seed of random tests: STATOR_SEED, or a fixed one; printed so that a failure can be repeated. */
static inline uint64_t testing_seed(const char *test) {
    const char *s = getenv("STATOR_SEED");
    uint64_t seed = s != NULL ? strtoull(s, NULL, 0) : 20261120;
    print_message("%s: STATOR_SEED=%llu\n", test, (unsigned long long)seed);
    return seed;
}

/* The whole file, with a NUL after it; fails the test if it can't be read. Free it. */
static inline void *testing_read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("can't open %s", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *data = malloc((size_t)n + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)n, f), n);
    data[n] = '\0';
    fclose(f);
    if (size != NULL)
        *size = (size_t)n;
    return data;
}

#endif
