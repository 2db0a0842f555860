/* Attention of many queries, for K and V of F32 or F16: a tile of TILE_ROWS rows against a split of 256
 * tokens, both products as tiles of registers, so that a key or value that is loaded meets several rows and a
 * row that is read several tokens.
 *
 * Scores: item (g, c), c < 32, has rows TILE_EACH * g .. and the tokens c, c + 32, .. of the split, one of
 * each KV block. It keeps what becomes of them, e, in registers; blocks of 32 tokens go to local memory one
 * after the other, where all items find them. Output: item (slot, lane) has rows 4 * slot .. and columns 4 *
 * lane ... Includer: attention.cl, after what both ways share. */
#ifndef STATOR_KERNELS_OPENCL_CL_TILES_H
#define STATOR_KERNELS_OPENCL_CL_TILES_H

#define TILE_EACH   (TILE_ROWS / 8)
#define TILE_BLOCKS (SPLIT / KV_LAYOUT_BLOCK)
#define TILE_STRIDE OPENCL_TILE_STRIDE(TILE_ROWS)
#define TILE_LANES  (KV_LAYOUT_BLOCK + 1)

struct tile_memory {
    local float *q;    /* [head_k][TILE_STRIDE] */
    local float *e;    /* two blocks in turn, [32][TILE_STRIDE]; partial results of rows */
    local float *part; /* [TILE_ROWS][4] */
    local float *max, *sum, *before, *now; /* [TILE_ROWS] each, as in struct scratch */
};

static inline struct tile_memory tile_memory_in(local float *memory) {
    struct tile_memory m;
    m.e = memory;
    m.part = m.e + 2 * KV_LAYOUT_BLOCK * TILE_STRIDE;
    m.max = m.part + 4 * TILE_ROWS;
    m.sum = m.max + TILE_ROWS;
    m.before = m.sum + TILE_ROWS;
    m.now = m.before + TILE_ROWS;
    m.q = m.now + TILE_ROWS;
    return m;
}

/* One number of F16 or F32. */
static inline float tile_number(global const uchar *at, uint i) {
    return TYPE_K(0) == KV_LAYOUT_F16 ? (float)((global const half *)at)[i] : ((global const float *)at)[i];
}

static inline void tile_numbers(global const uchar *at, uint four, float *x) {
    if (TYPE_V(0) == KV_LAYOUT_F16) {
        half4 v = ((global const half4 *)at)[four];
        x[0] = (float)v.x, x[1] = (float)v.y, x[2] = (float)v.z, x[3] = (float)v.w;
    } else {
        float4 v = ((global const float4 *)at)[four];
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
    }
}

/* Group: the rows' q; rows that are not there are zero. */
static inline void tile_queries(const struct look *l, const struct tile_memory *m, const struct rows *r) {
    for (uint i = get_local_id(0); i < TILE_ROWS * l->head_k; i += ITEMS) {
        uint row = i / l->head_k, d = i % l->head_k;
        m->q[d * TILE_STRIDE + row] = row < r->n ? query_of(l, r, row)[d] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* s[i][b] = the product of row i of the item and its token of block b, scaled; -INFINITY where the row does
 * not see it. Blocks of which no row sees anything may not exist: the nearest that does is read. */
static inline void tile_scores(const struct look *l, const struct tile_memory *m, const struct rows *r,
                               global const uint *table, uint begin, float s[TILE_EACH][TILE_BLOCKS]) {
    uint me = get_local_id(0), c = me % KV_LAYOUT_BLOCK, row = me / KV_LAYOUT_BLOCK * TILE_EACH;
    int most = min(seen(l, r, r->n - 1, begin), SPLIT) - 1, least = hidden(l, r, 0, begin);
    global const uchar *unit = cl_unit_at(&l->cache, r->head);
    uint at[TILE_BLOCKS];
#pragma unroll
    for (uint b = 0; b < TILE_BLOCKS; b++) {
        int first = least > 0 ? least / KV_LAYOUT_BLOCK : 0;
        uint block = (uint)clamp((int)b, first, most / KV_LAYOUT_BLOCK);
        at[b] = block_of(l, table, begin + block * KV_LAYOUT_BLOCK);
#pragma unroll
        for (uint i = 0; i < TILE_EACH; i++)
            s[i][b] = 0.0f;
    }
    local const float *q = m->q + row;
#pragma unroll 2
    for (uint d = 0; d < l->head_k; d++) {
        float x[TILE_BLOCKS], y[TILE_EACH];
#pragma unroll
        for (uint b = 0; b < TILE_BLOCKS; b++)
            x[b] = tile_number(unit + at[b], d * KV_LAYOUT_BLOCK + c);
#pragma unroll
        for (uint i = 0; i < TILE_EACH; i += 4) {
            float4 four = *(local const float4 *)(q + d * TILE_STRIDE + i);
            y[i] = four.x, y[i + 1] = four.y, y[i + 2] = four.z, y[i + 3] = four.w;
        }
#pragma unroll
        for (uint i = 0; i < TILE_EACH; i++)
#pragma unroll
            for (uint b = 0; b < TILE_BLOCKS; b++)
                s[i][b] = fma(y[i], x[b], s[i][b]);
    }
    bool whole = seen(l, r, 0, begin) >= SPLIT && hidden(l, r, r->n - 1, begin) <= 0;
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++) {
        int end = seen(l, r, row + i, begin), first = hidden(l, r, row + i, begin);
#pragma unroll
        for (uint b = 0; b < TILE_BLOCKS; b++) {
            int t = (int)(b * KV_LAYOUT_BLOCK + c);
            float x = (0.0f + s[i][b]) * l->scale;
            s[i][b] = whole || (t < end && t >= first) ? x : -INFINITY;
        }
    }
}

/* Group: scores to e; the next merge of every row to before and now. */
static inline void tile_weights(const struct look *l, const struct tile_memory *m, const struct rows *r,
                                uint begin, float s[TILE_EACH][TILE_BLOCKS]) {
    uint me = get_local_id(0), c = me % KV_LAYOUT_BLOCK, row = me / KV_LAYOUT_BLOCK * TILE_EACH;
    local float *lane = m->e; /* [TILE_ROWS][TILE_LANES] */
    local const float *quarter = lane + me / 4 * TILE_LANES + me % 4;
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++) {
        float most = s[i][0];
#pragma unroll
        for (uint b = 1; b < TILE_BLOCKS; b++)
            most = s[i][b] > most ? s[i][b] : most;
        lane[(row + i) * TILE_LANES + c] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < 4 * TILE_ROWS) {
        float most = quarter[0];
#pragma unroll
        for (uint j = 1; j < 8; j++)
            most = quarter[4 * j] > most ? quarter[4 * j] : most;
        m->part[me] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < TILE_EACH; i++) {
        float4 four = *(local const float4 *)(m->part + 4 * (row + i));
        float low = four.x > four.y ? four.x : four.y, high = four.z > four.w ? four.z : four.w;
        float most = low > high ? low : high;
        if (c == 0)
            m->now[row + i] = most;
        float sum[TILE_BLOCKS]; /* the lanes c, c + 32, .. of sum128, then its first levels */
#pragma unroll
        for (uint b = 0; b < TILE_BLOCKS; b++) {
            float e = s[i][b] == -INFINITY ? 0.0f : num_exp(s[i][b] - most);
            s[i][b] = e;
            sum[b] = e;
        }
#pragma unroll
        for (uint half_way = TILE_BLOCKS / 2; half_way > 0; half_way /= 2)
#pragma unroll
            for (uint b = 0; b < half_way; b++)
                sum[b] += sum[b + half_way];
        lane[(row + i) * TILE_LANES + c] = sum[0];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < 4 * TILE_ROWS) {
        float even = (quarter[0] + quarter[16]) + (quarter[8] + quarter[24]);
        float odd = (quarter[4] + quarter[20]) + (quarter[12] + quarter[28]);
        m->part[me] = even + odd;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < r->n && sees_some(l, r, me, begin)) {
        local const float *part = m->part + 4 * me;
        struct scratch of = {0, 0, 0, 0, m->max, m->sum, m->before, m->now};
        m->before[me] = (part[0] + part[2]) + (part[1] + part[3]);
        plan_merge(&of, me, begin == first_split(l, r, me) * SPLIT);
    }
}

/* o += e * v over a block of tokens; v: the columns of its slot 0; whole: the rows see all of it. */
static inline void tile_block(bool whole, local const float *e, global const uchar *v, uint four, uint stride,
                              int t, const int *end, const int *first, float o[4][4]) {
#pragma unroll 4
    for (uint j = 0; j < KV_LAYOUT_BLOCK; j++) {
        float x[4];
        tile_numbers(v, j * stride + four, x);
        float4 rows = *(local const float4 *)(e + j * TILE_STRIDE);
        float y[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
        for (uint i = 0; i < 4; i++) {
            bool sees = whole || (t + (int)j < end[i] && t + (int)j >= first[i]);
#pragma unroll
            for (uint k = 0; k < 4; k++) {
                float sum = fma(y[i], x[k], o[i][k]);
                o[i][k] = sees ? sum : o[i][k];
            }
        }
    }
}

/* Group: the split's values, weighed by e, merged into `merged`. */
static inline void tile_values(const struct look *l, const struct tile_memory *m, const struct rows *r,
                               global const uint *table, uint begin, float s[TILE_EACH][TILE_BLOCKS],
                               float merged[4][4]) {
    uint me = get_local_id(0), c = me % KV_LAYOUT_BLOCK, own = me / KV_LAYOUT_BLOCK * TILE_EACH;
    uint lanes = l->head_v / 4, slot = me / lanes, lane = me % lanes, row = 4 * slot;
    bool mine = slot < TILE_ROWS / 4;
    global const uchar *unit = cl_unit_at(&l->cache, r->head) + l->cache.k_bytes;
    int end[4], first[4];
    float o[4][4];
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        end[i] = seen(l, r, row + i, begin);
        first[i] = hidden(l, r, row + i, begin);
#pragma unroll
        for (uint k = 0; k < 4; k++)
            o[i][k] = 0.0f;
    }
    int all_from = hidden(l, r, r->n - 1, begin), all_to = seen(l, r, 0, begin);
    int some_from = hidden(l, r, 0, begin), some_to = seen(l, r, r->n - 1, begin);
#pragma unroll
    for (uint b = 0; b < TILE_BLOCKS; b++) {
        int t = (int)(b * KV_LAYOUT_BLOCK);
        local float *e = m->e + b % 2 * KV_LAYOUT_BLOCK * TILE_STRIDE;
#pragma unroll
        for (uint i = 0; i < TILE_EACH; i += 4)
            *(local float4 *)(e + c * TILE_STRIDE + own + i) =
                (float4)(s[i][b], s[i + 1][b], s[i + 2][b], s[i + 3][b]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!mine || t >= some_to || t + KV_LAYOUT_BLOCK <= some_from)
            continue;
        global const uchar *v = unit + block_of(l, table, begin + (uint)t);
        if (t >= all_from && t + KV_LAYOUT_BLOCK <= all_to)
            tile_block(true, e + row, v, lane, lanes, t, end, first, o);
        else
            tile_block(false, e + row, v, lane, lanes, t, end, first, o);
    }
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        uint at = min(row + i, (uint)TILE_ROWS - 1);
        bool alone = begin == first_split(l, r, at) * SPLIT, some = at < r->n && sees_some(l, r, at, begin);
        float before = m->before[at], now = m->now[at];
#pragma unroll
        for (uint k = 0; k < 4; k++) {
            float scaled = merged[i][k] * before;
            float both = fma(o[i][k], now, scaled);
            merged[i][k] = !some ? merged[i][k] : alone ? o[i][k] : both;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Group: the finished output of the rows. */
static inline void tile_put(const struct look *l, const struct tile_memory *m, const struct rows *r,
                            float merged[4][4]) {
    uint me = get_local_id(0), lanes = l->head_v / 4, row = 4 * (me / lanes);
    if (l->has_sinks && me < r->n) {
        struct scratch of = {0, 0, 0, 0, m->max, m->sum, m->before, m->now};
        plan_sink(l, &of, r, me);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        if (row + i < r->n) {
            float by = num_rcp(m->sum[row + i]), before = m->before[row + i];
            float4 o = {merged[i][0], merged[i][1], merged[i][2], merged[i][3]};
            if (l->has_sinks)
                o = o * before;
            *((global float4 *)out_of(l, r, row + i) + me % lanes) = o * by;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Group: the output of up to TILE_ROWS rows, all their splits. */
static inline void tile_rows(const struct look *l, local float *memory, const struct rows *r,
                             global const uint *table) {
    struct tile_memory m = tile_memory_in(memory);
    float merged[4][4];
#pragma unroll
    for (uint i = 0; i < 4; i++)
#pragma unroll
        for (uint k = 0; k < 4; k++)
            merged[i][k] = 0.0f;
    tile_queries(l, &m, r);
    for (uint begin = first_split(l, r, 0) * SPLIT; seen(l, r, r->n - 1, begin) > 0; begin += SPLIT) {
        float s[TILE_EACH][TILE_BLOCKS];
        tile_scores(l, &m, r, table, begin, s);
        tile_weights(l, &m, r, begin, s);
        tile_values(l, &m, r, table, begin, s, merged);
    }
    tile_put(l, &m, r, merged);
}

#endif
