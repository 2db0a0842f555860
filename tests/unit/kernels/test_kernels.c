/* The small kernels (all but matmul and attention): scalar against double and against hand-made cases, every
 * other tier against scalar by bits, in guarded buffers, over random lengths with tails. */
#include "kernel_tiers.h"
#include "kernels/shared/num.h"

#include <float.h>

#define ROUNDS 120

/* Mostly of ordinary size, sometimes special. */
static float value(uint64_t *seed, float scale) {
    static const float special[] = {
        0.0f,   -0.0f,  0x1p-149f, -0x1.8p-130f, 0x1p-126f, 0x1p-100f, -0x1.fffffep-101f, 1.0f,
        -87.0f, -87.5f, 88.5f,     0x1p60f,      -0x1p62f,  127.0f,    -0x1p-60f};
    if (testing_below(seed, 24) == 0)
        return special[testing_below(seed, sizeof special / sizeof special[0])];
    return testing_uniform(seed) * scale;
}

static float *values(struct kernel_check_edge *b, size_t n, uint64_t *seed, float scale) {
    float *x = kernel_check_edge_alloc(b, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = value(seed, scale);
    return x;
}

static uint32_t length(uint64_t *seed) {
    return 1 + (uint32_t)testing_below(seed, testing_below(seed, 2) == 0 ? 40 : 700);
}

static void names(void **state) {
    (void)state;
    for (int t = 0; t < n_tiers; t++)
        assert_string_equal(tiers[t].tier, kernels_tier_name((enum kernels_tier)t));
}

static void rms_norm(void **state) {
    (void)state;
    uint64_t seed = testing_seed("rms_norm");
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = length(&seed);
        struct kernel_check_edge bx, bw, by, bz;
        float *x = values(&bx, n, &seed, 3.0f), *w = values(&bw, n, &seed, 2.0f);
        float *y = kernel_check_edge_alloc(&by, n * sizeof *y),
              *z = kernel_check_edge_alloc(&bz, n * sizeof *z);
        float eps = round % 3 == 0 ? 0.0f : 1e-5f;
        if (round == 0)
            memset(x, 0, n * sizeof *x);
        tiers[0].rms_norm(y, x, w, n, 1.0f / (float)n, eps);
        double ss = 0.0;
        for (uint32_t i = 0; i < n; i++)
            ss += (double)x[i] * (double)x[i];
        for (uint32_t i = 0; i < n && round > 0 && ss > 1e-30; i++) {
            double want = (double)x[i] / sqrt(ss / n + (double)eps) * (double)w[i];
            /* x * r may be subnormal: half a unit of those, times w */
            assert_true(fabs((double)y[i] - want) <=
                        1e-6 * fabs(want) + 0x1p-149 * (1.0 + fabs((double)w[i])));
        }
        for (int t = 1; t < n_tiers; t++) {
            tiers[t].rms_norm(z, x, w, n, 1.0f / (float)n, eps);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
            memcpy(z, x, n * sizeof *z);
            tiers[t].rms_norm(z, z, w, n, 1.0f / (float)n, eps);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        kernel_check_edge_free(&bx), kernel_check_edge_free(&bw), kernel_check_edge_free(&by),
            kernel_check_edge_free(&bz);
    }
}

static void center(void **state) {
    (void)state;
    uint64_t seed = testing_seed("center");
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = length(&seed);
        struct kernel_check_edge bx, by, bz;
        float *x = values(&bx, n, &seed, 3.0f);
        float *y = kernel_check_edge_alloc(&by, n * sizeof *y),
              *z = kernel_check_edge_alloc(&bz, n * sizeof *z);
        double sum = 0, size = 0;
        for (uint32_t i = 0; i < n; i++) {
            sum += (double)x[i];
            size += fabs((double)x[i]);
        }
        memcpy(y, x, n * sizeof *y);
        tiers[0].center(y, n, 1.0f / (float)n);
        for (uint32_t i = 0; i < n; i++)
            assert_true(fabs((double)y[i] - ((double)x[i] - sum / n)) <=
                        1e-6 * (fabs((double)x[i]) + size / n) + 0x1p-149);
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, x, n * sizeof *z);
            tiers[t].center(z, n, 1.0f / (float)n);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        kernel_check_edge_free(&bx), kernel_check_edge_free(&by), kernel_check_edge_free(&bz);
    }
}

struct quantised {
    struct kernel_check_edge buffer[3];
    int8_t *q;
    float *d;
    int16_t *s;
};

static void quantise(struct quantised *o, const struct kernels *k, uint32_t group, const float *x,
                     uint32_t n) {
    o->q = kernel_check_edge_alloc(&o->buffer[0], n);
    o->d = kernel_check_edge_alloc(&o->buffer[1], n / group * sizeof *o->d);
    o->s = kernel_check_edge_alloc(&o->buffer[2], n / (group == 32 ? 32 : 16) * sizeof *o->s);
    (group == 32 ? k->quantise32 : k->quantise256)(x, n, o->q, o->d, o->s);
}

static void quantised_free(struct quantised *o) {
    for (int i = 0; i < 3; i++)
        kernel_check_edge_free(&o->buffer[i]);
}

/* What the definition means, with no use of it: q * d is x to half a step, the sums are the sums of q. */
static void check_quantised(const struct quantised *o, uint32_t group, const float *x, uint32_t n) {
    uint32_t part = group == 32 ? 32 : 16;
    for (uint32_t i = 0; i < n; i++) {
        double d = (double)o->d[i / group];
        assert_true(o->q[i] >= -127);
        assert_true(fabs(o->q[i] * d - (double)x[i]) <= (d > 0.0 ? d * (0.5 + 1e-4) : 0x1p-100));
    }
    for (uint32_t p = 0; p < n / part; p++) {
        int sum = 0;
        for (uint32_t i = 0; i < part; i++)
            sum += o->q[p * part + i];
        assert_int_equal(o->s[p], sum);
    }
}

static void quantise_random(void **state) {
    (void)state;
    uint64_t seed = testing_seed("quantise");
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t group = round % 2 == 0 ? 32 : 256;
        uint32_t n = group * (1 + (uint32_t)testing_below(&seed, 9));
        static const float scales[] = {1.0f, 127.0f, 1e-3f, 0x1p-98f, 0x1p-107f, 1e30f};
        struct kernel_check_edge b;
        float *x = kernel_check_edge_alloc(&b, n * sizeof *x);
        for (uint32_t i = 0; i < n; i++) {
            float scale = scales[(i / group + (uint32_t)round) % 6];
            x[i] = testing_below(&seed, 40) == 0 ? value(&seed, scale) : testing_uniform(&seed) * scale;
        }
        if (round % 5 == 0)
            x[0] = FLT_MAX;
        struct quantised want;
        quantise(&want, &tiers[0], group, x, n);
        check_quantised(&want, group, x, n);
        for (int t = 1; t < n_tiers; t++) {
            struct quantised got;
            quantise(&got, &tiers[t], group, x, n);
            assert_memory_equal(got.q, want.q, n);
            assert_memory_equal(got.d, want.d, n / group * sizeof *got.d);
            assert_memory_equal(got.s, want.s, n / (group == 32 ? 32 : 16) * sizeof *got.s);
            quantised_free(&got);
        }
        quantised_free(&want);
        kernel_check_edge_free(&b);
    }
}

/* amax = 127 makes the step exactly 1: halves go to the even neighbour. The other values are whole, so that
 * no other step errs less. */
static void quantise_ties(void **state) {
    (void)state;
    static const float x[] = {127.0f,      0.5f,   1.5f,    2.5f,  -0.5f, -1.5f, -2.5f,       3.4999998f,
                              -3.5000002f, 126.5f, -125.5f, 63.5f, 64.5f, -0.0f, 0.49999997f, -127.0f};
    static const int want[] = {127, 0, 2, 2, 0, -2, -2, 3, -4, 126, -126, 64, 64, 0, 0, -127};
    for (int t = 0; t < n_tiers; t++) {
        for (uint32_t group = 32; group <= 256; group += 224) {
            float in[256] = {0};
            for (uint32_t i = 0; i < group - 16; i++)
                in[i] = (float)(40 + 5 * (int)i % 80);
            memcpy(in + group - 16, x, sizeof x);
            struct quantised o;
            quantise(&o, &tiers[t], group, in, group);
            assert_true(o.d[0] == 1.0f);
            for (int i = 0; i < 16; i++)
                assert_int_equal(o.q[group - 16 + (uint32_t)i], want[i]);
            quantised_free(&o);
        }
    }
}

/* Of the two scales of a group of 32, the one that errs less, by a double-precision count. */
static void quantise_scales(void **state) {
    (void)state;
    uint64_t seed = testing_seed("quantise_scales");
    int second = 0;
    for (int round = 0; round < 400; round++) {
        float x[32], d;
        int8_t q[32];
        int16_t s;
        double amax = 0, error[2] = {0}, got = 0;
        for (int i = 0; i < 32; i++) {
            x[i] = testing_uniform(&seed) * testing_uniform(&seed);
            amax = fmax(amax, fabs((double)x[i]));
        }
        tiers[0].quantise32(x, 32, q, &d, &s);
        for (int i = 0; i < 32; i++) {
            for (int k = 0; k < 2; k++) {
                double step = amax / (k == 0 ? 127 : 125);
                error[k] += pow((double)x[i] - step * rint((double)x[i] / step), 2);
            }
            got += pow((double)x[i] - (double)d * q[i], 2);
        }
        assert_true(got <= fmin(error[0], error[1]) * 1.001);
        second += (double)d > amax / 126;
    }
    assert_in_range(second, 100, 300);
}

static void quantise_thresholds(void **state) {
    (void)state;
    for (int t = 0; t < n_tiers; t++) {
        for (uint32_t group = 32; group <= 256; group += 224) {
            float x[256] = {0};
            struct quantised o;
            x[5] = -0x1.fffffep-101f; /* just below 2^-100 */
            quantise(&o, &tiers[t], group, x, group);
            assert_true(o.d[0] == 0.0f && o.q[5] == 0 && o.s[0] == 0);
            quantised_free(&o);
            x[5] = -0x1p-100f;
            quantise(&o, &tiers[t], group, x, group);
            assert_true(o.d[0] > 0.0f && o.q[5] == -127 && o.s[0] == -127);
            quantised_free(&o);
            x[5] = -FLT_MAX;
            x[7] = FLT_MAX;
            quantise(&o, &tiers[t], group, x, group);
            assert_true(o.q[5] == -127 && o.q[7] == 127 && o.s[0] == 0);
            quantised_free(&o);
        }
    }
}

static void silu_and_add(void **state) {
    (void)state;
    uint64_t seed = testing_seed("silu_and_add");
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = length(&seed);
        struct kernel_check_edge ba, bb, by, bz;
        float *a = values(&ba, n, &seed, round % 2 == 0 ? 5.0f : 100.0f), *b = values(&bb, n, &seed, 5.0f);
        float *y = kernel_check_edge_alloc(&by, n * sizeof *y),
              *z = kernel_check_edge_alloc(&bz, n * sizeof *z);
        tiers[0].silu_mul(y, a, b, n);
        for (uint32_t i = 0; i < n; i++) {
            double want = (double)a[i] / (1.0 + exp(-(double)a[i])) * (double)b[i];
            assert_true(fabs((double)y[i] - want) <= 5e-7 * fabs(want) + 1e-35 * (1.0 + fabs((double)b[i])));
        }
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, a, n * sizeof *z);
            tiers[t].silu_mul(z, z, b, n);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        tiers[0].gelu_mul(y, a, b, n);
        for (uint32_t i = 0; i < n; i++) {
            double x = a[i], inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
            double want = x / (1.0 + exp(-2 * inner)) * (double)b[i];
            assert_true(fabs((double)y[i] - want) <=
                        (5e-7 + 3e-7 * fabs(inner)) * fabs(want) + 1e-35 * (1.0 + fabs((double)b[i])));
        }
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, a, n * sizeof *z);
            tiers[t].gelu_mul(z, z, b, n);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        tiers[0].relu2(y, a, n);
        for (uint32_t i = 0; i < n; i++)
            assert_true(y[i] == (a[i] > 0 ? a[i] * a[i] : 0));
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, a, n * sizeof *z);
            tiers[t].relu2(z, z, n);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        tiers[0].softcap(y, a, n, 20.0f, 1.0f / 20.0f);
        for (uint32_t i = 0; i < n; i++)
            assert_true(fabs((double)y[i] - 20 * tanh((double)a[i] / 20)) <= 3e-7 * 20);
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, a, n * sizeof *z);
            tiers[t].softcap(z, z, n, 20.0f, 1.0f / 20.0f);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        tiers[0].add(y, a, b, n);
        for (uint32_t i = 0; i < n; i++)
            assert_true(y[i] == a[i] + b[i]);
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, a, n * sizeof *z);
            tiers[t].add(z, z, b, n);
            kernel_check_same_floats(z, y, n, tiers[t].tier);
        }
        kernel_check_edge_free(&ba), kernel_check_edge_free(&bb), kernel_check_edge_free(&by),
            kernel_check_edge_free(&bz);
    }
}

static void rope(void **state) {
    (void)state;
    uint64_t seed = testing_seed("rope");
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t pairs = 1 + (uint32_t)testing_below(&seed, 100);
        bool neox = round % 2 == 0;
        struct kernel_check_edge bx, bc, by, bz;
        float *x = values(&bx, 2 * pairs, &seed, 5.0f),
              *c = kernel_check_edge_alloc(&bc, 2 * pairs * sizeof *c);
        for (uint32_t j = 0; j < pairs; j++) {
            double angle = (double)testing_uniform(&seed) * 3.2;
            c[2 * j] = (float)cos(angle);
            c[2 * j + 1] = (float)sin(angle);
        }
        float *y = kernel_check_edge_alloc(&by, 2 * pairs * sizeof *y),
              *z = kernel_check_edge_alloc(&bz, 2 * pairs * sizeof *z);
        memcpy(y, x, 2 * pairs * sizeof *y);
        tiers[0].rope(y, c, pairs, neox);
        for (uint32_t j = 0; j < pairs; j++) {
            uint32_t i = neox ? j : 2 * j, k = neox ? j + pairs : 2 * j + 1;
            double a = (double)x[i], b = (double)x[k], co = (double)c[2 * j], si = (double)c[2 * j + 1];
            double bound = 1e-6 * (fabs(a) + fabs(b)) + 1e-44;
            assert_true(fabs((double)y[i] - (a * co - b * si)) <= bound);
            assert_true(fabs((double)y[k] - (a * si + b * co)) <= bound);
        }
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, x, 2 * pairs * sizeof *z);
            tiers[t].rope(z, c, pairs, neox);
            kernel_check_same_floats(z, y, 2 * pairs, tiers[t].tier);
        }
        kernel_check_edge_free(&bx), kernel_check_edge_free(&bc), kernel_check_edge_free(&by),
            kernel_check_edge_free(&bz);
    }
}

/* A store writes its slot and nothing else. */
static void stores(void **state) {
    (void)state;
    uint64_t seed = testing_seed("stores");
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t dim = 1 + (uint32_t)testing_below(&seed, 140), slot = (uint32_t)testing_below(&seed, 32);
        enum kernels_kv type = round % 2 == 0 ? KERNELS_KV_F32 : KERNELS_KV_F16;
        size_t element = type == KERNELS_KV_F32 ? 4 : 2;
        struct kernel_check_edge bx, bw, bg;
        float *x = values(&bx, dim, &seed, round % 3 == 0 ? 1e-5f : 4.0f);
        uint8_t *want = kernel_check_edge_alloc(&bw, dim * 32 * element),
                *got = kernel_check_edge_alloc(&bg, dim * 32 * element);
        for (int v = 0; v < 2; v++) {
            memset(want, 0xA5, dim * 32 * element);
            (v == 0 ? tiers[0].store_k : tiers[0].store_v)[type](want, x, dim, slot);
            for (uint32_t d = 0; d < dim; d++) {
                for (uint32_t s = 0; s < 32; s++) {
                    const uint8_t *p = want + (v == 0 ? d * 32 + s : s * dim + d) * element;
                    float f = x[d];
                    uint16_t h = block_to_f16(f);
                    if (s != slot)
                        assert_memory_equal(p, "\xA5\xA5\xA5\xA5", element);
                    else
                        assert_memory_equal(p, type == KERNELS_KV_F32 ? (void *)&f : (void *)&h, element);
                }
            }
            for (int t = 1; t < n_tiers; t++) {
                memset(got, 0xA5, dim * 32 * element);
                (v == 0 ? tiers[t].store_k : tiers[t].store_v)[type](got, x, dim, slot);
                assert_memory_equal(got, want, dim * 32 * element);
            }
        }
        kernel_check_edge_free(&bx), kernel_check_edge_free(&bw), kernel_check_edge_free(&bg);
    }
}

static void stores_round_to_even(void **state) {
    (void)state;
    static const float x[] = {1.0f + 0x1p-11f,  1.0f + 0x1.8p-10f, 0x1p-24f,   0x1p-25f, 0x1.8p-24f,
                              -0x1.000002p-25f, 65504.0f,          65519.996f, -0.0f};
    static const uint16_t want[] = {0x3C00, 0x3C02, 0x0001, 0x0000, 0x0002, 0x8001, 0x7BFF, 0x7BFF, 0x8000};
    const uint32_t n = sizeof x / sizeof x[0];
    for (int t = 0; t < n_tiers; t++) {
        uint16_t k[9 * 32], v[9 * 32];
        tiers[t].store_k[KERNELS_KV_F16](k, x, n, 31);
        tiers[t].store_v[KERNELS_KV_F16](v, x, n, 31);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(k[i * 32 + 31], want[i]);
            assert_int_equal(v[31 * n + i], want[i]);
        }
    }
}

static void argmax(void **state) {
    (void)state;
    uint64_t seed = testing_seed("argmax");
    for (int round = 0; round < 4 * ROUNDS; round++) {
        uint32_t n = length(&seed);
        struct kernel_check_edge b;
        float *x = kernel_check_edge_alloc(&b, n * sizeof *x);
        for (uint32_t i = 0; i < n; i++) /* few distinct values: many equals */
            x[i] = (float)testing_below(&seed, 3) - (round % 2 == 0 ? 1.0f : 2.0f);
        for (uint32_t i = 0; i < n; i++)
            x[i] = x[i] == 0.0f && testing_below(&seed, 2) == 0 ? -0.0f : x[i];
        if (round % 4 == 0)
            x[testing_below(&seed, n)] = 5.0f;
        uint32_t want = 0;
        for (uint32_t i = 1; i < n; i++)
            want = x[i] > x[want] ? i : want;
        uint32_t at = (uint32_t)testing_below(&seed, n);
        float kept = x[at];
        for (int t = 0; t < n_tiers; t++) {
            bool finite = false;
            assert_int_equal(tiers[t].argmax(x, n, &finite), want);
            assert_true(finite);
            x[at] = round % 3 == 0 ? NAN : round % 3 == 1 ? INFINITY : -INFINITY;
            assert_true(tiers[t].argmax(x, n, &finite) < n);
            assert_false(finite);
            x[at] = kept;
        }
        kernel_check_edge_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(rms_norm),
        cmocka_unit_test(center),
        cmocka_unit_test(quantise_random),
        cmocka_unit_test(quantise_ties),
        cmocka_unit_test(quantise_scales),
        cmocka_unit_test(quantise_thresholds),
        cmocka_unit_test(silu_and_add),
        cmocka_unit_test(rope),
        cmocka_unit_test(stores),
        cmocka_unit_test(stores_round_to_even),
        cmocka_unit_test(argmax),
    };
    return cmocka_run_group_tests(tests, fill_tiers, NULL);
}
