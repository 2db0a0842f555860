/* Attention over floats in the vector tiers, and the stores of f16: a template, included once by a tier's
 * source. Scores: lanes are tokens, a tile of rows shares each K vector; output: lanes are dims, a tile of
 * rows shares each V vector. Tiles are inlined with constant row counts, so that their accumulators are
 * registers. No state; any thread.
 *
 * Before it: the tier's vec header, its kv header (TIER_KV_TILE), and
 *   ATTENTION_TILE         most rows of a tile
 *   ATTENTION_WIDTH(rows)  vectors of dims that such a tile has in registers
 *   attention_ahead        where, in values, pass t of a tile's V asks for the next block's
 *   attention_softmax, attention_exp_all   (struct attention_tier: softmax, exp) */
#include "kernels/cpu/attention_walk.h"

#include "base/check.h"

_Static_assert(ATTENTION_TILE <= ATTENTION_WALK_TILE, "rows of the work memory");

VEC_INLINE vec attention_load(const bool f16, const void *p, size_t i) {
    return f16 ? vec_load_f16((const uint16_t *)p + i) : vec_load((const float *)p + i);
}

VEC_INLINE vec attention_load_n(const bool f16, const void *p, size_t i, uint32_t n) {
    return f16 ? vec_load_f16_n((const uint16_t *)p + i, n) : vec_load_n((const float *)p + i, n);
}

/* q: [dim][rows]. A sum's segment would be added to +0, which but makes +0 of -0: no e changes by that. The
 * next block's lines are asked for evenly, a part in each pass. */
VEC_INLINE void attention_qk_rows(const uint32_t rows, const bool f16, const float *q, const void *k,
                                  const void *next, uint32_t dim, float scale, float *score) {
    const size_t element = f16 ? sizeof(uint16_t) : sizeof(float);
    for (size_t part = 0; part < KERNELS_KV_BLOCK; part += 2 * VEC) {
        vec low[ATTENTION_TILE], high[ATTENTION_TILE];
        VEC_REPEAT
        for (uint32_t r = 0; r < rows; r++)
            low[r] = high[r] = vec_zero();
        const float *at = q;
        for (size_t d = 0; d < dim; d++, at += rows) {
            const size_t i = KERNELS_KV_BLOCK * d + part;
            prefetch_lines(next, (part * dim + 2 * VEC * d) * element, 2 * VEC * element);
            vec k_low = attention_load(f16, k, i), k_high = attention_load(f16, k, i + VEC);
            VEC_REPEAT
            for (uint32_t r = 0; r < rows; r++) {
                vec x = vec_set(at[r]);
                low[r] = vec_fma(x, k_low, low[r]);
                high[r] = vec_fma(x, k_high, high[r]);
            }
        }
        const vec factor = vec_set(scale);
        VEC_REPEAT
        for (uint32_t r = 0; r < rows; r++) {
            float *to = score + r * KERNELS_SPLIT + part;
            vec_store(to, vec_mul(low[r], factor));
            vec_store(to + VEC, vec_mul(high[r], factor));
        }
    }
}

VEC_INLINE void attention_qk(const bool f16, uint32_t rows, const float *q, const void *k, const void *next,
                             uint32_t dim, float scale, float *score) {
    ATTENTION_WALK_DISPATCH(ATTENTION_TILE, rows, attention_qk_rows, f16, q, k, next, dim, scale, score);
}

/* `width` vectors of dims from `at`, or (width 1) the first n lanes of one. */
VEC_INLINE void attention_pv_dims(const uint32_t rows, const uint32_t width, const bool f16,
                                  const struct attention_pv *p, uint32_t at, const uint32_t n) {
    vec acc[ATTENTION_TILE][8];
    const size_t element = f16 ? sizeof(uint16_t) : sizeof(float);
    const float *e = p->e;
    float *o = p->o + at;
    size_t i = p->begin * p->v_stride + at;
    VEC_REPEAT
    for (uint32_t r = 0; r < rows; r++) {
        VEC_REPEAT
        for (uint32_t w = 0; w < width; w++)
            acc[r][w] = p->fresh ? vec_zero() : vec_load(o + r * p->o_stride + VEC * w);
    }
    for (size_t t = p->begin; t < p->end; t++, i += p->v_stride) {
        prefetch_lines(p->next, attention_ahead(at, t, i, width) * element, VEC * width * element);
        vec x[8];
        VEC_REPEAT
        for (uint32_t w = 0; w < width; w++)
            x[w] = attention_load_n(f16, p->v, i + VEC * (size_t)w, n);
        VEC_REPEAT
        for (uint32_t r = 0; r < rows; r++) {
            vec weight = vec_set(e[r * KERNELS_SPLIT + t]);
            VEC_REPEAT
            for (uint32_t w = 0; w < width; w++)
                acc[r][w] = vec_fma(weight, x[w], acc[r][w]);
        }
    }
    if (p->old != NULL) {
        VEC_REPEAT
        for (uint32_t r = 0; r < rows; r++) {
            VEC_REPEAT
            for (uint32_t w = 0; w < width; w++) {
                vec before = vec_mul(vec_load(o + r * p->o_stride + VEC * w), vec_set(p->old[r]));
                acc[r][w] = vec_fma(acc[r][w], vec_set(p->now[r]), before);
            }
        }
    }
    VEC_REPEAT
    for (uint32_t r = 0; r < rows; r++) {
        VEC_REPEAT
        for (uint32_t w = 0; w < width; w++)
            vec_store(o + r * p->o_stride + VEC * w, acc[r][w]);
    }
}

VEC_INLINE void attention_pv_rows(const uint32_t rows, const bool f16, const struct attention_pv *p) {
    const uint32_t width = ATTENTION_WIDTH(rows);
    uint32_t at = 0;
    for (; p->dims - at >= VEC * width; at += VEC * width)
        attention_pv_dims(rows, width, f16, p, at, VEC);
    for (; width > 2 && p->dims - at >= 2 * VEC; at += 2 * VEC)
        attention_pv_dims(rows, 2, f16, p, at, VEC);
    for (; p->dims - at >= VEC; at += VEC)
        attention_pv_dims(rows, 1, f16, p, at, VEC);
    if (at < p->dims)
        attention_pv_dims(rows, 1, f16, p, at, p->dims - at);
}

VEC_INLINE void attention_pv(const bool f16, const struct attention_pv *p) {
    ATTENTION_WALK_DISPATCH(ATTENTION_TILE, p->rows, attention_pv_rows, f16, p);
}

static void attention_qk_f32(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
                             float scale, float *score) {
    attention_qk(false, rows, q, k, next, dim, scale, score);
}

static void attention_qk_f16(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim,
                             float scale, float *score) {
    attention_qk(true, rows, q, k, next, dim, scale, score);
}

static void attention_pv_f32(const struct attention_pv *p) {
    attention_pv(false, p);
}

static void attention_pv_f16(const struct attention_pv *p) {
    attention_pv(true, p);
}

static void attention_plain_k(const void *k, uint32_t dim, float *to) {
    for (size_t i = 0; i < (size_t)dim * KERNELS_KV_BLOCK; i += 2 * VEC) {
        vec_store(to + i, attention_load(true, k, i));
        vec_store(to + i + VEC, attention_load(true, k, i + VEC));
    }
}

/* VEC dims of all tokens, or the first n; a panel has room for whole vectors. */
VEC_INLINE void attention_plain_dims(const bool f16, const void *v, uint32_t dim, uint32_t d,
                                     const uint32_t n, float *to) {
    float *at = to + d / ATTENTION_WALK_WIDTH * ATTENTION_WALK_PANEL + d % ATTENTION_WALK_WIDTH;
    for (size_t t = 0; t < KERNELS_KV_BLOCK; t++)
        vec_store(at + t * ATTENTION_WALK_WIDTH, attention_load_n(f16, v, t * dim + d, n));
}

VEC_INLINE void attention_plain_v(const bool f16, const void *v, uint32_t dim, float *to) {
    uint32_t d = 0;
    for (; dim - d >= VEC; d += VEC)
        attention_plain_dims(f16, v, dim, d, VEC, to);
    if (d < dim)
        attention_plain_dims(f16, v, dim, d, dim - d, to);
}

static void attention_plain_f32(const void *v, uint32_t dim, float *to) {
    attention_plain_v(false, v, dim, to);
}

static void attention_plain_f16(const void *v, uint32_t dim, float *to) {
    attention_plain_v(true, v, dim, to);
}

VEC_INLINE void attention_merge_dims(float *all, const float *part, const uint32_t n, vec a, vec b) {
    vec old = vec_mul(vec_load_n(all, n), a);
    vec_store_n(all, n, vec_fma(vec_load_n(part, n), b, old));
}

static void attention_merge_rows(float *all, const float *part, uint32_t dim, float a, float b) {
    const vec old = vec_set(a), now = vec_set(b);
    uint32_t d = 0;
    for (; dim - d >= VEC; d += VEC)
        attention_merge_dims(all + d, part + d, VEC, old, now);
    if (d < dim)
        attention_merge_dims(all + d, part + d, dim - d, old, now);
}

static void attention_scale(float *out, const float *o, uint32_t dim, float factor) {
    const vec by = vec_set(factor);
    uint32_t d = 0;
    for (; dim - d >= VEC; d += VEC)
        vec_store(out + d, vec_mul(vec_load(o + d), by));
    if (d < dim)
        vec_store_n(out + d, dim - d, vec_mul(vec_load_n(o + d, dim - d), by));
}

/* n: a multiple of KERNELS_KV_BLOCK. */
static void attention_cap(float *score, uint32_t n, float cap, float inverse) {
    const vec most = vec_set(cap), by = vec_set(inverse);
    for (uint32_t i = 0; i < n; i += VEC)
        vec_store(score + i, vec_softcap(vec_load(score + i), most, by));
}

static const struct attention_tier attention_tier = {
    .tile = ATTENTION_TILE,
    .qk = {attention_qk_f32, attention_qk_f16, TIER(qk_q8_0), TIER(qk_q4_0)},
    .quantise_query = TIER(quantise_query),
    .pv = {attention_pv_f32, attention_pv_f16},
    .plain_k = attention_plain_k,
    .plain_v = {attention_plain_f32, attention_plain_f16},
    .factors = TIER(factors),
    .weigh = TIER(weigh),
    .pv_integers = {[KERNELS_KV_Q8_0] = TIER(pv_q8_0), [KERNELS_KV_Q4_0] = TIER(pv_q4_0)},
    .put_integers = TIER(put_integers),
    .tile_small = TIER_KV_TILE,
    .exp = attention_exp_all,
    .cap = attention_cap,
    .softmax = attention_softmax,
    .merge = attention_merge_rows,
    .scale = attention_scale};

static void attention_all(const struct kernels_attention *a) {
    attention_walk(a, &attention_tier);
}

static void attention_merge(const struct kernels_attention *a) {
    attention_walk_join(a, &attention_tier);
}

static void attention_store_k_f16(void *k, const float *x, uint32_t dim, uint32_t slot) {
    DCHECK(slot < KERNELS_KV_BLOCK);
    uint16_t *to = (uint16_t *)k + slot;
    for (uint32_t d = 0; d < dim; d += VEC, to += VEC * KERNELS_KV_BLOCK) {
        const uint32_t n = dim - d < VEC ? dim - d : VEC;
        uint16_t h[VEC];
        vec_store_f16(h, vec_load_n(x + d, n));
        for (uint32_t i = 0; i < n; i++)
            to[i * KERNELS_KV_BLOCK] = h[i];
    }
}

static void attention_store_v_f16(void *v, const float *x, uint32_t dim, uint32_t slot) {
    DCHECK(slot < KERNELS_KV_BLOCK);
    uint16_t *to = (uint16_t *)v + (size_t)slot * dim;
    uint32_t d = 0;
    for (; dim - d >= VEC; d += VEC)
        vec_store_f16(to + d, vec_load(x + d));
    if (d == dim)
        return;
    uint16_t h[VEC];
    vec_store_f16(h, vec_load_n(x + d, dim - d));
    memcpy(to + d, h, (dim - d) * sizeof *h);
}

void TIER(attention_init)(struct kernels *k) {
    k->attention = attention_all;
    k->attention_merge = attention_merge;
    k->store_k[KERNELS_KV_F16] = attention_store_k_f16;
    k->store_v[KERNELS_KV_F16] = attention_store_v_f16;
}
