/* Matmuls of many tokens unpack a segment of some panels, then multiply for a while from near memory. What
 * they unpack next is asked for beside that, a few lines at a time: all at once they would keep it from its
 * own loads. No state; any thread. */
#ifndef STATOR_KERNELS_CPU_MATMUL_AHEAD_H
#define STATOR_KERNELS_CPU_MATMUL_AHEAD_H

#include "base/arith.h"
#include "base/check.h"
#include "kernels/cpu/matmul_types.h"
#include "kernels/cpu/prefetch.h"

#define MATMUL_AHEAD_PIECES 12 /* the planes of two panels */

/* Places are bytes from the call's panels on: they may lie behind them, where nothing is. */
struct matmul_ahead {
    const uint8_t *panels;
    struct {
        size_t at;
        size_t lines;
    } piece[MATMUL_AHEAD_PIECES];
    uint32_t pieces;
    uint32_t next; /* piece */
    size_t at;
    size_t lines; /* left of the piece before */
    size_t step;  /* lines */
};

MATMUL_INLINE void matmul_ahead_add(struct matmul_ahead *a, size_t plane, size_t at, size_t bytes) {
    CHECK(a->pieces < MATMUL_AHEAD_PIECES);
    a->piece[a->pieces].at = plane + at;
    a->piece[a->pieces++].lines = (bytes + 63) / 64;
}

/* A segment of a panel, from column `start` on. */
MATMUL_INLINE void matmul_ahead_panel(uint32_t type, struct matmul_ahead *a, const struct panel_layout *l,
                                      size_t panel, size_t start) {
    const size_t cols = ARITH_MIN(l->cols - start, (size_t)KERNELS_SEGMENT);
    if (matmul_is_float(type)) {
        const size_t column = type == BLOCK_F32 ? 64 : 32;
        matmul_ahead_add(a, panel, start * column, cols * column);
        return;
    }
    const size_t quants = matmul_block_bytes(type), high = (size_t)64 * matmul_high_bits(type);
    matmul_ahead_add(a, panel, start / 32 * quants, cols / 32 * quants);
    if (high > 0)
        matmul_ahead_add(a, panel + l->high, start / 32 * high, cols / 32 * high);
    const size_t block = matmul_is_k(type) ? 256 : 32, sub = matmul_sub_bytes(type);
    const size_t scale = matmul_scale_bytes(type);
    matmul_ahead_add(a, panel + l->d, start / block * scale, cols / block * scale);
    if (matmul_has_m(type))
        matmul_ahead_add(a, panel + l->m, start / block * 32, cols / block * 32);
    if (matmul_is_k(type))
        matmul_ahead_add(a, panel + l->sub, start / 256 * sub, cols / 256 * sub);
    if (matmul_is_k(type) && matmul_has_m(type) && type != BLOCK_Q2_K)
        matmul_ahead_add(a, panel + l->submin, start / 256 * sub, cols / 256 * sub);
}

/* What is read after the segment at `start` of the call's panels up to `end`, the last n of those, in so many
 * steps: the segment of the next n, or the next one of the first, or what lies behind the call's panels,
 * probably the next call's. */
MATMUL_INLINE struct matmul_ahead matmul_ahead_after(uint32_t type, const struct kernels_matmul *m,
                                                     uint32_t start, uint32_t end, uint32_t n, size_t steps) {
    CHECK(steps > 0);
    size_t panel = 0;
    if (end < m->n_panels) {
        panel = (size_t)end * m->l->panel_bytes;
    } else if (m->l->cols - start > KERNELS_SEGMENT) {
        start += KERNELS_SEGMENT;
    } else {
        panel = (size_t)m->n_panels * m->l->panel_bytes;
        start = 0;
    }
    struct matmul_ahead a = {.panels = m->panels};
    for (uint32_t p = 0; p < n; p++)
        matmul_ahead_panel(type, &a, m->l, panel + (size_t)p * m->l->panel_bytes, start);
    size_t lines = 0;
    for (uint32_t i = 0; i < a.pieces; i++)
        lines += a.piece[i].lines;
    a.step = (lines + steps - 1) / steps;
    return a;
}

MATMUL_INLINE void matmul_ahead_step(struct matmul_ahead *a) {
    for (size_t n = a->step; n > 0; n--) {
        if (a->lines == 0) {
            if (a->next == a->pieces)
                return;
            a->at = a->piece[a->next].at;
            a->lines = a->piece[a->next++].lines;
        }
        prefetch_line(a->panels, a->at);
        a->at += 64;
        a->lines--;
    }
}

#endif
