/* AVX-512: what attention does with quantised K and V (avx512_kv.c); kernels/cpu/attention_walk.h says what
 * each is. */
#ifndef STATOR_KERNELS_CPU_AVX512_KV_H
#define STATOR_KERNELS_CPU_AVX512_KV_H

#include "kernels/cpu/attention_walk.h"

#define AVX512_KV_TILE 4 /* most rows */

/* q = 128 * high + low: bytes high[dim], then low[dim]; keys are unsigned, 128 (q4_0: 8) above. */
void avx512_quantise_query(const float *x, uint32_t dim, bool four, void *row);
void avx512_qk_q8_0(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                    float *score);
void avx512_qk_q4_0(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                    float *score);
void avx512_plain_q8_0(const void *v, uint32_t dim, float *to);
void avx512_plain_q4_0(const void *v, uint32_t dim, float *to);
void avx512_pv_q8_0(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim,
                    uint32_t end, float *o, size_t o_stride);
void avx512_pv_q4_0(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim,
                    uint32_t end, float *o, size_t o_stride);
void avx512_weigh(uint32_t rows, uint32_t blocks, const float *e, const float *scales, size_t stride,
                  float *w);

#endif
