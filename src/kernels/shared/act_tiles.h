/* Where the quants of int8 activations lie (q32 and q256 of struct kernels_act). Values of fewer than
 * ACT_TILE_ROWS rows: row after row (rows = 0 below). Others are tiles as AMX loads them; the tiles of 512
 * columns lie together, or those that are used together would share few sets of the cache:
 *
 *   [k / 512][rows / 16][512 / wide][16][wide] int8, wide: 32 columns in q32, 64 in q256; the last 512 may be
 *   less
 *
 * with rows rounded up to ACT_TILE_PAIR, as kernels take tiles in pairs. Columns and counts are multiples of
 * wide. */
#ifndef STATOR_KERNELS_SHARED_ACT_TILES_H
#define STATOR_KERNELS_SHARED_ACT_TILES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ACT_TILE_ROWS    16
#define ACT_TILE_PAIR    (2 * ACT_TILE_ROWS)
#define ACT_TILE_SEGMENT 512

enum act_tile { ACT_TILE_32 = 32, ACT_TILE_256 = 64 }; /* the form: wide */

/* Offset of a quant in a value of `rows` rows (0, or a multiple of ACT_TILE_PAIR) of k. */
static inline size_t act_tiles_at(size_t rows, enum act_tile form, size_t k, size_t row, size_t column) {
    if (rows == 0)
        return row * k + column;
    const size_t wide = (size_t)form;
    const size_t segment = column / ACT_TILE_SEGMENT * ACT_TILE_SEGMENT;
    const size_t cols = k - segment < ACT_TILE_SEGMENT ? k - segment : ACT_TILE_SEGMENT;
    const size_t start = column % ACT_TILE_SEGMENT / wide * wide;
    return segment * rows + row / ACT_TILE_ROWS * ACT_TILE_ROWS * cols + start * ACT_TILE_ROWS +
           row % ACT_TILE_ROWS * wide + column % wide;
}

/* n quants of a row, from a column on. Copies of constant size are one register. */
static inline void act_tiles_get(int8_t *to, const int8_t *q, size_t rows, enum act_tile form, size_t k,
                                 size_t row, size_t column, size_t n) {
    for (size_t i = 0; i < n; i += (size_t)form) {
        const int8_t *from = q + act_tiles_at(rows, form, k, row, column + i);
        if (form == ACT_TILE_32)
            memcpy(to + i, from, ACT_TILE_32);
        else
            memcpy(to + i, from, ACT_TILE_256);
    }
}

static inline void act_tiles_put(int8_t *q, const int8_t *from, size_t rows, enum act_tile form, size_t k,
                                 size_t row, size_t column, size_t n) {
    for (size_t i = 0; i < n; i += (size_t)form) {
        int8_t *to = q + act_tiles_at(rows, form, k, row, column + i);
        if (form == ACT_TILE_32)
            memcpy(to, from + i, ACT_TILE_32);
        else
            memcpy(to, from + i, ACT_TILE_256);
    }
}

#endif
