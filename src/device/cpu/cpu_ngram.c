/* n-gram embeddings on the team. An item of the gate is a stream of a token; of the convolution, a part of
 * the channels of a chunk. */
#include "device/cpu/cpu_member.h"

#include "kernels/shared/ngram_gate.h"

#define PART     256 /* channels of an item */
#define TOGETHER 16  /* tokens that are convolved at a time, `apart` from each other */

_Static_assert(TOGETHER + 1 >= KERNELS_MAX_TAPS, "what is kept is seen by the first of them alone");

/* Where things are in a row of `in`. */
struct columns {
    size_t row, value, factors;
};

static struct columns columns_of(const struct member *m, const struct graph_op *op) {
    const struct graph_ngram *n = &op->ngram;
    const size_t keys = (size_t)n->streams * n->dim;
    CHECK(m->g->values[op->in].width == keys + n->dim + n->streams);
    return (struct columns){.row = keys + n->dim + n->streams, .value = keys, .factors = keys + n->dim};
}

void cpu_ngram_gate(const struct member *m, const struct graph_op *op) {
    const struct graph_ngram *n = &op->ngram;
    const struct columns at = columns_of(m, op);
    const struct kernels *k = &m->d->kernels;
    const float *of_key = plain_weight(m, op->weight[0]), *of_stream = plain_weight(m, op->weight[1]);
    const float *of_conv = plain_weight(m, op->weight[2]);
    float *temporary = own_floats(m);
    const uint64_t items = (uint64_t)m->h->n_tokens * n->streams;
    CHECK(op->in == op->out && m->g->values[op->work].width == at.value);
    for (uint64_t i = share_begin(m, items); i < share_end(m, items); i++) {
        const size_t t = i / n->streams, h = i % n->streams, first = h * n->dim;
        float *row = value_f32(m, op->in) + t * at.row, *key = row + first;
        k->rms_norm(key, key, of_key + first, n->dim, n->norm.inv_width, n->norm.eps);
        k->rms_norm(temporary, value_f32(m, op->work) + t * at.value + first, of_stream + first, n->dim,
                    n->norm.inv_width, n->norm.eps);
        const float factor = ngram_gate_of(k->dot(key, temporary, n->dim), n->scale);
        row[at.factors + h] = factor;
        for (uint32_t c = 0; c < n->dim; c++)
            key[c] = row[at.value + c] * factor;
        k->rms_norm(key, key, of_conv + first, n->dim, n->norm.inv_width, n->norm.eps);
    }
}

/* Channels first .. first + n of one stream, of a chunk. */
struct part {
    const struct graph_op *op;
    struct columns at;
    const float *in; /* of the chunk's first token */
    float *out;
    float *kept;
    uint32_t tokens, tested;
    uint32_t stream, first, n; /* first: of all channels */
};

/* Tokens from, from + apart, ..: `count` of them. */
static void convolve(const struct member *m, const struct part *p, uint32_t from, uint32_t count) {
    const struct graph_ngram *n = &p->op->ngram;
    const struct graph_weight *w = &m->g->weights[p->op->weight[0]];
    const uint32_t back = (n->taps - 1) * n->apart;
    const float *rows = p->in + p->first;
    _Alignas(64) float y[TOGETHER * PART];
    const struct kernels_conv c = {.out = y,
                                   .in = rows + from * p->at.row,
                                   .out_stride = p->n,
                                   .in_stride = n->apart * p->at.row,
                                   .before = from < back ? p->kept + (size_t)from * p->at.value + p->first
                                                         : rows + (from - back) * p->at.row,
                                   .before_stride = n->apart * (from < back ? p->at.value : p->at.row),
                                   .weights = (const float *)(const void *)panel_at(m, w, 0),
                                   .panel = w->layout.panel_bytes / sizeof(float),
                                   .first = p->first,
                                   .channels = p->n,
                                   .tokens = count,
                                   .taps = n->taps};
    CHECK(w->n_pieces == 1 && count <= TOGETHER && p->n <= PART);
    m->d->kernels.conv(&c);
    for (uint32_t k = 0; k < count; k++) {
        const size_t t = from + (size_t)k * n->apart;
        const float *row = p->in + t * p->at.row;
        const float *value = row + p->at.value + (p->first - p->stream * n->dim);
        const float factor = row[p->at.factors + p->stream];
        float *x = p->out + t * p->at.value + p->first;
        for (uint32_t i = 0; i < p->n; i++)
            x[i] = x[i] + (value[i] * factor + y[k * p->n + i]);
    }
}

/* The rows of the last tokens, draft tokens apart, for the next step. From behind each row that is written,
 * so nothing is overwritten early. */
static void keep(const struct part *p) {
    const struct graph_ngram *n = &p->op->ngram;
    const uint32_t back = (n->taps - 1) * n->apart, known = p->tokens - p->tested;
    for (uint32_t i = 0; i < back; i++) {
        const uint32_t from = i + known;
        const float *row = from < back ? p->kept + (size_t)from * p->at.value + p->first
                                       : p->in + (from - back) * p->at.row + p->first;
        memmove(p->kept + (size_t)i * p->at.value + p->first, row, p->n * sizeof *row);
    }
}

static void run_part(const struct member *m, const struct part *p) {
    const uint32_t apart = p->op->ngram.apart;
    for (uint32_t r = 0; r < ARITH_MIN(apart, p->tokens); r++)
        for (uint32_t from = r; from < p->tokens; from += TOGETHER * apart)
            convolve(m, p, from, ARITH_MIN((p->tokens - from + apart - 1) / apart, (uint32_t)TOGETHER));
    keep(p);
}

void cpu_ngram_conv(const struct member *m, const struct graph_op *op) {
    const struct graph_ngram *n = &op->ngram;
    const struct columns at = columns_of(m, op);
    const struct step_chunk *chunks = (const struct step_chunk *)(m->slot + m->h->at_chunks);
    const uint32_t parts = (uint32_t)arith_ceil_div(n->dim, PART), each = n->streams * parts;
    const uint64_t items = (uint64_t)m->h->n_chunks * each;
    CHECK(m->g->values[op->out].width == at.value);
    for (uint64_t i = share_begin(m, items); i < share_end(m, items); i++) {
        const struct step_chunk *c = chunks + i / each;
        const uint32_t stream = (uint32_t)(i % each / parts), from = (uint32_t)(i % parts) * PART;
        const uint32_t block = block_table(m, op->cache, c->slot)[0];
        const struct part p = {.op = op,
                               .at = at,
                               .in = value_f32(m, op->in) + c->first * at.row,
                               .out = value_f32(m, op->out) + c->first * at.value,
                               .kept = (float *)(void *)cache_block(m, op->cache, op->cache_layer, 0, block),
                               .tokens = c->n,
                               .tested = c->tested,
                               .stream = stream,
                               .first = stream * n->dim + from,
                               .n = ARITH_MIN(n->dim - from, (uint32_t)PART)};
        run_part(m, &p);
    }
}
