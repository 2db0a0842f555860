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
float TIER(factors)(const float *scales, size_t stride, uint32_t begin, uint32_t end, float *factors);
void TIER(weigh)(const float *e, const float *factors, uint32_t from, uint32_t to, int16_t *weights);
void TIER(pv_q8_0)(const struct attention_integers *p);
void TIER(pv_q4_0)(const struct attention_integers *p);
void TIER(put_integers)(const int32_t *sums, float unit, float *o, const float *old, const float *now);

#endif
