/* What the vector tiers' matmuls (AVX2 and up) share: a tile of tokens, what a type is made of (known at
 * compile time, so that one body serves all types), and the walk over the tokens in tiles. A tier's file
 * defines its tile function, then names the types. */
#ifndef STATOR_KERNELS_CPU_MATMUL_TILE_H
#define STATOR_KERNELS_CPU_MATMUL_TILE_H

#include "kernels/cpu/matmul_types.h"
#include "kernels/cpu/prefetch.h"

/* Few tokens wait for memory: ask for the large planes' bytes this far ahead. */
#define MATMUL_AHEAD 6144

struct matmul_tile {
    float *out; /* of the tile's first token */
    const struct panel_layout *l;
    const uint8_t *panel;
    const struct kernels_act *a;
    size_t first; /* the tile's first activation row */
    bool ahead;   /* the panel is read for the first time: prefetch */
};

/* Asks for `bytes` of a plane MATMUL_AHEAD after `at`; beyond the plane's end, for the next panel's. */
MATMUL_INLINE void matmul_prefetch(const struct matmul_tile *m, uint32_t plane, size_t plane_bytes, size_t at,
                                   size_t bytes) {
    size_t ahead = at + MATMUL_AHEAD;
    if (ahead >= plane_bytes)
        ahead += m->l->panel_bytes - plane_bytes;
    UNROLL
    for (size_t i = 0; i < bytes; i += 64)
        prefetch_line(m->panel, plane + ahead + i);
}

/* The same of small planes: the next panel's bytes there. */
MATMUL_INLINE void matmul_prefetch_next(const struct matmul_tile *m, uint32_t at, size_t bytes) {
    UNROLL
    for (size_t i = 0; i < bytes; i += 64)
        prefetch_line(m->panel, m->l->panel_bytes + at + i);
}

/* What 32-block b of a tile reads. */
MATMUL_INLINE void matmul_prefetch32(uint32_t type, const struct matmul_tile *m, size_t b) {
    const size_t quants = matmul_block_bytes(type);
    const size_t high = (size_t)64 * matmul_high_bits(type);
    const size_t blocks = m->l->cols / 32;
    matmul_prefetch(m, 0, blocks * quants, b * quants, quants);
    matmul_prefetch(m, m->l->high, blocks * high, b * high, high);
    if (!matmul_is_k(type) && b % 2 == 0) {
        matmul_prefetch_next(m, m->l->d + (uint32_t)(b * matmul_scale_bytes(type)), 64);
        if (matmul_has_m(type))
            matmul_prefetch_next(m, m->l->m + (uint32_t)b * 32, 64);
    }
}

/* What a super block reads besides its 32-blocks. */
MATMUL_INLINE void matmul_prefetch256(uint32_t type, const struct matmul_tile *m, uint32_t super) {
    const uint32_t sub = matmul_sub_bytes(type);
    matmul_prefetch_next(m, m->l->sub + super * sub, sub);
    matmul_prefetch_next(m, m->l->d + super * 32, 32);
    if (matmul_has_m(type)) {
        if (type != BLOCK_Q2_K)
            matmul_prefetch_next(m, m->l->submin + super * sub, sub);
        matmul_prefetch_next(m, m->l->m + super * 32, 32);
    }
}

/* Two columns of floats from k on. */
MATMUL_INLINE void matmul_prefetch_float(uint32_t type, const struct matmul_tile *m, size_t k) {
    const size_t column = type == BLOCK_F32 ? 64 : 32;
    matmul_prefetch(m, 0, m->l->panel_bytes, k * column, 2 * column);
}

/* Where a tile's quants lie from a column on, up to the end of its segment: in rows or in tiles
 * (act_tiles.h), but tokens and blocks are constant distances apart. */
struct matmul_quants {
    const int8_t *q;
    size_t token; /* bytes to the next one's */
    size_t block; /* bytes to the next 32 columns (q256: 64) */
};

MATMUL_INLINE struct matmul_quants matmul_quants(const struct matmul_tile *m, enum act_tile form,
                                                 size_t column) {
    const int8_t *q = form == ACT_TILE_32 ? m->a->q32 : m->a->q256;
    const bool tiled = m->a->tile_rows != 0;
    return (struct matmul_quants){q + act_tiles_at(m->a->tile_rows, form, m->l->cols, m->first, column),
                                  tiled ? (size_t)form : m->l->cols,
                                  tiled ? ACT_TILE_ROWS * (size_t)form : (size_t)form};
}

/* Rows from the tile's first on whose quants are so. */
MATMUL_INLINE uint32_t matmul_together(const struct matmul_tile *m) {
    return m->a->tile_rows == 0 ? UINT32_MAX : ACT_TILE_ROWS - (uint32_t)(m->first % ACT_TILE_ROWS);
}

/* Defines tiles_NAME: one panel, its tokens in tiles of MATMUL_TILE (4 or 8, the tier's), 4, 2 and 1 through
 * TILE(type, n, tile), which is inlined with constants; and matmul_NAME, a member of struct kernels'
 * matmul[]: many tokens go to BATCH(type, m) if that takes the call, else panel by panel. */
#define MATMUL_ENTRY(name, type, TILE, BATCH)                                                                \
    static void tiles_##name(struct matmul_tile tile, uint32_t tokens) {                                     \
        while (tokens > 0) {                                                                                 \
            const uint32_t left = ARITH_MIN(tokens, matmul_together(&tile));                                 \
            const uint32_t n = left >= MATMUL_TILE ? MATMUL_TILE : left >= 4 ? 4 : left >= 2 ? 2 : 1;        \
            if (n == MATMUL_TILE)                                                                            \
                TILE(type, MATMUL_TILE, &tile);                                                              \
            else if (n == 4)                                                                                 \
                TILE(type, 4, &tile);                                                                        \
            else if (n == 2)                                                                                 \
                TILE(type, 2, &tile);                                                                        \
            else                                                                                             \
                TILE(type, 1, &tile);                                                                        \
            tile.out += n * PANEL_ROWS;                                                                      \
            tile.first += n;                                                                                 \
            tile.ahead = false;                                                                              \
            tokens -= n;                                                                                     \
        }                                                                                                    \
    }                                                                                                        \
    static void matmul_##name(const struct kernels_matmul *m) {                                              \
        if (BATCH(type, m))                                                                                  \
            return;                                                                                          \
        for (uint32_t p = 0; p < m->n_panels; p++)                                                           \
            tiles_##name((struct matmul_tile){m->out + p * m->out_panel, m->l,                               \
                                              m->panels + (size_t)p * m->l->panel_bytes, m->a, m->first,     \
                                              true},                                                         \
                         m->tokens);                                                                         \
    }

/* All entries of a tier, and their way into the table. */
#define MATMUL_ENTRIES(TILE_FLOAT, TILE_32, TILE_256, BATCH)                                                 \
    MATMUL_ENTRY(f32, BLOCK_F32, TILE_FLOAT, BATCH)                                                          \
    MATMUL_ENTRY(f16, BLOCK_F16, TILE_FLOAT, BATCH)                                                          \
    MATMUL_ENTRY(bf16, BLOCK_BF16, TILE_FLOAT, BATCH)                                                        \
    MATMUL_ENTRY(q4_0, BLOCK_Q4_0, TILE_32, BATCH)                                                           \
    MATMUL_ENTRY(q4_1, BLOCK_Q4_1, TILE_32, BATCH)                                                           \
    MATMUL_ENTRY(q5_0, BLOCK_Q5_0, TILE_32, BATCH)                                                           \
    MATMUL_ENTRY(q5_1, BLOCK_Q5_1, TILE_32, BATCH)                                                           \
    MATMUL_ENTRY(q8_0, BLOCK_Q8_0, TILE_32, BATCH)                                                           \
    MATMUL_ENTRY(iq4_nl, BLOCK_IQ4_NL, TILE_32, BATCH)                                                       \
    MATMUL_ENTRY(mxfp4, BLOCK_MXFP4, TILE_32, BATCH)                                                         \
    MATMUL_ENTRY(q4_k, BLOCK_Q4_K, TILE_256, BATCH)                                                          \
    MATMUL_ENTRY(q5_k, BLOCK_Q5_K, TILE_256, BATCH)                                                          \
    MATMUL_ENTRY(q6_k, BLOCK_Q6_K, TILE_256, BATCH)                                                          \
    MATMUL_ENTRY(q2_k, BLOCK_Q2_K, TILE_256, BATCH)                                                          \
    MATMUL_ENTRY(q3_k, BLOCK_Q3_K, TILE_256, BATCH)                                                          \
    MATMUL_ENTRY(iq2_s, BLOCK_IQ2_S, TILE_256, BATCH)                                                        \
    MATMUL_ENTRY(iq4_xs, BLOCK_IQ4_XS, TILE_256, BATCH)                                                      \
    static void matmul_entries(struct kernels *k) {                                                          \
        k->matmul[BLOCK_F32] = matmul_f32;                                                                   \
        k->matmul[BLOCK_F16] = matmul_f16;                                                                   \
        k->matmul[BLOCK_BF16] = matmul_bf16;                                                                 \
        k->matmul[BLOCK_Q4_0] = matmul_q4_0;                                                                 \
        k->matmul[BLOCK_Q4_1] = matmul_q4_1;                                                                 \
        k->matmul[BLOCK_Q5_0] = matmul_q5_0;                                                                 \
        k->matmul[BLOCK_Q5_1] = matmul_q5_1;                                                                 \
        k->matmul[BLOCK_Q8_0] = matmul_q8_0;                                                                 \
        k->matmul[BLOCK_IQ4_NL] = matmul_iq4_nl;                                                             \
        k->matmul[BLOCK_MXFP4] = matmul_mxfp4;                                                               \
        k->matmul[BLOCK_Q4_K] = matmul_q4_k;                                                                 \
        k->matmul[BLOCK_Q5_K] = matmul_q5_k;                                                                 \
        k->matmul[BLOCK_Q6_K] = matmul_q6_k;                                                                 \
        k->matmul[BLOCK_Q2_K] = matmul_q2_k;                                                                 \
        k->matmul[BLOCK_Q3_K] = matmul_q3_k;                                                                 \
        k->matmul[BLOCK_IQ2_S] = matmul_iq2_s;                                                               \
        k->matmul[BLOCK_IQ4_XS] = matmul_iq4_xs;                                                             \
    }

#endif
