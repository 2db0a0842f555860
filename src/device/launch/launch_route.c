/* Routing as launches: the experts of each token, and the slots of each expert. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/experts.h"
#include "kernels/shared/opencl.h"

uint32_t launch_experts_tile(const struct launch_list *b, const struct graph_experts *x) {
    return (uint64_t)b->rows * x->used <= x->experts ? 1 : OPENCL_DPAS_TILE;
}

/* Rows of a router: more are better read as those of any other product. */
#define MOST_ROWS 1024u

bool launch_is_router(const struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    if (b->rows > 1 || op >= b->g->tail || o->kind != GRAPH_MATMUL || o->epilogue != GRAPH_STORE ||
        o->n_weights != 1 || o->wanted || o->factor[0] != GRAPH_NONE)
        return false;
    const struct graph_weight *w = &b->g->weights[o->weight[0]];
    return w->packed && w->layout.type == BLOCK_F32 && w->n_pieces == 1 && w->layout.rows <= MOST_ROWS;
}

/* Whether the next op's rows go to the same value, and belong to no op before. */
static bool has_second(const struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    return launch_is_router(b, op + 1) && o[1].in == o->in && o[1].out == o->out;
}

static bool is_second(const struct launch_list *b, uint32_t op) {
    return op > 0 && launch_is_router(b, op - 1) && has_second(b, op - 1) && !is_second(b, op - 1);
}

static struct launch_at panels_at(const struct launch_list *b, const struct graph_op *o) {
    const struct graph_piece *p = &b->g->weights[o->weight[0]].pieces[0];
    return (struct launch_at){DEVICE_WEIGHTS, p->slice, p->offset};
}

stator_status launch_router(struct launch_list *b, uint32_t op) {
    if (is_second(b, op))
        return STATOR_OK; /* launched with the op before */
    const bool two = has_second(b, op);
    const struct graph_op *o = &b->g->ops[op], *second = o + two;
    const struct panel_layout *l = &b->g->weights[o->weight[0]].layout;
    const struct panel_layout *other = &b->g->weights[second->weight[0]].layout;
    const uint32_t slots = OPENCL_GROUP / 64;
    CHECK(l->cols == other->cols && l->panel_bytes == other->panel_bytes);
    const bool eight = b->traits->sub_group_sizes & 1u << 3;
    struct launch *launch = launch_add(b, eight ? LAUNCH_ROUTER8 : LAUNCH_ROUTER, op, OPENCL_GROUP,
                                       l->panels + (two ? other->panels : 0));
    launch_put_router(b, launch,
                      &(struct launch_router_arguments){
                          .in = launch_floats(b, o->in),
                          .cols = l->cols,
                          .w0 = panels_at(b, o),
                          .w1 = panels_at(b, second),
                          .panel = l->panel_bytes / sizeof(float),
                          .rows0 = l->rows,
                          .rows1 = two ? other->rows : 0,
                          .out = launch_floats(b, o->out),
                          .column0 = o->column[0],
                          .column1 = second->column[0],
                          .bias0 = launch_plain_weight(b, o->bias[0]),
                          .bias1 = launch_plain_weight(b, second->bias[0]),
                          .biased = (o->bias[0] != GRAPH_NONE ? OPENCL_BIAS(0) : 0) |
                                    (two && second->bias[0] != GRAPH_NONE ? OPENCL_BIAS(1) : 0),
                          .stage = (uint64_t)slots * 128 * PANEL_ROWS * sizeof(float),
                          .x = (uint64_t)slots * KERNELS_SEGMENT * sizeof(float),
                          .totals = slots * PANEL_ROWS * sizeof(float),
                      });
    return STATOR_OK;
}

stator_status launch_route(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_experts *x = &o->experts;
    const uint64_t slots = (uint64_t)b->g->want.batch * x->used;
    struct launch *l = launch_add(b, LAUNCH_ROUTE, op, OPENCL_GROUP, b->rows);
    launch_put_route(b, l,
                     &(struct launch_route_arguments){
                         .logits = launch_floats(b, o->in),
                         .width = b->g->values[o->in].width,
                         .routes = launch_floats(b, o->out),
                         .bias = launch_plain_weight(b, o->n_weights > 0 ? o->weight[0] : GRAPH_NONE),
                         .biased = o->n_weights > 0,
                         .experts = x->experts,
                         .used = x->used,
                         .groups = ARITH_MAX(x->groups, 1u),
                         .groups_used = x->groups_used,
                         .slots = slots,
                         .how = x->how,
                         .scale = x->scale,
                         .rows = x->rows,
                         .align = b->rows == 1 ? x->align : 0,
                         .key = x->experts * sizeof(uint32_t),
                         .flag = x->experts * sizeof(uint32_t),
                         .weight = EXPERTS_MAX_USED * sizeof(float),
                         .lane = 128 * sizeof(float),
                     });
    if (b->rows == 1) /* route has done it */
        return STATOR_OK;
    l = launch_add(b, LAUNCH_GROUP_SLOTS, op, OPENCL_GROUP, 1);
    launch_put_group_slots(b, l,
                           &(struct launch_group_slots_arguments){
                               .routes = launch_floats(b, o->out),
                               .experts = x->experts,
                               .used = x->used,
                               .slots = slots,
                               .rows = x->rows,
                               .align = x->align,
                               .tile = launch_experts_tile(b, x),
                               .count = x->experts * sizeof(uint32_t),
                               .taken = x->experts * sizeof(uint32_t),
                               .items = x->experts * sizeof(uint32_t),
                               .begin = x->experts * sizeof(uint32_t),
                               .some = OPENCL_GROUP * sizeof(uint32_t),
                           });
    return STATOR_OK;
}
