/* Which tensor gets which type: the mixtures that llama.cpp calls file types (Q4_K_M, ..), by the rules of
 * its quantiser. Pure; no memory of its own.
 *
 * A rule looks at what a tensor is (by its name), at where it lies among its kind, and at a few facts of the
 * model. */
#ifndef STATOR_APP_MIXTURE_H
#define STATOR_APP_MIXTURE_H

#include "model/gguf.h"

#include <stdbool.h>
#include <stdint.h>

struct mixture {
    const char *name;
    uint32_t file_type; /* general.file_type */
    uint32_t type;      /* of tensors without a rule; enum block_type */
    const char *about;
};

/* By name, in any case; NULL: there is none. Aliases: Q3_K, Q4_K, Q5_K are the _M ones. */
const struct mixture *mixture_find(const char *name);
/* All, in the order of their bits; NULL past the last. */
const struct mixture *mixture_at(uint32_t i);

/* Kinds of tensors; MIXTURE_KEPT stays in its type. */
enum mixture_kind {
    MIXTURE_KEPT,
    MIXTURE_OUTPUT, /* also token_embd where that is the output */
    MIXTURE_EMBEDDING,
    MIXTURE_V, /* attn_v, attn_qkv, attn_kv_b */
    MIXTURE_K,
    MIXTURE_Q,
    MIXTURE_ATTENTION_OUTPUT,
    MIXTURE_UP,
    MIXTURE_GATE,
    MIXTURE_DOWN,
    MIXTURE_OTHER
};

/* What the rules know of a model. */
struct mixture_model {
    uint32_t layers;
    uint32_t heads_per_kv; /* 0: unknown */
    uint32_t experts;      /* 0: none */
    uint32_t n_v;          /* tensors of MIXTURE_V */
    bool imatrix;
};

/* A tensor's kind. tied: the file has no output.weight. */
enum mixture_kind mixture_kind_of(const struct gguf_tensor *t, bool tied);
/* N of "blk.N.", or -1. */
int64_t mixture_layer_of(struct gguf_text name);

/* rank: of the tensor among those of its kind, in the order of layers, then of names. */
uint32_t mixture_choose(const struct mixture *m, const struct mixture_model *model,
                        const struct gguf_tensor *t, enum mixture_kind kind, uint32_t rank);

/* A type of so few bits that llama.cpp refuses to write it without an importance matrix of that tensor. */
bool mixture_needs_imatrix(const struct mixture *m, enum mixture_kind kind, uint32_t type);

/* What a tensor gets whose rows are not whole blocks of `type`: a type of smaller blocks, in the end F16; or
 * `type` itself where they are. */
uint32_t mixture_fallback(uint32_t type, uint64_t row);

#endif
