/* Launches of indexers: INDEX and CHOOSE are two kernels each, as groups of the second one read what all
 * groups of the first have written. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/kernels.h"
#include "kernels/shared/opencl.h"

#define HEADS_AT_ONCE 8 /* CL_HEADS_AT_ONCE */

stator_status launch_index(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_index *x = &o->index;
    CHECK(o->in == o->out && o->n_weights == 2);
    struct launch_index_arguments args = {
        .x = launch_floats(b, o->in),
        .width = b->g->values[o->in].width,
        .n_heads = x->heads,
        .dim = x->dim,
        .ratio = x->ratio,
        .n_rot = x->n_rot,
        .rotation = 2 * (uint64_t)b->g->angles[x->angles].first + x->neox,
        .q_norm = launch_plain_weight(b, o->weight[0]),
        .k_norm = launch_plain_weight(b, o->weight[1]),
        .inv_n = x->norm.inv_width,
        .eps = x->norm.eps,
        .share = 1.0f / (float)x->ratio,
        .tile = (uint64_t)HEADS_AT_ONCE * x->dim * sizeof(float),
        .lane = HEADS_AT_ONCE * 128 * sizeof(float),
    };
    stator_status st = launch_cache_of(b, o, &args.kv);
    if (st != STATOR_OK)
        return st;
    launch_put_index(b, launch_add(b, LAUNCH_INDEX_STORE, op, OPENCL_GROUP, b->rows), &args);
    launch_put_index(b, launch_add(b, LAUNCH_INDEX_KEYS, op, OPENCL_GROUP, b->rows), &args);
    return STATOR_OK;
}

stator_status launch_choose(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_index *x = &o->index;
    const uint32_t stride = b->g->values[o->work].width;
    struct launch_scores_arguments scores = {
        .x = launch_floats(b, o->in),
        .width = b->g->values[o->in].width,
        .n_heads = x->heads,
        .dim = x->dim,
        .ratio = x->ratio,
        .keep = x->keep,
        .scores = launch_floats(b, o->work),
        .stride = stride,
        .tile = arith_round_up(x->heads, 4) * x->dim * sizeof(float),
    };
    stator_status st = launch_cache_of(b, o, &scores.kv);
    if (st != STATOR_OK)
        return st;
    launch_put_scores(
        b,
        launch_add(b, LAUNCH_INDEX_SCORES, op, OPENCL_GROUP, b->rows * arith_ceil_div(stride, OPENCL_GROUP)),
        &scores);
    launch_put_choose(b, launch_add(b, LAUNCH_INDEX_CHOOSE, op, OPENCL_GROUP, b->rows),
                      &(struct launch_choose_arguments){
                          .scores = scores.scores,
                          .stride = stride,
                          .ratio = x->ratio,
                          .keep = x->keep,
                          .list = launch_floats(b, o->out),
                          .list_width = b->g->values[o->out].width,
                          .count = 16 * OPENCL_GROUP * sizeof(uint32_t),
                      });
    return STATOR_OK;
}
