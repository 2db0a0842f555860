/* One 32-block of a row: its loads apart from what is made of them, so that they can be in flight while
 * others are used. */
#ifndef STATOR_KERNELS_OPENCL_CL_BLOCK_H
#define STATOR_KERNELS_OPENCL_CL_BLOCK_H

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

#endif
