/* Products of experts as launches: which of a layer's experts a launch takes, from where they lie or from the
 * window that spilled ones are copied to. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/shared/experts.h"
#include "kernels/shared/opencl.h"

static uint64_t expert_bytes(const struct graph_weight *w) {
    return w->layout.panels * w->layout.panel_bytes;
}

bool launch_find_experts(const struct graph *g, const struct graph_op *o, uint64_t half_bytes,
                         struct launch_experts_run *r) {
    r->end = UINT32_MAX;
    r->bytes = 0;
    for (uint32_t i = 0; i < o->n_weights; i++) {
        const struct graph_weight *w = &g->weights[o->weight[i]];
        r->piece[i] = launch_piece_of(w, r->first * w->layout.panels);
        const struct graph_piece *p = &w->pieces[r->piece[i]];
        r->copied[i] = half_bytes > 0 && p->slice >= g->weight_slices - g->spilled_slices;
        if (half_bytes == 0)
            p = &w->pieces[ARITH_MIN(r->piece[i] + 1, w->n_pieces - 1)];
        r->end = ARITH_MIN(r->end, (p->first_panel + p->panels) / w->layout.panels);
        r->bytes += r->copied[i] ? expert_bytes(w) : 0;
    }
    CHECK(r->bytes <= half_bytes);
    if (r->bytes > 0)
        r->end = (uint32_t)ARITH_MIN(r->end, r->first + half_bytes / r->bytes);
    return r->end > r->first;
}

bool launch_streams(const struct device_model *m, enum launch_part part, uint32_t rows) {
    return part == LAUNCH_BODY && m->stream.tokens > 0 && rows >= m->stream.tokens;
}

uint32_t launch_streamed(const struct device_model *m) {
    const struct graph *g = m->graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_ops && m->stream.tokens > 0; i++)
        for (struct launch_experts_run r = {0};
             g->ops[i].kind == GRAPH_EXPERTS && r.first < g->ops[i].experts.experts; r.first = r.end) {
            CHECK(launch_find_experts(g, &g->ops[i], m->stream.half_bytes, &r));
            n++;
        }
    return n;
}

/* The weight as a launch of the run finds it: where it lies, or in the window from *at on. */
static struct launch_weight run_weight(struct launch_list *b, struct launch *l, const struct graph_op *o,
                                       uint32_t i, const struct launch_experts_run *r, uint64_t *at) {
    struct launch_weight to = launch_weight_of(b, o->weight[i], r->piece[i]);
    const struct graph_weight *w = &b->g->weights[o->weight[i]];
    if (!r->copied[i])
        return to;
    const struct graph_piece *p = &w->pieces[r->piece[i]];
    const uint32_t first = r->first * w->layout.panels;
    CHECK(l->n_copies < GRAPH_OP_WEIGHTS && r->first < r->end && *at % PANEL_ALIGN == 0);
    struct launch_copy *c = &l->copies[l->n_copies++];
    *c = (struct launch_copy){
        .from = {DEVICE_WEIGHTS, p->slice, p->offset + (first - p->first_panel) * w->layout.panel_bytes},
        .to = *at,
        .bytes = (r->end - r->first) * expert_bytes(w)};
    *at += c->bytes;
    to.a = to.b = (struct launch_at){DEVICE_WINDOW, 0, c->to};
    to.first = first;
    to.cut = r->end * w->layout.panels;
    return to;
}

static uint64_t experts_items(const struct launch_list *b, const struct graph_experts *x) {
    const uint64_t slots = (uint64_t)b->rows * x->used;
    return ARITH_MIN(slots, x->experts + slots / launch_experts_tile(b, x));
}

stator_status launch_experts(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_experts *x = &o->experts;
    const bool opens = graph_op_opens_experts(o), gated = graph_op_gated(o);
    const bool hosted = b->m->hosted && !b->streams;
    const bool near = hosted && b->m->cached.n > 0; /* only the experts in slots */
    if (hosted && !near) {                          /* the back end asks the helper */
        if (!opens)
            launch_mix(b, op);
        return STATOR_OK;
    }
    const struct launch_near slots = near ? launch_near_of(b, op) : (struct launch_near){0};
    if (near && opens)
        launch_find_near(b, op);
    const uint32_t to = opens ? o->out : o->work;
    if (to == GRAPH_NONE || x->align != 1)
        return error_set(b->e, STATOR_DEVICE, "layer %u: the GPU kernels keep rows of experts apart",
                         o->layer);
    const struct graph_value *out = &b->g->values[to];
    const struct panel_layout *layout = &b->g->weights[o->weight[0]].layout;
    const struct launch_shape w = launch_experts_shape(b, o);
    const uint64_t units = arith_ceil_div(layout->panels, w.unit) * w.together;
    const uint64_t half = b->streams ? b->m->stream.half_bytes : 0;
    for (struct launch_experts_run r = {0}; r.first < (near ? slots.slots : x->experts); r.first = r.end) {
        if (near)
            r.end = slots.slots;
        else if (!launch_find_experts(b->g, o, half, &r))
            return launch_cut_too_often(b, o);
        struct launch *l = launch_add(b, w.kernel, op, w.group, experts_items(b, x) * units);
        l->half = b->streamed % 2;
        uint64_t at = l->half * half;
        const struct launch_weight w0 = near ? slots.weight[0] : run_weight(b, l, o, 0, &r, &at);
        const struct launch_weight w1 = !gated ? w0
                                        : near ? slots.weight[1]
                                               : run_weight(b, l, o, 1, &r, &at);
        b->streamed += l->n_copies > 0;
        launch_put_experts(b, l,
                           &(struct launch_experts_arguments){
                               .in = launch_source_of(b, o),
                               .w0 = w0,
                               .w1 = w1,
                               .rows = layout->rows,
                               .unit = w.unit,
                               .split = w.split,
                               .gated = gated ? (uint32_t)o->epilogue : 0, /* OPENCL_SWIGLU, OPENCL_GEGLU */
                               .gather = opens,                            /* rows of `in` are tokens */
                               .routes = near ? slots.routes : launch_floats(b, x->routes),
                               .slots = (uint64_t)b->g->want.batch * x->used,
                               .first = r.first,
                               .end = r.end,
                               .out = launch_forms_of(b, to, gated ? launch_forms_wanted(out) : GRAPH_F32),
                               .bias0 = near ? slots.bias[0] : launch_plain_weight(b, o->bias[0]),
                               .bias1 = near ? slots.bias[1] : launch_plain_weight(b, o->bias[1]),
                               .biased = launch_biased_bits(o),
                               .factor0 = near ? slots.factor[0] : launch_plain_weight(b, o->factor[0]),
                               .factor1 = near ? slots.factor[1] : launch_plain_weight(b, o->factor[1]),
                               .clamped = x->clamped,
                               .alpha = x->alpha,
                               .limit = x->limit,
                               .together = w.together,
                               .arrivals = w.arrivals,
                               .tile = w.tile,
                               .work = w.work,
                           });
    }
    if (o->epilogue == GRAPH_RELU2)
        launch_relu2(b, op, x->used);
    if (near && !opens)
        launch_take(b, op);
    if (!opens)
        launch_mix(b, op);
    return STATOR_OK;
}
