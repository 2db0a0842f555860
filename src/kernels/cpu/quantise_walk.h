/* Rows of floats to int8, a few groups of 32 at a time, for the tiers that quantise so (AVX2 and up): what
 * belongs to a group is then a lane. No state; any thread. */
#ifndef STATOR_KERNELS_CPU_QUANTISE_WALK_H
#define STATOR_KERNELS_CPU_QUANTISE_WALK_H

#include "base/check.h"

#include <stdint.h>
#include <string.h>

#define QUANTISE_GROUPS 8

/* QUANTISE_GROUPS groups: struct kernels' quantise32. */
typedef void quantise_groups_fn(const float *x, int8_t *q, float *d, int16_t *s);

/* A row of n values; the last few groups are filled up with zeros. */
static inline void quantise_walk(quantise_groups_fn *quantise, const float *x, uint32_t n, int8_t *q,
                                 float *d, int16_t *s) {
    CHECK(n % 32 == 0);
    uint32_t g = 0;
    for (; n / 32 - g >= QUANTISE_GROUPS; g += QUANTISE_GROUPS)
        quantise(x + (size_t)32 * g, q + (size_t)32 * g, d + g, s + g);
    const uint32_t left = n / 32 - g;
    if (left == 0)
        return;
    float padded[QUANTISE_GROUPS * 32] = {0}, scales[QUANTISE_GROUPS];
    int8_t quants[QUANTISE_GROUPS * 32];
    int16_t sums[QUANTISE_GROUPS];
    memcpy(padded, x + (size_t)32 * g, left * 32 * sizeof *x);
    quantise(padded, quants, scales, sums);
    memcpy(q + (size_t)32 * g, quants, (size_t)left * 32);
    memcpy(d + g, scales, left * sizeof *d);
    memcpy(s + g, sums, left * sizeof *s);
}

#endif
