/* Begin and end of every graph, values and norms, and the builder of plain dense decoders. */
#include "arch/parts/parts.h"

#include "kernels/shared/kv_layout.h"

#include <stdio.h>

uint32_t parts_forms(const struct gguf_tensor *a, const struct gguf_tensor *b, const struct gguf_tensor *c) {
    uint32_t forms = graph_form_for(a);
    if (b != NULL)
        forms |= graph_form_for(b);
    if (c != NULL)
        forms |= graph_form_for(c);
    return forms;
}

uint32_t parts_qkv_forms(const struct shape_layer *l) {
    const uint32_t forms = l->qkv != NULL ? graph_form_for(l->qkv) : parts_forms(l->q, l->k, l->v);
    return l->index.q != NULL ? forms | parts_forms(l->index.q, l->index.k, NULL) : forms;
}

uint32_t parts_value(struct parts *p, uint32_t layer, const char *name, uint32_t width, uint32_t forms) {
    char text[32];
    snprintf(text, sizeof text, "blk.%u.%s", layer, name);
    return graph_add_value(p->g, text, GRAPH_SCRATCH, p->g->want.batch, width, forms);
}

uint32_t parts_cells(struct parts *p, uint32_t layer, uint32_t width) {
    char text[32];
    snprintf(text, sizeof text, "blk.%u.attn_cells", layer);
    return graph_add_value(p->g, text, GRAPH_SCRATCH, p->g->want.cells, width, GRAPH_F32);
}

struct graph_norm parts_norm_of(const struct shape *s, uint32_t width) {
    return (struct graph_norm){.eps = s->norm_eps, .inv_width = 1.0f / (float)width};
}

/* Of the residual stream, which is kept divided by what all layers' additions are to be multiplied with: one
 * multiplication less, and the same but for eps. */
static struct graph_norm stream_norm(const struct shape *s) {
    struct graph_norm n = parts_norm_of(s, s->n_embd);
    if (s->residual_scale != 0)
        n.eps /= s->residual_scale * s->residual_scale;
    return n;
}

float parts_embed_scale(const struct shape *s) {
    float scale = s->embed_scale != 0 ? s->embed_scale : 1;
    return s->residual_scale != 0 ? scale / s->residual_scale : scale;
}

static void add_norm(const struct parts *p, enum graph_kind kind, uint32_t layer, uint32_t out,
                     const struct gguf_tensor *weight) {
    struct graph_op *op = graph_add_op(p->g, kind, layer, p->x, out);
    if (weight == NULL) { /* the last mix of streams has normed it: rows as they are */
        op->norm = (struct graph_norm){.eps = 1, .inv_width = 0};
        return;
    }
    op->norm = stream_norm(p->s);
    if (kind == GRAPH_GATHER_NORM && p->s->logit_scale != 0 &&
        !shape_pools(p->s)) { /* the same as logits divided by it */
        op->norm.eps *= p->s->logit_scale * p->s->logit_scale;
        op->norm.inv_width *= p->s->logit_scale * p->s->logit_scale;
    }
    graph_op_weight(p->g, op, weight, NULL, 0);
}

void parts_gather(struct parts *p, uint32_t out, const struct gguf_tensor *norm) {
    add_norm(p, GRAPH_GATHER_NORM, GRAPH_NONE, out, norm);
}

void parts_center(struct parts *p, uint32_t layer) {
    graph_add_op(p->g, GRAPH_CENTER, layer, p->x, p->x)->norm = parts_norm_of(p->s, p->s->n_embd);
}

uint32_t parts_norm(struct parts *p, uint32_t layer, const char *name, const struct gguf_tensor *weight,
                    uint32_t forms) {
    uint32_t out = parts_value(p, layer, name, p->s->n_embd, forms);
    add_norm(p, GRAPH_NORM, layer, out, weight);
    return out;
}

uint32_t parts_stream(struct parts *p, uint32_t layer, const char *name, uint32_t forms) {
    if (forms == GRAPH_F32)
        return p->x;
    uint32_t out = parts_value(p, layer, name, p->s->n_embd, forms);
    graph_add_op(p->g, GRAPH_FORMS, layer, p->x, out);
    return out;
}

uint32_t parts_in_forms(struct parts *p, uint32_t layer, const char *name, uint32_t floats, uint32_t forms) {
    if (forms == GRAPH_F32)
        return floats;
    const uint32_t out = parts_value(p, layer, name, p->g->values[floats].width, forms);
    graph_add_op(p->g, GRAPH_FORMS, layer, floats, out);
    return out;
}

void parts_add_product(struct parts *p, uint32_t layer, uint32_t in, uint32_t out,
                       const struct gguf_tensor *matrix, const struct gguf_tensor *bias) {
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, layer, in, out);
    op->epilogue = out == p->x ? parts_adding(p) : GRAPH_RESIDUAL;
    graph_op_weight(p->g, op, matrix, bias, 0);
}

/* Two residual streams, so that one is being copied while the next is computed. */
static uint32_t boundary_value(struct graph *g, const char *name) {
    uint32_t v = graph_add_value(g, name, GRAPH_EXCHANGE, g->want.batch, g->width, GRAPH_F32);
    graph_value_halves(g, v, 2);
    return v;
}

uint32_t parts_product(struct parts *p, uint32_t layer, const char *name, uint32_t in,
                       const struct gguf_tensor *matrix) {
    uint32_t out = parts_value(p, layer, name, (uint32_t)matrix->ne[1], GRAPH_F32);
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, layer, in, out);
    graph_op_weight(p->g, op, matrix, NULL, 0);
    return out;
}

void parts_add_norm(struct parts *p, uint32_t layer, uint32_t in, const struct gguf_tensor *weight,
                    const struct gguf_tensor *scale) {
    struct graph_op *op = graph_add_op(p->g, GRAPH_NORM, layer, in, p->x);
    op->norm = parts_norm_of(p->s, p->s->n_embd);
    op->epilogue = GRAPH_RESIDUAL;
    graph_op_weight(p->g, op, weight, NULL, 0);
    if (scale != NULL)
        graph_op_weight(p->g, op, scale, NULL, 0);
}

/* window 0: all tokens. */
static uint32_t add_kv_cache(struct graph *g, const struct shape *s, uint32_t window) {
    const struct graph_want *w = &g->want;
    const struct shape_heads h =
        window > 0 && s->heads_by_kind ? s->window_heads : shape_heads_of(s, UINT32_MAX);
    struct graph_cache c = {.kind = window > 0 ? GRAPH_RING : GRAPH_PAGED,
                            .window = window,
                            .units = h.n_kv,
                            .k_bytes = kv_layout_bytes(w->kv_type_k, h.dim_k),
                            .type_k = w->kv_type_k,
                            .type_v = w->kv_type_v};
    c.bytes = c.k_bytes + (s->latent ? 0 : kv_layout_bytes(w->kv_type_v, h.dim_v));
    if (s->latent)
        c.type_v = c.type_k;
    snprintf(c.name, sizeof c.name, "%s", window > 0 ? "window" : "kv");
    return graph_add_cache(g, &c);
}

uint32_t parts_window(struct parts *p, uint32_t window) {
    return add_kv_cache(p->g, p->s, window);
}

/* Some layer of the part. */
static bool has_attention(const struct graph_want *w, const struct shape *s) {
    for (uint32_t i = w->first_layer; i < w->end_layer; i++)
        if (shape_has_attention(s, i))
            return true;
    return w->guess_rows > 0 && w->end_layer == s->n_layers;
}

/* Counts for each of `batch` tokens: its KV heads, or of latent attention as many as there may be groups of
 * heads; and in all one for each 256 values of the feed forward, which groups of a product for few tokens
 * share (kernels/opencl/cl_matmul.h); or of the rows of experts of so few tokens that most have one row. */
static uint32_t counts_each(uint32_t batch, const struct shape *s) {
    const struct shape_experts *x = &s->experts;
    const uint64_t rows = ARITH_MIN((uint64_t)batch * x->used, (uint64_t)x->count);
    const uint64_t units = ARITH_MAX(arith_ceil_div(s->n_ff, 256), rows * arith_ceil_div(x->ff, 256));
    const uint32_t heads = s->latent ? s->n_heads : s->n_kv_heads;
    return (uint32_t)ARITH_MAX((uint64_t)ARITH_MAX(heads, s->window_heads.n_kv),
                               arith_ceil_div(units, batch));
}

void parts_embed(struct parts *p, const struct gguf_tensor *t, float scale, uint32_t out) {
    struct graph_op *op = graph_add_op(p->g, GRAPH_EMBED, GRAPH_NONE, GRAPH_NONE, out);
    op->scale = scale;
    graph_op_weight(p->g, op, t, NULL, 0);
    if (p->g->want.pictures == 0 || t != p->s->token_embd || p->g->want.share.index > 0)
        return;
    p->g->pictures = graph_add_value(p->g, "pictures", GRAPH_EXCHANGE, p->g->want.batch,
                                     p->s->n_embd * p->g->want.pictures, GRAPH_F32);
    graph_value_halves(p->g, p->g->pictures, p->g->want.result_halves);
    op->work = p->g->pictures;
}

/* The first device of a group has whole rows of a value for the others. */
static struct graph_exchanged *exchange_rows(struct parts *p, uint32_t layer, uint32_t value) {
    struct graph_exchanged *x = &graph_add_op(p->g, GRAPH_EXCHANGED, layer, value, value)->exchanged;
    x->count = p->g->want.share.count;
    for (uint32_t i = 0; i < x->count; i++)
        x->ends[i] = p->g->values[value].width;
    return x;
}

void parts_pictures(struct parts *p, uint32_t layer) {
    const struct graph_share *share = &p->g->want.share;
    if (layer + 1 >= p->g->want.pictures)
        return;
    if (share->index == 0) {
        CHECK(p->g->pictures != GRAPH_NONE); /* the planner keeps these layers together */
        struct graph_op *op = graph_add_op(p->g, GRAPH_FEATURES, layer, p->g->pictures, p->x);
        op->features = (layer + 1) * p->s->n_embd;
    }
    if (share->count > 0)
        (void)exchange_rows(p, layer, p->x);
}

/* Whether the devices of a group have a panel each of the matrix. */
static bool shares_rows(const struct graph_share *share, const struct gguf_tensor *t) {
    return share->count > 0 && arith_ceil_div(t->ne[1], PANEL_ROWS) >= share->count;
}

/* Every device of a group has some rows of the embedding (owned), or the first one has all. It also has those
 * of pictures. */
void parts_embeddings(struct parts *p, uint32_t out) {
    const struct graph_share *share = &p->g->want.share;
    const bool owned = shares_rows(share, p->s->token_embd);
    if (share->index == 0 || owned)
        parts_embed(p, p->s->token_embd, parts_embed_scale(p->s), out);
    if (share->count == 0)
        return;
    struct graph_exchanged *x = exchange_rows(p, GRAPH_NONE, out);
    x->owned = owned;
    x->pictures = owned && p->g->want.pictures > 0;
}

void parts_begin(struct parts *p, struct graph *g, const struct shape *s) {
    *p =
        (struct parts){.g = g, .s = s, .streams = GRAPH_NONE, .arrivals = GRAPH_NONE, .layer_in = GRAPH_NONE};
    struct graph_angles angles = {.n_rot = s->n_rot,
                                  .base = s->rope_base,
                                  .scale = s->rope_scale,
                                  .magnitude = s->rope_magnitude,
                                  .yarn = s->rope_yarn,
                                  .divisors = s->rope_long ? s->rope_factors_short : s->rope_freqs,
                                  .divisors_long = s->rope_long ? s->rope_factors_long : NULL,
                                  .original = s->rope_original,
                                  .sections = {s->rope_sections[0], s->rope_sections[1], s->rope_sections[2]},
                                  .in_order = s->rope_in_order};
    p->angles = graph_add_angles(g, &angles);
    angles.growth = s->query_growth;
    p->angles_q = s->query_growth != 0 ? graph_add_angles(g, &angles) : GRAPH_NONE;
    p->kv = add_kv_cache(g, s, 0);
    if (s->index.ratio > 0)
        parts_index_begin(p);
    const bool streams = s->streams.count > 0;
    p->x =
        graph_add_value(g, streams ? "part" : "residual", GRAPH_SCRATCH, g->want.batch, s->n_embd, GRAPH_F32);
    if (streams)
        p->streams = graph_add_value(g, "residual", GRAPH_SCRATCH, g->want.batch, g->width, GRAPH_F32);
    const uint32_t residual = parts_residual(p);
    if (g->want.counted && has_attention(&g->want, s))
        p->arrivals = graph_add_value(g, "attn_arrivals", GRAPH_EXCHANGE, g->want.batch,
                                      counts_each(g->want.batch, s), GRAPH_F32);
    graph_add_op(g, GRAPH_FILL, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);
    if (g->want.first_layer == 0) {
        parts_embeddings(p, p->x);
        if (streams)
            parts_fill_streams(p);
        return;
    }
    if (g->want.share.index == 0) {
        g->landing = boundary_value(g, "landing");
        graph_add_op(g, GRAPH_LAND, GRAPH_NONE, g->landing, residual);
    }
    if (g->want.share.count > 0)
        (void)exchange_rows(p, GRAPH_NONE, residual);
}

static bool is_last_share(const struct graph_share *share) {
    return share->count == 0 || share->index + 1 == share->count;
}

/* The values that a step's rows go to. Of a tensor split, the other devices' columns go to the last one. */
static void add_results(struct parts *p) {
    struct graph *g = p->g;
    const uint32_t rows = g->want.logits_rows;
    if (!is_last_share(&g->want.share)) {
        g->logits = graph_add_value(g, "logits", GRAPH_SCRATCH, rows, shape_row_width(p->s), GRAPH_F32);
        return;
    }
    g->logits = graph_add_value(g, "logits", GRAPH_EXCHANGE, rows, shape_row_width(p->s), GRAPH_F32);
    graph_value_halves(g, g->logits, g->want.result_halves);
    g->picks = graph_add_value(g, "picks", GRAPH_EXCHANGE, rows, 2, GRAPH_F32);
    graph_value_halves(g, g->picks, g->want.result_halves);
}

/* The wanted rows, normed and times the first matrix behind the layers, as the second one takes them. Means
 * of rows may be taken behind both: neither has a bias. */
static uint32_t add_dense(struct parts *p) {
    struct graph *g = p->g;
    const uint32_t rows = g->want.logits_rows;
    const uint32_t form = graph_form_for(p->s->dense_in), then = graph_form_for(p->s->dense_out);
    const uint32_t normed = graph_add_value(g, "output_norm", GRAPH_SCRATCH,
                                            form == GRAPH_F32 ? rows : 2 * rows, p->s->n_embd, form);
    const uint32_t out = graph_add_value(g, "dense_2", GRAPH_SCRATCH, rows, p->s->dense, GRAPH_F32);
    add_norm(p, GRAPH_GATHER_NORM, GRAPH_NONE, normed, p->s->output_norm);
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, GRAPH_NONE, normed, out);
    op->epilogue = form == GRAPH_F32 ? GRAPH_STORE : GRAPH_PAIRS;
    graph_op_weight(g, op, p->s->dense_in, NULL, 0);
    if (then == GRAPH_F32)
        return out;
    const uint32_t in = graph_add_value(g, "dense_3", GRAPH_SCRATCH, rows, p->s->dense, then);
    graph_add_op(g, GRAPH_FORMS, GRAPH_NONE, out, in);
    return in;
}

/* Of a model that gives its hidden states: the wanted rows, normed. Of the picks only `finite` matters. */
static void add_pooled_tail(struct parts *p) {
    const uint32_t dense = p->s->dense_in != NULL ? add_dense(p) : GRAPH_NONE;
    add_results(p);
    if (dense == GRAPH_NONE)
        add_norm(p, GRAPH_GATHER_NORM, GRAPH_NONE, p->g->logits, p->s->output_norm);
    else
        graph_op_weight(p->g, graph_add_op(p->g, GRAPH_MATMUL, GRAPH_NONE, dense, p->g->logits),
                        p->s->dense_out, NULL, 0);
    graph_add_argmax(p->g);
}

void parts_tail(struct parts *p, const struct gguf_tensor *norm, const struct gguf_tensor *output) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const bool first = g->logits == GRAPH_NONE;
    /* The output matrix sees its activations at twice the bits: this one rounding would weigh as much as any
     * in the layers, and a second row of a memory-bound product is almost free. */
    uint32_t rows = g->want.logits_rows;
    uint32_t form = graph_form_for(output);
    uint32_t normed = graph_add_value(g, first ? "output_norm" : "guess_norm", GRAPH_SCRATCH,
                                      form == GRAPH_F32 ? rows : 2 * rows, s->n_embd, form);
    add_norm(p, GRAPH_GATHER_NORM, GRAPH_NONE, normed, norm);
    if (first)
        add_results(p);
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, GRAPH_NONE, normed, g->logits);
    op->epilogue = form == GRAPH_F32 ? GRAPH_STORE : GRAPH_PAIRS;
    graph_op_weight(g, op, output, NULL, 0);
    if (!is_last_share(&g->want.share))
        return;
    if (s->logit_cap != 0)
        graph_add_op(g, GRAPH_SOFTCAP, GRAPH_NONE, g->logits, g->logits)->cap = s->logit_cap;
    graph_add_argmax(g);
}

static bool shares_head(const struct parts *p) {
    return !shape_pools(p->s) && p->s->pooling != SHAPE_POOL_RANK &&
           shares_rows(&p->g->want.share, p->s->output);
}

void parts_end(struct parts *p) {
    struct graph *g = p->g;
    const bool all = g->want.end_layer == p->s->n_layers;
    g->shared_head = all && shares_head(p);
    const bool last = all && (is_last_share(&g->want.share) || g->shared_head);
    if (!all && is_last_share(&g->want.share)) {
        g->outgoing = boundary_value(g, "outgoing");
        graph_add_op(g, GRAPH_SEND, GRAPH_NONE, parts_residual(p), g->outgoing);
    }
    if (last && g->want.guess_rows > 0)
        parts_nextn_block(p);
    if (last && p->s->layer_norm)
        parts_center(p, GRAPH_NONE);
    if (last && p->streams != GRAPH_NONE)
        p->x = parts_mix(p, GRAPH_NONE, "output", &p->s->mix_out, GRAPH_F32);
    g->tail = g->n_ops;
    const bool ranks = p->s->pooling == SHAPE_POOL_RANK && p->s->classifier != NULL;
    if (last && shape_pools(p->s))
        add_pooled_tail(p);
    else if (last)
        parts_tail(p, p->s->output_norm, ranks ? p->s->classifier : p->s->output);
    if (last && g->want.guess_rows > 0)
        parts_nextn_tail(p);
}

void parts_dense(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_nextn_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
        parts_feed_forward(&p, i);
        parts_pictures(&p, i);
    }
    parts_end(&p);
}

stator_status parts_read_neox(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = shape_read_dense(g, s, e);
    s->rope_neox = true;
    return st;
}
