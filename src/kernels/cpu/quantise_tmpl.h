/* Rows of floats to int8 in the vector tiers: a template, included by a tier's source after its vec header. A
 * few groups of 32 are taken at a time: what belongs to a group is then a lane. No state; any thread. */
#include "base/check.h"

#include <stdint.h>
#include <string.h>

#define QUANTISE_GROUPS 8

/* d = amax * inverse, 0 for a group that is as good as zero. */
VEC_INLINE vec quantise_scale(vec amax, vec inverse) {
    return vec_keep(vec_not_below(amax, vec_set(NUM_QUANT_MIN)), vec_mul(amax, inverse));
}

/* What x is multiplied by. */
VEC_INLINE vec quantise_factor(vec d) {
    return vec_keep(vec_unequal(d, vec_zero()), vec_rcp(d));
}

/* |x| compares as bits: infinities and NaNs are above all numbers. */
VEC_INLINE vec_int quantise_size(const float *x) {
    return vec_bits(vec_abs(vec_load(x)));
}

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
