/* AVX2: what attention does with quantised K and V (avx2_kv.c); kernels/cpu/attention_walk.h says what each
 * is. */
#ifndef STATOR_KERNELS_CPU_AVX2_KV_H
#define STATOR_KERNELS_CPU_AVX2_KV_H

#include "kernels/cpu/attention_walk.h"

#define AVX2_KV_TILE 4 /* most rows */

/* int16 in the order of the dims; q4_0's keys are unsigned, 8 above. */
void avx2_quantise_query(const float *x, uint32_t dim, bool four, void *row);
void avx2_qk_q8_0(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                  float *score);
void avx2_qk_q4_0(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                  float *score);
void avx2_plain_q8_0(const void *v, uint32_t dim, float *to);
void avx2_plain_q4_0(const void *v, uint32_t dim, float *to);
void avx2_pv_q8_0(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim, uint32_t end,
                  float *o, size_t o_stride);
void avx2_pv_q4_0(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim, uint32_t end,
                  float *o, size_t o_stride);
void avx2_weigh(uint32_t rows, uint32_t blocks, const float *e, const float *scales, size_t stride, float *w);

/* The stores. */
void avx2_kv_init(struct kernels *k);

#endif
