/* Panels as kernels read them (formats/panel.h has the format). All offsets are 32 bits: a panel is below 4
 * GiB and so is a slice. Functions get the type as a constant wherever speed matters. */
#ifndef STATOR_KERNELS_OPENCL_CL_PANEL_H
#define STATOR_KERNELS_OPENCL_CL_PANEL_H

#include "kernels/opencl/cl_common.h"
#include "kernels/opencl/cl_types.h"

static inline bool cl_is_k(uint type) {
    return type == CL_Q2_K || type == CL_Q3_K || type == CL_Q4_K || type == CL_Q5_K || type == CL_Q6_K ||
           type == CL_IQ2_S || type == CL_IQ4_XS;
}

static inline bool cl_is_float(uint type) {
    return type == CL_F32 || type == CL_F16 || type == CL_BF16;
}

/* Has a minimum. */
static inline bool cl_has_m(uint type) {
    return type == CL_Q4_1 || type == CL_Q5_1 || type == CL_Q2_K || type == CL_Q4_K || type == CL_Q5_K;
}

static inline uint cl_low_bits(uint type) {
    return type == CL_Q8_0 ? 8 : type == CL_Q2_K || type == CL_Q3_K || type == CL_IQ2_S ? 2 : 4;
}

static inline uint cl_high_bits(uint type) {
    return type == CL_Q6_K                                                                                ? 2
           : type == CL_Q5_0 || type == CL_Q5_1 || type == CL_Q5_K || type == CL_Q3_K || type == CL_IQ2_S ? 1
                                                                                                          : 0;
}

/* Scales of a K type's super block. */
static inline uint cl_subs(uint type) {
    return type == CL_Q4_K || type == CL_Q5_K || type == CL_IQ4_XS ? 8 : 16;
}

/* The stored bits are an index into a table: block_table. */
static inline bool cl_is_table(uint type) {
    return type == CL_IQ4_NL || type == CL_MXFP4 || type == CL_IQ4_XS || type == CL_IQ2_S;
}

/* The integer of a weight is the byte that is multiplied less this. */
static inline int cl_offset(uint type) {
    return type == CL_Q3_K    ? 4
           : type == CL_Q4_0  ? 8
           : type == CL_Q5_0  ? 16
           : type == CL_Q6_K  ? 32
           : type == CL_MXFP4 ? 12
                              : 0;
}

/* Types of files whose panels are others'. */
#define CL_IQ3_XXS 18
#define CL_IQ1_S   19
#define CL_IQ3_S   21
#define CL_IQ1_M   29

/* block_table of a type of a file, but MXFP4: IQ2 and IQ1 have two words. */
static inline uint4 cl_integers(uint type, uint file) {
    if (type == CL_IQ2_S)
        return file == CL_IQ1_S || file == CL_IQ1_M ? (uint4)(0x000901F9u, 0x0007FFF7u, 0, 0)
                                                    : (uint4)(0x002B1908u, 0x00D5E7F8u, 0, 0);
    if (type == CL_IQ4_XS && file == CL_IQ3_S)
        return (uint4)(0x07050301u, 0x0F0D0B09u, 0xF9FBFDFFu, 0xF1F3F5F7u);
    if (type == CL_IQ4_XS && file == CL_IQ3_XXS)
        return (uint4)(0x1C140C04u, 0x3E342C24u, 0xE4ECF4FCu, 0xC2CCD4DCu);
    return (uint4)(0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u);
}

/* block_factor */
static inline float cl_factor(uint type, uint file) {
    return type == CL_IQ2_S ? 0.125f : type == CL_IQ4_XS && file == CL_IQ3_XXS ? 0.25f : 1.0f;
}

/* What four indices in a word stand for, as bytes: of MXFP4 the integer + 12, of others the integer. */
static inline uint cl_look_up(uint type, uint4 table, uint w) {
    if (type == CL_MXFP4) { /* size: x below 4; else x + (x & 3), and 2 more for 7 */
        uint x = w & 0x07070707u, y = w & 0x03030303u, above = w >> 2 & 0x01010101u;
        uint size = x + (y & above * 3) + ((y & y >> 1 & above) << 1);
        return 0x0C0C0C0Cu + size - ((size & (w >> 3 & 0x01010101u) * 15) << 1);
    }
    uint out = 0;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        uint at = w >> 8 * i;
        uint four = at & 4 ? table.y : table.x;
        if (type != CL_IQ2_S) {
            uint high = at & 4 ? table.w : table.z;
            four = at & 8 ? high : four;
        }
        out |= (four >> 8 * (at & 3) & 255) << 8 * i;
    }
    return out;
}

/* Offsets of the planes in a panel, and its size: panel_layout_init. */
struct cl_planes {
    uint high, sub, submin, d, m, panel_bytes;
    uint file; /* the type in the file */
};

static inline uint cl_round64(uint n) {
    return (n + 63) & ~63u;
}

static inline struct cl_planes cl_planes(uint type, uint file, uint cols) {
    struct cl_planes p;
    p.file = file;
    p.high = p.sub = p.submin = p.d = p.m = p.panel_bytes = 0;
    if (type == CL_F32) {
        p.panel_bytes = cols * 64;
    } else if (type == CL_F16) {
        p.panel_bytes = cl_round64(cols * 32);
    } else if (type == CL_BF16) {
        p.panel_bytes = (cols + 1) / 2 * 64;
    } else {
        uint blocks = cl_is_k(type) ? cols / 256 : cols / 32;
        uint subs = type == CL_IQ2_S ? 8 : cl_is_k(type) ? cl_subs(type) : 0; /* bytes */
        uint submins = cl_is_k(type) && cl_has_m(type) && type != CL_Q2_K ? 8 : 0;
        p.high = cols * 2 * cl_low_bits(type);
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
    uint q;
    if (cl_low_bits(type) == 2) {
        q = panel[block * 128 + step / 4 * 64 + byte] >> step % 4 * 2 & 3u;
    } else {
        uint both = panel[block * 256 + step % 4 * 64 + byte];
        q = step < 4 ? both & 15 : both >> 4;
    }
    if (cl_high_bits(type) == 1)
        q |= (panel[p->high + block * 64 + byte] >> step & 1u) << cl_low_bits(type);
    if (cl_high_bits(type) == 2)
        q |= (panel[p->high + (block * 2 + step / 4) * 64 + byte] >> step % 4 * 2 & 3u) << 4;
    return cl_is_table(type) ? (int)(char)(uchar)cl_look_up(type, cl_integers(type, p->file), q) : (int)q;
}

/* The scale of row r in a super block. */
static inline float cl_scale256(uint type, const struct cl_planes *p, cl_bytes panel, uint super, uint r) {
    float d = cl_half(panel + p->d + (super * 16 + r) * 2);
    return cl_is_table(type) ? d * cl_factor(type, p->file) : d;
}

/* Scale number `at` of row r, counted from the panel's first. */
static inline int cl_sub(uint type, const struct cl_planes *p, cl_bytes panel, uint at, uint r) {
    if (type == CL_IQ2_S) { /* two to a byte */
        uint both = panel[p->sub + at / 2 * 16 + r];
        return ((at % 2 == 0 ? both << 1 : both >> 3) & 30) | 1;
    }
    uint sub = panel[p->sub + at * 16 + r];
    return type == CL_Q2_K ? sub & 15 : cl_has_m(type) ? sub : (uint)(int)(char)(uchar)sub;
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
    float d = cl_scale256(type, p, panel, col / 256, r);
    uint sub = col / (256 / cl_subs(type)), at = sub * 16 + r;
    float scale = d * (float)cl_sub(type, p, panel, sub, r);
    if (!cl_has_m(type))
        return scale * (float)q;
    uint submin = type == CL_Q2_K ? panel[p->sub + at] >> 4 : panel[p->submin + at];
    float least = cl_half(panel + p->m + (col / 256 * 16 + r) * 2) * (float)submin;
    return scale * (float)q - least;
}

#endif
