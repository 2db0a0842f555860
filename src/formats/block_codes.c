/* Blocks of the types with less than four bits, of the codebook types and of the ternary ones, taken apart
 * into codes and scales (block_parts.h). The IQ types store indices into grids of sizes and bits of signs:
 * here each value becomes a code of its own, the index into its type's table. Pure functions on the caller's
 * memory, for any thread. */
#include "base/check.h"
#include "formats/block_grids.h"
#include "formats/block_parts.h"

#include <string.h>

static uint16_t load16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t load32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* 64 bytes of four 2-bit fields: field f of byte j of a half is value 32 f + j of that half. */
static void take_pairs(const uint8_t *from, uint8_t *q) {
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t f = 0; f < 4; f++)
            for (uint32_t j = 0; j < 32; j++)
                q[128 * half + 32 * f + j] = from[32 * half + j] >> 2 * f & 3;
}

static void take_q2_k(const uint8_t *b, struct block_parts *p) {
    for (uint32_t j = 0; j < 16; j++) {
        p->sub[j] = b[j] & 15;
        p->submin[j] = b[j] >> 4;
    }
    take_pairs(b + 16, p->q);
    p->d = block_from_f16(load16(b + 80));
    p->m = block_from_f16(load16(b + 82));
}

/* The 16 scales have four low bits each in 8 bytes and two high bits each in 4. */
static void take_q3_k(const uint8_t *b, struct block_parts *p) {
    take_pairs(b + 32, p->q);
    for (uint32_t g = 0; g < 8; g++) /* bit g of byte j belongs to value j of the g-th 32 */
        for (uint32_t j = 0; j < 32; j++)
            p->q[32 * g + j] |= (uint8_t)((b[j] >> g & 1) << 2);
    const uint8_t *scales = b + 96;
    for (uint32_t j = 0; j < 16; j++) {
        const uint32_t low = scales[j % 8] >> 4 * (j / 8) & 15, high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
        p->sub[j] = (uint8_t)((int32_t)(low | high << 4) - 32);
    }
    p->d = block_from_f16(load16(b + 108));
}

static void take_iq4_xs(const uint8_t *b, struct block_parts *p) {
    const uint32_t high = load16(b + 2);
    for (uint32_t g = 0; g < 8; g++) {
        const uint32_t low = b[4 + g / 2] >> 4 * (g % 2) & 15;
        p->sub[g] = (uint8_t)((int32_t)(low | (high >> 2 * g & 3) << 4) - 32);
        for (uint32_t j = 0; j < 16; j++) {
            p->q[32 * g + j] = b[8 + 16 * g + j] & 15;
            p->q[32 * g + 16 + j] = b[8 + 16 * g + j] >> 4;
        }
    }
    p->d = block_from_f16(load16(b));
}

/* n values of a grid, `bits` each, and a bit of sign for each; the sign is the code's highest bit. */
static void put_grid(uint32_t grid, uint32_t signs, uint32_t n, uint32_t bits, uint8_t *q) {
    for (uint32_t j = 0; j < n; j++)
        q[j] = (uint8_t)((grid >> bits * j & ((1u << bits) - 1)) | (signs >> j & 1) << bits);
}

/* Seven bits of signs; the eighth makes their number even. */
static uint32_t even_signs(uint32_t seven) {
    seven &= 127;
    return seven | (uint32_t)__builtin_parity(seven) << 7;
}

static void take_iq3_s(const uint8_t *b, struct block_parts *p) {
    const uint8_t *low = b + 2, *high = b + 66, *signs = b + 74, *scales = b + 106;
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t at = low[i] | (uint32_t)(high[i / 8] >> i % 8 & 1) << 8;
        put_grid(block_grid_iq3_s[at], signs[i / 2] >> 4 * (i % 2) & 15u, 4, 3, p->q + 4 * i);
    }
    for (uint32_t g = 0; g < 8; g++)
        p->sub[g] = (uint8_t)(2 * (scales[g / 2] >> 4 * (g % 2) & 15) + 1);
}

static void take_iq3_xxs(const uint8_t *b, struct block_parts *p) {
    for (uint32_t g = 0; g < 8; g++) {
        const uint32_t more = load32(b + 66 + 4 * g); /* four times seven signs, the scale */
        for (uint32_t i = 0; i < 8; i++)
            put_grid(block_grid_iq3_xxs[b[2 + 8 * g + i]], even_signs(more >> 7 * (i / 2)) >> 4 * (i % 2), 4,
                     3, p->q + 32 * g + 4 * i);
        p->sub[g] = (uint8_t)(2 * (more >> 28) + 1);
    }
}

static void take_iq2_xxs(const uint8_t *b, struct block_parts *p) {
    for (uint32_t g = 0; g < 8; g++) {
        const uint8_t *at = b + 2 + 8 * g;
        const uint32_t more = load32(at + 4);
        for (uint32_t i = 0; i < 4; i++)
            put_grid(block_grid_iq2_xxs[at[i]], even_signs(more >> 7 * i), 8, 2, p->q + 32 * g + 8 * i);
        p->sub[2 * g] = p->sub[2 * g + 1] = (uint8_t)(2 * (more >> 28) + 1);
    }
}

/* 16 scales of 4 bits. */
static void take_iq2_scales(const uint8_t *from, struct block_parts *p) {
    for (uint32_t j = 0; j < 16; j++)
        p->sub[j] = (uint8_t)(2 * (from[j / 2] >> 4 * (j % 2) & 15) + 1);
}

static void take_iq2_xs(const uint8_t *b, struct block_parts *p) {
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t v = load16(b + 2 + 2 * i);
        put_grid(block_grid_iq2_xs[v & 511], even_signs(v >> 9), 8, 2, p->q + 8 * i);
    }
    take_iq2_scales(b + 66, p);
}

static void take_iq2_s(const uint8_t *b, struct block_parts *p) {
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t at = b[2 + i] | (uint32_t)(b[66 + i / 4] >> 2 * (i % 4) & 3) << 8;
        put_grid(block_grid_iq2_s[at], b[34 + i], 8, 2, p->q + 8 * i);
    }
    take_iq2_scales(b + 74, p);
}

/* IQ1: what is added to all values of a group takes the place of a sign. */
static void take_iq1_s(const uint8_t *b, struct block_parts *p) {
    for (uint32_t g = 0; g < 8; g++) {
        const uint32_t more =
            load16(b + 34 + 2 * g); /* four times three bits of index, the scale, the shift */
        for (uint32_t i = 0; i < 4; i++)
            put_grid(block_grid_iq1[b[2 + 4 * g + i] | (more >> 3 * i & 7) << 8], more >> 15 ? 255 : 0, 8, 2,
                     p->q + 32 * g + 8 * i);
        p->sub[2 * g] = p->sub[2 * g + 1] = (uint8_t)(2 * (more >> 12 & 7) + 1);
    }
}

/* Four words: in each four scales of 3 bits, and 4 bits of the block's scale. */
static void take_iq1_m(const uint8_t *b, struct block_parts *p) {
    uint32_t d = 0;
    for (uint32_t i = 0; i < 4; i++)
        d |= (uint32_t)(load16(b + 48 + 2 * i) >> 12) << 4 * i;
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t high = b[32 + i / 2] >> 4 * (i % 2);
        put_grid(block_grid_iq1[b[i] | (high & 7) << 8], high & 8 ? 255 : 0, 8, 2, p->q + 8 * i);
    }
    for (uint32_t j = 0; j < 16; j++)
        p->sub[j] = (uint8_t)(2 * (load16(b + 48 + 2 * (j / 4)) >> 3 * (j % 4) & 7) + 1);
    p->d = block_from_f16((uint16_t)d);
}

/* n bytes of `digits` digits of base 3 each, as a fraction of 256: digit i of byte j is value n * i + j. */
static void take_digits(const uint8_t *from, uint32_t n, uint32_t digits, uint8_t *q) {
    for (uint32_t j = 0; j < n; j++) {
        uint8_t rest = from[j];
        for (uint32_t i = 0; i < digits; i++) {
            const uint32_t v = rest * 3u;
            q[n * i + j] = (uint8_t)(v >> 8);
            rest = (uint8_t)v;
        }
    }
}

/* As Q2_K whose every scale and minimum is 1: d * q - d. */
static void take_ternary(uint32_t type, const uint8_t *b, struct block_parts *p) {
    if (type == BLOCK_TQ1_0) {
        take_digits(b, 32, 5, p->q);
        take_digits(b + 32, 16, 5, p->q + 160);
        take_digits(b + 48, 4, 4, p->q + 240);
    } else {
        take_pairs(b, p->q);
    }
    memset(p->sub, 1, sizeof p->sub);
    memset(p->submin, 1, sizeof p->submin);
    p->d = p->m = block_from_f16(load16(b + (type == BLOCK_TQ1_0 ? 52 : 64)));
}

void block_take_codes(uint32_t type, const uint8_t *b, struct block_parts *p) {
    p->m = 0;
    p->d = block_from_f16(load16(b)); /* of most */
    switch (type) {
    case BLOCK_Q2_K:
        take_q2_k(b, p);
        break;
    case BLOCK_Q3_K:
        take_q3_k(b, p);
        break;
    case BLOCK_IQ4_XS:
        take_iq4_xs(b, p);
        break;
    case BLOCK_IQ3_S:
        take_iq3_s(b, p);
        break;
    case BLOCK_IQ3_XXS:
        take_iq3_xxs(b, p);
        break;
    case BLOCK_IQ2_XXS:
        take_iq2_xxs(b, p);
        break;
    case BLOCK_IQ2_XS:
        take_iq2_xs(b, p);
        break;
    case BLOCK_IQ2_S:
        take_iq2_s(b, p);
        break;
    case BLOCK_IQ1_S:
        take_iq1_s(b, p);
        break;
    case BLOCK_IQ1_M:
        take_iq1_m(b, p);
        break;
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0:
        take_ternary(type, b, p);
        break;
    default:
        CHECK(!"a computable, quantised type");
    }
}

float block_from_e4m3_half(uint8_t v) {
    const uint32_t exponent = v >> 3 & 15, mantissa = v & 7;
    if (v == 0x7F)
        return 0;
    if (exponent == 0)
        return (float)mantissa * 0x1p-10f;
    return (float)(8 + mantissa) * (float)(1u << exponent) * 0x1p-11f;
}

void block_take_nvfp4(const uint8_t *block, float *out) {
    for (uint32_t s = 0; s < 4; s++) {
        const float d = block_from_e4m3_half(block[s]);
        for (uint32_t j = 0; j < 8; j++) {
            const uint8_t both = block[4 + 8 * s + j];
            out[16 * s + j] = (float)block_mxfp4_values[both & 15] * d;
            out[16 * s + 8 + j] = (float)block_mxfp4_values[both >> 4] * d;
        }
    }
}

uint32_t block_as_q4_0(uint32_t type, const uint8_t *block, uint8_t *to) {
    const uint32_t blocks = block_info(type)->values / 32;
    for (uint32_t i = 0; i < blocks; i++, to += 18) {
        uint8_t q[32];
        for (uint32_t j = 0; j < 32; j++) {
            const uint32_t at = 32 * i + j;
            q[j] = type == BLOCK_Q1_0 ? (uint8_t)(block[2 + at / 8] >> at % 8 & 1 ? 9 : 7)
                                      : (uint8_t)((block[2 + at / 4] >> 2 * (at % 4) & 3) + 7);
        }
        memcpy(to, block, 2);
        for (uint32_t j = 0; j < 16; j++)
            to[2 + j] = (uint8_t)(q[j] | q[16 + j] << 4);
    }
    return blocks;
}
