/* Experts that have slots on the device, of a model whose other experts the helper computes (device.h), and
 * the sum of a token's experts. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/experts.h"

static struct launch_at table_at(uint32_t words) {
    return (struct launch_at){DEVICE_TABLE, 0, words * sizeof(uint32_t)};
}

/* Behind the words of the routes. */
static struct launch_at near_at(const struct launch_list *b, const struct graph_experts *x) {
    const uint64_t slots = (uint64_t)b->g->want.batch * x->used;
    struct launch_at at = launch_floats(b, x->routes);
    at.offset += EXPERTS_WORDS(slots, (uint64_t)x->rows) * sizeof(uint32_t);
    return at;
}

struct launch_near launch_near_of(const struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    struct launch_near n = {.routes = near_at(b, &o->experts), .slots = b->m->cached.n};
    for (uint32_t k = 0; k < o->n_weights; k++) {
        const struct graph_weight *w = &b->g->weights[o->weight[k]];
        const struct device_slot_place p = device_slot_place(b->m, op, k);
        const struct launch_at panels = {DEVICE_SLOTS, p.slice, p.panels};
        n.weight[k] = (struct launch_weight){.a = panels,
                                             .b = panels,
                                             .cut = n.slots * w->layout.panels,
                                             .type = w->layout.type,
                                             .file = w->layout.file};
        n.bias[k] =
            o->bias[k] != GRAPH_NONE ? (struct launch_at){DEVICE_SLOTS, p.slice, p.bias} : launch_nowhere();
        n.factor[k] = o->factor[k] != GRAPH_NONE ? (struct launch_at){DEVICE_SLOTS, p.slice, p.factor}
                                                 : launch_nowhere();
    }
    return n;
}

void launch_find_near(struct launch_list *b, uint32_t op) {
    const struct graph_experts *x = &b->g->ops[op].experts;
    const struct device_slot_table t = device_slot_table(b->m);
    struct launch *l = launch_add(b, LAUNCH_NEAR, op, OPENCL_GROUP, 1);
    launch_put_near(b, l,
                    &(struct launch_near_arguments){
                        .routes = launch_floats(b, x->routes),
                        .near = near_at(b, x),
                        .map = table_at(device_slot_layer(b->m, op) * t.stride),
                        .used = x->used,
                        .slots = (uint64_t)b->g->want.batch * x->used,
                        .some = OPENCL_GROUP * sizeof(uint32_t),
                    });
}

/* The weight's panels from two pieces at a time. */
static void take_weight(struct launch_list *b, uint32_t op, uint32_t of, uint32_t k, uint32_t layer) {
    const struct graph_op *o = &b->g->ops[of];
    const struct graph_weight *w = &b->g->weights[o->weight[k]];
    const struct device_slot_table t = device_slot_table(b->m);
    const struct launch_near near = launch_near_of(b, of);
    for (uint32_t i = 0; i < w->n_pieces; i += 2) {
        const struct graph_piece *last = &w->pieces[ARITH_MIN(i + 1, w->n_pieces - 1)];
        const uint64_t bytes = w->layout.panels * w->layout.panel_bytes;
        struct launch *l =
            launch_add(b, LAUNCH_TAKE, op, OPENCL_GROUP, arith_ceil_div(bytes / 16, OPENCL_GROUP));
        launch_put_take(b, l,
                        &(struct launch_take_arguments){
                            .list = table_at(layer * t.stride + t.copies),
                            .w = launch_weight_of(b, o->weight[k], i),
                            .panels = w->layout.panels,
                            .panel_bytes = w->layout.panel_bytes,
                            .first = w->pieces[i].first_panel / w->layout.panels,
                            .end = (last->first_panel + last->panels) / w->layout.panels,
                            .slots = near.weight[k].a,
                            .bias = launch_plain_weight(b, o->bias[k]),
                            .slot_bias = near.bias[k],
                            .bias_words = o->bias[k] != GRAPH_NONE && i == 0 ? w->layout.rows : 0,
                            .factor = launch_plain_weight(b, o->factor[k]),
                            .slot_factor = near.factor[k],
                            .has_factor = o->factor[k] != GRAPH_NONE,
                        });
    }
}

void launch_take(struct launch_list *b, uint32_t op) {
    const uint32_t layer = device_slot_layer(b->m, op);
    uint32_t gated = op;
    while (!graph_op_opens_experts(&b->g->ops[gated]))
        gated--;
    for (uint32_t k = 0; k < b->g->ops[gated].n_weights; k++)
        take_weight(b, op, gated, k, layer);
    take_weight(b, op, op, 0, layer);
}

/* Where the helper puts the rows of slots: the kernel reads each once, over the bus. */
static struct launch_at hosted_rows(const struct device_model *m) {
    const struct device_facts gpu = {.host_memory = false};
    struct device_pinned pinned;
    struct device_hosted hosted;
    device_pinned_lay_out(&gpu, m, &pinned);
    device_hosted_lay_out(m, pinned.hosted, &hosted);
    return (struct launch_at){DEVICE_PINNED, 0, hosted.out};
}

void launch_mix(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_experts *x = &o->experts;
    const uint32_t width = b->g->values[o->out].width;
    const uint32_t shared = x->shared, gate = x->gate;
    const bool hosted = b->m->hosted && !b->streams, near = hosted && b->m->cached.n > 0;
    struct launch *l =
        launch_add(b, LAUNCH_MIX, op, OPENCL_GROUP, (uint64_t)b->rows * arith_ceil_div(width, OPENCL_GROUP));
    l->answered = hosted;
    launch_put_mix(b, l,
                   &(struct launch_mix_arguments){
                       .routes = launch_floats(b, x->routes),
                       .used = x->used,
                       .slots = (uint64_t)b->g->want.batch * x->used,
                       .y = hosted ? hosted_rows(b->m) : launch_floats(b, o->work),
                       .x = launch_floats(b, o->out),
                       .width = width,
                       .shared = launch_floats(b, shared != GRAPH_NONE ? shared : o->out),
                       .has_shared = shared != GRAPH_NONE,
                       .gate = launch_floats(b, gate != GRAPH_NONE ? gate : o->out),
                       .gate_width = gate != GRAPH_NONE ? b->g->values[gate].width : 0,
                       .gate_column = x->experts,
                       .has_gate = gate != GRAPH_NONE,
                       .stores = o->epilogue == GRAPH_STORE,
                       .own = near ? launch_floats(b, o->work) : launch_nowhere(),
                       .near = near ? near_at(b, x) : launch_nowhere(),
                       .has_near = near,
                   });
}
