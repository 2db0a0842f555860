/* cl_dot.h's segments for one token, with the loads of several blocks under way at once: with one token few
 * work items have work, and each waits for memory most of the time. CL_AHEAD: how many blocks, 2 or 4 (K
 * types 2). */
#ifndef STATOR_KERNELS_OPENCL_CL_AHEAD_H
#define STATOR_KERNELS_OPENCL_CL_AHEAD_H

/* The words of row r, 32-block `block`, as they lie: Q8_0 eight; else four of low bits (or two, and two not
 * set), then those of high bits. */
static inline void cl_raw(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint block,
                          uint *raw) {
    if (type == CL_Q8_0) {
#pragma unroll
        for (uint s = 0; s < 8; s++)
            raw[s] = cl_word(panel + block * 512 + s * 64 + r * 4);
        return;
    }
    if (cl_low_bits(type) == 2) {
        raw[0] = cl_word(panel + block * 128 + r * 4);
        raw[1] = cl_word(panel + block * 128 + 64 + r * 4);
    } else {
#pragma unroll
        for (uint s = 0; s < 4; s++)
            raw[s] = cl_word(panel + block * 256 + s * 64 + r * 4);
    }
    if (cl_high_bits(type) == 1)
        raw[4] = cl_word(panel + p->high + block * 64 + r * 4);
    if (cl_high_bits(type) == 2) {
#pragma unroll
        for (uint v = 0; v < 2; v++)
            raw[4 + v] = cl_word(panel + p->high + (block * 2 + v) * 64 + r * 4);
    }
}

/* In place: their 32 values, four to a word. */
static inline void cl_words(uint type, uint file, uint *w) {
    (void)file;
    if (type == CL_Q8_0)
        return;
    uint high = cl_high_bits(type) ? w[4] : 0, more = cl_high_bits(type) == 2 ? w[5] : 0;
    if (cl_low_bits(type) == 2) {
        uint first = w[0], second = w[1];
#pragma unroll
        for (uint s = 0; s < 8; s++)
            w[s] = (s < 4 ? first : second) >> s % 4 * 2 & 0x03030303u;
    } else {
#pragma unroll
        for (uint s = 0; s < 4; s++) {
            w[s + 4] = w[s] >> 4 & 0x0F0F0F0Fu;
            w[s] &= 0x0F0F0F0Fu;
        }
    }
    if (cl_high_bits(type) == 1) {
#pragma unroll
        for (uint s = 0; s < 8; s++)
            w[s] |= (high >> s & 0x01010101u) << cl_low_bits(type);
    }
    if (cl_high_bits(type) == 2) {
#pragma unroll
        for (uint s = 0; s < 8; s++)
            w[s] |= ((s < 4 ? high : more) >> s % 4 * 2 & 0x03030303u) << 4;
    }
#if CL_ANY_TABLE
    if (cl_is_table(type)) {
        uint4 table = cl_integers(type, file);
#pragma unroll
        for (uint s = 0; s < 8; s++)
            w[s] = cl_look_up(type, table, w[s]);
    }
#endif
}

/* What a 32-block of a row is: its words as they lie, then what its type has: d, m, the sub-block's scale and
 * minimum or second scale. */
struct cl_block {
    uint w[8];
    float d, m;
    int scale, other;
};

static inline void cl_load32(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint block,
                             struct cl_block *b) {
    cl_raw(type, p, panel, r, block, b->w);
    b->d = cl_scale32(type, panel + p->d, block, r);
    b->m = cl_has_m(type) ? cl_half(panel + p->m + (block * 16 + r) * 2) : 0.0f;
}

/* acc[t] of the block that is number `here` of the segment. */
static inline void cl_add32(uint type, struct cl_block *b, uint here, const struct cl_act *a, float *acc) {
    int i[CL_TOKENS];
    cl_words(type, 0, b->w);
    cl_dots(i, b->w, a, a->q + here * 32, 0, 0, 8);
#pragma unroll
    for (uint t = 0; t < CL_TOKENS; t++) {
        float d = a->d[CL_ROW(a, t) * a->d_stride + here];
        int s = a->s[CL_ROW(a, t) * a->s_stride + here];
        float scale = b->d * d;
        acc[t] = fma((float)(i[t] - cl_offset(type) * s), scale, acc[t]);
        if (cl_has_m(type)) {
            float least = b->m * d;
            acc[t] = fma((float)s, least, acc[t]);
        }
    }
}

/* acc[t] of blocks first .. end of a 32-value type. CL_AHEAD blocks are loaded before the first is used, in
 * variables of their own: of an array IGC makes a loop. */
static inline void cl_segment32(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint first,
                                uint end, const struct cl_act *a, float *acc) {
    uint block = first;
#if CL_AHEAD == 4
    for (; block + 4 <= end; block += 4) {
        struct cl_block b0, b1, b2, b3;
        cl_load32(type, p, panel, r, block, &b0);
        cl_load32(type, p, panel, r, block + 1, &b1);
        cl_load32(type, p, panel, r, block + 2, &b2);
        cl_load32(type, p, panel, r, block + 3, &b3);
        cl_add32(type, &b0, block - first, a, acc);
        cl_add32(type, &b1, block - first + 1, a, acc);
        cl_add32(type, &b2, block - first + 2, a, acc);
        cl_add32(type, &b3, block - first + 3, a, acc);
    }
#else
    for (; block + 2 <= end; block += 2) {
        struct cl_block b0, b1;
        cl_load32(type, p, panel, r, block, &b0);
        cl_load32(type, p, panel, r, block + 1, &b1);
        cl_add32(type, &b0, block - first, a, acc);
        cl_add32(type, &b1, block - first + 1, a, acc);
    }
#endif
    for (; block < end; block++) {
        struct cl_block b;
        cl_load32(type, p, panel, r, block, &b);
        cl_add32(type, &b, block - first, a, acc);
    }
}

static inline void cl_load256(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint block,
                              struct cl_block *b) {
    cl_raw(type, p, panel, r, block, b->w);
    if (type == CL_Q2_K) { /* with the minima */
        b->scale = panel[p->sub + block * 32 + r];
        b->other = panel[p->sub + block * 32 + 16 + r];
    } else if (cl_subs(type) == 16) {
        b->scale = cl_sub(type, p, panel, block * 2, r);
        b->other = cl_sub(type, p, panel, block * 2 + 1, r);
    } else {
        b->scale = cl_sub(type, p, panel, block, r);
        b->other = cl_has_m(type) ? panel[p->submin + block * 16 + r] : 0;
    }
}

/* The block that is number `here` of the segment, to the integers of its super block. */
static inline void cl_add256(uint type, uint file, struct cl_block *b, uint here, const struct cl_act *a,
                             int *i, int *least) {
    CL_ACT const uchar *q = a->q + here * 32;
    CL_ACT const short *s = a->s + here * 2;
    int part[CL_TOKENS];
    cl_words(type, file, b->w);
    if (cl_subs(type) == 16) {
#pragma unroll
        for (uint h = 0; h < 2; h++) {
            int both = h == 0 ? b->scale : b->other, scale = cl_has_m(type) ? both & 15 : both;
            cl_dots(part, b->w, a, q, 0, 4 * h, 4 * h + 4);
#pragma unroll
            for (uint t = 0; t < CL_TOKENS; t++) {
                int sum = s[CL_ROW(a, t) * a->s_stride + h];
                i[t] += scale * (part[t] - cl_offset(type) * sum);
                if (cl_has_m(type))
                    least[t] += (both >> 4) * sum;
            }
        }
    } else {
        cl_dots(part, b->w, a, q, 0, 0, 8);
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            i[t] += b->scale * part[t];
            if (cl_has_m(type))
                least[t] += b->other * (s[CL_ROW(a, t) * a->s_stride] + s[CL_ROW(a, t) * a->s_stride + 1]);
        }
    }
}

/* acc[t] of super blocks first .. end of a K type. */
static inline void cl_segment256(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint first,
                                 uint end, const struct cl_act *a, float *acc) {
    for (uint super = first; super < end; super++) {
        uint here = super - first;
        int i[CL_TOKENS], least[CL_TOKENS];
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++)
            i[t] = least[t] = 0;
        float dw = cl_scale256(type, p, panel, super, r);
        float mw = cl_has_m(type) ? cl_half(panel + p->m + (super * 16 + r) * 2) : 0.0f;
        for (uint j = 0; j < 8; j += 2) {
            uint block = super * 8 + j, at = here * 8 + j;
            struct cl_block b0, b1;
            cl_load256(type, p, panel, r, block, &b0);
            cl_load256(type, p, panel, r, block + 1, &b1);
            cl_add256(type, p->file, &b0, at, a, i, least);
            cl_add256(type, p->file, &b1, at + 1, a, i, least);
        }
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            float d = a->d[CL_ROW(a, t) * a->d_stride + here];
            float scale = dw * d;
            acc[t] = fma((float)i[t], scale, acc[t]);
            if (cl_has_m(type)) {
                float minimum = mw * d;
                acc[t] = fma(-(float)least[t], minimum, acc[t]);
            }
        }
    }
}

/* Columns whose weights are loaded before the first is used. */
#define CL_COLUMNS 16

/* acc[t] of columns first .. end. */
static inline void cl_segment_float(uint type, cl_bytes panel, uint r, uint first, uint end,
                                    const struct cl_act *a, float *acc) {
    uint col = first;
    for (; col + CL_COLUMNS <= end; col += CL_COLUMNS) {
        float w[CL_COLUMNS];
        if (type == CL_BF16) {
#pragma unroll
            for (uint c = 0; c < CL_COLUMNS; c += 2) {
                uint both = cl_word(panel + ((col + c) / 2 * 16 + r) * 4);
                w[c] = as_float(both << 16);
                w[c + 1] = as_float(both & 0xffff0000u);
            }
        } else {
#pragma unroll
            for (uint c = 0; c < CL_COLUMNS; c++)
                w[c] = cl_weight(type, panel, r, col + c);
        }
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            CL_ACT const float *x = (CL_ACT const float *)a->q + CL_ROW(a, t) * a->stride + (col - first);
#pragma unroll
            for (uint c = 0; c < CL_COLUMNS; c++)
                acc[t] = fma(w[c], x[c], acc[t]);
        }
    }
    for (; col < end; col++) {
        float w = cl_weight(type, panel, r, col);
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++)
            acc[t] = fma(w, ((CL_ACT const float *)a->q)[CL_ROW(a, t) * a->stride + (col - first)], acc[t]);
    }
}

#endif
