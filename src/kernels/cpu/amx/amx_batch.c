/* Matmul of many tokens with AMX int8 tiles: 16 tokens times 16 rows. A segment of k at a time: its
 * activations are packed once for all panels of the call, panels are unpacked once for all tokens; both
 * packed forms lie in the caller's work memory. Sums leave the tiles through memory, so the float step of one
 * group of tiles runs while the next group is multiplied. Fewer tokens, and floats, are left to the AVX-512
 * tier. No state; any thread.
 *
 * 32-value types: a tile of 32 columns is the integer of a block. K types: an integer has 256 columns and
 * sub-scales; the scale goes into the weights, v = low + 8 * high (Q4_K, Q5_K: both planes are the quant
 * times three bits of the scale, at most 31 * 7) or v = low + 128 * high (Q6_K: the product's bits), and both
 * planes are summed in int32 over the 256 columns before they are put together. What this costs is counted in
 * kernels/cpu/README.md. */
#include "kernels/cpu/amx/amx_batch.h"

#include "base/check.h"
#include "kernels/cpu/avx512/avx512_batch.h"
#include "kernels/cpu/avx512/avx512_unpack.h"

/* Fewer tokens are faster without tiles. */
#define LEAST_TOKENS AMX_LEAST
#define GROUP        4 /* tiles of sums that are written together */

/* Where a token tile's sums of a segment go. */
struct place {
    float *out;
    size_t stride;
    uint32_t tokens; /* of the tile that exist */
    bool first;      /* segment */
};

MATMUL_INLINE void put_row(const struct place *to, uint32_t t, __m512 acc) {
    float *out = to->out + t * to->stride;
    _mm512_storeu_ps(out, _mm512_add_ps(to->first ? _mm512_setzero_ps() : _mm512_loadu_ps(out), acc));
}

static struct place place_of(const struct kernels_matmul *m, uint32_t panel, uint32_t token, uint32_t start) {
    return (struct place){.out = m->out + (size_t)token * m->out_stride + (size_t)panel * PANEL_ROWS,
                          .stride = m->out_stride,
                          .tokens = ARITH_MIN(m->tokens - token, (uint32_t)AMX_ROWS),
                          .first = start == 0};
}

/* Part of a call: one segment of k, of up to AMX_TOKENS tokens. */
struct part {
    const struct kernels_matmul *m;
    struct amx_work *work;
    uint32_t first;  /* token of the call */
    uint32_t tokens; /* >= 1 */
    uint32_t start;  /* column */
    uint32_t cols;
};

static struct amx_near32 *near32(const struct part *s, uint32_t tile) {
    return (struct amx_near32 *)(void *)(s->work + 1) + tile;
}

static struct amx_near256 *near256(const struct part *s, uint32_t tile) {
    return (struct amx_near256 *)(void *)(s->work + 1) + tile;
}

/* The activation row of token t of the part; tokens beyond the last repeat it. */
static size_t row_of(const struct part *s, uint32_t t) {
    return (size_t)s->m->first + s->first + ARITH_MIN(t, s->tokens - 1);
}

/* Asks for bytes that will be needed in a while. */
static void prefetch(const void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

/* The activations of a row, n columns from `start` on, in the form that the type needs. */
MATMUL_INLINE void prefetch_row(uint32_t type, const struct part *s, size_t row, size_t start, size_t n) {
    const struct kernels_act *a = s->m->a;
    const size_t at = row * s->m->l->cols + start;
    if (matmul_is_k(type)) {
        prefetch(a->q256 + at, n);
        prefetch(a->d256 + at / 256, n / 256 * sizeof *a->d256);
        prefetch(a->s256 + at / 16, n / 16 * sizeof *a->s256);
    } else {
        prefetch(a->q32 + at, n);
        prefetch(a->d32 + at / 32, n / 32 * sizeof *a->d32);
        if (matmul_has_m(type))
            prefetch(a->s32 + at / 32, n / 32 * sizeof *a->s32);
    }
}

/* Beside a token tile of a panel: its share of the next panel's quants and of the next segment's activations.
 * All at once they would keep the tile from its own loads. */
MATMUL_INLINE void prefetch_ahead(uint32_t type, const struct part *s, uint32_t panel, uint32_t tile) {
    const uint32_t n = s->m->n_panels;
    const uint32_t tiles = amx_tiles(s->tokens);
    if (panel + 1 < n) {
        const size_t lines = s->cols / 32 * matmul_block_bytes(type) / 64;
        const size_t from = lines * tile / tiles;
        prefetch(s->m->panels + (size_t)(panel + 1) * s->m->l->panel_bytes +
                     s->start / 32 * matmul_block_bytes(type) + 64 * from,
                 64 * (lines * (tile + 1) / tiles - from));
    }
    const size_t next = (size_t)s->start + s->cols;
    const size_t cols = ARITH_MIN(s->m->l->cols - next, (size_t)KERNELS_SEGMENT);
    const uint64_t step = (uint64_t)panel * tiles + tile;
    const uint64_t steps = (uint64_t)n * tiles;
    for (uint64_t t = s->tokens * step / steps; t < s->tokens * (step + 1) / steps && cols > 0; t++)
        prefetch_row(type, s, row_of(s, (uint32_t)t), next, cols);
}

/* --- 32-value types */

MATMUL_INLINE void bring32(uint32_t type, const struct part *s, uint32_t tile) {
    struct amx_near32 *x = near32(s, tile);
    const uint32_t blocks = s->cols / 32;
    const __mmask16 mask = (__mmask16)((1u << blocks) - 1);
    for (uint32_t t = 0; t < AMX_ROWS; t++) {
        size_t at = (row_of(s, AMX_ROWS * tile + t) * s->m->l->cols + s->start) / 32;
        const int8_t *q = s->m->a->q32 + 32 * at;
        for (uint32_t b = 0; b < blocks; b++)
            _mm256_store_si256((__m256i *)(void *)x->q[b][t],
                               _mm256_loadu_si256((const __m256i *)(const void *)(q + 32 * b)));
        _mm512_store_ps(x->d[t], _mm512_maskz_loadu_ps(mask, s->m->a->d32 + at));
        if (matmul_has_m(type)) {
            __m512i sums = _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(mask, s->m->a->s32 + at));
            _mm512_store_ps(x->sum[t], _mm512_cvtepi32_ps(sums));
        }
    }
}

/* Returns the quants as tiles. */
MATMUL_INLINE const int8_t *unpack32(uint32_t type, const struct part *s, const uint8_t *panel) {
    struct amx_weights32 *w = &s->work->weights32;
    const struct panel_layout *l = s->m->l;
    const uint32_t block = s->start / 32;
    const uint32_t blocks = s->cols / 32;
    const int32_t offset = type == BLOCK_Q8_0 ? 128 : matmul_offset(type); /* of unpack_steps */
    const uint8_t *quants = panel + block * matmul_block_bytes(type);
    const uint8_t *high = panel + l->high + (size_t)block * 64 * matmul_high_bits(type);
    for (uint32_t b = 0; b < blocks; b++) {
        _mm512_store_ps(w->d[b], unpack_f16(panel + l->d + (size_t)(block + b) * 32));
        if (matmul_has_m(type))
            _mm512_store_ps(w->m[b], unpack_f16(panel + l->m + (size_t)(block + b) * 32));
    }
    /* Whole groups of blocks are read: beyond the panel's last block lie other planes, or nothing. */
    if (type == BLOCK_Q8_0 && blocks % GROUP == 0)
        return (const int8_t *)quants;
    for (uint32_t b = 0; b < blocks; b++) {
        __m512i q[8];
        unpack_steps(type, quants, high, q);
        MATMUL_UNROLL
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
    MATMUL_UNROLL
    for (uint32_t t = 0; t < AMX_ROWS; t++) {
        __m512 da = _mm512_set1_ps(x->d[t][b]);
        __m512 i = _mm512_cvtepi32_ps(_mm512_load_si512(sums[t]));
        acc[t] = _mm512_fmadd_ps(i, _mm512_mul_ps(d, da), acc[t]);
        if (matmul_has_m(type))
            acc[t] = _mm512_fmadd_ps(_mm512_set1_ps(x->sum[t][b]), _mm512_mul_ps(least, da), acc[t]);
    }
}

#define MULTIPLY32(tile, weights, i)                                                                         \
    AMX_LOAD(4, q + (size_t)(i)*AMX_ROWS * 32, 32);                                                          \
    AMX_LOAD(weights, w + (size_t)(i)*512, 64);                                                              \
    AMX_ZERO(tile);                                                                                          \
    AMX_DOT(tile, 4, weights)

/* One panel: all token tiles, groups of blocks; a group's float step while the next one is multiplied.
 * quants: from unpack32. */
MATMUL_INLINE void panel32(uint32_t type, const struct part *s, uint32_t panel, const int8_t *quants) {
    const uint32_t groups = (s->cols / 32 + GROUP - 1) / GROUP;
    const uint32_t steps = groups * amx_tiles(s->tokens);
    __m512 acc[AMX_ROWS];
    MATMUL_UNROLL
    for (uint32_t t = 0; t < AMX_ROWS; t++)
        acc[t] = _mm512_setzero_ps();
    uint32_t tile = 0, group = 0, done_tile = 0, done = 0;
    for (uint32_t step = 0; step <= steps; step++) {
        int32_t(*to)[AMX_ROWS][16] = s->work->sums[step % 2];
        int32_t(*before)[AMX_ROWS][16] = s->work->sums[(step + 1) % 2];
        const int32_t(*from)[AMX_ROWS][16] = (const int32_t(*)[AMX_ROWS][16])before;
        if (group == 0 && step < steps)
            prefetch_ahead(type, s, panel, tile);
        const int8_t *q = near32(s, tile)->q[GROUP * group][0];
        const int8_t *w = quants + (size_t)GROUP * 512 * group;
        const struct amx_near32 *x = near32(s, done_tile);
        /* A tile is stored three products after its own: at once, the store would hold up what follows it. */
#define QUARTER(tile, weights, left, place, stored)                                                          \
    do {                                                                                                     \
        if (stored)                                                                                          \
            AMX_STORE(left, place);                                                                          \
        if (step < steps) {                                                                                  \
            MULTIPLY32(tile, weights, tile);                                                                 \
        }                                                                                                    \
        if (step > 0)                                                                                        \
            add_block(type, x, &s->work->weights32, GROUP *done + (tile), from[tile], acc);                  \
    } while (false)
        QUARTER(0, 6, 1, before[1], step > 0);
        QUARTER(1, 7, 2, before[2], step > 0);
        QUARTER(2, 6, 3, before[3], step > 0);
        QUARTER(3, 7, 0, to[0], step < steps);
#undef QUARTER
        if (step > 0 && ++done == groups) {
            struct place place = place_of(s->m, panel, s->first + AMX_ROWS * done_tile, s->start);
            MATMUL_UNROLL
            for (uint32_t t = 0; t < AMX_ROWS; t++) {
                if (t < place.tokens)
                    put_row(&place, t, acc[t]);
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

/* --- K types */

MATMUL_INLINE void bring256(const struct part *s, uint32_t tile) {
    struct amx_near256 *x = near256(s, tile);
    for (uint32_t t = 0; t < AMX_ROWS; t++)
        for (uint32_t super = 0; super < s->cols / 256; super++) {
            size_t at = (row_of(s, AMX_ROWS * tile + t) * s->m->l->cols + s->start) / 256 + super;
            const int8_t *q = s->m->a->q256 + 256 * at;
            for (uint32_t i = 0; i < 4; i++)
                _mm512_store_si512(x->q[super][i][t], _mm512_loadu_si512(q + (size_t)64 * i));
            x->d[super][t] = s->m->a->d256[at];
            __m256i s16 = _mm256_loadu_si256((const __m256i *)(const void *)(s->m->a->s256 + 16 * at));
            __m256i s32 = _mm256_madd_epi16(s16, _mm256_set1_epi16(1));
            _mm_store_si128((__m128i *)(void *)x->sum[super][t], _mm256_cvtepi32_epi16(s32));
        }
}

/* A number per row in both halves of its lane. */
MATMUL_INLINE __m512i twice(__m512i v) {
    return _mm512_or_si512(v, _mm512_slli_epi32(v, 16));
}

/* Four bytes per row, unsigned quants, become the two planes. scale: unpack_sub's. */
MATMUL_INLINE void scale_step(uint32_t type, __m512i q, __m512i scale, uint8_t low[64], uint8_t high[64]) {
    if (type != BLOCK_Q6_K) { /* no product of a byte reaches the next one */
        _mm512_store_si512(low, _mm512_mullo_epi16(q, twice(_mm512_and_si512(scale, _mm512_set1_epi32(7)))));
        _mm512_store_si512(high, _mm512_mullo_epi16(q, twice(_mm512_srli_epi32(scale, 3))));
        return;
    }
    const __m512i evens = _mm512_set1_epi16(0xFF);
    __m512i both = twice(_mm512_and_si512(scale, _mm512_set1_epi32(0xFFFF)));
    __m512i offset = _mm512_slli_epi16(both, 5);
    __m512i even = _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_and_si512(q, evens), both), offset);
    __m512i odd = _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(q, 8), both), offset);
    /* 0xCA: the mask chooses the second or the third. */
    __m512i bits = _mm512_ternarylogic_epi32(evens, even, _mm512_slli_epi16(odd, 8), 0xCA);
    _mm512_store_si512(low, _mm512_and_si512(bits, _mm512_set1_epi8(127)));
    _mm512_store_si512(
        high, _mm512_ternarylogic_epi32(evens, _mm512_srli_epi16(even, 7), _mm512_slli_epi16(odd, 1), 0xCA));
}

MATMUL_INLINE void unpack256(uint32_t type, const struct part *s, const uint8_t *panel, uint32_t super) {
    struct amx_weights256 *w = &s->work->weights256;
    const struct panel_layout *l = s->m->l;
    const uint32_t at = s->start / 256 + super;
    const uint8_t *quants = panel + (size_t)at * 2048;
    const uint8_t *high = panel + l->high + (size_t)at * 512 * matmul_high_bits(type);
    const uint8_t *sub = panel + l->sub + (size_t)at * (type == BLOCK_Q6_K ? 256 : 128);
    for (uint32_t b = 0; b < 8; b++) {
        uint8_t(*low)[64] = w->q[super][b / 2][0] + 8 * (b % 2);
        uint8_t(*up)[64] = w->q[super][b / 2][1] + 8 * (b % 2);
        __m512i q[8];
        unpack_steps(type, quants, high, q);
        __m512i scale = unpack_sub(type, sub);
        MATMUL_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            if (type == BLOCK_Q6_K && i == 4)
                scale = unpack_sub(type, sub + 16);
            scale_step(type, q[i], scale, low[i], up[i]);
        }
        quants += 256;
        high += (size_t)64 * matmul_high_bits(type);
        sub += type == BLOCK_Q6_K ? 32 : 16;
    }
    _mm512_store_ps(w->d[super], unpack_f16(panel + l->d + (size_t)at * 32));
    if (!matmul_has_m(type))
        return;
    _mm512_store_ps(w->m[super], unpack_f16(panel + l->m + (size_t)at * 32));
    const uint8_t *submin = panel + l->submin + (size_t)at * 128;
    for (uint32_t j = 0; j < 4; j++)
        _mm512_store_si512(
            w->least[super][j],
            _mm512_or_si512(unpack_sub(type, submin + (size_t)32 * j),
                            _mm512_slli_epi32(unpack_sub(type, submin + (size_t)32 * j + 16), 16)));
}

/* The float step of one super block of token t, added to acc. */
MATMUL_INLINE __m512 add_super(uint32_t type, const struct amx_weights256 *w, const struct amx_near256 *x,
                               uint32_t super, const int32_t (*sums)[AMX_ROWS][16], uint32_t t, __m512 acc) {
    __m512 da = _mm512_set1_ps(x->d[super][t]);
    __m512i high = _mm512_slli_epi32(_mm512_load_si512(sums[2 * super + 1][t]), type == BLOCK_Q6_K ? 7 : 3);
    __m512i i = _mm512_add_epi32(high, _mm512_load_si512(sums[2 * super][t]));
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i), _mm512_mul_ps(_mm512_load_ps(w->d[super]), da), acc);
    if (!matmul_has_m(type))
        return acc;
    __m512i least = _mm512_setzero_si512();
    MATMUL_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        least = _mm512_dpwssd_epi32(least, _mm512_load_si512(w->least[super][j]),
                                    _mm512_set1_epi32(matmul_load32(x->sum[super][t] + (size_t)2 * j)));
    return _mm512_fnmadd_ps(_mm512_cvtepi32_ps(least), _mm512_mul_ps(_mm512_load_ps(w->m[super]), da), acc);
}

#define DOT256(sum, weights)                                                                                 \
    if (type == BLOCK_Q6_K)                                                                                  \
        AMX_DOT(sum, 4, weights);                                                                            \
    else                                                                                                     \
        AMX_DOT_UNSIGNED(sum, 4, weights)

/* 64 columns of a token tile into two tiles of sums. w: both planes. */
#define MULTIPLY256(k, low, up)                                                                              \
    do {                                                                                                     \
        AMX_ADDRESSES;                                                                                       \
        AMX_LOAD(4, q, 64);                                                                                  \
        if ((k) == 0) {                                                                                      \
            AMX_ZERO(low);                                                                                   \
            AMX_ZERO(up);                                                                                    \
        }                                                                                                    \
        AMX_ADDRESSES;                                                                                       \
        AMX_LOAD(5, w, 64);                                                                                  \
        DOT256(low, 5);                                                                                      \
        AMX_LOAD(6, w + 1024, 64);                                                                           \
        DOT256(up, 6);                                                                                       \
    } while (false)

/* One panel: all token tiles; a tile's float step while the next one is multiplied. supers: of the segment.
 * The second super block's sums are stored when the next tile has begun: sooner they would hold up what
 * follows. */
MATMUL_INLINE void panel256(uint32_t type, uint32_t supers, const struct part *s, uint32_t panel) {
    const struct amx_weights256 *weights = &s->work->weights256;
    const uint32_t tiles = amx_tiles(s->tokens);
    const uint32_t share = AMX_ROWS / (4 * supers); /* tokens of a float step beside each multiplication */
    for (uint32_t tile = 0; tile <= tiles; tile++) {
        int32_t(*to)[AMX_ROWS][16] = s->work->sums[tile % 2];
        int32_t(*left)[AMX_ROWS][16] = s->work->sums[(tile + 1) % 2];
        const int32_t(*from)[AMX_ROWS][16] = (const int32_t(*)[AMX_ROWS][16])left;
        const uint32_t before = tile > 0 ? tile - 1 : 0;
        const struct amx_near256 *x = near256(s, before);
        const struct place place = place_of(s->m, panel, s->first + AMX_ROWS * before, s->start);
        const uint32_t rows = tile > 0 ? place.tokens : 0;
        const int8_t *q = near256(s, tile)->q[0][0][0];
        const uint8_t *w = weights->q[0][0][0][0];
        if (tile < tiles)
            prefetch_ahead(type, s, panel, tile);
        MATMUL_UNROLL
        for (uint32_t super = 0; super < supers; super++)
            for (uint32_t k = 0; k < 4; k++) {
                if (tile < tiles) {
                    if (super == 0)
                        MULTIPLY256(k, 0, 1);
                    else
                        MULTIPLY256(k, 2, 3);
                    q += (size_t)64 * AMX_ROWS;
                    w += 2048;
                }
                if (supers == 1 && k == 3) {
                    AMX_STORE(0, to[0]);
                    AMX_STORE(1, to[1]);
                } else if (supers > 1 && k == 0 && super == 0 && tile > 0) {
                    AMX_STORE(2, left[2]);
                    AMX_STORE(3, left[3]);
                } else if (supers > 1 && k == 0 && super == 1 && tile < tiles) {
                    AMX_STORE(0, to[0]);
                    AMX_STORE(1, to[1]);
                }
                MATMUL_UNROLL
                for (uint32_t i = 0; i < share; i++) {
                    uint32_t t = (4 * super + k) * share + i;
                    if (t >= rows)
                        break;
                    __m512 acc = add_super(type, weights, x, 0, from, t, _mm512_setzero_ps());
                    if (supers > 1)
                        acc = add_super(type, weights, x, 1, from, t, acc);
                    put_row(&place, t, acc);
                }
            }
    }
}

/* --- a segment */

/* Packs the activations of all tokens, a tile behind the prefetch. */
MATMUL_INLINE void bring_all(uint32_t type, const struct part *s) {
    for (uint32_t tile = 0; tile < amx_tiles(s->tokens); tile++) {
        for (uint32_t t = 0; t < AMX_ROWS; t++)
            prefetch_row(type, s, row_of(s, AMX_ROWS * (tile + 1) + t), s->start, s->cols);
        if (matmul_is_k(type))
            bring256(s, tile);
        else
            bring32(type, s, tile);
    }
}

MATMUL_INLINE void segment32(uint32_t type, const struct part *s) {
    const struct panel_layout *l = s->m->l;
    amx_configure(32);
    bring_all(type, s);
    for (uint32_t p = 0; p < s->m->n_panels; p++) {
        const uint8_t *panel = s->m->panels + (size_t)p * l->panel_bytes;
        panel32(type, s, p, unpack32(type, s, panel));
    }
}

MATMUL_INLINE void segment256(uint32_t type, const struct part *s) {
    const struct panel_layout *l = s->m->l;
    amx_configure(64);
    bring_all(type, s);
    for (uint32_t p = 0; p < s->m->n_panels; p++) {
        const uint8_t *panel = s->m->panels + (size_t)p * l->panel_bytes;
        for (uint32_t super = 0; super < s->cols / 256; super++)
            unpack256(type, s, panel, super);
        if (s->cols == KERNELS_SEGMENT)
            panel256(type, AMX_SUPERS, s, p);
        else
            panel256(type, 1, s, p);
    }
}

/* --- calls */

MATMUL_INLINE void batch(uint32_t type, const struct kernels_matmul *m) {
    CHECK(m->work != NULL && (uintptr_t)m->work % 64 == 0);
    for (uint32_t t = 0; t < m->tokens; t += AMX_TOKENS)
        for (uint32_t start = 0; start < m->l->cols; start += KERNELS_SEGMENT) {
            struct part s = {.m = m,
                             .work = m->work,
                             .first = t,
                             .tokens = ARITH_MIN(m->tokens - t, (uint32_t)AMX_TOKENS),
                             .start = start,
                             .cols = ARITH_MIN(m->l->cols - start, (uint32_t)KERNELS_SEGMENT)};
            if (matmul_is_k(type))
                segment256(type, &s);
            else
                segment32(type, &s);
        }
    amx_release();
}

#define ENTRY(name, type)                                                                                    \
    static void matmul_##name(const struct kernels_matmul *m) {                                              \
        if (m->tokens < LEAST_TOKENS)                                                                        \
            avx512_matmul(type, m);                                                                          \
        else                                                                                                 \
            batch(type, m);                                                                                  \
    }
ENTRY(q4_0, BLOCK_Q4_0)
ENTRY(q4_1, BLOCK_Q4_1)
ENTRY(q5_0, BLOCK_Q5_0)
ENTRY(q5_1, BLOCK_Q5_1)
ENTRY(q8_0, BLOCK_Q8_0)
ENTRY(q4_k, BLOCK_Q4_K)
ENTRY(q5_k, BLOCK_Q5_K)
ENTRY(q6_k, BLOCK_Q6_K)

void amx_batch_init(struct kernels *k) {
    k->tier = "amx";
    k->matmul[BLOCK_Q4_0] = matmul_q4_0;
    k->matmul[BLOCK_Q4_1] = matmul_q4_1;
    k->matmul[BLOCK_Q5_0] = matmul_q5_0;
    k->matmul[BLOCK_Q5_1] = matmul_q5_1;
    k->matmul[BLOCK_Q8_0] = matmul_q8_0;
    k->matmul[BLOCK_Q4_K] = matmul_q4_k;
    k->matmul[BLOCK_Q5_K] = matmul_q5_k;
    k->matmul[BLOCK_Q6_K] = matmul_q6_k;
}
