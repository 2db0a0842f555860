/* Hyper-connections: what a layer's part reads of the streams, and what it adds to them. */
#include "arch/parts/parts.h"

#include <stdio.h>

/* layer GRAPH_NONE: outside layers. */
static uint32_t value(struct parts *p, uint32_t layer, const char *name, const char *what, uint32_t width,
                      uint32_t forms) {
    char text[32];
    snprintf(text, sizeof text, "%s%s", name, what);
    return layer != GRAPH_NONE ? parts_value(p, layer, text, width, forms)
                               : graph_add_value(p->g, text, GRAPH_SCRATCH, p->g->want.batch, width, forms);
}

static struct graph_streams streams_of(const struct shape *s) {
    return (struct graph_streams){.count = s->streams.count, .inverse = 1.0f / (float)s->streams.count};
}

static uint32_t product(struct parts *p, uint32_t layer, uint32_t in, uint32_t out,
                        const struct gguf_tensor *matrix) {
    graph_op_weight(p->g, graph_add_op(p->g, GRAPH_MATMUL, layer, in, out), matrix, NULL, 0);
    return out;
}

void parts_fill_streams(struct parts *p) {
    graph_add_op(p->g, GRAPH_INJECT, GRAPH_NONE, p->x, p->streams)->streams = streams_of(p->s);
}

uint32_t parts_mix(struct parts *p, uint32_t layer, const char *name, const struct shape_mix_tensors *t,
                   uint32_t forms) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const uint32_t width = shape_stream_width(s);
    const uint32_t normed =
        value(p, layer, name, "_streams", width, GRAPH_F32 | parts_forms(t->down, t->inject, NULL));
    struct graph_op *op = graph_add_op(g, GRAPH_NORM, layer, p->streams, normed);
    op->norm = parts_norm_of(s, s->n_embd);
    op->norm.parts = s->streams.count;
    op->norm.apart = true;
    graph_op_weight(g, op, t->norm, NULL, 0);

    const uint32_t low =
        product(p, layer, normed, value(p, layer, name, "_low", s->streams.rank, GRAPH_F32), t->down);
    const uint32_t bent = value(p, layer, name, "_silu", s->streams.rank, graph_form_for(t->up));
    graph_add_op(g, GRAPH_SILU, layer, low, bent)->scale = streams_of(s).inverse;
    const uint32_t gates = product(p, layer, bent, value(p, layer, name, "_gates", width, GRAPH_F32), t->up);
    if (t->inject != NULL)
        p->injects = product(p, layer, normed, value(p, layer, name, "_inject", s->streams.count, GRAPH_F32),
                             t->inject);

    const uint32_t out = value(p, layer, name, "_in", s->n_embd, forms);
    op = graph_add_op(g, GRAPH_MIX, layer, normed, out);
    op->work = gates;
    op->streams = streams_of(s);
    return out;
}

void parts_inject(struct parts *p, uint32_t layer) {
    struct graph_op *op = graph_add_op(p->g, GRAPH_INJECT, layer, p->x, p->streams);
    op->work = p->injects;
    op->epilogue = GRAPH_RESIDUAL;
    op->streams = streams_of(p->s);
}
