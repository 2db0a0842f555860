/* Delta-net layers, and those of Mamba-2, on the team: convolution, delta rule, gates. An item of the delta
 * rule is 32 columns of a head's state over all tokens of a chunk. */
#include "device/cpu/cpu_member.h"

/* Tokens of an item of the convolution. What lies before them are rows of the same value, but for the first.
 */
#define CONV_TOKENS 32

_Static_assert(CONV_TOKENS >= KERNELS_MAX_TAPS, "an item sees one item before");

static const struct step_chunk *chunks_of(const struct member *m) {
    return (const struct step_chunk *)(m->slot + m->h->at_chunks);
}

static float *state_of(const struct member *m, const struct graph_op *op, const struct step_chunk *c) {
    uint32_t block = block_table(m, op->cache, c->slot)[0];
    CHECK(block < m->d->model.caches[op->cache].n_blocks);
    return (float *)(void *)cache_block(m, op->cache, op->cache_layer, 0, block);
}

static float *window_of(const struct member *m, const struct graph_op *op, const struct step_chunk *c) {
    return state_of(m, op, c) + op->delta.window / sizeof(float);
}

/* One head of q, k or v (in this order; of ssd first those of v), from the chunk's token `from` on. */
static void conv_head(const struct member *m, const struct graph_op *op, const struct step_chunk *c,
                      uint32_t from, uint32_t head) {
    static const float ones[KERNELS_MAX_STATE] = {[0 ... KERNELS_MAX_STATE - 1] = 1.0f};
    const struct graph_delta *d = &op->delta;
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const size_t in_width = m->g->values[op->in].width, out_width = m->g->values[op->out].width;
    const bool key = d->ssd ? head >= d->value_heads : head < 2 * d->key_heads;
    const uint32_t others = d->ssd ? d->value_heads : 2 * d->key_heads; /* that lie first */
    const uint32_t mine = key ? d->dim_k : d->dim_v, theirs = key ? d->dim_v : d->dim_k;
    const uint32_t first = head < others ? head * mine : others * theirs + (head - others) * mine;
    const uint32_t n = ARITH_MIN(c->n - from, (uint32_t)CONV_TOKENS);
    const float *in = value_f32(m, op->in) + (c->first + from) * in_width + first;
    float *out = value_f32(m, op->out) + (c->first + from) * out_width + first;
    CHECK(w->n_pieces == 1);
    m->d->kernels.conv(&(struct kernels_conv){
        .out = out,
        .out_stride = out_width,
        .in = in,
        .in_stride = in_width,
        .before = from > 0 ? in - (d->taps - 1) * in_width : window_of(m, op, c) + first,
        .before_stride = from > 0 ? in_width : d->channels,
        .weights = (const float *)(const void *)panel_at(m, w, 0),
        .panel = w->layout.panel_bytes / sizeof(float),
        .first = first,
        .channels = key ? d->dim_k : d->dim_v,
        .tokens = n,
        .taps = d->taps,
        .bias = op->n_weights > 1 ? plain_weight(m, op->weight[1]) + first : NULL});
    for (uint32_t t = 0; t < n && key && !d->ssd; t++)
        m->d->kernels.rms_norm(out + t * out_width, out + t * out_width, ones, d->dim_k, 1.0f, d->eps);
}

void cpu_delta_conv(const struct member *m, const struct graph_op *op) {
    const struct graph_delta *d = &op->delta;
    const uint32_t heads = 2 * d->key_heads + d->value_heads;
    const struct step_chunk *c = chunks_of(m);
    uint64_t items = 0, base = 0;
    for (uint32_t i = 0; i < m->h->n_chunks; i++)
        items += (uint64_t)heads * arith_ceil_div(c[i].n, CONV_TOKENS);
    const uint32_t begin = share_begin(m, items), end = share_end(m, items);
    for (; base < end; c++) {
        const uint64_t here = (uint64_t)heads * arith_ceil_div(c->n, CONV_TOKENS);
        for (uint64_t i = ARITH_MAX(begin, base); i < ARITH_MIN(end, base + here); i++)
            conv_head(m, op, c, (uint32_t)((i - base) / heads) * CONV_TOKENS, (uint32_t)((i - base) % heads));
        base += here;
    }
}

/* The last taps - 1 rows of what was convolved, draft tokens apart, for the next step. */
static void keep_window(const struct member *m, const struct graph_op *op, const struct step_chunk *c) {
    const struct graph_delta *d = &op->delta;
    const size_t width = m->g->values[op->work].width;
    const float *rows = value_f32(m, op->work) + c->first * width;
    const uint32_t begin = share_begin(m, d->channels), n = share_end(m, d->channels) - begin;
    float *window = window_of(m, op, c) + begin;
    for (uint32_t i = 0; i + 1 < d->taps; i++) { /* from behind this row, so nothing is overwritten early */
        const uint32_t from = i + c->n - c->tested;
        const float *row = from + 1 < d->taps ? window + (size_t)from * d->channels
                                              : rows + (from + 1 - d->taps) * width + begin;
        memcpy(window + (size_t)i * d->channels, row, n * sizeof *row);
    }
}

typedef void delta_kernel(const struct kernels_delta *d);

/* The tokens behind those of `work`, on a copy of its state. */
static void test_guesses(delta_kernel *run, const struct kernels_delta *work, uint32_t tokens) {
    _Alignas(64) float state[KERNELS_MAX_STATE * KERNELS_COLUMNS];
    struct kernels_delta w = *work;
    const size_t in = (size_t)work->tokens * work->stride;
    memcpy(state, work->state, (size_t)work->dim_k * KERNELS_COLUMNS * sizeof *state);
    w.state = state;
    w.q += in;
    w.k += in;
    w.v += in;
    w.beta += in;
    w.alpha += in;
    w.out += (size_t)work->tokens * work->out_stride;
    w.tokens = tokens;
    run(&w);
}

static void delta_block(const struct member *m, const struct graph_op *op, const struct step_chunk *c,
                        uint32_t head, uint32_t block) {
    const struct graph_delta *d = &op->delta;
    const size_t width = m->g->values[op->in].width, out_width = m->g->values[op->out].width;
    const uint32_t blocks = (uint32_t)arith_ceil_div(d->dim_v, KERNELS_COLUMNS);
    const uint32_t column = head * d->dim_v + block * KERNELS_COLUMNS;
    const float *row = value_f32(m, op->in) + c->first * width;
    const size_t key = (size_t)delta_key(head, d->key_heads, d->grouped) * d->dim_k;
    const size_t keys = (size_t)d->key_heads * d->dim_k;
    const size_t values = (size_t)d->value_heads * d->dim_v;
    const uint32_t factor = d->ssd ? head : delta_column(head, d->grouped);
    delta_kernel *run = d->ssd ? m->d->kernels.ssd : m->d->kernels.delta;
    struct kernels_delta work = {
        .state = state_of(m, op, c) + ((size_t)head * blocks + block) * d->dim_k * KERNELS_COLUMNS,
        .q = row + key + (d->ssd ? values + keys : 0),
        .k = row + key + (d->ssd ? values : keys),
        .v = row + column + (d->ssd ? 0 : 2 * keys),
        .beta = row + d->beta + factor,
        .alpha = row + d->alpha + factor,
        .stride = width,
        .out = value_f32(m, op->out) + c->first * out_width + column,
        .out_stride = out_width,
        .tokens = c->n - c->tested,
        .dim_k = d->dim_k,
        .columns = ARITH_MIN(d->dim_v - block * KERNELS_COLUMNS, (uint32_t)KERNELS_COLUMNS),
        .bias = plain_weight(m, op->weight[0])[head],
        .a = plain_weight(m, op->weight[1])[head],
        .scale = d->scale,
        .skip = d->ssd ? plain_weight(m, op->weight[2])[head] : 0};
    run(&work);
    if (c->tested > 0)
        test_guesses(run, &work, c->tested);
}

void cpu_delta_rule(const struct member *m, const struct graph_op *op) {
    const struct graph_delta *d = &op->delta;
    const struct step_chunk *c = chunks_of(m);
    const uint32_t blocks = (uint32_t)arith_ceil_div(d->dim_v, KERNELS_COLUMNS),
                   here = d->value_heads * blocks;
    for (uint32_t i = 0; i < m->h->n_chunks; i++)
        keep_window(m, op, &c[i]);
    const uint64_t items = (uint64_t)m->h->n_chunks * here;
    struct team_share share = team_share_begin(m->d->team, m->id, m->lane, items);
    for (uint64_t first, end; team_share_take(&share, 1, items, &first, &end);)
        for (uint64_t i = first; i < end; i++)
            delta_block(m, op, &c[i / here], (uint32_t)(i % here) / blocks, (uint32_t)(i % here) % blocks);
}

/* Heads that are gated together, so that groups of int8 are whole: all, where they do not come out even. */
static uint32_t heads_together(const struct graph_gate *g, uint32_t group) {
    uint32_t n = 1;
    while (group > 0 && n < g->heads && (uint64_t)n * g->dim % group != 0)
        n++;
    return g->heads % n == 0 ? n : g->heads;
}

void cpu_delta_gate(const struct member *m, const struct graph_op *op) {
    const struct graph_gate *g = &op->gate;
    const struct kernels *k = &m->d->kernels;
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const float *norm = op->n_weights > 0 ? plain_weight(m, op->weight[0]) : NULL;
    const uint32_t together = heads_together(g, int8_group(out)), parts = g->heads / together;
    const uint32_t n = together * g->dim;
    CHECK(g->heads % together == 0 && g->heads * g->dim == out->width);
    const uint64_t items = (uint64_t)m->h->n_tokens * parts;
    for (uint64_t i = share_begin(m, items); i < share_end(m, items); i++) {
        const uint32_t t = (uint32_t)(i / parts), column = (uint32_t)(i % parts) * n;
        const float *x = value_f32(m, op->in) + (size_t)t * out->width + column;
        const float *gate =
            value_f32(m, op->work) + (size_t)t * m->g->values[op->work].width + g->column + column;
        float *y = a.f32 + (size_t)t * out->width + column;
        if (g->gelu) {
            k->gelu_mul(y, x, gate, n);
        } else if (g->early) {
            k->silu_mul(y, gate, x, n);
            for (uint32_t h = 0; h < n; h += g->dim)
                k->rms_norm(y + h, y + h, norm + column + h, g->dim, g->norm.inv_width, g->norm.eps);
        } else if (norm == NULL) {
            k->sigmoid_mul(y, gate, x, n);
        } else {
            for (uint32_t h = 0; h < n; h += g->dim)
                k->rms_norm(y + h, x + h, norm, g->dim, g->norm.inv_width, g->norm.eps);
            (g->sigmoid ? k->sigmoid_mul : k->silu_mul)(y, gate, y, n);
        }
        quantise_part(m, out, &a, t, column, n, y);
    }
}
