/* What the encoders share: one block, weighted. */
#ifndef STATOR_FORMATS_ENCODE_PARTS_H
#define STATOR_FORMATS_ENCODE_PARTS_H

#include "formats/block_parts.h"
#include "formats/encode.h"

#include <string.h>

/* One block of 256 (or 32) values x with weights w (never NULL). */
/* Q2_K, Q4_K, Q5_K */
void encode_minimum(enum encode_tier tier, uint32_t type, const float *x, const float *w, uint8_t *block);
/* Q4_1, Q5_1 */
void encode_offset(enum encode_tier tier, uint32_t type, const float *x, const float *w, uint8_t *block);
/* Q3_K, Q6_K, IQ4_NL, IQ4_XS, Q4_0, Q5_0 */
void encode_scaled(enum encode_tier tier, uint32_t type, const float *x, const float *w, uint8_t *block);
void encode_ternary(uint32_t type, const float *x, uint8_t *block); /* TQ1_0, TQ2_0 */
/* IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS, IQ1_S, IQ1_M */
void encode_grid(uint32_t type, const float *x, const float *w, uint8_t *block);
void encode_mxfp4(const float *x, const float *w, uint8_t *block);
void encode_nvfp4(const float *x, const float *w, uint8_t *block);
void encode_bits(uint32_t type, const float *x, const float *w, uint8_t *block); /* Q1_0, Q2_0 */

/* To nearest, ties to even, for |v| < 2^22; as rintf, but inlined by every compiler. */
static inline float encode_nearest(float v) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: beside it the last bit is worth 1 */
    return (v + shift) - shift;
}

static inline float encode_clamp(float v, float lo, float hi) {
    v = v > lo ? v : lo;
    return v < hi ? v : hi;
}

/* A scale as it is stored: the largest half instead of what is beyond it, since 0 times an infinity is a NaN.
 */
static inline uint16_t encode_scale(float v) {
    return block_to_f16(encode_clamp(v, -65504, 65504));
}

static inline void encode_put_f16(uint8_t *at, float v) {
    const uint16_t h = encode_scale(v);
    memcpy(at, &h, sizeof h);
}

/* The float that the scale v is once it is stored. */
static inline float encode_as_f16(float v) {
    return block_from_f16(encode_scale(v));
}

/* Inverse of block.c's take_nibbles: q[0..n) become low nibbles, q[n..2n) high ones. */
static inline void encode_put_nibbles(const uint8_t *q, uint32_t n, uint8_t *to) {
    for (uint32_t j = 0; j < n; j++)
        to[j] = (uint8_t)((q[j] & 15) | (q[j + n] & 15) << 4);
}

/* 32 values of five bits: nibbles as above, the fifth bits in four bytes. */
static inline void encode_put_five(const uint8_t *q, uint8_t *high, uint8_t *low) {
    uint32_t fifth = 0;
    for (uint32_t i = 0; i < 32; i++)
        fifth |= (uint32_t)(q[i] >> 4 & 1) << i;
    memcpy(high, &fifth, sizeof fifth);
    encode_put_nibbles(q, 16, low);
}

/* 256 values' low two bits: field f of byte j of a half is value 32 f + j of that half. */
static inline void encode_put_pairs(const uint8_t *q, uint8_t *to) {
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t j = 0; j < 32; j++) {
            const uint8_t *from = q + 128 * half + j;
            to[32 * half + j] =
                (uint8_t)((from[0] & 3) | (from[32] & 3) << 2 | (from[64] & 3) << 4 | (from[96] & 3) << 6);
        }
}

/* Bit `bit` of the values: bit g of byte j is of value 32 g + j. */
static inline void encode_put_high(const uint8_t *q, uint32_t bit, uint8_t *to) {
    memset(to, 0, 32);
    for (uint32_t g = 0; g < 8; g++)
        for (uint32_t j = 0; j < 32; j++)
            to[j] |= (uint8_t)((q[32 * g + j] >> bit & 1) << g);
}

#endif
