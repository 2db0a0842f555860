/* kernels/shared/num.h against double: the error bounds that its comments promise, and its special values. */
#include "testing.h"

#include "kernels/shared/num_erf.h"

/* Distance in units of the last place of a float of that size. */
static double ulps(float got, double want) {
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

static uint32_t bits(float f) {
    return NUM_BITS(f);
}

/* Steps through the bit patterns begin .. end (a prime step, so that all low bits occur) and gives the
 * largest error. */
static double worst(float (*f)(float), double (*exact)(double), uint32_t begin, uint32_t end, uint32_t step) {
    double w = 0.0;
    for (uint64_t b = begin; b <= end; b += step) {
        float x = NUM_FLOAT((num_u32)b);
        double u = ulps(f(x), exact((double)x));
        w = u > w ? u : w;
    }
    return w;
}

static double exact_rcp(double x) {
    return 1.0 / x;
}

static double exact_rsqrt(double x) {
    return 1.0 / sqrt(x);
}

static double exact_sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double exact_silu(double x) {
    return x / (1.0 + exp(-x));
}

static void reciprocal(void **state) {
    (void)state;
    assert_true(worst(num_rcp, exact_rcp, bits(1.0f), bits(2.0f), 1) <=
                0.51); /* the seed repeats in every binade */
    assert_true(worst(num_rcp, exact_rcp, bits(0x1p-126f), bits(0x1p126f), 1009) <= 0.75);
    assert_true(worst(num_rcp, exact_rcp, bits(-0x1p-126f), bits(-0x1p126f), 1009) <= 0.75);
    for (int e = -126; e <= 126; e++)
        assert_true(num_rcp(ldexpf(1.0f, e)) == ldexpf(1.0f, -e));
}

static void reciprocal_root(void **state) {
    (void)state;
    assert_true(worst(num_rsqrt, exact_rsqrt, bits(1.0f), bits(4.0f), 1) <= 0.51); /* two binades repeat */
    assert_true(worst(num_rsqrt, exact_rsqrt, bits(0x1p-126f), bits(0x1.fffffep127f), 1009) <= 0.51);
    assert_true(isfinite(num_rsqrt(0.0f)));
    assert_true(isfinite(num_rsqrt(0x1p-149f)));
}

static void exponential(void **state) {
    (void)state;
    assert_true(worst(num_exp, exp, bits(0x1p-30f), bits(88.0f), 101) <= 0.95);
    assert_true(worst(num_exp, exp, bits(-0x1p-30f), bits(-87.0f), 101) <= 0.95);
    assert_true(num_exp(0.0f) == 1.0f && num_exp(-0.0f) == 1.0f);
    assert_int_equal(bits(num_exp(nextafterf(-87.0f, -100.0f))), 0);
    assert_int_equal(bits(num_exp(-0x1.fffffep127f)), 0);
    assert_int_equal(bits(num_exp(-INFINITY)), 0);
    assert_true(num_exp(-87.0f) > 0x1p-126f);
    assert_int_equal(bits(num_exp(1000.0f)), bits(num_exp(88.0f)));
}

static void sigmoid_and_silu(void **state) {
    (void)state;
    assert_true(worst(num_sigmoid, exact_sigmoid, bits(0x1p-30f), bits(87.0f), 101) <= 3.0);
    assert_true(worst(num_sigmoid, exact_sigmoid, bits(-0x1p-30f), bits(-87.0f), 101) <= 3.0);
    assert_true(worst(num_silu, exact_silu, bits(0x1p-30f), bits(87.0f), 101) <= 4.0);
    assert_true(worst(num_silu, exact_silu, bits(-0x1p-30f), bits(-87.0f), 101) <= 4.0);
    assert_true(num_sigmoid(0.0f) == 0.5f && num_sigmoid(-0.0f) == 0.5f);
    assert_true(num_sigmoid(1e30f) == 1.0f && num_sigmoid(-1e30f) == 0.0f);
    assert_true(num_silu(1e30f) == 1e30f && num_silu(-1e30f) == 0.0f);
}

static double exact_softplus(double x) {
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static void softplus(void **state) {
    (void)state;
    assert_true(worst(num_softplus, exact_softplus, bits(0x1p-30f), bits(1000.0f), 101) <= 4.0);
    assert_true(worst(num_softplus, exact_softplus, bits(-0x1p-30f), bits(-86.0f), 101) <= 4.0);
    assert_int_equal(bits(num_softplus(-1e30f)), 0);
    assert_true(num_softplus(1e30f) == 1e30f);
    assert_true(isnan(num_softplus(NAN)));
}

static double exact_gelu(double x) {
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

/* Below 0 the argument's rounding counts as often as it is large. */
static void gelu(void **state) {
    (void)state;
    assert_true(worst(num_gelu, exact_gelu, bits(0x1p-30f), bits(40.0f), 101) <= 4.0);
    for (float x = -9.0f; x <= 0.0f; x += 0x1p-10f) {
        double inner = sqrt(2.0 / 3.14159265358979323846) * ((double)x + 0.044715 * (double)x * x * x);
        double want = (double)x / (1.0 + exp(-2.0 * inner));
        assert_true(fabs((double)num_gelu(x) - want) <= (5e-7 + 3e-7 * fabs(inner)) * fabs(want) + 1e-38);
    }
    assert_true(num_gelu(1e30f) == 1e30f && num_gelu(-1e30f) == 0.0f && num_gelu(0.0f) == 0.0f);
}

static void gelu_by_erf(void **state) {
    (void)state;
    for (float x = -12.0f; x <= 12.0f; x += 0x1p-10f) {
        const double want = 0.5 * (double)x * erfc(-(double)x / sqrt(2.0));
        assert_true(fabs((double)num_gelu_erf(x) - want) <= fmin(4e-7, 3e-6 * fabs((double)x)));
    }
    assert_true(num_gelu_erf(1e18f) == 1e18f && num_gelu_erf(-1e18f) == 0.0f && num_gelu_erf(0.0f) == 0.0f);
    assert_true(isnan(num_gelu_erf(NAN)));
}

static float cap_of_30(float x) {
    return num_softcap(x, 30.0f, 1.0f / 30.0f);
}

static void softcap(void **state) {
    (void)state;
    for (float x = 0x1p-20f; x < 1e30f; x *= 1.0001f) {
        const double want = 30 * tanh((double)x / 30);
        assert_true(fabs((double)cap_of_30(x) - want) <= 3e-7 * 30);
        assert_true(cap_of_30(-x) == -cap_of_30(x) && cap_of_30(x) <= 30.0f);
    }
    assert_true(cap_of_30(1e30f) == 30.0f && cap_of_30(0.0f) == 0.0f && cap_of_30(-0.0f) == 0.0f);
    assert_true(isnan(cap_of_30(NAN)) && !isfinite(cap_of_30(INFINITY)) && !isfinite(cap_of_30(-INFINITY)));
}

/* The order of the tree shows in sums that round. */
static void sum_tree(void **state) {
    (void)state;
    float lane[128];
    for (int i = 0; i < 128; i++)
        lane[i] = (float)i;
    assert_true(num_sum128(lane) == 8128.0f);
    memset(lane, 0, sizeof lane);
    lane[0] = 0x1p24f; /* 1 + 1 first, then the large one: in index order both ones would be lost */
    lane[1] = 1.0f;
    lane[65] = 1.0f;
    assert_true(num_sum128(lane) == 0x1p24f + 2.0f);
    memset(lane, 0, sizeof lane);
    lane[0] = 0x1p24f; /* 64 is added to 0 before anything else: lost twice */
    lane[64] = 1.0f;
    lane[32] = 1.0f;
    assert_true(num_sum128(lane) == 0x1p24f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reciprocal),  cmocka_unit_test(reciprocal_root),
        cmocka_unit_test(exponential), cmocka_unit_test(sigmoid_and_silu),
        cmocka_unit_test(gelu),        cmocka_unit_test(sum_tree),
        cmocka_unit_test(softplus),    cmocka_unit_test(softcap),
        cmocka_unit_test(gelu_by_erf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
