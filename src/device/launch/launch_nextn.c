/* What the MTP head has besides a layer, as launches. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/opencl.h"

/* Embeddings first, to the floats of `out`; then both halves are normed where they go. */
stator_status launch_pair(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    struct launch_states state;
    stator_status st = launch_states_of(b, o, &state);
    if (st != STATOR_OK)
        return st;
    CHECK(out->forms & GRAPH_F32);
    if (out->forms & GRAPH_I8_256 && out->width / 2 % 256 != 0)
        return error_set(b->e, STATOR_DEVICE,
                         "layer %u: the GPU kernels make int8 of pairs of 256 values, embeddings have %u",
                         o->layer, out->width / 2);
    CHECK(out->width % 2 == 0 && (o->n_weights == 2 || o->n_weights == 3));
    const uint32_t norms = o->n_weights - 2; /* of two, the embedding is there */
    if (norms > 0)
        launch_rows(b, op, launch_floats(b, o->out), out->width, 1.0f, GRAPH_NONE);
    struct launch *l = launch_add(b, LAUNCH_PAIR, op, OPENCL_GROUP, 2 * (uint64_t)b->rows);
    launch_put_pair(b, l,
                    &(struct launch_pair_arguments){
                        .states = launch_floats(b, o->in),
                        .kept = launch_floats(b, o->work),
                        .kept_rows = b->g->want.guess_rows,
                        .state = state.base,
                        .block_bytes = state.block_bytes,
                        .cache = state.cache,
                        .embedding_weight = launch_plain_weight(b, o->weight[norms]),
                        .state_weight = launch_plain_weight(b, o->weight[norms + 1]),
                        .states_width = b->g->values[o->in].width,
                        .states_first = o->norm.first,
                        .out = launch_forms_of(b, o->out, out->forms),
                        .inv_n = o->norm.inv_width,
                        .eps = o->norm.eps,
                        .tile = OPENCL_NORM_CHUNK * sizeof(float),
                        .lane = 128 * sizeof(float),
                        .work = OPENCL_QUANTISE_WORDS(OPENCL_NORM_CHUNK) * sizeof(uint32_t),
                    });
    return STATOR_OK;
}

stator_status launch_keep(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    struct launch_states state = {.base = launch_nowhere()};
    stator_status st = o->cache != GRAPH_NONE ? launch_states_of(b, o, &state) : STATOR_OK;
    if (st != STATOR_OK)
        return st;
    CHECK(o->kept > 0 && b->g->values[o->out].width == b->g->values[o->in].width);
    struct launch *l =
        launch_add(b, LAUNCH_KEEP, op, OPENCL_GROUP, ARITH_MIN(b->rows, (uint64_t)b->m->sequences) * o->kept);
    launch_put_keep(b, l,
                    &(struct launch_keep_arguments){
                        .in = launch_floats(b, o->in),
                        .width = b->g->values[o->in].width,
                        .kept = launch_floats(b, o->out),
                        .kept_rows = o->kept,
                        .has_state = o->cache != GRAPH_NONE,
                        .state = state.base,
                        .block_bytes = state.block_bytes,
                        .cache = state.cache,
                    });
    return STATOR_OK;
}
