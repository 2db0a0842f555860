/* What qwen4exp has besides other hybrids: hyper-connections (keys ARCH.hyper_connection.*), the indexer of
 * attention (ARCH.attention.indexer.*, ARCH.attention.compress_ratios) and n-gram embeddings (ARCH.ple.*). */
#include "model/shape.h"

#include "base/arith.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    MAX_WIDTH = 1 << 20, /* as in shape.c */
    MAX_STREAMS = 16,
    MAX_INDEX_HEADS = 64,
    MAX_INDEX_DIM = 512, /* KERNELS_MAX_HEAD */
    MAX_TOP_K = 1 << 20,
    MAX_TAPS = 16,    /* KERNELS_MAX_TAPS */
    CACHE_BLOCK = 32, /* tokens of a block of a cache */
    LEAST_RATIO = 4,  /* INDEX_LEAST_RATIO */
    HEAD_STEP = 32
};

stator_status shape_read_streams(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_streams *h = &s->streams;
    stator_status st = shape_read_u32(g, s, "hyper_connection.count", 2, MAX_STREAMS, &h->count, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "hyper_connection.low_rank", 1, MAX_WIDTH, &h->rank, e);
    if (st == STATOR_OK && (uint64_t)h->count * s->n_embd > MAX_WIDTH)
        st = gguf_error(g, e,
                        "%" PRIu32 " streams (%s.hyper_connection.count) of %" PRIu32
                        " values (%s.embedding_length): at most %d values together are supported",
                        h->count, s->arch_name, s->n_embd, s->arch_name, MAX_WIDTH);
    return st;
}

/* An array of integers. */
static stator_status find_integers(const struct gguf *g, const struct shape *s, const char *name,
                                   char key[96], struct gguf_value *v, stator_error *e) {
    snprintf(key, 96, "%s.%s", s->arch_name, name);
    if (!gguf_find(g, key, v))
        return gguf_error(g, e, "key '%s' is missing", key);
    if (v->kind != GGUF_ARRAY)
        return gguf_error(g, e, "key '%s' has type %s, expected an array of integers", key,
                          gguf_kind_name(v->kind));
    if (v->item == GGUF_STRING || v->item == GGUF_F32 || v->item == GGUF_F64 || v->item == GGUF_BOOL)
        return gguf_error(g, e, "key '%s' has type array of %s, expected an array of integers", key,
                          gguf_kind_name(v->item));
    return STATOR_OK;
}

/* 0 in a layer without an indexer; the MTP heads' may follow those of the layers. */
static stator_status read_ratios(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    struct gguf_value v;
    uint32_t first = 0;
    stator_status st = find_integers(g, s, "attention.compress_ratios", key, &v, e);
    if (st != STATOR_OK)
        return st;
    if (v.count != s->n_layers && v.count != (uint64_t)s->n_layers + s->n_nextn)
        return gguf_error(g, e,
                          "key '%s' has %" PRIu64 " items, expected one for each of the %" PRIu32 " layers",
                          key, v.count, s->n_layers);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        const int64_t here = gguf_item_i64(&v, i);
        if (here == 0)
            continue;
        if (here < LEAST_RATIO || here > CACHE_BLOCK || CACHE_BLOCK % here != 0)
            return gguf_error(
                g, e, "key '%s' is %" PRId64 " in layer %" PRIu32 ", expected 0 (no indexer), 4, 8, 16 or 32",
                key, here, i);
        if (!shape_has_attention(s, i))
            return gguf_error(
                g, e, "key '%s' is %" PRId64 " in layer %" PRIu32 ", which has no attention, expected 0", key,
                here, i);
        if (s->index.ratio != 0 && s->index.ratio != here)
            return gguf_error(g, e,
                              "key '%s' differs between layers (%" PRIu32 " in layer %" PRIu32 ", %" PRId64
                              " in layer %" PRIu32 "): expected one number in all layers with an indexer",
                              key, s->index.ratio, first, here, i);
        if (s->index.ratio == 0)
            first = i;
        s->index.ratio = (uint32_t)here;
        s->indexed[i] = true;
    }
    return STATOR_OK;
}

stator_status shape_read_index(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_index *x = &s->index;
    stator_status st = shape_read_u32(g, s, "attention.indexer.head_count", 1, MAX_INDEX_HEADS, &x->heads, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "attention.indexer.key_length", s->n_rot, MAX_INDEX_DIM, &x->dim, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "attention.indexer.top_k", 1, MAX_TOP_K, &x->top_k, e);
    if (st == STATOR_OK)
        st = read_ratios(g, s, e);
    if (st == STATOR_OK && x->dim % HEAD_STEP != 0)
        st = gguf_error(g, e,
                        "key '%s.attention.indexer.key_length' is %" PRIu32 ", expected a multiple of %d",
                        s->arch_name, x->dim, HEAD_STEP);
    if (st == STATOR_OK && x->ratio != 0 && x->top_k % x->ratio != 0)
        st = gguf_error(g, e,
                        "key '%s.attention.indexer.top_k' is %" PRIu32 ", expected a multiple of %" PRIu32
                        " (%s.attention.compress_ratios): whole blocks are chosen",
                        s->arch_name, x->top_k, x->ratio, s->arch_name);
    return st;
}

/* The first n items, each above or equal to `least`. */
static stator_status read_numbers(const struct gguf *g, const struct shape *s, const char *name, uint32_t n,
                                  int64_t least, uint64_t *out, stator_error *e) {
    char key[96];
    struct gguf_value v;
    stator_status st = find_integers(g, s, name, key, &v, e);
    if (st == STATOR_OK && v.count != n)
        st = gguf_error(g, e, "key '%s' has %" PRIu64 " items, expected %" PRIu32, key, v.count, n);
    for (uint32_t i = 0; st == STATOR_OK && i < n; i++) {
        const int64_t here = gguf_item_i64(&v, i);
        if (here < least)
            st = gguf_error(g, e, "item %" PRIu32 " of key '%s' is %" PRId64 ", expected at least %" PRId64,
                            i, key, here, least);
        out[i] = (uint64_t)here;
    }
    return st;
}

static stator_status read_hashes(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_ngram *n = &s->ngram;
    stator_status st = read_numbers(g, s, "ple.layer_multipliers", n->size, INT64_MIN, n->multipliers, e);
    if (st == STATOR_OK)
        st = read_numbers(g, s, "ple.head_vocab_sizes", n->heads, 1, n->sizes, e);
    if (st == STATOR_OK)
        st = read_numbers(g, s, "ple.head_offsets", n->heads, 0, n->offsets, e);
    for (uint32_t h = 0; st == STATOR_OK && h < n->heads; h++)
        if (n->sizes[h] > UINT32_MAX || n->offsets[h] > UINT32_MAX - n->sizes[h])
            st = gguf_error(g, e,
                            "items %" PRIu32
                            " of keys '%s.ple.head_offsets' and '%s.ple.head_vocab_sizes' are "
                            "%" PRIu64 " and %" PRIu64 ": at most 2^32 - 1 rows are supported",
                            h, s->arch_name, s->arch_name, n->offsets[h], n->sizes[h]);
    return st;
}

static stator_status read_ngram_sizes(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_ngram *n = &s->ngram;
    stator_status st = shape_read_u32(g, s, "ple.ngram_size", 2, SHAPE_MAX_NGRAM, &n->size, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "ple.heads_per_ngram", 1, SHAPE_MAX_NGRAM_HEADS / (n->size - 1),
                            &n->heads_each, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "embedding_length_per_layer_input", 1, MAX_WIDTH / SHAPE_MAX_NGRAM_HEADS,
                            &n->dim, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "ple.conv_kernel", 1, MAX_TAPS, &n->taps, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "ple.eos_token_id", 0, INT32_MAX, &n->eos, e);
    n->heads = (n->size - 1) * n->heads_each;
    return st == STATOR_OK ? read_hashes(g, s, e) : st;
}

stator_status shape_read_ngram(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    struct gguf_value v;
    snprintf(key, sizeof key, "%s.ple.layers", s->arch_name);
    if (!gguf_find(g, key, NULL))
        return STATOR_OK;
    stator_status st = find_integers(g, s, "ple.layers", key, &v, e);
    if (st != STATOR_OK || v.count == 0)
        return st;
    const int64_t layer = gguf_item_i64(&v, 0);
    if (v.count > 1)
        return gguf_error(
            g, e, "key '%s' has %" PRIu64 " items: only one layer with n-gram embeddings is supported", key,
            v.count);
    if (layer < 0 || layer >= s->n_layers)
        return gguf_error(g, e, "key '%s' is %" PRId64 ", but the model has layers 0 to %" PRIu32, key, layer,
                          s->n_layers - 1);
    s->ngram.layer = (uint32_t)layer;
    return read_ngram_sizes(g, s, e);
}
