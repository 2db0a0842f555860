/* Attention of many queries, for K and V of F32 or F16: a tile of TILE_ROWS rows against a split of 256
 * tokens, both products as tiles of registers, so that a key or value that is loaded meets several rows and a
 * row that is read several tokens. What one pass needs next is loaded before the one before it is computed:
 * few threads run at once with so many registers, and each would wait for memory.
 *
 * Scores: item (g, c), c < 32, has rows TILE_EACH * g .. and eight tokens, four in a row in each of two
 * blocks, 4 and more apart by half a split (struct place). It keeps what becomes of them, e, in registers;
 * blocks of 32 tokens go to local memory one after the other, where all items find them. Output: item (slot,
 * lane) has TILE_EACH (V of up to 64 values: TILE_EACH / 2) rows and columns 4 * lane ..; what is merged so
 * far is in the output itself. Includer: attention.cl, after what both ways share. */
#ifndef STATOR_KERNELS_OPENCL_CL_TILES_H
#define STATOR_KERNELS_OPENCL_CL_TILES_H

#include "kernels/opencl/attention/cl_tile_rows.h"

#define TILE_EACH   (TILE_ROWS / 8)
#define TILE_HALF   (TILE_EACH / 2)
#define TILE_TOKENS 8 /* of an item */
#define TILE_BLOCKS (SPLIT / KV_LAYOUT_BLOCK)
#define TILE_STRIDE OPENCL_TILE_STRIDE(TILE_ROWS)
#define TILE_LANES  (KV_LAYOUT_BLOCK + 1)
#define TILE_QUADS  (KV_LAYOUT_BLOCK / 4)

/* Four numbers as they are stored, and of how many dims of K, tokens of V an item has them in flight. */
#if CL_KV == KV_LAYOUT_F16
typedef half4 tile_four;
#define TILE_DIMS 4
#else
typedef float4 tile_four;
#define TILE_DIMS 1
#endif
#define TILE_AHEAD 8

struct tile_memory {
    local float *q;    /* [head_k][TILE_STRIDE] */
    local float *e;    /* two blocks in turn, [32][TILE_ROWS], see tile_weight; partial results of rows */
    local float *sums; /* [TILE_ROWS][8][4] */
    local float *part; /* [TILE_ROWS][4] */
    struct tile_rows_of of;
};

static inline struct tile_memory tile_memory_in(local float *memory) {
    struct tile_memory m;
    m.e = memory;
    m.sums = m.e + 2 * KV_LAYOUT_BLOCK * TILE_ROWS;
    m.part = m.sums + 32 * TILE_ROWS;
    m.of = tile_rows_in(m.part + 4 * TILE_ROWS);
    m.q = m.part + 4 * TILE_ROWS + TILE_ROWS_WORDS;
    return m;
}

/* What an item has of the scores: rows row .. + TILE_EACH, tokens 4 * quad .. + 4 of blocks block and block +
 * 4, as scores k < 4 and k >= 4. A sub-group's items share rows. */
struct place {
    uint row, block, quad;
};

static inline struct place place_of(uint me) {
    struct place p = {(me / 8 % 4 + me / 128 * 4) * TILE_EACH, me / 32 % 4, me % 8};
    return p;
}

static inline int place_token(const struct place *p, uint k) {
    return (int)((p->block + k / 4 * (TILE_BLOCKS / 2)) * KV_LAYOUT_BLOCK + 4 * p->quad + k % 4);
}

static inline void tile_floats(tile_four v, float *x) {
    x[0] = (float)v.x, x[1] = (float)v.y, x[2] = (float)v.z, x[3] = (float)v.w;
}

/* Where the weights of rows row .. + 4 (a multiple of 4) and a token lie in a block of e: shifted so that
 * items which write rows of several tokens at once meet different banks. */
static inline uint tile_weight(uint token, uint row) {
    return token * TILE_ROWS + (row ^ (token / 4 % 8 * 4));
}

/* Group: what is known of rows, and their q; rows that are not there are zero. */
static inline void tile_queries(const struct look *l, const struct tile_memory *m, const struct rows *r) {
    uint me = get_local_id(0);
    tile_rows_put(l, &m->of, r);
    for (uint i = me; i < TILE_ROWS * l->head_k; i += ITEMS) {
        uint row = i / l->head_k, d = i % l->head_k;
        m->q[d * TILE_STRIDE + row] = row < r->n ? query_of(l, r, row)[d] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* s[i][k] = the product of row i of the item and its token k, scaled; -INFINITY where the row does not see
 * it. Blocks of which no row sees anything may not exist: the nearest that does is read. Sums that are -0 are
 * left so, which the definition's are not: no e changes by that. Loads go past a block's K, into its V. */
static inline void tile_scores(const struct look *l, const struct tile_memory *m, const struct rows *r,
                               global const uint *table, uint begin, float s[TILE_EACH][TILE_TOKENS]) {
    struct place p = place_of(get_local_id(0));
    int most = min(seen(l, r, r->n - 1, begin), SPLIT) - 1, least = max(hidden(l, r, 0, begin), 0);
    global const uchar *unit = cl_unit_at(&l->cache, r->head);
    global const tile_four *k[2];
    tile_four next[TILE_DIMS][2];
#pragma unroll
    for (uint h = 0; h < 2; h++) {
        int block =
            clamp((int)(p.block + h * (TILE_BLOCKS / 2)), least / KV_LAYOUT_BLOCK, most / KV_LAYOUT_BLOCK);
        uint at = block_of(l, table, begin + (uint)block * KV_LAYOUT_BLOCK);
        k[h] = (global const tile_four *)(unit + at) + p.quad;
#pragma unroll
        for (uint a = 0; a < TILE_DIMS; a++)
            next[a][h] = k[h][a * TILE_QUADS];
    }
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++)
#pragma unroll
        for (uint j = 0; j < TILE_TOKENS; j++)
            s[i][j] = 0.0f;
    local const float *q = m->q + p.row;
#pragma unroll 1
    for (uint d = 0; d < l->head_k; d += TILE_DIMS) {
        tile_four now[TILE_DIMS][2];
#pragma unroll
        for (uint a = 0; a < TILE_DIMS; a++) {
#pragma unroll
            for (uint h = 0; h < 2; h++) {
                now[a][h] = next[a][h];
                next[a][h] = k[h][(d + TILE_DIMS + a) * TILE_QUADS];
            }
        }
#pragma unroll
        for (uint a = 0; a < TILE_DIMS; a++) {
            float x[TILE_TOKENS];
            tile_floats(now[a][0], x);
            tile_floats(now[a][1], x + 4);
#pragma unroll
            for (uint i = 0; i < TILE_EACH; i += 4) {
                float4 four = *(local const float4 *)(q + (d + a) * TILE_STRIDE + i);
                float y[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (uint j = 0; j < 4; j++)
#pragma unroll
                    for (uint t = 0; t < TILE_TOKENS; t++)
                        s[i + j][t] = fma(y[j], x[t], s[i + j][t]);
            }
        }
    }
    bool whole = seen(l, r, 0, begin) >= SPLIT && hidden(l, r, r->n - 1, begin) <= 0;
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++)
#pragma unroll
        for (uint j = 0; j < TILE_TOKENS; j++)
            s[i][j] *= l->scale;
    if (whole)
        return;
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++) {
        int end = m->of.end[p.row + i] - (int)begin, first = hidden_of(l, end, begin);
#pragma unroll
        for (uint j = 0; j < TILE_TOKENS; j++) {
            int t = place_token(&p, j);
            s[i][j] = t < end && t >= first ? s[i][j] : -INFINITY;
        }
    }
}

static inline float4 tile_sum4(float4 a, float4 b, float4 c, float4 d) {
    float4 even = a + c, odd = b + d;
    return even + odd;
}

/* Group: the sums of e of every row to before (sum128: lane = token mod 128). A half of each item's rows at a
 * time goes through local memory, where an item adds what is 64 and 32 tokens apart. */
static inline void tile_sums(const struct tile_memory *m, float s[TILE_EACH][TILE_TOKENS]) {
    uint me = get_local_id(0);
    struct place p = place_of(me);
    local float4 *all = (local float4 *)m->e, *sums = (local float4 *)m->sums;
#pragma unroll
    for (uint half_of = 0; half_of < TILE_EACH; half_of += TILE_HALF) {
#pragma unroll
        for (uint i = 0; i < TILE_HALF; i++) {
            float v[4];
#pragma unroll
            for (uint j = 0; j < 4; j++)
                v[j] = s[half_of + i][j] + s[half_of + i][j + 4];
            all[(p.row / 2 + i) * 32 + p.block * 8 + p.quad] = (float4)(v[0], v[1], v[2], v[3]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        uint at = me / 8, row = at / TILE_HALF * TILE_EACH + half_of + at % TILE_HALF;
        if (at < TILE_ROWS / 2) {
            local const float4 *x = all + at * 32 + me % 8;
            sums[row * 8 + (me % 8 ^ row % 8)] = tile_sum4(x[0], x[8], x[16], x[24]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me < TILE_ROWS) {
        float4 x[8];
#pragma unroll
        for (uint j = 0; j < 8; j++)
            x[j] = sums[me * 8 + (j ^ me % 8)];
        float4 even = tile_sum4(x[0], x[2], x[4], x[6]), odd = tile_sum4(x[1], x[3], x[5], x[7]);
        float4 of = even + odd;
        m->of.before[me] = (of.x + of.z) + (of.y + of.w);
    }
}

/* Group: scores to e; the next merge of every row to before and now. */
static inline void tile_weights(const struct look *l, const struct tile_memory *m, const struct rows *r,
                                uint begin, float s[TILE_EACH][TILE_TOKENS]) {
    uint me = get_local_id(0);
    struct place p = place_of(me);
    local float *lane = m->e; /* [TILE_ROWS][TILE_LANES] */
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++) {
        float most = s[i][0];
#pragma unroll
        for (uint j = 1; j < TILE_TOKENS; j++)
            most = s[i][j] > most ? s[i][j] : most;
        lane[(p.row + i) * TILE_LANES + p.block * 8 + p.quad] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < 4 * TILE_ROWS) {
        local const float *quarter = lane + me / 4 * TILE_LANES + me % 4;
        float most = quarter[0];
#pragma unroll
        for (uint j = 1; j < 8; j++)
            most = quarter[4 * j] > most ? quarter[4 * j] : most;
        m->part[me] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++) {
        float4 four = *(local const float4 *)(m->part + 4 * (p.row + i));
        float low = four.x > four.y ? four.x : four.y, high = four.z > four.w ? four.z : four.w;
        float most = low > high ? low : high;
        if (p.block == 0 && p.quad == 0)
            m->of.now[p.row + i] = most;
        most = most == -INFINITY ? 0.0f : most; /* of a row that sees nothing: -INFINITY less itself is NaN */
#pragma unroll
        for (uint j = 0; j < TILE_TOKENS; j++) {
            float x = s[i][j] - most, e = num_exp_within(x);
            s[i][j] = x < NUM_EXP_MIN ? 0.0f : e;
        }
    }
    tile_sums(m, s);
    tile_plan(l, &m->of, r, begin);
}

/* Item: its e of a block to local memory, if it has some: four tokens, of the scores from `from` on. */
static inline void tile_share_four(local float *e, const struct place *p, const uint from,
                                   const float s[TILE_EACH][TILE_TOKENS]) {
#pragma unroll
    for (uint j = 0; j < 4; j++)
#pragma unroll
        for (uint i = 0; i < TILE_EACH; i += 4)
            *(local float4 *)(e + tile_weight(4 * p->quad + j, p->row + i)) =
                (float4)(s[i][from + j], s[i + 1][from + j], s[i + 2][from + j], s[i + 3][from + j]);
}

static inline void tile_share(const struct tile_memory *m, uint block,
                              const float s[TILE_EACH][TILE_TOKENS]) {
    struct place p = place_of(get_local_id(0));
    local float *e = m->e + block % 2 * KV_LAYOUT_BLOCK * TILE_ROWS;
    if (p.block == block)
        tile_share_four(e, &p, 0, s);
    else if (p.block + TILE_BLOCKS / 2 == block)
        tile_share_four(e, &p, 4, s);
}

/* What an item has of the output: rows of TILE_EACH or half as many, from row on; columns 4 * lane .. + 4. */
struct output {
    uint row, lane, lanes;
    bool mine; /* it has something */
};

static inline struct output output_of(const struct look *l, uint each) {
    uint me = get_local_id(0), lanes = l->head_v / 4, slot = me / lanes;
    struct output o = {min(slot * each, TILE_ROWS - each), me % lanes, lanes, slot < TILE_ROWS / each};
    return o;
}

/* With 64 rows in sub-groups of 16 the sums have names: IGC keeps an array of them in memory. Sub-groups of 8
 * have too few registers for them in any case, and an array of 32 rows stays in registers. */
#if TILE_ROWS == 64 && CL_SUB_GROUP == 16
#define TILE_NAMED
#include "kernels/opencl/attention/cl_tile_named.h"
#else
/* o += e * v over a block of tokens from t on; v, after: the item's columns of token 0 of this block and of
 * the next, whose first are left in next; whole: the rows see all of it. */
static inline void tile_block(const uint each, bool whole, const struct look *l, const struct tile_memory *m,
                              local const float *e, const struct output *at, global const tile_four *v,
                              global const tile_four *after, uint t, tile_four *next, float o[TILE_EACH][4]) {
    int end[TILE_EACH], first[TILE_EACH];
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++) {
        end[i] = whole ? 0 : m->of.end[at->row + i] - (int)t;
        first[i] = whole ? 0 : hidden_of(l, end[i], t);
    }
#pragma unroll 1
    for (uint j = 0; j < KV_LAYOUT_BLOCK; j += TILE_AHEAD) {
        tile_four now[TILE_AHEAD];
        v = j + TILE_AHEAD == KV_LAYOUT_BLOCK ? after : v + TILE_AHEAD * at->lanes;
#pragma unroll
        for (uint a = 0; a < TILE_AHEAD; a++) {
            now[a] = next[a];
            next[a] = v[a * at->lanes];
        }
#pragma unroll
        for (uint a = 0; a < TILE_AHEAD; a++) {
            float x[4];
            tile_floats(now[a], x);
#pragma unroll
            for (uint i = 0; i < TILE_EACH; i += 4) {
                if (i >= each)
                    break;
                float4 rows = *(local const float4 *)(e + tile_weight(j + a, at->row + i));
                float y[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
                for (uint n = 0; n < 4; n++) {
                    bool sees = whole || ((int)(j + a) < end[i + n] && (int)(j + a) >= first[i + n]);
#pragma unroll
                    for (uint k = 0; k < 4; k++) {
                        float sum = fma(y[n], x[k], o[i + n][k]);
                        o[i + n][k] = sees ? sum : o[i + n][k];
                    }
                }
            }
        }
    }
}
#endif

/* Group: the split's values, weighed by e, merged into the output. */
static inline void tile_values(const uint each, const struct look *l, const struct tile_memory *m,
                               const struct rows *r, global const uint *table, uint begin,
                               const float s[TILE_EACH][TILE_TOKENS]) {
    struct output at = output_of(l, each);
    global const uchar *unit = cl_unit_at(&l->cache, r->head) + l->cache.k_bytes;
#ifdef TILE_NAMED
    tile_output o;
    tile_output_zero(o);
#else
    float o[TILE_EACH][4];
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++)
#pragma unroll
        for (uint k = 0; k < 4; k++)
            o[i][k] = 0.0f;
#endif
    int all_from = hidden(l, r, r->n - 1, begin), all_to = seen(l, r, 0, begin);
    uint some = (uint)max(hidden(l, r, 0, begin), 0) / KV_LAYOUT_BLOCK;
    uint until = cl_ceil_div((uint)min(seen(l, r, r->n - 1, begin), SPLIT), KV_LAYOUT_BLOCK);
    global const tile_four *v =
        (global const tile_four *)(unit + block_of(l, table, begin + some * KV_LAYOUT_BLOCK)) + at.lane;
#ifdef TILE_NAMED
    tile_eight next;
    tile_eight_at(v, at.lanes, next);
#else
    tile_four next[TILE_AHEAD];
#pragma unroll
    for (uint a = 0; a < TILE_AHEAD; a++)
        next[a] = v[a * at.lanes];
#endif
    tile_share(m, some, s);
#pragma unroll 1
    for (uint b = some; b < until; b++) {
        int t = (int)(b * KV_LAYOUT_BLOCK);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (b + 1 < until)
            tile_share(m, b + 1, s);
        uint then = block_of(l, table, begin + min(b + 1, until - 1) * KV_LAYOUT_BLOCK);
        global const tile_four *after = (global const tile_four *)(unit + then) + at.lane;
        local const float *e = m->e + b % 2 * KV_LAYOUT_BLOCK * TILE_ROWS;
        if (at.mine) {
            if (t >= all_from && t + KV_LAYOUT_BLOCK <= all_to)
                tile_block(each, true, l, m, e, &at, v, after, begin + (uint)t, next, o);
            else
                tile_block(each, false, l, m, e, &at, v, after, begin + (uint)t, next, o);
        }
        v = after;
    }
#ifdef TILE_NAMED
    tile_output_merge(each, l, m, r, &at, begin, o);
#else
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++) {
        uint row = at.row + i;
        if (i >= each || !at.mine || row >= r->n || !tile_sees(l, m->of.end[row], begin))
            continue;
        tile_merge(l, &m->of, row, begin, (float4)(o[i][0], o[i][1], o[i][2], o[i][3]),
                   tile_out(l, &m->of, row) + at.lane);
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Group: the finished output of the rows. */
static inline void tile_put(const uint each, const struct look *l, const struct tile_memory *m,
                            const struct rows *r) {
    struct output at = output_of(l, each);
    tile_sinks(l, &m->of, r);
    for (uint i = 0; i < each; i++)
        if (at.mine && at.row + i < r->n)
            tile_finish(l, &m->of, at.row + i, tile_out(l, &m->of, at.row + i) + at.lane);
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Group: the output of up to TILE_ROWS rows, all their splits. */
static inline void tile_rows(const struct look *l, local float *memory, const struct rows *r,
                             global const uint *table) {
    struct tile_memory m = tile_memory_in(memory);
    bool narrow = TILE_HALF >= 4 && l->head_v <= 64;
    tile_queries(l, &m, r);
    for (uint begin = first_split(l, r, 0) * SPLIT; seen(l, r, r->n - 1, begin) > 0; begin += SPLIT) {
        float s[TILE_EACH][TILE_TOKENS];
        tile_scores(l, &m, r, table, begin, s);
        tile_weights(l, &m, r, begin, s);
        if (narrow)
            tile_values(TILE_HALF, l, &m, r, table, begin, s);
        else
            tile_values(TILE_EACH, l, &m, r, table, begin, s);
    }
    tile_put(narrow ? TILE_HALF : TILE_EACH, l, &m, r);
}

#endif
