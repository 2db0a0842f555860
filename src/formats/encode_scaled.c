/* Q3_K, Q6_K, IQ4_NL, IQ4_XS, and with weights Q4_0 and Q5_0: x = d * l * v, where l is an integer of each
 * sub-block and v one of the type's values for each weight.
 *
 * The search, per sub-block first: from several ratios of its farthest value to the farthest v, alternately
 * the v of a given scale and the scale of least error for given v. Then all together: with the d of which the
 * sub-blocks' scales lose least by becoming multiples, each sub-block tries the integers around its own
 * scale / d, and for the l and v that are there d follows again by least squares. What had the least error in
 * the end, counted with d as it is stored, stays. */
#include "formats/encode_lanes.h"

#include "base/check.h"

#include <math.h>

#define MAX_SUBS 16
#define MAX_N    32

struct shape {
    uint32_t type;
    uint32_t subs, n;        /* sub-blocks, values in one */
    float below, above;      /* the farthest v on either side of 0, as sizes */
    float l_least, l_most;   /* integers of sub-blocks */
    float ratio, ratio_step; /* of scales that are tried: from below times ratio on, in steps */
    int ratios;
    int tries; /* of d, half an integer of the farthest scale apart */
};

struct sub {
    float s; /* free */
    float l;
    float error;
    float v[MAX_N];
};

struct trial {
    float d; /* as stored */
    float error;
    struct sub subs[MAX_SUBS];
};

/* The code of the nearest of block_iq4_values to v, by 2 v + 256: what is halfway between two of them is a
 * multiple of a half. */
static const uint8_t iq4_codes[512] = {
    [0 ... 24] = 0,     [25 ... 68] = 1,    [69 ... 107] = 2,   [108 ... 141] = 3,
    [142 ... 171] = 4,  [172 ... 198] = 5,  [199 ... 223] = 6,  [224 ... 246] = 7,
    [247 ... 269] = 8,  [270 ... 293] = 9,  [294 ... 318] = 10, [319 ... 346] = 11,
    [347 ... 377] = 12, [378 ... 413] = 13, [414 ... 457] = 14, [458 ... 511] = 15};

#define TIER(name) name##_plain
#define ENCODE_TARGET
#include "formats/encode_scaled_tmpl.h"
#undef TIER
#undef ENCODE_TARGET
#if defined ENCODE_TARGET_AVX2
#define TIER(name)    name##_avx2
#define ENCODE_TARGET ENCODE_TARGET_AVX2
#include "formats/encode_scaled_tmpl.h"
#undef TIER
#undef ENCODE_TARGET
#endif

/* The 16 scales of Q3_K, 6 bits each: four low bits in 8 bytes, two high ones in 4. */
static void put_scales_q3(const struct trial *t, uint8_t *to) {
    memset(to, 0, 12);
    for (uint32_t j = 0; j < 16; j++) {
        const uint32_t l = (uint32_t)(t->subs[j].l + 32);
        to[j % 8] |= (uint8_t)((l & 15) << 4 * (j / 8));
        to[8 + j % 4] |= (uint8_t)(l >> 4 << 2 * (j / 4));
    }
}

static void put_iq4_xs(const struct trial *t, const uint8_t *q, uint8_t *block) {
    uint32_t high = 0;
    encode_put_f16(block, t->d);
    memset(block + 4, 0, 4);
    for (uint32_t g = 0; g < 8; g++) {
        const uint32_t l = (uint32_t)(t->subs[g].l + 32);
        high |= l >> 4 << 2 * g;
        block[4 + g / 2] |= (uint8_t)((l & 15) << 4 * (g % 2));
        encode_put_nibbles(q + 32 * g, 16, block + 8 + 16 * g);
    }
    block[2] = (uint8_t)high;
    block[3] = (uint8_t)(high >> 8);
}

static void put_q6_k(const struct trial *t, const uint8_t *q, uint8_t *block) {
    memset(block + 128, 0, 64);
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t *from = q + 128 * half;
        encode_put_nibbles(from, 64, block + 64 * half);
        for (uint32_t g = 0; g < 4; g++)
            for (uint32_t j = 0; j < 32; j++)
                block[128 + 32 * half + j] |= (uint8_t)(from[32 * g + j] >> 4 << 2 * g);
    }
    for (uint32_t j = 0; j < 16; j++)
        block[192 + j] = (uint8_t)(int8_t)t->subs[j].l;
    encode_put_f16(block + 208, t->d);
}

static uint8_t code_of(uint32_t type, float v) {
    uint8_t i = 0;
    if (type == BLOCK_Q3_K)
        return (uint8_t)(v + 4);
    if (type == BLOCK_Q6_K)
        return (uint8_t)(v + 32);
    if (type == BLOCK_Q4_0 || type == BLOCK_Q5_0)
        return (uint8_t)(v + (type == BLOCK_Q4_0 ? 8 : 16));
    while ((float)block_iq4_values[i] < v)
        i++;
    return i;
}

static void put(const struct shape *f, const struct trial *t, uint8_t *block) {
    uint8_t q[BLOCK_MAX_VALUES];
    for (uint32_t j = 0; j < f->subs; j++)
        for (uint32_t i = 0; i < f->n; i++)
            q[f->n * j + i] = code_of(f->type, t->subs[j].v[i]);
    switch (f->type) {
    case BLOCK_Q3_K:
        encode_put_high(q, 2, block);
        encode_put_pairs(q, block + 32);
        put_scales_q3(t, block + 96);
        encode_put_f16(block + 108, t->d);
        break;
    case BLOCK_Q6_K:
        put_q6_k(t, q, block);
        break;
    case BLOCK_IQ4_XS:
        put_iq4_xs(t, q, block);
        break;
    case BLOCK_IQ4_NL:
    case BLOCK_Q4_0:
        encode_put_f16(block, t->d);
        encode_put_nibbles(q, 16, block + 2);
        break;
    case BLOCK_Q5_0:
        encode_put_f16(block, t->d);
        encode_put_five(q, block + 2, block + 6);
        break;
    default:
        CHECK(!"a type of this file");
    }
}

static struct shape shape_of(uint32_t type) {
    switch (type) {
    case BLOCK_Q3_K:
        return (struct shape){type, 16, 16, 4, 3, -32, 31, 1.12f, 0.06f, 8, 16};
    case BLOCK_Q6_K:
        return (struct shape){type, 16, 16, 32, 31, -128, 127, 1.012f, 0.02f, 4, 1};
    case BLOCK_IQ4_XS:
        return (struct shape){type, 8, 32, 127, 113, -32, 31, 1.06f, 0.03f, 9, 16};
    case BLOCK_Q4_0:
        return (struct shape){type, 1, 32, 8, 7, 1, 1, 1.1f, 0.03f, 13, 1};
    case BLOCK_Q5_0:
        return (struct shape){type, 1, 32, 16, 15, 1, 1, 1.04f, 0.015f, 13, 1};
    default:
        CHECK(type == BLOCK_IQ4_NL);
        return (struct shape){type, 1, 32, 127, 113, 1, 1, 1.06f, 0.02f, 13, 1};
    }
}

void encode_scaled(enum encode_tier tier, uint32_t type, const float *x, const float *w, uint8_t *block) {
    const struct shape f = shape_of(type);
    struct trial best = {.error = INFINITY};
    const float far = ENCODE_BY(tier, scaled, &f, x, w, &best);
    if (!(best.error < INFINITY)) { /* beyond the range of floats */
        best.d = encode_as_f16(far);
        for (uint32_t j = 0; j < f.subs; j++)
            best.subs[j].l = f.l_most;
    }
    put(&f, &best, block);
}
