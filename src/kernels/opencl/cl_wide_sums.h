/* Sums of matmul_prefill.cl for the matrix engine with sub-groups of 16. A sub-group has CL_TOKENS tokens and
 * the 16 rows of a panel. Where the group's sub-groups have all places of a tile at once, what is staged lies
 * where the tile will be. */
#ifndef STATOR_KERNELS_OPENCL_CL_WIDE_SUMS_H
#define STATOR_KERNELS_OPENCL_CL_WIDE_SUMS_H

CL_GIVEN uint sub_group_broadcast(uint, uint);

/* 8 tokens' sums of a row to the tile at `to`. */
static inline void cl_put_part(float8 total, local float *to, uint R) {
#define CL_PUT(t) to[t * R] = total.s##t;
    CL_PUT(0)
    CL_PUT(1)
    CL_PUT(2)
    CL_PUT(3)
    CL_PUT(4)
    CL_PUT(5)
    CL_PUT(6)
    CL_PUT(7)
#undef CL_PUT
}

/* The same of two sums of one output, of row i of the unit; own: 8 floats of local memory, 16 apart. A loop,
 * of which IGC makes one, as it does not know how long it is: a gate is long, and 32 of them spill. */
static inline void cl_put_gated(const struct cl_unit *u, uint i, float8 gate, float8 up, local float *own,
                                local float *to, uint R) {
    uint tokens = 8 | (u->w0.file & 0x00ff0000u);
    cl_put_part(gate, own, 16);
    cl_put_part(up, to, R);
    for (uint t = 0; t < tokens; t++)
        to[t * R] = cl_gated(u->gate, i, own[t * 16], to[t * R]);
}

/* total = the sums of all segments of a row of the panels at `from`, whose activations the group stages.
 * mine: whether this sub-group has any. */
static inline void cl_panel_sums(const struct cl_source *src, const struct cl_weight *w, const cl_bytes *from,
                                 uint r, bool mine, uint token, uint t0, uint nt, uint log,
                                 local uchar *staged, cl_acc *total) {
    uint cols = src->cols, steps = cl_ceil_div(cols, CL_STAGED);
    struct cl_act a;
    a.q = staged + token * 32;
    a.d = (local float *)(staged + (CL_STAGED << log)) + token;
    a.s =
        (local short *)(staged + ((CL_STAGED + CL_STAGED / 8) << log)) + token * (cl_is_k(w->type) ? 16 : 1);
    a.stride = 32 << log;
    a.d_stride = a.s_stride = 1 << log;
    a.last = CL_TOKENS - 1;
    cl_acc acc[CL_ACCS];
#define CL_ZERO(n) total[n] = acc[n] = 0.0f;
    CL_EACH(CL_ZERO)
#undef CL_ZERO
    for (uint step = 0; step < steps; step++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        struct cl_part_of_k part = {step / 2, 1, step % 2, t0, nt, log, w->type, cl_has_m(w->type)};
        cl_stage_columns(src, &part, (local uint4 *)staged, (local float *)(staged + (CL_STAGED << log)),
                         (local uint *)(staged + ((CL_STAGED + CL_STAGED / 8) << log)));
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!mine)
            continue;
        cl_step(w->type, w->file, from, cols, r, step, &a, acc);
        if (step % 2 == 0 && step + 1 < steps)
            continue;
#define CL_ADD(n)                                                                                            \
    total[n] += acc[n];                                                                                      \
    acc[n] = 0.0f;
        CL_EACH(CL_ADD)
#undef CL_ADD
    }
}

/* split: tokens of the tile. Local work: 8 floats for each item where two sums become one; if the group has
 * not all places at once, at least CL_STAGED bytes, CL_STAGED / 32 floats and CL_STAGED / 16 shorts for each
 * token; else these lie in the tile. */
static inline void cl_sums(const struct cl_source *src, const struct cl_unit *u, uint split, uint t0, uint nt,
                           local float *tile, uint R, local uchar *work) {
    /* What the whole sub-group has in common compilers must see: it is loaded once for all its items. */
    uint r = get_sub_group_local_id(), slot = sub_group_broadcast(get_sub_group_id(), 0);
#ifdef CL_HEADS
    const bool gated = false;
#else
    bool gated = u->all > u->half_of;
#endif
    uint rows = gated ? 1 : CL_ROWS, wide = cl_ceil_div(u->half_of, rows);
    uint at_once = get_local_size(0) / CL_SUB_GROUP, places = wide * (split / CL_TOKENS);
    bool alone = places <= at_once;
    local uchar *staged = alone ? (local uchar *)tile : work;
    uint log = 4;
    while (1u << log < split)
        log++;
    for (uint place0 = 0; place0 < places; place0 += at_once) {
        uint place = place0 + slot, v = place % wide * rows, token = place / wide * CL_TOKENS;
        bool mine = place < places && token < nt;
        /* Two sub-groups may be one warp (tools/zecuda), which then must be there as a whole. */
        uint beside = place ^ 1;
        bool active = mine || (beside < places && beside / wide * CL_TOKENS < nt);
        token = min(token, split - CL_TOKENS);
        uint last = u->panels - 1, bytes = cl_type_bytes(u->w0.type, src->cols);
        cl_bytes from[2]; /* for panels that do not exist the last one again */
        from[0] = cl_panel_at(&u->w0, min(u->panel + v, last), bytes);
        if (gated)
            from[1] = cl_panel_at(&u->w1, min(u->panel + v, last), cl_type_bytes(u->w1.type, src->cols));
        else
            from[1] = cl_panel_at(&u->w0, min(u->panel + min(v + 1, u->half_of - 1), last), bytes);
        cl_acc total[CL_ACCS];
#if CL_ROWS == 2
        cl_panel_sums(src, &u->w0, from, r, active, token, t0, nt, log, staged, total);
#define CL_GATE(n) total[n]
#define CL_UP(n)   total[n + CL_PARTS]
#else
        cl_acc gate[CL_ACCS];
#define CL_ZERO(n) total[n] = 0.0f;
        CL_EACH(CL_ZERO)
#undef CL_ZERO
        for (uint second = 0; second < (gated ? 2 : 1); second++) {
#define CL_KEEP(n) gate[n] = total[n];
            CL_EACH(CL_KEEP)
#undef CL_KEEP
            struct cl_weight w = u->w0;
            if (second) {
                w = u->w1;
                from[0] = from[1];
            }
            cl_panel_sums(src, &w, from, r, active, token, t0, nt, log, staged, total);
        }
#define CL_GATE(n) gate[n]
#define CL_UP(n)   total[n]
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
#define CL_FIRST(n) total[n]
        uint i = 16 * v + r;
        const bool plain = !gated; /* a constant in some modules */
        bool both = CL_ROWS == 2 && plain && v + 1 < u->half_of;
        local float *to = tile + token * R + i, *own = (local float *)work + slot * 128 + r;
        /* The barriers keep IGC from mixing the parts, for which it has too few registers. */
#define CL_PUT(n)                                                                                            \
    if (mine && gated)                                                                                       \
        cl_put_gated(u, i, CL_GATE(n), CL_UP(n), own, to + 8 * n * R, R);                                    \
    if (mine && !gated)                                                                                      \
        cl_put_part(CL_FIRST(n), to + 8 * n * R, R);                                                         \
    if (mine && both)                                                                                        \
        cl_put_part(CL_UP(n), to + 8 * n * R + 16, R);                                                       \
    barrier(CLK_LOCAL_MEM_FENCE);
        CL_EACH_PART(CL_PUT)
#undef CL_PUT
#undef CL_FIRST
#undef CL_GATE
#undef CL_UP
    }
}

#endif
