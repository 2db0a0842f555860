/* Stores of quantised keys and values: where each byte is stored, that no neighbour is touched, how accurate
 * the stored numbers are, and every tier against scalar by bits. */
#include "kernel_tiers.h"

#include <math.h>

/* The byte of (dim, token) in a block, from the layout's description. */
static size_t byte_at(enum kernels_kv type, bool key, uint32_t dim, uint32_t d, uint32_t t) {
    size_t bytes = type == KERNELS_KV_Q8_0 ? dim : dim / 2;
    uint32_t row = type == KERNELS_KV_Q8_0 ? d : d / 32 * 16 + d % 16;
    return key ? row / 4 * 128 + t * 4 + row % 4 : t / 4 * 4 * bytes + row * 4 + t % 4;
}

static size_t scale_at(enum kernels_kv type, uint32_t dim, uint32_t d, uint32_t t) {
    size_t bytes = type == KERNELS_KV_Q8_0 ? dim : dim / 2;
    return 32 * bytes + 2 * (d / 32 * 32 + t);
}

static int integer_at(enum kernels_kv type, bool key, const uint8_t *block, uint32_t dim, uint32_t d,
                      uint32_t t) {
    uint8_t byte = block[byte_at(type, key, dim, d, t)];
    if (type == KERNELS_KV_Q8_0)
        return (int8_t)byte;
    return (d % 32 < 16 ? byte & 15 : byte >> 4) - 8;
}

/* What 32 values err with the one scale `d`, in double. */
static double plain_error(const float *x, double d, int low, int high) {
    double sum = 0;
    for (int i = 0; i < 32; i++) {
        double q = d == 0 ? 0 : nearbyint((double)x[i] / d);
        q = q < low ? low : q > high ? high : q;
        sum += ((double)x[i] - q * d) * ((double)x[i] - q * d);
    }
    return sum;
}

/* The group's error is at most that of one scale that takes the largest value to the end of the range. */
static void check_group(enum kernels_kv type, bool key, const uint8_t *block, uint32_t dim, uint32_t g,
                        uint32_t slot, const float *x) {
    uint16_t half;
    memcpy(&half, block + scale_at(type, dim, g * 32, slot), sizeof half);
    float d = block_from_f16(half);
    float end = x[0];
    double error = 0;
    for (uint32_t i = 0; i < 32; i++) {
        int q = integer_at(type, key, block, dim, g * 32 + i, slot);
        assert_true(type == KERNELS_KV_Q4_0 || q >= -127);
        double r = (double)x[i] - (double)d * q;
        error += r * r;
        end = fabsf(x[i]) > fabsf(end) || (fabsf(x[i]) == fabsf(end) && x[i] > end) ? x[i] : end;
    }
    if (fabsf(end) > 1e6f)
        return; /* beyond the scales of f16: checked for bits only */
    double one = type == KERNELS_KV_Q8_0 ? plain_error(x, (double)fabsf(end) / 127, -127, 127)
                                         : plain_error(x, (double)end / -8, -8, 7);
    double grain = (double)fabsf(end) * 0x1p-11 + 0x1p-24 * 128; /* rounding of the scale to f16 */
    assert_true(sqrt(error) <= sqrt(one) + grain * 6);
}

static void check_store(enum kernels_kv type, bool key, const uint8_t *block, uint32_t dim, uint32_t slot,
                        const float *x) {
    for (uint32_t d = 0; d < dim; d++) {
        for (uint32_t t = 0; t < 32; t++) {
            if (t == slot)
                continue;
            assert_int_equal(block[byte_at(type, key, dim, d, t)], 0xA5);
            assert_int_equal(block[scale_at(type, dim, d, t)], 0xA5);
            assert_int_equal(block[scale_at(type, dim, d, t) + 1], 0xA5);
        }
    }
    for (uint32_t g = 0; g < dim / 32; g++)
        check_group(type, key, block, dim, g, slot, x + (size_t)g * 32);
}

static void quantised(void **state) {
    (void)state;
    uint64_t seed = testing_seed("quantised stores");
    static const float sizes[] = {4.0f, 1e-3f, 1e-6f, 3e-7f, 1e-30f, 1e5f, 1e7f, 3e38f};
    for (int round = 0; round < 400; round++) {
        uint32_t dim = 32 * (1 + (uint32_t)testing_below(&seed, 8));
        uint32_t slot = (uint32_t)testing_below(&seed, 32);
        enum kernels_kv type = round % 2 == 0 ? KERNELS_KV_Q8_0 : KERNELS_KV_Q4_0;
        bool key = round % 4 < 2;
        size_t bytes = kernels_kv_bytes(type, dim);
        assert_int_equal(bytes, (size_t)dim * (type == KERNELS_KV_Q8_0 ? 34 : 18));
        assert_int_equal(bytes % 64, 0);
        struct kernel_check_edge bx, bw, bg;
        float *x = kernel_check_edge_alloc(&bx, dim * sizeof *x);
        float size = sizes[round % 3 == 0 ? 0 : testing_below(&seed, 8)];
        for (uint32_t d = 0; d < dim; d++) {
            x[d] = testing_uniform(&seed) * size;
            if (round % 5 == 1) /* ends of both signs, exact steps and ties */
                x[d] = (float)((int)testing_below(&seed, 17) - 8) * 0.5f;
            if (round % 7 == 1 && d / 32 == 0)
                x[d] = d % 2 == 0 ? 0.0f : -0.0f;
        }
        uint8_t *want = kernel_check_edge_alloc(&bw, bytes), *got = kernel_check_edge_alloc(&bg, bytes);
        memset(want, 0xA5, bytes);
        (key ? tiers[0].store_k : tiers[0].store_v)[type](want, x, dim, slot);
        check_store(type, key, want, dim, slot, x);
        for (int t = 1; t < n_tiers; t++) {
            memset(got, 0xA5, bytes);
            (key ? tiers[t].store_k : tiers[t].store_v)[type](got, x, dim, slot);
            assert_memory_equal(got, want, bytes);
        }
        kernel_check_edge_free(&bx), kernel_check_edge_free(&bw), kernel_check_edge_free(&bg);
    }
}

/* By hand: the first scale is exact, so it is kept. */
static void by_hand(void **state) {
    (void)state;
    float x[32] = {0};
    x[0] = -8.0f;
    x[1] = 7.0f;
    x[17] = 3.0f;
    x[31] = -1.0f;
    for (int t = 0; t < n_tiers; t++) {
        uint8_t v[18 * 32] = {0};
        tiers[t].store_v[KERNELS_KV_Q4_0](v, x, 32, 5);
        assert_int_equal(v[64 + 0 * 4 + 1], 0x80);  /* dims 0: 0, 16: 8 */
        assert_int_equal(v[64 + 1 * 4 + 1], 0xBF);  /* dims 1: 15, 17: 11 */
        assert_int_equal(v[64 + 15 * 4 + 1], 0x78); /* dims 15: 8, 31: 7 */
        assert_int_equal(v[512 + 2 * 5] | v[512 + 2 * 5 + 1] << 8, 0x3C00);
        x[0] = 127.0f;
        uint8_t k[34 * 32] = {0};
        tiers[t].store_k[KERNELS_KV_Q8_0](k, x, 32, 31);
        assert_int_equal(k[31 * 4], 127);
        assert_int_equal(k[31 * 4 + 1], 7);
        assert_int_equal(k[4 * 128 + 31 * 4 + 1], 3);
        assert_int_equal(k[7 * 128 + 31 * 4 + 3], 0xFF);
        assert_int_equal(k[1024 + 2 * 31] | k[1024 + 2 * 31 + 1] << 8, 0x3C00);
        x[0] = -8.0f;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantised), cmocka_unit_test(by_hand)};
    return cmocka_run_group_tests(tests, fill_tiers, NULL);
}
