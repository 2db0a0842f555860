/* Hyper-connections as launches. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/opencl.h"

enum {
    TILE = OPENCL_NORM_CHUNK * sizeof(float),
    WORK = OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t)
};

/* The kernels walk over the step's tokens. */
static void check_rows(const struct launch_list *b, uint32_t op) {
    CHECK(!b->g->ops[op].wanted && op < b->g->tail);
}

stator_status launch_streams_norm(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    const uint32_t part = launch_norm_part(b, b->rows, out->width);
    check_rows(b, op);
    CHECK(o->in != o->out && o->epilogue == GRAPH_STORE && o->n_weights == 1);
    launch_put_streams_norm(
        b,
        launch_add(b, LAUNCH_STREAMS_NORM, op, OPENCL_GROUP,
                   (uint64_t)b->rows * arith_ceil_div(out->width, part)),
        &(struct launch_streams_norm_arguments){.x = launch_floats(b, o->in),
                                                .weight = launch_plain_weight(b, o->weight[0]),
                                                .out = launch_forms_of(b, o->out, out->forms),
                                                .count = o->norm.parts,
                                                .part = part,
                                                .inv_n = o->norm.inv_width,
                                                .eps = o->norm.eps,
                                                .factors = o->norm.parts * sizeof(float),
                                                .tile = TILE,
                                                .lane = 128 * sizeof(float),
                                                .work = WORK});
    return STATOR_OK;
}

stator_status launch_streams_mix(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    const uint32_t part = launch_norm_part(b, b->rows, out->width);
    check_rows(b, op);
    launch_put_streams_mix(
        b,
        launch_add(b, LAUNCH_STREAMS_MIX, op, OPENCL_GROUP,
                   (uint64_t)b->rows * arith_ceil_div(out->width, part)),
        &(struct launch_streams_mix_arguments){.in = launch_floats(b, o->in),
                                               .gates = launch_floats(b, o->work),
                                               .out = launch_forms_of(b, o->out, out->forms),
                                               .count = o->streams.count,
                                               .inverse = o->streams.inverse,
                                               .part = part,
                                               .tile = TILE,
                                               .work = WORK});
    return STATOR_OK;
}

stator_status launch_streams_add(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const uint32_t width = b->g->values[o->in].width, count = o->streams.count;
    const uint32_t part = launch_norm_part(b, (uint64_t)b->rows * count, width);
    const bool adds = o->epilogue == GRAPH_RESIDUAL;
    check_rows(b, op);
    CHECK(!adds || b->g->values[o->work].width == count);
    launch_put_streams_add(
        b,
        launch_add(b, LAUNCH_STREAMS_ADD, op, OPENCL_GROUP,
                   (uint64_t)b->rows * count * arith_ceil_div(width, part)),
        &(struct launch_streams_add_arguments){.in = launch_floats(b, o->in),
                                               .gates = launch_floats(b, adds ? o->work : o->in),
                                               .x = launch_floats(b, o->out),
                                               .width = width,
                                               .count = count,
                                               .adds = adds,
                                               .inverse = o->streams.inverse,
                                               .part = part});
    return STATOR_OK;
}
