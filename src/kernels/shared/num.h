/* The functions that kernels use in place of division, square root and libm: integer seeds plus fmaf steps,
 * defined once. Compiles as C and as OpenCL C. Vector versions are the same operations lane by lane, so that
 * every device gives the same bits. Nothing here converts a float to an integer with a cast: no input, NaN
 * included, is undefined behaviour; the bits are defined for finite inputs. Needs round to nearest even,
 * subnormals kept, no contraction. The error bounds are measured against double over the domains given
 * (tests/unit/kernels/test_num.c). */
#ifndef STATOR_KERNELS_SHARED_NUM_H
#define STATOR_KERNELS_SHARED_NUM_H

#ifdef __OPENCL_C_VERSION__
typedef uint num_u32;
#define NUM_FMA(a, b, c) fma(a, b, c)
#define NUM_FABS(x)      fabs(x)
#define NUM_BITS(x)      as_uint(x)
#define NUM_FLOAT(u)     as_float(u)
#else
#include <math.h>
#include <stdint.h>
typedef uint32_t num_u32;
union num_pun {
    float f;
    num_u32 u;
};
#define NUM_FMA(a, b, c) fmaf(a, b, c)
#define NUM_FABS(x)      fabsf(x)
#define NUM_BITS(x)      (((union num_pun){.f = (x)}).u)
#define NUM_FLOAT(bits)  (((union num_pun){.u = (bits)}).f)
#endif

/* x + NUM_ROUND - NUM_ROUND rounds |x| < 2^22 to the nearest integer, ties to even; the integer is the
 * difference of the bits of x + NUM_ROUND and NUM_ROUND_BITS. */
#define NUM_ROUND      12582912.0f /* 1.5 * 2^23 */
#define NUM_ROUND_BITS 0x4B400000u

#define NUM_RCP_SEED   0x7EF127EAu
#define NUM_RSQRT_SEED 0x5F3759DFu

#define NUM_EXP_MIN  (-87.0f) /* below: +0 */
#define NUM_EXP_MAX  88.0f    /* above: exp(88) */
#define NUM_LOG2E    0x1.715476p+0f
#define NUM_LN2_HIGH 0x1.62e430p-1f
#define NUM_LN2_LOW  (-0x1.05c610p-29f)
/* (exp(r) - 1 - r) / r^2 on |r| <= ln(2) / 2, fitted for the smallest relative error of exp (0.05 ulp). */
#define NUM_EXP_C2 0x1.fffffcp-2f
#define NUM_EXP_C3 0x1.555492p-3f
#define NUM_EXP_C4 0x1.5558acp-5f
#define NUM_EXP_C5 0x1.12397cp-7f
#define NUM_EXP_C6 0x1.6a518cp-10f

/* atanh(s) = s + s^3 / 3 + s^5 / 5 + .. */
#define NUM_ATANH_C3  0x1.555556p-2f
#define NUM_ATANH_C5  0x1.99999ap-3f
#define NUM_ATANH_C7  0x1.24924ap-3f
#define NUM_ATANH_C9  0x1.c71c72p-4f
#define NUM_ATANH_C11 0x1.745d18p-4f
#define NUM_ATANH_C13 0x1.3b13b2p-4f
#define NUM_ATANH_C15 0x1.111112p-4f

/* Below this amax a group of activations quantises to zeros. */
#define NUM_QUANT_MIN     0x1p-100f
#define NUM_QUANT_INVERSE 0x1.020408p-7f /* 1/127 */
#define NUM_QUANT_SECOND  0x1.0624dep-7f /* 1/125 */

/* Quantised keys and values: the scale of a group of int4 from its largest value, and of a query. */
#define NUM_QUANT4_INVERSE      (-0x1p-3f)        /* -1/8 */
#define NUM_QUANT4_SECOND       (-0x1.e1e1e2p-4f) /* -1/8.5 */
#define NUM_QUANT_QUERY         16256.0f          /* 127 * 128 */
#define NUM_QUANT_QUERY_INVERSE 0x1.020408p-14f   /* 1/16256 */
#define NUM_F16_MAX             65504.0f
/* Weights of quantised values: integers of 16 bits, whose high byte (rounded) and low byte are signed. */
#define NUM_QUANT_WEIGHT         32639.0f        /* 127 * 256 + 127 */
#define NUM_QUANT_WEIGHT_INVERSE 0x1.010306p-15f /* 1/32639 */

/* 1/x. Domain: |x| in [2^-126, 2^126]. Error <= 0.51 ulp, near 2^126 (a result next to the subnormals) <=
 * 0.75. */
static inline float num_rcp(float x) {
    float y = NUM_FLOAT(NUM_RCP_SEED - NUM_BITS(x));
    y = NUM_FMA(y, NUM_FMA(-x, y, 1.0f), y);
    y = NUM_FMA(y, NUM_FMA(-x, y, 1.0f), y);
    return NUM_FMA(y, NUM_FMA(-x, y, 1.0f), y);
}

/* 1/sqrt(x). Domain: normal x > 0; finite for 0 and subnormals. The last step takes x * y with its rounding
 * error. Error <= 0.51 ulp. */
static inline float num_rsqrt(float x) {
    float y = NUM_FLOAT(NUM_RSQRT_SEED - (NUM_BITS(x) >> 1));
    y = NUM_FMA(0.5f * y, NUM_FMA(-(x * y), y, 1.0f), y);
    y = NUM_FMA(0.5f * y, NUM_FMA(-(x * y), y, 1.0f), y);
    y = NUM_FMA(0.5f * y, NUM_FMA(-(x * y), y, 1.0f), y);
    float high = x * y;
    float low = NUM_FMA(x, y, -high);
    float rest = NUM_FMA(-low, y, NUM_FMA(-high, y, 1.0f));
    return NUM_FMA(0.5f * y, rest, y);
}

/* exp(x) for x on [-87, 88], error <= 0.95 ulp; some number for others, NaN for NaN. */
static inline float num_exp_within(float x) {
    float t = NUM_FMA(x, NUM_LOG2E, NUM_ROUND);
    float n = t - NUM_ROUND;
    float r = NUM_FMA(n, -NUM_LN2_LOW, NUM_FMA(n, -NUM_LN2_HIGH, x));
    float p = NUM_FMA(NUM_EXP_C6, r, NUM_EXP_C5);
    p = NUM_FMA(p, r, NUM_EXP_C4);
    p = NUM_FMA(p, r, NUM_EXP_C3);
    p = NUM_FMA(p, r, NUM_EXP_C2);
    p = NUM_FMA(p, r, 1.0f);
    p = NUM_FMA(p, r, 1.0f);
    return p * NUM_FLOAT((NUM_BITS(t) - NUM_ROUND_BITS + 127u) << 23);
}

/* exp(x), all x: +0 below -87, exp(88) above 88; NaN stays NaN, so that a broken value is seen at the end. */
static inline float num_exp(float x) {
    if (x < NUM_EXP_MIN)
        return 0.0f;
    return num_exp_within(x > NUM_EXP_MAX ? NUM_EXP_MAX : x);
}

/* 1 / (1 + exp(-x)), all x (+0 below -87). Error <= 3 ulp. */
static inline float num_sigmoid(float x) {
    float e = num_exp(-NUM_FABS(x));
    float r = num_rcp(1.0f + e);
    return x < 0.0f ? e * r : r;
}

/* x * sigmoid(x), all x (-0 below -87). Error <= 4 ulp. */
static inline float num_silu(float x) {
    return x * num_sigmoid(x);
}

/* log(1 + exp(x)), all x (+0 below -87), as max(x, 0) + log(1 + e) with e = exp(-|x|), and log(1 + e) = 2
 * atanh(e / (2 + e)) by its series. Error <= 4 ulp. */
static inline float num_softplus(float x) {
    float e = num_exp(-NUM_FABS(x));
    float s = e * num_rcp(2.0f + e);
    float t = s * s, twice = s + s;
    float p = NUM_FMA(NUM_ATANH_C15, t, NUM_ATANH_C13);
    p = NUM_FMA(p, t, NUM_ATANH_C11);
    p = NUM_FMA(p, t, NUM_ATANH_C9);
    p = NUM_FMA(p, t, NUM_ATANH_C7);
    p = NUM_FMA(p, t, NUM_ATANH_C5);
    p = NUM_FMA(p, t, NUM_ATANH_C3);
    p = p * t;
    float log = NUM_FMA(twice, p, twice);
    return x > 0.0f ? x + log : log;
}

/* 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), which is x * sigmoid(2 * that argument of tanh),
 * all x (-0 far below 0). The constants are 2 * sqrt(2 / pi), and that times 0.044715. */
#define NUM_GELU_1 0x1.988454p0f
#define NUM_GELU_3 0x1.2444f2p-4f
static inline float num_gelu(float x) {
    float square = x * x;
    float inner = NUM_FMA(square, NUM_GELU_3, NUM_GELU_1);
    return x * num_sigmoid(x * inner);
}

/* cap * tanh(x / cap) with inverse = 1 / cap rounded, all x: tanh as (1 - e) / (1 + e) of e = exp(-2 |x /
 * cap|), with the argument's sign. Error <= 3e-7 * cap. What is not finite stays so. */
static inline float num_softcap(float x, float cap, float inverse) {
    float t = x * inverse;
    float e = num_exp(-2.0f * NUM_FABS(t));
    float h = (1.0f - e) * num_rcp(1.0f + e);
    // cppcheck-suppress unknownEvaluationOrder ; unions of their own
    return NUM_FMA(cap, NUM_FLOAT(NUM_BITS(h) | (NUM_BITS(t) & 0x80000000u)), x - x);
}

/* The tree of sum128; the lanes are overwritten. */
static inline float num_sum128(float *lane) {
    for (int reach = 64; reach > 0; reach >>= 1)
        for (int j = 0; j < reach; j++)
            lane[j] += lane[j + reach];
    return lane[0];
}

#endif
