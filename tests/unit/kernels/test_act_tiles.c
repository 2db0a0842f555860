/* The order of int8 activations in memory: every quant has its own place, and rows are read back as they were
 * written. */
#include "testing.h"

#include "kernels/shared/act_tiles.h"

#include <stdlib.h>

static void every_quant_has_a_place(void **state) {
    (void)state;
    static const size_t widths[] = {64, 192, 256, 544, 800, 2048};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (int form = 0; form < 3; form++) {
            const size_t k = widths[w], rows = 2 * ACT_TILE_PAIR;
            uint8_t *seen = calloc(rows * k, 1);
            assert_non_null(seen);
            for (size_t row = 0; row < rows; row++)
                for (size_t column = 0; column < k; column++) {
                    size_t at =
                        act_tiles_at(form > 0 ? rows : 0,
                                     form == 2 && k % 64 == 0 ? ACT_TILE_256 : ACT_TILE_32, k, row, column);
                    assert_true(at < rows * k);
                    assert_int_equal(seen[at]++, 0);
                }
            free(seen);
        }
}

/* What AMX loads with one instruction: 64 (or 32) columns of 16 rows, one after the other. */
static void a_tile_is_contiguous(void **state) {
    (void)state;
    const size_t k = 1024, rows = 64;
    for (size_t row = 0; row < ACT_TILE_ROWS; row++) {
        assert_int_equal(act_tiles_at(rows, ACT_TILE_256, k, 16 + row, 64), 16 * 512 + 16 * 64 + row * 64);
        assert_int_equal(act_tiles_at(rows, ACT_TILE_32, k, 16 + row, 64), 16 * 512 + 16 * 64 + row * 32);
    }
    assert_int_equal(act_tiles_at(rows, ACT_TILE_256, k, 32, 512 + 64), 512 * rows + 32 * 512 + 16 * 64);
}

static void rows_come_back(void **state) {
    (void)state;
    uint64_t seed = testing_seed("rows_come_back");
    for (int round = 0; round < 200; round++) {
        const bool tiled = testing_below(&seed, 2) == 1;
        const enum act_tile form = testing_below(&seed, 2) == 1 ? ACT_TILE_256 : ACT_TILE_32;
        const size_t wide = (size_t)form, k = wide * (1 + testing_below(&seed, 20));
        const size_t rows = tiled ? ACT_TILE_PAIR : 7, tile_rows = tiled ? rows : 0;
        int8_t *plain = malloc(rows * k), *tiles = malloc(rows * k), *back = malloc(k);
        assert_true(plain != NULL && tiles != NULL && back != NULL);
        for (size_t i = 0; i < rows * k; i++)
            plain[i] = (int8_t)testing_below(&seed, 256);
        for (size_t row = 0; row < rows; row++) { /* in two parts */
            size_t first = wide * testing_below(&seed, k / wide);
            act_tiles_put(tiles, plain + row * k, tile_rows, form, k, row, 0, first);
            act_tiles_put(tiles, plain + row * k + first, tile_rows, form, k, row, first, k - first);
        }
        for (size_t row = 0; row < rows; row++) {
            size_t column = wide * testing_below(&seed, k / wide);
            size_t n = k - column;
            act_tiles_get(back, tiles, tile_rows, form, k, row, column, n);
            assert_memory_equal(back, plain + row * k + column, n);
            assert_int_equal(tiles[act_tiles_at(tile_rows, form, k, row, column)], plain[row * k + column]);
        }
        free(plain);
        free(tiles);
        free(back);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_quant_has_a_place),
        cmocka_unit_test(a_tile_is_contiguous),
        cmocka_unit_test(rows_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
