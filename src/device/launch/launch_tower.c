/* What vision towers have beside products and attention, and what pictures add to a text model, as launches.
 * No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/opencl.h"

static bool is_wanted(const struct launch_list *b, uint32_t op) {
    return b->g->ops[op].wanted || op >= b->g->tail;
}

/* Rows of `in`, in_width values for each of out's, through the kernel's `how`. */
static void add_map(struct launch_list *b, uint32_t op, uint32_t in, uint32_t in_width,
                    struct launch_map_arguments args) {
    const struct graph_value *out = &b->g->values[b->g->ops[op].out];
    const uint32_t part = launch_norm_part(b, b->rows, out->width);
    args.in = launch_floats(b, in);
    args.in_width = in_width;
    args.out = launch_forms_of(b, b->g->ops[op].out, out->forms);
    args.wanted = is_wanted(b, op);
    args.part = part;
    args.tile = OPENCL_NORM_CHUNK * sizeof(float);
    args.work = OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t);
    launch_put_map(
        b, launch_add(b, LAUNCH_MAP, op, OPENCL_GROUP, (uint64_t)b->rows * arith_ceil_div(out->width, part)),
        &args);
}

stator_status launch_layer_norm(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    CHECK(o->in != o->out && o->epilogue == GRAPH_STORE && o->norm.parts <= 1 && o->n_weights == 1);
    launch_put_layer_norm(b, launch_add(b, LAUNCH_LAYER_NORM, op, OPENCL_GROUP, b->rows),
                          &(struct launch_layer_norm_arguments){
                              .x = launch_floats(b, o->in),
                              .weight = launch_plain_weight(b, o->weight[0]),
                              .bias = launch_plain_weight(b, o->bias[0]),
                              .out = launch_forms_of(b, o->out, out->forms),
                              .wanted = is_wanted(b, op),
                              .inv_n = o->norm.inv_width,
                              .eps = o->norm.eps,
                              .tile = OPENCL_NORM_CHUNK * sizeof(float),
                              .lane = 128 * sizeof(float),
                              .work = OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t),
                          });
    return STATOR_OK;
}

stator_status launch_gelu(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    add_map(b, op, o->in, b->g->values[o->in].width,
            (struct launch_map_arguments){.how = OPENCL_MAP_GELU_ERF});
    return STATOR_OK;
}

stator_status launch_silu(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    add_map(b, op, o->in, b->g->values[o->in].width,
            (struct launch_map_arguments){.how = OPENCL_MAP_SILU, .factor = o->scale});
    return STATOR_OK;
}

void launch_gelu_one(struct launch_list *b, uint32_t op) {
    const uint32_t value = b->g->ops[op].out;
    add_map(b, op, value, b->g->values[value].width, (struct launch_map_arguments){.how = OPENCL_MAP_GELU});
}

stator_status launch_merge(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const uint32_t rows = o->merge.rows, width = b->g->values[o->in].width;
    const uint64_t how = o->merge.mean    ? OPENCL_MAP_MEAN
                         : o->merge.woven ? OPENCL_MAP_WEAVE
                                          : OPENCL_MAP_COPY;
    const bool weighs = o->n_weights > 0;
    CHECK(rows > 0 && b->g->values[o->out].width == (o->merge.mean ? width : rows * width));
    add_map(b, op, o->in, rows * width,
            (struct launch_map_arguments){.how = how,
                                          .from = width,
                                          .to = rows,
                                          .factor = o->merge.factor,
                                          .weighs = weighs,
                                          .scale = launch_plain_weight(b, weighs ? o->weight[0] : GRAPH_NONE),
                                          .shift = launch_plain_weight(b, weighs ? o->bias[0] : GRAPH_NONE)});
    return STATOR_OK;
}

stator_status launch_spread(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    add_map(
        b, op, o->in, b->g->values[o->in].width,
        (struct launch_map_arguments){.how = OPENCL_MAP_SPREAD, .from = o->spread.from, .to = o->spread.to});
    return STATOR_OK;
}

/* The kernels read rows of these matrices from one piece. */
static stator_status one_piece(const struct launch_list *b, uint32_t op, struct launch_at *out) {
    const struct graph_weight *w = &b->g->weights[b->g->ops[op].weight[0]];
    CHECK(w->packed && w->n_pieces > 0 && w->pieces[0].first_panel == 0);
    *out = (struct launch_at){DEVICE_WEIGHTS, w->pieces[0].slice, w->pieces[0].offset};
    return w->n_pieces == 1
               ? STATOR_OK
               : error_set(b->e, STATOR_DEVICE,
                           "a matrix of the vision tower lies in %u allocations, the kernels take 1: allow "
                           "larger allocations (max_alloc)",
                           w->n_pieces);
}

stator_status launch_blend(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_weight *w = &b->g->weights[o->weight[0]];
    struct launch_at piece;
    stator_status st = one_piece(b, op, &piece);
    if (st == STATOR_OK)
        launch_put_blend(b, launch_add(b, LAUNCH_BLEND, op, OPENCL_GROUP, b->rows),
                         &(struct launch_blend_arguments){.piece = piece,
                                                          .blends = launch_floats(b, o->in),
                                                          .x = launch_floats(b, o->out),
                                                          .type = w->layout.type,
                                                          .file = w->layout.file,
                                                          .width = w->layout.cols});
    return st;
}

stator_status launch_project(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_weight *w = &b->g->weights[o->weight[0]];
    const uint64_t items = arith_ceil_div((uint64_t)b->rows * w->layout.cols, OPENCL_GROUP);
    struct launch_at piece;
    stator_status st = one_piece(b, op, &piece);
    CHECK(is_wanted(b, op));
    if (st == STATOR_OK)
        launch_put_project(b, launch_add(b, LAUNCH_PROJECT, op, OPENCL_GROUP, items),
                           &(struct launch_project_arguments){.piece = piece,
                                                              .in = launch_floats(b, o->in),
                                                              .in_width = b->g->values[o->in].width,
                                                              .out = launch_floats(b, o->out),
                                                              .out_width = b->g->values[o->out].width,
                                                              .column = o->column[0],
                                                              .type = w->layout.type,
                                                              .file = w->layout.file,
                                                              .cols = w->layout.cols});
    return st;
}

stator_status launch_features(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    launch_put_features(b, launch_add(b, LAUNCH_FEATURES, op, OPENCL_GROUP, b->rows),
                        &(struct launch_features_arguments){.in = launch_floats(b, o->in),
                                                            .stride = b->g->values[o->in].width,
                                                            .first = o->features,
                                                            .x = launch_floats(b, o->out),
                                                            .width = b->g->values[o->out].width});
    return STATOR_OK;
}
