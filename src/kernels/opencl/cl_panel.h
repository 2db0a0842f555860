/* Panels as kernels read them (formats/panel.h has the format). All offsets are 32 bits: a panel is below 4
 * GiB and so is a slice. Functions get the type as a constant wherever speed matters. */
#ifndef STATOR_KERNELS_OPENCL_CL_PANEL_H
#define STATOR_KERNELS_OPENCL_CL_PANEL_H

#include "kernels/opencl/cl_common.h"

/* enum block_type */
#define CL_F32    0
#define CL_F16    1
#define CL_Q4_0   2
#define CL_Q4_1   3
#define CL_Q5_0   6
#define CL_Q5_1   7
#define CL_Q8_0   8
#define CL_Q4_K   12
#define CL_Q5_K   13
#define CL_Q6_K   14
#define CL_IQ4_NL 20
#define CL_BF16   30
#define CL_MXFP4  39

static inline bool cl_is_k(uint type) {
    return type == CL_Q4_K || type == CL_Q5_K || type == CL_Q6_K;
}

static inline bool cl_is_float(uint type) {
    return type == CL_F32 || type == CL_F16 || type == CL_BF16;
}

/* Has a minimum. */
static inline bool cl_has_m(uint type) {
    return type == CL_Q4_1 || type == CL_Q5_1 || type == CL_Q4_K || type == CL_Q5_K;
}

static inline uint cl_high_bits(uint type) {
    return type == CL_Q6_K ? 2 : type == CL_Q5_0 || type == CL_Q5_1 || type == CL_Q5_K ? 1 : 0;
}

/* The stored bits are an index into a table: block_table. */
static inline bool cl_is_table(uint type) {
    return type == CL_IQ4_NL || type == CL_MXFP4;
}

/* The integer of a weight is the byte that is multiplied less this. */
static inline int cl_offset(uint type) {
    return type == CL_Q4_0 ? 8 : type == CL_Q5_0 ? 16 : type == CL_Q6_K ? 32 : type == CL_MXFP4 ? 12 : 0;
}

/* What four indices in a word stand for, as bytes: of MXFP4 the integer + 12, of IQ4_NL the integer. */
static inline uint cl_look_up(uint type, uint w) {
    if (type == CL_MXFP4) { /* size: x below 4; else x + (x & 3), and 2 more for 7 */
        uint x = w & 0x07070707u, y = w & 0x03030303u, above = w >> 2 & 0x01010101u;
        uint size = x + (y & above * 3) + ((y & y >> 1 & above) << 1);
        return 0x0C0C0C0Cu + size - ((size & (w >> 3 & 0x01010101u) * 15) << 1);
    }
    uint out = 0;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        uint at = w >> 8 * i;
        uint low = at & 4 ? 0xF6EADDCFu : 0xBFAD9881u, high = at & 4 ? 0x71594535u : 0x26190D01u;
        out |= ((at & 8 ? high : low) >> 8 * (at & 3) & 255) << 8 * i;
    }
    return out;
}

/* Offsets of the planes in a panel, and its size: panel_layout_init. */
struct cl_planes {
    uint high, sub, submin, d, m, panel_bytes;
};

static inline uint cl_round64(uint n) {
    return (n + 63) & ~63u;
}

static inline struct cl_planes cl_planes(uint type, uint cols) {
    struct cl_planes p;
    p.high = p.sub = p.submin = p.d = p.m = p.panel_bytes = 0;
    if (type == CL_F32) {
        p.panel_bytes = cols * 64;
    } else if (type == CL_F16) {
        p.panel_bytes = cl_round64(cols * 32);
    } else if (type == CL_BF16) {
        p.panel_bytes = (cols + 1) / 2 * 64;
    } else {
        uint blocks = cl_is_k(type) ? cols / 256 : cols / 32;
        uint subs = type == CL_Q6_K ? 16 : cl_is_k(type) ? 8 : 0;
        uint submins = cl_is_k(type) && cl_has_m(type) ? 8 : 0;
        p.high = type == CL_Q8_0 ? cols * 16 : cols * 8;
        p.sub = p.high + cols * 2 * cl_high_bits(type);
        p.submin = p.sub + blocks * 16 * subs;
        p.d = p.submin + blocks * 16 * submins;
        p.m = cl_round64(p.d + blocks * (type == CL_MXFP4 ? 16 : 32));
        p.panel_bytes = cl_has_m(type) ? cl_round64(p.m + blocks * 32) : p.m;
    }
    return p;
}

#pragma OPENCL EXTENSION cl_khr_fp16 : enable

static inline float cl_half(cl_bytes p) {
    return (float)*(global const half *)p;
}

/* The scale of row r in a block of a 32-value type; plane: that of the scales. */
static inline float cl_scale32(uint type, cl_bytes plane, uint block, uint r) {
    if (type != CL_MXFP4)
        return cl_half(plane + (block * 16 + r) * 2);
    uint e = plane[block * 16 + r];
    return as_float(e < 2 ? 0x200000u << e : (e - 1) << 23);
}

static inline uint cl_word(cl_bytes p) {
    return *(global const uint *)p;
}

/* The byte of one weight that is multiplied; of Q8_0 its integer. */
static inline int cl_quant(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint col) {
    uint block = col / 32, step = col % 32 / 4, byte = 4 * r + col % 4;
    if (type == CL_Q8_0)
        return (char)panel[block * 512 + step * 64 + byte];
    uint both = panel[block * 256 + step % 4 * 64 + byte];
    uint q = step < 4 ? both & 15 : both >> 4;
    if (cl_high_bits(type) == 1)
        q |= (panel[p->high + block * 64 + byte] >> step & 1u) << 4;
    if (cl_high_bits(type) == 2)
        q |= (panel[p->high + (block * 2 + step / 4) * 64 + byte] >> step % 4 * 2 & 3u) << 4;
    return cl_is_table(type) ? (int)(char)(uchar)cl_look_up(type, q) : (int)q;
}

/* One weight as a float: block_decode_parts. */
static inline float cl_decode(uint type, const struct cl_planes *p, cl_bytes panel, uint r, uint col) {
    if (type == CL_F32)
        return as_float(cl_word(panel + (col * 16 + r) * 4));
    if (type == CL_F16)
        return cl_half(panel + (col * 16 + r) * 2);
    if (type == CL_BF16)
        return as_float((uint) * (global const ushort *)(panel + (col / 2 * 16 + r) * 4 + col % 2 * 2) << 16);
    int q = cl_quant(type, p, panel, r, col) - cl_offset(type);
    if (!cl_is_k(type)) {
        float y = (float)q * cl_scale32(type, panel + p->d, col / 32, r);
        return cl_has_m(type) ? y + cl_half(panel + p->m + (col / 32 * 16 + r) * 2) : y;
    }
    uint at = (col / 256 * 16 + r) * 2;
    float d = cl_half(panel + p->d + at);
    if (type == CL_Q6_K) {
        float scale = d * (float)(char)panel[p->sub + col / 16 * 16 + r];
        return scale * (float)q;
    }
    float scale = d * (float)panel[p->sub + col / 32 * 16 + r];
    float least = cl_half(panel + p->m + at) * (float)panel[p->submin + col / 32 * 16 + r];
    return scale * (float)q - least;
}

#endif
