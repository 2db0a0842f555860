/* Products as launches: how rows are cut into units of work, where a weight that lies in several slices is
 * cut, and the arguments of kernels. launch_scheme.h chooses the kernel. No state. */
#include "device/launch/launch_parts.h"
#include "device/launch/launch_scheme.h"

#include "kernels/kernels.h"
#include "kernels/shared/experts.h"
#include "kernels/shared/opencl.h"

/* A run of units whose panels lie, for each weight, in at most two pieces one after the other. */
struct run {
    uint32_t first_unit;
    uint32_t units;
    uint32_t piece[GRAPH_OP_WEIGHTS];
};

/* Panels of weight i that unit u reads; false: none. */
typedef bool panels_of(const void *shape, uint32_t unit, uint32_t i, uint32_t *first, uint32_t *end);

uint32_t launch_piece_of(const struct graph_weight *w, uint32_t panel) {
    uint32_t i = 0;
    while (panel >= w->pieces[i].first_panel + w->pieces[i].panels)
        i++;
    CHECK(i < w->n_pieces);
    return i;
}

/* The longest run from r->first_unit on. False: one unit is cut more than once. */
static bool find_run(const struct launch_list *b, const struct graph_op *o, panels_of *f, const void *shape,
                     uint32_t end_unit, struct run *r) {
    bool known[GRAPH_OP_WEIGHTS] = {false};
    CHECK(r->first_unit < end_unit && o->n_weights <= GRAPH_OP_WEIGHTS);
    r->units = 0;
    for (uint32_t i = 0; i < GRAPH_OP_WEIGHTS; i++)
        r->piece[i] = 0;
    for (uint32_t u = r->first_unit; u < end_unit; u++) {
        for (uint32_t i = 0; i < o->n_weights; i++) {
            const struct graph_weight *w = &b->g->weights[o->weight[i]];
            uint32_t first = 0, end = 0;
            if (!f(shape, u, i, &first, &end))
                continue;
            if (!known[i]) {
                r->piece[i] = launch_piece_of(w, first);
                known[i] = true;
            }
            if (launch_piece_of(w, end - 1) > r->piece[i] + 1)
                return r->units > 0;
        }
        r->units++;
    }
    return true;
}

stator_status launch_cut_too_often(const struct launch_list *b, const struct graph_op *o) {
    const struct gguf_tensor *t = b->g->weights[o->weight[0]].tensor;
    return error_set(b->e, STATOR_DEVICE,
                     "tensor '%.*s' is cut into slices smaller than the kernels' units of work: allow larger "
                     "allocations (max_alloc)",
                     (int)t->name.length, t->name.data);
}

/* What weights of the op have: OPENCL_BIAS, OPENCL_FACTOR. */
uint32_t launch_biased_bits(const struct graph_op *o) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < o->n_weights; i++) {
        bits |= o->bias[i] != GRAPH_NONE ? OPENCL_BIAS(i) : 0;
        bits |= o->factor[i] != GRAPH_NONE ? OPENCL_FACTOR(i) : 0;
    }
    return bits;
}

/* A weight from its piece on. */
struct launch_weight launch_weight_of(const struct launch_list *b, uint32_t weight, uint32_t piece) {
    const struct graph_weight *w = &b->g->weights[weight];
    const struct graph_piece *p = &w->pieces[piece];
    const struct graph_piece *next = piece + 1 < w->n_pieces ? p + 1 : p;
    CHECK(piece < w->n_pieces);
    return (struct launch_weight){
        .a = {DEVICE_WEIGHTS, p->slice, p->offset},
        .b = {DEVICE_WEIGHTS, next->slice, next->offset},
        .first = p->first_panel,
        .cut = p->first_panel + p->panels,
        .type = w->layout.type,
        .file = w->layout.file,
    };
}

/* The forms of a product. Where it is wanted as integers, nothing reads its floats. */
uint32_t launch_forms_wanted(const struct graph_value *v) {
    return v->forms == GRAPH_F32 ? GRAPH_F32 : v->forms & ~(uint32_t)GRAPH_F32;
}

/* Tiles or passes that are dealt out to groups, `together` of which share a unit. */
static uint64_t tiles_of(const struct launch_list *b, const struct graph_op *o, const struct launch_scheme *w,
                         uint32_t together) {
    return w->family >= FEW && together == 1 ? arith_ceil_div(launch_scheme_rows(b, o), w->tokens) : 1;
}

/* Where groups that share a unit are counted, if there is room for n counts; else GRAPH_NONE. */
static uint32_t arrivals_of(const struct launch_list *b, uint64_t n) {
    for (uint32_t i = 0; i < b->g->n_ops; i++) {
        const struct graph_op *o = &b->g->ops[i];
        if (o->kind != GRAPH_ATTENTION || o->attention.arrivals == GRAPH_NONE)
            continue;
        const struct graph_value *v = &b->g->values[o->attention.arrivals];
        return n <= (uint64_t)v->rows * v->width ? o->attention.arrivals : GRAPH_NONE;
    }
    return GRAPH_NONE;
}

static struct launch_at counts_at(const struct launch_list *b, uint32_t arrivals) {
    return arrivals == GRAPH_NONE ? launch_nowhere() : launch_floats(b, arrivals);
}

struct plain_shape {
    uint32_t unit; /* panels */
    uint32_t panels;
    uint32_t panels1; /* of weight 1, whose units come behind; 0: all units read both weights */
};

static bool plain_panels(const void *shape, uint32_t unit, uint32_t i, uint32_t *first, uint32_t *end) {
    const struct plain_shape *s = shape;
    const uint32_t units = (uint32_t)arith_ceil_div(s->panels, s->unit);
    const bool second = s->panels1 > 0 && unit >= units;
    if (s->panels1 > 0 && second != (i == 1))
        return false;
    *first = (second ? unit - units : unit) * s->unit;
    *end = ARITH_MIN(*first + s->unit, second ? s->panels1 : s->panels);
    return true;
}

/* How a plain product's rows are cut: a unit's panels, and how many groups share a unit. */
struct cut {
    uint32_t unit, together;
};

/* A unit has whole groups of the int8 forms that the epilogue makes. */
static struct cut plain_cut(const struct launch_list *b, const struct graph_op *o,
                            const struct launch_scheme *w, uint32_t panels, uint32_t *arrivals) {
    uint32_t forms = b->g->values[o->out].forms, each = launch_scheme_panels(b, o, w, panels);
    *arrivals = GRAPH_NONE;
    if (graph_op_gated(o) && forms & GRAPH_I8_256) {
        const struct cut c = {16, launch_scheme_sharing(b, o, w, each)};
        if (c.together > 1)
            *arrivals = arrivals_of(b, arith_ceil_div(panels, 16));
        return *arrivals == GRAPH_NONE ? (struct cut){16, 1} : c;
    }
    each = ARITH_MIN(each, panels);
    if (graph_op_gated(o) && forms & GRAPH_I8_32)
        each = (uint32_t)arith_round_up(each, 2);
    return (struct cut){each, 1};
}

/* Families whose kernels have registers for two products (CL_PAIRS). */
static bool has_pairs(enum launch_family family) {
    return family == WIDE1 || family == PREFILL || family == DPAS16;
}

/* o: the op, or what it does with one of its weights; or, if it is not gated and has two, the products of it
 * and of the next op, whose value is out1. */
static stator_status launch_product(struct launch_list *b, uint32_t op, const struct graph_op *o,
                                    uint32_t out1) {
    const struct graph_value *out = &b->g->values[o->out];
    const bool two = graph_op_gated(o), pair = !two && o->n_weights == 2;
    CHECK(o->n_weights == (two || pair ? 2 : 1));
    struct launch_scheme w = launch_scheme_choose(b, o, false);
    CHECK(!pair || has_pairs(w.family));
    const struct panel_layout *layout = &b->g->weights[o->weight[0]].layout;
    const struct panel_layout *other = &b->g->weights[o->weight[pair]].layout;
    uint32_t arrivals;
    const struct cut cut = plain_cut(b, o, &w, layout->panels + (pair ? other->panels : 0), &arrivals);
    const struct plain_shape s = {
        .unit = cut.unit, .panels = layout->panels, .panels1 = pair ? other->panels : 0};
    const uint32_t mine = (two && w.family < PREFILL ? 2 : 1) * (cut.unit / cut.together);
    const uint32_t units =
        (uint32_t)(arith_ceil_div(layout->panels, s.unit) + arith_ceil_div(s.panels1, s.unit));
    launch_scheme_tokens(b, o, &w, w.family < PREFILL || w.family == DPAS16 ? mine : 16,
                         cut.together == 1 ? units : UINT32_MAX);
    launch_scheme_group(b, o, &w, mine);
    CHECK(cut.unit % cut.together == 0 && w.tokens > 0 && w.group > 0 && w.group % 16 == 0);
    for (struct run r = {0}; r.first_unit < units; r.first_unit += r.units) {
        if (!find_run(b, o, plain_panels, &s, units, &r))
            return launch_cut_too_often(b, o);
        struct launch *l =
            launch_add(b, w.kernel, op, w.group, r.units * cut.together * tiles_of(b, o, &w, cut.together));
        launch_put_matmul(b, l,
                          &(struct launch_matmul_arguments){
                              .in = launch_source_of(b, o),
                              .w0 = launch_weight_of(b, o->weight[0], r.piece[0]),
                              .w1 = launch_weight_of(b, o->weight[two || pair], r.piece[two || pair]),
                              .rows = layout->rows,
                              .unit = s.unit,
                              .first_unit = r.first_unit,
                              .units = r.units,
                              .split = w.split,
                              .tail = o->wanted || op >= b->g->tail,
                              .epilogue = o->epilogue,
                              .out = launch_forms_of(b, o->out, two ? launch_forms_wanted(out) : GRAPH_F32),
                              .column = o->column[0],
                              .bias0 = launch_plain_weight(b, o->bias[0]),
                              .bias1 = launch_plain_weight(b, o->bias[1]),
                              .biased = launch_biased_bits(o),
                              .factor0 = launch_plain_weight(b, o->factor[0]),
                              .factor1 = launch_plain_weight(b, o->factor[1]),
                              .together = cut.together,
                              .arrivals = counts_at(b, arrivals),
                              .rows1 = pair ? other->rows : 0,
                              .out1 = pair ? launch_floats(b, out1) : launch_nowhere(),
                              .out1_width = pair ? b->g->values[out1].width : 0,
                              .column1 = o->column[pair],
                              .tile = ARITH_MAX(launch_scheme_tile(b, o, &w, mine), 256 * sizeof(float)),
                              .work = launch_scheme_work(b, o, &w, s.unit, 0),
                          });
    }
    return STATOR_OK;
}

/* Whether a launch may have the op's product and another one. */
static bool may_be_joined(const struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    return op < b->g->tail && o->kind == GRAPH_MATMUL && o->epilogue == GRAPH_STORE && o->n_weights == 1 &&
           o->bias[0] == GRAPH_NONE && o->factor[0] == GRAPH_NONE && !o->wanted && !launch_is_router(b, op) &&
           !launch_is_heads(b, op);
}

/* Whether the op's launch has the next one's product, too: both are of one value and one type, and store. */
static bool joins_next(const struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    if (op + 1 >= b->g->tail || o[1].in != o->in || !may_be_joined(b, op) || !may_be_joined(b, op + 1))
        return false;
    return b->g->weights[o->weight[0]].layout.type == b->g->weights[o[1].weight[0]].layout.type &&
           has_pairs(launch_scheme_choose(b, o, false).family) && !(op > 0 && joins_next(b, op - 1));
}

static stator_status launch_pair_of(struct launch_list *b, uint32_t op) {
    struct graph_op both = b->g->ops[op];
    const struct graph_op *next = &b->g->ops[op + 1];
    both.n_weights = 2;
    both.weight[1] = next->weight[0];
    both.column[1] = next->column[0];
    return launch_product(b, op, &both, next->out);
}

stator_status launch_matmul(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    if (graph_op_gated(o))
        return launch_product(b, op, o, GRAPH_NONE);
    if (op > 0 && joins_next(b, op - 1))
        return STATOR_OK; /* launched with it */
    if (joins_next(b, op))
        return launch_pair_of(b, op);
    for (uint32_t i = 0; i < o->n_weights; i++) {
        struct graph_op one = *o;
        one.n_weights = 1;
        if (o->epilogue == GRAPH_RELU2 || o->epilogue == GRAPH_GELU_ONE)
            one.epilogue = GRAPH_STORE;
        for (uint32_t k = 1; k < GRAPH_OP_WEIGHTS; k++)
            one.weight[k] = one.bias[k] = one.factor[k] = GRAPH_NONE;
        one.weight[0] = o->weight[i];
        one.bias[0] = o->bias[i];
        one.factor[0] = o->factor[i];
        one.column[0] = o->column[i];
        stator_status st = launch_product(b, op, &one, GRAPH_NONE);
        if (st != STATOR_OK)
            return st;
    }
    if (o->epilogue == GRAPH_RELU2)
        launch_relu2(b, op, 1);
    if (o->epilogue == GRAPH_GELU_ONE)
        launch_gelu_one(b, op);
    return STATOR_OK;
}

struct heads_shape {
    uint32_t heads; /* of a unit */
    uint32_t parts; /* units of a head, if a unit has one head or less */
    uint32_t n_heads[GRAPH_OP_WEIGHTS];
    uint32_t dim[GRAPH_OP_WEIGHTS];
};

static uint32_t units_of(const struct heads_shape *s, uint32_t i) {
    return (uint32_t)arith_ceil_div(s->n_heads[i], s->heads) * s->parts;
}

static bool heads_panels(const void *shape, uint32_t unit, uint32_t i, uint32_t *first, uint32_t *end) {
    const struct heads_shape *s = shape;
    for (uint32_t j = 0; j < i; j++) {
        if (unit < units_of(s, j))
            return false;
        unit -= units_of(s, j);
    }
    if (unit >= units_of(s, i))
        return false;
    const uint32_t wide = s->dim[i] / s->parts;
    *first = unit * s->heads * wide / PANEL_ROWS;
    *end = ARITH_MIN((unit + 1) * s->heads, s->n_heads[i] * s->parts) * wide / PANEL_ROWS;
    return true;
}

stator_status launch_heads(struct launch_list *b, uint32_t op, uint32_t rope) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_rope *of = &b->g->ops[rope].rope;
    const bool normed = b->g->ops[rope].n_weights > 0;
    const bool q_only = of->kv_heads == 0;
    CHECK(o->n_weights == (q_only ? 1 : 3) && o->epilogue == GRAPH_STORE && b->g->ops[rope].in == o->out &&
          o->column[0] == 0);
    /* A kernel looks at no K and V of zero heads: they may be anything. */
    const uint32_t of_k = o->weight[q_only ? 0 : 1], of_v = o->weight[q_only ? 0 : 2];
    struct launch_scheme w = launch_scheme_choose(b, o, true);
    struct heads_shape s = {.n_heads = {of->heads, of->kv_heads, of->kv_heads},
                            .dim = {of->dim_k, of->dim_k, of->dim_v},
                            .parts = 1};
    uint32_t widest = ARITH_MAX(of->dim_k, of->dim_v);
    const uint32_t together = w.family == DPAS16 ? 128 / widest : 256 / widest;
    s.heads = w.family >= PREFILL ? ARITH_MAX(ARITH_MIN(together, of->kv_heads), 1u) : 1;
    uint32_t panels = s.heads * widest / PANEL_ROWS;
    uint32_t units = units_of(&s, 0) + units_of(&s, 1) + units_of(&s, 2);
    launch_scheme_tokens(b, o, &w, panels, units);
    launch_scheme_group(b, o, &w, panels);
    /* With one token, a group without room for a whole head takes half of it, if the halves do not depend on
     * each other. */
    if (w.family <= WIDE1 && w.group < 16 * w.split * panels && !normed && !of->norm_v && !of->neox &&
        of->dim_k % 64 == 0 && of->dim_v % 64 == 0) {
        s.parts = 2;
        panels /= 2;
        units *= 2;
        launch_scheme_group(b, o, &w, panels);
    }
    CHECK(panels > 0 && w.tokens > 0 && w.group > 0 && w.group % 16 == 0);
    /* Where q has angles of its own, no launch has both q and k. */
    const uint32_t of_q = of->angles_q != GRAPH_NONE ? units_of(&s, 0) : 0;
    for (struct run r = {0}; r.first_unit < units; r.first_unit += r.units) {
        const bool q_alone = r.first_unit < of_q;
        const uint32_t angles = q_alone ? of->angles_q : of->angles;
        if (!find_run(b, o, heads_panels, &s, q_alone ? of_q : units, &r))
            return launch_cut_too_often(b, o);
        struct launch *l = launch_add(b, w.kernel, op, w.group, r.units * tiles_of(b, o, &w, 1));
        struct launch_heads_arguments args = {
            .in = launch_source_of(b, o),
            .w0 = launch_weight_of(b, o->weight[0], r.piece[0]),
            .w1 = launch_weight_of(b, of_k, r.piece[1]),
            .w2 = launch_weight_of(b, of_v, r.piece[2]),
            .heads = s.heads,
            .first_unit = r.first_unit,
            .units = r.units,
            .split = w.split,
            .q = launch_floats(b, o->out),
            .width = b->g->values[o->out].width,
            .n_heads = of->heads,
            .n_kv_heads = of->kv_heads,
            .head_k = of->dim_k,
            .head_v = of->dim_v,
            .n_rot = of->n_rot,
            .rotation = launch_rotation(b, of, angles),
            .biased = launch_biased_bits(o),
            .bias0 = launch_plain_weight(b, o->bias[0]),
            .bias1 = launch_plain_weight(b, o->bias[1]),
            .bias2 = launch_plain_weight(b, o->bias[2]),
            .factor0 = launch_plain_weight(b, o->factor[0]),
            .factor1 = launch_plain_weight(b, o->factor[1]),
            .factor2 = launch_plain_weight(b, o->factor[2]),
            .normed = (normed ? OPENCL_NORMED_QK : 0u) | (of->norm_v ? OPENCL_NORMED_V : 0u) |
                      (s.parts == 2 ? OPENCL_HALVES : 0u),
            .q_norm = launch_plain_weight(b, normed ? b->g->ops[rope].weight[0] : GRAPH_NONE),
            .k_norm = launch_plain_weight(b, normed && !q_only ? b->g->ops[rope].weight[1] : GRAPH_NONE),
            .inv_head = of->norm.inv_width,
            .eps = of->norm.eps,
            .tile = launch_scheme_tile(b, o, &w, panels),
            .work = launch_scheme_work(b, o, &w, 0, 8 * 128 * sizeof(float)),
        };
        stator_status st = launch_cache_of(b, &b->g->ops[rope], &args.kv);
        if (st != STATOR_OK)
            return st;
        launch_put_heads(b, l, &args);
    }
    return STATOR_OK;
}

/* A unit has whole groups of the int8 forms that the epilogue makes. */
static struct cut experts_cut(const struct launch_list *b, const struct graph_op *o,
                              const struct launch_scheme *w, uint32_t *arrivals) {
    const uint32_t forms = b->g->values[graph_op_opens_experts(o) ? o->out : o->work].forms;
    const uint32_t panels = b->g->weights[o->weight[0]].layout.panels;
    const uint32_t each = w->family == DPAS16    ? 8
                          : w->family >= PREFILL ? 16
                                                 : (uint32_t)arith_ceil_div(8, ARITH_MIN(w->segments, 8u));
    *arrivals = GRAPH_NONE;
    if (graph_op_gated(o) && forms & GRAPH_I8_256) {
        const struct cut c = {16, launch_scheme_sharing(b, o, w, each)};
        if (c.together > 1)
            *arrivals = arrivals_of(b, (uint64_t)b->rows * o->experts.used * arith_ceil_div(panels, 16));
        return *arrivals == GRAPH_NONE ? (struct cut){16, 1} : c;
    }
    const uint32_t unit = ARITH_MIN(each, panels);
    return (struct cut){graph_op_gated(o) && forms & GRAPH_I8_32 ? (uint32_t)arith_round_up(unit, 2) : unit,
                        1};
}

struct launch_shape launch_experts_shape(const struct launch_list *b, const struct graph_op *o) {
    struct launch_scheme w = launch_scheme_experts(b, o);
    uint32_t arrivals;
    const struct cut cut = experts_cut(b, o, &w, &arrivals);
    const uint32_t mine = cut.unit / cut.together;
    const uint32_t panels = graph_op_gated(o) && w.family < PREFILL ? 2 * mine : mine;
    launch_scheme_tokens(b, o, &w, mine, UINT32_MAX);
    launch_scheme_group(b, o, &w, panels);
    return (struct launch_shape){.kernel = w.kernel,
                                 .group = w.group,
                                 .split = w.split,
                                 .unit = cut.unit,
                                 .together = cut.together,
                                 .arrivals = counts_at(b, arrivals),
                                 .tile = ARITH_MAX(launch_scheme_tile(b, o, &w, panels), 256 * sizeof(float)),
                                 .work = launch_scheme_work(b, o, &w, cut.unit, 0)};
}

stator_status launch_each(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_weight *weight = &b->g->weights[o->weight[0]];
    const struct panel_layout *layout = &weight->layout;
    const struct graph_value *out = &b->g->values[o->out];
    CHECK(o->n_weights == 1 && o->bias[0] == GRAPH_NONE && out->forms == GRAPH_F32);
    struct launch_scheme w = launch_scheme_each(b, o);
    const uint32_t unit = ARITH_MIN(launch_scheme_panels(b, o, &w, layout->panels), layout->panels);
    launch_scheme_tokens(b, o, &w, unit, UINT32_MAX);
    launch_scheme_group(b, o, &w, unit);
    const uint64_t units = arith_ceil_div(layout->panels, unit) * arith_ceil_div(b->rows, w.tokens);
    struct launch_at to = launch_floats(b, o->out);
    to.offset += o->column[0] * sizeof(float);
    for (struct launch_experts_run r = {0}; r.first < weight->matrices; r.first = r.end) {
        if (!launch_find_experts(b->g, o, 0, &r))
            return launch_cut_too_often(b, o);
        struct launch *l = launch_add(b, w.kernel, op, w.group, (r.end - r.first) * units);
        launch_put_each(b, l,
                        &(struct launch_each_arguments){
                            .in = launch_source_of(b, o),
                            .in_width = b->g->values[o->in].width,
                            .in_stride = o->heads.in_stride,
                            .w0 = launch_weight_of(b, o->weight[0], r.piece[0]),
                            .rows = layout->rows,
                            .unit = unit,
                            .split = w.split,
                            .first = r.first,
                            .end = r.end,
                            .out = to,
                            .out_width = out->width,
                            .out_stride = o->heads.out_stride,
                            .factor0 = launch_plain_weight(b, o->factor[0]),
                            .biased = launch_biased_bits(o),
                            .tile = launch_scheme_tile(b, o, &w, unit),
                            .work = launch_scheme_work(b, o, &w, unit, 0),
                        });
    }
    return STATOR_OK;
}
