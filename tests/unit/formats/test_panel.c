/* formats/panel: the layout as its header draws it, and the round trip of random bytes in every type. */
#include "kernel_check.h"

#include "formats/panel.h"

#include <math.h>

static const uint32_t types[] = {
    BLOCK_F32,   BLOCK_F16,    BLOCK_BF16,  BLOCK_Q4_0,    BLOCK_Q4_1,   BLOCK_Q5_0,   BLOCK_Q5_1,
    BLOCK_Q8_0,  BLOCK_Q4_K,   BLOCK_Q5_K,  BLOCK_Q6_K,    BLOCK_IQ4_NL, BLOCK_MXFP4,  BLOCK_Q2_K,
    BLOCK_Q3_K,  BLOCK_IQ4_XS, BLOCK_IQ3_S, BLOCK_IQ3_XXS, BLOCK_IQ2_S,  BLOCK_IQ2_XS, BLOCK_IQ2_XXS,
    BLOCK_IQ1_S, BLOCK_IQ1_M,  BLOCK_TQ1_0, BLOCK_TQ2_0,   BLOCK_NVFP4,  BLOCK_Q1_0,   BLOCK_Q2_0};
#define N_TYPES (sizeof types / sizeof types[0])

/* Packs a random matrix, panel by panel, and reads every row back. */
static void round_trip(uint64_t *seed, uint32_t type, uint32_t rows, uint32_t cols) {
    struct panel_layout l;
    uint64_t row_bytes = 0;
    assert_true(panel_layout_init(&l, type, rows, cols));
    assert_true(block_row_bytes(type, cols, &row_bytes));
    assert_int_equal(l.panels, (rows + 15) / 16);
    assert_int_equal(l.bytes, (uint64_t)l.panels * l.panel_bytes);
    struct kernel_check_buffer file = kernel_check_alloc(rows * row_bytes);
    struct kernel_check_buffer packed = kernel_check_alloc(l.bytes);
    struct kernel_check_buffer expected = kernel_check_alloc(cols * sizeof(float));
    struct kernel_check_buffer got = kernel_check_alloc(cols * sizeof(float));
    kernel_check_random_bytes(seed, file.data, file.bytes);
    /* A NaN of a type that is packed as others are may become another. */
    for (uint64_t at = 0; type != l.type && at < file.bytes; at += block_info(type)->bytes)
        block_put_scales(type, file.data + at, 0.01f * testing_uniform(seed), 0.02f * testing_uniform(seed));
    for (uint32_t p = 0; p < l.panels; p++) {
        uint32_t n = rows - 16 * p < 16 ? rows - 16 * p : 16;
        panel_pack(&l, file.data + 16 * p * row_bytes, n, packed.data + (size_t)p * l.panel_bytes);
    }
    kernel_check_guards(&packed);
    for (uint32_t r = 0; r < rows; r++) {
        float *e = (float *)(void *)expected.data;
        float *g = (float *)(void *)got.data;
        block_decode_row(type, file.data + r * row_bytes, e, cols);
        panel_decode_row(&l, packed.data, r, g);
        if (block_info(type)->values >
            1) /* random scales may be NaN: which NaN comes out is nobody's business */
            for (uint32_t c = 0; c < cols; c++)
                if (isnan(e[c]) && isnan(g[c]))
                    g[c] = e[c];
        kernel_check_same_floats(g, e, cols, block_info(type)->name);
    }
    kernel_check_free(&file);
    kernel_check_free(&packed);
    kernel_check_free(&expected);
    kernel_check_free(&got);
}

static void packing_loses_nothing(void **state) {
    (void)state;
    uint64_t seed = testing_seed("packing_loses_nothing");
    for (size_t i = 0; i < N_TYPES; i++) {
        uint32_t block = block_info(types[i])->values;
        for (uint32_t round = 0; round < 12; round++) {
            uint32_t rows = 1 + (uint32_t)testing_below(&seed, 40);
            uint32_t cols = block * (1 + (uint32_t)testing_below(&seed, block == 1 ? 300 : 9));
            round_trip(&seed, types[i], rows, cols);
        }
        round_trip(&seed, types[i], 16, block);
        round_trip(&seed, types[i], 17, 3 * block);
    }
}

/* The same result whatever lay in the destination before, and nothing but zeros for missing rows. */
static void packing_writes_every_byte(void **state) {
    (void)state;
    uint64_t seed = testing_seed("packing_writes_every_byte");
    for (size_t i = 0; i < N_TYPES; i++) {
        uint32_t cols = 3 * block_info(types[i])->values;
        struct panel_layout l;
        uint64_t row_bytes = 0;
        assert_true(panel_layout_init(&l, types[i], 16, cols));
        assert_true(block_row_bytes(types[i], cols, &row_bytes));
        struct kernel_check_buffer rows = kernel_check_alloc(16 * row_bytes);
        struct kernel_check_buffer a = kernel_check_alloc(l.panel_bytes);
        struct kernel_check_buffer b = kernel_check_alloc(l.panel_bytes);
        kernel_check_random_bytes(&seed, rows.data, rows.bytes);
        for (uint32_t n = 0; n <= 16; n++) {
            memset(a.data, 0x00, a.bytes);
            memset(b.data, 0xFF, b.bytes);
            panel_pack(&l, rows.data, n, a.data);
            panel_pack(&l, rows.data, n, b.data);
            assert_memory_equal(a.data, b.data, a.bytes);
            if (n == 0)
                for (size_t at = 0; at < a.bytes; at++)
                    assert_int_equal(a.data[at], 0);
            float out[768];
            for (uint32_t r = n; r < 16; r++) {
                panel_decode_row(&l, a.data, r, out);
                for (uint32_t c = 0; c < cols; c++)
                    assert_true(out[c] == 0.0f);
            }
        }
        kernel_check_free(&rows);
        kernel_check_free(&a);
        kernel_check_free(&b);
    }
}

static void planes_lie_where_the_header_says(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        uint32_t cols;
        uint32_t panel_bytes, high, sub, submin, d, m;
    } cases[] = {
        {BLOCK_F32, 3, 192, 192, 192, 192, 192, 192},
        {BLOCK_F16, 3, 128, 128, 128, 128, 128, 128},
        {BLOCK_BF16, 3, 128, 128, 128, 128, 128, 128},
        {BLOCK_Q8_0, 96, 1664, 1664, 1664, 1664, 1536, 1664},
        {BLOCK_Q4_0, 32, 320, 320, 320, 320, 256, 320},
        {BLOCK_Q4_1, 32, 384, 384, 384, 384, 256, 320},
        {BLOCK_Q5_0, 64, 704, 512, 704, 704, 640, 704},
        {BLOCK_Q5_1, 64, 768, 512, 768, 768, 640, 704},
        {BLOCK_Q4_K, 256, 2432, 2432, 2048, 2176, 2304, 2368},
        {BLOCK_Q5_K, 256, 2944, 2048, 2560, 2688, 2816, 2880},
        {BLOCK_Q6_K, 256, 3392, 2048, 3072, 3392, 3328, 3392},
        {BLOCK_Q2_K, 256, 1408, 1408, 1024, 1408, 1280, 1344},
        {BLOCK_Q3_K, 256, 1856, 1024, 1536, 1856, 1792, 1856},
        {BLOCK_IQ4_XS, 256, 2240, 2240, 2048, 2240, 2176, 2240},
        {BLOCK_IQ2_S, 256, 1728, 1024, 1536, 1728, 1664, 1728},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct panel_layout l;
        assert_true(panel_layout_init(&l, cases[i].type, 33, cases[i].cols));
        assert_int_equal(l.type, cases[i].type);
        assert_int_equal(l.rows, 33);
        assert_int_equal(l.cols, cases[i].cols);
        assert_int_equal(l.panels, 3);
        assert_int_equal(l.panel_bytes, cases[i].panel_bytes);
        assert_int_equal(l.high, cases[i].high);
        assert_int_equal(l.sub, cases[i].sub);
        assert_int_equal(l.submin, cases[i].submin);
        assert_int_equal(l.d, cases[i].d);
        assert_int_equal(l.m, cases[i].m);
        assert_int_equal(l.bytes, 3 * cases[i].panel_bytes);
    }
}

static void offsets_are_aligned(void **state) {
    (void)state;
    uint64_t seed = testing_seed("offsets_are_aligned");
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t type = types[testing_below(&seed, N_TYPES)];
        struct panel_layout l;
        assert_true(panel_layout_init(&l, type, 1 + testing_below(&seed, 1u << 20),
                                      block_info(type)->values * (1 + testing_below(&seed, 2000))));
        const uint32_t at[] = {l.panel_bytes, l.high, l.sub, l.submin, l.d, l.m};
        for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
            assert_int_equal(at[i] % PANEL_ALIGN, 0);
            assert_true(at[i] > 0 && at[i] <= l.panel_bytes);
        }
    }
}

/* Single weights at their bytes, computed here from the header's words. */
static void bits_lie_where_the_header_says(void **state) {
    (void)state;
    struct panel_layout l;
    uint8_t panel[4096];
    /* Q5_1, two blocks, row 9, column 32 + 4 * 6 + 2: step 6, byte 2; quant 0x15. */
    uint8_t q5[16 * 48] = {0};
    uint8_t *block = q5 + 9 * 48 + 24;
    uint32_t j = 26;
    block[4 + j / 8] = (uint8_t)(1u << j % 8);
    block[8 + j - 16] = 0x50;
    block[3] = 0x3C;
    assert_true(panel_layout_init(&l, BLOCK_Q5_1, 16, 64));
    panel_pack(&l, q5, 16, panel);
    assert_int_equal(panel[1 * 256 + (6 - 4) * 64 + 9 * 4 + 2], 0x50);
    assert_int_equal(panel[l.high + 64 + 9 * 4 + 2], 1 << 6);
    assert_int_equal(panel[l.m + (16 + 9) * 2 + 1], 0x3C);
    /* Q6_K, row 3, column 128 + 32 + 4 * 5 + 1: 32-block 5, step 5 = 4 + 1, byte 1; quant 0x29, scale 10 is
     * -7. */
    uint8_t q6[16 * 210] = {0};
    block = q6 + 3 * 210;
    block[64 + 32 + 21] = 0x09;
    block[128 + 32 + 21] = 2 << 2;
    block[192 + 11] = (uint8_t)-7;
    assert_true(panel_layout_init(&l, BLOCK_Q6_K, 16, 256));
    panel_pack(&l, q6, 16, panel);
    assert_int_equal(panel[5 * 256 + 1 * 64 + 3 * 4 + 1], 0x90);
    assert_int_equal(panel[l.high + (5 * 2 + 1) * 64 + 3 * 4 + 1], 2 << 2);
    assert_int_equal(panel[l.sub + 11 * 16 + 3], (uint8_t)-7);
    /* Q4_K, row 15: scale and minimum of the last 32-block are 0x3F and 0x2A. */
    uint8_t q4[16 * 144] = {0};
    block = q4 + 15 * 144;
    block[4 + 3] = 3 << 6;
    block[4 + 7] = 2 << 6;
    block[4 + 11] = 0xAF;
    assert_true(panel_layout_init(&l, BLOCK_Q4_K, 16, 256));
    panel_pack(&l, q4, 16, panel);
    assert_int_equal(panel[l.sub + 7 * 16 + 15], 0x3F);
    assert_int_equal(panel[l.submin + 7 * 16 + 15], 0x2A);
    /* Q3_K, row 5, column 32 * 3 + 4 * 6 + 1: 32-block 3, step 6 = 4 + 2, byte 1; quant 6, scale 7 is 0x2A
     * - 32. */
    uint8_t q3[16 * 110] = {0};
    block = q3 + 5 * 110;
    block[25] = 1 << 3;
    block[32 + 25] = 2 << 6;
    block[96 + 7] = 0x0A;
    block[96 + 8 + 3] = 2 << 2;
    assert_true(panel_layout_init(&l, BLOCK_Q3_K, 16, 256));
    panel_pack(&l, q3, 16, panel);
    assert_int_equal(panel[3 * 128 + 1 * 64 + 5 * 4 + 1], 2 << 4);
    assert_int_equal(panel[l.high + 3 * 64 + 5 * 4 + 1], 1 << 6);
    assert_int_equal(panel[l.sub + 7 * 16 + 5], 0x0A);
    /* Q2_K, row 1: scale and minimum of the 16 columns from 80 on lie together, as in the file. */
    uint8_t q2[16 * 84] = {0};
    q2[84 + 5] = 0xC7;
    assert_true(panel_layout_init(&l, BLOCK_Q2_K, 16, 256));
    panel_pack(&l, q2, 16, panel);
    assert_int_equal(panel[l.sub + 5 * 16 + 1], 0xC7);
    /* IQ2_S, row 4: the scales of columns 96 to 111 and 112 to 127 are 2 * 9 + 1 and 2 * 12 + 1. */
    uint8_t iq2[16 * 82] = {0};
    iq2[4 * 82 + 74 + 3] = 0xC9;
    assert_true(panel_layout_init(&l, BLOCK_IQ2_S, 16, 256));
    panel_pack(&l, iq2, 16, panel);
    assert_int_equal(panel[l.sub + 3 * 16 + 4], 0xC9);
    /* BF16, three columns: row 2 of the last one, and zero where a fourth would be. */
    const uint16_t bf[3 * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 0xABCD};
    assert_true(panel_layout_init(&l, BLOCK_BF16, 3, 3));
    panel_pack(&l, bf, 3, panel);
    assert_int_equal(panel[64 + 2 * 4], 0xCD);
    assert_int_equal(panel[64 + 2 * 4 + 1], 0xAB);
    assert_int_equal(panel[64 + 2 * 4 + 2] | panel[64 + 2 * 4 + 3], 0);
}

static void absurd_sizes_are_refused(void **state) {
    (void)state;
    struct panel_layout l;
    assert_false(panel_layout_init(&l, BLOCK_F32, 0, 32));
    assert_false(panel_layout_init(&l, BLOCK_F32, 32, 0));
    assert_false(panel_layout_init(&l, BLOCK_Q4_K, 1, 128));
    assert_false(panel_layout_init(&l, BLOCK_Q8_0, 1, 33));
    assert_false(panel_layout_init(&l, 15, 1, 256)); /* sized only */
    assert_false(panel_layout_init(&l, BLOCK_Q1_0, 1, 64));
    assert_false(panel_layout_init(&l, BLOCK_NVFP4, 1, 32));
    assert_false(panel_layout_init(&l, 4, 1, 256));
    assert_false(panel_layout_init(&l, UINT32_MAX, 1, 256));
    assert_false(panel_layout_init(&l, BLOCK_F32, 1ull << 32, 32));
    assert_false(panel_layout_init(&l, BLOCK_F32, 1, 1ull << 32));
    assert_false(panel_layout_init(&l, BLOCK_F32, 1, UINT64_MAX));
    assert_false(panel_layout_init(&l, BLOCK_Q4_0, UINT64_MAX, UINT64_MAX / 32 * 32));
    assert_false(panel_layout_init(&l, BLOCK_F32, 1, 1u << 26)); /* a panel of 4 GiB exactly */
    assert_true(panel_layout_init(&l, BLOCK_F32, UINT32_MAX, (1u << 26) - 1));
    assert_int_equal(l.panel_bytes, UINT32_MAX - 63);
    assert_int_equal(l.panels, 1u << 28);
    assert_int_equal(l.bytes, (uint64_t)l.panels * l.panel_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_loses_nothing),
        cmocka_unit_test(packing_writes_every_byte),
        cmocka_unit_test(planes_lie_where_the_header_says),
        cmocka_unit_test(offsets_are_aligned),
        cmocka_unit_test(bits_lie_where_the_header_says),
        cmocka_unit_test(absurd_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
