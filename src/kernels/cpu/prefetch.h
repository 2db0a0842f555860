/* Asking for what memory is to send next. No state; any thread. */
#ifndef STATOR_KERNELS_CPU_PREFETCH_H
#define STATOR_KERNELS_CPU_PREFETCH_H

#include <stdbool.h>
#include <stddef.h>

/* The line of p, into the second cache or the first (kernels.prefetch_l2 says which). Always inlined, so that
 * what is constant stays so. */
static inline __attribute__((always_inline)) void prefetch_line(bool l2, const void *p) {
    if (l2)
        __builtin_prefetch(p, 0, 2);
    else
        __builtin_prefetch(p, 0, 3);
}

#endif
