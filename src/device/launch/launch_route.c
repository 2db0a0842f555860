/* Routing as launches: the experts of each token, and the slots of each expert. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/experts.h"
#include "kernels/shared/opencl.h"

uint32_t launch_experts_tile(const struct launch_list *b, const struct graph_experts *x) {
    return (uint64_t)b->rows * x->used <= x->experts ? 1 : OPENCL_DPAS_TILE;
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
