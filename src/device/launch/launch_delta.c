/* Delta-net layers, gated convolutions, n-gram embeddings and gates as launches. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/delta.h"
#include "kernels/shared/opencl.h"

stator_status launch_states_of(struct launch_list *b, const struct graph_op *o, struct launch_states *out) {
    const struct graph_cache *g = &b->g->caches[o->cache];
    const struct device_cache *c = &b->m->caches[o->cache];
    const struct graph_delta *d = &o->delta;
    CHECK(g->kind == GRAPH_STATE && g->units == 1);
    uint32_t kept = g->n_layers - c->spilled_layers;
    bool spilled = o->cache_layer >= kept;
    uint32_t unit = o->cache_layer - (spilled ? kept : 0);
    uint32_t slice = device_cache_part(b->m, o->cache, spilled).first + unit / c->units_per_slice;
    if (c->unit_bytes > UINT32_MAX)
        return error_set(
            b->e, STATOR_DEVICE,
            "layer %u: the states of all sequences are %llu bytes, the kernels take 4 GiB: lower "
            "memory.sequences",
            o->layer, (unsigned long long)c->unit_bytes);
    CHECK(g->bytes <= UINT32_MAX);
    CHECK(slice < GRAPH_MAX_SLICES);
    *out = (struct launch_states){
        .base = {DEVICE_KV, slice, unit % c->units_per_slice * c->unit_bytes},
        .block_bytes = (uint32_t)g->bytes,
        .cache = o->cache,
        .window = (uint32_t)d->window,
        .key_heads = d->key_heads,
        .value_heads = d->value_heads,
        .dim_k = d->dim_k,
        .dim_v = d->dim_v,
        .taps = d->taps,
    };
    return STATOR_OK;
}

/* The weights of a convolution. */
static stator_status taps_of(struct launch_list *b, const struct graph_op *o, struct launch_at *at,
                             uint64_t *panel) {
    const struct graph_weight *w = &b->g->weights[o->weight[0]];
    if (w->n_pieces != 1)
        return error_set(b->e, STATOR_DEVICE,
                         "layer %u: the convolution's weights lie in %u allocations, the "
                         "kernel takes one: allow larger allocations (max_alloc)",
                         o->layer, w->n_pieces);
    CHECK(w->packed && w->layout.type == BLOCK_F32);
    *at = (struct launch_at){DEVICE_WEIGHTS, w->pieces[0].slice, w->pieces[0].offset};
    *panel = w->layout.panel_bytes / sizeof(float);
    return STATOR_OK;
}

stator_status launch_conv(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_delta *d = &o->delta;
    CHECK(b->g->values[o->in].width == d->channels && b->g->values[o->out].width >= d->channels);
    uint64_t heads = 2ull * d->key_heads + d->value_heads;
    struct launch *l = launch_add(b, LAUNCH_CONV, op, OPENCL_GROUP / 2, b->rows * heads);
    struct launch_conv_arguments args = {
        .in = launch_floats(b, o->in),
        .in_width = b->g->values[o->in].width,
        .out = launch_floats(b, o->out),
        .out_width = b->g->values[o->out].width,
        .bias = launch_plain_weight(b, o->n_weights > 1 ? o->weight[1] : GRAPH_NONE),
        .biased = o->n_weights > 1,
        .ssd = d->ssd,
        .eps = d->eps,
        .tile = d->dim_k * sizeof(float),
        .lane = 128 * sizeof(float),
    };
    stator_status st = taps_of(b, o, &args.weights, &args.panel);
    if (st == STATOR_OK)
        st = launch_states_of(b, o, &args.state);
    if (st != STATOR_OK)
        return st;
    launch_put_conv(b, l, &args);
    return STATOR_OK;
}

stator_status launch_gated_conv(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    const uint64_t parts = arith_ceil_div(o->gated_conv.channels, OPENCL_CONV_PART);
    struct launch_states state;
    struct launch_gated_conv_arguments args = {
        .in = launch_floats(b, o->in),
        .out = launch_forms_of(b, o->out, out->forms),
        .taps = o->gated_conv.taps,
        .tile = OPENCL_CONV_PART * sizeof(float),
        .work = OPENCL_QUANTISE_WORDS(OPENCL_CONV_PART) * sizeof(uint32_t),
    };
    CHECK(out->forms & GRAPH_F32 && out->width == o->gated_conv.channels);
    stator_status st = taps_of(b, o, &args.weights, &args.panel);
    if (st == STATOR_OK)
        st = launch_states_of(b, o, &state);
    if (st != STATOR_OK)
        return st;
    args.state = state.base;
    args.block_bytes = state.block_bytes;
    args.cache = state.cache;
    launch_put_gated_conv(b, launch_add(b, LAUNCH_GATED_CONV, op, OPENCL_CONV_PART, b->rows * parts), &args);
    return STATOR_OK;
}

stator_status launch_ngram_gate(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_ngram *n = &o->ngram;
    CHECK(o->in == o->out && b->g->values[o->work].width == n->streams * n->dim);
    launch_put_ngram_gate(b,
                          launch_add(b, LAUNCH_NGRAM_GATE, op, OPENCL_GROUP, (uint64_t)b->rows * n->streams),
                          &(struct launch_ngram_gate_arguments){
                              .in = launch_floats(b, o->in),
                              .stream = launch_floats(b, o->work),
                              .key_weight = launch_plain_weight(b, o->weight[0]),
                              .stream_weight = launch_plain_weight(b, o->weight[1]),
                              .conv_weight = launch_plain_weight(b, o->weight[2]),
                              .streams = n->streams,
                              .dim = n->dim,
                              .inv_n = n->norm.inv_width,
                              .eps = n->norm.eps,
                              .scale = n->scale,
                              .lane = 128 * sizeof(float),
                          });
    return STATOR_OK;
}

stator_status launch_ngram_conv(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_ngram *n = &o->ngram;
    const uint64_t parts = arith_ceil_div((uint64_t)n->streams * n->dim, OPENCL_CONV_PART);
    struct launch_states state;
    struct launch_ngram_conv_arguments args = {
        .in = launch_floats(b, o->in),
        .out = launch_floats(b, o->out),
        .streams = n->streams,
        .dim = n->dim,
        .taps = n->taps,
        .apart = n->apart,
    };
    CHECK(b->g->values[o->out].width == n->streams * n->dim);
    stator_status st = taps_of(b, o, &args.weights, &args.panel);
    if (st == STATOR_OK)
        st = launch_states_of(b, o, &state);
    if (st != STATOR_OK)
        return st;
    args.state = state.base;
    args.block_bytes = state.block_bytes;
    args.cache = state.cache;
    launch_put_ngram_conv(b, launch_add(b, LAUNCH_NGRAM_CONV, op, OPENCL_CONV_PART, b->rows * parts), &args);
    return STATOR_OK;
}

stator_status launch_delta(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_delta *d = &o->delta;
    const uint32_t group = 4 * DELTA_BLOCK;
    uint64_t chunks = ARITH_MIN(b->rows, b->m->sequences);
    uint64_t each =
        d->value_heads * arith_ceil_div(d->dim_v, DELTA_BLOCK) + arith_ceil_div(d->channels, group);
    const bool wide = d->dim_k > DELTA_TESTED_STATE;
    const enum launch_rule rule = d->ssd                          ? (wide ? LAUNCH_SSD_WIDE : LAUNCH_SSD)
                                  : wide                          ? LAUNCH_RULE_WIDE
                                  : d->dim_k < DELTA_TESTED_STATE ? LAUNCH_RULE_SMALL
                                                                  : LAUNCH_RULE;
    const bool eight = b->traits->sub_group_sizes & 1u << 3;
    struct launch *l = launch_add(b, (eight ? LAUNCH_DELTA8 : LAUNCH_DELTA) + rule, op, group, chunks * each);
    CHECK(b->g->values[o->work].width == d->channels);
    struct launch_delta_arguments args = {
        .in = launch_floats(b, o->in),
        .in_width = b->g->values[o->in].width,
        .raw = launch_floats(b, o->work),
        .out = launch_floats(b, o->out),
        .out_width = b->g->values[o->out].width,
        .bias = launch_plain_weight(b, o->weight[0]),
        .a = launch_plain_weight(b, o->weight[1]),
        .skip = launch_plain_weight(b, d->ssd ? o->weight[2] : GRAPH_NONE),
        .beta_at = d->beta,
        .alpha_at = d->alpha,
        .grouped = d->grouped,
        .scale = d->scale,
        .memory = (wide ? 2 * d->dim_k + 4ull * group : 6 * (DELTA_TESTED_STATE + 16) + 8ull * group) *
                  sizeof(float),
    };
    stator_status st = launch_states_of(b, o, &args.state);
    if (st != STATOR_OK)
        return st;
    launch_put_delta(b, l, &args);
    return STATOR_OK;
}

static uint32_t how_of(const struct graph_op *o) {
    if (o->gate.gelu || o->gate.early)
        return o->gate.gelu ? OPENCL_GATE_GELU : OPENCL_GATE_EARLY;
    if (o->n_weights == 0)
        return OPENCL_GATE_SIGMOID;
    return o->gate.sigmoid ? OPENCL_GATE_BOTH : OPENCL_GATE_NORMED;
}

/* Values of a row that a group takes: whole groups of int8, and the row divides into such parts. */
static uint32_t part_of_row(const struct graph_value *v) {
    enum { MOST = 1024 };
    const uint32_t group = v->forms & GRAPH_I8_256 ? 256 : v->forms & GRAPH_I8_32 ? 32 : 1;
    uint32_t n = ARITH_MIN(v->width, (uint32_t)MOST);
    while (v->width % n != 0 || n % group != 0)
        n--;
    return n;
}

void launch_relu2(struct launch_list *b, uint32_t op, uint32_t each) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    const uint32_t n = part_of_row(out), parts = out->width / n;
    struct launch *l = launch_add(b, LAUNCH_GATE, op, OPENCL_GROUP, (uint64_t)b->rows * each * parts);
    launch_put_gate(b, l,
                    &(struct launch_gate_arguments){
                        .in = launch_floats(b, o->out),
                        .gates = launch_floats(b, o->out),
                        .gates_width = out->width,
                        .out = launch_forms_of(b, o->out, out->forms),
                        .weight = launch_plain_weight(b, GRAPH_NONE),
                        .how = OPENCL_GATE_RELU2,
                        .each = each,
                        .heads = parts,
                        .dim = n,
                        .together = 1,
                        .tile = n * sizeof(float),
                        .lane = 128 * sizeof(float),
                        .work = OPENCL_QUANTISE_WORDS((uint64_t)n) * sizeof(uint32_t),
                    });
}

stator_status launch_gate(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_value *out = &b->g->values[o->out];
    const struct graph_gate *g = &o->gate;
    const uint32_t group = out->forms & GRAPH_I8_256 ? 256 : out->forms & GRAPH_I8_32 ? 32 : 1;
    uint32_t together = 1;
    while ((uint64_t)together * g->dim % group != 0)
        together++;
    CHECK(g->heads % together == 0); /* as the row is whole groups */
    struct launch *l =
        launch_add(b, LAUNCH_GATE, op, OPENCL_GROUP, (uint64_t)b->rows * (g->heads / together));
    const uint64_t n = (uint64_t)together * g->dim;
    launch_put_gate(b, l,
                    &(struct launch_gate_arguments){
                        .in = launch_floats(b, o->in),
                        .gates = launch_floats(b, o->work),
                        .gates_width = b->g->values[o->work].width,
                        .column = g->column,
                        .out = launch_forms_of(b, o->out, out->forms),
                        .weight = launch_plain_weight(b, o->n_weights > 0 ? o->weight[0] : GRAPH_NONE),
                        .how = how_of(o),
                        .each = 1,
                        .heads = g->heads,
                        .dim = g->dim,
                        .together = together,
                        .inv_n = g->norm.inv_width,
                        .eps = g->norm.eps,
                        .tile = n * sizeof(float),
                        .lane = 8 * 128 * sizeof(float), /* CL_HEADS_AT_ONCE */
                        .work = OPENCL_QUANTISE_WORDS(n) * sizeof(uint32_t),
                    });
    return STATOR_OK;
}
