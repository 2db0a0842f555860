/* The definition of every operation but matmul and attention: plain loops, written to be read. No state; any
 * thread. */
#include "kernels/kernels.h"
#include "kernels/shared/num_erf.h"

#include "base/check.h"

#include <string.h>

static float dot(const float *a, const float *b, uint32_t n) {
    float lane[128] = {0};
    for (uint32_t i = 0; i < n; i++)
        lane[i % 128] = fmaf(a[i], b[i], lane[i % 128]);
    return num_sum128(lane);
}

static void rms_norm(float *y, const float *x, const float *w, uint32_t n, float inv_n, float eps) {
    float mean = dot(x, x, n) * inv_n;
    float r = num_rsqrt(mean + eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

static void center(float *x, uint32_t n, float inv_n) {
    float lane[128] = {0};
    for (uint32_t i = 0; i < n; i++)
        lane[i % 128] += x[i];
    const float mean = num_sum128(lane) * inv_n;
    for (uint32_t i = 0; i < n; i++)
        x[i] = x[i] - mean;
}

static int rounded(float x, float inverse) {
    float r = x * inverse + NUM_ROUND;
    int v = (int)(NUM_BITS(r) & 0x7fffffffu) - (int)NUM_ROUND_BITS;
    return v > 127 ? 127 : v < -127 ? -127 : v;
}

/* q of n values with scale d; the sums are of each `part` of them. */
static void quantise_with(float d, const float *x, uint32_t n, uint32_t part, int8_t *q, int16_t *s) {
    float inverse = d == 0.0f ? 0.0f : num_rcp(d);
    for (uint32_t p = 0; p < n / part; p++) {
        int sum = 0;
        for (uint32_t i = p * part; i < (p + 1) * part; i++) {
            int v = rounded(x[i], inverse);
            q[i] = (int8_t)v;
            sum += v;
        }
        s[p] = (int16_t)sum;
    }
}

/* The largest |x| as bits: infinities and NaNs are above all numbers and make d what they are. */
static float largest(const float *x, uint32_t n) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = NUM_BITS(x[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return NUM_FLOAT(most);
}

/* Squared error of 32 values. */
static float error32(float d, const float *x, const int8_t *q) {
    float lane[16];
    for (int j = 0; j < 16; j++) {
        float low = fmaf(-d, (float)q[j], x[j]), high = fmaf(-d, (float)q[j + 16], x[j + 16]);
        float square = low * low;
        lane[j] = fmaf(high, high, square);
    }
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static void quantise32(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 32 == 0);
    for (uint32_t g = 0; g < n / 32; g++, x += 32, q += 32) {
        float amax = largest(x, 32);
        d[g] = amax < NUM_QUANT_MIN ? 0.0f : amax * NUM_QUANT_INVERSE;
        quantise_with(d[g], x, 32, 32, q, s + g);
        int8_t other_q[32];
        int16_t other_s;
        float other = amax < NUM_QUANT_MIN ? 0.0f : amax * NUM_QUANT_SECOND;
        quantise_with(other, x, 32, 32, other_q, &other_s);
        if (error32(other, x, other_q) < error32(d[g], x, q)) {
            memcpy(q, other_q, 32);
            d[g] = other;
            s[g] = other_s;
        }
    }
}

static void quantise256(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 256 == 0);
    for (uint32_t g = 0; g < n / 256; g++, x += 256, q += 256, s += 16) {
        float amax = largest(x, 256);
        d[g] = amax < NUM_QUANT_MIN ? 0.0f : amax * NUM_QUANT_INVERSE;
        quantise_with(d[g], x, 256, 16, q, s);
    }
}

static void gelu_mul(float *y, const float *gate, const float *up, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = num_gelu(gate[i]) * up[i];
}

static void gelu_erf(float *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = num_gelu_erf(x[i]);
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = num_silu(gate[i]) * up[i];
}

static void sigmoid_mul(float *y, const float *gate, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = num_sigmoid(gate[i]) * x[i];
}

static void relu2(float *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const float above = x[i] > 0.0f ? x[i] : 0.0f;
        y[i] = above * above;
    }
}

static void softcap(float *y, const float *x, uint32_t n, float cap, float inverse) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = num_softcap(x[i], cap, inverse);
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

static void what_is_left(float *y, const float *x, const int8_t *q, const float *d, uint32_t n,
                         uint32_t group) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = fmaf(-d[i / group], (float)q[i], x[i]);
}

void scalar_init(struct kernels *k) {
    k->tier = "scalar";
    k->rms_norm = rms_norm;
    k->dot = dot;
    k->center = center;
    k->quantise32 = quantise32;
    k->quantise256 = quantise256;
    k->remainder = what_is_left;
    k->silu_mul = silu_mul;
    k->sigmoid_mul = sigmoid_mul;
    k->gelu_mul = gelu_mul;
    k->relu2 = relu2;
    k->gelu_erf = gelu_erf;
    k->softcap = softcap;
    k->add = add;
    k->rope = rope;
    k->argmax = argmax;
    scalar_attention_init(k);
    scalar_delta_init(k);
    scalar_index_init(k);
    scalar_experts_init(k);
}
