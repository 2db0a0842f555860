/* Products of many tokens: a work item has one row of a panel for 8 tokens, whose activations lie in local
 * memory one segment of k at a time; all items of a group read the same ones. Compiled once per set of weight
 * types (CL_TYPES, CL_NAME); with CL_SUB_GROUP 8 or 16 the matrix engine does the integer sums (dpas). */
#define CL_ACT    local
#define CL_TILES  1
#define CL_TOKENS OPENCL_PREFILL_TOKENS
#define CL_AHEAD  1
#include "kernels/opencl/cl_source.h"

#define CL_WORDS (CL_SEGMENT / 4)

/* Group: columns at .. at + n (a multiple of 32) of nt rows of bytes, [CL_TOKENS][512]; rows that are not
 * there become zero. */
static inline void cl_stage_bytes(local uint *to, cl_bytes from, global const uint *row, uint cols, uint at,
                                  uint n, uint nt) {
    for (uint i = get_local_id(0); i < CL_TOKENS * CL_WORDS; i += get_local_size(0)) {
        uint t = i / CL_WORDS, c = i % CL_WORDS;
        to[i] = t < nt && 4 * c < n ? cl_word(from + (row ? row[t] : t) * cols + at + 4 * c) : 0;
    }
}

/* Group: numbers first .. first + n (at most `stride`) of nt rows of row_length, [CL_TOKENS][stride]. */
static inline void cl_stage_floats(local float *to, global const float *from, global const uint *row,
                                   uint row_length, uint first, uint n, uint stride, uint nt) {
    for (uint i = get_local_id(0); i < CL_TOKENS * stride; i += get_local_size(0)) {
        uint t = i / stride, c = i % stride;
        to[i] = t < nt && c < n ? from[(row ? row[t] : t) * row_length + first + c] : 0.0f;
    }
}

static inline void cl_stage_shorts(local short *to, global const short *from, global const uint *row,
                                   uint row_length, uint first, uint n, uint stride, uint nt) {
    for (uint i = get_local_id(0); i < CL_TOKENS * stride; i += get_local_size(0)) {
        uint t = i / stride, c = i % stride;
        to[i] = t < nt && c < n ? from[(row ? row[t] : t) * row_length + first + c] : (short)0;
    }
}

/* Group: the segment's activations for weights of this type. */
static inline void cl_stage(const struct cl_source *src, uint type, uint t0, uint nt, uint at, uint n,
                            local uchar *work) {
    uint cols = src->cols;
    if (CL_ANY_FLOAT && cl_is_float(type)) {
        cl_stage_floats((local float *)work, (cl_floats)(src->base + src->f32) + t0 * cols, src->row, cols,
                        at, n, CL_SEGMENT, nt);
        return;
    }
    bool k = cl_by_256(type);
    uint scales = k ? 256 : 32, sums = k ? 16 : 32;
    local float *d = (local float *)(work + CL_TOKENS * CL_SEGMENT);
    local short *s = (local short *)(d + CL_TOKENS * 16);
    cl_stage_bytes((local uint *)work, src->base + (k ? src->q256 : src->q32) + t0 * cols, src->row, cols, at,
                   n, nt);
    cl_stage_floats(d, (cl_floats)(src->base + (k ? src->d256 : src->d32)) + t0 * (cols / scales), src->row,
                    cols / scales, at / scales, n / scales, 16, nt);
    cl_stage_shorts(s, (cl_shorts)(src->base + (k ? src->s256 : src->s32)) + t0 * (cols / sums), src->row,
                    cols / sums, at / sums, n / sums, 32, nt);
}

/* Local work: CL_TOKENS x 512 bytes, 16 floats and 32 shorts; for weights of floats CL_TOKENS x 512 floats.
 */
static inline void cl_sums(const struct cl_source *src, const struct cl_unit *u, uint split, uint t0, uint nt,
                           local float *tile, uint R, local uchar *work) {
    (void)split;
    uint me = get_local_id(0);
    uint r = me % 16, slot = me / 16, at_once = get_local_size(0) / 16;
    uint cols = src->cols, segments = cl_ceil_div(cols, CL_SEGMENT);
    struct cl_act a;
    a.q = work;
    a.d = (local float *)(work + CL_TOKENS * CL_SEGMENT);
    a.s = (local short *)(a.d + CL_TOKENS * 16);
    a.stride = CL_SEGMENT;
    a.d_stride = 16;
    a.s_stride = 32;
    a.last = CL_TOKENS - 1;
    for (uint half_at = 0; half_at < u->all; half_at += u->half_of) {
        struct cl_weight w = u->w0;
        if (half_at > 0)
            w = u->w1;
        uint panel_bytes = cl_type_bytes(w.type, cols);
        for (uint v0 = 0; v0 < u->half_of; v0 += at_once) {
            uint v = v0 + slot;
            /* The matrix engine needs all items: for panels that do not exist the last one is computed
             * again. */
            cl_bytes from =
                cl_panel_at(&w, min(u->panel + min(v, u->half_of - 1), u->panels - 1), panel_bytes);
            float total[CL_TOKENS];
#pragma unroll
            for (uint t = 0; t < CL_TOKENS; t++)
                total[t] = 0.0f;
            for (uint segment = 0; segment < segments; segment++) {
                uint at = segment * CL_SEGMENT;
                barrier(CLK_LOCAL_MEM_FENCE);
                cl_stage(src, w.type, t0, nt, at, min(cols - at, (uint)CL_SEGMENT), work);
                barrier(CLK_LOCAL_MEM_FENCE);
                float acc[CL_TOKENS];
                cl_segment(w.type, w.file, from, cols, r, segment, &a, acc);
#pragma unroll
                for (uint t = 0; t < CL_TOKENS; t++)
                    total[t] += acc[t];
            }
            if (v < u->half_of)
#pragma unroll
                for (uint t = 0; t < CL_TOKENS; t++)
                    tile[t * R + 16 * (half_at + v) + r] = total[t];
        }
    }
}

#include "kernels/opencl/cl_matmul.h"
