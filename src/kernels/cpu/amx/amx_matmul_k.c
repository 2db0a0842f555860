/* Matmul of K types with AMX (see amx_part.h): an integer has 256 columns and sub-scales. The scale goes into
 * the weights, v = low + 8 * high (types with a minimum: both planes are the quant times three bits of the
 * scale, at most 31 * 7) or v = low + 128 * high (the others: the product's bits), and both planes are summed
 * in int32 over the 256 columns before they are put together. Two token tiles at a time share the loads of
 * weights. */
#include "kernels/cpu/amx/amx_part.h"

static struct amx_near256 *near256(const struct amx_part *s, uint32_t tile) {
    return (struct amx_near256 *)(void *)(s->work + 1) + tile;
}

MATMUL_INLINE void bring256(uint32_t type, const struct amx_part *s, uint32_t tile) {
    struct amx_near256 *x = near256(s, tile);
    for (uint32_t t = 0; t < AMX_ROWS; t++)
        for (uint32_t super = 0; super < s->cols / 256; super++) {
            size_t at = (amx_part_row(s, AMX_ROWS * tile + t) * s->m->l->cols + s->start) / 256 + super;
            x->d[super][t] = s->m->a->d256[at];
            if (!matmul_has_m(type))
                continue;
            __m256i s16 = _mm256_loadu_si256((const __m256i *)(const void *)(s->m->a->s256 + 16 * at));
            if (type == BLOCK_Q2_K) {
                _mm256_storeu_si256((__m256i *)(void *)x->sum[super][t], s16);
                continue;
            }
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
    if (matmul_has_m(type)) { /* no product of a byte reaches the next one */
        _mm512_store_si512(low, _mm512_mullo_epi16(q, twice(_mm512_and_si512(scale, _mm512_set1_epi32(7)))));
        _mm512_store_si512(high, _mm512_mullo_epi16(q, twice(_mm512_srli_epi32(scale, 3))));
        return;
    }
    const __m512i evens = _mm512_set1_epi16(0xFF);
    __m512i both = twice(_mm512_and_si512(scale, _mm512_set1_epi32(0xFFFF)));
    __m512i offset = _mm512_slli_epi16(both, (unsigned)__builtin_ctz((unsigned)unpack_offset(type)));
    __m512i even = _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_and_si512(q, evens), both), offset);
    __m512i odd = _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(q, 8), both), offset);
    /* 0xCA: the mask chooses the second or the third. */
    __m512i bits = _mm512_ternarylogic_epi32(evens, even, _mm512_slli_epi16(odd, 8), 0xCA);
    _mm512_store_si512(low, _mm512_and_si512(bits, _mm512_set1_epi8(127)));
    _mm512_store_si512(
        high, _mm512_ternarylogic_epi32(evens, _mm512_srli_epi16(even, 7), _mm512_slli_epi16(odd, 1), 0xCA));
}

MATMUL_INLINE void unpack256(uint32_t type, const struct amx_part *s, const uint8_t *panel, uint32_t super) {
    struct amx_weights256 *w = &s->work->weights256;
    const struct panel_layout *l = s->m->l;
    const uint32_t at = s->start / 256 + super;
    const uint8_t *quants = panel + at * 8 * matmul_block_bytes(type);
    const uint8_t *high = panel + l->high + (size_t)at * 512 * matmul_high_bits(type);
    const uint8_t *sub = panel + l->sub + (size_t)at * matmul_sub_bytes(type);
    const bool halves = matmul_subs(type) == 16;
    for (uint32_t b = 0; b < 8; b++) {
        uint8_t(*low)[64] = w->q[super][b / 2][0] + 8 * (b % 2);
        uint8_t(*up)[64] = w->q[super][b / 2][1] + 8 * (b % 2);
        __m512i q[8];
        unpack_steps(type, l, quants, high, q);
        __m512i scale = unpack_sub(type, sub, 0);
        UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            if (halves && i == 4)
                scale = unpack_sub(type, sub, 1);
            scale_step(type, q[i], scale, low[i], up[i]);
        }
        quants += matmul_block_bytes(type);
        high += (size_t)64 * matmul_high_bits(type);
        sub += matmul_sub_bytes(type) / 8;
    }
    _mm512_store_ps(w->d[super], unpack_scale256(type, l, panel, at));
    if (!matmul_has_m(type))
        return;
    _mm512_store_ps(w->m[super], unpack_f16(panel + l->m + (size_t)at * 32));
    for (uint32_t j = 0; j < matmul_subs(type); j += 2)
        _mm512_store_si512(w->least[super][j / 2], unpack_join(unpack_min(type, l, panel, at, j),
                                                               unpack_min(type, l, panel, at, j + 1)));
}

/* Whose float step runs beside products: two token tiles. Pointers are kept here, not found through a part:
 * among the stores the compiler would look them up each time. */
struct pair {
    const struct amx_weights256 *weights;
    const int32_t (*sums)[AMX_ROWS][16]; /* of the tiles: low, high, low, high */
    float (*acc)[AMX_ROWS][16];          /* of the first super block */
    const struct amx_near256 *x[2];
    float *out[2];
    uint32_t tokens[2];
    bool first; /* segment */
};

/* The float step of tokens t .. t + 3 of one of the pair's tiles in one super block of `supers`. */
MATMUL_INLINE void add_super(uint32_t type, uint32_t supers, uint32_t super, const struct pair *p,
                             uint32_t tile, uint32_t t) {
    const __m512 d = _mm512_load_ps(p->weights->d[super]);
    const __m512 m = matmul_has_m(type) ? _mm512_load_ps(p->weights->m[super]) : d;
    const uint32_t pairs = matmul_subs(type) / 2;
    __m512i minima[8];
    if (matmul_has_m(type)) {
        UNROLL
        for (uint32_t j = 0; j < pairs; j++)
            minima[j] = _mm512_load_si512(p->weights->least[super][j]);
    }
    const uint32_t end = t + 4;
    UNROLL
    for (; t < end; t++) {
        __m512 da = _mm512_set1_ps(p->x[tile]->d[super][t]);
        __m512i high = _mm512_load_si512(p->sums[2 * tile + 1][t]);
        __m512i i = _mm512_add_epi32(_mm512_slli_epi32(high, matmul_has_m(type) ? 3 : 7),
                                     _mm512_load_si512(p->sums[2 * tile][t]));
        __m512 acc = super == 0 ? _mm512_setzero_ps() : _mm512_load_ps(p->acc[tile][t]);
        acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i), _mm512_mul_ps(d, da), acc);
        if (matmul_has_m(type)) {
            __m512i least = _mm512_setzero_si512();
            UNROLL
            for (uint32_t j = 0; j < pairs; j++)
                least = _mm512_dpwssd_epi32(
                    least, minima[j],
                    _mm512_set1_epi32(matmul_load32(p->x[tile]->sum[super][t] + (size_t)2 * j)));
            acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(least), _mm512_mul_ps(m, da), acc);
        }
        if (super + 1 < supers)
            _mm512_store_ps(p->acc[tile][t], acc);
        else if (t < p->tokens[tile])
            amx_part_put(p->out[tile] + t * PANEL_ROWS, p->first, acc);
    }
}

#define DOT256(sum, act, weights)                                                                            \
    do {                                                                                                     \
        if (!matmul_has_m(type))                                                                             \
            AMX_DOT(sum, act, weights);                                                                      \
        else                                                                                                 \
            AMX_DOT_UNSIGNED(sum, act, weights);                                                             \
    } while (false)
/* The sums of the step before leave a tile where it is needed next: just after their last product the store
 * would hold up what follows it. */
#define BEGIN256(sum)                                                                                        \
    do {                                                                                                     \
        if (k == 0) {                                                                                        \
            if (before)                                                                                      \
                AMX_STORE(sum, sums[sum]);                                                                   \
            AMX_ZERO(sum);                                                                                   \
        }                                                                                                    \
    } while (false)
#define ADD256(half)                                                                                         \
    do {                                                                                                     \
        if (before)                                                                                          \
            add_super(type, supers, (super + supers - 1) % supers, &p, k / 2, k % 2 * 8 + 4 * (half));       \
    } while (false)

/* One super block of a pair of token tiles (their quants at q, the second `apart` bytes behind the first): 16
 * products with weights w, beside them the float step of the super block before, if there was one; p: whose
 * that was. Not live: nothing is left to multiply. */
MATMUL_INLINE void step256(uint32_t type, uint32_t supers, uint32_t super, const uint8_t *w, const int8_t *q,
                           struct pair p, int32_t (*sums)[AMX_ROWS][16], bool before, bool live) {
    const size_t apart = (size_t)AMX_ROWS * 256 * supers;
    UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        if (live) {
            AMX_ADDRESSES;
            AMX_LOAD(4, q, 64);
            AMX_LOAD(6, w, 64);
            BEGIN256(0);
            DOT256(0, 4, 6);
            AMX_LOAD(5, q + apart, 64);
            BEGIN256(2);
            DOT256(2, 5, 6);
            if (k > 0)
                ADD256(0);
            AMX_ADDRESSES;
            AMX_LOAD(6, w + 1024, 64);
            BEGIN256(1);
            DOT256(1, 4, 6);
            BEGIN256(3);
            DOT256(3, 5, 6);
            if (k == 0)
                ADD256(0);
            ADD256(1);
            q += AMX_ROWS * 64;
            w += 2048;
        } else {
            if (k == 0) {
                AMX_STORE(0, sums[0]);
                AMX_STORE(1, sums[1]);
                AMX_STORE(2, sums[2]);
                AMX_STORE(3, sums[3]);
            }
            ADD256(0);
            ADD256(1);
        }
    }
}

/* One panel: all token tiles. supers: of the segment. */
MATMUL_INLINE void panel256(uint32_t type, uint32_t supers, const struct amx_part *s, uint32_t panel,
                            struct amx_ahead *quants) {
    const uint32_t tiles = amx_tiles(s->tokens);
    const struct amx_weights256 *weights = &s->work->weights256;
    int32_t(*sums)[AMX_ROWS][16] = s->work->sums[0];
    _Alignas(64) float acc[2][AMX_ROWS][16]; /* not in work: addressing it would take a register */
    struct pair p = {
        .weights = weights, .sums = (const int32_t(*)[AMX_ROWS][16])sums, .acc = acc, .first = s->start == 0};
    struct amx_ahead ahead = amx_ahead_panel(type, s, panel);
    for (uint32_t tile = 0;; tile += 2) {
        const bool live = tile < tiles;
        const int8_t *q = amx_part_quants(type, s, tile);
        for (uint32_t i = 0; i < 2; i++) {
            amx_ahead_step(&ahead);
            amx_ahead_step(quants);
        }
        step256(type, supers, 0, weights->q[0][0][0][0], q, p, sums, tile > 0, live);
        if (!live)
            return;
        for (uint32_t i = 0; i < 2; i++) {
            p.x[i] = near256(s, ARITH_MIN(tile + i, tiles - 1));
            p.out[i] = amx_part_out(s, panel, tile + i);
            p.tokens[i] = amx_part_tokens(s, tile + i);
        }
        if (supers > 1)
            step256(type, supers, 1, weights->q[1][0][0][0], q + AMX_ROWS * 256, p, sums, true, true);
    }
}

MATMUL_INLINE void segment256(uint32_t type, const struct amx_part *s) {
    const struct panel_layout *l = s->m->l;
    amx_configure(64);
    for (uint32_t tile = 0; tile < amx_tiles(s->tokens); tile++)
        bring256(type, s, tile);
    struct amx_ahead quants = amx_ahead_quants(type, s);
    for (uint32_t p = 0; p < s->m->n_panels; p++) {
        const uint8_t *panel = s->m->panels + (size_t)p * l->panel_bytes;
        for (uint32_t super = 0; super < s->cols / 256; super++)
            unpack256(type, s, panel, super);
        if (s->cols == KERNELS_SEGMENT)
            panel256(type, AMX_SUPERS, s, p, &quants);
        else
            panel256(type, 1, s, p, &quants);
    }
}

AMX_PART_ENTRY(q4_k, BLOCK_Q4_K, segment256)
AMX_PART_ENTRY(q5_k, BLOCK_Q5_K, segment256)
AMX_PART_ENTRY(q6_k, BLOCK_Q6_K, segment256)
AMX_PART_ENTRY(q2_k, BLOCK_Q2_K, segment256)
AMX_PART_ENTRY(q3_k, BLOCK_Q3_K, segment256)
AMX_PART_ENTRY(iq2_s, BLOCK_IQ2_S, segment256)
AMX_PART_ENTRY(iq4_xs, BLOCK_IQ4_XS, segment256)

void amx_matmul_k_init(struct kernels *k) {
    k->tier = "amx";
    k->matmul[BLOCK_Q4_K] = matmul_q4_k;
    k->matmul[BLOCK_Q5_K] = matmul_q5_k;
    k->matmul[BLOCK_Q6_K] = matmul_q6_k;
    k->matmul[BLOCK_Q2_K] = matmul_q2_k;
    k->matmul[BLOCK_Q3_K] = matmul_q3_k;
    k->matmul[BLOCK_IQ2_S] = matmul_iq2_s;
    k->matmul[BLOCK_IQ4_XS] = matmul_iq4_xs;
}
