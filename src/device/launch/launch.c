/* From ops to launches: what belongs to every op. Matmul and what follows it are in launch_matmul.c. No
 * state. */
#include "device/launch/launch_parts.h"

#include "graph/share.h"
#include "kernels/kernels.h"
#include "kernels/shared/opencl.h"

#include <string.h>

_Static_assert(OPENCL_SPLIT == KERNELS_SPLIT, "the numerics are one");
_Static_assert(GRAPH_ARGMAX_PARTS <= OPENCL_GROUP, "a group joins the parts");
/* attention.cl makes so many values int8 at a time, with what is left of its local memory. */
_Static_assert(OPENCL_LARGEST(KERNELS_MAX_HEAD) <= OPENCL_WEIGHTS, "the former lie where the latter come");
_Static_assert(OPENCL_QUANTISE_WORDS(OPENCL_ATTENTION_ROWS *OPENCL_SPLIT) <=
                   OPENCL_ATTENTION_ROWS * (128 + 4),
               "attention's local memory");

uint32_t launch_buckets(uint32_t most, uint32_t stream, uint32_t bounds[LAUNCH_BUCKETS]) {
    CHECK(most > 0);
    static const uint32_t fixed[] = {1, 4, 16, 32, 64};
    uint32_t n = 0;
    const uint32_t shorter = stream > 1 && stream <= most ? stream - 1 : 0;
    for (uint32_t i = 0; i < sizeof fixed / sizeof fixed[0] && fixed[i] < most; i++) {
        if (shorter != 0 && shorter < fixed[i] && (n == 0 || bounds[n - 1] < shorter))
            bounds[n++] = shorter;
        bounds[n++] = fixed[i];
    }
    if (shorter != 0 && (n == 0 || bounds[n - 1] < shorter))
        bounds[n++] = shorter;
    bounds[n++] = most;
    return n;
}

/* Groups of `group` items that the device runs at once. */
static uint32_t groups_at_once(const struct launch_traits *t, uint32_t group) {
    CHECK(group > 0);
    return (uint32_t)ARITH_MAX((uint64_t)t->threads * 16 / group, (uint64_t)1);
}

struct launch *launch_add(struct launch_list *b, uint32_t kernel, uint32_t op, uint32_t group,
                          uint64_t items) {
    /* Enough groups for four times what the device runs at once: groups walk the rest of their work. */
    uint64_t most = 4ull * groups_at_once(b->traits, group);
    CHECK(kernel < launch_n_kernels && op < b->g->n_ops);
    struct launch *l = b->out != NULL ? &b->out[b->n] : &b->dropped;
    b->n++;
    l->kernel = kernel;
    l->op = op;
    l->group = group;
    l->groups = (uint32_t)ARITH_MAX(ARITH_MIN(items, most), (uint64_t)1);
    l->answered = false;
    l->n_args = l->n_copies = 0;
    launch_put_step(b, l);
    return l;
}

struct launch_at launch_nowhere(void) {
    return (struct launch_at){DEVICE_EXCHANGE, 0, 0};
}

struct launch_at launch_value(const struct launch_list *b, uint32_t value, uint64_t form) {
    const struct graph_value *v = &b->g->values[value];
    CHECK(v->halves == 1); /* boundaries make no launch, and a GPU's results have no second half */
    return (struct launch_at){v->arena == GRAPH_SCRATCH ? DEVICE_SCRATCH : DEVICE_EXCHANGE, 0,
                              v->offset + form};
}

struct launch_at launch_floats(const struct launch_list *b, uint32_t value) {
    CHECK(b->g->values[value].f32 != UINT64_MAX);
    return launch_value(b, value, b->g->values[value].f32);
}

static struct launch_offsets offsets_of(const struct graph_value *v) {
    const uint64_t at[] = {v->f32, v->q32, v->d32, v->s32, v->q256, v->d256, v->s256};
    struct launch_offsets o;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        CHECK(at[i] == UINT64_MAX || at[i] <= UINT32_MAX);
        o.at[i] = at[i] == UINT64_MAX ? 0 : (uint32_t)at[i];
    }
    return o;
}

/* Its int8 form in one piece, for the list's rows. */
static struct graph_value packed_value(const struct launch_list *b, const struct graph_value *v) {
    struct graph_value p = *v;
    const uint32_t form = v->forms & ~(uint32_t)GRAPH_F32;
    const struct share_rows r = share_rows(form, launch_packed_rows(b->g, v, b->rows), v->width);
    if (form == GRAPH_I8_256) {
        p.d256 = p.q256 + r.scales;
        p.s256 = p.q256 + r.sums;
    } else {
        p.d32 = p.q32 + r.scales;
        p.s32 = p.q32 + r.sums;
    }
    return p;
}

struct launch_forms launch_forms_of(const struct launch_list *b, uint32_t value, uint32_t has) {
    struct graph_value v = b->g->values[value];
    if (v.packed > 0)
        v = packed_value(b, &v);
    return (struct launch_forms){launch_value(b, value, 0), has, v.width, offsets_of(&v)};
}

struct launch_source launch_source_of(const struct launch_list *b, const struct graph_op *o) {
    return (struct launch_source){launch_value(b, o->in, 0), offsets_of(&b->g->values[o->in]),
                                  b->g->weights[o->weight[0]].layout.cols};
}

struct launch_at launch_plain_weight(const struct launch_list *b, uint32_t weight) {
    if (weight == GRAPH_NONE)
        return launch_nowhere();
    const struct graph_weight *w = &b->g->weights[weight];
    CHECK(!w->packed && w->n_pieces == 1);
    return (struct launch_at){DEVICE_WEIGHTS, w->pieces[0].slice, w->pieces[0].offset};
}

uint64_t launch_rotation(const struct launch_list *b, const struct graph_rope *r, uint32_t angles) {
    return 2 * (uint64_t)b->g->angles[angles].first + r->neox;
}

stator_status launch_cache_of(struct launch_list *b, const struct graph_op *o, struct launch_cache *out) {
    const struct graph_cache *g = &b->g->caches[o->cache];
    const struct device_cache *c = &b->m->caches[o->cache];
    if (g->kind == GRAPH_STATE)
        return error_set(b->e, STATOR_DEVICE, "layer %u: no GPU kernel works on its cache '%s'", o->layer,
                         g->name);
    uint32_t kept = g->n_layers - c->spilled_layers;
    bool spilled = o->cache_layer >= kept;
    struct device_cache_part part = device_cache_part(b->m, o->cache, spilled);
    uint32_t unit = (o->cache_layer - (spilled ? kept : 0)) * g->units;
    uint32_t first = part.first + unit / c->units_per_slice;
    uint32_t last = part.first + (unit + g->units - 1) / c->units_per_slice;
    if (last - first >= OPENCL_KV_SLICES)
        return error_set(b->e, STATOR_DEVICE,
                         "layer %u: its KV cache lies in %u allocations, the kernels take %d: allow larger "
                         "allocations (max_alloc) or lower memory.context or memory.sequences",
                         o->layer, last - first + 1, OPENCL_KV_SLICES);
    CHECK(c->unit_bytes <= UINT32_MAX && g->bytes <= UINT32_MAX && g->k_bytes <= UINT32_MAX);
    for (uint32_t i = 0; i < OPENCL_KV_SLICES; i++)
        out->slice[i] = (struct launch_at){DEVICE_KV, ARITH_MIN(first + i, last), 0};
    out->unit = unit % c->units_per_slice;
    out->units_per_slice = c->units_per_slice;
    out->unit_bytes = (uint32_t)c->unit_bytes;
    out->block_stride = (uint32_t)g->bytes;
    out->k_bytes = (uint32_t)g->k_bytes;
    out->what = OPENCL_CACHE(g->type_k, g->type_v, o->cache);
    return STATOR_OK;
}

static void fill_part(struct launch_list *b, uint32_t op, uint32_t cache, bool spilled) {
    const struct device_cache *c = &b->m->caches[cache];
    struct device_cache_part part = device_cache_part(b->m, cache, spilled);
    uint32_t left = part.units;
    for (uint32_t slice = part.first; slice < part.end; slice++) {
        uint32_t here = ARITH_MIN(left, c->units_per_slice);
        struct launch *l =
            launch_add(b, LAUNCH_FILL, op, OPENCL_GROUP,
                       arith_ceil_div(b->g->caches[cache].bytes, OPENCL_FILL_PART) * here * c->n_blocks);
        launch_put_fill(b, l,
                        &(struct launch_fill_arguments){
                            .kv = {DEVICE_KV, slice, 0},
                            .units = here,
                            .unit_bytes = c->unit_bytes,
                            .block_stride = b->g->caches[cache].bytes,
                            .cache = cache,
                        });
        left -= here;
    }
    CHECK(left == 0);
}

static stator_status add_fill(struct launch_list *b, uint32_t op) {
    for (uint32_t cache = 0; cache < b->g->n_caches; cache++) {
        fill_part(b, op, cache, false);
        fill_part(b, op, cache, true);
    }
    return STATOR_OK;
}

/* Units [first, first + left) of the cache are the part's. */
static void move_part(struct launch_list *b, uint32_t cache, bool spilled, uint32_t buffer, uint64_t moves) {
    const struct graph_cache *g = &b->g->caches[cache];
    const struct device_cache *c = &b->m->caches[cache];
    const struct device_cache_part part = device_cache_part(b->m, cache, spilled);
    uint32_t left = part.units, first = spilled ? (g->n_layers - c->spilled_layers) * g->units : 0;
    for (uint32_t slice = part.first; slice < part.end; slice++) {
        const uint32_t here = ARITH_MIN(left, c->units_per_slice);
        struct launch *l = launch_add(b, LAUNCH_MOVE, 0, OPENCL_GROUP,
                                      arith_ceil_div(g->bytes, OPENCL_FILL_PART) * here * b->m->moves.pieces);
        l->args[0].buffer.arena = DEVICE_PINNED; /* its descriptor is not the step's */
        l->args[0].buffer.offset = moves;
        launch_put_move(b, l,
                        &(struct launch_move_arguments){
                            .kv = {DEVICE_KV, slice, 0},
                            .buffer = {DEVICE_MOVED, 0, device_moves_at(&b->m->moves, buffer)},
                            .units = here,
                            .first = first,
                            .layer_units = g->units,
                            .unit_bytes = c->unit_bytes,
                            .block_stride = g->bytes,
                            .cache = cache,
                        });
        left -= here;
        first += here;
    }
    CHECK(left == 0);
}

void launch_moves(const struct device_model *m, const struct launch_traits *t, uint32_t buffer,
                  uint64_t moves, struct launch *out, uint32_t *n) {
    struct launch_list b = {.m = m, .g = m->graph, .traits = t, .rows = 1, .out = out};
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        /* A buffer of blocks is for the caches that have blocks of tokens, the others for those that have
         * none. */
        if ((m->graph->caches[i].kind == GRAPH_PAGED) != (buffer < m->moves.blocks))
            continue;
        move_part(&b, i, false, buffer, moves);
        move_part(&b, i, true, buffer, moves);
    }
    *n = b.n;
}

void launch_rows(struct launch_list *b, uint32_t op, struct launch_at x, uint32_t stride, float scale,
                 uint32_t pictures) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_weight *w = &b->g->weights[o->weight[0]];
    CHECK(w->packed && w->n_pieces > 0);
    for (uint32_t i = 0; i < w->n_pieces; i++) {
        const struct graph_piece *p = &w->pieces[i];
        struct launch *l = launch_add(b, LAUNCH_EMBED, op, OPENCL_GROUP, b->rows);
        launch_put_embed(
            b, l,
            &(struct launch_embed_arguments){
                .piece = {DEVICE_WEIGHTS, p->slice, p->offset},
                .pictures = pictures != GRAPH_NONE ? launch_floats(b, pictures) : launch_nowhere(),
                .pictures_width = pictures != GRAPH_NONE ? b->g->values[pictures].width : 0,
                .x = x,
                .type = w->layout.type,
                .file = w->layout.file,
                .width = w->layout.cols,
                .stride = stride,
                .first_panel = p->first_panel + (w->cut ? w->runs.first / PANEL_ROWS : 0),
                .panels = p->panels,
                .scale = scale,
            });
    }
}

static stator_status add_embed(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    launch_rows(b, op, launch_floats(b, o->out), b->g->values[o->out].width, o->scale, o->work);
    return STATOR_OK;
}

uint32_t launch_norm_part(const struct launch_list *b, uint64_t rows, uint32_t width) {
    const uint32_t row = (uint32_t)arith_round_up(width, 256);
    uint32_t part = 256;
    while (part < row && rows * arith_ceil_div(row, part) > groups_at_once(b->traits, OPENCL_GROUP))
        part *= 2;
    return ARITH_MIN(part, row);
}

static stator_status add_norm(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    if (op > 0 && o[-1].kind == GRAPH_EXCHANGED && o[-1].exchanged.norms)
        return STATOR_OK; /* launched with it */
    if (o->norm.centred)
        return launch_layer_norm(b, op);
    if (o->norm.apart)
        return launch_streams_norm(b, op);
    const bool wanted = o->wanted || op >= b->g->tail;
    const struct graph_value *out = &b->g->values[o->out];
    bool gather = o->kind == GRAPH_GATHER_NORM;
    CHECK(o->in != o->out);
    const uint32_t apart = ARITH_MAX(o->norm.parts, 1u), width = out->width / apart;
    const uint64_t rows = (uint64_t)b->rows * apart;
    const uint32_t part = launch_norm_part(b, rows, width);
    struct launch *l = launch_add(b, LAUNCH_NORM, op, OPENCL_GROUP, rows * arith_ceil_div(width, part));
    CHECK(apart == 1 || out->forms == GRAPH_F32);
    launch_put_norm(b, l,
                    &(struct launch_norm_arguments){
                        .x = launch_floats(b, o->in),
                        .weighs = o->n_weights > 0,
                        .weight = launch_plain_weight(b, o->n_weights > 0 ? o->weight[0] : GRAPH_NONE),
                        .scale = launch_plain_weight(b, o->n_weights > 1 ? o->weight[1] : GRAPH_NONE),
                        .scaled = o->n_weights > 1,
                        .out = launch_forms_of(b, o->out, out->forms),
                        .gather = gather   ? OPENCL_ROWS_GATHER
                                  : wanted ? OPENCL_ROWS_WANTED
                                           : OPENCL_ROWS_ALL,
                        .pairs = gather && !(out->forms & GRAPH_F32),
                        .adds = o->epilogue == GRAPH_RESIDUAL,
                        .apart = apart,
                        .part = part,
                        .inv_n = o->norm.inv_width,
                        .eps = o->norm.eps,
                        .tile = OPENCL_NORM_CHUNK * sizeof(float),
                        .lane = 128 * sizeof(float),
                        .work = OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t),
                    });
    return STATOR_OK;
}

static stator_status add_center(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    CHECK(o->in == o->out);
    launch_put_center(b, launch_add(b, LAUNCH_CENTER, op, OPENCL_GROUP, b->rows),
                      &(struct launch_center_arguments){.x = launch_floats(b, o->out),
                                                        .width = b->g->values[o->out].width,
                                                        .inv_n = o->norm.inv_width,
                                                        .lane = 128 * sizeof(float)});
    return STATOR_OK;
}

static stator_status add_forms(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    CHECK(o->in != o->out);
    const uint32_t part = launch_norm_part(b, b->rows, out->width);
    struct launch *l =
        launch_add(b, LAUNCH_FORMS, op, OPENCL_GROUP, b->rows * arith_ceil_div(out->width, part));
    launch_put_forms(b, l,
                     &(struct launch_forms_arguments){
                         .x = launch_floats(b, o->in),
                         .out = launch_forms_of(b, o->out, out->forms),
                         .part = part,
                         .tile = OPENCL_NORM_CHUNK * sizeof(float),
                         .work = OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t),
                     });
    return STATOR_OK;
}

/* As the kernels take it: of latent attention they share K between the heads of a group, which are as many as
 * they have rows for, or fewer. */
static struct graph_attention attention_on(const struct graph_op *o) {
    static const uint32_t sizes[] = {8, 4, 7, 6, 5, 3, 2, 1};
    struct graph_attention a = o->attention;
    for (uint32_t i = 0; a.latent && i < sizeof sizes / sizeof sizes[0]; i++)
        if (a.heads % sizes[i] == 0) {
            a.kv_heads = a.heads / sizes[i];
            break;
        }
    return a;
}

/* KV heads whose outputs one group writes: so many that the int8 groups of 256 are whole. */
static uint32_t heads_together(const struct graph_attention *a, uint32_t forms) {
    uint32_t heads = 1;
    if (forms & GRAPH_I8_256)
        while (heads * (a->heads / a->kv_heads) * a->dim_v % 256 != 0)
            heads++;
    return heads;
}

static uint32_t splits_of(const struct step_chunk *c) {
    return (uint32_t)arith_ceil_div((uint64_t)c->position + c->n, KERNELS_SPLIT);
}

static uint64_t cells_of(const struct step_chunk *c) {
    return (uint64_t)c->n * splits_of(c);
}

/* The first; NULL: there is none. */
static const struct graph_op *attention_of(const struct graph *g) {
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_ATTENTION)
            return &g->ops[i];
    return NULL;
}

static uint64_t attention_local(const struct graph_attention *a, const struct graph_cache *kv) {
    const uint64_t row = 256 + 128 + 4 + (uint64_t)a->dim_k + a->dim_v;
    uint64_t floats = OPENCL_ATTENTION_ROWS * row;
    if (kernels_kv_group(kv->type_v) > 1)
        floats += OPENCL_ATTENTION_ROWS * OPENCL_TOPS(a->dim_v) +
                  (a->latent ? OPENCL_LARGEST(a->dim_v) : OPENCL_WEIGHTS);
    return floats * sizeof(float);
}

static uint64_t tile_local(const struct graph_attention *a, const struct graph_cache *kv, uint64_t rows) {
    return sizeof(float) * (kv->type_k == KERNELS_KV_Q8_0 ? OPENCL_TILE_Q8_FLOATS(a->dim_k, a->dim_v)
                                                          : OPENCL_TILE_FLOATS(rows, a->dim_k));
}

/* Rows of a tile of many queries; 0: the op has no kernel for them. */
static uint32_t tile_rows(const struct graph *g, const struct launch_traits *t, const struct graph_op *o) {
    const struct graph_attention *a = &o->attention;
    const struct graph_cache *kv = &g->caches[o->cache];
    if (a->cap != 0 || a->latent || a->both) /* tiles need all registers: they know none of these */
        return 0;
    if (kv->type_k != kv->type_v || kv->type_k > KERNELS_KV_Q8_0 || a->dim_k % 4 != 0 || a->dim_v % 4 != 0 ||
        !(t->sub_group_sizes & (1u << 3 | 1u << 4)))
        return 0;
    const bool q8 = kv->type_k == KERNELS_KV_Q8_0;
    for (uint32_t rows = q8 ? OPENCL_TILE_Q8 : 64; rows >= 32 && (a->dim_v <= 128 || q8); rows /= 2)
        if (tile_local(a, kv, rows) <= t->local_bytes)
            return rows;
    return 0;
}

/* Of all ops together, in queries; 0: some op has no kernel for them. */
static uint32_t tile_queries(const struct graph *g, const struct launch_traits *t) {
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        if (g->ops[i].kind != GRAPH_ATTENTION)
            continue;
        const struct graph_attention at = attention_on(&g->ops[i]), *a = &at;
        const uint32_t rows = tile_rows(g, t, &g->ops[i]);
        least = ARITH_MIN(least, rows > 0 ? ARITH_MAX(rows / (a->heads / a->kv_heads), 1u) : 0);
    }
    return least != UINT32_MAX ? least : 0;
}

/* Whether some op leaves out tokens that a query of the chunk could see. */
static bool leaves_out(const struct graph *g, const struct step_chunk *c) {
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_ATTENTION &&
            graph_attention_sees(&g->ops[i].attention, c->position + c->n - 1) < c->position + c->n)
            return true;
    return false;
}

/* Whether a picture's tokens see each other in some op. */
static bool sees_pictures(const struct graph *g) {
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_ATTENTION && g->ops[i].attention.pictures)
            return true;
    return false;
}

void launch_cut(const struct device_model *m, const struct launch_traits *t, uint32_t rows,
                struct step_header *h) {
    const struct graph_op *o = attention_of(m->graph);
    h->n_items = 0;
    if (o == NULL)
        return;
    const struct graph_attention at = attention_on(o), *a = &at;
    const uint32_t group = a->heads / a->kv_heads;
    const uint32_t tile_of = rows > LAUNCH_FEW ? tile_queries(m->graph, t) : 0;
    const uint32_t tile = tile_of > 0 ? tile_rows(m->graph, t, o) : 0;
    uint32_t most = ARITH_MAX(OPENCL_ATTENTION_ROWS / group, 1u);
    uint32_t enough = groups_at_once(t, tile > 0 ? OPENCL_GROUP : OPENCL_ATTENTION_GROUP);
    struct step_chunk *chunks = (struct step_chunk *)((uint8_t *)h + h->at_chunks);
    const int32_t *tokens = (const int32_t *)(const void *)((const uint8_t *)h + h->at_tokens);
    const bool pictures = sees_pictures(m->graph);
    uint64_t cells = a->both ? 0 : m->graph->want.cells, taken = 0;
    uint64_t spare = cells; /* what the chunks of few queries leave to the others */
    for (uint32_t i = 0; i < h->n_chunks; i++)
        if (chunks[i].n <= OPENCL_SPLIT_QUERIES)
            spare -= ARITH_MIN(spare, cells_of(&chunks[i]));
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        struct step_chunk *c = &chunks[i];
        bool few = c->n <= OPENCL_SPLIT_QUERIES;
        const bool picture = pictures && graph_is_picture(tokens[c->first]); /* neither tiles nor splits */
        c->item = h->n_items;
        c->cell = (uint32_t)taken;
        c->queries = rows <= LAUNCH_FEW ? 1 : most;
        c->splits = 0;
        c->tiled = 0;
        /* At least half of a tile, and tiles for a sixteenth of the device: they are that much faster. */
        uint64_t tiles = arith_ceil_div((uint64_t)c->n * group, ARITH_MAX(tile, 1u)) * a->kv_heads;
        if (tile > 0 && !picture && 2 * (uint64_t)c->n * group >= tile && 16 * tiles >= enough &&
            !leaves_out(m->graph, c)) {
            c->tiled = 1;
            c->queries = tile_of;
        }
        uint64_t want = cells_of(c);
        bool idle = arith_ceil_div(c->n, c->queries) * a->kv_heads < enough;
        if (!c->tiled && !picture && want > c->n && want <= (few ? cells - taken : spare) && (few || idle)) {
            c->queries = most;
            c->splits = splits_of(c);
            taken += want;
            spare -= few ? 0 : want;
        }
        CHECK(c->queries > 0 && taken <= cells);
        h->n_items += (uint32_t)arith_ceil_div(c->n, c->queries) * ARITH_MAX(c->splits, 1u);
    }
}

static stator_status add_attention(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *in = &b->g->values[o->in], *out = &b->g->values[o->out];
    const struct graph_attention at = attention_on(o), *a = &at;
    uint32_t group = a->heads / a->kv_heads;
    uint32_t heads = heads_together(a, out->forms);
    CHECK(a->kv_heads % heads == 0);
    uint32_t cells = o->work != GRAPH_NONE && !a->windows ? b->g->values[o->work].rows : 0;
    /* A chunk's last queries may be fewer than a tile, so tiles are at most as many as tokens. */
    const struct graph_cache *kv = &b->g->caches[o->cache];
    uint64_t splits =
        arith_ceil_div((uint64_t)b->m->caches[o->cache].per_sequence * KERNELS_KV_BLOCK, KERNELS_SPLIT);
    uint64_t items = (uint64_t)b->rows * a->kv_heads;
    uint64_t parallel = cells > 0 ? items * splits : 0;
    const bool eight = (b->traits->sub_group_sizes & 1u << 3) != 0;
    CHECK(!a->latent || kv->type_k == kv->type_v);
    const uint32_t to_both = eight ? LAUNCH_BOTH8 : LAUNCH_BOTH;
    const uint32_t first = a->latent ? (eight ? LAUNCH_LATENT8 : LAUNCH_LATENT)
                           : a->both ? to_both
                                     : (eight ? LAUNCH_ATTENTION8 : LAUNCH_ATTENTION);
    const uint32_t types = kv->type_k == kv->type_v ? kv->type_k : (uint32_t)KERNELS_KV_TYPES;
    const uint32_t kernel = first + types;
    CHECK(!a->pictures || (!a->latent && !a->both));
    CHECK(a->ratio == 0 || (!a->pictures && !a->latent && !a->both && a->skip == 0 && kv->window == 0));
    const uint32_t tile = b->rows > LAUNCH_FEW ? tile_rows(b->g, b->traits, o) : 0;
    /* Of the splits that a context may have, a step mostly sees few: for them no more groups than run at
     * once, which go round for the rest. A group without work costs its launch; so where most chunks have
     * tiles. */
    const uint64_t enough = groups_at_once(b->traits, OPENCL_ATTENTION_GROUP);
    const uint64_t groups = tile > 0 ? ARITH_MIN(ARITH_MAX(items, parallel), enough)
                                     : ARITH_MAX(items, ARITH_MIN(parallel, enough));
    struct launch *l = launch_add(b, kernel, op, OPENCL_ATTENTION_GROUP, groups);
    struct launch_attention_arguments args = {
        .q = launch_floats(b, o->in),
        .q_width = in->width,
        .out = launch_forms_of(b, o->out, out->forms),
        .group = group,
        .head_k = a->dim_k,
        .head_v = a->dim_v,
        .scale = a->scale,
        .cap = a->cap,
        .cap_inverse = a->cap != 0 ? 1.0f / a->cap : 0,
        .n_kv_heads = a->kv_heads,
        .heads = heads,
        .window = kv->window,
        .skip = a->skip,
        .sinks = launch_plain_weight(b, o->n_weights > 0 ? o->weight[0] : GRAPH_NONE),
        .has_sinks = o->n_weights > 0,
        .windows = a->windows ? launch_floats(b, o->work) : launch_nowhere(),
        .has_windows = a->windows,
        .pictures = a->pictures,
        .lists = a->ratio > 0 ? launch_floats(b, a->chosen) : launch_nowhere(),
        .list_width = a->ratio > 0 ? b->g->values[a->chosen].width : 0,
        .ratio = a->ratio,
        .keep = a->keep,
        .cells = cells > 0 ? launch_floats(b, o->work) : launch_nowhere(),
        .arrivals = cells > 0 ? launch_floats(b, a->arrivals) : launch_nowhere(),
        .n_cells = cells,
        .whole = attention_local(a, kv),
    };
    stator_status st = launch_cache_of(b, o, &args.kv);
    if (st != STATOR_OK)
        return st;
    launch_put_attention(b, l, &args);
    if (a->pictures && b->rows > 1) /* a picture's last token sees what it would in a text */
        launch_put_attention(b, launch_add(b, to_both + types, op, OPENCL_ATTENTION_GROUP, items), &args);
    if (a->ratio > 0) /* the chunks of which some token does not see all */
        launch_put_attention(b,
                             launch_add(b, (eight ? LAUNCH_CHOSEN8 : LAUNCH_CHOSEN) + types, op,
                                        OPENCL_ATTENTION_GROUP, groups),
                             &args);
    if (tile == 0)
        return STATOR_OK;
    const uint32_t tiles = kv->type_k == KERNELS_KV_Q8_0
                               ? (uint32_t)LAUNCH_TILES_Q8(b->traits->dpas, eight)
                               : (uint32_t)LAUNCH_TILES_OF(tile == 32, kv->type_k, eight);
    args.whole = ARITH_MAX(args.whole, tile_local(a, kv, tile)); /* the int8 forms take the former */
    launch_put_attention(b, launch_add(b, tiles, op, OPENCL_GROUP, items), &args);
    return STATOR_OK;
}

static stator_status add_softcap(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const uint32_t vocab = b->g->values[o->out].width;
    struct launch *l = launch_add(b, LAUNCH_SOFTCAP, op, OPENCL_GROUP,
                                  arith_ceil_div((uint64_t)b->rows * vocab, OPENCL_GROUP));
    launch_put_softcap(b, l,
                       &(struct launch_softcap_arguments){
                           .logits = launch_floats(b, o->out),
                           .vocab = vocab,
                           .cap = o->cap,
                           .inverse = 1.0f / o->cap,
                       });
    return STATOR_OK;
}

static stator_status add_argmax(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const uint32_t parts = GRAPH_ARGMAX_PARTS;
    launch_put_argmax_parts(b,
                            launch_add(b, LAUNCH_ARGMAX_PARTS, op, OPENCL_GROUP, (uint64_t)b->rows * parts),
                            &(struct launch_argmax_parts_arguments){.logits = launch_floats(b, o->in),
                                                                    .parts = launch_floats(b, o->work),
                                                                    .n_parts = parts,
                                                                    .vocab = b->g->values[o->in].width});
    launch_put_argmax(b, launch_add(b, LAUNCH_ARGMAX, op, OPENCL_GROUP, b->rows),
                      &(struct launch_argmax_arguments){.parts = launch_floats(b, o->work),
                                                        .picks = launch_floats(b, o->out),
                                                        .n_parts = parts});
    return STATOR_OK;
}

/* The next op after `op` that reads or writes `value`; n_ops: none. */
static uint32_t next_touch(const struct graph *g, uint32_t op, uint32_t value) {
    do
        op++;
    while (op < g->n_ops && !graph_op_reads(&g->ops[op], value) && !graph_op_writes(&g->ops[op], value));
    return op;
}

/* A product whose heads are rotated where they lie, before anything else sees them, is one launch with that:
 * the op that does it, or n_ops. What is rotated and stored earlier for it, no op in between looks at. */
static uint32_t rope_of(const struct graph *g, uint32_t matmul) {
    uint32_t rope = next_touch(g, matmul, g->ops[matmul].out);
    if (rope == g->n_ops || g->ops[rope].kind != GRAPH_ROPE_STORE || g->ops[rope].rope.wide ||
        g->ops[rope].rope.late || g->ops[rope].rope.halves || g->ops[rope].rope.latent > 0 ||
        g->ops[rope].in != g->ops[matmul].out ||
        g->ops[matmul].n_weights !=
            (g->ops[rope].rope.kv_heads == 0 ? 1 : 3)) /* one matrix gives q, k and v */
        return g->n_ops;
    for (uint32_t i = matmul + 1; i < rope; i++)
        if (g->ops[i].cache == g->ops[rope].cache && g->ops[i].layer == g->ops[rope].layer)
            return g->n_ops;
    return rope;
}

bool launch_is_heads(const struct launch_list *b, uint32_t op) {
    return rope_of(b->g, op) < b->g->n_ops;
}

static stator_status add_matmul(struct launch_list *b, uint32_t op) {
    const uint32_t rope = rope_of(b->g, op);
    if (rope == b->g->n_ops && launch_is_router(b, op))
        return launch_router(b, op);
    return rope < b->g->n_ops ? launch_heads(b, op, rope) : launch_matmul(b, op);
}

/* Heads that their product does not finish, because norms of all heads together need all heads, or because
 * something stands between. plain: they are rotated and stored alone. */
static stator_status add_wide(struct launch_list *b, uint32_t op, bool plain) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_rope *r = &o->rope;
    CHECK(!plain || !r->norm_v);
    CHECK(!r->halves || (r->neox && r->n_rot % 4 == 0));
    CHECK(r->angles_q == GRAPH_NONE && r->dim_k <= OPENCL_NORM_CHUNK && r->dim_v <= OPENCL_NORM_CHUNK);
    struct launch *l = launch_add(b, LAUNCH_WIDE, op, OPENCL_GROUP, 3 * (uint64_t)b->rows);
    struct launch_wide_arguments args = {
        .x = launch_floats(b, o->in),
        .width = b->g->values[o->in].width,
        .n_heads = r->heads,
        .n_kv_heads = r->kv_heads,
        .head_k = r->dim_k,
        .head_v = r->dim_v,
        .n_rot = r->n_rot,
        .rotation = launch_rotation(b, r, r->angles),
        .q_norm = launch_plain_weight(b, plain ? GRAPH_NONE : o->weight[0]),
        .k_norm = launch_plain_weight(b, plain ? GRAPH_NONE : o->weight[1]),
        .inv_q = r->norm.inv_width,
        .inv_k = r->wide ? r->norm_k.inv_width : r->norm.inv_width,
        .eps = r->norm.eps,
        .late = plain     ? OPENCL_WIDE_PLAIN
                : r->late ? OPENCL_WIDE_LATE
                : r->wide ? OPENCL_WIDE_EARLY
                          : OPENCL_WIDE_HEADS,
        .normed_v = r->norm_v,
        .halves = r->halves,
        .tile = OPENCL_NORM_CHUNK * sizeof(float),
        .lane = 8 * 128 * sizeof(float), /* CL_HEADS_AT_ONCE */
    };
    stator_status st = launch_cache_of(b, o, &args.kv);
    if (st == STATOR_OK)
        launch_put_wide(b, l, &args);
    return st;
}

static stator_status add_latent(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_rope *r = &o->rope;
    const uint32_t q_width = b->g->values[o->work].width;
    const uint32_t of_q = r->angles_q != GRAPH_NONE ? r->angles_q : r->angles;
    struct launch *l = launch_add(b, LAUNCH_LATENT_STORE, op, OPENCL_GROUP, 2 * (uint64_t)b->rows);
    struct launch_latent_arguments args = {
        .x = launch_floats(b, o->in),
        .width = b->g->values[o->in].width,
        .q = launch_floats(b, o->work),
        .q_width = q_width,
        .head_q = q_width / r->heads,
        .n_heads = r->heads,
        .head_k = r->dim_k,
        .latent = r->latent,
        .n_rot = r->n_rot,
        .rotation_q = launch_rotation(b, r, of_q),
        .rotation = launch_rotation(b, r, r->angles),
        .k_norm = launch_plain_weight(b, o->weight[0]),
        .inv_k = r->norm_k.inv_width,
        .eps = r->norm_k.eps,
        .tile = r->dim_k * sizeof(float),
        .lane = 8 * 128 * sizeof(float), /* CL_HEADS_AT_ONCE */
    };
    stator_status st = launch_cache_of(b, o, &args.kv);
    if (st == STATOR_OK)
        launch_put_latent(b, l, &args);
    return st;
}

/* It was launched with its product. */
static stator_status add_rope_store(struct launch_list *b, uint32_t op) {
    const struct graph *g = b->g;
    if (g->ops[op].rope.latent > 0)
        return add_latent(b, op);
    if (g->ops[op].rope.wide || g->ops[op].rope.late)
        return add_wide(b, op, false);
    for (uint32_t i = 0; i < op; i++)
        if (g->ops[i].kind == GRAPH_MATMUL && g->ops[i].out == g->ops[op].in && rope_of(g, i) == op)
            return STATOR_OK;
    return add_wide(b, op, g->ops[op].n_weights == 0);
}

/* By kind. Copies are not launches: the back end makes them. */
static stator_status (*const add_op[GRAPH_KINDS])(struct launch_list *b, uint32_t op) = {
    [GRAPH_FILL] = add_fill,
    [GRAPH_EMBED] = add_embed,
    [GRAPH_NORM] = add_norm,
    [GRAPH_MATMUL] = add_matmul,
    [GRAPH_HEADS] = launch_each,
    [GRAPH_ROPE_STORE] = add_rope_store,
    [GRAPH_ATTENTION] = add_attention,
    [GRAPH_GATHER_NORM] = add_norm,
    [GRAPH_ARGMAX] = add_argmax,
    [GRAPH_INDEX] = launch_index,
    [GRAPH_CHOOSE] = launch_choose,
    [GRAPH_CONV] = launch_conv,
    [GRAPH_DELTA] = launch_delta,
    [GRAPH_GATE] = launch_gate,
    [GRAPH_ROUTE] = launch_route,
    [GRAPH_EXPERTS] = launch_experts,
    [GRAPH_PAIR] = launch_pair,
    [GRAPH_KEEP] = launch_keep,
    [GRAPH_FORMS] = add_forms,
    [GRAPH_EXCHANGED] = launch_exchange,
    [GRAPH_SOFTCAP] = add_softcap,
    [GRAPH_GATED_CONV] = launch_gated_conv,
    [GRAPH_NGRAM_GATE] = launch_ngram_gate,
    [GRAPH_NGRAM_CONV] = launch_ngram_conv,
    [GRAPH_CENTER] = add_center,
    [GRAPH_GELU] = launch_gelu,
    [GRAPH_SILU] = launch_silu,
    [GRAPH_MIX] = launch_streams_mix,
    [GRAPH_INJECT] = launch_streams_add,
    [GRAPH_MERGE] = launch_merge,
    [GRAPH_SPREAD] = launch_spread,
    [GRAPH_BLEND] = launch_blend,
    [GRAPH_PROJECT] = launch_project,
    [GRAPH_FEATURES] = launch_features,
};

void launch_range(const struct graph *g, enum launch_part part, uint32_t *begin, uint32_t *end) {
    const uint32_t ranges[][2] = {[LAUNCH_BODY] = {0, g->tail},
                                  [LAUNCH_TAIL] = {g->tail, g->guess},
                                  [LAUNCH_BLOCK] = {g->nextn, g->nextn_end},
                                  [LAUNCH_GUESS] = {g->guess, g->n_ops}};
    *begin = ranges[part][0];
    *end = ranges[part][1];
    CHECK(*begin <= *end && *end <= g->n_ops);
}

stator_status launch_build(const struct device_model *m, const struct launch_traits *t, enum launch_part part,
                           uint32_t rows, struct launch *out, uint32_t *n, stator_error *e) {
    CHECK(rows > 0);
    if (t->max_group < OPENCL_GROUP)
        return error_set(e, STATOR_DEVICE, "the kernels need groups of %d work items, the device has %u",
                         OPENCL_GROUP, t->max_group);
    struct launch_list b = {.m = m,
                            .g = m->graph,
                            .traits = t,
                            .rows = rows,
                            .streams = launch_streams(m, part, rows),
                            .out = out,
                            .e = e};
    uint32_t op = 0;
    uint32_t end = 0;
    launch_range(b.g, part, &op, &end);
    for (; op < end; op++) {
        enum graph_kind kind = m->graph->ops[op].kind;
        if (kind == GRAPH_LAND || kind == GRAPH_SEND)
            continue;
        if (add_op[kind] == NULL)
            return error_set(e, STATOR_DEVICE, "there is no GPU kernel for '%s': take devices.use = \"cpu\"",
                             graph_kind_info(kind)->name);
        stator_status st = add_op[kind](&b, op);
        if (st != STATOR_OK)
            return st;
    }
    if (b.local_needed > t->local_bytes)
        return error_set(
            e, STATOR_DEVICE,
            "a kernel needs %llu bytes of local memory for this model's shape, the device has %u",
            (unsigned long long)b.local_needed, t->local_bytes);
    *n = b.n;
    return STATOR_OK;
}
