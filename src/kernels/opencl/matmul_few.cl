/* Products of few tokens where registers are wide (elsewhere matmul_decode.cl): a work item has a row of
 * CL_ROWS panels and CL_TOKENS tokens. As there, k is split in segments over slots of 16 items, whose totals
 * meet in local memory and are added in order; but all tokens of a pass are in flight at once, so that memory
 * is read once for them. Compiled once per set of weight types (CL_TYPES, CL_NAME): integers, but not all K
 * types. */
#include "kernels/shared/opencl.h"
#define CL_ACT       global
#define CL_SUB_GROUP 0
#define CL_TILES     0
#define CL_FEW       1
#define CL_AHEAD     1
#define CL_TOKENS    OPENCL_FEW_EACH
#define CL_ROWS      OPENCL_FEW_ROWS
#include "kernels/opencl/cl_source.h"

/* The sums that an item is to make: of rows r of panels `panel` and on, which are virtual panels v and on of
 * the unit, and tokens `token` and on. */
struct cl_place {
    uint v, panel, token;
    bool there, second;
};

static inline struct cl_place cl_place_of(const struct cl_unit *u, uint wide, uint parts, uint places,
                                          uint place) {
    uint at = place / parts;
    struct cl_place p;
    p.second = at >= wide;
    p.v = at % wide * CL_ROWS;
    p.panel = u->panel + p.v;
    p.token = place % parts * CL_TOKENS;
    p.there = place < places && p.panel < u->panels;
    return p;
}

/* Local work: CL_SUMS floats per item. */
static inline void cl_sums(const struct cl_source *src, const struct cl_unit *u, uint pass, uint t0, uint nt,
                           local float *tile, uint R, local uchar *work) {
    (void)pass;
    local float *totals = (local float *)work;
    uint me = get_local_id(0), items = get_local_size(0);
    uint r = me % 16, slot = me / 16, slots = items / 16;
    uint segments = cl_ceil_div(src->cols, CL_SEGMENT);
    /* Slots are dealt out to tokens and panels first: what is left of them goes to segments. Two slots beside
     * each other, which may be one warp, have the same weights if there are tokens for them. */
    uint parts = cl_ceil_div(nt, CL_TOKENS);
    uint beside = parts % 2 == 0 && slots % 2 == 0 ? 2 : 1;
    uint wide = cl_ceil_div(u->half_of, CL_ROWS);
    uint places = parts * (u->all / u->half_of * wide);
    uint split = min(segments, max(slots / places, 1u));
    uint at_once = slots / split / beside * beside;
    uint segment_of = slot / beside % split;
    for (uint place0 = 0; place0 < places; place0 += at_once) {
        uint mine = slot / beside / split * beside + slot % beside;
        struct cl_place p = cl_place_of(u, wide, parts, places, place0 + mine);
        p.there = p.there && mine < at_once;
        for (uint first = 0; first < segments; first += split) {
            uint segment = first + segment_of;
            if (p.there && segment < segments) {
                float acc[CL_SUMS];
                struct cl_weight w;
                if (p.second)
                    w = u->w1;
                else
                    w = u->w0;
                struct cl_act a;
                uint at = segment * CL_SEGMENT, cols = src->cols, t = t0 + p.token;
                bool k = cl_by_256(w.type);
                uint of_d = k ? 256 : 32, of_s = k ? 16 : 32;
                a.q = src->base + (k ? src->q256 : src->q32) + t * cols + at;
                a.d = (cl_floats)(src->base + (k ? src->d256 : src->d32)) + (t * cols + at) / of_d;
                a.s = (cl_shorts)(src->base + (k ? src->s256 : src->s32)) + (t * cols + at) / of_s;
                a.stride = cols;
                a.d_stride = cols / of_d;
                a.s_stride = cols / of_s;
                a.last = min(nt - p.token, (uint)CL_TOKENS) - 1;
                uint bytes = cl_type_bytes(w.type, cols);
                cl_bytes from[CL_ROWS];
#pragma unroll
                for (uint row = 0; row < CL_ROWS; row++) /* for panels that are not there the first again */
                    from[row] = cl_panel_at(
                        &w, p.v + row < u->half_of && p.panel + row < u->panels ? p.panel + row : p.panel,
                        bytes);
                cl_segment(w.type, w.file, from, cols, r, segment, &a, acc);
#pragma unroll
                for (uint n = 0; n < CL_SUMS; n++)
                    totals[n * items + me] = acc[n];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            /* The slots that have the place's segments share its totals. */
            uint together = min(split, segments - first), base = me - 16 * beside * segment_of;
            for (uint n = segment_of; p.there && n < CL_SUMS; n += split) {
                uint t = n % CL_TOKENS, row = n / CL_TOKENS;
                if (p.token + t >= nt || p.v + row >= u->half_of)
                    continue;
                local float *to =
                    tile + (p.token + t) * R + 16 * (p.v + row + (p.second ? u->half_of : 0)) + r;
                float total = first == 0 ? 0.0f : *to;
                for (uint j = 0; j < together; j++)
                    total += totals[n * items + base + 16 * beside * j];
                *to = total;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#include "kernels/opencl/cl_matmul.h"
