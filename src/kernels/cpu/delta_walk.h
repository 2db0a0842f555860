/* What the tiers of convolution and delta rule share (kernels.h). */
#ifndef STATOR_KERNELS_CPU_DELTA_WALK_H
#define STATOR_KERNELS_CPU_DELTA_WALK_H

#include "kernels/kernels.h"
#include "kernels/shared/num.h"

/* The input of a channel, or the channels from it on, that tap j sees for token t. */
static inline const float *delta_walk_tap(const struct kernels_conv *c, uint32_t t, uint32_t j,
                                          uint32_t channel) {
    size_t at = (size_t)t + j; /* of the tokens from taps - 1 before the first on */
    return at + 1 < c->taps ? c->before + at * c->before_stride + channel
                            : c->in + (at + 1 - c->taps) * c->in_stride + channel;
}

/* Weights of tap 0; tap j is 16 * j further. Channels up to the next multiple of 16 lie side by side. */
static inline const float *delta_walk_weights(const float *weights, size_t panel, uint32_t channel) {
    return weights + channel / 16 * panel + channel % 16;
}

static inline float delta_walk_conv(const struct kernels_conv *c, uint32_t t, uint32_t channel) {
    const float *w = delta_walk_weights(c->weights, c->panel, c->first + channel);
    float sum = 0.0f;
    for (uint32_t j = 0; j < c->taps; j++)
        sum = fmaf(w[(size_t)16 * j], *delta_walk_tap(c, t, j, channel), sum);
    return num_silu(c->bias != NULL ? sum + c->bias[channel] : sum);
}

/* Likewise of a gated convolution: a product that is kept, or NULL; else *row is where its b is, and its x
 * 2 * width further. */
static inline const float *delta_walk_kept(const struct kernels_gated_conv *c, uint32_t t, uint32_t j,
                                           uint32_t channel, const float **row) {
    const size_t at = (size_t)t + j;
    if (at + 1 < c->taps && c->before != NULL)
        return c->before + at * c->before_stride + channel;
    *row = c->in + at * c->in_stride + channel - (size_t)(c->taps - 1) * c->in_stride;
    return NULL;
}

static inline float delta_walk_gated_conv(const struct kernels_gated_conv *c, uint32_t t, uint32_t channel) {
    const float *w = delta_walk_weights(c->weights, c->panel, c->first + channel), *row = NULL;
    float sum = 0.0f;
    for (uint32_t j = 0; j < c->taps; j++) {
        const float *kept = delta_walk_kept(c, t, j, channel, &row);
        const float p = kept != NULL ? *kept : row[0] * row[2 * c->width];
        sum = fmaf(w[(size_t)16 * j], p, sum);
    }
    return c->in[t * c->in_stride + c->width + channel] * sum;
}

/* The numbers of a token that all columns share. */
struct delta_token {
    const float *q, *k;
    float decay, beta;
};

static inline struct delta_token delta_walk_token(const struct kernels_delta *d, uint32_t t) {
    const size_t at = t * d->stride;
    return (struct delta_token){.q = d->q + at,
                                .k = d->k + at,
                                .decay = delta_factor(num_exp(num_softplus(d->alpha[at] + d->bias) * d->a)),
                                .beta = delta_factor(num_sigmoid(d->beta[at]))};
}

/* Likewise of ssd: beta is dt. */
static inline struct delta_token delta_walk_ssd_token(const struct kernels_delta *d, uint32_t t) {
    const size_t at = t * d->stride;
    const float dt = delta_factor(num_softplus(d->alpha[at] + d->bias));
    return (struct delta_token){
        .q = d->q + at, .k = d->k + at, .decay = delta_factor(num_exp(dt * d->a)), .beta = dt};
}

#endif
