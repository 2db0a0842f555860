#include "base/clock.h"

#include "base/check.h"

#include <time.h>

uint64_t clock_ns(void) {
    struct timespec t;
    int rc = clock_gettime(CLOCK_MONOTONIC, &t);
    CHECK(rc == 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
