/* cl_dpas.h's segments for sub-groups of 8. */
#ifndef STATOR_KERNELS_OPENCL_CL_NARROW_H
#define STATOR_KERNELS_OPENCL_CL_NARROW_H

/* acc of blocks first .. end of a 32-value type. */
static inline void cl_segment32(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint first,
                                uint end, const struct cl_act *a, float8 *acc) {
    int8 minus = as_int((256u - (uint)cl_offset(type)) * 0x01010101u);
    for (uint block = first; block < end; block++) {
        struct cl_raw raw = cl_load(type, p, panel, block);
        struct cl_row32 row[2];
        struct cl_part32 part;
#define CL_MINE(h) row[h] = cl_row32(type, p, panel, r, block, &raw, h);
        CL_EACH_HALF(CL_MINE)
#undef CL_MINE
        part = cl_part32(type, a, block - first, 0, minus);
#define CL_ADD(n) acc[n] = cl_add32(type, &part, &row[n], acc[n]);
        CL_EACH(CL_ADD)
#undef CL_ADD
    }
}

static inline struct cl_row256 cl_row256(uint type, const struct cl_planes *p, cl_bytes panel, uint r,
                                         uint block, const struct cl_raw *raw, uint h) {
    const uint scales = cl_subs(type) / 8;
    struct cl_row256 x;
    x.w = cl_words(type, p->file, raw, h);
    x.scale = cl_sub16(type, p, panel, block * scales, r + 8 * h);
    x.more = scales == 2 ? cl_sub16(type, p, panel, block * 2 + 1, r + 8 * h) : (short)0;
    return x;
}

/* i of the blocks of a super block: of both halves of the weights' rows, or of one. */
static inline void cl_super256(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint super,
                               uint at, uint blocks, bool first, bool second, const struct cl_act *a,
                               int8 *i) {
    for (uint j = 0; j < blocks; j++) {
        uint block = super * 8 + j;
        struct cl_raw raw = cl_load(type, p, panel, block);
        struct cl_row256 row[2];
        cl_rows8 rows[CL_ACCS];
#define CL_MINE(h)                                                                                           \
    if ((h) ? second : first)                                                                                \
        row[h] = cl_row256(type, p, panel, r, block, &raw, h);
        CL_EACH_HALF(CL_MINE)
#undef CL_MINE
#define CL_THEIRS(part) rows[part] = CL_ROWS8(a->q + (at + j) * CL_ACT_BLOCK + (part)*256);
        CL_EACH_PART(CL_THEIRS)
#undef CL_THEIRS
#define CL_ADD(n)                                                                                            \
    if (CL_HALF(n) ? second : first)                                                                         \
        i[n] = cl_add256(type, rows[CL_PART(n)], &row[CL_HALF(n)], i[n]);
        CL_EACH(CL_ADD)
#undef CL_ADD
    }
}

/* acc = fma(i, w * d, acc); minus: -i. */
static inline float8 cl_add_scaled(int8 i, float w, bool minus, float8 d, float8 acc) {
    float8 scale = w * d;
    return fma(minus ? -convert_float8(i) : convert_float8(i), scale, acc);
}

/* acc of super blocks first .. end of a K type. */
static inline void cl_segment256(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint first,
                                 uint end, const struct cl_act *a, float8 *acc) {
    const uint blocks = CL_ZERO_OF(p) == 0 ? 8 : 0; /* if IGC knew, it would unroll the loop and spill */
    const uint mins = type == CL_Q2_K ? 2 * blocks : blocks;
    const float factor = cl_is_table(type) ? cl_factor(type, p->file) : 1.0f;
#define CL_NONE(n) i[n] = 0;
#define CL_D(part) d[part] = cl_scales(a, super - first, part);
    for (uint super = first; super < end; super++) {
        int8 i[CL_ACCS];
        float8 d[CL_ACCS];
        float w[2];
        CL_EACH(CL_NONE)
        /* Where each block has two products for each row there are too few registers for both halves. */
        bool apart = cl_subs(type) == 16;
        cl_super256(type, p, panel, r, super, (super - first) * 8, blocks, true, !apart, a, i);
        if (apart)
            cl_super256(type, p, panel, r, super, (super - first) * 8, blocks, false, true, a, i);
        CL_EACH_PART(CL_D)
#define CL_W(h) w[h] = cl_number(panel + p->d, super, h) * factor;
        CL_EACH_HALF(CL_W)
#undef CL_W
#define CL_ADD(n) acc[n] = cl_add_scaled(i[n] >> cl_shift(type), w[CL_HALF(n)], false, d[CL_PART(n)], acc[n]);
        CL_EACH(CL_ADD)
#undef CL_ADD
        if (!cl_has_m(type))
            continue;
        CL_EACH(CL_NONE)
        for (uint j = 0; j < mins; j++) {
            uint at = (super - first) * 16 + (type == CL_Q2_K ? j : 2 * j);
            short8 s[CL_ACCS];
            short by[2];
#define CL_THEIRS(part)                                                                                      \
    s[part] = cl_totals(a, at, part);                                                                        \
    if (type != CL_Q2_K)                                                                                     \
        s[part] += cl_totals(a, at + 1, part);
            CL_EACH_PART(CL_THEIRS)
#undef CL_THEIRS
#define CL_BY(h)                                                                                             \
    by[h] = type == CL_Q2_K                                                                                  \
                ? (short)(cl_byte(p, panel + p->sub + (super * 16 + j) * 16, r + 8 * h, false) >> 4)         \
                : cl_byte(p, panel + p->submin + (super * 8 + j) * 16, r + 8 * h, false);
            CL_EACH_HALF(CL_BY)
#undef CL_BY
#define CL_ADD(n) i[n] += convert_int8(s[CL_PART(n)]) * (int)by[CL_HALF(n)];
            CL_EACH(CL_ADD)
#undef CL_ADD
        }
        CL_EACH_PART(CL_D)
#define CL_W(h) w[h] = cl_number(panel + p->m, super, h);
        CL_EACH_HALF(CL_W)
#undef CL_W
#define CL_ADD(n) acc[n] = cl_add_scaled(i[n], w[CL_HALF(n)], true, d[CL_PART(n)], acc[n]);
        CL_EACH(CL_ADD)
#undef CL_ADD
    }
#undef CL_NONE
#undef CL_D
}

#endif
