/* Block formats: sizes of all of ggml's types, decoding of the computable ones, 16-bit floats.
 * Pure functions on the caller's memory, for any thread. Numbers in files are little-endian, as the host is.
 */
#include "formats/block.h"

#include "base/arith.h"
#include "base/check.h"
#include "formats/block_parts.h"

#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "blocks and panels are read as they lie in memory: the host must be little-endian"
#endif

static const struct block_info infos[BLOCK_TYPES] = {
    [BLOCK_F32] = {"f32", 1, 4, true},
    [BLOCK_F16] = {"f16", 1, 2, true},
    [BLOCK_Q4_0] = {"q4_0", 32, 18, true},
    [BLOCK_Q4_1] = {"q4_1", 32, 20, true},
    [BLOCK_Q5_0] = {"q5_0", 32, 22, true},
    [BLOCK_Q5_1] = {"q5_1", 32, 24, true},
    [BLOCK_Q8_0] = {"q8_0", 32, 34, true},
    [9] = {"q8_1", 32, 36, false},
    [BLOCK_Q2_K] = {"q2_k", 256, 84, true},
    [BLOCK_Q3_K] = {"q3_k", 256, 110, true},
    [BLOCK_Q4_K] = {"q4_k", 256, 144, true},
    [BLOCK_Q5_K] = {"q5_k", 256, 176, true},
    [BLOCK_Q6_K] = {"q6_k", 256, 210, true},
    [15] = {"q8_k", 256, 292, false},
    [BLOCK_IQ2_XXS] = {"iq2_xxs", 256, 66, true},
    [BLOCK_IQ2_XS] = {"iq2_xs", 256, 74, true},
    [BLOCK_IQ3_XXS] = {"iq3_xxs", 256, 98, true},
    [BLOCK_IQ1_S] = {"iq1_s", 256, 50, true},
    [BLOCK_IQ4_NL] = {"iq4_nl", 32, 18, true},
    [BLOCK_IQ3_S] = {"iq3_s", 256, 110, true},
    [BLOCK_IQ2_S] = {"iq2_s", 256, 82, true},
    [BLOCK_IQ4_XS] = {"iq4_xs", 256, 136, true},
    [24] = {"i8", 1, 1, false},
    [25] = {"i16", 1, 2, false},
    [26] = {"i32", 1, 4, false},
    [27] = {"i64", 1, 8, false},
    [28] = {"f64", 1, 8, false},
    [BLOCK_IQ1_M] = {"iq1_m", 256, 56, true},
    [BLOCK_BF16] = {"bf16", 1, 2, true},
    [BLOCK_TQ1_0] = {"tq1_0", 256, 54, true},
    [BLOCK_TQ2_0] = {"tq2_0", 256, 66, true},
    [BLOCK_MXFP4] = {"mxfp4", 32, 17, true},
    [BLOCK_NVFP4] = {"nvfp4", 64, 36, true},
    [BLOCK_Q1_0] = {"q1_0", 128, 18, true},
    [BLOCK_Q2_0] = {"q2_0", 64, 18, true},
};

const struct block_info *block_info(uint32_t type) {
    return type < BLOCK_TYPES && infos[type].name != NULL ? &infos[type] : NULL;
}

bool block_row_bytes(uint32_t type, uint64_t n, uint64_t *bytes) {
    const struct block_info *info = block_info(type);
    if (info == NULL || n % info->values != 0)
        return false;
    return arith_mul(n / info->values, info->bytes, bytes);
}

bool block_is_quantised(uint32_t type) {
    return type != BLOCK_F32 && type != BLOCK_F16 && type != BLOCK_BF16;
}

const int8_t block_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
/* E2M1, doubled: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and the same below zero. */
const int8_t block_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* The highest bit of a code is the sign; of IQ1 it chooses what is added: 8 * (-1, 0, 1) + 1 or - 1. */
static const int8_t iq3_s_values[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
static const int8_t iq3_xxs_values[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                          -4, -12, -20, -28, -36, -44, -52, -62};
static const int8_t iq2_values[16] = {8, 25, 43, 0, -8, -25, -43, 0};
static const int8_t iq1_values[16] = {-7, 1, 9, 0, -9, -1, 7, 0};

const int8_t *block_table(uint32_t type) {
    switch (type) {
    case BLOCK_IQ4_NL:
    case BLOCK_IQ4_XS:
        return block_iq4_values;
    case BLOCK_MXFP4:
        return block_mxfp4_values;
    case BLOCK_IQ3_S:
        return iq3_s_values;
    case BLOCK_IQ3_XXS:
        return iq3_xxs_values;
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
        return iq2_values;
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
        return iq1_values;
    default:
        return NULL;
    }
}

float block_factor(uint32_t type) {
    switch (type) {
    case BLOCK_IQ3_XXS:
        return 0.25f;
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
        return 0.125f;
    default:
        return 1;
    }
}

uint32_t block_subs(uint32_t type) {
    switch (type) {
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
    case BLOCK_IQ4_XS:
    case BLOCK_IQ3_S:
    case BLOCK_IQ3_XXS:
        return 8;
    default:
        return block_info(type)->values == 256 ? 16 : 0;
    }
}

bool block_has_m(uint32_t type) {
    return type == BLOCK_Q4_1 || type == BLOCK_Q5_1 || type == BLOCK_Q2_K || type == BLOCK_Q4_K ||
           type == BLOCK_Q5_K || type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0;
}

int block_integer(uint32_t type, uint8_t q) {
    const int8_t *table = block_table(type);
    if (table != NULL)
        return table[q];
    switch (type) {
    case BLOCK_Q3_K:
        return q - 4;
    case BLOCK_Q4_0:
        return q - 8;
    case BLOCK_Q5_0:
        return q - 16;
    case BLOCK_Q6_K:
        return q - 32;
    case BLOCK_Q8_0:
        return (int8_t)q;
    default:
        return q;
    }
}

static uint16_t load16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float block_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 31;
    uint32_t mantissa = h & 0x3FF;
    if (exponent == 0)
        return float_of_bits(sign | bits_of_float((float)mantissa * 0x1p-24f));
    if (exponent == 31) /* infinity, or a NaN, which is made quiet as by the processor's conversion */
        return float_of_bits(sign | 0x7F800000 | (mantissa != 0 ? mantissa << 13 | 0x400000 : 0));
    return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t block_to_f16(float f) {
    uint32_t bits = bits_of_float(f);
    uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (bits >> 13 & 0x3FF));
    if (bits >= 0x477FF000) /* 65520, half way past the largest half */
        return (uint16_t)(sign | 0x7C00);
    if (bits <
        0x38800000) /* below 2^-14: beside 0.5 the float's last bit is worth 2^-24, the smallest half */
        return (uint16_t)(sign | (bits_of_float(float_of_bits(bits) + 0.5f) - 0x3F000000));
    bits += 0xFFF + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits - (112u << 23)) >> 13));
}

float block_from_bf16(uint16_t h) {
    return float_of_bits((uint32_t)h << 16);
}

float block_from_e8m0_half(uint8_t e) {
    return float_of_bits(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23);
}

static float load_f16(const uint8_t *p) {
    return block_from_f16(load16(p));
}

/* n bytes of nibbles: the low ones become q[0..n), the high ones q[n..2n). */
static void take_nibbles(const uint8_t *from, uint32_t n, uint8_t *q) {
    for (uint32_t j = 0; j < n; j++) {
        q[j] = from[j] & 15;
        q[j + n] = from[j] >> 4;
    }
}

/* Bit j of the four bytes becomes bit 4 of q[j]. */
static void take_fifth_bits(const uint8_t *from, uint8_t *q) {
    for (uint32_t j = 0; j < 32; j++)
        q[j] |= (uint8_t)((from[j / 8] >> j % 8 & 1) << 4);
}

void block_take_scales(const uint8_t *from, uint8_t *sub, uint8_t *submin) {
    for (uint32_t j = 0; j < 4; j++) {
        sub[j] = from[j] & 63;
        submin[j] = from[4 + j] & 63;
        sub[4 + j] = (uint8_t)((from[8 + j] & 15) | (from[j] >> 6) << 4);
        submin[4 + j] = (uint8_t)(from[8 + j] >> 4 | (from[4 + j] >> 6) << 4);
    }
}

static void take_k45(bool five, const uint8_t *b, struct block_parts *p) {
    p->d = load_f16(b);
    p->m = load_f16(b + 2);
    block_take_scales(b + 4, p->sub, p->submin);
    const uint8_t *high = b + 16;
    const uint8_t *low = five ? high + 32 : high;
    for (uint32_t g = 0; g < 4; g++)
        take_nibbles(low + 32 * g, 32, p->q + 64 * g);
    if (!five)
        return;
    for (uint32_t g = 0; g < 8; g++) /* bit g of byte j belongs to value j of the g-th 32 */
        for (uint32_t j = 0; j < 32; j++)
            p->q[32 * g + j] |= (uint8_t)((high[j] >> g & 1) << 4);
}

static void take_k6(const uint8_t *b, struct block_parts *p) {
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t *low = b + 64 * half;
        const uint8_t *high = b + 128 + 32 * half;
        uint8_t *q = p->q + 128 * half;
        take_nibbles(low, 64, q);
        for (uint32_t f = 0; f < 4; f++)
            for (uint32_t j = 0; j < 32; j++)
                q[32 * f + j] |= (uint8_t)((high[j] >> 2 * f & 3) << 4);
    }
    memcpy(p->sub, b + 192, 16);
    p->d = load_f16(b + 208);
}

void block_take_apart(uint32_t type, const uint8_t *block, struct block_parts *p) {
    p->m = 0;
    switch (type) {
    case BLOCK_Q4_0:
    case BLOCK_Q5_0:
    case BLOCK_IQ4_NL:
        p->d = load_f16(block);
        take_nibbles(block + (type == BLOCK_Q5_0 ? 6 : 2), 16, p->q);
        if (type == BLOCK_Q5_0)
            take_fifth_bits(block + 2, p->q);
        break;
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
        p->d = load_f16(block);
        p->m = load_f16(block + 2);
        take_nibbles(block + (type == BLOCK_Q5_1 ? 8 : 4), 16, p->q);
        if (type == BLOCK_Q5_1)
            take_fifth_bits(block + 4, p->q);
        break;
    case BLOCK_Q8_0:
        p->d = load_f16(block);
        memcpy(p->q, block + 2, 32);
        break;
    case BLOCK_MXFP4:
        p->d = block_from_e8m0_half(block[0]);
        take_nibbles(block + 1, 16, p->q);
        break;
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        take_k45(type == BLOCK_Q5_K, block, p);
        break;
    case BLOCK_Q6_K:
        take_k6(block, p);
        break;
    default:
        block_take_codes(type, block, p);
    }
}

void block_decode_parts(uint32_t type, const struct block_parts *p, float *out) {
    const uint32_t subs = block_subs(type);
    const float d = p->d * block_factor(type);
    const float m = p->m;
    if (subs == 0) {
        for (uint32_t j = 0; j < 32; j++)
            out[j] = block_has_m(type) ? (float)p->q[j] * d + m : (float)block_integer(type, p->q[j]) * d;
        return;
    }
    for (uint32_t g = 0, n = 256 / subs; g < subs; g++) {
        const float scale = d * (float)(int8_t)p->sub[g];
        const float least = block_has_m(type) ? m * (float)p->submin[g] : 0;
        for (uint32_t j = n * g; j < n * g + n; j++)
            out[j] = block_has_m(type) ? scale * (float)p->q[j] - least
                                       : scale * (float)block_integer(type, p->q[j]);
    }
}

void block_decode_row(uint32_t type, const void *row, float *out, uint64_t n) {
    const struct block_info *info = block_info(type);
    CHECK(info != NULL && info->computable && n % info->values == 0);
    const uint8_t *from = row;
    if (type == BLOCK_F32) {
        memcpy(out, from, n * sizeof *out);
    } else if (type == BLOCK_F16) {
        for (uint64_t i = 0; i < n; i++)
            out[i] = block_from_f16(load16(from + 2 * i));
    } else if (type == BLOCK_BF16) {
        for (uint64_t i = 0; i < n; i++)
            out[i] = block_from_bf16(load16(from + 2 * i));
    } else if (type == BLOCK_NVFP4) {
        for (uint64_t i = 0; i < n; i += 64, from += info->bytes)
            block_take_nvfp4(from, out + i);
    } else if (type == BLOCK_Q1_0 || type == BLOCK_Q2_0) {
        uint8_t blocks[4 * 18];
        for (uint64_t i = 0; i < n; i += info->values, from += info->bytes) {
            block_as_q4_0(type, from, blocks);
            block_decode_row(BLOCK_Q4_0, blocks, out + i, info->values);
        }
    } else {
        struct block_parts p;
        for (uint64_t i = 0; i < n; i += info->values, from += info->bytes) {
            block_take_apart(type, from, &p);
            block_decode_parts(type, &p, out + i);
        }
    }
}

static void store_f16(uint8_t *p, float v) {
    const uint16_t h = block_to_f16(v);
    memcpy(p, &h, sizeof h);
}

void block_put_scales(uint32_t type, void *block, float d, float m) {
    uint8_t *b = block;
    const uint32_t bytes = block_info(type)->bytes;
    const uint16_t half = block_to_f16(d);
    switch (type) {
    case BLOCK_F32:
        memcpy(b, &d, sizeof d);
        break;
    case BLOCK_BF16:
        memcpy(b, (const uint8_t *)&d + 2, 2);
        break;
    case BLOCK_MXFP4: /* powers of two */
        b[0] = (uint8_t)((bits_of_float(d) >> 23 & 255) + 1);
        break;
    case BLOCK_NVFP4: { /* four exponents of 4 bits; mantissas stay */
        const int32_t e = (int32_t)(bits_of_float(d) >> 23 & 255) - 127 + 8;
        for (uint32_t i = 0; i < 4; i++)
            b[i] = (uint8_t)((e < 0 ? 0 : e > 15 ? 15 : e) << 3 | (b[i] & 7));
        break;
    }
    case BLOCK_IQ1_M:
        for (uint32_t i = 0; i < 4; i++)
            b[49 + 2 * i] = (uint8_t)((b[49 + 2 * i] & 15) | (half >> 4 * i & 15) << 4);
        break;
    case BLOCK_Q3_K:
    case BLOCK_Q6_K:
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0:
        store_f16(b + bytes - 2, d);
        break;
    case BLOCK_Q2_K:
        store_f16(b + 80, d);
        store_f16(b + 82, m);
        break;
    default:
        store_f16(b, d);
        if (block_has_m(type))
            store_f16(b + 2, m);
    }
}
