/* Attention of many queries, for K and V of Q8_0: a tile of 32 rows against a split of 256 tokens. The
 * integers of the query meet those of K in the matrix engine (TILE_DPAS) or by dot; the values are weighed by
 * f32 fma, as the definition asks.
 *
 * Scores: item (g, slot) has rows 8 * g .. + 8 and the tokens slot, slot + 64, ..: a sub-group's items share
 * rows and a block, so that what is stored of K is the engine's second operand. The weights e of the whole
 * split then lie in local memory. Output: item (slot, lane) has 4 rows by 4 columns (2 where all columns have
 * an item then, too) of up to TILE_WIDTH; what is merged so far is in the output itself. No row is asked
 * which tokens it sees there: e is 0 of those that it does not, and integers times finite scales are finite,
 * so such products are +-0 and change no sum (it begins at +0, and multiples of what is subnormal don't round
 * to -0).
 *
 * Loops of constant length are written out: left to the compiler they may stay loops, and what they go
 * through is in memory then. Includer: attention.cl, after what both ways share. */
#ifndef STATOR_KERNELS_OPENCL_CL_TILES_Q8_H
#define STATOR_KERNELS_OPENCL_CL_TILES_Q8_H

#include "kernels/opencl/attention/cl_tile_rows.h"

#define TILE_SLOTS (8 * ITEMS / TILE_ROWS) /* items that share rows */
#define TILE_TEAM  (ITEMS / TILE_ROWS)     /* items that reduce a row's scores */
#define TILE_LANES (TILE_SLOTS + 1)
#define TILE_WIDTH 128
#define TILE_PLANE 64 /* words of 8 rows' integers of 32 dims, high or low */

#define TILE_EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)

/* Of 8 rows and token slot + TILE_SLOTS * k. */
struct tile_scores {
    float8 of[4];
};

#ifdef TILE_DPAS
#if CL_SUB_GROUP == 8
typedef int8 tile_plane; /* item i has bytes 4i .. 4i + 3 of each row */
__attribute__((overloadable)) int8 intel_sub_group_i8_i8_matrix_mad_k32(int8, int8, int8);
/* Registers are few: an offset for a pointer, added to where it is used. */
#define TILE_OFFSETS
#else
typedef short8 tile_plane; /* item i has bytes 2i, 2i + 1 */
__attribute__((overloadable)) int8 intel_sub_group_i8_i8_matrix_mad_k32(short8, int8, int8);
#endif
#endif

struct tile_memory {
    local float *e;    /* [SPLIT][TILE_ROWS], see tile_weight; partial results of rows */
    local float *part; /* [TILE_ROWS][TILE_TEAM] */
    struct tile_rows_of of;
    /* Of 32 dims each: for each 8 rows the planes high and low, word by word (with sub-groups of 16 in the
     * engine half by half) those of all rows; and the scales, [TILE_ROWS]. */
    local uint *q;
    local float *d;
};

static inline struct tile_memory tile_memory_in(local float *memory, uint head_k) {
    struct tile_memory m;
    m.e = memory;
    m.part = m.e + SPLIT * TILE_ROWS;
    m.of = tile_rows_in(m.part + ITEMS);
    m.q = (local uint *)(m.part + ITEMS + TILE_ROWS_WORDS);
    m.d = (local float *)(m.q + TILE_ROWS * head_k / 2);
    return m;
}

struct place {
    uint row, slot;
};

static inline struct place place_of(uint me) {
    struct place p = {me / TILE_SLOTS * 8, me % TILE_SLOTS};
    return p;
}

/* Where the weights of rows row .. + 4 (a multiple of 4) and a token lie in e: shifted so that items which
 * write the same rows of several tokens meet different banks. */
static inline uint tile_weight(uint token, uint row) {
    return token * TILE_ROWS + (row ^ (token % 8 * 4));
}

/* Group: what is known of rows, and their q; rows that are not there are zero. */
static inline void tile_queries(const struct look *l, const struct tile_memory *m, const struct rows *r) {
    uint me = get_local_id(0);
    tile_rows_put(l, &m->of, r);
    for (uint i = me; i < TILE_ROWS * (l->head_k / 32); i += ITEMS) {
        uint row = i % TILE_ROWS, g = i / TILE_ROWS;
        global const float *x = query_of(l, r, row < r->n ? row : 0) + 32 * g;
        float d = row < r->n ? query_scale(x) : 0.0f, inverse = cl_inverse(d);
        local uint *at = m->q + (g * (TILE_ROWS / 8) + row / 8) * 2 * TILE_PLANE;
        m->d[i] = d;
        for (uint s = 0; s < 8; s++) {
            uint h, low;
            query_word(x + 4 * s, inverse, &h, &low);
#if defined TILE_DPAS && CL_SUB_GROUP == 16
            local ushort *halves = (local ushort *)at + 16 * s + row % 8;
            halves[0] = (ushort)h;
            halves[8] = (ushort)(h >> 16);
            halves[2 * TILE_PLANE] = (ushort)low;
            halves[2 * TILE_PLANE + 8] = (ushort)(low >> 16);
#else
            at[8 * s + row % 8] = h;
            at[8 * s + row % 8 + TILE_PLANE] = low;
#endif
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* What an item's products of 32 dims are made of. */
struct tile_dims {
#ifdef TILE_OFFSETS
    global const uchar *unit;
    uint k[4]; /* where in it its tokens' words are */
#else
    global const uint *k[4]; /* its tokens' words */
#endif
    int scale;             /* bytes from there to the token's scale */
    local const uint *q;   /* of 8 rows, planes high and low */
    local const float8 *d; /* their scales */
};

/* Word n of token k, from these dims on; its scale, or that of the next dims (1). */
static inline uint tile_word(const struct tile_dims *p, const uint k, uint n) {
#ifdef TILE_OFFSETS
    return *(global const uint *)(p->unit + (p->k[k] + n * KV_LAYOUT_STEP));
#else
    return p->k[k][n * KV_LAYOUT_BLOCK];
#endif
}

static inline half tile_scale(const struct tile_dims *p, const uint k, const uint next) {
#ifdef TILE_OFFSETS
    return *(global const half *)(p->unit + (p->k[k] + (uint)p->scale + next * (2 * KV_LAYOUT_BLOCK)));
#else
    return ((global const half *)((global const uchar *)p->k[k] + p->scale))[next * KV_LAYOUT_BLOCK];
#endif
}

static inline void tile_add(const struct tile_dims *p, int8 i, half scale, float8 *s) {
    float8 by = *p->d * (float)scale;
#define ADD(t) s->s##t = fma((float)i.s##t, by.s##t, s->s##t);
    TILE_EACH_ROW(ADD)
#undef ADD
}

#ifdef TILE_DPAS
/* 32 dims of a token. */
struct tile_key {
    int8 word;
    half d;
};

static inline struct tile_key tile_key_at(const struct tile_dims *p, const uint k, const uint next) {
    struct tile_key key;
#define WORD(n) key.word.s##n = (int)tile_word(p, k, 8 * next + n);
    TILE_EACH_ROW(WORD)
#undef WORD
    key.d = tile_scale(p, k, next);
    return key;
}

/* s += of token k. Where registers suffice the next one is loaded before: it is in next. */
static inline void tile_product(const struct tile_dims *p, tile_plane high, tile_plane low, const uint k,
                                struct tile_key *next, struct tile_scores *s) {
#ifdef TILE_OFFSETS
    struct tile_key key = tile_key_at(p, k, 0);
    (void)next;
#else
    struct tile_key key = *next;
    *next = tile_key_at(p, (k + 1) % 4, (k + 1) / 4);
#endif
    int8 sums = intel_sub_group_i8_i8_matrix_mad_k32(high, key.word, (int8)(0));
    tile_add(p, intel_sub_group_i8_i8_matrix_mad_k32(low, key.word, sums * 128), key.d, &s->of[k]);
}
#else
/* Products with the two planes of the query. */
struct tile_sums {
    int8 high, low;
};

static inline void tile_dots(struct tile_sums *to, local const uint4 *q, uint word) {
    char4 a = as_char4(word);
    uint4 x = q[0], y = q[1], v = q[TILE_PLANE / 4], w = q[TILE_PLANE / 4 + 1];
#define DOT(t, plane, four, c) to->plane.s##t += dot(as_char4(four.c), a);
    DOT(0, high, x, x)
    DOT(1, high, x, y)
    DOT(2, high, x, z)
    DOT(3, high, x, w)
    DOT(4, high, y, x)
    DOT(5, high, y, y)
    DOT(6, high, y, z)
    DOT(7, high, y, w)
    DOT(0, low, v, x)
    DOT(1, low, v, y)
    DOT(2, low, v, z)
    DOT(3, low, v, w) DOT(4, low, w, x) DOT(5, low, w, y) DOT(6, low, w, z) DOT(7, low, w, w)
#undef DOT
}

/* s += of token k, whose first word is in next; then that of the one after it is. */
static inline void tile_products(const struct tile_dims *p, const uint k, uint *next, struct tile_scores *s) {
    struct tile_sums sums = {0, 0};
    half scale = tile_scale(p, k, 0);
    local const uint4 *q = (local const uint4 *)p->q;
#pragma unroll 1
    for (uint n = 1; n < 8; n++) {
        uint word = *next;
        *next = tile_word(p, k, n);
        tile_dots(&sums, q, word);
        q += 2;
    }
    uint word = *next;
    *next = tile_word(p, (k + 1) % 4, (k + 1) / 4 * 8);
    tile_dots(&sums, q, word);
    tile_add(p, sums.high * 128 + sums.low, scale, &s->of[k]);
}
#endif

/* Token number k of the item: the scores of rows that don't see it become -INFINITY. */
static inline void tile_hide(const struct look *l, int8 end, uint begin, int token, float8 *s) {
#define HIDE(i) s->s##i = token < end.s##i && token >= hidden_of(l, end.s##i, begin) ? s->s##i : -INFINITY;
    TILE_EACH_ROW(HIDE)
#undef HIDE
}

/* The products of the item's rows and tokens, scaled. Blocks of which no row sees anything may not exist: the
 * nearest that does is read. Loads go past a block's K, into its V. */
static inline void tile_score(const struct look *l, const struct tile_memory *m, const struct rows *r,
                              global const uint *table, uint begin, struct tile_scores *s) {
    struct place p = place_of(get_local_id(0));
    int most = (min(seen(l, r, r->n - 1, begin), SPLIT) - 1) / KV_LAYOUT_BLOCK;
    int least = max(hidden(l, r, 0, begin), 0) / KV_LAYOUT_BLOCK;
    struct tile_dims of;
    uint slot = p.slot % KV_LAYOUT_BLOCK;
#ifdef TILE_OFFSETS
    of.unit = cl_unit_at(&l->cache, r->head);
    const uint unit = 4 * slot, step = 1;
#else
    global const uint *unit = (global const uint *)cl_unit_at(&l->cache, r->head) + slot;
    const uint step = 4; /* bytes of what k counts */
#endif
    of.scale = (int)kv_layout_scales(KV_LAYOUT_Q8_0, l->head_k) - 2 * (int)slot;
    of.q = m->q + p.row / 8 * 2 * TILE_PLANE;
#define BEGIN(i)                                                                                             \
    block = (uint)clamp((int)((i * TILE_SLOTS + p.slot) / KV_LAYOUT_BLOCK), least, most);                    \
    of.k[i] = unit + block_of(l, table, begin + block * KV_LAYOUT_BLOCK) / step;                             \
    s->of[i] = 0.0f;
    uint block;
    BEGIN(0)
    BEGIN(1)
    BEGIN(2)
    BEGIN(3)
#undef BEGIN
#ifdef TILE_DPAS
    struct tile_key next = tile_key_at(&of, 0, 0);
    uint item = get_sub_group_local_id();
#else
    uint next = tile_word(&of, 0, 0);
#endif
    of.d = (local const float8 *)(m->d + p.row);
#pragma unroll 1
    for (uint g = 0; g < l->head_k / 32; g++) {
#ifdef TILE_DPAS
        tile_plane high = ((local const tile_plane *)of.q)[item];
        tile_plane low = ((local const tile_plane *)(of.q + TILE_PLANE))[item];
        tile_product(&of, high, low, 0, &next, s);
        tile_product(&of, high, low, 1, &next, s);
        tile_product(&of, high, low, 2, &next, s);
        tile_product(&of, high, low, 3, &next, s);
#else
        tile_products(&of, 0, &next, s);
        tile_products(&of, 1, &next, s);
        tile_products(&of, 2, &next, s);
        tile_products(&of, 3, &next, s);
#endif
        of.q += TILE_ROWS / 8 * 2 * TILE_PLANE;
        of.d += TILE_ROWS / 8;
#define NEXT(i) of.k[i] += 8 * KV_LAYOUT_STEP / step;
        NEXT(0)
        NEXT(1)
        NEXT(2)
        NEXT(3)
#undef NEXT
        of.scale -= (8 * 4 - 2) * KV_LAYOUT_BLOCK;
    }
    s->of[0] *= l->scale;
    s->of[1] *= l->scale;
    s->of[2] *= l->scale;
    s->of[3] *= l->scale;
    if (seen(l, r, 0, begin) >= SPLIT && hidden(l, r, r->n - 1, begin) <= 0)
        return;
    int8 end = *(local const int8 *)(m->of.end + p.row) - (int)begin;
    tile_hide(l, end, begin, (int)p.slot, &s->of[0]);
    tile_hide(l, end, begin, (int)(p.slot + TILE_SLOTS), &s->of[1]);
    tile_hide(l, end, begin, (int)(p.slot + 2 * TILE_SLOTS), &s->of[2]);
    tile_hide(l, end, begin, (int)(p.slot + 3 * TILE_SLOTS), &s->of[3]);
}

static inline float tile_larger(float a, float b) {
    return a > b ? a : b;
}

/* Of eight numbers `apart`: the largest; the sum as the last steps of sum128's tree have it. */
static inline float tile_largest8(local const float *x, const uint apart) {
    float a = tile_larger(x[0], x[apart]), b = tile_larger(x[2 * apart], x[3 * apart]);
    float c = tile_larger(x[4 * apart], x[5 * apart]), d = tile_larger(x[6 * apart], x[7 * apart]);
    return tile_larger(tile_larger(a, b), tile_larger(c, d));
}

static inline float tile_sum8(local const float *x, const uint apart) {
    float a = x[0] + x[4 * apart], b = x[apart] + x[5 * apart];
    float c = x[2 * apart] + x[6 * apart], d = x[3 * apart] + x[7 * apart];
    float even = a + c, odd = b + d;
    return even + odd;
}

static inline float tile_exp(float s, float most) {
    float x =
        s - (most == -INFINITY ? 0.0f : most); /* of a row that sees nothing: -INFINITY less itself is NaN */
    float e = num_exp_within(x);
    return x < NUM_EXP_MIN ? 0.0f : e;
}

/* Group: scores to e, in local memory; the next merge of every row to before and now. Sums as sum128's tree
 * has them: an item those of tokens 128 and 64 apart, then eight items of a row those of 32, 16, 8, then one.
 */
static inline void tile_weights(const struct look *l, const struct tile_memory *m, const struct rows *r,
                                uint begin, struct tile_scores *s) {
    uint me = get_local_id(0);
    struct place p = place_of(me);
    local float *lane = m->e + p.row * TILE_LANES + p.slot; /* [TILE_ROWS][TILE_LANES] */
    local const float *mine = m->e + me / TILE_TEAM * TILE_LANES + me % TILE_TEAM;
#define MOST(i)                                                                                              \
    lane[i * TILE_LANES] =                                                                                   \
        tile_larger(tile_larger(s->of[0].s##i, s->of[1].s##i), tile_larger(s->of[2].s##i, s->of[3].s##i));
    TILE_EACH_ROW(MOST)
#undef MOST
    barrier(CLK_LOCAL_MEM_FENCE);
    m->part[me] = tile_largest8(mine, TILE_TEAM);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < TILE_ROWS)
        m->of.now[me] = tile_largest8(m->part + me * TILE_TEAM, 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    float8 most = *(local const float8 *)(m->of.now + p.row);
#define EXP(i)                                                                                               \
    s->of[0].s##i = tile_exp(s->of[0].s##i, most.s##i);                                                      \
    s->of[1].s##i = tile_exp(s->of[1].s##i, most.s##i);                                                      \
    s->of[2].s##i = tile_exp(s->of[2].s##i, most.s##i);                                                      \
    s->of[3].s##i = tile_exp(s->of[3].s##i, most.s##i);                                                      \
    even = s->of[0].s##i + s->of[2].s##i, odd = s->of[1].s##i + s->of[3].s##i;                               \
    lane[i * TILE_LANES] = even + odd;
    float even, odd;
    TILE_EACH_ROW(EXP)
#undef EXP
    barrier(CLK_LOCAL_MEM_FENCE);
    m->part[me] = tile_sum8(mine, TILE_TEAM);
    barrier(CLK_LOCAL_MEM_FENCE);
#define SHARE(k)                                                                                             \
    *(local float4 *)(m->e + tile_weight(p.slot + k * TILE_SLOTS, p.row)) = s->of[k].lo;                     \
    *(local float4 *)(m->e + tile_weight(p.slot + k * TILE_SLOTS, p.row + 4)) = s->of[k].hi;
    SHARE(0)
    SHARE(1)
    SHARE(2)
    SHARE(3)
#undef SHARE
    if (me < TILE_ROWS) {
        m->of.before[me] = tile_sum8(m->part + me * TILE_TEAM, 1);
        tile_plan(l, &m->of, r, begin);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* What an item has of the output: rows row .. + 4, four columns from 4 * lane on (wide), or two from 2 * lane
 * on. */
struct output {
    uint row, column;
    bool mine; /* it has something */
};

static inline struct output output_of(const bool wide, const struct look *l, uint from) {
    uint me = get_local_id(0), columns = wide ? 4 : 2;
    uint lanes = min(l->head_v - from, (uint)TILE_WIDTH) / columns, slot = me / lanes;
    struct output o = {min(slot * 4, (uint)TILE_ROWS - 4), from + me % lanes * columns, slot < TILE_ROWS / 4};
    return o;
}

/* Eight tokens of an item's columns; of two columns each four have one half of four. */
struct tile_value {
    uint4 first, second;
    half4 d, e;
};

static inline struct tile_value tile_value_at(const bool wide, const struct look *l, global const uchar *v,
                                              uint column, uint t) {
    struct tile_value x;
    global const uint *words = (global const uint *)v + t / 4 * l->head_v + column;
    global const half4 *d = (global const half4 *)(v + kv_layout_scales(KV_LAYOUT_Q8_0, l->head_v)) +
                            column / 32 * (KV_LAYOUT_BLOCK / 4) + t / 4;
    if (wide) {
        x.first = *(global const uint4 *)words;
        x.second = *(global const uint4 *)(words + l->head_v);
    } else {
        x.first.lo = *(global const uint2 *)words;
        x.second.lo = *(global const uint2 *)(words + l->head_v);
    }
    x.d = d[0];
    x.e = d[1];
    return x;
}

/* Rows of an item's output. */
struct tile_sum {
    float4 a, b, c, d;
};

/* o += e * v of a token, whose integers are byte n of the words. */
static inline void tile_add_token(const bool wide, local const float *e, float scale, uint4 v, const uint n,
                                  struct tile_sum *o) {
    float4 by = *(local const float4 *)e * scale;
#define COLUMN(at)                                                                                           \
    {                                                                                                        \
        float x = (float)(char)(v.at >> 8 * n & 255u);                                                       \
        o->a.at = fma(by.x, x, o->a.at);                                                                     \
        o->b.at = fma(by.y, x, o->b.at);                                                                     \
        o->c.at = fma(by.z, x, o->c.at);                                                                     \
        o->d.at = fma(by.w, x, o->d.at);                                                                     \
    }
    COLUMN(x)
    COLUMN(y)
    if (wide) {
        COLUMN(z)
        COLUMN(w)
    }
#undef COLUMN
}

/* A scale of a token that no row sees may be no number: 0 then. */
static inline half4 tile_finite(half4 d, int t, int first, int end) {
    d.x = t >= first && t < end ? d.x : (half)0.0f;
    d.y = t + 1 >= first && t + 1 < end ? d.y : (half)0.0f;
    d.z = t + 2 >= first && t + 2 < end ? d.z : (half)0.0f;
    d.w = t + 3 >= first && t + 3 < end ? d.w : (half)0.0f;
    return d;
}

/* Item: a row's columns of this split into the output. */
static inline void tile_merge_row(const bool wide, const struct look *l, const struct tile_memory *m,
                                  const struct rows *r, const struct output *at, uint row, uint begin,
                                  float4 sum) {
    if (!at->mine || row >= r->n || !tile_sees(l, m->of.end[row], begin))
        return;
    if (wide)
        tile_merge(l, &m->of, row, begin, sum, tile_out(l, &m->of, row) + at->column / 4);
    else
        tile_merge_two(l, &m->of, row, begin, sum.lo,
                       (global float2 *)tile_out(l, &m->of, row) + at->column / 2);
}

/* Group: the split's values of columns from on, weighed by e, merged into the output. */
static inline void tile_values(const bool wide, const struct look *l, const struct tile_memory *m,
                               const struct rows *r, global const uint *table, uint begin, uint from) {
    struct output at = output_of(wide, l, from);
    global const uchar *unit = cl_unit_at(&l->cache, r->head) + l->cache.k_bytes;
    struct tile_sum o = {0.0f, 0.0f, 0.0f, 0.0f};
    /* What some row sees: only that is known to be finite. */
    int first = hidden(l, r, 0, begin), end = seen(l, r, r->n - 1, begin);
    uint block = (uint)max(first, 0) / KV_LAYOUT_BLOCK;
    uint until = cl_ceil_div((uint)min(end, SPLIT), KV_LAYOUT_BLOCK);
    global const uchar *v = unit + block_of(l, table, begin + block * KV_LAYOUT_BLOCK);
    struct tile_value next = tile_value_at(wide, l, v, at.column, 0);
#pragma unroll 1
    for (; block < until; block++) {
        int t = (int)(block * KV_LAYOUT_BLOCK);
        bool whole = t >= first && t + KV_LAYOUT_BLOCK <= end;
        global const uchar *after =
            unit + block_of(l, table, begin + min(block + 1, until - 1) * KV_LAYOUT_BLOCK);
#pragma unroll 1
        for (uint j = 0; j < KV_LAYOUT_BLOCK; j += 8, t += 8) {
            struct tile_value now = next;
            bool over = j + 8 == KV_LAYOUT_BLOCK;
            next = tile_value_at(wide, l, over ? after : v, at.column, over ? 0 : j + 8);
            if (!whole) {
                now.d = tile_finite(now.d, t, first, end);
                now.e = tile_finite(now.e, t + 4, first, end);
            }
            if (!at.mine)
                continue;
            local const float *e = m->e + t * TILE_ROWS;
#define TOKEN(a, c, scale, words)                                                                            \
    tile_add_token(wide, e + tile_weight(a, at.row), (float)now.scale.c, now.words, a % 4, &o);
            TOKEN(0, x, d, first)
            TOKEN(1, y, d, first)
            TOKEN(2, z, d, first)
            TOKEN(3, w, d, first)
            TOKEN(4, x, e, second) TOKEN(5, y, e, second) TOKEN(6, z, e, second) TOKEN(7, w, e, second)
#undef TOKEN
        }
        v = after;
    }
    tile_merge_row(wide, l, m, r, &at, at.row, begin, o.a);
    tile_merge_row(wide, l, m, r, &at, at.row + 1, begin, o.b);
    tile_merge_row(wide, l, m, r, &at, at.row + 2, begin, o.c);
    tile_merge_row(wide, l, m, r, &at, at.row + 3, begin, o.d);
}

/* Group: the output of up to TILE_ROWS rows, all their splits. */
static inline void tile_rows(const struct look *l, local float *memory, const struct rows *r,
                             global const uint *table) {
    struct tile_memory m = tile_memory_in(memory, l->head_k);
    tile_queries(l, &m, r);
    for (uint begin = first_split(l, r, 0) * SPLIT; seen(l, r, r->n - 1, begin) > 0; begin += SPLIT) {
        struct tile_scores s;
        tile_score(l, &m, r, table, begin, &s);
        tile_weights(l, &m, r, begin, &s);
        if (l->head_v <= TILE_WIDTH / 2)
            tile_values(false, l, &m, r, table, begin, 0);
        else
            for (uint from = 0; from < l->head_v; from += TILE_WIDTH)
                tile_values(true, l, &m, r, table, begin, from);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    tile_sinks(l, &m.of, r);
    for (uint i = get_local_id(0); i < r->n * (l->head_v / 4); i += ITEMS) {
        uint row = i / (l->head_v / 4);
        tile_finish(l, &m.of, row, tile_out(l, &m.of, row) + i % (l->head_v / 4));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#endif
