/* Embeddings of layers: what each layer gets of the token itself, looked up and made of the embedding before
 * the first layer, and how a layer adds it to the residual stream. */
#include "arch/parts/parts.h"

#include <math.h>
#include <stdio.h>

/* The tensor is there, as the key says. */
static stator_status check_there(const struct gguf *g, const struct shape *s, const char *name, bool there,
                                 stator_error *e) {
    if (there == (s->layer_embd > 0))
        return STATOR_OK;
    return gguf_error(g, e, "tensor '%s' is %s, but key '%s.embedding_length_per_layer_input' is %u", name,
                      there ? "there" : "missing", s->arch_name, s->layer_embd);
}

stator_status parts_check_layer_embd(const struct gguf *g, const struct shape *s, stator_error *e) {
    static const char *const names[] = {"inp_gate", "proj", "post_norm"};
    stator_status st = check_there(g, s, "per_layer_token_embd.weight", s->layer_token_embd != NULL, e);
    if (st == STATOR_OK)
        st = check_there(g, s, "per_layer_model_proj.weight", s->layer_model_proj != NULL, e);
    if (st == STATOR_OK)
        st = check_there(g, s, "per_layer_proj_norm.weight", s->layer_proj_norm != NULL, e);
    for (uint32_t i = 0; i < s->n_layers; i++)
        for (uint32_t k = 0; st == STATOR_OK && k < 3; k++) {
            char name[48];
            snprintf(name, sizeof name, "blk.%u.%s.weight", i, names[k]);
            st = check_there(g, s, name, s->layers[i].own[PARTS_EMBD_GATE + k] != NULL, e);
        }
    return st;
}

stator_status parts_read_layer_embd(const struct gguf *g, struct shape *s, stator_error *e) {
    enum { MOST = 1 << 20 }; /* as other rows */
    stator_status st =
        shape_read_u32_or(g, s, "embedding_length_per_layer_input", 0, MOST, 0, &s->layer_embd, e);
    if (st == STATOR_OK && (uint64_t)s->layer_embd * s->n_layers > MOST)
        st = gguf_error(g, e,
                        "key '%s.embedding_length_per_layer_input' is %u: at most %d for all %u layers "
                        "together are supported",
                        s->arch_name, s->layer_embd, (int)MOST, s->n_layers);
    return st;
}

/* Of layer i: (the norm of its part of a product of the embedding / sqrt(n_embd) + its own embedding *
 * sqrt(layer_embd)) / sqrt(2). The norm's numbers have the first and the last division in them. A device
 * without the first layer looks the embedding up again. */
void parts_layer_embd_begin(struct parts *p) {
    struct graph *g = p->g;
    const struct shape *s = p->s;
    if (s->layer_embd == 0)
        return;
    const uint32_t batch = g->want.batch, width = s->layer_embd * s->n_layers;
    const uint32_t form = graph_form_for(s->layer_model_proj);
    uint32_t embedding = p->x;
    if (g->want.first_layer > 0) {
        embedding = graph_add_value(g, "embedding", GRAPH_SCRATCH, batch, s->n_embd, GRAPH_F32);
        parts_embeddings(p, embedding);
    }
    if (form != GRAPH_F32) {
        const uint32_t forms = graph_add_value(g, "embedding_in", GRAPH_SCRATCH, batch, s->n_embd, form);
        graph_add_op(g, GRAPH_FORMS, GRAPH_NONE, embedding, forms);
        embedding = forms;
    }
    const uint32_t product = graph_add_value(g, "layer_product", GRAPH_SCRATCH, batch, width, GRAPH_F32);
    graph_op_weight(g, graph_add_op(g, GRAPH_MATMUL, GRAPH_NONE, embedding, product), s->layer_model_proj,
                    NULL, 0);
    p->layer_in = graph_add_value(g, "layer_in", GRAPH_SCRATCH, batch, width, GRAPH_F32);
    parts_embed(p, s->layer_token_embd, (float)sqrt((double)s->layer_embd / 2), p->layer_in);
    struct graph_op *op = graph_add_op(g, GRAPH_NORM, GRAPH_NONE, product, p->layer_in);
    op->epilogue = GRAPH_RESIDUAL;
    op->norm = (struct graph_norm){.eps = 2 * (float)s->n_embd * s->norm_eps,
                                   .inv_width = 2.0f / (float)s->layer_embd,
                                   .parts = s->n_layers};
    graph_op_weight(g, op, s->layer_proj_norm, NULL, 0);
}

void parts_layer_embd(struct parts *p, uint32_t i, const struct gguf_tensor *scale) {
    const struct gguf_tensor *const *own = p->s->layers[i].own;
    const struct graph_gate gate = {
        .heads = 1, .dim = p->s->layer_embd, .column = i * p->s->layer_embd, .gelu = true};
    uint32_t in = parts_stream(p, i, "embd_in", graph_form_for(own[PARTS_EMBD_GATE]));
    uint32_t out = parts_product(p, i, "embd_gate", in, own[PARTS_EMBD_GATE]);
    out = parts_gate(p, i, out, p->layer_in, &gate, NULL, own[PARTS_EMBD_OUT]);
    out = parts_product(p, i, "embd_out", out, own[PARTS_EMBD_OUT]);
    parts_add_norm(p, i, out, own[PARTS_EMBD_NORM], scale);
}
