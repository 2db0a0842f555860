/* The ops of vision towers, and attention where all tokens of a chunk see each other. */
#include "device/cpu/cpu_member.h"

void cpu_tower_gelu(const struct member *m, const struct graph_op *op) {
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const float *in = value_f32(m, op->in);
    const uint32_t n = member_rows(m, op);
    for (uint32_t t = share_begin(m, n); t < share_end(m, n); t++) {
        float *y = floats_at(m, &a, out->width, t, 0);
        m->d->kernels.gelu_erf(y, in + (size_t)t * out->width, out->width);
        quantise_row(m, out, &a, t, y);
    }
}

void cpu_tower_merge(const struct member *m, const struct graph_op *op) {
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const float *in = value_f32(m, op->in);
    const uint32_t rows = op->merge.rows, width = op->merge.mean ? out->width : out->width / rows;
    const float *scale = op->n_weights > 0 ? plain_weight(m, op->weight[0]) : NULL;
    const float *shift = scale != NULL ? plain_weight(m, op->bias[0]) : NULL;
    CHECK(width == m->g->values[op->in].width && (scale == NULL || op->merge.mean));
    for (uint32_t t = share_begin(m, m->h->n_rows); t < share_end(m, m->h->n_rows); t++) {
        const float *x = in + (size_t)t * rows * width;
        float *y = floats_at(m, &a, out->width, t, 0);
        if (op->merge.mean)
            memset(y, 0, width * sizeof *y);
        else if (!op->merge.woven)
            memcpy(y, x, out->width * sizeof *y);
        for (uint32_t k = 0; op->merge.mean && k < rows; k++)
            m->d->kernels.add_scaled(y, x + (size_t)k * width, op->merge.factor, width);
        for (uint32_t c = 0; scale != NULL && c < width; c++)
            y[c] = (y[c] - shift[c]) * scale[c];
        for (uint32_t c = 0; op->merge.woven && c < width; c++)
            for (uint32_t k = 0; k < rows; k++)
                y[c * rows + k] = x[(size_t)k * width + c];
        quantise_row(m, out, &a, t, y);
    }
}

void cpu_tower_project(const struct member *m, const struct graph_op *op) {
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const size_t in_width = m->g->values[op->in].width, out_width = m->g->values[op->out].width;
    const uint32_t begin = share_begin(m, m->h->n_rows), end = share_end(m, m->h->n_rows);
    const float *in = value_f32(m, op->in);
    float *out = value_f32(m, op->out) + op->column[0];
    float *row = own_floats(m);
    CHECK(w->layout.rows == in_width && op->column[0] + w->layout.cols <= out_width);
    for (uint32_t t = begin; t < end; t++)
        memset(out + t * out_width, 0, w->layout.cols * sizeof *out);
    for (uint32_t k = 0; k < w->layout.rows && begin < end; k++) {
        panel_decode_row(&w->layout, panel_at(m, w, k / PANEL_ROWS), k % PANEL_ROWS, row);
        for (uint32_t t = begin; t < end; t++)
            m->d->kernels.add_scaled(out + t * out_width, row, in[t * in_width + k], w->layout.cols);
    }
}

void cpu_tower_blend(const struct member *m, const struct graph_op *op) {
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const struct step_blend *blends = (const struct step_blend *)(const void *)value_f32(m, op->in);
    const uint32_t width = m->g->values[op->out].width;
    float *row = own_floats(m);
    CHECK(width == w->layout.cols);
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++)
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t at = blends[t].row[k];
            CHECK(at < w->layout.rows);
            panel_decode_row(&w->layout, panel_at(m, w, at / PANEL_ROWS), at % PANEL_ROWS, row);
            m->d->kernels.add_scaled(value_f32(m, op->out) + (size_t)t * width, row, blends[t].factor[k],
                                     width);
        }
}

void cpu_tower_spread(const struct member *m, const struct graph_op *op) {
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const uint32_t from = op->spread.from, to = op->spread.to, both = ARITH_MIN(from, to);
    const uint32_t heads = out->width / to;
    CHECK(m->g->values[op->in].width == heads * from && out->width == heads * to);
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++) {
        const float *x = value_f32(m, op->in) + (size_t)t * heads * from;
        float *y = floats_at(m, &a, out->width, t, 0);
        for (uint32_t h = 0; h < heads; h++) {
            memcpy(y + (size_t)h * to, x + (size_t)h * from, both * sizeof *y);
            memset(y + (size_t)h * to + both, 0, (to - both) * sizeof *y);
        }
        quantise_row(m, out, &a, t, y);
    }
}

void cpu_tower_features(const struct member *m, const struct graph_op *op) {
    const int32_t *tokens = (const int32_t *)(const void *)(m->slot + m->h->at_tokens);
    const uint32_t width = m->g->values[op->out].width, stride = m->g->values[op->in].width;
    const float *in = value_f32(m, op->in) + op->features;
    float *x = value_f32(m, op->out);
    CHECK(op->features + width <= stride);
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++)
        if (graph_is_picture(tokens[t]))
            m->d->kernels.add(x + (size_t)t * width, x + (size_t)t * width, in + (size_t)t * stride, width);
}

bool cpu_tower_groups_queries(const struct member *m, const struct graph_op *op) {
    return op->attention.both && !op->attention.latent && op->n_weights == 0 &&
           m->g->caches[op->cache].window == 0;
}

/* Queries of one head that the kernel takes at a time where each sees all tokens of its chunk: it computes
 * them as the query heads that share a KV head, at the place of the chunk's last token. So they are, bit for
 * bit, what kernels.attention says. */
static void run_part(const struct member *m, const struct graph_op *op, const struct step_chunk *c,
                     uint32_t head, uint32_t first, uint32_t n, uint32_t window) {
    const struct graph_attention *g = &op->attention;
    const uint32_t in_width = m->g->values[op->in].width;
    const struct graph_value *out = &m->g->values[op->out];
    const uint32_t kv_head = head / (g->heads / g->kv_heads);
    struct kernels_attention a = cpu_step_attention(m, op, c, kv_head, 0, 1);
    float *q = a.work + kernels_attention_work(1, KERNELS_MAX_GROUP, g->dim_k, g->dim_v);
    float *y = q + (size_t)KERNELS_MAX_GROUP * g->dim_k;
    const float *from =
        value_f32(m, op->in) + (size_t)(c->first + first) * in_width + (size_t)head * g->dim_k;
    for (uint32_t i = 0; i < n; i++)
        memcpy(q + (size_t)i * g->dim_k, from + (size_t)i * in_width, g->dim_k * sizeof *q);
    a.q = q;
    a.out = y;
    a.q_stride = (size_t)n * g->dim_k;
    a.out_stride = (size_t)n * g->dim_v;
    a.group = n;
    a.window = window;
    m->d->kernels.attention(&a);
    float *to = value_f32(m, op->out) + (size_t)(c->first + first) * out->width + (size_t)head * g->dim_v;
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * out->width, y + (size_t)i * g->dim_v, g->dim_v * sizeof *y);
}

/* As if each window were a chunk of its own, whose queries see as many tokens as it has. */
static void windows_attention(const struct member *m, const struct graph_op *op, const struct step_chunk *c) {
    const struct step_window *w = (const struct step_window *)(const void *)value_f32(m, op->work);
    const uint32_t n = w->all;
    const uint64_t items = (uint64_t)n * op->attention.heads;
    struct team_share share = team_share_begin(m->d->team, m->id, m->lane, items);
    for (uint64_t i, end; team_share_take(&share, 1, items, &i, &end);)
        for (; i < end; i++) {
            const struct step_window *own = &w[w[i % n].kth];
            const struct step_chunk part = {
                .slot = c->slot, .first = c->first + own->first, .n = own->n, .position = own->first};
            for (uint32_t q = 0; q < own->n; q += KERNELS_MAX_GROUP)
                run_part(m, op, &part, (uint32_t)(i / n), q,
                         ARITH_MIN(own->n - q, (uint32_t)KERNELS_MAX_GROUP), own->n);
        }
}

void cpu_tower_attention(const struct member *m, const struct graph_op *op) {
    const struct step_chunk *chunks = (const struct step_chunk *)(m->slot + m->h->at_chunks);
    for (uint32_t c = 0; c < m->h->n_chunks; c++) {
        CHECK(op->n_weights == 0);
        if (op->attention.windows) {
            CHECK(m->h->n_chunks == 1);
            windows_attention(m, op, chunks);
            break;
        }
        const uint32_t parts = (chunks[c].n + KERNELS_MAX_GROUP - 1) / KERNELS_MAX_GROUP;
        const uint64_t items = (uint64_t)parts * op->attention.heads;
        struct team_share share = team_share_begin(m->d->team, m->id, m->lane, items);
        for (uint64_t i, end; team_share_take(&share, 1, items, &i, &end);)
            for (; i < end; i++) {
                const uint32_t first = (uint32_t)(i % parts) * KERNELS_MAX_GROUP;
                run_part(m, op, &chunks[c], (uint32_t)(i / parts), first,
                         ARITH_MIN(chunks[c].n - first, (uint32_t)KERNELS_MAX_GROUP), 0);
            }
        if (c + 1 < m->h->n_chunks)
            team_barrier(m->d->team, m->id); /* each share begins together */
    }
    cpu_step_quantise(m, op);
}
