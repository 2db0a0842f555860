/* Latent attention in its absorbed form. */
#include "arch/parts/parts.h"

#include "formats/block.h"

enum { MOST_TOGETHER = 64 }; /* KERNELS_MAX_GROUP */

/* A matrix of another shape or type stays where it is: its row of the table refuses it. Beside attn_k_b it
 * says nothing new. */
void parts_split_kv_b(const struct gguf *g, struct shape *s) {
    const uint64_t rows = (uint64_t)s->n_heads * (s->mla.nope + s->mla.dim_v);
    for (uint32_t i = 0; i < s->n_layers + s->n_nextn; i++) {
        const struct gguf_tensor **own = s->layers[i].own, *t = own[PARTS_KV_B], *pair[2];
        if (own[PARTS_K_B] != NULL)
            own[PARTS_KV_B] = NULL;
        if (t == NULL || own[PARTS_K_B] != NULL || own[PARTS_V_B] != NULL || t->n_dims != 2 ||
            t->ne[0] != s->mla.kv_rank || t->ne[1] != rows || !block_info(t->type)->computable)
            continue;
        if (gguf_split_heads(g, t, s->mla.nope, s->mla.dim_v, pair)) {
            own[PARTS_K_B] = pair[0];
            own[PARTS_V_B] = pair[1];
        }
    }
}

uint32_t parts_mla_forms(const struct shape_layer *l) {
    return parts_forms(l->q != NULL ? l->q : l->own[PARTS_Q_A], l->own[PARTS_KV_A], NULL);
}

/* All heads of q, each with what RoPE rotates behind. */
static uint32_t add_q(struct parts *p, uint32_t i, uint32_t normed) {
    const struct shape_layer *l = &p->s->layers[i];
    if (l->q != NULL)
        return parts_product(p, i, "q", normed, l->q);
    const uint32_t low = parts_product(p, i, "q_a", normed, l->own[PARTS_Q_A]);
    const uint32_t in = parts_value(p, i, "q_a_norm", p->s->mla.q_rank, graph_form_for(l->own[PARTS_Q_B]));
    struct graph_op *op = graph_add_op(p->g, GRAPH_NORM, i, low, in);
    op->norm = parts_norm_of(p->s, p->s->mla.q_rank);
    graph_op_weight(p->g, op, l->own[PARTS_Q_A_NORM], NULL, 0);
    return parts_product(p, i, "q", in, l->own[PARTS_Q_B]);
}

static void add_heads(struct parts *p, uint32_t i, uint32_t in, uint32_t out, const struct gguf_tensor *t,
                      struct graph_heads heads) {
    struct graph_op *op = graph_add_op(p->g, GRAPH_HEADS, i, in, out);
    op->heads = heads;
    graph_op_weight(p->g, op, t, NULL, 0);
}

/* The groups that heads are cut into, as few as kernels allow. */
static uint32_t groups_of(uint32_t heads) {
    uint32_t n = (heads + MOST_TOGETHER - 1) / MOST_TOGETHER;
    while (heads % n != 0)
        n++;
    return n;
}

/* Heads of q as the cache's rows are, then the token's own row. */
static uint32_t add_qk(struct parts *p, uint32_t i, uint32_t normed) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const struct shape_layer *l = &s->layers[i];
    const uint32_t dim = s->head_dim_k, head = s->mla.nope + s->n_rot;
    const uint32_t q = add_q(p, i, normed);
    const uint32_t qk = parts_value(p, i, "qk", (s->n_heads + 1) * dim, GRAPH_F32);
    add_heads(p, i, parts_in_forms(p, i, "q_in", q, graph_form_for(l->own[PARTS_K_B])), qk, l->own[PARTS_K_B],
              (struct graph_heads){.in_stride = head, .out_stride = dim});
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, i, normed, qk);
    graph_op_weight(g, op, l->own[PARTS_KV_A], NULL, s->n_heads * dim);
    op = graph_add_op(g, GRAPH_ROPE_STORE, i, qk, qk);
    op->work = q;
    op->rope = (struct graph_rope){.heads = s->n_heads,
                                   .kv_heads = 1,
                                   .dim_k = dim,
                                   .dim_v = s->head_dim_v,
                                   .n_rot = s->n_rot,
                                   .neox = s->rope_neox,
                                   .angles = p->angles,
                                   .angles_q = p->angles_q,
                                   .norm_k = parts_norm_of(s, s->mla.kv_rank),
                                   .latent = s->mla.kv_rank};
    graph_op_weight(g, op, l->own[PARTS_KV_A_NORM], NULL, 0);
    graph_op_cache(g, op, p->kv);
    return qk;
}

void parts_mla(struct parts *p, uint32_t i, uint32_t normed) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    const struct shape_layer *l = &s->layers[i];
    const uint32_t qk = add_qk(p, i, normed);
    const uint32_t heads =
        parts_value(p, i, "attn", s->n_heads * s->head_dim_v, GRAPH_F32 | graph_form_for(l->own[PARTS_V_B]));
    struct graph_op *op = graph_add_op(g, GRAPH_ATTENTION, i, qk, heads);
    op->attention = (struct graph_attention){.heads = s->n_heads,
                                             .kv_heads = groups_of(s->n_heads),
                                             .dim_k = s->head_dim_k,
                                             .dim_v = s->head_dim_v,
                                             .scale = s->attention_scale,
                                             .latent = true,
                                             .skip = p->nextn,
                                             .arrivals = p->arrivals};
    graph_op_cache(g, op, p->kv);
    if (g->want.cells != 0)
        op->work = parts_cells(p, i, s->n_heads * (s->head_dim_v + 2));
    const uint32_t out = parts_value(p, i, "attn_v", s->n_heads * s->mla.dim_v, GRAPH_F32);
    add_heads(p, i, heads, out, l->own[PARTS_V_B],
              (struct graph_heads){.in_stride = s->head_dim_v, .out_stride = s->mla.dim_v});
    parts_add_product(p, i, parts_in_forms(p, i, "attn_in", out, graph_form_for(l->attn_output)), p->x,
                      l->attn_output, NULL);
}
