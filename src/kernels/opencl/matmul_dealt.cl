/* Products of 17 to 64 tokens with the matrix engine and sub-groups of 16: a sub-group has 32 tokens and the
 * 16 rows of a panel. k is dealt out: its segments of 512 go to slots, whose totals meet in local memory and
 * are added in order, as in matmul_few.cl. The group stages the activations of all its segments, 256 columns
 * of each at a time. Compiled once per set of weight types (CL_TYPES, CL_NAME): integers, but not all K
 * types. */
#include "kernels/opencl/cl_types.h"
#include "kernels/shared/opencl.h"

#define CL_ACT    local
#define CL_TILES  0
#define CL_FEW    1
#define CL_AHEAD  1
#define CL_TOKENS OPENCL_DEALT_TOKENS
#define CL_ROWS   1
#include "kernels/opencl/cl_source.h"

#include "kernels/opencl/cl_stage.h"

CL_GIVEN uint sub_group_broadcast(uint, uint);

/* 8 tokens' totals of a row. */
static inline void cl_put_totals(cl_acc acc, local float *to) {
#define CL_PUT(t) to[t * 16] = acc.s##t;
    CL_EIGHT(CL_PUT)
#undef CL_PUT
}

/* split: tokens of a pass, 16 or 32. Local work: OPENCL_DEALT_BYTES for each token of each segment that is in
 * flight, or OPENCL_DEALT_TOTALS floats for each slot, whichever is more. */
static inline void cl_sums(const struct cl_source *src, const struct cl_unit *u, uint split, uint t0, uint nt,
                           local float *tile, uint R, local uchar *work) {
    /* What the whole sub-group has in common compilers must see: it is loaded once for all its items. */
    uint r = get_sub_group_local_id(), slot = sub_group_broadcast(get_sub_group_id(), 0);
    uint slots = get_local_size(0) / CL_SUB_GROUP, segments = cl_ceil_div(src->cols, CL_SEGMENT);
    /* Slots are dealt out to panels first: what is left of them goes to segments. Two slots beside each
     * other, which may be one warp (tools/zecuda), have the same segment. */
    uint at_once = min(u->all, slots), each = (at_once + 1) & ~1u;
    uint dealt = min(segments, max(slots / each, 1u)), log = split > 16 ? 5 : 4;
    uint mine = slot % each, segment_of = min(slot / each, dealt - 1);
    local uint4 *bytes = (local uint4 *)work;
    local float *scales = (local float *)(work + (dealt * CL_STAGED << log));
    local uint *sums = (local uint *)(scales + (dealt * 8 << log));
    local float *totals = (local float *)work;
    const uint stride = OPENCL_DEALT_TOTALS(1u << log);
    for (uint place0 = 0; place0 < u->all; place0 += at_once) {
        uint place = place0 + min(mine, at_once - 1);
        bool there = mine < at_once && place < u->all && slot < dealt * each;
        place = min(place, u->all - 1);
        struct cl_weight w;
        if (place < u->half_of)
            w = u->w0;
        else
            w = u->w1;
        cl_bytes from[CL_ROWS];
        from[0] = cl_panel_at(&w, min(u->panel + place % u->half_of, u->panels - 1),
                              cl_type_bytes(w.type, src->cols));
        for (uint first = 0; first < segments; first += dealt) {
            struct cl_part_of_k d = {first, min(dealt, segments - first), 0, t0, nt, log, u->w0.type, false};
            d.minima = cl_has_m(u->w0.type) || (u->all > u->half_of && cl_has_m(u->w1.type));
            uint segment = first + segment_of;
            bool active = slot < dealt * each && segment < segments;
            cl_acc acc[CL_ACCS];
#define CL_ZERO(n) acc[n] = 0.0f;
            CL_EACH(CL_ZERO)
#undef CL_ZERO
            for (d.second = 0; d.second < CL_SEGMENT / CL_STAGED; d.second++) {
                barrier(CLK_LOCAL_MEM_FENCE);
                cl_stage_columns(src, &d, bytes, scales, sums);
                barrier(CLK_LOCAL_MEM_FENCE);
                struct cl_act a;
                a.q = (local uchar *)(bytes + (segment_of * (CL_STAGED / 16) << log));
                a.d = scales + (segment_of * 8 << log);
                a.s = CL_ANY_K ? (local short *)(sums + (segment_of * 8 << log))
                               : (local short *)sums + (segment_of * 8 << log);
                a.stride = 32 << log;
                a.d_stride = a.s_stride = 1 << log;
                if (!active || segment * CL_SEGMENT + d.second * CL_STAGED >= src->cols)
                    continue;
                /* Constants, so that each way has its own loop: with branches in it IGC takes two instructions for
                 * a product. Of several types that spills. */
                if (CL_SEVERAL) {
                    a.last = (1u << log) - 1;
                    cl_step(w.type, w.file, from, src->cols, r, segment * 2 + d.second, &a, acc);
                } else if (log > 4) {
                    a.last = 31;
                    cl_step(w.type, w.file, from, src->cols, r, segment * 2 + d.second, &a, acc);
                } else {
                    a.last = 15;
                    cl_step(w.type, w.file, from, src->cols, r, segment * 2 + d.second, &a, acc);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (there && segment < segments) {
                local float *to = totals + slot * stride + r;
#define CL_PUT(n) cl_put_totals(acc[n], to + n * 128);
                CL_EACH_THERE(CL_PUT, log > 4)
#undef CL_PUT
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            uint here = min(at_once, u->all - place0);
            for (uint i = get_local_id(0); i < here * 16 * nt; i += get_local_size(0)) {
                uint p = i / 16 % here, t = i / 16 / here;
                local float *to = tile + t * R + 16 * (place0 + p) + i % 16;
                float total = first == 0 ? 0.0f : *to;
                for (uint j = 0; j < d.together; j++)
                    total += totals[(j * each + p) * stride + t * 16 + i % 16];
                *to = total;
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#include "kernels/opencl/cl_matmul.h"
