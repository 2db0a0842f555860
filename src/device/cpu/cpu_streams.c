/* Hyper-connections: norms of parts of rows, and what layers read of the streams and add to them. */
#include "device/cpu/cpu_member.h"

#include "kernels/shared/num.h"

/* Columns of a row that a member makes together: a multiple of what int8 forms take together, or all. */
static uint32_t columns_together(const struct graph_value *out, uint32_t wanted) {
    const uint32_t group = int8_group(out);
    return group == 0 || wanted % group == 0 ? wanted : out->width;
}

void cpu_streams_norm(const struct member *m, const struct graph_op *op) {
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const uint32_t width = out->width / op->norm.parts, together = columns_together(out, width);
    const uint64_t parts = out->width / together, items = (uint64_t)member_rows(m, op) * parts;
    const float *in = value_f32(m, op->in), *weight = plain_weight(m, op->weight[0]);
    CHECK(out->width % op->norm.parts == 0 && op->epilogue == GRAPH_STORE && op->n_weights == 1 &&
          m->g->weights[op->weight[0]].tensor->ne[0] == out->width);
    for (uint64_t i = share_begin(m, items); i < share_end(m, items); i++) {
        const uint32_t t = (uint32_t)(i / parts), column = (uint32_t)(i % parts) * together;
        const float *x = in + (size_t)t * out->width + column;
        float *y = floats_at(m, &a, out->width, t, column);
        for (uint32_t at = 0; at < together; at += width)
            m->d->kernels.rms_norm(y + at, x + at, weight + column + at, width, op->norm.inv_width,
                                   op->norm.eps);
        quantise_part(m, out, &a, t, column, together, y);
    }
}

void cpu_streams_silu(const struct member *m, const struct graph_op *op) {
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const uint32_t n = member_rows(m, op);
    for (uint32_t t = share_begin(m, n); t < share_end(m, n); t++) {
        const float *x = value_f32(m, op->in) + (size_t)t * out->width;
        float *y = floats_at(m, &a, out->width, t, 0);
        for (uint32_t i = 0; i < out->width; i++)
            y[i] = x[i] * op->scale;
        m->d->kernels.sigmoid_mul(y, y, y, out->width);
        quantise_row(m, out, &a, t, y);
    }
}

void cpu_streams_mix(const struct member *m, const struct graph_op *op) {
    enum { COLUMNS = 256 };
    const struct kernels *k = &m->d->kernels;
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const uint32_t count = op->streams.count, width = out->width;
    const uint64_t parts = arith_ceil_div(width, COLUMNS), items = (uint64_t)member_rows(m, op) * parts;
    CHECK(m->g->values[op->in].width == count * width && m->g->values[op->work].width == count * width);
    for (uint64_t i = share_begin(m, items); i < share_end(m, items); i++) {
        const uint32_t t = (uint32_t)(i / parts), column = (uint32_t)(i % parts) * COLUMNS;
        const uint32_t n = ARITH_MIN(width - column, (uint32_t)COLUMNS);
        const size_t first = (size_t)t * count * width + column;
        float *y = floats_at(m, &a, out->width, t, column), term[COLUMNS];
        for (uint32_t h = 0; h < count; h++) {
            const size_t at = first + (size_t)h * width;
            k->sigmoid_mul(h == 0 ? y : term, value_f32(m, op->work) + at, value_f32(m, op->in) + at, n);
            if (h > 0)
                k->add(y, y, term, n);
        }
        for (uint32_t c = 0; c < n; c++)
            y[c] = y[c] * op->streams.inverse;
        quantise_part(m, out, &a, t, column, n, y);
    }
}

void cpu_streams_inject(const struct member *m, const struct graph_op *op) {
    const uint32_t count = op->streams.count, width = m->g->values[op->in].width;
    const uint64_t items = (uint64_t)member_rows(m, op) * count;
    float *out = value_f32(m, op->out);
    CHECK(m->g->values[op->out].width == count * width &&
          (op->work != GRAPH_NONE) == (op->epilogue == GRAPH_RESIDUAL));
    for (uint64_t i = share_begin(m, items); i < share_end(m, items); i++) {
        const float *x = value_f32(m, op->in) + i / count * width;
        if (op->work == GRAPH_NONE) {
            memcpy(out + i * width, x, width * sizeof *x);
            continue;
        }
        const float by =
            2.0f * num_sigmoid(value_f32(m, op->work)[i / count * m->g->values[op->work].width + i % count] *
                               op->streams.inverse);
        m->d->kernels.add_scaled(out + i * width, x, by, width);
    }
}
