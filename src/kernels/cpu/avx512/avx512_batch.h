/* Matmul of many tokens with AVX-512 (avx512_matmul_batch.c). */
#ifndef STATOR_KERNELS_CPU_AVX512_BATCH_H
#define STATOR_KERNELS_CPU_AVX512_BATCH_H

#include "kernels/kernels.h"

/* False, and nothing done: so few tokens are faster panel by panel. */
bool avx512_batch(uint32_t type, const struct kernels_matmul *m);

#endif
