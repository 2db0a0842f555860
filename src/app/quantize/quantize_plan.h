/* What stator quantize will write, before it does: the type of each tensor, files, offsets, headers.
 *
 * Owner: the caller, until quantize_plan_free; the model, the mixture and the importance matrix must live as
 * long. Read-only once made: any thread. */
#ifndef STATOR_APP_QUANTIZE_PLAN_H
#define STATOR_APP_QUANTIZE_PLAN_H

#include "app/options/options.h"
#include "app/quantize/imatrix.h"
#include "app/quantize/mixture.h"

struct quantize_tensor {
    const struct gguf_tensor *from;
    enum mixture_kind kind;
    uint32_t rank;   /* among those of its kind, in the order of layers, then of names */
    uint32_t wanted; /* type by the mixture or by --tensor */
    uint32_t type;   /* that it gets: another where rows are not whole blocks of `wanted` */
    uint32_t shard;  /* file that is written */
    uint64_t offset; /* in that file */
    uint64_t bytes;  /* there */
    uint64_t values;
    const float *weights; /* of the columns (of each expert), or NULL */
};

struct quantize_shard {
    uint8_t *header; /* header, keys and directory, up to the first tensor's offset */
    uint64_t header_bytes;
    uint64_t bytes; /* of the file */
    uint64_t n_tensors;
};

struct quantize_plan {
    const struct gguf *from;
    const struct mixture *mixture;
    const struct imatrix *imatrix; /* or NULL */
    struct mixture_model model;
    struct quantize_tensor *tensors; /* in the order of the files */
    uint64_t n_tensors;
    struct quantize_shard *shards;
    uint32_t n_shards;
    uint64_t alignment;
    uint64_t header_bytes; /* of all shards */
    uint64_t fallbacks;    /* tensors that get another type than wanted */
    uint64_t unweighted;   /* quantised tensors of which the importance matrix knows nothing */
    uint64_t refused;      /* tensors that llama.cpp would not write so without an importance matrix */
    const struct quantize_tensor *first_refused;
    bool from_quantised; /* a tensor that is quantised has lost something before */
};

/* overrides: PATTERN=TYPE each, of which the last one that matches counts. n_shards: of the output. imatrix:
 * NULL, or it was read from imatrix_path. */
stator_status quantize_plan_make(struct quantize_plan *p, const struct gguf *from, const struct mixture *m,
                                 const struct options_list *overrides, const struct imatrix *imatrix,
                                 const char *imatrix_path, uint32_t n_shards, stator_error *e);
void quantize_plan_free(struct quantize_plan *p);
/* Bytes of all files. */
uint64_t quantize_plan_bytes(const struct quantize_plan *p);
/* Bits per weight of all tensors in the files. */
double quantize_plan_bits(const struct quantize_plan *p);

#endif
