/* What a tier's source of quantised K and V gives to its source of attention; attention_walk.h says what each
 * function is. Includes the tier's vec header before. */
#ifndef STATOR_KERNELS_CPU_KV_TIER_H
#define STATOR_KERNELS_CPU_KV_TIER_H

#include "kernels/cpu/attention_walk.h"

#define TIER_KV_TILE 4 /* most rows */

void TIER(quantise_query)(const float *x, uint32_t dim, bool four, void *row);
void TIER(qk_q8_0)(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                   float *score);
void TIER(qk_q4_0)(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                   float *score);
void TIER(plain_q8_0)(const void *v, uint32_t dim, float *to);
void TIER(plain_q4_0)(const void *v, uint32_t dim, float *to);
void TIER(pv_q8_0)(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim, uint32_t end,
                   float *o, size_t o_stride);
void TIER(pv_q4_0)(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim, uint32_t end,
                   float *o, size_t o_stride);
void TIER(weigh)(uint32_t rows, uint32_t blocks, const float *e, const float *scales, size_t stride,
                 float *w);

#endif
