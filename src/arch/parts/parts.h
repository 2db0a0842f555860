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
    uint32_t arrivals; /* value of all attention, or GRAPH_NONE */
    uint32_t angles;   /* of all attention */
    uint32_t kv;       /* cache of all attention */
};

/* Caches, angles, the residual stream, and what it begins with: the embedding, or the device before. Caches
 * of an architecture's own are declared right after it, whichever layers the part has. */
void parts_begin(struct parts *p, struct graph *g, const struct shape *s);
/* The next device, or norm, output matrix and picks. */
void parts_end(struct parts *p);

/* A value "blk.N.name" of the batch's rows, in scratch. */
uint32_t parts_value(struct parts *p, uint32_t layer, const char *name, uint32_t width, uint32_t forms);
/* The forms that products with these matrices want; NULL: none. */
uint32_t parts_forms(const struct gguf_tensor *a, const struct gguf_tensor *b, const struct gguf_tensor *c);
struct graph_norm parts_norm_of(const struct shape *s, uint32_t width);

/* The residual stream normed, as the value "blk.N.name" in these forms. */
uint32_t parts_norm(struct parts *p, uint32_t layer, const char *name, const struct gguf_tensor *weight,
                    uint32_t forms);
/* out += matrix x in (+ bias); out: mostly p->x. */
void parts_add_product(struct parts *p, uint32_t layer, uint32_t in, uint32_t out,
                       const struct gguf_tensor *matrix, const struct gguf_tensor *bias);
/* p->x += grouped-query attention of `normed` with RoPE, over p->kv. */
void parts_attention(struct parts *p, uint32_t layer, uint32_t normed);
/* p->x += down x (silu(gate x normed) * (up x normed)). */
void parts_swiglu(struct parts *p, uint32_t layer, uint32_t normed);

/* A whole builder, and the read of keys of architectures whose pairs are as neox has them. */
void parts_dense(struct graph *g, const struct shape *s);
stator_status parts_read_neox(const struct gguf *g, struct shape *s, stator_error *e);

/* Rows of the tables of tensors. */
#define PARTS_DENSE_LAYER                                                                                    \
    {SHAPE_LAYER(attn_norm), .name = "attn_norm.weight", .cols = SHAPE_EMBD},                                \
        {SHAPE_LAYER(q), .name = "attn_q.weight", .cols = SHAPE_EMBD, .rows = SHAPE_HEADS_K},                \
        {SHAPE_LAYER(k), .name = "attn_k.weight", .cols = SHAPE_EMBD, .rows = SHAPE_KV_K},                   \
        {SHAPE_LAYER(v), .name = "attn_v.weight", .cols = SHAPE_EMBD, .rows = SHAPE_KV_V},                   \
        {SHAPE_LAYER(attn_output), .name = "attn_output.weight", .cols = SHAPE_HEADS_V, .rows = SHAPE_EMBD}, \
        {SHAPE_LAYER(ffn_norm), .name = "ffn_norm.weight", .cols = SHAPE_EMBD},                              \
        {SHAPE_LAYER(gate), .name = "ffn_gate.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF},                \
        {SHAPE_LAYER(up), .name = "ffn_up.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF}, {                  \
        SHAPE_LAYER(down), .name = "ffn_down.weight", .cols = SHAPE_FF, .rows = SHAPE_EMBD                   \
    }

#define PARTS_ENDS                                                                                           \
    {SHAPE_GLOBAL(token_embd), .name = "token_embd.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB},        \
        {SHAPE_GLOBAL(output_norm), .name = "output_norm.weight", .cols = SHAPE_EMBD}, {                     \
        SHAPE_GLOBAL(output), .name = "output.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB,              \
                              .optional = true                                                               \
    }

#endif
