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
 * With CL_CHOSEN queries see the tokens of their lists (kernels/shared/index.h), as if these were all; that
 * kernel has the chunks of which some token leaves something out, and the others pass over them.
 *
 * Where the op is one of a text model with pictures (`pictures`), that kernel has the chunks that are a
 * picture's, whose queries see all of the chunk and as many tokens before them as ever, and the others pass
 * over them.
 *
 * Local memory does not grow with the context. Compiled once per type of K and V (CL_KV, CL_NAME), and once
 * for all of them, for cl_splits.h's way; and with TILE_ROWS for chunks whose tiles have many rows, which
 * lists of many tokens launch beside it: each passes over the other's chunks. */
#include "kernels/opencl/cl_kv.h"
#include "kernels/shared/index.h"

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
#ifdef CL_CHOSEN
#define LOOK_LISTS , lists, list_width, ratio, keep, lists
#else
#define LOOK_LISTS
#endif
#define LOOK                                                                                                 \
    {                                                                                                        \
        CL_CACHE(kv), q, q_width, CL_FORMS(out), group, head_k, head_v, scale, cap, cap_inverse,             \
            window != 0 ? (int)window : ALL LOOK_AHEAD, (int)skip,                                                      \
            window != 0 ? CL_STEP(step)->cache[OPENCL_CACHE_NUMBER(kv_what)].table_stride : 0, has_sinks,    \
            sinks LOOK_WINDOWS LOOK_LISTS                                                                               \
    }

#define ATTENTION_KERNEL                                                                                     \
    kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(CL_SUB_GROUP)))

/* Whether the chunk's tokens are the rest of a picture, which see each other; of one token nothing follows. */
static inline bool is_picture(cl_bytes step, global const struct step_chunk *chunk) {
    return chunk->n > 1 && ((global const int *)(step + CL_STEP(step)->at_tokens))[chunk->first] < 0;
}

/* The queries that a tile has. */
struct tile {
    uint n, position, token; /* of the first */
    uint end;                /* of the chunk: the position behind its last token */
    uint cell, splits;       /* of the first query's first split; cells of a query */
};

/* Rows of a tile come in groups of at most ROWS: group i of row_groups. Where queries see chosen blocks, a
 * group has rows of one query, whose place is the last one of its list. */
static inline uint row_groups(const struct look *l, const struct tile *t, uint rows) {
#ifdef CL_CHOSEN
    return t->n * cl_ceil_div(l->group, rows);
#else
    return cl_ceil_div(t->n * l->group, rows);
#endif
}

static inline struct rows row_group(struct look *l, const struct tile *t, uint rows, uint head, uint i) {
#ifdef CL_CHOSEN
    uint each = cl_ceil_div(l->group, rows), query = i / each, first = i % each * rows;
    uint last = index_sees(l->ratio, l->keep, t->position + query) - 1;
    struct rows r = {first, min(l->group - first, rows), last, t->token + query, t->end, head};
    l->list = l->lists + r.token * l->list_width;
#else
    uint first = i * rows;
    struct rows r = {first, min(t->n * l->group - first, rows), t->position, t->token, t->end, head};
#endif
    return r;
}

/* Tokens that the tile's queries see at most, from the first one on. */
static inline uint reach_of(const struct look *l, const struct tile *t) {
#ifdef CL_CHOSEN
    uint most = 0;
    for (uint i = 0; i < t->n; i++)
        most = max(most, index_sees(l->ratio, l->keep, t->position + i));
    return most;
#else
    (void)l;
    return t->position + t->n;
#endif
}

#ifndef TILE_ROWS
/* Where cells of the rows begin. */
static inline uint cell_of_rows(const struct tile *t, const struct rows *r) {
#ifdef CL_CHOSEN
    return t->cell + (r->token - t->token) * t->splits;
#else
    (void)r;
    return t->cell;
#endif
}
#endif

/* Whether some token of the chunk leaves out what it could see: such chunks are CL_CHOSEN's. */
static inline bool leaves_out(global const struct step_chunk *chunk, uint ratio, uint keep) {
    uint end = chunk->position + chunk->n;
    return ratio != 0 && index_sees(ratio, keep, end - 1) < end;
}

/* Work: items of the chunks, cut as the step says. Local memory: struct scratch. cells: of n_cells cells,
 * struct cells; arrivals: per token of the step and unit of `heads` KV heads, 0 before and after. */
ATTENTION_KERNEL void CL_NAME(CL_ARGUMENTS(ATTENTION)) {
    struct look l = LOOK;
#ifndef CL_BOTH
    (void)windows, (void)has_windows;
#endif
#ifndef CL_CHOSEN
    (void)lists, (void)list_width;
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
#ifdef CL_CHOSEN
        if (!leaves_out(chunk, ratio, keep))
            continue;
#else
        if (leaves_out(chunk, ratio, keep))
            continue;
#endif
        uint tiles = cl_ceil_div(chunk->n, chunk->queries);
        bool parallel = chunk->splits > 0;
        uint at = item - chunk->item * n_kv_heads;
        uint head = at % n_kv_heads, n_heads = parallel ? 1 : heads;
        uint tile = at / n_kv_heads % tiles, split = at / n_kv_heads / tiles;
        uint query = tile * chunk->queries, unit = head / heads;
        struct tile queries = {min(chunk->n - query, chunk->queries), chunk->position + query,
                               chunk->first + query, chunk->position + chunk->n,
                               chunk->cell + query * chunk->splits, chunk->splits};
        uint n_queries = queries.n, token = queries.token, reach = reach_of(&l, &queries);
        if (head % n_heads != 0 || split * SPLIT >= reach)
            continue; /* the unit's first head has it; other tiles of the chunk see one split more */
        global const uint *table = cl_table(step, OPENCL_CACHE_NUMBER(kv_what), chunk->slot);
        uint n = heads * group * head_v;
#ifdef TILE_ROWS
        for (uint h = head; h < head + n_heads; h++) {
            for (uint i = 0; i < row_groups(&l, &queries, TILE_ROWS); i++) {
                struct rows r = row_group(&l, &queries, TILE_ROWS, h, i);
                tile_rows(&l, memory, &r, table);
            }
        }
        quantise_out(&l, memory, token, n_queries, unit * n, n);
#else
        uint units = n_kv_heads / heads;
        c.splits = chunk->splits;
        for (uint h = head; h < head + n_heads; h++) {
            for (uint i = 0; i < row_groups(&l, &queries, ROWS); i++) {
                struct rows r = row_group(&l, &queries, ROWS, h, i);
                c.first = cell_of_rows(&queries, &r);
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
            uint all = cl_ceil_div(reach, SPLIT) * heads;
            if (!cl_last_of_all(arrivals + token * units + unit, all, (local uint *)m.now))
                continue;
            for (uint h = unit * heads; h < (unit + 1) * heads; h++) {
                for (uint i = 0; i < row_groups(&l, &queries, ROWS); i++) {
                    struct rows r = row_group(&l, &queries, ROWS, h, i);
                    c.first = cell_of_rows(&queries, &r);
                    merge_rows(&l, &m, &r, &c);
                    put_rows(&l, &m, &r);
                }
            }
        }
        if (l.out.has == OPENCL_F32)
            continue;
        if (heads == 1 && row_groups(&l, &queries, ROWS) == 1) /* the tokens' columns are in m.o, one after the other */
            cl_quantise_rows(&l.out, token, n_queries, unit * n, m.o, n, n, false, (local uint *)m.score);
        else
            quantise_out(&l, memory, token, n_queries, unit * n, n);
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
}
