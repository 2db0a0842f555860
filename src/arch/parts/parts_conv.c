/* Layers of a gated convolution: product, convolution, product. */
#include "arch/parts/parts.h"

void parts_conv_begin(struct parts *p) {
    const uint64_t rows = p->s->conv_taps - 1;
    struct graph_cache c = {
        .name = "state",
        .kind = GRAPH_STATE,
        .units = 1,
        /* a block of one tap is never read: its least size */
        .bytes =
            arith_round_up(ARITH_MAX(rows * p->s->n_embd * sizeof(float), (uint64_t)1), GRAPH_CACHE_ALIGN)};
    p->state = graph_add_cache(p->g, &c);
}

void parts_conv(struct parts *p, uint32_t i, uint32_t normed) {
    const struct gguf_tensor *const *own = p->s->layers[i].own;
    const uint32_t bcx = parts_product(p, i, "bcx", normed, own[PARTS_SHORT_IN]);
    const uint32_t out =
        parts_value(p, i, "convolved", p->s->n_embd, GRAPH_F32 | graph_form_for(own[PARTS_SHORT_OUT]));
    struct graph_op *op = graph_add_op(p->g, GRAPH_GATED_CONV, i, bcx, out);
    op->gated_conv = (struct graph_gated_conv){.channels = p->s->n_embd, .taps = p->s->conv_taps};
    graph_op_weight(p->g, op, own[PARTS_SHORT_CONV], NULL, 0);
    graph_op_cache(p->g, op, p->state);
    parts_add_product(p, i, out, p->x, own[PARTS_SHORT_OUT], NULL);
}
