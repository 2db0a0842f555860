/* The indexer of attention: its products, its keys, and the blocks that each token attends to. */
#include "arch/parts/parts.h"

#include "kernels/shared/index.h"

/* Keys are as exact as K and V, but never integers: they only choose. */
static uint32_t key_type(const struct graph_want *w) {
    return w->kv_type_k == KV_LAYOUT_F32 && w->kv_type_v == KV_LAYOUT_F32 ? KV_LAYOUT_F32 : KV_LAYOUT_F16;
}

void parts_index_begin(struct parts *p) {
    const struct shape_index *x = &p->s->index;
    const uint32_t type = key_type(&p->g->want);
    struct graph_cache c = {.name = "index", .kind = GRAPH_PAGED, .units = 1, .type_k = type, .type_v = type};
    c.bytes = arith_round_up(index_bytes(type, x->dim, x->ratio, p->s->n_rot), GRAPH_CACHE_ALIGN);
    c.k_bytes = c.bytes;
    p->index = graph_add_cache(p->g, &c);
}

uint32_t parts_index(struct parts *p, uint32_t i, uint32_t normed) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const struct shape_index_tensors *t = &s->layers[i].index;
    const struct graph_index x = {.heads = s->index.heads,
                                  .dim = s->index.dim,
                                  .ratio = s->index.ratio,
                                  .keep = s->index.top_k / s->index.ratio,
                                  .n_rot = s->n_rot,
                                  .neox = s->rope_neox,
                                  .angles = p->angles,
                                  .norm = parts_norm_of(s, s->index.dim)};
    const uint32_t qk = parts_value(p, i, "index_qk", (x.heads + 1) * x.dim, GRAPH_F32);
    /* Each its own op: GPU kernels multiply one matrix at a time. */
    graph_op_weight(g, graph_add_op(g, GRAPH_MATMUL, i, normed, qk), t->q, NULL, 0);
    graph_op_weight(g, graph_add_op(g, GRAPH_MATMUL, i, normed, qk), t->k, NULL, x.heads * x.dim);
    struct graph_op *op = graph_add_op(g, GRAPH_INDEX, i, qk, qk);
    op->index = x;
    graph_op_weight(g, op, t->q_norm, NULL, 0);
    graph_op_weight(g, op, t->k_norm, NULL, 0);
    graph_op_cache(g, op, p->index);
    const uint32_t list = parts_value(p, i, "index_blocks", INDEX_WORDS(x.keep), GRAPH_F32);
    op = graph_add_op(g, GRAPH_CHOOSE, i, qk, list);
    op->index = x;
    graph_op_cache(g, op, p->index);
    if (g->want.counted) { /* on the CPU each member has its own */
        const uint64_t blocks = arith_round_up(g->want.context, KV_LAYOUT_BLOCK) / x.ratio;
        op->work = parts_value(p, i, "index_scores", (uint32_t)blocks, GRAPH_F32);
    }
    return list;
}
