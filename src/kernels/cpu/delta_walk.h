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
static inline const float *delta_walk_weights(const struct kernels_conv *c, uint32_t channel) {
    const uint32_t at = c->first + channel;
    return c->weights + at / 16 * c->panel + at % 16;
}

static inline float delta_walk_conv(const struct kernels_conv *c, uint32_t t, uint32_t channel) {
    const float *w = delta_walk_weights(c, channel);
    float sum = 0.0f;
    for (uint32_t j = 0; j < c->taps; j++)
        sum = fmaf(w[(size_t)16 * j], *delta_walk_tap(c, t, j, channel), sum);
    return num_silu(sum);
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

#endif
