/* The definition of the convolutions, and of the delta rule. No state; any thread. */
#include "kernels/cpu/delta_walk.h"

#include "base/check.h"

static void conv(const struct kernels_conv *c) {
    CHECK(c->taps > 0 && c->taps <= KERNELS_MAX_TAPS);
    for (uint32_t t = 0; t < c->tokens; t++)
        for (uint32_t i = 0; i < c->channels; i++)
            c->out[t * c->out_stride + i] = delta_walk_conv(c, t, i);
}

static void gated_conv(const struct kernels_gated_conv *c) {
    CHECK(c->taps > 0 && c->taps <= KERNELS_MAX_TAPS);
    for (uint32_t t = 0; t < c->tokens; t++)
        for (uint32_t i = 0; i < c->channels; i++)
            c->out[t * c->out_stride + i] = delta_walk_gated_conv(c, t, i);
}

static float sum4(const float lane[4]) {
    float even = lane[0] + lane[2], odd = lane[1] + lane[3];
    return even + odd;
}

static float column(const struct kernels_delta *d, const struct delta_token *token, float *s, float v) {
    float lane[4] = {0};
    for (uint32_t i = 0; i < d->dim_k; i++)
        lane[i % 4] = fmaf(s[(size_t)i * KERNELS_COLUMNS], token->k[i], lane[i % 4]);
    float e = fmaf(-token->decay, sum4(lane), v) * token->beta;
    float out[4] = {0};
    for (uint32_t i = 0; i < d->dim_k; i++) {
        float *at = &s[(size_t)i * KERNELS_COLUMNS];
        float kept = *at * token->decay;
        *at = fmaf(token->k[i], e, kept);
        out[i % 4] = fmaf(*at, token->q[i], out[i % 4]);
    }
    return sum4(out) * d->scale;
}

static void delta(const struct kernels_delta *d) {
    CHECK(d->dim_k > 0 && d->dim_k <= KERNELS_MAX_STATE && d->columns > 0 && d->columns <= KERNELS_COLUMNS);
    for (uint32_t t = 0; t < d->tokens; t++) {
        const struct delta_token token = delta_walk_token(d, t);
        for (uint32_t j = 0; j < KERNELS_COLUMNS; j++) {
            float v = j < d->columns ? d->v[t * d->stride + j] : 0.0f;
            float o = column(d, &token, d->state + j, v);
            if (j < d->columns)
                d->out[t * d->out_stride + j] = o;
        }
    }
}

static void ssd(const struct kernels_delta *d) {
    CHECK(d->dim_k > 0 && d->dim_k <= KERNELS_MAX_STATE && d->columns > 0 && d->columns <= KERNELS_COLUMNS);
    for (uint32_t t = 0; t < d->tokens; t++) {
        const struct delta_token token = delta_walk_ssd_token(d, t);
        for (uint32_t j = 0; j < KERNELS_COLUMNS; j++) {
            const float v = j < d->columns ? d->v[t * d->stride + j] : 0.0f, e = v * token.beta;
            float out[4] = {0};
            for (uint32_t i = 0; i < d->dim_k; i++) {
                float *at = &d->state[(size_t)i * KERNELS_COLUMNS + j];
                const float kept = *at * token.decay;
                *at = fmaf(token.k[i], e, kept);
                out[i % 4] = fmaf(*at, token.q[i], out[i % 4]);
            }
            if (j < d->columns)
                d->out[t * d->out_stride + j] = fmaf(d->skip, v, sum4(out));
        }
    }
}

void scalar_delta_init(struct kernels *k) {
    k->conv = conv;
    k->gated_conv = gated_conv;
    k->delta = delta;
    k->ssd = ssd;
}
