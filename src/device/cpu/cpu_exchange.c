/* EXCHANGED on the processors: the devices of a tensor split read each other's memory. */
#include "device/cpu/cpu_member.h"
#include "graph/share.h"

/* The device that has the row of the embedding of the step's token t. */
static uint32_t owner_of(const struct member *m, const struct graph_exchanged *x, uint32_t t) {
    const int32_t id = ((const int32_t *)(m->slot + m->h->at_tokens))[t];
    if (graph_is_picture(id) && x->pictures)
        return 0;
    const uint32_t token = (uint32_t)(graph_is_picture(id) ? GRAPH_PICTURE(id) : id);
    uint32_t owner = 0;
    while (x->ends[owner] <= token)
        owner++;
    CHECK(owner < x->count);
    return owner;
}

/* A row of the columns of all devices, each from its own memory. A device's value may be the row itself. */
static void exchanged_row(const struct member *m, const struct graph_op *op, uint32_t t, float *row) {
    if (op->exchanged.owned) {
        const uint32_t owner = owner_of(m, &op->exchanged, t), value = m->peer_ops[owner]->in;
        const uint32_t width = m->g->values[op->in].width;
        const float *from = value_f32(&m->peers[owner], value) + (size_t)t * width;
        if (from != row)
            memcpy(row, from, width * sizeof *row);
        return;
    }
    for (uint32_t i = 0; i < op->exchanged.count; i++) {
        const struct member *peer = &m->peers[i];
        const uint32_t value = m->peer_ops[i]->in, width = peer->g->values[value].width;
        uint32_t first = 0, end = 0;
        share_columns(&op->exchanged, i, &first, &end);
        CHECK(end == first || width == end - first);
        const float *own = value_f32(peer, value) + (size_t)t * width;
        if (end > first && own != row + first)
            memcpy(row + first, own, (end - first) * sizeof *row);
    }
}

/* Columns of a row of `out` from `first` on, as the device `peer` has made them in its int8 value `in`. */
static void take_int8(const struct member *peer, uint32_t in, const struct graph_value *out,
                      const struct kernels_act *to, uint32_t t, uint32_t first) {
    const struct graph_value *v = &peer->g->values[in];
    const struct kernels_act from = value_act(peer, in);
    const size_t here = (size_t)t * v->width, there = (size_t)t * out->width + first;
    const bool k = (out->forms & GRAPH_I8_256) != 0;
    const enum act_tile tile = k ? ACT_TILE_256 : ACT_TILE_32;
    int8_t q[QUANTISED_TOGETHER];
    CHECK((out->forms & v->forms) == (k ? GRAPH_I8_256 : GRAPH_I8_32));
    for (uint32_t c = 0; c < v->width; c += QUANTISED_TOGETHER) {
        const uint32_t n = ARITH_MIN(v->width - c, (uint32_t)QUANTISED_TOGETHER);
        act_tiles_get(q, k ? from.q256 : from.q32, from.tile_rows, tile, v->width, t, c, n);
        act_tiles_put(k ? to->q256 : to->q32, q, to->tile_rows, tile, out->width, t, first + c, n);
    }
    if (k) {
        memcpy(to->d256 + there / 256, from.d256 + here / 256, v->width / 256 * sizeof *to->d256);
        memcpy(to->s256 + there / 16, from.s256 + here / 16, v->width / 16 * sizeof *to->s256);
    } else {
        memcpy(to->d32 + there / 32, from.d32 + here / 32, v->width / 32 * sizeof *to->d32);
        memcpy(to->s32 + there / 32, from.s32 + here / 32, v->width / 32 * sizeof *to->s32);
    }
}

/* A row that comes in the int8 form of out. */
static void exchanged_int8(const struct member *m, const struct graph_op *op, uint32_t t,
                           const struct graph_value *out, const struct kernels_act *a) {
    for (uint32_t i = 0; i < op->exchanged.count; i++) {
        uint32_t first = 0, end = 0;
        share_columns(&op->exchanged, i, &first, &end);
        CHECK(m->peers[i].g->values[m->peer_ops[i]->in].width == end - first);
        take_int8(&m->peers[i], m->peer_ops[i]->in, out, a, t, first);
    }
}

void cpu_exchange_run(const struct member *m, const struct graph_op *op) {
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const bool adds = op->epilogue == GRAPH_RESIDUAL;
    float *temporary = own_floats(m);
    const struct graph_exchanged *x = &op->exchanged;
    const uint32_t width = share_row(m->g, op);
    CHECK(out->forms == GRAPH_F32 || (!adds && (width == out->width || out->forms & GRAPH_F32)));
    const uint32_t n = x->wanted ? m->h->n_rows : m->h->n_tokens * ARITH_MAX(x->used, 1u);
    if (x->wanted && m->g->want.share.index + 1 < x->count)
        return;
    const uint32_t *rows = x->used > 0 ? cpu_experts_rows(m, x->routes, x->used) : NULL;
    for (uint32_t i = share_begin(m, n); i < share_end(m, n); i++) {
        const uint32_t t = rows != NULL ? rows[i] : i;
        if (x->int8 != 0) {
            exchanged_int8(m, op, t, out, &a);
            continue;
        }
        float *y = a.f32 != NULL ? a.f32 + (size_t)t * out->width + x->column : NULL;
        float *row = y != NULL && !adds ? y : temporary;
        exchanged_row(m, op, t, row);
        if (adds)
            m->d->kernels.add(y, y, row, width);
        else if (width == out->width)
            quantise_row(m, out, &a, t, row);
    }
}
