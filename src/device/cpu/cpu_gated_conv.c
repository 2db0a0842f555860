/* Gated convolutions on the team. An item is a part of the channels of some tokens of a chunk. */
#include "device/cpu/cpu_member.h"

#define ITEM_TOKENS   32
#define ITEM_CHANNELS 256 /* whole groups of int8 */

_Static_assert(ITEM_TOKENS >= KERNELS_MAX_TAPS, "only a chunk's first item sees what is kept");

/* The products b * x of the last taps - 1 tokens, draft tokens apart, for the next step. From behind each row
 * that is written, so nothing is overwritten early. */
static void keep_products(const struct kernels_gated_conv *k, const struct step_chunk *c, float *kept) {
    for (uint32_t i = 0; i + 1 < k->taps; i++) {
        const uint32_t from = i + c->n - c->tested;
        float *to = kept + i * k->before_stride;
        if (from + 1 < k->taps) {
            memcpy(to, kept + from * k->before_stride, k->channels * sizeof *to);
            continue;
        }
        const float *row = k->in + (size_t)(from + 1 - k->taps) * k->in_stride;
        for (uint32_t j = 0; j < k->channels; j++)
            to[j] = row[j] * row[2 * k->width + j];
    }
}

static void run_item(const struct member *m, const struct graph_op *op, const struct step_chunk *c,
                     uint32_t from, uint32_t first) {
    const struct graph_gated_conv *d = &op->gated_conv;
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const size_t width = m->g->values[op->in].width;
    const uint32_t block = block_table(m, op->cache, c->slot)[0];
    float *kept = (float *)(void *)cache_block(m, op->cache, op->cache_layer, 0, block) + first;
    CHECK(w->n_pieces == 1 && out->width == d->channels && width == (size_t)3 * d->channels);
    const struct kernels_gated_conv k = {.out = a.f32 + (size_t)(c->first + from) * d->channels + first,
                                         .out_stride = d->channels,
                                         .in = value_f32(m, op->in) + (c->first + from) * width + first,
                                         .in_stride = width,
                                         .width = d->channels,
                                         .before = from == 0 ? kept : NULL,
                                         .before_stride = d->channels,
                                         .weights = (const float *)(const void *)panel_at(m, w, 0),
                                         .panel = w->layout.panel_bytes / sizeof(float),
                                         .first = first,
                                         .channels = ARITH_MIN(d->channels - first, (uint32_t)ITEM_CHANNELS),
                                         .tokens = ARITH_MIN(c->n - from, (uint32_t)ITEM_TOKENS),
                                         .taps = d->taps};
    m->d->kernels.gated_conv(&k);
    for (uint32_t t = 0; t < k.tokens; t++)
        quantise_part(m, out, &a, c->first + from + t, first, k.channels, k.out + t * k.out_stride);
    if (from == 0)
        keep_products(&k, c, kept);
}

void cpu_gated_conv(const struct member *m, const struct graph_op *op) {
    const uint32_t parts = (uint32_t)arith_ceil_div(op->gated_conv.channels, ITEM_CHANNELS);
    const struct step_chunk *c = (const struct step_chunk *)(m->slot + m->h->at_chunks);
    uint64_t items = 0, base = 0;
    for (uint32_t i = 0; i < m->h->n_chunks; i++)
        items += (uint64_t)parts * arith_ceil_div(c[i].n, ITEM_TOKENS);
    const uint32_t begin = share_begin(m, items), end = share_end(m, items);
    for (; base < end; c++) {
        const uint64_t here = (uint64_t)parts * arith_ceil_div(c->n, ITEM_TOKENS);
        for (uint64_t i = ARITH_MAX(begin, base); i < ARITH_MIN(end, base + here); i++)
            run_item(m, op, c, (uint32_t)((i - base) / parts) * ITEM_TOKENS,
                     (uint32_t)((i - base) % parts) * ITEM_CHANNELS);
        base += here;
    }
}
