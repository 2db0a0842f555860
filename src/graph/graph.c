/* Tables of the graph, the forms of values, liveness. */
#include "graph/graph.h"

#include "graph/share.h"
#include "kernels/shared/act_tiles.h"
#include "kernels/shared/experts.h"

#include <stdio.h>
#include <string.h>

/* Upper bounds per layer and outside layers; graph_add_* check them. */
#define OPS_PER_LAYER     8 /* dense */
#define OPS_OUTSIDE       8
#define VALUES_PER_LAYER  8
#define VALUES_OUTSIDE    10
#define WEIGHTS_PER_LAYER 18
#define WEIGHTS_OUTSIDE   8
#define CACHES_PER_LAYER  3
/* Of the MTP head, besides a layer's. */
#define NEXTN_OPS     12
#define NEXTN_VALUES  10
#define NEXTN_WEIGHTS 8
/* More in a layer with experts. */
#define EXPERTS_OPS     6
#define EXPERTS_VALUES  6
#define EXPERTS_WEIGHTS 12
/* More outside layers with hyper-connections: the streams' begin and the last mix. */
#define STREAMS_OPS     6
#define STREAMS_VALUES  6
#define STREAMS_WEIGHTS 3
/* More of an MTP head with hyper-connections: its last mix; and of each stream. */
#define MIXED_OPS     8
#define MIXED_VALUES  8
#define MIXED_WEIGHTS 3
#define STREAM_OPS    2

#define VALUE_ALIGN 64

static uint32_t bound(uint32_t wanted, uint32_t dense) {
    return wanted != 0 ? wanted : dense;
}

void graph_layout(struct graph *g, struct carve *c, const struct shape *s, const struct graph_bounds *layer,
                  uint32_t stages, uint32_t shares) {
    CHECK(stages > 0);
    memset(g, 0, sizeof *g);
    const uint32_t experts = s->experts.count > 0, shared = shares > 0;
    const uint32_t copies = ARITH_MAX(shares, 1u), parts = stages * copies,
                   nextn = s->n_nextn > 0 ? copies : 0;
    const uint32_t streams = s->streams.count > 0, each = s->streams.count;
    const uint32_t layers = (s->n_layers + (s->n_nextn > 0)) * copies;
    g->max_ops = (bound(layer->ops, OPS_PER_LAYER) + experts * EXPERTS_OPS + shared * SHARE_OPS) * layers +
                 (OPS_OUTSIDE + shared * SHARE_OUTSIDE + streams * STREAMS_OPS) * parts +
                 nextn * (NEXTN_OPS + streams * MIXED_OPS + each * (STREAM_OPS + 3 * shared));
    g->max_values =
        (bound(layer->values, VALUES_PER_LAYER) + experts * EXPERTS_VALUES + shared * SHARE_VALUES) * layers +
        (VALUES_OUTSIDE + shared * SHARE_OUTSIDE + streams * STREAMS_VALUES) * parts +
        nextn * (NEXTN_VALUES + streams * MIXED_VALUES + each * (1 + 2 * shared));
    g->max_weights = (bound(layer->weights, WEIGHTS_PER_LAYER) + experts * EXPERTS_WEIGHTS) * layers +
                     (WEIGHTS_OUTSIDE + shared * SHARE_OUTSIDE + streams * STREAMS_WEIGHTS) * parts +
                     nextn * (NEXTN_WEIGHTS + streams * MIXED_WEIGHTS + each) + s->n_factors * copies;
    g->max_cached = CACHES_PER_LAYER * layers + copies; /* n-grams are of one layer */
    g->ops = carve_take(c, g->max_ops, sizeof *g->ops);
    g->values = carve_take(c, g->max_values, sizeof *g->values);
    g->weights = carve_take(c, g->max_weights, sizeof *g->weights);
    g->cached = carve_take(c, g->max_cached, sizeof *g->cached);
}

void graph_layout_rest(struct graph *g, const struct graph *before) {
    memset(g, 0, sizeof *g);
    g->max_ops = before->max_ops - before->n_ops;
    g->max_values = before->max_values - before->n_values;
    g->max_weights = before->max_weights - before->n_weights;
    g->max_cached = before->max_cached - before->n_cached;
    g->ops = before->ops + before->n_ops;
    g->values = before->values + before->n_values;
    g->weights = before->weights + before->n_weights;
    g->cached = before->cached + before->n_cached;
}

static uint64_t take_form(uint64_t *at, uint64_t rows, uint64_t per_row, uint64_t size) {
    uint64_t here = *at;
    uint64_t bytes = arith_must_mul(arith_must_mul(rows, per_row), size);
    *at = arith_round_up(arith_must_add(here, bytes), VALUE_ALIGN);
    return here;
}

/* Sizes and offsets of a value of one half. */
static void lay_value(const struct graph *g, struct graph_value *v, uint32_t width, uint32_t forms) {
    const uint32_t rows = v->rows;
    v->width = width;
    v->forms = forms;
    v->f32 = v->q32 = v->d32 = v->s32 = v->q256 = v->d256 = v->s256 = UINT64_MAX;
    if (g->want.tiled && rows >= ACT_TILE_ROWS)
        v->tile_rows = (uint32_t)arith_round_up(rows, ACT_TILE_PAIR);
    const uint64_t quant_rows = v->tile_rows != 0 ? v->tile_rows : rows;
    uint64_t at = 0;
    if (forms & GRAPH_F32)
        v->f32 = take_form(&at, rows, width, 4);
    if (forms & GRAPH_I8_32) {
        CHECK(width % 32 == 0);
        v->q32 = take_form(&at, quant_rows, width, 1);
        v->d32 = take_form(&at, rows, width / 32, 4);
        v->s32 = take_form(&at, rows, width / 32, 2);
    }
    if (forms & GRAPH_I8_256) {
        CHECK(width % 256 == 0);
        v->q256 = take_form(&at, quant_rows, width, 1);
        v->d256 = take_form(&at, rows, width / 256, 4);
        v->s256 = take_form(&at, rows, width / 16, 2);
    }
    v->halves = 1;
    v->half_bytes = v->bytes = at;
}

uint32_t graph_add_value(struct graph *g, const char *name, enum graph_arena arena, uint32_t rows,
                         uint32_t width, uint32_t forms) {
    CHECK(g->n_values < g->max_values && rows > 0 && width > 0 && forms != 0);
    struct graph_value *v = &g->values[g->n_values];
    memset(v, 0, sizeof *v);
    snprintf(v->name, sizeof v->name, "%s", name);
    v->arena = arena;
    v->rows = rows;
    lay_value(g, v, width, forms);
    v->first = GRAPH_NONE;
    return g->n_values++;
}

void graph_value_resize(struct graph *g, uint32_t value, uint32_t width, uint32_t forms) {
    CHECK(value < g->n_values && g->values[value].halves == 1 && width > 0 && forms != 0);
    lay_value(g, &g->values[value], width, forms);
}

void graph_value_halves(struct graph *g, uint32_t value, uint32_t halves) {
    CHECK(value < g->n_values && halves > 0);
    struct graph_value *v = &g->values[value];
    v->halves = halves;
    v->bytes = arith_must_mul(v->half_bytes, halves);
}

/* Sizes of a weight, by its rows. */
static void lay_weight(struct graph_weight *w) {
    const struct gguf_tensor *t = w->tensor;
    const struct graph_runs *runs = &w->runs;
    uint64_t rows = t->ne[1];
    if (runs->run > 0 && w->packed) {
        CHECK((t->ne[2] == 1 || rows == runs->stride) &&
              (runs->run % PANEL_ROWS == 0 || rows == runs->stride) &&
              runs->first + runs->run <= runs->stride && rows % runs->stride == 0);
        rows = (runs->count > 0 ? runs->count : rows / runs->stride) * runs->run;
    }
    if (w->packed) {
        bool ok = panel_layout_init(&w->layout, t->type, rows, t->ne[0]);
        CHECK(ok); /* shape_read has bounded it */
        w->matrices = (uint32_t)t->ne[2];
        CHECK(w->matrices == t->ne[2] && w->matrices > 0 &&
              arith_must_mul(w->layout.panels, w->matrices) <= UINT32_MAX);
        w->bytes = arith_must_mul(w->layout.bytes, w->matrices);
    } else {
        const uint64_t run = w->runs.run * sizeof(float) * t->ne[1];
        CHECK(t->type == BLOCK_F32 && t->ne[2] == 1);
        w->matrices = 1;
        w->bytes = arith_round_up(run > 0 ? run : t->bytes, PANEL_ALIGN);
    }
}

static bool has_several_ranges(const struct graph_weight *w) {
    return w->packed && w->runs.run > 0 && w->runs.stride < w->tensor->ne[1];
}

uint32_t graph_weight_together(const struct graph_weight *w) {
    return has_several_ranges(w) ? w->runs.run : PANEL_ROWS;
}

void graph_weight_cut(struct graph *g, uint32_t weight, uint32_t first, uint32_t n) {
    struct graph_weight *w = &g->weights[weight];
    const uint32_t all = (uint32_t)(w->packed ? w->tensor->ne[1] : w->tensor->ne[0]);
    CHECK(!w->cut && n > 0 && w->runs.count == 0);
    w->cut = true;
    if (has_several_ranges(w)) {
        CHECK(first % w->runs.run == 0 && n % w->runs.run == 0);
        w->runs.skip = first / w->runs.run;
        w->runs.count = n / w->runs.run;
        CHECK(w->runs.skip + w->runs.count <= all / w->runs.stride);
    } else {
        CHECK(first + n <= (w->runs.run > 0 ? w->runs.run : all));
        w->runs = (struct graph_runs){.first = w->runs.first + first, .run = n, .stride = all};
    }
    lay_weight(w);
}

static uint32_t add_weight(struct graph *g, const struct gguf_tensor *t, struct graph_runs runs,
                           bool packed) {
    for (uint32_t i = 0; i < g->n_weights; i++)
        if (g->weights[i].tensor == t && g->weights[i].packed == packed &&
            g->weights[i].runs.run == runs.run && g->weights[i].runs.first == runs.first)
            return i;
    CHECK(g->n_weights < g->max_weights);
    struct graph_weight *w = &g->weights[g->n_weights];
    memset(w, 0, sizeof *w);
    w->tensor = t;
    w->runs = runs;
    w->packed = packed;
    lay_weight(w);
    return g->n_weights++;
}

uint32_t graph_add_weight(struct graph *g, const struct gguf_tensor *t) {
    return add_weight(g, t, (struct graph_runs){0}, true);
}

uint64_t graph_weight_row(const struct graph_weight *w, uint64_t row, uint64_t *n) {
    const struct graph_runs *r = &w->runs;
    *n = r->run == 0 ? w->layout.rows - row : r->run - row % r->run;
    return r->run == 0 ? row : (row / r->run + r->skip) * r->stride + r->first + row % r->run;
}

/* A plain weight's of each row in the file. */
static uint64_t row_values(const struct graph_weight *w) {
    return ARITH_MIN((uint64_t)w->runs.run, w->tensor->ne[0] - w->runs.first);
}

uint64_t graph_weight_file_bytes(const struct graph_weight *w) {
    if (!w->packed)
        return w->runs.run == 0 ? w->tensor->bytes : row_values(w) * sizeof(float) * w->tensor->ne[1];
    return w->runs.run == 0 ? w->tensor->bytes : w->tensor->bytes / w->tensor->ne[1] * w->layout.rows;
}

uint32_t graph_add_plain(struct graph *g, const struct gguf_tensor *t) {
    return add_weight(g, t, (struct graph_runs){0}, false);
}

uint32_t graph_add_plain_run(struct graph *g, const struct gguf_tensor *t, uint32_t first, uint32_t n) {
    CHECK(t->ne[1] == 1 && first + n <= t->ne[0]);
    return add_weight(g, t, (struct graph_runs){.first = first, .run = n, .stride = (uint32_t)t->ne[0]},
                      false);
}

uint32_t graph_add_plain_padded(struct graph *g, const struct gguf_tensor *t, uint32_t n) {
    CHECK(t->ne[1] == 1 && n >= t->ne[0]);
    return add_weight(g, t, (struct graph_runs){.run = n, .stride = (uint32_t)t->ne[0]}, false);
}

uint32_t graph_weight_panels(const struct graph_weight *w) {
    return w->packed ? w->layout.panels * w->matrices : 1;
}

struct graph_op *graph_add_op(struct graph *g, enum graph_kind kind, uint32_t layer, uint32_t in,
                              uint32_t out) {
    CHECK(g->n_ops < g->max_ops);
    struct graph_op *op = &g->ops[g->n_ops++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->layer = layer;
    op->in = in;
    op->out = out;
    op->work = GRAPH_NONE;
    op->cache = GRAPH_NONE;
    if (kind == GRAPH_ATTENTION)
        op->attention.arrivals = GRAPH_NONE;
    if (kind == GRAPH_EXPERTS)
        op->experts.routes = op->experts.shared = op->experts.gate = GRAPH_NONE;
    for (int i = 0; i < GRAPH_OP_WEIGHTS; i++)
        op->weight[i] = op->bias[i] = op->factor[i] = GRAPH_NONE;
    return op;
}

struct graph_op *graph_add_argmax(struct graph *g) {
    CHECK(g->logits < g->n_values && g->picks < g->n_values);
    struct graph_op *op = graph_add_op(g, GRAPH_ARGMAX, GRAPH_NONE, g->logits, g->picks);
    if (g->want.counted)
        op->work = graph_add_value(g, "argmax_parts", GRAPH_SCRATCH, g->want.logits_rows,
                                   3 * GRAPH_ARGMAX_PARTS, GRAPH_F32);
    return op;
}

static void add_factor(struct graph *g, struct graph_op *op, uint32_t i, const struct gguf_tensor *t) {
    const struct gguf_tensor *factor = gguf_factor(t);
    if (factor == NULL || !graph_kind_info(op->kind)->multiplies)
        return;
    op->factor[i] = graph_add_plain(g, factor);
    g->weights[op->factor[i]].factor = true;
}

/* Only matrices become panels. The extents decide, not the number of dimensions: a file may store a vector
 * with trailing dimensions of 1. Rows that are multiplied with or looked up are a matrix even if there is
 * only one. */
static bool is_matrix(enum graph_kind kind, const struct gguf_tensor *t) {
    return graph_kind_info(kind)->multiplies || kind == GRAPH_EMBED || kind == GRAPH_BLEND || t->ne[1] > 1 ||
           t->ne[2] > 1;
}

void graph_op_weight(struct graph *g, struct graph_op *op, const struct gguf_tensor *t,
                     const struct gguf_tensor *bias, uint32_t column) {
    CHECK(op->n_weights < GRAPH_OP_WEIGHTS && t != NULL);
    uint32_t i = op->n_weights++;
    op->weight[i] = add_weight(g, t, (struct graph_runs){0}, is_matrix(op->kind, t));
    op->bias[i] = bias != NULL ? graph_add_plain(g, bias) : GRAPH_NONE;
    op->column[i] = column;
    add_factor(g, op, i, t);
}

void graph_op_runs(struct graph *g, struct graph_op *op, const struct gguf_tensor *t, struct graph_runs runs,
                   uint32_t column) {
    CHECK(op->n_weights < GRAPH_OP_WEIGHTS);
    uint32_t i = op->n_weights++;
    op->weight[i] = add_weight(g, t, runs, true);
    op->column[i] = column;
    add_factor(g, op, i, t);
}

static bool same_angles(const struct graph_angles *a, const struct graph_angles *b) {
    const struct shape_yarn *x = &a->yarn, *y = &b->yarn;
    return a->n_rot == b->n_rot && a->base == b->base && a->scale == b->scale &&
           a->magnitude == b->magnitude && a->growth == b->growth && x->share == y->share &&
           x->low == y->low && x->width == y->width && a->divisors == b->divisors &&
           a->divisors_long == b->divisors_long && a->original == b->original &&
           memcmp(a->sections, b->sections, sizeof a->sections) == 0 && a->in_order == b->in_order;
}

uint32_t graph_add_angles(struct graph *g, const struct graph_angles *a) {
    for (uint32_t i = 0; i < g->n_angles; i++) {
        if (same_angles(&g->angles[i], a))
            return i;
    }
    CHECK(g->n_angles < GRAPH_MAX_ANGLES && a->n_rot > 0 && a->n_rot % 2 == 0);
    g->angles[g->n_angles] = *a;
    g->angles[g->n_angles].first = graph_angles_stride(g);
    return g->n_angles++;
}

uint32_t graph_angles_stride(const struct graph *g) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < g->n_angles; i++)
        sum += g->angles[i].n_rot;
    return sum;
}

uint32_t graph_form_for(const struct gguf_tensor *t) {
    const uint32_t values = block_info(panel_type(t->type))->values;
    return values == 1 ? GRAPH_F32 : values == 256 ? GRAPH_I8_256 : GRAPH_I8_32;
}

static void touch(struct graph *g, uint32_t value, uint32_t op) {
    if (value == GRAPH_NONE)
        return;
    struct graph_value *v = &g->values[value];
    if (v->first == GRAPH_NONE)
        v->first = op;
    v->end = op + 1;
}

/* A value lives from its first touch to its last one; the builders write before they read. What the tail
 * reads of the body must outlive the whole tail, since the tail may run again. */
static void find_lives(struct graph *g) {
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_kind_info *info = graph_kind_info(g->ops[i].kind);
        for (uint32_t bit = GRAPH_IN; bit < GRAPH_VALUES_END; bit *= 2)
            if ((info->reads | info->writes) & bit)
                touch(g, graph_op_value(&g->ops[i], bit), i);
    }
    for (uint32_t i = 0; i < g->n_values; i++) {
        struct graph_value *v = &g->values[i];
        CHECK(v->first != GRAPH_NONE && v->first < v->end);
        if (v->first < g->tail && v->end > g->tail)
            v->end = g->n_ops;
    }
}

stator_status graph_build(struct graph *g, const struct shape *s, graph_builder *build,
                          const struct graph_want *want, stator_error *e) {
    CHECK(want->batch > 0 && want->logits_rows > 0);
    uint64_t widest = ARITH_MAX(ARITH_MAX((uint64_t)s->n_ff, s->vocab),
                                (uint64_t)s->n_heads * ARITH_MAX(s->head_dim_k, s->window_heads.dim_k) * 3);
    widest = ARITH_MAX(widest, (uint64_t)s->layer_embd * s->n_layers);
    widest = ARITH_MAX(widest, shape_stream_width(s));
    uint64_t rows = ARITH_MAX(want->batch, want->logits_rows);
    uint64_t all = 0;
    if (s->experts.count > 0) { /* values have a row per token and expert that it uses, and some to align */
        widest = ARITH_MAX(widest, ARITH_MAX((uint64_t)s->experts.ff, s->n_embd));
        rows = rows * s->experts.used + (uint64_t)(ACT_TILE_PAIR - 1) * s->experts.count;
        if (2 * EXPERTS_WORDS(rows, rows) > UINT32_MAX)
            return error_set(e, STATOR_DOES_NOT_FIT,
                             "memory.batch = %u: with %u experts for each token a step has too many rows",
                             want->batch, s->experts.used);
    }
    if (!arith_mul(widest * 8, rows, &all) || !arith_mul(all, g->max_values, &all) || all > INT64_MAX)
        return error_set(e, STATOR_DOES_NOT_FIT, "memory.batch = %u with this model is beyond any memory",
                         want->batch);
    g->want = *want;
    if (g->want.end_layer == 0)
        g->want.end_layer = s->n_layers;
    CHECK(g->want.first_layer < g->want.end_layer && g->want.end_layer <= s->n_layers);
    g->want.result_halves = ARITH_MAX(g->want.result_halves, 1u);
    g->logits = g->picks = g->pictures = g->ngrams = g->blends = g->windows = GRAPH_NONE;
    g->landing = g->outgoing = g->zone = g->head_zone = GRAPH_NONE;
    g->shared_head = false;
    g->n_ops = g->n_values = g->n_weights = g->n_angles = g->n_caches = g->n_cached = 0;
    g->width = shape_stream_width(s);
    g->nextn = g->nextn_end = g->guess = 0;
    build(g, s);
    if (g->want.share.count > 0) {
        stator_status st = share_divide(g, s, e);
        if (st != STATOR_OK)
            return st;
    }
    if (g->guess == 0)
        g->guess = g->n_ops;
    find_lives(g);
    return STATOR_OK;
}
