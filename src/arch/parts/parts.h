/* The pieces that builders are made of. A builder calls parts_begin, adds its layers, and calls parts_end;
 * every piece adds the ops of one thing and says which value has its result. */
#ifndef STATOR_ARCH_PARTS_PARTS_H
#define STATOR_ARCH_PARTS_PARTS_H

#include "arch/arch.h"

/* What is being built, and what its layers share. */
struct parts {
    struct graph *g;
    const struct shape *s;
    uint32_t x;        /* value: the residual stream */
    uint32_t streams;  /* value: that of a model with hyper-connections; GRAPH_NONE */
    uint32_t injects;  /* value: what the last mix of them says of what is added next */
    uint32_t arrivals; /* value of all attention, or GRAPH_NONE */
    uint32_t angles;   /* of attention from here on */
    uint32_t angles_q; /* of its queries, where they are others; GRAPH_NONE */
    uint32_t kv;       /* its cache */
    bool wide_norms;   /* q_norm and k_norm are of all heads together */
    bool late_norms;   /* heads are rotated first, then normed */
    bool no_rope;      /* of attention from here on: its heads are not rotated */
    bool norm_v;     /* heads of v are normed without weights; a layer without v has the product of k there */
    uint32_t state;  /* cache of all delta-net layers, or of all gated convolutions */
    uint32_t ngrams; /* cache of the convolution of n-gram embeddings */
    uint32_t hidden; /* cache of the MTP head: the state behind the final norm of a sequence's last token */
    uint32_t index;  /* cache of the indexer's keys */
    uint32_t layer_in;  /* value: what each layer gets of the token's embeddings; GRAPH_NONE: nothing */
    uint32_t kept;      /* value: rows of such states of all sequences */
    uint32_t guesses;   /* value: the block's residual stream */
    uint32_t guess_mix; /* value: with hyper-connections, the last mix of it */
    bool nextn;         /* what is built is that block */
    bool pictures;      /* tokens of a picture see each other (where want.whole_pictures) */
};

/* Caches, angles, the residual stream, and what it begins with: the embedding, or the device before. Caches
 * of an architecture's own are declared right after it, whichever layers the part has. */
void parts_begin(struct parts *p, struct graph *g, const struct shape *s);
/* The next device, or norm, output matrix and picks. */
void parts_end(struct parts *p);

/* A value "blk.N.name" of the batch's rows, in scratch. */
uint32_t parts_value(struct parts *p, uint32_t layer, const char *name, uint32_t width, uint32_t forms);
/* Rows of so many floats for partial results of attention: a value "blk.N.attn_cells" of want.cells rows. */
uint32_t parts_cells(struct parts *p, uint32_t layer, uint32_t width);
/* The forms that q, k and v of the layer multiply, which may be one tensor. */
uint32_t parts_qkv_forms(const struct shape_layer *l);
/* The forms that products with these matrices want; NULL: none. */
uint32_t parts_forms(const struct gguf_tensor *a, const struct gguf_tensor *b, const struct gguf_tensor *c);
struct graph_norm parts_norm_of(const struct shape *s, uint32_t width);

/* The residual stream normed, as the value "blk.N.name" in these forms. */
uint32_t parts_norm(struct parts *p, uint32_t layer, const char *name, const struct gguf_tensor *weight,
                    uint32_t forms);
/* The residual stream as it is, in these forms. */
uint32_t parts_stream(struct parts *p, uint32_t layer, const char *name, uint32_t forms);
/* A value of floats in these forms; itself, if they are floats. */
uint32_t parts_in_forms(struct parts *p, uint32_t layer, const char *name, uint32_t floats, uint32_t forms);
/* For models with shape.layer_norm, before a norm: subtracts each row's mean from the residual stream, in
 * place. Every reader of the stream norms it first, so no op needs the mean. */
void parts_center(struct parts *p, uint32_t layer);
/* out += matrix x in (+ bias); out: mostly p->x. */
void parts_add_product(struct parts *p, uint32_t layer, uint32_t in, uint32_t out,
                       const struct gguf_tensor *matrix, const struct gguf_tensor *bias);
/* The product as a value of its own, in floats. */
uint32_t parts_product(struct parts *p, uint32_t layer, const char *name, uint32_t in,
                       const struct gguf_tensor *matrix);
/* p->x += the norm of `in`; then, if there is a scale, p->x *= scale[0]. */
void parts_add_norm(struct parts *p, uint32_t layer, uint32_t in, const struct gguf_tensor *weight,
                    const struct gguf_tensor *scale);

/* out = rows of t by token id, times scale. */
void parts_embed(struct parts *p, const struct gguf_tensor *t, float scale, uint32_t out);
/* out = the rows of the embedding as the residual stream has them, whole on every device of a group. */
void parts_embeddings(struct parts *p, uint32_t out);
/* What the residual stream's embedding is multiplied by. */
float parts_embed_scale(const struct shape *s);
/* Behind a layer: p->x += what a vision tower's deepstack gives to it, if it does. */
void parts_pictures(struct parts *p, uint32_t layer);
#define PARTS_PICTURES_BOUNDS                                                                                \
    { .ops = 9 }

/* Models with an embedding of each layer (shape.layer_embd; rows PARTS_LAYER_EMBD, PARTS_LAYER_EMBD_GLOBALS).
 * The key; whether all of those tensors are there, or, without shape.layer_embd, none. */
stator_status parts_read_layer_embd(const struct gguf *g, struct shape *s, stator_error *e);
stator_status parts_check_layer_embd(const struct gguf *g, const struct shape *s, stator_error *e);
/* p->layer_in for all layers, right after parts_begin. */
void parts_layer_embd_begin(struct parts *p);
/* p->x += a product of that, gated by a product of p->x, normed; then, if there is a scale, p->x *= scale[0].
 */
void parts_layer_embd(struct parts *p, uint32_t layer, const struct gguf_tensor *scale);

/* A cache like p->kv of a window's tokens. */
uint32_t parts_window(struct parts *p, uint32_t window);
/* The heads' outputs: grouped-query attention of `normed` with RoPE, over p->kv: the layer's own K and V, or
 * those of shape_kv_layer. */
uint32_t parts_heads(struct parts *p, uint32_t layer, uint32_t normed);
/* With an indexer (shape.index): the cache of its keys, which parts_begin adds; and in a layer with
 * shape_has_index, which index blocks each token attends to: a value of lists (kernels/shared/index.h).
 * parts_heads adds that, and parts_qkv_forms are the forms of its products too. */
void parts_index_begin(struct parts *p);
uint32_t parts_index(struct parts *p, uint32_t layer, uint32_t normed);
#define PARTS_INDEX_BOUNDS                                                                                   \
    { .ops = 4, .values = 3, .weights = 4 }
/* The forms that gate and up of the layer multiply, which may be one tensor. */
uint32_t parts_gated_forms(const struct shape_layer *l);
/* gate x normed through silu or gelu, times up x normed; or (RELU2) up x normed through relu, squared. */
uint32_t parts_gated(struct parts *p, uint32_t layer, uint32_t normed, enum graph_epilogue gate);
/* p->x += the product of those heads. */
void parts_attention(struct parts *p, uint32_t layer, uint32_t normed);
/* A whole layer whose attention and dense feed-forward are normed before they are added to p->x, with the
 * tensors of PARTS_NORMS_BEHIND; their inputs are normed where the layer has attn_norm and ffn_norm. The
 * embedding of the layer is added next, if the model has them. With PARTS_LAYER_SCALE p->x is then
 * multiplied by this number. */
enum { /* of own[] */
       PARTS_BEHIND_ATTENTION,
       PARTS_BEHIND_FFN,
       PARTS_LAYER_SCALE,
       PARTS_EMBD_GATE,
       PARTS_EMBD_OUT,
       PARTS_EMBD_NORM,
       PARTS_BEHIND_DENSE,
       PARTS_BEFORE_EXPERTS,
       PARTS_BEHIND_EXPERTS,
       PARTS_ROUTER_SCALE
};
void parts_layer_normed_behind(struct parts *p, uint32_t layer, enum graph_epilogue gate);
/* Heads of `in`, normed (or NULL) and gated by columns of `gates`, as `next` multiplies them. */
uint32_t parts_gate(struct parts *p, uint32_t layer, uint32_t in, uint32_t gates,
                    const struct graph_gate *gate, const struct gguf_tensor *norm,
                    const struct gguf_tensor *next);

/* How a layer's part writes p->x: it adds to the residual stream, or stores what parts_inject adds. */
static inline enum graph_epilogue parts_adding(const struct parts *p) {
    return p->streams == GRAPH_NONE ? GRAPH_RESIDUAL : GRAPH_STORE;
}
/* The value that goes from device to device. */
static inline uint32_t parts_residual(const struct parts *p) {
    return p->streams == GRAPH_NONE ? p->x : p->streams;
}

/* Hyper-connections (shape.streams, qwen4exp): the residual stream is p->streams, [batch][count * n_embd],
 * all streams of a token side by side, and p->x is the value that a layer's part writes its output to. A
 * part's input, n_embd values of each token, is a mix of the streams, and what stands as `normed` in the
 * functions below: attention's indexer projects from the same `normed` as q, k and v. n-gram embeddings add
 * to all of p->streams, before the first mix of their layer. */
void parts_fill_streams(struct parts *p); /* each of them = p->x */
/* A mix of the streams, in these forms: the value "blk.N.name"; and what parts_inject needs of it, if t has
 * weights for that. */
uint32_t parts_mix(struct parts *p, uint32_t layer, const char *name, const struct shape_mix_tensors *t,
                   uint32_t forms);
/* Streams += p->x, each by its factor of the layer's last mix. */
void parts_inject(struct parts *p, uint32_t layer);

/* The MTP head, where it is asked for: right after parts_begin; before the tail; behind it. */
void parts_nextn_begin(struct parts *p);
void parts_nextn_block(struct parts *p);
void parts_nextn_tail(struct parts *p);
/* The wanted rows of p->x, normed or (norm NULL) as they are. */
void parts_gather(struct parts *p, uint32_t out, const struct gguf_tensor *norm);
/* Norm of the wanted rows, output matrix, picks. */
void parts_tail(struct parts *p, const struct gguf_tensor *norm, const struct gguf_tensor *output);

/* Gated delta-net layers: their tensors in own[], their cache, and p->x += the layer's output for `normed`,
 * in the forms that are asked for. */
enum {
    PARTS_QKV,
    PARTS_Z,
    PARTS_BETA, /* or, if the shape says grouped, beta and alpha, and no PARTS_ALPHA */
    PARTS_ALPHA,
    PARTS_CONV,
    PARTS_DT,
    PARTS_A,
    PARTS_HEAD_NORM,
    PARTS_OUT,
    PARTS_QKVZ,      /* in place of PARTS_QKV and PARTS_Z: of each key head q, k, and v and gates of its value
                        heads;      of Mamba-2: gates, x, B, C, dt */
    PARTS_CONV_BIAS, /* these two of Mamba-2 */
    PARTS_SKIP
};
void parts_delta_begin(struct parts *p); /* right after parts_begin */
uint32_t parts_delta_forms(const struct shape_layer *l);
void parts_delta(struct parts *p, uint32_t layer, uint32_t normed);
/* Layers of Mamba-2 (shape.delta.ssd) with the tensors of PARTS_SSD, and the cache of parts_delta_begin. */
void parts_ssd(struct parts *p, uint32_t layer, uint32_t normed);

/* Latent attention (shape.mla) with the tensors of PARTS_MLA: p->x += the product of its heads, in the
 * absorbed form: q of a head times its attn_k_b meets the cache's rows, and what attention makes of them its
 * attn_v_b. */
enum { PARTS_Q_A, PARTS_Q_A_NORM, PARTS_Q_B, PARTS_KV_A, PARTS_KV_A_NORM, PARTS_K_B, PARTS_V_B, PARTS_KV_B };
/* Of files of older converters, which have attn_kv_b in place of attn_k_b and attn_v_b. */
void parts_split_kv_b(const struct gguf *g, struct shape *s);
uint32_t parts_mla_forms(const struct shape_layer *l);
void parts_mla(struct parts *p, uint32_t layer, uint32_t normed);

/* n-gram embeddings (shape.ngram, whose tensors are in shape_layer.ngram): their cache and the rows that the
 * host gives, right after parts_begin; before layer `layer` streams += what it adds, if it is the layer that
 * has them. streams: value of shape_stream_width floats. The check: the rows are in the table, and the end of
 * a text in the vocabulary. */
stator_status parts_check_ngram(const struct gguf *g, const struct shape *s, stator_error *e);
void parts_ngram_begin(struct parts *p);
void parts_ngram(struct parts *p, uint32_t layer, uint32_t streams);

/* Layers of a gated convolution in the place of attention, likewise. */
enum { PARTS_SHORT_IN, PARTS_SHORT_CONV, PARTS_SHORT_OUT };
void parts_conv_begin(struct parts *p); /* right after parts_begin */
void parts_conv(struct parts *p, uint32_t layer, uint32_t normed);

/* A whole builder of hybrids, and their keys besides those of decoders. */
void parts_hybrid(struct graph *g, const struct shape *s);
stator_status parts_read_hybrid(const struct gguf *g, struct shape *s, stator_error *e);
#define PARTS_HYBRID_BOUNDS                                                                                  \
    { .ops = 12, .values = 10, .weights = 16 }

/* p->x += down x (silu(gate x normed) * (up x normed)). */
void parts_swiglu(struct parts *p, uint32_t layer, uint32_t normed);

/* p->x += the experts that the router chooses for each row of `normed` (in parts_experts_forms), and the
 * shared one. gate: SWIGLU, GEGLU, or RELU2 of experts without a gate. With experts.latent the chosen ones
 * lie between ffn_latent_down and ffn_latent_up. */
uint32_t parts_experts_forms(const struct shape *s, uint32_t layer);
void parts_experts(struct parts *p, uint32_t layer, uint32_t normed, enum graph_epilogue gate);
/* The norm of `dense` plus the norm of what the layer's experts make of p->x, each normed for itself; the
 * router reads p->x normed and times PARTS_ROUTER_SCALE / sqrt(n_embd). With the tensors of
 * PARTS_EXPERTS_BESIDE, which parts_layer_normed_behind looks for. */
uint32_t parts_experts_beside(struct parts *p, uint32_t layer, uint32_t dense, enum graph_epilogue gate);
/* p->x += the layer's experts or its dense feed-forward behind the norm, both without gates. */
void parts_ungated(struct parts *p, uint32_t layer, const char *name, const struct gguf_tensor *norm);
/* Norm, and the layer's experts or its dense feed-forward. */
void parts_feed_forward(struct parts *p, uint32_t layer);

/* A whole builder, and the read of keys of architectures whose pairs are as neox has them. */
void parts_dense(struct graph *g, const struct shape *s);
stator_status parts_read_neox(const struct gguf *g, struct shape *s, stator_error *e);

/* Rows of the tables of tensors. */
#define PARTS_DENSE_LAYER PARTS_ATTENTION, PARTS_DENSE(SHAPE_ALL_LAYERS)
/* Biases are those of files that have some. */
#define PARTS_PROJECTIONS                                                                                    \
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},                                \
        PARTS_QKV_ROW(q, "attn_q.weight", SHAPE_EMBD, SHAPE_HEADS_K, qkv),                                   \
        PARTS_QKV_ROW(k, "attn_k.weight", SHAPE_EMBD, SHAPE_KV_K, qkv),                                      \
        PARTS_QKV_ROW(v, "attn_v.weight", SHAPE_EMBD, SHAPE_KV_V, qkv),                                      \
        {SHAPE_LAYER(qkv), .name = "attn_qkv.weight", .cols = SHAPE_EMBD, .rows = SHAPE_QKV,                 \
         .optional = true},                                                                                  \
        PARTS_BIAS(q_bias, "attn_q.bias", SHAPE_HEADS_K, .fused = offsetof(struct shape_layer, qkv_bias)),   \
        PARTS_BIAS(k_bias, "attn_k.bias", SHAPE_KV_K, .fused = offsetof(struct shape_layer, qkv_bias)),      \
        PARTS_BIAS(v_bias, "attn_v.bias", SHAPE_KV_V, .fused = offsetof(struct shape_layer, qkv_bias)),      \
        PARTS_BIAS(qkv_bias, "attn_qkv.bias", SHAPE_QKV, ), {                                                \
        SHAPE_LAYER(attn_output), .name = "attn_output.weight", .cols = SHAPE_HEADS_V, .rows = SHAPE_EMBD    \
    }
#define PARTS_QKV_ROW(field, text, c, r, whole)                                                              \
    {                                                                                                        \
        SHAPE_LAYER(field), .name = (text), .cols = (c), .rows = (r),                                        \
                            .fused = offsetof(struct shape_layer, whole)                                     \
    }
#define PARTS_BIAS(field, text, c, ...)                                                                      \
    { SHAPE_LAYER(field), .name = (text), .cols = (c), .optional = true, __VA_ARGS__ }
#define PARTS_OUTPUT_BIAS PARTS_BIAS(attn_output_bias, "attn_output.bias", SHAPE_EMBD, )
#define PARTS_ATTENTION                                                                                      \
    PARTS_PROJECTIONS, {                                                                                     \
        SHAPE_LAYER(ffn_norm), .name = "ffn_norm.weight", .cols = SHAPE_EMBD                                 \
    }
#define PARTS_DENSE(of)                                                                                      \
    {SHAPE_LAYER(gate), .name = "ffn_gate.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF, .layers = (of)},    \
        {SHAPE_LAYER(up), .name = "ffn_up.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF, .layers = (of)}, {  \
        SHAPE_LAYER(down), .name = "ffn_down.weight", .cols = SHAPE_FF, .rows = SHAPE_EMBD, .layers = (of)   \
    }
/* Fused: gate's rows, then up's. */
#define PARTS_DENSE_FUSED                                                                                    \
    {SHAPE_LAYER(up), .name = "ffn_up.weight", .cols = SHAPE_EMBD, .rows = SHAPE_TWO_FF}, {                  \
        SHAPE_LAYER(down), .name = "ffn_down.weight", .cols = SHAPE_FF, .rows = SHAPE_EMBD                   \
    }
#define PARTS_NORMS_BEHIND                                                                                   \
    {SHAPE_LAYER(own[PARTS_BEHIND_ATTENTION]), .name = "post_attention_norm.weight", .cols = SHAPE_EMBD}, {  \
        SHAPE_LAYER(own[PARTS_BEHIND_FFN]), .name = "post_ffw_norm.weight", .cols = SHAPE_EMBD               \
    }
#define PARTS_HEAD_NORMS                                                                                     \
    {SHAPE_LAYER(q_norm), .name = "attn_q_norm.weight", .cols = SHAPE_HEAD_K}, {                             \
        SHAPE_LAYER(k_norm), .name = "attn_k_norm.weight", .cols = SHAPE_HEAD_K                              \
    }
/* Of all heads of q together, and of all of k. */
#define PARTS_WIDE_NORMS                                                                                     \
    {SHAPE_LAYER(q_norm), .name = "attn_q_norm.weight", .cols = SHAPE_HEADS_K}, {                            \
        SHAPE_LAYER(k_norm), .name = "attn_k_norm.weight", .cols = SHAPE_KV_K                                \
    }
/* Biases of these three products, each of files that have it. */
#define PARTS_DENSE_BIAS(field, text, c, of)                                                                 \
    { SHAPE_LAYER(field), .name = (text), .cols = (c), .optional = true, .layers = (of) }
#define PARTS_DENSE_BIASES(of)                                                                               \
    PARTS_DENSE_BIAS(gate_bias, "ffn_gate.bias", SHAPE_FF, of),                                              \
        PARTS_DENSE_BIAS(up_bias, "ffn_up.bias", SHAPE_FF, of),                                              \
        PARTS_DENSE_BIAS(down_bias, "ffn_down.bias", SHAPE_EMBD, of)
/* Router and experts; biases and the shared expert are rows of their own. */
#define PARTS_EXPERTS_MATRIX(field, text, c, r, ...)                                                         \
    {                                                                                                        \
        SHAPE_LAYER(experts.field), .name = text, .cols = (c), .rows = (r), .matrices = SHAPE_EXPERTS,       \
                                    .layers = SHAPE_EXPERT_LAYERS, __VA_ARGS__                               \
    }
#define PARTS_EXPERTS_FUSED .fused = offsetof(struct shape_layer, experts.gate_up)
#define PARTS_EXPERTS                                                                                        \
    {SHAPE_LAYER(experts.router), .name = "ffn_gate_inp.weight", .cols = SHAPE_EMBD, .rows = SHAPE_EXPERTS,  \
     .layers = SHAPE_EXPERT_LAYERS},                                                                         \
        PARTS_EXPERTS_MATRIX(gate, "ffn_gate_exps.weight", SHAPE_EMBD, SHAPE_EXPERT_FF,                      \
                             PARTS_EXPERTS_FUSED),                                                           \
        PARTS_EXPERTS_MATRIX(up, "ffn_up_exps.weight", SHAPE_EMBD, SHAPE_EXPERT_FF, PARTS_EXPERTS_FUSED),    \
        PARTS_EXPERTS_MATRIX(gate_up, "ffn_gate_up_exps.weight", SHAPE_EMBD, SHAPE_TWO_EXPERT_FF,            \
                             .optional = true),                                                              \
        PARTS_EXPERTS_MATRIX(down, "ffn_down_exps.weight", SHAPE_EXPERT_FF, SHAPE_EMBD, )
#define PARTS_EXPERTS_BIAS(field, text, c)                                                                   \
    {                                                                                                        \
        SHAPE_LAYER(experts.field), .name = text, .cols = (c), .rows = SHAPE_EXPERTS, .f32 = true,           \
                                    .layers = SHAPE_EXPERT_LAYERS                                            \
    }
#define PARTS_EXPERTS_BIASES                                                                                 \
    {SHAPE_LAYER(experts.router_bias), .name = "ffn_gate_inp.bias", .cols = SHAPE_EXPERTS,                   \
     .layers = SHAPE_EXPERT_LAYERS},                                                                         \
        PARTS_EXPERTS_BIAS(gate_bias, "ffn_gate_exps.bias", SHAPE_EXPERT_FF),                                \
        PARTS_EXPERTS_BIAS(up_bias, "ffn_up_exps.bias", SHAPE_EXPERT_FF),                                    \
        PARTS_EXPERTS_BIAS(down_bias, "ffn_down_exps.bias", SHAPE_EMBD)
#define PARTS_EXPERTS_NORM(at, text)                                                                         \
    { SHAPE_LAYER(own[at]), .name = (text), .cols = SHAPE_EMBD, .layers = SHAPE_EXPERT_LAYERS }
#define PARTS_EXPERTS_BESIDE                                                                                 \
    PARTS_EXPERTS, PARTS_EXPERTS_NORM(PARTS_BEHIND_DENSE, "post_ffw_norm_1.weight"),                         \
        PARTS_EXPERTS_NORM(PARTS_BEFORE_EXPERTS, "pre_ffw_norm_2.weight"),                                   \
        PARTS_EXPERTS_NORM(PARTS_BEHIND_EXPERTS, "post_ffw_norm_2.weight"),                                  \
        PARTS_EXPERTS_NORM(PARTS_ROUTER_SCALE, "ffn_gate_inp.scale")
#define PARTS_CHOICE_BIAS                                                                                    \
    {                                                                                                        \
        SHAPE_LAYER(experts.choice_bias), .name = "exp_probs_b.bias", .cols = SHAPE_EXPERTS,                 \
                                          .optional = true, .layers = SHAPE_EXPERT_LAYERS                    \
    }
#define PARTS_SHARED_ROW(field, text, c, r)                                                                  \
    { SHAPE_LAYER(experts.field), .name = (text), .cols = (c), .rows = (r), .layers = SHAPE_SHARED_LAYERS }
#define PARTS_SHARED_EXPERT                                                                                  \
    PARTS_SHARED_ROW(shared_gate, "ffn_gate_shexp.weight", SHAPE_EMBD, SHAPE_SHARED_FF),                     \
        PARTS_SHARED_ROW(shared_up, "ffn_up_shexp.weight", SHAPE_EMBD, SHAPE_SHARED_FF),                     \
        PARTS_SHARED_ROW(shared_down, "ffn_down_shexp.weight", SHAPE_SHARED_FF, SHAPE_EMBD)
/* The same without gates. */
#define PARTS_UNGATED_EXPERTS                                                                                \
    {SHAPE_LAYER(experts.router), .name = "ffn_gate_inp.weight", .cols = SHAPE_EMBD, .rows = SHAPE_EXPERTS,  \
     .layers = SHAPE_EXPERT_LAYERS},                                                                         \
        {SHAPE_LAYER(experts.latent_down), .name = "ffn_latent_down.weight", .cols = SHAPE_EMBD,             \
         .rows = SHAPE_EXPERT_IN, .layers = SHAPE_LATENT_LAYERS},                                            \
        {SHAPE_LAYER(experts.latent_up), .name = "ffn_latent_up.weight", .cols = SHAPE_EXPERT_IN,            \
         .rows = SHAPE_EMBD, .layers = SHAPE_LATENT_LAYERS},                                                 \
        PARTS_EXPERTS_MATRIX(up, "ffn_up_exps.weight", SHAPE_EXPERT_IN, SHAPE_EXPERT_FF, ),                  \
        PARTS_EXPERTS_MATRIX(down, "ffn_down_exps.weight", SHAPE_EXPERT_FF, SHAPE_EXPERT_IN, ),              \
        PARTS_SHARED_ROW(shared_up, "ffn_up_shexp.weight", SHAPE_EMBD, SHAPE_SHARED_FF),                     \
        PARTS_SHARED_ROW(shared_down, "ffn_down_shexp.weight", SHAPE_SHARED_FF, SHAPE_EMBD)
#define PARTS_SHARED_ROUTER                                                                                  \
    {                                                                                                        \
        SHAPE_LAYER(experts.shared_router), .name = "ffn_gate_inp_shexp.weight", .cols = SHAPE_EMBD,         \
                                            .layers = SHAPE_SHARED_LAYERS                                    \
    }

#define PARTS_DELTA_ROW(at, text, ...)                                                                       \
    { SHAPE_LAYER(own[at]), .name = (text), .layers = SHAPE_DELTA_LAYERS, __VA_ARGS__ }
#define PARTS_DELTA_FACTORS                                                                                  \
    PARTS_DELTA_ROW(PARTS_BETA, "ssm_beta.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DELTA_HEADS),           \
        PARTS_DELTA_ROW(PARTS_ALPHA, "ssm_alpha.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DELTA_HEADS)
#define PARTS_DELTA                                                                                          \
    PARTS_DELTA_ROW(PARTS_QKV, "attn_qkv.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DELTA_QKV),              \
        PARTS_DELTA_ROW(PARTS_Z, "attn_gate.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DELTA_V),             \
        PARTS_DELTA_REST
#define PARTS_DELTA_REST                                                                                     \
    PARTS_DELTA_ROW(PARTS_CONV, "ssm_conv1d.weight", .cols = SHAPE_DELTA_TAPS, .rows = SHAPE_DELTA_QKV,      \
                    .f32 = true),                                                                            \
        PARTS_DELTA_ROW(PARTS_DT, "ssm_dt.bias", .cols = SHAPE_DELTA_HEADS),                                 \
        PARTS_DELTA_ROW(PARTS_A, "ssm_a", .cols = SHAPE_DELTA_HEADS),                                        \
        PARTS_DELTA_ROW(PARTS_HEAD_NORM, "ssm_norm.weight", .cols = SHAPE_DELTA_HEAD_V),                     \
        PARTS_DELTA_ROW(PARTS_OUT, "ssm_out.weight", .cols = SHAPE_DELTA_V, .rows = SHAPE_EMBD)
#define PARTS_SSD                                                                                            \
    PARTS_DELTA_ROW(PARTS_QKVZ, "ssm_in.weight", .cols = SHAPE_EMBD, .rows = SHAPE_SSD_IN),                  \
        PARTS_DELTA_ROW(PARTS_CONV, "ssm_conv1d.weight", .cols = SHAPE_DELTA_TAPS, .rows = SHAPE_DELTA_QKV,  \
                        .f32 = true),                                                                        \
        PARTS_DELTA_ROW(PARTS_CONV_BIAS, "ssm_conv1d.bias", .cols = SHAPE_DELTA_QKV, .optional = true),      \
        PARTS_DELTA_ROW(PARTS_DT, "ssm_dt.bias", .cols = SHAPE_DELTA_HEADS),                                 \
        PARTS_DELTA_ROW(PARTS_A, "ssm_a", .cols = SHAPE_NONE, .rows = SHAPE_DELTA_HEADS, .f32 = true),       \
        PARTS_DELTA_ROW(PARTS_SKIP, "ssm_d", .cols = SHAPE_NONE, .rows = SHAPE_DELTA_HEADS, .f32 = true),    \
        PARTS_DELTA_ROW(PARTS_HEAD_NORM, "ssm_norm.weight", .cols = SHAPE_SSD_GROUP,                         \
                        .rows = SHAPE_DELTA_KEY_HEADS, .f32 = true),                                         \
        PARTS_DELTA_ROW(PARTS_OUT, "ssm_out.weight", .cols = SHAPE_DELTA_V, .rows = SHAPE_EMBD)
#define PARTS_MLA                                                                                            \
    {SHAPE_LAYER(q), .name = "attn_q.weight", .cols = SHAPE_EMBD, .rows = SHAPE_MLA_Q,                       \
     .layers = SHAPE_NO_Q_RANK_LAYERS},                                                                      \
        {SHAPE_LAYER(own[PARTS_Q_A]), .name = "attn_q_a.weight", .cols = SHAPE_EMBD,                         \
         .rows = SHAPE_MLA_Q_RANK, .layers = SHAPE_Q_RANK_LAYERS},                                           \
        {SHAPE_LAYER(own[PARTS_Q_A_NORM]), .name = "attn_q_a_norm.weight", .cols = SHAPE_MLA_Q_RANK,         \
         .layers = SHAPE_Q_RANK_LAYERS},                                                                     \
        {SHAPE_LAYER(own[PARTS_Q_B]), .name = "attn_q_b.weight", .cols = SHAPE_MLA_Q_RANK,                   \
         .rows = SHAPE_MLA_Q, .layers = SHAPE_Q_RANK_LAYERS},                                                \
        {SHAPE_LAYER(own[PARTS_KV_A]), .name = "attn_kv_a_mqa.weight", .cols = SHAPE_EMBD,                   \
         .rows = SHAPE_MLA_ROW},                                                                             \
        {SHAPE_LAYER(own[PARTS_KV_A_NORM]), .name = "attn_kv_a_norm.weight", .cols = SHAPE_MLA_KV_RANK},     \
        {SHAPE_LAYER(own[PARTS_KV_B]), .name = "attn_kv_b.weight", .cols = SHAPE_MLA_KV_RANK,                \
         .rows = SHAPE_MLA_KV_B, .optional = true},                                                          \
        {SHAPE_LAYER(own[PARTS_K_B]), .name = "attn_k_b.weight", .cols = SHAPE_MLA_NOPE,                     \
         .rows = SHAPE_MLA_KV_RANK, .matrices = SHAPE_HEADS},                                                \
        {SHAPE_LAYER(own[PARTS_V_B]), .name = "attn_v_b.weight", .cols = SHAPE_MLA_KV_RANK,                  \
         .rows = SHAPE_MLA_V, .matrices = SHAPE_HEADS},                                                      \
    {                                                                                                        \
        SHAPE_LAYER(attn_output), .name = "attn_output.weight", .cols = SHAPE_MLA_HEADS_V,                   \
                                  .rows = SHAPE_EMBD                                                         \
    }
/* Attention in some layers: all of it, and what follows q. */
#define PARTS_FULL_ROW(field, text, c, r)                                                                    \
    { SHAPE_LAYER(field), .name = (text), .cols = (c), .rows = (r), .layers = SHAPE_FULL_LAYERS }
#define PARTS_FULL_ATTENTION PARTS_FULL_ROW(q, "attn_q.weight", SHAPE_EMBD, SHAPE_HEADS_K), PARTS_FULL_REST
#define PARTS_FULL_REST                                                                                      \
    PARTS_FULL_ROW(k, "attn_k.weight", SHAPE_EMBD, SHAPE_KV_K),                                              \
        PARTS_FULL_ROW(v, "attn_v.weight", SHAPE_EMBD, SHAPE_KV_V),                                          \
        PARTS_FULL_ROW(q_norm, "attn_q_norm.weight", SHAPE_HEAD_K, SHAPE_NONE),                              \
        PARTS_FULL_ROW(k_norm, "attn_k_norm.weight", SHAPE_HEAD_K, SHAPE_NONE),                              \
        PARTS_FULL_ROW(attn_output, "attn_output.weight", SHAPE_HEADS_V, SHAPE_EMBD)
/* Attention whose heads of q have gates. */
#define PARTS_GATED_ATTENTION                                                                                \
    PARTS_FULL_ROW(q, "attn_q.weight", SHAPE_EMBD, SHAPE_GATED_HEADS_K), PARTS_FULL_REST
#define PARTS_SHORT_ROW(at, text, c, r, ...)                                                                 \
    {                                                                                                        \
        SHAPE_LAYER(own[at]), .name = (text), .cols = (c), .rows = (r), .layers = SHAPE_CONV_LAYERS,         \
                              __VA_ARGS__                                                                    \
    }
#define PARTS_GATED_CONV                                                                                     \
    PARTS_SHORT_ROW(PARTS_SHORT_IN, "shortconv.in_proj.weight", SHAPE_EMBD, SHAPE_THREE_EMBD, ),             \
        PARTS_SHORT_ROW(PARTS_SHORT_CONV, "shortconv.conv.weight", SHAPE_CONV_TAPS, SHAPE_EMBD,              \
                        .f32 = true),                                                                        \
        PARTS_SHORT_ROW(PARTS_SHORT_OUT, "shortconv.out_proj.weight", SHAPE_EMBD, SHAPE_EMBD, )

/* Of an MTP head, besides an attention layer's. */
#define PARTS_NEXTN                                                                                          \
    {SHAPE_LAYER(nextn.pair), .name = "nextn.eh_proj.weight", .cols = SHAPE_TWO_EMBD, .rows = SHAPE_EMBD},   \
        {SHAPE_LAYER(nextn.enorm), .name = "nextn.enorm.weight", .cols = SHAPE_EMBD},                        \
        {SHAPE_LAYER(nextn.hnorm), .name = "nextn.hnorm.weight", .cols = SHAPE_EMBD},                        \
        {SHAPE_LAYER(nextn.norm), .name = "nextn.shared_head_norm.weight", .cols = SHAPE_EMBD,               \
         .optional = true},                                                                                  \
        {SHAPE_LAYER(nextn.embed), .name = "nextn.embed_tokens.weight", .cols = SHAPE_EMBD,                  \
         .rows = SHAPE_VOCAB, .optional = true},                                                             \
    {                                                                                                        \
        SHAPE_LAYER(nextn.head), .name = "nextn.shared_head_head.weight", .cols = SHAPE_EMBD,                \
                                 .rows = SHAPE_VOCAB, .optional = true                                       \
    }

/* Optional here: parts_check_layer_embd. */
#define PARTS_LAYER_EMBD_GLOBALS                                                                             \
    {SHAPE_GLOBAL(layer_token_embd), .name = "per_layer_token_embd.weight", .cols = SHAPE_ALL_LAYER_EMBD,    \
     .rows = SHAPE_VOCAB, .optional = true},                                                                 \
        {SHAPE_GLOBAL(layer_model_proj), .name = "per_layer_model_proj.weight", .cols = SHAPE_EMBD,          \
         .rows = SHAPE_ALL_LAYER_EMBD, .optional = true},                                                    \
    {                                                                                                        \
        SHAPE_GLOBAL(layer_proj_norm), .name = "per_layer_proj_norm.weight", .cols = SHAPE_LAYER_EMBD,       \
                                       .optional = true                                                      \
    }
#define PARTS_LAYER_EMBD                                                                                     \
    {SHAPE_LAYER(own[PARTS_EMBD_GATE]), .name = "inp_gate.weight", .cols = SHAPE_EMBD,                       \
     .rows = SHAPE_LAYER_EMBD, .optional = true},                                                            \
        {SHAPE_LAYER(own[PARTS_EMBD_OUT]), .name = "proj.weight", .cols = SHAPE_LAYER_EMBD,                  \
         .rows = SHAPE_EMBD, .optional = true},                                                              \
    {                                                                                                        \
        SHAPE_LAYER(own[PARTS_EMBD_NORM]), .name = "post_norm.weight", .cols = SHAPE_EMBD, .optional = true  \
    }

#define PARTS_ROPE_FREQS                                                                                     \
    { SHAPE_GLOBAL(rope_freqs), .name = "rope_freqs.weight", .cols = SHAPE_HALF_ROT, .optional = true }
#define PARTS_LONGROPE                                                                                       \
    {SHAPE_GLOBAL(rope_factors_long), .name = "rope_factors_long.weight", .cols = SHAPE_HALF_ROT,            \
     .optional = true},                                                                                      \
    {                                                                                                        \
        SHAPE_GLOBAL(rope_factors_short), .name = "rope_factors_short.weight", .cols = SHAPE_HALF_ROT,       \
                                          .optional = true                                                   \
    }
#define PARTS_ENDS                                                                                           \
    {SHAPE_GLOBAL(token_embd), .name = "token_embd.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB},        \
        {SHAPE_GLOBAL(output_norm), .name = "output_norm.weight", .cols = SHAPE_EMBD},                       \
        {SHAPE_GLOBAL(output), .name = "output.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB,             \
         .optional = true},                                                                                  \
    {                                                                                                        \
        SHAPE_GLOBAL(classifier), .name = "cls.output.weight", .cols = SHAPE_EMBD, .rows = SHAPE_LABELS,     \
                                  .optional = true                                                           \
    }

#endif
