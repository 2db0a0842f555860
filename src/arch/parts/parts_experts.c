/* Mixture of experts: router, chosen experts, the shared expert. */
#include "arch/parts/parts.h"

#include "kernels/shared/act_tiles.h"
#include "kernels/shared/experts.h"

#include <stdio.h>

/* Rows of an expert begin where products may begin (struct kernels_matmul), and on devices that keep slots
 * apart one after the other. */
static struct graph_experts experts_of(const struct parts *p) {
    const struct shape_experts *x = &p->s->experts;
    const uint64_t slots = (uint64_t)p->g->want.batch * x->used;
    const uint32_t align = p->g->want.tiled ? ACT_TILE_PAIR : 1;
    const uint64_t rows = slots + (align - 1) * ARITH_MIN(slots, (uint64_t)x->count);
    CHECK(EXPERTS_WORDS(slots, rows) <= UINT32_MAX); /* graph_build has bounded it */
    return (struct graph_experts){.experts = x->count,
                                  .used = x->used,
                                  .rows = (uint32_t)rows,
                                  .align = align,
                                  .how = (x->sigmoid ? EXPERTS_SIGMOID : 0) | (x->norm ? EXPERTS_NORM : 0),
                                  .groups = x->groups,
                                  .groups_used = x->groups_used,
                                  .scale = x->scale,
                                  .clamped = x->clamped,
                                  .alpha = x->alpha,
                                  .limit = x->limit,
                                  .routes = GRAPH_NONE,
                                  .shared = GRAPH_NONE,
                                  .gate = GRAPH_NONE};
}

static uint32_t value_of_rows(struct parts *p, uint32_t layer, const char *name, uint32_t rows,
                              uint32_t width, uint32_t forms) {
    char text[32];
    snprintf(text, sizeof text, "blk.%u.%s", layer, name);
    return graph_add_value(p->g, text, GRAPH_SCRATCH, rows, width, forms);
}

static uint32_t experts_forms(const struct shape_experts_tensors *t) {
    return t->gate_up != NULL ? graph_form_for(t->gate_up) : parts_forms(t->up, t->gate, NULL);
}

uint32_t parts_experts_forms(const struct shape *s, uint32_t layer) {
    const struct shape_experts_tensors *t = &s->layers[layer].experts;
    uint32_t forms = graph_form_for(t->router);
    forms |= t->latent_down != NULL ? graph_form_for(t->latent_down) : experts_forms(t);
    if (t->shared_router != NULL)
        forms |= graph_form_for(t->shared_router);
    return t->shared_up != NULL ? forms | parts_forms(t->shared_up, t->shared_gate, NULL) : forms;
}

/* One column of logits for each expert, and behind them the shared expert's gate. */
static uint32_t add_router(struct parts *p, uint32_t i, uint32_t normed) {
    const struct shape_experts_tensors *t = &p->s->layers[i].experts;
    const uint32_t experts = p->s->experts.count;
    const bool gate = t->shared_router != NULL;
    uint32_t logits = parts_value(p, i, "ffn_router", experts + gate, GRAPH_F32);
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, normed, logits);
    graph_op_weight(p->g, op, t->router, t->router_bias, 0);
    if (gate) {
        op = graph_add_op(p->g, GRAPH_MATMUL, i, normed, logits);
        graph_op_weight(p->g, op, t->shared_router, NULL, experts);
    }
    return logits;
}

/* What the shared expert's last matrix multiplies. */
static uint32_t add_shared_inner(struct parts *p, uint32_t i, uint32_t normed, enum graph_epilogue gate) {
    const struct shape_experts_tensors *t = &p->s->layers[i].experts;
    uint32_t h =
        parts_value(p, i, "ffn_shexp_h", p->s->experts.shared_ff, GRAPH_F32 | graph_form_for(t->shared_down));
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, normed, h);
    op->epilogue = gate;
    if (t->shared_gate != NULL)
        graph_op_weight(p->g, op, t->shared_gate, NULL, 0);
    graph_op_weight(p->g, op, t->shared_up, NULL, 0);
    return h;
}

static uint32_t add_shared(struct parts *p, uint32_t i, uint32_t normed, enum graph_epilogue gate) {
    return parts_product(p, i, "ffn_shexp", add_shared_inner(p, i, normed, gate),
                         p->s->layers[i].experts.shared_down);
}

static void add_gate_up(struct graph *g, struct graph_op *op, const struct shape_experts_tensors *t,
                        uint32_t ff) {
    if (t->gate_up == NULL) {
        if (t->gate != NULL)
            graph_op_weight(g, op, t->gate, t->gate_bias, 0);
        graph_op_weight(g, op, t->up, t->up_bias, 0);
        return;
    }
    const struct gguf_tensor *biases[] = {t->gate_bias, t->up_bias};
    for (uint32_t k = 0; k < 2; k++) {
        graph_op_runs(g, op, t->gate_up, (struct graph_runs){.first = k * ff, .run = ff, .stride = 2 * ff},
                      0);
        if (biases[k] != NULL)
            op->bias[k] = graph_add_plain(g, biases[k]);
    }
}

/* out += what the experts make of `in`, which the router chooses by `normed`; or (another value than p->x)
 * out = that. */
static void add_experts(struct parts *p, uint32_t i, uint32_t normed, uint32_t in, enum graph_epilogue gate,
                        uint32_t out) {
    struct graph *g = p->g;
    const struct shape_experts_tensors *t = &p->s->layers[i].experts;
    struct graph_experts x = experts_of(p);
    const uint32_t slots = g->want.batch * x.used;
    uint32_t logits = add_router(p, i, normed);
    x.routes = value_of_rows(p, i, "ffn_routes", 1,
                             EXPERTS_WORDS(slots, x.rows) * (g->want.experts_near ? 2 : 1), GRAPH_F32);
    struct graph_op *op = graph_add_op(g, GRAPH_ROUTE, i, logits, x.routes);
    op->experts = x;
    if (t->choice_bias != NULL)
        graph_op_weight(g, op, t->choice_bias, NULL, 0);

    uint32_t h =
        value_of_rows(p, i, "ffn_experts_h", x.rows, p->s->experts.ff, GRAPH_F32 | graph_form_for(t->down));
    op = graph_add_op(g, GRAPH_EXPERTS, i, in, h);
    op->epilogue = gate;
    op->experts = x;
    add_gate_up(g, op, t, p->s->experts.ff);

    if (t->shared_up != NULL && t->latent_up == NULL)
        x.shared = add_shared(p, i, normed, gate);
    if (t->shared_router != NULL)
        x.gate = logits;
    op = graph_add_op(g, GRAPH_EXPERTS, i, h, out);
    op->epilogue = out == p->x ? parts_adding(p) : GRAPH_STORE;
    op->experts = x;
    graph_op_weight(g, op, t->down, t->down_bias, 0);
    if (g->want.experts_apart)
        op->work = value_of_rows(p, i, "ffn_experts", slots, g->values[out].width, GRAPH_F32);
}

/* Chosen experts between two matrices; router and shared expert are as wide as the residual stream. */
static void add_latent_experts(struct parts *p, uint32_t i, uint32_t normed, enum graph_epilogue gate) {
    const struct shape_experts_tensors *t = &p->s->layers[i].experts;
    const uint32_t in = parts_product(p, i, "ffn_latent", normed, t->latent_down);
    const uint32_t out = parts_value(p, i, "ffn_latent_out", p->s->experts.latent, GRAPH_F32);
    add_experts(p, i, normed, parts_in_forms(p, i, "ffn_latent_in", in, experts_forms(t)), gate, out);
    parts_add_product(p, i, parts_in_forms(p, i, "ffn_latent_up", out, graph_form_for(t->latent_up)), p->x,
                      t->latent_up, NULL);
    if (t->shared_up != NULL)
        parts_add_product(p, i, add_shared_inner(p, i, normed, gate), p->x, t->shared_down, NULL);
}

void parts_experts(struct parts *p, uint32_t i, uint32_t normed, enum graph_epilogue gate) {
    if (p->s->layers[i].experts.latent_down != NULL)
        add_latent_experts(p, i, normed, gate);
    else
        add_experts(p, i, normed, normed, gate, p->x);
}

uint32_t parts_experts_beside(struct parts *p, uint32_t i, uint32_t dense, enum graph_epilogue gate) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const struct shape_layer *l = &s->layers[i];
    const struct graph_norm norm = parts_norm_of(s, s->n_embd);
    const uint32_t sum = parts_value(p, i, "ffn_sum", s->n_embd, GRAPH_F32);
    struct graph_op *op = graph_add_op(g, GRAPH_NORM, i, dense, sum);
    op->norm = norm;
    graph_op_weight(g, op, l->own[PARTS_BEHIND_DENSE], NULL, 0);
    const uint32_t in =
        parts_norm(p, i, "experts_in", l->own[PARTS_BEFORE_EXPERTS], experts_forms(&l->experts));
    const uint32_t choice = parts_value(p, i, "router_in", s->n_embd, graph_form_for(l->experts.router));
    op = graph_add_op(g, GRAPH_NORM, i, p->x, choice);
    /* The same as the norm divided by sqrt(n_embd). */
    op->norm = (struct graph_norm){.eps = norm.eps * (float)s->n_embd, .inv_width = 1};
    graph_op_weight(g, op, l->own[PARTS_ROUTER_SCALE], NULL, 0);
    const uint32_t out = parts_value(p, i, "experts_out", s->n_embd, GRAPH_F32);
    add_experts(p, i, choice, in, gate, out);
    op = graph_add_op(g, GRAPH_NORM, i, out, sum);
    op->norm = norm;
    op->epilogue = GRAPH_RESIDUAL;
    graph_op_weight(g, op, l->own[PARTS_BEHIND_EXPERTS], NULL, 0);
    return sum;
}
