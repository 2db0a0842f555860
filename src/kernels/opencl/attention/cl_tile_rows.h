/* What both kinds of tiles (cl_tiles.h, cl_tiles_q8.h) know of a tile's rows, in local memory: compilers
 * would keep what is theirs of all rows in registers. Includer: those, in attention.cl. */
#ifndef STATOR_KERNELS_OPENCL_CL_TILE_ROWS_H
#define STATOR_KERNELS_OPENCL_CL_TILE_ROWS_H

struct tile_rows_of {
    local float *max, *sum, *before, *now; /* [TILE_ROWS] each, as in struct scratch */
    local int *end;                        /* the first position that the row doesn't see */
    local uint *out;                       /* where in the output it is */
};

#define TILE_ROWS_WORDS (6 * TILE_ROWS)

static inline struct tile_rows_of tile_rows_in(local float *memory) {
    struct tile_rows_of m;
    m.max = memory;
    m.sum = m.max + TILE_ROWS;
    m.before = m.sum + TILE_ROWS;
    m.now = m.before + TILE_ROWS;
    m.end = (local int *)(m.now + TILE_ROWS);
    m.out = (local uint *)(m.end + TILE_ROWS);
    return m;
}

/* Item me < TILE_ROWS: what is known of a row from the start. */
static inline void tile_rows_put(const struct look *l, const struct tile_rows_of *m, const struct rows *r) {
    uint me = get_local_id(0);
    if (me < TILE_ROWS) {
        m->end[me] = seen(l, r, me, 0);
        m->out[me] = (uint)(out_of(l, r, me) - (global float *)(l->out.base + l->out.f32));
    }
}

/* Whether a row sees something of the split, and whether it is the first such. */
static inline bool tile_sees(const struct look *l, int end, uint begin) {
    return end > (int)begin && hidden_of(l, end - (int)begin, begin) < SPLIT;
}

static inline bool tile_is_first(const struct look *l, int end, uint begin) {
    return begin == (uint)max(hidden_of(l, end, 0), 0) / SPLIT * SPLIT;
}

/* Item me < TILE_ROWS: the next merge of a row whose maximum and sum are in now and before. */
static inline void tile_plan(const struct look *l, const struct tile_rows_of *m, const struct rows *r,
                             uint begin) {
    uint me = get_local_id(0);
    if (me < r->n && tile_sees(l, m->end[me], begin)) {
        struct scratch of = {.max = m->max, .sum = m->sum, .before = m->before, .now = m->now};
        plan_merge(&of, me, tile_is_first(l, m->end[me], begin));
    }
}

static inline global float4 *tile_out(const struct look *l, const struct tile_rows_of *m, uint row) {
    return (global float4 *)((global float *)(l->out.base + l->out.f32) + m->out[row]);
}

/* Item: four columns of a row and split into what is merged so far at `out`. */
static inline void tile_merge(const struct look *l, const struct tile_rows_of *m, uint row, uint begin,
                              float4 sum, global float4 *out) {
    if (!tile_is_first(l, m->end[row], begin)) {
        float4 scaled = *out * m->before[row];
        float now = m->now[row];
        sum = (float4)(fma(sum.x, now, scaled.x), fma(sum.y, now, scaled.y), fma(sum.z, now, scaled.z),
                       fma(sum.w, now, scaled.w));
    }
    *out = sum;
}

/* Group: the sinks, if there are some; and all sums are there. */
static inline void tile_sinks(const struct look *l, const struct tile_rows_of *m, const struct rows *r) {
    uint me = get_local_id(0);
    if (l->has_sinks && me < r->n) {
        struct scratch of = {.max = m->max, .sum = m->sum, .before = m->before, .now = m->now};
        plan_sink(l, &of, r, me);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Item: four columns of a row to what they are in the end. */
static inline void tile_finish(const struct look *l, const struct tile_rows_of *m, uint row,
                               global float4 *out) {
    float4 o = *out;
    if (l->has_sinks)
        o = o * m->before[row];
    *out = o * num_rcp(m->sum[row]);
}

#endif
