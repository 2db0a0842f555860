/* From ops to launches: what belongs to every op. Matmul and what follows it are in launch_matmul.c. No
 * state. */
#include "device/launch/launch_parts.h"

#include "kernels/kernels.h"
#include "kernels/shared/opencl.h"

#include <string.h>

_Static_assert(OPENCL_SPLIT == KERNELS_SPLIT, "the numerics are one");
/* attention.cl makes so many values int8 at a time, with what is left of its local memory. */
_Static_assert(OPENCL_QUANTISE_WORDS(OPENCL_ATTENTION_ROWS *OPENCL_SPLIT) <=
                   OPENCL_ATTENTION_ROWS * (128 + 4),
               "attention's local memory");

uint32_t launch_buckets(uint32_t most, uint32_t bounds[LAUNCH_BUCKETS]) {
    CHECK(most > 0);
    static const uint32_t fixed[] = {1, 4, 16, 64};
    uint32_t n = 0;
    for (uint32_t i = 0; i < sizeof fixed / sizeof fixed[0] && fixed[i] < most; i++)
        bounds[n++] = fixed[i];
    bounds[n++] = most;
    return n;
}

/* Groups of `group` items that the device runs at once. */
static uint32_t groups_at_once(const struct launch_traits *t, uint32_t group) {
    return (uint32_t)ARITH_MAX((uint64_t)t->threads * 16 / group, (uint64_t)1);
}

struct launch *launch_add(struct launch_list *b, uint32_t kernel, uint32_t op, uint32_t group,
                          uint64_t items) {
    /* Enough groups for four times what the device runs at once: groups walk the rest of their work. */
    uint64_t most = 4ull * groups_at_once(b->traits, group);
    struct launch *l = b->out != NULL ? &b->out[b->n] : &b->dropped;
    b->n++;
    l->kernel = kernel;
    l->op = op;
    l->group = group;
    l->groups = (uint32_t)ARITH_MAX(ARITH_MIN(items, most), (uint64_t)1);
    l->n_args = 0;
    launch_buffer(l, DEVICE_EXCHANGE, 0, 0);
    return l;
}

static struct launch_arg *next_arg(struct launch *l, enum launch_arg_kind kind) {
    CHECK(l->n_args < LAUNCH_MAX_ARGS);
    struct launch_arg *a = &l->args[l->n_args++];
    memset(a, 0, sizeof *a);
    a->kind = kind;
    return a;
}

void launch_buffer(struct launch *l, enum device_arena arena, uint32_t slice, uint64_t offset) {
    struct launch_arg *a = next_arg(l, LAUNCH_BUFFER);
    a->buffer.arena = arena;
    a->buffer.slice = slice;
    a->buffer.offset = offset;
}

void launch_no_buffer(struct launch *l) {
    launch_buffer(l, DEVICE_EXCHANGE, 0, 0);
}

void launch_u32(struct launch *l, uint64_t v) {
    CHECK(v <= UINT32_MAX);
    next_arg(l, LAUNCH_U32)->u32 = (uint32_t)v;
}

void launch_f32(struct launch *l, float v) {
    next_arg(l, LAUNCH_F32)->f32 = v;
}

void launch_local(struct launch_list *b, struct launch *l, uint64_t bytes) {
    launch_u32(l, arith_round_up(bytes, 64));
    l->args[l->n_args - 1].kind = LAUNCH_LOCAL;
    uint64_t all = 0;
    for (uint32_t i = 0; i < l->n_args; i++)
        all += l->args[i].kind == LAUNCH_LOCAL ? l->args[i].u32 : 0;
    b->local_needed = ARITH_MAX(b->local_needed, all);
}

static uint64_t value_base(const struct graph_value *v) {
    CHECK(v->halves == 1); /* boundaries make no launch, and a GPU's results have no second half */
    return v->offset;
}

void launch_value(struct launch_list *b, struct launch *l, uint32_t value) {
    const struct graph_value *v = &b->g->values[value];
    launch_buffer(l, v->arena == GRAPH_SCRATCH ? DEVICE_SCRATCH : DEVICE_EXCHANGE, 0, value_base(v));
}

void launch_value_f32(struct launch_list *b, struct launch *l, uint32_t value) {
    const struct graph_value *v = &b->g->values[value];
    CHECK(v->f32 != UINT64_MAX);
    launch_buffer(l, v->arena == GRAPH_SCRATCH ? DEVICE_SCRATCH : DEVICE_EXCHANGE, 0, value_base(v) + v->f32);
}

void launch_forms(struct launch *l, const struct graph_value *v) {
    const uint64_t at[] = {v->f32, v->q32, v->d32, v->s32, v->q256, v->d256, v->s256};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        launch_u32(l, at[i] == UINT64_MAX ? 0 : at[i]);
}

void launch_plain_weight(struct launch_list *b, struct launch *l, uint32_t weight) {
    const struct graph_weight *w = &b->g->weights[weight];
    CHECK(!w->packed && w->n_pieces == 1);
    launch_buffer(l, DEVICE_WEIGHTS, w->pieces[0].slice, w->pieces[0].offset);
}

stator_status launch_cache(struct launch_list *b, struct launch *l, const struct graph_op *o) {
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
    for (uint32_t i = 0; i < OPENCL_KV_SLICES; i++)
        launch_buffer(l, DEVICE_KV, ARITH_MIN(first + i, last), 0);
    launch_u32(l, unit % c->units_per_slice);
    launch_u32(l, c->units_per_slice);
    launch_u32(l, c->unit_bytes);
    launch_u32(l, g->bytes);
    launch_u32(l, g->k_bytes);
    launch_u32(l, OPENCL_CACHE(g->type_k, g->type_v, o->cache));
    return STATOR_OK;
}

static void zero_part(struct launch_list *b, uint32_t op, uint32_t cache, bool spilled) {
    const struct device_cache *c = &b->m->caches[cache];
    struct device_cache_part part = device_cache_part(b->m, cache, spilled);
    uint32_t left = part.units;
    for (uint32_t slice = part.first; slice < part.end; slice++) {
        uint32_t here = ARITH_MIN(left, c->units_per_slice);
        struct launch *l = launch_add(b, LAUNCH_ZERO_KV, op, OPENCL_GROUP, (uint64_t)here * c->n_blocks);
        launch_buffer(l, DEVICE_KV, slice, 0);
        launch_u32(l, here);
        launch_u32(l, c->unit_bytes);
        launch_u32(l, b->g->caches[cache].bytes);
        launch_u32(l, cache);
        left -= here;
    }
}

static stator_status add_zero_kv(struct launch_list *b, uint32_t op) {
    for (uint32_t cache = 0; cache < b->g->n_caches; cache++) {
        zero_part(b, op, cache, false);
        zero_part(b, op, cache, true);
    }
    return STATOR_OK;
}

static stator_status add_embed(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_weight *w = &b->g->weights[o->weight[0]];
    for (uint32_t i = 0; i < w->n_pieces; i++) {
        const struct graph_piece *p = &w->pieces[i];
        struct launch *l = launch_add(b, LAUNCH_EMBED, op, OPENCL_GROUP, b->rows);
        launch_buffer(l, DEVICE_WEIGHTS, p->slice, p->offset);
        launch_value_f32(b, l, o->out);
        launch_u32(l, w->layout.type);
        launch_u32(l, w->layout.cols);
        launch_u32(l, p->first_panel);
        launch_u32(l, p->panels);
        launch_f32(l, o->scale);
    }
    return STATOR_OK;
}

static stator_status add_norm(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    bool gather = o->kind == GRAPH_GATHER_NORM;
    struct launch *l = launch_add(b, LAUNCH_NORM, op, OPENCL_GROUP, b->rows);
    launch_value_f32(b, l, o->in);
    launch_plain_weight(b, l, o->weight[0]);
    launch_value(b, l, o->out);
    launch_u32(l, out->forms);
    launch_forms(l, out);
    launch_u32(l, out->width);
    launch_u32(l, gather);
    launch_u32(l, gather && !(out->forms & GRAPH_F32));
    launch_u32(l, o->epilogue == GRAPH_RESIDUAL);
    launch_f32(l, o->norm.inv_width);
    launch_f32(l, o->norm.eps);
    launch_local(b, l, OPENCL_NORM_CHUNK * sizeof(float));
    launch_local(b, l, 128 * sizeof(float));
    launch_local(b, l, OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t));
    return STATOR_OK;
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

/* The value that is the op's workspace, of so many cells, and the counts beside it. */
static void launch_cell_arguments(struct launch_list *b, struct launch *l, const struct graph_op *o,
                                  uint32_t cells) {
    if (cells == 0) {
        launch_no_buffer(l);
        launch_no_buffer(l);
    } else {
        launch_value_f32(b, l, o->work);
        launch_value_f32(b, l, o->attention.arrivals);
    }
    launch_u32(l, cells);
}

/* All have the same heads (add_attention); NULL: there is none. */
static const struct graph_attention *attention_of(const struct graph *g) {
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_ATTENTION)
            return &g->ops[i].attention;
    return NULL;
}

void launch_cut(const struct device_model *m, const struct launch_traits *t, uint32_t rows,
                struct step_header *h) {
    const struct graph_attention *a = attention_of(m->graph);
    h->n_items = 0;
    if (a == NULL)
        return;
    uint32_t most = ARITH_MAX(OPENCL_ATTENTION_ROWS / (a->heads / a->kv_heads), 1u);
    uint32_t enough = groups_at_once(t, OPENCL_GROUP);
    struct step_chunk *chunks = (struct step_chunk *)((uint8_t *)h + h->at_chunks);
    uint64_t cells = m->graph->want.cells, taken = 0;
    uint64_t spare = cells; /* what the chunks of few queries leave to the others */
    for (uint32_t i = 0; i < h->n_chunks; i++)
        if (chunks[i].n <= OPENCL_SPLIT_QUERIES)
            spare -= ARITH_MIN(spare, cells_of(&chunks[i]));
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        struct step_chunk *c = &chunks[i];
        bool few = c->n <= OPENCL_SPLIT_QUERIES;
        c->item = h->n_items;
        c->cell = (uint32_t)taken;
        c->queries = rows <= LAUNCH_FEW ? 1 : most;
        c->splits = 0;
        uint64_t want = cells_of(c);
        bool idle = arith_ceil_div(c->n, c->queries) * a->kv_heads < enough;
        if (want > c->n && want <= (few ? cells - taken : spare) && (few || idle)) {
            c->queries = most;
            c->splits = splits_of(c);
            taken += want;
            spare -= few ? 0 : want;
        }
        CHECK(c->queries > 0 && taken <= cells);
        h->n_items += (uint32_t)arith_ceil_div(c->n, c->queries) * a->kv_heads * ARITH_MAX(c->splits, 1u);
    }
}

static stator_status add_attention(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *in = &b->g->values[o->in], *out = &b->g->values[o->out];
    const struct graph_attention *a = &o->attention;
    const struct graph_attention *first = attention_of(b->g);
    if (a->heads != first->heads || a->kv_heads != first->kv_heads)
        return error_set(
            b->e, STATOR_DEVICE,
            "layer %u has %u heads on %u KV heads, an earlier one %u on %u: the GPU kernels take "
            "one kind of attention only",
            o->layer, a->heads, a->kv_heads, first->heads, first->kv_heads);
    uint32_t group = a->heads / a->kv_heads;
    uint32_t heads = heads_together(a, out->forms);
    CHECK(a->kv_heads % heads == 0);
    uint32_t cells = o->work != GRAPH_NONE ? b->g->values[o->work].rows : 0;
    /* A chunk's last queries may be fewer than a tile, so tiles are at most as many as tokens. */
    const struct graph_cache *kv = &b->g->caches[o->cache];
    uint64_t splits =
        arith_ceil_div((uint64_t)b->m->caches[o->cache].per_sequence * KERNELS_KV_BLOCK, KERNELS_SPLIT);
    uint64_t items = (uint64_t)b->rows * a->kv_heads;
    uint64_t parallel = cells > 0 ? items * splits : 0;
    uint32_t kernel = LAUNCH_ATTENTION + (kv->type_k == kv->type_v ? kv->type_k : (uint32_t)KERNELS_KV_TYPES);
    /* Of the splits that a context may have, a step mostly sees few: for them no more groups than run at
     * once, which go round for the rest. A group without work costs its launch. */
    uint64_t enough = groups_at_once(b->traits, OPENCL_GROUP);
    struct launch *l = launch_add(b, kernel, op, OPENCL_GROUP, ARITH_MAX(items, ARITH_MIN(parallel, enough)));
    launch_value_f32(b, l, o->in);
    launch_u32(l, in->width);
    launch_value(b, l, o->out);
    launch_u32(l, out->forms);
    launch_u32(l, out->width);
    launch_forms(l, out);
    launch_u32(l, group);
    launch_u32(l, a->dim_k);
    launch_u32(l, a->dim_v);
    launch_f32(l, a->scale);
    stator_status st = launch_cache(b, l, o);
    if (st != STATOR_OK)
        return st;
    launch_u32(l, a->kv_heads);
    launch_u32(l, heads);
    launch_u32(l, kv->window);
    if (o->n_weights > 0)
        launch_plain_weight(b, l, o->weight[0]);
    else
        launch_no_buffer(l);
    launch_u32(l, o->n_weights > 0);
    launch_cell_arguments(b, l, o, cells);
    uint64_t rows = OPENCL_ATTENTION_ROWS;
    launch_local(b, l, rows * (256 + 128 + 4 + a->dim_k + a->dim_v) * sizeof(float));
    return STATOR_OK;
}

static stator_status add_argmax(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    struct launch *l = launch_add(b, LAUNCH_ARGMAX, op, OPENCL_GROUP, b->rows);
    launch_value_f32(b, l, o->in);
    launch_value_f32(b, l, o->out);
    launch_u32(l, b->g->values[o->in].width);
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
    if (rope == g->n_ops || g->ops[rope].kind != GRAPH_ROPE_STORE || g->ops[rope].in != g->ops[matmul].out)
        return g->n_ops;
    for (uint32_t i = matmul + 1; i < rope; i++)
        if (g->ops[i].cache == g->ops[rope].cache && g->ops[i].layer == g->ops[rope].layer)
            return g->n_ops;
    return rope;
}

static stator_status add_matmul(struct launch_list *b, uint32_t op) {
    uint32_t rope = rope_of(b->g, op);
    return rope < b->g->n_ops ? launch_heads(b, op, rope) : launch_matmul(b, op);
}

/* It was launched with its product. */
static stator_status add_rope_store(struct launch_list *b, uint32_t op) {
    const struct graph *g = b->g;
    for (uint32_t i = 0; i < op; i++)
        if (g->ops[i].kind == GRAPH_MATMUL && g->ops[i].out == g->ops[op].in && rope_of(g, i) == op)
            return STATOR_OK;
    return error_set(b->e, STATOR_DEVICE,
                     "layer %u: the GPU kernels rotate and store heads only where a product makes them",
                     g->ops[op].layer);
}

/* By kind. Copies are not launches: the back end makes them. */
static stator_status (*const add_op[GRAPH_KINDS])(struct launch_list *b, uint32_t op) = {
    [GRAPH_ZERO_KV] = add_zero_kv,    [GRAPH_EMBED] = add_embed,           [GRAPH_NORM] = add_norm,
    [GRAPH_MATMUL] = add_matmul,      [GRAPH_ROPE_STORE] = add_rope_store, [GRAPH_ATTENTION] = add_attention,
    [GRAPH_GATHER_NORM] = add_norm,   [GRAPH_ARGMAX] = add_argmax,         [GRAPH_CONV] = launch_conv,
    [GRAPH_DELTA] = launch_delta,     [GRAPH_GATE] = launch_gate,          [GRAPH_ROUTE] = launch_route,
    [GRAPH_EXPERTS] = launch_experts,
};

stator_status launch_build(const struct device_model *m, const struct launch_traits *t, enum launch_part part,
                           uint32_t rows, struct launch *out, uint32_t *n, stator_error *e) {
    CHECK(rows > 0);
    if (t->max_group < OPENCL_GROUP)
        return error_set(e, STATOR_DEVICE, "the kernels need groups of %d work items, the device has %u",
                         OPENCL_GROUP, t->max_group);
    struct launch_list b = {.m = m, .g = m->graph, .traits = t, .rows = rows, .out = out, .e = e};
    uint32_t op = part == LAUNCH_BODY ? 0 : b.g->tail;
    uint32_t end = part == LAUNCH_BODY ? b.g->tail : b.g->n_ops;
    for (; op < end; op++) {
        enum graph_kind kind = m->graph->ops[op].kind;
        if (kind == GRAPH_LAND || kind == GRAPH_SEND)
            continue;
        if (add_op[kind] == NULL)
            return error_set(e, STATOR_DEVICE, "there is no GPU kernel for '%s'",
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
