/* Attention of many queries, for K and V of Q8_0: a tile of 32 rows against a split of 256 tokens. Integers
 * meet integers, in the matrix engine (TILE_DPAS) or by dot: those of the query those of K, then the weights
 * of the split, two planes of bytes as well, those of V.
 *
 * Scores: item (g, slot) has rows 8 * g .. + 8 and tokens 4 * slot .. + 4: a sub-group's items share rows, so
 * that what is stored of K is the engine's second operand, and four tokens of a row are a word of weights.
 * The item keeps its e in registers. Output: 64 columns at a time, two groups of V; their weights lie in
 * local memory as the query's integers do, and item (g, column) has the sums of rows 8 * g .. + 8: what is
 * stored of V is the second operand too. What is merged so far is in the output itself. No row is asked which
 * tokens it sees there: e is 0 of those that it does not, and so is the weight.
 *
 * Loops of constant length are written out: left to the compiler they may stay loops, and what they go
 * through is in memory then. Includer: attention.cl, after what both ways share. */
#ifndef STATOR_KERNELS_OPENCL_CL_TILES_Q8_H
#define STATOR_KERNELS_OPENCL_CL_TILES_Q8_H

#include "kernels/opencl/attention/cl_tile_rows.h"

#define TILE_SLOTS   (8 * ITEMS / TILE_ROWS) /* items that share rows */
#define TILE_TEAM    (ITEMS / TILE_ROWS)     /* items that reduce a row's scores */
#define TILE_LANES   (TILE_SLOTS + 1)
#define TILE_COLUMNS TILE_SLOTS /* of V, at a time: one for each item */
#define TILE_PLANE   64         /* words of 8 rows' integers of 32 dims or tokens, high or low */
#define TILE_BLOCKS  (SPLIT / KV_LAYOUT_BLOCK)
#define TILE_PARTS   16 /* in which the largest scale of a split is looked for */
#if TILE_SLOTS * 4 != SPLIT || TILE_COLUMNS != 2 * KV_LAYOUT_GROUP
#error "an item has four tokens, and a column of two groups"
#endif

#define TILE_EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)

/* Of 8 rows and token 4 * slot + k. */
struct tile_scores {
    float8 of[4];
};

#ifdef TILE_DPAS
#if CL_SUB_GROUP == 8
typedef int8 tile_plane; /* item i has bytes 4i .. 4i + 3 of each row */
__attribute__((overloadable)) int8 intel_sub_group_i8_i8_matrix_mad_k32(int8, int8, int8);
#else
typedef short8 tile_plane; /* item i has bytes 2i, 2i + 1 */
__attribute__((overloadable)) int8 intel_sub_group_i8_i8_matrix_mad_k32(short8, int8, int8);
#endif
#endif

struct tile_memory {
    /* Partial results of rows and scales; e of all tokens (tile_weight) while it is summed; then weights: of
     * two groups, each 8 rows, each block of 32 tokens the planes high and low, as q's. */
    local float *e;
    local float *part; /* [TILE_ROWS][TILE_TEAM] */
    local float *top;  /* [head_v / 32][TILE_ROWS][2]: the factor of a row's weights, the unit of its sums */
    local uint *to;    /* [TILE_ROWS]: what becomes of a row's sums of the split */
    local uint
        *block; /* [TILE_BLOCKS]: where they begin in a unit; of which no row sees anything: the nearest */
    int front, back;           /* behind(): of the first row, and of the last */
    global const uchar *k, *v; /* the unit of the rows' KV head, and V in it */
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
    m.to = (local uint *)(m.d + TILE_ROWS * head_k / 32);
    m.block = m.to + TILE_ROWS;
    m.top = (local float *)(m.block + TILE_BLOCKS);
    return m;
}

struct place {
    uint row, slot;
};

static inline struct place place_of(uint me) {
    struct place p = {me / TILE_SLOTS * 8, me % TILE_SLOTS};
    return p;
}

/* Where e of rows row .. + 4 (a multiple of 4) and a token lies: shifted so that items which write the same
 * rows of several tokens meet different banks. */
static inline uint tile_weight(uint token, uint row) {
    return token * TILE_ROWS + (row ^ (token / 4 % 8 * 4));
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

/* Where something is in a unit, or in its V. Where registers are few an offset, added to the pointer where it
 * is used. */
struct tile_place {
    global const uchar *at;
#if CL_SUB_GROUP == 8
    uint more;
#endif
};

static inline struct tile_place tile_place_at(global const uchar *unit, uint offset) {
#if CL_SUB_GROUP == 8
    struct tile_place p = {unit, offset};
#else
    struct tile_place p = {unit + offset};
#endif
    return p;
}

static inline void tile_go_on(struct tile_place *p, uint bytes) {
#if CL_SUB_GROUP == 8
    p->more += bytes;
#else
    p->at += bytes;
#endif
}

#if CL_SUB_GROUP == 8
#define TILE_LOAD(type, p, bytes) (*(global const type *)((p)->at + ((p)->more + (uint)(bytes))))
#else
#define TILE_LOAD(type, p, bytes) (*(global const type *)((p)->at + (int)(bytes)))
#endif

/* What an item's products of 32 dims are made of. */
struct tile_dims {
    struct tile_place k;   /* the words of its four tokens */
    int scale;             /* bytes from there to the tokens' scales */
    local const uint *q;   /* of 8 rows, planes high and low */
    local const float8 *d; /* their scales */
};

static inline void tile_add(const struct tile_dims *p, int8 i, half scale, float8 *s) {
    float8 by = *p->d * (float)scale;
#define ADD(t) s->s##t = fma((float)i.s##t, by.s##t, s->s##t);
    TILE_EACH_ROW(ADD)
#undef ADD
}

/* Eight words, `stride` bytes apart: 32 dims of a key, or a column of V of 32 tokens. */
static inline int8 tile_value_at(const struct tile_place *p, uint stride) {
#define WORD(n) TILE_LOAD(int, p, n *stride)
    return (int8)(WORD(0), WORD(1), WORD(2), WORD(3), WORD(4), WORD(5), WORD(6), WORD(7));
#undef WORD
}

#ifdef TILE_DPAS
/* Eight words of each of four tokens. Where registers suffice they are loaded together, in the order of
 * memory; else a token's when its turn comes. */
#if CL_SUB_GROUP == 16
struct tile_keys {
    uint4 w0, w1, w2, w3, w4, w5, w6, w7;
};

static inline struct tile_keys tile_keys_at(const struct tile_dims *p) {
    struct tile_keys x;
#define LOAD(n) x.w##n = TILE_LOAD(uint4, &p->k, n * KV_LAYOUT_STEP);
    TILE_EACH_ROW(LOAD)
#undef LOAD
    return x;
}

#define TILE_KEY(x, t)                                                                                       \
    as_int8((uint8)(x.w0.s##t, x.w1.s##t, x.w2.s##t, x.w3.s##t, x.w4.s##t, x.w5.s##t, x.w6.s##t, x.w7.s##t))
#else
struct tile_keys {
    struct tile_place of[4];
};

static inline struct tile_keys tile_keys_at(const struct tile_dims *p) {
    struct tile_keys x;
    x.of[0] = x.of[1] = x.of[2] = x.of[3] = p->k;
    tile_go_on(&x.of[1], 4);
    tile_go_on(&x.of[2], 8);
    tile_go_on(&x.of[3], 12);
    return x;
}

#define TILE_KEY(x, t) tile_value_at(&(x).of[t], KV_LAYOUT_STEP)
#endif

static inline void tile_product(const struct tile_dims *p, tile_plane high, tile_plane low, int8 key, half d,
                                float8 *s) {
    int8 sums = intel_sub_group_i8_i8_matrix_mad_k32(high, key, (int8)(0));
    tile_add(p, intel_sub_group_i8_i8_matrix_mad_k32(low, key, sums * 128), d, s);
}

static inline void tile_products(const struct tile_dims *p, struct tile_scores *s) {
    uint item = get_sub_group_local_id();
    struct tile_keys x = tile_keys_at(p);
    half4 d = TILE_LOAD(half4, &p->k, p->scale);
    tile_plane high = ((local const tile_plane *)p->q)[item];
    tile_plane low = ((local const tile_plane *)(p->q + TILE_PLANE))[item];
    tile_product(p, high, low, TILE_KEY(x, 0), d.x, &s->of[0]);
    tile_product(p, high, low, TILE_KEY(x, 1), d.y, &s->of[1]);
    tile_product(p, high, low, TILE_KEY(x, 2), d.z, &s->of[2]);
    tile_product(p, high, low, TILE_KEY(x, 3), d.w, &s->of[3]);
}
#endif

/* Products of 8 rows with two planes of bytes. */
struct tile_sums {
    int8 high, low;
};

#ifndef TILE_DPAS
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

/* s += of token t. */
static inline void tile_product(const struct tile_dims *p, const uint t, half d, float8 *s) {
    struct tile_sums sums = {0, 0};
    struct tile_place at = p->k;
    tile_go_on(&at, 4 * t);
    local const uint4 *q = (local const uint4 *)p->q;
    uint next = TILE_LOAD(uint, &at, 0);
#pragma unroll 1
    for (uint n = 1; n <= 8; n++) {
        uint word = next;
        tile_go_on(&at, KV_LAYOUT_STEP);
        next = TILE_LOAD(uint, &at, 0); /* the last is the next dims', or V's */
        tile_dots(&sums, q, word);
        q += 2;
    }
    tile_add(p, sums.high * 128 + sums.low, d, s);
}

static inline void tile_products(const struct tile_dims *p, struct tile_scores *s) {
    half4 d = TILE_LOAD(half4, &p->k, p->scale);
    tile_product(p, 0, d.x, &s->of[0]);
    tile_product(p, 1, d.y, &s->of[1]);
    tile_product(p, 2, d.z, &s->of[2]);
    tile_product(p, 3, d.w, &s->of[3]);
}
#endif

/* Token number k of the item: the scores of rows that don't see it become -INFINITY. */
static inline void tile_hide(const struct look *l, int8 end, uint begin, int token, float8 *s) {
#define HIDE(i) s->s##i = token < end.s##i && token >= hidden_of(l, end.s##i, begin) ? s->s##i : -INFINITY;
    TILE_EACH_ROW(HIDE)
#undef HIDE
}

/* Blocks of a split of which some row sees something; others may not exist. */
struct tile_span {
    int first, end; /* tokens */
};

static inline struct tile_span tile_span_of(const struct look *l, const struct tile_memory *m, uint begin) {
    struct tile_span s = {max(hidden_of(l, m->front - (int)begin, begin), 0),
                          min(m->back - (int)begin, SPLIT)};
    return s;
}

/* All rows see the whole split. */
static inline bool tile_whole(const struct look *l, const struct tile_memory *m, uint begin) {
    return m->front - (int)begin >= SPLIT && hidden_of(l, m->back - (int)begin, begin) <= 0;
}

/* They all are there, and have seen something of an earlier one. */
static inline bool tile_all_merge(const struct look *l, const struct tile_memory *m, const struct rows *r,
                                  uint begin) {
    return r->n == TILE_ROWS && tile_whole(l, m, begin) && !tile_is_first(l, m->back, begin);
}

/* The products of the item's rows and tokens, scaled. */
static inline void tile_score(const struct look *l, const struct tile_memory *m, uint begin,
                              struct tile_scores *s) {
    struct place p = place_of(get_local_id(0));
    struct tile_dims of;
    const uint token = 4 * p.slot % KV_LAYOUT_BLOCK;
    of.k = tile_place_at(m->k, m->block[4 * p.slot / KV_LAYOUT_BLOCK] + 4 * token);
    of.scale = (int)kv_layout_scales(KV_LAYOUT_Q8_0, l->head_k) - 2 * (int)token;
    of.q = m->q + p.row / 8 * 2 * TILE_PLANE;
    of.d = (local const float8 *)(m->d + p.row);
    s->of[0] = s->of[1] = s->of[2] = s->of[3] = 0.0f;
#pragma unroll 1
    for (uint g = 0; g < l->head_k / 32; g++) {
        tile_products(&of, s);
        of.q += TILE_ROWS / 8 * 2 * TILE_PLANE;
        of.d += TILE_ROWS / 8;
        tile_go_on(&of.k, 8 * KV_LAYOUT_STEP);
        of.scale -= (8 * 4 - 2) * KV_LAYOUT_BLOCK;
    }
    s->of[0] *= l->scale;
    s->of[1] *= l->scale;
    s->of[2] *= l->scale;
    s->of[3] *= l->scale;
    if (tile_whole(l, m, begin))
        return;
    int8 end = *(local const int8 *)(m->of.end + p.row) - (int)begin;
    tile_hide(l, end, begin, (int)(4 * p.slot), &s->of[0]);
    tile_hide(l, end, begin, (int)(4 * p.slot + 1), &s->of[1]);
    tile_hide(l, end, begin, (int)(4 * p.slot + 2), &s->of[2]);
    tile_hide(l, end, begin, (int)(4 * p.slot + 3), &s->of[3]);
}

static inline float tile_larger(float a, float b) {
    return a > b ? a : b;
}

/* The largest of eight numbers `apart`. */
static inline float tile_largest8(local const float *x, const uint apart) {
    float a = tile_larger(x[0], x[apart]), b = tile_larger(x[2 * apart], x[3 * apart]);
    float c = tile_larger(x[4 * apart], x[5 * apart]), d = tile_larger(x[6 * apart], x[7 * apart]);
    return tile_larger(tile_larger(a, b), tile_larger(c, d));
}

/* Of four rows and eight tokens 32 apart: halves are added to halves, as sum128's tree does. */
static inline float4 tile_sum8(local const float *e, uint token, uint row) {
#define AT(i) (*(local const float4 *)(e + tile_weight(token + 32 * i, row)))
    float4 a = AT(0) + AT(4), b = AT(1) + AT(5), c = AT(2) + AT(6), d = AT(3) + AT(7);
#undef AT
    float4 even = a + c, odd = b + d;
    return even + odd;
}

/* Of 32 numbers, TILE_ROWS apart, what is left of the tree. */
static inline float tile_sum32(local const float *x) {
    float v[8];
#pragma unroll
    for (uint i = 0; i < 8; i++) {
        float even = x[i * TILE_ROWS] + x[(i + 16) * TILE_ROWS];
        float odd = x[(i + 8) * TILE_ROWS] + x[(i + 24) * TILE_ROWS];
        v[i] = even + odd;
    }
    float a = v[0] + v[4], b = v[1] + v[5], c = v[2] + v[6], d = v[3] + v[7];
    float even = a + c, odd = b + d;
    return even + odd;
}

/* e, but where it is +0 by definition, here it is below 2^-125: then its weight is 0 as well, and the sum, in
 * which one e is 1, is the same. So of tokens that a row does not see (s is -INFINITY; and of a row that sees
 * none the maximum too, whose difference is NaN). */
static inline float tile_exp(float s, float most) {
    return num_exp_within(fmax(s - most, NUM_EXP_MIN));
}

/* What becomes of a row's sums of a split: nothing, it sees none of it; they are the first, or merged. */
#define TILE_NONE  0
#define TILE_FIRST 1
#define TILE_MERGE 2

/* Group: scores to e; the next merge of every row to before and now. Sums as sum128's tree has them: through
 * local memory, where an item adds what is 128, 64 and 32 tokens apart of four rows, then one what is 16
 * apart and less of one row. */
static inline void tile_weights(const struct look *l, const struct tile_memory *m, const struct rows *r,
                                uint begin, struct tile_scores *s) {
    uint me = get_local_id(0);
    struct place p = place_of(me);
    local float *lane = m->e + p.row * TILE_LANES + p.slot; /* [TILE_ROWS][TILE_LANES] */
#define MOST(i)                                                                                              \
    lane[i * TILE_LANES] =                                                                                   \
        tile_larger(tile_larger(s->of[0].s##i, s->of[1].s##i), tile_larger(s->of[2].s##i, s->of[3].s##i));
    TILE_EACH_ROW(MOST)
#undef MOST
    barrier(CLK_LOCAL_MEM_FENCE);
    m->part[me] = tile_largest8(m->e + me / TILE_TEAM * TILE_LANES + me % TILE_TEAM, TILE_TEAM);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < TILE_ROWS)
        m->of.now[me] = tile_largest8(m->part + me * TILE_TEAM, 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    float8 most = *(local const float8 *)(m->of.now + p.row);
#define EXP(i)                                                                                               \
    s->of[0].s##i = tile_exp(s->of[0].s##i, most.s##i);                                                      \
    s->of[1].s##i = tile_exp(s->of[1].s##i, most.s##i);                                                      \
    s->of[2].s##i = tile_exp(s->of[2].s##i, most.s##i);                                                      \
    s->of[3].s##i = tile_exp(s->of[3].s##i, most.s##i);
    TILE_EACH_ROW(EXP)
#undef EXP
#define PUT(k)                                                                                               \
    *(local float4 *)(m->e + tile_weight(4 * p.slot + k, p.row)) = s->of[k].lo;                              \
    *(local float4 *)(m->e + tile_weight(4 * p.slot + k, p.row + 4)) = s->of[k].hi;
    PUT(0)
    PUT(1)
    PUT(2)
    PUT(3)
#undef PUT
    barrier(CLK_LOCAL_MEM_FENCE);
    float4 sum = tile_sum8(m->e, me / TILE_TEAM, me % TILE_TEAM * 4);
    barrier(CLK_LOCAL_MEM_FENCE);
    ((local float4 *)m->e)[me] = sum; /* [32 tokens][TILE_ROWS] */
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < TILE_ROWS) {
        m->of.before[me] = tile_sum32(m->e + me);
        tile_plan(l, &m->of, r, begin);
        int end = m->of.end[me];
        bool sees = me < r->n && tile_sees(l, end, begin);
        m->to[me] = !sees ? TILE_NONE : tile_is_first(l, end, begin) ? TILE_FIRST : TILE_MERGE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Group: the split's blocks. A barrier follows. */
static inline void tile_blocks(const struct look *l, const struct tile_memory *m, global const uint *table,
                               uint begin) {
    struct tile_span span = tile_span_of(l, m, begin);
    int me = (int)get_local_id(0);
    if (me < TILE_BLOCKS) {
        int block = clamp(me, span.first / KV_LAYOUT_BLOCK, (span.end - 1) / KV_LAYOUT_BLOCK);
        m->block[me] = block_of(l, table, begin + (uint)block * KV_LAYOUT_BLOCK);
    }
}

/* Group: the factors and units of what rows see of the split. Where all see all of it, row 0's stand for all:
 * then its scales are looked at once, else for each row. */
static inline void tile_tops(const struct look *l, const struct tile_memory *m, uint begin) {
    const uint groups = l->head_v / 32, n = tile_whole(l, m, begin) ? 1 : TILE_ROWS, me = get_local_id(0);
    global const uchar *scales = m->v + kv_layout_scales(KV_LAYOUT_Q8_0, l->head_v);
    for (uint i = me; i < groups * n * TILE_PARTS; i += ITEMS) {
        uint part = i % TILE_PARTS, row = i / TILE_PARTS % n, g = i / TILE_PARTS / n;
        uint token = part * (SPLIT / TILE_PARTS);
        int end = m->of.end[row] - (int)begin, first = hidden_of(l, end, begin) - (int)token;
        global const half4 *at = (global const half4 *)(scales + m->block[token / KV_LAYOUT_BLOCK]) +
                                 g * (KV_LAYOUT_BLOCK / 4) + token % KV_LAYOUT_BLOCK / 4;
        end -= (int)token;
        float a = larger_scale(larger_scale(0.0f, seen_scales(at[0], first, end)),
                               seen_scales(at[1], first - 4, end - 4));
        m->e[i] = larger_scale(larger_scale(a, seen_scales(at[2], first - 8, end - 8)),
                               seen_scales(at[3], first - 12, end - 12));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < groups * TILE_ROWS; i += ITEMS) {
        local const float *of = m->e + (n == 1 ? i / TILE_ROWS : i) * TILE_PARTS;
        float most = tile_larger(tile_largest8(of, 1), tile_largest8(of + 8, 1));
        m->top[2 * i] = NUM_QUANT_WEIGHT * cl_inverse(most);
        m->top[2 * i + 1] = most * NUM_QUANT_WEIGHT_INVERSE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Word n of an item's rows and tokens. In sub-groups of 16 the engine's items have two tokens of each row, so
 * a word has two of two rows; else it has a row's four. */
#define TILE_BITS(t, row) NUM_BITS(fma(s->of[t].s##row, scale.s##t *top[whole ? 0 : 2 * row], round))
#define TILE_WORD(n, row, other, t0, t1, t2, t3)                                                             \
    {                                                                                                        \
        uint2 word = weight_bytes(TILE_BITS(t0, row), TILE_BITS(t1, row), TILE_BITS(t2, other),              \
                                  TILE_BITS(t3, other));                                                     \
        high.s##n = word.x, low.s##n = word.y;                                                               \
    }
#if defined TILE_DPAS && CL_SUB_GROUP == 16
#define TILE_FOUR_WORDS(a, b)                                                                                \
    TILE_WORD(0, 0, 1, a, b, a, b)                                                                           \
    TILE_WORD(1, 2, 3, a, b, a, b)                                                                           \
    TILE_WORD(2, 4, 5, a, b, a, b)                                                                           \
    TILE_WORD(3, 6, 7, a, b, a, b)
#define TILE_LOW_WORDS  TILE_FOUR_WORDS(0, 1)
#define TILE_HIGH_WORDS TILE_FOUR_WORDS(2, 3)
#else
#define TILE_FOUR_WORDS(a, b, c, d)                                                                          \
    TILE_WORD(0, a, a, 0, 1, 2, 3)                                                                           \
    TILE_WORD(1, b, b, 0, 1, 2, 3)                                                                           \
    TILE_WORD(2, c, c, 0, 1, 2, 3)                                                                           \
    TILE_WORD(3, d, d, 0, 1, 2, 3)
#define TILE_LOW_WORDS  TILE_FOUR_WORDS(0, 1, 2, 3)
#define TILE_HIGH_WORDS TILE_FOUR_WORDS(4, 5, 6, 7)
#endif

/* Item: its weights of a group of V to local memory; of its tokens' scales, and the factor of all rows
 * (whole) or of each. */
static inline void tile_put_weights(const struct tile_scores *s, const bool whole, half4 d,
                                    local const float *top, local uint *to) {
    float4 scale = {(float)d.x, (float)d.y, (float)d.z, (float)d.w};
    const float round = WEIGHT_ROUND;
    local uint4 *at = (local uint4 *)to;
    uint4 high, low;
    TILE_LOW_WORDS
    at[0] = high;
    at[TILE_PLANE / 4] = low;
    TILE_HIGH_WORDS
    at[1] = high;
    at[TILE_PLANE / 4 + 1] = low;
}

/* Where the weights of a group of V (0, 1), of 8 rows from row on and a block begin. */
static inline local uint *tile_weights_at(const struct tile_memory *m, uint group, uint row, uint block) {
    return (local uint *)m->e + ((group * (TILE_ROWS / 8) + row / 8) * TILE_BLOCKS + block) * 2 * TILE_PLANE;
}

/* Group: the weights of the split of two groups of V, from column `from` on. */
static inline void tile_share(const struct look *l, const struct tile_memory *m, uint begin, uint from,
                              const struct tile_scores *s) {
    struct place p = place_of(get_local_id(0));
    struct tile_span span = tile_span_of(l, m, begin);
    const int token = 4 * (int)p.slot;
    const bool whole = CL_SUB_GROUP == 16 && tile_whole(l, m, begin); /* two ways take registers */
    global const half4 *scales = (global const half4 *)(m->v + kv_layout_scales(KV_LAYOUT_Q8_0, l->head_v) +
                                                        m->block[4 * p.slot / KV_LAYOUT_BLOCK]) +
                                 p.slot % (KV_LAYOUT_BLOCK / 4);
    uint groups = min((l->head_v - from) / 32, 2u);
#pragma unroll 1
    for (uint i = 0; i < groups; i++) {
        uint g = from / 32 + i;
        half4 d = scales[g * (KV_LAYOUT_BLOCK / 4)];
        local const float *top = m->top + 2 * (g * TILE_ROWS + p.row);
        local uint *to =
            tile_weights_at(m, i, p.row, p.slot / (KV_LAYOUT_BLOCK / 4)) + p.slot % (KV_LAYOUT_BLOCK / 4) * 8;
        if (whole)
            tile_put_weights(s, true, d, top, to);
        else
            tile_put_weights(s, false, seen_scales(d, span.first - token, span.end - token), top, to);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* sums += the weights of a block times its values. */
static inline void tile_add_block(struct tile_sums *sums, local const uint *weights, int8 v) {
#ifdef TILE_DPAS
    uint item = get_sub_group_local_id();
    tile_plane high = ((local const tile_plane *)weights)[item];
    tile_plane low = ((local const tile_plane *)(weights + TILE_PLANE))[item];
    sums->high = intel_sub_group_i8_i8_matrix_mad_k32(high, v, sums->high);
    sums->low = intel_sub_group_i8_i8_matrix_mad_k32(low, v, sums->low);
#else
    local const uint4 *q = (local const uint4 *)weights;
#define DOTS(n) tile_dots(sums, q + 2 * n, (uint)v.s##n);
    TILE_EACH_ROW(DOTS)
#undef DOTS
#endif
}

/* Item: a row's column of this split into the output. */
static inline void tile_merge_row(const struct look *l, const struct tile_memory *m, uint row, uint column,
                                  float sum) {
    uint to = m->to[row];
    if (to == TILE_NONE)
        return;
    global float *out = (global float *)tile_out(l, &m->of, row) + column;
    if (to == TILE_MERGE) {
        float scaled = *out * m->of.before[row];
        sum = fma(sum, m->of.now[row], scaled);
    }
    *out = sum;
}

/* The same of eight rows, all of which are merged. */
static inline void tile_merge_rows(const struct look *l, const struct tile_memory *m, uint row, uint column,
                                   float8 sum) {
    global float *base = (global float *)(l->out.base + l->out.f32) + column;
    uint8 at = *(local const uint8 *)(m->of.out + row);
    float8 before = *(local const float8 *)(m->of.before + row),
           now = *(local const float8 *)(m->of.now + row);
    float8 out;
#define READ(i) out.s##i = base[at.s##i];
    TILE_EACH_ROW(READ)
#undef READ
    float8 scaled = out * before;
    out = fma(sum, now, scaled);
#define WRITE(i) base[at.s##i] = out.s##i;
    TILE_EACH_ROW(WRITE)
#undef WRITE
}

/* A column of a block of V. */
static inline int8 tile_block_at(const struct look *l, const struct tile_memory *m, uint block, uint column) {
    struct tile_place p = tile_place_at(m->v, 4 * column);
    tile_go_on(&p, m->block[block]);
    return tile_value_at(&p, 4 * l->head_v);
}

/* Group: the split's values of 64 columns from `from` on, weighed, merged into the output. */
static inline void tile_values(const struct look *l, const struct tile_memory *m, const struct rows *r,
                               uint begin, uint from) {
    struct place p = place_of(get_local_id(0));
    struct tile_span span = tile_span_of(l, m, begin);
    bool mine = from + p.slot < l->head_v; /* else any that is */
    uint column = mine ? from + p.slot : from, group = mine ? p.slot / 32 : 0;
    uint block = (uint)span.first / KV_LAYOUT_BLOCK, until = cl_ceil_div((uint)span.end, KV_LAYOUT_BLOCK);
    local const uint *weights = tile_weights_at(m, group, p.row, block);
    struct tile_sums sums = {0, 0};
#define BLOCK(b)      tile_block_at(l, m, b, column)
#define ADD(b, value) tile_add_block(&sums, weights + b * 2 * TILE_PLANE, value)
    if (CL_SUB_GROUP == 16 &&
        tile_whole(l, m, begin)) { /* the next block is on the way; without a loop it need not be moved */
        int8 v0 = BLOCK(0), v1 = BLOCK(1);
        ADD(0, v0);
        int8 v2 = BLOCK(2);
        ADD(1, v1);
        int8 v3 = BLOCK(3);
        ADD(2, v2);
        int8 v4 = BLOCK(4);
        ADD(3, v3);
        int8 v5 = BLOCK(5);
        ADD(4, v4);
        int8 v6 = BLOCK(6);
        ADD(5, v5);
        int8 v7 = BLOCK(7);
        ADD(6, v6);
        ADD(7, v7);
    } else {
#pragma unroll 1
        for (; block < until; block++) {
            ADD(0, BLOCK(block));
            weights += 2 * TILE_PLANE;
        }
    }
#undef ADD
#undef BLOCK
    local const float *units = m->top + 2 * (column / 32 * TILE_ROWS + p.row) + 1;
    float8 sum = convert_float8(sums.high * 256 + sums.low) *
                 (float8)(units[0], units[2], units[4], units[6], units[8], units[10], units[12], units[14]);
    if (CL_SUB_GROUP == 16 && tile_all_merge(l, m, r, begin)) {
        if (mine)
            tile_merge_rows(l, m, p.row, column, sum);
    } else if (mine) {
#define MERGE(i) tile_merge_row(l, m, p.row + i, column, sum.s##i);
        TILE_EACH_ROW(MERGE)
#undef MERGE
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Group: the output of up to TILE_ROWS rows, all their splits. */
static inline void tile_rows(const struct look *l, local float *memory, const struct rows *r,
                             global const uint *table) {
    struct tile_memory m = tile_memory_in(memory, l->head_k);
    m.front = behind(l, r, 0);
    m.back = behind(l, r, r->n - 1);
    m.k = cl_unit_at(&l->cache, r->head);
    m.v = m.k + l->cache.k_bytes;
    tile_queries(l, &m, r);
    for (uint begin = first_split(l, r, 0) * SPLIT; (int)begin < m.back; begin += SPLIT) {
        struct tile_scores s;
        tile_blocks(l, &m, table, begin);
        barrier(CLK_LOCAL_MEM_FENCE);
        tile_tops(l, &m, begin);
        tile_score(l, &m, begin, &s);
        tile_weights(l, &m, r, begin, &s);
        for (uint from = 0; from < l->head_v; from += TILE_COLUMNS) {
            tile_share(l, &m, begin, from, &s);
            tile_values(l, &m, r, begin, from);
        }
    }
    tile_sinks(l, &m.of, r);
    for (uint i = get_local_id(0); i < r->n * (l->head_v / 4); i += ITEMS) {
        uint row = i / (l->head_v / 4);
        tile_finish(l, &m.of, row, tile_out(l, &m.of, row) + i % (l->head_v / 4));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#endif
