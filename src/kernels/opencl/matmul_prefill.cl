/* Products of many tokens: a tile of CL_TILE_TOKENS tokens, whose activations lie in local memory one segment
 * of k at a time. A work item has CL_TOKENS of them and a row of CL_ROWS panels, so that what is loaded of
 * one is multiplied by all of the other. Compiled once per set of weight types (CL_TYPES, CL_NAME); with
 * CL_SUB_GROUP 8 or 16 the matrix engine does the integer sums (dpas). */
#include "kernels/opencl/cl_types.h"
#include "kernels/shared/opencl.h"

#define CL_ACT   local
#define CL_TILES 1
#define CL_AHEAD 1
#if CL_OF_ALL
#define CL_TILE_TOKENS OPENCL_PREFILL_TOKENS
#define CL_TOKENS      OPENCL_PREFILL_MIXED
#define CL_ROWS        1
#elif CL_HAS(CL_F32) || CL_HAS(CL_F16) || CL_HAS(CL_BF16) /* floats: their activations take four times the memory */
#define CL_TILE_TOKENS OPENCL_PREFILL_TOKENS
#define CL_TOKENS      OPENCL_PREFILL_TOKENS
#define CL_ROWS        1
#elif CL_SUB_GROUP
#define CL_TILE_TOKENS OPENCL_DPAS_TILE /* with sub-groups of 16 `split` of the kernel, a power of 2 */
#if CL_SUB_GROUP == 8
#define CL_TOKENS OPENCL_DPAS_EACH
#define CL_ROWS   OPENCL_DPAS_ROWS
#else
#define CL_TOKENS (CL_SEVERAL || CL_HAS(CL_IQ2_S) ? OPENCL_WIDE_MIXED : OPENCL_WIDE_EACH)
#define CL_ROWS   (CL_HAS(CL_Q8_0) || CL_HAS(CL_Q4_1) || CL_HAS(CL_Q5_1) || CL_HAS(CL_IQ4_NL) ? OPENCL_WIDE_ROWS : 1)
#endif
#else
#define CL_TILE_TOKENS OPENCL_PREFILL_TILE
#define CL_TOKENS      OPENCL_PREFILL_EACH
#define CL_ROWS        OPENCL_PREFILL_ROWS
#endif
#include "kernels/opencl/cl_source.h"

#if CL_SUB_GROUP == 16
#include "kernels/opencl/cl_stage.h"
#include "kernels/opencl/cl_wide_sums.h"
#else

/* CL_TILE_TOKENS is 2 to this. */
#define CL_LOG_TILE (CL_TILE_TOKENS == 8 ? 3 : CL_TILE_TOKENS == 16 ? 4 : 5)

/* Group: columns at .. at + n (a multiple of 32) of nt rows of bytes, [blocks][tile][32]; rows that are
 * not there become zero. tile: a power of 2, number `log` of them. */
static inline void cl_stage_bytes(local uint4 *to, cl_bytes from, global const uint *row, uint cols, uint at,
                                  uint n, uint nt, uint log) {
    for (uint i = get_local_id(0); i < (CL_STAGED / 16u) << log; i += get_local_size(0)) {
        uint t = i / 2 & ((1u << log) - 1), c = (i / 2 >> log) * 32 + i % 2 * 16;
        to[i] = t < nt && c < n ? *(global const uint4 *)(from + (row ? row[t] : t) * cols + at + c) : 0;
    }
}

/* Group: columns at .. at + n of nt rows of floats, [CL_TILE_TOKENS][512]. */
static inline void cl_stage_floats(local float *to, cl_floats from, global const uint *row, uint cols,
                                   uint at, uint n, uint nt) {
    for (uint i = get_local_id(0); i < CL_TILE_TOKENS * CL_SEGMENT; i += get_local_size(0)) {
        uint t = i / CL_SEGMENT, c = i % CL_SEGMENT;
        to[i] = t < nt && c < n ? from[(row ? row[t] : t) * cols + at + c] : 0.0f;
    }
}

/* Group: numbers first .. first + n (at most `most`) of nt rows of row_length, [most][tile]. */
static inline void cl_stage_scales(local float *to, cl_floats from, global const uint *row, uint row_length,
                                   uint first, uint n, uint most, uint nt, uint log) {
    for (uint i = get_local_id(0); i < most << log; i += get_local_size(0)) {
        uint t = i / most, c = i % most;
        to[(c << log) + t] =
            t < nt && c < n ? from[(row ? row[t] : t) * row_length + first + c] : 0.0f;
    }
}

static inline void cl_stage_shorts(local short *to, cl_shorts from, global const uint *row, uint row_length,
                                   uint first, uint n, uint most, uint nt, uint log) {
    for (uint i = get_local_id(0); i < most << log; i += get_local_size(0)) {
        uint t = i / most, c = i % most;
        to[(c << log) + t] =
            t < nt && c < n ? from[(row ? row[t] : t) * row_length + first + c] : (short)0;
    }
}

/* Group: the segment's activations for weights of this type. */
static inline void cl_stage(const struct cl_source *src, uint type, uint t0, uint nt, uint at, uint n,
                            local uchar *work, uint log) {
    uint wide = src->stride;
    if (CL_ANY_FLOAT && cl_is_float(type)) {
        cl_stage_floats((local float *)work, (cl_floats)(src->base + src->f32) + t0 * wide, src->row, wide,
                        at, n, nt);
        return;
    }
    bool k = cl_by_256(type);
    uint scales = k ? 256 : 32, sums = k ? 16 : 32;
    local float *d = (local float *)(work + (CL_STAGED << log));
    local short *s = (local short *)(d + (CL_STAGED / 32 << log));
    cl_stage_bytes((local uint4 *)work, src->base + (k ? src->q256 : src->q32) + t0 * wide, src->row, wide,
                   at, n, nt, log);
    cl_stage_scales(d, (cl_floats)(src->base + (k ? src->d256 : src->d32)) + t0 * (wide / scales), src->row,
                    wide / scales, at / scales, n / scales, k ? CL_STAGED / 256 : CL_STAGED / 32, nt, log);
    cl_stage_shorts(s, (cl_shorts)(src->base + (k ? src->s256 : src->s32)) + t0 * (wide / sums), src->row,
                    wide / sums, at / sums, n / sums, k ? CL_STAGED / 16 : CL_STAGED / 32, nt, log);
}

/* Item's tokens `token` .. + CL_TOKENS, rows r of panels v, v + 1, .. of the unit's half: their sums over all
 * segments to the tile; `up`: they are the second of two, what the first left in the tile goes with them. */
static inline void cl_put_sums(const struct cl_unit *u, bool up, uint v, uint r, uint token,
                               const cl_acc *total, local float *tile, uint R) {
#if CL_SUB_GROUP
#define CL_PUT_ONE(n, t)                                                                                     \
    {                                                                                                        \
        uint i = 16 * v + r + 8 * CL_HALF(n);                                                                \
        local float *to = tile + (token + 8 * CL_PART(n) + t) * R + i;                                       \
        *to = up ? cl_gated(u->gate, i, *to, total[n].s##t) : total[n].s##t;                                 \
    }
#define CL_PUT(n)                                                                                            \
    CL_PUT_ONE(n, 0)                                                                                         \
    CL_PUT_ONE(n, 1)                                                                                         \
    CL_PUT_ONE(n, 2)                                                                                         \
    CL_PUT_ONE(n, 3)                                                                                         \
    CL_PUT_ONE(n, 4)                                                                                         \
    CL_PUT_ONE(n, 5)                                                                                         \
    CL_PUT_ONE(n, 6)                                                                                         \
    CL_PUT_ONE(n, 7)
    CL_EACH(CL_PUT)
#else
#pragma unroll
    for (uint row = 0; row < CL_ROWS; row++) {
        uint i = 16 * (v + row) + r;
        if (v + row >= u->half_of)
            break;
#pragma unroll
        for (uint t = 0; t < CL_TOKENS; t++) {
            local float *to = tile + (token + t) * R + i;
            float sum = total[row * CL_TOKENS + t];
            *to = up ? cl_gated(u->gate, i, *to, sum) : sum;
        }
    }
#endif
}

/* split: tokens of the tile, a multiple of CL_TOKENS. Local work: CL_TILE_TOKENS x 512 bytes, 16 floats and
 * 32 shorts; for weights of floats CL_TILE_TOKENS x 512 floats. */
static inline void cl_sums(const struct cl_source *src, const struct cl_unit *u, uint split, uint t0, uint nt,
                           local float *tile, uint R, local uchar *work) {
#if CL_SUB_GROUP
    /* What the whole sub-group has in common compilers must see: it is loaded once for all its items. */
    uint r = get_sub_group_local_id(), slot = get_sub_group_id(), at_once = get_local_size(0) / CL_SUB_GROUP;
#else
    uint me = get_local_id(0), r = me % 16, slot = me / 16, at_once = get_local_size(0) / 16;
#endif
    uint cols = src->cols, segments = cl_ceil_div(cols, CL_SEGMENT);
    uint wide = cl_ceil_div(u->half_of, CL_ROWS), places = wide * (split / CL_TOKENS);
    for (uint half_at = 0; half_at < u->all; half_at += u->half_of) {
        struct cl_weight w = u->w0;
        if (half_at > 0)
            w = u->w1;
        uint panel_bytes = cl_type_bytes(w.type, cols);
        for (uint place0 = 0; place0 < places; place0 += at_once) {
            uint place = place0 + slot, v = place % wide * CL_ROWS, token = place / wide * CL_TOKENS;
            bool mine = place < places && token < nt;
            cl_bytes from[CL_ROWS];
#pragma unroll
            for (uint row = 0; row < CL_ROWS; row++) /* for panels that do not exist the last one again */
                from[row] =
                    cl_panel_at(&w, min(u->panel + min(v + row, u->half_of - 1), u->panels - 1), panel_bytes);
            struct cl_act a;
            bool f = CL_ANY_FLOAT && cl_is_float(w.type);
            a.q = work + token * (f ? CL_SEGMENT * 4 : 32);
            a.d = (local float *)(work + CL_TILE_TOKENS * CL_SEGMENT) + token;
            a.s = (local short *)(work + CL_TILE_TOKENS * (CL_SEGMENT + 64)) + token;
            a.stride = f ? CL_SEGMENT : 32;
            a.d_stride = a.s_stride = CL_TILE_TOKENS;
            a.last = CL_TOKENS - 1;
            cl_acc total[CL_ACCS];
#define CL_ZERO(n) total[n] = 0.0f;
            CL_EACH(CL_ZERO)
#undef CL_ZERO
            for (uint segment = 0; segment < segments; segment++) {
                uint at = segment * CL_SEGMENT;
                barrier(CLK_LOCAL_MEM_FENCE);
                cl_stage(src, w.type, t0, nt, at, min(cols - at, (uint)CL_SEGMENT), work,
                         CL_LOG_TILE);
                barrier(CLK_LOCAL_MEM_FENCE);
                if (!mine)
                    continue;
                cl_acc acc[CL_ACCS];
                cl_segment(w.type, w.file, from, cols, r, segment, &a, acc);
#define CL_ADD(n) total[n] += acc[n];
                CL_EACH(CL_ADD)
#undef CL_ADD
            }
            if (mine)
                cl_put_sums(u, half_at > 0, v, r, token, total, tile, R);
        }
    }
}
#endif

#include "kernels/opencl/cl_matmul.h"
