/* What the AMX matmuls share: 16 tokens times 16 rows. A segment of k at a time: panels are unpacked once for
 * all tokens, into the caller's work memory; activations are loaded as tiles from where they lie. Sums leave
 * the tiles through memory, so the float step of one group of tiles runs while the next group is multiplied.
 * What this costs is counted in kernels/cpu/README.md. No state; any thread. */
#ifndef STATOR_KERNELS_CPU_AMX_PART_H
#define STATOR_KERNELS_CPU_AMX_PART_H

#include "base/check.h"
#include "kernels/cpu/amx/amx_batch.h"
#include "kernels/cpu/avx512/avx512_batch.h"
#include "kernels/cpu/avx512/avx512_unpack.h"
#include "kernels/cpu/prefetch.h"

_Static_assert(AMX_ROWS == ACT_TILE_ROWS && KERNELS_SEGMENT == ACT_TILE_SEGMENT,
               "act_tiles.h is made for this");

/* Part of a call: one segment of k, of up to AMX_TOKENS tokens. */
struct amx_part {
    const struct kernels_matmul *m;
    struct amx_work *work;
    uint32_t first;  /* token of the call */
    uint32_t tokens; /* >= 1 */
    uint32_t start;  /* column */
    uint32_t cols;
};

/* The activation row of token t of the part; tokens beyond the last repeat it. */
MATMUL_INLINE size_t amx_part_row(const struct amx_part *s, uint32_t t) {
    return (size_t)s->m->first + s->first + ARITH_MIN(t, s->tokens - 1);
}

MATMUL_INLINE const int8_t *amx_part_q(uint32_t type, const struct amx_part *s) {
    return matmul_is_k(type) ? s->m->a->q256 : s->m->a->q32;
}

MATMUL_INLINE enum act_tile amx_part_form(uint32_t type) {
    return matmul_is_k(type) ? ACT_TILE_256 : ACT_TILE_32;
}

/* The segment's quants of a token tile. Rows beyond the last token are any bytes. */
MATMUL_INLINE const int8_t *amx_part_quants(uint32_t type, const struct amx_part *s, uint32_t tile) {
    const size_t row = (size_t)s->m->first + s->first + AMX_ROWS * tile;
    return amx_part_q(type, s) +
           act_tiles_at(s->m->a->tile_rows, amx_part_form(type), s->m->l->cols, row, s->start);
}

MATMUL_INLINE float *amx_part_out(const struct amx_part *s, uint32_t panel, uint32_t tile) {
    return s->m->out + panel * s->m->out_panel + (size_t)(s->first + AMX_ROWS * tile) * PANEL_ROWS;
}

/* Tokens of the tile that exist. */
MATMUL_INLINE uint32_t amx_part_tokens(const struct amx_part *s, uint32_t tile) {
    return AMX_ROWS * tile < s->tokens ? ARITH_MIN(s->tokens - AMX_ROWS * tile, (uint32_t)AMX_ROWS) : 0;
}

/* A segment's sums of a token are added to those of the segments before. */
MATMUL_INLINE void amx_part_put(float *out, bool first_segment, __m512 acc) {
    _mm512_storeu_ps(out, _mm512_add_ps(first_segment ? _mm512_setzero_ps() : _mm512_loadu_ps(out), acc));
}

/* Bytes that will be needed in a while, asked for a step at a time beside the work: all at once they would
 * keep it from its own loads. */
struct amx_ahead {
    const char *next;
    const char *end;
    size_t step;
};

MATMUL_INLINE struct amx_ahead amx_ahead_over(const void *from, size_t bytes, size_t steps) {
    CHECK(steps > 0);
    return (struct amx_ahead){
        .next = from, .end = (const char *)from + bytes, .step = (bytes / steps + 63) / 64 * 64};
}

MATMUL_INLINE void amx_ahead_step(struct amx_ahead *a) {
    const char *end = a->step < (size_t)(a->end - a->next) ? a->next + a->step : a->end;
    for (; a->next < end; a->next += 64)
        prefetch_line(a->next, 0);
    a->next = end;
}

/* The next segment's quants of the part's tokens, over all panels. */
MATMUL_INLINE struct amx_ahead amx_ahead_quants(uint32_t type, const struct amx_part *s) {
    const size_t start = (size_t)s->start + s->cols;
    const size_t cols = ARITH_MIN(s->m->l->cols - start, (size_t)KERNELS_SEGMENT);
    const size_t tiles = amx_tiles(s->tokens);
    if (cols == 0)
        return (struct amx_ahead){0};
    const size_t at = act_tiles_at(s->m->a->tile_rows, amx_part_form(type), s->m->l->cols,
                                   (size_t)s->m->first + s->first, start);
    return amx_ahead_over(amx_part_q(type, s) + at, tiles * AMX_ROWS * cols, tiles * s->m->n_panels);
}

/* The next panel's quants, over all token tiles. */
MATMUL_INLINE struct amx_ahead amx_ahead_panel(uint32_t type, const struct amx_part *s, uint32_t panel) {
    if (panel + 1 == s->m->n_panels)
        return (struct amx_ahead){0};
    const size_t block = matmul_block_bytes(type);
    return amx_ahead_over(s->m->panels + (size_t)(panel + 1) * s->m->l->panel_bytes + s->start / 32 * block,
                          s->cols / 32 * block, amx_tiles(s->tokens));
}

/* Fewer tokens, and activations that are not tiles from `first` on, are left to the AVX-512 tier. */
MATMUL_INLINE bool amx_part_takes(const struct kernels_matmul *m) {
    return m->tokens >= AMX_LEAST && m->a->tile_rows != 0 && m->first % ACT_TILE_PAIR == 0;
}

/* Defines matmul_NAME, a member of struct kernels' matmul[]: SEGMENT(type, part) for each part of the call.
 */
#define AMX_PART_ENTRY(name, type, SEGMENT)                                                                  \
    static void matmul_##name(const struct kernels_matmul *m) {                                              \
        if (!amx_part_takes(m)) {                                                                            \
            avx512_matmul(type, m);                                                                          \
            return;                                                                                          \
        }                                                                                                    \
        CHECK(m->work != NULL && (uintptr_t)m->work % 64 == 0);                                              \
        for (uint32_t t = 0; t < m->tokens; t += AMX_TOKENS)                                                 \
            for (uint32_t start = 0; start < m->l->cols; start += KERNELS_SEGMENT) {                         \
                struct amx_part s = {.m = m,                                                                 \
                                     .work = m->work,                                                        \
                                     .first = t,                                                             \
                                     .tokens = ARITH_MIN(m->tokens - t, (uint32_t)AMX_TOKENS),               \
                                     .start = start,                                                         \
                                     .cols = ARITH_MIN(m->l->cols - start, (uint32_t)KERNELS_SEGMENT)};      \
                SEGMENT(type, &s);                                                                           \
            }                                                                                                \
        amx_release();                                                                                       \
    }

#endif
