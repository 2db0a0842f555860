/* formats/block: ggml's vectors, sizes of all types, 16-bit floats over their whole range. */
#include "kernel_check.h"

#include "formats/block.h"

#include <math.h>

static const uint32_t computable[] = {
    BLOCK_F32,   BLOCK_F16,    BLOCK_BF16,  BLOCK_Q4_0,    BLOCK_Q4_1,   BLOCK_Q5_0,   BLOCK_Q5_1,
    BLOCK_Q8_0,  BLOCK_Q4_K,   BLOCK_Q5_K,  BLOCK_Q6_K,    BLOCK_IQ4_NL, BLOCK_MXFP4,  BLOCK_Q2_K,
    BLOCK_Q3_K,  BLOCK_IQ4_XS, BLOCK_IQ3_S, BLOCK_IQ3_XXS, BLOCK_IQ2_S,  BLOCK_IQ2_XS, BLOCK_IQ2_XXS,
    BLOCK_IQ1_S, BLOCK_IQ1_M,  BLOCK_TQ1_0, BLOCK_TQ2_0,   BLOCK_NVFP4,  BLOCK_Q1_0,   BLOCK_Q2_0};
#define N_COMPUTABLE (sizeof computable / sizeof computable[0])

static void decoding_gives_ggmls_bits(void **state) {
    (void)state;
    TESTING_NEED_SHARED("oracles/quants/index.json");
    for (size_t i = 0; i < N_COMPUTABLE; i++) {
        const struct block_info *info = block_info(computable[i]);
        assert_non_null(info);
        if (computable[i] == BLOCK_F32)
            continue; /* has no vectors; a copy */
        char name[64];
        size_t n_bin = 0;
        size_t n_f32 = 0;
        snprintf(name, sizeof name, "oracles/quants/%s.bin", info->name);
        if (computable[i] >= BLOCK_TQ1_0 && computable[i] != BLOCK_MXFP4)
            continue; /* none either: tools/check_blocks */
        assert_non_null(testing_shared(name));
        uint8_t *bin = testing_read_file(testing_shared(name), &n_bin);
        snprintf(name, sizeof name, "oracles/quants/%s.f32", info->name);
        assert_non_null(testing_shared(name));
        float *expected = testing_read_file(testing_shared(name), &n_f32);
        size_t values = n_f32 / sizeof *expected;
        assert_int_equal(values, 8 * 1024);
        uint64_t row_bytes = 0;
        assert_true(block_row_bytes(computable[i], 1024, &row_bytes));
        assert_int_equal(row_bytes * 8, n_bin);
        struct kernel_check_buffer out = kernel_check_alloc(n_f32);
        for (size_t r = 0; r < 8; r++)
            block_decode_row(computable[i], bin + r * row_bytes, (float *)(void *)out.data + r * 1024, 1024);
        kernel_check_same_floats((float *)(void *)out.data, expected, values, info->name);
        kernel_check_free(&out);
        free(bin);
        free(expected);
    }
}

/* The vectors come from a quantiser, which never writes some of the bits: here every field is checked by
 * itself. */
static void decoding_reads_every_bit(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        uint32_t byte; /* of the block, set to `value`, all else 0 but d = 1 and (where there is one) m = 1 */
        uint8_t value;
        uint32_t index;
        float expected;
    } cases[] = {
        {BLOCK_Q8_0, 2 + 31, 0x80, 31, -128.0f},
        {BLOCK_Q4_0, 2 + 3, 0xF0, 19, 7.0f},
        {BLOCK_Q4_0, 2 + 3, 0xF0, 3, -8.0f},
        {BLOCK_Q4_1, 4 + 15, 0x0F, 15, 16.0f},
        {BLOCK_Q5_0, 2 + 3, 0x80, 31, 0.0f},
        {BLOCK_Q5_0, 2 + 3, 0x80, 30, -16.0f},
        {BLOCK_Q5_1, 4 + 1, 0x01, 8, 17.0f},
        {BLOCK_Q4_K, 4 + 4, 0x3F, 0, -63.0f},
        {BLOCK_Q4_K, 4 + 7, 0xC0, 255, -48.0f},
        {BLOCK_Q4_K, 4 + 8, 0xF0, 128, -15.0f},
        {BLOCK_Q4_K, 4 + 8, 0xF0, 160, 0.0f},
        {BLOCK_Q6_K, 192 + 15, 0x80, 255, 4096.0f},
        {BLOCK_Q6_K, 192 + 8, 0x01, 128, -32.0f},
        /* The scale 0 of Q3_K is -32, its quant 0 is -4 */
        {BLOCK_Q3_K, 0, 0x80, 224, 0.0f},
        {BLOCK_Q3_K, 0, 0x80, 0, 128.0f},
        {BLOCK_Q3_K, 32 + 63, 0xC0, 255, 32.0f},
        {BLOCK_Q3_K, 96 + 11, 0xC0, 255, -64.0f},
        {BLOCK_Q3_K, 96 + 7, 0xF0, 255, 68.0f},
        {BLOCK_Q2_K, 15, 0xF0, 255, -15.0f},
        {BLOCK_Q2_K, 16, 0x03, 0, 0.0f},
        {BLOCK_IQ4_XS, 3, 0x80, 255, 0.0f},
        {BLOCK_IQ4_XS, 7, 0xF0, 255, 17 * 127.0f},
        {BLOCK_IQ4_XS, 8 + 127, 0xF0, 255, -32 * 113.0f},
        {BLOCK_IQ3_S, 74 + 31, 0x80, 255, -1.0f},
        {BLOCK_IQ3_S, 106 + 3, 0xF0, 255, 31.0f},
        {BLOCK_IQ3_XXS, 66 + 31, 0xF0, 255, 31.0f},
        {BLOCK_IQ2_XXS, 2 + 63, 0xF0, 255, 31.0f},
        {BLOCK_IQ2_XS, 66 + 7, 0xF0, 255, 31.0f},
        {BLOCK_IQ2_S, 34 + 31, 0x80, 255, -1.0f},
        {BLOCK_IQ1_S, 34 + 15, 0x80, 255, -9.0f / 8},
        {BLOCK_IQ1_S, 34 + 15, 0x70, 255, 15 * -7.0f / 8},
        {BLOCK_TQ1_0, 51, 0xFF, 255, 1.0f},
        {BLOCK_TQ2_0, 63, 0xC0, 255, 2.0f},
        {BLOCK_NVFP4, 0, 0x7F, 0, 0.0f},
        {BLOCK_NVFP4, 4 + 31, 0xF0, 63, 0.0f},
        {BLOCK_Q1_0, 2 + 15, 0x80, 127, 1.0f},
        {BLOCK_Q1_0, 2 + 15, 0x80, 126, -1.0f},
        {BLOCK_Q2_0, 2 + 15, 0xC0, 63, 2.0f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t block[256] = {0};
        float out[256];
        const struct block_info *info = block_info(cases[i].type);
        if (cases[i].type != BLOCK_NVFP4)
            block_put_scales(cases[i].type, block, 1.0f, 1.0f);
        block[cases[i].byte] = cases[i].value;
        block_decode_row(cases[i].type, block, out, info->values);
        if (out[cases[i].index] != cases[i].expected)
            fail_msg("%s, byte %u = %#x: value %u is %g, expected %g", info->name, cases[i].byte,
                     cases[i].value, cases[i].index, (double)out[cases[i].index], (double)cases[i].expected);
    }
}

/* The facts of index.json about types that are only sized. */
static void sizes_agree_with_the_vectors(void **state) {
    (void)state;
    TESTING_NEED_SHARED("oracles/quants/index.json");
    char *text = testing_read_file(testing_shared("oracles/quants/index.json"), NULL);
    uint32_t seen = 0;
    for (const char *at = text; (at = strstr(at, "\"ggml_type\":")) != NULL; seen++) {
        unsigned type = 0;
        unsigned rows = 0;
        unsigned cols = 0;
        unsigned values = 0;
        unsigned bytes = 0;
        unsigned row = 0;
        assert_int_equal(
            sscanf(at,
                   "\"ggml_type\": %u, \"rows\": %u, \"cols\": %u, \"block\": %u, \"block_bytes\": %u, "
                   "\"row_bytes\": %u",
                   &type, &rows, &cols, &values, &bytes, &row),
            6);
        const struct block_info *info = block_info(type);
        assert_non_null(info);
        assert_int_equal(info->values, values);
        assert_int_equal(info->bytes, bytes);
        uint64_t row_bytes = 0;
        assert_true(block_row_bytes(type, cols, &row_bytes));
        assert_int_equal(row_bytes, row);
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\"", info->name);
        const char *named = strstr(text, quoted);
        assert_true(named != NULL && named < at && at - named < 40);
        at++;
    }
    assert_int_equal(seen, 22);
    free(text);
}

static void types_are_known_by_number(void **state) {
    (void)state;
    static const uint32_t none[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 47, BLOCK_TYPES, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_null(block_info(none[i]));
    uint32_t n = 0;
    for (uint32_t t = 0; t < BLOCK_TYPES; t++) {
        const struct block_info *info = block_info(t);
        if (info == NULL)
            continue;
        assert_true(info->values > 0 && info->bytes > 0 && info->name[0] != '\0');
        n += info->computable;
        for (uint32_t u = 0; u < t; u++)
            assert_true(block_info(u) == NULL || strcmp(block_info(u)->name, info->name) != 0);
    }
    assert_int_equal(n, N_COMPUTABLE);
    for (size_t i = 0; i < N_COMPUTABLE; i++)
        assert_true(block_info(computable[i])->computable);
    assert_false(block_info(15)->computable);
    assert_int_equal(block_info(15)->bytes, 292);
    assert_int_equal(block_info(34)->bytes, 54);
}

static void row_sizes_are_checked(void **state) {
    (void)state;
    uint64_t bytes = 77;
    assert_false(block_row_bytes(BLOCK_Q4_0, 31, &bytes));
    assert_false(block_row_bytes(BLOCK_Q4_K, 32, &bytes));
    assert_false(block_row_bytes(4, 32, &bytes));
    assert_false(block_row_bytes(BLOCK_TYPES, 32, &bytes));
    assert_false(block_row_bytes(BLOCK_F32, UINT64_MAX / 4 + 1, &bytes));
    assert_false(block_row_bytes(28, UINT64_MAX, &bytes));
    assert_false(block_row_bytes(BLOCK_Q8_0, UINT64_MAX / 32 * 32, &bytes));
    assert_int_equal(bytes, 77);
    assert_true(block_row_bytes(BLOCK_Q4_0, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_true(block_row_bytes(BLOCK_Q6_K, 512, &bytes));
    assert_int_equal(bytes, 420);
    assert_true(block_row_bytes(BLOCK_F32, UINT64_MAX / 4, &bytes));
    assert_int_equal(bytes, UINT64_MAX / 4 * 4);
}

/* By the definition of the format, with no shifting of bits. */
static double half_value(uint32_t h) {
    double mantissa = h & 1023;
    int exponent = (int)(h >> 10 & 31);
    double v = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -v : v;
}

static uint32_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float bits_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void halves_to_floats(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = block_from_f16((uint16_t)h);
        assert_int_equal(signbit(f) != 0, h >> 15);
        if ((h & 0x7C00) != 0x7C00)
            assert_true((double)f == half_value(h));
        else if ((h & 0x3FF) == 0)
            assert_true(isinf(f));
        else
            assert_int_equal(float_bits(f) & 0x7FFFFFFF, 0x7FC00000 | (h & 0x3FF) << 13);
        float b = block_from_bf16((uint16_t)h);
        assert_int_equal(float_bits(b), h << 16);
    }
}

#if defined __GNUC__ && defined __x86_64__
__attribute__((target("avx,f16c"))) static void check_with_f16c(const float *f, uint32_t n) {
    typedef float f8 __attribute__((vector_size(32)));
    typedef short s8 __attribute__((vector_size(16)));
    for (uint32_t i = 0; i < n; i += 8) {
        f8 v;
        memcpy(&v, f + i, sizeof v);
        s8 h = __builtin_ia32_vcvtps2ph256(v, 0);
        for (uint32_t j = 0; j < 8; j++)
            if (block_to_f16(f[i + j]) != (uint16_t)h[j])
                fail_msg("%a becomes %#x, the processor says %#x", (double)f[i + j], block_to_f16(f[i + j]),
                         (unsigned)(uint16_t)h[j]);
    }
}

static void halves_as_the_processor_has_them(void **state) {
    (void)state;
    if (!__builtin_cpu_supports("avx2")) /* every such processor has F16C */
        skip();
    uint64_t seed = testing_seed("halves_as_the_processor_has_them");
    float f[4096];
    for (uint32_t round = 0; round < 64; round++) {
        kernel_check_random_bytes(&seed, f, sizeof f);
        if (round % 2 == 1) /* the exponents around which halves live */
            for (uint32_t i = 0; i < 4096; i++)
                f[i] = bits_float((float_bits(f[i]) & 0x807FFFFF) | (uint32_t)(100 + testing_below(&seed, 46))
                                                                        << 23);
        check_with_f16c(f, 4096);
    }
}
#endif

/* Every half comes back; between two neighbours the nearer one wins, the even one at the middle. */
static void floats_to_halves(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7C00; h++) {
        float low = block_from_f16((uint16_t)h);
        assert_int_equal(block_to_f16(low), h);
        assert_int_equal(block_to_f16(-low), h | 0x8000);
        /* Past the largest half the next step would be 65536: what rounds there is infinite. */
        float high = h == 0x7BFF ? 65536.0f : block_from_f16((uint16_t)(h + 1));
        float middle = (float)(((double)low + (double)high) / 2);
        uint32_t even = h + (h & 1);
        assert_int_equal(block_to_f16(middle), even);
        assert_int_equal(block_to_f16(-middle), even | 0x8000);
        assert_int_equal(block_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(block_to_f16(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_int_equal(block_to_f16(INFINITY), 0x7C00);
    assert_int_equal(block_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(block_to_f16(0x1p-149f), 0);
    assert_int_equal(block_to_f16(-0x1p-149f), 0x8000);
    assert_int_equal(block_to_f16(3.4e38f), 0x7C00);
    assert_true((block_to_f16(NAN) & 0x7FFF) > 0x7C00);
    assert_true((block_to_f16(bits_float(0x7F800001)) & 0x7FFF) > 0x7C00);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_gives_ggmls_bits),
        cmocka_unit_test(decoding_reads_every_bit),
        cmocka_unit_test(sizes_agree_with_the_vectors),
        cmocka_unit_test(types_are_known_by_number),
        cmocka_unit_test(row_sizes_are_checked),
        cmocka_unit_test(halves_to_floats),
        cmocka_unit_test(floats_to_halves),
#if defined __GNUC__ && defined __x86_64__
        cmocka_unit_test(halves_as_the_processor_has_them),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
