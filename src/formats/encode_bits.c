/* Q1_0, Q2_0: d times 1 or -1, or times -1, 0, 1 or 2. */
#include "formats/encode_parts.h"

#include <math.h>

/* Of Q1_0 the least error has d = the mean of the sizes. */
static void q1_0(const float *x, const float *w, uint8_t *block) {
    double all = 0, sizes = 0;
    for (uint32_t i = 0; i < 128; i++) {
        all += (double)w[i];
        sizes += (double)w[i] * (double)fabsf(x[i]);
        block[2 + i / 8] |= (uint8_t)((x[i] >= 0) << i % 8);
    }
    encode_put_f16(block, (float)(sizes / all));
}

/* The nearest codes for d, less 1; their sums of w x v and w v v. */
static double codes_of(const float *x, const float *w, float d, int8_t *v, double *vv) {
    double xv = 0;
    *vv = 0;
    for (uint32_t i = 0; i < 64; i++) {
        v[i] = (int8_t)encode_nearest(encode_clamp(x[i] / d, -1, 2));
        xv += (double)w[i] * (double)x[i] * v[i];
        *vv += (double)w[i] * v[i] * v[i];
    }
    return xv;
}

/* From several d of either sign: the codes of d, and the d of least error for them. What had the least error
 * in the end, counted with d as it is stored, stays. */
static void q2_0(const float *x, const float *w, uint8_t *block) {
    float far = 0;
    double best = 0;
    for (uint32_t i = 0; i < 64; i++)
        far = fabsf(x[i]) > far ? fabsf(x[i]) : far;
    memset(block + 2, 0x55, 16); /* zeros */
    for (int k = 0; k < 16 && far > 0; k++) {
        /* far is 1 to 2 times d, or more where what is far counts little. */
        float d = (k % 2 == 0 ? far : -far) * (k < 2 ? 1 : 1.1f - 0.1f * (float)(k / 2));
        int8_t v[64];
        double vv = 0, xv = codes_of(x, w, d, v, &vv);
        d = encode_as_f16(vv > 0 ? (float)(xv / vv) : d);
        if (!(fabsf(d) > 0))
            continue;
        xv = codes_of(x, w, d, v, &vv);
        const double gain =
            (double)d * (2 * xv - (double)d * vv); /* what the error lacks of the sum of w x x */
        if (!(gain > best))
            continue;
        best = gain;
        encode_put_f16(block, d);
        memset(block + 2, 0, 16);
        for (uint32_t i = 0; i < 64; i++)
            block[2 + i / 4] |= (uint8_t)((v[i] + 1) << 2 * (i % 4));
    }
}

void encode_bits(uint32_t type, const float *x, const float *w, uint8_t *block) {
    memset(block, 0, 18);
    if (type == BLOCK_Q1_0)
        q1_0(x, w, block);
    else
        q2_0(x, w, block);
}
