/* Tensors that are not in the file: the two halves of a matrix in which K and V of latent attention lie head
 * by head. Private to gguf.c, which reads them for others (gguf_split_heads). Owner: struct gguf. */
#ifndef STATOR_MODEL_GGUF_SPLIT_H
#define STATOR_MODEL_GGUF_SPLIT_H

#include "model/gguf.h"

enum { GGUF_SPLIT_COLUMNS = 512, GGUF_SPLIT_NAME = 64 };

struct gguf_split {
    struct gguf_tensor t;
    const struct gguf_tensor *of; /* NULL: not in use */
    uint32_t k, v;                /* rows of a head of `of` */
    bool turned;                  /* the rows of K, turned; else those of V */
    char name[GGUF_SPLIT_NAME];
};

/* Fills two entries. */
void gguf_split_make(struct gguf_split pair[2], const struct gguf_tensor *of, uint32_t k, uint32_t v);
/* gguf_load of such a tensor; calls gguf_load for rows of `of`. */
stator_status gguf_split_load(const struct gguf *g, const struct gguf_split *s, uint64_t from, uint64_t n,
                              uint8_t *out, stator_error *e);

#endif
