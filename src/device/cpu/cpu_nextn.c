/* What the MTP head has besides a layer: its input, a pair of embedding and state for each token, and
 * the states that sequences keep. */
#include "device/cpu/cpu_member.h"

static const struct step_chunk *chunks_of(const struct member *m) {
    return (const struct step_chunk *)(m->slot + m->h->at_chunks);
}

static float *state_of(const struct member *m, const struct graph_op *op, const struct step_chunk *c) {
    uint32_t block = block_table(m, op->cache, c->slot)[0];
    CHECK(block < m->d->model.caches[op->cache].n_blocks);
    return (float *)(void *)cache_block(m, op->cache, op->cache_layer, 0, block);
}

/* The state before the chunk's token i. */
static const float *state_before(const struct member *m, const struct graph_op *op,
                                 const struct step_chunk *c, uint32_t i) {
    const uint32_t width = m->g->values[op->in].width;
    if (i > 0)
        return value_f32(m, op->in) + (size_t)(c->first + i - 1) * width;
    if (c->hidden == 0)
        return state_of(m, op, c);
    const size_t row = (size_t)c->slot * m->g->want.guess_rows + c->hidden - 1;
    return value_f32(m, op->work) + row * width;
}

static void embed(const struct member *m, const struct graph_op *op, uint32_t t, float *y) {
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const int32_t id = ((const int32_t *)(m->slot + m->h->at_tokens))[t];
    const uint32_t row = (uint32_t)(graph_is_picture(id) ? GRAPH_PICTURE(id) : id);
    CHECK(row < w->layout.rows);
    panel_decode_row(&w->layout, panel_at(m, w, row / PANEL_ROWS), row % PANEL_ROWS, y);
}

void cpu_nextn_pair(const struct member *m, const struct graph_op *op) {
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const uint32_t width = out->width / 2;
    float *temporary = own_floats(m);
    const struct step_chunk *c = chunks_of(m);
    const uint32_t norms = op->n_weights - 2; /* of two, the embedding is there */
    CHECK(norms > 0 || a.f32 != NULL);
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++) {
        while (t >= c->first + c->n)
            c++;
        float *y = a.f32 != NULL ? a.f32 + (size_t)t * out->width : temporary;
        if (norms > 0)
            embed(m, op, t, y);
        m->d->kernels.rms_norm(y, y, plain_weight(m, op->weight[norms]), width, op->norm.inv_width,
                               op->norm.eps);
        m->d->kernels.rms_norm(y + width, state_before(m, op, c, t - c->first) + op->norm.first,
                               plain_weight(m, op->weight[norms + 1]), width, op->norm.inv_width,
                               op->norm.eps);
        quantise_row(m, out, &a, t, y);
    }
}

void cpu_nextn_keep(const struct member *m, const struct graph_op *op) {
    const uint32_t width = m->g->values[op->in].width;
    const struct step_chunk *c = chunks_of(m);
    for (uint32_t i = share_begin(m, m->h->n_chunks); i < share_end(m, m->h->n_chunks); i++) {
        CHECK(c[i].tested < op->kept);
        const float *from = value_f32(m, op->in) + (size_t)(c[i].first + c[i].n - c[i].tested - 1) * width;
        float *to = value_f32(m, op->out) + (size_t)c[i].slot * op->kept * width;
        memcpy(to, from, (size_t)(c[i].tested + 1) * width * sizeof *to);
        if (op->cache != GRAPH_NONE)
            memcpy(state_of(m, op, &c[i]), from, width * sizeof *from);
    }
}
