/* Encoding by type: rows into blocks, and the types whose bytes are given. */
#include "formats/encode.h"

#include "base/arith.h"
#include "base/check.h"
#include "formats/encode_parts.h"

#include <math.h>

bool encode_can(uint32_t type) {
    switch (type) {
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16:
    case BLOCK_Q4_0:
    case BLOCK_Q4_1:
    case BLOCK_Q5_0:
    case BLOCK_Q5_1:
    case BLOCK_Q8_0:
    case BLOCK_Q2_K:
    case BLOCK_Q3_K:
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
    case BLOCK_Q6_K:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ4_NL:
    case BLOCK_IQ3_S:
    case BLOCK_IQ2_S:
    case BLOCK_IQ4_XS:
    case BLOCK_IQ1_M:
    case BLOCK_MXFP4:
    case BLOCK_NVFP4:
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0:
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
        return true;
    default:
        return false;
    }
}

static uint16_t to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16); /* f is finite */
}

/* Half away from zero. */
static int round_away(float v) {
    return (int)roundf(v);
}

static void q8_0(const float *x, uint8_t *block) {
    float most = 0;
    for (uint32_t i = 0; i < 32; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float d = most / 127;
    const float inverse = d != 0 ? 1 / d : 0;
    encode_put_f16(block, d);
    for (uint32_t i = 0; i < 32; i++)
        block[2 + i] = (uint8_t)round_away(x[i] * inverse);
}

/* Q4_0, Q5_0: the value that is farthest from 0 becomes the lowest integer, -half. */
static void around_zero(bool five, const float *x, uint8_t *block) {
    const int half = five ? 16 : 8;
    float far = 0;
    for (uint32_t i = 0; i < 32; i++)
        far = fabsf(x[i]) > fabsf(far) ? x[i] : far;
    const float d = far / (float)-half;
    const float inverse = d != 0 ? 1 / d : 0;
    uint8_t q[32];
    for (uint32_t i = 0; i < 32; i++) {
        const int v = (int)(x[i] * inverse + (float)half + 0.5f);
        q[i] = (uint8_t)ARITH_MIN(v, 2 * half - 1);
    }
    encode_put_f16(block, d);
    if (five)
        encode_put_five(q, block + 2, block + 6);
    else
        encode_put_nibbles(q, 16, block + 2);
}

/* Q4_1, Q5_1: from the least value to the largest. */
static void from_least(bool five, const float *x, uint8_t *block) {
    const int most = five ? 31 : 15;
    float lo = x[0];
    float hi = x[0];
    for (uint32_t i = 1; i < 32; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    const float d = (hi - lo) / (float)most;
    const float inverse = d != 0 ? 1 / d : 0;
    uint8_t q[32];
    for (uint32_t i = 0; i < 32; i++) {
        const int v = (int)((x[i] - lo) * inverse + 0.5f);
        q[i] = (uint8_t)ARITH_MIN(v, most);
    }
    encode_put_f16(block, d);
    encode_put_f16(block + 2, lo);
    if (five)
        encode_put_five(q, block + 4, block + 8);
    else
        encode_put_nibbles(q, 16, block + 4);
}

/* weights: NULL, or the caller gave some. */
static void encode_block(enum encode_tier tier, uint32_t type, const float *x, const float *weights,
                         const float *ones, uint8_t *block) {
    const float *w = weights != NULL ? weights : ones;
    switch (type) {
    case BLOCK_Q8_0:
        q8_0(x, block);
        break;
    case BLOCK_Q4_0:
    case BLOCK_Q5_0:
        if (weights != NULL)
            encode_scaled(tier, type, x, w, block);
        else
            around_zero(type == BLOCK_Q5_0, x, block);
        break;
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
        if (weights != NULL)
            encode_offset(tier, type, x, w, block);
        else
            from_least(type == BLOCK_Q5_1, x, block);
        break;
    case BLOCK_Q2_K:
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        encode_minimum(tier, type, x, w, block);
        break;
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0:
        encode_ternary(type, x, block);
        break;
    case BLOCK_IQ3_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
        encode_grid(type, x, w, block);
        break;
    case BLOCK_MXFP4:
        encode_mxfp4(x, w, block);
        break;
    case BLOCK_NVFP4:
        encode_nvfp4(x, w, block);
        break;
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
        encode_bits(type, x, w, block);
        break;
    default:
        encode_scaled(tier, type, x, w, block);
    }
}

/* Weights of a block that are all 0 say nothing: they count as equal. */
static const float *weights_of(const float *weights, uint32_t n, const float *ones) {
    float sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += weights[i];
    return sum > 0 ? weights : ones;
}

enum encode_tier encode_best_tier(void) {
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return ENCODE_AVX2;
#endif
    return ENCODE_ANY;
}

void encode_row(uint32_t type, const float *x, const float *weights, void *row, uint64_t n) {
    encode_row_by(encode_best_tier(), type, x, weights, row, n);
}

void encode_row_by(enum encode_tier tier, uint32_t type, const float *x, const float *weights, void *row,
                   uint64_t n) {
    const struct block_info *info = block_info(type);
    CHECK(encode_can(type) && n % info->values == 0);
    uint8_t *to = row;
    if (type == BLOCK_F32) {
        memcpy(to, x, n * sizeof *x);
        return;
    }
    if (type == BLOCK_F16 || type == BLOCK_BF16) {
        for (uint64_t i = 0; i < n; i++) {
            const uint16_t h = type == BLOCK_F16 ? block_to_f16(x[i]) : to_bf16(x[i]);
            memcpy(to + 2 * i, &h, sizeof h);
        }
        return;
    }
    float ones[BLOCK_MAX_VALUES];
    for (uint32_t i = 0; i < BLOCK_MAX_VALUES; i++)
        ones[i] = 1;
    for (uint64_t i = 0; i < n; i += info->values, to += info->bytes) {
        const float *w = weights != NULL ? weights_of(weights + i, info->values, ones) : NULL;
        encode_block(tier, type, x + i, w, ones, to);
    }
}
