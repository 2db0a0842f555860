/* The definition of the stores into the KV cache. No state; any thread. */
#include "kernels/kernels.h"
#include "kernels/shared/kv_layout.h"
#include "kernels/shared/num.h"

#include "base/check.h"

#define GROUP KERNELS_KV_GROUP

static void store_k_f32(void *k, const float *x, uint32_t dim, uint32_t slot) {
    for (uint32_t d = 0; d < dim; d++)
        ((float *)k)[d * KERNELS_KV_BLOCK + slot] = x[d];
}

static void store_k_f16(void *k, const float *x, uint32_t dim, uint32_t slot) {
    for (uint32_t d = 0; d < dim; d++)
        ((uint16_t *)k)[d * KERNELS_KV_BLOCK + slot] = block_to_f16(x[d]);
}

static void store_v_f32(void *v, const float *x, uint32_t dim, uint32_t slot) {
    for (uint32_t d = 0; d < dim; d++)
        ((float *)v)[slot * dim + d] = x[d];
}

static void store_v_f16(void *v, const float *x, uint32_t dim, uint32_t slot) {
    for (uint32_t d = 0; d < dim; d++)
        ((uint16_t *)v)[slot * dim + d] = block_to_f16(x[d]);
}

/* x in low .. high; of a NaN, low. */
static float clamp(float x, float low, float high) {
    float above = x > low ? x : low;
    return above < high ? above : high;
}

/* A group with one scale. */
struct group {
    uint16_t half; /* the scale */
    float d;       /* the same */
    int q[GROUP];
};

static void quantise_with(struct group *s, const float *x, float d, float low, float high) {
    s->half = block_to_f16(clamp(d, -NUM_F16_MAX, NUM_F16_MAX));
    s->d = block_from_f16(s->half);
    if (s->d == 0.0f)
        s->half = 0; /* -0 too */
    float inverse = s->d == 0.0f ? 0.0f : num_rcp(s->d);
    for (int i = 0; i < GROUP; i++) {
        float v = clamp(x[i] * inverse, low, high) + NUM_ROUND;
        s->q[i] = (int)(NUM_BITS(v) - NUM_ROUND_BITS);
    }
}

static float error(const struct group *s, const float *x) {
    float lane[16];
    for (int j = 0; j < 16; j++) {
        float a = fmaf(-s->d, (float)s->q[j], x[j]), b = fmaf(-s->d, (float)s->q[j + 16], x[j + 16]);
        float square = a * a;
        lane[j] = fmaf(b, b, square);
    }
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* The group's bytes (32, or 16 of q4_0); returns its scale. */
static uint16_t quantise(enum kernels_kv type, const float *x, uint8_t *bytes) {
    float most = x[0], least = x[0];
    for (int i = 1; i < GROUP; i++) {
        most = x[i] > most ? x[i] : most;
        least = x[i] < least ? x[i] : least;
    }
    struct group s, other;
    if (type == KERNELS_KV_Q8_0) {
        float amax = most >= -least ? most : -least;
        quantise_with(&s, x, amax * NUM_QUANT_INVERSE, -127.0f, 127.0f);
        quantise_with(&other, x, amax * NUM_QUANT_SECOND, -127.0f, 127.0f);
    } else {
        float end = most >= -least ? most : least;
        quantise_with(&s, x, end * NUM_QUANT4_INVERSE, -8.0f, 7.0f);
        quantise_with(&other, x, end * NUM_QUANT4_SECOND, -8.0f, 7.0f);
    }
    if (error(&other, x) < error(&s, x))
        s = other;
    for (int i = 0; i < (type == KERNELS_KV_Q8_0 ? 32 : 16); i++)
        bytes[i] = (uint8_t)(type == KERNELS_KV_Q8_0 ? s.q[i] : (s.q[i] + 8) | (s.q[i + 16] + 8) << 4);
    return s.half;
}

static void store_k_quantised(enum kernels_kv type, uint8_t *k, const float *x, uint32_t dim, uint32_t slot) {
    CHECK(dim % GROUP == 0);
    for (uint32_t g = 0; g < dim / GROUP; g++) {
        uint8_t bytes[GROUP];
        *kv_layout_scale_at(k, type, dim, g, slot) = quantise(type, x + (size_t)g * GROUP, bytes);
        for (uint32_t i = 0; i < kv_layout_group(type); i++)
            k[kv_layout_k(type, g, i, slot)] = bytes[i];
    }
}

static void store_v_quantised(enum kernels_kv type, uint8_t *v, const float *x, uint32_t dim, uint32_t slot) {
    CHECK(dim % GROUP == 0);
    for (uint32_t g = 0; g < dim / GROUP; g++) {
        uint8_t bytes[GROUP];
        *kv_layout_scale_at(v, type, dim, g, slot) = quantise(type, x + (size_t)g * GROUP, bytes);
        for (uint32_t i = 0; i < kv_layout_group(type); i++)
            v[kv_layout_v(type, dim, g, i, slot)] = bytes[i];
    }
}

static void store_k_q8_0(void *k, const float *x, uint32_t dim, uint32_t slot) {
    store_k_quantised(KERNELS_KV_Q8_0, k, x, dim, slot);
}

static void store_k_q4_0(void *k, const float *x, uint32_t dim, uint32_t slot) {
    store_k_quantised(KERNELS_KV_Q4_0, k, x, dim, slot);
}

static void store_v_q8_0(void *v, const float *x, uint32_t dim, uint32_t slot) {
    store_v_quantised(KERNELS_KV_Q8_0, v, x, dim, slot);
}

static void store_v_q4_0(void *v, const float *x, uint32_t dim, uint32_t slot) {
    store_v_quantised(KERNELS_KV_Q4_0, v, x, dim, slot);
}

void scalar_kv_init(struct kernels *k) {
    k->store_k[KERNELS_KV_F32] = store_k_f32;
    k->store_k[KERNELS_KV_F16] = store_k_f16;
    k->store_k[KERNELS_KV_Q8_0] = store_k_q8_0;
    k->store_k[KERNELS_KV_Q4_0] = store_k_q4_0;
    k->store_v[KERNELS_KV_F32] = store_v_f32;
    k->store_v[KERNELS_KV_F16] = store_v_f16;
    k->store_v[KERNELS_KV_Q8_0] = store_v_q8_0;
    k->store_v[KERNELS_KV_Q4_0] = store_v_q4_0;
}
