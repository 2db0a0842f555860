/* n-gram embeddings (shape.ngram): what the rows of a token's n-grams add to the streams of its residual
 * stream, before the layer that has them. */
#include "arch/parts/parts.h"

#include <inttypes.h>
#include <math.h>

stator_status parts_check_ngram(const struct gguf *g, const struct shape *s, stator_error *e) {
    const struct shape_ngram *n = &s->ngram;
    if (n->heads == 0)
        return STATOR_OK;
    if (s->ngram_table == NULL)
        return gguf_error(g, e,
                          "tensor 'per_layer_token_embd.weight' is missing, which '%s.ple.layers' needs",
                          s->arch_name);
    const uint64_t rows = s->ngram_table->ne[1];
    for (uint32_t h = 0; h < n->heads; h++)
        if (n->offsets[h] > rows || n->sizes[h] > rows - n->offsets[h])
            return gguf_error(g, e,
                              "item %" PRIu32 " of '%s.ple.head_offsets' is %" PRIu64
                              " and of '%s.ple.head_vocab_sizes' %" PRIu64
                              ", but tensor 'per_layer_token_embd.weight' has %" PRIu64 " rows",
                              h, s->arch_name, n->offsets[h], s->arch_name, n->sizes[h], rows);
    if (n->eos >= s->vocab)
        return gguf_error(
            g, e, "key '%s.ple.eos_token_id' is %" PRIu32 ", but the vocabulary has %" PRIu32 " tokens",
            s->arch_name, n->eos, s->vocab);
    return STATOR_OK;
}

void parts_ngram_begin(struct parts *p) {
    const struct shape *s = p->s;
    const struct shape_ngram *n = &s->ngram;
    struct graph *g = p->g;
    if (n->heads == 0)
        return;
    const uint64_t kept = (uint64_t)(n->taps - 1) * n->size * shape_stream_width(s) * sizeof(float);
    const struct graph_cache c = {
        .name = "ngrams",
        .kind = GRAPH_STATE,
        .units = 1,
        .bytes = arith_round_up(ARITH_MAX(kept, (uint64_t)1), GRAPH_CACHE_ALIGN)}; /* of one tap: its least */
    p->ngrams = graph_add_cache(g, &c);
    if (n->layer < g->want.first_layer || n->layer >= g->want.end_layer)
        return;
    g->ngrams = graph_add_value(g, "n-grams", GRAPH_EXCHANGE, g->want.batch, n->heads * n->dim, GRAPH_F32);
    graph_value_halves(g, g->ngrams, g->want.result_halves);
}

void parts_ngram(struct parts *p, uint32_t i, uint32_t streams) {
    const struct shape *s = p->s;
    const struct shape_ngram_tensors *t = &s->layers[i].ngram;
    if (!shape_has_ngram(s, i))
        return;
    const uint32_t count = ARITH_MAX(s->streams.count, 1u); /* without hyper-connections it is one stream */
    const struct graph_ngram ngram = {.streams = count,
                                      .dim = s->n_embd,
                                      .taps = s->ngram.taps,
                                      .apart = s->ngram.size,
                                      .norm = parts_norm_of(s, s->n_embd),
                                      .scale = (float)(1 / sqrt((double)s->n_embd))};
    const uint32_t keys = shape_stream_width(s);
    const uint32_t in = parts_in_forms(p, i, "ngrams_in", p->g->ngrams, parts_forms(t->key, t->value, NULL));
    const uint32_t v = parts_value(p, i, "ngrams", keys + s->n_embd + count, GRAPH_F32);
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, in, v);
    graph_op_weight(p->g, op, t->key, NULL, 0);
    graph_op_weight(p->g, op, t->value, NULL, keys);
    op = graph_add_op(p->g, GRAPH_NGRAM_GATE, i, v, v);
    op->ngram = ngram;
    op->work = streams;
    graph_op_weight(p->g, op, t->norm_key, NULL, 0);
    graph_op_weight(p->g, op, t->norm_query, NULL, 0);
    graph_op_weight(p->g, op, t->norm_conv, NULL, 0);
    op = graph_add_op(p->g, GRAPH_NGRAM_CONV, i, v, streams);
    op->ngram = ngram;
    graph_op_weight(p->g, op, t->conv, NULL, 0);
    graph_op_cache(p->g, op, p->ngrams);
}
