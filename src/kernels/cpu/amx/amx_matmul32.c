/* Matmul of 32-value types with AMX: a tile of 32 columns is the integer of a block (see amx_part.h). */
#include "kernels/cpu/amx/amx_part.h"

#define GROUP 4 /* tiles of sums that are written together */

static struct amx_near32 *near32(const struct amx_part *s, uint32_t tile) {
    return (struct amx_near32 *)(void *)(s->work + 1) + tile;
}

MATMUL_INLINE void bring32(uint32_t type, const struct amx_part *s, uint32_t tile) {
    struct amx_near32 *x = near32(s, tile);
    const __mmask16 mask = (__mmask16)((1u << s->cols / 32) - 1);
    for (uint32_t t = 0; t < AMX_ROWS; t++) {
        size_t at = (amx_part_row(s, AMX_ROWS * tile + t) * s->m->l->cols + s->start) / 32;
        _mm512_store_ps(x->d[t], _mm512_maskz_loadu_ps(mask, s->m->a->d32 + at));
        if (matmul_has_m(type)) {
            __m512i sums = _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(mask, s->m->a->s32 + at));
            _mm512_store_ps(x->sum[t], _mm512_cvtepi32_ps(sums));
        }
    }
}

/* Returns the quants as tiles. */
MATMUL_INLINE const int8_t *unpack32(uint32_t type, const struct amx_part *s, const uint8_t *panel) {
    struct amx_weights32 *w = &s->work->weights32;
    const struct panel_layout *l = s->m->l;
    const uint32_t block = s->start / 32;
    const uint32_t blocks = s->cols / 32;
    const int32_t offset = unpack_offset(type);
    const uint8_t *quants = panel + block * matmul_block_bytes(type);
    const uint8_t *high = panel + l->high + (size_t)block * 64 * matmul_high_bits(type);
    for (uint32_t b = 0; b < blocks; b++) {
        _mm512_store_ps(w->d[b], unpack_scale(type, panel + l->d, block + b));
        if (matmul_has_m(type))
            _mm512_store_ps(w->m[b], unpack_f16(panel + l->m + (size_t)(block + b) * 32));
    }
    /* Whole groups of blocks are read: beyond the panel's last block lie other planes, or nothing. */
    if (type == BLOCK_Q8_0 && blocks % GROUP == 0)
        return (const int8_t *)quants;
    for (uint32_t b = 0; b < blocks; b++) {
        __m512i q[8];
        unpack_steps(type, l, quants, high, q);
        UNROLL
        for (uint32_t i = 0; i < 8; i++)
            _mm512_store_si512(w->q[b][i], _mm512_sub_epi8(q[i], _mm512_set1_epi8((char)offset)));
        quants += matmul_block_bytes(type);
        high += (size_t)64 * matmul_high_bits(type);
    }
    for (uint32_t b = blocks; b % GROUP != 0; b++) {
        _mm512_store_ps(w->d[b], _mm512_setzero_ps());
        _mm512_store_ps(w->m[b], _mm512_setzero_ps());
    }
    return w->q[0][0];
}

/* The float step of block b of a token tile. */
MATMUL_INLINE void add_block(uint32_t type, const struct amx_near32 *x, const struct amx_weights32 *w,
                             uint32_t b, const int32_t (*sums)[16], __m512 *acc) {
    __m512 d = _mm512_load_ps(w->d[b]);
    __m512 least = matmul_has_m(type) ? _mm512_load_ps(w->m[b]) : d;
    UNROLL
    for (uint32_t t = 0; t < AMX_ROWS; t++) {
        __m512 da = _mm512_set1_ps(x->d[t][b]);
        __m512 i = _mm512_cvtepi32_ps(_mm512_load_si512(sums[t]));
        acc[t] = _mm512_fmadd_ps(i, _mm512_mul_ps(d, da), acc[t]);
        if (matmul_has_m(type))
            acc[t] = _mm512_fmadd_ps(_mm512_set1_ps(x->sum[t][b]), _mm512_mul_ps(least, da), acc[t]);
    }
}

#define MULTIPLY32(tile, weights)                                                                            \
    do {                                                                                                     \
        AMX_LOAD(4, q + (size_t)(tile)*AMX_ROWS * 32, 32);                                                   \
        AMX_LOAD(weights, w + (size_t)(tile)*512, 64);                                                       \
        AMX_ZERO(tile);                                                                                      \
        AMX_DOT(tile, 4, weights);                                                                           \
    } while (false)

/* One panel: all token tiles, groups of blocks; a group's float step while the next one is multiplied.
 * quants: from unpack32; next: of amx_ahead_quants. */
MATMUL_INLINE void panel32(uint32_t type, const struct amx_part *s, uint32_t panel, const int8_t *quants,
                           struct amx_ahead *next) {
    const uint32_t groups = (s->cols / 32 + GROUP - 1) / GROUP;
    const uint32_t steps = groups * amx_tiles(s->tokens);
    __m512 acc[AMX_ROWS];
    UNROLL
    for (uint32_t t = 0; t < AMX_ROWS; t++)
        acc[t] = _mm512_setzero_ps();
    uint32_t tile = 0, group = 0, done_tile = 0, done = 0;
    struct amx_ahead ahead = amx_ahead_panel(type, s, panel);
    for (uint32_t step = 0; step <= steps; step++) {
        int32_t(*to)[AMX_ROWS][16] = s->work->sums[step % 2];
        int32_t(*before)[AMX_ROWS][16] = s->work->sums[(step + 1) % 2];
        const int32_t(*from)[AMX_ROWS][16] = (const int32_t(*)[AMX_ROWS][16])before;
        if (group == 0 && step < steps) {
            amx_ahead_step(&ahead);
            amx_ahead_step(next);
        }
        const int8_t *q = amx_part_quants(type, s, tile) + (size_t)GROUP * AMX_ROWS * 32 * group;
        /* A segment's last group may be short: what then is left in a tile is multiplied with d = 0. */
        const uint32_t here = step < steps ? s->cols / 32 - GROUP * group : 0;
        const int8_t *w = quants + (size_t)GROUP * 512 * group;
        const struct amx_near32 *x = near32(s, done_tile);
        /* A tile is stored three products after its own: at once, the store would hold up what follows it. */
#define QUARTER(tile, weights, left, place, stored)                                                          \
    do {                                                                                                     \
        if (stored)                                                                                          \
            AMX_STORE(left, place);                                                                          \
        if ((tile) < here)                                                                                   \
            MULTIPLY32(tile, weights);                                                                       \
        if (step > 0)                                                                                        \
            add_block(type, x, &s->work->weights32, GROUP *done + (tile), from[tile], acc);                  \
    } while (false)
        QUARTER(0, 6, 1, before[1], step > 0);
        QUARTER(1, 7, 2, before[2], step > 0);
        QUARTER(2, 6, 3, before[3], step > 0);
        QUARTER(3, 7, 0, to[0], step < steps);
#undef QUARTER
        if (step > 0 && ++done == groups) {
            float *out = amx_part_out(s, panel, done_tile);
            const uint32_t tokens = amx_part_tokens(s, done_tile);
            UNROLL
            for (uint32_t t = 0; t < AMX_ROWS; t++) {
                if (t < tokens)
                    amx_part_put(out + t * PANEL_ROWS, s->start == 0, acc[t]);
                acc[t] = _mm512_setzero_ps();
            }
            done = 0;
            done_tile++;
        }
        if (++group == groups) {
            group = 0;
            tile++;
        }
    }
}

MATMUL_INLINE void segment32(uint32_t type, const struct amx_part *s) {
    const struct panel_layout *l = s->m->l;
    amx_configure(32);
    for (uint32_t tile = 0; tile < amx_tiles(s->tokens); tile++)
        bring32(type, s, tile);
    struct amx_ahead next = amx_ahead_quants(type, s);
    for (uint32_t p = 0; p < s->m->n_panels; p++) {
        const uint8_t *panel = s->m->panels + (size_t)p * l->panel_bytes;
        panel32(type, s, p, unpack32(type, s, panel), &next);
    }
}

AMX_PART_ENTRY(q4_0, BLOCK_Q4_0, segment32)
AMX_PART_ENTRY(q4_1, BLOCK_Q4_1, segment32)
AMX_PART_ENTRY(q5_0, BLOCK_Q5_0, segment32)
AMX_PART_ENTRY(q5_1, BLOCK_Q5_1, segment32)
AMX_PART_ENTRY(q8_0, BLOCK_Q8_0, segment32)
AMX_PART_ENTRY(iq4_nl, BLOCK_IQ4_NL, segment32)
AMX_PART_ENTRY(mxfp4, BLOCK_MXFP4, segment32)

void amx_matmul32_init(struct kernels *k) {
    k->tier = "amx";
    k->matmul[BLOCK_Q4_0] = matmul_q4_0;
    k->matmul[BLOCK_Q4_1] = matmul_q4_1;
    k->matmul[BLOCK_Q5_0] = matmul_q5_0;
    k->matmul[BLOCK_Q5_1] = matmul_q5_1;
    k->matmul[BLOCK_Q8_0] = matmul_q8_0;
    k->matmul[BLOCK_IQ4_NL] = matmul_iq4_nl;
    k->matmul[BLOCK_MXFP4] = matmul_mxfp4;
}
