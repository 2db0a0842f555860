/* MXFP4: 32 values of E2M1 and a scale that is a power of two; NVFP4: 16 and a scale of E4M3. The nearest
 * values for each of the few scales that can be best; the least error stays. */
#include "formats/encode_parts.h"

#include <math.h>

/* The code of the value (of block_mxfp4_values) nearest to v. */
static uint8_t nearest_code(float v) {
    static const float between[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    const float size = fabsf(v);
    uint8_t i = 0;
    for (uint32_t step = 4; step > 0; step /= 2)
        i = (uint8_t)(i + (size > between[i + step - 1] ? step : 0));
    return (uint8_t)(v < 0 && i > 0 ? i + 8 : i);
}

void encode_mxfp4(const float *x, const float *w, uint8_t *block) {
    float most = 0, best = INFINITY;
    for (uint32_t i = 0; i < 32; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    /* The largest value, 12 / 2 = 6, lies between 2^2 and 2^3: the exponent is that of the largest x, less 2.
     */
    int exponent = 0;
    (void)frexpf(most, &exponent); /* most = f * 2^exponent, 0.5 <= f < 1 */
    memset(block, 0, 17);
    for (int k = -1; k <= 1 && most > 0; k++) {
        const int e = exponent - 3 + 127 + k;
        if (e < 0 || e > 254)
            continue;
        const float d = block_from_e8m0_half((uint8_t)e);
        uint8_t q[32];
        float error = 0;
        for (uint32_t i = 0; i < 32; i++) {
            q[i] = nearest_code(x[i] / d);
            const float off = x[i] - d * (float)block_mxfp4_values[q[i]];
            error += w[i] * off * off;
        }
        if (error < best) {
            best = error;
            block[0] = (uint8_t)e;
            encode_put_nibbles(q, 16, block + 1);
        }
    }
}

/* The scales of one sub-block lie in a byte each; their values rise with it. */
static uint8_t first_scale(float at_least) {
    uint8_t v = 0;
    for (uint8_t step = 64; step > 0; step /= 2)
        if (v + step < 127 && block_from_e4m3_half((uint8_t)(v + step)) < at_least)
            v = (uint8_t)(v + step);
    return (uint8_t)(v + 1);
}

void encode_nvfp4(const float *values, const float *w, uint8_t *block) {
    memset(block, 0, 36);
    for (uint32_t s = 0; s < 4; s++, values += 16, w += 16) {
        float x[16], most = 0, best = INFINITY;
        for (uint32_t i = 0; i < 16; i++) {
            x[i] = encode_clamp(values[i], -1e9f, 1e9f); /* 2688 is the largest there is */
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        }
        /* From where most is clipped to where it gets the value 8 of at most 12. */
        uint8_t v = first_scale(most * (0.6f / 12));
        for (v = v < 126 ? v : 126; v < 127 && most > 0; v++) {
            const float d = block_from_e4m3_half(v);
            uint8_t q[16];
            float error = 0;
            for (uint32_t i = 0; i < 16 && error < best; i++) {
                q[i] = nearest_code(x[i] / d);
                const float off = x[i] - d * (float)block_mxfp4_values[q[i]];
                error += w[i] * off * off;
            }
            if (error < best) {
                best = error;
                block[s] = v;
                encode_put_nibbles(q, 8, block + 4 + 8 * s);
            }
            if (d * 12 > 1.6f * most)
                break;
        }
    }
}
