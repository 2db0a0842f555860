/* Delta-net layers and gates as launches. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/delta.h"
#include "kernels/shared/opencl.h"

/* Nine arguments: where the layer's states lie, and the shape of what they are of. */
static stator_status launch_states(struct launch_list *b, struct launch *l, const struct graph_op *o) {
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
    launch_buffer(l, DEVICE_KV, slice, unit % c->units_per_slice * c->unit_bytes);
    launch_u32(l, g->bytes);
    launch_u32(l, o->cache);
    launch_u32(l, d->window);
    launch_u32(l, d->key_heads);
    launch_u32(l, d->value_heads);
    launch_u32(l, d->dim_k);
    launch_u32(l, d->dim_v);
    launch_u32(l, d->taps);
    return STATOR_OK;
}

stator_status launch_conv(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_delta *d = &o->delta;
    const struct graph_weight *w = &b->g->weights[o->weight[0]];
    if (w->n_pieces != 1)
        return error_set(b->e, STATOR_DEVICE,
                         "layer %u: the convolution's weights lie in %u allocations, the "
                         "kernel takes one: allow larger allocations (max_alloc)",
                         o->layer, w->n_pieces);
    uint64_t heads = 2ull * d->key_heads + d->value_heads;
    struct launch *l = launch_add(b, LAUNCH_CONV, op, OPENCL_GROUP / 2, b->rows * heads);
    launch_value_f32(b, l, o->in);
    launch_u32(l, b->g->values[o->in].width);
    launch_value_f32(b, l, o->out);
    launch_u32(l, b->g->values[o->out].width);
    launch_buffer(l, DEVICE_WEIGHTS, w->pieces[0].slice, w->pieces[0].offset);
    launch_u32(l, w->layout.panel_bytes / sizeof(float));
    stator_status st = launch_states(b, l, o);
    if (st != STATOR_OK)
        return st;
    launch_f32(l, d->eps);
    launch_local(b, l, d->dim_k * sizeof(float));
    launch_local(b, l, 128 * sizeof(float));
    return STATOR_OK;
}

stator_status launch_delta(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_delta *d = &o->delta;
    const uint32_t group = 4 * DELTA_BLOCK;
    uint64_t chunks = ARITH_MIN(b->rows, b->m->sequences);
    uint64_t each =
        d->value_heads * arith_ceil_div(d->dim_v, DELTA_BLOCK) + arith_ceil_div(d->channels, group);
    uint32_t kernel = d->dim_k <= 128 ? LAUNCH_DELTA : LAUNCH_DELTA_WIDE;
    struct launch *l = launch_add(b, kernel, op, group, chunks * each);
    CHECK(b->g->values[o->work].width == d->channels);
    launch_value_f32(b, l, o->in);
    launch_u32(l, b->g->values[o->in].width);
    launch_value_f32(b, l, o->work);
    launch_value_f32(b, l, o->out);
    launch_u32(l, b->g->values[o->out].width);
    launch_plain_weight(b, l, o->weight[0]);
    launch_plain_weight(b, l, o->weight[1]);
    stator_status st = launch_states(b, l, o);
    if (st != STATOR_OK)
        return st;
    launch_u32(l, d->beta);
    launch_u32(l, d->alpha);
    launch_f32(l, d->scale);
    launch_local(b, l, (2 * d->dim_k + 4ull * group) * sizeof(float));
    return STATOR_OK;
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
    launch_value_f32(b, l, o->in);
    launch_value_f32(b, l, o->work);
    launch_u32(l, b->g->values[o->work].width);
    launch_u32(l, g->column);
    launch_value(b, l, o->out);
    launch_u32(l, out->forms);
    launch_u32(l, out->width);
    launch_forms(l, out);
    if (o->n_weights > 0)
        launch_plain_weight(b, l, o->weight[0]);
    else
        launch_no_buffer(l);
    launch_u32(l, o->n_weights > 0);
    launch_u32(l, g->heads);
    launch_u32(l, g->dim);
    launch_u32(l, together);
    launch_f32(l, g->norm.inv_width);
    launch_f32(l, g->norm.eps);
    const uint64_t n = (uint64_t)together * g->dim;
    launch_local(b, l, n * sizeof(float));
    launch_local(b, l, 8 * 128 * sizeof(float)); /* CL_HEADS_AT_ONCE */
    launch_local(b, l, OPENCL_QUANTISE_WORDS(n) * sizeof(uint32_t));
    return STATOR_OK;
}
