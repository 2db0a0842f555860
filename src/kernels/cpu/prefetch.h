/* Asking for what memory is to send next. No state; any thread. */
#ifndef STATOR_KERNELS_CPU_PREFETCH_H
#define STATOR_KERNELS_CPU_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

/* Prefetches the line of byte `at` of p into the second-level cache: the first level can wait for few lines
 * at a time (README.md, "One or a few tokens"). The address need not be mapped. */
static inline __attribute__((always_inline)) void prefetch_line(const void *p, size_t at) {
    __builtin_prefetch((const void *)((uintptr_t)p + at), 0, 2);
}

/* The lines of bytes at .. at + bytes, of constant number. */
static inline __attribute__((always_inline)) void prefetch_lines(const void *p, size_t at,
                                                                 const size_t bytes) {
#ifdef __clang__
#pragma unroll
#else
#pragma GCC unroll 16
#endif
    for (size_t i = 0; i < bytes; i += 64)
        prefetch_line(p, at + i);
}

#endif
