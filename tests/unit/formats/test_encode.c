/* formats/encode: ggml's bytes where they are promised, not more error than ggml's quantiser elsewhere,
 * weights, and numbers that no scale of a type can hold. */
#include "kernel_check.h"

#include "formats/block_grids.h"
#include "formats/block_parts.h"
#include "formats/encode.h"

#include <math.h>

#define COLS 1024

/* How much of the sum of squares of uniform numbers a round trip may lose: what was measured, and 2 % more.
 * fnv: of the bytes that ggml_quantize_chunk (llama.cpp v0.5.0) makes of ggml_input. */
static const struct type {
    uint32_t type;
    double lost;
    uint64_t fnv; /* 0: our own search */
} types[] = {
    {BLOCK_F32, 0, 0},
    {BLOCK_F16, 3.52e-8, 0xbf8f6d8aee605732},
    {BLOCK_BF16, 2.16e-6, 0x5d329fd030966229},
    {BLOCK_Q8_0, 1.44e-5, 0x9abdfd9423efaacf},
    {BLOCK_Q4_0, 4.43e-3, 0x1a08df3dd6670434},
    {BLOCK_Q4_1, 3.71e-3, 0x824b2de8254e0744},
    {BLOCK_Q5_0, 9.65e-4, 0x8230cbb6c0b8d6f9},
    {BLOCK_Q5_1, 8.72e-4, 0xb7882efc1a575c99},
    {BLOCK_Q2_K, 4.73e-2, 0},
    {BLOCK_Q3_K, 1.40e-2, 0},
    {BLOCK_Q4_K, 3.02e-3, 0},
    {BLOCK_Q5_K, 7.32e-4, 0},
    {BLOCK_Q6_K, 1.59e-4, 0},
    {BLOCK_IQ4_NL, 4.04e-3, 0},
    {BLOCK_IQ4_XS, 4.09e-3, 0},
    {BLOCK_MXFP4, 9.44e-3, 0},
    {BLOCK_IQ3_S, 1.54e-2, 0},
    {BLOCK_IQ3_XXS, 3.14e-2, 0},
    {BLOCK_IQ2_S, 5.21e-2, 0},
    {BLOCK_IQ2_XS, 7.77e-2, 0},
    {BLOCK_IQ2_XXS, 1.07e-1, 0},
    {BLOCK_IQ1_M, 1.37e-1, 0},
    {BLOCK_IQ1_S, 1.54e-1, 0},
    {BLOCK_NVFP4, 6.22e-3, 0},
    {BLOCK_Q1_0, 2.53e-1, 0},
    {BLOCK_Q2_0, 9.62e-2, 0},
    {BLOCK_TQ1_0, 2.59e-1, 0x6cd20d18a2fbeba0},
    {BLOCK_TQ2_0, 2.59e-1, 0x45ef5c9384d39a08},
};
#define N_TYPES (sizeof types / sizeof types[0])

static bool is_ternary(uint32_t type) {
    return type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0;
}

/* Sizes of several values are one point of a grid. */
static const struct grid_type {
    uint32_t type;
    uint32_t group; /* values of a point */
    uint32_t n;     /* points */
    const uint16_t *points;
} grid_types[] = {{BLOCK_IQ3_S, 4, 512, block_grid_iq3_s},     {BLOCK_IQ3_XXS, 4, 256, block_grid_iq3_xxs},
                  {BLOCK_IQ2_S, 8, 1024, block_grid_iq2_s},    {BLOCK_IQ2_XS, 8, 512, block_grid_iq2_xs},
                  {BLOCK_IQ2_XXS, 8, 256, block_grid_iq2_xxs}, {BLOCK_IQ1_M, 8, 2048, block_grid_iq1},
                  {BLOCK_IQ1_S, 8, 2048, block_grid_iq1}};
#define N_GRID_TYPES (sizeof grid_types / sizeof grid_types[0])

/* The least size of these is not 0: zeros beside a large number become something else. */
static bool has_no_zero(uint32_t type) {
    for (size_t i = 0; i < N_GRID_TYPES; i++)
        if (grid_types[i].type == type)
            return true;
    return type == BLOCK_Q1_0;
}

/* None among ../shared's. */
static bool has_vectors(uint32_t type) {
    return type != BLOCK_F32 && !is_ternary(type) && type != BLOCK_NVFP4 && type != BLOCK_Q1_0 &&
           type != BLOCK_Q2_0;
}

static double error_of(uint32_t type, const uint8_t *row, const float *x, const float *w, uint64_t n) {
    float *out = malloc(n * sizeof *out);
    double sum = 0;
    block_decode_row(type, row, out, n);
    for (uint64_t i = 0; i < n; i++) {
        const double off = (double)x[i] - (double)out[i];
        sum += (w != NULL ? (double)w[i] : 1) * off * off;
    }
    free(out);
    return sum;
}

static uint64_t row_bytes(uint32_t type) {
    uint64_t bytes = 0;
    assert_true(block_row_bytes(type, COLS, &bytes));
    return bytes;
}

static void bytes_of_ggml(void **state) {
    (void)state;
    enum { ROWS = 16 };
    static float x[ROWS * COLS]; /* ggml_input */
    uint64_t seed = 11;
    for (size_t i = 0; i < ROWS * COLS; i++) {
        const float u = testing_uniform(&seed);
        x[i] = i / COLS % 2 == 1 ? u * u * u : u;
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        if (types[i].fnv == 0)
            continue;
        uint64_t fnv = 0xcbf29ce484222325;
        for (size_t r = 0; r < ROWS; r++) {
            struct kernel_check_buffer row = kernel_check_alloc(row_bytes(types[i].type));
            encode_row(types[i].type, x + r * COLS, NULL, row.data, COLS);
            for (size_t b = 0; b < row.bytes; b++)
                fnv = (fnv ^ row.data[b]) * 0x100000001b3;
            kernel_check_free(&row);
        }
        if (fnv != types[i].fnv)
            fail_msg("%s: other bytes than ggml's", block_info(types[i].type)->name);
    }
}

/* The vectors were made with an importance matrix of their own: here all columns count alike. */
static void vectors_of_ggml(void **state) {
    (void)state;
    TESTING_NEED_SHARED("oracles/quants/source.f32");
    size_t n_source = 0;
    float *source = testing_read_file(testing_shared("oracles/quants/source.f32"), &n_source);
    assert_int_equal(n_source, 8 * COLS * sizeof *source);
    float ones[COLS];
    for (size_t i = 0; i < COLS; i++)
        ones[i] = 1;
    for (size_t i = 0; i < N_TYPES; i++) {
        const uint32_t type = types[i].type;
        const uint64_t bytes = row_bytes(type);
        char name[64];
        if (!has_vectors(type))
            continue;
        snprintf(name, sizeof name, "oracles/quants/%s.bin", block_info(type)->name);
        assert_non_null(testing_shared(name));
        uint8_t *theirs = testing_read_file(testing_shared(name), NULL);
        double a = 0, b = 0;
        for (size_t r = 0; r < 8; r++) {
            struct kernel_check_buffer ours = kernel_check_alloc(bytes);
            encode_row(type, source + r * COLS, ones, ours.data, COLS);
            a += error_of(type, ours.data, source + r * COLS, NULL, COLS);
            b += error_of(type, theirs + r * bytes, source + r * COLS, NULL, COLS);
            kernel_check_free(&ours);
        }
        if (!(a <= b))
            fail_msg("%s: squared error %g, ggml's is %g", block_info(type)->name, a, b);
        free(theirs);
    }
    free(source);
}

static void a_round_trip_loses_little(void **state) {
    (void)state;
    uint64_t seed = 7;
    float x[COLS];
    double all = 0;
    for (size_t i = 0; i < COLS; i++) {
        x[i] = testing_uniform(&seed);
        all += (double)x[i] * (double)x[i];
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        struct kernel_check_buffer row = kernel_check_alloc(row_bytes(types[i].type));
        encode_row(types[i].type, x, NULL, row.data, COLS);
        const double lost = error_of(types[i].type, row.data, x, NULL, COLS) / all;
        print_message("%-7s %.3e\n", block_info(types[i].type)->name, lost);
        if (!(lost <= types[i].lost))
            fail_msg("%s loses %.3e, expected at most %.3e", block_info(types[i].type)->name, lost,
                     types[i].lost);
        kernel_check_free(&row);
    }
}

/* What counts gets more of the precision: the error as it is weighted falls. */
static void weights_are_heeded(void **state) {
    (void)state;
    uint64_t seed = 8;
    float x[COLS], w[COLS];
    for (size_t i = 0; i < COLS; i++) {
        x[i] = testing_uniform(&seed);
        w[i] = i % 7 == 0 ? 50 : 1;
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        const uint32_t type = types[i].type;
        if (type == BLOCK_Q8_0 || is_ternary(type) || block_info(type)->values == 1)
            continue;
        struct kernel_check_buffer with = kernel_check_alloc(row_bytes(type)),
                                   without = kernel_check_alloc(row_bytes(type));
        encode_row(type, x, w, with.data, COLS);
        encode_row(type, x, NULL, without.data, COLS);
        const double a = error_of(type, with.data, x, w, COLS), b = error_of(type, without.data, x, w, COLS);
        if (!(a < 0.985 * b))
            fail_msg("%s: %g with weights, %g without", block_info(type)->name, a, b);
        kernel_check_free(&with);
        kernel_check_free(&without);
    }
}

/* Weights of 0 all over a block are no weights; a few zeros are no reason for anything that is not finite. */
static void weights_of_zero(void **state) {
    (void)state;
    uint64_t seed = 9;
    float x[COLS], zero[COLS] = {0}, ones[COLS], some[COLS] = {0};
    for (size_t i = 0; i < COLS; i++) {
        x[i] = testing_uniform(&seed);
        ones[i] = 1;
        some[i] = i % 32 == 5;
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        const uint32_t type = types[i].type;
        struct kernel_check_buffer a = kernel_check_alloc(row_bytes(type)),
                                   b = kernel_check_alloc(row_bytes(type));
        encode_row(type, x, zero, a.data, COLS);
        encode_row(type, x, ones, b.data, COLS);
        assert_memory_equal(a.data, b.data, a.bytes);
        encode_row(type, x, some, a.data, COLS);
        assert_true(isfinite(error_of(type, a.data, x, NULL, COLS)));
        kernel_check_free(&a);
        kernel_check_free(&b);
    }
}

/* Numbers beyond what a scale can hold become what is nearest, never a NaN. (F16 has infinities for them.) */
static void extreme_numbers(void **state) {
    (void)state;
    static const float sizes[] = {0, 0x1p-149f, 1e-40f, 1e-7f, 1, 60000, 1e6f, 1e30f, 3.4e38f};
    for (size_t i = 0; i < N_TYPES; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            for (int shape = 0; shape < 4; shape++) {
                const uint32_t type = types[i].type;
                float x[COLS], out[COLS];
                for (size_t c = 0; c < COLS; c++)
                    x[c] = shape == 0   ? sizes[k]
                           : shape == 1 ? -sizes[k]
                           : shape == 2 ? (c % 2 == 0 ? sizes[k] : -sizes[k])
                                        : (c % 64 == 3 ? sizes[k] : 0);
                struct kernel_check_buffer row = kernel_check_alloc(row_bytes(type));
                encode_row(type, x, NULL, row.data, COLS);
                block_decode_row(type, row.data, out, COLS);
                for (size_t c = 0; c < COLS; c++) {
                    if (isnan(out[c]))
                        fail_msg("%s: %g in shape %d becomes a NaN", block_info(type)->name, (double)sizes[k],
                                 shape);
                    if (sizes[k] == 0 && out[c] != 0)
                        fail_msg("%s: zeros become %g", block_info(type)->name, (double)out[c]);
                    if (sizes[k] >= 1e6f && shape < 3 && (has_no_zero(type) || type == BLOCK_NVFP4) &&
                        fabsf(out[c]) < 2000)
                        fail_msg("%s: %g in shape %d becomes %g", block_info(type)->name, (double)x[c], shape,
                                 (double)out[c]);
                    if (sizes[k] == 1 && x[c] != 0 && !(shape == 3 && has_no_zero(type)) &&
                        fabsf(out[c] - x[c]) > 0.15f)
                        fail_msg("%s: %g in shape %d becomes %g", block_info(type)->name, (double)x[c], shape,
                                 (double)out[c]);
                }
                kernel_check_free(&row);
            }
}

static void a_block_does_not_know_its_neighbours(void **state) {
    (void)state;
    uint64_t seed = 10;
    float x[COLS], w[COLS];
    for (size_t i = 0; i < COLS; i++) {
        x[i] = testing_uniform(&seed) * (float)(1 + i / 256);
        w[i] = 1.5f + testing_uniform(&seed);
    }
    for (size_t i = 0; i < N_TYPES; i++) {
        const uint32_t type = types[i].type;
        struct kernel_check_buffer whole = kernel_check_alloc(row_bytes(type)),
                                   parts = kernel_check_alloc(row_bytes(type));
        encode_row(type, x, w, whole.data, COLS);
        for (size_t p = 0; p < 4; p++)
            encode_row(type, x + 256 * p, w + 256 * p, parts.data + p * parts.bytes / 4, 256);
        assert_memory_equal(whole.data, parts.data, whole.bytes);
        kernel_check_free(&whole);
        kernel_check_free(&parts);
    }
}

/* Whatever a processor has: ordinary numbers, and those that leave the range of floats on the way. */
static void tiers_give_the_same_bytes(void **state) {
    (void)state;
    if (encode_best_tier() == ENCODE_ANY)
        skip();
    const float sizes[] = {1, 1e-30f, 1e30f, 3e38f};
    uint64_t seed = 23;
    for (size_t i = 0; i < N_TYPES; i++)
        for (size_t k = 0; k < 16; k++) {
            float x[COLS], w[COLS];
            struct kernel_check_buffer plain = kernel_check_alloc(row_bytes(types[i].type));
            struct kernel_check_buffer wide = kernel_check_alloc(row_bytes(types[i].type));
            for (size_t c = 0; c < COLS; c++) {
                const float u = testing_uniform(&seed);
                x[c] = sizes[k % 4] * (k / 4 % 2 == 1 ? u * u * u : u);
                w[c] = fabsf(testing_uniform(&seed));
            }
            encode_row_by(ENCODE_ANY, types[i].type, x, k < 8 ? NULL : w, plain.data, COLS);
            encode_row_by(ENCODE_AVX2, types[i].type, x, k < 8 ? NULL : w, wide.data, COLS);
            assert_memory_equal(plain.data, wide.data, plain.bytes);
            kernel_check_free(&plain);
            kernel_check_free(&wide);
        }
}

/* With the scale and the signs (of IQ1: the shift) that a block has, no other point is nearer: all are tried.
 */
static void no_point_is_nearer(const struct grid_type *g, const uint8_t *block, const float *x,
                               const float *w) {
    struct block_parts p;
    const uint32_t bits = g->group == 8 ? 2 : 3, each = 256 / block_subs(g->type);
    block_take_apart(g->type, block, &p);
    for (uint32_t first = 0; first < 256; first += g->group) {
        const double s = (double)(p.d * block_factor(g->type)) * p.sub[first / each];
        double least = INFINITY, chosen = 0;
        for (uint32_t point = 0; point <= g->n; point++) { /* the last: what was chosen */
            double error = 0;
            for (uint32_t i = 0; i < g->group; i++) {
                const uint8_t code = p.q[first + i];
                const uint8_t size = (uint8_t)(g->points[point % g->n] >> bits * i & ((1u << bits) - 1));
                const int v =
                    block_integer(g->type, point < g->n ? (uint8_t)((code & (1u << bits)) | size) : code);
                const double off = (double)x[first + i] - s * v;
                error += (double)w[first + i] * off * off;
            }
            if (point < g->n)
                least = fmin(least, error);
            else
                chosen = error;
        }
        if (!(chosen <= least * 1.0001 + 1e-9))
            fail_msg("%s: the point of values %u.. has an error of %g, another %g", block_info(g->type)->name,
                     first, chosen, least);
    }
}

static void the_nearest_points_are_found(void **state) {
    (void)state;
    uint64_t seed = 31;
    for (size_t i = 0; i < N_GRID_TYPES; i++)
        for (int k = 0; k < 24; k++) {
            float x[256], w[256];
            uint8_t block[128];
            for (size_t c = 0; c < 256; c++) {
                const float u = testing_uniform(&seed);
                x[c] = k % 3 == 0 ? u : k % 3 == 1 ? u * u * u : c % 16 < 3 ? 0 : u;
                w[c] = k < 12 ? 1 : fabsf(testing_uniform(&seed));
            }
            encode_row(grid_types[i].type, x, w, block, 256);
            no_point_is_nearer(&grid_types[i], block, x, w);
        }
}

/* A grid's own points come back: what is lost is that a search for scales is no exhaustive one. */
static void points_of_grids_come_back(void **state) {
    (void)state;
    static const double most[N_GRID_TYPES] = {1.2e-4, 3.5e-5, 1.3e-4, 1.1e-3, 3.8e-5, 8.5e-5, 1e-9};
    uint64_t seed = 37;
    for (size_t i = 0; i < N_GRID_TYPES; i++) {
        const uint32_t type = grid_types[i].type;
        double lost = 0, all = 0;
        for (int k = 0; k < 64; k++) {
            uint8_t block[128], again[128];
            float x[256], w[256];
            for (size_t b = 0; b < block_info(type)->bytes; b++)
                block[b] = (uint8_t)((testing_uniform(&seed) + 1) * 127.9f);
            block_put_scales(type, block, 0.03125f, 0);
            block_decode_row(type, block, x, 256);
            for (size_t c = 0; c < 256; c++) {
                w[c] = 1;
                all += (double)x[c] * (double)x[c];
            }
            encode_row(type, x, w, again, 256);
            lost += error_of(type, again, x, NULL, 256);
        }
        print_message("%-7s %.3e\n", block_info(type)->name, lost / all);
        if (!(lost <= most[i] * all))
            fail_msg("%s loses %.3e of its own points, expected at most %.3e", block_info(type)->name,
                     lost / all, most[i]);
    }
}

/* What a format can hold comes back as it was. */
static void few_bits_are_exact(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        int least, most;
        float d;
    } cases[] = {{BLOCK_Q1_0, 0, 1, 0.375f},  {BLOCK_Q2_0, -1, 1, 0.375f},  {BLOCK_Q2_0, -1, 2, 0.375f},
                 {BLOCK_Q2_0, 0, 2, -0.125f}, {BLOCK_NVFP4, 0, 15, 0.375f}, {BLOCK_NVFP4, 0, 15, 104}};
    uint64_t seed = 41;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t type = cases[i].type;
        struct kernel_check_buffer row = kernel_check_alloc(row_bytes(type));
        float x[COLS];
        for (size_t c = 0; c < COLS; c++) {
            const int span = cases[i].most - cases[i].least + 1;
            const int v = cases[i].least + (int)((testing_uniform(&seed) + 1) * 0.4999f * (float)span);
            x[c] = cases[i].d * (type == BLOCK_Q1_0    ? v == 0 ? -1 : 1
                                 : type == BLOCK_NVFP4 ? (float)block_mxfp4_values[v]
                                                       : (float)v);
        }
        encode_row(type, x, NULL, row.data, COLS);
        if (error_of(type, row.data, x, NULL, COLS) != 0)
            fail_msg("%s: case %zu is not exact", block_info(type)->name, i);
        kernel_check_free(&row);
    }
}

static void types_that_can_be_written(void **state) {
    (void)state;
    for (uint32_t type = 0; type < BLOCK_TYPES + 2; type++) {
        bool listed = false;
        for (size_t i = 0; i < N_TYPES; i++)
            listed = listed || types[i].type == type;
        assert_int_equal(encode_can(type), listed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_ggml),
        cmocka_unit_test(vectors_of_ggml),
        cmocka_unit_test(a_round_trip_loses_little),
        cmocka_unit_test(weights_are_heeded),
        cmocka_unit_test(weights_of_zero),
        cmocka_unit_test(extreme_numbers),
        cmocka_unit_test(a_block_does_not_know_its_neighbours),
        cmocka_unit_test(tiers_give_the_same_bytes),
        cmocka_unit_test(the_nearest_points_are_found),
        cmocka_unit_test(points_of_grids_come_back),
        cmocka_unit_test(few_bits_are_exact),
        cmocka_unit_test(types_that_can_be_written),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
