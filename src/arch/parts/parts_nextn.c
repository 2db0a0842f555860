/* The MTP head: a layer with attention behind the trunk, which drafts the token after the next one
 * from the state behind the final norm at one place and the token of the next.
 *
 * Here the two meet at the token's place: the block has at place i what follows of token i and the state of
 * i - 1, so a sequence's blocks of K and V follow from their own tokens, as everywhere, and can be shared.
 * Place 0, which has no state before it, nobody else looks at (graph_attention.skip). What it drafts at i is
 * token i + 1; the next draft takes that, and the block's own state behind its norm for the trunk's. */
#include "arch/parts/parts.h"

#include <stdio.h>

void parts_nextn_begin(struct parts *p) {
    if (p->g->want.guess_rows == 0)
        return;
    struct graph_cache c = {.name = "hidden",
                            .kind = GRAPH_STATE,
                            .units = 1,
                            .bytes =
                                arith_round_up(shape_stream_width(p->s) * sizeof(float), GRAPH_CACHE_ALIGN)};
    p->hidden = graph_add_cache(p->g, &c);
}

/* The rows that sequences keep, after the body and after a draft token; the first of them also for the next
 * body.
 */
static void keep(struct parts *p, uint32_t states, bool body) {
    const uint32_t layer = p->s->n_layers;
    struct graph_op *op = graph_add_op(p->g, GRAPH_KEEP, body ? layer : GRAPH_NONE, states, p->kept);
    op->kept = p->g->want.guess_rows;
    if (body)
        graph_op_cache(p->g, op, p->hidden);
}

/* The pair of the token's embedding and columns first .. of the state before it. */
static uint32_t add_pair(struct parts *p, const char *name, uint32_t states, uint32_t first) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const uint32_t i = s->n_layers;
    const struct shape_layer *l = &s->layers[i];
    const uint32_t pair = parts_value(p, i, name, 2 * s->n_embd, GRAPH_F32 | graph_form_for(l->nextn.pair));
    struct graph_op *op = graph_add_op(g, GRAPH_PAIR, i, states, pair);
    op->work = p->kept;
    op->norm = parts_norm_of(s, s->n_embd);
    op->norm.first = first;
    graph_op_weight(g, op, l->nextn.embed != NULL ? l->nextn.embed : s->token_embd, NULL, 0);
    graph_op_weight(g, op, l->nextn.enorm, NULL, 0);
    if (s->streams.count == 0) {
        graph_op_weight(g, op, l->nextn.hnorm, NULL, s->n_embd);
    } else {
        op->weight[op->n_weights] = graph_add_plain_run(g, l->nextn.hnorm, first, s->n_embd);
        op->column[op->n_weights++] = s->n_embd;
    }
    graph_op_cache(g, op, p->hidden);
    return pair;
}

/* The block of a model with hyper-connections. Its states are the streams, and each of them meets the
 * embedding; their last mix comes before the output matrix. */
static void add_streams_block(struct parts *p) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const uint32_t i = s->n_layers, trunk = p->streams;
    const struct shape_layer *l = &s->layers[i];
    p->guesses = parts_value(p, i, "streams", shape_stream_width(s), GRAPH_F32);
    for (uint32_t h = 0; h < s->streams.count; h++) {
        char name[16];
        snprintf(name, sizeof name, "pair.%u", h);
        const uint32_t pair = add_pair(p, name, trunk, h * s->n_embd);
        graph_op_weight(g, graph_add_op(g, GRAPH_MATMUL, i, pair, p->guesses), l->nextn.pair, NULL,
                        h * s->n_embd);
    }
    p->streams = p->guesses;
    parts_attention(p, i, parts_mix(p, i, "attn", &l->mix_attn, parts_qkv_forms(l)));
    parts_inject(p, i);
    parts_experts(p, i, parts_mix(p, i, "ffn", &l->mix_ffn, parts_experts_forms(s, i)), GRAPH_SWIGLU);
    parts_inject(p, i);
    p->guess_mix = parts_mix(p, i, "guess", &l->nextn.mix, GRAPH_F32);
    p->streams = trunk;
}

/* The same of others. */
static void add_block(struct parts *p, uint32_t states) {
    const struct shape *s = p->s;
    const uint32_t i = s->n_layers, trunk = p->x;
    const struct shape_layer *l = &s->layers[i];
    p->x = p->guesses = parts_product(p, i, "stream", add_pair(p, "pair", states, 0), l->nextn.pair);
    if (s->latent)
        parts_mla(p, i, parts_norm(p, i, "attn_norm", l->attn_norm, parts_mla_forms(l)));
    else
        parts_attention(p, i, parts_norm(p, i, "attn_norm", l->attn_norm, parts_qkv_forms(l)));
    if (s->one_part)
        parts_ungated(p, i, "ffn_norm", l->ffn_norm);
    else
        parts_feed_forward(p, i);
    p->x = trunk;
}

void parts_nextn_block(struct parts *p) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const uint32_t i = s->n_layers;
    const bool streams = p->streams != GRAPH_NONE;
    p->kept = graph_add_value(g, "guess_states", GRAPH_EXCHANGE, g->want.guess_rows * g->want.guess_sequences,
                              shape_stream_width(s), GRAPH_F32);
    const uint32_t states = streams ? p->streams : parts_norm(p, i, "states", s->output_norm, GRAPH_F32);
    g->nextn = g->n_ops;
    p->nextn = true;
    if (streams)
        add_streams_block(p);
    else
        add_block(p, states);
    p->nextn = false;
    g->nextn_end = g->n_ops;
    keep(p, states, true);
}

void parts_nextn_tail(struct parts *p) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const struct shape_nextn_tensors *t = &s->layers[s->n_layers].nextn;
    const bool streams = p->streams != GRAPH_NONE;
    const struct gguf_tensor *norm = streams ? NULL : t->norm != NULL ? t->norm : s->output_norm;
    const uint32_t trunk = p->x;
    g->guess = g->n_ops;
    p->x = p->guesses;
    const uint32_t states = graph_add_value(g, "guess_state", GRAPH_SCRATCH, g->want.logits_rows,
                                            shape_stream_width(s), GRAPH_F32);
    parts_gather(p, states, norm);
    keep(p, states, false);
    if (streams)
        p->x = p->guess_mix;
    parts_tail(p, norm, t->head != NULL ? t->head : s->output);
    p->x = trunk;
}
