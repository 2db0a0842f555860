/* The definition of every operation but matmul and attention: plain loops, written to be read. No state; any
 * thread. */
#include "kernels/kernels.h"
#include "kernels/num.h"

#include "base/check.h"

static void rms_norm(float *y, const float *x, const float *w, uint32_t n, float inv_n, float eps) {
    float lane[128] = {0};
    for (uint32_t i = 0; i < n; i++)
        lane[i % 128] = fmaf(x[i], x[i], lane[i % 128]);
    float mean = num_sum128(lane) * inv_n;
    float r = num_rsqrt(mean + eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

/* One group; the sums are of each `part` values. */
static void quantise_group(const float *x, uint32_t n, uint32_t part, int8_t *q, float *d, int16_t *s) {
    float amax = 0.0f;
    for (uint32_t i = 0; i < n; i++)
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    bool zero = amax < NUM_QUANT_MIN;
    *d = zero ? 0.0f : amax * NUM_QUANT_INVERSE;
    float inverse = zero ? 0.0f : num_rcp(*d);
    for (uint32_t p = 0; p < n / part; p++) {
        int sum = 0;
        for (uint32_t i = p * part; i < (p + 1) * part; i++) {
            float rounded = x[i] * inverse + NUM_ROUND;
            int v = (int)(NUM_BITS(rounded) & 0x7fffffffu) - (int)NUM_ROUND_BITS;
            v = v > 127 ? 127 : v < -127 ? -127 : v;
            q[i] = (int8_t)v;
            sum += v;
        }
        s[p] = (int16_t)sum;
    }
}

static void quantise32(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 32 == 0);
    for (uint32_t g = 0; g < n / 32; g++)
        quantise_group(x + 32 * g, 32, 32, q + 32 * g, d + g, s + g);
}

static void quantise256(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 256 == 0);
    for (uint32_t g = 0; g < n / 256; g++)
        quantise_group(x + 256 * g, 256, 16, q + 256 * g, d + g, s + 16 * g);
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = num_silu(gate[i]) * up[i];
}

static void add(float *y, const float *a, const float *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void rope(float *x, const float *cos_sin, uint32_t n_pairs, bool neox) {
    for (uint32_t j = 0; j < n_pairs; j++) {
        float *first = neox ? x + j : x + 2 * (size_t)j;
        float *second = neox ? first + n_pairs : first + 1;
        float a = *first, b = *second, c = cos_sin[2 * (size_t)j], s = cos_sin[2 * (size_t)j + 1];
        float bs = b * s, bc = b * c;
        *first = fmaf(a, c, -bs);
        *second = fmaf(a, s, bc);
    }
}

static uint32_t argmax(const float *x, uint32_t n, bool *finite) {
    uint32_t best = 0;
    *finite = true;
    for (uint32_t i = 0; i < n; i++) {
        if ((NUM_BITS(x[i]) & 0x7f800000) == 0x7f800000)
            *finite = false;
        if (x[i] > x[best])
            best = i;
    }
    return best;
}

static void what_is_left(float *y, const float *x, const int8_t *q, const float *d, uint32_t n, uint32_t group) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = fmaf(-d[i / group], (float)q[i], x[i]);
}

void scalar_init(struct kernels *k) {
    k->tier = "scalar";
    k->rms_norm = rms_norm;
    k->quantise32 = quantise32;
    k->quantise256 = quantise256;
    k->remainder = what_is_left;
    k->silu_mul = silu_mul;
    k->add = add;
    k->rope = rope;
    k->argmax = argmax;
    scalar_attention_init(k);
}
