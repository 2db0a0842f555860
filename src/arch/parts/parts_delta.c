/* Gated delta-net layers: products, convolution, delta rule, norm and gate, product. */
#include "arch/parts/parts.h"

#include "kernels/shared/delta.h"

#include <math.h>

static struct graph_delta delta_of(const struct shape *s) {
    const struct shape_delta *d = &s->delta;
    const uint64_t blocks = arith_ceil_div(d->dim_v, DELTA_BLOCK);
    struct graph_delta g = {.key_heads = d->key_heads,
                            .value_heads = d->value_heads,
                            .dim_k = d->dim_k,
                            .dim_v = d->dim_v,
                            .taps = d->taps,
                            .channels = 2 * d->key_heads * d->dim_k + d->value_heads * d->dim_v,
                            .eps = s->norm_eps,
                            .scale = (float)(1 / sqrt((double)d->dim_k))};
    g.ssd = d->ssd;
    g.beta = g.channels + d->value_heads * d->dim_v;
    g.window = d->value_heads * blocks * d->dim_k * DELTA_BLOCK * sizeof(float);
    if (d->ssd) { /* no betas; value heads of a key head lie together */
        g.grouped = d->value_heads / d->key_heads;
        g.alpha = g.beta;
        return g;
    }
    g.grouped = d->grouped ? d->value_heads / d->key_heads : 0;
    g.alpha = g.beta + (d->grouped ? g.grouped : d->value_heads);
    return g;
}

void parts_delta_begin(struct parts *p) {
    const struct graph_delta d = delta_of(p->s);
    const uint64_t window = (uint64_t)(d.taps - 1) * d.channels * sizeof(float);
    struct graph_cache c = {.name = "state",
                            .kind = GRAPH_STATE,
                            .units = 1,
                            .bytes = arith_round_up(d.window + window, GRAPH_CACHE_ALIGN)};
    p->state = graph_add_cache(p->g, &c);
}

uint32_t parts_delta_forms(const struct shape_layer *l) {
    const uint32_t forms = parts_forms(l->own[PARTS_BETA], l->own[PARTS_ALPHA], l->own[PARTS_QKVZ]);
    return l->own[PARTS_QKV] != NULL ? forms | parts_forms(l->own[PARTS_QKV], l->own[PARTS_Z], NULL) : forms;
}

/* Each its own op: GPU kernels multiply one matrix at a time. */
static void add_product(struct parts *p, uint32_t i, uint32_t in, uint32_t out, uint32_t own,
                        uint32_t column) {
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, in, out);
    graph_op_weight(p->g, op, p->s->layers[i].own[own], NULL, column);
}

/* The same with `run` rows of each key head's of PARTS_QKVZ, from its row `first` on. */
static void add_runs(struct parts *p, uint32_t i, uint32_t in, uint32_t out, uint32_t first, uint32_t run,
                     uint32_t column) {
    const struct gguf_tensor *t = p->s->layers[i].own[PARTS_QKVZ];
    const struct graph_runs runs = {
        .first = first, .run = run, .stride = (uint32_t)(t->ne[1] / p->s->delta.key_heads)};
    graph_op_runs(p->g, graph_add_op(p->g, GRAPH_MATMUL, i, in, out), t, runs, column);
}

/* q, k and v to qkv, the output's gates behind the channels of heads. */
static void add_qkvz(struct parts *p, uint32_t i, uint32_t normed, uint32_t qkv, uint32_t heads,
                     const struct graph_delta *d) {
    const uint32_t k = d->dim_k, v = d->value_heads / d->key_heads * d->dim_v;
    add_runs(p, i, normed, qkv, 0, k, 0);
    add_runs(p, i, normed, qkv, k, k, d->key_heads * k);
    add_runs(p, i, normed, qkv, 2 * k, v, 2 * d->key_heads * k);
    add_runs(p, i, normed, heads, 2 * k + v, v, d->channels);
}

void parts_delta(struct parts *p, uint32_t i, uint32_t normed) {
    struct graph *g = p->g;
    const struct gguf_tensor *const *own = p->s->layers[i].own;
    const struct graph_delta d = delta_of(p->s);
    const uint32_t width = d.value_heads * d.dim_v;
    uint32_t qkv = parts_value(p, i, "qkv", d.channels, GRAPH_F32);
    /* q, k, v after the convolution; gates of the output; beta, alpha */
    uint32_t heads = parts_value(p, i, "heads", d.beta + 2 * d.value_heads, GRAPH_F32);
    if (own[PARTS_QKVZ] != NULL) {
        add_qkvz(p, i, normed, qkv, heads, &d);
    } else {
        add_product(p, i, normed, qkv, PARTS_QKV, 0);
        add_product(p, i, normed, heads, PARTS_Z, d.channels);
    }
    add_product(p, i, normed, heads, PARTS_BETA, d.beta);
    if (own[PARTS_ALPHA] != NULL)
        add_product(p, i, normed, heads, PARTS_ALPHA, d.alpha);
    struct graph_op *op = graph_add_op(g, GRAPH_CONV, i, qkv, heads);
    op->delta = d;
    graph_op_weight(g, op, own[PARTS_CONV], NULL, 0);
    graph_op_cache(g, op, p->state);

    uint32_t out = parts_value(p, i, "delta", width, GRAPH_F32);
    op = graph_add_op(g, GRAPH_DELTA, i, heads, out);
    op->work = qkv;
    op->delta = d;
    graph_op_weight(g, op, own[PARTS_DT], NULL, 0);
    graph_op_weight(g, op, own[PARTS_A], NULL, 0);
    graph_op_cache(g, op, p->state);

    const struct graph_gate gate = {.heads = d.value_heads,
                                    .dim = d.dim_v,
                                    .column = d.channels,
                                    .norm = parts_norm_of(p->s, d.dim_v),
                                    .sigmoid = p->s->delta.sigmoid};
    uint32_t gated = parts_gate(p, i, out, heads, &gate, own[PARTS_HEAD_NORM], own[PARTS_OUT]);
    parts_add_product(p, i, gated, p->x, own[PARTS_OUT], NULL);
}

static void add_plain(struct parts *p, struct graph_op *op, const struct gguf_tensor *t) {
    op->weight[op->n_weights++] = graph_add_plain(p->g, t);
}

void parts_ssd(struct parts *p, uint32_t i, uint32_t normed) {
    struct graph *g = p->g;
    const struct gguf_tensor *const *own = p->s->layers[i].own;
    const struct graph_delta d = delta_of(p->s);
    const uint32_t width = d.value_heads * d.dim_v, rows = (uint32_t)own[PARTS_QKVZ]->ne[1];
    const uint32_t xbc = parts_value(p, i, "xbc", d.channels, GRAPH_F32);
    /* x, B, C after the convolution; gates of the output; dt */
    const uint32_t heads = parts_value(p, i, "heads", d.beta + d.value_heads, GRAPH_F32);
    const struct {
        uint32_t out, first, run, column;
    } products[] = {{xbc, width, d.channels, 0},
                    {heads, 0, width, d.channels},
                    {heads, width + d.channels, d.value_heads, d.alpha}};
    for (uint32_t k = 0; k < 3; k++)
        graph_op_runs(g, graph_add_op(g, GRAPH_MATMUL, i, normed, products[k].out), own[PARTS_QKVZ],
                      (struct graph_runs){.first = products[k].first, .run = products[k].run, .stride = rows},
                      products[k].column);
    struct graph_op *op = graph_add_op(g, GRAPH_CONV, i, xbc, heads);
    op->delta = d;
    graph_op_weight(g, op, own[PARTS_CONV], NULL, 0);
    if (own[PARTS_CONV_BIAS] != NULL)
        add_plain(p, op, own[PARTS_CONV_BIAS]);
    graph_op_cache(g, op, p->state);

    uint32_t out = parts_value(p, i, "states", width, GRAPH_F32);
    op = graph_add_op(g, GRAPH_DELTA, i, heads, out);
    op->work = xbc;
    op->delta = d;
    add_plain(p, op, own[PARTS_DT]);
    add_plain(p, op, own[PARTS_A]);
    add_plain(p, op, own[PARTS_SKIP]);
    graph_op_cache(g, op, p->state);

    const uint32_t dim = width / d.key_heads;
    const uint32_t gated = parts_value(p, i, "gated", width, GRAPH_F32 | graph_form_for(own[PARTS_OUT]));
    op = graph_add_op(g, GRAPH_GATE, i, out, gated);
    op->work = heads;
    op->gate = (struct graph_gate){.heads = d.key_heads,
                                   .dim = dim,
                                   .column = d.channels,
                                   .norm = parts_norm_of(p->s, dim),
                                   .early = true};
    add_plain(p, op, own[PARTS_HEAD_NORM]);
    parts_add_product(p, i, gated, p->x, own[PARTS_OUT], NULL);
}

stator_status parts_read_hybrid(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = shape_read_nextn(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_delta(g, s, e);
    if (st == STATOR_OK && s->head_dim_k != s->head_dim_v)
        st = gguf_error(g, e,
                        "key '%s.attention.value_length' is %u, but gates lie beside heads of q, and "
                        "attention.key_length is %u: only equal ones are supported",
                        s->arch_name, s->head_dim_v, s->head_dim_k);
    s->gated = s->rope_neox = true;
    return st;
}

void parts_hybrid(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_delta_begin(&p);
    parts_nextn_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        if (shape_is_delta(s, i))
            parts_delta(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_delta_forms(l)));
        else
            parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        parts_feed_forward(&p, i);
        parts_pictures(&p, i);
    }
    parts_end(&p);
}
