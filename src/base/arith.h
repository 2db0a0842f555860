/* Checked arithmetic on sizes. Functions that return bool return false on overflow and then leave *r
 * unchanged. */
#ifndef STATOR_BASE_ARITH_H
#define STATOR_BASE_ARITH_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

__attribute__((warn_unused_result)) static inline bool arith_add(uint64_t a, uint64_t b, uint64_t *r) {
    uint64_t v;
    if (__builtin_add_overflow(a, b, &v))
        return false;
    *r = v;
    return true;
}

__attribute__((warn_unused_result)) static inline bool arith_mul(uint64_t a, uint64_t b, uint64_t *r) {
    uint64_t v;
    if (__builtin_mul_overflow(a, b, &v))
        return false;
    *r = v;
    return true;
}

static inline bool arith_is_pow2(uint64_t v) {
    return v != 0 && (v & (v - 1)) == 0;
}

/* Rounds v up to a multiple of align (a power of two). */
__attribute__((warn_unused_result)) static inline bool arith_align_up(uint64_t v, uint64_t align,
                                                                      uint64_t *r) {
    CHECK(arith_is_pow2(align));
    uint64_t t;
    if (!arith_add(v, align - 1, &t))
        return false;
    *r = t & ~(align - 1);
    return true;
}

/* For values that were bounded before (counts of our own): the same, but overflow is a bug of ours. */
static inline uint64_t arith_round_up(uint64_t v, uint64_t align) {
    uint64_t r = 0;
    CHECK(arith_align_up(v, align, &r));
    return r;
}

static inline uint64_t arith_must_mul(uint64_t a, uint64_t b) {
    uint64_t r = 0;
    CHECK(arith_mul(a, b, &r));
    return r;
}

static inline uint64_t arith_must_add(uint64_t a, uint64_t b) {
    uint64_t r = 0;
    CHECK(arith_add(a, b, &r));
    return r;
}

static inline uint64_t arith_ceil_div(uint64_t a, uint64_t b) {
    CHECK(b != 0);
    return a / b + (a % b != 0);
}

#define ARITH_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ARITH_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
