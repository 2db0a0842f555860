/* What the devices of a tensor split give each other, as launches that take it up. No state. */
#include "device/launch/launch_parts.h"

#include "graph/share.h"
#include "kernels/shared/opencl.h"

_Static_assert(OPENCL_PACKED_ALIGN == CARVE_ALIGN, "rows of an exchange lie as graph/share.h says");

uint32_t launch_packed_rows(const struct graph *g, const struct graph_value *v, uint32_t rows) {
    uint32_t bounds[LAUNCH_BUCKETS], i = 0;
    const uint32_t n = launch_buckets(g->want.batch, 0, bounds);
    while (i + 1 < n && bounds[i] < rows)
        i++;
    CHECK(bounds[i] >= rows && v->packed > 0 && (uint64_t)bounds[i] * v->packed <= v->rows);
    return bounds[i] * v->packed;
}

/* Where each device's rows of an exchange are, and its columns. */
struct sources {
    struct launch_at from[GRAPH_MAX_SHARES];
    uint32_t ends[GRAPH_MAX_SHARES];
};

/* As arguments of a kernel. */
#define SOURCES(s)                                                                                           \
    .from0 = (s).from[0], .from1 = (s).from[1], .from2 = (s).from[2], .from3 = (s).from[3],                  \
    .from4 = (s).from[4], .from5 = (s).from[5], .from6 = (s).from[6], .from7 = (s).from[7],                  \
    .end0 = (s).ends[0], .end1 = (s).ends[1], .end2 = (s).ends[2], .end3 = (s).ends[3], .end4 = (s).ends[4], \
    .end5 = (s).ends[5], .end6 = (s).ends[6], .end7 = (s).ends[7]

static void find_sources(const struct launch_list *b, const struct graph_op *o, struct sources *s) {
    const struct graph_exchanged *x = &o->exchanged;
    CHECK(x->count <= GRAPH_MAX_SHARES && GRAPH_MAX_SHARES == 8);
    const struct graph_value *own = &b->g->values[o->in];
    const struct launch_at mine = x->int8 == 0              ? launch_floats(b, o->in)
                                  : x->int8 == GRAPH_I8_256 ? launch_value(b, o->in, own->q256)
                                                            : launch_value(b, o->in, own->q32);
    for (uint32_t i = 0; i < GRAPH_MAX_SHARES; i++) {
        s->ends[i] = x->ends[ARITH_MIN(i, x->count - 1)];
        s->from[i] = i >= x->count                 ? launch_nowhere()
                     : i == b->g->want.share.index ? mine
                                                   : (struct launch_at){LAUNCH_OF_PEER, i, 0};
    }
}

/* Of rows that come in the int8 form of out. */
static stator_status add_exchange_int8(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_exchanged *x = &o->exchanged;
    const struct graph_value *out = &b->g->values[o->out];
    const uint64_t rows = (uint64_t)b->rows * ARITH_MAX(x->used, 1u);
    const uint32_t part = launch_norm_part(b, rows, out->width);
    CHECK(o->epilogue == GRAPH_STORE && share_row(b->g, o) == out->width && out->forms == x->int8);
    struct sources s;
    find_sources(b, o, &s);
    struct launch *l =
        launch_add(b, LAUNCH_EXCHANGE_INT8, op, OPENCL_GROUP, rows * arith_ceil_div(out->width, part));
    launch_put_exchange_int8(b, l,
                             &(struct launch_exchange_int8_arguments){
                                 SOURCES(s),
                                 .rows = launch_packed_rows(b->g, &b->g->values[o->in], b->rows),
                                 .routes = x->used > 0 ? launch_floats(b, x->routes) : launch_nowhere(),
                                 .used = x->used,
                                 .slots = (uint64_t)b->g->want.batch * x->used,
                                 .out = launch_forms_of(b, o->out, out->forms),
                                 .part = part,
                             });
    return STATOR_OK;
}

/* With the norm behind it. */
static stator_status add_exchange_norm(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op], *norm = o + 1;
    const struct graph_value *out = &b->g->values[norm->out];
    const uint32_t part = launch_norm_part(b, b->rows, out->width);
    CHECK(norm->kind == GRAPH_NORM && norm->in == o->out && norm->out == o->exchanged.normed);
    struct sources s;
    find_sources(b, o, &s);
    struct launch *l = launch_add(b, LAUNCH_EXCHANGE_NORM, op, OPENCL_GROUP,
                                  b->rows * (uint64_t)arith_ceil_div(out->width, part));
    launch_put_exchange_norm(b, l,
                             &(struct launch_exchange_norm_arguments){
                                 SOURCES(s),
                                 .x = launch_floats(b, o->exchanged.stream),
                                 .y = launch_floats(b, o->out),
                                 .weight = launch_plain_weight(b, norm->weight[0]),
                                 .out = launch_forms_of(b, norm->out, out->forms),
                                 .part = part,
                                 .inv_n = norm->norm.inv_width,
                                 .eps = norm->norm.eps,
                                 .tile = OPENCL_NORM_CHUNK * sizeof(float),
                                 .lane = 128 * sizeof(float),
                                 .work = OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t),
                             });
    return STATOR_OK;
}

/* Nothing to do for the device that alone has the rows, and where they belong. */
stator_status launch_exchange(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_exchanged *x = &o->exchanged;
    const struct graph_value *out = &b->g->values[o->out];
    if (x->norms)
        return add_exchange_norm(b, op);
    if (x->int8 != 0)
        return add_exchange_int8(b, op);
    const uint32_t width = share_row(b->g, o), me = b->g->want.share.index;
    const uint64_t rows = (uint64_t)b->rows * ARITH_MAX(x->used, 1u);
    const bool adds = o->epilogue == GRAPH_RESIDUAL;
    uint32_t first = 0, end = 0;
    share_columns(x, me, &first, &end);
    if ((o->in == o->out && !x->owned && end - first == width) || (x->wanted && me + 1 < x->count))
        return STATOR_OK;
    CHECK(width > 0);
    const bool whole = width == out->width;
    CHECK(whole || out->forms & GRAPH_F32);
    CHECK(out->forms == GRAPH_F32 || (!adds && x->column == 0));
    struct sources s;
    find_sources(b, o, &s);
    const uint32_t part = launch_norm_part(b, rows, width);
    struct launch *l = launch_add(b, LAUNCH_EXCHANGE, op, OPENCL_GROUP, rows * arith_ceil_div(width, part));
    launch_put_exchange(b, l,
                        &(struct launch_exchange_arguments){
                            SOURCES(s),
                            .column = x->column,
                            .adds = adds,
                            .routes = x->used > 0 ? launch_floats(b, x->routes) : launch_nowhere(),
                            .used = x->used,
                            .slots = (uint64_t)b->g->want.batch * x->used,
                            .wanted = x->wanted,
                            .owned = x->owned ? width : 0,
                            .pictures = x->pictures,
                            .out = launch_forms_of(b, o->out, whole ? out->forms : GRAPH_F32),
                            .part = part,
                            .tile = OPENCL_NORM_CHUNK * sizeof(float),
                            .work = OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t),
                        });
    return STATOR_OK;
}
