/* Random weights of the selftest's models and op cases: the same numbers from the same seed on every machine.
 */
#ifndef STATOR_APP_RANDOM_WEIGHTS_H
#define STATOR_APP_RANDOM_WEIGHTS_H

#include <stdint.h>

uint64_t random_weights_next(uint64_t *state);
/* In [-1, 1). */
float random_weights_float(uint64_t *state);
/* One number as F32, F16 or BF16. Returns the byte behind it. */
uint8_t *random_weights_put(uint8_t *to, uint32_t type, float v);
/* One block of any other type, of `bytes` bytes: random bits, except for scales and minima, which random bits
 * could make infinite. */
void random_weights_block(uint64_t *state, uint32_t type, uint8_t *block, uint32_t bytes);

#endif
