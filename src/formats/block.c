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
    [10] = {"q2_k", 256, 84, false},
    [11] = {"q3_k", 256, 110, false},
    [BLOCK_Q4_K] = {"q4_k", 256, 144, true},
    [BLOCK_Q5_K] = {"q5_k", 256, 176, true},
    [BLOCK_Q6_K] = {"q6_k", 256, 210, true},
    [15] = {"q8_k", 256, 292, false},
    [16] = {"iq2_xxs", 256, 66, false},
    [17] = {"iq2_xs", 256, 74, false},
    [18] = {"iq3_xxs", 256, 98, false},
    [19] = {"iq1_s", 256, 50, false},
    [BLOCK_IQ4_NL] = {"iq4_nl", 32, 18, true},
    [21] = {"iq3_s", 256, 110, false},
    [22] = {"iq2_s", 256, 82, false},
    [23] = {"iq4_xs", 256, 136, false},
    [24] = {"i8", 1, 1, false},
    [25] = {"i16", 1, 2, false},
    [26] = {"i32", 1, 4, false},
    [27] = {"i64", 1, 8, false},
    [28] = {"f64", 1, 8, false},
    [29] = {"iq1_m", 256, 56, false},
    [BLOCK_BF16] = {"bf16", 1, 2, true},
    [34] = {"tq1_0", 256, 54, false},
    [35] = {"tq2_0", 256, 66, false},
    [BLOCK_MXFP4] = {"mxfp4", 32, 17, true},
    [40] = {"nvfp4", 64, 36, false},
    [41] = {"q1_0", 128, 18, false},
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

int block_integer(uint32_t type, uint8_t q) {
    switch (type) {
    case BLOCK_Q4_0:
        return q - 8;
    case BLOCK_Q5_0:
        return q - 16;
    case BLOCK_Q6_K:
        return q - 32;
    case BLOCK_Q8_0:
        return (int8_t)q;
    case BLOCK_IQ4_NL:
    case BLOCK_MXFP4:
        return block_table(type)[q];
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
        CHECK(!"a computable, quantised type");
    }
}

void block_decode_parts(uint32_t type, const struct block_parts *p, float *out) {
    const float d = p->d;
    const float m = p->m;
    switch (type) {
    case BLOCK_Q8_0:
    case BLOCK_Q4_0:
    case BLOCK_Q5_0:
    case BLOCK_IQ4_NL:
    case BLOCK_MXFP4:
        for (uint32_t j = 0; j < 32; j++)
            out[j] = (float)block_integer(type, p->q[j]) * d;
        break;
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
        for (uint32_t j = 0; j < 32; j++)
            out[j] = (float)p->q[j] * d + m;
        break;
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        for (uint32_t g = 0; g < 8; g++) {
            float scale = d * (float)p->sub[g];
            float least = m * (float)p->submin[g];
            for (uint32_t j = 32 * g; j < 32 * g + 32; j++)
                out[j] = scale * (float)p->q[j] - least;
        }
        break;
    case BLOCK_Q6_K:
        for (uint32_t g = 0; g < 16; g++) {
            float scale = d * (float)(int8_t)p->sub[g];
            for (uint32_t j = 16 * g; j < 16 * g + 16; j++)
                out[j] = scale * (float)block_integer(type, p->q[j]);
        }
        break;
    default:
        CHECK(!"a computable, quantised type");
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
    } else {
        struct block_parts p;
        for (uint64_t i = 0; i < n; i += info->values, from += info->bytes) {
            block_take_apart(type, from, &p);
            block_decode_parts(type, &p, out + i);
        }
    }
}
