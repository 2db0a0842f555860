/* Matmul, the definition: every tier and every device gives these bits. Clear before fast: rows one after the
 * other, blocks taken apart by formats/, integers as they are. No state; any thread. */
#include "base/arith.h"
#include "formats/panel_parts.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* A running sum over k: the segment that runs and the segments before it. */
struct sum {
    float total;
    float segment;
};

/* To be called before each step of k (a multiple of the block). */
static void sum_at(struct sum *s, uint32_t k) {
    if (k % KERNELS_SEGMENT != 0 || k == 0)
        return;
    s->total += s->segment;
    s->segment = 0;
}

static float sum_end(const struct sum *s) {
    return s->total + s->segment;
}

static float weight(const struct panel_layout *l, const uint8_t *panel, uint32_t r, uint32_t k) {
    float f;
    uint16_t h;
    switch (l->type) {
    case BLOCK_F32:
        memcpy(&f, panel + ((size_t)k * PANEL_ROWS + r) * 4, sizeof f);
        return f;
    case BLOCK_F16:
        memcpy(&h, panel + ((size_t)k * PANEL_ROWS + r) * 2, sizeof h);
        return block_from_f16(h);
    default:
        memcpy(&h, panel + ((size_t)(k / 2) * PANEL_ROWS + r) * 4 + k % 2 * 2, sizeof h);
        return block_from_bf16(h);
    }
}

static void panel_float(float *out, const struct panel_layout *l, const uint8_t *panel,
                        const struct kernels_act *a, uint32_t first, uint32_t tokens) {
    for (uint32_t t = 0; t < tokens; t++) {
        const float *x = a->f32 + (size_t)(first + t) * l->cols;
        for (uint32_t r = 0; r < PANEL_ROWS; r++) {
            struct sum s = {0, 0};
            for (uint32_t k = 0; k < l->cols; k++) {
                sum_at(&s, k);
                s.segment = fmaf(weight(l, panel, r, k), x[k], s.segment);
            }
            out[(size_t)t * PANEL_ROWS + r] = sum_end(&s);
        }
    }
}

/* Sum of products of n integers. */
static int32_t dot(const int8_t *w, const int8_t *q, uint32_t n) {
    int32_t i = 0;
    for (uint32_t e = 0; e < n; e++)
        i += w[e] * q[e];
    return i;
}

/* One block of 32, whose integers are `integers`, times a token's values there: quants q, the other forms at
 * `at`. */
static float add_block32(uint32_t type, const struct block_parts *w, const int8_t *integers,
                         const struct kernels_act *a, size_t at, const int8_t *q, float acc) {
    float d = a->d32[at / 32];
    acc = fmaf((float)dot(integers, q, 32), w->d * d, acc);
    if (type == BLOCK_Q4_1 || type == BLOCK_Q5_1)
        acc = fmaf((float)a->s32[at / 32], w->m * d, acc);
    return acc;
}

/* One block of 256. type: the file's. */
static float add_block256(uint32_t type, const struct block_parts *w, const int8_t *integers,
                          const struct kernels_act *a, size_t at, const int8_t *q, float acc) {
    const float d = a->d256[at / 256];
    const int16_t *s = a->s256 + at / 16;
    const uint32_t subs = block_subs(type), n = 256 / subs;
    int32_t i = 0, least = 0;
    for (uint32_t j = 0; j < subs; j++) {
        i += (int8_t)w->sub[j] * dot(integers + n * j, q + n * j, n);
        for (uint32_t e = 0; e < n / 16 && block_has_m(type); e++)
            least += w->submin[j] * s[n / 16 * j + e];
    }
    acc = fmaf((float)i, w->d * block_factor(type) * d, acc);
    return block_has_m(type) ? fmaf(-(float)least, w->m * d, acc) : acc;
}

/* Tokens in tiles, so that a block is taken apart once for many. */
#define TILE 32

static void panel_blocks(float *out, const struct panel_layout *l, const uint8_t *panel,
                         const struct kernels_act *a, uint32_t first, uint32_t tokens) {
    const uint32_t values = block_info(l->type)->values;
    const uint32_t type = values == 256 ? l->file : l->type;
    for (uint32_t done = 0; done < tokens; done += TILE) {
        uint32_t tile = ARITH_MIN(tokens - done, TILE);
        for (uint32_t r = 0; r < PANEL_ROWS; r++) {
            struct sum s[TILE] = {{0, 0}};
            for (uint32_t k = 0; k < l->cols; k += values) {
                struct block_parts w;
                int8_t integers[BLOCK_MAX_VALUES] = {0};
                panel_take_apart(l, panel, r, k / values, &w);
                for (uint32_t e = 0; e < values; e++)
                    integers[e] = (int8_t)block_integer(type, w.q[e]);
                for (uint32_t t = 0; t < tile; t++) {
                    size_t row = (size_t)first + done + t;
                    size_t at = row * l->cols + k;
                    int8_t q[256];
                    act_tiles_get(q, values == 32 ? a->q32 : a->q256, a->tile_rows,
                                  values == 32 ? ACT_TILE_32 : ACT_TILE_256, l->cols, row, k, values);
                    sum_at(&s[t], k);
                    s[t].segment = values == 32 ? add_block32(type, &w, integers, a, at, q, s[t].segment)
                                                : add_block256(type, &w, integers, a, at, q, s[t].segment);
                }
            }
            for (uint32_t t = 0; t < tile; t++)
                out[(size_t)(done + t) * PANEL_ROWS + r] = sum_end(&s[t]);
        }
    }
}

static void matmul_float(const struct kernels_matmul *m) {
    for (uint32_t p = 0; p < m->n_panels; p++)
        panel_float(m->out + p * m->out_panel, m->l, m->panels + (size_t)p * m->l->panel_bytes, m->a,
                    m->first, m->tokens);
}

static void matmul_blocks(const struct kernels_matmul *m) {
    for (uint32_t p = 0; p < m->n_panels; p++)
        panel_blocks(m->out + p * m->out_panel, m->l, m->panels + (size_t)p * m->l->panel_bytes, m->a,
                     m->first, m->tokens);
}

void scalar_matmul_init(struct kernels *k) {
    static const uint8_t floats[] = {BLOCK_F32, BLOCK_F16, BLOCK_BF16};
    static const uint8_t blocks[] = {BLOCK_Q4_0,  BLOCK_Q4_1,   BLOCK_Q5_0,   BLOCK_Q5_1, BLOCK_Q8_0,
                                     BLOCK_Q2_K,  BLOCK_Q3_K,   BLOCK_Q4_K,   BLOCK_Q5_K, BLOCK_Q6_K,
                                     BLOCK_IQ2_S, BLOCK_IQ4_XS, BLOCK_IQ4_NL, BLOCK_MXFP4};
    for (size_t i = 0; i < sizeof floats; i++)
        k->matmul[floats[i]] = matmul_float;
    for (size_t i = 0; i < sizeof blocks; i++)
        k->matmul[blocks[i]] = matmul_blocks;
}
