/* Attention over the cache. A group has one query group's heads (all heads of one KV head) of a few queries,
 * a tile. Rows are (query, head) pairs, up to OPENCL_ATTENTION_ROWS at a time; splits of 256 tokens each as
 * kernels.h says: an item has the scores of two tokens of the split, then two columns of the output, of FEW
 * rows at a time.
 *
 * For a chunk of few queries that sees several splits, the splits run in parallel (launch_cut): every (tile,
 * KV head, split) is an item of its own that leaves its result in a cell, and the last group to do so merges
 * all cells in the order of the splits. Otherwise a group goes through the splits of its tile one after the
 * other, for several KV heads if the int8 forms of the output need them together.
 *
 * With CL_LATENT all KV heads read the cache's one unit, and V is the beginning of K (cl_latent.h). With
 * CL_BOTH queries also see tokens behind them: as many as the window has before them, or all of the chunk.
 * Where the op is one of a text model with pictures (`pictures`), that kernel has the chunks that are a
 * picture's, whose queries see all of the chunk and as many tokens before them as ever, and the others pass
 * over them.
 *
 * Local memory does not grow with the context. Compiled once per type of K and V (CL_KV, CL_NAME), and once
 * for all of them, for cl_splits.h's way; and with TILE_ROWS for chunks whose tiles have many rows, which
 * lists of many tokens launch beside it: each passes over the other's chunks. */
#include "kernels/opencl/cl_kv.h"

#ifdef CL_KV /* compiled for one type of K and V */
#define TYPE_K(l) ((void)(l), CL_KV)
#define TYPE_V(l) ((void)(l), CL_KV)
#else
#define TYPE_K(l) OPENCL_CACHE_K((l)->cache.what)
#define TYPE_V(l) OPENCL_CACHE_V((l)->cache.what)
#endif

#define ROWS  OPENCL_ATTENTION_ROWS
#define SPLIT OPENCL_SPLIT
/* Where registers are few, groups of 8 items have twice as many for each as 16. */
#ifndef CL_SUB_GROUP
#define CL_SUB_GROUP 16
#endif

#ifdef TILE_ROWS
#define ITEMS OPENCL_GROUP
#else
#define ITEMS OPENCL_ATTENTION_GROUP
#endif

#include "kernels/opencl/attention/cl_look.h"

#ifndef TILE_ROWS
#include "kernels/opencl/attention/cl_splits.h"
#elif CL_KV == KV_LAYOUT_Q8_0
#include "kernels/opencl/attention/cl_tiles_q8.h"
#else
#include "kernels/opencl/attention/cl_tiles.h"
#endif

#ifdef CL_BOTH
#define LOOK_AHEAD   , window != 0 && !pictures ? (int)window : ALL
#define LOOK_WINDOWS , has_windows ? (global const struct step_window *)windows : 0
#else
#define LOOK_AHEAD
#define LOOK_WINDOWS
#endif
#define LOOK                                                                                                 \
    {                                                                                                        \
        CL_CACHE(kv), q, q_width, CL_FORMS(out), group, head_k, head_v, scale, cap, cap_inverse,             \
            window != 0 ? (int)window : ALL LOOK_AHEAD, (int)skip,                                                      \
            window != 0 ? CL_STEP(step)->cache[OPENCL_CACHE_NUMBER(kv_what)].table_stride : 0, has_sinks,    \
            sinks LOOK_WINDOWS                                                                               \
    }

#define ATTENTION_KERNEL                                                                                     \
    kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(CL_SUB_GROUP)))

/* Whether the chunk's tokens are the rest of a picture, which see each other; of one token nothing follows. */
static inline bool is_picture(cl_bytes step, global const struct step_chunk *chunk) {
    return chunk->n > 1 && ((global const int *)(step + CL_STEP(step)->at_tokens))[chunk->first] < 0;
}

/* Work: items of the chunks, cut as the step says. Local memory: struct scratch. cells: of n_cells cells,
 * struct cells; arrivals: per token of the step and unit of `heads` KV heads, 0 before and after. */
ATTENTION_KERNEL void CL_NAME(CL_ARGUMENTS(ATTENTION)) {
    struct look l = LOOK;
#ifndef CL_BOTH
    (void)windows, (void)has_windows;
#endif
#ifdef TILE_ROWS /* all registers are taken: attention with a cap does without tiles (launch.c) */
    l.cap = 0.0f;
#endif
    local float *memory = (local float *)whole;
#ifdef TILE_ROWS
    (void)cells, (void)arrivals, (void)n_cells;
#else
    struct scratch m = scratch_in(memory, head_k, head_v);
    struct cells c = {cells, cells + n_cells * n_kv_heads * group * head_v, n_kv_heads * group, 0, 0};
#endif
    for (uint item = get_group_id(0); item < CL_STEP(step)->n_items * n_kv_heads; item += get_num_groups(0)) {
        global const struct step_chunk *chunk = cl_chunk_of(step, true, item / n_kv_heads);
#ifdef TILE_ROWS
        if (!chunk->tiled)
            continue;
#else
        if (chunk->tiled)
            continue;
#endif
#ifdef CL_BOTH
        if (pictures && !is_picture(step, chunk))
            continue;
#else
        if (pictures && is_picture(step, chunk))
            continue;
#endif
        uint tiles = cl_ceil_div(chunk->n, chunk->queries);
        bool parallel = chunk->splits > 0;
        uint at = item - chunk->item * n_kv_heads;
        uint head = at % n_kv_heads, n_heads = parallel ? 1 : heads;
        uint tile = at / n_kv_heads % tiles, split = at / n_kv_heads / tiles;
        uint query = tile * chunk->queries;
        uint n_queries = min(chunk->n - query, chunk->queries);
        uint position = chunk->position + query, token = chunk->first + query;
        uint unit = head / heads, end = chunk->position + chunk->n;
        if (head % n_heads != 0 || split * SPLIT >= position + n_queries)
            continue; /* the unit's first head has it; other tiles of the chunk see one split more */
        global const uint *table = cl_table(step, OPENCL_CACHE_NUMBER(kv_what), chunk->slot);
        uint n = heads * group * head_v;
#ifdef TILE_ROWS
        for (uint h = head; h < head + n_heads; h++) {
            for (uint first = 0; first < n_queries * group; first += TILE_ROWS) {
                struct rows r = {first, min(n_queries * group - first, (uint)TILE_ROWS), position, token, end,
                                 h};
                tile_rows(&l, memory, &r, table);
            }
        }
        quantise_out(&l, memory, token, n_queries, unit * n, n);
#else
        uint units = n_kv_heads / heads;
        c.first = chunk->cell + query * chunk->splits;
        c.splits = chunk->splits;
        for (uint h = head; h < head + n_heads; h++) {
            for (uint first = 0; first < n_queries * group; first += ROWS) {
                struct rows r = {first, min(n_queries * group - first, (uint)ROWS), position, token, end, h};
                uint begin = parallel ? split * SPLIT : first_split(&l, &r, 0) * SPLIT;
                if (!any_sees(&l, &r, begin))
                    continue;
                bool fresh = true;
                do {
                    if (any_sees(&l, &r, begin)) {
                        add_split(&l, &m, &r, table, begin, fresh, &c);
                        fresh = false;
                    }
                    begin += SPLIT;
                } while (!parallel && seen(&l, &r, r.n - 1, begin) > 0);
                if (!parallel)
                    put_rows(&l, &m, &r);
            }
        }
        if (parallel) {
            uint all = cl_ceil_div(position + n_queries, SPLIT) * heads;
            if (!cl_last_of_all(arrivals + token * units + unit, all, (local uint *)m.now))
                continue;
            for (uint h = unit * heads; h < (unit + 1) * heads; h++) {
                for (uint first = 0; first < n_queries * group; first += ROWS) {
                    struct rows r = {first, min(n_queries * group - first, (uint)ROWS), position, token, end,
                                     h};
                    merge_rows(&l, &m, &r, &c);
                    put_rows(&l, &m, &r);
                }
            }
        }
        if (l.out.has == OPENCL_F32)
            continue;
        if (heads == 1 && n_queries * group <= ROWS) /* the tokens' columns are in m.o, one after the other */
            cl_quantise_rows(&l.out, token, n_queries, unit * n, m.o, n, n, false, (local uint *)m.score);
        else
            quantise_out(&l, memory, token, n_queries, unit * n, n);
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
}
