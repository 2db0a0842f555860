/* cl_dpas.h's segments for sub-groups of 16: 32 rows of activations times the 16 rows of a panel, or of two
 * (CL_ROWS). The words of the next 32-block are loaded before this one is multiplied. Vector n of an item's
 * sums is of rows 8 * (n % CL_PARTS) and on, and of panel n / CL_PARTS. */
#ifndef STATOR_KERNELS_OPENCL_CL_WIDE_H
#define STATOR_KERNELS_OPENCL_CL_WIDE_H

/* CL_EACH, or where a pass may have half of the tokens, `more` says whether it has the others. */
#ifdef CL_FEW
#define CL_EACH_THERE(F, more)                                                                               \
    F(0) F(1) if (more) {                                                                                    \
        F(2) F(3)                                                                                            \
    }
#else
#define CL_EACH_THERE(F, more) CL_EACH(F)
#endif

/* 8 rows of activations, 32-block number `here` of the segment. */
static inline cl_rows8 cl_rows_of(const struct cl_act *a, uint here, uint part) {
    return CL_ROWS8(a->q + here * a->stride + part * 256);
}

/* What is multiplied of a row of a panel's 32-block. */
struct cl_mine {
    struct cl_raw raw;
    float d, m;
};

static inline struct cl_mine cl_mine_of(uint type, const struct cl_planes *p, cl_bytes panel, uint r,
                                        uint block) {
    struct cl_mine x;
    x.raw = cl_load(type, p, panel, block);
    x.d = type == CL_MXFP4 ? cl_scale32(type, panel + p->d, block, r) : cl_number(panel + p->d, block, 0);
    x.m = cl_has_m(type) ? cl_number(panel + p->m, block, 0) : 0.0f;
    return x;
}

/* acc of block `here` of the segment. */
static inline void cl_block32(uint type, const struct cl_planes *p, const struct cl_mine *mine, uint here,
                              const struct cl_act *a, int8 minus, float8 *acc) {
    struct cl_row32 row[CL_ROWS];
#define CL_WORDS_OF(h)                                                                                       \
    row[h].w = cl_words(type, p->file, &mine[h].raw, 0);                                                     \
    row[h].d = mine[h].d;                                                                                    \
    row[h].m = mine[h].m;
    CL_EACH_ROW(CL_WORDS_OF)
#undef CL_WORDS_OF
#define CL_ADD(n)                                                                                            \
    {                                                                                                        \
        struct cl_part32 part;                                                                               \
        part.rows = cl_rows_of(a, here, n);                                                                  \
        part.d = cl_scales(a, here, n);                                                                      \
        part.less = 0;                                                                                       \
        part.s = 0;                                                                                          \
        if (cl_offset(type) != 0)                                                                            \
            part.less = intel_sub_group_i8_i8_matrix_mad_k32(part.rows, minus, part.less);                   \
        if (cl_has_m(type))                                                                                  \
            part.s = cl_totals(a, here, n);                                                                  \
        acc[n] = cl_add32(type, &part, &row[0], acc[n]);                                                     \
        if (CL_ROWS == 2)                                                                                    \
            acc[CL_PARTS + n] = cl_add32(type, &part, &row[CL_ROWS - 1], acc[CL_PARTS + n]);                 \
    }
#ifdef CL_FEW
    CL_EACH_THERE(CL_ADD, a->last > 15)
#else
    CL_EACH_PART(CL_ADD)
#endif
#undef CL_ADD
}

/* acc of blocks first .. first + n of a 32-value type. */
static inline void cl_segment32(uint type, const struct cl_planes *p, const cl_bytes *panel, uint r,
                                uint first, uint n_blocks, const struct cl_act *a, float8 *acc) {
    n_blocks |= CL_ZERO_OF(p); /* if IGC knew that there are 8 at most, it would unroll the loop and spill */
    /* A vector that stays in registers, which a constant would not. */
    int8 minus = as_int((256u - (uint)cl_offset(type)) * 0x01010101u) ^ (int)(r * CL_ZERO_OF(p));
#ifdef CL_FEW /* there are registers for the next block's words */
    struct cl_mine mine[CL_ROWS], next;
    mine[0] = cl_mine_of(type, p, panel[0], r, first);
    for (uint here = 0; here < n_blocks; here++) {
        next = cl_mine_of(type, p, panel[0], r, first + min(here + 1, n_blocks - 1));
        cl_block32(type, p, mine, here, a, minus, acc);
        mine[0] = next;
    }
#else
    for (uint here = 0; here < n_blocks; here++) {
        struct cl_mine mine[CL_ROWS];
#define CL_MINE(h) mine[h] = cl_mine_of(type, p, panel[h], r, first + here);
        CL_EACH_ROW(CL_MINE)
#undef CL_MINE
        cl_block32(type, p, mine, here, a, minus, acc);
    }
#endif
}

/* acc = fma(i, w * d, acc); minus: -i. */
static inline float8 cl_add_scaled(int8 i, float w, bool minus, float8 d, float8 acc) {
    float8 scale = w * d;
    return fma(minus ? -convert_float8(i) : convert_float8(i), scale, acc);
}

/* What is loaded of a row of a K type's 32-block, and what is made of it. */
struct cl_mine256 {
    struct cl_raw raw;
    short scale, more;
};

static inline struct cl_mine256 cl_mine256_of(uint type, const struct cl_planes *p, cl_bytes panel, uint r,
                                              uint block) {
    const uint scales = cl_subs(type) / 8;
    struct cl_mine256 x;
    x.raw = cl_load(type, p, panel, block);
    x.scale = cl_sub16(type, p, panel, block * scales, r);
    x.more = scales == 2 ? cl_sub16(type, p, panel, block * 2 + 1, r) : (short)0;
    return x;
}

static inline struct cl_row256 cl_row256_of(uint type, const struct cl_planes *p,
                                            const struct cl_mine256 *mine) {
    struct cl_row256 row;
    row.w = cl_words(type, p->file, &mine->raw, 0);
    row.scale = mine->scale;
    row.more = mine->more;
    return row;
}

/* The minima of a super block, 6 or 4 bits, each times the sum of its activations: this sum lies in two parts
 * (cl_stage_planes), `low` of the words below multiply the one, `high` the other. */
static inline void cl_minima(uint type, const struct cl_planes *p, cl_bytes panel, uint super, int8 *low,
                             int8 *high) {
    if (type == CL_Q2_K) {
        cl_bytes at = panel + p->sub + super * 256;
        uint2 a = as_uint2(intel_sub_group_block_read_uc8(at));
        uint2 b = as_uint2(intel_sub_group_block_read_uc8(at + 128));
        int4 by = as_int4((uint4)(a, b) >> 4 & 0x0F0F0F0Fu);
        *low = (int8)(by, (int4)(0));
        *high = (int8)((int4)(0), by);
    } else {
        int2 by = as_int2(intel_sub_group_block_read_uc8(panel + p->submin + super * 128));
        *low = (int8)(by, (int2)(0), (int4)(0));
        *high = (int8)((int2)(0), by, (int4)(0));
    }
}

/* acc of super blocks first .. first + n of a K type. Two blocks at a time: what is loaded for the next one
 * then need not be moved. */
static inline void cl_segment256(uint type, const struct cl_planes *p, const cl_bytes *panels, uint r,
                                 uint first, uint n_supers, const struct cl_act *a, float8 *acc) {
    const uint blocks = CL_ZERO_OF(p) == 0 ? 8 : 0; /* if IGC knew, it would unroll the loop and spill */
    const float factor = cl_is_table(type) ? cl_factor(type, p->file) : 1.0f;
    const uint last = (first + n_supers) * 8 - 1;
    cl_bytes panel = panels[0]; /* CL_ROWS is 1 */
    struct cl_mine256 even = cl_mine256_of(type, p, panel, r, first * 8), odd;
    for (uint here = 0; here < n_supers; here++) {
        uint super = first + here;
        int8 i[CL_ACCS];
#define CL_NONE(n) i[n] = 0;
        CL_EACH(CL_NONE)
#undef CL_NONE
        for (uint j = 0; j < blocks; j += 2) {
            uint block = super * 8 + j;
            struct cl_row256 row;
            odd = cl_mine256_of(type, p, panel, r, block + 1);
            row = cl_row256_of(type, p, &even);
#define CL_ADD(n) i[n] = cl_add256(type, cl_rows_of(a, here * 8 + j, n), &row, i[n]);
            CL_EACH_THERE(CL_ADD, a->last > 15)
#undef CL_ADD
            even = cl_mine256_of(type, p, panel, r, min(block + 2, last));
            row = cl_row256_of(type, p, &odd);
#define CL_ADD(n) i[n] = cl_add256(type, cl_rows_of(a, here * 8 + j + 1, n), &row, i[n]);
            CL_EACH_THERE(CL_ADD, a->last > 15)
#undef CL_ADD
        }
        float w = cl_number(panel + p->d, super, 0) * factor;
#define CL_ADD(n) acc[n] = cl_add_scaled(i[n] >> cl_shift(type), w, false, cl_scales(a, here, n), acc[n]);
        CL_EACH_THERE(CL_ADD, a->last > 15)
#undef CL_ADD
        if (!cl_has_m(type))
            continue;
        int8 low, high;
        float m = cl_number(panel + p->m, super, 0);
        cl_minima(type, p, panel, super, &low, &high);
#define CL_ADD(n)                                                                                            \
    {                                                                                                        \
        cl_rows8 sums = CL_ROWS8((CL_ACT const uchar *)a->s + here * a->stride + n * 256);                   \
        int8 sum = intel_sub_group_i8_i8_matrix_mad_k32(sums, high, (int8)(0));                              \
        sum = intel_sub_group_i8_i8_matrix_mad_k32(sums, low, sum << CL_PLANE(type));                        \
        acc[n] = cl_add_scaled(sum, m, true, cl_scales(a, here, n), acc[n]);                                 \
    }
        CL_EACH_THERE(CL_ADD, a->last > 15)
#undef CL_ADD
    }
}

#endif
