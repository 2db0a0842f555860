/* Floats to block formats: what `stator quantize` writes. The counterpart of block.h.
 *
 * Q8_0, TQ1_0, TQ2_0, and without weights Q4_0, Q4_1, Q5_0 and Q5_1, give the bytes of ggml's reference
 * quantiser; F16 and BF16 round to nearest even. The others look for the least sum of w * (x - decoded x)^2,
 * by searches of our own (encode_scaled.c, encode_minimum.c, encode_grid.c): on ggml's vectors that sum is
 * not above that of its quantiser. Source of the layouts: block.h.
 *
 * Pure functions on the caller's memory, for any thread: a row's bytes depend on the row alone. */
#ifndef STATOR_FORMATS_ENCODE_H
#define STATOR_FORMATS_ENCODE_H

#include "formats/block.h"

bool encode_can(uint32_t type);

/* n finite floats (a multiple of the type's block) as a row of blocks. weights: n numbers >= 0, what a
 * squared error of each column counts, or NULL: all the same. (F16, BF16, Q8_0, TQ1_0 and TQ2_0 ignore them.)
 * A scale beyond the type's range becomes its largest; F16 has infinities. */
void encode_row(uint32_t type, const float *x, const float *weights, void *row, uint64_t n);

/* The instructions that the searches use. encode_row takes the best that this processor has; the bytes are
 * the same with all. */
enum encode_tier { ENCODE_ANY, ENCODE_AVX2 };

enum encode_tier encode_best_tier(void);
void encode_row_by(enum encode_tier tier, uint32_t type, const float *x, const float *weights, void *row,
                   uint64_t n);

#endif
