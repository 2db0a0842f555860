/* Monotonic time. */
#ifndef STATOR_BASE_CLOCK_H
#define STATOR_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void); /* nanoseconds since an arbitrary start */

#endif
