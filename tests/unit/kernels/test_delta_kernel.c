/* Convolutions and gated delta rule: scalar against double, every other tier against scalar by bits, in
 * guarded buffers, over random sizes with tails; and a sequence in pieces is the sequence in one. */
#include "kernel_tiers.h"

#include <math.h>

#define ROUNDS 150

static float *floats(struct kernel_check_edge *b, size_t n, uint64_t *seed, float scale) {
    float *x = kernel_check_edge_alloc(b, n * sizeof *x);
    kernel_check_random_floats(seed, x, n, scale);
    return x;
}

/* All channels of `in`, whose first taps - 1 rows are those before the first token. */
struct convolution {
    uint32_t tokens, width, taps, first, channels;
    struct kernel_check_edge b_in, b_weights, b_bias;
    float *in, *weights, *bias;
    bool biased;
};

static struct convolution convolution_new(uint64_t *seed) {
    struct convolution c = {.taps = 1 + (uint32_t)testing_below(seed, testing_below(seed, 3) == 0 ? 16 : 5),
                            .tokens = 1 + (uint32_t)testing_below(seed, 9),
                            .width = 1 + (uint32_t)testing_below(seed, 200)};
    c.first = testing_below(seed, 2) ? 0 : (uint32_t)testing_below(seed, c.width);
    c.channels = 1 + (uint32_t)testing_below(seed, c.width - c.first);
    c.in = floats(&c.b_in, (size_t)(c.tokens + c.taps - 1) * c.width, seed, 2.0f);
    c.weights = floats(&c.b_weights, (size_t)(c.width + 15) / 16 * 16 * c.taps, seed, 1.0f);
    c.bias = floats(&c.b_bias, c.channels, seed, 1.0f);
    c.biased = testing_below(seed, 2);
    return c;
}

static struct kernels_conv call_of(const struct convolution *c, float *out, uint32_t from, uint32_t tokens) {
    const float *before = c->in + (size_t)from * c->width + c->first;
    return (struct kernels_conv){.out = out + (size_t)from * c->channels,
                                 .out_stride = c->channels,
                                 .in = before + (size_t)(c->taps - 1) * c->width,
                                 .in_stride = c->width,
                                 .before = before,
                                 .before_stride = c->width,
                                 .weights = c->weights,
                                 .panel = (size_t)16 * c->taps,
                                 .first = c->first,
                                 .channels = c->channels,
                                 .tokens = tokens,
                                 .taps = c->taps,
                                 .bias = c->biased ? c->bias : NULL};
}

static void conv(void **state) {
    (void)state;
    uint64_t seed = testing_seed("conv");
    for (int round = 0; round < ROUNDS; round++) {
        struct convolution c = convolution_new(&seed);
        struct kernel_check_edge by, bz;
        const size_t n = (size_t)c.tokens * c.channels;
        float *y = kernel_check_edge_alloc(&by, n * sizeof *y);
        float *z = kernel_check_edge_alloc(&bz, n * sizeof *z);
        struct kernels_conv call = call_of(&c, y, 0, c.tokens);
        tiers[0].conv(&call);
        for (size_t i = 0; i < n; i++) {
            size_t channel = c.first + i % c.channels;
            double sum = 0, size = 0;
            for (uint32_t j = 0; j < c.taps; j++) {
                double w = (double)c.weights[channel / 16 * 16 * c.taps + 16 * j + channel % 16];
                double x = (double)c.in[(i / c.channels + j) * c.width + channel];
                sum += w * x;
                size += fabs(w * x);
            }
            const double bias = c.biased ? (double)c.bias[i % c.channels] : 0;
            sum += bias;
            assert_true(fabs((double)y[i] - sum / (1.0 + exp(-sum))) <= 1e-6 * (size + fabs(bias) + 1e-6));
        }
        for (int t = 0; t < n_tiers; t++) { /* in two pieces */
            uint32_t cut = (uint32_t)testing_below(&seed, c.tokens);
            memset(z, 0xA9, n * sizeof *z);
            for (uint32_t from = 0, to = cut; from < c.tokens; from = to, to = c.tokens) {
                call = call_of(&c, z, from, to - from);
                tiers[t].conv(&call);
            }
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        kernel_check_edge_free(&by), kernel_check_edge_free(&bz), kernel_check_edge_free(&c.b_in),
            kernel_check_edge_free(&c.b_weights), kernel_check_edge_free(&c.b_bias);
    }
}

/* Rows of b, c, x of all channels; those of the taps - 1 tokens before the first lie before it. */
static struct kernels_gated_conv gated_call(const struct convolution *c, const float *before, float *out,
                                            uint32_t from, uint32_t tokens) {
    return (struct kernels_gated_conv){.out = out + (size_t)from * c->channels,
                                       .out_stride = c->channels,
                                       .in = c->in + (size_t)(from + c->taps - 1) * 3 * c->width + c->first,
                                       .in_stride = (size_t)3 * c->width,
                                       .width = c->width,
                                       .before = from == 0 ? before : NULL,
                                       .before_stride = c->channels,
                                       .weights = c->weights,
                                       .panel = (size_t)16 * c->taps,
                                       .first = c->first,
                                       .channels = c->channels,
                                       .tokens = tokens,
                                       .taps = c->taps};
}

static double gated_product(const struct convolution *c, size_t row, size_t channel) {
    const float *at = c->in + row * 3 * c->width + channel;
    return (double)at[0] * (double)at[(size_t)2 * c->width];
}

/* What is kept of the tokens before gives what their rows give. */
static void gated_conv(void **state) {
    (void)state;
    uint64_t seed = testing_seed("gated_conv");
    for (int round = 0; round < ROUNDS; round++) {
        struct convolution c = convolution_new(&seed);
        struct kernel_check_edge by, bz, bk, b_in;
        const size_t n = (size_t)c.tokens * c.channels;
        c.in = floats(&b_in, (size_t)3 * (c.tokens + c.taps - 1) * c.width, &seed, 2.0f);
        float *y = kernel_check_edge_alloc(&by, n * sizeof *y);
        float *z = kernel_check_edge_alloc(&bz, n * sizeof *z);
        float *kept = floats(&bk, (size_t)c.taps * c.channels, &seed, 1.0f);
        for (size_t i = 0; i < (size_t)(c.taps - 1) * c.channels; i++)
            kept[i] = (float)gated_product(&c, i / c.channels, c.first + i % c.channels);
        struct kernels_gated_conv call = gated_call(&c, kept, y, 0, c.tokens);
        tiers[0].gated_conv(&call);
        for (size_t i = 0; i < n; i++) {
            const size_t t = i / c.channels, channel = c.first + i % c.channels;
            const double gate = (double)c.in[((t + c.taps - 1) * 3 + 1) * c.width + channel];
            double sum = 0, size = 0;
            for (uint32_t j = 0; j < c.taps; j++) {
                const float w = c.weights[channel / 16 * 16 * c.taps + 16 * j + channel % 16];
                const double p = gated_product(&c, t + j, channel);
                sum += (double)w * p;
                size += fabs((double)w * p);
            }
            assert_true(fabs((double)y[i] - gate * sum) <= 1e-6 * (fabs(gate) * size + 1e-6));
        }
        for (int t = 0; t < n_tiers; t++) { /* in two pieces */
            uint32_t cut = (uint32_t)testing_below(&seed, c.tokens);
            memset(z, 0xA9, n * sizeof *z);
            for (uint32_t from = 0, to = cut; from < c.tokens; from = to, to = c.tokens) {
                call = gated_call(&c, kept, z, from, to - from);
                tiers[t].gated_conv(&call);
            }
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        kernel_check_edge_free(&by), kernel_check_edge_free(&bz), kernel_check_edge_free(&bk),
            kernel_check_edge_free(&b_in), kernel_check_edge_free(&c.b_in),
            kernel_check_edge_free(&c.b_weights), kernel_check_edge_free(&c.b_bias);
    }
}

struct sequence {
    uint32_t tokens, dim, columns;
    struct kernel_check_edge b_rows;
    float *rows; /* of a token: q, k, v, beta, alpha */
    size_t stride;
    float bias, a, scale, skip;
    bool ssd; /* the state space of Mamba-2 */
};

static struct kernels_delta delta_of(const struct sequence *s, float *state, float *out, uint32_t from,
                                     uint32_t tokens) {
    const float *row = s->rows + from * s->stride;
    return (struct kernels_delta){.state = state,
                                  .q = row,
                                  .k = row + s->dim,
                                  .v = row + (size_t)2 * s->dim,
                                  .beta = row + (size_t)2 * s->dim + s->columns,
                                  .alpha = row + (size_t)2 * s->dim + s->columns + 1,
                                  .stride = s->stride,
                                  .out = out + (size_t)from * s->columns,
                                  .out_stride = s->columns,
                                  .tokens = tokens,
                                  .dim_k = s->dim,
                                  .columns = s->columns,
                                  .bias = s->bias,
                                  .a = s->a,
                                  .scale = s->scale,
                                  .skip = s->skip};
}

static void run(int tier, const struct sequence *s, const struct kernels_delta *call) {
    if (s->ssd)
        tiers[tier].ssd(call);
    else
        tiers[tier].delta(call);
}

/* Of the formulas as papers have them. */
static void check_delta(const struct sequence *s, const float *before, const float *after, const float *out) {
    double state[KERNELS_MAX_STATE];
    const double limit = s->ssd ? 2e-3 : 1e-4; /* dt may be 150 */
    for (uint32_t j = 0; j < s->columns; j++) {
        for (uint32_t i = 0; i < s->dim; i++)
            state[i] = (double)before[i * KERNELS_COLUMNS + j];
        for (uint32_t t = 0; t < s->tokens; t++) {
            const float *q = s->rows + t * s->stride, *k = q + s->dim, *v = k + s->dim;
            double beta = 1.0 / (1.0 + exp(-(double)v[s->columns]));
            double dt = log1p(exp((double)v[s->columns + 1] + (double)s->bias)),
                   decay = exp(dt * (double)s->a);
            double found = 0, sum = 0;
            for (uint32_t i = 0; i < s->dim; i++) {
                state[i] *= decay;
                found += state[i] * (double)k[i];
            }
            for (uint32_t i = 0; i < s->dim; i++) {
                state[i] +=
                    s->ssd ? (double)k[i] * (double)v[j] * dt : (double)k[i] * ((double)v[j] - found) * beta;
                sum += state[i] * (double)q[i];
            }
            sum = s->ssd ? sum + (double)s->skip * (double)v[j] : sum * (double)s->scale;
            assert_true(fabs((double)out[t * s->columns + j] - sum) <= limit);
        }
        for (uint32_t i = 0; i < s->dim; i++)
            assert_true(fabs((double)after[i * KERNELS_COLUMNS + j] - state[i]) <= limit);
    }
}

static void check_rule(const char *name, bool ssd) {
    uint64_t seed = testing_seed(name);
    for (int round = 0; round < ROUNDS; round++) {
        struct sequence s = {
            .tokens = 1 + (uint32_t)testing_below(&seed, 9),
            .dim = round % 3 == 0 ? 128 : 1 + (uint32_t)testing_below(&seed, KERNELS_MAX_STATE),
            .columns = round % 2 == 0 ? KERNELS_COLUMNS : 1 + (uint32_t)testing_below(&seed, KERNELS_COLUMNS),
            .bias = testing_uniform(&seed),
            .a = -4.0f * fabsf(testing_uniform(&seed)),
            .scale = 0.25f,
            .skip = ssd ? testing_uniform(&seed) : 0,
            .ssd = ssd};
        s.stride = (size_t)2 * s.dim + s.columns + 2;
        s.rows = floats(&s.b_rows, s.tokens * s.stride, &seed, 1.0f);
        for (uint32_t t = 0; t < s.tokens; t++) /* as long as normed ones */
            for (uint32_t i = 0; i < 2 * s.dim; i++)
                s.rows[t * s.stride + i] *= 1.7f / sqrtf((float)s.dim);
        for (uint32_t t = 0; t < s.tokens; t++) { /* some write nothing, some forget all */
            float *gates = s.rows + t * s.stride + (size_t)2 * s.dim + s.columns;
            if (testing_below(&seed, 4) == 0)
                gates[testing_below(&seed, 2)] = testing_below(&seed, 2) ? 150.0f : -60.0f;
        }
        const size_t n = (size_t)s.dim * KERNELS_COLUMNS, n_out = (size_t)s.tokens * s.columns;
        struct kernel_check_buffer before = kernel_check_alloc(n * sizeof(float));
        struct kernel_check_buffer expected = kernel_check_alloc(n * sizeof(float));
        struct kernel_check_buffer got = kernel_check_alloc(n * sizeof(float));
        struct kernel_check_edge by, bz;
        float *y = kernel_check_edge_alloc(&by, n_out * sizeof *y);
        float *z = kernel_check_edge_alloc(&bz, n_out * sizeof *z);
        kernel_check_random_floats(&seed, (float *)(void *)before.data, n, 1.0f);
        memcpy(expected.data, before.data, before.bytes);
        struct kernels_delta call = delta_of(&s, (float *)(void *)expected.data, y, 0, s.tokens);
        run(0, &s, &call);
        for (size_t i = 0; i < n; i++) /* no subnormals */
            assert_true(((float *)(void *)expected.data)[i] == 0.0f ||
                        fabsf(((float *)(void *)expected.data)[i]) >= 0x1p-126f);
        check_delta(&s, (float *)(void *)before.data, (float *)(void *)expected.data, y);
        for (int t = 0; t < n_tiers; t++) {
            uint32_t cut = (uint32_t)testing_below(&seed, s.tokens);
            memcpy(got.data, before.data, before.bytes);
            for (uint32_t from = 0, to = cut; from < s.tokens; from = to, to = s.tokens) {
                call = delta_of(&s, (float *)(void *)got.data, z, from, to - from);
                if (to > from)
                    run(t, &s, &call);
            }
            kernel_check_same_floats(z, y, n_out, tiers[t].tier);
            kernel_check_same_floats((float *)(void *)got.data, (float *)(void *)expected.data, n,
                                     tiers[t].tier);
        }
        kernel_check_free(&before), kernel_check_free(&expected), kernel_check_free(&got);
        kernel_check_edge_free(&by), kernel_check_edge_free(&bz), kernel_check_edge_free(&s.b_rows);
    }
}

static void delta(void **state) {
    (void)state;
    check_rule("delta", false);
}

static void ssd(void **state) {
    (void)state;
    check_rule("ssd", true);
}

static void sigmoid_mul(void **state) {
    (void)state;
    uint64_t seed = testing_seed("sigmoid_mul");
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = 1 + (uint32_t)testing_below(&seed, 300);
        struct kernel_check_edge ba, bb, by, bz;
        float *a = floats(&ba, n, &seed, round % 3 == 0 ? 100.0f : 4.0f), *b = floats(&bb, n, &seed, 2.0f);
        float *y = kernel_check_edge_alloc(&by, n * sizeof *y);
        float *z = kernel_check_edge_alloc(&bz, n * sizeof *z);
        tiers[0].sigmoid_mul(y, a, b, n);
        for (uint32_t i = 0; i < n; i++) {
            double want = (double)b[i] / (1.0 + exp(-(double)a[i]));
            assert_true(fabs((double)y[i] - want) <= 5e-7 * fabs(want) + 1e-35);
        }
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, b, n * sizeof *z);
            tiers[t].sigmoid_mul(z, a, z, n);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        kernel_check_edge_free(&ba), kernel_check_edge_free(&bb), kernel_check_edge_free(&by),
            kernel_check_edge_free(&bz);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(conv), cmocka_unit_test(gated_conv),
                                       cmocka_unit_test(delta), cmocka_unit_test(ssd),
                                       cmocka_unit_test(sigmoid_mul)};
    return cmocka_run_group_tests(tests, fill_tiers, NULL);
}
