/* Activations in local memory for the matrix engine with sub-groups of 16. */
#ifndef STATOR_KERNELS_OPENCL_CL_STAGE_H
#define STATOR_KERNELS_OPENCL_CL_STAGE_H

/* Sums of activations as the engine multiplies them by the minima of K types (cl_minima): two bytes each,
 * high << CL_PLANE + low. */
static inline uint cl_four_bytes(int4 x) {
    return (uint)(x.x & 255) | (uint)(x.y & 255) << 8 | (uint)(x.z & 255) << 16 | (uint)x.w << 24;
}

static inline int4 cl_high_bytes(uint type, int4 x) {
    return (x + (int4)(1 << (CL_PLANE(type) - 1))) >> (int4)(CL_PLANE(type));
}

/* Four sums: their low bytes, with high given. */
static inline int4 cl_low_bytes(uint type, int4 x, int4 high) {
    return x - (high << (int4)(CL_PLANE(type)));
}

/* Of a super block's sums of 16 activations: of Q2_K all, else of two together; first all low bytes, then the
 * high ones, then zeros. */
static inline uint8 cl_planes_of(uint type, short8 a, short8 b) {
    int4 x = (int4)(a.s0, a.s1, a.s2, a.s3), y = (int4)(a.s4, a.s5, a.s6, a.s7);
    int4 z = (int4)(b.s0, b.s1, b.s2, b.s3), w = (int4)(b.s4, b.s5, b.s6, b.s7);
    uint8 out = 0;
    if (type == CL_Q2_K) {
        int4 hx = cl_high_bytes(type, x), hy = cl_high_bytes(type, y), hz = cl_high_bytes(type, z),
             hw = cl_high_bytes(type, w);
        out.s0 = cl_four_bytes(cl_low_bytes(type, x, hx)), out.s1 = cl_four_bytes(cl_low_bytes(type, y, hy));
        out.s2 = cl_four_bytes(cl_low_bytes(type, z, hz)), out.s3 = cl_four_bytes(cl_low_bytes(type, w, hw));
        out.s4 = cl_four_bytes(hx), out.s5 = cl_four_bytes(hy), out.s6 = cl_four_bytes(hz);
        out.s7 = cl_four_bytes(hw);
        return out;
    }
    x = (int4)(x.x + x.y, x.z + x.w, y.x + y.y, y.z + y.w);
    z = (int4)(z.x + z.y, z.z + z.w, w.x + w.y, w.z + w.w);
    int4 hx = cl_high_bytes(type, x), hz = cl_high_bytes(type, z);
    out.s0 = cl_four_bytes(cl_low_bytes(type, x, hx)), out.s1 = cl_four_bytes(cl_low_bytes(type, z, hz));
    out.s2 = cl_four_bytes(hx), out.s3 = cl_four_bytes(hz);
    return out;
}

/* Segments first .. first + together of k, of which steps of 256 columns, this is number `second`, are staged
 * for nt of 1 << log tokens from t0 on. */
struct cl_part_of_k {
    uint first, together, second, t0, nt, log;
    uint type;
    bool minima;
};

/* Column that the step of segment s begins with. */
static inline uint cl_column_of(const struct cl_part_of_k *d, uint s) {
    return (d->first + s) * CL_SEGMENT + d->second * CL_STAGED;
}

/* 16 bytes, number i of what is staged: [segments][blocks][tokens][2]. */
static inline uint4 cl_bytes_of(const struct cl_source *src, const struct cl_part_of_k *d, cl_bytes from,
                                uint i) {
    uint t = i / 2 & ((1u << d->log) - 1), block = i / 2 >> d->log;
    uint column = cl_column_of(d, block / (CL_STAGED / 32)) + block % (CL_STAGED / 32) * 32 + i % 2 * 16;
    return t < d->nt && column < src->cols
               ? *(global const uint4 *)(from + (src->row ? src->row[t] : t) * src->stride + column)
               : (uint4)(0);
}

/* Group: what the segments' activations are: bytes [segments][blocks][tokens][32], scales
 * [segments][8][tokens], sums [segments][8][tokens], or of K types as cl_planes_of has them. */
static inline void cl_stage_columns(const struct cl_source *src, const struct cl_part_of_k *d,
                                    local uint4 *bytes, local float *scales, local uint *sums) {
    bool k = cl_by_256(d->type);
    uint me = get_local_id(0), items = get_local_size(0), all = d->together * (CL_STAGED / 16) << d->log;
    cl_bytes from = src->base + (k ? src->q256 : src->q32) + d->t0 * src->stride;
    /* Four loads in flight. */
    for (uint i = me; i < all; i += 4 * items) {
        uint j = i + items, l = j + items, m = l + items;
        uint4 a = cl_bytes_of(src, d, from, i), b = cl_bytes_of(src, d, from, min(j, all - 1));
        uint4 c = cl_bytes_of(src, d, from, min(l, all - 1)), e = cl_bytes_of(src, d, from, min(m, all - 1));
        bytes[i] = a;
        if (j < all)
            bytes[j] = b;
        if (l < all)
            bytes[l] = c;
        if (m < all)
            bytes[m] = e;
    }
    /* An item has what belongs to 256 columns of a token. */
    for (uint i = me; i < d->together << d->log; i += items) {
        uint t = i & ((1u << d->log) - 1), s = i >> d->log, column = cl_column_of(d, s);
        uint row = d->t0 + (src->row ? src->row[min(t, d->nt - 1)] : min(t, d->nt - 1));
        bool there = t < d->nt && column < src->cols;
        column = there ? column : 0;
        local float *to = scales + (s * 8 << d->log) + t;
        if (k) {
            cl_floats of = (cl_floats)(src->base + src->d256) + (row * src->stride + column) / 256;
            to[0] = there ? of[0] : 0.0f;
#if CL_ANY_K
            if (d->minima) {
                cl_shorts x = (cl_shorts)(src->base + src->s256) + (row * src->stride + column) / 16;
                uint8 words =
                    cl_planes_of(d->type, *(global const short8 *)x, *(global const short8 *)(x + 8));
                *(local uint8 *)(sums + i * 8) = there ? words : (uint8)(0);
            }
#endif
            continue;
        }
        cl_floats of = (cl_floats)(src->base + src->d32) + (row * src->stride + column) / 32;
        cl_shorts x = (cl_shorts)(src->base + src->s32) + (row * src->stride + column) / 32;
        uint last = there ? min(src->cols - column, (uint)CL_STAGED) / 32 - 1 : 0;
        float8 f;
        short8 n = 0;
#define CL_LOAD(c)                                                                                           \
    f.s##c = of[min(c##u, last)];                                                                            \
    if (cl_has_m(d->type))                                                                                   \
        n.s##c = x[min(c##u, last)];
        CL_EIGHT(CL_LOAD)
#undef CL_LOAD
        local short *sum = (local short *)sums + (s * 8 << d->log) + t;
#define CL_KEEP(c)                                                                                           \
    to[c << d->log] = f.s##c;                                                                                \
    if (cl_has_m(d->type))                                                                                   \
        sum[c << d->log] = n.s##c;
        CL_EIGHT(CL_KEEP)
#undef CL_KEEP
    }
}

#endif
