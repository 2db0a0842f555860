/* num_gelu_erf: like num.h, in a file of its own because only towers need it. */
#ifndef STATOR_KERNELS_SHARED_NUM_ERF_H
#define STATOR_KERNELS_SHARED_NUM_ERF_H

#include "kernels/shared/num.h"

/* log(erfc(z) * exp(z^2) / t / 2) as a polynomial in t = 1 / (1 + z / 2), fitted for z of 0 to 11 (largest
 * error 5e-8). */
#define NUM_ERFC_0    (-0x1.f56770p+0f)
#define NUM_ERFC_1    0x1.ff7228p-1f
#define NUM_ERFC_2    0x1.8978f4p-2f
#define NUM_ERFC_3    0x1.76d80ep-5f
#define NUM_ERFC_4    (-0x1.f891f8p-6f)
#define NUM_ERFC_5    (-0x1.5afc20p-6f)
#define NUM_ERFC_6    (-0x1.8860c8p-1f)
#define NUM_ERFC_7    0x1.35614p+0f
#define NUM_ERFC_8    (-0x1.67ae6ap-1f)
#define NUM_ERFC_9    0x1.30dc24p-3f
#define NUM_ROOT_HALF 0x1.6a09e6p-1f

/* x times the normal distribution function, 0.5 * x * (1 + erf(x / sqrt(2))), all x: x - x * h for x >= 0,
 * else x * h, with h = erfc(z) / 2 of z = |x| / sqrt(2). Error <= 4e-7 and <= 3e-6 * |x|. */
static inline float num_gelu_erf(float x) {
    float z = NUM_FABS(x) * NUM_ROOT_HALF;
    float t = num_rcp(NUM_FMA(0.5f, z, 1.0f));
    float p = NUM_FMA(NUM_ERFC_9, t, NUM_ERFC_8);
    p = NUM_FMA(p, t, NUM_ERFC_7);
    p = NUM_FMA(p, t, NUM_ERFC_6);
    p = NUM_FMA(p, t, NUM_ERFC_5);
    p = NUM_FMA(p, t, NUM_ERFC_4);
    p = NUM_FMA(p, t, NUM_ERFC_3);
    p = NUM_FMA(p, t, NUM_ERFC_2);
    p = NUM_FMA(p, t, NUM_ERFC_1);
    p = NUM_FMA(p, t, NUM_ERFC_0);
    float h = t * num_exp(NUM_FMA(-z, z, p));
    return x < 0.0f ? x * h : NUM_FMA(-x, h, x);
}

#endif
